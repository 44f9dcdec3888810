"""A first model of the public columns, where label and some columns are private."""

import functools

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, UtilityWarning
from skfdp.audit.replay import audit_replay
from skfdp.mechanisms.release import opened
from skfdp.privacy import gdp_epsilon, gdp_mu
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD
from skfdp.solvers.first_model import PREFIX, share_of_descent

RNG = np.random.default_rng(0)
X = np.round(RNG.random((60, 4)), 3)
Y = np.arange(60) % 2
PUBLIC = [0, 2]
CLASSIFIER = functools.partial(
    FeatureDPLogisticRegression,
    epsilon=10_000.0,
    bounds=(0, 1),
    classes=[0, 1],
    public_features=PUBLIC,
    solver=NoisyGradientDescent(max_iter=3),
)
MODELS = {
    "two classes": CLASSIFIER(),
    "three classes": CLASSIFIER(classes=[0, 1, 2]),
    "replace_special": CLASSIFIER(neighboring_relation="replace_special"),
    "no intercept": CLASSIFIER(fit_intercept=False),
    "no bounds": CLASSIFIER(bounds=False),
    "private bounds": CLASSIFIER(bounds="private"),
}
OF_ROWS = {
    "plain": {},
    "weights": {"sample_weight": np.arange(60) % 3 + 1.0},
    "groups": {"groups": np.arange(60) // 3},
}


class Sums:
    """Stands for the noise, of which there is none: records every exact sum."""

    def __init__(self):
        self.found = {}

    def key(self, stream):
        return 7

    def release(self, asked, noisy_sum):
        unit = float(np.max(asked.query.unit(np.array([asked.noise_std]))))
        total = asked.query.exact_sum(asked.theta, asked.batch, unit) * unit
        self.found.setdefault(asked.event.label, []).append(total)
        return total


def sums(model, X, y, **of_rows):
    """Return the exact sums of a fit without noise, by label."""
    replay = Sums()
    with opened(replay):
        model.fit(X, y, **of_rows)
    return replay.found


@pytest.mark.parametrize("of_rows", OF_ROWS)
@pytest.mark.parametrize("name", MODELS)
def test_no_release_moves_further_than_charged(name, of_rows):
    model = MODELS[name]
    if name == "private bounds" and of_rows == "weights":
        pytest.skip("the bounds of weighted rows are tested elsewhere")
    result = audit_replay(model, X, Y, n_neighbors=3, fit_params=OF_ROWS[of_rows])
    assert result.passed, str(result)
    assert {one.label.startswith(PREFIX) for one in result.releases} == {True, False}
    assert all(one.largest <= 1 + 1e-9 for one in result.releases)


@pytest.mark.parametrize("of_rows", OF_ROWS)
@pytest.mark.parametrize("name", ["two classes", "no bounds"])
def test_the_first_model_reads_no_private_column(name, of_rows):
    model, other = MODELS[name], X.copy()
    other[:, [1, 3]] = RNG.random((60, 2))
    one = sums(model, X, Y, **OF_ROWS[of_rows])
    two = sums(model, other, Y, **OF_ROWS[of_rows])
    changed = {
        label
        for label in one
        if any((a != b).any() for a, b in zip(one[label], two[label], strict=True))
    }
    assert changed and not any(label.startswith(PREFIX) for label in changed)


def test_a_null_record_takes_one_label_away():
    """A private value without bounds that is missing makes its record null."""
    model, other = CLASSIFIER(bounds=False), X.copy()
    other[0, 1] = np.nan
    (one,), (two,) = (
        sums(model, rows, Y)[f"{PREFIX}: label statistic"] for rows in (X, other)
    )
    event = model.privacy_.events[0]
    moved = one - two
    assert moved[Y[0]].any() and not moved[1 - Y[0]].any()
    assert np.linalg.norm(moved) <= event.clip_norm * (1 + 1e-9)


def test_the_first_model_is_that_of_label_dp():
    """Its release is the label statistic of the public columns, at its share."""
    model = CLASSIFIER().fit(X, Y)
    assert not hasattr(model, "public_model_") and (model.coef_noise_.std > 0).all()
    margins = model.input_scaler_(X) @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), margins[:, 0])
    mu, n = gdp_mu(10_000.0, 1e-5), len(X)
    share = share_of_descent(2, 2, mu * n)
    first, *rest = model.privacy_.events
    assert first.label == f"{PREFIX}: label statistic"
    assert first.mu == pytest.approx(np.sqrt(1 - share) * mu, rel=1e-3)
    assert rest[-1].label == "descent"
    epsilon = gdp_epsilon(1e-5, np.sqrt(1 - share) * mu)
    alone = CLASSIFIER(epsilon=epsilon, public_features="all", solver="auto")
    (ours,) = sums(CLASSIFIER(), X, Y)[first.label]
    (theirs,) = sums(alone, X[:, PUBLIC], Y)["label statistic"]
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "changed",
    [
        {"C": 1.0},
        {"public_model": None},
        {"solver": FeatureDPSGD(max_iter=2)},
        {"solver": NoisySGD(max_iter=2)},
        {"solver": NoisyGradientDescent(max_iter=2, max_weight_norm=1.0)},
        {"class_weight": {0: 1.0, 1: 2.0}},
    ],
)
def test_there_is_none_without_a_label_statistic_or_against_a_wish(changed):
    plan = CLASSIFIER(**changed).plan(X, Y)
    assert not any(event.label.startswith(PREFIX) for event in plan.events)


def test_there_is_none_of_sparse_rows_or_of_a_regression():
    given = {"bounds": (0, 1), "public_features": PUBLIC, "target_bounds": (0, 1)}
    sparse = CLASSIFIER(bounds=None).plan(csr_array(X), Y)
    for plan in (sparse, FeatureDPRegressor(**given).plan(X, Y / 2)):
        assert not any(event.label.startswith(PREFIX) for event in plan.events)


def test_a_small_budget_is_that_of_the_first_model():
    looped = CLASSIFIER(epsilon=0.1)  # which honours `max_iter`, so takes the descent
    assert looped.plan(X, Y).events[-1].label == "descent"
    model = clone(looped).set_params(solver="auto")
    with pytest.warns(UtilityWarning, match=r"2 private column\(s\) have weights of 0"):
        (event,) = model.plan(X, Y).events
    assert event.label == f"{PREFIX}: label statistic"
    assert event.mu == pytest.approx(gdp_mu(0.1, 1e-5), rel=1e-3)
    with pytest.warns(UtilityWarning):
        model.fit(X, Y)
    assert not model.coef_[:, [1, 3]].any() and model.coef_[:, PUBLIC].all()
    assert model.privacy_.epsilon <= 0.1 * (1 + 1e-9)


def test_units_of_columns_do_not_matter():
    """The margins are those of the first model, whatever the bounds are."""
    unit, low = np.array([1.0, 50.0, 1000.0, 0.01]), np.array([0.0, -3.0, 7.0, 0.0])
    one = CLASSIFIER(random_state=0).fit(X, Y)
    two = CLASSIFIER(bounds=(low, low + unit), random_state=0).fit(low + X * unit, Y)
    np.testing.assert_allclose(one.predict(X), two.predict(low + X * unit), atol=1e-6)
    np.testing.assert_allclose(one.coef_, two.coef_ * unit, rtol=1e-3, atol=1e-3)
