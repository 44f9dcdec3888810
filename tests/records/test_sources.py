"""Tables in files and elsewhere: what is read is what was written."""

import dataclasses
import json
import os
import stat

import numpy as np
import pytest
import sklearn

import skfdp
from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, open_table
from skfdp.cli import main
from skfdp.records import sources
from skfdp.records.grid import GRID, GridRows
from skfdp.records.large import LargeTable, in_memory
from skfdp.records.row_map import RowMap
from skfdp.records.sources import ChunkedSource, large_table
from skfdp.records.stored_grid import rows_as_they_are, stored_grid, write_grid

N, D = 700, 5
NAMES = [f"c{i}" for i in range(D)]
pytestmark = pytest.mark.filterwarnings("ignore::skfdp.UtilityWarning")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Read some rows at a time, and keep few in memory."""
    monkeypatch.setattr(sources, "_ENTRIES", 64 * D)
    with sklearn.config_context(working_memory=0.001):
        yield


@pytest.fixture
def X():
    return (np.random.default_rng(0).random((N, D)) * 100).astype(np.float32)


@pytest.fixture
def y(X):
    return np.where(X[:, 0] > 50, "high", "low")


class Chunked:
    """An array that gives slices, as those of zarr and HDF5 do."""

    def __init__(self, X, chunks):
        self.shape, self.dtype, self.chunks, self._X = X.shape, X.dtype, chunks, X
        self.asked = []

    def __getitem__(self, rows):
        assert type(rows) is slice
        self.asked.append((rows.start, rows.stop))
        return self._X[rows].tolist()


def arrow(X, y):
    pa = pytest.importorskip("pyarrow")
    columns = {name: X[:, i] for i, name in enumerate(NAMES)}
    return pa.table({**columns, "label": y})


def made(kind, X, y, folder):
    """Return what `open_table` takes, and whether its columns have names."""
    if kind == "npy":
        np.save(folder / "X.npy", X)
        return folder / "X.npy", False
    if kind == "chunks":
        return Chunked(X, (100, 2)), False
    if kind == "no chunks":
        return Chunked(X, None), False
    table = arrow(X, y)
    from pyarrow import dataset, feather, parquet

    if kind == "Table":
        return table, True
    if kind == "parquet":
        parquet.write_table(table, folder / "X.parquet", row_group_size=150)
        return folder / "X.parquet", True
    if kind == "ipc":
        feather.write_feather(table, folder / "X.arrow", chunksize=90)
        return folder / "X.arrow", True
    parts = folder / "parts"
    parts.mkdir()
    for number, start in enumerate(range(0, N, 300)):
        part = table.slice(start, 300)
        parquet.write_table(part, parts / f"{number}.parquet", row_group_size=70)
    return (parts if kind == "folder" else dataset.dataset(parts)), True


KINDS = ["npy", "chunks", "no chunks", "Table", "parquet", "ipc", "folder", "dataset"]


def opened(kind, X, y, folder):
    given, has_names = made(kind, X, y, folder)
    table = open_table(given)
    return table.drop("label") if has_names else table


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_of_every_source(kind, X, y, tmp_path):
    table = opened(kind, X, y, tmp_path)
    assert open_table(table) is table
    assert table.shape == (N, D)
    assert table.dtype == np.float32
    assert np.array_equal(in_memory(table), X)
    assert table.on_disk == (kind != "Table")
    for rows in (slice(3, 5), slice(60, 330), slice(N, N), slice(5, 5)):
        assert np.array_equal(table[rows], X[rows])
    rng = np.random.default_rng(0)
    for size in (0, 1, 40, N):  # in any order
        rows = rng.permutation(N)[:size]
        assert np.array_equal(table[rows], X[rows])
    assert np.array_equal(in_memory(table[:, [3, 1]]), X[:, [3, 1]])
    assert np.array_equal(in_memory(table.chosen(y == "low")), X[y == "low"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [None, 100])
def test_released_integers_are_those_of_a_fit_in_memory(kind, batch, X, y, tmp_path):
    pandas = pytest.importorskip("pandas")
    table = opened(kind, X, y, tmp_path)
    model = DPSGDFClassifier(
        bounds=(0, 100), random_state=0, max_iter=4, batch_size=batch
    )
    usual = X if table.columns is None else pandas.DataFrame(X, columns=NAMES)
    wanted = model.fit(usual, y).coef_.copy()
    predicted = model.predict(usual)
    model.fit(table, y)
    assert np.array_equal(model.coef_, wanted)
    assert np.array_equal(model.predict(table), predicted)
    if table.columns is None:
        assert not hasattr(model, "feature_names_in_")
        return
    assert list(model.feature_names_in_) == NAMES
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[:, [1, 0, 2, 3, 4]])
    # Names say which columns are public, bounded, and those of persons.
    given = {"bounds": {"c1": (0, 50)}, "public_features": ["c0", "c4"]}
    model = FeatureDPLogisticRegression(**given, random_state=0, max_iter=4)
    model.set_params(max_rows_per_person=3)
    persons = np.floor(X[:, 2])
    wanted = model.fit(usual, y, groups=persons).coef_.copy()
    assert np.array_equal(model.fit(table, y, groups=persons).coef_, wanted)
    with_column = model.fit(usual, y, groups="c3").coef_.copy()
    assert np.array_equal(model.fit(table, y, groups="c3").coef_, with_column)


def test_fits_take_arrow_as_it_is(X, y, tmp_path):
    table = arrow(X, y).drop_columns("label")
    from pyarrow import dataset, parquet

    parquet.write_table(table, tmp_path / "X.parquet")
    model = DPSGDFClassifier(bounds=(0, 100), random_state=0, max_iter=4)
    wanted = model.fit(open_table(table), y).coef_.copy()
    for given in (table, dataset.dataset(tmp_path / "X.parquet")):
        assert isinstance(large_table(given), LargeTable)
        assert np.array_equal(model.fit(given, y).coef_, wanted)
        assert list(model.feature_names_in_) == NAMES
    with sklearn.config_context(working_memory=1):
        assert large_table(table) is None
        assert np.array_equal(model.fit(table, y).coef_, wanted)


def test_labels_of_any_type_are_one_column(X, y, tmp_path):
    for kind in ("Table", "parquet", "folder"):
        given, _ = made(kind, X, y, tmp_path)
        table = open_table(given)
        assert np.array_equal(table["label"], y)
        assert np.array_equal(table.chosen(y == "low")["label"], y[y == "low"])
        assert np.array_equal(table["c3"], X[:, 3])


def test_missing_numbers_and_other_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "u": pa.array([1, None, 3], pa.uint8()),
            "b": pa.array([True, None, False]),
            "f": pa.array([0.5, None, np.inf], pa.float32()),
        }
    )
    wanted = np.array([[1, 1, 0.5], [np.nan] * 3, [3, 0, np.inf]])
    parquet.write_table(table, tmp_path / "t.parquet")
    for given in (table, tmp_path / "t.parquet"):
        found = open_table(given)
        assert found.dtype == np.float32
        assert np.array_equal(in_memory(found), wanted, equal_nan=True)
    wide = table.append_column("i", pa.array([2**40 + 1, 0, None], pa.int64()))
    found = open_table(wide)
    assert found.dtype == np.float64
    assert found[0:1][0, 3] == 2**40 + 1


def test_columns_that_are_no_numbers_are_named(X, y):
    table = open_table(arrow(X, y))
    with pytest.raises(ValueError, match="of a type that is no number: 'label'; drop"):
        DPSGDFClassifier(bounds=(0, 1)).fit(table, y)


def test_two_columns_of_one_name():
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], ["a", "a"])
    with pytest.raises(ValueError, match="two columns of one name"):
        open_table(table)


def test_whole_chunks_are_read_once_in_a_pass(X):
    array = Chunked(X, (100, 2))
    table = LargeTable.of(ChunkedSource(array))
    for start in range(0, N, 30):
        table[start : start + 30]
    assert array.asked == [(start, start + 100) for start in range(0, N, 100)]


def test_a_pass_over_a_data_set_reads_it_once(X, y, tmp_path, monkeypatch):
    given, _ = made("folder", X, y, tmp_path)
    scanned = []
    scan = sources.DatasetSource._scan

    def noted(self, first):
        scanned.append(first)
        return scan(self, first)

    monkeypatch.setattr(sources.DatasetSource, "_scan", noted)
    table = open_table(given).drop("label")
    for _ in range(2):
        for start in range(0, N, 30):
            assert np.array_equal(table[start : start + 30], X[start : start + 30])
    assert scanned == [0, 0]
    table[600:610]
    assert scanned[2:] == [8]  # of ten row groups, where its stretch begins


@pytest.mark.parametrize(
    "given", ["X.csv", "X", 3, None, np.zeros(3), [[1.0, 2.0]], {"a": [1]}]
)
def test_what_is_no_table_is_told_in_one_sentence(given):
    with pytest.raises(ValueError, match="no table that can be read in blocks: give"):
        open_table(given)


# -- stored grids ------------------------------------------------------------------


@pytest.fixture
def grid(X, y, tmp_path, capsys):
    """Return the folder that the command line writes."""
    given, _ = made("parquet", X, y, tmp_path)
    out = tmp_path / "out"
    status = main(
        [
            "grid",
            str(given),
            str(out),
            "--bounds",
            "0:100",
            "c1=0:50",
            "--drop",
            "label",
        ]
    )
    assert status == 0
    assert "as private as the table" in capsys.readouterr().out
    return out


HIGH = np.array([100.0, 50.0, 100.0, 100.0, 100.0])


def test_a_grid_holds_the_scaled_columns(grid, X):
    table = open_table(grid)
    assert table.columns == NAMES
    scaled = np.clip(X / HIGH, 0, 1)
    step = 2.0**-14 * 2  # rows of five bounded columns are divided by 2
    assert np.abs(in_memory(table) - scaled).max() <= step
    assert (in_memory(table) <= scaled + 1e-7).all()  # toward zero
    assert np.array_equal(in_memory(table) / step % 1, np.zeros((N, D)))


@pytest.mark.parametrize("public", [None, ["c0", "c4"]])
@pytest.mark.parametrize("batch", [None, 100])
def test_a_fit_on_a_grid_is_that_on_its_numbers(grid, y, public, batch):
    pandas = pytest.importorskip("pandas")
    table = open_table(grid)
    usual = pandas.DataFrame(np.asarray(in_memory(table)), columns=NAMES)
    solver = "dp-gd" if batch is None else "dp-sgd"
    model = FeatureDPLogisticRegression(
        public_features=public, solver=solver, batch_size=batch, random_state=0
    )
    wanted = model.set_params(max_iter=4, bounds=(0, 1)).fit(usual, y).coef_.copy()
    assert np.array_equal(model.fit(table, y).coef_, wanted)
    assert np.array_equal(model.set_params(bounds=None).fit(table, y).coef_, wanted)


@pytest.mark.parametrize("batch", [None, 100])
def test_its_integers_are_used_as_they_are(grid, y, batch, tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    table = open_table(grid)
    usual = pandas.DataFrame(in_memory(table), columns=NAMES)
    model = DPSGDFClassifier(
        bounds=(0, 1), centering=None, fit_intercept=False, normalize=False,
        random_state=0, max_iter=4, batch_size=batch,
    )  # fmt: skip
    wanted = model.fit(usual, y).coef_.copy()

    def refuse(*_):
        raise AssertionError("a copy is made")

    monkeypatch.setattr("skfdp.records.grid._Rows.start", refuse)
    assert np.array_equal(model.fit(table, y).coef_, wanted)
    for other in ({"fit_intercept": True}, {"normalize": True}, {"bounds": (0, 1)}):
        changed = sklearn.clone(model).set_params(**other)
        if other == {"bounds": (0, 1)}:
            changed.fit(table, y)
            continue
        with pytest.raises(AssertionError, match="a copy is made"):
            changed.fit(table, y)
    with pytest.raises(AssertionError, match="a copy is made"):
        model.fit(table.chosen(y == "low"), np.arange((y == "low").sum()) % 2)


@pytest.mark.parametrize(
    "change",
    [
        {"shortens": True},
        {"normalize": True},
        {"feature_bound": 4.0},
        {"low": np.full(D, 0.1)},
        {"span": np.full(D, 2.0)},
        {"low": None, "span": None},
        {"public": np.arange(D) < 2},
    ],
    ids=lambda change: "-".join(change),
)
def test_they_are_used_under_their_own_map_alone(grid, change):
    own = RowMap(np.zeros(D), np.ones(D), 2.0, shortens=False)
    table = open_table(grid)
    rows = rows_as_they_are(table, own, 1.5)
    assert rows.values is table.source.values
    assert rows.unit == 1.5 * GRID
    other = GridRows.build(table, own.mapped)
    assert np.array_equal(rows.values, other.values)
    assert np.array_equal(rows.squared_norms, other.squared_norms)
    assert rows_as_they_are(table, dataclasses.replace(own, **change), 1.5) is None


@pytest.mark.parametrize("bounds", [(0, 100), False, "private", {"c0": (0, 1)}, 3])
def test_other_bounds_contradict_a_grid(grid, y, bounds):
    with pytest.raises(ValueError, match="contradict those of"):
        DPSGDFClassifier(bounds=bounds).fit(open_table(grid), y)


def test_a_grid_is_as_private_as_its_owner_and_public_beside_its_rows(grid):
    if os.name == "posix":
        assert stat.S_IMODE(grid.stat().st_mode) == 0o700
        for file in grid.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    facts = json.loads((grid / "grid.json").read_text())
    assert facts == {
        "format": "skfdp grid 1",
        "n_rows": N,
        "columns": NAMES,
        "low": [0.0] * D,
        "high": HIGH.tolist(),
        "divisor": 2.0,
    }


def test_missing_numbers_stand_at_the_middle_of_bounds(X, tmp_path):
    X[3, 1], X[4, 2] = np.nan, np.inf
    table = open_table(np.asarray(X))
    row_map = RowMap(np.zeros(D), np.full(D, 100.0), 2.0, shortens=False)
    write_grid(table, row_map, tmp_path / "out")
    found = stored_grid(tmp_path / "out")
    assert found[3:4][0, 1] == found[4:5][0, 2] == 0.5


def test_a_grid_that_fails_leaves_nothing(X, tmp_path):
    table = open_table(np.asarray(X))

    def stop(done):
        raise KeyboardInterrupt

    row_map = RowMap(np.zeros(D), np.ones(D), shortens=False)
    with pytest.raises(KeyboardInterrupt):
        write_grid(table, row_map, tmp_path / "out", stop)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="needs bounds of every column"):
        write_grid(table, RowMap(), tmp_path / "out")


@pytest.mark.parametrize(
    "change",
    [
        {"format": "skfdp grid 2"},
        {"n_rows": N + 1},
        {"divisor": 3.0},
        {"divisor": "x"},
        {"low": [0.0]},
    ],
)
def test_a_damaged_grid_is_refused(grid, change):
    facts = json.loads((grid / "grid.json").read_text())
    (grid / "grid.json").write_text(json.dumps(facts | change))
    with pytest.raises(ValueError, match="or it is damaged: write it again"):
        open_table(grid)


def test_a_truncated_grid_is_refused(grid):
    rows = grid / "rows.npy"
    rows.write_bytes(rows.read_bytes()[:-2])
    with pytest.raises(ValueError, match="damaged"):
        open_table(grid)


@pytest.mark.parametrize(
    "given, told",
    [
        (["X.parquet", "out", "--bounds", "0:100"], "'label'; leave them out"),
        (["X.parquet", "out", "--bounds", "c0=0:1", "--drop", "label"], "leave out 4"),
        (["X.parquet", "out", "--bounds", "0-1", "--drop", "label"], "LOW:HIGH"),
        (["X.parquet", "out", "--bounds", "0:1", "0:2", "--drop", "label"], "twice"),
        (["X.parquet", "out", "--bounds", "1:0", "--drop", "label"], "low < high"),
        (["X.parquet", "out", "--bounds", "0:1", "--drop", "x"], "no column 'x'"),
        (["X.parquet", ".", "--bounds", "0:1"], "exists: name a new folder"),
        (["X.parquet", "no/out", "--bounds", "0:1"], "no folder 'no'"),
        (["none.parquet", "out", "--bounds", "0:1"], "cannot read 'none.parquet'"),
        (["X.csv", "out", "--bounds", "0:1"], "write a CSV file as .parquet"),
    ],
)
def test_refusals_of_the_command(given, told, X, y, tmp_path, monkeypatch, capsys):
    made("parquet", X, y, tmp_path)
    (tmp_path / "X.csv").write_text("a,b\n1,2\n")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert main(["grid", *given]) == 2
    assert told in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_the_loader_is_public():
    assert skfdp.open_table is open_table
