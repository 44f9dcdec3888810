"""Compiled residuals: derivative of a loss with respect to the margins.

Every leaf replaces the margins of some rows by their residuals:

* margins : float64 (n_outputs, n_rows), changed in place; one output for two classes;
* target : integers (n_rows,), the class of each row, 0-based; for the regression losses
  float64, its value.

Loops run over the rows, so that they become vectors; those over the outputs of a row go
in one order. What a row contributes cannot depend on where it stands: additions,
multiplications, divisions, square roots and comparisons round alike in vectors and in
scalars, and nothing else is used. No fastmath: the NaN guard of the clip needs NaN. For
the same reasons leaves call `exponentials` and not `math.exp`.
"""

import numpy as np

from skfdp.kernels.compiling import kernel

#: Compiled loops know a residual by its place here.
NAMES = (
    "log_loss",
    "hinge",
    "squared_hinge",
    "squared_error",
    "huber",
    "poisson",
    "target_free_log_loss",
)
_LOG_LOSS, _TARGET_FREE = NAMES.index("log_loss"), NAMES.index("target_free_log_loss")
_HINGE, _SQUARED_HINGE = NAMES.index("hinge"), NAMES.index("squared_hinge")
_SQUARED_ERROR, _HUBER = NAMES.index("squared_error"), NAMES.index("huber")
_POISSON = NAMES.index("poisson")


@kernel(error_model="numpy")
def residuals(kind, parameter, margins, target):
    """Call the leaf of a kind, a place in `NAMES`; most ignore the parameter."""
    if kind == _LOG_LOSS or kind == _TARGET_FREE:
        # One call for both: each copy of a loop takes its time to compile.
        probabilities(margins)
        if kind == _LOG_LOSS:
            less_target(margins, target)
        else:
            less_uniform(margins)
    elif kind == _HINGE:
        hinge(margins, target)
    elif kind == _SQUARED_HINGE:
        squared_hinge(margins, target)
    elif kind == _SQUARED_ERROR:
        huber(margins, target, np.inf)
    elif kind == _HUBER:
        huber(margins, target, parameter)
    elif kind == _POISSON:
        poisson(margins, target, parameter)


@kernel()
def less_target(probabilities, target):
    """Subtract the one-hot target."""
    if probabilities.shape[0] == 1:
        for i in range(probabilities.shape[1]):
            probabilities[0, i] -= target[i]
        return
    for i in range(probabilities.shape[1]):
        # The cast is for regressors, whose targets get no classes.
        probabilities[np.int64(target[i]), i] -= 1.0


@kernel(error_model="numpy")
def less_uniform(probabilities):
    """Subtract the uniform distribution."""
    centre = 1.0 / max(2, probabilities.shape[0])
    for k in range(probabilities.shape[0]):
        for i in range(probabilities.shape[1]):
            probabilities[k, i] -= centre


@kernel(error_model="numpy")
def probabilities(margins):
    """Sigmoid of one margin, softmax of several."""
    n_outputs, n_rows = margins.shape
    largest, share = margins[0].copy(), np.zeros(n_rows)
    if n_outputs == 1:
        # One margin m against 0: exp(-|m|), which is exp(m) / 1 or 1 / exp(m).
        for i in range(n_rows):
            margins[0, i] = -abs(largest[i])
    else:
        for k in range(1, n_outputs):
            for i in range(n_rows):
                m = margins[k, i]
                largest[i] = m if m > largest[i] else largest[i]
        for k in range(n_outputs):
            for i in range(n_rows):
                margins[k, i] -= largest[i]
    exponentials(margins)
    if n_outputs == 1:
        for i in range(n_rows):
            e = margins[0, i]
            margins[0, i] = (1.0 if largest[i] > 0.0 else e) / (1.0 + e)
        return
    for k in range(n_outputs):
        for i in range(n_rows):
            share[i] += margins[k, i]
    for i in range(n_rows):
        share[i] = 1.0 / share[i]
    for k in range(n_outputs):
        for i in range(n_rows):
            margins[k, i] *= share[i]


@kernel()
def exponentials(values):
    """Replace each entry of a contiguous array, at most 709, by its exponential.

    Written in additions and multiplications, which round alike in vectors and scalars:
    a vectorised library function would round the last entries otherwise than the rest.
    Error below three units in the last place; exp(-708) below -708; NaN stays NaN.
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
        # Two short chains instead of a long one: each step waits for the one before.
        z = r * r
        even = (1 / 479001600 * z + 1 / 3628800) * z + 1 / 40320
        odd = (1 / 39916800 * z + 1 / 362880) * z + 1 / 5040
        even = ((even * z + 1 / 720) * z + 1 / 24) * z + 0.5
        odd = (odd * z + 1 / 120) * z + 1 / 6
        flat[i] = (even + odd * r) * z + r + 1.0
    for i in range(flat.size):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(flat.size):
        flat[i] *= power[i]


@kernel()
def hinge(margins, target):
    """Subgradient of max(0, 1 - sign * margin), one-vs-rest."""
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            sign = _sign(target[i], k, margins.shape[0])
            margins[k, i] = -sign if sign * margins[k, i] < 1.0 else 0.0


@kernel()
def squared_hinge(margins, target):
    """Gradient of max(0, 1 - sign * margin)**2, one-vs-rest."""
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            sign = _sign(target[i], k, margins.shape[0])
            margins[k, i] = -2.0 * sign * max(0.0, 1.0 - sign * margins[k, i])


@kernel()
def huber(margins, target, threshold):
    """Margin minus target, cut at the threshold; NaN stays NaN."""
    for i in range(margins.shape[1]):
        error = margins[0, i] - target[i]
        if error > threshold:
            error = threshold
        elif error < -threshold:
            error = -threshold
        margins[0, i] = error


@kernel()
def poisson(margins, target, largest):
    """Rate minus target; margins are capped, or a huge rate would count as nothing."""
    for i in range(margins.shape[1]):
        margins[0, i] = largest if margins[0, i] > largest else margins[0, i]
    exponentials(margins)
    for i in range(margins.shape[1]):
        margins[0, i] -= target[i]


@kernel()
def _sign(target, k, n_outputs):
    if n_outputs == 1:
        return 1.0 if target == 1 else -1.0
    return 1.0 if target == k else -1.0
