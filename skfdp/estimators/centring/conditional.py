r"""Conditional centring: the prediction of private columns, from one release.

The private rows are regressed on ``[1, z]``, where z are the public columns, centred
and whitened. Rows of the regression are weighted such that every weighted row has the
same norm: no record has more leverage than another, so that the noise, which must hide
the record of the largest leverage, is not set by an outlier. All of this is public.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from scipy.linalg import eigh

from skfdp.estimators import defaults
from skfdp.queries.statistics import CrossSum
from skfdp.records.grid import GRID
from skfdp.records.row_map import RowMap

#: Public columns get this share of the squared norm of an output row, on average.
PUBLIC_SHARE = 0.25
#: No output row has more of it than this: the rest is room for private columns.
LARGEST_PUBLIC_SHARE = 0.5
# A slope must exceed its noise by this many standard deviations, and the noise that
# it adds to a prediction must stay below this squared norm (private rows have 1).
_SIGNIFICANCE, _MOST_NOISE = 2.0, 0.25
# Directions of smaller relative variance are rounding.
_SMALLEST_VARIANCE = 1e-9
_SHRINK = 1 - 1e-9


@dataclasses.dataclass(frozen=True)
class Regressors:
    """Public rows ``[1, z]`` with ``z = (u - mean) @ basis``, and their weights.

    Attributes
    ----------
    mean : ndarray of shape (n_public,)
        Exact mean of the public columns.
    basis : ndarray of shape (n_public, n_directions)
        Whitens: every column of z has the standard deviation `spread`, and they are
        uncorrelated. No directions where every public column is constant.
    spread : float
    rows : float64 ndarray of shape (n_rows, 1 + n_directions)
    weights : float64 ndarray of shape (n_rows,)
        A weighted row ``weights[i] * rows[i]`` has norm 1; or all are 1.
    variance : float
        Of a whole public row, about the mean.
    """

    mean: np.ndarray
    basis: np.ndarray
    spread: float
    rows: np.ndarray
    weights: np.ndarray
    variance: float

    @classmethod
    def learn(cls, U: np.ndarray, *, weighted: bool) -> Regressors:
        """Learn from the scaled public columns, float64 of shape (n_rows, n_public).

        `weighted=False` gives ordinary least squares, for fits without privacy.
        """
        # Divided by the largest entry, so that squares neither over- nor underflow.
        size = np.abs(U).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        mean = (U / size).mean(axis=0)
        centred = U / size - mean
        deviation = centred.std(axis=0)
        varies = deviation > 1e-12
        deviation = np.where(varies, deviation, 1.0)
        centred = np.where(varies, centred, 0.0) / deviation
        variance, directions = eigh(centred.T @ centred / len(U))
        kept = variance > _SMALLEST_VARIANCE * max(1, len(variance))
        basis = directions[:, kept] / np.sqrt(variance[kept])
        z = centred @ basis
        norms = np.linalg.norm(z, axis=1)
        spread = 1 / (np.median(norms) or norms.max() or 1.0)
        rows = np.column_stack([np.ones(len(U)), spread * z])
        weights = np.ones(len(U))
        if weighted:
            weights = 1 / np.linalg.norm(rows, axis=1)
        basis = spread * basis / (deviation * size)[:, None]
        basis[~varies] = 0.0
        mean = mean * size
        variance = float(np.sum((U - mean) ** 2) / len(U))
        return cls(mean, basis, spread, rows, weights, variance)

    @functools.cached_property
    def grid(self) -> np.ndarray:
        """Weighted rows as int16, in units of GRID toward zero: norm at most 1."""
        scaled = self.rows * (self.weights * (_SHRINK / GRID))[:, None]
        return np.trunc(scaled).astype(np.int16)

    @property
    def gram(self) -> np.ndarray:
        """Weighted Gram matrix, shape (1 + n_directions, 1 + n_directions)."""
        return (self.rows * self.weights[:, None]).T @ self.rows


@dataclasses.dataclass(frozen=True)
class Centre:
    """The centre of rows, and scales for a norm of at most 1.

    Attributes
    ----------
    mean : ndarray of shape (n_public,)
        Exact, of the public columns.
    intercept : ndarray of shape (n_private,)
        Prediction of the private columns at that mean.
    coef : ndarray of shape (n_public, n_private)
        Prediction per unit of a scaled public column.
    public_scale, private_scale : float
    """

    mean: np.ndarray
    intercept: np.ndarray
    coef: np.ndarray
    public_scale: float
    private_scale: float


def cross_sum(
    X_private: np.ndarray, row_map: RowMap, regressors: Regressors, *, nonnegative: bool
) -> CrossSum:
    """Return the private sum of the regression.

    Parameters
    ----------
    X_private : ndarray of shape (n_rows, n_private)
    row_map : RowMap
        Of the private columns alone; see `RowMap.part`.
    regressors : Regressors
    nonnegative : bool
        Whether every private column has declared bounds, never a look at data.
    """
    return CrossSum(X_private, row_map, regressors.grid, nonnegative=nonnegative)


def exact_sum(
    X_private: np.ndarray, row_map: RowMap, regressors: Regressors
) -> np.ndarray:
    """Return the sum without a grid, for fits without privacy."""
    private = row_map.mapped(X_private)
    cross = regressors.rows.T @ private
    return np.append(cross, len(private) - np.sum(private**2))


def centre(regressors: Regressors, statistic: np.ndarray, noise_std: float) -> Centre:
    """Return what centres rows; post-processing of the released sum.

    Parameters
    ----------
    regressors : Regressors
    statistic : ndarray of shape ((1 + n_directions) * n_private + 1,)
    noise_std : float
        Standard deviation of its noise.
    """
    n_rows = len(regressors.rows)
    found = _solve(regressors, statistic, noise_std)
    rest = found.length - found.intercept @ found.intercept
    rest -= regressors.spread**2 * np.sum(found.slopes**2)
    # Noise must not scale rows up: neither that of the length nor of the centre.
    rest = max(rest, min(1.0, noise_std / n_rows))
    rest = max(rest, min(0.05, max(found.error, 1e-6)))
    # z has the variance spread**2 in every direction; u has that of its columns.
    variance = regressors.variance
    return Centre(
        mean=regressors.mean,
        intercept=found.intercept,
        coef=regressors.basis @ found.slopes,
        public_scale=math.sqrt(PUBLIC_SHARE / variance) if variance > 0 else 1.0,
        private_scale=math.sqrt((1 - PUBLIC_SHARE) / rest),
    )


@dataclasses.dataclass(frozen=True)
class _Solution:
    """Weights on ``[1, z]``, the mean squared norm of the private rows, the error."""

    intercept: np.ndarray
    slopes: np.ndarray
    length: float
    error: float


def _solve(
    regressors: Regressors, statistic: np.ndarray, noise_std: float
) -> _Solution:
    """Solve the weighted least squares, and shrink what does not exceed its noise."""
    gram, n_rows = regressors.gram, len(regressors.rows)
    moments = statistic[:-1].reshape(len(gram), -1)
    n_private = moments.shape[1]
    total = gram[0, 0]
    shift = gram[0, 1:] / total
    # Eliminate the intercept, then one independent vector per principal direction.
    curvature, directions = eigh(gram[1:, 1:] - np.outer(shift, gram[0, 1:]))
    curvature = np.maximum(curvature, 1e-12 * total * regressors.spread**2)
    slopes = directions.T @ (moments[1:] - np.outer(shift, moments[0]))
    slopes /= curvature[:, None]
    stds = noise_std * np.sqrt(1 + (directions.T @ shift) ** 2) / curvature
    noise = regressors.spread**2 * n_private * stds**2
    factors = _factors(np.sum(slopes**2, axis=1), stds**2, n_private)
    factors[noise > _MOST_NOISE] = 0.0
    slopes = directions @ (factors[:, None] * slopes)
    mean = defaults.shrunk_mean(moments[0] / total, noise_std / total)
    error = n_private * (noise_std / total) ** 2 + factors**2 @ noise
    length = min(1.0, 1 - statistic[-1] / n_rows)
    return _Solution(mean - shift @ slopes, slopes, length, float(error))


def _factors(squares: np.ndarray, variances: np.ndarray, size: int) -> np.ndarray:
    """Return James-Stein factors that are 0 where a vector may be noise alone.

    The squared norm of noise has the mean ``size * variance`` and the standard
    deviation ``sqrt(2 size) * variance``. Stein's own threshold, the mean, lets half of
    all empty directions through, and their noise adds up.
    """
    threshold = (size + _SIGNIFICANCE * math.sqrt(2 * size)) * variances
    return np.maximum(0.0, 1 - threshold / np.maximum(squares, np.finfo(float).tiny))
