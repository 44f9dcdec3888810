"""Generators, streams, and integer noise."""

import numpy as np
import pytest
import randomgen
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skfdp.mechanisms import noise
from skfdp.mechanisms.noise import (
    Streams,
    add_integer_gaussian,
    random_words,
    rounded_pair,
)


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


def test_parts_of_a_fit_share_no_noise():
    streams = Streams(0, "A")
    parts = [streams, streams.under("a"), streams.under("b"), streams.under("a")]
    drawn = [first(part.private("noise")) for part in parts]
    assert drawn[1] == drawn[3]
    assert len(set(drawn)) == 3
    nested = first(streams.under("a").under("b").private("noise"))
    assert nested not in drawn


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
    monkeypatch.setattr(noise, "_BLOCK_ENTRIES", 64)
    np.testing.assert_array_equal(drawn(size), whole[:size])


def test_second_looks_do_not_depend_on_the_blocks(monkeypatch):
    """At 2**40 units there are some hundreds, whose words follow all others."""

    def drawn(std):
        total = np.zeros(20_001, dtype=np.int64)
        return add_integer_gaussian(total, std, Streams(3, "t").private("x"))

    whole = drawn(2.0**40)
    monkeypatch.setattr(noise, "_BLOCK_ENTRIES", 64)
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
