"""The privacy report: its facts, what follows from them, and their JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from skfdp.addresses import public
from skfdp.privacy import assumptions, facts
from skfdp.privacy import statement as wording
from skfdp.privacy.composition import Cost, worst
from skfdp.privacy.events import Event, check_budget
from skfdp.privacy.parts import Part, check_parts
from skfdp.privacy.public_sets import (
    Disclosed,
    Promise,
    name_assumptions,
    promise,
)
from skfdp.privacy.relations import Relation
from skfdp.privacy.store import Receipt, dumps, package_versions

SCHEMA = "skfdp-privacy-report"
SCHEMA_VERSION = 1
#: Fields that some stored reports are older than.
_YOUNGER: dict[str, Any] = {"receipts": (), "target_name": None}
# A field of before that is gone: what it may hold in files, which says nothing.
_GONE = {"audit": (None,)}
#: What `to_dict` writes for people and `from_dict` derives again.
DERIVED = (
    "unit_of_privacy",
    "n_is_public",
    "delta_times_n",
    "generator",
    "numerics",
    "not_covered",
    "limits",
)


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class Assumption:
    """A condition of the guarantee, and whether the code enforces it."""

    text: str
    enforced: bool


def enforced(text: str) -> Assumption:
    """Return a sentence of `skfdp.privacy.assumptions` as an enforced assumption."""
    if not assumptions.is_enforced(text):
        raise ValueError(f"no code enforces that {text!r}: list it where others are.")
    return Assumption(text, True)


@public("skfdp.privacy")
class Audit:
    """A name in pickles of before, whose content is not read any more."""

    def __new__(cls, *args: Any, **fields: Any) -> Audit:
        """Raise ValueError: a report must not lose what an attack had shown."""
        raise ValueError(
            f"report holds an audit, which this version does not know: {facts.READ_BY}"
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
        Number of records, public; nominal under "add_or_remove_one".
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
    steps : tuple of (str, PrivacyReport)
        The reports of a Pipeline's steps.
    receipts : tuple of Receipt
        Of the charges to a ledger's file, which `PrivacyLedger.check_report` looks for;
        empty without a file.
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
    steps: tuple[tuple[str, PrivacyReport], ...] = ()
    receipts: tuple[Receipt, ...] = ()
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
        steps: Iterable[tuple[str, PrivacyReport]] = (),
        receipts: Iterable[Receipt | None] = (),
    ) -> PrivacyReport:
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
            Public (nominal) number of records.
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
    def generator(self) -> str:
        """Where the noise came from."""
        return wording.generator_text(self.seeded)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Accesses to the data that the numbers do not count."""
        seen_through = (
            f"Step {name}: this report cannot see what it learnt from the data."
            for name in self.unseen
        )
        return (*seen_through, *wording.NOT_COVERED)

    @property
    def limits(self) -> tuple[str, ...]:
        """What differential privacy does not promise."""
        return wording.LIMITS

    def at_delta(self, delta: float) -> PrivacyReport:
        """Return the report of the same events at another delta."""
        check_budget(1.0, delta)
        if not self.events or math.isinf(self.epsilon):
            return dataclasses.replace(self, delta=float(delta))
        spent = _spent(self.events, self.parts, delta)
        return dataclasses.replace(
            self, delta=float(delta), **dataclasses.asdict(spent)
        )

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
        from skfdp.privacy.plotting import plot_curve

        return plot_curve(self, ax, epsilons)

    def statement(self) -> str:
        """Return the report in plain language, for whoever must answer for it."""
        return wording.statement(self)

    def __repr__(self) -> str:
        return wording.summary(self)

    def _repr_html_(self) -> str:
        return wording.to_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return strictly JSON-able values; infinite numbers are the string "inf"."""
        values: dict[str, Any] = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION}
        names = [field.name for field in dataclasses.fields(self)]
        # Beside epsilon, which is no guarantee if it is true.
        names.remove("seeded")
        names.insert(names.index("epsilon") + 1, "seeded")
        for name in names:
            values[name] = _to_json(getattr(self, name))
        values["steps"] = [
            {"name": name, "report": step.to_dict()} for name, step in self.steps
        ]
        derived = {
            "unit_of_privacy": wording.RELATION_TEXTS.get(
                self.neighboring_relation or "", "nothing is protected"
            ),
            "n_is_public": self.neighboring_relation is None
            or Relation.of(self.neighboring_relation).counts_are_public,
            "delta_times_n": self.n_records and self.delta * self.n_records,
            "generator": self.generator,
            "numerics": wording.NUMERICS,
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
            If it is not a report, has a newer schema, or claims what does not follow
            from its events; see `skfdp.privacy.claims`.
        """
        if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
            raise ValueError(
                f'report must hold "schema": "{SCHEMA}": pass what to_json wrote.'
            )
        version = facts.count("schema_version", values.get("schema_version"))
        if version > SCHEMA_VERSION:
            raise ValueError(
                f"report has schema_version={version!r}, newer than {SCHEMA_VERSION}: "
                "upgrade skfdp."
            )
        values = {**_YOUNGER, **facts.without_gone("report", values, _GONE)}
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
        from skfdp.privacy.claims import checked, restored

        return checked(cls(**restored({name: values[name] for name in names})))


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


def implied_assumptions(
    events: tuple[Event, ...],
    seeded: bool,
    n_fits: int = 1,
    parts: Sequence[Part | None] = (),
) -> Iterator[Assumption]:
    """Yield what the guarantee of these events rests on."""
    if not events:
        return
    yield Assumption("Each person's data are in one record, which appears once.", False)
    if any(event.public_features or event.public_target for event in events):
        yield Assumption("The parts declared public may be disclosed.", False)
    if not events[0].relation.counts_are_public:
        yield Assumption("n_records was not derived from these data.", False)
    yield enforced(assumptions.CLIPPED)
    yield Assumption(
        "Noise and batches come from a secret that nobody else knows.", not seeded
    )
    if any(event.sampling_rate < 1 for event in events):
        yield enforced(assumptions.BATCHES)
    if any(event.classes_source == "data" for event in events):
        yield Assumption(
            "The set of classes is public, though it was read from the private target.",
            False,
        )
    for text in name_assumptions(events, n_fits):
        yield Assumption(text, False)
    if any(parts):
        yield Assumption(
            "A fit on a part used the records of the part alone; rows are counted in "
            "an order of the whole data set that was fixed without looking at private "
            "values.",
            False,
        )
    if n_fits > 1 and any(event.mu is None for event in events):
        # Composing curves is no filter in general, as it is for Gaussian releases.
        yield Assumption(
            "With Poisson batches or searches: the budget of no fit was chosen by "
            "looking at the results of earlier ones.",
            False,
        )


def _to_json(value: Any) -> Any:
    """Return JSON-able values; steps are left to the caller."""
    if isinstance(value, Event):
        return value.to_dict()
    if isinstance(value, Assumption | Part | Receipt):
        return dataclasses.asdict(value)
    if isinstance(value, PrivacyReport):
        return None
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return "inf" if value == math.inf else value
