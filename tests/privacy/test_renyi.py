"""Rényi divergences against closed forms and independent quadrature."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from skfdp.privacy import Event, pld, renyi

ORDERS = np.array([1.5, 2.0, 3.0, 8.0, 32.0])


def event(noise, sensitivity=1.0, q=1.0, relation="replace_one", n_steps=1):
    return Event(
        label="x",
        noise_std=(noise,),
        clip_norm=1.0,
        sensitivity=sensitivity,
        n_steps=n_steps,
        sampling_rate=q,
        neighboring_relation=relation,
    )


def sampled_closed_form(order, q, noise):
    """Return the divergence of (1-q) N(0) + q N(1) from N(0), integer orders."""
    k = np.arange(order + 1)
    terms = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    terms += (order - k) * math.log1p(-q) + k * math.log(q)
    return logsumexp(terms + k * (k - 1) / (2 * noise**2)) / (order - 1)


def pair(noise, sensitivity, q):
    """Return the densities of A and B as functions."""

    def mixture(centre):
        def density(x):
            shifted = norm.pdf(x, centre, noise)
            return (1 - q) * norm.pdf(x, 0, noise) + q * shifted

        return density

    return mixture(1.0), mixture(1 - sensitivity)


def one_sided(a, b, order, noise):
    """Return D(a || b) by adaptive quadrature of the density."""

    def integrand(x):
        return math.exp(order * math.log(a(x)) + (1 - order) * math.log(b(x)))

    reach = 12 * noise + 2
    value = quad(integrand, -reach, reach, limit=500, epsabs=0, epsrel=1e-10)[0]
    return math.log(value) / (order - 1)


def test_full_batches_are_closed_form():
    events = [event(2.0, 2.0, n_steps=3), event(5.0, 1.0)]
    mu_squared = 3 * 1.0 + 1 / 25
    found = renyi.divergences(events, ORDERS)
    np.testing.assert_allclose(found, ORDERS * mu_squared / 2, rtol=1e-12)


@pytest.mark.parametrize(("q", "noise"), [(0.1, 2.0), (0.01, 1.0), (0.5, 5.0)])
@pytest.mark.parametrize("order", [2, 3, 8, 64])
def test_add_remove_and_null_against_the_binomial_sum(q, noise, order):
    # Known: for this pair the direction (mixture, plain) is the larger one.
    found = renyi.sampled(noise, 1.0, q, "replace_special", float(order))
    due = sampled_closed_form(order, q, noise)
    assert due <= found <= due * (1 + 1e-6) + 1e-9


SETTINGS = [(3.0, 2.0, 0.2, 3.5), (2.0, 1.4, 0.1, 2.0), (4.0, 1.0, 0.3, 5.0)]


@pytest.mark.parametrize(("noise", "sensitivity", "q", "order"), SETTINGS)
def test_symmetrised_against_the_integral_of_its_curve(noise, sensitivity, q, order):
    """1 + a (a-1) int (e^((a-1) eps) + e^(-a eps)) delta(eps): another road there."""
    epsilons = np.linspace(0, 12, 400_001)
    deltas = pld.hockey_stick(epsilons, noise, sensitivity, q)
    deltas = np.where(deltas > 1e-13, deltas, 0.0)  # the rest is rounding
    weight = np.exp((order - 1) * epsilons) + np.exp(-order * epsilons)
    moment = 1 + order * (order - 1) * np.trapezoid(weight * deltas, epsilons)
    due = math.log(moment) / (order - 1)
    found = renyi.sampled(noise, sensitivity, q, "replace_one", order)
    assert found == pytest.approx(due, rel=1e-5)


@pytest.mark.parametrize(("noise", "sensitivity", "q", "order"), SETTINGS)
def test_symmetrised_is_above_both_directions(noise, sensitivity, q, order):
    a, b = pair(noise, sensitivity, q)
    sides = one_sided(a, b, order, noise), one_sided(b, a, order, noise)
    found = renyi.sampled(noise, sensitivity, q, "replace_one", order)
    assert found >= max(sides) * (1 - 1e-9)
    if sensitivity == 2:  # (A, B) is its own mirror image then
        assert found == pytest.approx(max(sides), rel=1e-5)
    else:
        assert found > 1.01 * max(sides)


def test_no_sampling_is_the_limit():
    found = renyi.sampled(3.0, 2.0, 1 - 1e-12, "replace_one", 8.0)
    assert found == pytest.approx(8 * (2 / 3) ** 2 / 2, rel=1e-6)


def test_composition_adds_up():
    once = renyi.divergences([event(4.0, 2.0, 0.1)], ORDERS)
    thrice = renyi.divergences([event(4.0, 2.0, 0.1, n_steps=3)], ORDERS)
    twice = renyi.divergences([event(4.0, 2.0, 0.1)] * 2, ORDERS)
    np.testing.assert_allclose(thrice, 3 * once)
    np.testing.assert_allclose(twice, 2 * once)


def test_units_do_not_matter():
    one = renyi.divergences([event(4.0, 1.5, 0.1)], ORDERS)
    scaled = Event(
        label="x", noise_std=(8.0,), clip_norm=2.0, sensitivity=3.0, sampling_rate=0.1
    )
    np.testing.assert_allclose(renyi.divergences([scaled], ORDERS), one)


def test_divergences_of_steps_are_above_their_composed_curve():
    steps = event(6.0, 2.0, 0.05, n_steps=50)
    bounds = renyi.divergences([steps], renyi.ORDERS)
    from skfdp.privacy import compose

    curve = compose([steps])
    for delta in (1e-3, 1e-5, 1e-7):
        assert renyi.epsilon(renyi.ORDERS, bounds, delta) >= curve.epsilon(delta)


def test_hopeless_orders_are_infinite():
    assert renyi.sampled(1e-3, 1.0, 0.5, "replace_one", 512.0) == math.inf


def test_conversions_are_inverse_to_each_other():
    bounds = renyi.ORDERS * 0.3**2 / 2
    for delta in (1e-3, 1e-6):
        epsilon = renyi.epsilon(renyi.ORDERS, bounds, delta)
        assert renyi.delta(renyi.ORDERS, bounds, epsilon) == pytest.approx(delta)


def test_conversion_holds_for_the_gaussian():
    from skfdp.privacy import gdp_delta

    for mu in (0.1, 0.5, 2.0):
        bounds = renyi.ORDERS * mu**2 / 2
        for epsilon in (0.1, 0.5, 1.0, 4.0):
            claimed = renyi.delta(renyi.ORDERS, bounds, epsilon)
            assert claimed >= gdp_delta(epsilon, mu)
