"""The scales of a regression: of the target, of the rows, and of the penalty."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from skfdp.data.grid import row_blocks, row_products
from skfdp.data.input_scaler import Coordinates, InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import SPREAD, TargetMap, exact_map
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.kernels.losses.loss import Loss
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.queries.linear import huber
from skfdp.queries.statistics import RowSum
from skfdp.solvers import postprocessing
from skfdp.solvers.centring import released_mean
from skfdp.solvers.method import Budget
from skfdp.solvers.postprocessing import STRONGEST

# The part of the declared bounds that holds the targets, from one noisy histogram.
#
# The noise of a mean grows with the width of the interval that its numbers are cut to.
# Bounds that are sure to hold are wide. So a coarse histogram is released first, and
# the mean then within the bins that hold all records but what could be noise, and one
# more on either side. As the budget grows, nothing is cut.


# Counts have fewer bins: doubling ones below a few counts are empty and add noise.
N_BINS, N_DOUBLINGS = 16, 8
# A histogram of more noise than that, as a share of the records, tells nothing.
_MOST_NOISE = 0.16
# Standard deviations of the noise that may be no records. One even bin too many costs
# little; one that is twice as wide as those before doubles the noise.
_DOUBT, _DOUBT_OF_DOUBLING = 2.0, 3.0


def edges(bounds: TargetMap) -> np.ndarray:
    """Return the public edges of bins: even, or doubling from the lower bound."""
    width = bounds.high - bounds.low
    if not bounds.log:
        return bounds.low + width * np.arange(N_BINS + 1) / N_BINS
    doubling = width * 2.0 ** -np.arange(N_DOUBLINGS)[::-1]
    return bounds.low + np.r_[0.0, doubling]


def released_window(
    records: Records, event: Event, mechanism: Mechanism
) -> tuple[float, float]:
    """Return the interval that holds the targets, from one release.

    A record counts in one bin: its row is a unit vector, hence the sum of the rows
    moves by at most 1 if a record is nulled (it counts in none), and by at most 2 if it
    is replaced.
    """
    public = records.public
    bounds = public.target_map
    query = records.query(_in_bins)
    counts = mechanism.release(event.label, query, stream="target histogram")
    noise_std = event.noise_std[0] / public.n_records
    # Counts have no gap between the lower bound and the mean.
    first, last = filled(counts / public.n_records, noise_std, upward=bounds.log)
    found = edges(bounds)
    return float(found[max(0, first - 1)]), float(found[min(len(counts), last + 1)])


def _in_bins(records: Records) -> RowSum:
    """Return the histogram of the targets within their bounds; a recipe."""
    bounds = records.public.target_map
    target = np.clip(records.target, bounds.low, bounds.high)
    inner = edges(bounds)[1:-1]
    bins = np.searchsorted(inner, target, side="right")
    unit = np.eye(len(inner) + 1)
    return RowSum(unit[bins], InputScaler(), records.public.capacity)


def filled(shares: np.ndarray, noise_std: float, *, upward: bool) -> tuple[int, int]:
    """Return the first bin, and that after the last, that hold all but noise.

    From the largest bin on, or the first one if `upward`, the larger neighbour is taken
    in, until what is left of all records is less than the noise of the sum. `shares` of
    the records are noisy, each by `noise_std`.
    """
    first = 0 if upward else int(shares.argmax())
    last = first + 1
    noise_std *= _DOUBT_OF_DOUBLING if upward else _DOUBT
    while 1 - shares[first:last].sum() > noise_std * math.sqrt(last - first):
        below = shares[first - 1] if first > 0 else -math.inf
        above = shares[last] if last < len(shares) else -math.inf
        if max(below, above) == -math.inf:
            break
        first, last = (first - 1, last) if below > above else (first, last + 1)
    return first, last


#: Wanted error of means of targets, and of counts and rates, over half their interval.
TARGET_ERROR, COUNT_ERROR, RATE_ERROR = 0.1, 0.005, 0.05
#: Huber's threshold over the spread of the target, as in `HuberRegressor`.
HUBER_THRESHOLD = 1.35
# Where means and mean absolute deviations lie within the width of an interval: any mean
# is as likely; the deviation of normals four spreads wide on either side is a tenth,
# that of even targets a quarter.
_SPREAD_OF_MEANS = 12**-0.5
_DEVIATION, _SPREAD_OF_DEVIATIONS = 0.15, 0.1
# About how far clips and noise move the logarithm of a mean rate.
_DISPLACED = 0.5
# Releases of that mean. The second one is at rates of about the right mean, of which
# the noise is a smaller part.
_N_RATES = 2
# About the variance of what a fit adds to the logarithms of rates.
_ADDED = 0.2
# Parts of the declared width, and of the spread, below which a threshold of Huber's
# loss leaves hardly a target in its squared part.
_TINY_WIDTH, _TINY_SPREAD = 1000, 100


@dataclasses.dataclass(frozen=True)
class TargetScales:
    """The scales for targets of spread 1 and rows of mean length 1.

    `huber_threshold` is in units of the target, and read by the Huber loss alone;
    "auto": `HUBER_THRESHOLD`. The penalty `alpha` is in units of the target; None:
    none.
    """

    fit_intercept: bool
    huber_threshold: float | str
    alpha: float | None

    def penalty(self, target_map: TargetMap, total: float) -> float | None:
        """Return s of the penalty ``s / 2 |w|**2`` of a mean over `total` rows."""
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
        *,
        has_public_model: bool = False,
    ) -> Event | None:
        """Return the event of the target's scales, None where they are public."""
        n = public.n_records
        if public.has_target or self.keeps_unit(public.target_map):
            return None
        n_means = 1 if has_public_model or public.target_map.log else 2
        log, n_effective = public.target_map.log, public.n_effective
        blocks = postprocessing.target_blocks(public.mask, has_public_model)
        pull = postprocessing.pull(mu, n_effective, blocks)
        # Where the columns can teach next to nothing, the target has the budget.
        room = (0.4 if log else 0.6) * (1 - pull)
        most = max(0.15, room / (n_means + 1))
        error = COUNT_ERROR if log else TARGET_ERROR
        share = _share(mu, n_effective, error, most=most)
        target = budget.event(
            "target scale",
            math.sqrt(1 / share) / mu,
            sensitivity=budget.relation.moves(1.0),
            n_steps=n_means,
        )
        if not has_public_model and target.noise_std[0] / n < _MOST_NOISE:
            target = dataclasses.replace(target, n_steps=n_means + 1)
        return target

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
        """Return the weights with the intercept at which the mean rate is right.

        Clipped gradients pull the rates of skewed counts from their mean toward their
        median, and noise in weights moves them all. The mean of the counts is known, or
        released; that of the rates is released here, and the intercept takes up the
        difference.

        Rates are cut at a multiple of the mean that noise allows. It grows with the
        root of the budget, so that the error of the mean falls with it. What it cuts is
        taken to be what it cuts of lognormal rates around those of the public model.

        **Guarantees.** Each of `_N_RATES` releases is a mean of numbers in the public
        interval [0, most], whatever the weights, which are released, and the row: the
        bound of `released_mean` holds. `rate_event` charges for all of them. The rest
        is a function of released numbers and of the public model.

        `theta` has the shape (1, n_columns), ``shrink(theta, curvature=...)`` takes off
        what is noise, between the releases, and `offset` are the margins of a public
        model in the loop's units or None.
        """
        public, theta = records.public, theta.copy()
        noise_std = 0.5 * event.noise_std[0] / public.n_records
        most = max(2.0, 0.5 / math.sqrt(noise_std))
        start = np.zeros(records.n_rows) if offset is None else offset[:, 0]
        displaced = _DISPLACED
        for k in range(_N_RATES):
            (coef,), (intercept,) = coordinates.fold(theta)
            rates = functools.partial(_rates, coef=coef, intercept=intercept, most=most)
            found, error = released_mean(
                records, rates, 0.0, most, event, "mean rate", mechanism, offset=offset
            )
            found = min(max(found, 2 * error), max(1.0, most - 2 * error))
            level, slope = postprocessing.rate_level(
                start, _ADDED, most, found, public.shares
            )
            # The less the noise tells, the more the weights are taken at their word.
            told = (displaced * slope) ** 2
            kept = told / (told + error**2)
            displaced *= math.sqrt(1 - kept)  # that of the posterior
            theta[:, -1] -= kept * (level + _ADDED / 2) / coordinates.bias
            if k == 0:
                # Rates are the curvature. Where clips lowered them, they also cut many
                # residuals, which do not bend the loss.
                theta = shrink(theta, curvature=min(found, 1.0) ** 2)
        return theta

    def exactly(self, records: Records, margins: np.ndarray | None = None) -> TargetMap:
        """Return the map of a target that may be looked at, given public margins."""
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
        mechanism: Mechanism,
        margins: np.ndarray | None = None,
    ) -> TargetMap:
        """Return the map of the target, from released numbers where it is private."""
        if event is None:
            return self.exactly(records, margins)
        start = records.public.target_map
        low, high = start.low, start.high
        y = functools.partial(_targets, bounds=start)

        def mean_of(values, low, high, stream, **per_row) -> tuple[float, float]:
            return released_mean(
                records, values, low, high, event, stream, mechanism, **per_row
            )

        if event.n_steps > (1 if start.log or margins is not None else 2):
            low, high = released_window(records, event, mechanism)
        if start.log:
            mean, error = mean_of(y, low, high, "target mean")
            return dataclasses.replace(start, scale=max(mean, 2 * error))
        centre, doubt, furthest, span = 0.0, 0.0, high - low, high - low
        if margins is None:
            mean, error = mean_of(y, low, high, "target mean")
            mean = _expected(mean, error, (low + high) / 2, _SPREAD_OF_MEANS * span)
            if self.fit_intercept:
                centre, doubt = mean, error
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
        scale = SPREAD * spread
        return dataclasses.replace(start, centre=centre, scale=scale, error=doubt)

    def scaled(
        self, records: Records, target_map: TargetMap, loss: Loss
    ) -> tuple[Records, Loss]:
        """Return the table with its target in the loop's units, and the loss there."""
        threshold = self.huber_threshold
        if loss.name == "huber" and threshold == "auto":
            loss = huber(HUBER_THRESHOLD)
        elif loss.name == "huber":
            # Without bounds the spread is exact: the target is public, or there is no
            # privacy.
            tiny = threshold < target_map.scale / _TINY_SPREAD
            if math.isinf(target_map.high) and tiny:
                _warn_of_absolute_loss(threshold, "a hundredth of the target's spread")
            loss = huber(threshold / target_map.scale)
        return records.with_target(target_map), loss


def warn_of_huber_threshold(threshold: float | str, bounds: tuple | None) -> None:
    """Warn of a threshold that is tiny beside the declared bounds."""
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
        f"threshold={float(threshold):g} is below {size}: Huber's loss is then "
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
    around = centre if margins is None else np.clip(margins[:, 0], low, high)
    return np.abs(_targets(records, bounds) - around)


def _rates(records: Records, coef, intercept, most, offset=None) -> np.ndarray:
    """Return the fitted rates over that of the loop's unit, at most `most`."""
    rates = np.empty(records.n_rows)
    start = np.zeros(records.n_rows) if offset is None else offset[:, 0]
    with np.errstate(all="ignore"):  # a warning would tell of a private value
        for block in row_blocks(records.X):
            rows = records.public.input_scaler(records.X[block])
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
