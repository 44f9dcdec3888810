"""Label-DP in one shot: the statistic, the public basis, the public choice."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import length
from sklearn.linear_model import LogisticRegression

from skfdp import FeatureDPLogisticRegression
from skfdp.data.grid import GRID, GridRows, InputScaler, lazy_rows
from skfdp.kernels.losses import loss_named
from skfdp.privacy import Relation
from skfdp.queries.statistics import LabelSum
from skfdp.solvers import label_statistic as one_shot
from skfdp.solvers.label_statistic import (
    CHANCE,
    Objective,
    Prior,
    PublicGeometry,
    Whitening,
    shares_of_norm,
)

NULLED = Relation.of("replace_special")


def make_statistic(seed=0, n=15, d=4, n_classes=3, centred=False):
    rng = np.random.default_rng(seed)
    rows = GridRows.build(rng.normal(size=(n, d)) / 3, lambda block: block, bias=0.2)
    n_outputs = 1 if n_classes == 2 else n_classes
    target = rng.integers(0, n_classes, n)
    known = {"whitening": None, "weight": np.ones(n), "shares": None}
    bound = PublicGeometry(rows=rows, **known, n_labels=n_outputs).bound
    return LabelSum(rows, target, n_outputs, bound, centred)


def relabelled(query, n_classes):
    """Yield every record, and the query with every label of it."""
    for i in range(query.n_rows):
        for label in range(n_classes):
            target = query.target.copy()
            target[i] = label
            yield i, dataclasses.replace(query, target=target)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 6))
def test_a_nulled_label_moves_the_statistic_by_at_most_its_sensitivity(seed, n_classes):
    """Brute force over every label of every record, and no label."""
    query = make_statistic(seed, n_classes=n_classes, centred=True)
    unit, largest = query.unit(1.0), 0.0
    for i, own in relabelled(query, n_classes):
        # A null record is in no batch.
        rest = own.exact_sum(None, np.delete(np.arange(query.n_rows), i), unit)
        moved = length(own.exact_sum(None, None, unit) - rest, unit)
        largest = max(largest, moved)
    claimed = query.sensitivity(NULLED)
    assert claimed == query.clip_norm
    assert 0.999 * claimed < largest <= claimed * (1 + 1e-12)
    expected = 1 / 2 if n_classes == 2 else math.sqrt(1 - 1 / n_classes)
    assert claimed == pytest.approx(expected * query.row_bound)


def learnt(X, noise, input_scaler=None):
    """Return what is learnt of a table of public columns, and its rows."""
    input_scaler = input_scaler or InputScaler(feature_bound=np.inf)
    rows = lazy_rows(X, input_scaler.mapped, X.shape[1])
    whitening = Whitening.learn(rows, 0.1, noise)
    rows, weight = whitening.grid(rows)
    known = {"rows": rows, "weight": weight, "shares": None, "n_labels": 1}
    return whitening, PublicGeometry(whitening=whitening, **known)


def test_without_noise_every_record_counts_in_full():
    X = np.random.default_rng(0).standard_t(3, size=(500, 6)) * [5, 3, 1, 1, 0.3, 0.1]
    whitening, rows = learnt(X, noise=1e-9)
    np.testing.assert_allclose(rows.weight, 1, rtol=1e-9)
    phi = (X - whitening.mean) @ whitening.basis
    assert np.linalg.norm(np.c_[phi, np.full(500, whitening.bias)], axis=1).max() == (
        pytest.approx(1)
    )
    variance = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    prior = one_shot.EXPLAINED * variance / variance.sum()
    share = shares_of_norm(np.r_[prior, 0.1], 0.0, CHANCE / 500)[:-1]
    spread = phi.var(axis=0)
    np.testing.assert_allclose(spread / spread.sum(), share / share.sum(), rtol=1e-6)
    assert whitening.prior.shape == (phi.shape[1] + 1,)
    assert whitening.varying.tolist() == [True] * phi.shape[1] + [False]


@pytest.mark.parametrize("noise", [1e-9, 0.03, 10.0])
def test_weights_bound_the_contributions_and_leave_the_rows_alone(noise):
    X = np.random.default_rng(0).standard_t(2, size=(500, 6)) * [5, 3, 1, 1, 0.3, 0.1]
    whitening, rows = learnt(X, noise)
    phi = np.c_[(X - whitening.mean) @ whitening.basis, np.full(len(X), whitening.bias)]
    assert rows.bound <= 1 + 1e-9
    np.testing.assert_allclose(
        rows.rows.values * GRID, phi * rows.weight[:, None], atol=GRID
    )
    assert (rows.weight < 0.999).any() == (noise > 1e-3)
    np.testing.assert_array_equal(rows.floats(), rows.rows.values * GRID)


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**600])
def test_the_scale_of_all_columns_does_not_matter(scale):
    X = np.random.default_rng(0).normal(size=(300, 4))
    _, rows = learnt(X, 0.01)
    _, scaled = learnt(X * scale, 0.01)
    np.testing.assert_array_equal(rows.rows.values, scaled.rows.values)


def test_fold_meets_the_rows_in_input_units():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 9, (200, 5))
    input_scaler = InputScaler(np.zeros(5), np.full(5, 10.0), feature_bound=1.0)
    whitening = learnt(X, 0.01, input_scaler)[0]
    theta = rng.normal(size=(3, whitening.basis.shape[1] + 1))
    coef, intercept = whitening.fold(theta, input_scaler)
    phi = (input_scaler.mapped(X) - whitening.mean) @ whitening.basis
    expected = phi @ theta[:, :-1].T + whitening.bias * theta[:, -1]
    np.testing.assert_allclose(
        input_scaler(X) @ coef.T + intercept, expected, atol=1e-9
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_noise_the_optimum_is_scikit_learns(n_classes, weighted):
    """The label statistic is sufficient: same objective, same model."""
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(400, 4))
    y = (phi @ rng.normal(size=(4, n_classes))).argmax(axis=1)
    y[:40] = rng.integers(0, n_classes, 40)
    C, weight = 0.1, rng.uniform(0.2, 1, 400) if weighted else np.ones(400)
    rows = phi * weight[:, None]
    labels = (y - 0.5)[None] if n_classes == 2 else np.eye(n_classes)[y].T
    statistic = labels @ rows
    statistic -= (len(statistic) > 1) * statistic.mean(axis=0)
    objective = Objective(rows, weight, loss_named("log_loss"), 400)
    penalty = np.eye(4) / (C * 400)
    theta, _ = objective.minimise(statistic / 400, penalty, None, 1000)
    theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
    theirs.fit(phi, y, sample_weight=weight)
    np.testing.assert_allclose(theta, theirs.coef_, atol=2e-3)


def test_a_noisy_frequency_of_zero_becomes_the_size_of_the_noise():
    given = np.full((100, 1), 0.5), np.ones(100), loss_named("log_loss")
    for noise in (0.003, 0.03):
        asked = np.array([[-0.25]]), np.zeros((1, 1)), None, 100
        theta, _ = Objective(*given, 100, 0.5, noise**2).minimise(*asked)
        rate = 1 / (1 + np.exp(-0.5 * theta[0, 0]))
        assert rate == pytest.approx(noise, rel=0.1)


def test_the_prior_shrinks_noise_and_leaves_signal():
    rng = np.random.default_rng(1)
    true = np.r_[rng.normal(size=8) * 2, 0.5][None]
    rows = np.random.default_rng(0).normal(size=(4000, 9)) / 3
    rows[:, -1] = 0.3
    objective = Objective(rows, np.ones(4000), loss_named("log_loss"), 4000)
    loud, quiet = (Prior(np.full(9, 0.5), np.arange(9) < 8, s) for s in (1.0, 1e-5))
    theta, *_ = quiet.minimise(objective, objective.gradient(true), 1000)
    np.testing.assert_allclose(theta, true, rtol=0.05, atol=0.05)
    theta, *_ = loud.minimise(objective, rng.normal(size=(1, 9)), 1000)
    assert np.abs(theta[0, :8]).max() < 0.1
    # Large weights are shrunk less than the null model's curvature tells.
    few = Objective(rows[:400], np.ones(400), loss_named("log_loss"), 400)
    theta, *_ = quiet.minimise(few, few.gradient(5 * true), 1000)
    assert np.vdot(theta, true) > 3 * np.vdot(true, true)


@pytest.mark.parametrize(
    ("parameters", "label"),
    [
        ({}, "label statistic"),
        ({"solver": "noisy-gd"}, "descent"),
        ({"public_features": [0], "epsilon": 20.0}, "descent"),
        ({"public_features": [0], "epsilon": 0.1}, "first model: label statistic"),
        ({"centering": None}, "descent"),
        # noise beyond the grid
        ({"epsilon": 1e-9, "delta": 1e-8}, "descent"),
    ],
)
def test_label_dp_is_one_shot_but_for_what_only_the_loop_can_do(
    parameters, label, small
):
    given = {"public_features": "all", "bounds": (0, 1)} | parameters
    model = FeatureDPLogisticRegression(**given).fit(*small)
    assert model.privacy_.events[-1].label == label
