"""Values of raw columns as numbers, dates and categories, each row by itself.

A column has one type in a table, and one private value can decide which: a missing one
turns integers into floats, a misspelt one turns all numbers into text. So every value
is read as if it stood alone, in whatever type the column comes; which values are one
category is for `skfdp.data.target`. Durations are days, times of day are hours,
and periods begin with their first moment. Nothing that a cell can hold raises an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from skfdp.data.sources import LargeTable, arrow_texts
from skfdp.data.target import MISSING_CELL, Spelling, each, microseconds, moment, number
from skfdp.data.validation import UtilityWarning, unmasked, warn_caller

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


# Raw tables: their columns, and what the types of these say.


# The one category of a column of Dask whose categories it has not read.
_UNKNOWN = "__UNKNOWN_CATEGORIES__"


def is_frame(X: Any) -> bool:
    """Whether X is a table of pandas, polars or pyarrow."""
    return any(
        hasattr(type(X), name) for name in ("iloc", "get_columns", "column_names")
    )


def is_dask(X: Any) -> bool:
    """Whether X is an array or a frame of Dask; imports nothing."""
    package = type(X).__module__.partition(".")[0]
    return package in ("dask", "dask_expr") and hasattr(X, "to_delayed")


def is_dask_frame(X: Any) -> bool:
    """Whether X is a frame of Dask; imports nothing."""
    return hasattr(type(X), "map_partitions") and hasattr(type(X), "divisions")


def types_of(X: Any, declared: Collection = ()) -> Any:
    """Return a table that has the names and the types of X; of Dask, two other rows.

    Parameters
    ----------
    X : DataFrame, Table or array-like of shape (n_rows, n_features)
    declared : collection of str, default=()
        Columns whose categories are not those of the type.

    Raises
    ------
    ValueError
        Where Dask does not know the categories of another column.
    """
    if not is_dask_frame(X):
        return X
    unknown = [
        name
        for name, dtype in X.dtypes.items()
        if name not in declared and _UNKNOWN in getattr(dtype, "categories", ())
    ]
    if unknown:
        raise ValueError(
            f"the categories of {unknown!r} are those that occur in each partition: "
            "declare them, DeclaredEncoder(categories=...)."
        )
    return X._meta_nonempty


def check_no_path(X: Any) -> None:
    """Refuse the path of a table, which looks like text."""
    if isinstance(X, (str, os.PathLike)):
        raise TypeError(
            "X is a path: pass a table, such as pandas.read_csv(path), or, without an "
            "encoder, open_table(path) for a file that is larger than memory."
        )


def check_table(X: Any, least: int = 1) -> Any:
    """Return X as a frame or as an array of two dimensions.

    Parameters
    ----------
    X : DataFrame, Table or array-like of shape (n_rows, n_features)
        Lists keep what they hold: numpy would turn a row of a number and a text into
        two texts.
    least : int, default=1
        Number of rows that there have to be; 0 where the number may be private.

    Raises
    ------
    TypeError, ValueError
        If X is sparse, lazy, read in blocks, not of two dimensions, complex, or empty.
    """
    check_no_path(X)
    if isinstance(X, LargeTable):
        raise TypeError(
            "an encoder reads raw tables that are in memory, and X is read in blocks: "
            "pass a frame, such as pandas.read_parquet(path), or encode the table "
            "before, part by part, into a file."
        )
    if hasattr(type(X), "get_fragments"):
        raise TypeError(
            "an encoder reads raw tables that are in memory, and X is a data set of "
            "pyarrow: pass X.to_table()."
        )
    if issparse(X):
        raise TypeError(
            "X is a sparse matrix: raw tables are dense, so pass a DataFrame or "
            "X.toarray()."
        )
    if hasattr(type(X), "collect"):
        raise TypeError("X is a lazy frame: pass X.collect().")
    if not is_frame(X):
        X = unmasked(X, as_objects=True)
        if not hasattr(X, "__array__"):
            X = np.array(X, dtype=object)
        values = np.asarray(X)
        if values.ndim < 2:  # scikit-learn would quote what it holds
            raise ValueError(
                "Expected 2D array as X, with rows of one length. Reshape your data to "
                "(n_samples, n_features)."
            )
        if values.dtype.kind == "c":  # and here too
            raise ValueError("Complex data not supported: pass real numbers.")
        return check_array(
            X, dtype=None, ensure_all_finite=False, ensure_min_samples=least
        )
    if len(X.shape) != 2:
        raise ValueError("X is one column: pass a table, such as X.to_frame().")
    n_rows, n_columns = X.shape
    if n_rows < least or not n_columns:
        raise ValueError(
            f"X has {n_rows} sample(s) and {n_columns} feature(s): both must be at "
            "least 1."
        )
    return X


def column_labels(X: Any) -> list:
    """Return the names of the columns of a frame."""
    return list(getattr(X, "column_names", X.columns))


def check_names(X: Any) -> None:
    """Refuse a frame in which two columns have one name."""
    if not is_frame(X):
        return
    seen: set[str] = set()
    for name in map(str, column_labels(X)):
        if name in seen:
            raise ValueError(f"X has two columns {name!r}: rename one.")
        seen.add(name)


def raw_column(X: Any, place: int) -> Any:
    """Return the column at a place."""
    if hasattr(type(X), "iloc"):
        return X.iloc[:, place]
    if hasattr(type(X), "get_columns"):
        return X.get_column(X.columns[place])
    if hasattr(type(X), "column_names"):
        return X.column(place)
    return X[:, place]


# What names of types begin with, of numpy, pandas, polars and pyarrow.
_KINDS = (
    ("datetime|date|timestamp", "date"),
    ("period", "period"),
    ("bool", "boolean"),
    ("u?int[0-9]", "integer"),
    ("float|double|halffloat|decimal", "number"),
    # Months and years have no number of days.
    (r"(?-i:timedelta64($|\[(generic|\d*[YM])\]))", "other"),
    ("timedelta|duration", "duration"),
    ("time", "time"),
    ("complex|interval|month_day_nano_interval|list|struct|map|array", "other"),
    ("large_list|fixed_size_list|list_view|run_end|union|extension|geometry", "other"),
)


def declared_levels(raw: Any) -> list | None:
    """Return the categories that the type of a column declares, None if it does not.

    Parameters
    ----------
    raw : ndarray, Series or ChunkedArray
        Boolean, categorical of pandas, or Enum of polars. (Categorical of polars and
        dictionaries of pyarrow hold the values that occur.)
    """
    if isinstance(raw, np.ndarray):
        return [False, True] if raw.dtype.kind == "b" else None
    dtype = getattr(raw, "dtype", getattr(raw, "type", None))
    name = type(dtype).__name__
    if name == "CategoricalDtype" or name == "Enum":
        return list(exact(dtype.categories))
    return [False, True] if str(dtype).lower().startswith("bool") else None


def type_kind(raw: Any) -> str:
    """Return what a type can hold, "" where it may hold anything; looks at no value.

    Returns
    -------
    kind : str
        "date", "period", "boolean", "integer", "number", "duration", "time", "other" or
        "". That of a categorical column is the kind of its categories. "other" holds
        neither numbers nor dates nor text.
    """
    dtype = getattr(raw, "dtype", getattr(raw, "type", None))
    if type(dtype).__name__ == "CategoricalDtype":
        return type_kind(dtype.categories)
    if type(dtype).__name__ == "SparseDtype":
        dtype = dtype.subtype
    name = str(dtype)
    return next((kind for begin, kind in _KINDS if re.match(begin, name, re.I)), "")


def warn_of_types(X: Any, reads: Mapping[int, str]) -> None:
    """Warn of new columns of a type that holds nothing of what is declared.

    No value is looked at. Libraries choose types by the values of a column, so that an
    error would let one row decide about others.

    Parameters
    ----------
    X : frame or ndarray of shape (n_rows, n_features)
    reads : mapping of int to {"number", "date"}
        What columns are read as, by their positions.
    """
    for place, what in reads.items():
        kind = type_kind(raw_column(X, place))
        if kind in _UNREADABLE[what]:
            name = column_labels(X)[place] if is_frame(X) else place
            warn_caller(
                f"column {name!r} of X is declared as a {what}, and its type holds "
                f"{_UNREADABLE[what][kind]}, which count as missing: pass it as in "
                "fit.",
                UtilityWarning,
            )


_MANY = "neither numbers nor dates"
#: Types without a value of what a column is read as, but those of files.
_UNREADABLE = {
    "number": {"date": "dates", "period": "periods", "other": _MANY},
    "date": {"duration": "durations", "time": "times of day", "other": _MANY},
}
