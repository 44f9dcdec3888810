"""Types of columns and targets: codes, text among numbers, durations, names, groups."""

import datetime
import decimal
import pathlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from problems import FITS
from sklearn.base import clone

import skfdp
from skfdp.data.cells import read_as
from skfdp.schema import Category, Date, Ignore, Label, Number, SchemaError

N = 300
DAYS = np.random.default_rng(0).integers(1, 40, N)
Y = (DAYS > 20).astype(int)
TABLE = pd.DataFrame({"stay": DAYS, "b": DAYS})
WIDE = {"epsilon": 8.0, "bounds": (0, 40), "random_state": 0}
MODELS = {type(m).__name__: clone(m).set_params(**WIDE) for m in FITS.values()}
MODEL, REGRESSOR = MODELS["FeatureDPLogisticRegression"], MODELS["FeatureDPRegressor"]
REGRESSORS = ["FeatureDPRegressor", "DPSGDFRegressor"]
for name in REGRESSORS:
    MODELS[name].set_params(target_bounds=(0, 40))
BIG = [900000000000207008, 900000000000307009]
TEXTS = list(map(str, BIG))
ONE_FLOAT = [TEXTS[0], "900000000000206976"]
TENTHS = [0.1, 0.5]


def schema_of(group=None, **columns):
    """Return a schema of some columns and of the outcome "y"."""
    columns["y"] = Label([0, 1])
    return skfdp.TableSchema(columns, outcomes=["y"], group=group)


def places(categories, values, frame=pd.DataFrame, **more):
    """Return the position of the category of each cell of a column."""
    encoder = skfdp.DeclaredEncoder(
        skfdp.TableSchema({"code": Category(categories)}), **more
    )
    rows = encoder.fit_transform(frame({"code": values}))
    rows = rows.toarray() if more.get("sparse_output") else np.asarray(rows)
    named = [f"code__{one}" for one in categories]
    assert list(encoder.get_feature_names_out()[: len(named)]) == named
    return rows.argmax(axis=1).tolist()


def check_same(model, table, plain, y=Y, y_plain=None):
    """Check that two tables make one model, and get the same predictions."""
    y_plain = y if y_plain is None else y_plain
    one, other = clone(model).fit(table, y), clone(model).fit(plain, y_plain)
    for released in one._released:
        np.testing.assert_equal(getattr(one, released), getattr(other, released))
    method = "predict" if hasattr(one, "predict") else "transform"
    found, wanted = getattr(one, method)(table), getattr(other, method)(plain)
    np.testing.assert_array_equal(found, wanted)


# -- F06: codes -----------------------------------------------------------------------
F06 = {
    "beyond 2**53": (TEXTS, [*TEXTS, "900000000000107010"], [0, 1, 2]),
    "beyond 2**53, int cells": (TEXTS, [*BIG, 9 * 10**17], [0, 1, 2]),
    "declared ints": (BIG, [*TEXTS, BIG[1]], [0, 1, 1]),
    "exponents": (["1E50", "1E51"], ["1E50", "1E51", "1E50.0", 1e50], [0, 1, 2, 2]),
    "versions": (["1.10", "1.1", "1.20"], ["1.10", "1.1", "1.20", 1.1], [0, 1, 2, 1]),
    "leading zeros": (["01067", "1067"], ["01067", "1067", 1067, 1067.0], [0, 1, 1, 1]),
    "one with a zero": (["01067", "80331"], ["01067", "1067", 1067], [0, 2, 2]),
    "words": (["NA", "inf", "nan"], ["NA", "inf", "nan", "None"], [0, 1, 2, 4]),
    "other, missing": (["a"], ["missing", "other", "z", None], [2, 1, 1, 2]),
    "hex": (["0x10", "16", "1_000"], ["0x10", "16", "1_000", 16], [0, 1, 2, 1]),
    "numbers": ([1, 2.5], ["01", 1.0, True, "2.50", 3], [0, 0, 0, 1, 2]),
    "NFC": (["Zürich"], ["Zu\u0308rich", "Zürich".encode(), " Zürich "], [0, 0, 0]),
    "one float": (ONE_FLOAT, ONE_FLOAT, [0, 1]),
    "a float beyond 2**53": (ONE_FLOAT, [float(BIG[0])], [2]),
    "missing beside floats": (["7", "8"], [7, 8, None, 7.0], [0, 1, 3, 0]),
}


@pytest.mark.parametrize("case", F06)
@pytest.mark.parametrize("more", [{}, {"sparse_output": True}], ids=["dense", "sparse"])
def test_f06_codes_that_are_declared_as_text_are_compared_as_text(case, more):
    categories, values, wanted = F06[case]
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    assert places(categories, cells, **more) == wanted


CODES = [
    pd.Series(pd.Categorical([*BIG, None])),
    pd.Series([*BIG, None], dtype="int64[pyarrow]"),
    pl.Series([*BIG, None], dtype=pl.UInt64),
    pa.array([*BIG, None]).dictionary_encode(),
    pa.array([*BIG, None]),
    np.array([decimal.Decimal(BIG[0]), np.int64(BIG[1]), None]),
]
SHORT = [np.array(TENTHS, dtype=kind) for kind in (np.float16, np.float32)]
SHORT += [pd.Series(TENTHS, dtype=kind) for kind in ("float32", "Float32")]
SHORT += [pd.Series(TENTHS, dtype="float[pyarrow]"), pa.array(TENTHS, pa.float32())]
SHORT += [pl.Series(TENTHS, dtype=pl.Float32)]
ONE = [datetime.time(1), None]
ONES = [ONE, pl.Series(ONE), pa.array(ONE, pa.time32("s"))]
TYPED = [(BIG, column, [0, 1, 3]) for column in CODES]
TYPED += [(TENTHS, column, [0, 1]) for column in SHORT]
TYPED += [(["01:00:00"], column, [0, 2]) for column in ONES]


@pytest.mark.parametrize(("levels", "column", "wanted"), TYPED)
def test_f06_cells_of_every_type_match_numbers_and_their_text(levels, column, wanted):
    """A missing value takes no digit from others, and float32 has digits of its own."""
    for declared in (levels, list(map(str, levels))):
        block = Category(declared).blocks("code", 0)[0]
        assert block.entries(column)[0][:, 0].tolist() == wanted


def test_a1_codes_that_are_one_float_are_texts_alone():
    """Numbers match none of them, in whatever type, and a column of numbers warns."""
    assert float(ONE_FLOAT[0]) == float(ONE_FLOAT[1])
    for number in (BIG[0], float(BIG[0]), complex(BIG[0]), decimal.Decimal(BIG[0])):
        assert places(ONE_FLOAT, np.array([number], dtype=object)) == [2]
    encoder = skfdp.DeclaredEncoder(skfdp.TableSchema({"code": Category(ONE_FLOAT)}))
    with pytest.raises(SchemaError, match=f"integers: '{BIG[0]}' is text, and a"):
        encoder.fit_transform(pd.DataFrame({"code": BIG}))
    with pytest.raises(SchemaError, match="which are the same category: keep one"):
        skfdp.TableSchema({"code": Category(list(map(int, ONE_FLOAT)))})


def test_f06_two_categories_that_are_one_are_refused():
    for pair in ([1, "01"], [1, 1.0], ["é", "e\u0301"], [True, 1]):
        with pytest.raises(ValueError, match="which are the same category: keep one"):
            places(pair, ["x"])


ODD = "x\udce9"  # Latin-1 that was read as UTF-8, with surrogates
PLACES = np.where(np.arange(N) == 7, 2, np.arange(N) % 2)
CELLS = np.array(["a", "b", ODD], dtype=object)[PLACES]
LEVELS = pd.CategoricalDtype(pd.Index(["a", "b", ODD], dtype=object))


def test_a_text_that_is_not_utf_8_is_an_undeclared_category():
    schema = schema_of(c=Category(["a", "b"]))
    for column in (
        pd.Series(CELLS, dtype=object),
        pd.Series(CELLS, dtype=pd.StringDtype("python")),
        pd.Series(pd.Categorical.from_codes(PLACES, dtype=LEVELS)),
    ):
        table = pd.DataFrame({"c": column})
        rows = schema.encoder().fit(table).transform(table)
        np.testing.assert_array_equal(rows[7:9], np.eye(4)[[2, 0]])
        skfdp.FeatureDPLogisticRegression(schema=schema).fit(table.assign(y=Y), Y)


# -- text among numbers ---------------------------------------------------------------
def loose(kind):
    """Return a table of numbers in which some private cells are text."""
    cells = TABLE.to_numpy().astype(object)
    cells[0, 0], cells[1, 0], cells[2, 1] = "n/a", " 7 ", "12"
    if kind in ("array", "list"):
        return cells if kind == "array" else cells.tolist()
    texts = pd.DataFrame(cells, columns=["stay", "b"])
    if kind == "frame":
        return texts
    texts = {name: list(map(str, texts[name])) for name in texts}
    return pl.DataFrame(texts) if kind == "polars" else pa.table(texts)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "frame") for name in MODELS),
        *((name, "array") for name in MODELS),
        *((name, "list") for name in REGRESSORS),
        *(("FeatureDPLogisticRegression", kind) for kind in ("polars", "pyarrow")),
    ],
)
def test_text_in_a_column_declared_as_a_number_is_missing(name, kind):
    plain = TABLE.astype(float)
    plain.iloc[0, 0], plain.iloc[1, 0], plain.iloc[2, 1] = np.nan, 7, 12
    plain = plain.to_numpy() if kind in ("array", "list") else plain
    typed = dict.fromkeys(TABLE, (0, 40)) if kind[:2] in ("po", "py") else (0, 40)
    check_same(clone(MODELS[name]).set_params(bounds=typed), loose(kind), plain)


# -- F08: durations, times, periods, dates --------------------------------------------
OBJECTS = [datetime.timedelta(int(day)) for day in DAYS]
SECONDS = pa.array(DAYS * 86400, pa.duration("s"))
FRAMES = {
    "timedelta64": pd.DataFrame({"stay": pd.to_timedelta(DAYS, unit="D"), "b": DAYS}),
    "objects": pd.DataFrame({"stay": np.array(OBJECTS, dtype=object), "b": DAYS}),
    "polars": pl.DataFrame({"stay": OBJECTS, "b": DAYS}),
    "pyarrow": pa.table({"stay": SECONDS, "b": pa.array(DAYS)}),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("public", [False, True])
def test_f08_durations_are_days_in_a_schema(kind, public):
    stay, b = Number(0, 40, public, basis="linear"), Number(0, 40, basis="linear")
    schema = schema_of(stay=stay, b=b)
    rows = np.asarray(skfdp.DeclaredEncoder(schema).fit_transform(FRAMES[kind]))
    np.testing.assert_allclose(rows[:, 0], DAYS / 40)
    model = skfdp.FeatureDPLogisticRegression(8.0, schema=schema, random_state=0)
    check_same(model, FRAMES[kind], TABLE.astype(float))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "timedelta64") for name in MODELS),
        *(("FeatureDPLogisticRegression", kind) for kind in [*FRAMES][1:]),
        *(("DPSGDFRegressor", kind) for kind in [*FRAMES][1:]),
    ],
)
def test_f08_durations_are_days_without_a_schema(name, kind):
    check_same(MODELS[name], FRAMES[kind], TABLE.astype(float))


PERIODS = pd.Series(pd.period_range("2020-01", periods=3, freq="M"))
FAR = [pd.Period("2020-01", "M"), pd.Period(ordinal=10**15, freq="D"), None]
TIMES = [datetime.time(6, 30), None, datetime.time(23)]
HOURS, MONTHS = [6.5, np.nan, 23], [18262, 18293, 18322]


@pytest.mark.parametrize(
    ("column", "kind", "wanted"),
    [
        (pd.Series(TIMES, dtype=object), "number", HOURS),
        (pl.Series(TIMES), "number", HOURS),
        (pa.chunked_array([pa.array(TIMES, pa.time64("ns"))]), "number", HOURS),
        (pa.chunked_array([pa.array(TIMES, pa.time32("s"))]), "number", HOURS),
        (PERIODS, "date", MONTHS),
        (np.array(FAR, dtype=object), "date", [18262, np.nan, np.nan]),
    ],
    ids=["objects", "polars", "time64", "time32", "periods", "a far period"],
)
def test_f08_times_are_hours_and_periods_begin_with_their_first_day(
    column, kind, wanted
):
    np.testing.assert_array_equal(read_as(kind, column), wanted)


YEAR = Date("2020-01-01", "2021-01-01")


def test_f08_dates_are_refused_without_a_schema():
    with pytest.raises(ValueError, match="X is an array of dates"):
        clone(MODEL).fit(DAYS[:, None].astype("M8[D]"), Y)
    with pytest.raises(ValueError, match=r"dates in column\(s\) 'born'"):
        skfdp.private_bounds(pd.DataFrame({"born": pd.to_datetime(DAYS, unit="D")}))


UNREAD = [
    (PERIODS, Number(0, 1), "as numbers, but its stored type holds periods"),
    (pd.Series([1.5, 2.5]), YEAR, "as dates, but its stored type holds numbers"),
    (pd.to_timedelta([1, 2, 3], unit="D"), YEAR, "stored type holds durations"),
    (pd.interval_range(0, 3), Number(0, 1), "neither numbers nor dates"),
    (pd.Series([1j, 2j, 3j]), Number(0, 1), "holds complex numbers"),
    (pd.Series([True, False]), YEAR, "stored type holds booleans"),
    (pd.to_timedelta([1], unit="D"), Category(["1 days"]), "holds durations"),
]


@pytest.mark.parametrize(("column", "declared", "match"), UNREAD)
def test_f08_a_type_without_a_readable_value_warns_by_name(column, declared, match):
    encoder, table = (
        skfdp.DeclaredEncoder(skfdp.TableSchema({"c": declared})),
        {"c": column},
    )
    for call in (encoder.fit_transform, encoder.transform):  # new rows, too
        with pytest.warns(
            skfdp.UtilityWarning, match=f"column 'c' is declared .*{match}"
        ):
            call(pd.DataFrame(table))


# -- F08: targets ---------------------------------------------------------------------
ROWS = DAYS[:, None].astype(float)

DURATIONS = {
    "array": DAYS.astype("m8[D]").astype("m8[ns]"),
    "pandas": pd.Series(pd.to_timedelta(DAYS, unit="D")),
    "frame": pd.DataFrame({"stay": pd.to_timedelta(DAYS, unit="D")}),
    "objects": OBJECTS,
    "polars": pl.Series(OBJECTS),
    "pyarrow": SECONDS,
    "text of polars": pl.Series(list(map(str, DAYS))),
}


@pytest.mark.parametrize("kind", DURATIONS)
@pytest.mark.parametrize(
    ("name", "more"),
    [(name, {}) for name in REGRESSORS] + [(REGRESSORS[0], {"public_target": True})],
)
@pytest.mark.filterwarnings("ignore")
def test_f08_a_target_of_durations_is_days(kind, name, more):
    model = clone(MODELS[name]).set_params(**more)
    plain = pd.DataFrame({"stay": DAYS}) if kind == "frame" else DAYS
    check_same(model, ROWS, ROWS, DURATIONS[kind], plain)
    model.fit(ROWS, plain)
    assert model.score(ROWS, DURATIONS[kind]) == model.score(ROWS, DAYS)


@pytest.mark.parametrize("public", [False, True])
def test_f08_a_target_of_a_type_without_numbers_is_refused(public):
    model = clone(REGRESSOR).set_params(public_target=public)
    for target, holds in (
        (pd.Series(pd.period_range("2020", periods=N, freq="M")), "periods"),
        (pd.Series(pd.interval_range(0, N)), "not single numbers"),
        (pd.Series(pd.to_datetime(DAYS, unit="D")), "dates"),
        (pl.Series([datetime.date(2020, 1, 1)] * N), "dates"),
    ):
        with pytest.raises(ValueError, match=f"y holds values that are not .*{holds}"):
            model.fit(ROWS, target)


def test_text_in_a_target_is_left_out_of_scores():
    model = clone(REGRESSOR).fit(ROWS, DAYS)
    target = DAYS.astype(object)
    target[0], target[1] = "unknown", str(DAYS[1])
    with pytest.warns(skfdp.UtilityWarning, match=f"1 of {N} rows have no number"):
        found = model.score(ROWS, target)
    assert found == model.score(ROWS[1:], DAYS[1:])
    with pytest.raises(ValueError, match="y has no number"):
        model.score(ROWS, ["unknown"] * N)
    score = skfdp.private_score(model, ROWS, DURATIONS["pandas"], 50.0, target="stay")
    assert score.values["mean_absolute_error"] < 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_attack_10_masked_cells_and_targets_are_missing(name):
    cells, mask = TABLE.to_numpy(float), np.zeros((N, 2), bool)
    mask[::7, 1] = True
    masked, plain = np.ma.MaskedArray(cells, mask), np.where(mask, np.nan, cells)
    check_same(MODELS[name], masked, plain)
    masked = np.ma.MaskedArray(Y, mask[:, 1])
    if name != "PrivateCenteringTransformer":
        check_same(MODELS[name], cells, cells, masked, np.where(mask[:, 1], np.nan, Y))


# -- columns and paths that are no numbers --------------------------------------------
LETTERS = pd.Series(["a", "b"] * (N // 2))
NO_NUMBERS = [
    ("text", LETTERS),
    ("text", LETTERS.astype("category")),
    ("dates", pd.date_range("2020-01-01", periods=N)),
    ("periods", pd.period_range("2020-01", periods=N, freq="M")),
    ("not single numbers", pd.interval_range(0, N)),
    ("not single numbers", pd.cut(DAYS, 4)),
    ("dates", pd.Categorical(pd.to_datetime(DAYS, unit="D"))),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("kind", "column"), NO_NUMBERS)
def test_newcomer_a6_columns_that_are_no_numbers_are_named(name, kind, column):
    table = pd.DataFrame({"c": pd.Series(column), "b": DAYS})
    more = r".*TableSchema\(\{'c': Category" if column is LETTERS else ""
    with pytest.raises(ValueError, match=rf"{kind} in column\(s\) 'c'{more}"):
        clone(MODELS[name]).set_params(bounds=(0, 40)).fit(table, Y)


STAY = skfdp.FeatureDPLogisticRegression(8.0, schema=schema_of(stay=Number(0, 40)))


@pytest.mark.parametrize("path", ["table.csv", pathlib.Path("table.csv")])
def test_newcomer_a6_a_path_is_no_table_anywhere(path):
    encoder = skfdp.DeclaredEncoder(skfdp.TableSchema({"stay": Number(0, 40)}))
    table = pd.DataFrame({"stay": DAYS})
    fitted, stay = clone(MODEL).fit(table, Y), clone(STAY).fit(table, Y)
    for call in (
        lambda: encoder.fit(path),
        lambda: clone(STAY).fit(path, Y),
        lambda: stay.predict(path),
        lambda: clone(fitted).fit(path, Y, groups="person"),
        lambda: fitted.predict(path),
        lambda: skfdp.private_score(fitted, path, Y, 1.0),
        lambda: skfdp.private_bounds(path),
        *(lambda model=model: clone(model).fit(path, Y) for model in MODELS.values()),
    ):
        with pytest.raises(TypeError, match="X is a path: pass a table"):
            call()


# -- F21, A4: names of columns --------------------------------------------------------
TWICE = pd.DataFrame(DAYS[:, None] / [40, 50, 60], columns=["a", "a", "b"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_f21_two_columns_of_one_name(name):
    model = clone(MODELS[name]).set_params(bounds=(0, 1))
    with pytest.raises(ValueError, match="X has two columns 'a': rename one"):
        model.fit(TWICE, Y)
    model.fit(TWICE.set_axis(["a", "c", "b"], axis=1), Y)
    with pytest.raises(ValueError, match="X has two columns 'a': rename one"):
        getattr(model, "predict" if hasattr(model, "predict") else "transform")(TWICE)


def test_f21_two_columns_of_one_name_are_refused_everywhere():
    encoder = skfdp.DeclaredEncoder(
        skfdp.TableSchema({"a": Number(0, 1), "b": Number(0, 1)})
    )
    model = clone(MODEL).fit(TABLE, Y)
    for call in (
        lambda: encoder.fit(TWICE),
        lambda: encoder.fit_transform(TWICE),
        lambda: encoder.fit(TWICE.iloc[:, 1:]).transform(TWICE),
        lambda: skfdp.private_bounds(TWICE),
        lambda: skfdp.private_score(model, TWICE, Y, 1.0, target="y"),
        lambda: clone(MODEL).fit(TWICE, Y, groups="a"),
    ):
        with pytest.raises(ValueError, match="X has two columns 'a': rename one"):
            call()


def test_newcomer_a4_a_declared_column_of_persons_says_what_to_do():
    table = pd.DataFrame({"person": np.arange(N), "stay": DAYS})
    schema = schema_of(stay=Number(0, 40), person=Number(0, N))
    match = "groups='person' names a feature of the schema: leave this column out"
    with pytest.raises(ValueError, match=match):
        clone(STAY).set_params(schema=schema).fit(table, Y, groups="person")


@pytest.mark.parametrize("note", [{"note": Ignore()}, {}, {"note": Category(["x"])}])
def test_newcomer_a4_groups_may_be_a_column_beside_the_schema(note):
    table = pd.DataFrame({"person": np.arange(N) // 2, "stay": DAYS, "note": "x"})
    model = skfdp.FeatureDPLogisticRegression(
        8.0, schema=schema_of(stay=Number(0, 40), **note)
    )
    for given in (table, pa.Table.from_pandas(table)):
        assert model.fit(given, Y, groups="person").privacy_.unit == "person"
        assert model.score(given, Y) > 0.9
    assert model.score(table.drop(columns="person"), Y)
    assert model.fit(table, Y).privacy_.unit == "record"
    model.set_params(schema=schema_of("person", stay=Number(0, 40), **note))
    assert model.fit(table, Y).privacy_.unit == "person"
