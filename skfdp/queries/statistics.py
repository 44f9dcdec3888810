"""Queries for sums of rows: means, cross moments, label statistics, counts, scores."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from skfdp.data.grid import (
    GRID,
    SAFE_STD,
    SAFE_STD_OF_PRODUCTS,
    GridRows,
    InputScaler,
    Integers,
    blocks,
    stored_entries,
    sum_unit,
)
from skfdp.data.units import FULL_WEIGHT, Units
from skfdp.kernels.losses import Loss
from skfdp.privacy.events import Relation
from skfdp.queries import no_rows
from skfdp.queries.linear import LinearQuery

#: Rows have norm at most 1 up to rounding; this factor covers the rounding.
SHRINK = 1 - 1e-9
# Replaces numbers that are not finite, and clips rows to norm 1.
_TO_NORM_1 = InputScaler()


class _Sum:
    """Base class of queries that sum block by block, exactly.

    `__post_init__` of a subclass sets the attributes of this class. `_of_block` of a
    subclass returns the int64 sum of one block of rows.
    """

    n_rows: int
    #: Number of entries of a row, from which the size of a block follows.
    n_entries: int
    shape: tuple[int, ...]
    #: L2 bound of a contribution.
    clip_norm = 1.0
    #: Sensitivity to a replaced record; None means twice the clip norm.
    replaced: float | None = None
    #: Public bound on the number of records, from which the grid is computed.
    capacity: int
    #: Lower limit of the grid unit.
    finest: float
    #: Largest standard deviation of the noise in grid units.
    largest_std: float = SAFE_STD
    #: The first arguments, for a query without rows.
    _no_rows: tuple

    @classmethod
    def planned(cls, *others: Any, **more: Any) -> Any:
        """Return a query without rows, with the bounds of the query of the fit.

        The arguments are those of the constructor that are not about rows.
        """
        return cls(*cls._no_rows, *others, **more)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        given = self.clip_norm, self.capacity, self.finest, self.largest_std
        return sum_unit(noise_std, *given)

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum; see the guarantees."""
        return relation.sensitivity(self.clip_norm, self.replaced)

    def exact_sum(self, theta, batch, unit: float) -> np.ndarray:
        """Return the int64 sum over the batch, in `unit`; None means every row."""
        total = np.zeros(self.shape, dtype=np.int64)
        n_rows = self.n_rows if batch is None else len(batch)
        for block in blocks(n_rows, self.n_entries):
            total += self._of_block(block if batch is None else batch[block], unit)
        return total


@dataclasses.dataclass(frozen=True)
class RowSum(_Sum):
    """The sum of rows, which are clipped to norm 1.

    Notes
    -----
    **Guarantees.** Every contribution has a norm of at most 1, whatever its numbers:
    the input scaler bounds the norm, and truncation toward zero does not increase it. A
    replaced row changes the sum by at most 2, or sqrt(2) if no entry can be negative,
    because the angle between two rows is then at most 90 degrees.
    """

    X: np.ndarray  # (n_rows, n_columns)
    capacity: int  # public bound on the number of rows, from which the grid is computed
    #: Whether to set negative private entries to 0. This is a public fact, which must
    #: follow from declared bounds and not from the data.
    nonnegative: bool = False
    _no_rows = np.empty((0, 0)), 0

    def __post_init__(self):
        vars(self).update(
            n_rows=self.X.shape[0],
            n_entries=self.X.shape[1],
            shape=(self.X.shape[1],),
            replaced=math.sqrt(2) if self.nonnegative else None,
            finest=2.0**-30,
        )

    def _of_block(self, index: slice | np.ndarray, unit: float) -> np.ndarray:
        entries = _TO_NORM_1.mapped(self.X[index]) * (SHRINK / unit)
        np.trunc(entries, out=entries)
        if self.nonnegative:
            np.maximum(entries, 0.0, out=entries)
        return entries.astype(np.int64).sum(axis=0)


@dataclasses.dataclass(frozen=True)
class GridRowSum(_Sum):
    """The sum of quantised rows, which are divided by a bound and clipped to norm 1.

    Notes
    -----
    **Guarantees.** A contribution is the integer vector of the row times an integer,
    which is truncated toward zero. So its norm is at most that of the row clipped to
    norm 1, and sensitivities are those of `RowSum`.
    """

    rows: Integers  # rows that are not centred
    bound: float  # public or released divisor of the rows
    capacity: int  # as in `RowSum`
    #: Whether no integer of a row can be negative, as a public fact.
    nonnegative: bool = False

    @classmethod
    def of(cls, records: Any, bound: float) -> GridRowSum:
        """Return the query for private columns; a recipe of `Records.query`."""
        public = records.public
        return cls(records.integers, bound, public.capacity, public.private_bounded)

    def __post_init__(self):
        rows = self.rows
        if self.nonnegative and rows.may_be_negative:
            raise ValueError(
                "nonnegative=True needs levels that are not negative, and no shift."
            )
        vars(self).update(
            n_rows=rows.n_rows,
            n_entries=rows.n_entries,
            shape=(rows.n_columns,),
            replaced=math.sqrt(2) if self.nonnegative else None,
            # The integers that multiply rows have at most 14 bits.
            finest=2.0**-14 * rows.unit / self.bound,
            largest_std=SAFE_STD_OF_PRODUCTS,
        )

    def _of_block(self, index: slice | np.ndarray, unit: float) -> np.ndarray:
        of_rows = self.rows.unit / self.bound
        lengths = np.sqrt(self.rows.squared_norms[index]) * of_rows
        factor = np.trunc(of_rows / unit * SHRINK / np.maximum(lengths, 1.0))
        return self.rows.weighted_sum(index, factor)


# What a released mean of rows of norm 1 tells, as post-processing.


def shrunk_mean(mean: np.ndarray, noise_std: float) -> tuple[np.ndarray, float]:
    """Shrink a released mean toward zero by James-Stein, as post-processing.

    Return it with the factor that rescales centred rows to a norm of about 1. The
    factor multiplies the error of the released mean, too, and is limited to keep it
    below the norm of a row.
    """
    error, square = mean.size * noise_std**2, float(mean @ mean)
    if square != 0:
        # The mean of rows with norms of at most 1 has a norm of at most 1.
        mean = mean * min(max(0.0, 1 - error / square), 1 / (1 + error))
    least = min(0.05, max(error, 1e-6))
    return mean, 1 / math.sqrt(max(1 - float(mean @ mean), least))


@dataclasses.dataclass(frozen=True)
class CrossSum(_Sum):
    """Cross moments of public regressors and scaled private rows.

    The query is the sum over the records of ``(z (x) p, 1 - |p|**2)``, flattened. Here
    z is the public and p the private row of a record, and (x) the outer product.

    Notes
    -----
    **Guarantees.** In exact integers a contribution has a norm of at most 1. A replaced
    private row changes the sum by at most 2, and by at most sqrt(2) if no private entry
    can be negative (:ref:`conditional-centring`).
    """

    rows: GridRows  # private columns
    bound: float  # public divisor of these rows, which are then clipped to norm 1
    #: Public rows in units of GRID, of norm at most 1. Shape: int16 (n_rows,
    #: n_regressors).
    regressors: np.ndarray
    nonnegative: bool  # as in `RowSum`
    _no_rows = no_rows(), 1.0, np.empty((0, 0), np.int16)

    def __post_init__(self):
        n_rows, n_private = self.rows.values.shape
        vars(self).update(
            n_rows=n_rows,
            n_entries=n_private,
            shape=(self.regressors.shape[1] * n_private + 1,),
            replaced=math.sqrt(2) if self.nonnegative else None,
            capacity=FULL_WEIGHT * n_rows,
            finest=GRID**2,
        )

    def unit(self, noise_std: float) -> float:
        """Return the grid unit u of the sum; private rows have the unit u / GRID."""
        # On a grid coarser than 1, 1 - |p|**2 would not be an integer.
        return np.minimum(GRID, super().unit(noise_std))

    def _of_block(self, index: slice | np.ndarray, unit: float) -> np.ndarray:
        grid = unit / GRID
        # Integers below 2**53: sums in float64 are exact in any order.
        rows = InputScaler(feature_bound=self.bound).mapped(self.rows.floats(index))
        rows = np.trunc(rows * (SHRINK / grid))
        if self.nonnegative:
            rows = np.maximum(rows, 0.0)
        cross = self.regressors[index].T.astype(np.float64) @ rows
        lacking = 1 / grid**2 - np.einsum("ij,ij->i", rows, rows)
        lacking = int(lacking.sum() * (grid / GRID))
        return np.append(cross.ravel().astype(np.int64), lacking)


@dataclasses.dataclass(frozen=True)
class LabelSum(_Sum):
    """The label statistic: the sum of outer products of public row and private label.

    Notes
    -----
    **Guarantees.** A one-hot label contributes a vector of norm at most R, and changes
    the sum by at most ``sqrt(2) R`` if it is replaced. If it is centred, its
    contribution has norm at most ``sqrt(1 - 1 / K) R``. For two classes with one output
    these bounds are R / 2 and R (:ref:`label-statistic`). They hold for exact integers,
    because the public rows are on the grid, and centred labels in units of 1 / K.
    """

    rows: GridRows  # public weighted rows, including the bias column
    target: np.ndarray  # private class of each record, int64 (n_rows,)
    #: 1 for two classes, whose labels are -1/2 and 1/2. Otherwise the number of
    #: classes, and labels are one-hot.
    n_outputs: int
    row_bound: float  # public bound R of the norms of the rows
    #: Whether 1 / K is subtracted from each entry of a one-hot label of K classes.
    centred: bool = False
    _no_rows = no_rows(), np.empty(0, np.int64)

    @classmethod
    def of(
        cls, records: Any, rows: GridRows | None = None, **settings: Any
    ) -> LabelSum:
        """Return the query for a target; a recipe of `Records.query`.

        Without `rows` it is for the class counts, with a constant column alone.
        """
        if rows is None:
            ones = np.full((len(records.target), 1), round(1 / GRID), dtype=np.int16)
            rows = GridRows(ones, np.square(ones[:, 0], dtype=np.float64))
        return cls(rows, records.target, **settings)

    def __post_init__(self):
        rows, n_parts = self.rows, 1
        clip_norm, moved = self.row_bound, self.row_bound * math.sqrt(2)
        if self.n_outputs == 1:
            clip_norm, moved, n_parts = self.row_bound / 2, None, 2
        elif self.centred:
            clip_norm *= math.sqrt(1 - 1 / self.n_outputs)
            n_parts = self.n_outputs
        vars(self).update(
            # The number K of classes for centred labels, otherwise 1.
            _n_parts=n_parts,
            n_rows=rows.n_rows,
            n_entries=rows.n_entries,
            shape=(self.n_outputs, rows.n_columns),
            clip_norm=clip_norm,
            # With several classes one entry decreases and another one increases.
            replaced=moved,
        )

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum: that of rows times that of labels."""
        return GRID / self._n_parts

    def fits_grid(self, noise_std: float, units: Units | None) -> bool:
        """Whether the noise of the sum, planned for records, is at most `SAFE_STD`."""
        step = 1.0
        if units is not None:  # as in `sensitivity` and `unit` of `queries.Weighted`
            noise_std, step = units.reach * noise_std, units.step
        return bool(noise_std <= SAFE_STD * self.unit(noise_std / step) * step)

    def _of_block(self, index: slice | np.ndarray, unit: float) -> np.ndarray:
        target = self.target[index]
        if self.n_outputs == 1:
            labels = np.where(target == 1, 1.0, -1.0)[:, None]
        else:
            labels = self._n_parts * np.eye(self.n_outputs)[target] - self.centred
        # Integers below 2**53 are exact in float64.
        rows = self.rows.values[index].astype(np.float64)
        return (labels.T @ rows).astype(np.int64)


# Histograms: counts of the numbers of each column in public bins.


#: The first bins of every rule: missing numbers, infinite numbers, and zero. For
#: `Binades`, zero includes numbers closer to zero than any declared bound can be.
UNSTATED, INFINITE, ZERO = range(3)
N_SPECIAL = 3
#: Binade e holds absolute values in (2**(e - 1), 2**e]. Values up to 2**(FIRST - 1)
#: count as zero, and values above 2**LAST are in the last binade. This suffices because
#: declared bounds are at most 1e100 in size, and at least 1e-100 apart.
FIRST, LAST = -320, 332
N_BINADES = LAST - FIRST + 1
# With this unit, counts of up to 2**52 records are at most 2**62 units.
_FINEST = 2.0**-10


@dataclasses.dataclass(frozen=True)
class Binades:
    """Bins by sign and by absolute value, with ends that are powers of two.

    The first three bins are for NaN, infinity and zero. After them come the bins of
    negative numbers, by absolute value, and then the bins of positive numbers.
    """

    n_bins: int = N_SPECIAL + 2 * N_BINADES

    def bins(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the bin of each number; any float64 has exactly one.

        `columns` holds the column of each number; it is not used here.
        """
        mantissa, exponent = np.frexp(np.abs(values))
        # frexp returns a mantissa in [1/2, 1), but a power of two is the upper end of
        # its binade.
        size = exponent.astype(np.int64) - (mantissa == 0.5)
        place = np.clip(size, FIRST, LAST) - FIRST
        found = N_SPECIAL + place + N_BINADES * (values > 0)
        found = np.where((values == 0) | (size < FIRST), ZERO, found)
        return _with_special(found, values)


@dataclasses.dataclass(frozen=True)
class EvenBins:
    """Bins of equal width between two ends for each column.

    The first three bins are for NaN, infinity and zero. After them come one bin for
    numbers up to the lower end, `n_even` bins that include their right edge, and one
    bin for numbers above the upper end.
    """

    #: Ends for each column, finite, low < high; public or released.
    low: np.ndarray
    high: np.ndarray
    n_even: int

    @property
    def n_bins(self) -> int:
        """Number of bins of a column."""
        return N_SPECIAL + self.n_even + 2

    def edges(self, column: int) -> np.ndarray:
        """Return the edges of the even bins of a column, shape (n_even + 1,)."""
        share = np.arange(self.n_even + 1) / self.n_even
        # In low + share * (high - low) the difference could overflow.
        return self.low[column] * (1 - share) + self.high[column] * share

    def bins(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the bin of each number; any float64 has exactly one."""
        low, high = self.low[columns], self.high[columns]
        share = (values - low) / (high - low) * self.n_even
        place = np.clip(np.ceil(share), 0, self.n_even + 1)
        # Replace NaN, because its conversion to an integer is undefined.
        found = N_SPECIAL + np.where(np.isnan(place), 0, place).astype(np.int64)
        return _with_special(np.where(values == 0, ZERO, found), values)


def _with_special(found: np.ndarray, values: np.ndarray) -> np.ndarray:
    special = [np.isnan(values), np.isinf(values)]
    return np.select(special, [UNSTATED, INFINITE], found).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class BinCounts(_Sum):
    """The number of records in each bin of each column (histograms).

    Notes
    -----
    **Guarantees.** Every float64 number is in exactly one bin. So a contribution has
    the norm ``sqrt(p)`` for p columns, and a replaced record changes the counts by at
    most ``sqrt(2 p)`` (:ref:`bin-counts`). Counts are equal for dense and CSR rows.
    """

    #: Private columns only; any numbers, including NaN and infinity. Shape: (n_rows,
    #: n_columns).
    X: np.ndarray | csr_array
    #: The bins, which are public or computed from released numbers.
    rule: Binades | EvenBins

    def __post_init__(self):
        n_rows, n_columns = self.X.shape
        vars(self).update(
            n_rows=n_rows,
            n_entries=getattr(self.X, "nnz", n_rows * n_columns) // max(1, n_rows),
            shape=(n_columns, self.rule.n_bins),
            clip_norm=math.sqrt(n_columns),
            # In each column one count decreases by 1, and another count increases by 1.
            replaced=math.sqrt(2 * n_columns),
        )

    @classmethod
    def planned(cls, n_columns: int) -> BinCounts:
        """Return a query without rows, with the bounds of the query of the fit."""
        return cls(np.empty((0, n_columns)), Binades())

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the counts, at most 1 so that counts are integers."""
        return np.minimum(1.0, sum_unit(noise_std, 1.0, 0, _FINEST))

    def _of_block(self, index: slice | np.ndarray, unit: float) -> np.ndarray:
        rows, (n_columns, n_bins) = self.X[index], self.shape
        values, index, _ = stored_entries(rows)
        columns = np.arange(n_columns)[index]
        with np.errstate(all="ignore"):  # a warning would reveal a private value
            found = self.rule.bins(values.astype(np.float64), columns)
        cells = (columns * n_bins + found).ravel()
        counts = np.bincount(cells, minlength=n_columns * n_bins).reshape(self.shape)
        # Add the zeros that CSR does not store.
        counts[:, ZERO] += rows.shape[0] - counts.sum(axis=1)
        return counts * round(1 / unit)


#: Bits of an integer weight. Rows have 16 bits, so that sums over up to 2**17 columns
#: are below 2**53.
_WEIGHT_BITS = 20
_MOST_COLUMNS = 2**17


@dataclasses.dataclass(frozen=True)
class TemperatureSum(_Sum):
    """The slope of the summed loss along a released step, at a few points.

    For each point a, the query is a sum over the records of ``<r, s> / max(b |s|,
    reach)``. Here s are the record's margins with the weights `step`, and r is its
    residual with the weights ``start + a * step``. A divisor does not depend on the
    label. For a proper scoring rule it therefore does not change the point of zero
    slope. For classifiers b is the norm of the largest residual that a class would give
    the row, divided by `max_residual` of the loss; for regressions b is 1.

    Notes
    -----
    **Guarantees.** A contribution has one entry per point, which is clipped to
    `max_residual` of the loss, so the norm is at most ``sqrt(len(points)) *
    max_residual`` (:ref:`temperature-lemma`). Entries are truncated toward zero to the
    grid. They depend on their own record and on released numbers only, because margins
    are exact integers.
    """

    #: The query of the descent: its rows, labels and margins of a public model.
    query: LinearQuery
    n_classes: int  # 0 for regressions
    #: Released weights, or a function of public facts. Shape: float64 (n_outputs,
    #: n_columns).
    start: np.ndarray
    step: np.ndarray  # released weights, float64 (n_outputs, n_columns)
    points: tuple[float, ...]  # the points a, as factors of the step
    reach: float  # the least divisor; released or public
    loss: Loss | None = None  # with bounded residuals; None: that of the query

    def __post_init__(self):
        n_points, loss = len(self.points), self.loss or self.query.loss
        integers, units = zip(_integers(self.start), _integers(self.step), strict=True)
        units = np.array(units) * self.query.rows.unit
        vars(self).update(
            # The integers of `start` and `step`, and the units of products with rows.
            _both=(np.vstack(integers), np.repeat(units, len(self.start))),
            n_rows=self.query.n_rows,
            n_entries=self.query.rows.n_entries,
            shape=(n_points,),
            loss=loss,
            clip_norm=self.bound(loss, self.n_classes, n_points),
            capacity=self.query.capacity,
            finest=2.0**-26,
        )

    @staticmethod
    def bound(loss: Loss, n_classes: int, n_points: int) -> float:
        """Return the L2 bound of a contribution; see the guarantees."""
        return math.sqrt(n_points) * loss.max_residual(n_classes)

    @np.errstate(all="ignore")  # a warning would reveal private margins
    def _of_block(self, index: slice | np.ndarray, unit: float) -> np.ndarray:
        query, loss, (both, units), total = self.query, self.loss, self._both, []
        most = loss.max_residual(self.n_classes)
        bound, below = math.floor(most / unit), most * SHRINK
        start, step = np.split(query.rows.products(index, both) * units, 2, axis=1)
        if query.offset is not None:
            start += query.offset[index]
        norm = np.sqrt(_inner(step, step))
        for point in self.points:
            margins = start + point * step
            residual = loss.residual(margins, query.target[index])
            length = norm
            if self.n_classes:
                largest = loss.largest_residual(margins)
                length = norm * np.sqrt(_inner(largest, largest)) / below
            cut = step / np.maximum(length, self.reach)[:, None]
            own = np.trunc(_inner(residual, cut) / unit)
            own = np.clip(np.nan_to_num(own), -bound, bound)
            total.append(int(own.sum()))  # of integers below 2**53
        return np.array(total)


def _integers(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights as integers in float64, and the unit of these integers."""
    bits = _WEIGHT_BITS
    while weights.shape[1] > _MOST_COLUMNS << (_WEIGHT_BITS - bits):
        bits -= 1
    largest = float(np.abs(weights).max(initial=0.0))
    if not 2.0**-999 < largest < math.inf:  # a smaller unit could underflow to zero
        return np.zeros(weights.shape), 1.0
    unit = largest / 2.0**bits
    return np.rint(weights / unit), unit


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the inner product of each pair of rows, summed in a fixed order."""
    total = np.zeros(len(a))
    for k in range(a.shape[1]):
        total += a[:, k] * b[:, k]
    return total


#: Weight of the squared loss relative to the loss. Variances are computed from squares,
#: so twice the weight halves the noise of a variance. Compared with 1/4, a weight of
#: 1/2 increases the noise of all entries by 3 % for counts and one loss, and by 8 % for
#: losses without counts.
SQUARES = 0.5


@dataclasses.dataclass(frozen=True)
class ScoreSum(_Sum):
    r"""Counts of records by cell, and sums of losses and of their squares, by group.

    Notes
    -----
    **Guarantees.** A record with cell c and losses :math:`l_1, \dots, l_J` adds, to the
    row of its group, the vector
    :math:`v = (e_c, l_1, l_1^2/2, \dots, l_J, l_J^2/2)`, truncated toward zero. Here
    :math:`e_c` is 1 at cell c and 0 at all other cells, and 0 everywhere if c is no
    cell. A record of no known group adds nothing. So :math:`\|v\|^2 \le 1 + \frac54
    J`, and a replaced record, whose group stays, changes the table by at most
    :math:`\sqrt{2 + \frac54 J}`; without cells the 1 and the 2 are 0
    (:ref:`score-table`).
    """

    #: The cell of each record, which combines label and score bin; private. Shape:
    #: int64 (n_rows,).
    cells: np.ndarray
    #: Losses divided by their bounds, private. They are clipped to [0, 1]; NaN counts
    #: as 1. Shape: float64 (n_rows, n_losses).
    losses: np.ndarray
    #: Public group of each record, from 0 to `n_groups` - 1. Shape: int64 (n_rows,).
    group: np.ndarray
    n_cells: int  # number of cells; 0 means that no records are counted
    n_groups: int
    capacity: int  # public bound on the number of records

    def __post_init__(self):
        n_losses = self.losses.shape[1]
        of_losses = n_losses * (1 + SQUARES**2)
        clip_norm = math.sqrt(min(self.n_cells, 1) + of_losses)
        # With one cell, the count changes if a record is nulled, but not if a record is
        # replaced.
        moved = math.sqrt(2.0 * (self.n_cells > 1) + of_losses)
        vars(self).update(
            n_rows=len(self.cells),
            n_entries=1 + n_losses,
            #: Rows are groups; columns are cells, losses and squares.
            shape=(self.n_groups, self.n_cells + 2 * n_losses),
            clip_norm=clip_norm,
            replaced=max(moved, clip_norm),
            finest=2.0**-20,
        )

    @classmethod
    def planned(
        cls, n_cells: int, n_losses: int, n_groups: int = 1, capacity: int = 0
    ) -> ScoreSum:
        """Return a query without rows, with the bounds of the query of the fit."""
        none = np.empty(0, np.int64)
        return cls(none, np.empty((0, n_losses)), none, n_cells, n_groups, capacity)

    def _of_block(self, index: slice | np.ndarray, unit: float) -> np.ndarray:
        cells, losses, group = self.cells[index], self.losses[index], self.group[index]
        total = np.zeros(self.shape, dtype=np.int64)
        grouped = (group >= 0) & (group < self.n_groups)
        counted = grouped & (cells >= 0) & (cells < self.n_cells)
        # With a unit above 1 counts become 0, as do the losses and squares below.
        np.add.at(total, (group[counted], cells[counted]), math.floor(1 / unit))
        bounded = np.clip(np.where(np.isnan(losses), 1.0, losses), 0.0, 1.0)[grouped]
        for j in range(self.losses.shape[1]):
            for place, weight in ((0, 1.0), (1, SQUARES)):
                values = weight * bounded[:, j] ** (place + 1)
                # The unit is a power of two: the division is exact.
                whole = np.trunc(values / unit).astype(np.int64)
                column = self.n_cells + 2 * j + place
                np.add.at(total[:, column], group[grouped], whole)
        return total
