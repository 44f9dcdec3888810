"""Losses in margin space: pointwise, compiled, ignorant of the linear algebra.

A loss maps (target, margins) to values and residuals, the residual being the
derivative with respect to the margins. To add one, write its leaf in `residuals`,
its value below, and register it; the common tests find it in `LOSSES`.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable

import numpy as np

__all__ = ["LOSSES", "Loss"]


@dataclasses.dataclass(frozen=True)
class Loss:
    """One loss: its compiled residual and what the defaults need to know of it.

    Attributes
    ----------
    name : str
        Key of the registry, and prefix of its leaves in `losses.residuals`.
    value : callable
        ``value(margins, target) -> float64 ndarray of shape (n_rows,)``.
    curvature : float
        Largest second derivative along a unit vector of margins.
    max_residual : callable
        ``max_residual(n_classes)``: largest L2 norm of a residual, inf if unbounded.
    sign_fixed : bool, default=False
        Whether the target alone fixes the sign of every entry of the residual, or it
        is zero.
    """

    name: str
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    curvature: float
    max_residual: Callable[[int], float]
    sign_fixed: bool = False

    def residual(self, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the residuals; see `losses.residuals` for shapes."""
        out = np.empty_like(margins)
        self._leaf("residual")(margins, target, out)
        return out

    def target_free_residual(self, margins: np.ndarray) -> np.ndarray:
        """Return the residuals averaged over all labels: what margins alone tell."""
        out = np.empty_like(margins)
        self._leaf("target_free_residual")(margins, out)
        return out

    def _leaf(self, what: str) -> Callable:
        # numba loads with the first fit, not with `import skfdp`.
        leaves = importlib.import_module("skfdp.losses.residuals")
        return getattr(leaves, f"{self.name}_{what}")


def _log_loss(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    if margins.shape[1] == 1:
        return np.logaddexp(0.0, np.where(target == 1, -1.0, 1.0) * margins[:, 0])
    largest = margins.max(axis=1)
    total = np.exp(margins - largest[:, None]).sum(axis=1)
    return largest + np.log(total) - margins[np.arange(len(margins)), target]


def _shortfalls(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return 1 - sign * margin for each one-vs-rest problem."""
    if margins.shape[1] == 1:
        sign = np.where(target == 1, 1.0, -1.0)[:, None]
    else:
        sign = np.where(np.arange(margins.shape[1]) == target[:, None], 1.0, -1.0)
    return np.maximum(0.0, 1.0 - sign * margins)


def _hinge(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return _shortfalls(margins, target).sum(axis=1)


def _squared_hinge(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (_shortfalls(margins, target) ** 2).sum(axis=1)


def _log_loss_reach(n_classes: int) -> float:
    return 1.0 if n_classes == 2 else math.sqrt(2.0)


def _hinge_reach(n_classes: int) -> float:
    return 1.0 if n_classes == 2 else math.sqrt(n_classes)


#: Every loss of the linear classifiers, by the name that users pass.
LOSSES = {
    loss.name: loss
    for loss in (
        Loss("log_loss", _log_loss, 0.5, _log_loss_reach, sign_fixed=True),
        Loss("hinge", _hinge, 0.5, _hinge_reach, sign_fixed=True),
        Loss(
            "squared_hinge",
            _squared_hinge,
            2.0,
            lambda n_classes: math.inf,
            sign_fixed=True,
        ),
    )
}
