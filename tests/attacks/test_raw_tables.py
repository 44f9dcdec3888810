"""Raw tables as an attacker would write them: nothing of a private cell is told."""

import traceback

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skfdp import (
    DeclaredEncoder,
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    report,
)
from skfdp.data.arrays import Column
from skfdp.data.target import spelling_of
from skfdp.experimental import PrivateSearchCV
from skfdp.privacy import AddOrRemoveOne
from skfdp.privacy.assumptions import CATEGORIES_OF_TYPES
from skfdp.solvers import NoisyGradientDescent

pytestmark = pytest.mark.filterwarnings("ignore")
BOUNDS = {0: (0, 1), 1: (0, 1)}


@pytest.mark.parametrize(
    "table",
    [np.array([0.1234567, 0.5]), [[0.1234567, 0.5], [0.25]], [0.1234567], "1234567"],
    ids=["one column", "a row that is too short", "a list", "text"],
)
def test_a_table_of_another_shape_is_refused_and_not_quoted(table):
    encoder = DeclaredEncoder(BOUNDS)
    fitted = DeclaredEncoder(BOUNDS).fit(np.zeros((2, 2)))
    model = DPSGDFClassifier(
        encoder=encoder, classes=[0, 1], solver=NoisyGradientDescent(max_iter=2)
    )
    for use in (encoder.fit, fitted.transform, lambda X: model.fit(X, [0, 1])):
        match = "Expected 2D array|X is a path"
        with pytest.raises((ValueError, TypeError), match=match) as caught:
            use(table)
        text = "".join(traceback.format_exception_only(caught.value))
        assert "1234567" not in text
        assert caught.value.__context__ is None


def frames():
    """Yield what makes a table of some columns, by library."""
    yield pd.DataFrame
    yield lambda columns: np.column_stack(list(columns.values()))
    for library in ("polars", "pyarrow"):
        try:
            found = __import__(library)
        except ImportError:
            continue
        yield found.DataFrame if library == "polars" else found.table


@pytest.mark.parametrize("sparse", [False, True])
def test_whether_there_is_a_record_is_not_told_where_that_is_private(sparse):
    for make in frames():
        empty = make({"a": np.empty(0), "b": np.empty(0)})
        keys = [0, 1] if isinstance(empty, np.ndarray) else ["a", "b"]
        encoder = DeclaredEncoder(
            {key: (0, 1) for key in keys}, interactions=[keys], sparse_output=sparse
        )
        model = DPSGDFClassifier(
            encoder=encoder,
            classes=[0, 1],
            neighboring_relation=AddOrRemoveOne(10),
            solver=NoisyGradientDescent(max_iter=2),
        )
        model.fit(empty, np.empty(0, dtype=int))
        one = make({"a": np.array([0.5]), "b": np.array([0.5])})
        assert model.coef_.shape == model.fit(one, [1]).coef_.shape
        # Elsewhere the number is public, and so it is of rows to predict.
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            model.predict(empty)
        for use in (encoder.fit, encoder.fit(one).transform):
            with pytest.raises(ValueError, match=r"0 sample\(s\)"):
                use(empty)
        model.set_params(neighboring_relation="replace_one", n_records=None)
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


LOOP = {"classes": [0, 1], "solver": NoisyGradientDescent(max_iter=1)}
ENCODER = DeclaredEncoder({1: (0, 1)}, {0: [False, True]})


def test_one_entry_of_a_list_is_the_type_of_no_other_in_a_search():
    X, y = [[True, i / 20] for i in range(20)], [0, 1] * 10
    model = DPSGDFClassifier(encoder=ENCODER, **LOOP)
    search = PrivateSearchCV(model, {"solver__learning_rate": [0.1]})
    for label in (0, "secret", None, np.nan, [1]):
        assert hasattr(search.fit(X, [label, *y[1:]]), "best_score_")
    for cell in (0.5, None, "secret"):
        records = search._records([[True, cell], *X[1:]], y)
        found = ENCODER.fit(records.X).transform(records.rows(np.arange(1, 20)))
        assert found[:, 1].all()  # True, not 1.0, which is no category


def test_categories_that_a_type_holds_are_an_assumption():
    """pandas infers them from the rows, and they are the names of released weights."""
    table = pd.DataFrame({"city": ["Ulm", "Bonn"] * 10, "age": np.arange(20.0)})
    table["city"] = table["city"].astype("category")
    y, bounds = [0, 1] * 10, {"age": (0, 20)}
    inferred, declared = DeclaredEncoder(bounds), DeclaredEncoder(bounds)
    declared.set_params(categories={"city": ["Ulm", "Bonn"]})

    def told(encoder, X=table, **more):
        model = FeatureDPLogisticRegression(
            encoder=encoder,
            classes=[0, 1],
            solver=NoisyGradientDescent(max_iter=1),
            **more,
        )
        found = {one.text: one.enforced for one in model.fit(X, y).privacy_.assumptions}
        return found.get(CATEGORIES_OF_TYPES)

    assert told(inferred) is False
    assert told(declared) is None
    assert told(inferred, public_features=["city"]) is None
    assert told(inferred, table.assign(city=[True, False] * 10)) is None
    for encoder, expected in ((inferred, True), (declared, False)):
        model = DPSGDFClassifier(
            classes=[0, 1], bounds=(0, 1), solver=NoisyGradientDescent(max_iter=1)
        )
        found = report(make_pipeline(encoder, model).fit(table, y))
        texts = [one.text for one in found.assumptions]
        assert (CATEGORIES_OF_TYPES in texts) == expected
        search = PrivateSearchCV(
            DPSGDFClassifier(
                encoder=encoder, classes=[0, 1], solver=NoisyGradientDescent(max_iter=1)
            ),
            {"solver__learning_rate": [0.1]},
        )
        texts = [one.text for one in search.fit(table, y).privacy_.assumptions]
        assert (CATEGORIES_OF_TYPES in texts) == expected
