"""The integer grid: rows as int16, so that every sum over rows is an exact integer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.records.blocks import _with_data, blocks, row_blocks, row_of_entries

#: One grid unit of a row entry. Entries saturate at +-(2 - 2**-14).
GRID = 2.0**-14
_LARGEST = 2**15 - 1


def on_grid(value: float | np.ndarray) -> float | np.ndarray:
    """Return the value as the grid holds it."""
    return np.clip(np.rint(value / GRID), -_LARGEST, _LARGEST) * GRID


def times_columns(
    rows: np.ndarray | csr_array, factor: np.ndarray
) -> np.ndarray | csr_array:
    """Multiply each column by its factor; CSR rows keep their pattern."""
    with np.errstate(all="ignore"):  # a warning would tell of a private value
        if not issparse(rows):
            return rows * factor
        return _with_data(rows, rows.data * factor[rows.indices])


@dataclasses.dataclass(frozen=True)
class GridRows:
    """Rows as integers: ``values * unit`` are the rows that the kernels see.

    Attributes
    ----------
    values : int16 ndarray of shape (n_rows, n_columns)
        Quantised row minus quantised centre.
    squared_norms : float64 ndarray of shape (n_rows,)
        Exact integers, in squared grid units.
    scale : float
        Public factor of every entry.
    """

    values: np.ndarray
    squared_norms: np.ndarray
    scale: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.values.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns, the constant one included."""
        return self.values.shape[1]

    @property
    def stored_per_row(self) -> int:
        """Entries that a product reads of a row, at least 1."""
        return self.n_columns

    @property
    def unit(self) -> float:
        """What one integer stands for."""
        return GRID * self.scale

    @classmethod
    def build(
        cls,
        X: np.ndarray,
        transform: Callable[[np.ndarray], np.ndarray],
        *,
        bias: float | None = None,
        n_features: int | None = None,
        centre: np.ndarray | None = None,
        scale: float = 1.0,
    ) -> GridRows | SparseGridRows:
        """Map, quantise and centre the rows of X, block by block.

        An entry is truncated toward zero, then the rounded centre is subtracted. Both
        are integers, so it does not matter whether the difference is stored (dense) or
        never formed (CSR). Entries saturate where the difference would leave int16.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_rows, n_features), any numeric dtype
            CSR in canonical form.
        transform : callable
            Acts on each row by itself; float64 rows. It keeps the pattern of CSR rows.
        bias : float, default=None
            Value of a constant last column, after `scale`; None adds none.
        n_features : int, default=None
            Columns that `transform` returns; None means those of X.
        centre : ndarray of shape (n_features,), default=None
            Public or released; subtracted from the transformed rows. None: zero.
        scale : float
            Factor of the centred rows.

        Returns
        -------
        rows : GridRows, or SparseGridRows for CSR input
        """
        n_rows = X.shape[0]
        n_features = X.shape[1] if n_features is None else n_features
        low, high, centre = _limits(centre, n_features)
        constant = [] if bias is None else [round(bias / (GRID * scale))]
        if issparse(X):
            shift = np.append(centre, np.negative(constant)).astype(np.int64)
            return SparseGridRows.quantised(X, transform, low, high, shift, scale)
        values = np.empty((n_rows, n_features + len(constant)), dtype=np.int16)
        squared_norms = np.empty(n_rows)
        for block in blocks(n_rows, n_features):
            entries = np.trunc(transform(X[block]) / GRID)
            np.clip(entries, low, high, out=entries)
            values[block, :n_features] = np.subtract(entries, centre, out=entries)
            values[block, n_features:] = constant
            # Integers below 2**53: exact in float64, whatever the order of the sum.
            integers = values[block].astype(np.float64)
            squared_norms[block] = np.einsum("ij,ij->i", integers, integers)
        return cls(values, squared_norms, scale)


@dataclasses.dataclass(frozen=True)
class SparseGridRows:
    """CSR rows as integers minus a dense vector: ``(x - shift) * unit``.

    The difference is never formed. It equals the row that `GridRows` would store, in
    exact integers.

    Attributes
    ----------
    data : int16 ndarray of shape (n_stored,)
    indices : int32 ndarray of shape (n_stored,)
    indptr : int64 ndarray of shape (n_rows + 1,)
    shift : int64 ndarray of shape (n_columns,)
        The quantised centre; its last entry is minus the constant column, if any.
    squared_norms : float64 ndarray of shape (n_rows,)
        Of x - shift: exact integers, in squared grid units.
    scale : float
        Public factor of every entry.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shift: np.ndarray
    squared_norms: np.ndarray
    scale: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_columns(self) -> int:
        """Number of columns, the constant one included."""
        return len(self.shift)

    @property
    def stored_per_row(self) -> int:
        """Entries that a product reads of a row on average, at least 1."""
        return max(1, len(self.data) // max(1, self.n_rows))

    @property
    def unit(self) -> float:
        """What one integer stands for."""
        return GRID * self.scale

    @classmethod
    def quantised(cls, X, transform, low, high, shift, scale) -> SparseGridRows:
        """Map and quantise CSR rows; see `GridRows.build`."""
        data = np.empty(X.nnz, dtype=np.int16)
        squared_norms = np.empty(X.shape[0])
        far = float(shift @ shift)
        for block in row_blocks(X):
            rows = transform(X[block])
            entries = np.trunc(rows.data / GRID)
            np.clip(entries, low[rows.indices], high[rows.indices], out=entries)
            data[X.indptr[block.start] : X.indptr[block.stop]] = entries
            # |x|**2 - 2 x.shift + |shift|**2; every term an integer below 2**53.
            terms = entries * (entries - 2 * shift[rows.indices])
            n_rows = block.stop - block.start
            products = np.bincount(row_of_entries(rows), terms, minlength=n_rows)
            squared_norms[block] = products + far
        indptr = X.indptr.astype(np.int64)
        indices = X.indices.astype(np.int32, copy=False)
        return cls(data, indices, indptr, shift, squared_norms, scale)


def _limits(
    centre: np.ndarray | None, n_features: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (low, high) of an entry, and the centre, in grid units.

    Zero lies within, and the difference of an entry and the centre fits into int16.
    """
    if centre is None:
        centre = np.zeros(n_features)
    # NaN as an integer would be -2**63, and sums would wrap.
    centre = np.nan_to_num(np.rint(centre / GRID))
    centre = np.clip(centre, -_LARGEST, _LARGEST)
    low = np.maximum(-_LARGEST, centre - _LARGEST)
    return low, np.minimum(_LARGEST, centre + _LARGEST), centre
