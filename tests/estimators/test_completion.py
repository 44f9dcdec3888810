"""PrivateCompletionClassifier: what is charged, what the inner estimator sees."""

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from skfdp import (
    PrivacyBudgetError,
    PrivacyLedger,
    PrivateCompletionClassifier,
    UtilityWarning,
)
from skfdp import completion as method
from skfdp.privacy import AddOrRemoveOne, Relation, compose, gdp_epsilon
from skfdp.solvers import parameters as defaults


class Recorder(ClassifierMixin, BaseEstimator):
    """Keep what was passed to fit."""

    seen = []

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        Recorder.seen.append((X.copy(), np.array(y)))
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.fixture
def seen():
    Recorder.seen = []
    yield Recorder.seen
    Recorder.seen = []


def make(estimator=None, **parameters):
    parameters = {"public_features": [0, 1], "bounds": (0, 1)} | parameters
    estimator = LogisticRegression() if estimator is None else estimator
    return PrivateCompletionClassifier(estimator, **parameters)


# -- what is charged is what runs ----------------------------------------------------
@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
@pytest.mark.parametrize("bounds", [(0, 1), {"u2": (0, 1)}])
@pytest.mark.parametrize("covariance", [True, False])
def test_the_events_describe_the_releases_that_ran(
    relation, bounds, covariance, named, releases
):
    ledger = PrivacyLedger()
    model = make(
        epsilon=2.0,
        neighboring_relation=relation,
        bounds=bounds,
        covariance=covariance,
        ledger=ledger,
    ).fit(*named)
    events = model.privacy_.events
    assert ledger.events == events
    assert len(events) == len(releases) == 1 + covariance
    mu2 = 0.0
    for event, seen in zip(events, releases, strict=True):
        query = seen["query"]
        assert event.public_features == ("u0", "u1")
        assert event.public_target
        assert event.classes_source == "public target"
        assert (seen["std"],) == event.noise_std
        reach = query.sensitivity(Relation.of(relation))
        assert event.sensitivity == reach
        mu2 += (reach / seen["std"]) ** 2
    # By hand, from the noise that ran and the sensitivities of the queries that ran.
    assert gdp_epsilon(1e-5, math.sqrt(mu2)) == pytest.approx(2.0, rel=1e-9)
    assert compose(events).epsilon(1e-5) <= model.privacy_.epsilon <= 2.0
    # The last column has no bounds in the mapping: it may be negative.
    bounded = bounds == (0, 1)
    assert releases[-1]["query"].nonnegative == bounded
    assert events[-1].label == "class sums"
    if relation == "replace_one":
        assert events[-1].sensitivity == (math.sqrt(2) if bounded else 2.0)
    text = " ".join(model.privacy_.statement(full=True).split())
    assert ("non-negative after scaling" in text) == bounded
    assert ("may be negative" in text) != bounded


def test_the_queries_hold_the_private_columns_within_the_bound(small, releases):
    X, y = small
    make(row_norm=0.5).fit(3 * X, y)
    for seen in releases:
        assert seen["query"].rows.values.shape == (300, 2)
        norms = np.sqrt(seen["query"].rows.squared_norms) * 2.0**-14
        assert norms.max() <= 1


def test_an_exhausted_budget_trains_nothing(named, releases, seen):
    ledger = PrivacyLedger(epsilon=0.5, delta=1e-5)
    model = make(Recorder(), ledger=ledger)
    with pytest.raises(PrivacyBudgetError, match="epsilon"):
        model.fit(*named)
    assert not releases
    assert not seen
    assert len(ledger) == 0


def test_a_failing_estimator_keeps_the_charge_and_leaves_nothing(named):
    ledger = PrivacyLedger()
    model = make(LogisticRegression(C=-1), ledger=ledger)
    with pytest.raises(ValueError, match="'C' parameter"):
        model.fit(*named)
    assert len(ledger) == 2
    assert not model.__sklearn_is_fitted__()
    assert not hasattr(model, "class_means_")


# -- what the inner estimator sees ---------------------------------------------------
def check_private_values_stay_out(small, seen, monkeypatch):
    """Private columns are replaced; the releases are held fixed."""

    def frozen(query, theta, **kwargs):
        rng = np.random.default_rng(query.shape[0])
        return 100 * rng.random(query.shape)

    monkeypatch.setattr("skfdp.mechanisms.release._noisy_sum", frozen)
    X, y = small
    other = X.copy()
    other[:, 2:] = np.random.default_rng(5).random((len(X), 2))
    model = make(Recorder(), random_state=0, covariance=True)
    model.fit(X, y)
    model.fit(other, y)
    (rows, target), (others, labels) = seen
    np.testing.assert_array_equal(rows, others)
    np.testing.assert_array_equal(target, labels)


def test_private_values_reach_the_estimator_through_the_release_alone(
    small, seen, monkeypatch
):
    check_private_values_stay_out(small, seen, monkeypatch)


def test_sabotage_of_the_completion_is_noticed(small, seen, monkeypatch):
    """One private value is left in place."""
    original = method._completed

    def leaky(public, *rest):
        rows = original(public, *rest)
        rows[0, -1] = public._table[0, -1]
        return rows

    monkeypatch.setattr(method, "_completed", leaky)
    with pytest.raises(AssertionError):
        check_private_values_stay_out(small, seen, monkeypatch)


def test_public_columns_and_target_are_exact_and_draws_are_fresh(small, seen):
    X, y = small
    labels = np.array(["no", "yes"])[y]
    make(Recorder(), n_draws=3, bounds=(-1, 3)).fit(X, labels)
    ((rows, target),) = seen
    assert rows.shape == (900, 4)
    np.testing.assert_allclose(rows[:, :2], np.tile((X[:, :2] + 1) / 4, (3, 1)))
    np.testing.assert_array_equal(target, np.tile(labels, 3))
    drawn = rows[:, 2:].reshape(3, 300, 2)
    assert (drawn[0] != drawn[1]).any()
    assert ((drawn >= 0) & (drawn <= 1)).all()


def test_prediction_reads_the_real_private_columns_scaled(small):
    X, y = small
    model = make(bounds=(0, 2), random_state=0).fit(X, y)
    inner = model.estimator_
    np.testing.assert_array_equal(model.predict(X), inner.predict(X / 2))
    np.testing.assert_array_equal(model.predict_proba(X), inner.predict_proba(X / 2))
    logs = inner.predict_log_proba(X / 2)
    np.testing.assert_array_equal(model.predict_log_proba(X), logs)
    margins = model.decision_function(X)
    np.testing.assert_array_equal(margins, inner.decision_function(X / 2))
    far, near = X.copy(), X.copy()
    far[:, 3], near[:, 3] = 50.0, 2.0  # the first is clipped to the bound
    np.testing.assert_array_equal(model.predict_proba(far), model.predict_proba(near))
    assert (model.decision_function(near) != margins).any()


def test_methods_follow_the_estimator(small):
    with_margins = make(LinearSVC())
    for model in (with_margins, clone(with_margins).fit(*small)):
        assert hasattr(model, "decision_function")
        assert not hasattr(model, "predict_proba")
        assert not hasattr(model, "predict_log_proba")
    # logarithms for an estimator that has none
    sure = make(KNeighborsClassifier(1), random_state=0).fit(*small)
    assert not hasattr(sure, "decision_function")
    assert not hasattr(sure.estimator_, "predict_log_proba")
    chances = sure.predict_proba(small[0])
    assert set(chances.ravel()) == {0.0, 1.0}
    logs = np.where(chances == 1, 0.0, -np.inf)
    np.testing.assert_array_equal(sure.predict_log_proba(small[0]), logs)


def test_unseeded_draws_differ_and_the_estimator_keeps_its_own_seed(small, seen):
    models = [make(Recorder()).fit(*small) for _ in "ab"]
    assert (seen[0][0][:, 2:] != seen[1][0][:, 2:]).any()
    assert (models[0].class_means_ != models[1].class_means_).any()
    model = make(LogisticRegression(random_state=5), random_state=0).fit(*small)
    assert model.estimator_.random_state == 5
    assert model.estimator.__dict__ == LogisticRegression(random_state=5).__dict__


# -- learning ------------------------------------------------------------------------
def test_it_gains_on_the_public_columns_and_grows_with_epsilon(digits):
    X, y = digits
    scores, mask = [], np.tile(np.arange(8) < 4, 8)
    inner = LogisticRegression(max_iter=300)
    for epsilon in (0.1, 8.0):
        model = make(inner, epsilon=epsilon, public_features=mask, bounds=(0, 16))
        model.set_params(random_state=0).fit(X[:1200], y[:1200])
        scores.append(model.score(X[1200:], y[1200:]))
    public = clone(inner).fit(X[:1200, mask] / 16, y[:1200])
    assert scores[1] > public.score(X[1200:, mask] / 16, y[1200:]) + 0.04
    assert scores[1] > scores[0]


def test_signed_columns_without_bounds_and_nothing_public_but_the_target(small):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    X = rng.normal(size=(2000, 4))
    X[:, 2] += 2 * y
    assert make(bounds=False, random_state=0).fit(X, y).score(X, y) > 0.8
    model = make(public_features=None, epsilon=30.0, row_norm=2.0, random_state=0)
    assert model.fit(*small).privacy_.public_features == ()
    assert model.privacy_.private_features == (0, 1, 2, 3)
    assert model.privacy_.public_target
    assert model.score(*small) > 0.75


def test_infinite_epsilon_is_the_estimator_itself(named):
    X, y = named
    ledger = PrivacyLedger()
    model = make(epsilon=float("inf"), bounds=(0, 2), ledger=ledger).fit(X, y)
    theirs = LogisticRegression().fit(X / 2, y)
    np.testing.assert_array_equal(model.estimator_.coef_, theirs.coef_)
    assert model.privacy_.epsilon == math.inf
    assert not hasattr(model, "class_means_")
    assert [entry.event for entry in ledger.entries] == [None]


def test_auto_comes_from_public_numbers():
    assert defaults.completion_bound(100, bounded=True) == 5.0
    assert defaults.completion_bound(100, bounded=False) == 10.0
    assert defaults.completion_bound(1, bounded=True) == 1.0
    assert defaults.completion_covariance(2, 80, bounded=True)
    assert not defaults.completion_covariance(10, 80, bounded=True)
    assert defaults.completion_covariance(10, 80, bounded=False)
    assert not defaults.completion_covariance(2, 513, bounded=True)
    assert [defaults.n_draws(n) for n in (100, 3000, 10_000, 10**7)] == [5, 4, 1, 1]


# -- refusals ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"public_features": "all"}, "names every column, and the target is public"),
        (
            {"neighboring_relation": AddOrRemoveOne(300)},
            "the target is public here: use 'replace_one'",
        ),
        ({"row_norm": 0}, "row_norm=0 must be a number > 0 or 'auto'"),
        ({"covariance": "yes"}, "covariance='yes'"),
        ({"n_draws": 0}, "n_draws=0 must be an int > 0 or 'auto'"),
    ],
)
def test_bad_parameters(parameters, message, named):
    ledger = PrivacyLedger()
    model = make(ledger=ledger, **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(*named)
    assert len(ledger) == 0


def test_bad_estimators_and_data_are_refused_without_a_datum(small):
    X, y = small
    for estimator in ("logistic", LogisticRegression, Ridge()):
        with pytest.raises(TypeError, match="must be a scikit-learn classifier"):
            make(estimator).fit(X, y)
    with pytest.raises(ValueError, match="contains NaN"):
        make().fit(np.where(X > 0.5, np.nan, X), y)
    with pytest.raises(ValueError, match="one class only"):
        make().fit(X, np.zeros(300))


def test_missing_bounds_warn(small):
    with pytest.warns(UtilityWarning, match="no column bounds are declared"):
        make(bounds=None).fit(*small)
