"""Private bounds of columns, computed from noisy histograms.

The first histogram counts the numbers between consecutive powers of two (binades), for
each sign. The second histogram has bins of equal width within these rough bounds.

The bounds depend on the released counts and the public noise alone. Bounds that are too
wide cost little accuracy; bounds that are too narrow clip useful values. An interval is
therefore widened on little evidence, and narrowed only if nearly all records are
clearly inside.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from skfdp.data.grid import MAX_STD, stored_entries
from skfdp.data.input_scaler import InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.data.units import Units
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.privacy.assumptions import (
    BOUNDS_RELEASED,
    ORTHANT,
    ORTHANT_RELEASED,
    VALUES_CLIPPED,
    VALUES_CLIPPED_RELEASED,
    Assumption,
)
from skfdp.queries.statistics import (
    FIRST,
    INFINITE,
    LAST,
    N_BINADES,
    N_SPECIAL,
    UNSTATED,
    ZERO,
    Binades,
    BinCounts,
    EvenBins,
)
from skfdp.solvers.method import Budget, Method, Needs, Plan, of_model

#: Bounds of a dense and of a sparse column without significant counts. They suit
#: columns that were scaled before.
FALLBACK, FALLBACK_OF_SPARSE = (-1.0, 1.0), (0.0, 1.0)
#: Bounds of a column in which only the count of zeros exceeds the noise.
OF_ZEROS = (0.0, 1.0)
#: Bound of the probability that empty bins of a column count as significant, because of
#: noise. This error costs little, because the fallback bounds are just as arbitrary.
FALSE_ALARM = 0.05
#: Share of the records with a finite number other than 0 that may be outside of the
#: bounds.
MAY_MISS = 0.05
# A count of at most this many standard deviations of its noise may be noise alone.
_UNSURE = 2.0
# If only numbers of one sign are significant, over at least this many binades, then
# the bound nearer to zero is set to 0.
_NEAR_ZERO = 3


@dataclasses.dataclass(frozen=True)
class Told:
    """Noisy counts, by bin, of the numbers in one column.

    `std` is the standard deviation of the noise in each count. `n_records` is public.
    """

    counts: np.ndarray
    std: float
    n_records: int

    @property
    def has_zeros(self) -> bool:
        """Whether the count of zeros exceeds the noise."""
        return bool(self.counts[ZERO] > _UNSURE * self.std)

    @property
    def n_numbers(self) -> float:
        """Estimated number of records with a finite number other than 0."""
        special = self.counts[[UNSTATED, INFINITE, ZERO]]
        return self.n_records - float(special[special > _UNSURE * self.std].sum())

    def holds_nearly_all(self, inside: float, noise: float) -> bool:
        """Whether an interval clearly holds a share ``1 - MAY_MISS`` of the numbers.

        Only finite numbers other than 0 count. `inside` is the noisy count of numbers
        in the interval, and `noise` is the standard deviation of the noise in `inside`.
        """
        spare = MAY_MISS * self.n_numbers - _UNSURE * noise
        return spare >= 0 and self.n_numbers - inside <= spare


def threshold(length: int) -> float:
    """Return the significance threshold for the count of a window of binades.

    The threshold is in standard deviations of the noise in the count. `length` is the
    number of binades.

    Notes
    -----
    **Guarantees.** A column has at most ``3 N_BINADES`` windows of each length, because
    a window holds negative numbers, positive numbers, or both. A standard normal
    exceeds z with probability at most ``exp(-z**2 / 2) / 2``, and ``1 / (k (k + 1))``
    sums to 1 over all lengths k. The probability that any window of empty bins exceeds
    its threshold is therefore at most ``FALSE_ALARM / 2``.
    """
    windows = 3 * N_BINADES * length * (length + 1)
    return math.sqrt(2 * math.log(windows / FALSE_ALARM))


def best_run(counts: np.ndarray, std: float) -> slice:
    """Return the run of bins whose counts most exceed the noise.

    This is the run with the largest sum, over its bins, of the count minus `_UNSURE`
    standard deviations of the noise in a count.
    """
    gain = np.r_[0.0, np.cumsum(counts - _UNSURE * std)]
    least = np.minimum.accumulate(gain)[:-1]
    stop = int(np.argmax(gain[1:] - least)) + 1
    return slice(int(np.argmin(gain[:stop])), stop)


def significant(counts: np.ndarray, std: float) -> bool:
    """Whether the sum of the counts of a run is significant; see `threshold`."""
    length = len(counts)
    return bool(counts.sum() > threshold(length) * (std * math.sqrt(length)))


def rough_bounds(told: Told, *, sparse: bool = False) -> tuple[float, float] | None:
    """Return bounds of a column from its binades, or None if no count is significant.

    The bounds are powers of two, or 0. They include one binade beyond the significant
    run, unless the run clearly holds nearly all numbers. If only the count of zeros is
    significant, the bounds are 0 and 1. For a column of CSR rows (`sparse`), counts of
    negative numbers are ignored, and the lower bound is 0.
    """
    split = N_SPECIAL + N_BINADES
    sides = {1: told.counts[split:]}
    if not sparse:
        sides[-1] = told.counts[N_SPECIAL:split]
    runs = {sign: best_run(side, told.std) for sign, side in sides.items()}
    found = {s: run for s, run in runs.items() if significant(sides[s][run], told.std)}
    if len(found) == 1 and not sparse:
        ((sign, run),) = found.items()
        other = sides[-sign][run]
        if other.sum() > _UNSURE * (told.std * math.sqrt(len(other))):
            found[-sign] = run
    if not found and not sparse:
        both, std = sides[-1] + sides[1], math.sqrt(2) * told.std
        run = best_run(both, std)
        if significant(both[run], std):
            found = dict.fromkeys(sides, run)
    if not found:
        return OF_ZEROS if told.counts[ZERO] > threshold(1) * told.std else None
    inside = [sides[sign][run] for sign, run in found.items()]
    noise = told.std * math.sqrt(sum(map(len, inside)))
    more = 0 if told.holds_nearly_all(float(sum(map(np.sum, inside))), noise) else 1
    ends = {
        sign: sign * math.ldexp(1.0, min(FIRST + run.stop - 1 + more, LAST))
        for sign, run in found.items()
    }
    if len(found) == 1:
        ((sign, run),) = found.items()
        is_long = run.stop - run.start >= _NEAR_ZERO
        near = sparse or is_long or more or told.has_zeros
        ends[-sign] = 0.0 if near else sign * math.ldexp(1.0, FIRST + run.start - 1)
    return ends[-1], ends[1]


def fine_bounds(told: Told, edges: np.ndarray) -> tuple[float, float]:
    """Return the ends of the shortest run of even bins with nearly all numbers.

    If no run clearly holds nearly all numbers, return the ends of all bins. If the
    count of zeros exceeds its noise, the interval is extended to 0.
    """
    numbers = told.counts[N_SPECIAL:]
    n_even, everywhere = len(edges) - 1, float(numbers.sum())
    sums = np.r_[0.0, np.cumsum(numbers[1:-1])]
    low, high = edges[0], edges[-1]
    for length in range(1, n_even):
        runs = sums[length:] - sums[:-length]
        start = int(np.argmax(runs))
        inside, n_outside = float(runs[start]), n_even + 2 - length
        # Add up the counts inside or outside of the run: fewer counts have less noise.
        if n_outside < length:
            inside, n_noisy = told.n_numbers - (everywhere - inside), n_outside
        else:
            n_noisy = length
        if told.holds_nearly_all(inside, told.std * math.sqrt(n_noisy)):
            low, high = edges[start], edges[start + length]
            break
    if told.has_zeros:
        low, high = min(low, 0.0), max(high, 0.0)
    return float(low), float(high)


def even_bins(bounds: list[tuple[float, float]]) -> EvenBins:
    """Return bins of equal width between the bounds of each column."""
    low, high = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
    return EvenBins(low, high, N_EVEN)


# The method of private bounds: binades first, then bins of equal width (even bins)
# within the rough bounds that the binades gave.


#: Labels of the two events.
BINADES, BINS = "binades", "bins"
#: Number of even bins of a column.
N_EVEN = 32
#: Share of ``mu**2`` for the binades, without which there are no bounds. Even bins only
#: narrow the bounds, by a factor of about 2.
BINADES_SHARE = 0.7
#: Largest number of counts (columns times bins), enough for about 50,000 columns.
MOST_COUNTS = 2**26


#: Bounds of a column, and whether they were found; others are fallback bounds.
FoundBounds = tuple[tuple[float, float], bool]


@dataclasses.dataclass(frozen=True)
class BoundsRelease:
    """The method of `private_bounds`: release bounds of columns, and nothing else."""

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs: any table, and no parameter of a model."""
        return Needs("private_bounds", {}, (Needs.PRIVATE_COLUMNS,))

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Prepare nothing: `run` computes the exact bounds of public columns."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Calibrate the noise of both histograms, which take the whole budget."""
        first, _ = bin_events(public, budget, (BINADES_SHARE, 1 - BINADES_SHARE))
        query = BinCounts.planned(public.n_private)
        last = budget.release_once(BINS, query, first)
        check_noise(last, budget, public.units)
        return Plan(events=(first, last))

    def run(self, records, prepared, plan, mechanism, on_step) -> list[FoundBounds]:
        """Release the counts of binades, then the counts of even bins."""
        return released(records, plan, mechanism)


def event_of_counts(
    label: str,
    n_columns: int,
    public: PublicRecords,
    budget: Budget,
    share: float,
    n_steps: int = 1,
    *,
    purpose: str = "the bounds",
    remedy: str | None = None,
) -> Event:
    """Return the event of `n_steps` histograms, each with this share of ``mu**2``.

    `purpose` and `remedy` are for the message on too many counts. None: the remedy for
    released bounds.

    Raises
    ------
    ValueError
        If there are too many counts, or if their grid cannot represent the noise.
    """
    query = BinCounts.planned(n_columns)
    if math.prod(query.shape) > MOST_COUNTS:
        most = MOST_COUNTS // query.rule.n_bins
        if remedy is None:
            remedy = (
                f"release bounds of at most {most} columns, and declare those of the "
                "other columns"
            )
        raise ValueError(
            f"the histograms for {purpose} of {public.n_private} columns need too many "
            f"counts: {remedy}."
        )
    reach = query.sensitivity(budget.relation)
    event = budget.event(
        label,
        reach / (math.sqrt(share) * budget.mu),
        clip_norm=query.clip_norm,
        sensitivity=reach,
        n_steps=n_steps,
    )
    check_noise(event, budget, public.units)
    return event


def bin_events(
    public, budget: Budget, shares: tuple[float, float]
) -> tuple[Event, ...]:
    """Return the events of the binades and even bins, with shares of ``mu**2``."""
    asked = zip((BINADES, BINS), shares, strict=True)
    known = public.n_private, public, budget
    return tuple(event_of_counts(label, *known, share) for label, share in asked)


def check_noise(event: Event, budget: Budget, units: Units | None) -> None:
    """Raise ValueError if the grid of the counts cannot represent the noise."""
    if event.noise_std[0] > MAX_STD * (1.0 if units is None else units.step):
        raise ValueError(
            f"epsilon={budget.epsilon!r} and delta={budget.delta!r} need more noise "
            "than the grid of the released counts can represent: raise the budget."
        )


def released(records: Records, plan: Plan, mechanism: Mechanism) -> list[FoundBounds]:
    """Return the bounds of each column: released if private, exact if public.

    Private columns may contain any number, including NaN and infinity.
    """
    public, sparse = records.public, records.public.sparse
    private, n = np.flatnonzero(~public.mask), public.n_records
    found = {
        int(place): exactly(public.X[:, [j]], sparse)
        for j, place in enumerate(np.flatnonzero(public.mask))
    }
    X, event = records.X[:, private], plan.event(BINADES)
    counts = mechanism.release(BINADES, BinCounts(X, Binades()))
    std = float(event.noise_std[0])
    rough = [rough_bounds(Told(row, std, n), sparse=sparse) for row in counts]
    usual = FALLBACK_OF_SPARSE if sparse else FALLBACK
    rule = even_bins([usual if r is None else r for r in rough])
    counts = mechanism.release(BINS, BinCounts(X, rule))
    std = float(plan.event(BINS).noise_std[0])
    for j, place in enumerate(private):
        told, edges = Told(counts[j], std, n), rule.edges(j)
        low, high = float(edges[0]), float(edges[-1])
        if rough[j] is not None:
            low, high = fine_bounds(told, edges)
        pair = (0.0 if sparse else low), high
        found[int(place)] = pair, rough[j] is not None
    return [found[place] for place in range(public.n_features)]


def exactly(column: np.ndarray | csr_array, sparse: bool = False) -> FoundBounds:
    """Return the exact bounds of a public column, shape (n_rows, 1).

    The bounds are clipped to numbers that the parameter `bounds` accepts. For a
    constant column, the distance between the bounds is the absolute value of the
    constant, but at least 1. For a CSR column (`sparse`) the lower bound is 0.
    """
    values = stored_entries(column)[0].ravel()
    values = values[np.isfinite(values)].astype(np.float64)
    low, high = (0.0, 0.0) if not len(values) else (values.min(), values.max())
    low, high = (float(np.clip(side, -1e100, 1e100)) for side in (low, high))
    if sparse:
        low, high = 0.0, max(high, 0.0)
    if high - low < max(1e-100, 1e-12 * max(abs(low), abs(high))):
        low, high = (low, low + max(1.0, abs(low))) if low < 1e99 else (0.0, 1e100)
    return (low, high), True


# The method of fits with private bounds: release the bounds, then fit.


#: Placeholder for bounds before their release. A plan may assume that every column will
#: have bounds, and nothing else about them.
UNKNOWN = (0.0, 1.0)
#: Least and largest share of ``mu**2``, for the binades and for the even bins.
BINADES_SHARES, BINS_SHARES = (0.01, 0.2), (0.01, 0.02)
# Desired standard deviation of the noise in a count, divided by the number of records:
# of a binade, and of an even bin. A quarter of the records is then significant in one
# binade. A twentieth is significant even if it is spread over eight even bins.
_BINADES_NOISE, _BINS_NOISE = 0.058, 0.009
# The assumptions on declared bounds, and their replacements for released bounds.
_RELEASED = {VALUES_CLIPPED: VALUES_CLIPPED_RELEASED, ORTHANT: ORTHANT_RELEASED}


def with_public_bounds(
    input_scaler: InputScaler, X: np.ndarray | csr_array, public: np.ndarray
) -> InputScaler:
    """Return an input scaler with the exact bounds of the public columns.

    Only the public columns of X are read; they are finite. Private columns keep the
    bounds `UNKNOWN`.
    """
    low, span = input_scaler.low.copy(), input_scaler.span.copy()
    for place in np.flatnonzero(public):
        (low[place], high), _ = exactly(X[:, [place]])
        span[place] = high - low[place]
    return dataclasses.replace(input_scaler, low=low, span=span)


def told_of_released(found: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """Replace assumptions on declared bounds by assumptions on released bounds."""
    return (*[_RELEASED.get(one, one) for one in found], BOUNDS_RELEASED)


def shares(public: PublicRecords, budget: Budget) -> tuple[float, float]:
    """Return the shares of ``mu**2`` for binades and even bins, from public numbers."""
    reach = BinCounts.planned(public.n_private).sensitivity(budget.relation)
    # Noise in a count if one release had the whole budget, divided by the number of
    # records or persons.
    alone = reach * budget.reach / (budget.mu * public.n_records)
    wanted = (alone / _BINADES_NOISE) ** 2, (alone / _BINS_NOISE) ** 2
    binades, bins = np.clip(wanted, *zip(BINADES_SHARES, BINS_SHARES, strict=True))
    return float(binades), float(bins)


@dataclasses.dataclass(frozen=True)
class BoundsFirst:
    """The release of bounds, followed by a linear method.

    Notes
    -----
    **Guarantees.** Given the released bounds, the input scaler is a fixed function of
    each record, and the same for neighbours. The guarantee of the method holds for
    every input scaler with bounds, and therefore for any released bounds. Adaptive
    composition covers the bounds and the method, which is calibrated together with the
    events of the bounds. The plan of the method uses `UNKNOWN` bounds of private
    columns and the exact bounds of public columns. It is therefore a function of public
    facts.
    """

    method: Method

    def _rest(self, public: PublicRecords, budget: Budget) -> Budget:
        return budget.after(*bin_events(public, budget, shares(public, budget)))

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs of the method."""
        return self.method.needs(public, self._rest(public, budget))

    def prepare(self, public: PublicRecords, budget: Budget) -> Any:
        """Prepare the method from public data."""
        return self.method.prepare(public, self._rest(public, budget))

    def plan(self, public, prepared, budget: Budget) -> Plan:
        """Return the method's plan for the remaining budget, after the bounds."""
        rest = self._rest(public, budget)
        plan = self.method.plan(public, prepared, rest)
        events = *rest.before, *plan.events
        # The gap was measured with declared bounds.
        return dataclasses.replace(plan, events=events, expected_gap=None)

    def run(self, records, prepared, plan, mechanism, on_step) -> Any:
        """Release the bounds, scale the rows by them, and run the method."""
        pairs = [pair for pair, _ in released(records, plan, mechanism)]
        low, high = np.array(pairs).T.copy()
        input_scaler = dataclasses.replace(
            records.input_scaler, low=low, span=high - low
        )

        def with_map(model: Any) -> Any:
            return dataclasses.replace(model, input_scaler=input_scaler)

        # Every column has bounds now. The middle of the bounds replaces numbers that
        # are not finite, so that no record becomes null; see `InputScaler.scale`.
        records = records.mapped_by(input_scaler)
        asked = records, prepared, plan, mechanism, of_model(on_step, with_map)
        return with_map(self.method.run(*asked))
