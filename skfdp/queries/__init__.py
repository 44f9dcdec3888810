"""Queries: sums over private rows whose contributions are bounded.

A query knows the data and the bound; it adds no noise and draws no coins. Its
contract, which `mechanisms.release` relies on and the tests check by brute force:

* ``unit(noise_std)`` is a power of two that depends on public facts only;
* ``exact_sum(theta, batch, unit)`` returns int64 in that unit, the sum over the batch
  of one vector per record, each a function of that record and of theta alone;
* each vector has an L2 norm of at most ``clip_norm`` (times ``1 / unit``);
* ``sensitivity(relation)`` bounds how far neighbours move the sum over every row, a
  function of public facts. Nobody else multiplies by 2.

All of it holds for any table, NaN and infinity included. Records that are null are
left out of every batch by the mechanism: they move a sum as nulled ones do, under any
relation, and ``sensitivity`` is nowhere below the norm of one vector.

Plans are made before there are rows: ``planned(...)`` gives a query over no records,
whose bounds are those of any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from skfdp.data.grid import SAFE_STD, GridRows
from skfdp.data.units import Units
from skfdp.privacy.events import Relation


class Query(Protocol):
    """The interface of a query."""

    n_rows: int
    shape: tuple[int, ...]
    clip_norm: float

    def unit(self, noise_std: float | np.ndarray) -> float | np.ndarray:
        """Return the grid unit of the sum, for each standard deviation of noise."""

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum over every row, in its own units."""

    def exact_sum(
        self, theta: np.ndarray | None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every row."""


def chosen(batch: np.ndarray | None, *columns: Any) -> tuple:
    """Return what belongs to the rows of a batch, None being every row."""
    return columns if batch is None else tuple(column[batch] for column in columns)


def no_rows() -> GridRows:
    """Return no rows, for queries whose bounds a plan needs."""
    return GridRows(np.empty((0, 0), np.int16), np.empty(0))


def derived(query: Any, make: Callable[[Any], Query]) -> Query:
    """Return the query that `make` makes of another one, where the rows of it are.

    `make` can be pickled, like a recipe of `Records.query`.
    """
    elsewhere = getattr(query, "derived", None)
    return make(query) if elsewhere is None else elsewhere(make)


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
    step = 1.0
    if units is not None:  # as `weighted.Weighted` has it
        noise_std, step = units.reach * noise_std, units.step
    return bool(noise_std <= SAFE_STD * query.unit(noise_std / step) * step)
