"""Label-DP in one shot: the statistic, the public basis, the public choice."""

import dataclasses
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from skfdp import FeatureDPLogisticRegression, PrivacyLedger, UtilityWarning
from skfdp.estimators.linear_model import whitening as one_shot
from skfdp.estimators.linear_model.label_statistic import LabelStatistic
from skfdp.estimators.linear_model.whitening import (
    Objective,
    Whitening,
    choose_factor,
    denoised,
    largest_norm,
    water_filling,
)
from skfdp.privacy import Relation, gdp_epsilon
from skfdp.queries.losses import LOSSES
from skfdp.queries.statistics import LabelSum
from skfdp.records.grid import GRID, GridRows
from skfdp.records.mapped import PublicRows
from skfdp.records.row_map import RowMap

REPLACED = Relation.of("replace_one")


def make_statistic(seed=0, n=15, d=4, n_classes=3):
    rng = np.random.default_rng(seed)
    rows = GridRows.build(rng.normal(size=(n, d)) / 3, lambda block: block, bias=0.2)
    n_outputs = 1 if n_classes == 2 else n_classes
    target = rng.integers(0, n_classes, n)
    return LabelSum(rows, target, n_outputs, largest_norm(rows))


def check_label_sensitivity(seed, n_classes):
    """Brute force over every other label of every record, in exact integers."""
    query = make_statistic(seed, n_classes=n_classes)
    unit = query.unit(1.0)
    total = query.exact_sum(None, None, unit)
    largest = 0.0
    for i in range(query.n_rows):
        for label in range(n_classes):
            target = query.target.copy()
            target[i] = label
            other = dataclasses.replace(query, target=target)
            moved = total - other.exact_sum(None, None, unit)
            square = sum(int(entry) ** 2 for entry in moved.ravel())
            largest = max(largest, math.sqrt(square) * unit)
        alone = query.exact_sum(None, np.array([i]), unit)
        norm = math.sqrt(sum(int(entry) ** 2 for entry in alone.ravel())) * unit
        assert norm <= query.clip_norm
    assert largest <= query.sensitivity(REPLACED)
    assert largest > 0.999 * query.sensitivity(REPLACED)  # the bound is attained


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 6))
def test_a_replaced_label_moves_the_statistic_by_at_most_its_sensitivity(
    seed, n_classes
):
    check_label_sensitivity(seed, n_classes)


def test_sabotage_of_the_sensitivity_is_noticed(monkeypatch):
    """Delta = |phi|, as for a label that is nulled, is too small for replace_one."""
    monkeypatch.setattr(LabelSum, "sensitivity", lambda self, relation: self.row_bound)
    with pytest.raises(AssertionError):
        check_label_sensitivity(0, 3)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_statistic_matches_its_definition(n_classes):
    query = make_statistic(n=300, n_classes=n_classes)
    phi = query.rows.values * GRID
    labels = np.eye(n_classes)[query.target]
    expected = labels.T @ phi
    if n_classes == 2:
        expected = (query.target - 0.5)[None] @ phi
    unit = query.unit(1.0)
    np.testing.assert_allclose(query.exact_sum(None, None, unit) * unit, expected)
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_array_equal(
        query.exact_sum(None, order, unit), query.exact_sum(None, None, unit)
    )


def explained(share, variance, noise, n_rows):
    """Return what the best linear estimates explain, as `water_filling` states it."""
    prior = one_shot.EXPLAINED * variance / variance.sum()
    chance = one_shot.CHANCE / min(n_rows, one_shot.CHANCE_ROWS)
    return (prior**2 * share / ((prior + chance) * share + noise**2)).sum()


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), log_noise=st.floats(-4, 2))
def test_no_other_share_explains_more(seed, log_noise):
    rng = np.random.default_rng(seed)
    variance = np.sort(rng.lognormal(0, 2, rng.integers(1, 30)))[::-1]
    noise, n_rows = 10.0**log_noise, int(rng.integers(2, 10**5))
    share, prior = water_filling(variance, noise, n_rows)
    assert share.sum() == pytest.approx(1)
    assert share.min() >= 0
    assert prior.sum() == pytest.approx(one_shot.EXPLAINED)
    best = explained(share, variance, noise, n_rows)
    for concentration in (0.1, 1.0, 1000.0):
        towards = rng.dirichlet(concentration * share + 1e-3)
        for step in (0.01, 0.1, 1.0):
            other = (1 - step) * share + step * towards
            assert explained(other, variance, noise, n_rows) <= best * (1 + 1e-9)


def test_more_noise_leaves_fewer_directions():
    variance = 0.8 ** np.arange(40)
    kept = [
        int((water_filling(variance, noise, 1000)[0] > 0).sum())
        for noise in (1e-6, 1e-2, 1e-1, 1.0, 1e12)
    ]
    assert kept[0] == 40
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] == 1


def public_rows(X, row_map):
    """Return a table of which every column is public, mapped."""
    return PublicRows(X, np.ones(X.shape[1], dtype=bool), row_map)


def test_the_basis_shares_the_norm_and_is_bounded():
    X = np.random.default_rng(0).normal(size=(500, 6)) * [5, 3, 1, 1, 0.3, 0.1]
    row_map = RowMap()
    whitening = Whitening.learn(public_rows(X, row_map), True, noise=0.01)
    rows = whitening.grid(public_rows(X, row_map))
    phi = rows.values[:, :-1] * GRID
    assert np.linalg.norm(phi, axis=1).max() <= 1
    free = (row_map.mapped(X) - whitening.mean) @ whitening.basis
    variance = np.linalg.eigvalsh(np.cov(row_map.mapped(X).T))[::-1]
    share, _ = water_filling(variance, 0.01, 500)
    kept = free.shape[1]
    assert kept == (share > 0).sum()
    np.testing.assert_allclose(
        free.var(axis=0) / free.var(axis=0).sum(), share[:kept], rtol=1e-6
    )
    assert whitening.precision.shape == (kept + 1,)
    assert whitening.precision.min() > 0


def test_many_columns_have_the_same_leading_directions(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 40))
    row_map = RowMap(feature_bound=100.0)
    exact = Whitening.learn(public_rows(X, row_map), True, noise=0.01)
    monkeypatch.setattr(one_shot, "MOST_COLUMNS", 10)
    sketched = Whitening.learn(public_rows(X, row_map), True, noise=0.01)
    np.testing.assert_allclose(
        exact.basis @ exact.basis.T, sketched.basis @ sketched.basis.T, atol=1e-4
    )


def test_constant_rows_make_a_model_of_the_classes_alone():
    X, y = np.ones((60, 3)), np.repeat([0, 1, 1], 20)
    model = FeatureDPLogisticRegression(
        30.0, public_features="all", bounds=(0, 2), random_state=0
    ).fit(X, y)
    assert (model.predict(X) == 1).all()


def test_fold_meets_the_rows_in_input_units():
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 9, (200, 5))
    row_map = RowMap(np.zeros(5), np.full(5, 10.0), feature_bound=1.0)
    whitening = Whitening.learn(public_rows(X, row_map), True, noise=0.01)
    theta = rng.normal(size=(3, whitening.basis.shape[1] + 1))
    coef, intercept = whitening.fold(theta, row_map)
    phi = (row_map.mapped(X) - whitening.mean) @ whitening.basis
    expected = phi @ theta[:, :-1].T + whitening.bias * theta[:, -1]
    np.testing.assert_allclose(row_map(X) @ coef.T + intercept, expected, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_noise_the_optimum_is_scikit_learns(n_classes):
    """The label statistic is sufficient: same objective, same model."""
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(400, 4))
    y = (phi @ rng.normal(size=(4, n_classes))).argmax(axis=1)
    y[:40] = rng.integers(0, n_classes, 40)
    if n_classes == 2:
        statistic = (y - 0.5)[None] @ phi
    else:
        statistic = denoised(np.eye(n_classes)[y].T @ phi)
    C = 0.1
    objective = Objective(phi, LOSSES["log_loss"], np.eye(4) / (C * 400))
    theta, _ = objective.minimise(statistic / 400, None, 1000)
    theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
    np.testing.assert_allclose(theta, theirs.fit(phi, y).coef_, atol=2e-3)


def test_too_large_a_penalty_is_mended_for_free():
    """A penalty that drowns the signal asks for a smaller factor than a good one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8))
    y = (X @ rng.normal(size=(8, 3))).argmax(axis=1)
    rows = GridRows.build(X / 4, lambda block: block)
    query = LabelSum(rows, y, 3, largest_norm(rows))
    unit = query.unit(1.0)
    exact = query.exact_sum(None, None, unit) * unit
    noisy = denoised(exact + 100.0 * rng.normal(size=exact.shape))
    loss = LOSSES["log_loss"]
    factors = [
        choose_factor(rows, noisy, loss, penalty * np.eye(8), 100.0, rng)[0]
        for penalty in (1.0, 1e-2)
    ]
    assert factors[0] < one_shot.USUAL_FACTOR
    assert factors[0] < factors[1]


@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_one_release_of_the_declared_level(relation, n_classes, digits, releases):
    X, y = digits
    y = y % n_classes
    ledger = PrivacyLedger()
    model = FeatureDPLogisticRegression(
        epsilon=2.0,
        bounds=(0, 16),
        public_features="all",
        solver="one-shot",
        neighboring_relation=relation,
        names="pixels",
        ledger=ledger,
    ).fit(X, y)
    (seen,) = releases
    (event,) = model.privacy_.events
    assert ledger.events == (event,)
    assert event.label == "label statistic"
    assert seen["std"] == event.noise_std[0]
    query = seen["query"]
    reach = query.sensitivity(Relation.of(relation))
    assert gdp_epsilon(1e-5, reach / seen["std"]) == pytest.approx(2.0, rel=1e-9)
    assert model.privacy_.epsilon <= 2.0
    assert "every iterate of the loop" not in model.privacy_.released


def test_labels_reach_the_model_through_the_release_alone(digits, monkeypatch):
    """With the released statistic held fixed, other labels give the same model."""
    X, y = digits
    fixed = np.random.default_rng(0).normal(size=(10, 500)) * 10

    def frozen(query, theta, **kwargs):
        return fixed[:, : query.shape[1]].copy()

    monkeypatch.setattr("skfdp.releases.desk._noisy_sum", frozen)
    monkeypatch.setattr(
        "skfdp.releases.noise.Streams.private", lambda *key: np.random.default_rng(1)
    )
    models = [
        FeatureDPLogisticRegression(
            bounds=(0, 16), public_features="all", solver="one-shot", classes=range(10)
        ).fit(X, labels)
        for labels in (y, y[::-1])
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("parameters", [{}, {"C": 1.0}, {"fit_intercept": False}])
def test_it_learns_and_grows_with_epsilon(n_classes, parameters, digits):
    X, y = digits
    y = y % n_classes
    scores = []
    for epsilon in (0.1, 30.0):
        model = FeatureDPLogisticRegression(
            epsilon=epsilon,
            bounds=(0, 16),
            public_features="all",
            solver="one-shot",
            random_state=0,
            **parameters,
        ).fit(X[:1200], y[:1200])
        scores.append(model.score(X[1200:], y[1200:]))
        assert model.intercept_.shape == model.coef_.shape[:1]
    assert scores[1] > scores[0]
    assert scores[1] > 0.85


def solver_of(model):
    (*_, event) = model.privacy_.events
    return {"label statistic": "one-shot", "descent": "loop"}[event.label]


@pytest.mark.parametrize("target", [2, 3])
def test_label_dp_is_one_shot_by_default(target, small):
    X, y = small
    y = np.arange(len(y)) % target
    model = FeatureDPLogisticRegression(public_features="all", bounds=(0, 1))
    assert solver_of(model.fit(X, y)) == "one-shot"
    assert solver_of(model.set_params(solver="dp-gd").fit(X, y)) == "loop"
    assert solver_of(model.set_params(solver="dp-sgd").fit(X, y)) == "loop"


@pytest.mark.parametrize(
    "parameters",
    [
        {"public_features": [0]},
        {"public_features": None, "public_target": True},
        {"class_weight": {0: 2.0}},
        {"public_loss": "zero"},
        {"batch_size": 50, "solver": "dp-sgd"},
        {"clip_norm": 0.5},
        {"learning_rate": 1.0},
        {"momentum": 0.5},
        {"average": "tail"},
        {"noise_decay": 0},
        {"radius": 2.0},
        {"centering": None},
        {"private_weight": 0.5},
    ],
)
def test_what_only_the_loop_can_do_chooses_the_loop(parameters, small):
    model = FeatureDPLogisticRegression(
        **{"public_features": "all", "bounds": (0, 1)} | parameters
    )
    assert solver_of(model.fit(*small)) == "loop"


@pytest.mark.parametrize(
    "parameters", [{"public_loss": None}, {"batch_size": None}, {"C": 1.0}]
)
def test_what_both_can_do_leaves_the_choice(parameters, small):
    model = FeatureDPLogisticRegression(
        public_features="all", bounds=(0, 1), **parameters
    )
    assert solver_of(model.fit(*small)) == "one-shot"


def test_a_budget_below_the_noise_warns(small):
    X, y = small
    model = FeatureDPLogisticRegression(0.01, public_features="all", bounds=(0, 1))
    with pytest.warns(UtilityWarning, match=f"small for n={len(X)} records: the noise"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(epsilon=100.0).fit(X, y)


def test_noise_beyond_the_grid_is_left_to_the_loop(small):
    model = FeatureDPLogisticRegression(
        epsilon=1e-9, delta=1e-8, public_features="all", bounds=(0, 1)
    )
    with pytest.warns(UserWarning):
        model.fit(*small)
    assert solver_of(model) == "loop"


def test_the_plan_does_not_see_the_labels(digits, monkeypatch):
    """Whitening, noise and bounds are made before the ledger is charged."""
    X, y = digits
    seen, ledger, plan = [], PrivacyLedger(), LabelStatistic.plan

    def spied(self, public, prepared, budget):
        assert public.target is None and public.labels is None
        found = plan(self, public, prepared, budget)
        seen.append((pickle.dumps((public, prepared, found)), len(ledger)))
        return found

    monkeypatch.setattr(LabelStatistic, "plan", spied)
    for labels in (y, np.zeros_like(y)):
        FeatureDPLogisticRegression(
            public_features="all",
            bounds=(0, 16),
            classes=range(10),
            names="pixels",
            target_name="digit",
            ledger=ledger,
        ).fit(X, labels)
    (ours, before), (theirs, between) = seen
    assert ours == theirs
    assert (before, between, len(ledger)) == (0, 1, 2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"public_features": [0]}, "one-shot' is label-DP"),
        ({"class_weight": {0: 2.0}}, "class_weight=.* is not for solver='one-shot'"),
        ({"public_loss": "zero"}, "public_loss='zero' is not for solver='one-shot'"),
        ({"batch_size": 50}, "batch_size=50 is not for solver='one-shot'"),
        ({"epsilon": 1e-9, "delta": 1e-8}, "more noise than the grid"),
    ],
)
def test_refusals(parameters, message, small):
    ledger = PrivacyLedger()
    model = FeatureDPLogisticRegression(
        **{"public_features": "all", "solver": "one-shot", "bounds": (0, 1)}
        | parameters,
        ledger=ledger,
    )
    with pytest.raises(ValueError, match=message):
        model.fit(*small)
    assert len(ledger) == 0
