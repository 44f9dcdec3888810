"""Compiled residuals: derivative of a loss with respect to the margins.

``<loss>_residual(margins, target, out)``:

* margins : float64 (n_rows, n_outputs); one output for two classes;
* target : int64 (n_rows,), the class of each row, 0-based; for the regression losses
  float64, its value;
* out : float64 (n_rows, n_outputs), written.

The inner loop runs over the outputs of one row, in one order: what a row contributes
cannot depend on where it stands. No fastmath: the NaN guard of the clip needs NaN.
For the same reason leaves call `exponentials` and not `math.exp`.
"""

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
    n_rows, n_outputs = margins.shape
    for i in range(n_rows):
        largest = max(margins[i, 0], 0.0) if n_outputs == 1 else margins[i, 0]
        for k in range(1, n_outputs):
            largest = max(largest, margins[i, k])
        for k in range(n_outputs):
            # One margin m against 0: exp(-|m|), which is exp(m) / 1 or 1 / exp(m).
            out[i, k] = margins[i, k] - largest
            if n_outputs == 1 and margins[i, 0] > 0.0:
                out[i, 0] = -largest
    exponentials(out)
    for i in range(n_rows):
        if n_outputs == 1:
            top = 1.0 if margins[i, 0] > 0.0 else out[i, 0]
            out[i, 0] = top / (1.0 + out[i, 0])
            continue
        total = 0.0
        for k in range(n_outputs):
            total += out[i, k]
        share = 1.0 / total
        for k in range(n_outputs):
            out[i, k] *= share


@njit(nogil=True, cache=True)
def exponentials(values):
    """Replace each entry of a contiguous array, at most 709, by its exponential.

    Written in additions and multiplications, which round alike in vectors and scalars:
    a vectorised library function would round the last entries otherwise than the rest.
    Error below two units in the last place; exp(-708) below -708; NaN stays NaN.
    """
    flat = values.ravel()
    power = np.empty(flat.size)
    bits = power.view(np.int64)
    for i in range(flat.size):
        x = flat[i]
        x = -708.0 if x < -708.0 else x
        # Adding 1.5 * 2**52 leaves the nearest integer in the low bits.
        shifted = x * 1.4426950408889634 + 6755399441055744.0
        power[i] = shifted
        n = shifted - 6755399441055744.0
        r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
        p = 1 / 479001600
        p = p * r + 1 / 39916800
        p = p * r + 1 / 3628800
        p = p * r + 1 / 362880
        p = p * r + 1 / 40320
        p = p * r + 1 / 5040
        p = p * r + 1 / 720
        p = p * r + 1 / 120
        p = p * r + 1 / 24
        p = p * r + 1 / 6
        p = p * r + 0.5
        p = p * r + 1.0
        flat[i] = p * r + 1.0
    for i in range(flat.size):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(flat.size):
        flat[i] *= power[i]


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
        out[i, 0] = largest if margin > largest else margin
    exponentials(out)
    for i in range(margins.shape[0]):
        out[i, 0] -= target[i]


@njit(nogil=True, cache=True)
def _sign(target, k, n_outputs):
    if n_outputs == 1:
        return 1.0 if target == 1 else -1.0
    return 1.0 if target == k else -1.0
