"""
Classify MNIST images, labels private
=====================================

If only the labels are private, features can be learnt from the images for free. The
only release is one statistic of the labels. Its noise does less harm if few directions
of the rows matter, so each image is averaged with similar ones. Run
``python data_label_dp_images.py`` (minutes), with ``--data fashion`` for Fashion-MNIST,
or with ``--quick``.
"""

import argparse

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.ndimage import affine_transform
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import fetch_openml, load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, normalize
from sklearn.utils import gen_batches

from skfdp import FeatureDPLogisticRegression


def straighten(X):
    """Centre each image and shear it upright, by the moments of its own brightness."""
    axis, images = np.arange(28) - 13.5, X.reshape(-1, 28, 28).astype(np.float32)
    for image in images:
        mass = image / max(image.sum(), 1)
        centre = np.array([mass.sum(axis=1) @ axis, mass.sum(axis=0) @ axis])
        down, across = axis - centre[:, None]
        slope = down @ mass @ across / (mass.sum(axis=1) @ down**2 + 1e-3)
        sheared = [[1, 0, centre[0]], [slope, 1, centre[1] - 13.5 * slope]]
        image[:] = affine_transform(image, np.array(sheared), order=1)
    return images.reshape(-1, 784)


def patches_of(X):
    """Return all 529 patches of each image, their brightness and contrast removed."""
    images = X.reshape(-1, 28, 28).astype(np.float32) / 255
    patches = sliding_window_view(images, (6, 6), axis=(1, 2)).reshape(-1, 36)
    patches = patches - patches.mean(axis=1, keepdims=True)
    return patches / np.sqrt(patches.var(axis=1, keepdims=True) + np.float32(1e-3))


class Dictionary(TransformerMixin, BaseEstimator):
    """Convolve with patches that were learnt without labels, pool in 4 x 4 regions."""

    def __init__(self, n_atoms=160, random_state=None):
        self.n_atoms = n_atoms
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.default_rng(self.random_state)
        patches = rng.permutation(patches_of(rng.permutation(X)[:4000]))[:200_000]
        patches = patches[np.abs(patches).max(axis=1) > 0.5].astype(np.float64)
        variance, directions = np.linalg.eigh(np.cov(patches.T))
        whitening = directions / np.sqrt(variance + 0.1)
        k_means = MiniBatchKMeans(self.n_atoms, random_state=self.random_state)
        atoms = normalize(k_means.fit(normalize(patches @ whitening)).cluster_centers_)
        self.filters_ = (whitening @ atoms.T).astype(np.float32)
        return self

    def transform(self, X):
        pooled = np.empty((len(X), 4, 4, self.n_atoms), dtype=np.float32)
        for rows in gen_batches(len(X), 64):
            response = np.abs(patches_of(X[rows]) @ self.filters_)
            grid = np.maximum(response - 0.5, 0).reshape(-1, 23, 23, self.n_atoms)
            grid = np.add.reduceat(grid, [0, 5, 11, 17], axis=1)
            pooled[rows] = np.add.reduceat(grid, [0, 5, 11, 17], axis=2)
        return normalize(np.sqrt(pooled.reshape(len(X), -1)))


class Neighbours(TransformerMixin, BaseEstimator):
    """Add to each row the mean of the six training rows most like it."""

    def fit(self, X, y=None):
        self.rows_, self.search_ = X, NearestNeighbors(n_neighbors=6).fit(X[:, :100])
        return self

    def transform(self, X):
        nearest = self.search_.kneighbors(X[:, :100], return_distance=False)
        return X + self.rows_[nearest].mean(axis=1)


def public_steps(data, n_atoms=160, random_state=0):
    """Return steps that use no labels and scale rows to norm 1.

    Only digits are straightened.
    """
    first = "passthrough" if data == "fashion" else FunctionTransformer(straighten)
    pca = PCA(min(300, 16 * n_atoms), svd_solver="covariance_eigh")
    return first, Dictionary(n_atoms, random_state), pca, Neighbours(), Normalizer()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", choices=["mnist", "fashion"], default="mnist")
    parser.add_argument("--quick", action="store_true", help="small, no download")
    options = parser.parse_args()
    n_atoms = 16 if options.quick else 160
    if options.quick:
        X, y = load_digits(return_X_y=True)
        X = np.kron(X.reshape(-1, 8, 8), np.ones((3, 3)))
        X = 15 * np.pad(X, [(0, 0), (2, 2), (2, 2)]).reshape(-1, 784)
        train, test = (X[:1200], y[:1200]), (X[1200:], y[1200:])
    else:
        name = "mnist_784" if options.data == "mnist" else "Fashion-MNIST"
        X, y = fetch_openml(name, version=1, return_X_y=True, as_frame=False)
        train, test = (X[:60_000], y[:60_000]), (X[60_000:], y[60_000:])
    classifier = FeatureDPLogisticRegression(
        epsilon=1.0,
        delta=1e-5,
        public_features="all",
        bounds=False,
    )
    model = make_pipeline(*public_steps(options.data, n_atoms), classifier).fit(*train)
    print(f"test accuracy {100 * model.score(*test):.2f} %")
    print(classifier.privacy_.statement())


if __name__ == "__main__":
    main()
