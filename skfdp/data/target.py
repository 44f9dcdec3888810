"""Spelling of declared levels, labels of a classifier, units of a regression target."""

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

# Which cells are one declared level.
#
# The declaration decides the spelling, one declared level at a time:
#
# - A level that is declared as a number or a boolean is a number. 1, 1.0, True and text
#   that spells the number ("1", "01", "1.0", "1e0") are one level. The words "true" and
#   "false", in upper or lower case, are levels only of declared booleans.
# - A level that is declared as text is text. Text is compared in its NFC form and
#   without the spaces around it, so that "01" and "1", "1.10" and "1.1", "1E50" and
#   "1E50.0" differ. The words "true" and "false" are one level in upper and in lower
#   case, and are the level of the booleans too, because readers of files turn them into
#   booleans. Bytes are read as UTF-8. A number matches by its shortest spelling: 1 and
#   1.0 are "1", 0.1 is "0.1". A date matches by its ISO form.
#
# Whole numbers are compared exactly, beyond 2**53 too. A float that large can stand for
# several whole numbers (a column with a missing value turns whole numbers into floats):
# it is only a level that is declared as this float, never a declared int or text. The
# limit of float32 is 2**24, that of float16 is 2**11.
#
# None, NaN, NaT, NA and empty text are missing. So are words that readers of files take
# for missing, such as "NA" and "nan", unless they are declared as text.


#: The places of a cell that is no declared level, and of one that is missing.
UNDECLARED, MISSING_CELL = -1, -2

#: What pandas reads as missing, unless a cell of the column has more than 64 bits.
TAKEN_FOR_MISSING = frozenset(
    "#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,<NA>,N/A,NA,NULL,NaN,"
    "None,n/a,nan,null".split(",")
)
# Stands for values that have no text.
_UNREADABLE = "?"
NOWHEN = np.datetime64("NaT", "us")
_FURTHEST_YEAR = 200_000  # microseconds in int64 reach 90,000 years further
# In a microsecond.
_FINER = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
# Only with dashes: "20200131" and 20200131 are one number in two types.
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?", re.DOTALL)
# More digits than a number needs, and fewer than int() refuses or memory holds.
_MOST_DIGITS = 4000
_DIGITS = re.compile(r"[+-]?[0-9]+")


@dataclasses.dataclass(frozen=True)
class Spelling:
    """Declared levels, and the place of each cell among them; see the module.

    `levels` are in the order of the declaration, numbers and booleans as Python numbers
    and all else as text. `spelling_of` checks the levels and makes the spelling.
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

    @cached_property
    def _place_of_text(self) -> dict[str, int]:
        """The place of a cell that is the declared text of a level."""
        texts = [level for level in self.levels if type(level) is str]
        return {text: self._place(text) for text in texts}

    def place(self, value: Any) -> int:
        """Return the place of a cell; `UNDECLARED` or `MISSING_CELL`, below 0, if none.

        No value raises an error.
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
        """Return the place of each cell of a column as int64; see `place`.

        Pass integers as integers: float64 cannot hold every int64.
        """
        if values.dtype.kind not in "biufUSMm":
            return np.array(each(values.tolist(), self.place), dtype=np.int64)
        different, back = np.unique(values, return_inverse=True)
        found = np.array([self.place(value) for value in different], dtype=np.int64)
        return found[back.reshape(-1)]


def spelling_of(declared: Iterable, name: str, noun: str = "category") -> Spelling:
    """Return the spelling of declared levels.

    `name` is that of the declaration in errors, such as ``"categories['zip']"``, and
    `noun` that of one level. ValueError is raised if a level is a missing value, or if
    one cell would be two levels. (``np.array([1, "a"])`` holds two texts.)

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
    try:  # what is equal may differ in type, such as 1 and True
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
    if _is_bool(value):
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


def _is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


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

    Booleans are 0 and 1, text is read as one of them or as a number, durations are days
    and times of day hours.
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
    """Return a date or time in microseconds, NaT where it is none.

    Dates of Python, numpy and pandas, a Period, which is its first moment, or ISO text
    that begins with year, month and day. A time zone is left out: the time is the one
    on the clock there.
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
    """Return datetime64 of any unit in microseconds, years beyond 200,000 cut."""
    unit, _ = np.datetime_data(values.dtype)
    if unit == "generic":
        return np.full(values.shape, NOWHEN)
    if unit in _FINER:  # NumPy cannot convert what lies in the first microsecond
        first = np.datetime64(-(2**63) + _FINER[unit], unit)
        return np.maximum(values, first).astype("datetime64[us]")
    low, high = (
        np.datetime64(year - 1970, "Y").astype(values.dtype)
        for year in (-_FURTHEST_YEAR, _FURTHEST_YEAR)
    )
    return np.clip(values, low, high).astype("datetime64[us]")


def each(values: Iterable, read: Callable[[Any], Any]) -> list:
    """Return read(value) of each value, of equal ones once where that is safe."""
    values = list(values)
    others = set(map(type, values)) - {str, type(None)}
    # 1, 1.0 and True would be one key.
    if len(others) > 1 or not others <= {bool, int, float}:
        return list(map(read, values))
    known = {value: read(value) for value in dict.fromkeys(values)}
    return [known[value] for value in values]


# A target that is a straight line away from zero needs no logarithm of zero.
_SMALLEST = 1e-12
# Of targets without bounds.
_FURTHEST = 1e100


@dataclasses.dataclass(frozen=True)
class TargetMap:
    """``target of the loop = (target - centre) / scale``.

    Attributes
    ----------
    centre, scale : float
        Released, or functions of a public target. The centre of a log link is 0.
    log : bool
        Log link: rates are ``scale * exp(margin)``.
    low, high : float
        Declared bounds of the target; infinite where there are none.
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
        """Return the target in the loop's units, float64."""
        return (np.clip(y, self.low, self.high) - self.centre) / self.scale

    def coefficients(
        self, coef: np.ndarray, intercept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients whose margins are in the target's units, or its log."""
        if self.log:
            return coef, intercept + math.log(self.scale)
        return coef * self.scale, intercept * self.scale + self.centre

    def margins(self, margins: np.ndarray | None) -> np.ndarray | None:
        """Return margins in the target's units, or its log, in the loop's units."""
        if margins is None:
            return None
        if self.log:
            return margins - math.log(self.scale)
        return (margins - self.centre) / self.scale

    def offset(self) -> float:
        """Return the margin, in the target's units or its log, of 0 in the loop's."""
        return math.log(self.scale) if self.log else self.centre


def check_target_bounds(bounds: Any, loss: str, required: bool) -> tuple[float, float]:
    """Return the declared bounds as floats, infinite where there are none."""
    if bounds is None:
        if required:
            raise ValueError(
                "target_bounds=None: a private target needs declared public bounds, "
                "target_bounds=(low, high) in the target's units; values outside are "
                "clipped."
            )
        return -math.inf, math.inf
    try:
        # A frame would be read by the labels of its columns, a mapping by its keys.
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
    """Return y as float64 numbers; quotes no value.

    Counts must not be negative, but where declared bounds clip them: an error would
    tell of a private target. `finite=False` lets NaN and infinity pass.
    """
    y = np.asarray(y)
    if y.dtype.kind == "O":
        plain = np.empty(y.shape, dtype=object)
        for place, value in enumerate(y):
            found = number(value)
            if math.isnan(found):
                # Infinity is refused as such. Other values are missing where the target
                # is private, because they must not stop a fit.
                real = isinstance(value, (numbers.Real, decimal.Decimal))
                kept = (finite or real) and not isinstance(value, np.timedelta64)
                found = within_floats(value) if kept else math.nan
            plain[place] = found
        y = plain
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    # Outside the handler, so that no error that quotes a value is kept as a context.
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
    """Raise ValueError where a target without declared bounds has no float64 mean."""
    if np.abs(y).max(initial=0.0) > _FURTHEST:
        raise ValueError(
            f"y holds numbers beyond {_FURTHEST:g}, whose squares leave float64: "
            "rescale the target, or declare target_bounds."
        )


def exact_map(
    y: np.ndarray,
    start: TargetMap,
    centred: bool,
    margins: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> TargetMap:
    """Return the map of a public target, from its own mean and spread.

    `start` gives the bounds and the link; `centred` says that the model has an
    intercept, and `shares` how often each row counts (None: once). Around the `margins`
    of a public model the spread is that of what they leave; a log link has its scale
    from the mean all the same, because margins do not scale.
    """

    def mean_of(values: np.ndarray) -> float:
        return float(np.average(values, weights=shares))

    y = np.clip(y, start.low, start.high)
    mean = mean_of(y) if centred else 0.0
    if start.log:  # only with an intercept
        return dataclasses.replace(start, scale=mean if mean > 0 else 1.0)
    if margins is None:
        spread = mean_of(np.abs(y - mean)) * SPREAD
    else:
        spread = math.sqrt(mean_of((y - margins[:, 0]) ** 2))
    scale = spread if spread > _SMALLEST * (1 + abs(mean)) else 1.0
    return dataclasses.replace(start, centre=mean, scale=scale)


#: Standard deviation over mean absolute deviation, for normals.
SPREAD = math.sqrt(math.pi / 2)


# The labels of a classifier: which there are, and which one each record has.


#: What to do where labels seem to be coded.
RECODED = (
    "cross_val_predict(method='predict_proba'), voting, stacking, bagging and "
    "one-vs-rest of scikit-learn code labels as 0, ..., k-1 before fit: declare these "
    "numbers as `classes` there, or the labels that y holds."
)
#: Classes are held as int16.
MOST_CLASSES = 2**15


@dataclasses.dataclass(frozen=True)
class Labels:
    """The label set and the class of each record.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    codes : int64 ndarray of shape (n_rows,)
        Position of each label in `classes`; 0 where there is no label.
    source : {"declared", "data"}
    missing : bool ndarray of shape (n_rows,) or None
        Records without a label of `classes`; None: there are none.
    """

    classes: np.ndarray
    codes: np.ndarray
    source: str
    missing: np.ndarray | None = None

    @classmethod
    def unseen(cls, classes: Sequence, n_rows: int) -> Labels:
        """Return declared labels without a look at y: every code is 0."""
        declared = declared_labels(classes)
        return cls(declared, np.zeros(n_rows, dtype=np.int64), "declared")


def encode_any(y: np.ndarray, classes: Sequence) -> Labels:
    """Encode y, of any type, over the declared classes, which decide the spelling.

    Raises
    ------
    ValueError
        If no value of the dtype of y can be one of the classes: only what the dtype
        shows may be refused.
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
    """Refuse a type of y in which no declared label can occur; looks at no value."""
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
        f"y holds {holds}, and none of `classes`={declared.tolist()!r} is one: y and "
        f"`classes` differ in type. {remedy}"
    )


def check_recoded(y: np.ndarray, classes: Any) -> None:
    """Refuse a y of whole numbers over declared booleans, which a fit would confuse.

    scikit-learn codes labels before some fits, and takes predictions for such codes.
    """
    if y.dtype.kind in "iu" and np.asarray(classes).dtype.kind == "b":
        raise ValueError(
            f"y holds whole numbers, and `classes`={list(classes)!r} holds booleans: y "
            f"and `classes` differ in type. {RECODED}"
        )


def are_codes(classes: np.ndarray) -> bool:
    """Whether the classes are 0, ..., k-1, as scikit-learn codes labels."""
    return np.array_equal(classes, np.arange(len(classes)))


def encode_labels(y: np.ndarray, classes: Sequence | None) -> Labels:
    """Encode y over the declared classes, or over those that it holds.

    ValueError is raised where y holds no labels, one label, or others than declared.
    """
    if classes is not None:
        labels = encode_any(y, classes)
        if labels.missing is not None:
            raise ValueError(
                f"y holds labels outside `classes`={labels.classes.tolist()!r}: "
                "declare every label that can occur."
            )
        return labels
    # Not `check_classification_targets`: its warning about many classes would tell how
    # many occur, and silencing it is not safe where threads fit at the same time.
    kind, seen, codes = _kind_and_codes(y)
    if seen is None:
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
            "y holds one class only, a classifier needs at least two: declare "
            "`classes` if the others are merely absent."
        )
    return Labels(seen, codes.astype(np.int64), "data")


def _kind_and_codes(y: np.ndarray) -> tuple:
    """Return the kind of y, its labels and their codes; None of each without order."""
    try:
        return type_of_target(y, input_name="y"), *_seen_and_codes(y)
    except TypeError:  # not raised from here: its context may be of values
        return None, None, None


def _seen_and_codes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what `numpy.unique` does, with no more memory than that of the codes."""
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
    """Return the declared labels, sorted, each once; at least two spellings."""
    labels = None
    if isinstance(classes, Collection) and not isinstance(classes, (str, Mapping)):
        with contextlib.suppress(TypeError, ValueError):  # of labels without an order
            labels = np.asarray(classes)
            labels = np.unique(labels) if labels.ndim == 1 else None
    if labels is None:
        raise ValueError(
            f"classes={shown(classes)} must be a sequence of labels of one type."
        )
    _check_number(labels)
    # An array has one type: in it 1, 1.0 and "1" may have become equal.
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
    """Return the frequencies of classes, none of them 0; only for public labels."""
    counts = np.maximum(np.bincount(codes, shares, minlength=n_classes), 1.0)
    return counts / counts.sum()


def log_odds(shares: np.ndarray) -> np.ndarray:
    """Return the margins, shape (n_outputs,), at which classes have these shares."""
    logs = np.log(shares)
    return logs[1:] - logs[:1] if len(shares) == 2 else logs - logs.mean()


def resolve_class_weight(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return one public weight per class; "balanced" has none, see `log_odds`."""
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
            f"class_weight={class_weight!r} gives every class the weight 0: at least "
            "one must count."
        )
    return weights
