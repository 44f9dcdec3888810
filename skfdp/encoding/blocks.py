"""Blocks of encoded columns: one for each declared column, date part and pair.

A row has a fixed number of entries in a block, all in [0, 1], and at most the norm 1.
Hats are rounded to multiples of 2**-26, so that they, and their products in pairs, sum
to exactly 1: a norm bound must not hinge on rounding.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from skfdp.encoding.values import Column
from skfdp.records.spelling import Spelling

MISSING, OTHER = "missing", "other"
_GRID = 2.0**26


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Neighbouring encoded columns that come from one raw column, or from a pair.

    Attributes
    ----------
    name : str
        "age"; of dates also "admitted.month" and "admitted.weekday"; of a pair
        "age:hours".
    parents : tuple of int
        Positions of the raw columns, one or two.
    start : int
        Position of the first encoded column.
    levels : tuple of str
        Names of the encoded columns.
    reads : {"number", "date", "month", "weekday", "category", "pair"}
        How values of the raw column are read. Dates are days since 1970-01-01.
    knots : float64 ndarray of shape (n_knots,) or None
        Of hats and lines, in the units that the block reads; one for each hat, and the
        two bounds of a line.
    end : float or None
        Of a cyclic block with knots: where the first knot comes again.
    cyclic : bool
        Whether the last level before "missing" is a neighbour of the first.
    kind : {"hats", "linear", "categories", "pair"}
    stop : int
        ``start + len(levels)``.
    feature_names : tuple of str
        ``name__level`` for each level.
    """

    kind: ClassVar[str] = ""

    name: str
    parents: tuple[int, ...]
    start: int
    levels: tuple[str, ...]
    reads: str = "number"
    knots: np.ndarray | None = None
    end: float | None = None
    cyclic: bool = False

    @property
    def stop(self) -> int:
        """Position after the last encoded column."""
        return self.start + len(self.levels)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(f"{self.name}__{level}" for level in self.levels)

    @property
    def missing(self) -> int:
        """Place of the level that missing values have, from the start."""
        return self.levels.index(MISSING)

    def at(self, start: int) -> Block:
        """Return the block at another position."""
        return dataclasses.replace(self, start=start)

    def entries(self, *columns: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return places and values of the entries of each row that may not be zero.

        Parameters
        ----------
        *columns : Column
            One for each parent.

        Returns
        -------
        places : int ndarray of shape (n_rows, n_entries)
            From the start of the block; no place twice in a row.
        values : float64 ndarray of shape (n_rows, n_entries)
        """
        raise NotImplementedError

    def encode(self, *raw: Any) -> np.ndarray:
        """Return the rows of this block alone, for figures.

        Parameters
        ----------
        *raw : array-like of shape (n_rows,)
            Raw values, one column for each parent.

        Returns
        -------
        rows : float64 ndarray of shape (n_rows, n_levels)
        """
        if len(raw) != len(self.parents):
            raise ValueError(
                f"block {self.name!r} takes {len(self.parents)} column(s) of raw "
                f"values, got {len(raw)}."
            )
        places, values = self.entries(*map(Column, raw))
        rows = np.zeros((len(places), len(self.levels)))
        np.put_along_axis(rows, places, values, axis=1)
        return rows

    def _replaced(
        self, places: np.ndarray, values: np.ndarray, missing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return entries with the level "missing" instead of all else where it is."""
        width = places.shape[1]
        places[missing] = self.missing - np.arange(width)
        values[missing] = np.arange(width) == 0
        return places, values


@dataclasses.dataclass(frozen=True, eq=False)
class HatsBlock(Block):
    """Hats: a number between two knots counts for both, by its distance to them."""

    kind: ClassVar[str] = "hats"

    def entries(self, *columns: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return two neighbouring hats, which sum to 1, or "missing" alone."""
        x = columns[0].read(self.reads)
        missing = np.isnan(x)
        knots = self.knots if self.end is None else np.append(self.knots, self.end)
        x = np.clip(np.where(missing, knots[0], x), knots[0], knots[-1])
        left = np.searchsorted(knots, x, side="right") - 1
        left = np.clip(left, 0, len(knots) - 2)
        places = np.stack([left, (left + 1) % len(self.knots)], axis=1)
        share = np.rint(_share(x, knots[left], knots[left + 1]) * _GRID) / _GRID
        return self._replaced(places, np.stack([1 - share, share], axis=1), missing)


@dataclasses.dataclass(frozen=True, eq=False)
class LinearBlock(Block):
    """Line: a number scaled from its bounds to [0, 1]."""

    kind: ClassVar[str] = "linear"

    def entries(self, *columns: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return the scaled number, or "missing" alone."""
        x = columns[0].read(self.reads)
        missing = np.isnan(x)
        low, high = self.knots
        x = np.clip(np.where(missing, low, x), low, high)
        places = np.zeros((len(x), 1), dtype=np.intp)
        return self._replaced(places, _share(x, low, high)[:, None], missing)


@dataclasses.dataclass(frozen=True, eq=False)
class CategoriesBlock(Block):
    """Categories, one column each; unknown ones are "other".

    Attributes
    ----------
    spelling : Spelling or None
        Which values are which category; None where parts of dates are read.
    """

    kind: ClassVar[str] = "categories"

    spelling: Spelling | None = None

    def entries(self, *columns: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return a single 1."""
        if self.reads == "category":
            other = self.levels.index(OTHER)
            places = columns[0].places(self.spelling, other, self.missing)
        else:
            part = columns[0].read(self.reads)
            places = np.where(np.isnan(part), self.missing, part).astype(np.intp)
        return places[:, None], np.ones((len(places), 1))


@dataclasses.dataclass(frozen=True, eq=False)
class PairBlock(Block):
    """Pair: products of the entries of two blocks, but of their level "missing".

    Attributes
    ----------
    sides : tuple of Block
        The two blocks.
    """

    kind: ClassVar[str] = "pair"

    sides: tuple[Block, ...] = ()

    def entries(self, *columns: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return products of entries, or "missing" if either side is."""
        (a, u), (b, v) = (
            side.entries(column)
            for side, column in zip(self.sides, columns, strict=True)
        )
        first, second = self.sides
        missing = (a[:, 0] == first.missing) | (b[:, 0] == second.missing)
        # Levels without "missing", row by row of the product.
        a, b = a - (a > first.missing), b - (b > second.missing)
        shape = len(a), a.shape[1] * b.shape[1]  # -1 is unknown without rows
        places = a[:, :, None] * (len(second.levels) - 1) + b[:, None, :]
        places = places.reshape(shape)
        values = (u[:, :, None] * v[:, None, :]).reshape(shape)
        return self._replaced(places, values, missing)


def _share(x: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Return where x in [low, high] lies between them, from 0 to 1; 1 if they meet."""
    with np.errstate(over="ignore"):  # the distance of sides near the largest floats
        unit = np.where(np.isinf(np.subtract(high, low)), 0.25, 1.0)
    width = high * unit - low * unit
    share = np.divide(
        x * unit - low * unit, width, out=np.ones(len(x)), where=width > 0
    )
    return np.clip(share, 0.0, 1.0)
