"""Exact gradients of public losses: of padded rows, and of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skfdp.records.coordinates import Coordinates
from skfdp.records.guards import users_state
from skfdp.records.records import PublicRecords
from skfdp.releases.coins import uniform_batch

Gradient = Callable[[np.ndarray], np.ndarray]


def padded_gradient(
    query: Any, coins: np.random.Generator, size: int | None
) -> Gradient:
    """Return the mean gradient over a public batch of padded rows, of theta.

    Parameters
    ----------
    query : LinearQuery or MLPQuery
        With padded rows.
    coins : Generator
        Public.
    size : int or None
        Of a batch; None: all rows.
    """
    return lambda theta: query.public_gradient(
        theta, uniform_batch(coins, query.n_rows, size)
    )


def users_gradient(
    public_loss: Callable, public: PublicRecords, coordinates: Coordinates
) -> Gradient:
    """Return the gradient of a loss that a user wrote, of theta."""
    X_public = public.X.astype(np.float64)

    def gradient(theta: np.ndarray) -> np.ndarray:
        coef, intercept = coordinates.fold(theta)
        with users_state():
            found = public_loss(coef, intercept, X_public, public.labels)
        return coordinates.pull(*_checked(found, coef, intercept))

    return gradient


def _checked(gradients, coef: np.ndarray, intercept: np.ndarray) -> tuple:
    """Return what a callable public loss returned as two finite arrays."""
    try:
        by_coef, by_intercept = (np.asarray(part, np.float64) for part in gradients)
        found = (
            np.broadcast_to(by_coef, coef.shape),
            np.broadcast_to(by_intercept, intercept.shape),
        )
    except (TypeError, ValueError):
        found = None
    if found is None:
        raise ValueError(
            "public_loss must return the gradients in coef and in intercept, two "
            f"arrays of shapes {coef.shape} and {intercept.shape}; the charge for "
            "this fit stays."
        )
    if not all(np.isfinite(part).all() for part in found):
        raise ValueError(
            "public_loss returned a gradient that is not finite: clip it, or lower "
            "learning_rate so that coef stays small; the charge for this fit stays."
        )
    return found
