"""Blocks have norm at most 1, and are the columns that they say."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import SplineTransformer

from skfdp import DeclaredEncoder, TableSchema
from skfdp.data._basis import SMOOTH_KNOTS, STANDALONE_KNOTS, spread_knots
from skfdp.schema import Category, Date, Number

finite = st.floats(allow_nan=False, allow_infinity=False)
wild = st.one_of(
    st.floats(),
    st.sampled_from([1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324, -0.0]),
)


def frame(X):
    """Return rows as a frame with the columns "x0", "x1" and so on."""
    X = np.asarray(X, dtype=object)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def encoder_of(*columns):
    """Return an unfitted encoder of these columns."""
    named = {f"x{j}": column for j, column in enumerate(columns)}
    return DeclaredEncoder(TableSchema(named))


def blocks_of(*columns):
    return encoder_of(*columns).schema.blocks()


@st.composite
def bounds(draw):
    low = draw(finite)
    near = math.nextafter(low, math.inf)
    high = draw(st.one_of(finite, st.just(near), st.sampled_from([1.79e308, 5e-324])))
    assume(low < high < math.inf)
    return low, high


@settings(max_examples=60, deadline=None)
@given(
    bounds(),
    bounds(),
    st.lists(st.tuples(wild, wild), min_size=1, max_size=5),
    st.sampled_from(["spline", "linear"]),
    st.sampled_from(["auto", "even", "geometric"]),
    st.booleans(),
    st.integers(2, 9),
)
def test_every_block_has_norm_at_most_1(first, second, rows, basis, spacing, cyclic, k):
    assume(spacing != "geometric" or (first[0] >= 0 and second[0] >= 0))
    encoder = encoder_of(
        Number(*first, knots=k, spacing=spacing, cyclic=cyclic),
        Number(*second, knots=k, spacing=spacing, basis=basis),
    )
    X = np.array([[*row] for row in rows] + [[first[0], second[1]]])
    found = encoder.fit_transform(frame(X))
    assert ((found >= 0) & (found <= 1)).all()
    for block in encoder.blocks_:
        for row in found[:, block.start : block.stop]:
            exact = [Fraction(entry) for entry in row]
            assert sum(entry**2 for entry in exact) <= 1
            if block.kind == "spline":
                assert sum(exact) == 1
            if row[-1]:
                assert row[-1] == 1 and not row[:-1].any()
    missing = ~np.isfinite(X)
    ages, hours = encoder.blocks_
    np.testing.assert_array_equal(found[:, ages.stop - 1], missing[:, 0])
    np.testing.assert_array_equal(found[:, hours.stop - 1], missing[:, 1])


@settings(max_examples=40, deadline=None)
@given(bounds(), st.integers(2, 40), st.sampled_from(["even", "geometric"]))
@example((1.7976931348621712e308, 1.7976931348621714e308), 23, "geometric")
@example((0.0, 1.7976931348623157e308), 40, "geometric")
@example((0.0, 5e-324), 9, "geometric")
@example((0.0, 1.0), 2, "geometric")
@example((-1.7e308, 1.7e308), 9, "even")
def test_knots_go_from_bound_to_bound(sides, n_knots, spacing):
    low, high = sides
    assume(spacing == "even" or low >= 0)
    knots = spread_knots(low, high, n_knots, spacing)
    assert len(knots) == n_knots
    assert knots[0] == low and knots[-1] == high and (np.diff(knots / 4) >= 0).all()


def test_knots_by_hand():
    assert spread_knots(0, 10, 3, "even").tolist() == [0, 5, 10]
    np.testing.assert_allclose(spread_knots(1, 100, 3, "geometric"), [1, 10, 100])
    np.testing.assert_allclose(spread_knots(0, 8, 5, "geometric"), [0, 1, 2, 4, 8])
    sixteen = spread_knots(0, 128, 16, "geometric")
    np.testing.assert_allclose(sixteen[1:], 2.0 ** np.linspace(0, 7, 15))
    assert (STANDALONE_KNOTS, SMOOTH_KNOTS) == (8, 32)


def test_hats_are_splines_of_degree_1():
    knots = np.array([0.0, 1.0, 4.0, 9.0, 10.0])
    x = np.linspace(-3, 12, 301)
    encoder = encoder_of(Number(0, 10, knots=knots)).fit(frame(x[:, None]))
    splines = SplineTransformer(
        degree=1, knots=knots[:, None], extrapolation="constant"
    )
    expected = splines.fit_transform(x[:, None])
    found = encoder.transform(frame(x[:, None]))
    np.testing.assert_allclose(found[:, :-1], expected, rtol=0, atol=2.0**-26)
    assert not found[:, -1].any()
    (block,) = encoder.blocks_
    assert (block.kind, block.start, block.stop, block.end) == ("spline", 0, 6, None)
    np.testing.assert_array_equal(block.knots, knots)
    np.testing.assert_array_equal(block.encode(x), found)
    np.testing.assert_array_equal(block.encode(knots)[:, :-1], np.eye(5))


def test_a_cyclic_block_closes():
    (block,) = blocks_of(Number(0, 24, knots=6, cyclic=True))
    assert block.knots.tolist() == [0, 4, 8, 12, 16, 20]
    assert block.end == 24 and block.cyclic and len(block.levels) == 7
    rows = block.encode([0, 24, 22, 99])
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[2], [0.5, 0, 0, 0, 0, 0.5, 0])
    np.testing.assert_array_equal(rows[3], rows[1])
    (block,) = blocks_of(Number(0, 24, knots=[0, 6, 24], cyclic=True))
    assert block.knots.tolist() == [0, 6] and block.end == 24


def test_a_line():
    (block,) = blocks_of(Number(10, 20, basis="linear"))
    assert block.levels == ("linear", "missing") and block.kind == "linear"
    assert block.knots.tolist() == [10, 20]
    expected = [[0.3, 0], [0, 0], [1, 0], [0, 1], [0, 1]]
    np.testing.assert_array_equal(
        block.encode([13, 3, 23, "thirteen", math.inf]), expected
    )


def test_categories():
    (block,) = blocks_of(Category(["a", 1, False]))
    assert block.levels == ("a", "1", "False", "other", "missing")
    found = block.encode(["a", "01", "FALSE", "b", None]).argmax(axis=1)
    assert found.tolist() == [0, 1, 2, 3, 4]


def test_declared_missing_and_other_are_these_levels():
    (block,) = blocks_of(Category(["missing", "a", "other"]))
    assert block.levels == ("missing", "a", "other")
    rows = block.encode(["missing", None, "a", "other", "b"])
    assert rows.argmax(axis=1).tolist() == [0, 0, 1, 2, 2]


def test_a_date_has_three_blocks():
    blocks = blocks_of(Date("2020-01-01", "2021-01-01", knots=3), Number(0, 1, knots=3))
    trend, month, weekday, _ = blocks
    names = ["x0", "x0.month", "x0.weekday", "x1"]
    assert [block.name for block in blocks] == names
    assert [block.parent for block in blocks] == [0, 0, 0, 1]
    assert month.cyclic and weekday.cyclic and not trend.cyclic
    assert trend.knots.tolist() == [18262, 18262 + 183, 18262 + 366]
    dates = ["2020-07-02", "2031-12-06", "soon", None]
    expected = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1]]
    np.testing.assert_array_equal(trend.encode(dates), expected)
    names = [np.array(b.levels)[b.encode(dates).argmax(1)] for b in (month, weekday)]
    assert names[0].tolist() == ["Jul", "Dec", "missing", "missing"]
    assert names[1].tolist() == ["Thu", "Sat", "missing", "missing"]
