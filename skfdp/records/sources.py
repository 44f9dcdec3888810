"""Sources of large tables: files of arrays, Arrow tables and data sets.

Each imports what it needs when it is used, and nothing else needs it.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skfdp.addresses import public
from skfdp.records.checks import shown, unmasked
from skfdp.records.files import working_memory
from skfdp.records.large import ArraySource, LargeTable, read_safely

# About so many entries of an Arrow table or data set are held at once.
_ENTRIES = 2**21
_UNREADABLE = (
    "{given} is no table that can be read in blocks: give a NumPy array of two axes, "
    "such as a memory map, a pyarrow Table or data set, or the path of .npy, .parquet, "
    ".arrow, or of a folder of .parquet or .arrow files."
)
_NOT_OPENED = (
    "{path} cannot be opened as {kind}: it is cut, damaged or of another format, or "
    "holds Python objects; write it anew."
)
#: The format of a file by its suffix, as pyarrow calls it.
_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}


@public("skfdp")
def open_table(table: Any) -> LargeTable:
    """Open a table that may be larger than memory, to be read in blocks of rows.

    Parameters
    ----------
    table : str, path or object
        The path of a ``.npy`` file, of ``.parquet`` or ``.arrow`` files or a folder of
        them; or a NumPy array of two axes, such as a memory map, a pyarrow Table, or a
        pyarrow data set.

    Returns
    -------
    table : LargeTable
        ``table["income"]`` is one column as an array, and ``table.drop("income")`` the
        table without it, which ``fit`` and ``predict`` take as X.

    Raises
    ------
    ValueError
        For what is no such table.
    OSError
        If a file is missing or damaged.

    Notes
    -----
    Nothing is read before it is needed, and never the whole: in a fit of a linear
    model, no more than scikit-learn's ``working_memory`` (MiB, see
    :func:`sklearn.set_config`) beside labels and norms. The integer rows of a table
    that lies in files go into a temporary file without a name if they are larger than
    that; what is in memory, such as a pyarrow Table, is not written to a disk.

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
    """Return X as a table that is read in blocks, None where it is another array.

    Memory maps and Arrow tables become one if they are larger than the working memory;
    data sets in any case.
    """
    if isinstance(X, LargeTable):
        return X
    if isinstance(X, np.memmap):
        large = X.ndim == 2 and X.nbytes > working_memory()
        return LargeTable.of(ArraySource(X)) if large else None
    kind = type(X).__module__.partition(".")[0]
    large = kind == "pyarrow" and getattr(X, "nbytes", np.inf) > working_memory()
    return open_table(X) if large else None


def _opened(path: Path) -> LargeTable:
    """Return the table of a file or folder."""
    kind, told = path.suffix.lower(), shown(str(path))
    if kind == ".npy":
        read = functools.partial(np.load, mmap_mode="r")
    elif path.is_dir() or kind in _FORMATS:
        from pyarrow import dataset

        kind = _format_of_folder(path) if path.is_dir() else _FORMATS[kind]
        read = functools.partial(dataset.dataset, format=kind)
    else:
        raise ValueError(_UNREADABLE.format(given=told))
    if not path.exists():
        raise FileNotFoundError(f"{told} does not exist: check the path.")
    message = _NOT_OPENED.format(path=told, kind=kind)
    return open_table(read_safely(read, path, message=message))


def _format_of_folder(path: Path) -> str:
    """Return the format of the files of a folder, or refuse them by their suffixes.

    Hidden files, and those of other programs such as "_SUCCESS", are left out, as
    pyarrow leaves them out.
    """
    suffixes: set[str] = set()
    for _, folders, files in os.walk(path, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        names = (name for name in files if not name.startswith((".", "_")))
        suffixes |= {Path(name).suffix.lower() for name in names}
    formats = {_FORMATS.get(suffix) for suffix in suffixes}
    if len(formats) == 1 and None not in formats:
        return formats.pop()
    found = ", ".join(suffix or "no suffix" for suffix in sorted(suffixes))
    raise ValueError(
        f"the folder {shown(str(path))} holds files with these suffixes: "
        f"{found or 'none'}; leave only .parquet (.pq) or only .arrow (.feather, .ipc) "
        "files in it."
    )


def _arrow(table: Any) -> LargeTable:
    """Return the table of a pyarrow Table or data set."""
    if not hasattr(table, "schema"):
        raise ValueError(_UNREADABLE.format(given=type(table).__name__))
    names = table.schema.names
    if len(set(names)) < len(names):
        raise ValueError("this table has two columns of one name: rename one of them.")
    held = hasattr(table, "num_rows")
    source = TableSource(table) if held else DatasetSource(table)
    return LargeTable.of(source, names)


class _ArrowSource:
    """Rows of Arrow columns, float32 where that holds them, else float64.

    A missing entry is NaN. Columns that are no numbers may be left out, or read one by
    one, and nothing else. Rows are read a stretch at a time; the last one is kept.
    """

    on_disk = True

    def __init__(self, given: Any, names: list[str], n_rows: int):
        self.names, self._given = names, given
        sizes = {name: self._size_of(name) for name in names}
        self.no_numbers = [name for name in names if sizes[name] is None]
        dtype = np.dtype(np.float64)
        if self.no_numbers:
            dtype = np.dtype(object)
        elif max(sizes.values(), default=8) == 4:
            dtype = np.dtype(np.float32)
        self.shape, self.dtype = (n_rows, len(names)), dtype
        self._size = max(1, _ENTRIES // max(1, len(names)))
        self._last: tuple[int, np.ndarray | None] = -1, None
        self._lock = threading.Lock()

    def _size_of(self, name: str) -> int | None:
        """Return the bytes of the float for a column, None if it is no number."""
        return _float_size(self._given.schema.field(name).type)

    def _fill(self, out: np.ndarray, columns: Any) -> None:
        """Write the columns of an Arrow table, or of a batch of it, into an array."""
        for place, name in enumerate(self.names):
            out[:, place] = _as_array(columns.column(name))

    def _stretch(self, start: int, stop: int) -> np.ndarray:
        raise NotImplementedError

    def _numbered(self, number: int) -> np.ndarray:
        """Return a stretch by its number."""
        with self._lock:
            if self._last[0] != number:
                start = number * self._size
                stop = min(start + self._size, self.shape[0])
                self._last = -1, None  # two are never held
                self._last = number, read_safely(self._stretch, start, stop)
            return self._last[1]

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
        """Return rows by their numbers, which increase."""
        found = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        numbers = rows // self._size
        for number in np.unique(numbers):
            chosen = numbers == number
            found[chosen] = self._numbered(number)[rows[chosen] - number * self._size]
        return found


class TableSource(_ArrowSource):
    """The rows of a pyarrow Table, which is in memory.

    Parameters
    ----------
    table : pyarrow.Table
    names : list of str, default=None
        Columns; None: all.
    """

    on_disk = False

    def __init__(self, table: Any, names: list[str] | None = None):
        names = table.schema.names if names is None else names
        super().__init__(table, names, table.num_rows)

    def selected(self, names: list[str]) -> TableSource:
        """Return the source of some columns."""
        return TableSource(self._given, names)

    def column(self, name: str) -> np.ndarray:
        """Return one column, of any type."""
        return read_safely(_exact_column, [self._given.column(name)])

    def _stretch(self, start: int, stop: int) -> np.ndarray:
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        self._fill(out, self._given.slice(start, stop - start))
        return out


class DatasetSource(_ArrowSource):
    """The rows of a pyarrow data set, in the order of its files.

    Each file is read with its own types, and numbers become floats here: no cell can
    stop a read because another file has another type.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
    names : list of str, default=None
        Columns; None: all.
    whole : DatasetSource, default=None
        The source of all columns, which was checked; None: this one is to be.
    """

    def __init__(
        self,
        dataset: Any,
        names: list[str] | None = None,
        whole: DatasetSource | None = None,
    ):
        if whole is None:
            self._pieces = read_safely(_pieces, dataset)
            schemas = read_safely(_schemas, self._pieces)
            self._types = _types_by_column(dataset, schemas)
        else:
            self._pieces, self._types = whole._pieces, whole._types
        counts = [count for _, count in self._pieces]
        self._starts = np.cumsum([0, *counts[:-1]]).tolist()
        names = dataset.schema.names if names is None else names
        super().__init__(dataset, names, sum(counts))
        # The row that comes next, and what is left of the batches that hold it.
        self._next, self._batches = 0, None

    def _size_of(self, name: str) -> int | None:
        sizes = [_float_size(kind) for kind in self._types[name]]
        return None if None in sizes else max(size or 0 for size in sizes)

    def selected(self, names: list[str]) -> DatasetSource:
        """Return the source of some columns."""
        return DatasetSource(self._given, names, self)

    def column(self, name: str) -> np.ndarray:
        """Return one column, of any type."""

        def parts() -> np.ndarray:
            own = DatasetSource(self._given, [name], self)
            return _exact_column([batch.column(name) for batch in own._scan(0)])

        return read_safely(parts)

    def _stretch(self, start: int, stop: int) -> np.ndarray:
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        piece = bisect.bisect_right(self._starts, start) - 1
        if self._batches is None or not self._starts[piece] <= self._next <= start:
            self._batches = self._scan(piece)
            self._next = self._starts[piece]
        while self._next < stop:
            batch, first = next(self._batches), self._next
            self._next += batch.num_rows
            if self._next > stop:  # the rest is of the next stretch
                rest = batch.slice(stop - first)
                self._batches = itertools.chain([rest], self._batches)
                self._next = stop
            begin = max(start, first)
            if begin < self._next:
                part = batch.slice(begin - first, self._next - begin)
                self._fill(out[begin - start : self._next - start], part)
        return out

    def _scan(self, first: int) -> Iterator[Any]:
        """Yield batches of rows, from a piece on."""
        from pyarrow import dataset

        for piece, _ in self._pieces[first:]:
            options: dict[str, Any] = {}
            if hasattr(piece, "row_groups"):  # by pages: row groups may be large
                options["fragment_scan_options"] = dataset.ParquetFragmentScanOptions(
                    use_buffered_stream=True, pre_buffer=False
                )
            yield from piece.to_batches(
                schema=_own_schema(piece, self._given.schema),
                columns=self.names,
                batch_size=self._size,
                batch_readahead=0,
                fragment_readahead=0,
                use_threads=False,
                **options,
            )


def _pieces(dataset: Any) -> list[tuple[Any, int]]:
    """Return what a data set is read from, row groups of Parquet, and their rows."""
    found = []
    for fragment in dataset.get_fragments():
        groups = getattr(fragment, "row_groups", None)
        if groups:
            for group in groups:
                piece = fragment.subset(row_group_ids=[group.id])
                found.append((piece, group.num_rows))
        else:
            found.append((fragment, fragment.count_rows()))
    return found


def _schemas(pieces: Sequence[tuple[Any, int]]) -> list[Any]:
    """Return the schemas of the files."""
    return [piece.physical_schema for piece, _ in pieces]


def _own_schema(piece: Any, schema: Any) -> Any:
    """Return the schema of a data set with the types that a file of it has."""
    own = piece.physical_schema
    for place, field in enumerate(schema):
        if own.get_field_index(field.name) >= 0:
            schema = schema.set(place, own.field(field.name))
    return schema


def _types_by_column(dataset: Any, schemas: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the types that each column has in the files, or refuse them by its name.

    Numbers of any size may be mixed, and text in any form. A file may lack no column,
    unless all do: then its path holds it.

    Raises
    ------
    ValueError
        If a column has types of two kinds, or is not in every file.
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
        if len(kinds) > 1:
            types = ", ".join(map(str, dict.fromkeys(map(str, own))))
            raise ValueError(
                f"column {name!r} has the types {types} in the files of the table: "
                "write one type into all of them."
            )
        found[name] = own
    return found


def _kind_of(kind: Any) -> str:
    """Return what types of two files must have in common to be read together."""
    from pyarrow import types

    if types.is_null(kind):
        return "missing"
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return "number"
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return str(kind)


def _float_size(kind: Any) -> int | None:
    """Return the bytes of the float for an Arrow type, None if it is no number."""
    from pyarrow import types

    if types.is_boolean(kind):
        return 4
    if types.is_integer(kind):
        return 4 if kind.bit_width <= 16 else 8
    if types.is_floating(kind):
        return 4 if kind.bit_width <= 32 else 8
    return 4 if types.is_null(kind) else None


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
    """Return a column of text as objects; bytes that are no UTF-8 become a mark."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return column.to_numpy(zero_copy_only=False)
    except MemoryError:
        raise
    except Exception:  # pyarrow has no error of its own for this
        pass
    wide = "large_binary" if types.is_large_string(column.type) else "binary"
    cells = column.cast(wide).to_pylist()
    texts = [None if cell is None else cell.decode(errors="replace") for cell in cells]
    return np.array(texts, dtype=object)


def _exact_column(parts: Sequence[Any]) -> np.ndarray:
    """Return one column of any type; whole numbers are never made floats."""
    from pyarrow import types

    arrays = []
    for part in parts:
        lossy = types.is_integer(part.type) and part.null_count
        coded = types.is_dictionary(part.type) and _kind_of(part.type) != "text"
        if lossy or coded or types.is_null(part.type):
            arrays.append(np.array(part.to_pylist(), dtype=object))
        else:
            arrays.append(_as_array(part))
    kinds = {array.dtype.kind for array in arrays}
    whole = kinds <= {"u", "i"}
    # Signed and unsigned 64 bits have no common type but floats.
    if len(kinds) > 1 and not (whole and np.result_type(*arrays).kind != "f"):
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays) if arrays else np.empty(0)
