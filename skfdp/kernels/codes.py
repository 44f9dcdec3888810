"""The two products of a step on codes: look-ups of levels in place of columns.

Rows and levels are those of `skfdp.data.codes.CodedGridRows`. A row of codes has C
places of categories, then S places of numbers and S weights. `table` holds the products
of the levels with the weights of a model, and `sums` the sums over rows for each level.
Every number is an integer, so blocks and threads do not change the result.

Shapes, for B rows, K outputs and P levels: codes (n, C + 2 S), unsigned; rows int64 (at
least B,), the numbers of the rows; table and sums int64 (K, P).
"""

import numpy as np
from scipy.sparse import csr_array

from skfdp.kernels.compiling import kernel, twin_of
from skfdp.kernels.contributions import call_contribution
from skfdp.kernels.short_tiles import add_pairs, block_margins, place_pairs

# Number of bits of a weight, `skfdp.data.codes.ONE`.
_LEVEL_BITS = 9


def _level_weights(codes, n_categories, rows, n_levels):
    """Return the weights of the levels in some rows as int64 CSR, for the twins."""
    own = codes[rows].astype(np.int64)
    last = (n_categories + own.shape[1]) // 2
    lower, upper = own[:, n_categories:last], own[:, last:]
    places = np.concatenate([own[:, :last], lower + 1], axis=1)
    ones = np.ones((len(own), n_categories), np.int64)
    weights = np.concatenate([ones, (1 << _LEVEL_BITS) - upper, upper], axis=1)
    ends = places.shape[1] * np.arange(len(own) + 1)
    shape = len(own), n_levels
    return csr_array((weights.ravel(), places.ravel(), ends), shape=shape)


@kernel(error_model="numpy")
def _margins(codes, n_categories, rows, table, shifted, factor, out):
    first = np.uint64(n_categories)
    last = (first + np.uint64(codes.shape[1])) // np.uint64(2)
    n_numbers = last - first
    for k in range(out.shape[0]):
        own, apart = table[k], shifted[k]
        for i in range(np.uint64(out.shape[1])):
            row, total = np.uint64(rows[i]), -apart
            for j in range(first):
                total += own[np.uint64(codes[row, j])]
            for j in range(first, last):
                place = np.uint64(codes[row, j])
                weight, lower = np.int64(codes[row, j + n_numbers]), own[place]
                upper = own[place + np.uint64(1)]
                total += (lower << _LEVEL_BITS) + weight * (upper - lower)
            out[k, i] = factor * total


@twin_of(_margins)
def margins(codes, n_categories, rows, table, shifted, factor, out):
    """Write out[k, i] = factor * (margin of row rows[i] - shifted[k]).

    shifted int64 (K,) holds the products of the shift with the weights.
    """
    weights = _level_weights(codes, n_categories, rows, table.shape[1])
    out[:] = factor * (weights @ table.T - shifted).T


@kernel(error_model="numpy")
def _add_to_levels(codes, n_categories, rows, residuals, sums, total):
    first = np.uint64(n_categories)
    last = (first + np.uint64(codes.shape[1])) // np.uint64(2)
    n_numbers = last - first
    for k in range(residuals.shape[0]):
        own = sums[k]
        for i in range(np.uint64(residuals.shape[1])):
            row, residual = np.uint64(rows[i]), np.int64(residuals[k, i])
            total[k] += residual
            for j in range(first):
                own[np.uint64(codes[row, j])] += residual
            for j in range(first, last):
                place = np.uint64(codes[row, j])
                upper = residual * np.int64(codes[row, j + n_numbers])
                own[place] += (residual << _LEVEL_BITS) - upper
                own[place + np.uint64(1)] += upper


@twin_of(_add_to_levels)
def add(codes, n_categories, rows, residuals, sums, total):
    """Add residuals times the weights of levels to sums, and residuals to total.

    residuals float64 (K, B) are integers; total is int64 (K,). Sums may wrap around.
    """
    weights = _level_weights(codes, n_categories, rows, sums.shape[1])
    integers = residuals.astype(np.int64)
    sums += (weights.T @ integers.T).T
    total += integers.sum(axis=1)


@kernel(error_model="numpy")
def add_clipped(codes, n_categories, batch, whole, start, stop, beside, given, out):
    """Add the clipped contributions of rows, in blocks that stay in the cache.

    The rows are start to stop - 1 if `whole`, and batch[start:stop] otherwise. `given`
    is a result of `contributions.flat`. `beside` has table, shifted and factor, and
    then X, theta, factor, links and memory of `short_tiles.add_clipped` for further
    columns; X may have none. `out` has the sums, the total, and the sums of the further
    columns. Return their excess.
    """
    table, shifted, factor, X, theta, of_further, links, memory = beside
    sums, total, further = out
    n_outputs, (numbers, local, firsts, seconds) = table.shape[0], memory
    excess, size = 0, min(len(local), 512)
    scores = np.empty(n_outputs * size)
    for first in range(start, stop, size):
        n_rows = min(size, stop - first)
        residuals = scores[: n_outputs * n_rows].reshape((n_outputs, n_rows))
        if whole:
            for i in range(n_rows):
                numbers[i] = first + i
        rows = numbers[:n_rows] if whole else batch[first : first + n_rows]
        _margins(codes, n_categories, rows, table, shifted, factor, residuals)
        if X.shape[1]:
            block = X[first : first + n_rows] if whole else X
            within = local[:n_rows] if whole else batch[first:stop]
            pairs = firsts[: (n_rows + 1) // 2], seconds[: (n_rows + 1) // 2]
            place_pairs(within[:n_rows], X.shape[1], pairs[0], pairs[1])
            more = np.empty((n_outputs, n_rows))
            block_margins(block, within, theta, of_further, not whole, links, more)
            residuals += more
        call_contribution(residuals, rows, given)
        _add_to_levels(codes, n_categories, rows, residuals, sums, total)
        if X.shape[1]:
            excess += add_pairs(block, pairs[0], pairs[1], residuals, links, further)
    return excess
