"""The table of a private score: all neighbours of one record, in grid integers."""

import itertools
import math

import numpy as np
import pytest

from skfdp.privacy import RELATIONS, Relation
from skfdp.queries.statistics import SQUARES, ScoreTable

ROOT2 = math.sqrt(2)
LOSSES = (0.0, 1e-300, 0.3, 0.5, 1.0, 7.0, -1.0, math.nan, math.inf, -math.inf)
STDS = (0.0, 3.0, 1e6)


def one_record(cell, losses, n_cells, group=1):
    """Return the table of one record between two others."""
    j = len(losses)
    return ScoreTable(
        np.array([0, cell, n_cells - 1]),
        np.array([[0.2] * j, losses, [0.9] * j]).reshape(3, j),
        np.array([0, group, 1]),
        n_cells,
        2,
        3,
    )


def check_neighbours(n_cells, n_losses, unit=None):
    """Compare all pairs of values of one record; return how far the table moves."""
    values = list(
        itertools.product(range(n_cells), itertools.product(LOSSES, repeat=n_losses))
    )
    planned = ScoreTable.planned(n_cells, n_losses, 2)
    unit = planned.unit(3.0) if unit is None else unit
    tables = [one_record(*value, n_cells) for value in values]
    totals = np.array([t.exact_sum(None, None, unit) for t in tables])
    without = tables[0].exact_sum(None, np.array([0, 2]), unit)
    flat = totals.reshape(len(totals), -1)
    moved = ((flat[:, None] - flat) ** 2).sum(axis=-1).max()
    nulled = ((flat - without.ravel()) ** 2).sum(axis=-1).max()
    reach = {r: planned.sensitivity(Relation.of(r)) for r in RELATIONS}
    assert math.sqrt(moved) * unit <= reach["replace_one"]
    for relation in RELATIONS:
        assert math.sqrt(nulled) * unit <= planned.clip_norm <= reach[relation]
    # What it adds is in the row of its own group.
    assert (totals[:, 0] == totals[0, 0]).all()
    return math.sqrt(moved) * unit / reach["replace_one"]


@pytest.mark.parametrize("n_cells", [2, 5, 7])
def test_counts_move_by_the_root_of_two(n_cells):
    assert check_neighbours(n_cells, 0) == pytest.approx(1, rel=1e-12)
    assert ScoreTable.planned(n_cells, 0).sensitivity(
        Relation.of("replace_one")
    ) == pytest.approx(ROOT2, rel=1e-15)


@pytest.mark.parametrize("n_cells, n_losses", [(5, 1), (3, 2)])
def test_losses_join_with_one_sensitivity(n_cells, n_losses):
    assert check_neighbours(n_cells, n_losses) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**-3, 1.0, 4.0])
def test_no_grid_lengthens_a_contribution(unit):
    check_neighbours(3, 1, unit)


def test_what_it_says():
    def said(n_cells, n_losses):
        table = ScoreTable.planned(n_cells, n_losses)
        return [table.sensitivity(Relation.of(name)) ** 2 for name in RELATIONS]

    two = 1 + SQUARES**2
    assert said(7, 0) == pytest.approx([2, 1, 1])
    assert said(7, 2) == pytest.approx([2 + 2 * two, 1 + 2 * two, 1 + 2 * two])
    # Losses alone: zero is one of their values, and a null is no further away.
    assert said(0, 1) == pytest.approx([two, two, two])
    # One cell: no replaced record moves it, and a null does.
    assert said(1, 1) == pytest.approx([1 + two, 1 + two, 1 + two])


def test_it_counts_and_sums():
    table = ScoreTable(
        np.array([0, 2, 2, 1]),
        np.array([[0.5], [1.0], [0.0], [2.0]]),
        np.array([0, 0, 0, 1]),
        3,
        2,
        4,
    )
    unit = table.unit(1.0)
    total = table.exact_sum(None, None, unit) * unit
    expected = [[1, 0, 2, 1.5, 1.25 / 2], [0, 1, 0, 1, 1 / 2]]
    np.testing.assert_allclose(total, expected, atol=1e-5)


def test_what_belongs_nowhere_adds_nothing():
    table = ScoreTable(
        np.array([-1, 3, 0]), np.ones((3, 1)), np.array([0, 0, 2]), 3, 2, 3
    )
    total = table.exact_sum(None, None, 2.0**-20)
    assert not total[:, :3].any()
    assert total[0, 3] == 2 * 2**20  # two records of group 0; the third is in none


@pytest.mark.parametrize("std", STDS)
def test_the_unit_is_public_and_leaves_room(std):
    table = ScoreTable(
        np.zeros(9, np.int64), np.ones((9, 1)), np.zeros(9, np.int64), 1, 1, 2**40
    )
    unit = table.unit(std)
    assert math.frexp(unit)[0] == 0.5
    assert 2**40 * table.clip_norm / unit <= 2.0**62
