"""``plan`` says what a fit would charge, and looks at nothing private.

Every recorded case is planned on its own table and on tables with other private values,
missing and infinite ones included: the plan is equal, byte for byte.
"""

import json
import math
import pickle
import warnings

import golden_cases as golden
import numpy as np
import pytest
from golden_private import replaced
from problems import Stopped
from scipy.sparse import csr_array

import skfdp
from skfdp.mechanisms.release import Mechanism, Streams
from skfdp.privacy import FitPlan
from skfdp.solvers import NoisyGradientDescent

BY_NAME = {case["name"]: case for case in golden.CASES}
PRIVATE = [n for n, c in BY_NAME.items() if not math.isinf(c["params"]["epsilon"])]
#: Fits that charge in ways of their own.
SORTS = {
    golden.LOGISTIC: "nothing public; both public; label-DP; label-DP, descent; "
    "zero padding, public batches",
    golden.SGD: "Poisson",
    golden.REGRESSOR: "both public; nothing public",
    golden.SGD_REGRESSOR: "plain",
    golden.NETWORK: "nothing public; both public, neurons; both public, Poisson",
    golden.CENTRING: "whole; conditional",
}
SORTS = [f"{kind}: {one}" for kind, ones in SORTS.items() for one in ones.split("; ")]
some_sorts = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (number % 3 > 0))
        for number, name in enumerate(SORTS)
    ],
)


def text(model, X, y=None, **told_of_rows):
    """Return all that can be read of the plan of a model."""
    plan = model.plan(X, y, **told_of_rows)
    told = json.dumps(plan.to_dict(), allow_nan=False)
    return repr(plan), repr(plan.events), told, pickle.dumps(plan)


def first_text(model, X, y=None, **told_of_rows):
    """Return it of the first plan.

    Calibrations are kept and shared by equal plans later, which a pickle shows: what is
    returned is of a second one.
    """
    model.plan(X, y, **told_of_rows)
    return text(model, X, y, **told_of_rows)


def needs_y(case):
    """Whether a plan needs y, told from the parameters alone."""
    return bool(case["params"].get("public_target"))


def declared(case):
    """Return the estimator of a case, with its labels declared if it has any."""
    model = golden.estimator(case)
    if getattr(model, "classes", ()) is None:
        model.set_params(classes=np.unique(golden.target(case)).tolist())
    return model


@pytest.fixture
def nothing_private(monkeypatch):
    """Refuse coins, noise and charges."""

    def refuse(*args, **more):
        raise AssertionError("a plan that draws, releases or charges")

    monkeypatch.setattr(Streams, "private", refuse)
    monkeypatch.setattr(Mechanism, "release", refuse)
    monkeypatch.setattr(skfdp.PrivacyLedger, "charge", refuse)
    monkeypatch.setattr(skfdp.PrivacyLedger, "charge_nonprivate", refuse)


class Spy(skfdp.PrivacyLedger):
    """A ledger that keeps what it is given, and ends the fit."""

    def charge(self, events, *, label=None):
        self.given = tuple(events), label
        raise Stopped


@pytest.mark.parametrize("name", BY_NAME)
def test_private_values_do_not_enter_a_plan(name, nothing_private):
    case, own = BY_NAME[name], golden.of_rows(BY_NAME[name])
    table = golden.rows(case), golden.target(case)
    wanted = first_text(golden.estimator(case), *table, **own)
    for kind in ("zeros", "others", "missing", "infinite"):
        found = text(golden.estimator(case), *replaced(case, kind), **own)
        assert found == wanted, kind


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, c in BY_NAME.items() if not needs_y(c)])
def test_a_private_target_does_not_enter_a_plan(name, nothing_private):
    case = BY_NAME[name]
    X, y, own = golden.rows(case), golden.target(case), golden.of_rows(case)
    wanted = first_text(declared(case), X, **own)
    no_labels = np.full(len(y), "?" if y.dtype.kind == "U" else -77)
    others = [y, y[::-1], no_labels, np.full(len(y), np.nan)]
    if case["params"].get("pipeline"):  # whose other steps may need it
        others = others[:2]
    for other in others:
        assert text(declared(case), X, other, **own) == wanted


@pytest.mark.parametrize("name", PRIVATE)
def test_a_fit_charges_what_was_planned(name):
    case, spy = BY_NAME[name], Spy()
    X, y, own = golden.rows(case), golden.target(case), golden.of_rows(case)
    plan = golden.estimator(case).plan(X, y, **own)
    with pytest.raises(Stopped):
        golden.estimator(case).set_params(ledger=spy).fit(X, y, **own)
    assert spy.given == (plan.events, plan.subject)
    assert repr(spy.given) == repr((plan.events, plan.subject))


class TestZeros:
    """Which private entries of CSR are stored is private."""

    def tables(self):
        rng = np.random.default_rng(0)
        dense = np.round(rng.random((200, 5)), 2) + 0.01
        empty, half, full = dense.copy(), dense.copy(), csr_array(dense)
        empty[:, 2:] = 0
        half[:100, 2:] = 0
        stored = csr_array(dense)
        stored.data[stored.indices >= 2] = 0  # zeros that are stored
        more = np.r_[full.indptr[:-1], full.indptr[-1] + 2]  # an entry twice
        parts = np.r_[full.data, np.inf, -np.inf], np.r_[full.indices, 3, 3], more
        repeated = csr_array(parts, shape=full.shape)
        tables = [full, csr_array(empty), csr_array(half), stored, repeated]
        return tables, (dense[:, 0] > 0.5).astype(int)

    given = {"public_features": [0, 1], "bounds": (0, 1)}
    models = [
        skfdp.FeatureDPLogisticRegression(20.0, **given),
        skfdp.FeatureDPLogisticRegression(**given, public_target=True),
        skfdp.FeatureDPRegressor(20.0, **given, target_bounds=(0, 1)),
    ]

    @pytest.mark.parametrize("place", range(3))
    def test_patterns(self, place, nothing_private):
        tables, y = self.tables()
        assert len({table.nnz for table in tables}) > 3
        wanted = first_text(self.models[place], tables[0], y)
        assert {text(self.models[place], X, y) for X in tables} == {wanted}


class TestTarget:
    """y=None where the target is private, and the labels are declared."""

    X = np.random.default_rng(0).random((60, 4))
    y = (X[:, 0] > 0.5).astype(int)

    def test_what_is_public_of_the_target_is_needed(self):
        known, network = {"public_target": True}, skfdp.FeatureDPMLPClassifier
        few, none = "are not enough for a plan: declare `cl", "requires y to be passed"
        for model, match in (
            *((skfdp.DPSGDFClassifier(), f"y=None {few}"), (network(), few)),
            (skfdp.FeatureDPRegressor(**known), none),
            (network(classes=[0, 1], **known), none),
        ):
            with pytest.raises(ValueError, match=match):
                model.plan(self.X)

    def test_without_declared_labels_the_set_of_labels_is_all_that_is_read(self):
        model = skfdp.DPSGDFClassifier(bounds=(0, 1))
        one = np.zeros(60, dtype=int)
        one[7] = 1
        assert first_text(model, self.X, self.y) == text(model, self.X, one)
        assert model.plan(self.X, self.y).events[0].classes_source == "data"

    def test_public_values_must_be_there(self):
        X = self.X.copy()
        X[3, 1] = np.nan
        hidden = skfdp.FeatureDPLogisticRegression(public_features=[0], classes=[0, 1])
        assert isinstance(hidden.plan(X), FitPlan)
        with pytest.raises(ValueError, match="contains NaN"):
            hidden.set_params(public_features=[1]).plan(X)


@some_sorts
def test_a_plan_leaves_the_model_as_it_was(name):
    case = BY_NAME[name]
    model = golden.estimator(case)
    for fitted in (False, True):
        if fitted:
            model.fit(golden.rows(case), golden.target(case))
        before, values = dict(vars(model)), pickle.dumps(vars(model))
        model.plan(golden.rows(case)[:100], golden.target(case)[:100])
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[key] is before[key] for key in before)
        assert pickle.dumps(vars(model)) == values


class TestLedger:
    """What a ledger says of a plan is what it does with the fit."""

    @pytest.mark.parametrize(
        "name",
        [pytest.param(n, marks=[pytest.mark.slow] * ("Poisson" in n)) for n in SORTS],
    )
    @pytest.mark.parametrize(
        "factor", [1.0, *(pytest.param(f, marks=pytest.mark.slow) for f in (0.9, 1.2))]
    )
    def test_what_if_agrees_with_the_fit(self, name, factor):
        case = {**BY_NAME[name], "as": "frame"}
        X, y = golden.rows(case), golden.target(case)
        probe = golden.estimator(case)
        ledger = skfdp.PrivacyLedger(epsilon=factor * probe.epsilon, delta=probe.delta)
        model = probe.set_params(ledger=ledger)
        answer = ledger.what_if(model.plan(X, y))
        assert answer.allowed == (factor >= 1) and not ledger.entries
        if answer.allowed:
            plan = model.plan(X, y)
            model.fit(X, y)
            assert ledger.spent() == answer.epsilon == plan.epsilon
            assert ledger.remaining() == answer.remaining
            assert ledger.events == plan.events == model.privacy_.events
            second = ledger.what_if(plan)
            assert not second.allowed and "budget exhausted" in second.reason
            answer = second
        with pytest.raises(skfdp.PrivacyBudgetError) as caught:
            model.fit(X, y)
        assert str(caught.value) == answer.reason

    def test_the_delta_of_a_plan_is_used_without_a_limit(self):
        plan = skfdp.DPSGDFClassifier(classes=[0, 1], delta=1e-7).plan(TestTarget.X)
        answer = skfdp.PrivacyLedger().what_if(plan)
        assert (answer.delta, answer.epsilon) == (1e-7, plan.epsilon)

    @pytest.mark.parametrize("limit", [{}, {"epsilon": 9.0, "delta": 1e-5}])
    def test_a_plan_without_privacy(self, limit):
        ledger = skfdp.PrivacyLedger(**limit)
        model = skfdp.DPSGDFClassifier(epsilon=math.inf, classes=[0, 1], ledger=ledger)
        plan = model.plan(np.full((60, 4), np.nan))
        assert not plan.events
        found = plan.epsilon, plan.mu, plan.to_dict()["epsilon"]
        assert found == (math.inf, None, "inf")
        answer = ledger.what_if(plan)
        assert answer.epsilon == math.inf and answer.allowed == (not limit)
        if limit:
            with pytest.raises(skfdp.PrivacyBudgetError) as caught:
                model.fit(TestTarget.X, TestTarget.y)
            assert str(caught.value) == answer.reason


def test_every_estimator_is_planned():

    public = {n: getattr(skfdp, n) for n in skfdp.__all__}
    fitted = {name for name, one in public.items() if hasattr(one, "fit")}
    fitted.remove("DeclaredEncoder")  # learns nothing, so that there is no plan
    planned = {name.split(":")[0] for name in SORTS}
    # Plans of the others are one pure release: see test_label_dp.py.
    assert planned | {"LabelDPClassifier", "LabelDPRegressor"} == fitted
    assert all(hasattr(public[name], "plan") for name in fitted)


def test_a_plan_warns_as_the_fit_would():
    solver, texts = NoisyGradientDescent(max_iter=2), []
    model = skfdp.DPSGDFClassifier(epsilon=0.01, bounds=(0, 1), solver=solver)
    for does in (model.plan, model.fit):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            does(TestTarget.X, TestTarget.y)
        texts.append([str(one.message) for one in caught])
        assert {one.filename for one in caught} == {__file__}
    assert texts[0] == texts[1] and "the budget is small" in texts[0][0]
