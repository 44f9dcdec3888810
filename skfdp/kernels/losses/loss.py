"""The class of a loss, a function of target and margins."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss: its compiled residual, its value and the properties that defaults use.

    The residual is the derivative of the loss with respect to the margins.
    """

    name: str  # what users pass; the name of the file
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
    #: that only twice the largest residual is known as a bound.
    label_reach: Callable[[int], float] | None = None
    #: The parameter of the residual, for instance the Huber threshold.
    parameter: float = 0.0
    #: The parameter for which the leaf ignores the target and averages over all labels;
    #: None if the loss has no such average.
    averaged: float | None = None

    def __reduce__(self):
        # Pickle the name. A compiled function would be unpickled as a new function,
        # which is not in the table of leaves.
        return _named, (self.name, self.parameter)

    @property
    def target_free(self) -> Loss:
        """The loss whose residual is averaged over all labels; it has no value."""
        if self.averaged is None:
            raise ValueError(f"the residual of {self.name} needs a target.")
        return dataclasses.replace(self, parameter=self.averaged)

    def residual(self, margins: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the residuals; both are float64 (n_rows, n_outputs)."""
        out = np.array(margins.T, dtype=np.float64, order="C")
        self.leaf(out, narrow(target), self.parameter)
        return np.ascontiguousarray(out.T)

    def target_free_residual(self, margins: np.ndarray) -> np.ndarray:
        """Return the residuals averaged over all labels, from the margins alone."""
        return self.target_free.residual(margins, np.empty(0, dtype=np.int64))


def _named(name: str, parameter: float) -> Loss:
    """Return the loss of a name, with a parameter."""
    file = importlib.import_module(f"skfdp.kernels.losses.{name}")
    make = getattr(file, name, None)
    loss = file.LOSS if make is None else make(parameter)
    return dataclasses.replace(loss, parameter=parameter)


def narrow(target: np.ndarray) -> np.ndarray:
    """Return a copy of the targets in the dtype of the leaves: float64, int16 classes.

    Each further dtype would need a further compilation.
    """
    return np.array(target, np.float64 if target.dtype.kind == "f" else np.int16)
