"""scikit-learn models with differential privacy; columns or the target may be public.

Public names are imported when they are first used, so that ``import skfdp`` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skfdp._version import __version__
from skfdp.addresses import WINGS

if TYPE_CHECKING:
    from skfdp.bounds import private_bounds
    from skfdp.data.encoder import DeclaredEncoder
    from skfdp.data.validation import UtilityWarning
    from skfdp.files import open_table
    from skfdp.label_dp import LabelDPClassifier, LabelDPRegressor
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
    from skfdp.privacy import PrivacyBudgetError, PrivacyLedger, PrivacyWarning, report
    from skfdp.schema import TableSchema

_HOMES = {
    "DPSGDFClassifier": "skfdp.linear_model",
    "DPSGDFRegressor": "skfdp.linear_model",
    "DeclaredEncoder": "skfdp.data.encoder",
    "FeatureDPLogisticRegression": "skfdp.linear_model",
    "FeatureDPMLPClassifier": "skfdp.neural_network",
    "FeatureDPRegressor": "skfdp.linear_model",
    "LabelDPClassifier": "skfdp.label_dp",
    "LabelDPRegressor": "skfdp.label_dp",
    "PrivacyBudgetError": "skfdp.privacy",
    "PrivacyLedger": "skfdp.privacy",
    "PrivacyWarning": "skfdp.privacy",
    "PrivateCenteringTransformer": "skfdp.preprocessing",
    "TableSchema": "skfdp.schema",
    "UtilityWarning": "skfdp.data.validation",
    "checkpoint": "skfdp.mechanisms.checkpoint",
    "make_private_scorer": "skfdp.metrics",
    "open_table": "skfdp.files",
    "private_bounds": "skfdp.bounds",
    "private_score": "skfdp.metrics",
    "report": "skfdp.privacy",
}

WINGS.update(
    bounds="skfdp.bounds",
    dask="skfdp.dask_tables",
    export="skfdp.export",
    files="skfdp.files",
    html="skfdp.privacy.report_html",
    torch="skfdp.queries.torch",
)

__all__ = [
    "DPSGDFClassifier",
    "DPSGDFRegressor",
    "DeclaredEncoder",
    "FeatureDPLogisticRegression",
    "FeatureDPMLPClassifier",
    "FeatureDPRegressor",
    "LabelDPClassifier",
    "LabelDPRegressor",
    "PrivacyBudgetError",
    "PrivacyLedger",
    "PrivacyWarning",
    "PrivateCenteringTransformer",
    "TableSchema",
    "UtilityWarning",
    "__version__",
    "checkpoint",
    "make_private_scorer",
    "open_table",
    "private_bounds",
    "private_score",
    "report",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'skfdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
