"""CSV files as text, and what is wrong with one that cannot be read."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd

from skfdp.cli.arguments import CommandError

# First bytes of files that people try, and what they are.
_BINARY = {
    b"PK\x03\x04": "an Excel, LibreOffice or zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"PAR1": "a Parquet file",
    b"ARROW1": "a Feather file",
    b"SQLite format 3": "an SQLite file",
    b"\x1f\x8b": "a gzip file",
}
# pandas unpacks these by their names.
_PACKED = {".gz", ".bz2", ".zip", ".xz", ".zst", ".tar"}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_EXPECTED = "a CSV file in UTF-8, with a header line and commas"


def open_table(path: str, **options) -> pd.DataFrame:
    """Return the rows as text: nothing is inferred from the values.

    Raises
    ------
    CommandError
        If the file is not a CSV file; says why, and quotes none of it.
    """
    _refuse_binary(path)
    try:
        with warnings.catch_warnings():
            # index_col=False: surplus fields must not make the first column an index;
            # pandas would drop them with a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                path, dtype=str, skipinitialspace=True, index_col=False, **options
            )
    except (OSError, ValueError, EOFError, pd.errors.ParserWarning) as error:
        # pandas quotes the bytes that it cannot decode.
        raise CommandError(_reason(path, error)) from None
    separator = _separator(table.columns)
    if separator is not None:
        raise CommandError(
            f"the first line of {path!r} has {_SEPARATORS[separator]} and no comma: "
            f"save it as {_EXPECTED} between the fields, and points in decimal numbers."
        )
    return table


def _refuse_binary(path: str) -> None:
    """Refuse what others write; pandas would take some of it for a header line."""
    try:
        with open(path, "rb") as file:
            start = file.read(16)
    except OSError as error:
        raise CommandError(f"cannot read {path!r}: {error.strerror}.") from None
    if Path(path).suffix.lower() in _PACKED:
        return
    for mark, kind in _BINARY.items():
        if start.startswith(mark):
            raise CommandError(f"{path!r} is {kind}: save it as {_EXPECTED}.")


def _reason(path: str, error: Exception) -> str:
    """Return what is wrong with a file that pandas cannot read."""
    if isinstance(error, pd.errors.EmptyDataError):
        return f"{path!r} is empty: {_EXPECTED} is needed."
    if isinstance(error, UnicodeDecodeError):
        return (
            f"{path!r} is not in UTF-8: save it as 'CSV UTF-8', or convert it "
            "(iconv -f latin1 -t utf-8, say)."
        )
    return (
        f"{path!r} is not {_EXPECTED}, with as many fields in every line: put fields "
        "that hold commas in double quotes."
    )


def _separator(header) -> str | None:
    """Return what separates the fields of a header without a comma."""
    if len(header) != 1:
        return None
    return next((mark for mark in _SEPARATORS if mark in str(header[0])), None)
