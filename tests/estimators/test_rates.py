"""Regressions with a log link: counts, amounts above 0, amounts of which many are 0."""

import pickle

import numpy as np
import pytest
from sklearn.metrics import d2_tweedie_score

from skfdp import FeatureDPRegressor
from skfdp.kernels.losses import loss_named
from skfdp.solvers import Tweedie

N = 6000
RNG = np.random.default_rng(3)
X = RNG.random((N, 4))
MEAN = np.exp(1 + X @ [1.0, -1.0, 0.5, 0.0])
CLAIMS = RNG.poisson(1.0, N)
#: Amounts above 0, and sums of such amounts, of which a third are 0.
AMOUNTS = RNG.gamma(2.0, MEAN / 2)
SUMS = RNG.gamma(2.0 * np.maximum(CLAIMS, 1), MEAN / 2) * (CLAIMS > 0)
CASES = {
    "gamma": ("gamma", AMOUNTS, 2.0),
    "tweedie": ("tweedie", SUMS, 1.5),
    "power": (Tweedie(power=1.2), SUMS, 1.2),
}


@pytest.mark.parametrize("case", CASES)
def test_a_private_fit_has_the_total_and_the_slopes(case):
    loss, y, power = CASES[case]
    model = FeatureDPRegressor(
        epsilon=3.0, loss=loss, bounds=(0, 1), target_bounds=(0.01, 80), random_state=0
    ).fit(X, y)
    found = model.predict(X)
    assert found.sum() == pytest.approx(y.sum(), rel=0.05)
    best = d2_tweedie_score(y, MEAN * y.mean() / MEAN.mean(), power=power)
    assert d2_tweedie_score(y, found, power=power) > best - 0.02
    rows = model.to_sklearn().predict(X[:50])
    np.testing.assert_allclose(rows, found[:50], rtol=1e-9)


@pytest.mark.parametrize("name", ["gamma", "tweedie", "huber"])
def test_a_loss_is_pickled_with_its_parameter(name):
    loss = loss_named(name, 2.0 if name == "gamma" else 1.2)
    again = pickle.loads(pickle.dumps(loss))
    assert (again.name, again.parameter) == (loss.name, loss.parameter)
    margins, target = RNG.normal(size=(20, 1)), RNG.random(20) + 0.1
    for one in ("value", "residual"):
        parts = (getattr(each, one)(margins, target) for each in (loss, again))
        np.testing.assert_array_equal(*parts)
    assert again.max_residual(0) == loss.max_residual(0)


def test_bounds_decide_which_targets_are_allowed_and_private_ones_are_clipped():
    model = FeatureDPRegressor(loss="gamma", bounds=(0, 1), random_state=0)
    with pytest.raises(ValueError, match=r"target_bounds=\(0, 9\) must be above 0"):
        model.set_params(target_bounds=(0, 9)).fit(X, SUMS)
    model.set_params(target_bounds=(1e-2, 9)).fit(X, np.r_[-1.0, 0.0, SUMS[2:]])
    assert model.predict(X).min() >= 1e-2
    public = {"public_target": True, "public_features": [0], "target_bounds": None}
    with pytest.raises(ValueError, match="y holds non-positive values, for which"):
        model.set_params(**public).fit(X, SUMS)
    with pytest.raises(ValueError, match="y holds negative values, for which"):
        model.set_params(loss=Tweedie()).fit(X, SUMS - 1)
    with pytest.raises(ValueError, match="power=2 must be a number > 1 and < 2"):
        model.set_params(loss=Tweedie(power=2)).fit(X, SUMS)
