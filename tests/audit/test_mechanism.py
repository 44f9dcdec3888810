"""The audit of mechanisms: what is seen of releases agrees with the claim."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from skfdp import DPSGDFClassifier
from skfdp.audit import mechanism as bounds
from skfdp.audit.mechanism import AuditResult, Canary, audit_mechanism, largest_rates
from skfdp.mechanisms import release as mechanism
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import RELATIONS, Event, compose, gdp_epsilon
from skfdp.privacy import accounting as composition
from skfdp.solvers import NoisyGradientDescent

FULL = Event(label="mean", noise_std=(2.0,), clip_norm=1.0, sensitivity=2.0)
SCHEDULE = dataclasses.replace(
    FULL, label="descent", n_steps=9, noise_std=(4.0,), noise_decay=0.75
)
SAMPLED = {
    relation: Event(
        label="descent",
        noise_std=(1.0,),
        clip_norm=1.0,
        sensitivity=1.6 if relation == "replace_one" else 1.0,
        n_steps=10,
        sampling_rate=0.3,
        neighboring_relation=relation,
    )
    for relation in RELATIONS
}
every_relation = pytest.mark.parametrize("event", SAMPLED.values(), ids=SAMPLED)


# -- the canary ------------------------------------------------------------------------
NEIGHBOURS = {"whole": FULL, "part": dataclasses.replace(FULL, sensitivity=0.7)}
NEIGHBOURS |= SAMPLED


@pytest.mark.parametrize("event", NEIGHBOURS.values(), ids=NEIGHBOURS)
@pytest.mark.parametrize("std", [1e-3, 2.0, 1e9])
def test_a_canary_is_moved_by_the_whole_sensitivity(event, std):
    tables, theta = bounds.neighbours(event), np.array([1, -1]) / math.sqrt(2)
    assert {type(table) for table in tables} == {Canary}
    gone = event.neighboring_relation == "add_or_remove_one"
    assert [table.n_rows for table in tables] == [4 - gone, 4]
    unit = tables[0].unit(std)
    assert unit == tables[1].unit(std)
    assert math.frexp(unit)[0] == 0.5
    without, with_it = (table.exact_sum(theta, None, unit) for table in tables)
    assert with_it.dtype == np.int64
    assert np.linalg.norm(with_it) * unit <= event.clip_norm
    assert np.linalg.norm(without) * unit <= event.clip_norm
    moved = np.linalg.norm(with_it - without) * unit
    assert moved == pytest.approx(event.sensitivity, abs=4 * unit)
    assert unit < 2e-9 * std
    assert tables[1].sensitivity(event.relation) == event.sensitivity
    for table in tables:
        assert not table.exact_sum(theta, np.array([0, 2]), unit).any()
        inside = table.exact_sum(theta, np.array([0, 1]), unit)
        np.testing.assert_array_equal(inside, table.exact_sum(theta, None, unit))


# -- audits ----------------------------------------------------------------------------
def test_full_batches_show_what_they_claim():
    """To a tenth, by two releases, one of them a schedule."""
    result = audit_mechanism([FULL, SCHEDULE], n_trials=1500, random_state=0)
    assert result.passed
    assert [one.label for one in result.releases] == ["mean", "descent"]
    for one, event in zip(result.releases, (FULL, SCHEDULE), strict=True):
        assert one.claimed == event.mu
        assert one.low < event.mu < one.high
    assert result.whole.claimed == pytest.approx(math.hypot(FULL.mu, SCHEDULE.mu))
    assert abs(result.whole.observed / result.whole.claimed - 1) < 0.1
    # Threshold, halves, and confidence cost some of it.
    assert 0.7 < result.lower_bound / result.claimed_epsilon <= 1
    assert 0 < result.clopper_pearson < result.lower_bound
    first, *lines = str(result).splitlines()
    assert [line.split(" x ")[0] for line in lines] == ["mean", "descent", "whole"]
    assert "lower bound" in first
    assert "claimed 1, observed" in str(result.releases[0])


@pytest.mark.slow
@every_relation
def test_sampled_batches_show_what_they_claim(event):
    """Ratios that agree, and a good part of epsilon."""
    result = audit_mechanism(event, n_trials=500, random_state=0)
    assert result.passed
    (one,) = result.releases
    assert one.low < one.claimed < one.high
    assert one.standard_error < 0.09
    assert 0.1 < result.lower_bound / result.claimed_epsilon <= 1


def test_a_plan_of_an_estimator():
    model = DPSGDFClassifier(
        epsilon=8.0,
        bounds=(0, 1),
        classes=[0, 1],
        solver=NoisyGradientDescent(max_iter=5),
    )
    plan = model.plan(np.full((300, 3), np.nan))
    result = audit_mechanism(plan, n_trials=400, random_state=0)
    assert result.subject == "DPSGDFClassifier"
    assert result.delta == plan.delta
    assert result.claimed_epsilon == pytest.approx(plan.epsilon)
    assert result.whole.claimed == pytest.approx(plan.mu)
    assert result.passed


def test_a_seed_repeats_the_result_and_nothing_else_does():
    """Nor do events of one label, which are told apart."""
    one, two, other, free = (
        audit_mechanism([FULL, FULL, FULL], n_trials=100, random_state=seed)
        for seed in (0, 0, 1, None)
    )
    assert one == two
    assert len({result.whole.observed for result in (one, other, free)}) == 3
    labels = [release.label for release in one.releases]
    assert labels == ["mean", "mean (2)", "mean (3)"]
    assert len({release.observed for release in one.releases}) == 3
    assert one.subject == "mean"


def test_delta_and_confidence_are_those_given():
    loose = audit_mechanism(FULL, n_trials=400, delta=1e-3, random_state=0)
    assert loose.claimed_epsilon == gdp_epsilon(1e-3, 1.0)
    sure = audit_mechanism(FULL, n_trials=400, confidence=0.999, random_state=0)
    assert sure.confidence == 0.999
    assert sure.whole.observed == loose.whole.observed
    assert sure.whole.low < loose.whole.low
    assert sure.delta == 1e-5


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"n_trials": 99}, "n_trials=99 must be an int >= 100"),
        ({"confidence": 1.0}, "confidence=1.0 must be a number > 0 and < 1"),
        ({"delta": 0.0}, "delta=0.0 must be a number strictly between 0 and 1"),
        ({"random_state": "0"}, "random_state='0' must be None"),
        ({"plan": 3}, "plan=3 must be at least one Event"),
        ({"plan": [FULL, SAMPLED["replace_special"]]}, "do not compose"),
    ],
    ids=range(6),
)
def test_refusals(given, match):
    with pytest.raises(ValueError, match=match):
        audit_mechanism(**({"plan": FULL} | given))


# -- results ---------------------------------------------------------------------------
class Result(AuditResult):
    """A result of no audit."""

    audit = "test"


def test_a_claim_is_refuted_by_a_larger_lower_bound():
    facts = {"subject": "Model", "neighboring_relation": "replace_one"}
    facts |= {"claimed_epsilon": 1.0, "delta": 1e-5, "confidence": 0.95}
    for bound in (0.0, 1.0, 1.1, math.inf, math.nan):
        found = Result(**facts, n_trials=500, lower_bound=bound)
        assert found.passed == (bound <= 1)
        assert ("REFUTED" in str(found)) != found.passed
    assert "(s) did not refute epsilon = 1 at delta = 1e-05; lower bound 0.4" in str(
        Result(**facts, n_trials=500, lower_bound=0.4)
    )


# -- the curve of a claim --------------------------------------------------------------
@pytest.mark.parametrize(
    "events",
    [(FULL,), pytest.param((SAMPLED["replace_one"],), marks=pytest.mark.nightly)],
)
def test_a_claim_is_refuted_when_its_own_curve_is(events):
    """A little fewer errors than the curve allows, and a little more."""
    curve, right = compose(events), 0.8
    allowed = max(
        max(
            (right - curve.delta(e)) / math.exp(e), 1 - curve.delta(e) - math.exp(e) / 5
        )
        for e in np.linspace(0, 6, 601).tolist()
    )
    assert bounds.refutes(1 - right, 0.97 * allowed, events)
    assert not bounds.refutes(1 - right, 1.001 * allowed, events)


# -- sabotage --------------------------------------------------------------------------
def halve_the_noise(monkeypatch):
    honest = mechanism._noisy_sum

    def half(*query, noise_std, **more):
        return honest(*query, noise_std=noise_std / 2, **more)

    monkeypatch.setattr(mechanism, "_noisy_sum", half)


def repeat_the_noise(monkeypatch):
    """Every release of a mechanism draws what the first one drew."""
    honest = Mechanism._released_now

    def again(self, asked, *given):
        names = asked.stream, asked.event.label, asked.query.shape
        fresh = asked._replace(generator=self.private(*names))
        return honest(self, fresh, *given)

    monkeypatch.setattr(Mechanism, "_released_now", again)


def forget_the_count(monkeypatch):
    """The accounting takes a schedule for its first step."""
    first = property(lambda self: self.sensitivity / self.noise_std[0])
    monkeypatch.setattr(Event, "mu", first)


def draw_twice_as_many(monkeypatch):
    honest = mechanism.PoissonBatches
    monkeypatch.setattr(
        mechanism, "PoissonBatches", lambda coins, n, rate: honest(coins, n, 2 * rate)
    )


@pytest.fixture
def no_memory():
    """Forget what events cost, before and after."""
    composition.cost.cache_clear()
    yield
    composition.cost.cache_clear()


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize(
    "sabotage", [halve_the_noise, repeat_the_noise, forget_the_count]
)
def test_sabotage_of_full_batches_is_noticed(sabotage, monkeypatch):
    sabotage(monkeypatch)
    n_trials = 1200 if sabotage is forget_the_count else 500
    result = audit_mechanism([FULL, SCHEDULE], n_trials=n_trials, random_state=0)
    assert not result.passed
    assert not result.whole.passed
    assert result.lower_bound > result.claimed_epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    "sabotage", [halve_the_noise, repeat_the_noise, draw_twice_as_many]
)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_sabotage_of_sampled_batches_is_noticed(sabotage, relation, monkeypatch):
    sabotage(monkeypatch)
    result = audit_mechanism(SAMPLED[relation], n_trials=1000, random_state=0)
    assert not result.passed


def test_a_release_that_shows_too_much_is_refuted_alone(monkeypatch):
    """Where the whole has room for it, too."""
    honest = Mechanism._released_now

    def halved(mechanism, asked, *given):
        stds = asked.stds / (2 if asked.event.label == "mean" else 1)
        return honest(mechanism, asked._replace(stds=stds), *given)

    monkeypatch.setattr(Mechanism, "_released_now", halved)
    small = dataclasses.replace(FULL, noise_std=(5.0,))
    large = dataclasses.replace(SCHEDULE, noise_std=(2.0,))
    result = audit_mechanism([small, large], n_trials=600, random_state=0)
    assert not result.passed
    assert [one.passed for one in result.releases] == [False, True]
    assert result.lower_bound <= result.claimed_epsilon


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_error_rates_pass_their_bounds_no_more_often_than_claimed(confidence):
    """Exactly, for every count of 25 trials: statistics above and below 0."""
    n, counts = 25, np.arange(26)
    found = []
    for count in counts:
        false_positives = np.where(np.arange(n) < count, 1.0, -1.0)
        positive, negative = largest_rates(
            false_positives, -false_positives, 0.0, confidence
        )
        assert positive == negative
        found.append(positive)
    assert found == sorted(found)
    for rate in np.linspace(0.001, 0.999, 333):
        passed = stats.binom.pmf(counts, n, rate)[np.array(found) < rate].sum()
        assert passed <= (1 - confidence) / 2 + 1e-12
