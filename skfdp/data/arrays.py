"""Validation of a user's X and y; no datum appears in an error."""

from __future__ import annotations

import decimal
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import column_or_1d, validate_data

from skfdp.data._values import (
    Column,
    check_names,
    check_no_path,
    column_labels,
    exact,
    is_frame,
    raw_column,
    type_kind,
)
from skfdp.data.grid import row_blocks
from skfdp.data.sources import LargeTable, check_room, large_table
from skfdp.data.target import text_of
from skfdp.data.validation import is_missing, unmasked, within_floats
from skfdp.privacy.events import Relation

# Kept as they are: a float64 copy of X would double the memory of a fit.
_DTYPES = [
    np.float64,
    np.float32,
    *(np.int8, np.int16, np.int32, np.int64),
    *(np.uint8, np.uint16, np.uint32),
]
_NOT_NUMERIC = (
    "X holds values that are not numbers (each argument must be a string or a number "
    "that float() accepts): declare columns of text and dates by "
    "encoder=DeclaredEncoder(...)."
)
_MISSING_LABELS = (
    "y contains NaN, None or another missing value: give missing targets a value of "
    "their own, or choose the records by public facts alone; dropping or filling them "
    "by what y holds would depend on private values."
)
_NO_TARGET = "y should be a 1d array of labels or of real numbers."
_MIXED_NAMES = (
    "X has column names of several types, and only strings are understood as names: "
    "rename them, X.columns = X.columns.astype(str)."
)
# What is said instead of a sentence of scikit-learn that begins so: theirs would send a
# user to steps that learn from private rows, or speaks of something else.
_INSTEAD = {
    "Input X contains NaN": (
        "Input X contains NaN: fill missing values with constants that are chosen "
        "without looking at the data (SimpleImputer(strategy='constant', "
        "fill_value=...)), or give them a category or a 0/1 column of their own; an "
        "imputer that learns, or dropping records, would depend on private values."
    ),
    "Input X contains infinity": (
        "Input X contains infinity or a value too large for float64: replace such "
        "values by a constant that is chosen without looking at the data."
    ),
    "Input y contains NaN": _MISSING_LABELS,
    "Input y contains infinity": (
        "y contains infinity or a value too large for float64: replace such values by "
        "a constant that is chosen without looking at the data."
    ),
    "Feature names are only supported": _MIXED_NAMES,
    "Complex data not supported": "Complex data not supported: pass real numbers.",
    "Expected 2D array": (
        "Expected 2D array as X. Reshape your data to (n_samples, n_features)."
    ),
}
# Sentences of scikit-learn that quote no value of X or y. Any other is replaced.
_QUOTES_NOTHING = re.compile(
    r"Found array with|Found input variables with|X has \d+ feat"
    r"|The feature names should match|Sparse data was passed|This "
    r"|y should be a 1d array|.* requires y to be passed"
    r"|Unknown label type: \w"
)


def check_arrays(
    estimator,
    X,
    y="no_validation",
    *,
    reset: bool = True,
    accept_sparse: bool = False,
    finite: bool = True,
    any_target: bool = False,
    enough: bool = True,
):
    """Validate X (and y) with scikit-learn, keeping the dtype and hiding the data.

    `finite=False` lets missing and infinite numbers of X pass: `check_finite` looks at
    the public ones. `any_target=True` looks at the shape of y alone. `enough=False`
    takes any number of rows: they are some of a table.

    Returns
    -------
    X : ndarray or canonical csr_array of shape (n_rows, n_features), or (X, y)
        A large table stays one: nothing is read but what `finite` asks for.
    """
    X, y = unmasked(X), unmasked(y, as_objects=True)
    if any_target and not (y is None or isinstance(y, str)):
        X = check_arrays(
            estimator,
            X,
            reset=reset,
            accept_sparse=accept_sparse,
            finite=finite,
            enough=enough,
        )
        return X, shaped_target(y, X.shape[0])
    check_no_path(X)
    check_columns_of_frame(X)
    in_memory = type(X) is np.ndarray or hasattr(type(X), "iloc")
    if not in_memory and (table := large_table(X)) is not None:
        return _checked_table(estimator, table, y, reset, finite)
    if issparse(X) and not accept_sparse:
        raise TypeError(
            f"{type(estimator).__name__} needs a dense X, and this one is sparse: "
            "pass X.toarray() if it fits, or leave this step out, because the linear "
            "estimators take CSR and centre it without filling it in."
        )
    if _lacks_labels(y):
        raise ValueError(_MISSING_LABELS)
    settings = reset, accept_sparse, finite
    checked = _validated(estimator, X, y, *settings, last=False)
    if checked is None:
        checked = _validated(estimator, _within_floats(X), y, *settings, given=X)
    n_rows = (checked[0] if isinstance(checked, tuple) else checked).shape[0]
    if enough:
        _check_enough(estimator, n_rows, reset)
    if not issparse(X):
        return checked
    if isinstance(checked, tuple):
        return _canonical(checked[0], finite), checked[1]
    return _canonical(checked, finite)


def check_columns_of_frame(
    X: Any,
    places: Sequence[int] | None = None,
    kinds: Sequence[str] = ("text", "date", "period", "other"),
) -> None:
    """Refuse names and types of columns of a frame that hold no numbers; no values.

    Parameters
    ----------
    X : table
    places : sequence of int, default=None
        The columns that have to be numbers; None: all.
    kinds : sequence of str
        The kinds of types to refuse.

    Raises
    ------
    ValueError
        If two columns have one name, or if a column is of a type of text, dates,
        periods or of several values.
    """
    if is_frame(X) and len(X.shape) == 2:
        check_names(X)
        for kind in kinds:
            holds, remedy = _NOT_NUMBERS[kind]
            if found := _columns_of_kind(X, kind, places):
                raise ValueError(
                    f"X holds {holds} in column(s) {_listed(found)}, and numbers are "
                    f"needed: {remedy.format(found[0])}."
                )
    elif (kind := type_kind(X)) in ("date", "other") and kind_of(X) in ("m", "M"):
        raise ValueError(
            f"X is an array of {_NOT_NUMBERS[kind][0]}, and numbers are needed: pass a "
            "frame and encoder=DeclaredEncoder(bounds=...), or convert them."
        )


def _columns_of_kind(
    X: Any, kind: str, places: Sequence[int] | None = None
) -> list[str]:
    """Return the quoted names of the columns of a frame that are of a kind."""
    labels = column_labels(X)
    places = range(len(labels)) if places is None else places
    found = [j for j in places if frame_kind(raw_column(X, j)) == kind]
    return [repr(str(labels[j])) for j in found]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + ", ..." * (len(names) > 5)


def kind_of(X: Any) -> str:
    """Return the kind of the dtype of an array of numpy, "" of anything else."""
    return X.dtype.kind if isinstance(X, np.ndarray) else ""


def frame_kind(raw: Any) -> str:
    """Return the kind of a column by its type: `type_kind`, or "text" or "object"."""
    if kind := type_kind(raw):
        return kind
    dtype = getattr(raw, "dtype", getattr(raw, "type", None))
    name = str(dtype).lower()
    if name.startswith("object"):
        return "object"
    return "text" if name.startswith(_TEXTS) else ""


# What names of types of text begin with.
_TEXTS = ("str", "string", "large_string", "utf8", "large_utf8", "dictionary")
_TEXTS += ("category", "categorical", "enum", "binary", "large_binary")
_ENCODE = "encoder=DeclaredEncoder({}) declares them"
#: What columns hold that are no numbers, and what to do.
_NOT_NUMBERS = {
    "text": ("text", _ENCODE.format("categories={{{}: [...]}}")),
    "date": ("dates", _ENCODE.format("bounds={{{}: (first day, last day)}}")),
    "period": ("periods", _ENCODE.format("bounds={{{}: (first day, last day)}}")),
    "other": ("values that are no single numbers", "drop {} or turn it into numbers"),
}


def declared_numbers(X: Any, bounds: Any, finite: bool = False) -> Any:
    """Return a table with numbers in the columns that are declared as numbers.

    A cell of another kind is missing, as it is where a file is read: it must not stop a
    fit. Durations are days and times of day hours, by the type of the column.

    Parameters
    ----------
    X : table
    bounds : object
        As users give them; None declares no column. Only a mapping declares columns of
        a type of text, by their names: a pair may be meant for the others.
    finite : bool, default=False
        Raise ValueError for a cell of another kind.
    """
    if isinstance(X, LargeTable) or issparse(X) or hasattr(type(X), "collect"):
        return X
    if is_frame(X) and len(X.shape) == 2:
        return _frame_of_numbers(X, bounds, finite)
    X = unmasked(X)
    if kind_of(X) == "m" and type_kind(X) == "duration":
        return X / np.timedelta64(1, "D")
    listed = isinstance(X, (list, tuple)) or kind_of(X) in ("O", "U", "S")
    if bounds is None or not listed:
        return X
    try:
        values = np.array(X, dtype=object)
    except ValueError:  # rows of several lengths, which are refused
        return X
    if values.ndim != 2 or not values.size:
        return X
    declared = _declared_places(bounds, values.shape[1])
    for place in declared:
        values[:, place] = _numbers(values[:, place], finite)
    return values.astype(np.float64) if len(declared) == values.shape[1] else values


def _frame_of_numbers(X: Any, bounds: Any, finite: bool) -> Any:
    check_names(X)
    labels = column_labels(X)
    declared = _declared_places(bounds, X.shape[1], list(map(str, labels)))
    found = {}
    for place in range(X.shape[1]):
        raw = raw_column(X, place)
        kind = frame_kind(raw)
        if kind in ("duration", "time"):
            found[place] = Column(raw).read("number")
        elif kind == "object" and place in declared:
            found[place] = _numbers(raw, finite)
        elif kind == "text" and place in declared and isinstance(bounds, Mapping):
            found[place] = _numbers(raw, finite)  # of a pair for all, text is refused
    if not found:
        return X
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


def _declared_places(
    bounds: Any, n_columns: int, names: list[str] | None = None
) -> set[int]:
    """Return the columns that bounds declare as numbers; wrong ones are refused later.

    So do bounds=False, for columns that are scaled already, and "private".
    """
    if bounds is None:
        return set()
    if not isinstance(bounds, Mapping):
        return set(range(n_columns))
    named = {name: place for place, name in enumerate(names or ())}
    places = {named.get(key, key) for key in bounds}
    whole = (place for place in places if isinstance(place, (int, np.integer)))
    return {int(j) % n_columns for j in whole if -n_columns <= j < n_columns}


def _numbers(raw: Any, finite: bool) -> np.ndarray:
    """Return a column as numbers, NaN where a cell is none, or refuse such a cell."""
    found = Column(raw).read("number")
    if finite:
        cells = exact(raw)[np.isnan(found)]
        if any(text_of(cell) is not None for cell in cells if not _is_number(cell)):
            raise ValueError(_not_numbers(raw))
    return found


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (numbers.Real, decimal.Decimal))


def _not_numbers(X: Any) -> str:
    """Return what to say of values that are no numbers; names columns of objects."""
    if is_frame(X) and len(X.shape) == 2 and (found := _columns_of_kind(X, "object")):
        return (
            "X holds values that are not numbers, and column(s) of a type that may "
            f"hold text: {_listed(found)}; encoder=DeclaredEncoder(categories="
            f"{{{found[0]}: [...]}}) declares text, and bounds declare numbers."
        )
    return _NOT_NUMERIC


def numeric_target(y: Any) -> Any:
    """Return a target whose type is read as numbers; refuse a type that holds none.

    Durations are days and times of day hours. No value decides which error is raised.

    Parameters
    ----------
    y : array-like of shape (n_samples,), or a frame of one column

    Raises
    ------
    ValueError
        If the type holds dates, periods or values that are no single numbers.
    """
    raw = y
    if hasattr(y, "divisions"):  # of Dask, whose partitions are read later
        return y
    if is_frame(y) and len(y.shape) == 2 and y.shape[1] == 1:
        raw = raw_column(y, 0)
    if getattr(raw, "ndim", 1) != 1:
        return y
    kind = frame_kind(raw)
    if kind in ("duration", "time"):
        return Column(raw).read("number")
    if kind in ("date", "period", "other") and kind_of(raw) != "c":
        raise ValueError(
            "y holds values that are not numbers: a regressor needs a numeric target, "
            f"and the type of y holds {_NOT_NUMBERS[kind][0]}."
        )
    is_array = isinstance(raw, np.ndarray)
    return Column(raw).values if kind == "text" and not is_array else y


def _checked_table(estimator, X: LargeTable, y, reset: bool, finite: bool):
    """Return a large table of numbers, or (X, y), as `check_arrays` does."""
    if _lacks_labels(y):
        raise ValueError(_MISSING_LABELS)
    if X.dtype.kind not in "biuf":
        raise ValueError(_not_numeric(X))
    if X.dtype not in _DTYPES:
        X = X.after(lambda block: block.astype(np.float64), np.float64)
    if reset:
        # Zeros without memory: their shape is looked at, and y.
        zeros = np.broadcast_to(np.float64(0), X.shape)
        checked = _validated(estimator, zeros, y, reset, False, finite=False)
        if X.names is not None:
            estimator.feature_names_in_ = np.array(X.names, dtype=object)
        if X.on_disk:
            check_room(X.shape[0], X.shape[1] + 1)
    else:
        _check_columns(estimator, X)
    _check_enough(estimator, X.shape[0], reset)
    if finite:
        check_finite(X, np.ones(X.shape[1], dtype=bool))
    return (X, checked[1]) if reset and isinstance(checked, tuple) else X


def _not_numeric(X: LargeTable) -> str:
    """Return what to say of columns that are no numbers, by their types."""
    names = getattr(X.source, "no_numbers", ())
    if not names:
        return _NOT_NUMERIC
    listed = ", ".join(map(repr, names[:5])) + ", ..." * (len(names) > 5)
    return (
        f"X has {len(names)} column(s) of a type that is no number: {listed}; drop "
        "them, X.drop(name), or encode them over declared or public categories before."
    )


def _check_columns(estimator, X: LargeTable) -> None:
    """Raise ValueError where a large table has other columns than that of the fit."""
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and X.names is not None and list(known) != list(X.names):
        raise ValueError(
            "The feature names should match those that were passed during fit: give "
            "the same columns in the same order."
        )


def blanked(
    X: np.ndarray | csr_array | LargeTable, public: np.ndarray
) -> np.ndarray | csr_array | LargeTable:
    """Return a table of the same form whose private columns hold zeros."""
    if isinstance(X, LargeTable):
        return X.after(lambda block: np.where(public, block, block.dtype.type(0)))
    if issparse(X):
        kept = public[X.indices]
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[kept]
        indptr = np.concatenate([[0], np.bincount(row, minlength=X.shape[0]).cumsum()])
        return csr_array((X.data[kept], X.indices[kept], indptr), shape=X.shape)
    shown = np.zeros(X.shape, dtype=X.dtype)
    shown[:, public] = X[:, public]
    return shown


def check_finite(X: np.ndarray | csr_array | LargeTable, public: np.ndarray) -> None:
    """Raise ValueError as `check_arrays` does for what is not finite in public columns.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    public : bool ndarray of shape (n_features,)
    """
    if X.dtype.kind != "f" or not public.any():
        return
    for block in row_blocks(X):  # no copy of all public columns
        rows = X[block]
        values = rows.data[public[rows.indices]] if issparse(X) else rows[:, public]
        if np.isnan(values).any():
            raise ValueError(_INSTEAD["Input X contains NaN"])
        if not np.isfinite(values).all():
            raise ValueError(_INSTEAD["Input X contains infinity"])


def either(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    """Return which rows are in one of two sets; None: no row is."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _validated(
    estimator,
    X,
    y,
    reset: bool,
    accept_sparse: bool,
    finite: bool,
    last: bool = True,
    given: Any = None,
):
    """Return what scikit-learn makes of X and y; its errors without a datum.

    `last=False` returns None where a number beyond the floats may be why not. `given`
    is the X of the user, where that is another one.
    """
    try:
        # A sum that overflows in the check for finite numbers would warn.
        with np.errstate(all="ignore"):
            return validate_data(
                estimator,
                X,
                y,
                reset=reset,
                dtype=_DTYPES,
                ensure_min_samples=0,
                ensure_all_finite=finite,
                accept_sparse="csr" if accept_sparse else False,
            )
    except Exception as error:
        alone = error.__cause__ is None and error.__context__ is None
        if alone and _QUOTES_NOTHING.match(str(error)):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        text = str(error)
    if not last and not any(text.startswith(start) for start in _INSTEAD):
        return None
    # Outside the handler, so that the original is not kept as a context either.
    raise kind(_without_data(text, X if given is None else given))


def _within_floats(X):
    """Return X with infinity for whole numbers beyond the floats; see the records."""
    if issparse(X):
        return X
    try:
        values = np.asarray(X, dtype=object)
        if values.dtype.kind == "O" and values.ndim == 2:
            values = np.frompyfunc(within_floats, 1, 1)(values)
            named = hasattr(X, "iloc")  # pandas alone holds such numbers
            return type(X)(values, columns=X.columns) if named else values
    except Exception:  # what is no table is refused as it stands
        return X
    return X


def shaped_target(y, n_rows: int) -> np.ndarray:
    """Return y as an array of shape (n_rows,), whatever it holds.

    The type of a list is that of no entry.
    """
    try:
        y = unmasked(y, as_objects=True)
        if isinstance(y, (list, tuple)):  # or one entry would decide the type of all
            y = np.array(y, dtype=object)
        y = column_or_1d(y, warn=True)
    except Exception as error:
        text = str(error)
        alone = error.__cause__ is None and error.__context__ is None
        if alone and _QUOTES_NOTHING.match(text):
            raise
    else:
        if len(y) == n_rows:
            return y
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"[{n_rows}, {len(y)}]"
        )
    raise ValueError(_NO_TARGET)


def _canonical(X, finite: bool) -> csr_array:
    """Return CSR rows whose column numbers increase, each within X and once.

    Norms are taken entry by entry: a repeated column would make a row longer than its
    norm. What the object says of itself is not believed.
    """
    X = csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    if not _well_formed(X):
        raise ValueError(
            "This X is not valid CSR: row pointers must increase, and column numbers "
            "lie within the columns; rebuild it, from COO for example."
        )
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
        if finite and not np.isfinite(X.data).all():
            raise ValueError("Input X contains infinity after repeated entries add up.")
    return X


def _well_formed(X: csr_array) -> bool:
    try:
        X.check_format(full_check=True)
    except ValueError:
        return False
    return True


def _without_data(text: str, X: Any) -> str:
    """Return what to say instead of an error that quotes a value."""
    found = (ours for start, ours in _INSTEAD.items() if text.startswith(start))
    return next(found, None) or _not_numbers(X)


def _check_enough(estimator, n_rows: int, reset: bool) -> None:
    """Refuse tables without enough rows, where the number of rows is public."""
    relation = getattr(estimator, "neighboring_relation", None)
    if reset and relation and not Relation.of(relation).counts_are_public:
        return
    if n_rows < (2 if reset else 1):
        verb = "a fit needs at least 2 records" if reset else "nothing can be predicted"
        raise ValueError(
            f"X holds {n_rows} sample(s), and {verb}: check what selected the rows."
        )


def _lacks_labels(y) -> bool:
    """Whether an entry of y is missing.

    Of those scikit-learn speaks as of values of X, or of an unknown type of labels.
    """
    kind = getattr(getattr(y, "dtype", None), "kind", "O")
    if y is None or isinstance(y, str) or kind in "biufcSU":
        return False
    try:
        values = np.asarray(y, dtype=object)
    except (TypeError, ValueError):
        return False
    return values.ndim == 1 and any(map(is_missing, values))
