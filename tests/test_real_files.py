"""Three files as owners have them, each by a draft whose questions are answered."""

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


def visits(path):
    """Codes with leading zeros, Yes and No, an empty cell, days first, persons."""
    codes = np.array(["01067", "01069", "80331"])[AGE % 3]
    own, days = np.arange(N), pd.Timestamp("2024-01-31") + pd.to_timedelta(AGE, "D")
    table = pd.DataFrame({"Größe": AGE, "zip": codes, "person": own // 2})
    table["customerID"] = [f"{i:04}-XY" for i in own]
    table["visit"] = days.strftime("%d.%m.%Y")
    table["smokes"] = np.array(["ja", "nein", "k. A."])[AGE % 3]
    table["PhoneService"] = np.where(AGE % 2, "Yes", "No")
    table["TotalCharges"] = np.where(AGE > 20, (AGE * 10.5).astype(str), " ")
    table["Churn"] = np.where(ILL, "Yes", "No")
    table.to_csv(path, index=False)
    answers = {
        "Größe": Number(0, 120),
        "customerID": Ignore(),
        "zip": Category(["01067", "01069", "80331"]),
        "visit": Date("2024-01-01", "2024-12-31", format="%d.%m.%Y"),
        "smokes": Boolean(true=["ja"], false=["nein"], missing=["k. A."]),
        "TotalCharges": Number(0, 2000),
        "Churn": Boolean(true=["Yes"], false=["No"]),
    }
    expected = {"zip": codes, "TotalCharges": np.where(AGE > 20, AGE * 10.5, np.nan)}
    given = {"outcomes": ["Churn"], "group": "person"}
    return ["PhoneService"], given, answers, expected | {"visit": days.to_numpy()}


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


@pytest.mark.parametrize("file", [visits, survey, claims], ids=lambda f: f.__name__)
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
