"""The centring and scaling of rows for a training loop: exact, or from releases."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skfdp.data.grid import as_dense, column_sums, lengths, unit_of_squares
from skfdp.data.records import (
    Coordinates,
    PublicRecords,
    Records,
    moved_rows,
    rotated,
    rotated_width,
)
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.privacy.checks import computed
from skfdp.queries.statistics import (
    FIRST,
    LAST,
    N_BINADES,
    N_SPECIAL,
    Binades,
    BinCounts,
    GridRowSum,
    RowSum,
    shrunk_mean,
)
from skfdp.solvers import histograms, parameters
from skfdp.solvers.histograms import Told, best_run, significant
from skfdp.solvers.method import Budget, Needs, Plan
from skfdp.solvers.postprocessing import MOST_USED

#: Clip norm of rows with their constant column, divided by the released quantile of
#: distances. The constant column has the value of this quantile.
LONGEST = math.sqrt(2)
#: Labels of the events of a typical length, and of a histogram of lengths.
LENGTH, LENGTHS = "row length", "row lengths"
# The released typical length is at least the largest possible length divided by this
# number.
_SHORTEST = 64.0
# If the typical length of a wide table could not be below `_LEAST_LENGTH`, a histogram
# first gives a smaller largest length, unless the noise in its counts exceeds this
# share of the records.
_LEAST_LENGTH, _NOISE_OF_COUNTS = 0.5, 0.15
# Largest distance from the adaptive mean in a histogram, divided by its radius.
_FURTHEST = 2.0


#: The mean of the public columns, and their spread: the root mean square distance of
#: the public part of a row from this mean.
Moments = tuple[np.ndarray, float]


@dataclasses.dataclass(frozen=True)
class Centring:
    """The centring of rows, and their scaling to a known typical norm.

    The public columns are centred and scaled exactly. The private columns are centred
    by a released mean and scaled by a released length. Rows are clipped only with
    `clip_features`. Otherwise only gradients are clipped.

    The kind "adaptive", alone with `clip_features`, is for dense tables without public
    columns; see `skfdp.solvers.AdaptiveCentering`.
    """

    #: "auto": private columns are centred only if their mean can be released
    #: accurately; see `can_learn_mean`. None: nothing is centred.
    kind: str | None
    fit_intercept: bool  # without an intercept nothing is centred
    mean_fraction: float | str = "auto"  # share of ``mu**2`` for the private mean
    #: Typical norm of the private columns of a row, after `bounds` were applied.
    #: "auto": it is released. None: the input scaler returns rows of norm 1.
    length: float | str | None = None
    clip_features: bool = False
    #: Value of the constant column that carries the intercept, or None without one.
    bias: float | None = computed()
    #: Whether the kind and the intercept let it centre columns.
    centres: bool = computed()
    #: Whether the mean is adaptive, which needs a table of rows before a grid.
    adapts: bool = computed()

    def __post_init__(self):
        centres = self.kind is not None and bool(self.fit_intercept)
        bias = 1.0 if self.clip_features else parameters.BIAS_FEATURE
        vars(self).update(
            bias=bias if self.fit_intercept else None,
            centres=centres,
            adapts=self.kind == "adaptive" and centres,
        )

    def honours(self) -> dict[str, tuple[str, ...]]:
        """Return what the parameters of the centring need; see `Needs`."""
        of_rows = Needs.NO_PUBLIC_COLUMN, Needs.DENSE, Needs.IN_MEMORY
        private = (Needs.PRIVATE_COLUMNS,)
        mean = private + ("fit_intercept=True",) * (not self.fit_intercept)
        return {
            "centering": of_rows if self.adapts else mean,
            "centering=None": (),
            "budget_share": mean,
            "clip_features": of_rows,
            "row_norm": private * (self.length is not None)  # not normalised
            + ("another centering",) * self.adapts,
            "normalize": (Needs.NO_SCHEMA,),
        }

    def can_learn_mean(self, public: PublicRecords, mu: float, signed: bool) -> bool:
        """Whether to release the mean of the private columns, from public numbers.

        The mean is released if the user chooses a centring. Otherwise its noise, with
        the largest share of ``mu**2`` and for rows of norm 1, must have a squared norm
        of at most 1/2, except in regressions. If contributions are `signed` without a
        mean, their sensitivity is smaller, and the limit is 1/4.
        """
        if not self.centres:
            return False
        if (
            self.kind in ("gaussian", "adaptive")
            or self.mean_fraction != "auto"
            or not (signed or public.n_classes)
        ):
            return True
        signal = parameters.MOST_FOR_MEAN * (mu * public.n_effective) ** 2
        return public.n_private / signal <= (0.25 if signed else 0.5)

    def events(
        self, public: PublicRecords, budget: Budget, mu: float, *, mean: bool = True
    ) -> tuple[Event, ...]:
        """Return the events of the releases that centre and scale private columns.

        `mean` is whether they are centred. For `mu` see `parameters`.
        """
        if public.mask.all():
            return ()
        n = public.n_effective
        if self.adapts:
            share = self.mean_fraction
            if share == "auto":  # one half for the rough centre, one for the mean
                share = 2 * parameters.mean_fraction(mu, n, public.n_private)
            few = min(_NOISE * (1 - LEVEL), _NOISE_OF_ALL) * n
            each = float(np.clip((1 / (mu * few)) ** 2, *SHARES))
            rough = histograms.event_of_counts(
                ROUGH,
                rotated_width(public.n_private),
                public,
                budget,
                share / 2 / N_HISTOGRAMS,
                N_HISTOGRAMS,
                purpose="centering='adaptive'",
                remedy="use centering='gaussian'",
            )
            known = DISTANCES, 1, public, budget, each
            radii = histograms.event_of_counts(*known, n_steps=2)
            reach = RowSum.planned().sensitivity(budget.relation)
            std = reach / (math.sqrt(share / 2) * budget.mu)
            return rough, radii, budget.event(MEAN, std, sensitivity=reach)
        wanted, found = [], []
        if self.length == "auto":
            share = parameters.mean_fraction(mu, n, 1, least=0.005)
            # If some columns are public, the private columns may be zero in most rows.
            # The effect of noise in their weights then depends on the root mean square
            # of the lengths, so this number is released, too.
            n_steps = 1 + (public.n_private < public.n_features)
            if n_steps == 2 and public.target_map is not None:
                # A regression shrinks its weights by a prior. A rough length is
                # therefore enough, with an error of half of a typical length.
                share = float(np.clip(4 / (mu * n) ** 2, 0.005, 0.1))
                n_steps = 1 + (share < parameters.LEAST_FOR_MEAN)
            # Rows of wide tables are much shorter than the longest possible row. The
            # noise in a mean over this whole interval is then too large.
            noise = 1 / (math.sqrt(share) * mu * n)
            least = public.furthest_private * max(noise, 1 / _SHORTEST)
            wide = public.n_private > MOST_USED and least > _LEAST_LENGTH
            if wide and noise < _NOISE_OF_COUNTS:
                wanted.append((LENGTHS, share, BinCounts.planned(1), 1))
            wanted.append((LENGTH, share, RowSum.planned(), n_steps))
        if mean and self.centres:
            share = self.mean_fraction
            if share == "auto":
                share = parameters.mean_fraction(mu, n, public.n_private)
            query = RowSum.planned(nonnegative=public.private_bounded)
            wanted.append(("mean", share, query, 1))
        for label, share, query, n_steps in wanted:
            reach = query.sensitivity(budget.relation)
            most = budget.relation.sensitivity(1.0)  # the sensitivity that `mu` assumes
            std = reach / most / (math.sqrt(share) * mu)
            found.append(budget.event(label, std, sensitivity=reach, n_steps=n_steps))
        return tuple(found)

    def public_coordinates(
        self, public: PublicRecords, moments: Moments, bias: float | None
    ) -> Coordinates:
        """Return the centring and scaling of rows whose columns are all public."""
        mean, spread = moments
        scale = 1 / spread if spread > 0 else 1.0
        return Coordinates(public.input_scaler, mean, scale, bias)

    def coordinates(
        self,
        records: Records,
        moments: Moments | None,
        plan: Any,
        mechanism: Mechanism,
        bias: float | None,
    ) -> Coordinates:
        """Make the planned releases, and return the centring and scaling of rows.

        With a plan that depends on the released mean, the mean is not subtracted if its
        squared norm, minus the expected square of its noise, is small. `bias` is the
        value of the constant column.
        """
        public, mask = records.public, records.public.mask
        if mask.all():
            return self.public_coordinates(public, moments, bias)
        if plan.event(ROUGH) is not None:
            mean, error, radius = released_centre(records, plan, mechanism)
            furthest = _FURTHEST * radius
            rows = moved_rows(records.floats, mean, furthest)
            known = plan.event(DISTANCES), "distances from the mean"
            part = released_quantile(rows, *known, public.n_records, mechanism)
            known = public.input_scaler, mean, 1 / (part * furthest), self.bias
            longest = LONGEST if self.clip_features else math.inf
            return Coordinates(*known, error, longest)
        unit = self._unit(records, plan, mechanism)
        mean, scale, error = np.zeros(mask.size), 1 / unit, 0.0
        event = plan.event("mean")
        if event is not None:
            divisor = public.input_scaler.divisor_of_integers
            recipe = functools.partial(GridRowSum.of, bound=unit * divisor)
            noise_std = event.noise_std[0] / public.n_records
            found = mechanism.release("mean", records.query(recipe)) / public.n_records
            square = float(found @ found) - found.size * noise_std**2
            if plan.centred is None or square >= parameters.LEAST_SQUARED_MEAN:
                found, scale = shrunk_mean(found, noise_std)
                mean[~mask], error = found * unit, noise_std * unit
                scale /= unit
        if moments is not None:
            mean[mask], spread = moments
            ours, theirs = plan.norms
            scale = np.where(mask, ours / spread if spread > 0 else 1.0, theirs * scale)
        return Coordinates(public.input_scaler, mean, scale, bias, error)

    def _unit(self, records: Records, plan: Plan, mechanism: Mechanism) -> float:
        """Return the typical norm, perhaps released, of a scaled row's private part."""
        event, counts = plan.event(LENGTH), plan.event(LENGTHS)
        public = records.public
        divisor = public.input_scaler.feature_bound
        if event is None:
            return 1.0 if self.length is None else self.length / divisor
        furthest = public.furthest_private
        if counts is not None:
            recipe = functools.partial(_in_binades, furthest=furthest)
            found = mechanism.release(LENGTHS, records.query(recipe))[0]
            furthest = min(furthest, longest(found, float(counts.noise_std[0])))
        lengths = functools.partial(private_lengths, furthest=furthest)
        asked = records, lengths, 0.0, furthest, event, LENGTH, mechanism
        found, error = released_mean(*asked)
        least = max(2 * error, furthest / _SHORTEST)
        if found < least and public.n_private > MOST_USED:
            warn_caller(
                "the released length of rows is mostly noise, so that predictions may "
                "be scaled down to nearly 0: expect little more than the majority "
                "class or the mean; raise epsilon, or use more records.",
                UtilityWarning,
            )
        found = min(max(found, least), furthest)
        if event.n_steps > 1:
            squares = functools.partial(lengths, power=2)
            square, _ = released_mean(
                records, squares, 0.0, furthest**2, event, "row square", mechanism
            )
            found = math.sqrt(min(max(square, found**2), found * furthest))
        return found / divisor


def _in_binades(records: Records, **settings: float) -> BinCounts:
    """Return the histogram of squared lengths; a recipe of `Records.query`.

    **Guarantees.** The bounds are those of `BinCounts` with one column.
    """
    return BinCounts(private_lengths(records, power=2, **settings)[:, None], Binades())


def longest(counts: np.ndarray, std: float) -> float:
    """Return a length that few rows exceed, from noisy counts of `_in_binades`.

    It is the end of the bin after the run of bins with significant counts, or infinity
    without such a run. `std` is the standard deviation of the noise in a count.
    """
    sizes = counts[N_SPECIAL + N_BINADES :]
    run = best_run(sizes, std)
    return 2 ** ((FIRST + run.stop) / 2) if significant(sizes[run], std) else math.inf


def private_lengths(records: Records, furthest: float, power: int = 1) -> np.ndarray:
    """Return a power of the norm of each row's scaled private columns, clipped."""
    lengths = np.sqrt(records.integers.squared_norms)
    lengths *= records.integers.unit
    np.minimum(lengths, furthest, out=lengths)
    return lengths if power == 1 else lengths**power


def released_mean(
    records: Records,
    values: Callable[..., np.ndarray],
    low: float,
    high: float,
    event: Event,
    stream: str,
    mechanism: Mechanism,
    **per_row: Any,
) -> tuple[float, float]:
    """Return a released mean of one number per record, and its standard error.

    ``values(records, **per_row)`` returns the numbers, as a recipe of `Records.query`.
    They are clipped to the interval [low, high], which is public or released, and
    rescaled to [-1, 1]. So the released sum changes by at most 1 if a record becomes
    null, and by at most 2 if a record is replaced.
    """
    half, n = (high - low) / 2, records.public.n_records
    recipe = functools.partial(_sum_of_numbers, values=values, low=low, high=high)
    query = records.query(recipe, **per_row)
    total = mechanism.release(event.label, query, stream=stream)
    error = half * event.noise_std[0] / n
    return (low + high) / 2 + half * float(np.clip(total[0] / n, -1, 1)), error


def _sum_of_numbers(records: Records, values, low, high, **per_row: Any) -> RowSum:
    middle, half = (low + high) / 2, (high - low) / 2
    unit = np.clip(values(records, **per_row), low, high)
    unit -= middle
    unit /= half
    return RowSum(unit[:, None], records.public.capacity)


def public_moments(public: PublicRecords, centre: bool) -> Moments:
    """Return the weighted mean of the public columns, and their spread about the mean.

    With ``centre=False`` the mean is replaced by 0. Terms are rounded to a unit that
    makes their sums exact in any order, and weights are integers. Dense and CSR rows
    therefore give the same bits.
    """
    weights = None if public.units is None else public.units.weights
    total = public.n_rows if weights is None else int(weights.sum())
    unit = unit_of_squares(total)
    with np.errstate(all="ignore"):
        ends: tuple[list, list] = [], []
        for rows in public.blocks():
            both = rows.min(axis=0), rows.max(axis=0)
            for found, end in zip(ends, both, strict=True):
                found.append(as_dense(end).ravel())
        low, high = np.min(ends[0], axis=0), np.max(ends[1], axis=0)
        mean = np.zeros(len(low))
        if centre:
            reach = np.maximum(np.abs(low), np.abs(high))
            reach[reach == 0] = 1.0
            mean = _sums(public, weights, lambda x, j: np.rint(x / reach[j] * unit))
            mean *= reach / (unit * total)
        furthest = np.maximum(high - mean, mean - low)
        furthest[furthest == 0] = 1.0

        def squared(x: np.ndarray, j: Any) -> np.ndarray:
            return np.rint(((x - mean[j]) / furthest[j]) ** 2 * unit)

        square = _sums(public, weights, squared)
        square = float(np.sum(square / unit * furthest**2))
    spread = math.sqrt(square / total) if square > 0 else 0.0
    if not (np.isfinite(mean).all() and math.isfinite(spread)):
        return np.zeros(len(mean)), 0.0  # neither centre nor scale the columns
    return mean, spread


def _sums(public: PublicRecords, weights, term: Callable) -> np.ndarray:
    """Return, for each column, the weighted sum of ``term(entries, columns)``."""
    total, first = np.zeros(int(public.mask.sum())), 0
    for rows in public.blocks():
        own = slice(first, first + rows.shape[0])
        first = own.stop
        weight = np.ones(rows.shape[0]) if weights is None else weights[own]
        total += column_sums(rows, term, weight)
    return total


# A mean whose error is proportional to the spread of the rows.
#
# After Huang, Liang and Yi (2021); see :ref:`adaptive-centring`. Clip norm and noise
# are proportional to the spread of the rows instead of their length.


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
    moved, _ = shrunk_mean(found, error)
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
    signs = 1.0 - 2.0 * mechanism.public(ROTATION).integers(0, 2, size=n_columns)
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
    return rough, max(min(half, longest + math.hypot(*rough)), _SMALLEST_RADIUS)


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
