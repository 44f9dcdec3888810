"""The integer noise is the rounded Gaussian: in the tail, and to the last integer.

Two words a pair left circles and angles apart: beyond radius 7.8 some pairs of integers
could not occur at 2**34 grid units, and none beyond 10.3.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import randomgen
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skfdp.mechanisms import release as noise
from skfdp.mechanisms.release import (
    PoissonBatches,
    Streams,
    add_integer_gaussian,
    random_words,
    rounded_pair,
)

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


# -- generators, streams, and the size of noise ----------------------------------------
def test_the_generator_is_aes_in_counter_mode():
    """Blocks 0 and 1, as another implementation of AES-128 gives them."""
    key = int.from_bytes(bytes(range(16)), "little")
    generator = np.random.Generator(randomgen.AESCounter(key=key, counter=0))
    words = random_words(generator, 4)
    assert words.dtype == np.uint64
    assert [hex(word) for word in words] == [
        "0x825b8f87373ba1c6",
        "0x79d8c8a162814f6f",
        "0xa0877cdd63d37ce3",
        "0x829ce0603e0eff9a",
    ]


def test_unseeded_streams_never_repeat():
    streams = Streams(None, "Estimator")
    drawn = {
        tuple(stream.integers(2**62, size=4).tolist())
        for _ in range(20)
        for stream in (streams.private("noise", 1), streams.public("batch"))
    }
    assert len(drawn) == 40
    assert not streams.seeded


def test_unseeded_keys_are_128_bits_of_the_operating_system(monkeypatch):
    asked = []

    def randbits(size):
        asked.append(size)
        return 2**127 + len(asked)

    monkeypatch.setattr(noise.secrets, "randbits", randbits)
    streams = Streams(None, "Estimator")
    drawn = [streams.private("noise", 1), streams.public("batch")]
    assert asked == [128, 128]
    for count, stream in enumerate(drawn, 1):
        bits = randomgen.AESCounter(key=2**127 + count)
        np.testing.assert_array_equal(random_words(stream, 8), bits.random_raw(8))


def first(stream):
    return stream.integers(2**62)


def test_seeded_streams_are_keyed_by_seed_class_label_and_shape():
    base = first(Streams(0, "A").private("noise", (2,)))
    assert first(Streams(np.int64(0), "A").private("noise", (2,))) == base
    different = [
        Streams(1, "A").private("noise", (2,)),
        Streams(0, "B").private("noise", (2,)),
        Streams(0, "A").private("coins", (2,)),
        Streams(0, "A").private("noise", (3,)),
        Streams(0, "A").public("noise"),
    ]
    draws = [first(stream) for stream in different]
    assert base not in draws
    assert len(set(draws)) == len(draws)


@pytest.mark.parametrize("seed", [np.random.RandomState(0), "0", 1.5, True])
def test_other_random_states_are_refused(seed):
    with pytest.raises(ValueError, match="random_state=.*must be None"):
        Streams(seed, "A")


@settings(deadline=None)  # the first example compiles
@given(st.integers(-(2**40), 2**40), st.floats(0, 2.0**34), st.integers(0, 2**32))
def test_adding_integer_noise_is_rounding_the_noisy_sum(value, std, seed):
    """z + floor(N + 1/2) == floor(z + N + 1/2): post-processing of z + N."""
    total = add_integer_gaussian(np.array([value]), std, np.random.default_rng(seed))
    words = np.random.default_rng(seed)
    first, second = random_words(words, 2).tolist()
    noise, _ = rounded_pair(
        std, first, second, lambda n: random_words(words, n).tolist()
    )
    assert total.dtype == np.int64
    assert int(total[0]) == value + noise


@pytest.mark.parametrize("size", [1, 2, 7, 63, 64, 1_000, 20_001])
def test_the_noise_does_not_depend_on_the_blocks(size, monkeypatch):
    """Nor on the size: of an odd number the second of the last pair is dropped."""

    def drawn(size):
        total = np.zeros(size, dtype=np.int64)
        return add_integer_gaussian(total, 1e9, Streams(3, "t").private("x"))

    whole = drawn(20_002)
    np.testing.assert_array_equal(drawn(size), whole[:size])
    monkeypatch.setattr(noise, "_WORDS_AT_ONCE", 64)
    np.testing.assert_array_equal(drawn(size), whole[:size])


def test_second_looks_do_not_depend_on_the_blocks(monkeypatch):
    """At 2**40 units there are some hundreds, whose words follow all others."""

    def drawn(std):
        total = np.zeros(20_001, dtype=np.int64)
        return add_integer_gaussian(total, std, Streams(3, "t").private("x"))

    whole = drawn(2.0**40)
    monkeypatch.setattr(noise, "_WORDS_AT_ONCE", 64)
    np.testing.assert_array_equal(drawn(2.0**40), whole)
    assert (np.abs(whole - 2.0**20 * drawn(2.0**20)) <= 2.0**19 + 1).all()


def test_noise_of_an_array_of_any_shape():
    total = np.zeros((3, 5, 7), dtype=np.int64)
    flat = np.zeros(105, dtype=np.int64)
    for array in (total, flat):
        add_integer_gaussian(array, 1e9, Streams(3, "t").private("x"))
    np.testing.assert_array_equal(total.ravel(), flat)
    empty = np.zeros((0, 3), dtype=np.int64)
    assert add_integer_gaussian(empty, 1.0, np.random.default_rng(0)).size == 0


@pytest.mark.parametrize("std", [0.7, 30.0, 2.0**30, 2.0**40])
def test_noise_level(std):
    drawn = add_integer_gaussian(
        np.zeros(200_000, dtype=np.int64), std, Streams(3, "t").private("x")
    )
    # Rounding adds 1/12 to the variance.
    expected = std**2 + 1 / 12
    ratio = np.mean(drawn.astype(float) ** 2) / expected
    assert abs(ratio - 1) < 5 * np.sqrt(2 / drawn.size)
    if std > 1:
        assert stats.kstest(drawn[:5000] / std, "norm").pvalue > 1e-4


def test_refusals():
    with pytest.raises(ValueError, match="use a coarser grid"):
        add_integer_gaussian(np.zeros(1, np.int64), 2.0**41, np.random.default_rng())
    with pytest.raises(TypeError, match="must be int64"):
        add_integer_gaussian(np.zeros(1), 1.0, np.random.default_rng())
    with pytest.raises(ValueError, match="must be contiguous"):
        add_integer_gaussian(np.zeros(4, np.int64)[::2], 1.0, np.random.default_rng())


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.PCG64])
def test_words_are_random_in_all_bits_whatever_the_generator(bits):
    """Raw words of 32 bits would leave every second entry without noise."""
    words = random_words(np.random.Generator(bits(0)), 1000)
    assert np.bitwise_or.reduce(words) == 2**64 - 1
    assert np.bitwise_and.reduce(words) == 0
    total = np.zeros(1000, dtype=np.int64)
    add_integer_gaussian(total, 1e6, np.random.Generator(bits(0)))
    assert 0.9e6 < total[1::2].std() < 1.1e6


def test_raw_words_are_the_integers_of_the_generator():
    first, second = (Streams(0, "test").public("words") for _ in range(2))
    expected = first.integers(2**64 - 1, size=99, dtype=np.uint64, endpoint=True)
    np.testing.assert_array_equal(random_words(second, 99), expected)
