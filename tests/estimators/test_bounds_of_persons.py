"""Private bounds where all rows of a person are protected together."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import skfdp
from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyBudgetError,
    PrivacyLedger,
    private_bounds,
)
from skfdp.data.units import Units
from skfdp.privacy import AddOrRemoveOne, Relation, gdp_epsilon
from skfdp.queries.statistics import Binades, BinCounts
from skfdp.queries.weighted import Weighted
from skfdp.solvers import NoisyGradientDescent, NoisySGD
from skfdp.solvers.bounds import check_noise
from skfdp.solvers.method import Budget

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SEEDED = {"random_state": 0}
STEPS = NoisyGradientDescent(max_iter=20)
EXTREMES = [0.0, 1.0, -3.0, 1e308, math.nan, math.inf]


@pytest.fixture
def panel():
    """3000 rows of 1000 persons: one of them has 200, the others 1 to 5."""
    rng = np.random.default_rng(3)
    groups = np.r_[np.zeros(200, int), rng.integers(1, 1000, 2800)]
    X = np.column_stack([rng.uniform(18, 90, 3000), rng.normal(size=3000)])
    return X, groups


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
@pytest.mark.parametrize("weights", [[1024] * 4, [512, 512, 1024, 7]])
def test_nobody_moves_the_counts_further_than_is_said(relation, weights):
    """Every table of extremes against every other private part of one person."""
    units = Units(np.array(weights), np.array([0, 0, 1, 1]))
    relation = Relation(relation)
    largest = 0.0
    tables = {
        values: Weighted(BinCounts(np.array(values).reshape(4, 1), Binades()), units)
        for values in itertools.product(EXTREMES, repeat=4)
    }
    (unit,) = {query.unit(1.0) for query in tables.values()}
    sums = {values: q.exact_sum(None, None, unit) for values, q in tables.items()}
    for values, query in tables.items():
        for person, kept in ((0, values[2:]), (1, values[:2])):
            if relation.replaces:
                pairs = itertools.product(EXTREMES, repeat=2)
                totals = [sums[(*kept, *o) if person else (*o, *kept)] for o in pairs]
            else:
                others = np.flatnonzero(units.persons != person)
                totals = [query.exact_sum(None, others, unit)]
            distances = (sums[values] - np.array(totals)) * unit
            largest = max(largest, np.linalg.norm(distances, axis=(1, 2)).max())
    bound = Weighted(BinCounts.planned(1), units).sensitivity(relation)
    assert largest <= bound * (1 + 1e-9)
    assert largest > 0.99 * bound  # all rows of a person in one bin, then in another


def test_two_releases_of_the_planned_level(panel, releases):
    X, groups = panel
    found = private_bounds(X, epsilon=2.0, groups=groups)
    n_persons = len(np.unique(groups))
    first, second = releases
    for seen in (first, second):
        units = seen["query"].units
        assert units.n_units == n_persons
        moved = 2 * units.reach  # a bin less and one more, in each of two columns
        assert seen["query"].sensitivity(Relation("replace_one")) == moved
        # shares of all rows are in one bin of each column
        assert seen["exact"].sum(axis=1) == pytest.approx(n_persons)
    mu = math.sqrt(sum((moved / seen["std"]) ** 2 for seen in releases))
    assert gdp_epsilon(1e-5, mu) == pytest.approx(2.0, rel=1e-9)
    assert found.privacy_.epsilon <= 2.0
    assert {event.unit for event in found.privacy_.events} == {"person"}
    assert found.privacy_.n_records == found.plan.n_records == n_persons


def test_someone_with_many_rows_sets_no_bound(panel):
    """200 rows of one person are seen as records, and not as those of a person."""
    X, groups = panel
    X[groups == 0, 1] = 1e9
    assert private_bounds(X, epsilon=4.0, **SEEDED).bounds[1][1] > 1e8
    low, high = private_bounds(X, epsilon=4.0, groups=groups, **SEEDED).bounds[1]
    assert -10 < low < -0.5 and 0.5 < high < 10


def test_the_plan_is_that_of_the_fit_and_looks_at_no_value(panel):
    X, groups = panel
    plan = private_bounds(np.full_like(X, np.nan), groups=groups, plan_only=True)
    assert plan.to_dict() == private_bounds(X, groups=groups).plan.to_dict()


def test_a_column_tells_the_persons(panel):
    X, groups = panel
    frame = pd.DataFrame(X, columns=["age", "z"]).assign(who=groups)
    named = private_bounds(frame, epsilon=2.0, groups="who", **SEEDED)
    given = private_bounds(frame[["age", "z"]], epsilon=2.0, groups=groups, **SEEDED)
    assert named.bounds == given.bounds
    with pytest.raises(ValueError, match="not the name of a column of X"):
        private_bounds(frame, groups="whom")


def test_persons_are_refused_where_there_are_none(panel):
    X, groups = panel
    ledger = PrivacyLedger()
    private_bounds(X, ledger=ledger)
    with pytest.raises(PrivacyBudgetError, match="cannot be composed"):
        private_bounds(X, groups=groups, ledger=ledger)
    add = {"neighboring_relation": AddOrRemoveOne(3000)}
    with pytest.raises(ValueError, match="groups needs a public number of rows"):
        private_bounds(X, groups=groups, **add)


def test_noise_that_no_integer_carries_is_refused():
    """The noise is in shares, and integers count steps of them."""
    event = skfdp.privacy.Event(
        label="bins", noise_std=(2.0**35,), clip_norm=1, sensitivity=1
    )
    budget = Budget(1e-9, 1e-9, Relation("replace_one"), {})
    check_noise(event, budget, None)
    units = Units(np.array([1, 1023]), np.array([0, 1]))
    assert units.step == 2.0**-9
    with pytest.raises(ValueError, match="raise the budget"):
        check_noise(event, budget, units)


@pytest.mark.parametrize(
    "model",
    [
        FeatureDPLogisticRegression(classes=[0, 1], solver=STEPS),
        FeatureDPLogisticRegression(classes=[0, 1], solver=STEPS, public_features=[1]),
        FeatureDPLogisticRegression(classes=[0, 1], public_features="all"),
        DPSGDFClassifier(
            classes=[0, 1],
            neighboring_relation="replace_special",
            solver=NoisySGD(batch_size=200, max_iter=20),
        ),
        FeatureDPRegressor(target_bounds=(-1, 2), solver=STEPS),
    ],
    ids=str,
)
def test_fits_release_their_bounds_of_persons(model, panel, releases):
    X, groups = panel
    y = (X[:, 0] > 50).astype(int)
    model.set_params(epsilon=2.0, bounds="private")
    plan = model.plan(X, y, groups=groups)
    model.fit(X, y, groups=groups)
    assert plan.events == model.privacy_.events
    assert {event.unit for event in plan.events} == {"person"}
    assert model.privacy_.epsilon <= 2.0 * (1 + 1e-9)
    public = model.get_params().get("public_features")
    if public == "all":  # nothing of X is private
        return
    by_label = {event.label: event for event in plan.events}
    n_private = 1 if public else 2
    for label, seen in zip(("binades", "bins"), releases[:2], strict=True):
        reach = seen["query"].units.reach
        relation = Relation(model.neighboring_relation)
        moved = math.sqrt(n_private * (2 if relation.replaces else 1))
        assert by_label[label].sensitivity == pytest.approx(reach * moved)
        assert by_label[label].noise_std[0] == seen["std"]
