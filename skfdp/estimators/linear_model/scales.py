"""The scales of a regression: of the target, of the rows, and of the penalty."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from skfdp.estimators.linear_model import shrinkage, target_window
from skfdp.estimators.linear_model.centring import released_mean
from skfdp.estimators.linear_model.fitted import STRONGEST
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries.losses import Loss, huber
from skfdp.records.blocks import row_blocks, row_products
from skfdp.records.coordinates import Coordinates
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.records import PublicRecords, Records
from skfdp.records.target import SPREAD, TargetMap, exact_map
from skfdp.releases.desk import Desk

#: Wanted error of means of targets, and of counts and rates, over half their interval.
TARGET_ERROR, RATE_ERROR = 0.1, 0.05
#: Huber's threshold over the spread of the target, as in `HuberRegressor`.
HUBER_THRESHOLD = 1.35
# Where means and mean absolute deviations lie within the width of an interval: any mean
# is as likely; the deviation of normals four spreads wide on either side is a tenth,
# that of even targets a quarter.
_SPREAD_OF_MEANS = 12**-0.5
_DEVIATION, _SPREAD_OF_DEVIATIONS = 0.15, 0.1
# About how far clips and noise move the logarithm of a mean rate.
_DISPLACED = 0.5
# Parts of the declared width, and of the spread, below which a threshold of Huber's
# loss leaves hardly a target in its squared part.
_TINY_WIDTH, _TINY_SPREAD = 1000, 100


@dataclasses.dataclass(frozen=True)
class TargetScales:
    """The scales for targets of spread 1 and rows of mean length 1.

    Attributes
    ----------
    fit_intercept : bool
    huber_threshold : float or "auto"
        In units of the target; "auto": `HUBER_THRESHOLD`. Only the Huber loss reads it.
    alpha : float or None
        Penalty in units of the target; None: none.
    """

    fit_intercept: bool
    huber_threshold: float | str
    alpha: float | None

    def penalty(self, target_map: TargetMap, total: float) -> float | None:
        """Return s of the penalty ``s / 2 |w|**2`` of a mean loss, in the loop's units.

        Parameters
        ----------
        target_map : TargetMap
        total : float
            What the losses are multiplied by in a sum: the rows, or their weights.
        """
        if self.alpha is None:
            return None
        # |w|**2 and the loss both scale with the square of the unit, but for a log
        # link, where w does not scale and the loss does linearly.
        if target_map.log:
            return min(self.alpha / target_map.scale, STRONGEST)
        return min(self.alpha / total, STRONGEST)

    def keeps_unit(self, target_map: TargetMap) -> bool:
        """Whether the target keeps its unit: a scale of rates is an intercept."""
        return target_map.log and not self.fit_intercept

    def event(
        self,
        public: PublicRecords,
        budget: Budget,
        mu: float,
        share: float | None = None,
        *,
        has_public_model: bool = False,
    ) -> Event | None:
        """Return the event of the target's scales, None where they are public.

        Each of its releases takes `share` of ``mu**2``; None: by a rule.
        """
        n = public.n_records
        if public.has_target or self.keeps_unit(public.target_map):
            return None
        n_means = 1 if has_public_model or public.target_map.log else 2
        if share is None:
            share = self._share(public, mu, has_public_model, n_means)
        target = budget.event(
            "target scale",
            math.sqrt(1 / share) / mu,
            sensitivity=budget.relation.moves(1.0),
            n_steps=n_means,
        )
        if not has_public_model and target_window.pays(target.noise_std[0], n):
            target = dataclasses.replace(target, n_steps=n_means + 1)
        return target

    def _share(
        self, public: PublicRecords, mu: float, has_public_model: bool, n_means: int
    ) -> float:
        """Return the share of ``mu**2`` of one of the target's releases."""
        log, n = public.target_map.log, public.n_effective
        blocks = shrinkage.blocks_of(public.mask, has_public_model)
        # Where the columns can teach next to nothing, the target has the budget.
        room = (0.4 if log else 0.6) * (1 - shrinkage.pull(mu, n, blocks))
        most = max(0.15, room / (n_means + 1))
        return _share(mu, n, RATE_ERROR if log else TARGET_ERROR, most=most)

    def rate_event(
        self, public: PublicRecords, budget: Budget, mu: float
    ) -> Event | None:
        """Return the event of the mean rate, None where there is no such number."""
        if not public.target_map.log or not self.fit_intercept:
            return None
        share = _share(mu, public.n_effective, RATE_ERROR, 0.01, 0.2)
        return budget.event(
            "mean rate",
            1 / (math.sqrt(share) * mu),
            sensitivity=budget.relation.moves(1.0),
        )

    def calibrated(
        self,
        theta: np.ndarray,
        records: Records,
        coordinates: Coordinates,
        offset: np.ndarray | None,
        blocks: list[shrinkage.Block],
        event: Event,
        desk: Desk,
    ) -> np.ndarray:
        """Return the weights with the intercept at which the mean rate is right.

        Clipped gradients pull the rates of skewed counts from their mean toward their
        median, and noise in weights moves them all. The mean of the counts is known, or
        released; that of the rates is released here, and the intercept takes up the
        difference.

        Rates are cut at a multiple of the mean that noise allows. It grows with the
        root of the budget, so that the error of the mean falls with it. What it cuts is
        taken to be what it cuts of lognormal rates around those of the public model.

        Parameters
        ----------
        theta : ndarray of shape (1, n_columns)
        records : Records
        coordinates : Coordinates
        offset : ndarray of shape (n_rows, 1) or None
            Margins of a public model, in the loop's units.
        blocks : list of Block
            Of the columns.
        event : Event
            Of the mean rate.
        desk : Desk
        """
        public = records.public
        most = max(2.0, 0.5 / math.sqrt(_error(1.0, event, public)))
        coef, intercept = coordinates.fold(theta)
        rates = functools.partial(
            _rates, coef=coef[0], intercept=intercept[0], most=most
        )
        found, error = released_mean(
            records, rates, 0.0, most, event, "mean rate", desk, offset=offset
        )
        start = np.zeros(records.n_rows) if offset is None else offset[:, 0]
        found = min(max(found, 2 * error), max(1.0, most - 2 * error))
        variance = shrinkage.variance(theta, blocks)
        level, slope = shrinkage.rate_level(start, variance, most, found, public.shares)
        # The less the noise tells, the more the weights are taken at their word.
        told = (_DISPLACED * slope) ** 2
        kept = told / (told + error**2)
        theta = theta.copy()
        theta[:, -1] -= kept * (level + variance / 2) / coordinates.bias
        return theta

    def exactly(self, records: Records, margins: np.ndarray | None = None) -> TargetMap:
        """Return the map of a target that may be looked at.

        Parameters
        ----------
        records : Records
        margins : ndarray of shape (n_rows, 1), default=None
            Of a public model, in the units of the target or its logarithm.
        """
        start = records.public.target_map
        if self.keeps_unit(start):
            return start
        return exact_map(
            records.target, start, self.fit_intercept, margins, records.public.shares
        )

    def released(
        self,
        records: Records,
        event: Event | None,
        desk: Desk,
        margins: np.ndarray | None = None,
    ) -> TargetMap:
        """Return the map of the target, from released numbers where it is private.

        Parameters
        ----------
        records : Records
        event : Event or None
            None: the target is public.
        desk : Desk
        margins : ndarray of shape (n_rows, 1), default=None
            Of a public model, in the units of the target or its logarithm.
        """
        if event is None:
            return self.exactly(records, margins)
        start = records.public.target_map
        low, high = start.low, start.high
        y = functools.partial(_targets, bounds=start)

        def mean_of(values, low, high, stream, **per_row) -> tuple[float, float]:
            return released_mean(
                records, values, low, high, event, stream, desk, **per_row
            )

        if event.n_steps > (1 if start.log or margins is not None else 2):
            low, high = target_window.released_window(records, event, desk)
        if start.log:
            mean, error = mean_of(y, low, high, "target mean")
            return dataclasses.replace(start, scale=max(mean, 2 * error))
        centre, furthest, span = 0.0, high - low, high - low
        if margins is None:
            mean, error = mean_of(y, low, high, "target mean")
            mean = _expected(mean, error, (low + high) / 2, _SPREAD_OF_MEANS * span)
            centre = mean if self.fit_intercept else 0.0
            furthest = max(high - centre, centre - low)
        distances = functools.partial(
            _distances, bounds=start, centre=centre, low=low, high=high
        )
        spread, error = mean_of(
            distances, 0.0, furthest, "target spread", margins=margins
        )
        spread = _expected(
            spread, error, _DEVIATION * span, _SPREAD_OF_DEVIATIONS * span
        )
        spread = max(spread, error)
        return dataclasses.replace(start, centre=centre, scale=SPREAD * spread)

    def scaled(
        self, records: Records, target_map: TargetMap, loss: Loss
    ) -> tuple[Records, Loss]:
        """Return the table with its target in the loop's units, and the loss there."""
        if loss.name == "huber":
            loss = huber(self._huber_threshold(target_map))
        return records.with_target(target_map), loss

    def _huber_threshold(self, target_map: TargetMap) -> float:
        """Return where the loss turns linear, in the loop's units."""
        threshold = self.huber_threshold
        if threshold == "auto":
            return HUBER_THRESHOLD
        # Without bounds the spread is exact: the target is public, or there is no
        # privacy.
        if math.isinf(target_map.high) and threshold < target_map.scale / _TINY_SPREAD:
            _warn_of_absolute_loss(threshold, "a hundredth of the target's spread")
        return threshold / target_map.scale


def warn_of_huber_threshold(threshold: float | str, bounds: tuple | None) -> None:
    """Warn of a threshold that is tiny beside the declared bounds; of parameters alone.

    Parameters
    ----------
    threshold : float or "auto"
    bounds : (float, float) or None
    """
    if threshold == "auto" or bounds is None:
        return
    low, high = map(float, bounds)
    if threshold < (high - low) / _TINY_WIDTH:
        _warn_of_absolute_loss(
            threshold,
            f"a thousandth of the width of target_bounds=({low:g}, {high:g})",
        )


def _warn_of_absolute_loss(threshold: float, size: str) -> None:
    """Warn that Huber's loss is hardly ever squared."""
    warn_caller(
        f"huber_threshold={float(threshold):g} is below {size}: Huber's loss is then "
        "an absolute error in nearly all rows, which learns little under noise; leave "
        "'auto', 1.35 times the target's spread, or give the size of usual errors in "
        "the target's units.",
        UtilityWarning,
    )


def _targets(records: Records, bounds: TargetMap) -> np.ndarray:
    """Return the targets within their declared bounds."""
    return np.clip(records.target, bounds.low, bounds.high)


def _distances(
    records: Records, bounds: TargetMap, centre, low, high, margins=None
) -> np.ndarray:
    """Return how far targets are from their centre, or from margins within bounds."""
    if margins is not None:
        return np.abs(_targets(records, bounds) - np.clip(margins[:, 0], low, high))
    return np.abs(_targets(records, bounds) - centre)


def _rates(records: Records, coef, intercept, most, offset=None) -> np.ndarray:
    """Return the fitted rates over that of the loop's unit, at most `most`."""
    rates = np.empty(records.n_rows)
    start = np.zeros(records.n_rows) if offset is None else offset[:, 0]
    with np.errstate(all="ignore"):  # a warning would tell of a private value
        for block in row_blocks(records.X):
            rows = records.public.row_map(records.X[block])
            margins = row_products(rows, coef) + intercept + start[block]
            # NaN counts as the mean.
            cut = np.nan_to_num(margins).clip(-99.0, math.log(most))
            rates[block] = np.exp(cut)
    return rates


def _share(
    mu: float, n_records: int, error: float, least: float = 0.02, most: float = 0.15
) -> float:
    """Return the share of ``mu**2`` for a mean in [-1, 1] of this error, in bounds."""
    return float(np.clip((error * mu * n_records) ** -2.0, least, most))


def _expected(found: float, error: float, middle: float, spread: float) -> float:
    """Return what a noisy number is expected to be, given where such numbers lie."""
    return middle + (found - middle) * spread**2 / (spread**2 + error**2)


def _error(span: float, event: Event, public: PublicRecords) -> float:
    """Return the standard deviation of what `released_mean` returns."""
    return span / 2 * event.noise_std[0] / public.n_records
