"""Regression from one release: second moments, or the statistic of the target."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model import least_squares
from skfdp.estimators.linear_model.descent import (
    Problem,
    Training,
    about,
    centres_exactly,
    plan_mean,
)
from skfdp.privacy import Relation, calibrate, gdp_mu
from skfdp.queries import moments
from skfdp.queries.moments import MomentSum
from skfdp.queries.statistics import RowSum, TargetSum
from skfdp.records.coordinates import Coordinates
from skfdp.releases.desk import Desk

#: Targets beyond this many spreads are clipped; rows longer than this many mean
#: lengths are shortened, their target with them.
TARGET_REACH, ROW_REACH = 2.0, 1.0


def plan_one_release(estimator, problem: Problem, seeded: bool) -> Training:
    """Calibrate the one release, beside the mean and the scales.

    It is the target's statistic where every column is public, else the moments.
    """
    if problem.public.all():
        label, query = "target statistic", TargetSum.planned()
    else:
        label, query = "second moments", MomentSum.planned()
    relation = Relation.of(estimator.neighboring_relation)
    reach = RowSum.planned().sensitivity(relation)
    mu = gdp_mu(estimator.epsilon, estimator.delta) / reach
    facts = about(estimator, problem, seeded)
    mean_event = plan_mean(estimator, problem, mu, reach, facts)
    target_event, length_event = estimator.scale_events(problem, mu, reach, facts)
    first = tuple(e for e in (target_event, mean_event, length_event) if e is not None)
    plan = calibrate(
        estimator.epsilon,
        estimator.delta,
        n_steps=1,
        clip_norm=query.clip_norm,
        sensitivity=query.sensitivity(relation),
        neighboring_relation=relation.name,
        other_events=first,
        accountant=estimator.accountant,
    )
    event = dataclasses.replace(plan.event, label=label, **facts)
    return Training(
        plan=plan,
        mean_event=mean_event,
        cross_event=None,
        exact_mean=centres_exactly(estimator, problem),
        block_norms=defaults.block_norms(problem.public, has_public_model=False),
        target_event=target_event,
        length_event=length_event,
        learning_rate=0.0,
        private_weight=1.0,
        events=(*first, event),
    )


def run_moments(
    estimator,
    problem: Problem,
    training: Training,
    coordinates: Coordinates,
    desk: Desk,
) -> tuple[np.ndarray, int]:
    """Release the moments once, then solve in public.

    Returns
    -------
    theta : ndarray of shape (1, n_columns)
    n_iter : int
        1: the solution is closed.
    """
    bias = [] if coordinates.bias is None else [coordinates.bias]

    def joined(block: slice) -> np.ndarray:
        rows = coordinates.row_map.unit(problem.X[block]) - coordinates.mean
        rows *= coordinates.scale / ROW_REACH
        last = np.tile(bias, (len(rows), 1)) if bias else np.empty((len(rows), 0))
        target = problem.target[block] / TARGET_REACH
        return np.column_stack([rows, last, target])

    n_columns = problem.X.shape[1] + len(bias)
    query = MomentSum.build(len(problem.X), n_columns + 1, joined, problem.capacity)
    std = float(training.plan.noise_std[0])
    total = desk.release("second moments", query)
    gram, cross = moments.unpacked(total, n_columns)
    theta = least_squares.ridge(
        gram, cross, _penalty(estimator, coordinates, n_columns, std)
    )
    theta[: problem.X.shape[1]] /= ROW_REACH
    return theta[None] * TARGET_REACH, 1


def _penalty(estimator, coordinates, n_columns: int, noise_std: float) -> np.ndarray:
    """Return the penalty of each column; with a number for alpha, that of the user."""
    if estimator.alpha == "auto":
        size = least_squares.noise_penalty(n_columns, noise_std / moments.PAIR)
        return np.full(n_columns, size)
    # The noisy matrix may be singular; this keeps every weight finite.
    penalty = np.full(n_columns, 1e-3)
    n_features = len(coordinates.mean)
    factor = coordinates.scale / ROW_REACH / coordinates.row_map.divisor
    penalty[:n_features] += estimator.alpha * factor**2
    return penalty
