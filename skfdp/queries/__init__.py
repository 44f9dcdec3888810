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

from typing import Protocol

import numpy as np

from skfdp.data.grid import GridRows
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
