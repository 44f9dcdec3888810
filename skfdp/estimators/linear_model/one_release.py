"""The common part of regressions from one release: scales, coordinates."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.centring import Centring, Moments
from skfdp.estimators.linear_model.coefficient_noise import (
    FIRST_ORDER,
    CoefficientNoise,
)
from skfdp.estimators.linear_model.fitted import LinearFit
from skfdp.estimators.linear_model.scales import TargetScales
from skfdp.estimators.method import Budget, OnStep, Plan, existing
from skfdp.privacy.relations import Relation
from skfdp.queries.losses import Loss
from skfdp.records.coordinates import Coordinates
from skfdp.records.records import PublicRecords, Records
from skfdp.records.target import TargetMap
from skfdp.releases.descent import warn_of_divergence
from skfdp.releases.desk import Desk


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicMoments:
    """Moments of the public columns, None where they are not needed."""

    moments: Moments | None


@dataclasses.dataclass(frozen=True)
class OneRelease:
    """A regression that releases one sum beside the scales and the private mean.

    Attributes
    ----------
    loss : Loss
    centring : Centring
    scales : TargetScales
    max_iter : int
        Of a public optimiser.
    """

    loss: Loss
    centring: Centring
    scales: TargetScales
    max_iter: int = 1000

    #: Of the event.
    label = ""

    def _bounds(self, relation: Relation) -> tuple[float, float]:
        """Return clip norm and sensitivity of the release."""
        raise NotImplementedError

    def _norms(self, public: PublicRecords) -> tuple[float, float]:
        """Return the typical norms of the public and of the private part of a row."""
        return defaults.block_norms(has_public_model=False)

    def _solve(
        self,
        records: Records,
        loss: Loss,
        coordinates: Coordinates,
        plan: Plan,
        target_map: TargetMap,
        desk: Desk,
    ) -> tuple[np.ndarray, int, np.ndarray]:
        """Release the sum and return theta, shape (1, n_columns), and iterations.

        Last the covariance of its noise, shape (n_columns, n_columns), to first order
        and given the penalty.
        """
        raise NotImplementedError

    def prepare(self, public: PublicRecords, budget: Budget) -> PublicMoments:
        """Return the moments of the public columns."""
        return PublicMoments(moments=self.centring.prepare(public))

    def plan(
        self, public: PublicRecords, prepared: PublicMoments, budget: Budget
    ) -> Plan:
        """Calibrate the one release, beside the mean and the scales."""
        mu = budget.mu / budget.relation.moves(1.0)
        target = self.scales.event(public, budget, mu)
        others = existing(target, *self.centring.events(public, budget, mu))
        clip_norm, sensitivity = self._bounds(budget.relation)
        schedule = budget.calibrate(
            n_steps=1,
            clip_norm=clip_norm,
            sensitivity=sensitivity,
            other_events=others,
        )
        event = budget.named(schedule, self.label)
        return Plan(events=(*others, event), schedule=schedule)

    def run(
        self,
        records: Records,
        prepared: PublicMoments,
        plan: Plan,
        desk: Desk,
        on_step: OnStep,
    ) -> LinearFit:
        """Release the scales and the mean, then the sum; solve in public."""
        found = self.scales.released(records, plan.event("target scale"), desk)
        records, loss = self.scales.scaled(records, found, self.loss)
        norms = self._norms(records.public)
        coordinates = self.centring.coordinates(
            records, prepared.moments, plan, norms, desk
        )
        theta, n_iter, covariance = self._solve(
            records, loss, coordinates, plan, found, desk
        )
        warn_of_divergence(theta)
        coef, intercept = coordinates.fold(theta)
        noise = CoefficientNoise.of_weights(
            covariance[None], coordinates.fold, self._kind
        )
        return LinearFit(coef, intercept, n_iter, target_map=found, noise=noise)

    @property
    def _kind(self) -> str:
        """What is known of the noise."""
        return FIRST_ORDER
