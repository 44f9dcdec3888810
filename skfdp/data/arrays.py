"""Check whole tables and targets of users; errors quote no datum."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import column_or_1d, validate_data

from skfdp.data.cells import as_array, exact, is_numeric, is_odd, numbers, type_kind
from skfdp.data.grid import row_blocks, stored_entries
from skfdp.data.sources import LargeTable, check_room, large_table
from skfdp.data.target import is_missing, real
from skfdp.data.validation import read_safely, unmasked
from skfdp.privacy.checks import shown, spelling
from skfdp.privacy.events import Relation


def is_frame(X: Any) -> bool:
    """Whether X is a table of pandas, polars or pyarrow."""
    kind = type(X)
    return (
        hasattr(kind, "iloc")
        or hasattr(kind, "get_columns")
        or hasattr(kind, "column_names")
    )


def is_dask(X: Any) -> bool:
    """Whether X is an array or a frame of Dask; imports nothing."""
    package = type(X).__module__.partition(".")[0]
    return package in ("dask", "dask_expr") and hasattr(type(X), "ndim")


def readable(given: Any) -> Any:
    """Return a user's table or column, made readable; refuse unreadable tensors.

    pandas copies `attrs` with each column that is selected, and they may hold objects
    that cannot be copied. So they are dropped. Other objects are returned unchanged.
    """
    if hasattr(type(given), "detach"):  # a tensor of torch
        message = (
            f"a {type(given).__name__} cannot be read by NumPy: pass "
            "tensor.detach().cpu(), dense and of a type that NumPy has."
        )
        read_safely(np.asarray, given, message=message, kind=ValueError)
    attrs = getattr(given, "attrs", None)
    if not (isinstance(attrs, Mapping) and attrs and hasattr(type(given), "iloc")):
        return given
    import pandas

    return (pandas.Series if given.ndim == 1 else pandas.DataFrame)(given)


def check_no_path(X: Any) -> None:
    """Raise TypeError if X is the path of a file instead of a table."""
    if isinstance(X, (str, os.PathLike)):
        raise TypeError(
            "X is a path: pass a table, such as pandas.read_csv(path), schema.read("
            "path), or open_table(path) for a file larger than memory."
        )


def frame_or_rows(X: Any) -> Any:
    """Return X if it is a frame, CSR rows if it is sparse, and otherwise an array."""
    if issparse(X):
        return X.tocsr()
    if is_frame(X):
        return X
    X = unmasked(X)
    # The type of a list does not determine the types of its cells.
    return np.array(X, dtype=object) if isinstance(X, (list, tuple)) else np.asarray(X)


def check_table(X: Any) -> Any:
    """Return X if it is a frame, with any number of rows; refuse anything else."""
    check_no_path(X)
    kind = type(X)
    shape = X.shape if is_frame(X) else (1, 1)
    for problem, is_so in {
        "a Dask collection: pass its partitions, X.map_partitions(...)": is_dask(X),
        "read in blocks: pass pandas.read_parquet(path)": isinstance(X, LargeTable),
        "a data set of pyarrow: pass X.to_table()": hasattr(kind, "get_fragments"),
        "a sparse matrix: pass a DataFrame": issparse(X),
        "a lazy frame: pass X.collect()": hasattr(kind, "collect"),
        "without names of columns: pass a DataFrame, or (for RFE and others) declare "
        "bounds in place of a schema": not is_frame(X),
        "one column: pass a table, such as X.to_frame()": len(shape) != 2,
        "without columns: at least 1 is needed": not shape[-1],
    }.items():
        if is_so:
            raise TypeError(f"a raw table must be a frame, and X is {problem}.")
    return readable(X)


def column_labels(X: Any) -> list:
    """Return the column names of a frame or a large table, or an empty list."""
    # `column_names` first, because the `columns` of a pyarrow table are values.
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return [] if names is None else getattr(names, "tolist", lambda: list(names))()


def check_names(X: Any) -> None:
    """Refuse a frame in which two columns have the same name."""
    names = [*map(str, column_labels(X) if is_frame(X) else ())]
    if twice := [*(Counter(names) - Counter(set(names)))]:
        raise ValueError(f"X has two columns {twice[0]!r}: rename one.")


def raw_column(X: Any, place: int) -> Any:
    """Return the column at a position."""
    if hasattr(type(X), "iloc"):
        return X.iloc[:, place]
    if hasattr(type(X), "get_columns"):
        return X.get_column(X.columns[place])
    return X.column(place) if hasattr(type(X), "column_names") else X[:, place]


# Dtypes of X that are kept. A float64 copy of X would double the memory of a fit.
_DTYPES = [np.dtype(kind).type for kind in "f8 f4 i1 i2 i4 i8 u1 u2 u4".split()]
_NOT_NUMERIC = (
    "X holds values that are not numbers (each argument must be a string or a number "
    "that float() accepts): declare columns of text and dates in a TableSchema."
)
_NOT_CSR = (
    "This X is not valid CSR: row pointers must increase, and column numbers must be "
    "below the number of columns; rebuild X, for example from COO."
)
_MISSING_LABELS = (
    "y contains NaN, None or another missing value: give missing targets a separate "
    "value, or select the records by public facts alone; dropping records because y is "
    "missing, or filling y from the data, would depend on private values."
)
# Replacements of scikit-learn's messages, by their beginnings. The originals recommend
# steps that learn from private rows, or remedies that do not apply here.
_INSTEAD = {
    "Input X contains NaN": (
        "Input X contains NaN: fill missing values with constants that are chosen "
        "without looking at the data (SimpleImputer(strategy='constant', "
        "fill_value=...)), or declare a TableSchema, which accepts missing values; an "
        "imputer that learns from the data, or dropping records, would depend on "
        "private values."
    ),
    "Input X contains infinity": (
        "Input X contains infinity or a value too large for float64: replace such "
        "values by a constant that is chosen without looking at the data."
    ),
    "Feature names are only supported": (
        "X has column names of several types, and only strings are understood as "
        "names: rename them, X.columns = X.columns.astype(str)."
    ),
    "np.matrix is not supported": "X is an np.matrix: pass np.asarray(X).",
    "at least one array or dtype": "X has no columns: check how they were selected.",
    "Complex data not supported": "Complex data not supported: pass real numbers.",
    "Expected 2D array": (
        "Expected 2D array as X. Reshape your data to (n_samples, n_features)."
    ),
}
# Messages of scikit-learn that quote no value of X or y. Other messages are replaced.
_QUOTES_NOTHING = re.compile(
    r"Found array with|Found input variables with|X has \d+ feat"
    r"|The feature names should match|Sparse data was passed|This "
    r"|y should be a 1d array|.* requires y to be passed"
    r"|Unknown label type: \w"
)


def check_arrays(
    estimator,
    X,
    *,
    reset: bool = True,
    accept_sparse: bool = False,
    enough: bool = True,
) -> np.ndarray | csr_array | LargeTable:
    """Validate numbers of `declared_numbers` by scikit-learn; errors quote no value.

    The dtype of X is kept. Missing and infinite numbers in X are accepted;
    `check_finite` checks public columns. `enough=False` accepts any number of rows, for
    a part of a table. Sparse rows become a canonical csr_array. The rows of a
    `LargeTable` are not read.
    """
    check_no_path(X)
    in_memory = type(X) is np.ndarray or hasattr(type(X), "iloc")
    if not in_memory and (table := large_table(X)) is not None:
        X = _checked_table(estimator, table, reset)
    else:
        sparse = issparse(X)
        if sparse and not accept_sparse:
            raise TypeError(
                f"{type(estimator).__name__} needs a dense X, but X is sparse: pass "
                "X.toarray() if it fits into memory, or use a linear estimator "
                "directly, which centres sparse rows without making them dense."
            )
        X = _validated(estimator, X, reset, accept_sparse)
        X = _canonical(X) if sparse else X
    if enough:
        check_enough(estimator, X.shape[0], reset)
    return X


def check_enough(estimator, n_rows: int, reset: bool = True) -> None:
    """Raise ValueError if rows are too few, unless their number is private."""
    relation = getattr(estimator, "neighboring_relation", None)
    hidden = reset and relation and not Relation.of(relation).counts_are_public
    if not hidden and n_rows < (2 if reset else 1):
        verb = "a fit needs at least 2 records" if reset else "nothing can be predicted"
        raise ValueError(
            f"X holds {n_rows} sample(s), and {verb}: check how the rows were selected."
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + ", ..." * (len(names) > 5)


_DECLARE = "declare all columns by TableSchema({{{{{{}}: {}, ...}}}})"
#: Content of columns that are not numbers, and a remedy for each.
_NOT_NUMBERS = {
    "text": ("text", _DECLARE.format("Category([...])")),
    "date": ("dates", _DECLARE.format("Date(first, last)")),
    "period": ("periods", _DECLARE.format("Date(first, last)")),
    "object": (
        "Python objects, which may be text,",
        _DECLARE.format("Category([...])") + ", or numbers by bounds",
    ),
    "complex": ("complex numbers", "declare {} by bounds, or turn it into numbers"),
    "other": ("values that are not single numbers", "drop {} or turn it into numbers"),
}


def declared_numbers(X: Any, bounds: Any, typed: bool = True) -> Any:
    """Convert columns that are not stored as numbers, each cell by itself.

    A cell that is not a number becomes missing, as in a table read from a file, because
    it must not stop a fit. Durations become days, and times of day become hours. In a
    frame, columns of objects and of complex numbers are converted only if `bounds`
    declares them, and columns of text only if `bounds` is a mapping that names them,
    because one pair of bounds for all columns may not be meant for text. Other types
    are refused, without reading a value. ``typed=False`` converts every type, for a
    part of a table whose types were checked.
    """
    if type(X).__name__ == "RecordBatch":  # scikit-learn does not read its names
        from pyarrow import Table

        X = Table.from_batches([X])
    if not (is_frame(X) and len(X.shape) == 2):
        X = unmasked(X)
        kind = X.dtype.kind if isinstance(X, np.ndarray) else ""
        duration = kind == "m" and type_kind(X) == "duration"
        declared = bounds is not None and kind in ("c", "U", "S")
        if kind in ("m", "M") and not duration:
            raise ValueError(
                f"X is an array of {_NOT_NUMBERS[type_kind(X)][0]}, and numbers are "
                "needed: convert X to numbers, or pass a frame and a TableSchema."
            )
        if not (isinstance(X, (list, tuple)) or kind == "O" or declared or duration):
            return X
        try:
            plain = np.asarray(X)
            if plain.ndim == 2 and plain.dtype.kind in "biuf":
                return plain
            values = plain if duration else np.array(X, dtype=object)
        except ValueError:  # rows have different lengths; they are refused later
            return X
        if values.ndim != 2 or not values.shape[1]:
            return X
        return np.column_stack([numbers(one, real, infinite=1.0) for one in values.T])
    check_names(X)
    labels, found, refused = column_labels(X), {}, {}
    named, n_columns = isinstance(bounds, Mapping), len(labels)
    read = ("object", "complex", *("text",) * named)
    for place, label in enumerate(labels):
        raw = raw_column(X, place)
        kind = type_kind(raw)
        # One pair for all columns, "private", and False (the columns are scaled
        # already) declare all columns. Unknown keys are refused later.
        declared = bounds is not None
        if named:
            declared = not {str(label), place, place - n_columns}.isdisjoint(bounds)
        if (
            kind in ("duration", "time")
            or (declared and kind in read)
            or not (typed or is_numeric(raw))
            or is_odd(raw)
        ):
            found[place] = numbers(raw, real, infinite=1.0)
        else:
            refused.setdefault(kind, []).append(repr(str(label)))
    for kind, (holds, remedy) in _NOT_NUMBERS.items():
        if kind in refused:
            raise ValueError(
                f"X holds {holds} in column(s) {_listed(refused[kind])}, and numbers "
                f"are needed: {remedy.format(refused[kind][0])}."
            )
    return _with_columns(X, labels, found) if found else X


def _with_columns(X: Any, labels: list, found: dict[int, np.ndarray]) -> Any:
    if hasattr(type(X), "iloc"):
        X = X.copy(deep=False)
        for place, values in found.items():
            X.isetitem(place, values)
    elif hasattr(type(X), "get_columns"):
        make = type(raw_column(X, 0))
        X = X.with_columns([make(labels[j], found[j]) for j in found])
    else:
        import pyarrow

        for place, values in found.items():
            X = X.set_column(place, labels[place], pyarrow.array(values))
    return X


def one_column(y: Any) -> Any:
    """Return the column of a frame with one column; other objects unchanged."""
    return raw_column(y, 0) if is_frame(y) and y.shape[1:] == (1,) else y


def numeric_target(y: Any) -> Any:
    """Convert a target to numbers; refuse a type that holds none, by the type alone."""
    raw = one_column(y)
    # The partitions of a Dask series are read later.
    if hasattr(y, "divisions") or getattr(raw, "ndim", 1) != 1:
        return y
    kind = type_kind(raw)
    if kind in ("duration", "time"):
        return numbers(raw)
    if kind in ("date", "period", "other"):
        raise ValueError(
            f"y holds values that are not numbers ({_NOT_NUMBERS[kind][0]}): convert "
            "the target of a regressor to numbers."
        )
    return as_array(raw) if kind == "text" and not isinstance(raw, np.ndarray) else y


def _checked_table(estimator, X: LargeTable, reset: bool) -> LargeTable:
    """Check a large table as `check_arrays` does; read no row."""
    if X.dtype.kind not in "biuf":
        message = _NOT_NUMERIC
        if names := getattr(X.source, "no_numbers", ()):
            message = (
                f"X has {len(names)} column(s) of a type that is not numeric: "
                f"{_listed(list(map(repr, names)))}; drop them, X.drop(name), or first "
                "encode them with declared or public categories."
            )
        raise ValueError(message)
    if X.dtype not in _DTYPES:
        X = X.after(lambda block: block.astype(np.float64), np.float64)
    if reset:
        # Only the shape is checked. The zeros take no memory.
        zeros = np.broadcast_to(np.float64(0), X.shape)
        _validated(estimator, zeros, reset, False)
        if X.names is not None:
            estimator.feature_names_in_ = np.array(X.names, dtype=object)
        if X.on_disk:
            check_room(X.shape[0], X.shape[1] + 1)
    else:
        check_columns(estimator, X.shape[1], X.names)
    return X


def check_columns(estimator, n_columns: int, names: Iterable[str] | None) -> None:
    """Raise ValueError if a table has other columns than the table of the fit."""
    expected = getattr(estimator, "n_features_in_", n_columns)
    if n_columns != expected:
        raise ValueError(
            f"X has {n_columns} features, but {type(estimator).__name__} is expecting "
            f"{expected} features as input."
        )
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and names is not None and list(known) != list(names):
        raise ValueError(
            "The feature names should match those that were passed during fit: give "
            "the same columns in the same order."
        )


def blanked(
    X: np.ndarray | csr_array | LargeTable, public: np.ndarray
) -> np.ndarray | csr_array | LargeTable:
    """Return a copy of a table with zeros in the private columns."""
    if issparse(X):
        kept = public[X.indices]
        indptr = np.append(0, np.cumsum(kept))[X.indptr]
        return csr_array((X.data[kept], X.indices[kept], indptr), shape=X.shape)

    def shown(block: np.ndarray) -> np.ndarray:
        return np.where(public, block, block.dtype.type(0))

    return X.after(shown) if isinstance(X, LargeTable) else shown(X)


def check_finite(X: np.ndarray | csr_array | LargeTable, public: np.ndarray) -> None:
    """Raise ValueError if a public column holds a value that is not finite."""
    if X.dtype.kind != "f" or not public.any():
        return
    for block in row_blocks(X):  # in blocks, to avoid a copy of all public columns
        values, columns, _ = stored_entries(X[block])
        values = values[..., public[columns]]
        if not np.isfinite(values).all():
            what = "NaN" if np.isnan(values).any() else "infinity"
            raise ValueError(_INSTEAD[f"Input X contains {what}"])


def either(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    """Return the union of two masks of rows; None stands for an empty mask."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _validated(estimator, X, reset: bool, accept_sparse: bool):
    """Validate X with scikit-learn; replace errors that may quote a datum."""
    try:
        # scikit-learn's check for finite numbers would warn if its sum overflows.
        with np.errstate(all="ignore"):
            return validate_data(
                estimator,
                X,
                reset=reset,
                dtype=_DTYPES,
                ensure_min_samples=0,
                ensure_all_finite=False,
                accept_sparse="csr" if accept_sparse else False,
            )
    except Exception as error:
        if _quotes_nothing(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        text = str(error)
    # Outside the handler, so that the original error is not kept as a context.
    for start, ours in _INSTEAD.items():
        if text.startswith(start):
            raise kind(ours)
    raise kind(_NOT_NUMERIC)


def _quotes_nothing(error: Exception) -> bool:
    alone = error.__cause__ is None and error.__context__ is None
    return alone and _QUOTES_NOTHING.match(str(error)) is not None


#: Message for a target that is text. It does not quote the text, which may be a label.
NAMED_TARGET = (
    "y is a text, such as a name, and not a column: pass table[name] as y, and leave "
    "this column out of X."
)


def shaped_target(y, n_rows: int, as_objects: bool = True) -> np.ndarray:
    """Return y as an array of shape (n_rows,), of any type.

    With `as_objects` a list becomes an array of objects, so that no entry decides the
    type of the others.
    """
    if isinstance(y, (str, bytes)):
        raise ValueError(NAMED_TARGET)
    try:
        y = unmasked(y, as_objects=True)
        if as_objects and isinstance(y, (list, tuple)):
            y = np.array(y, dtype=object)
        column = one_column(y)
        plain = isinstance(column, np.ndarray) and column.dtype.kind != "c"
        if not plain and (type_kind(column) == "complex" or is_odd(column)):
            y = exact(column)
        y = column_or_1d(y, warn=True)
    except Exception as error:
        if _quotes_nothing(error):
            raise
    else:
        if len(y) == n_rows:
            return y
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"[{n_rows}, {len(y)}]"
        )
    raise ValueError("y should be a 1d array of labels or of real numbers.")


def check_complete(y: np.ndarray, given: Any) -> None:
    """Refuse entries of a target that are missing or infinite."""
    kind = y.dtype.kind
    if kind == "c":
        raise ValueError(_INSTEAD["Complex data not supported"])
    # np.array turns missing entries in a list of texts into text. So check the list.
    listed = given if isinstance(given, (list, tuple)) else ()
    entries = listed if kind in "biufSU" else y
    if any(map(is_missing, entries)) or (kind == "f" and np.isnan(y).any()):
        raise ValueError(_MISSING_LABELS)
    if kind == "f" and np.isinf(y).any():
        raise ValueError(_INSTEAD["Input X contains infinity"].replace("Input X", "y"))


def _canonical(X) -> csr_array:
    """Return canonical CSR rows, with increasing column numbers and no duplicates.

    Norms are computed from stored entries. If a row repeated a column number, the norm
    of the row could exceed the computed norm. The flags in X that state its format are
    not trusted.
    """
    X = csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    read_safely(X.check_format, True, message=_NOT_CSR, kind=ValueError)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def column_names(own: Sequence[str] | None, n_features: int) -> tuple[str | int, ...]:
    """Return the names of the columns of X, or their positions if X has no names."""
    if own is None:
        return tuple(range(n_features))
    return tuple(spelling(str(name)) for name in own)


def target_name(declared: str | None, y: Any) -> str | None:
    """Return the declared name of the target, or the name of y; None without either.

    A Series, or a DataFrame of one column, has a name. The name of a Dask array is
    ignored, because this name is a digest of the array's values.
    """
    if declared is None:
        if is_dask(y) and not hasattr(type(y), "divisions"):
            return None
        columns = getattr(y, "columns", None)
        is_frame = columns is not None and len(columns) == 1
        found = columns[0] if is_frame else getattr(y, "name", None)
        return (spelling(found) or None) if isinstance(found, str) else None
    if not isinstance(declared, str) or not spelling(declared):
        raise ValueError(
            f"target={shown(declared)} must be the name of the column that y holds, or "
            "is computed from."
        )
    return spelling(declared)


def name_facts(
    columns: Sequence[str | int],
    public: np.ndarray,
    *,
    target: str | None = None,
    has_target: bool = True,
    public_target: bool = False,
) -> dict[str, Any]:
    """Return the names of columns and target that are recorded in events of a fit.

    Refuse a name that is both public and private.
    """
    names = {False: {}, True: {}}  # names of private and of public columns, in order
    for name, is_public in zip(columns, public, strict=True):
        names[bool(is_public)][name] = None
    shown = tuple(names[True])
    if target is not None:
        names[bool(public_target)][target] = None
    if both := sorted(names[True].keys() & names[False]):
        raise ValueError(
            f"{both[0]!r} is the name of a public and of a private column or target of "
            "this fit: declare both public or both private, or rename one."
        )
    unnamed = ["columns"] * bool({*map(type, columns)} - {str})
    unnamed += ["target"] * (has_target and target is None)
    return {
        "public_features": shown,
        "public_target": public_target,
        "target_name": target,
        "unnamed": tuple(unnamed),
    }
