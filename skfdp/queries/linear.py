"""Clipped sums of per-example gradients of linear models.

A gradient is ``residual (x) x``, so its norm is ``|residual| |x|`` and no array of
shape (batch, n_columns * n_outputs) ever exists.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from skfdp.losses import Loss
from skfdp.queries import sum_unit
from skfdp.rows import GridRows, SparseGridRows

if TYPE_CHECKING:
    from skfdp.queries.products import Products

# A block of rows stays in the cache between the two products.
_BLOCK_ENTRIES = 2**19
_LARGEST_BLOCK = 4096
# Margins are padded to a multiple of this: whole vectors of any width.
_WHOLE = 64
# Below this a thread costs more than it saves.
_ROWS_PER_THREAD = 1024
# Residuals are rounded to 16 bits, a few of which are left to short rows, unless they
# are differences: rounding lengthens those by more.
_LARGEST_RESIDUAL, _LARGEST_OF_DIFFERENCES = 2.0**15 - 1, 2.0**29 - 1
_FINEST_RESIDUAL, _FINEST_OF_DIFFERENCES = 2.0**-12, 2.0**-24


@dataclasses.dataclass(frozen=True)
class LinearQuery:
    """Per-record contribution ``clip(residual (x) x - public_residual (x) padded)``.

    Parameters
    ----------
    rows : GridRows or SparseGridRows
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
    padded : GridRows or SparseGridRows, default=None
        What is public of each record, padded to a full row: the public loss of paper
        1; of the same kind, centre and scale as the rows. None means no public loss.
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
    norms are taken from the quantised rows and widened by 1e-9, and what rounding the
    residuals may add is taken off the clip norm. NaN and infinite residuals
    contribute 0.

    With `orthant`, if the target is public and every column of the rows is public or
    non-negative, and nothing is padded, then the sign of each entry of a contribution
    depends on public facts alone; two contributions of one record meet at an angle of
    at most 90 degrees, and a replaced record moves the sum by at most ``sqrt(2)
    clip_norm``. The caller answers for these conditions.
    """

    rows: GridRows | SparseGridRows
    target: np.ndarray
    loss: Loss
    n_outputs: int
    clip_norm: float
    capacity: int
    class_weight: np.ndarray | None = None
    padded: GridRows | SparseGridRows | None = None
    public_target: bool = False
    offset: np.ndarray | None = None
    orthant: bool = False
    n_jobs: int = 1

    def __post_init__(self):
        if self.padded is not None and self.padded.unit != self.rows.unit:
            raise ValueError("rows and padded rows must share one centre and scale.")

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return self.rows.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of theta and of the sum."""
        return self.n_outputs, self.rows.n_columns

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        if self._plain:
            return gradient_unit(self.rows, noise_std, self.clip_norm, self.capacity)
        finest = self.rows.unit * _FINEST_OF_DIFFERENCES
        return sum_unit(noise_std, self.clip_norm, self.capacity, finest)

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
        size = self.n_rows if batch is None else len(batch)
        n_jobs = min(self.n_jobs, 1 + size // _ROWS_PER_THREAD)
        if n_jobs == 1:
            return self._partial_sum(self._workspaces[0], theta, batch, 0, size, unit)
        ends = [size * job // n_jobs for job in range(n_jobs + 1)]
        parts = self._threads.map(
            lambda work, start, stop: self._partial_sum(
                work, theta, batch, start, stop, unit
            ),
            self._workspaces[:n_jobs],
            ends[:-1],
            ends[1:],
        )
        return np.sum(list(parts), axis=0)

    @property
    def _plain(self) -> bool:
        """Whether contributions have rank one."""
        return self.padded is None or self.padded is self.rows

    def public_gradient(self, theta: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Return the mean gradient of the public loss over a public batch, float64.

        It reads the padded rows, and the target only if that is public.
        """
        from skfdp.queries.products import products

        work = products(self.padded, self.n_outputs)
        work.start(theta)
        total = np.zeros(self.shape)
        for part in self._parts(batch, 0, len(batch)):
            total += work.pull(part, self._public_residual(work, part))
        return total / len(batch)

    @functools.cached_property
    def _workspaces(self) -> list[_Workspace]:
        """The memory of each thread."""
        return [
            _Workspace(self.rows, None if self._plain else self.padded, self.n_outputs)
            for _ in range(self.n_jobs)
        ]

    @functools.cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_jobs)

    @functools.cached_property
    def _inner(self) -> np.ndarray:
        """Inner products of rows and padded rows, exact."""
        from skfdp.queries.products import inner_products

        return inner_products(self.rows, self.padded)

    def _partial_sum(self, work, theta, batch, start, stop, unit) -> np.ndarray:
        # Here and not in the caller, because threads start with their own state: an
        # overflow warning would tell of private margins.
        with np.errstate(all="ignore"):
            work.start(theta)
            for part in self._parts(batch, start, stop):
                self._add(work, part, unit)
            return work.total()

    def _parts(self, batch, start: int, stop: int) -> Iterator[np.ndarray]:
        """Yield the row numbers of the batch (None: all rows), a block at a time."""
        width = self.rows.stored_per_row
        size = min(_LARGEST_BLOCK, max(1, _BLOCK_ENTRIES // (width * _WHOLE)) * _WHOLE)
        for first in range(start, stop, size):
            last = min(first + size, stop)
            yield np.arange(first, last) if batch is None else batch[first:last]

    def _add(self, work: _Workspace, part: np.ndarray, unit: float) -> None:
        """Add the clipped contributions of one block."""
        from skfdp.queries import linear_kernels as kernels

        residual = self._residual(work.rows, part)
        limits = self.clip_norm / self.rows.unit, unit / self.rows.unit
        norms = self.rows.squared_norms
        if work.padded is None:
            if self.padded is not None:
                residual -= self._public_residual(work.rows, part)
            kernels.clip_residuals(residual, norms, part, *limits, _LARGEST_RESIDUAL)
        else:
            public = self._public_residual(work.padded, part)
            kernels.clip_differences(
                residual,
                public,
                norms,
                self.padded.squared_norms,
                self._inner,
                part,
                *limits,
                _LARGEST_OF_DIFFERENCES,
            )
            work.padded.add(part, -public)
        work.rows.add(part, residual)

    def _residual(self, rows: Products, part: np.ndarray) -> np.ndarray:
        residual = self._weighted_residual(self._margins(rows, part), part)
        if self.orthant:
            # In exact arithmetic the signs hold anyway; a rounded softmax may exceed 1.
            towards = self._signs[part]
            np.maximum(residual * towards, 0.0, out=residual)
            residual *= towards
        return residual

    @functools.cached_property
    def _weighted(self) -> bool:
        return self.class_weight is not None and bool((self.class_weight != 1).any())

    @functools.cached_property
    def _signs(self) -> np.ndarray:
        """Signs of the residuals, -1 toward the target and 1 away from it."""
        outputs = np.arange(self.n_outputs)
        toward = outputs + (self.n_outputs == 1) == self.target[:, None]
        return np.where(toward, -1.0, 1.0)

    def _margins(self, rows: Products, part: np.ndarray) -> np.ndarray:
        """Return the margins of some rows, padded with zero rows to whole vectors.

        The residuals must not depend on how many others are in the block, and compiled
        loops may treat a last fraction of a vector otherwise than the rest.
        """
        whole = -(-len(part) // _WHOLE) * _WHOLE
        margins = np.zeros((whole, self.n_outputs))
        rows.margins(part, margins[: len(part)])
        if self.offset is not None:
            margins[: len(part)] += self.offset[part]
        return margins

    def _public_residual(self, padded: Products, part: np.ndarray) -> np.ndarray:
        margins = self._margins(padded, part)
        if self.public_target:
            return self._weighted_residual(margins, part)
        return self.loss.target_free_residual(margins)[: len(part)]

    def _weighted_residual(self, margins: np.ndarray, part: np.ndarray) -> np.ndarray:
        target = np.zeros(len(margins), dtype=self.target.dtype)
        target[: len(part)] = self.target[part]
        residual = self.loss.residual(margins, target)
        if self._weighted:
            residual *= self.class_weight[target][:, None]
        return residual[: len(part)]


def gradient_unit(
    rows: GridRows | SparseGridRows, noise_std: float, clip_norm: float, capacity: int
) -> float:
    """Return the grid unit of a sum of gradients of rank one.

    Every entry of a contribution is below `products.LARGEST_SHORT_PRODUCT` units:
    strictly, because the clip leaves a margin of 1e-9.
    """
    finest = max(clip_norm * 2.0**-26, clip_norm * _FINEST_RESIDUAL * rows.unit)
    return sum_unit(noise_std, clip_norm, capacity, finest)


class _Workspace:
    """The products of one thread, over the rows and over other padded rows."""

    def __init__(self, rows, padded, n_outputs: int):
        # numba loads with the first fit, not with `import skfdp`.
        from skfdp.queries import products

        self.padded = None
        if padded is None:
            largest = products.LARGEST_SHORT_PRODUCT
            self.rows = products.products(rows, n_outputs, largest)
            return
        # The clip bounds every entry of a contribution, not those of its two parts.
        self.rows = products.products(rows, n_outputs)
        self.padded = products.products(padded, n_outputs)

    def start(self, theta: np.ndarray) -> None:
        """Begin a step; see `Products.start`."""
        self.rows.start(theta)
        if self.padded is not None:
            self.padded.start(theta)

    def total(self) -> np.ndarray:
        """Return the int64 sum of the step, a fresh array."""
        total = self.rows.total()
        if self.padded is None:
            return total
        return total + self.padded.total()
