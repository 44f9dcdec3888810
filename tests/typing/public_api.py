"""A typed use of the public API, which `test_typing.py` checks with mypy --strict."""

from pathlib import Path

import numpy as np

from skfdp import (
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    TableSchema,
    private_score,
    report,
)
from skfdp.privacy import FitPlan, PrivacyReport, WhatIf
from skfdp.schema import Category, Label, Number
from skfdp.solvers import NoisyGradientDescent


def schema() -> TableSchema:
    columns = {"age": Number(17, 90, public=True), "ward": Category(["A", "B"])}
    return TableSchema(columns | {"ill": Label([0, 1])}, outcomes=["ill"])


def regressors() -> list[DPSGDFRegressor | FeatureDPRegressor]:
    known = {"bounds": (0, 1), "target_bounds": (0, 9)}
    return [DPSGDFRegressor(**known), FeatureDPRegressor(schema=schema(), target="ill")]


def fitted(X: np.ndarray, y: np.ndarray, path: Path) -> tuple[float, PrivacyReport]:
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5)
    model = FeatureDPLogisticRegression(
        epsilon=1.0,
        bounds=(0, 1),
        classes=[0, 1],
        solver=NoisyGradientDescent(clip_norm=0.5),
        ledger=ledger,
    )
    plan: FitPlan = model.plan(X)
    allowed: WhatIf = ledger.what_if(plan)
    if allowed.reason is not None:
        raise ValueError(allowed.reason)
    chances = model.fit(X, y).predict_proba(X)[:, 1]
    threshold = float(np.median(chances))
    accuracy = model.score(X, y)
    predicted = [label for label in model.predict(X) if threshold > accuracy]
    score = private_score(model, X, y, 0.5, ledger=ledger)
    low, high = score.intervals["accuracy"]
    found: PrivacyReport = report(model)
    return high - low + len(predicted), found
