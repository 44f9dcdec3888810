"""what_if, the table, and the ledger as JSON."""

import json
import math
import sys

import pytest

from skfdp.privacy import (
    Event,
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

    def test_within_a_part(self):
        ledger = PrivacyLedger(epsilon=gdp_epsilon(DELTA, 0.4), delta=DELTA)
        ledger.part(rows=range(5)).charge([full_batch(0.3)])
        assert ledger.part(rows=range(5, 9)).what_if(full_batch(0.39)).allowed
        assert not ledger.part(rows=range(4, 9)).what_if(full_batch(0.39)).allowed

    @pytest.mark.parametrize("times", [0, -1, 1.5])
    def test_times(self, times):
        with pytest.raises(ValueError, match="must be a positive int"):
            PrivacyLedger().what_if(full_batch(), times=times, delta=DELTA)


def a_ledger(path=None):
    plan = calibrate(0.2, DELTA, n_steps=3, noise_weights=(3, 2, 1))
    public = ["sex", "age", "sex"]
    ledger = PrivacyLedger(
        path, epsilon=2.0, delta=DELTA, dataset="people", public=public
    )
    mean = full_batch(0.1 + 0.2, label="mean", seeded=True)
    ledger.charge([mean, plan.event], label="first", plan=plan)
    ledger.part(rows=range(0, 100)).charge([full_batch(1 / 7)], label='ä"<')
    return ledger


class TestTable:
    def test_one_row_for_each_event(self):
        ledger = a_ledger()
        frame = ledger.to_dataframe()
        assert frame["charge"].tolist() == [1, 1, 2]
        assert frame["release"].tolist() == ["mean", "steps", "steps"]
        assert frame["event"].tolist() == list(ledger.events)
        assert frame["mu"].tolist() == [event.mu for event in ledger.events]
        assert frame["target_epsilon"].tolist()[:2] == [0.2, 0.2]
        assert frame["seeded"].tolist() == [True, False, False]
        assert frame["part"].isna().tolist() == [True, True, False]
        assert frame["part"][2] == "rows 0 to 99"
        assert str(frame["time"].dt.tz) == "UTC"
        assert set(frame["dataset"]) == {"people"}

    def test_fits_without_privacy_and_empty_ledgers(self):
        ledger = PrivacyLedger()
        columns = ledger.to_dataframe().columns.tolist()
        ledger.charge_nonprivate(label="fit")
        frame = ledger.to_dataframe()
        assert frame.columns.tolist() == columns
        assert frame["event"].isna().all()
        assert frame["label"].tolist() == ["fit"]

    def test_without_pandas(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"pip install 'skfdp\[cli\]'"):
            PrivacyLedger().to_dataframe()


class TestJson:
    @pytest.mark.parametrize("to_file", [False, True])
    @pytest.mark.parametrize("from_file", [False, True])
    def test_it_comes_back_whole(self, tmp_path, from_file, to_file):
        ledger = a_ledger(tmp_path / "from.db" if from_file else None)
        path = tmp_path / "to.db" if to_file else None
        twin = PrivacyLedger.from_json(ledger.to_json(), path)
        assert twin.entries == ledger.entries
        assert twin.spent() == ledger.spent()
        assert twin.path == (str(path) if path else None)
        assert (twin.epsilon, twin.delta, twin.dataset) == (2.0, DELTA, "people")
        assert twin.to_json() == ledger.to_json()
        assert twin.public == ("age", "sex")
        twin.charge([full_batch(0.1)])
        assert len(twin) == len(ledger) + 1
        assert twin.entries[-1].charge == 3

    def test_it_is_strict(self):
        def refuse(constant):
            raise AssertionError(constant)

        values = json.loads(a_ledger().to_json(), parse_constant=refuse)
        assert values["schema_version"] == 1
        assert len(values["entries"]) == 3

    def test_nothing_is_counted_twice(self, tmp_path):
        text = a_ledger().to_json()
        PrivacyLedger.from_json(text, tmp_path / "l.db")
        with pytest.raises(ValueError, match="has 3 entries in .* import into a new f"):
            PrivacyLedger.from_json(text, tmp_path / "l.db")
        assert len(PrivacyLedger(tmp_path / "l.db", dataset="people")) == 3

    def test_charges_keep_their_order_beside_another_data_set(self, tmp_path):
        PrivacyLedger(tmp_path / "l.db").charge([full_batch()])
        twin = PrivacyLedger.from_json(a_ledger().to_json(), tmp_path / "l.db")
        assert [entry.charge for entry in twin.entries] == [2, 2, 3]

    def test_what_was_spent_was_spent(self):
        """An overspent record, from before there was a limit, is imported too."""
        ledger = PrivacyLedger()
        ledger.charge([full_batch(2.0)])
        values = json.loads(ledger.to_json()) | {"epsilon": 1.0, "delta": DELTA}
        twin = PrivacyLedger.from_json(json.dumps(values))
        assert twin.spent() > 1.0
        assert twin.remaining() == 0.0
        with pytest.raises(PrivacyBudgetError):
            twin.charge([full_batch(0.01)])

    def test_fits_without_privacy(self):
        ledger = PrivacyLedger()
        ledger.charge_nonprivate(label="fit")
        assert PrivacyLedger.from_json(ledger.to_json()).spent(DELTA) == math.inf

    @pytest.mark.parametrize(
        ("edit", "match"),
        [
            ({"schema": "other"}, "pass what to_json wrote"),
            ({"schema_version": 2}, "schema_version=2, this skfdp reads 1: read it"),
            ({"schema_version": True}, "schema_version=True, this skfdp reads 1"),
            ({"epsilon": -1.0}, "epsilon=-1.0 must be a positive number"),
            ({"neighboring_relation": "replace_special"}, "differs from 'replace_spec"),
            ({"entries": [{"charge": 1}]}, "entry 0 of the ledger: LedgerEntry lacks"),
        ],
    )
    def test_refuses(self, edit, match):
        values = json.loads(a_ledger().to_json()) | edit
        with pytest.raises(ValueError, match=match):
            PrivacyLedger.from_json(json.dumps(values))

    def test_a_mixture_is_refused(self):
        values = json.loads(a_ledger().to_json())
        values["entries"][0]["event"]["public_target"] = True
        values["entries"][1]["event"]["public_features"] = ["age"]
        with pytest.raises(PrivacyBudgetError, match="outside"):
            PrivacyLedger.from_json(json.dumps(values))


@pytest.mark.parametrize("label", [3, b"fit", ["fit"]])
def test_a_label_is_text(label):
    with pytest.raises(ValueError, match="label=.* must be a str"):
        PrivacyLedger().charge([full_batch()], label=label)
