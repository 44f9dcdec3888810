"""Scores of canaries: where a model seems to have seen the first of two values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_regressor

#: ``score(model, X_a, y_a, X_b, y_b)``; large where the model saw the first value.
Score = Callable[[Any, Any, Any, Any, Any], np.ndarray]
# Noise over signal in the directions of the canaries, as far as they can be told.
_RATIOS = np.geomspace(1e-6, 1e6, 97)
_LEAST_PROBABILITY = 1e-6


def default_score(model: Any) -> Score:
    """Return the score of a kind of model; ValueError where users have to give one."""
    if is_classifier(model) or is_regressor(model):
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        if hasattr(last, "coef_") and hasattr(last, "row_map_"):
            if not hasattr(last, "encoder_"):
                return linear_score
        return margin_score if is_classifier(model) else error_score
    raise ValueError(
        f"{type(model).__name__} is neither classifier nor regressor: pass "
        "score(model, X_a, y_a, X_b, y_b), which says where the model seems to have "
        "seen the first value."
    )


def linear_score(model: Any, X_a: Any, y_a: Any, X_b: Any, y_b: Any) -> np.ndarray:
    r"""Return how far the coefficients of a linear model lean toward first values.

    The first gradient of a record is its residual at the start times its mapped row.
    Let d be the difference of those of the two values. The coefficients are roughly a
    sum of :math:`\pm d_i` and noise, and each inner product :math:`z_i` with them has
    the other canaries in it. With G the matrix of the inner products of all d, the
    score is :math:`(G + \lambda I)^{-1} z`, their best linear prediction, for the ratio
    of noise to signal under which z is most likely.
    """
    if hasattr(model, "steps"):
        before, model = model[:-1], model.steps[-1][1]
        X_a, X_b = before.transform(X_a), before.transform(X_b)
    rows = [_mapped(model, X) for X in (X_a, X_b)]
    residuals = _first_residuals(model, y_a, y_b)
    coef = np.atleast_2d(model.coef_)
    z = sum(
        sign * ((X @ coef.T) * r).sum(axis=1)
        for sign, X, r in zip((1, -1), rows, residuals, strict=True)
    )
    X, r = np.vstack(rows), np.vstack((residuals[0], -residuals[1]))
    whole = (X @ X.T) * (r @ r.T)
    n = len(z)
    gram = whole[:n, :n] + whole[:n, n:] + whole[n:, :n] + whole[n:, n:]
    return _separated(z, gram)


def _first_residuals(model: Any, y_a: Any, y_b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the residuals of targets, one column for each output, at the start."""
    targets = [np.asarray(y) for y in (y_a, y_b)]
    if not is_classifier(model):
        middle = np.median(np.concatenate(targets).astype(float))
        return tuple((y.astype(float) - middle)[:, None] for y in targets)
    classes = np.asarray(model.classes_)
    if len(classes) == 2:
        return tuple((y == classes[1])[:, None] - 0.5 for y in targets)
    return tuple((y[:, None] == classes) - 1 / len(classes) for y in targets)


def _separated(z: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """Return the best linear prediction of coins from inner products."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    values, vectors = values[kept], vectors[:, kept]
    seen = vectors.T @ z
    if not seen.any():
        return np.zeros_like(z)
    usual = values.mean()

    def likelihood(ratio: float) -> float:
        variances = values * (values + ratio * usual)
        scale = np.mean(seen**2 / variances)
        return -len(seen) * np.log(scale) - np.log(variances).sum()

    ratio = max(_RATIOS, key=likelihood)
    return vectors @ (seen / (values + ratio * usual))


def margin_score(model: Any, X_a: Any, y_a: Any, X_b: Any, y_b: Any) -> np.ndarray:
    """Return how much more the first value is on the side of its label."""
    return _sides(model, X_a, y_a) - _sides(model, X_b, y_b)


def _sides(model: Any, X: Any, y: Any) -> np.ndarray:
    """Return the margin of the label of each record beside the other labels."""
    if hasattr(model, "decision_function"):
        margins = model.decision_function(X)
    else:  # bounded, since some models are sure of what they say
        margins = np.log(np.maximum(model.predict_proba(X), _LEAST_PROBABILITY))
    codes = np.argmax(np.asarray(y)[:, None] == np.asarray(model.classes_), axis=1)
    if margins.ndim == 1:
        return np.where(codes == 1, margins, -margins)
    own = margins[np.arange(len(codes)), codes]
    return own - (margins.sum(axis=1) - own) / (margins.shape[1] - 1)


def error_score(model: Any, X_a: Any, y_a: Any, X_b: Any, y_b: Any) -> np.ndarray:
    """Return the squared error at the other value, less that at the first."""
    errors = [
        (np.asarray(y, dtype=float) - model.predict(X)) ** 2
        for X, y in ((X_a, y_a), (X_b, y_b))
    ]
    return errors[1] - errors[0]


def _mapped(model: Any, X: Any) -> np.ndarray:
    """Return the rows that the coefficients are multiplied with."""
    rows = model.row_map_(X if issparse(X) else np.asarray(X, dtype=float))
    return rows.toarray() if issparse(rows) else rows
