"""Privacy curves of composed events: in closed form if that is exact, otherwise by PLD.

Guarantees
----------
* Full-batch Gaussian releases compose exactly to mu-Gaussian-DP with
  ``mu**2 = sum (sensitivity / noise_std)**2`` (Dong, Roth and Su 2022), whose
  (epsilon, delta) curve is closed form (Balle and Wang 2018).
* Poisson-sampled releases are composed as pessimistic privacy loss distributions.
* A single `Selection` has the curve of its theorem. In a composition it is replaced by
  the pessimistic privacy loss distribution through points of that curve.
* ``compose([event] * k)`` equals k compositions of ``event``.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from scipy import special
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri

from skfdp.privacy import checks
from skfdp.privacy.events import Event, check_delta
from skfdp.privacy.public_sets import Part, check_events, together

# Many iterations of brentq: some curves are flat or step functions over most floats.
_ITERATIONS = 5_000
# Expected value of mu, for messages.
_OF_MU = "a finite number of at least 0"
# Points of the grid that brackets the minimum of a convex bound.
_GRID_POINTS = 25
#: How curves of compositions are computed; see `compose`.
ACCOUNTANTS = ("auto", "pld")


@contextlib.contextmanager
def tails() -> Iterator[None]:
    """Ignore underflow and overflow of tails, also if np.seterr would raise."""
    with np.errstate(under="ignore", over="ignore"), special.errstate(all="ignore"):
        yield


def check_epsilon(epsilon: float) -> float:
    """Return epsilon as a float of at least 0, or raise ValueError."""
    return checks.number("epsilon", epsilon, "a number of at least 0", 0)


def gdp_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta of a mu-Gaussian-DP mechanism at epsilon.

    Parameters
    ----------
    epsilon : float
        At least 0; infinity has delta 0.
    mu : float
        Gaussian-DP parameter: sensitivity / standard deviation of the noise; finite, at
        least 0.

    References
    ----------
    Balle and Wang (2018), Theorem 8, https://arxiv.org/abs/1805.06530.
    """
    mu = checks.number("mu", mu, _OF_MU, 0, closed="left")
    return _delta(check_epsilon(epsilon), mu)


@tails()
def _delta(epsilon: float, mu: float, less: float = 0.0) -> float:
    """Return delta minus `less`, whose root is searched for."""
    if mu == 0 or epsilon == math.inf:
        return 0.0 - less
    upper = ndtr(mu / 2 - epsilon / mu)
    # exp(epsilon) may overflow. Its product with the tail cannot, because it is at most
    # `upper` up to rounding.
    log_lower = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    lower = math.exp(min(0.0, float(log_lower)))
    return max(0.0, float(upper) - lower) - less


def gdp_epsilon(delta: float, mu: float) -> float:
    """Return the smallest epsilon of a mu-Gaussian-DP mechanism at delta, rounded up.

    Examples
    --------
    >>> from skfdp.privacy import gdp_epsilon
    >>> round(gdp_epsilon(1e-5, mu=1 / 3.7306), 3)
    1.0
    """
    delta = check_delta(delta)
    mu = checks.number("mu", mu, _OF_MU, 0, closed="left")
    if _delta(0.0, mu) <= delta:
        return 0.0
    # The last factor keeps the bound above the root in spite of rounding.
    high = (mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)) + 1e-3) * (1 + 1e-6)
    if high == math.inf:
        return math.inf  # the bound is above the largest float
    return _safe_root(functools.partial(_delta, mu=mu, less=delta), high, up=True)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose curve allows (epsilon, delta), rounded down.

    Examples
    --------
    >>> from skfdp.privacy import gdp_mu
    >>> round(1 / gdp_mu(1.0, 1e-5), 4)
    3.7306
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if epsilon == math.inf:
        raise ValueError("epsilon=inf must be finite here: it does not bound mu.")
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
    """Return the root of a monotone function, shifted until the function is <= 0."""
    root = brentq(excess, 0.0, high, xtol=1e-15, rtol=1e-14, maxiter=_ITERATIONS)
    step = 1e-13
    while excess(root) > 0:
        root = root * (1 + step) + 1e-15 if up else root * (1 - step)
        step = min(2 * step, 0.5)
    return root


class PrivacyCurve(Protocol):
    """An upper bound of delta as a function of epsilon, for a composition.

    See :term:`privacy curve`.
    """

    accountant: str

    @property
    def mu(self) -> float | None:
        """Exact Gaussian-DP parameter, None if the composition is not Gaussian."""

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon known to hold at delta."""

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta known to hold at epsilon."""


@dataclasses.dataclass(frozen=True)
class GaussianCurve:
    """Exact curve of full-batch Gaussian releases."""

    mu: float
    accountant: str = "closed form (Gaussian DP)"

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that holds at delta."""
        return gdp_epsilon(delta, self.mu)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta that holds at epsilon."""
        return gdp_delta(epsilon, self.mu)

    @tails()
    def detection_rate(self, false_alarms: float) -> float:
        """Return the largest detection rate at a false-alarm rate."""
        # The trade-off curve in closed form (Dong, Roth and Su 2022).
        return float(ndtr(ndtri(false_alarms) + self.mu))


class PLDCurve:
    """Pessimistic curve from a composed privacy loss distribution."""

    mu = None

    def __init__(
        self, loss_distributions: Sequence[Any], rounding: float, accountant: str
    ):
        self._directions = tuple(loss_distributions)
        self.rounding = rounding
        self.accountant = accountant

    @tails()
    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon known to hold at delta."""
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
        epsilon = check_epsilon(epsilon)
        return max(self._delta(one, epsilon) for one in self._directions)

    @tails()
    def detection_rate(self, false_alarms: float) -> float:
        r"""Return the largest detection rate at a false-alarm rate.

        A test between two neighbours with false-alarm rate :math:`\alpha` has a
        detection rate of at most :math:`\delta(e) + \alpha \exp(e)`, for every real e.
        """
        return max(self._rate(one, false_alarms) for one in self._directions)

    def _rate(self, direction: Any, false_alarms: float) -> float:
        def bound(epsilon: float) -> float:  # convex in exp(epsilon)
            return self._delta(direction, epsilon) + false_alarms * math.exp(epsilon)

        # At the lower end the bound is 1 up to 1e-4, at the upper end at least 1. Far
        # from the minimum it is flat up to rounding, so a grid brackets the minimum.
        grid = np.linspace(-10.0, -math.log(false_alarms), _GRID_POINTS)
        best = int(np.argmin([bound(float(epsilon)) for epsilon in grid]))
        around = grid[max(best - 1, 0)], grid[min(best + 1, _GRID_POINTS - 1)]
        found = minimize_scalar(
            bound, bounds=around, method="bounded", options={"xatol": 1e-6}
        )
        return min(1.0, max(false_alarms, float(found.fun)))

    def _delta(self, direction: Any, epsilon: float) -> float:
        """Return delta of one direction, at any real epsilon."""
        # Beyond 700 exp(epsilon) would overflow; delta at 700 is an upper bound.
        found = float(direction.get_delta_for_epsilon(min(epsilon, 700.0)))
        return min(1.0, max(0.0, found) + self.rounding)


def compose(events: Iterable[Event], *, accountant: str = "auto") -> PrivacyCurve:
    """Return the privacy curve of a composition of events.

    Parameters
    ----------
    events : iterable of Event
        In any order; adaptive composition.
    accountant : {"auto", "pld"}, default="auto"
        "auto" uses the closed form if every release is a full-batch Gaussian; "pld"
        always composes privacy loss distributions.

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
) -> Any:
    """Compose events; see `pld.compose` for the spread."""
    if len({event.protects for event in events}) > 1:
        raise ValueError(
            "Events under different neighbouring relations or public sets do not "
            "compose: use one relation and one public set for all of them."
        )
    mus = [event.mu for event in events]
    full_batch = math.fsum([mu**2 for mu in mus if mu is not None])
    sampled = [event for event, mu in zip(events, mus, strict=True) if mu is None]
    if not sampled and (accountant == "auto" or full_batch == 0):
        return GaussianCurve(math.sqrt(full_batch))

    # Events of subclasses have their own curves.
    others = collections.Counter(event for event in sampled if type(event) is not Event)
    curves = [(event.own_curve(), count) for event, count in others.items()]
    if len(curves) == len(events) == 1 and accountant == "auto":
        return curves[0][0]

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
        if type(event) is Event
        for std, count in event.grouped_stds
    ]
    mu = math.sqrt(full_batch)
    with tails():
        composed = pld.compose(steps, full_batch_mu=mu, curves=curves, spread=spread)
        return PLDCurve(*composed)


# The joint cost of events; `public_sets` defines what they protect.


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a composition at one delta, and how it was computed."""

    epsilon: float
    mu: float | None
    accountant: str


@functools.lru_cache(maxsize=256)
def cost(events: tuple[Event, ...], delta: float, accountant: str = "auto") -> Cost:
    """Return the cost of the exact composition of all events at delta."""
    curve = compose(_merged(events), accountant=accountant)
    return Cost(curve.epsilon(delta), curve.mu, curve.accountant)


def worst(
    events: Sequence[Event | None],
    parts: Sequence[Part | None],
    delta: float,
    *,
    within: Part | None = None,
    accountant: str = "auto",
) -> Cost:
    r"""Return the cost of the events for the most exposed record.

    An event None is a fit without privacy, whose cost is infinite. A part holds the
    records that its event concerns; None means all records. Only records in `within`
    are considered. The ``mu`` of the result is the largest one, or None unless it is
    exact for every record.

    Notes
    -----
    **Guarantees.** Under the relations ``"replace_one"`` and ``"replace_special"``
    neighbours have the same records at the same positions with the same public parts,
    and differ in the private part of record i. Whether i is in a part is the same in
    both, because parts are fixed by position or public values. Given all earlier
    releases, a release on a part without i has the same distribution on both tables. So
    it costs nothing, and the other releases compose as usual. Hence all releases
    together are (epsilon, delta)-DP for record i with the cost of the events on the
    parts that hold i, and for every record with the largest of these costs. The same
    holds for persons if every part holds all rows of a person or none. Then person i is
    in the same parts in both tables.
    """
    places = (*parts, within)
    costs = []
    for group in together(places):
        if len(parts) not in group:  # no record of `within`
            continue
        members = [events[position] for position in group if position < len(parts)]
        private = tuple([event for event in members if event is not None])
        if len(private) < len(members):
            costs.append(Cost(math.inf, None, "none"))
        else:
            costs.append(cost(private, delta, accountant))
    largest = max(costs, key=operator.attrgetter("epsilon"))
    mus = [one.mu for one in costs if one.mu is not None]
    return dataclasses.replace(largest, mu=max(mus) if len(mus) == len(costs) else None)


def detection_rate(
    events: Sequence[Event], parts: Sequence[Part | None], false_alarms: float
) -> float:
    """Return the largest detection rate that the events allow, over all records.

    If `parts` is empty, every event concerns all records.
    """
    curves = _fine_curves(tuple(events), tuple(parts)) if events else ()
    return max([false_alarms, *(one.detection_rate(false_alarms) for one in curves)])


@functools.lru_cache(maxsize=64)
def _fine_curves(
    events: tuple[Event, ...], parts: tuple[Part | None, ...]
) -> list[GaussianCurve | PLDCurve]:
    """Return curves that are accurate enough for detection rates.

    They have a closed form, or a finer gap than the curves that give epsilon, because
    detection rates depend on losses near 0.
    """
    curves = []
    for positions in together(parts or (None,) * len(events)):
        group = _merged(events[position] for position in positions)
        found = _compose(group, "auto")
        if not isinstance(found, GaussianCurve):
            found = _compose(group, "pld")
            # Nearly all losses are below twice this epsilon, in each direction.
            spread = 4 * found.epsilon(max(1e-6, 4 * found.rounding))
            found = _compose(group, "pld", spread)
        curves.append(found)
    return curves


# These fields do not affect the cost of an event.
_UNLABELLED: dict[str, Any] = {
    "label": "",
    "public_features": (),
    "public_target": False,
    "target_name": None,
    "unnamed": (),
    "classes_source": None,
    "seeded": False,
}


def _merged(events: Iterable[Event]) -> tuple[Event, ...]:
    """Merge equal events into fewer ones of the same cost, for grid searches."""
    merged: list[Event] = []
    unlabelled = [dataclasses.replace(event, **_UNLABELLED) for event in events]
    for event, count in collections.Counter(unlabelled).items():
        # Subclasses have other fields. With a decay, one schedule of twice the length
        # has another cost than two schedules.
        if type(event) is not Event or event.noise_decay:
            merged += [event] * count
            continue
        several = 1 if len(event.noise_std) == 1 else count
        merged.append(
            dataclasses.replace(  # k times n steps are k * n steps
                event,
                n_steps=event.n_steps * count,
                noise_std=event.noise_std * several,
            )
        )
    return tuple(merged)
