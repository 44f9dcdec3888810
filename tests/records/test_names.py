"""Names of columns: in frames of every library, and of integers."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from problems import FITS
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

import skfdp
from skfdp.inspection import EffectsDisplay

X = pd.DataFrame(np.random.default_rng(0).random((200, 3)), columns=["a", "b", "c"])
Y = (X["a"] > 0.5).astype(int)


def batch(frame):
    return pa.Table.from_pandas(frame).to_batches()[0]


def dask(frame):
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)


@pytest.mark.filterwarnings("error:X does not have valid feature names")
@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize(
    "kind", [batch, pytest.param(dask, marks=pytest.mark.extra("dask"))]
)
def test_g02_columns_in_another_order_are_refused(name, kind):
    model = clone(FITS[name]).fit(X, Y)
    verbs = [
        getattr(model, verb)
        for verb in ("predict", "predict_proba", "decision_function", "transform")
        if hasattr(model, verb)
    ]
    for call in verbs:
        np.testing.assert_array_equal(call(kind(X)), call(X))
        with pytest.raises(ValueError, match="feature names"):
            call(kind(X[["c", "b", "a"]]))


def test_g02_a_model_of_a_record_batch_has_its_names():
    model = clone(FITS["logistic"]).fit(batch(X), Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["c", "b", "a"]])


@pytest.mark.parametrize(
    "labels", [[2, 0, 1], [1, 2, 3], [np.int64(1), np.int64(0), 2]]
)
def test_g03_integer_keys_of_bounds_are_ambiguous_as_in_public_features(labels):
    frame = X.set_axis(labels, axis=1)
    for given in ({"bounds": {0: (0, 1)}}, {"bounds": (0, 1), "public_features": [0]}):
        model = skfdp.FeatureDPLogisticRegression(classes=[0, 1], **given)
        with pytest.raises(ValueError, match="could mean labels or positions"):
            model.fit(frame, Y)


@pytest.mark.parametrize("kind", [skfdp.FeatureDPRegressor, skfdp.DPSGDFRegressor])
def test_g03_integers_that_are_positions_are_read(kind):
    given = {"bounds": {0: (0, 1), 1: (0, 1), 2: (0, 1)}, "target_bounds": (0, 1)}
    for table in (X, X.set_axis(range(3), axis=1), X.to_numpy(), batch(X)):
        assert kind(**given).fit(table, Y).n_features_in_ == 3
    odd = X.set_axis(["1", "0", "2"], axis=1)
    with pytest.raises(ValueError, match="bounds holds the index 0, and another"):
        kind(**given).fit(odd, Y)


def test_g12_effects_beside_a_public_model_of_trees_say_what_they_leave_out():
    trees = HistGradientBoostingClassifier(max_iter=5)
    given = {"public_features": ["a", "b"], "public_target": True, "bounds": (0, 1)}
    model = skfdp.FeatureDPLogisticRegression(3.0, public_model=trees, **given).fit(
        X, Y
    )
    with pytest.warns(skfdp.UtilityWarning, match="public_model=HistGradientBoosting"):
        EffectsDisplay.from_estimator(model)
    last = model.coefficients_table().tail(2)
    assert last["feature"].to_list() == ["public model (public_model_)", "intercept"]
    assert last["coef"].to_list() == [1.0, *model.intercept_]
    linear = skfdp.FeatureDPLogisticRegression(3.0, **given).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linear.coefficients_table()
