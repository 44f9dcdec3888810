"""Declared levels and their spelling, class labels, and scales of targets."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import math
import numbers
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import type_of_target

from skfdp.data.validation import check_interval, check_size, read_safely
from skfdp.kernels.losses import OF_RATES
from skfdp.privacy.checks import computed, shown
from skfdp.privacy.checks import text as checked_text

# Which cells belong to the same declared level.
#
# A cell is compared by its own value. The type of its column, which another cell may
# have changed, has no influence:
#
# - Text matches a level that is declared as the same text, in NFC form and without
#   surrounding spaces. The words "true" and "false" match in upper and lower case.
#   Bytes are read as UTF-8. A date is its ISO text.
# - A number, and text that spells one, matches a level with the same float64. Such a
#   level is declared as a number, or as the usual text of a number: "1", "0.1". A
#   boolean is a word and one of the numbers 0 and 1. A complex number without imaginary
#   part is its real part.
#
# Text is compared as text first: of the levels "01" and "1", "01" matches the first.
# The number 1 matches "1" alone. Whole numbers beyond 2**53 are compared as floats,
# too, because a missing value turns a column of integers into floats.
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
# Number of units in a day, as integers, so that a quotient is rounded once.
_A_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400 * 10**3}
_A_DAY |= {unit: 86_400 * 10**6 * finer for unit, finer in {"us": 1, **_FINER}.items()}
_ISO = re.compile(r"[0-9]{4}(-?)[0-9]{2}\1[0-9]{2}([T ].*)?", re.DOTALL)
# Largest number of digits of a whole number. By default str() refuses over 4300.
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
    # The indexes are computed now. If the first cell computed them, the encoder of a
    # fitted model would reveal in memory whether a private cell holds text.
    _texts: dict[str, int] = computed()
    #: The level of each number, unless two text levels have this float64.
    _numbers: dict[float, int] = computed()

    def __post_init__(self) -> None:
        texts = {_meaning(level)[0]: place for place, level in enumerate(self.levels)}
        texts.pop(None, None)
        usual = {}
        for place, level in enumerate(self.levels):
            found, is_text = level, isinstance(level, str)
            if is_text:  # a number only if it is the usual text of this number
                found = number_in(level)
            if not is_text or (found is not None and _shortest(found) == level):
                usual[place] = _float(found)
        times = Counter(usual.values())
        known = {found: place for place, found in usual.items() if times[found] == 1}
        for found, place in [*known.items()]:
            for kind in (np.float32, np.float16):
                # In a column of float32, 0.1 is 0.10000000149.
                with np.errstate(all="ignore"):
                    stored = kind(found)
                if float(str(stored)) == found:
                    known.setdefault(float(stored), place)
        vars(self).update(_texts=texts, _numbers=known)

    def __getstate__(self) -> dict[str, Any]:
        return {"levels": self.levels}  # the indexes are computed again

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(levels=tuple(state["levels"]))
        self.__post_init__()

    @property
    def names(self) -> tuple[str, ...]:
        """The text of each level, such as "01067", "1" for 1.0, "True"."""
        return tuple(map(name_of, self.levels))

    def place(self, value: Any) -> int:
        """Return the position of the level that a cell matches.

        It is negative if there is none: `MISSING_CELL` or `UNDECLARED`. No value raises
        an error.
        """
        if type(value) is str and (known := self._texts.get(value)) is not None:
            return known
        text, number = _meaning(value)
        if text in self._texts:
            return self._texts[text]
        if number is None:
            return UNDECLARED
        if math.isnan(number):
            return MISSING_CELL
        return self._numbers.get(number, UNDECLARED)

    def places(self, values: np.ndarray) -> np.ndarray:
        """Return `place` for each cell of a column, as int64."""
        if values.dtype.kind == "O":
            return np.array(each(values.tolist(), self.place), dtype=np.int64)
        different, back = np.unique(values, return_inverse=True)
        found = np.array([self.place(value) for value in different], dtype=np.int64)
        return found[back.reshape(-1)]

    def misfit(self, kind: str) -> str | None:
        """Return why a column of this type cannot hold the levels; None if it can.

        `kind` is that of `skfdp.data.arrays.type_kind`. A column of numbers holds no
        text. Neither can it hold a text level such as "007", which it would hold as 7.
        """
        if kind == "boolean":
            fits = self.place(False) >= 0 or self.place(True) >= 0
            return None if fits else "no declared value is a boolean"
        if kind in ("date", "period", "duration", "time", "other"):
            fits = any(isinstance(level, str) for level in self.levels)
            what = "text" if kind == "other" else f"the text of a {kind}"
            return None if fits else f"no declared value is {what}"
        if kind not in ("integer", "number", "complex"):
            return None
        known = set(self._numbers.values())
        for place, level in enumerate(self.levels):
            text, number = _meaning(level)
            unread = number is None or math.isnan(number) or _is_word(text)
            if place not in known and not unread:
                return f"{level!r} is text, and a number does not keep its digits"
        whole = kind == "integer"
        fits = any(not whole or number.is_integer() for number in self._numbers)
        return None if fits else "no declared value is such a number"


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
    >>> [grades.place(cell) for cell in ("01", True, "2.50", "true", "x")]
    [0, 0, 1, 0, -1]
    """
    found = tuple(declared)
    try:  # types are part of the cache key, because 1 == True
        return _spelling_of(tuple(map(type, found)), found, name, noun)
    except TypeError:  # levels without a hash
        return _spelling_of.__wrapped__((), found, name, noun)


@lru_cache(maxsize=64)
def _spelling_of(types: tuple, declared: tuple, name: str, noun: str) -> Spelling:
    levels: list[Any] = []
    # What is declared, by its text, and by its number and whether it is text.
    seen: dict[Any, Any] = {}
    for value in declared:
        if isinstance(value, (list, tuple, set, Mapping)):
            raise ValueError(f"{name} holds {shown(value)}: list text or numbers.")
        level = _level(value)
        if level is None:
            raise ValueError(
                f"{name} holds {shown(value)}, which is a missing value: leave it out, "
                f"because a missing value is never a {noun}."
            )
        (text, number), is_text = _meaning(level), isinstance(level, str)
        if is_text:
            checked_text(name, level)
            number = None if _is_word(text) else number
        # Text "01" and "1" are two levels. The number 1 would be the same as both.
        keys = [text, (number, False), (number, True)][: 3 - is_text]
        if same := [seen[key] for key in keys if key in seen]:
            raise ValueError(
                f"{name} holds {shown(same[0])} and {shown(value)}, which are the "
                f"same {noun}: keep one."
            )
        levels.append(level)
        if text is not None:
            seen[text] = value
        if number is not None:
            seen[number, is_text] = value
    return Spelling(tuple(levels))


def name_of(level: str | bool | int | float) -> str:
    """Return a level as text; a number is written in its shortest form."""
    if isinstance(level, (str, bool)):
        return str(level)
    return _shortest(level) or hex(int(level))  # too many digits for str()


def text_of(value: Any) -> str | None:
    """Return a cell as the text of a level; None if it is missing.

    The words "true" and "false", in upper or lower case, become "True" and "False".
    """
    text, number = _meaning(value)
    if number is not None and math.isnan(number):
        return None
    return _shortest(_exact(_plain_cell(value))) if text is None else text


def _level(value: Any) -> str | bool | int | float | None:
    """Return a declared level as text or as a Python number; None if it is missing."""
    value = _plain_cell(value)
    if isinstance(value, str):
        return _text(value) or None
    text, number = _meaning(value)
    if number is not None and math.isnan(number):
        return None
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return _exact(value) if text is None else text


def _meaning(value: Any) -> tuple[str | None, float | None]:
    """Return the text and the number by which a cell is compared, None without one.

    The number NaN means that the cell counts as missing, unless its text is declared.
    """
    value = _plain_cell(value)
    if isinstance(value, str):
        text = _text(value)
        if text.casefold() in ("true", "false"):
            return text.capitalize(), float(text.casefold() == "true")
        number = number_in(text)
        if number is None:
            missing = not text or text in TAKEN_FOR_MISSING
            return text, math.nan if missing else None
        return text, _float(number)
    if is_missing_cell(value):
        return None, math.nan
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)), float(value)
    return (None, _float(value)) if _is_number(value) else (_written(value), None)


def _is_word(text: str | None) -> bool:
    return text in ("True", "False")


def _text(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip())


def _plain_cell(value: Any) -> Any:
    if isinstance(value, str):  # a subclass may have methods of its own
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode(errors="replace")
    if isinstance(value, (complex, np.complexfloating)) and value.imag == 0:
        return value.real
    return value


def _written(value: Any) -> str:
    """Return the text of a value that is neither text nor a number; dates as ISO."""
    if isinstance(value, (datetime.date, np.datetime64)):
        return re.sub(r" 00:00:00(\.0*)?$", "", str(moment(value)).replace("T", " "))
    try:
        return _text(str(value)) or _UNREADABLE
    except Exception:  # str() of a user's object may raise anything
        return _UNREADABLE


def is_missing_cell(value: Any) -> bool:
    """Whether a cell is None, NA, NaT or masked; NaN is a number."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def is_missing(value: Any) -> bool:
    """Whether an entry of an array is None, NaN, NaT, NA or masked."""
    value = _plain_cell(value)
    return is_missing_cell(value) or (_is_number(value) and math.isnan(_float(value)))


def _is_number(value: Any) -> bool:
    # A timedelta64 is an instance of numbers.Integral.
    return isinstance(value, (numbers.Real, decimal.Decimal)) and not isinstance(
        value, np.timedelta64
    )


def _exact(value: Any) -> int | float:
    """Return an integer as an int, another number as a float; NaN if unreadable."""
    if isinstance(value, numbers.Integral):
        return int(value)
    small = isinstance(value, np.floating) and value.dtype.itemsize < 8
    return _float(str(value) if small else value)  # 0.1 and not 0.10000000149


def _float(value: Any) -> float:
    """Return a number as a float, which may be infinite; NaN if unreadable."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # a signalling decimal NaN, or a user-defined number class
        return math.nan


def number_in(text: str) -> int | float | None:
    """Return the number in a text, or None; digits alone are an exact int."""
    if "_" in text:
        return None
    try:
        return int(text) if _DIGITS.fullmatch(text) else float(text)
    except ValueError:  # not a number, or too many digits for int()
        return None


def _shortest(number: int | float) -> str | None:
    """Return the shortest spelling of a number, or None if it is too long."""
    if isinstance(number, float):
        if not number.is_integer() or abs(number) >= 2.0**53:
            return repr(number)
        number = int(number)
    return str(number) if number.bit_length() < 3 * _MOST_DIGITS else None


def as_number(value: Any) -> float:
    """Return a value as a finite number, or NaN if it is not one; see `real`."""
    found = real(value)
    return found if math.isfinite(found) else math.nan


def real(value: Any) -> float:
    """Return a value as a float, which may be infinite; NaN if it is not a number.

    Booleans become 0 and 1. Durations become days, and times of day become hours. Text
    is read as a boolean or a number.
    """
    try:
        if isinstance(value, datetime.time):
            seconds = value.hour * 3600 + value.minute * 60 + value.second
            return (seconds + value.microsecond * 1e-6) / 3600.0
        duration = isinstance(value, (datetime.timedelta, np.timedelta64))
        if duration and not is_missing_cell(value):
            return _days(value)
        found = _meaning(value)[1]
    except Exception:  # a user's own object
        return math.nan
    return math.nan if found is None else found


def _days(value: Any) -> float:
    """Return a duration in days, rounded once whatever the type that holds it."""
    if hasattr(value, "to_timedelta64"):  # a Timedelta of pandas
        value = value.to_timedelta64()
    if isinstance(value, datetime.timedelta):
        return (value // datetime.timedelta(microseconds=1)) / _A_DAY["us"]
    unit, step = np.datetime_data(value.dtype)
    if unit == "W":
        unit, step = "D", 7 * step
    count = int(value.astype(np.int64)) * step
    return count / _A_DAY[unit] if unit in _A_DAY else math.nan


def moment(value: Any, read: Callable[[str], Any] | None = None) -> np.datetime64:
    """Return a date or time in microseconds, or NaT if it is not one.

    Accepted are dates of Python, numpy and pandas, a Period (its first moment), and
    text. `read` converts text to a date of Python; None: ISO text with year, month and
    day. A whole number is read as its digits. The time zone is dropped: the result is
    the local time.
    """
    try:
        return _as_moment(_plain_cell(value), read or _iso)
    except Exception:  # a period beyond the years of a library, or a user's own object
        return NOWHEN


def _as_moment(value: Any, read: Callable[[str], Any]) -> np.datetime64:
    if _is_number(value) and not isinstance(value, (bool, np.bool_)):
        value = repr(_float(value))
    if isinstance(value, str):
        value = read(value.strip())
    if isinstance(value, np.datetime64):
        return microseconds(np.array([value]))[0]
    if is_missing_cell(value):
        return NOWHEN
    if hasattr(value, "to_timestamp") and hasattr(value, "freq"):  # a Period of pandas
        return _as_moment(value.to_timestamp(), read)
    if not isinstance(value, datetime.date):
        return NOWHEN
    if hasattr(value, "to_datetime64"):  # a Timestamp of pandas
        return _as_moment(value.tz_localize(None).to_datetime64(), read)
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None)
    return np.datetime64(value, "us")


def _iso(text: str) -> datetime.datetime | None:
    text = digits(text) or text
    return datetime.datetime.fromisoformat(text) if _ISO.fullmatch(text) else None


def digits(text: str, width: int = 1) -> str | None:
    """Return the digits of a whole number with leading zeros; None for other text.

    A file reader may have turned "01072024" into 1072024 or "1072024.0".
    """
    number = number_in(text)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return f"{number:0{width}d}" if isinstance(number, int) else None


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
    """Return ``read(value)`` for each; equal values of equal types are read once."""
    values = list(values)
    others = set(map(type, values)) - {str, type(None)}
    # In a dict, 1, 1.0 and True are the same key.
    simple = bool, int, float
    alike = all(k in simple or issubclass(k, (np.number, np.bool_)) for k in others)
    if len(others) > 1 or not alike:
        return list(map(read, values))
    known = {value: read(value) for value in dict.fromkeys(values)}
    return [known[value] for value in values]


# A relative spread below this counts as zero.
_SMALLEST = 1e-12
#: Largest absolute value of a target without declared bounds.
FURTHEST = 1e100


@dataclasses.dataclass(frozen=True)
class TargetMap:
    """Rescaling of a regression target: ``(target - centre) / scale``.

    Centre and scale are released, or functions of a public target.
    """

    centre: float = 0.0  # 0 with a log link
    scale: float = 1.0
    log: bool = False  # whether the link is a log link: rates are scale * exp(margin)
    low: float = -math.inf  # declared bounds of the target
    high: float = math.inf
    error: float = 0.0  # standard deviation of the noise in a released centre
    #: Mean exposure, released or of public ones; the scale is that of the target
    #: divided by exposures. 1 without exposures.
    exposure: float = 1.0

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


def loss_name(loss: Any) -> str:
    """Return the name of a loss, from its name or an object with its parameter."""
    return loss if isinstance(loss, str) else type(loss).__name__.lower()


def check_target_bounds(bounds: Any, loss: Any, required: bool) -> tuple[float, float]:
    """Return the declared bounds as floats; -inf and inf without bounds."""
    if bounds is None:
        if required:
            raise ValueError(
                "target_bounds=None: a private target needs declared public bounds, "
                "target_bounds=(low, high) in the target's units; values outside are "
                "clipped."
            )
        return -math.inf, math.inf
    # Iterating over a frame or a mapping would give its labels or keys.
    keyed = hasattr(bounds, "columns") or isinstance(bounds, dict)
    try:
        low, high = map(float, None if keyed else bounds)
    except (TypeError, ValueError, OverflowError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"target_bounds={shown(bounds)} must be a pair (low, high) of finite "
            "numbers with low < high."
        )
    check_interval("target_bounds", bounds, low, high)
    if loss_name(loss) in OF_RATES and (low < 0 or (loss == "gamma" and low == 0)):
        least = "above 0" if loss == "gamma" else "at least 0"
        raise ValueError(
            f"target_bounds={shown(bounds)} must be {least} for loss={shown(loss)}: "
            "declare a larger lower bound, or choose another loss."
        )
    return low, high


def check_target(
    y: np.ndarray, loss: Any, bounded: bool, finite: bool = True
) -> np.ndarray:
    """Return y as float64; errors quote no value.

    Without declared bounds values for which the loss is not defined are refused. With
    bounds they are clipped, because an error would reveal a private target.
    `finite=False` accepts NaN and infinity. Objects that are not numbers are NaN: a
    private one must not stop a fit.
    """
    y, values = np.asarray(y), None
    if y.dtype.kind in "biufO":
        values = np.array(
            each(y.tolist(), real) if y.dtype.kind == "O" else y, np.float64
        )
    if values is None or (finite and not np.isfinite(values).all()):
        raise ValueError(
            "y holds values that are not numbers, or NaN or infinity: replace such "
            "targets by a constant that is chosen without looking at the data."
        )
    if not bounded and loss_name(loss) in OF_RATES:
        if (values < 0).any() or (loss == "gamma" and not values.all()):
            sign = "non-positive" if loss == "gamma" else "negative"
            raise ValueError(
                f"y holds {sign} values, for which loss={shown(loss)} is not defined: "
                "leave such rows out, or choose another loss."
            )
    return values


def exact_map(
    y: np.ndarray,
    start: TargetMap,
    centred: bool,
    margins: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> TargetMap:
    """Return the rescaling of a public target, by its mean and its spread.

    `start` has the bounds and the link. `centred` is whether there is an intercept. The
    spread is that of residuals from the `margins` of a public model, if any. With a log
    link the scale is the mean, because margins cannot be rescaled.
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


#: Remedy in errors on labels that scikit-learn may have replaced by 0, ..., k-1.
RECODED = (
    "Declare the labels of y as they are in y. In cross_val_predict(method="
    "'predict_proba'), voting, stacking, bagging and one-vs-rest, which recode labels, "
    "declare 0, ..., k-1."
)
_UNORDERED = (
    "y holds labels of several types, which have no order: convert them to one type."
)
#: Largest number of classes, because class codes are stored as int16.
MOST_CLASSES = 2**15


class Labels(NamedTuple):
    """The label set and the class of each record."""

    classes: np.ndarray
    #: Position of the label of each record in `classes`, int64; 0 if it is `missing`.
    codes: np.ndarray
    source: str  # "declared" or "data"
    #: Mask of the records whose label is not in `classes`; None if there are none.
    missing: np.ndarray | None = None


def encode_any(y: np.ndarray, classes: Sequence) -> Labels:
    """Encode y, of any type, as positions in the declared classes; never refuse y."""
    declared = declared_labels(classes)
    places = _spelling(declared).places(y)
    missing = places < 0
    codes = np.maximum(places, 0)
    return Labels(declared, codes, "declared", missing if missing.any() else None)


def check_kind(kind: str, classes: Any) -> None:
    """Refuse a type of y, of the kind of `type_kind`, that cannot hold the classes."""
    declared = declared_labels(classes)
    why, levels = _spelling(declared).misfit(kind), declared.tolist()
    if kind == "date" and not any(_written(moment(one)) == one for one in levels):
        why = "no declared value is the text of a date"
    # scikit-learn may have replaced labels by the integers 0, ..., k - 1.
    if kind == "integer" and declared.dtype.kind == "b":
        why = "these are booleans"
    if why is not None:
        holds = {"integer": "whole numbers", "other": "values that are no labels"}
        raise ValueError(
            f"y holds {holds.get(kind, f'{kind}s')}, and `classes`="
            f"{levels!r}: {why}, so y and `classes` differ in type. {RECODED}"
        )


def _spelling(declared: np.ndarray) -> Spelling:
    return spelling_of(declared.tolist(), "classes", "label")


def calling(module: str, function: str) -> Any:
    """Return the innermost frame of a function that called this one, or None."""
    frame, place = sys._getframe(), (module, function)
    while frame and (frame.f_globals.get("__name__"), frame.f_code.co_name) != place:
        frame = frame.f_back
    return frame


def check_exactly(y: np.ndarray, labels: Labels) -> None:
    """Refuse recoded labels, and a y without any label, in a fit without privacy.

    A private fit compares released counts instead; see `solvers.descent.check_counts`.
    """
    if labels.missing is None:
        return
    declared, found = labels.classes.tolist(), set(labels.codes[~labels.missing])
    codes = spelling_of(range(len(declared)), "codes", "code")
    recoded = (
        len(found) < len(declared) and (codes.places(y[labels.missing]) >= 0).any()
    )
    if recoded or not found:
        which = "labels outside" if found else "no label of"
        raise ValueError(
            f"y holds {which} `classes`={declared!r}. "
            + (RECODED if recoded else "Declare the labels of y as they are in y.")
        )


def encode_labels(y: np.ndarray, classes: Sequence | None) -> Labels:
    """Encode y as positions in the declared classes, or in those of y.

    Refuse a y that is not discrete, or holds one class or an undeclared label.
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
    kind = read_safely(type_of_target, y, "y", message=_UNORDERED, kind=ValueError)
    seen, codes = read_safely(np.unique_inverse, y, message=_UNORDERED, kind=ValueError)
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
    # An array has one dtype, so the conversion may have made 1, 1.0 and "1" equal.
    if (
        labels is None
        or len(labels) < 2
        or len({(type(label), label) for label in classes}) > len(labels)
    ):
        raise ValueError(
            f"classes={shown(classes)} must hold at least two labels, all of one type, "
            "in a sequence."
        )
    _check_number(labels)
    _spelling(labels)
    return labels


def class_shares(
    codes: np.ndarray, n_classes: int, shares: np.ndarray | None = None
) -> np.ndarray:
    """Return the frequencies of public labels; an empty class counts one record."""
    counts = np.maximum(np.bincount(codes, shares, minlength=n_classes), 1.0)
    return counts / counts.sum()


def log_odds(shares: np.ndarray) -> np.ndarray:
    """Return the margins, shape (n_outputs,), that predict these class frequencies."""
    logs = np.log(shares)
    return logs[1:] - logs[:1] if len(shares) == 2 else logs - logs.mean()


def resolve_class_weight(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return one public weight per class; 1 for "balanced", which is applied later."""
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
