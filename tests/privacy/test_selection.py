"""The account of a search, against exact enumeration of what it publishes.

The enumeration knows nothing of the theorem: it sums over the number of runs k the
probability that the best of k outcomes is a given one.
"""

import dataclasses
import json
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant
from scipy.special import ndtr

from skfdp.privacy import Event, PrivacyLedger, compose, gdp_delta, gdp_mu
from skfdp.privacy import selection as selection_module
from skfdp.privacy.selection import Selection, SelectionCurve, calibrate_run

LAWS = {
    "geometric 10": {"gamma": 1 / 10},
    "geometric 3": {"gamma": 1 / 3},
    "geometric 1.2": {"gamma": 1 / 1.2},
}
EVENT = {"label": "x", "noise_std": (3.0,), "clip_norm": 1.0, "sensitivity": 1.0}
laws = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def selection(mu=0.5, **fields):
    return Selection(**EVENT | {"label": "search", "noise_std": (1 / mu,)} | fields)


def best_of(outcomes, ranks, chances):
    """Return the law of the best outcome; equal ranks: the first that was drawn."""
    found, k = np.zeros_like(outcomes), np.arange(1, len(chances) + 1)
    below = 0.0
    for rank in np.unique(ranks):
        tied = ranks == rank
        mass = outcomes[tied].sum()
        best = (chances * (min(1.0, below + mass) ** k - below**k)).sum()
        found[tied] = best * outcomes[tied] / mass if mass > 0 else 0.0
        below += mass
    return found


def hockey_stick(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum()


def binned_gaussians(mu, n_bins=80):
    """Return N(0, 1) and N(mu, 1) on bins: post-processing of a Gaussian release."""
    edges = np.linspace(-7, 7 + mu, n_bins - 1)
    return (
        np.diff(np.r_[0.0, ndtr(edges), 1.0]),
        np.diff(np.r_[0.0, ndtr(edges - mu), 1.0]),
    )


def rankings(n, rng):
    """Yield orders of outcomes that an adversary may choose, ties among them."""
    yield np.arange(n)
    yield -np.arange(n)
    yield np.zeros(n, dtype=int)
    yield rng.permutation(n)
    for threshold in (n // 4, n // 2, 3 * n // 4, n - 5):
        yield (np.arange(n) >= threshold).astype(int)
        yield -(np.arange(n) >= threshold).astype(int)
        yield np.where(np.arange(n) >= threshold, 1 + np.arange(n), 0)


def worst_ratio(bound, p, q, chances, epsilons, rng):
    """Return the largest true delta over the claimed one."""
    worst = 0.0
    for ranks in rankings(len(p), rng):
        a, b = best_of(p, ranks, chances), best_of(q, ranks, chances)
        assert a.sum() == pytest.approx(1)
        for epsilon in epsilons:
            true = max(hockey_stick(a, b, epsilon), hockey_stick(b, a, epsilon))
            if true > 1e-11:
                worst = max(worst, true / max(bound(epsilon), 1e-300))
    return worst


@laws
@pytest.mark.parametrize("mu", [0.2, 0.5, 1.0, 2.0])
def test_claim_is_above_the_exact_divergence_of_gaussian_runs(law, mu):
    event = selection(mu, **law)
    rng, chances = np.random.default_rng(0), event.run_probabilities()
    epsilons = np.linspace(0, 6 * mu + 0.5, 15)
    claim = SelectionCurve(event).delta
    pair = binned_gaussians(mu)
    assert worst_ratio(claim, *pair, chances, epsilons, rng) <= 1

    # What one run costs says nothing of the best of several, nor does the mean number
    # of runs without the shift 2 epsilon_1.
    def one_run(epsilon):
        return gdp_delta(epsilon, mu)

    def no_shift(epsilon):
        return min(1.0, event.mean_runs * gdp_delta(epsilon, mu))

    assert worst_ratio(one_run, *pair, chances, epsilons, rng) > 1.2
    if event.mean_runs > 9 and mu in (0.5, 1.0):
        assert worst_ratio(no_shift, *pair, chances, epsilons, rng) > 1.2


class DiscreteCurve:
    """The exact curve of a pair of discrete laws, both directions."""

    accountant, mu = "exact", None

    def __init__(self, p, q):
        self.p, self.q = p, q
        both = (p > 0) & (q > 0)
        self.largest = float(np.abs(np.log(p[both] / q[both])).max())

    def delta(self, epsilon):
        p, q = self.p, self.q
        return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def random_pair(rng, n):
    p = rng.dirichlet(np.full(n, 0.7)) + 1e-6
    tilt = np.exp(rng.choice([0.1, 0.5, 1.5]) * rng.normal(size=n))
    q = p * tilt
    return p / p.sum(), q / q.sum()


@pytest.fixture
def exact_runs(monkeypatch):
    """Return a function that makes a curve whose runs are a given discrete pair."""

    def make(event, p, q):
        curve = DiscreteCurve(p, q)
        with monkeypatch.context() as patch:
            patch.setattr(selection_module, "compose", lambda events: curve)
            return SelectionCurve(event)

    return make


@laws
def test_claim_is_above_the_exact_divergence_of_any_runs(law, exact_runs):
    rng = np.random.default_rng(1)
    event = selection(**law)
    chances = event.run_probabilities()
    worst = 0.0
    for n in (2, 3, 5, 9) * 4:
        p, q = random_pair(rng, n)
        claim = exact_runs(event, p, q)
        epsilons = np.linspace(0, 3 * claim._run.largest, 30)
        worst = max(worst, worst_ratio(claim.delta, p, q, chances, epsilons, rng))
    assert 0.3 < worst <= 1


def test_the_mean_number_of_runs_is_needed(exact_runs):
    """A run that fails in the open with a small chance fails in one of many."""
    p, q = np.array([1 - 1e-3, 1e-3]), np.array([1 - 1e-12, 1e-12])
    event = selection(**LAWS["geometric 10"])
    claim = exact_runs(event, p, q)
    chances, rng = event.run_probabilities(), np.random.default_rng(0)
    epsilon = [claim.shift + 0.5]
    assert 0.9 < worst_ratio(claim.delta, p, q, chances, epsilon, rng) <= 1

    def no_mean(epsilon):
        return claim._run.delta(epsilon - claim.shift)

    assert worst_ratio(no_mean, p, q, chances, epsilon, rng) > 5


@laws
def test_run_probabilities_are_the_law(law):
    event = selection(**law)
    chances = event.run_probabilities()
    k = np.arange(1, len(chances) + 1)
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert (chances * k).sum() == pytest.approx(event.mean_runs, rel=1e-9)
    gamma = law["gamma"]
    np.testing.assert_allclose(chances[:50], gamma * (1 - gamma) ** (k[:50] - 1))


def test_one_run_is_the_run_itself():
    event = selection(0.5, gamma=1.0)
    assert event.mu == 0.5 and event.mean_runs == 1
    np.testing.assert_array_equal(event.run_probabilities(), [1.0])
    assert SelectionCurve(event).epsilon(1e-5) == compose([event]).epsilon(1e-5)
    plain = Event(label="x", noise_std=(2.0,), clip_norm=1.0, sensitivity=1.0)
    assert compose([event]).epsilon(1e-5) == compose([plain]).epsilon(1e-5)


@pytest.mark.parametrize("mu", [0.1, 0.4])
def test_costs_less_than_by_the_renyi_theorem(mu):
    """Theorem 2 of Papernot and Steinke, by hand and by dp_accounting.

    By hand: converted by Proposition 12 of Canonne, Kamath and Steinke (2020).
    """
    event = selection(mu, gamma=1 / 10)
    ours = SelectionCurve(event).epsilon(1e-5)
    orders = np.r_[np.arange(1.1, 12.0, 0.1), np.geomspace(12.0, 512.0, 80)]
    base = orders * mu**2 / 2
    extra = (1 - 1 / orders) * base - math.log(event.gamma) / orders
    theirs = base + 2 * extra.min() + math.log(10) / (orders - 1)
    shrunk = np.log1p(-1 / orders) - np.log(1e-5 * orders) / (orders - 1)
    assert ours < (theirs + shrunk).min()

    accountant = rdp_privacy_accountant.RdpAccountant()
    runs = dp_event.GaussianDpEvent(1 / mu)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(runs, 10.0, 1.0))
    assert ours < accountant.get_epsilon(1e-5)


@laws
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
def test_calibration_meets_the_budget(law, epsilon):
    event = calibrate_run(selection(**law), epsilon, 1e-5)
    assert epsilon * (1 - 1e-6) < compose([event]).epsilon(1e-5) <= epsilon
    assert event.run_mu < gdp_mu(epsilon, 1e-5)
    louder = dataclasses.replace(event, noise_std=(event.noise_std[0] * 0.999,))
    assert compose([louder]).epsilon(1e-5) > epsilon
    with pytest.raises(ValueError, match="too small for a search of 1e\\+03 runs"):
        calibrate_run(selection(gamma=1e-3), 1e-9, 1e-12)
    with pytest.raises(ValueError, match="too large for a search of 10 runs: lower"):
        calibrate_run(selection(gamma=0.1), 1e8, 1e-5)


@laws
@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
def test_epsilon_1_is_the_smallest_that_the_theorem_allows(law, mu):
    event = selection(mu, **law)
    odds = event.gamma / (1 - event.gamma)
    found = SelectionCurve(event).shift / 2
    assert gdp_delta(found, mu) <= math.expm1(found) * odds
    less = found * (1 - 1e-6)
    assert gdp_delta(less, mu) > math.expm1(less) * odds


@laws
def test_a_run_of_several_releases_costs_what_they_do(law):
    one, four = selection(0.4, **law), selection(0.2, n_steps=4, **law)
    assert four.run_mu == pytest.approx(one.run_mu) == 0.4
    assert four.run_event("score", 3.0).mu == pytest.approx(0.4)
    ours, theirs = (compose([event]).epsilon(1e-5) for event in (four, one))
    assert ours == pytest.approx(theirs, rel=1e-9)


class TestComposition:
    """In a ledger a search meets other events."""

    plain = Event(label="x", noise_std=(5.0,), clip_norm=1.0, sensitivity=1.0)

    @laws
    def test_by_itself_the_distribution_is_no_better_than_the_curve(self, law):
        event = selection(0.15, **law)
        exact = compose([event])
        distribution = compose([event], accountant="pld")
        for delta in (1e-3, 1e-5, 1e-7):
            due = exact.epsilon(delta)
            # The convex hull of a bound may be a little better than the bound.
            assert due * (1 - 1e-4) <= distribution.epsilon(delta) <= due * 1.001

    @laws
    def test_between_the_larger_part_and_the_sum(self, law):
        event = selection(0.15, **law)
        alone, other = compose([event]), compose([self.plain])
        together = compose([event, self.plain])
        largest = max(alone.epsilon(1e-5), other.epsilon(1e-5))
        assert largest < together.epsilon(1e-5)
        basic = alone.epsilon(5e-6) + other.epsilon(5e-6)
        assert together.epsilon(1e-5) < basic

    def test_equal_searches_are_composed_as_often_as_they_ran(self):
        event = selection(0.1, **LAWS["geometric 10"])
        other = dataclasses.replace(event, label="another name")
        repeated = compose([event] * 3).epsilon(1e-5)
        assert repeated == pytest.approx(compose([event, event, other]).epsilon(1e-5))
        assert compose([event] * 2).epsilon(1e-5) < repeated
        steps = dataclasses.replace(self.plain, sampling_rate=0.1, n_steps=10)
        together = compose([event, steps]).epsilon(1e-5)  # with Poisson batches
        assert compose([event]).epsilon(1e-5) < together

    def test_above_the_exact_composition_of_a_discrete_pair(self):
        """Two searches and a fit, enumerated, worst ranking for each."""
        event = selection(0.5, **LAWS["geometric 10"])
        chances = event.run_probabilities()
        claim = compose([event, event, self.plain])
        p, q = binned_gaussians(0.5, 40)
        third = binned_gaussians(0.2, 40)
        for ranks in (np.arange(40), (np.arange(40) >= 30).astype(int)):
            a, b = best_of(p, ranks, chances), best_of(q, ranks, chances)
            whole = [np.einsum("i,j,k", a, a, third[0]).ravel()]
            whole += [np.einsum("i,j,k", b, b, third[1]).ravel()]
            for epsilon in (0.5, 1.0, 2.0, 4.0):
                for one, two in (whole, whole[::-1]):
                    assert hockey_stick(one, two, epsilon) <= claim.delta(epsilon)

    def test_events_that_no_code_knows_are_refused(self):
        class Stranger(Event):
            pass

        stranger = Stranger(**EVENT, sampling_rate=0.5)
        with pytest.raises(TypeError, match="Stranger does not define its own"):
            compose([stranger])

    def test_ledger_keeps_it(self, tmp_path):
        path = tmp_path / "ledger.sqlite"
        event = selection(0.1, **LAWS["geometric 10"], public_features=("a",))
        ledger = PrivacyLedger(path, epsilon=6.0, delta=1e-5)
        ledger.charge([event], label="search")
        ledger.charge([self.plain])
        again = PrivacyLedger(path)
        assert again.events[0] == event
        due = compose([event, dataclasses.replace(self.plain, public_features=("a",))])
        assert again.spent() == pytest.approx(due.epsilon(1e-5), rel=1e-6)


def test_json_is_lossless_and_refused_by_code_that_does_not_know_it():
    for law in LAWS.values():
        event = selection(0.3, **law, seeded=True)
        text = json.dumps(event.to_dict(), allow_nan=False)
        assert Event.from_dict(json.loads(text)) == event
    values = event.to_dict()
    with pytest.raises(ValueError, match="unknown kind 'other'"):
        Event.from_dict(values | {"kind": "other"})
    with pytest.raises(ValueError, match="unknown fields"):
        Event.from_dict(values | {"more": 1})
    known = {field.name for field in dataclasses.fields(Event)}
    assert {"kind", "gamma"} <= set(values) - known


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"gamma": 0.0}, "gamma=0.0 must be a number in"),
        ({"sampling_rate": 0.5}, "got sampling_rate=0.5, 1 entries"),
        (
            {"noise_decay": 0.5, "n_steps": 9},
            "entries of noise_std and noise_decay=0.5",
        ),
        ({"noise_std": (2.0, 2.0), "n_steps": 2}, "2 entries of noise_std"),
    ],
)
def test_contradictions_are_refused(fields, match):
    with pytest.raises(ValueError, match=match):
        selection(0.3, **fields)


@laws
def test_tiny_searches_compose(law):
    """Even where epsilon is 0 at an ordinary delta."""
    event = selection(1e-4, **law)
    assert 0 <= compose([event, event]).epsilon(1e-5) < 0.2
