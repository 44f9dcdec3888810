"""Blocks and smooth coordinates: their norms, their columns, and the way back."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.preprocessing import SplineTransformer

from skfdp import DeclaredEncoder, TableSchema
from skfdp.data import _basis
from skfdp.schema import Category, Date, Number

finite = st.floats(-1e100, 1e100)
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
    near = low + 2e-12 * abs(low) + 1e-100
    high = draw(st.one_of(finite, st.just(near), st.just(1e100)))
    assume(high <= 1e100)
    assume(high - low >= max(1e-100, 1e-12 * max(abs(low), abs(high))))
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
@example((1e100 - 1e88, 1e100), 40, "geometric")
@example((0.0, 1e100), 40, "geometric")
@example((0.0, 1e-100), 9, "geometric")
@example((0.0, 1.0), 2, "geometric")
@example((-1e100, 1e100), 9, "even")
def test_knots_go_from_bound_to_bound(sides, n_knots, spacing):
    low, high = sides
    assume(spacing == "even" or low >= 0)
    knots = _basis.spread_knots(low, high, n_knots, spacing)
    assert len(knots) == n_knots or high - low < 1e-9 * high
    assert knots[0] == low and knots[-1] == high and (np.diff(knots) > 0).all()


def test_hats_are_splines_of_degree_1():
    knots = np.array([0.0, 1.0, 4.0, 9.0, 10.0])
    x = np.linspace(-3, 12, 301)
    encoder, rows = encoder_of(Number(0, 10, knots=knots)), frame(x[:, None])
    given_ = {"degree": 1, "knots": knots[:, None], "extrapolation": "constant"}
    expected = SplineTransformer(**given_).fit_transform(x[:, None])
    found = encoder.fit(rows).transform(rows)
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
    found = block.encode([13, 3, 23, "thirteen", math.inf])
    expected = [[0.3, 0], [0, 0], [1, 0], [0, 1], [0, 1]]
    assert block.knots.tolist() == [10, 20] and found.tolist() == expected


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


# -- smooth coordinates ----------------------------------------------------------------
SIGNALS = [1e-9, 1.0, 10.0, 100.0, 1e4, np.inf]


def table(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.uniform(15, 95, n_rows), rng.uniform(-2, 26, n_rows)]
    X = np.column_stack([*X, rng.integers(0, 4, n_rows), rng.normal(size=n_rows)])
    X[rng.random(X.shape) < 0.1] = np.nan
    return pd.DataFrame(X, columns=list("abcd"))


def encoder(n_knots=6):
    columns = {
        "a": Number(17, 90, knots=n_knots),
        "b": Number(0, 24, knots=n_knots, cyclic=True),
        "c": Category([0, 1, 2]),
        "d": Number(-2, 2, basis="linear"),
    }
    return DeclaredEncoder(TableSchema(columns)).fit(table())


def numbers(values):
    return pd.DataFrame({"a": np.ravel(values)})


def encoder_of_numbers(**options):
    schema = TableSchema({"a": Number(0, 1, **options)})
    return DeclaredEncoder(schema).fit(numbers([0]))


def smooth_rows(smoothing, enc, X):
    """Return the rows of smooth terms, which CSR rows equal to the bit."""
    coded = enc.coded(enc.schema.select(X))
    source, width = coded.source.smooth(smoothing), smoothing.n_columns
    coded = dataclasses.replace(coded, source=source, width=width)
    rows = coded[:]
    sparse = smoothing.rows(csr_array(enc.transform(X)))
    np.testing.assert_array_equal(rows, sparse.toarray())
    return rows


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("n_knots", [2, 3, 4, 7, 16, 64])
def test_directions_are_orthonormal_and_leave_the_constant_out(n_knots, cyclic):
    shapes = _basis.directions(n_knots, cyclic)
    assert shapes.shape == (n_knots, n_knots - 1)
    assert len(_basis.orders(n_knots, cyclic)) == n_knots - 1
    assert np.abs(shapes.T @ shapes - np.eye(n_knots - 1)).max() < 1e-9
    assert np.abs(shapes.sum(axis=0)).max() < 1e-9


@given(
    n_knots=st.integers(2, 40),
    signal=st.sampled_from(SIGNALS),
    n_records=st.integers(1, 10**9),
    n_blocks=st.integers(1, 500),
    cyclic=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_no_row_of_the_matrix_is_longer_than_one(
    n_knots, signal, n_records, n_blocks, cyclic
):
    variance = _basis.prior_variances(n_knots, cyclic)
    squares = _basis.squared_lengths(variance, signal, n_records, n_blocks)
    assert squares.min() >= 0 and squares.max() == 1
    shapes = _basis.directions(n_knots, cyclic)
    matrix = shapes * _basis.lengths_of_shapes(shapes, squares)
    norms = np.linalg.norm(matrix, axis=1)
    assert norms.max() <= 1 and norms.max() > 1 - 1e-9


def test_a_small_signal_draws_lines_and_a_large_one_frees_every_knot():
    variance = _basis.prior_variances(16)
    signals = np.geomspace(1, 1e7, 15)
    squares = [_basis.squared_lengths(variance, s, 10**6, 8) for s in signals]
    kept = [int((square > 0).sum()) for square in squares]
    assert kept[0] == 1 and kept[-1] == 15
    assert kept == sorted(kept)
    # Rougher directions are shorter, but the longer the larger the signal.
    assert all((np.diff(square) <= 0).all() for square in squares)
    assert (np.diff([square[5] for square in squares]) >= -1e-12).all()


def test_few_records_buy_no_free_curve():
    """What explains less than chance costs is left out, at any budget."""
    variance = _basis.prior_variances(32)
    for n in (100, 1_000, 100_000):
        squares = _basis.squared_lengths(variance, np.inf, n, 10)
        told = variance * _basis.EXPLAINED / 10
        np.testing.assert_array_equal(squares > 0, (told > 1 / n) | (told == max(told)))


@pytest.mark.parametrize("signal", SIGNALS)
def test_rows_are_the_product_with_the_matrix_and_no_block_is_longer_than_one(signal):
    enc, X = encoder(), table(2000)
    hats, smoothing = enc.transform(X), _basis.Smoothing(enc.blocks_, signal, 200)
    whole = smoothing.weights(np.eye(smoothing.n_columns)).T
    assert whole.shape == (hats.shape[1], smoothing.n_columns)
    rows = smooth_rows(smoothing, enc, X)
    assert np.allclose(rows, hats @ whole, atol=1e-12)
    coef = np.random.default_rng(1).normal(size=(3, smoothing.n_columns))
    assert np.allclose(hats @ smoothing.weights(coef).T, rows @ coef.T, atol=1e-10)
    assert np.abs(rows).max() <= 1
    for i, _ in enumerate(enc.blocks_):
        norms = np.linalg.norm(rows[:, smoothing.block == i], axis=1)
        assert norms.max() <= 1 + 1e-9


def test_missing_values_have_the_mean_of_a_curve_where_noise_drowns_them():
    enc = encoder_of_numbers(knots=9)
    X = numbers([np.nan, 0.0, 1.0])
    loud = _basis.Smoothing(enc.blocks_, 1e-3, 100)
    assert np.allclose(smooth_rows(loud, enc, X), [[0], [-1], [1]], atol=1e-9)
    assert loud.weights(np.ones((1, 1)))[0, enc.blocks_[0].missing] == 0
    rows = smooth_rows(_basis.Smoothing(enc.blocks_, np.inf, 10**9), enc, X)
    assert rows[0, -1] > 0.3 and (rows[1:, -1] == 0).all()


@pytest.mark.parametrize("signal", [1.0, 100.0, np.inf])
def test_a_row_does_not_depend_on_the_others(signal):
    enc = encoder()
    smoothing = _basis.Smoothing(enc.blocks_, signal, 200)
    X = table(5001)
    whole = smooth_rows(smoothing, enc, X)
    order = np.random.default_rng(0).permutation(len(X))
    for some in (order, [0], [1], [4097], [5000]):
        assert np.array_equal(smooth_rows(smoothing, enc, X.iloc[some]), whole[some])


def test_rows_of_codes_are_read_in_any_part_and_order():
    enc, X = encoder(), table(50)
    coded, rows = enc.coded(enc.schema.select(X)), enc.transform(X)
    mixed = np.array([3, 1, 1, 49])
    for part in (slice(0, 7), slice(45, 99), slice(9, 3), slice(0, 20, 5), mixed):
        np.testing.assert_array_equal(coded[part], rows[part])
    np.testing.assert_array_equal(coded.chosen(X["c"] > 1)[:], rows[X["c"] > 1])
    parts = coded.source.parts
    held = sum(one.places.nbytes + getattr(one.values, "nbytes", 0) for one in parts)
    assert held < rows.nbytes / 2
    none = enc.coded(enc.schema.select(X[:0])).source
    smoothing = _basis.Smoothing(enc.blocks_, 10.0, 200)
    assert none.smooth(smoothing)[:5].shape == (0, smoothing.n_columns)
