"""Differentially private learning where part of every record may be public.

Public names load when they are first used, so that importing the package is light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skfdp._version import __version__

if TYPE_CHECKING:
    from skfdp import datasets
    from skfdp.bounds import PrivateBounds, private_bounds
    from skfdp.completion import PrivateCompletionClassifier
    from skfdp.data.encoder import DeclaredEncoder
    from skfdp.data.sources import open_table
    from skfdp.data.validation import UtilityWarning
    from skfdp.linear_model import (
        DPSGDFClassifier,
        DPSGDFRegressor,
        FeatureDPLogisticRegression,
        FeatureDPRegressor,
    )
    from skfdp.mechanisms.checkpoint import checkpoint
    from skfdp.metrics import make_private_scorer, private_score
    from skfdp.neural_network import FeatureDPMLPClassifier
    from skfdp.preprocessing import PrivateCenteringTransformer
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
    from skfdp.schema import TableSchema
    from skfdp.solvers.score_result import (
        PrivateComparison,
        PrivateScore,
        PrivateTemperature,
        PrivateThreshold,
    )

_HOMES = {
    "DPSGDFClassifier": "skfdp.linear_model",
    "DPSGDFRegressor": "skfdp.linear_model",
    "DeclaredEncoder": "skfdp.data.encoder",
    "Event": "skfdp.privacy",
    "FeatureDPLogisticRegression": "skfdp.linear_model",
    "FeatureDPMLPClassifier": "skfdp.neural_network",
    "FeatureDPRegressor": "skfdp.linear_model",
    "PrivacyBudgetError": "skfdp.privacy",
    "PrivacyLedger": "skfdp.privacy",
    "PrivacyPlan": "skfdp.privacy",
    "PrivacyReport": "skfdp.privacy",
    "PrivacyWarning": "skfdp.privacy",
    "PrivateBounds": "skfdp.bounds",
    "PrivateCenteringTransformer": "skfdp.preprocessing",
    "PrivateComparison": "skfdp.solvers.score_result",
    "PrivateCompletionClassifier": "skfdp.completion",
    "PrivateScore": "skfdp.solvers.score_result",
    "PrivateTemperature": "skfdp.solvers.score_result",
    "PrivateThreshold": "skfdp.solvers.score_result",
    "TableSchema": "skfdp.schema",
    "UtilityWarning": "skfdp.data.validation",
    "calibrate": "skfdp.privacy",
    "checkpoint": "skfdp.mechanisms.checkpoint",
    "make_private_scorer": "skfdp.metrics",
    "open_table": "skfdp.data.sources",
    "private_bounds": "skfdp.bounds",
    "private_score": "skfdp.metrics",
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
    "PrivateComparison",
    "PrivateCompletionClassifier",
    "PrivateScore",
    "PrivateTemperature",
    "PrivateThreshold",
    "TableSchema",
    "UtilityWarning",
    "__version__",
    "calibrate",
    "checkpoint",
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
