"""Problems that several benchmarks share: shapes of real tasks, made-up numbers."""

import numpy as np

from skfdp.data.grid import GridRows
from skfdp.kernels.losses import loss_named
from skfdp.mechanisms.release import Streams
from skfdp.mechanisms.release import _noisy_sum as release
from skfdp.queries.linear import LinearQuery


def unit_rows(n, d, seed=0):
    X = np.random.default_rng(seed).random((n, d), dtype=np.float32)
    return X / np.sqrt((X * X).sum(axis=1))[:, None]


def labels(X, n_classes, seed=1):
    weights = np.random.default_rng(seed).normal(size=(n_classes, X.shape[1]))
    return np.asarray(X @ weights.T).argmax(axis=1)


def linear_query(X, n_classes, n_jobs=1, at_random=True):
    target = labels(X, n_classes)
    beside = target if at_random else None
    return LinearQuery(
        rows=GridRows.build(
            X, lambda block: block.astype(np.float64), bias=0.1, target=beside
        ),
        target=target,
        loss=loss_named("log_loss"),
        n_outputs=1 if n_classes == 2 else n_classes,
        clip_norm=0.5,
        capacity=X.shape[0],
        n_jobs=n_jobs,
    )


def release_of(query):
    """Return ``(theta, batch) -> release`` with the noise of a real fit."""
    noise = Streams(None, "benchmark").private("noise")

    def step(theta, batch):
        unit = query.unit(0.5)
        asked = {"noise_std": 0.5, "unit": unit, "generator": noise, "batch": batch}
        return release(query, theta, **asked)

    return step
