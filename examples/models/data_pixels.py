"""
Classify MNIST images, everything private
=========================================

DPSGD-F on images after a fixed blur, or fixed random convolutions. Neither learns
anything: a row of features is a function of one image alone, and costs no privacy. Run
``python data_pixels.py --features convolutions`` (minutes) or ``--features blur``.
Without ``--features`` the pixels are used. ``--data fashion`` takes Fashion-MNIST.
``--clip-norm 0.1`` gives higher accuracy, but worse probabilities.
"""

import argparse

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import gaussian_filter
from sklearn.datasets import fetch_openml
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import gen_batches

from skfdp import DPSGDFClassifier
from skfdp.solvers import NoisyGradientDescent


def scaled(X, high):
    """Return the pixels themselves, in [0, 1]."""
    return np.asarray(X, dtype=np.float32) / high


def blurred(X, high, width):
    """Return square images with pixels in [0, `high`], blurred and in [0, 1]."""
    side = round(X.shape[1] ** 0.5)
    images = scaled(X, high).reshape(-1, side, side)
    return gaussian_filter(images, (0, width, width)).reshape(len(X), -1)


def random_filters(n_filters, size, width, seed):
    """Return smooth noise: filters of mean 0 and norm 1. No data are involved."""
    noise = np.random.default_rng(seed).normal(size=(n_filters, size, size))
    filters = gaussian_filter(noise, (0, width, width)).reshape(n_filters, -1)
    filters -= filters.mean(axis=1, keepdims=True)
    filters /= np.linalg.norm(filters, axis=1, keepdims=True)
    return filters.astype(np.float32)


def convolved(X, high, n_filters=128, size=6, width=0.7, threshold=1.5, seed=0):
    """Return how strongly each filter responds in each of 4 x 4 regions of an image.

    Patches are divided by their contrast. The excess of the absolute response over the
    threshold is averaged over a region. A feature is the square root of this mean.
    """
    side = round(X.shape[1] ** 0.5)
    filters = random_filters(n_filters, size, width, seed)
    region = 4 * np.arange(side - size + 1) // (side - size + 1)
    mean = (region == np.arange(4)[:, None]).astype(np.float32)
    mean /= mean.sum(axis=1, keepdims=True)
    mean = np.kron(mean, mean)
    rows = np.empty((len(X), 16, n_filters), dtype=np.float32)
    for some in gen_batches(len(X), 8):
        images = scaled(X[some], high).reshape(-1, side, side)
        patches = sliding_window_view(images, (size, size), axis=(1, 2))
        patches = patches.reshape(len(images), -1, size**2)
        contrast = np.sqrt(patches.var(axis=2, keepdims=True) + np.float32(1e-3))
        response = np.abs((patches / contrast) @ filters.T)
        rows[some] = mean @ np.maximum(response - np.float32(threshold), 0)
    return np.sqrt(rows).reshape(len(X), -1)


def fixed(function, **options):
    """Return the step of a Pipeline that applies a function to each image by itself."""
    return FunctionTransformer(function, kw_args=options)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=["mnist", "fashion"], default="mnist")
    parser.add_argument("--features", choices=["blur", "convolutions"])
    parser.add_argument("--clip-norm", type=float, help="the default if left out")
    options = parser.parse_args()
    mnist = options.data == "mnist"
    name = "mnist_784" if mnist else "Fashion-MNIST"
    X, y = fetch_openml(name, version=1, return_X_y=True, as_frame=False)
    train, test = (X[:60_000], y[:60_000]), (X[60_000:], y[60_000:])
    step = {
        None: fixed(scaled, high=255),
        "blur": fixed(blurred, high=255, width=0.8 if mnist else 0.5),
        "convolutions": fixed(convolved, high=255),
    }[options.features]
    # Rows are scaled to norm 1, so that no bounds have to be declared.
    clip_norm = options.clip_norm or "auto"
    classifier = DPSGDFClassifier(
        1.0,
        1e-5,
        bounds=False,
        neighboring_relation="replace_special",
        solver=NoisyGradientDescent(clip_norm=clip_norm, normalize=True),
    )
    model = make_pipeline(step, classifier).fit(*train)
    print(f"test accuracy {100 * model.score(*test):.2f} %")
    print(classifier.privacy_.statement())


if __name__ == "__main__":
    main()
