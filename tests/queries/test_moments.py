"""Second moments and the target statistic: definition, exactness, sensitivity."""

import dataclasses
import math

import numpy as np
import pytest

from skfdp.data.grid import GRID, GridRows
from skfdp.privacy import Relation
from skfdp.queries.statistics import TargetSum
from skfdp.solvers import moments
from skfdp.solvers.moments import CROSS, PAIR, SQUARE, MomentSum, OuterSum, unpacked

REPLACED = Relation.of("replace_one")


def make_moments(rows):
    """Return a query of the given columns of x, then y."""
    return MomentSum.build(len(rows), rows.shape[1], lambda block: rows[block], 1000)


def length(change, unit):
    """Exact L2 norm of an integer vector, in float."""
    return math.sqrt(sum(int(entry) ** 2 for entry in change.ravel().tolist())) * unit


def neighbour_pairs(rng, d):
    """Yield pairs of records, among them the worst of the proof."""
    for _ in range(150):
        pair = rng.normal(size=(2, d + 1)) * 10.0 ** rng.uniform(-1, 1, size=(2, 1))
        yield pair
        # |x| = |x'| = 1, y = y' = 1, and an angle near the worst: x.x' = -b / (2 a)
        x, z = np.zeros((2, d))
        x[0] = 1.0
        angle = CROSS**2 / PAIR**2 + rng.uniform(-0.05, 0.05)
        z[:2] = -angle, math.sqrt(1 - angle**2)
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        yield np.array([[*(turn @ x), 1.0], [*(turn @ z), 1.0]])


def check_moment_sensitivity(seed, d=3):
    """Brute force: nulled and replaced records, in exact integers."""
    rng = np.random.default_rng(seed)
    others = rng.normal(size=(3, d + 1))
    alone, moved = 0.0, 0.0
    for first, second in neighbour_pairs(rng, d):
        ours = make_moments(np.vstack([others, first]))
        theirs = make_moments(np.vstack([others, second]))
        unit = ours.unit(rng.choice([1.0, 1e9]))
        a, b = (q.exact_sum(None, None, unit) for q in (ours, theirs))
        rest = ours.exact_sum(None, np.arange(3), unit)
        alone = max(alone, length(a - rest, unit))
        moved = max(moved, length(a - b, unit))
    assert alone <= MomentSum.planned().clip_norm
    assert moved <= MomentSum.planned().sensitivity(REPLACED)
    assert alone > 0.99 * MomentSum.planned().clip_norm
    assert moved > 0.99 * MomentSum.planned().sensitivity(REPLACED)


@pytest.mark.parametrize("seed", range(3))
def test_a_record_moves_the_moments_by_at_most_the_sensitivity(seed):
    check_moment_sensitivity(seed)


@pytest.mark.parametrize(
    ("shrink", "pair", "clip_norm", "sensitivity"),
    [
        # sqrt(2) clip_norm = 24.02 would hold if products had a fixed sign.
        (None, None, None, 24.0),
        (None, None, 16.0, None),
        # A pair must count sqrt(2) times a square, but no more than its bound says.
        (None, 18, math.sqrt(288.5), 25.4706),
        (1.01, None, None, None),
    ],
)
def test_sabotage_is_noticed(shrink, pair, clip_norm, sensitivity, monkeypatch):
    changes = [(moments, "_SHRINK", shrink), (moments, "PAIR", pair)]
    if clip_norm is not None:
        changes.append((MomentSum, "clip_norm", property(lambda self: clip_norm)))
    if sensitivity is not None:
        changes.append((MomentSum, "sensitivity", lambda self, _: sensitivity))
    for where, name, value in changes:
        if value is not None:
            monkeypatch.setattr(where, name, value)
    with pytest.raises(AssertionError):
        check_moment_sensitivity(0)


def test_moments_match_their_definition():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.4, 0.4, size=(5000, 5))
    query = make_moments(rows)
    unit = query.unit(1.0)
    total = query.exact_sum(None, None, unit)
    gram, cross = unpacked(total * unit, 4)
    x, y = rows[:, :-1], rows[:, -1]
    np.testing.assert_allclose(gram, x.T @ x, atol=0.3)
    np.testing.assert_allclose(cross, x.T @ y, atol=0.3)


def test_nan_counts_as_zero_and_takes_nothing_else_of_its_record():
    rows = np.random.default_rng(0).uniform(-0.4, 0.4, size=(40, 5))
    holes = np.random.default_rng(1).random(rows.shape) < 0.3
    malformed, zero = np.where(holes, np.nan, rows), np.where(holes, 0.0, rows)
    unit = make_moments(rows).unit(1.0)
    found, expected = (
        make_moments(table).exact_sum(None, None, unit) for table in (malformed, zero)
    )
    np.testing.assert_array_equal(found, expected)


def test_a_long_record_is_scaled_as_a_whole():
    query = make_moments(np.array([[3.0, 4.0, 2.0], [0.3, 0.4, 5.0]]))
    unit = query.unit(1.0)
    first, second = (
        unpacked(query.exact_sum(None, np.array([i]), unit) * unit, 2) for i in (0, 1)
    )
    np.testing.assert_allclose(first[0], np.outer([0.6, 0.8], [0.6, 0.8]), atol=1e-3)
    np.testing.assert_allclose(first[1], [0.24, 0.32], atol=1e-3)
    np.testing.assert_allclose(second[1], [0.3, 0.4], atol=1e-3)  # y cut to 1


# -- what is private times what is public ---------------------------------------------
def outer_sum(private, public):
    """Return a query of private rows beside public ones."""
    values = GridRows.build(public, lambda block: block).values
    return OuterSum(lambda index: private[index], private.shape[1], values, 1000)


def check_outer_sensitivity(seed):
    """Brute force over the private row of one record, in exact integers."""
    rng = np.random.default_rng(seed)
    public, others = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    public[3] *= 1.5 / np.linalg.norm(public[3])
    alone, moved = 0.0, 0.0
    for _ in range(100):
        first = rng.normal(size=2) * 10.0 ** rng.uniform(-1, 1)
        ends = [first, -first, rng.normal(size=2), 0 * first]
        queries = [outer_sum(np.vstack([others[:3], x]), public) for x in ends]
        unit = queries[0].unit(rng.choice([1.0, 1e8]))
        totals = [query.exact_sum(None, None, unit) for query in queries]
        rest = queries[0].exact_sum(None, np.arange(3), unit)
        alone = max(alone, *(length(total - rest, unit) for total in totals))
        moved = max(moved, *(length(totals[0] - other, unit) for other in totals))
    assert alone <= OuterSum.planned().clip_norm
    assert moved <= OuterSum.planned().sensitivity(REPLACED)
    assert alone > 0.99 * OuterSum.planned().clip_norm
    assert moved > 0.99 * OuterSum.planned().sensitivity(REPLACED)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_record_moves_what_is_public_times_private_by_at_most_two(seed):
    check_outer_sensitivity(seed)


@pytest.mark.parametrize("name", ["clipped", "shortened", "sensitivity"])
def test_sabotage_of_the_product_is_noticed(name, monkeypatch):
    """sqrt(2) would hold if private entries had a fixed sign."""
    if name == "sensitivity":
        monkeypatch.setattr(OuterSum, name, lambda self, relation: math.sqrt(2))
    else:
        monkeypatch.setattr(moments, name, lambda rows: rows.astype(np.float64))
    with pytest.raises(AssertionError):
        check_outer_sensitivity(1)


def test_products_match_their_definition():
    rng = np.random.default_rng(0)
    private = rng.uniform(-0.5, 0.5, size=(5000, 3))
    public = rng.uniform(-0.4, 0.4, size=(5000, 4))
    query = outer_sum(private, public)
    unit = query.unit(1.0)
    total = query.exact_sum(None, None, unit) * unit
    np.testing.assert_allclose(total, public.T @ private, atol=0.5)


# -- the target statistic -------------------------------------------------------------
def check_target_sensitivity(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(8, 3))
    x /= np.maximum(np.linalg.norm(x, axis=1), rng.uniform(0.9, 1.0))[:, None]
    rows = GridRows.build(x * (1 - 1e-9), lambda block: block)
    target = rng.uniform(-1.5, 1.5, 8)
    query = TargetSum(rows, target)
    largest = 0.0
    for noise in (1.0, 1e8):
        unit = query.unit(noise)
        total = query.exact_sum(None, None, unit)
        for i in range(8):
            one = query.exact_sum(None, np.array([i]), unit)
            assert length(one, unit) <= query.clip_norm
            ends = []
            for value in (-1e6, -1.0, 0.3, 1.0, 1e6):
                other = target.copy()
                other[i] = value
                moved = dataclasses.replace(query, target=other)
                ends.append(moved.exact_sum(None, None, unit))
                assert length(total - ends[-1], unit) <= query.sensitivity(REPLACED)
            largest = max(largest, length(ends[0] - ends[-1], unit))
    assert 1.99 < largest <= query.sensitivity(REPLACED) == 2.0


@pytest.mark.parametrize("seed", range(3))
def test_a_replaced_target_moves_the_statistic_by_at_most_two(seed):
    check_target_sensitivity(seed)


def test_sabotage_of_the_cut_is_noticed(monkeypatch):
    clip = np.clip

    def uncut(values, low, high, out=None):
        return values if out is None else clip(values, low, high, out=out)

    monkeypatch.setattr(np, "clip", uncut)
    with pytest.raises((AssertionError, OverflowError)):
        check_target_sensitivity(0)


def test_the_target_statistic_matches_its_definition():
    rng = np.random.default_rng(1)
    rows = GridRows.build(rng.normal(size=(6000, 4)) / 4, lambda block: block)
    target = rng.uniform(-1, 1, 6000)
    query = TargetSum(rows, target)
    total = query.exact_sum(None, None, query.unit(1.0)) * query.unit(1.0)
    np.testing.assert_allclose(total, [target @ (rows.values * GRID)], atol=0.3)


def test_the_bounds_are_those_of_the_page():
    a, b = PAIR**2 / 2, CROSS**2
    assert 2 * SQUARE**2 < PAIR**2 and SQUARE == CROSS
    assert MomentSum.planned().clip_norm == pytest.approx(math.sqrt(a + b))
    assert MomentSum.planned().sensitivity(REPLACED) ** 2 == pytest.approx(
        2 * a + 2 * b + b**2 / (2 * a)
    )
    assert MomentSum.planned().sensitivity(REPLACED) < 2 * MomentSum.planned().clip_norm
