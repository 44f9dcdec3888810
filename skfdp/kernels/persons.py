"""The contribution of a person to a step, compiled: gradients summed, then clipped.

A person contributes the clipped sum of ``r (x) x`` over the person's rows, where r are
residuals times public weights. The rows' terms may cancel, so that the norm of the sum
has to come from the sum itself:

1. the residuals become integers, in a unit of the person's own (`_as_integers`);
2. the sum of integers times rows is exact, and its norm is rounded up;
3. the sum times one factor fits the clip norm, and its entries are truncated toward
   zero, to the unit of the release, which makes none of them longer.

Maxima and sums of integers do not depend on the order of the rows, on what else is in
the batch, or on the format of the rows; so neither does what a person contributes.

Shapes: rows int64 (B,), those of one person after the other, which begin and end in
them at ends, int64 (P + 1,); residuals float64 (K, B), which are written over. Arrays
that are added to come last.
"""

import math

import numpy as np

from skfdp.kernels import tiles
from skfdp.kernels.compiling import kernel
from skfdp.kernels.contributions import entry

# Entries of a person's sum of integers are at most about 2**50: exact in float64.
_BITS = 50
# Gradients below this are nothing; their unit might not be a float64.
_LEAST = 2.0**-900
# Of what is exact: any order gives the same.
_EXACT = {"reassoc", "contract", "nsz"}


@kernel(error_model="numpy")
def add_dense(X, rows, ends, residuals, clip, memory, out):
    """Add the clipped contribution of each person.

    X int16 (n, W), the rows in the first D of W columns; residuals may be NaN or
    infinite. memory float64 (K, D), for the sum of one person; out float64 (K, D),
    integers that stay below 2**53.

    Notes
    -----
    **Guarantees.** What is added for a person are integers of an L2 norm of at most
    ``clip_norm / unit``, which depend on the person's rows alone, in whatever order. It
    is 0 if one of the residuals is not a number or infinite.
    """
    n_outputs, n_columns = out.shape
    step = _step(n_outputs)
    for person in range(ends.shape[0] - 1):
        start, stop = ends[person], ends[person + 1]
        unit = _as_integers(rows, start, stop, clip.squared_norms, residuals)
        if unit > 0.0:
            _add_rows(X, rows, start, stop, residuals, memory)
            factor = _factor(step * math.sqrt(_square(memory, 1 / step)), unit, clip)
            for k in range(n_outputs):
                for j in range(n_columns):
                    out[k, j] += np.trunc(memory[k, j] * factor)


@kernel(error_model="numpy")
def add_sparse(csr, shift, rows, ends, residuals, clip, memory, out):
    """Add what `add_dense` adds, for rows that are CSR rows minus a shift.

    csr is data int16, indices int32 and indptr int64; shift int64 (D,); out int64
    (D, K). memory has zeros int64 (D, K), for sums, which are zero again at the end;
    the columns of a person's sum, int64 (D,), those with a shift first; whether each
    column is among them, bool (D,); and how many have a shift.
    """
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


@kernel(error_model="numpy")
def _as_integers(rows, start, stop, squared_norms, residuals):
    """Turn a person's residuals into integers, and return their unit.

    The unit is 0, and nothing else holds, if the person contributes nothing. The number
    of rows times the longest row times the largest integer is at most ``2**_BITS``, up
    to a relative 1e-15.
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


@kernel()
def _step(n_outputs):
    """Return the unit in which norms are rounded up.

    The norm of a sum is at most ``2**_BITS sqrt(K)``, which are 2**24 of these units:
    squares of entries that are rounded up sum up to less than 2**53, exact in any
    order.
    """
    return 2.0 ** (_BITS - 24) * math.sqrt(n_outputs)


@kernel(error_model="numpy")
def _factor(norm, unit, clip):
    """Return what turns a sum of integers into the contribution, before truncation.

    norm is that of the sum, rounded up; unit is that of the integers.
    """
    if norm == 0.0:
        return 0.0
    # 1e-9 outweighs every rounding error of the norm and of the products.
    room = clip.clip_norm / clip.unit * (1 - 1e-9)
    return min(unit / clip.unit, room / norm)


@kernel()
def _add_rows(X, rows, start, stop, residuals, out):
    """Out = sum of integers times rows of one person."""
    out[:] = 0.0
    tiles.add_outer_products(X, rows[start:stop], residuals[:, start:stop], out)


@kernel(fastmath=_EXACT)
def _square(total, inverse):
    """Return the squared norm of a sum in squared steps, entries rounded up."""
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
    """Add integers times CSR rows of one person to sums, which may wrap around.

    Columns that are new are noted, and their number is returned. moved is the sum of
    the integers, int64 (K,).
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
    """Take the shift off the sums, and return the squared norm as `_square` does."""
    square = 0.0
    for at in range(len(columns)):
        j = columns[at]
        for k in range(len(moved)):
            # Both may have wrapped around; the difference fits.
            sums[j, k] -= shift[j] * moved[k]
            size = np.ceil(abs(np.float64(sums[j, k])) * inverse)
            square += size * size
    return square
