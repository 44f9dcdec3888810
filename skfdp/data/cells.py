"""Read the cells of users' columns, each by itself.

One private value can decide the type of its column: a missing value turns integers into
floats, a misspelt number turns all numbers into text. Every value is therefore read
independently of the others, whatever the type of the column. `skfdp.data.target`
decides which values are the same category. Durations become days, times of day become
hours, and a period becomes its first moment. No value of a cell raises an error, and no
error quotes a datum.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import weakref
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from skfdp.data.target import (
    MISSING_CELL,
    NOWHEN,
    UNDECLARED,
    Spelling,
    as_number,
    each,
    microseconds,
    moment,
)

DAY = 86_400_000_000  # microseconds
#: For each cyclic part of a date: its numpy unit, its period, and its value at the
#: start of 1970, from which numpy counts.
PARTS = {"month": ("M", 12, 0), "weekday": ("D", 7, 3), "hour": ("h", 24, 0)}
# Range in which libraries can compute the local time of every time zone.
_ZONED = np.datetime64("0001-01-02", "us"), np.datetime64("9999-12-31T09", "us")


def numbers(
    raw: Any, read: Callable = as_number, infinite: float = np.nan
) -> np.ndarray:
    """Return a raw column as float64; missing and unreadable values are NaN.

    `read` converts one cell of a column of objects. Stored infinite numbers become
    `infinite`.
    """
    values = as_array(raw)
    if values.dtype.kind == "O":
        return np.array(each(values.tolist(), read), dtype=np.float64)
    if values.dtype.kind not in "bf":
        return np.full(len(values), np.nan)
    found = values.astype(np.float64)
    return np.where(np.isinf(found), found * infinite, found)


def moments(raw: Any, read: Callable = moment) -> np.ndarray:
    """Return a raw column as datetime64[us], NaT for missing and unreadable values."""
    values = as_array(raw)
    if values.dtype.kind == "M":
        return values
    if values.dtype.kind in "fO":
        return np.array(each(values.tolist(), read), dtype="datetime64[us]")
    return np.full(len(values), NOWHEN)


def read_as(what: str, raw: Any) -> np.ndarray:
    """Return a raw column as float64; missing and unreadable values are NaN.

    `what` is "number", "date" (days since 1970-01-01, with fractions), "month" (0 to
    11), "weekday" (0, Monday, to 6) or "hour" (0 to 23).
    """
    if what == "number":
        return numbers(raw)
    dates = moments(raw)
    if what == "date":
        count = dates.astype(np.int64) / DAY
    else:
        unit, period, first = PARTS[what]
        count = dates.astype(f"datetime64[{unit}]").astype(np.int64)
        count = (count + first) % period
    return np.where(np.isnat(dates), np.nan, count)


def places_of(raw: Any, spelling: Spelling, other: int, missing: int) -> np.ndarray:
    """Return the position of each value among the declared levels.

    The result is `other` for unknown values, and `missing` for missing values.
    """
    known, codes = distinct(raw) or (exact(raw), slice(None))
    found = spelling.places(known)
    found[found == MISSING_CELL] = missing
    return np.where(found == UNDECLARED, other, found).astype(np.intp)[codes]


def as_array(raw: Any) -> np.ndarray:
    """Return a raw column as float64, bool, datetime64[us] or object."""
    found = exact(raw)
    if found.dtype.kind not in "iuf":
        return found
    with np.errstate(over="ignore"):  # long doubles become infinite, silently
        return found.astype(np.float64)


def exact(raw: Any) -> np.ndarray:
    """Return a raw column as an array without changing its numbers; see `as_array`.

    Integers stay integers, as float64 cannot represent all, and float32 stays float32,
    whose 0.1 is another number. pandas, polars and pyarrow are used for their own
    columns alone.
    """
    if isinstance(raw, np.ndarray):
        found = raw
    elif hasattr(type(raw), "to_physical"):
        found = _of_polars(raw)
    elif hasattr(type(raw), "to_pylist"):
        found = _of_pyarrow(_chunked(raw))
    elif hasattr(raw, "dtype"):
        found = _of_pandas(raw)
    else:
        found = np.asarray(raw) if hasattr(raw, "__array__") else objects(raw)
    if found.dtype.kind in "iufbO":
        return found
    if found.dtype.kind == "M":
        return microseconds(found)
    if found.dtype.kind == "m":  # astype(object) would turn nanoseconds into integers
        return objects(found)
    return found.astype(object)  # text and complex numbers


class Coded(NamedTuple):
    """The different cells of a column, and the position of each cell among them."""

    cells: np.ndarray
    codes: np.ndarray


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a table: ``table[:, place]`` is an array of cells, or `Coded`."""

    #: The names, and the columns of the user.
    raw: list
    n_rows: int
    read: Callable

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, index: tuple) -> Any:
        return self.read(*self.raw[index[1]])


def distinct(raw: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the different cells of a column of text, and the position of each cell.

    The last of the different cells is None. The result is None for other columns.
    """
    if isinstance(raw, Coded):
        return raw
    dtype = getattr(raw, "dtype", None)
    with contextlib.suppress(Exception):  # fails for text that is not UTF-8
        if hasattr(dtype, "categories") and hasattr(raw, "cat"):
            return objects([*exact(dtype.categories), None]), np.asarray(raw.cat.codes)
        if (text := _text_in(raw)) is not None:
            found = text.dictionary_encode()
            found = found.combine_chunks()  # of chunks with the same dictionary
            known = objects([*found.dictionary.to_pylist(), None])
            return known, found.indices.fill_null(-1).to_numpy()
    return None


def _text_in(raw: Any) -> Any:
    """Return a column of text of pandas as an array of pyarrow; None for others."""
    with contextlib.suppress(Exception):  # for columns without these attributes
        # Arrow's numbers have other kinds. Python's floats would lose their precision.
        if raw.dtype.storage and raw.dtype.kind in "OU":
            return _chunked(raw.array.__arrow_array__())
    return None


def content(raw: Any) -> list:
    """Return a list that equals that of another column only if all cells are the same.

    It equals no other list if a comparison would take long.
    """
    if (text := _text_in(raw)) is not None:
        return [weakref.ref(text)]  # arrays of pyarrow never change
    values = exact(raw)
    return [values.dtype, values.tobytes() if values.dtype.kind in "iufb" else object()]


def objects(values: Iterable) -> np.ndarray:
    """Return the unchanged values in a one-dimensional array of objects."""
    # np.array would turn lists of equal length into a two-dimensional table.
    values = list(values)
    return np.fromiter(values, dtype=object, count=len(values))


def _of_pandas(raw: Any) -> np.ndarray:
    dtype = raw.dtype
    if hasattr(dtype, "categories"):  # to_numpy turns integers beside NaN into floats
        known = objects([*exact(dtype.categories), None])
        return known[np.asarray(getattr(raw, "cat", raw).codes)]
    kind = getattr(dtype, "kind", "O")
    if isinstance(dtype, np.dtype):
        return raw.to_numpy()
    if kind in "iu":
        return raw.to_numpy(dtype=object) if raw.isna().any() else raw.to_numpy()
    if kind == "f":
        own = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", None))
        return raw.to_numpy(dtype=own, na_value=np.nan)
    if kind == "M" and getattr(dtype, "tz", None) is not None and hasattr(raw, "dt"):
        # Outside the range of `_ZONED`, or of nanoseconds, pandas raises an error.
        utc = np.clip(microseconds(raw.dt.tz_convert(None).to_numpy()), *_ZONED)
        zoned = type(raw)(utc).dt.tz_localize("UTC").dt.tz_convert(dtype.tz)
        return zoned.dt.tz_localize(None).to_numpy()
    with contextlib.suppress(Exception):  # fails for pyarrow text that is not UTF-8
        return raw.to_numpy(dtype=object)
    return _of_pyarrow(_chunked(raw.array.__arrow_array__()))


def _of_polars(series: Any) -> np.ndarray:
    with contextlib.suppress(Exception):  # fails for 128 bits, and without pyarrow
        if type_kind(series) != "object":
            return _of_pyarrow(_chunked(series.to_arrow()))
    return objects(series.to_list())


def _chunked(column: Any) -> Any:
    import pyarrow

    chunked = isinstance(column, pyarrow.ChunkedArray)
    return column if chunked else pyarrow.chunked_array([column])


def _of_pyarrow(column: Any) -> np.ndarray:
    from pyarrow import compute

    kind, text = type_kind(column), str(column.type)
    if kind in ("integer", "boolean") and column.null_count:
        return objects(column.to_pylist())
    if kind == "date" and "tz=" in text:
        column = compute.local_timestamp(column)
    floats = text.startswith(("float", "double", "halffloat"))
    if floats or kind in ("integer", "boolean", "date", "duration"):
        return column.to_numpy()
    if kind == "time":
        # In microseconds, because Python's objects have no nanoseconds. They cannot
        # hold a time that is not within a day.
        wide = column.cast("time64[ns]") if text.startswith("time32") else column
        micro = wide.cast("time64[us]", safe=False)
        count = micro.cast("int64")
        known = compute.and_(compute.less(-1, count), compute.less(count, DAY))
        return objects(compute.if_else(known, micro, None).to_pylist())
    kinds = "string", "large_string"
    if text.startswith((*kinds, *(f"dictionary<values={one}" for one in kinds))):
        return _texts(column)
    return objects(column.to_pylist())


def _texts(column: Any) -> np.ndarray:
    """Return a column of text as objects; invalid UTF-8 becomes U+FFFD."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    with contextlib.suppress(Exception):  # no specific error for invalid UTF-8
        return column.to_numpy(zero_copy_only=False)
    wide = "large_binary" if types.is_large_string(column.type) else "binary"
    cells = column.cast(wide).to_pylist()
    return objects(c if c is None else c.decode(errors="replace") for c in cells)


# Patterns for the beginning of a type name of numpy, pandas, polars or pyarrow, and the
# kind of values that such a type holds.
_KINDS = (
    ("datetime|date|timestamp", "date"),
    ("period", "period"),
    ("bool", "boolean"),
    ("u?int[0-9]", "integer"),
    ("float|double|halffloat|decimal", "number"),
    # Durations in months and years cannot be converted to days.
    (r"(?-i:timedelta64($|\[(generic|\d*[YM])\]))|\|V|\[\(", "other"),
    ("timedelta|duration", "duration"),
    ("time", "time"),
    ("complex", "complex"),
    ("interval|month_day_nano_interval|list|struct|map|array", "other"),
    ("large_list|fixed_size_list|list_view|union|extension|geometry", "other"),
    ("object", "object"),
    ("str|large_string|utf8|large_utf8|dictionary|categor|enum", "text"),
    ("binary|large_binary", "text"),
)


def type_kind(raw: Any) -> str:
    """Return the kind of values that a column's type can hold; read no value.

    It is a kind of `_KINDS`, or "" if the type is unknown. A categorical column has the
    kind of its categories; "text" if these are objects. "other" means values that are
    neither numbers nor dates nor text.
    """
    dtype = getattr(raw, "dtype", getattr(raw, "type", None))
    if type(dtype).__name__ == "CategoricalDtype":
        kind = type_kind(dtype.categories)
        return "text" if kind in ("", "object") else kind
    if type(dtype).__name__ == "SparseDtype":
        dtype = dtype.subtype
    if type(dtype).__name__ == "RunEndEncodedType":  # of pyarrow
        dtype = dtype.value_type
    return _kind_of(str(dtype))


@lru_cache(maxsize=64)
def _kind_of(name: str) -> str:
    return next((kind for begin, kind in _KINDS if re.match(begin, name, re.I)), "")


def is_numeric(raw: Any) -> bool:
    """Whether a column has a type of numbers or booleans."""
    return type_kind(raw) in ("integer", "number", "boolean")


def is_odd(raw: Any) -> bool:
    """Whether a column has a type of numbers that its library cannot give to NumPy."""
    dtype = getattr(raw, "dtype", getattr(raw, "type", None))
    return re.match("u?int128|decimal", str(dtype), re.I) is not None
