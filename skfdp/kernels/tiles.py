"""Compiled products of the linear query, for rows of any length.

Every product and sum is an integer below 2**53 in float64, and therefore exact in any
order. Tiles, threads, blocks and fused multiply-adds cannot change a bit of the result.
So the fastmath flag ``reassoc`` is allowed. ``nnan`` and ``ninf`` are not allowed.

Shapes: X int16 (n, W) holds the rows in the first D of W columns; rows int64 (B,) is
the batch; theta float64 (K, D) holds integers; residuals float64 (K, B). Output arrays
come last.
"""

import math

import numpy as np

from skfdp.kernels.compiling import REORDER, kernel, shared, twin_of
from skfdp.kernels.contributions import call_contribution
from skfdp.kernels.vectors import WIDTH

#: Residuals have 29 bits and rows 15 bits, so sums of so many products are below 2**53.
EXACT_ROWS = 512


@kernel(fastmath={"reassoc"})
def _sum_of_integers(integers):
    """Return the sum of integers, which is exact in any order."""
    total = 0.0
    for j in range(integers.shape[0]):
        total += integers[j]
    return total


@kernel(fastmath={"nnan", "nsz"})
def _largest_of(row):
    """Return the largest absolute entry of a finite row."""
    largest = 0.0
    for j in range(row.shape[0]):
        size = abs(row[j])
        largest = size if size > largest else largest
    return largest


@shared
def _unit_of_squares(n_columns):
    """Return the factor by which squares below 1 become integers with an exact sum."""
    return math.ldexp(1.0, 52 - math.frexp(float(n_columns))[1])


@kernel()
def _round_weights(theta, n_columns, out):
    largest = longest = 0.0
    for k in range(theta.shape[0]):
        largest = max(largest, _largest_of(theta[k]))
    size = math.frexp(largest)[1]
    exponent = size if size > -1000 else -1000  # so that the factor is finite
    factor, further = math.ldexp(1.0, -exponent), math.ldexp(1.0, exponent - size)
    unit, squares = _unit_of_squares(theta.shape[1]), np.empty(theta.shape[1])
    for k in range(theta.shape[0]):
        for j in range(theta.shape[1]):
            scaled = theta[k, j] * factor * further
            squares[j] = np.ceil(scaled * scaled * unit)
        longest = max(longest, _sum_of_integers(squares))
    bits = min(16 - math.frexp(math.sqrt(longest / unit))[1], 15) - size
    # 2**bits might exceed float64. Saturation between two products keeps them apart.
    second = math.ldexp(1.0, bits + exponent)
    most = 32767.0 / second
    wider = out.shape[1] - n_columns
    rest = out.shape[1] - WIDTH if wider > 0 else theta.shape[1]
    for k in range(theta.shape[0]):
        for last in range(2):
            stop, moved = (theta.shape[1], wider) if last else (rest, 0)
            for j in range(last * rest, stop):
                scaled = theta[k, j] * factor
                scaled = most if scaled > most else scaled
                scaled = -most if scaled < -most else scaled
                out[k, j + moved] = np.rint(scaled * second)
    return bits


@twin_of(_round_weights)
def round_weights(theta, n_columns, out):
    """Write theta * 2**bits, rounded to integers, to out, and return bits.

    `bits` is the largest exponent for which the entries stay below 2**15 and each
    output's norm below 2**16. The norms are those of squares that are rounded up, so
    that their sums are exact in any order. Rounded entries saturate at 2**15 - 1. theta
    must be finite.

    out may have any type. `n_columns` is the number of columns of a row in memory. If
    out has more columns, rows are read in tiles of `WIDTH` columns. The last tile of
    out then holds the weights of the last `WIDTH` columns in memory, except those that
    an earlier tile holds. Other entries of out are not written.
    """
    size = math.frexp(np.abs(theta).max(initial=0.0))[1]
    exponent = max(size, -1000)
    scaled = theta * math.ldexp(1.0, -exponent)
    unit, entries = _unit_of_squares(theta.shape[1]), scaled * 2.0 ** (exponent - size)
    longest = np.ceil(entries * entries * unit).sum(axis=1).max(initial=0.0) / unit
    bits = min(16 - math.frexp(math.sqrt(longest))[1], 15) - size
    second = math.ldexp(1.0, bits + exponent)
    most, wider = 32767.0 / second, out.shape[1] - n_columns
    whole = np.rint(np.clip(scaled, -most, most) * second)
    rest = out.shape[1] - WIDTH if wider > 0 else theta.shape[1]
    out[:, :rest] = whole[:, :rest]
    out[:, rest + wider : theta.shape[1] + wider] = whole[:, rest:]
    return bits


@kernel(fastmath=REORDER)
def _margins(X, rows, theta, out):
    # Two rows at a time. An odd last row is paired with itself.
    n_outputs, n_rows = out.shape
    for i in range(0, n_rows, 2):
        h = min(i + 1, n_rows - 1)
        x0, x1 = X[rows[i]], X[rows[h]]
        for k in range(n_outputs):
            t = theta[k]
            a0 = b0 = 0.0
            for j in range(theta.shape[1]):
                a0 += x0[j] * t[j]
                b0 += x1[j] * t[j]
            out[k, i], out[k, h] = a0, b0


@twin_of(_margins)
def margins(X, rows, theta, out):
    """Write out[k, i] = X[rows[i]] . theta[k]."""
    out[:] = theta @ X[rows, : theta.shape[1]].T.astype(np.float64)


@kernel(fastmath=REORDER)
def _add_outer_products(X, rows, residuals, out):
    # Four rows at a time. If the last group has fewer than four rows, it is filled up
    # with residuals of 0.
    n_outputs, n_rows = residuals.shape
    last, r = n_rows - 1, np.empty(4)
    for i in range(0, n_rows, 4):
        x0, x1 = X[rows[i]], X[rows[min(i + 1, last)]]
        x2, x3 = X[rows[min(i + 2, last)]], X[rows[min(i + 3, last)]]
        for k in range(n_outputs):
            for h in range(4):
                r[h] = residuals[k, i + h] if i + h < n_rows else 0.0
            a, b, c, d, u = r[0], r[1], r[2], r[3], out[k]
            for j in range(out.shape[1]):
                u[j] += a * x0[j] + b * x1[j] + c * x2[j] + d * x3[j]


@twin_of(_add_outer_products)
def add_outer_products(X, rows, residuals, out):
    """Add residuals.T @ X[rows] to out, float64 (K, D), integers below 2**53."""
    out += residuals @ X[rows, : out.shape[1]].astype(np.float64)


@kernel(error_model="numpy")
def add_clipped(X, batch, whole, start, stop, theta, unit, given, rounded, out):
    """Add the clipped contributions of rows to out, int64 (K, D), block by block.

    The rows are start to stop - 1 if `whole`, and batch[start:stop] otherwise. `unit`
    is that of the rows, and `given` a result of `contributions.flat`. The rounded
    weights are written to `rounded`.
    """
    factor = math.ldexp(unit, -_round_weights(theta, theta.shape[1], rounded))
    partial, numbers = np.empty(theta.shape), np.empty(EXACT_ROWS, np.int64)
    for first in range(start, stop, EXACT_ROWS):
        n_rows = min(EXACT_ROWS, stop - first)
        residuals = np.empty((theta.shape[0], n_rows))
        if whole:
            for i in range(n_rows):
                numbers[i] = first + i
        rows = numbers[:n_rows] if whole else batch[first : first + n_rows]
        _margins(X, rows, rounded, residuals)
        residuals *= factor
        call_contribution(residuals, rows, given)
        partial[:] = 0.0
        _add_outer_products(X, rows, residuals, partial)
        for k in range(theta.shape[0]):
            for j in range(theta.shape[1]):
                out[k, j] += np.int64(partial[k, j])
