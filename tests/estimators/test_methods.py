"""What every method keeps to: a public plan, and results that follow from releases.

A new method is a line of `METHODS`.
"""

import pickle
from collections import Counter

import numpy as np
import pytest
from joblib import cpu_count
from problems import Stopped
from sklearn.base import clone

import skfdp
from skfdp import solvers
from skfdp.mechanisms.release import Mechanism
from skfdp.queries.statistics import LabelSum

COMMON = {"epsilon": 5.0, "bounds": (0, 1), "random_state": 0}
TWO, FEW = {"classes": [0, 1]}, {"solver": solvers.NoisyGradientDescent(max_iter=3)}
PADDED = {"solver": solvers.FeatureDPSGD(max_iter=3), "hidden_layer_sizes": (4,)}
SOME, ALL = {"public_features": [0, 1]}, {"public_features": "all"}
LOGISTIC, REGRESSOR = skfdp.FeatureDPLogisticRegression, skfdp.FeatureDPRegressor
NUMBER = {"target_bounds": (0, 1)}
#: An estimator whose fit is by the method, for the table of `make_table`.
METHODS = {
    "descent": skfdp.DPSGDFClassifier(**COMMON, **TWO, **FEW),
    "descent, normalised": skfdp.DPSGDFClassifier(
        **COMMON, **TWO, solver=solvers.NoisyGradientDescent(max_iter=3, normalize=True)
    ),
    "descent, adaptive": skfdp.DPSGDFClassifier(
        **COMMON, **TWO, **FEW, centering=solvers.AdaptiveCentering(clip_features=True)
    ),
    "descent, Poisson": skfdp.DPSGDFRegressor(
        **COMMON, **NUMBER, solver=solvers.NoisySGD(batch_size=20, max_iter=3)
    ),
    "descent, some public": LOGISTIC(**COMMON, **TWO, **FEW, **SOME),
    "descent, padded": LOGISTIC(
        **COMMON, **TWO, **SOME, solver=solvers.FeatureDPSGD(max_iter=3)
    ),
    "public model": LOGISTIC(**COMMON, **TWO, **FEW, **SOME, public_target=True),
    "label statistic": LOGISTIC(**COMMON, **TWO, **ALL, C=1.0),
    "label statistic, penalty chosen": LOGISTIC(**COMMON, **TWO, **ALL),
    "regression, some public": REGRESSOR(**COMMON, **NUMBER, **FEW, **SOME),
    "regression, public model": REGRESSOR(**COMMON, **FEW, **SOME, public_target=True),
    "regression, label-DP": REGRESSOR(**COMMON, **NUMBER, **FEW, **ALL),
    "mean": skfdp.PrivateCenteringTransformer(**COMMON),
    "cross moments": skfdp.PrivateCenteringTransformer(**COMMON, **SOME),
    "network": skfdp.FeatureDPMLPClassifier(
        **COMMON,
        **TWO,
        **SOME,
        hidden_layer_sizes=(4,),
        solver=solvers.NoisySGD(max_iter=3),
    ),
    "network, padded": skfdp.FeatureDPMLPClassifier(**COMMON, **TWO, **SOME, **PADDED),
    "network, padded, target public": skfdp.FeatureDPMLPClassifier(
        **COMMON, **TWO, **SOME, **PADDED, public_target=True
    ),
}


def make_table(model, private_seed=0):
    """Return X within [0, 1] and y, and which columns of X are public."""
    rng, other = np.random.default_rng(0), np.random.default_rng(private_seed)
    X, y = rng.random((80, 4)), rng.integers(0, 2, 80)
    listed = model.get_params().get("public_features")
    public = np.zeros(4, dtype=bool)
    if listed is not None:
        public[slice(None) if listed == "all" else listed] = True
    X[:, ~public] = other.random((80, int((~public).sum())))
    if not has_public_target(model):
        y = other.integers(0, 2, 80)
    return X, y, public


def has_public_target(model):
    """Whether the method may look at y."""
    return model.get_params().get("public_target", False)


def outcome(model, X, y):
    """Return what a fit tells of the first rows of a table that is always the same."""
    model.fit(X, y)
    rows = np.random.default_rng(1).random((20, 4))
    told = [
        getattr(model, name)(rows)
        for name in ("decision_function", "predict_proba", "predict", "transform")
        if hasattr(model, name)
    ]
    return [*told, *(v for v in vars(model).values() if isinstance(v, np.ndarray))]


def released_labels(monkeypatch, answer):
    """Count the labels of releases; answer(query, sum) takes their place."""
    counts, release = Counter(), Mechanism.release

    def counted(mechanism, label, query, theta=None, **more):
        found = release(mechanism, label, query, theta, **more)
        event = mechanism.event(label)
        moved = query.sensitivity(event.relation)  # as charged, and no less
        assert moved == pytest.approx(event.sensitivity, rel=1e-12)
        counts[event.label] += 1
        return answer(query, found)

    monkeypatch.setattr(Mechanism, "release", counted)
    return counts


@pytest.fixture(params=METHODS)
def model(request):
    """One estimator after the other."""
    return clone(METHODS[request.param])


def test_a_plan_is_a_function_of_public_facts(model):
    X, y, public = make_table(model)
    wanted = repr(model.plan(X, y))
    X[:, ~public] = np.nan
    if not has_public_target(model):
        y = None
    assert repr(model.plan(X, y)) == wanted


def test_what_is_released_is_what_was_planned(model, monkeypatch):
    X, y, _ = make_table(model)
    counts = released_labels(monkeypatch, lambda query, found: found)
    plan = model.plan(X, y)
    model.fit(X, y)
    assert counts == {event.label: event.n_steps for event in plan.events}
    assert model.privacy_.epsilon <= model.epsilon * (1 + 1e-9)


def fixed(query, found):
    """Return zeros, but counts of 40 for each of two classes: else the fit ends."""
    answer = np.zeros(found.shape)
    if isinstance(query, LabelSum) and len(found) == 2:
        # The last column of the statistic is of rows scaled to 0.46.
        answer[:, -1] = 40.0 if found.shape[1] == 1 else 0.46 * 40
    return answer


def test_only_the_mechanism_tells_of_private_values(model, monkeypatch):
    """Where it releases fixed numbers, other private values change nothing."""
    released_labels(monkeypatch, fixed)
    one = outcome(model, *make_table(model, 1)[:2])
    other = outcome(model, *make_table(model, 2)[:2])
    assert len(one) > 0
    for here, there in zip(one, other, strict=True):
        np.testing.assert_array_equal(here, there)


def test_no_thread_is_planned_beyond_one_for_each_core(model, monkeypatch):
    """A thread takes memory: n_jobs=10**30 would take all of it."""
    if "n_jobs" not in model.get_params():
        return
    found = []
    released_labels(monkeypatch, lambda query, total: found.append(query) or total)
    model.set_params(n_jobs=cpu_count() + 1).fit(*make_table(model)[:2])
    assert max(getattr(query, "n_jobs", 1) for query in found) <= cpu_count()


def stop_before(monkeypatch, number):
    """Return the releases of fits to come, the next of which stops before one."""
    given, now, left = [], Mechanism._released_now, [number]
    give = Mechanism.release

    def released_now(self, *asked):
        left[0] -= 1
        if left[0] == -1:
            raise Stopped
        return now(self, *asked)

    def release(self, label, *asked, **more):
        found = give(self, label, *asked, **more)
        given.append((label, found.tobytes()))
        return found

    monkeypatch.setattr(Mechanism, "_released_now", released_now)
    monkeypatch.setattr(Mechanism, "release", release)
    return given


def test_a_stopped_fit_goes_on(model, monkeypatch, tmp_path):
    """Wherever it stops: what was released is so again, and the file goes."""
    X, y, _ = make_table(model)
    model.set_params(random_state=None)
    n_releases = sum(event.n_steps for event in model.plan(X, y).events)
    path = tmp_path / "checkpoint"
    for number in range(n_releases):
        with monkeypatch.context() as patch:
            given = stop_before(patch, number)
            with pytest.raises(Stopped), skfdp.checkpoint(path):
                clone(model).fit(X, y)
            before = given[:]
            given.clear()
            with skfdp.checkpoint(path):
                clone(model).fit(X, y)
        assert len(before) == number and given[:number] == before
        assert len(given) == n_releases
        assert len(set(given)) == n_releases  # fresh noise
        assert not path.exists()


class Short(skfdp.FeatureDPLogisticRegression):
    """A user's subclass that leaves most parameters to its base."""

    def __init__(self, epsilon=1.0, extra=None):
        super().__init__(epsilon, public_features=[0], bounds=(0, 1))
        self.extra = extra


class PassingOn(skfdp.DPSGDFClassifier):
    """A user's subclass that passes parameters on."""

    def __init__(self, epsilon=1.0, **parameters):
        super().__init__(epsilon, bounds=(0, 1), **parameters)


@pytest.mark.parametrize("model", [Short(2.0), PassingOn(2.0, delta=1e-6)])
def test_subclasses_need_not_repeat_the_parameters(model):
    X, y = np.eye(3)[np.arange(60) % 3], np.arange(60) % 2
    saved = pickle.loads(pickle.dumps(model))  # as copies and clones do
    assert vars(saved).keys() == vars(model).keys()
    report = saved.fit(X, y).privacy_
    assert (report.target_epsilon, report.delta) == (2.0, model.delta)
    assert saved.plan(X, y).events == report.events
    with pytest.warns(UserWarning, match="has no parameter 'public_features'"):
        saved.public_features = "all"  # which no copy would have
    assert saved.plan(X, y).events == report.events
