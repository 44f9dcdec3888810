"""Cross moments: their definition, and lemmas; ``test_contract.py`` searches."""

import dataclasses
import math

import numpy as np
import pytest

from skfdp.data.grid import GRID
from skfdp.data.input_scaler import InputScaler
from skfdp.privacy import Relation
from skfdp.queries.statistics import CrossSum, RowSum

SIGNED, NONNEGATIVE = InputScaler(), InputScaler(np.zeros(3), np.ones(3))
STDS = (0.0, 1.0, 3e2, 1e4, 1e6)


@pytest.mark.parametrize(
    "input_scaler", [InputScaler(shortens=False), InputScaler(feature_bound=math.inf)]
)
def test_maps_that_leave_rows_as_long_as_they_are_cannot_be_summed(input_scaler):
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match="must bound rows to norm 1"):
        RowSum(X, input_scaler, 3)
    with pytest.raises(ValueError, match="must bound rows to norm 1"):
        CrossSum(X, input_scaler, np.ones((3, 1), np.int16), nonnegative=False)


def regressor_rows(rng, n, k):
    """Public rows of norm at most 1, as the transformer makes them."""
    rows = rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
    rows[0] = np.eye(k)[0]
    return np.trunc(rows * ((1 - 1e-9) / GRID)).astype(np.int16)


def make_query(seed=0, n=6, input_scaler=SIGNED, k=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-2, 2, (n, 1))
    regressors = regressor_rows(rng, n, k)
    return CrossSum(X, input_scaler, regressors, input_scaler is NONNEGATIVE)


def length(moved, unit):
    return math.sqrt(sum(int(entry) ** 2 for entry in moved.tolist())) * unit


def test_signed_rows_exceed_what_non_negative_ones_keep():
    """Without declared bounds sqrt(2) would be wrong: opposite rows are 2 apart."""
    claimed = CrossSum.planned(nonnegative=True)
    assert claimed.sensitivity(Relation.of("replace_one")) == math.sqrt(2)
    # Declared non-negative, rows are cut at zero: the bound is enforced.
    query = make_query(input_scaler=SIGNED)
    sums = [
        dataclasses.replace(
            query, X=sign * np.eye(3)[:1], regressors=query.regressors[:1], **more
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
    rows = query.input_scaler.mapped(query.X)
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
