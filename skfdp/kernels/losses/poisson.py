"""The Poisson loss: half the deviance, up to a constant, with a log link."""

import numpy as np

from skfdp.kernels.compiling import kernel
from skfdp.kernels.losses.log_loss import exponential
from skfdp.kernels.losses.loss import Loss

# The loss is linear beyond this margin.
_LARGEST_LOG_RATE = 30.0


@kernel()
def residual(margins, target, largest):
    """Replace margins by rate minus target; margins are capped to keep rates finite."""
    for i in range(margins.shape[1]):
        m = margins[0, i]
        margins[0, i] = exponential(largest if m > largest else m) - target[i]


def _value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    capped = np.minimum(margins[:, 0], _LARGEST_LOG_RATE)
    rate = np.exp(capped) * (1 + margins[:, 0] - capped)
    return rate - target * margins[:, 0]


LOSS = Loss(
    "poisson",
    residual,
    _value,
    curvature=1.0,  # the second derivative is the rate, whose mean is 1 after rescaling
    parameter=_LARGEST_LOG_RATE,
)
