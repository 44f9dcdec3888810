"""Label-DP in one shot: plan and run, for `FeatureDPLogisticRegression`."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp import one_shot
from skfdp.linear_model.training import Problem, about
from skfdp.noise import MAX_STD, Streams
from skfdp.one_shot import Objective, Whitening
from skfdp.privacy import Event, PrivacyPlan, calibrate
from skfdp.queries.statistics import LabelSum
from skfdp.releases import release
from skfdp.rows import GridRows


@dataclasses.dataclass(frozen=True)
class OneShot:
    """The plan of a one-shot fit, and the public rows that it was made from.

    Attributes
    ----------
    plan : PrivacyPlan
        One release.
    whitening : Whitening
    rows : GridRows
    row_bound : float
    events : tuple of Event
    """

    plan: PrivacyPlan
    whitening: Whitening
    rows: GridRows
    row_bound: float
    events: tuple[Event, ...]

    def query(self, problem: Problem) -> LabelSum:
        """Return the label statistic of the private target."""
        return LabelSum(self.rows, problem.target, problem.n_outputs, self.row_bound)


def plan_one_shot(estimator, problem: Problem, seeded: bool) -> OneShot:
    """Learn the public basis and calibrate the one release; reads no label."""
    whitening = Whitening.learn(problem.X, problem.row_map, estimator.fit_intercept)
    rows = whitening.grid(problem.X, problem.row_map)
    bound = one_shot.largest_norm(rows)
    # The query's bounds are functions of the rows alone: an empty target will do.
    query = LabelSum(rows, np.empty(0, np.int64), problem.n_outputs, bound)
    relation = estimator.neighboring_relation
    plan = calibrate(
        estimator.epsilon,
        estimator.delta,
        n_steps=1,
        clip_norm=query.clip_norm,
        sensitivity=query.sensitivity if relation == "replace_one" else None,
        neighboring_relation=relation,
        accountant=estimator.accountant,
    )
    if plan.noise_std[0] / query.unit(plan.noise_std[0]) > MAX_STD:
        raise ValueError(
            f"epsilon={estimator.epsilon!r} and delta={estimator.delta!r} need more "
            "noise than the grid of the label statistic can carry: choose "
            "solver='dp-gd', or raise the budget."
        )
    event = dataclasses.replace(
        plan.event, label="label statistic", **about(estimator, problem, seeded)
    )
    return OneShot(plan, whitening, rows, bound, (event,))


def run_one_shot(
    estimator, problem: Problem, training: OneShot, streams: Streams
) -> tuple[np.ndarray, np.ndarray, int]:
    """Release the statistic once, then optimise in public.

    Returns
    -------
    coef : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
    n_iter : int
        Iterations of the public optimiser.
    """
    noise_std = float(training.plan.noise_std[0])
    statistic = release(
        training.query(problem),
        None,
        noise_std=noise_std,
        generator=streams.private("label statistic", training.plan),
    )
    statistic = one_shot.denoised(statistic)
    rows, n_rows = training.rows, len(problem.target)
    if estimator.C == "auto":
        # A private stream: simulated noise must not repeat that of the release.
        strength, length, start = one_shot.choose_penalty(
            rows, statistic, problem.loss, noise_std, streams.private("splits")
        )
        penalty = strength * np.eye(statistic.shape[1])
    else:
        start, length, strength = None, 1.0, 1 / (estimator.C * n_rows)
        penalty = one_shot.user_penalty(
            training.whitening, strength, problem.row_map.feature_bound
        )
    most = 1000 if estimator.max_iter == "auto" else estimator.max_iter
    objective = Objective(one_shot.float_rows(rows), problem.loss, penalty)
    theta, n_iter = objective.minimise(statistic / n_rows, start, most)
    return *training.whitening.fold(length * theta, problem.row_map), n_iter
