"""Compiled products of CSR rows minus a dense shift; the difference is never stored.

A row is ``x - shift``, where x is sparse, shift is dense and all entries are integers.
The results equal those of the dense kernels on the difference.

Shapes: data int16, indices int32 and indptr int64 are the CSR form of x; rows int64
(B,) is the batch. theta int16 and out int64 are (D, K), so that the entries of one
column of X are contiguous.
"""

import numpy as np
from scipy.sparse import csr_array

from skfdp.kernels.compiling import kernel, twin_of
from skfdp.kernels.vectors import prefetch

# The stored entries of a row belong to columns that are far apart in memory. A column
# is prefetched this many entries early.
_ENTRIES_AHEAD = 8


def integers_of(data, indices, indptr, rows, n_columns):
    """Return some rows x as CSR rows of int64, for the twins."""
    shape = len(indptr) - 1, n_columns
    x = csr_array((data, indices, indptr), shape=shape)
    return x[rows].astype(np.int64)


@kernel()
def _margins(data, indices, indptr, rows, theta, start, factor, total, out):
    n_outputs, weights, last = theta.shape[1], theta.ravel(), len(indices) - 1
    if n_outputs == 1:
        for i in range(rows.shape[0]):
            sum_of_row = -start[0]
            for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
                # Unsigned numbers need no test for negative ones.
                weight = weights[np.uint64(indices[place])]
                sum_of_row += np.int32(data[place]) * np.int32(weight)
            out[0, i] = factor * sum_of_row
        return
    for i in range(rows.shape[0]):
        for k in range(n_outputs):
            total[k] = -start[k]
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            prefetch(weights, indices[min(place + _ENTRIES_AHEAD, last)] * n_outputs)
            value = np.int32(data[place])
            column = theta[indices[place]]
            for k in range(n_outputs):
                total[k] += np.int32(value * np.int32(column[k]))
        for k in range(n_outputs):
            out[k, i] = factor * total[k]


@twin_of(_margins)
def margins(data, indices, indptr, rows, theta, start, factor, total, out):
    """Write out[:, i] = factor * (x[rows[i]] . theta - start).

    start int64 (K,) is ``shift . theta``. total (K,) is working memory: int32 if all
    results fit into int32, which halves the time, and int64 otherwise. Partial sums may
    wrap around.
    """
    x = integers_of(data, indices, indptr, rows, len(theta))
    out[:] = factor * (x @ theta.astype(np.int64) - start).T


@kernel()
def _add_outer_products(data, indices, indptr, rows, residuals, out, total):
    n_outputs = residuals.shape[0]
    integers, sums, last = np.empty(n_outputs, np.int32), out.ravel(), len(indices) - 1
    for i in range(rows.shape[0]):
        for k in range(n_outputs):
            integers[k] = np.int32(residuals[k, i])
            total[k] += integers[k]
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            early = indices[min(place + _ENTRIES_AHEAD, last)] * n_outputs
            for k in range(0, n_outputs, 8):
                prefetch(sums, early + k)
            value = np.int32(data[place])
            column = out[indices[place]]
            for k in range(n_outputs):
                column[k] += np.int64(value) * np.int64(integers[k])


@twin_of(_add_outer_products)
def add_outer_products(data, indices, indptr, rows, residuals, out, total):
    """Add the outer product of each row x and its residuals to out.

    residuals float64 (K, B) are integers. They are also added to total, int64 (K,).

    The sums may wrap around, as may the outer product of shift and total, which the
    caller subtracts from out. Their difference is exact, because it fits into int64.
    """
    x, integers = integers_of(data, indices, indptr, rows, len(out)), residuals.T
    out += x.T @ integers.astype(np.int64)
    total += integers.astype(np.int64).sum(axis=0)


@kernel()
def _add_by_columns(data, rows, starts, residuals, out, total):
    # The loop runs over columns, because the sums of a column are contiguous. A loop
    # over rows would write sums that are far apart in memory.
    for i in range(residuals.shape[0]):
        for k in range(residuals.shape[1]):
            total[k] += residuals[i, k]
    flat, last = residuals.ravel(), len(rows) - 1
    if residuals.shape[1] == 1:
        for j in range(out.shape[0]):
            sum_of_column = np.int64(0)
            for place in range(starts[j], starts[j + 1]):
                residual = flat[np.uint64(rows[place])]
                sum_of_column += np.int64(data[place]) * np.int64(residual)
            out[j, 0] += sum_of_column
        return
    for j in range(out.shape[0]):
        column = out[j]
        for place in range(starts[j], starts[j + 1]):
            prefetch(flat, rows[min(place + _ENTRIES_AHEAD, last)] * column.shape[0])
            value, residual = np.int32(data[place]), residuals[rows[place]]
            for k in range(column.shape[0]):
                column[k] += np.int64(value) * np.int64(residual[k])


@twin_of(_add_by_columns)
def add_by_columns(data, rows, starts, residuals, out, total):
    """Do what `add_outer_products` does, for a block of consecutive rows in CSC form.

    residuals int32 (B, K) has one row for each row of X.
    """
    columns = csr_array((data, rows, starts), shape=(len(out), len(residuals)))
    out += columns.astype(np.int64) @ residuals.astype(np.int64)
    total += residuals.sum(axis=0)
