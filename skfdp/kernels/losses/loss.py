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

    Attributes
    ----------
    name : str
        What users pass; the name of the file.
    leaf : compiled function
        ``leaf(margins, target, parameter)`` replaces margins by residuals, see
        `kernels.residuals`.
    value : callable
        ``value(margins, target) -> float64 ndarray of shape (n_rows,)``.
    curvature : float
        Largest second derivative along a unit vector of margins.
    max_residual : callable, default=infinity
        ``max_residual(n_classes)``: largest L2 norm of a residual.
    sign_fixed : bool, default=False
        Whether the target alone fixes the sign of every entry of the residual, or it
        is zero.
    label_reach : callable, default=None
        ``label_reach(n_classes)``: largest distance between the residuals of two
        labels at equal margins; None: no bound below twice the largest residual.
    parameter : float, default=0.0
        What the residual depends on besides margins and target.
    averaged : float, default=None
        The parameter with which the leaf leaves the target out and averages over all
        labels; None: it cannot.
    """

    name: str
    leaf: Callable[[np.ndarray, np.ndarray, float], None]
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    curvature: float
    max_residual: Callable[[int], float] = lambda n_classes: math.inf
    sign_fixed: bool = False
    label_reach: Callable[[int], float] | None = None
    parameter: float = 0.0
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
