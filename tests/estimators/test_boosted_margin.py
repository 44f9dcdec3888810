"""Public models of raw tables: curves, boosted trees, and their mean."""

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import log_loss, r2_score

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, TableSchema
from skfdp.schema import Category, Date, Label, Number
from skfdp.solvers import public_model
from skfdp.solvers.public_model import Positions

N = 2000
COLUMNS = {
    "age": Number(20, 80),
    "sales": Number(0, 1000, spacing="geometric"),
    "angle": Number(0, 360, cyclic=True),
    "size": Number(0, 1, basis="linear"),
    "sex": Category(["f", "m"]),
    "seen": Date("2020-01-01", "2024-12-31"),
}


def people(n=N, seed=0):
    """Return a table in which the product of two public columns tells the label."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.random((n, 4)), columns=list("abcd"))
    told = 6 * (2 * (X["a"] > 0.5) - 1) * (X["b"] - 0.5) + 2 * (X["c"] - 0.5)
    return X, told, (rng.random(n) < 1 / (1 + np.exp(-told))).astype(int)


def schema(public, outcome, **more):
    own = {name: Number(0, 1, public=name in public) for name in "abcd"}
    return TableSchema(own | more | {"y": outcome}, outcomes=["y"])


def classifier(public="ab", epsilon=1.0, **given):
    known = schema(public, Label([0, 1], public=True))
    return FeatureDPLogisticRegression(epsilon, schema=known, random_state=0, **given)


X, TOLD, Y = people()


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, Y)


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_positions_increase_with_numbers_and_tell_levels_apart(convert):
    encoder = TableSchema(COLUMNS).encoder()
    days = pd.date_range("2020-01-01", "2024-12-31", periods=N)
    table = pd.DataFrame(
        {
            "age": np.linspace(20, 80, N),
            "sales": np.linspace(0, 1000, N),
            "angle": np.linspace(0, 359, N),
            "size": np.linspace(0, 1, N),
            "sex": np.where(np.arange(N) % 2, "f", "m"),
            "seen": days,
        }
    )
    table.loc[7, ["age", "angle", "size", "sex"]] = None
    found = Positions(encoder.fit(table).blocks_).transform(
        convert(encoder.transform(table))
    )
    # Two coordinates of the angle; trend, month and weekday of the date.
    assert found.shape == (N, 4 + 1 + 1 + 3)
    assert np.flatnonzero(np.isnan(found[7])).tolist() == [0, 2, 3, 4]
    known = np.delete(found, 7, axis=0)
    assert (np.diff(known[:, [0, 1, 4, 6]], axis=0) > 0).all()
    assert len(np.unique(known[:, 2:4].round(9), axis=0)) == N - 1
    assert np.abs(known[-1, 2:4] - known[0, 2:4]).max() < 0.1  # the circle closes
    assert np.unique(found[:, 5]).tolist() == [1, 2, 4]  # f, m, missing


def test_trees_take_a_product_of_public_columns_and_curves_do_not(fitted):
    """Predictions are those of `coef_` plus the share of the trees."""
    other, told, y = people(seed=1)
    linear = classifier(public_model="linear").fit(X, Y)
    assert linear.public_model_.share == 0
    assert fitted.public_model_.share > 0.8
    losses = [log_loss(y, m.predict_proba(other)) for m in (fitted, linear)]
    assert losses[0] < losses[1] - 0.1
    rows = fitted.encoder_.transform(other)
    margins = rows @ fitted.coef_[0] + fitted.intercept_
    public = slice(0, rows.shape[1] // 2)  # the first two of four equal columns
    margins += fitted.public_model_.beside(rows[:, public])[:, 0]
    np.testing.assert_allclose(fitted.decision_function(other), margins)


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_numbers_and_counts_have_trees_too(loss):
    rng = np.random.default_rng(0)
    y = rng.poisson(np.exp(TOLD / 2)) if loss == "poisson" else TOLD + 4
    known = schema("ab", Number(0, 30, public=True))
    fits = [
        FeatureDPRegressor(
            1.0, schema=known, loss=loss, public_model=name, random_state=0
        ).fit(X, y)
        for name in ("auto", "linear")
    ]
    boosted, linear = (r2_score(y, model.predict(X)) for model in fits)
    assert fits[0].public_model_.share > 0.5
    assert boosted > linear + 0.1


def test_several_classes_have_trees_until_there_are_many():
    product = (X["a"] > 0.5).to_numpy(int) + (X["b"] > 0.5).to_numpy(int)
    y = np.where(product == 1, 2, product // 2)
    for n_classes, share in ((3, True), (10, False)):
        labels = np.arange(N) % 10
        labels = y if n_classes == 3 else labels
        known = schema("ab", Label(list(range(n_classes)), public=True))
        given = {"schema": known, "random_state": 0}
        model = FeatureDPLogisticRegression(0.1, **given).fit(X, labels)
        assert (model.public_model_.share > 0) == share
        model.set_params(public_model="boosting")
        if not share:
            with pytest.raises(ValueError, match="needs fewer than 10 classes"):
                model.fit(X, labels)


@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
def test_margins_are_functions_of_public_parts(relation):
    """All private values are replaced, and weights and persons stay."""
    given = {"sample_weight": 1 + np.arange(N) % 2, "groups": np.arange(N) // 4}
    found = []
    for table in (X, X.assign(c=1 - X["c"], d=[None, *X["d"][1:]])):
        public_model._LAST.clear()
        model = classifier(neighboring_relation=relation)
        public = model._on_records(lambda r: r.public, table, Y, **given)
        found.append(model._planned(public)[1].offset)
    np.testing.assert_array_equal(*found)


def test_a_table_and_a_pipeline_say_what_coef_leaves_out(fitted, tmp_path):
    table = fitted.coefficients_table().tail(2)
    assert table["column"].to_list() == ["public model (public_model_)", "intercept"]
    assert table["coef"].to_list()[0] == fitted.public_model_.share
    assert table["noise_std"].to_list()[0] == 0
    with pytest.raises(ValueError, match="public_model='linear'"):
        fitted.to_sklearn()
    linear = classifier(public_model="linear").fit(X, Y)
    again = linear.to_sklearn().predict_proba(X)
    np.testing.assert_allclose(again, linear.predict_proba(X), atol=1e-9)
    joblib.dump(fitted, tmp_path / "model")
    loaded = joblib.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


def test_arrays_have_trees_if_asked():
    given = {"public_features": [0, 1], "public_target": True, "bounds": (0, 1)}
    model = FeatureDPLogisticRegression(random_state=0, **given)
    assert model.fit(X.to_numpy(), Y).public_model_.share == 0
    model.set_params(public_model="boosting").fit(X.to_numpy(), Y)
    assert model.public_model_.share > 0.8
    assert model.coef_.shape == (1, 4)
    with pytest.raises(ValueError, match="boosting' needs a dense"):
        model.fit(csr_array(X.to_numpy()), Y)
    model.set_params(public_target=False)
    with pytest.raises(ValueError, match="cannot be fitted on a private target"):
        model.fit(X.to_numpy(), Y)
