"""One checked table: what leaves its public part, and how often rows are mapped."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from skfdp import FeatureDPLogisticRegression
from skfdp.data import input_scaler as mapped
from skfdp.data.input_scaler import InputScaler, PublicRows, WholeRows
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import TargetMap
from skfdp.solvers import NoisyGradientDescent

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
def test_rows_are_those_of_the_input_scaler_to_the_last_bit(
    X, mask, kept, bounds, monkeypatch
):
    if not kept:
        monkeypatch.setattr(mapped, "MOST_KEPT", 0)
    records = records_of(X, MASKS[mask], bounds=bounds)
    for block in (slice(0, 17), slice(17, N), slice(3, 4)):
        wanted = records.input_scaler.mapped(X[block])
        assert np.array_equal(records.mapped[block], wanted)
        shown = records.public.mapped[block]
        assert np.array_equal(shown, wanted[:, MASKS[mask]])
    of_public = records.input_scaler.of_public(MASKS[mask])
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
    public = PublicRows(X, mask, input_scaler.of_public(mask))
    whole = WholeRows(public, input_scaler)
    assert np.array_equal(whole[slice(0, N)], input_scaler.mapped(X))
    with pytest.raises(ValueError, match="read-only"):
        public[slice(0, 3)][0, 0] = 1.0


@pytest.mark.parametrize("mask", ["some", "all"])
def test_public_rows_are_mapped_once_in_a_fit(mask, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.random((500, D)), np.arange(500) % 2
    mapped_entries = np.zeros(D, dtype=int)
    scale = InputScaler.scale

    def counted(self, rows):
        found = scale(self, rows)
        if self.span is None:
            return found  # of numbers that were made of mapped rows: their lengths
        # Each column of the table has bounds of its own, by which it is known.
        mapped_entries[np.round(self.span).astype(int) - 1] += len(found)
        return found

    monkeypatch.setattr(InputScaler, "scale", counted)
    bounds = {j: (0, j + 1) for j in range(D)}
    FeatureDPLogisticRegression(
        4.0,
        public_features=MASKS[mask],
        public_target=mask == "some",
        bounds=bounds,
        solver=NoisyGradientDescent(max_iter=2),
    ).fit(X, y)
    assert (mapped_entries[MASKS[mask]] == len(X)).all()
    if mask == "some":
        assert (mapped_entries[~MASKS[mask]] >= len(X)).all()


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
