"""Values of raw columns as numbers, dates and categories, each row by itself.

A column has one type in a table, and one private value can decide which: a missing one
turns integers into floats, a misspelt one turns all numbers into text. So every value
is read as if it stood alone: 1, 1.0 and "1" are the same number and the same category,
in whatever type the column comes. Nothing that a cell can hold raises an error.
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

_DAY = 86_400_000_000  # microseconds
# Only with dashes: "20200131" and 20200131 are one number in two types.
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?", re.DOTALL)
# Stands for values that a library does not hand over.
_UNREADABLE = "?"
_NOWHEN = np.datetime64("NaT", "us")
_FURTHEST_YEAR = 200_000  # microseconds in int64 reach 90,000 years further
# What libraries find the clock of, whatever the time zone.
_ZONED = np.datetime64("0001-01-02", "us"), np.datetime64("9999-12-31T09", "us")
_UNITS_ABOVE = ("Y", "M", "W", "D", "h", "m", "s", "ms")

#: What pandas reads as missing, unless a cell of the column has more than 64 bits.
_TAKEN_FOR_MISSING = frozenset(
    "#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,<NA>,N/A,NA,NULL,NaN,"
    "None,n/a,nan,null".split(",")
)


def canonical(value: Any) -> str | None:
    """Return one spelling for all the ways in which a category may be held.

    Parameters
    ----------
    value : object
        A number is spelt as the float64 that it is, text that reads as a number like
        that number, "TRUE" and True as "True"; other text without spaces around it.

    Returns
    -------
    spelling : str or None
        None: a missing value (None, NaN, NaT, NA, empty text, text that reads NaN).
    """
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return _canonical_text(value.strip())
    if _is_missing(value):
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if _is_number(value):
        return _canonical_number(_as_float(value))
    if isinstance(value, (datetime.date, np.datetime64)):
        text = str(moment(value)).replace("T", " ")
        return re.sub(r" 00:00:00(\.0*)?$", "", text)
    try:
        return str(value).strip()
    except Exception:  # whatever the text of a user's object raises
        return _UNREADABLE


def _canonical_text(text: str) -> str | None:
    if text.casefold() in ("true", "false"):
        return text.capitalize()
    number = _parsed(text)
    return (text or None) if number is None else _canonical_number(number)


def _canonical_number(number: float) -> str | None:
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _parsed(text: str) -> float | None:
    """Return the number that text reads as, which may be NaN or infinite."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Real, decimal.Decimal)) and not isinstance(
        value, np.timedelta64
    )


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):  # a signalling NaN of decimal
        return math.nan


def number(value: Any) -> float:
    """Return a value as a finite number; NaN where it is none.

    Parameters
    ----------
    value : object
        A number, a boolean (0 or 1), or text that reads as one of them.
    """
    spelt = canonical(value) if isinstance(value, (str, bytes)) else None
    if spelt in ("True", "False"):
        return float(spelt == "True")
    if spelt is not None:
        found = _parsed(spelt)
        found = math.nan if found is None else found
    elif _is_missing(value) or not (_is_number(value) or isinstance(value, np.bool_)):
        return math.nan
    else:
        found = _as_float(value)
    return found if math.isfinite(found) else math.nan


def moment(value: Any) -> np.datetime64:
    """Return a date or time in microseconds, NaT where it is none.

    Parameters
    ----------
    value : object
        A date, datetime, Timestamp, datetime64, or ISO text that begins with year,
        month and day. A time zone is left out: the time is the one on the clock there.
    """
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        text = value.strip()
        try:
            value = datetime.datetime.fromisoformat(text) if _ISO.fullmatch(text) else 0
        except ValueError:
            return _NOWHEN
    if isinstance(value, np.datetime64):
        return microseconds(np.array([value]))[0]
    if _is_missing(value) or not isinstance(value, datetime.date):
        return _NOWHEN
    if hasattr(value, "to_datetime64"):  # a Timestamp of pandas
        return moment(value.tz_localize(None).to_datetime64())
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


def _each(values: np.ndarray, read: Callable[[Any], Any]) -> list:
    """Return read(value) of each value, of equal texts once."""
    known: dict[str, Any] = {}
    found = []
    # tolist makes integers of dates beyond the year 9999.
    for value in values.tolist() if values.dtype.kind == "O" else values:
        if type(value) is not str:  # 1, 1.0 and True would be one key
            found.append(read(value))
            continue
        if value not in known:
            known[value] = read(value)
        found.append(known[value])
    return found


class Column:
    """Raw column, read as what its blocks need, and only once.

    Parameters
    ----------
    raw : ndarray, Series, ChunkedArray or sequence
        Of numpy, pandas, polars or pyarrow.
    """

    def __init__(self, raw: Any):
        self.values = as_array(raw)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def _numbers(self) -> np.ndarray:
        if self.values.dtype.kind in "bf":
            found = self.values.astype(np.float64)
            found[np.isinf(found)] = np.nan
            return found
        if self.values.dtype.kind == "O":
            return np.array(_each(self.values, number), dtype=np.float64)
        return np.full(len(self), np.nan)

    @cached_property
    def _moments(self) -> np.ndarray:
        if self.values.dtype.kind == "M":
            return self.values
        if self.values.dtype.kind == "O":
            return np.array(_each(self.values, moment), dtype="datetime64[us]")
        return np.full(len(self), _NOWHEN)

    def read(self, what: str) -> np.ndarray:
        """Return float64 with NaN for missing and unreadable values.

        Parameters
        ----------
        what : {"number", "date", "month", "weekday"}
            Dates are days since 1970-01-01, with fractions; months run from 0 to 11
            and weekdays from 0, Monday, to 6.
        """
        if what == "number":
            return self._numbers
        moments = self._moments
        if what == "date":
            count = moments.astype(np.int64) / _DAY
        elif what == "month":
            count = moments.astype("datetime64[M]").astype(np.int64) % 12
        else:  # 1970-01-01 was a Thursday
            count = (moments.astype("datetime64[D]").astype(np.int64) + 3) % 7
        return np.where(np.isnat(moments), np.nan, count)

    def places(self, levels: Mapping[str, int], other: int, missing: int) -> np.ndarray:
        """Return the place of each value among the levels.

        Parameters
        ----------
        levels : mapping of str to int
            Places by canonical spelling.
        other, missing : int
            Places of unknown and of missing values. Text that readers of files take for
            missing, such as "NA", is missing unless it is a level: whether they do may
            depend on the other rows.
        """

        def place(value: Any) -> int:
            spelt = canonical(value)
            if spelt is None:
                return missing
            return levels.get(spelt, missing if spelt in _TAKEN_FOR_MISSING else other)

        if self.values.dtype.kind == "f":
            return _places_of_floats(self.values, levels, other, missing)
        if self.values.dtype.kind == "b":
            return np.where(self.values, place(True), place(False))
        return np.array(_each(self.values, place), dtype=np.intp)


def _places_of_floats(
    values: np.ndarray, levels: Mapping[str, int], other: int, missing: int
) -> np.ndarray:
    found = np.where(np.isnan(values), missing, other)
    numeric = {_parsed(level): place for level, place in levels.items()}
    for level, place in numeric.items():
        if level is not None:
            found[values == level] = place
    return found


def as_array(raw: Any) -> np.ndarray:
    """Return a raw column as float64, bool, datetime64[us] or object.

    Parameters
    ----------
    raw : ndarray, Series, ChunkedArray or sequence
        Of numpy, pandas, polars or pyarrow; only what a library is asked for is used
        of it, so that none needs to be installed.
    """
    if hasattr(type(raw), "iloc"):
        raw = _of_pandas(raw)
    elif hasattr(type(raw), "to_physical"):
        raw = _of_polars(raw)
    elif hasattr(type(raw), "to_pylist"):
        raw = _of_pyarrow(raw)
    elif not isinstance(raw, np.ndarray):
        raw = _objects(list(raw))
    kind = raw.dtype.kind
    if kind in "iuf":
        with np.errstate(over="ignore"):  # long doubles become infinite, silently
            return raw.astype(np.float64)
    if kind == "M":
        return microseconds(raw)
    if kind == "m":  # astype(object) would make integers of nanoseconds
        return _objects(list(raw))
    return raw if kind in "bO" else raw.astype(object)


def _objects(values: list) -> np.ndarray:
    # np.array would make a table of lists of one length, and found[:] = values too.
    return np.fromiter(values, dtype=object, count=len(values))


def _of_pandas(series: Any) -> np.ndarray:
    dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    if isinstance(dtype, np.dtype):
        return series.to_numpy()
    if kind in "iuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind == "M" and getattr(dtype, "tz", None) is not None:
        # The clock beyond these years, or those of nanoseconds, would be an error.
        utc = np.clip(microseconds(series.dt.tz_convert(None).to_numpy()), *_ZONED)
        zoned = type(series)(utc).dt.tz_localize("UTC").dt.tz_convert(dtype.tz)
        return zoned.dt.tz_localize(None).to_numpy()
    return series.to_numpy(dtype=object)


def _of_polars(series: Any) -> np.ndarray:
    kind = type(series.dtype).__name__
    if getattr(series.dtype, "time_zone", None) is not None:
        if (unit := series.dtype.time_unit) != "ns":  # which hold no such years
            ends = [side.astype(f"datetime64[{unit}]").astype(int) for side in _ZONED]
            series = series.to_physical().clip(*map(int, ends)).cast(series.dtype)
        series = series.dt.replace_time_zone(None)
    if kind in ("Date", "Datetime") or (
        series.dtype.is_numeric() and not series.dtype.is_decimal()
    ):
        return series.to_numpy()
    return _objects(series.to_list())


def _of_pyarrow(column: Any) -> np.ndarray:
    kind = str(column.type)
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        return column.to_numpy()
    if kind.startswith(("date", "timestamp")):
        if "tz=" in kind:
            from pyarrow import compute

            column = compute.local_timestamp(column)
        return column.to_numpy()
    if kind.startswith(("time", "duration")):  # to_pylist refuses some nanoseconds
        return np.where(column.is_valid().to_numpy(), _UNREADABLE, "").astype(object)
    return _objects(column.to_pylist())
