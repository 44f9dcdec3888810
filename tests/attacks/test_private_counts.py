"""Under add/remove nothing tells how many rows there are: no refusal and no warning."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    PrivateCenteringTransformer,
)
from skfdp.data.input_scaler import InputScaler
from skfdp.mechanisms.noise import Streams, add_integer_gaussian
from skfdp.privacy import AddOrRemoveOne
from skfdp.queries.statistics import RowSum
from skfdp.solvers import NoisyGradientDescent, NoisySGD

COUNT = {"neighboring_relation": AddOrRemoveOne(20)}
LABELS = {"classes": [0, 1], "bounds": (0, 1), **COUNT}
TARGET = {"target_bounds": (0, 1), "bounds": (0, 1), **COUNT}
LOOP = {"solver": NoisyGradientDescent(max_iter=2)}
ESTIMATORS = {
    "full batch": lambda: DPSGDFClassifier(**LOOP, **LABELS),
    "Poisson batches": lambda: DPSGDFClassifier(
        solver=NoisySGD(batch_size=5, max_iter=2), **LABELS
    ),
    "feature-DP": lambda: FeatureDPLogisticRegression(**LOOP, **LABELS),
    "squared error": lambda: DPSGDFRegressor(**LOOP, **TARGET),
    "Poisson": lambda: DPSGDFRegressor(loss="poisson", **LOOP, **TARGET),
    "network": lambda: FeatureDPMLPClassifier(
        hidden_layer_sizes=3, solver=NoisySGD(max_iter=2), **LABELS
    ),
    "transformer": lambda: PrivateCenteringTransformer(bounds=(0, 1), **COUNT),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_count_is_refused_or_shown(name):
    told = set()
    for n_rows in (0, 1, 2, 16 * 20, 16 * 20 + 1, 1000):
        X = np.random.default_rng(0).random((n_rows, 20))
        y = np.arange(n_rows) % 2
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = ESTIMATORS[name]().fit(X, y)
        assert model.privacy_.n_records == 20
        told.add(tuple(str(w.message) for w in caught))
    assert len(told) == 1


@pytest.mark.parametrize("n_rows", [0, 1, 1000])
@pytest.mark.parametrize("name", ["full batch", "squared error"])
def test_no_count_of_sparse_rows_is_refused(name, n_rows):
    X = csr_array(np.random.default_rng(0).random((n_rows, 20)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = ESTIMATORS[name]().fit(X, np.arange(n_rows) % 2)
    assert model.privacy_.n_records == 20
    assert np.isfinite(model.coef_).all()


def test_sums_beyond_int64_wrap_around():
    """They are congruent to the exact sum, which Python's integers hold."""
    X = np.random.default_rng(0).random((500, 3))
    query, unit = RowSum(X, InputScaler(), 1), 2.0**-61
    alone = [
        RowSum(X[i : i + 1], InputScaler(), 1).exact_sum(None, None, unit).tolist()
        for i in range(len(X))
    ]
    exact = [sum(entries) for entries in zip(*alone, strict=True)]
    assert max(exact) > 2**63
    found = query.exact_sum(None, None, unit).tolist()
    assert [(a - b) % 2**64 for a, b in zip(exact, found, strict=True)] == [0, 0, 0]


def test_noise_wraps_around_too():
    """A sum that wrapped before the noise, or in it, is one release."""
    ends, zeros = np.array([2**63 - 1, -(2**63), 0]), np.zeros(3, dtype=np.int64)
    noisy, noise = (
        add_integer_gaussian(total.copy(), 2.0**34, Streams(0, "t").private("x"))
        for total in (ends, zeros)
    )
    for a, b, c in zip(noisy.tolist(), ends.tolist(), noise.tolist(), strict=True):
        assert (a - b - c) % 2**64 == 0
    assert any(noise)
