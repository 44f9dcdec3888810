"""The squared hinge loss, one-vs-rest."""

import numpy as np

from skfdp.kernels.compiling import kernel
from skfdp.kernels.losses.loss import Loss
from skfdp.kernels.losses.one_vs_rest import shortfalls, sign


@kernel()
def residual(margins, target, parameter):
    """Replace margins by the gradient of max(0, 1 - sign * margin)**2, one-vs-rest."""
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            side = sign(target[i], k, margins.shape[0])
            margins[k, i] = -2.0 * side * max(0.0, 1.0 - side * margins[k, i])


def _value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (shortfalls(margins, target) ** 2).sum(axis=1)


LOSS = Loss("squared_hinge", residual, _value, curvature=2.0, sign_fixed=True)
