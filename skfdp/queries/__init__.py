"""Queries: sums over private rows whose contributions are bounded.

A query holds the data and the bound; it adds no noise and samples no batches. Every
query satisfies the following contract. `mechanisms.release` relies on it, and tests
check it by brute force:

* ``unit(noise_std)`` depends on public facts only. It is a power of two, multiplied by
  the grid step of the weights if rows have weights, and divided by the number of
  classes if labels are centred;
* ``exact_sum(theta, batch, unit)`` returns the sum over the batch of one vector per
  record, as int64 in this unit. Each vector is a function of its record and theta only;
* each vector, times the unit, has an L2 norm of at most ``clip_norm``;
* ``sensitivity(relation)`` returns the L2 sensitivity of the sum over every row, a
  function of public facts. If the relation replaces records, this includes a factor of
  up to 2. No other code multiplies by this factor.

The contract holds for any table, including NaN and infinity. The mechanism leaves null
records out of every batch. Replacing a record by the null record changes a sum by at
most the norm of one vector. ``sensitivity`` is at least the norm of any vector, under
every relation.

Plans are made without rows. ``planned(...)`` returns a query over no records that has
the same bounds as the query of the fit. `TemperatureSum`, which extends the query of a
descent, has the function `bound` instead.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

from skfdp.data.grid import GridRows
from skfdp.data.units import WEIGHT_BITS, Units
from skfdp.privacy.checks import computed
from skfdp.privacy.events import Relation


class Query(Protocol):
    """The interface of a query; arguments of `exact_sum` without a type have these."""

    n_rows: int  # of the table
    shape: tuple[int, ...]  # of the sum
    clip_norm: float  # bound of the L2 norm of each vector

    def unit(self, noise_std: float | np.ndarray) -> float | np.ndarray:
        """Return the grid unit of the sum for a standard deviation of the noise."""

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum over every row."""

    def exact_sum(
        self, theta: np.ndarray | None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every row."""


def no_rows() -> GridRows:
    """Return an empty table of rows, for the queries of plans."""
    return GridRows(np.empty((0, 0), np.int16), np.empty(0))


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
