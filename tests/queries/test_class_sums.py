"""Class sums: oracle, exactness, bounded movements."""

import dataclasses
import math

import numpy as np
import pytest

from skfdp.data.grid import GRID, GridRows
from skfdp.privacy import Relation
from skfdp.queries import statistics as class_sums
from skfdp.queries.statistics import ClassSum, clipped

REPLACED = Relation.of("replace_one")


def as_rows(X):
    """Put rows on the grid as they are: it saturates at 2, the norm is not bounded."""
    return GridRows.build(np.asarray(X, dtype=float), lambda block: block)


def random_rows(rng, n, d, signed):
    """Rows of very different length, some sparse, some beyond the bound."""
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    X[rng.random((n, d)) < 0.3] = 0.0
    return X if signed else np.abs(X)


def make_sums(rng, n=8, d=4, n_classes=3, signed=False):
    rows = as_rows(random_rows(rng, n, d, signed))
    return ClassSum(rows, rng.integers(0, n_classes, n), n_classes, not signed)


def replaced(query, row):
    """Return the query with another private part of record 0."""
    new, values = as_rows(row[None]), query.rows.values.copy()
    norms = query.rows.squared_norms.copy()
    values[0], norms[0] = new.values[0], new.squared_norms[0]
    return dataclasses.replace(query, rows=GridRows(values, norms))


def movement(query, other, unit):
    """Return how far the sum moves, from exact integers."""
    moved = query.exact_sum(None, None, unit) - other.exact_sum(None, None, unit)
    return math.sqrt(sum(int(entry) ** 2 for entry in moved.ravel().tolist())) * unit


def worst_pairs(rng, d, signed):
    """Yield rows that move far from each other, then random ones."""
    basis = 3 * np.eye(d)  # saturated at 2, then clipped to 1
    yield basis[0], basis[1]
    if signed:
        yield basis[0], -basis[0]
    for _ in range(60):
        yield tuple(random_rows(rng, 2, d, True))


def check_movement(make, signed, seed=0):
    """Brute force over neighbours: no sum moves by more than its sensitivity."""
    rng = np.random.default_rng(seed)
    query, largest = make(rng, signed), 0.0
    for std in (0.0, 3.0, 3e6):
        unit = query.unit(std)
        for one, other in worst_pairs(rng, query.rows.values.shape[1], signed):
            here, there = replaced(query, one), replaced(query, other)
            largest = max(largest, movement(here, there, unit))
            alone = here.exact_sum(None, np.array([0]), unit)
            norm = (
                math.sqrt(sum(int(entry) ** 2 for entry in alone.ravel().tolist()))
                * unit
            )
            assert norm <= query.clip_norm
    assert largest <= query.sensitivity(REPLACED)
    assert largest > 0.999 * query.sensitivity(REPLACED)  # the bound is attained


def sums(rng, signed):
    return make_sums(rng, signed=signed)


@pytest.mark.parametrize("signed", [False, True])
def test_a_replaced_record_moves_no_sum_further_than_said(signed):
    for seed in range(10):
        check_movement(sums, signed, seed)


def test_signed_rows_move_further_than_sqrt_2_and_are_charged_so():
    rng = np.random.default_rng(0)
    query = make_sums(rng, signed=True)
    row = np.array([1.0, 0, 0, 0])
    unit = query.unit(1.0)
    moved = movement(replaced(query, row), replaced(query, -row), unit)
    assert moved > 1.9 > math.sqrt(2)
    assert query.sensitivity(REPLACED) == 2.0
    # Declared non-negative, the same rows are cut at zero: the bound is enforced.
    claimed = dataclasses.replace(query, nonnegative=True)
    assert claimed.sensitivity(REPLACED) == math.sqrt(2)
    moved = movement(replaced(claimed, row), replaced(claimed, -row), unit)
    assert moved <= 1.0


def test_sabotage_of_the_clip_is_noticed(monkeypatch):
    monkeypatch.setattr(
        class_sums, "clipped", lambda values, coarser: np.trunc(values / coarser)
    )
    with pytest.raises(AssertionError):
        check_movement(sums, signed=False)


def test_sabotage_of_the_rounding_is_noticed(monkeypatch):
    """Away from zero instead of toward it: in a coarse grid the row grows."""

    def outward(values, coarser):
        rows = clipped(values) / coarser
        return np.sign(rows) * np.ceil(np.abs(rows))

    monkeypatch.setattr(class_sums, "clipped", outward)
    # A grid so coarse that one unit matters.
    monkeypatch.setattr(class_sums, "sum_unit", lambda *a: 2.0**-3)
    with pytest.raises(AssertionError):
        for seed in range(5):
            check_movement(sums, False, seed)


def test_the_sums_match_their_definition():
    rng = np.random.default_rng(1)
    X = rng.random((700, 5)) / 3
    target = rng.integers(0, 3, 700)
    rows = as_rows(X)
    query = ClassSum(rows, target, 4, nonnegative=True)
    held = rows.values * GRID
    expected = np.eye(4)[target].T @ held
    unit = query.unit(1.0)
    np.testing.assert_allclose(query.exact_sum(None, None, unit) * unit, expected)


@pytest.mark.parametrize("signed", [False, True])
def test_the_order_of_rows_and_the_blocks_do_not_matter(signed, monkeypatch):
    rng = np.random.default_rng(2)
    query = make_sums(rng, n=300, d=70, signed=signed)
    unit = query.unit(5.0)
    whole = query.exact_sum(None, None, unit)
    shuffled = query.exact_sum(None, rng.permutation(300), unit)
    monkeypatch.setattr(
        class_sums, "blocks", lambda n, d: [slice(i, i + 7) for i in range(0, n, 7)]
    )
    small = query.exact_sum(None, None, unit)
    assert whole.dtype == np.int64
    np.testing.assert_array_equal(whole, shuffled)
    np.testing.assert_array_equal(whole, small)


def test_rows_within_the_bound_are_kept_and_longer_ones_end_on_it():
    inside = as_rows([[0.6, 0.8, 0.0], [1.0, 0.0, 0.0], [0.1, 0.2, 0.3]])
    np.testing.assert_array_equal(clipped(inside.values), inside.values)
    outside = as_rows([[1.5, -1.5, 1.9], [1.0, 0.01, 0.0]])
    norms = np.linalg.norm(clipped(outside.values) * GRID, axis=1)
    assert (norms <= 1).all()
    assert (norms > 0.9998).all()


def test_the_clip_factor_is_rounded_down():
    """The squared norm is one squared grid unit above the limit."""
    base = np.array([4095] * 16 + [362, 3, 2])
    assert (base**2).sum() == GRID**-2 + 1
    for times in (1, 2, 8):
        values = (times * base[None]).astype(np.int16)
        assert (clipped(values) ** 2).sum() <= GRID**-2
