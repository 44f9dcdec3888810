"""The integer noise is the rounded Gaussian: in the tail, and to the last integer.

Two words a pair left circles and angles apart: beyond radius 7.8 some pairs of integers
could not occur at 2**34 grid units, and none beyond 10.3.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from skfdp.mechanisms.noise import add_integer_gaussian
from skfdp.mechanisms.release import PoissonBatches

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
STD = 2.0**34
LARGEST = 2**64 - 1


class Words:
    """A generator of given words, and of random ones after them."""

    bit_generator = None

    def __init__(self, words):
        self.given = [int(word) for word in words]
        self.rng = np.random.default_rng(0)
        self.taken = 0

    def integers(self, high, size, dtype, endpoint):
        assert (high, dtype, endpoint) == (LARGEST, np.uint64, True)
        missing = self.taken + size - len(self.given)
        if missing > 0:
            self.given += self.rng.integers(
                high, size=missing, dtype=dtype, endpoint=True
            ).tolist()
        self.taken += size
        return np.array(self.given[self.taken - size : self.taken], dtype=dtype)


def one_pair(first, second, *more, std=STD):
    noise = np.zeros(2, dtype=np.int64)
    return add_integer_gaussian(noise, std, Words((first, second, *more)))


def exact_pair(first, second, more=(), std=STD):
    """The rounded pair to sixty digits, of these words and then half a unit."""
    radius, angle = first << 11 | second % 2**11, second >> 11 & (2**50 - 1)
    for i in range(0, len(more), 2):
        radius, angle = radius << 64 | more[i], angle << 64 | more[i + 1]
    bits = 32 * len(more)
    with localcontext(prec=70):
        half = Decimal("0.5")
        size = (-2 * ((radius + half) / Decimal(2) ** (75 + bits)).ln()).sqrt()
        turn = (angle + half) / Decimal(2) ** (50 + bits) * PI / 4
        sums, term = [Decimal(0)] * 4, Decimal(1)
        for k in range(44):
            sums[k % 4] += term
            term = term * turn / (k + 1)
        pair = [sums[0] - sums[2], sums[1] - sums[3]]
        if second >> 63:
            pair.reverse()
        signs = (-1) ** (second >> 62 & 1), (-1) ** (second >> 61 & 1)
        values = [Decimal(std) * size * s * v for s, v in zip(signs, pair, strict=True)]
        return [
            int((value + half).to_integral_value("ROUND_FLOOR")) for value in values
        ]


def test_no_radius_is_the_largest():
    """The Gaussian has 2**-76 beyond radius 10.3, and two words had nothing."""
    beyond = math.hypot(*one_pair(0, 2**50, 2**20, 0)) / STD
    assert beyond == pytest.approx(math.sqrt(2 * (75 + 44) * math.log(2)), abs=1e-6)
    # And so on, however many words are 0.
    beyond = math.hypot(*one_pair(0, 2**50, 0, 0, 0, 0, 2**63, 0)) / STD
    assert beyond == pytest.approx(math.sqrt(2 * (75 + 129) * math.log(2)), abs=1e-6)


@pytest.mark.parametrize("first", [0, 1, 5, 2**10, 2**15])
def test_neighbouring_circles_in_the_tail_are_reached(first):
    """At 2**34 grid units they were up to 2**20 units apart."""
    second, seen = 5 << 61 | 2**59 | 77, set()
    for k in range(16):
        more = (k << 60, 2**63)
        pair = one_pair(first, second, *more)
        assert pair.tolist() == exact_pair(first, second, more)
        seen.add(tuple(pair.tolist()))
    # what the last bit of u moves the radius by, in grid units
    gap = 2.0**-11 / (first + 0.1) / 10 * STD
    assert len(seen) == 16 and gap > 16


@pytest.mark.parametrize("first", [2**36, 2**60])
def test_both_sides_of_an_edge_between_two_angles_are_reached(first):
    """An edge between integers may pass between the points of neighbouring words."""
    std, ends = 2.0**40, [(2**63, 0), (2**63, LARGEST)]
    for k in range(2_000):
        second = 5 << 61 | k << 40
        sides = [exact_pair(first, second, more, std) for more in ends]
        if sides[0] != sides[1]:
            break
    assert sides[0] != sides[1]
    reached = [one_pair(first, second, *more, std=std).tolist() for more in ends]
    assert reached == sides


def test_the_law_of_the_tail():
    """If the first 75 bits of u are 0, the rest of it is uniform again."""
    seconds = np.random.default_rng(0).bit_generator.random_raw(5_000)
    seconds &= np.uint64(LARGEST - 2047)
    words = [w for second in seconds.tolist() for w in (0, second)]
    noise = np.zeros(10_000, dtype=np.int64)
    noise = add_integer_gaussian(noise, STD, Words(words)).reshape(-1, 2) / STD
    u = np.exp(-(noise**2).sum(axis=1) / 2) * 2.0**75
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    angles = np.arctan2(*noise.T) / (2 * math.pi) + 0.5
    assert stats.kstest(angles, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("std", [2.0**34, 2.0**38, 2.0**40])
def test_every_integer_is_that_of_the_real_number(std):
    """Also where float64, or the words, do not decide between two integers."""
    n = 2**16
    words = np.random.default_rng(1).bit_generator.random_raw(2 * n)
    first, second = words[::2].astype(np.longdouble), words[1::2]
    u = (first + 0.5) / 2.0**64
    turn = (((second >> np.uint64(11)) & np.uint64(2**50 - 1)) + 0.5) / 2**50
    radius = np.sqrt(-2 * np.log(u))
    # These are the pairs close to the edge between two integers.
    edge = np.zeros(n, dtype=bool)
    for part in (np.cos(turn * math.pi / 4), np.sin(turn * math.pi / 4)):
        value = (std * radius * part).astype(float)
        edge |= abs(abs(value - np.round(value)) - 0.5) < 2.0**-48 * std
    pairs = np.flatnonzero(edge)[:150].tolist()
    assert len(pairs) == 150 or std < 2.0**36
    noise = Words(words)
    total = add_integer_gaussian(np.zeros(2 * n, dtype=np.int64), std, noise)
    # The further words follow, two for each pair that needs them, in order.
    further = noise.given[2 * n : noise.taken]
    for pair in pairs:
        a, b = words[2 * pair : 2 * pair + 2].tolist()
        got = total[2 * pair : 2 * pair + 2].tolist()
        lows = [
            exact_pair(a, b, (w, v), std) for w in (0, LARGEST) for v in (0, LARGEST)
        ]
        if all(low == lows[0] for low in lows):
            assert got == lows[0]  # any further words give this
            continue
        # an open pair is decided by further words
        both = (further[i : i + 2] for i in range(0, len(further), 2))
        assert any(exact_pair(a, b, more, std) == got for more in both)
    assert len(further) >= 2


def test_open_pairs_are_decided_by_their_own_words_in_order():
    words = [5, 1 << 50, 2**63, 2**55, 9, 3 << 50]  # first and last are in the tail
    more = [2**63, 2**61, 2**60, 2**62]
    noise = add_integer_gaussian(np.zeros(5, dtype=np.int64), STD, Words(words + more))
    assert noise[:2].tolist() == exact_pair(5, 1 << 50, more[:2])
    assert noise[2:4].tolist() == exact_pair(2**63, 2**55)
    assert noise[4] == exact_pair(9, 3 << 50, more[2:])[0]


def test_a_generator_of_zeros_ends_in_an_error():
    with pytest.raises(RuntimeError, match="the random generator returns constants"):
        one_pair(0, 2**50, *[0] * 100)


def exact_gap(words, rate):
    """The gap of a uniform number with these digits, in Decimal.

    The pace is that of the code: a little below -log(1 - rate).
    """
    pace = Decimal(-math.log1p(-rate) * (1 - 2.0**-49))
    with localcontext(prec=70):
        u = Decimal(0)
        for word in reversed(words):
            u = (u + word) / 2**64
        return int(-u.ln() / pace)


def first_member(rate, n_rows, first, *more):
    """Of a batch whose words begin with `first`, and are followed by others."""
    batches = PoissonBatches(words := Words([first]), n_rows, rate)
    words.given += [2**63] * (len(batches._members) - 1) + list(more)
    return int(batches.draw()[0])


@pytest.mark.parametrize("words", [(0, 1), (0, 2**50), (0, 0, 5), (1, 0, 7)])
def test_no_gap_of_the_coins_is_the_longest(words):
    """A word alone had 65 log(2) / -log(1 - rate) as its longest gap."""
    words = (*words, 2**62 + 7)
    assert first_member(0.001, 200_000, *words) == exact_gap(words, 0.001)


@pytest.mark.parametrize("gap", [1, 7, 40])
def test_coins_at_the_edge_of_a_gap_are_decided_by_further_words(gap):
    """One word has two gaps, in the proportion of the law."""
    rate = 0.4
    with localcontext(prec=70):
        edge = (-Decimal(-math.log1p(-rate) * (1 - 2.0**-49)) * gap).exp()
        word, rest = divmod(int(edge * 2**128), 2**64)
    below = first_member(rate, 1_000, word, max(rest - 2**20, 0))
    above = first_member(rate, 1_000, word, min(rest + 2**20, LARGEST))
    assert (above, below) == (gap - 1, gap)


@pytest.mark.parametrize("rate", [1e-9, 3e-5, 0.01])
def test_no_coin_has_more_than_the_stated_rate(rate):
    pace = Decimal(PoissonBatches(Words([]), 10, rate)._pace)
    with localcontext(prec=70):
        drawn = 1 - (-pace).exp()
        assert 0 <= 1 - drawn / Decimal(rate) < Decimal(2) ** -48
