"""Regressors: penalties, bounds and windows; the offset of a public model."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor

from skfdp import FeatureDPRegressor
from skfdp.data.target import TargetMap
from skfdp.privacy import Relation, gdp_epsilon
from skfdp.solvers import Huber, NoisyGradientDescent
from skfdp.solvers import public_model as public_regression
from skfdp.solvers import target_scales as target_window
from skfdp.solvers.public_model import clipped_away

N_PUBLIC = 3


@pytest.fixture(scope="module")
def table():
    """2,000 rows in [-1, 1] of three public and three private columns, R2 .4 each."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 6))
    return X, 50 + 5 * (X @ [1.0, 0.5, 0, 1, -0.5, 0] + 0.5 * rng.normal(size=2000))


@pytest.fixture(scope="module")
def counts():
    """3,000 overdispersed counts of mean 3; public columns explain half."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (3000, 6))
    rate = np.exp(1.0 + 0.8 * X @ [1.0, 0.5, 0, 1, -0.5, 0])
    return X, rng.poisson(rate * rng.gamma(1.0, 1.0, 3000)).astype(float)


def regressor(**parameters):
    given = {"public_features": [0, 1, 2], "public_target": True, "bounds": (-1, 1)}
    return FeatureDPRegressor(**{"random_state": 0, **given, **parameters})


def records_of(model, X, y):
    """Return what a fit reads."""
    return model._on_records(lambda found: found, X, y)


# -- the model ------------------------------------------------------------------------
@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
@pytest.mark.parametrize("sparse", [False, True])
def test_coef_describes_the_whole_model_where_it_is_linear(counts, loss, sparse):
    X, y = np.abs(counts[0]), counts[1]
    X = csr_array(X) if sparse else X
    model = regressor(loss=loss, bounds=(0, 1)).fit(X, y)
    margins = model.input_scaler_(X) @ model.coef_ + model.intercept_
    expected = np.exp(margins) if loss == "poisson" else margins
    np.testing.assert_allclose(model.predict(X), expected)
    assert np.abs(model.coef_[:N_PUBLIC]).max() > 0


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_margins_of_other_models_come_on_top(counts, loss):
    X, y = counts
    trees = HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=100)
    model = regressor(loss=loss, public_model=trees, epsilon=8.0).fit(X, y)
    assert model.public_model_.linear is None
    linear = model.input_scaler_(X) @ model.coef_ + model.intercept_
    alone = model.public_model_.estimator.predict(X[:, :N_PUBLIC])
    if loss == "poisson":
        expected = np.exp(linear) * np.maximum(alone, math.exp(-12.0))
    else:
        expected = linear + alone
    np.testing.assert_allclose(model.predict(X), expected)
    assert abs(model.predict(X).mean() / y.mean() - 1) < 0.1


def test_a_flexible_model_is_judged_out_of_fold(table):
    X, y = table
    tree = DecisionTreeRegressor(random_state=0)
    public = records_of(regressor(public_model=tree), X, y).public
    model = public_regression.resolve_public_model(tree, public)
    out_of_fold = model.training_margins(public.rows(), public.target)[:, 0]
    assert np.std(out_of_fold - y) > 2
    # The loop's unit is what is left out of fold, and not the zero of the fitted tree.
    scale = regressor(public_model=tree).fit(X, y).target_map_.scale
    assert scale == pytest.approx(np.sqrt(np.mean((out_of_fold - y) ** 2)))
    # Folds are shuffled: rows may come in the order of their targets.
    order = np.argsort(y)
    public = records_of(regressor(), X[order], y[order]).public
    model = public_regression.resolve_public_model("auto", public)
    found = model.training_margins(public.rows(), public.target)
    assert np.std(found - model.margins(public.rows())) < 0.2


def test_without_public_columns_it_is_the_mean(table):
    X, y = table
    model = regressor(epsilon=1e-3, public_features=None).fit(X, y)
    assert model.public_model_.estimator is None
    assert model.predict(X).mean() == pytest.approx(y.mean(), abs=0.2)


def test_no_model_without_an_intercept_or_with_every_column_public(table):
    label = {"public_features": "all", "public_target": False}
    for given in ({"fit_intercept": False}, {"public_model": None}, label):
        fitted = regressor(target_bounds=(0, 100), **given).fit(*table)
        assert not hasattr(fitted, "public_model_")


# -- a private target -----------------------------------------------------------------
def test_a_fitted_model_serves_a_private_target_and_never_meets_it(table, monkeypatch):
    X, y = table
    other = DecisionTreeRegressor(max_depth=3).fit(X[:200, :N_PUBLIC], y[:200])
    monkeypatch.setattr(DecisionTreeRegressor, "fit", None)  # never fit again
    given, offsets = {"public_target": False, "target_bounds": (0, 100)}, []
    for target in (y, y[::-1]):
        model = regressor(public_model=other, **given)
        _, prepared, plan = model._planned(records_of(model, X, target).public)
        offsets.append(prepared.offset)
    np.testing.assert_array_equal(*offsets)
    assert plan.event("target scale").n_steps == 1  # no mean: the spread alone
    model.fit(X, y)
    assert model.public_model_.estimator is other
    assert model.score(X, y) > other.score(X[:, :N_PUBLIC], y) + 0.05


def test_the_spread_of_what_a_model_leaves_of_a_private_target(table, releases):
    """The released sum is that of distances within a public interval, over its half."""
    X, y = table
    other = Ridge().fit(X[:200, :N_PUBLIC], y[:200])
    regressor(public_target=False, public_model=other, target_bounds=(0, 100)).fit(X, y)
    distances = np.abs(y - np.clip(other.predict(X[:, :N_PUBLIC]), 0, 100))
    found = releases[0]["exact"]
    np.testing.assert_allclose(found, (distances / 50 - 1).sum(), atol=1e-3)


# -- what the clip takes off ----------------------------------------------------------
def first_step(model, data, releases):
    """Return the first query of a fit, its records, and public coordinates."""
    model.fit(*data)
    query = next(r["query"] for r in releases if hasattr(r["query"], "loss"))
    records = records_of(model, *data)
    run, prepared, plan = model._planned(records.public)
    centring = dataclasses.replace(run.__self__.centring, length=None)
    plan = dataclasses.replace(plan, events=(), norms=(0.25, 1.0))
    known = records, prepared.moments, plan, None, centring.bias
    return query, records, centring.coordinates(*known)


def given_back(query, public, coordinates):
    """Return what a query gives back, of its own target, loss and margins."""
    known = query.target, query.loss, query.offset
    return clipped_away(query, *known, public, coordinates)(None)


@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_given_back_vanishes_with_the_clip(table, releases, sparse):
    X, y = np.abs(table[0]), table[1]
    data = (csr_array(X) if sparse else X), y
    query, records, coordinates = first_step(regressor(bounds=(0, 1)), data, releases)
    wide, narrow = (
        given_back(dataclasses.replace(query, clip_norm=c), records.public, coordinates)
        for c in (1e3, 1e-9)
    )
    np.testing.assert_array_equal(wide, 0)
    # Nothing is left of the gradient, and all of it is given back.
    residual = query.loss.residual(query.offset, query.target)[:, 0]
    rows = np.asarray(records.public.rows() - coordinates.mean[:N_PUBLIC])
    expected = residual @ (rows * coordinates.scale[:N_PUBLIC]) / len(rows)
    np.testing.assert_allclose(narrow[0, :N_PUBLIC], expected, atol=1e-6)
    np.testing.assert_array_equal(narrow[0, N_PUBLIC:-1], 0)
    assert narrow[0, -1] == pytest.approx(0.1 * residual.mean(), abs=1e-6)


def test_what_is_given_back_reads_no_private_value(table, releases):
    query, records, coordinates = first_step(regressor(), table, releases)
    poison = table[0].copy()
    poison[:, N_PUBLIC:] = np.nan
    found = []
    for known in (table[0], poison):
        public = dataclasses.replace(records.public, _table=known)
        blind = dataclasses.replace(query, rows=dataclasses.replace(query.rows))
        object.__setattr__(blind.rows, "values", np.full((2000, 7), -9, np.int16))
        found.append(given_back(blind, public, coordinates))
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all() and np.abs(found[0]).max() > 0


# -- the mean of the rates ------------------------------------------------------------
def test_the_mean_of_the_rates_is_released_within_a_public_interval(counts, releases):
    model = regressor(loss="poisson", epsilon=3.0).fit(*counts)
    labels = [event.label for event in model.privacy_.events]
    assert labels == ["row length", "mean", "mean rate", "descent"]
    event = model.privacy_.events[2]
    assert (event.clip_norm, event.sensitivity, event.n_steps) == (1.0, 2.0, 2)
    for release in releases[-2:]:
        values = release["query"].X
        assert np.abs(values).max() <= 1 and values.shape == (3000, 1)
        assert release["std"] == event.noise_std[0]


def test_rates_of_any_size_move_the_released_sum_within_its_bound(counts, releases):
    """One record with an enormous private part: exact sums of neighbours, each time."""
    X, y = counts
    sums = []
    for value in (-1.0, 1.0, 1e300):
        other = X.copy()
        other[0, N_PUBLIC:] = value
        solver = NoisyGradientDescent(max_iter=2)
        model = regressor(loss="poisson", epsilon=8.0, bounds=False, solver=solver)
        model.fit(other, y)
        queries = [release["query"] for release in releases[-2:]]
        one = np.array([0])
        sums.append([int(q.exact_sum(None, one, 2.0**-30)[0]) for q in queries])
    assert np.abs(sums).max() <= 2**30
    moved = np.ptp(sums, axis=0)
    assert (moved <= 2**31).all() and (moved > 2**27).all()


@pytest.mark.parametrize("start", [None, Ridge(alpha=1e6)], ids=["none", "weak"])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_start_that_explains_nothing_does_not_explode(start, epsilon):
    rng = np.random.default_rng(3)
    x = rng.normal(size=1200)
    stands_in = 0.8 * x[:, None] * [1.0, 0.8, 0.6] + 0.6 * rng.normal(size=(1200, 3))
    X = np.hstack([stands_in, x[:, None], rng.normal(size=(1200, 2))])
    y = 2 * x + 0.3 * X[:, 0] + 0.8 * rng.normal(size=1200)
    given = {"bounds": (-5, 5), "target_bounds": (-12, 12), "public_model": start}
    model = regressor(epsilon=epsilon, **given)
    train, test = slice(None, 800), slice(800, None)
    score = model.fit(X[train], y[train]).score(X[test], y[test])
    free = Ridge().fit(X[train, :3], y[train])
    assert score > r2_score(y[test], free.predict(X[test, :3]))


# -- without privacy ------------------------------------------------------------------
@pytest.mark.parametrize("threshold", [10.0, 60.0, 1e6])
def test_infinite_epsilon_of_huber_is_the_minimiser(threshold):
    """No gradient, with the threshold in the target's units and Ridge's penalty."""
    X, y = load_diabetes(return_X_y=True)
    model = FeatureDPRegressor(np.inf, alpha=0.1, loss=Huber(threshold=threshold))
    residual = model.fit(X, y).predict(X) - y
    slope = np.clip(residual, -threshold, threshold)
    size = np.abs(slope).sum()
    np.testing.assert_allclose(X.T @ slope + 0.1 * model.coef_, 0, atol=1e-5 * size)
    assert slope.sum() == pytest.approx(0, abs=1e-5 * size)


# -- with privacy, and nothing public -------------------------------------------------
def private(**parameters):
    given = {"public_features": None, "public_target": False, "target_bounds": (0, 100)}
    return regressor(**given | parameters)


def test_alpha_is_that_of_ridge(table):
    given = {"solver": "noisy-gd", "epsilon": 500.0, "bounds": False}
    ours = private(alpha=1000.0, **given).fit(*table)
    theirs = Ridge(alpha=1000.0).fit(ours.input_scaler_(table[0]), table[1])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.35)


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_predictions_are_coef_on_the_input_scaler_within_the_bounds(
    loss, table, counts
):
    is_linear = loss == "squared_error"
    X, y = table if is_linear else counts
    low, high = (45, 55) if is_linear else (0, 5)
    model = private(loss=loss, epsilon=8.0, target_bounds=(low, high)).fit(X, y)
    margins = model.input_scaler_(X) @ model.coef_ + model.intercept_
    expected = np.clip(margins if is_linear else np.exp(margins), low, high)
    np.testing.assert_allclose(model.predict(X), expected)
    assert model.predict(X).mean() == pytest.approx(y.clip(low, high).mean(), rel=0.1)
    assert (model.coef_.shape, np.ndim(model.intercept_)) == ((X.shape[1],), 0)
    assert not hasattr(model, "decision_function")


# -- the window of a private target ---------------------------------------------------
LINEAR, COUNTS = TargetMap(low=-20.0, high=60.0), TargetMap(log=True, low=0, high=1000)


def fitted(y, **parameters):
    X = np.random.default_rng(0).uniform(-1, 1, (len(y), 3))
    with np.errstate(all="raise"):
        return private(**parameters).fit(X, y)


@pytest.mark.parametrize("bounds", [LINEAR, COUNTS])
def test_a_replaced_target_moves_the_histogram_within_its_bound(bounds, releases):
    """All pairs of bins, at their edges and far outside, in exact integers."""
    y, unit = np.full(2000, 5.0), 2.0**-30
    inside = target_window.edges(bounds)
    values = [*inside, *(inside[1:] - 1e-9), -1e300, 1e300]
    given = {"target_bounds": (bounds.low, bounds.high)}
    given |= {"solver": NoisyGradientDescent(max_iter=1)}
    given |= {"loss": "poisson"} if bounds.log else {}
    contributions = []
    for value in values:
        y[0] = value
        releases.clear()
        fitted(y, **given)
        queries = (release["query"] for release in releases)
        query = next(one for one in queries if one.shape == (len(inside) - 1,))
        total = query.exact_sum(None, np.array([0]), unit)
        contributions.append([int(entry) for entry in total])
    pairs = itertools.product(contributions, repeat=2)
    moved = max(math.dist(*pair) * unit for pair in pairs)
    largest = max(math.hypot(*one) * unit for one in contributions)
    assert 0.999 < largest <= query.clip_norm == 1
    assert query.sensitivity(Relation.of("replace_one")) == math.sqrt(2)
    assert 0.999 * math.sqrt(2) < moved <= math.sqrt(2)
    assert len({tuple(c) for c in contributions}) == len(contributions[0])


def test_every_release_is_covered_by_the_charge(releases):
    """What neighbours move, over the noise that was added, is within the report."""
    y = np.random.default_rng(1).normal(10, 2, 2000)
    model = fitted(y, target_bounds=(-20, 60))
    relation, total = Relation.of("replace_one"), 0.0
    for release in releases:
        total += (release["query"].sensitivity(relation) / release["std"]) ** 2
    spent = gdp_epsilon(model.delta, math.sqrt(total))
    assert spent == pytest.approx(model.privacy_.epsilon, rel=1e-6)
    # The noise of the histogram is that of the scales, for less: two counts move by 1.
    events = [(e.label, e.n_steps, e.sensitivity) for e in model.privacy_.events[:2]]
    assert events == [("target histogram", 1, math.sqrt(2)), ("target scale", 2, 2.0)]
    assert [r["query"].shape for r in releases[:3]] == [(16,), (1,), (1,)]
    noise_std = model.privacy_.events[0].noise_std[0]
    np.testing.assert_allclose([r["std"] for r in releases[:3]], noise_std)
    assert model.privacy_.epsilon <= 1.0
    assert (model.target_map_.low, model.target_map_.high) == (-20, 60)


def test_a_fit_may_have_no_histogram():
    def first(y, **more):
        event = fitted(y, target_bounds=(-20, 60), **more).privacy_.events[0]
        return event.label, event.n_steps, event.sensitivity

    y = np.random.default_rng(1).normal(10, 2, 2000)
    # A nulled target moves it as far as a mean, so one event covers all three.
    nulled = first(y, neighboring_relation="replace_special")
    assert nulled == ("target scale", 3, 1.0)
    assert first(y[:100], epsilon=0.1) == ("target scale", 2, 2.0)


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 1000.0])
def test_loose_bounds_leave_the_mean_of_counts_alone(epsilon):
    rng = np.random.default_rng(2)
    y = rng.poisson(3 * rng.gamma(1.0, 1.0, 3000)).astype(float)
    for high in (100, 1000):
        model = fitted(y, epsilon=epsilon, loss="poisson", target_bounds=(0, high))
        rates = model.predict(np.random.default_rng(0).uniform(-1, 1, (3000, 3)))
        near = 0.25 if epsilon < 9 else 0.03
        assert rates.mean() == pytest.approx(y.mean(), rel=near)


# -- the report -----------------------------------------------------------------------
def test_the_report_names_the_bounds_as_an_assumption(table):
    model = private().fit(*table)
    texts = {a.text: a.enforced for a in model.privacy_.assumptions}
    chosen = [text for text in texts if "target_bounds=(0, 100) were chosen" in text]
    clipped = [text for text in texts if "Every target is clipped" in text]
    assert [texts[text] for text in chosen + clipped] == [False, True]
    assert not any("classes" in text for text in texts)
    public = private(public_target=True, target_bounds=None).fit(*table)
    assert not any("target_bounds" in a.text for a in public.privacy_.assumptions)
