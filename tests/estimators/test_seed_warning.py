"""An integer seed, set by habit: it says at once that nothing is guaranteed."""

import warnings

import numpy as np
import pytest
from problems import FITS
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skfdp
from skfdp.solvers import NoisyGradientDescent

SEED = 918_273_645


def fit_of(kind, **given):
    return clone(FITS[kind]).set_params(**given)


def seed_warnings(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [w for w in caught if "random_state" in str(w.message)]


@pytest.mark.parametrize("kind", FITS)
def test_seed_warns_once_at_the_line_of_the_user(kind, named):
    ledger = skfdp.PrivacyLedger()
    model = fit_of(kind, random_state=SEED, ledger=ledger)
    (warning,) = seed_warnings(lambda: model.fit(*named))
    assert warning.category is skfdp.PrivacyWarning
    assert "NO privacy guarantee" in str(warning.message)
    assert str(SEED) not in str(warning.message) and warning.filename == __file__
    assert model.privacy_.seeded and all(event.seeded for event in ledger.events)
    assert str(SEED) not in model.privacy_.to_json() + model.privacy_.statement()
    secret = fit_of(kind)
    assert not seed_warnings(lambda: secret.fit(*named)) and not secret.privacy_.seeded


def test_warning_points_through_pipelines_and_searches(small):
    pipeline = make_pipeline(FunctionTransformer(), fit_of("logistic", random_state=0))
    found = seed_warnings(lambda: pipeline.fit(*small))
    assert [w.filename for w in found] == [__file__]
    found = seed_warnings(lambda: cross_val_score(pipeline, *small, cv=3))
    assert [w.filename for w in found] == [__file__] * 3


def test_a_refused_seed_costs_nothing(small, tmp_path):
    ledger = skfdp.PrivacyLedger(tmp_path / "spent.sqlite", epsilon=2.0, delta=1e-5)
    model = fit_of("logistic", random_state=0, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", skfdp.PrivacyWarning)
        with pytest.raises(skfdp.PrivacyWarning):
            model.fit(*small)
    assert not ledger.entries


def test_without_privacy_a_seed_is_only_a_seed(small):
    model = fit_of("logistic", epsilon=float("inf"), random_state=0)
    assert not seed_warnings(lambda: model.fit(*small))


def test_noise_depends_on_seed_class_and_shape_alone(small, releases):
    X, y = small
    given = {"bounds": (0, 1), "random_state": 7}
    soon = NoisyGradientDescent(max_iter=2)
    # A parameter of another value, or other data, draw the same noise: a seed is for
    # experiments, and a new parameter must not change the figures of old ones.
    other = NoisyGradientDescent(max_iter=2, learning_rate=0.01, momentum=0.1)
    noise = []
    for rows, solver in ((X, soon), (X, other), (X / 2, soon)):
        releases.clear()
        skfdp.FeatureDPLogisticRegression(**given, solver=solver).fit(rows, y)
        noise.append([one["noise"] for one in releases])
    for again in noise[1:]:
        for first, second in zip(noise[0], again, strict=True):
            np.testing.assert_allclose(first, second, atol=1e-6)
