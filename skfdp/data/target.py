"""Declared levels and their spelling, class labels, and scales of targets."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import math
import numbers
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from skfdp.data.grid import blocks
from skfdp.data.validation import check_interval, check_size, within_floats
from skfdp.privacy.checks import shown

# Which cells belong to the same declared level.
#
# This depends on how the level is declared:
#
# - A level declared as a number or a boolean matches as a number. 1, 1.0, True and text
#   that spells the number ("1", "01", "1.0", "1e0") are the same level. The words
#   "true" and "false", in upper or lower case, match only declared booleans.
# - A level declared as text matches as text. Text is compared in NFC form and without
#   surrounding spaces, so that "01" and "1", "1.10" and "1.1", "1E50" and "1E50.0"
#   differ. The words "true" and "false" match in upper and in lower case. They also
#   match booleans, because file readers turn these words into booleans. Bytes are read
#   as UTF-8. A number matches by its shortest spelling: 1 and 1.0 are "1", 0.1 is
#   "0.1". A date matches by its ISO form.
#
# Whole numbers are compared exactly, also beyond 2**53. A larger float can stand for
# several whole numbers, for instance after a missing value turned a column into floats.
# It matches only a level declared as this float, never an int or text. For float32 the
# limit is 2**24, for float16 2**11.
#
# None, NaN, NaT, NA and empty text are missing. Words that file readers treat as
# missing, such as "NA" and "nan", are missing, too, unless they are declared as text.


#: Positions that stand for an undeclared cell and for a missing cell.
UNDECLARED, MISSING_CELL = -1, -2

#: Words that pandas.read_csv reads as missing. (If a whole number in the column exceeds
#: 64 bits, pandas reads these words as text.)
TAKEN_FOR_MISSING = frozenset(
    "#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,<NA>,N/A,NA,NULL,NaN,"
    "None,n/a,nan,null".split(",")
)
# Stands for values that str() cannot convert to text.
_UNREADABLE = "?"
NOWHEN = np.datetime64("NaT", "us")
_FURTHEST_YEAR = 200_000  # microseconds in int64 reach the year 290,000
# Units of time that are finer than a microsecond, and how many make a microsecond.
_FINER = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
# Dates need dashes, because "20200131" is also the number 20200131.
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?", re.DOTALL)
# Largest number of digits of a whole number. By default int() refuses over 4300.
_MOST_DIGITS = 4000
_DIGITS = re.compile(r"[+-]?[0-9]+")


@dataclasses.dataclass(frozen=True)
class Spelling:
    """Declared levels, and the rules by which a cell matches one of them.

    The place of a cell is the position of the matching level in `levels`. The levels
    are in declared order: numbers and booleans as Python numbers, all others as text.
    `spelling_of` checks the levels and returns a `Spelling`.
    """

    levels: tuple[str | bool | int | float, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {"levels": self.levels}  # the index is computed again

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "levels", tuple(state["levels"]))

    @property
    def names(self) -> tuple[str, ...]:
        """The text of each level, such as "01067", "1" for 1.0, "True"."""
        return tuple(map(name_of, self.levels))

    @cached_property
    def _place_of(self) -> dict[tuple, int]:
        return {
            key: place
            for place, level in enumerate(self.levels)
            for key in _keys_of_level(level)
        }

    @cached_property
    def _place_of_text(self) -> dict[str, int]:
        """The position of each level that is declared as text, by its text."""
        texts = [level for level in self.levels if type(level) is str]
        return {text: self._place(text) for text in texts}

    def place(self, value: Any) -> int:
        """Return the position of the level that a cell matches.

        If there is none, return `MISSING_CELL` for a missing cell and `UNDECLARED` for
        any other. Both are negative. No value raises an error.
        """
        known = self._place_of_text.get(value) if type(value) is str else None
        return self._place(value) if known is None else known

    def _place(self, value: Any) -> int:
        keys, missing = _keys_of_cell(value)
        for key in keys:
            if key in self._place_of:
                return self._place_of[key]
        return MISSING_CELL if missing else UNDECLARED

    def places(self, values: np.ndarray) -> np.ndarray:
        """Return `place` for each cell of a column, as int64.

        Pass integers as integers, because float64 cannot represent every int64.
        """
        if values.dtype.kind not in "biufUSMm":
            return np.array(each(values.tolist(), self.place), dtype=np.int64)
        different, back = np.unique(values, return_inverse=True)
        found = np.array([self.place(value) for value in different], dtype=np.int64)
        return found[back.reshape(-1)]


def spelling_of(declared: Iterable, name: str, noun: str = "category") -> Spelling:
    """Return the `Spelling` of declared levels.

    Raise ValueError if a level is a missing value, or if a cell would match two levels.
    The error calls the declaration `name`, such as ``"categories['zip']"``, and a level
    `noun`. (In a NumPy array all levels have one type: ``np.array([1, "a"])`` declares
    two texts.)

    Examples
    --------
    >>> zips = spelling_of(["01067", "1067"], "zip")
    >>> [zips.place(cell) for cell in ("01067", "1067", 1067, 1067.0, "80331", None)]
    [0, 1, 1, 1, -1, -2]
    >>> grades = spelling_of([1, 2.5], "grade")
    >>> [grades.place(cell) for cell in ("01", True, "2.50", "true")]
    [0, 0, 1, -1]
    """
    found = tuple(declared)
    try:  # types are part of the cache key, because 1 == True
        return _spelling_of(tuple(map(type, found)), found, name, noun)
    except TypeError:  # levels without a hash
        return _spelling_of.__wrapped__((), found, name, noun)


@lru_cache(maxsize=64)
def _spelling_of(types: tuple, declared: tuple, name: str, noun: str) -> Spelling:
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
        # 1 and "01" have no key in common, yet the cell "01" would match both.
        before = [declares[key] for key in (*own, *of_cell) if key in declares]
        before += [matches[key] for key in own if key in matches]
        if before:
            raise ValueError(
                f"{name} holds {shown(before[0])} and {shown(value)}, which are the "
                f"same {noun}: keep one."
            )
        levels.append(level)
        declares |= dict.fromkeys(own, value)
        matches |= dict.fromkeys(of_cell, value)
    return Spelling(tuple(levels))


def name_of(level: str | bool | int | float) -> str:
    """Return a level as text; a number is written in its shortest form."""
    if isinstance(level, (str, bool)):
        return str(level)
    return _shortest(level) or hex(int(level))  # too many digits for str()


def text_of(value: Any) -> str | None:
    """Return the text by which a cell matches a text level; None if it is missing.

    The words "true" and "false", in upper or lower case, become "True" and "False".
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
    if _is_bool(value):
        return bool(value)
    if _is_number(value):
        found = _exact(value)
        return None if found != found else found  # noqa: PLR0124 -- NaN
    return _written(value)


def _keys_of_level(level: str | bool | int | float) -> list[tuple]:
    """Return the keys of a level. A cell with one of these keys matches the level."""
    if isinstance(level, str):
        return [("text", _word(level))]
    if isinstance(level, bool):
        return [("number", int(level)), ("word", str(level))]
    found: list[tuple] = [("number", level)]
    if isinstance(level, float) and math.isfinite(level):
        found.append(("float", level))
        if level.is_integer():
            # Beyond 2**53, the number that Python prints may differ from the exact one.
            spelt = int(decimal.Decimal(repr(level)))
            found += [("number", number) for number in {spelt} - {int(level)}]
    return found


def _keys_of_cell(value: Any) -> tuple[list[tuple], bool]:
    """Return the keys of a cell, and whether the cell may count as missing.

    Such a cell counts as missing only if none of its keys belongs to a level.
    """
    value = _decoded(value)
    if isinstance(value, str):
        return _keys_of_text(_text(value))
    if is_missing_cell(value):
        return [], True
    if _is_bool(value):
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
    """Return the text of a value that is neither text nor a number; dates as ISO."""
    if isinstance(value, (datetime.date, np.datetime64)):
        text = str(moment(value)).replace("T", " ")
        return re.sub(r" 00:00:00(\.0*)?$", "", text)
    try:
        return _text(str(value)) or _UNREADABLE
    except Exception:  # str() of a user's object may raise anything
        return _UNREADABLE


def is_missing_cell(value: Any) -> bool:
    """Whether a cell is None, NA, NaT or masked; NaN is a number."""
    missing = ("NAType", "NaTType", "MaskedConstant")
    if value is None or type(value).__name__ in missing:
        return True
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def _is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def _is_number(value: Any) -> bool:
    # A timedelta64 is an instance of numbers.Integral.
    return isinstance(value, (numbers.Real, decimal.Decimal)) and not isinstance(
        value, np.timedelta64
    )


def _exact(value: Any) -> int | float:
    """Return a number as an int if it is whole, else as a float; NaN if unreadable."""
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
    except Exception:  # a signalling decimal NaN, or a user-defined number class
        return math.nan


def _exact_decimal(value: decimal.Decimal) -> int | float:
    # int() of a number with a large exponent would exhaust the memory.
    whole = value.is_finite() and value.adjusted() < _MOST_DIGITS
    if whole and value == value.to_integral_value():
        return int(value)
    return float(value)


def number_in(text: str) -> int | float | None:
    """Return the number in a text, or None; whole numbers are exact."""
    if "_" in text:
        return None
    try:
        if _DIGITS.fullmatch(text):
            return int(text)
        found = float(text)
    except ValueError:  # not a number, or too many digits for int()
        return None
    if not math.isfinite(found):
        return found
    try:
        return _exact_decimal(decimal.Decimal(text))
    except (ArithmeticError, ValueError):  # the exponent is too small for decimal
        return found


def _is_rounded(number: float, value: Any) -> bool:
    """Whether a float is so large that it may stand for several whole numbers."""
    small = isinstance(value, np.floating) and value.dtype.itemsize < 8
    least = 2 / float(np.finfo(value.dtype).eps) if small else 2.0**53
    return math.isfinite(number) and abs(number) >= least


def _shortest(number: int | float | decimal.Decimal) -> str | None:
    """Return the shortest spelling of a number, or None if it is too long."""
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
    """Return a value as a finite number, or NaN if it is not one.

    Booleans become 0 and 1. Durations become days, and times of day become hours. Text
    is read as a boolean or a number.
    """
    try:
        found = _as_number(_decoded(value))
    except Exception:  # a signalling NaN of decimal, or a user's own object
        return math.nan
    return found if math.isfinite(found) else math.nan


def _as_number(value: Any) -> float:
    if isinstance(value, str):
        text = _word(_text(value))
        if text in ("True", "False"):
            return float(text == "True")
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
    return float(value) if _is_number(value) or _is_bool(value) else math.nan


def moment(value: Any) -> np.datetime64:
    """Return a date or time in microseconds, or NaT if it is not one.

    Accepted are dates of Python, numpy and pandas, a Period (its first moment), and ISO
    text that begins with year, month and day. The time zone is dropped: the result is
    the local time.
    """
    try:
        return _as_moment(_decoded(value))
    except Exception:  # a period beyond the years of a library, or a user's own object
        return NOWHEN


def _as_moment(value: Any) -> np.datetime64:
    if isinstance(value, str):
        text = value.strip()
        known = _ISO.fullmatch(text)
        value = datetime.datetime.fromisoformat(text) if known else None
    if isinstance(value, np.datetime64):
        return microseconds(np.array([value]))[0]
    if is_missing_cell(value):
        return NOWHEN
    if hasattr(value, "to_timestamp") and hasattr(value, "freq"):  # a Period of pandas
        return _as_moment(value.to_timestamp())
    if not isinstance(value, datetime.date):
        return NOWHEN
    if hasattr(value, "to_datetime64"):  # a Timestamp of pandas
        return _as_moment(value.tz_localize(None).to_datetime64())
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None)
    return np.datetime64(value, "us")


def microseconds(values: np.ndarray) -> np.ndarray:
    """Return datetime64 of any unit in microseconds, clipped to years ±200,000."""
    unit, _ = np.datetime_data(values.dtype)
    if unit == "generic":
        return np.full(values.shape, NOWHEN)
    if unit in _FINER:
        # NumPy cannot convert values within a microsecond of the smallest value of the
        # unit.
        first = np.datetime64(-(2**63) + _FINER[unit], unit)
        return np.maximum(values, first).astype("datetime64[us]")
    low, high = (
        np.datetime64(year - 1970, "Y").astype(values.dtype)
        for year in (-_FURTHEST_YEAR, _FURTHEST_YEAR)
    )
    return np.clip(values, low, high).astype("datetime64[us]")


def each(values: Iterable, read: Callable[[Any], Any]) -> list:
    """Return ``read(value)`` for each value.

    Equal values are read once if their types ensure that the results are equal, too.
    """
    values = list(values)
    others = set(map(type, values)) - {str, type(None)}
    # In a dict, 1, 1.0 and True are the same key.
    if len(others) > 1 or not all(map(_is_plain, others)):
        return list(map(read, values))
    known = {value: read(value) for value in dict.fromkeys(values)}
    return [known[value] for value in values]


def _is_plain(kind: type) -> bool:
    """Whether equal values of a type always convert to the same result."""
    return kind in (bool, int, float) or issubclass(kind, (np.number, np.bool_))


# A relative spread below this counts as zero.
_SMALLEST = 1e-12
# Largest absolute value of a target without declared bounds.
_FURTHEST = 1e100


@dataclasses.dataclass(frozen=True)
class TargetMap:
    """Rescaling of a regression target: ``(target - centre) / scale``.

    Attributes
    ----------
    centre, scale : float
        Released, or functions of a public target. The centre is 0 with a log link.
    log : bool
        Whether the link is a log link: rates are ``scale * exp(margin)``.
    low, high : float
        Declared bounds of the target; infinite without bounds.
    error : float
        Standard deviation of the noise in a released centre.
    """

    centre: float = 0.0
    scale: float = 1.0
    log: bool = False
    low: float = -math.inf
    high: float = math.inf
    error: float = 0.0

    def __call__(self, y: np.ndarray) -> np.ndarray:
        """Return the rescaled target, float64."""
        return (np.clip(y, self.low, self.high) - self.centre) / self.scale

    def coefficients(
        self, coef: np.ndarray, intercept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Convert coefficients to the units of the target, or of its log."""
        if self.log:
            return coef, intercept + math.log(self.scale)
        return coef * self.scale, intercept * self.scale + self.centre

    def margins(self, margins: np.ndarray | None) -> np.ndarray | None:
        """Convert margins of the target or its log to those of the rescaled target."""
        if margins is None:
            return None
        if self.log:
            return margins - math.log(self.scale)
        return (margins - self.centre) / self.scale

    def offset(self) -> float:
        """Return the margin that `margins` converts to 0."""
        return math.log(self.scale) if self.log else self.centre


def check_target_bounds(bounds: Any, loss: str, required: bool) -> tuple[float, float]:
    """Return the declared bounds as floats; -inf and inf without bounds."""
    if bounds is None:
        if required:
            raise ValueError(
                "target_bounds=None: a private target needs declared public bounds, "
                "target_bounds=(low, high) in the target's units; values outside are "
                "clipped."
            )
        return -math.inf, math.inf
    try:
        # Iterating over a frame or a mapping would give its labels or keys.
        low, high = map(
            float,
            None if hasattr(bounds, "columns") or isinstance(bounds, dict) else bounds,
        )
    except (TypeError, ValueError, OverflowError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"target_bounds={shown(bounds)} must be a pair (low, high) of finite "
            "numbers with low < high."
        )
    check_interval("target_bounds", bounds, low, high)
    if loss == "poisson" and low < 0:
        raise ValueError(
            f"target_bounds={shown(bounds)} must not be negative for loss='poisson': "
            "counts start at 0."
        )
    return low, high


def check_target(
    y: np.ndarray, loss: str, bounded: bool, finite: bool = True
) -> np.ndarray:
    """Return y as float64; errors quote no value.

    Negative counts are refused without declared bounds. With bounds they are clipped,
    because an error would reveal a private target. `finite=False` accepts NaN and
    infinity.
    """
    y = np.asarray(y)
    if y.dtype.kind == "O":
        plain = np.empty(y.shape, dtype=object)
        for place, value in enumerate(y):
            found = number(value)
            if math.isnan(found):
                # Keep infinity. With `finite`, values that are not numbers are kept,
                # too, and refused below. Without `finite` the target may be private.
                # Such values then become missing, because they must not stop a fit.
                real = isinstance(value, (numbers.Real, decimal.Decimal))
                kept = (finite or real) and not isinstance(value, np.timedelta64)
                found = within_floats(value) if kept else math.nan
            plain[place] = found
        y = plain
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    # Raised outside the handler: the original error may quote a value, and must not be
    # attached as context.
    if values is None or y.dtype.kind in "USMm":
        raise ValueError(
            "y holds values that are not numbers: a regressor needs a numeric target."
        )
    if finite and not np.isfinite(values).all():
        raise ValueError(
            "y contains NaN or infinity: replace such targets by a constant that is "
            "chosen without looking at the data."
        )
    if loss == "poisson" and not bounded and (values < 0).any():
        raise ValueError(
            "y holds negative values: loss='poisson' is for counts and rates."
        )
    return values


def check_unbounded(y: np.ndarray) -> None:
    """Raise ValueError if a target without declared bounds is too large for float64."""
    if np.abs(y).max(initial=0.0) > _FURTHEST:
        raise ValueError(
            f"y holds numbers beyond {_FURTHEST:g}, whose squares overflow float64: "
            "rescale the target, or declare target_bounds."
        )


def exact_map(
    y: np.ndarray,
    start: TargetMap,
    centred: bool,
    margins: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> TargetMap:
    """Return the rescaling of a public target, by its mean and its spread.

    `start` has the bounds and the link. `centred` is whether the model has an
    intercept. `shares` are row weights (None: 1). If the `margins` of a public model
    are passed, the spread is that of the residuals. With a log link the scale is the
    mean, because margins cannot be rescaled.
    """

    def mean_of(values: np.ndarray) -> float:
        return float(np.average(values, weights=shares))

    y = np.clip(y, start.low, start.high)
    mean = mean_of(y) if centred else 0.0
    if start.log:  # without an intercept the scale is 1
        return dataclasses.replace(start, scale=mean if mean > 0 else 1.0)
    if margins is None:
        spread = mean_of(np.abs(y - mean)) * SPREAD
    else:
        spread = math.sqrt(mean_of((y - margins[:, 0]) ** 2))
    scale = spread if spread > _SMALLEST * (1 + abs(mean)) else 1.0
    return dataclasses.replace(start, centre=mean, scale=scale)


#: Ratio of standard deviation to mean absolute deviation of a normal distribution.
SPREAD = math.sqrt(math.pi / 2)


# The class labels of a classifier, and the label of each record.


#: Remedy in errors on labels that scikit-learn may have replaced by 0, ..., k-1.
RECODED = (
    "Declare the labels of y as they are in y. In cross_val_predict(method="
    "'predict_proba'), voting, stacking, bagging and one-vs-rest, which recode labels, "
    "declare 0, ..., k-1."
)
#: Largest number of classes, because class codes are stored as int16.
MOST_CLASSES = 2**15


@dataclasses.dataclass(frozen=True)
class Labels:
    """The label set and the class of each record."""

    classes: np.ndarray
    #: Position of the label of each record in `classes`, int64; 0 if it is `missing`.
    codes: np.ndarray
    source: str  # "declared" or "data"
    #: Mask of the records whose label is not in `classes`; None if there are none.
    missing: np.ndarray | None = None

    @classmethod
    def unseen(cls, classes: Sequence, n_rows: int) -> Labels:
        """Return the declared classes, with code 0 for every record; y is not read."""
        declared = declared_labels(classes)
        return cls(declared, np.zeros(n_rows, dtype=np.int64), "declared")


def encode_any(y: np.ndarray, classes: Sequence) -> Labels:
    """Encode y, of any type, as positions in the declared classes.

    Raise ValueError if no value of y's dtype can be one of the classes. The error
    depends on the dtype alone, not on the values.
    """
    declared = declared_labels(classes)
    spelling = _spelling(declared)
    _check_type(y.dtype, declared, spelling)
    if y.dtype.kind == "O":
        places = spelling.places(y)
    else:
        seen, codes = _seen_and_codes(y)
        places = spelling.places(seen)[codes]
    missing = places < 0
    codes = np.maximum(places, 0)
    return Labels(declared, codes, "declared", missing if missing.any() else None)


def _spelling(declared: np.ndarray) -> Spelling:
    return spelling_of(declared.tolist(), "classes", "label")


def _check_type(dtype: np.dtype, declared: np.ndarray, spelling: Spelling) -> None:
    """Refuse a dtype of y in which no declared label can occur; reads no value."""
    kind = dtype.kind
    spelt = [number_in(v) if isinstance(v, str) else v for v in spelling.levels]
    spelt = [found for found in spelt if found is not None]
    if kind in "iu":
        holds, fits = "whole numbers", any(v == v // 1 for v in spelt)
    elif kind == "f":
        holds, fits = "numbers", bool(spelt)
    elif kind == "b":
        holds, fits = "booleans", any(spelling.place(one) >= 0 for one in (True, False))
    else:
        holds, fits = "complex numbers", kind != "c"
    if fits:
        return
    remedy = RECODED if kind in "iu" else "Convert one of them."
    raise ValueError(
        f"y holds {holds}, but `classes`={declared.tolist()!r} has none: y and "
        f"`classes` differ in type. {remedy}"
    )


def check_recoded(y: np.ndarray, classes: Any) -> None:
    """Refuse integers in y if the declared classes are booleans.

    The integers may be codes: before some fits scikit-learn replaces labels by 0, ...,
    k-1, and reads predictions as such codes.
    """
    if y.dtype.kind in "iu" and np.asarray(classes).dtype.kind == "b":
        raise ValueError(
            f"y holds whole numbers, and `classes`={list(classes)!r} holds booleans: y "
            f"and `classes` differ in type. {RECODED}"
        )


def are_codes(classes: np.ndarray) -> bool:
    """Whether the classes are 0, ..., k-1, the codes of labels in scikit-learn."""
    return np.array_equal(classes, np.arange(len(classes)))


def encode_labels(y: np.ndarray, classes: Sequence | None) -> Labels:
    """Encode y as positions in the declared classes, or in the classes found in y.

    Raise ValueError if y is not discrete, if it holds only one class, or if it holds an
    undeclared label.
    """
    if classes is not None:
        labels = encode_any(y, classes)
        if labels.missing is not None:
            raise ValueError(
                f"y holds labels outside `classes`={labels.classes.tolist()!r}: "
                "declare every label that can occur."
            )
        return labels
    # Not `check_classification_targets`: its warning would reveal the number of
    # classes, and silencing a warning is not thread-safe.
    try:
        kind, (seen, codes) = type_of_target(y, input_name="y"), _seen_and_codes(y)
    except TypeError:
        seen = None
    if seen is None:  # outside the handler, because its error may quote values
        raise ValueError(
            "y holds labels of several types, which have no order: convert them to one "
            "type."
        )
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. A classifier expects discrete classes: use a "
            "regressor for continuous values."
        )
    _check_number(seen)
    if len(seen) < 2:
        raise ValueError(
            "y holds one class only, but a classifier needs at least two: declare "
            "`classes` if other classes exist and only this y lacks them."
        )
    return Labels(seen, codes.astype(np.int64), "data")


def _seen_and_codes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and codes as `numpy.unique` does, with less memory."""
    if y.dtype.kind == "O":
        return np.unique(y, return_inverse=True)
    parts = [y[block] for block in blocks(len(y), 1)]
    seen = np.unique(np.concatenate([y[:0], *map(np.unique, parts)]))
    codes = np.empty(len(y), dtype=np.int64)
    for block in blocks(len(y), 1):
        codes[block] = np.searchsorted(seen, y[block])
    return seen, codes


def _check_number(labels: np.ndarray) -> None:
    if len(labels) > MOST_CLASSES:
        raise ValueError(
            f"y or `classes` has more than {MOST_CLASSES} labels: merge rare ones."
        )


def declared_labels(classes: Any) -> np.ndarray:
    """Return the declared labels, sorted and unique; refuse fewer than two."""
    labels = None
    if isinstance(classes, Collection) and not isinstance(classes, (str, Mapping)):
        with contextlib.suppress(TypeError, ValueError):  # labels without an order
            labels = np.asarray(classes)
            labels = np.unique(labels) if labels.ndim == 1 else None
    if labels is None:
        raise ValueError(
            f"classes={shown(classes)} must be a sequence of labels of one type."
        )
    _check_number(labels)
    # An array has one dtype, so the conversion may have made 1, 1.0 and "1" equal.
    if len({(type(label), label) for label in classes}) > len(labels):
        raise ValueError(
            f"classes={shown(classes)} holds one label in two types: keep one of them."
        )
    if len(labels) < 2:
        raise ValueError(f"classes={shown(classes)} must hold at least two labels.")
    _spelling(labels)
    return labels


def class_shares(
    codes: np.ndarray, n_classes: int, shares: np.ndarray | None = None
) -> np.ndarray:
    """Return the class frequencies of public labels.

    A class without records is counted as if it had one record.
    """
    counts = np.maximum(np.bincount(codes, shares, minlength=n_classes), 1.0)
    return counts / counts.sum()


def log_odds(shares: np.ndarray) -> np.ndarray:
    """Return the margins, shape (n_outputs,), that predict these class frequencies."""
    logs = np.log(shares)
    return logs[1:] - logs[:1] if len(shares) == 2 else logs - logs.mean()


def resolve_class_weight(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return one public weight per class.

    For "balanced" all are 1, because "balanced" is applied to the fitted model instead.
    """
    weights = np.ones(len(classes))
    if isinstance(class_weight, str | None) and class_weight in (None, "balanced"):
        return weights
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight={shown(class_weight)} must be None, 'balanced' or a dict "
            "from labels to weights."
        )
    spelling = _spelling(classes)
    for label, weight in class_weight.items():
        if (code := spelling.place(label)) < 0:
            raise ValueError(
                f"class_weight names the label {label!r}, which is not in `classes`."
            )
        check_size(f"class_weight[{label!r}]", weight, zero=True)
        weights[code] = weight
    if not weights.any():
        raise ValueError(
            f"class_weight={class_weight!r} gives every class the weight 0: give at "
            "least one class a positive weight."
        )
    return weights
