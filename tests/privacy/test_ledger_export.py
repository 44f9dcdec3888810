"""what_if, the table, and the ledger as JSON."""

import json
import math

import pytest

from skfdp.privacy import (
    Event,
    LedgerEntry,
    PrivacyBudgetError,
    PrivacyLedger,
    calibrate,
    gdp_epsilon,
)

DELTA = 1e-5


def full_batch(mu=0.3, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return Event(**({"label": "steps"} | values | changes))


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
        event = full_batch(0.12)
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
        mean = full_batch(0.1)
        plan = calibrate(1.0, DELTA, n_steps=5, other_events=(mean,))
        assert PrivacyLedger().what_if(plan, delta=DELTA).epsilon == pytest.approx(
            plan.epsilon(DELTA)
        )

    def test_what_does_not_compose_has_no_epsilon(self):
        ledger = PrivacyLedger(epsilon=1.0, delta=DELTA)
        ledger.charge([full_batch(0.1)])
        answer = ledger.what_if(full_batch(neighboring_relation="replace_special"))
        assert not answer.allowed
        assert "differs from 'replace_one', the relation" in answer.reason
        assert answer.epsilon is None

    def test_without_limit(self):
        answer = PrivacyLedger().what_if(full_batch(), delta=1e-3)
        assert answer.allowed
        assert answer.remaining == math.inf
        assert answer.delta == 1e-3
        with pytest.raises(ValueError, match="delta=None needs a ledger with a limit"):
            PrivacyLedger().what_if(full_batch())

    @pytest.mark.parametrize("times", [0, -1, 1.5])
    def test_times(self, times):
        with pytest.raises(ValueError, match="must be a positive int"):
            PrivacyLedger().what_if(full_batch(), times=times, delta=DELTA)


def a_ledger(path=None):
    plan = calibrate(0.2, DELTA, n_steps=3, noise_decay=0.75)
    public = ["sex", "age", "sex"]
    ledger = PrivacyLedger(
        path, epsilon=2.0, delta=DELTA, dataset="people", public=public
    )
    mean = full_batch(0.1 + 0.2, label="mean", seeded=True)
    ledger.charge([mean, plan.event], label="first")
    ledger.charge([full_batch(1 / 7)], label='ä"<')
    return ledger


class TestJson:
    def test_it_is_strict_and_whole(self):
        def refuse(constant):
            raise AssertionError(constant)

        ledger = a_ledger()
        values = json.loads(ledger.to_json(), parse_constant=refuse)
        assert values["schema_version"] == 1
        assert (values["dataset"], values["epsilon"]) == ("people", 2.0)
        entries = tuple(map(LedgerEntry.from_dict, values["entries"]))
        assert entries == ledger.entries
