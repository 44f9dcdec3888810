"""Sums of the clipped contributions of persons, over blocks that part nobody."""

from __future__ import annotations

import numpy as np

from skfdp.kernels import persons
from skfdp.records.grid import GridRows, SparseGridRows

#: Bits of an entry of a contribution: `MOST` of them are exact in float64.
ENTRY_BITS = 36
MOST = 2 ** (53 - ENTRY_BITS)


def person_sums(
    rows: GridRows | SparseGridRows, n_outputs: int
) -> DensePersons | SparsePersons:
    """Return the sums of the contributions of persons; one object for each thread."""
    if isinstance(rows, SparseGridRows):
        return SparsePersons(rows, n_outputs)
    return DensePersons(rows, n_outputs)


class DensePersons:
    """Sums of `GridRows`, in float64 for as many persons as stay below 2**53.

    Parameters
    ----------
    rows : GridRows
    n_outputs : int
    """

    def __init__(self, rows: GridRows, n_outputs: int):
        shape = n_outputs, rows.n_columns
        self._table = rows.table
        self._of_person, self._partial = np.empty(shape), np.zeros(shape)
        self._total, self._room = np.zeros(shape, dtype=np.int64), MOST

    def start(self) -> None:
        """Set the sum to zero."""
        self._flush()
        self._total[:] = 0

    def add(self, part, ends, residuals, clip) -> None:
        """Add the contributions of some persons; see `persons.add_dense`.

        Entries of a contribution are below ``2**ENTRY_BITS``.
        """
        for first in range(0, len(ends) - 1, MOST):
            some = ends[first : first + MOST + 1]
            if len(some) - 1 > self._room:
                self._flush()
            self._room -= len(some) - 1
            memory = self._of_person, self._partial
            persons.add_dense(self._table, part, some, residuals, clip, *memory)

    def _flush(self) -> None:
        self._total += self._partial.astype(np.int64)
        self._partial[:], self._room = 0.0, MOST

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        self._flush()
        return self._total.copy()


class SparsePersons:
    """Sums of `SparseGridRows`; columns without a shift cost what is stored of them."""

    def __init__(self, rows: SparseGridRows, n_outputs: int):
        self._csr, self._shift = (rows.data, rows.indices, rows.indptr), rows.shift
        shape, shifted = (rows.n_columns, n_outputs), rows.shift != 0
        sums, self._total = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        # Those with a shift first; the others are written over.
        columns = np.argsort(~shifted, kind="stable")
        self._memory = sums, columns, shifted, int(shifted.sum())

    def start(self) -> None:
        """Set the sum to zero."""
        self._total[:] = 0

    def add(self, part, ends, residuals, clip) -> None:
        """Add the contributions of some persons; see `persons.add_sparse`."""
        rows = self._csr, self._shift, part, ends
        persons.add_sparse(*rows, residuals, clip, self._memory, self._total)

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        return self._total.T.copy()
