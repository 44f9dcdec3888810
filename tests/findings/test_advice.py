"""Findings on advice, on defaults that mislead, and on many categories."""

import ast
import re
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    TableSchema,
    UtilityWarning,
)
from skfdp.data._basis import Smoothing
from skfdp.data.input_scaler import InputScaler, PublicRows
from skfdp.schema import Category, Label, Number
from skfdp.solvers import Huber, NoisyGradientDescent, NoisySGD, whitening
from skfdp.solvers import postprocessing as coefficient_noise

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)


# -- F10: many categories -------------------------------------------------------------
N_LEVELS, N_ROWS = 3000, 60
TWO_STEPS = NoisyGradientDescent(max_iter=2)
ZIPS = pd.DataFrame(
    {"zip": RNG.integers(0, N_LEVELS, N_ROWS).astype(str), "age": RNG.random(N_ROWS)}
)
LABELS, NUMBERS = np.arange(N_ROWS) % 2, RNG.random(N_ROWS)
PUBLIC = {
    "private": {},
    "public": {"columns": ("zip",)},
    "label": {"columns": ("zip", "age")},
    "target": {"target": True},
    "public and target": {"columns": ("zip",), "target": True},
}


def zip_schema(
    estimator, levels=N_LEVELS, columns=(), target=False, knots="auto", **more
):
    """Return a schema with the outcome "y", of which some is public."""
    outcome = Number(0, 1, public=target)
    if estimator in (DPSGDFClassifier, FeatureDPLogisticRegression):
        outcome = Label([0, 1], public=target)
    zips = Category(list(map(str, range(levels))), public="zip" in columns)
    age = Number(0, 1, public="age" in columns, knots=knots)
    return TableSchema({"age": age, "zip": zips, "y": outcome}, outcomes=["y"], **more)


def peak_of_fit(estimator, X, y, **given):
    """Return what numpy holds at most during a fit, in bytes, and the model."""
    model = estimator(schema=zip_schema(estimator, **given), delta=1e-3)
    small = zip_schema(estimator, 3, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two = {} if small.public == small.features else {"solver": TWO_STEPS}
        estimator(schema=small, delta=1e-3, **two).fit(X, y)
        tracemalloc.start()
        try:
            model.fit(X, y)
            return tracemalloc.get_traced_memory()[1], model
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("estimator", "public"),
    [
        *[
            pytest.param(one, name, marks=marks)
            for one, marks in (
                (FeatureDPLogisticRegression, ()),
                (FeatureDPRegressor, pytest.mark.nightly),
            )
            for name in PUBLIC
        ],
        (DPSGDFClassifier, "private"),
        (DPSGDFRegressor, "private"),
    ],
)
def test_f10_no_matrix_of_categories_by_categories(estimator, public):
    y = LABELS if "Regressor" not in estimator.__name__ else NUMBERS
    peak, model = peak_of_fit(estimator, ZIPS, y, **PUBLIC[public])
    # Eight bytes for each pair of categories would be 72 MB; the rows are 1.5.
    assert peak < 8 * N_LEVELS**2 / 4
    n_columns = len(model.encoder_.get_feature_names_out())
    assert model.coef_noise_.std.shape == (1, n_columns + 1)
    assert np.isfinite(model.coefficients_table()["noise_std"]).all()


def test_f10_the_noise_of_many_categories_is_that_of_few(monkeypatch):
    given = {"schema": zip_schema(DPSGDFClassifier, 30, knots=5), "random_state": 0}
    monkeypatch.setattr(coefficient_noise, "MOST_WEIGHTS", 0)  # the upper bound
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = DPSGDFClassifier(5.0, 1e-3, **given).fit(ZIPS, LABELS).coef_noise_
        monkeypatch.setattr(coefficient_noise, "MOST_ENTRIES", 0)
        many = DPSGDFClassifier(5.0, 1e-3, **given).fit(ZIPS, LABELS).coef_noise_
    assert few.covariance.ndim == 3
    assert many.covariance.ndim == 2
    np.testing.assert_allclose(many.std, few.std, rtol=1e-12)


def test_f10_variances_of_smooth_weights_are_squares_of_the_map():
    schema = zip_schema(DPSGDFClassifier, 5, knots=6)
    smoothing = Smoothing(schema.blocks(), np.inf, 10**6)
    variances = RNG.random((2, smoothing.n_columns))
    L = smoothing.weights(np.eye(smoothing.n_columns))
    np.testing.assert_allclose(smoothing.weights(variances, power=2), variances @ L**2)


def test_f10_few_rows_of_many_columns_have_the_same_directions(monkeypatch):
    X = RNG.random((20, 40)) * np.linspace(1, 3, 40)
    rows, mean = (
        PublicRows(X, np.ones(40, dtype=bool), InputScaler(shortens=False)),
        X.mean(axis=0),
    )
    shares = RNG.random(20) + 0.5
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


@pytest.mark.parametrize("estimator", [FeatureDPRegressor, DPSGDFRegressor])
def test_newcomer_a2_the_default_threshold_is_in_spreads(estimator):
    (X, y), (X_new, y_new) = costs(8000, 0), costs(4000, 1)
    given = {"bounds": (0, 1), "target_bounds": (0, 100_000)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        huber = estimator(2.0, loss="huber", **given).fit(X, y)
        squared = estimator(2.0, **given).fit(X, y)
    # It was -0.2, with a threshold of 1.35 euros.
    assert huber.score(X_new, y_new) > squared.score(X_new, y_new) - 0.06 > 0.1


@pytest.mark.parametrize("estimator", [FeatureDPRegressor, DPSGDFRegressor])
def test_newcomer_a2_the_threshold_follows_the_units_of_the_target(estimator):
    X, y = costs(500, 0)
    given = {"bounds": (0, 1), "loss": "huber", "epsilon": np.inf}
    euros = estimator(**given).fit(X, y)
    thousands = estimator(**given, alpha=1.0).fit(X, y / 1000)
    np.testing.assert_allclose(euros.coef_, 1000 * thousands.coef_, rtol=1e-3)


@pytest.mark.parametrize("estimator", [FeatureDPRegressor, DPSGDFRegressor])
def test_newcomer_a2_a_threshold_that_makes_an_absolute_loss_warns(estimator):
    X, y = costs(500, 0)
    given = {"bounds": (0, 1), "target_bounds": (0, 100_000)}
    says = "threshold=1.35 is below a thousandth of the width"
    with pytest.warns(UtilityWarning, match=says):
        estimator(1.0, loss=Huber(threshold=1.35), **given).fit(X, y)
    with pytest.warns(UtilityWarning, match=says):  # of parameters alone
        estimator(1.0, loss=Huber(threshold=1.35), **given).plan(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        estimator(5.0, loss=Huber(threshold=2000), **given).fit(X, y)


@pytest.mark.parametrize("given", [{"public_target": True}, {"epsilon": np.inf}])
def test_newcomer_a2_without_target_bounds_the_exact_spread_counts(given):
    X, y = costs(500, 0)
    model = FeatureDPRegressor(bounds=(0, 1), loss=Huber(threshold=1.35), **given)
    with pytest.warns(UtilityWarning, match="below a hundredth of the target's spread"):
        model.fit(X, y)


# -- A3: the extra of the documentation -----------------------------------------------
@pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="no checkout")
def test_newcomer_a3_the_extra_docs_has_what_the_pages_import():
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    tree = ast.parse(setup.partition("\nsetup(")[0])
    names = {}
    exec(compile(tree, "setup.py", "exec"), {"__file__": str(ROOT / "setup.py")}, names)
    docs = {re.split("[<>=[]", one)[0] for one in names["EXTRAS"]["docs"]}
    assert {"sphinx", "matplotlib", "pandas"} <= docs


@pytest.mark.skipif(not (ROOT / ".ci/run").is_file(), reason="no checkout")
def test_newcomer_a3_the_documentation_is_built_from_its_extra_alone():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    (installed,) = re.findall(
        r'site/\$bin/python" -m pip install .*\$\{wheels\[0\]\}(.*)"', script
    )
    assert installed == "[docs]"
    assert re.findall(r"(\S+) -m sphinx", script) == ['"$work/site/$bin/python"']


# -- part B: numbers without bounds ---------------------------------------------------
TABLE = np.column_stack([RNG.uniform(18, 90, 300), RNG.lognormal(8, 1, 300)])
BOTH = np.arange(300) % 2
EVERY = {
    "logistic": (FeatureDPLogisticRegression(delta=1e-3), BOTH),
    "dpsgd-f": (DPSGDFClassifier(delta=1e-3), BOTH),
    "regressor": (FeatureDPRegressor(delta=1e-3, target_bounds=(0, 1)), BOTH),
    "dpsgd-f regressor": (DPSGDFRegressor(delta=1e-3, target_bounds=(0, 1)), BOTH),
    "network": (FeatureDPMLPClassifier(delta=1e-3, solver=NoisySGD(max_iter=2)), BOTH),
    "centring": (PrivateCenteringTransformer(delta=1e-3), None),
}


@pytest.mark.parametrize("name", EVERY)
def test_newcomer_b_a_fit_without_bounds_says_what_to_expect(name):
    model, y = EVERY[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(TABLE, y)
    first = str(next(w for w in caught if w.category is UtilityWarning).message)
    assert "expect no better than chance" in first
    assert "2 private column(s)" in first
    assert "a row with a missing value is ignored" in first
    for remedy in ("bounds=(low, high)", "TableSchema", "private_bounds"):
        assert remedy in first


@pytest.mark.parametrize("name", EVERY)
def test_newcomer_b_scaled_columns_are_no_reason_to_warn(name):
    model, y = EVERY[name]
    model = clone(model).set_params(bounds=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(TABLE / 1e4, y)
    assert not [w for w in caught if "bounds" in str(w.message)]


def test_newcomer_b_the_number_is_that_of_private_columns():
    model = FeatureDPLogisticRegression(delta=1e-3, public_features=[0])
    with pytest.warns(UtilityWarning, match=r"for 1 private column\(s\)"):
        model.fit(TABLE, BOTH)
    every = FeatureDPLogisticRegression(delta=1e-3, public_features="all")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        every.fit(TABLE, BOTH)
    assert not [w for w in caught if "chance" in str(w.message)]


def test_newcomer_b_columns_left_without_bounds_lose_rows_with_missing_values():
    model = DPSGDFClassifier(delta=1e-3, bounds={0: (18, 90)})
    with pytest.warns(UtilityWarning, match="bounds do not cover 1 .* is ignored"):
        model.fit(TABLE, BOTH)


# -- A7: one relation by default ------------------------------------------------------
def test_newcomer_a7_every_estimator_has_the_same_default_relation():
    for model, _ in EVERY.values():
        assert model.neighboring_relation == "replace_one"
    kinds = FeatureDPLogisticRegression, DPSGDFClassifier
    given = {"bounds": (0, 1), "classes": [0, 1], "delta": 1e-3}
    one, other = (kind(**given).plan(TABLE, BOTH) for kind in kinds)
    assert one.events == other.events


def test_newcomer_a7_golden_cases_name_the_relation(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/golden"))
    from golden_cases import CASES, estimator

    for case in CASES:
        params = estimator(case).get_params()
        named = case["params"].get("neighboring_relation")
        assert named == params["neighboring_relation"]
