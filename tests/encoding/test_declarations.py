"""Declarations that cannot be meant are refused, in one sentence."""

import datetime

import numpy as np
import pandas as pd
import pytest

from skfdp import DeclaredEncoder, TableSchema
from skfdp.schema import Category, Date, Number

DAYS = ("2020-01-01", "2025-12-31")


def schema(**changed):
    columns = {
        "age": Number(17, 90),
        "hour": Number(0, 24),
        "sex": Category(["F", "M"]),
        "admitted": Date(*DAYS),
    }
    return TableSchema(columns | changed)


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"age": Number(90, 17)}, "lower one first"),
        ({"age": Number(17, 17)}, "lower one first"),
        ({"age": Number(17, float("inf"))}, "two finite numbers"),
        ({"age": Number(17, float("nan"))}, "two finite numbers"),
        ({"age": Number("17", "90")}, "two finite numbers"),
        ({"age": Number(17, "2020-01-01")}, "two finite numbers"),
        ({"age": Number(False, True)}, "two finite numbers"),
        ({"age": Number(*DAYS)}, "'age' are .*two finite numbers"),
        ({"admitted": Date(*DAYS[::-1])}, "earlier one first"),
        ({"admitted": Date(0, 9)}, "must be two dates"),
        ({"sex": Category("FM")}, "must be a list of categories"),
        ({"sex": Category({"F", "M"})}, "must be a list of categories"),
        ({"sex": Category(["1", "F", 1.0])}, "'1' and 1.0, which are the same cat"),
        ({"sex": Category(["F", None])}, "is a missing value: leave it out"),
        ({"sex": Category(["F", ""])}, "is a missing value: leave it out"),
        ({"age": Number(17, 90, basis="splines")}, "basis of 'age'='splines' is unk"),
        ({"hour": Number(0, 24, basis="linear", cyclic=True)}, "impossible with basis"),
        ({"age": Number(17, 90, knots=1)}, "an int > 1 and < 1001"),
        ({"age": Number(17, 90, knots=10**6)}, "knots of 'age'=1000000 must be an int"),
        ({"age": Number(17, 90, knots=2.5)}, "an int > 1"),
        ({"age": Number(17, 90, knots="many")}, "an int > 1"),
        ({"age": Number(17, 90, knots=[17])}, "2 to 1000 numbers in ascending order"),
        ({"age": Number(17, 90, knots=[17, 30, 30])}, "ascending"),
        ({"age": Number(0, 2000, knots=range(1001))}, "must be 2 to 1000 numbers"),
        ({"age": Number(17, 90, knots=[0, 30])}, "within the bounds"),
        ({"age": Number(17, 90, knots=[*DAYS])}, "within the bounds"),
        ({"hour": Number(0, 24, knots=[0, 24], cyclic=True)}, "must be 3 to 1000 numb"),
        ({"hour": Number(0, 24, knots=[0, 6, 12], cyclic=True)}, "to the upper bound"),
        ({"age": Number(17, 90, spacing="random")}, "spacing of 'age'='random' is unk"),
        ({"hour": Number(-1, 24, spacing="geometric")}, "'hour' needs a minimum of 0"),
    ],
)  # fmt: skip
def test_refusals(changed, words):
    with pytest.raises(ValueError, match=words) as refused:
        schema(**changed)
    assert str(refused.value).endswith(".")


def test_parameters_of_the_encoder():
    table = pd.DataFrame({"age": [35.0]})
    with pytest.raises(ValueError, match="sparse_output=3 must be True or False"):
        DeclaredEncoder(schema(), sparse_output=3).fit(table)
    for given in (None, {"age": (17, 90)}, TableSchema):
        with pytest.raises(TypeError, match=r"schema=.* must be a TableSchema\."):
            DeclaredEncoder(given).fit(table)
    with pytest.raises(ValueError, match="lacks the columns hour, sex, admitted"):
        DeclaredEncoder(schema()).fit(table)
    with pytest.raises(ValueError, match="not complete: declare minimum and maximum"):
        DeclaredEncoder(TableSchema({"age": Number()})).fit(table)


def test_names_that_collide():
    with pytest.raises(ValueError, match="'a.month'"):
        TableSchema({"a": Date(*DAYS), "a.month": Number(0, 1)})
    with pytest.raises(ValueError, match="'a__x__y'"):
        TableSchema({"a": Category(["x__y"]), "a__x": Category(["y"])})
    table = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="'a'"):
        DeclaredEncoder(TableSchema({"a": Number(0, 1)})).fit(table)


@pytest.mark.parametrize(
    "days",
    [
        DAYS,
        [datetime.date(2020, 1, 1), datetime.datetime(2025, 12, 31)],
        tuple(pd.to_datetime(DAYS)),
        np.array(DAYS, dtype="M8[D]"),
    ],
    ids=lambda days: type(days[0]).__name__,
)
def test_spellings_of_dates(days):
    blocks = schema(admitted=Date(*days)).blocks()
    block = next(block for block in blocks if block.name == "admitted")
    assert block.knots[[0, -1]].tolist() == [18262, 20453]


def test_settings_by_column_have_defaults():
    blocks = schema(
        age=Number(17, 90, basis="linear", spacing="geometric"),
        hour=Number(0, 24, knots=3),
    ).blocks()
    kinds = {block.name: (block.kind, len(block.levels)) for block in blocks}
    assert kinds["age"] == ("linear", 2) and kinds["hour"] == ("spline", 4)
    assert kinds["admitted"] == ("spline", 9)


def test_steps_from_0_are_geometric_unless_the_column_is_a_date_or_closed():
    columns = {"paid": Number(0, 64), "hour": Number(0, 24, cyclic=True)}
    columns |= {"age": Number(17, 90), "seen": Date("1970-01-01", "1970-03-01")}
    blocks = TableSchema(columns).blocks()
    paid, hour, age, seen = (b.knots for b in blocks if b.kind == "spline")
    np.testing.assert_allclose(paid, [0, 1, 2, 4, 8, 16, 32, 64])
    for knots in (hour, age, seen):
        np.testing.assert_allclose(np.diff(knots, 2), 0, atol=1e-9)
    for high, is_amount in ((6, False), (31, False), (32, True), (6.5, True)):
        grade = Number(0, high).blocks("grade", 0)[0].knots
        assert (np.ptp(np.diff(grade)) > 1e-9) == is_amount
    even = Number(0, 64, spacing="even").blocks("paid", 0)[0].knots
    np.testing.assert_allclose(even, np.linspace(0, 64, 8))
