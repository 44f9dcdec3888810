"""Files whose types differ, failing disks, masks, one-row models, Dask."""

import importlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from pyarrow import dataset, feather, parquet
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from skfdp import (
    DeclaredEncoder,
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
    TableSchema,
    open_table,
    private_score,
)
from skfdp.data import sources
from skfdp.data.units import RowsOfUnits
from skfdp.privacy.assumptions import SAME_PARTITIONS
from skfdp.privacy.events import Relation
from skfdp.schema import Category, Number, SchemaError
from skfdp.solvers import NoisyGradientDescent, NoisySGD
from skfdp.solvers.score import predicted

N = 200
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 2 * N)
SOON = DPSGDFClassifier(
    bounds=(0, 1), classes=[0, 1], solver=NoisyGradientDescent(max_iter=2)
)


def folder(path, first, second, kind="parquet", **columns):
    """Write two files, in which column "a" has two types."""
    path.mkdir()
    for number, column in enumerate((first, second)):
        table = pa.table({"a": column, "b": pa.array(RNG.random(len(column)))})
        if kind == "parquet":
            parquet.write_table(table, path / f"part{number}.parquet")
        else:
            feather.write_feather(table, path / f"part{number}.arrow")
    return path


def opened(path, kind="parquet"):
    if kind == "parquet":
        return open_table(path)
    return open_table(dataset.dataset(path, format="ipc"))


WHOLE = pa.array(RNG.integers(0, 9, N))
NUMBERS = {
    "float64": pa.array([0.777123, None, *RNG.random(N - 2)]),
    "float32": pa.array(RNG.random(N).astype(np.float32)),
    "int8": pa.array(RNG.integers(0, 9, N).astype(np.int8)),
    "int64 with missing": pa.array([None, *range(N - 1)]),
    "uint64": pa.array([2**64 - 1] * N, pa.uint64()),
    "int64 beyond 2**53": pa.array([2**62 + 1] * N),
    "bool": pa.array([True, None] * (N // 2)),
    "decimal": pa.array([1.25, None] * (N // 2)).cast(pa.decimal128(5, 2)),
    "all missing": pa.nulls(N),
}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_attack_1_numbers_of_two_types_are_promoted(tmp_path, name, turned, kind):
    parts = [WHOLE, NUMBERS[name]][:: -1 if turned else 1]
    table = opened(folder(tmp_path / "t", *parts, kind=kind), kind)
    wanted = [
        np.array([np.nan if v is None else float(v) for v in part.to_pylist()])
        for part in parts
    ]
    np.testing.assert_allclose(table[0 : 2 * N][:, 0], np.concatenate(wanted))
    assert clone(SOON).fit(table, LABELS).coef_.shape == (1, 2)


OTHERS = {
    "dates": pa.array(pd.date_range("2020-01-01", periods=N)),
    "lists": pa.array([[1]] * N),
}
#: What a month is stored as if one of its cells is no number.
TEXTS = {
    "text": pa.array(["x", None, *(f"{v}" for v in range(2, N))]),
    "categories": pa.array(["x", None, *(f"{v}" for v in range(2, N))]),
}
TEXTS["categories"] = TEXTS["categories"].dictionary_encode()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_a3_text_in_one_file_is_read_as_numbers_where_others_hold_them(
    tmp_path, name, turned
):
    parts = [WHOLE, TEXTS[name]][:: -1 if turned else 1]
    table = open_table(folder(tmp_path / "t", *parts))
    texts = np.r_[np.nan, np.nan, 2:N]
    wanted = [WHOLE.to_numpy(), texts][:: -1 if turned else 1]
    np.testing.assert_array_equal(table[0 : 2 * N][:, 0], np.concatenate(wanted))
    assert table["a"].dtype == object


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_attack_1_other_types_are_refused_by_name_when_opened(tmp_path, name, turned):
    parts = [WHOLE, OTHERS[name]][:: -1 if turned else 1]
    path = folder(tmp_path / "t", *parts)
    with pytest.raises(ValueError, match="column 'a' has the types .*int64.* in the f"):
        open_table(path)


def test_attack_1_a_column_that_some_files_lack_is_refused(tmp_path):
    path = folder(tmp_path / "t", WHOLE, WHOLE)
    parquet.write_table(pa.table({"a": WHOLE}), path / "part2.parquet")
    with pytest.raises(ValueError, match="column 'b' is in some files of the table"):
        open_table(path)
    parquet.write_table(
        pa.table({"a": WHOLE, "b": WHOLE, "c": WHOLE}), path / "part2.parquet"
    )
    with pytest.raises(ValueError, match="column 'c' is in some files of the table"):
        open_table(path)


def test_attack_1_codes_are_never_floats(tmp_path):
    big = 2**53 + 1
    path = folder(tmp_path / "t", pa.array([big, 7, None] * 10), pa.array([0.5] * 5))
    codes = open_table(path)["a"]
    assert codes[:3].tolist() == [big, 7, None] and codes[-1] == 0.5
    text = ["x", "y"] * 10
    path = folder(tmp_path / "u", pa.array(text), pa.array(text).dictionary_encode())
    assert open_table(path)["a"].tolist() == [*text, *text]


@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_attack_1_a_failing_disk_ends_a_fit_in_one_sentence(tmp_path, damage):
    path = folder(tmp_path / "t", WHOLE, NUMBERS["float64"])
    ledger = PrivacyLedger()
    model = clone(SOON)

    class Spoiling(PrivacyLedger):
        def charge(self, *args, **more):
            found = ledger.charge(*args, **more)
            part = path / "part1.parquet"
            if damage == "gone":
                part.unlink()
            elif damage == "cut":
                part.write_bytes(part.read_bytes()[:200])
            else:
                part.write_bytes(b"0.777123" * 500)
            return found

    model.set_params(ledger=Spoiling())
    with pytest.raises(
        OSError, match="^the table cannot be read .* fit again.$"
    ) as told:
        model.fit(open_table(path), LABELS)
    assert "0.777" not in str(told.value) and told.value.__context__ is None
    assert len(ledger) > 0 and not hasattr(model, "coef_")


# -- folders, damaged files, text that is no UTF-8 ------------------------------------
@pytest.mark.parametrize("suffix", [".arrow", ".feather", ".ipc", ".ARROW"])
def test_a_folder_has_the_format_of_its_files(tmp_path, suffix):
    values = [[0.0, 1.0], [2.0], [3.0]]
    for number, part in enumerate(values):
        place = tmp_path / f"year-{number}"
        place.mkdir()
        feather.write_feather(pa.table({"a": part}), place / f"part{suffix}")
    for hidden in ("_SUCCESS", ".part.crc"):
        (tmp_path / hidden).write_text("")
    (tmp_path / "_logs").mkdir()
    (tmp_path / "_logs" / "today.txt").write_text("")
    assert open_table(tmp_path)[0:4].ravel().tolist() == [0, 1, 2, 3]
    assert open_table(str(tmp_path))["a"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("a.arrow", "b/c.parquet"), ".arrow, .parquet"),
        (("a.parquet", "README.md"), ".md, .parquet"),
        (("a.csv",), ".csv"),
        (("part-00000",), "no suffix"),
        ((), "none"),
    ],
)
def test_a_folder_of_other_files_is_refused_by_their_suffixes(tmp_path, names, found):
    (tmp_path / "b").mkdir()
    for name in names:
        write = parquet.write_table if "parquet" in name else feather.write_feather
        write(pa.table({"a": [0.777123]}), tmp_path / name)
    with pytest.raises(ValueError, match=f"with these suffixes: {found}; leave only "):
        open_table(tmp_path)


def damaged(path, kind):
    """Write a file that cannot be opened."""
    np.save(path / "whole.npy", np.full((9, 3), 0.777123))
    whole = (path / "whole.npy").read_bytes()
    if kind == "objects":
        np.save(path / "X.npy", np.array([["0.777123", None]], dtype=object))
        return path / "X.npy"
    content = {"cut": whole[:200], "cut header": whole[:20]}
    name = "X.npy" if kind in content else f"X.{kind}"
    (path / name).write_bytes(content.get(kind, b"0.777123" * 50))
    return path / name


@pytest.mark.parametrize(
    "kind", ["npy", "cut", "cut header", "objects", "parquet", "arrow"]
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, kind):
    with pytest.raises(
        OSError, match=r"' cannot be opened as .* write the file again\.$"
    ) as e:
        open_table(damaged(tmp_path, kind))
    assert "0.777" not in str(e.value) and e.value.__context__ is None


@pytest.mark.parametrize("suffix", ["npy", "parquet", "arrow"])
def test_a_missing_file_is_named(tmp_path, suffix):
    with pytest.raises(FileNotFoundError, match=f"X.{suffix}' does not exist: check"):
        open_table(tmp_path / f"X.{suffix}")


def test_a_damaged_part_of_a_data_set_is_refused_in_one_sentence(tmp_path):
    path = folder(tmp_path / "t", WHOLE, WHOLE)
    given = dataset.dataset(path)
    (path / "part1.parquet").write_bytes(b"0.777123" * 50)
    for table in (path, given):
        with pytest.raises(OSError, match="^the table cannot be read .*again") as told:
            open_table(table)
        assert "0.777" not in str(told.value) and told.value.__context__ is None


def test_columns_are_chosen_without_another_look_at_the_files(tmp_path, monkeypatch):
    table = open_table(folder(tmp_path / "t", WHOLE, WHOLE))
    for name in ("_pieces", "_types_by_column"):
        monkeypatch.delattr(sources, name)
    assert table.drop("a").shape == (2 * N, 1)
    assert table["a"].tolist() == 2 * WHOLE.to_pylist()


@pytest.mark.parametrize("offset", [0, 5000])
def test_a_memory_map_whose_file_was_cut_is_refused(tmp_path, offset):
    path = tmp_path / "X.bin"
    path.write_bytes(bytes(offset) + RNG.random((40, 3)).tobytes())
    rows = np.memmap(path, dtype=float, mode="r", offset=offset, shape=(40, 3))
    tables = [open_table(rows), open_table(rows[10:])]
    with path.open("r+b") as file:  # within a page, so that no signal is raised
        file.truncate(offset + 200)
    for table in tables:
        for chosen in (slice(0, 5), [0, 3]):
            with pytest.raises(OSError, match="^the table cannot be read .* again."):
                table[chosen]
    model = clone(SOON)
    with (
        sklearn.config_context(working_memory=0),
        pytest.raises(OSError, match="^the table cannot be read .* fit again.$"),
    ):
        model.fit(rows, LABELS[:40])


def test_the_type_of_an_error_is_not_told(monkeypatch):
    def fails(column):
        raise KeyError("0.777123")

    monkeypatch.setattr("skfdp.data.sources._as_array", fails)
    table = open_table(pa.table({"x": [1.0, 2.0, 3.0]}))
    with pytest.raises(OSError, match="^the table cannot be read .*again.$") as told:
        table[0:2]
    assert "Key" not in str(told.value) and "0.777" not in str(told.value)


@pytest.mark.parametrize("kind", ["table", "parquet", "arrow"])
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_text_that_is_no_utf8_is_read_with_a_mark(tmp_path, kind, coded, wide):
    cells = pa.array([b"a\xff", None, b"b"], "large_binary" if wide else "binary")
    kind_of_text = pa.large_string() if wide else pa.string()
    text = pa.Array.from_buffers(kind_of_text, 3, cells.buffers(), cells.null_count)
    given = pa.table({"x": [1.0, 2.0, 3.0], "y": text})
    if coded:
        given = given.set_column(1, "y", text.dictionary_encode())
    if kind == "parquet":
        parquet.write_table(given, tmp_path / "X.parquet")
        given = tmp_path / "X.parquet"
    elif kind == "arrow":
        feather.write_feather(given, tmp_path / "X.arrow")
        given = tmp_path / "X.arrow"
    wanted = ["a\N{REPLACEMENT CHARACTER}", None, "b"]
    table = open_table(given)
    assert table["y"].tolist() == wanted
    assert table[0:3][:, 1].tolist() == wanted


# -- masks ----------------------------------------------------------------------------
X = RNG.random((N, 3))
Y = (X[:, 0] > 0.5).astype(int)
MASK = np.zeros((N, 3), bool)
MASK[::7, 1] = True
MODELS = {
    "FeatureDPLogisticRegression": FeatureDPLogisticRegression(classes=[0, 1]),
    "DPSGDFClassifier": DPSGDFClassifier(classes=[0, 1]),
    "FeatureDPRegressor": FeatureDPRegressor(target_bounds=(0, 1)),
    "DPSGDFRegressor": DPSGDFRegressor(target_bounds=(0, 1)),
    "FeatureDPMLPClassifier": FeatureDPMLPClassifier(
        classes=[0, 1], hidden_layer_sizes=(2,), solver=NoisySGD(max_iter=2)
    ),
    "PrivateCenteringTransformer": PrivateCenteringTransformer(),
}


def check_same(model, given, plain):
    """Check that two pairs of a table and a target make one model."""
    one, other = (clone(model).fit(*pair) for pair in (given, plain))
    for released in one._released:
        np.testing.assert_equal(getattr(one, released), getattr(other, released))
    method = "predict" if hasattr(one, "predict") else "transform"
    found, wanted = getattr(one, method)(given[0]), getattr(other, method)(plain[0])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_attack_10_masked_cells_are_missing(name):
    model = clone(MODELS[name]).set_params(bounds=(0, 1), random_state=0)
    masked, plain = np.ma.MaskedArray(X, MASK), np.where(MASK, np.nan, X)
    check_same(model, (masked, Y), (plain, Y))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", sorted(MODELS.keys() - {"PrivateCenteringTransformer"})
)
def test_attack_10_masked_targets_are_missing(name):
    model = clone(MODELS[name]).set_params(bounds=(0, 1), random_state=0)
    masked, plain = np.ma.MaskedArray(Y, MASK[:, 1]), np.where(MASK[:, 1], np.nan, Y)
    check_same(model, (X, masked), (X, plain))


@pytest.mark.parametrize("kind", ["groups", "sample_weight"])
def test_attack_10_masked_groups_and_weights_are_refused(kind):
    model = FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1])
    given = np.ma.MaskedArray(np.arange(N) // 2 + 1, MASK[:, 1])
    with pytest.raises(ValueError, match=kind):
        model.fit(X, Y, **{kind: given})
    plain = np.ma.MaskedArray(np.arange(N) // 2 + 1, False)
    assert model.fit(X, Y, **{kind: plain}).privacy_.guarantee


def test_attack_10_missing_complex_groups_are_refused():
    model = FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1])
    groups = np.arange(N).astype(complex)
    groups[3] = complex(np.nan, 0)
    with pytest.raises(ValueError, match="groups"):
        model.fit(X, Y, groups=groups)


MASKED = np.ma.masked


def with_masks(values, form):
    """Return values whose entries of the first row, or the first one, are masked."""
    mask = np.zeros(np.shape(values), dtype=bool)
    mask[0] = True
    array = np.ma.MaskedArray(values, mask)
    if form == "objects":
        found = np.array(values, dtype=object)
        for place in np.ndindex(found[:1].shape):
            found[place] = MASKED
        return found
    if form == "list":
        return [
            MASKED if one else value for value, one in zip(values, mask, strict=True)
        ]
    if form == "rows":
        return list(array)
    assert form == "array"
    array.fill_value = array.data.flat[0]
    return array


@pytest.mark.filterwarnings("error:Warning. converting a masked element to nan")
@pytest.mark.filterwarnings(
    "ignore::skfdp.UtilityWarning", "ignore::skfdp.PrivacyWarning"
)
@pytest.mark.parametrize("bounds", [(0, 1), None])
@pytest.mark.parametrize("form", ["array", "objects", "rows"])
def test_masked_rows_of_any_form_are_missing(form, bounds):
    model = clone(SOON).set_params(bounds=bounds, random_state=0)
    plain = X.copy()
    plain[0] = np.nan
    wanted, given = model.fit(plain, Y).coef_, with_masks(X, form)
    np.testing.assert_array_equal(clone(model).fit(given, Y).coef_, wanted)
    scores = [
        private_score(model, one, Y, 1.0, random_state=0, model_is_public=True).values
        for one in (plain, given)
    ]
    np.testing.assert_equal(scores[1], scores[0])


@pytest.mark.filterwarnings(
    "ignore::skfdp.UtilityWarning", "ignore::skfdp.PrivacyWarning"
)
@pytest.mark.parametrize("form", ["array", "objects", "list"])
def test_masked_labels_of_any_form_are_missing(form):
    model = clone(SOON).set_params(classes=["--", "a"], random_state=0)
    labels = np.array(["a", "--"], dtype=object)[Y]
    plain = labels.copy()
    plain[0] = None
    wanted = model.fit(X, plain).coef_
    found = clone(model).fit(X, with_masks(labels, form)).coef_
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [int, float, np.float32])
def test_masked_cells_of_an_open_table_are_missing(dtype):
    given = np.ma.MaskedArray(np.arange(6).reshape(3, 2).astype(dtype))
    given[1, 0] = MASKED
    wanted = [[0, 1], [np.nan, 3], [4, 5]]
    np.testing.assert_array_equal(open_table(given)[0:3], wanted)


@pytest.mark.extra("dask")
def test_a_masked_public_target_is_missing_in_dask_too():
    import dask.array as array

    model = FeatureDPLogisticRegression(bounds=(0, 1), public_target=True)
    target = np.ma.MaskedArray(Y, MASK[:, 1])
    parts = array.from_array(target, chunks=50, asarray=False)
    for rows, labels in ((X, target), (array.from_array(X, chunks=50), parts)):
        with pytest.raises(ValueError, match="y contains NaN, None or another missing"):
            model.fit(rows, labels)


PERSONS = [f"p{i // 2}" for i in range(N)]
PAIRS = np.array([(i // 2, 0.5) for i in range(N)], dtype=[("a", int), ("b", float)])


def structured(place=None, masked=False):
    pairs = np.ma.MaskedArray(PAIRS.copy()) if masked else PAIRS.copy()
    if place is not None:
        pairs["b"][place] = MASKED if masked else np.nan
    return pairs


def strings(*na_object):
    kind = np.dtypes.StringDType(**({"na_object": na_object[0]} if na_object else {}))
    found = np.array(PERSONS, dtype=kind)
    if na_object:
        found[:2] = na_object[0]
    return found


def tuples(entry):
    return pd.Series([(i // 2, entry if i < 2 else 0.5) for i in range(N)])


UNNAMED = {
    "masked in a list of texts": [MASKED, *PERSONS[1:]],
    "NaN in a list of texts": [np.nan, *PERSONS[1:]],
    "None in a list of texts": [None, *PERSONS[1:]],
    "masked in a list of numbers": [MASKED, *range(1, N)],
    "masked among objects": with_masks(PERSONS, "objects"),
    "masked among numbers": with_masks(np.arange(N), "objects"),
    "masked in an array": with_masks(PERSONS, "array"),
    "StringDType with None": strings(None),
    "StringDType with NaN": strings(np.nan),
    "StringDType with NA": strings(pd.NA),
    "NaN in a structure": structured(3),
    "masked in a structure": structured(3, masked=True),
    "NaN in tuples": tuples(np.nan),
    "None in tuples": tuples(None),
    "NaN in tuples in tuples": tuples((1, np.nan)),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_missing_names_of_persons_are_refused_in_any_form(name):
    model = FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1])
    with pytest.raises(ValueError, match="^groups has missing entries: give each"):
        model.fit(X, Y, groups=UNNAMED[name])


@pytest.mark.parametrize(
    "groups", [PERSONS, strings(), structured(), structured(masked=True), tuples(0.5)]
)
def test_names_of_persons_make_the_same_persons_in_any_form(groups):
    wanted = np.arange(N) // 2
    units = RowsOfUnits.checked(None, groups, N, Relation.of("replace_one"))
    assert units.persons.tolist() == wanted.tolist()


# -- models that refuse short tables --------------------------------------------------
class NeedsTwo(ClassifierMixin, BaseEstimator):
    """It refuses tables of one row, and rows whose first entry is above 0.9."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        if len(X) < 2 or (X[:, 0] > 0.9).any():
            raise ValueError("a secret")
        return (X[:, 0] > 0.5).astype(int)


@pytest.mark.parametrize("n_bad", [0, 1, 5, N])
def test_attack_10_no_neighbour_loses_a_prediction(n_bad):
    table = np.clip(X, 0, 0.8)
    bad = RNG.choice(N, n_bad, replace=False)
    table[bad, 0] = 1.0
    found = predicted(NeedsTwo().predict, table, N)
    for row in range(N):
        wanted = None if row in bad else int(table[row, 0] > 0.5)
        assert found[row] == wanted


def test_attack_10_a_record_moves_its_own_cell_of_a_score_alone():
    table = np.clip(X, 0, 0.8)
    other = table.copy()
    other[0, 0] = 1.0
    exact = [
        private_score(
            NeedsTwo(),
            one,
            (one[:, 0] > 0.5).astype(int),
            1e6,
            metrics="accuracy",
            model_is_public=True,
        ).values["accuracy"]
        for one in (table, other)
    ]
    assert exact[0] > 0.99 and exact[1] > 0.98


# -- Dask -----------------------------------------------------------------------------
@pytest.mark.extra("dask")
def test_attack_10_a_collection_is_assumed_to_be_deterministic():
    import dask.array as array

    model = clone(SOON)
    rows, labels = (array.from_array(one, chunks=50) for one in (X, Y))
    told = [a for a in model.fit(rows, labels).privacy_.assumptions]
    found = [a for a in told if "Dask collection is deterministic" in a.text]
    assert len(found) == 1 and not found[0].enforced
    told = model.fit(X, Y).privacy_.assumptions
    assert not any("Dask" in a.text for a in told)


SECRET = "0.777123"


def failing(rows):
    """Return a Dask array whose graph raises an error that quotes a cell."""

    def fail(block):
        raise KeyError(SECRET)

    return rows.map_blocks(fail, dtype=float, meta=np.zeros((0, 0)))


@pytest.mark.extra("dask")
@pytest.mark.parametrize("verb", ["fit", "plan", "score"])
def test_errors_of_a_graph_are_withheld(verb):
    import dask.array as array

    rows, labels = (array.from_array(one, chunks=50) for one in (X, Y))
    model = clone(SOON)
    ledger = PrivacyLedger()
    if verb == "score":
        model.fit(X, Y)

        def call():
            private_score(
                model, failing(rows), labels, 1.0, model_is_public=True, ledger=ledger
            )

    else:
        model.set_params(ledger=ledger)

        def call():
            getattr(model, verb)(failing(rows), labels)

    with pytest.raises(RuntimeError, match="^a partition .* withheld .*see it.$") as e:
        call()
    assert e.value.__context__ is None and not len(ledger)
    assert SECRET not in str(e.value) and "KeyError" not in str(e.value)


@pytest.mark.extra("dask")
def test_errors_of_a_graph_on_a_cluster_are_withheld():
    from skfdp import dask_tables as cluster

    class Client:
        def compute(self, parts):
            return parts

        def submit(self, *args, **more):
            return self

        def result(self):
            raise KeyError(SECRET)

    with pytest.raises(RuntimeError, match="^a partition .* withheld .*see it.$") as e:
        cluster.WorkerPartitions(Client(), [(X, Y)])
    assert e.value.__context__ is None
    assert SECRET not in str(e.value) and "KeyError" not in str(e.value)


@pytest.mark.extra("dask")
@pytest.mark.filterwarnings("ignore::skfdp.PrivacyWarning")
@pytest.mark.parametrize("kind", ["array", "frame"])
@pytest.mark.parametrize("rows_of_persons", [False, True])
def test_a_collection_is_scored_as_a_table_in_memory(kind, rows_of_persons):
    module = importlib.import_module(
        {"array": "dask.array", "frame": "dask.dataframe"}[kind]
    )
    table, labels, persons = X, Y, np.arange(N) // 2
    if kind == "frame":
        table, labels = pd.DataFrame(X, columns=list("abc")), pd.Series(Y, name="y")
        persons = pd.Series(persons)

    def parts(one):
        if kind == "frame":
            return module.from_pandas(one, npartitions=3)
        return module.from_array(one, chunks=(50, *one.shape[1:]))

    model = clone(SOON)
    model.fit(table, labels)
    tables = [table, labels] + [persons] * rows_of_persons
    scores = []
    for X_, y, *groups in (tables, list(map(parts, tables))):
        more = {"groups": groups[0]} if groups else {}
        scores.append(
            private_score(
                model, X_, y, 1.0, random_state=0, model_is_public=True, **more
            )
        )
    alone, apart = scores
    np.testing.assert_equal(apart.values, alone.values)
    assert apart.intervals == alone.intervals
    assumed = [a for a in apart.privacy_.assumptions if a == SAME_PARTITIONS]
    assert len(assumed) == 1 and not assumed[0].enforced
    rest = [a for a in apart.privacy_.assumptions if a not in assumed]
    assert rest == list(alone.privacy_.assumptions)


# -- encoders -------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["memory map", "parquet", "data set"])
@pytest.mark.parametrize("verb", ["fit", "transform"])
def test_an_encoder_refuses_a_table_that_is_not_in_memory(tmp_path, kind, verb):
    codes = 2**53 + 2 * np.arange(2)
    encoder = DeclaredEncoder(TableSchema({"a": Category(codes.tolist())}))
    encoder.fit(pd.DataFrame({"a": codes}))
    np.save(tmp_path / "X.npy", codes[:, None])
    parquet.write_table(pa.table({"a": codes}), tmp_path / "X.parquet")
    name = "X.npy" if kind == "memory map" else "X.parquet"
    given, remedy = open_table(tmp_path / name), "X is read in blocks, .*: pass"
    if kind == "data set":
        given, remedy = dataset.dataset(tmp_path / "X.parquet"), r"pass X.to_table\(\)"
    with pytest.raises(TypeError, match=remedy):
        getattr(encoder, verb)(given)
    if kind == "data set":
        found = encoder.fit_transform(given.to_table())
        np.testing.assert_array_equal(found[:, :2], np.eye(2))


@pytest.mark.parametrize("kind", ["pyarrow", "dictionary", "pandas"])
def test_text_that_is_no_utf8_is_another_category(kind):
    cells = pa.array([b"u", b"u\xff", None], "binary")
    text = pa.Array.from_buffers(pa.string(), 3, cells.buffers(), cells.null_count)
    table = pa.table({"a": text})
    if kind == "dictionary":
        table = pa.table({"a": text.dictionary_encode()})
    if kind == "pandas":
        table = pd.DataFrame({"a": pd.Series(pd.arrays.ArrowExtensionArray(text))})
    encoder = DeclaredEncoder(TableSchema({"a": Category(["u"])}))
    # "u", other, missing
    np.testing.assert_array_equal(encoder.fit_transform(table), np.eye(3))


def damaged_pages(path):
    """Write a Parquet file whose footer is whole and whose pages are not."""
    parquet.write_table(pa.table({"a": X[:, 0], "y": Y}), path)
    content = bytearray(path.read_bytes())
    content[4:300] = b"0.777123" * 37
    path.write_bytes(content)


def test_a_schema_refuses_a_damaged_file_in_one_sentence(tmp_path):
    damaged_pages(tmp_path / "X.parquet")
    schema = TableSchema({"a": Number(0, 1)})
    with pytest.raises(SchemaError, match=r"^cannot read .*X.parquet'.* damaged") as e:
        schema.read(tmp_path / "X.parquet")
    assert e.value.__context__ is None and SECRET not in str(e.value)


def test_attack_1_signed_and_unsigned_codes_stay_whole(tmp_path):
    for name, dtype, code in (("a", "int64", -1), ("b", "uint64", 2**53 + 1)):
        column = pa.array(np.array([code], dtype=dtype))
        parquet.write_table(pa.table({"code": column}), tmp_path / f"{name}.parquet")
    assert list(open_table(tmp_path)["code"]) == [-1, 2**53 + 1]
