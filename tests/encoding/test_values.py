"""Values are read alike in whatever type their column comes."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from skfdp import DeclaredEncoder, TableSchema
from skfdp.data.cells import places_of, read_as
from skfdp.data.target import MISSING_CELL, as_number, moment, spelling_of
from skfdp.schema import Category, Date, Number

DECLARED = {
    "number": Number(-5, 300, basis="linear"),
    "date": Date("2019-05-05", "2021-01-01", basis="linear"),
    "category": Category([7, 2.5, "a b", 300, -1, True]),
}
NAMES = list(DECLARED)


def encoded(columns):
    """Return each of the three columns of a frame encoded as each of three kinds."""
    return DeclaredEncoder(TableSchema(DECLARED)).fit_transform(columns)


VALUES = [None, math.nan, pd.NA, pd.NaT, math.inf, -math.inf, 0, 1, True, False, 2.5]
OLD_PANDAS = Version(pd.__version__) < Version("3")
VALUES += [10**400, -(10**400), 2**63, 2**64, np.float32(2.5), np.int8(1)]
VALUES += [np.bool_(True), *map(decimal.Decimal, ("2.5", "sNaN", "-Infinity"))]
VALUES += ["", "2.5", "a b", b"1", b"\xff", "2020-02-29", [1], {}, (), object(), 1j]
VALUES += [datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 10)]
VALUES += [datetime.time(1), datetime.timedelta(1), np.timedelta64(5, "ns")]
VALUES += [pd.Timestamp("2020-02-29", tz="Asia/Tokyo"), np.datetime64("2020-02", "M")]
VALUES += [np.datetime64("NaT"), np.datetime64(2**62, "D"), np.datetime64(-1, "as")]
VALUES += [pd.Timestamp("2020-02-29 10:00:00.123456789"), np.timedelta64("NaT")]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(range(len(VALUES))), min_size=1, max_size=5))
def test_a_row_is_encoded_as_if_it_stood_alone(chosen):
    def table(rows):
        cells = np.empty((len(rows), 3), dtype=object)
        for i, j in np.ndindex(cells.shape):
            cells[i, j] = VALUES[rows[i]]
        return pd.DataFrame(cells, columns=NAMES)

    if OLD_PANDAS:  # which cannot hold larger ones
        small = [type(one) is not int or abs(one) < 2**100 for one in VALUES]
        chosen = [row for row in chosen if small[row]] or [0]

    def inferred(rows):
        return pd.DataFrame({n: pd.Series([VALUES[r] for r in rows]) for n in NAMES})

    alone = np.vstack([encoded(table([row])) for row in chosen])
    np.testing.assert_array_equal(encoded(table(chosen)), alone)
    # pandas itself turns True beside 2.5 into 1.0, cuts what leaves int64, and so on
    plain = [row for row in chosen if type(VALUES[row]) in (int, float, str)]
    plain = [row for row in plain if abs(as_number(VALUES[row])) < 2**63]
    if plain:
        found = encoded(inferred(plain))
        np.testing.assert_array_equal(found, encoded(table(plain)))


NUMBERS = {12.0: ["12"], 3.5: [" 3.5 "], 1.0: ["true", True], 7.0: [b"7"]}
NUMBERS |= {2.5: [decimal.Decimal("2.5")], 0.5: [np.timedelta64(12, "h")]}
NUMBERS |= {6.5: [datetime.time(6, 30)], math.nan: ["1_000", "inf", 10**400, "twelve"]}
NUMBERS[math.nan] += [datetime.date(2020, 1, 1), "9" * 5000]


def test_numbers():
    for expected, values in NUMBERS.items():
        np.testing.assert_equal([*map(as_number, values)], [expected] * len(values))
    assert not np.isinf([*map(as_number, VALUES)]).any()


@pytest.mark.parametrize(
    ("declared", "same"),
    [
        (1, ["1", 1, 1.0, "01", "1.0", " 1 ", np.int8(1), decimal.Decimal(1), b"1"]),
        (1, [True, np.bool_(True), "1e0"]),
        (True, ["True", True, "true", " TRUE ", np.bool_(True), 1, "1.0"]),
        (math.inf, ["inf", math.inf, "Infinity", "1e400"]),
        (0.1, ["0.1", 0.1, "0.10", ".1", np.float32(0.1)]),
        (0, ["-0", 0, 0.0, -0.0, "00"]),
        ("1", ["1", " 1 ", 1, 1.0, b"1"]),
        ("true", ["true", "TRUE", True]),
        ("2020-02-29", [datetime.date(2020, 2, 29), pd.Timestamp("2020-02-29")]),
        ("ä b", ["ä b", " a\u0308 b"]),
    ],
    ids=repr,
)
def test_spellings_of_one_category(declared, same):
    spelling = spelling_of([declared], "x")
    assert {spelling.place(value) for value in same} == {0}


def test_different_categories_and_missing_cells_stay_so():
    missing = [None, math.nan, pd.NA, pd.NaT, "", "  ", "nan", np.datetime64("NaT")]
    assert {spelling_of(["a"], "x").place(cell) for cell in missing} == {MISSING_CELL}
    values = ["1", "True", "2", "A", "a", "inf", "-inf", "1_0", "01", "1.0", "1e0"]
    spelling = spelling_of(values, "x")
    assert [spelling.place(value) for value in values] == list(range(len(values)))


DATES = {
    "2020-02-29T00:00:00": ["2020-02-29", datetime.date(2020, 2, 29), 20200229],
    "2020-02-29": ["20200229", "20200229.0"],
    "2020-02-29T13:30:00": [" 2020-02-29 13:30", "20200229T133000"],
    "2020-02-29T23:30:00": ["2020-02-29T23:30:00-08:00"],
    "2020-02-29T23:30": [pd.Timestamp("2020-02-29 23:30", tz="US/Pacific")],
    "2020-02-01": [np.datetime64("2020-02", "M")],
    "NaT": ["2020-02-30", 20200230, 2020022, 20200229.5, True, pd.NaT, None],
    "": ["2020-02-29 at noon"],
}


def test_dates():
    for expected, values in DATES.items():
        wanted = [np.datetime64(expected or None, "us")] * len(values)
        np.testing.assert_equal([*map(moment, values)], wanted)


def test_parts_of_dates():
    days = pd.date_range("1899-12-25", "2101-01-09", freq="53h")
    column = pd.Series(days)
    np.testing.assert_array_equal(read_as("month", column), days.month - 1)
    weekdays = [day.weekday() for day in days]
    np.testing.assert_array_equal(read_as("weekday", column), weekdays)
    since = (days - pd.Timestamp(0)) / pd.Timedelta(1, "D")
    np.testing.assert_allclose(read_as("date", column), since, rtol=0, atol=1e-9)


pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")


def test_columns_that_hold_no_value_of_ours():
    times, lists = [1, None, 10**9], [[1, 2], None, [3, 4]]
    of_polars, kinds = pl.Series(times, dtype=pl.Int64), (pa.duration, pa.time64)
    for raw in (
        *(lists, pl.Series(lists), of_polars.cast(pl.Duration("ns"))),
        *(pa.chunked_array([pa.array(times, kind("ns"))]) for kind in kinds),
        of_polars.cast(pl.Time),
        pd.Series(times, dtype="Int64").astype("timedelta64[ns]"),
        pd.Series(pd.PeriodIndex(["2020-01", None, "2020-02"], freq="M")),
        pd.Series(pd.arrays.IntervalArray.from_tuples([(0, 1), None, (1, 2)])),
    ):
        found = [np.isnan(read_as(what, raw)).tolist() for what in ("number", "date")]
        # A value is of one kind at most; see tests/encoding/test_column_types.py.
        assert all(one[1] for one in found) and any(all(one) for one in found)
        assert places_of(raw, spelling_of(["a"], "x"), 0, 1).tolist() == [0, 1, 0]


def test_numbers_and_dates_beyond_those_of_python():
    assert np.isnan(read_as("number", np.array([np.longdouble("1e4000")]))).all()
    years = np.array(["30000-02-03", "0001-01-01"], dtype="M8[D]")
    for raw in (years, [*years]):
        spelling = spelling_of(["a", "b", "30000-02-03"], "x")
        assert places_of(raw, spelling, 0, 1).tolist() == [2, 0]
    far = np.array([2**62, -(2**62)], dtype="M8[D]")
    assert (np.abs(read_as("date", far)) < 1e8).all()
