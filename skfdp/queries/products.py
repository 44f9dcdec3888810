"""The two products of a linear step over blocks of rows, dense or CSR, exact.

`margins` are rows times weights, `add` collects residuals times rows. Every number is
an integer, so that tiles, blocks, threads, BLAS and the format of the rows cannot
change it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from skfdp.queries import linear_kernels, sparse_kernels
from skfdp.rows import GridRows, SparseGridRows

#: From this many outputs on, BLAS on float64 blocks is faster than the tiled kernels
#: (benchmarks/benchmarks/kernels.py compares them).
BLAS_OUTPUTS = 32
#: Entries that residuals (29 bits) times rows (15 bits) cannot exceed.
LARGEST_PRODUCT = 2.0**44
_MANTISSA = 53


def products(rows: GridRows | SparseGridRows, n_outputs: int) -> Products:
    """Return the products of the rows; one object for each thread."""
    if isinstance(rows, SparseGridRows):
        return SparseProducts(rows, n_outputs)
    kind = DenseProducts if n_outputs < BLAS_OUTPUTS else BlasProducts
    return kind(rows, n_outputs)


class Products:
    """Margins and sums of one step, and the memory that they need.

    Parameters
    ----------
    rows : GridRows or SparseGridRows
    n_outputs : int
    """

    def __init__(self, rows, n_outputs: int):
        self.rows = rows
        self._factor = 0.0

    def start(self, theta: np.ndarray, largest: float = LARGEST_PRODUCT) -> None:
        """Take the weights of a step, and set the sum to zero.

        theta is rounded to integers, as many bits as keep the inner products below
        2**53. The margins are then exact, and the same wherever a row stands.

        Parameters
        ----------
        theta : float64 ndarray of shape (n_outputs, n_columns)
        largest : float
            Bound on the entries of a residual times its row.
        """
        bits = _MANTISSA - 15 - math.ceil(math.log2(max(2, theta.shape[1])))
        largest_weight = np.abs(theta).max(initial=0.0)
        exponent = min(bits - int(np.frexp(largest_weight)[1]), 1000)
        self._factor = np.ldexp(self.rows.unit, -exponent)
        self._start(theta, 2.0**exponent, largest)

    def margins(self, part: np.ndarray, out: np.ndarray) -> None:
        """Write the margins of some rows; out is float64 (len(part), n_outputs)."""
        self._margins(part, out)
        out *= self._factor


class DenseProducts(Products):
    """Products of `GridRows` by tiled kernels.

    Sums run in float64 for as many rows as stay below 2**53, and in int64 beyond.
    """

    def __init__(self, rows: GridRows, n_outputs: int):
        super().__init__(rows, n_outputs)
        shape = n_outputs, rows.n_columns
        self._partial, self._total = np.empty(shape), np.empty(shape, dtype=np.int64)

    def _start(self, theta: np.ndarray, factor: float, largest: float) -> None:
        self._theta = theta * factor
        np.rint(self._theta, out=self._theta)
        self._most = int(2.0**_MANTISSA / max(1.0, min(largest, LARGEST_PRODUCT)))
        self._room = self._most
        self._partial[:] = 0.0
        self._total[:] = 0

    def _margins(self, part: np.ndarray, out: np.ndarray) -> None:
        linear_kernels.margins(self.rows.values, part, self._theta, out)

    def add(self, part: np.ndarray, residual: np.ndarray) -> None:
        """Add residuals, integers below 2**29 in float64, times rows."""
        if len(part) > self._most:
            half = len(part) // 2
            self.add(part[:half], residual[:half])
            self.add(part[half:], residual[half:])
            return
        if len(part) > self._room:
            self._flush()
        self._room -= len(part)
        self._add(part, residual)

    def _add(self, part: np.ndarray, residual: np.ndarray) -> None:
        linear_kernels.add_outer_products(
            self.rows.values, part, residual, self._partial
        )

    def _flush(self) -> None:
        linear_kernels.move_integers(self._partial, self._total)
        self._room = self._most

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        self._flush()
        return self._total.copy()

    def pull(self, part: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return float residuals times rows, for what is public."""
        return residual.T @ (self.rows.values[part] * self.rows.unit)


class BlasProducts(DenseProducts):
    """Products of `GridRows` by BLAS, a block of rows being held in float64."""

    def __init__(self, rows: GridRows, n_outputs: int):
        super().__init__(rows, n_outputs)
        self._held = self._block = np.empty((0, rows.n_columns))
        self._product = np.empty((n_outputs, rows.n_columns))

    def _load(self, part: np.ndarray) -> np.ndarray:
        if self._held is not part:
            if len(self._block) < len(part):
                self._block = np.empty((len(part), self.rows.n_columns))
            linear_kernels.gather(self.rows.values, part, self._block)
            self._held = part
        return self._block[: len(part)]

    def _start(self, theta: np.ndarray, factor: float, largest: float) -> None:
        super()._start(theta, factor, largest)
        self._held = None  # the row numbers may be overwritten between steps

    def _margins(self, part: np.ndarray, out: np.ndarray) -> None:
        np.matmul(self._load(part), self._theta.T, out=out)

    def _add(self, part: np.ndarray, residual: np.ndarray) -> None:
        np.matmul(residual.T, self._load(part), out=self._product)
        self._partial += self._product


class SparseProducts(Products):
    """Products of `SparseGridRows`; the dense shift enters once a step, not a row."""

    def __init__(self, rows: SparseGridRows, n_outputs: int):
        super().__init__(rows, n_outputs)
        self._csr = rows.data, rows.indices, rows.indptr
        self._sum = np.empty((rows.n_columns, n_outputs), dtype=np.int64)
        self._residuals = np.empty(n_outputs, dtype=np.int64)
        self._theta = np.empty((rows.n_columns, n_outputs))

    def _start(self, theta: np.ndarray, factor: float, largest: float) -> None:
        sparse_kernels.transposed_integers(theta, factor, self._theta)
        self._shifted = self.rows.shift.astype(np.float64) @ self._theta
        self._sum[:] = 0
        self._residuals[:] = 0

    def _margins(self, part: np.ndarray, out: np.ndarray) -> None:
        sparse_kernels.margins(*self._csr, part, self._theta, self._shifted, out)

    def add(self, part: np.ndarray, residual: np.ndarray) -> None:
        """Add residuals, integers below 2**29 in float64, times rows."""
        sparse_kernels.add_outer_products(
            *self._csr, part, residual, self._sum, self._residuals
        )

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        out = np.empty(self._sum.shape[::-1], dtype=np.int64)
        shift = self.rows.shift
        sparse_kernels.shifted_sum(self._sum, shift, self._residuals, out)
        return out

    def pull(self, part: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return float residuals times rows, for what is public."""
        x = csr_array(self._csr, shape=(self.rows.n_rows, self.rows.n_columns))[part]
        moved = np.outer(residual.sum(axis=0), self.rows.shift)
        return ((x.T @ residual).T - moved) * self.rows.unit


def inner_products(
    rows: GridRows | SparseGridRows, other: GridRows | SparseGridRows
) -> np.ndarray:
    """Return the inner product of each row with that of another matrix, exact."""
    out = np.empty(rows.n_rows)
    if isinstance(rows, SparseGridRows):
        first = rows.data, rows.indices, rows.indptr
        second = other.data, other.indices, other.indptr
        sparse_kernels.inner_products(*first, *second, rows.shift, out)
    else:
        linear_kernels.inner_products(rows.values, other.values, out)
    return out
