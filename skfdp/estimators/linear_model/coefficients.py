"""The table of a linear model's coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from skfdp.estimators.linear_model.coefficient_noise import CoefficientNoise

#: Of a two-sided normal interval of 95 %.
QUANTILE = float(ndtri(0.975))


def names(model: Any, n_features: int) -> list[str]:
    """Return the names of the columns that `coef_` has weights for."""
    encoder = getattr(model, "encoder_", None)
    if encoder is not None:
        return [str(name) for name in encoder.get_feature_names_out()]
    found = getattr(model, "feature_names_in_", None)
    if found is None:
        return [f"x{j}" for j in range(n_features)]
    return [str(name) for name in found]


def table(
    weights: np.ndarray,
    names: list[str],
    noise: CoefficientNoise | None,
    classes: np.ndarray | None,
    is_private: bool,
) -> dict[str, np.ndarray]:
    """Return the columns of the table; see `LinearModel.coefficients_table`.

    Parameters
    ----------
    weights : ndarray of shape (n_outputs, n_features + 1)
        The intercept last.
    names : list of str
        Of the columns.
    noise : CoefficientNoise or None
    classes : ndarray or None
        Of a classifier.
    is_private : bool
        Whether weights without a known noise have one.
    """
    n_outputs, n_weights = weights.shape
    found: dict[str, np.ndarray] = {}
    if n_outputs > 1:
        found["class"] = np.repeat(np.asarray(classes), n_weights)
    found["feature"] = np.tile(np.array([*names, "intercept"], dtype=object), n_outputs)
    found["coef"] = weights.ravel()
    std = np.full(weights.shape, np.nan if is_private else 0.0)
    found["noise_std"] = (std if noise is None else noise.std).ravel()
    if noise is None or noise.estimate is None:
        return found
    estimate, error = noise.error_of(np.eye(n_weights - 1))
    # The constant is a column of ones to the others: determined where all of them are.
    last = np.sqrt(np.maximum(noise.error[:, -1, -1], 0.0))
    last = np.where(np.isfinite(estimate).all(axis=1), last, np.nan)
    intercept = np.where(np.isfinite(last), noise.estimate[:, -1], np.nan)
    estimate = np.column_stack([estimate, intercept]).ravel()
    error = np.column_stack([error, last]).ravel()
    return found | {
        "estimate": estimate,
        "std_error": error,
        "z": estimate / error,
        "p": 2 * ndtr(-np.abs(estimate / error)),
        "low": estimate - QUANTILE * error,
        "high": estimate + QUANTILE * error,
    }
