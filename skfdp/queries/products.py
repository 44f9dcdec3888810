"""The two products of a linear step over blocks of rows, dense or CSR, exact.

``margins`` are rows times weights, `add` collects residuals times rows. Every number is
an integer, so that tiles, blocks, threads and the format of the rows cannot change it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from skfdp.queries import linear_kernels, sparse_kernels
from skfdp.rows import GridRows, SparseGridRows

# Residuals have at most 29 bits and entries 15: this many products stay below 2**53.
EXACT_ROWS = 512
_MANTISSA = 53


def products(rows: GridRows | SparseGridRows, n_outputs: int) -> Products:
    """Return the products of the rows; one object for each thread."""
    kind = SparseProducts if isinstance(rows, SparseGridRows) else DenseProducts
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
        self._exponent = 0

    def start(self, theta: np.ndarray) -> None:
        """Take the weights of a step, and set the sum to zero.

        theta is rounded to integers, as many bits as keep the inner products below
        2**53. The margins are then exact, and the same wherever a row stands.
        """
        largest = np.abs(theta).max(initial=0.0)
        bits = _MANTISSA - 15 - math.ceil(math.log2(max(2, theta.shape[1])))
        self._exponent = bits - int(np.frexp(largest)[1])
        self._start(np.rint(np.ldexp(theta, self._exponent)))

    def margins(self, part: np.ndarray, out: np.ndarray) -> None:
        """Write the margins of some rows; out is float64 (len(part), n_outputs)."""
        self._margins(part, out)
        np.ldexp(out, -self._exponent, out=out)
        out *= self.rows.unit


class DenseProducts(Products):
    """Products of `GridRows`."""

    def __init__(self, rows: GridRows, n_outputs: int):
        super().__init__(rows, n_outputs)
        shape = n_outputs, rows.n_columns
        self._block, self._total = np.empty(shape), np.empty(shape, dtype=np.int64)

    def _start(self, theta: np.ndarray) -> None:
        self._theta = theta
        self._total[:] = 0

    def _margins(self, part: np.ndarray, out: np.ndarray) -> None:
        linear_kernels.margins(self.rows.values, part, self._theta, out)

    def add(self, part: np.ndarray, residual: np.ndarray) -> None:
        """Add residuals, integers below 2**29 in float64, times rows."""
        for first in range(0, len(part), EXACT_ROWS):
            some = slice(first, first + EXACT_ROWS)
            self._block[:] = 0.0
            linear_kernels.add_outer_products(
                self.rows.values, part[some], residual[some], self._block
            )
            self._total += self._block.astype(np.int64)

    def total(self) -> np.ndarray:
        """Return the int64 sum, shape (n_outputs, n_columns); valid until `start`."""
        return self._total

    def pull(self, part: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return float residuals times rows, for what is public."""
        return residual.T @ (self.rows.values[part] * self.rows.unit)


class SparseProducts(Products):
    """Products of `SparseGridRows`; the dense shift enters once a step, not a row."""

    def __init__(self, rows: SparseGridRows, n_outputs: int):
        super().__init__(rows, n_outputs)
        self._csr = rows.data, rows.indices, rows.indptr
        self._sum = np.empty((rows.n_columns, n_outputs), dtype=np.int64)
        self._residuals = np.empty(n_outputs, dtype=np.int64)

    def _start(self, theta: np.ndarray) -> None:
        self._theta = np.ascontiguousarray(theta.T)
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
        """Return the int64 sum, shape (n_outputs, n_columns); valid until `start`."""
        self._sum -= np.outer(self.rows.shift, self._residuals)
        return self._sum.T

    def pull(self, part: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return float residuals times rows, for what is public."""
        x = csr_array(self._csr, shape=(self.rows.n_rows, self.rows.n_columns))[part]
        moved = np.outer(residual.sum(axis=0), self.rows.shift)
        return ((x.T @ residual).T - moved) * self.rows.unit


def inner_products(
    rows: GridRows | SparseGridRows, other: GridRows | SparseGridRows, part: np.ndarray
) -> np.ndarray:
    """Return the inner products of the rows of two matrices on one grid, exact."""
    out = np.empty(len(part))
    if isinstance(rows, SparseGridRows):
        first = rows.data, rows.indices, rows.indptr
        second = other.data, other.indices, other.indptr
        sparse_kernels.inner_products(*first, *second, rows.shift, part, out)
        return out
    for start in range(0, len(part), EXACT_ROWS):
        some = part[start : start + EXACT_ROWS]
        x = rows.values[some].astype(np.float64)
        z = other.values[some].astype(np.float64)
        out[start : start + EXACT_ROWS] = np.einsum("ij,ij->i", x, z)
    return out
