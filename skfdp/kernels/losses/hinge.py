"""The hinge loss, one-vs-rest."""

import numpy as np

from skfdp.kernels.compiling import kernel, twin_of
from skfdp.kernels.losses.loss import Loss
from skfdp.kernels.losses.one_vs_rest import shortfalls, sign, signs, unit_slopes


@kernel()
def _residual(margins, target, parameter):
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            side = sign(target[i], k, margins.shape[0])
            margins[k, i] = -side if side * margins[k, i] < 1.0 else 0.0


@twin_of(_residual)
def residual(margins, target, parameter):
    """Replace margins by the subgradient of max(0, 1 - sign * margin), one-vs-rest."""
    sides = signs(target, len(margins))
    margins[:] = np.where(sides * margins < 1.0, -sides, 0.0)


def _value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return shortfalls(margins, target).sum(axis=1)


LOSS = Loss(
    "hinge", residual, _value, curvature=0.5, max_residual=unit_slopes, sign_fixed=True
)
