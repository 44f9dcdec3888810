"""What a ledger says of the budget left is what its charges then admit."""

import json
import math
import traceback
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skfdp
from skfdp import DPSGDFClassifier
from skfdp.privacy import (
    RELATIONS,
    Event,
    LedgerEntry,
    PrivacyBudgetError,
    PrivacyLedger,
    calibrate,
    compose,
    gdp_epsilon,
    gdp_mu,
)

DELTA = 1e-5
LIMITS = st.floats(0.2, 5)
RELATION = st.sampled_from(RELATIONS)
MUS = st.lists(st.floats(0.02, 0.6), max_size=5)


def release(mu, relation="replace_one", **more):
    given = {"label": "x", "noise_std": (1 / mu,), "clip_norm": 1, "sensitivity": 1}
    return Event(**(given | more), neighboring_relation=relation)


def spending(ledger, mus, relation):
    for mu in mus:
        try:
            ledger.charge([release(mu, relation)])
        except PrivacyBudgetError:
            break
    return ledger


@given(limit=LIMITS, mus=MUS, relation=RELATION)
@settings(max_examples=15, deadline=None)
def test_one_more_fit_may_cost_what_remains_and_no_more(limit, mus, relation):
    ledger = spending(PrivacyLedger(epsilon=limit, delta=DELTA), mus, relation)
    left = ledger.remaining()
    if left < 1e-3:  # too small for a release that a charge would notice
        return
    more = calibrate(left, DELTA, n_steps=3, neighboring_relation=relation)
    answer = ledger.what_if(release(gdp_mu(left * 1.001, DELTA), relation))
    assert not answer.allowed and answer.remaining == 0
    shown = float(answer.reason.partition("may cost epsilon ")[2].partition(":")[0])
    assert left - 1e-4 < shown <= left * (1 + 2e-9)
    assert ledger.what_if(more).remaining == pytest.approx(0, abs=1e-3)
    ledger.charge([more.event])
    assert ledger.remaining() == pytest.approx(0, abs=1e-3)


@given(limit=LIMITS, mus=MUS, mu=st.floats(0.1, 1), relation=RELATION)
@settings(max_examples=15, deadline=None)
def test_the_number_of_fits_is_the_number_of_charges(limit, mus, mu, relation):
    ledger = spending(PrivacyLedger(epsilon=limit, delta=DELTA), mus, relation)
    events = [release(mu, relation), release(mu / 2, relation)]
    expected = ledger.remaining_fits(events)
    if expected > 1:
        ledger.charge(events * (expected - 1))
    if expected:
        assert ledger.remaining_fits(events) == 1
        ledger.charge(events)
        assert ledger.remaining_fits() == 0  # like the last one
    with pytest.raises(PrivacyBudgetError):
        ledger.charge(events)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("relation", "mu"), [("replace_one", 0.25), ("replace_special", 0.5)]
)
def test_poisson_batches_count_by_the_same_composition(relation, mu):
    def charged(*events):
        ledger = PrivacyLedger(epsilon=2.0, delta=DELTA)
        ledger.charge(events)
        return ledger

    reach = 2.0 if relation == "replace_one" else 1.0
    batches = {"n_steps": 3, "sampling_rate": 0.3, "sensitivity": reach}
    event = release(mu, relation, **batches)  # so large that few more fit
    ledger = charged(event)
    left, number = ledger.remaining(), ledger.remaining_fits(event)
    assert number > 0
    charged(event, release(gdp_mu(left, DELTA), relation))
    charged(*[event] * (1 + number))
    for more in (
        [release(gdp_mu(left * 1.01, DELTA), relation)],
        [event] * (number + 1),
    ):
        with pytest.raises(PrivacyBudgetError):
            charged(event, *more)


def test_a_fit_of_another_delta_may_cost_less_at_it():
    ledger = PrivacyLedger(epsilon=1.0, delta=DELTA)
    left = ledger.remaining(1e-3)
    assert 0 < left < ledger.remaining()
    assert ledger.what_if(release(gdp_mu(left, 1e-3))).allowed


def test_remaining_is_zero_if_no_release_fits():
    """Even the smallest release exceeds this limit, by the rounding of epsilon."""
    event = release(0.5, n_steps=3, sampling_rate=0.3)
    spent = compose([event]).epsilon(DELTA)
    ledger = PrivacyLedger(epsilon=math.nextafter(spent, 9), delta=DELTA)
    ledger.charge([event])
    assert 0 <= ledger.remaining() < 1e-6


def test_a_limit_that_limits_nothing_is_refused():
    with pytest.raises(ValueError, match="epsilon=1e\\+308 must be at most 1e12 as"):
        PrivacyLedger(epsilon=1e308, delta=DELTA)
    assert "epsilon 1e+12" in str(PrivacyLedger(epsilon=1e12, delta=DELTA))


@pytest.mark.parametrize("limit", [{}, {"epsilon": 9.0, "delta": DELTA}])
def test_reports_say_where_a_ledger_has_no_limit(limit, small):
    ledger = PrivacyLedger(**limit)
    model = skfdp.FeatureDPLogisticRegression(
        bounds=(0, 1), classes=[0, 1], ledger=ledger
    ).fit(*small)
    score = skfdp.private_score(model, *small, 1.0, ledger=ledger)
    for found in (model.privacy_, score.privacy_, skfdp.report(ledger, delta=DELTA)):
        said = "The ledger has no limit, so" in " ".join(found.statement().split())
        assert said == (not limit)


class TestWhatIf:
    def test_it_tells_and_charges_nothing(self):
        plan = calibrate(0.8, DELTA, n_steps=10)
        ledger = PrivacyLedger(epsilon=1.0, delta=DELTA)
        once, twice = ledger.what_if(plan), ledger.what_if(plan, times=2)
        assert len(ledger) == 0
        assert once.allowed
        assert once.reason is None
        assert once.epsilon == pytest.approx(plan.epsilon(DELTA))
        ledger.charge([plan.event])
        assert once.remaining == ledger.remaining()
        assert not twice.allowed
        assert "budget exhausted" in twice.reason
        assert twice.epsilon == pytest.approx(
            gdp_epsilon(DELTA, plan.mu * math.sqrt(2)), rel=1e-9
        )
        assert twice.remaining >= 0.0

    def test_it_agrees_with_charge(self):
        ledger = PrivacyLedger(epsilon=1.5, delta=DELTA)
        event = release(0.12)
        times = 1
        while ledger.what_if(event, times=times + 1).allowed:
            times += 1
        for _ in range(times):
            assert ledger.what_if(event).allowed
            before = ledger.what_if([event]).epsilon
            ledger.charge([event])
            assert ledger.spent() == before
        assert not ledger.what_if(event).allowed
        with pytest.raises(PrivacyBudgetError):
            ledger.charge([event])

    def test_other_events_of_a_plan_count(self):
        mean = release(0.1)
        plan = calibrate(1.0, DELTA, n_steps=5, other_events=(mean,))
        assert PrivacyLedger().what_if(plan, delta=DELTA).epsilon == pytest.approx(
            plan.epsilon(DELTA)
        )

    def test_what_does_not_compose_has_no_epsilon(self):
        ledger = PrivacyLedger(epsilon=1.0, delta=DELTA)
        ledger.charge([release(0.1)])
        answer = ledger.what_if(release(0.3, "replace_special"))
        assert not answer.allowed
        assert "differs from 'replace_one', the relation" in answer.reason
        assert answer.epsilon is None

    def test_without_limit(self):
        answer = PrivacyLedger().what_if(release(0.3), delta=1e-3)
        assert answer.allowed
        assert answer.remaining == math.inf
        assert answer.delta == 1e-3
        with pytest.raises(ValueError, match="delta=None needs a ledger with a limit"):
            PrivacyLedger().what_if(release(0.3))


class TestPrint:
    def test_it_shows_limit_spent_and_remaining(self):
        ledger = PrivacyLedger(epsilon=2.0, delta=DELTA)
        ledger.charge([release(gdp_mu(1.0, DELTA))], label="fit")
        assert str(ledger).splitlines() == [
            "Privacy ledger in memory, data set 'default'",
            "Limit:     epsilon 2 at delta 1e-05",
            "Spent:     epsilon 1 at delta 1e-05, 1 charge",
            "Remaining: epsilon 1.6584 for one more fit, or 2 more like the last one "
            "(fit)",
        ]

    def test_without_a_limit(self):
        ledger, plan = PrivacyLedger(), calibrate(0.5, 1e-6, n_steps=2)
        assert "Spent:     0 charges; spent(delta=...)" in str(ledger)
        ledger.charge([plan.event])
        assert "counts all fits and refuses none for its cost" in str(ledger)
        assert "Spent:     1 charge; spent(delta=...) returns epsilon" in str(ledger)
        assert "delta 1e-05" not in str(ledger)
        assert ledger.remaining() == ledger.remaining_fits() == math.inf
        assert ledger.remaining_fits(release(0.1, "replace_special")) == 0

    def test_after_a_seeded_fit_and_one_without_privacy(self, tmp_path):
        PrivacyLedger(tmp_path / "l.db").charge([release(0.1, seeded=True)])
        PrivacyLedger(tmp_path / "l.db").charge_nonprivate()
        ledger = PrivacyLedger(tmp_path / "l.db", epsilon=1.0, delta=DELTA)
        text = str(ledger)
        assert "Void:" in text and "epsilon inf" in text
        assert "epsilon 0 for one more fit, or 0 more" in text

    def test_every_data_set_of_a_file(self, tmp_path):
        path = tmp_path / "l.db"
        for name in ("b", "a"):
            PrivacyLedger(path, dataset=name).charge([release(0.1)])
        before = path.read_bytes()
        found = PrivacyLedger.open_all(path)
        assert [one.dataset for one in found] == ["a", "b"]
        assert [len(one) for one in found] == [1, 1]
        assert path.read_bytes() == before
        with pytest.raises(FileNotFoundError, match="cannot be opened"):
            PrivacyLedger.open_all(tmp_path / "none.db")
        assert not (tmp_path / "none.db").exists()


def test_fits_like_the_last_one_need_one():
    with pytest.raises(ValueError, match="needs an earlier charge"):
        PrivacyLedger(epsilon=1.0, delta=DELTA).remaining_fits()


class TestRefusalOfAFit:
    """The message is short, says what is left, and comes before anything happens."""

    X = np.random.default_rng(0).random((60, 2))

    def test_it_comes_from_fit_itself(self):
        ledger = PrivacyLedger(epsilon=0.5, delta=DELTA)
        model = DPSGDFClassifier(1.0, bounds=(0, 1), classes=[0, 1], ledger=ledger)
        with pytest.raises(PrivacyBudgetError) as caught:
            model.fit(self.X, self.X[:, 0] > 0.5)
        message = str(caught.value)
        assert message.count(". ") == 1 and "may cost epsilon 0.5:" in message
        assert "ledger.remaining() and ledger.what_if(model.plan(X, y))" in message
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
        frames = traceback.extract_tb(caught.value.__traceback__)
        package = Path(skfdp.__file__).parent
        assert len([f for f in frames if package in Path(f.filename).parents]) == 1
        assert not ledger.entries and not hasattr(model, "coef_")

    def test_a_plan_shows_noise_unit_and_cost(self):
        model = DPSGDFClassifier(0.5, bounds=(0, 1), classes=[0, 1])
        text = repr(model.plan(self.X))
        assert text.startswith(
            "Plan of DPSGDFClassifier: epsilon 0.5 at delta 1e-05, for each of 60 "
            "records (replace_one)\n"
        )
        persons = repr(model.plan(self.X, groups=np.arange(60) // 3))
        assert "for all rows of each of 20 persons" in persons
        plan = model.plan(self.X)
        lines = text.splitlines()[1:]
        assert lines.pop().startswith("  share of predictive power")
        for event, line in zip(plan.events, lines, strict=True):
            assert f"{event.label} x {event.n_steps}: noise " in line
            assert f"{event.step_stds.min():.4g}" in line
            assert f"{event.step_stds.max():.4g}" in line
        free = DPSGDFClassifier(math.inf, bounds=(0, 1), classes=[0, 1])
        assert repr(free.plan(self.X)).endswith("epsilon inf, without privacy")
        assert (free.plan(self.X).mu, plan.mu) == (None, compose(plan.events).mu)
        assert plan.to_dict()["mu"] == plan.mu == pytest.approx(gdp_mu(0.5, DELTA))


def test_json_is_strict_and_whole():
    def refuse(constant):
        raise AssertionError(constant)

    plan = calibrate(0.2, DELTA, n_steps=3, noise_decay=0.75)
    ledger = PrivacyLedger(epsilon=2.0, delta=DELTA, dataset="people", public=["age"])
    mean = release(0.1 + 0.2, label="mean", seeded=True)
    ledger.charge([mean, plan.event], label="first")
    ledger.charge([release(1 / 7)], label='ä"<')
    values = json.loads(ledger.to_json(), parse_constant=refuse)
    assert values["schema_version"] == 1
    assert (values["dataset"], values["epsilon"]) == ("people", 2.0)
    assert tuple(map(LedgerEntry.from_dict, values["entries"])) == ledger.entries
