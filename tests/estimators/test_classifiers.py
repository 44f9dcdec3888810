"""The classifiers as a user of scikit-learn meets them."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression
from skfdp.kernels.losses import loss_named
from skfdp.solvers import NoisyGradientDescent

KINDS = (DPSGDFClassifier, FeatureDPLogisticRegression)
STEP = NoisyGradientDescent(max_iter=1)


# -- without privacy ------------------------------------------------------------------
@pytest.mark.parametrize(("loss", "gap"), [("squared_hinge", 1e-5), ("hinge", 0.02)])
def test_infinite_epsilon_of_the_hinges(loss, gap):
    """L-BFGS is exact on the squared hinge and near the optimum on the hinge."""
    X, y = load_breast_cancer(return_X_y=True)
    X, given = StandardScaler().fit_transform(X), {"fit_intercept": False, "C": 0.1}
    ours = DPSGDFClassifier(float("inf"), loss=loss, **given).fit(X, y)
    theirs = LinearSVC(loss=loss, dual=True, tol=1e-8, max_iter=10**6, **given)
    theirs.fit(X, y)

    def value(coef):
        return loss_named(loss).value(X @ coef.T, y).sum() + (coef**2).sum() / 0.2

    assert value(ours.coef_) <= value(theirs.coef_) * (1 + gap)


# -- with privacy ---------------------------------------------------------------------
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", ["auto", "noisy-sgd"])
def test_with_nothing_public_the_two_are_one_method(n_classes, solver, small):
    y = np.arange(300) % n_classes
    made = [kind(bounds=(0, 1), solver=solver) for kind in KINDS]
    ours, theirs = (model.plan(small[0], y) for model in made)
    assert ours.events == theirs.events and ours.assumptions == theirs.assumptions


def test_probabilities_only_for_the_log_loss(small):
    model = DPSGDFClassifier(loss="hinge", bounds=(0, 1)).fit(*small)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(make_pipeline(model), "predict_log_proba")
    for name in ("predict_proba", "predict_log_proba"):
        with pytest.raises(AttributeError, match=name) as caught:
            getattr(model, name)(small[0])
        assert "need loss='log_loss', but loss='hinge'" in str(caught.value.__cause__)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_of_probabilities_too_small_for_a_float(n_classes, small):
    model = DPSGDFClassifier(bounds=(0, 1), solver=STEP)
    model.fit(small[0], np.arange(300) % n_classes)
    model.coef_ *= 0
    model.intercept_ = np.array([-2000.0, 50.0, 0.0])[: len(model.intercept_)]
    expected = [0.0, -2000.0] if n_classes == 2 else [-2050.0, -np.exp(-50), -50.0]
    logs = model.predict_log_proba(small[0])
    np.testing.assert_allclose(logs[0], expected, rtol=1e-12, atol=1e-15)
    assert (model.predict_proba(small[0])[0] == 0).sum() == 1


@pytest.mark.parametrize("margin", [-50.0, -1.0, 36.0, 37.0, 50.0, 700.0])
def test_no_class_is_impossible_before_floats_end(margin, small):
    """scikit-learn's checks compare the logarithm of the one with the other."""
    model = DPSGDFClassifier(bounds=(0, 1), solver=STEP).fit(*small)
    model.coef_ *= 0
    model.intercept_ = np.array([margin])
    found, logs = (
        getattr(model, name)(small[0])[0]
        for name in ("predict_proba", "predict_log_proba")
    )
    np.testing.assert_allclose(np.log(found), logs, rtol=0.01, atol=1e-12)
    assert found.sum() == 1


@pytest.mark.parametrize(("bounds", "norm"), [((0, 1), 2.0), ({0: (0, 1)}, 1.0)])
def test_rows_that_are_normalised_have_the_norm_that_none_exceeds(bounds, norm, small):
    """The root of the number of columns, where all of them are within bounds."""
    solver = NoisyGradientDescent(normalize=True, max_iter=2)
    model = DPSGDFClassifier(bounds=bounds, solver=solver).fit(*small)
    assert model.input_scaler_.feature_bound == norm
