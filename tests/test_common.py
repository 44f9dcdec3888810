"""scikit-learn's own checks on every public estimator."""

import math

import pytest
import sklearn
from packaging.version import Version
from sklearn.base import is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.estimator_checks import (
    check_class_weight_classifiers,
    check_classifiers_train,
    parametrize_with_checks,
)

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    LabelDPClassifier,
    LabelDPRegressor,
    PrivateCenteringTransformer,
)
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent

# The data of the checks change with the versions.
OLDER = Version(sklearn.__version__) < Version("1.7")
CLASSIFIERS = (DPSGDFClassifier, FeatureDPLogisticRegression)
INSTANCES = [
    *(estimator() for estimator in CLASSIFIERS),
    PrivateCenteringTransformer(),
    DPSGDFRegressor(target_bounds=(-9, 9)),
    FeatureDPRegressor(target_bounds=(-9, 9)),
    FeatureDPMLPClassifier(float("inf"), hidden_layer_sizes=(10,)),
    LabelDPClassifier(LogisticRegression(), 30.0),
    LabelDPRegressor(LinearRegression(), 30.0, target_bounds=(-9, 9)),
]
# Other values of the parameters, of the same classes.
MORE_INSTANCES = [
    # the first column stays private, so that tables of one column have one
    PrivateCenteringTransformer(public_features=slice(1, None)),
    FeatureDPLogisticRegression(epsilon=float("inf")),
    FeatureDPRegressor(epsilon=float("inf")),
    DPSGDFClassifier(loss="hinge"),
    DPSGDFClassifier(loss="squared_hinge"),
    DPSGDFClassifier(epsilon=float("inf")),
    FeatureDPLogisticRegression(solver="noisy-sgd"),
    FeatureDPLogisticRegression(2.0, public_features="all", solver=FeatureDPSGD()),
    DPSGDFRegressor(target_bounds=(-9, 9), loss="huber"),
    FeatureDPRegressor(target_bounds=(0, 9), loss="poisson"),
    FeatureDPRegressor(epsilon=float("inf"), loss="poisson"),
    FeatureDPMLPClassifier(hidden_layer_sizes=(10,)),
]


WEIGHTED = *CLASSIFIERS, DPSGDFRegressor, FeatureDPRegressor, LabelDPRegressor
WEIGHTED = *WEIGHTED, FeatureDPMLPClassifier
NOT_REPEATED = (
    "k rows are k records, each of which the noise hides; one row of weight k is one "
    "record that counts k times, and has more noise; passes at epsilon=inf, and up to "
    "the noise at a large budget, see estimators/test_weights.py"
)


def expected_failures(estimator):
    """Only what privacy itself rules out."""
    found, name = {}, "check_sample_weight_equivalence_on_{}_data"
    if isinstance(estimator, WEIGHTED) and not math.isinf(estimator.epsilon):
        found = {name.format(kind): NOT_REPEATED for kind in ("dense", "sparse")}
    if isinstance(estimator, FeatureDPMLPClassifier) and estimator.epsilon == math.inf:
        why = "scikit-learn's network draws batches of rows, whatever their weights"
        found = {name.format(kind): why for kind in ("dense", "sparse")}
    if is_regressor(estimator) and estimator.epsilon == math.inf:
        return found  # a target without any number is refused
    if is_regressor(estimator):
        # No value of a private target decides whether there is a fit.
        why = "a private target may be NaN or infinite"
        return found | {"check_supervised_y_no_nan": why}
    if isinstance(estimator, LabelDPClassifier):
        return {"check_complex_data": "complex labels, which come first, have no order"}
    if isinstance(estimator, PrivateCenteringTransformer) and estimator.public_features:
        return {"check_estimators_nan_inf": "the first column is private: may be NaN"}
    why, large = None, estimator.epsilon > 1000
    if isinstance(estimator, FeatureDPMLPClassifier) and OLDER and large:
        why = "scikit-learn's network takes weights from 1.7 on"
    if isinstance(estimator, (*CLASSIFIERS, FeatureDPMLPClassifier)) and not large:
        why = (
            "a class weight of 1000 must make 25 records outweigh everything, but a "
            "private record counts for clip_norm at most; passes at epsilon=5000"
        )
    return found | ({"check_class_weight_classifiers": why} if why else {})


@parametrize_with_checks(INSTANCES, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
    assert True  # the checks raise


@pytest.mark.nightly
@parametrize_with_checks(MORE_INSTANCES, expected_failed_checks=expected_failures)
def test_scikit_learn_checks_of_more_instances(estimator, check):
    check(estimator)
    assert True


def test_models_learn_where_the_budget_allows():
    # Columns without bounds are taken as scaled; those of the check spread over 20.
    solver = NoisyGradientDescent(row_norm=20.0)
    model = FeatureDPLogisticRegression(epsilon=5000, solver=solver)
    check_class_weight_classifiers("epsilon=5000", model)
    check_classifiers_train("epsilon=5000", FeatureDPMLPClassifier(epsilon=5000))
    assert True
