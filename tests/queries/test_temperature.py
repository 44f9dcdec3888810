"""The slope along a released step: brute force, exactness, bounded contributions."""

import dataclasses
import math

import numpy as np
import pytest

from skfdp.data.grid import GridRows
from skfdp.queries import statistics as temperature
from skfdp.queries.linear import LOSSES, LinearQuery
from skfdp.queries.statistics import TemperatureSum

LOSS, POINTS, N, D = LOSSES["log_loss"], (0.2, 1.0), 8, 4
OUTPUTS = pytest.mark.parametrize("n_outputs", [1, 3])


def as_rows(X, centre=None):
    """Put rows on the grid as they are."""
    return GridRows.build(X, lambda block: block, bias=0.1, centre=centre)


def make_query(seed=0, n_outputs=1, n=N, **more):
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
    return TemperatureSum(query, n_classes, **given)


def changed(query, **more):
    """Return the sum over other records of the loop."""
    return dataclasses.replace(query, query=dataclasses.replace(query.query, **more))


def length(integers, unit):
    return math.sqrt(sum(int(entry) ** 2 for entry in integers.tolist())) * unit


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


@pytest.mark.parametrize("capacity", [1, 2**40, 2**60])
def test_the_unit_leaves_room_for_as_many_records_as_are_declared(capacity):
    query = make_query(capacity=capacity)
    for std in (0.0, 3.0, 3e6):
        assert capacity * query.clip_norm / query.unit(std) <= 2.0**62 * (1 + 1e-9)
