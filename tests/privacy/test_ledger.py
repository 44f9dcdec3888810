"""The ledger: exact limits, atomic charges, copies that are the same ledger."""

import copy
import dataclasses
import datetime
import math
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.base import clone

from skfdp.privacy import Event, PrivacyBudgetError, PrivacyLedger
from skfdp.privacy import accounting as composition
from skfdp.privacy.public_sets import Guarantee, composed_guarantee

DELTA = 1e-5
_TWO_DAYS = datetime.timedelta(days=2)  # midnight may pass


def full_batch(mu=0.1, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return Event(label="steps", **(values | changes))


def poisson(**changes):
    return full_batch(0.5, n_steps=20, sampling_rate=0.05, **changes)


def independent_epsilon(mu, delta=DELTA):
    """Epsilon of mu-GDP, written down anew: Balle and Wang 2018, Theorem 8."""

    def excess(eps):
        tail = norm.logcdf(-mu / 2 - eps / mu)
        return norm.cdf(mu / 2 - eps / mu) - np.exp(eps + tail) - delta

    return brentq(excess, 0, 100 + mu * mu) if excess(0) > 0 else 0.0


def charge_until_refused(ledger, event, limit=1_000):
    for charged in range(limit):
        try:
            ledger.charge([event])
        except PrivacyBudgetError:
            return charged
    raise AssertionError("no charge was refused")


@pytest.fixture(params=["memory", "file"])
def new_ledger(request, tmp_path):
    path = None if request.param == "memory" else tmp_path / "ledger.db"

    def make(**options):
        return PrivacyLedger(path, **options)

    return make


class TestLimit:
    @pytest.mark.parametrize("limit", [0.3, 1.0])
    def test_is_exact_to_the_fit(self, new_ledger, limit):
        mu = 0.04
        expected = 0
        while independent_epsilon(mu * math.sqrt(expected + 1)) <= limit:
            expected += 1
        ledger = new_ledger(epsilon=limit, delta=DELTA)
        assert charge_until_refused(ledger, full_batch(mu)) == expected
        spent = independent_epsilon(mu * math.sqrt(expected))
        assert ledger.spent() == pytest.approx(spent, rel=1e-9)
        assert spent <= limit and ledger.remaining() < independent_epsilon(mu)
        other = independent_epsilon(mu * math.sqrt(expected), 1e-3)
        assert ledger.spent(1e-3) == pytest.approx(other)

    def test_tolerates_rounding_only(self, new_ledger):
        whole = independent_epsilon(0.3)
        less = PrivacyLedger(epsilon=whole * (1 - 1e-8), delta=DELTA)
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            less.charge([full_batch(0.3)])
        ledger = new_ledger(epsilon=whole, delta=DELTA)
        ledger.charge([full_batch(0.3)])
        assert ledger.remaining() == pytest.approx(0, abs=1e-9)

    def test_refusal_charges_nothing(self, new_ledger):
        ledger = new_ledger(epsilon=1.0, delta=DELTA)
        ledger.charge([full_batch(0.1)])
        before = ledger.entries, ledger.spent()
        small, large = full_batch(0.01), full_batch(2.0)
        with pytest.raises(PrivacyBudgetError, match="nothing was charged"):
            ledger.charge([small, large])
        assert (ledger.entries, ledger.spent()) == before
        ledger.charge([small])

    def test_sampled_and_full_batch_releases_are_one_composition(self, new_ledger):
        ledger = new_ledger(epsilon=1.5, delta=DELTA)
        event = poisson(neighboring_relation="replace_special")
        mean = full_batch(0.2, neighboring_relation="replace_special")
        ledger.charge([mean, event])
        one = ledger.spent()
        ledger.charge([mean, event])
        assert independent_epsilon(0.2) < one < ledger.spent() < 2 * one
        assert charge_until_refused(ledger, event) > 0
        assert ledger.spent() <= 1.5

    def test_without_limit(self, new_ledger):
        ledger = new_ledger()
        ledger.charge([full_batch(9.0)])
        assert ledger.remaining() == math.inf
        assert ledger.spent(DELTA) == pytest.approx(independent_epsilon(9.0))
        with pytest.raises(ValueError, match="delta=None needs a ledger with a limit"):
            ledger.spent()

    def test_empty(self, new_ledger):
        ledger = new_ledger(epsilon=1.0, delta=DELTA)
        assert (ledger.spent(), len(ledger)) == (0.0, 0)
        assert ledger.remaining() == pytest.approx(1.0, rel=1e-9)
        assert ledger.events == ledger.entries == ()
        assert ledger  # `if ledger:` must not skip an empty one

    @given(mus=st.lists(st.floats(0.01, 1.0), max_size=12), limit=st.floats(0.05, 4))
    @settings(max_examples=20, deadline=None)
    def test_greedy_charges_match_an_independent_account(self, mus, limit):
        ledger = PrivacyLedger(epsilon=limit, delta=DELTA)
        square = 0.0
        for mu in mus:
            due = independent_epsilon(math.sqrt(square + mu * mu))
            if abs(due / limit - 1) < 1e-6:
                continue  # rounding decides
            try:
                ledger.charge([full_batch(mu)])
                accepted = True
            except PrivacyBudgetError:
                accepted = False
            assert accepted == (due <= limit)
            square += accepted * mu * mu
            assert ledger.spent() <= limit * (1 + 1e-9)


class TestNonprivateFits:
    def test_a_limit_refuses_them(self, new_ledger):
        ledger = new_ledger(epsilon=1.0, delta=DELTA)
        with pytest.raises(PrivacyBudgetError, match="would spend epsilon inf"):
            ledger.charge_nonprivate(label="fit")
        assert len(ledger) == 0

    def test_they_are_recorded_and_make_spent_infinite(self, new_ledger):
        ledger = new_ledger()
        ledger.charge([full_batch()])
        ledger.charge_nonprivate(label="fit")
        assert ledger.spent(DELTA) == math.inf
        assert len(ledger) == 2
        assert ledger.events == (full_batch(),)
        assert ledger.entries[1].event is None
        ledger.charge([full_batch()])
        assert ledger.spent(DELTA) == math.inf

    def test_a_limit_set_later_has_nothing_left(self, tmp_path):
        PrivacyLedger(tmp_path / "l.db").charge_nonprivate()
        ledger = PrivacyLedger(tmp_path / "l.db", epsilon=1.0, delta=DELTA)
        assert ledger.remaining() == 0.0
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            ledger.charge([full_batch()])


class TestWhatComposes:
    def test_mixed_relations_in_one_charge_are_refused(self, new_ledger):
        ledger = new_ledger()
        with pytest.raises(PrivacyBudgetError, match="cannot be composed"):
            ledger.charge(
                [full_batch(), full_batch(neighboring_relation="replace_special")]
            )
        assert len(ledger) == 0

    def test_the_relation_can_be_fixed(self, new_ledger):
        ledger = new_ledger(neighboring_relation="replace_special")
        with pytest.raises(PrivacyBudgetError, match="fit under 'replace_special'"):
            ledger.charge([full_batch()])
        assert ledger.neighboring_relation == "replace_special"

    @pytest.mark.parametrize("order", [1, -1])
    def test_nothing_public_composes_with_one_public_set(self, new_ledger, order):
        ledger = new_ledger(epsilon=1.0, delta=DELTA, public=["age", "dx"])
        weaker = full_batch(
            0.1, public_features=("age",), public_target=True, target_name="dx"
        )
        for event in (full_batch(0.1), weaker)[::order]:
            ledger.charge([event])
        assert ledger.spent() == pytest.approx(independent_epsilon(0.1 * math.sqrt(2)))
        assert ledger.public == ("age", "dx")
        assert ledger.events == (full_batch(0.1), weaker)[::order]

    @pytest.mark.parametrize(
        "events", [[], [1], full_batch().to_dict(), [full_batch(), 1]]
    )
    def test_needs_events(self, new_ledger, events):
        with pytest.raises(ValueError, match="must be at least one Event"):
            new_ledger().charge(events)

    @given(
        sets=st.lists(
            st.tuples(st.sampled_from([(), ("a",), ("b",), ("b", "a")]), st.booleans()),
            min_size=1,
            max_size=4,
        ),
        relation=st.sampled_from(["replace_one", "replace_special"]),
    )
    def test_nobody_is_promised_more_than_the_weakest_event(self, sets, relation):
        events = [
            full_batch(
                public_features=columns,
                public_target=target,
                neighboring_relation=relation,
            )
            for columns, target in sets
        ]
        union = frozenset().union(*(event.disclosed for event in events))
        if union in {event.disclosed for event in events}:
            assert composed_guarantee(events) == Guarantee(relation, "record", union)
        else:
            with pytest.raises(PrivacyBudgetError, match="outside the public set of"):
                composed_guarantee(events)


class TestRecords:
    def test_one_entry_per_event(self, new_ledger):
        ledger = new_ledger()
        mean = dataclasses.replace(full_batch(0.05), label="mean", seeded=True)
        ledger.charge([mean, full_batch()], label="DPSGDFClassifier")
        ledger.charge([full_batch(0.3)])
        entries = ledger.entries
        assert [entry.charge for entry in entries] == [1, 1, 2]
        assert [entry.label for entry in entries] == ["DPSGDFClassifier"] * 2 + [None]
        assert [entry.seeded for entry in entries] == [True, False, False]
        assert tuple(entry.event for entry in entries) == ledger.events
        today = datetime.datetime.now(datetime.UTC).date()
        for entry in entries:
            assert today - datetime.date.fromisoformat(entry.date) < _TWO_DAYS
        assert {"skfdp", "numpy", "dp-accounting"} <= set(entries[0].versions)

    def test_events_are_lossless(self, new_ledger):
        event = Event(
            label="steps",
            noise_std=(0.1 + 0.2, 1 / 3),
            clip_norm=math.pi / 10,
            sensitivity=math.sqrt(2) * math.pi / 10,
            n_steps=2,
            sampling_rate=1 / 7,
            public_features=(np.str_("age"), "ä<'\""),
            target_name="dx",
            unnamed=(),
            classes_source="data",
            seeded=True,
        )
        ledger = new_ledger()
        ledger.charge([event])
        assert ledger.events == (event,)

    def test_repr_says_what_it_is(self, new_ledger):
        ledger = new_ledger(epsilon=1.0, delta=DELTA)
        ledger.charge([full_batch()])
        assert "epsilon=1.0, delta=1e-05, 1 charge" in repr(ledger)


class TestConstructor:
    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"epsilon": 1.0}, "epsilon=1.0 and delta=None must be given together"),
            ({"delta": 1e-5}, "give both, or neither"),
            ({"epsilon": 0, "delta": 1e-5}, "epsilon=0 must be a positive number"),
            ({"epsilon": math.inf, "delta": 1e-5}, "epsilon=inf must be finite"),
            (
                {"epsilon": 1.0, "delta": 1.0},
                "delta=1.0 must be a number strictly",
            ),
            ({"neighboring_relation": "zero"}, "neighboring_relation='zero' is unkn"),
            ({"dataset": ""}, "dataset='' must be a non-empty string"),
        ],
    )
    def test_refuses(self, new_ledger, options, match):
        with pytest.raises(ValueError, match=match):
            new_ledger(**options)

    def test_resolve(self, tmp_path):
        ledger = PrivacyLedger()
        assert PrivacyLedger.resolve(None) is None
        assert PrivacyLedger.resolve(ledger) is ledger
        for path in (tmp_path / "l.db", str(tmp_path / "l.db")):
            assert PrivacyLedger.resolve(path).path == str(tmp_path / "l.db")
        for value in (1, b"l.db", PrivacyLedger):
            with pytest.raises(TypeError, match="must be None, a path or a PrivacyL"):
                PrivacyLedger.resolve(value)


class TestCopies:
    @pytest.mark.parametrize(
        "copied", [clone, copy.copy, copy.deepcopy, lambda x: copy.deepcopy([x])[0]]
    )
    def test_copies_share_the_budget(self, new_ledger, copied):
        ledger = new_ledger(epsilon=1.0, delta=DELTA)
        twin = copied(ledger)
        twin.charge([full_batch()])
        assert ledger.events == twin.events == (full_batch(),)
        assert twin is ledger

    def test_memory_refuses_pickling(self):
        with pytest.raises(pickle.PicklingError, match=r"use PrivacyLedger\(path\)"):
            pickle.dumps(PrivacyLedger())

    def test_file_pickles_as_a_handle(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ledger = PrivacyLedger("l.db", epsilon=1.0, delta=DELTA, dataset="a")
        state = pickle.dumps(ledger)
        monkeypatch.chdir("/")
        twin = pickle.loads(state)
        twin.charge([full_batch()])
        assert ledger.events == twin.events == (full_batch(),)
        assert (twin.epsilon, twin.dataset) == (1.0, "a")

    def test_unpickling_never_makes_a_new_file(self, tmp_path):
        path = tmp_path / "l.db"
        state = pickle.dumps(PrivacyLedger(path, epsilon=1.0, delta=DELTA))
        path.unlink()
        twin = pickle.loads(state)  # a model loads where its ledger is out of reach
        assert "unreadable" in repr(twin)
        with pytest.raises(FileNotFoundError, match="cannot be opened"):
            twin.charge([full_batch()])
        with pytest.raises(FileNotFoundError, match="cannot be opened"):
            twin.charge_nonprivate()
        assert not path.exists()


class TestRaces:
    def test_threads(self, new_ledger, monkeypatch):
        mu = 0.05
        alone = PrivacyLedger(epsilon=1.0, delta=DELTA)
        expected = charge_until_refused(alone, full_batch(mu))
        ledger = new_ledger(epsilon=1.0, delta=DELTA)
        gate = threading.Barrier(8)
        cost = composition.cost

        def slow_cost(*args):
            time.sleep(1e-3)  # lets the others in, between the check and the append
            return cost(*args)

        monkeypatch.setattr(composition, "cost", slow_cost)

        def work():
            gate.wait(timeout=240)
            return charge_until_refused(ledger, full_batch(mu))

        counts = Parallel(n_jobs=8, backend="threading")(
            delayed(work)() for _ in range(8)
        )
        assert sum(counts) == len(ledger) == expected

    SCRIPT = """
import sys
from skfdp.privacy import Event, PrivacyBudgetError, PrivacyLedger
ledger = PrivacyLedger(sys.argv[1])
event = Event(label="e", noise_std=(float(sys.argv[2]),), clip_norm=1, sensitivity=1)
print("ready", flush=True)
sys.stdin.readline()
while True:
    try:
        ledger.charge([event, event], label="race")
    except PrivacyBudgetError:
        break
    print("charged", flush=True)
"""

    def start(self, path, std):
        return subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT, str(path), str(std)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def test_processes(self, tmp_path):
        path, std = tmp_path / "l.db", 20.0
        expected = 0
        while independent_epsilon(math.sqrt(2 * (expected + 1)) / std) <= 1.5:
            expected += 1
        ledger = PrivacyLedger(path, epsilon=1.5, delta=DELTA)
        workers = [self.start(path, std) for _ in range(2)]
        for worker in workers:
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        outputs = [worker.communicate(timeout=240)[0] for worker in workers]
        assert all(worker.returncode == 0 for worker in workers)
        acknowledged = sum(output.count("charged") for output in outputs)
        assert acknowledged == expected
        assert len(ledger) == 2 * expected
        assert sorted({entry.charge for entry in ledger.entries}) == list(
            range(1, expected + 1)
        )
