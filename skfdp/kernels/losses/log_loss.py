"""The log loss: sigmoid of one margin, softmax of several margins."""

import math

import numpy as np

from skfdp.kernels.compiling import kernel, shared, twin_of
from skfdp.kernels.losses import Loss
from skfdp.kernels.vectors import bits_of, float_of

_AVERAGED = 1.0
_BIAS, _FRACTION_BITS = np.uint64(1023), np.uint64(52)


@shared
def exponential(x):
    """Return exp(x), for x of at most 709.

    This function uses only additions and multiplications, which round alike in
    vectorised and in scalar code. A vectorised library function might round the last
    entries of an array in another way. The error is below three units in the last
    place. Values below -708 count as -708; NaN stays NaN.
    """
    x = np.maximum(x, -708.0)
    # Adding 1.5 * 2**52 leaves the nearest integer in the low bits.
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    # Two short polynomials can be computed at the same time. In a single long one, each
    # step would wait for the one before.
    z = r * r
    even = (1 / 479001600 * z + 1 / 3628800) * z + 1 / 40320
    odd = (1 / 39916800 * z + 1 / 362880) * z + 1 / 5040
    even = ((even * z + 1 / 720) * z + 1 / 24) * z + 0.5
    odd = (odd * z + 1 / 120) * z + 1 / 6
    # The low bits of the shifted number are those of n, as an integer.
    power = float_of((bits_of(shifted) + _BIAS) << _FRACTION_BITS)
    return ((even + odd * r) * z + r + 1.0) * power


@kernel(error_model="numpy")
def _residual(margins, target, parameter):
    n_outputs, n_rows = margins.shape
    if n_outputs == 1:  # sigmoid
        for i in range(n_rows):
            m = margins[0, i]
            # For one margin m, exp(-|m|) gives the sigmoid without overflow.
            e = exponential(-abs(m))
            margins[0, i] = (1.0 if m > 0.0 else e) / (1.0 + e)
    else:  # softmax
        largest, share = np.empty(n_rows), np.empty(n_rows)
        for i in range(n_rows):
            largest[i], share[i] = margins[0, i], 0.0
        for k in range(1, n_outputs):
            for i in range(n_rows):
                m = margins[k, i]
                largest[i] = m if m > largest[i] else largest[i]
        for k in range(n_outputs):
            for i in range(n_rows):
                margins[k, i] = exponential(margins[k, i] - largest[i])
                share[i] += margins[k, i]
        for i in range(n_rows):
            share[i] = 1.0 / share[i]
        for k in range(n_outputs):
            for i in range(n_rows):
                margins[k, i] *= share[i]
    if parameter == _AVERAGED:
        centre = 1.0 / (n_outputs + (n_outputs == 1))
        for k in range(n_outputs):
            for i in range(n_rows):
                margins[k, i] -= centre
    elif n_outputs == 1:
        for i in range(n_rows):
            margins[0, i] -= target[i]
    else:
        for i in range(n_rows):
            # The cast lets numba compile this for regressors, whose targets are floats.
            margins[np.int64(target[i]), i] -= 1.0


@twin_of(_residual)
def residual(margins, target, parameter):
    """Replace margins by probabilities minus the one-hot target.

    If the parameter is `_AVERAGED`, subtract the mean of all one-hot labels instead.
    """
    n_outputs, n_rows = margins.shape
    if n_outputs == 1:
        e = exponential(-np.abs(margins))
        margins[:] = np.where(margins > 0.0, 1.0, e) / (1.0 + e)
    else:
        margins[:] = exponential(margins - margins.max(axis=0))
        share = np.zeros(n_rows)
        for one in margins:  # one after the other, as in the kernel
            share += one
        margins *= 1.0 / share
    if parameter == _AVERAGED:
        margins -= 1.0 / max(2, n_outputs)
    elif n_outputs == 1:
        margins -= target
    else:
        margins[target.astype(np.intp), np.arange(n_rows)] -= 1.0


def _value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    if margins.shape[1] == 1:
        return np.logaddexp(0.0, np.where(target == 1, -1.0, 1.0) * margins[:, 0])
    largest = margins.max(axis=1)
    total = np.exp(margins - largest[:, None]).sum(axis=1)
    return largest + np.log(total) - margins[np.arange(len(margins)), target]


def _largest_residual(n_classes: int) -> float:
    return 1.0 if n_classes == 2 else math.sqrt(2.0)


LOG_LOSS = Loss(
    "log_loss",
    residual,
    _value,
    curvature=0.5,
    max_residual=_largest_residual,
    sign_fixed=True,
    label_reach=_largest_residual,
    averaged=_AVERAGED,
)
