"""Where a new user was misled: each test is named after the mishap."""

import inspect
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from problems import FITS
from sklearn.base import clone

import skfdp
from skfdp.data.grid import InputScaler, lazy_rows
from skfdp.schema import Category, Label, Number
from skfdp.solvers import Huber, NoisyGradientDescent, public_model
from skfdp.solvers import label_statistic as whitening
from skfdp.solvers import postprocessing as coefficient_noise

RNG = np.random.default_rng(0)


def told(category, call):
    """Return what a call warns of, by category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if issubclass(w.category, category)]


# -- bounds of some columns, and of none ----------------------------------------------
TABLE = np.column_stack([RNG.uniform(18, 90, 300), RNG.lognormal(8, 1, 300)])
BOTH = np.arange(300) % 2
EVERY = {n: clone(m).set_params(bounds=None, delta=1e-3) for n, m in FITS.items()}


def told_of_bounds(name, X, y, **options):
    model = clone(EVERY[name]).set_params(**options)
    found = told(skfdp.UtilityWarning, lambda: model.plan(X, y))
    return [one for one in found if one.startswith("bounds")]


@pytest.mark.parametrize("name", ["logistic", "regressor", "network", "centring"])
def test_private_columns_that_bounds_leave_out_are_named(name, small):
    X, y = small
    frame = pd.DataFrame(X, columns=list("abcd"))
    shared = {"public_features": ["a"]}
    (text,) = told_of_bounds(name, frame, y, bounds={"b": (0, 1)}, **shared)
    assert "do not cover 2 private column(s): 'c', 'd'; " in text
    assert "; declare them, (0, 1)" in text and text.endswith("column are ignored.")
    # Equal for all private values: names and bounds are public.
    frame.loc[:, "b":] = 1e9
    assert [text] == told_of_bounds(name, frame, y, bounds={"b": (0, 1)}, **shared)
    (text,) = told_of_bounds(name, np.tile(X, 5), y, bounds={0: (0, 1)})
    assert "do not cover 19 private column(s): 1, 2, 3, 4, 5, ...; " in text
    whole = {column: (0, 1) for column in "bcd"}
    assert not told_of_bounds(name, frame, y, bounds=whole, **shared)
    assert not told_of_bounds(name, frame, y, bounds=False, **shared)


@pytest.mark.parametrize("name", EVERY)
def test_newcomer_b_a_fit_without_bounds_says_what_to_expect(name):
    first = told(skfdp.UtilityWarning, lambda: clone(EVERY[name]).fit(TABLE, BOTH))[0]
    for said in (
        "expect no better than chance",
        "2 private column(s)",
        "a row with a missing value is ignored",
        *("bounds=(low, high)", "TableSchema", "private_bounds"),
    ):
        assert said in first


@pytest.mark.parametrize("name", EVERY)
def test_newcomer_b_scaled_columns_are_no_reason_to_warn(name):
    model = clone(EVERY[name]).set_params(bounds=False)
    found = told(Warning, lambda: model.fit(TABLE / 1e4, BOTH))
    assert not [one for one in found if "bounds" in one]


# -- F10: many categories -------------------------------------------------------------
N_LEVELS, N_ROWS = 3000, 60
TWO_STEPS = NoisyGradientDescent(max_iter=2)
ZIPS = pd.DataFrame(
    {"zip": RNG.integers(0, N_LEVELS, N_ROWS).astype(str), "age": RNG.random(N_ROWS)}
)
LABELS, NUMBERS = np.arange(N_ROWS) % 2, RNG.random(N_ROWS)
ZIP, TARGET = {"columns": ("zip",)}, {"target": True}
PUBLIC = ({}, ZIP, {"columns": ("zip", "age")}, TARGET, ZIP | TARGET)


def zip_schema(estimator, levels=N_LEVELS, columns=(), target=False, knots="auto"):
    """Return a schema with the outcome "y", of which some is public."""
    outcome = Number(0, 1, public=target)
    if estimator in (skfdp.DPSGDFClassifier, skfdp.FeatureDPLogisticRegression):
        outcome = Label([0, 1], public=target)
    zips = Category(list(map(str, range(levels))), public="zip" in columns)
    age = Number(0, 1, public="age" in columns, knots=knots)
    return skfdp.TableSchema({"age": age, "zip": zips, "y": outcome}, outcomes=["y"])


def peak_of_fit(estimator, X, y, **given):
    """Return what numpy holds at most during a fit, in bytes, and the model."""
    model = estimator(schema=zip_schema(estimator, **given), delta=1e-3)
    small = zip_schema(estimator, 3, **given)
    two = {} if small.public == small.features else {"solver": TWO_STEPS}
    for schema in (small, model.schema):  # compiles what the fit needs
        estimator(schema=schema, delta=1e-3, **two).fit(X, y)
    public_model._LAST.clear()
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1], model
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("estimator", "public"),
    [
        *((skfdp.FeatureDPLogisticRegression, one) for one in PUBLIC),
        (skfdp.DPSGDFClassifier, {}),
        (skfdp.FeatureDPRegressor, ZIP),
    ],
)
def test_f10_no_matrix_of_categories_by_categories(estimator, public):
    y = LABELS if "Regressor" not in estimator.__name__ else NUMBERS
    peak, model = peak_of_fit(estimator, ZIPS, y, **public)
    # Eight bytes for each pair of categories would be 72 MB; the rows are 1.5.
    assert peak < 8 * N_LEVELS**2 / 4
    n_columns = len(model.encoder_.get_feature_names_out())
    assert model.coef_noise_.std.shape == (1, n_columns + 1)
    assert np.isfinite(model.coefficients_table()["noise_std"]).all()


def test_f10_the_noise_of_many_categories_is_that_of_few(monkeypatch):
    own = zip_schema(skfdp.DPSGDFClassifier, 30, knots=5)
    given = {"schema": own, "random_state": 0}
    monkeypatch.setattr(coefficient_noise, "MOST_WEIGHTS", 0)  # the upper bound
    few = skfdp.DPSGDFClassifier(5.0, 1e-3, **given).fit(ZIPS, LABELS).coef_noise_
    monkeypatch.setattr(coefficient_noise, "MOST_ENTRIES", 0)
    many = skfdp.DPSGDFClassifier(5.0, 1e-3, **given).fit(ZIPS, LABELS).coef_noise_
    assert few.covariance.ndim == 3 and many.covariance.ndim == 2
    np.testing.assert_allclose(many.std, few.std, rtol=1e-12)


def test_f10_few_rows_of_many_columns_have_the_same_directions(monkeypatch):
    X = RNG.random((20, 40)) * np.linspace(1, 3, 40)
    rows = lazy_rows(X, InputScaler(shortens=False).mapped, 40)
    mean, shares = X.mean(axis=0), RNG.random(20) + 0.5
    exact = whitening._principal(rows, mean, shares)
    monkeypatch.setattr(whitening, "MOST_DIRECTIONS", 19)
    monkeypatch.setattr(whitening, "MOST_COLUMNS", 100)
    few = whitening._principal(rows, mean, shares)
    kept = exact[0] > 1e-9 * exact[0][0]
    variances, axes = exact[0][kept][:19], exact[1][:, kept][:, :19]
    np.testing.assert_allclose(few[0], variances, rtol=1e-9)
    np.testing.assert_allclose(few[1] @ few[1].T, axes @ axes.T, atol=1e-7)


# -- A2: Huber's threshold ------------------------------------------------------------
def costs(n, seed):
    """Return columns and a cost in euros with a heavy tail."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 4))
    y = np.exp(7.2 + 1.4 * X[:, 0] + 0.8 * X[:, 1] + 0.6 * rng.normal(size=n))
    return X, np.minimum(y, 100_000)


regressors = pytest.mark.parametrize(
    "estimator", [skfdp.FeatureDPRegressor, skfdp.DPSGDFRegressor]
)


@regressors
def test_newcomer_a2_the_default_threshold_is_in_spreads(estimator):
    (X, y), (X_new, y_new) = costs(8000, 0), costs(4000, 1)
    given = {"bounds": (0, 1), "target_bounds": (0, 100_000)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", skfdp.UtilityWarning)
        huber = estimator(2.0, loss="huber", **given).fit(X, y)
        squared = estimator(2.0, **given).fit(X, y)
    # It was -0.2, with a threshold of 1.35 euros.
    assert huber.score(X_new, y_new) > squared.score(X_new, y_new) - 0.06 > 0.1


@regressors
def test_newcomer_a2_the_threshold_follows_the_units_of_the_target(estimator):
    X, y = costs(500, 0)
    given = {"bounds": (0, 1), "loss": "huber", "epsilon": np.inf}
    euros = estimator(**given).fit(X, y)
    thousands = estimator(**given, alpha=1.0).fit(X, y / 1000)
    np.testing.assert_allclose(euros.coef_, 1000 * thousands.coef_, rtol=1e-3)


@regressors
def test_newcomer_a2_a_threshold_that_makes_an_absolute_loss_warns(estimator):
    X, y = costs(500, 0)
    given = {"bounds": (0, 1), "target_bounds": (0, 100_000)}
    model = estimator(1.0, loss=Huber(threshold=1.35), **given)
    for call in (lambda: model.fit(X, y), lambda: model.plan(X)):
        with pytest.warns(skfdp.UtilityWarning, match="threshold=1.35 .* of the width"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error", skfdp.UtilityWarning)
        estimator(5.0, loss=Huber(threshold=2000), **given).fit(X, y)


# -- A7: one relation by default, epsilon first ---------------------------------------
def test_newcomer_a7_every_estimator_has_the_same_default_relation():
    for model in EVERY.values():
        assert model.neighboring_relation == "replace_one"


def test_every_estimator_takes_epsilon_first():
    for model in EVERY.values():
        parameters = inspect.signature(type(model)).parameters.values()
        positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        assert positional in (["epsilon", "delta"], ["epsilon"])
