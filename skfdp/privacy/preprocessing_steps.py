"""The table of steps that stand before an estimator: what each learns, and from what.

scikit-learn is not imported: a step is known by the name of its class and by where that
class is from, so that a user's class of the same name is not believed. The verdict
follows from parameters alone, and so it is the same for all data.

Guarantees
----------
* "nothing": the fitted state is a function of the parameters, of names, types and
  numbers of columns and, where stated, of the number of records; and every row of the
  output is a function of the same row of the input.
* What is not in the table is unknown. So is a step whose function a user wrote.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from skfdp.addresses import public
from skfdp.privacy.assumptions import CATEGORIES_OF_TYPES

#: What a step learns from, beside parameters, names, types and shapes.
Learns = Literal["nothing", "public columns", "rows", "target"]
LEARNS: tuple[Learns, ...] = ("nothing", "public columns", "rows", "target")


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class Lesson:
    """A step of a Pipeline without a report of its own, and what it learnt.

    Attributes
    ----------
    step : str
        Its name and class.
    learns : {"nothing", "public columns", "rows", "target"}
        What its fitted state depends on. "rows" and "target" are learnt without
        privacy.
    reason : str
        What it learnt, or why it learns nothing.
    """

    step: str
    learns: Learns
    reason: str

    @property
    def private(self) -> bool:
        """Whether it learnt something private without privacy."""
        return self.learns in ("rows", "target")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The row of the table for a step, and what it takes for granted."""

    learns: Learns
    reason: str
    assumes: str | None = None


def _nothing(reason: str, assumes: str | None = None) -> Verdict:
    return Verdict("nothing", reason, assumes)


def _always(learns: Learns, reason: str) -> Callable[[Any], Verdict]:
    return lambda step: Verdict(learns, reason)


#: Taken for granted of a step that may refuse a table for one cell.
REFUSES = (
    "No private value was refused by a step that refuses what is not declared; whether "
    "it does tells of one record (handle_unknown='ignore', extrapolation='constant')."
)


# -- what depends on parameters --------------------------------------------------------
def _categories(step: Any) -> Verdict:
    given = step.categories
    if isinstance(given, str) or any(isinstance(one, str) for one in given):
        return Verdict("rows", "which values occur")
    if step.min_frequency is not None or step.max_categories is not None:
        return Verdict("rows", "which values are frequent")
    assumes = REFUSES if step.handle_unknown == "error" else None
    return _nothing("all categories are given", assumes)


def _encoding(step: Any) -> Verdict:
    typed = hasattr(step, "blocks_") and step.categories_from_types()
    assumes = CATEGORIES_OF_TYPES if typed else None
    return _nothing("bounds, categories and knots are declared", assumes)


def _knots(step: Any) -> Verdict:
    if not isinstance(step.knots, str):
        assumes = REFUSES if step.extrapolation == "error" else None
        return _nothing("all knots are given", assumes)
    what = "extremes" if step.knots == "uniform" else "quantiles"
    return Verdict("rows", f"{what} of its columns")


def _imputer(step: Any) -> Verdict:
    if step.strategy != "constant":
        return Verdict("rows", "a typical value of each column")
    if step.add_indicator:
        return Verdict("rows", "which columns have missing values (add_indicator=True)")
    if not step.keep_empty_features:
        return Verdict(
            "rows", "which columns have no value at all (keep_empty_features=False)"
        )
    return _nothing("the value that is filled in is given")


def _indicator(step: Any) -> Verdict:
    if step.features != "all":
        return Verdict("rows", f"which columns have missing values ({step.features})")
    return _nothing("it marks missing values in all columns")


def _function(step: Any) -> Verdict | None:
    if not all(_is_elementwise(f) for f in (step.func, step.inverse_func)):
        return None  # it may compare rows
    if step.kw_args:
        return None
    what = "hands on values" if step.func is None else f"takes {step.func.__name__}"
    return _nothing(f"it {what}, each by itself")


def _is_elementwise(function: Any) -> bool:
    """Whether a function is one of NumPy's of one number, or None."""
    if function is None:
        return True
    return (
        isinstance(function, np.ufunc)
        and (function.nin, function.nout, function.signature) == (1, 1, None)
        and getattr(np, function.__name__, None) is function
    )


def _projection(step: Any) -> Verdict:
    size = (
        f"The number of records, from which {type(step).__name__} takes its size, is "
        "public."
    )
    assumes = size if step.n_components == "auto" else None
    return _nothing("its directions are drawn without looking at values", assumes)


def _features_of_kernel(step: Any) -> Verdict:
    if not isinstance(step.gamma, numbers.Real):
        return Verdict("rows", 'the variance of the table (gamma="scale")')
    return _nothing("its directions are drawn without looking at values")


def _weights(step: Any) -> Verdict:
    if step.use_idf:
        return Verdict("rows", "in how many rows each column is not zero")
    return _nothing("it scales each row by itself")


def _frozen(step: Any) -> Verdict | None:
    found = verdict(step.estimator)
    if found is None or found.learns != "nothing" or is_container(step.estimator):
        return None  # its training rows are unknown
    return found


def _hashing(step: Any) -> Verdict | None:
    custom = ("preprocessor", "tokenizer")
    if any(getattr(step, name, None) is not None for name in custom):
        return None
    if callable(getattr(step, "analyzer", None)):
        return None
    return _nothing("columns are numbered by a fixed hash function")


# -- containers ------------------------------------------------------------------------
#: What verdicts take for granted.
DENSE = (
    "ColumnTransformer was given a dense table; of a sparse one it learns whether many "
    "values differ from zero, unless sparse_threshold=0."
)
TYPES = (
    "The types of the columns, by which make_column_selector chooses, were fixed "
    "without looking at private values."
)


def _columns(step: Any) -> Verdict | None:
    assumed = set()
    for _, _, chosen in step.transformers:
        if not callable(chosen):
            continue
        if not is_class(chosen, "make_column_selector"):
            return None  # a user's function of the table
        if chosen.dtype_include is not None or chosen.dtype_exclude is not None:
            assumed.add(TYPES)
    if step.sparse_threshold > 0:
        if any(_is_sparse(part) for _, part, _ in members(step)):
            return Verdict(
                "rows",
                "whether many values differ from zero, which decides the type of its "
                "output (set sparse_output=False in its parts, or sparse_threshold=0)",
            )
        if not hasattr(step, "feature_names_in_"):
            assumed.add(DENSE)
    return _nothing(
        "which columns go where is declared", " ".join(sorted(assumed)) or None
    )


def _is_sparse(step: Any) -> bool:
    """Whether a part may return a sparse matrix for a dense table."""
    if step is None or isinstance(step, str):
        return False
    inner = [part for _, part, _ in members(step)]
    if is_class(step, "Pipeline"):
        return _is_sparse(inner[-1]) if inner else False
    if is_class(step, "FeatureUnion"):
        return any(map(_is_sparse, inner))
    if is_class(step, "KBinsDiscretizer"):
        return bool(step.encode == "onehot")
    if is_class(step, "MissingIndicator"):
        return step.sparse is True
    if is_class(step, "HashingVectorizer", "FeatureHasher", "TfidfTransformer"):
        return True
    return bool(getattr(step, "sparse_output", not known(step)))


def members(container: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, part and columns of the parts of a container, fitted if it is."""
    if is_class(container, "ColumnTransformer"):
        fitted = getattr(container, "transformers_", None)
        if fitted is None:
            rest = ("remainder", container.remainder, ())
            fitted = [*container.transformers, rest]
        yield from fitted
    elif is_class(container, "FeatureUnion"):
        yield from ((name, part, None) for name, part in container.transformer_list)
    elif is_class(container, "Pipeline"):
        yield from ((name, part, None) for name, part in container.steps)


_CONTAINERS: dict[str, Callable[[Any], Verdict | None]] = {
    "ColumnTransformer": _columns,
    "FeatureUnion": _always("nothing", "all its parts get all columns"),
    "Pipeline": _always("nothing", "its steps follow each other"),
}

# -- the table -------------------------------------------------------------------------
_MEANS = _always("rows", "means and variances")
_EXTREMES = _always("rows", "extremes of its columns")
_QUANTILES = _always("rows", "quantiles of its columns")
_DIRECTIONS = _always("rows", "directions in which the rows vary")
_SELECTED = _always("target", "which columns go with the target")
_WORDS = _always("rows", "which words or keys occur")
_KEPT = _always("rows", "some of the rows, which it keeps")

#: By the class of scikit-learn; None for what a user's function decides.
_TABLE: dict[str, Callable[[Any], Verdict | None]] = {
    **_CONTAINERS,
    "AdditiveChi2Sampler": _always("nothing", "it is a fixed function of each value"),
    "Binarizer": _always("nothing", "the threshold is given"),
    "FeatureHasher": _hashing,
    "FrozenEstimator": _frozen,
    "FunctionTransformer": _function,
    "HashingVectorizer": _hashing,
    "MissingIndicator": _indicator,
    "Normalizer": _always("nothing", "it scales each row by itself"),
    "OneHotEncoder": _categories,
    "OrdinalEncoder": _categories,
    "PolynomialFeatures": _always("nothing", "powers and products are fixed"),
    "SimpleImputer": _imputer,
    "SplineTransformer": _knots,
    "GaussianRandomProjection": _projection,
    "SparseRandomProjection": _projection,
    "RBFSampler": _features_of_kernel,
    "SkewedChi2Sampler": _always(
        "nothing", "its directions are drawn without looking at values"
    ),
    "TfidfTransformer": _weights,
    # Learn from the rows.
    "KBinsDiscretizer": _always("rows", "extremes or quantiles of its columns"),
    "MaxAbsScaler": _EXTREMES,
    "MinMaxScaler": _EXTREMES,
    "PowerTransformer": _always("rows", "powers, means and variances"),
    "QuantileTransformer": _QUANTILES,
    "RobustScaler": _QUANTILES,
    "StandardScaler": _MEANS,
    "CountVectorizer": _WORDS,
    "DictVectorizer": _WORDS,
    "TfidfVectorizer": _WORDS,
    "IterativeImputer": _always("rows", "a regression of each column on the others"),
    "KNNImputer": _KEPT,
    "Nystroem": _KEPT,
    "KernelCenterer": _MEANS,
    "VarianceThreshold": _always("rows", "which columns vary"),
    **dict.fromkeys(
        [
            *("PCA", "IncrementalPCA", "KernelPCA", "SparsePCA", "MiniBatchSparsePCA"),
            *("TruncatedSVD", "FactorAnalysis", "FastICA", "NMF", "MiniBatchNMF"),
            *("DictionaryLearning", "MiniBatchDictionaryLearning"),
            *("LatentDirichletAllocation", "Isomap", "LocallyLinearEmbedding"),
            "BernoulliRBM",
        ],
        _DIRECTIONS,
    ),
    **dict.fromkeys(
        ["KMeans", "MiniBatchKMeans", "BisectingKMeans", "Birch"],
        _always("rows", "centres of groups of rows"),
    ),
    "FeatureAgglomeration": _always("rows", "which columns go together"),
    "RandomTreesEmbedding": _always("rows", "extremes of its columns"),
    # Learn from the target.
    **dict.fromkeys(
        [
            *("SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe"),
            *("GenericUnivariateSelect", "SelectFromModel", "RFE", "RFECV"),
            "SequentialFeatureSelector",
        ],
        _SELECTED,
    ),
    "TargetEncoder": _always("target", "means of the target for each value"),
    "_ConstantPredictor": _always("target", "that all rows have the same label"),
    **dict.fromkeys(
        [
            *("LinearDiscriminantAnalysis", "NeighborhoodComponentsAnalysis"),
            *("PLSRegression", "PLSCanonical", "PLSSVD", "CCA"),
        ],
        _always("target", "directions that go with the target"),
    ),
}


def is_class(step: Any, *names: str) -> bool:
    """Whether an object is of a class of scikit-learn of one of these names."""
    kind = type(step)
    return kind.__name__ in names and kind.__module__.split(".")[0] == "sklearn"


def is_encoder(step: Any) -> bool:
    """Whether an object is this package's encoder."""
    kind = type(step)
    place = kind.__module__.split(".")[0]
    return kind.__name__ == "DeclaredEncoder" and place == "skfdp"


def known(step: Any) -> bool:
    """Whether a step is in the table."""
    return is_encoder(step) or is_class(step, *_TABLE)


def is_container(step: Any) -> bool:
    """Whether a step consists of others, which the table must know too."""
    return is_class(step, *_CONTAINERS)


def verdict(step: Any) -> Verdict | None:
    """Return what a step learns, None if nobody knows.

    Parameters
    ----------
    step : transformer or estimator
        Its parts, if it has any, have verdicts of their own.
    """
    if is_encoder(step):
        return _encoding(step)
    if is_class(step, *_TABLE):
        return _TABLE[type(step).__name__](step)
    if type(step).__module__.split(".")[0] == "sklearn":
        tags = getattr(step, "__sklearn_tags__", None)
        if tags is not None and tags().estimator_type in ("classifier", "regressor"):
            return Verdict("target", "a model of the target, fitted without noise")
    return None
