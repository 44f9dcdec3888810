"""The privacy report: its facts in words, as a figure and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from skfdp.addresses import public
from skfdp.privacy import checks, events, plotting, report_text
from skfdp.privacy.assumptions import (
    Assumption,
    implied_assumptions,
    is_enforced,
    unseen_assumption,
    unseen_step,
)
from skfdp.privacy.events import Event, Relation, check_budget
from skfdp.privacy.preprocessing_steps import LEARNS, Lesson
from skfdp.privacy.public_sets import Disclosed, Part, check_part
from skfdp.privacy.report_facts import Finding, ReportFacts
from skfdp.privacy.report_text import to_html
from skfdp.privacy.store import Receipt, dumps

# Checks that a report that was read claims no more than its events give.
#
# Guarantees
# ----------
# * Epsilon and mu are never below those of the events, which are composed again. What
#   another version's discretisation gave is raised to what this one gives, and the
#   accountant says so; what lies further below is refused.
# * Relation and public set are those of the events; a seed that an event or a step
#   admits is admitted; parts, steps and fits contradict nothing.
# * The assumptions that follow from the events are derived again, and of the others
#   those are marked as enforced that this version enforces. Each unseen step has an
#   assumption. A composed report lists all that its members learnt, and all of their
#   unseen steps.
#
# A report is not signed: whoever edits the events edits what follows from them. What
# does not follow from them is taken as it is: the number of fits, an unseen step whose
# assumption was removed too, what others learnt, the columns of a Pipeline's table, a
# declared public set that is larger than what was disclosed, the findings of audits.


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
        return checks.text("name", value["name"]), report(value["report"])

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
    return tuple(checks.text(f"an entry of {name}", v) for v in _items(name, value))


def _items(name: str, value: Any) -> tuple[Any, ...]:
    return checks.items(name, value, "a list")


def _part(value: Any) -> Part | None:
    """Return a part that somebody could be in."""
    if value is None:
        return None
    part = Part.from_dict(value)
    if part.rows is not None:
        first, end = part.rows
        again = Part.of(
            rows=range(checks.count("rows", first, 0), checks.count("rows", end))
        )
    else:
        again = Part.of(column=part.column, value=part.value)
    if again != part:
        raise ValueError(f"part ({part}) is not in the form in which parts are stored.")
    return part


def _assumption(value: Mapping[str, Any]) -> Assumption:
    return Assumption(
        checks.text("an assumption", value["text"]),
        checks.flag("enforced", value["enforced"]),
    )


def _versions(name: str, value: Mapping[str, Any]) -> dict[str, str]:
    return {checks.text(name, k): checks.text(name, v) for k, v in value.items()}


def _lesson(value: Mapping[str, Any]) -> Lesson:
    learns = checks.text("learns", value["learns"])
    if learns not in LEARNS:
        raise ValueError(f"learns={checks.brief(learns)} must be one of {LEARNS}.")
    return Lesson(
        checks.text("step", value["step"]),
        learns,
        checks.text("reason", value["reason"]),
    )


def _receipt(value: Mapping[str, Any]) -> Receipt:
    return Receipt(
        ledger=checks.text("ledger", value["ledger"]),
        charge=checks.count("charge", value["charge"]),
        head=checks.text("head", value["head"]),
    )


_OPTIONAL = {
    *("target_epsilon", "neighboring_relation", "private_features", "n_records"),
    *("mu", "accountant", "target_name", "public_sources"),
}
_FIELDS: dict[str, Callable[[str, Any], Any]] = {
    "subject": checks.text,
    "released": _texts,
    "epsilon": checks.extended,
    "delta": lambda name, value: checks.number(name, value, "a number"),
    "target_epsilon": checks.extended,
    "neighboring_relation": checks.text,
    "public_features": checks.columns,
    "public_target": checks.flag,
    "target_name": checks.text,
    "private_features": checks.columns,
    "n_records": lambda name, value: checks.count(name, value, 0),
    "events": lambda name, value: tuple(map(Event.from_dict, _items(name, value))),
    "parts": lambda name, value: tuple(map(_part, _items(name, value))),
    "n_fits": lambda name, value: checks.count(name, value, 0),
    "mu": checks.extended,
    "accountant": checks.text,
    "assumptions": lambda name, value: tuple(map(_assumption, _items(name, value))),
    "seeded": checks.flag,
    "unseen": _texts,
    "learnt": lambda name, value: tuple(map(_lesson, _items(name, value))),
    "public_sources": checks.columns,
    "findings": lambda name, value: tuple(map(Finding.from_dict, _items(name, value))),
    "receipts": lambda name, value: tuple(map(_receipt, _items(name, value))),
    "versions": _versions,
}


SCHEMA = "skfdp-privacy-report"
SCHEMA_VERSION = 1
#: What `to_dict` writes for people and `from_dict` derives again.
DERIVED = (
    "guarantee",
    "unit",
    "unit_of_privacy",
    "n_is_public",
    "n_persons",
    "delta_times_n",
    "generator",
    "numerics",
    "not_covered",
    "limits",
)


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyReport(ReportFacts):
    """Report of what a fit, a Pipeline or a ledger disclosed; made by `from_events`.

    Fields are public facts: a report can be published with the model. It pickles and
    survives `to_json` and `read_report`.

    Attributes
    ----------
    subject : str
        What was fitted.
    released : tuple of str
        The outputs that the numbers cover.
    epsilon, delta : float
        What was spent; epsilon is infinite if anything ran without privacy.
    target_epsilon : float or None
        The budget asked for, None if unknown.
    neighboring_relation : str or None
        None if nothing is protected.
    public_features : tuple of str or int
        Columns that are not protected, by name, or by position without one.
    public_target : bool
        Whether the target is not protected.
    target_name : str or None
        Name of the target; None if it has none, or if several fits have different ones
        (the events tell).
    private_features : tuple of str or int, or None
        Columns that are protected; None if the names are not known.
    n_records : int or None
        Number of records, public; nominal under "add_or_remove_one". Of persons where
        these are protected (`unit`).
    events : tuple of Event
        The lossless description of all releases.
    parts : tuple of (Part or None)
        The records that each event concerns, None meaning all; empty if all events
        concern all records. The numbers are those of the most exposed record.
    n_fits : int
        Number of fits counted, those of a search included.
    mu : float or None
        Exact :term:`Gaussian-DP parameter` of the composition, None where it is not
        Gaussian.
    accountant : str or None
        How epsilon was computed, with version and discretisation.
    assumptions : tuple of Assumption
        What the guarantee rests on.
    seeded : bool
        True if noise came from a user's seed: no guarantee.
    unseen : tuple of str
        Pipeline steps that the report cannot see into.
    learnt : tuple of Lesson
        What other steps without a report of their own learnt. If one of them learnt
        from private rows or from a private target, nothing is guaranteed.
    public_sources : tuple of str or int, or None
        Columns of the table that a Pipeline was given from which the public ones of its
        last step were computed; None if that is not known.
    steps : tuple of (str, PrivacyReport)
        The reports of a Pipeline's steps, or of the members of a tool.
    receipts : tuple of Receipt
        Of the charges to a ledger, which `PrivacyLedger.check_report` looks for; empty
        without a ledger. Comparisons leave them out.
    findings : tuple of Finding
        What audits saw; `skfdp.audit` makes them, and they change no number here.
    versions : dict
        Package versions at the time of the fit.
    """

    steps: tuple[tuple[str, PrivacyReport], ...] = ()

    @property
    def guarantee(self) -> bool:
        """Whether epsilon is a guarantee: False with a seed, a leak or a refutation."""
        return report_text.void_text(self) is None and math.isfinite(self.epsilon)

    @property
    def generator(self) -> str:
        """Where the noise came from."""
        return report_text.generator_text(self.seeded)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Accesses to the data that the numbers do not count."""
        return report_text.not_covered(self)

    @property
    def limits(self) -> tuple[str, ...]:
        """What differential privacy does not promise."""
        return report_text.limits(self)

    def plot_curve(self, ax: Any = None, *, epsilons: Any = None) -> Any:
        """Draw delta against epsilon: every pair on the curve is a true guarantee.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        epsilons : array-like of shape (n_points,), default=None
            None: from 0 to twice the report's epsilon.

        Returns
        -------
        ax : matplotlib Axes
        """
        return plotting.plot_curve(self, ax, epsilons)

    def statement(self) -> str:
        """Return the report in plain language, for whoever must answer for it."""
        return report_text.statement(self)

    def to_dp_accounting(self, neighboring_relation: Any = "add_or_remove_one") -> Any:
        """Return all releases as one event of dp_accounting; see `Event`.

        Parameters
        ----------
        neighboring_relation : str or dp_accounting.NeighboringRelation
            Of the accountant that will read it, as in `Event.to_dp_accounting`.

        Returns
        -------
        event : dp_accounting.DpEvent
            The no-op where nothing was released, the non-private event where something
            was released without privacy.

        Raises
        ------
        ValueError
            If an event has no equal one there, if some fits used a part of the records,
            or if the report guarantees nothing.
        """
        if (why := report_text.void_text(self)) is not None:
            events.refuse(f"the report of {self.subject}", f"{why}")
        if any(self.parts):
            events.refuse("a report on fits of parts", "none knows who is in a part")
        if math.isinf(self.epsilon):
            return events.without_privacy()
        found = (event.to_dp_accounting(neighboring_relation) for event in self.events)
        return events.joined([*found])

    def to_registry(self) -> dict[str, Any]:
        """Return a draft for the public registry of differential privacy deployments.

        Returns
        -------
        record : dict
            JSON-able, in the fields of the registry's schema (of July 2026). What a
            report cannot know begins with "TO FILL IN: ".

        Raises
        ------
        ValueError
            If nothing was released with privacy, or if the report guarantees nothing:
            nobody should register an epsilon that does not hold.

        References
        ----------
        https://github.com/opendp/deployments-registry-data
        """
        return report_text.draft(self)

    def __repr__(self) -> str:
        return report_text.summary(self)

    def _repr_html_(self) -> str:
        return to_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return strictly JSON-able values; infinite numbers are the string "inf"."""
        values: dict[str, Any] = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION}
        names = [field.name for field in dataclasses.fields(self)]
        # Beside epsilon, which is no guarantee if they say so.
        for name in ("learnt", "seeded"):
            names.remove(name)
            names.insert(names.index("epsilon") + 1, name)
        for name in names:
            value = getattr(self, name)
            values[name] = "inf" if value == math.inf else value
            if name == "epsilon":
                values["guarantee"] = self.guarantee
        values["findings"] = [finding.to_dict() for finding in self.findings]
        values["steps"] = [
            {"name": name, "report": step.to_dict()} for name, step in self.steps
        ]
        derived = {
            "unit": self.unit,
            "unit_of_privacy": report_text.relation_text(self),
            "n_is_public": self.neighboring_relation is None
            or Relation.of(self.neighboring_relation).counts_are_public,
            "n_persons": self.n_records if self.unit == "person" else None,
            "delta_times_n": self.n_records and self.delta * self.n_records,
            "generator": self.generator,
            "numerics": report_text.NUMERICS,
            "not_covered": list(self.not_covered),
            "limits": list(self.limits),
        }
        return json.loads(dumps(values | derived))

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as text; `read_report` reads it back from a file."""
        return dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Rebuild a report from `to_dict`.

        Raises
        ------
        ValueError
            If it is not a report, has another schema, or claims what does not follow
            from its events; see `skfdp.privacy.report`.
        """
        if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
            raise ValueError(
                f'report must hold "schema": "{SCHEMA}": pass what to_json wrote.'
            )
        version = checks.count("schema_version", values.get("schema_version"))
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"report has schema_version={version!r}, this skfdp reads "
                f"{SCHEMA_VERSION}: read it with the version that wrote it."
            )
        names = [field.name for field in dataclasses.fields(cls)]
        unknown = set(values) - {"schema", "schema_version", *names, *DERIVED}
        if unknown:
            raise ValueError(
                f"report has unknown fields {sorted(map(str, unknown))}: it was "
                "written by a newer skfdp; upgrade to read it."
            )
        for name in names:
            if name not in values:
                raise ValueError(
                    f"report lacks the field {name!r}: pass what to_json wrote."
                )
        found = restored({name: values[name] for name in names}, cls.from_dict)
        return checked(cls(**found))
