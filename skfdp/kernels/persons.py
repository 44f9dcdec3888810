"""The contribution of a person to a step, compiled: gradients summed, then clipped.

A person contributes the clipped sum of ``r (x) x`` over the person's rows, where r are
residuals times public weights. The rows' terms may cancel, so that the norm of the sum
has to come from the sum itself:

1. the residuals become integers, in a unit of the person's own (`_as_integers`);
2. the sum of integers times rows is exact, and its norm is rounded up (`clip_dense`,
   `clip_sparse`);
3. one factor for all residuals of the person makes the norm fit, and they are rounded
   once more, to the unit of the release (`_scale`).

Maxima and sums of integers do not depend on the order of the rows, on what else is in
the batch, or on the format of the rows; so neither does what a person contributes.

Shapes: rows int64 (B,), those of one person after the other, which begin and end in
them at ends, int64 (P + 1,); residuals float64 (K, B), changed in place: at last they
are integers, which times the rows are the contributions.
"""

import math

import numpy as np

from skfdp.kernels.compiling import kernel
from skfdp.kernels.tiles import powers

# Entries of a person's sum are below 2**51: exact in float64, in any order.
_BITS = 51
# Rounding moves a residual by half a unit, and by 2**-24 of it where it is large.
_HALF = 0.5 + 1e-6
_EXACT = {"reassoc", "contract", "nsz"}


@kernel(error_model="numpy")
def clip_dense(X, rows, ends, residuals, memory, clip):
    """Clip the contribution of each person and quantise it; X int16 (n, D).

    Parameters
    ----------
    X, rows, ends, residuals
        See above; residuals may be NaN or infinite.
    memory : float64 ndarray of shape (K, D)
        For the sum of one person.
    clip : contributions.Clip

    Notes
    -----
    **Guarantees.** The integer sum of ``residuals[:, i] (x) X[rows[i]]`` over the rows
    of a person has an L2 norm of at most ``clip_norm / unit``, and depends on these
    rows alone, in whatever order. All residuals of a person are 0 if one is not a
    number or infinite, or if rounding alone could reach the clip norm.
    """
    for person in range(ends.shape[0] - 1):
        start, stop = ends[person], ends[person + 1]
        bits, largest, length = _as_integers(residuals, rows, start, stop, clip)
        if largest > 0.0:
            square = _dense_square(X, rows, start, stop, residuals, memory)
            _scale(residuals, start, stop, bits, largest, length, square, clip)


@kernel(error_model="numpy")
def clip_sparse(csr, shift, rows, ends, residuals, memory, clip):
    """Do what `clip_dense` does for rows that are CSR rows minus a shift.

    Parameters
    ----------
    csr : tuple
        data int16, indices int32, indptr int64.
    shift : int64 ndarray of shape (D,)
    rows, ends, residuals, clip
        As for `clip_dense`.
    memory : tuple
        Zeros int64 (D, K), for sums, which are zero again at the end; the columns of a
        person's sum, int64 (D,), those with a shift first; whether each column is
        among them, bool (D,); and how many have a shift.
    """
    for person in range(ends.shape[0] - 1):
        start, stop = ends[person], ends[person + 1]
        bits, largest, length = _as_integers(residuals, rows, start, stop, clip)
        if largest > 0.0:
            square = _sparse_square(csr, shift, rows, start, stop, residuals, memory)
            _scale(residuals, start, stop, bits, largest, length, square, clip)


@kernel(error_model="numpy")
def _as_integers(residuals, rows, start, stop, clip):
    """Turn a person's residuals into integers, of a unit that is a power of two.

    Returns the power, the largest integer (0: the person contributes nothing), and the
    sum of the rows' norms, rounded up. The integers times the rows' norms sum up to
    less than ``2**_BITS`` for each output.
    """
    n_outputs = residuals.shape[0]
    largest, longest, length, finite = 0.0, 1.0, 0.0, True
    for i in range(start, stop):
        size = np.ceil(math.sqrt(clip.squared_norms[rows[i]]))
        longest = size if size > longest else longest
        length += size  # of integers: exact, whatever the order
    for k in range(n_outputs):
        for i in range(start, stop):
            size = abs(residuals[k, i])
            finite = finite and size < np.inf
            largest = size if size > largest else largest
    bits, first, second = 0, 0.0, 0.0
    if finite and largest > 0.0:
        bits = _BITS - math.frexp(float(stop - start))[1]
        bits -= math.frexp(longest)[1] + math.frexp(largest)[1]
        first, second = powers(bits)
    for k in range(n_outputs):
        for i in range(start, stop):
            r = residuals[k, i] if first > 0.0 else 0.0  # NaN times 0 is NaN
            residuals[k, i] = np.rint(r * first * second)
    return bits, np.rint(largest * first * second) if first > 0.0 else 0.0, length


@kernel()
def _inverse_step(n_outputs):
    """Return one over the unit in which norms are rounded up.

    The norm of a sum is below ``2**_BITS sqrt(K)``, hence 2**25 of these units: squares
    of entries that are rounded up sum up to less than 2**53, exact in any order.
    """
    return 2.0 ** (25 - _BITS) / math.sqrt(n_outputs)


@kernel(fastmath=_EXACT)
def _dense_square(X, rows, start, stop, residuals, memory):
    """Return the squared norm of a person's sum, rounded up, in squared steps."""
    n_outputs, n_columns = memory.shape
    for k in range(n_outputs):
        total = memory[k]
        total[:] = 0.0
        for i in range(start, stop):
            x, r = X[rows[i]], residuals[k, i]
            for j in range(n_columns):
                total[j] += r * x[j]
    inverse, square = _inverse_step(n_outputs), 0.0
    for k in range(n_outputs):
        for j in range(n_columns):
            size = np.ceil(abs(memory[k, j]) * inverse)
            square += size * size
    return square


@kernel()
def _sparse_square(csr, shift, rows, start, stop, residuals, memory):
    """Return what `_dense_square` returns for the shifted rows."""
    data, indices, indptr = csr
    sums, columns, known, n_shifted = memory
    n_outputs, n_columns = residuals.shape[0], n_shifted
    integers = np.empty(n_outputs, np.int64)
    moved = np.zeros(n_outputs, np.int64)
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
            for k in range(n_outputs):
                sums[j, k] += np.int64(data[place]) * integers[k]
    inverse, square = _inverse_step(n_outputs), 0.0
    for at in range(n_columns):
        j = columns[at]
        for k in range(n_outputs):
            # Both products may wrap around; the difference fits.
            own = sums[j, k] - shift[j] * moved[k]
            size = np.ceil(abs(np.float64(own)) * inverse)
            square += size * size
            sums[j, k] = 0
        known[j] = at < n_shifted
    return square


@kernel(error_model="numpy")
def _scale(residuals, start, stop, bits, largest, length, square, clip):
    """Scale a person's integers to the clip norm, and round to the unit of the release.

    Rounding lengthens the sum by at most unit sqrt(K) / 2 times the sum of the rows'
    norms, which is taken off the clip norm first. Where a residual would saturate, all
    of the person are scaled down: one alone could lengthen the sum.
    """
    n_outputs = residuals.shape[0]
    # 1e-9 outweighs every rounding error of the norm and of the factor.
    norm = math.sqrt(square) / _inverse_step(n_outputs) * (1 + 1e-9)
    room = clip.clip_norm - _HALF * clip.unit * math.sqrt(n_outputs) * length
    first, second = powers(-bits)
    factor = first / clip.unit * second
    factor = min(factor, room / clip.unit / norm)
    factor = min(factor, clip.largest / largest)
    for k in range(n_outputs):
        for i in range(start, stop):
            scaled = residuals[k, i] * factor if room > 0.0 else 0.0
            residuals[k, i] = np.rint(scaled)
