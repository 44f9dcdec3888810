"""Privacy curves against closed forms, other libraries and brute force."""

import dataclasses
import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from skfdp.privacy import Event, compose, gdp_delta, gdp_epsilon, gdp_mu, pld

DELTA = 1e-5
SQRT2 = math.sqrt(2)


def event(noise=2.0, reach=2.0, relation="replace_one", **changes):
    values = {"n_steps": 3, "sampling_rate": 0.1, "clip_norm": 1.0}
    return Event(
        label="steps",
        noise_std=(noise,) if np.isscalar(noise) else tuple(noise),
        sensitivity=reach,
        neighboring_relation=relation,
        **(values | changes),
    )


# One of every kind that estimators emit.
KINDS = {
    "full batch": event(5.0, sampling_rate=1.0),
    "one release": event(5.0, sampling_rate=1.0, n_steps=1),
    "schedule": event((4.0, 5.0, 6.0), sampling_rate=1.0),
    "other units": event(50.0, 14.0, sampling_rate=1.0, clip_norm=10.0),
    "poisson, replace_one": event(),
    "poisson, Delta = sqrt(2) C": event(reach=SQRT2),
    "poisson, Delta = C": event(reach=1.0),
    "poisson, Delta < C": event(reach=0.3),
    "poisson, replace_special": event(1.5, 1.0, "replace_special"),
    "poisson, add_or_remove_one": event(1.5, 1.0, "add_or_remove_one"),
    "poisson, other units": event(20.0, 14.0, clip_norm=10.0),
    "poisson, changing noise": event((1.5, 2.0, 1.5)),
}


class TestGaussian:
    @pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
    def test_delta_against_quadrature(self, mu, epsilon):
        mpmath.mp.dps = 30

        def excess(x):
            return mpmath.npdf(x, mu) - mpmath.exp(epsilon) * mpmath.npdf(x)

        threshold = mu / 2 + epsilon / mu
        expected = mpmath.quad(excess, [threshold, threshold + 5, threshold + 40])
        assert gdp_delta(epsilon, mu) == pytest.approx(float(expected), rel=1e-9)

    @given(mu=st.floats(1e-3, 30), delta=st.floats(1e-12, 0.5))
    def test_epsilon_inverts_delta_on_the_safe_side(self, mu, delta):
        epsilon = gdp_epsilon(delta, mu)
        assert gdp_delta(epsilon, mu) <= delta
        if epsilon > 1e-6:
            assert gdp_delta(epsilon * (1 - 1e-6), mu) > delta

    @given(epsilon=st.floats(1e-3, 50), delta=st.floats(1e-12, 0.5))
    def test_mu_inverts_epsilon_on_the_safe_side(self, epsilon, delta):
        mu = gdp_mu(epsilon, delta)
        assert gdp_epsilon(delta, mu) <= epsilon * (1 + 1e-9)
        assert gdp_delta(epsilon, mu * (1 + 1e-6)) > delta

    def test_edges(self):
        assert gdp_delta(0.5, 0.0) == gdp_epsilon(DELTA, 0.0) == 0.0
        assert gdp_delta(0.0, 1e-9) == pytest.approx(1e-9 / math.sqrt(2 * math.pi))
        assert math.isfinite(gdp_epsilon(DELTA, 1000.0))  # exp(epsilon) overflows
        assert 1 / gdp_mu(1.0, DELTA) == pytest.approx(3.7306, rel=1e-4)

    def test_nothing_released(self):
        curve = compose([])
        assert (curve.mu, curve.epsilon(DELTA), curve.delta(0.0)) == (0.0, 0.0, 0.0)

    @pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
    def test_loss_distribution_of_a_full_batch(self, mu):
        release = event(2 / mu, sampling_rate=1.0, n_steps=1)
        exact = compose([release])
        discrete = compose([release], accountant="pld")
        assert exact.mu == pytest.approx(mu)
        assert discrete.mu is None
        for delta in (1e-3, DELTA, 1e-8):
            assert discrete.epsilon(delta) >= exact.epsilon(delta)
            assert discrete.epsilon(delta) == pytest.approx(
                exact.epsilon(delta), rel=1e-3
            )


class TestComposition:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("accountant", ["auto", "pld"])
    def test_law(self, kind, accountant):
        one, k = KINDS[kind], 4
        repeated = compose([one] * k, accountant=accountant)
        folded = dataclasses.replace(
            one,
            n_steps=k * one.n_steps,
            noise_std=one.noise_std * (k if len(one.noise_std) > 1 else 1),
        )
        together = compose([folded], accountant=accountant)
        assert repeated.epsilon(DELTA) == pytest.approx(
            together.epsilon(DELTA), rel=1e-6
        )
        assert repeated.delta(0.5) == pytest.approx(together.delta(0.5), rel=1e-6)
        # A dropped count would make k of them cost what one costs.
        alone = compose([one], accountant=accountant).epsilon(DELTA)
        assert repeated.epsilon(DELTA) > 1.5 * alone

    @pytest.mark.parametrize("kind", KINDS)
    def test_order_does_not_matter(self, kind):
        events = [
            KINDS[kind],
            dataclasses.replace(KINDS[kind], n_steps=1, noise_std=(7,)),
        ]
        there, back = compose(events), compose(events[::-1])
        assert there.epsilon(DELTA) == pytest.approx(back.epsilon(DELTA), rel=1e-9)

    @pytest.mark.parametrize("kind", KINDS)
    def test_units_do_not_matter(self, kind):
        one = KINDS[kind]
        scaled = dataclasses.replace(
            one,
            noise_std=tuple(8 * std for std in one.noise_std),
            clip_norm=8 * one.clip_norm,
            sensitivity=8 * one.sensitivity,
        )
        assert compose([scaled]).epsilon(DELTA) == pytest.approx(
            compose([one]).epsilon(DELTA), rel=1e-9
        )

    def test_full_batch_and_sampled_parts_add_up(self):
        sampled, full = event(), event(5.0, sampling_rate=1.0, n_steps=1)
        # Sampling at a rate near 1 is no sampling: all parts are Gaussian then.
        nearly = dataclasses.replace(full, sampling_rate=1 - 1e-9)
        assert compose([sampled, full]).epsilon(DELTA) == pytest.approx(
            compose([sampled, nearly]).epsilon(DELTA), rel=2e-3
        )

    @pytest.mark.parametrize(
        "other",
        [
            event(1.5, 1.0, "replace_special"),
            event(public_features=("a",)),
            event(public_target=True),
        ],
    )
    def test_different_promises_do_not_compose(self, other):
        with pytest.raises(ValueError, match="units or public sets do not compose"):
            compose([event(), other])

    def test_unknown_accountant(self):
        with pytest.raises(
            ValueError, match="accountant='rdp' is unknown; choose one of 'auto'"
        ):
            compose([event()], accountant="rdp")


class TestResolution:
    """What transforms and grids cannot tell counts against the claim."""

    MANY = event(8.0, sampling_rate=0.001, n_steps=100_000)  # errs by 2e-11

    def test_a_delta_below_the_rounding_is_refused(self):
        curve = compose([self.MANY])
        with pytest.raises(ValueError, match="delta=2e-11 is below the numerical res"):
            curve.epsilon(2e-11)
        assert 0 < curve.epsilon(5e-11) < math.inf

    def test_the_rounding_comes_off_delta(self):
        curve, delta = compose([self.MANY]), 5e-11
        # Without it the epsilon of delta would be one at which delta is not enough.
        assert curve.delta(curve.epsilon(delta)) <= delta * (1 + 1e-6)
        assert curve.delta(20.0) > 1e-11

    def test_epsilon_of_many_cheap_steps_is_tight(self):
        """The central limit theorem gives nearly the exact epsilon here."""
        steps = event(2_000.0, 1.0, "replace_special", sampling_rate=0.05)
        steps = dataclasses.replace(steps, n_steps=10_000)
        limit = gdp_epsilon(DELTA, 0.05 * 100 / 2_000)
        found = compose([steps], accountant="pld").epsilon(DELTA)
        assert limit * 0.999 < found < limit * 1.05

    def test_the_dots_are_those_of_the_curve(self):
        # The distribution through points of a curve has that curve, in both
        # directions, and all that is left of it at the last point is infinite loss.
        gap, epsilons = 0.25, 0.25 * np.arange(-8, 9)
        deltas = np.array([gdp_delta(e, 1.0) if e >= 0 else np.nan for e in epsilons])
        alpha = np.exp(epsilons[:8])
        deltas[:8] = 1 - alpha + alpha * deltas[:8:-1]
        pmf = pld._pmf(gap, -8, deltas)
        found = privacy_loss_distribution.PrivacyLossDistribution(pmf)
        for epsilon, delta in zip(epsilons, deltas, strict=True):
            assert found.get_delta_for_epsilon(epsilon) == pytest.approx(delta)
        assert deltas[-1] > 0.01
        assert found.get_delta_for_epsilon(50.0) == pytest.approx(deltas[-1])


# Divergences of mixtures with collinear centres, by quadrature in high precision.


def _mixture(x, centre, noise, q):
    return (1 - q) * mpmath.npdf(x, 0, noise) + q * mpmath.npdf(x, centre, noise)


def exact_hockey_stick(epsilon, noise, centre, other, q):
    """H of (1-q)N(0)+qN(centre) against (1-q)N(0)+qN(other), centre > other."""
    mpmath.mp.dps = 30

    def excess(x):
        first = _mixture(x, centre, noise, q)
        return first - mpmath.exp(epsilon) * _mixture(x, other, noise, q)

    low, high = mpmath.mpf(centre + other) / 2, mpmath.mpf(centre + 40 * noise)
    for _ in range(100):  # the excess changes sign once
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    cuts = [high + k * noise for k in (0, 1, 2, 4, 8, 16, 40)]
    return float(mpmath.quad(excess, cuts))


class TestClipDeltaCurve:
    @pytest.mark.parametrize("reach", [1e-2, 1e-4, 1e-6])
    def test_a_vanishing_change_vanishes(self, reach):
        found = pld.hockey_stick(np.array([0.0]), 1.0, reach, 0.1)[0]
        # Total variation of a shift, q times that of the full batch.
        assert found == pytest.approx(0.1 * reach / math.sqrt(2 * math.pi), rel=1e-3)

    """Poisson sampling under replace_one; units of the clip norm."""

    @pytest.mark.parametrize(
        ("epsilon", "noise", "reach", "q"),
        [
            *((0.0, 1.0, 2.0, 0.1), (0.1, 5.0, SQRT2, 0.07), (1.0, 0.5, 0.5, 0.01)),
            *((3.0, 0.4, 1.0, 0.3), (0.02, 30.0, 2.0, 1e-3), (0.5, 1.0, 1e-3, 0.2)),
            *((2.0, 0.7, 2.0, 0.999), (0.0, 0.3, 0.05, 1e-5)),
        ],
    )
    def test_formula(self, epsilon, noise, reach, q):
        found = pld.hockey_stick(np.array([epsilon]), noise, reach, q)[0]
        expected = exact_hockey_stick(epsilon, noise, 1.0, 1.0 - reach, q)
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-15)

    @pytest.mark.parametrize(
        "noise", [3.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1.0, 10.0))]
    )
    @pytest.mark.parametrize("q", [0.01, 0.3])
    def test_generic_clipping_is_the_replace_pair(self, noise, q):
        theirs = privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=noise,
            sampling_prob=q,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        ).self_compose(50)
        ours = compose([event(noise, 2.0, n_steps=50, sampling_rate=q)])
        assert ours.epsilon(DELTA) == pytest.approx(
            theirs.get_epsilon_for_delta(DELTA), rel=2e-3
        )

    @pytest.mark.parametrize("noise", [0.6, 2.0])
    @pytest.mark.parametrize("q", [0.01, 0.3])
    def test_one_clip_norm_is_the_remove_pair(self, noise, q):
        theirs = privacy_loss_mechanism.GaussianPrivacyLoss(
            noise,
            sampling_prob=q,
            adjacency_type=privacy_loss_mechanism.AdjacencyType.REMOVE,
        )
        epsilons = np.array([0.0, 0.01, 0.1, 0.5, 2.0])
        expected = [theirs.get_delta_for_epsilon(eps) for eps in epsilons]
        found = pld.hockey_stick(epsilons, noise, 1.0, q)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-15)

    def test_full_batch_is_gaussian(self):
        epsilons = np.array([0.0, 0.3, 2.0])
        found = pld.hockey_stick(epsilons, 2.0, SQRT2, 1.0)
        expected = [gdp_delta(eps, SQRT2 / 2) for eps in epsilons]
        np.testing.assert_allclose(found, expected, rtol=1e-10)

    def test_the_papers_theorem_fails(self):
        # Feature-DP, Theorem 2.1, at C = 2, L_f = 1, noise 1: Delta is not enough.
        q, epsilon = 0.01, 1.0
        claimed = pld.hockey_stick(np.array([epsilon]), 1.0, 1.0, q)[0]
        assert claimed == pytest.approx(2.7e-9, rel=0.02)
        # Private gradients of norm 2 at a distance of 1 do worse, collinear ones most.
        angle = 2 * math.asin(1 / 4)
        v, w = np.array([[1.0, 0.0]]), np.array([[math.cos(angle), math.sin(angle)]])
        realised = triangle_divergence(epsilon, v, w, 0.5, q)[0]
        assert realised == pytest.approx(4.1e-5, rel=0.02)
        collinear = exact_hockey_stick(epsilon, 1.0, 2.0, 1.0, q)
        curve = pld.hockey_stick(np.array([epsilon]), 0.5, 0.5, q)[0]
        assert claimed < realised < collinear == pytest.approx(curve, rel=1e-8)
        assert collinear == pytest.approx(1.69e-4, rel=0.02)  # as the docs say

    @given(
        noise=st.floats(0.2, 20),
        reaches=st.tuples(st.floats(0.01, 2), st.floats(0.01, 2)),
        rates=st.tuples(st.floats(1e-3, 1), st.floats(1e-3, 1)),
        factor=st.floats(1, 3),
    )
    @settings(max_examples=60, deadline=None)
    def test_monotone(self, noise, reaches, rates, factor):
        (near, far), (rare, often) = sorted(reaches), sorted(rates)
        epsilons = np.linspace(0, 3, 25)
        base = pld.hockey_stick(epsilons, noise, far, often)
        slack = 1e-13
        for other in (
            pld.hockey_stick(epsilons, noise, near, often),
            pld.hockey_stick(epsilons, noise, far, rare),
            pld.hockey_stick(epsilons, factor * noise, far, often),
        ):
            assert np.all(other <= base * (1 + 1e-9) + slack)
        assert np.all(np.diff(base) <= slack)

    @pytest.mark.parametrize("noise", [0.5, 3.0, 200.0])
    @pytest.mark.parametrize("reach", [0.1, 1.0, SQRT2, 2.0])
    @pytest.mark.parametrize("q", [1e-3, 0.2])
    def test_discretisation_is_pessimistic(self, noise, reach, q):
        curve = compose([event(noise, reach, n_steps=1, sampling_rate=q)])
        epsilons = np.array([0.0, 1.7e-5, 0.00013, 0.01234, 0.3, 1.5])
        exact = pld.hockey_stick(epsilons, noise, reach, q)
        found = np.array([curve.delta(eps) for eps in epsilons])
        assert np.all(found >= exact * (1 - 1e-9) - 1e-14)


@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("q", [0.01, 0.3, 0.9])
def test_below_the_least_loss_all_of_delta_is_left(noise, q):
    # A record that is removed never makes an outcome less likely than 1 - q times.
    epsilons = math.log1p(-q) - np.array([1e-9, 1e-3, 0.1, 1.0])
    found = pld.removal(epsilons, noise, q)
    np.testing.assert_allclose(found, -np.expm1(epsilons), rtol=1e-12)


# Brute force: two contributions v and v' in the plane, by quadrature in one dimension.


def _signed_part(a, b, h, noise):
    """Integrate [a N(y; h) + b N(y; 0)]_+ over y, exactly; h > 0, elementwise."""
    total = np.maximum(a + b, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_ratio = np.log(np.abs(b)) - np.log(np.abs(a))
        cut = h / 2 + noise * noise * log_ratio / h
        beyond_h, beyond_0 = ndtr((h - cut) / noise), ndtr(-cut / noise)
        right = a * beyond_h + b * beyond_0
        left = a * (1 - beyond_h) + b * (1 - beyond_0)
    part = np.where((a > 0) & (b < 0), right, total)
    part = np.where((a < 0) & (b > 0), left, part)
    return np.where(np.isfinite(part), np.maximum(part, 0.0), total)


def triangle_divergence(epsilon, v, w, noise, q, points=4001):
    """H_{exp(epsilon)} of (1-q)N(0)+qN(v) against (1-q)N(0)+qN(w); rows are cases.

    In coordinates with v - w along the first axis, both centres have the same height
    h, so that for fixed x the integrand is a difference of two Gaussians in y, whose
    positive part has a closed form. The trapezoidal rule in x remains; the integrand
    has bounded derivatives of the order of its density, so that the error is of the
    order of (spacing / noise)**2 times q; `test_quadrature` measures it.
    """
    difference = v - w
    length = np.linalg.norm(difference, axis=1)
    axis = difference / length[:, None]
    first = np.sum(v * axis, axis=1)[:, None]
    height = np.abs(v[:, 0] * axis[:, 1] - v[:, 1] * axis[:, 0])[:, None]
    height = np.maximum(height, 1e-12)
    x = np.linspace(-1, 1, points) * (1 + 9 * noise)
    alpha = np.exp(epsilon)

    def density(shift):
        z = (x - shift) / noise
        return np.exp(-z * z / 2) / (noise * math.sqrt(2 * math.pi))

    a = q * (density(first) - alpha * density(first - length[:, None]))
    b = (1 - q) * (1 - alpha) * density(0.0)
    return np.trapezoid(_signed_part(a, b, height, noise), x, axis=1)


def random_triangles(rng, n, reach):
    """Return v, v' with norms <= 1 at a distance <= reach, many of them extreme."""
    v, w = np.empty((n, 2)), np.empty((n, 2))
    filled = 0
    while filled < n:
        angle = rng.uniform(0, 2 * math.pi, 2)
        norm = rng.choice([1.0, rng.random()], p=[0.7, 0.3])
        distance = reach * rng.choice([1.0, rng.random()], p=[0.7, 0.3])
        v[filled] = norm * np.array([math.cos(angle[0]), math.sin(angle[0])])
        w[filled] = v[filled] + distance * np.array(
            [math.cos(angle[1]), math.sin(angle[1])]
        )
        filled += np.linalg.norm(w[filled]) <= 1
    return v, w


def dominating(epsilon, noise, reach, q):
    """The symmetrised curve, at both signs of epsilon."""
    positive = pld.hockey_stick(np.array([abs(epsilon)]), noise, reach, q)[0]
    if epsilon >= 0:
        return positive
    return -math.expm1(epsilon) + math.exp(epsilon) * positive


EPSILONS = (-1.0, -0.2, -0.01, 0.0, 0.01, 0.05, 0.2, 1.0, 2.5)
SETTINGS = [
    (noise, reach, q)
    for noise in (0.4, 1.0, 4.0)
    for reach in (0.2, 0.7, 1.0, SQRT2, 1.8, 2.0)
    for q in (0.01, 0.3)
]


class TestTriangles:
    def test_quadrature(self):
        # Collinear pairs have a formula; refining the grid must not matter either.
        for noise, reach, q in SETTINGS:
            v, w = np.array([[1.0, 0.0]]), np.array([[1.0 - reach, 0.0]])
            for epsilon in EPSILONS:
                pair = (v, w) if epsilon >= 0 else (w, v)  # whichever dominates
                found = triangle_divergence(epsilon, *pair, noise, q)[0]
                expected = dominating(epsilon, noise, reach, q)
                assert found == pytest.approx(expected, rel=1e-4, abs=1e-9)

    @pytest.mark.slow
    @pytest.mark.parametrize(("noise", "reach", "q"), SETTINGS)
    def test_none_is_above_the_curve(self, noise, reach, q):
        rng = np.random.default_rng([int(10 * noise), int(10 * reach), int(100 * q)])
        v, w = random_triangles(rng, 60, reach)  # 36 settings: 2,160 triangles
        for epsilon in EPSILONS:
            bound = dominating(epsilon, noise, reach, q)
            found = triangle_divergence(epsilon, v, w, noise, q)
            assert np.all(found <= bound * (1 + 1e-4) + 1e-9)

    def test_smaller_curves_are_exceeded(self):
        # The check can fail: Delta alone, and a Delta that is 2 % too small, do.
        noise, reach, q = 1.0, 0.7, 0.3
        v, w = np.array([[1.0, 0.0]]), np.array([[1.0 - reach, 0.0]])
        found = triangle_divergence(1.0, v, w, noise, q)[0]
        assert found > 1.5 * dominating(1.0, noise / reach, 1.0, q)
        assert found > 1.01 * dominating(1.0, noise, 0.98 * reach, q)


class TestSwappedRoles:
    """Which neighbour plays A may change from step to step."""

    def product_delta(self, epsilon, roles, noise, reach, q, points=1501):
        x = np.linspace(-7 * noise - 1, 7 * noise + 1, points)
        weight = np.full(points, x[1] - x[0])

        def mixture(centre):
            def bell(shift):
                return np.exp(-(((x - shift) / noise) ** 2) / 2)

            values = (1 - q) * bell(0.0) + q * bell(centre)
            return weight * values / (noise * math.sqrt(2 * math.pi))

        pair = mixture(1.0), mixture(1.0 - reach)
        first, second = (pair[::role] for role in roles)
        top = np.outer(first[0], second[0])
        bottom = np.outer(first[1], second[1])
        return np.maximum(top - math.exp(epsilon) * bottom, 0).sum()

    @pytest.mark.parametrize("reach", [0.3, 1.0, SQRT2, 2.0])
    def test_every_order_is_below_the_curve(self, reach):
        noise, q = 0.8, 0.2
        curve = compose([event(noise, reach, n_steps=2, sampling_rate=q)])
        for epsilon in (0.05, 0.3, 1.0):
            bound = curve.delta(epsilon)
            found = [
                self.product_delta(epsilon, roles, noise, reach, q)
                for roles in itertools.product((1, -1), repeat=2)
            ]
            assert max(found) <= bound * (1 + 1e-4) + 1e-9
            assert max(found) > 0.85 * bound  # what symmetry costs, and no more
