"""The ledger: exact limits, atomic charges, copies, what it says is left.

And which fits on one table share one: one public set, by name, target included.
"""

import copy
import dataclasses
import datetime
import enum
import itertools
import math
import pickle
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    report,
)
from skfdp.privacy import (
    RELATIONS,
    Event,
    PrivacyBudgetError,
    PrivacyLedger,
    calibrate,
    compose,
    gdp_epsilon,
    gdp_mu,
)
from skfdp.privacy import accounting as composition
from skfdp.privacy.accounting import Guarantee, composed_guarantee
from skfdp.solvers import NoisyGradientDescent

DELTA = 1e-5
_TWO_DAYS = datetime.timedelta(days=2)  # midnight may pass


def full_batch(mu=0.1, **changes):
    values = {"noise_std": (1 / mu,), "clip_norm": 1.0, "sensitivity": 1.0}
    return Event(label="steps", **(values | changes))


def release(mu, relation="replace_one", **changes):
    return full_batch(mu, neighboring_relation=relation, **changes)


def epsilon_of(mu, delta=DELTA):
    """Return what `test_plan.py` and `test_curves.py` compare with other formulas."""
    return gdp_epsilon(delta, mu)


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
        while epsilon_of(mu * math.sqrt(expected + 1)) <= limit:
            expected += 1
        ledger = new_ledger(epsilon=limit, delta=DELTA)
        assert charge_until_refused(ledger, full_batch(mu)) == expected
        spent = epsilon_of(mu * math.sqrt(expected))
        assert ledger.spent() == pytest.approx(spent, rel=1e-9)
        assert spent <= limit and ledger.remaining() < epsilon_of(mu)
        other = epsilon_of(mu * math.sqrt(expected), 1e-3)
        assert ledger.spent(1e-3) == pytest.approx(other)

    def test_tolerates_rounding_only(self, new_ledger):
        whole = epsilon_of(0.3)
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

    def test_empty(self, new_ledger):
        ledger = new_ledger(epsilon=1.0, delta=DELTA)
        assert (ledger.spent(), len(ledger.entries)) == (0.0, 0)
        assert ledger.remaining() == pytest.approx(1.0, rel=1e-9)
        assert ledger.events == ledger.entries == ()
        assert ledger  # `if ledger:` must not skip an empty one


class TestNonprivateFits:
    def test_they_are_recorded_and_make_spent_infinite(self, new_ledger):
        ledger = new_ledger()
        ledger.charge([full_batch()])
        ledger.charge_nonprivate(label="fit")
        assert ledger.spent(DELTA) == math.inf
        assert len(ledger.entries) == 2
        assert ledger.events == (full_batch(),)
        assert ledger.entries[1].event is None
        ledger.charge([full_batch()])
        assert ledger.spent(DELTA) == math.inf

    def test_a_limit_refuses_them(self, new_ledger):
        ledger = new_ledger(epsilon=1.0, delta=DELTA)
        with pytest.raises(PrivacyBudgetError, match="would spend epsilon inf"):
            ledger.charge_nonprivate(label="fit")
        assert len(ledger.entries) == 0

    def test_a_limit_set_later_has_nothing_left(self, tmp_path):
        PrivacyLedger(tmp_path / "l.db").charge_nonprivate()
        ledger = PrivacyLedger(tmp_path / "l.db", epsilon=1.0, delta=DELTA)
        assert ledger.remaining() == 0.0
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            ledger.charge([full_batch()])


class TestWhatComposes:
    def test_the_relation_can_be_fixed(self, new_ledger):
        ledger = new_ledger(neighboring_relation="replace_special")
        with pytest.raises(PrivacyBudgetError, match="fit under 'replace_special'"):
            ledger.charge([full_batch()])
        assert ledger.neighboring_relation == "replace_special"

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
        assert tuple(entry.event for entry in entries) == ledger.events
        today = datetime.datetime.now(datetime.UTC).date()
        for entry in entries:
            assert today - datetime.date.fromisoformat(entry.date) < _TWO_DAYS
        assert {"skfdp", "numpy", "dp-accounting"} <= set(entries[0].versions)

    def test_events_are_lossless(self, new_ledger):
        given = {"label": "steps", "noise_std": (0.1 + 0.2, 1 / 3), "n_steps": 2}
        given |= {"clip_norm": math.pi / 10, "sensitivity": math.sqrt(2) * math.pi / 10}
        given |= {"sampling_rate": 1 / 7, "public_features": (np.str_("age"), "ä<'\"")}
        given |= {"target_name": "dx", "classes_source": "data", "unnamed": ()}
        event = Event(seeded=True, **given)
        ledger = new_ledger()
        ledger.charge([event])
        assert ledger.events == (event,)


class TestConstructor:
    def test_refuses(self, new_ledger):
        for options, match in (
            ({"epsilon": 1.0}, "epsilon=1.0 and delta=None must be given together"),
            ({"delta": 1e-5}, "give both, or neither"),
            ({"epsilon": 0, "delta": 1e-5}, "epsilon=0 must be a positive number"),
            ({"epsilon": math.inf, "delta": 1e-5}, "epsilon=inf must be finite"),
            (
                {"epsilon": 1e308, "delta": DELTA},
                r"epsilon=1e\+308 must be at most",
            ),
            ({"epsilon": 1.0, "delta": 1.0}, "delta=1.0 must be a number strictly"),
            ({"neighboring_relation": "zero"}, "neighboring_relation='zero' is unkn"),
        ):
            with pytest.raises(ValueError, match=match):
                new_ledger(**options)

    def test_resolve(self, tmp_path):
        ledger = PrivacyLedger()
        assert PrivacyLedger.resolve(None) is None
        assert PrivacyLedger.resolve(ledger) is ledger
        for path in (tmp_path / "l.db", str(tmp_path / "l.db")):
            assert PrivacyLedger.resolve(path).path == str(tmp_path / "l.db")


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
        assert str(path) in repr(twin)
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
        assert sum(counts) == len(ledger.entries) == expected


# -- what remains ----------------------------------------------------------------------
LIMITS = st.floats(0.2, 5)
RELATION = st.sampled_from(RELATIONS)
MUS = st.lists(st.floats(0.02, 0.6), max_size=5)


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
    expected = ledger.what_if(events).n_fits
    if expected > 1:
        ledger.charge(events * (expected - 1))
    if expected:
        assert ledger.what_if(events).n_fits == 1
        ledger.charge(events)
        assert ledger.what_if().n_fits == 0  # like the last one
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
    left, number = ledger.remaining(), ledger.what_if(event).n_fits
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


@pytest.mark.parametrize("limit", [{}, {"epsilon": 9.0, "delta": DELTA}])
def test_reports_say_where_a_ledger_has_no_limit(limit, small):
    ledger = PrivacyLedger(**limit)
    model = FeatureDPLogisticRegression(
        bounds=(0, 1), classes=[0, 1], ledger=ledger
    ).fit(*small)
    score = skfdp.private_score(model, *small, 1.0, ledger=ledger)
    for found in (model.privacy_, score.privacy_, report(ledger, delta=DELTA)):
        said = "The ledger has no limit, so" in " ".join(found.statement().split())
        assert said == (not limit)


class TestWhatIf:
    def test_it_tells_and_charges_nothing(self):
        plan = calibrate(0.8, DELTA, n_steps=10)
        ledger = PrivacyLedger(epsilon=1.0, delta=DELTA)
        once, twice = ledger.what_if(plan), ledger.what_if([plan.event] * 2)
        assert len(ledger.entries) == 0
        assert once.allowed and once.n_fits == 1
        assert once.reason is None
        assert once.epsilon == pytest.approx(plan.epsilon(DELTA))
        ledger.charge([plan.event])
        assert once.remaining == ledger.remaining()
        assert not twice.allowed
        assert "budget exhausted" in twice.reason
        assert twice.epsilon == pytest.approx(
            gdp_epsilon(DELTA, plan.mu * math.sqrt(2)), rel=1e-9
        )
        assert twice.remaining == twice.n_fits == 0

    def test_without_limit_and_without_composition(self):
        ledger = PrivacyLedger()
        answer = ledger.what_if(release(0.3), delta=1e-3)
        assert answer.allowed and answer.delta == 1e-3
        assert answer.remaining == answer.n_fits == math.inf
        assert "Spent:     0 charges; spent(delta=...)" in str(ledger)
        ledger.charge([release(0.1)])
        for use in (ledger.spent, lambda: ledger.what_if(release(0.3))):
            with pytest.raises(ValueError, match="delta=None needs a ledger with a l"):
                use()
        assert "counts all fits and refuses none for its cost" in str(ledger)
        assert "Spent:     1 charge; spent(delta=...) returns epsilon" in str(ledger)
        assert ledger.remaining() == math.inf
        other = release(0.3, "replace_special")
        answer = ledger.what_if(other, delta=DELTA)
        assert (answer.allowed, answer.epsilon, answer.n_fits) == (False, None, 0)
        assert "differs from 'replace_one', the relation" in answer.reason

    def test_other_events_of_a_plan_count(self):
        mean = release(0.1)
        plan = calibrate(1.0, DELTA, n_steps=5, other_events=(mean,))
        assert PrivacyLedger().what_if(plan, delta=DELTA).epsilon == pytest.approx(
            plan.epsilon(DELTA)
        )


class TestPrint:
    def test_every_data_set_of_a_file(self, tmp_path):
        path = tmp_path / "l.db"
        for name in ("b", "a"):
            PrivacyLedger(path, dataset=name).charge([release(0.1)])
        before = path.read_bytes()
        found = PrivacyLedger.open_all(path)
        assert [one.dataset for one in found] == ["a", "b"]
        assert [len(one.entries) for one in found] == [1, 1]
        assert path.read_bytes() == before
        with pytest.raises(FileNotFoundError, match="cannot be opened"):
            PrivacyLedger.open_all(tmp_path / "none.db")
        assert not (tmp_path / "none.db").exists()


def test_fits_like_the_last_one_need_one():
    with pytest.raises(ValueError, match="needs an earlier charge"):
        PrivacyLedger(epsilon=1.0, delta=DELTA).what_if()


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


# -- which fits share a ledger ---------------------------------------------------------
MU = 0.1


def event(**facts) -> Event:
    relation = facts.get("neighboring_relation", "replace_one")
    reach = 2.0 if relation == "replace_one" else 1.0
    return full_batch(MU / reach, sensitivity=reach, **facts)


def public(*columns: str, **facts) -> Event:
    return event(public_features=columns, **{"target_name": "outcome", **facts})


A, B = (event(public_target=True, target_name=name) for name in "ab")
TARGET, STEP = public(public_target=True), event()
NO_NAME = {"unnamed": ("target",)}
UNNAMED = event(public_features=("age",), **NO_NAME)
ARRAYS = event(unnamed=("columns", "target"))
NO_COLUMNS = event(public_target=True, unnamed=("columns",), target_name="a")
SPECIAL = public(neighboring_relation="replace_special")
BATCHES = public(sampling_rate=0.1)
#: Case -> declared set, first and second charge; the page on ledgers lists both kinds.
TAKEN = {
    "nothing public": (None, event(target_name="a"), event(target_name="a")),
    "same set": (None, public("age"), public("age")),
    "smaller set": (None, public("age", "sex"), public("age")),
    "declared set": (["age", "sex"], public("age"), public("sex")),
    "same target": (None, TARGET, TARGET),
    "target public, then private": (None, TARGET, public()),
    "crossed targets, declared": (["a", "b"], A, B),
    "targets without names": (None, *[event(public_target=True)] * 2),
    "unnamed target, same set": (None, UNNAMED, UNNAMED),
    "step of a Pipeline, declared": (["outcome"], STEP, TARGET),
    "arrays, nothing public": (None, ARRAYS, ARRAYS),
    "full and Poisson batches": (None, public(), BATCHES),
    "seeded": (None, public(seeded=True), public()),
}
REFUSED = {
    "larger set": (None, public("age"), public("age", "sex")),
    "public after private": (None, public(), public("age")),
    "outside the declared set": (["age"], public(), public("sex")),
    "target public, then label-DP": (None, TARGET, public("age", "sex")),
    "crossed targets": (None, A, B),
    "derived column without its parent": (None, public("age"), public("age_sp_0")),
    "one target without a name": (None, A, event(**NO_NAME)),
    "unnamed target, larger set": (["age", "dx"], None, UNNAMED),
    "step of a Pipeline": (None, STEP, TARGET),
    "one target per label": (None, event(public_target=True, **NO_NAME), TARGET),
    "nameless public target, then a private one": (
        *(None, event(public_target=True, **NO_NAME), event(target_name="a")),
    ),
    "columns without names": (None, None, event(public_features=(0,), target_name="a")),
    "columns without names, target public": (None, None, NO_COLUMNS),
    "two relations": (None, public(), SPECIAL),
    "without privacy, under a limit": (None, public(), None),
}


@pytest.mark.parametrize("case", TAKEN | REFUSED)
def test_a_second_fit_is_taken_or_refused(case, new_ledger):
    declared, first, second = (TAKEN | REFUSED)[case]
    ledger = new_ledger(epsilon=2.0, delta=DELTA, public=declared)
    if first is not None:
        ledger.charge([first])
    before = len(ledger.entries)
    if case not in REFUSED:
        ledger.charge([second])
        assert len(ledger.entries) == before + 1
        assert report(ledger).epsilon <= gdp_epsilon(DELTA, MU * math.sqrt(2)) + 1e-3
    else:
        with pytest.raises(PrivacyBudgetError, match=r"nothing was charged|limit"):
            ledger.charge([second]) if second else ledger.charge_nonprivate()
        assert len(ledger.entries) == before


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    columns = {"age": rng.random(300), "dose": rng.random(300)}
    flags = {name: (rng.random(300) > 0.5).astype(int) for name in ("dx", "stay")}
    return pd.DataFrame(columns | flags)


class TestReview:
    """What a second attack found in the first version of these rules."""

    def test_a_private_target_without_a_name_may_be_a_public_column(self, table):
        model = FeatureDPLogisticRegression(
            bounds=(0, 1),
            ledger=PrivacyLedger(),
            solver=NoisyGradientDescent(max_iter=2),
        )
        model.set_params(public_features=["dx"])
        model.fit(table[["dx", "dose"]], (table.age > 0.5).to_numpy())
        model.set_params(public_features=None)
        with pytest.raises(PrivacyBudgetError, match="may be one of 'dx'"):
            model.fit(table[["age", "dose"]], table.dx.to_numpy())

    def test_a_pipeline_sees_it_behind_an_array(self, table):
        model = make_pipeline(
            PrivateCenteringTransformer(
                bounds=(0, 1), neighboring_relation="replace_one"
            ),
            FeatureDPLogisticRegression(public_target=True, bounds=False),
        ).fit(table, table.dx)
        with pytest.raises(PrivacyBudgetError, match="discloses its target 'dx'"):
            report(model)

    def test_names_have_one_spelling(self):
        class Column(str, enum.Enum):  # noqa: UP042 -- the kind whose str() differs
            DX = "dx"

        for spelled in (" dx", "dx ", Column.DX):
            assert event(target_name=spelled).target_name == "dx"
            assert public(spelled).public_features == ("dx",)
        ledger = PrivacyLedger(public=["é"])
        ledger.charge([public("e\u0301")])
        assert ledger.public == ("é",)


class TestDeclaration:
    def test_a_promise_is_not_widened_later(self, tmp_path):
        path = tmp_path / "ledger.sqlite"
        PrivacyLedger(path).charge([public("age")])
        with pytest.raises(ValueError, match="declared too late"):
            PrivacyLedger(path, public=["age", "sex"])
        assert PrivacyLedger(path).public == ("age",)
        assert PrivacyLedger(path, public=["age"]).public == ("age",)


class TestFits:
    """The attack itself, with estimators: every one of them tells its names."""

    def test_columns_known_by_position(self, small):
        X, y = small
        ledger = PrivacyLedger()
        model = FeatureDPLogisticRegression(
            public_features=[0], bounds=(0, 1), ledger=ledger
        )
        with pytest.raises(PrivacyBudgetError, match="pass a DataFrame"):
            model.fit(X[:, [0, 1]], y)
        named = pd.DataFrame(X[:, [0, 1]], columns=["age", "dose"])
        model.set_params(target="dx").fit(named, y)
        # The same position, and another column.
        with pytest.raises(PrivacyBudgetError, match="'dose'.*outside the public set"):
            model.fit(named[["dose", "age"]], y)

    @pytest.mark.parametrize(
        "model",
        [
            FeatureDPLogisticRegression(public_features=[0]),
            FeatureDPLogisticRegression(public_features="all"),
            FeatureDPRegressor(public_features=[0], target_bounds=(0, 1)),
            FeatureDPMLPClassifier(public_features=[0], hidden_layer_sizes=(4,)),
            DPSGDFClassifier(),
            PrivateCenteringTransformer(public_features=[0]),
        ],
        ids=lambda model: type(model).__name__,
    )
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_every_estimator_hands_on_its_names(self, model, named):
        X, y = named
        ledger = PrivacyLedger(public=[*X.columns])
        facts = {"target": "t"} if "target" in model.get_params() else {}
        model.set_params(epsilon=1.0, bounds=(0, 1), ledger=ledger, **facts).fit(X, y)
        shown = model.get_params().get("public_features")
        columns = {None: (), "all": ("u0", "u1", "u2", "u3")}.get(
            shown if not isinstance(shown, list) else "first", ("u0",)
        )
        for one in ledger.events:
            assert one.public_features == columns
            assert one.target_name == facts.get("target")
            assert one.unnamed == ()
        assert model.privacy_.target_name == facts.get("target")

    def test_names_that_contradict_are_refused_before_the_charge(self, named):
        ledger = PrivacyLedger()
        model = FeatureDPLogisticRegression(
            public_features=["u0"], bounds=(0, 1), ledger=ledger
        )
        both = "is the name of a public and of a private column"
        for facts, match in (
            ({"target": "u0"}, both),
            ({"target": "u1", "public_target": True}, both),
            ({"target": ""}, "target='' must be the name of the column"),
        ):
            with pytest.raises(ValueError, match=match):
                clone(model).set_params(**facts).fit(*named)
        assert len(ledger.entries) == 0


class TestTheorem:
    """Neighbours under the union are neighbours under each set: by brute force."""

    def test_nested_neighbours(self):
        columns = (0, 1, 2)
        records = list(itertools.product((0, 1), repeat=3))
        tables = list(itertools.product(records, repeat=2))

        def neighbours(one, other, public):
            moved = [i for i in range(2) if one[i] != other[i]]
            rows = list(zip(one, other, strict=True))
            agree = all(r[c] == s[c] for r, s in rows for c in public)
            return len(moved) <= 1 and agree

        subsets = [
            set(s) for size in range(4) for s in itertools.combinations(columns, size)
        ]
        checked = 0
        for small_set, large in itertools.product(subsets, repeat=2):
            pairs = [
                (one, other)
                for one in tables
                for other in tables
                if neighbours(one, other, large)
            ]
            inside = all(neighbours(one, other, small_set) for one, other in pairs)
            # The converse fails: what is outside is not protected.
            assert inside == (small_set <= large)
            checked += len(pairs)
        assert checked > 1000
