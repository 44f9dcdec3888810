"""Ridge regression from noisy moments; post-processing alone.

Every penalty is chosen by Stein's lemma (1981): for Gaussian noise Z in a statistic S,
``E <w(S), Z> = std**2 E div w(S)``, so that the risk of w on the exact statistic has an
unbiased estimate from released numbers, for free. No penalty is too large: the infinite
one, which is the constant, has risk 0 and is among them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh

#: Penalties over the size of the matrix, where only the vector is noisy.
_FACTORS = tuple(10.0 ** (np.arange(-12, 7) / 2))
#: Penalties over the spectral norm of the noise, where the matrix is noisy, too.
_SPECTRAL_FACTORS = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 30, 100)
# Below this one the smallest eigenvalue must allow it.
_USUAL = 0.5
#: Standard deviations by which an estimated risk must be below that of no weights.
CAUTION = 1.0
#: Estimates that are noisier say nothing: no model of a target of spread 1 gains more
#: than 1/2.
MOST_SPREAD = 0.15


def spectral_norm(n_columns: int, pair_std: float) -> float:
    """Return the norm of a symmetric matrix of noise, about ``2 sqrt(d) std``."""
    return 2 * math.sqrt(n_columns) * pair_std


def on_exact(
    gram: np.ndarray,
    cross: np.ndarray,
    noise_std: float,
    fixed: np.ndarray,
    *,
    variance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights for noisy cross moments with rows whose moments are exact.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        Exact.
    cross : ndarray of shape (n_outputs, k)
    noise_std : float
        Of each entry of `cross`.
    fixed : ndarray of shape (k,)
        Penalty of the columns that are not penalised otherwise; NaN elsewhere.
    variance : float
        A lower bound of that of an output.

    Returns
    -------
    weights : ndarray of shape (n_outputs, k)
    inverse : ndarray of shape (k, k)
        ``weights = cross @ inverse``, with the penalty that was chosen.
    """
    free = np.isnan(fixed)
    if not len(fixed):
        return np.zeros(cross.shape), np.zeros((0, 0))
    size = float(np.trace(gram)) / len(gram) or 1.0
    steepest = 1e12 * size
    best, least, chosen = np.zeros(cross.shape), np.inf, np.zeros(gram.shape)
    # A penalty below noise_std**2 would fit weights of size 1, the largest to be
    # expected for a target of spread 1.
    for strength in (steepest, *sorted((f * size for f in _FACTORS), reverse=True)):
        strength = max(strength, noise_std**2)
        penalty = np.where(free, strength, fixed)
        inverse = np.linalg.inv(gram + np.diag(penalty))
        weights = cross @ inverse
        fit = ((weights @ gram) * weights).sum() / 2 - (weights * cross).sum()
        risk = float(fit) + noise_std**2 * len(cross) * float(np.trace(inverse))
        spread = noise_std * float(np.linalg.norm(weights[:, free]))
        if spread > MOST_SPREAD * variance and strength < steepest:
            continue
        if risk + CAUTION * spread < least:
            best, least, chosen = weights, risk + CAUTION * spread, inverse
    return best, chosen


def on_noisy(
    gram: np.ndarray,
    cross: np.ndarray,
    pair_std: float,
    cross_std: float,
    variance: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights for noisy moments, zero where the noise hides the signal.

    Parameters
    ----------
    gram : ndarray of shape (d, d)
        Symmetric.
    cross : ndarray of shape (d,)
    pair_std, cross_std : float
        Standard deviations of the noise.
    variance : float, default=1.0
        A lower bound of that of the target.

    Returns
    -------
    weights : ndarray of shape (d,)
    inverse : ndarray of shape (d, d)
        ``weights = inverse @ cross``, with the penalty that was chosen.
    """
    d = len(cross)
    best, least, chosen = np.zeros(d), 0.0, np.zeros(gram.shape)
    if not d:
        return best, chosen
    values, vectors = eigh(gram)
    noise = spectral_norm(d, pair_std)
    for factor in _SPECTRAL_FACTORS:
        penalty = max(factor * noise, cross_std**2)
        # AdaSSP (Wang 2018) pays for the smallest eigenvalue, which was released here.
        if factor < _USUAL and values[0] + penalty < noise / 2:
            continue
        found = ridge_with_risk(values, vectors.T @ cross, penalty, pair_std, cross_std)
        weights, risk = found
        # The estimate is as noisy as the moments are in the direction of w.
        square = float(weights @ weights)
        spread = math.sqrt(cross_std**2 * square + pair_std**2 * square**2 / 2)
        if spread < MOST_SPREAD * variance and risk + CAUTION * spread < least:
            best, least = vectors @ weights, risk + CAUTION * spread
            chosen = (vectors / (np.maximum(values, 0.0) + penalty)) @ vectors.T
    return best, chosen


def ridge_with_risk(
    values: np.ndarray,
    cross: np.ndarray,
    penalty: float,
    pair_std: float,
    cross_std: float,
) -> tuple[np.ndarray, float]:
    """Return ``h(v) c`` for ``h(v) = 1 / (max(v, 0) + penalty)``, and its risk.

    The risk is ``w'Gw / 2 - w'c`` on the exact moments, estimated from the noisy ones
    without bias. With E the noise of G, `pair_std` beside the diagonal and sqrt(2) of
    it on it, Stein's lemma gives

        E w'Ew = 2 pair_std**2 E (sum_ij h_ij w_j c_j + sum_i h_ii w_i c_i),

    where ``h_ij`` are the differences of h over those of v.

    Parameters
    ----------
    values : ndarray of shape (d,)
        Eigenvalues of the noisy matrix.
    cross : ndarray of shape (d,)
        The noisy vector, in its eigenvectors.
    penalty : float
    pair_std, cross_std : float

    Returns
    -------
    weights : ndarray of shape (d,)
        In the eigenvectors.
    risk : float
    """
    inverse = 1 / (np.maximum(values, 0.0) + penalty)
    weights = inverse * cross
    slopes = _slopes(values, inverse)
    moved = float((slopes.sum(axis=0) + np.diagonal(slopes)) @ (weights * cross))
    risk = float(values @ weights**2) / 2 - float(weights @ cross)
    return weights, risk - pair_std**2 * moved + cross_std**2 * float(inverse.sum())


def _slopes(values: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return the differences of inverse over those of values; the derivatives between.

    That of ``1 / (max(v, 0) + penalty)`` is ``-inverse**2`` for positive v, else 0.
    """
    apart = values[:, None] - values
    close = np.abs(apart) <= 1e-9 * np.abs(values).max(initial=1e-300)
    change = inverse[:, None] - inverse
    same = -inverse[:, None] * inverse * (values > 0)
    return np.where(close, same, change / np.where(close, 1.0, apart))


def ridge(gram: np.ndarray, cross: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Return the minimiser of ``w'Gw / 2 - w'c + w'Pw / 2``.

    Parameters
    ----------
    gram : ndarray of shape (d, d)
        Symmetric; negative eigenvalues are noise and count as 0.
    cross : ndarray of shape (d,) or (d, n_outputs)
    penalty : ndarray of shape (d, d)
        Positive.

    Returns
    -------
    weights : ndarray of cross's shape
    """
    values, vectors = eigh(gram)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.linalg.solve(positive + penalty, cross)
