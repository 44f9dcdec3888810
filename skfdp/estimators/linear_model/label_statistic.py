"""The method of one label statistic: label-DP with every column public."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from skfdp.estimators.linear_model import (
    frequencies,
    label_noise,
    label_objective,
    whitening,
)
from skfdp.estimators.linear_model.fitted import LinearFit
from skfdp.estimators.linear_model.label_objective import Barrier, Objective, Prior
from skfdp.estimators.linear_model.whitening import (
    LONGEST_ROW,
    WeightedRows,
    Whitening,
)
from skfdp.estimators.method import Budget, OnStep, Plan
from skfdp.privacy.relations import Relation
from skfdp.queries.losses import Loss
from skfdp.queries.statistics import LabelSum
from skfdp.queries.weighted import fits_grid
from skfdp.records.checks import shown
from skfdp.records.grid import GRID, GridRows
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.descent import warn_of_divergence
from skfdp.releases.desk import Desk

_ROOT2 = math.sqrt(2)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicGeometry:
    """The public rows of the statistic.

    Attributes
    ----------
    whitening : Whitening
    rows : WeightedRows
    n_labels : int
        Rows of the statistic. Two classes have one, the difference of their sums, or
        both sums where a label is replaced: the noise in the difference is the same,
        and the sum of both counts the records with a declared label.
    """

    whitening: Whitening
    rows: WeightedRows
    n_labels: int


@dataclasses.dataclass(frozen=True)
class LabelStatistic:
    """One release of the label statistic, then a public optimiser.

    Attributes
    ----------
    loss : Loss
    C : float or "auto"
        Inverse penalty; "auto": chosen from the release.
    max_iter : int
        Of the public optimiser.
    fit_intercept : bool
    """

    loss: Loss
    C: float | str
    max_iter: int
    fit_intercept: bool

    def prepare(self, public: PublicRecords, budget: Budget) -> PublicGeometry:
        """Learn the basis in which the statistic is released; reads no label."""
        n_labels = public.n_classes if budget.relation.replaces else public.n_outputs
        query = LabelSum.planned(public.n_outputs, LONGEST_ROW)
        std = public.reach * query.sensitivity(budget.relation) / budget.mu
        noise = std / public.row_shares.sum() / math.sqrt(_curvature(public.n_classes))
        # That of class frequencies with a Dirichlet distribution of parameter 3.
        mean_prior = 1 / (3 * public.n_classes + 1) if self.fit_intercept else None
        found = Whitening.learn(public.mapped, mean_prior, noise, public.shares)
        rows = found.grid(public.mapped, public.shares)
        if rows.first_moment**2 * found.prior[0] < noise**2:
            warn_caller(
                f"the budget is small for n={public.n_records} {public.unit}s: the "
                "noise is louder "
                "than what the strongest direction of X is expected to tell; expect "
                "little more than the majority class.",
                UtilityWarning,
            )
        return PublicGeometry(whitening=found, rows=rows, n_labels=n_labels)

    def plan(
        self, public: PublicRecords, prepared: PublicGeometry, budget: Budget
    ) -> Plan:
        """Calibrate the one release."""
        query = LabelSum.planned(prepared.n_labels, prepared.rows.bound)
        schedule = budget.calibrate(
            n_steps=1,
            clip_norm=query.clip_norm,
            sensitivity=query.sensitivity(budget.relation),
        )
        event = budget.named(schedule, "label statistic")
        counts = prepared.whitening.bias is not None and prepared.n_labels > 1
        return Plan(
            events=(event,),
            schedule=schedule,
            counts_labels=counts and budget.relation.counts_are_public,
        )

    def needs_whole_table(self) -> None:
        """Return None: the one release is a sum."""

    def run(
        self,
        records: Records,
        prepared: PublicGeometry,
        plan: Plan,
        desk: Desk,
        on_step: OnStep,
    ) -> LinearFit:
        """Release the statistic once, then optimise in public."""
        public, rows = records.public, prepared.rows
        recipe = functools.partial(
            _statistic, n_labels=prepared.n_labels, bound=rows.bound
        )
        query = records.query(recipe, rows=rows.grid)
        released = desk.release("label statistic", query)
        shares, found = public.row_shares, prepared.whitening
        n, weight = float(shares.sum()), rows.weight * shares
        noise_std = float(plan.schedule.noise_std[0]) / n
        if plan.counts_labels:
            # The last column of a row is the same in all rows but for its weight.
            counted = n / float(shares @ rows.grid.values[:, -1] * GRID)
            frequencies.check_counts(
                released[:, -1] * counted,
                noise_std * n * counted,
                public,
                plan.events[0].relation,
            )
        if len(released) == 2:
            statistic, noise_std = (released[1:] - released[:1]) / 2, noise_std / _ROOT2
        else:
            statistic = label_objective.denoised(released)
        strength = 0.0 if self.C == "auto" else 1 / (self.C * records.total_weight)
        bound = public.row_map.feature_bound
        objective = Objective(
            rows.floats(),
            weight,
            self.loss,
            whitening.user_penalty(found, strength, bound),
            Barrier.of(found.bias, noise_std, weight.sum() / n, public.n_outputs),
            n,
        )
        if self.C == "auto":
            variance = found.prior / _curvature(public.n_classes)
            prior = Prior(variance, found.varying, noise_std)
            theta, n_iter, objective = prior.minimise(
                objective, statistic / n, self.max_iter
            )
        else:
            theta, n_iter = objective.minimise(statistic / n, None, self.max_iter)
        warn_of_divergence(theta)
        coef, intercept = found.fold(theta, public.row_map)
        noise = label_noise.noise_of(
            objective,
            statistic / n,
            theta,
            noise_std,
            functools.partial(found.fold, row_map=public.row_map),
            # The labels of one person's rows need not be independent.
            lambda: not public.has_persons and found.spans(public.mapped),
        )
        return LinearFit(coef, intercept, n_iter, noise=noise)


def _statistic(
    records: Records, rows: GridRows, n_labels: int, bound: float
) -> LabelSum:
    """Return the label statistic of public rows; a recipe."""
    return LabelSum(rows, records.target, n_labels, bound)


def takes_one_shot(
    given: dict[str, Any], public: PublicRecords, relation: Relation, mu: float
) -> bool:
    """Return whether ``solver="auto"`` is "one-shot"; looks at public facts alone.

    Parameters
    ----------
    given : dict
        The parameters of the estimator.
    public : PublicRecords
    relation : Relation
    mu : float
        Of the budget.

    Raises
    ------
    ValueError
        If ``solver="one-shot"`` was asked for and cannot be.
    """
    if given["solver"] not in ("auto", "one-shot"):
        return False
    reason = _refusal(given, public, relation, mu)
    if given["solver"] == "auto":
        asked = {name: given[name] for name in _NOT_ASKED}
        return reason is None and asked == _NOT_ASKED
    if reason is not None:
        raise ValueError(reason)
    return True


def _refusal(
    given: dict[str, Any], public: PublicRecords, relation: Relation, mu: float
) -> str | None:
    """Return why the fit cannot be done in one shot, None where it can."""
    if not public.mask.all() or public.has_target:
        return (
            "solver='one-shot' is label-DP: it needs public_features='all' and "
            "public_target=False; choose 'dp-gd' otherwise."
        )
    if public.sparse:
        return (
            "sparse X is not supported by solver='one-shot', which needs a dense X to "
            "learn from: choose 'dp-gd', or reduce the columns first (TruncatedSVD)."
        )
    for name, wanted in _ONE_SHOT_VALUES.items():
        value = given[name]
        if not any(value is choice or value == choice for choice in wanted):
            return (
                f"{name}={shown(value)} is not for solver='one-shot', which releases "
                "one statistic of the labels: choose 'dp-gd'."
            )
    query = LabelSum.planned(public.n_outputs, LONGEST_ROW)
    if not fits_grid(query, query.sensitivity(relation) / mu, public.units):
        return (
            f"epsilon={given['epsilon']!r} and delta={given['delta']!r} need more "
            "noise than the grid of the label statistic can carry: choose "
            "solver='dp-gd', or raise the budget."
        )
    return None


def _curvature(n_classes: int) -> float:
    """Return the variance of a label if the classes are of one size.

    It is also the curvature of the loss, as of any canonical one, where every weight
    is zero.
    """
    return (1 - 1 / n_classes) / n_classes
