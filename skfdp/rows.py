"""The row map and the integer grid.

The row map (declared bounds, then the norm) is one function, the same in ``fit`` and
``predict``, and acts on each row by itself. The grid holds rows as int16, so that
every sum over rows is an exact integer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

#: One grid unit of a row entry. Entries saturate at +-(2 - 2**-14).
GRID = 2.0**-14
_LARGEST = 2**15 - 1
# Blocks of about this many float64 entries bound the memory of every pass.
_BLOCK_ENTRIES = 2**18


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices that cover the rows, a bounded number of entries each."""
    size = max(16, min(4096, _BLOCK_ENTRIES // max(1, n_columns)))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


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

    def unit(self, X: np.ndarray) -> np.ndarray:
        """Return float64 rows, private part of norm at most 1 (by feature_bound).

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)

        Returns
        -------
        rows : float64 ndarray of shape (n_rows, n_features)
        """
        return self.shorten(self.scale(X))

    def shorten(self, rows: np.ndarray) -> np.ndarray:
        """Return scaled rows, divided by feature_bound and cut to norm 1."""
        if np.isinf(self.feature_bound):
            return rows
        if self.public is not None:
            rows = rows.copy()
            private = dataclasses.replace(self, public=None)
            rows[:, ~self.public] = private.shorten(rows[:, ~self.public])
            return rows
        # Powers of two are exact and keep the squares from over- and underflow.
        largest = np.abs(rows).max(axis=1, initial=0.0)
        exponent = -np.frexp(largest)[1]
        rows = np.ldexp(rows, exponent[:, None])
        norm = np.sqrt(_squared_norms(rows))
        with np.errstate(all="ignore"):  # beside a subnormal row any bound is infinite
            bound = np.ldexp(self.feature_bound, exponent)
        longest = norm if self.normalize else np.maximum(norm, bound)
        return rows / np.where(longest > 0, longest, 1.0)[:, None]

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

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the rows that `coef_` meets, in the units of X.

        ``decision_function(X) == row_map_(X) @ coef_.T + intercept_``.
        """
        rows = self.unit(X)
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

    def scale(self, X: np.ndarray) -> np.ndarray:
        """Return float64 rows with the bounds applied, columns in [0, 1]."""
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


def _squared_norms(rows: np.ndarray) -> np.ndarray:
    """Return the squared norm of each row, the same in whatever block it stands."""
    if len(rows) == 1:
        # Alone, a long row would be summed in another order than among others.
        return _squared_norms(np.vstack([rows, np.zeros_like(rows)]))[:1]
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
                f"bounds={bounds!r} must be finite; name only the bounded columns in a "
                "mapping to leave others as they are."
            )
    if not (low < high).all():
        raise ValueError(f"bounds={bounds!r} must satisfy low < high in every column.")
    return np.where(np.isfinite(low), low, 0.0), high - low


def _pair(value: Any, name: str) -> tuple:
    try:
        low, high = value
        np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}={value!r} must be a pair (low, high) of numbers or arrays, or a "
            "mapping from column names to such pairs; False declares none."
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


def on_grid(value: float) -> float:
    """Return the value as the grid holds it."""
    return round(value / GRID) * GRID


@dataclasses.dataclass(frozen=True)
class GridRows:
    """Rows as integers: ``values * GRID`` are the rows that the kernels see.

    Attributes
    ----------
    values : int16 ndarray of shape (n_rows, n_columns)
    squared_norms : float64 ndarray of shape (n_rows,)
        Exact integers, in squared grid units.
    """

    values: np.ndarray
    squared_norms: np.ndarray

    @classmethod
    def build(
        cls,
        X: np.ndarray,
        transform: Callable[[np.ndarray], np.ndarray],
        *,
        bias: float | None = None,
        n_features: int | None = None,
    ) -> GridRows:
        """Map, saturate and quantise the rows of X toward zero, block by block.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features), any numeric dtype
        transform : callable
            Acts on each row by itself; float64 rows in the loop's coordinates.
        bias : float, default=None
            Value of a constant last column; None adds none.
        n_features : int, default=None
            Columns that `transform` returns; None means those of X.
        """
        n_rows = len(X)
        n_features = X.shape[1] if n_features is None else n_features
        n_columns = n_features + (bias is not None)
        values = np.empty((n_rows, n_columns), dtype=np.int16)
        squared_norms = np.empty(n_rows)
        for block in blocks(n_rows, n_features):
            scaled = np.clip(transform(X[block]) / GRID, -_LARGEST, _LARGEST)
            values[block, :n_features] = np.trunc(scaled, out=scaled)
            if bias is not None:
                values[block, n_features] = round(bias / GRID)
            # Integers below 2**53: exact in float64, whatever the order of the sum.
            integers = values[block].astype(np.float64)
            squared_norms[block] = np.einsum("ij,ij->i", integers, integers)
        return cls(values, squared_norms)
