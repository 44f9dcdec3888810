"""Mapped rows of a dense table, read in blocks; public columns are mapped once."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from skfdp.records.blocks import blocks
from skfdp.records.large import LargeTable, is_on_disk
from skfdp.records.row_map import RowMap

#: Mapped public columns are kept up to this many bytes; beyond it they are mapped again
#: for each pass.
MOST_KEPT = 2**26


@dataclasses.dataclass(frozen=True)
class PublicRows:
    """The public columns of mapped rows.

    Attributes
    ----------
    table : ndarray or LargeTable of shape (n_rows, n_features)
    mask : bool ndarray of shape (n_features,)
        Its public columns: no other one is read.
    row_map : RowMap
        Of these columns.
    """

    table: np.ndarray | LargeTable
    mask: np.ndarray
    row_map: RowMap

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and public columns."""
        return len(self.table), int(self.mask.sum())

    @property
    def on_disk(self) -> bool:
        """Whether the table lies in a file."""
        return is_on_disk(self.table)

    @functools.cached_property
    def _kept(self) -> np.ndarray | None:
        n_rows, width = self.shape
        if 8 * n_rows * width > MOST_KEPT:
            return None
        rows = np.empty(self.shape)
        for block in blocks(n_rows, width):
            rows[block] = self._mapped(block)
        rows.flags.writeable = False
        return rows

    def _mapped(self, block: slice) -> np.ndarray:
        return self.row_map.mapped(self.table[block][:, self.mask])

    def __getitem__(self, block: slice) -> np.ndarray:
        """Return some of the rows, float64; not to be written to."""
        return self._mapped(block) if self._kept is None else self._kept[block]


@dataclasses.dataclass(frozen=True)
class WholeRows:
    """Mapped rows: the public columns that were mapped before, beside private ones.

    Attributes
    ----------
    public : PublicRows
    row_map : RowMap
        Of whole rows.
    """

    public: PublicRows
    row_map: RowMap

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.public.table.shape

    @property
    def on_disk(self) -> bool:
        """Whether the table lies in a file."""
        return self.public.on_disk

    def __getitem__(self, block: slice) -> np.ndarray:
        """Return some of the rows, float64; not to be written to."""
        mask, X = self.public.mask, self.public.table[block]
        if mask.all():
            return self.public[block]
        if self.row_map.public is None:  # the norm is that of whole rows
            return self.row_map.mapped(X)
        rows = np.empty(X.shape)
        rows[:, mask] = self.public[block]
        rows[:, ~mask] = self.row_map.part(~mask).mapped(X[:, ~mask])
        return rows
