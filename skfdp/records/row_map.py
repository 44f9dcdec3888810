"""The row map: declared bounds, then a public divisor, or a norm.

It is one function, the same in ``fit`` and ``predict``, for dense and for CSR rows, and
acts on each row by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.records.blocks import (
    _with_data,
    blocks,
    row_of_entries,
    unit_of_squares,
)
from skfdp.records.checks import check_interval, shown
from skfdp.records.grid import times_columns
from skfdp.records.large import LargeTable


@dataclasses.dataclass(frozen=True)
class RowMap:
    """The row map: bounds, then a divisor, or a norm.

    The map of a linear model shortens no row (`shortens` is False), unless rows are to
    be normalised: it cuts values outside the bounds and nothing else, and predictions
    are linear in X within them. Its rows may be longer than 1, so each query bounds
    what a record contributes. Networks, completion and centring shorten rows.

    Attributes
    ----------
    low, span : ndarray of shape (n_features,) or None
        Columns become ``clip(x - low, 0, span) / span``; an infinite span leaves the
        column as it is. None: no declared bounds.
    feature_bound : float
        What rows are divided by after the bounds. Where the map shortens rows it is
        their L2 bound, and longer ones are scaled back to it. In a linear model it is
        not the parameter of that name but 1, or 8 if columns have no bounds. Infinite:
        rows keep their length, undivided.
    normalize : bool
        Scale every non-zero row to the norm `feature_bound` exactly.
    public : bool ndarray of shape (n_features,) or None
        Public columns beside private ones. They are left out of the norm and keep
        their scale: a norm of the whole row would mix private values into them.
    shortens : bool
        Whether rows longer than `feature_bound` are scaled back to it.
    """

    low: np.ndarray | None = None
    span: np.ndarray | None = None
    feature_bound: float = 1.0
    normalize: bool = False
    public: np.ndarray | None = None
    shortens: bool = True

    def filled(
        self, X: np.ndarray | csr_array | LargeTable
    ) -> tuple[np.ndarray | csr_array | LargeTable, np.ndarray | None]:
        """Return rows whose numbers are finite, and which have none to stand in.

        Parameters
        ----------
        X : ndarray, csr_array or LargeTable of shape (n_rows, n_features)

        Returns
        -------
        X : ndarray, csr_array or LargeTable of shape (n_rows, n_features)
            NaN and infinity replaced by the middle of their declared bounds, by 0 where
            there are none. The table given, if that has only finite numbers.
        void : bool ndarray of shape (n_rows,) or None
            The rows that had one in a column without bounds; None: no row had.
        """
        if isinstance(X, LargeTable):
            return self._filled_table(X)
        values = X.data if issparse(X) else X
        if values.dtype.kind != "f" or _all_finite(values):
            return X, None
        wrong = ~np.isfinite(values)
        if issparse(X):
            row, column = row_of_entries(X)[wrong], X.indices[wrong]
        else:
            row, column = np.nonzero(wrong)
        middle, bounded = self._stand_ins(X.shape[1], values.dtype)
        values = values.copy()
        values[wrong] = middle[column]
        void = np.zeros(X.shape[0], dtype=bool)
        void[row[~bounded[column]]] = True
        rows = _with_data(X, values) if issparse(X) else values
        return rows, void if void.any() else None

    def _stand_ins(
        self, n_columns: int, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what stands for what is not finite, and which columns have bounds."""
        span = np.full(n_columns, np.inf) if self.span is None else self.span
        middle = np.zeros(n_columns)
        bounded = np.isfinite(span)
        if bounded.any():
            middle[bounded] = self.low[bounded] + span[bounded] / 2
        largest = np.finfo(dtype).max  # of float32 that is below some bounds
        return np.clip(middle, -largest, largest), bounded

    def _filled_table(self, X: LargeTable) -> tuple[LargeTable, np.ndarray | None]:
        """Return a large table whose blocks are filled as they are read.

        That they are does not depend on what the table holds.
        """
        if X.dtype.kind != "f":
            return X, None
        middle, bounded = self._stand_ins(X.shape[1], X.dtype)
        middle = middle.astype(X.dtype)
        void = np.zeros(len(X), dtype=bool)
        for block in blocks(*X.shape) if not bounded.all() else ():
            wrong = ~np.isfinite(X[block])
            void[block] = wrong[:, ~bounded].any(axis=1)

        def fill(rows: np.ndarray) -> np.ndarray:
            return np.where(np.isfinite(rows), rows, middle)

        return X.after(fill), void if void.any() else None

    def mapped(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return float64 rows, their private part at most 1 long if they are shortened.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_rows, n_features)
            Finite, as `filled` returns it. CSR in canonical form, and every low of the
            bounds 0: see `check_sparse`.

        Returns
        -------
        rows : float64 ndarray or csr_array of shape (n_rows, n_features)
            The same numbers for dense and CSR rows, to the last bit.
        """
        return self.shorten(self.scale(X))

    def shorten(self, rows: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return scaled rows over feature_bound, cut to norm 1 if the map shortens."""
        if np.isinf(self.feature_bound):
            return rows
        if not (self.shortens or self.normalize):
            return self._divided(rows)
        if issparse(rows):
            data = rows.data.copy()
            row, chosen = row_of_entries(rows), slice(None)
            if self.public is not None:
                chosen = ~self.public[rows.indices]
            width = rows.shape[1] if self.public is None else int((~self.public).sum())
            data[chosen] = self._short(data[chosen], row[chosen], rows.shape[0], width)
            return _with_data(rows, data)
        if self.public is not None:
            rows = rows.copy()
            private = dataclasses.replace(self, public=None)
            rows[:, ~self.public] = private.shorten(rows[:, ~self.public])
            return rows
        # numba loads with the first fit, not with `import skfdp`.
        from skfdp.kernels.rows import shorten

        out = np.empty(rows.shape)
        unit = unit_of_squares(rows.shape[1])
        shorten(rows, float(self.feature_bound), self.normalize, unit, out)
        return out

    def _divided(self, rows: np.ndarray | csr_array) -> np.ndarray | csr_array:
        if np.isscalar(self.divisor) and self.divisor == 1:
            return rows
        return times_columns(rows, np.broadcast_to(1 / self.divisor, rows.shape[1]))

    def within(self, length: float) -> RowMap:
        """Return the map that divides rows by `length` and cuts them to norm 1."""
        return dataclasses.replace(self, feature_bound=length, shortens=True)

    def of_public(self, public: np.ndarray) -> RowMap:
        """Return the map of the public columns alone; none of the others enters."""
        if public.all():
            return self
        return dataclasses.replace(
            self.part(public), feature_bound=np.inf, normalize=False
        )

    def _short(
        self, values: np.ndarray, row: np.ndarray, n_rows: int, n_columns: int
    ) -> np.ndarray:
        """Return stored entries, each with its row, as `row_kernels.shorten` does."""
        # Powers of two are exact and keep the squares from over- and underflow. Beside
        # a subnormal row any bound is infinite, and beside a long one small entries
        # vanish: a warning would tell of private values.
        with np.errstate(all="ignore"):
            largest = np.zeros(n_rows)
            np.maximum.at(largest, row, np.abs(values))
            exponent = -np.frexp(largest)[1]
            scaled = values * np.ldexp(1.0, exponent.clip(-999, 999))[row]
            extreme = np.abs(exponent) > 999  # beyond float64 as one factor
            if extreme.any():
                rest = np.ldexp(1.0, exponent - exponent.clip(-999, 999))
                scaled *= rest[row]
            # Squares are rounded up to a multiple of 2**(bits - 52), n_columns being
            # below 2**bits. Their sums are exact, hence the same in any order: dense
            # or sparse, and in whatever block a row stands.
            unit = unit_of_squares(n_columns)
            squares = scaled * scaled
            squares *= unit
            np.ceil(squares, out=squares)
            norm = np.sqrt(np.bincount(row, squares, minlength=n_rows) / unit)
            bound = np.ldexp(self.feature_bound, exponent)
            longest = norm if self.normalize else np.maximum(norm, bound)
            return scaled / np.where(longest > 0, longest, 1.0)[row]

    def __call__(self, X: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return the rows that `coef_` meets, in the units of X.

        ``decision_function(X) == row_map_(X) @ coef_.T + intercept_``. Where no row is
        shortened or normalised, they differ from X outside the bounds alone, and where
        a number is missing or infinite: see `filled`.
        """
        X = X if issparse(X) else np.asarray(X)
        return self.restored(self.mapped(self.filled(X)[0]))

    def restored(self, rows: np.ndarray | csr_array) -> np.ndarray | csr_array:
        """Return mapped rows in the units of X; the rows given are left as they are."""
        if issparse(rows):
            return times_columns(rows, np.broadcast_to(self._units(), rows.shape[1]))
        rows = rows.copy() if np.isinf(self.feature_bound) else rows * self.divisor
        if self.span is None:
            return rows
        finite = np.isfinite(self.span)
        rows[:, finite] *= self.span[finite]
        return rows + self._offset()

    def part(self, columns: np.ndarray) -> RowMap:
        """Return the map of some columns, as if they were the whole row."""
        own = dataclasses.replace(self, public=None)
        if self.span is None:
            return own
        low, span = self.low[columns], self.span[columns]
        return dataclasses.replace(own, low=low, span=span)

    def coefficients(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Translate weights on mapped rows into weights on ``self(X)`` and an offset.

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
        """Return the gradient in weights on mapped rows; adjoint of coefficients."""
        if self.span is not None:
            moved = coef - np.outer(intercept, self._offset())
            coef = moved / np.where(np.isfinite(self.span), self.span, 1.0)
        return coef if np.isinf(self.feature_bound) else coef / self.divisor

    @property
    def divisor(self) -> float | np.ndarray:
        """What `mapped` divides the columns by, where rows are not cut."""
        if self.public is None or np.isinf(self.feature_bound):
            return self.feature_bound
        return np.where(self.public, 1.0, self.feature_bound)

    def _offset(self) -> np.ndarray:
        return np.where(np.isfinite(self.span), self.low, 0.0)

    def _units(self) -> float | np.ndarray:
        """Return what turns the columns of `mapped` into those of X, low being 0."""
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


def _all_finite(values: np.ndarray) -> bool:
    """Whether all numbers are finite, without a mask of the size of the table."""
    width = 1 if values.ndim == 1 else values.shape[1]
    return all(np.isfinite(values[b]).all() for b in blocks(len(values), width))


def resolve_bounds(
    bounds: Any, n_features: int, names: Sequence[str] | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return (low, span) of the declared bounds, or (None, None)."""
    if bounds is None or bounds is False:
        return None, None
    if isinstance(bounds, str):
        raise ValueError(
            f"bounds={shown(bounds)} must be a pair (low, high), a mapping or False; "
            "bounds='private' is for the linear estimators, others take the result of "
            "private_bounds."
        )
    if isinstance(bounds, Mapping):
        low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
        for name, pair in bounds.items():
            index = _column(name, n_features, names)
            low[index], high[index] = _scalars(pair, f"bounds[{name!r}]")
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
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name}={shown(value)} must be a pair (low, high) of numbers or arrays, "
            "or a mapping from column names to such pairs; False declares none."
        ) from None
    return low, high


def _scalars(value: Any, name: str) -> tuple[float, float]:
    """Return a pair for one column."""
    pair = tuple(np.asarray(side, dtype=float) for side in _pair(value, name))
    if any(side.size != 1 for side in pair):
        raise ValueError(
            f"{name}={shown(value)} must be a pair (low, high) of two numbers: it is "
            "for one column."
        )
    low, high = (float(side.item()) for side in pair)
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
