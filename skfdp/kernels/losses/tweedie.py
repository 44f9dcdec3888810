"""Tweedie losses: half the deviance, up to a constant, with a log link."""

import functools

import numpy as np

from skfdp.kernels.compiling import kernel, twin_of
from skfdp.kernels.losses import Loss
from skfdp.kernels.losses.log_loss import exponential

# The loss is linear beyond these margins.
_FURTHEST_LOG = 30.0


@kernel()
def _residual(margins, target, power):
    for i in range(margins.shape[1]):
        m = margins[0, i]
        if m > _FURTHEST_LOG:
            m = _FURTHEST_LOG
        elif m < -_FURTHEST_LOG:
            m = -_FURTHEST_LOG
        rate = exponential((2.0 - power) * m)
        margins[0, i] = rate - target[i] * exponential((1.0 - power) * m)


@twin_of(_residual)
def residual(margins, target, power):
    """Replace margins m by ``exp((2 - power) m) - target exp((1 - power) m)``.

    Margins are capped, to keep residuals finite.
    """
    m = np.clip(margins, -_FURTHEST_LOG, _FURTHEST_LOG)
    rate = exponential((2.0 - power) * m)
    margins[:] = rate - target * exponential((1.0 - power) * m)


def _value(power: float, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    m = np.clip(margins[:, 0], -_FURTHEST_LOG, _FURTHEST_LOG)
    rate, part = np.exp((2 - power) * m), target * np.exp((1 - power) * m)
    mean = m if power == 2 else rate / (2 - power)
    known = target * m if power == 1 else part / (1 - power)
    return mean - known + (margins[:, 0] - m) * (rate - part)


def with_parameter(power: float, name: str = "tweedie") -> Loss:
    """Return the loss with a power from 1 (Poisson) to 2 (gamma)."""
    return Loss(
        name,
        residual,
        functools.partial(_value, power),
        curvature=1.0,  # for a target of 1 at the margin 0
        parameter=float(power),
    )


POISSON, GAMMA = with_parameter(1.0, "poisson"), with_parameter(2.0, "gamma")
TWEEDIE = with_parameter(1.5)
