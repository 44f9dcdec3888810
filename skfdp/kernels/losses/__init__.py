"""Losses: the compiled residual, the value, and their properties.

The loss that users pass as "squared_hinge" is `SQUARED_HINGE`, a `Loss`, in `usual` or
in a file of this name. To add a loss, write its file and add its name below;
CONTRIBUTING.rst has an example.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from collections.abc import Callable

import numpy as np

#: Losses of linear classifiers, whose targets are classes.
CLASSIFICATION = ("log_loss", "hinge", "squared_hinge")
#: Losses of linear regressors, whose targets are numbers.
REGRESSION = ("squared_error", "huber", "poisson", "gamma", "tweedie")
#: Those with a log link.
OF_RATES = ("poisson", "gamma", "tweedie")


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss: its compiled residual, its value, and properties such as its curvature.

    The residual is the derivative of the loss with respect to the margins.
    """

    name: str  # the name that users pass
    #: ``leaf(margins, target, parameter)`` replaces margins by residuals, see
    #: `kernels.contributions`.
    leaf: Callable[[np.ndarray, np.ndarray, float], None]
    #: ``value(margins, target)``, float64 of shape (n_rows,).
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    #: Largest second derivative along a unit vector of margins.
    curvature: float
    #: ``max_residual(n_classes)``, the largest L2 norm of a residual.
    max_residual: Callable[[int], float] = lambda n_classes: math.inf
    #: Whether the target alone fixes the sign of every non-zero entry of the residual.
    sign_fixed: bool = False
    #: ``label_reach(n_classes)``, the sensitivity of the residual to the label: the
    #: largest distance between the residuals of two labels at equal margins. None means
    #: that no bound is known except twice the largest residual.
    label_reach: Callable[[int], float] | None = None
    #: The third argument of `leaf`, for instance the Huber threshold.
    parameter: float = 0.0
    #: The value of `parameter` with which the leaf ignores the target, and averages the
    #: residual over all labels. None if the leaf cannot do this.
    averaged: float | None = None
    #: Returns the loss with another `parameter`; None if it has none.
    with_parameter: Callable[[float], Loss] | None = None

    def __reduce__(self):
        # Pickle the name. A compiled function would be unpickled as a new function,
        # which is not in `kernels.contributions.LOSS_LEAVES`.
        return loss_named, (self.name, self.parameter)

    @functools.cached_property
    def target_free(self) -> Loss:
        """The loss whose residual is averaged over all labels, and needs no target."""
        if self.averaged is None:
            raise ValueError(f"the residual of {self.name} needs a target.")
        return dataclasses.replace(self, parameter=self.averaged)

    def residual(self, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the residuals, float64 of shape (n_rows, n_outputs) like margins."""
        out = np.array(margins.T, dtype=np.float64, order="C")
        self.leaf(out, narrow(target), self.parameter)
        return np.ascontiguousarray(out.T)

    def largest_residual(self, margins: np.ndarray) -> np.ndarray:
        """Return the residual of each row for its least likely class.

        With the log loss, no other class gives the row a longer residual.
        """
        if margins.shape[1] == 1:
            return self.residual(margins, margins[:, 0] < 0)
        return self.residual(margins, margins.argmin(axis=1))

    def target_free_residual(self, margins: np.ndarray) -> np.ndarray:
        """Return the residuals averaged over all labels, from the margins alone."""
        return self.target_free.residual(margins, np.empty(0, dtype=np.int64))


def loss_named(name: str, parameter: float | None = None) -> Loss:
    """Return the loss with this name and this parameter; None: the usual one."""
    # By name, because a file of losses imports this one, and numba.
    file = importlib.import_module(f"{__name__}.usual")
    if not hasattr(file, name.upper()):
        file = importlib.import_module(f"{__name__}.{name}")
    loss = getattr(file, name.upper())
    if parameter is None or parameter == loss.parameter:
        return loss
    if parameter == loss.averaged:
        return loss.target_free
    return loss.with_parameter(parameter)


def narrow(target: np.ndarray) -> np.ndarray:
    """Return a copy of the targets: classes as int16, other targets as float64.

    Residual functions are compiled for these two dtypes only.
    """
    return np.array(target, np.float64 if target.dtype.kind == "f" else np.int16)
