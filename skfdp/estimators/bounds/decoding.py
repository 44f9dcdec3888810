"""Bounds and knots from noisy counts: post-processing alone.

What decides is the noise, which is public, and the noisy counts, which are released.
Bounds that are too wide cost little, and bounds that are too narrow cut what the model
should learn from: so an interval is widened on little evidence, and made narrower only
where nearly all records are seen to be inside.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.encoding.knots import spread_knots
from skfdp.queries.bins import (
    FIRST,
    INFINITE,
    LAST,
    MISSING,
    N_BINADES,
    N_SPECIAL,
    ZERO,
    EvenBins,
)

#: Where nothing is seen of a column: what columns that are scaled already have.
FALLBACK, FALLBACK_OF_SPARSE = (-1.0, 1.0), (0.0, 1.0)
#: Of a column in which zeros alone are seen.
OF_ZEROS = (0.0, 1.0)
#: Chance that a window of empty bins passes in a column; it costs little, because the
#: bounds of a column of which nothing is seen are as arbitrary.
CHANCE = 0.05
#: Share of the records with numbers other than 0 that may be outside.
MAY_MISS = 0.05
# Standard deviations of the noise: of what may be nothing.
_DOUBT = 2.0
# Most of what knots follow the counts; the rest keeps them apart.
_MOST_KEPT = 0.9
# Binades of a window whose lower end is 0: they begin below a quarter of the upper one.
_NEAR_ZERO = 3


@dataclasses.dataclass(frozen=True)
class Told:
    """The noisy counts of one column, and what is public of them.

    Attributes
    ----------
    counts : float64 ndarray of shape (n_bins,)
    std : float
        Standard deviation of the noise in each.
    n_records : int
        Their sum without noise.
    """

    counts: np.ndarray
    std: float
    n_records: int

    @property
    def has_zeros(self) -> bool:
        """Whether more zeros are seen than may be noise."""
        return bool(self.counts[ZERO] > _DOUBT * self.std)

    @property
    def n_numbers(self) -> float:
        """About how many records have a finite number other than 0."""
        special = self.counts[[MISSING, INFINITE, ZERO]]
        return self.n_records - float(special[special > _DOUBT * self.std].sum())

    def holds_nearly_all(self, inside: float, noise: float) -> bool:
        """Whether an interval is seen to hold all numbers but `MAY_MISS` of them.

        Parameters
        ----------
        inside : float
            Noisy count of the numbers within.
        noise : float
            Its standard deviation.
        """
        spare = MAY_MISS * self.n_numbers - _DOUBT * noise
        return spare >= 0 and self.n_numbers - inside <= spare


def threshold(length: int) -> float:
    """Return how many standard deviations a window of binades has to reach.

    Parameters
    ----------
    length : int
        Binades in the window.

    Notes
    -----
    **Guarantees.** A column has at most ``3 N_BINADES`` windows of each length: of
    negative numbers, of positive ones, of both. A normal exceeds z with probability at
    most ``exp(-z**2 / 2) / 2``, and ``1 / (k (k + 1))`` sums to 1 over all lengths k:
    the chance that a window of empty bins passes is at most ``CHANCE / 2``.
    """
    windows = 3 * N_BINADES * length * (length + 1)
    return math.sqrt(2 * math.log(windows / CHANCE))


@dataclasses.dataclass(frozen=True)
class Window:
    """A run of binades that stands out of the noise.

    Attributes
    ----------
    first, last : int
        Binades, the last one included.
    total, noise : float
        Noisy count within, and its standard deviation.
    """

    first: int
    last: int
    total: float
    noise: float

    @classmethod
    def best(cls, counts: np.ndarray, std: float) -> Window:
        """Return the window that most exceeds what may be noise in each of its bins."""
        gain = np.r_[0.0, np.cumsum(counts - _DOUBT * std)]
        least = np.minimum.accumulate(gain)[:-1]
        stop = int(np.argmax(gain[1:] - least)) + 1
        start = int(np.argmin(gain[:stop]))
        total, length = float(counts[start:stop].sum()), stop - start
        return cls(FIRST + start, FIRST + stop - 1, total, std * math.sqrt(length))

    @property
    def passes(self) -> bool:
        """Whether this is no window of empty bins; see `threshold`."""
        length = self.last - self.first + 1
        return self.total > threshold(length) * self.noise

    def of(self, counts: np.ndarray, std: float) -> Window:
        """Return the same window over other counts."""
        part = counts[self.first - FIRST : self.last - FIRST + 1]
        noise = std * math.sqrt(len(part))
        return dataclasses.replace(self, total=float(part.sum()), noise=noise)


def rough_bounds(told: Told, *, sparse: bool = False) -> tuple[float, float] | None:
    """Return bounds of a column from its binades, None where nothing stands out.

    Parameters
    ----------
    told : Told
        Counts of `Binades`.
    sparse : bool, default=False
        Whether the lower bound has to be 0.

    Returns
    -------
    bounds : (float, float) or None
        Powers of two, or 0. One binade more than those that stand out, unless they are
        seen to hold nearly all numbers.
    """
    split = N_SPECIAL + N_BINADES
    negative, positive = told.counts[N_SPECIAL:split], told.counts[split:]
    sides = {1: Window.best(positive, told.std)}
    if not sparse:
        sides[-1] = Window.best(negative, told.std)
    found = {sign: side for sign, side in sides.items() if side.passes}
    if len(found) == 1 and not sparse:
        ((sign, side),) = found.items()
        other = side.of(negative if sign > 0 else positive, told.std)
        if other.total > _DOUBT * other.noise:
            found[-sign] = other
    if not found and not sparse:
        both = Window.best(negative + positive, math.sqrt(2) * told.std)
        if both.passes:
            found = {sign: both.of(c, told.std) for sign, c in _signed(told.counts)}
    if not found:
        return OF_ZEROS if told.counts[ZERO] > threshold(1) * told.std else None
    inside = sum(side.total for side in found.values())
    noise = math.sqrt(sum(side.noise**2 for side in found.values()))
    more = 0 if told.holds_nearly_all(inside, noise) else 1
    ends = {
        sign: sign * math.ldexp(1.0, min(side.last + more, LAST))
        for sign, side in found.items()
    }
    if len(found) == 1:
        ((sign, side),) = found.items()
        is_long = side.last - side.first + 1 >= _NEAR_ZERO
        near = sparse or is_long or more or told.has_zeros
        ends[-sign] = 0.0 if near else sign * math.ldexp(1.0, side.first - 1)
    return ends[-1], ends[1]


def _signed(counts: np.ndarray) -> tuple[tuple[int, np.ndarray], ...]:
    split = N_SPECIAL + N_BINADES
    return (-1, counts[N_SPECIAL:split]), (1, counts[split:])


def fine_bounds(told: Told, edges: np.ndarray) -> tuple[float, float]:
    """Return the shortest run of even bins that is seen to hold nearly all numbers.

    All of them where none is seen to. Zero stays inside if zeros are seen.

    Parameters
    ----------
    told : Told
        Counts of `EvenBins`.
    edges : float64 ndarray of shape (n_even + 1,)
    """
    numbers = told.counts[N_SPECIAL:]
    n_even, everywhere = len(edges) - 1, float(numbers.sum())
    sums = np.r_[0.0, np.cumsum(numbers[1:-1])]
    low, high = edges[0], edges[-1]
    for length in range(1, n_even):
        runs = sums[length:] - sums[:-length]
        start = int(np.argmax(runs))
        inside, n_outside = float(runs[start]), n_even + 2 - length
        if n_outside < length:  # what is outside has less noise, and all are known
            inside, n_noisy = told.n_numbers - (everywhere - inside), n_outside
        else:
            n_noisy = length
        if told.holds_nearly_all(inside, told.std * math.sqrt(n_noisy)):
            low, high = edges[start], edges[start + length]
            break
    if told.has_zeros:
        low, high = min(low, 0.0), max(high, 0.0)
    return float(low), float(high)


def knots_between(
    told: Told, edges: np.ndarray, bounds: tuple[float, float], n_knots: int
) -> tuple[float, ...]:
    """Return knots with about equally many records between them, as the noise allows.

    Without evidence they are those of `DeclaredEncoder` for these bounds. What is seen
    is shrunk toward these by twice what Stein's lemma asks for.

    Parameters
    ----------
    told : Told
        Counts of `EvenBins`.
    edges : float64 ndarray of shape (n_even + 1,)
    bounds : (float, float)
    n_knots : int

    Returns
    -------
    knots : tuple of float
        In ascending order, all different; the bounds are the first and the last.
    """
    low, high = bounds
    usual = spread_knots(low, high, n_knots, "geometric" if low == 0 else "even")
    inside = (edges[:-1] >= low) & (edges[1:] <= high)
    counts, left = told.counts[N_SPECIAL + 1 : -1][inside], edges[:-1][inside]
    kept = 0.0
    if len(counts) > 1:
        apart = counts - counts.mean()
        square = float(apart @ apart)
        noise = 2 * len(counts) * told.std**2
        kept = min(_MOST_KEPT, max(0.0, 1 - noise / square)) if square > 0 else 0.0
    filled = np.maximum(counts, 0.0)
    if kept and filled.sum() > 0:
        share = np.r_[0.0, np.cumsum(filled) / filled.sum()]
        ends = np.r_[left, edges[1:][inside][-1]]
        even = np.linspace(0.0, 1.0, n_knots)
        usual = kept * np.interp(even, share, ends) + (1 - kept) * usual
    usual[0], usual[-1] = low, high
    return tuple(map(float, usual))


def public_bounds(values: np.ndarray, *, sparse: bool) -> tuple[float, float]:
    """Return the exact bounds of a public column, as far as bounds can be declared.

    A constant column gets 1, or its own size, above its value.
    """
    low, high = (0.0, 0.0) if not len(values) else (values.min(), values.max())
    low, high = (float(np.clip(side, -1e100, 1e100)) for side in (low, high))
    if sparse:
        low, high = 0.0, max(high, 0.0)
    if high - low < max(1e-100, 1e-12 * max(abs(low), abs(high))):
        low, high = (low, low + max(1.0, abs(low))) if low < 1e99 else (0.0, 1e100)
    return low, high


def even_bins(bounds: list[tuple[float, float]], n_even: int) -> EvenBins:
    """Return the rule of even bins within some bounds."""
    low, high = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
    return EvenBins(low, high, n_even)
