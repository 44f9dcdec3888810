"""The two exact products of a linear step, over blocks of dense or CSR rows.

`margins` multiplies rows by weights; `add` sums residuals times rows. Every number is
an integer, so tiles, blocks, threads, vectorisation and the format of the rows do not
change the result.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from skfdp.data.codes import CodedGridRows
from skfdp.data.grid import GridRows, Integers, SparseGridRows
from skfdp.kernels import (
    NotCompiledError,
    codes,
    contributions,
    persons,
    short_tiles,
    sparse,
    tiles,
    vectors,
)

#: Bound of the entries of residuals times rows in `ShortProducts`. Sums of 32 such
#: entries fit into int32.
LARGEST_SHORT_PRODUCT = 2.0**26
#: Bits of an entry of a person's contribution. The float64 sum of `AT_ONCE` entries is
#: exact.
ENTRY_BITS = 36
AT_ONCE = 2 ** (53 - ENTRY_BITS)
_NO_ROWS = np.empty(0, dtype=np.int64)
# Blocks of fewer CSR rows than this are added row by row.
_FEW_ROWS = 64


def products(rows: Integers, n_outputs: int, short: bool = False) -> Products:
    """Return an object that computes margins and sums, for one thread.

    `short` is whether entries of a residual times its row are below
    `LARGEST_SHORT_PRODUCT`.
    """
    if type(rows) in _PRODUCTS:
        return _PRODUCTS[type(rows)](rows, n_outputs)
    # This choice may depend on private rows: it changes the time, but not the numbers.
    wide = rows.table.shape[1] >= vectors.WIDTH
    if short and wide and _inner_products_are_short(rows):
        return ShortProducts(rows, n_outputs)
    return DenseProducts(rows, n_outputs)


class Products:
    """Base class of objects that compute the margins and sums of one step.

    `rounded` is memory for the rounded weights, and `sums` for the sum.
    """

    # A block of dense rows fits into the cache for both products.
    block_entries, largest_block = 2**19, 4096

    def __init__(self, rows: Any, n_outputs: int, rounded, *sums: np.ndarray):
        self.rows, self.n_outputs = rows, n_outputs
        self._theta, self._sums, self._factor = rounded, sums, 0.0
        self._has_one_loop = True  # until a step shows that it is not compiled
        #: Number of columns of a row in memory.
        self._n_stored = rounded.shape[1]
        in_block = self.block_entries // (rows.n_entries + 4 * n_outputs)
        #: Number of rows of a block.
        self.block_size = min(self.largest_block, max(_FEW_ROWS, in_block))

    def start(self, theta: np.ndarray) -> None:
        """Set the weights of a step, and reset the sum to zero.

        theta is scaled by a power of two and rounded to integers of 16 bits; the
        integers of an output have a norm of at most 2**16. So margins are exact and do
        not depend on the position of a row. Rounding changes an entry of theta by at
        most ``2**-15 |theta|``. The shape of theta is (n_outputs, n_columns).
        """
        bits = tiles.round_weights(theta, self._n_stored, self._theta)
        try:
            self._factor = math.ldexp(self.rows.unit, -bits)
        except OverflowError:  # the iterate has diverged; margins are infinite
            self._factor = math.inf
        for one in self._sums:
            one[:] = 0

    def parts(
        self, batch: np.ndarray | None, start: int, stop: int
    ) -> Iterator[np.ndarray]:
        """Yield the row numbers ``batch[start:stop]`` in blocks; None is all rows."""
        for first in range(start, stop, self.block_size):
            last = min(first + self.block_size, stop)
            yield np.arange(first, last) if batch is None else batch[first:last]

    def parts_of_persons(
        self, batch: np.ndarray, ends: np.ndarray, start: int, stop: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of persons ``start`` to ``stop - 1`` in blocks, with ends.

        Person i has the row numbers ``batch[ends[i]:ends[i + 1]]``. A block has whole
        persons, and is no larger than others, unless it is a single person.
        """
        while start < stop:
            most = ends[start] + self.block_size
            last = int(np.searchsorted(ends, most, side="right")) - 1
            last = min(max(last, start + 1), stop)
            own = ends[start : last + 1]
            yield batch[own[0] : own[-1]], own - own[0]
            start = last

    def clipped_sum(self, theta, batch, start: int, stop: int, given: tuple):
        """Return the int64 sum of the clipped contributions of ``batch[start:stop]``.

        `given` is a result of `contributions.flat`.
        """
        if self._has_one_loop and given[0] is not None:
            try:
                return self._compiled_sum(theta, batch, start, stop, given)
            except NotCompiledError:
                self._has_one_loop = False
        self.start(theta)
        for part in self.parts(batch, start, stop):
            residuals = np.empty((self.n_outputs, len(part)))
            self.margins(part, residuals)
            contributions.contribute(residuals, part, given)
            self.add(part, residuals)
        return self.total()

    def _compiled_sum(self, theta, batch, start: int, stop: int, given: tuple):
        """Return `clipped_sum`, computed in one compiled loop."""
        raise NotCompiledError


class DenseProducts(Products):
    """Products of `GridRows` by tiled kernels in float64.

    Sums over `tiles.EXACT_ROWS` rows are exact in float64, and then added in int64.
    """

    def __init__(self, rows: GridRows, n_outputs: int):
        shape = n_outputs, rows.n_columns
        self._total = np.empty(shape, dtype=np.int64)
        super().__init__(rows, n_outputs, np.empty(shape), self._total)

    def _compiled_sum(self, theta, batch, start: int, stop: int, given: tuple):
        self._total[:] = 0
        rows, whole = self.rows, batch is None
        some = _NO_ROWS if whole else batch, whole, start, stop, theta, rows.unit
        tiles.add_clipped(rows.table, *some, given, self._theta, self._total)
        return self._total.copy()

    def margins(self, part: np.ndarray, out: np.ndarray) -> None:
        """Write the margins of some rows; out is float64 (n_outputs, len(part))."""
        tiles.margins(self.rows.table, part, self._theta, out)
        out *= self._factor

    def add(self, part: np.ndarray, residual: np.ndarray) -> None:
        """Add residuals times rows; residuals are integers below 2**29 in float64."""
        for first in range(0, len(part), tiles.EXACT_ROWS):
            own = slice(first, first + tiles.EXACT_ROWS)
            partial = np.zeros(self._total.shape)
            some = part[own], np.ascontiguousarray(residual[:, own])
            tiles.add_outer_products(self.rows.table, *some, partial)
            self._total += partial.astype(np.int64)

    def add_persons(self, part, ends, residuals, clip) -> None:
        """Add the contributions of some persons; see `kernels.persons.add_dense`.

        Entries of a contribution must be below ``2**ENTRY_BITS``.
        """
        for first in range(0, len(ends) - 1, AT_ONCE):
            some = part, ends[first : first + AT_ONCE + 1], residuals, clip
            of_one, of_some = np.zeros((2, *self._total.shape))
            persons.add_dense(self.rows.table, *some, of_one, of_some)
            self._total += of_some.astype(np.int64)

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        return self._total.copy()

    def pull(self, part: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return residuals times rows in floating point, for public gradients."""
        return residual @ (self.rows.values[part] * self.rows.unit)


class ShortProducts(Products):
    """Fast products of `GridRows` in 16-bit integers, for rows of small norm.

    A margin is at most the product of the norms of row and weights, so it is below
    2**31. The sum of 32 rows times residuals is also below 2**31.
    """

    def __init__(self, rows: GridRows, n_outputs: int):
        stored = rows.table.shape[1]
        width = vectors.WIDTH * math.ceil(stored / vectors.WIDTH)
        rounded = np.zeros((n_outputs, width), dtype=np.int16)
        self._sum = np.empty((n_outputs, width), np.int64)
        self._excess = np.zeros(1, int)
        super().__init__(rows, n_outputs, rounded, self._sum, self._excess)
        self._n_stored = stored
        self._places = short_tiles.places(rows.n_columns, stored)
        self._memory = short_tiles.block_memory(stored, n_outputs)

    @property
    def in_memory(self) -> tuple:
        """The table, weights, factor, links, memory and sums for compiled loops."""
        links, memory = short_tiles.links(self.n_outputs), self._memory
        return self.rows.table, self._theta, self._factor, links, memory, self._sum

    def exceed(self, excess: int) -> None:
        """Add the excess of sums; see `short_tiles.add_outer_products`."""
        self._excess += excess

    def _compiled_sum(self, theta, batch, start: int, stop: int, given: tuple):
        self.start(theta)
        table, *weights, links, memory, sums = self.in_memory
        whole = batch is None
        some = memory[0] if whole else batch, whole, start, stop
        asked = *some, *weights, given, links, memory
        self.exceed(short_tiles.add_clipped(table, *asked, sums))
        return self.total()

    def margins(self, part: np.ndarray, out: np.ndarray) -> None:
        """Write the margins of some rows; out is float64 (n_outputs, len(part))."""
        short_tiles.margins(self.rows.table, part, self._theta, self._factor, out)

    def add(self, part: np.ndarray, residual: np.ndarray) -> None:
        """Add residuals times rows; residuals are integers below 2**15 in float64."""
        some = self.rows.table, part, residual
        self._excess += short_tiles.add_outer_products(*some, self._sum)

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        return self._sum.take(self._places, axis=1) - (self._excess << 31)


class SparseProducts(Products):
    """Products of `SparseGridRows`, which are CSR rows minus a dense shift.

    The products with the shift are computed once per step.
    """

    # The sums do not fit into any cache. A few large blocks are then faster.
    block_entries, largest_block = 2**21, 2**14

    def __init__(self, rows: SparseGridRows, n_outputs: int):
        rounded = np.empty((n_outputs, rows.n_columns), dtype=np.int16)
        sums = np.empty((rows.n_columns, n_outputs), np.int64), np.empty(n_outputs, int)
        super().__init__(rows, n_outputs, rounded, *sums)
        self._csr = rows.data, rows.indices, rows.indptr
        #: The weights by columns, and the products of the shift with them.
        self._turned = np.empty(rounded.T.shape, np.int16), np.empty(n_outputs, int)
        narrow = np.int32 if _inner_products_are_short(rows) else np.int64
        self._row_sum = np.empty(n_outputs, dtype=narrow)
        self._by_columns: dict[tuple[int, int], tuple] = {}

    def start(self, theta: np.ndarray) -> None:
        """Do what `Products.start` does, and turn the weights."""
        super().start(theta)
        turned, shifted = self._turned
        turned[:], shifted[:] = self._theta.T, self._theta.astype(int) @ self.rows.shift

    def margins(self, part: np.ndarray, out: np.ndarray) -> None:
        """Write the margins of some rows; out is float64 (n_outputs, len(part))."""
        weights = *self._turned, self._factor
        sparse.margins(*self._csr, part, *weights, self._row_sum, out)

    def add(self, part: np.ndarray, residual: np.ndarray) -> None:
        """Add residuals times rows; residuals are integers below 2**29 in float64."""
        columns = self._columns(part)
        if columns is None:
            sparse.add_outer_products(*self._csr, part, residual, *self._sums)
        else:
            by_rows = np.ascontiguousarray(residual.T, dtype=np.int32)
            sparse.add_by_columns(*columns, by_rows, *self._sums)

    @functools.cached_property
    def _of_persons(self) -> tuple:
        """Memory for the sums of one person, and the columns with a shift."""
        shifted = self.rows.shift != 0
        # Columns with a shift come first. After them the kernel writes other columns,
        # so the values there do not matter.
        columns = np.argsort(~shifted, kind="stable")
        return np.zeros_like(self._sums[0]), columns, shifted, int(shifted.sum())

    def add_persons(self, part, ends, residuals, clip) -> None:
        """Add the contributions of some persons; see `kernels.persons.add_sparse`."""
        rows = self._csr, self.rows.shift, part, ends
        persons.add_sparse(*rows, residuals, clip, self._of_persons, self._sums[0])

    def _columns(self, part: np.ndarray) -> tuple | None:
        """Return the CSC form of consecutive rows, or None if they are not or are few.

        They are a block of a full batch, which occurs in every step. So its form is
        cached, for at most n_rows rows in total.
        """
        if len(part) < _FEW_ROWS or part[-1] - part[0] != len(part) - 1:
            return None
        start, stop = int(part[0]), int(part[0]) + len(part)
        if not np.array_equal(part, np.arange(start, stop)):
            return None
        if (start, stop) not in self._by_columns:
            held = sum(last - first for first, last in self._by_columns)
            if held + len(part) > self.rows.n_rows:
                return None
            data, indices, indptr = self._csr
            stored = slice(indptr[start], indptr[stop])
            places = indptr[start : stop + 1] - indptr[start]
            shape = len(part), self.rows.n_columns
            block = csr_array((data[stored], indices[stored], places), shape=shape)
            block = block.tocsc()
            columns = block.data, block.indices, block.indptr
            self._by_columns[start, stop] = columns
        return self._by_columns[start, stop]

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        sums, residuals = self._sums
        return sums.T - np.outer(residuals, self.rows.shift)  # modulo 2**64

    def pull(self, part: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return residuals times rows in floating point, for public gradients."""
        x = self.rows.stored[part]
        moved = np.outer(residual.sum(axis=1), self.rows.shift)
        return ((x.T @ residual.T).T - moved) * self.rows.unit


class CodedProducts(Products):
    """Products of `CodedGridRows`: look-ups of levels in place of columns."""

    def __init__(self, rows: CodedGridRows, n_outputs: int):
        n_levels, n_columns = rows.levels.shape
        rounded = np.empty((n_outputs, n_columns), dtype=np.int64)
        sums = np.empty((n_outputs, n_levels), np.int64), np.empty(n_outputs, np.int64)
        super().__init__(rows, n_outputs, rounded, *sums)
        self._codes = rows.codes, rows.n_categories
        self._beside = ShortProducts(rows.beside, n_outputs)

    def start(self, theta: np.ndarray) -> None:
        """Do what `Products.start` does, and multiply the weights with the levels."""
        super().start(theta)
        self._weights = (*self.rows.on_levels(self._theta), self._factor)
        self._beside.start(np.ascontiguousarray(theta[:, self.rows.dense]))

    def _compiled_sum(self, theta, batch, start: int, stop: int, given: tuple):
        self.start(theta)
        whole, beside = batch is None, self._beside
        *shared, sums = beside.in_memory
        some = _NO_ROWS if whole else batch, whole, start, stop
        asked = *some, (*self._weights, *shared), given, (*self._sums, sums)
        beside.exceed(codes.add_clipped(*self._codes, *asked))
        return self.total()

    def margins(self, part: np.ndarray, out: np.ndarray) -> None:
        """Write the margins of some rows; out is float64 (n_outputs, len(part))."""
        codes.margins(*self._codes, part, *self._weights, out)
        further = np.empty(out.shape)
        self._beside.margins(part, further)
        out += further

    def add(self, part: np.ndarray, residual: np.ndarray) -> None:
        """Add residuals times rows; residuals are integers below 2**29 in float64.

        With columns beside the codes they are below 2**15.
        """
        codes.add(*self._codes, part, residual, *self._sums)
        self._beside.add(part, residual)

    def total(self) -> np.ndarray:
        """Return the int64 sum, a fresh array of shape (n_outputs, n_columns)."""
        found = self.rows.of_levels(*self._sums)
        found[:, self.rows.dense] += self.rows.step * self._beside.total()
        return found


#: The products of rows for which there is no choice.
_PRODUCTS = {SparseGridRows: SparseProducts, CodedGridRows: CodedProducts}


def _inner_products_are_short(rows: Integers) -> bool:
    """Whether the products of rows and rounded weights fit into int32."""
    # Rounding increases the norm of theta by at most sqrt(n_columns) / 2.
    longest = 2.0**31 / (2.0**16 + math.sqrt(rows.n_columns))
    return math.sqrt(rows.squared_norms.max(initial=0.0)) < longest
