"""Coins, public batches, step rules and averages."""

import numpy as np
import pytest
from scipy import stats

from skfdp.sampling import poisson_batch, uniform_batch
from skfdp.steps import Average, HeavyBall


def test_poisson_batches_have_the_right_law():
    rng = np.random.default_rng(0)
    n, rate, draws = 500, 0.07, 2000
    counts = np.zeros(n)
    sizes = []
    for _ in range(draws):
        batch = poisson_batch(rng, n, rate)
        assert (np.diff(batch) > 0).all()
        counts[batch] += 1
        sizes.append(len(batch))
    # Each row alone is binomial, and so is the size: independent coins.
    assert stats.binomtest(int(counts.sum()), n * draws, rate).pvalue > 1e-4
    spread = np.var(sizes) / (n * rate * (1 - rate))
    assert abs(spread - 1) < 5 * np.sqrt(2 / draws)
    chi2 = ((counts - draws * rate) ** 2).sum() / (draws * rate * (1 - rate))
    assert stats.chi2.sf(chi2, n) > 1e-4


def test_empty_poisson_batch():
    assert poisson_batch(np.random.default_rng(0), 100, 1e-12).size == 0


def test_uniform_batch():
    rng = np.random.default_rng(0)
    assert uniform_batch(rng, 5, None).tolist() == [0, 1, 2, 3, 4]
    assert uniform_batch(rng, 5, 9).tolist() == [0, 1, 2, 3, 4]
    batch = uniform_batch(rng, 100, 10)
    assert len(set(batch.tolist())) == 10


def test_heavy_ball_by_hand():
    rule = HeavyBall(learning_rate=0.5, momentum=0.9, n_steps=4)
    theta, velocity = np.array([1.0]), np.zeros(1)
    theta = rule.update(theta, velocity, np.array([2.0]), 0)
    assert theta == pytest.approx(1 - 0.5 * 2)
    theta = rule.update(theta, velocity, np.array([1.0]), 1)
    assert theta == pytest.approx(0 - 0.5 * 0.75 * (0.9 * 2 + 1))


def test_projection_onto_the_ball():
    rule = HeavyBall(1.0, 0.0, 10, radius=2.0)
    theta = rule.update(np.zeros(2), np.zeros(2), np.array([-30.0, -40.0]), 0)
    np.testing.assert_allclose(theta, [1.2, 1.6])


@pytest.mark.parametrize(
    ("kind", "expected"), [("last", 3.0), ("tail", 2.5), ("uniform", 1.5)]
)
def test_averages(kind, expected):
    path = Average(kind, 4)
    for step in range(4):
        path.add(np.array([float(step)]), step)
    assert path.value == pytest.approx(expected)
