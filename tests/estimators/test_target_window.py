"""The window of a private target: a histogram, and what the fit makes of it."""

import math

import numpy as np
import pytest

from skfdp import FeatureDPRegressor
from skfdp.data.target import TargetMap
from skfdp.privacy import Relation, gdp_epsilon
from skfdp.solvers import NoisyGradientDescent
from skfdp.solvers import target_scales as target_window

LINEAR, COUNTS = TargetMap(low=-20.0, high=60.0), TargetMap(log=True, low=0, high=1000)


def fitted(y, **parameters):
    rng = np.random.default_rng(0)
    given = {"epsilon": 1.0, "bounds": (-1, 1), "random_state": 0}
    model = FeatureDPRegressor(**{**given, **parameters})
    with np.errstate(all="raise"):
        model.fit(rng.uniform(-1, 1, (len(y), 3)), y)
    return model


# -- what a record moves --------------------------------------------------------------
def histogram(y, releases, bounds):
    loss = "poisson" if bounds.log else "squared_error"
    solver = NoisyGradientDescent(max_iter=1)
    fitted(y, loss=loss, target_bounds=(bounds.low, bounds.high), solver=solver)
    shape = (len(target_window.edges(bounds)) - 1,)
    seen = next(r for r in releases if r["query"].shape == shape)
    releases.clear()
    return seen["query"]


@pytest.mark.parametrize("bounds", [LINEAR, COUNTS])
def test_a_replaced_target_moves_the_histogram_within_its_bound(bounds, releases):
    """All pairs of bins, at their edges and far outside, in exact integers."""
    y, unit = np.full(2000, 5.0), 2.0**-30
    inside = target_window.edges(bounds)
    values = [*inside, *(inside[1:] - 1e-9), -1e300, 1e300]
    contributions = []
    for value in values:
        y[0] = value
        query = histogram(y, releases, bounds)
        total = query.exact_sum(None, np.array([0]), unit)
        contributions.append([int(entry) for entry in total])
    relation = Relation.of("replace_one")
    moved = max(
        math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True))) * unit
        for one in contributions
        for other in contributions
    )
    largest = max(math.hypot(*one) * unit for one in contributions)
    assert 0.999 < largest <= query.clip_norm == 1
    assert query.sensitivity(relation) == math.sqrt(2)
    assert 0.999 * math.sqrt(2) < moved <= math.sqrt(2)
    assert len({tuple(c) for c in contributions}) == len(contributions[0])


def test_every_release_is_covered_by_the_charge(releases):
    """What neighbours move, over the noise that was added, is within the report."""
    y = np.random.default_rng(1).normal(10, 2, 2000)
    model = fitted(y, target_bounds=(-20, 60))
    relation, total = Relation.of("replace_one"), 0.0
    for release in releases:
        total += (release["query"].sensitivity(relation) / release["std"]) ** 2
    spent = gdp_epsilon(model.delta, math.sqrt(total))
    assert spent == pytest.approx(model.privacy_.epsilon, rel=1e-6)
    # The noise of the histogram is that of the scales, for less: two counts move by 1.
    events = [(e.label, e.n_steps, e.sensitivity) for e in model.privacy_.events[:2]]
    assert events == [("target histogram", 1, math.sqrt(2)), ("target scale", 2, 2.0)]
    assert [r["query"].shape for r in releases[:3]] == [(16,), (1,), (1,)]
    noise_std = model.privacy_.events[0].noise_std[0]
    np.testing.assert_allclose([r["std"] for r in releases[:3]], noise_std)
    assert model.privacy_.epsilon <= 1.0
    assert (model.target_map_.low, model.target_map_.high) == (-20, 60)


def test_a_nulled_target_moves_it_as_far_as_a_mean(releases):
    """So one event covers all three."""
    y = np.random.default_rng(1).normal(10, 2, 2000)
    relation = {"neighboring_relation": "replace_special"}
    event = fitted(y, target_bounds=(-20, 60), **relation).privacy_.events[0]
    assert (event.label, event.n_steps, event.sensitivity) == ("target scale", 3, 1.0)


def test_without_a_signal_there_is_no_histogram():
    y = np.random.default_rng(1).normal(10, 2, 100)
    event = fitted(y, target_bounds=(-20, 60), epsilon=0.1).privacy_.events[0]
    assert (event.label, event.n_steps) == ("target scale", 2)


# -- what it finds --------------------------------------------------------------------


def test_the_mean_of_counts_that_are_mostly_zero_is_released(releases):
    """No window ends below the first counts: empty bins there would stop it."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(2000) < 0.75, 0, rng.poisson(3, 2000)).astype(float)
    found = [
        fitted(y, loss="poisson", target_bounds=(0, 60), random_state=seed)
        for seed in range(8)
    ]
    scales = [model.target_map_.scale for model in found]
    assert np.median(scales) == pytest.approx(y.mean(), rel=0.2)
    assert min(scales) > y.mean() / 2


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 1000.0])
def test_loose_bounds_leave_the_mean_of_counts_alone(epsilon):
    rng = np.random.default_rng(2)
    y = rng.poisson(3 * rng.gamma(1.0, 1.0, 3000)).astype(float)
    for high in (100, 1000):
        model = fitted(y, epsilon=epsilon, loss="poisson", target_bounds=(0, high))
        rng = np.random.default_rng(0)
        rates = model.predict(rng.uniform(-1, 1, (3000, 3)))
        assert rates.mean() == pytest.approx(
            y.mean(), rel=0.25 if epsilon < 9 else 0.03
        )


@pytest.mark.slow
def test_loose_bounds_leave_a_mean_alone():
    rng = np.random.default_rng(2)
    y = rng.normal(10, 2, 2000)
    models = [
        fitted(y, epsilon=0.3, target_bounds=(-200, 600), random_state=seed)
        for seed in range(10)
    ]
    errors = [model.target_map_.centre - y.mean() for model in models]
    # The error of a mean that is cut to the bounds alone, with the same noise.
    wide = 400 * models[0].privacy_.events[0].noise_std[0] / len(y)
    assert np.sqrt(np.mean(np.square(errors))) < 0.35 * wide
