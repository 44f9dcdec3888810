"""The part of the declared bounds that holds the targets, from one noisy histogram.

The noise of a mean grows with the width of the interval that its numbers are cut to.
Bounds that are sure to hold are wide. So a coarse histogram is released first, and the
mean then within the bins that hold all records but what could be noise, and one more on
either side. As the budget grows, nothing is cut.
"""

from __future__ import annotations

import math

import numpy as np

from skfdp.privacy import Event
from skfdp.queries.statistics import RowSum
from skfdp.records.records import Records
from skfdp.records.row_map import RowMap
from skfdp.records.target import TargetMap
from skfdp.releases.desk import Desk

N_BINS = 16
# A histogram of more noise than that, as a share of the records, tells nothing.
_MOST_NOISE = 0.16
# Standard deviations of the noise that may be no records. One even bin too many costs
# little; one that is twice as wide as those before doubles the noise.
_DOUBT, _DOUBT_OF_DOUBLING = 2.0, 3.0


def pays(noise_std: float, n_records: int) -> bool:
    """Return whether a histogram with this noise in its counts tells anything."""
    return noise_std / n_records < _MOST_NOISE


def edges(bounds: TargetMap) -> np.ndarray:
    """Return N_BINS + 1 public edges: even, or doubling from the lower bound."""
    width = bounds.high - bounds.low
    if not bounds.log:
        return bounds.low + width * np.arange(N_BINS + 1) / N_BINS
    doubling = width * 2.0 ** (np.arange(N_BINS + 1) - N_BINS)
    return bounds.low + np.r_[0.0, doubling[1:]]


def released_window(records: Records, event: Event, desk: Desk) -> tuple[float, float]:
    """Return the interval that holds the targets, from one release.

    A record counts in one bin: its row is a unit vector, hence the sum of the rows
    moves by at most 1 if a record is nulled (it counts in none), and by at most 2 if it
    is replaced.

    Parameters
    ----------
    records : Records
    event : Event
    desk : Desk
    """
    public = records.public
    bounds = public.target_map
    found = edges(bounds)
    query = records.query(_in_bins)
    counts = desk.release(event.label, query, stream="target histogram")
    noise_std = event.noise_std[0] / public.n_records
    # Counts have no gap between the lower bound and the mean.
    first, last = filled(counts / public.n_records, noise_std, upward=bounds.log)
    return float(found[max(0, first - 1)]), float(found[min(N_BINS, last + 1)])


def _in_bins(records: Records) -> RowSum:
    """Return the histogram of the targets within their bounds; a recipe."""
    bounds = records.public.target_map
    target = np.clip(records.target, bounds.low, bounds.high)
    bins = np.searchsorted(edges(bounds)[1:-1], target, side="right")
    return RowSum(np.eye(N_BINS)[bins], RowMap(), records.public.capacity)


def filled(shares: np.ndarray, noise_std: float, *, upward: bool) -> tuple[int, int]:
    """Return the first bin, and that after the last, that hold all but noise.

    From the largest bin on, the larger neighbour is taken in, until what is left of all
    records is less than the noise of the sum.

    Parameters
    ----------
    shares : ndarray of shape (n_bins,)
        Noisy shares of the records.
    noise_std : float
        Of each.
    upward : bool
        Start at the first bin instead.
    """
    first = 0 if upward else int(shares.argmax())
    last = first + 1
    noise_std *= _DOUBT_OF_DOUBLING if upward else _DOUBT
    while 1 - shares[first:last].sum() > noise_std * math.sqrt(last - first):
        below = shares[first - 1] if first > 0 else -math.inf
        above = shares[last] if last < len(shares) else -math.inf
        if max(below, above) == -math.inf:
            break
        first, last = (first - 1, last) if below > above else (first, last + 1)
    return first, last
