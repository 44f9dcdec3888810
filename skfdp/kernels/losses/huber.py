"""The Huber loss: squared up to a threshold, linear beyond it."""

import functools

import numpy as np

from skfdp.kernels.compiling import kernel, twin_of
from skfdp.kernels.losses.loss import Loss


@kernel()
def _residual(margins, target, threshold):
    for i in range(margins.shape[1]):
        error = margins[0, i] - target[i]
        if error > threshold:
            error = threshold
        elif error < -threshold:
            error = -threshold
        margins[0, i] = error


@twin_of(_residual)
def residual(margins, target, threshold):
    """Replace margins by margin minus target, clipped to [-threshold, threshold].

    NaN stays NaN.
    """
    np.clip(margins - target, -threshold, threshold, out=margins)


def _value(threshold: float, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    error = np.abs(margins[:, 0] - target)
    beyond = threshold * (error - threshold / 2)
    return np.where(error <= threshold, error**2 / 2, beyond)


def with_parameter(threshold: float) -> Loss:
    """Return the Huber loss with a threshold."""
    return Loss(
        "huber",
        residual,
        functools.partial(_value, threshold),
        curvature=1.0,
        max_residual=lambda n_classes: threshold,
        parameter=float(threshold),
    )


LOSS = with_parameter(1.35)
