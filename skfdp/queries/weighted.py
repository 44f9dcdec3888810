"""Sums over rows with public weights."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.data.units import WEIGHT_BITS, Units
from skfdp.privacy.checks import computed
from skfdp.privacy.events import Relation
from skfdp.queries import Query


@dataclasses.dataclass(frozen=True)
class Weighted:
    """The sum of the contributions of another query, weighted by the shares of rows.

    Notes
    -----
    **Guarantees.** If the private parts of all rows of one person change, the sum
    changes by at most ``units.reach``, the largest total share of a person, times the
    sensitivity of the inner query. A person contributes at most ``units.reach`` times
    its clip norm, and nothing if all rows are null (:ref:`persons-and-weights`).

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
