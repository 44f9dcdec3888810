"""Confidence intervals of bounded numbers that are estimated with known variance.

A noisy share may lie outside [0, 1]. Cutting the usual interval there would leave it
empty now and then, and cutting the estimate first would cover too often. The intervals
here invert tests of every value in [0, 1], each with the variance that it would have
itself (as Wilson's do), whose acceptance regions are ordered by likelihood ratios (as
those of Feldman and Cousins 1998, https://doi.org/10.1103/PhysRevD.57.3873, are). They
are never empty, and their coverage is that of the normal law.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

# Candidate values, and how often they are drawn closer around an end that was found:
# ends are exact to 65**-4, which is 6e-8.
_N_VALUES, _N_ROUNDS = 65, 4
# A variance of 0 is that of a value that the estimate must equal.
_LEAST = 1e-200


def bounded_interval(
    estimate: float,
    variance: Callable[[np.ndarray], np.ndarray],
    confidence: float,
) -> tuple[float, float]:
    """Return a confidence interval of a number in [0, 1].

    Parameters
    ----------
    estimate : float
        Normal around the number, if unclipped.
    variance : callable
        Variance of the estimate for each value of an array that the number may have.
    confidence : float

    Returns
    -------
    low, high : float
        Of the values that are not rejected.
    """
    nearest = min(max(estimate, 0.0), 1.0)

    def end(furthest: float) -> float:
        kept, rejected = nearest, furthest
        for _ in range(_N_ROUNDS):
            values = np.linspace(kept, rejected, _N_VALUES)
            inside = np.flatnonzero(_accepted(values, estimate, variance, confidence))
            last = int(inside[-1]) if len(inside) else 0
            kept, rejected = values[last], values[min(last + 1, _N_VALUES - 1)]
        return float(rejected)

    return end(0.0), end(1.0)


def _accepted(
    values: np.ndarray,
    estimate: float,
    variance: Callable[[np.ndarray], np.ndarray],
    confidence: float,
) -> np.ndarray:
    """Return which values are not rejected."""
    std = np.sqrt(np.maximum(variance(values), _LEAST))
    low, high = -values / std, (1 - values) / std
    moved = (estimate - values) / std
    return rarity(moved, low, high) <= confidence


def rarity(moved: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    r"""Return how probable it is that a standard normal is less surprising.

    Parameters
    ----------
    moved : ndarray
        What was seen.
    low, high : ndarray
        Distances, at most and at least 0, to the ends of what the mean may be.

    Returns
    -------
    rarity : ndarray
        Probability of ``{t : t**2 - d(t)**2 <= c}``, where d is the distance of t to
        [low, high] and c what that is for `moved`: twice a logarithm of the ratio of
        the largest likelihood and that of the mean 0.
    """
    beyond = np.maximum(np.maximum(moved - high, low - moved), 0.0)
    level = np.maximum(moved**2 - beyond**2, 0.0)
    root = np.sqrt(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond_low = np.where(low < 0, (level + low**2) / (2 * low), -np.inf)
        beyond_high = np.where(high > 0, (level + high**2) / (2 * high), np.inf)
    lower = np.where(-root >= low, -root, beyond_low)
    upper = np.where(root <= high, root, beyond_high)
    return ndtr(upper) - ndtr(lower)
