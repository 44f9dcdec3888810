"""The compiled clip of persons: what is exact is exact, in integers of any length."""

import math

import numpy as np
import pytest

from skfdp.kernels import persons
from skfdp.kernels.contributions import Clip, Column

BITS = 50


def make_person(seed, n_rows, n_outputs=2, n_columns=4):
    rng = np.random.default_rng(seed)
    X = rng.integers(-(2**15) + 1, 2**15, (n_rows, n_columns)).astype(np.int16)
    squares = (X.astype(np.float64) ** 2).sum(axis=1)
    residuals = rng.normal(size=(n_outputs, n_rows)) * 10.0 ** rng.uniform(-9, 9)
    return X, squares, residuals


@pytest.mark.parametrize("n_rows", [1, 2, 30, 5000])
@pytest.mark.parametrize("seed", range(5))
def test_sums_of_a_person_are_exact_in_float64(n_rows, seed):
    """Number of rows times the longest row times the largest integer is 2**50."""
    X, squares, residuals = make_person(seed, n_rows)
    own, norms = residuals.copy(), Column(squares, 1, 0)
    unit = persons._as_integers(np.arange(n_rows), 0, n_rows, norms, own)
    np.testing.assert_array_equal(own, np.trunc(own))
    most = n_rows * math.sqrt(squares.max()) * np.abs(own).max()
    assert 0.999 * 2.0**BITS < most <= 2.0**BITS * (1 + 1e-12)
    np.testing.assert_allclose(own * unit, residuals, atol=unit * (1 + 1e-9))
    exact = sum(
        int(own[0, i]) * int(X[i, 0]) for i in range(n_rows)
    )  # Python's integers
    found = np.empty((2, 4))
    persons._add_rows(X, np.arange(n_rows), 0, n_rows, own, found)
    assert found[0, 0] == exact


@pytest.mark.parametrize("n_outputs", [1, 3, 10, 1000])
@pytest.mark.parametrize("n_columns", [1, 100, 10**6])
def test_squares_of_a_norm_are_exact_in_float64(n_outputs, n_columns):
    """Entries are rounded up to integers, the squares of which stay below 2**53."""
    longest = 2.0**BITS * math.sqrt(n_outputs) / persons._step(n_outputs)
    assert (longest + math.sqrt(n_outputs * n_columns)) ** 2 < 2.0**53


@pytest.mark.parametrize("seed", range(20))
def test_norms_are_rounded_up(seed):
    rng = np.random.default_rng(seed)
    total = np.trunc(rng.normal(size=(3, 5)) * 10.0 ** rng.uniform(0, 14))
    step = persons._step(3)
    square = persons._square(total, 1 / step)
    exact = sum(int(entry) ** 2 for entry in total.ravel().tolist())
    assert exact <= square * step**2 * (1 + 1e-12)
    above = step * math.sqrt(total.size)
    assert step * math.sqrt(square) <= math.sqrt(exact) + above * (1 + 1e-12)


@pytest.mark.parametrize("n_outputs", [1, 2, 7])
@pytest.mark.parametrize("clip_norm", [1.0, 1e4, 1e30])
def test_nobody_is_added_beyond_the_clip_norm(n_outputs, clip_norm):
    """Persons side by side: each has its own rows, in any order."""
    ends = np.array([0, 1, 4, 9, 30])
    X, squares, residuals = make_person(3, 30, n_outputs)
    rows = np.random.default_rng(0).permutation(30)
    clip = Clip(Column(squares, 1, 0), clip_norm, clip_norm * 2.0**-30, 1.0)
    memory = np.empty((n_outputs, 4))
    total, alone = np.zeros((n_outputs, 4)), []
    persons.add_dense(X, rows, ends, residuals.copy(), clip, memory, total)
    for start, stop in zip(ends, ends[1:], strict=False):
        own, part = rows[start:stop], residuals[:, start:stop]
        for order in (np.arange(len(own)), np.arange(len(own))[::-1]):
            out, whole = np.zeros((n_outputs, 4)), np.array([0, len(own)])
            person = own[order].copy(), whole, part[:, order].copy()
            persons.add_dense(X, *person, clip, memory, out)
            alone.append(out)
        np.testing.assert_array_equal(alone[-1], alone[-2])
        assert sum(int(entry) ** 2 for entry in out.ravel().tolist()) <= 2**60
    np.testing.assert_array_equal(total, sum(alone[::2]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, 1e-300])
def test_what_has_no_unit_adds_nothing(bad):
    _, squares, residuals = make_person(0, 6)
    if abs(bad) > 1:
        residuals[1, 3] = bad
    else:
        residuals[:] = bad
    unit = persons._as_integers(np.arange(6), 0, 6, Column(squares, 1, 0), residuals)
    assert unit == 0.0
