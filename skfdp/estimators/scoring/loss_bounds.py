"""Metrics that a model has something to say of, and the bounds of their losses."""

from __future__ import annotations

from typing import Any

from skfdp.estimators.parameters import declared_by
from skfdp.estimators.scoring.layout import NUMBERS, TWO
from skfdp.estimators.scoring.predictions import Model


def check_methods(model: Model, metrics: tuple[str, ...]) -> None:
    """Refuse metrics of what the model does not tell."""
    losses = {"log_loss", "brier_score"} & set(metrics)
    if losses and not hasattr(model.estimator, "predict_proba"):
        raise ValueError(
            f"metrics={sorted(losses)[0]!r} needs predict_proba, which the model has "
            "not: choose accuracy or roc_auc."
        )
    if "roc_auc" in metrics and model.by == "predict":
        raise ValueError(
            "metrics='roc_auc' needs predict_proba or decision_function, which the "
            "model has not: choose accuracy, confusion_matrix or recall."
        )


def loss_bounds(
    model: Model,
    metrics: tuple[str, ...],
    loss_bound: float,
    error_bound: float | None,
) -> dict[str, float]:
    """Return the bounds of the losses that are asked for, in their own units."""
    if model.task == NUMBERS:
        bound = error_bound
        if bound is None:
            bound = _width(model.estimator)
        found = {"mean_absolute_error": bound, "mean_squared_error": bound**2}
    else:
        brier = 1.0 if model.task == TWO else 2.0
        found = {"log_loss": loss_bound, "brier_score": brier}
    return {name: float(found[name]) for name in metrics if name in found}


def _width(estimator: Any) -> float:
    """Return the width of the declared bounds of a regressor's target."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    bounds = declared_by(estimator, "target_bounds")
    if bounds is None:
        raise ValueError(
            "error_bound=None: the model declares no target_bounds; give the largest "
            "absolute error of one record, in the units of the target."
        )
    low, high = map(float, bounds)
    return high - low
