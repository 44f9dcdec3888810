"""Refusals in our words: of the right argument, and sending nobody into a leak."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
)
from skfdp.solvers import (
    FeatureDPSGD,
    GaussianCentering,
    Huber,
    NoisyGradientDescent,
    NoisySGD,
    NumpyBackend,
    Pretraining,
    TorchBackend,
)

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning")
X = np.random.default_rng(0).random((20, 2))
Y = np.arange(20) % 2
CLASSIFIER = DPSGDFClassifier(bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2))
ESTIMATORS = {
    "DPSGDFClassifier": CLASSIFIER,
    "DPSGDFRegressor": DPSGDFRegressor(bounds=(0, 1), target_bounds=(0, 1)),
    "FeatureDPLogisticRegression": FeatureDPLogisticRegression(bounds=(0, 1)),
    "FeatureDPRegressor": FeatureDPRegressor(bounds=(0, 1), target_bounds=(0, 1)),
    "FeatureDPMLPClassifier": FeatureDPMLPClassifier(bounds=(0, 1)),
    "PrivateCenteringTransformer": PrivateCenteringTransformer(bounds=(0, 1)),
}


def refusal(estimator, X, y, *more, **fit):
    with pytest.raises((TypeError, ValueError)) as caught:
        estimator.fit(X, y, *more, **fit)
    told = str(caught.value)
    assert "\n" not in told
    return told


@pytest.mark.parametrize("n_jobs", ["2", 1.5, True, 0, None.__class__])
@pytest.mark.parametrize("estimator", [CLASSIFIER, FeatureDPMLPClassifier()])
def test_n_jobs_is_refused_by_name(estimator, n_jobs):
    estimator = type(estimator)(n_jobs=n_jobs, bounds=(0, 1))
    assert "must be None or an int other than 0" in refusal(estimator, X, Y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_mixed_column_labels_say_what_to_do(name):
    frame = pd.DataFrame(X, columns=["a", 1])
    told = refusal(ESTIMATORS[name], frame, Y)
    assert told.startswith("X has column names of several types")
    assert "X.columns.astype(str)" in told


MISSING = {
    "None beside text": [None, *"ab" * 9, "a"],
    "None beside integers": [None, *[0, 1] * 9, 0],
    "None in an array": np.array([None] * 20),
    "NaN beside text": [np.nan, *"ab" * 9, "a"],
    "NaN": np.r_[np.nan, Y[1:]],
    "NA": pd.Series([pd.NA, *[0, 1] * 9, 0]),
    "NA of integers": pd.Series([pd.NA, *[0, 1] * 9, 0], dtype="Int64"),
    "None in a text column": pd.Series([None, *"ab" * 9, "a"]),
    "None in a categorical": pd.Series([None, *"ab" * 9, "a"], dtype="category"),
    "NaT": [pd.NaT, *[0, 1] * 9, 0],
}
#: By name, with a public column; a malformed private value is no error.
WITH_PUBLIC = {
    name: clone(ESTIMATORS[name]).set_params(public_features=[0])
    for name in ESTIMATORS
    if not name.startswith("DPSGDF")
}


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize(
    "name",
    ["FeatureDPLogisticRegression", "FeatureDPRegressor", "FeatureDPMLPClassifier"],
)
def test_missing_public_labels_are_said_of_y(name, kind):
    model = clone(WITH_PUBLIC[name]).set_params(public_target=True)
    told = refusal(model, X, MISSING[kind])
    assert told.startswith("y contains NaN, None or another missing value")


def test_none_among_labels_is_said_of_y():
    told = refusal(
        FeatureDPLogisticRegression(bounds=(0, 1), public_target=True),
        X,
        MISSING["None beside integers"],
    )
    assert told.startswith("y contains NaN, None or another missing value")


@pytest.mark.parametrize("name", WITH_PUBLIC)
def test_missing_values_do_not_send_anybody_to_an_imputer_that_learns(name):
    told = refusal(WITH_PUBLIC[name], X + np.nan, Y)
    assert "strategy='constant'" in told
    assert "without looking at the data" in told
    assert "imputer transformer" not in told
    assert "drop samples" not in told


@pytest.mark.parametrize("where", ["X", "y"])
def test_infinite_values_are_not_to_be_dropped(where):
    bad = np.where(np.arange(20) == 3, np.inf, 1.0)
    told = refusal(
        clone(WITH_PUBLIC["FeatureDPRegressor"]).set_params(public_target=True),
        X + bad[:, None] if where == "X" else X,
        bad if where == "y" else Y,
    )
    assert f"{where} contains infinity" in told
    assert "without looking at the data" in told


@pytest.mark.parametrize("n_rows", [0, 1])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_too_few_rows_in_our_words(name, n_rows):
    told = refusal(ESTIMATORS[name], X[:n_rows], Y[:n_rows])
    assert told.startswith(f"X holds {n_rows} sample(s)")


def test_no_rows_to_predict_in_our_words():
    model = DPSGDFClassifier(
        bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2)
    ).fit(X, Y)
    with pytest.raises(ValueError, match=r"X holds 0 sample\(s\)"):
        model.predict(X[:0])


#: Those that weigh rows, and protect persons.
LINEAR = (
    "DPSGDFClassifier",
    "FeatureDPLogisticRegression",
    "DPSGDFRegressor",
    "FeatureDPRegressor",
)


@pytest.mark.parametrize("name", sorted({*ESTIMATORS} - {*LINEAR}))
def test_sample_weight_is_refused_with_the_reason(name, releases):
    estimator = ESTIMATORS[name]
    told = refusal(estimator, X, Y, sample_weight=np.ones(20))
    assert told == refusal(estimator, X, Y, np.ones(20))
    assert told.startswith(
        f"{name}.fit takes no sample_weight, which only the linear estimators accept: "
    )
    assert not releases
    assert "sample_weight" not in inspect.signature(estimator.fit).parameters


@pytest.mark.parametrize("name", sorted({*ESTIMATORS} - {*LINEAR}))
def test_groups_are_refused_with_those_that_take_them(name, releases):
    told = refusal(ESTIMATORS[name], X, Y, groups=np.arange(20) // 2)
    assert told.startswith(f"{name}.fit takes no groups: only the linear estimators (")
    for linear in LINEAR:
        assert linear in told
        assert "groups" in inspect.signature(getattr(skfdp, linear).fit).parameters
    assert not releases


def test_sample_weight_is_refused_in_a_pipeline():
    steps = make_pipeline(PrivateCenteringTransformer(bounds=(0, 1)))
    weights = {"privatecenteringtransformer__sample_weight": np.ones(20)}
    told = refusal(steps, X, Y, **weights)
    assert "PrivateCenteringTransformer.fit takes no sample_weight" in told


@pytest.mark.parametrize("estimator", [CLASSIFIER, PrivateCenteringTransformer()])
def test_an_epsilon_of_zero_does_not_invite_to_leave_privacy(estimator):
    told = refusal(type(estimator)(epsilon=0), X, Y)
    assert told.startswith("epsilon=0 must be a positive number")
    assert "inf" not in told
    assert "without privacy" not in told


LONG = {
    "Series": pd.Series(range(50)),
    "frame": pd.DataFrame(X),
    "array": np.arange(3000.0),
    "function": lambda: None,
    "object": object(),
}
PARAMETERS = [
    (DPSGDFClassifier, name)
    for name in (
        *("epsilon", "delta", "neighboring_relation", "bounds", "C", "solver", "loss"),
        *("fit_intercept", "class_weight", "centering", "ledger", "classes", "schema"),
        *("random_state", "n_jobs"),
    )
]
PARAMETERS += [
    *((FeatureDPLogisticRegression, name) for name in ("solver", "public_target")),
    (FeatureDPLogisticRegression, "public_model"),
    *((DPSGDFRegressor, name) for name in ("target_bounds", "alpha")),
    *((FeatureDPMLPClassifier, name) for name in ("hidden_layer_sizes", "pretraining")),
    (FeatureDPMLPClassifier, "backend"),
]
#: Those of algorithms: the estimator, its parameter, the class of the object.
ALGORITHMS = [
    (DPSGDFClassifier, "solver", NoisySGD),
    (DPSGDFClassifier, "centering", GaussianCentering),
    (DPSGDFRegressor, "loss", Huber),
    (FeatureDPLogisticRegression, "solver", FeatureDPSGD),
    (FeatureDPMLPClassifier, "pretraining", Pretraining),
    (FeatureDPMLPClassifier, "backend", NumpyBackend),
    pytest.param(
        FeatureDPMLPClassifier,
        "backend",
        TorchBackend,
        marks=pytest.mark.extra("torch"),
    ),
]


def check_message(cls, name, **more):
    told = refusal(cls(**{"bounds": (0, 1)} | more), X, Y)
    assert name in told
    assert " at 0x" not in told
    assert len(told) < 400


@pytest.mark.parametrize("value", LONG)
@pytest.mark.parametrize(("estimator", "name"), PARAMETERS)
def test_no_error_prints_a_series_or_an_address(estimator, name, value):
    if name == "classes" and value in ("Series", "array"):
        return  # a list of labels
    check_message(estimator, name, **{name: LONG[value]})


@pytest.mark.parametrize("value", LONG)
@pytest.mark.parametrize(("estimator", "parameter", "algorithm"), ALGORITHMS)
def test_nor_does_one_of_an_algorithm(estimator, parameter, algorithm, value):
    for name in algorithm().get_params():
        if not (name == "public_loss" and value == "function"):
            given = algorithm(**{name: LONG[value]})
            check_message(estimator, name, **{parameter: given})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_warnings_point_at_the_line_that_called_the_fit(name):
    estimator = type(ESTIMATORS[name])(
        **{**ESTIMATORS[name].get_params(deep=False), "bounds": None, "delta": 0.1}
    )
    with pytest.warns(UserWarning, match="bounds=None|publish a random") as caught:
        estimator.fit(X, Y)
    ours = [
        w for w in caught if "bounds=None" in str(w.message) or "a random" in str(w)
    ]
    assert {one.filename for one in ours} == {__file__}
