"""A checked table: its public part, its private part, and the rows of a loop."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.data._basis import Block
from skfdp.data.codes import CodedGridRows
from skfdp.data.grid import (
    GRID,
    GridRows,
    InputScaler,
    Integers,
    blocks,
    lazy_rows,
    on_grid,
    row_blocks,
    stored_entries,
    times_columns,
)
from skfdp.data.sources import LargeTable, chosen_rows, in_memory
from skfdp.data.target import TargetMap
from skfdp.data.units import Units
from skfdp.privacy.checks import computed

#: The integers of a sum have room for this many times `n_records` contributions, even
#: if all have the largest norm and the same direction. If the number of records is
#: private, there may be more contributions. Sums then wrap around, which is
#: post-processing of the exact release (docs/theory/exact_release.rst).
MOST_ROWS = 16
#: Largest number of columns of a model of the public columns alone, if encoded rows are
#: sparse. See `PublicRecords.kept`.
MOST_NARROWED = 512


@dataclasses.dataclass(frozen=True)
class PublicRecords:
    """The public part of a table: all that a method's `prepare` and `plan` may read."""

    #: Mask of the public columns, shape (n_features,).
    mask: np.ndarray
    #: The scaler of complete rows, with all columns.
    input_scaler: InputScaler
    #: Number of records, or of persons if these are protected; the nominal number if it
    #: is private.
    n_records: int
    #: Names of all columns, or positions without names.
    columns: tuple[str | int, ...]
    #: Whether the rows are stored as CSR.
    sparse: bool = False
    #: The target if it is public: int64 codes of classes, or float64 numbers.
    target: np.ndarray | None = None
    target_name: str | None = None
    #: None for a regression, or without a target.
    classes: np.ndarray | None = None
    #: Source of `classes`: "declared" or "data".
    classes_source: str | None = None
    #: float64, shape (n_classes,).
    class_weight: np.ndarray | None = None
    #: Declared bounds and link of a regression target.
    target_map: TargetMap | None = None
    #: The declared `Number` of the exposures by which the target is divided.
    exposure: Any = None
    #: For an encoded table, bound on the norm of the private columns of a row. It
    #: follows from the number of blocks, which have norms of at most 1. None: the bound
    #: follows from the bounds of columns, if there are any.
    private_reach: float | None = None
    #: The `Encoding`, if an encoder made the columns, and the public encoded columns.
    encoding: Any = None
    encoded: np.ndarray | csr_array | LargeTable | None = None
    #: Only for an encoded table: the block number of each category column, and -1 for
    #: every other column; int64, shape (n_features,).
    levels: np.ndarray | None = None
    #: Number of last columns that are products of columns, some of them private.
    n_products: int = 0
    #: Weights and persons of the rows; None: each row is a record with weight 1.
    units: Units | None = None
    #: Whether sample weights were passed, even if all are 1.
    is_weighted: bool = False
    #: The `Reader` of the table; it has the declarations.
    reader: Any = dataclasses.field(default=None, repr=False)
    #: Whether the rows belong to a lazy collection in partitions, such as Dask's.
    in_partitions: bool = False
    # The whole table; this class exposes only its public columns.
    _table: np.ndarray | csr_array | LargeTable | None = dataclasses.field(
        default=None, repr=False
    )
    n_features: int = computed()
    n_private: int = computed()
    #: Numbers of public and of private columns, without the last `n_products`.
    sizes: tuple[int, int] = computed()
    #: Whether the target is public.
    has_target: bool = computed()
    #: Number of classes; 0 for a regression.
    n_classes: int = computed()
    #: Number of columns of the margins.
    n_outputs: int = computed()
    #: Whether each column has declared bounds, shape (n_features,).
    bounded: np.ndarray = computed()
    #: Whether bounds are declared, and every private column has them.
    private_bounded: bool = computed()
    #: Bound on the norm of the private columns of a row, before the input scaler
    #: divides rows; infinite if unknown. The bound may be rounded, so code that uses it
    #: must also clip.
    longest_private: float = computed()
    #: The largest length of the private columns that counts. Columns without bounds are
    #: assumed to be scaled, mostly within [-2, 2].
    furthest_private: float = computed()
    #: Number of contributions for which the integers of a sum have room. A row counts
    #: as often as its integer weight in `units`. See `MOST_ROWS`.
    capacity: int = computed()
    #: Sum of the row weights in the user's units. Penalties are divided by it.
    total_weight: float = computed()
    #: Sensitivity factor: a person changes a weighted sum at most this many times as
    #: much as one row changes a plain sum.
    reach: float = computed()
    #: Effective number of records. A plain average over this many records has the same
    #: noise as the weighted average. The defaults in `skfdp.solvers.parameters` depend
    #: on this noise.
    n_effective: float = computed()
    #: Weight of each row in a sum, with total `n_records`; None: all are 1.
    shares: np.ndarray | None = computed()
    #: The privacy unit: "person", with any number of rows, or "record".
    unit: str = computed()
    #: Whether `of_public` stores some columns of sparse encoded rows as dense.
    is_narrowed: bool = computed()
    #: The `Declaration` about the table.
    declared: Any = computed()
    #: The blocks of encoded columns; empty without a schema.
    effects: tuple[Block, ...] = computed()

    def __post_init__(self):
        n_private = int((~self.mask).sum())
        n_classes = 0 if self.classes is None else len(self.classes)
        span, none = self.input_scaler.span, np.zeros(len(self.mask), dtype=bool)
        bounded = none if span is None else np.isfinite(span)
        private_bounded = span is not None and bool(bounded[~self.mask].all())
        longest = self.private_reach
        if longest is None:
            longest = math.sqrt(n_private) if private_bounded else math.inf
        n_counts, total_weight, reach = self.n_records, self.n_records, 1.0
        shares, unit, encoding = None, "record", self.encoding
        if self.units is not None:
            reach, shares, unit = self.units.reach, self.units.shares, self.units.unit
            n_counts, total_weight = int(self.units.weights.sum()), self.units.total
        vars(self).update(
            n_features=len(self.mask),
            n_private=n_private,
            sizes=(len(self.mask) - n_private, n_private - self.n_products),
            has_target=self.target is not None,
            n_classes=n_classes,
            n_outputs=1 if n_classes <= 2 else n_classes,
            bounded=bounded,
            private_bounded=private_bounded,
            longest_private=longest,
            furthest_private=longest
            if math.isfinite(longest)
            else 2 * math.sqrt(n_private),
            capacity=MOST_ROWS * n_counts,
            total_weight=total_weight,
            reach=reach,
            n_effective=self.n_records / reach,
            shares=shares,
            unit=unit,
            is_narrowed=self.sparse and encoding is not None,
            effects=() if encoding is None else tuple(encoding.encoder.blocks_),
            declared=getattr(self.reader, "declaration", None),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows; private under "add_or_remove_one"."""
        return self._table.shape[0]

    @property
    def row_shares(self) -> np.ndarray:
        """`shares` as an array; only for tables whose number of rows is public."""
        return np.ones(self.n_rows) if self.shares is None else self.shares

    @property
    def X(self) -> np.ndarray | csr_array | LargeTable:
        """The unscaled public columns, shape (n_rows, n_public)."""
        return self._table if self.mask.all() else self._table[:, self.mask]

    @functools.cached_property
    def public_scaler(self) -> InputScaler:
        """The input scaler of the public columns alone."""
        return self.input_scaler.of_public(self.mask)

    @functools.cached_property
    def mapped(self) -> LargeTable | np.ndarray | csr_array:
        """The public columns, rescaled by the input scaler, as solvers read them."""
        mask, scaler = self.mask, self.public_scaler

        def change(rows: np.ndarray | csr_array) -> np.ndarray | csr_array:
            return scaler.mapped(rows if mask.all() else rows[:, mask])

        return lazy_rows(self._table, change, int(mask.sum()), keeps=True)

    def blocks(self) -> Iterator[np.ndarray | csr_array]:
        """Yield `mapped` in blocks of rows, whose sizes depend on public columns alone.

        A sum of floats over blocks depends on these sizes. It could otherwise reveal
        how many private entries are stored.
        """
        mapped, sparse = self.mapped, self.sparse
        for block in row_blocks(mapped) if sparse else blocks(*self._table.shape):
            yield mapped[block]

    @functools.cached_property
    def kept(self) -> np.ndarray:
        """Mask of the columns that `of_public` selects.

        These are the public columns; if encoded rows are sparse, at most
        `MOST_NARROWED` with the largest variance, so that rare categories are left out.
        """
        if not self.is_narrowed:
            return self.mask
        X = self.X
        variance = np.ravel(X.multiply(X).mean(axis=0) - np.square(X.mean(axis=0)))
        order = np.argsort(-variance, kind="stable")[:MOST_NARROWED]
        kept = np.zeros(self.n_features, dtype=bool)
        kept[np.flatnonzero(self.mask)[order]] = True
        return kept

    @functools.cached_property
    def of_public(self) -> PublicRecords:
        """The table of the public columns alone, with the same values."""
        table, kept = self.X, self.kept
        if self.is_narrowed:
            table = table[:, kept[self.mask]].toarray()
        named = zip(self.columns, kept, strict=True)
        own = dataclasses.replace(
            self,
            mask=np.ones(int(kept.sum()), dtype=bool),
            input_scaler=self.input_scaler.of_public(kept)
            if self.is_narrowed
            else self.public_scaler,
            columns=tuple(name for name, is_kept in named if is_kept),
            sparse=self.sparse and not self.is_narrowed,
            private_reach=None,
            encoding=None,
            encoded=None,
            levels=None if self.levels is None else self.levels[kept],
            _table=table,
        )
        if not self.is_narrowed:  # the same rows, which are rescaled once
            vars(own)["mapped"] = self.mapped
        return own

    @functools.cached_property
    def _encoded(self) -> np.ndarray | csr_array:
        return self.encoded if self.sparse else np.asarray(self.encoded)

    def rows(self) -> np.ndarray | csr_array:
        """Return the public columns as float64: encoded, or clipped to their bounds."""
        if self.encoding is not None:
            return self._encoded
        mapped, scaler = self.mapped, self.public_scaler
        if not hasattr(mapped, "after"):
            return scaler.restored(mapped)
        return in_memory(mapped.after(scaler.restored))


@dataclasses.dataclass(frozen=True)
class Records:
    """A checked table with its public part, its input scaler and its null records.

    Notes
    -----
    **Guarantees.** Private columns are read as `integers` alone, or as codes of encoded
    columns. So a private number that changes by less than a step of the grid changes
    nothing. Exceptions are fits without privacy, and releases that find the grid: of
    bounds, and of a centre and a radius (adaptive centring).
    """

    #: Shape (n_rows, n_features); private, except for the public columns.
    X: np.ndarray | csr_array | LargeTable
    #: int64 codes of classes, or float64 numbers; private unless `public` has it.
    target: np.ndarray | None
    public: PublicRecords
    #: Private mask of the null records; None if there are none. A record is null if a
    #: private value is malformed and has no neutral replacement. A null record adds
    #: nothing to any release.
    is_null: np.ndarray | None = None
    #: Exposure of each row, above 0; private unless declared public.
    exposure: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, which may be private, and number of columns."""
        return self.X.shape

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in a file."""
        return getattr(self.X, "on_disk", False)

    def __getitem__(self, block: slice | np.ndarray) -> np.ndarray:
        """Return some complete rows of a dense table, rescaled by the input scaler."""
        public, mask = self.public, self.public.mask
        rows = self.integers.floats(block)
        if mask.any():
            rows, private = np.empty((len(rows), len(mask))), rows
            rows[:, mask], rows[:, ~mask] = public.mapped[block], private
        return public.input_scaler.shorten(rows)

    @property
    def mapped(self) -> LargeTable | np.ndarray | csr_array:
        """Complete rows, rescaled by the input scaler."""
        scaler, mask = self.public.input_scaler, self.public.mask
        if not self.public.sparse:
            known = None, np.dtype(np.float64), len(mask)
            return self.public.mapped if mask.all() else LargeTable(self, *known)
        rows = scaler.scale(self.X)
        whole = dataclasses.replace(scaler, public=None)
        own = on_grid(whole.door(self.X).data, truncates=True) * whole.reach
        values, columns, rows_of = stored_entries(rows)
        return scaler.shorten(rows_of(np.where(mask[columns], values, own)))

    @property
    def floats(self) -> LargeTable:
        """Rescaled rows of a dense table without public columns, before a grid."""
        return lazy_rows(self.X, self.public.input_scaler.mapped, self.X.shape[1])

    @functools.cached_property
    def integers(self) -> Integers | None:
        """The private columns as integers, scaled by their bounds and not centred.

        None if all columns are public. Of normalised rows, the integers are those of
        the normalised private part.
        """
        X, private = self.X, ~self.public.mask
        scaler = self.public.input_scaler.part(private)
        n_columns = int(private.sum())
        if not n_columns:
            return None
        coded = self.coded(np.ones(n_columns), private_part=True)
        if coded is not None:
            return coded

        def own(rows: np.ndarray | csr_array) -> np.ndarray | csr_array:
            return rows[:, private]

        rows = X if private.all() else lazy_rows(X, own, n_columns)
        return GridRows.build(rows, scaler.door, scale=scaler.reach, room=True)

    def taken(self) -> Integers:
        """Return `integers`, and forget them.

        Their memory may be written over, unless a query that an audit keeps has them.
        """
        found = self.integers
        del vars(self)["integers"]
        if found.room is not None and sys.getrefcount(found) > 2:
            return dataclasses.replace(found, room=None)
        return found

    def coded(
        self, factors: np.ndarray, private_part: bool = False
    ) -> CodedGridRows | None:
        """Return the rows times a factor of each column as codes, if these are faster.

        The choice between codes and columns (None) depends on public facts alone.
        """
        public, scaler = self.public, self.public.input_scaler
        if public.encoding is None or public.sparse or self.X.steps:
            return None
        # Rows, or the sums of persons, must not be divided by their norms.
        joint, source = public.units and public.units.joint, self.X.source
        usable = not (joint or scaler.shortens or scaler.normalize)
        if not usable or not source.saves(public.n_outputs):
            return None
        if private_part:
            source = source.part(~public.encoding.public_blocks, ~public.mask)
        rows, chosen = source.integers(factors), self.X.rows
        return rows if chosen is None else rows.chosen(chosen)

    def query(self, recipe: Callable, **per_row: Any) -> Any:
        """Return the query that a recipe builds from this table.

        ``recipe(records, **per_row)`` can be pickled and depends on its arguments
        alone, so it can be sent to the workers that hold the rows, with the entries of
        these rows. `per_row` are public arrays or `GridRows`, or None.
        """
        return recipe(self, **per_row)

    def of_public(self) -> Records:
        """Return the table of the public columns alone, with the same target."""
        public = self.public.of_public
        return dataclasses.replace(self, X=public.X, public=public)

    def with_target(self, change: Callable[[np.ndarray], np.ndarray]) -> Records:
        """Return the table with a changed target; `change` acts on each entry."""
        found = dataclasses.replace(self, target=change(self.target))
        if "integers" in vars(self):  # the same, which are not computed again
            vars(found)["integers"] = self.integers
        return found

    @property
    def total_weight(self) -> float:
        """Exact sum of row weights, for fits without privacy."""
        units = self.public.units
        return self.X.shape[0] if units is None else units.total

    def mapped_by(self, input_scaler: InputScaler) -> Records:
        """Return the table with another input scaler."""
        public = dataclasses.replace(self.public, input_scaler=input_scaler)
        return dataclasses.replace(self, public=public)

    def without_nulls(self) -> Records:
        """Return the table without null records, for fits without privacy."""
        if self.is_null is None:
            return self
        kept, public = ~self.is_null, self.public
        if not kept.any():
            raise ValueError(
                "no row has both a target and readable values: check how the rows were "
                "read."
            )

        def rows(values: np.ndarray | csr_array | None):
            return None if values is None else chosen_rows(values, kept)

        X, units = chosen_rows(self.X, kept), public.units
        units = None if units is None else units.kept(kept)
        public = dataclasses.replace(
            public,
            n_records=X.shape[0] if units is None else units.n_units,
            units=units,
            target=rows(public.target),
            _table=X,
        )
        return Records(X, rows(self.target), public, None, rows(self.exposure))


# The centred and scaled rows that a training loop reads.


# If the factors of two columns differ by more than this ratio, all factors are applied
# before quantisation; see `_factors`.
_MOST_APART = 64.0
# The same for rows that are kept as codes, whose levels have fewer bits than a row.
_MOST_APART_OF_CODES = 8.0
# Divisor of rows that are centred before quantisation. Integers can then represent
# entries up to 8, for rows with a usual norm of 1.
_REACH_OF_MOVED = 4.0
# Entries are clipped to this size, so that the difference of two entries is finite.
_MOST_ENTRY = 1e150
# Largest curvature of a penalty; it keeps a weight at zero without overflow.
_STEEPEST = 1e60


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """Centre and scale the rescaled rows: ``[(rescaled row - mean) * scale, bias]``.

    Solvers read these rows, and compute weights theta for them.
    """

    input_scaler: InputScaler
    #: Mean of the rescaled rows: released, or a function of public columns alone. It is
    #: rounded to the grid if rows are quantised before it is subtracted.
    mean: np.ndarray
    #: Factor of each column, public or released. The largest factor multiplies all
    #: columns after quantisation. Before quantisation, each column is multiplied by its
    #: factor divided by the largest one. If the factors differ too much, all are
    #: applied before quantisation.
    scale: float | np.ndarray
    #: Value of the constant last column, rounded to the grid; None: no intercept.
    bias: float | None
    #: Standard deviation of the noise in a private entry of `mean`.
    mean_error: float = 0.0
    #: None: rows are quantised before the mean is subtracted. A number, for dense rows
    #: only: rows are centred and scaled before quantisation, so that their entries use
    #: the whole grid. If the number is finite, rows with their constant column are also
    #: clipped to this norm.
    longest: float | None = None

    def __post_init__(self):
        before, after, is_far = _factors(self.scale, self.mean)
        bias, moves = self.bias, self.longest is not None
        if moves:
            after = _REACH_OF_MOVED
        elif not is_far:
            vars(self).update(mean=on_grid(self.mean * before) / before)
        if bias is not None and (not moves or math.isinf(self.longest)):
            bias = on_grid(bias / after)
            vars(self).update(bias=(bias if moves else max(bias, GRID)) * after)

    def grid(
        self, X: LargeTable | np.ndarray | csr_array, target: np.ndarray | None = None
    ) -> Integers:
        """Centre, scale and quantise rescaled rows; for `target` see `GridRows`."""
        before, after, is_far = _factors(self.scale, self.mean)
        # Public columns without bounds may be far from zero. So centre them first.
        first, bias = is_far and not issparse(X), self.bias
        cut = self.longest is not None and math.isfinite(self.longest)
        if self.longest is not None:
            after, first = 1.0 if cut else _REACH_OF_MOVED, True
            before = self.scale / after
        constant, n_features = [] if bias is None else [bias], X.shape[1]
        if cut:
            n_features, bias = len(self.mean) + len(constant), None

        def transform(rows):
            with np.errstate(all="ignore"):  # a warning would reveal a private value
                rows = rows - self.mean if first else rows
                if np.ndim(before) or before != 1:
                    rows = times_columns(rows, before)
            if not cut:
                return rows
            rows = np.column_stack([rows, np.tile(constant, (len(rows), 1))])
            rows = np.clip(rows, -_MOST_ENTRY, _MOST_ENTRY)
            return InputScaler(feature_bound=self.longest).mapped(rows) * self.longest

        return GridRows.build(
            X,
            transform,
            bias=bias,
            n_features=n_features,
            centre=None if first else self.mean * before,
            scale=after,
            target=target,
        )

    def of_codes(
        self, coded: Callable[[np.ndarray], CodedGridRows | None]
    ) -> CodedGridRows | None:
        """Centre and scale rows that are kept as codes; as `grid`, up to rounding.

        ``coded(factors)`` returns the rows before the input scaler, times a factor of
        each column, or None. The result is None then, and if factors differ too much.
        """
        before, after, _ = _factors(self.scale, self.mean)
        factors = np.broadcast_to(before / self.input_scaler.divisor, self.mean.shape)
        largest = float(factors.max())
        if not factors.min() * _MOST_APART_OF_CODES >= largest:
            return None
        rows = coded(factors / largest)
        if rows is None:
            return None
        return rows.moved(self.mean * before, self.bias, largest, after)

    def fold(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert weights theta to (coef, intercept) for rows ``input_scaler(X)``."""
        weights = theta[:, : len(self.mean)] * self.scale
        coef, offset = self.input_scaler.coefficients(weights)
        intercept = offset - weights @ self.mean
        if self.bias is not None:
            intercept = intercept + self.bias * theta[:, -1]
        return coef, intercept

    def pull(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the gradient in theta, given gradients in coef and intercept."""
        # fold is linear, and pull is its adjoint.
        scaler = self.input_scaler
        if scaler.span is not None:
            coef = coef - np.outer(intercept, scaler.offset)
        weights = coef / scaler.factor / scaler.divisor
        weights = (weights - np.outer(intercept, self.mean)) * self.scale
        if self.bias is None:
            return weights
        return np.column_stack([weights, self.bias * intercept])

    def penalty_curvature(self, strength: float) -> np.ndarray:
        """Return D such that ``strength / 2 * |w|**2`` is ``sum of D theta**2 / 2``.

        w are the weights of the columns scaled to [0, 1]; without bounds, w is `coef_`.
        D has one entry for each column of theta. The intercept is not penalised.
        """
        n_features = len(self.mean)
        out = np.zeros(n_features + (self.bias is not None))
        with np.errstate(all="ignore"):  # a released scale may be huge
            factor = (self.scale / self.input_scaler.divisor) ** 2
            out[:n_features] = np.minimum(strength * factor, _STEEPEST)
        return np.nan_to_num(out)


def _factors(
    scale: float | np.ndarray, mean: np.ndarray
) -> tuple[float | np.ndarray, float, bool]:
    """Return the factors of the columns before and after quantisation.

    The third value is whether the mean of a column, times the first factor, exceeds 1.
    Entries could then exceed the range of the grid, so rows must be centred first.
    """
    if np.ndim(scale) == 0:
        return 1.0, float(scale), False
    after = float(np.max(scale))
    if np.min(scale) < after / _MOST_APART:
        after = 1.0  # otherwise columns with a small factor would be rounded to zero
    before = scale / after
    return before, after, bool((np.abs(mean * before) > 1).any())


def rotated(rows: np.ndarray) -> np.ndarray:
    """Return products of rows with the normalised Hadamard matrix, its own inverse.

    Rows are padded with zeros to a power of two. Norms and distances do not change.
    With random signs of columns, large entries in few columns are spread over all.

    Notes
    -----
    **Guarantees.** Each entry is computed from its own row by additions, subtractions
    and products in a fixed order, rounded by IEEE 754. A row therefore gives the same
    bits in every block. Matrix products and transforms of libraries do not ensure this.
    """
    n_rows, width = len(rows), rotated_width(rows.shape[1])
    columns = np.zeros((width, n_rows))  # so that the terms of each sum are contiguous
    columns[: rows.shape[1]] = rows.T
    half = 1
    while half < width:
        pairs = columns.reshape(width // (2 * half), 2, half * n_rows)
        low, high = pairs[:, 0].copy(), pairs[:, 1]
        pairs[:, 0] += high
        np.subtract(low, high, out=pairs[:, 1])
        half *= 2
    return np.ascontiguousarray(columns.T) * width**-0.5


def rotated_width(n_columns: int) -> int:
    """Return the number of columns of rotated rows: the next power of two."""
    return 1 << max(0, n_columns - 1).bit_length()


def moved_rows(
    rows: Any, centre: np.ndarray, length: float = 1.0, signs: np.ndarray | None = None
) -> LargeTable:
    """Return the rows ``(rows - centre) / length``, rotated if there are `signs`.

    Notes
    -----
    **Guarantees.** A result is a function of a finite row and of public or released
    numbers. It may have infinite or NaN entries if the row is extremely large.
    """

    def change(block: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # a warning would reveal a private value
            moved = (block - centre) / length
            return moved if signs is None else rotated(moved * signs)

    width = len(centre) if signs is None else rotated_width(len(signs))
    return lazy_rows(rows, change, width)
