"""Tables: CSV and parquet files, and what is wrong with one that cannot be read.

What a private value is decides nothing here. It is read as text; bytes that are not in
the encoding become a mark, which only column names and public columns are searched for.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pandas as pd

from skfdp.cli.first_line import is_record
from skfdp.cli.output import CommandError

# First bytes of files that people try, and what they are.
_BINARY = {
    b"PK\x03\x04": "an Excel, LibreOffice or zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"PAR1": "a Parquet file, whose name must end in .parquet",
    b"ARROW1": "a Feather file",
    b"SQLite format 3": "an SQLite file",
    b"\x1f\x8b": "a gzip file",
}
# pandas unpacks these by their names.
_PACKED = {".gz", ".bz2", ".zip", ".xz", ".zst", ".tar"}
_SEPARATORS = {";": "';' --decimal ','", "\t": "tab", "|": "'|'", ",": "','"}
#: What stands for bytes that are not in the encoding.
_MARK = "\N{REPLACEMENT CHARACTER}"


class Table:
    """A file, and how to read it.

    Parameters
    ----------
    path : str
    arguments : Namespace
        With `sep`, `decimal`, `encoding` and `header`.

    Attributes
    ----------
    nameless : list of str
        What the columns are called that have no name in the first line; `header` finds
        them.
    """

    def __init__(self, path: str, arguments: argparse.Namespace):
        self.path = path
        self.sep, self.decimal = arguments.sep, arguments.decimal
        self.encoding, self.confirmed = arguments.encoding, arguments.header
        self.nameless: list[str] = []
        self.parquet = Path(path).suffix.lower() in (".parquet", ".pq")

    def header(
        self, declared: Iterable[str | None] = (), model: Collection[str] = ()
    ) -> list[str]:
        """Return the column names; the rows are not looked at.

        Parameters
        ----------
        declared : iterable of str or None
            The columns that the schema names. If these are all columns of the file,
            its first line holds names.
        model : collection of str
            The columns that a model takes. If the file has them all, they are names.

        Raises
        ------
        CommandError
            If the file is no table, or if its first line looks like a record; says
            why, and quotes none of it.
        """
        if self.parquet:
            return self._parquet_header()
        self._refuse_binary()
        header = [str(name) for name in self._read(nrows=0).columns]
        if any(_MARK in name or "\0" in name for name in header):
            raise self._not_decoded("its first line")
        if len(header) == 1:
            found = [mark for mark in _SEPARATORS if mark in header[0]]
            if found:
                raise CommandError(
                    f"the first line of {self.path!r} has no {_name(self.sep)} and "
                    f"{_name(found[0])}s: give --sep {_SEPARATORS[found[0]]} (or what "
                    "separates its fields)."
                )
        # pandas renames: the second "1" is called "1.1", and "" is "Unnamed: 4".
        cells = self._read(nrows=1, header=None, na_filter=False).iloc[0]
        written = dict(zip(header, map(str.strip, cells), strict=True))
        self.nameless = [name for name, cell in written.items() if not cell]
        known = self.confirmed or set(header) <= {*declared, *self.nameless}
        if set(model) <= set(header):
            written |= dict.fromkeys(model, "")
        if not known and is_record([*written.values()]):
            raise CommandError(
                f"the first line of {self.path!r} looks like a record, not names: add "
                "a line of names, or give --header if it holds names."
            )
        return header

    def columns(self, names: Sequence[str], public: Iterable[str]) -> pd.DataFrame:
        """Return some columns of all rows, as text where the file holds text.

        Parameters
        ----------
        names : sequence of str
        public : iterable of str
            Those among them that may be looked at.

        Raises
        ------
        CommandError
            If the lines have different numbers of fields, or if public columns are
            not in the encoding.
        """
        if not names:
            return pd.DataFrame()
        if self.parquet:
            return self._parquet_columns(names)
        rows = self._read()[list(names)]
        for name in public:
            if any(_MARK in text for text in rows[name].dropna().unique()):
                raise self._not_decoded(f"its column {name!r}")
        return rows

    def check_labels(self, option: str, values: Iterable[str]) -> None:
        """Refuse declared values that a CSV reader takes for missing ones.

        Raises
        ------
        CommandError
            For "NA" or "None", say, in the declarations of a CSV file.
        """
        for value in () if self.parquet else values:
            quoted = value.replace('"', '""')
            line = io.StringIO(f'x,y\n"{quoted}",1\n')
            if pd.read_csv(line, dtype=str)["x"].isna().any():
                raise CommandError(
                    f"{option} lists {value!r}, which readers of CSV files take for a "
                    "missing value: write another word into the file, or use .parquet."
                )

    def decimals(self, rows: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
        """Return rows with points in the numbers of some columns.

        Where commas are declared, a point is no decimal mark: "3.667" is no number.
        """
        if self.decimal == "." or self.parquet:
            return rows
        return rows.assign(**{name: with_other_mark(rows[name]) for name in names})

    def _read(self, **options) -> pd.DataFrame:
        try:
            with warnings.catch_warnings():
                # index_col=False: surplus fields must not make the first column an
                # index; pandas would drop them with a warning.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                return pd.read_csv(
                    self.path,
                    dtype=str,
                    sep=self.sep,
                    encoding=self.encoding,
                    encoding_errors="replace",
                    skipinitialspace=True,
                    index_col=False,
                    **options,
                )
        except OSError as error:
            raise self._unreadable(error) from None
        except pd.errors.EmptyDataError:
            raise CommandError(
                f"{self.path!r} is empty: it needs a line of column names."
            ) from None
        except UnicodeError:
            raise self._not_decoded("it") from None
        except (ValueError, EOFError, pd.errors.ParserWarning):
            # pandas quotes what it chokes on.
            raise CommandError(
                f"{self.path!r} has lines with more fields than its first line, or "
                "quotes that are not closed: put fields that hold the separator "
                f"{self.sep!r} in double quotes."
            ) from None

    def _not_decoded(self, where: str) -> CommandError:
        return CommandError(
            f"{self.path!r} is not in {self.encoding}, as {where} shows: give "
            "--encoding latin1 (Excel in western Europe: cp1252; 'Unicode text': "
            "utf-16), or save it as 'CSV UTF-8'."
        )

    def _unreadable(self, error: OSError) -> CommandError:
        reason = error.strerror or "it is damaged"
        return CommandError(f"cannot read {self.path!r}: {reason}.")

    def _refuse_binary(self) -> None:
        """Refuse what others write; pandas would take some of it for a header line."""
        try:
            with open(self.path, "rb") as file:
                start = file.read(16)
        except OSError as error:
            raise self._unreadable(error) from None
        if Path(self.path).suffix.lower() in _PACKED:
            return
        for mark, kind in _BINARY.items():
            if start.startswith(mark):
                raise CommandError(
                    f"{self.path!r} is {kind}: save it as CSV with a header line, or "
                    "as .parquet."
                )

    def _parquet_header(self) -> list[str]:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise CommandError(
                f"{self.path!r} needs pyarrow: pip install 'skfdp[parquet]'."
            ) from None
        try:
            return list(parquet.read_schema(self.path).names)
        except OSError as error:
            raise self._unreadable(error) from None
        except ArrowException:
            raise CommandError(f"{self.path!r} is not a Parquet file.") from None

    def _parquet_columns(self, names: Sequence[str]) -> pd.DataFrame:
        try:
            # Types of the file: whether a value is missing does not change them.
            return pd.read_parquet(
                self.path, columns=list(names), dtype_backend="pyarrow"
            )
        except MemoryError:
            raise
        except Exception:  # pyarrow may quote a cell
            pass
        raise CommandError(
            f"cannot read {self.path!r}: it is cut, damaged or gone; restore it."
        )


def with_other_mark(column: pd.Series) -> pd.Series:
    """Return texts with points for commas and commas for points."""
    marks = str.maketrans(".,", ",.")

    def swapped(value):
        return value.translate(marks) if isinstance(value, str) else value

    # Not Series.str, which some versions refuse to a column without any text.
    return column.map(swapped, na_action="ignore")


def _name(separator: str) -> str:
    return {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}.get(
        separator, repr(separator)
    )
