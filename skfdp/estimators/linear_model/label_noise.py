"""The error of a model from a label statistic: noise, and the chance of the labels.

The rows are public, so that the curvature of the loss is, and so is the variance of the
labels that the model predicts. All of it is post-processing of the one release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from skfdp.estimators.linear_model.coefficient_noise import (
    FIRST_ORDER,
    MOST_ENTRIES,
    CoefficientNoise,
    Fold,
    matrix_of,
)
from skfdp.estimators.linear_model.label_objective import Barrier, Objective

#: Weights of all outputs together beyond which only the diagonal of the curvature is
#: looked at, and nothing is said of the chance of the labels.
MOST_WEIGHTS = 600
#: Products that the curvature may cost; of more rows an even part is looked at.
MOST_PRODUCTS = 3e8
#: Newton steps to the weights without the penalty, and the share of a weight's error
#: that the last one may be.
NEWTON_STEPS, NEGLIGIBLE = 25, 1e-3
# A longer step leads to weights that are infinite.
_FARTHEST = 1e6
#: Variance of the error of a log odds, the mean over the records, beyond which its law
#: is not the normal one of the first order: intervals were seen to cover 98 %.
MOST_SPREAD = 0.1


def noise_of(
    objective: Objective,
    statistic: np.ndarray,
    theta: np.ndarray,
    noise_std: float,
    fold: Fold,
    is_complete: Callable[[], bool],
) -> CoefficientNoise:
    """Return the noise in the minimiser, and what is known without the penalty.

    Parameters
    ----------
    objective : Objective
        With the penalty of `theta`.
    statistic : ndarray of shape (n_outputs, n_columns)
        S / n.
    theta : ndarray of shape (n_outputs, n_columns)
        The minimiser.
    noise_std : float
        Of an entry of S / n.
    fold : callable
        Returns (coef, intercept) of weights.
    is_complete : callable
        Returns whether the columns of the objective span those of X. It is called of
        few columns alone.

    Notes
    -----
    The minimiser moves by the inverse Hessian times what S / n moves by. With H the
    curvature of the loss, P that of the penalty and V the variance of the labels, the
    noise has the covariance ``(H + P)**-1 s**2 (H + P)**-1``, and the weights without
    the penalty ``H**-1 (s**2 + V) H**-1``, if the probabilities are those of a linear
    model; else it is the covariance around the best linear model, with the variance of
    the labels of the fitted one.
    """
    if not np.isfinite(theta).all():  # told by an error, once there are coefficients
        columns = matrix_of(fold, theta.shape[1])
        return CoefficientNoise(
            np.full((len(theta), len(columns)), np.nan), FIRST_ORDER
        )
    if theta.size > MOST_WEIGHTS:
        return _of_diagonal(objective, theta, noise_std, fold)
    curvature = Curvature.of(objective, len(theta))
    penalty = _penalty_of(objective, theta)
    hessian, _ = curvature(theta)
    solver = _inverse(hessian + penalty)
    noise = CoefficientNoise.of_weights(
        _by_output(noise_std**2 * solver @ curvature.noise @ solver, theta.shape),
        fold,
        FIRST_ORDER,
    )
    J = matrix_of(fold, theta.shape[1])
    if len(theta) * len(J) ** 2 > MOST_ENTRIES or not is_complete():
        return noise
    found = _unpenalised(objective, curvature, statistic, theta, noise_std)
    if found is None:
        return noise
    free, error = found
    coef, intercept = fold(free)
    axes, sizes, _ = np.linalg.svd(J[:-1])
    rank = int((sizes > 1e-9 * sizes.max(initial=0.0)).sum())
    return dataclasses.replace(
        noise,
        estimate=np.column_stack([coef, intercept]),
        error=J @ _by_output(error, theta.shape) @ J.T,
        free=axes[:, rank:],
    )


def _of_diagonal(
    objective: Objective, theta: np.ndarray, noise_std: float, fold: Fold
) -> CoefficientNoise:
    """Return the noise of many weights, as if their directions were apart.

    The columns are principal directions, so that the curvature is nearly diagonal.
    """
    n_outputs, n_columns = theta.shape
    every = max(1, round(len(objective.rows) * theta.size / MOST_PRODUCTS))
    weight = objective.weight[::every]
    rows = objective.rows[::every] / weight[:, None]
    margins = rows @ theta.T.astype(rows.dtype)
    if n_outputs == 1:
        spread = (0.25 - np.tanh(margins / 2) ** 2 / 4).T
    else:
        share = np.exp(margins - margins.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        spread = (share * (1 - share)).T
    n_looked_at = objective.n * len(rows) / len(objective.rows)
    hessian = (spread * weight) @ rows**2 / n_looked_at
    hessian += np.diagonal(objective.penalty)
    if objective.barrier is not None:
        hessian[:, -1] += _bend(objective.barrier, theta[:, -1])
    free = 1 - 1 / n_outputs if n_outputs > 1 else 1.0
    variances = free * noise_std**2 / np.maximum(hessian, 1e-300) ** 2
    J = matrix_of(fold, n_columns)
    return CoefficientNoise(variances @ (J**2).T, FIRST_ORDER)


@dataclasses.dataclass(frozen=True)
class Curvature:
    """The Hessian of the mean loss and the variance of S / n by the labels' chance.

    Attributes
    ----------
    rows : float64 ndarray of shape (n_rows, n_columns)
        phi, without the weights.
    weight : ndarray of shape (n_rows,)
    n_records : float
        What a mean over all records divides by; the rows may be a part of them.
    n_rows : int
        Number of rows that these are a part of.
    n_outputs : int
    """

    rows: np.ndarray
    weight: np.ndarray
    n_records: float
    n_rows: int
    n_outputs: int

    @classmethod
    def of(cls, objective: Objective, n_outputs: int) -> Curvature:
        """Return the curvature of an objective, from a part of many rows."""
        n_rows, n_columns = objective.rows.shape
        most = MOST_PRODUCTS / (n_columns * n_outputs) ** 2
        part = slice(None, None, max(1, round(n_rows / max(most, 1.0))))
        weight = objective.weight[part]
        rows = objective.rows[part].astype(np.float64) / weight[:, None]
        return cls(rows, weight, objective.n, n_rows, n_outputs)

    @property
    def noise(self) -> np.ndarray:
        """Covariance of the noise over its variance: of a class less the mean."""
        n, p = self.n_outputs, self.rows.shape[1]
        if n == 1:
            return np.eye(p)
        return np.kron(np.eye(n) - 1 / n, np.eye(p))

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Hessian and the variance, as `noise` is laid out."""
        margins = self.rows @ theta.T
        if self.n_outputs == 1:
            share = 0.25 - np.tanh(margins[:, 0] / 2) ** 2 / 4
            return self._sums(share)
        share = np.exp(margins - margins.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        n, p = self.n_outputs, self.rows.shape[1]
        hessian, variance = np.zeros((2, n, p, n, p))
        for k in range(n):
            for m in range(k, n):
                own = share[:, k] * ((k == m) - share[:, m])
                hessian[k, :, m], variance[k, :, m] = self._sums(own)
                hessian[m, :, k], variance[m, :, k] = (
                    hessian[k, :, m],
                    variance[k, :, m],
                )
        # Nothing depends on a sum over the classes; this keeps it where it is.
        size = np.trace(hessian[0, :, 0]) / p
        level = np.einsum("km,ij->kimj", np.full((n, n), 1 / n), size * np.eye(p))
        return (hessian + level).reshape(n * p, n * p), variance.reshape(n * p, n * p)

    def margin_variance(self, covariances: np.ndarray) -> float:
        """Return the variance of a margin, the mean over rows and outputs."""
        moments = self.rows.T @ self.rows / len(self.rows)
        return float(np.einsum("kij,ij->", covariances, moments)) / self.n_outputs

    def _sums(self, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = self.n_records * len(self.rows) / self.n_rows
        once = (self.rows * (spread * self.weight)[:, None]).T @ self.rows
        twice = (self.rows * (spread * self.weight**2)[:, None]).T @ self.rows
        return once / own, twice / (own * self.n_records)


def _penalty_of(objective: Objective, theta: np.ndarray) -> np.ndarray:
    """Return the curvature of penalty and barrier, laid out as the Hessian."""
    n, p = theta.shape
    own = objective.penalty
    bend = np.zeros(n)
    if objective.barrier is not None:
        bend = _bend(objective.barrier, theta[:, -1])
    each = np.stack([own + np.diag(np.r_[np.zeros(p - 1), one]) for one in bend])
    out = np.zeros((n, p, n, p))
    for k in range(n):
        out[k, :, k] = each[k]
    return out.reshape(n * p, n * p)


def _bend(barrier: Barrier, theta: np.ndarray) -> np.ndarray:
    """Return the second derivatives of a barrier, by differences of its slope."""
    step = 1e-4 / barrier.bias
    out = np.empty(len(theta))
    for k in range(len(theta)):
        moved = np.zeros(len(theta))
        moved[k] = step
        ahead, behind = barrier(theta + moved)[1][k], barrier(theta - moved)[1][k]
        out[k] = max(0.0, (ahead - behind) / (2 * step))
    return out


def _unpenalised(
    objective: Objective,
    curvature: Curvature,
    statistic: np.ndarray,
    theta: np.ndarray,
    noise_std: float,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the weights without penalty and their covariance, None if there are none.

    Newton's method from the penalised weights; a statistic with much noise may ask for
    infinite weights, and then nothing is known.
    """
    theta = theta.copy()
    for _ in range(NEWTON_STEPS):
        hessian, variance = curvature(theta)
        values = np.linalg.eigvalsh(hessian)
        if not values[0] > 1e-10 * values[-1]:
            return None
        inverse = _inverse(hessian)
        error = inverse @ (noise_std**2 * curvature.noise + variance) @ inverse
        step = inverse @ (statistic - objective.gradient(theta)).ravel()
        size = np.abs(step / np.sqrt(np.diagonal(error))).max()
        if not np.abs(step).max() < _FARTHEST:
            return None
        theta = theta + step.reshape(theta.shape)
        if size < NEGLIGIBLE:
            spread = curvature.margin_variance(_by_output(error, theta.shape))
            return (theta, error) if spread <= MOST_SPREAD else None
    return None


def _inverse(matrix: np.ndarray) -> np.ndarray:
    # A penalty of zero may leave directions free that the rows do not have.
    return np.linalg.pinv(matrix, hermitian=True)


def _by_output(covariance: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return the covariances of the weights of each output."""
    n, p = shape
    joint = covariance.reshape(n, p, n, p)
    return np.stack([joint[k, :, k] for k in range(n)])
