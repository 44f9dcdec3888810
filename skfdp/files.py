"""Read files: large tables in blocks, tables of a schema, and drafts of schemas.

Optional libraries are imported when they are first used.
"""

from __future__ import annotations

import bisect
import fnmatch
import functools
import glob
import json
import os
import re
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skfdp.addresses import public
from skfdp.data.cells import exact, is_numeric, is_odd, numbers, type_kind
from skfdp.data.column_types import (
    Boolean,
    Category,
    Date,
    Ignore,
    Label,
    Number,
    SchemaError,
    Unknown,
    pandas_for,
)
from skfdp.data.sources import LargeTable, large_table
from skfdp.data.target import TAKEN_FOR_MISSING, real, text_of
from skfdp.data.validation import UtilityWarning, read_safely, unmasked, warn_caller
from skfdp.privacy.checks import shown
from skfdp.schema import OpenTable, TableSchema, names_of, plain_text, suffix_of

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
    Blocks of rows are read when they are needed. Besides labels, norms and the columns
    that a public model learns from, a fit of a linear model holds at most
    scikit-learn's ``working_memory`` in memory (in MiB, see
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
    if isinstance(table, (str, Path)):
        return _opened(Path(table))
    if type(table).__module__.partition(".")[0] == "pyarrow":
        return arrow_table(table)
    if isinstance(table, np.ndarray) and table.ndim == 2:
        return LargeTable.of(unmasked(table))
    if (found := large_table(table)) is not None:
        return found
    raise ValueError(_UNREADABLE_FILE.format(given=type(table).__name__))


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

    # Texts and numbers take turns, and the first is a text.
    parts = {name: re.split("([0-9]+)", name) for name in names}
    ordered = sorted(
        names, key=lambda n: [int(p) if i % 2 else p for i, p in enumerate(parts[n])]
    )
    if ordered != names:
        first = ", ".join(map(repr, ordered[:3]))
        warn_caller(
            f"the {len(ordered)} files of {given} are read in the order of the numbers "
            f"in their names: {first}, ..., {ordered[-1]!r}. Pass y and groups in this "
            "order.",
            UtilityWarning,
        )
    return formats.pop(), [str(path / name) for name in ordered]


def arrow_table(table: Any) -> LargeTable:
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


# Tables of a schema in CSV, Parquet and Arrow files.

#: The column type that a draft proposes for each kind of stored type.
_OF_KINDS: dict[str, type] = {
    **{"boolean": Boolean, "date": Date, "period": Date, "other": Ignore},
    "text": Category,
    **dict.fromkeys(("integer", "number", "duration", "time"), Number),
}
#: First bytes of files that are not CSV, and what to do.
_NO_CSV = {
    b"PAR1\x15": "a Parquet file: give its name the ending .parquet",
    b"ARROW1\0": "an Arrow file: give its name the ending .arrow",
    b"PK\3\4": "an Excel or ZIP file: save the sheet as 'CSV UTF-8', or unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel file: save the sheet as 'CSV UTF-8'",
    **dict.fromkeys(
        (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd"), "compressed: unpack it"
    ),
    b"SQLite format 3": "a database: export the table as CSV",
    b"\x93NUMPY": "a NumPy file: write it as CSV with a line of names",
    b"%PDF-": "a PDF file: write the table as CSV",
    b"{": "JSON: convert it to CSV",
    b"[": "JSON: convert it to CSV (if it is CSV, put the first name in quotes)",
    b"<": "HTML or XML: convert it to CSV (if it is CSV, put the first name in quotes)",
}
#: Replaces bytes that are not valid in the encoding.
_REPLACED = "\N{REPLACEMENT CHARACTER}"


def _is_csv(table: Any) -> bool:
    return isinstance(table, (str, os.PathLike)) and suffix_of(table) not in FORMATS


def opened_file(path: str | os.PathLike, schema: TableSchema) -> OpenTable:
    """Open a CSV, Parquet or Arrow file; `schema` has the format of CSV files."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise SchemaError(
            f"{str(path)!r} is a pipe or a device, and a table is read several "
            "times: write the table to a file first."
        )
    if not _is_csv(path):
        columns = functools.partial(_arrow_columns, path)
        return OpenTable(columns([]), lambda names: names and columns(names), True)
    _check_first_bytes(path)
    # pandas renames columns: the second "1" to "1.1", and "" to "Unnamed: 4".
    rows = _raw_csv(schema, path, nrows=0)
    found = [*map(str, rows.columns)]
    if any(_REPLACED in name or "\0" in name for name in found):
        raise _not_decoded(schema, path, "its first line")
    first = [*_raw_csv(schema, path, nrows=1, header=None).iloc[0]]
    for name in schema._named:
        if first.count(name) > 1 and f"{name}.1" not in schema.columns:
            raise SchemaError(f"{str(path)!r} has two columns {name!r}: rename one.")

    @functools.cache
    def cells() -> Any:
        # In a file of one column an empty line is a record with an empty cell.
        return _raw_csv(schema, path, skip_blank_lines=len(found) > 1)

    def read(names: list[str]) -> Any:
        for name in names:
            is_public = getattr(schema.columns.get(name), "public", True)
            if is_public and any(_REPLACED in text for text in cells()[name].unique()):
                raise _not_decoded(schema, path, f"its column {name!r}")
        return names and cells()[names]

    nameless = [*filter(re.compile(r"Unnamed: \d+$").match, found)]
    return OpenTable(rows, read, True, repr(str(path)), nameless)


def _arrow_columns(path: str | os.PathLike, names: Sequence[str]) -> Any:
    """Return columns of a Parquet or Arrow file.

    If `names` is empty, return a table that has all columns but no rows.
    """
    try:
        from pyarrow import dataset
    except ImportError:
        raise SchemaError(
            f"{str(path)!r} needs pyarrow: pip install 'skfdp[parquet]'."
        ) from None
    _check_first_bytes(path)  # no folder, whose files may have another order

    def read() -> Any:
        found = dataset.dataset(path, format=FORMATS[suffix_of(path)])
        if names:
            return found.to_table(columns=list(names))
        return found.schema.empty_table().drop_columns([*stored_index(found.schema)])

    message = f"cannot read {str(path)!r}: it is damaged, or of another format."
    return read_safely(read, message=message, kind=SchemaError)


def _raw_csv(schema: TableSchema, path: str | os.PathLike, **options: Any) -> Any:
    """Read the cells of a CSV file as text, in the format that the schema declares."""
    pandas = pandas_for()
    try:
        # index_col=False: surplus fields must not make the first column an index.
        # pandas would drop these fields and warn: raise the warning.
        surplus = pandas.errors.ParserWarning
        with warnings.catch_warnings(action="error", category=surplus):
            usual = {
                "sep": schema.delimiter,
                "encoding": schema.encoding,
                "skiprows": schema.skip_lines,
                **{"dtype": object, "na_filter": False, "index_col": False},
                **{"encoding_errors": "replace", "skipinitialspace": True},
                "compression": None,
            }
            return pandas.read_csv(path, **usual | options)
    except MemoryError:
        raise
    except OSError as error:
        why = error.strerror or "it is damaged"
        problem = SchemaError(f"cannot read {str(path)!r}: {why}.")
    except pandas.errors.EmptyDataError:
        problem = SchemaError(f"{str(path)!r} is empty: add a line of column names.")
    except UnicodeError:
        problem = _not_decoded(schema, path, "its content")
    except Exception:  # may quote a line, so do not attach it as context
        problem = SchemaError(
            f"{str(path)!r} has lines with more fields than its first line, or quotes "
            "that are not closed: put fields that hold the delimiter "
            f"{schema.delimiter!r} in double quotes, or skip lines above the names."
        )
    raise problem


def _check_first_bytes(path: str | os.PathLike) -> None:
    """Refuse a file that cannot be read, or is no CSV by its first bytes."""
    try:
        with open(path, "rb") as file:
            found = file.read(64)
    except OSError as error:
        raise SchemaError(f"cannot read {str(path)!r}: {error.strerror}.") from None
    if not _is_csv(path):
        return
    # Without zeros and the mark of UTF-16, and without spaces.
    start = found.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")
    for mark, what in _NO_CSV.items():
        if start.startswith(mark):
            raise SchemaError(f"{str(path)!r} is not CSV but {what}.")


def _not_decoded(
    schema: TableSchema, path: str | os.PathLike, where: str
) -> SchemaError:
    return SchemaError(
        f"{str(path)!r} is not in {schema.encoding}, as {where} shows: pass encoding "
        "latin1 (for Excel in western Europe cp1252, for 'Unicode text' utf-16), or "
        "save the file as 'CSV UTF-8'."
    )


# What a line of names does not have: a word that begins with a digit, four digits in a
# row, a special number such as "NaN", the beginning of JSON or HTML, or a delimiter.
_NO_NAME = re.compile(
    r"(?<!\w)\d|\d{4}|^[+-]?(nan|inf|infinity)$|^[\[{<]|[;|\t]", re.IGNORECASE
)


# Drafts: column types from names, stored types and public columns.

# A text column with more different values than `_MOST_CATEGORIES`, or with fewer rows
# per value than `_ROWS_OF_A_CATEGORY`, is assumed to hold names or identifiers.
_MOST_CATEGORIES, _ROWS_OF_A_CATEGORY = 1000, 10
_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y"),
    *("%d/%m/%y", "%m/%d/%y", "%d-%b-%Y", "%d-%b-%y"),
)
#: A day such as 20240131, which as a number would be meaningless.
_DAY_OF_DIGITS = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_FORMATS = None, *(d + clock for clock in ("", " %H:%M", " %H:%M:%S") for d in _DAYS)


def drafted(
    table: Any,
    public: Any,
    *,
    outcomes: Sequence[str],
    group: str | None,
    header: bool,
    **form: Any,
) -> TableSchema:
    """Return a draft of a schema; see `TableSchema.draft`."""
    empty = TableSchema({}, **form)
    source = OpenTable.of(table, empty)
    words = [plain_text(name) for name in source.names if name not in source.nameless]
    # The second of two equal names ends in ".1".
    is_odd = source.names[:1] == ["sep="] or any(map(_NO_NAME.search, words))
    is_odd = is_odd or 2 * len(words) < len(source.names)
    is_odd = is_odd or (len(words) == 1 and re.search(r"[\s=:]", words[0]))
    if is_odd and not header and _is_csv(table):  # do not quote the line
        raise SchemaError(
            f"the first line of {str(table)!r} does not look like names: a word "
            "begins with a digit or has four digits, a name is repeated, most are "
            "empty, the only name has several words, or a name holds a delimiter. Pass "
            "skip_lines=... if names come later, delimiter=... if it is no comma, "
            "header=True if these are names, or add a line of names."
        )
    outcomes = names_of("outcomes", outcomes)
    source.check_has([*outcomes, *[group] * bool(group)])
    usable = [n for n in source.names if n != group and n not in source.nameless]
    known = _matching(public, usable, outcomes)
    raw = {name: exact(column) for name, column in source.columns(known).items()}
    columns: dict[str, Any] = {}
    for name in usable:
        if name in raw:
            infer = _public_outcome if name in outcomes else _public_column
            columns[name] = infer(empty, name, raw[name])
            continue
        kind = source.kind(name)
        found = _OF_KINDS.get(kind, Unknown)
        if name in outcomes:  # whole numbers may be labels or numbers
            others = {Category: Label, Date: Unknown, Ignore: Unknown}
            found = Unknown if kind == "integer" else others.get(found, found)
        columns[name] = found()
        # The type of a frame's column depends on its values, that of a file's not.
        if kind == "integer" and found is Number and source.is_file:
            columns[name] = Number(integer=True)
    if source.nameless:
        places = ", ".join(str(1 + source.names.index(n)) for n in source.nameless)
        warn_caller(
            f"columns without a name are left out: number {places}.", UtilityWarning
        )
    return TableSchema(columns, outcomes=outcomes, group=group, **form)


def _matching(public: Any, names: list[str], outcomes: Sequence[str]) -> list[str]:
    """Return those of `names` that the declaration `public` selects.

    Messages quote the declaration, but no other names.
    """
    if names_of("public", public) == ("all",) and "all" not in names:
        return [name for name in names if name not in outcomes]
    found: set[str] = set()
    for pattern in names_of("public", public):
        matched = {pattern} & set(names) or set(fnmatch.filter(names, pattern))
        if not matched:
            raise SchemaError(
                f"public={pattern!r} matches no column: check the spelling, names are "
                "case-sensitive."
            )
        found |= matched
    return [name for name in names if name in found]


def _public_outcome(schema: TableSchema, name: str, cells: np.ndarray) -> Any:
    """Infer the type of a public outcome.

    A column with three or more different numbers is a `Number`, not a `Label`.
    """
    texts = sorted({text_of(cell) for cell in cells.tolist()} - {None})
    found = _public_column(schema, name, cells)
    if found.may_be_outcome and (found.values or len(texts) > 2):
        return found
    whole = all(re.fullmatch("0|-?[1-9][0-9]{0,14}", text) for text in texts)
    values = [int(text) for text in texts] if whole else texts
    return Label(values, public=True) if len(texts) > 1 else Unknown(public=True)


def _public_column(schema: TableSchema, name: str, cells: np.ndarray) -> Any:
    """Infer the type of a public column from its values; warn about unusual values.

    If all values are booleans, numbers or dates, the column has this type. Otherwise it
    is a category if there are few different values. (Each category becomes the name of
    a column in the model and in the report, where names of people must not occur.) If
    there are many different values and most are numbers, the column is a number, and
    its other values count as missing. A column is ignored if it is empty, or if its
    texts look like names or identifiers.
    """

    def warn(text: str) -> None:
        warn_caller(f"public column {name!r}: {text}", UtilityWarning)

    spelt = [text_of(cell) for cell in cells.tolist()]
    there = np.array([text is not None for text in spelt], dtype=bool)
    distinct = sorted({text for text in spelt if text is not None})
    if not distinct:
        warn("it is empty.")
        return Ignore()
    if {*distinct} <= {"True", "False"}:
        return Boolean(public=True)
    values = cells[there]
    dated = _public_dates(schema, values, distinct, warn)
    if dated is not None:
        return dated
    read = Number().points(values, schema)
    known = read[~np.isnan(read)]
    few = len(distinct) <= min(_MOST_CATEGORIES, len(cells) / _ROWS_OF_A_CATEGORY)
    mostly = len(known) == len(values) or (not few and 2 * len(known) > len(values))
    if mostly:
        low, high = float(known.min()), float(known.max())
        high = high if high > low else low + max(1, abs(low))
        return Number(low, high, True, integer=bool((known == np.rint(known)).all()))
    if few:
        words = {c.strip() for c in cells if isinstance(c, str)} & TAKEN_FOR_MISSING
        if words:
            warn("NA and similar words are categories, unless listed in missingValues.")
        return Category(sorted({*distinct, *words}), public=True)
    warn(
        f"{len(distinct)} different texts in {len(cells)} rows, as in names or "
        "identifiers: declare the column as group if it identifies persons."
    )
    return Ignore()


def _public_dates(
    schema: TableSchema,
    values: np.ndarray,
    distinct: Sequence[str],
    warn: Callable[[str], None],
) -> Date | None:
    """Infer the declaration of a public column of dates; None if no format fits.

    If several formats fit, such as two orders of day and month, warn, and leave the
    format and the bounds undeclared.
    """
    digits = all(map(_DAY_OF_DIGITS.fullmatch, distinct))
    if not (values.dtype.kind == "M" or digits or re.search(r"\d[-/.]", distinct[0])):
        return None
    forms = _FORMATS if values.dtype.kind == "O" else (None,)
    forms = ("%Y%m%d",) if digits else forms
    fits = dict.fromkeys(forms)
    for cells in (distinct[:20], values):  # first a few, because there may be many
        read = {form: Date(format=form).points(cells, schema) for form in fits}
        fits = {form: days for form, days in read.items() if not np.isnat(days).any()}
    if not fits:
        return None
    if len(fits) > 1:
        listed = " or ".join(map(str, fits))
        warn(f"dates could be {listed}: declare the format.")
        return Date(public=True)
    ((form, days),) = fits.items()
    first = days.min().astype("datetime64[D]")
    last = days.max().astype("datetime64[D]")
    last += np.timedelta64(int(last < days.max() or last == first), "D")
    hour = bool((days != days.astype("datetime64[D]")).any())
    return Date(str(first), str(last), True, format=form, hour=hour)
