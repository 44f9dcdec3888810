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
from scipy.special import ndtr, ndtri

# Candidate values, how often they are drawn closer around the ends that were found, and
# how many standard deviations around the estimate they reach.
_N_VALUES, _N_ROUNDS, _REACH = 65, 3, 8.0
_N_HALVINGS = 36


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
    # Twice: the variance may be larger toward the middle than at the estimate.
    reach = _REACH * float(np.sqrt(variance(np.array([nearest]))[0]))
    around = np.clip(nearest + np.array([-reach, 0, reach]), 0.0, 1.0)
    reach = _REACH * float(np.sqrt(variance(around).max()))

    def end(furthest: float) -> float:
        kept, rejected = nearest, furthest
        for _ in range(_N_ROUNDS):
            values = np.linspace(kept, rejected, _N_VALUES)
            inside = np.flatnonzero(_accepted(values, estimate, variance, confidence))
            if not len(inside):
                break
            last = int(inside[-1])
            kept, rejected = values[last], values[min(last + 1, _N_VALUES - 1)]
        return float(rejected)

    return end(max(0.0, nearest - reach)), end(min(1.0, nearest + reach))


def _accepted(
    values: np.ndarray,
    estimate: float,
    variance: Callable[[np.ndarray], np.ndarray],
    confidence: float,
) -> np.ndarray:
    """Return which values are not rejected."""
    std = np.sqrt(np.maximum(variance(values), 1e-300))
    lower, upper = acceptance(-values / std, (1 - values) / std, confidence)
    moved = (estimate - values) / std
    return (lower <= moved) & (moved <= upper)


def acceptance(
    low: np.ndarray, high: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return where standard normals fall with a probability, by likelihood ratio.

    Parameters
    ----------
    low, high : ndarray
        Distances, at most and at least 0, to the ends of what the mean may be.
    confidence : float

    Returns
    -------
    lower, upper : ndarray
        Ends of ``{t : t**2 - d(t)**2 <= c}``, where d is the distance of t to
        [low, high] and c gives the region the probability `confidence`.
    """
    plain = float(ndtri((1 + confidence) / 2))
    lower, upper = np.full(low.shape, -plain), np.full(low.shape, plain)
    near = (low > -plain) | (high < plain)
    if near.any():
        lower[near], upper[near] = _near_an_end(low[near], high[near], confidence)
    return lower, upper


def _near_an_end(
    low: np.ndarray, high: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the region where an end of what the mean may be is within reach."""
    least, most = np.zeros_like(low), np.full_like(low, 64.0)
    for _ in range(_N_HALVINGS):
        middle = (least + most) / 2
        lower, upper = _region(low, high, middle)
        enough = ndtr(upper) - ndtr(lower) >= confidence
        most = np.where(enough, middle, most)
        least = np.where(enough, least, middle)
    return _region(low, high, most)


def _region(
    low: np.ndarray, high: np.ndarray, level: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of one level of ``t**2 - d(t)**2``."""
    root = np.sqrt(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond_low = np.where(low < 0, (level + low**2) / (2 * low), -np.inf)
        beyond_high = np.where(high > 0, (level + high**2) / (2 * high), np.inf)
    lower = np.where(-root >= low, -root, beyond_low)
    upper = np.where(root <= high, root, beyond_high)
    return lower, upper
