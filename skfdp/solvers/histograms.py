"""Bounds of columns, computed from noisy histograms.

The bounds depend on the released counts and the public noise alone. Bounds that are too
wide cost little accuracy; bounds that are too narrow clip useful values. An interval is
therefore widened on little evidence, and narrowed only if nearly all records are
clearly inside.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.data.grid import MAX_STD
from skfdp.data.records import PublicRecords
from skfdp.data.units import Units
from skfdp.privacy import Event
from skfdp.queries.statistics import (
    FIRST,
    INFINITE,
    LAST,
    N_BINADES,
    N_SPECIAL,
    UNSTATED,
    ZERO,
    BinCounts,
    EvenBins,
)
from skfdp.solvers.method import Budget

#: Number of even bins of a column.
N_EVEN = 32
#: Largest number of counts (columns times bins), enough for about 50,000 columns.
MOST_COUNTS = 2**26
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

        `inside` is the noisy count of numbers in it. Finite numbers other than 0 count.
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
    """Return the run of bins with the largest sum of counts above their doubt."""
    gain = np.r_[0.0, np.cumsum(counts - _UNSURE * std)]
    stop = int(np.argmax(gain[1:] - np.minimum.accumulate(gain)[:-1])) + 1
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


def even_bins(bounds: list[tuple[float, float]]) -> EvenBins:
    """Return bins of equal width between the bounds of each column."""
    return EvenBins(*np.array(bounds, dtype=np.float64).reshape(-1, 2).T, N_EVEN)


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

    `purpose` and `remedy` are for the message on too many counts.
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


def check_noise(event: Event, budget: Budget, units: Units | None) -> None:
    """Raise ValueError if the grid of the counts cannot represent the noise."""
    if event.noise_std[0] > MAX_STD * (1.0 if units is None else units.step):
        raise ValueError(
            f"epsilon={budget.epsilon!r} and delta={budget.delta!r} need more noise "
            "than the grid of the released counts can represent: raise the budget."
        )
