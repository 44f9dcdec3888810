"""Private values become integers at the door: a change below the grid changes nothing.

Every golden case is fitted to two tables whose private numbers differ by less than a
step of the grid. All releases, attributes and warnings must be equal to the last bit.
"""

import dataclasses
import warnings

import golden_cases
import numpy as np
import pandas as pd
import pytest
from golden_record import record

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, TableSchema
from skfdp.data.grid import InputScaler
from skfdp.data.records import Records
from skfdp.reader import TARGET_STEP
from skfdp.schema import Category, Label, Number

STEP = 2.0**-14
TABLE = golden_cases.table
BY_NAME = {case["name"]: case for case in golden_cases.CASES}
#: Rows of one norm are divided before they are quantised, so cells have no fixed place.
TINY = 1e-6
#: Fits without privacy, and releases that find the grid, read floats.
EXCEPTIONS = [
    name
    for name, case in BY_NAME.items()
    if "private" in (case["params"].get("bounds"),)
    or any(part in name for part in ("no privacy", "Algorithm 2", "adaptive"))
]


def normalizes(case):
    centring = case["estimator"] == golden_cases.CENTRING
    return centring or getattr(case["params"].get("solver"), "normalize", False)


def public(case):
    named = case["params"].get("public_features", [])
    if named in ("all", ["pub*"]):  # every column, or the first two
        return np.arange(6) < (6 if named == "all" else 2)
    return np.isin(np.arange(6), named)


def moved(case, share):
    """Return the table in the middle of its cells, moved by a share of a cell."""
    X, y = TABLE(case["data"])
    own = public(case) if X.shape[1] == 6 else np.zeros(X.shape[1], bool)
    rng = np.random.default_rng(0)
    step = (np.floor(X / STEP) + 0.5 + share * rng.uniform(-1, 1, X.shape)) * STEP
    X = np.where(own | (X == 0), X, step)
    bounds = case["params"].get("target_bounds")
    if bounds is not None and not case["params"].get("public_target"):
        width = (bounds[1] - bounds[0]) * TARGET_STEP
        y = bounds[0] + np.rint((y - bounds[0]) / width) * width
        y = np.clip(y + share * width * rng.uniform(-1, 1, y.shape), *bounds)
    return X, y


def fitted(case, share, monkeypatch):
    found = moved(case, share)
    monkeypatch.setattr(golden_cases, "table", lambda name: found)
    monkeypatch.setattr(golden_cases, "_output", lambda model, X: np.zeros(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = record(case)
    return made, [str(one.message) for one in caught]


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in EXCEPTIONS])
def test_a_change_below_the_grid_changes_nothing(name, monkeypatch):
    case = BY_NAME[name]
    share = TINY if normalizes(case) else 0.4
    one, other = (fitted(case, sign * share, monkeypatch) for sign in (1, -1))
    assert one == other


SCHEMA = {
    "age": Number(0, 64, knots=5),
    "paid": Number(0, 1, basis="linear"),
    "ward": Category(["A", "B", "C"]),
}


@pytest.mark.parametrize("outcome", ["two", "number"])
@pytest.mark.parametrize("public_column", ["age", "ward", None])
def test_of_encoded_columns_too(outcome, public_column):
    named = SCHEMA.items()
    columns = {n: dataclasses.replace(c, public=n == public_column) for n, c in named}
    columns[outcome] = {"two": Label([0, 1]), "number": Number(0, 3)}[outcome]
    kind = {"two": FeatureDPLogisticRegression, "number": FeatureDPRegressor}[outcome]
    model = kind(schema=TableSchema(columns, outcomes=[outcome]), random_state=0)
    cells, found = np.random.default_rng(0).integers(0, 2**14, (2, 300)), []
    for share in (0.6, 0.9):
        age = (4 * cells[0] + share * (public_column != "age")) / 2**10
        paid, ward = (cells[1] + share) / 2**14, np.tile([*"ABC"], 100)
        table = pd.DataFrame({"age": age, "paid": paid, "ward": ward})
        y = pd.Series(cells[1] > 2**13, name=outcome).astype(int)
        found.append(model.fit(table, y).coef_.tolist())
    assert found[0] == found[1]


def test_a_float_beside_the_integers_is_noticed(monkeypatch):
    """The rule turns red if one pass reads the rows before they are cut to the grid."""

    def floats(self, rows):
        return self.of[rows]

    honest = Records.integers.func

    def leaking(self):
        found, private = honest(self), ~self.public.mask
        own = self.public.input_scaler.part(private).scale(
            np.asarray(self.X)[:, private]
        )
        object.__setattr__(found, "of", own)
        return found

    case = BY_NAME[f"{golden_cases.NETWORK}: nothing public"]
    monkeypatch.setattr("skfdp.data.grid.GridRows.floats", floats)
    monkeypatch.setattr(Records.integers, "func", leaking)
    one, other = (fitted(case, sign * 0.4, monkeypatch) for sign in (1, -1))
    assert one != other


def test_the_grid_is_that_of_the_bounds():
    """A step is 2**-14 of the bounds, or of 8 in a column without bounds."""
    bounded = InputScaler(np.zeros(2), np.full(2, 4.0))
    assert bounded.reach == 1 and InputScaler().reach == 8
    assert np.array_equal(bounded.door(np.array([[1.0, 5.0]])), [[0.25, 1.0]])
