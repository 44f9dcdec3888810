"""Linear classifiers and regressors with differential privacy."""

from skfdp.linear_model.dpsgd_f import DPSGDFClassifier
from skfdp.linear_model.feature_dp import FeatureDPLogisticRegression
from skfdp.linear_model.glm import DPSGDFRegressor, FeatureDPRegressor

__all__ = [
    "DPSGDFClassifier",
    "DPSGDFRegressor",
    "FeatureDPLogisticRegression",
    "FeatureDPRegressor",
]
