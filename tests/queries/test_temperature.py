"""The slope along a released step: brute force, exactness, bounded contributions."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from skfdp.data.grid import GridRows
from skfdp.privacy import RELATIONS, Relation
from skfdp.queries import statistics as temperature
from skfdp.queries.linear import LOSSES, LinearQuery, huber
from skfdp.queries.statistics import TemperatureSum

LOSS, POINTS, N, D = LOSSES["log_loss"], (0.2, 1.0), 8, 4
OUTPUTS = pytest.mark.parametrize("n_outputs", [1, 3])


def as_rows(X, centre=None):
    """Put rows on the grid as they are."""
    return GridRows.build(X, lambda block: block, bias=0.1, centre=centre)


def weights(n_outputs):
    """Return a start that decides by column 0, and a step along column 1."""
    start, step = np.zeros((2, n_outputs, D + 1))
    sides = [1.0, -1.0] if n_outputs > 1 else [1.0]
    start[: len(sides), 0] = 1000 * np.array(sides)
    step[: len(sides), 1] = 10 * np.array(sides)
    return start, step


def make_query(seed=0, n_outputs=1, n=N, worst=False, **more):
    """Return a query of random records; `worst`: whose bound some records attain."""
    rng = np.random.default_rng(seed)
    n_classes = max(2, n_outputs)
    start, step = 10.0 ** rng.uniform(-1, 3) * rng.normal(size=(2, n_outputs, D + 1))
    if worst:
        start, step = weights(n_outputs)
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
    return TemperatureSum(query, n_classes, **given)


def changed(query, **more):
    """Return the sum over other records of the loop."""
    return dataclasses.replace(query, query=dataclasses.replace(query.query, **more))


def replaced(query, row, label):
    """Return the query with another record 0."""
    new, old = as_rows(np.asarray(row, float)[None]), query.query.rows
    values, norms = old.values.copy(), old.squared_norms.copy()
    target = query.query.target.copy()
    values[0], norms[0], target[0] = new.values[0], new.squared_norms[0], label
    return changed(query, rows=GridRows(values, norms), target=target)


def length(integers, unit):
    return math.sqrt(sum(int(entry) ** 2 for entry in integers.tolist())) * unit


def records(rng, n_classes):
    """Yield records of every kind, the worst ones first."""
    for row in ([1, 1, 0, 0], [1, -1, 0, 0], [-1, 1, 0, 0], [-1, -1, 0, 0]):
        yield from ((row, label) for label in range(n_classes))
    for _ in range(20):
        size = 10.0 ** rng.uniform(-3, 1)
        yield rng.normal(size=D) * size, rng.integers(n_classes)


def check_sensitivity(relation, n_outputs, *, loss=LOSS, seed=0):
    """Brute force over neighbours, in exact integers."""
    rng, largest = np.random.default_rng(seed), 0.0
    for k in range(6):
        query = make_query(seed + k, n_outputs, worst=k == 0, loss=loss)
        bound = query.sensitivity(Relation.of(relation))
        unit, totals = query.unit((0.0, 3.0, 3e6)[k % 3]), []
        everyone = np.arange(1, N)
        for row, label in records(rng, query.n_classes):
            other = replaced(query, row, label)
            total = other.exact_sum(None, None, unit)
            alone = other.exact_sum(None, np.array([0]), unit)
            others = other.exact_sum(None, everyone, unit)
            assert total.dtype == np.int64
            np.testing.assert_array_equal(total, alone + others)
            np.testing.assert_array_equal(others, query.exact_sum(None, everyone, unit))
            assert length(alone, unit) <= query.clip_norm
            totals.append(total if relation == "replace_one" else alone)
        if relation != "replace_one":
            totals.append(0 * totals[0])
        for one in totals:
            moved = max(length(one - other, unit) for other in totals)
            if relation == "replace_one" or one is totals[-1]:
                largest = max(largest, moved)
        assert largest <= bound
    assert largest > 0.999 * bound  # it is attained


@OUTPUTS
@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_move_the_slopes_by_at_most_the_sensitivity(relation, n_outputs):
    check_sensitivity(relation, n_outputs)


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_move_the_slopes_of_hubers_loss_by_at_most_that(relation):
    check_sensitivity(relation, 1, loss=huber(1.35))


@OUTPUTS
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_margins_of_any_size_are_bounded_and_stay_with_their_record(n_outputs, value):
    offset = np.zeros((N, n_outputs))
    usual = make_query(1, n_outputs, offset=offset)
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
    query = make_query(2, n_outputs, step=np.full((n_outputs, D + 1), value))
    unit = query.unit(3.0)
    for i in range(N):
        alone = query.exact_sum(None, np.array([i]), unit)
        assert length(alone, unit) <= query.clip_norm


@OUTPUTS
def test_the_order_of_records_and_the_blocks_do_not_matter(n_outputs, monkeypatch):
    query = make_query(4, n_outputs, n=3000)
    unit = query.unit(1.0)
    whole = query.exact_sum(None, None, unit)
    order = np.random.default_rng(0).permutation(3000)
    np.testing.assert_array_equal(query.exact_sum(None, order, unit), whole)
    monkeypatch.setattr(
        temperature,
        "blocks",
        lambda n, d: [slice(i, min(i + 7, n)) for i in range(0, n, 7)],
    )
    np.testing.assert_array_equal(query.exact_sum(None, None, unit), whole)
    alone = sum(query.exact_sum(None, np.array([i]), unit) for i in range(300))
    np.testing.assert_array_equal(query.exact_sum(None, np.arange(300), unit), alone)


@OUTPUTS
def test_the_sum_is_the_slope_of_the_loss(n_outputs):
    """Where no step is cut: the derivative of the summed loss, over the reach."""
    query = make_query(5, n_outputs, n=500)
    scale = np.abs(query.start).max()
    query = dataclasses.replace(
        query, start=query.start / scale, step=query.step / scale, reach=100.0
    )
    rows = query.query.rows.values * query.query.rows.unit

    def total(a):
        margins = rows @ (query.start + a * query.step).T
        return LOSS.value(margins, query.query.target).sum()

    found = query.exact_sum(None, None, query.unit(0.0)) * query.unit(0.0)
    wanted = [(total(a + 1e-5) - total(a - 1e-5)) / 2e-5 / 100 for a in POINTS]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


# -- sabotage ------------------------------------------------------------------------
def without(monkeypatch, *names):
    """Take the last clip of an entry, or the cut of the step, out of the query."""
    broken = {"clip": lambda a, low, high: a, "maximum": lambda a, b: b + 0 * a}
    changed = {name: broken[name] for name in names}
    public = {name: getattr(np, name) for name in dir(np) if name[0] != "_"}
    monkeypatch.setattr(temperature, "np", SimpleNamespace(**public | changed))


def short_residuals(n_classes):
    """Claim half of what the residuals of the log loss reach."""
    return LOSS.max_residual(n_classes) / 2


@OUTPUTS
def test_sabotage_of_the_cut_of_the_step_is_noticed(n_outputs, monkeypatch):
    without(monkeypatch, "clip", "maximum")
    with pytest.raises(AssertionError):
        check_sensitivity("replace_special", n_outputs)


@OUTPUTS
def test_sabotage_of_the_cut_of_the_residual_is_noticed(n_outputs, monkeypatch):
    lying = dataclasses.replace(LOSS, max_residual=short_residuals)
    check_sensitivity("replace_special", n_outputs, loss=lying)  # entries are clipped
    without(monkeypatch, "clip")
    with pytest.raises(AssertionError):
        check_sensitivity("replace_special", n_outputs, loss=lying)


@pytest.mark.parametrize("capacity", [1, 2**40, 2**60])
def test_the_unit_leaves_room_for_as_many_records_as_are_declared(capacity):
    query = make_query(capacity=capacity)
    for std in (0.0, 3.0, 3e6):
        assert capacity * query.clip_norm / query.unit(std) <= 2.0**62 * (1 + 1e-9)
