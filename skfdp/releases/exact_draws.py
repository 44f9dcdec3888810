"""Normals and gaps that float64 cannot round with certainty, in longer integers.

About one normal in two million comes here where the noise is 2**27 grid units, and one
in 17,000 at 2**34. Everything is fixed point: an integer n stands for
``n / 2**places``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

# Two words each; a pair that 32 of them leave open has a probability below 2**-1900.
_ROUNDS = 32
# More than the errors of the functions below, in units of the last place. A series has
# fewer than 700 terms, each off by two units at most; a logarithm has the error of
# log(2) up to 2,200 times. That is below 2**23.
_SLACK = 2**24


def rounded_pair(
    std: float, first: int, second: int, more_words: Callable[[int], list[int]]
) -> tuple[int, int]:
    """Return ``floor(std * x + 1/2)`` of both normals x that begin with two words.

    Parameters
    ----------
    std : float
        In grid units, at least 0.
    first, second : int
        The words of the pair, as `kernels.sampling.add_rounded_normals` reads them.
    more_words : callable
        ``more_words(n)`` returns n further random words of 64 bits.

    Returns
    -------
    pair : tuple of int
        Those of the two real numbers whose digits are the given words and then the
        further ones: as many are asked for as it takes to tell the integers.
    """
    radius, angle = first << 11 | second & (2**11 - 1), second >> 11 & (2**50 - 1)
    std_ratio, std_denominator = std.as_integer_ratio()
    for extra in range(64, 64 * _ROUNDS + 1, 64):
        further = more_words(2)
        radius, angle = radius << 64 | further[0], angle << 64 | further[1]
        if radius == 0:
            continue  # it has no bound yet
        places = extra + 64
        bounds = _bounds(radius, 75 + extra, angle, 50 + extra, places)
        # floor(v + 1/2); the denominator is a power of two, like that of the bounds
        bits = 2 * places + std_denominator.bit_length()
        ends = [(2 * std_ratio * end + (1 << bits - 1)) >> bits for end in bounds]
        if ends[0] == ends[1] and ends[2] == ends[3]:
            break
    else:
        raise RuntimeError(
            "no normal came of 4,096 random bits: the generator returns constants."
        )
    # Only a tie, which has probability 0, is rounded otherwise below 0.
    one, other = (ends[2], ends[0]) if second >> 63 else (ends[0], ends[2])
    return -one if second >> 62 & 1 else one, -other if second >> 61 & 1 else other


def exact_gap(word: int, pace: float, more_words: Callable[[int], list[int]]) -> int:
    """Return ``floor(-log(u) / pace)`` for a u whose digits begin with a word.

    Parameters
    ----------
    word : int
    pace : float
        Above 0 and finite.
    more_words : callable
        ``more_words(n)`` returns n further random words of 64 bits.
    """
    pace_ratio, pace_denominator = pace.as_integer_ratio()
    for bits in range(128, 64 * _ROUNDS + 1, 64):
        word = word << 64 | more_words(1)[0]
        if word:
            bounds = _logarithm_bounds(word, bits, bits + 64)
            ends = [x * pace_denominator // (pace_ratio << bits + 64) for x in bounds]
            if ends[0] == ends[1]:
                return ends[0]
    raise RuntimeError(
        "no gap came of 2,048 random bits: the generator returns constants."
    )


def _logarithm_bounds(numerator: int, bits: int, places: int) -> tuple[int, int]:
    """Return bounds of -log(u) for every u whose first bits are the numerator."""
    # It falls by log(1 + 1 / numerator), at most 1 / numerator, over the interval.
    highest = _minus_logarithm(numerator, bits, places) + _SLACK
    return max(0, highest - (1 << places) // numerator - 2 * _SLACK), highest


def _bounds(
    radius: int, radius_bits: int, angle: int, angle_bits: int, places: int
) -> tuple[int, int, int, int]:
    """Return two bounds of radius times cosine and two of radius times sine.

    They have 2 * `places` and hold for every u and every angle (in eighths of the
    circle) whose digits begin with the integers `radius` and `angle`.
    """
    lowest, highest = _logarithm_bounds(radius, radius_bits, places)
    long = math.isqrt(highest << places + 1) + 1
    short = math.isqrt(lowest << places + 1)
    start = angle * _eighth(places) >> angle_bits
    # Neither cosine nor sine moves further than the angle does in its interval.
    width = (1 << places >> angle_bits) + _SLACK
    cosine, sine = _cosine_and_sine(start, places)
    return (
        short * max(0, cosine - width),
        long * (cosine + width),
        short * max(0, sine - width),
        long * (sine + width),
    )


def _minus_logarithm(numerator: int, bits: int, places: int) -> int:
    """Return ``-log(numerator / 2**bits)``."""
    length = numerator.bit_length()
    # numerator is 2**length * near / 1024, up to one part in 512
    near = 2 * (numerator << 9 >> length) + 1
    wide, close = numerator << 10, near << length
    rest = _logarithm_of_ratio(wide - close, wide + close, places)
    return (
        (length - bits) * _logarithm_of_thousandths(512, places)
        - _logarithm_of_thousandths(near, places)
        - rest
    )


@functools.lru_cache(2048)
def _logarithm_of_thousandths(numerator: int, places: int) -> int:
    """Return ``log(numerator / 1024)``."""
    return _logarithm_of_ratio(numerator - 1024, numerator + 1024, places)


def _logarithm_of_ratio(numerator: int, denominator: int, places: int) -> int:
    """Return ``log((1 + s) / (1 - s))`` for s = numerator / denominator."""
    power = (numerator << places) // denominator
    square = power * power >> places
    total, k = 0, 1
    while power not in (0, -1):  # -1 is where rounding down ends
        total += power // k
        power = power * square >> places
        k += 2
    return 2 * total


@functools.lru_cache(64)
def _eighth(places: int) -> int:
    """Return pi / 4, by Machin's formula."""

    def arc_tangent(n: int) -> int:
        power, total, k = (1 << places) // n, 0, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= n * n
            k += 2
        return total

    return 4 * arc_tangent(5) - arc_tangent(239)


def _cosine_and_sine(angle: int, places: int) -> tuple[int, int]:
    """Return both, for an angle between 0 and pi / 4."""
    square = angle * angle >> places
    sine, term, k = 0, angle, 1
    while term:
        sine += term if k % 4 == 1 else -term
        term = (term * square >> places) // ((k + 1) * (k + 2))
        k += 2
    # The error of the root is that of the sine times the tangent, at most 1.
    return math.isqrt((1 << 2 * places) - sine * sine), sine
