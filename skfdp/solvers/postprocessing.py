"""The scale of released logits: expected from the noise, then measured.

A descent of logits leaves noise in its weights. How much of the result is noise depends
on the data, and a scale that is too large makes probabilities worse than those of the
start. So the weights are first multiplied by what a prior and the known noise tell
(empirical Bayes, free), and then by a number that one cheap release measures: the slope
of the loss along the step at two points. A number needs d times less budget than d
weights, so what is measured is known where the weights are mostly noise still. The
records that it is measured on are those of the descent: what weights fitted to chance
is taken off.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr

from skfdp.data.input_scaler import Coordinates, InputScaler
from skfdp.data.records import PublicRecords
from skfdp.data.target import TargetMap
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.kernels.losses.loss import Loss
from skfdp.mechanisms.descent import HeavyBall, Walk
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.queries import derived
from skfdp.queries.linear import LinearQuery
from skfdp.queries.statistics import TemperatureSum
from skfdp.solvers import parameters
from skfdp.solvers.method import Budget
from skfdp.solvers.public_model import PublicModel, PublicRegression

LABEL = "temperature"
#: Where the slope along the step is measured, the step being 1 long.
POINTS = (0.2, 1.0)
#: Where to cut the margins of the step, over their expected root mean square.
REACH = 0.7
#: Temperatures to weigh up, and curvatures of the loss along the step over the usual.
_TEMPERATURES = np.linspace(0.0, 1.2, 61)
_CURVATURES = np.geomspace(0.1, 2.0, 30)
# Noise of a slope, over its usual change along the step, that leaves no hope.
_HOPELESS = 4.0
# Prior standard deviation of a logit: what weights are expected to explain, and those
# of public columns beside a public model.
_SPREAD, _SPREAD_SEEN = 1.5, 0.6
# Of several classes the weights of each are larger than half of a difference.
_OF_SEVERAL = 1.5
# Prior standard deviation of the intercept's distance from the start.
_INTERCEPT_SPREAD = 0.3
# More columns than these count as these: a row touches few of a wide table, and most
# of what it tells is in columns that many rows share.
MOST_USED = 300
# Least share of the usual noise in the weights of a wide regression.
_QUIET = 0.25
# Spread of margins, in logits or in spreads of the target, that is next to nothing.
_LEAST_SPREAD = 0.05


@dataclasses.dataclass(frozen=True)
class Block:
    """Columns of the loop whose weights are expected to be of one size.

    Attributes
    ----------
    columns : int ndarray
    square : float
        Mean squared norm of their part of a row.
    prior : float
        Of logits: the standard deviation of a weight. Of targets: the share of the
        start's squared error that the columns are expected to explain.
    """

    columns: np.ndarray
    square: float
    prior: float

    @property
    def n_used(self) -> int:
        """Columns that share the curvature of the loss."""
        return max(1, min(len(self.columns), MOST_USED))


def label_variance(margins: np.ndarray, shares: np.ndarray | None = None) -> float:
    """Return the variance of a label, a mean over classes, that margins tell.

    Margins have the shape (n_rows, n_outputs); `shares` say how often each row counts.
    """
    several = margins.shape[1] > 1
    odds = margins - margins.max(axis=1, keepdims=True) if several else margins
    odds = np.exp(np.minimum(odds, 700.0))
    share = odds / (odds.sum(axis=1, keepdims=True) if several else 1 + odds)
    if shares is not None:
        shares = np.broadcast_to(shares[:, None], share.shape)
    return max(float(np.average(share * (1 - share), weights=shares)), 1e-9)


def logit_blocks(
    public: PublicRecords,
    norms: tuple[float, float],
    has_model: bool,
    bias: float | None,
) -> list[Block]:
    """Return the private columns, the public ones, and the intercept."""
    mask = public.mask
    several = _OF_SEVERAL if public.n_outputs > 1 else 1.0
    found = []
    for columns, norm, seen in ((~mask, norms[1], False), (mask, norms[0], True)):
        if not columns.any():
            continue
        # What a model of public columns has seen already has little left to tell.
        spread = _SPREAD_SEEN if has_model and seen else _SPREAD
        norm = norm if mask.any() and not mask.all() else 1.0
        found.append(Block(np.flatnonzero(columns), norm**2, several * spread))
    if bias is not None:
        spread = several * _INTERCEPT_SPREAD / bias
        found.append(Block(np.array([mask.size]), bias**2, spread))
    return found


def expected(
    step: np.ndarray,
    blocks: list[Block],
    walk: Walk,
    variance: float,
    clip_norm: float,
    fitted: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Return the released step, each block times the part that is not noise.

    And how many weights it fits to the chance of the labels, each counted by the part
    that is taken. By so much the slope of the summed loss along the step is steeper on
    its own records than on others (Efron 2004, doi:10.1198/016214504000000692).

    The step, of shape (n_outputs, n_columns), is what the descent added to its start;
    `variance` is that of a label there, over the records: the curvature of the loss.
    What the gradients of `walk` are divided by is `clip_norm`. `fitted`, of the shape
    of the step, says which part of an error of the start the steps took off each
    weight; None: unknown, and nothing is counted.
    """
    found = step - step.mean(axis=0) if len(step) > 1 else step.copy()
    free = 1 - 1 / len(step) if len(step) > 1 else 1.0
    cut, n_fitted = min(1.0, clip_norm / math.sqrt(variance)), 0.0
    for block in blocks:
        weights = found[:, block.columns]
        curvature = variance * block.square / block.n_used
        gain, noise = walk.outcome(curvature * cut / clip_norm)
        gain, n_free = max(gain, 1e-9), weights.size * free
        # A released weight is gain * weight + noise. The variance of the weights has a
        # prior guess with an error as large, and an estimate from the released ones;
        # they are averaged by their variances.
        prior, error = block.prior**2, (noise / gain) ** 2
        square = float(np.vdot(weights, weights)) / n_free
        estimate = square / gain**2 - error
        of_estimate = 2 / n_free * (prior + error) ** 2
        of_prior = prior**2
        learnt = (estimate / of_estimate + prior / of_prior) / (
            1 / of_estimate + 1 / of_prior
        )
        kept, learnt = 0.0, max(learnt, 0.0)
        if learnt != 0:  # E[weight] over the released one
            kept = min(1.0, gain * learnt / (gain**2 * learnt + noise**2))
        found[:, block.columns] = weights * kept
        if fitted is not None:
            n_fitted += kept * free * float(fitted[:, block.columns].sum())
    return found, n_fitted


def is_measured(method: Any, public: PublicRecords) -> bool:
    """Whether the scale is measured: of the log loss, unless users shaped it."""
    weight = public.class_weight
    return (
        method.scales is None
        and method.loss.name == "log_loss"
        and (weight is None or bool((weight == 1).all()))
        and (method.penalty, method.padding, method.public_loss) == (None, None, None)
        and (method.loop.gradient_scale, method.loop.max_weight_norm) == (1.0, None)
        and method.loop.iterate == "last"
    )


def event(public: PublicRecords, budget: Budget, loss: Loss, mu: float) -> Event:
    """Return the event of the measurement; mu is that of the whole budget."""
    query = TemperatureSum.planned(loss, public.n_classes, len(POINTS))
    sensitivity = query.sensitivity(budget.relation)
    share = parameters.mean_fraction(mu, public.n_effective, 4)
    return budget.event(
        LABEL,
        sensitivity / (math.sqrt(share) * budget.mu),
        clip_norm=query.clip_norm,
        sensitivity=sensitivity,
    )


def expected_reach(step: np.ndarray, blocks: list[Block]) -> float:
    """Return where to cut the margins of a step: `REACH` of their expected size."""
    square = 0.0
    for block in blocks:
        entry = block.square / len(block.columns)
        square += float((step[:, block.columns] ** 2).sum()) * entry
    return REACH * math.sqrt(square) if square > 0 else 1.0


def temperature(
    slopes: np.ndarray,
    noise_std: float,
    n_records: int,
    reach: float,
    variance: float,
) -> tuple[float, float, float]:
    """Return the mean of the posterior of the factor of a step, and its noise.

    And the share of it that the slopes decide, not the prior.

    The slope of the loss along the step is taken to be linear in the factor a, ``H (a -
    a_0)``. The factor a_0 has a half-normal prior around 0, where the start is, the
    narrower the less the noise leaves to see; the curvature H one that is flat in its
    logarithm. The slopes are released, at `POINTS`, each with noise of `noise_std`; the
    variance of a label at the start is what the curvature is about.
    """
    usual = variance * n_records * reach / REACH
    # Where the slopes tell nothing, nothing is taken: the prior would be a bet.
    width = 1 / math.hypot(1, noise_std / (_HOPELESS * usual))
    best, curvature = _TEMPERATURES[:, None], usual * _CURVATURES[None]
    log = -((best / width) ** 2) / 2 + 0 * curvature
    for point, slope in zip(POINTS, slopes, strict=True):
        log = log - ((curvature * (point - best) - slope) / noise_std) ** 2 / 2
    prior = np.exp(-((_TEMPERATURES / width) ** 2) / 2)
    moments = []
    for weight in (np.exp(log - log.max()).sum(axis=1), prior):
        mean = float(np.average(_TEMPERATURES, weights=weight))
        square = (_TEMPERATURES - mean) ** 2
        moments.append((mean, float(np.average(square, weights=weight))))
    (mean, variance), (_, of_prior) = moments
    # What the prior decides is no noise.
    share = max(0.0, 1 - variance / max(of_prior, 1e-12))
    return mean, math.sqrt(variance * share), share


def scaled(
    theta: np.ndarray,
    start: np.ndarray,
    query: LinearQuery,
    offset: np.ndarray | None,
    public: PublicRecords,
    blocks: list[Block],
    walk: Walk,
    bias: float | None,
    event: Event,
    mechanism: Mechanism,
    fitted: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the start plus as much of the descent's step as is worth taking.

    And by how much that is uncertain, along the step: one standard deviation; and the
    share of the factor that was measured.

    Of the descent are its end `theta`, `query`, `blocks`, `walk`, `bias` (the value of
    the constant column; None: no intercept) and `offset`, the margins of a public model
    or None. `event` is that of the measurement. `fitted` is as for `expected`.
    """
    margins = offset
    if margins is None:  # an intercept or zero, the same for every record
        margins = start[None, :, -1] * (bias or 0.0)
    of_rows = offset is not None
    variance = label_variance(margins, public.shares if of_rows else None)
    asked = blocks, walk, variance, query.clip_norm, fitted
    step, n_fitted = expected(theta - start, *asked)
    reach = expected_reach(step, blocks)
    recipe = functools.partial(
        TemperatureSum,
        n_classes=public.n_classes,
        start=start,
        step=step,
        points=POINTS,
        reach=reach,
    )
    slopes = mechanism.release(LABEL, derived(query, recipe))
    slopes = slopes + n_fitted * REACH / reach  # those of other records
    noise_std, n = float(event.noise_std[0]), public.n_records
    factor, std, share = temperature(slopes, noise_std, n, reach, variance)
    if offset is None and public.n_features > MOST_USED:
        of_columns = [block for block in blocks if block.columns[0] < public.mask.size]
        spread = expected_reach(step, of_columns) / REACH if step.any() else 0.0
        warn_of_small_margins(factor * spread)
    return start + factor * step, std * step, share


def warn_of_small_margins(spread: float) -> None:
    """Warn if rows have about the margins of the start; of released numbers alone.

    Of wide tables without a public model: of narrow ones the plan warns before.
    """
    if spread < _LEAST_SPREAD:
        warn_caller(
            "the weights are mostly noise and were scaled to next to nothing (rows of "
            f"usual norm are {spread:.2g} apart, in logits or in spreads of the "
            "target): expect little more than the majority class or the mean; raise "
            "epsilon, or use more records or fewer columns.",
            UtilityWarning,
        )


# The shrinkage of released weights by the noise that is known to be in them.
#
# A regression starts where it is right already: at the mean of the target, or at a
# model of its public part. Where the budget is small the released weights are mostly
# noise, and predictions are better with less of them. Functions of public and released
# numbers: nothing here costs privacy.


#: How much of the start's squared error the columns are expected to explain: all of
#: them beyond the mean; private ones beyond a model of public ones; and public ones
#: beside them, which that model has seen.
SHARE, PRIVATE_SHARE, PUBLIC_SHARE = 0.5, 0.1, 0.02
# Margins of rates beyond this are as good as infinite.
_LARGEST = 99.0


def target_blocks(public: np.ndarray, has_public_model: bool) -> list[Block]:
    """Return the blocks of columns, given the mask of the public ones."""
    if public.all() or not public.any():
        return [Block(np.arange(len(public)), 1.0, SHARE)]
    norms = parameters.block_norms(has_public_model)
    ours, theirs = SHARE, SHARE
    if has_public_model:
        ours, theirs = PUBLIC_SHARE, PRIVATE_SHARE
    return [
        Block(np.flatnonzero(public), norms[0] ** 2, ours),
        Block(np.flatnonzero(~public), norms[1] ** 2, theirs),
    ]


def pull(mu: float, n: float, blocks: list[Block]) -> float:
    """Return the factor of the first step size: below 1 where little can be learnt.

    Without curvature, a step of size rate leaves noise of about ``rate / (mu n)`` in a
    weight and takes it ``rate / d`` of the way. If the d columns explain a share, the
    best rate, in units of that for a large budget, is about ``share mu n / d``. The
    private columns decide beside a public model, and all columns without one; mu is
    that of the whole budget, for releases of sensitivity `clip_norm`.
    """
    # What is expected to explain as much competes for the same steps.
    prior = blocks[-1].prior
    width = sum(block.n_used for block in blocks if block.prior == prior)
    return min(1.0, prior * mu * n / width)


def quietness(blocks: list[Block]) -> float:
    """Return the share of the usual noise that weights of targets may end with.

    The loss is flat along columns that few rows have, so that their weights keep all of
    the noise of the steps. A row of a wide block sees as much of it as of one weight.
    The last block decides.
    """
    block = blocks[-1]
    return max(_QUIET, block.n_used / max(1, len(block.columns)))


def shrunk(
    theta: np.ndarray,
    blocks: list[Block],
    walk: Walk,
    clip_norm: float,
    curvature: float = 1.0,
) -> np.ndarray:
    """Return weights, shape (1, n_columns), each block times the share to keep.

    The block's part of a prediction is a signal of variance `prior`, in squared units
    of the residuals, and noise. The share of the sum with the least expected error is
    signal over signal and noise. Columns of a block count as independent and equal:
    correlated ones have less noise in predictions. `curvature` is that of the loss.
    """
    theta = theta.copy()
    # Residuals that the clip cuts do not pull harder as the weight grows.
    slope = curvature * math.erf(clip_norm / math.sqrt(2)) / clip_norm
    for block in blocks:
        entry = block.square / len(block.columns)
        noise = block.square * walk.outcome(slope * entry)[1] ** 2
        theta[:, block.columns] *= block.prior / (block.prior + noise)
    return theta


def variance(theta: np.ndarray, blocks: list[Block]) -> float:
    """Return the variance of the margins that weights give to rows of typical size.

    Columns of a block count as independent and equal.
    """
    total = 0.0
    for block in blocks:
        own = theta[0, block.columns]
        total += block.square * float(own @ own) / max(1, len(own))
    return total


def rate_level(
    start: np.ndarray,
    variance: float,
    most: float,
    mean: float,
    shares: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return by how much margins are above their start, from their mean rate.

    Rates ``exp(start + level + z)``, z normal of this variance, are cut at `most`
    before their mean is taken.

    Parameters
    ----------
    start : ndarray of shape (n_rows,)
        Public.
    variance, most, mean : float
        The mean is that of the cut rates, between 0 and `most`.
    shares : float64 ndarray of shape (n_rows,), default=None
        How often each row counts in the mean; None: once.

    Returns
    -------
    level, slope : float
        The slope is that of the mean in the level.
    """
    # Equal margins once: without a public model all are.
    margins, which = np.unique(np.minimum(start, _LARGEST), return_inverse=True)
    counts = np.bincount(which, shares)
    weights = counts / counts.sum()
    std = max(math.sqrt(variance), 1e-6)

    def rates(level: float) -> tuple[float, float]:
        """Return the means of those that are not cut, and of those that are."""
        mid = margins + level
        room = (math.log(most) - mid) / std
        below = np.exp(np.minimum(mid + std**2 / 2, _LARGEST)) * ndtr(room - std)
        return float(weights @ below), most * float(weights @ ndtr(-room))

    low, high = -_LARGEST, _LARGEST
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(rates(middle)) > mean else (middle, high)
    return middle, rates(middle)[0]


# The noise in released coefficients: what is known of it without the data.
#
# Functions of the plan, of public columns and of released numbers: nothing here costs
# privacy.


#: Entries of the covariances that a model keeps, at most: 16 MB.
MOST_ENTRIES = 2_000_000
#: What is known: the law of the noise to first order, given the penalty that was
#: chosen; the same for a curvature that is estimated from released gradients; or a
#: noise that the true one does not exceed.
FIRST_ORDER, UPPER_BOUND = "first order", "upper bound"
ESTIMATED = "estimated"
#: Weights of a descent, all outputs together, and steps whose curvature is estimated.
MOST_WEIGHTS, MOST_PATH = 300, 2000
# Share of a combination beyond what the columns determine that is rounding.
_UNDETERMINED = 1e-6

#: Returns (coef, intercept) of weights of shape (n_rows, n_columns), linearly.
Fold = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class CoefficientNoise:
    """The covariance of the noise in the weights of a released linear model.

    The rows and columns of a covariance are those of ``[coef, intercept]``, in the
    units of `coef_` and `intercept_`.

    Attributes
    ----------
    covariance : ndarray
        Of shape (n_outputs, n_features + 1, n_features + 1); or, if only variances are
        kept, of shape (n_outputs, n_features + 1).
    kind : {"first order", "estimated", "upper bound"}
        "first order": to first order in the noise, for the curvature of public or
        released numbers, given the penalty that was chosen. "estimated": of a descent,
        for the curvature that `path_noise` estimates. "upper bound": the noise without
        curvature, which no loss of constant curvature exceeds. The Notes of
        `HeavyBall.noise_left` say what is proved.
    independent : bool
        Whether the noises of two coefficients are independent, so that variances tell
        all of them.
    estimate : ndarray of shape (n_outputs, n_features + 1) or None
        The weights without the pull of the penalty, from the same release. None where
        their error is not known.
    error : ndarray of shape (n_outputs, n_features + 1, n_features + 1) or None
        Covariance of `estimate`: noise and the chance of the labels.
    free : ndarray of shape (n_features, n_directions) or None
        Directions of norm 1 in which the coefficients of `estimate` could move without
        a change of any margin: X does not determine what a combination has of them.
    remaining : ndarray of shape (n_outputs, n_features + 1, n_features + 1) or None
        Of steps from another model's margins: the matrix that takes an error of that
        model's coefficients to what is left of it in the sum. None: all of it.
    """

    covariance: np.ndarray
    kind: str
    independent: bool = False
    estimate: np.ndarray | None = None
    error: np.ndarray | None = None
    free: np.ndarray | None = None
    remaining: np.ndarray | None = None

    @property
    def std(self) -> np.ndarray:
        """Standard deviations, shape (n_outputs, n_features + 1)."""
        found = self.covariance
        if found.ndim == 3:
            found = np.maximum(np.diagonal(found, axis1=1, axis2=2), 0.0)
        return np.sqrt(found)

    def std_of(self, combinations: np.ndarray) -> np.ndarray:
        """Return the noise in linear combinations of the coefficients, one in each row.

        Its shape is (n_outputs, n_combinations); NaN where only the variances of
        dependent noises are kept.
        """
        n_features = combinations.shape[1]
        if self.covariance.ndim == 3:
            own = self.covariance[:, :n_features, :n_features]
            return np.sqrt(_quadratic(combinations, own))
        if not self.independent:
            return np.full((len(self.covariance), len(combinations)), np.nan)
        return np.sqrt(self.covariance[:, :n_features] @ (combinations**2).T)

    def error_of(self, combinations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the unpenalised combinations, one in each row, and the error of each.

        Both have the shape (n_outputs, n_combinations). NaN where the columns of X do
        not determine a combination, as they do not for one weight of a block whose
        columns sum to 1.
        """
        n_features = combinations.shape[1]
        if self.estimate is None:
            unknown = np.full((len(self.covariance), len(combinations)), np.nan)
            return unknown, unknown.copy()
        error = self.error[:, :n_features, :n_features]
        estimate = self.estimate[:, :n_features] @ combinations.T
        std = np.sqrt(_quadratic(combinations, error))
        moved = np.abs(combinations @ self.free).max(axis=1, initial=0.0)
        unknown = moved > _UNDETERMINED * np.linalg.norm(combinations, axis=1)
        estimate[:, unknown] = std[:, unknown] = np.nan
        return estimate, std

    def scaled(self, factor: float) -> CoefficientNoise:
        """Return the noise of a model whose margins are multiplied by a number."""
        changed = {"covariance": self.covariance * factor**2}
        if self.estimate is not None:
            changed |= {
                "estimate": self.estimate * factor,
                "error": self.error * factor**2,
            }
        return dataclasses.replace(self, **changed)

    def embedded(self, columns: np.ndarray) -> CoefficientNoise:
        """Return the noise beside coefficients that have none.

        Parameters
        ----------
        columns : bool ndarray of shape (n_features,)
            The columns of these coefficients.
        """
        own, places = self.covariance, np.append(columns, True)
        if own.ndim == 2 or len(own) * len(places) ** 2 > MOST_ENTRIES:
            found = np.zeros((len(own), len(places)))
            found[:, places] = self.std**2
            return CoefficientNoise(found, self.kind, self.independent)
        found = np.zeros((len(own), len(places), len(places)))
        found[np.ix_(np.arange(len(own)), places, places)] = own
        return CoefficientNoise(found, self.kind)

    def beside(self, other: CoefficientNoise) -> CoefficientNoise:
        """Return the noise of the sum of two models, from independent releases.

        Steps that start at the margins of `other` make up for a part of its noise,
        which `remaining` says. Where only variances are kept, all of it is added: an
        estimate that is rather too large.
        """
        kind = UPPER_BOUND if UPPER_BOUND in (self.kind, other.kind) else ESTIMATED
        if self.covariance.ndim == other.covariance.ndim == 3:
            left, R = other.covariance, self.remaining
            if R is not None:
                left = R @ left @ R.transpose(0, 2, 1)
            return CoefficientNoise(self.covariance + left, kind)
        return CoefficientNoise(self.std**2 + other.std**2, kind)

    def mapped(
        self,
        to: Callable[[np.ndarray], np.ndarray],
        of_variances: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> CoefficientNoise:
        """Return the noise of other coefficients, which are linear in these.

        With covariances where these have few entries, else with variances alone, for
        which no matrix of all coefficients by all coefficients is built.

        Parameters
        ----------
        to : callable
            Returns coefficients of shape (n_rows, n_others), given some of shape
            (n_rows, n_features).
        of_variances : callable, default=None
            Returns variances of such coefficients, given those of independent ones.
            None: they are computed from the matrix of the map.
        """
        own, n_features = self.covariance, self.covariance.shape[1] - 1
        n_others = to(np.zeros((1, n_features))).shape[1]
        small = len(own) * (n_others + 1) ** 2 <= MOST_ENTRIES
        if own.ndim == 2 and not small and of_variances is not None:
            variances = np.column_stack([of_variances(own[:, :-1]), own[:, -1]])
            return CoefficientNoise(variances, self.kind)
        W = to(np.eye(n_features)).T
        J = np.block([[W, np.zeros((len(W), 1))], [np.zeros((1, n_features)), 1.0]])
        if own.ndim == 2:
            own = own[:, None] * np.eye(n_features + 1)
        if not small:
            return CoefficientNoise(_quadratic(J, own), self.kind)
        changed = {"covariance": J @ own @ J.T, "independent": False}
        if self.estimate is not None:
            free = W @ self.free
            size = np.linalg.norm(free, axis=0)
            kept = size > _UNDETERMINED * max(size.max(initial=0.0), 1e-300)
            changed |= {
                "estimate": self.estimate @ J.T,
                "error": J @ self.error @ J.T,
                "free": free[:, kept] / size[kept],
            }
        return dataclasses.replace(self, **changed)

    @classmethod
    def of_independent(
        cls, std: np.ndarray, coordinates: Coordinates, of_mean: np.ndarray
    ) -> CoefficientNoise:
        """Return the noise of a descent, as large as it can be.

        `std` is that of each weight of the loop, independent of one another, and
        `of_mean` that of what earlier releases add to each intercept.
        """
        n_columns = std.shape[1]
        # fold is linear, and pull its adjoint: what a weight does to each coefficient
        # (one each), and to the intercept.
        ones, none = np.ones((1, len(coordinates.mean))), np.zeros(1)
        to_coef = coordinates.pull(ones, none)[0, : len(coordinates.mean)]
        to_intercept = coordinates.pull(0 * ones, none + 1)[0]
        coef = (std[:, : len(to_coef)] * to_coef) ** 2
        intercept = std**2 @ to_intercept[:n_columns] ** 2 + of_mean**2
        variances = np.column_stack([coef, intercept])
        return cls(variances, UPPER_BOUND, independent=True)

    @classmethod
    def of_weights(
        cls, covariances: np.ndarray, fold: Fold, kind: str
    ) -> CoefficientNoise:
        """Return the noise of weights of known covariances, one for each output."""
        J = matrix_of(fold, covariances.shape[1])
        if len(covariances) * len(J) ** 2 <= MOST_ENTRIES:
            return cls(J @ covariances @ J.T, kind)
        return cls(_quadratic(J, covariances), kind)


# Curvatures and signals to weigh up, rounds of the weighing, turns of the axes, and
# correlations of columns.
_N_CURVATURES, _N_SIGNALS, _N_ROUNDS, _N_TURNS = 40, 8, 30, 3
_CORRELATIONS = np.array([0.0, *np.geomspace(0.01, 1, 15)])
# Steps that are left out, the first ones: far from the end of the path the loss has
# another curvature.
_SKIPPED = 2
# Share of the prior that all pairs have alike, so that none is ruled out.
_ALIKE = 0.02


def path_noise(
    path: list[tuple[np.ndarray, np.ndarray]],
    rule: HeavyBall,
    stds: np.ndarray,
    average: str,
    axes: np.ndarray,
    kinds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return the noise that a descent leaves in its weights, and what it depends on.

    Parameters
    ----------
    path : list of (theta, gradient)
        The iterate before each step, and the gradient that was released there.
    rule, stds, average
        As for `HeavyBall.noise_left`.
    axes : ndarray of shape (theta.size, theta.size)
        Orthonormal directions of weights whose noises are expected to be apart.
    kinds : int ndarray of shape (theta.size,)
        Weights of one number are expected to be alike.

    Returns
    -------
    covariance, remaining, curvature : ndarrays of shape (theta.size, theta.size)
        Of the noise; the matrix that takes an error of the start to what is left of it
        in the end; and the mean of H.

    Notes
    -----
    A function of released numbers: post-processing. Near the path the gradient is
    taken to be linear, :math:`g_t = c + H (\theta_t - \theta_0) + s_t \xi_t` with
    known :math:`s_t`. The noise moves the iterates, and later gradients show how the
    loss answers. Given the path up to :math:`\theta_t` the error :math:`\xi_t` is new:
    this is an ordinary regression, whose likelihood is exact.

    *Along the axes.* The pairs (h, size of c) have a prior on a grid, which is fitted
    to all axes of one kind (empirical Bayes). With a free c, short paths would look
    curved: the bias of autoregressions. The variance along an axis is the posterior
    mean of what each h would leave. What remains of an error of the start is the root
    mean square of what each h would leave.

    *Between the axes.* Entry (i, j) of H has a normal prior of standard deviation
    :math:`\tau \sqrt{h_i h_j}`, where :math:`\tau` has the largest likelihood. The axes
    are turned to the eigenvectors of the posterior mean of H, and all starts again,
    with less left between them.

    A penalty does not commute with H: beside one the axes are those of the weights.
    """
    walk, penalty = rule.walk(stds), rule.curvature
    n_skipped = min(_SKIPPED, len(stds) // 2)
    published, path = rule.published(len(stds), average), path[n_skipped:]
    weight, first = 1 / stds[n_skipped:], path[0][0]
    moved = weight[:, None] * np.array([(theta - first).ravel() for theta, _ in path])
    gradients = weight[:, None] * np.array([one.ravel() for _, one in path])
    flat, n_turns = 0.0, _N_TURNS
    if penalty is not None:
        axes, flat, n_turns = np.eye(len(axes)), penalty.ravel(), 1
    moved, gradients = moved @ axes, gradients @ axes
    far = walk.rates.sum(axis=0).max() / (1 - walk.momentum)
    curvatures = np.geomspace(0.1 / far, 2 / walk.rates.max(), _N_CURVATURES)
    curvatures = np.append(0.0, curvatures)
    least = 1 / float(np.linalg.norm(weight))
    most = max(float(np.abs(gradients / weight[:, None]).max()), 2 * least)
    signals = np.geomspace(least, most, _N_SIGNALS)
    gone, left = walk.moments(curvatures[:, None], flat, published)
    groups = (kinds[:, None] == np.unique(kinds)).astype(np.float64)
    while True:
        shares = (axes**2).T @ groups
        posterior = _posterior(moved, gradients, weight, curvatures, signals, shares)
        of_curvature, of_signal = posterior.sum(axis=0), posterior.sum(axis=1)
        n_turns -= 1
        if n_turns == 0:
            noise = (of_curvature * left).sum(axis=0)
            kept = np.sqrt((of_curvature * (1 - gone) ** 2).sum(axis=0))
            h = curvatures @ of_curvature
            return (axes * noise) @ axes.T, (axes * kept) @ axes.T, (axes * h) @ axes.T
        mean, signal = curvatures @ of_curvature, np.sqrt(signals**2 @ of_signal)
        residuals = gradients - mean * moved
        between = _between(moved, residuals, weight, mean, signal)
        turn = np.linalg.eigh(np.diag(mean) + between)[1]
        axes, moved, gradients = axes @ turn, moved @ turn, gradients @ turn


def _posterior(
    moved: np.ndarray,
    gradients: np.ndarray,
    weight: np.ndarray,
    curvatures: np.ndarray,
    signals: np.ndarray,
    shares: np.ndarray,
) -> np.ndarray:
    """Return the posterior of each weight, shape (signals, curvatures, weights).

    `shares` say how much of each weight is in each group of weights with one prior.
    """
    # Sums of squares of the residuals, and their products with the constant.
    h = curvatures[:, None]
    square = (gradients**2).sum(axis=0) + h**2 * (moved**2).sum(axis=0)
    square = square - 2 * h * (gradients * moved).sum(axis=0)
    constant = weight @ gradients - h * (weight @ moved)
    growth = 1 + signals**2 * float(weight @ weight)
    taken = (signals**2 / growth)[:, None, None] * constant**2
    log = (taken - square - np.log(growth)[:, None, None]) / 2
    shape, log = log.shape, log.reshape(-1, log.shape[-1])  # a row for each pair
    likelihood = np.exp(log - log.max(axis=0))
    # The priors of the groups, of which the shares of each weight sum to 1.
    of_groups = (1 - _ALIKE) * shares / shares.sum(axis=0)
    prior = np.full((len(log), 1), 1 / len(log))
    for _ in range(_N_ROUNDS):
        posterior = likelihood * prior
        total = posterior.sum(axis=0)
        mean = posterior @ (of_groups / total[:, None]) + _ALIKE / len(log)
        prior = mean @ shares.T
    return (posterior / total).reshape(shape)


def _between(
    moved: np.ndarray,
    residuals: np.ndarray,
    weight: np.ndarray,
    sizes: np.ndarray,
    signal: np.ndarray,
) -> np.ndarray:
    """Return the posterior mean of the curvature between the axes."""
    moved = moved * np.sqrt(sizes)
    values, vectors = np.linalg.eigh(moved.T @ moved)
    basis = moved @ vectors  # orthogonal, each as long as the root of its value
    moved, constant = basis.T @ residuals, basis.T @ weight
    # In these axes the covariance of a column is diagonal but for the constant. The
    # inverse is what it takes off the identity.
    tau = _CORRELATIONS[:, None, None] ** 2 * sizes
    variance = 1 + tau * np.maximum(values, 0.0)[:, None]
    off = tau / variance
    squares = (residuals**2).sum(axis=0) - (off * moved**2).sum(axis=1)
    of_constant = weight @ weight - (off * constant[:, None] ** 2).sum(axis=1)
    both = weight @ residuals - (off * constant[:, None] * moved).sum(axis=1)
    growth = 1 + signal**2 * of_constant
    shared = signal**2 / growth * both
    log = (shared * both - squares - np.log(growth)).sum(axis=1)
    best = int(np.argmax(log - np.log(variance).sum(axis=(1, 2))))
    solved = (moved - constant[:, None] * shared[best]) / variance[best]
    found = np.sqrt(sizes)[:, None] * (vectors @ solved) * tau[best]
    return (found + found.T) / 2


def matrix_of(fold: Fold, n_columns: int) -> np.ndarray:
    """Return a fold as a matrix, of shape (n_features + 1, n_columns)."""
    coef, intercept = fold(np.eye(n_columns))
    return np.column_stack([coef, intercept]).T


def _quadratic(rows: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Return ``r' M r`` for each matrix and row, not below 0."""
    found = np.stack([((rows @ one) * rows).sum(axis=1) for one in matrices])
    return np.maximum(found, 0.0)


# The result of the methods of linear models.


#: A stronger penalty, per record, changes nothing any more: every weight is zero.
STRONGEST = 1e30


@dataclasses.dataclass(frozen=True)
class LinearFit:
    """A linear model on mapped rows, beside a public model if there is one.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
    n_iter : int
    public_model : PublicModel, PublicRegression or None
        Not within the weights yet.
    target_map : TargetMap or None
        The units of the margins, of regressors.
    noise : CoefficientNoise or None
        Of `coef` and `intercept`; None: nothing is known, or the fit is on its way.
    input_scaler : InputScaler or None
        The map of the rows, where its bounds were released; None: it was known before.
    log_odds : ndarray of shape (n_outputs,) or None
        Margins of the class frequencies, released or public; None: nobody knows them.
    """

    coef: np.ndarray
    intercept: np.ndarray
    n_iter: int
    public_model: PublicModel | PublicRegression | None = None
    target_map: TargetMap | None = None
    noise: CoefficientNoise | None = None
    input_scaler: InputScaler | None = None
    log_odds: np.ndarray | None = None

    def balanced(self) -> LinearFit:
        """Return the classifier for classes of one size; post-processing.

        Classes drawn alike change log odds by a constant alone. The noise is as before.
        """
        noise, intercept = self.noise, self.intercept - self.log_odds
        if noise is not None and noise.estimate is not None:
            last = noise.estimate[:, -1:] - self.log_odds[:, None]
            estimate = np.hstack([noise.estimate[:, :-1], last])
            noise = dataclasses.replace(noise, estimate=estimate)
        return dataclasses.replace(self, intercept=intercept, noise=noise)

    def whole(self, public: np.ndarray) -> LinearFit:
        """Return the fit with the public model within the weights, if it is linear.

        Parameters
        ----------
        public : bool ndarray of shape (n_features,)
            The public columns of `coef`.
        """
        if self.public_model is None:
            return self
        coef, intercept = self.public_model.add_to(self.coef, self.intercept, public)
        return dataclasses.replace(self, coef=coef, intercept=intercept)

    def embedded(self, columns: np.ndarray) -> LinearFit:
        """Return the fit with weights of 0 for all other columns."""
        coef = np.zeros((len(self.coef), len(columns)))
        coef[:, columns] = self.coef
        noise = None if self.noise is None else self.noise.embedded(columns)
        return dataclasses.replace(self, coef=coef, noise=noise)

    def beside(self, first: LinearFit) -> LinearFit:
        """Return the sum of this model and of the one that it started at."""
        return dataclasses.replace(
            self,
            coef=self.coef + first.coef,
            intercept=self.intercept + first.intercept,
            noise=self.noise and self.noise.beside(first.noise),
            log_odds=first.log_odds,
        )
