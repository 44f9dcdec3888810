"""An integer seed, set by habit: it says at once that nothing is guaranteed."""

import json
import pickle
import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skfdp
from skfdp.solvers import NoisyGradientDescent, NoisySGD

SEED = 918_273_645
Y_BOUNDS = {"target_bounds": (0, 1)}
FITS = {
    "logistic": lambda **o: skfdp.FeatureDPLogisticRegression(bounds=(0, 1), **o),
    "label only": lambda **o: skfdp.FeatureDPLogisticRegression(
        public_features="all", bounds=(0, 1), **o
    ),
    "dpsgd_f": lambda **o: skfdp.DPSGDFClassifier(
        bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2), **o
    ),
    "regressor": lambda **o: skfdp.FeatureDPRegressor(bounds=(0, 1), **Y_BOUNDS, **o),
    "network": lambda **o: skfdp.FeatureDPMLPClassifier(
        hidden_layer_sizes=(8,),
        public_target=True,
        bounds=(0, 1),
        solver=NoisySGD(max_iter=2),
        **o,
    ),
    "centring": lambda **o: skfdp.PrivateCenteringTransformer(bounds=(0, 1), **o),
}


def seed_warnings(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [w for w in caught if "random_state" in str(w.message)]


@pytest.mark.parametrize("kind", FITS)
def test_seed_warns_once_at_the_line_of_the_user(kind, small):
    model = FITS[kind](random_state=SEED)
    (warning,) = seed_warnings(lambda: model.fit(*small))
    assert warning.category is skfdp.PrivacyWarning
    assert "NO privacy guarantee" in str(warning.message)
    assert str(SEED) not in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("kind", FITS)
def test_no_seed_no_warning(kind, small):
    assert not seed_warnings(lambda: FITS[kind]().fit(*small))


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


@pytest.fixture(scope="module")
def reports():
    rng = np.random.default_rng(0)
    X = rng.random((300, 60))
    y = (X[:, 0] > 0.5).astype(int)
    more = {"public_features": list(range(50)), "public_target": True}
    return {
        seed: FITS["logistic"](random_state=seed, **more).fit(X, y).privacy_
        for seed in (None, SEED)
    }


def test_seed_shows_wherever_epsilon_does(reports):
    secret, seeded = reports[None], reports[SEED]
    assert "epsilon=void (integer seed)" in repr(seeded)
    assert "void" not in repr(secret)
    assert "(VOID: integer seed)" in seeded.statement().splitlines()[0]
    assert "VOID" not in secret.statement()
    # No sentence says what epsilon would mean.
    text = seeded.statement(full=True)
    assert "user's integer seed" in text and "Any outcome is" not in text
    keys = list(json.loads(seeded.to_json()))
    at = keys.index("epsilon")
    assert keys[at + 1 : at + 3] == ["guarantee", "seeded"]
    assert str(SEED) not in seeded.to_json() + seeded.statement() + repr(seeded)


def test_repr_of_a_report_fits_a_screen(reports):
    text = repr(reports[None])
    assert text.count("\n") < 10 and max(map(len, text.splitlines())) < 80
    for fact in (
        "subject='FeatureDPLogisticRegression'",
        "epsilon=1, delta=1e-05",
        "seeded=False",
        "neighboring_relation='replace_one'",
        "public_features=(0, 1, 2, 3) and 46 more, public_target=True",
        "n_fits=1",
    ):
        assert fact in text
    steps = sum(event.n_steps for event in reports[None].events)
    assert f"n_releases={steps}," in text and steps > 50


def test_reports_compare_and_pickle_by_their_fields(reports):
    secret, seeded = reports[None], reports[SEED]
    assert pickle.loads(pickle.dumps(secret)) == secret != seeded
