"""An int seed repeats a fit, whatever parameters are added to the estimators later."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression
from skfdp.solvers import NoisyGradientDescent

SETTINGS = {
    "bounds": (0, 1),
    "random_state": 7,
    "solver": NoisyGradientDescent(max_iter=2),
}


def noise_of(estimator, X, y, releases):
    releases.clear()
    estimator.fit(X, y)
    return [one["noise"] for one in releases]


def test_noise_depends_on_seed_class_and_shape_alone(small, releases):
    X, y = small
    base = noise_of(FeatureDPLogisticRegression(**SETTINGS), X, y, releases)
    # A parameter of another value, or other data, draw the same noise: a seed is for
    # experiments, and a new parameter must not change the figures of old ones.
    other = FeatureDPLogisticRegression(
        **SETTINGS
        | {"solver": NoisyGradientDescent(max_iter=2, learning_rate=0.01, momentum=0.1)}
    )
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


@pytest.mark.parametrize(
    "spelled",
    [
        {"epsilon": 1},
        {"solver": NoisyGradientDescent(max_iter=np.int64(2))},
        {"random_state": np.int64(7)},
    ],
    ids=lambda one: f"{one!r}",
)
def test_equal_numbers_of_other_types_repeat_the_fit(spelled, small):
    given = SETTINGS | {"epsilon": 1.0}
    first = FeatureDPLogisticRegression(**given).fit(*small)
    second = FeatureDPLogisticRegression(**given | spelled).fit(*small)
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_data_of_another_kind_repeat_the_fit(small):
    X, y = np.round(small[0], 3), small[1]
    first = FeatureDPLogisticRegression(**SETTINGS).fit(X, y)
    second = FeatureDPLogisticRegression(**SETTINGS).fit(csr_array(X), y)
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=1e-9)
