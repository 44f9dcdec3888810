"""The scales of a regression: of the target, of the rows, and of the penalty."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.centring import released_mean
from skfdp.estimators.linear_model.fitted import STRONGEST
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries.losses import Loss, huber
from skfdp.records.records import PublicRecords, Records
from skfdp.records.target import SPREAD, TargetMap, exact_map
from skfdp.releases.desk import Desk


@dataclasses.dataclass(frozen=True)
class TargetScales:
    """The scales for targets of spread 1 and rows of mean length 1.

    Attributes
    ----------
    fit_intercept : bool
    huber_threshold : float
        In units of the target; only the Huber loss reads it.
    alpha : float or None
        Penalty in units of the target; None: none.
    """

    fit_intercept: bool
    huber_threshold: float
    alpha: float | None

    def penalty(self, target_map: TargetMap, n_records: int) -> float | None:
        """Return s of the penalty ``s / 2 |w|**2`` per record, in the loop's units."""
        if self.alpha is None:
            return None
        # |w|**2 and the loss both scale with the square of the unit, but for a log
        # link, where w does not scale and the loss does linearly.
        if target_map.log:
            return min(self.alpha / target_map.scale, STRONGEST)
        return min(self.alpha / n_records, STRONGEST)

    def keeps_unit(self, target_map: TargetMap) -> bool:
        """Whether the target keeps its unit: a scale of rates is an intercept."""
        return target_map.log and not self.fit_intercept

    def event(
        self,
        public: PublicRecords,
        budget: Budget,
        mu: float,
        share: float | None = None,
    ) -> Event | None:
        """Return the event of the target's scales, None where they are public.

        Each of its releases takes `share` of ``mu**2``; None: by the rule of means.
        """
        if public.has_target or self.keeps_unit(public.target_map):
            return None
        if share is None:
            share = defaults.mean_fraction(mu, public.n_records, 1)
        return budget.event(
            "target scale",
            math.sqrt(1 / share) / mu,
            sensitivity=budget.relation.moves(1.0),
            n_steps=1 if public.target_map.log else 2,
        )

    def exactly(self, records: Records) -> TargetMap:
        """Return the map of a target that may be looked at."""
        start = records.public.target_map
        if self.keeps_unit(start):
            return start
        return exact_map(records.target, start, self.fit_intercept)

    def released(self, records: Records, event: Event | None, desk: Desk) -> TargetMap:
        """Return the map of the target, from released numbers where it is private."""
        if event is None:
            return self.exactly(records)
        public, y = records.public, records.target
        start = public.target_map
        low, high = start.low, start.high
        mean, error = released_mean(y, low, high, event, "target mean", public, desk)
        if start.log:
            return dataclasses.replace(start, scale=max(mean, 2 * error))
        centre = mean if self.fit_intercept else 0.0
        furthest = max(high - centre, centre - low)
        distance = np.abs(np.clip(y, low, high) - centre)
        deviation, error = released_mean(
            distance, 0.0, furthest, event, "target spread", public, desk
        )
        scale = SPREAD * max(deviation, 2 * error)
        return dataclasses.replace(start, centre=centre, scale=scale)

    def scaled(
        self, records: Records, target_map: TargetMap, loss: Loss
    ) -> tuple[Records, Loss]:
        """Return the table with its target in the loop's units, and the loss there."""
        if loss.name == "huber":
            loss = huber(self.huber_threshold / target_map.scale)
        scaled = dataclasses.replace(records, target=target_map(records.target))
        return scaled, loss
