"""Values of raw columns as numbers, dates and categories, each row by itself.

A column has one type in a table, and one private value can decide which: a missing one
turns integers into floats, a misspelt one turns all numbers into text. So every value
is read as if it stood alone, in whatever type the column comes; which values are one
category is for `skfdp.records.spelling`. Durations are days, times of day are hours,
and periods begin with their first moment. Nothing that a cell can hold raises an error.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from skfdp.records.sources import arrow_texts
from skfdp.records.spelling import (
    MISSING_CELL,
    Spelling,
    each,
    microseconds,
    moment,
    number,
)

_DAY = 86_400_000_000  # microseconds
_NOWHEN = np.datetime64("NaT", "us")
# What libraries find the clock of, whatever the time zone.
_ZONED = np.datetime64("0001-01-02", "us"), np.datetime64("9999-12-31T09", "us")
_PER_DAY = {"s": 86_400, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}


class Column:
    """Raw column, read as what its blocks need, and only once.

    Parameters
    ----------
    raw : ndarray, Series, ChunkedArray or sequence
        Of numpy, pandas, polars or pyarrow.
    """

    def __init__(self, raw: Any):
        self._raw = raw
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
            return np.array(each(self.values.tolist(), number), dtype=np.float64)
        return np.full(len(self), np.nan)

    @cached_property
    def _moments(self) -> np.ndarray:
        if self.values.dtype.kind == "M":
            return self.values
        if self.values.dtype.kind == "O":
            return np.array(each(self.values.tolist(), moment), dtype="datetime64[us]")
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

    def places(self, spelling: Spelling, other: int, missing: int) -> np.ndarray:
        """Return the place of each value among declared categories.

        Parameters
        ----------
        spelling : Spelling
        other, missing : int
            Places of unknown and of missing values.
        """
        found = spelling.places(exact(self._raw))
        return np.where(
            found >= 0, found, np.where(found == MISSING_CELL, missing, other)
        ).astype(np.intp)


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


def exact(raw: Any) -> np.ndarray:
    """Return a raw column without a change of its numbers.

    Integers stay integers, because float64 cannot hold all of them, and float32 stays
    float32, of which 0.1 is another number in float64.

    Parameters
    ----------
    raw : ndarray, Series, ChunkedArray or sequence
        As for `as_array`.
    """
    if isinstance(raw, np.ndarray):
        return raw if raw.dtype.kind in "iuf" else as_array(raw)
    if hasattr(type(raw), "to_physical"):  # polars
        if raw.dtype.is_integer() and raw.null_count():
            return _objects(raw.to_list())
        plain = raw.dtype.is_integer() or raw.dtype.is_float()
        return raw.to_numpy() if plain else as_array(raw)
    if hasattr(type(raw), "to_pylist"):
        return _exact_of_pyarrow(raw)
    if not hasattr(raw, "dtype"):
        return as_array(raw)
    if hasattr(raw.dtype, "categories"):  # one missing value makes floats of integers
        categories = exact(raw.dtype.categories)
        known = _objects([*categories, None])
        return known[np.asarray(getattr(raw, "cat", raw).codes)]
    if isinstance(raw.dtype, np.dtype):
        return exact(raw.to_numpy())
    kind = getattr(raw.dtype, "kind", "O")
    if kind in "iu":
        return raw.to_numpy(dtype=object) if raw.hasnans else raw.to_numpy()
    if kind == "f":
        dtype = getattr(raw.dtype, "numpy_dtype", getattr(raw.dtype, "subtype", None))
        return raw.to_numpy(dtype=dtype, na_value=np.nan)
    return as_array(raw)


def _exact_of_pyarrow(column: Any) -> np.ndarray:
    column, kind = _chunked(column), str(column.type)
    if kind.startswith(("int", "uint")):
        return _objects(column.to_pylist()) if column.null_count else column.to_numpy()
    if kind.startswith(("float", "double", "halffloat")):
        return column.to_numpy()
    if kind.startswith(("time", "duration")) and not kind.startswith("timestamp"):
        # Without nanoseconds, which Python's objects do not have.
        micro = "duration[us]" if kind.startswith("duration") else "time64[us]"
        wide = column.cast("time64[ns]") if kind.startswith("time32") else column
        return _objects(wide.cast(micro, safe=False).to_pylist())
    return as_array(column)


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
    try:
        return series.to_numpy(dtype=object)
    except Exception:  # text of pyarrow that is no UTF-8
        pass
    return _of_pyarrow(series.array.__arrow_array__())


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


def _chunked(column: Any) -> Any:
    """Return a column of pyarrow as what makes arrays of every type without a flag."""
    import pyarrow

    chunked = isinstance(column, pyarrow.ChunkedArray)
    return column if chunked else pyarrow.chunked_array([column])


def _of_pyarrow(column: Any) -> np.ndarray:
    column, kind = _chunked(column), str(column.type)
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        return column.to_numpy()
    if kind.startswith(("date", "timestamp")):
        if "tz=" in kind:
            from pyarrow import compute

            column = compute.local_timestamp(column)
        return column.to_numpy()
    if kind.startswith(("time", "duration")):  # to_pylist refuses some nanoseconds
        unit = kind[kind.index("[") + 1 : kind.index("]")]
        ticks = column.cast("int32" if kind.startswith("time32") else "int64")
        days = ticks.to_numpy().astype(np.float64) / _PER_DAY[unit]
        days[~column.is_valid().to_numpy()] = np.nan
        return days * 24 if kind.startswith("time") else days
    if kind.startswith(("string", "large_string", "dictionary<values=string")):
        return arrow_texts(column)
    return _objects(column.to_pylist())
