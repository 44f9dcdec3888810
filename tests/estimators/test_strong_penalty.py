"""Strong penalties shrink, and no fit ends in a model that exploded in silence."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivacyWarning,
)
from skfdp.data.validation import UtilityWarning
from skfdp.mechanisms.descent import LARGEST_WEIGHT, HeavyBall, warn_of_divergence
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD, descent
from skfdp.solvers.descent import Descent
from skfdp.solvers.parameters import learning_rate_of_penalised

N, D = 2_000, 6


def nightly(*given):
    """Mark values between the ends, which run each time."""
    return [pytest.param(*one, marks=pytest.mark.slow) for one in given]


PUBLIC = {"public_features": [0, 1], "public_target": True}
CLASSIFIERS = {
    "DPSGDF": (DPSGDFClassifier, {}),
    "squared hinge": (DPSGDFClassifier, {"loss": "squared_hinge"}),
    "nothing public": (FeatureDPLogisticRegression, {}),
    "short rows": (
        FeatureDPLogisticRegression,
        {"solver": NoisyGradientDescent(row_norm=0.1)},
    ),
    "public parts": (FeatureDPLogisticRegression, PUBLIC),
    "public loss": (
        FeatureDPLogisticRegression,
        {"solver": FeatureDPSGD(public_loss="zero"), **PUBLIC},
    ),
    "label-DP": (
        FeatureDPLogisticRegression,
        {"public_features": "all", "solver": "noisy-gd"},
    ),
    "one-shot": (FeatureDPLogisticRegression, {"public_features": "all"}),
    "Poisson batches": (
        FeatureDPLogisticRegression,
        {"solver": NoisySGD(batch_size=500)},
    ),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((N, D))
    margin = X @ rng.normal(size=D)
    y = (margin + 0.3 * rng.normal(size=N) > np.quantile(margin, 0.7)).astype(int)
    counts = rng.poisson(np.exp(margin / 2)).astype(float)
    return X, y, 5 * margin + rng.normal(size=N), counts


def named(X):
    """Return rows whose columns have names, as ledgers ask for."""
    return pd.DataFrame(X, columns=[f"u{j}" for j in range(D)])


@pytest.mark.parametrize(
    "C",
    [1e-3, 1e-300, *nightly((1e-5,), (1e-12,))],
)
@pytest.mark.parametrize("case", CLASSIFIERS)
def test_a_strong_penalty_shrinks_classifiers(case, C, data):
    estimator, parameters = CLASSIFIERS[case]
    X, y, *_ = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        model = estimator(C=C, bounds=(0, 1), random_state=0, **parameters).fit(X, y)
    # A public model is penalised by whoever fits it.
    private = model.coef_[:, 2:] if case == "public parts" else model.coef_
    assert np.abs(private).max() < max(2e3 * C, 1e-25)
    assert np.abs(model.intercept_).max() < 5


@pytest.mark.parametrize("estimator", [DPSGDFRegressor, FeatureDPRegressor])
@pytest.mark.parametrize(
    ("loss", "alpha"),
    [
        *(("squared_error", 1e4), ("squared_error", 1e300)),
        *nightly(("squared_error", 1e8), ("squared_error", 1e12), ("huber", 1e12)),
        *(("huber", 1e4), ("poisson", 10.0), ("poisson", 1e300)),
        *nightly(("poisson", 1e4), ("poisson", 1e12)),
    ],
)
def test_a_strong_penalty_shrinks_regressors(estimator, loss, alpha, data):
    X, _, y, counts = data
    target = counts if loss == "poisson" else y
    n_records = 1 if loss == "poisson" else N  # alpha is per record there
    bounds = (min(0.0, target.min()), target.max())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        model = estimator(
            loss=loss, alpha=alpha, bounds=(0, 1), target_bounds=bounds, random_state=0
        ).fit(X, target)
    assert np.abs(model.coef_).max() < max(30 * n_records / alpha, 1e-25)
    assert np.abs(model.predict(X) - target.mean()).max() < 3 * target.std()


# No row is cut, whatever its length is taken to be. A clip norm of 3 binds nowhere
# here; that of the defaults is larger still, and so is its noise.
@pytest.mark.slow
@pytest.mark.parametrize("clip_norm", [3.0, "auto"])
@pytest.mark.parametrize("feature_bound", [D**0.5, 1.0, "auto"])
@pytest.mark.parametrize("C", [1e-1, 1e-3, 1e-5, 1e-12])
@pytest.mark.parametrize("estimator", [DPSGDFClassifier, FeatureDPLogisticRegression])
def test_the_limit_of_epsilon_is_scikit_learns_optimum(
    estimator, C, feature_bound, clip_norm, data
):
    X, y, *_ = data
    ours = estimator(
        1e5,
        C=C,
        bounds=(0, 1),
        random_state=0,
        solver=NoisyGradientDescent(
            row_norm=feature_bound, clip_norm=clip_norm, normalize=False
        ),
    ).fit(X, y)
    theirs = LogisticRegression(C=C, tol=1e-12, max_iter=10_000).fit(X, y)
    size = np.abs(theirs.coef_).max()
    if clip_norm == "auto":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.01 * size)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=0.03)
    else:
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0.02, atol=0.01 * C)
        # The noise of this budget has a standard deviation of 0.004.
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=0.03)


@pytest.mark.parametrize("epsilon", [1e6, *nightly((1e9,)), 1e12])
def test_no_budget_is_too_large(epsilon, data):
    """A clip norm without end would leave residuals between the integers."""
    X, y, *_ = data
    ours = FeatureDPLogisticRegression(epsilon, bounds=(0, 1), C=0.1, random_state=0)
    ours.fit(X, y)
    theirs = LogisticRegression(C=0.1, tol=1e-12, max_iter=10_000).fit(X, y)
    size = np.abs(theirs.coef_).max()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.01 * size)


@pytest.mark.slow
@pytest.mark.parametrize("C", [1.0, 0.1])
def test_a_moderate_penalty_trains_as_before(C, data, monkeypatch):
    """The gradient at the start of a step, under the same noise, is the yardstick."""
    X, y, *_ = data

    def fits():
        return [
            DPSGDFClassifier(C=C, bounds=(0, 1), random_state=seed).fit(X, y)
            for seed in range(8)
        ]

    implicit = fits()

    def unpenalised(self, *given):
        return rule(dataclasses.replace(self, penalty=None), *given)

    def gradient(method, records, loss, offset, query, coordinates, mechanism):
        curvature = coordinates.penalty_curvature(method.penalty)
        return lambda theta: curvature * theta

    rule = Descent._rule
    monkeypatch.setattr(Descent, "_rule", unpenalised)
    monkeypatch.setattr(descent, "public_gradient", gradient)
    moved = []
    for ours, theirs in zip(implicit, fits(), strict=True):
        size = np.linalg.norm(theirs.coef_)
        moved.append(np.linalg.norm(ours.coef_ - theirs.coef_) / size)
        assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.01)
    assert min(moved) > 0
    assert np.mean(moved) < 0.1


@pytest.mark.parametrize("C", [1e-3, *nightly((1e-6,)), 1e-9])
def test_a_strong_penalty_averages_the_noise_of_all_releases(C, data):
    """The direction is that of scikit-learn, and not of the last, noisiest release."""
    X, y, *_ = data
    theirs = LogisticRegression(C=C, tol=1e-12).fit(X, y).coef_[0]
    cosines = []
    for seed in range(5):
        ours = DPSGDFClassifier(1.0, C=C, bounds=(0, 1), random_state=seed).fit(X, y)
        coef = ours.coef_[0]
        cosines.append(coef @ theirs / np.linalg.norm(coef) / np.linalg.norm(theirs))
    assert np.mean(cosines) > 0.9


@pytest.mark.parametrize("curvature", [0.0, 1e-3, 1.0, 1e3, 1e30])
def test_a_step_solves_the_implicit_equation(curvature):
    rng = np.random.default_rng(1)
    theta, velocity, gradient = rng.normal(size=(3, 2, 5))
    diagonal = np.full((2, 5), curvature)
    rule = HeavyBall(0.5, 0.9, 10, curvature=diagonal)
    found, start = velocity.copy(), theta.copy()
    after = rule.update(theta, found, gradient.copy(), 4)
    if curvature < 1e4:  # where the product of a huge and a tiny number tells anything
        expected = 0.9 * velocity + gradient + diagonal * after
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(after, start - 0.3 * found, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("curvature", [1e-2, 1.0, 1e2, 1e12])
def test_the_implicit_step_is_stable_for_every_penalty(curvature, momentum):
    """Of ``(theta - 1)**2 / 2 + curvature theta**2 / 2``, the minimum."""
    rule = HeavyBall(1.0, momentum, 5_000, decay=0.0, curvature=np.array([curvature]))
    theta, velocity = np.array([5.0]), np.zeros(1)
    for step in range(5_000):
        theta = rule.update(theta, velocity, theta - 1.0, step)
        assert abs(theta[0]) <= 10
    assert theta[0] == pytest.approx(1 / (1 + curvature), rel=1e-6)


def test_penalised_weights_take_no_more_steps_than_they_need():
    curvature = np.array([0.0, 1e-6, 0.5, 1e300])
    found = learning_rate_of_penalised(40.0, 200, momentum=0.9, curvature=curvature)
    assert found[0] == found[1] == 40.0
    # the sum of rate_t D / (1 - momentum) over 200 steps that decay to 0, about 8
    constants = found[2:] * curvature[2:] * 200 / 2 / (1 - 0.9)
    np.testing.assert_allclose(constants, 8.0)


# -- fits that explode for another reason ----------------------------------------------
EXPLODING = {
    "learning rate": (
        DPSGDFClassifier,
        {"solver": NoisyGradientDescent(learning_rate=1e6)},
    ),
    "learning rate of a regressor": (
        DPSGDFRegressor,
        {"target_bounds": (0, 1), "solver": NoisyGradientDescent(learning_rate=1e6)},
    ),
    "learning rate with a penalty": (
        FeatureDPLogisticRegression,
        {"C": 1.0, "solver": NoisyGradientDescent(learning_rate=1e6)},
    ),
    "public loss beside a tiny clip norm": (
        FeatureDPLogisticRegression,
        {"solver": FeatureDPSGD(public_loss="gaussian", clip_norm=1e-12), **PUBLIC},
    ),
    "private weight": (
        FeatureDPLogisticRegression,
        {"solver": FeatureDPSGD(public_loss="zero", gradient_scale=1e12), **PUBLIC},
    ),
    "huge public gradients": (
        FeatureDPLogisticRegression,
        {
            "public_features": [0],
            "solver": FeatureDPSGD(
                public_loss=lambda coef, intercept, X, labels: (
                    np.full_like(coef, 1e300),
                    np.zeros_like(intercept),
                )
            ),
        },
    ),
    "network": (
        FeatureDPMLPClassifier,
        {
            "hidden_layer_sizes": (4,),
            "solver": NoisySGD(learning_rate=1e6, max_iter=5),
            **PUBLIC,
        },
    ),
}


@pytest.mark.parametrize("case", EXPLODING)
def test_a_fit_that_explodes_says_so(case, data):
    estimator, parameters = EXPLODING[case]
    X, y, *_ = data
    with pytest.warns(UtilityWarning, match="the fit diverged: .*lower learning_rate"):
        estimator(bounds=(0, 1), random_state=0, **parameters).fit(X[:500], y[:500])


def test_what_counts_as_an_explosion():
    """A number of the released iterate alone; larger weights to start with may grow."""
    theta = np.array([1.0, -LARGEST_WEIGHT])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        warn_of_divergence(theta)
        warn_of_divergence(10 * theta, np.array([20.0]))
        warn_of_divergence(np.zeros((0, 3)))
    with pytest.warns(UtilityWarning, match=r"exceeds 1e\+04"):
        warn_of_divergence(1.01 * theta)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.nan, "public_loss returned a gradient that is not finite"),
        (np.inf, "public_loss returned a gradient that is not finite"),
        (1.7e308, "the descent overflowed in step 1 of"),
    ],
)
def test_a_fit_that_leaves_the_floats_is_an_error_after_the_charge(
    returned, message, data
):
    X, y, *_ = data
    ledger = PrivacyLedger()

    def public_loss(coef, intercept, X_public, labels):
        finite = returned if coef.any() or np.isfinite(returned) else 0.0
        return np.full_like(coef, finite), np.zeros_like(intercept)

    model = FeatureDPLogisticRegression(
        public_features=[0],
        bounds=(0, 1),
        ledger=ledger,
        solver=FeatureDPSGD(public_loss=public_loss),
    )
    with pytest.raises(ValueError, match=f"{message}.*the charge for this fit stays"):
        model.fit(named(X[:300]), y[:300])
    assert not hasattr(model, "coef_")
    assert {entry.charge for entry in ledger.entries} == {1}


@pytest.mark.parametrize(
    "returned", [None, 5.0, ("a", "b"), (np.zeros(17), 0.0), (np.nan, 0.0)]
)
def test_a_public_loss_that_returns_no_gradient_costs_nothing(returned, data):
    X, y, *_ = data
    ledger = PrivacyLedger()
    model = FeatureDPLogisticRegression(
        public_features=[0],
        bounds=(0, 1),
        ledger=ledger,
        solver=FeatureDPSGD(public_loss=lambda *_: returned),
    )
    with pytest.raises(ValueError, match=r"public_loss (must )?return.* gradient"):
        model.fit(named(X[:300]), y[:300])
    assert not ledger.entries


def test_a_public_model_without_finite_margins_is_refused_before_the_charge(data):
    X, y, *_ = data
    wild = LogisticRegression().fit(X[:, :2], y)
    wild.coef_ = np.full_like(wild.coef_, np.inf)
    ledger = PrivacyLedger()
    model = FeatureDPLogisticRegression(
        **PUBLIC,
        public_model=wild,
        bounds=(0, 1),
        ledger=ledger,
    )
    with pytest.raises(ValueError, match="public_model=.* margins that are not finite"):
        model.fit(named(X), y)
    assert len(ledger.entries) == 0


SMALL = {"epsilon": 1.0, "bounds": (0, 1)}
NETWORK = {**SMALL, "hidden_layer_sizes": (8,), "pretraining": None}
OF_NOISE = "this schedule leaves noise of standard deviation"
PURE_NOISE = {
    "noise_decay=5": (
        FeatureDPLogisticRegression,
        SMALL,
        {"solver": NoisyGradientDescent(noise_decay=5)},
    ),
    "noise_decay=7": (
        DPSGDFClassifier,
        SMALL,
        {"solver": NoisyGradientDescent(noise_decay=7)},
    ),
    "regressor": (
        FeatureDPRegressor,
        {**SMALL, "target_bounds": (0, 1)},
        {"solver": NoisyGradientDescent(noise_decay=7)},
    ),
    "network, long steps": (
        FeatureDPMLPClassifier,
        NETWORK,
        {"solver": NoisySGD(learning_rate=100)},
    ),
    "network, noise_decay=7": (
        FeatureDPMLPClassifier,
        NETWORK,
        {"solver": NoisyGradientDescent(noise_decay=7)},
    ),
}


def warned(estimator, parameters, X, y, ledger):
    """Return whether the plan warned of its noise, before anything was charged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator(**parameters).fit(X, y)
    told = any(OF_NOISE in str(w.message) for w in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=OF_NOISE)
        try:
            estimator(ledger=ledger, **parameters).fit(X, y)
        except UtilityWarning:
            assert not len(ledger)
    return told


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] * case.startswith("network"))
        for case in PURE_NOISE
    ],
)
def test_a_schedule_that_ends_in_noise_is_told_before_the_charge(case, data):
    estimator, usual, bad = PURE_NOISE[case]
    X, y, *_ = data
    assert not warned(estimator, usual, X, y, PrivacyLedger())
    assert warned(estimator, usual | bad, X, y, PrivacyLedger())


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {"solver": NoisyGradientDescent(learning_rate=1e3, max_iter=200)},
        {"solver": NoisyGradientDescent(momentum=0.99)},
        {"solver": NoisyGradientDescent(noise_decay=2)},
    ],
)
def test_a_schedule_that_works_is_not_told_to_be_noise(parameters, data):
    X, y, *_ = data
    given = SMALL | parameters
    ledger = PrivacyLedger()
    assert not warned(FeatureDPLogisticRegression, given, X, y, ledger)
    models = [FeatureDPLogisticRegression(random_state=s, **given) for s in range(5)]
    assert np.mean([model.fit(X, y).score(X, y) for model in models]) > 0.8
