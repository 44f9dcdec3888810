"""The coordinates of the loop, and the way back from theta to coefficients."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.records.grid import GRID, GridRows, SparseGridRows, on_grid, times_columns
from skfdp.records.mapped import PublicRows, WholeRows
from skfdp.records.row_map import RowMap

# Factors of columns further apart than this share no factor of the integers.
_MOST_APART = 64.0
# Of moved rows the integers hold entries up to eight units, the usual norm being 1.
_REACH_OF_MOVED = 4.0
# Entries beyond it are cut to it, so that no difference is infinite.
_FURTHEST = 1e150
# A penalty as steep as that holds a weight at zero; steeper ones could overflow.
_STEEPEST = 1e60


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """``row of the loop = [(mapped row - mean) * scale, bias]``.

    Attributes
    ----------
    row_map : RowMap
    mean : ndarray of shape (n_features,)
        Released, or a function of public columns alone; on the grid.
    scale : float or ndarray of shape (n_features,)
        Public or released. The largest factor multiplies the integer rows, what is
        left of the others multiplies the rows before they become integers.
    bias : float or None
        Value of the constant last column, on the grid; None: no intercept.
    mean_error : float
        Standard deviation of the noise in a private entry of `mean`.
    longest : float or None
        None: rows become integers before the mean is subtracted. A number: they are
        centred and scaled first, so that their spread has all of the grid, whatever
        their length; and rows are cut to this norm, the constant column among them,
        if it is finite. Dense rows alone.
    """

    row_map: RowMap
    mean: np.ndarray
    scale: float | np.ndarray
    bias: float | None
    mean_error: float = 0.0
    longest: float | None = None

    @classmethod
    def moved(cls, row_map, mean, scale, bias, mean_error, longest) -> Coordinates:
        """Build coordinates of rows that are centred and scaled before the grid."""
        if bias is not None and math.isinf(longest):
            bias = on_grid(bias / _REACH_OF_MOVED) * _REACH_OF_MOVED
        return cls(row_map, mean, scale, bias, mean_error, longest)

    @classmethod
    def centred(cls, row_map, mean, scale, bias, mean_error=0.0) -> Coordinates:
        """Build coordinates; mean and bias are rounded as the grid will hold them."""
        before, after = _factors(scale)
        if not _is_far(mean, before):
            mean = on_grid(mean * before) / before
        if bias is not None:
            bias = max(on_grid(bias / after), GRID) * after
        return cls(row_map, mean, scale, bias, mean_error)

    def grid(
        self,
        X: PublicRows | WholeRows | np.ndarray | csr_array,
        target: np.ndarray | None = None,
    ) -> GridRows | SparseGridRows:
        """Quantise the rows of X, which are mapped first where they are not yet.

        With a target each row has its norm and its target beside it in memory, for
        loops that read rows at random.
        """
        mapped = isinstance(X, (PublicRows, WholeRows))
        unit = _as_they_are if mapped else self.row_map.mapped
        quantised = self._grid if self.longest is None else self._moved
        return quantised(X, unit, target=target)

    def _moved(self, X, unit, target=None) -> GridRows:
        """Quantise rows that are centred, scaled and perhaps cut as they are read."""
        cut = math.isfinite(self.longest)
        constant = [] if self.bias is None else [self.bias]
        reach = 1.0 if cut else _REACH_OF_MOVED

        def transform(block):
            with np.errstate(all="ignore"):  # a warning would tell of a private value
                rows = (unit(block) - self.mean) * (self.scale / reach)
            if not cut:
                return rows
            rows = np.column_stack([rows, np.tile(constant, (len(rows), 1))])
            rows = np.clip(rows, -_FURTHEST, _FURTHEST)
            return RowMap(feature_bound=self.longest).mapped(rows) * self.longest

        if not cut:
            facts = {"bias": self.bias, "scale": reach}
        else:
            facts = {"n_features": len(self.mean) + len(constant)}
        return GridRows.build(X, transform, **facts, target=target)

    def _grid(self, X, unit, n_features=None, target=None) -> GridRows | SparseGridRows:
        before, after = _factors(self.scale)
        by_column = np.ndim(before) > 0
        centre: np.ndarray | None = self.mean * before
        if _is_far(self.mean, before) and not issparse(X):
            # Public columns without bounds: what is far from zero is centred first.
            centre = None

        def transform(block):
            rows = unit(block)
            if centre is None:
                rows = rows - self.mean
            return times_columns(rows, before) if by_column else rows

        return GridRows.build(
            X,
            transform,
            bias=self.bias,
            n_features=n_features,
            centre=centre,
            scale=after,
            target=target,
        )

    def padded_grid(
        self,
        known: np.ndarray | csr_array,
        public: np.ndarray,
        fill: Callable[[np.ndarray], np.ndarray],
    ) -> GridRows | SparseGridRows:
        """Quantise what is public of each row, padded to a full row.

        Parameters
        ----------
        known : ndarray or csr_array of shape (n_rows, n_known)
            The public columns, and perhaps more that is public after them. CSR rows
            hold nothing more, and are padded with zeros.
        public : bool ndarray of shape (n_features,)
        fill : callable
            Returns the private entries of scaled rows, given scaled known columns.
        """
        if issparse(known):
            columns = np.flatnonzero(public)[known.indices]
            shape = known.shape[0], len(public)
            wide = csr_array((known.data, columns, known.indptr), shape=shape)
            return self._grid(wide, self.row_map.mapped)
        width = int(public.sum())
        scaled = self.row_map.of_public(public)

        def padded(block: np.ndarray) -> np.ndarray:
            head = scaled.scale(block[:, :width])
            rows = np.zeros((len(block), len(public)))
            rows[:, public] = head
            rows[:, ~public] = fill(np.hstack([head, block[:, width:]]))
            return self.row_map.shorten(rows)

        return self._grid(known, padded, n_features=len(public))

    def fold(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (coef, intercept) on ``row_map(X)``."""
        weights = self._weights(theta)
        coef, offset = self.row_map.coefficients(weights)
        intercept = offset - weights @ self.mean
        if self.bias is not None:
            intercept = intercept + self.bias * theta[:, -1]
        return coef, intercept

    def pull(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the gradient in theta, given gradients in coef and intercept."""
        # fold is linear: pull is its adjoint.
        weights = self.row_map.pull(coef, intercept)
        weights = (weights - np.outer(intercept, self.mean)) * self.scale
        if self.bias is None:
            return weights
        return np.column_stack([weights, self.bias * intercept])

    def penalty_curvature(self, strength: float) -> np.ndarray:
        """Return D such that ``strength / 2 * |w|**2`` is ``sum of D theta**2 / 2``.

        w are the weights of the bounded columns: where there are no bounds, `coef_`.
        Each is one entry of theta times a factor, whatever was subtracted of the rows,
        so that the penalty is diagonal here; the intercept is free.

        Parameters
        ----------
        strength : float
            Per record.

        Returns
        -------
        curvature : float64 ndarray of shape (n_columns,)
            Of each column of the loop's rows.
        """
        n_features = len(self.mean)
        out = np.zeros(n_features + (self.bias is not None))
        with np.errstate(all="ignore"):  # a scale may be released: no warning of it
            factor = (self.scale / self.row_map.divisor) ** 2
            out[:n_features] = np.minimum(strength * factor, _STEEPEST)
        return np.nan_to_num(out)

    def _weights(self, theta: np.ndarray) -> np.ndarray:
        return theta[:, : len(self.mean)] * self.scale


def _as_they_are(rows: np.ndarray) -> np.ndarray:
    return rows


def _factors(scale: float | np.ndarray) -> tuple[float | np.ndarray, float]:
    """Return what multiplies the rows before they become integers, and after."""
    if np.ndim(scale) == 0:
        return 1.0, float(scale)
    after = float(np.max(scale))
    if np.min(scale) < after / _MOST_APART:
        after = 1.0  # or the small ones would fall between the integers
    return scale / after, after


def _is_far(mean: np.ndarray, before: float | np.ndarray) -> bool:
    """Whether a mean of columns of their own scale has no room on the grid."""
    return np.ndim(before) > 0 and bool((np.abs(mean * before) > 1).any())
