"""The methods of private centring: a released mean, or a released regression."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.centring import conditional, distances
from skfdp.estimators.centring.conditional import Regressors
from skfdp.estimators.method import Budget, OnStep, Plan
from skfdp.privacy import PrivacyPlan
from skfdp.queries import MAX_STD, Query
from skfdp.queries.statistics import CrossSum, RowSum
from skfdp.records.blocks import blocks
from skfdp.records.moved import MovedRows
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.releases.desk import Desk

# No row of norm at most 1 is further from a mean of such rows.
_FURTHEST = 2.0


@dataclasses.dataclass(frozen=True)
class Centred:
    """The numbers of `transform`: see the attributes of the transformer."""

    mean: np.ndarray
    coef: np.ndarray
    scale: np.ndarray

    def scaled(self, scale: float) -> Centred:
        """Return the same with another scale, one for all columns."""
        return dataclasses.replace(self, scale=np.full(self.mean.shape, scale))


@dataclasses.dataclass(frozen=True)
class PrivateMean:
    """The centring of whole rows by their mean, released once.

    Attributes
    ----------
    clip_quantile : float or None
        Quantile of the distances from the mean, released after it, that output rows of
        norm 1 have; None: by the length of the mean.
    """

    clip_quantile: float | None = None

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Learn nothing: no column is public."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Calibrate the release of the mean, beside that of the distances."""
        query = RowSum.planned(nonnegative=public.private_bounded)
        if self.clip_quantile is None:
            return _plan("mean", query, budget)
        mu = budget.mu / budget.relation.moves(1.0)
        share = distances.share(mu, public.n_effective, self.clip_quantile)
        event = distances.event(public, budget, share)
        plan = _plan("mean", query, budget.after(event))
        return dataclasses.replace(plan, events=(event, *plan.events))

    def run(
        self,
        records: Records,
        prepared: None,
        plan: Plan,
        desk: Desk,
        on_step: OnStep,
    ) -> Centred:
        """Release the sum of the rows, and how far they are from their mean."""
        public = records.public
        bounded = public.private_bounded
        query = RowSum(records.X, public.row_map, public.capacity, bounded)
        total = desk.release("mean", query)
        noise_std = plan.event("mean").noise_std[0] / public.n_records
        found = self._centred(total / public.n_records, noise_std)
        if self.clip_quantile is None:
            return found
        part = distances.released_quantile(
            MovedRows(records.mapped, found.mean, _FURTHEST),
            self.clip_quantile,
            plan.event(distances.LABEL),
            "distances from the mean",
            public.n_records,
            desk,
        )
        return found.scaled(1 / (part * _FURTHEST))

    def exactly(self, records: Records) -> Centred:
        """Return the same without noise."""
        X, row_map = records.X, records.row_map
        total = sum(row_map.mapped(X[block]).sum(axis=0) for block in blocks(*X.shape))
        found = self._centred(total / records.public.n_records, 0.0)
        if self.clip_quantile is None:
            return found
        lengths = MovedRows(records.mapped, found.mean).lengths()
        return found.scaled(1 / max(np.quantile(lengths, self.clip_quantile), 1e-150))

    @staticmethod
    def _centred(mean: np.ndarray, noise_std: float) -> Centred:
        mean = defaults.shrunk_mean(mean, noise_std)
        scale = np.full(mean.shape, defaults.centred_scale(mean, noise_std))
        return Centred(mean, np.zeros((0, len(mean))), scale)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicRegressors:
    """The regressors of private columns."""

    regressors: Regressors


@dataclasses.dataclass(frozen=True)
class ConditionalCentring:
    """The centring of private columns by a prediction, released once.

    Attributes
    ----------
    weighted : bool, default=True
        False gives ordinary least squares, for fits without privacy.
    """

    weighted: bool = True

    def prepare(self, public: PublicRecords, budget: Budget | None) -> PublicRegressors:
        """Whiten the public columns."""
        U = public.row_map.of_public(public.mask).scale(public.X)
        return PublicRegressors(regressors=Regressors.learn(U, weighted=self.weighted))

    def plan(
        self, public: PublicRecords, prepared: PublicRegressors, budget: Budget
    ) -> Plan:
        """Calibrate the release of the cross moments."""
        grid = prepared.regressors.grid
        nothing = np.empty((len(grid), 0))
        query = CrossSum(nothing, RowMap(), grid, nonnegative=public.private_bounded)
        return _plan("cross moments", query, budget)

    def run(
        self,
        records: Records,
        prepared: PublicRegressors,
        plan: Plan,
        desk: Desk,
        on_step: OnStep,
    ) -> Centred:
        """Release the cross moments of public regressors and private columns."""
        query = conditional.cross_sum(
            *_private_block(records),
            prepared.regressors,
            nonnegative=records.public.private_bounded,
        )
        total = desk.release("cross moments", query)
        noise_std = plan.events[0].noise_std[0]
        return self._centred(records.public, prepared.regressors, total, noise_std)

    def exactly(self, records: Records) -> Centred:
        """Return the same without noise."""
        regressors = self.prepare(records.public, None).regressors
        total = conditional.exact_sum(*_private_block(records), regressors)
        return self._centred(records.public, regressors, total, 0.0)

    @staticmethod
    def _centred(
        public: PublicRecords, regressors: Regressors, total: np.ndarray, std: float
    ) -> Centred:
        found, mask = conditional.centre(regressors, total, std), public.mask
        mean = np.empty(len(mask))
        mean[mask], mean[~mask] = found.mean, found.intercept
        scale = np.where(mask, found.public_scale, found.private_scale)
        return Centred(mean, found.coef, scale)


def _private_block(records: Records) -> tuple[np.ndarray, RowMap]:
    private = ~records.public.mask
    return records.X[:, private], records.row_map.part(private)


def _plan(label: str, query: Query, budget: Budget) -> Plan:
    """Calibrate one release; the query's bounds are functions of public facts."""
    schedule: PrivacyPlan = budget.calibrate(
        n_steps=1,
        clip_norm=query.clip_norm,
        sensitivity=query.sensitivity(budget.relation),
    )
    std = float(schedule.noise_std[0])
    if std / query.unit(std) > MAX_STD:
        raise ValueError(
            f"epsilon={budget.epsilon!r} and delta={budget.delta!r} need more noise "
            "than the grid of the released sum can carry: raise the budget."
        )
    return Plan(events=(budget.named(schedule, label),), schedule=schedule)
