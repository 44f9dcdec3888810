"""Estimators of raw tables: `schema=`."""

import dataclasses
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import skfdp
from skfdp.schema import Category, Date, Label, Number
from skfdp.solvers import NoisyGradientDescent

N = 400
FEATURES = {
    "age": Number(20, 80),
    "stay": Number(1, 60, spacing="geometric"),
    "admitted": Date("2020-01-01", "2024-12-31"),
    "sex": Category(["f", "m"]),
}
ILL, COST = Label(["no", "yes"]), Number(0, 6)
#: What is public: "y" is the target.
SPLITS = {
    "nothing": (),
    "columns": ("age", "admitted"),
    "target": ("y",),
    "both": ("sex", "y"),
    "label-DP": tuple(FEATURES),
}


def declared(public=(), outcome=ILL, features=FEATURES, **more):
    """Return a schema with some public columns; the column "id" is none of it."""
    columns = {
        name: dataclasses.replace(column, public=name in public)
        for name, column in {**features, "y": outcome}.items()
    }
    return skfdp.TableSchema(columns, **{"outcomes": ["y"], **more})


def table(seed=0, n=N):
    """Return a raw table with malformed cells, and labels."""
    rng = np.random.default_rng(seed)
    age, stay = rng.uniform(15, 90, n), rng.lognormal(2, 1, n)
    frame = pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m", "?"], n),
            "id": [f"p{i}" for i in range(n)],
            "stay": stay,
            "admitted": pd.Timestamp("2019-06-01")
            + pd.to_timedelta(rng.integers(0, 2200, n), "D"),
        }
    )
    margin = 3 * np.sin(age / 12) + np.log(stay) - 2
    frame.loc[rng.random(n) < 0.1, "stay"] = np.nan
    return frame, np.where(rng.random(n) < 1 / (1 + np.exp(-margin)), "yes", "no")


X, Y = table()


def classifier(kind=skfdp.FeatureDPLogisticRegression, public=(), **more):
    """Return an unfitted classifier with a seed, so that it can be compared."""
    given = {"schema": declared(public), "random_state": 0, **more}
    if kind is skfdp.FeatureDPMLPClassifier:
        given = {"hidden_layer_sizes": (4,), **given}
    return kind(epsilon=2.0, **given)


def encoded(model, rows=X):
    return model.encoder_.transform(model.schema.select(rows))


def records(model, rows):
    """Return what a fit reads of a table."""
    return model._on_records(lambda found: found, rows, Y)


@pytest.mark.parametrize(
    ("kind", "split", "epsilon"),
    [
        *((skfdp.FeatureDPLogisticRegression, split, 2.0) for split in SPLITS),
        (skfdp.FeatureDPLogisticRegression, "nothing", np.inf),
        (skfdp.DPSGDFClassifier, "nothing", 2.0),
    ],
)
def test_a_model_of_raw_columns_is_linear_in_encoded_ones(kind, split, epsilon):
    model = classifier(kind, SPLITS[split]).set_params(epsilon=epsilon)
    if split == "both":
        model.set_params(public_model="linear")  # without trees beside `coef_`
    rows = encoded(model.fit(X, Y))
    assert model.coef_.shape == (1, rows.shape[1])
    if epsilon < np.inf:
        hidden = {*FEATURES} - {*SPLITS[split]}
        assert {*model.privacy_.private_features} == hidden
    np.testing.assert_allclose(
        model.decision_function(X), rows @ model.coef_[0] + model.intercept_
    )
    assert model.n_features_in_ == 4 and list(model.feature_names_in_) == list(FEATURES)
    assert np.mean(model.predict(X) == Y) > 0.6


def test_predictions_do_not_depend_on_earlier_ones():
    """Unchanged columns are not read again."""
    model, found = classifier().fit(X, Y), []
    stored = len(pickle.dumps(model))
    for name, cells in [
        *[(None, None)] * 2,
        *(("age", end) for end in (30.0, 70.0, np.float32(0.1), "x")),
        *(("sex", text) for text in ("f", "m", None, pd.Categorical(["m"] * N))),
        ("coef_", 2 * model.coef_),
    ]:
        rows = X.copy()
        if name == "coef_":
            model.coef_[:] = cells
        elif name is not None:
            rows[name] = cells
        for table in (rows, rows):
            with warnings.catch_warnings(record=True):
                found.append(model.decision_function(table))
                again = pickle.loads(pickle.dumps(model)).decision_function(table)
            np.testing.assert_array_equal(found[-1], again)
    assert len(pickle.dumps(model)) == stored
    assert len({one.tobytes() for one in found}) > 8


@pytest.mark.parametrize("split", SPLITS)
def test_regressors_take_a_schema(split):
    target = np.log(X["stay"].fillna(7.0)).to_numpy() + X["age"].to_numpy() / 50
    schema = declared(SPLITS[split], COST)
    model = skfdp.FeatureDPRegressor(4.0, schema=schema, random_state=0)
    model.fit(X, target)
    expected = encoded(model) @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X), expected.clip(0, 6))
    assert model.score(X, target) > 0.3


# -- what is private ------------------------------------------------------------------
def with_private(public, seed):
    """Return the table with other values, also malformed ones, in private columns."""
    rng, other = np.random.default_rng(seed), X.copy()
    wild = np.array([np.nan, np.inf, -1e300, "x", None, "f", 3, True], dtype=object)
    for name in set(X) - set(public):
        other[name] = rng.choice(wild, N)
    return other


@pytest.mark.parametrize("public", [[], ["age"], ["sex", "age"]])
def test_a_plan_is_made_with_zeros_in_place_of_private_columns(public):
    model = classifier(public=public)
    found = model._on_records(lambda records: records, X, None, planning=True)
    rows, shown = np.asarray(found.X), found.public.mask
    assert not rows[:, ~shown].any() and rows[:, shown].any() == bool(public)


@pytest.mark.parametrize("public", [[], ["age"], ["sex", "age"], ["stay", "admitted"]])
def test_what_is_public_of_encoded_rows_knows_no_private_column(public):
    model = classifier(public=public)
    known, plan = records(model, X).public, model.plan(X)
    for seed in range(3):
        other = with_private(public, seed)
        found = records(classifier(public=public), other).public
        np.testing.assert_array_equal(found.rows(), known.rows())
        np.testing.assert_array_equal(found.X, known.X)
        assert found.columns == known.columns and (found.mask == known.mask).all()
        assert model.plan(other) == plan
    width = 0
    for block in known.encoding.encoder.blocks_:
        width += (list(FEATURES)[block.parent] in public) * len(block.levels)
    assert known.rows().shape[1] == width


def test_rows_of_the_loop_are_as_long_as_is_said():
    for public in ((), ("age",)):
        found = records(classifier(public=public), X)
        private = np.asarray(found.X)[:, ~found.public.mask]
        lengths = np.linalg.norm(private, axis=1)
        assert (lengths <= found.public.longest_private * (1 + 1e-9)).all()
        assert not found.public.private_bounded  # entries have either sign


def test_ledgers_compare_raw_names():
    ledger = skfdp.PrivacyLedger(epsilon=50, delta=1e-5, public=["age"])
    given = {"ledger": ledger, "random_state": None}
    classifier(public=["age"], **given).fit(X, Y)
    event = ledger.entries[0].event
    assert event.public_features == ("age",) and event.target_name == "y"
    with pytest.raises(skfdp.PrivacyBudgetError):
        classifier(public=["sex"], **given).fit(X, Y)


def test_a_network_takes_a_schema():
    model = classifier(skfdp.FeatureDPMLPClassifier).fit(X, Y)
    assert set(model.predict(X)) <= {"no", "yes"}
    assert set(model.privacy_.private_features) == set(FEATURES)


def test_public_models_see_encoded_columns():
    trees = HistGradientBoostingClassifier(max_iter=5)
    model = classifier(public=["age", "sex", "y"], public_model=trees)
    rows = encoded(model.fit(X, Y))
    blocks = {b.name: slice(b.start, b.stop) for b in model.encoder_.blocks_}
    public = np.r_[blocks["age"], blocks["sex"]]
    offset = model.public_model_.margins(rows[:, public])[:, 0]
    expected = rows @ model.coef_[0] + model.intercept_ + offset
    np.testing.assert_allclose(model.decision_function(X), expected)


# -- refusals ------------------------------------------------------------------------
RAW = skfdp.FeatureDPLogisticRegression
WIDER = declared(features=FEATURES | {"weight": Number(0, 200)})
SINGLE = "protects single rows, but the schema has group='id'"
IN_ITS_SCHEMA = "cannot be combined with a schema: declare it in the schema"


REFUSED = [
    (RAW, {"schema": "hats"}, "schema='hats' must be a TableSchema or None"),
    *((RAW, {"bounds": one}, IN_ITS_SCHEMA) for one in ((0, 1), "private")),
    (RAW, {"public_features": ["age"]}, IN_ITS_SCHEMA),
    (RAW, {"public_target": True}, IN_ITS_SCHEMA),
    (RAW, {"classes": ["no", "yes"]}, IN_ITS_SCHEMA),
    (skfdp.FeatureDPRegressor, {"target_bounds": (0, 6)}, IN_ITS_SCHEMA),
    (skfdp.FeatureDPRegressor, {}, "outcome 'y' of the schema is a label"),
    (RAW, {"schema": declared(outcome=COST)}, "outcome 'y' of the schema is a nu"),
    (RAW, {"target": "age"}, "target='age' must name an outcome"),
    (RAW, {"solver": NoisyGradientDescent(normalize=True)}, "leave normalize out"),
    (RAW, {"schema": WIDER}, "the table lacks the column weight"),
    (
        skfdp.FeatureDPMLPClassifier,
        {"schema": declared(group="id"), "solver": "noisy-gd"},
        SINGLE,
    ),
]


@pytest.mark.parametrize(("kind", "given", "words"), REFUSED)
def test_what_does_not_go_with_a_schema(kind, given, words, releases):
    with pytest.raises(ValueError, match=words):
        classifier(kind, **given).fit(X, Y)
    assert not releases
