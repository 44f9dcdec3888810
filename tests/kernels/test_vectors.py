"""Vectors of integers against NumPy."""

import numpy as np
import pytest
from numba import njit

from skfdp.kernels import vectors as v


@njit
def dot(x, y, start, total):
    first, second = v.load(x, start), v.load(y, start)
    v.add_unsigned_to(total, start, v.multiply_add(v.half(), first, second))
    return v.sum_of(v.multiply_add(v.zeros(), first, second))


@njit
def pairs(x, y, r, total):
    weights = v.load_pair(r, 2)
    low = v.low_pairs(v.load(x, 0), v.load(y, 0))
    high = v.high_pairs(v.load(x, 0), v.load(y, 0))
    v.add_unsigned_to(total, 0, v.multiply_add(v.half(), low, weights))
    v.add_unsigned_to(total, 8, v.multiply_add(v.half(), high, weights))


@njit
def sums(x, out):
    one = v.multiply_add(v.zeros(), v.load(x, 0), v.load(x, 0))
    two = v.multiply_add(v.zeros(), v.load(x, 16), v.load(x, 0))
    three = v.multiply_add(v.zeros(), v.load(x, 16), v.load(x, 1))
    v.store_sums(out, 1, -0.5, one, two, three, v.half())


@njit
def ask(x, place):
    v.prefetch(x, place)


@pytest.fixture
def shorts():
    rng = np.random.default_rng(0)
    numbers = rng.integers(-(2**15) + 1, 2**15, (2, 40)).astype(np.int16)
    numbers[:, 3:9] = [[2**15 - 1], [1 - 2**15]]
    return numbers


@pytest.mark.parametrize("start", [0, 1, 3, 24])
def test_multiply_add_is_that_of_integers_modulo_2_to_the_32(shorts, start):
    total = np.full(40, 2**40)
    here = slice(start, start + 16)
    product = shorts[0, here].astype(int) * shorts[1, here]
    both = product.reshape(8, 2).sum(axis=1)
    found = dot(shorts[0], shorts[1], start, total)
    assert found == both.sum().astype(np.int32)
    expected = both[[0, 2, 4, 6, 1, 3, 5, 7]] + 2**31 + 2**40
    np.testing.assert_array_equal(total[start : start + 8], expected)
    assert (np.delete(total, np.arange(start, start + 8)) == 2**40).all()


def test_pairs_come_in_their_order(shorts):
    r = np.array([9, 9, -3, 1000], dtype=np.int16)
    total = np.zeros(16, dtype=np.int64)
    pairs(shorts[0], shorts[1], r, total)
    expected = -3 * shorts[0, :16].astype(int) + 1000 * shorts[1, :16].astype(int)
    np.testing.assert_array_equal(total - 2**31, expected[list(v.PAIR_ORDER)])
    assert sorted(v.PAIR_ORDER) == list(range(v.WIDTH))


def test_four_sums_are_those_of_each_modulo_2_to_the_32(shorts):
    out = np.full(6, 7.0)
    sums(shorts[0], out)
    x = shorts[0].astype(int)
    expected = [x[:16] @ x[:16], x[16:32] @ x[:16], x[16:32] @ x[1:17], 8 * 2**31]
    expected = np.array(expected).astype(np.int32) * -0.5
    np.testing.assert_array_equal(out, [7.0, *expected, 7.0])


def test_prefetch_changes_nothing(shorts):
    before = shorts.copy()
    ask(shorts[0], 7)
    np.testing.assert_array_equal(shorts, before)
