"""Linear classifiers with differential privacy."""

from skfdp.linear_model.dpsgd_f import DPSGDFClassifier
from skfdp.linear_model.feature_dp import FeatureDPLogisticRegression

__all__ = ["DPSGDFClassifier", "FeatureDPLogisticRegression"]
