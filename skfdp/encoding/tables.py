"""Raw tables: their columns, and what the types of these say."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from skfdp.encoding.values import exact
from skfdp.records.checks import unmasked
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.large import LargeTable

# The one category of a column of Dask whose categories it has not read.
_UNKNOWN = "__UNKNOWN_CATEGORIES__"


def is_frame(X: Any) -> bool:
    """Whether X is a table of pandas, polars or pyarrow."""
    return any(
        hasattr(type(X), name) for name in ("iloc", "get_columns", "column_names")
    )


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
