"""Compiled residuals: derivative of a loss with respect to the margins.

``<loss>_residual(margins, target, out)``:

* margins : float64 (n_rows, n_outputs); one output for two classes;
* target : int64 (n_rows,), the class of each row, 0-based; for the regression losses
  float64, its value;
* out : float64 (n_rows, n_outputs), written.

The inner loop runs over the outputs of one row, in one order: what a row contributes
cannot depend on where it stands. No fastmath: the NaN guard of the clip needs NaN.
"""

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def log_loss_residual(margins, target, out):
    """Sigmoid or softmax minus one-hot."""
    log_loss_probabilities(margins, out)
    for i in range(margins.shape[0]):
        if margins.shape[1] == 1:
            out[i, 0] -= target[i]
        else:
            out[i, target[i]] -= 1.0


@njit(nogil=True, cache=True)
def log_loss_target_free_residual(margins, out):
    """Sigmoid or softmax minus the uniform distribution."""
    log_loss_probabilities(margins, out)
    centre = 0.5 if margins.shape[1] == 1 else 1.0 / margins.shape[1]
    for i in range(margins.shape[0]):
        for k in range(margins.shape[1]):
            out[i, k] -= centre


@njit(nogil=True, cache=True)
def log_loss_probabilities(margins, out):
    """Sigmoid of one margin, softmax of several."""
    for i in range(margins.shape[0]):
        if margins.shape[1] == 1:
            out[i, 0] = 1.0 / (1.0 + math.exp(-margins[i, 0]))
            continue
        largest = -np.inf
        for k in range(margins.shape[1]):
            largest = max(largest, margins[i, k])
        total = 0.0
        for k in range(margins.shape[1]):
            out[i, k] = math.exp(margins[i, k] - largest)
            total += out[i, k]
        for k in range(margins.shape[1]):
            out[i, k] /= total


@njit(nogil=True, cache=True)
def hinge_residual(margins, target, out):
    """Subgradient of max(0, 1 - sign * margin), one-vs-rest."""
    for i in range(margins.shape[0]):
        for k in range(margins.shape[1]):
            sign = _sign(target[i], k, margins.shape[1])
            out[i, k] = -sign if sign * margins[i, k] < 1.0 else 0.0


@njit(nogil=True, cache=True)
def squared_hinge_residual(margins, target, out):
    """Gradient of max(0, 1 - sign * margin)**2, one-vs-rest."""
    for i in range(margins.shape[0]):
        for k in range(margins.shape[1]):
            sign = _sign(target[i], k, margins.shape[1])
            out[i, k] = -2.0 * sign * max(0.0, 1.0 - sign * margins[i, k])


@njit(nogil=True, cache=True)
def squared_error_residual(margins, target, out):
    """Margin minus target."""
    for i in range(margins.shape[0]):
        out[i, 0] = margins[i, 0] - target[i]


@njit(nogil=True, cache=True)
def huber_residual(margins, target, threshold, out):
    """Margin minus target, cut at the threshold; NaN stays NaN."""
    for i in range(margins.shape[0]):
        error = margins[i, 0] - target[i]
        if error > threshold:
            error = threshold
        elif error < -threshold:
            error = -threshold
        out[i, 0] = error


@njit(nogil=True, cache=True)
def poisson_residual(margins, target, largest, out):
    """Rate minus target; margins are capped, or a huge rate would count as nothing."""
    for i in range(margins.shape[0]):
        margin = margins[i, 0]
        if margin > largest:
            margin = largest
        out[i, 0] = math.exp(margin) - target[i]


@njit(nogil=True, cache=True)
def _sign(target, k, n_outputs):
    if n_outputs == 1:
        return 1.0 if target == 1 else -1.0
    return 1.0 if target == k else -1.0
