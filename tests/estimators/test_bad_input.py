"""Every refusal: one sentence, with name, value, expectation and remedy."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
)
from skfdp.privacy import AddOrRemoveOne
from skfdp.solvers import (
    FeatureDPSGD,
    GaussianCentering,
    Huber,
    NoisyGradientDescent,
    NoisySGD,
)

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning")
EVERY = (DPSGDFClassifier, FeatureDPLogisticRegression, PrivateCenteringTransformer)
BOTH = (DPSGDFClassifier, FeatureDPLogisticRegression)
DPSGDF, FEATURE = (DPSGDFClassifier,), (FeatureDPLogisticRegression,)
REGRESSORS, LAST = (DPSGDFRegressor, FeatureDPRegressor), (FeatureDPRegressor,)
COUNTED = {"neighboring_relation": AddOrRemoveOne(300)}
SHOT = {"solver": "one-shot"}

PARAMETERS = [
    (EVERY, {"epsilon": 0}, "epsilon=0 must be a positive number"),
    (EVERY, {"epsilon": -1.0}, "epsilon=-1.0 must be a positive number"),
    (EVERY, {"epsilon": "1"}, "epsilon='1' must be a positive number"),
    (EVERY, {"epsilon": float("nan")}, "epsilon=nan must be a positive number"),
    (EVERY, {"delta": 0}, "delta=0 must be a number strictly between 0 and 1"),
    (EVERY, {"delta": 1}, "delta=1 must be a number strictly between 0 and 1"),
    (EVERY, {"neighboring_relation": "other"}, "neighboring_relation='other' is unk"),
    (EVERY, {"neighboring_relation": "add_or_remove_one"}, "give n_records"),
    (EVERY, {"n_records": 5}, "n_records=5 is only for"),
    (
        EVERY,
        {"solver": NoisyGradientDescent(row_norm=0)},
        "feature_bound=0 must be a number > 0",
    ),
    (EVERY, {"bounds": (1, 0)}, "must satisfy low < high"),
    (EVERY, {"random_state": "x"}, "random_state='x' must be None"),
    (EVERY, {"ledger": 3}, "ledger"),
    (
        BOTH,
        {"solver": NoisyGradientDescent(clip_norm=-1)},
        "clip_norm=-1 must be a number > 0 or 'auto'",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(clip_norm=np.inf)},
        "clip_norm=inf must be a number > 0",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(max_iter=0)},
        "max_iter=0 must be an int > 0 or 'auto'",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(max_iter=2.5)},
        "max_iter=2.5 must be an int",
    ),
    (
        BOTH,
        {"solver": NoisySGD(batch_size=0)},
        "batch_size=0 must be an int > 0 or 'auto' or None",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(learning_rate="fast")},
        "learning_rate='fast' must be a number",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(momentum=1.0)},
        "momentum=1.0 must be a number >= 0 and < 1",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(iterate="median")},
        "average='median' is unknown",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(noise_decay=-1)},
        "noise_decay=-1 must be a number >= 0",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(max_weight_norm=0)},
        "radius=0 must be a number > 0 or None",
    ),
    (BOTH, {"C": 0}, "C=0 must be a number > 0 or 'auto'"),
    (BOTH, {"class_weight": "balanced"}, "'balanced' would read the label counts"),
    (BOTH, {"class_weight": {5: 1.0}}, "class_weight names the label 5"),
    (BOTH, {"class_weight": {0: -1.0}}, r"class_weight\[0\]=-1.0 must be a number"),
    (BOTH, {"classes": [0]}, "must hold at least two labels"),
    (BOTH, {"classes": range(2**15 + 1)}, "more than 32768 labels: merge rare ones"),
    (BOTH, {"classes": [1, 2], "on_invalid": "raise"}, "labels outside `classes`"),
    (BOTH, {"classes": ["a", "b"]}, "differ in type"),
    (EVERY, {"on_invalid": "drop"}, "on_invalid='drop' is unknown"),
    (DPSGDF, {"loss": "squared_error"}, "loss='squared_error' is unknown"),
    (DPSGDF, {"centering": "exact"}, "centering='exact' is unknown"),
    (
        DPSGDF,
        {"centering": GaussianCentering(budget_share=1.0)},
        "mean_fraction=1.0 must be a number > 0 and < 1",
    ),
    (FEATURE, {"solver": "lbfgs"}, "solver='lbfgs' is unknown"),
    (
        FEATURE,
        {"solver": FeatureDPSGD(public_loss="mean")},
        "public_loss='mean' is unknown",
    ),
    (FEATURE, {"public_target": "yes"}, "public_target='yes' is unknown"),
    (
        FEATURE,
        {"solver": FeatureDPSGD(public_batch_size=0)},
        "public_batch_size=0 must be an int",
    ),
    (
        FEATURE,
        {"solver": FeatureDPSGD(gradient_scale=0)},
        "private_weight=0 must be a number > 0",
    ),
    (
        FEATURE,
        {"solver": FeatureDPSGD(padding_scale=-1)},
        "padding_scale=-1 must be a number >= 0",
    ),
    (FEATURE, {"solver": NoisySGD(batch_size=9)}, "contradicts solver='dp-gd'"),
    (FEATURE, {"public_features": ["a"]}, "set_output"),
    (FEATURE, {"public_features": [7]}, "index 7"),
    (FEATURE, {"public_features": [1, 1]}, "twice"),
    (FEATURE, {"public_features": "all", "public_target": True}, "nothing to protect"),
    (FEATURE, {"public_features": [0], **COUNTED}, "nothing of them can be public"),
    (FEATURE, {"public_target": True, **COUNTED}, "nothing of them can be public"),
    (
        FEATURE,
        {"solver": FeatureDPSGD(public_loss="gaussian"), **COUNTED},
        "whose number is private under",
    ),
    (
        DPSGDF,
        {"solver": NoisyGradientDescent(clip_norm=1e-172)},
        "must lie between 1e-30 and 1e.30",
    ),
    (
        DPSGDF,
        {"solver": NoisyGradientDescent(clip_norm=1e40)},
        "must lie between 1e-30 and 1e.30",
    ),
    # Found by fuzzing.
    (EVERY, {"bounds": (0, 10**400)}, "bounds=<tuple> must be a pair"),
    (EVERY, {"bounds": {0: (np.zeros(3), 1)}}, "bounds.0. must be a pair|bounds.0.="),
    (
        EVERY,
        {"solver": NoisyGradientDescent(row_norm=np.timedelta64(3, "s"))},
        "feature_bound=.*a number > 0",
    ),
    (EVERY, {"epsilon": np.timedelta64(3, "s")}, "epsilon=.* must be a positive"),
    (
        BOTH,
        {"solver": NoisyGradientDescent(learning_rate=np.timedelta64(3, "s"))},
        "must be a number > 0",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(max_iter=np.timedelta64(3, "s"))},
        "must be an int > 0",
    ),
    (
        EVERY,
        {"solver": NoisyGradientDescent(normalize=pd.NA)},
        "normalize=.*(must be True or False|is unknown)",
    ),
    (
        BOTH,
        {"solver": NoisyGradientDescent(normalize="no")},
        "normalize='no' must be True or False",
    ),
    (BOTH, {"fit_intercept": pd.NA}, "fit_intercept=.* must be True or False"),
    (FEATURE, {"public_features": slice(0, 2, 0)}, "a step other than 0"),
    (REGRESSORS, {"target_bounds": None}, "target_bounds=None: a private target needs"),
    (REGRESSORS, {"target_bounds": 3.0}, "target_bounds=3.0 must be a pair"),
    (REGRESSORS, {"target_bounds": (1, 1)}, r"target_bounds=\(1, 1\) must be a pair"),
    (REGRESSORS, {"target_bounds": (0, np.inf)}, "must be a pair .* of finite numbers"),
    (REGRESSORS, {"target_bounds": ("a", "b")}, "must be a pair"),
    (REGRESSORS, {"target_bounds": (0, 10**400)}, "must be a pair"),
    (REGRESSORS, {"target_bounds": (-1, 5), "loss": "poisson"}, "must not be negative"),
    (REGRESSORS, {"loss": "log_loss"}, "loss='log_loss' is unknown"),
    (
        REGRESSORS,
        {"loss": Huber(threshold=0)},
        "huber_threshold=0 must be a number > 0",
    ),
    (REGRESSORS, {"alpha": -1}, "alpha=-1 must be a number >= 0 or 'auto'"),
    (
        REGRESSORS,
        {"solver": NoisyGradientDescent(row_norm="wide")},
        "feature_bound='wide' must be a number",
    ),
    (LAST, {**SHOT, "loss": "huber"}, "loss='huber' is not for solver='one-shot'"),
    (LAST, {**SHOT, "loss": "poisson"}, "with solver='one-shot' is label-DP"),
    (
        LAST,
        {"solver": NoisySGD(batch_size=9), **SHOT},
        "batch_size=9 is not for solver='one-shot'",
    ),
]


@pytest.mark.parametrize(
    ("estimator", "parameters", "message"),
    [(cls, kw, message) for classes, kw, message in PARAMETERS for cls in classes],
    ids=lambda part: None if isinstance(part, str) else "",
)
def test_bad_parameters(estimator, parameters, message, small, releases):
    needed = {"target_bounds": (0, 1)} if estimator in REGRESSORS else {}
    model = estimator(**needed | parameters)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*small)
    assert not releases
    assert not model.__sklearn_is_fitted__()


def column(value, dtype=object):
    X = np.ones((10, 2), dtype=dtype)
    X[3, 1] = value
    return X


class Opaque:
    """A value that refuses to be a number, loudly."""

    def __float__(self):
        raise ValueError("secret")


SECRET = 4242.5
Y = np.arange(10) % 2
INPUTS = [
    (column(np.nan, float), Y, "contains NaN"),
    (column(np.inf, float), Y, "contains infinity"),
    (column("secret"), Y, "X holds values that are not numbers"),
    (np.array([["secret", "b"]] * 10), Y, "X holds values|not compatible|convert"),
    (column(Opaque()), Y, "X holds values that are not numbers"),
    (column({"secret": 1}), Y, "must be a string or a number"),
    (np.full(10, SECRET), Y, "Expected 2D array as X"),
    (np.full((10, 2, 1), SECRET), Y, "Found array with dim 3"),
    (column(1j, complex), Y, "Complex data not supported"),
    (sp.csr_array(np.full((10, 2), np.nan)), Y, "Input X contains NaN"),
    (np.ones((1, 2)), Y[:1], "1 sample"),
    (np.ones((10, 0)), Y, r"0 feature\(s\)"),
    (np.ones(10), Y, "Expected 2D array"),
    (np.ones((10, 2)), Y[:9], "inconsistent numbers of samples"),
    (np.ones((10, 2)), np.zeros(10), "one class only"),
    (np.ones((10, 2)), np.r_[np.nan, Y[1:]], "NaN"),
    (np.ones((10, 2)), ["a", np.nan, *"secret"[:4], *"abcd"], "y contains NaN"),
    (np.ones((10, 2)), SECRET + np.arange(10) / 7, "Unknown label type"),
    (np.ones((10, 2)), None, "requires y to be passed"),
]


ONES = np.ones((10, 2))
REGRESSION = {"target_bounds": (0, 1), "loss": "squared_error"}
TARGETS = [
    ({}, ["secret"] * 10, "y holds values that are not numbers"),
    ({}, np.array([Opaque()] * 10), "y holds values that are not numbers"),
    ({}, np.r_[np.nan, Y[1:]], "NaN"),
    ({"loss": "huber"}, np.r_[SECRET, np.inf, Y[2:]], "infinity"),
    ({}, None, "requires y to be passed"),
    ({}, np.full((10, 2), SECRET), "1d array"),
    (
        {"public_target": True, "target_bounds": None, "loss": "poisson"},
        np.r_[-SECRET, Y[1:]],
        "y holds negative values: loss='poisson'",
    ),
    (
        {"epsilon": np.inf, "target_bounds": None, "loss": "poisson"},
        np.r_[-SECRET, Y[1:]],
        "y holds negative values: loss='poisson'",
    ),
]
MALFORMED = [(kind(), X, y, message) for kind in BOTH for X, y, message in INPUTS]
MALFORMED += [
    (FeatureDPRegressor(**REGRESSION | changes), ONES, y, message)
    for changes, y, message in TARGETS
]
MALFORMED += [
    (
        DPSGDFClassifier(classes=["a", "b"]),
        ONES,
        np.array(["a", "secret"] * 5),
        "labels outside",
    ),
    (
        DPSGDFClassifier(),
        ONES,
        np.array(["secret", 1] * 5, dtype=object),
        "labels of several types",
    ),
]


@pytest.mark.parametrize(("model", "X", "y", "message"), MALFORMED)
def test_malformed_input_is_refused_without_a_datum(model, X, y, message, releases):
    model = clone(model).set_params(bounds=(0, 1), on_invalid="raise")
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        model.fit(X, y)
    # Loggers may write out a context even where a traceback would suppress it.
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    text = " ".join(str(error) for error in chain if error is not None)
    assert "secret" not in text
    assert "4242" not in text
    assert not releases


@pytest.mark.parametrize("occurring", [2, 8])
def test_how_many_classes_occur_is_not_told(occurring, recwarn):
    y = np.arange(10) % occurring
    DPSGDFClassifier(bounds=(0, 1), classes=range(10)).fit(np.eye(10), y)
    assert not [w for w in recwarn if "classes" in str(w.message)]


def test_object_columns_that_are_numbers_are_accepted(small):
    X, y = small
    model = DPSGDFClassifier(bounds=(0, 1), random_state=0).fit(X.astype(object), y)
    np.testing.assert_array_equal(
        model.coef_, DPSGDFClassifier(bounds=(0, 1), random_state=0).fit(X, y).coef_
    )


def test_a_budget_too_small_to_train_warns_and_trains(small):
    with pytest.warns(match="expect little more than the majority class"):
        model = DPSGDFClassifier(epsilon=1e-4, bounds=(0, 1)).fit(*small)
    assert model.privacy_.epsilon <= 1e-4
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("estimator", EVERY)
def test_warnings_come_from_public_facts(estimator, small):
    with pytest.warns(match="no column bounds are declared"):
        estimator(delta=1e-3).fit(*small)
    with pytest.warns(match="delta=0.5 is not below 1/n"):
        estimator(delta=0.5, bounds=(0, 1)).fit(*small)


def test_other_columns_at_predict_time(small):
    X, y = small
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = DPSGDFClassifier(bounds=(0, 1)).fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])
    with pytest.raises(ValueError, match="3 features"):
        DPSGDFClassifier(bounds=(0, 1)).fit(X, y).predict(X[:, :3])


def test_a_refit_that_fails_leaves_nothing(small):
    model = DPSGDFClassifier(bounds=(0, 1)).fit(*small)
    model.set_params(epsilon=-1)
    with pytest.raises(ValueError, match="epsilon"):
        model.fit(*small)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("public_features", [None, "all"])
def test_one_release_of_a_regression_needs_dense_rows(small, public_features):
    X, y = small
    ledger = PrivacyLedger()
    model = FeatureDPRegressor(
        solver="one-shot",
        target_bounds=(0, 1),
        bounds=(0, 1),
        public_features=public_features,
        ledger=ledger,
    )
    with pytest.raises(ValueError, match="sparse X is not supported by solver="):
        model.fit(sp.csr_array(X), y)
    assert len(ledger) == 0


BEYOND = [10**400, -(10**400), Fraction(10**400), Decimal("sNaN"), Decimal("1e999")]


@pytest.mark.parametrize("value", BEYOND, ids=["int", "-int", "fraction", "snan", "e"])
@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, lambda X: X.tolist()])
def test_private_numbers_beyond_the_floats_stop_no_fit(value, form, small, releases):
    X, y = small
    X, target = X.astype(object), X[:, 0].astype(object)
    X[3, 1], target[5] = value, value
    model = DPSGDFClassifier(
        bounds=(0, 1), classes=[0, 1], solver=NoisyGradientDescent(max_iter=2)
    )
    model.fit(form(X), y).predict(form(X))
    DPSGDFRegressor(
        bounds=(0, 1), target_bounds=(0, 1), solver=NoisyGradientDescent(max_iter=2)
    ).fit(X, target)
    released = len(releases)
    assert released
    for X_bad, y_bad in ((X, y), (np.ones((300, 2)), target)):
        model = DPSGDFRegressor(
            bounds=(0, 1),
            target_bounds=(0, 1),
            on_invalid="raise",
            solver=NoisyGradientDescent(max_iter=2),
        )
        with pytest.raises(ValueError, match="contains NaN|infinity"):
            model.fit(X_bad, y_bad)
    assert len(releases) == released


def test_they_count_as_infinity_does(small):
    X, y = small
    infinite = X.copy()
    infinite[3, 1] = np.inf
    beyond = X.astype(object)
    beyond[3, 1] = 10**400
    fits = [
        DPSGDFClassifier(bounds=(0, 1), classes=[0, 1], random_state=0).fit(rows, y)
        for rows in (infinite, beyond)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
