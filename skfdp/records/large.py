"""Large tables: read in blocks of rows, wherever they lie, and never as a whole."""

from __future__ import annotations

import dataclasses
import mmap
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from skfdp.records.files import working_memory

_TOO_LARGE = (
    "this needs the whole of X in memory, and X takes more than "
    "sklearn.get_config()['working_memory']: raise sklearn.set_config("
    "working_memory=...), in MiB, if it fits, or use a step that reads X in blocks, as "
    "the linear estimators do."
)
_FAILED = (
    "the table cannot be read because a file of it is missing, cut, changed or "
    "damaged, or the disk fails: restore it and fit anew."
)


def read_safely(
    read: Callable[..., Any], *arguments: Any, message: str = _FAILED
) -> Any:
    """Return what a reader returns; its errors become one sentence that quotes nothing.

    The type of an error is left out too, because it may depend on a value.

    Raises
    ------
    OSError
        Instead of any error of a library or of the system.
    """
    try:
        return read(*arguments)
    except MemoryError:
        raise
    except Exception:  # whatever a library raises; it may quote a value
        pass
    # Outside the handler, so that no error that quotes a value is kept as a context.
    raise OSError(message)


class Source(Protocol):
    """The source of the rows of a large table.

    Attributes
    ----------
    shape : (int, int)
    dtype : dtype
        Of numbers.
    on_disk : bool
        Whether the rows lie in a file: then integer rows may lie in one too. What
        somebody holds in memory alone is not written anywhere.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    on_disk: bool

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from `start` to `stop`."""

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by their numbers, which increase."""

    # And where columns are stored one by one, ``selected(names)``, the source of some
    # of them, and ``column(name)``, one of any type as an array.


@dataclasses.dataclass(frozen=True)
class ArraySource:
    """The rows of a memory-mapped array.

    Attributes
    ----------
    array : ndarray of shape (n_rows, n_columns)
    """

    array: np.ndarray
    on_disk: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """Of the numbers."""
        return self.array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from `start` to `stop`."""
        read_safely(_check_uncut, self.array)
        return np.asarray(self.array[start:stop])

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by their numbers."""
        read_safely(_check_uncut, self.array)
        return np.asarray(self.array[rows])


def _check_uncut(array: np.ndarray) -> None:
    """Raise OSError if the file of a memory map has become shorter than the map.

    To read beyond its end would kill the process. A file that is cut during the read
    still does.
    """
    memory = getattr(array, "_mmap", None)
    if memory is not None:
        start = array.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        if memory.size() < start + len(memory):
            raise OSError("the file is shorter than its map")


@dataclasses.dataclass(frozen=True)
class LargeTable:
    """A table of numbers that is read in blocks of rows.

    ``table[10:20]`` and ``table[[3, 5]]`` are arrays of some rows, ``table[:, mask]``
    is the table of some columns, ``table["age"]`` one column as an array, and
    ``table.drop("age")`` the table without it. Nothing is read before it is needed.

    Attributes
    ----------
    source : Source
    names : tuple of str or None
        Of the columns.
    dtype : dtype
    width : int
        Number of columns.
    steps : tuple of callable
        What is done to each block as it is read: functions of each row by itself.
    rows : int64 ndarray of shape (n_rows,) or None
        The rows of the source that are left, increasing; None: every row.
    """

    source: Source
    names: tuple[str, ...] | None
    dtype: np.dtype
    width: int
    steps: tuple[Callable[[np.ndarray], np.ndarray], ...] = ()
    rows: np.ndarray | None = None

    @classmethod
    def of(cls, source: Source, names: Sequence[str] | None = None) -> LargeTable:
        """Return the table of all rows and columns of a source."""
        names = None if names is None else tuple(names)
        return cls(source, names, np.dtype(source.dtype), source.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), self.width

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def nbytes(self) -> int:
        """Bytes of the whole table as an array."""
        return len(self) * self.width * self.dtype.itemsize

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns, None where there are none."""
        return None if self.names is None else list(self.names)

    @property
    def on_disk(self) -> bool:
        """Whether the rows lie in a file."""
        return self.source.on_disk

    def __len__(self) -> int:
        return self.source.shape[0] if self.rows is None else len(self.rows)

    def __repr__(self) -> str:
        return f"LargeTable(shape={self.shape}, dtype={self.dtype.name})"

    def __getitem__(self, index: Any) -> Any:
        """Return some rows or one named column, an array, or a table of columns."""
        if isinstance(index, str):
            return self._column(index)
        if isinstance(index, tuple):
            whole = isinstance(index[0], slice) and index[0] == slice(None)
            some = len(index) == 2 and isinstance(index[1], slice)
            if len(index) != 2 or not whole or not (some or np.ndim(index[1]) == 1):
                raise TypeError(
                    "a large table gives some rows, or all of some columns."
                )
            return self._some_columns(index[1])
        return self._done(self._read(index))

    def _read(self, index: Any) -> np.ndarray:
        """Return some rows as the source has them."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1 and self.rows is None:
                return self.source.read(start, max(start, stop))
            index = np.arange(start, stop, step)
        index = np.asarray(index)
        if index.dtype.kind == "b":
            index = np.flatnonzero(index)
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            raise TypeError("a large table takes slices and numbers of rows.")
        index = index.astype(np.int64, copy=False)
        rows = index if self.rows is None else self.rows[index]
        if len(rows) < 2 or (np.diff(rows) > 0).all():
            return self.source.take(rows)
        found, back = np.unique(rows, return_inverse=True)
        return self.source.take(found)[back]

    def _done(self, block: np.ndarray) -> np.ndarray:
        for step in self.steps:
            block = step(block)
        return block

    def after(
        self, step: Callable[[np.ndarray], np.ndarray], dtype: Any = None
    ) -> LargeTable:
        """Return the table to whose blocks one more thing is done."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        return dataclasses.replace(self, steps=(*self.steps, step), dtype=dtype)

    def _some_columns(self, columns: Any) -> LargeTable:
        places = np.arange(self.width)[columns]
        names = None if self.names is None else tuple(self.names[i] for i in places)
        if not self.steps and hasattr(self.source, "selected"):
            found = LargeTable.of(self.source.selected(list(names)), names)
            return dataclasses.replace(found, rows=self.rows)
        kept = self.after(lambda block: block[:, places])
        return dataclasses.replace(kept, names=names, width=len(places))

    def _column(self, name: str) -> np.ndarray:
        if self.names is None or name not in self.names:
            raise KeyError(f"there is no column {name!r}.")
        if not self.steps and hasattr(self.source, "column"):
            values = self.source.column(name)
            return values if self.rows is None else values[self.rows]
        place = self.names.index(name)
        return in_memory(self._some_columns([place]))[:, 0]

    def drop(self, *names: str) -> LargeTable:
        """Return the table without some columns."""
        for name in names:
            if self.names is None or name not in self.names:
                raise KeyError(f"there is no column {name!r}.")
        return self._some_columns([n not in names for n in self.names or ()])

    def chosen(self, rows: np.ndarray) -> LargeTable:
        """Return the table of some rows, by a mask or by numbers that increase."""
        rows = np.arange(len(self))[rows]
        if len(rows) == len(self):
            return self
        rows = rows if self.rows is None else self.rows[rows]
        return dataclasses.replace(self, rows=rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the whole table, if it is no larger than the working memory.

        One column is one number for each row, and always given.
        """
        if self.width != 1:
            check_whole(self.nbytes)
        return in_memory(self).astype(
            self.dtype if dtype is None else dtype, copy=False
        )

    def astype(self, dtype: Any) -> np.ndarray:
        """Return the whole table, if it is no larger than the working memory."""
        return self.__array__(dtype)


def in_memory(table: LargeTable) -> np.ndarray:
    """Return the whole table as an array."""
    found = np.empty(table.shape, dtype=table.dtype)
    size = max(1, 2**22 // max(1, table.source.shape[1]))
    for start in range(0, len(table), size):
        found[start : start + size] = table[start : start + size]
    return found


def check_whole(n_bytes: int) -> None:
    """Raise MemoryError where the whole of a large table takes too much memory."""
    if n_bytes > working_memory():
        raise MemoryError(_TOO_LARGE)


def whole_table(X: Any) -> Any:
    """Return a large table as an array, and any other one as it is."""
    return np.asarray(X) if isinstance(X, LargeTable) else X


def chosen_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array, or of a large table without a look at them."""
    return X.chosen(rows) if isinstance(X, LargeTable) else X[rows]


def is_on_disk(X: Any) -> bool:
    """Whether what is read in blocks comes from a file."""
    return bool(getattr(X, "on_disk", False))
