"""Five files as owners have them, each by a draft whose questions are answered."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, TableSchema
from skfdp.schema import Boolean, Category, Date, Ignore, Label, Number

N = 400
RNG = np.random.default_rng(5)
AGE = RNG.integers(18, 95, N)
ILL = AGE + RNG.normal(0, 10, N) > 60


def german_hospital(path):
    """Semicolons, decimal commas, thousands points, cp1252, days first, ja and nein."""
    cost = [f"{c:,.2f}".translate(str.maketrans(",.", ".,")) for c in AGE * 73.5]
    table = pd.DataFrame(
        {"Fallnummer": np.arange(N) // 2, "Größe": AGE, "Kosten": cost}
    )
    days = pd.Timestamp("2024-01-31") + pd.to_timedelta(AGE, "D")
    table["Aufnahme"] = days.strftime("%d.%m.%Y")
    table["Raucher"] = np.where(
        AGE % 3 == 0, "ja", np.where(AGE % 3 == 1, "nein", "k. A.")
    )
    table["Rückkehr"] = np.where(ILL, "ja", "nein")
    table.to_csv(path, sep=";", index=False, encoding="cp1252")
    given = {"delimiter": ";", "decimal": ",", "thousands": ".", "encoding": "cp1252"}
    given |= {"outcomes": ["Rückkehr"], "group": "Fallnummer"}
    answers = {
        "Größe": Number(0, 120),
        "Kosten": Number(0, 10_000),
        "Aufnahme": Date("2024-01-01", "2024-12-31", format="%d.%m.%Y"),
        "Raucher": Boolean(true=["ja"], false=["nein"], missing=["k. A."]),
        "Rückkehr": Label(["nein", "ja"]),
    }
    expected = {"Kosten": AGE * 73.5, "Aufnahme": days.to_numpy()}
    return [], given, answers, expected


def churn(path):
    """Codes with leading zeros, Yes and No, an empty cell for a new customer."""
    codes = np.array(["01067", "01069", "80331"])[AGE % 3]
    own = [f"{i:04}-XY" for i in range(N)]
    table = pd.DataFrame({"customerID": own, "zip": codes})
    table["PhoneService"] = np.where(AGE % 2, "Yes", "No")
    table["TotalCharges"] = np.where(AGE > 20, (AGE * 10.5).astype(str), " ")
    table["Churn"] = np.where(ILL, "Yes", "No")
    table.to_csv(path, index=False)
    answers = {
        "customerID": Ignore(),
        "zip": Category(["01067", "01069", "80331"]),
        "TotalCharges": Number(0, 2000),
        "Churn": Boolean(true=["Yes"], false=["No"]),
    }
    expected = {"zip": codes, "TotalCharges": np.where(AGE > 20, AGE * 10.5, np.nan)}
    return ["PhoneService"], {"outcomes": ["Churn"]}, answers, expected


def air(path):
    """A title, -200 for missing, an hour, decimal commas, an empty last column."""
    hours = pd.Timestamp("2004-03-10 18:00") + pd.to_timedelta(np.arange(N), "h")
    value = np.where(AGE % 7 == 0, -200.0, AGE / 10)
    lines = [
        f"{h:%d/%m/%Y %H.%M};{str(v).replace('.', ',')};{b};"
        for h, v, b in zip(hours, value, AGE * 2, strict=True)
    ]
    text = "Air quality of a station\nWhen;CO;Benzene;\n" + "\n".join(lines) + "\n"
    path.write_text(text, encoding="utf-8")
    given = {"skip_lines": 1, "delimiter": ";", "decimal": ",", "outcomes": ["Benzene"]}
    when = Date("2004-01-01", "2005-12-31", format="%d/%m/%Y %H.%M", hour=True)
    answers = {
        "When": when,
        "CO": Number(0, 12, missing=[-200]),
        "Benzene": Number(0, 200),
    }
    expected = {"CO": np.where(value < 0, np.nan, value), "When": hours.to_numpy()}
    return [], given, answers, expected


def survey(path):
    """The answer None is a category, 99 is missing, grades are few, weights a curve."""
    table = pd.DataFrame({"grade": np.where(AGE % 9 == 0, 99, AGE % 6), "age": AGE})
    table["help"] = np.array(["None", "Some", "Much"])[AGE % 3]
    table["hour"] = AGE % 24
    table["content"] = np.array(["low", "middle", "high"])[np.digitize(AGE, [40, 70])]
    table.to_csv(path, index=False)
    answers = {
        "grade": Number(0, 5, basis="linear", missing=[99]),
        "age": Number(18, 100, knots=6, spacing="even"),
        "help": Category(["None", "Some", "Much"]),
        "hour": Number(0, 24, cyclic=True, knots=6),
        "content": Label(["low", "middle", "high"]),
    }
    expected = {"grade": np.where(AGE % 9 == 0, np.nan, AGE % 6.0)}
    return [], {"outcomes": ["content"]}, answers, expected


def claims(path):
    """A Parquet file with types: dates, booleans, durations, integers."""
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(
        {"since": pd.Timestamp("2020-01-01") + pd.to_timedelta(AGE, "D")}
    )
    table["young"] = AGE < 30
    table["stay"] = pd.to_timedelta(AGE, "h")
    table["claims"] = AGE % 4
    table.to_parquet(path)
    answers = {
        "since": Date("2020-01-01", "2020-12-31"),
        "stay": Number(0, 10),
        "claims": Number(0, 20),
    }
    expected = {"stay": AGE / 24}
    return ["young"], {"outcomes": ["claims"]}, answers, expected


@pytest.mark.parametrize(
    "file", [german_hospital, churn, air, survey, claims], ids=lambda f: f.__name__
)
@pytest.mark.filterwarnings("ignore::skfdp.UtilityWarning")
def test_a_file_is_drafted_declared_read_fitted_and_predicted(file, tmp_path):
    path = tmp_path / ("t.parquet" if file is claims else "t.csv")
    public, given, answers, expected = file(path)
    draft = TableSchema.draft(path, public, **given)
    names = [name for name in draft.columns if not name.startswith("Unnamed")]
    asked = {name for name in names if any(repr(name) in q for q in draft.questions)}
    assert asked <= answers.keys()  # nothing else is asked
    columns = {name: answers.get(name, draft.columns[name]) for name in names}
    schema = dataclasses.replace(draft, columns=columns)
    schema.save(tmp_path / "s.toml")
    schema = TableSchema.load(tmp_path / "s.toml")
    assert schema.check(path) == []
    table = schema.read(path)
    for name, values in expected.items():
        found = table[name].to_numpy()
        if np.asarray(values).dtype.kind == "f":
            np.testing.assert_allclose(found.astype(float), values)
        else:
            assert (found == values).all()
    (target,) = schema.outcomes
    number = isinstance(schema.columns[target], Number)
    kind = FeatureDPRegressor if number else FeatureDPLogisticRegression
    X, y = schema.split(path, target)
    model = kind(5.0, schema=schema, random_state=0).fit(X, y)
    assert len(model.predict(table[[*schema.features]])) == N
    assert model.privacy_.unit == ("person" if schema.group else "record")
