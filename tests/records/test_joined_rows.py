"""Rows with their norm and their target beside them: the same numbers, in one place."""

import dataclasses

import numpy as np
import pytest

from skfdp.data.grid import GridRows
from skfdp.data.units import FULL_WEIGHT, Units
from skfdp.kernels.losses.loss import narrow
from skfdp.queries.linear import LOSSES, REGRESSION_LOSSES, LinearQuery

LINE = 64


def table(n_columns, n_rows=203, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return X / np.linalg.norm(X, axis=1, keepdims=True), rng


def built(X, target=None):
    return GridRows.build(X, lambda block: block, bias=0.5, target=target)


def query(rows, target, loss="log_loss", n_outputs=1, **more):
    loss = {**LOSSES, **REGRESSION_LOSSES}[loss]
    facts = {"clip_norm": 0.3, "capacity": rows.n_rows, **more}
    return LinearQuery(rows, target, loss, n_outputs, **facts)


def same_sums(one, other, seed=0):
    """Assert that two queries have the same sums, over all rows and over some."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=one.shape)
    some = np.flatnonzero(rng.random(one.n_rows) < 0.3)
    for batch in (None, some, some[:1], some[:0]):
        sums = [q.exact_sum(theta, batch, q.unit(0.1)) for q in (one, other)]
        np.testing.assert_array_equal(*sums)
    assert sums[0].shape == one.shape


@pytest.mark.parametrize("n_columns", [*range(1, 35), 48, 60, 200])
def test_rows_are_those_that_lie_apart(n_columns):
    X, rng = table(n_columns)
    target = rng.integers(0, 2, len(X))
    joined, apart = built(X, target), built(X)
    np.testing.assert_array_equal(joined.values, apart.values)
    np.testing.assert_array_equal(joined.squared_norms, apart.squared_norms)
    assert (joined.n_rows, joined.n_columns, joined.unit) == (
        apart.n_rows,
        apart.n_columns,
        apart.unit,
    )
    assert apart.joined is None
    same_sums(query(joined, target), query(apart, target))


PERSONS = Units(
    np.full(203, FULL_WEIGHT), np.random.default_rng(2).integers(0, 50, 203)
)
PUBLIC = built(table(20)[0] * (np.arange(20) < 7))
SUMS = {
    "three outputs": {"n_outputs": 3},
    "five outputs": {"n_outputs": 5},
    "seven outputs": {"n_outputs": 7},
    "regression": {"loss": "squared_error"},
    "persons": {"units": PERSONS},
    "differences": {"padded": PUBLIC},
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_the_same(name):
    (X, rng), more = table(20), SUMS[name]
    target = rng.integers(0, more.get("n_outputs", 2), len(X))
    if name == "regression":
        target = rng.normal(size=len(X))
    joined = built(X, target)
    memory, step, first = joined.target_in_memory(narrow(target))
    np.testing.assert_array_equal(memory[first::step], target)
    assert np.may_share_memory(memory, joined.joined)
    same_sums(query(joined, target, **more), query(built(X), target, **more))


def test_long_rows_that_do_not_fit_into_short_sums_are_the_same():
    X, rng = table(20)
    target = rng.integers(0, 2, len(X))
    sides = [GridRows.build(1.9 * X, lambda x: x, target=t) for t in (target, None)]
    sides = [dataclasses.replace(rows, scale=4.0) for rows in sides]
    same_sums(*(query(rows, target) for rows in sides))


def test_threads_do_not_change_the_sum():
    X, rng = table(20, n_rows=3000)
    target = rng.integers(0, 2, len(X))
    rows = built(X, target)
    same_sums(query(rows, target), query(rows, target, n_jobs=2))


def test_another_target_is_read_from_its_own_memory():
    """Neighbours share rows and differ by a label: one must not see that of the other.

    The memory beside the rows holds what it was built with, and is used for nothing
    else.
    """
    X, rng = table(20)
    target = rng.integers(0, 2, len(X))
    rows, other = built(X, target), target.copy()
    other[17] = 1 - other[17]
    before = rows.joined.copy()
    memory, step, first = rows.target_in_memory(narrow(target))
    assert np.may_share_memory(memory, rows.joined)
    assert (step, first) == (rows.joined.shape[1], rows.joined.shape[1] - 8)
    memory, step, first = rows.target_in_memory(narrow(other))
    assert not np.may_share_memory(memory, rows.joined)
    assert (step, first) == (1, 0)
    same_sums(query(rows, other), query(built(X), other))
    values = rng.normal(size=len(X))  # of another kind
    assert not np.may_share_memory(rows.target_in_memory(values)[0], rows.joined)
    np.testing.assert_array_equal(rows.joined, before)


def test_some_rows_keep_what_lies_beside_them():
    X, rng = table(20)
    target = rng.integers(0, 2, len(X))
    some, apart = built(X, target)[50:90], built(X)[50:90]
    assert some.joined is not None
    same_sums(query(some, target[50:90]), query(apart, target[50:90]))
    assert built(X, target)[5:5].n_rows == 0


@pytest.mark.parametrize(("n_columns", "size"), [(7, 32), (23, 64), (24, 96), (39, 96)])
def test_a_row_lies_in_as_few_lines_as_it_can(n_columns, size):
    X, _ = table(n_columns)
    joined = built(X, np.zeros(len(X), dtype=np.int64)).joined
    assert joined.flags.c_contiguous
    assert joined.strides[0] == size
    assert joined.ctypes.data % LINE == 0


def test_values_cannot_leave_what_lies_beside_them():
    """Kernels read the whole: other values beside it would be read by nobody."""
    X, rng = table(20)
    rows = built(X, rng.integers(0, 2, len(X)))
    for name in ("values", "squared_norms"):
        with pytest.raises(ValueError, match="must be views of joined"):
            dataclasses.replace(rows, **{name: getattr(rows, name).copy()})
    changed = dataclasses.replace(rows, values=rows.values.copy(), joined=None)
    assert changed.table is changed.values
