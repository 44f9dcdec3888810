"""The compiled samplers against the definition, and word by word against Python."""

import math
import random
from decimal import Decimal, localcontext

import mpmath
import numpy as np
import pytest

from skfdp.kernels.sampling import (
    _exponential_of,
    _low_bits,
    _point,
    add_rounded_normals,
    poisson_members,
)
from skfdp.mechanisms import release as exact_draws
from skfdp.mechanisms.release import exact_gap, rounded_pair

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
LARGEST = 2**64 - 1
#: Of a second word: swap, and the signs of both entries.
BITS = (63, 62, 61)
#: Words whose logarithms are at the ends of what happens, and around sqrt(1/2).
FIRST = [0, 1, 2, 2**11, 2**32 - 1, 2**32, 2**52, 2**53 + 1, 2**63 - 1, 2**63]
FIRST += [13043817825332782212 + offset for offset in (-(2**12), -1, 0, 1, 2**12)]
FIRST += [LARGEST - 2**13, LARGEST - 1, LARGEST]
#: Every octant at both of its edges, with both ends of the bits of the radius.
SECOND = [
    octant << 61 | angle << 11 | radius
    for octant in range(8)
    for angle in (0, 1, 2**49, 2**50 - 2, 2**50 - 1)
    for radius in (0, 1, 2047)
]


def words_of(*values):
    return np.array(values, dtype=np.uint64)


def random_pairs(n, seed=0):
    return np.random.default_rng(seed).bit_generator.random_raw(2 * n)


def normals(words):
    """The normals of these words, before they are rounded."""
    first, second = words[::2], words[1::2]
    high, low = first >> np.uint64(32), _low_bits(first, second)
    points = np.stack(_point(_exponential_of(high, low, 2.0**-11), second))
    swap, *negative = (words[1::2] >> np.uint64(bit) & np.uint64(1) for bit in BITS)
    pairs = np.where(swap[:, None] == 1, points[[1, 0]].T, points[:2].T)
    return (pairs * (1 - 2.0 * np.stack(negative, axis=1))).ravel()


def extreme_pairs():
    return words_of(*(word for a in FIRST for b in SECOND for word in (a, b)))


def minus_logarithms(words):
    """-log((word + 1/2) / 2**64), as the coins of a batch take it."""
    low = words & np.uint64(2**32 - 1)
    return _exponential_of(words >> np.uint64(32), low, 1.0)


def exact_pair(a, b):
    """The two normals of a pair of words, as defined, to thirty digits."""
    u = Decimal((a << 11) + b % 2**11) + Decimal("0.5")
    radius = (-2 * (u / 2**75).ln()).sqrt()
    angle = (Decimal((b >> 11) % 2**50) + Decimal("0.5")) / 2**50 * PI / 4
    sine, cosine, term = Decimal(0), Decimal(0), Decimal(1)
    for k in range(30):
        if k % 2:
            sine += term * (-1) ** (k // 2)
        else:
            cosine += term * (-1) ** (k // 2)
        term = term * angle / (k + 1)
    pair = (sine, cosine) if b >> 63 else (cosine, sine)
    signs = (-1) ** (b >> 62 & 1), (-1) ** (b >> 61 & 1)
    return [radius * sign * value for sign, value in zip(signs, pair, strict=True)]


def units_apart(got, exact):
    """Errors in units in the last place of the exact values."""
    with localcontext(prec=50):
        return [
            float(abs(Decimal(value) - truth)) / math.ulp(float(truth))
            for value, truth in zip(got.tolist(), exact, strict=True)
        ]


def test_logarithms_are_right_to_four_units_in_the_last_place():
    # The last ones are just below u = sqrt(1/2), where the error is largest.
    below = np.uint64(13043817825332782211) - random_pairs(1_000) // np.uint64(64)
    words = np.concatenate([words_of(*FIRST), random_pairs(3_000), below])
    with localcontext(prec=50):
        exact = [
            -((Decimal(word) + Decimal("0.5")) / 2**64).ln() for word in words.tolist()
        ]
    got = minus_logarithms(words)
    assert (got > 0).all() and max(units_apart(got, exact)) < 4


@pytest.mark.parametrize("words", [extreme_pairs(), random_pairs(3_000)])
def test_normals_are_right_to_five_units_in_the_last_place(words):
    pairs = words.reshape(-1, 2).tolist()
    with localcontext(prec=50):
        exact = [value for a, b in pairs for value in exact_pair(a, b)]
    got = normals(words)
    assert max(units_apart(got, exact)) < 5
    # What the proof of the rounding uses: 12 * 2**-53 of each, with the product by std.
    shares = [abs(Decimal(x) / y - 1) for x, y in zip(got.tolist(), exact, strict=True)]
    assert max(shares) * 2**53 < 11


@pytest.mark.parametrize("std", [0.0, 1e-300, 0.4, 777.7, 2.0**27, 2.0**40])
@pytest.mark.parametrize("n", [1, 2, 7, 4_601])
def test_what_the_kernel_decides_is_what_longer_integers_decide(std, n):
    """Whatever words would follow: two ends of them are tried. What is open is told."""
    words = np.append(extreme_pairs()[::7][:600], random_pairs(2_001, seed=9))
    words = words[: n + n % 2]
    before = np.arange(n) * 2**40
    total, unsure = before.copy(), np.full(len(words) // 2, -1)
    n_unsure = add_rounded_normals(total, std, words, unsure)
    left_open, noise = unsure[:n_unsure].tolist(), (total - before).tolist()
    assert left_open == sorted(set(left_open)) and (unsure[n_unsure:] == -1).all()
    assert n < 1000 or 0 < n_unsure < n / 20
    for i, (a, b) in enumerate(words.reshape(-1, 2).tolist()):
        found = noise[2 * i : 2 * i + 2]
        for more in (0, LARGEST):
            pair = (0, 0)
            if i not in left_open:
                pair = rounded_pair(std, a, b, lambda n, more=more: [more] * n)
            assert found == list(pair[: len(found)])


@pytest.mark.parametrize("first", [0, 1, LARGEST - 1, LARGEST])
def test_every_bit_of_the_radius_counts_at_both_ends(first):
    """Neighbouring u have radii of their own, near 0 and (unlike floats) near 1."""
    words = words_of(*(word for bits in range(2048) for word in (first, bits)))
    radii = np.hypot(*normals(words).reshape(-1, 2).T)
    assert (np.diff(radii) < 0).all()


@pytest.mark.parametrize("rate", [1e-9, 1e-6, 1e-3, 0.3, 1 - 1e-9])
def test_gaps_that_the_kernel_decides_are_those_of_longer_integers(rate):
    """Whatever words would follow: the ends of them are tried. Others stop the loop."""
    words = np.append(random_pairs(1_000, seed=5), words_of(*FIRST))
    pace, members, start, n_open = -math.log1p(-rate), np.empty(len(words), int), 0, 0
    while start < len(words):
        count, unsure = poisson_members(words[start:], pace, -1, 2**53, members)
        gaps = np.diff(members[:count], prepend=-1) - 1
        decided = words[start : start + count].tolist()
        for word, gap in zip(decided, gaps.tolist(), strict=True):
            ends = {exact_gap(word, pace, lambda n, w=w: [w]) for w in (1, LARGEST)}
            assert ends == {gap}
        start, n_open = start + count + unsure, n_open + unsure
        assert unsure or start == len(words)
    assert 0 < n_open < 200


def test_members_end_with_the_rows():
    words, pace = random_pairs(500, seed=5), -math.log1p(-0.01)
    every, members = np.empty((2, 1_000), dtype=np.int64)
    assert poisson_members(words, pace, -1, 2**53, every) == (1_000, False)
    n_rows = every[700]
    assert poisson_members(words, pace, -1, n_rows, members) == (700, False)
    assert members[:700].tolist() == every[:700].tolist()
    assert poisson_members(words[400:], pace, every[399], n_rows, members)[0] == 300
    assert members[:300].tolist() == every[400:700].tolist()


@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.4])
def test_words_close_to_the_edge_of_a_gap(rate):
    """Where float64 alone takes some words for those of the other gap."""
    pace, members = -math.log1p(-rate), np.empty(1, dtype=np.int64)
    decided = 0
    for gap in {math.ceil(part / pace) for part in range(1, 16)}:
        with localcontext(prec=50):
            edge = int((-Decimal(pace) * gap).exp() * 2**64)
        for near in range(0, 64, 3):
            size = int(edge * pace / 2) >> near
            for word in (edge - size, edge + size):
                count, unsure = poisson_members(
                    words_of(word), pace, -1, 2**53, members
                )
                decided += count
                assert unsure or members[0] == gap - (word > edge)
    assert decided


@pytest.mark.parametrize("pace", [0.0, 5e-324, 1e-300, 1e-12, math.inf])
def test_members_at_the_extremes(pace):
    words = words_of(0, LARGEST, 2**63, *FIRST)
    members, n_rows = np.empty(len(words), dtype=np.int64), 2**53
    count, unsure = poisson_members(words, pace, -1, n_rows, members)
    if pace == math.inf:
        assert members[:count].tolist() == list(range(len(words))) and not unsure
    else:
        assert count == 0 and unsure == (pace == 1e-12)


def test_entries_without_a_word_are_refused():
    total = np.zeros(5, dtype=np.int64)
    with pytest.raises(ValueError, match="a word for each entry"):
        add_rounded_normals(
            total, 1.0, np.arange(5, dtype=np.uint64), np.empty(2, np.int64)
        )
    assert not total.any()


@pytest.mark.parametrize("bits", [128, 139, 512])
def test_bounds_of_logarithms_hold_for_all_digits_that_may_follow(bits):
    # In longer integers than these: 1,024 bits of mpmath.
    rng, places = random.Random(bits), bits + 64
    with mpmath.workprec(1024):
        for i in range(60):
            numerator = rng.getrandbits(rng.randint(2, bits)) | 1 if i else 2**bits - 1
            low, high = exact_draws._logarithm_bounds(numerator, bits, places)
            ends = [
                -mpmath.log(mpmath.mpf(numerator + more) / mpmath.mpf(2) ** bits)
                * mpmath.mpf(2) ** places
                for more in (0, 1)
            ]
            assert low <= max(0, ends[1]) <= ends[0] <= high
            assert high - low <= 2**places // numerator + 4 * 2**24


@pytest.mark.parametrize("extra", [64, 512])
def test_bounds_of_normals_hold_for_all_digits_that_may_follow(extra):
    """Cosine and sine at both ends of an angle, times the radius at both ends."""
    rng, places = random.Random(extra), extra + 64
    bits = 75 + extra, 50 + extra
    with mpmath.workprec(2048):
        for _ in range(60):
            radius, angle = (rng.getrandbits(size) | 1 for size in bits)
            bounds = exact_draws._bounds(radius, bits[0], angle, bits[1], places)
            u = [mpmath.mpf(radius + more) / 2 ** bits[0] for more in (0, 1)]
            turn = [mpmath.mpf(angle + more) / 2 ** bits[1] for more in (0, 1)]
            short, long = sorted(mpmath.sqrt(-2 * mpmath.log(one)) for one in u)
            for low, high, function in (
                (*bounds[:2], mpmath.cos),
                (*bounds[2:], mpmath.sin),
            ):
                least, most = sorted(function(one * mpmath.pi / 4) for one in turn)
                assert low <= short * least * 2 ** (2 * places)
                assert high >= long * most * 2 ** (2 * places)
                assert high - low < 2.0 ** (places + 34)


@pytest.mark.parametrize("which", [0, 1])
def test_both_normals_of_a_pair_are_rounded_exactly(which):
    """The digits of the radius are chosen so that only later digits decide."""
    first, second = random_pairs(1, seed=8).tolist()

    def rounded(word, later):
        given = [word]
        return rounded_pair(
            2.0**90, first, second, lambda n: [given.pop() if given else later] * n
        )[which]

    low, high = 0, LARGEST
    assert rounded(low, 0) != rounded(high, 0)
    while high - low > 1:
        middle = (low + high) // 2
        if rounded(middle, 0) == rounded(low, 0):
            low = middle
        else:
            high = middle
    assert abs(rounded(low, 0) - rounded(low, LARGEST)) == 1
