"""Checked tables: the input scaler, rows about a centre, and the integer grid."""

import dataclasses
import random
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from skfdp.data import grid
from skfdp.data.grid import (
    GRID,
    UNBOUNDED_REACH,
    GridRows,
    InputScaler,
    blocks,
    lengths,
    resolve_bounds,
)
from skfdp.data.records import (
    PublicRecords,
    Records,
    moved_rows,
    rotated,
    rotated_width,
)
from skfdp.data.target import TargetMap

FINITE = st.floats(-1e300, 1e300, allow_nan=False, allow_infinity=False)
TABLES = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=FINITE
)


@settings(deadline=None, max_examples=60)
@given(TABLES, st.booleans(), st.floats(1e-3, 1e3))
def test_rows_have_norm_at_most_one(X, normalize, feature_bound):
    rows = InputScaler(feature_bound=feature_bound, normalize=normalize).mapped(X)
    norms = np.linalg.norm(rows, axis=1)
    assert (norms <= 1 + 1e-12).all()
    if normalize:
        np.testing.assert_allclose(norms[np.any(X != 0, axis=1)], 1, rtol=1e-9)


def check_rows_are_mapped_alone(input_scaler, X, random):
    order = random.sample(range(len(X)), len(X))
    together = input_scaler.mapped(X)
    np.testing.assert_array_equal(input_scaler.mapped(X[order]), together[order])
    for i in range(len(X)):
        np.testing.assert_array_equal(input_scaler.mapped(X[i : i + 1])[0], together[i])


@settings(deadline=None, max_examples=60)
@given(TABLES, st.randoms(use_true_random=False))
def test_a_row_is_mapped_by_itself(X, random):
    """Bit-identical wherever it stands, and whatever stands beside it."""
    low, span = np.zeros(X.shape[1]), np.full(X.shape[1], 3.0)
    for input_scaler in (InputScaler(low, span, feature_bound=1.0), InputScaler()):
        check_rows_are_mapped_alone(input_scaler, X, random)


# Beyond 8192 columns, the buffer of einsum, a lone row used to be summed otherwise.
@pytest.mark.parametrize("shape", [(70, 333), (5, 8191), (5, 8193), (5, 20_000)])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_wide_rows_are_mapped_alone_in_any_layout(shape, order, dtype):
    X = np.random.default_rng(0).normal(size=shape).astype(dtype, order=order)
    check_rows_are_mapped_alone(InputScaler(), X, random.Random(0))
    check_rows_are_mapped_alone(
        InputScaler(normalize=True), X[::2, 1:-1], random.Random(0)
    )


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 2e-313])
@pytest.mark.parametrize("bounds", [(0.0, 0.5), (-1e308, 1e308), None])
def test_extreme_values_warn_of_nothing(value, bounds):
    X = np.full((3, 2), value)
    input_scaler = InputScaler()
    if bounds is not None:
        input_scaler = InputScaler(
            np.full(2, bounds[0]), np.full(2, bounds[1] - bounds[0])
        )
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        rows = input_scaler.mapped(X)
        input_scaler(X)
    assert np.isfinite(rows).all()


def test_rows_within_the_bound_keep_their_direction_and_length():
    X = np.array([[0.3, 0.4], [3.0, 4.0]])
    np.testing.assert_allclose(InputScaler().mapped(X), [[0.3, 0.4], [0.6, 0.8]])
    X = np.array([[2.0, 30.0], [1.0, 20.0]])
    input_scaler = InputScaler(
        np.array([0.0, 10.0]), np.array([10.0, 100.0]), feature_bound=2.0
    )
    np.testing.assert_allclose(input_scaler(X), X)


@pytest.mark.parametrize("normalize", [False, True])
def test_coefficients_meet_the_rows_in_input_units(normalize):
    """weights on unit rows == coef on input_scaler(X), plus the offset."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-5, 20, (50, 3))
    low, span = np.array([0.0, 5.0, -np.inf]), np.array([10.0, 2.0, np.inf])
    input_scaler = InputScaler(np.where(np.isinf(low), 0, low), span, 2.0, normalize)
    weights = rng.normal(size=(4, 3))
    coef, offset = input_scaler.coefficients(weights)
    np.testing.assert_allclose(
        input_scaler(X) @ coef.T + offset,
        input_scaler.mapped(X) @ weights.T,
        atol=1e-12,
    )


def test_input_scaler_does_not_touch_the_input():
    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    before = X.copy()
    InputScaler(feature_bound=np.inf)(X)[:] = 7
    InputScaler()(X)[:] = 7
    np.testing.assert_array_equal(X, before)


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2),
        elements=st.floats(-3, 3, allow_nan=False),
    )
)
def test_quantising_is_toward_zero_and_saturates(X):
    grid = GridRows.build(X, lambda block: block, bias=0.1)
    held = grid.values[:, :-1] * GRID
    clipped = np.clip(X, -2 + GRID, 2 - GRID)
    assert (np.abs(held) <= np.abs(clipped)).all()
    assert (np.abs(held - clipped) < GRID).all()
    assert (held * X >= 0).all()
    exact = (grid.values.astype(object) ** 2).sum(axis=1)
    assert [int(norm) for norm in grid.squared_norms] == exact.tolist()


ANY_ROWS = hnp.arrays(
    st.sampled_from([np.float64, np.float32]),
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.floats(width=32),
)


@given(ANY_ROWS, st.integers(0, 5))
def test_a3_scaled_rows_are_finite_and_each_by_itself(X, n_bounded):
    """NaN and infinity are exactly 1/2 between bounds, and 0 without bounds."""
    given = X.copy()
    places = np.arange(X.shape[1])
    span = np.where(places < n_bounded, 0.7 + places, np.inf)
    input_scaler = InputScaler(0.0 * places, span)
    rows, is_null = input_scaler.scale(X), input_scaler.nulls(X)
    wrong, bounded = ~np.isfinite(X), np.isfinite(span)
    with np.errstate(all="ignore"):
        usual = np.where(bounded, np.clip(X.astype(float) / span, 0, 1), X)
    np.testing.assert_array_equal(rows[~wrong], usual[~wrong])
    assert (rows[:, bounded][wrong[:, bounded]] == 0.5).all()
    assert (rows[:, ~bounded][wrong[:, ~bounded]] == 0).all()
    lost = wrong[:, ~bounded].any(axis=1)
    np.testing.assert_array_equal(
        lost, np.zeros(len(X)) if is_null is None else is_null
    )
    np.testing.assert_array_equal(X, given)
    stored = csr_array(np.where(X == 0, 1.0, X).astype(X.dtype))
    sparse, dense = input_scaler.scale(stored), input_scaler.scale(stored.toarray())
    np.testing.assert_array_equal(sparse.toarray(), dense)
    np.testing.assert_array_equal(
        input_scaler.nulls(stored), input_scaler.nulls(stored.toarray())
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_a_centre_that_is_no_number_is_zero(sparse):
    X = np.random.default_rng(0).uniform(-1, 1, size=(6, 3))
    X = csr_array(X) if sparse else X
    found, expected = (
        GridRows.build(X, lambda block: block, centre=np.array(centre))
        for centre in ([np.nan, 0.25, np.nan], [0.0, 0.25, 0.0])
    )
    np.testing.assert_array_equal(found.squared_norms, expected.squared_norms)
    for name in ("data", "shift") if sparse else ("values",):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("high", [0.7, 1e40, 1e60, 1e100])
def test_a3_a_stand_in_is_the_middle_integer_of_the_grid(high, dtype):
    """Also of bounds beyond float32, and of bounds that float32 would round."""
    scaler = InputScaler(np.zeros(1), np.array([high]), shortens=False)
    X = np.array([[np.nan], [np.inf], [-np.inf], [1.0]], dtype=dtype)
    middle = round(0.5 / GRID)
    found = GridRows.build(X, scaler.mapped).values[:, 0].tolist()
    assert found[:3] == [middle] * 3 and scaler.nulls(X) is None
    stored = GridRows.build(csr_array(X), scaler.mapped)
    assert stored.data.tolist() == found


def test_tables_without_nulls():
    for X in (np.ones((3, 2), dtype=np.int8), np.empty((0, 2)), np.empty((3, 0))):
        assert InputScaler().nulls(X) is None


def test_blocks_cover_every_row_once_in_bounded_pieces():
    for shape in [(1, 1), (1000, 784), (100_000, 3), (10, 10**6)]:
        pieces = list(blocks(*shape))
        rows = [row for piece in pieces for row in range(piece.start, piece.stop)]
        assert rows == list(range(shape[0]))
        assert max(p.stop - p.start for p in pieces) * shape[1] <= max(
            2**18, 16 * shape[1]
        )


def test_bounds_by_name_leave_other_columns_alone():
    low, span = resolve_bounds({"age": (17, 90)}, 2, ["age", "other"])
    np.testing.assert_array_equal((low, span), [[17, 0], [73, np.inf]])
    for nothing in (None, False):
        assert resolve_bounds(nothing, 2, None) == (None, None)


@pytest.mark.parametrize(
    ("bounds", "names", "message"),
    [
        ((1, 0), None, "must satisfy low < high"),
        (3, None, "must be a pair"),
        (("a", "b"), None, "must be a pair"),
        ((0, np.inf), None, "must be finite"),
        (([0, 0, 0], 1), None, "one entry per column"),
        ({"age": (0, 1)}, None, "no column names"),
        ({"height": (0, 1)}, ["age", "x"], "does not have"),
        ({7: (0, 1)}, None, "does not have"),
        ({"age": 3}, ["age", "x"], r"bounds\['age'\]=3 must be a pair"),
    ],
)
def test_bad_bounds(bounds, names, message):
    with pytest.raises(ValueError, match=message):
        resolve_bounds(bounds, 2, names)


@pytest.mark.parametrize("d", [1, 7, 100, 1030])
@pytest.mark.parametrize("bound", [1.0, 3.7, 1e-300, 1e300])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_norm_of_a_dense_row_is_that_of_its_stored_entries(d, bound, normalize):
    """Dense and CSR rows are shortened alike, to the last bit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, d)) * 10.0 ** rng.uniform(-320, 305, (60, 1))
    X[0], X[1], X[2], X[3, 0] = 0, 5e-324, 1.7e308, 1e-300
    input_scaler = InputScaler(feature_bound=bound, normalize=normalize)
    sparse = input_scaler.shorten(csr_array(X)).toarray()
    np.testing.assert_array_equal(input_scaler.shorten(X), sparse)


# -- rows about a centre, rotated ------------------------------------------------------
WIDTHS = (1, 2, 3, 6, 8, 13)


def random_signs(n_columns):
    return 1.0 - 2.0 * np.random.default_rng(0).integers(0, 2, size=n_columns)


@pytest.mark.parametrize("n_columns", WIDTHS)
def test_a_rotation_is_an_isometry_and_its_own_inverse(n_columns):
    X = np.random.default_rng(1).normal(size=(7, n_columns))
    rows = rotated(X)
    assert rows.shape == (7, rotated_width(n_columns))
    np.testing.assert_allclose(rows @ rows.T, X @ X.T, atol=1e-12)
    np.testing.assert_allclose(rotated(rows)[:, :n_columns], X, atol=1e-12)


def test_a_rotation_spreads_a_single_entry_over_all_columns():
    """``tests/test_reference.py`` has the matrix."""
    row = np.eye(500)[17:18]
    assert np.abs(rotated(row)).max() == pytest.approx(512**-0.5)


@pytest.mark.parametrize("n_columns", [5, 100])
def test_a_row_has_the_same_bits_wherever_it_stands(n_columns):
    """Or a null record, which is left out, would move the bins of others."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, n_columns)) * 10.0 ** rng.uniform(-9, 9, (500, 1))
    centre = rng.normal(size=n_columns)
    rows = moved_rows(X, centre, 0.3, random_signs(n_columns))
    whole = rows[np.arange(500)]
    for index in (slice(0, 1), slice(3, 20), slice(7, 500), np.array([499, 2, 250])):
        np.testing.assert_array_equal(rows[index], whole[index])
    plain = moved_rows(X, centre, 0.3)
    few = moved_rows(X[10:], centre, 0.3)
    np.testing.assert_array_equal(lengths(plain)[10:], lengths(few))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e200, 1e308, -1e308, np.inf, np.nan])
def test_a_row_beyond_all_measure_warns_of_nothing(value):
    X = np.zeros((4, 3))
    X[1] = value
    rows = moved_rows(X, np.zeros(3), 1e-10, random_signs(3))
    assert not np.isfinite(lengths(moved_rows(X, np.zeros(3), 1e-10))[1])
    rows[:]
    plain = moved_rows(X, np.zeros(3), 1e-10)[:]
    cut = InputScaler().mapped(plain)
    assert np.linalg.norm(cut, axis=1).max() <= 1 + 1e-12


# -- one checked table, and its public part --------------------------------------------
N, D = 60, 5


@pytest.fixture
def X():
    return np.random.default_rng(0).random((N, D))


def records_of(X, mask, *, bounds=True, feature_bound=0.7):
    mask = np.asarray(mask)
    mixed = mask.any() and not mask.all()
    sides = (np.zeros(D), np.full(D, 2.0)) if bounds else (None, None)
    input_scaler = InputScaler(*sides, feature_bound, public=mask if mixed else None)
    public = PublicRecords(
        mask=mask,
        input_scaler=input_scaler,
        n_records=N,
        columns=tuple(range(D)),
        sparse=not isinstance(X, np.ndarray),
        _table=X,
    )
    return Records(X, None, public)


MASKS = {
    "none": np.zeros(D, dtype=bool),
    "some": np.arange(D) < 2,
    "all": np.ones(D, dtype=bool),
}


@pytest.mark.parametrize("bounds", [True, False])
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("mask", MASKS)
def test_rows_are_those_of_the_input_scaler_and_public_ones_to_the_last_bit(
    X, mask, kept, bounds, monkeypatch
):
    if not kept:
        monkeypatch.setattr(grid, "MOST_KEPT", 0)
    records, mixed = records_of(X, MASKS[mask], bounds=bounds), mask == "some"
    for block in (slice(0, 17), slice(17, N), slice(3, 4)):
        wanted = records.public.input_scaler.mapped(X[block])
        found, own = records.mapped[block], MASKS[mask]
        assert np.array_equal(found[:, own], wanted[:, own]) or not mixed
        # Private columns are multiples of the grid, scaled by the length of their row.
        step = (GRID if bounds else GRID * UNBOUNDED_REACH) * (not own.all())
        assert np.abs(found - wanted).max() < 8 * step + 1e-300
        shown = records.public.mapped[block]
        assert np.array_equal(shown, wanted[:, own])
    of_public = records.public.input_scaler.of_public(MASKS[mask])
    wanted = of_public(X[:, MASKS[mask]])
    assert np.array_equal(records.public.rows(), wanted)


@pytest.mark.parametrize("mask", ["some", "all"])
def test_dense_and_sparse_tables_give_the_same_public_rows(X, mask):
    X[X < 0.5] = 0
    dense, sparse = (records_of(table, MASKS[mask]) for table in (X, csr_array(X)))
    assert np.array_equal(dense.public.rows(), sparse.public.rows().toarray())
    blocks = [np.vstack(list(dense.public.blocks()))]
    blocks.append(np.vstack([b.toarray() for b in sparse.public.blocks()]))
    assert np.array_equal(*blocks)


def test_a_public_part_gives_out_public_columns_alone(X):
    mask = MASKS["some"]
    other = X.copy()
    other[:, ~mask] = np.nan
    one, two = (records_of(table, mask).public for table in (X, other))
    assert np.array_equal(one.X, two.X)
    assert np.array_equal(one.rows(), two.rows())
    assert all(
        np.array_equal(a, b) for a, b in zip(one.blocks(), two.blocks(), strict=True)
    )
    assert str(X[0, 0])[:6] not in repr(one)


def test_kept_rows_cannot_be_written_to_and_whole_rows_may_have_one_norm(X):
    mask = MASKS["some"]
    input_scaler = InputScaler(
        feature_bound=0.5
    )  # of a network: public columns have no own norm
    records = records_of(X, mask).mapped_by(input_scaler)
    integers = GridRows.build(X[:, ~mask], None)
    integers.values[:] = 1 + np.arange(N)[:, None]
    vars(records)["integers"] = integers
    rows = np.column_stack([X[:, mask], integers.values * GRID])
    assert np.array_equal(records.mapped[slice(0, N)], input_scaler.mapped(rows))
    with pytest.raises(ValueError, match="read-only"):
        records.public.mapped[slice(0, 3)][0, 0] = 1.0


def test_the_capacity_follows_what_is_declared_and_not_the_rows(X):
    # Under "add_or_remove_one" the number of rows is private.
    public = records_of(X, MASKS["some"]).public
    few = dataclasses.replace(public, n_records=3)
    assert few.n_rows == len(X) != 3
    assert few.capacity == 16 * 3


@pytest.mark.parametrize("place", range(D))
def test_private_columns_are_bounded_where_each_of_them_has_bounds(X, place):
    public = records_of(X, MASKS["some"]).public
    assert public.private_bounded
    span = np.where(np.arange(D) == place, np.inf, 2.0)
    input_scaler = dataclasses.replace(public.input_scaler, span=span)
    found = dataclasses.replace(public, input_scaler=input_scaler)
    assert found.private_bounded is bool(MASKS["some"][place])


@pytest.mark.parametrize("log", [False, True])
def test_targets_beyond_their_bounds_are_cut(log):
    target_map = TargetMap(centre=1.0, scale=2.0, log=log, low=-3.0, high=5.0)
    found = target_map(np.array([-1e300, -3.0, 1.0, 5.0, np.inf]))
    np.testing.assert_array_equal(found, [-2.0, -2.0, 0.0, 2.0, 2.0])


def test_the_reach_of_private_columns_follows_bounds_or_what_is_told():
    mask, unit = np.array([True, False, False]), np.ones(3)
    bounded = InputScaler(low=0 * unit, span=unit, feature_bound=2.0, shortens=False)
    public = PublicRecords(
        mask=mask, input_scaler=bounded, n_records=5, columns=(0, 1, 2)
    )
    assert public.longest_private == pytest.approx(2**0.5)
    free = dataclasses.replace(public, input_scaler=InputScaler(feature_bound=2.0))
    assert free.longest_private == np.inf
    # Rows of two blocks whose entries have either sign: no orthant, but a reach.
    told = dataclasses.replace(free, private_reach=1.0)
    assert told.longest_private == 1.0 and not told.private_bounded
