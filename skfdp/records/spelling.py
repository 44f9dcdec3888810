"""Spelling of declared labels and categories: which cells are one declared level.

The declaration decides the spelling, one declared level at a time:

- A level that is declared as a number or a boolean is a number. 1, 1.0, True and text
  that spells the number ("1", "01", "1.0", "1e0") are one level. The words "true" and
  "false", in upper or lower case, are levels only of declared booleans.
- A level that is declared as text is text. Text is compared in its NFC form and without
  the spaces around it, so that "01" and "1", "1.10" and "1.1", "1E50" and "1E50.0"
  differ. The words "true" and "false" are one level in upper and in lower case, and are
  the level of the booleans too, because readers of files turn them into booleans.
  Bytes are read as UTF-8. A number matches by its shortest spelling: 1 and 1.0
  are "1", 0.1 is "0.1". A date matches by its ISO form.

Whole numbers are compared exactly, beyond 2**53 too. A float that large can stand for
several whole numbers (a column with a missing value turns whole numbers into floats):
it is only a level that is declared as this float, never a declared int or text. The
limit of float32 is 2**24, that of float16 is 2**11.

None, NaN, NaT, NA and empty text are missing. So are words that readers of files take
for missing, such as "NA" and "nan", unless they are declared as text.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
import numbers
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from skfdp.records.checks import shown

#: The places of a cell that is no declared level, and of one that is missing.
UNDECLARED, MISSING_CELL = -1, -2

#: What pandas reads as missing, unless a cell of the column has more than 64 bits.
TAKEN_FOR_MISSING = frozenset(
    "#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,<NA>,N/A,NA,NULL,NaN,"
    "None,n/a,nan,null".split(",")
)
# Stands for values that have no text.
_UNREADABLE = "?"
_NOWHEN = np.datetime64("NaT", "us")
_FURTHEST_YEAR = 200_000  # microseconds in int64 reach 90,000 years further
_UNITS_ABOVE = ("Y", "M", "W", "D", "h", "m", "s", "ms")
# Only with dashes: "20200131" and 20200131 are one number in two types.
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?", re.DOTALL)
# More digits than a number needs, and fewer than int() refuses or memory holds.
_MOST_DIGITS = 4000
_DIGITS = re.compile(r"[+-]?[0-9]+")


@dataclasses.dataclass(frozen=True)
class Spelling:
    """Declared levels, and the place of each cell among them; see the module.

    Attributes
    ----------
    levels : tuple of str, bool, int or float
        In the order of the declaration: numbers and booleans as Python numbers, all
        else as text. `spelling_of` checks the levels and makes the spelling.
    """

    levels: tuple[str | bool | int | float, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {"levels": self.levels}  # the index is made anew

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "levels", tuple(state["levels"]))

    @property
    def names(self) -> tuple[str, ...]:
        """The declared spelling of each level: "01067", "1" of 1.0, "True"."""
        return tuple(map(name_of, self.levels))

    @cached_property
    def _place_of(self) -> dict[tuple, int]:
        return {
            key: place
            for place, level in enumerate(self.levels)
            for key in _keys_of_level(level)
        }

    def place(self, value: Any) -> int:
        """Return the place of a cell; `UNDECLARED` or `MISSING_CELL`, below 0, if none.

        Parameters
        ----------
        value : object
            Anything: no value raises an error.
        """
        keys, missing = _keys_of_cell(value)
        for key in keys:
            if key in self._place_of:
                return self._place_of[key]
        return MISSING_CELL if missing else UNDECLARED

    def places(self, values: np.ndarray) -> np.ndarray:
        """Return the place of each cell of a column as int64; see `place`.

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
            Of any dtype. Pass integers as integers: float64 cannot hold every int64.
        """
        if values.dtype.kind not in "biufUSMm":
            return np.array(each(values.tolist(), self.place), dtype=np.int64)
        different, back = np.unique(values, return_inverse=True)
        found = np.array([self.place(value) for value in different], dtype=np.int64)
        return found[back.reshape(-1)]


def spelling_of(declared: Iterable, name: str, noun: str = "category") -> Spelling:
    """Return the spelling of declared levels.

    Parameters
    ----------
    declared : iterable
        Numbers, booleans, texts, dates. ``np.array([1, "a"])`` holds two texts.
    name : str
        The name of the declaration in errors, such as ``"categories['zip']"``.
    noun : str, default="category"
        The name of one level in errors.

    Raises
    ------
    ValueError
        If a level is a missing value, or one cell would be two levels.

    Examples
    --------
    >>> zips = spelling_of(["01067", "1067"], "zip")
    >>> [zips.place(cell) for cell in ("01067", "1067", 1067, 1067.0, "80331", None)]
    [0, 1, 1, 1, -1, -2]
    >>> grades = spelling_of([1, 2.5], "grade")
    >>> [grades.place(cell) for cell in ("01", True, "2.50", "true")]
    [0, 0, 1, -1]
    """
    levels: list[Any] = []
    declares: dict[tuple, Any] = {}
    matches: dict[tuple, Any] = {}
    for value in declared:
        level = _level(value)
        if level is None:
            raise ValueError(
                f"{name} holds {shown(value)}, which is a missing value: leave it out, "
                f"because a missing value is never a {noun}."
            )
        own, of_cell = _keys_of_level(level), _keys_of_cell(level)[0]
        # 1 and "01" have no key in common, and yet the cell "01" would be both.
        before = [declares[key] for key in (*own, *of_cell) if key in declares]
        before += [matches[key] for key in own if key in matches]
        if before:
            raise ValueError(
                f"{name} holds {shown(before[0])} and {shown(value)}, which are one "
                f"{noun}: keep one."
            )
        levels.append(level)
        declares |= dict.fromkeys(own, value)
        matches |= dict.fromkeys(of_cell, value)
    return Spelling(tuple(levels))


def name_of(level: str | bool | int | float) -> str:
    """Return the spelling of a level: text as it is, a number by its shortest one."""
    if isinstance(level, (str, bool)):
        return str(level)
    return _shortest(level) or hex(int(level))  # with more digits than str() takes


def text_of(value: Any) -> str | None:
    """Return the text that a cell has among levels declared as text; None if missing.

    The words "true" and "false" are "True" and "False", however they are written.
    """
    keys, missing = _keys_of_cell(value)
    found = [key[1] for key in keys if key[0] == "text"]
    return None if missing or not found else found[0]


def _level(value: Any) -> str | bool | int | float | None:
    """Return a declared level as text or as a Python number; None if it is missing."""
    value = _decoded(value)
    if isinstance(value, str):
        return _text(value) or None
    if is_missing_cell(value):
        return None
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if _is_number(value):
        found = _exact(value)
        return None if found != found else found  # noqa: PLR0124 -- NaN
    return _written(value)


def _keys_of_level(level: str | bool | int | float) -> list[tuple]:
    """Return the keys by which cells find a level."""
    if isinstance(level, str):
        return [("text", _word(level))]
    if isinstance(level, bool):
        return [("number", int(level)), ("word", str(level))]
    found: list[tuple] = [("number", level)]
    if isinstance(level, float) and math.isfinite(level):
        found.append(("float", level))
        if level.is_integer():
            spelt = int(decimal.Decimal(repr(level)))
            found += [("number", number) for number in {spelt} - {int(level)}]
    return found


def _keys_of_cell(value: Any) -> tuple[list[tuple], bool]:
    """Return the keys of a cell, and whether it is missing where no level has them."""
    value = _decoded(value)
    if isinstance(value, str):
        return _keys_of_text(_text(value))
    if is_missing_cell(value):
        return [], True
    if isinstance(value, (bool, np.bool_)):
        return [("number", int(value)), ("text", str(bool(value)))], False
    if not _is_number(value):
        return [("text", _written(value))], False
    number = _exact(value)
    if isinstance(number, float) and math.isnan(number):
        return [], True
    if isinstance(number, float) and _is_rounded(number, value):
        return [("float", number)], False
    spelt = _shortest(value if isinstance(value, decimal.Decimal) else number)
    return [("number", number), *([] if spelt is None else [("text", spelt)])], False


def _keys_of_text(text: str) -> tuple[list[tuple], bool]:
    word = _word(text)
    if word in ("True", "False"):
        return [("text", word), ("word", word)], False
    number = number_in(text)
    if number is None:
        return [("text", word)], not text or text in TAKEN_FOR_MISSING
    if isinstance(number, float) and math.isnan(number):
        return [("text", word)], True
    rounded = isinstance(number, float) and _is_rounded(number, number)
    return [("text", word), ("float" if rounded else "number", number)], False


def _word(text: str) -> str:
    return text.capitalize() if text.casefold() in ("true", "false") else text


def _text(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip())


def _decoded(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return value.decode(errors="replace")
    return value


def _written(value: Any) -> str:
    """Return the text of what is no text and no number; dates in ISO form."""
    if isinstance(value, (datetime.date, np.datetime64)):
        text = str(moment(value)).replace("T", " ")
        return re.sub(r" 00:00:00(\.0*)?$", "", text)
    try:
        return _text(str(value)) or _UNREADABLE
    except Exception:  # whatever the text of a user's object raises
        return _UNREADABLE


def is_missing_cell(value: Any) -> bool:
    """Whether a cell is None, NA, NaT or masked; NaN is a number."""
    missing = ("NAType", "NaTType", "MaskedConstant")
    if value is None or type(value).__name__ in missing:
        return True
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def _is_number(value: Any) -> bool:
    # A timedelta64 calls itself an integer.
    return isinstance(value, (numbers.Real, decimal.Decimal)) and not isinstance(
        value, np.timedelta64
    )


def _exact(value: Any) -> int | float:
    """Return a number as a whole number if it is one, else as a float; or as NaN."""
    try:
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, np.floating) and value.dtype.itemsize < 8:
            return float(str(value))  # 0.1 and not 0.10000000149
        if isinstance(value, decimal.Decimal):
            return _exact_decimal(value)
        if isinstance(value, numbers.Rational) and value.denominator == 1:
            return int(value)
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # a signalling NaN of decimal, or a user's own number
        return math.nan


def _exact_decimal(value: decimal.Decimal) -> int | float:
    # int() of a large exponent takes all memory.
    whole = value.is_finite() and value.adjusted() < _MOST_DIGITS
    if whole and value == value.to_integral_value():
        return int(value)
    return float(value)


def number_in(text: str) -> int | float | None:
    """Return the number that text spells, whole ones exactly, or NaN; None if none."""
    if "_" in text:
        return None
    try:
        if _DIGITS.fullmatch(text):
            return int(text)
        found = float(text)
    except ValueError:  # int() refuses more digits than anybody needs
        return None
    if not math.isfinite(found):
        return found
    try:
        return _exact_decimal(decimal.Decimal(text))
    except (ArithmeticError, ValueError):  # exponents below those of decimal
        return found


def _is_rounded(number: float, value: Any) -> bool:
    """Whether a float is so large that it may stand for several whole numbers."""
    small = isinstance(value, np.floating) and value.dtype.itemsize < 8
    least = 2 / float(np.finfo(value.dtype).eps) if small else 2.0**53
    return math.isfinite(number) and abs(number) >= least


def _shortest(number: int | float | decimal.Decimal) -> str | None:
    """Return the shortest spelling of a number, None if it is too long for one."""
    if isinstance(number, decimal.Decimal) and number.is_finite():
        low, high = number.as_tuple().exponent, number.adjusted()
        if not -_MOST_DIGITS < int(low) <= high < _MOST_DIGITS:
            return None
        text = format(number, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    number = float(number) if isinstance(number, decimal.Decimal) else number
    if isinstance(number, float):
        if not number.is_integer() or abs(number) >= 2.0**53:
            return repr(number)
        number = int(number)
    return str(number) if number.bit_length() < 3 * _MOST_DIGITS else None


def number(value: Any) -> float:
    """Return a value as a finite number; NaN where it is none.

    Parameters
    ----------
    value : object
        A number, a boolean (0 or 1), text that reads as one of them, a duration (in
        days) or a time of day (in hours).
    """
    try:
        found = _as_number(_decoded(value))
    except Exception:  # a signalling NaN of decimal, or a user's own object
        return math.nan
    return found if math.isfinite(found) else math.nan


def _as_number(value: Any) -> float:
    if isinstance(value, str):
        text = _text(value)
        if text.casefold() in ("true", "false"):
            return float(text.casefold() == "true")
        found = number_in(text)
        return math.nan if found is None else float(found)
    if is_missing_cell(value):
        return math.nan
    if isinstance(value, datetime.timedelta):  # a Timedelta of pandas, too
        return value / datetime.timedelta(days=1)
    if isinstance(value, np.timedelta64):
        unit, _ = np.datetime_data(value.dtype)
        known = unit not in ("generic", "Y", "M")
        return float(value / np.timedelta64(1, "D")) if known else math.nan
    if isinstance(value, datetime.time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return (seconds + value.microsecond * 1e-6) / 3600.0
    if isinstance(value, (numbers.Real, decimal.Decimal, np.bool_)):
        return float(value)
    return math.nan


def moment(value: Any) -> np.datetime64:
    """Return a date or time in microseconds, NaT where it is none.

    Parameters
    ----------
    value : object
        A date, datetime, Timestamp, datetime64, a Period, which is its first moment, or
        ISO text that begins with year, month and day. A time zone is left out: the time
        is the one on the clock there.
    """
    try:
        return _as_moment(_decoded(value))
    except Exception:  # a period beyond the years of a library, or a user's own object
        return _NOWHEN


def _as_moment(value: Any) -> np.datetime64:
    if isinstance(value, str):
        text = value.strip()
        known = _ISO.fullmatch(text)
        value = datetime.datetime.fromisoformat(text) if known else None
    if isinstance(value, np.datetime64):
        return microseconds(np.array([value]))[0]
    if is_missing_cell(value):
        return _NOWHEN
    if hasattr(value, "to_timestamp") and hasattr(value, "freq"):  # a Period of pandas
        return _as_moment(value.to_timestamp())
    if not isinstance(value, datetime.date):
        return _NOWHEN
    if hasattr(value, "to_datetime64"):  # a Timestamp of pandas
        return _as_moment(value.tz_localize(None).to_datetime64())
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None)
    return np.datetime64(value, "us")


def microseconds(values: np.ndarray) -> np.ndarray:
    """Return datetime64 of any unit in microseconds, years beyond 200,000 cut."""
    unit, _ = np.datetime_data(values.dtype)
    if unit == "generic":
        return np.full(values.shape, _NOWHEN)
    if unit in _UNITS_ABOVE:  # others hold no such years
        sides = [np.datetime64(year - 1970, "Y") for year in (-_FURTHEST_YEAR, 200_000)]
        low, high = (side.astype(values.dtype) for side in sides)
        values = np.clip(values, low, high)
    return values.astype("datetime64[us]")


def each(values: Iterable, read: Callable[[Any], Any]) -> list:
    """Return read(value) of each value, of equal texts once."""
    known: dict[str, Any] = {}
    found = []
    for value in values:
        if type(value) is not str:  # 1, 1.0 and True would be one key
            found.append(read(value))
            continue
        if value not in known:
            known[value] = read(value)
        found.append(known[value])
    return found
