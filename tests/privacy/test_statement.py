"""Statements: what an attacker detects, void reports, steps nobody can look into."""

import json
import math
import warnings

import dp_accounting
import numpy as np
import pandas as pd
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivacyWarning,
    PrivateCenteringTransformer,
    make_private_scorer,
    private_bounds,
    private_score,
    report,
)
from skfdp.privacy import Event, PrivacyReport, read_report
from skfdp.privacy.events import ASSUMED
from skfdp.privacy.report_text import attack_power
from skfdp.solvers import NoisySGD

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.random((300, 3)), columns=["a", "b", "c"])
Y = pd.Series((X["a"] > 0.5).astype(int), name="y")
RELATIONS = dp_accounting.NeighboringRelation


def event(relation, noise, q, n_steps=1):
    return Event(
        label="steps",
        noise_std=(noise,),
        clip_norm=1.0,
        sensitivity=2.0 if relation == "replace_one" else 1.0,
        sampling_rate=q,
        n_steps=n_steps,
        neighboring_relation=relation,
    )


def of(*events, delta=1e-5):
    return PrivacyReport.from_events(subject="Model", events=events, delta=delta)


def by_dp_accounting(events, relation):
    """Return the worse direction's min over e of delta(e) + exp(e) / 100."""
    accountant = PLDAccountant(relation, value_discretization_interval=1e-3)
    for one in events:
        step = dp_accounting.GaussianDpEvent(float(one.noise_std[0]))
        if one.sampling_rate < 1:
            step = dp_accounting.PoissonSampledDpEvent(one.sampling_rate, step)
        accountant.compose(step, one.n_steps)
    pld = accountant._pld
    worst = 0.0
    for pmf in {id(p): p for p in (pld._pmf_remove, pld._pmf_add)}.values():
        found = minimize_scalar(
            lambda e, pmf=pmf: float(pmf.get_delta_for_epsilon(e)) + math.exp(e) / 100,
            bounds=(-20, 4.6),
            method="bounded",
        )
        worst = max(worst, found.fun)
    return worst


#: Noise, sampling rate and number of steps of each event.
CASES = {
    "full batch": [(4.0, 1.0)],
    "Poisson": [(1.0, 0.02, 200)],
    "Poisson, small": [(8.0, 0.1, 50)],
    "Poisson, large": [(0.8, 0.05, 100)],
    "few of many, epsilon 10": [(0.3812, 0.001, 2000)],
    "few of many, epsilon 4": [(0.4929, 0.001, 2000)],
    "short, epsilon 10": [(0.52, 0.01, 500)],
    "mixture": [(3.0, 1.0), (1.0, 0.02, 200)],
    "two rates": [(1.0, 0.3, 2), (2.0, 0.01, 300)],
}
#: Those whose curves take no second each.
QUICK = ("full batch", "Poisson", "Poisson, small", "mixture")


def events_of(case, relation="add_or_remove_one"):
    return [event(relation, *one) for one in CASES[case]]


# dp_accounting doubles the sensitivity of a replaced record by itself.
@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.nightly] * (c not in QUICK)) for c in CASES],
)
def test_attack_8_rate_is_that_of_dp_accounting(case, relation):
    events = events_of(case, relation)
    wanted = by_dp_accounting(events, RELATIONS[relation.upper()])
    assert attack_power(of(*events)) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    "case",
    ["full batch", "Poisson, small", pytest.param("two rates", marks=pytest.mark.slow)],
)
def test_attack_8_a_null_record_has_the_rate_of_an_added_one(case):
    """The pair of distributions is the same."""
    special = attack_power(of(*events_of(case, "replace_special")))
    assert special == pytest.approx(attack_power(of(*events_of(case))))


def void_reports():
    seeded = FeatureDPLogisticRegression(
        bounds=(0, 1), classes=[0, 1], random_state=0
    ).fit(X, Y)
    leaking = make_pipeline(
        StandardScaler(), FeatureDPLogisticRegression(bounds=False, classes=[0, 1])
    ).fit(X, Y)
    return {
        "integer seed": report(seeded),
        "a step learns without privacy": report(leaking),
    }


@pytest.mark.parametrize("why", ["integer seed", "a step learns without privacy"])
def test_attack_9_a_void_report_promises_nothing(why, tmp_path):
    found = void_reports()[why]
    text, card, short = found.statement(full=True), found._repr_html_(), repr(found)
    assert text.startswith(f"PRIVACY STATEMENT (VOID: {why})")
    found.to_html(tmp_path / "page.html")
    web = (tmp_path / "page.html").read_text(encoding="utf-8")
    for shown in (text, card, web):
        assert "How strong" not in shown and "of 100" not in shown
        assert "Suppose an attacker" not in shown and "<svg" not in shown
        assert "Trusted" not in shown and "Holds only if" not in shown
        assert "Nothing, because the guarantee is void" in " ".join(shown.split())
        assert "times as likely" not in shown
        assert "epsilon = 1 " not in shown and "mu = " not in shown
    for shown in (text, card):
        assert f"epsilon = void ({why})" in shown
    assert f"epsilon=void ({why})" in short
    values = json.loads(found.to_json())
    names = list(values)
    assert names.index("guarantee") == names.index("epsilon") + 1
    assert values["guarantee"] is False
    assert values["epsilon"] == found.epsilon == pytest.approx(1, abs=1e-3)
    path = tmp_path / "report.json"
    path.write_text(found.to_json(), encoding="utf-8")
    assert read_report(path) == found
    edited = {**values, "guarantee": True}
    assert PrivacyReport.from_dict(edited).guarantee is False


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_attack_9_ledger_with_a_seeded_fit_and_its_curve_say_void(kind, tmp_path):
    ledger = PrivacyLedger(tmp_path / "l.db" if kind == "file" else None)
    model = FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1], ledger=ledger)
    model.fit(X, Y)
    assert "Void" not in str(ledger)
    with pytest.warns(PrivacyWarning):
        model.set_params(random_state=0).fit(X, Y)
    assert str(ledger).endswith("\nVoid:      integer seed")


ALONE = ASSUMED["no_step_before"].text
ESTIMATORS = {
    "FeatureDPLogisticRegression": FeatureDPLogisticRegression(classes=[0, 1]),
    "DPSGDFClassifier": DPSGDFClassifier(classes=[0, 1]),
    "FeatureDPRegressor": FeatureDPRegressor(target_bounds=(0, 1)),
    "DPSGDFRegressor": DPSGDFRegressor(target_bounds=(0, 1)),
    "FeatureDPMLPClassifier": FeatureDPMLPClassifier(
        classes=[0, 1], hidden_layer_sizes=(2,), solver=NoisySGD(max_iter=2)
    ),
    "PrivateCenteringTransformer": PrivateCenteringTransformer(),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_newcomer_a12_report_of_one_step_says_that_it_is_one(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ESTIMATORS[name].set_params(bounds=(0, 1)).fit(X, Y).privacy_
        whole = report(make_pipeline("passthrough", ESTIMATORS[name]).fit(X, Y))
    assert f"[ ] {ALONE}" in " ".join(found.statement().split())
    assert ALONE in found._repr_html_()
    assert ALONE in [one["text"] for one in found.to_dict()["assumptions"]]
    assert ALONE not in whole.to_json() or ALONE in whole.steps[0][1].to_json()
    assert ALONE not in whole.statement() + whole._repr_html_()
    assert PrivacyReport.from_dict(whole.to_dict()) == whole


class Own(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X

    inverse_transform = transform


class OwnPipeline(Pipeline):
    """A user's Pipeline: its fit could hand anything to its steps."""

    def fit(self, X, y=None, **params):
        return super().fit(X, y, **params)


FROZEN = FrozenEstimator(StandardScaler().fit(X))
MODEL = FeatureDPLogisticRegression(bounds=False, classes=[0, 1])
OPAQUE = {
    "own transformer": Own(),
    "user's function": FunctionTransformer(lambda X: X),
    "frozen scaler": FROZEN,
    "frozen Pipeline": FrozenEstimator(make_pipeline(StandardScaler()).fit(X)),
    "in a ColumnTransformer": ColumnTransformer([("s", FROZEN, list("abc"))]),
    "in a FeatureUnion": FeatureUnion([("o", Own()), ("p", "passthrough")]),
    "in a Pipeline": make_pipeline("passthrough", Own()),
}
OPAQUE = {name: make_pipeline(step, MODEL) for name, step in OPAQUE.items()}
OPAQUE |= {
    "own Pipeline": OwnPipeline([("m", MODEL)]),
    "own Pipeline with other steps": OwnPipeline([("p", "passthrough"), ("m", MODEL)]),
    "own Pipeline inside": Pipeline([("own", OwnPipeline([("m", MODEL)]))]),
    "own Pipeline in a wrapper": OneVsRestClassifier(OwnPipeline([("m", MODEL)])),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_attack_10_step_that_nobody_can_look_into_is_an_unchecked_assumption(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = report(clone(OPAQUE[name]).fit(X, Y))
    (step,) = found.unknown_steps
    assert ("(OwnPipeline)" in step) == ("own Pipeline" in name)
    text = " ".join(found.statement(full=True).split())
    assert text.startswith(f"PRIVACY STATEMENT (NOT CHECKED: step {step}")
    assert f"[ ] Step {step} learnt nothing" in text
    assert f"NOT CHECKED: step {step}" in repr(found)
    assert "NOT CHECKED" in found._repr_html_()
    told = [one for one in found.assumptions if step in one.text]
    assert len(told) == 1 and not told[0].enforced
    assert f"{told[0].text} [NOT checked]" in text
    assert PrivacyReport.from_dict(found.to_dict()) == found
    assert found.guarantee  # an assumption, like others


def test_attack_10_frozen_step_that_learns_nothing_stays_clean():
    step = FrozenEstimator(FunctionTransformer(np.log1p).fit(X))
    model = make_pipeline(
        step, FeatureDPLogisticRegression(bounds=False, classes=[0, 1])
    )
    found = report(model.fit(X, Y))
    assert found.unknown_steps == () and "NOT CHECKED" not in found.statement()


PUBLIC = clone(MODEL).set_params(
    public_features=["a", "b", "c"], neighboring_relation="replace_one"
)


def test_attack_10_steps_of_an_own_pipeline_are_not_followed():
    scaler = StandardScaler().set_output(transform="pandas")
    steps = [("s", scaler), ("m", PUBLIC)]
    found = report(clone(Pipeline(steps)).fit(X, Y))
    assert found.learnt[0].learns == "public columns" and found.guarantee
    found = report(clone(OwnPipeline(steps)).fit(X, Y))
    assert found.learnt[0].learns == "rows" and not found.guarantee
    assert found.public_sources is None


def edited(found, **changes):
    return PrivacyReport.from_dict({**found.to_dict(), **changes})


def test_attack_10_whole_gets_back_what_its_members_could_not_see():
    members = OneVsRestClassifier(make_pipeline(Own(), StandardScaler(), clone(MODEL)))
    found = report(members.fit(X, Y))
    values = found.to_dict()
    assert len(found.unknown_steps) == len(values["learnt"]) == 1
    kept = [one for one in values["assumptions"] if "Own" not in one["text"]]
    again = edited(found, unknown_steps=[], assumptions=kept)
    assert again.unknown_steps == found.unknown_steps
    assert {*again.assumptions} == {*found.assumptions}
    assert edited(found, learnt=[]) == edited(found) == found


@pytest.mark.parametrize("name", ESTIMATORS)
def test_large_epsilon_warns_once_before_the_charge(name):
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    model = clone(ESTIMATORS[name])
    model.set_params(bounds=(0, 1), epsilon=10.5, ledger=ledger)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ValueError):
            model.fit(X, Y)  # the ledger refuses it
    large = [one for one in caught if issubclass(one.category, PrivacyWarning)]
    assert len(large) == 1 and len(ledger.entries) == 0
    assert "epsilon=10.5 is above 10 and protects little" in str(large[0].message)


def test_large_epsilon_of_other_fits():
    match = "is above 10 and protects little"
    refused = pytest.raises(PrivacyBudgetError)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    with pytest.warns(PrivacyWarning, match=match), refused:
        private_bounds(X, epsilon=11.0, ledger=ledger)
    model = FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1]).fit(X, Y)
    with pytest.warns(PrivacyWarning, match="epsilon=12.0 " + match) as caught, refused:
        private_score(model, X, Y, 12.0, ledger=ledger)
    assert len(caught) == 1 and len(ledger.entries) == 0
    with pytest.warns(PrivacyWarning, match=match):
        charged = clone(model).set_params(ledger=PrivacyLedger()).fit(X, Y)
        scorer = make_private_scorer("accuracy", epsilon=11.0, ledger=charged.ledger)
        scorer(charged, X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        for epsilon in (math.inf, 10.0):
            model.set_params(epsilon=epsilon).fit(X, Y)
        private_score(model, X, Y, 10.0)
