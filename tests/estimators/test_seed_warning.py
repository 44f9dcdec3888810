"""An integer seed, set by habit: it says at once that nothing is guaranteed.

It repeats a fit, whatever parameters are added to the estimators later.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skfdp
from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression
from skfdp.solvers import NoisyGradientDescent, NoisySGD

SEED = 918_273_645

LOGISTIC = partial(FeatureDPLogisticRegression, bounds=(0, 1))
NETWORK = {"hidden_layer_sizes": (8,), "public_target": True, "bounds": (0, 1)}
NETWORK |= {"solver": NoisySGD(max_iter=2)}
FITS = {
    "logistic": LOGISTIC,
    "label only": partial(LOGISTIC, public_features="all"),
    "dpsgd_f": partial(DPSGDFClassifier, bounds=(0, 1)),
    "regressor": partial(skfdp.FeatureDPRegressor, bounds=(0, 1), target_bounds=(0, 1)),
    "network": partial(skfdp.FeatureDPMLPClassifier, **NETWORK),
    "centring": partial(skfdp.PrivateCenteringTransformer, bounds=(0, 1)),
}


def seed_warnings(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [w for w in caught if "random_state" in str(w.message)]


@pytest.mark.parametrize("kind", FITS)
def test_seed_warns_once_at_the_line_of_the_user(kind, named):
    ledger = skfdp.PrivacyLedger()
    model = FITS[kind](random_state=SEED, ledger=ledger)
    (warning,) = seed_warnings(lambda: model.fit(*named))
    assert warning.category is skfdp.PrivacyWarning
    assert "NO privacy guarantee" in str(warning.message)
    assert str(SEED) not in str(warning.message) and warning.filename == __file__
    assert model.privacy_.seeded and all(event.seeded for event in ledger.events)
    assert str(SEED) not in model.privacy_.to_json() + model.privacy_.statement()
    secret = FITS[kind]()
    assert not seed_warnings(lambda: secret.fit(*named)) and not secret.privacy_.seeded


def test_warning_points_through_pipelines_and_searches(small):
    pipeline = make_pipeline(FunctionTransformer(), FITS["logistic"](random_state=0))
    found = seed_warnings(lambda: pipeline.fit(*small))
    assert [w.filename for w in found] == [__file__]
    found = seed_warnings(lambda: cross_val_score(pipeline, *small, cv=3))
    assert [w.filename for w in found] == [__file__] * 3


def test_a_refused_seed_costs_nothing(small, tmp_path):
    ledger = skfdp.PrivacyLedger(tmp_path / "spent.sqlite", epsilon=2.0, delta=1e-5)
    model = FITS["logistic"](random_state=0, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", skfdp.PrivacyWarning)
        with pytest.raises(skfdp.PrivacyWarning):
            model.fit(*small)
    assert not ledger.entries


def test_without_privacy_a_seed_is_only_a_seed(small):
    model = FITS["logistic"](epsilon=float("inf"), random_state=0)
    assert not seed_warnings(lambda: model.fit(*small))


# -- the streams ----------------------------------------------------------------------
SOON = NoisyGradientDescent(max_iter=2)
SETTINGS = {"bounds": (0, 1), "random_state": 7, "solver": SOON}


def noise_of(estimator, X, y, releases):
    releases.clear()
    estimator.fit(X, y)
    return [one["noise"] for one in releases]


def test_noise_depends_on_seed_class_and_shape_alone(small, releases):
    X, y = small
    base = noise_of(FeatureDPLogisticRegression(**SETTINGS), X, y, releases)
    # A parameter of another value, or other data, draw the same noise: a seed is for
    # experiments, and a new parameter must not change the figures of old ones.
    solver = NoisyGradientDescent(max_iter=2, learning_rate=0.01, momentum=0.1)
    other = FeatureDPLogisticRegression(**SETTINGS | {"solver": solver})
    for again in (
        noise_of(other, X, y, releases),
        noise_of(FeatureDPLogisticRegression(**SETTINGS), X / 2, y, releases),
    ):
        for first, second in zip(base, again, strict=True):
            np.testing.assert_allclose(first, second, atol=1e-6)
    reseeded = FeatureDPLogisticRegression(**SETTINGS | {"random_state": 8})
    for found in (
        noise_of(reseeded, X, y, releases),
        noise_of(DPSGDFClassifier(**SETTINGS), X, y, releases),
    ):
        assert not any(np.array_equal(base[-1], one) for one in found)
