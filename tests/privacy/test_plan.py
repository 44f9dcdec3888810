"""Calibration: never above the budget, never far below it."""

import dataclasses
import functools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from skfdp.privacy import Event, calibrate, compose
from skfdp.privacy.accounting import cost
from skfdp.privacy.events import step_stds

DELTA = 1e-5
# The schedule that design and trials measured: MNIST, 10 epochs.
MNIST = {"n_steps": 600, "sampling_rate": 4096 / 60000}


def independent_epsilon(mu, delta):
    """Epsilon of mu-GDP, written down anew: Balle and Wang 2018, Theorem 8."""

    def excess(eps):
        tail = norm.logcdf(-mu / 2 - eps / mu)
        return norm.cdf(mu / 2 - eps / mu) - np.exp(eps + tail) - delta

    return brentq(excess, 0, 100 + mu * mu, xtol=1e-12) if excess(0) > 0 else 0.0


class TestReferenceValues:
    """Standard deviations of the noise at epsilon 1, delta 1e-5; to one per cent."""

    @pytest.mark.parametrize(
        ("relation", "clip", "reach", "expected"),
        [
            ("add_or_remove_one", 1.0, None, 6.342),
            ("replace_special", 1.0, None, 6.342),
            ("replace_one", 1.0, None, 12.476),
            ("replace_one", math.sqrt(0.9), math.sqrt(2), 9.003),  # one-hot, K = 10
            ("replace_one", 0.5, 1.0, 6.237),  # binary target, centred
        ],
    )
    def test_poisson(self, relation, clip, reach, expected):
        plan = calibrate(
            1.0,
            DELTA,
            clip_norm=clip,
            sensitivity=reach,
            neighboring_relation=relation,
            **MNIST,
        )
        assert plan.noise_multiplier * clip == pytest.approx(expected, rel=0.01)
        assert plan.mu is None

    @pytest.mark.parametrize("reach", [0.5, 1.0, math.sqrt(2)])
    def test_one_gaussian_release(self, reach):
        plan = calibrate(1.0, DELTA, n_steps=1, sensitivity=reach)
        assert plan.noise_multiplier == pytest.approx(3.7306 * reach, rel=1e-4)

    def test_full_batch_costs_what_sampling_costs(self):
        full = calibrate(1.0, DELTA, n_steps=600, sensitivity=1.0)
        assert full.noise_multiplier / math.sqrt(600) == pytest.approx(3.73, rel=0.01)


@functools.cache
def full_batch_grid():
    rng = np.random.default_rng(2)
    grid = []
    for _ in range(480):
        n_steps = int(rng.choice([1, 7, 50, 200]))
        relation = str(rng.choice(["replace_one", "replace_special"]))
        clip = float(rng.choice([0.1, 0.8, 14.0]))
        reach = clip * float(rng.uniform(0.1, 2)) if relation == "replace_one" else clip
        grid.append(
            {
                "epsilon": float(10 ** rng.uniform(-2, 2)),
                "delta": float(10 ** rng.uniform(-10, -1)),
                "n_steps": n_steps,
                "clip_norm": clip,
                "sensitivity": reach,
                "neighboring_relation": relation,
                "noise_decay": [0.0, float(rng.uniform(0.1, 2))][int(rng.integers(2))],
            }
        )
    return grid


POISSON_GRID = [
    {
        "epsilon": epsilon,
        "delta": delta,
        "n_steps": n_steps,
        "sampling_rate": q,
        "sensitivity": reach,
        "neighboring_relation": relation,
    }
    for epsilon, delta, n_steps, q in [
        (0.1, 1e-5, 300, 0.05),
        (0.5, 1e-7, 2000, 0.02),
        (3.0, 1e-3, 60, 0.5),
        (2.0, 1e-5, 500, 0.1),
    ]
    for relation, reach in [
        ("replace_one", 2.0),
        ("replace_one", math.sqrt(2)),
        ("replace_one", 0.4),
        ("replace_special", 1.0),
        ("add_or_remove_one", 1.0),
    ]
]


class TestBudget:
    """Epsilon spent is at most epsilon asked: 480 full-batch and 20 Poisson plans."""

    def test_full_batch(self):
        assert len(full_batch_grid()) + len(POISSON_GRID) == 500
        for arguments in full_batch_grid():
            plan = calibrate(**arguments)
            asked, delta = arguments["epsilon"], arguments["delta"]
            assert plan.epsilon(delta) <= asked
            # The same from the noise alone, without the package's formulas.
            ratios = arguments["sensitivity"] / plan.noise_std
            spent = independent_epsilon(math.sqrt(np.sum(ratios**2)), delta)
            assert spent == pytest.approx(asked, rel=1e-8, abs=1e-10)

    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param(one, marks=[pytest.mark.slow] * (number % 3 > 0))
            for number, one in enumerate(POISSON_GRID)
        ],
    )
    def test_poisson(self, arguments):
        plan = calibrate(**arguments)
        spent = plan.epsilon(arguments["delta"])
        assert 0.99 * arguments["epsilon"] <= spent <= arguments["epsilon"]
        assert compose([plan.event]).epsilon(arguments["delta"]) == spent

    @pytest.mark.parametrize(
        ("relation", "reach"), [("replace_special", 1.0), ("replace_one", 2.0)]
    )
    def test_tiny_batches_get_the_least_noise(self, relation, reach):
        """A record is in one of these batches with probability 5e-4, below delta."""
        plan = calibrate(
            1.0, 1e-3, n_steps=5, sampling_rate=1e-4, neighboring_relation=relation
        )
        assert plan.epsilon(1e-3) == 0
        assert plan.noise_multiplier == pytest.approx(reach / 30)

    def test_slightly_less_noise_is_over_budget(self):
        for arguments in full_batch_grid()[:50]:
            event = calibrate(**arguments).event
            less = dataclasses.replace(
                event, noise_std=tuple(0.9999 * std for std in event.noise_std)
            )
            assert compose([less]).epsilon(arguments["delta"]) > arguments["epsilon"]
        assert calibrate(17, 1e-6, n_steps=60, sampling_rate=1e-3).epsilon(1e-6) > 16.9
        assert calibrate(0.04, 0.25, n_steps=5, sampling_rate=0.1).epsilon(0.25) > 0.039


class TestPlan:
    def test_the_event_is_what_the_plan_adds(self):
        plan = calibrate(
            1.0, DELTA, n_steps=3, clip_norm=0.5, sensitivity=0.7, noise_decay=1.0
        )
        np.testing.assert_array_equal(plan.event.step_stds, plan.noise_std)
        assert plan.event.clip_norm == 0.5
        assert plan.event.sensitivity == 0.7
        assert plan.event.mu == pytest.approx(plan.mu)
        shares = 1 / np.square(plan.noise_std)
        np.testing.assert_allclose(shares / shares[0], [1, 2 / 3, 1 / 3])


class TestSharedBudget:
    def mean(self, **changes):
        values = {"noise_std": (15.0,), "clip_norm": 1.0, "sensitivity": 1.0}
        return Event(
            **{"label": "mean", "neighboring_relation": "replace_special"}
            | values
            | changes
        )

    def calibrated(self, other_events, **changes):
        arguments = {"n_steps": 10, "neighboring_relation": "replace_special"}
        return calibrate(1.0, DELTA, other_events=other_events, **(arguments | changes))

    def test_one_composition_not_a_split(self):
        mean = self.mean()
        plan = self.calibrated([mean])
        assert compose([mean, plan.event]).epsilon(DELTA) <= 1.0
        assert plan.mu == pytest.approx(self.calibrated([]).mu, rel=1e-9)
        split = 1.0 - compose([mean]).epsilon(DELTA)
        assert plan.event.mu > calibrate(split, DELTA, n_steps=10).mu

    def test_with_sampled_steps(self):
        mean = self.mean()
        plan = self.calibrated([mean], n_steps=200, sampling_rate=0.1)
        assert 0.99 <= compose([mean, plan.event]).epsilon(DELTA) <= 1.0
        alone = self.calibrated([], n_steps=200, sampling_rate=0.1)
        assert plan.noise_multiplier > alone.noise_multiplier

    def test_the_public_set_is_inherited(self):
        mean = self.mean(public_features=("age",), public_target=True)
        plan = self.calibrated([mean])
        assert plan.event.protects == mean.protects

    def test_nothing_left(self):
        with pytest.raises(ValueError, match="other_events already spend epsilon=1.0"):
            self.calibrated([self.mean(noise_std=(0.5,))])

    def test_other_relations(self):
        with pytest.raises(ValueError, match="do not compose"):
            self.calibrated([self.mean(neighboring_relation="replace_one")])


# -- schedules -------------------------------------------------------------------------
@pytest.mark.parametrize("n_steps", [1, 2, 7, 1000])
@pytest.mark.parametrize("decay", [0.1, 0.75, 1.0, 2.0])
def test_a_schedule_costs_what_its_steps_cost(n_steps, decay):
    plan = calibrate(1.0, DELTA, n_steps=n_steps, clip_norm=0.3, noise_decay=decay)
    event = plan.event
    listed = dataclasses.replace(
        event, noise_std=tuple(event.step_stds.tolist()), noise_decay=0.0
    )
    assert event.mu == pytest.approx(listed.mu, rel=1e-13)
    assert 0.999999 < compose([listed]).epsilon(DELTA) <= 1.0 + 1e-12
    np.testing.assert_array_equal(plan.noise_std, event.step_stds)
    assert compose([event], accountant="pld").epsilon(DELTA) == pytest.approx(
        1.0, rel=2e-3
    )


@pytest.mark.parametrize("n_steps", [1, 3, 500])
def test_the_first_step_has_the_least_noise(n_steps):
    """Who takes noise_std for constant noise overstates the cost."""
    stds = step_stds(2.0, n_steps, 0.75)
    assert stds[0] == 2.0
    assert (np.diff(stds) > 0).all()
    assert (step_stds(2.0, n_steps, 0.0) == 2.0).all()
    t = np.arange(n_steps)
    share = np.maximum(1 - t / n_steps, 0.5 / n_steps)
    np.testing.assert_allclose((stds[0] / stds) ** 2, share**0.75)


def test_two_equal_schedules_are_no_schedule_of_twice_the_length():
    """Merging equal events must not stretch the schedule."""
    event = calibrate(1.0, DELTA, n_steps=10, noise_decay=1.0).event
    twice = cost((event, event), DELTA)
    assert twice.mu == pytest.approx(np.sqrt(2) * event.mu, rel=1e-12)
    # One schedule of 20 steps costs more or less, but not this.
    longer = dataclasses.replace(event, n_steps=20)
    assert abs(longer.mu / twice.mu - 1) > 0.01
