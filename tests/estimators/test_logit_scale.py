"""The start at class frequencies and the scale of logits; what they make of a fit."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from problems import FakeMechanism
from scipy.special import softmax
from sklearn.metrics import log_loss
from sklearn.preprocessing import normalize

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, UtilityWarning
from skfdp.mechanisms.descent import HeavyBall
from skfdp.privacy import Relation
from skfdp.solvers import descent as frequencies
from skfdp.solvers import postprocessing as logit_scale
from skfdp.solvers.postprocessing import Spread

REPLACED = Relation.of("replace_one")


# -- class frequencies ----------------------------------------------------------------
def log_odds(labels, n_classes, noise_std=1e-6, noise=0.0):
    """Return the log odds that are released of the labels."""
    public = SimpleNamespace(
        n_records=len(labels),
        n_classes=n_classes,
        n_outputs=1 if n_classes == 2 else n_classes,
        classes_source="read",
    )
    records = SimpleNamespace(public=public, target=np.asarray(labels))
    records.query = lambda recipe: recipe(records)
    event = SimpleNamespace(noise_std=(noise_std,), neighboring_relation="replace_one")
    return frequencies.released_log_odds(records, event, FakeMechanism(noise))


def test_counts_that_noise_would_leave_no_grid_for_are_not_released(small):
    model = FeatureDPLogisticRegression(1e-9, delta=1e-12, bounds=(0, 1))
    plan = model.plan(*small)
    assert "class counts" not in [event.label for event in plan.events]
    model = FeatureDPLogisticRegression(1e-3, delta=1e-6, bounds=(0, 1))
    assert model.plan(*small).events[0].label == "class counts"


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_odds_are_those_of_the_counts_and_zero_where_they_are_noise(n_classes):
    labels = np.repeat([0, 1, n_classes - 1], [700, 300, 400])
    share = (np.bincount(labels) + 1) / (len(labels) + n_classes)
    odds, noise = partial(log_odds, labels, n_classes), np.arange(n_classes)[:, None]
    found = softmax(np.r_[0, odds()] if n_classes == 2 else odds())
    np.testing.assert_allclose(found, share, rtol=1e-6)
    assert np.abs(odds(noise_std=1e7)).max() < 1e-3
    noisy = odds(noise_std=10.0, noise=1e4 + 1e4 * noise)
    assert np.isfinite(noisy).all()  # whatever the noise


# -- the drift of clipping ------------------------------------------------------------
@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("believed", [0.0, 0.6])
def test_after_the_drift_clipped_residuals_cancel(n_outputs, believed):
    rng, clip = np.random.default_rng(0), 0.3
    start = rng.normal(size=(300, n_outputs)) - np.arange(n_outputs) - (n_outputs == 1)
    given = np.ones(300), 1.3 * math.sqrt(n_outputs), believed
    moved, unclipped = (logit_scale.drift(start, *given, c) for c in (clip, 10.0))
    np.testing.assert_allclose(unclipped, 0, atol=1e-6)
    rows = start[rng.integers(300, size=50_000)]
    step = 1.3 * rng.normal(size=rows.shape)

    def sums(level, most):
        ends = np.stack([rows + believed * step, rows + step + level])
        if n_outputs == 1:
            ends = np.pad(ends, ((0, 0), (0, 0), (1, 0)))
        truth, found = softmax(ends, axis=2)
        total = 0.0
        for k, share in enumerate(truth.T):
            residual = found - np.eye(found.shape[1])[k]
            size = np.linalg.norm(residual, axis=1) / (1 if n_outputs > 1 else 2**0.5)
            total = total + (share * np.minimum(1, most / size)) @ residual / len(rows)
        return total[-n_outputs:]

    level = np.zeros(n_outputs)  # where residuals that are not clipped cancel
    for _ in range(50):
        level -= 2 * sums(level, 10.0)
    assert np.abs(sums(level + moved, clip)).max() < 0.1 * abs(sums(level, clip)).max()


@pytest.mark.parametrize(("epsilon", "most"), [(0.1, 0.035), (0.3, 0.014)])
def test_where_columns_tell_nothing_a_fit_stays_near_the_frequencies(epsilon, most):
    above = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = np.eye(4)[rng.integers(4, size=(6000, 12))].reshape(6000, 48)
        y = (rng.random(6000) < 0.3).astype(int)
        given = {"bounds": (0, 1), "classes": [0, 1], "random_state": seed}
        model = FeatureDPLogisticRegression(epsilon, **given).fit(X[:3000], y[:3000])
        constant = log_loss(y[3000:], np.full(3000, y[:3000].mean()))
        above.append(log_loss(y[3000:], model.predict_proba(X[3000:])) - constant)
    assert np.mean(above) < most


# -- the walk -------------------------------------------------------------------------
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("curvature", [0.0, 0.01, 0.2])
def test_the_outcome_of_a_walk_is_that_of_its_simulation(momentum, curvature):
    """The noises of steps are independent, and what each leaves is linear in it."""
    stds = 0.1 + 0.002 * np.arange(60)
    rule = HeavyBall(0.5, momentum, 60, stds=stds)
    end, noise = rule.outcome(curvature)
    # One walk for the noise of each step, after one without any.
    theta, velocity = np.zeros((2, 61, 1))
    for step, std in enumerate(stds):
        drawn = std * (np.arange(61) == step + 1)[:, None]
        theta = rule.update(theta, velocity, curvature * (theta - 1) + drawn, step)
    assert end == pytest.approx(theta[0, 0], abs=1e-12)
    assert noise == pytest.approx(np.linalg.norm(theta[1:] - theta[0]))


# -- the temperature ------------------------------------------------------------------
def temperature(best, *, curvature=0.6, noise_std=1.0, n=1000, reach=3.0):
    """Return the temperature where the loss is least at `best`."""
    usual = 0.25 * n * reach
    slopes = curvature * usual * (np.array(logit_scale.POINTS) - best)
    prior = logit_scale.prior_of_doubt(0.5, noise_std, usual)
    curvatures = np.geomspace(0.1, 2, 30) * usual
    prior = prior - (np.log(curvatures / usual / 0.6) / 0.5) ** 2 / 2
    factors = np.linspace(0, 1.2, 61)
    return logit_scale.temperature(slopes, noise_std, factors, curvatures, prior)[0]


@pytest.mark.parametrize("curvature", [0.1, 0.5, 1.0])
def test_the_temperature_is_where_the_slope_is_zero(curvature):
    assert temperature(0.0, curvature=curvature) < 0.05  # a step of pure noise
    for best in (0.3, 0.7, 1.0):
        found = temperature(best, curvature=curvature)
        assert found == pytest.approx(best, abs=0.03)
    assert temperature(-5.0, curvature=curvature) < 0.05
    assert temperature(9.0, curvature=curvature) <= 1.2
    assert temperature(1.0, noise_std=1e9) < 0.02


# -- wide tables ----------------------------------------------------------------------
def factor_of(
    best, *, noise_std=1.0, n=10_000, rate=1e-9, curvature=1.0, size=1.0, width=1000
):
    """Return the factor of a wide regression whose loss is least at `best`."""
    theta, blocks = np.full((1, width), size), [Spread(np.arange(width), 1.0, 0.5)]
    slopes = curvature * n * (np.array(logit_scale.POINTS) - best)
    mechanism = SimpleNamespace(release=lambda label, query: slopes)
    query = SimpleNamespace(derived=lambda make: None, clip_norm=0.5, offset=None)
    event = SimpleNamespace(noise_std=(noise_std,), clip_norm=math.sqrt(2) * 1.35)
    walk = HeavyBall(rate, 0.5, 80, decay=0.0, stds=np.full(80, 0.01))
    public = SimpleNamespace(n_records=n, reach=1.0)
    given = theta, query, blocks, walk, public, event, mechanism
    found, *_ = logit_scale.rescaled(*given)
    return found[0, 0] / size


@pytest.mark.parametrize("curvature", [0.3, 1.0, 3.0])
def test_the_weights_of_a_wide_regression_get_the_measured_factor(curvature):
    for best in (0.3, 1.0, 2.5):
        assert factor_of(best, curvature=curvature) == pytest.approx(best, rel=0.05)
    assert 0.099 <= factor_of(-5.0) <= factor_of(50.0) <= 6.0
    assert factor_of(2.5, noise_std=1e9) == pytest.approx(1.0, rel=0.1)
    assert factor_of(1.0, n=1000, rate=1.0) < 0.98  # of an overfitted one
    assert math.isfinite(factor_of(2.0, rate=1e300))
    with np.errstate(over="ignore"):
        assert factor_of(2.0, size=1e200) == 1.0


def test_a_step_of_noise_vanishes_and_a_good_one_stays():
    """With few columns the factor is at most 1.2, and about .7 without information."""
    found = [factor_of(best, width=100) for best in (0.0, 0.3, 1.0, 9.0)]
    assert found[0] < 0.03 and found[3] <= 1.2
    np.testing.assert_allclose(found[1:3], (0.3, 1.0), atol=0.03)
    assert factor_of(0.0, width=100, noise_std=1e9) == pytest.approx(0.7, abs=0.03)


def test_a_regression_charges_its_slopes():
    """The largest residual grows with the signal; with a log link there is no slope."""

    def events_of(epsilon=4.0, width=400, **more):
        given = {"bounds": (0, 1), "target_bounds": (0, 1), **more}
        plan = FeatureDPRegressor(epsilon, **given).plan(*sparse_table(width, 2000))
        return [event for event in plan.events if event.label == "temperature"]

    clip = math.sqrt(2) * 1.35
    for relation, moves in (("replace_one", 2), ("replace_special", 1)):
        for width in (20, 400):
            (event,) = events_of(neighboring_relation=relation, width=width)
            found = event.clip_norm, event.n_steps, event.sensitivity
            assert found == (clip, 1, moves * clip)
    assert events_of(0.1)[0].clip_norm < events_of(0.3)[0].clip_norm < clip
    for other in ({"alpha": 1.0}, {"loss": "poisson"}):
        assert not events_of(**other)


def sparse_table(width, n_rows=4000):
    """Return rows of 15 entries, of which the first ten columns tell the label."""
    rng = np.random.default_rng(0)
    y = rng.random(n_rows) < 0.3
    telling = rng.random((n_rows, 10)) < np.where(y, 0.5, 0.05)[:, None]
    rest = sp.random(n_rows, width - 10, 15 / width, "csr", random_state=rng)
    rest.data[:] = 1
    X = sp.hstack([sp.csr_matrix(telling.astype(float)), rest]).tocsr()
    return normalize(X), y


@pytest.mark.parametrize("kind", [FeatureDPLogisticRegression, FeatureDPRegressor])
def test_row_lengths_that_are_noise_are_warned_of(kind):
    X, y = sparse_table(1000, 1000)
    name = "classes" if kind is FeatureDPLogisticRegression else "target_bounds"
    model = kind(0.5, bounds=(0, 1), random_state=0, **{name: (0, 1)})
    with pytest.warns(UtilityWarning, match="released length of rows is mostly noise"):
        model.fit(X, y.astype(int))


@pytest.mark.parametrize("mean", [-3.0, -0.2, 0.0, 0.5, 4.0])
def test_the_variance_of_weights_is_a_mean_above_zero(mean):
    """A block whose weights look like noise by chance is not lost as a whole."""
    x = np.linspace(0, 20, 200_001)
    density = np.exp(-(((x - mean) / 0.5) ** 2) / 2)
    found = logit_scale.above_zero(mean, 0.5)
    assert found == pytest.approx((x @ density) / density.sum(), rel=1e-3)
    assert found > max(mean, 0)
    square, error = 2.0, 2.2  # as of 130 weights whose prior is 2.25
    known = logit_scale.learnt_variance(square, error, 130, 2.25)
    assert known[0] < 0 and logit_scale.above_zero(*known) > 0.3
