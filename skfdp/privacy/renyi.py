r"""Rényi divergences of Gaussian releases, and back to (epsilon, delta).

Needed where a theorem is about Rényi divergences only; compositions of releases are
accounted for more tightly by their curves.

**The symmetrised curve.** Under "replace_one" a Poisson-sampled step is bounded by the
symmetrised curve of a pair (A, B), see `skfdp.privacy.pld`. The larger one of the two
divergences of (A, B) is *not* known to bound those of all neighbours; the divergence of
the symmetrised curve is. It is, for every order :math:`\alpha > 1`,

.. math:: e^{(\alpha - 1) D_\alpha} = 1 + \int_{A > B} A\,
   \bigl(e^{(\alpha - 1) L} - 1\bigr) \bigl(1 - e^{-\alpha L}\bigr) dx ,
   \qquad L = \log(A / B) .

The derivation is in the documentation (theory, "Private selection").
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import numpy as np
from scipy.special import logsumexp

from skfdp.privacy.events import Event
from skfdp.privacy.relations import Relation

#: Orders at which divergences are compared.
ORDERS = np.concatenate(
    [
        np.arange(1.1, 2.0, 0.1),
        np.arange(2.0, 12.0, 0.25),
        np.geomspace(12.0, 512.0, 80),
    ]
)
# The integrand is a sum of bells of the noise's width: points per standard deviation,
# and how far the range goes beyond the farthest bell.
_DENSITY, _TAIL_STDS, _MOST_POINTS = 16, 14.0, 400_000
# Relative excess of an integral that covers its truncation and rounding.
_SLACK = 1e-7
# Tails that vanish are no error, whatever np.seterr says.
_tails = np.errstate(under="ignore", over="ignore")


@_tails
def divergences(events: Iterable[Event], orders: np.ndarray) -> np.ndarray:
    """Return upper bounds of the Rényi divergences of a composition, both directions.

    Parameters
    ----------
    events : iterable of Event
        Gaussian releases under one relation; adaptive composition.
    orders : ndarray of shape (n_orders,)
        Above 1.

    Returns
    -------
    bounds : ndarray of shape (n_orders,)
        Infinite where the noise is too small for the order to be of use.

    Notes
    -----
    **Guarantees.** Exact for full batches: ``order * mu**2 / 2``. For Poisson batches
    the divergence of the symmetrised curve ("replace_one"), or the larger one of the
    two directions (otherwise), by quadrature in float64.
    """
    total = np.zeros(len(orders))
    for event in events:
        if type(event) is not Event:  # the fields of other kinds mean other things
            raise ValueError(
                f"no divergence is known of a {type(event).__name__}: pass Gaussian "
                "releases."
            )
        if event.mu is not None:
            total += orders * event.mu**2 / 2
            continue
        repeats = event.n_steps if len(event.noise_std) == 1 else 1
        for std in event.noise_std:
            noise = std / event.clip_norm
            reach = min(2.0, event.sensitivity / event.clip_norm)
            total += repeats * np.array(
                [
                    sampled(noise, reach, event.sampling_rate, relation, float(order))
                    for relation in [event.neighboring_relation]
                    for order in orders
                ]
            )
    return total


@functools.lru_cache(maxsize=4096)
def sampled(
    noise: float, sensitivity: float, q: float, relation: str, order: float
) -> float:
    """Return the divergence of one Poisson-sampled release, in units of the clip norm.

    Parameters
    ----------
    noise, sensitivity : float
        Over the clip norm.
    q : float
        Sampling rate.
    relation : str
    order : float
    """
    # A bell of the integrand sits within the order times the distance of the means.
    reach = 1 + order * max(1.0, sensitivity) + _TAIL_STDS * noise
    low = 1 - sensitivity / 2 if Relation.of(relation).replaces else -reach
    n_points = math.ceil((reach - low) / noise * _DENSITY)
    if n_points > _MOST_POINTS:
        return math.inf
    x, gap = np.linspace(low, reach, n_points + 1, retstep=True)
    log_a = _log_mixture(x, 1.0, noise, q)
    if Relation.of(relation).replaces:
        loss = log_a - _log_mixture(x, 1 - sensitivity, noise, q)
        loss = np.maximum(loss, 1e-300)
        log_terms = log_a + _log_expm1((order - 1) * loss)
        log_terms += np.log(-np.expm1(-order * loss))
        log_sum = np.logaddexp(0.0, float(logsumexp(log_terms)) + math.log(gap))
    else:
        log_b = _log_mixture(x, 0.0, noise, 0.0)
        log_sum = math.log(gap) + max(
            float(logsumexp(order * log_a + (1 - order) * log_b)),
            float(logsumexp(order * log_b + (1 - order) * log_a)),
        )
    return (log_sum + _SLACK * min(1.0, abs(log_sum)) + 1e-12) / (order - 1)


def _log_mixture(x: np.ndarray, centre: float, noise: float, q: float) -> np.ndarray:
    """Return the log density of (1 - q) N(0) + q N(centre)."""
    constant = math.log(noise * math.sqrt(2 * math.pi))
    plain = -((x / noise) ** 2) / 2 - constant
    if q == 0:
        return plain
    shifted = -(((x - centre) / noise) ** 2) / 2 - constant
    if q == 1:
        return shifted
    return np.logaddexp(math.log1p(-q) + plain, math.log(q) + shifted)


def _log_expm1(value: np.ndarray) -> np.ndarray:
    """Return log(exp(value) - 1) for positive values, without overflow."""
    return value + np.log(-np.expm1(-value))


@_tails
def epsilon(orders: np.ndarray, bounds: np.ndarray, delta: float) -> float:
    """Return the smallest epsilon that Rényi divergences imply at delta.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Proposition 12,
    https://arxiv.org/abs/2004.00010.
    """
    found = bounds + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return max(0.0, float(found.min()))


@_tails
def delta(orders: np.ndarray, bounds: np.ndarray, epsilon: float) -> float:
    """Return the smallest delta that Rényi divergences imply at epsilon."""
    epsilon = min(epsilon, 1e300)  # infinity minus infinity is no number
    exponents = (orders - 1) * (bounds - epsilon + np.log1p(-1 / orders))
    return min(1.0, math.exp(min(0.0, float((exponents - np.log(orders)).min()))))
