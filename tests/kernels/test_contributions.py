"""The compiled clip of rows and of persons: bounds in exact integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import square

from skfdp.kernels import persons, tiles
from skfdp.kernels.contributions import (
    Clip,
    PerRow,
    clip_differences,
    clip_residuals,
    limits_of,
)

LARGEST = 2.0**15 - 1


def clip_of(squared_norms, clip_norm=1.0, unit=2.0**-6, largest=LARGEST):
    squares = np.asarray(squared_norms, dtype=np.float64)
    return Clip(apart(squares), clip_norm, unit, largest)


def apart(numbers):
    """Return numbers that lie by themselves, as kernels take them."""
    return PerRow(numbers, 1, 0)


@pytest.mark.parametrize("n_outputs", [1, 3, 10])
@pytest.mark.parametrize("unit", [2.0**-12, 2.0**-3, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_no_contribution_is_longer_than_the_clip_norm(seed, n_outputs, unit):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(60)[:40]
    squares = np.rint(10.0 ** rng.uniform(0, 8, 60))
    bounds = clip_of(squares, clip_norm=3e4, unit=unit)
    residuals = rng.normal(size=(n_outputs, 40)) * 10.0 ** rng.uniform(-3, 3, 40)
    found = residuals.copy()
    clip_residuals(found, rows, bounds)
    np.testing.assert_array_equal(found, np.rint(found))
    # Limits that are computed before give the same bits.
    limits, again = apart(limits_of(bounds, n_outputs)), residuals.copy()
    clip_residuals(again, rows, bounds._replace(limits=limits))
    np.testing.assert_array_equal(again, found)
    assert np.abs(found).max() <= LARGEST
    longest = Fraction(0)
    for i, row in enumerate(rows):
        own = square(found[:, i]) * int(squares[row]) * Fraction(unit) ** 2
        longest = max(longest, own)
    assert longest <= Fraction(3e4) ** 2
    # What needs no clip is the nearest integer number of the unit.
    lengths = np.linalg.norm(residuals, axis=0) * np.sqrt(squares[rows])
    room = 3e4 - unit * math.sqrt(n_outputs) / 2 * np.sqrt(squares[rows])
    free = (lengths < 0.99 * room) & (np.abs(residuals).max(axis=0) < unit * LARGEST)
    assert free.any() and not free.all()
    nearest = np.rint(residuals[:, free] / unit)
    np.testing.assert_array_equal(found[:, free], nearest)
    assert math.sqrt(longest) > 0.5 * 3e4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_what_is_not_finite_contributes_nothing(value, side):
    squares, rows = np.full(3, 4.0), np.arange(3)
    sides = np.full((2, 3, 3), 0.25)
    sides[side, -1, 1] = value
    for n_outputs in (1, 3):
        residuals = sides[side, -n_outputs:].copy()
        clip = clip_of(squares)
        known = clip._replace(limits=apart(limits_of(clip, n_outputs)))
        again = residuals.copy()
        clip_residuals(residuals, rows, clip)
        clip_residuals(again, rows, known)
        np.testing.assert_array_equal(again, residuals)
        assert not residuals[:, 1].any() and residuals[:, [0, 2]].all()
    clip_differences(*sides, rows, clip_of(squares), apart(squares), 0.5 * squares)
    assert not sides[:, :, 1].any() and sides[:, :, [0, 2]].all()


def test_limits_of_rows_without_room_or_length():
    clip = clip_of([0.0, 1.0, 1e6, 1e300, np.inf])
    limits = limits_of(clip, 1)
    assert limits[0] == np.inf  # the row is zero, and so is its contribution
    assert 0.99 < limits[1] < 1
    np.testing.assert_array_equal(limits[2:], 0)


def test_residuals_saturate():
    residuals = np.array([[1e3, -1e3, 7.0]])
    clip_residuals(residuals, np.arange(3), clip_of(np.ones(3), 1e9, 1.0, 100.0))
    np.testing.assert_array_equal(residuals, [[100, -100, 7]])


def test_both_sides_of_a_difference_saturate_together():
    # full x - public z with z = 1.9 x: nothing is left, though both sides are long.
    full, public = np.array([[190.0]]), np.array([[100.0]])
    squares = np.array([100.0]), np.array([361.0])
    clip = clip_of(squares[0], 500.0, 1.0, 150.0)
    clip_differences(
        full, public, np.zeros(1, int), clip, apart(squares[1]), [190.0] * full[0]
    )
    assert 140 < full[0, 0] <= 150
    assert abs(full[0, 0] * 10 - public[0, 0] * 19) <= 29  # truncation alone


def test_truncation_of_a_hundred_outputs_is_in_the_room():
    """Each output but the first gains almost a unit by being truncated."""
    full, public = np.full((100, 1), 5.99), np.full((100, 1), 6.01)
    full[0], public[0] = 1000.0, 981.2
    squares = np.ones(1)
    clip = clip_of(squares, 21.0, 1.0, 2.0**29 - 1)
    assert square(np.trunc(full) - np.trunc(public)) > 21**2
    clip_differences(full, public, np.zeros(1, np.int64), clip, apart(squares), squares)
    assert 0 < square(full - public) <= 21**2


@settings(deadline=None, max_examples=80)
@given(
    n_outputs=st.integers(1, 4),
    unit=st.sampled_from([2.0**-10, 2.0**-3, 1.0]),
    turn=st.floats(-1, 1),
    sizes=st.tuples(st.floats(-2, 4), st.floats(-2, 4)),
    seed=st.integers(0, 10**6),
)
def test_no_difference_is_longer_than_the_clip_norm(n_outputs, unit, turn, sizes, seed):
    rng = np.random.default_rng(seed)
    x, z = rng.integers(-300, 300, size=(2, 5))
    z = np.rint(turn * x + (1 - abs(turn)) * z).astype(np.int64)
    full, public = rng.normal(size=(2, n_outputs, 1))
    public = turn * full + (1 - abs(turn)) * public
    full, public = full * 10.0 ** sizes[0], public * 10.0 ** sizes[1]
    products = [np.array([0.0, float(a @ b)]) for a, b in ((x, x), (z, z), (x, z))]
    clip = clip_of(products[0], 2e3, unit, 2.0**29 - 1)
    norms = apart(products[1]), products[2]
    clip_differences(full, public, np.ones(1, np.int64), clip, *norms)
    moved = np.outer(full[:, 0], x) - np.outer(public[:, 0], z)
    assert square(moved) * Fraction(unit) ** 2 <= 2000**2


# -- persons: what is exact is exact ---------------------------------------------------
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
    own, norms = residuals.copy(), PerRow(squares, 1, 0)
    unit = persons._as_integers(np.arange(n_rows), 0, n_rows, norms, own)
    np.testing.assert_array_equal(own, np.trunc(own))
    most = n_rows * math.sqrt(squares.max()) * np.abs(own).max()
    assert 0.999 * 2.0**BITS < most <= 2.0**BITS * (1 + 1e-12)
    np.testing.assert_allclose(own * unit, residuals, atol=unit * (1 + 1e-9))
    exact = sum(
        int(own[0, i]) * int(X[i, 0]) for i in range(n_rows)
    )  # Python's integers
    found = np.zeros((2, 4))
    tiles._add_outer_products(X, np.arange(n_rows), own, found)
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
    clip = Clip(PerRow(squares, 1, 0), clip_norm, clip_norm * 2.0**-30, 1.0)
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
    unit = persons._as_integers(np.arange(6), 0, 6, PerRow(squares, 1, 0), residuals)
    assert unit == 0.0
