"""Half the squared error, as in scikit-learn."""

import math

import numpy as np

from skfdp.kernels.losses.huber import residual
from skfdp.kernels.losses.loss import Loss


def _value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (margins[:, 0] - target) ** 2 / 2


LOSS = Loss(
    "squared_error",
    residual,
    _value,
    curvature=1.0,
    parameter=math.inf,  # a Huber loss with infinite threshold
)
