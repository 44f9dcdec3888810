"""Checks that a report that was read claims no more than its events give.

Guarantees
----------
* Epsilon and mu are never below those of the events, which are composed again. What
  another version's discretisation gave is raised to what this one gives, and the
  accountant says so; what lies further below is refused.
* Relation and public set are those of the events; a seed that an event or a step admits
  is admitted; parts, steps and fits contradict nothing.
* The assumptions that follow from the events are derived again, and of the others those
  are marked as enforced that this version enforces. Each unseen step has an assumption.
  A composed report lists all that its members learnt, and all of their unseen steps.

A report is not signed: whoever edits the events edits what follows from them. What does
not follow from them is taken as it is: the number of fits, an unseen step whose
assumption was removed too, what others learnt, the columns of a Pipeline's table, a
declared public set that is larger than what was disclosed, the findings of audits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from skfdp.privacy import facts
from skfdp.privacy.assumptions import (
    Assumption,
    implied_assumptions,
    is_enforced,
    unseen_assumption,
    unseen_step,
)
from skfdp.privacy.events import Event, check_budget
from skfdp.privacy.findings import Finding
from skfdp.privacy.parts import Part, check_part
from skfdp.privacy.public_sets import Disclosed
from skfdp.privacy.report_facts import ReportFacts
from skfdp.privacy.steps import LEARNS, Lesson
from skfdp.privacy.store import Receipt

# A claim may differ from what follows by rounding, and where epsilon comes from a
# privacy loss distribution by another version's discretisation.
_ROUNDING, _DISCRETISATION = 1e-9, 0.01

_Report = TypeVar("_Report", bound=ReportFacts)


def checked(claimed: _Report) -> _Report:
    """Return a report whose claims follow from its events, or raise ValueError."""
    if len(claimed.parts) not in (0, len(claimed.events)):
        _refuse(claimed, "parts", claimed.parts, "none, or one for each event")
    shown = {name for event in claimed.events for name in event.public_features}
    if not shown <= set(claimed.public_features):
        _refuse(claimed, "public_features", "fewer columns", "those of the events")
    public = _public_set(claimed)
    for part, event in zip(claimed.parts, claimed.events, strict=False):
        check_part(part, (event,), public)
    nonprivate = math.isinf(claimed.epsilon)
    due = ReportFacts.from_events(
        subject=claimed.subject,
        events=claimed.events,
        delta=claimed.delta,
        parts=claimed.parts,
        seeded=claimed.seeded or any(step.seeded for _, step in claimed.steps),
        nonprivate=nonprivate,
        public=public,
        target_name=None if claimed.events else claimed.target_name,
        n_fits=claimed.n_fits,
    )
    for name in ("neighboring_relation", "public_target", "target_name", "seeded"):
        if getattr(claimed, name) != getattr(due, name):
            _refuse(claimed, name, getattr(claimed, name), getattr(due, name))
    if claimed.public_features != due.public_features:
        _refuse(claimed, "public_features", "other columns", "those of the events")
    if set(claimed.private_features or ()) & public:
        _refuse(claimed, "private_features", "public columns", "others")
    _check_steps(claimed)
    epsilon, accountant = _epsilon(claimed, due)
    return dataclasses.replace(
        claimed,
        epsilon=epsilon,
        mu=_mu(claimed, due),
        accountant=accountant,
        assumptions=_assumptions(claimed),
    )


def _public_set(claimed: ReportFacts) -> frozenset[Disclosed]:
    """Return what a report calls public.

    It may be more than was disclosed: a larger set is a weaker claim.
    """
    targets = (e.disclosed - set(e.public_features) for e in claimed.events)
    return frozenset(claimed.public_features).union(*targets)


def _refuse(claimed: ReportFacts, name: str, value: Any, due: Any) -> None:
    raise ValueError(
        f"report of {claimed.subject[:80]!r} claims {name}={value!r}, its events give "
        f"{due!r}: it was edited; ask for the original."
    )


def _epsilon(claimed: ReportFacts, due: ReportFacts) -> tuple[float, str | None]:
    """Return the larger one of what is claimed and what follows, and how it was got."""
    if (claimed.accountant is None) != (due.accountant is None):
        _refuse(claimed, "accountant", claimed.accountant, due.accountant)
    if math.isinf(due.epsilon):  # claims nothing
        return due.epsilon, claimed.accountant
    below = due.epsilon - claimed.epsilon
    exact = due.mu is not None
    slack = _ROUNDING if exact else _DISCRETISATION
    if not -_DISCRETISATION <= below / max(due.epsilon, 1e-9) <= slack:
        _refuse(claimed, "epsilon", claimed.epsilon, due.epsilon)
    accountant = claimed.accountant
    if below > _ROUNDING * due.epsilon:
        accountant = (
            f"{due.accountant}; composed again on reading, the file claimed epsilon "
            f"{claimed.epsilon!r}"
        )
    return max(claimed.epsilon, due.epsilon), accountant


def _mu(claimed: ReportFacts, due: ReportFacts) -> float | None:
    if claimed.mu is None:  # another accountant, which knows less
        return None
    if due.mu is None or not math.isclose(claimed.mu, due.mu, rel_tol=_ROUNDING):
        _refuse(claimed, "mu", claimed.mu, due.mu)
    return max(claimed.mu, due.mu or 0.0)


def _check_steps(claimed: ReportFacts) -> None:
    """Refuse a composition that leaves out what its steps released."""
    steps = [step for _, step in claimed.steps]
    events = tuple(event for step in steps for event in step.events)
    if steps and events != claimed.events:
        _refuse(claimed, "steps", f"{len(events)} events", f"{len(claimed.events)}")
    if any(math.isinf(step.epsilon) for step in steps) > math.isinf(claimed.epsilon):
        _refuse(claimed, "epsilon", claimed.epsilon, math.inf)
    lessons = {
        dataclasses.replace(one, step=f"{name}__{one.step}")
        for name, step in claimed.steps
        for one in step.learnt
    }
    if not lessons <= set(claimed.learnt):
        _refuse(claimed, "learnt", "fewer steps", "those of its members")
    unseen = {f"{name}__{one}" for name, step in claimed.steps for one in step.unseen}
    unseen.update(filter(None, (unseen_step(a.text) for a in claimed.assumptions)))
    if not unseen <= set(claimed.unseen):
        _refuse(claimed, "unseen", claimed.unseen, tuple(sorted(unseen)))
    least = max(bool(claimed.events), sum(step.n_fits for step in steps))
    if claimed.n_fits < least:
        _refuse(claimed, "n_fits", claimed.n_fits, f"at least {int(least)}")


def _assumptions(claimed: ReportFacts) -> tuple[Assumption, ...]:
    """Return what the events imply, then what else is assumed, by it or by a step."""
    implied = tuple(
        implied_assumptions(
            claimed.events, claimed.seeded, claimed.n_fits, claimed.parts
        )
    )
    known = {assumption.text for assumption in implied}
    given = [
        *claimed.assumptions,
        *(a for _, s in claimed.steps for a in s.shared_assumptions),
        *map(unseen_assumption, claimed.unseen),
    ]
    others = dict.fromkeys(a.text for a in given if a.text not in known)
    marked = {assumption.text for assumption in given if assumption.enforced}
    return (
        *implied,
        *(Assumption(text, text in marked and is_enforced(text)) for text in others),
    )


def restored(
    values: Mapping[str, Any], report: Callable[[Any], ReportFacts]
) -> dict[str, Any]:
    """Return the fields of a report from those of its JSON, each of its type.

    Parameters
    ----------
    values : mapping
    report : callable
        Reads the report of a step.
    """

    def step(value: Mapping[str, Any]) -> tuple[str, ReportFacts]:
        return facts.text("name", value["name"]), report(value["report"])

    def steps(name: str, value: Any) -> tuple[Any, ...]:
        return tuple(map(step, _items(name, value)))

    found: dict[str, Any] = {}
    for name, value in values.items():
        convert = steps if name == "steps" else _FIELDS[name]
        if value is None and name in _OPTIONAL:
            found[name] = None
            continue
        try:
            found[name] = convert(name, value)
        except (TypeError, KeyError, AttributeError):
            raise ValueError(
                f"report holds a field {name!r} of another form: pass what to_json "
                "wrote."
            ) from None
    check_budget(1.0, found["delta"])
    return found


def _texts(name: str, value: Any) -> tuple[str, ...]:
    return tuple(facts.text(f"an entry of {name}", v) for v in _items(name, value))


def _items(name: str, value: Any) -> tuple[Any, ...]:
    return facts.items(name, value, "a list")


def _part(value: Any) -> Part | None:
    """Return a part that somebody could be in."""
    if value is None:
        return None
    part = Part.from_dict(value)
    if part.rows is not None:
        first, end = part.rows
        again = Part.of(
            rows=range(facts.count("rows", first, 0), facts.count("rows", end))
        )
    else:
        again = Part.of(column=part.column, value=part.value)
    if again != part:
        raise ValueError(f"part ({part}) is not in the form in which parts are stored.")
    return part


def _assumption(value: Mapping[str, Any]) -> Assumption:
    return Assumption(
        facts.text("an assumption", value["text"]),
        facts.flag("enforced", value["enforced"]),
    )


def _versions(name: str, value: Mapping[str, Any]) -> dict[str, str]:
    return {facts.text(name, k): facts.text(name, v) for k, v in value.items()}


def _lesson(value: Mapping[str, Any]) -> Lesson:
    learns = facts.text("learns", value["learns"])
    if learns not in LEARNS:
        raise ValueError(f"learns={facts.shown(learns)} must be one of {LEARNS}.")
    return Lesson(
        facts.text("step", value["step"]), learns, facts.text("reason", value["reason"])
    )


def _receipt(value: Mapping[str, Any]) -> Receipt:
    return Receipt(
        ledger=facts.text("ledger", value["ledger"]),
        charge=facts.count("charge", value["charge"]),
        head=facts.text("head", value["head"]),
    )


_OPTIONAL = {
    *("target_epsilon", "neighboring_relation", "private_features", "n_records"),
    *("mu", "accountant", "target_name", "public_sources"),
}
_FIELDS: dict[str, Callable[[str, Any], Any]] = {
    "subject": facts.text,
    "released": _texts,
    "epsilon": facts.extended,
    "delta": lambda name, value: facts.number(name, value, "a number"),
    "target_epsilon": facts.extended,
    "neighboring_relation": facts.text,
    "public_features": facts.columns,
    "public_target": facts.flag,
    "target_name": facts.text,
    "private_features": facts.columns,
    "n_records": lambda name, value: facts.count(name, value, 0),
    "events": lambda name, value: tuple(map(Event.from_dict, _items(name, value))),
    "parts": lambda name, value: tuple(map(_part, _items(name, value))),
    "n_fits": lambda name, value: facts.count(name, value, 0),
    "mu": facts.extended,
    "accountant": facts.text,
    "assumptions": lambda name, value: tuple(map(_assumption, _items(name, value))),
    "seeded": facts.flag,
    "unseen": _texts,
    "learnt": lambda name, value: tuple(map(_lesson, _items(name, value))),
    "public_sources": facts.columns,
    "findings": lambda name, value: tuple(map(Finding.from_dict, _items(name, value))),
    "receipts": lambda name, value: tuple(map(_receipt, _items(name, value))),
    "versions": _versions,
}
