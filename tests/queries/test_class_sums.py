"""Class sums: oracle, exactness, bounded movements."""

import numpy as np
import pytest

from skfdp.data.grid import GRID, GridRows
from skfdp.queries import statistics as class_sums
from skfdp.queries.statistics import ClassSum, clipped


def as_rows(X):
    """Put rows on the grid as they are: it saturates at 2, the norm is not bounded."""
    return GridRows.build(np.asarray(X, dtype=float), lambda block: block)


def random_rows(rng, n, d, signed):
    """Rows of very different length, some sparse, some beyond the bound."""
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 1, (n, 1))
    X[rng.random((n, d)) < 0.3] = 0.0
    return X if signed else np.abs(X)


def make_sums(rng, n=8, d=4, n_classes=3, signed=False):
    rows = as_rows(random_rows(rng, n, d, signed))
    return ClassSum(rows, rng.integers(0, n_classes, n), n_classes, not signed)


def test_the_sums_match_their_definition():
    rng = np.random.default_rng(1)
    X = rng.random((700, 5)) / 3
    target = rng.integers(0, 3, 700)
    rows = as_rows(X)
    query = ClassSum(rows, target, 4, nonnegative=True)
    held = rows.values * GRID
    expected = np.eye(4)[target].T @ held
    unit = query.unit(1.0)
    np.testing.assert_allclose(query.exact_sum(None, None, unit) * unit, expected)


@pytest.mark.parametrize("signed", [False, True])
def test_the_order_of_rows_and_the_blocks_do_not_matter(signed, monkeypatch):
    rng = np.random.default_rng(2)
    query = make_sums(rng, n=300, d=70, signed=signed)
    unit = query.unit(5.0)
    whole = query.exact_sum(None, None, unit)
    shuffled = query.exact_sum(None, rng.permutation(300), unit)
    monkeypatch.setattr(
        class_sums, "blocks", lambda n, d: [slice(i, i + 7) for i in range(0, n, 7)]
    )
    small = query.exact_sum(None, None, unit)
    assert whole.dtype == np.int64
    np.testing.assert_array_equal(whole, shuffled)
    np.testing.assert_array_equal(whole, small)


def test_rows_within_the_bound_are_kept_and_longer_ones_end_on_it():
    inside = as_rows([[0.6, 0.8, 0.0], [1.0, 0.0, 0.0], [0.1, 0.2, 0.3]])
    np.testing.assert_array_equal(clipped(inside.values), inside.values)
    outside = as_rows([[1.5, -1.5, 1.9], [1.0, 0.01, 0.0]])
    norms = np.linalg.norm(clipped(outside.values) * GRID, axis=1)
    assert (norms <= 1).all()
    assert (norms > 0.9998).all()


def test_the_clip_factor_is_rounded_down():
    """The squared norm is one squared grid unit above the limit."""
    base = np.array([4095] * 16 + [362, 3, 2])
    assert (base**2).sum() == GRID**-2 + 1
    for times in (1, 2, 8):
        values = (times * base[None]).astype(np.int16)
        assert (clipped(values) ** 2).sum() <= GRID**-2
