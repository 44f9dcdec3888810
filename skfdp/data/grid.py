"""Rows are scaled and quantised to int16, so that sums over rows are exact integers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.data.sources import LargeTable, file_rows, working_memory
from skfdp.data.validation import check_interval
from skfdp.privacy.checks import computed, shown

# Number of float64 entries per block, which bounds the memory of every pass.
_BLOCK_ENTRIES = 2**16


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices that cover the rows; each has a bounded number of entries."""
    size = max(16, min(4096, _BLOCK_ENTRIES // max(1, n_columns)))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def row_blocks(X: np.ndarray | csr_array) -> Iterator[slice]:
    """Yield slices that cover the rows; each has a bounded number of stored entries."""
    n_entries = getattr(X, "nnz", math.prod(X.shape))
    return blocks(X.shape[0], math.ceil(n_entries / max(1, X.shape[0])))


def stored_entries(rows: np.ndarray | csr_array) -> tuple[np.ndarray, Any, Callable]:
    """Return the stored entries of rows, the index of their columns, and a function.

    ``vector[index]`` are the numbers that a vector, with one number for each column,
    has for these entries. The function returns rows with other entries in their places.
    """
    if not issparse(rows):
        return np.asarray(rows), slice(None), np.asarray
    where = rows.indices, rows.indptr
    return rows.data, rows.indices, lambda v: csr_array((v, *where), shape=rows.shape)


def as_dense(rows: np.ndarray | csr_array) -> np.ndarray:
    """Return rows, or another sparse array, as an array."""
    return rows.toarray() if issparse(rows) else rows


def column_sums(
    rows: np.ndarray | csr_array,
    term: Callable[[np.ndarray, Any], np.ndarray],
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return, for each column, the sum of weights times ``term(entries, columns)``.

    `columns` is as for `stored_entries`. Zeros that CSR does not store are included.
    `weights` are those of the rows; None: all are 1.
    """
    if not issparse(rows):
        terms = term(rows, slice(None))
        return terms.sum(axis=0) if weights is None else weights @ terms
    every, n = np.arange(rows.shape[1]), rows.shape[1]
    weights = np.ones(rows.shape[0]) if weights is None else weights
    own = np.repeat(weights, np.diff(rows.indptr))
    stored = np.bincount(rows.indices, own, n)
    found = np.bincount(rows.indices, term(rows.data, rows.indices) * own, n)
    return found + (weights.sum() - stored) * term(np.zeros(n), every)


def row_products(rows: np.ndarray | csr_array, weights: np.ndarray) -> np.ndarray:
    """Return products of rows with weights; bits depend on one row alone."""
    if issparse(rows):
        return rows @ weights
    if len(rows) == 1:
        return row_products(np.vstack([rows, np.zeros_like(rows)]), weights)[:1]
    return np.einsum("ij,j->i", np.ascontiguousarray(rows), weights)


def squared_norms(rows: np.ndarray) -> np.ndarray:
    """Return the squared norm of each row, whose bits depend on this row alone."""
    if len(rows) == 1:
        # A single long row would be summed in another order than several rows.
        return squared_norms(np.vstack([rows, np.zeros_like(rows)]))[:1]
    rows = np.ascontiguousarray(rows)
    return np.einsum("ij,ij->i", rows, rows)


def unit_of_squares(n_columns: int) -> float:
    """Return a factor of squares up to 1, whose rounded sum is then exact in float64.

    The sum of `n_columns` such integers is below 2**53.
    """
    return 2.0 ** (52 - int(n_columns).bit_length())


# Limits of the standard deviation of noise, in grid units. `sum_unit` chooses the grid
# so that the noise is at most SAFE_STD. Noise above MAX_STD is refused. The noise is
# exact at every size. With a larger standard deviation, a larger fraction of the values
# needs integer arithmetic: 2**-14 at 2**34 grid units, and 2**-8 at 2**40. This is far
# below the limit of the kernel (docs/theory/exact_release.rst, The theorem).
SAFE_STD = 2.0**34
MAX_STD = 2.0**40
#: The limit in place of SAFE_STD for sums of coded rows, and for sums of rows times
#: integers. Their units are finer, because both factors of a product are rounded.
SAFE_STD_OF_PRODUCTS = 2.0**38

#: The grid unit: entries of quantised rows are multiples of it. Larger entries than
#: 2 - 2**-14 are clipped.
GRID = 2.0**-14
_EXTREME = 2**15 - 1
# Bytes of a cache line, and of a vector that the kernels read.
_LINE, _VECTOR = 64, 32


def on_grid(value: float | np.ndarray, truncates: bool = False) -> float | np.ndarray:
    """Round a value to the grid, or truncate it toward zero."""
    whole = (np.trunc if truncates else np.rint)(value / GRID)
    return np.clip(whole, -_EXTREME, _EXTREME) * GRID


def sum_unit(
    noise_std: float | np.ndarray,
    clip_norm: float,
    n_rows: int,
    finest: float,
    largest_std: float = SAFE_STD,
) -> float | np.ndarray:
    """Return the smallest grid unit, a power of two, with which a noisy sum fits int64.

    `noise_std` is at most `largest_std` times the unit. `clip_norm` bounds one
    contribution, and so its entries, and `n_rows` is a public bound on their number.
    The unit is at least `finest`.
    """
    room = np.maximum(noise_std / largest_std, n_rows * clip_norm / 2.0**62)
    room = np.maximum(room, finest)
    fraction, exponent = np.frexp(room)
    return np.ldexp(1.0, exponent - (fraction == 0.5))


def times_columns(
    rows: np.ndarray | csr_array, factor: np.ndarray | float
) -> np.ndarray | csr_array:
    """Multiply each column by its factor; CSR rows keep their sparsity pattern."""
    values, columns, rows_of = stored_entries(rows)
    with np.errstate(all="ignore"):  # a warning would reveal a private value
        return rows_of(values * (factor if np.ndim(factor) == 0 else factor[columns]))


#: Rescaled public columns of at most this many bytes are kept in memory. Otherwise they
#: are rescaled again on each pass.
MOST_KEPT = 2**26


def lazy_rows(
    rows: Any, change: Callable[[Any], Any], width: int, keeps: bool = False
) -> LargeTable | np.ndarray | csr_array:
    """Return rows of `width` entries that `change` makes of blocks of `rows`.

    They are made when they are read. CSR rows are made now, and with `keeps` few rows
    in memory, too, which callers must not change.
    """
    if issparse(rows):
        return change(rows)
    if hasattr(rows, "after"):
        found = rows.after(change, np.float64, width)
    else:
        found = LargeTable(rows, None, np.dtype(np.float64), width, (change,))
    if not keeps or found.on_disk or 8 * math.prod(found.shape) > MOST_KEPT:
        return found
    kept = np.empty(found.shape)
    for block in blocks(*kept.shape):
        kept[block] = found[block]
    kept.flags.writeable = False
    return kept


def lengths(rows: Any) -> np.ndarray:
    """Return the norm of each row, float64 (n_rows,)."""
    # `squared_norms` uses einsum, which does not warn of an overflow.
    parts = [squared_norms(rows[block]) for block in blocks(*rows.shape)]
    return np.sqrt(np.concatenate([np.empty(0), *parts]))


class Integers:
    """Base class of quantised rows x, which stand for ``x * unit``.

    `__post_init__` of a subclass sets the attributes.
    """

    n_rows: int
    #: Number of columns, including the constant one.
    n_columns: int
    #: Grid step: the value of the integer 1.
    unit: float
    #: Squared norms of the rows x, as float64.
    squared_norms: np.ndarray
    #: Mean number of entries of a row that a product reads.
    n_entries: int
    #: The map of the file of the rows; None for rows in memory.
    file: mmap.mmap | None = None
    #: Memory over which new rows may be written; see `GridRows`.
    room: np.ndarray | None = None
    #: Whether an entry may be negative if the entries of the table may not.
    may_be_negative = False
    #: Largest standard deviation of the noise in a sum of gradients, in grid units,
    #: and least grid unit, relative to the clip norm.
    largest_std, finest = SAFE_STD, 2.0**-26

    @property
    def norms_in_memory(self) -> tuple[np.ndarray, int, int]:
        """Array, stride, first: squared norm i is ``array[first + i * stride]``."""
        return self.squared_norms, 1, 0

    def target_in_memory(self, target: np.ndarray) -> tuple[np.ndarray, int, int]:
        """Return (array, stride, first): target i is ``array[first + i * stride]``."""
        return target, 1, 0


@dataclasses.dataclass(frozen=True)
class GridRows(Integers):
    """Quantised dense rows: the integers in `values` stand for ``values * unit``."""

    #: Quantised rows minus the quantised centre, int16 (n_rows, n_columns), in memory
    #: or in a memory-mapped file.
    values: np.ndarray
    #: Squared norms of the rows of `values`, which are exact integers, as float64.
    squared_norms: np.ndarray
    #: Public factor of the grid step: `unit` is ``GRID * scale``.
    scale: float = 1.0
    #: The map of the file of the rows; None for rows in memory.
    file: mmap.mmap | None = dataclasses.field(default=None, repr=False)
    #: One array with everything that a training step needs about a record, so that one
    #: memory access loads it. A row has the values, then zeros, and in the last eight
    #: columns the target and the squared norm, of 8 bytes each. int16, shape (n_rows,
    #: n_columns + 8 or more). None: values, targets and norms are separate arrays.
    joined: np.ndarray | None = dataclasses.field(default=None, repr=False)
    #: The array of which `values` are the first columns. It has one more column, for
    #: the constant of the centred rows, which `build` can write over these rows, and if
    #: the rows are wide, those of `joined`.
    room: np.ndarray | None = dataclasses.field(default=None, repr=False)
    #: Array that kernels read; its first columns are the values.
    table: np.ndarray = computed()

    def __post_init__(self):
        for part in (self.values, self.squared_norms):
            if self.joined is None or len(part) == 0:
                continue
            if not np.may_share_memory(part, self.joined):
                raise ValueError("values and squared_norms must be views of joined.")
        n_rows, n_columns = self.values.shape
        vars(self).update(
            n_rows=n_rows,
            n_columns=n_columns,
            n_entries=n_columns,
            unit=GRID * self.scale,
            table=self.values if self.joined is None else self.joined,
        )

    def __getitem__(self, rows: slice | np.ndarray) -> GridRows:
        """Return some of the rows, for a slice without a copy."""
        some, joined = (self.values[rows], self.squared_norms[rows]), None
        if self.joined is not None:
            joined = self.joined[rows]
            some = joined[:, : self.n_columns], joined.view(np.float64)[:, -1]
        return GridRows(*some, self.scale, None, joined)

    def floats(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some of the rows as float64, exactly."""
        return self.values[rows] * self.unit

    @property
    def norms_in_memory(self) -> tuple[np.ndarray, int, int]:
        """Return (array, stride, first) as `Integers.norms_in_memory` does."""
        if self.joined is None:
            return self.squared_norms, 1, 0
        step = self.joined.shape[1] // 4
        return self.joined.view(np.float64).reshape(-1), step, step - 1

    def target_in_memory(self, target: np.ndarray) -> tuple[np.ndarray, int, int]:
        """Return (array, stride, first); the array is `joined` if it has the target."""
        if self.joined is None:
            return target, 1, 0
        memory = self.joined.view(target.dtype)
        first = memory.shape[1] - 2 * 8 // target.itemsize
        if not np.array_equal(memory[:, first], target):
            return target, 1, 0
        return memory.reshape(-1), memory.shape[1], first

    def products(self, some: slice | np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the exact products of some rows x with integer weights, as float64.

        `weights` are float64 (K, n_columns), and the result (n_rows, K).
        """
        return self.values[some].astype(np.float64) @ weights.T

    def inner_products(self, other: GridRows) -> np.ndarray:
        """Return the exact inner product of each row with the same row of `other`."""
        return np.einsum("ij,ij->i", self.values, other.values, dtype=np.float64)

    def moved(self, mean, bias, before, after, target=None) -> GridRows:
        """Return the rows ``(row * before - mean) * after``, with a constant column.

        `mean` is public or released. `bias` is the value of the constant last column,
        `after` included; None: no such column. A `target` is stored beside the rows.
        The new rows may be written over these, which must not be used any more.
        """
        step = self.scale * before
        return GridRows.build(
            self.values,
            None,
            bias=bias,
            centre=mean / step,
            scale=after * step,
            target=target,
            room=False if bias is None or self.room is None else self.room,
            on_disk=self.file is not None,
        )

    def weighted_sum(self, some: slice | np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the int64 sum of a block of rows x times factors.

        `factors` are integers, as float64; the sum of products must be below 2**53.
        """
        rows = self.values[some].astype(np.float64)
        return (factors @ rows).astype(np.int64)  # exact in any order

    @classmethod
    def build(
        cls,
        X: np.ndarray,
        transform: Callable[[np.ndarray], np.ndarray] | None,
        *,
        bias: float | None = None,
        n_features: int | None = None,
        centre: np.ndarray | None = None,
        scale: float = 1.0,
        target: np.ndarray | None = None,
        room: bool | np.ndarray = False,
        on_disk: bool | None = None,
    ) -> GridRows | SparseGridRows:
        """Transform, quantise and centre the rows of X, block by block.

        An entry in grid units is truncated toward zero to an integer. Then the centre,
        rounded to an integer, is subtracted. Dense rows store the difference. CSR rows
        store the entry and the centre, with the same results. Entries are clipped so
        that the difference fits into int16. Rows of a file that exceed the working
        memory are written to an anonymous temporary file.

        `transform` makes float64 rows of `n_features` columns (None: as many as X has),
        each row separately, and keeps the pattern of CSR rows, which are canonical;
        None: X holds integers, in grid units. `centre`, public or released, is
        subtracted from these rows, and `scale` is the factor of the difference. `bias`
        is the value of a constant last column, `scale` included; None: no such column.
        A `target` is stored beside dense rows in memory, in `joined`. With
        ``room=True`` these have the attribute `room`; an array is the `room` of rows
        that are no longer needed, over which the new rows are written if it is wide
        enough. `on_disk` is whether X is in a file; None: what its attribute says.
        """
        n_rows = X.shape[0]
        n_features = X.shape[1] if n_features is None else n_features
        if centre is None:
            centre = np.zeros(n_features)
        # NaN would become the integer -2**63, and sums would wrap around.
        centre = np.nan_to_num(np.rint(centre / GRID))
        centre = np.clip(centre, -_EXTREME, _EXTREME)
        # Limits of entries, so that an entry minus the centre fits int16. Zero is
        # within the limits.
        low = np.maximum(-_EXTREME, centre - _EXTREME)
        high = np.minimum(_EXTREME, centre + _EXTREME)
        least, most = low.max(initial=-_EXTREME), high.min(initial=_EXTREME)
        constant = [] if bias is None else [round(bias / (GRID * scale))]
        if issparse(X):
            shift = np.append(centre, np.negative(constant)).astype(np.int64)
            return SparseGridRows.quantised(X, transform, low, high, shift, scale)
        shape = n_rows, n_features + len(constant)
        joined, squared_norms = None, np.empty(n_rows)
        on_disk = getattr(X, "on_disk", False) if on_disk is None else on_disk
        file = None
        if on_disk and 2 * math.prod(shape) > working_memory():
            room, file = file_rows(*shape)
        else:
            if room is True:
                room = _room(n_rows, n_features + 1, math.ceil((n_features + 1) / 8))
            narrow = room is not False and room.shape[1] < shape[1] + 8
            if room is False or (narrow and target is not None):
                room = np.empty(shape, np.int16) if target is None else _room(*shape)
        values = room[:, : shape[1]]
        if room.shape[1] >= shape[1] + 8:
            joined, squared_norms = room, room.view(np.float64)[:, -1]
            if target is not None:
                stored = joined if target.dtype.kind == "i" else joined.view(np.float64)
                stored[:, -8 if target.dtype.kind == "i" else -2] = target
        for block in blocks(n_rows, n_features):
            if transform is None:
                own = X[block].astype(np.float64)
            else:
                own = transform(X[block]) * (1 / GRID)  # exact: a power of two
                np.trunc(own, out=own)
            # The result is that of clipping always. NaN compares as outside.
            ends = own.min(initial=0.0), own.max(initial=0.0)
            if not (least <= ends[0] and ends[1] <= most):
                np.clip(own, low, high, out=own)
            if centre.any():
                np.subtract(own, centre, out=own)
            values[block, :n_features], values[block, n_features:] = own, constant
            # Integers below 2**53 are exact in float64, in any order of the sum.
            squares = np.einsum("ij,ij->i", own, own)
            squared_norms[block] = squares + np.dot(constant, constant)
        values.flags.writeable = file is None
        room = None if room.shape[1] == shape[1] else room
        return cls(values, squared_norms, scale, file, joined, room)


def _room(n_rows: int, n_columns: int, most: float = math.inf) -> np.ndarray:
    """Return zeros for `joined` of `GridRows`, with at least 8 columns after the rows.

    Rows start at the beginning or in the middle of a cache line, so that a short row is
    within one. If this needs more than `most` further columns, there are none.
    """
    width = _VECTOR * math.ceil((2 * n_columns + 16) / _VECTOR)
    if width // 2 - n_columns > most:
        width = 2 * n_columns
    memory = np.zeros(n_rows * width + _LINE, dtype=np.uint8)
    start = -memory.ctypes.data % _LINE
    memory = memory[start : start + n_rows * width]
    return memory.view(np.int16).reshape(n_rows, width // 2)


@dataclasses.dataclass(frozen=True)
class SparseGridRows(Integers):
    """Quantised CSR rows x minus a dense vector: ``(x - shift) * unit``.

    The difference, the integers of `GridRows`, is never stored.
    """

    data: np.ndarray  # int16
    indices: np.ndarray  # int32
    indptr: np.ndarray  # int64
    #: The quantised centre, int64. If there is a constant column, the last entry is
    #: minus its value, because x is 0 in this column.
    shift: np.ndarray
    #: Squared norms of x - shift, which are exact integers, as float64.
    squared_norms: np.ndarray
    #: Public factor of the grid step: `unit` is ``GRID * scale``.
    scale: float = 1.0

    def __post_init__(self):
        n_rows = len(self.indptr) - 1
        vars(self).update(
            n_rows=n_rows,
            n_columns=len(self.shift),
            n_entries=math.ceil(len(self.data) / max(1, n_rows)),
            unit=GRID * self.scale,
        )

    @functools.cached_property
    def stored(self) -> csr_array:
        """The integers x, without the shift."""
        shape = self.n_rows, self.n_columns
        return csr_array((self.data, self.indices, self.indptr), shape=shape)

    def products(self, some: slice | np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return products with weights; see `GridRows`."""
        found = self.stored[some].astype(np.float64) @ weights.T
        return found - self.shift.astype(np.float64) @ weights.T

    def inner_products(self, other: SparseGridRows) -> np.ndarray:
        """Return the inner products with the rows of `other`; see `GridRows`."""
        x, z = (one.stored.astype(np.int64) for one in (self, other))
        shift = self.shift
        stored = np.ravel(x.multiply(z).sum(axis=1)) - x @ shift - z @ shift
        return (stored + shift @ shift).astype(np.float64)

    def moved(self, mean, bias, before, after, target=None) -> SparseGridRows:
        """Return centred and scaled rows; see `GridRows`."""
        step = self.scale * before
        given = {"centre": mean / step, "scale": after * step}
        return GridRows.build(self.stored, None, bias=bias, **given)

    def weighted_sum(self, some: slice | np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the sum of rows times integers; see `GridRows`."""
        integers = factors.astype(np.int64)
        rows = self.stored[some].astype(np.int64)
        return rows.T @ integers - self.shift * integers.sum()

    @classmethod
    def quantised(cls, X, transform, low, high, shift, scale) -> SparseGridRows:
        """Transform and quantise CSR rows, as in `GridRows.build`."""
        data = np.empty(X.nnz, dtype=np.int16)
        squared_norms = np.empty(X.shape[0])
        far = float(shift @ shift)
        for block in row_blocks(X):
            rows = X[block] if transform is None else transform(X[block])
            values, columns, rows_of = stored_entries(rows)
            own = np.trunc(values / (1 if transform is None else GRID))
            np.clip(own, low[columns], high[columns], out=own)
            data[X.indptr[block.start] : X.indptr[block.stop]] = own
            # |x|**2 - 2 x.shift + |shift|**2, where every term is an integer < 2**53.
            terms = rows_of(own * (own - 2 * shift[columns]))
            squared_norms[block] = terms.sum(axis=1) + far
        indptr = X.indptr.astype(np.int64)
        indices = X.indices.astype(np.int32, copy=False)
        return cls(data, indices, indptr, shift, squared_norms, scale)


# The input scaler: clip columns to their bounds, and scale or clip rows.
#
# ``fit`` and ``predict`` apply the same function, to dense and to CSR rows, and to each
# row independently.


#: Least divisor of columns without bounds, which are assumed to be scaled. Integers can
#: represent numbers up to twice this divisor.
UNBOUNDED_REACH = 8.0


@dataclasses.dataclass(frozen=True)
class InputScaler:
    """Clip columns to their bounds, then divide rows or clip their norms.

    The resulting rows are called rescaled. For a linear model without `normalize`,
    `shortens` is False. Then only values outside the bounds are clipped, and
    predictions are linear in X within the bounds. Rows may be longer than 1, and each
    query bounds the contribution of a record. Networks and centring clip the norms of
    rows.
    """

    #: Columns become ``clip(x - low, 0, span) / span``; a column with an infinite span
    #: is unchanged. None: no declared bounds.
    low: np.ndarray | None = None
    span: np.ndarray | None = None
    #: Divisor of the rows after clipping to the bounds. In a linear model it is 1, or 8
    #: if columns have no bounds. Infinite: rows are not divided.
    feature_bound: float = 1.0
    normalize: bool = False  # scale non-zero rows to the norm `feature_bound` exactly
    #: Mask of public columns, if there are private columns, too. Public columns are
    #: excluded from the norm and are not divided, because the norm of a complete row
    #: would depend on private values.
    public: np.ndarray | None = None
    shortens: bool = True  # scale rows longer than `feature_bound` down to this norm
    #: Divisor of each column in `mapped`, after the bounds were applied.
    divisor: float | np.ndarray = computed()
    #: Offset that `scale` subtracts from each column, and divisor of the difference.
    offset: float | np.ndarray = computed()
    factor: float | np.ndarray = computed()
    #: Divisor of integers of rows, which are scaled by bounds or normalised.
    divisor_of_integers: float = computed()
    #: A power of two: half of the largest number that integers represent.
    reach: float = computed()

    def __post_init__(self):
        reach = bound = 1.0 if self.normalize else self.feature_bound
        if self.shortens and not self.normalize:
            finite = 0 < bound < math.inf
            norm = 2.0 ** math.ceil(math.log2(bound)) if finite else bound
            free = self.span is None or bool(np.isinf(self.span).any())
            reach = max(norm, UNBOUNDED_REACH) if free else 1.0
        divisor = 1.0 if np.isinf(self.feature_bound) else self.feature_bound
        if self.public is not None:
            divisor = np.where(self.public, 1.0, divisor)
        offset, factor = 0.0, 1.0
        if self.span is not None:
            bounded = np.isfinite(self.span)
            offset = np.where(bounded, self.low, 0.0)
            factor = np.where(bounded, self.span, 1.0)
        vars(self).update(
            divisor=divisor,
            offset=offset,
            factor=factor,
            divisor_of_integers=bound,
            reach=reach,
        )

    def nulls(self, X: np.ndarray | csr_array | LargeTable) -> np.ndarray | None:
        """Return the mask of the records that become null; None if there are none.

        These are the rows with NaN or infinity in a column without bounds. In other
        columns `scale` replaces such numbers by the middle of the bounds.
        """
        span = np.full(X.shape[1], np.inf) if self.span is None else self.span
        free = np.isinf(span)
        if X.dtype.kind != "f" or not free.any():
            return None
        is_null = np.zeros(X.shape[0], dtype=bool)
        for block in row_blocks(X):
            values, columns, rows_of = stored_entries(X[block])
            wrong = rows_of(~np.isfinite(values) & free[columns])
            is_null[block.start + wrong.nonzero()[0]] = True
        return is_null if is_null.any() else None

    def mapped(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return rescaled rows; with `shortens`, their private parts have norm <= 1.

        CSR rows are in canonical form, and their lower bounds are 0. Dense and CSR rows
        give the same float64 numbers, to the last bit.
        """
        return self.shorten(self.scale(X))

    def shorten(self, rows: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Divide scaled rows by `feature_bound`, and clip their norms if `shortens`."""
        if np.isinf(self.feature_bound):
            return rows
        if not (self.shortens or self.normalize):
            if np.isscalar(self.divisor) and self.divisor == 1:
                return rows
            return times_columns(rows, 1 / self.divisor)
        # Divide the private part of each row by its norm or by `feature_bound`.
        own = np.ones(rows.shape[1], bool) if self.public is None else ~self.public
        out, columns, rows_of = stored_entries(rows)
        chosen: Any = ... if own.all() else (..., own[columns])
        values, bound = out[chosen], float(self.feature_bound)
        if own.sum() == 1:  # the norm is known without a rounded square
            longest = np.abs(values)
            longest = longest if self.normalize else np.maximum(longest, bound)
            with np.errstate(all="ignore"):  # an error would reveal a private value
                found = values / np.where(longest > 0, longest, 1.0)
        else:
            if values.ndim == 2:
                ends = np.arange(len(values) + 1) * values.shape[1]
            else:
                ends = np.append(0, np.cumsum(own[columns]))[rows.indptr]
            given = bound, self.normalize, unit_of_squares(own.sum())
            found = _shortened(values, ends, *given)
        if own.all():
            return rows_of(found)
        out = out.copy()
        out[chosen] = found
        return rows_of(out)

    def door(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return scaled (with `normalize` normalised) rows, divided by `reach`."""
        rows = self.scale(X)
        rows = self.shorten(rows) if self.normalize else rows
        return rows if self.reach == 1 else times_columns(rows, 1 / self.reach)

    def of_public(self, public: np.ndarray) -> InputScaler:
        """Restrict the scaler to the public columns.

        If there are private columns, too, public columns are only scaled by bounds.
        """
        changes = {"feature_bound": np.inf, "normalize": False}
        return self if public.all() else self.part(public, **changes)

    def __call__(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return clipped rows in the units of X, to which `coef_` applies.

        ``decision_function(X) == input_scaler_(X) @ coef_.T + intercept_``. Unless rows
        are shortened or normalised, the result differs from X only for values outside
        the bounds, and for missing or infinite numbers (see `scale`).
        """
        return self.restored(self.mapped(X))

    def restored(self, rows: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Convert rescaled rows to the units of X; return a new array."""
        rows = times_columns(rows, self.divisor)
        if self.span is None:
            return rows
        rows = times_columns(rows, self.factor)
        # The offsets of CSR rows are 0.
        return rows + self.offset if self.offset.any() else rows

    def part(self, columns: np.ndarray, **changes: Any) -> InputScaler:
        """Restrict the scaler to some columns, as if X had no others."""
        if self.public is None and not changes and np.all(columns):
            return self
        if self.span is not None:
            changes |= {"low": self.low[columns], "span": self.span[columns]}
        return dataclasses.replace(self, public=None, **changes)

    def coefficients(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert weights on rescaled rows to those on ``self(X)``, and intercepts."""
        coef = weights / self.divisor / self.factor
        if self.span is None:
            return coef, np.zeros(len(coef))
        return coef, -coef @ self.offset

    def scale(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return float64 rows; columns with bounds are scaled to [0, 1] and clipped.

        NaN and infinity become 1/2, the middle of the bounds, and 0 in columns without
        bounds. Each number is converted to float64 before anything else. So it does not
        matter which type it shares with the numbers of other rows and columns.
        """
        values, columns, rows_of = stored_entries(X)
        may_hold_nan = values.dtype.kind == "f"
        span = self.span if self.span is None else self.span[columns]
        # C order. In F order, the order in which a sum adds columns would depend on the
        # size of the block.
        given = np.asarray(values, dtype=np.float64, order="C")
        rows, bounded = given, np.False_ if span is None else np.isfinite(span)
        with np.errstate(all="ignore"):  # a warning would reveal a private value
            if span is not None and not bounded.all():
                rows, low = given.copy(), self.low[columns][bounded]
                scaled = (given[..., bounded] - low) / span[bounded]
                rows[..., bounded] = np.clip(scaled, 0.0, 1.0)
            elif span is not None:
                rows = given - self.low[columns] if self.low.any() else given
                if (span != 1).any():
                    rows = np.divide(rows, span, out=None if rows is given else rows)
                rows = np.clip(rows, 0.0, 1.0, out=None if rows is given else rows)
            # A sum is finite only if all of its terms are.
            if may_hold_nan and not math.isfinite(given.sum()):
                wrong = ~np.isfinite(given)
                rows = np.where(wrong, np.where(bounded, 0.5, 0.0), rows)
        return rows_of(rows)


@np.errstate(all="ignore")  # a warning would reveal a private value
def _shortened(entries, ends, bound: float, normalize: bool, unit: float) -> np.ndarray:
    """Return rows divided by their norms, or by `bound` if their norm is smaller.

    With `normalize` each row is divided by its norm, whatever `bound` is.

    `entries`, float64, are dense rows, or those of all sparse rows one after the other;
    row i starts at ends[i] and stops before ends[i + 1]. Squares are multiplied by
    `unit` and rounded up to integers. Their sums are therefore exact, for dense and for
    sparse rows, in any block.
    """
    sizes = np.diff(ends)
    starts, sizes = ends[:-1][sizes > 0], sizes[sizes > 0]
    if not len(starts):
        return entries
    # For each entry, or each dense row, the number of its row among those with entries.
    row = np.arange(len(starts))
    row = row[:, None] if entries.ndim == 2 else np.repeat(row, sizes)
    # Scaling by powers of two is exact and prevents over- and underflow of the squares.
    # There are two factors, because a single one might exceed float64.
    exponent = -np.frexp(np.maximum.reduceat(np.abs(entries).ravel(), starts))[1]
    near = np.clip(exponent, -999, 999)
    first, second = np.ldexp(1.0, near), np.ldexp(1.0, exponent - near)
    scaled = entries * first[row]
    scaled *= second[row]
    squares = np.ceil(scaled * scaled * unit)
    longest = np.sqrt(np.add.reduceat(squares.ravel(), starts) / unit)
    if not normalize:
        longest = np.maximum(longest, np.ldexp(bound, exponent))
    longest[longest == 0] = 1.0
    return np.divide(scaled, longest[row], out=scaled)


def divisor_of_rows(longest: float | None) -> float:
    """Return the divisor of a linear model's rows, whose norms are at most `longest`.

    It is a power of two, at most 16. Rows then have norms of at most 2 and fit into the
    integers of the fast loop. With more than 1024 columns the bound of a row may be
    larger. Usually few of many columns are large, and a larger divisor would make the
    integers coarser.
    """
    if longest is None:
        return UNBOUNDED_REACH
    return 2.0 ** min(max(math.ceil(math.log2(longest / 2)), 0), 4)


def resolve_bounds(
    bounds: Any, n_features: int, names: Sequence[str] | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return (low, span) of the declared bounds, or (None, None) without bounds.

    A column without bounds has an infinite span.
    """
    if bounds is None or bounds is False:
        return None, None
    if isinstance(bounds, str):
        raise ValueError(
            f"bounds={shown(bounds)} must be a pair (low, high), a mapping or False; "
            "bounds='private' is for the linear estimators; for other estimators, pass "
            "the result of private_bounds."
        )
    if isinstance(bounds, Mapping):
        low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
        for name, pair in bounds.items():
            index = _column(name, n_features, names)
            ends = _pair(pair, f"bounds[{name!r}]", single=True)
            low[index], high[index] = [end.item() for end in ends]
    else:
        low, high = _pair(bounds, "bounds")
        if low.ndim > 1 or high.ndim > 1 or {low.size, high.size} - {1, n_features}:
            raise ValueError(
                f"bounds has {low.size} lower and {high.size} upper bounds, but X has "
                f"{n_features} columns: give scalars or one entry per column."
            )
        low = np.broadcast_to(low, n_features).copy()
        high = np.broadcast_to(high, n_features).copy()
    finite = np.isfinite(low) & np.isfinite(high)
    if not (low < high).all() or not (finite.all() or isinstance(bounds, Mapping)):
        raise ValueError(
            f"bounds={shown(bounds)} must be finite and must satisfy low < high in "
            "every column: to leave a column unbounded, pass a mapping without it."
        )
    check_interval("bounds", bounds, low[finite], high[finite])
    return np.where(np.isfinite(low), low, 0.0), high - low


def _pair(value: Any, name: str, single: bool = False) -> list[np.ndarray]:
    """Return both ends of bounds, of one column if `single`, as float64."""
    # Iterating over a frame or a mapping would give its labels or keys.
    keyed, ends = isinstance(value, dict) or hasattr(value, "columns"), []
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        low, high = None if keyed else value
        ends = [np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)]
    if not ends or (single and any(end.size != 1 for end in ends)):
        raise ValueError(
            f"{name}={shown(value)} must be a pair (low, high) of numbers or arrays, "
            "or a mapping from column names to pairs of numbers; False declares no "
            "bounds."
        )
    return ends


def _column(name: Any, n_features: int, names: Sequence[str] | None) -> int:
    if isinstance(name, str):
        if names is None:
            raise ValueError(
                f"bounds names the column {name!r}, but X has no column names: pass a "
                "DataFrame, use indices as keys, or (for RFE and others) one pair."
            )
        if name in (known := list(names)):
            return known.index(name)
    elif isinstance(name, (int, np.integer)) and -n_features <= name < n_features:
        return int(name)
    raise ValueError(
        f"bounds names the column {name!r}, which X does not have: in tools that "
        "select columns, such as RFE, declare one pair for all."
    )
