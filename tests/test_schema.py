"""One declaration of a table: what a draft shows, and what is read by a schema."""

import copy
import dataclasses
import datetime
import gzip
import json
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from skfdp import (
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyLedger,
    TableSchema,
    UtilityWarning,
)
from skfdp.schema import (
    Boolean,
    Category,
    Date,
    Ignore,
    Label,
    Number,
    SchemaError,
    Unknown,
)

N = 240
COLUMNS = {
    "age": Number(17, 90, public=True),
    "sex": Category(["F", "M"]),
    "admitted": Date("2020-01-01", "2025-12-31"),
    "smoker": Boolean(),
    "zip": Ignore(),
    "readmitted": Label([0, 1]),
    "severity": Label(["mild", "severe", "critical"]),
    "cost": Number(0, 100_000),
}
OUTCOMES = ["readmitted", "severity", "cost"]
SCHEMA = TableSchema(COLUMNS, outcomes=OUTCOMES, group="patient")


def hospital(n=N):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    frame = pd.DataFrame(
        {
            "patient": rng.integers(0, n // 2, n),
            "zip": [f"{i:05}" for i in rng.integers(0, 9999, n)],
            "age": rng.integers(17, 90, n),
            "sex": rng.choice(["F", "M"], n),
            "admitted": days.strftime("%Y-%m-%d"),
            "smoker": rng.choice(["true", "false"], n),
            "readmitted": rng.integers(0, 2, n),
            "severity": rng.choice(["mild", "severe", "critical"], n),
            "cost": rng.gamma(1, 3000, n).round(2),
        }
    )
    frame["sex"] = frame["sex"].where(rng.random(n) > 0.1, None)
    return frame


def written(tmp_path, text, name="t.csv", encoding="utf-8"):
    (tmp_path / name).write_bytes(text.encode(encoding))
    return tmp_path / name


def quietly(table, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return TableSchema.draft(table, *args, **options)


def told(table, *args, **options):
    """Return a draft, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = TableSchema.draft(table, *args, **options)
    return found, " ".join(str(warning.message) for warning in caught)


#: Texts that UTF-8 cannot store, and parameters that are texts.
HALVES, TEXTS = ("\ud800", "x\udce9"), ("group", "delimiter", "missing", "declared_by")


# -- the object -----------------------------------------------------------------------
def test_a_schema_is_a_value():
    other = TableSchema(COLUMNS, outcomes=tuple(OUTCOMES), group="patient")
    assert SCHEMA == other and hash(SCHEMA) == hash(other) and SCHEMA != "x"
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA
    assert copy.deepcopy(SCHEMA) is SCHEMA and copy.copy(SCHEMA) is SCHEMA
    assert repr(SCHEMA) == "TableSchema(8 columns, 1 public, group='patient')"
    assert not hasattr(SCHEMA, "get_params")
    with pytest.raises(AttributeError):
        SCHEMA.group = None
    with pytest.raises(TypeError):
        SCHEMA.columns["age"] = Ignore()
    assert Number(0, 1, np.True_).public is True
    with pytest.raises(ValueError, match="^public=1 must be True or False"):
        Number(0, 1, 1)
    assert TableSchema({}, missing="NA").missing == ("NA",)
    one, two = (TableSchema({"a": Category(v)}) for v in ([0, 1], [False, True]))
    assert one != two  # 1 is not True
    assert SCHEMA != TableSchema(dict(reversed(COLUMNS.items())), outcomes=OUTCOMES)


@pytest.mark.parametrize(
    "columns, options, reason",
    [
        ({"a": (0, 1)}, {}, "must map a name to a type of skfdp.schema"),
        ([Number(0, 1)], {}, "must be a mapping from names to types"),
        ({"a": Date("1.2.2024", "2.2.2024")}, {}, "two dates"),
        ({"a": Date(format="dd.mm")}, {}, "must be a strptime format"),
        ({"a": Category(["x", "x"])}, {}, "which are the same category"),
        ({"a": Boolean(true=["1"], false=["1"])}, {}, "which are the same category"),
        ({"a": Label([0, 1])}, {}, "is a Label but not an outcome: add it to outcomes"),
        ({"a": Label([1])}, {"outcomes": "a"}, "declare at least two values"),
        ({"a": Category([1])}, {"outcomes": "a"}, "of type Label, Boolean or Number"),
        ({}, {"outcomes": ["a"]}, "outcomes names 'a'"),
        ({"a": Number(0, 1)}, {"group": "a"}, "must not be a feature"),
        ({}, {"max_rows_per_group": 3}, "needs a group"),
        ({}, {"decimal": ";"}, "decimal=';' is unknown"),
        ({}, {"decimal": ",", "thousands": ","}, "would be ambiguous"),
        ({}, {"delimiter": "ab"}, "must be one character"),
        ({}, {"delimiter": "."}, "must be one character"),
        ({}, {"encoding": "utf-9"}, "is not known"),
        ({}, {"skip_lines": -1}, "skip_lines=-1"),
        ({}, {"missing": [-9, "-9"]}, "which are the same category"),
        *(({name: Ignore()}, {}, f"holds {name!r} with a lone") for name in HALVES),
        *(({"a": Category(["b", word])}, {}, "with a lone") for word in HALVES),
        *(({"a": Label([0, w])}, {"outcomes": "a"}, "with a lone") for w in HALVES),
        *(({}, {key: "\ud800"}, "with a lone surrogate") for key in TEXTS),
    ],
)
def test_impossible_declarations(columns, options, reason):
    with pytest.raises(SchemaError) as caught:
        TableSchema(columns, **options)
    assert reason in str(caught.value)


def test_rows_of_a_person_are_not_protected_one_by_one():
    """Estimators that protect rows refuse a schema with persons."""
    ledger, table = PrivacyLedger(), hospital()
    model = FeatureDPMLPClassifier(schema=SCHEMA, ledger=ledger, solver="noisy-sgd")
    with pytest.raises(ValueError, match="the schema has group='patient'"):
        model.fit(table, table["readmitted"])
    assert not ledger.entries


def test_a_plan_looks_at_no_private_value():
    table = hospital()
    model = FeatureDPLogisticRegression(schema=SCHEMA, target="readmitted")
    plan = model.plan(table, table["readmitted"])
    blank = table.assign(sex=None, admitted=None, smoker=None)
    assert model.plan(blank) == plan == model.plan(blank, [None] * N)


def test_which_outcome_is_the_target():
    y = pd.Series([0.0], name="cost")
    assert SCHEMA.outcome(y=y) == "cost" and SCHEMA.outcome("severity", y) == "severity"
    with pytest.raises(
        SchemaError,
        match="the target must name an outcome of .* which has 'readmitted', 'sev",
    ):
        SCHEMA.outcome(y=[0, 1])
    with pytest.raises(SchemaError, match="target='age' must name an outcome"):
        SCHEMA.outcome("age")
    with pytest.raises(SchemaError, match="named 'age', must name an outcome"):
        SCHEMA.outcome(y=y.rename("age"))
    one = TableSchema({"y": Label([0, 1])}, outcomes="y")
    assert one.outcome(y=np.zeros(3)) == "y"
    with pytest.raises(SchemaError, match="which has none: pass"):
        TableSchema({}).outcome()


def test_columns_are_selected_by_name():
    frame = hospital()
    turned = frame[frame.columns[::-1]].assign(more="canary")
    pd.testing.assert_frame_equal(SCHEMA.read(turned), SCHEMA.read(frame))
    SCHEMA.select(frame.drop(columns=["patient", *OUTCOMES]))
    with pytest.raises(SchemaError, match="lacks the column patient"):
        SCHEMA.split(frame.drop(columns="patient"), "cost")
    with pytest.raises(SchemaError, match="lacks the columns sex, smoker"):
        SCHEMA.read(frame.drop(columns=["sex", "smoker"]))
    with pytest.raises(SchemaError, match="that differs from 'age' in case"):
        SCHEMA.read(frame.rename(columns={"age": "Age"}))
    with pytest.raises(TypeError, match="without names of columns"):
        SCHEMA.read(frame.to_numpy())


# -- values ---------------------------------------------------------------------------
def test_every_container_reads_alike(tmp_path):
    frame = hospital()
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = SCHEMA.read(tmp_path / "t.csv")
    assert table.dtypes.map(str).to_dict() == {
        **{"age": "float64", "cost": "float64", "admitted": "datetime64[us]"},
        **{"sex": "object", "smoker": "object", "severity": "object"},
        **{"readmitted": "Int64", "patient": "object"},
    }
    pd.testing.assert_frame_equal(SCHEMA.read(table), table)  # nothing changes
    for other in (
        frame,
        frame.assign(admitted=pd.to_datetime(frame["admitted"])),
        frame.assign(smoker=frame["smoker"] == "true"),
        frame.astype({"sex": "category", "age": "float32"}),
        frame.convert_dtypes(),
        pl.DataFrame(frame),
        pa.Table.from_pandas(frame),
    ):
        found = SCHEMA.read(other).assign(patient=table["patient"])
        pd.testing.assert_frame_equal(found, table)


@pytest.mark.parametrize("dtype", ["str", "string", "category"])
def test_text_is_read_by_its_different_values(dtype):
    """The result is that of single cells, also for missing cells and unused values."""
    cells = ["a", None, " b", "NA", "c", "a", "", "yes", "B"]
    columns = {
        "x": Category(["a", "b"], missing=["c"]),
        "z": Boolean(true=["yes"], false=["a"]),
        "y": Label(["a", "b"]),
    }
    schema = TableSchema(columns, outcomes=["y"])
    one = pd.Series(cells, dtype=object)
    whole = pd.Series([*cells, "unused"], dtype=object).astype(dtype)[:-1]
    for name in columns:
        found, lost = schema.converted(name, whole)
        expected, lost_too = schema.converted(name, one)
        assert list(map(str, found)) == list(map(str, expected))
        assert lost.tolist() == lost_too.tolist()


def test_one_private_cell_changes_no_other_cell_and_no_type():
    frame = hospital().astype(object)
    expected = SCHEMA.read(frame)
    for cell in (None, np.nan, "k.A.", 7, -1e400, True, "2024-01-01", b"\xff", [1], ""):
        odd = frame.copy()
        for name in frame.columns.drop("patient"):
            odd.at[3, name] = cell
        found = SCHEMA.read(odd)
        assert list(found.dtypes) == list(expected.dtypes)
        pd.testing.assert_frame_equal(found.drop(3), expected.drop(3))


MARKS = {
    (",", None): {"3.667": None, "3.667,81": None, "3667.81": None, "1.5e3": None}
    | {"3667,81": 3667.81, "1,5e3": 1500, "-995": -995},
    (",", "."): {"3.667": 3667, "3.667,81": 3667.81, "36.67": None}
    | {"1.234.56": None, "0.123": None},
    (".", ","): {"1,234,567.8": 1234567.8},
    (".", "'"): {"1'234": 1234},
    (".", None): {"1,234": None, " 1.25 ": 1.25},
}


@pytest.mark.parametrize("marks", MARKS)
def test_numbers_have_the_declared_marks_and_no_others(marks):
    column = {"a": Number(0, 1)}
    schema = TableSchema(column, decimal=marks[0], thousands=marks[1])
    for cell, meaning in MARKS[marks].items():
        found = schema.read(pd.DataFrame({"a": [cell, 1234.5]}))["a"]
        assert found[1] == 1234.5  # a number is no text
        assert np.isnan(found[0]) if meaning is None else found[0] == meaning
        _, lost = schema.converted("a", pd.Series([cell, ""], dtype=object))
        assert list(lost) == [meaning is None, False]


def test_unreadable_types_and_public_values_are_warned_of():
    frame = hospital().assign(admitted=1.5, cost=pd.Timestamp("2024-01-01"))
    frame = frame.assign(smoker="canary")
    frame = frame.astype({"age": object})
    frame.loc[:6, "age"] = "old"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SCHEMA.select(frame)
    told = [
        "column 'admitted' is declared as dates, but its stored type holds numbers: "
        "declare format='%Y%m%d' if 20240131 is a date.",
        "public column 'age': 7 of 240 values cannot be read as numbers, such as "
        "'old'.",
    ]
    assert [str(warning.message) for warning in caught] == told
    for column, cells in ((Category(["x"]), ["x", "x"]), (Number(0, 1), [1.0, 1.0])):
        runs = pa.table({"a": pa.compute.run_end_encode(pa.array(cells))})
        assert TableSchema({"a": column}).check(runs) == []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SCHEMA.read(frame)  # stored types do not matter here
    assert [str(warning.message) for warning in caught] == told[1:]
    sentence = "column 'cost' is declared as numbers, but its stored type holds dates."
    assert sentence in SCHEMA.check(frame)


def test_what_is_missing_is_declared():
    schema = TableSchema(
        {
            "a": Number(-300, 300),
            "b": Category(["None", "NA", "x"], missing=["?"]),
            "c": Date("2020-01-01", "2021-01-01"),
            "y": Label(["None", "x"]),
        },
        outcomes="y",
        missing=["", "k.A.", -200, "9999-12-31"],
    )
    frame = pd.DataFrame(
        {
            "a": ["-200", "-200.0", "k.A.", "", "5", "7"],
            "b": ["None", "NA", "?", "", "x", "k.A."],
            "c": ["9999-12-31", "k.A.", "", None, "2020-02-01", "soon"],
            "y": ["None", "x", "k.A.", "", "z", "None"],
        }
    )
    found = schema.read(frame)
    assert found["a"].isna().tolist() == [True] * 4 + [False] * 2
    assert found["b"].tolist() == ["None", "NA", None, None, "x", "k.A."]
    assert found["c"].isna().tolist() == [True] * 4 + [False, True]
    assert found["y"].tolist() == ["None", "x", None, None, None, "None"]
    assert schema.read(pd.DataFrame({**frame, "a": -200.0}))["a"].isna().all()
    lost = {
        name: np.flatnonzero(schema.converted(name, cells)[1]).tolist()
        for name, cells in frame.items()
    }
    assert lost == {"a": [], "b": [5], "c": [5], "y": [4]}


def test_spaces_make_no_other_person():
    rows = pd.DataFrame({"who": ["a", " a ", "", None, 7], "x": 0})
    schema = TableSchema({"x": Number(0, 1)}, group="who")
    assert schema.read(rows)["who"].tolist() == ["a", "a", None, None, 7]


# -- drafts ---------------------------------------------------------------------------
def test_a_draft_of_a_csv_file_shows_names_and_public_columns(tmp_path):
    frame = hospital()
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = {"outcomes": ["readmitted"], "group": "patient"}
    found = quietly(tmp_path / "t.csv", ["age", "s?x", "admitted"], **options)
    ages, days = frame["age"], frame["admitted"]
    expected = {
        "zip": Unknown(),
        "age": Number(ages.min(), ages.max(), public=True, integer=True),
        "sex": Category(["F", "M"], public=True),
        "admitted": Date(days.min(), days.max(), public=True),
        **dict.fromkeys(["smoker", "readmitted", "severity", "cost"], Unknown()),
    }
    assert found == TableSchema(expected, **options)
    assert len(found.questions) == 5
    with pytest.raises(SchemaError, match="not complete: declare minimum and maximum"):
        found.read(frame)
    everything = quietly(tmp_path / "t.csv", "all", outcomes="severity", group="zip")
    assert not any(
        c.public for n, c in everything.columns.items() if n in everything.outcomes
    )
    with pytest.raises(SchemaError, match="public='Age' matches no column"):
        TableSchema.draft(tmp_path / "t.csv", "Age")


@pytest.mark.parametrize("kind", ["frame", "parquet", "arrow", "polars"])
def test_a_draft_of_a_typed_table_shows_stored_types(tmp_path, kind):
    frame = hospital().assign(
        smoker=hospital()["smoker"] == "true",
        admitted=pd.to_datetime(hospital()["admitted"]),
        stay=pd.to_timedelta(3, "D"),
    )
    frame["sex"] = frame["sex"].astype("category")
    table = pa.Table.from_pandas(frame)
    if kind == "parquet":
        parquet.write_table(table, tmp_path / "t.parquet")
    if kind == "arrow":
        feather.write_feather(table, str(tmp_path / "t.arrow"))
    given = {"frame": frame, "polars": pl.DataFrame(frame)}.get(
        kind, tmp_path / f"t.{kind}"
    )
    found = quietly(given, ["age"], outcomes=["readmitted", "severity"])
    # The categories of a type may be those that occur.
    assert found.columns == {
        **{"zip": Category(), "sex": Category()},
        # The type of a frame's column depends on its values, that of a file's does not.
        "patient": Number(integer=kind in ("parquet", "arrow")),
        "age": Number(frame["age"].min(), frame["age"].max(), True, integer=True),
        **{"admitted": Date(), "smoker": Boolean(), "readmitted": Unknown()},
        **{"severity": Label(), "cost": Number(), "stay": Number()},
    }
    assert SCHEMA.check(given) == []
    odd = TableSchema(
        {
            "age": Date("2020-01-01", "2021-01-01"),
            "admitted": Number(0, 1),
            "stay": Category(["x"]),
            "height": Boolean(),
        }
    )
    assert odd.check(given) == [
        "the table lacks the column height: check the spelling, or pass a table with "
        "all columns.",
        "column 'age' is declared as dates, but its stored type holds integers: "
        "declare format='%Y%m%d' if 20240131 is a date.",
        "column 'admitted' is declared as numbers, but its stored type holds dates.",
        "column 'stay' is declared as categories, but its stored type holds durations.",
    ]


CELLS = ["45", "31.12.2024", "canary", "", '"a, b"', "3.667", "-", "1e999", "\ufffd"]
CELLS += ['"two\nlines"', "NaN", "true", "\x00", "1;2\t3|4"]


@pytest.mark.parametrize("public", [[], ["age", "born"], ["town"]])
def test_one_private_cell_changes_no_draft_no_check_and_no_message(tmp_path, public):
    """Two files that differ in it: everything is equal byte for byte."""
    path, found = tmp_path / "t.csv", set()
    schema = TableSchema(
        {
            "age": Number(0, 50, public=True),
            "hours": Number(0, 9),
            "sector": Category(["a"]),
            "born": Date("2024-01-01", "2025-01-01", public=True),
            "gone": Date("2024-01-01", "2025-01-01"),
            "ill": Label([0, 1]),
        },
        outcomes="ill",
    )
    rows = [f"{i},x{i},{i % 7},a,13.02.2024,2024-01-01,{i % 2}" for i in range(40)]
    rows[9] = rows[9].replace("9,x", "old,x", 1)
    for place in (1, 2, 3, 5, 6):
        for cell in CELLS:
            changed = rows[5].split(",")
            changed[place] = cell
            lines = ["age,town,hours,sector,born,gone,ill", *rows]
            lines[6] = ",".join(changed)
            if "town" in public and place == 1:
                continue  # that cell is public
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            draft, words = told(path, public)
            found.add((draft.to_toml(), draft, words, *schema.check(path)))
            with pytest.raises(SchemaError) as caught:
                draft.read(path)
            found.add(str(caught.value))
    assert len(found) == 2 and "canary" not in repr(found)
    (facts,) = [one for one in found if isinstance(one, tuple)]
    one = "public column 'age': 1 of 40 values cannot be read as numbers, such as "
    assert f"{one}'old'." in facts
    every = "public column 'born': 40 of 40 values cannot be read as dates, such as "
    assert f"{every}'13.02.2024'." in facts


def test_what_public_columns_show(tmp_path):
    def shown(values):
        text = pd.DataFrame({"a": values, "b": 1}).to_csv(index=False)
        draft, words = told(written(tmp_path, text), ["a"])
        return draft.columns["a"], words

    assert shown(["Rome", "02", None] * 20) == (Category(["02", "Rome"], True), "")
    assert shown([True, False, None] * 9) == (Boolean(True), "")
    assert shown(["7", "7.0", ""] * 20)[0] == Number(7, 14, True, integer=True)
    days = ["2024-02-29", "2024-02-29 10:00"] * 9
    assert shown(days)[0] == Date("2024-02-29", "2024-03-01", True, hour=True)
    column, words = shown(["k.A.", *map(str, range(41))])
    assert (column, words) == (Number(0, 40, True, integer=True), "")
    column, words = shown(["01067", *map(str, range(41))])
    assert (column, words) == (Number(0, 1067, True, integer=True), "")
    column, words = shown([f"n{i}" for i in range(40)])
    assert column == Ignore() and "40 different texts in 40 rows" in words
    column, words = shown(["None", "Heavy", "NA"] * 20)
    assert column.values == ("Heavy", "NA", "None") and "missingValues" in words
    column, words = shown([""] * 5)
    assert column == Ignore() and "is empty" in words


@pytest.mark.parametrize(
    "cells, form",
    [
        (["22.03.1998", "1.2.2001"], "%d.%m.%Y"),
        (["08/13/2022", "01/02/2023"], "%m/%d/%Y"),
        (["13/08/2022", "01/02/2023"], "%d/%m/%Y"),
        (["13-Aug-22", "02-Jan-21"], "%d-%b-%y"),
        (["2022/08/13 10:30", "2022/01/02 00:00"], "%Y/%m/%d %H:%M"),
        (["20240131", "20240229"], "%Y%m%d"),
    ],
)
def test_the_order_of_day_and_month_is_that_of_public_dates(tmp_path, cells, form):
    text = "d\n" + "\n".join(cells * 9) + "\n"
    draft = quietly(written(tmp_path, text), "d")
    assert draft.columns["d"].format == form and not draft.questions
    assert draft.check(tmp_path / "t.csv") == []


def test_dates_that_are_two_dates_are_asked_about(tmp_path):
    path = written(tmp_path, "d\n" + "01/02/2022\n03/04/2022\n" * 9)
    draft, words = told(path, "d")
    assert draft.columns["d"] == Date(public=True)
    assert "%d/%m/%Y or %m/%d/%Y" in words


def test_a_draft_has_the_format_that_was_given(tmp_path):
    path = written(tmp_path, "x;a\n3.667,81;b\n")
    with pytest.raises(SchemaError, match="does not look like names"):
        TableSchema.draft(path, "x")
    form = {"delimiter": ";", "decimal": ",", "thousands": "."}
    draft = quietly(path, "x", **form)
    assert draft.columns["x"] == Number(3667.81, 7335.62, public=True)
    assert {name: getattr(draft, name) for name in form} == form
    assert TableSchema.load(saved(draft, tmp_path)) == draft


def saved(schema, tmp_path):
    schema.save(tmp_path / "s.toml")
    return tmp_path / "s.toml"


def test_the_first_lines_of_a_file(tmp_path):
    rows = "79;26,5;F;yes\n63;23,0;F;no\n" * 9
    for title in ("# export of 2024-05-01\n# x\n", "Clinic;;;\n\n", "sep=;\r\n\r\n"):
        path = written(tmp_path, title + "age;bmi;sex;ill\n" + rows)
        with pytest.raises(SchemaError, match="not look like names|more fields"):
            TableSchema.draft(path)
        draft = quietly(path, "bmi", skip_lines=2, delimiter=";", decimal=",")
        assert draft.columns["bmi"] == Number(23, 26.5, public=True)
    path = written(tmp_path, ",age,age,ill,\n1,2,3,4,\n")
    with pytest.raises(SchemaError, match="a name is repeated"):
        TableSchema.draft(path)
    draft, words = told(path, "all", header=True)
    assert list(draft.columns) == ["age", "age.1", "ill"]
    assert "columns without a name are left out: number 1, 5." in words
    with pytest.raises(SchemaError, match="has two columns 'age': rename one"):
        TableSchema({"age": Number(0, 9)}).read(path)
    for encoding in ("utf-8-sig", "utf-16"):
        path = written(tmp_path, "größe;x\n1,5;2\n", encoding=encoding)
        form = {"delimiter": ";", "decimal": ",", "encoding": encoding}
        assert list(quietly(path, "größe", **form).columns) == ["größe", "x"]


# A word begins with a digit or has four, or is no number; the last line are names that
# must be confirmed, because a record may have such cells.
VALUES = ["45", "-3", "4,5", "1.234,56", "1 234", "45 %", "$5", "(1,234.50)", '="0045"']
VALUES += ["'45'", "٣", "½", "²", "NaN", "-Infinity", "2024-01-31", "31. 12. 2024"]
VALUES += ["1/2/24", "13-Aug-22", "August 13, 2022", "Aug-20", "2024-W05", "10h30"]
VALUES += ["2022-08-13T12:30:00Z", "2024年1月31日", "+49 30 1234", "AB-12 x", "R-0001"]
VALUES += ["2nd visit", "visit 2", "65+", "a.1", "<5", "PM2.5", "AUG2022", "P0001"]
NAMES = ["age", "Q1", "x_5", "May", "Sun", "NA", "T", "E5", "bmi (kg/m2)", "true"]
RECORDS = ["R-1 x;45,5;4,2;no", "R-1\t45,5\tno", "R-1  45 4 no", "Anna,no,yes,no"]
RECORDS += ["Anna Bern", "Anna,,,", '"{""name"": ""Anna""",no']
NAMES += ["sep=", "-", "%", "größe", "od280/od315", "CO2 (ppm)", "V28"]


def test_a_first_line_with_a_value_is_refused_and_not_quoted(tmp_path):
    for cell in VALUES:
        quoted = cell.replace('"', '""')
        path = written(tmp_path, f'id,"{quoted}",x\na,b,c\n')
        with pytest.raises(SchemaError, match="does not look like names") as caught:
            TableSchema.draft(path)
        assert cell not in str(caught.value).replace(str(path), "")
        assert cell.strip() in quietly(path, header=True).columns
    for cell in NAMES:
        path = written(tmp_path, f"id,{cell},x\na,b,c\n")
        assert list(quietly(path).columns) == ["id", cell, "x"]
    for record in RECORDS:
        path = written(tmp_path, f"{record}\n{record}\n")
        with pytest.raises(SchemaError, match="does not look like names") as caught:
            TableSchema.draft(path)
        assert "Anna" not in str(caught.value)


FILES = {
    "empty": ("t.csv", b"", "is empty"),
    "latin1": ("t.csv", "a,y\nMünchen,1\n".encode("latin1"), "as its column 'a' shows"),
    "latin1 header": ("t.csv", "ä,y\n2,1\n".encode("latin1"), "as its first line"),
    "ragged": ("t.csv", b"a,y\n1,2\n1,canary,3\n", "more fields than its first line"),
    "surplus": ("t.csv", b"a,y\n1,2,canary\n", "more fields than its first line"),
    "no parquet": ("t.parquet", b"a,y\n1,2\n", "it is damaged, or of anoth"),
    "no arrow": ("t.arrow", b"a,y\n1,2\n", "it is damaged, or of anoth"),
    "binary": ("t.csv", b"\x80\x05\x95canary\n", "is not in utf-8, as its first line"),
    "xlsx": ("t.xlsx", b"PK\x03\x04\x14\x00\x06\x00\xff", "an Excel or ZIP file: save"),
    "xls": ("t.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel file: save"),
    "parquet": ("t.csv", b"PAR1\x15\x04\x15\x00\xff", "a Parquet file: give its name"),
    "arrow": ("t.csv", b"ARROW1\x00\x00\xff", "an Arrow file: give its name the end"),
    "gzip": ("t.csv.gz", gzip.compress(b"a,y\n1,canary\n"), "compressed: unpack it"),
    "zstandard": ("t.csv.zst", b"\x28\xb5\x2f\xfd\x04canary", "compressed: unpack it"),
    "sqlite": ("t.db", b"SQLite format 3\x00canary", "a database: export the table"),
    "numpy": ("t.npy", b"\x93NUMPY\x01\x00canary", "a NumPy file: write it as CSV"),
    "pdf": ("t.pdf", b"%PDF-1.7\ncanary", "a PDF file: write the table as CSV"),
    "html": ("t.csv", b"\n<html>canary,</html>", "HTML or XML: convert it to CSV"),
    "json": ("t.csv", b' [{"name": "canary", "ill": "no"}]', "JSON: convert it to CSV"),
    "json lines": ("t.jsonl", b'{"canary": "x", "town": "y"}\n', "JSON: convert it"),
    "json of utf-16": ("t.csv", '{"canary": "x"}\n'.encode("utf-16"), "JSON: convert"),
    "json of utf-8-sig": ("t", '{"canary": 1}\n'.encode("utf-8-sig"), "JSON: convert"),
}


@pytest.mark.parametrize("kind", FILES)
def test_each_wrong_file_has_its_own_sentence(tmp_path, kind):
    name, content, reason = FILES[kind]
    (tmp_path / name).write_bytes(content)
    read = TableSchema({"a": Number(0, 1)}).read
    for use in (lambda path: TableSchema.draft(path, ["a"], header=True), read):
        if use is read and "its column" in reason:
            continue  # which is private there
        with pytest.raises(SchemaError, match=reason) as caught:
            use(tmp_path / name)
        told = str(caught.value).replace(str(tmp_path), "")
        assert "canary" not in told and "München" not in told
    with pytest.raises(SchemaError, match="No such file"):
        TableSchema.draft(tmp_path / "absent.csv")


# -- files ----------------------------------------------------------------------------
def test_a_file_holds_all_of_a_schema(tmp_path):
    schema = TableSchema(
        {
            'a "b"': Number(0, 2.5, public=True, basis="linear", missing=["?", -9]),
            "c\\d": Number(0, 24, cyclic=True, knots=[0, 6, 24]),
            "e#f": Date("2024-01-01", "2025-06-01T12:00", format="%d.%m.%Y", knots=4),
            "ü = [1]": Category(["01", "1", 'x"y', "ü"], public=True),
            "\x7f": Category([1.0, 2.5, -3, math.inf, 1e22]),
            "none": Number(0, 1, missing=[], knots=[0.0, 0.5, 1.0]),
            "g.h": Boolean(True, true=["ja"], false=["nein"]),
            "42": Ignore(),
            "new": Unknown(),
            "": Number(),
            "y": Label([0, 1], public=True),
            "z": Boolean(),
        },
        **{"outcomes": ["y", "z"], "group": "who", "max_rows_per_group": 5},
        **{"missing": ["", "NA", -200], "decimal": ",", "thousands": "."},
        **{"delimiter": "\t", "encoding": "cp1252", "skip_lines": np.int64(2)},
    )
    assert TableSchema.load(saved(schema, tmp_path)) == schema
    bare = dataclasses.replace(schema, missing=[])
    assert TableSchema.load(saved(bare, tmp_path)) == bare != schema
    days = TableSchema({"a": Category([datetime.date(2024, 1, 31), b"x"])})
    days = TableSchema.load(saved(days, tmp_path))
    assert days.columns["a"].values == ("2024-01-31", "x")
    assert TableSchema.load(saved(SCHEMA, tmp_path)) == SCHEMA


def test_a_filled_draft_needs_no_types(tmp_path):
    path = written(
        tmp_path,
        'outcomes = ["y"]\ngroup = ""\n[fields]\n'
        "a = {constraints = {minimum = 0, maximum = 9, enum = [], required = true}}\n"
        'b = {constraints = {minimum = 2024-01-01, maximum = "2025-01-01"}}\n'
        'c = {constraints = {minimum = "", maximum = "", enum = ["u", "v"]}}\n'
        'y = {constraints = {minimum = "", maximum = "", enum = [0, 1]}}\n',
        "s.toml",
    )
    assert TableSchema.load(path).columns == {
        "a": Number(0, 9),
        "b": Date("2024-01-01", "2025-01-01"),
        "c": Category(["u", "v"]),
        "y": Label([0, 1]),
    }


FIELD, TYPED = "[fields]\na = {{constraints = {{{}}}}}", "[fields]\na = {type = "


@pytest.mark.parametrize(
    "text, reason",
    [
        ("x = ", "is not a TOML file"),
        ("x = 1", "is not a schema of one table"),
        ("fields = 3", "has a value of a wrong type"),
        ("target = 'y'\n[fields]", "has the unknown entry 'target': use one of outc"),
        ("outcomes = 1\n[fields]\na = {}", "has a value of a wrong type"),
        ("[fields]\na = 1", "has a value of a wrong type"),
        ("[fields]\na = {rolle = 'x'}", "has the unknown entry 'rolle'"),
        ("[fields]\na = {type = 'geopoint'}", "the unknown entry 'geopoint'"),
        ("[fields]\na = {type = 'boolean', basis = 'x'}", "the unknown entry 'basis'"),
        (FIELD.format("low = 1"), "has the unknown entry 'low': use one of minimum, m"),
        (FIELD.format("enum = [['a'], ['b']]"), "holds .*: list text or numbers"),
        ("[[fields]]\nname = 'a'\n[[fields]]\nname = 'a'", "has two fields of one na"),
        (f"{TYPED}'string', constraints = {{minimum = 1}}}}", "fit its type string"),
        (f"{TYPED}'boolean', constraints = {{enum = ['ja', 'no']}}}}", "type boolean"),
        (FIELD.format("minimum = 1, enum = ['ja', 'nein']"), "its type string"),
        (FIELD.format("minimum = 3, maximum = 1"), "two finite"),
        (FIELD.format("enum = 'ab'"), "must be a list of categories"),
        ("[fields]\na = {type = 'date', format = 'any'}", "is ambiguous"),
        ("[fields]\na = {public = 'no', type = 'ignore'}", "unknown entry 'public'"),
        ("[fields]\na = {public = 'no', type = 'number'}", "must be True or False"),
        ("missingValues = 3\n[fields]", "is not a schema of one table, or has a value"),
        ("[dialect]\nquoteChar = '|'\n[fields]", "has the unknown entry 'quoteChar'"),
        ("[dialect]\nheaderRows = 3\n[fields]", "has a value of a wrong type"),
    ],
)
def test_files_that_mean_nothing(tmp_path, text, reason):
    with pytest.raises(SchemaError, match=reason):
        TableSchema.load(written(tmp_path, text, "s.toml"))


def test_a_table_schema_of_the_frictionless_standard(tmp_path):
    ages = {"minimum": "17", "maximum": "90", "required": True}
    days = {"minimum": "1930-01-01", "maximum": "2020-01-01"}
    words = {"trueValues": ["ja"], "falseValues": ["no"]}
    fields = [
        {"name": "age", "type": "integer", "constraints": ages, "groupChar": ","},
        {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}},
        {"name": "stage", "type": "integer", "constraints": {"enum": ["1", "2"]}},
        {"name": "born", "type": "date", "format": "%d.%m.%Y", "constraints": days},
        {"name": "well", "type": "boolean", **words},
        {"name": "note", "type": "string", "title": "A note", "missingValues": []},
        {"name": "where", "type": "geopoint"},
    ]
    words = ["", {"value": "-", "label": "none"}]
    schema = {"fields": fields, "missingValues": words, "primaryKey": "age"}
    expected = TableSchema(
        {
            "age": Number(17, 90, integer=True),
            "sex": Category(["F", "M"]),
            "stage": Category([1, 2]),
            "born": Date("1930-01-01", "2020-01-01", format="%d.%m.%Y"),
            "well": Boolean(true=["ja"], false=["no"]),
            "note": Category(missing=[]),
            "where": Unknown(),
        },
        missing=["", "-"],
        thousands=",",
        declared_by="tableschema.json",
    )
    path = written(tmp_path, json.dumps(schema), "tableschema.json")
    assert TableSchema.load(path) == expected
    assert TableSchema.load(saved(expected, tmp_path)) == expected
    package = {"resources": [{"path": "t.csv", "schema": schema}]}
    path = written(tmp_path, json.dumps(package), "datapackage.json")
    with pytest.raises(SchemaError, match="is not a schema of one table"):
        TableSchema.load(path)
    fields[1]["groupChar"] = "."
    path = written(tmp_path, json.dumps(schema), "tableschema.json")
    with pytest.raises(SchemaError, match="has fields with different groupChar"):
        TableSchema.load(path)


# -- whole jobs -----------------------------------------------------------------------
TABLE = hospital(1500)


def estimator(target, **given):
    kind = FeatureDPRegressor if target == "cost" else FeatureDPLogisticRegression
    return kind(1.0, schema=SCHEMA, target=target, **given)


def test_columns_are_chosen_by_name_and_a_group_is_needed():
    model = estimator("readmitted", random_state=0)
    X, y = SCHEMA.split(TABLE, "readmitted")
    expected = model.fit(X, y).coef_
    mixed = TABLE[TABLE.columns[::-1]]
    np.testing.assert_array_equal(model.fit(mixed, y).coef_, expected)
    kept = [*SCHEMA.features]
    np.testing.assert_array_equal(model.predict(TABLE[kept]), model.predict(mixed))
    with pytest.raises(ValueError, match="has no column 'patient'"):
        model.fit(X[kept], y)
    groups = TABLE["patient"].to_numpy()
    np.testing.assert_array_equal(model.fit(X[kept], y, groups=groups).coef_, expected)
    with pytest.raises(ValueError, match="groups and the column 'patient' of X"):
        model.fit(X, y, groups=groups[::-1])


def test_a_target_without_a_name_or_of_another_shape_is_refused_before_the_charge():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    for y in (3, np.zeros((1500, 2)), pd.DataFrame({"a": [1], "b": 1})):
        with pytest.raises(ValueError, match="y should be a 1d array"):
            estimator("readmitted", ledger=ledger).fit(TABLE, y)
    with pytest.raises(ValueError, match="the target must name an outcome"):
        estimator(None, ledger=ledger).fit(TABLE, TABLE["severity"].to_numpy())
    assert not ledger.entries


def test_identifiers_without_a_group_and_many_levels_warn():
    def model(**columns):
        columns["readmitted"] = Label([0, 1])
        schema = TableSchema(columns, outcomes=["readmitted"])
        return FeatureDPLogisticRegression(schema=schema)

    with pytest.warns(UtilityWarning, match="ignores 'patient'.* no group"):
        found = model(age=Number(17, 90), patient=Ignore())
        found.fit(TABLE, TABLE["readmitted"])
    with pytest.warns(UtilityWarning, match="'zip' has 202 declared levels for 1500"):
        model(zip=Category([str(k) for k in range(200)])).plan(TABLE)
