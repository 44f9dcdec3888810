"""Events: public descriptions of one release, or of a schedule of releases.

The rules: the meaning of a field never changes; a new mechanism is a new field
or a new class, and code that does not know it refuses it. An event holds public
facts only.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import numbers
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from skfdp.addresses import public
from skfdp.privacy import facts, schedule
from skfdp.privacy.relations import RELATIONS as RELATIONS
from skfdp.privacy.relations import Relation

#: Whose private part changes between neighbours.
UNITS = ("record", "person")
#: What of a fit's table had no name.
UNNAMED = ("columns", "target")

# Classes of events other than the plain one, by the kind that is written of them.
_KINDS: dict[str, type[Event]] = {}

# Sensitivities are products of float64 factors; a relative excess of this size is
# rounding, a larger one a contradiction.
_ROUNDING = 1e-9
# Where a label set can come from.
_CLASSES_SOURCES = (None, "declared", "data", "public target")
# A release whose noise is smaller than its sensitivity by this factor hides nothing;
# squares of smaller ratios and their sums stay finite.
_LARGEST_RATIO = 1e100


class PrivacyBudgetError(ValueError):
    """Refusal of a release because of what it, and those before it, would disclose."""


class PrivacyWarning(UserWarning):
    """Warning that a fit gives no guarantee: an experiment, not a release."""


class Nameless(enum.Enum):
    """Targets that were disclosed and have no name."""

    TARGET = "the target, which has no name"


def check_budget(epsilon: float, delta: float, *, allow_infinite: bool = False) -> None:
    """Raise ValueError unless epsilon > 0 and 0 < delta < 1."""
    expected = "a positive number: 1.0 is a usual one; at 0 nothing could be released"
    if not facts.number("epsilon", epsilon, expected) > 0:
        raise ValueError(f"epsilon={epsilon!r} must be {expected}.")
    if math.isinf(epsilon) and not allow_infinite:
        raise ValueError(f"epsilon={epsilon!r} must be finite here: pass a number.")
    real = isinstance(delta, numbers.Real) and not isinstance(delta, bool)
    if not real or not 0 < delta < 1:
        raise ValueError(
            f"delta={facts.shown(delta)} must lie strictly between 0 and 1; choose it "
            "below 1/n."
        )


def check_relation(neighboring_relation: str) -> None:
    """Raise ValueError unless the relation is one of `RELATIONS`."""
    Relation.of(neighboring_relation)


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """Gaussian releases of sums whose rows have bounded contributions.

    Each of the ``n_steps`` :term:`releases <release>` is ``sum of clipped contributions
    of a batch + N(0, noise_std[t]**2 I)``; a record is in the batch with probability
    ``sampling_rate``, independently (Poisson sampling), 1 meaning the full batch.

    Parameters
    ----------
    label : str
        Which release this is ("mean", "descent", ...), for people.
    noise_std : tuple of float
        Standard deviation of the noise, in units of the released sum; one number, or
        one for each step. With `noise_decay` the one of the first step.
    clip_norm : float
        L2 bound of one record's contribution, same units.
    sensitivity : float
        Delta: how far the sum over the full batch moves between neighbours, same
        units; at most ``2 * clip_norm`` under ``"replace_one"`` and equal to
        ``clip_norm`` otherwise.
    n_steps : int, default=1
        Number of releases, adaptively composed.
    sampling_rate : float, default=1.0
        Probability per step that a record enters the batch.
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        The relation between neighbours; see :ref:`protected`.
    public_features : tuple of str or int, default=()
        The columns that the fit disclosed, by their names in the table that they come
        from, or by position where they have none.
    public_target : bool, default=False
        Whether the target was disclosed.
    classes_source : {None, "declared", "data", "public target"}, default=None
        Where the label set came from; "data" is an assumption of the report.
    seeded : bool, default=False
        True if the noise came from a user's seed: no guarantee.
    noise_decay : float, default=0.0
        The noise grows from ``noise_std[0]`` as `skfdp.privacy.schedule` says; full
        batches only. 0 is constant noise.
    target_name : str or None, default=None
        Name of the target in the table that it comes from, public or not; None where
        there is no target, or where it has no name.
    unnamed : tuple of {"columns", "target"}, default=()
        What of the fit had no name, public or not.
    unit : {"record", "person"}, default="record"
        Whose private part changes between neighbours: that of one record, or those of
        all records of one person.

    Raises
    ------
    ValueError
        If a field is not of its type or out of range; nothing is converted but NumPy's
        scalars.
    """

    label: str
    noise_std: tuple[float, ...]
    clip_norm: float
    sensitivity: float
    n_steps: int = 1
    sampling_rate: float = 1.0
    neighboring_relation: str = "replace_one"
    public_features: tuple[str | int, ...] = ()
    public_target: bool = False
    classes_source: str | None = None
    seeded: bool = False
    noise_decay: float = 0.0
    target_name: str | None = None
    unnamed: tuple[str, ...] = ()
    unit: str = "record"

    def __init_subclass__(cls, *, kind: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if kind is not None:
            _KINDS[kind] = cls

    def __post_init__(self) -> None:
        check_relation(self.neighboring_relation)
        self._check_names()
        noise = "a tuple of finite positive numbers"
        rate = "a number in (0, 1]; 1 means the full batch"
        # Python floats only: dp_accounting treats other number types differently, and
        # NumPy's integers are not JSON.
        coerced = {
            "label": facts.text("label", self.label),
            "noise_std": tuple(
                facts.number("an entry of noise_std", std, "a finite positive number")
                for std in facts.items("noise_std", self.noise_std, noise)
            ),
            "clip_norm": facts.number("clip_norm", self.clip_norm, "a number"),
            "sensitivity": facts.number("sensitivity", self.sensitivity, "a number"),
            "sampling_rate": facts.number("sampling_rate", self.sampling_rate, rate),
            "n_steps": facts.count("n_steps", self.n_steps),
            "public_features": facts.columns("public_features", self.public_features),
            "public_target": facts.flag("public_target", self.public_target),
            "seeded": facts.flag("seeded", self.seeded),
            "noise_decay": facts.number("noise_decay", self.noise_decay, "a number"),
        }
        for name, value in coerced.items():
            object.__setattr__(self, name, value)
        if not _is_one_of(self.classes_source, _CLASSES_SOURCES):
            raise ValueError(
                f"classes_source={facts.shown(self.classes_source)} is unknown; choose "
                f"one of {', '.join(map(repr, _CLASSES_SOURCES))}."
            )
        if len(self.noise_std) not in (1, self.n_steps):
            raise ValueError(
                f"noise_std has {len(self.noise_std)} entries, expected 1 or "
                f"n_steps={self.n_steps} (at least 1)."
            )
        if not all(std > 0 and math.isfinite(std) for std in self.noise_std):
            raise ValueError(
                "noise_std must hold finite positive numbers: a release without noise "
                "has no privacy guarantee."
            )
        if not 0 < self.sampling_rate <= 1:
            raise ValueError(
                f"sampling_rate={self.sampling_rate!r} must lie in (0, 1]; 1 means the "
                "full batch."
            )
        self._check_what_stays()
        object.__setattr__(self, "unnamed", self._all_unnamed())
        self._check_sensitivity()
        self._check_noise()

    def _check_noise(self) -> None:
        least = min(self.noise_std)
        if self.sensitivity / _LARGEST_RATIO > least:
            raise ValueError(
                f"noise_std={least!r} is nothing beside sensitivity="
                f"{self.sensitivity!r}: such a release has no privacy guarantee."
            )
        if self.noise_decay == 0:
            return
        schedule.check_decay(self.noise_decay, least, self.n_steps)
        if self.sampling_rate < 1 or len(self.noise_std) > 1:
            raise ValueError(
                f"noise_decay={self.noise_decay!r} needs the full batch and one "
                f"noise_std, got sampling_rate={self.sampling_rate!r} and "
                f"{len(self.noise_std)} of them: noise_decay=0 is constant noise."
            )

    def _check_what_stays(self) -> None:
        if self.relation.counts_are_public:
            return
        if self.public_features or self.public_target:
            raise ValueError(
                "an Event under 'add_or_remove_one' cannot have public_features or a "
                "public_target: whole records come and go."
            )
        if self.unit != "record":
            raise ValueError(
                f"unit={self.unit!r} needs rows that stay, and under "
                "'add_or_remove_one' they come and go: use 'replace_special', which "
                "has the same price."
            )

    def _check_names(self) -> None:
        if self.target_name is not None:
            name = facts.spelling(facts.text("target_name", self.target_name))
            if not name:
                raise ValueError(
                    "target_name='' must be a name, or None where the target has none."
                )
            object.__setattr__(self, "target_name", name)
        known = f"a tuple of {', '.join(map(repr, UNNAMED))}"
        unnamed = facts.items("unnamed", self.unnamed, known)
        if not all(_is_one_of(part, UNNAMED) for part in unnamed):
            raise ValueError(f"unnamed={unnamed!r} must be {known}.")
        if not _is_one_of(self.unit, UNITS):
            raise ValueError(
                f"unit={facts.shown(self.unit)} is unknown; choose one of "
                f"{', '.join(map(repr, UNITS))}."
            )

    def _all_unnamed(self) -> tuple[str, ...]:
        """Return `unnamed`, completed by what follows from the other fields."""
        found = set(self.unnamed)
        if any(not isinstance(name, str) for name in self.public_features):
            found.add("columns")
        if self.public_target and self.target_name is None:
            found.add("target")
        return tuple(part for part in UNNAMED if part in found)

    def _check_sensitivity(self) -> None:
        clip, reach = self.clip_norm, self.sensitivity
        if not (clip > 0 and reach > 0 and math.isfinite(clip + reach)):
            raise ValueError(
                f"clip_norm={clip!r} and sensitivity={reach!r} must be finite and "
                "positive."
            )
        if self.relation.replaces:
            if reach > 2 * clip * (1 + _ROUNDING):
                raise ValueError(
                    f"sensitivity={reach!r} exceeds 2 * clip_norm={2 * clip!r}, the "
                    "largest possible under 'replace_one'."
                )
        elif abs(reach - clip) > _ROUNDING * clip:
            raise ValueError(
                f"sensitivity={reach!r} must equal clip_norm={clip!r} under "
                f"{self.neighboring_relation!r}: the neighbour contributes zero."
            )

    @property
    def relation(self) -> Relation:
        """The relation between neighbours, as a value."""
        return Relation.of(self.neighboring_relation)

    @property
    def mu(self) -> float | None:
        """Exact Gaussian-DP parameter of a full-batch event, None if q < 1."""
        if self.sampling_rate < 1:
            return None
        if self.noise_decay:
            first = self.noise_std[0]
            total = schedule.inverse_squares(first, self.n_steps, self.noise_decay)
            return self.sensitivity / first * math.sqrt(total)
        repeats = self.n_steps if len(self.noise_std) == 1 else 1
        return math.sqrt(
            repeats * math.fsum((self.sensitivity / std) ** 2 for std in self.noise_std)
        )

    def own_curve(self) -> Any:
        """Return the privacy curve of an event that is not a plain one."""
        raise TypeError(f"no curve is known of a {type(self).__name__}.")

    def to_dp_accounting(self, neighboring_relation: Any = "add_or_remove_one") -> Any:
        """Return the event in the vocabulary of dp_accounting, for other accountants.

        Parameters
        ----------
        neighboring_relation : str or dp_accounting.NeighboringRelation
            Of the accountant that will read it; the default is theirs. It changes how
            the numbers are written and not what is protected: that is what this
            event's own relation, :attr:`unit` and public part say. An accountant knows
            records; where persons are protected, its records are these persons.

        Returns
        -------
        event : dp_accounting.DpEvent
            Gaussian releases, Poisson-sampled or not, and compositions of them.

        Raises
        ------
        ValueError
            Where no equal event exists: for a `Selection`; for Poisson batches under
            "replace_one" that an accountant under another relation would read, or the
            other way round; for those whose sensitivity is below two clip norms; and
            for noise from a seed.

        Notes
        -----
        **Guarantees.** An accountant of dp_accounting 0.6 under this relation refuses
        the event, or computes a valid bound of its curve; that of its PLD accountant
        is the curve itself, up to its discretisation. With noise of standard
        deviation ``std`` the noise multiplier is ``std / sensitivity`` for accountants
        under "add_or_remove_one" and "replace_special", and ``2 * std / sensitivity``
        under "replace_one".

        Examples
        --------
        >>> from dp_accounting.pld import PLDAccountant
        >>> from skfdp import Event
        >>> event = Event(
        ...     label="mean", noise_std=(3.0,), clip_norm=1.0, sensitivity=2.0
        ... )
        >>> event.to_dp_accounting()
        GaussianDpEvent(noise_multiplier=1.5)
        >>> accountant = PLDAccountant().compose(event.to_dp_accounting())
        >>> print(f"{accountant.get_epsilon(1e-5):.2f}")
        2.75
        """
        from skfdp.privacy import dp_events

        if type(self) is not Event:
            name = type(self).__name__
            dp_events.refuse(f"a {name}", "ours has a theorem of its own")
        if self.seeded:
            dp_events.refuse("noise from a seed", "it guarantees nothing")
        steps = [(self.noise_std[0], self.n_steps)]
        if len(self.noise_std) > 1 or self.noise_decay:
            stds, counts = np.unique(self.step_stds, return_counts=True)
            steps = list(zip(stds.tolist(), counts.tolist(), strict=True))
        return dp_events.gaussian_steps(
            steps,
            clip_norm=self.clip_norm,
            sensitivity=self.sensitivity,
            sampling_rate=self.sampling_rate,
            relation=self.relation,
            reader=dp_events.reader(neighboring_relation),
        )

    @property
    def step_stds(self) -> np.ndarray:
        """Standard deviation of the noise of each step, shape (n_steps,)."""
        if len(self.noise_std) > 1:
            return np.array(self.noise_std)
        return schedule.step_stds(self.noise_std[0], self.n_steps, self.noise_decay)

    def __repr__(self) -> str:
        return facts.short_repr(self)

    @property
    def disclosed(self) -> frozenset[str | int | Nameless]:
        """What of a record the fit left unprotected, the target included."""
        target: set[str | Nameless] = set()
        if self.public_target and self.target_name is not None:
            target = {self.target_name}
        elif self.public_target:
            target = {Nameless.TARGET}
        return frozenset(self.public_features) | target

    @property
    def protects(self) -> tuple[str, str, frozenset]:
        """Relation, unit and what is disclosed: equal in events of one fit."""
        return self.neighboring_relation, self.unit, self.disclosed

    @property
    def fit_facts(self) -> dict[str, Any]:
        """What every event of one fit says alike of its public and private parts."""
        names = ("public_features", "public_target", "target_name", "unnamed", "unit")
        return {name: getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-able values, losslessly."""
        values = dataclasses.asdict(self)
        values["noise_std"] = list(self.noise_std)
        values["public_features"] = list(self.public_features)
        values["unnamed"] = list(self.unnamed)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Event:
        """Rebuild an event; unknown fields are refused, because they may cost."""
        check_mapping("Event", values)
        if "kind" in values:  # not a plain Event; a reader without this line refuses it
            kind = values["kind"]
            known = isinstance(kind, str) and kind in _KINDS
            return _KINDS[kind].from_dict(values) if known else refuse_kind(kind)
        check_fields("Event", cls, values)
        return cls(**values)


def refuse_kind(kind: Any) -> NoReturn:
    """Raise ValueError for a kind of event that is not known."""
    raise ValueError(
        f"Event has the unknown kind {facts.shown(kind)}: it was written by a newer "
        "skfdp; upgrade to read it."
    )


def check_mapping(name: str, values: Any) -> None:
    """Raise ValueError unless values are a mapping."""
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{name} must be a mapping of its fields, not {facts.shown(values)}: pass "
            "what to_dict returned."
        )


def check_fields(name: str, cls: type, values: Mapping[str, Any]) -> None:
    """Raise ValueError unless a mapping has a dataclass's fields, and no others."""
    fields = dataclasses.fields(cls)
    unknown = set(values) - {field.name for field in fields}
    if unknown:
        raise ValueError(
            f"{name} has unknown fields {sorted(map(str, unknown))}: it was written by "
            "a newer skfdp; upgrade to read it."
        )
    for field in fields:
        if field.name not in values:
            raise ValueError(
                f"{name} lacks the field {field.name!r}: pass what to_dict returned."
            )


def _is_one_of(value: Any, known: tuple[str | None, ...]) -> bool:
    return (value is None or isinstance(value, str)) and value in known
