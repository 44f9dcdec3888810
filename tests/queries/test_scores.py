"""Scores as sums: what one record can change, by brute force in grid integers."""

import itertools
import math

import numpy as np
import pytest

from skfdp.experimental.search import ScoreSum, accuracy_sum, log_loss_sum
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
        base, unit = total(accuracy_sum(np.array(predicted) == target))
        assert base * unit == (np.array(predicted) == target).sum()
        for i, other, guess in itertools.product(range(3), "ab", "ab"):
            # A replaced record may change its own label and its own prediction.
            y, p = target.copy(), np.array(predicted)
            y[i], p[i] = other, guess
            moved, _ = total(accuracy_sum(p == y))
            reach = accuracy_sum(p == y).sensitivity(REPLACED)
            assert abs(moved - base) * unit <= 1 == reach
            # A null contributes zero.
            rest = np.delete(np.array(predicted) == target, i).sum()
            assert abs(base * unit - rest) <= 1


VALUES = [0.0, 1e-300, 1e-9, 0.25, 0.5, 1.0, 1.0 + 1e-12, -1e-3, np.nan, np.inf]


@pytest.mark.parametrize("bound", [0.7, 4.0])
def test_a_replaced_record_moves_the_log_loss_by_the_bound(bound):
    rows = np.array([[p, 1 - p] for p in VALUES])
    sums = []
    for code in (0, 1, -1):
        codes = np.full(len(rows), code)
        for i in range(len(rows)):
            query = log_loss_sum(rows[i : i + 1], codes[i : i + 1], bound)
            value, unit = total(query)
            assert -bound <= value * unit <= 0  # and so is the null's 0
            sums.append(value)
    assert (max(sums) - min(sums)) * unit <= bound == query.sensitivity(REPLACED)


def test_log_loss_is_what_it_says():
    rows, codes = np.array([[0.5, 0.5], [0.1, 0.9]]), np.array([0, 1])
    value, unit = total(log_loss_sum(rows, codes, 4.0))
    assert value * unit == pytest.approx(np.log(0.5) + np.log(0.9), abs=1e-5)
    value, unit = total(log_loss_sum(rows, np.array([0, -1]), 4.0))
    assert value * unit == pytest.approx(np.log(0.5) - 4.0, abs=1e-5)


@pytest.mark.parametrize("worst", [np.nan, np.inf, -np.inf, -99.0])
def test_what_is_not_finite_is_the_worst(worst):
    value, unit = total(ScoreSum(np.array([worst, -1.0]), 4.0, -1, 2.0**-20))
    assert value * unit == -5.0
    value, unit = total(ScoreSum(np.array([worst, 1.0]), 1.0, 1, 2.0**-10))
    assert value * unit == 1.0


def test_no_contribution_is_longer_than_the_bound_on_the_grid():
    """The bound need not be a multiple of the unit."""
    for bound in (0.3, 1 / 3, 7.77):
        query = ScoreSum(np.array([-np.inf]), bound, -1, 2.0**-3)
        value, unit = total(query)
        assert -bound <= value * unit <= 0


def test_sums_do_not_depend_on_the_order():
    rng = np.random.default_rng(0)
    values = -rng.random(500) * 5
    one = total(ScoreSum(values, 4.0, -1, 2.0**-20))
    assert one == total(ScoreSum(rng.permutation(values), 4.0, -1, 2.0**-20))


def test_batches():
    query = accuracy_sum(np.array([True, False, True]))
    unit = query.unit(STD)
    assert query.exact_sum(None, np.array([0, 1]), unit)[0] * unit == 1
    assert query.n_rows == 3 and query.shape == (1,)
