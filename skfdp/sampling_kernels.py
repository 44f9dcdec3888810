"""Compiled samplers: from random words to rounded normals and to Poisson batches.

A word is 64 random bits. No branch and no table depends on one, and loops handle four
at once: the time of a normal does not tell its value. Everything is additions,
multiplications, divisions and square roots, which round alike on every machine, in
vectors and in scalars; there is no fastmath, which would lift that.

Integers become floats by or-ing the bits of 2**52 into them, and floats integers by
adding 1.5 * 2**52, since AVX2 has no packed conversion. What is stored as one and read
as the other goes through memory, in loops of its own; LLVM vectorises each of them.
"""

import math

import numpy as np

from skfdp.compiling import kernel

# What is in the making stays in the first-level cache.
_CHUNK = 256
_PLUS_TWO_TO_52 = np.uint64(0x4330000000000000)
_TWO_TO_52 = 2.0**52
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = np.int64(0x4338000000000000)
_ONE = np.uint64(0x3FF0000000000000)
_SQRT_HALF = np.uint64(0x3FE6A09E667F3BCD)
_FRACTION = np.uint64(2**52 - 1)
_SIGN = np.uint64(2**63)
# Bits of the second word of a pair: swap and two signs, 50 of the angle, 11 of the
# radius. All constants are typed: uint64 with a Python int would become float64.
_ANGLE = np.uint64((2**50 - 1) << 11)
_RADIUS = np.uint64(2**11 - 1)
_LOW = np.uint64(2**32 - 1)
_EXPONENT = np.uint64(1023 + 64)
_0, _1, _2, _9, _11 = (np.uint64(n) for n in (0, 1, 2, 9, 11))
_32, _52, _63 = (np.uint64(n) for n in (32, 52, 63))


@kernel(error_model="numpy")
def add_rounded_normals(total, std, words):
    """Add ``floor(std * x + 1/2)`` to each entry of `total`, x standard normal.

    Parameters
    ----------
    total : int64 (n,)
        Changed in place; sums are modulo 2**64.
    std : float
        At most 2**40: ``abs(x) < 10.3``, so that the noise is below the 2**51 up to
        which adding 1.5 * 2**52 is exact.
    words : uint64 (n,), or (n + 1,) for odd n
        Words 2i and 2i + 1 make the normals of entries 2i and 2i + 1, wherever a call
        begins. The second normal of the last pair is not used if n is odd.
    """
    n_pairs = words.size // 2
    if 2 * n_pairs < total.size:
        raise ValueError("there must be a word for each entry.")
    size = min(n_pairs, _CHUNK)
    scratch = np.empty((4, size))
    noise = np.empty(2 * size)
    for start in range(0, n_pairs, _CHUNK):
        n = min(_CHUNK, n_pairs - start)
        _normals(words[2 * start : 2 * (start + n)], scratch, noise[: 2 * n])
        part = total[2 * start : 2 * (start + n)]
        for i in range(part.size):
            noise[i] = math.floor(std * noise[i] + 0.5) + _ROUNDER
        bits = noise.view(np.int64)
        for i in range(part.size):
            part[i] += bits[i] - _ROUNDER_BITS


@kernel(error_model="numpy")
def _normals(words, scratch, out):
    """Fill `out` with one normal a word, by the method of Box and Muller.

    A pair is ``sqrt(-2 log(u))`` times a point of the unit circle. With first word A
    and second word B,

    * ``u = (A * 2**11 + B % 2**11 + 1/2) * 2**-75``: the bits that the angle can spare
      keep large radii from lying apart (docs/theory/exact_release.rst, Limits);
    * the 50 bits of B above them, and half a unit, are the angle within one eighth of
      the circle, exactly, so that it is never 0;
    * the last three bits swap cosine and sine and choose their signs.

    Sine and cosine are Taylor series in the angle, at most pi/4. Error of a normal
    below five units in the last place.
    """
    n = words.size // 2
    high, low, sine, spare = (
        scratch[0, :n],
        scratch[1, :n],
        scratch[2, :n],
        scratch[3, :n],
    )
    high_bits, low_bits = high.view(np.uint64), low.view(np.uint64)
    for i in range(n):
        first, second = words[2 * i], words[2 * i + 1]
        high_bits[i] = first >> _32 | _PLUS_TWO_TO_52
        low_bits[i] = (first & _LOW) << _11 | second & _RADIUS | _PLUS_TWO_TO_52
    _minus_logarithms(high, low, 2.0**-11, spare)
    sine_bits = sine.view(np.uint64)
    for i in range(n):
        sine_bits[i] = (words[2 * i + 1] & _ANGLE) >> _9 | _2 | _ONE
    for i in range(n):
        radius = math.sqrt(2.0 * high[i])
        angle = (sine[i] - 1.0) * 0.7853981633974483
        z = angle * angle
        w = z * z
        even = ((1 / 355687428096000 * w + 1 / 6227020800) * w + 1 / 362880) * w
        odd = ((1 / 1307674368000 * w + 1 / 39916800) * w + 1 / 5040) * w + 1 / 6
        even = (even + 1 / 120) * w
        sine[i] = radius * (angle + angle * (even - odd * z))
        even = ((1 / 20922789888000 * w + 1 / 479001600) * w + 1 / 40320) * w
        odd = ((1 / 87178291200 * w + 1 / 3628800) * w + 1 / 720) * w + 0.5
        even = (even + 1 / 24) * w
        high[i] = radius * (1.0 + (even - odd * z))
    out_bits = out.view(np.uint64)
    for i in range(n):
        second = words[2 * i + 1]
        swap = (high_bits[i] ^ sine_bits[i]) & (_0 - (second >> _63))
        out_bits[2 * i] = high_bits[i] ^ swap ^ (second << _1 & _SIGN)
        out_bits[2 * i + 1] = sine_bits[i] ^ swap ^ (second << _2 & _SIGN)


@kernel(error_model="numpy")
def _minus_logarithms(high, low, scale, spare):
    """Replace `high` by ``-log(u)``, u uniform; `low` and `spare` are overwritten.

    ``u = (a * 2**32 + (b + 1/2) * scale) * 2**-64``, where `high` holds a + 2**52, a
    below 2**32, and `low` b + 2**52, b below 2**43, ``(b + 1/2) * scale`` below 2**32.
    The result is above 0 for every word. Error below four units in the last place.

    ``u = 2**-n * (1 + f)`` with 1 + f between sqrt(1/2) and sqrt(2), and
    ``log(1 + f) = 2 artanh(f / (2 + f))``, as a series. What u loses in rounding to 53
    bits is kept and added to f: otherwise u near 1 had few values, or was 1.
    """
    bits, counts = high.view(np.uint64), spare.view(np.uint64)
    for i in range(high.size):
        h = (high[i] - _TWO_TO_52) * 4294967296.0
        tail = (low[i] - _TWO_TO_52 + 0.5) * scale
        u = h + tail
        low[i] = (h - u + tail) * 2.0**-64  # exact, as h = 0 or h > tail
        high[i] = u
    for i in range(high.size):
        shifted = bits[i] + (_ONE - _SQRT_HALF)
        counts[i] = _EXPONENT - (shifted >> _52) | _PLUS_TWO_TO_52
        bits[i] = (shifted & _FRACTION) + _SQRT_HALF
    for i in range(high.size):
        n = spare[i] - _TWO_TO_52
        # For n > 0 the rest should be scaled by 2**n; it is then only a rounding error.
        f = high[i] - 1.0 + low[i]
        s = f / (f + 2.0)
        z = s * s
        w = z * z
        even = ((((2 / 17) * w + 2 / 13) * w + 2 / 9) * w + 2 / 5) * w + 2.0
        odd = ((((2 / 19) * w + 2 / 15) * w + 2 / 11) * w + 2 / 7) * w + 2 / 3
        log = s * (odd * z + even)
        high[i] = n * 0.6931471803691238 + (n * 1.9082149292705877e-10 - log)


@kernel(error_model="numpy")
def poisson_members(words, pace, last, n_rows, members):
    """Write the members of a Poisson batch that follow row `last`; return how many.

    The next member is ``1 + floor(-log(u) / pace)`` further on, u = (word + 1/2) /
    2**64. Fewer members than words mean that the end of the rows was reached.

    Parameters
    ----------
    words : uint64 (n,)
    pace : float
        ``-log(1 - rate)``; 0 and infinity give no further member and all rows.
    last : int
        Row of the member before, -1 for the first.
    n_rows : int
        At most 2**53. Gaps are cut there, so that nothing overflows.
    members : int64, n or more
        What is beyond the returned count is scratch.
    """
    size = min(words.size, _CHUNK)
    scratch = np.empty((3, size))
    for start in range(0, words.size, _CHUNK):
        n = min(_CHUNK, words.size - start)
        high, low, spare = scratch[0, :n], scratch[1, :n], scratch[2, :n]
        high_bits, low_bits = high.view(np.uint64), low.view(np.uint64)
        for i in range(n):
            high_bits[i] = words[start + i] >> _32 | _PLUS_TWO_TO_52
            low_bits[i] = words[start + i] & _LOW | _PLUS_TWO_TO_52
        _minus_logarithms(high, low, 1.0, spare)
        for i in range(n):
            gap = high[i] / pace
            high[i] = gap if gap < n_rows else n_rows
        part = members[start : start + n]
        for i in range(n):
            last += 1 + np.int64(high[i])
            part[i] = last
        if last >= n_rows:
            while n > 0 and part[n - 1] >= n_rows:
                n -= 1
            return start + n
    return words.size
