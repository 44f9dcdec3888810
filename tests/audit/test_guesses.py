"""Bounds on right guesses: against brute force, simulations and linear programs."""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom

from skfdp.privacy import Event, compose, gdp_epsilon, gdp_mu
from skfdp.privacy.accounting import GaussianCurve, cost

sys.path.append(str(Path(__file__).parent))

from guessed_coins import (
    curve_least,
    epsilon_of_family,
    gaussian_least,
    least_of,
    refutes,
    steinke_bound,
    steinke_p_value,
)

SIZES = ((20, 20), (60, 30), (1000, 1000), (1000, 100))


def published(n_canaries, n_guesses, n_correct, epsilon, delta):
    """The bound as Steinke, Nasr and Jagielski (2023) state it."""
    chance = expit(epsilon)
    beta = binom.sf(n_correct - 1, n_guesses, chance)
    i = np.arange(1, n_correct + 1)
    alpha = max((binom.sf(n_correct - i - 1, n_guesses, chance) - beta) / i)
    return min(1.0, beta + 2 * n_canaries * delta * alpha)


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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_it_is_at_most_the_published_bound(size, epsilon, delta):
    chance = expit(epsilon)
    for n_correct in range(int(chance * size[1]) + 1, size[1] + 1, size[1] // 20):
        found = steinke_p_value(*size, n_correct, epsilon, delta)
        assert found <= published(*size, n_correct, epsilon, delta) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize("delta", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize("n_correct", [14, 18, 20])
def test_no_law_that_keeps_to_the_lemma_passes_it(epsilon, delta, n_correct):
    given = 40, 20, n_correct, epsilon, delta
    best = by_linear_program(*given)
    assert best <= steinke_p_value(*given) * (1 + 1e-6) + 1e-9
    assert best > 0.5 * steinke_p_value(*given)  # it is what the lemma tells


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
            bound = steinke_p_value(m, n_guesses, v, epsilon, delta)
            assert tails[v] <= bound + 1e-12
    least = curve_least(OwnCurve(mechanism, m))
    for v in range(1, n_guesses + 1):
        if tails[v] > 0:
            assert not refutes(m, n_guesses, v, least, tails[v] * (1 - 1e-9))


def guessed(rng, m, n_guesses, noisy):
    """Numbers of right guesses in one run each."""
    heads = rng.random((len(noisy), m)) < 0.5
    seen = np.where(heads, 1.0, -1.0) * noisy[:, None] + rng.normal(
        size=(len(noisy), m)
    )
    order = np.argsort(-np.abs(seen), axis=1)[:, :n_guesses]
    right = (seen > 0) == heads
    return np.take_along_axis(right, order, axis=1).sum(axis=1)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("n_guesses", [200, 50])
def test_coverage_of_a_gaussian_mechanism(mu, n_guesses):
    rng = np.random.default_rng(3)
    m, significance, delta = 200, 0.2, 1e-5
    counts = guessed(rng, m, n_guesses, np.full(400, mu / 2))
    least, epsilon = gaussian_least(mu), gdp_epsilon(delta, mu)
    refuted = [refutes(m, n_guesses, int(c), least, significance) for c in counts]
    given = {"delta": delta, "significance": significance}
    bounds = {c: steinke_bound(m, n_guesses, c, **given) for c in np.unique(counts)}
    assert np.mean(refuted) <= significance
    assert np.mean([bounds[c] > epsilon for c in counts]) <= significance


def test_the_f_dp_bound_is_monotone():
    for n in (200, 50):
        for mu in (0.3, 1.0, 2.0):
            least = gaussian_least(mu)
            found = [refutes(200, n, c, least, 0.05) for c in range(n + 1)]
            assert found == sorted(found)
    leasts = [gaussian_least(mu) for mu in (0.3, 1.0, 2.0)]
    refuted = [sum(refutes(200, 200, c, f, 0.05) for c in range(201)) for f in leasts]
    assert refuted == sorted(refuted, reverse=True)
    assert refuted[0] > refuted[-1]


def test_two_steps_are_at_most_one_step_and_at_least_half_of_it():
    for n_correct in (60, 80, 95, 100):
        given = {"delta": 1e-6, "significance": 0.05}
        one = steinke_bound(100, 100, n_correct, **given)
        two = steinke_bound(100, 100, n_correct, **given, n_steps=2)
        assert two <= one / 2 + 1e-9
        assert two > 0.9 * one / 2


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
    return epsilon_of_family(
        events, 1e-5, lambda least: refutes(500, 500, n_correct, least, 0.01), n_steps
    )


def test_the_curve_of_a_gaussian_says_what_the_closed_form_says():
    for mu in (0.1, 1.0, 3.0):
        least, closed = curve_least(GaussianCurve(mu)), gaussian_least(mu)
        for right in (1e-4, 0.01, 0.3, 0.9, 0.999):
            assert least(right) <= closed(right) + 1e-9
            assert least(right) == pytest.approx(closed(right), rel=0.03, abs=1e-7)


def test_claims_scale_and_double():
    assert least_of(claim())(0.3) == pytest.approx(gaussian_least(0.5)(0.3))
    for more in ({"n_steps": 2}, {"factor": 2.0}):
        assert least_of(claim(), **more)(0.3) == pytest.approx(gaussian_least(1.0)(0.3))
    assert bound(claim(), 480) > gdp_epsilon(1e-5, 0.5) > bound(claim(), 250) == 0
    one, two = (gdp_mu(bound(claim(), 480, n), 1e-5) for n in (1, 2))
    assert two == pytest.approx(one / 2, rel=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("n_steps", [1, 2])
def test_sampled_claims_have_a_curve(n_steps):
    one = claim(sampling_rate=0.1, n_steps=20)
    assert bound(one, 500, n_steps) > cost(one, 1e-5).epsilon
    assert bound(one, 250, n_steps) == 0


def test_a_sampled_claim_is_refuted_when_its_own_curve_is():
    """A little fewer errors than the curve allows, and a little more."""
    events = claim(sampling_rate=0.3, n_steps=2, noise_std=(1.0,))
    curve = compose(events)
    allowed = curve_least(curve)(0.8)
    for wrong, refuted in ((0.97 * allowed, True), (1.03 * allowed, False)):
        found = epsilon_of_family(
            events, 1e-5, lambda least, wrong=wrong: least(0.8) > wrong
        )
        assert (found > curve.epsilon(1e-5)) == refuted
