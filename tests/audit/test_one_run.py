"""The one-run audit: its bounds are right, honest fits pass, sabotaged ones do not.

``benchmarks/audits/one_run.py`` prints its table.
"""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

import skfdp
from skfdp.mechanisms import release as mechanism
from skfdp.privacy import AddOrRemoveOne, Event, compose, gdp_epsilon, gdp_mu
from skfdp.privacy.accounting import GaussianCurve
from skfdp.solvers import NoisySGD

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "audits"))

coins = pytest.importorskip("guessed_coins", reason="no checkout")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore::skfdp.UtilityWarning"),
]


def by_linear_program(n_canaries, n, n_correct, epsilon, delta):
    """The largest tail of any law that keeps to the exchange lemma, set by set."""
    tail = np.arange(n + 1) >= n_correct
    excess = np.zeros((n + 1, 2 * n + 1))
    for j in range(n):
        excess[j, [j + 1, j, n + 1 + j]] = j + 1, -math.exp(epsilon) * (n - j), -1
    excess[n, n + 1 :] = 1
    found = linprog(
        -np.concatenate([tail, np.zeros(n)]),
        A_ub=excess,
        b_ub=[*[0] * n, n_canaries * delta],
        A_eq=[np.concatenate([np.ones(n + 1), np.zeros(n)])],
        b_eq=[1],
    )
    return -found.fun


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize("delta", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize("n_correct", [14, 18, 20])
def test_no_law_that_keeps_to_the_lemma_passes_it(epsilon, delta, n_correct):
    given = 40, 20, n_correct, epsilon, delta
    best = by_linear_program(*given)
    assert best <= coins.steinke_p_value(*given) * (1 + 1e-6) + 1e-9
    assert best > 0.5 * coins.steinke_p_value(*given)  # it is what the lemma tells


def random_mechanism(rng, m, n_outputs, spread):
    """Probabilities of outputs for each table of m coins; sometimes it tells all."""
    logits = spread * rng.normal(size=(*(2,) * m, n_outputs))
    found = np.exp(logits)
    found /= found.sum(axis=-1, keepdims=True)
    telling = np.zeros((*(2,) * m, n_outputs + 2**m))
    telling[..., :n_outputs] = 0.97 * found
    for index, coins in enumerate(itertools.product((0, 1), repeat=m)):
        telling[(*coins, n_outputs + index)] = 0.03
    return telling


def neighbours(mechanism, m):
    for i in range(m):
        moved = np.moveaxis(mechanism, i, 0)
        for a, b in ((0, 1), (1, 0)):
            yield (
                moved[a].reshape(-1, mechanism.shape[-1]),
                moved[b].reshape(-1, mechanism.shape[-1]),
            )


def own_delta(mechanism, m, epsilon):
    """The exact delta of a mechanism for one changed coin."""
    return max(
        np.maximum(a - math.exp(epsilon) * b, 0).sum(axis=-1).max()
        for a, b in neighbours(mechanism, m)
    )


class OwnCurve:
    """The exact privacy curve of a mechanism."""

    mu = None

    def __init__(self, mechanism, m):
        self.mechanism, self.m = mechanism, m

    def delta(self, epsilon):
        return own_delta(self.mechanism, self.m, epsilon)


def tails_of_guesses(mechanism, m, n_guesses):
    """P[C >= v] for the best guesses of each output, v = 0 ... n_guesses."""
    law = np.zeros(n_guesses + 1)
    flat = mechanism.reshape(2**m, -1) / 2**m
    coins = np.array(list(itertools.product((0, 1), repeat=m)))
    for weights in flat.T:
        heads = weights @ coins / max(weights.sum(), 1e-300)
        order = np.argsort(-np.abs(heads - 0.5), kind="stable")[:n_guesses]
        right = (coins[:, order] == (heads > 0.5)[order]).sum(axis=1)
        np.add.at(law, right, weights)
    return law[::-1].cumsum()[::-1]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n_guesses", [5, 3])
def test_exact_mechanisms_keep_to_both_bounds(seed, n_guesses):
    m = 5
    rng = np.random.default_rng(seed)
    mechanism = random_mechanism(rng, m, 8, rng.choice([0.1, 0.5, 1.0]))
    tails = tails_of_guesses(mechanism, m, n_guesses)
    assert tails[0] == pytest.approx(1)
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0):
        delta = own_delta(mechanism, m, epsilon)
        for v in range(1, n_guesses + 1):
            assert (
                tails[v]
                <= coins.steinke_p_value(m, n_guesses, v, epsilon, delta) + 1e-12
            )
    least = coins.curve_least(OwnCurve(mechanism, m))
    for v in range(1, n_guesses + 1):
        if tails[v] > 0:
            assert not coins.refutes(m, n_guesses, v, least, tails[v] * (1 - 1e-9))


def claim(**changed):
    given = {
        "label": "sum",
        "noise_std": (2.0,),
        "clip_norm": 1.0,
        "sensitivity": 1.0,
        "neighboring_relation": "replace_special",
    }
    return (Event(**{**given, **changed}),)


def bound(events, n_correct, n_steps=1):
    """Return what so many of 500 guesses refute in the family of a claim."""
    return coins.epsilon_of_family(
        events,
        1e-5,
        lambda least: coins.refutes(500, 500, n_correct, least, 0.01),
        n_steps,
    )


def test_the_curve_of_a_gaussian_says_what_the_closed_form_says():
    for mu in (0.1, 1.0, 3.0):
        least, closed = coins.curve_least(GaussianCurve(mu)), coins.gaussian_least(mu)
        for right in (1e-4, 0.01, 0.3, 0.9, 0.999):
            assert least(right) <= closed(right) + 1e-9
            assert least(right) == pytest.approx(closed(right), rel=0.03, abs=1e-7)


def test_claims_scale_and_double():
    assert coins.least_of(claim())(0.3) == pytest.approx(coins.gaussian_least(0.5)(0.3))
    for more in ({"n_steps": 2}, {"factor": 2.0}):
        assert coins.least_of(claim(), **more)(0.3) == pytest.approx(
            coins.gaussian_least(1.0)(0.3)
        )
    assert bound(claim(), 480) > gdp_epsilon(1e-5, 0.5) > bound(claim(), 250) == 0
    one, two = (gdp_mu(bound(claim(), 480, n), 1e-5) for n in (1, 2))
    assert two == pytest.approx(one / 2, rel=1e-6)


def test_a_sampled_claim_is_refuted_when_its_own_curve_is():
    """A little fewer errors than the curve allows, and a little more."""
    events = claim(sampling_rate=0.3, n_steps=2, noise_std=(1.0,))
    curve = compose(events)
    allowed = coins.curve_least(curve)(0.8)
    for wrong, refuted in ((0.97 * allowed, True), (1.03 * allowed, False)):
        found = coins.epsilon_of_family(
            events, 1e-5, lambda least, wrong=wrong: least(0.8) > wrong
        )
        assert (found > curve.epsilon(1e-5)) == refuted


# -- audits of fits --------------------------------------------------------------------
N, D = 300, 600
RNG = np.random.default_rng(11)
X, Y = RNG.random((N, D)), RNG.integers(0, 2, N)
LABELS = {"public_features": "all"}
SPECIAL = {"neighboring_relation": "replace_special"}
ADDED = {"neighboring_relation": AddOrRemoveOne(N)}
LOGISTIC, SGD = skfdp.FeatureDPLogisticRegression, skfdp.DPSGDFClassifier
REGRESSOR, REAL = skfdp.FeatureDPRegressor, {"target_bounds": (0, 1)}
COLUMNS = {"public_features": list(range(200)), "public_model": None}
#: An estimator, its parameters, and the canaries that it gets: tails, steps.
KINDS = {
    "nothing public": (LOGISTIC, {}, ("other", 1)),
    "nothing public, null": (LOGISTIC, {**SPECIAL, "classes": [0, 1]}, ("null", 1)),
    "columns public": (LOGISTIC, COLUMNS, ("other", 1)),
    "target public": (LOGISTIC, {"public_target": True}, ("other", 1)),
    "label-DP": (LOGISTIC, LABELS, ("other", 1)),
    "label-DP, descent": (LOGISTIC, {"solver": "noisy-gd", **LABELS}, ("other", 1)),
    "dpsgd-f": (SGD, {**SPECIAL, "classes": [0, 1]}, ("null", 1)),
    "dpsgd-f, two steps": (SGD, SPECIAL, ("other", 2)),
    "dpsgd-f, added": (SGD, {**ADDED, "classes": [0, 1]}, ("out", 1)),
    "regressor": (REGRESSOR, REAL, ("other", 1)),
    "dpsgd-f regressor": (skfdp.DPSGDFRegressor, {**SPECIAL, **REAL}, ("null", 1)),
}
every_kind = pytest.mark.parametrize("name", KINDS)


def make(name, **changed):
    kind, given, _ = KINDS[name]
    return kind(**{"epsilon": 4.0, "bounds": (0, 1), **given, **changed})


def audit(name, X=X, y=Y, random_state=0, **given):
    """Audit an estimator of this name, or one that is given."""
    made = make(name) if isinstance(name, str) else name
    return coins.audit_estimator(made, X, y, random_state=random_state, **given)


@pytest.fixture
def no_noise(monkeypatch):
    """Sabotage the mechanism: noise below what was charged. Only iterates show it."""
    pytest.importorskip("sklearn.callback")

    def less(query, theta, *, noise_std, unit, generator, batch):
        total = query.exact_sum(theta, batch, unit)
        std = noise_std / 1e4 / unit
        return mechanism.add_integer_gaussian(total, std, generator) * unit

    monkeypatch.setattr(mechanism, "_noisy_sum", less)


@every_kind
def test_an_honest_estimator_passes_and_shows_something(name):
    result = audit(name, random_state=1)
    if result.lower_bound == 0:  # the noise is that of a private fit: once in a while
        result = audit(name, random_state=2)
    assert result.passed
    assert result.claimed_epsilon == pytest.approx(4.0, rel=1e-4)
    assert result.n_canaries == result.n_trials == N
    guesses, right = np.array(result.counts).T
    assert (right <= guesses).all()
    assert (right / guesses).max() > 0.55
    assert result.lower_bound == max(result.steinke, result.f_dp)
    assert 0 < result.lower_bound < result.reach


@pytest.mark.usefixtures("no_noise")
@every_kind
def test_noise_that_is_left_out_is_refuted(name):
    result = audit(make(name, epsilon=1.0), random_state=1)
    assert not result.passed
    assert result.lower_bound > 1.1


def canaries(model, n=N):
    rng, events = np.random.default_rng(0), model.plan(X, Y).events
    return coins.make_canaries(model, events, X, Y, n, "auto", rng)


@every_kind
def test_what_coins_choose(name, monkeypatch):
    """Canaries alone change, in their private parts; those of tails may be null."""
    made, heads = canaries(make(name), n=100), np.arange(100) % 3 == 0
    assert (made.tails, made.n_steps) == KINDS[name][2]
    rows, labels = made.table(X, Y, heads)
    others = np.delete(np.arange(N), made.rows)
    if made.tails == "out":
        kept = np.sort(np.append(others, made.rows[heads]))
        np.testing.assert_array_equal(rows[np.isin(kept, others)], X[others])
        assert len(rows) == len(kept)
        return
    np.testing.assert_array_equal(rows[others], X[others])
    np.testing.assert_array_equal(labels[others], Y[others])
    for told, one, other in (
        *((rows[made.rows], made.X_a, made.X_tails),),
        *((labels[made.rows], made.y_a, made.y_tails),),
    ):
        np.testing.assert_array_equal(told[heads], one[heads])
        np.testing.assert_array_equal(told[~heads], other[~heads])
    public, given = np.zeros(D, dtype=bool), KINDS[name][1].get("public_features", [])
    public[slice(None) if given == "all" else given] = True
    np.testing.assert_array_equal(rows[:, public], X[:, public])
    assert (rows[made.rows][:, ~public] != X[made.rows][:, ~public]).all()
    if name == "target public":
        np.testing.assert_array_equal(labels, Y)

    def noted(events, streams, is_null=None, units=None):
        void = np.flatnonzero(is_null) if is_null is not None else []
        wanted = made.rows[~heads] if made.tails == "null" else []
        np.testing.assert_array_equal(void, wanted)
        return mechanism.Mechanism(events, streams, is_null, units)

    monkeypatch.setattr("skfdp.base.Mechanism", noted)
    make(name).fit(rows, labels)


def means(model, X_a, y_a, X_b, y_b):
    """Return how far the released mean leans to the first value."""
    return (X_a - X_b) @ (model.mean_ - model.mean_.mean())


@pytest.mark.parametrize(("bounds", "tails"), [((0, 1), "other"), (False, "null")])
def test_transformers(bounds, tails, request):
    """Missing values are null where there are no bounds."""
    model = skfdp.PrivateCenteringTransformer(4.0, bounds=bounds, **SPECIAL)
    for y in (None, Y):  # which a transformer does not learn from
        result = audit(model, y=y, score=means)
        assert (result.tails, result.passed) == (tails, True)
    request.getfixturevalue("no_noise")
    model.set_params(epsilon=3.0, bounds=(0, 1), neighboring_relation="replace_one")
    assert not audit(model, RNG.random((N, 10 * N)), None, score=means).passed


@pytest.mark.parametrize("name", ["columns public", "dpsgd-f, two steps"])
def test_sampled_batches(name, request, monkeypatch):
    monkeypatch.setattr(coins, "SHARES", (0.5,))  # each share takes a minute
    sampled = {"solver": NoisySGD(batch_size=30, max_iter=25)}
    honest = audit(make(name, **sampled))
    assert honest.passed
    assert honest.reach > 3
    request.getfixturevalue("no_noise")
    assert not audit(make(name, epsilon=0.5, **sampled)).passed
