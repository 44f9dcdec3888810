"""The squared hinge loss, one-vs-rest."""

import numpy as np

from skfdp.kernels.compiling import kernel, twin_of
from skfdp.kernels.losses.loss import Loss
from skfdp.kernels.losses.one_vs_rest import shortfalls, sign, signs


@kernel()
def _residual(margins, target, parameter):
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            side = sign(target[i], k, margins.shape[0])
            margins[k, i] = -2.0 * side * max(0.0, 1.0 - side * margins[k, i])


@twin_of(_residual)
def residual(margins, target, parameter):
    """Replace margins by the gradient of max(0, 1 - sign * margin)**2, one-vs-rest."""
    sides = signs(target, len(margins))
    margins[:] = -2.0 * sides * np.fmax(0.0, 1.0 - sides * margins)


def _value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (shortfalls(margins, target) ** 2).sum(axis=1)


LOSS = Loss("squared_hinge", residual, _value, curvature=2.0, sign_fixed=True)
