"""The noiseless optimum of the objective that a loop of noisy releases descends."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array, issparse

from skfdp.queries.losses import Loss
from skfdp.records.blocks import row_blocks

_PRECISELY = {"maxfun": 10**7, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-9}


def optimum(
    X: np.ndarray | csr_array,
    target: np.ndarray,
    loss: Loss,
    n_outputs: int,
    *,
    penalty: float,
    shares: np.ndarray | None = None,
    class_weight: np.ndarray | None = None,
    fit_intercept: bool = True,
    max_iter: int = 10_000,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Minimise ``mean of losses + penalty / 2 |coef|**2`` without any privacy.

    The mean is that over rows, each as often as its share says.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    target : int64 or float64 ndarray of shape (n_rows,)
    loss : Loss
    n_outputs : int
    penalty : float
        Of the mean; the intercept is free.
    shares : float64 ndarray of shape (n_rows,), default=None
        None: every row counts 1.
    class_weight : float64 ndarray of shape (n_classes,), default=None
        None: every record counts 1.
    fit_intercept : bool
    max_iter : int

    Returns
    -------
    coef : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
    n_iter : int
    """
    n_features = X.shape[1]
    weights = np.ones(X.shape[0]) if shares is None else shares
    n_records = float(weights.sum())
    if class_weight is not None:
        weights = weights * class_weight[target]
    mean, scale = _preconditioner(X, loss.curvature, penalty)
    mean *= fit_intercept

    def split(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta = flat.reshape(n_outputs, n_features + 1)
        coef = theta[:, :-1] / scale
        return coef, theta[:, -1] - coef @ mean

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coef, intercept = split(flat)
        strength = penalty * n_records
        value = np.vdot(coef, coef) * strength / 2
        by_coef, by_intercept = coef * strength, np.zeros(n_outputs)
        for block in row_blocks(X):
            rows, labels = X[block].astype(np.float64), target[block]
            margins = rows @ coef.T + intercept
            weight = weights[block]
            value += weight @ loss.value(margins, labels)
            residual = loss.residual(margins, labels) * weight[:, None]
            by_coef += residual.T @ rows
            by_intercept += residual.sum(axis=0) * fit_intercept
        by_theta = (by_coef - np.outer(by_intercept, mean)) / scale
        gradient = np.column_stack([by_theta, by_intercept])
        return value / n_records, gradient.ravel() / n_records

    found = minimize(
        objective,
        np.zeros(n_outputs * (n_features + 1)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, **_PRECISELY},
    )
    return *split(found.x), int(found.nit)


def _preconditioner(
    X: np.ndarray | csr_array, curvature: float, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return column means, and scales that give the Hessian a diagonal near 1.

    L-BFGS on columns of unequal scale takes ten times the steps. Whatever they are, the
    optimum is the same: the rows need no weights here.
    """
    n_rows = X.shape[0]
    total = sum(X[block].sum(axis=0, dtype=np.float64) for block in row_blocks(X))
    mean = total / n_rows
    if issparse(X):  # where differences would fill the matrix in
        square = sum((X[b].astype(np.float64) ** 2).sum(axis=0) for b in row_blocks(X))
        square = np.maximum(square - n_rows * mean**2, 0.0)
    else:
        square = sum(((X[block] - mean) ** 2).sum(axis=0) for block in row_blocks(X))
    return mean, np.sqrt(curvature * square / n_rows + penalty)
