"""The encoder learns nothing, and is a transformer of scikit-learn."""

import io
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from packaging.version import Version
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skfdp import DeclaredEncoder, FeatureDPLogisticRegression

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
    "bounds": {"Größe": (140, 210), "admitted": ("2020-01-01", "2025-12-31")},
    "categories": {"sex": ["F", "M"], "code": [1, 2, 3]},
    "n_knots": {"Größe": 4, "admitted": np.array(["2020-01-01", "2023-01-01"])},
    "interactions": [("Größe", "sex"), ("admitted", "smoker")],
    "cyclic": ["Größe"],
    "ignore": ["name"],
}


def encoder(**changed):
    return DeclaredEncoder(**DECLARED | changed)


def test_nothing_is_learnt_from_rows():
    other = FRAME.iloc[::-1].reset_index(drop=True)
    other["Größe"] = [1e9, -5.0, 3.0, None]
    first, second = encoder().fit(FRAME), encoder().fit(other)
    assert pickle.dumps(first) == pickle.dumps(second)


class Untouchable(np.ndarray):
    """An array whose values nobody may look at."""

    def __getitem__(self, item):
        found = super().__getitem__(item)
        if isinstance(found, Untouchable):
            return found
        raise AssertionError("a value was read")


def test_fit_reads_no_value():
    X = np.zeros((5, 2)).view(Untouchable)
    X.fill(np.nan)
    one = DeclaredEncoder({0: (0, 1), 1: (3, 4)}).fit(X)
    other = DeclaredEncoder({0: (0, 1), 1: (3, 4)}).fit(np.full((1, 2), 1e9))
    assert pickle.dumps(one) == pickle.dumps(other)


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
        "Größe:sex",
        "admitted:smoker",
    ]
    names = model.get_feature_names_out()
    assert names[:5].tolist() == [*(f"Größe__{j}" for j in range(4)), "Größe__missing"]
    assert "Größe:sex__2:other" in names and "admitted.month__Feb" in names
    assert "smoker__False" in names and len(set(names)) == len(names)
    ends = [block.stop for block in model.blocks_]
    assert [block.start for block in model.blocks_] == [0, *ends[:-1]]
    assert model.transform(FRAME).shape == (4, len(names)) == (4, ends[-1])
    assert list(model.feature_names_in_) == list(FRAME)
    parents = [block.parents for block in model.blocks_]
    assert parents == [(0,), (1,), (2,), (2,), (2,), (3,), (4,), (0, 1), (2, 3)]


def test_rows_are_the_blocks_side_by_side():
    model = encoder().fit(FRAME)
    found = model.transform(FRAME)
    columns = [FRAME[name] for name in FRAME]
    blocks = [b.encode(*(columns[j] for j in b.parents)) for b in model.blocks_]
    np.testing.assert_array_equal(found, np.hstack(blocks))


@pytest.mark.parametrize("basis", ["hats", "linear"])
def test_sparse_rows_are_the_dense_ones_to_the_last_bit(basis):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 2, size=(300, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:4] = [[0, 0, 0], [1, 1, 1], [0.5, 0, 1], [np.nan] * 3]
    model = DeclaredEncoder((0, 1), basis=basis, interactions=[(0, 1), (2, 0)])
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
    # An object array has no type that tells what a boolean is.
    positions = {name: j for j, name in enumerate(FRAME)}
    declared = {
        "bounds": {positions[k]: v for k, v in DECLARED["bounds"].items()},
        "categories": {1: ["F", "M"], 4: [1, 2, 3], 3: [False, True]},
        "n_knots": {positions[k]: v for k, v in DECLARED["n_knots"].items()},
        "interactions": [(0, 1), (2, 3)],
        "cyclic": 0,
        "ignore": 5,
    }
    array = FRAME.to_numpy(dtype=object)
    for X in (array, array.tolist()):
        np.testing.assert_array_equal(
            DeclaredEncoder(**declared).fit_transform(X), expected
        )


def test_categories_of_declared_types():
    pl = pytest.importorskip("polars")
    dtype = pd.CategoricalDtype(["M", "F"])
    tables = (
        pd.DataFrame({"sex": pd.Series(["F", None, "M"], dtype=dtype)}),
        pl.DataFrame({"sex": pl.Series(["F", None, "M"], dtype=pl.Enum(["M", "F"]))}),
    )
    for table in tables:
        model = DeclaredEncoder().fit(table)
        assert model.blocks_[0].levels == ("M", "F", "other", "missing")
        assert model.transform(table)[:2].argmax(axis=1).tolist() == [1, 3]
        # The rows of a prediction may come in another type.
        text = pd.DataFrame({"sex": ["M", "other sex"]})
        assert model.transform(text).argmax(axis=1).tolist() == [0, 2]
    inferred = pl.DataFrame({"sex": pl.Series(["F"], dtype=pl.Categorical)})
    with pytest.raises(ValueError, match="'sex' .*not declared|not declared.*'sex'"):
        DeclaredEncoder().fit(inferred)
    declared = DeclaredEncoder(categories={"sex": ["a"]}).fit(tables[0])
    assert declared.blocks_[0].levels == ("a", "other", "missing")


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
        "DeclaredEncoder", "HatsBlock", "CategoriesBlock", "PairBlock", "LinearBlock",
        "Spelling",
    }  # fmt: skip
    return skops.loads(content, trusted=unknown)


@pytest.mark.parametrize("saved", [saved_by_pickle, saved_by_joblib, saved_by_skops])
def test_saved_encoders(saved):
    model = encoder(basis={"admitted": "linear"}).fit(FRAME)
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
        DeclaredEncoder({"u": (0, 1)}, {"sex": ["F", "M"]}),
        FeatureDPLogisticRegression(1.0, public_features="sex__*", bounds=(0, 1)),
    ).set_output(transform="pandas")
    model.fit(X, y)
    X.loc[0] = [np.nan, None]
    assert model.predict(X).shape == (400,)
    assert model[-1].privacy_.public_features == tuple(
        f"sex__{level}" for level in ("F", "M", "other", "missing")
    )


@pytest.mark.skipif(
    Version(sklearn.__version__) < Version("1.9"),
    reason="older versions of scikit-learn ask sys.modules for pandas",
)
def test_libraries_of_frames_stay_away():
    """pandas is an extra, and polars and pyarrow are none."""
    code = (
        "import sys; sys.modules.update(pandas=None, polars=None, pyarrow=None); "
        "from skfdp import DeclaredEncoder as D; "
        "found = D({0: (0, 1), 1: ('2020-01-01', '2021-01-01')}, {2: ['a']})"
        ".fit_transform([[.5, '2020-07-01', 'a'], [None, None, None]]); "
        "print(found.sum())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout.strip() == "10.0"


@pytest.mark.parametrize(
    "table, error, words",
    [
        (csr_array(np.eye(2)), TypeError, "sparse"),
        (pd.Series([1.0]), ValueError, "one column"),
        (np.ones(3), ValueError, "2D array"),
        (pd.DataFrame({"a": []}), ValueError, "0 sample"),
        (pd.DataFrame(index=[0]), ValueError, "0 feature"),
        (np.ones((1, 1), complex), ValueError, "Complex"),
    ],
    ids=lambda value: str(type(value)),
)
def test_tables_that_are_none(table, error, words):
    with pytest.raises(error, match=words):
        DeclaredEncoder((0, 1)).fit(table)


def test_a_lazy_frame_is_no_table():
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="lazy"):
        DeclaredEncoder((0, 1)).fit(pl.LazyFrame({"a": [1]}))


def test_a_table_of_ignored_columns_has_no_blocks():
    for sparse in (False, True):
        model = DeclaredEncoder(ignore=[0], sparse_output=sparse)
        assert model.fit_transform([[1], [2]]).shape == (2, 0)


def test_complex_tables_are_refused_without_a_datum():
    X = np.full((4, 2), 0.735194j)
    with pytest.raises(ValueError, match="Complex data not supported") as caught:
        DeclaredEncoder(bounds=(0, 1)).fit(X)
    assert "735194" not in str(caught.value)


def test_a_fit_that_fails_leaves_no_fitted_encoder():
    X = np.zeros((4, 2))
    encoder = DeclaredEncoder(bounds=(0, 1)).fit(X)
    for bounds in ((1, 0), np.array("auto")):
        encoder.set_params(bounds=bounds)
        with pytest.raises(ValueError, match="must be two finite numbers"):
            encoder.fit(X)
        for call in (lambda: encoder.transform(X), encoder.get_feature_names_out):
            with pytest.raises(NotFittedError):
                call()


def test_knots_are_spread_whatever_numpy_traps():
    encoder = DeclaredEncoder(bounds=(0, 1), spacing="geometric")
    with np.errstate(all="raise"):
        encoder.fit(np.zeros((4, 1)))
    assert encoder.blocks_[0].knots[0] == 0


def test_knots_in_an_array_without_dimensions_are_refused():
    encoder = DeclaredEncoder(bounds=(0, 1), n_knots={0: np.array("auto")})
    with pytest.raises(ValueError, match="n_knots"):
        encoder.fit(np.zeros((4, 1)))
