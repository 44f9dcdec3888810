"""Whole jobs of the API: the table of a hospital, and the five scripts of its page."""

import inspect
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import skfdp
from skfdp import (
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyBudgetError,
    PrivacyLedger,
    TableSchema,
    UtilityWarning,
)
from skfdp.cli import main
from skfdp.cli import results as saving
from skfdp.schema import Boolean, Category, Date, Ignore, Label, Number
from skfdp.solvers import NoisyGradientDescent

WARDS = ["surgery", "internal", "eyes"]
OUTCOMES = ["readmitted", "severity", "cost"]


def stays(n=1500, seed=0):
    """Return stays of patients, of whom some have several, as a hospital has them."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10_000, n), "h")
    table = pd.DataFrame(
        {
            "patient_id": rng.integers(0, n // 3, n),
            "age": age,
            "sex": rng.choice(["F", "M", "f"], n, p=[0.49, 0.49, 0.02]),
            "admitted": day,
            "ward": rng.choice(WARDS, n),
            "smoker": rng.choice(["yes", "no"], n),
            "zip": rng.integers(1000, 99_999, n).astype(str),
        }
    )
    risk = age / 30 + (table["ward"] == "internal") + rng.normal(size=n)
    table["readmitted"] = (risk > 3).astype(int)
    severity = np.searchsorted([2, 3.5], risk)
    table["severity"] = np.array(["mild", "severe", "critical"])[severity]
    table["cost"] = np.exp(6 + risk / 2 + 0.5 * rng.normal(size=n)).round(2)
    table.loc[rng.random(n) < 0.3, "smoker"] = None
    return table


SCHEMA = TableSchema(
    {
        "age": Number(17, 90, public=True),
        "sex": Category(["F", "M"]),
        "admitted": Date("2024-01-01", "2025-12-31", hour=True),
        "ward": Category(WARDS, public=True),
        "smoker": Boolean(true=["yes"], false=["no"]),
        "zip": Ignore(),
        "readmitted": Label([0, 1]),
        "severity": Label(["mild", "severe", "critical"]),
        "cost": Number(0, 100_000),
    },
    outcomes=OUTCOMES,
    group="patient_id",
)
TABLE = stays()


def estimator(target, **given):
    kind = FeatureDPRegressor if target == "cost" else FeatureDPLogisticRegression
    return kind(1.0, schema=SCHEMA, target=target, **given)


def weights(model):
    return [getattr(model, name) for name in ("coef_", "intercept_")]


@pytest.mark.parametrize("target", OUTCOMES)
def test_one_schema_gives_each_outcome_in_python_and_on_the_command_line(
    target, tmp_path
):
    paths = [tmp_path / name for name in ("s.toml", "stays.csv", "model.joblib")]
    SCHEMA.save(paths[0])
    TABLE.to_csv(paths[1], index=False)
    model = estimator(target, random_state=3).fit(*SCHEMA.split(TABLE, target))
    argv = ["fit", paths[1], "--schema", paths[0], "--target", target, "--seed", "3"]
    assert main([*map(str, argv), "--no-evaluate", "--model", str(paths[2])]) == 0
    found = saving.load(str(paths[2]))
    for own, other in zip(weights(model), weights(found), strict=True):
        np.testing.assert_array_equal(own, other)
    assert model.privacy_.unit == "person"
    assert set(model.feature_names_in_) == set(SCHEMA.features)
    assert found.privacy_.public_features == ("age", "ward")


def test_one_ledger_and_one_report_for_three_outcomes():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, public=["age", "ward"])
    for target in OUTCOMES:
        X, y = SCHEMA.split(TABLE, target)
        estimator(target, ledger=ledger).fit(X, y)
    assert 1 < ledger.spent() < 2
    statement = skfdp.report(ledger).statement()
    assert all(outcome in statement for outcome in OUTCOMES)
    with pytest.raises(PrivacyBudgetError):
        estimator("cost", ledger=ledger).set_params(epsilon=2.0).fit(X, y)


def test_columns_are_chosen_by_name_and_a_group_is_needed():
    model = estimator("readmitted", random_state=0)
    X, y = SCHEMA.split(TABLE, "readmitted")
    expected = model.fit(X, y).coef_
    mixed = TABLE[TABLE.columns[::-1]]
    np.testing.assert_array_equal(model.fit(mixed, y).coef_, expected)
    kept = [*SCHEMA.features]
    np.testing.assert_array_equal(model.predict(TABLE[kept]), model.predict(mixed))
    with pytest.raises(ValueError, match="has no column 'patient_id'"):
        model.fit(X[kept], y)
    groups = TABLE["patient_id"].to_numpy()
    np.testing.assert_array_equal(model.fit(X[kept], y, groups=groups).coef_, expected)
    with pytest.raises(ValueError, match="groups and the column 'patient_id' of X"):
        model.fit(X, y, groups=groups[::-1])
    with pytest.raises(
        ValueError, match="protects single rows, but the schema has group"
    ):
        skfdp.FeatureDPMLPClassifier(schema=SCHEMA, target="readmitted").fit(X, y)


def test_a_target_without_a_name_is_refused():
    X, y = SCHEMA.split(TABLE, "severity")
    with pytest.raises(ValueError, match="the target is not named"):
        FeatureDPLogisticRegression(schema=SCHEMA).fit(X, y.to_numpy())


@pytest.mark.parametrize(
    "y", [3, np.zeros((1500, 2)), pd.DataFrame({"a": [1], "b": 1})]
)
def test_a_target_of_another_shape_is_refused_before_the_charge(y):
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        estimator("readmitted", ledger=ledger).fit(TABLE, y)
    assert not ledger.entries


def test_an_ignored_identifier_without_a_group_warns():
    columns = {
        "age": Number(17, 90),
        "patient_id": Ignore(),
        "readmitted": Label([0, 1]),
    }
    schema = TableSchema(columns, outcomes=["readmitted"])
    with pytest.warns(UtilityWarning, match="ignores 'patient_id'.* no group"):
        FeatureDPLogisticRegression(schema=schema).fit(TABLE, TABLE["readmitted"])


def test_more_levels_than_records_can_fill_warn():
    columns = {
        "zip": Category([str(k) for k in range(200)]),
        "readmitted": Label([0, 1]),
    }
    schema = TableSchema(columns, outcomes=["readmitted"])
    with pytest.warns(UtilityWarning, match="'zip' has 202 declared levels for 1500"):
        FeatureDPLogisticRegression(schema=schema).plan(TABLE)


# -- the five scripts ----------------------------------------------------------------
def test_text():
    texts = ["good fine day", "bad rain cold"] * 300
    model = make_pipeline(
        HashingVectorizer(n_features=64, norm="l2", alternate_sign=False),
        FeatureDPLogisticRegression(2.0, bounds=(0, 1), classes=[0, 1]),
    )
    assert model.fit(texts, [1, 0] * 300).score(texts, [1, 0] * 300) > 0.9


def test_drop_in():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.random(600), "b": rng.choice(["u", "v"], 600)})
    y = (X["a"] + (X["b"] == "u") > 0.8).astype(int)
    columns = ColumnTransformer(
        [("a", MinMaxScaler(), ["a"]), ("b", OneHotEncoder(sparse_output=False), ["b"])]
    )
    columns.set_output(transform="pandas")
    model = FeatureDPLogisticRegression(
        8.0, C=1, bounds=(0, 1), classes=[0, 1], n_jobs=2
    )
    pipeline = clone(make_pipeline(columns, model)).fit(X, y)
    assert pipeline.score(X, y) > 0.8
    assert [*pipeline[-1].feature_names_in_] == ["a__a", "b__b_u", "b__b_v"]


@pytest.mark.parametrize("target", OUTCOMES)
def test_copies_and_files_keep_a_schema(target, tmp_path):
    model = estimator(target, solver=NoisyGradientDescent(max_iter=5), random_state=0)
    assert clone(model).schema is SCHEMA
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit(*SCHEMA.split(TABLE, target))
    joblib.dump(model, tmp_path / "m.joblib")
    loaded = joblib.load(tmp_path / "m.joblib")
    np.testing.assert_array_equal(loaded.predict(TABLE), model.predict(TABLE))
    assert loaded.schema == SCHEMA and loaded.solver_.max_iter == 5


def test_constructors_have_few_parameters():
    for name in skfdp.__all__:
        found = getattr(skfdp, name)
        if inspect.isclass(found) and hasattr(found, "get_params"):
            assert len(inspect.signature(found).parameters) <= 18, name


def test_the_command_line_states_the_context(tmp_path, capsys):
    paths = [tmp_path / name for name in ("s.toml", "stays.csv", "r.json")]
    SCHEMA.save(paths[0])
    TABLE.to_csv(paths[1], index=False)
    argv = ["fit", paths[1], "--schema", paths[0], "--target", "severity"]
    argv += ["--no-evaluate", "--report", paths[2], "--context"]
    argv = [*map(str, argv), "by=R. Meyer", "purpose=planning of beds"]
    assert main(argv) == 0
    assert "by: R. Meyer; purpose: planning of beds" in " ".join(
        capsys.readouterr().out.split()
    )
    with pytest.raises(SystemExit):
        main([*argv[:-2], "author=x"])
    assert "'author'" in capsys.readouterr().err
