"""A loss as a function of the margin: pointwise, without linear algebra."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Loss:
    """One loss: its compiled residual and what the defaults need to know about it.

    A loss maps (target, margins) to values and residuals, the residual being the
    derivative with respect to the margins.
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
    #: Whether the target alone fixes the sign of every entry of the residual, or it is
    #: zero.
    sign_fixed: bool = False
    #: ``label_reach(n_classes)``, the largest distance between the residuals of two
    #: labels at equal margins; None: no bound below twice the largest residual.
    label_reach: Callable[[int], float] | None = None
    #: What the residual depends on besides margins and target.
    parameter: float = 0.0
    #: The parameter with which the leaf leaves the target out and averages over all
    #: labels; None: it cannot.
    averaged: float | None = None

    def __reduce__(self):
        # By name: a compiled function that is pickled comes back as another one, which
        # compiled loops do not know.
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
        """Return the residuals averaged over all labels: what margins alone tell."""
        return self.target_free.residual(margins, np.empty(0, dtype=np.int64))


def _named(name: str, parameter: float) -> Loss:
    """Return a loss of this package, with its parameter."""
    file = importlib.import_module(f"skfdp.kernels.losses.{name}")
    make = getattr(file, name, None)
    loss = file.LOSS if make is None else make(parameter)
    return dataclasses.replace(loss, parameter=parameter)


def narrow(target: np.ndarray) -> np.ndarray:
    """Return targets as leaves take them, in new memory: float64, or int16 classes.

    One type of each kind, since every other one would be compiled as well.
    """
    return np.array(target, np.float64 if target.dtype.kind == "f" else np.int16)
