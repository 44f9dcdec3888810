"""Release a mean whose error is proportional to the spread of the rows.

After Huang, Liang and Yi (2021); see :ref:`adaptive-centring`. Clip norm and noise are
proportional to the spread of the rows instead of their length.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.data.grid import lengths
from skfdp.data.records import (
    PublicRecords,
    Records,
    moved_rows,
    rotated,
    rotated_width,
)
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.queries.statistics import (
    FIRST,
    LAST,
    N_BINADES,
    N_SPECIAL,
    Binades,
    BinCounts,
    RowSum,
    shrunk_mean,
)
from skfdp.solvers import histograms
from skfdp.solvers.histograms import Told, best_run, significant
from skfdp.solvers.method import Budget, Plan

#: Number of shells (intervals of distances) within a doubling of the distance, and
#: number of shells with an outer radius.
PER_OCTAVE, N_SHELLS = 4, 64
#: Outer radii of the shells; one more bin has no outer radius.
RADII = 2.0 ** ((np.arange(N_SHELLS) - N_SHELLS + 1) / PER_OCTAVE)


@dataclasses.dataclass(frozen=True)
class Shells:
    """Bins of distances: radii in geometric sequence up to 1, and one bin beyond.

    This is a `rule` of `BinCounts` with one column, of distances divided by a public or
    released length.
    """

    n_bins: int = N_SHELLS + 1

    def bins(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the shell of each distance, int64; each float64 is in exactly one.

        NaN and infinity are beyond every radius; `columns` is ignored.
        """
        return np.searchsorted(RADII, values, side="left").astype(np.int64)


#: Label of the event.
DISTANCES = "distances"
#: Default level of the quantile. Few rows are farther away than this quantile. The
#: others have a norm of about 1 after division by the quantile.
LEVEL = 0.9
#: Least and largest share of ``mu**2`` for one histogram.
SHARES = 0.005, 0.05
# Upper limits of the desired standard deviation of the noise in a count: `_NOISE` times
# the number of records beyond the quantile, and `_NOISE_OF_ALL` times the number of all
# records. With the second limit, an eighth of all records is significant, even if these
# records are spread over 32 shells.
_NOISE, _NOISE_OF_ALL = 1 / 8, 1 / 136
# A count of at most this many standard deviations of its noise may be noise alone.
_DOUBT = 3.0
# The search for a quantile ends if `_DOUBT` standard deviations of the noise exceed
# this fraction of the records.
_MOST_DOUBT = 1 / 4


def share(mu: float, n_records: int) -> float:
    """Return the share of ``mu**2`` for one histogram, from public numbers."""
    wanted = min(_NOISE * (1 - LEVEL), _NOISE_OF_ALL) * n_records
    return float(np.clip((1 / (mu * wanted)) ** 2, *SHARES))


def released_quantile(
    rows: np.ndarray,
    event: Event,
    stream: str,
    n_records: int,
    mechanism: Mechanism,
) -> float:
    """Return a released quantile of the norms of `rows`: one of `RADII`, at most 1.

    `rows` are centred and divided by a length that few distances exceed. `quantile`
    describes the effect of the noise.
    """
    query = BinCounts(lengths(rows)[:, None], Shells())
    counts = mechanism.release(DISTANCES, query, stream=stream)[0]
    return quantile(counts, LEVEL, float(event.noise_std[0]), n_records)


def quantile(counts: np.ndarray, level: float, std: float, n_records: int) -> float:
    """Return the least radius beyond which there are clearly few records.

    The search starts at the largest radius. It stops before a radius if the noisy
    number of records beyond it exceeds a limit: ``1 - level`` of all records minus the
    doubt, three standard deviations of the noise in this number, but at least the
    doubt. It also stops if the doubt exceeds a quarter of all records. With enough
    records the result is too large by about one shell.
    """
    beyond, found = 0.0, 1.0
    for passed, count in enumerate(counts[:0:-1]):
        beyond += count
        doubt = _DOUBT * std * math.sqrt(passed + 1)
        allowed = max((1 - level) * n_records - doubt, doubt)
        if doubt > _MOST_DOUBT * n_records or beyond > allowed:
            break
        found = float(RADII[len(RADII) - 1 - passed])
    return found


#: Labels of the events of the rough centre and of the mean about this centre.
ROUGH, MEAN = "rough mean", "mean"
#: Number of histograms for the rough centre: one of binades (intervals between powers
#: of two), then two of bins of equal width.
N_HISTOGRAMS = 3
#: Name of the public random stream of the rotation.
ROTATION = "rotation"
# Smallest length, so that divisions by it stay finite.
_SMALLEST_RADIUS = 1e-150


def events_of_centre(
    public: PublicRecords,
    budget: Budget,
    share: float,
    histogram_share: float,
) -> tuple[Event, Event, Event]:
    """Return the events of the rough centre, of the distances, and of the mean.

    The rough centre and the mean get half of `share` of ``mu**2`` each, and each of the
    two histograms of distances `histogram_share`.
    """
    width, each = rotated_width(public.n_private), share / 2 / N_HISTOGRAMS
    rough = histograms.event_of_counts(
        ROUGH,
        width,
        public,
        budget,
        each,
        N_HISTOGRAMS,
        purpose="centering='adaptive'",
        remedy="use centering='gaussian'",
    )
    reach = RowSum.planned().sensitivity(budget.relation)
    std = reach / (math.sqrt(share / 2) * budget.mu)
    mean = budget.event(MEAN, std, sensitivity=reach)
    known = DISTANCES, 1, public, budget, histogram_share
    radii = histograms.event_of_counts(*known, n_steps=2)
    return rough, radii, mean


def released_centre(
    records: Records, plan: Plan, mechanism: Mechanism
) -> tuple[np.ndarray, float, float]:
    """Release the mean of the scaled rows, and a radius around it with most rows.

    The second result is the standard deviation of the noise in each entry of the mean.
    """
    public, mapped = records.public, records.floats
    rough, furthest = _rough_centre(records, plan.event(ROUGH), mechanism)
    part = released_quantile(
        moved_rows(mapped, rough, furthest),
        plan.event(DISTANCES),
        "distances from the rough mean",
        public.n_records,
        mechanism,
    )
    radius = max(part * furthest, _SMALLEST_RADIUS)
    query = RowSum(moved_rows(mapped, rough, radius), public.capacity)
    found = mechanism.release(MEAN, query) / public.n_records
    error = float(plan.event(MEAN).noise_std[0]) / public.n_records
    moved = shrunk_mean(found, error)
    return rough + radius * moved, radius * error, radius


def _rough_centre(
    records: Records, event: Event, mechanism: Mechanism
) -> tuple[np.ndarray, float]:
    """Return a released point near most rows, and a distance that few rows exceed.

    The point is the middle of a box in rotated columns. The distance is half of the
    diagonal of the box, or less if public bounds of the rows are smaller.
    """
    n_columns, n = records.public.n_private, records.public.n_records
    std = float(event.noise_std[0])
    drawn = mechanism.streams.public(ROTATION).integers(0, 2, size=n_columns)
    signs = 1.0 - 2.0 * drawn
    rows = moved_rows(records.floats, np.zeros(n_columns), 1.0, signs)
    query = BinCounts(rows, Binades())
    counts = mechanism.release(ROUGH, query, stream="rough binades")
    box = boxed(counts, std, n)
    for number in range(1, N_HISTOGRAMS):
        rule = histograms.even_bins(box)
        query = dataclasses.replace(query, rule=rule)
        counts = mechanism.release(ROUGH, query, stream=f"rough bins {number}")
        box = [
            narrowed(row, std, rule.edges(column)) for column, row in enumerate(counts)
        ]
    low, high = np.array(box).T
    rough = rotated((low + high)[None] / 2)[0, :n_columns] * signs
    half = math.hypot(*((high - low) / 2))
    # The public bound of the norm of a scaled row; infinite if there is none.
    input_scaler, longest = records.public.input_scaler, 1.0
    if not (input_scaler.normalize or input_scaler.shortens):
        longest = records.public.longest_private / input_scaler.feature_bound
    furthest = min(half, longest + math.hypot(*rough))
    return rough, max(furthest, _SMALLEST_RADIUS)


def boxed(counts: np.ndarray, std: float, n_records: int) -> list[tuple[float, float]]:
    """Return bounds of each rotated column, from noisy counts of its binades.

    After the rotation the numbers of all columns have similar magnitudes. So the counts
    summed over all columns give a common bound, which replaces larger bounds of single
    columns: they are probably noise.
    """
    width = len(counts)
    split = N_SPECIAL + N_BINADES
    sizes = (counts[:, N_SPECIAL:split] + counts[:, split:]).sum(axis=0)
    noise = std * math.sqrt(2 * width)
    run = best_run(sizes, noise)
    # Without a significant count, rows are assumed to have a norm of about 1.
    longest = 2 * width**-0.5
    if significant(sizes[run], noise):
        longest = math.ldexp(1.0, min(FIRST + run.stop, LAST))
    found = [histograms.rough_bounds(Told(row, std, n_records)) for row in counts]
    return [
        (-longest, longest) if pair is None or max(map(abs, pair)) > longest else pair
        for pair in found
    ]


def narrowed(counts: np.ndarray, std: float, edges: np.ndarray) -> tuple[float, float]:
    """Return an interval that holds most numbers of a column, from even bins.

    It is the run of bins whose counts most exceed their noise, and one more bin on each
    side; all bins, if this run may be noise alone.
    """
    numbers = counts[N_SPECIAL + 1 : -1]
    run = best_run(numbers, std)
    if not significant(numbers[run], std):
        return float(edges[0]), float(edges[-1])
    start, stop = max(run.start - 1, 0), min(run.stop + 1, len(edges) - 1)
    return float(edges[start]), float(edges[stop])
