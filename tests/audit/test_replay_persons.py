"""Replays in which all rows of one person change together."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    TableSchema,
)
from skfdp.audit import audit_replay
from skfdp.audit.replay import neighbouring_tables
from skfdp.data.units import Units
from skfdp.queries import Weighted
from skfdp.schema import Label, Number
from skfdp.solvers import NoisyGradientDescent, NoisySGD

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.UtilityWarning")
N = 48
RNG = np.random.default_rng(0)
GROUPS = np.r_[np.arange(12), RNG.integers(0, 12, N - 12)]
WEIGHTS = RNG.random(N)
X = RNG.random((N, 3))
y = RNG.integers(0, 2, N)
FRAME = pd.DataFrame(X, columns=list("abc")).assign(who=GROUPS)
COMMON = {"bounds": (0, 1), "solver": NoisyGradientDescent(max_iter=2)}
TWO = {"classes": [0, 1], **COMMON}
LOGISTIC, OWN, WEIGHED = (
    FeatureDPLogisticRegression,
    {"groups": GROUPS},
    {"sample_weight": WEIGHTS},
)
NULLS, COLUMN = "nulls, weights, a column that tells", {"groups": "who", **WEIGHED}
FIRST = TableSchema(
    {**dict.fromkeys("abc", Number(0, 1)), "y": Label([0, 1])},
    outcomes=["y"],
    group="who",
    max_rows_per_group=2,
)
CASES = {
    "a loop": (LOGISTIC(**TWO), X, OWN),
    NULLS: (LOGISTIC(**TWO, neighboring_relation="replace_special"), FRAME, COLUMN),
    "the first rows": (LOGISTIC(schema=FIRST, solver=COMMON["solver"]), FRAME, {}),
    "batches of persons": (
        DPSGDFClassifier(**TWO | {"solver": NoisySGD(batch_size=4, max_iter=2)}),
        *(X, OWN),
    ),
    "labels alone": (LOGISTIC(**TWO, public_features="all"), X, OWN | WEIGHED),
    "numbers": (FeatureDPRegressor(**COMMON, target_bounds=(0, 1)), X, OWN),
    "released bounds": (DPSGDFClassifier(**TWO | {"bounds": "private"}), *(X, OWN)),
    "weights alone": (LOGISTIC(**TWO), X, WEIGHED),
}


def replayed(case, n_neighbors=6):
    model, table, fit_params = CASES[case]
    return audit_replay(model, table, y, fit_params=fit_params, n_neighbors=n_neighbors)


@pytest.mark.parametrize("case", CASES)
def test_nothing_but_sums_differs(case):
    result = replayed(case)
    assert result.passed, str(result)
    assert result.lower_bound < result.claimed_epsilon
    assert max(one.largest for one in result.releases) > 0.5
    persons = "groups" in CASES[case][2] or case == "the first rows"
    assert all(("person" in name) == persons for name in result.neighbors)


def test_a_reach_that_is_left_out_is_seen(monkeypatch):
    """The noise of one row where all rows of somebody move the sum."""
    monkeypatch.setattr(Units, "reach", 1.0)
    result = replayed(NULLS, 12)
    assert "distance" in {one.kind for one in result.differences}


def test_a_sensitivity_of_rows_is_seen(monkeypatch):
    """One that says what a row moves, beside a plan that knows better."""
    monkeypatch.setattr(
        Weighted, "sensitivity", lambda self, r: 0.5 * self.query.sensitivity(r)
    )
    result = replayed("labels alone")
    assert "distance" in {one.kind for one in result.differences}


def test_neighbours_differ_in_one_person():
    given = {"private": np.ones(3, bool), "target": "labels", "persons": GROUPS}
    seen, own = set(), np.column_stack([X, y])
    for neighbour in neighbouring_tables(X, y, np.random.default_rng(0), 60, **given):
        other = np.column_stack([neighbour.X, neighbour.y])
        same = (own == other) | np.isnan(own) & np.isnan(other)
        differ = np.flatnonzero(~same.all(axis=1))
        (person,) = set(GROUPS[neighbour.changed])
        assert set(neighbour.changed) == set(np.flatnonzero(GROUPS == person))
        assert set(differ) <= set(neighbour.changed)
        seen.add("some rows" if "some rows" in neighbour.name else "all rows")
        if "some rows" in neighbour.name:
            assert len(differ) < len(neighbour.changed)
        elif len(differ) == len(neighbour.changed) > 1:
            seen.add("more than one")
    assert seen == {"some rows", "all rows", "more than one"}


def test_neighbours_that_are_given():
    model, _, fit_params = CASES["labels alone"]
    own = np.flatnonzero(GROUPS == GROUPS[-1])
    assert len(own) > 1
    other = y.copy()
    other[own] = 1 - other[own]
    result = audit_replay(model, X, y, neighbors=[(X, other)], fit_params=fit_params)
    assert result.passed
    two = other.copy()
    two[np.flatnonzero(GROUPS != GROUPS[-1])[0]] ^= 1
    table, frame = X.copy(), FRAME.copy()
    table[own, 0] = 0.5
    frame.loc[own, "who"] = 99  # the column that tells is public
    for neighbour, case, given in (
        ((X, two), "labels alone", fit_params),
        ((X, other), "labels alone", None),
        ((table, y), "labels alone", fit_params),
        ((frame, y), NULLS, CASES[NULLS][2]),
    ):
        model, X_own, _ = CASES[case]
        with pytest.raises(ValueError, match="is not a neighbour"):
            audit_replay(model, X_own, y, neighbors=[neighbour], fit_params=given)


def test_steps_of_a_pipeline_are_told():
    model = make_pipeline(FunctionTransformer(), DPSGDFClassifier(**TWO))
    given = {"dpsgdfclassifier__groups": GROUPS}
    result = audit_replay(model, X, y, n_neighbors=4, fit_params=given)
    assert result.passed, str(result)
    assert all("person" in name for name in result.neighbors)
