"""Exponentials that round alike in vectors and in scalars."""

import numpy as np

from skfdp.kernels.compiling import part


@part
def exponentials(values):
    """Replace each entry of a contiguous array, at most 709, by its exponential.

    Written in additions and multiplications, which round alike in vectors and scalars:
    a vectorised library function would round the last entries otherwise than the rest.
    Error below three units in the last place; exp(-708) below -708; NaN stays NaN.
    """
    flat = values.ravel()
    power = np.empty(flat.size)
    bits = power.view(np.int64)
    for i in range(flat.size):
        x = flat[i]
        x = -708.0 if x < -708.0 else x
        # Adding 1.5 * 2**52 leaves the nearest integer in the low bits.
        shifted = x * 1.4426950408889634 + 6755399441055744.0
        power[i] = shifted
        n = shifted - 6755399441055744.0
        r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
        # Two short chains instead of a long one: each step waits for the one before.
        z = r * r
        even = (1 / 479001600 * z + 1 / 3628800) * z + 1 / 40320
        odd = (1 / 39916800 * z + 1 / 362880) * z + 1 / 5040
        even = ((even * z + 1 / 720) * z + 1 / 24) * z + 0.5
        odd = (odd * z + 1 / 120) * z + 1 / 6
        flat[i] = (even + odd * r) * z + r + 1.0
    for i in range(flat.size):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(flat.size):
        flat[i] *= power[i]
