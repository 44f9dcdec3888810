"""The two products of a linear step in 16-bit integers, for rows that are not long.

They write what the float64 tiles of `tiles` write, at several times the pace.
`products.ShortProducts` says when sums fit.

A row is read in tiles of 16 columns. The last tile ends with the row, so that it may
overlap the one before: weights are zero there, and sums are not read.

Shapes: X int16 (n, D), D at least 16; rows int64 (B,), the batch; W the tiles of a row,
times 16. Arrays written come last.
"""

import numpy as np

from skfdp.kernels.compiling import kernel
from skfdp.kernels.contributions import clip_residuals, weighted_residuals
from skfdp.kernels.vectors import (
    PAIR_ORDER,
    WIDTH,
    add_unsigned_to,
    half,
    high_pairs,
    load,
    load_pair,
    low_pairs,
    multiply_add,
    prefetch,
    store_sums,
    sum_of,
    zeros,
)

#: Pairs of rows whose sum is taken in int32.
PAIRS = 16
# What a block of rows and its residuals may have, so that they stay in the cache
# between the two products; in int16.
_BLOCK_ENTRIES = 2**16
# Rows of a batch lie far apart; one that is asked for this early has arrived in time.
_AHEAD = 12


@kernel()
def margins(X, rows, theta, factor, out):
    """out[k, i] = factor * (X[rows[i]] . theta[k]), two rows and five outputs a tile.

    theta int16 (K, W). The inner products must fit into int32; partial sums may wrap.
    There may be more rows than are asked for, those of the blocks to come.
    """
    n_outputs, n_rows = out.shape
    n_columns, width = X.shape[1], theta.shape[1]
    x, w, last = X.ravel(), theta.ravel(), n_columns - WIDTH
    for i in range(0, n_rows if n_outputs >= 5 else 0, 2):
        h = min(i + 1, n_rows - 1)
        p, q = rows[i] * n_columns, rows[h] * n_columns
        for soon in (i + _AHEAD, i + _AHEAD + 1):
            early = rows[min(soon, len(rows) - 1)] * n_columns
            prefetch(x, early), prefetch(x, early + last)
        for k in range(0, n_outputs - 4, 5):
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
            out[k, i], out[k, h] = factor * sum_of(a0), factor * sum_of(b0)
            out[k + 1, i], out[k + 1, h] = factor * sum_of(a1), factor * sum_of(b1)
            out[k + 2, i], out[k + 2, h] = factor * sum_of(a2), factor * sum_of(b2)
            out[k + 3, i], out[k + 3, h] = factor * sum_of(a3), factor * sum_of(b3)
            out[k + 4, i], out[k + 4, h] = factor * sum_of(a4), factor * sum_of(b4)
    for k in range(n_outputs // 5 * 5, n_outputs):
        _margins_of_output(x, rows, n_columns, theta[k], factor, out[k])


@kernel()
def _margins_of_output(x, rows, n_columns, w, factor, out):
    """out[i] = factor * (X[rows[i]] . w), four rows at a time."""
    n_rows, last, rest = len(out), n_columns - WIDTH, np.empty(4)
    for i in range(0, n_rows, 4):
        p0, p1 = rows[i] * n_columns, rows[min(i + 1, n_rows - 1)] * n_columns
        p2 = rows[min(i + 2, n_rows - 1)] * n_columns
        p3 = rows[min(i + 3, n_rows - 1)] * n_columns
        for soon in range(i + _AHEAD, i + _AHEAD + 4):
            early = rows[min(soon, len(rows) - 1)] * n_columns
            prefetch(x, early), prefetch(x, early + last)
        a0, a1, a2, a3 = zeros(), zeros(), zeros(), zeros()
        for t in range(0, len(w), WIDTH):
            v, shift = load(w, t), min(t, last)
            a0 = multiply_add(a0, load(x, p0 + shift), v)
            a1 = multiply_add(a1, load(x, p1 + shift), v)
            a2 = multiply_add(a2, load(x, p2 + shift), v)
            a3 = multiply_add(a3, load(x, p3 + shift), v)
        if i + 4 <= n_rows:
            store_sums(out, i, factor, a0, a1, a2, a3)
        else:
            store_sums(rest, 0, factor, a0, a1, a2, a3)
            for j in range(i, n_rows):
                out[j] = rest[j - i]


@kernel()
def add_outer_products(X, rows, residuals, out):
    """Add residuals.T @ X[rows] to out, two rows and five outputs at a time.

    residuals float64 (K, B), integers of int16; a row times its residual is below
    2**26 in every entry. out int64 (K, W), each tile in `PAIR_ORDER`. What is returned
    times 2**31 is what every entry of out is too large by.
    """
    n_outputs, n_rows = residuals.shape
    n_pairs = (n_rows + 1) // 2
    x, u, width = X.ravel(), out.ravel(), out.shape[1]
    r, first, second = _paired(rows, residuals, X.shape[1])
    step = 2 * n_outputs
    for t in range(0, width, WIDTH):
        shift = min(t, X.shape[1] - WIDTH)
        for start in range(0, n_pairs, PAIRS):
            stop = min(start + PAIRS, n_pairs)
            for k in range(0, n_outputs - 4, 5):
                a0, a1, a2, a3, a4 = half(), half(), half(), half(), half()
                b0, b1, b2, b3, b4 = half(), half(), half(), half(), half()
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
                add_unsigned_to(u, at, a0), add_unsigned_to(u, at + 8, b0)
                at += width
                add_unsigned_to(u, at, a1), add_unsigned_to(u, at + 8, b1)
                at += width
                add_unsigned_to(u, at, a2), add_unsigned_to(u, at + 8, b2)
                at += width
                add_unsigned_to(u, at, a3), add_unsigned_to(u, at + 8, b3)
                at += width
                add_unsigned_to(u, at, a4), add_unsigned_to(u, at + 8, b4)
    for k in range(n_outputs // 5 * 5, n_outputs):
        _add_output(x, first, second, r, k, step, u, k * width, width, X.shape[1])
    return (n_pairs + PAIRS - 1) // PAIRS


@kernel()
def _add_output(x, first, second, r, k, step, u, place, width, n_columns):
    """Add one output of `add_outer_products` at a place of u, two tiles at a time."""
    last = n_columns - WIDTH
    for start in range(0, len(first), PAIRS):
        stop = min(start + PAIRS, len(first))
        for t in range(0, width, 2 * WIDTH):
            # The second tile is the first once more where there is no second.
            one, two = min(t, last), min(min(t + WIDTH, width - WIDTH), last)
            a0, a1, b0, b1 = half(), half(), half(), half()
            at = start * step + 2 * k
            for i in range(np.uint64(start), np.uint64(stop)):
                p, q, v = first[i], second[i], load_pair(r, at)
                c, d = load(x, p + one), load(x, q + one)
                a0 = multiply_add(a0, low_pairs(c, d), v)
                b0 = multiply_add(b0, high_pairs(c, d), v)
                c, d = load(x, p + two), load(x, q + two)
                a1 = multiply_add(a1, low_pairs(c, d), v)
                b1 = multiply_add(b1, high_pairs(c, d), v)
                at += step
            here = place + t
            add_unsigned_to(u, here, a0), add_unsigned_to(u, here + 8, b0)
            if t + WIDTH < width:
                here += WIDTH
                add_unsigned_to(u, here, a1), add_unsigned_to(u, here + 8, b1)


@kernel()
def _paired(rows, residuals, n_columns):
    """Return the residuals of pairs of rows side by side, and where the rows start.

    An odd last row is paired with itself, at a residual of 0.
    """
    n_outputs, n_rows = residuals.shape
    n_pairs = (n_rows + 1) // 2
    r = np.zeros(2 * n_pairs * n_outputs, dtype=np.int16)
    first = np.empty(n_pairs, dtype=np.int64)
    second = np.empty(n_pairs, dtype=np.int64)
    for i in range(n_pairs):
        h = min(2 * i + 1, n_rows - 1)
        first[i], second[i] = rows[2 * i] * n_columns, rows[h] * n_columns
    for k in range(n_outputs):
        at = 2 * k
        for i in range(n_rows // 2):
            r[at], r[at + 1] = residuals[k, 2 * i], residuals[k, 2 * i + 1]
            at += 2 * n_outputs
        if n_rows % 2:
            r[at] = residuals[k, n_rows - 1]
    return r, first, second


@kernel()
def block_size(n_columns, n_outputs):
    """Return how many rows stay in the cache with their residuals."""
    rows = _BLOCK_ENTRIES // (n_columns + 4 * n_outputs)
    return max(2 * PAIRS, rows - rows % (2 * PAIRS))


@kernel()
def add_clipped(X, batch, start, stop, theta, factor, task, clip, out):
    """Add the clipped contributions of batch[start:stop], int64 (n,) or None for all.

    The whole of a step, in blocks of rows that stay in the cache between the two
    products. theta, factor: see `margins`; out: see `add_outer_products`.
    """
    n_outputs = theta.shape[0]
    size = block_size(X.shape[1], n_outputs)
    memory, excess = np.empty(size * n_outputs), 0
    for first in range(start, stop, size):
        last = min(first + size, stop)
        rows = np.arange(first, last) if batch is None else batch[first:stop]
        shape = n_outputs, last - first
        residuals = memory[: shape[0] * shape[1]].reshape(shape)
        margins(X, rows, theta, factor, residuals)
        weighted_residuals(residuals, rows, task)
        clip_residuals(residuals, rows, clip)
        excess += add_outer_products(X, rows, residuals, out)
    return excess


@kernel()
def unfold(folded, excess, out):
    """Out = sums that `add_outer_products` has collected, less the excess; (K, D)."""
    last = out.shape[1] - WIDTH
    for k in range(out.shape[0]):
        for t in range(0, folded.shape[1], WIDTH):
            place = min(t, last)
            for i in range(WIDTH):
                out[k, place + PAIR_ORDER[i]] = folded[k, t + i] - excess
