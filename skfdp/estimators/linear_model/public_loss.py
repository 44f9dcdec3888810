"""Exact gradients of public losses: of padded rows, and of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skfdp.queries.losses import Loss
from skfdp.records.blocks import squared_norms
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


def clipped_away(
    query: Any,
    target: np.ndarray,
    loss: Loss,
    offset: np.ndarray | None,
    public: PublicRecords,
    coordinates: Coordinates,
) -> Gradient:
    """Return about what the clip takes off the first gradient of a public target.

    The residuals at the start are public then, and so is the gradient along the public
    columns and the intercept: only how much of it the clip cuts is not. What it cuts of
    rows whose private part is 1 long is given back. Else clipping pulls skewed targets
    from the mean toward the median. As the clip norm grows, nothing is cut, and nothing
    given back.

    Parameters
    ----------
    query : LinearQuery
        Of a regression.
    target : float64 ndarray of shape (n_rows,)
        Public, in the loop's units.
    loss : Loss
    offset : float64 ndarray of shape (n_rows, 1) or None
        Margins of a public model.
    public : PublicRecords
    coordinates : Coordinates
        Released, or functions of public columns.
    """
    mask, bias = public.mask, coordinates.bias or 0.0
    start = np.zeros((len(target), 1)) if offset is None else offset
    residual = loss.residual(start, target)[:, 0] * public.row_shares
    mean = coordinates.mean[mask]
    scale = np.broadcast_to(coordinates.scale, mask.shape)[mask]
    by_column, by_bias, first = np.zeros(len(mean)), 0.0, 0
    for rows in public.blocks():
        own = residual[first : first + rows.shape[0]]
        first += rows.shape[0]
        centred = ((rows.toarray() if issparse(rows) else rows) - mean) * scale
        length = np.sqrt(1 + bias**2 + squared_norms(centred)) * np.abs(own)
        lost = own * (1 - query.clip_norm / np.maximum(length, query.clip_norm))
        by_column += lost @ centred
        by_bias += bias * lost.sum()
    gradient = np.zeros(query.shape)
    gradient[0, : len(mask)][mask] = by_column / public.n_records
    if coordinates.bias is not None:
        gradient[0, -1] = by_bias / public.n_records
    return lambda theta: gradient


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
