"""Totals of a private number in public groups."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.data.grid import sum_unit
from skfdp.privacy.events import Relation


@dataclasses.dataclass(frozen=True)
class GroupTotals:
    """The total of one number, cut to [0, 1], in each group.

    Parameters
    ----------
    values : float64 ndarray of shape (n_rows,)
        Private; NaN counts as 0.
    group : int64 ndarray of shape (n_rows,)
        Public.
    n_groups : int
    clip_norm : float

    Notes
    -----
    **Guarantees.** A record adds a number within [0, 1] to the total of its group,
    truncated toward zero on the grid. Neighbours share the group, so that a
    replaced record moves one total by at most 1, and so does one that is nulled.
    """

    values: np.ndarray
    group: np.ndarray
    n_groups: int
    clip_norm: float = 1.0

    @classmethod
    def planned(cls) -> GroupTotals:
        """Return the totals of no records, for plans that need their bounds."""
        return cls(np.empty(0), np.empty(0, np.int64), 1)

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int]:
        """Shape of the totals."""
        return (self.n_groups,)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the totals; see the guarantees."""
        return relation.sensitivity(self.clip_norm, self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the totals."""
        return sum_unit(noise_std, self.clip_norm, self.n_rows, 2.0**-30)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 totals of the batch; None means every row."""
        values, group = self.values, self.group
        if batch is not None:
            values, group = values[batch], group[batch]
        cut = np.clip(np.nan_to_num(values), 0.0, self.clip_norm)
        total = np.zeros(self.shape, dtype=np.int64)
        np.add.at(total, group, np.trunc(cut / unit).astype(np.int64))
        return total
