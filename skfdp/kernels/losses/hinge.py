"""Hinge losses, one-vs-rest."""

import math

import numpy as np

from skfdp.kernels.compiling import kernel, part, twin_of
from skfdp.kernels.losses import Loss


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


@kernel()
def _hinge(margins, target, parameter):
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            side = sign(target[i], k, margins.shape[0])
            margins[k, i] = -side if side * margins[k, i] < 1.0 else 0.0


@twin_of(_hinge)
def hinge(margins, target, parameter):
    """Replace margins by the subgradient of max(0, 1 - sign * margin), one-vs-rest."""
    sides = signs(target, len(margins))
    margins[:] = np.where(sides * margins < 1.0, -sides, 0.0)


def _hinge_value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return shortfalls(margins, target).sum(axis=1)


HINGE = Loss(
    "hinge",
    hinge,
    _hinge_value,
    curvature=0.5,
    max_residual=unit_slopes,
    sign_fixed=True,
)


@kernel()
def _squared_hinge(margins, target, parameter):
    for k in range(margins.shape[0]):
        for i in range(margins.shape[1]):
            side = sign(target[i], k, margins.shape[0])
            margins[k, i] = -2.0 * side * max(0.0, 1.0 - side * margins[k, i])


@twin_of(_squared_hinge)
def squared_hinge(margins, target, parameter):
    """Replace margins by the gradient of max(0, 1 - sign * margin)**2, one-vs-rest."""
    sides = signs(target, len(margins))
    margins[:] = -2.0 * sides * np.fmax(0.0, 1.0 - sides * margins)


def _squared_value(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (shortfalls(margins, target) ** 2).sum(axis=1)


SQUARED_HINGE = Loss(
    "squared_hinge", squared_hinge, _squared_value, curvature=2.0, sign_fixed=True
)
