"""The two products of a linear step in 16-bit integers, for rows that are not long.

They write what the float64 tiles of `linear_kernels` write, at several times the pace.
`products.ShortProducts` says when sums fit.

A row is read in tiles of 16 columns. The last tile ends with the row, so that it may
overlap the one before: weights are zero there, and sums are not read.

Shapes: X int16 (n, D), D at least 16; rows int64 (B,), the batch; W the tiles of a row,
times 16. Arrays written come last.
"""

import numpy as np
from numba import njit

from skfdp.queries.vectors import (
    WIDTH,
    add_to,
    high_pairs,
    load,
    load_pair,
    low_pairs,
    multiply_add,
    prefetch,
    sum_of,
    zeros,
)

#: Pairs of rows whose sum is taken in int32.
PAIRS = 16
# Rows of a batch lie far apart; one that is asked for this early has arrived in time.
_AHEAD = 12


@njit(nogil=True, cache=True)
def margins(X, rows, theta, factor, out):
    """out[i, k] = factor * (X[rows[i]] . theta[k]), two rows and five outputs a tile.

    theta int16 (K, W). The inner products must fit into int32; partial sums may wrap.
    """
    n_rows, n_outputs = out.shape
    n_columns, width = X.shape[1], theta.shape[1]
    x, w, last = X.ravel(), theta.ravel(), n_columns - WIDTH
    for i in range(0, n_rows, 2):
        h = min(i + 1, n_rows - 1)
        p, q = rows[i] * n_columns, rows[h] * n_columns
        for soon in (i + _AHEAD, i + _AHEAD + 1):
            early = rows[min(soon, n_rows - 1)] * n_columns
            prefetch(x, early), prefetch(x, early + last)
        k = 0
        while k + 5 <= n_outputs:
            a0, a1, a2, a3, a4 = zeros(), zeros(), zeros(), zeros(), zeros()
            b0, b1, b2, b3, b4 = zeros(), zeros(), zeros(), zeros(), zeros()
            for t in range(0, width, WIDTH):
                a, b = load(x, p + min(t, last)), load(x, q + min(t, last))
                at = k * width + t
                v = load(w, at)
                a0, b0 = multiply_add(a0, a, v), multiply_add(b0, b, v)
                v = load(w, at + width)
                a1, b1 = multiply_add(a1, a, v), multiply_add(b1, b, v)
                v = load(w, at + 2 * width)
                a2, b2 = multiply_add(a2, a, v), multiply_add(b2, b, v)
                v = load(w, at + 3 * width)
                a3, b3 = multiply_add(a3, a, v), multiply_add(b3, b, v)
                v = load(w, at + 4 * width)
                a4, b4 = multiply_add(a4, a, v), multiply_add(b4, b, v)
            out[i, k], out[h, k] = factor * sum_of(a0), factor * sum_of(b0)
            out[i, k + 1], out[h, k + 1] = factor * sum_of(a1), factor * sum_of(b1)
            out[i, k + 2], out[h, k + 2] = factor * sum_of(a2), factor * sum_of(b2)
            out[i, k + 3], out[h, k + 3] = factor * sum_of(a3), factor * sum_of(b3)
            out[i, k + 4], out[h, k + 4] = factor * sum_of(a4), factor * sum_of(b4)
            k += 5
        while k < n_outputs:
            a0, b0 = zeros(), zeros()
            for t in range(0, width, WIDTH):
                v = load(w, k * width + t)
                a0 = multiply_add(a0, load(x, p + min(t, last)), v)
                b0 = multiply_add(b0, load(x, q + min(t, last)), v)
            out[i, k], out[h, k] = factor * sum_of(a0), factor * sum_of(b0)
            k += 1


@njit(nogil=True, cache=True)
def add_outer_products(X, rows, residuals, out):
    """Add residuals.T @ X[rows] to out, two rows and five outputs at a time.

    residuals float64 (B, K), integers of int16; a row times its residual is below
    2**26 in every entry. out int64 (K, W), each tile in `PAIR_ORDER`.
    """
    n_pairs, n_outputs = (len(rows) + 1) // 2, residuals.shape[1]
    x, u, width = X.ravel(), out.ravel(), out.shape[1]
    r, first, second = _paired(rows, residuals, X.shape[1])
    step = 2 * n_outputs
    for start in range(0, n_pairs, PAIRS):
        stop = min(start + PAIRS, n_pairs)
        for t in range(0, width, WIDTH):
            shift = min(t, X.shape[1] - WIDTH)
            k = 0
            while k + 5 <= n_outputs:
                a0, a1, a2, a3, a4 = zeros(), zeros(), zeros(), zeros(), zeros()
                b0, b1, b2, b3, b4 = zeros(), zeros(), zeros(), zeros(), zeros()
                at = start * step + 2 * k
                for i in range(np.uint64(start), np.uint64(stop)):
                    c, d = load(x, first[i] + shift), load(x, second[i] + shift)
                    a, b = low_pairs(c, d), high_pairs(c, d)
                    v = load_pair(r, at)
                    a0, b0 = multiply_add(a0, a, v), multiply_add(b0, b, v)
                    v = load_pair(r, at + 2)
                    a1, b1 = multiply_add(a1, a, v), multiply_add(b1, b, v)
                    v = load_pair(r, at + 4)
                    a2, b2 = multiply_add(a2, a, v), multiply_add(b2, b, v)
                    v = load_pair(r, at + 6)
                    a3, b3 = multiply_add(a3, a, v), multiply_add(b3, b, v)
                    v = load_pair(r, at + 8)
                    a4, b4 = multiply_add(a4, a, v), multiply_add(b4, b, v)
                    at += step
                at = k * width + t
                add_to(u, at, a0), add_to(u, at + 8, b0)
                at += width
                add_to(u, at, a1), add_to(u, at + 8, b1)
                at += width
                add_to(u, at, a2), add_to(u, at + 8, b2)
                at += width
                add_to(u, at, a3), add_to(u, at + 8, b3)
                at += width
                add_to(u, at, a4), add_to(u, at + 8, b4)
                k += 5
            while k < n_outputs:
                a0, b0 = zeros(), zeros()
                at = start * step + 2 * k
                for i in range(np.uint64(start), np.uint64(stop)):
                    c, d = load(x, first[i] + shift), load(x, second[i] + shift)
                    v = load_pair(r, at)
                    a0 = multiply_add(a0, low_pairs(c, d), v)
                    b0 = multiply_add(b0, high_pairs(c, d), v)
                    at += step
                add_to(u, k * width + t, a0), add_to(u, k * width + t + 8, b0)
                k += 1


@njit(nogil=True, cache=True)
def _paired(rows, residuals, n_columns):
    """Return the residuals of pairs of rows side by side, and where the rows start.

    An odd last row is paired with itself, at a residual of 0.
    """
    n_rows, n_outputs = residuals.shape
    n_pairs = (n_rows + 1) // 2
    r = np.zeros(2 * n_pairs * n_outputs, dtype=np.int16)
    first = np.empty(n_pairs, dtype=np.int64)
    second = np.empty(n_pairs, dtype=np.int64)
    for i in range(n_pairs):
        h = min(2 * i + 1, n_rows - 1)
        first[i], second[i] = rows[2 * i] * n_columns, rows[h] * n_columns
        at = 2 * i * n_outputs
        for k in range(n_outputs):
            r[at + 2 * k] = residuals[2 * i, k]
            if h > 2 * i:
                r[at + 2 * k + 1] = residuals[h, k]
    return r, first, second
