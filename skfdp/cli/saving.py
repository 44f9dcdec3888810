"""Trained models as files."""

from __future__ import annotations

from pathlib import Path

import joblib

from skfdp.encoding import blocks
from skfdp.encoding.encoder import DeclaredEncoder
from skfdp.estimators.linear_model.coefficient_noise import CoefficientNoise
from skfdp.estimators.linear_model.feature_dp import FeatureDPLogisticRegression
from skfdp.estimators.linear_model.public_model import PublicModel
from skfdp.estimators.linear_model.public_regression import PublicRegression
from skfdp.estimators.linear_model.regressors import FeatureDPRegressor
from skfdp.privacy import Event, PrivacyReport
from skfdp.privacy.assumptions import Assumption
from skfdp.privacy.store import Receipt
from skfdp.records.row_map import RowMap
from skfdp.records.spelling import Spelling
from skfdp.records.target import TargetMap

#: What ``skops.io.load`` must be told to trust in a saved model.
TRUSTED_TYPES = tuple(
    f"{item.__module__}.{item.__qualname__}"
    for item in (
        Assumption,
        CoefficientNoise,
        DeclaredEncoder,
        Event,
        FeatureDPLogisticRegression,
        FeatureDPRegressor,
        PrivacyReport,
        PublicModel,
        PublicRegression,
        Receipt,
        RowMap,
        Spelling,
        TargetMap,
        blocks.CategoriesBlock,
        blocks.HatsBlock,
        blocks.LinearBlock,
        blocks.PairBlock,
    )
)


def save(model, path: str | Path) -> None:
    """Write a trained model.

    Parameters
    ----------
    model : estimator
    path : str or Path
        Ends in ".skops" (which needs skops) or else is written by joblib.
    """
    if Path(path).suffix == ".skops":
        import skops.io

        skops.io.dump(model, path)
    else:
        joblib.dump(model, path)


def load(path: str | Path):
    """Read a trained model.

    A joblib file runs whatever its author put into it, a skops file only
    `TRUSTED_TYPES`; load joblib files of your own only.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    model : estimator
        Its `predict` takes a DataFrame with the columns of the table.
    """
    if Path(path).suffix == ".skops":
        import skops.io

        return skops.io.load(path, trusted=list(TRUSTED_TYPES))
    return joblib.load(path)
