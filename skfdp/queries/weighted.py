"""Sums in which rows have public weights, and persons several rows."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.privacy.relations import Relation
from skfdp.queries import SAFE_STD, Query
from skfdp.records.units import WEIGHT_BITS, Units


@dataclasses.dataclass(frozen=True)
class Weighted:
    """The sum of another query's contributions, each times the share of its row.

    Parameters
    ----------
    query : Query
        Its contributions are those of rows; its capacity leaves room for
        `FULL_WEIGHT` times as many.
    units : Units

    Notes
    -----
    **Guarantees.** With shares s and contributions v, the sum is ``sum s_i v_i``. If a
    row moves the inner sum by at most D, whatever the row, then another private part of
    all rows of one person moves this one by at most ``sum s_i D`` over these rows,
    which is at most ``units.reach * D``: the rows are changed one after the other, and
    their shares are public. Likewise a person contributes at most ``units.reach`` times
    the clip norm, and what holds for a null holds for persons all of whose rows are
    null (:ref:`persons-and-weights`).

    The sum is over whole numbers of ``units.step``: for each bit of the weights the
    inner query adds up the rows that have it. No sum is rounded.
    """

    query: Query
    units: Units

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.query.n_rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""
        return self.query.shape

    @property
    def clip_norm(self) -> float:
        """L2 bound of what one person contributes."""
        return self.units.reach * self.query.clip_norm

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        return self.units.reach * self.query.sensitivity(relation)

    def unit(self, noise_std: float) -> float:
        """Return the unit of the sum, `units.step` times a power of two."""
        step = self.units.step
        return self.query.unit(noise_std / step) * step

    def exact_sum(
        self, theta: np.ndarray | None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch, in `unit`; None means every row."""
        inner = unit / self.units.step  # exact: the other factor is a power of two
        rows = np.arange(self.n_rows) if batch is None else batch
        weights = self.units.weights[rows]
        total = np.zeros(self.shape, dtype=np.int64)
        for bit in range(WEIGHT_BITS + 1):
            chosen = rows[(weights >> bit) & 1 == 1]
            if len(chosen):
                total += self.query.exact_sum(theta, chosen, inner) << bit
        return total


def fits_grid(query: Query, noise_std: float, units: Units | None) -> bool:
    """Return whether the grid of a sum over units holds its noise without effort.

    Parameters
    ----------
    query : Query
        Planned, of records.
    noise_std : float
        As planned for records.
    units : Units or None
    """
    if units is not None:
        query, noise_std = Weighted(query, units), units.reach * noise_std
    return noise_std <= SAFE_STD * query.unit(noise_std)


def weighted(query: Query, units: Units | None) -> Query:
    """Return what a query sums over units; None: each row is a unit of its own."""
    if units is None:
        return query
    own = getattr(query, "of_units", None)
    return Weighted(query, units) if own is None else own(units)
