"""Common functions of the one-vs-rest losses."""

import math

import numpy as np

from skfdp.kernels.compiling import part


@part
def sign(target, k, n_outputs):
    """Return 1 if output k is the class of the target, and -1 otherwise.

    A single output belongs to class 1.
    """
    if n_outputs == 1:
        return 1.0 if target == 1 else -1.0
    return 1.0 if target == k else -1.0


def signs(target: np.ndarray, n_outputs: int) -> np.ndarray:
    """Return `sign` for each output and row, of shape (n_outputs, n_rows)."""
    outputs = np.arange(n_outputs) if n_outputs > 1 else np.ones(1)
    return np.where(outputs[:, None] == target, 1.0, -1.0)


def shortfalls(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return max(0, 1 - sign * margin) for each one-vs-rest problem."""
    return np.maximum(0.0, 1.0 - signs(target, margins.shape[1]).T * margins)


def unit_slopes(n_classes: int) -> float:
    """Return the `max_residual` of a loss with slope at most 1 in each output."""
    return 1.0 if n_classes == 2 else math.sqrt(n_classes)
