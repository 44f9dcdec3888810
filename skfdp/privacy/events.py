"""Events, public descriptions of releases, and the assumptions of guarantees.

An event holds public facts only. The meaning of a field never changes. A new mechanism
gets a new field, which older versions of skfdp refuse to read.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from scipy.special import expit

from skfdp.addresses import public
from skfdp.privacy import checks

RELATIONS = ("replace_one", "replace_special", "add_or_remove_one")


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class Relation:
    """A neighbouring relation, given by its name; see :ref:`protected`.

    Notes
    -----
    **Guarantees.** If every possible record contributes to a sum a vector of norm at
    most C, then the sums of two neighbours differ by at most ``sensitivity(C)``:

    * "replace_one": one contribution v becomes w, and ``|v - w| <= |v| + |w| <= 2 C``;
    * "replace_special": one contribution v becomes zero, and ``|v| <= C``;
    * "add_or_remove_one": one contribution v is added or removed, and ``|v| <= C``.

    The bounds also hold at C = 0 and at infinity; NaN gives NaN.

    Examples
    --------
    >>> from skfdp.privacy import Relation
    >>> Relation("replace_one").sensitivity(0.5)
    1.0
    >>> Relation("replace_special").sensitivity(0.5)
    0.5
    """

    name: str
    #: Whether a contribution is replaced by another one, and not by zero.
    replaces: bool = checks.computed()
    #: Whether neighbours have the same number of records.
    counts_are_public: bool = checks.computed()

    def __post_init__(self) -> None:
        checks.choice("neighboring_relation", self.name, RELATIONS)
        vars(self).update(
            replaces=self.name == "replace_one",
            counts_are_public=self.name != "add_or_remove_one",
        )

    @classmethod
    def of(cls, given: str | AddOrRemoveOne) -> Relation:
        """Return the `Relation` for a name or `AddOrRemoveOne`, or raise ValueError."""
        name = "add_or_remove_one" if isinstance(given, AddOrRemoveOne) else given
        known = isinstance(name, str) and name in _RELATIONS
        return _RELATIONS[name] if known else cls(name)

    def sensitivity(self, clip_norm: float, replaced: float | None = None) -> float:
        """Return the sensitivity of a sum of bounded contributions.

        Parameters
        ----------
        clip_norm : float
            L2 bound of one contribution.
        replaced : float, default=None
            Bound of the distance between two possible contributions of one record, if a
            bound below ``2 * clip_norm`` is proved. Used under "replace_one" only. None
            means ``2 * clip_norm``.
        """
        if not self.replaces:
            return clip_norm
        return 2 * clip_norm if replaced is None else replaced


_RELATIONS = {name: Relation(name) for name in RELATIONS}


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class AddOrRemoveOne:
    """Neighbouring relation: one record is added or removed.

    Under this relation the number of records is private, so that methods need a public
    nominal number instead. No part of a record can be public.

    Parameters
    ----------
    n_records : int
        A nominal number of records that was chosen without looking at the data.

    Examples
    --------
    >>> from skfdp import DPSGDFClassifier
    >>> from skfdp.privacy import AddOrRemoveOne
    >>> model = DPSGDFClassifier(neighboring_relation=AddOrRemoveOne(n_records=1000))
    """

    n_records: int

    def __post_init__(self) -> None:
        checks.count("n_records", self.n_records)


# Largest number of steps of a schedule with `noise_decay`, whose noise is stored as an
# array with one entry per step.
_MOST_SCHEDULED = 10**7


def step_stds(noise_std: float, n_steps: int, noise_decay: float) -> np.ndarray:
    r"""Return the standard deviation of the noise of each step, shape (n_steps,).

    Plans, events and the gradient descent all call this function, so that the noise
    that is drawn is exactly the noise that is accounted for. The first step has
    `noise_std`, the least noise, and ``1 / stds[t]**2`` is proportional to ``(1 - t /
    n_steps)**noise_decay``. A decay of 0 is constant noise.

    Notes
    -----
    If the loss has no curvature, the noise variance of a trained weight is the sum of
    ``rates[t]**2 * stds[t]**2`` over the steps t, where ``rates[t]`` is the step size.
    The privacy spent determines the sum of ``1 / stds[t]**2``. For a given sum the
    variance is least if ``1 / stds[t]**2`` is proportional to ``rates[t]``. Step sizes
    decay linearly, which suggests a decay of 1. In measurements 0.75 was best.
    """
    if noise_decay == 0:
        return np.broadcast_to(np.float64(noise_std), (n_steps,))
    return noise_std * (1 - np.arange(n_steps) / n_steps) ** (-noise_decay / 2)


@functools.lru_cache(maxsize=256)
def inverse_squares(noise_std: float, n_steps: int, noise_decay: float) -> float:
    """Return the sum of ``1 / stds**2`` over all steps, divided by the first term."""
    ratios = noise_std / step_stds(noise_std, n_steps, noise_decay)
    return math.fsum(ratios**2)


#: The privacy units. Neighbours differ in the private values of one record, or of all
#: records of one person.
UNITS = ("record", "person")
#: Possible entries of `Event.unnamed`.
UNNAMED = ("columns", "target")
_ZERO = functools.partial(checks.number, expected="0 for a pure release", low=0, high=0)
_POSITIVE_STD = functools.partial(checks.positive, "an entry of noise_std")

#: Sensitivities are products of float64 factors, and epsilon is a root in float64.
#: A relative difference up to this size is rounding; a larger one is a contradiction.
ROUNDING = 1e-9
# Possible sources of the label set.
_CLASSES_SOURCES = (None, "declared", "data", "public target")
# Largest ratio of sensitivity to noise: beyond it there is no privacy. Squares of
# smaller ratios, and sums of these squares, stay finite.
_LARGEST_RATIO = 1e100


class PrivacyBudgetError(ValueError):
    """Refusal of a release that would exceed the budget or break the guarantee."""


class PrivacyWarning(UserWarning):
    """Warning that results have no guarantee, a weak one, or a new ledger."""


def check_budget(epsilon: float, delta: float, *, allow_infinite: bool = False) -> None:
    """Raise ValueError unless epsilon > 0 and 0 < delta < 1."""
    expected = "a positive number: 1.0 is a usual choice"
    checks.number("epsilon", epsilon, expected, 0, closed="right")
    if math.isinf(epsilon) and not allow_infinite:
        raise ValueError(f"epsilon={epsilon!r} must be finite here: pass a number.")
    check_delta(delta)


def check_delta(delta: float) -> float:
    """Return delta as a float, or raise ValueError unless 0 < delta < 1."""
    expected = "a number strictly between 0 and 1: choose it below 1/n"
    return checks.number("delta", delta, expected, 0, 1, closed="neither")


#: Largest advised value of delta times the number of records or persons.
ADVISED = 0.01


def exceeds_advice(delta: float, n: int) -> bool:
    """Whether delta times the number of records or persons is above `ADVISED`."""
    return delta * n > ADVISED * (1 + 1e-9)


def delta_text(delta: float, n: int, unit: str | None) -> str:
    """Compare delta with the advice that delta times n should be at most `ADVISED`.

    Plans, statements and warnings use this rule. The advised delta is rounded down to
    one digit.
    """
    found = f"delta times {unit or 'record'}s is {delta * n:.2g}"
    if not exceeds_advice(delta, n):
        return f"{found}, within the advice of at most {ADVISED:g}"
    digit, _, exponent = f"{ADVISED / n:.6e}".partition("e")
    largest = float(f"{digit[0]}e{exponent}")
    large = "TOO LARGE: " * (delta * n >= 1)
    return (
        f"{large}{found}; the advice is at most {ADVISED:g}, that is {largest:g} here"
    )


def nominal_count(relation: str | AddOrRemoveOne) -> int | None:
    """Return the nominal number of records if the true one is private, else None."""
    if isinstance(relation, AddOrRemoveOne):
        return int(relation.n_records)
    if not Relation.of(relation).counts_are_public:
        raise ValueError(
            f"neighboring_relation={relation!r} makes the number of rows private: pass "
            "AddOrRemoveOne(n_records=...) with a public nominal number."
        )
    return None


#: Epsilon above which a fit warns.
MOST_EPSILON = 10.0


def warn_of_weakness(epsilon: float, random_state: int | None) -> None:
    """Warn, before any charge, of a seed or of an epsilon that protects little.

    The seed is not quoted, because warnings may be logged.
    """
    if random_state is not None:
        checks.warn_caller(
            "random_state is an int: anyone who knows or guesses it can remove the "
            "noise, so this fit gives NO privacy guarantee for any epsilon. Leave it "
            "out for anything you publish. For experiments: "
            "warnings.simplefilter('ignore', skfdp.PrivacyWarning).",
            PrivacyWarning,
        )
    if MOST_EPSILON < epsilon < math.inf:
        odds = math.exp(min(epsilon, 700.0))
        checks.warn_caller(
            f"epsilon={epsilon!r} is above {MOST_EPSILON:g} and protects little: a "
            f"result may be {odds:.2g} times as likely with one person's values as "
            "with others. Values from 0.1 to 3 are usual.",
            PrivacyWarning,
        )


def public_count(
    n_rows: int, n_records: int | None, epsilon: float, delta: float
) -> int:
    """Return `n_records`, the nominal number of records, or `n_rows` if it is None.

    Warn if delta is not below 1 over the result.
    """
    n_public = n_rows if n_records is None else int(n_records)
    if math.isfinite(epsilon) and delta >= 1 / n_public:
        checks.warn_caller(
            f"delta={delta!r} allows a mechanism to publish a random record: "
            f"{delta_text(delta, n_public, None)}.",
            UserWarning,
        )
    return n_public


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """Gaussian releases of sums of bounded contributions, or pure releases.

    Each of the ``n_steps`` :term:`releases <release>` is ``sum of clipped contributions
    of a batch + N(0, noise_std[t]**2 I)``. Each record is in the batch independently
    with probability ``sampling_rate`` (Poisson sampling); 1 means the full batch.

    An event with `pure_epsilon` is of ``n_steps`` releases with pure epsilon-DP, such
    as randomised response, whatever their mechanism.

    Parameters
    ----------
    label : str
        Name of the release ("mean", "descent", ...), for people.
    noise_std : tuple of float
        Standard deviation of the noise, in units of the released sum; one number, or
        one for each step. With `noise_decay`, the standard deviation of the first step.
    clip_norm : float
        L2 bound of one record's contribution, in units of the released sum.
    sensitivity : float
        L2 sensitivity of the sum over the full batch, in units of the released sum. It
        is at most ``2 * clip_norm`` under ``"replace_one"``, and equal to ``clip_norm``
        otherwise.
    n_steps : int, default=1
        Number of releases. They are composed adaptively.
    sampling_rate : float, default=1.0
        Probability per step that a record enters the batch.
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        The relation between neighbours; see :ref:`protected`.
    public_features : tuple of str or int, default=()
        The columns that the fit disclosed, by their names in the original table, or by
        position if they have no names.
    public_target : bool, default=False
        Whether the target was disclosed.
    classes_source : {None, "declared", "data", "public target"}, default=None
        Where the set of classes came from; None if there are no classes. With "data"
        the report states the assumption that this set is public.
    seeded : bool, default=False
        Whether the noise came from a user's seed, which voids the guarantee.
    noise_decay : float, default=0.0
        How fast the noise grows from ``noise_std[0]``, by the formula of `calibrate`;
        full batches only. 0 is constant noise.
    target_name : str or None, default=None
        Name of the target in the original table, public or not; None if there is no
        target, or if it has no name.
    unnamed : tuple of {"columns", "target"}, default=()
        "columns" if columns of the fit's table had no names, and "target" if its target
        had no name.
    unit : {"record", "person"}, default="record"
        The privacy unit. Neighbours differ in the private part of one record, or in
        the private parts of all records of one person.
    pure_epsilon : float, default=0.0
        The epsilon of each of the pure releases. `noise_std` is then ``()``, and
        `clip_norm` and `sensitivity` are 0. 0 means Gaussian releases.

    Raises
    ------
    ValueError
        If a field has a wrong type or is out of range. Only NumPy scalars are
        converted.
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
    pure_epsilon: float = 0.0

    def __post_init__(self) -> None:
        relation = Relation.of(self.neighboring_relation)
        # Python floats only: dp_accounting treats other number types differently, and
        # JSON has no NumPy integers.
        expected = "a tuple of finite positive numbers"
        stds = checks.items("noise_std", self.noise_std, expected)
        known = f"a tuple of {', '.join(map(repr, UNNAMED))}"
        unnamed = set()
        for part in checks.items("unnamed", self.unnamed, known):
            unnamed.add(checks.choice("an entry of unnamed", part, UNNAMED))
        target = self.target_name
        if target is not None:
            target = checks.spelling(checks.text("target_name", target))
            if not target:
                raise ValueError(
                    "target_name='' must be a name, or None if the target has no name."
                )
        expected = "a finite number of at least 0"
        pure = checks.number(
            "pure_epsilon", self.pure_epsilon, expected, 0, closed="left"
        )
        decay = checks.number(
            "noise_decay", self.noise_decay, expected, 0, closed="left"
        )
        size = _ZERO if pure else checks.positive
        values: dict[str, Any] = {
            "label": checks.text("label", self.label),
            "noise_std": tuple(map(_POSITIVE_STD, stds)),
            "clip_norm": size("clip_norm", self.clip_norm),
            "sensitivity": size("sensitivity", self.sensitivity),
            "pure_epsilon": pure,
            "noise_decay": decay,
            "n_steps": checks.count("n_steps", self.n_steps),
            "sampling_rate": checks.number(
                "sampling_rate",
                self.sampling_rate,
                "a number in (0, 1]; 1 means the full batch",
                0,
                1,
                closed="right",
            ),
            "public_features": checks.columns("public_features", self.public_features),
            "public_target": checks.flag("public_target", self.public_target),
            "seeded": checks.flag("seeded", self.seeded),
            "target_name": target,
        }
        checks.choice("classes_source", self.classes_source, _CLASSES_SOURCES)
        checks.choice("unit", self.unit, UNITS)
        counts = (0,) if pure else (1, values["n_steps"])
        if len(values["noise_std"]) not in counts or (pure and self.sampling_rate < 1):
            raise ValueError(
                f"noise_std has {len(values['noise_std'])} entries, expected 1 or "
                f"n_steps={values['n_steps']} (at least 1); a pure release has no "
                "entry, and sampling_rate=1."
            )
        # Complete `unnamed` from the other fields.
        if {*map(type, values["public_features"])} - {str}:
            unnamed.add("columns")
        if values["public_target"] and target is None:
            unnamed.add("target")
        values["unnamed"] = tuple(sorted(unnamed, key=UNNAMED.index))
        vars(self).update(values)
        # Each field is valid by itself; now check the fields against each other.
        least = min(self.noise_std, default=1.0)
        clip, moved = self.clip_norm, self.sensitivity
        if relation.replaces and moved > 2 * clip * (1 + ROUNDING):
            raise ValueError(
                f"sensitivity={moved!r} exceeds 2 * clip_norm={2 * clip!r}, the "
                "largest possible under 'replace_one'."
            )
        if not relation.replaces and abs(moved - clip) > ROUNDING * clip:
            raise ValueError(
                f"sensitivity={moved!r} must equal clip_norm={clip!r} under "
                f"{self.neighboring_relation!r}, because the record contributes zero "
                "in one of two neighbours."
            )
        if moved / _LARGEST_RATIO > least:
            raise ValueError(
                f"noise_std={least!r} is negligible compared with sensitivity="
                f"{moved!r}: such a release has no privacy guarantee."
            )
        if decay and self.n_steps > _MOST_SCHEDULED:
            raise ValueError(
                f"noise_decay={decay!r} needs at most {_MOST_SCHEDULED} steps, got "
                f"n_steps={self.n_steps}: take fewer steps, or constant noise by "
                "noise_decay=0."
            )
        # The last step has the most noise.
        most = math.log(least) + decay / 2 * math.log(2 * self.n_steps)
        if decay and most > math.log(1e300):
            raise ValueError(
                f"noise_decay={decay!r} makes the noise of the last steps infinite: "
                "choose a smaller decay, such as 1."
            )
        if decay and (self.sampling_rate < 1 or len(self.noise_std) != 1):
            raise ValueError(
                f"noise_decay={decay!r} needs the full batch and one noise_std, got "
                f"sampling_rate={self.sampling_rate!r} and {len(self.noise_std)} "
                "entries of noise_std: pass noise_decay=0."
            )
        if relation.counts_are_public:
            return
        if self.public_features or self.public_target:
            raise ValueError(
                "an Event under 'add_or_remove_one' cannot have public_features or a "
                "public_target: whole records are added or removed."
            )
        if self.unit != "record":
            raise ValueError(
                f"unit={self.unit!r} cannot be combined with 'add_or_remove_one', "
                "which adds or removes rows: use 'replace_special', which costs the "
                "same."
            )

    @property
    def relation(self) -> Relation:
        """The neighbouring relation as a `Relation`."""
        return Relation.of(self.neighboring_relation)

    @property
    def mu(self) -> float | None:
        """Exact Gaussian-DP parameter; None for Poisson batches and pure releases."""
        if self.sampling_rate < 1 or self.pure_epsilon:
            return None
        if self.noise_decay:
            first = self.noise_std[0]
            total = inverse_squares(first, self.n_steps, self.noise_decay)
            return self.sensitivity / first * math.sqrt(total)
        repeats = self.n_steps if len(self.noise_std) == 1 else 1
        squares = [(self.sensitivity / std) ** 2 for std in self.noise_std]
        return math.sqrt(repeats * math.fsum(squares))

    def to_dp_accounting(self, neighboring_relation: Any = "add_or_remove_one") -> Any:
        """Return the event as a dp_accounting event, for other accountants.

        Parameters
        ----------
        neighboring_relation : str or dp_accounting.NeighboringRelation
            The relation of the accountant that will read the event. The default is the
            default of dp_accounting. This parameter changes how the event is written,
            not what is protected. If persons are protected, each record of the
            accountant stands for one person.

        Raises
        ------
        ValueError
            If dp_accounting has no equal event. These events have none:

            * events with noise from a seed;
            * Poisson batches, if only one of event and accountant uses "replace_one";
            * Poisson batches, if event and accountant use "replace_one" and the
              sensitivity is below ``2 * clip_norm``.

        Notes
        -----
        **Guarantees.** Every accountant of dp_accounting 0.6 under the relation
        `neighboring_relation` either refuses the returned event, or computes a valid
        upper bound of this event's privacy curve.
        The PLD accountant computes the curve itself, up to discretisation. If the noise
        has standard deviation ``std``, the noise multiplier is ``std / sensitivity``
        for accountants under "add_or_remove_one" and "replace_special", and ``2 * std /
        sensitivity`` for accountants under "replace_one". Pure releases are written as
        binary randomised response, which accountants under "add_or_remove_one" refuse.

        Examples
        --------
        >>> from dp_accounting.pld import PLDAccountant
        >>> from skfdp.privacy import Event
        >>> event = Event(
        ...     label="mean", noise_std=(3.0,), clip_norm=1.0, sensitivity=2.0
        ... )
        >>> event.to_dp_accounting()
        GaussianDpEvent(noise_multiplier=1.5)
        >>> accountant = PLDAccountant().compose(event.to_dp_accounting())
        >>> print(f"{accountant.get_epsilon(1e-5):.2f}")
        2.75
        """
        if self.seeded:
            refuse("noise from a seed", "it has no guarantee")
        from dp_accounting import dp_event  # imported only if it is needed

        reader = neighboring_relation
        if isinstance(reader, enum.Enum):  # dp_accounting's NeighboringRelation
            reader = reader.name.lower()
        replaces = Relation.of(reader).replaces
        if self.sampling_rate < 1:
            if self.relation.replaces != replaces:
                name = self.neighboring_relation
                refuse(
                    f"a Poisson-sampled release under {name!r}, for an accountant "
                    f"under {reader!r},",
                    f"pass neighboring_relation={name!r} here and to the accountant",
                )
            excess = abs(self.sensitivity - 2 * self.clip_norm)
            if replaces and excess > ROUNDING * self.clip_norm:
                refuse(
                    f"a Poisson-sampled release with sensitivity={self.sensitivity!r} "
                    f"and clip_norm={self.clip_norm!r}",
                    "its accountants always assume the sensitivity 2 * clip_norm",
                )
        if self.pure_epsilon:
            # Binary randomised response dominates every pure release.
            share = 2 * float(expit(-self.pure_epsilon))
            # Not a self-composition, whose count the PLD accountant drops here.
            one = dp_event.RandomizedResponseDpEvent(share, 2)
            return joined([one] * self.n_steps)
        # The accountant computes the sensitivity from a bound of the norms of vectors.
        # From the bound `radius` it computes the sensitivity of this event.
        radius = self.sensitivity / 2 if replaces else self.sensitivity
        events = []
        for std, count in self.grouped_stds:
            event: Any = dp_event.GaussianDpEvent(std / radius)
            if self.sampling_rate < 1 or replaces:
                event = dp_event.PoissonSampledDpEvent(self.sampling_rate, event)
            if count > 1:
                event = dp_event.SelfComposedDpEvent(event, count)
            events.append(event)
        return joined(events)

    @property
    def step_stds(self) -> np.ndarray:
        """Standard deviation of the noise of each step; empty for pure releases."""
        if len(self.noise_std) != 1:
            return np.array(self.noise_std)
        return step_stds(self.noise_std[0], self.n_steps, self.noise_decay)

    @property
    def grouped_stds(self) -> list[tuple[float, int]]:
        """Each standard deviation of the noise, and how many steps have it."""
        if len(self.noise_std) == 1 and not self.noise_decay:
            return [(self.noise_std[0], self.n_steps)]
        stds, counts = np.unique(self.step_stds, return_counts=True)
        return list(zip(stds.tolist(), counts.tolist(), strict=True))

    def __str__(self) -> str:
        """Return label, number of releases, noise and sensitivity on one line."""
        name = f"{self.label} x {self.n_steps}"
        if self.pure_epsilon:
            return f"{name}: pure epsilon {self.pure_epsilon:.4g}"
        (low, _), *others = self.grouped_stds
        most = f" to {others[-1][0]:.4g}" if others else ""
        rate = f", batch rate {self.sampling_rate:.3g}" * (self.sampling_rate < 1)
        return (
            f"{name}: noise {low:.4g}{most}, sensitivity {self.sensitivity:.4g}{rate}"
        )

    def __repr__(self) -> str:  # long tuples are shortened
        shown = []
        for name, entry in vars(self).items():
            text = repr(entry)
            if isinstance(entry, tuple) and len(entry) > 6:
                first = ", ".join(map(repr, entry[:5]))
                text = f"({first}, ..., {entry[-1]!r} [{len(entry)} entries])"
            shown.append(f"{name}={text}")
        return f"Event({', '.join(shown)})"

    @property
    def disclosed(self) -> frozenset[str | int | None]:
        """The public columns, and a public target (None if it has no name)."""
        target = [self.target_name] * self.public_target
        return frozenset([*self.public_features, *target])

    @property
    def protects(self) -> tuple[str, str, frozenset]:
        """Relation, privacy unit and public set: equal for all events of one fit."""
        return self.neighboring_relation, self.unit, self.disclosed

    @property
    def fit_facts(self) -> dict[str, Any]:
        """Fields that all events of a fit share: names, public parts, privacy unit."""
        names = ("public_features", "public_target", "target_name", "unnamed", "unit")
        return {name: getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-able values, losslessly.

        Gaussian events have no entry `pure_epsilon`, so that versions without pure
        releases can read them.
        """
        return {
            name: [*value] if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if name != "pure_epsilon" or value
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Event:
        """Rebuild an event from the dict of `to_dict`, or raise ValueError.

        Unknown fields are refused, because a field of a newer version could make the
        release cost more.
        """
        if isinstance(values, Mapping):
            values = {"pure_epsilon": 0.0, **values}
        return cls(**checks.fields(cls, values))


# Conversion to dp_accounting events.
#
# A Gaussian event of dp_accounting sums vectors of norm at most C. Its noise multiplier
# is the standard deviation of the noise divided by C. The accountant's relation decides
# the sensitivity: C if a record is added, removed or made null, 2 C if it is replaced.
# So the event to write depends on the relation of the accountant that reads it.
#
# **Safeguard.** The RDP accountant of dp_accounting 0.6 ignores the factor 2 of
# "replace_one", so its mu would be half of the true one. Therefore under "replace_one"
# a full batch is written as a Poisson sample of rate 1, which is the same mechanism.
# The PLD accountant computes it exactly, and the RDP accountant refuses it.


def joined(events: Sequence[Any], *, private: bool = True) -> Any:
    """Compose dp_accounting events into one event.

    If `private` is false, return the event of a release without privacy.
    """
    from dp_accounting import dp_event

    if not private:
        return dp_event.NonPrivateDpEvent()
    if not events:
        return dp_event.NoOpDpEvent()
    return events[0] if len(events) == 1 else dp_event.ComposedDpEvent([*events])


def refuse(what: str, why: str) -> NoReturn:
    """Raise ValueError: dp_accounting has no event equal to `what`; `why` explains."""
    raise ValueError(f"{what} has no equal event in dp_accounting: {why}.")


# The assumptions of guarantees, and which of them the code enforces.
#
# An assumption is recognised by its key, also in a report that is read from a file. So
# its sentence may be reworded, but a key never changes its meaning: a new meaning gets
# a new key. Only assumptions of this file can be marked as enforced.


@dataclasses.dataclass(frozen=True)
class Assumption:
    """A condition of the guarantee, and whether the code enforces it.

    Attributes
    ----------
    key : str
        Stable name of the condition.
    text : str
        The condition, as a sentence.
    enforced : bool
        Whether the code enforces the condition.
    """

    key: str
    text: str
    enforced: bool = False


# Texts of assumptions that the code enforces, by key.
_ENFORCED = {
    "values_clipped": (
        "Every value is clipped to the declared bounds of its column, and each row's "
        "contribution to a release to a clip norm."
    ),
    "target_clipped": (
        "Every target is clipped to target_bounds before anything is computed from it."
    ),
    "exposure_clipped": (
        "Every exposure is clipped to its declared bounds before anything is computed "
        "from it, and weighs a contribution before this is clipped."
    ),
    "columns_non_negative": (
        "The target is public and every private column is non-negative within its "
        "declared bounds, so that a replaced record changes a sum by at most sqrt(2) "
        "clip_norm."
    ),
    "columns_non_negative_or_centred": (
        "The target is public, and every private column is non-negative within its "
        "bounds (or the released mean is subtracted, and contributions are clipped to "
        "clip_norm / sqrt(2)), so that a replaced record changes a sum by at most "
        "sqrt(2) clip_norm."
    ),
    "only_label_private": (
        "Every column is public, so that a replaced label changes a sum by at most the "
        "difference of the residuals of two labels, times the longest row."
    ),
    "target_randomised": (
        "Every private target is replaced at random, with chances that are checked in "
        "exact integers, before anything is computed from it."
    ),
    "class_weight_from_releases": (
        "class_weight='balanced' corrects the intercept by released or public class "
        "frequencies, and releases nothing itself."
    ),
    "one_bin_per_number": (
        "Every number of a private column is counted in exactly one bin of that column."
    ),
    "bounds_released": (
        "Bounds of private columns were released first, within this budget; those of "
        "public columns are exact and computed from public values only."
    ),
    "values_clipped_to_released_bounds": (
        "Every value is clipped to the bounds of its column, which are public or "
        "released, and each row's contribution to a release to a clip norm."
    ),
    "columns_non_negative_within_released_bounds": (
        "The target is public and every private column is non-negative within its "
        "released bounds, so that a replaced record changes a sum by at most sqrt(2) "
        "clip_norm."
    ),
    "scores_bounded": (
        "A scored record is in one cell of the released table, and each of its losses "
        "is cut to its bound."
    ),
    "fit_in_ledger": (
        "The ledger of this score holds the fit of the model, so that it counts both."
    ),
    "public_columns_followed": (
        "What the last step treats as a public column was computed, row by row, from "
        "public columns of the table that the Pipeline was given and from released "
        "numbers; every column was followed."
    ),
    "person_contributions_clipped": (
        "Every row's contribution to a release is clipped, and the sum over one "
        "person's rows is bounded."
    ),
    "contributions_clipped": "One record's contribution to a release is clipped.",
    "noise_secret": "Noise and batches come from a secret that nobody else knows.",
    "person_batches_secret": (
        "Persons enter batches independently, with all of their rows; batches are not "
        "published."
    ),
    "batches_secret": "Records enter batches independently; batches are not published.",
}
# Texts of assumptions that the code cannot check, by key.
_OPEN = {
    "no_step_before": (
        "No step before this one learnt from the data; see `report(pipeline)`."
    ),
    "public_columns_assumed": (
        "What a step treats as a public column was computed from public columns and "
        "released numbers only; steps may name or count columns differently."
    ),
    "weights_public": (
        "sample_weight derives from nothing private, and may be disclosed."
    ),
    "row_order_public": (
        "max_rows_per_group keeps the first rows of a person, in an order of the table "
        "that depends on nothing private."
    ),
    # Fits refuse stored types that cannot hold what is declared, and name others.
    "stored_types_public": (
        "The stored types of columns and target do not depend on records."
    ),
    "collection_deterministic": (
        "The Dask collection is deterministic: a partition has the same rows whenever "
        "it is computed."
    ),
    "checkpoint_unread": (
        "Only the curator can read the checkpoint file of this fit. It holds the key "
        "of the noise."
    ),
    "classes_public": (
        "The set of classes is public, though it was read from the private target."
    ),
    "limit_counts": (
        "If the budget of a fit was chosen by looking at results of earlier fits, only "
        "the limit of the ledger is guaranteed."
    ),
    "no_limit": (
        "The ledger has no limit, so that no fit is refused for its cost: its owner "
        "must watch the sum."
    ),
    "one_group_per_person": (
        "All rows of one person carry the same id in groups, and ids were not made "
        "from private values."
    ),
    "one_row_per_person": "Each person has one row, which appears once.",
    "every_use_counted": "Every use of these data is counted: fits, scores, tuning.",
    "public_parts_disclosed": "The parts declared public may be disclosed.",
    "n_records_chosen": "n_records was not derived from these data.",
    "one_name_one_column": (
        "One name means one column of one table in every fit, and a column computed "
        "from another one carries its name."
    ),
    "unnamed_targets_equal": (
        "Targets without a name are the same column, or all of them are public, or all "
        "private."
    ),
    "groups_name_same_persons": "The groups of all fits name the same persons.",
    # Budgets may be chosen adaptively only for Gaussian releases (privacy filter).
    "budgets_fixed": (
        "With Poisson batches or pure releases: the budget of no fit was chosen by "
        "looking at the results of earlier ones."
    ),
}
#: The assumptions of this file, by key.
ASSUMED = {
    key: Assumption(key, text, enforced=texts is _ENFORCED)
    for texts in (_ENFORCED, _OPEN)
    for key, text in texts.items()
}
INTEGER_SEED = "integer seed"
#: Assumptions that follow from the events of fits, in the order of a report.
_IMPLIED = [
    ASSUMED[key]
    for key in (
        "one_group_per_person",
        "one_row_per_person",
        "every_use_counted",
        "public_parts_disclosed",
        "n_records_chosen",
        "person_contributions_clipped",
        "contributions_clipped",
        "noise_secret",
        "person_batches_secret",
        "batches_secret",
        "classes_public",
        "one_name_one_column",
        "unnamed_targets_equal",
        "groups_name_same_persons",
        "budgets_fixed",
    )
]
_NOT_SECRET = dataclasses.replace(ASSUMED["noise_secret"], enforced=False)
_IMPLIED_WITH_SEED = tuple(
    _NOT_SECRET if one.key == _NOT_SECRET.key else one for one in _IMPLIED
)


def recognised(stated: Assumption) -> Assumption:
    """Return an assumption that was read from a report, as this version states it.

    An assumption of this file is recognised by its key, and gets the text of this
    version. It is marked as enforced only if both the report and this version mark it.
    Any other assumption is returned unchanged, but never marked as enforced.
    """
    ours = ASSUMED.get(stated.key)
    if ours is None:
        return dataclasses.replace(stated, enforced=False)
    return dataclasses.replace(ours, enforced=ours.enforced and stated.enforced)


def unknown_assumption(step: str) -> Assumption:
    """Return the assumption about a Pipeline step that this package cannot check."""
    return Assumption(
        "step_not_checked",
        f"Step {step} learnt nothing from private values of these records; this report "
        "cannot check that.",
    )


def implied_assumptions(
    events: tuple[Event, ...], seeded: bool, n_fits: int = 1
) -> list[Assumption]:
    """Return the assumptions of a guarantee that follow from the events of its fits."""
    if not events:
        return []
    persons, several = events[0].unit == "person", n_fits > 1
    disclosed = sampled = read = nameless = pure = gaussian = False
    for event in events:
        disclosed |= bool(event.public_features or event.public_target)
        sampled |= event.sampling_rate < 1
        read |= event.classes_source == "data"
        nameless |= "target" in event.unnamed
        pure |= event.pure_epsilon > 0
        gaussian |= not event.pure_epsilon
    nominal = events[0].neighboring_relation == "add_or_remove_one"
    holds = (  # for each of `_IMPLIED`
        *(persons, not persons, True, disclosed, nominal),
        *(persons and gaussian, not persons and gaussian, True),
        *(sampled and persons, sampled and not persons, read, several and disclosed),
        *(several and disclosed and nameless, several and persons),
        several and (sampled or pure),
    )
    return list(itertools.compress(_IMPLIED_WITH_SEED if seeded else _IMPLIED, holds))
