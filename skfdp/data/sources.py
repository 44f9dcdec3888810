"""Large tables, read in blocks from arrays in files, Arrow tables and data sets.

Optional libraries are imported when they are first used.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import errno
import functools
import itertools
import json
import mmap
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config

from skfdp.addresses import public
from skfdp.data.target import each, real
from skfdp.data.validation import UtilityWarning, unmasked, warn_caller
from skfdp.privacy.checks import shown

# Private integer rows go to an anonymous temporary file, which is read through a memory
# map. The system deletes the file when the process exits.

# Number of bytes that a pass reads ahead, and bytes of one request to the system.
_STRETCH, _PIECE = 2**25, 2**19
# Two rows of a batch are requested together if at most this many bytes separate them.
_GAP = 2**15
# Number of rows of a batch that are read ahead.
_MEMBERS = 2**12
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

    Centred rows are written beside those before. The check depends on the shape of the
    table alone, and is made before any charge.
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


class RowFile:
    """Writer of int16 rows to an anonymous temporary file.

    Notes
    -----
    **Guarantees.** On Linux the file never has a name. On other systems the name is
    deleted before the first row is written (on Windows, when the process exits). No
    other user may open the file. When the file is deleted, its space on the disk is
    freed, but not overwritten.
    """

    def __init__(self, n_columns: int):
        self._n_columns = n_columns
        self._file = tempfile.TemporaryFile(buffering=2**20)

    def write(self, rows: np.ndarray) -> None:
        """Append some rows; raise OSError if the disk is full."""
        with _in_words():
            self._file.write(np.ascontiguousarray(rows, dtype=np.int16).data)

    def read(self) -> tuple[np.ndarray, Prefetcher]:
        """Return a read-only memory map of the rows, and a reader for it."""
        with _in_words():
            self._file.flush()
        with self._file:
            memory = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        values = np.frombuffer(memory, dtype=np.int16).reshape(-1, self._n_columns)
        return values, Prefetcher(memory, 2 * self._n_columns)


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Replace the error of a full disk by one that names the folder and a remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (_no_room() if full else error) from None


@dataclasses.dataclass(frozen=True)
class Prefetcher:
    """Requests of memory-mapped rows in advance; they affect only the speed.

    `memory` is the map of the file, and `row_bytes` the size of a row.
    """

    memory: mmap.mmap
    row_bytes: int

    def stretches(
        self, batch: np.ndarray | None, start: int, stop: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the start and stop of each part of ``batch[start:stop]``.

        `batch` has increasing row numbers; None means every row. Before a part is
        yielded, the next one is requested from the system.
        """
        whole = batch is None
        size = max(1, _STRETCH // self.row_bytes) if whole else _MEMBERS
        self._advise("MADV_SEQUENTIAL" if whole else "MADV_RANDOM")
        self._ask(batch, start, min(start + size, stop))
        for first in range(start, stop, size):
            last = min(first + size, stop)
            self._ask(batch, last, min(last + size, stop))
            yield first, last

    def _ask(self, batch: np.ndarray | None, first: int, last: int) -> None:
        """Request the rows of ``batch[first:last]`` from the system, in pieces."""
        if first == last:
            return
        begins, ends = np.array([first]), np.array([last])
        if batch is not None:
            rows = batch[first:last]
            far = np.diff(rows) * self.row_bytes > _GAP
            begins, ends = rows[np.r_[True, far]], rows[np.r_[far, True]] + 1
        pages = begins * self.row_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        stops = ends * self.row_bytes
        for begin, end in zip(pages.tolist(), stops.tolist(), strict=True):
            for piece in range(begin, end, _PIECE):
                self._advise("MADV_WILLNEED", piece, min(_PIECE, end - piece))

    def _advise(self, name: str, *place: int) -> None:
        """Give the system a hint about memory access, if it supports hints."""
        if hasattr(mmap, name):
            with contextlib.suppress(OSError):
                self.memory.madvise(getattr(mmap, name), *place)


# Large tables, which are read in blocks of rows and never as a whole.


_TOO_LARGE = (
    "this needs the whole of X in memory, but X is larger than sklearn.get_config()["
    "'working_memory']: if X fits into memory, raise this limit by sklearn.set_config("
    "working_memory=...), in MiB; otherwise use a step that reads X in blocks, as the "
    "linear estimators do."
)
_FAILED = (
    "the table cannot be read because one of its files is missing, truncated, changed "
    "or damaged, or the disk fails: restore the file and fit again."
)


def read_safely(
    read: Callable[..., Any], *arguments: Any, message: str = _FAILED
) -> Any:
    """Call a reader, and replace every error by one OSError that quotes no value.

    The type of the error is hidden too, because it may depend on a value.
    """
    try:
        return read(*arguments)
    except MemoryError:
        raise
    except Exception:  # any error of a library may quote a value
        pass
    # Raised outside the handler: the original error may quote a value, and must not be
    # attached as context.
    raise OSError(message)


# A `LargeTable` reads from a source. A source has `shape`, `dtype`, `on_disk`,
# `read(start, stop)`, and `take(rows)` for increasing row numbers. `on_disk` is whether
# the rows are in a file. Only then may integer rows be written to a temporary file. A
# source whose columns are stored separately also has `selected(names)`, which returns
# the source of some columns, and `column(name)`, which returns a column of any type as
# an array.


class ArraySource:
    """Source of a `LargeTable`: a two-dimensional array, such as a memory map."""

    def __init__(self, array: np.ndarray, on_disk: bool = True):
        self._array, self.on_disk = array, on_disk
        self.shape, self.dtype = array.shape, array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from `start` to `stop`."""
        return self.take(slice(start, stop))

    def take(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return rows by their numbers, or a slice of rows."""
        read_safely(_check_uncut, self._array)
        return np.asarray(self._array[rows])


def _check_uncut(array: np.ndarray) -> None:
    """Raise OSError if the file of a memory map has become shorter than the map.

    Reading beyond the end of the file would kill the process. This can still happen if
    the file is truncated during a read.
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
    ``table.drop("age")`` the table without it. Rows are read when they are needed.

    Attributes
    ----------
    source : ArraySource or ArrowSource
    names : tuple of str or None
        Names of the columns.
    dtype : dtype
    width : int
        Number of columns.
    steps : tuple of callable
        Functions that are applied to each block after reading, in order. They treat
        each row separately.
    rows : int64 ndarray of shape (n_rows,) or None
        Increasing numbers of the selected rows of the source; None: every row.
    """

    source: Any
    names: tuple[str, ...] | None
    dtype: np.dtype
    width: int
    steps: tuple[Callable[[np.ndarray], np.ndarray], ...] = ()
    rows: np.ndarray | None = None

    ndim: ClassVar[int] = 2

    @classmethod
    def of(cls, source: Any, names: Sequence[str] | None = None) -> LargeTable:
        """Return the table of all rows and columns of a source."""
        names = None if names is None else tuple(names)
        return cls(source, names, np.dtype(source.dtype), source.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns."""
        return len(self), self.width

    @property
    def nbytes(self) -> int:
        """Bytes of the whole table as an array."""
        return len(self) * self.width * self.dtype.itemsize

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns, or None without names."""
        return None if self.names is None else list(self.names)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in a file."""
        return self.source.on_disk

    def __len__(self) -> int:
        return self.source.shape[0] if self.rows is None else len(self.rows)

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
                    "a large table supports an index of rows, or [:, columns]."
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
                return self.source.read(start, max(start, stop))
            index = np.arange(start, stop, step)
        index = np.asarray(index)
        if index.dtype.kind == "b":
            index = np.flatnonzero(index)
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            raise TypeError("rows of a large table must be a slice or row numbers.")
        index = index.astype(np.int64, copy=False)
        rows = index if self.rows is None else self.rows[index]
        if len(rows) < 2 or (np.diff(rows) > 0).all():
            return self.source.take(rows)
        found, back = np.unique(rows, return_inverse=True)
        return self.source.take(found)[back]

    def after(
        self, step: Callable[[np.ndarray], np.ndarray], dtype: Any = None
    ) -> LargeTable:
        """Return the table with one more function applied to each block."""
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
        self._check_name(name)
        if not self.steps and hasattr(self.source, "column"):
            values = self.source.column(name)
            return values if self.rows is None else values[self.rows]
        return in_memory(self._some_columns([self.names.index(name)]))[:, 0]

    def drop(self, *names: str) -> LargeTable:
        """Return the table without some columns."""
        for name in names:
            self._check_name(name)
        return self._some_columns([n not in names for n in self.names or ()])

    def _check_name(self, name: str) -> None:
        if self.names is None or name not in self.names:
            raise KeyError(f"there is no column {name!r}.")

    def chosen(self, rows: np.ndarray) -> LargeTable:
        """Return the table of some rows, given by a mask or by increasing numbers."""
        rows = np.arange(len(self))[rows]
        if len(rows) == len(self):
            return self
        rows = rows if self.rows is None else self.rows[rows]
        return dataclasses.replace(self, rows=rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the whole table as an array; raise MemoryError if it is too large.

        The limit is scikit-learn's working memory. A table of one column is always
        returned.
        """
        if self.width != 1:
            check_whole(self.nbytes)
        dtype = self.dtype if dtype is None else dtype
        return in_memory(self).astype(dtype, copy=False)

    def astype(self, dtype: Any) -> np.ndarray:
        """Return the whole table in a dtype; raise MemoryError if it is too large."""
        return self.__array__(dtype)


def in_memory(table: LargeTable) -> np.ndarray:
    """Return the whole table as an array."""
    found = np.empty(table.shape, dtype=table.dtype)
    size = max(1, 2**22 // max(1, table.source.shape[1]))
    for start in range(0, len(table), size):
        found[start : start + size] = table[start : start + size]
    return found


def check_whole(n_bytes: int) -> None:
    """Raise MemoryError if a number of bytes exceeds the working memory."""
    if n_bytes > working_memory():
        raise MemoryError(_TOO_LARGE)


def whole_table(X: Any) -> Any:
    """Return a large table as an array, and any other table unchanged."""
    return np.asarray(X) if isinstance(X, LargeTable) else X


def chosen_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array, or of a large table without reading them."""
    return X.chosen(rows) if isinstance(X, LargeTable) else X[rows]


# Number of entries of an Arrow table or data set that are in memory at once.
_ENTRIES = 2**21
_UNREADABLE = (
    "{given} is not a table that can be read in blocks: pass a two-dimensional NumPy "
    "array, such as a memory map, a pyarrow Table or data set, or the path of a .npy, "
    ".parquet or .arrow file, or of a folder of .parquet or .arrow files."
)
_NOT_OPENED = (
    "{path} cannot be opened as {kind}: it is truncated, damaged or of another format, "
    "or holds Python objects; write the file again."
)
#: The format of a file by its suffix, as pyarrow calls it.
FORMATS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "ipc"),
}


@public("skfdp")
def open_table(table: Any) -> LargeTable:
    """Open a table that may be larger than memory, to be read in blocks of rows.

    Parameters
    ----------
    table : str, path or object
        The path of a ``.npy``, ``.parquet`` or ``.arrow`` file, or of a folder of
        ``.parquet`` or ``.arrow`` files. It may also be a pyarrow Table, a pyarrow data
        set, or a two-dimensional NumPy array such as a memory map.

    Returns
    -------
    table : LargeTable
        The table, which ``fit`` and ``predict`` accept as X. ``table["income"]`` is a
        column as an array, and ``table.drop("income")`` the table without it.

    Raises
    ------
    ValueError
        If the argument is none of these.
    OSError
        If a file is missing or damaged.

    Notes
    -----
    Blocks of rows are read when they are needed. Besides labels and norms, a fit of a
    linear model holds at most scikit-learn's ``working_memory`` in memory (in MiB, see
    :func:`sklearn.set_config`). A fit stores rows as 16-bit integers. If the table is
    in files and these integers need more memory than that, they are written to an
    anonymous temporary file. Tables in memory, such as a pyarrow Table, are not written
    to disk.

    Examples
    --------
    >>> import numpy as np, skfdp, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "X.npy"
    >>> np.save(path, np.random.default_rng(0).random((1000, 3)))
    >>> table = skfdp.open_table(path)
    >>> table
    LargeTable(shape=(1000, 3), dtype=float64)
    >>> y = np.random.default_rng(1).integers(0, 2, 1000)
    >>> model = skfdp.DPSGDFClassifier(bounds=(0, 1), random_state=0)
    >>> model.fit(table, y).coef_.shape
    (1, 3)
    """
    if isinstance(table, LargeTable):
        return table
    if isinstance(table, (str, Path)):
        return _opened(Path(table))
    kind = type(table).__module__.partition(".")[0]
    if kind == "pyarrow":
        return _arrow(table)
    if isinstance(table, np.ndarray) and table.ndim == 2:
        table = unmasked(table)
        return LargeTable.of(ArraySource(table, isinstance(table, np.memmap)))
    raise ValueError(_UNREADABLE.format(given=type(table).__name__))


def large_table(X: Any) -> LargeTable | None:
    """Return X as a large table, or None if it should be read as an ordinary array.

    Memory maps and Arrow tables become a large table if they exceed the working memory.
    Arrow data sets always become a large table.
    """
    if isinstance(X, LargeTable):
        return X
    large = False
    if isinstance(X, np.memmap):
        large = X.ndim == 2 and X.nbytes > working_memory()
    elif type(X).__module__.partition(".")[0] == "pyarrow":
        large = getattr(X, "nbytes", np.inf) > working_memory()
    return open_table(X) if large else None


def _opened(path: Path) -> LargeTable:
    """Return the table of a file or folder."""
    kind, given = path.suffix.lower(), shown(str(path))
    source: Any = path
    if kind == ".npy":
        read = functools.partial(np.load, mmap_mode="r")
    elif path.is_dir() or kind in FORMATS:
        from pyarrow import dataset

        kind = FORMATS.get(kind)
        if path.is_dir():
            kind, source = _files_of_folder(path)
        read = functools.partial(dataset.dataset, format=kind)
    else:
        raise ValueError(_UNREADABLE.format(given=given))
    if not path.exists():
        raise FileNotFoundError(f"{given} does not exist: check the path.")
    message = _NOT_OPENED.format(path=given, kind=kind)
    return open_table(read_safely(read, source, message=message))


def _by_numbers(path: str) -> list:
    """Return a key that sorts file names by the numbers in them: 2 before 10."""
    parts = re.split("([0-9]+)", path)
    return [int(part) if part.isdigit() else part for part in parts]


def _files_of_folder(path: Path) -> tuple[str, list[str]]:
    """Return the common format of the files in a folder, and their paths in order.

    Files are ordered by the numbers in their names, as Dask names them. Files whose
    names start with "." or "_", such as "_SUCCESS", are ignored, as in pyarrow.
    """
    found: list[str] = []
    for parent, folders, files in os.walk(path, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        names = (name for name in files if not name.startswith((".", "_")))
        found += [os.path.relpath(os.path.join(parent, name), path) for name in names]
    if any("=" in part for name in found for part in Path(name).parts[:-1]):
        raise ValueError(
            f"the folder {shown(str(path))} has folders with a column in their name, "
            "such as region=north: write this column into the files, because names of "
            "folders are not read."
        )
    suffixes = {Path(name).suffix.lower() for name in found}
    formats = {FORMATS.get(suffix) for suffix in suffixes}
    if len(formats) == 1 and None not in formats:
        ordered = sorted(found, key=_by_numbers)
        if ordered != sorted(found):
            first = ", ".join(map(repr, ordered[:3]))
            warn_caller(
                f"the {len(ordered)} files of {shown(str(path))} are read in the order "
                f"of the numbers in their names: {first}, ..., {ordered[-1]!r}. Pass y "
                "and groups in this order.",
                UtilityWarning,
            )
        return formats.pop(), [os.path.join(path, name) for name in ordered]
    found = ", ".join(suffix or "no suffix" for suffix in sorted(suffixes))
    raise ValueError(
        f"the folder {shown(str(path))} holds files with these suffixes: "
        f"{found or 'none'}; leave only .parquet (.pq) or only .arrow (.feather, .ipc) "
        "files in it."
    )


def _arrow(table: Any) -> LargeTable:
    """Return a `LargeTable` that reads a pyarrow Table or data set."""
    if not (hasattr(table, "num_rows") or hasattr(table, "get_fragments")):
        raise ValueError(_UNREADABLE.format(given=type(table).__name__))
    names = table.schema.names
    if len(set(names)) < len(names):
        raise ValueError("this table has two columns with one name: rename one column.")
    index = stored_index(table.schema)
    names = [name for name in names if name not in index]
    # A Table is in memory, a data set in files.
    if held := hasattr(table, "num_rows"):
        from pyarrow import dataset

        table = dataset.dataset(table)
    return LargeTable.of(ArrowSource(table, not held, names), names)


def stored_index(schema: Any) -> set[str]:
    """Return the columns that pandas stored as the index of its rows.

    pandas reads them as the index again, and not as columns. They are often
    identifiers.
    """
    stored = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return {name for name in stored.get("index_columns", ()) if isinstance(name, str)}


class ArrowSource:
    """Source of a `LargeTable`: a pyarrow data set, in the order of its files.

    Rows are float32 if float32 represents all columns exactly, else float64. A missing
    entry is NaN. A column that is not numeric can only be left out, or read as a single
    column. Each file is read with its own types before numbers become floats, so
    different types in different files do not stop a read. If a column is text in some
    files, its cells there are read as numbers. Rows are read in blocks; the last block
    stays in memory.

    `names` are the columns; None means all columns. `whole` is an earlier source of
    the same data set, with all columns, whose checks are not repeated. If it is None,
    this source checks the data set.
    """

    def __init__(
        self,
        dataset: Any,
        on_disk: bool = True,
        names: list[str] | None = None,
        whole: ArrowSource | None = None,
    ):
        self._given, self.on_disk = dataset, on_disk
        self.names = names = dataset.schema.names if names is None else names
        if whole is None:
            self._pieces = read_safely(_pieces, dataset)
            schemas = read_safely(
                lambda: [piece.physical_schema for piece, _ in self._pieces]
            )
            self._types = _types_by_column(dataset, schemas)
        else:
            self._pieces, self._types = whole._pieces, whole._types
        kinds = {name: set(map(_kind_of, self._types[name])) for name in names}
        self.no_numbers = [n for n in names if kinds[n] - {"number", "missing"}]
        self.no_numbers = [n for n in self.no_numbers if "number" not in kinds[n]]
        types = [kind for name in names for kind in self._types[name]]
        self.dtype = np.dtype(np.float64)
        if self.no_numbers:
            self.dtype = np.dtype(object)
        elif max(map(_float_size, types), default=8) == 4:
            self.dtype = np.dtype(np.float32)
        ends = np.cumsum([0, *(count for _, count in self._pieces)]).tolist()
        self._starts, self.shape = ends[:-1], (ends[-1], len(names))
        self._size = max(1, _ENTRIES // max(1, len(names)))
        self._last: tuple[int, np.ndarray | None] = -1, None
        self._lock = threading.Lock()
        # The number of the next row, and the batches of rows from there on.
        self._next, self._batches = 0, None

    def selected(self, names: list[str]) -> ArrowSource:
        """Return the source of some columns."""
        return ArrowSource(self._given, self.on_disk, names, self)

    def column(self, name: str) -> np.ndarray:
        """Return one column, of any type; integers do not become floats."""

        def read() -> np.ndarray:
            from pyarrow import types

            arrays = []
            for batch in self.selected([name])._scan(0):
                part = batch.column(name)
                lossy = types.is_integer(part.type) and part.null_count
                coded = types.is_dictionary(part.type) and _kind_of(part.type) != "text"
                if lossy or coded or types.is_null(part.type):
                    arrays.append(np.array(part.to_pylist(), dtype=object))
                else:
                    arrays.append(_as_array(part))
            kinds = {array.dtype.kind for array in arrays}
            whole = kinds <= {"u", "i"}
            # The only common type of signed and unsigned 64-bit integers is a float.
            if len(kinds) > 1 and not (whole and np.result_type(*arrays).kind != "f"):
                arrays = [array.astype(object) for array in arrays]
            return np.concatenate(arrays) if arrays else np.empty(0)

        return read_safely(read)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from `start` to `stop`."""
        size, parts = self._size, []
        for number in range(start // size, -(-stop // size)):
            first = number * size
            rows = self._numbered(number)
            parts.append(rows[max(start - first, 0) : stop - first])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts or [np.empty((0, self.shape[1]), self.dtype)])

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by increasing numbers."""
        found = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        numbers = rows // self._size
        for number in np.unique(numbers):
            chosen = numbers == number
            found[chosen] = self._numbered(number)[rows[chosen] - number * self._size]
        return found

    def _numbered(self, number: int) -> np.ndarray:
        """Return the block of rows with this number."""
        with self._lock:
            if self._last[0] != number:
                start = number * self._size
                stop = min(start + self._size, self.shape[0])
                self._last = -1, None  # free the last block before reading the next
                self._last = number, read_safely(self._stretch, start, stop)
            return self._last[1]

    def _stretch(self, start: int, stop: int) -> np.ndarray:
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        piece = bisect.bisect_right(self._starts, start) - 1
        if self._batches is None or not self._starts[piece] <= self._next <= start:
            self._batches = self._scan(piece)
            self._next = self._starts[piece]
        while self._next < stop:
            batch, first = next(self._batches), self._next
            self._next += batch.num_rows
            if self._next > stop:  # the end of the batch belongs to the next block
                rest = batch.slice(stop - first)
                self._batches = itertools.chain([rest], self._batches)
                self._next = stop
            begin = max(start, first)
            if begin < self._next:
                part = batch.slice(begin - first, self._next - begin)
                for place, name in enumerate(self.names):
                    column = _as_array(part.column(name))
                    if column.dtype.kind == "O" and out.dtype.kind == "f":
                        column = each(column, real)
                    out[begin - start : self._next - start, place] = column
        return out

    def _scan(self, first: int) -> Iterator[Any]:
        """Yield the rows in batches, beginning with the piece number `first`."""
        from pyarrow import dataset

        for piece, _ in self._pieces[first:]:
            options: dict[str, Any] = {}
            if hasattr(piece, "row_groups"):  # stream, because row groups may be large
                options["fragment_scan_options"] = dataset.ParquetFragmentScanOptions(
                    use_buffered_stream=True, pre_buffer=False
                )
            # Use the column types of this file.
            schema, own = self._given.schema, piece.physical_schema
            for place, field in enumerate(schema):
                if own.get_field_index(field.name) >= 0:
                    schema = schema.set(place, own.field(field.name))
            yield from piece.to_batches(
                schema=schema,
                columns=self.names,
                batch_size=self._size,
                batch_readahead=0,
                fragment_readahead=0,
                use_threads=False,
                **options,
            )


def _pieces(dataset: Any) -> list[tuple[Any, int]]:
    """Return the pieces of a data set, such as row groups, and their sizes in rows."""
    found = []
    for fragment in dataset.get_fragments():
        groups = getattr(fragment, "row_groups", None)
        for group in groups or ():
            piece = fragment.subset(row_group_ids=[group.id])
            found.append((piece, group.num_rows))
        if not groups:
            found.append((fragment, fragment.count_rows()))
    return found


def _types_by_column(dataset: Any, schemas: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the types that each column has in the files; refuse a mixture of kinds.

    Different numeric types may occur in one column, and so may different text types. A
    column of numbers may be text in some files, because one cell of such a file may be
    no number. A column must be in all files, or in none if its values come from the
    paths of files.
    """
    names = list(dataset.schema.names)
    names += sorted({name for one in schemas for name in one.names} - set(names))
    found: dict[str, list[Any]] = {}
    for name in names:
        own = [one.field(name).type for one in schemas if name in one.names]
        if own and len(own) < len(schemas):
            raise ValueError(
                f"column {name!r} is in some files of the table and not in others: "
                "write it into all of them, or into none."
            )
        if not own:
            own = [dataset.schema.field(name).type]
        kinds = dict.fromkeys(_kind_of(kind) for kind in own)
        kinds.pop("missing", None)
        if len(kinds) > 1 and kinds.keys() != {"number", "text"}:
            types = ", ".join(map(str, dict.fromkeys(map(str, own))))
            raise ValueError(
                f"column {name!r} has the types {types} in the files of the table: "
                "write one type into all of them."
            )
        found[name] = own
    return found


def _kind_of(kind: Any) -> str:
    """Return the kind of an Arrow type; a column may have several types of one kind."""
    from pyarrow import types

    if types.is_null(kind):
        return "missing"
    whole = types.is_boolean(kind) or types.is_integer(kind)
    if whole or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return str(kind)


def _float_size(kind: Any) -> int:
    """Return 4 if float32 represents all values of an Arrow type exactly, else 8."""
    if _kind_of(kind) != "number":
        return 4 if _kind_of(kind) == "missing" else 8
    from pyarrow import types

    narrow = 16 if types.is_integer(kind) else 32
    return 4 if kind.bit_width <= narrow else 8


def _as_array(column: Any) -> np.ndarray:
    """Return an Arrow column as an array; missing numbers are NaN."""
    from pyarrow import types

    if types.is_boolean(column.type):
        column = column.cast("uint8")
    if types.is_null(column.type):
        return np.full(len(column), np.nan)
    if _kind_of(column.type) == "text":
        return arrow_texts(column)
    return column.to_numpy(zero_copy_only=False)


def arrow_texts(column: Any) -> np.ndarray:
    """Return a column of text as objects; invalid UTF-8 becomes U+FFFD."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return column.to_numpy(zero_copy_only=False)
    except MemoryError:
        raise
    except Exception:  # pyarrow has no specific error for invalid UTF-8
        pass
    wide = "large_binary" if types.is_large_string(column.type) else "binary"
    cells = column.cast(wide).to_pylist()
    texts = [None if cell is None else cell.decode(errors="replace") for cell in cells]
    return np.array(texts, dtype=object)
