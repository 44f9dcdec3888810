"""Types of columns and targets: exact codes, durations, text cells, periods, paths."""

import datetime
import decimal
import pathlib
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from skfdp import (
    DeclaredEncoder,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    TableSchema,
    UtilityWarning,
    private_bounds,
    private_score,
)
from skfdp.data.arrays import Column
from skfdp.schema import Category, Label, Number, SchemaError

N = 200
DAYS = np.random.default_rng(0).integers(1, 40, N)
Y = (DAYS > 20).astype(int)
MODEL = FeatureDPLogisticRegression(8.0, classes=[0, 1], bounds=(0, 40), random_state=0)
REGRESSOR = FeatureDPRegressor(
    8.0, bounds=(0, 40), target_bounds=(0, 40), random_state=0
)
BIG = [900000000000207008, 900000000000307009]


def places(categories, column):
    """Return the position of the category of each cell of a column."""
    block = Category(categories).blocks("code", 0)[0]
    return block.entries(Column(column))[0][:, 0].tolist()


# -- F06 ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.Categorical([*BIG, None])),
        pd.Series(pd.array([*BIG, None], dtype="int64[pyarrow]")),
        pl.Series([*BIG, None], dtype=pl.UInt64),
        pa.array([*BIG, None]).dictionary_encode(),
        pa.array([*BIG, None]),
        np.array([decimal.Decimal(BIG[0]), np.int64(BIG[1]), None], dtype=object),
    ],
    ids=["categorical", "ArrowDtype", "polars", "dictionary", "pyarrow", "objects"],
)
@pytest.mark.parametrize("declared", [BIG, list(map(str, BIG))], ids=["int", "text"])
def test_f06_a_missing_value_takes_no_digit_from_other_codes(column, declared):
    assert places(declared, column) == [0, 1, 3]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([0.1, 0.5], dtype="float32"),
        pd.Series([0.1, 0.5], dtype="Float32"),
        pd.Series([0.1, 0.5], dtype="float[pyarrow]"),
        pl.Series([0.1, 0.5], dtype=pl.Float32),
        pa.array([0.1, 0.5], pa.float32()),
    ],
    ids=["numpy", "nullable", "ArrowDtype", "polars", "pyarrow"],
)
def test_f06_float32_is_spelt_by_its_own_digits(column):
    assert places(["0.1", "0.5"], column) == places([0.1, 0.5], column) == [0, 1]


def test_f06_float32_of_arrow_keeps_its_digits_in_a_schema():
    schema = TableSchema({"a": Category(["0.1", "0.5"])})
    table = pd.DataFrame({"a": pd.Series([0.1, 0.5], dtype="float[pyarrow]")})
    assert not schema.unread(table)["a"].any()
    rows = schema.encoder().fit(table).transform(table)
    np.testing.assert_array_equal(rows[:, :2], np.eye(2))


ODD = "x\udce9"  # Latin-1 that was read as UTF-8, with surrogates


PLACES = np.where(np.arange(N) == 7, 2, np.arange(N) % 2)
CELLS = np.array(["a", "b", ODD], dtype=object)[PLACES]
LEVELS = pd.CategoricalDtype(pd.Index(["a", "b", ODD], dtype=object))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(CELLS, dtype=object),
        pd.Series(CELLS, dtype=pd.StringDtype("python")),
        pd.Series(pd.Categorical.from_codes(PLACES, dtype=LEVELS)),
    ],
    ids=["objects", "strings", "categorical"],
)
def test_a_text_that_is_not_utf_8_is_an_undeclared_category(column):
    table = pd.DataFrame({"c": column})
    schema = TableSchema({"c": Category(["a", "b"])})
    rows = schema.encoder().fit(table).transform(table)
    np.testing.assert_array_equal(rows[7], [0, 0, 1, 0])
    np.testing.assert_array_equal(rows[8], [1, 0, 0, 0])
    labels = TableSchema(
        {"c": Category(["a", "b"]), "y": Label([0, 1])}, outcomes=["y"]
    )
    FeatureDPLogisticRegression(schema=labels).fit(table.assign(y=Y), Y)


def test_selected_columns_of_text_are_texts():
    """A Categorical would list all texts, and refuse others in later steps."""
    schema = TableSchema({"c": Category(["a", "b"])})
    found = schema.select(pd.DataFrame({"c": ["a", "z", None]}))["c"]
    assert found.dtype == object
    assert found.tolist() == ["a", "z", None]


def test_a1_codes_that_are_one_float_are_texts_alone():
    """Numbers match none of them, in whatever type, and a column of numbers warns."""
    pair = [str(BIG[0]), "900000000000206976"]
    assert float(pair[0]) == float(pair[1])
    for number in (BIG[0], float(BIG[0]), complex(BIG[0]), decimal.Decimal(BIG[0])):
        assert places(pair, [number]) == [2]
    assert places(pair, pair) == [0, 1]
    table = pd.DataFrame({"code": BIG})
    with pytest.raises(SchemaError, match=f"integers: '{BIG[0]}' is declared as text"):
        DeclaredEncoder(TableSchema({"code": Category(pair)})).fit_transform(table)
    with pytest.raises(SchemaError, match="which are the same category: keep one"):
        TableSchema({"code": Category(list(map(int, pair)))})


def test_f06_words_other_and_missing_keep_their_levels():
    assert places(["a"], ["missing", "other", "z", None]) == [2, 1, 1, 2]


def test_f06_times_of_day_match_their_text_in_every_library():
    times = [datetime.time(1), None]
    columns = (times, pl.Series(times), pa.array(times, pa.time32("s")))
    for column in columns:
        assert places(["01:00:00"], column) == [0, 2]


# -- text among numbers ---------------------------------------------------------------
def with_words(kind):
    """Return days, of which the first is a word, as text."""
    texts = ["unknown", *map(str, DAYS[1:])]
    if kind == "pandas":
        return pd.DataFrame({"stay": texts, "b": DAYS})
    if kind == "polars":
        return pl.DataFrame({"stay": texts, "b": DAYS})
    if kind == "pyarrow":
        return pa.table({"stay": texts, "b": DAYS})
    return np.column_stack([texts, DAYS.astype(str)])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "array"])
def test_text_in_a_column_declared_as_a_number_is_missing_in_every_library(kind):
    plain = pd.DataFrame({"stay": DAYS, "b": DAYS}).astype(float)
    plain.iloc[0, 0] = np.nan
    model = clone(MODEL).set_params(bounds={"stay": (0, 40), "b": (0, 40)})
    if kind == "array":
        plain, model = plain.to_numpy(), clone(MODEL)
    found, wanted = (clone(model).fit(X, Y) for X in (with_words(kind), plain))
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    new = found.predict_proba(with_words(kind))
    np.testing.assert_array_equal(new, wanted.predict_proba(plain))


@pytest.mark.parametrize("bounds", [{0: (0, 40), 1: (0, 40)}, "private", False])
def test_text_is_missing_under_every_declaration_of_numbers(bounds):
    table = pd.DataFrame({"stay": DAYS, "b": DAYS}).astype(object)
    table.iloc[0, 0] = "unknown"
    plain = table.replace("unknown", np.nan).astype(float)
    model = clone(MODEL).set_params(bounds=bounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, wanted = (clone(model).fit(X, Y).coef_ for X in (table, plain))
    np.testing.assert_array_equal(found, wanted)


def test_text_without_a_declaration_names_the_columns():
    table = pd.DataFrame({"sex": ["F", "M"] * (N // 2), "b": DAYS}).astype(object)
    match = r"may be text, in column\(s\) 'sex', 'b'.*TableSchema\(\{'sex': Category"
    with pytest.raises(ValueError, match=match):
        clone(MODEL).set_params(bounds=None).fit(table, Y)


# -- F08: X ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "table",
    [
        DAYS[:, None].astype("m8[D]").astype("m8[h]"),
        pd.DataFrame({0: pd.to_timedelta(DAYS, unit="D")}),
        pl.DataFrame({"stay": [datetime.timedelta(int(day)) for day in DAYS]}),
        pa.table({"stay": pa.array(DAYS * 86400, pa.duration("s"))}),
        pa.record_batch({"stay": pa.array(DAYS * 86400, pa.duration("s"))}),
    ],
    ids=["array", "pandas", "polars", "pyarrow", "batch"],
)
def test_f08_durations_without_schema_are_days_in_every_library(table):
    plain = DAYS[:, None].astype(float)
    if isinstance(table, (pl.DataFrame, pa.Table)):  # scikit-learn knows their names
        plain = pd.DataFrame(plain, columns=["stay"])
    wanted, found = clone(MODEL).fit(plain, Y), clone(MODEL).fit(table, Y)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    np.testing.assert_array_equal(found.predict(table), wanted.predict(plain))


@pytest.mark.extra("dask")
def test_f08_durations_in_partitions_are_days():
    import dask.dataframe as dd

    frames = (
        pd.DataFrame({"stay": stay, "b": DAYS})
        for stay in (pd.to_timedelta(DAYS, unit="D"), DAYS.astype(float))
    )
    found, wanted = (
        clone(MODEL).fit(
            dd.from_pandas(frame, npartitions=2),
            dd.from_pandas(pd.Series(Y), npartitions=2),
        )
        for frame in frames
    )
    np.testing.assert_array_equal(found.coef_, wanted.coef_)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pd.cut(DAYS, 4), r"not single numbers in column\(s\) 'c'"),
        (pd.Categorical(pd.to_datetime(DAYS, unit="D")), r"dates in column\(s\) 'c'"),
    ],
    ids=["intervals", "dates"],
)
def test_f08_a_categorical_is_of_the_type_of_its_categories(column, match):
    table = pd.DataFrame({"c": column})
    with pytest.raises(ValueError, match=match):
        clone(MODEL).fit(table, Y)


def test_f08_an_array_of_dates_is_refused():
    with pytest.raises(ValueError, match="X is an array of dates"):
        clone(MODEL).fit(DAYS[:, None].astype("M8[D]"), Y)


def test_f08_no_period_stops_a_fit():
    far = pd.Period(ordinal=10**15, freq="D")
    cells = np.array([pd.Period("2020-01", "M"), far, None], dtype=object)
    days = Column(cells).read("date")
    np.testing.assert_array_equal(days, [18262, np.nan, np.nan])


def test_f08_new_rows_of_an_unreadable_type_warn():
    encoder = DeclaredEncoder(TableSchema({"stay": Number(0, 40)}))
    encoder.fit(pd.DataFrame({"stay": DAYS}))
    dates = pd.DataFrame({"stay": pd.to_datetime(DAYS, unit="D")})
    with pytest.warns(UtilityWarning, match="'stay' is declared as numbers"):
        assert encoder.transform(dates)[:, -1].all()


# -- F08: targets ---------------------------------------------------------------------
ROWS = DAYS[:, None].astype(float)
DURATIONS = {
    "array": DAYS.astype("m8[D]").astype("m8[ns]"),
    "pandas": pd.Series(pd.to_timedelta(DAYS, unit="D")),
    "frame": pd.DataFrame({"stay": pd.to_timedelta(DAYS, unit="D")}),
    "objects": [datetime.timedelta(int(day)) for day in DAYS],
    "polars": pl.Series([datetime.timedelta(int(day)) for day in DAYS]),
    "pyarrow": pa.array(DAYS * 86400, pa.duration("s")),
    "text of polars": pl.Series(list(map(str, DAYS))),
}


@pytest.mark.parametrize("kind", DURATIONS)
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("model", [REGRESSOR, DPSGDFRegressor(8.0)], ids=["FDP", "DPF"])
@pytest.mark.filterwarnings("ignore")
def test_f08_a_target_of_durations_is_days(kind, public, model):
    model = clone(model).set_params(
        bounds=(0, 40), target_bounds=(0, 40), random_state=0
    )
    if public:
        model = clone(REGRESSOR).set_params(public_target=True)
    plain = pd.DataFrame({"stay": DAYS}) if kind == "frame" else DAYS
    found, wanted = (clone(model).fit(ROWS, y) for y in (DURATIONS[kind], plain))
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    assert found.score(ROWS, DURATIONS[kind]) == wanted.score(ROWS, DAYS)


@pytest.mark.parametrize(
    ("target", "holds"),
    [
        (pd.Series(pd.period_range("2020", periods=N, freq="M")), "periods"),
        (pd.Series(pd.interval_range(0, N)), "not single numbers"),
        (pd.Series(pd.to_datetime(DAYS, unit="D")), "dates"),
        (pl.Series([datetime.date(2020, 1, 1)] * N), "dates"),
    ],
    ids=["periods", "intervals", "dates", "polars"],
)
@pytest.mark.parametrize("public", [False, True])
def test_f08_a_target_of_a_type_without_numbers_is_refused(target, holds, public):
    model = clone(REGRESSOR).set_params(public_target=public)
    with pytest.raises(ValueError, match=f"y holds values that are not .*{holds}"):
        model.fit(ROWS, target)


def test_text_in_a_target_is_left_out_of_scores():
    model = clone(REGRESSOR).fit(ROWS, DAYS)
    target = DAYS.astype(object)
    target[0], target[1] = "unknown", str(DAYS[1])
    with pytest.warns(UtilityWarning, match=f"1 of {N} rows have no number"):
        found = model.score(ROWS, target)
    assert found == model.score(ROWS[1:], DAYS[1:])
    with pytest.raises(ValueError, match="y has no number"):
        model.score(ROWS, ["unknown"] * N)
    score = private_score(model, ROWS, DURATIONS["pandas"], 50.0, target="stay")
    assert score.values["mean_absolute_error"] < 5


# -- F21, A4, A6 ----------------------------------------------------------------------
def test_f21_private_score_and_groups_name_the_column():
    twice = pd.DataFrame(np.ones((N, 2)), columns=["a", "a"])
    model = clone(MODEL).fit(pd.DataFrame({"a": DAYS, "b": DAYS}), Y)
    for call in (
        lambda: private_score(model, twice, Y, 1.0, target="y"),
        lambda: clone(MODEL).fit(twice, Y, groups="a"),
    ):
        with pytest.raises(ValueError, match="X has two columns 'a': rename one"):
            call()


def schema_of(**columns):
    """Return a schema of some columns and of the outcome "y"."""
    return TableSchema({**columns, "y": Label([0, 1])}, outcomes=["y"])


STAY = FeatureDPLogisticRegression(8.0, schema=schema_of(stay=Number(0, 40)))


def test_newcomer_a4_groups_may_be_a_column_of_pyarrow():
    table = pa.table({"person": np.arange(N) // 2, "stay": DAYS})
    model = clone(STAY)
    assert model.fit(table, Y, groups="person").privacy_.unit == "person"
    assert model.score(table, Y) > 0.9


def test_newcomer_a4_a_declared_column_of_persons_says_what_to_do():
    table = pd.DataFrame({"person": np.arange(N), "stay": DAYS})
    model = clone(STAY).set_params(
        schema=schema_of(stay=Number(0, 40), person=Number(0, N))
    )
    match = "groups='person' names a feature of the schema: leave this column out"
    with pytest.raises(ValueError, match=match):
        model.fit(table, Y, groups="person")


@pytest.mark.parametrize("path", ["table.csv", pathlib.Path("table.csv")])
def test_newcomer_a6_a_path_is_no_table_anywhere(path):
    encoder = DeclaredEncoder(TableSchema({"stay": Number(0, 40)}))
    table = pd.DataFrame({"stay": DAYS})
    fitted, stay = clone(MODEL).fit(table, Y), clone(STAY).fit(table, Y)
    for call in (
        lambda: encoder.fit(path),
        lambda: clone(fitted).fit(path, Y),
        lambda: clone(STAY).fit(path, Y),
        lambda: stay.predict(path),
        lambda: clone(fitted).fit(path, Y, groups="person"),
        lambda: fitted.predict(path),
        lambda: private_score(fitted, path, Y, 1.0),
        lambda: private_bounds(path),
    ):
        with pytest.raises(TypeError, match="X is a path: pass a table"):
            call()


def test_newcomer_a6_private_bounds_names_columns_without_numbers():
    dates = pd.DataFrame({"born": pd.to_datetime(DAYS, unit="D"), "stay": DAYS})
    with pytest.raises(ValueError, match=r"dates in column\(s\) 'born'"):
        private_bounds(dates)
    assert list(private_bounds(dates[["stay"]]).bounds) == ["stay"]
