"""Large tables, which are read in blocks of rows."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config

from skfdp.addresses import wing
from skfdp.privacy.checks import computed

# Private integer rows go to an anonymous temporary file, which is read through a memory
# map. The system deletes the file when the process exits.

# Rows within so many bytes of each other are near.
_GAP = 2**15
_NO_ROOM = (
    "the folder of temporary files, {folder!r}, has no room for the integer rows of "
    "this X (4 bytes a number): set TMPDIR to a folder with more room, or raise "
    "sklearn.set_config(working_memory=...), in MiB, to hold them in memory."
)


def working_memory() -> int:
    """Return scikit-learn's `working_memory` in bytes, the limit of one array."""
    return int(get_config()["working_memory"] * 2**20)


def check_room(n_rows: int, n_columns: int) -> None:
    """Raise OSError if the rows, as int16, fit neither into memory nor into two files.

    The check depends on the shape of the table alone, and is made before any charge.
    """
    size = 4 * n_rows * n_columns
    if size <= 2 * working_memory():
        return
    try:
        tempfile.TemporaryFile().close()
    except OSError as error:
        raise OSError(
            f"no file for the integer rows of this X can be made ({error.strerror}): "
            "set TMPDIR to a folder that can be written."
        ) from None
    if shutil.disk_usage(tempfile.gettempdir()).free < size:
        raise _no_room()


def _no_room() -> OSError:
    return OSError(errno.ENOSPC, _NO_ROOM.format(folder=tempfile.gettempdir()))


def file_rows(n_rows: int, n_columns: int) -> tuple[np.ndarray, mmap.mmap]:
    """Return int16 rows in an anonymous temporary file, all zeros, and their map.

    Raise OSError if the disk has no room for them.

    Notes
    -----
    **Guarantees.** On Linux the file never has a name. On other systems the name is
    deleted before the first row is written (on Windows, when the process exits). No
    other user may open the file. When the file is deleted, its space on the disk is
    freed, but not overwritten.
    """
    size = 2 * n_rows * n_columns
    try:
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):  # a later write finds its place
                os.posix_fallocate(file.fileno(), 0, size)
            memory = mmap.mmap(file.fileno(), size)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (_no_room() if full else error) from None
    return np.frombuffer(memory, np.int16).reshape(n_rows, n_columns), memory


def request(memory: mmap.mmap, row_bytes: int, batch: np.ndarray) -> None:
    """Tell the system, where it can be told, which rows will be read next.

    Rows near the one before are left out: the system reads ahead by itself.
    """
    rows = batch[np.abs(np.diff(batch, prepend=-_GAP)) * row_bytes > _GAP]
    pages = rows * row_bytes // mmap.PAGESIZE * mmap.PAGESIZE
    sizes = (rows + 1) * row_bytes - pages
    with contextlib.suppress(AttributeError, OSError):
        for page, size in zip(pages.tolist(), sizes.tolist(), strict=True):
            memory.madvise(mmap.MADV_WILLNEED, page, size)


# A `LargeTable` reads from a source: a two-dimensional array, such as a memory map, or
# an object with `shape`, `dtype`, and ``source[rows]`` for a slice of rows or for
# increasing row numbers. If its rows are in a file, it has a true attribute `on_disk`.
# Only then may integer rows be written to a temporary file. A source whose columns are
# stored separately also has `selected(names)`, which returns the source of some
# columns, and `column(name)`, which returns a column of any type as an array.


@dataclasses.dataclass(frozen=True)
class LargeTable:
    """A table of numbers that is read in blocks of rows.

    ``table[10:20]`` and ``table[[3, 5]]`` are arrays of some rows, ``table[:, mask]``
    is the table of some columns, ``table["age"]`` one column as an array, and
    ``table.drop("age")`` the table without it. Rows are read when they are needed.
    """

    #: An array, an `ArrowSource`, `CodedRows` or `Records`.
    source: Any
    #: Names of the columns.
    names: tuple[str, ...] | None
    dtype: np.dtype
    #: Number of columns.
    width: int
    #: Functions that are applied to each block after reading, to each row separately.
    steps: tuple[Callable[[np.ndarray], np.ndarray], ...] = ()
    #: Increasing numbers of the selected rows of the source; None: every row.
    rows: np.ndarray | None = None
    #: Number of rows and number of columns.
    shape: tuple[int, int] = computed()
    #: Names of the columns as a list, or None without names.
    columns: list[str] | None = computed()
    #: Whether the rows are in a file.
    on_disk: bool = computed()

    ndim: ClassVar[int] = 2

    def __post_init__(self) -> None:
        source = self.source
        n_rows = source.shape[0] if self.rows is None else len(self.rows)
        vars(self).update(
            shape=(n_rows, self.width),
            columns=None if self.names is None else list(self.names),
            on_disk=getattr(source, "on_disk", isinstance(source, np.memmap)),
        )

    @classmethod
    def of(cls, source: Any, names: Sequence[str] | None = None) -> LargeTable:
        """Return the table of all rows and columns of a source."""
        names = None if names is None else tuple(names)
        return cls(source, names, np.dtype(source.dtype), source.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"LargeTable(shape={self.shape}, dtype={self.dtype.name})"

    def __getitem__(self, index: Any) -> Any:
        """Return rows, or the column of a name, as an array.

        For ``[:, columns]`` return the `LargeTable` of these columns.
        """
        if isinstance(index, str):
            return self._column(index)
        if isinstance(index, tuple):
            whole = isinstance(index[0], slice) and index[0] == slice(None)
            some = len(index) == 2 and isinstance(index[1], slice)
            if len(index) != 2 or not whole or not (some or np.ndim(index[1]) == 1):
                raise TypeError(
                    "a large table has the indices [rows] and [:, columns] only."
                )
            return self._some_columns(index[1])
        block = self._read(index)
        for step in self.steps:
            block = step(block)
        return block

    def _read(self, index: Any) -> np.ndarray:
        """Return some rows of the source, before `steps`."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1 and self.rows is None:
                return self._take(slice(start, max(start, stop)))
            index = np.arange(start, stop, step)
        index = np.asarray(index)
        if index.dtype.kind == "b":
            index = np.flatnonzero(index)
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            raise TypeError("rows of a large table must be a slice or row numbers.")
        index = index.astype(np.int64, copy=False)
        rows = index if self.rows is None else self.rows[index]
        if len(rows) < 2 or (np.diff(rows) > 0).all():
            return self._take(rows)
        found, back = np.unique(rows, return_inverse=True)
        return self._take(found)[back]

    def _take(self, rows: np.ndarray | slice) -> np.ndarray:
        return np.asarray(self.source[rows])

    def after(
        self,
        step: Callable[[np.ndarray], np.ndarray],
        dtype: Any = None,
        width: int | None = None,
    ) -> LargeTable:
        """Return the table with one more function applied to each block.

        With a `width` the function makes this number of other columns, without names.
        """
        return dataclasses.replace(
            self,
            steps=(*self.steps, step),
            dtype=self.dtype if dtype is None else np.dtype(dtype),
            width=self.width if width is None else width,
            names=self.names if width is None else None,
        )

    def _some_columns(self, columns: Any) -> LargeTable:
        places = np.arange(self.width)[columns]
        names = None if self.names is None else tuple(self.names[i] for i in places)
        if not self.steps and hasattr(self.source, "selected"):
            found = LargeTable.of(self.source.selected(list(names)), names)
            return dataclasses.replace(found, rows=self.rows)
        kept = self.after(lambda block: block[:, places])
        return dataclasses.replace(kept, names=names, width=len(places))

    def _column(self, name: str) -> np.ndarray:
        place = self._place(name)
        if not self.steps and hasattr(self.source, "column"):
            values = self.source.column(name)
            return values if self.rows is None else values[self.rows]
        return in_memory(self._some_columns([place]))[:, 0]

    def drop(self, *names: str) -> LargeTable:
        """Return the table without some columns."""
        left_out = [self._place(name) for name in names]
        return self._some_columns(np.delete(np.arange(self.width), left_out))

    def _place(self, name: str) -> int:
        if name not in (self.names or ()):
            raise KeyError(f"there is no column {name!r}.")
        return self.names.index(name)

    def chosen(self, rows: np.ndarray) -> LargeTable:
        """Return the table of some rows, given by a mask or by increasing numbers."""
        rows = np.arange(len(self))[rows]
        if len(rows) == len(self):
            return self
        rows = rows if self.rows is None else self.rows[rows]
        return dataclasses.replace(self, rows=rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the whole table as an array."""
        return in_memory(self).astype(dtype or self.dtype, copy=False)

    astype = __array__


def in_memory(table: LargeTable) -> np.ndarray:
    """Return the whole table as an array."""
    found = np.empty(table.shape, dtype=table.dtype)
    size = max(1, 2**22 // max(1, table.source.shape[1]))
    for start in range(0, len(table), size):
        found[start : start + size] = table[start : start + size]
    return found


def chosen_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array, or of a large table without reading them."""
    return X.chosen(rows) if isinstance(X, LargeTable) else X[rows]


def large_table(X: Any) -> LargeTable | None:
    """Return X as a large table, or None if it should be read as an ordinary array.

    Memory maps and Arrow tables become a large table if they exceed the working memory.
    Arrow data sets always become a large table.
    """
    if isinstance(X, LargeTable):
        return X
    is_arrow = type(X).__module__.startswith("pyarrow.")
    may_be = is_arrow or (isinstance(X, np.memmap) and X.ndim == 2)
    if not may_be or getattr(X, "nbytes", np.inf) <= working_memory():
        return None
    return wing("files").arrow_table(X) if is_arrow else LargeTable.of(X)
