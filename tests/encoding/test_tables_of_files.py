"""Tables that are not in one frame: folders of files, failing disks, masks, Dask."""

import contextlib
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset, feather, parquet
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from skfdp import (
    DeclaredEncoder,
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    PrivacyLedger,
    TableSchema,
    open_table,
    private_score,
)
from skfdp.data.units import kept_rows
from skfdp.privacy.events import Relation
from skfdp.schema import Category, Number, SchemaError
from skfdp.solvers import NoisyGradientDescent
from skfdp.solvers.score import predicted

N = 200
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 2 * N)
SOON = DPSGDFClassifier(
    bounds=(0, 1), classes=[0, 1], solver=NoisyGradientDescent(max_iter=2)
)


SECRET = "0.777123"
GARBAGE = SECRET.encode() * 50


@contextlib.contextmanager
def withheld(match, kind=OSError):
    """Check for an error whose text shows no cell, and no type of another error."""
    with pytest.raises(kind, match=match) as told:
        yield
    assert told.value.__context__ is None
    assert SECRET[:5] not in str(told.value) and "Key" not in str(told.value)


def folder(path, first, second, kind="parquet"):
    """Write two files, in which column "a" has two types."""
    path.mkdir()
    write = parquet.write_table if kind == "parquet" else feather.write_feather
    for number, column in enumerate((first, second)):
        table = pa.table({"a": column, "b": pa.array(RNG.random(len(column)))})
        write(table, path / f"part{number}.{kind}")
    return path


def ordered(first, second, turned):
    return (second, first) if turned else (first, second)


either_order = pytest.mark.parametrize("turned", [False, True])
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
@either_order
@pytest.mark.parametrize("name", NUMBERS)
def test_attack_1_numbers_of_two_types_are_promoted(tmp_path, name, turned, kind):
    parts = ordered(WHOLE, NUMBERS[name], turned)
    table = open_table(folder(tmp_path / "t", *parts, kind=kind))
    cells = [cell for part in parts for cell in part.to_pylist()]
    wanted = [np.nan if cell is None else float(cell) for cell in cells]
    np.testing.assert_allclose(table[0 : 2 * N][:, 0], wanted)
    if kind == "arrow" and turned:
        assert clone(SOON).fit(table, LABELS).coef_.shape == (1, 2)


OTHERS = {
    "dates": pa.array(pd.date_range("2020-01-01", periods=N)),
    "lists": pa.array([[1]] * N),
}
#: What a month is stored as if one of its cells is no number.
TEXTS = {"text": pa.array(["x", None, *map(str, range(2, N))])}
TEXTS["categories"] = TEXTS["text"].dictionary_encode()


@either_order
@pytest.mark.parametrize("name", TEXTS)
def test_a3_text_in_one_file_is_read_as_numbers_where_others_hold_them(
    tmp_path, name, turned
):
    table = open_table(folder(tmp_path / "t", *ordered(WHOLE, TEXTS[name], turned)))
    wanted = ordered(WHOLE.to_numpy(), np.r_[np.nan, np.nan, 2:N], turned)
    np.testing.assert_array_equal(table[0 : 2 * N][:, 0], np.concatenate(wanted))
    assert table["a"].dtype == object


@either_order
@pytest.mark.parametrize("name", OTHERS)
def test_attack_1_other_types_are_refused_by_name_when_opened(tmp_path, name, turned):
    path = folder(tmp_path / "t", *ordered(WHOLE, OTHERS[name], turned))
    with pytest.raises(ValueError, match="column 'a' has the types .*int64.* in the f"):
        open_table(path)


def test_attack_1_a_column_that_some_files_lack_is_refused(tmp_path):
    path = folder(tmp_path / "t", WHOLE, WHOLE)
    for lacking, names in (("b", "a"), ("c", "abc")):
        table = pa.table(dict.fromkeys(names, WHOLE))
        parquet.write_table(table, path / "part2.parquet")
        match = f"column '{lacking}' is in some files of the table"
        with pytest.raises(ValueError, match=match):
            open_table(path)


def test_attack_1_codes_are_never_floats(tmp_path):
    big = 2**53 + 1
    path = folder(tmp_path / "t", pa.array([big, 7, None] * 10), pa.array([0.5] * 5))
    codes = open_table(path)["a"]
    assert codes[:3].tolist() == [big, 7, None] and codes[-1] == 0.5
    signed = pa.array([-1], pa.int64()), pa.array([2**53 + 1], pa.uint64())
    assert open_table(folder(tmp_path / "s", *signed))["a"].tolist() == [-1, 2**53 + 1]
    text = ["x", "y"] * 10
    path = folder(tmp_path / "u", pa.array(text), pa.array(text).dictionary_encode())
    assert open_table(path)["a"].tolist() == [*text, *text]


@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_attack_1_a_failing_disk_ends_a_fit_in_one_sentence(tmp_path, damage):
    path = folder(tmp_path / "t", WHOLE, NUMBERS["float64"])
    part = path / "part1.parquet"

    class Spoiling(PrivacyLedger):
        def charge(self, *args, **more):
            found = super().charge(*args, **more)
            left = {"cut": part.read_bytes()[:200], "changed": GARBAGE * 10}
            part.write_bytes(left.get(damage, b""))
            if damage == "gone":
                part.unlink()
            return found

    model = clone(SOON).set_params(ledger=Spoiling())
    with withheld("^the table cannot be read .* fit again.$"):
        model.fit(open_table(path), LABELS)
    assert model.ledger.entries and not hasattr(model, "coef_")


# -- folders, damaged files, text that is no UTF-8 ------------------------------------
@pytest.mark.parametrize("suffix", [".arrow", ".feather", ".ipc", ".ARROW"])
def test_a_folder_has_the_format_of_its_files(tmp_path, suffix):
    for number, part in enumerate([[0.0, 1.0], [2.0], [3.0]]):
        path = tmp_path / f"year-{number}" / f"part{suffix}"
        path.parent.mkdir()
        feather.write_feather(pa.table({"a": part}), path)
    for hidden in ("_SUCCESS", ".part.crc", "_logs/today.txt"):
        (tmp_path / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / hidden).write_text("")
    assert open_table(tmp_path)[0:4].ravel().tolist() == [0, 1, 2, 3]
    assert open_table(str(tmp_path))["a"].tolist() == [0, 1, 2, 3]


SUFFIXES = {"a.arrow b/c.parquet": ".arrow, .parquet", "": "none", "a.csv": ".csv"}
SUFFIXES |= {"a.parquet README.md": ".md, .parquet", "part-00000": "no suffix"}


@pytest.mark.parametrize(("names", "found"), SUFFIXES.items())
def test_a_folder_of_other_files_is_refused_by_their_suffixes(tmp_path, names, found):
    (tmp_path / "b").mkdir()
    for name in names.split():
        write = parquet.write_table if "parquet" in name else feather.write_feather
        write(pa.table({"a": [0.777123]}), tmp_path / name)
    with pytest.raises(ValueError, match=f"with these suffixes: {found}; leave only "):
        open_table(tmp_path)


@pytest.mark.parametrize(
    "kind", ["npy", "cut", "cut header", "objects", "parquet", "arrow"]
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, kind):
    path = tmp_path / f"X.{kind if kind in ('parquet', 'arrow') else 'npy'}"
    cells = np.array([["0.777123", None]], dtype=object)
    np.save(tmp_path / "X.npy", cells if kind == "objects" else np.full(27, 0.777123))
    whole = (tmp_path / "X.npy").read_bytes()
    content = {"cut": whole[:200], "cut header": whole[:20], "objects": whole}
    path.write_bytes(content.get(kind, GARBAGE))
    with withheld(r"' cannot be opened as .* write the file again\.$"):
        open_table(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"{path.name}' does not exist: check"):
        open_table(path)


def test_a_damaged_part_of_a_data_set_is_refused_in_one_sentence(tmp_path):
    path = folder(tmp_path / "t", WHOLE, WHOLE)
    given = dataset.dataset(path)
    (path / "part1.parquet").write_bytes(GARBAGE)
    for table in (path, given):
        with withheld("^the table cannot be read .*again"):
            open_table(table)


def test_the_type_of_an_error_is_not_told(monkeypatch):
    def fails(column):
        raise KeyError(SECRET)

    monkeypatch.setattr("skfdp.files._floats", fails)
    table = open_table(pa.table({"x": [1.0, 2.0, 3.0]}))
    with withheld("^the table cannot be read .*again.$"):
        table[0:2]


def latin(kind="binary"):
    """Return text of which one cell is not UTF-8, and one is missing."""
    cells = pa.array([b"a\xff", None, b"a"], kind)
    text = pa.large_string() if kind == "large_binary" else pa.string()
    return pa.Array.from_buffers(text, 3, cells.buffers(), cells.null_count)


@pytest.mark.parametrize("store", ["table", "parquet", "arrow"])
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("kind", ["binary", "large_binary"])
def test_text_that_is_no_utf8_is_read_with_a_mark(tmp_path, store, coded, kind):
    text = latin(kind).dictionary_encode() if coded else latin(kind)
    given, path = pa.table({"x": [1.0, 2.0, 3.0], "y": text}), tmp_path / f"X.{store}"
    if store != "table":
        write = parquet.write_table if store == "parquet" else feather.write_feather
        write(given, path)
        given = path
    wanted = ["a\N{REPLACEMENT CHARACTER}", None, "a"]
    table = open_table(given)
    assert table["y"].tolist() == wanted and table[0:3][:, 1].tolist() == wanted
    encoder = DeclaredEncoder(TableSchema({"y": Category(["a"])}))
    if store == "table":  # other, missing, "a"
        frame = pd.DataFrame({"y": given["y"].to_pandas(types_mapper=pd.ArrowDtype)})
        for one in (given, frame):
            found = encoder.fit_transform(one)
            np.testing.assert_array_equal(found, np.eye(3)[[1, 2, 0]])


# -- masks ----------------------------------------------------------------------------
X = RNG.random((N, 3))
Y = (X[:, 0] > 0.5).astype(int)
MASK = np.arange(N) % 7 == 0
MASKED = np.ma.masked
QUIET = pytest.mark.filterwarnings(
    "ignore::skfdp.UtilityWarning", "ignore::skfdp.PrivacyWarning"
)
LOGISTIC = FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1])


@pytest.mark.parametrize("kind", ["groups", "sample_weight"])
def test_attack_10_masked_groups_and_weights_are_refused(kind):
    values = np.arange(N) // 2 + 1
    with pytest.raises(ValueError, match=kind):
        LOGISTIC.fit(X, Y, **{kind: np.ma.MaskedArray(values, MASK)})
    assert LOGISTIC.fit(X, Y, **{kind: np.ma.MaskedArray(values)}).privacy_.guarantee


def with_masks(values, form):
    """Return values whose entries of the first row, or the first one, are masked."""
    if form == "list":
        return [MASKED, *values[1:]]
    if form == "objects":
        found = np.array(values, dtype=object)
        for place in np.ndindex(found[:1].shape):
            found[place] = MASKED
        return found
    array = np.ma.MaskedArray(values)
    array[0] = MASKED
    array.fill_value = array.data.flat[0]
    return {"rows": list, "array": lambda one: one}[form](array)


@pytest.mark.filterwarnings("error:Warning. converting a masked element to nan")
@QUIET
@pytest.mark.parametrize("bounds", [(0, 1), None])
@pytest.mark.parametrize("form", ["objects", "rows"])
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


@QUIET
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
    target = np.ma.MaskedArray(Y, MASK)
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


UNNAMED = [
    *([one, *PERSONS[1:]] for one in (MASKED, np.nan, None)),
    *([MASKED, *range(1, N)], np.array([complex(np.nan, 0), *range(1, N)])),
    *(with_masks(PERSONS, "objects"), with_masks(np.arange(N), "objects")),
    *(with_masks(PERSONS, "array"), strings(None), strings(np.nan), strings(pd.NA)),
    *(structured(3), structured(3, masked=True)),
    *(tuples(np.nan), tuples(None), tuples((1, np.nan))),
]


def test_missing_names_of_persons_are_refused_in_any_form():
    for groups in UNNAMED:
        with pytest.raises(ValueError, match="^groups has missing entries: give each"):
            LOGISTIC.fit(X, Y, groups=groups)


def test_names_of_persons_make_the_same_persons_in_any_form():
    forms = PERSONS, strings(), structured(), structured(masked=True), tuples(0.5)
    for groups in forms:
        *_, persons = kept_rows(None, groups, N, Relation.of("replace_one"))
        assert persons.tolist() == (np.arange(N) // 2).tolist()


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
    table, given = np.clip(X, 0, 0.8), {"metrics": "accuracy", "model_is_public": True}
    for first, wanted in ((table[0, 0], 1), (1.0, 1 - 1 / N)):
        table[0, 0] = first
        found = private_score(NeedsTwo(), table, (table[:, 0] > 0.5) * 1, 1e6, **given)
        assert found.values["accuracy"] == pytest.approx(wanted, abs=0.1 / N)


# -- Dask -----------------------------------------------------------------------------
def failing(rows):
    """Return a Dask array whose graph raises an error that quotes a cell."""

    def fail(block):
        raise KeyError(SECRET)

    return rows.map_blocks(fail, dtype=float, meta=np.zeros((0, 0)))


WITHHELD = "^a partition .* withheld .*see it.$", RuntimeError


@pytest.mark.extra("dask")
def test_errors_of_a_graph_are_withheld():
    import dask.array as array

    rows, labels = (array.from_array(one, chunks=50) for one in (X, Y))
    ledger = PrivacyLedger()
    model, fitted = clone(SOON).set_params(ledger=ledger), clone(SOON).fit(X, Y)
    given = {"epsilon": 1.0, "model_is_public": True, "ledger": ledger}
    for use in (model.fit, model.plan, partial(private_score, fitted, **given)):
        with withheld(*WITHHELD):
            use(failing(rows), labels)
    assert not len(ledger.entries)


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

    with withheld(*WITHHELD):
        cluster.Partitions([(X, Y)], Client())


@pytest.mark.extra("dask")
@pytest.mark.filterwarnings("ignore::skfdp.PrivacyWarning")
@pytest.mark.parametrize("rows_of_persons", [False, True])
def test_a_collection_is_scored_as_a_table_in_memory(rows_of_persons):
    import dask.dataframe as dd

    table, labels = pd.DataFrame(X, columns=list("abc")), pd.Series(Y, name="y")
    persons = pd.Series(np.arange(N) // 2)

    def parts(one):
        return dd.from_pandas(one, npartitions=3)

    model = clone(SOON).fit(table, labels)
    given = {"random_state": 0, "model_is_public": True}
    tables = [table, labels] + [persons] * rows_of_persons
    alone, apart = (
        private_score(model, X_, y, 1.0, groups=groups[0] if groups else None, **given)
        for X_, y, *groups in (tables, list(map(parts, tables)))
    )
    np.testing.assert_equal(apart.values, alone.values)
    assert apart.intervals == alone.intervals
    key = "collection_deterministic"
    assumed = [a for a in apart.privacy_.assumptions if a.key == key]
    assert len(assumed) == 1 and not assumed[0].enforced
    rest = [a for a in apart.privacy_.assumptions if a not in assumed]
    assert rest == list(alone.privacy_.assumptions)


# -- encoders -------------------------------------------------------------------------
@pytest.mark.parametrize("verb", ["fit", "transform"])
def test_an_encoder_refuses_a_table_that_is_not_in_memory(tmp_path, verb):
    codes = 2**53 + 2 * np.arange(2)
    encoder = DeclaredEncoder(TableSchema({"a": Category(codes.tolist())}))
    encoder.fit(pd.DataFrame({"a": codes}))
    np.save(tmp_path / "X.npy", codes[:, None])
    parquet.write_table(pa.table({"a": codes}), tmp_path / "X.parquet")
    files = dataset.dataset(tmp_path / "X.parquet")
    for given, remedy in (
        (open_table(tmp_path / "X.npy"), "X is read in blocks: pass"),
        (open_table(tmp_path / "X.parquet"), "X is read in blocks: pass"),
        (files, r"pass X.to_table\(\)"),
    ):
        with pytest.raises(TypeError, match=remedy):
            getattr(encoder, verb)(given)
    found = encoder.fit_transform(files.to_table())
    np.testing.assert_array_equal(found[:, :2], np.eye(2))


def test_a_schema_refuses_a_damaged_file_in_one_sentence(tmp_path):
    """Its footer is whole, and its pages are not."""
    parquet.write_table(pa.table({"a": X[:, 0]}), tmp_path / "X.parquet")
    content = (tmp_path / "X.parquet").read_bytes()
    (tmp_path / "X.parquet").write_bytes(content[:4] + GARBAGE + content[404:])
    schema = TableSchema({"a": Number(0, 1)})
    with withheld(r"^cannot read .*X.parquet'.* damaged", SchemaError):
        schema.read(tmp_path / "X.parquet")
