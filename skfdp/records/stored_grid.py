"""Tables that lie on the integer grid, in a folder: written once, fitted often."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from skfdp.records.blocks import blocks
from skfdp.records.checks import shown
from skfdp.records.files import Reader, mapped_rows
from skfdp.records.grid import GRID, GridRows
from skfdp.records.large import LargeTable
from skfdp.records.row_map import RowMap

_ROWS, _FACTS = "rows.npy", "grid.json"
_FORMAT = "skfdp grid 1"


@dataclasses.dataclass(frozen=True)
class StoredGrid:
    """The rows of a stored grid: each column within [0, 1], where it had its bounds.

    Attributes
    ----------
    values : int16 ndarray of shape (n_rows, n_columns)
        Mapped from the file.
    reader : Reader
    divisor : float
        A power of two, by which the rows were divided: that of the linear models for so
        many bounded columns.
    path : str
        Of the folder.
    """

    values: np.ndarray
    reader: Reader
    divisor: float
    path: str
    on_disk: bool = True
    finite: bool = True
    #: Every one of them holds small integers times a power of two.
    dtype: np.dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from `start` to `stop`."""
        return self.values[start:stop] * np.float32(GRID * self.divisor)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by their numbers."""
        return self.values[rows] * np.float32(GRID * self.divisor)


def is_stored_grid(path: Path) -> bool:
    """Whether a path is a folder that `write_grid` wrote."""
    return (path / _FACTS).is_file()


def stored_grid(path: Path) -> LargeTable:
    """Return the table of a folder that `write_grid` wrote.

    Raises
    ------
    ValueError
        If the folder is damaged, or of another version.
    """
    try:
        facts = json.loads((path / _FACTS).read_text(encoding="utf-8"))
        array = np.load(path / _ROWS, mmap_mode="r")
        names, divisor = facts["columns"], float(facts["divisor"])
        fits = facts["format"] == _FORMAT and array.dtype == np.int16
        fits = fits and array.shape == (facts["n_rows"], len(facts["low"]))
        fits = fits and math.frexp(divisor)[0] == 0.5 and array.flags.c_contiguous
    except (OSError, ValueError, KeyError, TypeError):
        fits = False
    if not fits:
        raise ValueError(
            f"{shown(str(path))} is no folder that this version of skfdp grid wrote, "
            "or it is damaged: write it again."
        )
    with open(path / _ROWS, "rb") as file:
        values, reader = mapped_rows(file.fileno(), array.shape[1], array.offset)
    return LargeTable.of(StoredGrid(values, reader, divisor, str(path)), names)


def write_grid(
    table: LargeTable,
    row_map: RowMap,
    path: Path,
    progress: Callable[[int], Any] = lambda n_rows: None,
) -> None:
    """Write the rows of a table, within bounds, as integers on the grid.

    The folder is made under another name beside it, and renamed when it is whole.

    Parameters
    ----------
    table : LargeTable
    row_map : RowMap
        With bounds of every column and no norm. For a number that is missing or
        infinite stands the middle of its bounds.
    path : Path
        Of a folder that does not exist.
    progress : callable, default=None
        Told the number of rows so far.

    Notes
    -----
    **Guarantees.** The rows are as private as the table: only the user who writes them
    may open them. What else is in the folder is public: bounds, names, a divisor that
    follows from the number of columns, and the number of rows.
    """
    if row_map.span is None or not np.isfinite(row_map.span).all():
        raise ValueError("a stored grid needs bounds of every column.")
    facts = {
        "format": _FORMAT,
        "n_rows": len(table),
        "columns": table.columns,
        "low": row_map.low.tolist(),
        "high": (row_map.low + row_map.span).tolist(),
        "divisor": row_map.feature_bound,
    }
    path = Path(path).absolute()
    # Its owner's alone, as what is written into it.
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        with open(made / _ROWS, "wb", opener=_private) as file:
            header = {"descr": "<i2", "fortran_order": False, "shape": table.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks(*table.shape):
                rows = row_map.mapped(row_map.filled(table[block])[0])
                file.write(np.trunc(rows / GRID).astype("<i2").data)
                progress(block.stop)
            file.flush()
            os.fsync(file.fileno())
        with open(made / _FACTS, "w", encoding="utf-8", opener=_private) as file:
            json.dump(facts, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.rename(made, path)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def bounds_on_grid(bounds: Any, X: Any) -> Any:
    """Return the bounds of a fit on X: those of a stored grid are in it already.

    Raises
    ------
    ValueError
        For other bounds of a stored grid than (0, 1).
    """
    if not isinstance(X, LargeTable) or not isinstance(X.source, StoredGrid):
        return bounds
    if bounds is not None:
        try:
            known = [float(side) for side in bounds] == [0.0, 1.0]
        except (TypeError, ValueError):
            known = False
        if not known:
            raise ValueError(
                f"bounds={shown(bounds)} contradict those of {shown(X.source.path)}, "
                "by which its columns were scaled to [0, 1] when it was written: leave "
                "bounds out."
            )
    return (0.0, 1.0)


def rows_as_they_are(X: Any, row_map: RowMap, scale: float) -> GridRows | None:
    """Return the rows of a stored grid without a copy, None where they are others.

    Parameters
    ----------
    X : LargeTable or other rows
    row_map : RowMap
        By which they are to be mapped, and then neither centred nor given a constant.
    scale : float
    """
    if not isinstance(X, LargeTable) or not isinstance(X.source, StoredGrid):
        return None
    stored, unbounded = X.source, row_map.span is None
    if X.steps or X.rows is not None or unbounded or row_map.public is not None:
        return None
    same = (row_map.low == 0).all() and (row_map.span == 1).all()
    cuts = row_map.shortens or row_map.normalize
    if cuts or not same or row_map.feature_bound != stored.divisor:
        return None
    squared_norms = np.empty(len(X))
    for block in blocks(*X.shape):
        integers = stored.values[block].astype(np.float64)
        squared_norms[block] = np.einsum("ij,ij->i", integers, integers)
    return GridRows(stored.values, squared_norms, scale, stored.reader)
