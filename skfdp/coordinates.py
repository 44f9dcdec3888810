"""From rows of X to rows of the loop, and back from theta to coef_ and intercept_."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from skfdp.rows import GridRows, RowMap, on_grid


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """``row of the loop = [(unit row - mean) * scale, bias]``.

    Attributes
    ----------
    row_map : RowMap
    mean : ndarray of shape (n_features,)
        Released, or a function of public columns alone.
    scale : float or ndarray of shape (n_features,)
        Public or released.
    bias : float or None
        Value of the constant last column, on the grid; None: no intercept.
    """

    row_map: RowMap
    mean: np.ndarray
    scale: float | np.ndarray
    bias: float | None

    @classmethod
    def centred(cls, row_map, mean, scale, bias) -> Coordinates:
        """Build coordinates; the bias is rounded as the grid will hold it."""
        return cls(row_map, mean, scale, None if bias is None else on_grid(bias))

    def grid(self, X: np.ndarray) -> GridRows:
        """Quantise the rows of X."""
        return GridRows.build(
            X,
            lambda block: (self.row_map.unit(block) - self.mean) * self.scale,
            bias=self.bias,
        )

    def padded_grid(
        self,
        known: np.ndarray,
        public: np.ndarray,
        fill: Callable[[np.ndarray], np.ndarray],
    ) -> GridRows:
        """Quantise what is public of each row, padded to a full row.

        Parameters
        ----------
        known : ndarray of shape (n_rows, n_known)
            The public columns, and perhaps more that is public after them.
        public : bool ndarray of shape (n_features,)
        fill : callable
            Returns the private entries of scaled rows, given scaled known columns.
        """
        width = int(public.sum())
        scaled = self.row_map.of_public(public)

        def padded(block: np.ndarray) -> np.ndarray:
            head = scaled.scale(block[:, :width])
            rows = np.zeros((len(block), len(public)))
            rows[:, public] = head
            rows[:, ~public] = fill(np.hstack([head, block[:, width:]]))
            return (self.row_map.shorten(rows) - self.mean) * self.scale

        return GridRows.build(known, padded, bias=self.bias, n_features=len(public))

    def fold(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (coef, intercept) on ``row_map(X)``."""
        weights = self._weights(theta)
        coef, offset = self.row_map.coefficients(weights)
        intercept = offset - weights @ self.mean
        if self.bias is not None:
            intercept = intercept + self.bias * theta[:, -1]
        return coef, intercept

    def pull(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the gradient in theta, given gradients in coef and intercept."""
        # fold is linear: pull is its adjoint.
        weights = self.row_map.pull(coef, intercept)
        weights = (weights - np.outer(intercept, self.mean)) * self.scale
        if self.bias is None:
            return weights
        return np.column_stack([weights, self.bias * intercept])

    def penalty_gradient(self, theta: np.ndarray, strength: float) -> np.ndarray:
        """Return the gradient of ``strength / 2 * |w|**2``, intercept free.

        w are the weights of the bounded columns: where there are no bounds, `coef_`.
        """
        out = np.zeros_like(theta)
        factor = strength * (self.scale / self.row_map.divisor) ** 2
        n_features = len(self.mean)
        out[:, :n_features] = factor * theta[:, :n_features]
        return out

    def _weights(self, theta: np.ndarray) -> np.ndarray:
        return theta[:, : len(self.mean)] * self.scale
