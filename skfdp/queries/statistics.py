"""Sums of rows: the private mean."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.queries import sum_unit
from skfdp.rows import RowMap, blocks

# Rows have norm at most 1 up to rounding; this margin covers the rounding.
_SHRINK = 1 - 1e-9


@dataclasses.dataclass(frozen=True)
class RowSum:
    """The sum of the mapped rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    row_map : RowMap
        Gives rows of norm at most 1.
    capacity : int
        Public bound on the number of rows, for the grid.

    Notes
    -----
    **Guarantees.** Every contribution has a norm of at most 1: the row map bounds it,
    truncation toward zero cannot lengthen it. Hence the sum moves by at most 1 when
    a row is nulled or removed, and by at most 2 when it is replaced.
    """

    X: np.ndarray
    row_map: RowMap
    capacity: int
    clip_norm: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum."""
        return (self.X.shape[1],)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        return sum_unit(noise_std, self.clip_norm, self.capacity, 2.0**-30)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum of the rows of the batch, in `unit`."""
        X = self.X if batch is None else self.X[batch]
        total = np.zeros(self.shape, dtype=np.int64)
        for block in blocks(*X.shape):
            rows = self.row_map.unit(X[block]) * (_SHRINK / unit)
            total += np.trunc(rows).astype(np.int64).sum(axis=0)
        return total
