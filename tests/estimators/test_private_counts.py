"""Under add/remove nothing after the releases depends on the number of rows."""

import functools
import itertools
import pickle
import types
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import skfdp
from skfdp.bounds import PrivateBoundsRelease
from skfdp.data import target
from skfdp.mechanisms import release
from skfdp.mechanisms.release import add_integer_gaussian
from skfdp.privacy import AddOrRemoveOne
from skfdp.schema import Category, Date, Label, Number
from skfdp.solvers import NoisyGradientDescent, NoisySGD

LOOP = {"solver": NoisyGradientDescent(max_iter=2)}
# Fits whose exact sums are replaced: all that is left of a table is what leaks.
MANY = {"neighboring_relation": AddOrRemoveOne(60)}
OF_LABELS = {"classes": [0, 1], "bounds": (0, 1), **MANY}
OF_NUMBERS = {"target_bounds": (0, 3), "bounds": (0, 1), **MANY}
REGRESSION = itertools.product(
    (skfdp.DPSGDFRegressor, skfdp.FeatureDPRegressor),
    ("squared_error", "huber", "poisson"),
    ({}, {"alpha": 1.0}, {"fit_intercept": False}, {"epsilon": 0.1}, {"epsilon": 50.0}),
)
EVERY = {
    **{
        f"{loss}, {n_classes} classes": skfdp.DPSGDFClassifier(
            loss=loss, **OF_LABELS | {"classes": range(n_classes)}
        )
        for loss in ("log_loss", "hinge", "squared_hinge")
        for n_classes in (2, 3)
    },
    **{
        f"centering={centering}": skfdp.DPSGDFClassifier(
            centering=centering, **OF_LABELS
        )
        for centering in (None, "gaussian", "adaptive")
    },
    **{
        f"bounds={bounds}": skfdp.DPSGDFClassifier(**OF_LABELS | {"bounds": bounds})
        for bounds in ("private", False)
    },
    "balanced": skfdp.DPSGDFClassifier(class_weight="balanced", **OF_LABELS),
    "penalised": skfdp.DPSGDFClassifier(C=1.0, **OF_LABELS),
    "without an intercept": skfdp.DPSGDFClassifier(fit_intercept=False, **OF_LABELS),
    "a large budget": skfdp.DPSGDFClassifier(50.0, **OF_LABELS),
    "Poisson batches": skfdp.DPSGDFClassifier(solver=NoisySGD(max_iter=2), **OF_LABELS),
    "feature-DP": skfdp.FeatureDPLogisticRegression(**OF_LABELS),
    "network": skfdp.FeatureDPMLPClassifier(
        hidden_layer_sizes=4, solver=NoisySGD(max_iter=2), **OF_LABELS
    ),
    "transformer": skfdp.PrivateCenteringTransformer(bounds=(0, 1), **MANY),
    "bounds": PrivateBoundsRelease(**MANY),
    **{
        f"{kind.__name__}, {loss}, {more}": kind(loss=loss, **OF_NUMBERS, **more)
        for kind, loss, more in REGRESSION
    },
}
# Cells of one row, in every column.
ODD = ("x", "1", None, 1, 2.5, np.nan, True, b"b", [1], pd.Timestamp("2020-05-01"))
COLUMNS = {
    "age": Number(20, 80),
    "since": Date("2020-01-01", "2021-01-01"),
    "city": Category(["a", "b"]),
    "owner": Category([True, False]),
    "grade": Category([1, 2]),
}
RAW = {
    kind.__name__: kind(
        schema=skfdp.TableSchema({**COLUMNS, "y": outcome}, outcomes=["y"]),
        **LOOP,
        **MANY,
    )
    for kind, outcome in (
        (skfdp.DPSGDFClassifier, Label([0, 1])),
        (skfdp.DPSGDFRegressor, Number(0, 3)),
    )
}


def remembered(one, other, place="", seen=None):
    """Yield where two objects differ in memory: also in what pickles leave out."""
    seen = {} if seen is None else seen
    if one is other or (id(one), id(other)) in seen:
        return
    seen[id(one), id(other)] = one, other
    if type(one) is not type(other):
        yield f"{place}: type"
    elif isinstance(one, np.ndarray):
        facts = [(a.dtype, a.shape, a.strides) for a in (one, other)]
        texts = [repr(a.tolist()) for a in (one, other)]
        if facts[0] != facts[1] or texts[0] != texts[1]:
            yield f"{place}: array"
    elif isinstance(one, (dict, types.MappingProxyType)):
        if list(one) != list(other):
            yield f"{place}: keys {sorted(map(str, {*one} ^ {*other}))}"
        else:
            for key in one:
                yield from remembered(one[key], other[key], f"{place}.{key}", seen)
    elif isinstance(one, (list, tuple)):
        if len(one) != len(other):
            yield f"{place}: length"
        for number, pair in enumerate(zip(one, other, strict=False)):
            yield from remembered(*pair, f"{place}[{number}]", seen)
    elif hasattr(one, "__dict__") and not isinstance(one, type):
        yield from remembered(vars(one), vars(other), place, seen)
    elif repr(one) != repr(other):
        yield f"{place}: value"


def check_equal(make, tables, monkeypatch):
    """Check that results of equal releases are equal, in memory and pickled.

    Exact sums are replaced by the same numbers for every table.
    """

    def result_of(X, y):
        target._spelling_of.cache_clear()  # shared by all fits of this process
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return make(X, y), [str(one.message) for one in caught]

    for size in (0, 300):

        def answer(query, theta, *, noise_std, unit, generator, batch, size=size):
            drawn = np.random.default_rng(len(query.shape)).normal(size=query.shape)
            total = np.rint(size * noise_std / unit * drawn).astype(np.int64)
            return add_integer_gaussian(total, noise_std / unit, generator) * unit

        monkeypatch.setattr(release, "_noisy_sum", answer)
        fits = [result_of(*table) for table in tables]
        first, said = fits[0]
        for other, also_said in fits[1:]:
            assert list(remembered(first, other)) == [] and said == also_said
        # The first fit also fills caches of plans, and so shares fewer objects.
        texts = {pickle.dumps(found) for found, _ in fits[1:]}
        assert len(texts) == 1


def fit_of(model):
    return lambda X, y: clone(model).set_params(random_state=0).fit(X, y)


def tables_of(n_columns=3, kind=np.asarray):
    """Return two rows with labels twice, one of them, none, and many."""
    X, y = np.random.default_rng(0).random((1000, n_columns)), np.arange(1000) % 2
    return [(kind(X)[:n], y[:n]) for n in (2, 2, 1, 0, 1000)]


@pytest.mark.parametrize("name", EVERY)
def test_no_number_of_rows_changes_what_follows_from_the_releases(name, monkeypatch):
    check_equal(fit_of(EVERY[name]), tables_of(), monkeypatch)


@pytest.mark.parametrize("name", ["log_loss, 2 classes", "transformer"])
@pytest.mark.parametrize("wide", [False, True])
def test_no_number_of_sparse_or_wide_rows_does(name, wide, monkeypatch):
    kind = np.asarray if wide or name == "transformer" else csr_array
    tables = tables_of(400 if wide else 3, kind)
    check_equal(fit_of(EVERY[name]), tables, monkeypatch)


@pytest.mark.parametrize("name", RAW)
def test_no_number_of_raw_rows_and_no_cell_does(name, monkeypatch):
    usual = {"age": 30.0, "since": None, "city": None, "owner": 5, "grade": 5}
    rows = [usual, *(dict.fromkeys(COLUMNS, odd) for odd in ODD)]
    tables = [pd.DataFrame([usual, row]).astype(object) for row in rows]
    tables += [tables[0].iloc[:n] for n in (0, 1)]
    y = np.array([0, 1])
    check_equal(fit_of(RAW[name]), [(t, y[: len(t)]) for t in tables], monkeypatch)


@pytest.mark.parametrize("name", ["log_loss, 2 classes", "DPSGDFRegressor, huber, {}"])
def test_no_number_of_rows_changes_a_score(name, monkeypatch):
    tables, more = tables_of(), {"random_state": 0, **MANY}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = clone(EVERY[name]).fit(*tables[0])
    make = functools.partial(skfdp.private_score, model, epsilon=1.0, **more)
    check_equal(make, tables, monkeypatch)
