"""The Huber loss, squared up to a threshold and linear beyond it; the squared error."""

import functools
import math

import numpy as np

from skfdp.kernels.compiling import kernel, twin_of
from skfdp.kernels.losses import Loss


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


def _huber(threshold: float, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    error = np.abs(margins[:, 0] - target)
    beyond = threshold * (error - threshold / 2)
    return np.where(error <= threshold, error**2 / 2, beyond)


def with_parameter(threshold: float) -> Loss:
    """Return the Huber loss with a threshold."""
    return Loss(
        "huber",
        residual,
        functools.partial(_huber, threshold),
        curvature=1.0,
        max_residual=lambda n_classes: threshold,
        parameter=float(threshold),
    )


def _squared_error(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (margins[:, 0] - target) ** 2 / 2


HUBER = with_parameter(1.35)
#: Half the squared error, as in scikit-learn.
SQUARED_ERROR = Loss(
    "squared_error",
    residual,
    _squared_error,
    curvature=1.0,
    parameter=math.inf,  # a Huber loss with infinite threshold
)
