"""From a user's X and y to checked arrays; never a datum in an error."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import validate_data

from skfdp.checks import (
    check_choice,
    check_clip_norm,
    check_n_jobs,
    check_number,
    check_size,
    shown,
)
from skfdp.defaults import UtilityWarning
from skfdp.fitting import warn_caller
from skfdp.losses import MOST_CLASSES
from skfdp.noise import check_random_state
from skfdp.privacy.assumptions import ROWS_CLIPPED
from skfdp.privacy.disclosure import Assumption, enforced
from skfdp.privacy.events import check_budget, check_relation
from skfdp.rows import RowMap, resolve_bounds
from skfdp.steps import AVERAGES

# Kept as they are: a float64 copy of X would double the memory of a fit.
_DTYPES = [
    np.float64,
    np.float32,
    *(np.int8, np.int16, np.int32, np.int64),
    *(np.uint8, np.uint16, np.uint32),
]
#: The grid of a sum leaves room for this many times `n_records` rows, aligned at their
#: bound. Where n is private there may be more: sums then wrap around, which is
#: post-processing of the exact release (docs/theory/exact_release.rst).
MOST_ROWS = 16
#: What the guarantee takes for granted beyond what the events tell.
ASSUMPTIONS = (
    Assumption(
        "Bounds, clip norm and every other constructor parameter were chosen without "
        "looking at private data.",
        enforced=False,
    ),
    enforced(ROWS_CLIPPED),
)
_NOT_NUMERIC = (
    "X holds values that are not numbers (each argument must be a string or a number "
    "that float() accepts): encode text columns first, over declared or public "
    "categories (OneHotEncoder(categories=...))."
)
_MISSING_LABELS = (
    "y contains NaN, None or another missing value: give missing targets a value of "
    "their own, or choose the records by public facts alone; dropping or filling them "
    "by what y holds would depend on private values."
)
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
):
    """Validate X (and y) with scikit-learn, keeping the dtype and hiding the data.

    Returns
    -------
    X : ndarray or canonical csr_array of shape (n_rows, n_features), or (X, y)
    """
    if issparse(X) and not accept_sparse:
        raise TypeError(
            f"{type(estimator).__name__} needs a dense X, and this one is sparse: "
            "pass X.toarray() if it fits, or leave this step out, because the linear "
            "estimators take CSR and centre it without filling it in."
        )
    if _lacks_labels(y):
        raise ValueError(_MISSING_LABELS)
    checked = _validated(estimator, X, y, reset, accept_sparse)
    n_rows = (checked[0] if isinstance(checked, tuple) else checked).shape[0]
    _check_enough(estimator, n_rows, reset)
    if not issparse(X):
        return checked
    if isinstance(checked, tuple):
        return _canonical(checked[0]), checked[1]
    return _canonical(checked)


def _validated(estimator, X, y, reset: bool, accept_sparse: bool):
    """Return what scikit-learn makes of X and y; its errors without a datum."""
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
                accept_sparse="csr" if accept_sparse else False,
            )
    except Exception as error:
        alone = error.__cause__ is None and error.__context__ is None
        if alone and _QUOTES_NOTHING.match(str(error)):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        text = str(error)
    # Outside the handler, so that the original is not kept as a context either.
    raise kind(_without_data(text))


def _canonical(X) -> csr_array:
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
        if not np.isfinite(X.data).all():
            raise ValueError("Input X contains infinity after repeated entries add up.")
    return X


def _well_formed(X: csr_array) -> bool:
    try:
        X.check_format(full_check=True)
    except ValueError:
        return False
    return True


def _without_data(text: str) -> str:
    """Return what to say instead of an error that quotes a value."""
    found = (ours for start, ours in _INSTEAD.items() if text.startswith(start))
    return next(found, _NOT_NUMERIC)


def _check_enough(estimator, n_rows: int, reset: bool) -> None:
    """Refuse tables without enough rows, where the number of rows is public."""
    relation = getattr(estimator, "neighboring_relation", None)
    if reset and relation == "add_or_remove_one":
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
    return values.ndim == 1 and any(map(_is_missing, values))


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 -- NaN and NaT
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


@dataclasses.dataclass(frozen=True)
class Labels:
    """The label set and the class of each record.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    codes : int64 ndarray of shape (n_rows,)
        Position of each label in `classes`.
    source : {"declared", "data"}
    """

    classes: np.ndarray
    codes: np.ndarray
    source: str


def encode_labels(y: np.ndarray, classes: Sequence | None) -> Labels:
    """Encode y over the declared classes, or over those that it holds."""
    # Not `check_classification_targets`: its warning about many classes would tell how
    # many occur, and silencing it is not safe where threads fit at the same time.
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. A classifier expects discrete classes: use a "
            "regressor for continuous values."
        )
    seen, codes = np.unique(y, return_inverse=True)
    if max(len(seen), 0 if classes is None else len(_declared(classes))) > MOST_CLASSES:
        raise ValueError(
            f"y or `classes` has more than {MOST_CLASSES} labels: merge rare ones."
        )
    if classes is None:
        if len(seen) < 2:
            raise ValueError(
                "y holds one class only, a classifier needs at least two: declare "
                "`classes` if the others are merely absent."
            )
        return Labels(seen, codes.astype(np.int64), "data")
    declared = _declared(classes)
    if len(declared) < 2:
        raise ValueError(f"classes={shown(classes)} must hold at least two labels.")
    position = {label: code for code, label in enumerate(declared.tolist())}
    places = [position.get(label, -1) for label in seen.tolist()]
    if -1 in places:
        raise ValueError(
            f"y holds labels outside `classes`={declared.tolist()!r}: declare every "
            "label that can occur."
        )
    return Labels(declared, np.asarray(places, dtype=np.int64)[codes], "declared")


def _declared(classes: Any) -> np.ndarray:
    """Return the declared labels, sorted, each once."""
    labels = None
    if isinstance(classes, Collection) and not isinstance(classes, (str, Mapping)):
        with contextlib.suppress(TypeError, ValueError):  # of labels without an order
            labels = np.asarray(classes)
            labels = np.unique(labels) if labels.ndim == 1 else None
    if labels is None:
        raise ValueError(
            f"classes={shown(classes)} must be a sequence of labels of one type."
        )
    return labels


def resolve_class_weight(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return one public weight per class."""
    weights = np.ones(len(classes))
    if class_weight is None:
        return weights
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight={shown(class_weight)} must be None or a dict from labels to "
            "weights: 'balanced' would read the label counts, which may be private."
        )
    position = {label: code for code, label in enumerate(classes.tolist())}
    for label, weight in class_weight.items():
        if label not in position:
            raise ValueError(
                f"class_weight names the label {label!r}, which is not in `classes`."
            )
        check_size(f"class_weight[{label!r}]", weight, zero=True)
        weights[position[label]] = weight
    if not weights.any():
        raise ValueError(
            f"class_weight={class_weight!r} gives every class the weight 0: at least "
            "one must count."
        )
    return weights


def check_privacy_parameters(estimator) -> None:
    """Check what every private estimator shares: budget, relation, bounds, seed."""
    check_budget(estimator.epsilon, estimator.delta, allow_infinite=True)
    check_relation(estimator.neighboring_relation)
    check_size("feature_bound", estimator.feature_bound, also=("auto",))
    check_random_state(estimator.random_state)
    n_records = estimator.n_records
    if estimator.neighboring_relation == "add_or_remove_one":
        if n_records is None:
            raise ValueError(
                "neighboring_relation='add_or_remove_one' makes the number of rows "
                "private: give n_records, a public nominal count."
            )
        check_number("n_records", n_records, integral=True)
    elif n_records is not None:
        raise ValueError(
            f"n_records={shown(n_records)} is only for neighboring_relation="
            "'add_or_remove_one': elsewhere the number of rows is public."
        )


def check_loop_parameters(estimator) -> None:
    """Check what every estimator with a loop shares."""
    auto = ("auto",)
    check_clip_norm(estimator.clip_norm)
    check_number("max_iter", estimator.max_iter, integral=True, also=auto)
    check_number("batch_size", estimator.batch_size, integral=True, also=("auto", None))
    check_size("learning_rate", estimator.learning_rate, also=auto)
    check_number("momentum", estimator.momentum, high=1, include_low=True)
    check_number("noise_decay", estimator.noise_decay, high=10, include_low=True)
    check_size("radius", estimator.radius, also=(None,))
    check_choice("average", estimator.average, AVERAGES)
    check_choice("accountant", estimator.accountant, ("auto", "pld"))
    check_n_jobs(estimator.n_jobs)


def check_nothing_public(estimator, mask: np.ndarray, public_target: bool) -> None:
    """Refuse public parts under add/remove, where whole records come and go."""
    if mask.all() and public_target:
        raise ValueError(
            "public_features names every column and public_target=True: there is "
            "nothing to protect; use a scikit-learn estimator."
        )
    if estimator.neighboring_relation == "add_or_remove_one" and (
        mask.any() or public_target
    ):
        raise ValueError(
            "neighboring_relation='add_or_remove_one' adds whole records, so nothing "
            "of them can be public: use 'replace_one' or 'replace_special'."
        )
    public_loss = getattr(estimator, "public_loss", None)
    if estimator.neighboring_relation == "add_or_remove_one" and not (
        public_loss is None or public_loss == "auto"
    ):
        # An exact average over the rows would tell how many there are.
        raise ValueError(
            f"public_loss={shown(public_loss)} takes exact averages over the rows, "
            "whose number is private under neighboring_relation='add_or_remove_one': "
            "leave it out, or use 'replace_one'."
        )


def public_count(estimator, n_rows: int) -> int:
    """Return n where it is public, else the declared `n_records`; warn of delta.

    Where n is private, nothing depends on it: neither a refusal nor a warning.
    """
    n_public = n_rows if estimator.n_records is None else int(estimator.n_records)
    if math.isfinite(estimator.epsilon) and estimator.delta >= 1 / n_public:
        warn_caller(
            f"delta={estimator.delta!r} is not below 1/n = {1 / n_public:.3g}: such a "
            "delta would allow to publish a record at random.",
            UserWarning,
        )
    return n_public


def resolve_row_map(
    estimator, n_features: int, names: Sequence[str] | None, sparse: bool = False
) -> RowMap:
    """Return the row map of the estimator's declared bounds."""
    low, span = resolve_bounds(estimator.bounds, n_features, names)
    if estimator.bounds is None:
        warn_caller(
            "bounds=None: no column bounds are declared, and columns of unequal scale "
            "train badly; pass bounds=(low, high), a mapping by column, or False if "
            "the columns are scaled already.",
            UtilityWarning,
        )
    bound = estimator.feature_bound
    if bound == "auto":
        # No row within bounds is longer. Columns without bounds are taken as scaled.
        bounded = span is not None and bool(np.isfinite(span).all())
        bound = math.sqrt(n_features) if bounded else 1.0
    row_map = RowMap(low, span, float(bound), bool(estimator.normalize))
    if sparse:
        row_map.check_sparse()
    return row_map


def resolved_parameters(
    estimator, /, public: np.ndarray, row_map: RowMap, **others: Any
) -> dict[str, Any]:
    """Return the parameters of a fit, as `Streams` needs them.

    Parameters
    ----------
    public : bool ndarray of shape (n_features,)
        In place of `public_features`, however that was spelled.
    row_map : RowMap
        In place of bounds, feature_bound and normalize.
    **others
        In place of other parameters; those that the estimator lacks are left out.
    """
    given = estimator.get_params(deep=False)
    rows = {"bounds": row_map, "feature_bound": None, "normalize": None}
    resolved = {"public_features": public, **rows, **others}
    return given | {name: v for name, v in resolved.items() if name in given}


def forget(estimator) -> None:
    """Delete what an earlier fit left, so that a failed fit leaves nothing."""
    for name in [v for v in vars(estimator) if v.endswith("_") and v[0] != "_"]:
        delattr(estimator, name)
