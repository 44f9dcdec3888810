"""Second moments: exact public parts, free penalties, the limit of a large budget."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from skfdp import FeatureDPRegressor
from skfdp.data.grid import GRID
from skfdp.privacy import gdp_mu
from skfdp.solvers.moments import (
    MomentRules,
    MomentSum,
    OuterSum,
    PublicSide,
    on_exact,
    on_noisy,
    ridge_with_risk,
)

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning")

BOUNDS, TARGET = (0.0, 20.0), (-12.0, 12.0)
SPLITS = {
    "all private": {},
    "columns public": {"public_features": [0, 1, 2]},
    "target public": {"public_target": True},
    "both public": {"public_features": [0, 1, 2], "public_target": True},
}
every_split = pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)


def make_table(n_rows=3000, seed=0):
    """Return correlated columns with heavy tails, and a curved target."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n_rows, 6)) @ (
        np.eye(6) + np.random.default_rng(99).normal(size=(6, 6)) / 4
    )
    X = np.minimum(np.exp(0.6 * hidden), BOUNDS[1])
    y = X @ [1.0, -0.5, 0.5, 1.0, -1.0, 0.3] / 2 + 0.3 * np.sqrt(X[:, 1] * X[:, 4])
    return X, np.clip(y + rng.normal(size=n_rows) / 2, *TARGET)


def fitted(table, epsilon, seed=0, **parameters):
    """Return a seeded fit by moments."""
    given = {"bounds": BOUNDS, "target_bounds": TARGET, "solver": "one-shot"}
    model = FeatureDPRegressor(epsilon, random_state=seed, **given | parameters)
    return model.fit(*table)


@every_split
def test_the_limit_is_scikit_learns_model(split):
    table = make_table()
    best = LinearRegression().fit(*table)
    model = fitted(table, 1e7, **split)
    assert model.score(*table) > best.score(*table) - 0.002
    gap = np.linalg.norm(model.coef_ - best.coef_) / np.linalg.norm(best.coef_)
    assert gap < 0.03


@every_split
@pytest.mark.parametrize("alpha", [1.0, 1000.0])
def test_the_limit_of_a_penalty_is_ridge(split, alpha):
    table = make_table()
    # alpha penalises the weights of bounded columns, which are in [0, 1]
    best = Ridge(alpha=alpha).fit(table[0] / BOUNDS[1], table[1])
    model = fitted(table, 1e7, alpha=alpha, **split)
    gap = model.coef_ * BOUNDS[1] - best.coef_
    assert np.linalg.norm(gap) < 0.05 * np.linalg.norm(best.coef_)


@every_split
def test_no_intercept_is_a_line_through_the_origin(split):
    X, y = make_table()
    table = X, np.clip(X @ [0.5, 0.2, 0.1, 0.4, 0.3, 0.2], *TARGET)
    model = fitted(table, 1e6, fit_intercept=False, **split)
    assert model.intercept_ == pytest.approx(0.0, abs=1e-9)
    assert model.score(*table) > 0.98


def test_little_signal_leaves_the_constant_or_the_free_model():
    """Nothing that is noise gets in: the public part alone is exact and free."""
    X, y = make_table(400)
    free = LinearRegression().fit(X[:, :3], y).score(X[:, :3], y)
    for seed in range(10):
        constant = fitted((X, y), 0.02, seed, public_target=True)
        assert constant.score(X, y) > -0.02
        public = fitted((X, y), 0.02, seed, **SPLITS["both public"])
        assert public.score(X, y) > free - 0.02


def test_what_is_public_pays():
    table, test = make_table(1500), make_table(5000, seed=1)
    mean = {
        name: np.mean([fitted(table, 0.7, s, **kw).score(*test) for s in range(36)])
        for name, kw in SPLITS.items()
    }
    assert mean["columns public"] > mean["all private"] - 0.01
    assert mean["both public"] > mean["columns public"] + 0.01
    assert mean["both public"] > mean["target public"] - 0.01


@every_split
def test_only_private_products_are_released(split, releases):
    """Each release has the shape of what is private, times what is public."""
    fitted(make_table(300), 5.0, **split)
    n_public = len(split.get("public_features", []))
    n_private = 6 - n_public
    with_target = not split.get("public_target", False)
    cross, squares = [release["query"].shape for release in releases[-2:]]
    assert cross == (1 + n_public, n_private + with_target)
    assert squares == (n_private * (n_private + 1) // 2 + n_private,)


def test_collinear_and_constant_public_columns_do_no_harm():
    X, y = make_table()
    wide = np.column_stack([X, X[:, 0], X[:, 1] - X[:, 0] / 2, np.full(len(X), 3.0)])
    public = {"public_features": [0, 1, 2, 6, 7, 8]}
    for target in ({}, {"public_target": True}):
        model = fitted((wide, y), 1e6, **public, **target)
        assert model.score(wide, y) > LinearRegression().fit(X, y).score(X, y) - 0.003


def test_public_columns_of_any_size_are_weighted():
    X, y = make_table(500)
    for size in (1e30, 1e200):
        wide = np.column_stack([X, np.random.default_rng(0).normal(size=500) * size])
        bounds = {i: BOUNDS for i in range(6)}
        model = fitted((wide, y), 100.0, bounds=bounds, public_features=[6])
        assert np.isfinite(model.predict(wide)).all()
        assert model.score(wide, y) > 0.3


# -- the public side ------------------------------------------------------------------
def learn(u, signal):
    """Return the public side of a table of public columns."""
    return PublicSide(lambda block: u[block], u.shape, intercept=True, signal=signal)


def test_public_rows_are_bounded_and_their_moments_are_those_of_the_weights():
    u = np.random.default_rng(0).standard_t(3, size=(800, 4)) * [1, 2, 3, 0.1]
    side = learn(u, 100.0)
    z, short = side.rows(u), side.grid.values * GRID
    assert np.linalg.norm(short, axis=1).max() <= 1
    np.testing.assert_allclose(short, z * side.weight[:, None], atol=2 * GRID)
    np.testing.assert_allclose(side.moments, (short.T @ z) / 800, atol=1e-3)
    assert side.weight.min() < 0.9
    on_u, constant = side.fold(np.arange(5.0))
    np.testing.assert_allclose(u @ on_u + constant, z @ np.arange(5.0))
    # No row loses weight as the signal grows.
    weight = [learn(u, signal).weight.mean() for signal in (1e2, 1e3, 1e6)]
    assert weight[0] < weight[1] < weight[2]
    assert weight[2] > 0.999


# -- the rules ------------------------------------------------------------------------
def test_reaches_grow_more_slowly_than_the_noise_falls():
    signals = 10.0 ** np.arange(0, 12)
    rules = [MomentRules(signal, 10, 5) for signal in signals]
    for name in ("row_reach", "square_reach", "target_reach"):
        reach = np.array([getattr(rule, name) for rule in rules])
        assert (np.diff(reach) >= 0).all()
        assert reach[-1] > 100
    noise = [r.square_reach * r.target_reach / r.signal for r in rules]
    assert (np.diff(noise) < 0).all()
    noise = [r.square_reach**2 / r.signal for r in rules]
    assert (np.diff(noise) < 0).all()


@every_split
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1e4])
def test_the_events_share_the_budget(epsilon, split):
    X, y = make_table(300)
    model = FeatureDPRegressor(
        epsilon, bounds=BOUNDS, target_bounds=TARGET, solver="one-shot", **split
    )
    events = model.plan(X, y).events
    spent = sum(e.n_steps * (e.sensitivity / e.noise_std[0]) ** 2 for e in events)
    assert spent == pytest.approx(gdp_mu(epsilon, 1e-5) ** 2, rel=1e-6)
    bounds = {
        "cross moments": OuterSum.planned(),
        "second moments": MomentSum.planned(),
    }
    for event in events:
        if event.label in bounds:
            assert event.clip_norm == bounds[event.label].clip_norm


# -- penalties by Stein's lemma -------------------------------------------------------
def noisy_moments(gram, cross, pair_std, cross_std, rng):
    """Return moments with the noise of a release."""
    d = len(cross)
    noise = np.triu(rng.normal(size=(d, d)), 1) * pair_std
    noise += noise.T + np.diag(rng.normal(size=d)) * np.sqrt(2) * pair_std
    return gram + noise, cross + cross_std * rng.normal(size=d)


@pytest.mark.parametrize("penalty", [0.15, 0.5])
def test_the_estimated_risk_is_unbiased(penalty):
    rng = np.random.default_rng(0)
    gram = np.diag([0.6, 0.25, 0.1, 0.05, 0.0])
    cross, pair_std, cross_std = gram @ np.ones(5) * 0.7, 0.06, 0.05
    gaps, plain = [], []
    for _ in range(4000):
        G, c = noisy_moments(gram, cross, pair_std, cross_std, rng)
        values, vectors = np.linalg.eigh(G)
        w, risk = ridge_with_risk(values, vectors.T @ c, penalty, pair_std, cross_std)
        fit = w @ (values * w) / 2 - w @ (vectors.T @ c)
        w = vectors @ w
        exact = w @ gram @ w / 2 - w @ cross
        gaps.append(risk - exact)
        plain.append(fit - exact)
    error = np.std(gaps) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps)) < 3 * error
    assert abs(np.mean(plain)) > 10 * error  # without the lemma it is far off


def test_noise_alone_makes_no_model():
    rng = np.random.default_rng(0)
    gram, norms = np.eye(8) / 8, []
    for _ in range(300):
        G, c = noisy_moments(gram, np.zeros(8), 0.05, 0.1, rng)
        weights, _ = on_noisy(G, c, 0.05, 0.1)
        norms.append(weights @ gram @ weights)
    assert np.mean(norms) < 0.02


def test_no_noise_gives_the_least_squares_solution():
    gram = np.diag([0.6, 0.3, 0.1])
    wanted = np.array([1.0, -1.0, 0.5])
    found, _ = on_noisy(gram, gram @ wanted, 1e-12, 1e-12)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    free = np.full(3, np.nan)
    found, _ = on_exact(gram, (gram @ wanted)[None], 1e-12, free, variance=1.0)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4)
