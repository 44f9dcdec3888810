"""Strong penalties shrink, and no fit ends in a model that exploded in silence."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import skfdp
from skfdp.data.validation import UtilityWarning
from skfdp.mechanisms.descent import HeavyBall
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD

N, D = 2_000, 6


def nightly(*given):
    """Mark values between the ends, which run each time."""
    return [pytest.param(*one, marks=pytest.mark.slow) for one in given]


PUBLIC = {"public_features": [0, 1], "public_target": True}
ALL, LOOP = {"public_features": "all"}, {"solver": "noisy-gd"}
PADDED = {"solver": FeatureDPSGD(public_loss="zero")}
DPSGDF, LOGISTIC = skfdp.DPSGDFClassifier, skfdp.FeatureDPLogisticRegression
CLASSIFIERS = {
    "DPSGDF": (DPSGDF, {}),
    "squared hinge": (DPSGDF, {"loss": "squared_hinge"}),
    "short rows": (LOGISTIC, {"solver": NoisyGradientDescent(row_norm=0.1)}),
    "public parts": (LOGISTIC, PUBLIC),
    "public loss": (LOGISTIC, PUBLIC | PADDED),
    "label-DP": (LOGISTIC, ALL | LOOP),
    "one-shot": (LOGISTIC, ALL),
    "Poisson batches": (LOGISTIC, {"solver": NoisySGD(batch_size=500)}),
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


@pytest.mark.parametrize("C", [1e-3, 1e-300, *nightly((1e-5,), (1e-12,))])
@pytest.mark.parametrize("case", CLASSIFIERS)
def test_a_strong_penalty_shrinks_classifiers(case, C, data):
    estimator, parameters = CLASSIFIERS[case]
    X, y, *_ = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", skfdp.PrivacyWarning)
        model = estimator(C=C, bounds=(0, 1), random_state=0, **parameters).fit(X, y)
    # A public model is penalised by whoever fits it.
    private = model.coef_[:, 2:] if case == "public parts" else model.coef_
    assert np.abs(private).max() < max(2e3 * C, 1e-25)
    assert np.abs(model.intercept_).max() < 5


@pytest.mark.parametrize("estimator", [skfdp.DPSGDFRegressor, skfdp.FeatureDPRegressor])
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
    given = {"bounds": (0, 1), "target_bounds": bounds, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", skfdp.PrivacyWarning)
        model = estimator(loss=loss, alpha=alpha, **given).fit(X, target)
    assert np.abs(model.coef_).max() < max(30 * n_records / alpha, 1e-25)
    assert np.abs(model.predict(X) - target.mean()).max() < 3 * target.std()


@pytest.mark.parametrize("epsilon", [1e6, *nightly((1e9,)), 1e12])
def test_no_budget_is_too_large(epsilon, data):
    """A clip norm without end would leave residuals between the integers."""
    X, y, *_ = data
    ours = skfdp.FeatureDPLogisticRegression(
        epsilon, bounds=(0, 1), C=0.1, random_state=0
    )
    ours.fit(X, y)
    theirs = LogisticRegression(C=0.1, tol=1e-12, max_iter=10_000).fit(X, y)
    size = np.abs(theirs.coef_).max()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.01 * size)


# -- fits that explode for another reason ----------------------------------------------
FAST = NoisyGradientDescent(learning_rate=1e6)
TINY = FeatureDPSGD(public_loss="gaussian", clip_norm=1e-12)
HEAVY = FeatureDPSGD(public_loss="zero", gradient_scale=1e12)
NETWORK = {"hidden_layer_sizes": (4,), **PUBLIC}
EXPLODING = [
    (DPSGDF, FAST, {}),
    (skfdp.DPSGDFRegressor, FAST, {"target_bounds": (0, 1)}),
    (LOGISTIC, FAST, {"C": 1.0}),
    *((LOGISTIC, solver, PUBLIC) for solver in (TINY, HEAVY)),
    (skfdp.FeatureDPMLPClassifier, NoisySGD(learning_rate=1e6, max_iter=5), NETWORK),
]


@pytest.mark.parametrize(("estimator", "solver", "more"), EXPLODING)
def test_a_fit_that_explodes_says_so(estimator, solver, more, data):
    X, y, *_ = data
    model = estimator(bounds=(0, 1), random_state=0, solver=solver, **more)
    with pytest.warns(UtilityWarning, match="the fit diverged: .*lower learning_rate"):
        model.fit(X[:500], y[:500])


def charged(message, data, **parameters):
    """Return the charges of a fit that ends in an error."""
    X, y, *_ = data
    ledger = skfdp.PrivacyLedger()
    model = LOGISTIC(bounds=(0, 1), ledger=ledger, **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(named(X[:300]), y[:300])
    assert not hasattr(model, "coef_")
    return {entry.charge for entry in ledger.entries}


def test_a_fit_that_leaves_the_floats_is_an_error_after_the_charge(data, monkeypatch):
    def overflow(self, theta, *_):
        return np.full_like(theta, np.inf)

    monkeypatch.setattr(HeavyBall, "update", overflow)
    why = "the descent overflowed in step 1 of .*the charge for this fit stays"
    assert charged(why, data, public_features=[0]) == {1}


def test_a_public_model_without_finite_margins_is_refused_before_the_charge(data):
    X, y, *_ = data
    wild = LogisticRegression().fit(X[:, :2], y)
    wild.coef_ = np.full_like(wild.coef_, np.inf)
    message = "public_model=.* margins that are not finite"
    assert not charged(message, data, **PUBLIC, public_model=wild)


TOO_LATE = {"solver": NoisyGradientDescent(noise_decay=7)}
RANDOM = {"hidden_layer_sizes": (8,)}
PURE_NOISE = [
    (LOGISTIC, {}, {"solver": NoisyGradientDescent(noise_decay=5)}),
    (skfdp.FeatureDPRegressor, {"target_bounds": (0, 1)}, TOO_LATE),
    *nightly(
        (skfdp.FeatureDPMLPClassifier, RANDOM, {"solver": NoisySGD(learning_rate=100)})
    ),
]


@pytest.mark.parametrize(("estimator", "usual", "bad"), PURE_NOISE)
def test_a_schedule_that_ends_in_noise_is_told_before_the_charge(
    estimator, usual, bad, data
):
    X, y, *_ = data
    ledger, told = (
        skfdp.PrivacyLedger(),
        "this schedule leaves noise of standard deviation",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=told)
        estimator(1.0, bounds=(0, 1), **usual).fit(X, y)
        with pytest.raises(UtilityWarning, match=told):
            estimator(1.0, bounds=(0, 1), ledger=ledger, **usual | bad).fit(X, y)
    assert not len(ledger.entries)
