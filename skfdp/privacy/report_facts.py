"""The facts of a privacy report, and how they follow from events."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.accounting import Cost, worst
from skfdp.privacy.assumptions import (
    ONE_STEP,
    Assumption,
    implied_assumptions,
    unseen_assumption,
)
from skfdp.privacy.events import Event, check_budget, check_fields, check_mapping
from skfdp.privacy.preprocessing_steps import Lesson
from skfdp.privacy.public_sets import Disclosed, Part, Promise, check_parts, promise
from skfdp.privacy.store import Receipt, package_versions

# The finding of an audit, as a report keeps it.


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """Finding of one audit: what was claimed, and what was seen.

    An audit can refute a claim and never prove one: `passed` says that this one did
    not refute it. A report takes findings as they are told; they change none of its
    numbers.

    Attributes
    ----------
    audit : str
        Which audit: "replay", "mechanism" or "one run".
    subject : str
        What was audited.
    claimed_epsilon : float
        May be infinite.
    delta : float
        Of both epsilons.
    lower_bound : float
        Epsilon that the outputs showed to be spent; infinite where a replay saw two
        neighbours told apart for sure.
    confidence : float
        Probability, in (0, 1], with which a lower bound of this kind holds; 1 where
        nothing was estimated.
    n_trials : int
        Replays, releases, or canaries, that it rests on.
    passed : bool
        Whether the claim was not refuted.
    version : str
        Of skfdp.
    """

    audit: str
    subject: str
    claimed_epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    n_trials: int
    passed: bool
    version: str

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values; infinite numbers are the string "inf"."""
        values = dataclasses.asdict(self)
        return {k: "inf" if v == math.inf else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Rebuild a finding; ValueError for fields of another type or out of range."""
        check_mapping("Finding", values)
        check_fields("Finding", cls, values)
        found = cls(
            audit=checks.text("audit", values["audit"]),
            subject=checks.text("subject", values["subject"]),
            claimed_epsilon=checks.extended(
                "claimed_epsilon", values["claimed_epsilon"]
            ),
            delta=checks.number("delta", values["delta"], "a number in (0, 1)"),
            lower_bound=checks.extended("lower_bound", values["lower_bound"]),
            confidence=checks.number("confidence", values["confidence"], "in (0, 1]"),
            n_trials=checks.count("n_trials", values["n_trials"]),
            passed=checks.flag("passed", values["passed"]),
            version=checks.text("version", values["version"]),
        )
        if not 0 < found.confidence <= 1:
            raise ValueError(f"confidence={found.confidence!r} must lie in (0, 1].")
        if not 0 < found.delta < 1:
            raise ValueError(f"delta={found.delta!r} must lie in (0, 1).")
        if found.passed and found.lower_bound > found.claimed_epsilon:
            raise ValueError(
                f"passed=True of a finding whose lower_bound={found.lower_bound!r} is "
                f"above claimed_epsilon={found.claimed_epsilon!r}: it was edited; ask "
                "for the original."
            )
        return found

    def __str__(self) -> str:
        """Return it as a sentence."""
        sure = "" if self.confidence == 1 else f" at confidence {self.confidence:.6g}"
        verdict = "did not refute" if self.passed else "REFUTED"
        return (
            f"Audit by {self.audit} of {self.subject}: {self.n_trials} trial(s) "
            f"{verdict} epsilon = {_number(self.claimed_epsilon)} at delta = "
            f"{self.delta:g}; lower bound {_number(self.lower_bound)}{sure}."
        )


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.4g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportFacts:
    """The facts of a report; `PrivacyReport` says what each field means."""

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
    steps: tuple[tuple[str, ReportFacts], ...] = ()
    # Not compared: receipts are random, so two equal fits would differ.
    receipts: tuple[Receipt, ...] = dataclasses.field(default=(), compare=False)
    findings: tuple[Finding, ...] = ()
    versions: dict[str, str] = dataclasses.field(default_factory=package_versions)

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
        steps: Iterable[tuple[str, ReportFacts]] = (),
        receipts: Iterable[Receipt | None] = (),
    ) -> Self:
        """Derive a report from the events and a few public facts.

        Parameters
        ----------
        subject : str
            What was fitted: the class's name.
        events : iterable of Event
            All releases, those of a private mean included; empty for a fit without
            privacy. `skfdp.privacy.promise` says which compose.
        delta : float
            The delta to report epsilon at.
        target_epsilon : float, default=None
            The budget asked for.
        n_records : int, default=None
            Public (nominal) number of records, or of persons.
        feature_names : sequence of str or int, default=None
            All columns, public and private.
        target_name : str, default=None
            None takes that of the events.
        public : collection, default=None
            The public set that was declared; None: the largest one of an event.
        released : iterable of str, default=()
            Names of what is published: fitted attributes.
        assumptions : iterable of Assumption, default=()
            Those of this fit; the ones that follow from the events are added.
        seeded : bool, default=False
            Whether noise came from a seed; a seeded event implies it.
        nonprivate : bool, default=None
            Whether a fit without privacy took part; None: if there are no events.
        accountant : {"auto", "pld"}, default="auto"
            As in `calibrate`.
        parts : sequence of (Part or None), default=()
            The records that each event concerns; empty: all.
        n_fits : int, default=1
            Number of fits counted.
        unseen, steps
            Of a Pipeline: names of steps without report, names and reports of others.
        receipts : iterable of (Receipt or None), default=()
            What the charges returned.
        """
        events = tuple(events)
        check_budget(1.0, delta)
        nonprivate = not events if nonprivate is None else nonprivate
        promised = None if nonprivate or not events else promise(events, public)
        parts = tuple(parts) if any(parts) else ()
        spent = _spent(events, parts, delta, accountant) if events else None
        epsilon = math.inf if nonprivate else spent.epsilon if spent else 0.0
        columns = _public_columns(events, promised)
        seeded = bool(seeded) or any(event.seeded for event in events)
        implied = implied_assumptions(events, seeded, n_fits, parts)
        return cls(
            subject=str(subject),
            released=tuple(map(str, released)),
            epsilon=epsilon,
            delta=float(delta),
            target_epsilon=None if target_epsilon is None else float(target_epsilon),
            neighboring_relation=promised.neighboring_relation if promised else None,
            public_features=columns,
            public_target=bool(promised) and any(e.public_target for e in events),
            target_name=target_name or _common_target(events),
            private_features=_private_features(feature_names, columns, promised),
            n_records=None if n_records is None else int(n_records),
            events=events,
            parts=parts,
            n_fits=int(n_fits),
            mu=spent.mu if spent and not nonprivate else None,
            accountant=spent.accountant if spent else None,
            assumptions=(*implied, *assumptions),
            seeded=seeded,
            unseen=tuple(map(str, unseen)),
            steps=tuple(steps),
            receipts=tuple(receipt for receipt in receipts if receipt is not None),
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
    def shared_assumptions(self) -> tuple[Assumption, ...]:
        """The assumptions that also hold for what this is a step of."""
        own = {ONE_STEP, *(unseen_assumption(name).text for name in self.unseen)}
        return tuple(one for one in self.assumptions if one.text not in own)

    def at_delta(self, delta: float) -> Self:
        """Return the report of the same events at another delta."""
        check_budget(1.0, delta)
        if not self.events or math.isinf(self.epsilon):
            return dataclasses.replace(self, delta=float(delta))
        spent = _spent(self.events, self.parts, delta)
        return dataclasses.replace(
            self, delta=float(delta), **dataclasses.asdict(spent)
        )


def _spent(
    events: tuple[Event, ...],
    parts: tuple[Part | None, ...],
    delta: float,
    accountant: str = "auto",
) -> Cost:
    check_parts(parts)
    places = parts or (None,) * len(events)
    return worst(events, places, float(delta), accountant=accountant)


def plain_names(names: Iterable[Any]) -> tuple[str | int, ...]:
    """Return NumPy's strings and numbers as Python's, for JSON and equality."""
    return tuple(name.item() if hasattr(name, "item") else name for name in names)


def _common_target(events: tuple[Event, ...]) -> str | None:
    """Return the name of the target where all fits that name one have the same."""
    names = {event.target_name for event in events} - {None}
    return names.pop() if len(names) == 1 else None


def _public_columns(
    events: tuple[Event, ...], promised: Promise | None
) -> tuple[str | int, ...]:
    """Return the columns of the public set: as fits disclosed them, then the rest."""
    if promised is None:
        return ()
    columns = dict.fromkeys(name for e in events for name in e.public_features)
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
    names = plain_names(feature_names)
    private = (
        name
        for position, name in enumerate(names)
        if name not in public and position not in public
    )
    return tuple(dict.fromkeys(private))
