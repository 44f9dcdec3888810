"""The method of completion: release class sums, draw private columns, train."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from sklearn.base import clone

from skfdp.estimators import defaults
from skfdp.estimators.completion.copula import PrivateColumns, Released
from skfdp.estimators.method import Budget, OnStep, Plan
from skfdp.privacy import assumptions
from skfdp.privacy.assumptions import enforced
from skfdp.queries.class_sums import ClassSum, SecondMoment
from skfdp.records.blocks import blocks
from skfdp.records.grid import GridRows
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.desk import Desk

_ORTHANT = enforced(assumptions.CLASS_ORTHANT)
_SIGNED = enforced(assumptions.CLASS_SIGNED)
# Share of mu**2 for the second moments, where they are released.
_SECOND_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Completed:
    """A classifier that was trained on completed records.

    Attributes
    ----------
    estimator : classifier
    class_means : ndarray of shape (n_classes, n_private) or None
        Denoised means of the scaled private columns; None without privacy.
    """

    estimator: Any
    class_means: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Completion:
    """The completion of records by statistics of private columns given the class.

    Attributes
    ----------
    estimator : classifier
        Unfitted.
    feature_bound : float
        L2 bound of the private columns of a row.
    covariance : bool or "auto"
        Whether the second moments are released too.
    n_draws : int
        Completions of each record.
    """

    estimator: Any
    feature_bound: float
    covariance: bool | str
    n_draws: int

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Learn nothing before the release."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Calibrate the releases."""
        bounded = bool(public.bounded[~public.mask].all())
        sums = ClassSum.planned(nonnegative=bounded)
        others, covariance = (), self.covariance
        if covariance == "auto":
            covariance = defaults.completion_covariance(
                public.n_classes, public.n_private, bounded
            )
        if covariance:
            second = SecondMoment.planned()
            reach = second.sensitivity(budget.relation)
            mu = budget.mu * math.sqrt(_SECOND_SHARE)
            event = budget.event(
                "second moments",
                reach / mu,
                clip_norm=second.clip_norm,
                sensitivity=reach,
            )
            others = (event,)
        schedule = budget.calibrate(
            n_steps=1,
            clip_norm=sums.clip_norm,
            sensitivity=sums.sensitivity(budget.relation),
            other_events=others,
        )
        return Plan(
            events=(*others, budget.named(schedule, "class sums")),
            schedule=schedule,
            assumptions=(_ORTHANT if bounded else _SIGNED,),
        )

    def run(
        self,
        records: Records,
        prepared: None,
        plan: Plan,
        desk: Desk,
        on_step: OnStep,
    ) -> Completed:
        """Release, denoise, draw, and train."""
        public = records.public
        model = PrivateColumns.learn(self._released(records, plan, desk))
        coins = desk.streams.public("draws")
        rows = _completed(public, model, self.n_draws, coins)
        target = np.tile(public.labels, self.n_draws)
        trained = clone(self.estimator).fit(rows, target)
        return Completed(trained, model.means)

    def _released(self, records: Records, plan: Plan, desk: Desk) -> Released:
        """Release the class sums, and the second moments where they are planned."""
        public, bound = records.public, self.feature_bound
        private = ~public.mask
        bounded = public.bounded[private]
        row_map = dataclasses.replace(public.row_map.part(private), feature_bound=bound)
        rows = GridRows.build(records.X[:, private], row_map.mapped)
        second, second_std = None, 0.0
        event = plan.event("second moments")
        if event is not None:
            second = desk.release(event.label, SecondMoment(rows))
            second = (second + second.T) * (bound**2 / 2)
            second_std = event.noise_std[0] * bound**2
        sums = ClassSum(
            rows, public.target, public.n_classes, nonnegative=bool(bounded.all())
        )
        return Released(
            counts=np.bincount(public.target, minlength=public.n_classes),
            sums=desk.release("class sums", sums) * bound,
            sums_std=plan.event("class sums").noise_std[0] * bound,
            second=second,
            second_std=second_std,
            bounded=bounded,
            feature_bound=bound,
        )


def _completed(
    public: PublicRecords,
    model: PrivateColumns,
    times: int,
    coins: np.random.Generator,
) -> np.ndarray:
    """Return the public columns beside drawn ones."""
    mask, n = public.mask, public.n_rows
    shared = public.row_map.part(mask).scale(public.X)
    rows = np.empty((times * n, len(mask)))
    for start in range(0, times * n, n):
        rows[start : start + n, mask] = shared
        for block in blocks(n, len(mask)):
            drawn = model.draw(public.target[block], coins)
            rows[start + block.start : start + block.stop, ~mask] = drawn
    return rows
