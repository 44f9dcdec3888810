"""A1, A3, A5, A10, g04, g09: cells, labels and dates are read by their declarations."""

import datetime
import decimal
import io
import warnings

import numpy as np
import pandas as pd
import pytest

from skfdp import (
    DeclaredEncoder,
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    TableSchema,
    UtilityWarning,
    private_score,
)
from skfdp.data.cells import read_as, type_kind
from skfdp.data.grid import GridRows
from skfdp.data.target import as_number, encode_any, real, spelling_of
from skfdp.privacy.events import ASSUMED
from skfdp.schema import Boolean, Category, Date, Label, Number, SchemaError
from skfdp.solvers import NoisyGradientDescent

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

A, B = 999000011000000103, 999000041000000102
N = 40
STEPS = NoisyGradientDescent(max_iter=2)


def places(levels, cells):
    block = Category(levels).blocks("c", 0)[0]
    return block.entries(cells)[0][:, 0].tolist()


# -- A1: codes beyond 2**53 ------------------------------------------------------------
#: The types that an odd cell, or a library, gives to the codes A and B.
FORMS = {
    "int64": np.array([A, B]),
    "float64": np.array([A, B, np.nan])[:2],
    "objects": np.array([A, B, None])[:2],
    "text": np.array([str(A), str(B), "x"])[:2],
    "nullable": pd.Series([A, B, None], dtype="Int64")[:2],
}


@pytest.mark.parametrize("form", FORMS)
def test_a1_labels_and_scores_know_the_code_in_every_type(form):
    y = pd.Series(FORMS[form]).repeat(N // 2)
    X = np.linspace(0, 1, N)[:, None]
    model = DPSGDFClassifier(99.0, bounds=(0, 1), classes=[A, B], solver=STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        assert model.score(X, y) >= 0.5
        found = private_score(model, X, y, 100.0, 1e-5, random_state=0)
    assert found.values["accuracy"] > 0.3


@pytest.mark.parametrize(
    "levels", [[A, A + 1], [2**53, 2**53 + 1], [A, float(A)], [1, 1.0, 2]], ids=str
)
def test_a1_numbers_that_are_one_float_are_refused_when_declared(levels):
    with pytest.raises(SchemaError, match="which are the same category: keep one"):
        TableSchema({"code": Category(levels)})
    with pytest.raises(ValueError, match="same label: keep one|all of one type"):
        encode_any(np.array([A]), levels)


# -- newcomer 1: stored types that cannot hold the declared categories -----------------
WRONG = {
    "zeros": (Category(["007", "012"]), [7, 12]),
    "one with zeros": (Category(["7", "012"]), [7, 12]),
    "zeros in floats": (Category(["1.10", "2.20"]), [1.1, 2.2]),
    "text": (Category(["a", "b"]), [1, 2]),
    "fractions": (Category([0.5, 1.5]), [1, 2]),
    "words": (Boolean(true=["ja"], false=["nein"]), [1, 0]),
    "words for booleans": (Category(["ja", "nein"]), [True, False]),
    "one float": (Category([str(A), str(A + 1)]), [A, A + 1]),
}


def schema_of(column):
    return TableSchema({"c": column, "y": Label([0, 1])}, outcomes=["y"])


@pytest.mark.parametrize("case", WRONG)
def test_newcomer_1_a_type_that_holds_no_category_is_refused_before_a_charge(case):
    declared, cells = WRONG[case]
    table = pd.DataFrame({"c": np.resize(cells, N), "y": np.arange(N) % 2})
    schema, ledger = schema_of(declared), PrivacyLedger()
    told = "column 'c' is declared as .*, but its stored type holds .*: .*; read the co"
    for kind, given in (("pandas", table), ("polars", pl.DataFrame(table))):
        model = FeatureDPLogisticRegression(schema=schema, ledger=ledger)
        with pytest.raises(SchemaError, match=told):
            model.fit(given, table["y"])
        assert not ledger.entries, kind
    # By declaration: what a schema reads is never refused.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = schema.read(table)
    assert any("stored type holds" in sentence for sentence in schema.check(table))
    assert FeatureDPLogisticRegression(schema=schema)._plan(read, read["y"])


def test_newcomer_1_types_that_hold_the_categories_are_taken():
    for declared, cells in (
        (Category(["7", "12", "none"]), [7, 12]),
        (Category(["true", "false"]), [True, False]),
        (Boolean(), [1, 0]),
    ):
        assert not TableSchema({"c": declared}).check(pd.DataFrame({"c": cells}))


@pytest.mark.parametrize("labels", [["007", "012"], ["a", "b"]])
def test_newcomer_1_labels_are_refused_alike(labels):
    y, X = np.arange(N) % 2 + 7, np.linspace(0, 1, N)[:, None]
    with pytest.raises(ValueError, match="`classes` differ in type"):
        DPSGDFClassifier(bounds=(0, 1), classes=labels).fit(X, y)
    ledger, days = PrivacyLedger(), pd.Series(y.astype("M8[s]"))
    own = {"classes": [7, 8], "bounds": (0, 1), "ledger": ledger}
    odd = y.astype("m8[D]"), days.dt.tz_localize("UTC"), days.dt.to_period("D")
    for one in (days.to_frame(), *odd, np.zeros(N, "V4"), pd.cut(y, 2)):
        with pytest.raises(ValueError, match="y holds .*s, and `classes`"):
            DPSGDFClassifier(**own).fit(X, one)
    assert not ledger.events
    schema = TableSchema({"c": Number(0, 1), "y": Label(labels)}, outcomes=["y"])
    table = pd.DataFrame({"c": X[:, 0]})
    with pytest.raises(SchemaError, match="y, the column 'y' .* holds integers"):
        FeatureDPLogisticRegression(schema=schema).fit(table, y)


def test_newcomer_1_files_are_read_by_declaration(tmp_path, command):
    """Also through the command line, whose report then assumes nothing of types."""
    n = 200
    table = pd.DataFrame({"c": np.arange(n) % 3 + 7, "y": np.arange(n) % 2})
    table.to_parquet(tmp_path / "t.parquet")
    schema = schema_of(Category(["007", "8"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schema.read(tmp_path / "t.parquet")["c"].tolist()[:2] == [7, 8]
    schema.save(tmp_path / "s.toml")
    words = "fit t.parquet --schema s.toml --report r.json --epsilon 1"
    status, *_, err = command(*words.split())
    assert status == 0, err
    assert "stored_types_public" not in (tmp_path / "r.json").read_text()
    model = FeatureDPLogisticRegression(schema=schema)
    model.fit(schema.read(table), table["y"])
    stored_types = ASSUMED["stored_types_public"]
    assert stored_types in model.privacy_.assumptions and not stored_types.enforced


# -- A3: types of other columns and rows -----------------------------------------------
def of_records(records):
    return GridRows.build(records.X, records.public.input_scaler.mapped).values


def integers(model, X, y=None):
    """Return the integers of the rows that a fit reads."""
    return model._on_records(of_records, X, y)


# -- A3b: complex cells ----------------------------------------------------------------
def test_a3b_a_complex_cell_concerns_this_cell_alone():
    cells = [3 + 0j, 1.5, 2j, complex(np.nan, 0), complex(1, np.nan)]
    assert [as_number(cell) for cell in cells[:2]] == [3, 1.5]
    assert np.isnan([as_number(cell) for cell in cells[2:]]).all()
    for column in (np.array(cells), pd.Series(cells), np.array(cells, dtype=object)):
        found = read_as("number", column)
        np.testing.assert_array_equal(found, [3, 1.5, *[np.nan] * 3])
        assert places([3, 1.5], column) == [0, 1, 2, 3, 2]  # other, missing, other


@pytest.mark.parametrize("frame", [False, True])
def test_a3b_complex_columns_need_bounds(frame):
    X = np.array([[1j, 0.5]] + [[0.2, 0.4]] * (N - 1))
    X = pd.DataFrame(X, columns=["a", "b"]) if frame else X
    y, usual = np.arange(N) % 2, np.array([[np.nan, 0.5]] + [[0.2, 0.4]] * (N - 1))
    model = DPSGDFClassifier(classes=[0, 1], bounds=(0, 1), solver=STEPS)
    np.testing.assert_array_equal(integers(model, X, y), integers(model, usual, y))
    with pytest.raises(ValueError, match="(?i)complex"):
        model.set_params(bounds=None).fit(X, y)


# -- errors that one cell would decide -------------------------------------------------
class Opaque:
    def __float__(self):
        raise ValueError("secret")


class Text(str):
    strip = __hash__ = Opaque.__float__


def test_methods_of_a_cell_of_text_are_not_called():
    assert spelling_of(["x"], "c").place(Text("x")) == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "cell", ["x", None, {}, Opaque(), 10**400, decimal.Decimal("sNaN")]
)
@pytest.mark.parametrize("form", [list, np.array])
def test_without_bounds_a_cell_of_objects_stops_no_fit(cell, form):
    rows = [[0.5, 0.25] for _ in range(N)]
    rows[0][1] = cell
    X = rows if form is list else np.array(rows, dtype=object)
    model = DPSGDFClassifier(classes=[0, 1], solver=STEPS)
    found = model._on_records(lambda records: records.is_null, X, np.arange(N) % 2)
    assert np.flatnonzero(found).tolist() == [0]


def test_without_bounds_columns_of_objects_are_refused_by_their_type():
    for cells in ([0.5] * N, ["x"] * N):
        X = pd.DataFrame({"a": cells}, dtype=object)
        with pytest.raises(ValueError, match=r"may be text, in column\(s\) 'a'"):
            DPSGDFClassifier(classes=[0, 1]).fit(X, np.arange(N) % 2)


def test_durations_and_times_beyond_those_of_python():
    far = [2**62, 86_400_000, None]
    for column in (
        pl.Series(far, dtype=pl.Int64).cast(pl.Duration("ms")),
        pa.array(far, pa.duration("ms")),
        pd.Series(far, dtype="Int64").astype("timedelta64[ms]"),
        np.array([2**62, 86_400_000, "NaT"], dtype="m8[ms]"),
    ):
        assert type_kind(column) == "duration"
        np.testing.assert_array_equal(
            read_as("number", column), [2**62 / 86_400_000, 1, np.nan]
        )
    times = pa.array([2**60, -5, 3_600_000_000], pa.int64()).cast(pa.time64("us"))
    np.testing.assert_array_equal(read_as("number", times), [np.nan, np.nan, 1])
    week = [np.timedelta64(1, "W"), pd.Timedelta(7, "D"), datetime.timedelta(7)]
    assert [real(one) for one in week] == [7, 7, 7]


# -- A5, A10: whole numbers beyond int64 -----------------------------------------------
@pytest.mark.parametrize("labels", [[0, 2**63], [-1, 2**63], [0, 2**70], [5, -(2**63)]])
def test_a5_labels_beyond_int64(labels):
    schema = TableSchema({"x": Number(0, 1), "y": Label(labels)}, outcomes=["y"])
    y = [*labels, None, *labels, 7] * 10
    table = pd.DataFrame({"x": 0.5, "y": pd.Series(y, dtype=object)})
    read = schema.read(table)["y"]
    wanted = [one if one in labels else None for one in y]
    assert [None if pd.isna(one) else one for one in read] == wanted
    model = FeatureDPLogisticRegression(8.0, schema=schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, table["y"])
    assert {float(one) for one in model.classes_} == set(map(float, labels))
    assert model.score(table[:2], labels) in (0, 0.5, 1)


def test_a10_polars_numbers_of_128_bits():
    for kind in (pl.Int128, pl.UInt128, pl.Decimal(38, 1)):
        cells = pl.Series("a", [1, 2, None], dtype=pl.Int64).cast(kind)
        np.testing.assert_array_equal(read_as("number", cells), [1, 2, np.nan])
        whole = pl.DataFrame({"a": cells[:2]})
        model = DPSGDFClassifier(bounds={"a": (0, 4)}, classes=[0, 1], solver=STEPS)
        assert integers(model, whole, [0, 1]).tolist() == [[4096], [8192]]
        schema = TableSchema({"a": Number(0, 4, basis="linear")})
        found = DeclaredEncoder(schema).fit_transform(pl.DataFrame({"a": cells}))
        assert found.tolist() == [[0.25, 0], [0.5, 0], [0, 1]]
        y = pl.Series([0, 1] * (N // 2), dtype=pl.Int64).cast(kind)
        model = FeatureDPRegressor(bounds=(0, 1), target_bounds=(0, 1))
        model._on_records(lambda r: r.target, np.ones((N, 1)), y)
        labels = DPSGDFClassifier(bounds=(0, 1), classes=[0, 1])
        found = labels._on_records(lambda r: r.target, np.ones((N, 1)), y)
        assert found.tolist() == [0, 1] * (N // 2)


# -- g04: years of two digits ----------------------------------------------------------
def dates(declared, cells):
    schema = TableSchema({"d": declared})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = schema.read(pd.DataFrame({"d": cells}))["d"]
    return [None if pd.isna(one) else str(one)[:10] for one in found]


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        ("1930-01-01", "2010-12-31", "1940 1968 1969 2000 2020 1921"),
        ("1900-01-01", "1999-12-31", "1940 1968 1969 1900 1920 1921"),
        ("1969-01-01", "2068-12-31", "2040 2068 1969 2000 2020 2021"),
        ("2030-01-01", "2050-12-31", "2040 2068 2069 2000 2020 2021"),
        ("1870-05-05", "1890-01-01", "1840 1868 1869 1900 1920 1921"),
    ],
)
@pytest.mark.parametrize("form", ["%d.%m.%y", "%y%m%d", "%m/%d/%y %H:%M"])
def test_g04_a_year_of_two_digits_is_near_the_bounds(first, last, found, form):
    day = datetime.datetime(2001, 3, 4, 5, 6)
    years = [int(year) for year in found.split()]
    cells = [day.replace(year=year).strftime(form) for year in years]
    read = dates(Date(first, last, format=form), cells)
    assert read == [f"{year}-03-04" for year in years]


def test_g04_a_date_just_outside_is_clipped_to_the_nearer_bound():
    declared = Date("1940-01-01", "2000-01-01", format="%d.%m.%y", basis="linear")
    encoder = DeclaredEncoder(TableSchema({"d": declared}))
    found = encoder.fit_transform(pd.DataFrame({"d": ["31.12.39", "02.01.00"]}))
    assert found[:, 0].tolist() == [0, 1]
    declared = Date("1890-01-01", "1910-01-01", format="%d.%m.%y")
    assert dates(declared, ["28.02.00", "29.02.00"]) == ["1900-02-28", None]


@pytest.mark.parametrize(
    ("first", "last", "form", "words"),
    [
        ("1900-01-01", "2010-12-31", "%d.%m.%y", "not within 100 years"),
        ("1925-01-01", "2025-01-01", "%x", "not within 100 years"),
        ("2000-01-01", "2010-12-31", "%d.%m.", "must be a strptime format"),
        ("2000-01-01", "2010-12-31", "%d.%m.%Q %y", "must be a strptime format"),
        ("2000-01-01", "2010-12-31", "%d.%m.%%y", "must be a strptime format"),
        ("2000-01-01", "2010-12-31", "dd.mm.yyyy", "must be a strptime format"),
    ],
)
def test_g04_ambiguous_declarations_are_refused(first, last, form, words):
    with pytest.raises(SchemaError, match=words):
        TableSchema({"d": Date(first, last, format=form)})
    Date(first, last)


# -- g09: dates of digits --------------------------------------------------------------
DIGITS = {
    "int": [20240701, 20240115],
    "float": np.array([20240701, 20240115, np.nan])[:2],
    "text": ["20240701", "20240115"],
    "text of floats": ["20240701.0", "20240115.0"],
    "objects": [20240701, "20240115"],
    "decimal": [decimal.Decimal(20240701), decimal.Decimal("20240115.0")],
    "complex": np.array([20240701, 20240115, 1j])[:2],
}


@pytest.mark.parametrize("form", [None, "%Y%m%d"])
@pytest.mark.parametrize("stored", DIGITS)
def test_g09_whole_numbers_and_basic_iso_text_are_dates(stored, form):
    declared = Date("2024-01-01", "2024-12-31", format=form)
    assert dates(declared, DIGITS[stored]) == ["2024-07-01", "2024-01-15"]
    for frame in (pl.DataFrame, pa.table):
        if stored in ("int", "text"):
            found = TableSchema({"d": declared}).read(frame({"d": DIGITS[stored]}))
            assert found["d"].notna().all()


def test_g09_leading_zeros_that_a_reader_dropped():
    declared = Date("2020-01-01", "2029-12-31", format="%d%m%Y")
    for first in ("01072024", 1072024, "1072024.0"):
        assert dates(declared, [first, 15012024]) == ["2024-07-01", "2024-01-15"]
    declared = Date("2000-01-01", "2029-12-31", format="%y%m%d")
    found = dates(declared, [90203, "090203", "90203", -1, 1e300, True])
    assert found == ["2009-02-03"] * 3 + [None] * 3
    declared = Date("2000-01-01", "2029-12-31", format="%d.%m.%Y")
    assert dates(declared, [20240701, "01.07.2024"]) == [None, "2024-07-01"]


def test_g09_a_file_reader_may_read_dates_as_it_likes(tmp_path):
    """The text of a CSV file, and what pandas makes of it, are the same dates."""
    text = "seen\n20240701\n20240115\n{}\n"
    declared = Date("2024-01-01", "2024-12-31", format="%Y%m%d", knots=2)
    schema = TableSchema({"seen": declared})
    for last in ("20240301", "x", "2.5", "1j", ""):
        (tmp_path / "t.csv").write_text(text.format(last))
        read = pd.read_csv(io.StringIO(text.format(last)), skip_blank_lines=False)
        for table in (read, schema.read(tmp_path / "t.csv")):
            found = DeclaredEncoder(schema).fit_transform(table)
            assert found[:2, 2].tolist() == [0, 0]  # not missing


def test_g09_types_of_numbers_are_warned_of_with_a_remedy():
    table, fine = pd.DataFrame({"d": [45292, 45293]}), "%Y%m%d"
    schemas = {
        form: TableSchema({"d": Date("2024-01-01", "2024-12-31", format=form)})
        for form in (None, "%d.%m.%Y", fine)
    }
    for form, more in ((None, " if 20240131 is a date"), ("%d.%m.%Y", "")):
        told = f"holds integers: declare format='{fine}'{more}"
        with pytest.warns(UtilityWarning, match=told):
            schemas[form].select(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schemas[fine].select(table)  # private: not a word about values


# -- A3: partitions of Dask ------------------------------------------------------------
def collection(parts, meta=None):
    dd, dask = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask")
    delayed = [dask.delayed(part) for part in parts]
    meta = parts[-1].iloc[:0] if meta is None else meta
    return dd.from_delayed(delayed, meta=meta, verify_meta=False)


@pytest.mark.extra("dask")
@pytest.mark.parametrize("odd", [None, 2.5, "x", 1j, 2**70, np.inf, pd.Timestamp(0)])
@pytest.mark.parametrize("labels", [[0, 1], [A, B]])
def test_a3_types_of_a_partition_change_no_row_and_refuse_nothing(odd, labels):
    """A partition of Parquet files, for example, has the types of its own file."""

    def part(first, label):
        a = pd.Series([first, 0.6, 0.3, np.nan])
        a = a.astype("float32") if a.dtype == float else a
        return pd.DataFrame({"a": a, "y": pd.Series([label, *labels, labels[1]])})

    def rows(records):
        return np.column_stack([of_records(records), records.target])

    def read(first, label):
        table = collection([part(first, label), part(0.1, labels[0])])
        model = DPSGDFClassifier(bounds={"a": (0, 0.7)}, classes=labels, solver=STEPS)
        return model._on_records(
            lambda whole: np.concatenate(whole.partitions.ask(whole.name, rows)),
            table[["a"]],
            table["y"],
        )

    usual = read(0.1, labels[0])
    for found in (read(odd, labels[0]), read(0.1, odd), read(odd, odd)):
        np.testing.assert_array_equal(found[1:], usual[1:])
    assert usual[[3, 7], 0].tolist() == [8192, 8192]


@pytest.mark.extra("dask")
def test_types_of_a_collection_are_refused_as_those_of_a_table():
    part = pd.DataFrame({"a": [0.1, 0.2], "y": [7, 8], "c": [7, 8]})
    table, codes = collection([part, part]), ["007", "8"]
    columns = {"a": Number(0, 1), "y": Label(codes)}
    of_labels = TableSchema(columns, outcomes=["y"])
    bounds, raw = {"bounds": {"a": (0, 1)}}, FeatureDPLogisticRegression
    holds = "but its stored type holds int"
    for model, match in (
        *(
            (DPSGDFClassifier(classes=classes, **bounds), "`classes` differ in type")
            for classes in (["a", "b"], codes, [False, True])
        ),
        (FeatureDPRegressor(target_bounds=(0, 9), **bounds), "y holds values that are"),
        (raw(schema=of_labels), f"y, the column 'y' is declared as labels, {holds}"),
        (raw(schema=schema_of(Category(codes))), f"'c' is declared as cat.*, {holds}"),
    ):
        times = isinstance(model, FeatureDPRegressor)
        y = table["y"].astype("datetime64[s]") if times else table["y"]
        with pytest.raises(ValueError, match=match):
            model.fit(table[["a", "c"] if model.get_params()["schema"] else ["a"]], y)


def test_a1_an_exported_model_knows_the_code_in_every_type():
    column = np.array([A, B] * (N // 2))
    table = pd.DataFrame({"c": column, "d": ["1", "2"] * (N // 2)})
    schema = TableSchema(
        {"c": Category([A, B]), "d": Category(["1", "2"]), "y": Label([0, 1])},
        outcomes=["y"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FeatureDPLogisticRegression(8.0, schema=schema)
        model.fit(table, np.arange(N) % 2)
    exported, wanted = model.to_sklearn(), model.predict_proba(table)
    for kind in (float, object, str):
        found = table.assign(
            c=column.astype(kind), d=(np.arange(N) % 2 + 1).astype(kind)
        )
        np.testing.assert_allclose(exported.predict_proba(found), wanted)
        np.testing.assert_allclose(model.predict_proba(found), wanted)
