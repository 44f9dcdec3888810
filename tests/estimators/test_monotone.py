"""Effects that are declared as monotone are so for every row that is predicted."""

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression

import skfdp
from skfdp.schema import Category, Label, Number, SchemaError
from skfdp.solvers.postprocessing import CoefficientNoise, in_order

GRADES = ["low", "middle", "high", "top"]
RNG = np.random.default_rng(4)
N = 2500
FRAME = pd.DataFrame(
    {
        "age": RNG.uniform(0, 100, N),
        "dose": RNG.uniform(-1, 1, N),
        "visits": RNG.integers(0, 9, N),
        "grade": RNG.choice(GRADES, N),
        "other": RNG.normal(size=N),
    }
)
MARGIN = FRAME["age"] / 40 - FRAME["dose"] + FRAME["grade"].map(GRADES.index) / 2 - 2
Y = pd.Series((RNG.random(N) < 1 / (1 + np.exp(-MARGIN))).astype(int), name="ill")
COST = pd.Series(np.exp(MARGIN / 2) + RNG.gamma(1.0, 0.2, N), name="cost")
COLUMNS = {
    "age": Number(0, 100, monotone="increasing"),
    "dose": Number(-1, 1, basis="linear", monotone="decreasing"),
    "visits": Number(0, 8, integer=True, monotone="increasing"),
    "grade": Category(GRADES, monotone="increasing"),
    "other": Number(-3, 3),
    "ill": Label([0, 1]),
    "cost": Number(0, 20),
}
DIRECTIONS = {"age": 1, "dose": -1, "visits": 1, "grade": 1}


def schema(*public, **changed):
    columns = {**COLUMNS, **changed}
    for name in public:
        fields = {**vars(columns[name]), "public": True}
        columns[name] = type(columns[name])(**fields)
    return skfdp.TableSchema(columns, outcomes=["ill", "cost"])


def turns(predict, n=300):
    """Return, by column, the largest step of a prediction in the wrong direction."""
    rows, found = FRAME.sample(n, random_state=0), {}
    for name, sign in DIRECTIONS.items():
        values = GRADES if name == "grade" else np.linspace(-2, 110, 40)
        margins = [predict(rows.assign(**{name: value})) for value in values]
        found[name] = -(sign * np.diff(margins, axis=0)).min()
    return found


SPLITS = {
    "nothing public": (schema(), {}),
    "label-DP": (schema(*FRAME), {}),
    "public columns": (schema("age", "grade", "other"), {}),
    "public target": (schema("age", "grade", "other", "ill", "cost"), {}),
    "no privacy": (schema(), {"epsilon": np.inf}),
}


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize("split", SPLITS)
def test_no_row_violates_the_order(split, epsilon):
    declared, given = SPLITS[split]
    given = {"epsilon": epsilon, "schema": declared, "random_state": 0} | given
    model = skfdp.FeatureDPLogisticRegression(target="ill", **given).fit(FRAME, Y)
    assert max(turns(model.decision_function).values()) <= 1e-9
    if split != "public target":  # trees are not exported
        rows = model.to_sklearn().decision_function(FRAME[:40])
        np.testing.assert_allclose(rows, model.decision_function(FRAME[:40]), atol=1e-9)
    model = skfdp.FeatureDPRegressor(target="cost", **given).fit(FRAME, COST)
    assert max(turns(model.predict).values()) <= 1e-9
    model.set_params(loss="gamma", schema=schema(cost=Number(0.1, 20)))
    assert max(turns(model.fit(FRAME, COST).predict).values()) <= 1e-9


def test_without_privacy_the_optimum_is_constrained():
    x = RNG.integers(0, 8, 3000)
    y = (RNG.random(3000) < np.where(x == 5, 0.2, 0.05 + x / 10)).astype(int)
    share = np.array([y[x == k].mean() for k in range(8)])
    columns = {"x": Number(0, 7, monotone="increasing"), "y": Label([0, 1])}
    frame, labels = pd.DataFrame({"x": x}), pd.Series(y, name="y")
    given = {"schema": skfdp.TableSchema(columns, outcomes=["y"]), "C": 1e4}
    model = skfdp.FeatureDPLogisticRegression(np.inf, **given).fit(frame, labels)
    found = model.predict_proba(pd.DataFrame({"x": np.arange(8)}))[:, 1]
    # Adjacent counts whose shares fall have one probability, as in isotonic regression.
    best = isotonic_regression(share, sample_weight=np.bincount(x))
    np.testing.assert_allclose(found, best, atol=1e-3)
    assert np.abs(best - share).max() > 0.05


def test_ordered_curves_are_nearer_to_every_ordered_curve():
    (block,) = Number(0, 1, knots=5, monotone="increasing").blocks("x", 0)
    root = RNG.normal(size=(7, 7))
    noise = CoefficientNoise((root @ root.T)[None], "estimated")
    weights = np.array([0.0, 2.0, 1.0, 3.0, 2.5, 0.7, -1.0])
    found, left = in_order(weights, noise, [block])

    def far(one, other):
        return (((one - other) / noise.std[0]) ** 2).sum()

    assert (np.diff(found[:5]) >= 0).all()
    for _ in range(2000):
        other = found + 0.1 * RNG.normal(size=7)
        other[:5] = np.maximum.accumulate(other[:5])
        assert far(other, weights) >= far(found, weights)
        assert far(other, found) <= far(other, weights)
    assert (left.std <= noise.std + 1e-12).all() and left.std.sum() < noise.std.sum()
    kept, same = in_order(np.sort(weights), noise, [block])
    np.testing.assert_array_equal(kept, np.sort(weights))
    np.testing.assert_array_equal(same.covariance, noise.covariance)


def test_what_cannot_be_monotone_is_refused():
    with pytest.raises(SchemaError, match="'age' is cyclic and monotone"):
        schema(age=Number(0, 9, cyclic=True, monotone="increasing")).blocks()
    with pytest.raises(SchemaError, match="monotone='up' of 'age' must be one of"):
        schema(age=Number(0, 9, monotone="up")).blocks()
    three = schema(ill=Label([0, 1, 2]))
    own = schema("age", "ill")
    cases = [
        skfdp.FeatureDPLogisticRegression(schema=three, target="ill"),
        skfdp.FeatureDPMLPClassifier(schema=schema(), target="ill", solver="noisy-gd"),
        skfdp.FeatureDPLogisticRegression(
            schema=own, target="ill", public_model=LogisticRegression()
        ),
    ]
    for model in cases:
        with pytest.raises(ValueError, match="'age' is declared as monotone, which"):
            model.fit(FRAME, Y)


def test_a_file_keeps_the_order(tmp_path):
    schema().save(tmp_path / "s.toml")
    assert skfdp.TableSchema.load(tmp_path / "s.toml").columns == schema().columns
