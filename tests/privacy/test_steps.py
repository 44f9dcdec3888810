"""The table of steps: what it says of each is what fitting it shows."""

import copy
import importlib
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    StandardScaler,
)

from skfdp import DeclaredEncoder, TableSchema
from skfdp.privacy import preprocessing_steps as steps
from skfdp.privacy.preprocessing_steps import sources
from skfdp.schema import Number

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning",
    "ignore::RuntimeWarning",
    f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning",
)
MODULES = """
    cluster compose cross_decomposition decomposition discriminant_analysis ensemble
    feature_extraction feature_extraction.text feature_selection impute
    kernel_approximation manifold neighbors neural_network pipeline preprocessing
    random_projection
""".split()
N = 40
OLD = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)


def numbers():
    rng = np.random.default_rng(0)
    return rng.uniform(0.1, 0.9, (N, 3)), np.arange(N) % 2


def neighbours():
    """Yield tables of numbers that differ from the first in one record."""
    for row in ([99.0, 50.0, 80.0], [-5.0, 0.3, 0.2], [0.0, 0.0, 0.0]):
        other, y = numbers()
        other[7] = row
        yield other, y


def codes(low=0):
    return np.random.default_rng(0).integers(low, 3, (N, 3))


KNOTS = np.linspace(0, 1, 4)[:, None] * np.ones(3)
GIVEN = {"categories": [[0, 1, 2]] * 3}
IGNORE = {"handle_unknown": "ignore", "sparse_output": False}
ENCODED = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
CONSTANT = {"strategy": "constant", "fill_value": 0.0, "keep_empty_features": True}


def steps_in_columns(**changes):
    given = {"remainder": "drop", "sparse_threshold": 0} | changes
    parts = [("a", Binarizer(), [1]), ("b", "passthrough", slice(0, 2))]
    return ColumnTransformer(parts, **given)


#: Instances that learn nothing: name of the class, how to make it.
NOTHING = [
    ("AdditiveChi2Sampler", {}),
    ("Binarizer", {"threshold": 0.3}),
    ("FunctionTransformer", {}),
    ("FunctionTransformer", {"func": np.cbrt}),
    ("FunctionTransformer", {"func": np.log}),
    ("FunctionTransformer", {"validate": True}),
    ("MissingIndicator", {"features": "all"}),
    ("Normalizer", {}),
    ("OneHotEncoder", GIVEN | IGNORE),
    ("OneHotEncoder", GIVEN | IGNORE | {"drop": "first"}),
    ("OneHotEncoder", GIVEN | {"handle_unknown": "warn"}),
    ("OneHotEncoder", GIVEN | IGNORE | {"drop": "if_binary"}),
    ("OneHotEncoder", GIVEN | IGNORE | {"drop": [0, 1, 2]}),
    ("OneHotEncoder", GIVEN | {"handle_unknown": "infrequent_if_exist"}),
    ("OrdinalEncoder", GIVEN | ENCODED),
    ("PolynomialFeatures", {}),
    ("SimpleImputer", CONSTANT),
    ("SimpleImputer", CONSTANT | {"fill_value": None}),
    ("SplineTransformer", {"knots": KNOTS}),
    ("SplineTransformer", {"knots": KNOTS, "extrapolation": "linear"}),
    ("GaussianRandomProjection", {"n_components": 2, "random_state": 0}),
    ("SparseRandomProjection", {"n_components": 2, "random_state": 0}),
    ("RBFSampler", {"gamma": 0.5, "n_components": 4, "random_state": 0}),
    ("SkewedChi2Sampler", {"n_components": 4, "random_state": 0, "skewedness": 9}),
    ("TfidfTransformer", {"use_idf": False}),
    ("ColumnTransformer", steps_in_columns),
    ("FeatureUnion", {"transformer_list": [("a", Binarizer()), ("b", "passthrough")]}),
    ("Pipeline", {"steps": [("a", Binarizer()), ("b", FunctionTransformer())]}),
]
#: Instances that learn, and from what.
ROWS = [
    ("OneHotEncoder", {}),
    ("OneHotEncoder", GIVEN | IGNORE | {"min_frequency": 15}),
    ("OneHotEncoder", GIVEN | IGNORE | {"max_categories": 2}),
    ("OrdinalEncoder", {}),
    ("OrdinalEncoder", GIVEN | ENCODED | {"max_categories": 2}),
    ("MissingIndicator", {}),
    ("SimpleImputer", {}),
    ("SimpleImputer", {"strategy": "most_frequent"}),
    ("SimpleImputer", CONSTANT | {"add_indicator": True}),
    pytest.param(
        "SimpleImputer",
        CONSTANT | {"keep_empty_features": False},
        marks=pytest.mark.skipif(OLD, reason="scikit-learn kept them up to 1.7"),
    ),
    ("SplineTransformer", {}),
    ("SplineTransformer", {"knots": "quantile"}),
    ("RBFSampler", {"gamma": "scale", "random_state": 0}),
    ("TfidfTransformer", {}),
    ("Nystroem", {"n_components": N, "random_state": 0}),
    ("KBinsDiscretizer", {}),
    ("KBinsDiscretizer", {"strategy": "uniform"}),
]
TARGET = [
    ("SelectFromModel", {"estimator": LogisticRegression()}),
    ("RFE", {"estimator": LogisticRegression()}),
    ("RFECV", {"estimator": LogisticRegression(), "cv": 2}),
    ("SequentialFeatureSelector", {"estimator": LogisticRegression(C=100), "cv": 2}),
    ("TargetEncoder", {"target_type": "binary"}),
]
#: What a number of components is for the rest, and other settings that save time.
SMALL = {"n_components": 1, "max_iter": 5, "n_iter": 2, "n_clusters": 3, "cv": 2}
SMALL |= {"n_estimators": 3}
POSITIVE = {
    *("AdditiveChi2Sampler", "LatentDirichletAllocation", "MiniBatchNMF", "NMF"),
    "SkewedChi2Sampler",
}
#: Of `ROWS`, which holds marks too.
LISTED = {"Nystroem", "KBinsDiscretizer"}
CIRCULAR = ("root_", "dummy_leaf_")  # of Birch
#: Known by their documentation: their input is text, dictionaries or kernels, or nobody
#: puts them into a Pipeline.
ELSEWHERE = {
    *("CountVectorizer", "DictVectorizer", "TfidfVectorizer", "HashingVectorizer"),
    *("FeatureHasher", "KernelCenterer", "FrozenEstimator", "_ConstantPredictor"),
}


def class_of(name):
    modules = [importlib.import_module(f"sklearn.{module}") for module in MODULES]
    return next(getattr(one, name) for one in modules if hasattr(one, name))


def made(name, given):
    return given() if callable(given) else class_of(name)(**given)


def rest_of_the_table():
    named = {name for name, _ in [*NOTHING, *TARGET]} | ELSEWHERE | LISTED
    for name in sorted(set(steps._RULES) - named):
        step = class_of(name)()
        known = step.get_params()
        small = {key: value for key, value in SMALL.items() if key in known}
        if "random_state" in known:
            small["random_state"] = 0
        yield name, small


REST = list(rest_of_the_table())


def tables(name, given):
    """Yield a table and its neighbours, of the kind that a step takes."""
    X, y = numbers()
    others = [other for other, _ in neighbours()]
    if name in ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"):
        X, others = codes(), []
        for row in ([7, 8, 9], [0, 0, 0], [2, 2, 2]):
            other = X.copy()
            other[7] = row
            others.append(np.minimum(other, 2) if "max_categories" in given else other)
    elif name in ("MissingIndicator", "SimpleImputer"):
        X[:, 2] = np.nan
        others = [X.copy() for _ in range(3)]
        rows = [np.nan, 0.5, np.nan], [0.1, 0.2, 0.3], [9.0, 9.0, np.nan]
        for other, row in zip(others, rows, strict=True):
            other[7] = row
    elif name in POSITIVE:
        others = [np.abs(other) for other in others]
    yield from ((table, y) for table in (X, *others))
    yield others[-1], np.where(np.arange(N) == 7, 1 - y, y)


def state(step):
    """Return all that a fit left, in a form that can be compared."""
    parameters = set(step.get_params(deep=False)) if hasattr(step, "get_params") else ()
    found = {}
    for key, value in sorted(vars(step).items()):
        nested = key in ("transformer_list", "steps")
        if (key not in parameters or nested) and key not in CIRCULAR:
            found[key] = plain(value)
    return found


def plain(value):
    if isinstance(value, BaseEstimator):
        return type(value).__name__, state(value)
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if sparse.issparse(value):
        return plain(value.toarray())
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, [repr(one) for one in value.ravel()]
    if hasattr(value, "__dict__") and not callable(value):
        return {key: plain(one) for key, one in vars(value).items()}
    if hasattr(value, "c") and hasattr(value, "t"):  # a spline
        return plain([value.t, value.c, value.k])
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text


def fitted(name, given, X, y):
    return made(name, given).fit(X, y)


def told(one):
    """Return the id of a case: the same in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(one))[:60]


@pytest.mark.parametrize(("name", "given"), NOTHING, ids=told)
class TestLearnsNothing:
    def test_the_table_says_so(self, name, given):
        assert steps.dependence(made(name, given)).learns == "nothing"

    def test_it_fails_and_warns_as_the_report_assumes(self, name, given):
        """A step assumes that no value is refused, unless it passes every value on."""
        (X, y), *_ = tables(name, given)
        step, failed = made(name, given), []
        if steps.is_container(step):
            return  # its parts have their own assumptions
        for odd in (X[7, 1], np.nan, np.inf, -5.0, 7, "x"):
            other = X.astype(object if isinstance(odd, str) else float)
            other[7, 1] = odd
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    fitted(name, given, other, y).transform(other)
                except Exception:
                    failed.append(odd)
        assert X[7, 1] not in failed
        assert bool(failed) == (steps.REFUSES in steps.dependence(step).assumes)

    def test_its_state_is_that_of_all_neighbours(self, name, given):
        first, *others = (fitted(name, given, *table) for table in tables(name, given))
        assert len(others) >= 3
        for other in others:
            assert state(other) == state(first)

    def test_it_works_row_by_row(self, name, given):
        (X, y), *others = tables(name, given)
        kept = np.arange(N) != 7
        step = fitted(name, given, X, y)
        rows = dense(step.transform(X))[kept]
        for other, labels in others:
            again = fitted(name, given, other, labels)
            np.testing.assert_array_equal(dense(again.transform(other))[kept], rows)

    def test_columns_come_from_where_it_says(self, name, given):
        """A change of one column changes no other column behind it than named."""
        (X, y), *_ = tables(name, given)
        step = fitted(name, given, X, y)
        found = sources(step, X.shape[1])
        before = dense(step.transform(X))
        assert len(found) == before.shape[1]
        for column in range(X.shape[1]):
            other = X.copy()
            other[:, column] = other[::-1, column]
            after = dense(step.transform(other))
            changed = ~np.all((before == after) | np.isnan(before), axis=0)
            named = np.array([column in one for one in found])
            assert not np.any(changed & ~named)


def dense(found):
    return found.toarray() if sparse.issparse(found) else np.asarray(found)


def learns(name, given):
    """Return whether a change of a row changes what is learnt, and one of a label."""
    first, *others, moved, relabelled = (
        state(fitted(name, given, *table)) for table in tables(name, given)
    )
    return any(one != first for one in [*others, moved]), relabelled != moved


@pytest.mark.parametrize(("name", "given"), ROWS, ids=told)
def test_steps_that_learn_from_rows(name, given):
    assert steps.dependence(made(name, given)).learns == "rows"
    assert learns(name, given) == (True, False)


@pytest.mark.parametrize(("name", "given"), TARGET, ids=told)
def test_steps_that_learn_from_the_target(name, given):
    assert steps.dependence(made(name, given)).learns == "target"
    assert learns(name, given)[1]


@pytest.mark.parametrize(("name", "given"), REST, ids=told)
def test_the_rest_of_the_table_learns(name, given):
    found = steps.dependence(made(name, given)).learns
    assert learns(name, given) == (True, found == "target")


def test_a_class_of_the_same_name_is_not_believed():
    class OneHotEncoder(BaseEstimator):
        categories = [[0, 1]]
        min_frequency = max_categories = None

    class DeclaredEncoder(BaseEstimator):
        pass

    assert steps.dependence(OneHotEncoder()) is None
    assert steps.dependence(DeclaredEncoder()) is None


class Binned(KBinsDiscretizer):
    """A user's own."""


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(lambda X: X - np.mean(X, axis=0)),
        FunctionTransformer(np.cumsum),
        FunctionTransformer(np.frompyfunc(float, 1, 1)),
        FunctionTransformer(np.add, kw_args={"out": None}),
        FunctionTransformer(np.log, inverse_func=lambda X: X),
        ColumnTransformer([("a", "passthrough", lambda X: [int(X[0, 0] > 0)])]),
        Binned(),
    ],
    ids=told,
)
def test_what_a_user_wrote_is_unknown(step):
    assert steps.dependence(step) is None
    assert sources(step.fit(numbers()[0]), 3) is None or isinstance(
        step, ColumnTransformer
    )


def test_models_of_the_target():
    assert steps.dependence(LogisticRegression()).learns == "target"
    frozen = FrozenEstimator(LogisticRegression().fit(*numbers()))
    assert steps.dependence(frozen) is None
    frozen = FrozenEstimator(FunctionTransformer(np.log))
    assert steps.dependence(frozen).learns == "nothing"


class TestColumnTransformers:
    FRAME = pd.DataFrame({"a": [0.0, 0.0, 1.0], "b": ["x", "y", "x"]})
    ONE_HOT = {"categories": [["x", "y", "z"]], "handle_unknown": "ignore"}

    def fitted(self, table, sparse_output=True, **changes):
        one_hot = OneHotEncoder(sparse_output=sparse_output, **self.ONE_HOT)
        parts = [("a", one_hot, ["b"]), ("b", "passthrough", ["a"])]
        return ColumnTransformer(parts, **changes).fit(table)

    def test_the_type_of_the_output_depends_on_values(self):
        changes = {"sparse_threshold": 0.45}
        other = self.FRAME.assign(b=["x", "y", "?"])
        kinds = [self.fitted(t, **changes).sparse_output_ for t in (self.FRAME, other)]
        assert kinds == [False, True]
        assert steps.dependence(self.fitted(self.FRAME, **changes)).learns == "rows"
        for fixed in ({"sparse_threshold": 0}, {"sparse_output": False}):
            found = steps.dependence(self.fitted(self.FRAME, **fixed))
            assert (found.learns, found.assumes) == ("nothing", ())

    def test_the_last_step_of_a_pipeline_decides_whether_it_is_sparse(self):
        one_hot = OneHotEncoder(**self.ONE_HOT)
        dense = FunctionTransformer()
        for inner, expected in (
            ([dense, one_hot], "rows"),
            ([one_hot, dense], "nothing"),
        ):
            step = ColumnTransformer([("a", make_pipeline(*inner), ["b"])])
            found = steps.dependence(step.fit(self.FRAME))
            assert found.learns == expected

    def test_an_array_may_have_been_sparse(self):
        table = sparse.csr_array(np.eye(3)), np.eye(3) + 1
        parts = [("all", "passthrough", [0, 1])]
        first, second = (ColumnTransformer(parts).fit(t) for t in table)
        assert steps.dependence(first).assumes == steps.dependence(second).assumes
        assert steps.dependence(first).assumes == (steps.DENSE,)
        fixed = ColumnTransformer(parts, sparse_threshold=0)
        assert steps.dependence(fixed.fit(np.eye(3))).assumes == ()

    @pytest.mark.parametrize(
        ("given", "assumes"),
        [({"pattern": "a"}, ()), ({"dtype_include": "number"}, (steps.KNOWN_TYPES,))],
        ids=told,
    )
    def test_selectors(self, given, assumes):
        chosen = make_column_selector(**given)
        step = ColumnTransformer([("a", "passthrough", chosen)]).fit(self.FRAME)
        assert steps.dependence(step).assumes == assumes
        assert sources(step, 2) == ({0},)


@pytest.mark.parametrize(
    "chosen",
    ["c", 2, -1, ["c"], [2], [-1], slice(2, 3), slice("c", "c"), [False, False, True]],
    ids=told,
)
def test_every_way_to_choose_columns(chosen):
    frame = pd.DataFrame(np.eye(4, 3), columns=list("abc"))
    scalar = isinstance(chosen, str | int)
    step = FunctionTransformer(lambda X: X) if scalar else StandardScaler()
    encoder = ColumnTransformer([("x", step if not scalar else "drop", chosen)])
    encoder.set_params(remainder="passthrough").fit(frame)
    expected = ({0}, {1}) if scalar else ({2}, {0}, {1})
    assert sources(encoder, 3) == expected


def test_names_that_a_user_gives_are_not_believed():
    step = OneHotEncoder(
        feature_name_combiner=lambda name, value: f"x0_{value}", **GIVEN | IGNORE
    )
    assert sources(step.fit(codes()), 3) == ({0, 1, 2},) * 9


def test_parts_of_parts_are_followed():
    inner = make_pipeline(FeatureUnion([("a", Binarizer()), ("b", "passthrough")]))
    step = ColumnTransformer([("x", inner, [2, 0])], remainder="passthrough")
    step.fit(numbers()[0])
    assert sources(step, 3) == ({2}, {0}, {2}, {0}, {1})
    moved = {"x": slice(1, 5), "remainder": slice(0, 1)}
    assert step.output_indices_.keys() == moved.keys()
    other = copy.copy(step)
    other.output_indices_ = moved  # as if it returned the remainder first
    assert sources(other, 3) is None
    assert sources(Pipeline([("a", step), ("b", step)]), 3) is None
    assert len(sources(StandardScaler().fit(np.eye(300)), 300)) == 300


def test_the_encoder_learns_nothing_and_its_blocks_are_followed():
    # in another order than in the table
    columns = dict.fromkeys("bca", Number(0, 1, knots=3))
    encoder = DeclaredEncoder(TableSchema(columns))
    assert steps.dependence(encoder).learns == "nothing"
    X = pd.DataFrame(numbers()[0], columns=list("abc"))
    encoder.fit(X)
    kept = np.arange(N) != 7
    before = encoder.transform(X)
    for other, _ in neighbours():
        other = pd.DataFrame(other, columns=list("abc"))
        again = clone(encoder).fit(other)
        assert state(again) == state(encoder)
        np.testing.assert_array_equal(again.transform(other)[kept], before[kept])
    found = sources(encoder, 3)
    assert len(found) == before.shape[1]
    assert {*found} == {frozenset({j}) for j in range(3)}
    for j, name in enumerate("abc"):
        other = X.assign(**{name: X[name].to_numpy()[::-1]})
        changed = np.any(encoder.transform(other) != before, axis=0)
        named = np.array([j in one for one in found])
        assert changed.any() and not np.any(changed & ~named)
