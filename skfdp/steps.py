"""Step rules: what happens to a gradient after it is released.

Post-processing: nothing here sees data, so nothing here costs privacy.
"""

from __future__ import annotations

import dataclasses

import numpy as np

AVERAGES = ("last", "tail", "uniform")


@dataclasses.dataclass(frozen=True)
class HeavyBall:
    """Momentum descent with a step size that decays linearly, to zero by default.

    Parameters
    ----------
    learning_rate : float
        First step size.
    momentum : float
        Factor of the velocity, in [0, 1).
    n_steps : int
        Length of the decay.
    radius : float or None
        Project the iterate onto the L2 ball of this radius after each step.
    decay : float
        Share of the first step size that is gone at the end; 0: constant steps.
    """

    learning_rate: float
    momentum: float
    n_steps: int
    radius: float | None = None
    decay: float = 1.0

    def update(
        self, theta: np.ndarray, velocity: np.ndarray, gradient: np.ndarray, step: int
    ) -> np.ndarray:
        """Return the next iterate, in the memory of `gradient`; `velocity` changes.

        All three are contiguous float64 arrays of one shape.
        """
        # numba loads with the first fit, not with `import skfdp`.
        from skfdp.step_kernels import descend

        rate = self.learning_rate * (1 - self.decay * step / self.n_steps)
        flat = (array.reshape(-1) for array in (theta, velocity, gradient))
        descend(*flat, float(self.momentum), float(rate))
        theta = gradient
        if self.radius is not None:
            norm = np.linalg.norm(theta)
            if norm > self.radius:
                theta *= self.radius / norm
        return theta


class Average:
    """Which iterate is published: the last, or a mean of the path.

    Parameters
    ----------
    kind : {"last", "tail", "uniform"}
        "tail" is the mean of the second half, "uniform" of all iterates after the
        start.
    n_steps : int
        Length of the path.
    """

    def __init__(self, kind: str, n_steps: int):
        self._first = {"last": n_steps - 1, "tail": n_steps // 2, "uniform": 0}[kind]
        self._count = 0
        self.value = np.empty(0)

    def add(self, theta: np.ndarray, step: int) -> None:
        """Take in the iterate after step number `step`, counted from 0."""
        if step <= self._first or self._count == 0:
            self._count, self.value = 1, theta
        else:
            self._count += 1
            self.value = self.value + (theta - self.value) / self._count
