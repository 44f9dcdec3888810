r"""Smooth coordinates of encoded rows: neighbouring knots share what they learn.

Rows of hats ``H`` become ``H L``, with a public matrix L for each block. A model of
them is a model of hats: weights theta on the rows ``H L`` are the weights ``L theta``
on the hats. Directions of L that are smooth are long, rough ones are short or left out,
so that noise of one size in every weight of theta is little noise in a curve.

L is a function of public numbers alone: it costs no privacy and learns nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from skfdp.encoding.blocks import Block
from skfdp.records.blocks import blocks as row_blocks

#: Share of the target's variance that curves and categories are expected to explain.
EXPLAINED = 0.5
#: What "missing" is expected to tell, over what the first direction is.
MISSING_VARIANCE = 1 / 9
# With less signal than that only the first direction is left.
_LEAST_SIGNAL = 1e-3
# Half-way between the lengths of the prior, in which rough shapes are learnt late, and
# whitened ones, in which a straight line is learnt as slowly as everything else.
_HALF = 0.5
# More categories than this have no matrix of contrasts, which is square.
_MOST_LEVELS = 256
# Widened by more than rounding, so that no row is longer than 1.
_WIDER = 1 + 1e-12


def directions(n_knots: int, cyclic: bool = False) -> np.ndarray:
    """Return shapes of a curve at its knots, the smoothest first.

    Parameters
    ----------
    n_knots : int
        At least 2; knots count as equally far apart.
    cyclic : bool, default=False
        Whether the last knot is a neighbour of the first.

    Returns
    -------
    shapes : float64 ndarray of shape (n_knots, n_knots - 1)
        Orthonormal columns that sum to zero: a constant is the intercept's. First a
        straight line, then the eigenvectors of the sum of squared second differences
        in ascending order. Of a cyclic curve the waves, in pairs.
    """
    if cyclic:
        return _waves(n_knots)
    bends = np.diff(np.eye(n_knots), 2, axis=0)
    _, shapes = np.linalg.eigh(bends.T @ bends)
    shapes = shapes[:, 1:]
    line = np.arange(n_knots) - (n_knots - 1) / 2
    shapes[:, 0] = line / np.linalg.norm(line)
    # The sign of an eigenvector is anybody's.
    return shapes * np.where(shapes[-1] < 0, -1.0, 1.0)


def _waves(n_knots: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(n_knots) / n_knots
    order = orders(n_knots, cyclic=True)
    phase = np.where(np.arange(len(order)) % 2 == 0, 0.0, np.pi / 2)
    shapes = np.cos(angle[:, None] * order - phase)
    return shapes / np.linalg.norm(shapes, axis=0)


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


@dataclasses.dataclass(frozen=True)
class Contrasts:
    """The matrix of `contrasts` without its entries, whose number is the square.

    Column j has ones in the first j + 1 rows and -(j + 1) in the next, over its norm.

    Attributes
    ----------
    n_levels : int
    """

    n_levels: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of levels and of contrasts."""
        return self.n_levels, self.n_levels - 1

    def __len__(self) -> int:
        """Return the number of levels."""
        return self.n_levels

    @property
    def _places(self) -> np.ndarray:
        return np.arange(1.0, self.n_levels)

    @property
    def _norms(self) -> np.ndarray:
        return np.sqrt(self._places * (self._places + 1))

    def of_levels(self, rows: np.ndarray) -> np.ndarray:
        """Return rows with their second axis multiplied away; the product's is last."""
        rows = np.moveaxis(rows, 1, -1)
        before = np.cumsum(rows[..., :-1], axis=-1)
        return (before - self._places * rows[..., 1:]) / self._norms

    def on_levels(self, grid: np.ndarray, axis: int, power: int) -> np.ndarray:
        """Return what a matrix with entries to a power makes of shapes; levels last."""
        part = np.moveaxis(grid, axis, -1) / self._norms**power
        out = np.zeros((*part.shape[:-1], self.n_levels))
        out[..., :-1] = np.cumsum(part[..., ::-1], axis=-1)[..., ::-1]
        out[..., 1:] += (-self._places) ** power * part
        return out


def _on_levels(
    grid: np.ndarray, side: np.ndarray | Contrasts, axis: int, power: int
) -> np.ndarray:
    """Return a grid with an axis of shapes made one of levels, which is last."""
    if isinstance(side, Contrasts):
        return side.on_levels(grid, axis, power)
    return np.tensordot(grid, side**power, axes=(axis, 1))


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

    Parameters
    ----------
    prior : ndarray of shape (n_directions,)
        v, the variances of the correlations; positive.
    noise : float
        Standard deviation of the noise of the released statistic over the number of
        records, for rows of norm 1 and a target of standard deviation 1.
    chance : float
        c.

    Returns
    -------
    share : ndarray of shape (n_directions,)
        Zero for the directions that are left out.
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


@dataclasses.dataclass(frozen=True)
class Strength:
    """Public numbers that decide how smooth curves are.

    Attributes
    ----------
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

    signal: float
    n_records: int
    n_blocks: int
    n_outputs: int = 1

    def squares(self, variance: np.ndarray) -> np.ndarray:
        """Return the squared length of each direction of a block; the largest is 1.

        Parameters
        ----------
        variance : ndarray of shape (n_directions,)
            What is expected of each direction in the curve: positive, of sum 1.
        """
        p = self.n_blocks
        prior, chance = variance * EXPLAINED / p, 1 / self.n_records
        # A block is 1 / sqrt(p) long if the row is 1 long. Contributions are cut to
        # about the size of a residual: the noise follows that.
        noise = math.sqrt(p * self.n_outputs) / max(self.signal, _LEAST_SIGNAL)
        share = shares_of_norm(prior, noise, chance)
        # What a direction costs by chance alone: more than it is expected to explain.
        share[(prior <= chance) & (prior < prior.max())] = 0.0
        squares = share * (prior + chance) ** _HALF
        return squares / squares.max()


def lengths(sides: Sequence[np.ndarray | Contrasts], squares: np.ndarray) -> np.ndarray:
    """Return the lengths of directions with which no row of hats is longer than 1.

    Parameters
    ----------
    sides : sequence of ndarray or Contrasts, of shape (n_levels, n_shapes)
        Orthonormal columns: the shapes of a curve, or of both sides of a pair.
    squares : ndarray of shape (n_directions,)
        Squared lengths up to a factor, of a shape or of each product of shapes.

    Returns
    -------
    lengths : float64 ndarray of shape (n_directions,)
        ``sides[0] * lengths`` is L, whose longest row has norm 1, up to rounding. So
        no mean of its rows is longer, and rows of hats make means.
    """
    grid = squares.reshape([own.shape[1] for own in sides])
    norms = grid
    for own in sides:  # each moves its axis to the end
        norms = _on_levels(norms, own, 0, 2)
    return np.sqrt(squares) / (math.sqrt(norms.max()) * _WIDER)


@dataclasses.dataclass(frozen=True)
class _Curve:
    """The smooth coordinates of one block.

    Attributes
    ----------
    smooth : int ndarray
        Encoded columns, of hats or of their products.
    plain : int ndarray
        Encoded columns that stay what they are, after the smooth ones.
    plain_factor : ndarray of shape (n_plain,)
        Their lengths.
    sides : tuple of ndarray or Contrasts
        Shapes of each side, by whose products the columns are multiplied.
    chosen : int ndarray of shape (n_sides, n_directions)
        The shape of each side in a direction.
    factor : ndarray of shape (n_directions,)
        Length of each direction.
    """

    smooth: np.ndarray
    plain: np.ndarray
    plain_factor: np.ndarray
    sides: tuple[np.ndarray | Contrasts, ...] = ()
    chosen: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 0)))
    factor: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, block: Block, strength: Strength) -> _Curve:
        every = np.arange(block.start, block.stop)
        if block.kind not in ("hats", "pair"):
            return cls(every[:0], every, np.ones(len(every)))
        found = [_side(side) for side in (getattr(block, "sides", ()) or (block,))]
        shapes, variance = tuple(s for s, _ in found), np.ones(1)
        for _, own in found:
            variance = np.outer(variance, own).ravel()
        # The level "missing" is one more direction, which noise may drown, too: a
        # missing value then has the mean of the curve.
        variance = np.append(variance, variance.max() * MISSING_VARIANCE)
        squares = strength.squares(variance / variance.sum())
        kept = np.flatnonzero(squares[:-1])
        factor = lengths(shapes, squares[:-1])[kept]
        chosen = np.array(np.unravel_index(kept, [own.shape[1] for own in shapes]))
        missing = every == block.start + block.missing
        plain = every[missing & (squares[-1] > 0)]
        length = np.full(len(plain), math.sqrt(squares[-1]))
        return cls(every[~missing], plain, length, shapes, chosen, factor)

    @property
    def n_columns(self) -> int:
        return len(self.factor) + len(self.plain)

    def rows(self, encoded: np.ndarray, out: np.ndarray) -> None:
        """Write the columns of this block for some rows."""
        out[:, len(self.factor) :] = encoded[:, self.plain] * self.plain_factor
        if not self.sides:
            return
        smooth = encoded[:, self.smooth].reshape(
            len(encoded), *[len(own) for own in self.sides]
        )
        for own in self.sides:  # each moves its axis to the end
            smooth = _times(smooth, own)
        picked = smooth[(slice(None), *self.chosen)]
        np.multiply(picked, self.factor, out=out[:, : len(self.factor)])

    def weights(self, coef: np.ndarray, out: np.ndarray, power: int) -> None:
        """Write weights on the encoded columns of this block, or their variances."""
        n_smooth = len(self.factor)
        out[:, self.plain] = coef[:, n_smooth:] * self.plain_factor**power
        if not self.sides:
            return
        grid = np.zeros((len(coef), *[own.shape[1] for own in self.sides]))
        grid[(slice(None), *self.chosen)] = coef[:, :n_smooth] * self.factor**power
        for own in self.sides:
            grid = _on_levels(grid, own, 1, power)
        out[:, self.smooth] = grid.reshape(len(coef), -1)


def _side(block: Block) -> tuple[np.ndarray | Contrasts, np.ndarray]:
    """Return shapes of the levels but "missing", and their prior variances."""
    n_levels = len(block.levels) - 1
    if block.kind == "hats":
        return directions(n_levels, block.end is not None), prior_variances(
            n_levels, block.end is not None
        )
    if n_levels == 1:  # a line, or categories without any
        return np.ones((1, 1)), np.ones(1)
    shapes = contrasts if n_levels <= _MOST_LEVELS else Contrasts
    return shapes(n_levels), np.full(n_levels - 1, 1 / (n_levels - 1))


def _times(rows: np.ndarray, matrix: np.ndarray | Contrasts) -> np.ndarray:
    """Return rows with their second axis multiplied away; the product's is last.

    Entry by entry, in one order: a row does not depend on those beside it, as it may in
    a product of matrices.
    """
    if isinstance(matrix, Contrasts):
        return matrix.of_levels(rows)
    out = np.zeros((len(rows), *rows.shape[2:], matrix.shape[1]))
    for level, weights in enumerate(matrix):
        out += rows[:, level, ..., None] * weights
    return out


@dataclasses.dataclass(frozen=True)
class Smoothing:
    """The map between encoded rows and smooth coordinates, and back for weights.

    Attributes
    ----------
    n_encoded : int
        Columns of encoded rows.
    block : int ndarray of shape (n_columns,)
        The block of each smooth column.
    curves : tuple of _Curve

    Notes
    -----
    **Guarantees.** A function of the declared blocks and of `Strength`, which are
    public. Each row becomes what it would become alone. Entries are in [-1, 1], and no
    block of a row is longer than 1, up to 1e-9, if none of the encoded row is.
    """

    n_encoded: int
    block: np.ndarray
    curves: tuple[_Curve, ...]

    @classmethod
    def of(
        cls,
        blocks: Sequence[Block],
        signal: float,
        n_records: int,
        n_outputs: int = 1,
    ) -> Smoothing:
        """Return the coordinates for public numbers.

        Parameters
        ----------
        blocks : sequence of Block
            Of an encoder, in order.
        signal, n_records, n_outputs
            See `Strength`.
        """
        strength = Strength(signal, n_records, len(blocks), n_outputs)
        curves = tuple(_Curve.of(block, strength) for block in blocks)
        owner = np.repeat(np.arange(len(curves)), [c.n_columns for c in curves])
        return cls(max((b.stop for b in blocks), default=0), owner, curves)

    @property
    def n_columns(self) -> int:
        """Number of smooth columns."""
        return len(self.block)

    def rows(self, encoded: np.ndarray) -> np.ndarray:
        """Return encoded rows in smooth coordinates.

        Parameters
        ----------
        encoded : ndarray of shape (n_rows, n_encoded)

        Returns
        -------
        rows : float64 ndarray of shape (n_rows, n_columns)
        """
        out = np.empty((len(encoded), self.n_columns))
        for part in row_blocks(len(encoded), max(1, self.n_encoded)):
            for own, curve in zip(self._slices(), self.curves, strict=True):
                curve.rows(encoded[part], out[part, own])
        return out

    def weights(self, coef: np.ndarray) -> np.ndarray:
        """Return weights on encoded columns, given weights on smooth ones.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_columns)

        Returns
        -------
        weights : float64 ndarray of shape (n_outputs, n_encoded)
            ``encoded @ weights.T`` is ``rows(encoded) @ coef.T``.
        """
        return self._on_encoded(coef, 1)

    def variances(self, variances: np.ndarray) -> np.ndarray:
        """Return variances of `weights`, given those of independent smooth weights.

        Parameters
        ----------
        variances : ndarray of shape (n_outputs, n_columns)

        Returns
        -------
        variances : float64 ndarray of shape (n_outputs, n_encoded)
            The squares of the map, applied as the map is: it has no matrix of all
            columns by all columns.
        """
        return self._on_encoded(variances, 2)

    def _on_encoded(self, coef: np.ndarray, power: int) -> np.ndarray:
        """Return the map of weights with each of its entries to a power."""
        out = np.zeros((len(coef), self.n_encoded))
        for own, curve in zip(self._slices(), self.curves, strict=True):
            curve.weights(coef[:, own], out, power)
        return out

    def _slices(self) -> list[slice]:
        ends = np.cumsum([curve.n_columns for curve in self.curves])
        return [
            slice(e - c.n_columns, e) for e, c in zip(ends, self.curves, strict=True)
        ]
