"""The scales of a regression: of the target, of the rows, and of the penalty."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.fitted import STRONGEST
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries.losses import Loss, huber
from skfdp.queries.statistics import RowSum
from skfdp.records.blocks import row_blocks, squared_norms
from skfdp.records.coordinates import Coordinates
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
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

    def events(
        self, public: PublicRecords, budget: Budget, mu: float
    ) -> tuple[Event | None, Event | None]:
        """Return the events of the target's scales and of the rows' length."""
        share = defaults.mean_fraction(mu, public.n_records, 1)

        def event(label: str, n_releases: int) -> Event:
            return budget.event(
                label,
                math.sqrt(1 / share) / mu,
                sensitivity=budget.relation.moves(1.0),
                n_steps=n_releases,
            )

        known = public.has_target or self.keeps_unit(public.target_map)
        return (
            None if known else event("target scale", 1 if public.target_map.log else 2),
            None if public.mask.all() else event("row length", 1),
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
        mean = _released_mean(y, low, high, "target mean", event, public, desk)
        error = _error(high - low, event, public)
        if start.log:
            return dataclasses.replace(start, scale=max(mean, 2 * error))
        centre = mean if self.fit_intercept else 0.0
        furthest = max(high - centre, centre - low)
        deviation = _released_mean(
            np.abs(np.clip(y, low, high) - centre),
            0.0,
            furthest,
            "target spread",
            event,
            public,
            desk,
        )
        error = _error(furthest, event, public)
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

    def lengthened(
        self,
        records: Records,
        found: Coordinates,
        event: Event | None,
        private_norm: float,
        desk: Desk,
    ) -> Coordinates:
        """Return coordinates in which the rows have a mean length of 1.

        A private block is at most 1 long, and at most ``1 + |mean|`` from the mean.

        Parameters
        ----------
        records : Records
        found : Coordinates
            Centred already.
        event : Event or None
            Of the mean length of the private block; None: all columns are public.
        private_norm : float
            Typical norm of the private part of a row that also has a public one.
        desk : Desk
        """
        public, mask = records.public, records.public.mask
        X, mapped = records.X, records.mapped
        columns = np.ones_like(mask) if event is None else ~mask
        mean = found.mean[columns]
        lengths = np.empty(X.shape[0])
        for block in row_blocks(X):
            rows = public.row_map.mapped(X[block]) if public.sparse else mapped[block]
            rows = rows[:, columns]
            lengths[block] = _distances(rows, mean)
        if event is None:
            length = float(lengths.mean()) or 1.0
        else:
            furthest = 1 + float(np.linalg.norm(mean))
            length = _released_mean(
                lengths, 0.0, furthest, "row length", event, public, desk
            )
            length = max(length, 2 * _error(furthest, event, public))
        scale: float | np.ndarray = 1 / length
        if mask.any() and not mask.all():
            scale = np.where(mask, found.scale, private_norm / length)
        bias = defaults.BIAS_FEATURE if self.fit_intercept else None
        return Coordinates.centred(found.row_map, found.mean, scale, bias)


def _error(span: float, event: Event, public: PublicRecords) -> float:
    """Return the standard deviation of what `_released_mean` returns."""
    return span / 2 * event.noise_std[0] / public.n_records


def _released_mean(
    values: np.ndarray,
    low: float,
    high: float,
    stream: str,
    event: Event,
    public: PublicRecords,
    desk: Desk,
) -> float:
    """Return the noisy mean of numbers within public bounds.

    The sum of ``(value - middle) / half`` moves by at most 1 if a value is nulled
    (counts as the middle), and by at most 2 if it is replaced.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    unit = (np.clip(values, low, high) - middle) / half
    query = RowSum(unit[:, None], RowMap(), public.capacity)
    total = desk.release(event.label, query, stream=stream)
    return middle + half * float(np.clip(total[0] / public.n_records, -1, 1))


def _distances(rows: np.ndarray | csr_array, mean: np.ndarray) -> np.ndarray:
    """Return the distance of each row from the mean; CSR rows are not filled in."""
    if issparse(rows):
        squares = rows.multiply(rows).sum(axis=1) - 2 * (rows @ mean) + mean @ mean
        return np.sqrt(np.maximum(squares, 0.0))
    return np.sqrt(squared_norms(rows - mean))
