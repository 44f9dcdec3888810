"""Large tables, read in blocks from arrays in files, Arrow tables and data sets.

Optional libraries are imported when they are first used.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import errno
import functools
import glob
import json
import mmap
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn import get_config

from skfdp.addresses import public
from skfdp.data.cells import exact, is_numeric, is_odd, numbers, type_kind
from skfdp.data.target import real
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
    """int16 rows in an anonymous temporary file, which are written and then read.

    Rows are requested in advance, which affects only the speed.

    Notes
    -----
    **Guarantees.** On Linux the file never has a name. On other systems the name is
    deleted before the first row is written (on Windows, when the process exits). No
    other user may open the file. When the file is deleted, its space on the disk is
    freed, but not overwritten.
    """

    def __init__(self, n_columns: int):
        self._n_columns, self._row_bytes = n_columns, 2 * n_columns
        self._file = tempfile.TemporaryFile(buffering=2**20)
        self._memory: Any = None

    def write(self, rows: np.ndarray) -> None:
        """Append some rows; raise OSError if the disk is full."""
        with _in_words():
            self._file.write(np.ascontiguousarray(rows, dtype=np.int16).data)

    def read(self) -> np.ndarray:
        """Return a read-only memory map of the rows, when all are written."""
        with _in_words():
            self._file.flush()
        with self._file:
            self._memory = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._memory, np.int16).reshape(-1, self._n_columns)

    def stretches(
        self, batch: np.ndarray | None, start: int, stop: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the start and stop of each part of ``batch[start:stop]``.

        `batch` has increasing row numbers; None means every row. Before a part is
        yielded, the next one is requested from the system.
        """
        whole = batch is None
        size = max(1, _STRETCH // self._row_bytes) if whole else _MEMBERS
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
            far = np.diff(rows) * self._row_bytes > _GAP
            begins, ends = rows[np.r_[True, far]], rows[np.r_[far, True]] + 1
        pages = begins * self._row_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        stops = ends * self._row_bytes
        for begin, end in zip(pages.tolist(), stops.tolist(), strict=True):
            for piece in range(begin, end, _PIECE):
                self._advise("MADV_WILLNEED", piece, min(_PIECE, end - piece))

    def _advise(self, name: str, *place: int) -> None:
        """Give the system a hint about memory access, if it supports hints."""
        if hasattr(mmap, name):
            with contextlib.suppress(OSError):
                self._memory.madvise(getattr(mmap, name), *place)


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Replace the error of a full disk by one that names the folder and a remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (_no_room() if full else error) from None


# Large tables, which are read in blocks of rows and never as a whole.


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


# A `LargeTable` reads from a source: a two-dimensional array, such as a memory map, or
# an object with `shape`, `dtype`, and ``source[rows]`` for a slice of rows or for
# increasing row numbers. If its rows are in a file, it has a true attribute `on_disk`.
# Only then may integer rows be written to a temporary file. A source whose columns are
# stored separately also has `selected(names)`, which returns the source of some
# columns, and `column(name)`, which returns a column of any type as an array.


def _check_uncut(array: Any) -> None:
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
    """

    #: An array, an `ArrowSource` or `CodedRows`.
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
    #: Whether public columns may become one array only within the working memory.
    is_limited: bool = True

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
    def columns(self) -> list[str] | None:
        """Names of the columns, or None without names."""
        return None if self.names is None else list(self.names)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in a file."""
        return getattr(self.source, "on_disk", isinstance(self.source, np.memmap))

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
        read_safely(_check_uncut, self.source)
        return np.asarray(self.source[rows])

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
        """Return the whole table as an array; raise MemoryError if it is too large.

        The limit is scikit-learn's working memory. A table of one column is always
        returned.
        """
        if self.width != 1:
            check_whole(len(self) * self.width * self.dtype.itemsize)
        return in_memory(self).astype(dtype or self.dtype, copy=False)

    astype = __array__


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
        raise MemoryError(
            "this needs the whole of X in memory, but X is larger than "
            "sklearn.get_config()['working_memory']: if X fits into memory, raise this "
            "limit by sklearn.set_config(working_memory=...), in MiB; otherwise use a "
            "step that reads X in blocks, as the linear estimators do."
        )


def chosen_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array, or of a large table without reading them."""
    return X.chosen(rows) if isinstance(X, LargeTable) else X[rows]


# Number of entries of an Arrow table or data set that are in memory at once.
_ENTRIES_AT_ONCE = 2**21
_UNREADABLE_FILE = (
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
        return LargeTable.of(table)
    raise ValueError(_UNREADABLE_FILE.format(given=type(table).__name__))


def large_table(X: Any) -> LargeTable | None:
    """Return X as a large table, or None if it should be read as an ordinary array.

    Memory maps and Arrow tables become a large table if they exceed the working memory.
    Arrow data sets always become a large table.
    """
    large = isinstance(X, LargeTable)
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
        raise ValueError(_UNREADABLE_FILE.format(given=given))
    if not path.exists():
        raise FileNotFoundError(f"{given} does not exist: check the path.")
    message = _NOT_OPENED.format(path=given, kind=kind)
    return open_table(read_safely(read, source, message=message))


def _files_of_folder(path: Path) -> tuple[str, list[str]]:
    """Return the common format of the files in a folder, and their paths in order.

    Files are ordered by the numbers in their names, as Dask names them. Files whose
    names start with "." or "_", such as "_SUCCESS", are ignored, as in pyarrow.
    """
    given = shown(str(path))
    names = sorted(
        name
        for name in glob.glob("**", root_dir=path, recursive=True)
        if (path / name).is_file() and not re.search(r"(^|[/\\])_", name)
    )
    if any("=" in str(Path(name).parent) for name in names):
        raise ValueError(
            f"the folder {given} has folders with a column in their name, such as "
            "region=north: write this column into the files, because names of folders "
            "are not read."
        )
    suffixes = sorted({Path(name).suffix.lower() for name in names})
    formats = {FORMATS.get(suffix) for suffix in suffixes}
    if len(formats) != 1 or None in formats:
        found = ", ".join(suffix or "no suffix" for suffix in suffixes) or "none"
        raise ValueError(
            f"the folder {given} holds files with these suffixes: {found}; leave only "
            ".parquet (.pq) or only .arrow (.feather, .ipc) files in it."
        )

    def by_numbers(name: str) -> list:
        return [int(p) if p.isdigit() else p for p in re.split("([0-9]+)", name)]

    ordered = sorted(names, key=by_numbers)
    if ordered != names:
        first = ", ".join(map(repr, ordered[:3]))
        warn_caller(
            f"the {len(ordered)} files of {given} are read in the order of the numbers "
            f"in their names: {first}, ..., {ordered[-1]!r}. Pass y and groups in this "
            "order.",
            UtilityWarning,
        )
    return formats.pop(), [str(path / name) for name in ordered]


def _arrow(table: Any) -> LargeTable:
    """Return a `LargeTable` that reads a pyarrow Table or data set."""
    if not (hasattr(table, "num_rows") or hasattr(table, "get_fragments")):
        raise ValueError(_UNREADABLE_FILE.format(given=type(table).__name__))
    names = table.schema.names
    if len(set(names)) < len(names):
        raise ValueError("this table has two columns with one name: rename one column.")
    # A Table is in memory, a data set in files.
    if held := hasattr(table, "num_rows"):
        from pyarrow import dataset

        table = dataset.dataset(table)
    index = stored_index(table.schema)
    names = [name for name in names if name not in index]
    source = ArrowSource(table.schema, read_safely(_pieces, table), not held, names)
    return LargeTable.of(source, names)


def stored_index(schema: Any) -> set[str]:
    """Return the columns that pandas stored as the index of its rows.

    pandas reads them as the index again, and not as columns. They are often
    identifiers.
    """
    stored = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return {name for name in stored.get("index_columns", ()) if isinstance(name, str)}


def _pieces(dataset: Any) -> list[tuple[Any, int]]:
    """Return the pieces of a data set, such as row groups, and their sizes in rows."""
    found: list[tuple[Any, int]] = []
    for file in dataset.get_fragments():
        groups = getattr(file, "row_groups", None) or ()
        parts = [(file.subset(row_group_ids=[g.id]), g.num_rows) for g in groups]
        found += parts or [(file, file.count_rows())]
    return found


class ArrowSource:
    """Source of a `LargeTable`: a pyarrow data set, in the order of its files.

    Rows are float64, and a missing entry is NaN. A column that is not numeric can only
    be left out, or read as a single column. Each file is read with its own types, and
    each cell by itself. So if a column is text in some files, its cells there are read
    as numbers. Rows are read in batches; the last batch stays in memory.

    `schema` is that of the data set, `pieces` are those of `_pieces`, and `names` the
    columns.
    """

    def __init__(self, schema: Any, pieces: list, on_disk: bool, names: list[str]):
        self._schema, self._pieces = schema, pieces
        self.on_disk, self.names = on_disk, names
        own = read_safely(lambda: {piece.physical_schema for piece, _ in pieces})
        every = dict.fromkeys(name for one in (schema, *own) for name in one.names)
        kinds = {name: _kinds(name, schema, own) for name in every}
        #: Names of the columns that are not numeric.
        self.no_numbers = [n for n in names if kinds[n] and "number" not in kinds[n]]
        self.dtype = np.dtype(object if self.no_numbers else np.float64)
        self._starts = np.cumsum([0, *(count for _, count in pieces)]).tolist()
        self.shape = self._starts.pop(), len(names)
        self._lock = threading.Lock()
        # The last batch, the number of its first row and of the next, later batches.
        self._rows, self._first, self._next = None, 0, -1
        self._batches: Iterator[Any] = iter(())

    def selected(self, names: list[str]) -> ArrowSource:
        """Return the source of some columns."""
        return ArrowSource(self._schema, self._pieces, self.on_disk, names)

    def column(self, name: str) -> np.ndarray:
        """Return one column, of any type; integers do not become floats."""
        batches = self.selected([name])._scan(0)
        parts = read_safely(lambda: [exact(batch.column(0)) for batch in batches])
        # A common type of two kinds of numbers may be a float.
        if len({part.dtype.kind for part in parts}) > 1:
            parts = [part.astype(object) for part in parts]
        return np.concatenate(parts or [np.empty(0)])

    def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop)
        found, done = np.empty((len(rows), self.shape[1]), dtype=self.dtype), 0
        with self._lock:
            while done < len(rows):
                read_safely(self._seek, int(rows[done]))
                end = int(np.searchsorted(rows, self._next))
                found[done:end] = self._rows[rows[done:end] - self._first]
                done = end
        return found

    def _seek(self, row: int) -> None:
        """Read the batch with a row, unless it was read last."""
        if self._first <= row < self._next:
            return
        # A read after one that failed starts again, and the last batch is freed first.
        end, self._next, self._rows = self._next, -1, None
        piece = bisect.bisect_right(self._starts, row) - 1
        if not self._starts[piece] <= end <= row:
            end, self._batches = self._starts[piece], self._scan(piece)
        while end <= row:
            batch = next(self._batches)
            first, end = end, end + batch.num_rows
        read = exact if self.no_numbers else _floats
        rows = np.empty((batch.num_rows, self.shape[1]), dtype=self.dtype)
        for place, column in enumerate(batch.columns):
            rows[:, place] = read(column)
        self._rows, self._first, self._next = rows, first, end

    def _scan(self, first: int) -> Iterator[Any]:
        """Yield the rows in batches, beginning with the piece number `first`."""
        import pyarrow
        from pyarrow import dataset

        for piece, _ in self._pieces[first:]:
            options: dict[str, Any] = {}
            if hasattr(piece, "row_groups"):  # stream, because row groups may be large
                options["fragment_scan_options"] = dataset.ParquetFragmentScanOptions(
                    use_buffered_stream=True, pre_buffer=False
                )
            own = piece.physical_schema
            types = [
                own.field(f.name) if f.name in own.names else f for f in self._schema
            ]
            yield from piece.to_batches(
                schema=pyarrow.schema(types),
                columns=self.names,
                batch_size=max(1, _ENTRIES_AT_ONCE // max(1, len(self.names))),
                batch_readahead=0,
                fragment_readahead=0,
                use_threads=False,
                **options,
            )


def _kinds(name: str, schema: Any, own: Collection[Any]) -> set[str]:
    """Return the kinds of values of a column in the files; refuse a mixture.

    Different types of one kind may occur. A column of numbers may be text in some
    files, because one cell of such a file may be no number. A column must be in all
    files, or in none if its values come from the paths of files.
    """
    fields = [one.field(name) for one in own if name in one.names]
    if fields and len(fields) < len(own):
        raise ValueError(
            f"column {name!r} is in some files of the table and not in others: write "
            "it into all of them, or into none."
        )
    fields = fields or [schema.field(name)]
    found = {"number" if is_numeric(one) else type_kind(one) for one in fields} - {""}
    if len(found) > 1 and found != {"number", "text"}:
        types = ", ".join({str(one.type): None for one in fields})
        raise ValueError(
            f"column {name!r} has the types {types} in the files of the table: write "
            "one type into all of them."
        )
    return found


def _floats(column: Any) -> np.ndarray:
    """Return an Arrow column as float64; missing numbers are NaN."""
    if is_numeric(column) and not is_odd(column):
        return column.cast("double", safe=False).to_numpy(zero_copy_only=False)
    return numbers(column, real, infinite=1.0)
