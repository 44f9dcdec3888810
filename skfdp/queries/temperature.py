"""The slope of the loss along a step that is already released: one number a point."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.sparse import csr_array

from skfdp.privacy.relations import Relation
from skfdp.queries import chosen, sum_unit
from skfdp.queries.losses import Loss
from skfdp.records.blocks import blocks
from skfdp.records.grid import GridRows, SparseGridRows

#: Bits of an integer weight: with 16 of a row and 2**17 columns, sums stay below 2**53.
_WEIGHT_BITS = 20
_MOST_COLUMNS = 2**17


@dataclasses.dataclass(frozen=True)
class TemperatureSum:
    """The sum of ``<residual at start + a * step, step cut to reach> / reach``.

    For a few numbers a at once. Margins are those of the loop's rows; the residual is
    the derivative of the loss, so that without the cut each entry is the slope of the
    summed loss along the step. A cut step points to the same side, and its slope is
    zero at the same a where the loss is a proper score.

    Parameters
    ----------
    rows : GridRows or SparseGridRows
        The loop's rows, bias column included.
    target : int64 ndarray of shape (n_rows,)
        Class of each record, 0-based.
    loss : Loss
        Of bounded residuals.
    n_classes : int
    start : float64 ndarray of shape (n_outputs, n_columns)
        Released, or a function of public facts.
    step : float64 ndarray of shape (n_outputs, n_columns)
        Released.
    points : tuple of float
        The numbers a.
    reach : float
        Norm to which the margins of the step are cut. Released, or public.
    capacity : int
        Public bound on the number of rows, for the grid.
    offset : float64 ndarray of shape (n_rows, n_outputs), default=None
        Margins of a public model.

    Notes
    -----
    **Guarantees.** A contribution has one entry a point, each at most `max_residual` of
    the loss in absolute value: both factors of the inner product are cut. So its norm
    is at most ``sqrt(len(points)) * max_residual``; a nulled or removed record moves
    the sum by no more, a replaced one by at most twice that. An entry is truncated
    toward zero to the grid. It depends on its own record and on released numbers
    alone: margins are exact integers, whatever the order of a sum.
    """

    rows: GridRows | SparseGridRows
    target: np.ndarray
    loss: Loss
    n_classes: int
    start: np.ndarray
    step: np.ndarray
    points: tuple[float, ...]
    reach: float
    capacity: int
    offset: np.ndarray | None = None

    @classmethod
    def planned(cls, loss: Loss, n_classes: int, n_points: int) -> TemperatureSum:
        """Return the sum of no records, for plans that need its bounds."""
        rows, none = GridRows(np.empty((0, 0), np.int16), np.empty(0)), np.empty((0, 0))
        points = (0.0,) * n_points
        labels = np.empty(0, np.int64)
        return cls(rows, labels, loss, n_classes, none, none, points, 1.0, 0)

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return self.rows.n_rows

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum: one entry a point."""
        return (len(self.points),)

    @property
    def _bound(self) -> float:
        """The largest entry of a contribution."""
        return self.loss.max_residual(self.n_classes)

    @property
    def clip_norm(self) -> float:
        """L2 bound of a contribution."""
        return math.sqrt(len(self.points)) * self._bound

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        return relation.moves(self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        return sum_unit(noise_std, self.clip_norm, self.capacity, 2.0**-26)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every record."""
        total = np.zeros(self.shape, dtype=np.int64)
        size = self.n_rows if batch is None else len(batch)
        weights = [_integers(weights) for weights in (self.start, self.step)]
        with np.errstate(all="ignore"):  # a warning would tell of private margins
            for first, last in self.rows.stretches(batch, 0, size):
                for block in blocks(last - first, self.rows.n_columns):
                    places = np.arange(first + block.start, first + block.stop)
                    numbers = places if batch is None else batch[places]
                    total += self._block_sum(numbers, weights, unit)
        return total

    def _block_sum(self, numbers: np.ndarray, weights, unit: float) -> np.ndarray:
        start, step = (self._margins(numbers, *one) for one in weights)
        if self.offset is not None:
            start += chosen(numbers, self.offset)[0]
        target = self.target[numbers]
        norm = np.sqrt(_inner(step, step))
        cut = step / np.maximum(norm, self.reach)[:, None]
        bound = math.floor(self._bound / unit)
        sums = []
        for point in self.points:
            residual = self.loss.residual(start + point * step, target)
            entries = np.trunc(_inner(residual, cut) / unit)
            entries = np.clip(np.nan_to_num(entries), -bound, bound)
            sums.append(int(entries.sum()))  # integers below 2**53
        return np.array(sums, dtype=np.int64)

    def _margins(
        self, numbers: np.ndarray, weights: np.ndarray, unit: float
    ) -> np.ndarray:
        """Return margins of rows and integer weights, (len(numbers), n_outputs)."""
        rows = self.rows
        if isinstance(rows, GridRows):
            found = rows.values[numbers].astype(np.float64) @ weights.T
        else:
            shape = rows.n_rows, rows.n_columns
            table = csr_array((rows.data, rows.indices, rows.indptr), shape=shape)
            found = table[numbers].astype(np.float64) @ weights.T
            found = found - rows.shift.astype(np.float64) @ weights.T
        return found * (unit * rows.unit)


def _integers(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights as integers in float64, and their unit."""
    bits = _WEIGHT_BITS
    while weights.shape[1] > _MOST_COLUMNS << (_WEIGHT_BITS - bits):
        bits -= 1
    largest = float(np.abs(weights).max(initial=0.0))
    if not 2.0**-999 < largest < math.inf:  # a unit of less could be zero
        return np.zeros(weights.shape), 1.0
    unit = largest / 2.0**bits
    return np.rint(weights / unit), unit


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the inner product of each pair of rows, added up in one fixed order."""
    total = np.zeros(len(a))
    for k in range(a.shape[1]):
        total += a[:, k] * b[:, k]
    return total
