"""The privacy report: its facts in words, as a figure and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from skfdp.addresses import public
from skfdp.privacy import checks, events, plotting, report_text
from skfdp.privacy.assumptions import (
    Assumption,
    is_enforced,
    unseen_assumption,
    unseen_step,
)
from skfdp.privacy.events import Event, Relation, check_budget
from skfdp.privacy.preprocessing_steps import LEARNS, Lesson
from skfdp.privacy.public_sets import Part, check_part
from skfdp.privacy.report_facts import Finding, ReportFacts
from skfdp.privacy.report_text import to_html
from skfdp.privacy.store import Receipt, dumps

# Reading a report makes it again from its events.
#
# Guarantees
# ----------
# * Epsilon, mu and the accountant are those that this version computes from the events.
#   A file that states other ones is refused. Epsilon of a privacy loss distribution may
#   differ by another version's discretisation; the accountant then says so.
# * Relation and public set are those of the events. A seed that an event or a step
#   admits is admitted. A composed report has the events of its members, counts all of
#   their fits and lists all that they learnt and all of their unseen steps. A file that
#   states otherwise is refused.
# * The assumptions that follow from the events are derived again, and of the others
#   those are marked as enforced that this version enforces. Each unseen step has an
#   assumption.
#
# A report is not signed: whoever edits the events edits what follows from them. What
# does not follow from them is taken as it is: the number of fits, an unseen step whose
# assumption was removed too, what others learnt, the columns of a Pipeline's table, a
# declared public set that is larger than what was disclosed, the findings of audits.


# Stated numbers may differ from those of the events by rounding, and epsilon of a
# privacy loss distribution by another version's discretisation.
_ROUNDING, _DISCRETISATION = 1e-9, 0.01
# The fields that follow from the events and members.
_FOLLOW = (
    *("epsilon", "mu", "parts", "neighboring_relation", "public_features"),
    *("public_target", "target_name", "private_features", "seeded", "n_fits", "unseen"),
    "learnt",
)

_Report = TypeVar("_Report", bound=ReportFacts)


def rebuilt(stated: _Report) -> _Report:
    """Return a report as its events make it, or raise ValueError if it differs."""
    events = tuple(event for _, step in stated.steps for event in step.events)
    if stated.steps and events != stated.events:
        _refuse(stated, "steps", f"{len(events)} events", f"{len(stated.events)}")
    if len(stated.parts) not in (0, len(stated.events)):
        _refuse(stated, "parts", stated.parts, "none, or one for each event")
    due = _due(stated)
    for name in _FOLLOW:
        value, follows = getattr(stated, name), getattr(due, name)
        if not _agree(value, follows, exact=name != "epsilon" or due.mu is not None):
            _refuse(stated, name, value, follows)
    if (stated.accountant is None) != (due.accountant is None):
        _refuse(stated, "accountant", stated.accountant, due.accountant)
    accountant = due.accountant
    if not _agree(stated.epsilon, due.epsilon, exact=True):
        accountant = (
            f"{due.accountant}; composed again on reading, the file claimed epsilon "
            f"{stated.epsilon!r}"
        )
    return dataclasses.replace(
        stated,
        epsilon=due.epsilon,
        mu=due.mu,
        accountant=accountant,
        assumptions=(*due.assumptions, *_other_assumptions(stated, due)),
    )


def _due(stated: ReportFacts) -> ReportFacts:
    """Return the facts that follow from the events and members of a report."""
    members = [step for _, step in stated.steps]
    # It may be more than was disclosed: a larger set is a weaker claim.
    public = frozenset(stated.public_features).union(
        *(event.disclosed for event in stated.events)
    )
    for part, event in zip(stated.parts, stated.events, strict=False):
        check_part(part, (event,), public)
    nonprivate = any(math.isinf(one.epsilon) for one in (stated, *members))
    closed = all(event.mu is not None for event in stated.events)
    facts = ReportFacts.from_events(
        subject=stated.subject,
        events=stated.events,
        delta=stated.delta,
        parts=stated.parts,
        seeded=any(one.seeded for one in (stated, *members)),
        nonprivate=nonprivate,
        public=public,
        target_name=None if stated.events else stated.target_name,
        accountant="pld" if closed and not nonprivate and stated.mu is None else "auto",
        n_fits=max(
            stated.n_fits, bool(stated.events), sum(step.n_fits for step in members)
        ),
    )
    learnt = (
        dataclasses.replace(one, step=f"{name}__{one.step}")
        for name, step in stated.steps
        for one in step.learnt
    )
    unseen = [f"{name}__{one}" for name, step in stated.steps for one in step.unseen]
    unseen += filter(None, (unseen_step(one.text) for one in stated.assumptions))
    private = stated.private_features
    return dataclasses.replace(
        facts,
        private_features=private and tuple(one for one in private if one not in public),
        learnt=_with_others(stated.learnt, learnt),
        unseen=_with_others(stated.unseen, unseen),
    )


def _with_others(stated: tuple[Any, ...], others: Iterable[Any]) -> tuple[Any, ...]:
    return (*stated, *(one for one in dict.fromkeys(others) if one not in stated))


def _agree(value: Any, due: Any, *, exact: bool) -> bool:
    if not (isinstance(value, float) and isinstance(due, float)):
        return value == due
    return math.isclose(value, due, rel_tol=_ROUNDING if exact else _DISCRETISATION)


def _refuse(stated: ReportFacts, name: str, value: Any, due: Any) -> None:
    raise ValueError(
        f"report of {stated.subject[:80]!r} claims {name}={_text(value)}, its events "
        f"give {_text(due)}: it was edited; ask for the original."
    )


def _text(value: Any) -> str:
    return checks.shown([*map(str, value)] if isinstance(value, tuple) else value)


def _other_assumptions(stated: ReportFacts, due: ReportFacts) -> tuple[Assumption, ...]:
    """Return what is assumed beside what the events imply, by it or by a step."""
    given = [
        *stated.assumptions,
        *(a for _, s in stated.steps for a in s.shared_assumptions),
        *map(unseen_assumption, stated.unseen),
    ]
    marked = {assumption.text for assumption in given if assumption.enforced}
    implied = {assumption.text for assumption in due.assumptions}
    others = dict.fromkeys(one.text for one in given if one.text not in implied)
    return tuple(
        Assumption(text, text in marked and is_enforced(text)) for text in others
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
        return rebuilt(cls(**found))
