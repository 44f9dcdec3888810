"""Where the loop's coordinates come from: exact means, private means, scales."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import issparse

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.descent import Problem, Training
from skfdp.queries.statistics import RowSum
from skfdp.records.blocks import row_blocks
from skfdp.records.coordinates import Coordinates
from skfdp.releases.desk import Desk


def centred_coordinates(
    problem: Problem, training: Training, desk: Desk, fit_intercept: bool
) -> Coordinates:
    """Return the coordinates of the loop; public columns are centred exactly.

    **Guarantees.** The private columns enter through one release, `mean_event`, or
    not at all; mean and scale of a public column are functions of public columns.
    """
    public = problem.public
    if public.all():
        return public_coordinates(problem, training, fit_intercept)
    mean = np.zeros(public.size)
    mean[~public], scale = _private_block(problem, training, desk)
    if public.any():
        mean[public], spread = _public_moments(problem, training.exact_mean)
        ours, theirs = training.block_norms
        scale = np.where(public, ours / spread if spread > 0 else 1.0, theirs * scale)
    return Coordinates.centred(problem.row_map, mean, scale, _bias(fit_intercept))


def public_coordinates(
    problem: Problem, training: Training, fit_intercept: bool
) -> Coordinates:
    """Return the coordinates where every column is public."""
    mean, scale = np.zeros(problem.public.size), 1.0
    if training.exact_mean:
        mean, _ = _public_moments(problem, centre=True)
        scale = defaults.centred_scale(mean)
    return Coordinates.centred(problem.row_map, mean, scale, _bias(fit_intercept))


def _bias(fit_intercept: bool) -> float | None:
    return defaults.BIAS_FEATURE if fit_intercept else None


def _private_block(
    problem: Problem, training: Training, desk: Desk
) -> tuple[np.ndarray | float, float]:
    event = training.mean_event
    if event is None:
        return 0.0, 1.0
    noise_std = event.noise_std[0] / problem.n_public
    query = RowSum(problem.X, problem.row_map, problem.capacity)
    total = desk.release("mean", query)
    mean = defaults.shrunk_mean(total / problem.n_public, noise_std)
    return mean, defaults.centred_scale(mean, noise_std)


def _public_moments(problem: Problem, centre: bool) -> tuple[np.ndarray, float]:
    """Return the mean of the public columns and the root mean square of the rest.

    Blocks follow the public columns alone: a sum of floats depends on its order, and
    the number of stored private entries must not show in it.
    """
    public = problem.public
    U = problem.X[:, public] if issparse(problem.X) else problem.X
    row_map = problem.row_map.of_public(public)

    def blocks_of_rows():
        for block in row_blocks(U):
            yield row_map.unit(U[block] if issparse(U) else U[block][:, public])

    mean, square, n_rows = np.zeros(int(public.sum())), 0.0, U.shape[0]
    with np.errstate(all="ignore"):
        if centre:
            mean = sum(rows.sum(axis=0) for rows in blocks_of_rows()) / n_rows
        for rows in blocks_of_rows():
            if issparse(rows):  # a difference would fill them in
                filled = rows.shape[0] * (mean @ mean)
                square += np.vdot(rows.data, rows.data) - filled
            else:
                square += np.sum((rows - mean) ** 2)
    spread = math.sqrt(square / n_rows) if square > 0 else 0.0
    if not (np.isfinite(mean).all() and math.isfinite(spread)):
        return np.zeros(len(mean)), 0.0  # beyond floats: leave the columns as they are
    return mean, spread
