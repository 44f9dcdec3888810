"""What everybody does first, in a minute; also run with the oldest dependencies."""

import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import skfdp
from skfdp.solvers import NoisyGradientDescent, NoisySGD

ROOT = Path(__file__).resolve().parents[1]
OLDEST = ROOT / ".ci" / "oldest.txt"
COLUMNS = ["age", "weight", "dose", "score"]
STEPS = NoisyGradientDescent(max_iter=4)
FIXED = {"bounds": (0, 1), "random_state": 3}
SHARED = {"public_features": ["age", "dose"], **FIXED}
PREDICTORS = {
    "dpsgd-f": skfdp.DPSGDFClassifier(solver=STEPS, **FIXED),
    "feature-dp": skfdp.FeatureDPLogisticRegression(solver=STEPS, **SHARED),
    "public target": skfdp.FeatureDPLogisticRegression(public_target=True, **SHARED),
    "one release": skfdp.FeatureDPLogisticRegression(
        solver="one-shot", C=1.0, **SHARED | {"public_features": "all"}
    ),
    "network": skfdp.FeatureDPMLPClassifier(
        50.0, hidden_layer_sizes=(4,), solver=NoisySGD(max_iter=4), **SHARED
    ),
    "dpsgd-f regressor": skfdp.DPSGDFRegressor(
        target_bounds=(0, 1), solver=STEPS, **FIXED
    ),
    "feature-dp regressor": skfdp.FeatureDPRegressor(target_bounds=(0, 1), **SHARED),
}
CENTRING = skfdp.PrivateCenteringTransformer(**FIXED)
each = pytest.mark.parametrize("model", PREDICTORS.values(), ids=PREDICTORS)
METHODS = ("decision_function", "predict_proba", "predict_log_proba", "predict")


@pytest.fixture
def people(small):
    X, y = small
    return pd.DataFrame(X, columns=COLUMNS), y


def predictions(model, X):
    return [getattr(model, name)(X) for name in METHODS if hasattr(model, name)]


def assert_same(found, expected):
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


# -- versions -------------------------------------------------------------------------
@pytest.mark.skipif(not OLDEST.is_file(), reason=".ci is not beside the tests")
def test_the_oldest_versions_are_the_lower_ends_of_the_ranges():
    ranges = re.findall(r'"([\w-]+)>=([\d.]+)', (ROOT / "setup.py").read_text())
    lines = OLDEST.read_text(encoding="utf-8").splitlines()
    assert lines[1:] == sorted({f"{name}=={end}" for name, end in ranges})


# -- scikit-learn's tools -------------------------------------------------------------
@each
def test_a_grid_search_charges_every_fit(model, people):
    ledger = skfdp.PrivacyLedger()
    steps = make_pipeline(FunctionTransformer(), clone(model))
    name = steps.steps[-1][0]
    steps.set_params(**{f"{name}__ledger": ledger, f"{name}__random_state": None})
    search = GridSearchCV(steps, {f"{name}__epsilon": [0.5, 1.0]}, cv=KFold(2))
    search.fit(*people)
    assert search.best_params_[f"{name}__epsilon"] in (0.5, 1.0)
    assert skfdp.report(ledger, delta=1e-5).n_fits == 2 * 2 + 1  # and the refit
    with pytest.raises(ValueError, match="pass this ledger to report"):
        skfdp.report(search)
    assert search.score(*people) == search.best_estimator_.score(*people)


@each
def test_frames_of_polars_are_frames(model, people):
    polars = pytest.importorskip("polars")
    frame, y = people
    theirs = polars.DataFrame({name: frame[name].to_numpy() for name in frame})
    ours, found = (
        clone(model).fit(table, target)
        for table, target in (
            (frame, pd.Series(y, name="ill")),
            (theirs, polars.Series("ill", y)),
        )
    )
    assert [*found.feature_names_in_] == COLUMNS
    assert found.privacy_.public_features == ours.privacy_.public_features
    assert found.privacy_.target_name == "ill"
    assert_same(predictions(found, theirs), predictions(ours, frame))


@each
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_steps_with_named_output_before_a_private_one(library, model, people):
    pytest.importorskip(library)
    frame, y = people
    frame = frame.assign(sex=np.where(np.arange(len(frame)) % 3, "F", "M"))
    sexes = OneHotEncoder(categories=[["F", "M"]], sparse_output=False)
    parts = [("numbers", "passthrough", COLUMNS), ("sex", sexes, ["sex"])]
    encoder = ColumnTransformer(parts, verbose_feature_names_out=False)
    encoder.set_output(transform=library)
    steps = make_pipeline(encoder, clone(model)).fit(frame, y)
    assert [*steps[-1].feature_names_in_] == [*COLUMNS, "sex_F", "sex_M"]
    shown = set(steps[-1].privacy_.public_features or ())
    assert shown <= set(steps[-1].feature_names_in_)
    assert all(np.isfinite(told).all() for told in predictions(steps, frame)[:1])


# -- files ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "model", [*PREDICTORS.values(), CENTRING], ids=[*PREDICTORS, "centring"]
)
def test_models_come_back_from_pickle_and_skops(model, people):
    skops = pytest.importorskip("skops.io")
    frame, y = people
    model = clone(model).fit(frame, y)
    raw = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=raw)
    assert {name.partition(".")[0] for name in trusted} == {"skfdp"}
    for again in (skops.loads(raw, trusted=trusted), pickle.loads(pickle.dumps(model))):
        if hasattr(model, "transform"):
            assert_same([again.transform(frame)], [model.transform(frame)])
        else:
            assert_same(predictions(again, frame), predictions(model, frame))
        assert again.privacy_ == model.privacy_
        assert again.get_params(deep=False).keys() == model.get_params(False).keys()


# -- the command line -----------------------------------------------------------------
def test_the_main_job_runs(capsys):
    from skfdp.cli import main

    assert main(["--epsilon", "1"]) == 0
    out = capsys.readouterr().out
    assert "PRIVACY STATEMENT" in out and "epsilon 1 at delta 1e-05" in out
