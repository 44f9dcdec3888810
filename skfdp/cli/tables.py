"""Tables: CSV and parquet files, and what is wrong with one that cannot be read.

What a private value is decides nothing here. It is read as text; bytes that are not in
the encoding become a mark, which only column names and public columns are searched for.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime
import fnmatch
import io
import math
import numbers
import re
import tomllib
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skfdp.cli.output import CommandError, complain
from skfdp.data._values import Column, exact
from skfdp.data.encoder import DeclaredEncoder
from skfdp.data.target import spelling_of, text_of
from skfdp.privacy import Relation
from skfdp.privacy.events import RELATIONS

# The target: labels or numbers, as declared.
#
# What is private of it decides nothing: a label that is not declared contributes
# nothing, a number that cannot be read counts as the middle of its bounds.


@dataclasses.dataclass(frozen=True)
class Target:
    """The target of some rows.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
    readable : bool ndarray of shape (n_rows,)
        False for what contributes nothing, and for numbers that are missing: rows that
        scores leave out.
    classes : list or None
        The labels that are declared.
    """

    values: np.ndarray
    readable: np.ndarray
    classes: list | None = None


def read_target(
    column: pd.Series, arguments: argparse.Namespace, numbers: pd.Series
) -> Target:
    """Return the target as the settings declare it.

    Parameters
    ----------
    column : Series
    arguments : Namespace
    numbers : Series
        The same column with points in its numbers.

    Raises
    ------
    CommandError
        If a public target holds what is not declared, or leaves the task open.
    """
    if arguments.task is None:
        _check_open_task(numbers)
    if arguments.task == "regression":
        return _numbers(numbers, arguments)
    return _labels(column, arguments)


def as_labels(classes: Sequence[str]) -> list[Any]:
    """Return labels as the integers or booleans that CSV readers make of them.

    Text stays text, and so do fractions, which scikit-learn takes for a regression, and
    numbers with leading zeros, which are codes.
    """
    spelt = [text_of(label) or "" for label in classes]
    if set(spelt) <= {"True", "False"}:
        return [label == "True" for label in spelt]
    return as_numbers(spelt)


def as_numbers(values: Sequence[str]) -> list[Any]:
    """Return values as integers if all of them are written as integers are."""
    whole = all(re.fullmatch("0|-?[1-9][0-9]{0,14}", value) for value in values)
    return [int(value) for value in values] if whole else list(values)


def are_numbers(labels: Sequence[str]) -> bool:
    """Whether labels are more than two, and all of them numbers."""
    return len(labels) > 2 and not np.isnan(Column(list(labels)).read("number")).any()


def _check_open_task(column: pd.Series) -> None:
    """Refuse to guess what a public target of numbers is."""
    if are_numbers([*({text_of(value) for value in column.tolist()} - {None})]):
        raise CommandError(
            f"the target {column.name!r} holds numbers: say --task regression, or "
            "--task classification if each of them is a label."
        )


def _labels(column: pd.Series, arguments: argparse.Namespace) -> Target:
    declared = arguments.classes
    if arguments.public_target:
        spelt = [text_of(value) for value in column.tolist()]
        if None in spelt:
            raise _missing(column, "a label of their own, such as 'missing'")
        declared = sorted(set(spelt)) if declared is None else declared
    given_as_text = all(isinstance(label, str) for label in declared)
    typed = as_labels(declared) if given_as_text else list(declared)
    try:
        spelling = spelling_of(typed, "--classes", "label")
    except ValueError as error:
        raise CommandError(str(error)) from None
    places = spelling.places(exact(column))
    readable = places >= 0
    if arguments.public_target and not readable.all():
        raise CommandError(
            f"the target {column.name!r} holds labels outside --classes "
            f"{','.join(declared)}: declare every label that can occur."
        )
    # Whatever occurs, the type is that of the declared labels.
    kind = type(typed[0])
    other = {int: -(10**16), bool: None}.get(kind, "")
    values = np.array(
        [typed[place] if place >= 0 else other for place in places],
        dtype=np.int64 if kind is int else object,
    )
    return Target(values, readable, None if arguments.classes is None else typed)


def _numbers(column: pd.Series, arguments: argparse.Namespace) -> Target:
    values = Column(column).read("number")
    readable = ~np.isnan(values)
    if arguments.public_target and not readable.all():
        raise _missing(column, "a number")
    if arguments.target_bounds is not None:
        low, high = arguments.target_bounds
        values = np.where(readable, values, (low + high) / 2)
    return Target(values, readable)


def _missing(column: pd.Series, remedy: str) -> CommandError:
    return CommandError(
        f"the public target {column.name!r} has missing or unreadable values: give "
        f"them {remedy}, or remove these rows."
    )


# The schema: a TOML file with what is declared of a table.
#
# Its keys are the long options with underscores; ``[columns]`` has one entry for each
# column of the table.


ROLES = ("public", "private", "ignore")


def read_schema(path: str | Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the settings of a schema, and its columns.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    settings : dict
        What is not empty: an empty list or text is a place to fill in.
    columns : dict of str to dict
        The checked entries of each column; dates as ISO texts.

    Raises
    ------
    CommandError
        If the file cannot be read, or holds what no schema has.
    """
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise CommandError(f"cannot read {str(path)!r}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{str(path)!r} is not a TOML file: {error}.") from None
    columns = found.pop("columns", {})
    if not isinstance(columns, dict):
        raise CommandError(f"[columns] of {str(path)!r} must be a table.")
    settings = {}
    for name, value in found.items():
        checked = _checked(name, value, _SETTINGS, repr(str(path)))
        if checked not in ("", [], ()):
            settings[name] = checked
    return settings, {
        name: _column(name, entry, str(path)) for name, entry in columns.items()
    }


def limits(low: Any, high: Any) -> tuple[Any, Any] | None:
    """Return two numbers, or two dates as ISO texts, in order; None if they are not."""
    if all(map(_is_number, (low, high))):
        return (float(low), float(high)) if -math.inf < low < high < math.inf else None
    dates = _iso(low), _iso(high)
    if None in dates or not dates[0] < dates[1]:
        return None
    return dates


def as_text(value: Any) -> str:
    """Return a label or category as it stands in a CSV file."""
    return str(value).strip()


def _column(name: str, entry: Any, path: str) -> dict[str, Any]:
    place = f"column {name!r} in {path!r}"
    if not isinstance(entry, dict):
        raise CommandError(
            f'{place} must be a table, such as {{role = "private", bounds = [0, 1]}}.'
        )
    found = {
        key: _checked(key, value, _COLUMN, place)
        for key, value in entry.items()
        if value not in ("", [])
    }
    if "bounds" in found and "categories" in found:
        raise CommandError(f"{place} has bounds and categories: numbers or text?")
    return {"role": "private", **found}


def _checked(name: str, value: Any, known: dict, place: str) -> Any:
    if name not in known:
        raise CommandError(
            f"{place} has no meaning for {name!r}: it takes {', '.join(known)}."
        )
    expected, check = known[name]
    if value in ("", []):
        return value
    checked = check(value)
    if checked is None:
        raise CommandError(f"{name} of {place} must be {expected}.")
    return checked


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _iso(value: Any) -> str | None:
    """Return a date as an ISO text of one length, None if it is none."""
    try:
        if isinstance(value, str):
            value = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            day = value.date().isoformat()
            midnight = value.time() == datetime.time()
            return day if midnight else value.isoformat(timespec="seconds")
        return None
    return value.isoformat() if isinstance(value, datetime.date) else None


def _kind(*kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        return value if type(value) in kinds else None

    return check


def _choice(*choices: str) -> Callable[[Any], Any]:
    return lambda value: value if value in choices else None


def _schema_pair(value: Any) -> Any:
    return limits(*value) if isinstance(value, list) and len(value) == 2 else None


def _number_pair(value: Any) -> Any:
    pair = _schema_pair(value)
    return None if pair is None or isinstance(pair[0], str) else pair


def _texts(value: Any) -> Any:
    if not isinstance(value, list):
        return None
    if not all(isinstance(one, str | int | float) for one in value):
        return None
    found = [as_text(one) for one in value]
    return found if len(set(found)) == len(found) else None


def _values(value: Any) -> Any:
    """Return categories with their types: a number is not its text."""
    if _texts(value) is None:
        return None
    return [as_text(one) if isinstance(one, str) else one for one in value]


def _knots(value: Any) -> Any:
    if isinstance(value, list):
        return _increasing(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and value >= 2 else None


def _increasing(values: Sequence[Any]) -> Any:
    pairs = zip(values, values[1:], strict=False)
    right = len(values) >= 2 and all(limits(*pair) is not None for pair in pairs)
    return [*map(float, values)] if right and all(map(_is_number, values)) else None


def _interactions(value: Any) -> Any:
    if not isinstance(value, list):
        return None
    pairs = [tuple(one) for one in value if isinstance(one, list) and len(one) == 2]
    texts = all(isinstance(name, str) for pair in pairs for name in pair)
    return pairs if texts and len(pairs) == len(value) else None


_SETTINGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "target": ("the name of a column", _kind(str)),
    "task": (
        '"classification" or "regression"',
        _choice("classification", "regression"),
    ),
    "public_target": ("true or false", _kind(bool)),
    "classes": ("a list of different labels", _texts),
    "target_bounds": ("two numbers, [LOW, HIGH]", _number_pair),
    "groups": ("the name of a column", _kind(str)),
    "epsilon": ("a number", _kind(int, float)),
    "delta": ("a number", _kind(int, float)),
    "relation": (f"one of {', '.join(RELATIONS)}", _choice(*RELATIONS)),
    "n_records": ("a whole number", _kind(int)),
    "sep": ("one character", _kind(str)),
    "decimal": ("a point or a comma", _kind(str)),
    "encoding": ("the name of an encoding", _kind(str)),
    "interactions": ("a list of pairs of columns", _interactions),
}
_COLUMN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "role": (f"one of {', '.join(ROLES)}", _choice(*ROLES)),
    "bounds": ("two numbers or two dates, [LOW, HIGH]", _schema_pair),
    "categories": ("a list of different values", _values),
    "knots": ("a whole number above 1, or a list of increasing numbers", _knots),
    "basis": ('"hats" or "linear"', _choice("hats", "linear")),
    "spacing": ('"even" or "geometric"', _choice("even", "geometric")),
    "cyclic": ("true or false", _kind(bool)),
}


# Test for a record in place of names in the first line of a CSV file.


# A longer cell is cut, and no number or date.
_LONGEST = 200
# Around a cell: quotes of another kind, and ="007" as Excel protects text.
_AROUND = " '\"’`=\ufeff"
# Fields of a file that is read with the wrong separator.
_OTHER_SEPARATORS = re.compile(r"[;|\t]")


def _number(mark: str) -> str:
    """Return the pattern of a number; `mark` names the group of its thousands marks.

    A decimal mark may be a point or a comma here, whatever --decimal says:
    1.234,56  1,234.56  1 234  1'234  1,00,000  .5  5e-3
    """
    return rf"""[+\-−–]?\ ?(?:
        \d{{1,3}}(?P<{mark}>[.,'’٬\ ])\d{{3}}(?:(?P={mark})\d{{3}})*(?:[.,]\d*)?
        | \d{{1,2}}(?:,\d{{2}})*,\d{{3}}(?:\.\d*)?
        | \d+[.,٫]?\d*
        | [.,]\d+
        )(?:e[+\-−]?\d+)?"""


_NUMBERS = re.compile(
    rf"""(?:(?:EUR|USD|GBP|CHF)\ ?)?
    (?:\({_number("inside")}\) | {_number("bare")})
    \ ?(?:%|‰|EUR|USD|GBP|CHF)?
    | nan | [+\-−]inf(?:inity)?""",
    re.IGNORECASE | re.VERBOSE,
)

# English, German, French and Spanish.
_MONTH = r"""(?:
    jan(?:uary?|v|vier)? | jänner | ene(?:ro)? | feb(?:ruary?|rero)? | févr(?:ier)?
    | mar(?:ch|s|zo)? | märz? | mrz | apr(?:il)? | avr(?:il)? | abr(?:il)?
    | ma[iy] | mayo | jun[eio]? | juin | junio | jul[iy]? | juil(?:let)? | julio
    | aug(?:ust)? | août | ago(?:sto)? | sept?(?:ember|embre|iembre)?
    | o[ck]t(?:ober|obre|ubre)? | nov(?:ember|embre|iembre)?
    | de[cz](?:ember)? | déc(?:embre)? | dic(?:iembre)?
    )\.?"""
_WEEKDAY = r"""(?:
    (?:mon|tue(?:s)?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?
    | mo | di | mi | do | fr | sa | so | mittwoch | sonnabend
    | (?:mon|diens|donners|frei|sams|sonn)tag
    )[.,]*\ """
_DAY, _YEAR = r"(?:[0-3]?\d)", r"(?:[12]\d{3})"
_ORDINAL = rf"{_DAY}(?:st|[nr]d|th|er|\.)?"
_TIME = r"""(?:
    (?:\d{1,3}[:h]\d{2}(?::\d{2})?(?:[.,:]\d+)? | \d{1,2}\.\d{2}(?=\ ?uhr))
    (?:\ ?[ap]\.?m\.?|\ ?uhr)?
    | \d{1,2}\ ?(?:[ap]\.?m\.?|uhr)
    )
    (?:\ ?(?:[a-z]{1,4})?(?:[+\-]\d{1,2}(?::?\d{2})?)?(?:\ ?\[[^\]]*\])?)"""


def _days() -> str:
    forms = [
        rf"{_YEAR}-\d{{3}}",
        rf"{_YEAR}-?w\d{{2}}(?:-?\d)?",
        rf"{_YEAR}[-/](?:0?[1-9]|1[0-2])",
        rf"(?:0?[1-9]|1[0-2])[-/]{_YEAR}",
        rf"{_DAY}\.\ ?{_DAY}\.",
        rf"{_YEAR}\d{{4}}t\d{{4,6}}z?",
        r"\d{4}\ ?[年년]\ ?\d{1,2}\ ?[月월](?:\ ?\d{1,2}\ ?[日일])?",
        rf"{_ORDINAL}[-/.\ ]*{_MONTH}[-/.,\ ]*(?:{_YEAR}|['’]?\d{{2}})?",
        rf"{_ORDINAL}\ (?:de\ )?[^\W\d_]{{3,}}\.?(?:\ de)?\ {_YEAR}",
        rf"{_MONTH}[-/.\ ]*{_ORDINAL},?[-/\ ]+{_YEAR}",
        rf"{_MONTH}\ {_DAY}\ {_TIME}\ {_YEAR}",
        rf"{_MONTH}[-/.,'’\ ]*{_YEAR}",
        rf"{_MONTH}[-/.'’\ ]+\d{{2}}",
        rf"{_YEAR}[-/.\ ]?{_MONTH}(?:[-/.\ ]?{_DAY})?",
    ]
    for mark in ("-", "/", r"\.\ ?", r"\ "):
        forms.append(rf"{_YEAR}{mark}{_DAY}{mark}{_DAY}\.?")
        forms.append(rf"{_DAY}{mark}{_DAY}{mark}(?:{_YEAR}|\d{{2}})")
    return "|".join(forms)


_MOMENTS = re.compile(
    rf"""(?:{_WEEKDAY})?(?:{_days()})(?:(?:t|,?\ ){_TIME}|t\d{{2}}z?)?
    | {_TIME}
    | [+\-]?\d+\ days?,?\ \+?{_TIME}""",
    re.IGNORECASE | re.VERBOSE,
)


def is_record(cells: Sequence[str]) -> bool:
    """Whether one cell of a first line reads as a number, a date or a time.

    It decides by the cells alone. A record of text only cannot be told from names.
    """
    if len(cells) == 1:  # fields between spaces, say
        words = cells[0].split()
        return reads_as_value(cells[0]) or sum(map(reads_as_value, words)) > 1
    return any(map(reads_as_value, cells))


def reads_as_value(cell: str) -> bool:
    """Whether a cell of the first line reads as a number, a date or a time.

    It is judged by itself, with either decimal mark and with thousands marks, percent
    signs and currencies, and dates in the usual spellings. Words around a number or a
    date make it a name.

    >>> [reads_as_value(cell) for cell in ("1.234,56", "31.12.2024", "13-Aug-22")]
    [True, True, True]
    >>> [reads_as_value(cell) for cell in ("age", "Q1", "2nd visit", "65+", "May", "")]
    [False, False, False, False, False, False]
    """
    return any(map(_is_value, _OTHER_SEPARATORS.split(cell)))


def is_written_number(text: str) -> bool:
    """Whether people read a text as a number: with any mark, percent sign, currency.

    >>> [is_written_number(text) for text in ("1.234,56", "45 %", "1.2.2024", "B1")]
    [True, True, False, False]
    """
    return _NUMBERS.fullmatch(_plain(text)) is not None


def _is_value(text: str) -> bool:
    return is_written_number(text) or _MOMENTS.fullmatch(_plain(text)) is not None


def _plain(text: str) -> str:
    """Return a text without currency signs and what is around it."""
    text = text[:_LONGEST].removeprefix("ï»¿")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(one for one in text if unicodedata.category(one) != "Sc")
    return " ".join(text.replace("$", "").split()).strip(_AROUND)


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


# Facts that column names and public columns tell; private values are not looked at.


# A text column with more values than this, or with fewer rows for each, is a name or a
# number of its record.
_MOST_CATEGORIES, _ROWS_OF_A_CATEGORY = 1000, 10
# So many different whole numbers, one for each row, are numbers of records.
_RUNNING = 20
_DATE = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")
# Codes that read as numbers: "01067", "1E50", whole numbers that no float64 is sure of.
_CODE = re.compile(r"0[0-9]+|[0-9]+[eE][0-9]+|[0-9]{16,}")
_WORDS = {
    *("name", "vorname", "nachname", "surname", "firstname", "lastname", "username"),
    *("email", "mail", "phone", "telefon", "mobile", "address", "adresse", "anschrift"),
    *("iban", "ssn", "uuid", "guid", "uid"),
}
#: Words that mean an identifier at the end of a name.
_LAST = {"id", "ids", "nr", "no", "number", "nummer", "key", "pid", "mrn"}
_ENDINGS = ("nummer", "nachname", "vorname", "adresse", "kennung")


@dataclasses.dataclass(frozen=True)
class Observed:
    """Facts that the values of a public column show.

    Attributes
    ----------
    bounds : pair of float or of str, or None
        Of numbers, or of dates as ISO texts: exactly the extremes, a unit more for
        the upper one if all values are equal.
    categories : tuple of str or None
        As text and sorted.
    n_values : int
        Number of different values.
    unread : int
        Number of values that are no numbers, in a column with bounds.
    foreign_numbers : int
        Number of values that are numbers as other files write them: with another
        decimal mark, with thousands marks or with a percent sign.
    running : bool
        Whether each row has a whole number of its own.
    codes : bool
        Whether a value is written as a code, so that the column is text.
    """

    bounds: tuple[Any, Any] | None
    categories: tuple[str, ...] | None
    n_values: int
    unread: int = 0
    foreign_numbers: int = 0
    running: bool = False
    codes: bool = False

    @property
    def text_hint(self) -> str:
        """What the user should check in a column that became text; empty if nothing."""
        if self.codes:
            return (
                "some values look like codes (leading zeros, an exponent or more than "
                "15 digits), so that it is text: if it holds numbers, declare bounds."
            )
        return self.foreign_hint

    @property
    def foreign_hint(self) -> str:
        """The sentence on numbers that cannot be read; empty if there are none."""
        count = self.foreign_numbers
        if not count:
            return ""
        what = "value looks like a number" if count == 1 else "values look like numbers"
        return (
            f"{count} {what} but cannot be read: is --decimal right, and are there "
            "thousands marks?"
        )


def look_at(column: pd.Series, numbers: pd.Series | None = None) -> Observed:
    """Return what a public column shows; text in it may be numbers or dates.

    Parameters
    ----------
    column : Series
    numbers : Series, default=None
        The same column with points in its numbers, where the file has commas.

    Notes
    -----
    All values that are not missing are numbers or dates, or else they are categories,
    if there are few enough: every category is the name of a column in the model and in
    the report, where names of people do not belong. If there are more, and most of them
    are numbers, the others count as missing. A column with a code is text, whatever
    else it holds, unless its type is that of numbers with fractions.
    """
    spelt = column.map(text_of, na_action="ignore")
    there = spelt.notna().to_numpy()
    values = column[there]
    distinct = sorted(set(spelt[there]))
    n_values = len(distinct)
    if not n_values:
        return Observed(None, None, 0)
    if set(distinct) <= {"False", "True"}:
        return Observed(None, tuple(distinct), n_values)
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or all(
        _DATE.fullmatch(one) for one in distinct
    ):
        days = Column(values).read("date")
        if not np.isnan(days).any():
            first, last = int(np.floor(days.min())), int(np.ceil(days.max()))
            last = max(last, first + 1)
            bounds = tuple(str(np.datetime64(day, "D")) for day in (first, last))
            return Observed((bounds[0], bounds[1]), None, n_values)
    read = Column((column if numbers is None else numbers)[there]).read("number")
    known = read[~np.isnan(read)]
    foreign = _written_as_numbers(values[np.isnan(read)])
    few = n_values <= min(_MOST_CATEGORIES, len(column) / _ROWS_OF_A_CATEGORY)
    if len(known) == len(values) or (not few and len(known) * 2 > len(values)):
        if not pd.api.types.is_float_dtype(column.dtype) and any(
            _CODE.fullmatch(one) for one in distinct
        ):
            shown = tuple(distinct) if few else None
            return Observed(None, shown, n_values, foreign_numbers=foreign, codes=True)
        low, high = float(known.min()), float(known.max())
        whole = bool(np.all(known == np.rint(known)))
        running = whole and len(np.unique(known)) == len(values) >= _RUNNING
        return Observed(
            (low, high if high > low else low + max(1.0, abs(low))),
            None,
            n_values,
            len(values) - len(known),
            foreign,
            running,
        )
    return Observed(
        None, tuple(distinct) if few else None, n_values, foreign_numbers=foreign
    )


def _written_as_numbers(values: pd.Series) -> int:
    texts = values.map(lambda value: value if isinstance(value, str) else "").tolist()
    known = {text: is_written_number(text) for text in set(texts)}
    return sum(known[text] for text in texts)


def unread(column: pd.Series, what: str) -> np.ndarray:
    """Return which values are there, but are no numbers, or no dates."""
    missing = column.map(text_of, na_action="ignore").isna().to_numpy()
    return np.isnan(Column(column).read(what)) & ~missing


def named_as_identifier(name: str) -> bool:
    """Whether a column is called like what tells people apart.

    >>> [named_as_identifier(name) for name in ("Patienten-ID", "Fallnummer", "ideal")]
    [True, True, False]
    """
    words = [
        word.casefold()
        for word in re.findall(r"[^\W\d_]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])", name)
    ]
    if not words:
        return False
    return (
        bool(_WORDS & set(words)) or words[-1] in _LAST or words[-1].endswith(_ENDINGS)
    )


# The columns of a table, and what is declared about each.


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns that the model sees; public facts only.

    Attributes
    ----------
    target : str
    names : tuple of str
        In the order of the file.
    public : tuple of str
        Those among them that may be disclosed.
    declared : dict of str to dict
        What is declared of each, by the keys of a schema.
    interactions : sequence of (str, str)
    learnt : tuple of str
        Public columns whose bounds or categories were read from the rows.
    suspects : tuple of str
        Those among them that seem to be identifiers.
    hints : dict of str to str
        What seems wrong with those among them that became categories.
    """

    target: str
    names: tuple[str, ...]
    public: tuple[str, ...]
    declared: dict[str, dict[str, Any]]
    interactions: Sequence[tuple[str, str]] = ()
    learnt: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    hints: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def private(self) -> tuple[str, ...]:
        """The others."""
        return tuple(name for name in self.names if name not in self.public)

    def of_numbers(self) -> list[str]:
        """Return the columns whose bounds are numbers."""
        found = self.among(self.names, "bounds")
        return [name for name, pair in found.items() if not isinstance(pair[0], str)]

    def among(self, names: Iterable[str], key: str) -> dict[str, Any]:
        """Return what is declared under a key, by column."""
        return {
            name: self.declared[name][key]
            for name in names
            if key in self.declared.get(name, {})
        }

    def declares(self, name: str) -> bool:
        """Whether bounds or categories of a column are declared."""
        return not {"bounds", "categories"}.isdisjoint(self.declared.get(name, {}))

    def encoder(self, *, public_only: bool = False) -> DeclaredEncoder:
        """Return the encoder of raw rows, of the public columns alone or of all."""
        names = self.public if public_only else self.names
        options: dict[str, Any] = {
            option: found
            for option, key in (
                ("basis", "basis"),
                ("n_knots", "knots"),
                ("spacing", "spacing"),
            )
            if (found := self.among(names, key))
        }
        cyclic = self.among(names, "cyclic")
        categories = self.among(names, "categories")
        return DeclaredEncoder(
            self.among(names, "bounds"),
            {name: list(values) for name, values in categories.items()},
            cyclic=[name for name, given in cyclic.items() if given],
            interactions=[
                list(pair) for pair in self.interactions if set(pair) <= set(names)
            ],
            ignore=[name for name in self.names if name not in names],
            **options,
        )

    def completed(self, rows: pd.DataFrame, numbers: pd.DataFrame) -> Columns:
        """Return the columns with what public columns show where nothing is declared.

        Parameters
        ----------
        rows : DataFrame
        numbers : DataFrame
            The same rows with points in the numbers of the columns that are not
            declared.

        Raises
        ------
        CommandError
            If a public column holds too many texts, or nothing.
        """
        declared = dict(self.declared)
        learnt, suspects, hints = [], [], {}
        for name in self.public:
            if not self.declares(name):
                found = look_at(rows[name], numbers[name])
                learnt.append(name)
                shown = _shown(name, found, len(rows))
                declared[name] = declared.get(name, {}) | shown
                if found.running or named_as_identifier(name):
                    suspects.append(name)
                if found.text_hint and "categories" in shown:
                    hints[name] = found.text_hint
        return dataclasses.replace(
            self,
            declared=declared,
            learnt=tuple(learnt),
            suspects=tuple(suspects),
            hints=hints,
        )


def _shown(name: str, found: Observed, n_rows: int) -> dict[str, Any]:
    if found.bounds is not None:
        return {"bounds": found.bounds}
    if found.categories is not None:
        return {"categories": found.categories}
    if not found.n_values:
        raise CommandError(
            f"the public column {name!r} is empty: leave it out (--drop)."
        )
    raise CommandError(
        f"the public column {name!r} holds {found.n_values} different texts in "
        f"{n_rows} rows. Names and identifiers are not categories, and each would be "
        "the name of a column in the model and in the report: leave it out (--drop), "
        "or declare the categories that matter (--categories)."
        + f" {found.text_hint}"
        * bool(found.text_hint)
    )


def known_names(arguments: argparse.Namespace) -> list[str | None]:
    """Return the columns that the schema names, with the target and the groups."""
    return [*arguments.declared, arguments.target, arguments.groups]


def roles(
    arguments: argparse.Namespace, header: Sequence[str], nameless: Sequence[str] = ()
) -> tuple[list[str], list[str], list[str]]:
    """Return the public, private and ignored columns of a file, in its order.

    An option goes before the schema, for the columns that it names. A column that has
    no name in the file is ignored, unless it is declared by the name that it gets.
    """
    target, declared = arguments.target, arguments.declared
    if target and target not in header:
        # The header is not shown: in a file without one it is the first record.
        raise CommandError(
            f"--target names {target!r}, which is not in the first line of "
            f"{arguments.file!r}: the file needs a header line, and names are "
            "case-sensitive."
        )
    for name in header:
        if list(header).count(name) > 1:
            raise CommandError("two columns have one name: rename one of them.")
    groups = getattr(arguments, "groups", None)
    if groups and (groups not in header or groups == target):
        raise CommandError(
            f"--groups names {groups!r}, which is not in the first line of "
            f"{arguments.file!r}, or is the target: name the column that tells the "
            "person of each row."
        )
    features = [name for name in header if name not in (target, groups)]
    for name in declared:
        if name not in (*features, groups):
            raise _unknown("the schema", name, target)
    unnamed = [name for name in nameless if not _is_named(arguments, name)]
    role = {
        name: declared.get(name, {}).get(
            "role", "ignore" if name in unnamed else "private"
        )
        for name in features
    }
    for name in arguments.drop or ():
        if name not in features:
            raise _unknown("--drop", name, target)
        role[name] = "ignore"
    left = [
        name for name in features if name not in (*unnamed, *(arguments.drop or ()))
    ]
    for name in _public(arguments.public or [], left, target):
        role[name] = "public"
    public, private, ignored = (
        [name for name in features if role[name] == kind]
        for kind in ("public", "private", "ignore")
    )
    return public, private, ignored


def _is_named(arguments: argparse.Namespace, name: str) -> bool:
    """Whether an option or the schema names a column."""
    listed = [*(arguments.public or ()), *(arguments.drop or ()), *arguments.declared]
    for option in ("bounds", "categories"):
        listed += [
            text[: len(name)]
            for text in getattr(arguments, option, None) or ()
            if text.startswith(f"{name}=")
        ]
    return name in listed


def warn_of_nameless(
    arguments: argparse.Namespace, header: Sequence[str], nameless: Sequence[str]
) -> None:
    """Say by position which columns are ignored because they have no name."""
    used = (arguments.target, arguments.groups)
    places = [
        str(place)
        for place, name in enumerate(header, 1)
        if name in nameless and name not in used and not _is_named(arguments, name)
    ]
    if places:
        several = len(places) > 1
        complain(
            f"warning: column{'s' * several} {', '.join(places)} of "
            f"{arguments.file!r} {'have' if several else 'has'} no name in the first "
            f"line and {'are' if several else 'is'} ignored."
        )


def resolve(
    arguments: argparse.Namespace, header: Sequence[str], nameless: Sequence[str] = ()
) -> Columns:
    """Return the columns as declared, or refuse.

    Parameters
    ----------
    arguments : Namespace
    header : sequence of str
        The file's column names.
    nameless : sequence of str, default=()
        Those among them that the file does not have.
    """
    public, private, _ = roles(arguments, header, nameless)
    features, target = [*public, *private], arguments.target
    declared = {name: arguments.declared.get(name, {}) for name in features}
    given: dict[str, dict] = {}
    for text in arguments.bounds or ():
        name, value = _assignment("--bounds", "COLUMN=LOW:HIGH", text, features, target)
        _add(given, name, "bounds", _pair(text, value))
    for text in arguments.categories or ():
        name, value = _assignment(
            "--categories", "COLUMN=A,B,...", text, features, target
        )
        _add(given, name, "categories", _listed(value, name))
    for name, entry in given.items():
        known = declared[name]
        # Knots of a column that is text now, say, have no meaning any more.
        other_kind = {"bounds", "categories"} & known.keys() - entry.keys()
        declared[name] = entry if other_kind else known | entry
    _require(arguments, private, declared)
    _check_use(arguments, features, private)
    return Columns(
        target,
        tuple(name for name in header if name in features),
        tuple(public),
        declared,
        tuple(arguments.interactions),
    )


def _public(patterns: list[str], features: list[str], target: str) -> list[str]:
    if patterns == ["all"]:
        return features
    public: list[str] = []
    for pattern in patterns:
        if pattern == target:
            raise CommandError(
                f"--public names the target {target!r}: use --public-target."
            )
        found = {pattern} & set(features) or {
            name for name in features if fnmatch.fnmatchcase(name, pattern)
        }
        if not found:
            raise _unknown("--public", pattern, target)
        public.extend(found)
    return public


def _unknown(option: str, name: str, target: str) -> CommandError:
    if name == target:
        return CommandError(
            f"{option} names the target {name!r} as a column: it is declared by "
            "--classes or --target-bounds."
        )
    return CommandError(
        f"{option} names the column {name!r}, which the file does not have or --drop "
        "removes: names are case-sensitive."
    )


def _assignment(
    option: str, form: str, text: str, features: list[str], target: str
) -> tuple[str, str]:
    """Split ``name=value`` where the name is a column; both sides may hold "="."""
    places = [i for i, character in enumerate(text) if character == "="]
    if not places:
        raise CommandError(f"{option} {text!r} must have the form {form}.")
    for place in places:
        if text[:place] in features:
            return text[:place], text[place + 1 :]
    raise _unknown(option, text[: places[0]], target)


def _add(given: dict, name: str, key: str, value: Any) -> None:
    entry = given.setdefault(name, {})
    if key in entry:
        raise CommandError(f"--{key} declares column {name!r} twice.")
    if entry:
        raise CommandError(
            f"column {name!r} has --bounds and --categories: numbers or text?"
        )
    entry[key] = value


def _pair(text: str, value: str) -> tuple[Any, Any]:
    sides: list[Any] = value.split(":")
    try:
        sides = [float(side) for side in sides]
    except ValueError:
        if re.search(r"\d\d?[./]\d\d?[./]\d\d", value):
            raise CommandError(
                f"--bounds {text!r}: write dates as 2024-12-31, here and in the file."
            ) from None
        if not re.fullmatch(r"\d{4}-\d\d-\d\d:\d{4}-\d\d-\d\d", value):
            sides = []
    if len(sides) != 2:
        raise CommandError(
            f"--bounds {text!r} must have the form COLUMN=LOW:HIGH, two numbers or two "
            "dates."
        )
    found = limits(*sides)
    if found is None:
        raise CommandError(f"--bounds {text!r} must satisfy LOW < HIGH, both finite.")
    return found


def _listed(text: str, name: str) -> tuple[str | int, ...]:
    # As in a CSV file: a category that holds a comma is quoted.
    listed = tuple(next(csv.reader([text], skipinitialspace=True), []))
    if not listed:
        raise CommandError(f"--categories of {name!r} must list at least one value.")
    return tuple(as_numbers([value.strip() for value in listed]))


def _require(
    arguments: argparse.Namespace, private: Sequence[str], declared: dict[str, dict]
) -> None:
    """Refuse private columns of which nothing is declared, without a look at them."""
    missing = [
        name for name in private if not {"bounds", "categories"} & declared[name].keys()
    ]
    if not missing:
        return
    identifiers = [quoted(name) for name in missing if named_as_identifier(name)]
    hint = f", as {' '.join(identifiers)} seems to be" if identifiers else ""
    others = [name for name in missing if not named_as_identifier(name)] or missing
    raise CommandError(
        f"nothing is declared of the private column{'s'[: len(missing) > 1]} "
        f"{', '.join(missing)}, and to learn it from the data would disclose them: "
        f"give --bounds {quoted(others[0] + '=LOW:HIGH')} for numbers and dates or "
        f"--categories {quoted(others[0] + '=A,B,...')} for text, or fill in the "
        f"schema that 'skfdp schema {quoted(arguments.file)}' drafts; --drop what is "
        f"no use or an identifier{hint}."
    )


def quoted(text: str) -> str:
    """Return a word as a shell needs it."""
    return f"'{text}'" if set(text) & set(" '\"*?&;()<>|$`\\") else text


def _check_use(arguments, features: Sequence[str], private: Sequence[str]) -> None:
    if not features:
        raise CommandError("there is no column to learn from besides the target.")
    if not private and arguments.public_target:
        raise CommandError(
            "--public covers every column and --public-target the target: there is "
            "nothing to protect, use scikit-learn."
        )
    whole_records = not Relation.of(arguments.relation).counts_are_public
    anything_public = len(private) < len(features) or arguments.public_target
    if whole_records and anything_public:
        raise CommandError(
            "--relation add_or_remove_one adds whole records, so nothing of them can "
            "be public: use replace_one or replace_special."
        )
    if (arguments.n_records is None) == whole_records:
        raise CommandError(
            "--n-records, a public nominal number of records, belongs to --relation "
            "add_or_remove_one and to no other."
        )
