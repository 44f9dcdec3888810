"""Scores as sums: what one record can change, by brute force in grid integers."""

import itertools
import math

import numpy as np
import pytest

from skfdp.experimental.search import AccuracySum
from skfdp.privacy import Relation

REPLACED = Relation.of("replace_one")

STD = 3.0


def total(query):
    unit = query.unit(STD)
    assert math.log2(unit) == round(math.log2(unit))
    return int(query.exact_sum(None, None, unit)[0]), unit


@pytest.mark.parametrize("target", list(itertools.product("ab", repeat=3)))
def test_a_replaced_record_moves_the_accuracy_by_one(target):
    target = np.array(target)
    for predicted in itertools.product("ab", repeat=3):
        base, unit = total(AccuracySum(np.array(predicted) == target))
        assert base * unit == (np.array(predicted) == target).sum()
        for i, other, guess in itertools.product(range(3), "ab", "ab"):
            # A replaced record may change its own label and its own prediction.
            y, p = target.copy(), np.array(predicted)
            y[i], p[i] = other, guess
            moved, _ = total(AccuracySum(p == y))
            reach = AccuracySum(p == y).sensitivity(REPLACED)
            assert abs(moved - base) * unit <= 1 == reach
            # A null contributes zero.
            rest = np.delete(np.array(predicted) == target, i).sum()
            assert abs(base * unit - rest) <= 1


def test_sums_do_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    right = rng.random(500) < 0.6
    assert total(AccuracySum(right)) == total(AccuracySum(rng.permutation(right)))


def test_batches():
    query = AccuracySum(np.array([True, False, True]))
    unit = query.unit(STD)
    assert query.exact_sum(None, np.array([0, 1]), unit)[0] * unit == 1
    assert query.n_rows == 3 and query.shape == (1,)
