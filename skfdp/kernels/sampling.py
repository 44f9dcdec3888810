"""Compiled samplers: turn random words into rounded normals and Poisson batches.

A word is 64 random bits. No table look-up depends on a word, loops handle four words at
once, and the only branch is for normals that float64 cannot round with certainty. The
code uses only additions, multiplications, divisions and square roots, which round
alike on every machine, in vectors and in scalars. fastmath would break that.

AVX2 cannot convert packed integers to floats. Integers become floats by or-ing the bits
of 2**52 into them; floats become integers by adding 2**52.
"""

import numpy as np

from skfdp.kernels.compiling import kernel, shared, twin_of
from skfdp.kernels.vectors import bits_of, float_of

# Words per chunk, so that intermediate results stay in the first-level cache.
_CHUNK = 256
_PLUS_TWO_TO_52 = np.uint64(0x4330000000000000)
_TWO_TO_52 = 2.0**52
_ONE = np.uint64(0x3FF0000000000000)
_SQRT_HALF = np.uint64(0x3FE6A09E667F3BCD)
_FRACTION = np.uint64(2**52 - 1)
# The second word of a pair has one bit for the swap, two for the signs, 50 for the
# angle and 11 for the radius. All constants are typed, because numba computes in
# float64 if one operand is uint64 and the other is a Python int.
_ANGLE = np.uint64((2**50 - 1) << 11)
_RADIUS = np.uint64(2**11 - 1)
_LOW = np.uint64(2**32 - 1)
_EXPONENT = np.uint64(1023 + 64)
_0, _1, _2, _9, _11 = (np.uint64(n) for n in (0, 1, 2, 9, 11))
_32, _52, _61, _62, _63 = (np.uint64(n) for n in (32, 52, 61, 62, 63))
# The error of a computed normal is at most `_OF_ITSELF` times the normal plus
# `_OF_RADIUS` times its radius. A rounding is certain if the distance to the nearest
# integer plus this error is at most `_CERTAIN`. Two words are enough for radii between
# `_NEAR` and `_FAR` (docs/theory/exact_release.rst, The theorem).
_OF_ITSELF = 13 * 2.0**-53
_OF_RADIUS = 3.5 * 2.0**-53
_CERTAIN = 0.5 - 2.0**-50
_NEAR, _FAR = 2.0**-11, 6.2
# Poisson sampling computes -log(u) from one word. If -log(u) is at most `_FAR_GAP`, the
# error is at most `_GAP_ERROR`. If -log(u) is larger, one word is not enough.
_GAP_ERROR, _FAR_GAP = 2.0**-35, 20.0


@kernel(error_model="numpy")
def _add_rounded_normals(total, std, words, unsure):
    n_pairs = words.size // 2
    if 2 * n_pairs < total.size:
        raise ValueError("words must hold a word for each entry of total.")
    size = min(n_pairs, _CHUNK)
    cosines, sines, radii = np.empty(size), np.empty(size), np.empty(size)
    noise, n_unsure = np.empty(2 * size, np.int64), 0
    for start in range(0, n_pairs, _CHUNK):
        n, n_new = min(_CHUNK, n_pairs - start), 0
        chunk = words[2 * start : 2 * (start + n)]
        for i in range(n):
            low = _low_bits(chunk[2 * i], chunk[2 * i + 1])
            radii[i] = _exponential_of(chunk[2 * i] >> _32, low, 2.0**-11)
        for i in range(n):
            x, y, radius = _point(radii[i], chunk[2 * i + 1])
            cosines[i], from_x = _rounded_normal(std * x)
            sines[i], from_y = _rounded_normal(std * y)
            farthest = from_x if from_x > from_y else from_y
            farthest += _OF_RADIUS * std * radius
            radii[i] = farthest if _NEAR < radius < _FAR else 1.0
            n_new += radii[i] > _CERTAIN
        for i in range(n):
            x, y = bits_of(cosines[i]), bits_of(sines[i])
            one, other = _signed(x, y, chunk[2 * i + 1])
            noise[2 * i], noise[2 * i + 1] = np.int64(one), np.int64(other)
        if n_new:
            for i in range(n):
                if radii[i] > _CERTAIN:
                    noise[2 * i] = noise[2 * i + 1] = 0
                    unsure[n_unsure] = start + i
                    n_unsure += 1
        some = total[2 * start : 2 * (start + n)]
        for i in range(some.size):
            some[i] += noise[i]
    return n_unsure


@twin_of(_add_rounded_normals)
def add_rounded_normals(total, std, words, unsure):
    """Add ``floor(std * x + 1/2)`` to each entry of `total`, for standard normal x.

    total is int64 (n,), and sums are modulo 2**64. std is at most 2**40 and
    ``abs(x) < 10.3``, so the noise is below 2**52. Up to this size adding 2**52 rounds
    to integers.

    words uint64 (n,), or (n + 1,) for odd n: words 2i and 2i + 1 make the normals of
    entries 2i and 2i + 1. The second normal of the last pair is not used if n is odd.

    Return the number of pairs that cannot be rounded with certainty from their two
    words in float64. Nothing is added for these pairs. Their numbers i are written to
    the beginning of unsure, int64, which is half as long as words.
    """
    if words.size // 2 * 2 < total.size:
        raise ValueError("words must hold a word for each entry of total.")
    first, second = words[: words.size // 2 * 2].reshape(-1, 2).T
    logarithms = _exponential_of(first >> _32, _low_bits(first, second), 2.0**-11)
    x, y, radius = _point(logarithms, second)
    (x, from_x), (y, from_y) = _rounded_normal(std * x), _rounded_normal(std * y)
    farthest = np.maximum(from_x, from_y) + _OF_RADIUS * std * radius
    noise = np.stack(_signed(bits_of(x), bits_of(y), second), axis=1).view(np.int64)
    sure = (_NEAR < radius) & (radius < _FAR) & (farthest <= _CERTAIN)
    found = np.flatnonzero(~sure)
    noise[found], unsure[: len(found)] = 0, found
    total += noise.reshape(-1)[: total.size]
    return len(found)


@shared
def _low_bits(first, second):
    """Return the last 43 of the 75 bits of u, of which 11 are the second word's."""
    return (first & _LOW) << _11 | second & _RADIUS


@shared
def _rounded_normal(x):
    """Return the integer nearest to x, plus 2**52, and the distance of x from it.

    The distance includes the relative error of a computed normal.
    """
    rounded = x + _TWO_TO_52
    return rounded, abs(x - (rounded - _TWO_TO_52)) + _OF_ITSELF * x


@shared
def _signed(x, y, second):
    """Return the noise of a pair, as uint64 modulo 2**64.

    x and y are the bits of the rounded numbers. The first bit of the second word
    decides whether they are exchanged. The next two bits decide their signs.
    """
    swap = (x ^ y) & (_0 - (second >> _63))
    sign, other = _0 - (second >> _62 & _1), _0 - (second >> _61 & _1)
    one = ((x ^ swap) & _FRACTION ^ sign) - sign
    return one, ((y ^ swap) & _FRACTION ^ other) - other


@shared
def _point(logarithm, second):
    """Return a point of the first octant and its radius, by Box and Muller.

    A pair of normals is ``sqrt(-2 log(u))`` times a point of the unit circle.
    `logarithm` is ``-log(u)``, for the 75 bits of u that `_low_bits` describes. The
    angle has the bits of the second word before its last 11 bits, plus half of the last
    place, so that it is never 0. The first three bits are for `_signed`.

    The results are the radius times the cosine, the radius times the sine, and the
    radius. Sine and cosine are Taylor series in the angle, which is at most pi/4. The
    relative error of a normal is below 11 * 2**-53 (:ref:`sampler-theorem`).
    """
    radius = np.sqrt(2.0 * logarithm)
    angle = float_of((second & _ANGLE) >> _9 | _2 | _ONE) - 1.0
    angle = angle * 0.7853981633974483
    z = angle * angle
    w = z * z
    even = ((1 / 355687428096000 * w + 1 / 6227020800) * w + 1 / 362880) * w
    odd = ((1 / 1307674368000 * w + 1 / 39916800) * w + 1 / 5040) * w + 1 / 6
    even = (even + 1 / 120) * w
    sine = radius * (angle + angle * (even - odd * z))
    even = ((1 / 20922789888000 * w + 1 / 479001600) * w + 1 / 40320) * w
    odd = ((1 / 87178291200 * w + 1 / 3628800) * w + 1 / 720) * w + 0.5
    even = (even + 1 / 24) * w
    cosine = radius * (1.0 + (even - odd * z))
    return cosine, sine, radius


@shared
def _exponential_of(high, low, scale):
    """Return ``-log(u)`` for uniform u.

    The uniform number is ``u = (high * 2**32 + (low + 1/2) * scale) * 2**-64``. `high`
    is a uint64 below 2**32. `low` is a uint64 below 2**43, with ``(low + 1/2) * scale``
    below 2**32. The result is positive for every word (:ref:`sampler-theorem`).

    u is written as ``2**-n * (1 + f)``, with 1 + f between sqrt(1/2) and sqrt(2). Then
    ``log(1 + f) = 2 artanh(f / (2 + f))`` is computed by its series. The rounding error
    of u is added to f. Without it, u would have few distinct values near 1.
    """
    h = (float_of(high | _PLUS_TWO_TO_52) - _TWO_TO_52) * 4294967296.0
    tail = (float_of(low | _PLUS_TWO_TO_52) - _TWO_TO_52 + 0.5) * scale
    u = h + tail
    error = (h - u + tail) * 2.0**-64  # exact, as h = 0 or h > tail
    shifted = bits_of(u) + (_ONE - _SQRT_HALF)
    m = float_of(_EXPONENT - (shifted >> _52) | _PLUS_TWO_TO_52) - _TWO_TO_52
    # For m > 0, the error is not scaled by 2**m as u is. The result is then above 0.34,
    # so that the error is only a rounding error.
    f = float_of((shifted & _FRACTION) + _SQRT_HALF) - 1.0 + error
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    even = ((((2 / 17) * w + 2 / 13) * w + 2 / 9) * w + 2 / 5) * w + 2.0
    odd = ((((2 / 19) * w + 2 / 15) * w + 2 / 11) * w + 2 / 7) * w + 2 / 3
    log = s * (odd * z + even)
    return m * 0.6931471803691238 + (m * 1.9082149292705877e-10 - log)


@kernel(error_model="numpy")
def _poisson_members(words, pace, last, n_rows, members):
    size = min(words.size, _CHUNK)
    gaps, open_ends = np.empty(size), np.empty(size)
    edge = _GAP_ERROR / pace
    for start in range(0, words.size, _CHUNK):
        n, n_unsure = min(_CHUNK, words.size - start), 0
        for i in range(n):
            word = words[start + i]
            gaps[i] = _exponential_of(word >> _32, word & _LOW, 1.0)
        for i in range(n):
            waited = gaps[i]
            gap = waited / pace
            # The error of -log(u) is below a tenth of -log(u) for every word, so a gap
            # of at least 2 * n_rows certainly ends after the last row.
            open_end = waited > _FAR_GAP and pace < np.inf and gap < 2.0 * n_rows
            whole = np.floor(gap)
            over, under = gap - whole, 1.0 - (gap - whole)
            from_edge = over if whole > 0 and over < under else under
            unsure = open_end or gap < n_rows + edge and from_edge <= edge
            open_ends[i] = 1.0 if unsure else 0.0
            n_unsure += unsure
            gaps[i] = gap if gap < n_rows else n_rows
        n_sure = n
        if n_unsure:
            n_sure = 0
            while open_ends[n_sure] == 0.0:
                n_sure += 1
        some = members[start : start + n]
        for i in range(n_sure):
            last += 1 + np.int64(gaps[i])
            some[i] = last
        if last >= n_rows:
            while n_sure > 0 and some[n_sure - 1] >= n_rows:
                n_sure -= 1
            return start + n_sure, False
        if n_sure < n:
            return start + n_sure, True
    return words.size, False


@twin_of(_poisson_members)
def poisson_members(words, pace, last, n_rows, members):
    """Write members of a Poisson batch after row `last`; stop if a gap is uncertain.

    The next member is ``1 + floor(-log(u) / pace)`` rows further on, where the first 64
    bits of u are a word. pace is ``-log(1 - rate)``; a pace of 0 selects no further
    row, and infinity selects all rows. last is the row of the previous member, -1 at
    the start. n_rows is at most 2**53; longer gaps are cut to n_rows, so that nothing
    overflows.

    Return two results: the number of members, and whether the next gap is uncertain.
    Each member used one word. A gap is uncertain if it cannot be determined from its
    word in float64. If no gap is uncertain and there are fewer members than words, the
    end of the rows was reached. members is int64, at least as long as words; its
    entries after the last member are undefined.
    """
    waited = _exponential_of(words >> _32, words & _LOW, 1.0)
    edge, gap = np.float64(_GAP_ERROR) / pace, waited / pace
    over = gap - np.floor(gap)
    from_edge = np.where(gap >= 1, np.minimum(over, 1.0 - over), 1.0 - over)
    unsure = (gap < n_rows + edge) & (from_edge <= edge)
    unsure |= (waited > _FAR_GAP) & (pace < np.inf) & (gap < 2.0 * n_rows)
    sure = int(unsure.argmax()) if unsure.any() else words.size
    # Steps to a row after the last one do not matter, and their sums might overflow.
    steps = 1 + np.minimum(gap[:sure], n_rows).astype(np.int64)
    within = np.searchsorted(steps.cumsum(dtype=np.float64), 2.0 * n_rows) + 1
    found = last + steps[:within].cumsum()
    members[: len(found)] = found
    inside = int(np.searchsorted(found, n_rows))
    if inside < len(found):
        return inside, False
    return sure, sure < words.size
