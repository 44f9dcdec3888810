"""Raw tables as an attacker would write them: nothing of a private cell is told."""

import traceback

import numpy as np
import pandas as pd
import pytest

from skfdp import DeclaredEncoder, DPSGDFClassifier, TableSchema
from skfdp.data.arrays import Column
from skfdp.data.target import spelling_of
from skfdp.privacy import AddOrRemoveOne
from skfdp.schema import Label, Number
from skfdp.solvers import NoisyGradientDescent

pytestmark = pytest.mark.filterwarnings("ignore")
LOOP = {"solver": NoisyGradientDescent(max_iter=1)}


def declared(**columns):
    """Return a schema of some columns and of the outcome "y"."""
    return TableSchema({**columns, "y": Label([0, 1])}, outcomes=["y"])


@pytest.mark.parametrize(
    "table",
    [np.array([0.1234567, 0.5]), [[0.1234567, 0.5], [0.25]], [0.1234567], "1234567"],
    ids=["one column", "a row that is too short", "a list", "text"],
)
def test_a_table_of_another_shape_is_refused_and_not_quoted(table):
    schema = declared(a=Number(0, 1), b=Number(0, 1))
    encoder = DeclaredEncoder(schema)
    fitted = DeclaredEncoder(schema).fit(pd.DataFrame({"a": [0], "b": [0]}))
    model = DPSGDFClassifier(schema=schema)
    for use in (encoder.fit, fitted.transform, lambda X: model.fit(X, [0, 1])):
        match = "no names of columns|X is a path"
        with pytest.raises((ValueError, TypeError), match=match) as caught:
            use(table)
        text = "".join(traceback.format_exception_only(caught.value))
        assert "1234567" not in text
        assert caught.value.__context__ is None


def frames():
    """Yield what makes a table of some columns, by library."""
    yield pd.DataFrame
    for library in ("polars", "pyarrow"):
        try:
            found = __import__(library)
        except ImportError:
            continue
        yield found.DataFrame if library == "polars" else found.table


def test_whether_there_is_a_record_is_not_told_where_that_is_private():
    schema = declared(a=Number(0, 1), b=Number(0, 1))
    for make in frames():
        empty = make({"a": np.empty(0), "b": np.empty(0)})
        one = make({"a": np.array([0.5]), "b": np.array([0.5])})
        # The number of rows to transform or to predict is public.
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            DeclaredEncoder(schema).fit(empty).transform(empty)
        model = DPSGDFClassifier(
            schema=schema, neighboring_relation=AddOrRemoveOne(10), **LOOP
        )
        model.fit(empty, np.empty(0, dtype=int))
        assert model.coef_.shape == model.fit(one, [1]).coef_.shape
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            model.predict(empty)
        model.set_params(neighboring_relation="replace_one")
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            model.fit(empty, np.empty(0, dtype=int))


def zoned(number, unit, zone):
    """Yield columns of a time zone that hold a number of units since 1970, and 0."""
    stamps = np.array([number, 0]).astype(f"datetime64[{unit}]")
    series = pd.Series(stamps).dt.tz_localize("UTC").dt.tz_convert(zone)
    yield series
    pa = pytest.importorskip("pyarrow")
    yield pa.chunked_array([pa.array([number, 0], pa.timestamp(unit, tz=zone))])
    pl = pytest.importorskip("polars")
    if unit != "s":  # which polars has not
        yield pl.Series([number, 0]).cast(pl.Datetime(unit, zone))
        yield pl.Series([number, None, 0]).cast(pl.Datetime(unit, zone))[[0, 2]]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "UTC"])
@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_no_date_of_a_time_zone_is_an_error(zone, unit):
    start = pd.Timestamp(0, tz=zone).tz_localize(None) - pd.Timestamp(0)
    for number in (2**63 - 1, -(2**63) + 1, 2**62, 253402300799 * 10**6):
        for raw in zoned(number, unit, zone):
            column = Column(raw)
            days = column.read("date")
            assert np.isfinite(days).all()
            assert days[1] == pytest.approx(start / pd.Timedelta(days=1))
            assert np.isfinite([column.read(p) for p in ("month", "weekday")]).all()


def test_a_value_without_text_is_another_category():
    class Silent:
        def __str__(self):
            raise RuntimeError("secret")

    values = np.array([Silent(), [10**5000], "a", None], dtype=object)
    assert Column(values).places(spelling_of(["a"], "x"), 1, 2).tolist() == [1, 1, 0, 2]
    for what in ("number", "date", "month", "weekday"):
        assert np.isnan(Column(values).read(what)).all()
