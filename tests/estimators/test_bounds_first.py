"""Fits that release their bounds first: one plan, one charge, one guarantee."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array

import skfdp
from skfdp.privacy import compose
from skfdp.privacy.events import ASSUMED
from skfdp.queries.linear import LinearQuery
from skfdp.queries.statistics import BinCounts
from skfdp.solvers import FeatureDPSGD, NoisySGD

N = 2000
SCALES = np.array([1.0, 100.0, 1e6, 0.01])
SHIFTS = np.array([0.0, 500.0, 0.0, 1.0])
CLASSES = {"classes": [0, 1]}
TARGET, FIRST = {"target_bounds": (-8, 8)}, {"public_features": [0]}
LOGISTIC = skfdp.FeatureDPLogisticRegression
BATCHES = {"solver": NoisySGD(batch_size=200, max_iter=40, normalize=True)}
KNOWN = {"public_target": True, "public_features": [3]}
PADDED = {"public_features": [1], "solver": FeatureDPSGD()}
ESTIMATORS = {
    "dpsgd-f": (skfdp.DPSGDFClassifier, CLASSES),
    "dpsgd-f, normalised batches": (skfdp.DPSGDFClassifier, CLASSES | BATCHES),
    "feature-dp": (LOGISTIC, CLASSES),
    "feature-dp, columns public": (LOGISTIC, CLASSES | {"public_features": [0, 2]}),
    "feature-dp, target public": (LOGISTIC, KNOWN | {"centering": None}),
    "feature-dp, padded": (LOGISTIC, CLASSES | PADDED),
    "regressor": (skfdp.FeatureDPRegressor, TARGET),
    "regressor, columns public": (skfdp.FeatureDPRegressor, TARGET | FIRST),
    "dpsgd-f regressor": (skfdp.DPSGDFRegressor, TARGET | {"loss": "huber"}),
}
each = pytest.mark.parametrize("name", ESTIMATORS)


def make(name, epsilon=2.0, **given):
    kind, parameters = ESTIMATORS[name]
    return kind(epsilon, bounds="private", **(parameters | given))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(N, 4))
    score = Z[:, 0] + Z[:, 1] - Z[:, 2] + 0.5 * rng.normal(size=N)
    return Z * SCALES + SHIFTS, score


def target_of(name, score):
    return score if "regressor" in name else (score > 0).astype(int)


def private_columns(name):
    mask = np.ones(4, dtype=bool)
    mask[ESTIMATORS[name][1].get("public_features", [])] = False
    return mask


# -- the charge ----------------------------------------------------------------------
@each
def test_bounds_are_released_first_within_the_budget(name, problem, releases):
    X, score = problem
    model = make(name).fit(X, target_of(name, score))
    events = model.privacy_.events
    assert [event.label for event in events][:2] == ["binades", "bins"]
    assert [type(seen["query"]) for seen in releases[:2]] == [BinCounts] * 2
    p = private_columns(name).sum()
    for event, seen in zip(events[:2], releases, strict=False):
        assert event.clip_norm == math.sqrt(p) and event.noise_std == (seen["std"],)
    assert 1.99 < model.privacy_.epsilon <= 2.0
    assert compose(events).epsilon(1e-5) == pytest.approx(model.privacy_.epsilon)
    # everything that ran was charged, and nothing else
    assert sum(event.n_steps for event in events) == len(releases)
    shares = [(e.sensitivity / e.noise_std[0] / 0.5) ** 2 for e in events[:2]]
    assert all(0.009 < share < 0.3 for share in shares)


# -- the model -----------------------------------------------------------------------
@each
def test_coefficients_are_in_the_units_of_the_published_map(name, problem):
    X, score = problem
    y = target_of(name, score)
    model = make(name).fit(X, y)
    rows = model.input_scaler_(X)
    margins = (rows @ np.atleast_2d(model.coef_).T + model.intercept_)[:, 0]
    if "regressor" in name:
        margins, found = np.clip(margins, *TARGET["target_bounds"]), model.predict(X)
    else:
        found = model.decision_function(X)
    np.testing.assert_allclose(found, margins, rtol=1e-9, atol=1e-9)


def test_every_column_public_needs_no_release(problem):
    X, score = problem
    y = target_of("feature-dp", score)
    model = make("feature-dp", public_features="all").fit(X, y)
    assert [event.label for event in model.privacy_.events] == ["label statistic"]
    np.testing.assert_array_equal(model.input_scaler_.low, X.min(axis=0))
    assert ASSUMED["bounds_released"] not in model.privacy_.assumptions


def test_missing_and_infinite_numbers_count_as_the_middle(problem):
    X, score = problem
    X = X.copy()
    X[::20, 1], X[1::20, 2], X[2::20, 0] = math.nan, math.inf, -math.inf
    model = make("feature-dp", random_state=0).fit(X, score > 0)
    middle = model.input_scaler_.low + model.input_scaler_.span / 2
    assert model.input_scaler_(X[:1])[0, 1] == pytest.approx(middle[1])
    assert model.score(X, score > 0) > 0.7


def test_no_record_is_void_for_a_number_that_is_missing(problem, releases):
    X, score = problem
    X = np.where(np.arange(N)[:, None] % 2 == 0, math.nan, X)
    make("dpsgd-f").fit(X, score > 0)
    assert (releases[0]["exact"].sum(axis=1) == N).all()
    assert all(seen["batch"] is None for seen in releases)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("value", [0.0, 1e308, -1e308, 5e-324, math.nan, math.inf])
@each
def test_tables_of_one_value(name, value, problem):
    """Nothing that private columns hold stops a fit or makes NumPy warn."""
    X, score = problem
    X = np.where(private_columns(name), value, X)
    model = make(name).fit(X, target_of(name, score))
    assert np.isfinite(model.coef_).all()


def test_sparse_tables(problem):
    X, score = problem
    dense = np.where(X > 0, X, 0.0)
    for name in ("feature-dp", "feature-dp, columns public", "regressor"):
        y = target_of(name, score)
        model = make(name).fit(csr_array(dense), y)
        assert not model.input_scaler_.low.any()
        assert model.predict(csr_array(dense)).shape == (N,)
        wanted = model.plan(csr_array(dense), y)
        blank = np.where(private_columns(name), 0.0, dense)
        assert model.plan(csr_array(blank), y) == wanted


# -- the orthant with released bounds ------------------------------------------------
def test_the_orthant_holds_with_released_bounds(problem, releases):
    X, score = problem
    y = target_of("feature-dp", score)
    model = make("feature-dp, target public").fit(X, y)
    told = next(e for e in model.privacy_.events if e.label == "descent")
    assert told.sensitivity == pytest.approx(math.sqrt(2) * told.clip_norm)
    steps = [seen for seen in releases if isinstance(seen["query"], LinearQuery)]
    query = steps[-1]["query"]
    # what the loop saw: columns of released bounds are not negative
    assert (query.rows.values[:, :3] >= 0).all()
    theta, unit = steps[-1]["theta"], query.unit(steps[-1]["std"])
    extremes = [X[0], -1e9 * np.ones(4), 1e9 * np.ones(4), np.full(4, math.nan)]
    extremes += [np.array([1e9, -1e9, 1e9, 0.0]), np.array([-1e9, 1e9, -1e9, 0.0])]
    contributions = []
    for private in extremes:
        row = np.where(model.input_scaler_.public, X[0], private)[None]
        values = query.rows.values.copy()
        row = model.input_scaler_.mapped(row)[0, :3]
        values[0, :3] = np.trunc(row / query.rows.unit)
        norms = (values.astype(float) ** 2).sum(axis=1)
        rows = dataclasses.replace(query.rows, values=values, squared_norms=norms)
        moved = dataclasses.replace(query, rows=rows)
        contributions.append(moved.exact_sum(theta, np.array([0]), unit) * unit)
    for one, other in itertools.product(contributions, repeat=2):
        assert (one * other).sum() >= 0
        moved = np.linalg.norm(one - other)
        assert moved <= math.sqrt(2) * query.clip_norm * (1 + 1e-9)


def test_the_report_speaks_of_released_bounds(problem):
    X, score = problem
    model = make("feature-dp, target public").fit(X, target_of("feature-dp", score))
    for one in (
        ASSUMED["bounds_released"],
        ASSUMED["values_clipped_to_released_bounds"],
        ASSUMED["columns_non_negative_within_released_bounds"],
    ):
        assert one.enforced and one in model.privacy_.assumptions
    for one in (ASSUMED["values_clipped"], ASSUMED["columns_non_negative"]):
        assert one not in model.privacy_.assumptions
    assert "input_scaler_" in model.privacy_.released
