"""The scales of a regression: of its target, of its penalty and of its mean rate."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable

import numpy as np

from skfdp.data.grid import row_blocks, row_products
from skfdp.data.records import Coordinates, PublicRecords, Records
from skfdp.data.target import SPREAD, TargetMap, exact_map
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.kernels.losses import Loss, loss_named
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.queries.statistics import RowSum
from skfdp.solvers import postprocessing
from skfdp.solvers.centring import released_mean
from skfdp.solvers.method import Budget, Plan
from skfdp.solvers.postprocessing import HUBER_THRESHOLD, STRONGEST

# An interval within the declared bounds that contains the targets, from one noisy
# histogram.
#
# The noise of a mean grows with this width, and declared bounds are often wide. So a
# coarse histogram is released first, and the mean is taken within the bins that contain
# all records, except for noise, and one more bin on either side.


#: Labels of the events of the target's mean and spread, and of its histogram.
SCALE, HISTOGRAM = "target scale", "target histogram"
# Number of bins of equal width, and of bins whose widths double.
N_BINS, N_DOUBLINGS = 16, 8
# Largest noise of a count in a useful histogram, divided by the number of records.
_NOISIEST = 0.16
# A count outside of the interval is taken for noise if it is at most this many standard
# deviations, with bins of equal width and with doubling bins. One more bin of equal
# width costs little, but one more doubling bin doubles the noise.
_DOUBT_OF_COUNT, _DOUBT_OF_DOUBLING = 2.0, 3.0
# Largest share of the records outside of the interval, for unlikely noise.
_MOST_OUTSIDE = 0.3


def edges(bounds: TargetMap) -> np.ndarray:
    """Return the public edges of bins: even, or for a log link with doubling widths."""
    width = bounds.high - bounds.low
    if not bounds.log:
        return bounds.low + width * np.arange(N_BINS + 1) / N_BINS
    return bounds.low + np.r_[0.0, width * 2.0 ** -np.arange(N_DOUBLINGS)[::-1]]


def released_window(
    records: Records, event: Event, mechanism: Mechanism
) -> tuple[float, float]:
    """Release a histogram of targets, and return an interval with nearly all of them.

    A record adds 1 to one bin, and a null record 0. So the histogram changes by at most
    1 if a record becomes null, and by at most sqrt(2) if a record is replaced.
    """
    public = records.public
    bounds = public.target_map
    counts = mechanism.release(event.label, records.query(_in_bins), stream=HISTOGRAM)
    noise_std = event.noise_std[0] / public.n_records
    # For a target of counts (log link), the interval starts at the lower bound.
    first, last = occupied(counts / public.n_records, noise_std, upward=bounds.log)
    found = edges(bounds)
    return float(found[max(0, first - 1)]), float(found[min(len(counts), last + 1)])


def _in_bins(records: Records) -> RowSum:
    """Return the query for the histogram of targets; a recipe of `Records.query`."""
    bounds = records.public.target_map
    target = np.clip(records.target, bounds.low, bounds.high)
    inner = edges(bounds)[1:-1]
    bins = np.searchsorted(inner, target, side="right")
    unit = np.eye(len(inner) + 1)
    return RowSum(unit[bins], records.public.capacity, nonnegative=True)


def occupied(shares: np.ndarray, noise_std: float, *, upward: bool) -> tuple[int, int]:
    """Return (first, stop) of a run of bins outside of which there may be only noise.

    The run starts at the bin with the largest share, or at the first bin if `upward`.
    The neighbour with the larger share is added until the share of the records outside
    of the run may be noise, and is at most `_MOST_OUTSIDE` for all but unlikely noise.
    Without this limit a noisy histogram would suggest a short run beside the records.
    `shares` are noisy shares of the records in the bins, and `noise_std` is the
    standard deviation of the noise in a share.
    """
    first = 0 if upward else int(shares.argmax())
    last, n_bins = first + 1, len(shares)
    doubt = _DOUBT_OF_DOUBLING if upward else _DOUBT_OF_COUNT
    while last - first < n_bins:
        part, inside = (last - first) / n_bins, shares[first:last].sum()
        # Two estimates of the share outside, weighted by their inverse variances.
        outside = (1 - inside) * (1 - part) + (shares.sum() - inside) * part
        error = doubt * noise_std * math.sqrt(n_bins * part * (1 - part))
        if outside <= error and outside + error <= _MOST_OUTSIDE:
            break
        below = shares[first - 1] if first > 0 else -math.inf
        above = shares[last] if last < n_bins else -math.inf
        first, last = (first - 1, last) if below > above else (first, last + 1)
    return first, last


#: Desired error of the mean of targets, of counts and of rates, divided by half of the
#: width of their interval.
TARGET_ERROR, COUNT_ERROR, RATE_ERROR = 0.1, 0.005, 0.05
#: Least share of ``mu**2`` of each mean, if there are exposures: rates are used for
#: totals, such as premiums, and claims over short times are mostly 0.
LEAST_OF_TOTALS = 0.04
# Standard deviation of the prior of the mean target; expectation and standard deviation
# of the prior of the mean absolute deviation. All are divided by the width of the
# interval. The mean is taken as uniform. The deviation would be 0.1 for a normal target
# with bounds four standard deviations from its mean, and 0.25 for a uniform target.
_SPREAD_OF_MEANS = 12**-0.5
_DEVIATION, _SPREAD_OF_DEVIATIONS = 0.15, 0.1
# Typical amount by which clipping and noise change the logarithm of a mean rate.
_DISPLACED = 0.5
# Number of releases of the mean rate. At the second release the rates have about the
# right mean, so the noise is relatively smaller.
_N_RATES = 2
# Typical variance that a fit adds to the logarithms of rates.
_ADDED = 0.2
# Huber's loss is nearly an absolute error if its threshold is below the width of the
# declared bounds divided by this number.
_TINY_WIDTH = 1000


@dataclasses.dataclass(frozen=True)
class TargetScales:
    """The rescaling of targets to spread 1, and the scales that follow from it.

    `huber_threshold` is in units of the target, and only for the Huber loss; "auto":
    `HUBER_THRESHOLD` times the spread of the target. `alpha` is the strength of the
    penalty, in units of the target; None: no penalty.
    """

    fit_intercept: bool
    huber_threshold: float | str
    alpha: float | None

    def penalty(self, loss: Loss, target_map: TargetMap, total: float) -> float | None:
        """Return s of the penalty ``s / 2 |w|**2`` on a mean over `total` rows."""
        if self.alpha is None:
            return None
        # |w|**2 and the loss are both proportional to the square of the target's unit.
        # With a log link the unit does not change w, and the loss is proportional to
        # a power of the unit, 2 minus that of the loss.
        if target_map.log:
            return min(self.alpha / target_map.scale ** (2 - loss.parameter), STRONGEST)
        return min(self.alpha / total, STRONGEST)

    def keeps_unit(self, target_map: TargetMap) -> bool:
        """Whether the target is not rescaled: for a log link without an intercept."""
        return target_map.log and not self.fit_intercept

    def events(
        self,
        public: PublicRecords,
        budget: Budget,
        mu: float,
        has_public_model: bool,
    ) -> tuple[Event, ...]:
        """Return the events of the target's histogram, mean and spread, if released.

        The histogram has an event of its own if its sensitivity is smaller.
        """
        n = public.n_records
        if public.has_target or self.keeps_unit(public.target_map):
            return ()
        n_means = self._n_means(public, has_public_model)
        log, n_effective = public.target_map.log, public.n_effective
        blocks = postprocessing.target_blocks(public, has_public_model)
        pull = postprocessing.pull(mu, n_effective, blocks)
        # If the columns can contribute little, the target's scales get more budget.
        room = (0.4 if log else 0.6) * (1 - pull)
        most = max(0.15, room / (n_means + 1)) / (n_means if log else 1)
        error = COUNT_ERROR if log else TARGET_ERROR
        least = 0.02 if public.exposure is None else LEAST_OF_TOTALS
        share = _share(mu, n_effective, error, least, most)
        std, reach = math.sqrt(1 / share) / mu, budget.relation.sensitivity(1.0)
        target = budget.event(SCALE, std, sensitivity=reach, n_steps=n_means)
        if has_public_model or target.noise_std[0] / n >= _NOISIEST:
            return (target,)
        query = RowSum.planned(nonnegative=True)
        if (smaller := query.sensitivity(budget.relation)) < reach:
            return budget.event(HISTOGRAM, std, sensitivity=smaller), target
        return (dataclasses.replace(target, n_steps=n_means + 1),)

    def _n_means(self, public: PublicRecords, has_public_model: bool) -> int:
        """Return the number of means: of target, spread and private exposure."""
        if public.exposure is not None:
            return 1 + (not public.exposure.public)
        return 1 if has_public_model or public.target_map.log else 2

    def rate_event(
        self, public: PublicRecords, budget: Budget, mu: float
    ) -> Event | None:
        """Return the event of the mean rate, or None if it is not released."""
        if not public.target_map.log or not self.fit_intercept:
            return None
        least = 0.01 if public.exposure is None else LEAST_OF_TOTALS
        share = _share(mu, public.n_effective, RATE_ERROR, least, 0.2)
        return budget.event(
            "mean rate",
            1 / (math.sqrt(share) * mu),
            sensitivity=budget.relation.sensitivity(1.0),
            n_steps=_N_RATES,
        )

    def calibrated(
        self,
        theta: np.ndarray,
        records: Records,
        coordinates: Coordinates,
        offset: np.ndarray | None,
        shrink: Callable[..., np.ndarray],
        event: Event,
        mechanism: Mechanism,
    ) -> np.ndarray:
        """Correct the intercept so that the mean rate equals the mean count.

        Clipped gradients pull the rates of skewed counts from their mean toward their
        median, and noise in weights changes all rates. The mean rate is released here,
        and the intercept is shifted by the difference of its logarithm from that of the
        mean count, which is public or released.

        Rates are clipped to a multiple of the mean, which grows with the square root of
        the budget, so the error of the released mean rate still decreases. The effect
        of the clip is estimated for lognormal rates around those of the public model.

        **Guarantees.** Each of `_N_RATES` releases is a mean of numbers in the public
        interval [0, most], for all rows and all weights, so that the bound of
        `released_mean` holds. `rate_event` charges for all of them. The rest is a
        function of released numbers and of the public model.

        `theta` has the shape (1, n_columns). ``shrink(theta, curvature=...)`` shrinks
        the weights between the releases. `offset` are rescaled margins of a public
        model or None.
        """
        public, theta = records.public, theta.copy()
        noise_std = 0.5 * event.noise_std[0] / public.n_records
        most = max(2.0, 0.5 / math.sqrt(noise_std))
        # Without a public model all margins are equal. One stands for all rows, because
        # the number of rows may be private.
        start, shares = np.zeros(1), None
        if offset is not None:
            start, shares = offset[:, 0], public.shares
        if public.exposure is not None and public.exposure.public:
            start, shares = start + np.log(records.exposure), public.shares
        displaced = _DISPLACED
        for k in range(_N_RATES):
            (coef,), (intercept,) = coordinates.fold(theta)
            rates = functools.partial(_rates, coef=coef, intercept=intercept, most=most)
            found, error = released_mean(
                records, rates, 0.0, most, event, "mean rate", mechanism, offset=offset
            )
            found = min(max(found, 2 * error), max(1.0, most - 2 * error))
            level, slope = postprocessing.rate_level(start, _ADDED, most, found, shares)
            # Bayesian estimate of the change of the level, smaller with more noise.
            signal = (displaced * slope) ** 2
            kept = signal / (signal + error**2)
            displaced *= math.sqrt(1 - kept)  # standard deviation of the posterior
            theta[:, -1] -= kept * (level + _ADDED / 2) / coordinates.bias
            if k == 0:
                # The curvature of the loss is the mean rate. If clipping has lowered
                # the mean rate, many residuals are clipped and add no curvature.
                theta = shrink(theta, curvature=min(found, 1.0) ** 2)
        return theta

    def exactly(self, records: Records, margins: np.ndarray | None = None) -> TargetMap:
        """Return the exact rescaling of a public target, given public margins."""
        start = records.public.target_map
        if self.keeps_unit(start):
            return start
        shares = records.public.shares
        known = records.target, start, self.fit_intercept, margins, shares
        return _per_exposure(records, exact_map(*known))

    def released(
        self,
        records: Records,
        plan: Plan,
        mechanism: Mechanism,
        margins: np.ndarray | None = None,
    ) -> TargetMap:
        """Return the rescaling of the target, from releases if it is private."""
        event, histogram = plan.event(SCALE), plan.event(HISTOGRAM)
        if event is None:
            return self.exactly(records, margins)
        start = records.public.target_map
        low, high = start.low, start.high
        y = functools.partial(_targets, bounds=start)

        def mean_of(values, low, high, stream, **per_row) -> tuple[float, float]:
            return released_mean(
                records, values, low, high, event, stream, mechanism, **per_row
            )

        if event.n_steps > self._n_means(records.public, margins is not None):
            histogram = event
        if histogram is not None:
            low, high = released_window(records, histogram, mechanism)
        if start.log:
            mean, error = mean_of(y, low, high, "target mean")
            found = dataclasses.replace(start, scale=max(mean, 2 * error))
            declared = records.public.exposure
            if declared is None or declared.public:
                return _per_exposure(records, found)
            exposures = operator.attrgetter("exposure")
            mean, error = mean_of(exposures, *declared.bounds, "mean exposure")
            return _per_exposure(records, found, max(mean, 2 * error))
        centre, doubt, furthest, span = 0.0, 0.0, high - low, high - low
        if margins is None:
            mean, error = mean_of(y, low, high, "target mean")
            mean = _expected(mean, error, (low + high) / 2, _SPREAD_OF_MEANS * span)
            if self.fit_intercept:
                centre, doubt = mean, error
            furthest = max(high - centre, centre - low)
        ends = {"low": low, "high": high}
        distances = functools.partial(_distances, bounds=start, centre=centre, **ends)
        asked = distances, 0.0, furthest, "target spread"
        spread, error = mean_of(*asked, margins=margins)
        prior = _DEVIATION * span, _SPREAD_OF_DEVIATIONS * span
        scale = SPREAD * max(_expected(spread, error, *prior), error)
        return dataclasses.replace(start, centre=centre, scale=scale, error=doubt)

    def scaled(
        self, records: Records, target_map: TargetMap, loss: Loss
    ) -> tuple[Records, Loss]:
        """Return the table with the rescaled target, and the rescaled loss."""
        if loss.name == "huber":
            own = self.huber_threshold
            own = HUBER_THRESHOLD if own == "auto" else own / target_map.scale
            loss = loss_named("huber", own)
        if (own := records.exposure) is None:
            return records.with_target(target_map), loss
        records = dataclasses.replace(records, exposure=own / target_map.exposure)
        with np.errstate(all="ignore"):  # a warning would reveal a private value
            return records.with_target(lambda y: target_map(y) / own), loss


def warn_of_huber_threshold(threshold: float | str, bounds: tuple | None) -> None:
    """Warn of a threshold that is tiny compared with the declared bounds."""
    if threshold == "auto" or bounds is None:
        return
    low, high = map(float, bounds)
    if threshold < (high - low) / _TINY_WIDTH:
        warn_caller(
            f"threshold={float(threshold):g} is below a thousandth of the width of "
            f"target_bounds=({low:g}, {high:g}): Huber's loss is then an absolute "
            "error in nearly all rows, which learns little with noise; use 'auto' "
            "(1.35 times the target's spread), or the size of usual errors in the "
            "target's units.",
            UtilityWarning,
        )


def _per_exposure(
    records: Records, found: TargetMap, mean: float | None = None
) -> TargetMap:
    """Return the rescaling of a target over exposures, exact without a `mean`."""
    if records.exposure is None:
        return found
    if mean is None:
        mean = float(np.average(records.exposure, weights=records.public.shares))
    return dataclasses.replace(found, scale=found.scale / mean, exposure=mean)


def _targets(records: Records, bounds: TargetMap) -> np.ndarray:
    return np.clip(records.target, bounds.low, bounds.high)


def _distances(
    records: Records, bounds: TargetMap, centre, low, high, margins=None
) -> np.ndarray:
    """Return the distances of targets from `centre`, or from clipped `margins`."""
    around = centre if margins is None else np.clip(margins[:, 0], low, high)
    return np.abs(_targets(records, bounds) - around)


def _rates(records: Records, coef, intercept, most, offset=None) -> np.ndarray:
    """Return the fitted, rescaled rates times exposures, clipped to `most`."""
    rates = np.empty(len(records.target))
    start = np.zeros(len(rates)) if offset is None else offset[:, 0]
    if records.exposure is not None:
        start = start + np.log(records.exposure)
    with np.errstate(all="ignore"):  # a warning would reveal a private value
        mapped = records.mapped
        for block in row_blocks(mapped):
            rows = records.public.input_scaler.restored(mapped[block])
            margins = row_products(rows, coef) + intercept + start[block]
            # A NaN margin becomes 0, with the mean rate exp(0) = 1.
            rates[block] = np.exp(np.nan_to_num(margins).clip(-99.0, math.log(most)))
    return rates


def _share(
    mu: float, n_records: int, error: float, least: float = 0.02, most: float = 0.15
) -> float:
    """Return the share of ``mu**2`` for a released mean with this `error`.

    It is that of the noise, divided by half of the width of the numbers' interval.
    """
    return float(np.clip((error * mu * n_records) ** -2.0, least, most))


def _expected(found: float, error: float, middle: float, spread: float) -> float:
    """Return the posterior mean of a noisy number with a normal prior."""
    return middle + (found - middle) * spread**2 / (spread**2 + error**2)
