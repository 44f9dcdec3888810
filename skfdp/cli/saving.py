"""Trained Pipelines as files."""

from __future__ import annotations

from pathlib import Path

import joblib

from skfdp.addresses import OLD
from skfdp.cli.encoding import as_numbers, as_text, category_name
from skfdp.estimators.linear_model.feature_dp import FeatureDPLogisticRegression
from skfdp.estimators.linear_model.public_model import PublicModel
from skfdp.privacy import Event, PrivacyReport
from skfdp.privacy.assumptions import Assumption
from skfdp.privacy.store import Receipt
from skfdp.records.row_map import RowMap

_ADDRESSES = tuple(
    f"{item.__module__}.{item.__qualname__}"
    for item in (
        Assumption,
        Event,
        FeatureDPLogisticRegression,
        PrivacyReport,
        PublicModel,
        Receipt,
        RowMap,
        as_numbers,
        as_text,
        category_name,
    )
)
#: What ``skops.io.load`` must be told to trust in a saved model, old or new.
TRUSTED_TYPES = (
    *_ADDRESSES,
    *(old for old, address in OLD.items() if address in _ADDRESSES),
    # A list of column numbers, in files of scikit-learn 1.6.
    "sklearn.compose._column_transformer._RemainderColsList",
)


def save(pipeline, path: str | Path) -> None:
    """Write a trained Pipeline.

    Parameters
    ----------
    pipeline : Pipeline
    path : str or Path
        Ends in ".skops" (which needs skops) or else is written by joblib.
    """
    if Path(path).suffix == ".skops":
        import skops.io

        skops.io.dump(pipeline, path)
    else:
        joblib.dump(pipeline, path)


def load(path: str | Path):
    """Read a trained Pipeline.

    A joblib file runs whatever its author put into it, a skops file only
    `TRUSTED_TYPES`; load joblib files of your own only.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    pipeline : Pipeline
        Its `predict` takes a DataFrame with the columns of the CSV file.
    """
    if Path(path).suffix == ".skops":
        import skops.io

        return skops.io.load(path, trusted=list(TRUSTED_TYPES))
    return joblib.load(path)
