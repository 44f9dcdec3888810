"""Label-DP in one shot: plan and run, for `FeatureDPLogisticRegression`."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.sparse import issparse

from skfdp.estimators.linear_model import whitening as one_shot
from skfdp.estimators.linear_model.descent import Problem, about
from skfdp.estimators.linear_model.whitening import LONGEST_ROW, Objective, Whitening
from skfdp.privacy import Event, PrivacyPlan, Relation, calibrate, gdp_mu
from skfdp.queries import SAFE_STD
from skfdp.queries.statistics import LabelSum
from skfdp.records.checks import shown
from skfdp.records.grid import GridRows
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.releases.descent import warn_of_divergence
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams

#: The only values that one release can do.
_ONE_SHOT_VALUES = {
    "class_weight": (None,),
    "public_loss": ("auto", None),
    "public_model": ("auto", None),
    "batch_size": ("auto", None),
}
#: The values of the loop's own parameters that do not ask for the loop.
_NOT_ASKED = {
    "clip_norm": "auto",
    "learning_rate": "auto",
    "momentum": 0.9,
    "average": "last",
    "noise_decay": 0.75,
    "radius": None,
    "centering": "auto",
    "private_weight": 1.0,
}


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


def takes_one_shot(estimator, problem: Problem) -> bool:
    """Return whether ``solver="auto"`` is "one-shot"; looks at public facts alone.

    Raises
    ------
    ValueError
        For ``solver="one-shot"`` where one release cannot do what is asked.
    """
    if estimator.solver not in ("auto", "one-shot"):
        return False
    reason = _refusal(estimator, problem)
    if estimator.solver == "auto":
        asked = {name: getattr(estimator, name) for name in _NOT_ASKED}
        return reason is None and asked == _NOT_ASKED
    if reason is not None:
        raise ValueError(reason)
    return True


def _refusal(estimator, problem: Problem) -> str | None:
    """Return why the fit cannot be done in one shot, None where it can."""
    if not problem.public.all() or problem.public_target:
        return (
            "solver='one-shot' is label-DP: it needs public_features='all' and "
            "public_target=False; choose 'dp-gd' otherwise."
        )
    if issparse(problem.X):
        return (
            "sparse X is not supported by solver='one-shot', which needs a dense X to "
            "learn from: choose 'dp-gd', or reduce the columns first (TruncatedSVD)."
        )
    for name, wanted in _ONE_SHOT_VALUES.items():
        value = getattr(estimator, name)
        if not any(value is choice or value == choice for choice in wanted):
            return (
                f"{name}={shown(value)} is not for solver='one-shot', which releases "
                "one statistic of the labels: choose 'dp-gd'."
            )
    std, unit = _noise_of_unit_rows(estimator, problem)
    if std > SAFE_STD * unit:
        return (
            f"epsilon={estimator.epsilon!r} and delta={estimator.delta!r} need more "
            "noise than the grid of the label statistic can carry: choose "
            "solver='dp-gd', or raise the budget."
        )
    return None


def _noise_of_unit_rows(estimator, problem: Problem) -> tuple[float, float]:
    """Return the noise that the longest possible row asks for, and the grid unit."""
    query = LabelSum.planned(problem.n_outputs, LONGEST_ROW)
    reach = query.sensitivity(Relation.of(estimator.neighboring_relation))
    std = reach / gdp_mu(estimator.epsilon, estimator.delta)
    return std, query.unit(std)


def _curvature(problem: Problem) -> float:
    """Return the variance of a label if the classes are of one size.

    It is also the curvature of the loss, as of any canonical one, where every weight
    is zero.
    """
    n_classes = len(problem.classes)
    return (1 - 1 / n_classes) / n_classes


def plan_one_shot(estimator, problem: Problem, seeded: bool) -> OneShot:
    """Learn the public basis and calibrate the one release; reads no label."""
    std, _ = _noise_of_unit_rows(estimator, problem)
    noise = std / len(problem.X) / math.sqrt(_curvature(problem))
    whitening = Whitening.learn(
        problem.X, problem.row_map, estimator.fit_intercept, noise
    )
    if whitening.precision[0] > 1:
        warn_caller(
            f"the budget is small for n={len(problem.X)} records: the noise is louder "
            "than what the strongest direction of X is expected to tell; expect little "
            "more than the majority class.",
            UtilityWarning,
        )
    rows = whitening.grid(problem.X, problem.row_map)
    bound = one_shot.largest_norm(rows)
    query = LabelSum.planned(problem.n_outputs, bound)
    relation = estimator.neighboring_relation
    plan = calibrate(
        estimator.epsilon,
        estimator.delta,
        n_steps=1,
        clip_norm=query.clip_norm,
        sensitivity=query.sensitivity(Relation.of(relation)),
        neighboring_relation=relation,
        accountant=estimator.accountant,
    )
    event = dataclasses.replace(
        plan.event, label="label statistic", **about(estimator, problem, seeded)
    )
    return OneShot(plan, whitening, rows, bound, (event,))


def run_one_shot(
    estimator, problem: Problem, training: OneShot, desk: Desk, streams: Streams
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
    statistic = desk.release("label statistic", training.query(problem))
    statistic = one_shot.denoised(statistic)
    rows, n_rows = training.rows, len(problem.target)
    if estimator.C == "auto":
        penalty = _curvature(problem) * np.diag(training.whitening.precision)
        # A private stream: simulated noise must not repeat that of the release.
        factor, start = one_shot.choose_factor(
            rows, statistic, problem.loss, penalty, noise_std, streams.private("splits")
        )
        penalty *= factor
    else:
        start, strength = None, 1 / (estimator.C * n_rows)
        penalty = one_shot.user_penalty(
            training.whitening, strength, problem.row_map.feature_bound
        )
    most = 1000 if estimator.max_iter == "auto" else estimator.max_iter
    objective = Objective(one_shot.float_rows(rows), problem.loss, penalty)
    theta, n_iter = objective.minimise(statistic / n_rows, start, most)
    warn_of_divergence(theta)
    return *training.whitening.fold(theta, problem.row_map), n_iter
