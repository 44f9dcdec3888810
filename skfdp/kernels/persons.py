"""The compiled contribution of a person to a step: gradients are summed, then clipped.

A person contributes the clipped sum, over the person's rows, of the outer products
``r (x) x``. Here x is a row, and r holds the residuals of the row times its public
weight. Terms of different rows may cancel.
The norm is therefore computed from the sum itself: the residuals are truncated to
integers (`_as_integers`), so that their sum with the rows is exact, and its norm is
rounded up. The sum times a factor is truncated toward zero, to the grid of the release.
Maxima and sums of integers do not depend on the order of the rows, on the rest of the
batch, or on the format of the rows (:ref:`persons-and-weights`).

Shapes, for P persons, B rows, K outputs and D columns: rows int64 (B,) holds the row
numbers of one person after the other; ends int64 (P + 1,) holds where each person
starts and stops in rows. residuals float64 (K, B) is overwritten. Output arrays come
last.
"""

import math

import numpy as np

from skfdp.kernels import tiles
from skfdp.kernels.compiling import kernel, shared, twin_of
from skfdp.kernels.contributions import entry
from skfdp.kernels.sparse import integers_of

# Entries of a person's sum of integers are at most about 2**50: exact in float64.
_BITS = 50
# Smaller gradients count as zero, because their grid step might underflow.
_LEAST = 2.0**-900
# fastmath flags for sums of integers, which are exact in any order.
_EXACT = {"reassoc", "contract", "nsz"}


@kernel(error_model="numpy")
def _add_dense(X, rows, ends, residuals, clip, memory, out):
    n_outputs, n_columns = out.shape
    step = _step(n_outputs)
    for person in range(ends.shape[0] - 1):
        start, stop = ends[person], ends[person + 1]
        unit = _as_integers(rows, start, stop, clip.squared_norms, residuals)
        if unit > 0.0:
            memory[:] = 0.0
            own = rows[start:stop], residuals[:, start:stop]
            tiles._add_outer_products(X, *own, memory)
            factor = _factor(step * math.sqrt(_square(memory, 1 / step)), unit, clip)
            for k in range(n_outputs):
                for j in range(n_columns):
                    out[k, j] += np.trunc(memory[k, j] * factor)


@twin_of(_add_dense)
def add_dense(X, rows, ends, residuals, clip, memory, out):
    """Add the clipped contribution of each person to out.

    X int16 (n, W) holds the rows in the first D of W columns; residuals may be NaN or
    infinite. memory float64 (K, D) is for the sum of one person; out float64 (K, D)
    holds integers below 2**53.

    Notes
    -----
    **Guarantees.** For each person, integers with an L2 norm of at most ``clip_norm /
    unit`` are added. They depend only on the person's rows, not on their order. They
    are 0 if one of the person's residuals is NaN or infinite.
    """
    out += _contributions(X[rows, : out.shape[1]], rows, ends, residuals, clip).sum(1)


@kernel(error_model="numpy")
def _add_sparse(csr, shift, rows, ends, residuals, clip, memory, out):
    sums, columns, known, n_shifted = memory
    n_outputs = out.shape[1]
    moved, step = np.empty(n_outputs, np.int64), _step(n_outputs)
    for person in range(ends.shape[0] - 1):
        start, stop = ends[person], ends[person + 1]
        unit = _as_integers(rows, start, stop, clip.squared_norms, residuals)
        if unit > 0.0:
            of_person = rows, start, stop, residuals, sums, columns, known, moved
            n_columns = _add_sparse_rows(csr, *of_person, n_shifted)
            used = columns[:n_columns]
            square = _shifted_square(shift, moved, used, 1 / step, sums)
            factor = _factor(step * math.sqrt(square), unit, clip)
            for at in range(n_columns):
                j = columns[at]
                for k in range(n_outputs):
                    out[j, k] += np.int64(np.trunc(np.float64(sums[j, k]) * factor))
                    sums[j, k] = 0
                known[j] = at < n_shifted


@twin_of(_add_sparse)
def add_sparse(csr, shift, rows, ends, residuals, clip, memory, out):
    """Do what `add_dense` does, for rows that are CSR rows minus a dense shift.

    csr is data int16, indices int32 and indptr int64; shift int64 (D,); out int64
    (D, K). memory is a tuple of four:

    * sums, int64 (D, K), which are zero before and after the call;
    * columns, int64 (D,), a list of the columns in which the sum of a person may not be
      zero. It starts with all columns whose shift is not zero;
    * known, bool (D,), whether each column is in this list;
    * the number of columns whose shift is not zero.
    """
    x = integers_of(*csr, rows, len(shift)).toarray() - shift
    found = _contributions(x, rows, ends, residuals, clip).sum(axis=1)
    out += found.T.astype(np.int64)


def _contributions(x, rows, ends, residuals, clip):
    """Return the contributions of persons, float64 (K, P, D), as the kernels do."""
    counts = np.diff(ends)
    starts, counts = ends[:-1][counts > 0], counts[counts > 0]
    squares = np.maximum.reduceat(clip.squared_norms.of(rows), starts)
    sizes = np.abs(residuals).max(axis=0)
    largest = np.maximum.reduceat(sizes, starts)  # NaN if a residual is NaN
    top = np.sqrt(np.maximum(squares, 1.0)) * counts * largest
    factor = np.where((top > _LEAST) & (top < np.inf), 2.0**_BITS / top, 0.0)
    own = np.repeat(factor, counts)
    integers = np.where(own > 0.0, np.trunc(residuals * own), 0.0)
    sums = np.add.reduceat(integers[:, :, None] * x, starts, axis=1)
    step = _step(len(residuals))
    upper = np.ceil(np.abs(sums) * (1 / step))
    norms = step * np.sqrt((upper * upper).sum(axis=(0, 2)))
    room = clip.clip_norm / clip.unit * (1 - 1e-9)
    scale = np.minimum(1 / factor / clip.unit, room / norms)
    scale[norms == 0.0] = 0.0
    return np.trunc(sums * scale[:, None])


@kernel(error_model="numpy")
def _as_integers(rows, start, stop, squared_norms, residuals):
    """Truncate a person's residuals to integers, and return the grid step.

    The step is 0, and the residuals undefined, if the person contributes nothing: a
    residual is not finite, or the gradient is too small or too large. Otherwise the
    product of the number of rows, the norm of the longest row and the largest integer
    is at most ``2**_BITS``, up to a relative 1e-15.
    """
    square, largest, finite = 1.0, 0.0, True
    for i in range(start, stop):
        square = max(square, entry(squared_norms, rows[i]))
    for k in range(residuals.shape[0]):
        for i in range(start, stop):
            size = abs(residuals[k, i])
            finite = finite and size < np.inf
            largest = size if size > largest else largest
    top = math.sqrt(square) * (stop - start) * largest
    if not (finite and _LEAST < top < np.inf):
        return 0.0
    factor = 2.0**_BITS / top
    for k in range(residuals.shape[0]):
        for i in range(start, stop):
            residuals[k, i] = np.trunc(residuals[k, i] * factor)
    return 1 / factor


@shared
def _step(n_outputs):
    """Return the grid step to which `_square` rounds up the entries of a sum.

    The norm of a sum is at most ``2**_BITS sqrt(K)``, which is 2**24 of these steps.
    So the squares of the rounded entries sum to less than 2**53 squared steps. This sum
    is exact in any order.
    """
    return 2.0 ** (_BITS - 24) * math.sqrt(n_outputs)


@kernel(error_model="numpy")
def _factor(norm, unit, clip):
    """Return the factor that turns a person's sum of integers into the contribution.

    The contribution is truncated afterwards. norm is the norm of the sum, rounded up;
    unit is the grid step of the integers.
    """
    if norm == 0.0:
        return 0.0
    # 1e-9 outweighs every rounding error of the norm and of the products.
    room = clip.clip_norm / clip.unit * (1 - 1e-9)
    return min(unit / clip.unit, room / norm)


@kernel(fastmath=_EXACT)
def _square(total, inverse):
    """Return the squared norm of a sum in squared grid steps, with entries rounded up.

    inverse is 1 over the grid step of `_step`.
    """
    square = 0.0
    for k in range(total.shape[0]):
        for j in range(total.shape[1]):
            size = np.ceil(abs(total[k, j]) * inverse)
            square += size * size
    return square


@kernel()
def _add_sparse_rows(
    csr, rows, start, stop, residuals, sums, columns, known, moved, n_columns
):
    """Add one person's CSR rows, multiplied by integer residuals, to sums.

    The sums may wrap around. Columns of these rows that are not yet among the first
    n_columns of `columns` are appended there. Return the new number of columns. The sum
    of the residuals is written to moved, int64 (K,).
    """
    data, indices, indptr = csr
    n_outputs = residuals.shape[0]
    integers = np.empty(n_outputs, np.int64)
    moved[:] = 0
    for i in range(start, stop):
        for k in range(n_outputs):
            integers[k] = np.int64(residuals[k, i])
            moved[k] += integers[k]
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            j = indices[place]
            if not known[j]:
                known[j] = True
                columns[n_columns] = j
                n_columns += 1
            value, column = np.int64(data[place]), sums[j]
            for k in range(n_outputs):
                column[k] += value * integers[k]
    return n_columns


@kernel()
def _shifted_square(shift, moved, columns, inverse, sums):
    """Correct one person's sums for the shift, and return their squared norm.

    The outer product of shift and `moved` is subtracted from the sums. `moved` is the
    sum of the person's residuals. The norm is computed as in `_square`.
    """
    square = 0.0
    for at in range(len(columns)):
        j = columns[at]
        for k in range(len(moved)):
            # Both terms may have wrapped around, but the difference fits into int64.
            sums[j, k] -= shift[j] * moved[k]
            size = np.ceil(abs(np.float64(sums[j, k])) * inverse)
            square += size * size
    return square
