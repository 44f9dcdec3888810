"""The smooth hinge loss, one-vs-rest: quadratic below the margin, then linear."""

import numpy as np

from skfdp.kernels.compiling import kernel, twin_of
from skfdp.kernels.losses import Loss
from skfdp.kernels.losses.usual import shortfalls, sign, signs, unit_slopes


@kernel()
def _residual(margins, target, parameter):
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            side = sign(target[i], k, margins.shape[0])
            margins[k, i] = -side * min(1.0, max(0.0, 1.0 - side * margins[k, i]))


@twin_of(_residual)
def residual(margins, target, parameter):
    """Replace margins by their shortfall, at most 1, toward the side of the class."""
    sides = signs(target, len(margins))
    margins[:] = -sides * np.clip(1.0 - sides * margins, 0.0, 1.0)


def _value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    short = shortfalls(margins, target)
    return np.where(short < 1, short**2 / 2, short - 0.5).sum(axis=1)


SMOOTH_HINGE = Loss(
    "smooth_hinge",
    residual,
    _value,
    curvature=1.0,
    max_residual=unit_slopes,
    sign_fixed=True,
)
