"""Statistics of private rows whose class is public: class sums, second moments."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.privacy.relations import Relation
from skfdp.queries import OfGridRows, chosen, no_rows, sum_unit
from skfdp.records.blocks import blocks
from skfdp.records.grid import GRID, GridRows

# Squared norm of a row of norm 1, in squared grid units.
_LIMIT = GRID**-2


@dataclasses.dataclass(frozen=True)
class ClassSum(OfGridRows):
    r"""The sum of the private rows of each class, :math:`S_k = \sum_{y_i = k} p_i`.

    Parameters
    ----------
    rows : GridRows
        Private, of norm at most 1; ``GridRows.build(X, transform)`` makes them from X
        and a map of rows. Longer ones are shortened here.
    target : int64 ndarray of shape (n_rows,)
        Public class of each record.
    n_classes : int
    nonnegative : bool
        Whether entries below 0 are cut off here; a public fact, to be taken from
        declared bounds and never from the data.

    Notes
    -----
    **Guarantees.** A contribution has norm at most 1, in exact integers: the row is
    clipped here, truncation is toward zero. Neighbours share the target, so that a
    replaced record moves its own class's sum alone, by ``|p - p'|``: at most 2, and at
    most sqrt(2) if no entry is negative, because then ``p . p' >= 0``. A nulled record
    moves it by at most 1.
    """

    rows: GridRows
    target: np.ndarray
    n_classes: int
    nonnegative: bool
    clip_norm: float = 1.0

    @classmethod
    def planned(cls, *, nonnegative: bool) -> ClassSum:
        """Return the sums of no records, for plans that need their bounds."""
        return cls(no_rows(), np.empty(0, np.int64), 1, nonnegative)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sums."""
        return self.n_classes, self.rows.values.shape[1]

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sums; see the guarantees."""
        replaced = math.sqrt(2) * self.clip_norm if self.nonnegative else None
        return relation.moves(self.clip_norm, replaced)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sums: that of the rows, or coarser."""
        return sum_unit(noise_std, self.clip_norm, self.n_rows, GRID)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sums over the batch; None means every row."""
        values, target = chosen(batch, self.rows.values, self.target)
        total = np.zeros(self.shape, dtype=np.int64)
        for block in blocks(*values.shape):
            rows = clipped(values[block], unit / GRID)
            if self.nonnegative:
                rows = np.maximum(rows, 0)
            # Integers below 2**53: exact in float64, whatever the order of the sum.
            total += (np.eye(self.n_classes)[target[block]].T @ rows).astype(np.int64)
        return total


@dataclasses.dataclass(frozen=True)
class SecondMoment(OfGridRows):
    r"""The sum of the outer products of the private rows, :math:`\sum_i p_i p_i^\top`.

    Parameters
    ----------
    rows : GridRows
        Private, of norm at most 1. Longer ones are shortened here.

    Notes
    -----
    **Guarantees.** A contribution has Frobenius norm ``|p|**2 <= 1``. A replaced record
    moves the sum by at most sqrt(2), whatever the signs, because
    ``|pp' - qq'|**2 = |p|**4 + |q|**4 - 2 (p . q)**2``. A nulled record moves it by at
    most 1. Both triangles are released, each entry with noise of its own.
    """

    rows: GridRows
    clip_norm: float = 1.0

    @classmethod
    def planned(cls) -> SecondMoment:
        """Return the sum of no records, for plans that need its bounds."""
        return cls(no_rows())

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sum."""
        return (self.rows.values.shape[1],) * 2

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        return relation.moves(self.clip_norm, math.sqrt(2) * self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum: the square of a unit of rows."""
        least = sum_unit(noise_std, self.clip_norm, self.n_rows, GRID**2)
        return 4.0 ** math.ceil(math.log2(least) / 2)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every row."""
        (values,) = chosen(batch, self.rows.values)
        total = np.zeros(self.shape, dtype=np.int64)
        for block in blocks(*values.shape):
            rows = clipped(values[block], math.sqrt(unit) / GRID)
            # Entries below 2**28 a row, 4096 rows a block: exact in float64.
            total += (rows.T @ rows).astype(np.int64)
        return total


def clipped(values: np.ndarray, coarser: float = 1.0) -> np.ndarray:
    """Return whole numbers: rows of norm at most 1, in a unit of ``coarser * GRID``.

    Parameters
    ----------
    values : int16 ndarray of shape (n_rows, n_columns)
        In grid units.
    coarser : float, default=1.0
        A power of two, at least 1.
    """
    rows = values.astype(np.float64)
    # Integers below 2**53: exact in float64, whatever the order of the sum.
    squares = np.einsum("ij,ij->i", rows, rows)
    longer = squares > _LIMIT
    # (1 - 1e-9) covers the rounding of the factor; rows within the bound keep theirs.
    factor = np.sqrt(_LIMIT / np.where(longer, squares, _LIMIT))
    factor = np.where(longer, factor * (1 - 1e-9), 1.0) / coarser
    return np.trunc(rows * factor[:, None])
