"""Knots: where the pieces of a curve meet."""

from __future__ import annotations

import numpy as np

#: Knots of a column where nothing is known but its bounds.
STANDALONE_KNOTS = 8
#: Knots beside a budget, in smooth coordinates, which leave out what noise would drown:
#: 8 and 16 are too few for steps, for long tails and for bounds that are too wide.
SMOOTH_KNOTS = 32

#: Geometric steps from 0 start this many halvings below the upper bound: a column whose
#: typical value is a hundredth of what is declared still gets a few knots below it.
HALVINGS = 7


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
        low < high; 0 <= low where the spacing is geometric.
    n_knots : int
        At least 2.
    spacing : {"even", "geometric"}
        Geometric steps from 0 go from 0 to high / 128, and on from there; with less
        than 9 knots to a larger share of high, so that no step more than doubles.

    Returns
    -------
    knots : float64 ndarray of shape (n_knots,)
        In ascending order; the first is low and the last is high.
    """
    # Of the last digit, near the largest float or the smallest.
    with np.errstate(over="ignore", under="ignore"):
        if spacing == "even":
            share = np.arange(n_knots) / (n_knots - 1)
            # Not low + share * (high - low): the difference may overflow.
            knots = low * (1 - share) + high * share
        elif low == 0:
            first = high * 2.0 ** -min(HALVINGS, n_knots - 2)
            first = max(first, np.nextafter(0.0, 1.0))  # high may be as small
            knots = np.r_[0.0, _ratios(first, high, n_knots - 1)]
        else:
            knots = _ratios(low, high, n_knots)
    knots = np.maximum.accumulate(np.clip(knots, low, high))
    knots[0], knots[-1] = low, high
    return knots


def _ratios(low: float, high: float, n_knots: int) -> np.ndarray:
    share = np.arange(n_knots) / max(1, n_knots - 1)
    return np.exp(np.log(low) * (1 - share) + np.log(high) * share)
