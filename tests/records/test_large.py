"""Large tables: what NumPy would give, block by block."""

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st

from skfdp.data.input_scaler import InputScaler, MovedRows, PublicRows, WholeRows
from skfdp.data.sources import (
    ArraySource,
    LargeTable,
    chosen_rows,
    in_memory,
    large_table,
)

N, D = 50, 6
NAMES = tuple("abcdef")


def array(dtype=np.float32):
    return (np.random.default_rng(0).random((N, D)) * 200).astype(dtype)


def table(X, names=NAMES):
    return LargeTable.of(ArraySource(X), names)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_a_table_is_read_as_an_array_is(dtype):
    X = array(dtype)
    found = table(X)
    for name in ("shape", "ndim", "dtype", "nbytes"):
        assert getattr(found, name) == getattr(X, name)
    assert len(found) == N and np.asarray(found).dtype == X.dtype
    assert np.array_equal(np.asarray(found), X)
    assert repr(found) == f"LargeTable(shape=({N}, {D}), dtype={X.dtype.name})"


INDICES = st.one_of(
    st.slices(N),
    st.lists(st.integers(0, N - 1), max_size=N),
    st.lists(st.booleans(), min_size=N, max_size=N),
)


@given(
    rows=st.lists(st.booleans(), min_size=N, max_size=N),
    first=st.lists(st.booleans(), min_size=D, max_size=D),
    index=INDICES,
)
def test_rows_and_columns_are_those_of_an_array(rows, first, index):
    X, columns, rows = array(), np.array(first), np.array(rows)
    found = chosen_rows(table(X)[:, columns], rows)
    wanted = chosen_rows(X[:, columns], rows)
    assert found.shape == wanted.shape
    assert np.array_equal(in_memory(found), wanted)
    if isinstance(index, list):
        index = np.array(index, dtype=bool if index and index[0] in (0, 1) else int)
        if index.dtype == bool:
            index = index[: len(wanted)]
            index = np.r_[index, np.zeros(len(wanted) - len(index), bool)]
        index = index[index < len(wanted)] if index.dtype != bool else index
    assert np.array_equal(found[index], wanted[index])
    last = chosen_rows(found, np.arange(len(wanted))[::2])
    assert np.array_equal(in_memory(last), wanted[::2])


@pytest.mark.parametrize("index", [(slice(0, 3), 0), 3, (slice(None),), 1.5, [[0]]])
def test_other_indices_are_refused(index):
    with pytest.raises(TypeError, match="a large table"):
        table(array())[index]


def test_columns_have_names():
    X, found = array(), table(array())
    assert found.columns == list(NAMES)
    assert np.array_equal(found["c"], X[:, 2])
    rest = found.drop("c", "a")
    assert rest.columns == ["b", "d", "e", "f"]
    assert np.array_equal(in_memory(rest), X[:, [1, 3, 4, 5]])
    for give in (rest.__getitem__, rest.drop):
        with pytest.raises(KeyError, match="no column 'c'"):
            give("c")
    without = table(X, None)
    assert without.columns is None
    with pytest.raises(KeyError):
        without["a"]


def test_the_whole_of_a_table_is_given_if_it_fits():
    found = table(array())
    with (
        sklearn.config_context(working_memory=0),
        pytest.raises(MemoryError, match="working_memory"),
    ):
        np.asarray(found)
    with sklearn.config_context(working_memory=0):
        assert np.array_equal(np.asarray(found[:, [2]]), array()[:, [2]])
    assert found.astype(np.float64).dtype == np.float64


def test_only_large_memory_maps_become_large_tables(tmp_path):
    np.save(tmp_path / "X.npy", array())
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert large_table(mapped) is None
    with sklearn.config_context(working_memory=0):
        assert large_table(array()) is None
        found = large_table(mapped)
        assert large_table(mapped[:, 0]) is None  # refused as any other vector
    assert large_table(found) is found
    assert np.array_equal(in_memory(found), array())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, None])
def test_what_is_not_finite_is_replaced_as_in_memory(dtype, wrong):
    X = array(dtype)
    if wrong is not None:
        X[[3, 4, 4], [0, 1, 5]] = wrong
    low, span = np.zeros(D), np.full(D, 200.0)
    span[0] = np.inf
    input_scaler = InputScaler(low, span)
    scaled, usual = input_scaler.scale(table(X)[:]), input_scaler.scale(X)
    assert np.array_equal(scaled, usual) and np.isfinite(scaled).all()
    is_null, usually_void = input_scaler.nulls(table(X)), input_scaler.nulls(X)
    if wrong is None:
        assert is_null is None and usually_void is None
    else:
        assert scaled[4, 1] == 0.5 and scaled[3, 0] == 0
        assert np.array_equal(is_null, usually_void)
        assert np.flatnonzero(is_null).tolist() == [3]


def test_what_is_made_of_rows_in_a_file_is_in_a_file():
    mask = np.arange(D) < 2
    for on_disk in (True, False):
        source = LargeTable.of(ArraySource(array(), on_disk))
        public = PublicRows(source, mask, InputScaler())
        whole = WholeRows(public, InputScaler())
        for made in (public, whole, MovedRows(whole, np.zeros(D)), source[:, mask]):
            assert made.on_disk == on_disk
