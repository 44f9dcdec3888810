"""Privacy curves of composed events: closed form where it is exact, PLD elsewhere.

Guarantees
----------
* Full-batch Gaussian releases compose exactly to mu-Gaussian-DP with
  ``mu**2 = sum (sensitivity / noise_std)**2`` (Dong, Roth and Su 2022), whose
  (epsilon, delta) curve is closed form (Balle and Wang 2018).
* Poisson-sampled releases are composed as pessimistic privacy loss distributions.
* A `Selection` by itself has the curve of its theorem; in a composition it is the
  pessimistic privacy loss distribution through points of that curve.
* ``compose([event] * k)`` equals k compositions of ``event``.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from skfdp.privacy.events import Event


def gdp_delta(epsilon: float, mu: float) -> float:
    """Smallest delta of a mu-Gaussian-DP mechanism at epsilon.

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        Gaussian-DP parameter: sensitivity / standard deviation of the noise.

    References
    ----------
    Balle and Wang (2018), Theorem 8, https://arxiv.org/abs/1805.06530.
    """
    if mu == 0:
        return 0.0
    upper = ndtr(mu / 2 - epsilon / mu)
    # exp(epsilon) alone overflows; the product with the tail does not.
    lower = math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return max(0.0, float(upper - lower))


def gdp_epsilon(delta: float, mu: float) -> float:
    """Smallest epsilon of a mu-Gaussian-DP mechanism at delta, rounded up.

    Examples
    --------
    >>> from skfdp.privacy import gdp_epsilon
    >>> round(gdp_epsilon(1e-5, mu=1 / 3.7306), 3)
    1.0
    """
    if mu == 0 or gdp_delta(0.0, mu) <= delta:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1e-3
    root = brentq(
        lambda eps: gdp_delta(eps, mu) - delta, 0.0, high, xtol=1e-13, rtol=1e-14
    )
    while gdp_delta(root, mu) > delta:  # err to the safe side
        root = root * (1 + 1e-13) + 1e-15
    return root


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian-DP curve passes through (epsilon, delta), rounded down.

    Examples
    --------
    >>> from skfdp.privacy import gdp_mu
    >>> round(1 / gdp_mu(1.0, 1e-5), 4)
    3.7306
    """
    if gdp_delta(epsilon, 1e-12) > delta:
        raise ValueError(
            f"epsilon={epsilon!r} and delta={delta!r} are too small to calibrate any "
            "noise for: raise one of them."
        )
    high = 1.0
    while gdp_delta(epsilon, high) < delta:
        high *= 2
    root = brentq(
        lambda mu: gdp_delta(epsilon, mu) - delta, 0.0, high, xtol=1e-15, rtol=1e-14
    )
    while gdp_delta(epsilon, root) > delta:  # err to the safe side
        root *= 1 - 1e-13
    return root


class PrivacyCurve(Protocol):
    """The trade between epsilon and delta of a composition; an upper bound."""

    accountant: str

    @property
    def mu(self) -> float | None:
        """Exact Gaussian-DP parameter, None where the composition is not Gaussian."""

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon known to hold at delta."""

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta known to hold at epsilon."""


class GaussianCurve:
    """Exact curve of full-batch Gaussian releases."""

    accountant = "closed form (Gaussian DP)"

    def __init__(self, mu: float):
        self.mu = mu

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that holds at delta."""
        return gdp_epsilon(delta, self.mu)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta that holds at epsilon."""
        return gdp_delta(epsilon, self.mu)


class PLDCurve:
    """Pessimistic curve from a composed privacy loss distribution."""

    mu = None

    def __init__(self, loss_distribution: Any, rounding: float, accountant: str):
        self._pld = loss_distribution
        self._rounding = rounding
        self.accountant = accountant

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon known to hold at delta."""
        if delta <= 2 * self._rounding:
            raise ValueError(
                f"delta={delta!r} is below the numerical resolution of this many "
                f"Poisson-sampled steps, about {2 * self._rounding:.1g}: raise delta, "
                "take fewer steps, or use full batches, which have a closed form."
            )
        return float(self._pld.get_epsilon_for_delta(float(delta) - self._rounding))

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta known to hold at epsilon."""
        found = float(self._pld.get_delta_for_epsilon(float(epsilon)))
        return min(1.0, max(0.0, found) + self._rounding)


def compose(events: Iterable[Event], *, accountant: str = "auto") -> PrivacyCurve:
    """Compose events that protect the same private parts.

    Parameters
    ----------
    events : iterable of Event
        In any order; adaptive composition.
    accountant : {"auto", "pld"}, default="auto"
        "auto" takes the closed form where every release is a full-batch Gaussian;
        "pld" composes privacy loss distributions even there.

    Raises
    ------
    ValueError
        If the events disagree in relation or public set: together they would
        protect nothing that either of them promises.
    """
    events = tuple(events)
    if accountant not in ("auto", "pld"):
        raise ValueError(f"accountant={accountant!r} must be 'auto' or 'pld'.")
    if len({event.protects for event in events}) > 1:
        raise ValueError(
            "Events under different neighbouring relations or public sets do not "
            "compose: use one relation and one public set for all of them."
        )
    full_batch = math.fsum(e.mu**2 for e in events if e.mu is not None)
    sampled = [event for event in events if event.mu is None]
    if not sampled and (accountant == "auto" or full_batch == 0):
        return GaussianCurve(math.sqrt(full_batch))

    selections = _selections(sampled)
    if len(selections) == len(events) == 1 and accountant == "auto":
        return selections[0][0]

    from skfdp.privacy import pld  # dp_accounting loads when first needed

    steps = [
        (_step_key(event, std), count)
        for event in sampled
        if type(event) is Event
        for std, count in _grouped(event)
    ]
    return PLDCurve(
        *pld.compose(steps, full_batch_mu=math.sqrt(full_batch), curves=selections)
    )


def _selections(events: list[Event]) -> list[tuple[Any, int]]:
    """Return the curves of events that are no plain `Event`, each with its count."""
    counts = collections.Counter(event for event in events if type(event) is not Event)
    if not counts:
        return []
    from skfdp.privacy.selection import Selection, SelectionCurve

    curves: list[tuple[Any, int]] = []
    for event, count in counts.items():
        if not isinstance(event, Selection):
            raise TypeError(f"no curve is known of a {type(event).__name__}.")
        curves.append((SelectionCurve(event), count))
    return curves


def _step_key(event: Event, noise_std: float) -> tuple:
    """Return what determines the curve of one step, in units of the clip norm."""
    return (
        noise_std / event.clip_norm,
        min(2.0, event.sensitivity / event.clip_norm),
        event.sampling_rate,
        event.neighboring_relation,
    )


def _grouped(event: Event) -> list[tuple[float, int]]:
    if len(event.noise_std) == 1:
        return [(event.noise_std[0], event.n_steps)]
    stds, counts = np.unique(event.noise_std, return_counts=True)
    return list(zip(stds.tolist(), counts.tolist(), strict=True))
