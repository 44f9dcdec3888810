"""The table of a private score: counts in cells, and moments of bounded losses."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.privacy.relations import Relation
from skfdp.queries import chosen, sum_unit

#: Weight of the square of a loss beside the loss. A variance is read from it: twice the
#: weight halves the noise of that variance, and 1/2 makes all noise 3 % (counts and one
#: loss) to 8 % (two errors) larger than 1/4 does.
SQUARES = 0.5
_FINEST = 2.0**-20


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    r"""Counts of records by cell, and sums of losses and of their squares, by group.

    Parameters
    ----------
    cells : int64 ndarray of shape (n_rows,)
        Private: the one cell of each record, label and score bin together.
    losses : float64 ndarray of shape (n_rows, n_losses)
        Private, in units of their bounds: cut to [0, 1], NaN counts as 1.
    group : int64 ndarray of shape (n_rows,)
        Public: from 0 to `n_groups` - 1.
    n_cells : int
        0 where nothing is counted.
    n_groups : int
    capacity : int
        Public bound on the number of records.

    Notes
    -----
    **Guarantees.** A record with cell c and losses :math:`l_1, \dots, l_J` adds, to the
    row of its group, the vector
    :math:`v = (e_c, l_1, l_1^2/2, \dots, l_J, l_J^2/2)`, each entry truncated toward
    zero on the grid; what belongs to no cell and no group adds nothing.

    * :math:`\|v\|^2 \le 1 + J (1 + 1/4)`, without the 1 if there are no cells. That is
      how far a nulled record moves the table, or one that comes or goes.
    * Neighbours share the group. A replaced record has another cell and other losses:
      :math:`\|e_c - e_{c'}\|^2 \le 2`, and 0 if there is one cell;
      :math:`|l - l'| \le 1` and :math:`|l^2 - l'^2| \le 1`. So it moves the table by at
      most :math:`\sqrt{2 + J (1 + 1/4)}`, whether its label, its prediction or both
      are private; by :math:`\sqrt 2` if there are counts alone.
    """

    cells: np.ndarray
    losses: np.ndarray
    group: np.ndarray
    n_cells: int
    n_groups: int
    capacity: int

    @classmethod
    def planned(cls, n_cells: int, n_losses: int, n_groups: int = 1) -> ScoreTable:
        """Return the table of no records, for plans that need its bounds."""
        nobody = np.empty(0, np.int64)
        losses = np.empty((0, n_losses))
        return cls(nobody, losses, nobody, n_cells, n_groups, 0)

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.cells)

    @property
    def n_losses(self) -> int:
        """Number of losses of a record."""
        return self.losses.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the table: groups, then cells, losses and squares."""
        return self.n_groups, self.n_cells + 2 * self.n_losses

    @property
    def clip_norm(self) -> float:
        """L2 bound of what one record adds."""
        return math.sqrt(min(self.n_cells, 1) + self._of_losses)

    @property
    def _of_losses(self) -> float:
        return self.n_losses * (1 + SQUARES**2)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the table; see the guarantees."""
        moved = math.sqrt(2.0 * (self.n_cells > 1) + self._of_losses)
        # One cell alone does not move if a record is replaced; a null leaves it.
        return relation.moves(self.clip_norm, max(moved, self.clip_norm))

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the table."""
        return sum_unit(noise_std, self.clip_norm, self.capacity, _FINEST)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 table of the batch, in `unit`; None means every row."""
        cells, losses, group = chosen(batch, self.cells, self.losses, self.group)
        total = np.zeros(self.shape, dtype=np.int64)
        grouped = (group >= 0) & (group < self.n_groups)
        counted = grouped & (cells >= 0) & (cells < self.n_cells)
        # Of units above 1 nothing is left of a count: toward zero, as all the rest.
        np.add.at(total, (group[counted], cells[counted]), math.floor(1 / unit))
        bounded = np.clip(np.where(np.isnan(losses), 1.0, losses), 0.0, 1.0)[grouped]
        for j in range(self.n_losses):
            for place, weight in ((0, 1.0), (1, SQUARES)):
                values = weight * bounded[:, j] ** (place + 1)
                # The unit is a power of two: the division is exact.
                whole = np.trunc(values / unit).astype(np.int64)
                column = self.n_cells + 2 * j + place
                np.add.at(total[:, column], group[grouped], whole)
        return total
