"""The model of the private columns: moments, denoising, draws."""

import numpy as np
import pytest
from scipy.special import ndtri

from skfdp.completion import PrivateColumns, Released, clipped_moments, shrunk_means


def released(P, codes, n_classes=2, std=0.0, second=True, bounded=True, seed=0, **more):
    """Return the statistics of rows, with noise of a given level."""
    rng = np.random.default_rng(seed)
    d = P.shape[1]
    sums = np.eye(n_classes)[codes].T @ P + std * rng.normal(size=(n_classes, d))
    noise = rng.normal(size=(d, d)) * std
    return Released(
        counts=np.bincount(codes, minlength=n_classes),
        sums=sums,
        sums_std=std,
        second=P.T @ P + (noise + noise.T) / 2 if second else None,
        second_std=std if second else 0.0,
        bounded=np.full(d, bounded),
        feature_bound=2.0,
        **more,
    )


def make_rows(n=20_000, seed=0):
    """A binary, a rare binary, a continuous, a spiked column; 0 and 2 correlated."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, n)
    z = rng.normal(size=(n, 4))
    z[:, 2] = 0.7 * z[:, 0] + np.sqrt(1 - 0.49) * z[:, 2]
    P = np.empty((n, 4))
    P[:, 0] = z[:, 0] > 0.5 - codes
    P[:, 1] = z[:, 1] > 1.8
    P[:, 2] = np.clip(0.4 + 0.15 * z[:, 2] + 0.1 * codes, 0, 1)
    P[:, 3] = np.clip(-0.5 + 0.5 * z[:, 3], 0, 1)
    return P, codes


@pytest.mark.parametrize("slope", [0.05, 0.5, 5.0, 25.0])
@pytest.mark.parametrize("location", [-2.0, -0.3, 0.0, 1.0])
def test_moments_of_the_clipped_normal(slope, location):
    z = ndtri((np.arange(200_000) + 0.5) / 200_000)
    p = np.clip(0.5 + slope * (z + location), 0, 1)
    mean, interior = clipped_moments(np.array([location]), slope)
    assert mean[0] == pytest.approx(p.mean(), abs=1e-4)
    assert interior[0] == pytest.approx((p * (1 - p)).mean(), abs=1e-4)


def test_draws_have_the_released_moments():
    P, codes = make_rows()
    model = PrivateColumns.learn(released(P, codes))
    drawn = model.draw(codes, np.random.default_rng(1))
    assert ((drawn >= 0) & (drawn <= 1)).all()
    for k in (0, 1):
        ours, theirs = drawn[codes == k], P[codes == k]
        np.testing.assert_allclose(ours.mean(axis=0), theirs.mean(axis=0), atol=0.02)
        np.testing.assert_allclose(ours.std(axis=0), theirs.std(axis=0), atol=0.03)
        found, wanted = np.corrcoef(ours.T)[0, 2], np.corrcoef(theirs.T)[0, 2]
        assert found == pytest.approx(wanted, abs=0.08)
    assert set(np.unique(drawn[:, 0])) == {0.0, 1.0}
    assert (drawn[:, 3] == 0).mean() == pytest.approx((P[:, 3] == 0).mean(), abs=0.05)


def test_without_second_moments_columns_are_independent_zeros_and_ones():
    P, codes = make_rows()
    model = PrivateColumns.learn(released(P, codes, second=False))
    drawn = model.draw(codes, np.random.default_rng(1))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert abs(np.corrcoef(drawn[codes == 0].T)[0, 2]) < 0.05
    np.testing.assert_allclose(drawn.mean(axis=0), P.mean(axis=0), atol=0.02)


def test_unbounded_columns_are_normal_with_the_released_variance():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 20_000)
    P = rng.normal(size=(20_000, 2)) * [0.5, 0.1] + codes[:, None] * [1.0, -0.2]
    model = PrivateColumns.learn(released(P, codes, bounded=False))
    drawn = model.draw(codes, rng)
    for k in (0, 1):
        ours, theirs = drawn[codes == k], P[codes == k]
        np.testing.assert_allclose(ours.mean(axis=0), theirs.mean(axis=0), atol=0.02)
        np.testing.assert_allclose(ours.std(axis=0), theirs.std(axis=0), atol=0.03)


def test_shrinkage_forgets_noise_and_keeps_signal():
    rng = np.random.default_rng(0)
    codes = np.arange(3000) % 3
    P = (rng.random((3000, 40)) < 0.3).astype(float)  # the same in every class
    statistic = released(P, codes, 3, std=300.0, second=False)
    grand, variance = statistic.sums.sum(axis=0) / 3000, np.full(40, 0.21)
    apart = shrunk_means(statistic, grand, variance) - grand
    assert np.abs(statistic.sums / 1000 - grand).max() > 0.5
    assert np.abs(apart).max() < 0.05
    P[codes == 1] = rng.random((1000, 40)) < 0.8
    statistic = released(P, codes, 3, std=1.0, second=False)
    grand = statistic.sums.sum(axis=0) / 3000
    means = shrunk_means(statistic, grand, variance)
    np.testing.assert_allclose(means[1], P[codes == 1].mean(axis=0), atol=0.01)


def test_a_class_without_records_has_the_grand_mean():
    P, codes = make_rows(500)
    model = PrivateColumns.learn(released(P, codes, n_classes=3, std=1.0))
    grand = released(P, codes, n_classes=3, std=1.0).sums.sum(axis=0) / 500
    np.testing.assert_allclose(model.means[2], np.clip(grand, 1e-4, 1 - 1e-4))


@pytest.mark.parametrize("std", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("bounded", [True, False])
def test_any_noise_gives_a_usable_model(std, bounded):
    P, codes = make_rows(200)
    for seed in range(5):
        model = PrivateColumns.learn(
            released(P, codes, std=std, bounded=bounded, seed=seed)
        )
        drawn = model.draw(codes, np.random.default_rng(seed))
        assert np.isfinite(drawn).all()
        correlation = model.factor @ model.factor.T
        np.testing.assert_allclose(np.diag(correlation), 1.0)
