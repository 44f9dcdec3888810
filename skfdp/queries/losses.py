"""Losses as functions of the margin: pointwise, compiled, without linear algebra.

A loss maps (target, margins) to values and residuals, the residual being the
derivative with respect to the margins. To add one, write its leaf in
`kernels.residuals` and name it there, write its value below, and register it; the
common tests find it in `LOSSES` or `REGRESSION_LOSSES`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from collections.abc import Callable
from types import ModuleType

import numpy as np

__all__ = ["LOSSES", "REGRESSION_LOSSES", "Loss", "huber"]


# The Poisson loss goes on as a straight line beyond this margin.
_LARGEST_LOG_RATE = 30.0


@dataclasses.dataclass(frozen=True)
class Loss:
    """One loss: its compiled residual and what the defaults need to know about it.

    Attributes
    ----------
    name : str
        Key of the registry, and of `kernels.residuals.NAMES`.
    value : callable
        ``value(margins, target) -> float64 ndarray of shape (n_rows,)``.
    curvature : float
        Largest second derivative along a unit vector of margins.
    max_residual : callable
        ``max_residual(n_classes)``: largest L2 norm of a residual, inf if unbounded.
    sign_fixed : bool, default=False
        Whether the target alone fixes the sign of every entry of the residual, or it
        is zero.
    label_reach : callable, default=None
        ``label_reach(n_classes)``: largest distance between the residuals of two
        labels at equal margins; None: no bound below twice the largest residual.
    parameter : float, default=0.0
        What the residual depends on besides margins and target.
    """

    name: str
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    curvature: float
    max_residual: Callable[[int], float]
    sign_fixed: bool = False
    label_reach: Callable[[int], float] | None = None
    parameter: float = 0.0

    @property
    def kind(self) -> int:
        """What compiled loops know the residual by."""
        return _compiled().NAMES.index(self.name)

    @property
    def target_free_kind(self) -> int:
        """What they know the residual by that margins alone tell."""
        return _compiled().NAMES.index(f"target_free_{self.name}")

    def residual(self, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the residuals; both are float64 (n_rows, n_outputs)."""
        return self._of(self.kind, margins, target)

    def target_free_residual(self, margins: np.ndarray) -> np.ndarray:
        """Return the residuals averaged over all labels: what margins alone tell."""
        return self._of(self.target_free_kind, margins, np.empty(0, dtype=np.int64))

    def _of(self, kind: int, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
        out = np.array(margins.T, dtype=np.float64, order="C")
        _compiled().residuals(kind, self.parameter, out, target)
        return np.ascontiguousarray(out.T)


def _compiled() -> ModuleType:
    # numba loads with the first fit, not with `import skfdp`.
    return importlib.import_module("skfdp.kernels.residuals")


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
        Loss(
            "log_loss",
            _log_loss,
            0.5,
            _log_loss_reach,
            sign_fixed=True,
            label_reach=_log_loss_reach,
        ),
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


def _squared_error(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (margins[:, 0] - target) ** 2 / 2


def _huber(threshold: float, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    error = np.abs(margins[:, 0] - target)
    beyond = threshold * (error - threshold / 2)
    return np.where(error <= threshold, error**2 / 2, beyond)


def _poisson(margins: np.ndarray, target: np.ndarray) -> np.ndarray:
    capped = np.minimum(margins[:, 0], _LARGEST_LOG_RATE)
    rate = np.exp(capped) * (1 + margins[:, 0] - capped)
    return rate - target * margins[:, 0]


def _unbounded(n_classes: int) -> float:
    return math.inf


def huber(threshold: float) -> Loss:
    """Return the Huber loss: squared up to the threshold, linear beyond it."""
    return Loss(
        "huber",
        functools.partial(_huber, threshold),
        1.0,
        lambda n_classes: threshold,
        parameter=float(threshold),
    )


#: Every loss of the linear regressors, for targets of any unit. Half of scikit-learn's
#: squared error and half of the Poisson deviance, up to constants; a log link.
REGRESSION_LOSSES = {
    loss.name: loss
    for loss in (
        Loss("squared_error", _squared_error, 1.0, _unbounded),
        huber(1.35),
        # The curvature is the rate, which the loop's unit makes 1 on average.
        Loss("poisson", _poisson, 1.0, _unbounded, parameter=_LARGEST_LOG_RATE),
    )
}
