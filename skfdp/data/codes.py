"""Encoded rows of a table as integers that are not stored: codes and a table of levels.

An encoded row is the sum of a few rows of a public table, whose rows are called levels.
A category is one level, and so are several categories with few levels together. A
number lies between two neighbouring levels, and has two weights with the sum 1. Records
keep the positions of their levels, and one weight for each number. In integers, with
levels L and weights ``a / 2**9``, a row is

    ``x = sum of L[place] + sum of ((2**9 - a) L[place] + a L[place + 1]) - shift``,

where the first sum is over the categories and the second over the numbers. So x is a
linear function of the integers of the record. Sums of rows times integers are sums over
levels, which are multiplied by L once. Last columns may be multiples of dense integers
instead, minus the shift.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from skfdp.data.grid import GRID, SAFE_STD_OF_PRODUCTS, GridRows, Integers, blocks

#: The weight 1 of a level, as an integer.
ONE = 2**9
#: Value of the integer 1 in an entry of a row, before the row is scaled.
CODE_UNIT = 2.0**-20
# Largest dense integer. Its products with 15 bits, and sums of 32 of them, fit into 31.
_MOST_DENSE = 2**11 - 1
# The shift is clipped entry by entry, so that its norm is at most this number. Squared
# norms of rows then fit into int64.
_MOST_SHIFT = 2.0**31
# Categories are joined to a single one with at most this many levels, which saves
# look-ups. Its levels are the sums of the levels of the joined categories.
_MOST_JOINED = 256
#: Number of intervals into which a column with a linear effect is divided. Weights then
#: represent such a column in steps of 2**-14.
LINEAR_STEPS = 32


@dataclasses.dataclass(frozen=True)
class CodedGridRows(Integers):
    """Quantised rows that are kept as codes: ``x * unit``; see the module for x."""

    #: For each row the positions of the levels of its categories, then the positions of
    #: the lower levels of its numbers, then the weights a, at most `ONE`, of their
    #: upper levels. uint16 or uint32, shape (n_rows, n_categories + 2 * n_numbers).
    codes: np.ndarray
    n_categories: int
    #: Public, or a function of released numbers. Different categories and numbers have
    #: levels with different columns. int64, shape (n_levels, n_columns).
    levels: csr_array
    #: The quantised centre, int64. If there is a constant column, the last entry is
    #: minus its value, because the levels are 0 in this column.
    shift: np.ndarray
    #: Public or released factor: `unit` is ``CODE_UNIT * scale``.
    scale: float
    #: Dense columns, in which levels are 0: integers below 2**11, whose unit is `unit`
    #: times the power of two `step`. There may be none.
    beside: GridRows
    step: int
    #: The columns of `beside`.
    dense: slice

    largest_std, finest = SAFE_STD_OF_PRODUCTS, 0.0

    def __post_init__(self):
        vars(self).update(
            n_rows=len(self.codes),
            n_columns=self.levels.shape[1],
            n_entries=self.codes.shape[1] + self.beside.n_columns,
            unit=CODE_UNIT * self.scale,
        )

    @classmethod
    def build(
        cls,
        categories: Sequence[tuple[np.ndarray, np.ndarray]],
        numbers: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
        n_rows: int,
        n_columns: int,
        beside: Any = None,
        step: float = CODE_UNIT,
    ) -> CodedGridRows:
        """Quantise the levels and the weights of encoded rows, and the last columns.

        The last columns `beside` become multiples of `step`, cut below ``2**11 step``.
        Each of `categories` has rows of levels, and the position of the level of each
        row of the table. Each of `numbers` has also the weights, in [0, 1], of the
        levels after these positions.
        """
        categories = list(_joined_levels(categories))
        parts = [csr_array(levels) / CODE_UNIT for levels, _ in categories]
        parts += [csr_array(levels) / (CODE_UNIT * ONE) for levels, *_ in numbers]
        # The last level has no successor. Its weight is 0, but it is read.
        levels = vstack([*parts, csr_array((1, n_columns))], format="csr")
        levels.data = np.rint(levels.data)
        starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        n_terms = len(parts)
        dtype = np.min_scalar_type(max(ONE, levels.shape[0]))
        codes = np.empty((n_rows, n_terms + len(numbers)), dtype)
        for j, (_, places, *_) in enumerate((*categories, *numbers)):
            np.add(places, starts[j], out=codes[:, j], casting="unsafe")
        for j, (_, _, weights) in enumerate(numbers):
            codes[:, n_terms + j] = np.rint(weights * ONE)
        shift = np.zeros(n_columns, dtype=np.int64)
        # With a place for a target, rows are whole vectors in memory.
        target = None if beside is None else np.zeros(n_rows, dtype=np.int64)
        beside = np.empty((n_rows, 0)) if beside is None else beside
        kept = GridRows.build(
            beside,
            lambda rows: np.clip(rows / step, -_MOST_DENSE, _MOST_DENSE) * GRID,
            n_features=beside.shape[1],
            scale=step / GRID,
            target=target,
        )
        dense = slice(n_columns - kept.n_columns, n_columns)
        own = levels.astype(np.int64), shift, 1.0, kept, round(step / CODE_UNIT), dense
        return cls(codes, len(categories), *own)

    @property
    def may_be_negative(self) -> bool:
        """Whether a level is negative, or a shift positive, or columns are dense."""
        least = min(self.levels.data.min(initial=0), -self.shift.max(initial=0))
        return least < 0 or self.beside.n_columns > 0

    def moved(self, mean, bias, before, after, target=None) -> CodedGridRows:
        """Return centred and scaled rows; see `GridRows`. Here a row is x alone."""
        unit = CODE_UNIT * before
        constant = [] if bias is None else [-round(bias / (unit * after))]
        # NaN would become the integer -2**63, and sums would wrap around.
        shift = np.nan_to_num(np.rint(np.append(mean / unit, constant)))
        most = _MOST_SHIFT // max(1.0, len(shift) ** 0.5)
        shift = np.clip(shift, -most, most).astype(np.int64)
        levels = self.levels.copy()
        levels.resize((levels.shape[0], len(shift)))
        scale = before * after
        beside = dataclasses.replace(self.beside, scale=self.beside.scale * scale)
        own = {"levels": levels, "shift": shift, "scale": scale, "beside": beside}
        return dataclasses.replace(self, **own)

    def chosen(self, rows: np.ndarray | slice) -> CodedGridRows:
        """Return some of the rows."""
        beside = self.beside[rows]
        return dataclasses.replace(self, codes=self.codes[rows], beside=beside)

    @functools.cached_property
    def squared_norms(self) -> np.ndarray:
        """Squared norms of the rows x, as float64; rounded if they exceed 2**53.

        As levels have different columns, they are sums over the levels of a row, minus
        products with the shift.
        """
        levels, shift = self.levels, self.shift
        n_numbers = (self.codes.shape[1] - self.n_categories) // 2
        own, crossed = levels.multiply(levels).sum(axis=1), 2 * (levels @ shift)
        total = np.full(self.n_rows, shift @ shift)
        alone = own - crossed
        for j in range(self.n_categories):
            total += alone[self.codes[:, j]]
        # The square of (ONE - a) L + a M, minus products with the shift, is a
        # polynomial of a, whose coefficients depend on the place.
        both = np.append(levels[:-1].multiply(levels[1:]).sum(axis=1), 0)
        after, crossed_after = np.append(own[1:], 0), np.append(crossed[1:], 0)
        least = ONE * (ONE * own - crossed)
        slope = 2 * ONE * (both - own) + crossed - crossed_after
        bend = own - 2 * both + after
        for j in range(self.n_categories, self.n_categories + n_numbers):
            place = self.codes[:, j].astype(np.intp)  # once for three look-ups
            a = self.codes[:, j + n_numbers].astype(np.int64)
            total += least[place] + a * (slope[place] + a * bend[place])
        squares, own = self.step * self.beside.squared_norms, shift[None, self.dense]
        for block in blocks(self.n_rows, own.size) if own.any() else ():
            squares[block] -= 2 * self.beside.products(block, own)[:, 0]
        total += self.step * squares.astype(np.int64)
        return total.astype(np.float64)

    def on_levels(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the products of the levels and of the shift with integer weights."""
        return np.ascontiguousarray((self.levels @ weights.T).T), weights @ self.shift

    def of_levels(self, sums: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return the sum of rows x times integers, int64 (K, n_columns).

        `sums`, (K, n_levels), are those of integers times the weights of levels, and
        `total`, (K,), those of the integers.
        """
        # Terms may wrap around, but not the result: both are modulo 2**64.
        return (self._columns @ sums.T).T - np.outer(total, self.shift)

    def products(self, some: slice | np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return products with weights; see `GridRows`."""
        from skfdp.kernels import codes

        numbers = np.r_[some]
        out = np.empty((len(weights), len(numbers)))
        given = self.codes, self.n_categories, numbers
        codes.margins(*given, *self.on_levels(weights.astype(np.int64)), 1.0, out)
        return out.T + self.step * self.beside.products(some, weights[:, self.dense])

    def floats(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some of the rows as float64."""
        numbers = np.arange(self.n_rows)[rows]
        return self.products(numbers, np.eye(self.n_columns)) * self.unit

    def weighted_sum(self, some: slice | np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the sum of rows times integers; see `GridRows`."""
        from skfdp.kernels import codes

        sums, total = np.zeros((1, self.levels.shape[0]), np.int64), np.zeros(1, int)
        numbers = np.r_[some]
        codes.add(self.codes, self.n_categories, numbers, factors[None], sums, total)
        found = self.of_levels(sums, total)[0]
        found[self.dense] += self.step * self.beside.weighted_sum(some, factors)
        return found

    @functools.cached_property
    def _columns(self) -> csr_array:
        return self.levels.T.tocsr()


def _joined_levels(
    categories: Iterable[tuple[np.ndarray, np.ndarray]],
) -> Iterator[tuple[csr_array, np.ndarray]]:
    """Yield the categories; adjacent ones with few levels are joined."""
    levels, places = None, None
    for given, own in categories:
        following = csr_array(given)
        n_levels = following.shape[0]
        if levels is None or levels.shape[0] * n_levels > _MOST_JOINED:
            if levels is not None:
                yield levels, places
            levels, places = following, own.astype(np.int64)
            continue
        first = np.repeat(np.arange(levels.shape[0]), n_levels)
        second = np.tile(np.arange(n_levels), levels.shape[0])
        levels = levels[first] + following[second]
        places = places * n_levels + own
    if levels is not None:
        yield levels, places
