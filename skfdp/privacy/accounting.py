"""Privacy curves of compositions of events, and the least noise within a budget.

Guarantees
----------
* Full-batch Gaussian releases compose exactly to mu-Gaussian-DP with
  ``mu**2 = sum (sensitivity / noise_std)**2`` (Dong, Roth and Su 2022), whose
  (epsilon, delta) curve has a closed form (Balle and Wang 2018).
* Poisson-sampled releases and pure releases are composed numerically, as pessimistic
  privacy loss distributions.
* Equal events are counted each time: ``compose([event] * k)`` composes k events.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri

from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.events import (
    Event,
    PrivacyBudgetError,
    Relation,
    check_budget,
    check_delta,
    inverse_squares,
)

#: Ways to compute the curve of a composition; see `compose`.
ACCOUNTANTS = ("auto", "pld")


@contextlib.contextmanager
def tails() -> Iterator[None]:
    """Ignore floating-point underflow and overflow, even if np.seterr says "raise"."""
    with np.errstate(under="ignore", over="ignore"), special.errstate(all="ignore"):
        yield


#: Returns epsilon as a float of at least 0, or raises ValueError.
check_epsilon = functools.partial(
    checks.number, "epsilon", expected="a number of at least 0", low=0
)
_check_mu = functools.partial(
    checks.number, "mu", expected="a finite number of at least 0", low=0, closed="left"
)


def gdp_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta that mu-Gaussian-DP guarantees at epsilon.

    Parameters
    ----------
    epsilon : float
        At least 0. If epsilon is infinite, delta is 0.
    mu : float
        Gaussian-DP parameter: sensitivity / standard deviation of the noise; finite, at
        least 0.

    References
    ----------
    Balle and Wang (2018), Theorem 8, https://arxiv.org/abs/1805.06530.
    """
    return _delta(check_epsilon(epsilon), _check_mu(mu))


@tails()
def _delta(epsilon: float, mu: float, less: float = 0.0) -> float:
    """Return delta at epsilon, minus `less`. Root searches look for a result of 0."""
    if mu == 0 or epsilon == math.inf:
        return 0.0 - less
    upper = ndtr(mu / 2 - epsilon / mu)
    # exp(epsilon) alone may overflow. Its product with the normal tail is at most
    # `upper`, up to rounding, and is computed from logarithms.
    log_lower = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    lower = math.exp(min(0.0, float(log_lower)))
    return max(0.0, float(upper) - lower) - less


def gdp_epsilon(delta: float, mu: float) -> float:
    """Return the smallest epsilon that mu-Gaussian-DP guarantees at delta, rounded up.

    Examples
    --------
    >>> from skfdp.privacy import gdp_epsilon
    >>> round(gdp_epsilon(1e-5, mu=1 / 3.7306), 3)
    1.0
    """
    delta, mu = check_delta(delta), _check_mu(mu)
    if _delta(0.0, mu) <= delta:
        return 0.0
    # `high` is above the root. The last factor keeps it there in spite of rounding.
    high = (mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)) + 1e-3) * (1 + 1e-6)
    if high == math.inf:
        return math.inf  # `high` exceeds the largest float
    return _safe_root(functools.partial(_delta, mu=mu, less=delta), high, up=True)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-Gaussian-DP implies (epsilon, delta)-DP.

    The result is rounded down.

    Examples
    --------
    >>> from skfdp.privacy import gdp_mu
    >>> round(1 / gdp_mu(1.0, 1e-5), 4)
    3.7306
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if epsilon == math.inf:
        raise ValueError(
            "epsilon=inf must be finite here, because infinity does not bound mu: pass "
            "a finite number."
        )
    return _largest_mu(epsilon, delta)


@functools.lru_cache(64)
def _largest_mu(epsilon: float, delta: float) -> float:
    """Return the result of `gdp_mu`; cached, because a fit needs it several times."""
    if _delta(epsilon, 1e-12) > delta:
        raise ValueError(
            f"epsilon={epsilon!r} and delta={delta!r} are too small for a calibration: "
            "raise one of them."
        )
    high = 1.0
    while _delta(epsilon, high) < delta:
        high *= 2
    return _safe_root(functools.partial(_delta, epsilon, less=delta), high, up=False)


def _safe_root(excess: Callable[[float], float], high: float, *, up: bool) -> float:
    """Return a point close to the root of `excess` at which `excess` is at most 0.

    `excess` must be monotone. With `up`, `excess` decreases, and the point is at or
    above the root. Otherwise `excess` increases, and the point is at or below the root.
    """
    # Some curves need many iterations, because they are constant, or jump, over long
    # ranges of floats.
    root = brentq(excess, 0.0, high, xtol=1e-15, rtol=1e-14, maxiter=5_000)
    step = 1e-13
    while excess(root) > 0:
        root = root * (1 + step) + 1e-15 if up else root * (1 - step)
        step = min(2 * step, 0.5)
    return root


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PrivacyCurve:
    """An upper bound of delta as a function of epsilon, for a composition.

    See :term:`privacy curve`. It is exact for full-batch Gaussian releases. All other
    compositions have a privacy loss distribution for each direction between neighbours:
    the first output against the second, and the reverse; or one for both directions.

    Attributes
    ----------
    accountant : str
        How the curve is computed.
    mu : float or None
        Exact Gaussian-DP parameter, None if the composition is not Gaussian.
    rounding : float
        Bound of the rounding error of delta.
    """

    accountant: str
    mu: float | None = None
    rounding: float = 0.0
    _directions: Sequence[Any] = ()

    @tails()
    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon known to hold at delta."""
        if self.mu is not None:
            return gdp_epsilon(delta, self.mu)
        delta = check_delta(delta)
        if delta <= 2 * self.rounding:
            raise ValueError(
                f"delta={delta!r} is below the numerical resolution of this many "
                f"Poisson-sampled steps, about {2 * self.rounding:.1g}: raise delta, "
                "take fewer steps, or use full batches, which have a closed form."
            )
        return max(
            float(one.get_epsilon_for_delta(delta - self.rounding))
            for one in self._directions
        )

    @tails()
    def delta(self, epsilon: float) -> float:
        """Return the smallest delta known to hold at epsilon."""
        if self.mu is not None:
            return gdp_delta(epsilon, self.mu)
        epsilon = check_epsilon(epsilon)
        return max(self._delta(one, epsilon) for one in self._directions)

    @tails()
    def detection_rate(self, false_alarms: float) -> float:
        r"""Return the largest detection rate of a test with this false-alarm rate.

        From the releases the test decides which of two neighbouring tables was used. If
        its false-alarm rate is :math:`\alpha`, its detection rate is at most
        :math:`\delta(e) + \alpha \exp(e)` for every real e. The result is the smallest
        of these bounds. For a Gaussian it is the trade-off curve in closed form (Dong,
        Roth and Su 2022).
        """
        if self.mu is not None:
            return float(ndtr(ndtri(false_alarms) + self.mu))
        return max(self._rate(one, false_alarms) for one in self._directions)

    def _rate(self, direction: Any, false_alarms: float) -> float:
        def bound(epsilon: float) -> float:  # convex in exp(epsilon)
            return self._delta(direction, epsilon) + false_alarms * math.exp(epsilon)

        # The bound is 1 (up to 1e-4) at the lower end of the grid, and at least 1 at
        # the upper end. Far from its minimum the bound is constant up to rounding, so a
        # search could stop there too early. The grid therefore brackets the minimum.
        grid = np.linspace(-10.0, -math.log(false_alarms), 25)
        best = int(np.argmin([bound(float(epsilon)) for epsilon in grid]))
        around = grid[max(best - 1, 0)], grid[min(best + 1, 24)]
        found = minimize_scalar(
            bound, bounds=around, method="bounded", options={"xatol": 1e-6}
        )
        return min(1.0, max(false_alarms, float(found.fun)))

    def _delta(self, direction: Any, epsilon: float) -> float:
        """Return delta of one direction between neighbours, at any real epsilon."""
        # For epsilon > 700, exp(epsilon) would overflow. Delta at 700 is larger, and so
        # an upper bound.
        found = float(direction.get_delta_for_epsilon(min(epsilon, 700.0)))
        return min(1.0, max(0.0, found) + self.rounding)


def compose(events: Iterable[Event], *, accountant: str = "auto") -> PrivacyCurve:
    """Return the privacy curve of a composition of events.

    Parameters
    ----------
    events : iterable of Event
        In any order. A release may depend on the results of earlier releases (adaptive
        composition).
    accountant : {"auto", "pld"}, default="auto"
        "auto" uses a closed form if every release is a full-batch Gaussian, and privacy
        loss distributions otherwise. "pld" always composes privacy loss distributions.

    Raises
    ------
    ValueError
        If the events differ in relation, privacy unit or public set, so that no
        common guarantee holds.
    """
    checks.choice("accountant", accountant, ACCOUNTANTS)
    return _compose(check_events(events), accountant)


def _compose(
    events: tuple[Event, ...], accountant: str, spread: float | None = None
) -> PrivacyCurve:
    """Return the privacy curve of a composition; for `spread` see `pld.compose_pld`."""
    if len({event.protects for event in events}) > 1:
        raise ValueError(
            "Events with different relations, privacy units or public sets do not "
            "compose: use the same relation, unit and public set for all of them."
        )
    mus = [event.mu for event in events]
    full_batch = math.fsum([mu**2 for mu in mus if mu is not None])
    sampled = [event for event in events if event.sampling_rate < 1]
    pure = [(one.pure_epsilon, one.n_steps) for one in events if one.pure_epsilon]
    if not sampled and not pure and (accountant == "auto" or full_batch == 0):
        return PrivacyCurve("closed form (Gaussian DP)", math.sqrt(full_batch))

    from skfdp.privacy import pld  # loads dp_accounting only if it is needed

    steps = [
        (
            (  # what determines the curve of one step, in units of the clip norm
                std / event.clip_norm,
                min(2.0, event.sensitivity / event.clip_norm),
                event.sampling_rate,
                event.neighboring_relation,
            ),
            count,
        )
        for event in sampled
        for std, count in event.grouped_stds
    ]
    with tails():
        found = pld.compose_pld(steps, math.sqrt(full_batch), spread, pure)
    directions, rounding, accountant = found
    return PrivacyCurve(accountant, None, rounding, directions)


# The guarantee of several events together: their relation, privacy unit and public set.

#: A member of a public set: a name, a position, or None for a target without a name.
Disclosed = str | int | None


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class Guarantee:
    """The guarantee of a composition: its relation, privacy unit and public set.

    Attributes
    ----------
    neighboring_relation : str
    unit : {"record", "person"}
        The privacy unit: one record, or all records of one person.
    public : frozenset of str, int or None
        The names of the columns and targets that are not protected; for columns without
        a name the positions, and None for a target without a name. Everything else is
        protected.
    """

    neighboring_relation: str
    unit: str
    public: frozenset[Disclosed]


def composed_guarantee(
    events: Iterable[Event], public: Collection[Disclosed] | None = None
) -> Guarantee:
    r"""Return the guarantee of the composition of all events, or raise an error.

    Parameters
    ----------
    events : iterable of Event
        At least one.
    public : collection, default=None
        The public set of the composition, declared beforehand. None takes the largest
        public set of an event, which must then contain the public sets of all other
        events.

    Returns
    -------
    guarantee : Guarantee

    Raises
    ------
    PrivacyBudgetError
        If relations or units differ, or if an event discloses more than the public set.

    Notes
    -----
    **Guarantees.** A record is a row of one table, whose columns have names. The row of
    X and the target that a fit uses are functions of the record. Let event j disclose
    the columns :math:`D_j` of every record, and let the public set P contain all
    :math:`D_j`. Neighbours under P are tables that agree in the columns P of every
    record, and differ outside P in one record. For such neighbours the composed privacy
    curve bounds all releases of the events together with the disclosed columns.

    * ``"replace_one"``: neighbours under P agree in :math:`D_j`, and in every function
      of :math:`D_j` alone. So as inputs of event j they are neighbours under
      :math:`D_j`, or equal. Hence the curve of event j bounds the release of event j
      given all earlier releases, and adaptive composition bounds all releases together.
      The disclosed columns are equal in both tables.
    * ``"replace_special"``: the curve of event j compares two releases. One is the
      release on the table. In the other, the record contributes only :math:`D_j`. This
      second release depends on the other records and on :math:`D_j \subseteq P`, but
      not on the record's values outside P. So the composition compares all releases
      with releases that do not use these values, as the relation demands. To make a
      record null, a fit marks it and replaces no value: a release that treats a column
      of P as private gets zero from a marked record. If a fit replaced the private
      values by other values instead, the sum could change by twice the clip norm.
    * ``"add_or_remove_one"``: whole records are added or removed; P is empty.
    * If persons are protected, the proof holds with "all records of one person" in
      place of "one record", provided that all fits and both neighbours have the same
      partition of the records into persons. Events that protect records do not compose
      with events that protect persons, because a guarantee for one record is too weak
      for a person.

    No column in P is protected, even if some events treated the column as private.
    Columns and targets are compared by name. The caller must ensure that one name means
    one column in every fit, and that a column computed from another column carries the
    name of that other column (:ref:`sharing`). Missing names cannot be compared. If
    anything is public, a target without a name may be a target or a column that another
    fit discloses by name. The two fits then do not compose. Public sets of positions
    (columns without names) compose only if they are equal.
    """
    events = check_events(events, least=1)
    everything: Any = None
    if public is not None:
        names = [*public] if is_listed(public) else []
        # None, a target without a name, is in the sets of the ledger alone.
        kinds = Disclosed if isinstance(public, frozenset) else str | int
        if not is_listed(public) or not all(isinstance(n, kinds) for n in names):
            raise TypeError(
                f"public={checks.shown(public)} must be a collection of column names, "
                "or of positions: write public=['age'], for example."
            )
        everything = frozenset(names)
    relations, units, disclosed, named = set(), set(), [], set()
    for event in events:
        relations.add(event.neighboring_relation)
        units.add(event.unit)
        disclosed.append(event.disclosed)
        if event.target_name:
            named.add(event.target_name)
    if len(relations) > 1:
        first, second, *_ = sorted(relations)
        raise PrivacyBudgetError(
            f"neighboring_relation={first!r} of one release and {second!r} of another "
            "cannot be composed: use one neighboring_relation for everything that is "
            "learnt from this table."
        )
    if len(units) > 1:
        raise PrivacyBudgetError(
            "releases with unit='person' and unit='record' cannot be composed: pass "
            "groups to every fit that learns from this table."
        )
    disclosed.sort(key=len)
    everything = disclosed[-1] if everything is None else everything
    for own in disclosed:
        outside = own - everything
        if own and public is None:
            counted = {name for name in own ^ everything if isinstance(name, int)}
            outside |= (counted & own or own) if counted else counted
        if outside:
            whose, remedy = "the public set", "treat it as private"
            whose += " of another release" * (public is None)
            if None in outside:
                remedy = "name it by target=, or treat it as private"
            raise PrivacyBudgetError(
                f"a fit discloses {set_text(outside)}, which is outside {whose} "
                f"({set_text(everything)}): {remedy}, or declare the larger set before "
                "the first fit, by PrivacyLedger(public=[...]). Each step of a "
                "Pipeline counts as a fit."
            )
    # A target without a name may be the same as the target of another fit, or as a
    # column that another fit discloses.
    for event in events if everything else ():
        maybe = named
        if not event.public_target:
            columns = {name for name in everything if isinstance(name, str)}
            maybe = named | (columns - set(event.public_features))
        if maybe and "target" in event.unnamed:
            raise PrivacyBudgetError(
                f"the target of a fit has no name and may be one of {set_text(maybe)}, "
                "so that one fit may disclose a column that another protects: name the "
                "target by target=, or pass y as a Series with a name."
            )
    return Guarantee(relations.pop(), units.pop(), everything)


def name_text(name: Disclosed) -> str:
    """Format one member of a public set."""
    if name is None:
        return "the target, which has no name"
    return name if isinstance(name, str) else f"column {name}"


def set_text(public: Collection[Disclosed]) -> str:
    """Format a public set; long ones are shortened."""
    names = sorted(map(name_text, public))
    listed = ", ".join(map(repr, names[:5])) or "empty"
    return f"{listed} and {len(names) - 5} more" if len(names) > 5 else listed


def check_events(
    events: Any, name: str = "events", least: int = 0
) -> tuple[Event, ...]:
    """Return a tuple of at least `least` events, or raise ValueError."""
    some = "at least one Event" if least else "a sequence of Event"
    expected = f"{some}, such as [plan.event]"
    found = events if type(events) is tuple else checks.items(name, events, expected)
    # An event of a subclass could cost more than its fields say.
    if len(found) < least or {*map(type, found)} - {Event}:
        raise ValueError(f"{name}={checks.shown(events)} must be {expected}.")
    return found


def is_listed(values: Any) -> bool:
    """Whether values are a collection, and not a scalar or a string."""
    several = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    return several and getattr(values, "shape", None) != ()  # NumPy's scalars


# The epsilon of several events together.


@dataclasses.dataclass(frozen=True)
class Cost:
    """Epsilon of a composition at one delta, its mu, and how they were computed."""

    epsilon: float
    mu: float | None
    accountant: str


def is_pure(events: Iterable[Event]) -> bool:
    """Whether all releases have pure epsilon-DP, or there are none."""
    return all(event.pure_epsilon for event in events)


@functools.lru_cache(maxsize=256)
def cost(events: tuple[Event, ...], delta: float) -> Cost:
    """Return epsilon and mu of the exact composition of all events, at one delta.

    Delta may be 0 if all releases are pure: then their epsilons add up.
    """
    total = math.inf
    if is_pure(events):
        total = math.fsum(one.pure_epsilon * one.n_steps for one in events)
    if delta == 0:
        return Cost(total, None, "sum of the epsilons of pure releases")
    curve = compose(_merged(events))
    return Cost(min(total, curve.epsilon(delta)), curve.mu, curve.accountant)


def detection_rate(events: tuple[Event, ...], false_alarms: float) -> float:
    """Return the largest detection rate of a test with this false-alarm rate.

    From the releases of all events the test decides which of two neighbouring tables
    was used.
    """
    if not events:
        return false_alarms
    return max(false_alarms, _fine_curve(events).detection_rate(false_alarms))


@functools.lru_cache(maxsize=64)
def _fine_curve(events: tuple[Event, ...]) -> PrivacyCurve:
    """Return a privacy curve that is accurate enough for detection rates.

    Detection rates depend on privacy losses near 0. So the losses of a curve without a
    closed form are discretised more finely than for the computation of epsilon.
    """
    merged = _merged(events)
    found = _compose(merged, "auto")
    if found.mu is not None:
        return found
    # Nearly all privacy losses are between -2 and 2 times this epsilon.
    spread = 4 * found.epsilon(max(1e-6, 4 * found.rounding))
    return _compose(merged, "pld", spread)


def _merged(events: Iterable[Event]) -> tuple[Event, ...]:
    """Merge equal events into fewer events of the same total cost.

    A grid search, for example, charges many equal events. Fields that do not affect the
    cost are dropped.
    """
    merged: list[Event] = []
    costs: Any = {"label": "", "public_features": (), "public_target": False}
    costs |= {"target_name": None, "unnamed": (), "classes_source": None}
    bare = [dataclasses.replace(event, **costs, seeded=False) for event in events]
    for event, count in collections.Counter(bare).items():
        # k events of n steps become one of k * n steps. Do not merge events with a
        # decay: one schedule of twice the length does not cost the same as two.
        n_steps, stds = event.n_steps * count, event.noise_std
        stds = stds if len(stds) == 1 else stds * count
        if event.noise_decay:
            merged += [event] * count
        else:
            merged.append(dataclasses.replace(event, n_steps=n_steps, noise_std=stds))
    return tuple(merged)


# Calibration: find the least noise that stays within (epsilon, delta).


# Largest fraction of epsilon that a plan may leave unspent. A finer search would take
# too long.
_TOLERANCE = 2e-4


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """A schedule of noisy sums within a budget; the result of `calibrate`.

    Attributes
    ----------
    target_epsilon, target_delta : float
        The total budget of this schedule and `other_events`.
    event : Event
        The schedule: number of steps, sampling rate, clip norm, sensitivity and noise.
        Epsilon is computed from it. So the noise that is added is the noise that is
        accounted for.
    other_events : tuple of Event
        Further releases that share the budget.
    """

    target_epsilon: float
    target_delta: float
    event: Event
    other_events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        check_budget(self.target_epsilon, self.target_delta)
        check_events([self.event], "event")
        vars(self).update(
            target_epsilon=float(self.target_epsilon),
            target_delta=float(self.target_delta),
            other_events=check_events(self.other_events, "other_events"),
        )

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the first step's noise, divided by the clip norm.

        See :term:`noise multiplier`.
        """
        return self.event.noise_std[0] / self.event.clip_norm

    @property
    def noise_std(self) -> np.ndarray:
        """Standard deviation of the noise of each step, shape (n_steps,)."""
        return self.event.step_stds

    @functools.cached_property
    def curve(self) -> PrivacyCurve:
        """Privacy curve of the whole composition, `other_events` included."""
        return compose((*self.other_events, self.event))

    @property
    def mu(self) -> float | None:
        """Exact Gaussian-DP parameter of the composition, None if not Gaussian."""
        return self.curve.mu

    def epsilon(self, delta: float) -> float:
        """Return the epsilon spent by the whole composition at delta."""
        return self.curve.epsilon(delta)


def calibrate(
    epsilon: float,
    delta: float,
    *,
    n_steps: int,
    sampling_rate: float = 1.0,
    clip_norm: float = 1.0,
    sensitivity: float | None = None,
    neighboring_relation: str = "replace_one",
    noise_decay: float = 0.0,
    other_events: Sequence[Event] = (),
) -> PrivacyPlan:
    r"""Return the plan with the least noise that stays within (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        The total budget of the planned releases and `other_events`; finite.
    n_steps : int
        Number of planned releases.
    sampling_rate : float, default=1.0
        Probability per step that a record enters the batch (Poisson sampling); 1
        means the full batch.
    clip_norm : float, default=1.0
        L2 bound of one record's contribution to one sum.
    sensitivity : float, default=None
        The L2 :term:`sensitivity` of one sum over the full batch. None means
        ``2 * clip_norm`` under "replace_one" and ``clip_norm`` otherwise. The caller
        must prove a smaller number.
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        The relation between neighbours; see :ref:`protected`.
    noise_decay : float, default=0.0
        Schedule of a full-batch plan: ``1 / noise_multiplier[t]**2`` is proportional to
        ``(1 - t / n_steps)**noise_decay``. 0 is constant noise.
    other_events : sequence of Event, default=()
        Other releases that share the budget, such as a private mean. They are composed
        exactly; epsilon is not split.

    Raises
    ------
    ValueError
        If a parameter is out of range, or if `other_events` already spend the budget.

    Notes
    -----
    **Guarantees.** ``plan.epsilon(delta) <= epsilon``, always: the search errs on the
    side of more noise, and checks its result. Results are cached.

    Examples
    --------
    >>> from skfdp.privacy import calibrate
    >>> plan = calibrate(1.0, 1e-5, n_steps=1, neighboring_relation="replace_special")
    >>> round(plan.noise_multiplier, 3)
    3.731
    """
    others = check_events(other_events, "other_events")
    schedule = n_steps, sampling_rate, clip_norm, sensitivity
    given = epsilon, delta, *schedule, neighboring_relation, noise_decay, others
    try:
        return _calibrated(*given)
    except TypeError:  # a value without a hash
        return _calibrated.__wrapped__(*given)


@functools.lru_cache(maxsize=512, typed=True)
def _calibrated(
    epsilon: float,
    delta: float,
    n_steps: int,
    sampling_rate: float,
    clip_norm: float,
    sensitivity: float | None,
    neighboring_relation: str,
    noise_decay: float,
    others: tuple[Event, ...],
) -> PrivacyPlan:
    """Return the plan with the least noise that stays within the budget."""
    clip_norm = checks.positive("clip_norm", clip_norm)
    if sensitivity is None:
        sensitivity = Relation.of(neighboring_relation).sensitivity(clip_norm)
    event = Event(
        label="steps",
        noise_std=(clip_norm,),  # a placeholder
        clip_norm=clip_norm,
        sensitivity=sensitivity,
        n_steps=n_steps,
        sampling_rate=sampling_rate,
        neighboring_relation=neighboring_relation,
        noise_decay=noise_decay,
        **(others[0].fit_facts if others else {}),
    )
    draft = PrivacyPlan(
        target_epsilon=epsilon, target_delta=delta, event=event, other_events=others
    )
    n_steps, factor = event.n_steps, event.sensitivity / event.clip_norm
    epsilon, delta = draft.target_epsilon, draft.target_delta
    if others and compose(others).epsilon(delta) >= epsilon:
        raise ValueError(
            f"other_events already spend epsilon={epsilon!r} at delta={delta!r}: raise "
            "the budget or give them more noise."
        )
    # Noise multiplier of the first step, if the schedule with `noise_decay` costs as
    # much as a constant noise multiplier of 1.
    relative = 1.0
    if event.noise_decay:
        relative = math.sqrt(inverse_squares(1.0, n_steps, event.noise_decay) / n_steps)

    def scaled(scale: float) -> PrivacyPlan:
        noise = (relative * scale * event.clip_norm,)
        return dataclasses.replace(
            draft, event=dataclasses.replace(event, noise_std=noise)
        )

    # Compute the noise multiplier by Gaussian DP; the result is exact on full batches.
    mus, q = [other.mu for other in others], event.sampling_rate
    spent = math.fsum([mu**2 for mu in mus if mu is not None])
    mu = math.sqrt(max(gdp_mu(epsilon, delta) ** 2 - spent, 1e-12))
    if q == 1:
        scale = factor * math.sqrt(n_steps) / mu
    else:
        # Bu, Dong, Long and Su (2020): mu = q sqrt(n_steps (exp((factor / scale)**2) -
        # 1)), approximately. Solve in logarithms, because (mu / q)**2 may overflow.
        log_growth = 2 * (math.log(mu) - math.log(q)) - math.log(n_steps)
        with tails():
            scale = factor / math.sqrt(float(np.logaddexp(0.0, log_growth)))
    if scaled(scale).curve.mu is None:  # otherwise the closed form gave the result
        scale = _search(scaled, scale, epsilon, delta, factor / 30)
    step = 1e-13
    while (plan := scaled(scale)).curve.epsilon(delta) > epsilon:
        scale, step = scale * (1 + step), step * 2
    return plan


def _search(
    scaled: Callable[[float], PrivacyPlan],
    start: float,
    epsilon: float,
    delta: float,
    least: float,
) -> float:
    """Return the noise multiplier at which a plan spends epsilon.

    ``scaled(scale)`` returns the plan with noise multiplier `scale`. The equation is
    solved by the secant method in log-log coordinates. If delta exceeds the probability
    that a record is ever in a batch, even a plan without noise would stay within the
    budget. The search then ends at the noise multiplier `least`.
    """

    def excess(log_scale: float) -> float:
        spent = scaled(math.exp(log_scale)).epsilon(delta)
        return math.log(min(max(spent, 1e-12), 1e12) / epsilon)

    low, high = -math.inf, math.inf  # log scales known to be too small / large enough
    lowest = math.log(least)
    x0 = max(math.log(start), lowest)
    f0, slope = excess(x0), -1.0  # epsilon falls at least as fast as 1 / scale
    for _ in range(40):
        low, high = (max(low, x0), high) if f0 > 0 else (low, min(high, x0))
        if -_TOLERANCE < f0 <= 0 or (f0 <= 0 and x0 == lowest):
            break
        # Aim just below the budget, so that the last point can be the answer.
        x1 = x0 - min(max((f0 + _TOLERANCE / 2) / slope, -0.7), 0.7)
        if not low < x1 < high and math.isfinite(low + high):
            x1 = (low + high) / 2
        x1 = max(x1, lowest)
        if x1 == x0:  # epsilon jumps between two neighbouring floats
            break
        f1 = excess(x1)
        slope = min((f1 - f0) / (x1 - x0), -0.1)
        x0, f0 = x1, f1
    return math.exp(high if math.isfinite(high) else x0)


class Budget(NamedTuple):
    """The checked budget of a fit, and the fields that all of its events share.

    A privacy unit changes a sum at most `reach` times as much as one record; see
    `data.units`. Methods plan for records; `event` and `release_once` multiply by
    it.
    """

    epsilon: float
    delta: float
    relation: Relation
    #: Fields of all events, such as the relation and the names of the public columns.
    facts: Mapping[str, Any]
    #: Events of an earlier method of the same fit, on full batches. They count towards
    #: epsilon in every calibration.
    before: tuple[Event, ...] = ()
    reach: float = 1.0

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of the budget that remains after `before`."""
        whole = _largest_mu(self.epsilon, self.delta)
        if not self.before:
            return whole
        return math.sqrt(whole**2 - sum(float(e.mu or 0) ** 2 for e in self.before))

    def after(self, *events: Event) -> Budget:
        """Return the budget for the releases after these events."""
        return self._replace(before=(*self.before, *events))

    def counted(self) -> tuple[str, ...]:
        """Return the requirement of a public number of rows, if it is not met."""
        needed = "a neighboring_relation that keeps the number of rows public"
        return () if self.relation.counts_are_public else (needed,)

    def share(self, share: float) -> Budget:
        """Return the budget with this share of ``mu**2``."""
        if share == 1:
            return self
        epsilon = gdp_epsilon(self.delta, math.sqrt(share) * self.mu)
        return self._replace(epsilon=epsilon, before=())

    def event(
        self,
        label: str,
        noise_std: float,
        *,
        clip_norm: float = 1.0,
        sensitivity: float,
        n_steps: int = 1,
    ) -> Event:
        """Return the event of full-batch releases.

        `noise_std`, `clip_norm` and `sensitivity` are given for records. They are
        multiplied by `reach`, to hold for privacy units.
        """
        return Event(
            label=label,
            noise_std=(noise_std * self.reach,),
            clip_norm=clip_norm * self.reach,
            sensitivity=sensitivity * self.reach,
            n_steps=n_steps,
            **self.facts,
        )

    def calibrate(
        self,
        label: str,
        *,
        noise_decay: float = 0.0,
        other_events: tuple[Event, ...] = (),
        **schedule: Any,
    ) -> Event:
        """Return the event with the least noise within the budget.

        Other parameters are those of :func:`skfdp.privacy.calibrate`. `noise_decay` is
        ignored for sampled batches. `clip_norm` and `sensitivity` are given for privacy
        units. The events `before` are added to `other_events`.
        """
        if schedule.get("sampling_rate", 1.0) < 1:
            noise_decay = 0.0
        found = calibrate(
            self.epsilon,
            self.delta,
            neighboring_relation=self.relation.name,
            noise_decay=noise_decay,
            other_events=(*self.before, *other_events),
            **schedule,
        )
        return dataclasses.replace(found.event, label=label, **self.facts)

    def release_once(self, label: str, query: Any, *others: Event) -> Event:
        """Return the event of one release of `query`, which follows `others`."""
        return self.calibrate(
            label,
            n_steps=1,
            clip_norm=query.clip_norm * self.reach,
            sensitivity=query.sensitivity(self.relation) * self.reach,
            other_events=others,
        )
