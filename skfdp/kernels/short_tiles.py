"""The two products of a linear step in 16-bit integers, for rows of small norm.

The results equal those of the float64 loops in `tiles`, but are computed several times
faster. `queries.products.products` checks that the sums fit into int32.

A row is read in tiles of 16 columns. The last tile ends where the row ends in memory,
and may overlap the tile before. In the overlap, the weights of the last tile are zero,
and both tiles have equal sums. In columns after the first D, weights are zero and sums
are not read.

Shapes: X int16 (n, C), C at least 16, holds the rows in the first D of C columns; rows
int64 (B,) is the batch; W is the number of tiles times 16. Output arrays come last.
"""

from __future__ import annotations

import functools

import numpy as np
from numba.core import types

from skfdp.kernels.compiling import (
    FLOATS,
    INTEGERS,
    SHORTS,
    address,
    caller,
    kernel,
    part,
    twin_of,
)
from skfdp.kernels.contributions import call_contribution
from skfdp.kernels.vectors import (
    PAIR_ORDER,
    WIDTH,
    add_unsigned_to,
    half,
    high_pairs,
    load_integers,
    load_pair,
    low_pairs,
    multiply_add,
    prefetch,
    prefetch_early,
    store_sums,
    sum_of,
    zeros,
)

#: Number of pairs of rows that are summed in int32, before the sum is added in int64.
PAIRS = 16
# Largest size of a block of rows with its residuals, in int16 entries, so that both
# stay in the cache between the two products.
_CACHED = 2**16
# Rows of a batch are far apart in memory. A row is prefetched twice: into the
# second-level cache `_EARLY + _AHEAD` rows before its use, and into the first-level
# cache `_AHEAD` rows before its use.
_EARLY, _AHEAD = 48, 12


@part
def block_margins(X, rows, theta, factor, early, links, out):
    """Do what `margins` does, given the functions that it calls.

    rows may be longer than out. The additional rows belong to the next blocks, and are
    only prefetched. `early` is for rows that are not consecutive in memory, and
    prefetches them in two steps.
    """
    given = X, rows, theta, factor, early
    if out.shape[0] >= 5:
        call_margins(links[0], (*given, out))
    if out.shape[0] % 5 > 0:
        call_margins(links[1], (*given, out))


@twin_of(lambda *given: block_margins(*given[:4], True, links(len(given[2])), given[4]))
def margins(X, rows, theta, factor, out):
    """Write out[k, i] = factor * (X[rows[i]] . theta[k]).

    theta int16 (K, W). The inner products must fit into int32; partial sums may wrap
    around.
    """
    weights, first = np.zeros((len(theta), X.shape[1])), theta.shape[1] - WIDTH
    weights[:, :first] = theta[:, :first]
    weights[:, -WIDTH:] += theta[:, first:]  # this tile may overlap the tile before
    out[:] = factor * (weights @ X[rows].T.astype(np.float64))


@kernel()
def _margins_by_five(x, rows, w, factor, early, out):
    """Write the margins of all outputs except the last K % 5.

    The loop handles two rows and five outputs at a time.
    """
    n_outputs, n_rows = out.shape
    n_columns, width = x.shape[1], w.shape[1]
    last = n_columns - WIDTH
    for i in range(0, n_rows, 2):
        h = min(i + 1, n_rows - 1)
        p, q = rows[i] * n_columns, rows[h] * n_columns
        for soon in (i + _AHEAD, i + _AHEAD + 1):
            place = rows[min(soon, len(rows) - 1)] * n_columns
            prefetch(x, place), prefetch(x, place + last)
            if early:
                prefetch_early(x, rows[min(soon + _EARLY, len(rows) - 1)] * n_columns)
        for k in range(0, n_outputs - 4, 5):
            a0, a1, a2, a3, a4 = zeros(), zeros(), zeros(), zeros(), zeros()
            b0, b1, b2, b3, b4 = zeros(), zeros(), zeros(), zeros(), zeros()
            for t in range(0, width, WIDTH):
                a, b = (
                    load_integers(x, p + min(t, last)),
                    load_integers(x, q + min(t, last)),
                )
                at = k * width + t
                v = load_integers(w, at)
                a0, b0 = multiply_add(a0, a, v), multiply_add(b0, b, v)
                v = load_integers(w, at + width)
                a1, b1 = multiply_add(a1, a, v), multiply_add(b1, b, v)
                v = load_integers(w, at + 2 * width)
                a2, b2 = multiply_add(a2, a, v), multiply_add(b2, b, v)
                v = load_integers(w, at + 3 * width)
                a3, b3 = multiply_add(a3, a, v), multiply_add(b3, b, v)
                v = load_integers(w, at + 4 * width)
                a4, b4 = multiply_add(a4, a, v), multiply_add(b4, b, v)
            out[k, i], out[k, h] = factor * sum_of(a0), factor * sum_of(b0)
            out[k + 1, i], out[k + 1, h] = factor * sum_of(a1), factor * sum_of(b1)
            out[k + 2, i], out[k + 2, h] = factor * sum_of(a2), factor * sum_of(b2)
            out[k + 3, i], out[k + 3, h] = factor * sum_of(a3), factor * sum_of(b3)
            out[k + 4, i], out[k + 4, h] = factor * sum_of(a4), factor * sum_of(b4)


@kernel()
def _margins_by_one(x, rows, w, factor, early, out):
    """Write the margins of the last K % 5 outputs, four rows at a time."""
    n_outputs, n_rows = out.shape
    n_columns, width = x.shape[1], w.shape[1]
    last, rest = n_columns - WIDTH, np.empty(4)
    for k in range(n_outputs // 5 * 5, n_outputs):
        for i in range(0, n_rows, 4):
            p0, p1 = rows[i] * n_columns, rows[min(i + 1, n_rows - 1)] * n_columns
            p2 = rows[min(i + 2, n_rows - 1)] * n_columns
            p3 = rows[min(i + 3, n_rows - 1)] * n_columns
            for soon in range(i + _AHEAD, i + _AHEAD + 4) if early else range(0):
                place = rows[min(soon, len(rows) - 1)] * n_columns
                prefetch(x, place), prefetch(x, place + last)
                far = rows[min(soon + _EARLY, len(rows) - 1)]
                prefetch_early(x, far * n_columns)
            a0, a1, a2, a3 = zeros(), zeros(), zeros(), zeros()
            for t in range(0, width, WIDTH):
                v, shift = load_integers(w, k * width + t), min(t, last)
                a0 = multiply_add(a0, load_integers(x, p0 + shift), v)
                a1 = multiply_add(a1, load_integers(x, p1 + shift), v)
                a2 = multiply_add(a2, load_integers(x, p2 + shift), v)
                a3 = multiply_add(a3, load_integers(x, p3 + shift), v)
            if i + 4 <= n_rows:
                store_sums(out, k * n_rows + i, factor, a0, a1, a2, a3)
            else:
                store_sums(rest, 0, factor, a0, a1, a2, a3)
                for j in range(i, n_rows):
                    out[k, j] = rest[j - i]


@part
def _add_outer_products(X, rows, residuals, links, out):
    n_rows = residuals.shape[1]
    n_pairs = (n_rows + 1) // 2
    first, second = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    place_pairs(rows[:n_rows], X.shape[1], first, second)
    return add_pairs(X, first, second, residuals, links, out)


@twin_of(lambda *given: _add_outer_products(*given[:3], links(len(given[2])), given[3]))
def add_outer_products(X, rows, residuals, out):
    """Add residuals.T @ X[rows] to out.

    residuals float64 (K, B) are integers that fit into int16; a row times its residual
    is below 2**26 in every entry. out is int64 (K, W), each tile in `PAIR_ORDER`.
    Return a number, the excess: every entry of out is then too large by 2**31 times the
    excess.
    """
    sums = (residuals @ X[rows].astype(np.float64)).astype(np.int64)
    out += sums[:, _columns_of_sums(X.shape[1])]
    return 0


@part
def place_pairs(rows, n_columns, first, second):
    """Write the positions in X where the two rows of each pair start.

    If the number of rows is odd, the last row is paired with itself.
    """
    for i in range(len(first)):
        h = min(2 * i + 1, len(rows) - 1)
        first[i], second[i] = rows[2 * i] * n_columns, rows[h] * n_columns


@part
def add_pairs(X, first, second, residuals, links, out):
    """Do what `add_outer_products` does, given the positions of `place_pairs`."""
    n_outputs, n_rows = residuals.shape
    n_pairs = len(first)
    # Interleave the residuals of each pair of rows. If the number of rows is odd, the
    # last row is paired with itself, with a residual of 0.
    r = np.empty(2 * n_pairs * n_outputs, np.int16)
    for k in range(n_outputs):
        if n_outputs == 1:
            for i in range(n_rows):
                r[i] = residuals[0, i]
        else:
            at = 2 * k
            for i in range(n_rows // 2):
                r[at], r[at + 1] = residuals[k, 2 * i], residuals[k, 2 * i + 1]
                at += 2 * n_outputs
        if n_rows % 2:
            at = 2 * (n_pairs - 1) * n_outputs + 2 * k
            r[at], r[at + 1] = residuals[k, n_rows - 1], 0
    if n_outputs >= 5:
        call_add(links[2], (X, first, second, r, out))
    if n_outputs % 5 > 0:
        call_add(links[3], (X, first, second, r, out))
    return (n_pairs + PAIRS - 1) // PAIRS


@kernel()
def _add_by_five(x, first, second, r, u):
    """Do `add_outer_products` for all outputs except the last K % 5.

    The loop handles two rows and five outputs at a time.
    """
    n_outputs, width = u.shape
    n_pairs, step = len(first), 2 * n_outputs
    for t in range(0, width, WIDTH):
        shift = min(t, x.shape[1] - WIDTH)
        for start in range(0, n_pairs, PAIRS):
            stop = min(start + PAIRS, n_pairs)
            for k in range(0, n_outputs - 4, 5):
                a0, a1, a2, a3, a4 = half(), half(), half(), half(), half()
                b0, b1, b2, b3, b4 = half(), half(), half(), half(), half()
                at = start * step + 2 * k
                for i in range(np.uint64(start), np.uint64(stop)):
                    c, d = (
                        load_integers(x, first[i] + shift),
                        load_integers(x, second[i] + shift),
                    )
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


@kernel()
def _add_by_one(x, first, second, r, u):
    """Do `add_outer_products` for the last K % 5 outputs, two tiles at a time."""
    n_outputs, width = u.shape
    step, last = 2 * n_outputs, x.shape[1] - WIDTH
    for k in range(n_outputs // 5 * 5, n_outputs):
        for start in range(0, len(first), PAIRS):
            stop = min(start + PAIRS, len(first))
            for t in range(0, width, 2 * WIDTH):
                # If there is no second tile, the first tile is read twice.
                one, two = min(t, last), min(min(t + WIDTH, width - WIDTH), last)
                a0, a1, b0, b1 = half(), half(), half(), half()
                at = start * step + 2 * k
                for i in range(np.uint64(start), np.uint64(stop)):
                    p, q, v = first[i], second[i], load_pair(r, at)
                    c, d = load_integers(x, p + one), load_integers(x, q + one)
                    a0 = multiply_add(a0, low_pairs(c, d), v)
                    b0 = multiply_add(b0, high_pairs(c, d), v)
                    c, d = load_integers(x, p + two), load_integers(x, q + two)
                    a1 = multiply_add(a1, low_pairs(c, d), v)
                    b1 = multiply_add(b1, high_pairs(c, d), v)
                    at += step
                here = k * width + t
                add_unsigned_to(u, here, a0), add_unsigned_to(u, here + 8, b0)
                if t + WIDTH < width:
                    here += WIDTH
                    add_unsigned_to(u, here, a1), add_unsigned_to(u, here + 8, b1)


_MARGINS = SHORTS, INTEGERS, SHORTS, types.float64, types.boolean, FLOATS
_FLAT_SHORTS = types.Array(types.int16, 1, "C", readonly=True)
_ADD = SHORTS, INTEGERS, INTEGERS, _FLAT_SHORTS, types.Array(types.int64, 2, "C")
call_margins, call_add = caller(_MARGINS), caller(_ADD)


@functools.cache
def links(n_outputs: int) -> tuple[int, int, int, int]:
    """Return the addresses of the functions that this number of outputs needs, or 0.

    These are the margins of groups of five outputs and of the others, and the sums.
    """
    five, one = n_outputs >= 5, n_outputs % 5 > 0
    return (
        address(_margins_by_five, _MARGINS) if five else 0,
        address(_margins_by_one, _MARGINS) if one else 0,
        address(_add_by_five, _ADD) if five else 0,
        address(_add_by_one, _ADD) if one else 0,
    )


def block_memory(n_columns: int, n_outputs: int) -> tuple[np.ndarray, ...]:
    """Return the working memory of `add_clipped`.

    Its size is that of a block of rows that fits the cache with its residuals.
    """
    rows = _CACHED // (n_columns + 4 * n_outputs)
    size = max(2 * PAIRS, rows - rows % (2 * PAIRS))
    numbers, local = np.empty(size, np.int64), np.arange(size)
    return numbers, local, *np.empty((2, size // 2), np.int64)


@kernel(error_model="numpy")
def add_clipped(X, batch, whole, start, stop, theta, factor, given, links, memory, out):
    """Add the clipped contributions of rows, in blocks that stay in the cache.

    The rows are start to stop - 1 if `whole`, and batch[start:stop] otherwise. `memory`
    is a result of `block_memory`, and `given` of `contributions.flat`. For out and the
    returned excess see `add_outer_products`.
    """
    numbers, local, firsts, seconds = memory
    n_outputs, size, excess, placed = theta.shape[0], len(local), 0, 0
    for first in range(start, stop, size):
        n_rows = min(size, stop - first)
        n_pairs = (n_rows + 1) // 2
        residuals = np.empty((n_outputs, n_rows))
        if whole:
            for i in range(n_rows):
                numbers[i] = first + i
        rows = numbers[:n_rows] if whole else batch[first:stop]
        # Consecutive rows have the same positions within each block.
        block = X[first : first + n_rows] if whole else X
        within = local[:n_rows] if whole else rows
        pairs = firsts[:n_pairs], seconds[:n_pairs]
        if not whole or placed != n_rows:
            placed = n_rows
            place_pairs(within[:n_rows], X.shape[1], pairs[0], pairs[1])
        block_margins(block, within, theta, factor, not whole, links, residuals)
        call_contribution(residuals, rows, given)
        excess += add_pairs(block, pairs[0], pairs[1], residuals, links, out)
    return excess


def _columns_of_sums(n_stored: int) -> np.ndarray:
    """Return the column in memory of each entry of the sums."""
    starts = np.minimum(np.arange(0, n_stored, WIDTH), n_stored - WIDTH)
    return (starts[:, None] + np.array(PAIR_ORDER)).ravel()


def places(n_columns: int, n_stored: int) -> np.ndarray:
    """Return the position of each column in the sums of `add_outer_products`.

    Rows have `n_columns` columns, and are stored in `n_stored` columns.
    """
    columns, found = _columns_of_sums(n_stored), np.empty(n_stored, dtype=np.int64)
    found[columns] = np.arange(len(columns))
    return found[:n_columns]
