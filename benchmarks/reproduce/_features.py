"""Features of images from a user's file, and generated ones of the same shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from _common import Split

#: Records for training and for tests, columns and classes of paper 2's CIFAR-100: the
#: last layer but one of a WRN-28-10 that was trained on ImageNet.
N_TRAIN, N_TEST, N_COLUMNS, N_CLASSES = 50_000, 10_000, 640, 100
NAMES = ("X", "y", "X_test", "y_test")


def load_features(path: str | Path) -> Split:
    """Return features and labels of a file of `numpy.savez`.

    Parameters
    ----------
    path : str or Path
        With arrays "X" and "X_test", float, of shape (n, n_columns), and labels "y" and
        "y_test". They must come from a model that has not seen the private images.

    Returns
    -------
    split : Split
        Without bounds: rows are meant to be normalised.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If an array is missing, or their shapes differ.
    """
    with np.load(path) as file:
        missing = [name for name in NAMES if name not in file]
        if missing:
            raise ValueError(
                f"{path} has no {', '.join(missing)}: save it by "
                "numpy.savez(path, X=X, y=y, X_test=X_test, y_test=y_test)."
            )
        X, y, X_test, y_test = (file[name] for name in NAMES)
    if X.ndim != 2 or X.shape[1:] != X_test.shape[1:]:
        raise ValueError(
            f"{path} has X of shape {X.shape} and X_test of shape {X_test.shape}: both "
            "need one row a record, and the same columns."
        )
    if (len(X), len(X_test)) != (len(y), len(y_test)):
        raise ValueError(
            f"{path} has {len(X)} and {len(X_test)} rows but {len(y)} and "
            f"{len(y_test)} labels: give one label for each row."
        )
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
