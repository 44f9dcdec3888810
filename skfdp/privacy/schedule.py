"""The noise schedule: one formula instead of one number per step.

What `PrivacyPlan` hands to the loop and what `Event` accounts for is `step_stds`.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from skfdp.privacy import facts

# A schedule is an array while it is accounted for; constant noise is not.
_MOST_SCHEDULED = 10**7


def step_stds(noise_std: float, n_steps: int, noise_decay: float) -> np.ndarray:
    r"""Return the standard deviation of the noise of each step of a schedule.

    Plan, event and loop all take it from here, so that what is drawn is what is
    accounted for, bit for bit.

    Parameters
    ----------
    noise_std : float
        Of the first step, which has the least noise.
    n_steps : int
    noise_decay : float
        At least 0. Without curvature the noise in a weight is the sum of ``rate_t**2 *
        std_t**2``; at a given sum of ``1 / std_t**2`` (the privacy) it is least where
        ``1 / std_t**2`` follows the step size, which decays linearly: 1. 0.75 measured
        best; 0 is constant noise.

    Returns
    -------
    stds : ndarray of shape (n_steps,)
        ``1 / stds[t]**2`` is proportional to ``max(1 - t / n_steps, 1 / (2
        n_steps))**noise_decay``.
    """
    if noise_decay == 0:
        return np.broadcast_to(np.float64(noise_std), (n_steps,))
    left = np.maximum(1 - np.arange(n_steps) / n_steps, 0.5 / n_steps)
    return noise_std * left ** (-noise_decay / 2)


def check_decay(noise_decay: float, noise_std: float, n_steps: int) -> None:
    """Raise ValueError unless a schedule is finite and fits into memory."""
    expected = "a finite number of at least 0"
    found = facts.number("noise_decay", noise_decay, expected)
    if not 0 <= found < math.inf:
        raise ValueError(f"noise_decay={found!r} must be {expected}.")
    if found == 0:
        return
    if n_steps > _MOST_SCHEDULED:
        raise ValueError(
            f"noise_decay={found!r} needs at most {_MOST_SCHEDULED} steps, got "
            f"n_steps={n_steps}: noise_decay=0 is constant noise."
        )
    # The last step has the most noise.
    if math.log(noise_std) + found / 2 * math.log(2 * n_steps) > math.log(1e300):
        raise ValueError(
            f"noise_decay={found!r} makes the noise of the last steps infinite: choose "
            "a smaller one; 1 follows the step size."
        )


@functools.lru_cache(maxsize=256)
def inverse_squares(noise_std: float, n_steps: int, noise_decay: float) -> float:
    """Return the sum of ``1 / stds**2``, in units of the first."""
    ratios = noise_std / step_stds(noise_std, n_steps, noise_decay)
    return math.fsum(ratios**2)
