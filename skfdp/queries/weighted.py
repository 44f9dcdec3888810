"""Sums over rows with public weights, and over persons with several rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from skfdp.data.grid import GridRows, SparseGridRows
from skfdp.data.units import WEIGHT_BITS, Units
from skfdp.privacy.checks import computed
from skfdp.privacy.events import Relation
from skfdp.queries import Query


@dataclasses.dataclass(frozen=True)
class Weighted:
    """The sum of the contributions of another query, weighted by the shares of rows.

    Notes
    -----
    **Guarantees.** With shares s and contributions v, the sum is ``sum s_i v_i``. Let D
    bound the change of the inner query's sum if any one row changes. If the private
    parts of all rows of one person change, the weighted sum changes by at most ``sum
    s_i D`` over these rows, because the rows can be changed one after the other, and
    their shares are public. This is at most ``units.reach * D``, where ``units.reach``
    is the largest total share of a person. For the same reason a person contributes at
    most ``units.reach`` times the clip norm of the inner query. The bounds for a null
    record hold for a person whose rows are all null (:ref:`persons-and-weights`).

    The sum is exact. For each bit of the integer weights, the inner query sums the rows
    whose weight has this bit. The sum is multiplied by the value of the bit.
    """

    #: Query over rows, the inner query; its capacity allows for `FULL_WEIGHT` times as
    #: many rows.
    query: Query
    #: The public weight ("share") of each row, and the person of each row.
    units: Units
    n_rows: int = computed()
    shape: tuple[int, ...] = computed()
    clip_norm: float = computed()  # of the contribution of one person

    def __post_init__(self):
        vars(self).update(
            n_rows=self.query.n_rows,
            shape=self.query.shape,
            clip_norm=self.units.reach * self.query.clip_norm,
        )

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum; see the guarantees."""
        return self.units.reach * self.query.sensitivity(relation)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum, `units.step` times a power of two."""
        step = self.units.step
        return self.query.unit(noise_std / step) * step

    def exact_sum(self, theta, batch, unit: float) -> np.ndarray:
        """Return the int64 sum over the batch, in `unit`; None means every row."""
        inner = unit / self.units.step  # exact, because the result is a power of two
        rows = np.arange(self.n_rows) if batch is None else batch
        weights = self.units.weights[rows]
        total = np.zeros(self.shape, dtype=np.int64)
        for bit in range(WEIGHT_BITS + 1):
            chosen = rows[(weights >> bit) & 1 == 1]
            if len(chosen):
                total += self.query.exact_sum(theta, chosen, inner) << bit
        return total


def weighted(query: Query, units: Units | None) -> Query:
    """Return the query over weighted rows and persons; units=None changes nothing."""
    if units is None:
        return query
    own = getattr(query, "of_units", None)
    return Weighted(query, units) if own is None else own(units)


#: Bits of an entry of a contribution. The float64 sum of `AT_ONCE` entries is exact.
ENTRY_BITS = 36
AT_ONCE = 2 ** (53 - ENTRY_BITS)


class DensePersons:
    """Sums over the persons of `GridRows`, exact in float64 for `AT_ONCE` persons."""

    def __init__(self, rows: GridRows, n_outputs: int):
        shape = n_outputs, rows.n_columns
        self._table, self._total = rows.table, np.zeros(shape, dtype=np.int64)
        self._memory = np.empty((2, *shape))  # of one person, and of some persons

    def start(self) -> None:
        """Set the sum to zero."""
        self._total[:] = 0

    def add(self, part, ends, residuals, clip) -> None:
        """Add the contributions of some persons; see `kernels.persons.add_dense`.

        Entries of a contribution must be below ``2**ENTRY_BITS``.
        """
        from skfdp.kernels import persons  # numba loads with the first fit

        for first in range(0, len(ends) - 1, AT_ONCE):
            some, memory = ends[first : first + AT_ONCE + 1], self._memory
            memory[1] = 0.0
            persons.add_dense(self._table, part, some, residuals, clip, *memory)
            self._total += memory[1].astype(np.int64)

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        return self._total.copy()


class SparsePersons(DensePersons):
    """Sums over the persons of `SparseGridRows`.

    In columns without a shift, only stored entries are read.
    """

    def __init__(self, rows: SparseGridRows, n_outputs: int):
        self._csr, self._shift = (rows.data, rows.indices, rows.indptr), rows.shift
        shape, shifted = (rows.n_columns, n_outputs), rows.shift != 0
        sums, self._total = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        # Columns with a shift come first. After them the kernel writes other columns,
        # so the values there do not matter.
        columns = np.argsort(~shifted, kind="stable")
        self._memory = sums, columns, shifted, int(shifted.sum())

    def add(self, part, ends, residuals, clip) -> None:
        """Add the contributions of some persons; see `kernels.persons.add_sparse`."""
        rows = self._csr, self._shift, part, ends
        from skfdp.kernels import persons

        persons.add_sparse(*rows, residuals, clip, self._memory, self._total)

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        return self._total.T.copy()


def person_blocks(
    rows: np.ndarray, ends: np.ndarray, start: int, stop: int, size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of persons ``start`` to ``stop - 1`` in blocks of whole persons.

    Person i has the row numbers ``rows[ends[i]:ends[i + 1]]``. Each block has its own
    `rows` and `ends`, and at most `size` rows, unless it is a single person.
    """
    while start < stop:
        last = int(np.searchsorted(ends, ends[start] + size, side="right")) - 1
        last = min(max(last, start + 1), stop)
        yield rows[ends[start] : ends[last]], ends[start : last + 1] - ends[start]
        start = last
