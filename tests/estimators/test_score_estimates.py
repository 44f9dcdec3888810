"""Estimates of private scores: intervals against tables, formulas and simulations."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from skfdp.queries.statistics import SQUARES
from skfdp.solvers.score import NoisyTable, auc_kernel, bin_edges, bounded_interval


def constant(variance):
    return lambda values: np.full_like(values, variance)


#: Feldman and Cousins 1998, Table X: a normal of standard deviation 1 whose mean is at
#: least 0; what was measured, confidence, interval.
PUBLISHED = [
    (-3.0, 0.90, 0.00, 0.26),
    (-3.0, 0.95, 0.00, 0.42),
    (-1.0, 0.90, 0.00, 0.81),
    (-1.0, 0.95, 0.00, 1.10),
    (0.0, 0.95, 0.00, 1.96),
    (1.0, 0.90, 0.00, 2.64),
    (2.0, 0.95, 0.35, 3.96),
    (3.0, 0.95, 1.14, 4.96),
]


@pytest.mark.parametrize("measured, confidence, low, high", PUBLISHED)
def test_near_an_end_they_are_those_of_feldman_and_cousins(
    measured, confidence, low, high
):
    unit = 1e-3
    found = bounded_interval(measured * unit, constant(unit**2), confidence)
    assert found == pytest.approx((low * unit, high * unit), abs=0.0075 * unit)
    other = bounded_interval(1 - measured * unit, constant(unit**2), confidence)
    assert other == pytest.approx((1 - high * unit, 1 - low * unit), abs=0.0075 * unit)


@pytest.mark.parametrize("n, k", [(200, 150), (50000, 49000), (1000, 500)])
def test_without_noise_a_share_has_the_interval_of_wilson(n, k):
    z, share = NormalDist().inv_cdf(0.975), k / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    table = NoisyTable(np.array([k, n - k]), np.empty((0, 2)), 0.0, n, 0.95)
    value, *ends = table.share(np.array([1.0, 0.0]))
    assert value == share
    assert ends == pytest.approx([middle - half, middle + half], abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-50, 50),
    st.floats(1e-6, 30),
    st.floats(0.5, 0.999),
    st.sampled_from([0.0, 1e-4, 1.0]),
)
def test_no_interval_is_empty(estimate, std, confidence, sampling):
    def variance(a):
        return std**2 + sampling * a * (1 - a)

    low, high = bounded_interval(estimate, variance, confidence)
    assert 0 <= low <= min(max(estimate, 0), 1) <= high <= 1
    assert high > low


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("std", [0.01, 0.2, 3.0])
def test_their_coverage_is_that_of_the_normal_law(mean, std):
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        low, high = bounded_interval(mean + std * rng.normal(), constant(std**2), 0.9)
        held += low <= mean <= high
    assert 0.85 < held / 400 < 0.95


SIMULATED = [("auc", std, True) for std in (0.0, 4.0, 12.0)]
for one in ("share", "ratio", "mean_loss"):
    SIMULATED += [(one, 6.0, True), (one, 6.0, False)]


@pytest.mark.slow
@pytest.mark.parametrize("metric, std, public", SIMULATED)
def test_the_variance_of_a_metric_is_that_of_simulations(
    metric, std, public, monkeypatch
):
    """Noise and sampling, without what noise adds to its own estimate."""
    stated, rng = [], np.random.default_rng(5)

    def estimate(self, found, variance, bound=1.0):
        stated.append(float(variance(np.array([found]))[0]))
        return found, found, found

    monkeypatch.setattr(NoisyTable, "estimate", estimate)
    n, edges = 2000 if metric == "auc" else 500, np.linspace(-3, 3, 13)
    chosen, among = np.array([1, 0, 0, 1, 0]) == 1, np.array([1, 1, 0, 1, 0]) == 1
    arguments = {"share": (1.0 * chosen,), "ratio": (1.0 * chosen, among)}
    arguments |= {"mean_loss": (0,), "auc": np.arange(28).reshape(2, -1)}

    def score():
        if metric == "auc":
            y = rng.random(n) < 0.3
            bins = np.searchsorted(edges, y + rng.normal(size=n))
            cells = np.bincount(14 * y + bins, minlength=28)
        else:
            cells = rng.multinomial(n, [0.3, 0.2, 0.2, 0.2, 0.1])
        cells = cells + std * rng.normal(size=len(cells))
        loss = rng.beta(1, 3, n)
        sums = np.array([[loss.sum(), SQUARES * (loss**2).sum()]])
        sums += std * rng.normal(size=2)
        table = NoisyTable(cells, sums, std, n if public else None, 0.95)
        method = metric if metric in ("auc", "mean_loss") else "share"
        found = getattr(table, method)(*arguments[metric])
        # Of the area that of the kernel that orders, which is the first of two.
        return found[0], stated[-2 if metric == "auc" else -1]

    found = np.array([score() for _ in range(800 if metric == "auc" else 1500)])
    truth = {"share": 0.5, "ratio": 5 / 7, "mean_loss": 0.25}
    truth["auc"] = NormalDist().cdf(1 / math.sqrt(2))
    assert found[:, 0].mean() == pytest.approx(truth[metric], abs=0.01)
    claimed = found[:, 1].mean() / found[:, 0].var(ddof=1)
    assert claimed == pytest.approx(1, abs=0.15)


def test_the_order_within_bins_is_better_told_by_neighbours():
    rng = np.random.default_rng(0)
    y = rng.random(200_000) < 0.5
    score = expit(1.5 * rng.normal(size=200_000) + np.where(y, 1, -1))
    edges = bin_edges(0.5, 24, 1.0, 1000)
    bins = np.searchsorted(edges, score)
    p, q = (np.bincount(bins[y == k], minlength=24) / (y == k).sum() for k in (0, 1))
    exact = roc_auc_score(y, score)
    tied, ordered = p @ auc_kernel(24, ()) @ q, p @ auc_kernel(24) @ q
    assert abs(ordered - exact) < 0.15 * abs(tied - exact)


def test_nothing_is_said_of_nobody():
    table = NoisyTable(np.array([-1.0, 0.5, 0.2]), np.zeros((1, 2)), 1.0, None, 0.95)
    for found in (
        table.auc(np.array([0]), np.array([1])),
        table.share(np.array([1.0, 0.0, 0.0]), np.array([True, False, False])),
        table.share(np.array([1.0, 0.0, 0.0])),
        table.mean_loss(0),
    ):
        assert all(map(math.isnan, found))
