"""The row map and the integer grid.

The row map (declared bounds, then the norm) is one function, the same in ``fit`` and
``predict``, for dense and for CSR rows, and acts on each row by itself. The grid holds
rows as int16, so that every sum over rows is an exact integer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.addresses import public
from skfdp.checks import check_interval, shown

#: One grid unit of a row entry. Entries saturate at +-(2 - 2**-14).
GRID = 2.0**-14
_LARGEST = 2**15 - 1
# Blocks of about this many float64 entries bound the memory of every pass.
_BLOCK_ENTRIES = 2**17


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices that cover the rows, a bounded number of entries each."""
    size = max(16, min(4096, _BLOCK_ENTRIES // max(1, n_columns)))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def row_blocks(X: np.ndarray | csr_array) -> Iterator[slice]:
    """Yield slices that cover the rows, a bounded number of stored entries each."""
    width = math.ceil(X.nnz / max(1, X.shape[0])) if issparse(X) else X.shape[1]
    return blocks(X.shape[0], width)


@public("skfdp")
@dataclasses.dataclass(frozen=True)
class RowMap:
    """Bounds, then the norm: what happens to a row before anything else.

    Attributes
    ----------
    low, span : ndarray of shape (n_features,) or None
        Columns become ``clip(x - low, 0, span) / span``; an infinite span leaves the
        column as it is. None: no declared bounds.
    feature_bound : float
        L2 bound of a row after the bounds; longer rows are scaled back. Infinite:
        rows keep their length.
    normalize : bool
        Scale every non-zero row to the norm `feature_bound` exactly.
    public : bool ndarray of shape (n_features,) or None
        Public columns beside private ones. They are left out of the norm and keep
        their scale: a norm of the whole row would mix private values into them.
    """

    low: np.ndarray | None = None
    span: np.ndarray | None = None
    feature_bound: float = 1.0
    normalize: bool = False
    public: np.ndarray | None = None

    def unit(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return float64 rows, private part of norm at most 1 (by feature_bound).

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_rows, n_features)
            CSR in canonical form, and every low of the bounds 0: see `check_sparse`.

        Returns
        -------
        rows : float64 ndarray or csr_array of shape (n_rows, n_features)
            The same numbers for dense and CSR rows, to the last bit.
        """
        return self.shorten(self.scale(X))

    def shorten(self, rows: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return scaled rows, divided by feature_bound and cut to norm 1."""
        if np.isinf(self.feature_bound):
            return rows
        if issparse(rows):
            data = rows.data.copy()
            row, chosen = _row_of_entries(rows), slice(None)
            if self.public is not None:
                chosen = ~self.public[rows.indices]
            width = rows.shape[1] if self.public is None else int((~self.public).sum())
            entries = _Entries(data[chosen], rows.shape[0], width, row[chosen])
            data[chosen] = self._short(entries)
            return _with_data(rows, data)
        if self.public is not None:
            rows = rows.copy()
            private = dataclasses.replace(self, public=None)
            rows[:, ~self.public] = private.shorten(rows[:, ~self.public])
            return rows
        # numba loads with the first fit, not with `import skfdp`.
        from skfdp.row_kernels import shorten

        out = np.empty(rows.shape)
        unit = _unit_of_squares(rows.shape[1])
        shorten(rows, float(self.feature_bound), self.normalize, unit, out)
        return out

    def of_public(self, public: np.ndarray) -> RowMap:
        """Return the map of the public columns alone; none of the others enters."""
        if public.all():
            return self
        bounded = self.span is not None
        return RowMap(
            self.low[public] if bounded else None,
            self.span[public] if bounded else None,
            feature_bound=np.inf,
        )

    def _short(self, rows: _Entries) -> np.ndarray:
        # Powers of two are exact and keep the squares from over- and underflow. Beside
        # a subnormal row any bound is infinite, and beside a long one small entries
        # vanish: a warning would tell of private values.
        with np.errstate(all="ignore"):
            exponent = -np.frexp(rows.largest())[1]
            scaled = rows.values * rows.spread(np.ldexp(1.0, exponent.clip(-999, 999)))
            extreme = np.abs(exponent) > 999  # beyond float64 as one factor
            if extreme.any():
                rest = np.ldexp(1.0, exponent - exponent.clip(-999, 999))
                scaled *= rows.spread(rest)
            norm = np.sqrt(dataclasses.replace(rows, values=scaled).squared_norms())
            bound = np.ldexp(self.feature_bound, exponent)
            longest = norm if self.normalize else np.maximum(norm, bound)
            return scaled / rows.spread(np.where(longest > 0, longest, 1.0))

    def __call__(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return the rows that `coef_` meets, in the units of X.

        ``decision_function(X) == row_map_(X) @ coef_.T + intercept_``.
        """
        rows = self.unit(X)
        if issparse(rows):
            return times_columns(rows, np.broadcast_to(self._units(), X.shape[1]))
        if np.isinf(self.feature_bound):
            rows = rows.copy() if rows is X else rows
        else:
            rows *= self.divisor
        if self.span is None:
            return rows
        finite = np.isfinite(self.span)
        rows[:, finite] *= self.span[finite]
        return rows + self._offset()

    def coefficients(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Translate weights on unit rows into weights on ``self(X)`` and an offset.

        Parameters
        ----------
        weights : ndarray of shape (n_outputs, n_features)

        Returns
        -------
        coef : ndarray of shape (n_outputs, n_features)
        offset : ndarray of shape (n_outputs,)
            To be added to the intercept.
        """
        if not np.isinf(self.feature_bound):
            weights = weights / self.divisor
        if self.span is None:
            return weights, np.zeros(len(weights))
        coef = weights / np.where(np.isfinite(self.span), self.span, 1.0)
        return coef, -coef @ self._offset()

    def pull(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the gradient in the weights on unit rows; adjoint of coefficients."""
        if self.span is not None:
            moved = coef - np.outer(intercept, self._offset())
            coef = moved / np.where(np.isfinite(self.span), self.span, 1.0)
        return coef if np.isinf(self.feature_bound) else coef / self.divisor

    @property
    def divisor(self) -> float | np.ndarray:
        """What `unit` divided the columns by, apart from long rows."""
        if self.public is None or np.isinf(self.feature_bound):
            return self.feature_bound
        return np.where(self.public, 1.0, self.feature_bound)

    def _offset(self) -> np.ndarray:
        return np.where(np.isfinite(self.span), self.low, 0.0)

    def _units(self) -> float | np.ndarray:
        """Return what turns the columns of `unit` into those of X, low being 0."""
        divisor = 1.0 if np.isinf(self.feature_bound) else self.divisor
        if self.span is None:
            return divisor
        return divisor * np.where(np.isfinite(self.span), self.span, 1.0)

    def check_sparse(self) -> None:
        """Raise ValueError where the map would turn zeros into something else."""
        if self.span is not None and self._offset().any():
            raise ValueError(
                "bounds must have low == 0 in every column of a sparse X, so that "
                "zeros stay zeros: declare (0, high), or bounds=False with columns "
                "scaled before, or pass a dense X."
            )

    def scale(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return float64 rows with the bounds applied, columns in [0, 1]."""
        if issparse(X):
            data = X.data.astype(np.float64)
            if self.span is not None:
                span = self.span[X.indices]
                bounded = np.isfinite(span)
                with np.errstate(all="ignore"):
                    data[bounded] = np.clip(data[bounded] / span[bounded], 0.0, 1.0)
            return _with_data(X, data)
        # C order: a reduction over the columns of an F-ordered block sums in an order
        # that depends on the block, and a row must not.
        X = np.asarray(X, dtype=np.float64, order="C")
        if self.span is None:
            return X
        finite = np.isfinite(self.span)
        with np.errstate(all="ignore"):  # a warning would tell of a private value
            if finite.all():
                return np.clip((X - self.low) / self.span, 0.0, 1.0)
            rows = X.copy()
            low, span = self.low[finite], self.span[finite]
            rows[:, finite] = np.clip((X[:, finite] - low) / span, 0.0, 1.0)
        return rows


@dataclasses.dataclass(frozen=True)
class _Entries:
    """Entries of dense rows, or the stored entries of sparse ones.

    Attributes
    ----------
    values : float64 ndarray of shape (n_rows, n_columns), or (n_stored,)
    n_rows, n_columns : int
    row : int64 ndarray of shape (n_stored,), default=None
        Row of each stored entry; None where the rows are dense.
    """

    values: np.ndarray
    n_rows: int
    n_columns: int
    row: np.ndarray | None = None

    def spread(self, by_row: np.ndarray) -> np.ndarray:
        """Return one number per row in a shape that meets `values`."""
        return by_row[:, None] if self.row is None else by_row[self.row]

    def largest(self) -> np.ndarray:
        """Return the largest absolute entry of each row."""
        if self.row is None:
            return np.abs(self.values).max(axis=1, initial=0.0)
        out = np.zeros(self.n_rows)
        np.maximum.at(out, self.row, np.abs(self.values))
        return out

    def squared_norms(self) -> np.ndarray:
        """Return the squared norm of each row of entries below 1, rounded up.

        The squares are rounded up to a multiple of ``2**(bits - 52)``, n_columns being
        below ``2**bits``. Their sums are exact, hence the same in any order: dense or
        sparse, and in whatever block a row stands.
        """
        unit = _unit_of_squares(self.n_columns)
        squares = self.values * self.values
        squares *= unit
        np.ceil(squares, out=squares)
        if self.row is None:
            return squares.sum(axis=1) / unit
        return np.bincount(self.row, squares, minlength=self.n_rows) / unit


def _unit_of_squares(n_columns: int) -> float:
    """Return the unit of squares of entries below 1 that makes their sums exact."""
    return 2.0 ** (52 - int(n_columns).bit_length())


def _row_of_entries(X: csr_array) -> np.ndarray:
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def _with_data(X: csr_array, data: np.ndarray) -> csr_array:
    """Return a CSR array with the pattern of X and other numbers."""
    return csr_array((data, X.indices, X.indptr), shape=X.shape)


def squared_norms(rows: np.ndarray) -> np.ndarray:
    """Return the squared norm of each row, the same in whatever block it stands."""
    if len(rows) == 1:
        # Alone, a long row would be summed in another order than among others.
        return squared_norms(np.vstack([rows, np.zeros_like(rows)]))[:1]
    rows = np.ascontiguousarray(rows)
    return np.einsum("ij,ij->i", rows, rows)


def resolve_bounds(
    bounds: Any, n_features: int, names: Sequence[str] | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return (low, span) of the declared bounds, or (None, None)."""
    if bounds is None or bounds is False:
        return None, None
    if isinstance(bounds, Mapping):
        low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
        for name, pair in bounds.items():
            index = _column(name, n_features, names)
            low[index], high[index] = _pair(pair, f"bounds[{name!r}]")
    else:
        pair = _pair(bounds, "bounds")
        low, high = (np.asarray(side, dtype=np.float64) for side in pair)
        if low.ndim > 1 or high.ndim > 1 or {low.size, high.size} - {1, n_features}:
            raise ValueError(
                f"bounds has sides of {low.size} and {high.size} entries, but X has "
                f"{n_features} columns: give scalars or one entry per column."
            )
        low = np.broadcast_to(low, n_features).copy()
        high = np.broadcast_to(high, n_features).copy()
        if not np.isfinite(low).all() or not np.isfinite(high).all():
            raise ValueError(
                f"bounds={shown(bounds)} must be finite; name only the bounded columns "
                "in a mapping to leave others as they are."
            )
    if not (low < high).all():
        raise ValueError(
            f"bounds={shown(bounds)} must satisfy low < high in every column."
        )
    finite = np.isfinite(low) & np.isfinite(high)
    check_interval("bounds", bounds, low[finite], high[finite])
    return np.where(np.isfinite(low), low, 0.0), high - low


def _pair(value: Any, name: str) -> tuple:
    try:
        # A frame would be read by the labels of its columns, a mapping by its keys.
        low, high = (
            None if isinstance(value, dict) or hasattr(value, "columns") else value
        )
        np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}={shown(value)} must be a pair (low, high) of numbers or arrays, "
            "or a mapping from column names to such pairs; False declares none."
        ) from None
    return low, high


def _column(name: Any, n_features: int, names: Sequence[str] | None) -> int:
    if isinstance(name, str):
        if names is None:
            raise ValueError(
                f"bounds names the column {name!r}, but X has no column names: pass a "
                "DataFrame or use indices as keys."
            )
        if name in (known := list(names)):
            return known.index(name)
    elif isinstance(name, (int, np.integer)) and -n_features <= name < n_features:
        return int(name)
    raise ValueError(f"bounds names the column {name!r}, which X does not have.")


def on_grid(value: float | np.ndarray) -> float | np.ndarray:
    """Return the value as the grid holds it."""
    return np.clip(np.rint(value / GRID), -_LARGEST, _LARGEST) * GRID


def times_columns(
    rows: np.ndarray | csr_array, factor: np.ndarray
) -> np.ndarray | csr_array:
    """Multiply each column by its factor; CSR rows keep their pattern."""
    with np.errstate(all="ignore"):  # a warning would tell of a private value
        if not issparse(rows):
            return rows * factor
        return _with_data(rows, rows.data * factor[rows.indices])


@dataclasses.dataclass(frozen=True)
class GridRows:
    """Rows as integers: ``values * unit`` are the rows that the kernels see.

    Attributes
    ----------
    values : int16 ndarray of shape (n_rows, n_columns)
        Quantised row minus quantised centre.
    squared_norms : float64 ndarray of shape (n_rows,)
        Exact integers, in squared grid units.
    scale : float
        Public factor of every entry.
    """

    values: np.ndarray
    squared_norms: np.ndarray
    scale: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.values.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns, the constant one included."""
        return self.values.shape[1]

    @property
    def stored_per_row(self) -> int:
        """Entries that a product reads of a row, at least 1."""
        return self.n_columns

    @property
    def unit(self) -> float:
        """What one integer stands for."""
        return GRID * self.scale

    @classmethod
    def build(
        cls,
        X: np.ndarray,
        transform: Callable[[np.ndarray], np.ndarray],
        *,
        bias: float | None = None,
        n_features: int | None = None,
        centre: np.ndarray | None = None,
        scale: float = 1.0,
    ) -> GridRows | SparseGridRows:
        """Map, quantise and centre the rows of X, block by block.

        An entry is truncated toward zero, then the rounded centre is subtracted. Both
        are integers, so it does not matter whether the difference is stored (dense) or
        never formed (CSR). Entries saturate where the difference would leave int16.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_rows, n_features), any numeric dtype
            CSR in canonical form.
        transform : callable
            Acts on each row by itself; float64 rows. It keeps the pattern of CSR rows.
        bias : float, default=None
            Value of a constant last column, after `scale`; None adds none.
        n_features : int, default=None
            Columns that `transform` returns; None means those of X.
        centre : ndarray of shape (n_features,), default=None
            Public or released; subtracted from the transformed rows. None: zero.
        scale : float
            Factor of the centred rows.

        Returns
        -------
        rows : GridRows, or SparseGridRows for CSR input
        """
        n_rows = X.shape[0]
        n_features = X.shape[1] if n_features is None else n_features
        low, high, centre = _limits(centre, n_features)
        constant = [] if bias is None else [round(bias / (GRID * scale))]
        if issparse(X):
            shift = np.append(centre, np.negative(constant)).astype(np.int64)
            return SparseGridRows.quantised(X, transform, low, high, shift, scale)
        values = np.empty((n_rows, n_features + len(constant)), dtype=np.int16)
        squared_norms = np.empty(n_rows)
        for block in blocks(n_rows, n_features):
            entries = np.trunc(transform(X[block]) / GRID)
            np.clip(entries, low, high, out=entries)
            values[block, :n_features] = np.subtract(entries, centre, out=entries)
            values[block, n_features:] = constant
            # Integers below 2**53: exact in float64, whatever the order of the sum.
            integers = values[block].astype(np.float64)
            squared_norms[block] = np.einsum("ij,ij->i", integers, integers)
        return cls(values, squared_norms, scale)


@dataclasses.dataclass(frozen=True)
class SparseGridRows:
    """CSR rows as integers minus a dense vector: ``(x - shift) * unit``.

    The difference is never formed. It equals the row that `GridRows` would store, in
    exact integers.

    Attributes
    ----------
    data : int16 ndarray of shape (n_stored,)
    indices : int32 ndarray of shape (n_stored,)
    indptr : int64 ndarray of shape (n_rows + 1,)
    shift : int64 ndarray of shape (n_columns,)
        The quantised centre; its last entry is minus the constant column, if any.
    squared_norms : float64 ndarray of shape (n_rows,)
        Of x - shift: exact integers, in squared grid units.
    scale : float
        Public factor of every entry.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shift: np.ndarray
    squared_norms: np.ndarray
    scale: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_columns(self) -> int:
        """Number of columns, the constant one included."""
        return len(self.shift)

    @property
    def stored_per_row(self) -> int:
        """Entries that a product reads of a row on average, at least 1."""
        return max(1, len(self.data) // max(1, self.n_rows))

    @property
    def unit(self) -> float:
        """What one integer stands for."""
        return GRID * self.scale

    @classmethod
    def quantised(cls, X, transform, low, high, shift, scale) -> SparseGridRows:
        """Map and quantise CSR rows; see `GridRows.build`."""
        data = np.empty(X.nnz, dtype=np.int16)
        squared_norms = np.empty(X.shape[0])
        far = float(shift @ shift)
        for block in row_blocks(X):
            rows = transform(X[block])
            entries = np.trunc(rows.data / GRID)
            np.clip(entries, low[rows.indices], high[rows.indices], out=entries)
            data[X.indptr[block.start] : X.indptr[block.stop]] = entries
            # |x|**2 - 2 x.shift + |shift|**2; every term an integer below 2**53.
            terms = entries * (entries - 2 * shift[rows.indices])
            n_rows = block.stop - block.start
            products = np.bincount(_row_of_entries(rows), terms, minlength=n_rows)
            squared_norms[block] = products + far
        indptr = X.indptr.astype(np.int64)
        indices = X.indices.astype(np.int32, copy=False)
        return cls(data, indices, indptr, shift, squared_norms, scale)


def _limits(
    centre: np.ndarray | None, n_features: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (low, high) of an entry, and the centre, in grid units.

    Zero lies within, and the difference of an entry and the centre fits into int16.
    """
    if centre is None:
        centre = np.zeros(n_features)
    # NaN as an integer would be -2**63, and sums would wrap.
    centre = np.nan_to_num(np.rint(centre / GRID))
    centre = np.clip(centre, -_LARGEST, _LARGEST)
    low = np.maximum(-_LARGEST, centre - _LARGEST)
    return low, np.minimum(_LARGEST, centre + _LARGEST), centre
