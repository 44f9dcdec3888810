"""Sums of rows: means, cross moments, and the statistics of labels and targets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.privacy.relations import Relation
from skfdp.queries import OfGridRows, chosen, no_rows, sum_unit
from skfdp.records.blocks import blocks, row_blocks
from skfdp.records.grid import GRID, GridRows
from skfdp.records.row_map import RowMap
from skfdp.records.units import FULL_WEIGHT

# Rows have norm at most 1 up to rounding; this margin covers the rounding.
_SHRINK = 1 - 1e-9


@dataclasses.dataclass(frozen=True)
class RowSum:
    """The sum of the mapped rows.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    row_map : RowMap
        Gives rows whose private columns have a norm of at most 1.
    capacity : int
        Public bound on the number of rows, for the grid.
    nonnegative : bool, default=False
        Whether private entries below 0 are cut off here; a public fact, to be taken
        from declared bounds and never from the data.

    Notes
    -----
    Public columns are left out; their sum is exact and free. For a number that is not
    finite stands that of `RowMap.filled`.

    **Guarantees.** Every contribution has a norm of at most 1: the row map bounds it,
    truncation toward zero cannot lengthen it. Hence the sum moves by at most 1 when
    a row is nulled or removed, and by at most 2 when it is replaced: by at most sqrt(2)
    if no entry can be negative, because two such rows meet at an angle of at most 90
    degrees.
    """

    X: np.ndarray | csr_array
    row_map: RowMap
    capacity: int
    nonnegative: bool = False
    clip_norm: float = 1.0

    def __post_init__(self):
        _check_bounds_rows(self.row_map)

    @classmethod
    def planned(cls, *, nonnegative: bool = False) -> RowSum:
        """Return the sum of no rows, for plans that need its bounds."""
        return cls(np.empty((0, 0)), RowMap(), 0, nonnegative)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum: one entry for each private column."""
        public = self.row_map.public
        return (self.X.shape[1] if public is None else int((~public).sum()),)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        replaced = math.sqrt(2) * self.clip_norm if self.nonnegative else None
        return relation.moves(self.clip_norm, replaced)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        return sum_unit(noise_std, self.clip_norm, self.capacity, 2.0**-30)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum of the rows of the batch, in `unit`."""
        total = np.zeros(self.shape, dtype=np.int64)
        public, row_map = self.row_map.public, self.row_map
        if public is not None:
            row_map = row_map.part(~public)
        for index in _row_numbers(self.X, batch):
            rows = self.X[index] if public is None else self.X[index][:, ~public]
            rows = row_map.mapped(row_map.filled(rows)[0])
            total += _column_sums(rows, _SHRINK / unit, self.nonnegative)
        return total


def _row_numbers(
    X: np.ndarray | csr_array, batch: np.ndarray | None
) -> Iterator[slice | np.ndarray]:
    """Yield the rows of a batch in blocks, so that no copy of the table is made."""
    for block in row_blocks(X):
        # A batch holds no row twice, hence is no longer than the table.
        index = block if batch is None else batch[block]
        if batch is None or len(index):
            yield index


def _check_bounds_rows(row_map: RowMap) -> None:
    """Refuse a map that gives rows of any length: nothing would bound the sum."""
    if not (row_map.shortens or row_map.normalize) or math.isinf(row_map.feature_bound):
        raise ValueError("the row map of a sum has to cut rows to norm 1.")


def _column_sums(
    rows: np.ndarray | csr_array, factor: float, nonnegative: bool
) -> np.ndarray:
    """Return the int64 sums of the columns of a block, each entry truncated."""
    least = 0.0 if nonnegative else -math.inf
    if not issparse(rows):
        return np.maximum(np.trunc(rows * factor), least).astype(np.int64).sum(axis=0)
    # In float64, below 2**53: a block has at most 4096 rows, and an
    # entry at most 2**30 units.
    entries = np.maximum(np.trunc(rows.data * factor), least)
    return np.bincount(rows.indices, entries, rows.shape[1]).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class CrossSum:
    """Cross moments of public regressors and mapped private rows, and what norms lack.

    The sum of ``(z (x) p, 1 - |p|**2)``, flattened, over the records, z being the
    public and p the private row of a record.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_private)
        Private columns.
    row_map : RowMap
        Of these columns; gives rows of norm at most 1.
    regressors : int16 ndarray of shape (n_rows, n_regressors)
        Public rows in units of GRID, of norm at most 1.
    nonnegative : bool
        Whether private entries below 0 are cut off here; a public fact, to be taken
        from declared bounds and never from the data.

    Notes
    -----
    **Guarantees.** In exact integers, with ``a = |p|**2 <= 1``:

    * a contribution has a squared norm of at most ``a + (1 - a)**2 <= 1``, so the sum
      moves by at most 1 when the private row is nulled;
    * when it is replaced, the sum moves by at most 2, and by at most sqrt(2) if no
      private entry can be negative. The last entry is free in all three cases;
      :ref:`conditional-centring` has the proof.

    The integer private row is the truncation of the mapped one, toward zero: it is not
    longer, and with `nonnegative` no entry of it is negative. For a number that is not
    finite stands that of `RowMap.filled`.
    """

    X: np.ndarray
    row_map: RowMap
    regressors: np.ndarray
    nonnegative: bool
    clip_norm: float = 1.0

    def __post_init__(self):
        _check_bounds_rows(self.row_map)

    @classmethod
    def planned(cls, *, nonnegative: bool) -> CrossSum:
        """Return the sum of no records, for plans that need its bounds."""
        none = np.empty((0, 0))
        return cls(none, RowMap(), none.astype(np.int16), nonnegative)

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.X)

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum."""
        return (self.regressors.shape[1] * self.X.shape[1] + 1,)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        replaced = math.sqrt(2) * self.clip_norm if self.nonnegative else None
        return relation.moves(self.clip_norm, replaced)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum; private rows have the grid unit / GRID."""
        # A grid of 1 is the coarsest on which 1 - |p|**2 is an integer.
        room = FULL_WEIGHT * self.n_rows
        return min(GRID, sum_unit(noise_std, self.clip_norm, room, GRID**2))

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every row."""
        grid = unit / GRID
        total = np.zeros(self.shape, dtype=np.int64)
        for index in _row_numbers(self.X, batch):
            # Integers below 2**53: exact in float64, whatever the order of the sum.
            rows = self.row_map.filled(self.X[index])[0]
            rows = np.trunc(self.row_map.mapped(rows) * (_SHRINK / grid))
            if self.nonnegative:
                rows = np.maximum(rows, 0.0)
            cross = self.regressors[index].T.astype(np.float64) @ rows
            total[:-1] += cross.ravel().astype(np.int64)
            lacking = 1 / grid**2 - np.einsum("ij,ij->i", rows, rows)
            total[-1] += int(lacking.sum() * (grid / GRID))
        return total


@dataclasses.dataclass(frozen=True)
class LabelSum(OfGridRows):
    """The label statistic ``sum of row (x) (label - centre)`` of public rows.

    Parameters
    ----------
    rows : GridRows
        Public, weighted, bias column included.
    target : int64 ndarray of shape (n_rows,)
        Private class of each record.
    n_outputs : int
        1 for two classes (labels -1/2 and 1/2), else one per class (one-hot).
    row_bound : float
        Public bound R of the norms of the rows.

    Notes
    -----
    **Guarantees.** For one-hot labels a contribution has norm at most R, and replacing
    a label moves the sum by exactly ``sqrt(2) |row| <= sqrt(2) R``. For two classes
    the norm is at most R / 2 and the sum moves by at most R. All in exact integers:
    the rows are those on the grid, and no clip is needed because they are public.
    """

    rows: GridRows
    target: np.ndarray
    n_outputs: int
    row_bound: float

    @classmethod
    def planned(cls, n_outputs: int, row_bound: float) -> LabelSum:
        """Return the sum of no records, for plans that need its bounds."""
        return cls(no_rows(), np.empty(0, np.int64), n_outputs, row_bound)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sum."""
        return self.n_outputs, self.rows.values.shape[1]

    @property
    def clip_norm(self) -> float:
        """L2 bound of a contribution."""
        return self.row_bound / (2 if self.n_outputs == 1 else 1)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        replaced = None if self.n_outputs == 1 else self.clip_norm * math.sqrt(2)
        return relation.moves(self.clip_norm, replaced)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum: that of the rows, halved for labels 1/2."""
        return GRID / (2 if self.n_outputs == 1 else 1)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every row."""
        values, target = chosen(batch, self.rows.values, self.target)
        total = np.zeros(self.shape, dtype=np.int64)
        for block in blocks(*values.shape):
            # Integers below 2**53: exact in float64, whatever the order of the sum.
            rows = values[block].astype(np.float64)
            if self.n_outputs == 1:
                labels = np.where(target[block] == 1, 1.0, -1.0)[:, None]
            else:
                labels = np.eye(self.n_outputs)[target[block]]
            total += (labels.T @ rows).astype(np.int64)
        return total


@dataclasses.dataclass(frozen=True)
class TargetSum(OfGridRows):
    """The target statistic ``sum of x * y`` of public rows.

    Parameters
    ----------
    rows : GridRows
        Public, of norm at most 1, bias column included.
    target : float64 ndarray of shape (n_rows,)
        Private, cut to [-1, 1]: over half the width of its bounds, from their middle.
    capacity : int, default=None
        Public bound on the number of rows and of counts, for the grid; None: that of
        these rows.

    Notes
    -----
    **Guarantees.** A contribution has norm at most 1, and a replaced target moves the
    sum by at most 2, in exact integers: the target is truncated toward zero to a grid
    that divides 1; NaN counts as 0.
    """

    rows: GridRows
    target: np.ndarray
    capacity: int | None = None
    clip_norm: float = 1.0

    @classmethod
    def planned(cls) -> TargetSum:
        """Return the sum of no records, for plans that need its bounds."""
        return cls(no_rows(), np.empty(0))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sum."""
        return 1, self.rows.values.shape[1]

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        return relation.moves(self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum: of the rows, times that of the target."""
        room = FULL_WEIGHT * self.n_rows if self.capacity is None else self.capacity
        return sum_unit(noise_std, self.clip_norm, room, GRID**2)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every row."""
        values, target = chosen(batch, self.rows.values, self.target)
        total = np.zeros(self.shape, dtype=np.int64)
        for block in blocks(*values.shape):
            # 4096 products of 15 + 15 bits stay below 2**53: exact in float64.
            cut = np.clip(np.nan_to_num(target[block]), -1.0, 1.0)
            integers = np.trunc(cut * (GRID / unit))
            total += (integers[None] @ values[block].astype(np.float64)).astype(int)
        return total
