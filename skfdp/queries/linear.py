"""Clipped sums of per-example gradients of linear models.

A gradient is ``residual (x) x``, so its norm is ``|residual| |x|`` and no array of
shape (batch, n_columns * n_outputs) ever exists.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

import numpy as np
from joblib import Parallel, delayed

from skfdp.losses import Loss
from skfdp.queries import sum_unit
from skfdp.rows import GRID, GridRows

# 512 rows of 15-bit entries times 29-bit residuals stay below 2**53: exact.
_BLOCK = 512
_LARGEST_RESIDUAL = 2.0**29 - 1
_FINEST_RESIDUAL = 2.0**-24
_FINEST_SUM = GRID * _FINEST_RESIDUAL
_MANTISSA = 53


@dataclasses.dataclass(frozen=True)
class LinearQuery:
    """Per-record contribution ``clip(residual (x) x - public_residual (x) padded)``.

    Parameters
    ----------
    rows : GridRows
        The records, bias column included.
    target : int64 or float64 ndarray of shape (n_rows,)
        Class of each record, 0-based, or its value.
    loss : Loss
        Gives the residuals.
    n_outputs : int
        Columns of the margins: 1 for two classes.
    clip_norm : float
        L2 bound of a contribution.
    capacity : int
        Public bound on the number of rows, for the grid.
    class_weight : float64 ndarray of shape (n_classes,), default=None
        Public factor of the residual, before the clip; None: no classes, no factor.
    padded : GridRows, default=None
        What is public of each record, padded to a full row: the public loss of paper
        1. None means no public loss.
    public_target : bool, default=False
        Whether the public loss may see the target.
    offset : float64 ndarray of shape (n_rows, n_outputs), default=None
        Margins of a public model, added to those of theta.
    orthant : bool, default=False
        Clamp the residuals to the signs that the target fixes, see the guarantees.
    n_jobs : int, default=1
        Threads over row blocks; they cannot change the result.

    Notes
    -----
    **Guarantees.** Each vector of `exact_sum` depends on its own record and theta
    alone, and has an L2 norm of at most ``clip_norm / unit``, in exact arithmetic:
    norms are taken from the quantised rows, widened by 1e-9, and residuals are
    truncated toward zero after the clip. NaN and infinite residuals contribute 0.

    With `orthant`, if the target is public and every column of the rows is public or
    non-negative, and nothing is padded, then the sign of each entry of a contribution
    depends on public facts alone; two contributions of one record meet at an angle of
    at most 90 degrees, and a replaced record moves the sum by at most ``sqrt(2)
    clip_norm``. The caller answers for these conditions.
    """

    rows: GridRows
    target: np.ndarray
    loss: Loss
    n_outputs: int
    clip_norm: float
    capacity: int
    class_weight: np.ndarray | None = None
    padded: GridRows | None = None
    public_target: bool = False
    offset: np.ndarray | None = None
    orthant: bool = False
    n_jobs: int = 1

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.rows.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of theta and of the sum."""
        return self.n_outputs, self.rows.values.shape[1]

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        return gradient_unit(noise_std, self.clip_norm, self.capacity)

    def exact_sum(
        self, theta: np.ndarray, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum of clipped contributions, in `unit`.

        Parameters
        ----------
        theta : float64 ndarray of shape (n_outputs, n_columns)
        batch : int64 ndarray or None
            Row numbers; None means every row.
        unit : float
            As `unit` returned it.
        """
        if not np.isfinite(theta).all():
            # theta is public. Nothing can be learnt there, and sums would be inexact.
            return np.zeros(self.shape, dtype=np.int64)
        batch = self._everyone if batch is None else batch
        if self.n_jobs == 1 or len(batch) < 2 * _BLOCK:
            return self._partial_sum(theta, batch, unit)
        parts = np.array_split(batch, self.n_jobs)
        sums = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(self._partial_sum)(theta, part, unit) for part in parts
        )
        return np.sum(sums, axis=0)

    def public_gradient(self, theta: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Return the mean gradient of the public loss over a public batch, float64.

        It reads the padded rows, and the target only if that is public.
        """
        total = np.zeros(self.shape)
        for part in _parts(batch):
            residual = self._public_residual(theta, part)
            total += residual.T @ (self.padded.values[part] * GRID)
        return total / len(batch)

    @functools.cached_property
    def _everyone(self) -> np.ndarray:
        return np.arange(self.n_rows)

    @functools.cached_property
    def _inner(self) -> np.ndarray:
        """Inner products of rows and padded rows, exact."""
        inner = np.empty(self.n_rows)
        for part in _parts(self._everyone):
            x = self.rows.values[part].astype(np.float64)
            z = self.padded.values[part].astype(np.float64)
            inner[part] = np.einsum("ij,ij->i", x, z)
        return inner

    def _partial_sum(self, theta, batch, unit) -> np.ndarray:
        # Here and not in the caller, because threads start with their own state: an
        # overflow warning would tell of private margins.
        with np.errstate(all="ignore"):
            return self._partial_sum_quietly(theta, batch, unit)

    def _partial_sum_quietly(self, theta, batch, unit) -> np.ndarray:
        from skfdp.queries import linear_kernels as kernels

        total = np.zeros(self.shape, dtype=np.int64)
        block = np.empty(self.shape)
        residual_unit = unit / GRID
        clip = self.clip_norm / GRID
        for part in _parts(batch):
            residual = self._residual(theta, part)
            block[:] = 0.0
            if self.padded is None or self.padded is self.rows:
                if self.padded is not None:
                    residual -= self._public_residual(theta, part)
                kernels.clip_residuals(
                    residual,
                    self.rows.squared_norms,
                    part,
                    clip,
                    residual_unit,
                    _LARGEST_RESIDUAL,
                )
            else:
                public = self._public_residual(theta, part)
                kernels.clip_differences(
                    residual,
                    public,
                    self.rows.squared_norms,
                    self.padded.squared_norms,
                    self._inner,
                    part,
                    clip,
                    residual_unit,
                    _LARGEST_RESIDUAL,
                )
                kernels.add_outer_products(self.padded.values, part, -public, block)
                total += block.astype(np.int64)
                block[:] = 0.0
            kernels.add_outer_products(self.rows.values, part, residual, block)
            total += block.astype(np.int64)
        return total

    def _residual(self, theta: np.ndarray, part: np.ndarray) -> np.ndarray:
        residual = self._weighted_residual(self._margins(self.rows, theta, part), part)
        if self.orthant:
            # In exact arithmetic the signs hold anyway; a rounded softmax may exceed 1.
            towards = self._signs[part]
            np.maximum(residual * towards, 0.0, out=residual)
            residual *= towards
        return residual

    @functools.cached_property
    def _signs(self) -> np.ndarray:
        """Signs of the residuals, -1 toward the target and 1 away from it."""
        outputs = np.arange(self.n_outputs)
        toward = outputs + (self.n_outputs == 1) == self.target[:, None]
        return np.where(toward, -1.0, 1.0)

    def _margins(
        self, rows: GridRows, theta: np.ndarray, part: np.ndarray
    ) -> np.ndarray:
        margins = _margins(rows, theta, part)
        if self.offset is not None:
            margins[: len(part)] += self.offset[part]
        return margins

    def _public_residual(self, theta: np.ndarray, part: np.ndarray) -> np.ndarray:
        margins = self._margins(self.padded, theta, part)
        if self.public_target:
            return self._weighted_residual(margins, part)
        return self.loss.target_free_residual(margins)[: len(part)]

    def _weighted_residual(self, margins: np.ndarray, part: np.ndarray) -> np.ndarray:
        target = np.zeros(len(margins), dtype=self.target.dtype)
        target[: len(part)] = self.target[part]
        residual = self.loss.residual(margins, target)
        if self.class_weight is not None:
            residual *= self.class_weight[target][:, None]
        return residual[: len(part)]


def gradient_unit(noise_std: float, clip_norm: float, capacity: int) -> float:
    """Return the grid unit of a sum of gradients."""
    return sum_unit(noise_std, clip_norm, capacity, _FINEST_SUM)


def _margins(rows: GridRows, theta: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return the margins of some rows, zero-padded to shape (_BLOCK, n_outputs).

    theta is rounded to integers, as many bits as keep the inner products below 2**53.
    The margins are then exact, and the same wherever a row stands. Always a full
    block, because a vectorised exp may round its last lanes otherwise than the rest,
    and a record's residual must not depend on how many others are in the batch.
    """
    from skfdp.queries import linear_kernels as kernels

    largest = np.abs(theta).max(initial=0.0)
    bits = _MANTISSA - 15 - math.ceil(math.log2(max(2, theta.shape[1])))
    exponent = bits - int(np.frexp(largest)[1]) if np.isfinite(largest) else 0
    out = np.zeros((_BLOCK, len(theta)))
    integers = np.rint(np.ldexp(theta, exponent))
    kernels.margins(rows.values, part, integers, out[: len(part)])
    return np.ldexp(out, -exponent) * GRID


def _parts(batch: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(batch), _BLOCK):
        yield batch[start : start + _BLOCK]
