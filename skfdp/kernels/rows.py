"""The compiled row map: dense rows cut to a norm, bit for bit what `rows` defines.

Products must round as NumPy's do on the stored entries of CSR rows; only exact sums may
be reordered.
"""

import math

import numpy as np

from skfdp.kernels.compiling import kernel


@kernel()
def shorten(rows, bound, normalize, unit, out):
    """Divide each row by its norm, or by `bound` if it is shorter; see `RowMap`.

    rows, out float64 (n, D); unit is that of the squares, whose sums are then exact.
    """
    squares = np.empty(rows.shape[1])
    for i in range(rows.shape[0]):
        row, scaled = rows[i], out[i]
        # Powers of two are exact and keep the squares from over- and underflow. Beyond
        # float64 as one factor they are two.
        exponent = -math.frexp(_largest(row))[1]
        near = min(max(exponent, -999), 999)
        first, second = math.ldexp(1.0, near), math.ldexp(1.0, exponent - near)
        for j in range(row.shape[0]):
            scaled[j] = row[j] * first * second
            squares[j] = np.ceil(scaled[j] * scaled[j] * unit)
        longest = math.sqrt(_sum(squares) / unit)
        if not normalize:
            longest = max(longest, math.ldexp(bound, exponent))
        if longest > 0:
            for j in range(row.shape[0]):
                scaled[j] /= longest


@kernel(fastmath={"reassoc"})
def _sum(integers):
    """Return an exact sum, in any order."""
    total = 0.0
    for j in range(integers.shape[0]):
        total += integers[j]
    return total


@kernel(fastmath={"nnan", "nsz"})
def _largest(row):
    """Return the largest absolute entry of a finite row."""
    largest = 0.0
    for j in range(row.shape[0]):
        size = abs(row[j])
        largest = size if size > largest else largest
    return largest
