"""Linear classifiers and regressors with differential privacy."""

from skfdp.estimators.linear_model.dpsgd_f import DPSGDFClassifier
from skfdp.estimators.linear_model.feature_dp import FeatureDPLogisticRegression
from skfdp.estimators.linear_model.regressors import DPSGDFRegressor, FeatureDPRegressor

__all__ = [
    "DPSGDFClassifier",
    "DPSGDFRegressor",
    "FeatureDPLogisticRegression",
    "FeatureDPRegressor",
]
