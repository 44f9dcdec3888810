"""Moments, class sums, scores and slopes; ``test_contract.py`` searches them all."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from problems import length

from skfdp.data.grid import GRID, GridRows, InputScaler
from skfdp.kernels.losses import loss_named
from skfdp.privacy import RELATIONS, Relation
from skfdp.queries import statistics
from skfdp.queries.linear import LinearQuery

STDS = (0.0, 1.0, 3e2, 1e4, 1e6)


def regressor_rows(rng, n, k):
    """Public rows of norm at most 1, as the transformer makes them."""
    rows = rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
    rows[0] = np.eye(k)[0]
    return np.trunc(rows * ((1 - 1e-9) / GRID)).astype(np.int16)


def integers(X):
    return GridRows.build(X, lambda rows: rows / 64, scale=64.0)


def make_query(seed=0, n=6, k=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-2, 2, (n, 1))
    regressors = regressor_rows(rng, n, k)
    return statistics.CrossSum(integers(X), 1.0, regressors, nonnegative=False)


def test_signed_rows_exceed_what_non_negative_ones_keep():
    """Without declared bounds sqrt(2) would be wrong: opposite rows are 2 apart."""
    claimed = statistics.CrossSum.planned(nonnegative=True)
    assert claimed.sensitivity(Relation.of("replace_one")) == math.sqrt(2)
    # Declared non-negative, rows are cut at zero: the bound is enforced.
    query = make_query()
    sums = [
        dataclasses.replace(
            query,
            rows=integers(sign * np.eye(3)[:1]),
            regressors=query.regressors[:1],
            **more,
        ).exact_sum(None, None, query.unit(1.0))
        for more in ({}, {"nonnegative": True})
        for sign in (1, -1)
    ]
    moved = [length(a - b, query.unit(1.0)) for a, b in (sums[:2], sums[2:])]
    assert moved[0] > 1.99 > math.sqrt(2) >= moved[1]


def test_the_norms_are_free():
    """They add to a contribution only what a shorter row leaves."""
    for a in np.linspace(0, 1, 101):
        assert a + (1 - a) ** 2 <= 1 + 1e-15
        for b in np.linspace(0, 1, 101):
            signed = (math.sqrt(a) + math.sqrt(b)) ** 2 + (a - b) ** 2
            assert signed <= 4 + 1e-15
            assert a + b + (a - b) ** 2 <= 2 + 1e-15


# -- what it is ----------------------------------------------------------------------
def test_the_sum_matches_its_definition():
    query = make_query(n=5000, k=4)
    unit = query.unit(1.0)
    found = query.exact_sum(None, None, unit) * unit
    rows = InputScaler().mapped(query.rows.floats(slice(None)))
    expected = (query.regressors * GRID).T @ rows
    np.testing.assert_allclose(found[:-1].reshape(4, 3), expected, atol=5000 * GRID)
    np.testing.assert_allclose(found[-1], 5000 - np.sum(rows**2), atol=20_000 * GRID)
    assert query.shape == found.shape == (13,)


@pytest.mark.parametrize("std", STDS)
def test_the_sum_is_exact_in_any_order(std):
    query = make_query(n=20_000)
    unit = query.unit(std)
    total = query.exact_sum(None, None, unit)
    assert total.dtype == np.int64
    order = np.random.default_rng(0).permutation(query.n_rows)
    np.testing.assert_array_equal(query.exact_sum(None, order, unit), total)


def test_the_unit_grows_with_the_noise_up_to_a_grid_of_whole_rows():
    query = make_query()
    assert query.unit(0.0) == query.unit(1.0) == GRID**2
    assert query.unit(1e4) > GRID**2
    assert query.unit(1e12) == GRID


# -- the table of a private score: all neighbours of one record ------------------------
VALUES = (0.0, 1e-300, 0.3, 0.5, 1.0, 7.0, -1.0, math.nan, math.inf, -math.inf)


def one_record(cell, losses, n_cells, group=1):
    """Return the table of one record between two others."""
    j = len(losses)
    return statistics.ScoreSum(
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
        itertools.product(range(n_cells), itertools.product(VALUES, repeat=n_losses))
    )
    planned = statistics.ScoreSum.planned(n_cells, n_losses, 2)
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


@pytest.mark.parametrize("n_cells, n_losses", [(5, 1), (3, 2)])
def test_losses_join_with_one_sensitivity(n_cells, n_losses):
    assert check_neighbours(n_cells, n_losses) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**-3, 1.0, 4.0])
def test_no_grid_lengthens_a_contribution(unit):
    check_neighbours(3, 1, unit)


def test_it_counts_and_sums():
    table = statistics.ScoreSum(
        np.array([0, 2, 2, 1]),
        np.array([[0.5], [7.0], [0.0], [math.nan]]),  # one is too large, one missing
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
    table = statistics.ScoreSum(
        np.array([-1, 3, 0]), np.ones((3, 1)), np.array([0, 0, 2]), 3, 2, 3
    )
    total = table.exact_sum(None, None, 2.0**-20)
    assert not total[:, :3].any()
    assert total[0, 3] == 2 * 2**20  # two records of group 0; the third is in none


# -- slopes along a released step -----------------------------------------------------
LOSS, POINTS, N, D = loss_named("log_loss"), (0.2, 1.0), 8, 4
OUTPUTS = pytest.mark.parametrize("n_outputs", [1, 3])


def as_rows(X, centre=None):
    """Put rows on the grid as they are."""
    return GridRows.build(X, lambda block: block, bias=0.1, centre=centre)


def slopes(seed=0, n_outputs=1, n=N, **more):
    """Return a query of random records."""
    rng = np.random.default_rng(seed)
    n_classes = max(2, n_outputs)
    start, step = 10.0 ** rng.uniform(-1, 3) * rng.normal(size=(2, n_outputs, D + 1))
    query = LinearQuery(
        rows=more.pop("rows", None) or as_rows(rng.normal(size=(n, D))),
        target=rng.integers(0, n_classes, n),
        loss=more.pop("loss", LOSS),
        n_outputs=n_outputs,
        clip_norm=1.0,
        capacity=more.pop("capacity", n),
        offset=more.pop("offset", None),
    )
    given = {"start": start, "step": step, "points": POINTS, "reach": 0.5} | more
    return statistics.TemperatureSum(query, n_classes, **given)


def changed(query, **more):
    """Return the sum over other records of the loop."""
    return dataclasses.replace(query, query=dataclasses.replace(query.query, **more))


@OUTPUTS
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_margins_of_any_size_are_bounded_and_stay_with_their_record(n_outputs, value):
    offset = np.zeros((N, n_outputs))
    usual = slopes(1, n_outputs, offset=offset)
    offset = offset.copy()
    offset[0, 0] = value
    extreme = changed(usual, offset=offset)
    unit = usual.unit(3.0)
    assert length(extreme.exact_sum(None, np.array([0]), unit), unit) <= usual.clip_norm
    for i in range(1, N):
        one, other = (q.exact_sum(None, np.array([i]), unit) for q in (usual, extreme))
        np.testing.assert_array_equal(one, other)


@OUTPUTS
@pytest.mark.parametrize("value", [0.0, 5e-324, 1e300, np.nan, np.inf])
def test_weights_of_any_size_give_bounded_sums(n_outputs, value):
    query = slopes(2, n_outputs, step=np.full((n_outputs, D + 1), value))
    unit = query.unit(3.0)
    for i in range(N):
        alone = query.exact_sum(None, np.array([i]), unit)
        assert length(alone, unit) <= query.clip_norm


@OUTPUTS
def test_the_order_of_records_and_the_blocks_do_not_matter(n_outputs, monkeypatch):
    query = slopes(4, n_outputs, n=3000)
    unit = query.unit(1.0)
    whole = query.exact_sum(None, None, unit)
    order = np.random.default_rng(0).permutation(3000)
    np.testing.assert_array_equal(query.exact_sum(None, order, unit), whole)
    monkeypatch.setattr(
        statistics,
        "blocks",
        lambda n, d: [slice(i, min(i + 7, n)) for i in range(0, n, 7)],
    )
    np.testing.assert_array_equal(query.exact_sum(None, None, unit), whole)
    alone = sum(query.exact_sum(None, np.array([i]), unit) for i in range(300))
    np.testing.assert_array_equal(query.exact_sum(None, np.arange(300), unit), alone)


def test_a_row_on_a_coarser_grid_is_no_longer():
    row = GridRows.build(np.ones((1, 1)), lambda block: block)
    unit = (1 + 5e-10) * GRID / 1000
    total = statistics.GridRowSum(row, 1.0, 1).exact_sum(None, None, unit)
    assert total[0] * unit <= 1
