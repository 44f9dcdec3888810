"""Units: shares, reach, batches of persons, and what numbers them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skfdp.data.units import FULL_WEIGHT, Units, balanced, first_rows, numbered, rounded

groups = st.lists(st.integers(0, 6), min_size=1, max_size=40)


@st.composite
def units(draw):
    persons = numbered(draw(groups))
    weights = draw(
        st.lists(
            st.integers(0, FULL_WEIGHT), min_size=len(persons), max_size=len(persons)
        ).filter(any)
    )
    return Units(np.array(weights, dtype=np.int64), persons)


@given(units())
def test_shares_sum_to_the_number_of_persons_and_none_exceeds_the_reach(units):
    assert units.shares.sum() == pytest.approx(units.n_units)
    totals = np.bincount(units.persons, units.shares)
    assert totals.max() <= units.reach <= totals.max() * (1 + 1e-9)
    assert units.reach >= 1 - 1e-9


@given(units(), st.data())
def test_a_batch_of_persons_has_all_of_their_rows_and_no_others(units, data):
    drawn = data.draw(st.sets(st.integers(0, units.n_units - 1)))
    chosen = np.array(sorted(drawn), dtype=np.int64)
    rows = units.rows_of(chosen)
    assert sorted(rows) == sorted(np.flatnonzero(np.isin(units.persons, chosen)))
    # One person after the other, each in the order of the table.
    assert (np.diff(units.persons[rows]) >= 0).all()
    for person in chosen:
        own = rows[units.persons[rows] == person]
        assert (np.diff(own) > 0).all()


@given(groups)
def test_names_of_groups_leave_no_trace(names):
    codes = numbered(names)
    # The first rows of the groups are numbered in order.
    _, first = np.unique(codes, return_index=True)
    assert (np.diff(first) > 0).all()
    assert np.array_equal(codes, numbered([f"x{-name}" for name in names]))
    assert np.array_equal(codes, numbered([1000 - name for name in names]))


@given(groups, st.integers(1, 5))
def test_truncation_keeps_the_first_rows_of_each_person(names, most):
    persons = numbered(names)
    kept, seen = first_rows(persons, most), {}
    for row, person in enumerate(persons):
        seen[person] = seen.get(person, 0) + 1
        assert kept[row] == (seen[person] <= most)


@settings(max_examples=100)
@given(groups, st.floats(0, 1e4))
def test_balanced_weights_have_a_cap_for_each_person(names, noise):
    persons, ones = numbered(names), np.ones(len(names))
    weights = balanced(ones, persons, noise)
    totals, counts = np.bincount(persons, weights), np.bincount(persons)
    cap = totals.max()
    assert np.allclose(totals, np.minimum(counts, cap))
    assert (weights > 0).all() and (weights <= 1).all()


def test_rows_count_alike_without_noise_and_persons_do_with_much_of_it():
    persons = np.repeat(np.arange(50), np.arange(1, 51))
    ones = np.ones(len(persons))
    assert np.array_equal(balanced(ones, persons, 0.0), ones)
    totals = np.bincount(persons, balanced(ones, persons, 1e9))
    assert totals == pytest.approx(np.ones(50))
    # A user's own weights are kept, and their proportions within a person.
    persons, weights = np.array([0, 0, 1, 2]), np.array([1.0, 3.0, 700.0, 2.0])
    assert np.array_equal(balanced(weights, persons, 0.0), weights)
    loud = balanced(weights, persons, 1e9)
    assert np.bincount(persons, loud) == pytest.approx(np.full(3, 2.0))
    assert loud[1] / loud[0] == pytest.approx(3.0)


def test_weights_are_rounded_and_none_vanishes():
    for weights, wanted in (
        ([1.0, 0.5, 1e-9, 0.0], [FULL_WEIGHT, FULL_WEIGHT // 2, 1, 0]),
        ([2.0, 4.0, 0.0], [1, 2, 0]),  # whole ones are kept, up to a common factor
        ([3.0, 1024.0], [3, 1024]),
        ([1.0, 5000.0], [1, 1024]),
    ):
        assert rounded(np.array(weights)).tolist() == wanted


def test_records_without_groups_are_units_of_their_own():
    units = Units(np.array([1024, 512, 0]))
    assert (units.unit, units.n_units) == ("record", 3)
    assert units.rows_of(np.array([2, 0])).tolist() == [2, 0]
    assert units.reach == pytest.approx(2.0)


def test_rows_that_are_kept_number_their_persons_anew():
    units = Units(np.array([1024, 1024, 512, 512]), np.array([0, 1, 1, 2]))
    kept = units.kept(np.array([False, True, False, True]))
    assert kept.persons.tolist() == [0, 1] and kept.weights.tolist() == [1024, 512]
