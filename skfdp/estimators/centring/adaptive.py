"""The mean whose error follows the spread of the rows: a rough one, then a fine one.

After Huang, Liang and Yi (2021). A rough centre is found column by column in rotated
rows, in three histograms of all columns; then how far rows are from it; then the mean
of the rows about it, cut to that distance. What is cut and what the noise follows is
the spread, and no longer the length of the rows.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.bounds import decoding
from skfdp.estimators.bounds.decoding import Told, Window
from skfdp.estimators.bounds.release import MOST_COUNTS
from skfdp.estimators.centring import distances
from skfdp.estimators.method import Budget, Plan
from skfdp.privacy import Event
from skfdp.queries.bins import (
    FIRST,
    LAST,
    N_BINADES,
    N_SPECIAL,
    Binades,
    BinCounts,
)
from skfdp.queries.statistics import RowSum
from skfdp.records.moved import MovedRows, Rotation, rotated_width
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.releases.desk import Desk

#: Labels of the events of the rough centre and of the mean about it.
ROUGH, MEAN = "rough mean", "mean"
#: Histograms of the rough centre: of binades, then twice of even bins within.
N_HISTOGRAMS = 3
#: Even bins of a column.
N_EVEN = 32
#: Public stream of the rotation.
ROTATION = "rotation"
# No length is smaller: what is divided by it stays a number.
_SHORTEST = 1e-150


@dataclasses.dataclass(frozen=True)
class Centre:
    """A released centre of rows.

    Attributes
    ----------
    mean : float64 ndarray of shape (n_columns,)
    error : float
        Standard deviation of the noise in each entry.
    radius : float
        Released; most rows are within it.
    """

    mean: np.ndarray
    error: float
    radius: float


def events(
    public: PublicRecords,
    budget: Budget,
    share: float,
    histogram_share: float,
    n_more: int,
) -> tuple[Event, Event, Event]:
    """Return the events of the rough centre, of the distances, and of the mean.

    Parameters
    ----------
    public : PublicRecords
    budget : Budget
    share : float
        Of ``mu**2``, for the rough centre and the mean, a half each.
    histogram_share : float
        Of ``mu**2``, for one histogram of distances.
    n_more : int
        Histograms of distances beside the one that is needed here.
    """
    width = rotated_width(public.n_private)
    if math.prod(BinCounts.planned(width).shape) > MOST_COUNTS:
        raise ValueError(
            f"centering='adaptive' of {public.n_private} columns needs more counts "
            "than can be held: use 'gaussian', or fewer columns."
        )
    each = share / 2 / N_HISTOGRAMS
    rough = distances.event_of_counts(ROUGH, width, public, budget, each, N_HISTOGRAMS)
    reach = RowSum.planned().sensitivity(budget.relation)
    std = reach / (math.sqrt(share / 2) * budget.mu)
    mean = budget.event(MEAN, std, sensitivity=reach)
    n_steps = 1 + n_more
    radii = distances.event(public, budget, histogram_share, n_steps=n_steps)
    return rough, radii, mean


def released_centre(records: Records, plan: Plan, desk: Desk) -> Centre:
    """Return the mean of the mapped rows, released about a rough centre.

    Parameters
    ----------
    records : Records
        Dense; every column private.
    plan : Plan
        With the events of `events`.
    desk : Desk
    """
    public, mapped = records.public, records.mapped
    rough, furthest = _rough_centre(records, plan.event(ROUGH), desk)
    event = plan.event(distances.LABEL)
    part = distances.released_quantile(
        MovedRows(mapped, rough, furthest),
        distances.LEVEL,
        event,
        "distances from the rough mean",
        public.n_records,
        desk,
    )
    radius = max(part * furthest, _SHORTEST)
    query = RowSum(MovedRows(mapped, rough, radius), RowMap(), public.capacity)
    found = desk.release(MEAN, query) / public.n_records
    error = float(plan.event(MEAN).noise_std[0]) / public.n_records
    moved = defaults.shrunk_mean(found, error)
    return Centre(rough + radius * moved, radius * error, radius)


def _rough_centre(
    records: Records, event: Event, desk: Desk
) -> tuple[np.ndarray, float]:
    """Return the middle of a released box in rotated columns, and half its diagonal."""
    n_columns, n = records.public.n_private, records.public.n_records
    std = float(event.noise_std[0])
    rotation = Rotation.draw(desk.streams.public(ROTATION), n_columns)
    rows = MovedRows(records.mapped, np.zeros(n_columns), 1.0, rotation)
    query = BinCounts(rows, Binades())
    counts = desk.release(ROUGH, query, stream="rough binades")
    box = boxed(counts, std, n)
    for number in range(1, N_HISTOGRAMS):
        rule = decoding.even_bins(box, N_EVEN)
        query = dataclasses.replace(query, rule=rule)
        counts = desk.release(ROUGH, query, stream=f"rough bins {number}")
        box = [
            narrowed(row, std, rule.edges(column)) for column, row in enumerate(counts)
        ]
    low, high = np.array(box).T
    rough = rotation.back((low + high) / 2)
    half = math.hypot(*((high - low) / 2))
    furthest = min(half, _longest(records) + math.hypot(*rough))
    return rough, max(furthest, _SHORTEST)


def _longest(records: Records) -> float:
    """Return the public bound of the norm of a mapped row, infinite where none is."""
    row_map, public = records.row_map, records.public
    if row_map.normalize or row_map.shortens:
        return 1.0
    return public.longest_private / row_map.feature_bound


def boxed(counts: np.ndarray, std: float, n_records: int) -> list[tuple[float, float]]:
    """Return bounds of all rotated columns from their binades.

    After the rotation no column is much longer than the others. So the sizes of all
    of them together tell how long any may be: that is seen where single columns are
    lost in the noise, and a column that seems longer is taken for noise.

    Parameters
    ----------
    counts : ndarray of shape (n_columns, n_bins)
        Noisy, of `Binades`.
    std : float
        Standard deviation of the noise in each.
    n_records : int
    """
    width = len(counts)
    split = N_SPECIAL + N_BINADES
    sizes = (counts[:, N_SPECIAL:split] + counts[:, split:]).sum(axis=0)
    window = Window.best(sizes, std * math.sqrt(2 * width))
    # Rows have a norm of about 1, where nothing is seen.
    longest = 2 * width**-0.5
    if window.passes:
        longest = math.ldexp(1.0, min(window.last + 1, LAST))
    found = [decoding.rough_bounds(Told(row, std, n_records)) for row in counts]
    return [
        (-longest, longest) if pair is None or max(map(abs, pair)) > longest else pair
        for pair in found
    ]


def narrowed(counts: np.ndarray, std: float, edges: np.ndarray) -> tuple[float, float]:
    """Return the run of even bins that stands out of the noise, one more on each side.

    All of them where none stands out.

    Parameters
    ----------
    counts : ndarray of shape (N_SPECIAL + n_even + 2,)
        Noisy, of `EvenBins`.
    std : float
        Standard deviation of the noise in each.
    edges : float64 ndarray of shape (n_even + 1,)
    """
    window = Window.best(counts[N_SPECIAL + 1 : -1], std)
    if not window.passes:
        return float(edges[0]), float(edges[-1])
    start = max(window.first - FIRST - 1, 0)
    stop = min(window.last - FIRST + 2, len(edges) - 1)
    return float(edges[start]), float(edges[stop])
