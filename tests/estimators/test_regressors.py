"""The regressors as a user of scikit-learn meets them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.linear_model import PoissonRegressor, Ridge

import skfdp
from skfdp import DPSGDFRegressor, FeatureDPRegressor
from skfdp.data.target import TargetMap
from skfdp.queries.linear import huber
from skfdp.solvers import Huber, NoisyGradientDescent

INFINITE = float("inf")
LOSSES = ["squared_error", "huber", "poisson"]


@pytest.fixture(scope="module")
def linear():
    """1,500 rows in [-1, 1], targets near 100 with a spread of 10; R2 about 0.9."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 5))
    y = 100 + 10 * (X @ [1.0, -1.0, 0.5, 0, 0] + 0.3 * rng.normal(size=1500))
    return X, y


@pytest.fixture(scope="module")
def counts():
    """3,000 rows in [-1, 1] and counts of mean 4."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 4))
    return X, rng.poisson(np.exp(1.2 + X @ [1.0, -0.5, 0.5, 0]))


# -- without privacy ------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [10.0, 60.0, 1e6])
def test_infinite_epsilon_of_huber_is_scipys_minimiser(threshold):
    """The same fixed threshold, in the target's units, and the penalty of Ridge."""
    X, y = load_diabetes(return_X_y=True)
    alpha, loss = 0.1, huber(threshold)

    def objective(w):
        margins = (X @ w[:-1] + w[-1])[:, None]
        residual = loss.residual(margins, y)[:, 0]
        value = loss.value(margins, y).sum() + alpha / 2 * w[:-1] @ w[:-1]
        return value, np.r_[X.T @ residual + alpha * w[:-1], residual.sum()]

    theirs = minimize(
        objective,
        np.r_[np.zeros(10), y.mean()],
        jac=True,
        method="BFGS",
        options={"gtol": 1e-7, "maxiter": 10_000},
    )
    ours = FeatureDPRegressor(
        epsilon=INFINITE, alpha=alpha, loss=Huber(threshold=threshold)
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.x[:-1], rtol=1e-4, atol=1e-3)
    assert ours.intercept_ == pytest.approx(theirs.x[-1], rel=1e-5)
    if threshold == 1e6:
        ridge = Ridge(alpha=alpha).fit(X, y)
        np.testing.assert_allclose(ours.coef_, ridge.coef_, rtol=1e-4)


# -- with privacy ---------------------------------------------------------------------
def fitted(estimator, data, loss="squared_error", **parameters):
    X, y = data
    bounds = (0, 40) if loss == "poisson" else (0, 200)
    given = {"bounds": (-1, 1), "target_bounds": bounds, "loss": loss}
    if loss == "huber":
        given["loss"] = Huber(threshold=5.0)
    return estimator(**{"random_state": 0, **given, **parameters}).fit(X, y)


def test_alpha_shrinks_toward_the_penalised_model(linear):
    given = {"solver": "noisy-gd", "epsilon": 500.0, "bounds": False}
    for public in ({}, {"public_features": "all"}):
        weak, strong = (
            fitted(FeatureDPRegressor, linear, alpha=alpha, **given, **public)
            for alpha in (1e-3, 1000.0)
        )
        assert np.linalg.norm(strong.coef_) < 0.6 * np.linalg.norm(weak.coef_)
    theirs = Ridge(alpha=1000.0).fit(strong.input_scaler_(linear[0]), linear[1])
    np.testing.assert_allclose(strong.coef_, theirs.coef_, atol=0.35)


@pytest.mark.parametrize("public", [{}, {"public_target": True}])
def test_poisson_alpha_is_scikit_learns(public, counts):
    X, y = counts
    given = {
        "epsilon": 2000.0,
        "bounds": False,
        "solver": NoisyGradientDescent(row_norm=2.3, clip_norm=4.0),
    }
    model = fitted(FeatureDPRegressor, counts, "poisson", alpha=0.5, **given, **public)
    theirs = PoissonRegressor(alpha=0.5).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=0.05)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_intercept(loss, counts):
    given = {"fit_intercept": False, "bounds": False, "target_bounds": (0, 40)}
    model = fitted(FeatureDPRegressor, counts, loss, epsilon=50.0, **given)
    assert model.intercept_ == 0
    assert model.coef_.shape == (4,)
    assert np.isfinite(model.predict(counts[0])).all()


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_predictions_are_coef_on_the_input_scaler_within_the_bounds(
    loss, linear, counts
):
    is_linear = loss == "squared_error"
    X, y = linear if is_linear else counts
    low, high = (95, 105) if is_linear else (0, 5)
    model = fitted(
        FeatureDPRegressor, (X, y), loss, epsilon=8.0, target_bounds=(low, high)
    )
    margins = model.input_scaler_(X) @ model.coef_ + model.intercept_
    expected = np.clip(margins if is_linear else np.exp(margins), low, high)
    np.testing.assert_allclose(model.predict(X), expected)
    assert model.predict(X).mean() == pytest.approx(y.clip(low, high).mean(), rel=0.1)
    assert (model.coef_.shape, np.ndim(model.intercept_)) == ((X.shape[1],), 0)
    assert not hasattr(model, "decision_function")


def test_targets_outside_the_bounds_count_as_the_bounds_silently(linear, recwarn):
    X, y = linear
    # Equal data would draw equal noise; the digests differ here, so only the size.
    ours, theirs = (
        fitted(FeatureDPRegressor, (X, values), target_bounds=(80, 110)).predict(X)
        for values in (np.where(y > 110, 1e9, y), np.minimum(y, 110))
    )
    assert np.abs(ours - theirs).max() < 15
    # Seeds warn, whatever the targets are.
    assert not [w for w in recwarn if w.category is not skfdp.PrivacyWarning]


def test_huber_resists_outliers_that_squared_error_follows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 3))
    y = X @ [3.0, 1.0, -2.0] + 0.3 * rng.normal(size=4000)
    y[:400] = 50.0
    given = {"epsilon": 8.0, "bounds": (-1, 1), "target_bounds": (-50, 50)}
    given |= {"solver": NoisyGradientDescent(clip_norm=4.0, learning_rate=10.0)}
    ours, theirs = (
        DPSGDFRegressor(loss=loss, **given).fit(X, y).predict(X[400:]) - y[400:]
        for loss in (Huber(threshold=0.5), "squared_error")
    )
    assert np.abs(ours).mean() < 0.6 * np.abs(theirs).mean()


# -- the report -----------------------------------------------------------------------
def test_the_report_names_the_bounds_as_an_assumption(linear):
    model = fitted(FeatureDPRegressor, linear)
    texts = {a.text: a.enforced for a in model.privacy_.assumptions}
    chosen = [text for text in texts if "target_bounds=(0, 200) were chosen" in text]
    clipped = [text for text in texts if "Every target is clipped" in text]
    assert [texts[text] for text in chosen + clipped] == [False, True]
    assert "coef_" in model.privacy_.released
    assert "every intermediate step of the training" in model.privacy_.released
    assert not any("classes" in text for text in texts)
    public = fitted(FeatureDPRegressor, linear, public_target=True, target_bounds=None)
    assert not any("target_bounds" in a.text for a in public.privacy_.assumptions)


# -- scikit-learn's world -------------------------------------------------------------


def test_the_target_map_and_its_way_back():
    units = TargetMap(centre=5.0, scale=2.0, low=0.0, high=10.0)
    np.testing.assert_allclose(units(np.array([-1.0, 7.0, 99.0])), [-2.5, 1.0, 2.5])
    coef, intercept = units.coefficients(np.array([[3.0]]), np.array([1.0]))
    assert (coef[0, 0], intercept[0]) == (6.0, 7.0)
    log = TargetMap(scale=2.0, log=True)
    coef, intercept = log.coefficients(np.array([[3.0]]), np.array([1.0]))
    assert coef[0, 0] == 3.0
    assert np.exp(intercept[0]) == pytest.approx(2 * np.e)
