"""Regressors with a public target: the offset of a public model, and what is kept."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.metrics import d2_tweedie_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skfdp import FeatureDPRegressor
from skfdp.mechanisms.descent import HeavyBall, Walk
from skfdp.solvers import Huber, NoisyGradientDescent, parameters
from skfdp.solvers import public_model as public_regression
from skfdp.solvers.postprocessing import pull, rate_level, shrunk
from skfdp.solvers.postprocessing import target_blocks as blocks_of
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
    model._declared = model._declare(y)
    return model._records(X, y)


def d2(model, X, y):
    power = 1 if model.loss == "poisson" else 0
    return d2_tweedie_score(y, np.maximum(model.predict(X), 1e-9), power=power)


MODELS = {
    "auto": "auto",
    "ridge": Ridge(),
    "scaled": make_pipeline(StandardScaler(), LinearRegression()),
    "trees": HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=100),
}


# -- what is left without a budget, and with a large one ------------------------------
@pytest.mark.parametrize("loss", ["squared_error", Huber(threshold=5.0)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_without_budget_the_public_model_is_left(table, name, loss):
    X, y = table
    given = {"public_model": MODELS[name], "loss": loss}
    model = regressor(epsilon=1e-3, **given).fit(X, y)
    alone = model.public_model_.estimator.predict(X[:, :N_PUBLIC])
    gap, spread = model.predict(X) - alone, np.std(y - alone)
    assert np.std(gap) < 0.05 * spread
    assert abs(np.mean(gap)) < 0.05 * spread


@pytest.mark.slow
@pytest.mark.parametrize("public", [{}, {"public_features": None}])
def test_a_large_budget_ends_at_the_joint_model(table, public):
    best = Ridge(alpha=1e-6).fit(*table)
    for name in ("auto",) if public else ("auto", "ridge"):
        given = {"epsilon": 2000.0, "public_model": MODELS[name], **public}
        fits = [regressor(**given, random_state=k).fit(*table) for k in range(4)]
        # One fit is off by up to 0.1; that is noise, and no bias.
        coef = np.mean([one.coef_ for one in fits], axis=0)
        np.testing.assert_allclose(coef, best.coef_, atol=0.1)
        intercept = np.mean([one.intercept_ for one in fits])
        assert intercept == pytest.approx(best.intercept_, abs=0.1)


def test_a_large_budget_ends_at_the_joint_model_of_counts(counts):
    best = PoissonRegressor(alpha=0, max_iter=1000).fit(*counts)
    model = regressor(epsilon=2000.0, loss="poisson").fit(*counts)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=0.1)
    assert model.predict(counts[0]).mean() == pytest.approx(counts[1].mean(), rel=0.02)


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
@pytest.mark.parametrize(
    "epsilon",
    [*(pytest.param(e, marks=pytest.mark.slow) for e in (0.03, 1.0, 8.0)), 0.1],
)
def test_not_worse_than_the_public_model_or_none(table, counts, loss, epsilon):
    X, y = counts if loss == "poisson" else table
    train, test = slice(0, 1400), slice(1400, None)
    public = PoissonRegressor(alpha=0.01) if loss == "poisson" else Ridge()
    public.fit(X[train, :N_PUBLIC], y[train])
    alone = np.maximum(public.predict(X[test, :N_PUBLIC]), 1e-9)
    alone = d2_tweedie_score(y[test], alone, power=int(loss == "poisson"))
    gains = []
    for seed in range(3):
        given = {"epsilon": epsilon, "loss": loss, "random_state": seed}
        ours = regressor(**given).fit(X[train], y[train])
        none = regressor(**given, public_model=None).fit(X[train], y[train])
        best = max(alone, d2(none, X[test], y[test]))
        gains.append(d2(ours, X[test], y[test]) - best)
    assert np.mean(gains) > (-0.02 if epsilon >= 0.1 else -0.05)


def test_private_columns_of_noise_cost_little(table):
    X, y = table
    noise = np.random.default_rng(2).uniform(-1, 1, (2000, 6))
    X = np.c_[X[:, :N_PUBLIC], noise]
    alone = Ridge().fit(X[:, :N_PUBLIC], y).score(X[:, :N_PUBLIC], y)
    for epsilon in (0.03, 0.3):
        models = [regressor(epsilon=epsilon, random_state=k) for k in range(6)]
        scores = [model.fit(X, y).score(X, y) for model in models]
        # On the average of many seeds it is .02 at the smallest budgets.
        assert np.mean(scores) > alone - 0.03


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
    model = regressor(loss=loss, public_model=MODELS["trees"], epsilon=8.0).fit(X, y)
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
    np.testing.assert_allclose(model.margins(public.rows())[:, 0], y)
    out_of_fold = model.training_margins(public.rows(), public.target)[:, 0]
    assert np.std(out_of_fold - y) > 2
    # Folds are shuffled: rows may come in the order of their targets.
    order = np.argsort(y)
    public = records_of(regressor(), X[order], y[order]).public
    model = public_regression.resolve_public_model("auto", public)
    found = model.training_margins(public.rows(), public.target)
    assert np.std(found - model.margins(public.rows())) < 0.2
    # The loop's unit is what is left out of fold, and not the zero of the fitted tree.
    fitted = regressor(public_model=tree).fit(X, y)
    assert fitted.target_map_.scale == pytest.approx(
        np.sqrt(np.mean((out_of_fold - y) ** 2))
    )


def test_without_public_columns_it_is_the_mean(table, counts):
    X, y = table
    model = regressor(epsilon=1e-3, public_features=None).fit(X, y)
    assert model.public_model_.estimator is None
    assert model.predict(X).mean() == pytest.approx(y.mean(), abs=0.2)
    given = {"epsilon": 0.1, "public_features": None, "loss": "poisson"}
    means = [
        regressor(random_state=seed, **given).fit(*counts).predict(counts[0]).mean()
        for seed in range(8)
    ]
    assert np.mean(means) == pytest.approx(counts[1].mean(), rel=0.15)


def test_counts_that_are_all_zero():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 6))
    model = regressor(epsilon=1.0, loss="poisson").fit(X, np.zeros(300))
    assert model.predict(X).max() < 0.1


def test_no_model_without_an_intercept_or_with_every_column_public(table):
    label = {"public_features": "all", "public_target": False}
    for given in ({"fit_intercept": False}, {"public_model": None}, label):
        model = regressor(target_bounds=(0, 100), **given).fit(*table)
        assert not hasattr(model, "public_model_")


# -- a private target -----------------------------------------------------------------
class Unfittable(DecisionTreeRegressor):
    """A fitted model that must not be fitted again."""

    def fit(self, X, y):
        raise AssertionError("the private target was read")


def test_a_fitted_model_serves_a_private_target_and_never_meets_it(table):
    X, y = table
    other = DecisionTreeRegressor(max_depth=3).fit(X[:200, :N_PUBLIC], y[:200])
    other.__class__ = Unfittable
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


# -- shrinkage: public numbers alone --------------------------------------------------
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("curvature", [0.0, 0.05, 1.0])
def test_the_noise_left_is_that_of_the_step_rule(momentum, curvature):
    """The noises of the steps are independent, and what each leaves is linear in it."""
    n, total = 100, 0.0
    rates, stds = 0.2 * (1 - np.arange(n) / n), np.linspace(2.0, 0.5, n)
    for kick in range(n):
        rule = HeavyBall(0.2, momentum, n)
        theta, velocity = np.zeros((1, 1)), np.zeros((1, 1))
        for step in range(n):
            gradient = curvature * theta + stds[kick] * (step == kick)
            theta = rule.update(theta, velocity, gradient, step)
        total += theta[0, 0] ** 2
    found = Walk(rates, momentum, stds).outcome(curvature)[1]
    assert found == pytest.approx(math.sqrt(total))


def test_shrinkage_is_all_or_nothing_at_the_ends():
    public = np.array([True, False, False])
    theta = np.ones((1, 4))
    for std, expected in ((1e3, 0.0), (1e-6, 1.0)):
        walk = Walk(np.full(10, 0.1), 0.9, np.full(10, std))
        found = shrunk(theta, blocks_of(public, True), walk, 1.0, learns=False)
        np.testing.assert_allclose(found[0, :3], expected, atol=1e-3)
        assert found[0, 3] == 1  # the intercept
    np.testing.assert_array_equal(theta, 1)


@pytest.mark.parametrize("learns", [False, True])
def test_weights_that_stand_out_of_the_noise_are_kept(learns):
    """Weights of the size of the noise are shrunk as by the prior alone."""
    public = np.array([True] * 4 + [False] * 4)
    walk = Walk(np.full(100, 0.5), 0.0, np.full(100, 0.2))
    blocks, kept, clip = blocks_of(public, True), [], 0.01  # a slope of about .8
    slope = math.erf(clip / math.sqrt(2)) / clip
    noise = [b.square * walk.outcome(slope * b.square / 4)[1] ** 2 for b in blocks]
    prior, noise = np.array([block.prior for block in blocks]), np.array(noise)
    for size in (0.1, 10.0):
        theta = np.full((1, 8), size)
        kept.append(shrunk(theta, blocks, walk, clip, learns=learns)[0] / theta[0])
    expected = np.repeat(prior / (prior + noise), 4)
    np.testing.assert_allclose(kept[0], expected, rtol=1e-6)
    if learns:
        assert (kept[1] > 0.9).all()
        assert (expected < 0.6).any()
    else:
        np.testing.assert_allclose(kept[1], expected, rtol=1e-6)


def test_the_pull_follows_the_signal_of_the_private_block():
    blocks = blocks_of(np.arange(10) < 4, True)
    assert [pull(1.0, n, blocks) for n in (6, 60, 6000)] == pytest.approx([0.1, 1, 1])


# -- the level of rates: public and released numbers alone ---------------------------
@pytest.mark.slow
@pytest.mark.parametrize("most", [2.0, 50.0])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_the_level_of_lognormal_rates_is_found(most, spread):
    rng = np.random.default_rng(0)
    start = rng.normal(scale=0.5, size=200_000)
    margins = start + 0.3 + spread * rng.normal(size=len(start))
    mean = np.minimum(np.exp(margins), most).mean()
    level, slope = rate_level(start, spread**2, most, mean)
    assert level == pytest.approx(0.3, abs=0.02)
    nearby = np.minimum(np.exp(margins + 0.01), most).mean()
    assert slope == pytest.approx((nearby - mean) / 0.01, rel=0.05)


# -- what the clip takes off ----------------------------------------------------------
def first_step(model, data, releases):
    """Return the first query of a fit, its records, and public coordinates."""
    model.fit(*data)
    query = next(r["query"] for r in releases if hasattr(r["query"], "loss"))
    records = records_of(model, *data)
    method, prepared, plan = model._planned(records.public)
    centring = dataclasses.replace(method.centring, length=None)
    plan = dataclasses.replace(plan, events=())
    moments, norms = prepared.moments, (0.25, 1.0)
    return query, records, centring.coordinates(records, moments, plan, norms, None)


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
    assert np.isfinite(found[0]).all()
    assert np.abs(found[0]).max() > 0


# -- the mean of the rates ------------------------------------------------------------
def test_the_mean_of_the_rates_is_released_within_a_public_interval(counts, releases):
    model = regressor(loss="poisson", epsilon=3.0).fit(*counts)
    labels = [event.label for event in model.privacy_.events]
    assert labels == ["row length", "mean", "mean rate", "descent"]
    event = model.privacy_.events[2]
    assert (event.clip_norm, event.sensitivity, event.n_steps) == (1.0, 2.0, 2)
    for release in releases[-2:]:
        values = release["query"].X
        assert np.abs(values).max() <= 1
        assert values.shape == (3000, 1)
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
    assert (moved <= 2**31).all()
    assert (moved > 2**27).all()


def test_the_mean_of_skewed_counts_is_right_at_a_small_budget(counts):
    X, y = counts
    for public in ({}, {"public_features": None}):
        ratios = [
            regressor(loss="poisson", epsilon=0.3, random_state=seed, **public)
            .fit(X, y)
            .predict(X)
            .mean()
            / y.mean()
            for seed in range(8)
        ]
        assert np.mean(ratios) == pytest.approx(1, abs=0.1)


# -- bad input ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"public_model": "trees"}, "public_model='trees' must be 'auto', None or a"),
        ({"public_model": DummyClassifier()}, "must be 'auto', None or a regressor"),
        (
            {"public_model": Ridge(), "public_target": False, "target_bounds": (0, 9)},
            "cannot be fitted on a private target",
        ),
        (
            {"public_model": Ridge().fit([[0] * 9, [1] * 9], [0, 1])},
            r"public_model was fitted on 9 column\(s\), but \d are public",
        ),
    ],
)
def test_bad_input(table, parameters, match):
    with pytest.raises(ValueError, match=match):
        regressor(**parameters).fit(*table)


# -- small budgets, and starts that are no model of the public part -------------------
def test_without_a_public_model_all_columns_share_the_pull():
    public = np.arange(10) < 4
    blocks = blocks_of(public, False)
    assert pull(1.0, 10, blocks) == pytest.approx(0.5 * 10 / 10)
    assert pull(1.0, 10, blocks_of(public | True, False)) == pull(1.0, 10, blocks)


@pytest.mark.parametrize("start", [None, Ridge(alpha=1e6)], ids=["none", "weak"])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_start_that_explains_nothing_does_not_explode(start, epsilon):
    rng = np.random.default_rng(3)
    x = rng.normal(size=1200)
    stands_in = 0.8 * x[:, None] * [1.0, 0.8, 0.6] + 0.6 * rng.normal(size=(1200, 3))
    X = np.hstack([stands_in, x[:, None], rng.normal(size=(1200, 2))])
    y = 2 * x + 0.3 * X[:, 0] + 0.8 * rng.normal(size=1200)
    model = regressor(
        epsilon=epsilon, bounds=(-5, 5), target_bounds=(-12, 12), public_model=start
    )
    train, test = slice(None, 800), slice(800, None)
    score = model.fit(X[train], y[train]).score(X[test], y[test])
    free = Ridge().fit(X[train, :3], y[train])
    assert score > r2_score(y[test], free.predict(X[test, :3]))


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_where_rows_are_public_the_constant_counts_as_one_column_or_more(
    table, releases, loss
):
    X, y = table
    model = regressor(
        epsilon=0.5,
        public_features=list(range(6)),
        public_target=False,
        target_bounds=(0, 100),
        loss=loss,
    )
    model.fit(X[:300], y[:300])
    query = next(r["query"] for r in releases if hasattr(r["query"], "loss"))
    rows = query.rows.values.astype(float)
    # Rows are 1 long on average, in squares, without their constant.
    usual = np.sqrt(np.mean(np.sum(rows[:, :-1] ** 2, axis=1)))
    wanted = 0.1
    if loss != "poisson":
        found = model.target_map_
        of_doubt = parameters.bias_of_target(found.error / found.scale, 6)
        wanted = max(of_doubt, 6**-0.5)
    np.testing.assert_allclose(rows[:, -1] / usual, wanted, rtol=0.01)


def test_with_a_small_budget_the_intercept_corrects_the_released_mean():
    """The level of predictions is closer to the targets than the released mean."""
    rng = np.random.default_rng(5)
    X = rng.random((1000, 12))
    y = 40 + 8 * (X[:, 0] - 0.5) + 4 * rng.normal(size=1000)
    for public in (list(range(10)), list(range(12))):
        released, final = [], []
        for seed in range(20):
            model = regressor(
                epsilon=0.1,
                public_features=public,
                public_target=False,
                target_bounds=(0, 100),
                random_state=seed,
            ).fit(X, y)
            released.append(model.target_map_.centre - y.mean())
            final.append(model.predict(X).mean() - y.mean())
        errors = [np.sqrt(np.mean(np.square(one))) for one in (final, released)]
        assert errors[0] < 0.7 * errors[1]


def test_the_constant_of_a_regression_grows_with_the_doubt_about_the_mean():
    assert parameters.bias_of_target(0.0, 10) == parameters.BIAS_FEATURE
    found = [parameters.bias_of_target(doubt, 16) for doubt in (0.1, 0.5, 2.0, 99.0)]
    assert found == sorted(found) and found[-1] == 1.0
    assert found[1] ** 2 == pytest.approx(0.5 * np.sqrt(2 / 4))


def test_norms_of_both_parts_of_a_regression_follow_their_numbers_of_columns(table):
    X, y = table
    given = {"public_features": [0, 1, 2, 3], "public_target": False}
    model = regressor(target_bounds=(0, 100), **given)
    records = records_of(model, X, y)
    public, budget = records.public, model._budget(records.public)
    method = model._method(public)
    ours, theirs = method.plan(public, method.prepare(public, budget), budget).norms
    assert ours**2 + theirs**2 == pytest.approx(1)
    assert (ours / theirs) ** 2 == pytest.approx(np.sqrt(4 / 2))
    squares = [block.square for block in blocks_of(public.mask, False)]
    assert squares == pytest.approx([ours**2, theirs**2])


def test_with_a_private_target_a_large_budget_gives_the_optimum():
    """The intercept also corrects private columns that are not centred."""
    rng = np.random.default_rng(7)
    X = rng.random((2000, 6))
    y = 50 + 20 * (X @ [1.0, 0.5, 0, 2, -0.5, 1]) + 2 * rng.normal(size=2000)
    for bounds in ((0, 1), (-20, 20)):
        given = {"bounds": bounds, "target_bounds": (0, 200), "public_target": False}
        model = regressor(epsilon=1e5, **given).fit(X, y)
        best = LinearRegression().fit(X, y).score(X, y)
        assert model.score(X, y) > best - 0.01
