"""The privacy report, derived from the events of a fit or from a file.

A file holds the events and further facts. Reading a file derives the report again.

Guarantees
----------
* Epsilon and mu are those that this version computes from the events. A file with other
  numbers is refused. Only the epsilon of a privacy loss distribution may differ, by the
  discretisation of the version that wrote the file.
* The events of a report that is composed of steps are those of its steps.
* Assumptions are marked as enforced only if this version enforces an assumption with
  the same key. They then have the text of this version.

A report is not signed, and nothing else in a file is checked. A person who edits the
events changes everything that follows from them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skfdp.addresses import public, wing
from skfdp.privacy import checks, report_text
from skfdp.privacy.accounting import Disclosed, composed_guarantee, cost, is_pure
from skfdp.privacy.entries import Receipt, dumps, json_values, package_versions
from skfdp.privacy.events import (
    ASSUMED,
    Assumption,
    Event,
    check_delta,
    implied_assumptions,
    joined,
    recognised,
    refuse,
    unknown_assumption,
)
from skfdp.privacy.preprocessing_steps import StepDependence

_SCHEMA = {"schema": "skfdp-privacy-report", "schema_version": 1}


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyReport:
    """Privacy report of a fit, a Pipeline or a ledger; made by `from_events`.

    Fields are public facts: a report can be published with the model. It can be
    pickled, or written by `to_json` and read by `read_report`.

    Attributes
    ----------
    subject : str
        What was fitted.
    released : tuple of str
        The outputs that epsilon covers.
    epsilon, delta : float
        The privacy spent; epsilon is infinite if anything ran without privacy. Delta is
        0 if all releases are pure.
    target_epsilon : float or None
        The budget, None if unknown.
    neighboring_relation : str or None
        Neighbouring relation of the guarantee; None if nothing is protected.
    public_features : tuple of str or int
        Columns that are not protected: their names, or positions if they have no names.
    public_target : bool
        Whether the target is not protected.
    target_name : str or None
        Name of the target; None if it has no name, or if several fits have different
        targets (see `events`).
    private_features : tuple of str or int, or None
        Columns that are protected; None if the names are not known.
    n_records : int or None
        Number of records, or of persons if persons are protected (`unit`). Under
        "add_or_remove_one" the declared nominal number.
    events : tuple of Event
        The complete description of all releases.
    n_fits : int
        Number of fits counted, including those of a search.
    mu : float or None
        Exact :term:`Gaussian-DP parameter` of the composition, None if it is not
        Gaussian.
    accountant : str or None
        How epsilon was computed, with version and discretisation.
    assumptions : tuple of Assumption
        The conditions of the guarantee.
    seeded : bool
        Whether noise came from a user's seed, which voids the guarantee.
    unknown_steps : tuple of str
        Pipeline steps whose data dependence is unknown.
    learnt : tuple of StepDependence
        What each other step without a report learnt. If a step learnt from private rows
        or from a private target, the guarantee is void.
    public_sources : tuple of str or int, or None
        Columns of a Pipeline's input table from which the public columns of its last
        step were computed; None if unknown.
    steps : tuple of (str, PrivacyReport)
        The reports of a Pipeline's steps, or of the members of a meta-estimator.
    receipts : tuple of Receipt
        Receipts of the charges to a ledger, which `PrivacyLedger.check_report`
        verifies; empty without a ledger. Ignored when reports are compared.
    sha256 : str or None
        SHA-256 of the released numbers of a fit: of the bytes of the arrays named in
        `released`, in this order, as little-endian float64. None for other reports.
        Ignored when reports are compared.
    context : dict
        Facts stated by the owner of the data, not checked; see `report`.
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
    n_fits: int = 1
    mu: float | None = None
    accountant: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    seeded: bool = False
    unknown_steps: tuple[str, ...] = ()
    learnt: tuple[StepDependence, ...] = ()
    public_sources: tuple[str | int, ...] | None = None
    steps: tuple[tuple[str, PrivacyReport], ...] = ()
    # Not compared: receipts are random, so two equal fits would differ.
    receipts: tuple[Receipt, ...] = dataclasses.field(default=(), compare=False)
    sha256: str | None = dataclasses.field(default=None, compare=False)
    context: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

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
        n_fits: int = 1,
        unknown_steps: Iterable[str] = (),
        learnt: Iterable[StepDependence] = (),
        steps: Iterable[tuple[str, PrivacyReport]] = (),
        receipts: Iterable[Receipt | None] = (),
    ) -> PrivacyReport:
        """Derive a report from the events and a few public facts.

        Parameters
        ----------
        subject, delta, target_epsilon, n_records, released, n_fits, unknown_steps
            These parameters, and `learnt` and `receipts`, are as the attributes of the
            same names.
        target_name : str, default=None
            None takes the name from the events.
        events : iterable of Event
            All releases; empty for a fit without privacy. The rules of composition are
            in `skfdp.privacy.composed_guarantee`.
        feature_names : sequence of str or int, default=None
            Names or positions of all columns, public and private.
        public : collection, default=None
            The declared public set; None takes the largest public set of an event.
        assumptions : iterable of Assumption, default=()
            Assumptions of this fit, in addition to those that follow from the events.
        seeded : bool, default=False
            Whether noise came from a seed; a seeded event implies it.
        nonprivate : bool, default=None
            Whether a fit ran without privacy. None means True if there are no events.
        steps : iterable of (str, PrivacyReport), default=()
            Names and reports of the steps. Their seeds, fits, learnt steps, unknown
            steps and assumptions are added to those of this report.
        """
        events, steps = tuple(events), tuple(steps)
        if delta != 0 or not is_pure(events):
            delta = check_delta(delta)
        nonprivate = not events if nonprivate is None else nonprivate
        seeded, named, targets = bool(seeded), set(), set()
        columns: dict[str | int, None] = {}
        for event in events:
            seeded |= event.seeded
            targets |= {event.target_name} if event.public_target else set()
            named.add(event.target_name)
            columns |= dict.fromkeys(event.public_features)
        given, hidden, learnt = [*assumptions], list(unknown_steps), [*learnt]
        known = 0
        for name, step in steps:
            nonprivate |= step.epsilon == math.inf
            seeded |= step.seeded
            known += step.n_fits
            own = {
                ASSUMED["no_step_before"],
                *map(unknown_assumption, step.unknown_steps),
            }
            given += [one for one in step.assumptions if one not in own]
            hidden += [f"{name}__{one}" for one in step.unknown_steps]
            learnt += [
                dataclasses.replace(one, step=f"{name}__{one.step}")
                for one in step.learnt
            ]
        n_fits = max(int(n_fits), bool(events), known)
        guarantee = private = None
        if events and not nonprivate:
            guarantee = composed_guarantee(events, public)
            # The columns of the events, then other declared ones.
            declared = set()
            for name in guarantee.public:
                if isinstance(name, str):
                    declared.add(name)
            columns |= dict.fromkeys(sorted(declared - columns.keys() - targets))
            if feature_names is not None:
                # Events hold names of public columns, or positions if the data have no
                # names.
                disclosed = guarantee.public.union(columns)
                private = dict[str | int, None]()
                for position, name in enumerate(map(checks.plain, feature_names)):
                    if disclosed.isdisjoint((position, name)):
                        private[name] = None
        if not target_name:  # take it from the events, if they agree
            named -= {None}
            target_name = named.pop() if len(named) == 1 else None
        numbers: dict[str, Any] = {"epsilon": math.inf if nonprivate else 0.0}
        if events:
            numbers = dataclasses.asdict(cost(events, delta))
            if nonprivate:
                numbers |= {"epsilon": math.inf, "mu": None}
        given += map(unknown_assumption, hidden)
        # Keep the first of several with one key. Of those that are not of this package
        # the texts are compared, too.
        assumed: dict[tuple[str, str], Assumption] = {}
        for one in (*implied_assumptions(events, seeded, n_fits), *given):
            assumed.setdefault((one.key, "" if one.key in ASSUMED else one.text), one)
        return cls(
            subject=str(subject),
            released=tuple(map(str, released)),
            delta=delta,
            target_epsilon=None if target_epsilon is None else float(target_epsilon),
            neighboring_relation=guarantee.neighboring_relation if guarantee else None,
            public_features=tuple(columns) if guarantee else (),
            public_target=bool(guarantee and targets),
            target_name=target_name,
            private_features=None if private is None else tuple(private),
            n_records=None if n_records is None else int(n_records),
            events=events,
            n_fits=n_fits,
            assumptions=tuple(assumed.values()),
            seeded=seeded,
            unknown_steps=tuple(dict.fromkeys(map(str, hidden))),
            learnt=tuple(dict.fromkeys(learnt)),
            steps=steps,
            receipts=tuple(filter(None, receipts)),
            versions=dict(package_versions()),
            **numbers,
        )

    @property
    def unit(self) -> str | None:
        """The privacy unit: "record", "person", or None if nothing is protected."""
        return None if self.neighboring_relation is None else self.events[0].unit

    @property
    def leaks(self) -> tuple[StepDependence, ...]:
        """Steps that learnt from private values without privacy."""
        return tuple(one for one in self.learnt if one.private)

    def at_delta(self, delta: float) -> PrivacyReport:
        """Return the report of the same events at another delta."""
        delta, numbers = check_delta(delta), {}
        if self.events and math.isfinite(self.epsilon):
            numbers = dataclasses.asdict(cost(self.events, delta))
        return dataclasses.replace(self, delta=delta, **numbers)

    @property
    def guarantee(self) -> bool:
        """Whether the guarantee holds.

        It holds if epsilon is finite, no noise came from a user's seed, and `leaks` is
        empty.
        """
        return report_text.void_text(self) is None and math.isfinite(self.epsilon)

    def statement(self, *, full: bool = False) -> str:
        """Return a page in plain language for people who approve or review the fit.

        Parameters
        ----------
        full : bool, default=False
            Add the annex: definition, columns, assumptions, limits, releases, and how
            the numbers were computed.
        """
        return report_text.statement(self, full=full)

    def __str__(self) -> str:
        return report_text.statement(self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page: statement, trade-off curve and annex."""
        Path(path).write_text(wing("html").document(self), encoding="utf-8")

    def to_registry(self, context: Mapping[str, str] | None = None) -> str:
        """Return an entry of OpenDP's Deployments Registry, as YAML text.

        A comment marks each field that is missing. `tier` is the highest one whose
        fields are all there.

        Parameters
        ----------
        context : dict of str to str, default=None
            Fields that the owner states: name, data_curators, registry_authors (several
            names are separated by "; "), intended_use, description, publication_date
            (YYYY-MM-DD), data_product_region, data_product_sector, release_type,
            release_type_details, data_source_type, justification, sources.

        Raises
        ------
        ValueError
            If the guarantee does not hold, or if the registry does not allow a value.
        """
        if not (self.guarantee and self.events):
            raise ValueError(
                f"the report of {self.subject} has no guarantee to register: its "
                "statement says why."
            )
        stated = checks.texts("context", {} if context is None else context)
        return report_text.registry_entry(self, stated)

    def to_dp_accounting(self, neighboring_relation: Any = "add_or_remove_one") -> Any:
        """Return all releases as one event of dp_accounting; see `Event`.

        Parameters
        ----------
        neighboring_relation : str or dp_accounting.NeighboringRelation
            The relation of the accountant that will read the event, as in
            `Event.to_dp_accounting`.

        Raises
        ------
        ValueError
            If dp_accounting cannot represent an event, or if the guarantee is void.
        """
        if (why := report_text.void_text(self)) is not None:
            refuse(f"the report of {self.subject}", why)
        private = math.isfinite(self.epsilon)
        found = (one.to_dp_accounting(neighboring_relation) for one in self.events)
        return joined([*found] if private else [], private=private)

    def __repr__(self) -> str:
        spent = f"epsilon={report_text.epsilon_text(self)}, delta={self.delta:g}"
        return f"<{report_text.title(self)}: {spent}>"

    def _repr_html_(self) -> str:
        return wing("html").fragment(self)

    def to_dict(self) -> dict[str, Any]:
        """Return strictly JSON-able values; infinite numbers are the string "inf"."""
        names = [field.name for field in dataclasses.fields(self)]
        # Keep the fields that may void the guarantee next to epsilon.
        first = ["subject", "released", "epsilon", "guarantee", "seeded", "learnt"]
        found = {name: getattr(self, name) for name in [*first, *names]}
        found["steps"] = [
            {"name": name, "report": step.to_dict()} for name, step in self.steps
        ]
        return json_values(_SCHEMA | found)

    def to_json(self) -> str:
        """Return `to_dict` as JSON text; `read_report` reads this text from a file."""
        return dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Rebuild a report from the dict of `to_dict`.

        Raises
        ------
        ValueError
            If `values` is not a report, has another schema version, or states another
            epsilon or mu than its events give.
        """
        given = dict(values) if isinstance(values, Mapping) else {}
        given.pop("guarantee", None)
        for name, wanted in _SCHEMA.items():
            if (found := given.pop(name, None)) != wanted or isinstance(found, bool):
                raise ValueError(
                    f"report has {name}={checks.shown(found)}, but this version of "
                    f"skfdp reads {wanted!r}: pass what to_json wrote."
                )
        steps = []
        for step in checks.items("steps", checks.fields(cls, given)["steps"], "a list"):
            if not isinstance(step, Mapping) or set(step) != {"name", "report"}:
                raise ValueError(
                    f"step {checks.shown(step)} must hold a name and a report."
                )
            steps.append((step["name"], step["report"]))
        stated = checks.record(cls, given | {"steps": steps})
        check_context(stated.context)
        return _rebuilt(stated)


def check_context(context: Any) -> dict[str, str]:
    """Return facts that the owner of the data states, or raise ValueError."""
    found = checks.texts("context", context)
    for key, stated in found.items():
        checks.choice("a key of context", key, report_text.CONTEXT)
        if len(stated) > report_text.CONTEXT_SIZE:
            raise ValueError(
                f"context[{key!r}] has {len(stated)} characters: use at most "
                f"{report_text.CONTEXT_SIZE}, so that it fits on the page."
            )
    return found


def _rebuilt(stated: PrivacyReport) -> PrivacyReport:
    """Derive a report again from its events, or raise ValueError if numbers differ."""
    events = tuple(event for _, step in stated.steps for event in step.events)
    if stated.steps and events != stated.events:
        raise ValueError(
            f"report of {stated.subject[:80]!r} states {len(stated.events)} events, "
            f"but its steps have {len(events)} other events, so it was edited: ask for "
            "the original."
        )
    # A report may declare more columns public than its events disclose.
    disclosed = [event.disclosed for event in stated.events]
    public = frozenset(stated.public_features).union(*disclosed)
    given = (  # the fields from which all others are derived
        *("subject", "events", "delta", "target_epsilon", "n_records", "released"),
        *("seeded", "n_fits", "unknown_steps", "learnt", "steps", "receipts"),
    )
    due = PrivacyReport.from_events(
        **{name: getattr(stated, name) for name in given},
        assumptions=map(recognised, stated.assumptions),
        public=public,
        target_name=None if stated.events else stated.target_name,
        nonprivate=math.isinf(stated.epsilon),
    )
    for name in ("epsilon", "mu"):
        value, follows = getattr(stated, name), getattr(due, name)
        # Rounding or, for the epsilon of a privacy loss distribution, the
        # discretisation of another version.
        tolerance = 1e-9 if name == "mu" or due.mu is not None else 0.01
        if value != follows and (
            None in (value, follows)
            or not math.isclose(value, follows, rel_tol=tolerance)
        ):
            raise ValueError(
                f"report of {stated.subject[:80]!r} states {name}={value!r}, but its "
                f"events give {follows!r}, so it was edited: ask for the original."
            )
    kept: Any = {
        name: getattr(stated, name)
        for name in ("private_features", "public_sources", "sha256", "context")
    }
    if (private := stated.private_features) is not None:
        kept["private_features"] = tuple(one for one in private if one not in public)
    return dataclasses.replace(due, **kept, versions=stated.versions)


def read_report(path: str | os.PathLike[str]) -> PrivacyReport:
    """Read a report that was written as ``Path(path).write_text(report.to_json())``.

    Raises
    ------
    ValueError
        If the file is not a report, has another schema, or states another epsilon or
        mu than its events give.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # bad JSON, UTF-8 or path; nested too deeply
        raise ValueError(
            f"path={str(path)!r} is not a JSON file: pass what to_json wrote."
        ) from None
    return PrivacyReport.from_dict(values)
