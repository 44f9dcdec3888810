"""Knots: where the pieces of a curve meet."""

from __future__ import annotations

import numpy as np

#: Knots of a column where nothing is known but its bounds.
STANDALONE_KNOTS = 8
#: Knots beside a budget, in smooth coordinates, which leave out what noise would drown:
#: 8 and 16 are too few for steps, for long tails and for bounds that are too wide.
SMOOTH_KNOTS = 32


def automatic_knots(smooth: bool = False) -> int:
    """Return what ``n_knots="auto"`` stands for; public numbers alone may decide.

    Parameters
    ----------
    smooth : bool, default=False
        Whether the rows will be in the coordinates of `Smoothing`.
    """
    return SMOOTH_KNOTS if smooth else STANDALONE_KNOTS


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
