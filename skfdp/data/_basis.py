r"""Smooth coordinates of encoded rows: neighbouring knots share what they learn.

Rows of hats ``H`` become ``H L``, with a public matrix L for each block. A model of
them is a model of hats: weights theta on the rows ``H L`` are the weights ``L theta``
on the hats. Directions of L that are smooth are long, rough ones are short or left out,
so that noise of one size in every weight of theta is little noise in a curve.

L is a function of public numbers alone: it costs no privacy and learns nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from skfdp.data.arrays import Column
from skfdp.data.grid import blocks as row_blocks
from skfdp.data.target import Spelling

# Blocks of encoded columns: one for each declared column and date part.
#
# A row has a fixed number of entries in a block, all in [0, 1], and at most the norm 1.
# Hats are rounded to multiples of 2**-26, so that they sum to exactly 1: a norm bound
# must not hinge on rounding.


MISSING, OTHER = "missing", "other"
_GRID = 2.0**26


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Neighbouring encoded columns that come from one raw column."""

    kind: ClassVar[str] = ""

    #: "age"; of dates also "admitted.month", "admitted.weekday".
    name: str
    #: Position of the raw column.
    parent: int
    #: Names of the encoded columns.
    levels: tuple[str, ...]
    #: Position of the first encoded column.
    start: int = 0
    #: How values are read: "number", "date" (days since 1970-01-01), "month",
    #: "weekday" or "category".
    reads: str = "number"
    #: Of hats and lines, in the units that the block reads; one for each hat, and the
    #: two bounds of a line.
    knots: np.ndarray | None = None
    #: Of a cyclic block with knots: where the first knot comes again.
    end: float | None = None
    #: Whether the last level before "missing" is a neighbour of the first.
    cyclic: bool = False

    @property
    def stop(self) -> int:
        """Position after the last encoded column."""
        return self.start + len(self.levels)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(f"{self.name}__{level}" for level in self.levels)

    @property
    def missing(self) -> int:
        """Place of the level that missing values have, from the start."""
        return self.levels.index(MISSING)

    def entries(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return places and values of the entries of each row that may not be zero.

        Both have the shape (n_rows, n_entries). Places count from the start of the
        block; a row has none twice.
        """
        raise NotImplementedError

    def raw(self, points: np.ndarray) -> np.ndarray:
        """Return what the block reads: days since 1970-01-01 as dates."""
        if self.reads != "date":
            return points
        return np.datetime64("1970-01-01", "m") + np.rint(points * 1440).astype("m8[m]")

    def encode(self, raw: Any) -> np.ndarray:
        """Return the rows of this block, for figures, shape (n_rows, n_levels)."""
        places, values = self.entries(Column(raw))
        rows = np.zeros((len(places), len(self.levels)))
        np.put_along_axis(rows, places, values, axis=1)
        return rows

    def _replaced(
        self, places: np.ndarray, values: np.ndarray, missing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return entries with the level "missing" instead of all else where it is."""
        width = places.shape[1]
        places[missing] = self.missing - np.arange(width)
        values[missing] = np.arange(width) == 0
        return places, values


class HatsBlock(Block):
    """Hats: a number between two knots counts for both, by its distance to them."""

    kind: ClassVar[str] = "hats"

    def entries(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return two neighbouring hats, which sum to 1, or "missing" alone."""
        x = column.read(self.reads)
        missing = np.isnan(x)
        knots = self.knots if self.end is None else np.append(self.knots, self.end)
        x = np.clip(np.where(missing, knots[0], x), knots[0], knots[-1])
        left = np.searchsorted(knots, x, side="right") - 1
        left = np.clip(left, 0, len(knots) - 2)
        places = np.stack([left, (left + 1) % len(self.knots)], axis=1)
        share = np.rint(_share(x, knots[left], knots[left + 1]) * _GRID) / _GRID
        return self._replaced(places, np.stack([1 - share, share], axis=1), missing)


class LinearBlock(Block):
    """Line: a number scaled from its bounds to [0, 1]."""

    kind: ClassVar[str] = "linear"

    def entries(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return the scaled number, or "missing" alone."""
        x = column.read(self.reads)
        missing = np.isnan(x)
        low, high = self.knots
        x = np.clip(np.where(missing, low, x), low, high)
        places = np.zeros((len(x), 1), dtype=np.intp)
        return self._replaced(places, _share(x, low, high)[:, None], missing)


@dataclasses.dataclass(frozen=True, eq=False)
class CategoriesBlock(Block):
    """Categories, one column each; unknown ones are "other"."""

    kind: ClassVar[str] = "categories"

    #: Which values are which category; None where parts of dates are read.
    spelling: Spelling | None = None

    def entries(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return a single 1."""
        if self.reads == "category":
            other = self.levels.index(OTHER)
            places = column.places(self.spelling, other, self.missing)
        else:
            part = column.read(self.reads)
            places = np.where(np.isnan(part), self.missing, part).astype(np.intp)
        return places[:, None], np.ones((len(places), 1))


def _share(x: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Return where x in [low, high] lies between them, from 0 to 1; 1 if they meet."""
    with np.errstate(over="ignore"):  # the distance of sides near the largest floats
        unit = np.where(np.isinf(np.subtract(high, low)), 0.25, 1.0)
    width = high * unit - low * unit
    share = np.divide(
        x * unit - low * unit, width, out=np.ones(len(x)), where=width > 0
    )
    return np.clip(share, 0.0, 1.0)


#: Share of the target's variance that curves and categories are expected to explain.
EXPLAINED = 0.5
#: What "missing" is expected to tell, over what the first direction is.
MISSING_VARIANCE = 1 / 9
# With less signal than that only the first direction is left.
_LEAST_SIGNAL = 1e-3
# Half-way between the lengths of the prior, in which rough shapes are learnt late, and
# whitened ones, in which a straight line is learnt as slowly as everything else.
_HALF = 0.5
# Widened by more than rounding, so that no row is longer than 1.
_WIDER = 1 + 1e-12


def directions(n_knots: int, cyclic: bool = False) -> np.ndarray:
    """Return shapes of a curve at its equally distant knots, the smoothest first.

    They are orthonormal columns that sum to zero, shape (n_knots, n_knots - 1): a
    constant is the intercept's. First a straight line, then the eigenvectors of the sum
    of squared second differences in ascending order. Of a cyclic curve, whose last knot
    is a neighbour of the first, the waves, in pairs.
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
    # The sign of an eigenvector is anybody's.
    return shapes * np.where(shapes[-1] < 0, -1.0, 1.0)


def orders(n_knots: int, cyclic: bool = False) -> np.ndarray:
    """Return the number of bends, or of waves, of each direction, from 1."""
    place = np.arange(n_knots - 1)
    return place // 2 + 1 if cyclic else place + 1


def contrasts(n_levels: int) -> np.ndarray:
    """Return orthonormal columns that sum to zero, shape (n_levels, n_levels - 1)."""
    shapes = np.triu(np.ones((n_levels, n_levels - 1)))
    below = np.arange(1, n_levels)
    shapes[below, below - 1] = -below
    return shapes / np.linalg.norm(shapes, axis=0)


def shares_of_norm(prior: np.ndarray, noise: float, chance: float) -> np.ndarray:
    r"""Share out the squared norm of a row among directions.

    Let direction j have the share a_j of the squared norm. A release then tells the
    correlation of its coordinate with the target up to noise of variance
    ``noise**2 / a_j``, beside the chance of the labels, c. Where a correlation has the
    prior variance v_j, the best linear estimates explain
    ``sum v_j**2 / (v_j + c + noise**2 / a_j)`` of the target's variance, which is
    largest at

    .. math:: a_j = \max(0, \theta v_j - noise^2) / (v_j + c), \qquad \sum_j a_j = 1.

    So weak directions are left out, the more of them the louder the noise, and the
    others are nearly whitened: reverse water-filling (Cover and Thomas, *Elements of
    Information Theory*, section 10.3.3), with a prior in place of the known variance.

    The prior v is positive. The noise is the standard deviation of that of the released
    statistic over the number of records, for rows of norm 1 and a target of standard
    deviation 1.
    """
    order = np.argsort(-prior, kind="stable")
    v = prior[order]
    total = v + chance
    # The level if the first k directions are kept, for every k.
    level = (1 + noise**2 * np.cumsum(1 / total)) / np.cumsum(v / total)
    last = np.nonzero(level * v > noise**2)[0].max(initial=0)
    share = np.empty(len(v))
    share[order] = np.maximum(0, level[last] * v - noise**2) / total
    share[order[0]] = share[order[0]] or 1.0  # where noise drowns even the rounding
    return share


def prior_variances(n_knots: int, cyclic: bool = False) -> np.ndarray:
    """Return how much of a curve's variance is expected in each of `directions`.

    That of a random walk along the knots: a direction of j bends has 1 / j**2 of that
    of the line.
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

    Parameters
    ----------
    variance : ndarray of shape (n_directions,)
        What is expected of each direction in the curve: positive, of sum 1.
    signal : float
        ``mu n``: the budget's Gaussian-DP parameter for a sum that moves by 1, times
        the number of records. Infinite without noise.
    n_records : int
        Nominal where the number is private.
    n_blocks : int
        They share the norm of a row, and what the row explains.
    n_outputs : int, default=1
        Columns of weights: one for each class where there are more than two.
    """
    prior, chance = variance * EXPLAINED / n_blocks, 1 / n_records
    # A block is 1 / sqrt(n_blocks) long if the row is 1 long. Contributions are cut to
    # about the size of a residual: the noise follows that.
    noise = math.sqrt(n_blocks * n_outputs) / max(signal, _LEAST_SIGNAL)
    share = shares_of_norm(prior, noise, chance)
    # What a direction costs by chance alone: more than it is expected to explain.
    share[(prior <= chance) & (prior < prior.max())] = 0.0
    squares = share * (prior + chance) ** _HALF
    return squares / squares.max()


def lengths(shapes: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the lengths of directions with which no row of hats is longer than 1.

    Given the orthonormal shapes of a curve, and their squared lengths up to a factor.

    ``shapes * lengths`` is L, whose longest row has norm 1, up to rounding. So no
    mean of its rows is longer, and rows of hats make means.
    """
    norms = np.tensordot(squares, shapes**2, axes=(0, 1))
    return np.sqrt(squares) / (math.sqrt(norms.max()) * _WIDER)


class _Curve:
    """The smooth coordinates of one block, by a function of `squared_lengths`.

    Columns count from the start of the block.
    """

    def __init__(self, block: Block, squares_of: Callable[[np.ndarray], np.ndarray]):
        every = np.arange(len(block.levels))
        # Encoded columns that become smooth, the shape of each of their directions, and
        # its length.
        self.smooth, self.shapes, self.factor = every[:0], np.empty((0, 0)), np.empty(0)
        # Encoded columns that stay what they are, after the smooth ones, but for their
        # lengths.
        self.plain, self.plain_factor = every, np.ones(len(every))
        if block.kind == "hats":
            self._draw(block, squares_of)
        self.n_columns = len(self.factor) + len(self.plain)

    def _draw(self, block: Block, squares_of: Callable) -> None:
        given = len(block.levels) - 1, block.end is not None
        shapes, variance = directions(*given), prior_variances(*given)
        # The level "missing" is one more direction, which noise may drown, too: a
        # missing value then has the mean of the curve.
        variance = np.append(variance, variance.max() * MISSING_VARIANCE)
        squares = squares_of(variance / variance.sum())
        kept = np.flatnonzero(squares[:-1])
        self.shapes = np.ascontiguousarray(shapes[:, kept])
        self.factor = lengths(shapes, squares[:-1])[kept]
        missing = self.plain == block.missing
        self.smooth = self.plain[~missing]
        self.plain = self.plain[missing & (squares[-1] > 0)]
        self.plain_factor = np.full(len(self.plain), math.sqrt(squares[-1]))

    def rows(self, encoded: np.ndarray, first: int, out: np.ndarray, own: int) -> None:
        """Write the columns of this block for some rows.

        It begins at the columns `first` of encoded and `own` of out.
        """
        width = len(self.factor)
        plain = slice(own + width, own + self.n_columns)
        out[:, plain] = encoded[:, first + self.plain] * self.plain_factor
        if width:
            # numba loads with the first fit, not with `import skfdp`.
            from skfdp.kernels.smoothing import smooth

            first += int(self.smooth[0])
            smooth(encoded, first, self.shapes, self.factor, own, out)

    def weights(self, coef: np.ndarray, out: np.ndarray, power: int) -> None:
        """Write weights on the encoded columns of this block, or their variances."""
        n_smooth = len(self.factor)
        out[:, self.plain] = coef[:, n_smooth:] * self.plain_factor**power
        smooth = coef[:, :n_smooth] * self.factor**power
        out[:, self.smooth] = np.tensordot(smooth, self.shapes**power, axes=(1, 1))


class Smoothing:
    """The map between encoded rows and smooth coordinates, and back for weights.

    Of an encoder's blocks, in order, and of the numbers of `squared_lengths`.

    Notes
    -----
    **Guarantees.** A function of the declared blocks and of the numbers, which are
    public. Each row becomes what it would become alone. Entries are in [-1, 1], and no
    block of a row is longer than 1, up to 1e-9, if none of the encoded row is.
    """

    def __init__(
        self, blocks: Sequence[Block], signal: float, n_records: int, n_outputs: int = 1
    ):
        self.n_encoded = max((block.stop for block in blocks), default=0)
        given = {"signal": signal, "n_records": n_records, "n_outputs": n_outputs}
        squares = functools.partial(squared_lengths, n_blocks=len(blocks), **given)
        # The columns of each block among the encoded and the smooth ones.
        self._curves: list[tuple[slice, slice, _Curve]] = []
        self.n_columns = 0
        for block in blocks:
            curve = _Curve(block, squares)
            own = slice(self.n_columns, self.n_columns + curve.n_columns)
            self._curves.append((slice(block.start, block.stop), own, curve))
            self.n_columns = own.stop
        sizes = [curve.n_columns for *_, curve in self._curves]
        # The block of each smooth column.
        self.block = np.repeat(np.arange(len(sizes)), sizes)

    def rows(self, encoded: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return encoded rows in smooth coordinates, shape (n_rows, n_columns).

        CSR rows remain CSR, with the same numbers.
        """
        if issparse(encoded):
            parts = []
            for given, _, curve in self._curves:
                part = encoded[:, given]
                if curve.smooth.size:
                    rows = np.empty((part.shape[0], curve.n_columns))
                    curve.rows(part.toarray(), 0, rows, 0)
                    part = csr_array(rows)
                parts.append(part)
            return hstack(parts, format="csr")
        out = np.empty((len(encoded), self.n_columns))
        for part in row_blocks(len(encoded), max(1, self.n_encoded)):
            for given, own, curve in self._curves:
                curve.rows(encoded[part], given.start, out[part], own.start)
        return out

    def weights(self, coef: np.ndarray, power: int = 1) -> np.ndarray:
        """Return weights on encoded columns, given weights on smooth ones, a row each.

        ``encoded @ weights.T`` is ``rows(encoded) @ coef.T``. With the power 2 it
        returns variances, given those of independent smooth weights: by the squares of
        the map, which has no matrix of all columns by all columns.
        """
        out = np.zeros((len(coef), self.n_encoded))
        for given, own, curve in self._curves:
            curve.weights(coef[:, own], out[:, given], power)
        return out


# Knots: where the pieces of a curve meet.


#: Knots of a column where nothing is known but its bounds.
STANDALONE_KNOTS = 8
#: Knots beside a budget, in smooth coordinates, which leave out what noise would drown:
#: 8 and 16 are too few for steps, for long tails and for bounds that are too wide.
SMOOTH_KNOTS = 32

#: Geometric steps from 0 start this many halvings below the upper bound: a column whose
#: typical value is a hundredth of what is declared still gets a few knots below it.
HALVINGS = 7


def spread_knots(low: float, high: float, n_knots: int, spacing: str) -> np.ndarray:
    """Return knots from low to high; some coincide if the bounds are too close.

    There are at least 2, low < high, and 0 <= low where the spacing is "geometric", not
    "even". Geometric steps from 0 go from 0 to high / 128, and on from there; with less
    than 9 knots to a larger share of high, so that no step more than doubles.
    """
    # Of the last digit, near the largest float or the smallest.
    with np.errstate(over="ignore", under="ignore"):
        if spacing == "even":
            knots = _steps(low, high, n_knots)
        elif low == 0:
            first = high * 2.0 ** -min(HALVINGS, n_knots - 2)
            first = max(first, np.nextafter(0.0, 1.0))  # high may be as small
            knots = np.r_[0.0, np.exp(_steps(np.log(first), np.log(high), n_knots - 1))]
        else:
            knots = np.exp(_steps(np.log(low), np.log(high), n_knots))
    knots = np.maximum.accumulate(np.clip(knots, low, high))
    knots[0], knots[-1] = low, high
    return knots


def _steps(low: float, high: float, n_knots: int) -> np.ndarray:
    share = np.arange(n_knots) / max(1, n_knots - 1)
    # Not low + share * (high - low): the difference may overflow.
    return low * (1 - share) + high * share
