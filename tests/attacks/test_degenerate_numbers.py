"""Legal-looking numbers that end in a degenerate grid are refused by name."""

import warnings

import numpy as np
import pytest

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
)
from skfdp.solvers import FeatureDPSGD, Huber, NoisyGradientDescent

N = 300
RNG = np.random.default_rng(0)
X = RNG.random((N, 4))
LABELS = (X[:, 0] > 0.5).astype(int)
TARGET = X @ [1.0, 2.0, 3.0, 4.0]
CLASSIFIERS = [DPSGDFClassifier, FeatureDPLogisticRegression, FeatureDPMLPClassifier]
LOW, HIGH = np.zeros(4), np.array([1.0, 1.0, 5e-324, 1.0])


def refused(estimator, y, match, **parameters):
    """One sentence, before any charge."""
    ledger = PrivacyLedger()
    model = estimator(ledger=ledger, **{"bounds": (0, 1), **parameters})
    with pytest.raises(ValueError, match=match) as raised:
        model.fit(X, y)
    assert len(str(raised.value).rstrip(".").split(". ")) == 1
    assert len(ledger.entries) == 0


@pytest.mark.parametrize(
    "bounds",
    [
        (1e308, 1.5e308),
        (0, 5e-324),
        (-1.7e308, 1.7e308),
        (0, 1e101),
        (1.0, 1.0 + 1e-15),
        (-1e50, -1e50 * (1 - 1e-13)),
        (0, 1e-101),
    ],
)
def test_target_bounds_that_floats_cannot_divide(bounds):
    match = r"target_bounds=\(.*\) (is too wide|must be a pair)"
    refused(FeatureDPRegressor, TARGET, match, target_bounds=bounds)


@pytest.mark.parametrize("bounds", [(0, 1e100), (0, 1e-99), (1e9, 1e9 + 1e-2), (-1, 1)])
@pytest.mark.parametrize("estimator", [FeatureDPRegressor, DPSGDFRegressor])
def test_target_bounds_that_are_merely_unusual(bounds, estimator):
    low, high = bounds
    y = low + (high - low) * (TARGET - TARGET.min()) / np.ptp(TARGET)
    model = estimator(1e4, target_bounds=bounds, bounds=(0, 1), random_state=0).fit(
        X, y
    )
    error = np.abs(model.predict(X) - y).mean()
    assert error < 0.1 * (high - low)


@pytest.mark.parametrize(
    "bounds",
    [
        (0, 5e-324),
        (-1e308, 1e308),  # their width is infinite, which meant "no bounds"
        (1e308, 1.5e308),
        (1.0, 1.0 + 4e-16),
        (LOW, HIGH),
        {0: (0, 1e-200)},
    ],
)
@pytest.mark.parametrize("estimator", [*CLASSIFIERS, PrivateCenteringTransformer])
def test_bounds_of_columns_that_floats_cannot_divide(bounds, estimator):
    match = "bounds=.* is too wide or too narrow for float64"
    refused(estimator, LABELS, match, bounds=bounds)


@pytest.mark.parametrize("value", [5e-324, 1e-31, 1e31, 1e308])
@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        *[
            (estimator, name)
            for estimator in CLASSIFIERS
            for name in ("row_norm", "learning_rate", "max_weight_norm", "clip_norm")
        ],
        (FeatureDPLogisticRegression, "gradient_scale"),
        (FeatureDPLogisticRegression, "padding_scale"),
        (FeatureDPMLPClassifier, "gradient_scale"),
        (FeatureDPMLPClassifier, "padding_scale"),
        (PrivateCenteringTransformer, "output_bound"),
        (PrivateCenteringTransformer, "row_norm"),
    ],
)
def test_sizes_whose_squares_leave_the_floats(estimator, name, value):
    of_loss = name in ("gradient_scale", "padding_scale")
    given = {name: value}
    if estimator is not PrivateCenteringTransformer:
        solver = FeatureDPSGD if of_loss else NoisyGradientDescent
        given = {"solver": solver(**given)}
    refused(estimator, LABELS, f"^{name}=.* must lie between 1e-30 and", **given)


@pytest.mark.parametrize("value", [5e-324, 1e300])
def test_a_huber_threshold_whose_square_leaves_the_floats(value):
    refused(
        DPSGDFRegressor,
        TARGET,
        "^threshold=.* must lie between 1e-30 and 1e",
        target_bounds=(0, 10),
        loss=Huber(threshold=value),
    )


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("noise_decay", [10, 1e3, 1e300])
def test_a_noise_decay_that_leaves_some_steps_no_budget(estimator, noise_decay):
    refused(
        estimator,
        LABELS,
        "^noise_decay=.* < 10",
        solver=NoisyGradientDescent(noise_decay=noise_decay),
    )


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ({0: 1e-300}, r"class_weight\[0\]=1e-300 must lie between"),
        ({1: 1e300}, r"class_weight\[1\]=1e\+300 must lie between"),
        ({0: 0, 1: 0.0}, "gives every class the weight 0"),
    ],
)
def test_class_weights_without_a_gradient(estimator, weights, match):
    refused(estimator, LABELS, match, class_weight=weights)


@pytest.mark.parametrize("epsilon", [1.0, float("inf")])
def test_a_public_target_beyond_the_squares_of_floats(epsilon):
    y = TARGET * 1e300
    refused(
        FeatureDPRegressor,
        y,
        "y holds numbers beyond 1e.100, .*declare target_bounds",
        epsilon=epsilon,
        public_target=True,
    )


@pytest.mark.parametrize(
    ("estimator", "parameters"),
    [
        (estimator, {name: value})
        for estimator in (DPSGDFClassifier, FeatureDPLogisticRegression)
        for name, value in {
            "epsilon": 1e-6,
            "class_weight": {0: 1e-30, 1: 1e-30},
            "C": 1e300,
            "solver__row_norm": 1e-30,
            "solver__clip_norm": 1e-29,
            "solver__max_weight_norm": 1e-30,
            "solver__learning_rate": 1e-30,
            "solver__momentum": 0.99,
            "solver__noise_decay": 9.9,
        }.items()
    ],
    ids=str,
)
def test_extreme_parameters_that_are_allowed_end_in_finite_models(
    estimator, parameters
):
    model = estimator(bounds=(0, 1), random_state=0, solver=NoisyGradientDescent())
    model.set_params(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(X, LABELS)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(X)).all()
