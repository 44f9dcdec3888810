"""A column type of one's own works everywhere, or is refused; see CONTRIBUTING.rst."""

import dataclasses
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from ordinal import Ordinal

from skfdp import DeclaredEncoder, FeatureDPLogisticRegression, TableSchema
from skfdp.inspection import EffectsDisplay
from skfdp.schema import Category, Label, Number, SchemaError

LEVELS = ["none", "mild", "severe", "4"]
COLUMNS = {
    "pain": Ordinal(LEVELS, missing=["?"]),
    "grade": Ordinal([1, 2.5, 4], public=True),
    "age": Number(0, 90),
    "ill": Label([0, 1]),
}
SCHEMA = TableSchema(COLUMNS, outcomes="ill")


def table(n_rows=2000):
    rng = np.random.default_rng(0)
    rank = rng.integers(0, 4, n_rows)
    pain = np.array(LEVELS, dtype=object)[rank]
    pain[::50], pain[1::50], pain[2::50] = None, "unheard of", "?"
    age, grade = rng.uniform(0, 90, n_rows), rng.choice([1, 2.5, 4, np.nan], n_rows)
    ill = (rng.random(n_rows) < 0.1 + 0.2 * rank).astype(int)
    return pd.DataFrame({"pain": pain, "grade": grade, "age": age, "ill": ill})


def fitted(schema, X):
    model = FeatureDPLogisticRegression(5.0, schema=schema, random_state=0)
    return model.fit(*schema.split(X))


@pytest.fixture(scope="module")
def model():
    return fitted(SCHEMA, table())


def test_ranks_are_read_cell_by_cell():
    cells = ["mild", None, " severe ", "x", 4, "4.0", "?", "none"]
    X = pd.DataFrame({"pain": cells, "grade": [4, "2.50", 3, 1, "", None, "1", "x"]})
    found = DeclaredEncoder(SCHEMA).fit_transform(X.assign(age=np.nan))
    pain = [1, 4, 2, 4, 3, 3, 4, 0]  # 4: missing
    np.testing.assert_array_equal(found[:, :5], np.eye(5)[pain])
    np.testing.assert_array_equal(found[:, 5:9], np.eye(4)[[2, 1, 3, 0, 3, 3, 0, 3]])
    for j in range(len(X)):  # a cell alone, and stored with other types
        alone = DeclaredEncoder(SCHEMA).fit_transform(X[j : j + 1].assign(age=1))
        np.testing.assert_array_equal(alone[0, :9], found[j, :9])
    typed = SCHEMA.read(table())
    pd.testing.assert_frame_equal(SCHEMA.read(typed), typed)


def test_a_whole_job(model, tmp_path):
    X = table(300)
    joblib.dump(model, tmp_path / "m.joblib")
    for same in joblib.load(tmp_path / "m.joblib"), pickle.loads(pickle.dumps(model)):
        np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
        assert same.schema == SCHEMA
    # Ranks are smoothed: the effect rises, as in the rows.
    rows = pd.concat([X[:1].assign(pain=level) for level in LEVELS])
    found = model.decision_function(rows)
    assert (np.diff(found) > 0.2).all()
    names = [f"pain__{level}" for level in [*LEVELS, "missing"]]
    assert list(model.encoder_.get_feature_names_out()[:5]) == names
    effects = EffectsDisplay.from_estimator(model, max_panels=None).effects
    assert effects["pain"].kind == "bars" and effects["age"].kind == "curve"
    assert effects["pain"].places[0].tolist() == LEVELS
    np.testing.assert_allclose(effects["pain"].values[0], found - found.mean())
    assert effects["pain"].apart.places[0].tolist() == ["missing"]
    values = model.coefficients_table()["value"]
    assert [*values[:5]] == [*LEVELS, "missing"] and [*values[5:8]] == [1, 2.5, 4]


def test_an_exported_model_predicts_the_same(model):
    odd = table(300).astype(object)
    odd.loc[:9, "pain"] = ["NA", "", np.nan, 4, 4.0, "4", True, "mild ", b"mild", "?"]
    odd.loc[:9, "grade"] = ["1", "2.50", True, 1, 3, "7", None, 2.5, np.nan, 4]
    exported, typed = model.to_sklearn(), {"pain": "category", "grade": "Float64"}
    for X in (table(300), odd, table(300).astype(typed)):
        found, expected = exported.predict_proba(X), model.predict_proba(X)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_file_holds_the_type_by_its_name(tmp_path):
    SCHEMA.save(tmp_path / "s.toml")
    assert TableSchema.load(tmp_path / "s.toml") == SCHEMA
    text = SCHEMA.to_toml()
    assert text.count('type = "ordinal"') == 2
    (tmp_path / "s.toml").write_text(text.replace('"ordinal"', '"rank"'), "utf-8")
    with pytest.raises(SchemaError, match="type of 'pain' .* the unknown entry 'rank'"):
        TableSchema.load(tmp_path / "s.toml")
    with pytest.raises(SchemaError, match="'pain' has one level"):
        TableSchema({"pain": Ordinal(["a"])})
    with pytest.raises(SchemaError, match="type='number' of Other is the name of"):
        type("Other", (Category,), {}, type="number")


@dataclasses.dataclass(frozen=True)
class Scaled(Number):
    factor: float = 1.0


class Hexadecimal(Number):
    """Text is read in another way; no name in files."""

    def number(self, text, schema):
        return int(text, 16)


@dataclasses.dataclass(frozen=True)
class Described(Number, type="described"):
    more: object = None


REFUSED = [
    (Scaled(0, 1, factor=2.0), "'a' is of the type Scaled, which has no name in files"),
    (Hexadecimal(0, 255), "the type Hexadecimal, which has no name in files"),
    *((Described(0, 1, more=m), "'a' has fields that a file") for m in (b"x", {1: 2})),
    (Described(0, 1, more={"b": 1, "c = 2}, d": 3}), "has fields that a file cannot"),
]


@pytest.mark.parametrize(("column", "reason"), REFUSED)
def test_what_a_file_would_hold_as_something_else_is_refused(column, reason, tmp_path):
    schema, path = TableSchema({"a": column}), tmp_path / "s.toml"
    with pytest.raises(SchemaError, match=reason):
        schema.save(path)
    assert schema.blocks() and not path.exists()
    kept = Described(0, 1, more=[1, "b", 0.5], knots=[0, 1], missing=["-"])
    schema = TableSchema({"a": kept, "b": Described()})
    schema.save(path)
    assert TableSchema.load(path) == schema


def test_own_numbers_of_a_cell_move_no_other_cell():
    """An exception of the type, which may quote the cell, makes the cell missing."""
    schema = TableSchema({"a": Hexadecimal(0, 255), "y": Label([0, 1])}, outcomes="y")
    cells, expected = ["ff", "10", 7, "", "0a"], [255, 16, 7, np.nan, 10]
    for odd in ("canary", None, 1j, True, b"1f", "nan", 2.5, [1]):
        column = pd.Series([*cells, odd], dtype=object)
        found, lost = schema.converted("a", column)
        np.testing.assert_array_equal(found[:5], expected)
        assert not lost[:5].any() and lost[5] == (odd in ("canary", 1j, b"1f", [1]))
    X = pd.DataFrame({"a": np.arange(200) % 256.0, "y": np.arange(200) % 2})
    model = fitted(schema, X)
    found, expected = model.to_sklearn().predict_proba(X), model.predict_proba(X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    with pytest.raises(TypeError, match="str"):  # a Pipeline cannot read such text
        model.to_sklearn().predict(pd.DataFrame({"a": ["ff"]}))
    for name in ("read", "points", "blocks"):

        def way(*args, name=name, **more):
            return getattr(Number, name)(*args, **more)

        columns = {"a": type("Own", (Number,), {name: way})(0, 255), "y": Label([0, 1])}
        model = fitted(TableSchema(columns, outcomes="y"), X)
        with pytest.raises(ValueError, match="'a' is of the type Own, which reads or"):
            model.to_sklearn()
