"""From a user's X and y to checked arrays; never a datum in an error."""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import validate_data

from skfdp.checks import check_number, check_size
from skfdp.defaults import UtilityWarning
from skfdp.losses import MOST_CLASSES
from skfdp.noise import check_random_state
from skfdp.privacy.assumptions import ROWS_CLIPPED
from skfdp.privacy.disclosure import Assumption, enforced
from skfdp.privacy.events import check_budget, check_relation
from skfdp.rows import RowMap, resolve_bounds

# Kept as they are: a float64 copy of X would double the memory of a fit.
_DTYPES = [
    np.float64,
    np.float32,
    *(np.int8, np.int16, np.int32, np.int64),
    *(np.uint8, np.uint16, np.uint32),
]
#: X may have up to this many times `n_records` rows before the integer sums overflow.
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
# Sentences of scikit-learn that quote no value of X or y. Any other is replaced.
_QUOTES_NOTHING = re.compile(
    r"Found array with|Found input variables with|Input (X|y) contains|X has \d+ feat"
    r"|The feature names should match|Feature names|Sparse data was passed|This "
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
    try:
        # A sum that overflows in the check for finite numbers would warn.
        with np.errstate(all="ignore"):
            checked = validate_data(
                estimator,
                X,
                y,
                reset=reset,
                dtype=_DTYPES,
                ensure_min_samples=2 if reset else 1,
                accept_sparse="csr" if accept_sparse else False,
            )
        if not issparse(X):
            return checked
        if isinstance(checked, tuple):
            return _canonical(checked[0]), checked[1]
        return _canonical(checked)
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
    if text.startswith("Complex data not supported"):
        return "Complex data not supported: pass real numbers as X."
    if text.startswith("Expected 2D array"):
        return "Expected 2D array as X. Reshape your data to (n_samples, n_features)."
    return _NOT_NUMERIC


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
    if max(len(seen), 0 if classes is None else len(classes)) > MOST_CLASSES:
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
    declared = np.unique(np.asarray(classes))
    if len(declared) < 2:
        raise ValueError(f"classes={classes!r} must hold at least two labels.")
    position = {label: code for code, label in enumerate(declared.tolist())}
    places = [position.get(label, -1) for label in seen.tolist()]
    if -1 in places:
        raise ValueError(
            f"y holds labels outside `classes`={declared.tolist()!r}: declare every "
            "label that can occur."
        )
    return Labels(declared, np.asarray(places, dtype=np.int64)[codes], "declared")


def resolve_class_weight(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return one public weight per class."""
    weights = np.ones(len(classes))
    if class_weight is None:
        return weights
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight={class_weight!r} must be None or a dict from labels to "
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
            f"n_records={n_records!r} is only for neighboring_relation="
            "'add_or_remove_one': elsewhere the number of rows is public."
        )


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
            f"public_loss={public_loss!r} takes exact averages over the rows, whose "
            "number is private under neighboring_relation='add_or_remove_one': leave "
            "it out, or use 'replace_one'."
        )


def public_count(estimator, n_rows: int) -> int:
    """Return n where it is public, else the declared `n_records`; warn of delta."""
    n_public = n_rows if estimator.n_records is None else int(estimator.n_records)
    if n_rows > MOST_ROWS * n_public:
        raise ValueError(
            f"X has more than {MOST_ROWS} times n_records={n_public} rows: declare a "
            "nominal count of the right size."
        )
    if math.isfinite(estimator.epsilon) and estimator.delta >= 1 / n_public:
        warnings.warn(
            f"delta={estimator.delta!r} is not below 1/n = {1 / n_public:.3g}: such a "
            "delta would allow to publish a record at random.",
            UserWarning,
            stacklevel=4,
        )
    return n_public


def resolve_row_map(
    estimator, n_features: int, names: Sequence[str] | None, sparse: bool = False
) -> RowMap:
    """Return the row map of the estimator's declared bounds."""
    low, span = resolve_bounds(estimator.bounds, n_features, names)
    if estimator.bounds is None:
        warnings.warn(
            "bounds=None: no column bounds are declared, and columns of unequal scale "
            "train badly; pass bounds=(low, high), a mapping by column, or False if "
            "the columns are scaled already.",
            UtilityWarning,
            stacklevel=4,
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


def forget(estimator) -> None:
    """Delete what an earlier fit left, so that a failed fit leaves nothing."""
    for name in [v for v in vars(estimator) if v.endswith("_") and v[0] != "_"]:
        delattr(estimator, name)
