"""Exported Pipelines predict what the models predict, without skfdp."""

import contextlib
import datetime
import json
import pickle
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

import skfdp
from skfdp.privacy import PrivacyReport
from skfdp.schema import Boolean, Category, Date, Label, Number, SchemaError
from skfdp.solvers import NoisyGradientDescent

NORMALIZES = NoisyGradientDescent(normalize=True, max_iter=20)
MANY = settings(max_examples=15, deadline=None)


def check_equal(model, *tables, atol=1e-12):
    """Check that the Pipeline has the predictions of the model; return it."""
    pipeline = model.to_sklearn()
    check_is_fitted(pipeline)
    for X in tables:
        ours, theirs = model.predict(X), pipeline.predict(X)
        assert theirs.dtype == ours.dtype
        if not hasattr(model, "classes_"):
            size = np.abs(ours).max()
            np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-12 * size)
            continue
        has_probabilities = hasattr(model, "predict_proba")
        assert hasattr(pipeline, "predict_proba") == has_probabilities
        for name in ["decision_function", "predict_proba"][: 1 + has_probabilities]:
            found, margins = (getattr(one, name)(X) for one in (pipeline, model))
            np.testing.assert_allclose(found, margins, rtol=0, atol=atol)
        margins = model.decision_function(X)
        if margins.ndim == 1:
            margins = np.column_stack([margins, np.zeros(len(margins))])
        best = np.sort(margins, axis=1)
        clear = best[:, -1] - best[:, -2] > atol
        assert (theirs == ours)[clear].all()
    return pipeline


rng = np.random.default_rng(0)
ROWS = rng.normal(size=(200, 4))
CODES = rng.integers(0, 3, 200)
entries = st.one_of(
    st.floats(-9, 9).map(lambda x: round(x, 6)),
    st.sampled_from([np.nan, 1e30, -1e30]),
)
tables = st.lists(st.tuples(*[entries] * 4), min_size=1, max_size=6)

UNIT = {"solver": NORMALIZES}
NUMBERS = {
    "public": {"public_features": [0], "bounds": (-1, 2.1)},
    "some bounds": {"bounds": {0: (-0.3, 0.4), 2: (0, 1)}},
    "no bounds": {"bounds": False},
    "released bounds": {"bounds": "private"},
    "normalize": {"bounds": (-1, 2), **UNIT},
    "public and normalize": {"bounds": {1: (-1, 2)}, "public_features": [0, 3], **UNIT},
    "no intercept": {"bounds": (-1, 2), "fit_intercept": False},
    "no privacy": {"bounds": (-1, 2), "epsilon": np.inf},
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", NUMBERS)
def test_classifiers_of_numbers(name, n_classes):
    given_ = {"epsilon": 5.0, "random_state": 0, **NUMBERS[name]}
    model = skfdp.FeatureDPLogisticRegression(classes=[*"abc"[:n_classes]], **given_)
    model.fit(ROWS, np.array([*"abc"])[CODES % n_classes])
    public = model._reader.mask
    span = model.input_scaler_.span
    free = np.ones(4, bool) if span is None else np.isinf(span)

    @MANY
    @given(tables, st.sampled_from(["float64", "float32"]))
    def check(rows, dtype):
        X = np.array(rows)
        X[:, public] = np.nan_to_num(X[:, public])
        X = X.astype(dtype)
        atol = 1e-12 if dtype == "float64" else 1e-4  # scikit-learn keeps float32
        # Without bounds margins may have any size, and are compared absolutely.
        X[(np.abs(X) > 100) & np.isfinite(X) & free] = 100
        assert isinstance(check_equal(model, X, atol=atol)[-1], LogisticRegression)

    check()


LOSSES = {"hinge": LinearSVC, "squared_hinge": LinearSVC, "log_loss": object}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_of_classifiers(loss):
    """Hinge losses have no log odds."""
    for weights in (None, "balanced")[: 1 + (loss == "log_loss")]:
        for n_classes in (2, 3):
            given_ = {"loss": loss, "class_weight": weights, "random_state": 0}
            model = skfdp.DPSGDFClassifier(5.0, bounds=(-1, 2), **given_)
            model.fit(ROWS, CODES % n_classes)
            assert isinstance(check_equal(model, 3 * ROWS)[-1], LOSSES[loss])


@pytest.mark.parametrize("loss", ["squared_error", "huber", "poisson"])
@pytest.mark.parametrize("public_target", [False, True])
def test_losses_of_regressors(loss, public_target):
    X = np.where(rng.random(ROWS.shape) < 0.1, np.nan, 3 * ROWS)
    given_ = {"bounds": (-1, 2), "loss": loss, "random_state": 0}
    kind = PoissonRegressor if loss == "poisson" else LinearRegression
    if public_target:
        given_["public_target"] = True
        model = skfdp.FeatureDPRegressor(5.0, **given_).fit(X, CODES)
        assert isinstance(check_equal(model, X)[-1], kind)
        given_["public_features"], X = [1, 2], np.nan_to_num(X)
    else:
        given_["target_bounds"] = (0.3, 1.9)
        check_equal(skfdp.DPSGDFRegressor(5.0, **given_).fit(X, CODES), X, 50 * X)
    model = skfdp.FeatureDPRegressor(5.0, **given_).fit(X, CODES)
    pipeline = check_equal(model, X, 50 * X)
    found = getattr(pipeline[-1], "regressor_", pipeline[-1])
    assert isinstance(found, kind)
    # Of columns that are scaled from their bounds to [0, 1].
    np.testing.assert_allclose(np.sort(found.coef_), np.sort(3 * model.coef_))
    with pytest.raises(ValueError, match="infinity"):
        pipeline.predict(np.full((1, 4), np.inf))


def test_frames_of_numbers():
    X = pd.DataFrame(ROWS, columns=list("abcd")).assign(e=CODES, f=CODES > 1)
    given_ = {"bounds": (-1, 2), "public_features": ["e"], "random_state": 0}
    model = skfdp.FeatureDPLogisticRegression(5.0, **given_).fit(X, CODES)
    nullable = X.astype({"b": "Float64", "f": "boolean", "c": "float32"})
    nullable.loc[::3, ["b", "f"]] = pd.NA
    mixed = X.assign(c=X["c"].astype(str), d=" 10 ").astype(object)
    mixed.loc[::2, list("abcd")] = None, "0.5", np.nan, True
    pipeline = check_equal(model, X, nullable, mixed, X.to_numpy(float))
    more = X.assign(more="text")[["more", *X.columns[::-1]]]  # by name
    assert (pipeline.predict(more) == model.predict(X)).all()
    assert pipeline.feature_names_in_.tolist() == list(X.columns)
    odd = {"missing": X.drop(columns="c"), "NaN": X.assign(e=np.nan)}  # public
    for message, table in odd.items():
        with pytest.raises((ValueError, TypeError), match=message):
            pipeline.predict(table)
    with config_context(transform_output="pandas"):
        check_equal(model, X)
    rows = X.to_numpy(float)
    pipeline = check_equal(model.set_params(public_features=[4]).fit(rows, CODES), rows)
    with pytest.raises(TypeError, match="Sparse"):
        pipeline.predict(csr_array(rows))


# What cells of each column may hold, in the types that a schema reads.
TIMES = ["2019-01-01", "2021-05-05", "2021-05-05 13:00", None, "2022-02-28 23:59:59.9"]
TIMES += ["1950-03-04 01:00", "2199-12-31"]
CELLS = {
    "age": (Number(17, 90, public=True), [16.9, 17, 40.123, 90, 200.0, np.nan]),
    "income": (Number(0, 1e5, missing=[-99, "-1"]), [np.nan, -99, -1, 0.5, 12.5, 2e5]),
    "line": (Number(-3, 7, basis="linear"), [np.nan, -4.0, 9.0, 1.7, -3.0, 7.0]),
    "hour": (Number(0, 24, cyclic=True), [-1.0, 0, 3.3, 23.9, 24.0, 30.0, np.nan]),
    "transformers__": (Number(0, 10, knots=[1, 2, 5.5]), [0, 1, 1.5, 5.5, 11, np.nan]),
    "sex": (Category(["F", "M"]), ["F", "M", "f", None, np.nan, "", "NA", "null"]),
    "code": (Category(["1", "02", "3.5"], missing=["9"]), ["1", "02", 1, 3.5, 9, "9"]),
    "number": (Category([1, 2.5]), [1, 1.0, "1", 2.5, "2.5", 3, None, True, False]),
    "mixed": (Category([1, "a", "True"]), [1, "1", "a", "b", None, "true", "TRUE"]),
    "words": (Boolean(true=["ja"], false=["nein"]), [True, False, "ja", "nein", None]),
    "truth": (Boolean(), [True, False, 0, 1, None]),
    "other": (Category(["x", "other"]), ["x", "other", "y", None]),
    "day": (Date("2020-01-01", "2025-12-31", hour=True, missing=["2021-05-05"]), TIMES),
    "time": (Date("2021-05-01", "2021-08-31", basis="linear"), TIMES),
    "written": (Date("2021-01-01", "2022-12-31", format="%d.%m.%Y"), TIMES),
}
LABELS = {"ill": Label(["a", "b", "c"]), "dead": Label([False, True])}
SCHEMA = skfdp.TableSchema(
    {name: column for name, (column, _) in CELLS.items()}
    | LABELS
    | {"cost": Number(0, 100)},
    outcomes=[*LABELS, "cost"],
    missing=["", "-"],
)


def drawn(n_rows, rng):
    """Return a table of all kinds of cells, with a column that is not declared."""
    found = {"more": 1}
    for name, (column, cells) in CELLS.items():
        values = [cells[j] for j in rng.integers(0, len(cells), n_rows)]
        if isinstance(column, Date):
            values = pd.to_datetime(values, format="ISO8601")
        found[name] = values
    for name, label in LABELS.items():
        found[name] = [label.values[j % len(label.values)] for j in range(n_rows)]
    return pd.DataFrame(found).assign(cost=rng.uniform(0, 100, n_rows))


@pytest.fixture(scope="module")
def of_schema():
    X, given_ = drawn(300, rng), {"schema": SCHEMA, "random_state": 0}
    models = [
        skfdp.FeatureDPLogisticRegression(5.0, target="ill", **given_),
        skfdp.FeatureDPLogisticRegression(5.0, target="dead", **given_),
        skfdp.FeatureDPRegressor(5.0, target="cost", **given_),
        skfdp.FeatureDPRegressor(np.inf, target="cost", loss="poisson", **given_),
    ]
    return X, [model.fit(X, X[model.target]) for model in models]


# A classifier and a regressor each time.
some_fits = pytest.mark.parametrize(
    "number", [0, 3, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 2))]
)


@some_fits
@pytest.mark.filterwarnings("ignore:column")
def test_models_of_raw_tables(of_schema, number):
    model = of_schema[1][number]
    X = drawn(500, np.random.default_rng(1))
    pipeline = check_equal(model, X, X[:1], SCHEMA.read(X))
    assert (pipeline.predict(X[X.columns[::-1]]) == pipeline.predict(X)).all()
    assert "ColumnTransformer" in pipeline._repr_html_()
    with config_context(transform_output="pandas"):
        check_equal(model, X)


# Cells that any column may hold, as text, numbers, booleans, dates or missing.
MISSING = [None, np.nan, pd.NA, pd.NaT, "", " ", "NA", "<NA>"]
BERLIN = pd.Timestamp("2021-07-01 01:00", tz="Europe/Berlin")
ODD = {
    "text": ["1", "2.50", " F ", "TRUE", "x", "inf", "1e1", "-99.0"],
    "numbers": [0, 1, 1.0, 2.5, -99, 20210505, 2**70, np.float32(2.5), Decimal("2.5")],
    "booleans": [True, False],
    "dates": [datetime.date(2021, 5, 5), datetime.datetime(9999, 12, 31, 23), BERLIN],
    "dates as text": ["2021-05-05", "2021-07-01T01:00:00.5-03:00", "20210505", "2021"],
}
ODD["all"] = [pd.Timedelta("36h"), b"F", *sum(ODD.values(), [])]
STORED = ["object", "category", "str", "string", "Int64", "Float64", "boolean"]
STORED += ["float16", "float32", "bool", "datetime64[s]", "datetime64[ns, Asia/Tokyo]"]
ARROW = ["string", "int64", "double", "bool", "timestamp[us]", "date32", "duration[s]"]
STORED += [f"{kind}[pyarrow]" for kind in (*ARROW, "timestamp[ns, tz=America/Lima]")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "n_examples", [10, pytest.param(50, marks=pytest.mark.nightly)]
)
def test_cells_of_every_stored_type(of_schema, n_examples):
    X, (model, *_) = of_schema
    pipeline = model.to_sklearn()

    @settings(max_examples=n_examples, deadline=None)
    @given(st.sampled_from([*CELLS]), st.sampled_from([*ODD, "own"]), st.data())
    def check(name, kind, data):
        cells = [*(CELLS[name][1] if kind == "own" else ODD[kind]), *MISSING[:4]]
        cells += MISSING[4:] * (kind in ("text", "all"))
        cells = data.draw(st.lists(st.sampled_from(cells), min_size=1, max_size=4))
        column = pd.Series(cells, dtype=object)
        with contextlib.suppress(Exception):  # where the type cannot hold these cells
            column = column.astype(data.draw(st.sampled_from(STORED)))
        table = X.head(len(cells)).assign(**{name: column})
        try:
            expected = model.predict_proba(table)
        except SchemaError:
            return
        with contextlib.suppress(ValueError, TypeError):
            found = pipeline.predict_proba(table)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)

    check()


@st.composite
def numbers(draw):
    low = draw(st.floats(-50, 50))
    spacing = draw(st.sampled_from(["auto", "even", "geometric"]))
    low = abs(low) if spacing == "geometric" else low
    cyclic = draw(st.booleans()) and spacing != "geometric"
    knots = draw(st.one_of(st.just("auto"), st.integers(2, 40)))
    basis = "linear" if draw(st.booleans()) and not cyclic else "spline"
    high = low + draw(st.floats(1, 1000))
    return Number(low, high, basis=basis, knots=knots, spacing=spacing, cyclic=cyclic)


@MANY
@given(numbers(), st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=20))
def test_splines(column, shares):
    schema = skfdp.TableSchema({"x": column, "y": Label([0, 1])}, outcomes=["y"])
    x = column.low + np.array(shares) * (column.high - column.low)
    X = pd.DataFrame({"x": [*x, column.low, column.high, np.nan], "y": 0})
    X.loc[::2, "y"] = 1
    model = skfdp.FeatureDPLogisticRegression(9.0, schema=schema, random_state=0)
    check_equal(model.fit(X, X["y"]), X)


def test_other_public_models_are_refused():
    public = {"public_features": [0], "public_target": True, "bounds": (-1, 2)}
    for kind, boosted in (
        (skfdp.FeatureDPLogisticRegression, GradientBoostingClassifier(n_estimators=2)),
        (skfdp.FeatureDPRegressor, GradientBoostingRegressor(n_estimators=2)),
    ):
        model = kind(5.0, public_model=boosted, random_state=0, **public)
        model.fit(ROWS, CODES)
        with pytest.raises(ValueError, match="^public_model=GradientBoosting.* is not"):
            model.to_sklearn()
        model.set_params(public_model="auto").fit(ROWS, CODES)
        check_equal(model, ROWS)


@pytest.mark.parametrize(
    "stored", ["timedelta64[s]", "datetime64[s]", "duration[s][pyarrow]"]
)
def test_durations_are_no_counts(stored):
    schema = skfdp.TableSchema({"x": Number(0, 9), "y": Label([0, 1])}, outcomes=["y"])
    X = pd.DataFrame({"x": [0, 1] * 10, "y": [0, 1] * 10})
    model = skfdp.FeatureDPLogisticRegression(schema=schema, random_state=0)
    with pytest.raises(TypeError, match="numpy op logical_not"):
        model.fit(X, X["y"]).to_sklearn().predict(X.astype({"x": stored}))


def test_texts_without_weights():
    columns = {"x": Category(["a"]), "y": Label([0, 1])}
    schema = skfdp.TableSchema(columns, outcomes=["y"])
    X = pd.DataFrame({"x": ["a", "b"] * 10, "y": [0, 1] * 10})
    model = skfdp.FeatureDPLogisticRegression(schema=schema).fit(X, X["y"])
    model.coef_ *= 0
    check_equal(model, X)


def test_only_fitted_linear_models_have_it():
    with pytest.raises(NotFittedError):
        skfdp.DPSGDFClassifier().to_sklearn()
    assert not hasattr(skfdp.FeatureDPMLPClassifier(), "to_sklearn")


@some_fits
def test_the_statement_goes_along(of_schema, number):
    X, model = of_schema[0], of_schema[1][number]
    pipeline = pickle.loads(pickle.dumps(model.to_sklearn()))
    told = json.loads(json.dumps(pipeline.privacy_report_))
    assert PrivacyReport.from_dict(told).epsilon == model.privacy_.epsilon
    found = PrivacyReport.from_dict(pipeline.privacy_report_)
    assert found.statement() == pipeline.privacy_statement_
    # A clone is not fitted, and its ramps cannot be learnt.
    again = clone(pipeline)
    assert not hasattr(again, "privacy_report_")
    with pytest.raises(NotFittedError):
        again.predict(X)
    with pytest.raises(ValueError, match="fit the model of skfdp"):
        again.fit(X, X["ill"])


WITHOUT = """
import pickle, sys

class Refusal:
    def find_spec(self, name, *args):
        if name.partition(".")[0] == "skfdp":
            raise ImportError(name)

sys.meta_path.insert(0, Refusal())
with open(sys.argv[1], "rb") as file:
    cases = pickle.load(file)
for path in sys.argv[2:]:
    import skops.io
    trusted = skops.io.get_untrusted_types(file=path)
    cases.append((skops.io.load(path, trusted=trusted), *cases[0][1:]))
for pipeline, X, expected in cases:
    assert abs(pipeline.predict(X) - expected).max() <= 1e-12 * abs(expected).max()
    assert "PRIVACY STATEMENT" in pipeline.privacy_statement_
assert "skfdp" not in sys.modules
print(len(cases))
"""


def test_without_skfdp(of_schema, tmp_path):
    X, (*_, model, poisson) = of_schema
    codes = skfdp.DPSGDFClassifier(5.0, bounds=(-1, 2), random_state=0).fit(ROWS, CODES)
    fits = [(model, X), (poisson, X), (codes, ROWS)]
    cases = [(one.to_sklearn(), rows, one.predict(rows)) for one, rows in fits]
    paths = [tmp_path / "models.pickle"]
    paths[0].write_bytes(pickle.dumps(cases))
    with contextlib.suppress(ImportError):
        import skops.io

        paths.append(tmp_path / "model.skops")
        skops.io.dump(cases[0][0], paths[1])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *paths], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (f"{len(paths) + 2}\n", "")


# -- ONNX ------------------------------------------------------------------------------
def predicted(pipeline, X):
    """Return what onnxruntime predicts for float32 and text."""
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    onnxruntime = pytest.importorskip("onnxruntime")
    options = {"zipmap": False} if hasattr(pipeline, "classes_") else None
    raw = to_onnx(pipeline, X[:1], options=options).SerializeToString()
    frame = isinstance(X, pd.DataFrame)
    rows = {name: X[[name]].to_numpy() for name in X} if frame else {"X": X}
    return onnxruntime.InferenceSession(raw).run(None, rows)[-1]


@pytest.mark.extra("skl2onnx")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["public", "some bounds", "no bounds", "normalize"])
def test_models_of_numbers_as_onnx(name, n_classes):
    model = skfdp.FeatureDPLogisticRegression(5.0, random_state=0, **NUMBERS[name])
    model.fit(ROWS, CODES % n_classes)
    X = np.float32(3 * ROWS)
    found = predicted(model.to_sklearn(), X)
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=0, atol=1e-5)


@pytest.mark.extra("skl2onnx")
@pytest.mark.parametrize("target", [*LABELS, "cost"])
def test_models_of_raw_tables_as_onnx(target):
    more = {"grade": Category([1, 2, 3]), "year": Number(1990, 2030)}
    columns = {**SCHEMA.columns, **more}
    numeric = ["age", "income", "line", "hour", "number", *more]
    own = {name: columns[name] for name in (*numeric, "sex", "code", "other", target)}
    schema, rng = skfdp.TableSchema(own, outcomes=[target]), np.random.default_rng(2)
    X = drawn(300, rng).assign(year=rng.uniform(1980, 2040, 300), grade=CODES.max())
    y, X = X[target], X[[*schema.features]]
    X["grade"] += rng.integers(-2, 3, 300)
    X[numeric] = X[numeric].astype("float32")
    texts = ["sex", "code", "other"]
    X[texts] = X[texts].astype(object).fillna("").astype(str).astype(object)
    kind = skfdp.FeatureDPRegressor if target == "cost" else None
    model = (kind or skfdp.FeatureDPLogisticRegression)(8.0, schema=schema)
    model.set_params(random_state=0).fit(X, y)
    found = predicted(model.to_sklearn(onnx=True), X)
    if target == "cost":
        expected = model.predict(X)[:, None]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    else:
        np.testing.assert_allclose(found, model.predict_proba(X), rtol=0, atol=1e-5)


@pytest.mark.extra("skl2onnx")
@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_numbers_as_onnx_are_clipped(loss):
    given_ = {"bounds": (-9, 9), "target_bounds": (0.8, 1.1), "loss": loss}
    model = skfdp.FeatureDPRegressor(100.0, **given_, random_state=0)
    found = model.fit(ROWS, ROWS[:, 0] + 1).to_sklearn(onnx=True)
    X = np.float32(3 * ROWS)
    expected = model.predict(X)
    assert {0.8, 1.1} < {*expected.tolist()}
    np.testing.assert_allclose(predicted(found, X)[:, 0], expected, rtol=1e-5)


def test_dates_as_onnx_are_refused_by_name(of_schema):
    with pytest.raises(ValueError, match="^column 'day' holds dates"):
        of_schema[1][0].to_sklearn(onnx=True)
