"""The ends of the budget: nothing is worse than what is free, and much is learnt."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import d2_tweedie_score, log_loss

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor
from skfdp.solvers import Huber

N, D = 3000, 6
SPLITS = {
    "all private": {},
    "public columns": {"public_features": [0, 1, 2]},
    "public target": {"public_target": True},
    "public columns and target": {"public_features": [0, 1, 2], "public_target": True},
    "label-DP": {"public_features": "all"},
    "label-DP by descent": {"public_features": "all", "solver": "noisy-gd"},
}
each = pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
both = pytest.mark.parametrize(
    "n_classes", [pytest.param(2, marks=pytest.mark.nightly), 3]
)


def table(n_classes):
    """Return columns in [0, 1] and labels of unequal classes, twice as many rows."""
    rng = np.random.default_rng(n_classes)
    X = rng.random((2 * N, D))
    X[:, 3:] = X[:, 3:] > 0.7
    margins = X @ rng.normal(size=(D, n_classes)) * 2
    margins += rng.gumbel(size=(2 * N, n_classes)) + np.eye(n_classes)[0]
    return X, margins.argmax(axis=1)


def fitted(split, n_classes, epsilon, seed):
    (X, y), given = table(n_classes), {"bounds": (0, 1), "random_state": seed, **split}
    return FeatureDPLogisticRegression(epsilon, **given).fit(X[:N], y[:N])


@pytest.mark.slow
@both
@each
def test_a_classifier_goes_from_what_is_free_to_scikit_learns_model(split, n_classes):
    """The classes alike, where nothing is known of them; frequencies; a free model."""
    X, y = table(n_classes)

    def loss_of(model, columns=D):
        return log_loss(y[N:], model.predict_proba(X[N:, :columns]))

    free = np.log(n_classes)
    if split.get("public_target"):
        free = log_loss(y[N:], np.tile(np.bincount(y[:N]) / N, (N, 1)))
    if split.get("public_target") and "public_features" in split:
        free = loss_of(LogisticRegression().fit(X[:N, :3], y[:N]), 3)
    # One-shot keeps a prior for class frequencies, and some noise with it.
    room = 0.05 if split == SPLITS["label-DP"] else 0.02
    hopeless = [loss_of(fitted(split, n_classes, 1e-3, seed)) for seed in range(3)]
    assert np.mean(hopeless) < free + room
    theirs = LogisticRegression(C=1e6, max_iter=10_000).fit(X[:N], y[:N])
    ours = fitted(split, n_classes, 1e5, 0)
    assert loss_of(ours) < 1.02 * loss_of(theirs)
    assert ours.score(X[N:], y[N:]) > theirs.score(X[N:], y[N:]) - 0.003


# -- regressions -----------------------------------------------------------------------
def numbers(loss):
    """Return columns in [0, 1], and numbers or overdispersed counts of them."""
    rng = np.random.default_rng(7)
    X = rng.random((2 * N, D))
    score = X @ [1.0, 0.5, 0, 2, -0.5, 1]
    if loss == "poisson":
        return X, rng.poisson(np.exp(score / 2) * rng.gamma(4, 1 / 4, 2 * N))
    return X, 50 + 20 * score + 5 * rng.normal(size=2 * N)


def d2(model, X, y, loss):
    found = np.maximum(model.predict(X[N:]), 1e-9)
    return d2_tweedie_score(y[N:], found, power=int(loss == "poisson"))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_error", "huber", "poisson"])
@pytest.mark.parametrize("split", [s for s in SPLITS if "descent" not in s])
def test_a_regression_goes_from_what_is_free_to_the_optimum(split, loss):
    X, y = numbers(loss)
    given = {"loss": Huber(threshold=30.0) if loss == "huber" else loss}
    given |= {"bounds": (0, 1), "target_bounds": (0, 200), "random_state": 0}
    model = FeatureDPRegressor(**given, **SPLITS[split])
    scores, free = [], 0.0
    for epsilon in (1e-2, 1.0, 1e4):
        model.set_params(epsilon=epsilon).fit(X[:N], y[:N])
        scores.append(d2(model, X, y, loss))
        assert model.privacy_.epsilon <= epsilon
    best = PoissonRegressor(alpha=0) if loss == "poisson" else Ridge(1e-6)
    best.fit(X[:N], y[:N])
    assert scores[0] < scores[2] and scores[2] > d2(best, X, y, loss) - 0.01
    if model.public_target:
        if model.public_features is not None:
            alone = clone(best).fit(X[:N, :3], y[:N])
            free = alone.score(X[N:, :3], y[N:])
        assert scores[0] > free - 0.1
