"""Declarations that cannot be meant are refused, in one sentence."""

import datetime

import numpy as np
import pandas as pd
import pytest

from skfdp import DeclaredEncoder

TABLE = pd.DataFrame(
    {
        "age": [35.0],
        "hour": [3],
        "sex": ["F"],
        "admitted": pd.to_datetime(["2024-02-29"]),
    }
)
DAYS = ("2020-01-01", "2025-12-31")
BOUNDS = {"age": (17, 90), "hour": (0, 24), "admitted": DAYS}


def fit(**changed):
    declared = {"bounds": BOUNDS, "categories": {"sex": ["F", "M"]}}
    return DeclaredEncoder(**declared | changed).fit(TABLE)


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"bounds": BOUNDS | {"agee": (0, 1)}}, "'agee', which is no column of X"),
        ({"bounds": BOUNDS | {0: (0, 1)}}, "bounds names 0, .* by its name"),
        ({"bounds": BOUNDS | {"age": (90, 17)}}, "lower one first"),
        ({"bounds": BOUNDS | {"age": (17, 17)}}, "lower one first"),
        ({"bounds": BOUNDS | {"age": (17, float("inf"))}}, "finite"),
        ({"bounds": BOUNDS | {"age": (17, float("nan"))}}, "finite"),
        ({"bounds": BOUNDS | {"age": (17,)}}, "two finite numbers"),
        ({"bounds": BOUNDS | {"age": 17}}, "two finite numbers"),
        ({"bounds": BOUNDS | {"age": ("17", "90")}}, "two finite numbers"),
        ({"bounds": BOUNDS | {"age": (17, "2020-01-01")}}, "two finite numbers"),
        ({"bounds": BOUNDS | {"age": (False, True)}}, "two finite numbers"),
        ({"bounds": BOUNDS | {"admitted": DAYS[::-1]}}, "lower one first"),
        ({"bounds": BOUNDS | {"admitted": (0, 9)}}, "must be two dates"),
        ({"bounds": BOUNDS | {"hour": DAYS}}, "must be two numbers"),
        ({"bounds": BOUNDS | {"sex": (0, 1)}}, "declared in bounds and in categories"),
        ({"ignore": "age"}, "'age' is declared in bounds and in ignore"),
        ({"ignore": 5.0}, "must be a list of columns"),
        ({"categories": {"sex": "FM"}}, "must be a list of categories"),
        ({"categories": {"sex": {"F", "M"}}}, "must be a list of categories"),
        ({"categories": {"sex": []}}, "is empty"),
        ({"categories": {"sex": ["1", "F", 1.0]}}, "'1' and 1.0, which are one cat"),
        ({"categories": {"sex": ["F", None]}}, "is a missing value: leave it out"),
        ({"categories": {"sex": ["F", ""]}}, "is a missing value: leave it out"),
        ({"categories": ["sex"]}, "must be a mapping"),
        ({"basis": "splines"}, "basis='splines' is unknown"),
        ({"basis": {"age": "splines"}}, "basis='splines' is unknown"),
        ({"basis": {"sex": "hats"}}, "basis names 'sex', which has no bounds"),
        ({"basis": "linear", "cyclic": ["hour"]}, "'hour', whose basis is 'linear'"),
        ({"cyclic": ["sex"]}, "cyclic names 'sex', which has no bounds"),
        ({"n_knots": 1}, "an int > 1 or 'auto'"),
        ({"n_knots": 2.5}, "an int > 1"),
        ({"n_knots": "many"}, "an int > 1"),
        ({"n_knots": {"age": [17]}}, "at least 2 knots"),
        ({"n_knots": {"age": [17, 30, 30]}}, "ascending"),
        ({"n_knots": {"age": [0, 30]}}, "within the bounds"),
        ({"n_knots": {"age": ["2020-01-01", "2021-01-01"]}}, "within the bounds"),
        ({"n_knots": {"hour": [0, 24]}, "cyclic": ["hour"]}, "at least 3 knots"),
        ({"n_knots": {"hour": [0, 6, 12]}, "cyclic": ["hour"]}, "from bound to bound"),
        ({"spacing": "random"}, "spacing='random' is unknown"),
        ({"bounds": BOUNDS | {"hour": (-1, 24)}, "spacing": {"hour": "geometric"}},
         "'hour' has not: use 'even'"),
        ({"spacing": {"admitted": "geometric"}}, "'admitted' has not: use 'even'"),
        ({"interactions": None}, "must be a list of pairs"),
        ({"interactions": "age"}, "must be a list of pairs"),
        ({"interactions": ["age"]}, "must be a pair"),
        ({"interactions": [("age", "age")]}, "must be a pair of two"),
        ({"interactions": [("age", "sex", "hour")]}, "must be a pair"),
        ({"interactions": [("age", "sex"), ("sex", "age")]}, "twice"),
        ({"interactions": [("age", "weight")]}, "'weight', which is no column"),
        ({"categories": None, "ignore": "sex", "interactions": [("age", "sex")]},
         "'sex', which is ignored"),
        ({"sparse_output": 3}, "sparse_output=3 must be True or False"),
    ],
)  # fmt: skip
def test_refusals(changed, words):
    with pytest.raises(ValueError, match=words) as refused:
        fit(**changed)
    assert str(refused.value).endswith(".")


def test_one_error_names_all_columns_that_are_not_declared():
    with pytest.raises(ValueError, match="not from the rows") as refused:
        DeclaredEncoder({"hour": (0, 24)}).fit(TABLE)
    text = str(refused.value)
    assert text.startswith("3 column(s) of X are not declared")
    assert "'age', 'sex', 'admitted' bounds={'age': (low, high)}" in text
    assert "(first day, last day)" in text
    assert "categories={'age': [...]}" in text and "ignore" in text


def test_names_that_collide():
    table = pd.DataFrame({"a": [0], "b": [0], "a:b": [0]})
    with pytest.raises(ValueError, match="'a:b'"):
        DeclaredEncoder((0, 1), interactions=[("a", "b")]).fit(table)
    table = pd.DataFrame({"a": ["x"], "a__x": ["y"]})
    with pytest.raises(ValueError, match="'a__x__y'"):
        DeclaredEncoder(categories={"a": ["x__y"], "a__x": ["y"]}).fit(table)
    table = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="'a'"):
        DeclaredEncoder((0, 1)).fit(table)


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
    model = fit(bounds=BOUNDS | {"admitted": days})
    block = next(block for block in model.blocks_ if block.name == "admitted")
    assert block.knots[[0, -1]].tolist() == [18262, 20453]


def test_one_pair_of_bounds_is_for_every_column_without_categories():
    table = TABLE[["age", "hour", "sex"]].assign(smoker=[True], name=["x"])
    model = DeclaredEncoder((0, 100), {"sex": ["F"]}, ignore="name").fit(table)
    assert [b.kind for b in model.blocks_] == [
        "hats",
        "hats",
        "categories",
        "categories",
    ]


def test_bounds_go_before_the_categories_of_a_type():
    table = pd.DataFrame({"smoker": [True, False]})
    model = DeclaredEncoder({"smoker": (0, 1)}, basis="linear").fit(table)
    np.testing.assert_array_equal(model.transform(table)[:, 0], [1, 0])


def test_settings_by_column_have_defaults():
    model = fit(
        basis={"age": "linear"},
        n_knots={"hour": 3, "admitted": "auto"},
        spacing={"age": "geometric"},
    )
    kinds = {block.name: (block.kind, len(block.levels)) for block in model.blocks_}
    assert kinds["age"] == ("linear", 2) and kinds["hour"] == ("hats", 4)
    assert kinds["admitted"] == ("hats", 9)


def test_steps_from_0_are_geometric_unless_the_column_is_a_date_or_closed():
    bounds = {"paid": (0, 64), "hour": (0, 24), "age": (17, 90)}
    bounds |= {"seen": ("1970-01-01", "1970-03-01")}
    table = pd.DataFrame({"paid": [1], "hour": [2], "age": [3], "seen": ["1970-02-01"]})
    encoder = DeclaredEncoder(bounds, cyclic=["hour"]).fit(table)
    paid, hour, age, seen = (b.knots for b in encoder.blocks_ if b.kind == "hats")
    np.testing.assert_allclose(paid, [0, 1, 2, 4, 8, 16, 32, 64])
    for knots in (hour, age, seen):
        np.testing.assert_allclose(np.diff(knots, 2), 0, atol=1e-9)
    for high, is_amount in ((6, False), (31, False), (32, True), (6.5, True)):
        grade = DeclaredEncoder({0: (0, high)}).fit(np.zeros((2, 1))).blocks_[0].knots
        assert (np.ptp(np.diff(grade)) > 1e-9) == is_amount
    even = encoder.set_params(spacing={"paid": "even"}).fit(table).blocks_[0].knots
    np.testing.assert_allclose(even, np.linspace(0, 64, 8))
