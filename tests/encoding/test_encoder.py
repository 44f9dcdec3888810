"""The encoder learns nothing, and is a transformer of scikit-learn."""

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skfdp import DeclaredEncoder, FeatureDPLogisticRegression, TableSchema
from skfdp.schema import Boolean, Category, Date, Ignore, Number, SchemaError

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


def test_columns_are_selected_by_name():
    model = encoder().fit(FRAME)
    shuffled = FRAME[FRAME.columns[::-1]].assign(further=1)
    expected = model.transform(FRAME)
    np.testing.assert_array_equal(model.transform(shuffled), expected)
    np.testing.assert_array_equal(encoder().fit_transform(shuffled), expected)
    with pytest.raises(SchemaError, match="lacks the column code"):
        model.transform(FRAME.drop(columns="code"))


def test_names_and_places_of_columns():
    model = encoder().fit(FRAME)
    assert [block.name for block in model.blocks_] == [
        "Größe",
        "sex",
        "admitted",
        "admitted.month",
        "admitted.weekday",
        "smoker",
        "code",
    ]
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


def test_frames_of_every_library_are_encoded_alike():
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    expected = encoder().fit_transform(FRAME)
    smoker = pl.Series("smoker", [True, False, None, True])
    polars = pl.from_pandas(FRAME.drop(columns="smoker")).insert_column(3, smoker)
    for table in (polars, pa.Table.from_pandas(FRAME)):
        np.testing.assert_array_equal(encoder().fit_transform(table), expected)


def test_categories_of_a_type_are_read_as_declared():
    pl = pytest.importorskip("polars")
    dtype = pd.CategoricalDtype(["M", "F"])
    tables = (
        pd.DataFrame({"sex": pd.Series(["F", None, "M"], dtype=dtype)}),
        pl.DataFrame({"sex": pl.Series(["F", None, "M"], dtype=pl.Enum(["M", "F"]))}),
        pl.DataFrame({"sex": pl.Series(["F", None, "M"], dtype=pl.Categorical)}),
    )
    for table in tables:
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


def saved_by_pickle(model):
    return pickle.loads(pickle.dumps(model))


def saved_by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return joblib.load(file)


def saved_by_skops(model):
    skops = pytest.importorskip("skops.io")
    content = skops.dumps(model)
    unknown = skops.get_untrusted_types(data=content)
    assert {name.partition(".")[0] for name in unknown} == {"skfdp"}
    assert {name.rpartition(".")[2] for name in unknown} == {
        "DeclaredEncoder", "SplineBlock", "CategoriesBlock", "LinearBlock",
        "Spelling", "TableSchema", "Number", "Category", "Date", "Boolean", "Ignore",
    }  # fmt: skip
    return skops.loads(content, trusted=unknown)


@pytest.mark.parametrize("saved", [saved_by_pickle, saved_by_joblib, saved_by_skops])
def test_saved_encoders(saved):
    line = Date("2020-01-01", "2025-12-31", basis="linear")
    model = encoder(admitted=line).fit(FRAME)
    again = saved(model)
    expected = model.transform(FRAME)
    np.testing.assert_array_equal(again.transform(FRAME), expected)
    np.testing.assert_array_equal(clone(again).fit_transform(FRAME), expected)
    assert repr(clone(again)) == repr(clone(model))


def test_pipeline_with_named_columns():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.random(400), "sex": rng.choice(["F", "M"], 400)})
    y = X["u"] > 0.5
    model = make_pipeline(
        DeclaredEncoder(TableSchema({"u": Number(0, 1), "sex": Category(["F", "M"])})),
        FeatureDPLogisticRegression(1.0, public_features="sex__*", bounds=(0, 1)),
    ).set_output(transform="pandas")
    model.fit(X, y)
    X.loc[0] = [np.nan, None]
    assert model.predict(X).shape == (400,)
    assert model[-1].privacy_.public_features == tuple(
        f"sex__{level}" for level in ("F", "M", "other", "missing")
    )


@pytest.mark.parametrize(
    "table, error, words",
    [
        (csr_array(np.eye(2)), TypeError, "sparse"),
        (pd.Series([1.0]), ValueError, "one column"),
        (np.ones(3), ValueError, "no names of columns"),
        (pd.DataFrame(index=[0]), ValueError, "0 feature"),
        (np.ones((1, 1), complex), ValueError, "no names of columns"),
    ],
    ids=lambda value: str(type(value)),
)
def test_tables_that_are_none(table, error, words):
    with pytest.raises(error, match=words):
        numbers([[0.0]])[0].fit(table)


def test_a_lazy_frame_is_no_table():
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="lazy"):
        numbers([[0.0]])[0].fit(pl.LazyFrame({"a": [1]}))


def test_a_table_of_ignored_columns_has_no_blocks():
    for sparse in (False, True):
        schema = TableSchema({"a": Ignore()})
        model = DeclaredEncoder(schema, sparse_output=sparse)
        assert model.fit_transform(pd.DataFrame({"a": [1, 2]})).shape == (2, 0)


def test_a_fit_that_fails_leaves_no_fitted_encoder():
    encoder, X = numbers(np.zeros((4, 2)))
    encoder.fit(X)
    encoder.set_params(sparse_output="auto")
    with pytest.raises(ValueError, match="must be True or False"):
        encoder.fit(X)
    for call in (lambda: encoder.transform(X), encoder.get_feature_names_out):
        with pytest.raises(NotFittedError):
            call()


def test_knots_are_spread_whatever_numpy_traps():
    with np.errstate(all="raise"):
        encoder, X = numbers(np.zeros((4, 1)), spacing="geometric")
        encoder.fit(X)
    assert encoder.blocks_[0].knots[0] == 0
