"""Differentially private learning where part of every record may be public.

Public names load when they are first used, so that importing the package is light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skfdp._version import __version__

if TYPE_CHECKING:
    from skfdp import datasets as datasets
    from skfdp.encoding.encoder import DeclaredEncoder
    from skfdp.estimators.bounds.function import PrivateBounds, private_bounds
    from skfdp.estimators.centring.transformer import PrivateCenteringTransformer
    from skfdp.estimators.completion.completion import PrivateCompletionClassifier
    from skfdp.estimators.linear_model.dpsgd_f import DPSGDFClassifier
    from skfdp.estimators.linear_model.feature_dp import FeatureDPLogisticRegression
    from skfdp.estimators.linear_model.regressors import (
        DPSGDFRegressor,
        FeatureDPRegressor,
    )
    from skfdp.estimators.neural_network.mlp import FeatureDPMLPClassifier
    from skfdp.estimators.scoring.private_score import private_score
    from skfdp.estimators.scoring.result import PrivateScore
    from skfdp.estimators.scoring.scorer import make_private_scorer
    from skfdp.estimators.scoring.temperatures import PrivateTemperature
    from skfdp.estimators.scoring.thresholds import PrivateThreshold
    from skfdp.estimators.search.search import PrivateSearchCV
    from skfdp.privacy import (
        Event,
        PrivacyBudgetError,
        PrivacyLedger,
        PrivacyPlan,
        PrivacyReport,
        PrivacyWarning,
        calibrate,
        read_report,
        report,
    )
    from skfdp.records.guards import UtilityWarning
    from skfdp.records.sources import open_table

_HOMES = {
    "DPSGDFClassifier": "skfdp.estimators.linear_model.dpsgd_f",
    "DPSGDFRegressor": "skfdp.estimators.linear_model.regressors",
    "DeclaredEncoder": "skfdp.encoding.encoder",
    "Event": "skfdp.privacy",
    "FeatureDPLogisticRegression": "skfdp.estimators.linear_model.feature_dp",
    "FeatureDPMLPClassifier": "skfdp.estimators.neural_network.mlp",
    "FeatureDPRegressor": "skfdp.estimators.linear_model.regressors",
    "PrivacyBudgetError": "skfdp.privacy",
    "PrivacyLedger": "skfdp.privacy",
    "PrivacyPlan": "skfdp.privacy",
    "PrivacyReport": "skfdp.privacy",
    "PrivacyWarning": "skfdp.privacy",
    "PrivateBounds": "skfdp.estimators.bounds.function",
    "PrivateCenteringTransformer": "skfdp.estimators.centring.transformer",
    "PrivateCompletionClassifier": "skfdp.estimators.completion.completion",
    "PrivateScore": "skfdp.estimators.scoring.result",
    "PrivateSearchCV": "skfdp.estimators.search.search",
    "PrivateTemperature": "skfdp.estimators.scoring.temperatures",
    "PrivateThreshold": "skfdp.estimators.scoring.thresholds",
    "UtilityWarning": "skfdp.records.guards",
    "calibrate": "skfdp.privacy",
    "make_private_scorer": "skfdp.estimators.scoring.scorer",
    "open_table": "skfdp.records.sources",
    "private_bounds": "skfdp.estimators.bounds.function",
    "private_score": "skfdp.estimators.scoring.private_score",
    "read_report": "skfdp.privacy",
    "report": "skfdp.privacy",
}

__all__ = [
    "DPSGDFClassifier",
    "DPSGDFRegressor",
    "DeclaredEncoder",
    "Event",
    "FeatureDPLogisticRegression",
    "FeatureDPMLPClassifier",
    "FeatureDPRegressor",
    "PrivacyBudgetError",
    "PrivacyLedger",
    "PrivacyPlan",
    "PrivacyReport",
    "PrivacyWarning",
    "PrivateBounds",
    "PrivateCenteringTransformer",
    "PrivateCompletionClassifier",
    "PrivateScore",
    "PrivateSearchCV",
    "PrivateTemperature",
    "PrivateThreshold",
    "UtilityWarning",
    "__version__",
    "calibrate",
    "datasets",
    "make_private_scorer",
    "open_table",
    "private_bounds",
    "private_score",
    "read_report",
    "report",
]


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return importlib.import_module("skfdp.datasets")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'skfdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
