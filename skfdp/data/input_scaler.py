"""The input scaler: clip columns to their bounds, and scale or clip rows.

``fit`` and ``predict`` apply the same function, to dense and to CSR rows, and to each
row independently.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.data.codes import CodedGridRows
from skfdp.data.grid import (
    GRID,
    GridRows,
    Integers,
    lazy_rows,
    on_grid,
    row_blocks,
    stored_entries,
    times_columns,
    unit_of_squares,
)
from skfdp.data.sources import LargeTable
from skfdp.data.validation import check_interval
from skfdp.privacy.checks import computed, shown

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
        rows = self.mapped(X) if self.normalize else self.scale(X)
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
        ends = [np.asarray(end, dtype=np.float64) for end in (low, high)]
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
