"""Blocks of encoded columns: linear splines, smooth terms made from them, categories.

The columns of a linear spline basis are called hats, after their shape. The rows ``H``
of the hats of one raw column are multiplied by a public matrix L, whose columns are
shapes of a curve: smooth ones have a large norm, rough ones a small norm or none. The
columns of ``H L`` are called smooth terms. Weights theta on smooth terms are weights
``L theta`` on hats. If all of theta has the same noise, rough shapes add little.
L depends on public numbers alone, so it costs no privacy.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, hstack

from skfdp.data.cells import Coded, objects, places_of, read_as
from skfdp.data.target import Spelling

# Blocks of encoded columns: one for each declared column, or for each part of a date.
# In a block, each row has the same number of entries that may be non-zero. All are in
# [0, 1], and their norm is at most 1. Hats are rounded to multiples of 2**-52. They
# then sum to exactly 1, and rounding cannot raise the norm above 1.

MISSING, OTHER = "missing", "other"
_GRID = 2.0**52


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A block of adjacent encoded columns that come from one raw column."""

    kind: ClassVar[str] = ""

    #: Name, such as "age", or "admitted.month" for a part of a date.
    name: str
    #: Position of the raw column.
    parent: int
    #: Names of the encoded columns within the block, such as "3" or "other".
    levels: tuple[str, ...]
    #: Position of the block's first column among all encoded columns.
    start: int = 0
    #: What a raw value is converted to: "number", "date" (days since 1970-01-01),
    #: "month", "weekday" or "hour".
    reads: str = "number"
    #: Knots of hats, or the two bounds of a linear term; for dates, in days.
    knots: np.ndarray | None = None
    #: Upper bound of a cyclic number. It means the same value as the first knot.
    end: float | None = None
    #: Whether the first level follows the last (except "missing"), as Jan follows Dec.
    cyclic: bool = False
    #: Declared levels, if a raw value is converted to the position of its level.
    spelling: Spelling | None = None
    #: "increasing" or "decreasing": the weights of the first `n_ordered` levels have
    #: this order, or the weight of a single one this sign.
    monotone: str | None = None
    n_ordered: int = 0

    @property
    def draws(self) -> str:
        """How the effect of the block is drawn: "bars" of levels, or a "curve"."""
        return "curve" if self.spelling is None else "bars"

    @property
    def stop(self) -> int:
        """Position after the block's last column, among all encoded columns."""
        return self.start + len(self.levels)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns, such as "age__3"."""
        return tuple(f"{self.name}__{level}" for level in self.levels)

    @property
    def missing(self) -> int:
        """Position of the level "missing" within the block."""
        return self.levels.index(MISSING)

    def rises(self) -> np.ndarray:
        """Return the combinations of weights that must be at least 0, one per row."""
        n, sign = self.n_ordered, -1.0 if self.monotone == "decreasing" else 1.0
        rows = np.eye(n, len(self.levels))
        return sign * (rows if n == 1 else np.diff(rows, axis=0))

    def entries(self, raw: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and values of the entries of each row that may be non-zero.

        Positions count from the start of the block, and are distinct within a row.
        """

    def raw(self, points: np.ndarray) -> np.ndarray:
        """Return points as raw values: days become dates, positions become levels."""
        if self.spelling is not None:
            return objects(self.spelling.levels)[points.astype(int)]
        if self.reads != "date":
            return points
        return np.datetime64("1970-01-01", "m") + np.rint(points * 1440).astype("m8[m]")

    def encode(self, raw: Any) -> np.ndarray:
        """Return the encoded columns of some raw values, shape (n_rows, n_levels)."""
        places, values = self.entries(raw)
        rows = np.zeros((len(places), len(self.levels)))
        np.put_along_axis(rows, places, values, axis=1)
        return rows

    def curve(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the knots of a number, and the curves' heights at the knots.

        `weights` and the heights have one row per output.
        """
        if self.kind == "linear":
            return self.knots, weights[:, :1] * [0.0, 1.0]
        if self.end is None:
            return self.knots, weights[:, : len(self.knots)]
        # The last knot is followed by the first.
        heights = np.c_[weights[:, : len(self.knots)], weights[:, 0]]
        return np.append(self.knots, self.end), heights

    def margins(self, raw: Any, weights: np.ndarray) -> np.ndarray:
        """Return ``encode(raw) @ weights.T``, without encoded columns."""
        if isinstance(raw, Coded):
            return self.margins(raw.cells, weights).take(raw.codes, axis=0)
        if self.draws == "curve" and len(weights) == 1:
            knots, (heights,) = self.curve(weights)
            x = read_as(self.reads, raw)
            found = np.interp(np.maximum(x, knots[0]), knots, heights)
            found[np.isnan(x)] = weights[0, self.missing]
            return found[:, None]
        places, values = self.entries(raw)
        return (weights.T[places] * values[:, :, None]).sum(axis=1)

    def _replaced(
        self, places: np.ndarray, values: np.ndarray, missing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Set the entries of missing rows: 1 at the level "missing", 0 elsewhere."""
        width = places.shape[1]
        places[missing] = self.missing - np.arange(width)
        values[missing] = np.arange(width) == 0
        return places, values


class SplineBlock(Block):
    """Linear spline basis: a number is interpolated between two neighbouring knots.

    The number of an ordered level is its position. Each level is then a knot.
    """

    kind: ClassVar[str] = "spline"

    def entries(self, raw: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of two knots, which sum to 1, or "missing" and a zero."""
        if self.spelling is None:
            x = read_as(self.reads, raw)
        else:
            x = places_of(raw, self.spelling, -1, -1).astype(float)
            x[x < 0] = np.nan
        missing = np.isnan(x)
        knots = self.knots if self.end is None else np.append(self.knots, self.end)
        x = np.clip(np.where(missing, knots[0], x), knots[0], knots[-1])
        left = np.searchsorted(knots, x, side="right") - 1
        left = np.minimum(left, len(knots) - 2)  # never the last knot
        places = np.stack([left, (left + 1) % len(self.knots)], axis=1)
        share = np.rint(_to_unit(x, knots[left], knots[left + 1]) * _GRID) / _GRID
        return self._replaced(places, np.stack([1 - share, share], axis=1), missing)


class LinearBlock(Block):
    """Linear term: a number scaled from its bounds to [0, 1]."""

    kind: ClassVar[str] = "linear"

    def entries(self, raw: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the scaled number, or a 1 at the level "missing"."""
        x = read_as(self.reads, raw)
        missing = np.isnan(x)
        low, high = self.knots
        x = np.clip(np.where(missing, low, x), low, high)
        places = np.zeros((len(x), 1), dtype=np.intp)
        return self._replaced(places, _to_unit(x, low, high)[:, None], missing)


class CategoriesBlock(Block):
    """One-hot categories, with the levels "other" for unknown values and "missing"."""

    kind: ClassVar[str] = "categories"
    draws = "bars"

    def entries(self, raw: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return a single 1 per row, at the level of its value."""
        if self.spelling is not None:
            other = self.levels.index(OTHER)
            places = places_of(raw, self.spelling, other, self.missing)
        else:
            part = read_as(self.reads, raw)
            places = np.where(np.isnan(part), self.missing, part).astype(np.intp)
        return places[:, None], np.ones((len(places), 1))


def placed(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return blocks that lie one after the other, in their order."""
    found, start = [], 0
    for block in blocks:
        found.append(dataclasses.replace(block, start=start))
        start = found[-1].stop
    return tuple(found)


def _to_unit(x: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Scale x from [low, high] to [0, 1]."""
    return np.clip((x - low) / (high - low), 0.0, 1.0)


#: Share of the target's variance that a model is expected to explain.
EXPLAINED = 0.5
#: Prior variance of the level "missing", relative to that of the linear direction (see
#: `directions`).
MISSING_VARIANCE = 1 / 9
# Lower limit of the signal in `squared_lengths`. With so little signal, all directions
# except one are left out.
_LEAST_SIGNAL = 1e-3
# Exponent in `squared_lengths`. With 1, lengths follow the prior, and rough shapes are
# learnt late. With 0, lengths are about equal (whitening), and the linear shape is
# learnt as slowly as all others.
_HALF = 0.5
# Divisor of lengths: above 1 by more than rounding errors, so that no row has a norm
# above 1.
_WIDER = 1 + 1e-12


def directions(n_knots: int, cyclic: bool = False) -> np.ndarray:
    """Return orthonormal shapes of a curve over equally spaced knots, smoothest first.

    Each column of the result, of shape (n_knots, n_knots - 1), has the values of one
    curve at the knots, with sum zero. The first is linear. The others are eigenvectors
    of the sum of squared second differences, by ascending eigenvalue; of a cyclic
    curve, pairs of a cosine and a sine.
    """
    if cyclic:
        angle = 2 * np.pi * np.arange(n_knots) / n_knots
        phase = np.where(np.arange(n_knots - 1) % 2 == 0, 0.0, np.pi / 2)
        waves = np.cos(angle[:, None] * orders(n_knots, cyclic) - phase)
        return waves / np.linalg.norm(waves, axis=0)
    bends = np.diff(np.eye(n_knots), 2, axis=0)
    _, shapes = np.linalg.eigh(bends.T @ bends)
    shapes = shapes[:, 1:]
    line = np.arange(n_knots) - (n_knots - 1) / 2
    shapes[:, 0] = line / np.linalg.norm(line)
    # The sign of an eigenvector is arbitrary.
    return shapes * np.where(shapes[-1] < 0, -1.0, 1.0)


def orders(n_knots: int, cyclic: bool = False) -> np.ndarray:
    """Return the order of each direction: 1, 2, ... from smooth to rough.

    For a cyclic curve the order is the frequency, the same for a cosine and a sine.
    """
    place = np.arange(n_knots - 1)
    return place // 2 + 1 if cyclic else place + 1


def contrasts(n_levels: int) -> np.ndarray:
    """Return orthonormal contrasts, (n_levels, n_levels - 1); columns sum to 0."""
    shapes = np.triu(np.ones((n_levels, n_levels - 1)))
    below = np.arange(1, n_levels)
    shapes[below, below - 1] = -below
    return shapes / np.linalg.norm(shapes, axis=0)


def shares_of_norm(prior: np.ndarray, noise: float, chance: float) -> np.ndarray:
    """Return the share of the squared norm of a row that each direction gets.

    If direction j has the share a_j and its correlation with the target the prior
    variance v_j, a release explains ``sum v_j**2 / (v_j + c + noise**2 / a_j)`` of the
    target's variance, with sampling variance c. This is largest at ``a_j = max(0, theta
    v_j - noise**2) / (v_j + c)``, where the shares sum to 1. So directions with a small
    v_j have no share, and more of them with more noise (reverse water-filling: Cover
    and Thomas, *Elements of Information Theory*, section 10.3.3).

    `prior` is v, positive, and `chance` is c. `noise` is the standard deviation of the
    noise in the released statistic, divided by the number of records, for rows of norm
    1 and a target of standard deviation 1.
    """
    order = np.argsort(-prior, kind="stable")
    v = prior[order]
    total = v + chance
    # For every k: the constant theta if only the first k directions have a share.
    level = (1 + noise**2 * np.cumsum(1 / total)) / np.cumsum(v / total)
    last = np.nonzero(level * v > noise**2)[0].max(initial=0)
    share = np.empty(len(v))
    share[order] = np.maximum(0, level[last] * v - noise**2) / total
    share[order[0]] = share[order[0]] or 1.0  # keep one direction
    return share


def prior_variances(n_knots: int, cyclic: bool = False) -> np.ndarray:
    """Return the prior share of a curve's variance in each of `directions`.

    As of a random walk along the knots, order j has ``1 / j**2`` of the first variance.
    """
    variance = orders(n_knots, cyclic) ** -2.0
    return variance / variance.sum()


def squared_lengths(
    variance: np.ndarray,
    signal: float,
    n_records: int,
    n_blocks: int,
    n_outputs: int = 1,
) -> np.ndarray:
    """Return the squared length of each direction of a block; the largest is 1.

    The length is the factor of the direction in L (see the module). `variance` is the
    prior variance of each direction: positive, with sum 1. `signal` is the number of
    records, divided by the standard deviation of the noise in a sum to which a record
    contributes at most 1, if the whole budget is spent on it. Blocks have equal parts
    of the squared norm of a row and of the explained variance of the target.
    """
    prior, chance = variance * EXPLAINED / n_blocks, 1 / n_records
    # In a row of norm 1 a block has the norm 1 / sqrt(n_blocks). The noise is
    # proportional to the clip norm, which is about the size of a residual.
    noise = math.sqrt(n_blocks * n_outputs) / max(signal, _LEAST_SIGNAL)
    share = shares_of_norm(prior, noise, chance)
    # Leave out directions whose sampling variance exceeds their prior variance.
    share[(prior <= chance) & (prior < prior.max())] = 0.0
    squares = share * (prior + chance) ** _HALF
    return squares / squares.max()


def lengths_of_shapes(shapes: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return lengths with which the smooth terms of every row have norm at most 1.

    `squares` are the squared lengths of the orthonormal `shapes`, up to a factor. The
    smooth terms of a row are a mean of rows of L, ``shapes * lengths``, whose longest
    has norm 1 up to rounding.
    """
    norms = np.tensordot(squares, shapes**2, axes=(0, 1))
    return np.sqrt(squares) / (math.sqrt(norms.max()) * _WIDER)


class _Curve:
    """The conversion of one block: splines to smooth terms; other blocks are copied.

    `squares_of` returns the squared lengths of directions, given their prior variances;
    see `squared_lengths`. Column numbers count from the start of the block.
    """

    def __init__(self, block: Block, squares_of: Callable[[np.ndarray], np.ndarray]):
        every = np.arange(len(block.levels))
        # The encoded columns that smooth terms replace, and the direction (a column of
        # `shapes`) and the length (in `factor`) of each smooth term.
        self.smooth, self.shapes, self.factor = every[:0], np.empty((0, 0)), np.empty(0)
        # Encoded columns that are only multiplied by a factor. In the result they come
        # after the smooth terms.
        self.plain, self.plain_factor = every, np.ones(len(every))
        self.n_columns = len(every)
        if block.kind != "spline":
            return
        given = len(block.levels) - 1, block.end is not None
        shapes, variance = directions(*given), prior_variances(*given)
        # The level "missing" is one more direction. With much noise it is left out. A
        # missing value then contributes the mean of the curve.
        variance = np.append(variance, variance.max() * MISSING_VARIANCE)
        squares = squares_of(variance / variance.sum())
        kept = np.flatnonzero(squares[:-1])
        self.shapes = np.ascontiguousarray(shapes[:, kept])
        self.factor = lengths_of_shapes(shapes, squares[:-1])[kept]
        missing = self.plain == block.missing
        self.smooth = self.plain[~missing]
        self.plain = self.plain[missing & (squares[-1] > 0)]
        self.plain_factor = np.full(len(self.plain), math.sqrt(squares[-1]))
        self.n_columns = len(self.factor) + len(self.plain)

    def terms(self, hats: csr_array) -> np.ndarray:
        """Return the converted columns of some encoded rows of a spline."""
        n_hats, width = self.shapes.shape
        wide = np.zeros((n_hats + 1, self.n_columns))
        wide[:-1, :width] = self.shapes
        wide[-1, width:] = 1.0
        return (hats @ wide) * np.append(self.factor, self.plain_factor)

    def write(
        self, places: np.ndarray, values: np.ndarray, out: np.ndarray, own: int
    ) -> None:
        """Write converted columns of some rows to zeros, from column `own` of `out`."""
        if not self.smooth.size:
            out[np.arange(len(out))[:, None], own + places] = values
            return
        ends = places.shape[1] * np.arange(len(places) + 1)
        shape = len(out), len(self.shapes) + 1
        hats = csr_array((values.ravel(), places.ravel(), ends), shape)
        out[:, own : own + self.n_columns] = self.terms(hats)

    def weights(self, coef: np.ndarray, out: np.ndarray, power: int) -> None:
        """Write weights of encoded columns to `out`; see `Smoothing.weights`."""
        n_smooth = len(self.factor)
        out[:, self.plain] = coef[:, n_smooth:] * self.plain_factor**power
        smooth = coef[:, :n_smooth] * self.factor**power
        out[:, self.smooth] = np.tensordot(smooth, self.shapes**power, axes=(1, 1))


class Smoothing:
    """Convert spline columns to smooth terms, and weights of smooth terms back.

    Columns of blocks that are not splines are copied. `blocks` are those of an encoder,
    in order. The other parameters are those of `squared_lengths`.

    Notes
    -----
    **Guarantees.** The conversion is a function of the declared blocks and of public
    numbers. Each row is converted independently of the others. Entries are in [-1, 1].
    If every block of an encoded row has a norm of at most 1, then every block of the
    converted row has a norm of at most ``1 + 1e-9``.
    """

    def __init__(
        self, blocks: Sequence[Block], signal: float, n_records: int, n_outputs: int = 1
    ):
        self.n_encoded = max((block.stop for block in blocks), default=0)
        given = {"signal": signal, "n_records": n_records, "n_outputs": n_outputs}
        squares = functools.partial(squared_lengths, n_blocks=len(blocks), **given)
        #: For each block: its encoded columns, its converted columns, its conversion.
        self.curves: list[tuple[slice, slice, _Curve]] = []
        self.n_columns = 0
        for block in blocks:
            curve = _Curve(block, squares)
            own = slice(self.n_columns, self.n_columns + curve.n_columns)
            self.curves.append((slice(block.start, block.stop), own, curve))
            self.n_columns = own.stop
        sizes = [curve.n_columns for *_, curve in self.curves]
        # The number of the block of each converted column.
        self.block = np.repeat(np.arange(len(sizes)), sizes)

    def rows(self, encoded: csr_array) -> csr_array:
        """Return encoded rows converted to smooth terms, shape (n_rows, n_columns)."""
        parts = []
        for given, _, curve in self.curves:
            part = encoded[:, given]
            parts.append(csr_array(curve.terms(part)) if curve.smooth.size else part)
        return hstack(parts, format="csr")

    def weights(self, coef: np.ndarray, power: int = 1) -> np.ndarray:
        """Return weights of encoded columns, given weights `coef` of smooth terms.

        Weights have one row per output: ``encoded @ weights.T`` equals
        ``rows(encoded) @ coef.T``. With ``power=2``, `coef` holds variances of
        independent weights, and the result holds the variances of the returned weights.
        """
        out = np.zeros((len(coef), self.n_encoded))
        for given, own, curve in self.curves:
            curve.weights(coef[:, own], out[:, given], power)
        return out


#: Default number of knots outside of an estimator.
STANDALONE_KNOTS = 8
#: Default number of knots in an estimator, where noise leaves shapes out. 16 knots were
#: too few for steps, long tails and bounds that are too wide.
SMOOTH_KNOTS = 32

#: If geometric knots start at 0, the second one is the upper bound / 2**HALVINGS: some
#: knots are then below a hundredth of the bound.
HALVINGS = 7


def spread_knots(low: float, high: float, n_knots: int, spacing: str) -> np.ndarray:
    """Return knots from low to high; fewer if the bounds are close.

    At least 2 knots and low < high are required. `spacing` is "even", or "geometric"
    with 0 <= low. If low is 0, the second geometric knot is high / 128, or larger, so
    that each later knot is at most twice the previous one.
    """
    if spacing == "even":
        knots = _evenly(low, high, n_knots)
    elif low == 0:
        first = high * 2.0 ** -min(HALVINGS, n_knots - 2)
        knots = np.r_[0.0, np.exp(_evenly(np.log(first), np.log(high), n_knots - 1))]
    else:
        knots = np.exp(_evenly(np.log(low), np.log(high), n_knots))
    knots[0], knots[-1] = low, high
    return np.unique(np.clip(knots, low, high))


def _evenly(low: float, high: float, n_knots: int) -> np.ndarray:
    share = np.arange(n_knots) / max(1, n_knots - 1)
    return low * (1 - share) + high * share
