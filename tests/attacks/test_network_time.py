"""Public pretraining does work that public numbers bound: steps counted, not timed."""

import math

import numpy as np
import pytest

from skfdp import FeatureDPMLPClassifier
from skfdp.solvers import NoisySGD
from skfdp.solvers import network as networks
from skfdp.solvers import parameters as defaults


@pytest.fixture
def counted(monkeypatch):
    """Count what scikit-learn is asked for: calls, rows and steps."""
    seen = {"calls": 0, "rows": 0, "most": 0, "steps": 0}

    class Counting(networks.MLPClassifier):
        def partial_fit(self, X, y, classes=None):
            seen["calls"] += 1
            seen["rows"] += len(X)
            seen["most"] = max(seen["most"], len(X))
            seen["steps"] += math.ceil(len(X) / self.batch_size)
            return super().partial_fit(X, y, classes=classes)

    monkeypatch.setattr(networks, "MLPClassifier", Counting)
    return seen


@pytest.mark.parametrize("n", [2, 12, 50, 199, 200, 500, 5_000])
def test_pretraining_takes_as_many_steps_for_few_rows_as_for_many(n, counted):
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 3)), np.arange(n) % 2
    n_epochs = defaults.pretraining_epochs(n)
    networks.trained(lambda: X, y, 2, (4,), rng)
    assert counted["rows"] == n_epochs * n <= 162_000
    assert counted["most"] < 4096 + n
    assert 780 <= counted["steps"] <= 840
    assert counted["calls"] <= 80


@pytest.mark.parametrize("n", [1, 12, 200, 10_000, 10**8])
def test_passes_over_the_rows(n):
    epochs = defaults.pretraining_epochs(n)
    assert 3 <= epochs <= 800
    assert epochs * n >= min(160_000, 800 * n)


def test_few_rows_are_learnt_as_well_as_before():
    """A dozen rows, in 800 steps."""
    rng = np.random.default_rng(1)
    y = np.arange(12) % 2
    X = rng.random((12, 3)) * 0.3 + 0.6 * y[:, None]
    network = networks.trained(lambda: X, y, 2, (20,), rng)
    assert ((network.margins(X)[:, 0] > 0) == y).all()


@pytest.mark.parametrize("pretraining", ["public", "class_sums"])
def test_a_fit_with_many_text_labels(pretraining, counted):
    rng = np.random.default_rng(2)
    labels = np.array([f"label {k}" for k in range(150)])
    y = np.r_[labels, rng.choice(labels, 150)]
    FeatureDPMLPClassifier(
        hidden_layer_sizes=(8,),
        public_features=[0, 1],
        public_target=True,
        pretraining=pretraining,
        bounds=(0, 1),
        random_state=0,
        solver=NoisySGD(max_iter=2),
    ).fit(rng.random((300, 5)), y)
    assert counted["calls"] <= 80
    assert counted["steps"] <= 840
