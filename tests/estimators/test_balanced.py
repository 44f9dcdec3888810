"""Classes that count as if of one size: what it costs, what it tells, what it is."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, FeatureDPMLPClassifier
from skfdp.audit import audit_replay
from skfdp.data.target import class_shares, log_odds
from skfdp.privacy.events import ASSUMED
from skfdp.solvers import NoisyGradientDescent

RNG = np.random.default_rng(0)
X = RNG.random((400, 3))
Y = (X[:, 0] + 0.2 * RNG.normal(size=400) > 0.85).astype(int)
SEVERAL = Y + (X[:, 1] > 0.9)
GIVEN = {"bounds": (0, 1), "classes": [0, 1], "class_weight": "balanced"}
SOME, ALL = {"public_features": [0]}, {"public_features": "all"}
KNOWN, NULLED = {"public_target": True}, {"neighboring_relation": "replace_special"}
SHORT = {"solver": NoisyGradientDescent(max_iter=3)}
MODELS = {
    "everything private": FeatureDPLogisticRegression(**GIVEN),
    "nulled": FeatureDPLogisticRegression(**NULLED, **GIVEN),
    "Poisson": FeatureDPLogisticRegression(solver="noisy-sgd", **GIVEN),
    "private bounds": FeatureDPLogisticRegression(**GIVEN | {"bounds": "private"}),
    "first model": FeatureDPLogisticRegression(4.0, **SOME, **GIVEN),
    "first model alone": FeatureDPLogisticRegression(0.1, **SOME, **GIVEN),
    "labels": FeatureDPLogisticRegression(**ALL, **GIVEN),
    "labels, nulled": FeatureDPLogisticRegression(**ALL, **NULLED, **GIVEN),
    "labels, descent": FeatureDPLogisticRegression(**ALL, **SHORT, **GIVEN),
    "public target": FeatureDPLogisticRegression(**KNOWN, **SOME, **GIVEN),
    "public target, penalty": FeatureDPLogisticRegression(**KNOWN, C=1.0, **GIVEN),
    "DPSGD-F": DPSGDFClassifier(**GIVEN),
    "network": FeatureDPMLPClassifier(**KNOWN, hidden_layer_sizes=6, **GIVEN),
}
every = pytest.mark.parametrize("name", MODELS)


def constants(model):
    """Return the constant terms of the margins."""
    last = model.intercepts_[-1] if hasattr(model, "intercepts_") else model.intercept_
    return np.asarray(last)


@every
@pytest.mark.parametrize("y", [Y, SEVERAL])
def test_it_costs_nothing_and_moves_the_constant_by_the_log_odds(name, y):
    classes = np.unique(y)
    balanced = clone(MODELS[name]).set_params(classes=classes, random_state=0).fit(X, y)
    plain = clone(balanced).set_params(class_weight=None).fit(X, y)
    assert balanced.privacy_.events == plain.privacy_.events
    told = {one.text: one.enforced for one in balanced.privacy_.assumptions}
    assert (
        told[ASSUMED["class_weight_from_releases"].text]
        and ASSUMED["class_weight_from_releases"] not in plain.privacy_.assumptions
    )
    moved = constants(plain) - constants(balanced)
    if name == "network":
        np.testing.assert_array_equal(balanced.coefs_[0], plain.coefs_[0])
    else:
        np.testing.assert_array_equal(balanced.coef_, plain.coef_)
    exact = log_odds(class_shares(y, len(classes)))
    if "public target" in name or name == "network":
        np.testing.assert_allclose(moved, exact)
    else:  # as far as they are known
        assert np.abs(moved - exact).max() > 1e-6
        assert np.abs(moved).max() < np.log(len(y)) + 1e-9
        if plain.epsilon >= 1 and len(classes) == 2:
            assert np.abs(moved - exact).max() < 1


@every
def test_neighbours_get_the_same_model_of_the_same_releases(name):
    result = audit_replay(MODELS[name], X[:60], Y[:60], n_neighbors=8)
    assert result.passed, result


def test_without_privacy_it_is_that_of_scikit_learn():
    weight = np.ones(400)
    weight[:50] = 2.0
    model = FeatureDPLogisticRegression(float("inf"), **GIVEN)
    model.fit(X, Y, sample_weight=weight)
    counts = np.bincount(Y, weight)
    balance = dict(enumerate(weight.sum() / (2 * counts)))
    wanted = LogisticRegression(class_weight=balance, tol=1e-10)
    wanted.fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-4)
    network = FeatureDPMLPClassifier(float("inf"), **GIVEN).fit(X, Y)
    assert network.predict(X).mean() > Y.mean()


def test_the_table_of_coefficients_moves_with_the_constant():
    big = np.repeat(np.arange(400), 10)
    model = FeatureDPLogisticRegression(8.0, public_features="all", **GIVEN)
    table = model.fit(X[big], Y[big]).coefficients_table()
    last = table.iloc[-1]
    assert abs(last["estimate"] - last["coef"]) < 4 * last["std_error"]
    assert last["low"] < last["estimate"] < last["high"]
