"""Knots: where the pieces of a curve meet."""

from __future__ import annotations

import numpy as np

#: Knots of a column where nothing is known but its bounds.
STANDALONE_KNOTS = 8


def automatic_knots() -> int:
    """Return what ``n_knots="auto"`` stands for; public numbers alone may decide."""
    return STANDALONE_KNOTS


def spread_knots(low: float, high: float, n_knots: int, spacing: str) -> np.ndarray:
    """Return knots from low to high; some coincide if the bounds are too close.

    Parameters
    ----------
    low, high : float
        low < high; 0 < low where the spacing is geometric.
    n_knots : int
        At least 2.
    spacing : {"even", "geometric"}

    Returns
    -------
    knots : float64 ndarray of shape (n_knots,)
        In ascending order; the first is low and the last is high.
    """
    share = np.arange(n_knots) / (n_knots - 1)
    with np.errstate(over="ignore"):  # of the last digit, near the largest float
        if spacing == "geometric":
            knots = np.exp(np.log(low) * (1 - share) + np.log(high) * share)
        else:
            # Not low + share * (high - low): the difference may overflow.
            knots = low * (1 - share) + high * share
    knots = np.maximum.accumulate(np.clip(knots, low, high))
    knots[0], knots[-1] = low, high
    return knots
