"""A fit of many steps is as short to tell as one of few."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from skfdp import FeatureDPLogisticRegression, PrivacyLedger
from skfdp.privacy import calibrate, compose
from skfdp.privacy.accounting import cost
from skfdp.solvers import NoisyGradientDescent

DELTA = 1e-5


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit of 20,000 full-batch steps and its ledger."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    rng = np.random.default_rng(0)
    model = FeatureDPLogisticRegression(
        bounds=(0, 1),
        public_features="all",
        ledger=PrivacyLedger(path, epsilon=9.0, delta=DELTA),
        solver=NoisyGradientDescent(max_iter=20_000),
    )
    X = pd.DataFrame({"u": rng.random(30)})
    return model.fit(X, rng.integers(0, 2, 30)), path


def test_the_report_has_no_number_for_each_step(fitted):
    model, _ = fitted
    *others, event = model.privacy_.events
    assert event.n_steps == 20_000
    assert event.noise_decay == 0.75
    assert {other.n_steps for other in others} <= {1}
    assert {len(event.noise_std) for event in model.privacy_.events} == {1}
    assert len(model.privacy_.to_json()) < 10_000


def test_nor_has_the_ledger(fitted):
    _, path = fitted
    ledger = PrivacyLedger(path)
    assert len(ledger.to_json()) < 10_000
    assert path.stat().st_size < 100_000
    entry = ledger.entries[-1]
    assert entry.event.n_steps == 20_000


def test_repr_fits_a_screen(fitted):
    model, path = fitted
    event = model.privacy_.events[-1]
    entry = PrivacyLedger(path).entries[-1]
    assert entry.event.n_steps == event.n_steps == 20_000
    plan = calibrate(1.0, DELTA, n_steps=500)
    long = dataclasses.replace(plan, noise_multipliers=plan.noise_multipliers * 500)
    names = tuple(f"a column with a long name, number {i}" for i in range(784))
    wide = dataclasses.replace(event, public_features=names)
    for value in (event, long, long.event, wide):
        assert len(repr(value)) < 1_000
    assert "500 entries" in repr(long)
    assert f"{names[-1]!r} [784 entries])" in repr(wide)


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
    from skfdp.privacy.events import step_stds

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
