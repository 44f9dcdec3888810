"""The encoder: it learns nothing, refuses odd declarations, and takes wide tables."""

import datetime
import json
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.exceptions import NotFittedError

from skfdp import DeclaredEncoder, FeatureDPLogisticRegression, TableSchema
from skfdp.data import records
from skfdp.data.encoder import MOST_DENSE
from skfdp.schema import Boolean, Category, Date, Ignore, Label, Number
from skfdp.solvers import FeatureDPSGD

pl = pytest.importorskip("polars")
FRAME = pd.DataFrame(
    {
        "Größe": [150.0, 201.5, None, 180.0],
        "sex": ["F", "M", "", "?"],
        "admitted": ["2024-02-29", None, "2020-01-01", "soon"],
        "smoker": pd.array([True, False, None, True], dtype="boolean"),
        "code": [1, 2, 3, 4],
        "name": ["a", "b", "c", "d"],
    }
)
DECLARED = {
    "Größe": Number(140, 210, knots=4, cyclic=True),
    "sex": Category(["F", "M"]),
    "admitted": Date(
        "2020-01-01", "2025-12-31", knots=np.array(["2020-01-01", "2023-01-01"])
    ),
    "smoker": Boolean(),
    "code": Category([1, 2, 3]),
    "name": Ignore(),
}


def encoder(**changed):
    return DeclaredEncoder(TableSchema(DECLARED | changed))


def numbers(X, **options):
    """Return an encoder of numbers from 0 to 1, and a frame of them."""
    X = pd.DataFrame(X, columns=list("abc")[: np.shape(X)[1]])
    columns = dict.fromkeys(X, Number(0, 1, **options))
    return DeclaredEncoder(TableSchema(columns)), X


def test_nothing_is_learnt_from_rows():
    """Neither values, their types, their order nor their number."""
    other = FRAME.iloc[::-1].reset_index(drop=True)
    other["Größe"], other["sex"], other["admitted"] = [1e9, -5.0, 3.0, None], 3.5, "?"
    first, second = encoder().fit(FRAME), encoder().fit(other[:1])
    assert pickle.dumps(first) == pickle.dumps(second)


def test_names_and_places_of_columns():
    model = encoder().fit(FRAME)
    names = "Größe sex admitted admitted.month admitted.weekday smoker code".split()
    assert [block.name for block in model.blocks_] == names
    names = model.get_feature_names_out()
    assert names[:5].tolist() == [*(f"Größe__{j}" for j in range(4)), "Größe__missing"]
    assert "admitted.month__Feb" in names
    assert "smoker__False" in names and len(set(names)) == len(names)
    ends = [block.stop for block in model.blocks_]
    assert [block.start for block in model.blocks_] == [0, *ends[:-1]]
    assert model.transform(FRAME).shape == (4, len(names)) == (4, ends[-1])
    assert list(model.feature_names_in_) == list(FRAME)
    assert [block.parent for block in model.blocks_] == [0, 1, 2, 2, 2, 3, 4]


def test_rows_are_the_blocks_side_by_side():
    model = encoder().fit(FRAME)
    found = model.transform(FRAME)
    columns = [FRAME[name] for name in model.schema.features]
    blocks = [block.encode(columns[block.parent]) for block in model.blocks_]
    np.testing.assert_array_equal(found, np.hstack(blocks))


@pytest.mark.parametrize("basis", ["spline", "linear"])
def test_sparse_rows_are_the_dense_ones_to_the_last_bit(basis):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 2, size=(300, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:4] = [[0, 0, 0], [1, 1, 1], [0.5, 0, 1], [np.nan] * 3]
    model, X = numbers(X, basis=basis)
    dense = model.fit(X).transform(X)
    sparse = model.set_params(sparse_output=True).transform(X)
    assert isinstance(sparse, csr_array) and sparse.dtype == dense.dtype == np.float64
    np.testing.assert_array_equal(sparse.toarray(), dense)
    expected = csr_array(dense)
    assert sparse.has_canonical_format
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(sparse, part), getattr(expected, part))
        assert getattr(sparse, part).dtype == getattr(expected, part).dtype


def test_categories_of_a_type_are_read_as_declared():
    dtype = pd.CategoricalDtype(["M", "F"])
    for library, kind in ((pd, dtype), (pl, pl.Enum(["M", "F"])), (pl, pl.Categorical)):
        table = library.DataFrame({"sex": library.Series(["F", None, "M"], dtype=kind)})
        model = DeclaredEncoder(TableSchema({"sex": Category(["M", "F"])})).fit(table)
        assert model.blocks_[0].levels == ("M", "F", "other", "missing")
        assert model.transform(table).argmax(axis=1).tolist() == [1, 3, 0]
        # The rows of a prediction may come in another type.
        text = pd.DataFrame({"sex": ["M", "other sex"]})
        assert model.transform(text).argmax(axis=1).tolist() == [0, 2]


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output(output):
    library = pytest.importorskip(output)
    model = encoder().set_output(transform=output)
    found = model.fit_transform(FRAME)
    assert isinstance(found, library.DataFrame)
    assert list(found.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(found.to_numpy(), encoder().fit_transform(FRAME))


@pytest.mark.parametrize(
    "table, words",
    [
        (csr_array(np.eye(2)), "sparse"),
        (pl.LazyFrame({"a": [1]}), "lazy"),
        (pd.Series([1.0]), "one column"),
        (np.ones(3), "without names of columns"),
        (pd.DataFrame(index=[0]), "without columns"),
    ],
    ids=lambda value: str(type(value)),
)
def test_tables_that_are_none(table, words):
    with pytest.raises(TypeError, match=words):
        numbers([[0.0]])[0].fit(table)


def test_a_fit_that_fails_leaves_no_fitted_encoder():
    encoder, X = numbers(np.zeros((4, 2)))
    encoder.fit(X)
    encoder.set_params(sparse_output="auto")
    with pytest.raises(ValueError, match="must be True or False"):
        encoder.fit(X)
    for call in (lambda: encoder.transform(X), encoder.get_feature_names_out):
        with pytest.raises(NotFittedError):
            call()


# -- declarations that cannot be meant -------------------------------------------------
DAYS = ("2020-01-01", "2025-12-31")
UNUSUAL = (1e16, 1e16 + 8), (-1e308, 1e308)
#: Bounds that are not two finite numbers.
ENDS = (17, np.inf), (17, np.nan), ("17", "90"), (17, DAYS[0]), (False, True), DAYS


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
        *(({"age": Number(*one)}, "lower one first") for one in ((90, 17), (17, 17))),
        *(({"age": Number(*one)}, "'age' are .*two finite numbers") for one in ENDS),
        *(({"age": Number(*one)}, "is too wide or too narrow") for one in UNUSUAL),
        ({"admitted": Date(*DAYS[::-1])}, "earlier one first"),
        ({"admitted": Date(0, 9)}, "must be two dates"),
        *(({"sex": Category(one)}, "be a list of categories") for one in ("FM", {"F"})),
        ({"sex": Category(["1", "F", 1.0])}, "'1' and 1.0, which are the same cat"),
        *(({"sex": Category([o])}, "is a missing value: leave") for o in (None, "")),
        ({"age": Number(17, 90, basis="splines")}, "basis of 'age'='splines' is unk"),
        ({"hour": Number(0, 24, basis="linear", cyclic=True)}, "impossible with basis"),
        ({"age": Number(17, 90, knots=1)}, "an int > 1 and < 1001"),
        ({"age": Number(17, 90, knots=10**6)}, "knots of 'age'=1000000 must be an int"),
        *(({"age": Number(17, 90, knots=one)}, "an int > 1") for one in (2.5, "many")),
        ({"age": Number(17, 90, knots=[17])}, "2 to 1000 numbers in ascending order"),
        ({"age": Number(17, 90, knots=[17, 30, 30])}, "ascending"),
        ({"age": Number(0, 2000, knots=range(1001))}, "must be 2 to 1000 numbers"),
        ({"age": Number(17, 90, knots=[0, 30])}, "within the bounds"),
        ({"age": Number(17, 90, knots=[*DAYS])}, "within the bounds"),
        ({"hour": Number(0, 24, knots=[0, 24], cyclic=True)}, "must be 3 to 1000 numb"),
        ({"hour": Number(0, 24, knots=[0, 6, 12], cyclic=True)}, "to the upper bound"),
        ({"age": Number(17, 90, spacing="random")}, "spacing of 'age'='random' is unk"),
        ({"hour": Number(-1, 24, spacing="geometric")}, "'hour' needs a minimum of 0")
    ]
)  # fmt: skip
def test_refusals(changed, words):
    with pytest.raises(ValueError, match=words) as refused:
        schema(**changed)
    assert str(refused.value).endswith(".")


def test_parameters_of_the_encoder():
    table, none = pd.DataFrame({"age": [35.0]}), TableSchema({"age": Ignore()})
    for sparse in (False, True):
        model = DeclaredEncoder(none, sparse_output=sparse)
        assert model.fit_transform(table).shape == (1, 0)
    no_schema = r"schema=.* must be a TableSchema\."
    for given, match in (
        *((odd, no_schema) for odd in (None, {"age": (17, 90)}, TableSchema)),
        (schema(), "lacks the columns hour, sex, admitted"),
        (TableSchema({"age": Number()}), "not complete: declare minimum and maximum"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            DeclaredEncoder(given).fit(table)


def test_names_that_collide():
    with pytest.raises(ValueError, match="'a.month'"):
        TableSchema({"a": Date(*DAYS), "a.month": Number(0, 1)})
    with pytest.raises(ValueError, match="'a__x__y'"):
        TableSchema({"a": Category(["x__y"]), "a__x": Category(["y"])})
    table = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="'a'"):
        DeclaredEncoder(TableSchema({"a": Number(0, 1)})).fit(table)


def test_spellings_of_dates():
    objects = [datetime.date(2020, 1, 1), datetime.datetime(2025, 12, 31)]
    arrays = pd.to_datetime(DAYS), np.array(DAYS, dtype="M8[D]")
    for days in (DAYS, objects, *arrays):
        trend = schema(admitted=Date(*days)).blocks()[3]
        assert trend.name == "admitted"
        assert trend.knots[[0, -1]].tolist() == [18262, 20453]


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


# -- wide tables are held without their zeros ------------------------------------------
N = 400
TOWNS = [f"town {k}" for k in range(40)]


def table(seed=0):
    """Return a raw table with a target of two classes."""
    rng = np.random.default_rng(seed)
    town = rng.choice(TOWNS, N, p=np.arange(1, 41) / np.arange(1, 41).sum())
    frame = pd.DataFrame(
        {
            "town": np.where(rng.random(N) < 0.03, None, town),
            "age": np.where(rng.random(N) < 0.03, np.nan, rng.uniform(15, 95, N)),
            "day": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 700, N)),
        }
    )
    score = np.nan_to_num(frame["age"], nan=50) / 40 + rng.normal(size=N)
    frame["two"] = (score > 1.4).astype(int)
    return frame


def wide_schema(*public):
    """Return the declarations of a table, some columns of which are public."""
    columns = {
        "town": Category(TOWNS, public="town" in public),
        "age": Number(18, 90, public="age" in public),
        "day": Date("2024-01-01", "2025-12-31", public="day" in public),
    }
    return TableSchema(columns | {"two": Label([0, 1])}, outcomes=["two"])


def fitted(monkeypatch, most_dense, *public, **given):
    """Return a fit of a table that is dense up to so many encoded columns."""
    monkeypatch.setattr("skfdp.reader.MOST_DENSE", most_dense)
    # Rows that are kept as codes have other integers.
    monkeypatch.setattr("skfdp.data.encoder.CodedRows.saves", lambda *_: False)
    own, frame = wide_schema(*public), table()
    model = FeatureDPLogisticRegression(3.0, schema=own, random_state=0, **given)
    return model.fit(frame, frame["two"])


@pytest.mark.parametrize("public", [(), ("town",), ("age", "day")])
def test_rows_without_zeros_give_the_model_of_dense_rows(monkeypatch, public):
    """The sums themselves are compared in ``queries/test_formats.py``."""
    sparse, dense = (fitted(monkeypatch, most, *public) for most in (10, 10**6))
    assert sparse.encoder_.sparse_output and not dense.encoder_.sparse_output
    np.testing.assert_array_equal(sparse.coef_, dense.coef_)
    assert sparse.privacy_.events == dense.privacy_.events


def narrowed(monkeypatch):
    """Return a model whose first model has 12 columns, of 40 public categories."""
    monkeypatch.setattr("skfdp.reader.MOST_DENSE", 10)
    monkeypatch.setattr(records, "MOST_NARROWED", 12)
    return FeatureDPLogisticRegression(3.0, schema=wide_schema("town"))


def test_a_first_model_takes_the_most_frequent_categories(monkeypatch):
    frame, model = table(), narrowed(monkeypatch)
    public = model._on_records(lambda found: found.public, frame, frame["two"])
    counts, n = frame["town"].value_counts(), len(TOWNS)
    kept = public.reader.encoder.get_feature_names_out()[:n][public.kept[:n]]
    least = min(counts.get(name.removeprefix("town__"), 0) for name in kept)
    assert public.kept.sum() == 12 and least >= counts.iloc[13]
    own = public.of_public
    assert own.X.shape == (N, 12) and not own.sparse and own.mask.all()


def test_the_plan_of_a_wide_table_depends_on_no_private_value(monkeypatch):
    model, frame = narrowed(monkeypatch), table()
    other = table(seed=1).assign(town=frame["town"])
    plans = [model.plan(one, one["two"]).to_dict() for one in (frame, other)]
    assert json.dumps(plans[0], default=str) == json.dumps(plans[1], default=str)


@pytest.mark.parametrize(
    ("public", "given"),
    [((), {"centering": "adaptive"}), (("age",), {"solver": FeatureDPSGD()})],
)
def test_what_needs_dense_rows_gets_them(monkeypatch, public, given):
    assert not fitted(monkeypatch, 10, *public, **given).encoder_.sparse_output


def test_thousands_of_categories_take_no_memory_for_zeros():
    levels = [f"z{k}" for k in range(MOST_DENSE + 1000)]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"zip": rng.choice(levels, 3000), "x": rng.random(3000)})
    declared = {"zip": Category(levels), "x": Number(0, 1)}
    own = TableSchema(declared | {"y": Label([0, 1])}, outcomes=["y"])
    model = FeatureDPLogisticRegression(1.0, schema=own)
    tracemalloc.start()
    with pytest.warns(UserWarning, match="declared levels"):
        model.fit(frame, rng.integers(0, 2, 3000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert issparse(model.encoder_.transform(frame))
    assert peak < 0.5 * 8 * 3000 * len(levels)
