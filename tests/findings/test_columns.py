"""Columns: codes as text, text in numbers, durations, repeated names, groups."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from skfdp import (
    DeclaredEncoder,
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    TableSchema,
    UtilityWarning,
    private_bounds,
)
from skfdp.schema import Category, Date, Ignore, Label, Number
from skfdp.solvers import NoisySGD

RNG = np.random.default_rng(0)
N = 300
DAYS = RNG.integers(1, 40, N)
Y = (DAYS > 20).astype(int)
CLASSES = {"classes": [0, 1]}
MODELS = {
    "FeatureDPLogisticRegression": FeatureDPLogisticRegression(8.0, **CLASSES),
    "DPSGDFClassifier": DPSGDFClassifier(8.0, **CLASSES),
    "FeatureDPRegressor": FeatureDPRegressor(8.0, target_bounds=(0, 1)),
    "DPSGDFRegressor": DPSGDFRegressor(8.0, target_bounds=(0, 1)),
    "FeatureDPMLPClassifier": FeatureDPMLPClassifier(
        8.0, hidden_layer_sizes=(2,), solver=NoisySGD(max_iter=2), **CLASSES
    ),
    "PrivateCenteringTransformer": PrivateCenteringTransformer(8.0),
}


def schema_of(group=None, **columns):
    """Return a schema of some columns and of the outcome "y"."""
    columns["y"] = Label([0, 1])
    return TableSchema(columns, outcomes=["y"], group=group)


def places(categories, values, frame=pd.DataFrame, **more):
    """Return the position of the category of each value, and the names."""
    encoder = DeclaredEncoder(TableSchema({"code": Category(categories)}), **more)
    rows = encoder.fit_transform(frame({"code": values}))
    rows = rows.toarray() if more.get("sparse_output") else np.asarray(rows)
    return rows.argmax(axis=1).tolist(), list(encoder.get_feature_names_out())


# -- F06 ------------------------------------------------------------------------------
BIG = ["900000000000207008", "900000000000207009"]  # one float
FAR = ["900000000000207008", "900000000000307009"]  # two floats
F06 = {
    "beyond 2**53": (BIG, [*BIG, "900000000000207010"], [0, 1, 2]),
    "beyond 2**53, int cells": (FAR, [int(FAR[0]), float(FAR[1]), 9e17], [0, 1, 2]),
    "declared ints": ([int(b) for b in FAR], [*FAR, int(FAR[1])], [0, 1, 1]),
    "exponents": (["1E50", "1E51"], ["1E50", "1E51", "1E50.0", 1e50], [0, 1, 2, 2]),
    "versions": (["1.10", "1.1", "1.20"], ["1.10", "1.1", "1.20", 1.1], [0, 1, 2, 1]),
    "leading zeros": (["01067", "1067"], ["01067", "1067", 1067, 1067.0], [0, 1, 1, 1]),
    "one with a zero": (["01067", "80331"], ["01067", "1067", 1067], [0, 2, 2]),
    "words": (["NA", "inf", "nan"], ["NA", "inf", "nan", "None"], [0, 1, 2, 4]),
    "hex": (["0x10", "16", "1_000"], ["0x10", "16", "1_000", 16], [0, 1, 2, 1]),
    "numbers": ([1, 2.5], ["01", 1.0, True, "2.50", 3], [0, 0, 0, 1, 2]),
    "NFC": (["Zürich"], ["Zu\u0308rich", "Zürich".encode(), " Zürich "], [0, 0, 0]),
}


@pytest.mark.parametrize("case", F06)
@pytest.mark.parametrize("more", [{}, {"sparse_output": True}], ids=["dense", "sparse"])
def test_f06_codes_that_are_declared_as_text_are_compared_as_text(case, more):
    categories, values, wanted = F06[case]
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    found, names = places(categories, cells, **more)
    assert found == wanted
    assert names[: len(categories)] == [f"code__{one}" for one in categories]


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_f06_whole_numbers_of_a_typed_column_are_codes(frame):
    values = [int(FAR[0]), int(FAR[1]), int(FAR[1]) + 1000]
    assert places(FAR, values, frame)[0] == [0, 1, 2]
    with_missing = {
        pd.DataFrame: pd.array([*values, None], dtype="Int64"),
        pl.DataFrame: pl.Series([*values, None]),
        pa.table: pa.array([*values, None]),
    }[frame]
    assert places(FAR, with_missing, frame)[0] == [0, 1, 2, 3]


def test_f06_a_missing_value_makes_floats_and_no_other_code():
    assert places(["7", "8"], [7, 8, None, 7.0])[0] == [0, 1, 3, 0]


def test_f06_two_categories_that_are_one_are_refused():
    for pair in ([1, "01"], [1, 1.0], ["é", "e\u0301"], [True, 1]):
        with pytest.raises(ValueError, match="which are the same category: keep one"):
            places(pair, ["x"])


@pytest.mark.parametrize("public", [False, True])
def test_f06_a_fit_takes_codes_as_text(public):
    codes = np.where(Y, "1E50", "1E50.0")
    model = FeatureDPLogisticRegression(
        8.0, schema=schema_of(code=Category(["1E50"], public), b=Category(["x"]))
    ).fit(pd.DataFrame({"code": codes, "b": "x"}), Y)
    assert model.score(pd.DataFrame({"code": codes, "b": "x"}), Y) == 1


# -- text among numbers ---------------------------------------------------------------
def loose(kind):
    """Return a table of numbers in which one private cell is text."""
    cells = np.column_stack([DAYS, DAYS]).astype(object)
    cells[0, 0], cells[1, 0], cells[2, 1] = "n/a", " 7 ", "12"
    if kind == "list":
        return cells.tolist()
    return pd.DataFrame(cells, columns=["stay", "b"]) if kind == "frame" else cells


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["array", "frame", "list"])
@pytest.mark.parametrize("name", MODELS)
def test_text_in_a_column_declared_as_a_number_is_missing(name, kind):
    table = loose(kind)
    model = clone(MODELS[name]).set_params(bounds=(0, 40), random_state=0)
    numbers = np.array([[DAYS[0], DAYS[0]], [7, DAYS[1]]], dtype=float)
    numbers[0, 0] = np.nan
    plain = np.column_stack([DAYS, DAYS]).astype(float)
    plain[:2], plain[2, 1] = numbers, 12
    if kind == "frame":
        plain = pd.DataFrame(plain, columns=["stay", "b"])
    one, other = clone(model).fit(table, Y), clone(model).fit(plain, Y)
    method = "predict" if hasattr(one, "predict") else "transform"
    found = getattr(one, method)(table)
    np.testing.assert_array_equal(found, getattr(other, method)(plain))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["FeatureDPRegressor", "DPSGDFRegressor"])
def test_text_in_a_private_target_of_numbers_is_missing(name):
    table = pd.DataFrame({"stay": DAYS, "b": DAYS})
    target = (DAYS / 40).astype(object)
    target[0], target[1] = "n/a", "0.5"
    model = clone(MODELS[name]).set_params(bounds=(0, 40))
    assert model.fit(table, target).score(table, DAYS / 40) > 0.5
    if name == "FeatureDPRegressor":
        with pytest.raises(ValueError, match="y holds"):
            model.set_params(public_target=True).fit(table, target)


@pytest.mark.filterwarnings("ignore")
def test_text_in_a_public_column_is_refused():
    model = FeatureDPLogisticRegression(
        bounds=(0, 40), public_features=["stay"], **CLASSES
    )
    with pytest.raises(ValueError, match="NaN"):
        model.fit(loose("frame"), Y)


# -- F08 ------------------------------------------------------------------------------
ADMITTED = pd.Timestamp("2023-01-01")
DURATIONS = {
    "timedelta64": pd.DataFrame({"stay": pd.to_timedelta(DAYS, unit="D"), "b": DAYS}),
    "objects": pd.DataFrame(
        {
            "stay": np.array([datetime.timedelta(int(d)) for d in DAYS], dtype=object),
            "b": DAYS,
        }
    ),
}
FRAMES = {
    **DURATIONS,
    "polars": pl.DataFrame(
        {"stay": [datetime.timedelta(int(d)) for d in DAYS], "b": DAYS}
    ),
    "pyarrow": pa.table(
        {"stay": pa.array(DAYS * 86400, pa.duration("s")), "b": pa.array(DAYS)}
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("public", [False, True])
def test_f08_durations_are_days_in_a_schema(kind, public):
    stay, b = Number(0, 40, public, basis="linear"), Number(0, 40, basis="linear")
    schema = schema_of(stay=stay, b=b)
    rows = np.asarray(DeclaredEncoder(schema).fit_transform(FRAMES[kind]))
    np.testing.assert_allclose(rows[:, 0], DAYS / 40)
    model = FeatureDPLogisticRegression(8.0, schema=schema, random_state=0)
    plain = pd.DataFrame({"stay": DAYS.astype(float), "b": DAYS})
    one, other = clone(model).fit(FRAMES[kind], Y), clone(model).fit(plain, Y)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.predict(FRAMES[kind]), other.predict(plain))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", DURATIONS)
@pytest.mark.parametrize("name", MODELS)
def test_f08_durations_are_days_without_a_schema(name, kind):
    model = clone(MODELS[name]).set_params(bounds=(0, 40), random_state=0)
    plain = pd.DataFrame({"stay": DAYS.astype(float), "b": DAYS})
    one, other = clone(model).fit(DURATIONS[kind], Y), clone(model).fit(plain, Y)
    method = "predict" if hasattr(one, "predict") else "transform"
    found = getattr(one, method)(DURATIONS[kind])
    np.testing.assert_array_equal(found, getattr(other, method)(plain))


TIMES = [datetime.time(6, 30), None, datetime.time(23)]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(TIMES, dtype=object),
        pl.Series(TIMES),
        pa.chunked_array([pa.array(TIMES, pa.time64("ns"))]),
        pa.chunked_array([pa.array(TIMES, pa.time32("s"))]),
    ],
    ids=["objects", "polars", "time64", "time32"],
)
def test_f08_times_of_day_are_hours(column):
    from skfdp.data.arrays import Column

    np.testing.assert_array_equal(Column(column).read("number"), [6.5, np.nan, 23])


YEAR = Date("2020-01-01", "2021-01-01")
PERIODS = pd.Series(pd.period_range("2020-01", periods=3, freq="M"))


def test_f08_periods_begin_with_their_first_moment():
    from skfdp.data.arrays import Column

    days = Column(PERIODS).read("date")
    starts = np.array(["2020-01-01", "2020-02-01", "2020-03-01"], "M8[D]")
    np.testing.assert_array_equal(days, starts.astype(int))


@pytest.mark.parametrize(
    ("column", "declared", "match"),
    [
        (PERIODS, Number(0, 1), "as numbers, but its stored type holds periods"),
        (
            pd.Series([1.5, 2.5, 3.5]),
            YEAR,
            "as dates, but its stored type holds numbers",
        ),
        (pd.to_timedelta([1, 2, 3], unit="D"), YEAR, "stored type holds durations"),
        (pd.interval_range(0, 3), Number(0, 1), "neither numbers nor dates"),
        (pd.Series([1j, 2j, 3j]), Number(0, 1), "holds complex numbers"),
        (pd.Series([True, False]), YEAR, "stored type holds booleans"),
        (pd.to_timedelta([1], unit="D"), Category(["1 days"]), "holds durations"),
    ],
)
def test_f08_a_type_without_a_readable_value_warns_by_name(column, declared, match):
    encoder, table = DeclaredEncoder(TableSchema({"c": declared})), {"c": column}
    with pytest.warns(UtilityWarning, match=f"column 'c' is declared .*{match}"):
        encoder.fit_transform(pd.DataFrame(table))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("column", "match"),
    [
        (
            ["a", "b"] * (N // 2),
            r"text in column\(s\) 'c'.*TableSchema\(\{'c': Category",
        ),
        (pd.Series(["a", "b"] * (N // 2), dtype="category"), "text in column"),
        (pd.date_range("2020-01-01", periods=N), r"dates in column\(s\) 'c'"),
        (
            pd.period_range("2020-01", periods=N, freq="M"),
            r"periods in column\(s\) 'c'",
        ),
        (pd.interval_range(0, N), r"not single numbers in column\(s\) 'c'"),
    ],
    ids=["text", "category", "dates", "periods", "intervals"],
)
def test_newcomer_a6_columns_that_are_no_numbers_are_named(name, column, match):
    table = pd.DataFrame({"c": pd.Series(column), "b": DAYS})
    if name == "text":
        table = table.astype({"c": "str"})
    with pytest.raises(ValueError, match=match):
        clone(MODELS[name]).set_params(bounds=(0, 40)).fit(table, Y)


@pytest.mark.parametrize("name", MODELS)
def test_newcomer_a6_a_path_is_no_table(name):
    with pytest.raises(TypeError, match="X is a path: pass a table"):
        clone(MODELS[name]).fit("table.csv", Y)


# -- a public column that cannot be read ----------------------------------------------
@pytest.mark.parametrize("text", ["thousands", "dates"])
def test_f08_a_public_column_that_cannot_be_read_warns(text):
    stay = {
        "thousands": [f"{d * 1000:,}" for d in DAYS],
        "dates": (ADMITTED + pd.to_timedelta(DAYS, unit="D")).strftime("%d.%m.%Y"),
    }[text]
    table = pd.DataFrame({"stay": stay, "b": DAYS})
    model = FeatureDPLogisticRegression(
        8.0, schema=schema_of(stay=Number(0, 40_000, public=True), b=Number(0, 40))
    )
    match = f"public column 'stay': {N} of {N} values cannot be read as numbers"
    with pytest.warns(UtilityWarning, match=match):
        model.fit(table, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = schema_of(stay=Number(0, 40_000), b=Number(0, 40, public=True))
        model.set_params(schema=shown).fit(table, Y)  # private: no word


# -- F21, A4 --------------------------------------------------------------------------
TWICE = pd.DataFrame(RNG.random((N, 3)), columns=["a", "a", "b"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_f21_two_columns_of_one_name(name):
    model = clone(MODELS[name]).set_params(bounds=(0, 1))
    with pytest.raises(ValueError, match="X has two columns 'a': rename one"):
        model.fit(TWICE, Y)
    model.fit(TWICE.set_axis(["a", "c", "b"], axis=1), Y)
    with pytest.raises(ValueError, match="X has two columns 'a': rename one"):
        getattr(model, "predict" if hasattr(model, "predict") else "transform")(TWICE)


def test_f21_two_columns_of_one_name_in_the_encoder_and_bounds():
    schema = TableSchema({"a": Number(0, 1), "b": Number(0, 1)})
    encoder = DeclaredEncoder(schema)
    for call in (
        lambda: encoder.fit(TWICE),
        lambda: encoder.fit_transform(TWICE),
        lambda: encoder.fit(TWICE.iloc[:, 1:]).transform(TWICE),
        lambda: private_bounds(TWICE),
    ):
        with pytest.raises(ValueError, match="X has two columns 'a': rename one"):
            call()


@pytest.mark.parametrize("note", [{"note": Ignore()}, {}, {"note": Category(["x"])}])
def test_newcomer_a4_groups_may_be_a_column_beside_the_schema(note):
    table = pd.DataFrame({"person": np.arange(N) // 2, "stay": DAYS, "note": "x"})
    model = FeatureDPLogisticRegression(
        8.0, schema=schema_of(stay=Number(0, 40), **note)
    )
    assert model.fit(table, Y, groups="person").privacy_.unit == "person"
    assert model.score(table, Y) > 0.9 and model.score(table.drop(columns="person"), Y)
    assert model.fit(table, Y).privacy_.unit == "record"
    model.set_params(schema=schema_of("person", stay=Number(0, 40), **note))
    assert model.fit(table, Y).privacy_.unit == "person"
