"""The integer grid: rows as int16, so that every sum over rows is an exact integer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.records.blocks import _with_data, blocks, row_blocks, row_of_entries
from skfdp.records.files import Reader, RowFile, working_memory
from skfdp.records.large import is_on_disk

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
        Quantised row minus quantised centre; in memory, or mapped from a file.
    squared_norms : float64 ndarray of shape (n_rows,)
        Exact integers, in squared grid units.
    scale : float
        Public factor of every entry.
    reader : Reader or None
        Of rows in a file.
    """

    values: np.ndarray
    squared_norms: np.ndarray
    scale: float = 1.0
    reader: Reader | None = dataclasses.field(default=None, repr=False)

    def __getitem__(self, rows: slice) -> GridRows:
        """Return some of the rows; what they hold is not copied."""
        return GridRows(self.values[rows], self.squared_norms[rows], self.scale)

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

    def stretches(
        self, batch: np.ndarray | None, start: int, stop: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the ends of the parts in which ``batch[start:stop]`` is best read.

        `batch` None means every row. Rows in memory are one part.
        """
        if self.reader is None:
            return iter([(start, stop)])
        return self.reader.stretches(batch, start, stop)

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

        The rows of a table in a file go into a file without a name if they are larger
        than the working memory, and are read from there.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_rows, n_features), any numeric dtype
            CSR in canonical form; or what gives blocks of rows as an array does.
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
        rows, squared_norms = (
            _Rows.start(X, n_features + len(constant)),
            np.empty(n_rows),
        )
        for block in blocks(n_rows, n_features):
            entries = np.trunc(transform(X[block]) / GRID)
            np.clip(entries, low, high, out=entries)
            part = rows.part(block)
            part[:, :n_features] = np.subtract(entries, centre, out=entries)
            part[:, n_features:] = constant
            # Integers below 2**53: exact in float64, whatever the order of the sum.
            integers = part.astype(np.float64)
            squared_norms[block] = np.einsum("ij,ij->i", integers, integers)
            rows.keep(part)
        values, reader = rows.all()
        return cls(values, squared_norms, scale, reader)


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Int16 rows that are being made, in memory or in a file.

    Attributes
    ----------
    values : int16 ndarray of shape (n_rows, n_columns) or None
    file : RowFile or None
    n_columns : int
    """

    values: np.ndarray | None
    file: RowFile | None
    n_columns: int

    @classmethod
    def start(cls, X: Any, n_columns: int) -> _Rows:
        """Begin the rows that are made of X."""
        shape = X.shape[0], n_columns
        if is_on_disk(X) and 2 * math.prod(shape) > working_memory():
            return cls(None, RowFile(n_columns), n_columns)
        return cls(np.empty(shape, dtype=np.int16), None, n_columns)

    def part(self, block: slice) -> np.ndarray:
        """Return where some rows are to be written."""
        if self.file is None:
            return self.values[block]
        return np.empty((block.stop - block.start, self.n_columns), dtype=np.int16)

    def keep(self, part: np.ndarray) -> None:
        """Take rows that were written, the next ones after the last."""
        if self.file is not None:
            self.file.write(part)

    def all(self) -> tuple[np.ndarray, Reader | None]:
        """Return all rows, and what reads them in advance."""
        return (self.values, None) if self.file is None else self.file.read()


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

    def stretches(
        self, batch: np.ndarray | None, start: int, stop: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the ends of the one part in which rows are read; see `GridRows`."""
        return iter([(start, stop)])

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
