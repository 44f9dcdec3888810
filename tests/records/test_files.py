"""Integer rows in files without a name, large tables, and folders of files."""

import errno
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st

from skfdp import TableSchema, UtilityWarning, open_table
from skfdp.data import sources as files
from skfdp.data.grid import InputScaler, lazy_rows
from skfdp.data.records import moved_rows
from skfdp.data.sources import LargeTable, file_rows, request
from skfdp.schema import Category, Label, Number, SchemaError

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_rows_are_in_a_file_without_a_name(folder):
    values, _ = file_rows(40, 6)
    assert list(folder.iterdir()) == []
    assert values.dtype == np.int16 and values.shape == (40, 6) and not values.any()


@LINUX
def test_a_killed_process_leaves_nothing(folder):
    script = (
        "import os, signal\n"
        "from skfdp.data.sources import file_rows\n"
        "values, _ = file_rows(5000, 1000)\n"
        "values[:] = 1\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=240)
    assert done.returncode == -9
    assert list(folder.iterdir()) == []


@LINUX
def test_others_may_not_open_it(monkeypatch):
    modes, allocate = [], os.posix_fallocate

    def noted(file, *size):
        modes.append(os.fstat(file).st_mode)
        allocate(file, *size)

    monkeypatch.setattr(os, "posix_fallocate", noted)
    file_rows(40, 6)
    assert len(modes) == 1 and modes[0] & 0o077 == 0


def test_only_rows_far_apart_are_requested():
    asked = []
    memory = SimpleNamespace(madvise=lambda *place: asked.append(place[1:]))
    request(memory, 2048, np.array([3, 4, 5, 100]))
    assert asked == [(4096, 2048 * 4 - 4096), (2048 * 100, 2048)]


@LINUX
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_in_one_sentence(code, monkeypatch):
    def full(*size):
        raise OSError(code, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="no room for the integer rows of this X"):
        file_rows(40, 6)


# -- large tables ----------------------------------------------------------------------
N, D = 50, 6
NAMES = tuple("abcdef")


def array(dtype=np.float32):
    return (np.random.default_rng(0).random((N, D)) * 200).astype(dtype)


def table(X, names=NAMES):
    return LargeTable.of(X, names)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_a_table_is_read_as_an_array_is(dtype):
    X = array(dtype)
    found = table(X)
    for name in ("shape", "ndim", "dtype"):
        assert getattr(found, name) == getattr(X, name)
    assert len(found) == N and np.asarray(found).dtype == X.dtype
    assert np.array_equal(np.asarray(found), X)
    assert repr(found) == f"LargeTable(shape=({N}, {D}), dtype={X.dtype.name})"
    assert found.astype(np.float64).dtype == np.float64


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
    found = files.chosen_rows(table(X)[:, columns], rows)
    wanted = files.chosen_rows(X[:, columns], rows)
    assert found.shape == wanted.shape
    assert np.array_equal(files.in_memory(found), wanted)
    if isinstance(index, list):
        index = np.array(index, dtype=bool if index and index[0] in (0, 1) else int)
        if index.dtype == bool:
            index = index[: len(wanted)]
            index = np.r_[index, np.zeros(len(wanted) - len(index), bool)]
        index = index[index < len(wanted)] if index.dtype != bool else index
    assert np.array_equal(found[index], wanted[index])
    last = files.chosen_rows(found, np.arange(len(wanted))[::2])
    assert np.array_equal(files.in_memory(last), wanted[::2])


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
    assert np.array_equal(files.in_memory(rest), X[:, [1, 3, 4, 5]])
    for give in (rest.__getitem__, rest.drop):
        with pytest.raises(KeyError, match="no column 'c'"):
            give("c")
    without = table(X, None)
    assert without.columns is None
    with pytest.raises(KeyError):
        without["a"]


def test_only_large_memory_maps_become_large_tables(tmp_path):
    np.save(tmp_path / "X.npy", array())
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert files.large_table(mapped) is None
    with sklearn.config_context(working_memory=0):
        assert files.large_table(array()) is None
        found = files.large_table(mapped)
        assert files.large_table(mapped[:, 0]) is None  # refused as any other vector
    assert files.large_table(found) is found
    assert np.array_equal(files.in_memory(found), array())


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
    for on_disk in (True, False):
        X = array().view(type("Stored", (np.ndarray,), {"on_disk": on_disk}))
        source = LargeTable.of(X)
        rows = lazy_rows(source, InputScaler().mapped, D)
        moved = moved_rows(rows, np.zeros(D))
        for made in (rows, moved, source[:, np.arange(D) < 2]):
            assert made.on_disk == on_disk


# -- folders of files ------------------------------------------------------------------
ROWS = pd.DataFrame(np.random.default_rng(0).random((120, 2)), columns=["a", "b"])


def written(folder, names, **options):
    """Write ten rows to each file, in the order of the names."""
    for place, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        ROWS[10 * place : 10 * place + 10].to_parquet(path, **options)
    return folder


@pytest.mark.parametrize("names", ["part.{}.parquet", "{}/rows.parquet", "²m{}-٣.pq"])
def test_g19_files_are_read_in_the_order_of_their_numbers(tmp_path, names):
    written(tmp_path, map(names.format, range(12)), index=False)
    with pytest.warns(UtilityWarning, match="in the order of the numbers") as caught:
        table = open_table(tmp_path)
    assert "0" in str(caught[0].message) and "11" in str(caught[0].message)
    np.testing.assert_array_equal(np.asarray(table), ROWS.to_numpy())
    np.testing.assert_array_equal(table["b"], ROWS["b"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("names", ["part.{:03}.parquet", "2026-{:02}.parquet"])
def test_g19_an_order_that_is_also_that_of_letters_is_not_mentioned(tmp_path, names):
    table = open_table(written(tmp_path, map(names.format, range(12)), index=False))
    np.testing.assert_array_equal(np.asarray(table), ROWS.to_numpy())


def test_columns_in_names_of_folders_are_refused(tmp_path):
    written(tmp_path, ["region=north/a.parquet", "region=south/b.parquet"])
    with pytest.raises(ValueError, match="folders with a column in their name"):
        open_table(tmp_path)


@pytest.mark.parametrize("index", [None, "patient"])
def test_g20_the_index_that_pandas_stored_is_no_column(tmp_path, index):
    path = tmp_path / "t.parquet"
    stored = ROWS.sample(frac=1, random_state=0).rename_axis(index)
    stored.to_parquet(path)
    for table in (open_table(path), open_table(written(tmp_path / "many", ["t.pq"]))):
        assert table.columns == ["a", "b"]
        assert table.shape[1] == 2
    np.testing.assert_array_equal(np.asarray(open_table(path)), stored.to_numpy())
    draft = TableSchema.draft(path)
    assert list(draft.columns) == ["a", "b"]


def test_a4_an_empty_line_of_a_file_with_one_column_is_a_record(tmp_path):
    path, cells = tmp_path / "t.csv", ["5", "", "7", ""]
    path.write_text("\n".join(["ill", *cells]) + "\n")
    schema = TableSchema({"ill": Label([5, 7])}, outcomes=["ill"])
    assert schema.read(path)["ill"].isna().tolist() == [False, True, False, True]
    two = TableSchema({"a": Category(["x"]), "b": Number(0, 9)})
    path.write_text("a,b\nx,1\n\nx,2\n,\n")
    assert len(two.read(path)) == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
def test_g11_a_pipe_is_refused_by_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SchemaError, match="is a pipe or a device, .* write the table"):
        TableSchema({"a": Number(0, 1)}).read(tmp_path / "pipe")
