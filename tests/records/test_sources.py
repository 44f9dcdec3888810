"""Tables in files and elsewhere: what is read is what was written."""

import numpy as np
import pytest
import sklearn

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, files, open_table
from skfdp.data.sources import in_memory
from skfdp.solvers import NoisyGradientDescent

N, D = 700, 5
NAMES = [f"c{i}" for i in range(D)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Read some rows at a time, and keep few in memory."""
    monkeypatch.setattr(files, "_ENTRIES_AT_ONCE", 64 * D)
    with sklearn.config_context(working_memory=0.001):
        yield


@pytest.fixture
def X():
    return (np.random.default_rng(0).random((N, D)) * 100).astype(np.float32)


@pytest.fixture
def y(X):
    return np.where(X[:, 0] > 50, "high", "low")


def arrow(X, y):
    pa = pytest.importorskip("pyarrow")
    columns = {name: X[:, i] for i, name in enumerate(NAMES)}
    return pa.table({**columns, "label": y})


def made(kind, X, y, folder):
    """Return what `open_table` takes, and whether its columns have names."""
    if kind == "npy":
        np.save(folder / "X.npy", X)
        return folder / "X.npy", False
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


KINDS = ["npy", "Table", "parquet", "ipc", "folder", "dataset"]


def opened(kind, X, y, folder):
    given, has_names = made(kind, X, y, folder)
    table = open_table(given)
    return table.drop("label") if has_names else table


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_of_every_source(kind, X, y, tmp_path):
    table = opened(kind, X, y, tmp_path)
    assert open_table(table) is table
    assert table.shape == (N, D)
    assert table.dtype == (np.float32 if kind == "npy" else np.float64)
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


def test_fits_know_columns_by_their_names(X, y):
    frame = pytest.importorskip("pandas").DataFrame(X, columns=NAMES)
    table = open_table(arrow(X, y).drop_columns("label"))
    given = {"bounds": {"c1": (0, 50)}, "public_features": ["c0", "c4"]}
    model = FeatureDPLogisticRegression(
        random_state=0, solver=NoisyGradientDescent(max_iter=4), **given
    )
    for groups in (np.floor(X[:, 2]), "c3"):
        wanted = model.fit(frame, y, groups=groups).coef_.copy()
        assert np.array_equal(model.fit(table, y, groups=groups).coef_, wanted)
    model.fit(table, y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[:, [1, 0, 2, 3, 4]])


def test_labels_of_any_type_are_one_column(X, y, tmp_path):
    for kind in ("Table", "parquet", "folder"):
        given, _ = made(kind, X, y, tmp_path)
        table = open_table(given)
        assert np.array_equal(table["label"], y)
        assert np.array_equal(table.chosen(y == "low")["label"], y[y == "low"])
        assert np.array_equal(table["c3"], X[:, 3])


def test_columns_that_are_no_numbers_or_have_one_name_are_named(X, y):
    pa = pytest.importorskip("pyarrow")
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], ["a", "a"])
    with pytest.raises(ValueError, match="two columns with one name"):
        open_table(twice)
    table = open_table(arrow(X, y))
    with pytest.raises(ValueError, match="type that is not numeric: 'label'; drop"):
        DPSGDFClassifier(bounds=(0, 1)).fit(table, y)


@pytest.mark.parametrize(
    "given", ["X.csv", "X", 3, None, np.zeros(3), [[1.0, 2.0]], {"a": [1]}]
)
def test_what_is_no_table_is_told_in_one_sentence(given):
    with pytest.raises(ValueError, match="not a table that can be read in blocks"):
        open_table(given)
