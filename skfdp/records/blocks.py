"""Passes over rows in blocks of bounded size, and what they share of CSR rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array, issparse

# Blocks of about this many float64 entries bound the memory of every pass.
_BLOCK_ENTRIES = 2**17


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices that cover the rows, a bounded number of entries each."""
    size = max(16, min(4096, _BLOCK_ENTRIES // max(1, n_columns)))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def row_blocks(X: np.ndarray | csr_array) -> Iterator[slice]:
    """Yield slices that cover the rows, a bounded number of stored entries each."""
    width = math.ceil(X.nnz / max(1, X.shape[0])) if issparse(X) else X.shape[1]
    return blocks(X.shape[0], width)


def row_of_entries(X: csr_array) -> np.ndarray:
    """Return the row of each stored entry."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def _with_data(X: csr_array, data: np.ndarray) -> csr_array:
    """Return a CSR array with the pattern of X and other numbers."""
    return csr_array((data, X.indices, X.indptr), shape=X.shape)


def row_products(rows: np.ndarray | csr_array, weights: np.ndarray) -> np.ndarray:
    """Return the product of each row with weights, the same in whatever block."""
    if issparse(rows):
        return rows @ weights
    if len(rows) == 1:
        return row_products(np.vstack([rows, np.zeros_like(rows)]), weights)[:1]
    return np.einsum("ij,j->i", np.ascontiguousarray(rows), weights)


def squared_norms(rows: np.ndarray) -> np.ndarray:
    """Return the squared norm of each row, the same in whatever block it stands."""
    if len(rows) == 1:
        # Alone, a long row would be summed in another order than among others.
        return squared_norms(np.vstack([rows, np.zeros_like(rows)]))[:1]
    rows = np.ascontiguousarray(rows)
    return np.einsum("ij,ij->i", rows, rows)


def unit_of_squares(n_columns: int) -> float:
    """Return the unit of squares of entries below 1 that makes their sums exact."""
    return 2.0 ** (52 - int(n_columns).bit_length())
