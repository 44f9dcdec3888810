"""The privacy report: facts that follow from events, made from a fit or from a file.

A file holds the events and the facts beside them, and reading makes the report again.

Guarantees
----------
* Epsilon, mu and the accountant are those that this version computes from the events.
  A file that states other ones is refused. Epsilon of a privacy loss distribution may
  differ by another version's discretisation; the accountant then says so.
* Relation and public set are those of the events. A seed that an event or a step
  admits is admitted. A composed report has the events of its members, counts all of
  their fits and lists all that they learnt and all of their unseen steps. A file that
  states otherwise is refused.
* The assumptions that follow from the events are derived again, and of the others
  those are marked as enforced that this version enforces. Each unseen step has an
  assumption.

A report is not signed: whoever edits the events edits what follows from them. What
does not follow from them is taken as it is: the number of fits, an unseen step whose
assumption was removed too, what others learnt, the columns of a Pipeline's table, a
declared public set that is larger than what was disclosed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skfdp.addresses import public
from skfdp.privacy import checks, report_html, report_text
from skfdp.privacy.accounting import worst
from skfdp.privacy.assumptions import (
    ONE_STEP,
    Assumption,
    implied_assumptions,
    is_enforced,
    unseen_assumption,
    unseen_step,
)
from skfdp.privacy.entries import Receipt, dumps, package_versions
from skfdp.privacy.events import Event, check_budget, check_delta, joined, refuse
from skfdp.privacy.preprocessing_steps import Lesson
from skfdp.privacy.public_sets import (
    Disclosed,
    Part,
    Promise,
    check_part,
    check_parts,
    promise,
)

_SCHEMA = {"schema": "skfdp-privacy-report", "schema_version": 1}
# Stated numbers may differ from those of the events by rounding, and epsilon of a
# privacy loss distribution by another version's discretisation.
_ROUNDING, _DISCRETISATION = 1e-9, 0.01
# The fields that follow from the events, the steps and the assumptions.
_FOLLOW = (
    *("epsilon", "mu", "parts", "neighboring_relation", "public_features"),
    *("public_target", "target_name", "private_features", "seeded", "n_fits", "unseen"),
    "learnt",
)


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyReport:
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
    context : dict
        What the owner of the data states, not checked: see `report`.
    versions : dict
        Package versions at the time of the fit.
    """

    subject: str
    released: tuple[str, ...] = ()
    epsilon: float
    delta: float
    target_epsilon: float | None = None
    neighboring_relation: str | None = None
    public_features: tuple[str | int, ...] = ()
    public_target: bool = False
    target_name: str | None = None
    private_features: tuple[str | int, ...] | None = None
    n_records: int | None = None
    events: tuple[Event, ...] = ()
    parts: tuple[Part | None, ...] = ()
    n_fits: int = 1
    mu: float | None = None
    accountant: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    seeded: bool = False
    unseen: tuple[str, ...] = ()
    learnt: tuple[Lesson, ...] = ()
    public_sources: tuple[str | int, ...] | None = None
    steps: tuple[tuple[str, PrivacyReport], ...] = ()
    # Not compared: receipts are random, so two equal fits would differ.
    receipts: tuple[Receipt, ...] = dataclasses.field(default=(), compare=False)
    context: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(
        default_factory=lambda: dict(package_versions())
    )

    @classmethod
    def from_events(
        cls,
        *,
        subject: str,
        events: Iterable[Event],
        delta: float,
        target_epsilon: float | None = None,
        n_records: int | None = None,
        feature_names: Sequence[str | int] | None = None,
        target_name: str | None = None,
        public: Collection[Disclosed] | None = None,
        released: Iterable[str] = (),
        assumptions: Iterable[Assumption] = (),
        seeded: bool = False,
        nonprivate: bool | None = None,
        accountant: str = "auto",
        parts: Sequence[Part | None] = (),
        n_fits: int = 1,
        unseen: Iterable[str] = (),
        learnt: Iterable[Lesson] = (),
        steps: Iterable[tuple[str, PrivacyReport]] = (),
        receipts: Iterable[Receipt | None] = (),
    ) -> PrivacyReport:
        """Derive a report from the events and a few public facts.

        Parameters
        ----------
        subject, delta, target_epsilon, n_records, released, n_fits, unseen, learnt
            As the attributes, and so are `parts` and `receipts`.
        target_name : str, default=None
            None takes that of the events.
        events : iterable of Event
            All releases; empty for a fit without privacy. `skfdp.privacy.promise` says
            which compose.
        feature_names : sequence of str or int, default=None
            All columns, public and private.
        public : collection, default=None
            The public set that was declared; None: the largest one of an event.
        assumptions : iterable of Assumption, default=()
            Those of this fit; the ones that follow from the events are added.
        seeded : bool, default=False
            Whether noise came from a seed; a seeded event implies it.
        nonprivate : bool, default=None
            Whether a fit without privacy took part; None: if there are no events.
        accountant : {"auto", "pld"}, default="auto"
            As in `calibrate`.
        steps : iterable of (str, PrivacyReport), default=()
            Their seeds, fits, lessons, unseen steps and assumptions are those of the
            whole.
        """
        events, steps = tuple(events), tuple(steps)
        check_budget(1.0, delta)
        members = [step for _, step in steps]
        nonprivate = not events if nonprivate is None else nonprivate
        nonprivate = nonprivate or math.inf in [step.epsilon for step in members]
        seeded = any([seeded, *[one.seeded for one in members]])
        seeded = any([seeded, *[one.seeded for one in events]])
        n_fits = max(int(n_fits), bool(events), sum([one.n_fits for one in members]))
        promised = None if nonprivate or not events else promise(events, public)
        columns = _public_columns(events, promised)
        if not target_name:  # that of all fits that name one, if they agree
            named = {event.target_name for event in events} - {None}
            target_name = named.pop() if len(named) == 1 else None
        parts = tuple(parts) if any(parts) else ()
        numbers: dict[str, Any] = {"epsilon": math.inf if nonprivate else 0.0}
        if events:
            numbers = _spent(events, parts, float(delta), accountant)
            if nonprivate:
                numbers |= {"epsilon": math.inf, "mu": None}
        inner = [
            dataclasses.replace(one, step=f"{name}__{one.step}")
            for name, step in steps
            for one in step.learnt
        ]
        given = [*assumptions, *[a for step in members for a in step._shared]]
        hidden = [*unseen, *[f"{name}__{one}" for name, s in steps for one in s.unseen]]
        hidden += filter(None, [unseen_step(one.text) for one in given])
        given += map(unseen_assumption, hidden)
        implied = implied_assumptions(events, seeded, n_fits, parts)
        marks: dict[str, bool] = {}
        for one in (*implied, *given):
            marks.setdefault(one.text, one.enforced)
        return cls(
            subject=str(subject),
            released=tuple(map(str, released)),
            delta=float(delta),
            target_epsilon=None if target_epsilon is None else float(target_epsilon),
            neighboring_relation=promised.neighboring_relation if promised else None,
            public_features=columns,
            public_target=bool(promised) and any([e.public_target for e in events]),
            target_name=target_name,
            private_features=_private_features(feature_names, columns, promised),
            n_records=None if n_records is None else int(n_records),
            events=events,
            parts=parts,
            n_fits=n_fits,
            assumptions=tuple([Assumption(*one) for one in marks.items()]),
            seeded=seeded,
            unseen=tuple(dict.fromkeys(map(str, hidden))),
            learnt=tuple(dict.fromkeys([*learnt, *inner])),
            steps=steps,
            receipts=tuple([one for one in receipts if one is not None]),
            **numbers,
        )

    @property
    def unit(self) -> str | None:
        """Whose private part is protected: "record", "person"; None: nobody's."""
        return None if self.neighboring_relation is None else self.events[0].unit

    @property
    def leaks(self) -> tuple[Lesson, ...]:
        """What steps learnt from private values without privacy."""
        return tuple(lesson for lesson in self.learnt if lesson.private)

    @property
    def _shared(self) -> list[Assumption]:
        """The assumptions that also hold for what this is a step of."""
        own = {ONE_STEP, *(unseen_assumption(name).text for name in self.unseen)}
        return [one for one in self.assumptions if one.text not in own]

    def at_delta(self, delta: float) -> PrivacyReport:
        """Return the report of the same events at another delta."""
        check_budget(1.0, delta)
        numbers: dict[str, Any] = {}
        if self.events and math.isfinite(self.epsilon):
            numbers = _spent(self.events, self.parts, float(delta))
        return dataclasses.replace(self, delta=float(delta), **numbers)

    @property
    def guarantee(self) -> bool:
        """Whether epsilon is a guarantee: False with a seed, or a leak."""
        return report_text.void_text(self) is None and math.isfinite(self.epsilon)

    def statement(self, *, full: bool = False) -> str:
        """Return a page in plain language for people who approve or review the fit.

        Parameters
        ----------
        full : bool, default=False
            Add the annex: definition, columns, assumptions, what is not covered, what
            was released, and how the numbers were computed.
        """
        return report_text.statement(self, full=full)

    def __str__(self) -> str:
        return report_text.statement(self)

    def to_markdown(self) -> str:
        """Return the statement and its annex as Markdown."""
        return report_text.to_markdown(self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page: statement, trade-off curve, table of columns, annex."""
        Path(path).write_text(report_html.document(self), encoding="utf-8")

    def to_dp_accounting(self, neighboring_relation: Any = "add_or_remove_one") -> Any:
        """Return all releases as one event of dp_accounting; see `Event`.

        Parameters
        ----------
        neighboring_relation : str or dp_accounting.NeighboringRelation
            Of the accountant that will read it, as in `Event.to_dp_accounting`.

        Raises
        ------
        ValueError
            If an event has no equal one there, if some fits used a part of the records,
            or if the report guarantees nothing.
        """
        if (why := report_text.void_text(self)) is not None:
            refuse(f"the report of {self.subject}", why)
        if any(self.parts):
            refuse("a report on fits of parts", "none knows who is in a part")
        private = math.isfinite(self.epsilon)
        found = (one.to_dp_accounting(neighboring_relation) for one in self.events)
        return joined([*found] if private else [], private=private)

    def __repr__(self) -> str:
        return report_text.summary(self)

    def _repr_html_(self) -> str:
        return report_html.fragment(self)

    def to_dict(self) -> dict[str, Any]:
        """Return strictly JSON-able values; infinite numbers are the string "inf"."""
        names = [field.name for field in dataclasses.fields(self)]
        # Beside epsilon, which is no guarantee if they say so.
        first = ["subject", "released", "epsilon", "guarantee", "seeded", "learnt"]
        values = dict(_SCHEMA)
        for name in dict.fromkeys([*first, *names]):
            value = getattr(self, name)
            values[name] = "inf" if value == math.inf else value
        values["steps"] = [
            {"name": name, "report": step.to_dict()} for name, step in self.steps
        ]
        return json.loads(dumps(values))

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
        given = dict(values) if isinstance(values, Mapping) else {}
        given.pop("guarantee", None)
        for name, wanted in _SCHEMA.items():
            if (found := given.pop(name, None)) != wanted or isinstance(found, bool):
                raise ValueError(
                    f"report has {name}={checks.brief(found)}, this skfdp reads "
                    f"{wanted!r}: pass what to_json wrote."
                )
        checks.fields(cls, given)
        for field in dataclasses.fields(cls):
            kind, value = str(field.type), given[field.name]
            if value is not None or not kind.endswith(" | None"):
                read = _FROM_JSON[kind.removesuffix(" | None")]
                given[field.name] = read(field.name, value)
        check_delta(given["delta"])
        return _rebuilt(cls(**given))


# From a file: each field by its annotation, then the report that follows from them.


def _each(read: Callable[[Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    return lambda name, value: tuple(map(read, checks.items(name, value, "a list")))


def _each_of(kind: type) -> Callable[[str, Any], tuple[Any, ...]]:
    return _each(lambda value: checks.record(kind, value))


def _part(value: Any) -> Part | None:
    return None if value is None else Part.from_dict(value)


def _step(value: Any) -> tuple[str, PrivacyReport]:
    if not isinstance(value, Mapping) or set(value) != {"name", "report"}:
        raise ValueError(f"step {checks.brief(value)} must hold a name and a report.")
    return checks.text("name", value["name"]), PrivacyReport.from_dict(value["report"])


def texts(name: str, value: Any) -> dict[str, str]:
    """Return a mapping of texts, with the keys and the length of a context if it is."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}={checks.brief(value)} must be a mapping.")
    found = {checks.text(name, k): checks.text(name, v) for k, v in value.items()}
    for key, stated in found.items() if name == "context" else ():
        checks.choice("a key of context", key, report_text.CONTEXT)
        if len(stated) > report_text.CONTEXT_SIZE:
            raise ValueError(
                f"context[{key!r}] has {len(stated)} characters: state it in "
                f"{report_text.CONTEXT_SIZE} at most, so that it fits on the page."
            )
    return found


_FROM_JSON: dict[str, Callable[[str, Any], Any]] = {
    "str": checks.text,
    "bool": checks.flag,
    "int": lambda name, value: checks.count(name, value, 0),
    "float": checks.extended,
    "tuple[str, ...]": _each(lambda value: checks.text("an entry of a list", value)),
    "tuple[str | int, ...]": checks.columns,
    "tuple[Event, ...]": _each(Event.from_dict),
    "tuple[Part | None, ...]": _each(_part),
    "tuple[Assumption, ...]": _each_of(Assumption),
    "tuple[Lesson, ...]": _each_of(Lesson),
    "tuple[Receipt, ...]": _each_of(Receipt),
    "tuple[tuple[str, PrivacyReport], ...]": _each(_step),
    "dict[str, str]": texts,
}


def _rebuilt(stated: PrivacyReport) -> PrivacyReport:
    """Return a report as its events make it, or raise ValueError if it differs."""
    events = tuple(event for _, step in stated.steps for event in step.events)
    if stated.steps and events != stated.events:
        _refuse(stated, "steps", f"{len(events)} events", f"{len(stated.events)}")
    if len(stated.parts) not in (0, len(stated.events)):
        _refuse(stated, "parts", stated.parts, "none, or one for each event")
    # It may be more than was disclosed: a larger set is a weaker claim.
    public = frozenset(stated.public_features).union(
        *(event.disclosed for event in stated.events)
    )
    for part, event in zip(stated.parts, stated.events, strict=False):
        check_part(part, (event,), public)
    nonprivate = math.isinf(stated.epsilon)
    closed = all(event.mu is not None for event in stated.events)
    distributions = closed and not nonprivate and stated.mu is None
    due = PrivacyReport.from_events(
        subject=stated.subject,
        events=stated.events,
        delta=stated.delta,
        parts=stated.parts,
        seeded=stated.seeded,
        nonprivate=nonprivate,
        public=public,
        target_name=None if stated.events else stated.target_name,
        accountant="pld" if distributions else "auto",
        n_fits=stated.n_fits,
        assumptions=[
            Assumption(one.text, one.enforced and is_enforced(one.text))
            for one in stated.assumptions
        ],
        unseen=stated.unseen,
        learnt=stated.learnt,
        steps=stated.steps,
    )
    private = stated.private_features
    if private is not None:
        private = tuple(one for one in private if one not in public)
    due = dataclasses.replace(due, private_features=private)
    for name in _FOLLOW:
        value, follows = getattr(stated, name), getattr(due, name)
        if not _agree(value, follows, exact=name != "epsilon" or due.mu is not None):
            _refuse(stated, name, value, follows)
    accountant = due.accountant
    if (stated.accountant is None) != (accountant is None):
        _refuse(stated, "accountant", stated.accountant, accountant)
    if not _agree(stated.epsilon, due.epsilon, exact=True):
        accountant = (
            f"{accountant}; composed again on reading, the file claimed epsilon "
            f"{stated.epsilon!r}"
        )
    derived = {name: getattr(due, name) for name in ("epsilon", "mu", "assumptions")}
    return dataclasses.replace(stated, accountant=accountant, **derived)


def _agree(value: Any, due: Any, *, exact: bool) -> bool:
    if not (isinstance(value, float) and isinstance(due, float)):
        return value == due
    return math.isclose(value, due, rel_tol=_ROUNDING if exact else _DISCRETISATION)


def _refuse(stated: PrivacyReport, name: str, value: Any, due: Any) -> None:
    claimed, follows = (
        checks.shown([*map(str, one)] if isinstance(one, tuple) else one)
        for one in (value, due)
    )
    raise ValueError(
        f"report of {stated.subject[:80]!r} claims {name}={claimed}, its events give "
        f"{follows}: it was edited; ask for the original."
    )


def read_report(path: str | os.PathLike[str]) -> PrivacyReport:
    """Read a report that was written as ``Path(path).write_text(report.to_json())``.

    Raises
    ------
    ValueError
        If the file is not a report, has another schema, or was edited.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path={checks.shown(path)} must be the path of a file.")
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # of JSON, UTF-8, a path; deep, or too long
        raise ValueError(
            f"path={str(path)!r} is not a JSON file: pass what to_json wrote."
        ) from None
    return PrivacyReport.from_dict(values)


# From events: what is public, what is private, and what was spent.


def _spent(
    events: tuple[Event, ...],
    parts: tuple[Part | None, ...],
    delta: float,
    accountant: str = "auto",
) -> dict[str, Any]:
    """Return epsilon, mu and the accountant."""
    if parts:
        check_parts(parts)
    places = parts or (None,) * len(events)
    return dataclasses.asdict(worst(events, places, delta, accountant=accountant))


def _public_columns(
    events: tuple[Event, ...], promised: Promise | None
) -> tuple[str | int, ...]:
    """Return the columns of the public set: as fits disclosed them, then the rest."""
    if promised is None:
        return ()
    columns = dict.fromkeys([name for e in events for name in e.public_features])
    targets = {event.target_name for event in events if event.public_target}
    declared = {name for name in promised.public if isinstance(name, str)}
    return (*columns, *sorted(declared - columns.keys() - targets))


def _private_features(
    feature_names: Sequence[str | int] | None,
    public_columns: tuple[str | int, ...],
    promised: Promise | None,
) -> tuple[str | int, ...] | None:
    if feature_names is None or promised is None:
        return None
    # Events name public columns, or count them where the data have no names.
    public = frozenset(public_columns) | promised.public
    names = tuple(map(checks.plain, feature_names))
    private = [
        name
        for position, name in enumerate(names)
        if name not in public and position not in public
    ]
    return tuple(dict.fromkeys(private))
