"""
Label-DP on images: everything but the labels is public
=======================================================

If only the labels are private, features can be learnt from the images for free. Here:
a dictionary of small patches, found by k-means and used as a convolution, then pooled.
`FeatureDPLogisticRegression` releases one statistic of the labels on top of it.

Run ``python examples/data_label_dp_images.py`` (minutes), with ``--data fashion`` for
Fashion-MNIST, or with ``--quick`` to see that it works.
"""

import argparse
import time

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from skfdp import FeatureDPLogisticRegression
from skfdp.datasets import fetch_fashion_mnist, fetch_mnist


class Dictionary(TransformerMixin, BaseEstimator):
    """Convolve images with patches that were learnt without labels, and pool.

    `n_atoms` patches of side `size`; responses beyond `threshold` are averaged over a
    grid of `pool` x `pool` regions.
    """

    def __init__(self, n_atoms=160, size=6, pool=3, threshold=0.5, random_state=None):
        self.n_atoms = n_atoms
        self.size = size
        self.pool = pool
        self.threshold = threshold
        self.random_state = random_state

    def fit(self, X, y=None):
        """Find the atoms: k-means of whitened patches. Looks at X alone."""
        rng = np.random.default_rng(self.random_state)
        images = X[rng.permutation(len(X))[:4000]]
        patches = self._patches(images)
        patches = patches[rng.permutation(len(patches))[:200_000]]
        patches = patches[np.abs(patches).max(axis=1) > 0.5].astype(np.float64)
        variance, directions = np.linalg.eigh(np.cov(patches.T))
        self.whitening_ = directions / np.sqrt(variance + 0.1) @ directions.T
        white = (patches - patches.mean(axis=0)) @ self.whitening_
        white /= np.linalg.norm(white, axis=1, keepdims=True) + 1e-9
        k_means = MiniBatchKMeans(
            self.n_atoms, batch_size=4096, n_init=1, random_state=self.random_state
        )
        atoms = k_means.fit(white).cluster_centers_
        atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
        self.filters_ = (self.whitening_ @ atoms.T).astype(np.float32)
        self.offset_ = patches.mean(axis=0).astype(np.float32) @ self.filters_
        return self

    def transform(self, X):
        """Return the square roots of the pooled responses, each image by itself."""
        side = 28 - self.size + 1
        edges = np.linspace(0, side, self.pool + 1).astype(int)[:-1]
        features = np.empty((len(X), self.pool**2 * self.n_atoms), dtype=np.float32)
        for start in range(0, len(X), 64):
            images = X[start : start + 64]
            response = self._patches(images) @ self.filters_
            response -= self.offset_
            np.abs(response, out=response)
            response -= self.threshold
            np.maximum(response, 0, out=response)
            grid = response.reshape(len(images), side, side, self.n_atoms)
            pooled = np.add.reduceat(np.add.reduceat(grid, edges, 1), edges, 2)
            features[start : start + 64] = pooled.reshape(len(images), -1)
        return np.sqrt(features / (side / self.pool) ** 2)

    def _patches(self, images):
        """Return every patch of the images, its brightness and contrast removed."""
        windows = (self.size, self.size)
        images = images.reshape(-1, 28, 28).astype(np.float32) / 255
        patches = sliding_window_view(images, windows, axis=(1, 2))
        patches = patches.reshape(-1, self.size**2)
        patches = patches - patches.mean(axis=1, keepdims=True)
        return patches / np.sqrt(patches.var(axis=1, keepdims=True) + np.float32(1e-3))


def load(data, quick):
    """Return training and test images and labels; quick: enlarged digits."""
    if quick:
        X, y = load_digits(return_X_y=True)
        X = np.kron(X.reshape(-1, 8, 8), np.ones((3, 3)))
        X = 15 * np.pad(X, [(0, 0), (2, 2), (2, 2)]).reshape(-1, 784)
        return X[:1200], y[:1200], X[1200:], y[1200:]
    fetch = fetch_mnist if data == "mnist" else fetch_fashion_mnist
    train = fetch(subset="train", return_X_y=True)
    return *train, *fetch(subset="test", return_X_y=True)


def main():
    """Fit, and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=["mnist", "fashion"], default="mnist")
    parser.add_argument("--quick", action="store_true", help="small, no download")
    options = parser.parse_args()
    X, y, X_test, y_test = load(options.data, options.quick)
    # Each row is scaled to norm 1; no bounds are needed, because X is public.
    classifier = FeatureDPLogisticRegression(
        epsilon=1.0, delta=1e-5, public_features="all", bounds=False, normalize=True
    )
    n_atoms = 16 if options.quick else 160
    start = time.perf_counter()
    model = make_pipeline(Dictionary(n_atoms, random_state=0), classifier).fit(X, y)
    print(f"{len(X)} images, {time.perf_counter() - start:.0f} s")
    print(f"test accuracy {100 * model.score(X_test, y_test):.2f} %")
    print(classifier.privacy_.statement())


if __name__ == "__main__":
    main()
