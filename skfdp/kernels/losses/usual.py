"""The losses of this package: log loss, hinge losses, Huber and Tweedie losses."""

import functools
import math

import numpy as np

from skfdp.kernels.compiling import kernel, part, shared, twin_of
from skfdp.kernels.losses import Loss
from skfdp.kernels.vectors import bits_of, float_of

# The log loss: sigmoid of one margin, softmax of several margins.


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
def _log_loss(margins, target, parameter):
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


@twin_of(_log_loss)
def log_loss(margins, target, parameter):
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


def _log_loss_value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    if margins.shape[1] == 1:
        return np.logaddexp(0.0, np.where(target == 1, -1.0, 1.0) * margins[:, 0])
    largest = margins.max(axis=1)
    total = np.exp(margins - largest[:, None]).sum(axis=1)
    return largest + np.log(total) - margins[np.arange(len(margins)), target]


def _longest_residual(n_classes: int) -> float:
    return 1.0 if n_classes == 2 else math.sqrt(2.0)


LOG_LOSS = Loss(
    "log_loss",
    log_loss,
    _log_loss_value,
    curvature=0.5,
    max_residual=_longest_residual,
    sign_fixed=True,
    label_reach=_longest_residual,
    averaged=_AVERAGED,
)


# Hinge losses, one-vs-rest.


@part
def sign(target, k, n_outputs):
    """Return 1 if output k is the class of the target, and -1 otherwise.

    A single output belongs to class 1.
    """
    if n_outputs == 1:
        return 1.0 if target == 1 else -1.0
    return 1.0 if target == k else -1.0


def signs(target: np.ndarray, n_outputs: int) -> np.ndarray:
    """Return `sign` for each output and row, of shape (n_outputs, n_rows)."""
    outputs = np.arange(n_outputs) if n_outputs > 1 else np.ones(1)
    return np.where(outputs[:, None] == target, 1.0, -1.0)


def shortfalls(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return max(0, 1 - sign * margin) for each one-vs-rest problem."""
    return np.maximum(0.0, 1.0 - signs(target, margins.shape[1]).T * margins)


def unit_slopes(n_classes: int) -> float:
    """Return the `max_residual` of a loss with slope at most 1 in each output."""
    return 1.0 if n_classes == 2 else math.sqrt(n_classes)


@kernel()
def _hinge(margins, target, parameter):
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            side = sign(target[i], k, margins.shape[0])
            margins[k, i] = -side if side * margins[k, i] < 1.0 else 0.0


@twin_of(_hinge)
def hinge(margins, target, parameter):
    """Replace margins by the subgradient of max(0, 1 - sign * margin), one-vs-rest."""
    sides = signs(target, len(margins))
    margins[:] = np.where(sides * margins < 1.0, -sides, 0.0)


def _hinge_value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return shortfalls(margins, target).sum(axis=1)


HINGE = Loss(
    "hinge",
    hinge,
    _hinge_value,
    curvature=0.5,
    max_residual=unit_slopes,
    sign_fixed=True,
)


@kernel()
def _squared_hinge(margins, target, parameter):
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            side = sign(target[i], k, margins.shape[0])
            margins[k, i] = -2.0 * side * max(0.0, 1.0 - side * margins[k, i])


@twin_of(_squared_hinge)
def squared_hinge(margins, target, parameter):
    """Replace margins by the gradient of max(0, 1 - sign * margin)**2, one-vs-rest."""
    sides = signs(target, len(margins))
    margins[:] = -2.0 * sides * np.fmax(0.0, 1.0 - sides * margins)


def _squared_value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (shortfalls(margins, target) ** 2).sum(axis=1)


SQUARED_HINGE = Loss(
    "squared_hinge", squared_hinge, _squared_value, curvature=2.0, sign_fixed=True
)


# The Huber loss, squared up to a threshold and linear beyond it; the squared error.


@kernel()
def _huber(margins, target, threshold):
    for i in range(margins.shape[1]):
        error = margins[0, i] - target[i]
        if error > threshold:
            error = threshold
        elif error < -threshold:
            error = -threshold
        margins[0, i] = error


@twin_of(_huber)
def huber(margins, target, threshold):
    """Replace margins by margin minus target, clipped to [-threshold, threshold].

    NaN stays NaN.
    """
    np.clip(margins - target, -threshold, threshold, out=margins)


def _huber_value(
    threshold: float, margins: np.ndarray, target: np.ndarray
) -> np.ndarray:
    error = np.abs(margins[:, 0] - target)
    beyond = threshold * (error - threshold / 2)
    return np.where(error <= threshold, error**2 / 2, beyond)


def with_threshold(threshold: float) -> Loss:
    """Return the Huber loss with a threshold."""
    return Loss(
        "huber",
        huber,
        functools.partial(_huber_value, threshold),
        curvature=1.0,
        max_residual=lambda n_classes: threshold,
        parameter=float(threshold),
        with_parameter=with_threshold,
    )


def _squared_error(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (margins[:, 0] - target) ** 2 / 2


HUBER = with_threshold(1.35)
#: Half the squared error, as in scikit-learn.
SQUARED_ERROR = Loss(
    "squared_error",
    huber,
    _squared_error,
    curvature=1.0,
    parameter=math.inf,  # a Huber loss with infinite threshold
)


# Tweedie losses: half the deviance, up to a constant, with a log link.


# The loss is linear beyond these margins.
_FURTHEST_LOG = 30.0


@kernel()
def _tweedie(margins, target, power):
    for i in range(margins.shape[1]):
        m = margins[0, i]
        if m > _FURTHEST_LOG:
            m = _FURTHEST_LOG
        elif m < -_FURTHEST_LOG:
            m = -_FURTHEST_LOG
        rate = exponential((2.0 - power) * m)
        margins[0, i] = rate - target[i] * exponential((1.0 - power) * m)


@twin_of(_tweedie)
def tweedie(margins, target, power):
    """Replace margins m by ``exp((2 - power) m) - target exp((1 - power) m)``.

    Margins are capped, to keep residuals finite.
    """
    m = np.clip(margins, -_FURTHEST_LOG, _FURTHEST_LOG)
    rate = exponential((2.0 - power) * m)
    margins[:] = rate - target * exponential((1.0 - power) * m)


def _deviance(power: float, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    m = np.clip(margins[:, 0], -_FURTHEST_LOG, _FURTHEST_LOG)
    rate, part = np.exp((2 - power) * m), target * np.exp((1 - power) * m)
    mean = m if power == 2 else rate / (2 - power)
    known = target * m if power == 1 else part / (1 - power)
    return mean - known + (margins[:, 0] - m) * (rate - part)


def with_power(power: float, name: str = "tweedie") -> Loss:
    """Return the loss with a power from 1 (Poisson) to 2 (gamma)."""
    return Loss(
        name,
        tweedie,
        functools.partial(_deviance, power),
        curvature=1.0,  # for a target of 1 at the margin 0
        parameter=float(power),
        with_parameter=with_power,
    )


POISSON, GAMMA = with_power(1.0, "poisson"), with_power(2.0, "gamma")
TWEEDIE = with_power(1.5)
