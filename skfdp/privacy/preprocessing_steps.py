"""Data dependence of scikit-learn's preprocessing steps.

For each class of steps a table lists what a fit learns, and from which input columns an
output column is computed. scikit-learn is not imported: a step is recognised by the
name and the module of its class, so that a user's class of the same name does not
match. The data dependence follows from the parameters of the step only, so it is the
same for all data.

Guarantees
----------
* If a step learns "nothing", its fitted state is a function of its parameters, of the
  names, types and number of columns and, where stated, of the number of records. Every
  row of its output is then a function of the same row of its input. Whether the step
  fails or warns may depend on any value, which is an assumption unless all its input
  columns are public.
* Steps that are not in the table, or that call a function written by a user, are
  unknown.
* Every value of an output column is a function of the same row's values in the columns
  that `sources` lists, and of the fitted state. For unknown steps `sources` is None.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import numbers
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.events import Assumption


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class StepDependence:
    """Data dependence of a Pipeline step that has no privacy report of its own.

    Attributes
    ----------
    step : str
        Name and class of the step.
    learns : {"nothing", "public columns", "rows", "target"}
        What the fitted state depends on. With "rows" or "target" the step learnt from
        private values without privacy.
    reason : str
        What the step learnt, or why it learns nothing.
    """

    step: str
    learns: str
    reason: str

    def __post_init__(self) -> None:
        known = ("nothing", "public columns", "rows", "target")
        checks.choice("learns", self.learns, known)

    @property
    def private(self) -> bool:
        """Whether the step learnt from private values without privacy."""
        return self.learns in ("rows", "target")


class Dependence(NamedTuple):
    """Data dependence of a step, and the assumptions behind it."""

    learns: str
    reason: str
    assumes: tuple[Assumption, ...] = ()


# Steps whose data dependence follows from their parameters.

#: Assumption about a step that may fail or warn because of one cell.
REFUSES = Assumption(
    "no_value_refused_or_warned_of",
    "No preprocessing step failed or warned because of a private value, such as a "
    "missing or undeclared one, which reveals one record (DeclaredEncoder never does).",
)
#: Assumption about a ColumnTransformer.
DENSE = Assumption(
    "table_dense",
    "ColumnTransformer was given a dense table; from a sparse one it learns whether "
    "many values differ from zero, unless sparse_threshold=0.",
)
KNOWN_TYPES = Assumption(
    "column_types_fixed",
    "The types of the columns, by which make_column_selector chooses, were fixed "
    "without looking at private values.",
)
_DRAWN = "its directions are drawn without looking at values"


_nothing = functools.partial(Dependence, "nothing")
_rows = functools.partial(Dependence, "rows")
_target = functools.partial(Dependence, "target")


def _rows_if(
    otherwise: str, *cases: tuple[Callable[[Any], Any], str]
) -> Callable[[Any], Dependence]:
    """Return a rule for steps that learn from the rows in some cases only.

    A case is a function of the step, and what a step learns for which it is true.
    `otherwise` says why any other step learns nothing.
    """
    return lambda step: next(
        (_rows(what) for learns, what in cases if learns(step)), _nothing(otherwise)
    )


_CATEGORIES = _rows_if(
    "all categories are given",  # as lists; "auto" has letters
    (
        lambda step: any(isinstance(one, str) for one in step.categories),
        "which values occur",
    ),
    (
        lambda step: (step.min_frequency, step.max_categories) != (None, None),
        "which values are frequent",
    ),
)


def _function(step: Any) -> Dependence | None:
    for function in (step.func, step.inverse_func):
        if function is not None and not (
            isinstance(function, np.ufunc)
            and (function.nin, function.nout, function.signature) == (1, 1, None)
            and getattr(np, function.__name__, None) is function
        ):
            return None  # not an elementwise NumPy function: it may combine rows
    if step.kw_args:
        return None
    if step.func is None:
        return _nothing("it returns values unchanged")
    return _nothing(f"it applies {step.func.__name__} to each value")


def _projection(step: Any) -> Dependence:
    size = Assumption(
        "n_records_public",
        f"The number of records, from which {type(step).__name__} takes its size, is "
        "public.",
    )
    return _nothing(_DRAWN, (size,) * (step.n_components == "auto"))


def _frozen(step: Any) -> Dependence | None:
    found = dependence(step.estimator)
    free = found is not None and found.learns == "nothing"
    # Otherwise its training rows are unknown.
    return found if free and not is_container(step.estimator) else None


def _hashing(step: Any) -> Dependence | None:
    custom = [getattr(step, name, None) for name in ("preprocessor", "tokenizer")]
    if custom != [None, None] or callable(getattr(step, "analyzer", None)):
        return None
    return _nothing("columns are numbered by a fixed hash function")


def _columns(step: Any) -> Dependence | None:
    assumed = {}
    for _, _, chosen in step.transformers:
        if not callable(chosen):
            continue
        if not is_class(chosen, "make_column_selector"):
            return None  # a user's function of the table
        if chosen.dtype_include is not None or chosen.dtype_exclude is not None:
            assumed[KNOWN_TYPES] = True
    if step.sparse_threshold > 0:
        if any(_is_sparse(part) for _, part in members(step)):
            return _rows(
                "whether many values differ from zero, which decides the type of its "
                "output (set sparse_output=False in its parts, or sparse_threshold=0)"
            )
        if not hasattr(step, "feature_names_in_"):
            assumed[DENSE] = True
    return _nothing("the columns of each part are declared", tuple(assumed))


#: Whether a step may return a sparse matrix for a dense table.
_SPARSE: dict[str, Callable[[Any], bool]] = {
    "FeatureUnion": lambda step: any(_is_sparse(part) for _, part in members(step)),
    "Pipeline": lambda step: _is_sparse(step.steps[-1][1]),
    "KBinsDiscretizer": lambda step: step.encode == "onehot",
    "MissingIndicator": lambda step: step.sparse is True,
    "TfidfTransformer": lambda step: True,
    **dict.fromkeys(["FeatureHasher", "HashingVectorizer"], lambda step: True),
}


def _is_sparse(step: Any) -> bool:
    if step is None or isinstance(step, str):
        return False
    if is_class(step, *_SPARSE):
        return _SPARSE[type(step).__name__](step)
    return bool(getattr(step, "sparse_output", not is_class(step, *_RULES)))


# The table: from which input columns an output column is computed, and what a fit
# learns.
#
# "named": an output column is computed from the columns that its name in
# get_feature_names_out contains. "all": it may be computed from all columns. "parts":
# the step contains other steps, which have their own entries.

_Rule = Dependence | Callable[[Any], Dependence | None]

#: Keys are names of scikit-learn classes. A rule returns None if the data dependence is
#: unknown, for example because the step calls a user's function.
_RULES: dict[str, tuple[str, _Rule]] = {
    "ColumnTransformer": ("parts", _columns),
    "FeatureUnion": ("parts", _nothing("all its parts get all columns")),
    "Pipeline": ("parts", _nothing("its steps follow each other")),
    "AdditiveChi2Sampler": ("named", _nothing("it is a fixed function of each value")),
    "Binarizer": ("named", _nothing("the threshold is given")),
    "FeatureHasher": ("all", _hashing),
    "FrozenEstimator": ("all", _frozen),
    "FunctionTransformer": ("named", _function),
    "HashingVectorizer": ("all", _hashing),
    "MissingIndicator": (
        "named",
        _rows_if(
            "it marks missing values in all columns",
            (
                lambda step: step.features != "all",
                "which columns have missing values (missing-only)",
            ),
        ),
    ),
    "Normalizer": ("all", _nothing("it scales each row by itself")),
    "OneHotEncoder": ("named", _CATEGORIES),
    "OrdinalEncoder": ("named", _CATEGORIES),
    "PolynomialFeatures": ("named", _nothing("powers and products are fixed")),
    "SimpleImputer": (
        "named",
        _rows_if(
            "the value that is filled in is given",
            (
                lambda step: step.strategy != "constant",
                "a typical value of each column",
            ),
            (
                lambda step: step.add_indicator,
                "which columns have missing values (add_indicator=True)",
            ),
            (
                lambda step: not step.keep_empty_features,
                "which columns have no value at all (keep_empty_features=False)",
            ),
        ),
    ),
    "SplineTransformer": (
        "named",
        _rows_if(
            "all knots are given",
            (
                lambda step: isinstance(step.knots, str) and step.knots == "uniform",
                "extremes of its columns",
            ),
            (lambda step: isinstance(step.knots, str), "quantiles of its columns"),
        ),
    ),
    "GaussianRandomProjection": ("all", _projection),
    "SparseRandomProjection": ("all", _projection),
    "RBFSampler": (
        "all",
        _rows_if(
            _DRAWN,
            (
                lambda step: not isinstance(step.gamma, numbers.Real),
                'the variance of the table (gamma="scale")',
            ),
        ),
    ),
    "SkewedChi2Sampler": ("all", _nothing(_DRAWN)),
    "TfidfTransformer": (
        "all",
        _rows_if(
            "it scales each row by itself",
            (lambda step: step.use_idf, "in how many rows each column is not zero"),
        ),
    ),
    # Learn from the rows.
    "KBinsDiscretizer": ("named", _rows("extremes or quantiles of its columns")),
    **dict.fromkeys(
        ["MaxAbsScaler", "MinMaxScaler"], ("named", _rows("extremes of its columns"))
    ),
    "PowerTransformer": ("named", _rows("powers, means and variances")),
    **dict.fromkeys(
        ["QuantileTransformer", "RobustScaler"],
        ("named", _rows("quantiles of its columns")),
    ),
    "StandardScaler": ("named", _rows("means and variances")),
    "VarianceThreshold": ("named", _rows("which columns vary")),
    **dict.fromkeys(
        ["CountVectorizer", "DictVectorizer", "TfidfVectorizer"],
        ("all", _rows("which words or keys occur")),
    ),
    "IterativeImputer": ("all", _rows("a regression of each column on the others")),
    **dict.fromkeys(
        ["KNNImputer", "Nystroem"], ("all", _rows("some of the rows, which it stores"))
    ),
    "KernelCenterer": ("all", _rows("means and variances")),
    "FeatureAgglomeration": ("all", _rows("which columns are similar")),
    "RandomTreesEmbedding": ("all", _rows("extremes of its columns")),
    **dict.fromkeys(
        [
            *("PCA", "IncrementalPCA", "KernelPCA", "SparsePCA", "MiniBatchSparsePCA"),
            *("TruncatedSVD", "FactorAnalysis", "FastICA", "NMF", "MiniBatchNMF"),
            *("DictionaryLearning", "MiniBatchDictionaryLearning", "BernoulliRBM"),
            *("LatentDirichletAllocation", "Isomap", "LocallyLinearEmbedding"),
        ],
        ("all", _rows("directions in which the rows vary")),
    ),
    **dict.fromkeys(
        ["KMeans", "MiniBatchKMeans", "BisectingKMeans", "Birch"],
        ("all", _rows("centres of groups of rows")),
    ),
    # Learn from the target.
    **dict.fromkeys(
        [
            *("SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe"),
            *("GenericUnivariateSelect", "SelectFromModel", "RFE", "RFECV"),
            "SequentialFeatureSelector",
        ],
        ("named", _target("which columns are related to the target")),
    ),
    "TargetEncoder": ("named", _target("means of the target for each value")),
    "_ConstantPredictor": ("all", _target("that all rows have the same label")),
    **dict.fromkeys(
        [
            *("LinearDiscriminantAnalysis", "NeighborhoodComponentsAnalysis"),
            *("PLSRegression", "PLSCanonical", "PLSSVD", "CCA"),
        ],
        ("all", _target("directions related to the target")),
    ),
}


def is_class(step: Any, *names: str, package: str = "sklearn") -> bool:
    """Whether an object's class is a class of a package with one of these names."""
    kind = type(step)
    return kind.__name__ in names and kind.__module__.split(".")[0] == package


def is_container(step: Any) -> bool:
    """Whether a step consists of other steps."""
    return is_class(step, "ColumnTransformer", "FeatureUnion", "Pipeline")


def members(container: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and step of each part of a container.

    If the container is fitted, these are the fitted steps.
    """
    if is_class(container, "ColumnTransformer"):
        listed = [*container.transformers, ("remainder", container.remainder, ())]
        listed = getattr(container, "transformers_", listed)
        yield from ((name, part) for name, part, _ in listed)
    elif is_container(container):
        union = is_class(container, "FeatureUnion")
        yield from container.transformer_list if union else container.steps


def dependence(step: Any) -> Dependence | None:
    """Return the data dependence of a step itself; None if it is unknown.

    The steps inside a container are not considered.
    """
    if is_class(step, "DeclaredEncoder", package="skfdp"):
        return _nothing("bounds, categories and knots are declared")
    if is_class(step, *_RULES):
        _, rule = _RULES[type(step).__name__]
        found = rule if isinstance(rule, Dependence) else rule(step)
        passes_all = is_container(step) or is_class(step, "FrozenEstimator")
        if is_class(step, "FunctionTransformer"):
            passes_all = step.func is None and not step.validate
        if found is None or found.learns != "nothing" or passes_all:
            return found
        return found._replace(assumes=(*found.assumes, REFUSES))
    if type(step).__module__.split(".")[0] == "sklearn":
        tags = getattr(step, "__sklearn_tags__", None)
        if tags is not None and tags().estimator_type in ("classifier", "regressor"):
            return _target("a model of the target, fitted without noise")
    return None


# The input columns from which the output columns of a step are computed.

#: For every output column, the positions of the input columns it is computed from.
Sources = tuple[frozenset[int], ...]
# Largest number of columns of a table whose columns are traced.
_WIDEST = 20_000


def sources(step: Any, n_features: int) -> Sources | None:
    """Return the input columns behind each output column of a fitted step.

    The step is a transformer, "passthrough", "drop" or None, with `n_features` input
    columns. The result is None if unknown.
    """
    same = tuple(frozenset({j}) for j in range(n_features))
    if step is None or isinstance(step, str):
        return () if step == "drop" else same
    known = is_container(step) or dependence(step) is not None
    if n_features > _WIDEST or not known:
        return None
    if getattr(step, "n_features_in_", n_features) != n_features:
        return None
    try:
        if is_class(step, "DeclaredEncoder", package="skfdp"):
            names = list(step.feature_names_in_)
            places = [names.index(name) for name in step.schema.features]
            found: Sources | None = tuple(
                frozenset({places[block.parent]})
                for block in step.blocks_
                for _ in block.levels
            )
        elif is_container(step):
            found = _of_parts(step, same)
        elif is_class(step, "FunctionTransformer"):
            found = same
        else:
            found = _by_names(step, n_features)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # not fitted, or from another version of scikit-learn
    return None if found is None or len(found) > _WIDEST else found


def _by_names(step: Any, n_features: int) -> Sources:
    """Trace columns by name: mark input names, and find the marks in output names."""
    mark = secrets.token_hex(8)  # random, so that no category contains it
    given = np.array([f"{mark}{j}." for j in range(n_features)], dtype=object)
    step = copy.copy(step)
    vars(step).pop("feature_names_in_", None)
    names = step.get_feature_names_out(given)
    everything = frozenset(range(n_features))
    kind, _ = _RULES[type(step).__name__]
    # A user's function may return any output names.
    if kind != "named" or callable(getattr(step, "feature_name_combiner", None)):
        return (everything,) * len(names)
    constant = {"1": frozenset[int]()}  # the constant column of PolynomialFeatures
    return tuple(
        frozenset(map(int, re.findall(rf"{mark}(\d+)\.", name)))
        or constant.get(name, everything)
        for name in names
    )


def _of_parts(step: Any, same: Sources) -> Sources | None:
    found: list[frozenset[int]] = []
    if is_class(step, "Pipeline"):
        through: Sources | None = same
        for _, part in members(step):
            through = through and _then(through, sources(part, len(through)))
        return through
    places = getattr(step, "output_indices_", {})  # of a ColumnTransformer
    for name, part in members(step):
        if name in places and places[name].stop == places[name].start:
            continue
        before = columns_of(step, name, same)
        own = _then(before, sources(part, len(before)))
        if own is None:
            return None
        start = len(found)
        found += own
        if places and places[name] != slice(start, len(found)):
            return None
    return tuple(found)


def columns_of(step: Any, name: str, columns: Sequence[Any]) -> tuple[Any, ...]:
    """Return the entries of `columns` that a container passes to one of its parts."""
    if not is_class(step, "ColumnTransformer"):
        return tuple(columns)
    return tuple(columns[j] for j in step._transformer_to_input_indices[name])


def _then(first: Sources, second: Sources | None) -> Sources | None:
    """Compose the sources of two consecutive steps; None if `second` is None."""
    if second is None:
        return None
    return tuple(frozenset().union(*(first[j] for j in one)) for one in second)
