"""Units of protection: whose rows a neighbour changes, and how much each row counts."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

#: Bits of a row's weight: sums of integers stay sums of integers.
WEIGHT_BITS = 10
FULL_WEIGHT = 2**WEIGHT_BITS


@dataclasses.dataclass(frozen=True)
class Units:
    """Public weights of the rows, and the person to whom each belongs.

    Attributes
    ----------
    weights : int64 ndarray of shape (n_rows,)
        From 0 to `FULL_WEIGHT`. A row of weight 0 adds nothing to any release.
    persons : int64 ndarray of shape (n_rows,) or None
        Number of the person of each row, from 0 in the order of first appearance;
        None: each row is a record of its own.
    count : float
        What one count of `weights` is in the user's own units, which penalties are
        compared with.

    Notes
    -----
    All of it is public: neighbours have the same weights and the same partition.

    Rows enter sums with weights whose mean over the persons' totals is 1 (`shares`), so
    that a sum over `n_units` is a weighted average over rows, and a person counts in
    rules and rates as a record does where there are no persons.
    """

    weights: np.ndarray
    persons: np.ndarray | None = None
    count: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weights)

    @property
    def unit(self) -> str:
        """The unit of protection, as events have it."""
        return "record" if self.persons is None else "person"

    @functools.cached_property
    def n_units(self) -> int:
        """Number of persons, or of records where there are no persons."""
        return self.n_rows if self.persons is None else int(self.persons.max()) + 1

    @property
    def total(self) -> float:
        """Sum of the weights in the user's own units."""
        return self.count * int(self.weights.sum())

    @functools.cached_property
    def joint(self) -> bool:
        """Whether some person has several rows that count, which enter sums jointly."""
        if self.persons is None:
            return False
        return bool((np.bincount(self.persons[self.weights > 0]) > 1).any())

    @functools.cached_property
    def step(self) -> float:
        """What one count of `weights` adds to a sum: shares are whole numbers of it."""
        return self.n_units / int(self.weights.sum())

    @functools.cached_property
    def shares(self) -> np.ndarray:
        """The weight of each row in a sum, whose total is `n_units`, float64."""
        return self.weights * self.step

    @functools.cached_property
    def reach(self) -> float:
        """The largest total share of one person, at least 1 up to a rounding.

        One person's rows move a weighted sum at most this many times as far as one row
        moves a plain one.
        """
        # 1e-12 outweighs the rounding of `step` and of this product.
        return int(self._totals.max()) * self.step * (1 + 1e-12)

    @functools.cached_property
    def _totals(self) -> np.ndarray:
        """Sum of the weights of each person."""
        if self.persons is None:
            return self.weights
        totals = np.zeros(self.n_units, dtype=np.int64)
        np.add.at(totals, self.persons, self.weights)
        return totals

    @functools.cached_property
    def order(self) -> np.ndarray:
        """Row numbers, one person after the other, each in the table's order."""
        if self.persons is None:
            return np.arange(self.n_rows)
        return np.argsort(self.persons, kind="stable")

    @functools.cached_property
    def ends(self) -> np.ndarray:
        """Where the rows of each person begin and end in `order`, (n_units + 1,)."""
        if self.persons is None:
            return np.arange(self.n_rows + 1)
        counts = np.bincount(self.persons, minlength=self.n_units)
        return np.concatenate([[0], np.cumsum(counts)])

    def rows_of(self, units: np.ndarray) -> np.ndarray:
        """Return the row numbers of some persons, one person after the other."""
        if self.persons is None:
            return units
        starts, sizes = self.ends[units], np.diff(self.ends)[units]
        before = np.cumsum(sizes) - sizes
        within = np.arange(int(sizes.sum())) - np.repeat(before, sizes)
        return self.order[np.repeat(starts, sizes) + within]

    def by_person(
        self, batch: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of a batch that count, one person after the other.

        Parameters
        ----------
        batch : int64 ndarray, default=None
            Row numbers, in any order; None: every row.

        Returns
        -------
        rows : int64 ndarray
        ends : int64 ndarray
            Where those of each person begin and end in it.
        """
        if batch is None:
            return self._all_by_person
        rows = batch[self.weights[batch] > 0]
        # Next to free where the rows are in this order already.
        rows = rows[np.argsort(self.persons[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(self.persons[rows], prepend=-1))
        return rows, np.append(starts, len(rows))

    @functools.cached_property
    def _all_by_person(self) -> tuple[np.ndarray, np.ndarray]:
        return self.by_person(self.order)

    def kept(self, rows: np.ndarray) -> Units | None:
        """Return the units of some rows, given by number or as a mask."""
        persons = self.persons
        if persons is not None:
            persons = numbered(persons[rows])
        return Units(self.weights[rows], persons, self.count)


def numbered(groups: Any) -> np.ndarray:
    """Return the number of each entry's group, in the order of first appearance.

    Names of groups leave no trace: equal partitions give equal numbers.
    """
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[codes.ravel()]


def rounded(weights: np.ndarray, full: int = FULL_WEIGHT) -> np.ndarray:
    """Return weights as whole numbers of at most `full`, in proportion.

    Whole numbers are kept up to a common factor, and none that is positive becomes 0:
    only other numbers are rounded, by at most half of ``1 / full`` of the largest, or
    up to that.
    """
    whole = weights.max() <= full and bool((weights == np.rint(weights)).all())
    found = weights if whole else np.rint(weights / weights.max() * full)
    found = np.where(weights > 0, np.maximum(found, 1), 0).astype(np.int64)
    return found // np.gcd.reduce(found)


def balanced(weights: np.ndarray, persons: np.ndarray, noise: float) -> np.ndarray:
    """Return weights under which nobody's rows count for too much.

    The rows of a person whose weights sum to t are multiplied by ``min(1, m / t)``: the
    noise of a sum grows with m, and what other rows would have said of an average falls
    with it. m is where noise and chance together are least, as if a weight were a
    number of independent rows; without noise it is the largest t, and nothing changes.

    Parameters
    ----------
    weights : float64 ndarray of shape (n_rows,)
        Not negative.
    persons : int64 ndarray of shape (n_rows,)
    noise : float
        Variance of the noise in a sum of which one row of mean weight has variance 1,
        where each person has one.
    """
    unit = weights / weights.max()
    totals = np.bincount(persons, unit / unit.mean())
    found, least = 1.0, math.inf
    for most in np.unique(np.quantile(totals[totals > 0], np.linspace(0, 1, 101))):
        factor = np.minimum(1, most / np.maximum(totals, most))
        total = float((factor * totals).sum())
        variance = (noise * most**2 + float((factor**2 * totals).sum())) / total**2
        if variance < least:
            found, least = most, variance
    factor = np.minimum(1, found / np.maximum(totals, found))
    return weights * factor[persons]


def first_rows(persons: np.ndarray, most: int) -> np.ndarray:
    """Return which rows are among the first `most` of their person."""
    order = np.argsort(persons, kind="stable")
    sizes = np.bincount(persons)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(persons), dtype=np.int64)
    rank[order] = np.arange(len(persons)) - starts
    return rank < most
