"""Features of images from a user's file, and generated ones of the same shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from _common import Split

#: Records for training and for tests, columns and classes of paper 2's CIFAR-100: the
#: last layer but one of a WRN-28-10 that was trained on ImageNet.
N_TRAIN, N_TEST, N_COLUMNS, N_CLASSES = 50_000, 10_000, 640, 100


def load_features(path: str | Path) -> Split:
    """Return features and labels of a file of `numpy.savez`.

    It is a file of `numpy.savez` with arrays "X" and "X_test", and labels "y" and
    "y_test". They must come from a model that has not seen the private images.
    """
    with np.load(path) as file:
        X, y, X_test, y_test = (file[name] for name in ("X", "y", "X_test", "y_test"))
    return Split(X, y, X_test, y_test, bounds=False)


def generated_features(seed: int = 0) -> Split:
    """Return non-negative features of the shape of CIFAR-100's; they are no images.

    Rectified normals about class means, so close that a linear model without privacy
    gets some of the records wrong. Nothing was fitted to the features of the paper.
    """
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(N_CLASSES, N_COLUMNS)).astype(np.float32)
    n = N_TRAIN + N_TEST
    y = rng.integers(0, N_CLASSES, n)
    X = rng.standard_normal((n, N_COLUMNS), dtype=np.float32)
    X *= 6.0
    X += means[y]
    np.maximum(X, 0, out=X)
    return Split(X[N_TEST:], y[N_TEST:], X[:N_TEST], y[:N_TEST], bounds=False)
