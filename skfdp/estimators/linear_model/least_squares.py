"""Ridge regression from noisy second moments; post-processing alone."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh

#: The penalty "auto", over the spectral norm of the noise of the Gram matrix.
PENALTY = 0.5


def noise_penalty(n_columns: int, pair_std: float) -> float:
    """Return a penalty of the size of the noise, a public constant.

    The spectral norm of a symmetric matrix of noise is about ``2 sqrt(d) std``, std
    being that of the entries beside the diagonal. AdaSSP (Wang 2018,
    https://arxiv.org/abs/1803.02596) spends a third of the budget on the smallest
    eigenvalue to lower the penalty where the data allow it; clipping the negative
    eigenvalues, in `ridge`, is free.
    """
    return PENALTY * 2 * math.sqrt(n_columns) * pair_std


def ridge(gram: np.ndarray, cross: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Return the minimiser of ``w'Gw / 2 - w'c + sum of penalty w**2 / 2``.

    Parameters
    ----------
    gram : ndarray of shape (d, d)
        Symmetric; negative eigenvalues are noise and count as 0.
    cross : ndarray of shape (d,)
    penalty : ndarray of shape (d,)
        Positive, per column.

    Returns
    -------
    weights : ndarray of shape (d,)
    """
    values, vectors = eigh(gram)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.linalg.solve(positive + np.diag(penalty), cross)
