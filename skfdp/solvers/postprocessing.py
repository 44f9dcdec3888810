"""Scale and shrink the released weights of a descent, and estimate their noise.

The step of a descent is its result minus its start. A descent of logits leaves noise in
the step, and steps that are too large give worse probabilities than the start. The step
is therefore shrunk by a prior and the known noise (empirical Bayes, without a charge).
Then it is multiplied by a factor. For this factor, one cheap release measures the slope
of the loss along the step at two points. One number needs d times less budget than d
weights. The slope is measured on the training records, and corrected for overfitting.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression, nnls
from scipy.special import erf, log_ndtr, ndtr, ndtri, softmax
from scipy.stats import qmc

from skfdp.data._basis import Block
from skfdp.data.grid import InputScaler
from skfdp.data.records import Coordinates, PublicRecords
from skfdp.data.target import TargetMap
from skfdp.kernels.losses import Loss, loss_named
from skfdp.mechanisms.descent import HeavyBall
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.queries.linear import LinearQuery
from skfdp.queries.statistics import TemperatureSum
from skfdp.solvers import parameters
from skfdp.solvers.method import Budget
from skfdp.solvers.public_model import PublicModel

TEMPERATURE = "temperature"
#: Scales of products of private columns of regressions and of classifiers: the standard
#: deviation of a row, divided by that of the others. And that of what they predict.
SCALES_OF_PRIVATE, SHARE_OF_PRODUCTS = (0.3, 0.2), 0.3
#: Fractions of the step at which the slope is measured.
POINTS = (0.2, 1.0)
#: The `reach` of `TemperatureSum`, divided by the expected root mean square of margins:
#: for classifiers. For regressions it is in addition divided by Huber's threshold.
REACH, REACH_OF_TARGETS = 0.25, 0.5
#: Candidate factors of the step (temperatures), and candidate curvatures divided by the
#: expected curvature.
_TEMPERATURES = np.linspace(0.0, 1.2, 61)
_CURVATURES = np.geomspace(0.1, 2.0, 30)
# Prior mean of the factor if slopes have no noise: usually, and after a public model.
_USUAL_FACTOR, _USUAL_AFTER = 0.3, 0.25
# Largest share of ``mu**2`` for the slopes: usually, after a model, in regressions.
_MOST_SHARE, _MOST_AFTER, _MOST_OF_TARGETS = 0.08, 0.12, 0.1
# Median of the curvature, divided by the expected one, and spread of its logarithm.
_USUAL, _OF_USUAL = 0.6, 0.5
# Prior standard deviation of a logit, and of the change that public columns make in a
# logit after a public model.
_SPREAD, _SPREAD_SEEN = 1.5, 0.6
# Factor of these deviations with more than two classes, where weights are larger. Prior
# standard deviation of the change of the intercept.
_OF_SEVERAL, _INTERCEPT_SPREAD = 1.5, 0.3
#: Usual squared norm of the mean of rows, divided by their mean squared norm, if no
#: mean is subtracted. Tables with numbers in [0, 1] and categories had .3 to .8.
USUAL_MEAN = 0.5
# A `Spread` of columns counts as at most this many columns. In a row of a wide table
# most columns are zero, and the columns that are rarely zero carry most of the signal.
MOST_USED = 300
# Least value of `quietness`.
_QUIET = 0.25


class Spread(NamedTuple):
    """Columns of the loop with a common prior of their weights.

    `square` is the mean squared norm of the part of a row in these columns. For
    classifiers, `prior` is the prior standard deviation of a weight. For regressions,
    it is the expected share of the start's squared error that the columns explain.
    Classifiers count the sampling error of `n_sampled` records as noise.
    """

    columns: np.ndarray
    square: float
    prior: float
    n_sampled: float = math.inf

    @property
    def n_used(self) -> int:
        """Number of columns, but at most `MOST_USED`."""
        return max(1, min(len(self.columns), MOST_USED))


def label_variances(margins: np.ndarray) -> np.ndarray:
    """Return the variance of a label under each row's margins, a mean over outputs."""
    if margins.shape[1] == 1:
        return 0.25 - np.tanh(margins[:, 0] / 2) ** 2 / 4
    return (1 - (softmax(margins, axis=1) ** 2).sum(axis=1)) / margins.shape[1]


def logit_blocks(
    public: PublicRecords,
    norms: tuple[float, float],
    has_model: bool,
    bias: float | None,
) -> list[Spread]:
    """Return the blocks of a classifier: private columns, public columns, intercept.

    `norms` are the typical norms of the public and of the private part of a row, and
    `bias` is the value of the constant column; None: no intercept.
    """
    mask = public.mask
    several = _OF_SEVERAL if public.n_outputs > 1 else 1.0
    found = []
    for columns, norm, seen in ((~mask, norms[1], False), (mask, norms[0], True)):
        if not columns.any():
            continue
        # Public columns can add little to a model of the public columns.
        spread = _SPREAD_SEEN if has_model and seen else _SPREAD
        if has_model and not seen and not public.has_target:
            # The model is noisy. Each column is to explain as much as any other.
            spread *= math.sqrt(public.sizes[1] / sum(public.sizes))
        norm = norm if mask.any() and not mask.all() else 1.0
        own = Spread(np.flatnonzero(columns), norm**2, several * spread)
        found += [own] if seen else parted(own, public)
    if bias is not None:
        spread = several * _INTERCEPT_SPREAD / bias
        found.append(Spread(np.array([mask.size]), bias**2, spread))
    return found


def parted(block: Spread, public: PublicRecords) -> list[Spread]:
    """Return the products of private columns, which are the last ones, and the others.

    The block of products is shrunk by itself, so it vanishes if its weights are no
    larger than their noise. Being many and weak, they overfit more than the others.
    """
    n_products, scale = public.n_products, SCALES_OF_PRIVATE[public.n_classes > 0]
    if not n_products:
        return [block]
    others, square = block.columns[:-n_products], block.square / (1 + scale**2)
    others = block._replace(columns=others, square=square)
    own = block.columns[-n_products:], others.square * scale**2
    prior = block.prior * SHARE_OF_PRODUCTS / scale
    return [Spread(*own, prior, public.n_records), others]


def expected(
    step: np.ndarray,
    blocks: list[Spread],
    walk: HeavyBall,
    variance: float,
    clip_norm: float,
    fitted: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Return the step with each block shrunk, and its effective degrees of freedom.

    The degrees of freedom measure overfitting, which lowers the slope of the summed
    loss along the step by this number on the training records, compared with other
    records (Efron 2004, doi:10.1198/016214504000000692).

    `variance` is the label variance at the start, which is the curvature of the loss.
    The variances of rows along the principal directions of a block are taken as
    proportional to 1, 1/2, 1/3, ..., and 0 in half of the directions. The gradients of
    `walk` are divided by `clip_norm`. `fitted` has, for each weight, the fraction of an
    error of the start that the descent removed. None: the degrees of freedom are 0.
    """
    found = step - step.mean(axis=0) if len(step) > 1 else step.copy()
    free = 1 - 1 / len(step) if len(step) > 1 else 1.0
    cut, n_fitted = min(1.0, clip_norm / math.sqrt(variance)), 0.0
    for block in blocks:
        weights = found[:, block.columns]
        usual = 1 / np.arange(1.0, min(len(block.columns), MOST_USED) + 1)
        usual[(len(usual) + 1) // 2 :] = 0.0
        curvature = variance * block.square * usual / usual.sum()
        gains, noise = walk.moments(curvature * cut / clip_norm)
        noise = noise + gains**2 / (block.n_sampled * np.maximum(curvature, 1e-300))
        n_free = weights.size * free
        # A released weight is gain * weight + noise, along each direction.
        known = max(float((gains**2).mean()), 1e-18)
        square = float(np.vdot(weights, weights)) / n_free / known
        error, prior = float(noise.mean()) / known, block.prior**2
        learnt = above_zero(*learnt_variance(square, error, n_free, prior))
        # The factor with the least error of the margins.
        whole = float(usual @ (gains**2 * learnt + noise))
        kept = min(1.0, float(usual @ gains) * learnt / max(whole, 1e-300))
        found[:, block.columns] = weights * kept
        if fitted is not None:
            n_fitted += kept * free * float(fitted[:, block.columns].sum())
    return found, n_fitted


def learnt_variance(
    square: float, error: float, n_weights: float, prior: float
) -> tuple[float, float]:
    """Return the posterior mean and standard deviation of the variance of weights.

    The prior is normal, with mean and standard deviation `prior`. The mean square of
    the noisy weights, `square`, minus the variance of their noise, `error`, is a normal
    estimate of the variance.
    """
    of_estimate, of_prior = 2 / n_weights * (prior + error) ** 2, prior**2
    precision = 1 / of_estimate + 1 / of_prior
    found = (square - error) / of_estimate + prior / of_prior
    return found / precision, precision**-0.5


def above_zero(mean: float, std: float) -> float:
    """Return the mean of a normal distribution that is cut at 0.

    A variance is positive. If an estimate below 0 became 0, all weights would be lost.
    """
    place = mean / std
    density = math.exp(-(place**2) / 2 - float(log_ndtr(place)))
    return max(mean + std * density / math.sqrt(2 * math.pi), 0.0)


def is_measured(method: Any, public: PublicRecords) -> bool:
    """Whether to measure the factor of the step.

    It is measured with default settings, for log loss and regressions without a log
    link.
    """
    if (method.penalty, method.padding) != (None, None) or (
        method.loop.gradient_scale,
        method.loop.max_weight_norm,
    ) != (1.0, None):
        return False
    if method.scales is not None:
        return method.scales.alpha is None and not public.target_map.log
    weight = public.class_weight
    return method.loss.name == "log_loss" and (
        weight is None or bool((weight == 1).all())
    )


def slope_event(
    public: PublicRecords, budget: Budget, loss: Loss, mu: float, follows: bool
) -> Event:
    """Return the event of the slopes that determine the factor of the step.

    For `mu` see `parameters`. `follows` is whether the descent starts at a model. For a
    regression, Huber's threshold is a compromise between noise and bias, like
    `parameters.clip_norm`.
    """
    n, most = public.n_effective, _MOST_AFTER if follows else _MOST_SHARE
    enough, least = 30, 0.02
    if public.target_map is not None:
        enough, least, most = 15, 0.01, _MOST_OF_TARGETS
        threshold = max(_LEAST_THRESHOLD, round(_THRESHOLD * math.sqrt(mu * n), 3))
        loss = loss_named("huber", min(threshold, HUBER_THRESHOLD))
    share = float(np.clip(enough / (budget.mu * n), least, most))
    bound = TemperatureSum.bound(loss, public.n_classes, len(POINTS))
    sensitivity = budget.relation.sensitivity(bound)
    return budget.event(
        TEMPERATURE,
        sensitivity / (math.sqrt(share) * budget.mu),
        clip_norm=bound,
        sensitivity=sensitivity,
    )


def product(one: np.ndarray, other: np.ndarray, blocks: list[Spread]) -> float:
    """Return the expected product of the margins of two steps, summed over outputs.

    Columns of a block are treated as independent and equal.
    """
    total = 0.0
    for block in blocks:
        parts = one[:, block.columns], other[:, block.columns]
        total += float(np.vdot(*parts)) * block.square / len(block.columns)
    return total


def drift(
    margins: np.ndarray,
    shares: np.ndarray | None,
    spread: float,
    believed: float,
    clip_norm: float,
) -> np.ndarray:
    """Return how far clipping moves the intercepts of a descent, shape (n_outputs,).

    Steps end where the clipped residuals of rows of norm 1 sum to 0 for each class, at
    frequencies of rare classes that are too small (:ref:`logit-scale`). The result is
    the intercepts there, minus those without clipping.

    `margins` of shape (n_rows, n_outputs) are those of the start, and `shares` the
    weights of their rows, or None. Margins of the step are taken as normal, with the
    root mean square `spread`. The part `believed` of them is signal, which labels
    follow. Each round adds the logarithm of the ratio of both sides of the equation of
    a class to its intercept (proportional fitting).
    """
    n_rows, n_outputs = margins.shape
    points = qmc.Sobol(n_outputs + 1, scramble=False).random(512) + 1 / 1024
    upto = np.cumsum(np.ones(n_rows) if shares is None else shares)
    rows = np.minimum(np.searchsorted(upto, points[:, 0] * upto[-1]), n_rows - 1)
    step = spread / math.sqrt(n_outputs) * ndtri(points[:, 1:])
    # What labels follow, and the margins: a row for each class, for fast sums.
    truth = (margins[rows] + believed * step).T.copy()
    own, unit = (margins[rows] + step).T.copy(), 1.0
    if n_outputs == 1:  # two classes with one output, whose residual is a number
        zeros, unit = np.zeros((1, len(rows))), math.sqrt(2)
        truth, own = np.vstack([zeros, truth]), np.vstack([zeros, own])
    truth, own = softmax(truth, axis=0), own - own.max(axis=0)
    level, levels = np.zeros((len(own), 1)), []
    for most in (clip_norm * unit, math.inf):
        for _ in range(30):
            found = np.exp(own + level)
            found /= np.maximum(found.sum(axis=0), 1e-300)
            square = (found**2).sum(axis=0) + 1 - 2 * found
            kept = truth * np.minimum(1, most / np.sqrt(np.maximum(square, 1e-30)))
            taken = found * kept.sum(axis=0)
            change = np.log((kept.sum(axis=1) + 1e-30) / (taken.sum(axis=1) + 1e-30))
            level = level + change[:, None]
            level -= level.max()  # only differences matter
            if np.ptp(change) < 1e-10:
                break
        levels.append(level[:, 0])
    moved = levels[0] - levels[1]
    return moved[1:] - moved[:1] if n_outputs == 1 else moved - moved.mean()


def temperature(
    slopes: np.ndarray,
    noise_std: float,
    factors: np.ndarray,
    curvatures: np.ndarray,
    log_prior: np.ndarray,
) -> tuple[float, float, float]:
    """Return the posterior mean of the factor, its noise, and its measured share.

    The noise is the standard deviation that the noise of the slopes causes in this
    mean. The measured share is the part of the mean that follows from the slopes and
    not from the prior.

    The slope of the loss along the step is modelled as linear in the factor a: it is
    ``H (a - a_0)``. The best factor a_0 is one of `factors`, and H one of `curvatures`;
    `log_prior` has a row for each factor and a column for each curvature. `slopes` are
    released at `POINTS`, each with noise of `noise_std`.
    """
    log = log_prior
    for point, slope in zip(POINTS, slopes, strict=True):
        modelled = curvatures * (point - factors[:, None])
        log = log - ((modelled - slope) / noise_std) ** 2 / 2
    both = np.stack([log, log_prior])
    weights = np.exp(both - both.max(axis=(1, 2), keepdims=True)).sum(axis=2)
    weights /= weights.sum(axis=1, keepdims=True)
    means = weights @ factors
    left, before = weights @ factors**2 - means**2
    # The part that follows from the prior is not noise.
    share = min(1.0, max(0.0, 1 - left / max(before, 1e-12)))
    return float(means[0]), math.sqrt(max(left, 0.0) * share), share


def prior_of_doubt(mean: float, noise_std: float, usual: float) -> np.ndarray:
    """Return the log of an exponential prior of the factor, as a column.

    Its `mean` falls if the noise is larger than a `usual` slope.
    """
    mean = mean / math.hypot(1, noise_std / usual)
    return -_TEMPERATURES[:, None] / mean


def scaled(
    start: np.ndarray,
    theta: np.ndarray,
    answer: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
    bias: float | None,
    known: tuple[PublicRecords, LinearQuery, Coordinates, HeavyBall],
    prepared: Any,
    plan: Any,
    mechanism: Mechanism,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the start plus the rescaled step, the error, and the measured share.

    The step, from `start` to `theta`, is shrunk and multiplied by a released factor.
    The error is the change of the weights for one standard deviation of noise in the
    factor. The measured share is that of `temperature`. `answer` is the result of
    `path_noise` or None. `bias` is the value of the constant column, before it was
    rounded to the grid. `prepared` and `plan` are those of the descent.
    """
    public, query, coordinates, walk = known
    private = ~public.mask
    blocks = logit_blocks(public, plan.norms, prepared.has_model, bias)
    # The squared norm of the mean of rows that was not subtracted.
    errors = np.where(private, coordinates.mean_error * coordinates.scale, 0.0)
    mean_left, most = float(errors @ errors), plan.norms[1] ** 2
    if private.any() and not coordinates.mean[private].any():
        mean_left = USUAL_MEAN * most
    mean_left = min(mean_left, most)
    margins, shares, usual = prepared.offset, public.shares, _USUAL_FACTOR
    if margins is None:  # an intercept or zero, the same for every record
        margins, shares = start[None, :, -1] * (bias or 0.0), None
    elif public.has_target:
        usual = _USUAL_AFTER
    each = label_variances(margins)
    variance = max(float(np.average(each, weights=shares)), 1e-9)
    clip, raw = query.clip_norm, theta - start
    fitted = answer and (1 - np.diag(answer[1])).reshape(raw.shape)
    step, n_fitted = expected(raw, blocks, walk, variance, clip, fitted)
    if bias is not None:
        # Take back the part of the drift that the steps have learnt.
        square = max(product(raw, raw, blocks[:-1]), 1e-300)
        believed = product(step, raw, blocks[:-1]) / square
        slope = variance * min(1 / clip, 1 / math.sqrt(variance))
        learnt = walk.outcome(slope * (bias**2 + mean_left))[0]
        own = float(step[:, -1] @ raw[:, -1]), float(raw[:, -1] @ raw[:, -1])
        kept = believed * mean_left + own[0] / max(own[1], 1e-300) * bias**2
        error = drift(margins, shares, math.sqrt(square), believed, clip)
        moved = learnt * kept / (mean_left + bias**2) * error / bias
        step[:, -1] -= np.nan_to_num(moved, posinf=0, neginf=0)  # diverging steps
    size = math.sqrt(product(step, step, blocks)) or 1.0
    settings = {"start": start, "step": step, "points": POINTS, "reach": REACH * size}
    recipe = functools.partial(TemperatureSum, n_classes=public.n_classes, **settings)
    slopes = mechanism.release(TEMPERATURE, query.derived(recipe))
    # Released slopes divide the residuals of a row by its largest one.
    loss = loss_named("log_loss")
    largest = np.linalg.norm(loss.largest_residual(margins), axis=1)
    each *= loss.max_residual(public.n_classes) / largest
    curvature = max(float(np.average(each, weights=shares)), 1e-9)
    slopes = slopes + n_fitted * curvature / (variance * size)
    noise_std = float(plan.event(TEMPERATURE).noise_std[0])
    # The curvature is lognormal, in proportion to that of label variances at the start.
    known = noise_std, public.n_records * curvature * size
    prior = prior_of_doubt(usual, *known)
    prior = prior - (np.log(_CURVATURES / _USUAL) / _OF_USUAL) ** 2 / 2
    grid = _TEMPERATURES, known[1] * _CURVATURES, prior
    factor, std, share = temperature(slopes, noise_std, *grid)
    return start + factor * step, std * step, share


# The shrinkage of a regression's released weights by their known noise. With a small
# budget they are mostly noise, and shrinking them, as post-processing, improves fits.


#: Expected share of the start's squared error that columns explain. The numbers are for
#: all columns after a start at the mean, and for private and for public columns after a
#: start at a public model.
SHARE, PRIVATE_SHARE, PUBLIC_SHARE = 0.5, 0.1, 0.02
#: Huber's threshold divided by the spread of the target, as in `HuberRegressor`.
HUBER_THRESHOLD = 1.35
# Threshold of Huber's loss for the slopes, divided by the root of ``mu n``, and its
# least value. Its largest is `HUBER_THRESHOLD`.
_THRESHOLD, _LEAST_THRESHOLD = 0.085, 0.1
# Candidate factors of the step of a wide regression. Prior standard deviation of the
# factor where columns tell something, and of its logarithm in a wide table; prior
# probability that they tell little; typical variance of residuals.
_FACTORS = np.geomspace(0.1, 6.0, 161)
# Candidate curvatures divided by the expected one, which correlated columns exceed, and
# spread of the logarithm.
_CURVATURES_OF_TARGETS, _OF_TARGETS = np.geomspace(0.1, 12.0, 50), 0.7
_FACTOR_SPREAD, _FACTOR_SPREAD_WIDE, _TELL_LITTLE, _UNEXPLAINED = 0.25, 0.7, 0.25, 0.5
# Largest margin in `rate_level`, so that rates do not overflow.
_LARGEST = 99.0


def target_blocks(records: PublicRecords, has_public_model: bool) -> list[Spread]:
    """Return the blocks of a regression; the last has no products of columns."""
    public, found = records.mask, []
    if public.all() or not public.any():
        whole = Spread(np.arange(len(public)), 1.0, SHARE)
    else:
        norms = parameters.block_norms(has_public_model, 0.0, records.sizes)
        priors = (PUBLIC_SHARE, PRIVATE_SHARE) if has_public_model else (SHARE, SHARE)
        each = zip((public, ~public), norms, priors, strict=True)
        own, whole = (Spread(np.flatnonzero(m), norm**2, p) for m, norm, p in each)
        found = [own]
    first, *others = parted(whole, records)
    if others:  # the prior of a regression is a share of the variance
        found.insert(0, first._replace(prior=whole.prior * SHARE_OF_PRODUCTS**2))
    return [*found, *(others or [first])]


def pull(mu: float, n: float, blocks: list[Spread]) -> float:
    """Return a factor for the first step size, below 1 if the signal is small.

    Without curvature, steps of size ``rate`` leave noise of about ``rate / (mu n)`` in
    a weight. They move the weight by a fraction ``rate / d`` of its best value. Let the
    d columns explain a ``share`` of the target's variance. The best rate is then about
    ``share mu n / d`` times the rate for a large budget. With a public model d counts
    the private columns, otherwise all columns.
    """
    prior = blocks[-1].prior
    width = sum(block.n_used for block in blocks if block.prior == prior)
    return min(1.0, prior * mu * n / width)


def quietness(blocks: list[Spread]) -> float:
    """Return a factor for the noise that a regression may leave in its weights.

    The factor is 1 if the last block has at most `MOST_USED` columns. With more columns
    it decreases to `_QUIET`, because most of these columns are zero in most rows. The
    loss hardly depends on the weights of such columns, so these weights keep the noise
    of all steps. Every row has some non-zero columns, so the noise changes every
    prediction.
    """
    block = blocks[-1]
    return max(_QUIET, block.n_used / max(1, len(block.columns)))


def shrunk(
    theta: np.ndarray,
    blocks: list[Spread],
    walk: HeavyBall,
    clip_norm: float,
    curvature: float = 1.0,
    *,
    learns: bool,
) -> np.ndarray:
    """Shrink the weights, shape (1, n_columns), of each block by a factor.

    The contribution of a block to a prediction is a signal plus noise. The variance of
    the signal is the `prior` of the block, relative to the squared error of the start,
    or with `learns` a larger variance if the weights show one (`learnt_variance`). The
    factor with the least expected error is the variance of the signal divided by the
    variance of signal plus noise. Columns of a block are treated as independent and
    equal. If they are correlated, predictions have less noise. `curvature` is the
    curvature of the loss.
    """
    theta = theta.copy()
    slope = curvature * _slope(clip_norm)
    for block in blocks:
        own, width = theta[:, block.columns], len(block.columns)
        gain, std = walk.outcome(slope * block.square / width)
        noise, gain = block.square * std**2, max(float(gain), 1e-9)
        square, signal = block.square * float((own**2).sum()) / width, block.prior
        if learns:
            asked = square / gain**2, noise / gain**2, width, block.prior
            signal = max(signal, learnt_variance(*asked)[0])
        theta[:, block.columns] = own * (signal / (signal + noise))
    return theta


def _slope(clip_norm: float) -> float:
    """Return the curvature of a squared loss with clipped residuals of spread 1.

    A clipped residual does not change with the weights.
    """
    return math.erf(clip_norm / math.sqrt(2)) / clip_norm


def rescaled(
    theta: np.ndarray,
    query: LinearQuery,
    blocks: list[Spread],
    walk: HeavyBall,
    public: PublicRecords,
    event: Event,
    mechanism: Mechanism,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the rescaled weights of a regression; the others as in `scaled`.

    The factor multiplies the weights of columns. It follows from the slopes of Huber's
    loss. With the probability `_TELL_LITTLE` its prior is `prior_of_doubt`, otherwise
    normal about 1. In a wide table it is unknown how many columns matter, so steps
    remove an unknown part of the error of the start. The prior is then lognormal.

    The slopes are corrected for overfitting. It changes them by the degrees of freedom
    of the fit times the variance of residuals, in rows whose margins are not clipped.
    The share of such rows follows from the curvature, for normal margins.
    """
    step = np.zeros_like(theta)
    for block in blocks:
        step[:, block.columns] = theta[:, block.columns]
    size = math.sqrt(product(step, step, blocks))
    bound = float(event.clip_norm) / public.reach
    threshold = round(bound / math.sqrt(len(POINTS)), 3)
    near = REACH_OF_TARGETS * threshold
    if not 0 < near * size < math.inf:  # infinite if the steps diverged
        return theta, np.zeros_like(step), 0.0
    loss = loss_named("huber", threshold)
    settings = {"start": theta - step, "step": step, "reach": near * size}
    settings |= {"n_classes": 0, "points": POINTS, "loss": loss}
    recipe = functools.partial(TemperatureSum, **settings)
    slopes = mechanism.release(TEMPERATURE, query.derived(recipe))
    n_fitted = 0.0
    for block in blocks:
        entry = _slope(query.clip_norm) * block.square / len(block.columns)
        gain = np.clip(np.nan_to_num(walk.outcome(entry)[0]), 0, 1)
        n_fitted += len(block.columns) * float(gain)
    grid = _CURVATURES_OF_TARGETS
    unclipped = erf(near / (math.sqrt(math.pi) * _slope(near) * grid))
    slopes = slopes[:, None] + _UNEXPLAINED * n_fitted / (near * size) * unclipped
    # The curvature of one row is its margin times its clipped margin, if its residual
    # is not clipped. Margins and residuals are taken as normal.
    usual = public.n_records * size * _slope(near) * math.erf(threshold / math.sqrt(2))
    noise_std, factors = float(event.noise_std[0]), _TEMPERATURES
    if len(blocks[-1].columns) > MOST_USED and query.offset is None:
        factors = _FACTORS
        log = np.log(factors[:, None])
        prior = -((log / _FACTOR_SPREAD_WIDE) ** 2 + log) / 2  # of mean 1
    else:
        near_one = np.exp(-(((factors[:, None] - 1) / _FACTOR_SPREAD) ** 2) / 2)
        little = np.exp(prior_of_doubt(_USUAL_FACTOR, noise_std, usual))
        parts = (1 - _TELL_LITTLE) / near_one.sum(), _TELL_LITTLE / little.sum()
        prior = np.log(parts[0] * near_one + parts[1] * little)
    prior = prior - (np.log(grid) / _OF_TARGETS) ** 2 / 2
    factor, std, share = temperature(slopes, noise_std, factors, usual * grid, prior)
    return theta + (factor - 1) * step, std * step, share


def rate_level(
    start: np.ndarray,
    variance: float,
    most: float,
    mean: float,
    shares: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return the constant to add to `start` so that the mean rate equals `mean`.

    Rates are ``exp(start + level + z)``, with z normal of this variance, clipped to
    `most`; `mean` is the mean of the clipped rates, with the weights `shares` of rows.
    `start` are public margins without the constant. The second result is the derivative
    of the mean rate with respect to the constant.
    """
    # Compute equal margins once; without a public model all are equal.
    margins, which = np.unique(np.minimum(start, _LARGEST), return_inverse=True)
    counts = np.bincount(which, shares)
    weights = counts / counts.sum()
    std = max(math.sqrt(variance), 1e-6)

    def rates(level: float) -> tuple[float, float]:
        """Return the parts of the mean from unclipped rates (its slope) and clipped."""
        mid = margins + level
        room = (math.log(most) - mid) / std
        below = np.exp(np.minimum(mid + std**2 / 2, _LARGEST)) * ndtr(room - std)
        return float(weights @ below), most * float(weights @ ndtr(-room))

    low, high = -_LARGEST, _LARGEST
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(rates(middle)) > mean else (middle, high)
    return middle, rates(middle)[0]


# The noise in released coefficients, from the plan, public columns and released
# numbers, as post-processing.


#: Largest number of entries of the covariances that a model keeps (16 MB).
MOST_ENTRIES = 2_000_000
#: Kinds of noise estimates; see `CoefficientNoise`.
FIRST_ORDER, UPPER_BOUND = "first order", "upper bound"
ESTIMATED = "estimated"


def in_order(
    weights: np.ndarray, noise: CoefficientNoise | None, blocks: Sequence[Block]
) -> tuple[np.ndarray, CoefficientNoise | None]:
    """Return the nearest weights whose curves rise or fall as declared, and the noise.

    `weights` are ``[coef, intercept]`` of a single output. In a distance, squares are
    divided by the variances of the noise; unknown noise counts as equal. So the weights
    are not farther from any curve with the declared order than before. Correlations do
    not count: smooth curves would tilt to mend an end where values are rare.

    **Guarantees.** A function of released weights and of declarations.
    """
    found, ties = weights.copy(), [np.zeros((0, len(weights)))]
    variances = np.ones(len(weights)) if noise is None else noise.std[0] ** 2
    variances = np.maximum(variances, max(variances.max() * 1e-12, 1e-300))
    for block in (one for one in blocks if one.monotone):
        own = slice(block.start, block.start + block.n_ordered)
        rises = block.monotone == "increasing"
        if block.n_ordered == 1:  # a straight line
            found[own] = (np.maximum if rises else np.minimum)(found[own], 0.0)
        else:
            known = {"weights": 1 / variances[own], "increasing": rises}
            found[own] = isotonic_regression(found[own], **known).x
        rows = np.zeros((max(1, block.n_ordered - 1), len(weights)))
        rows[:, block.start : block.stop] = block.rises()
        moved = np.abs(rows) @ np.abs(found - weights) > 0
        ties.append(rows[moved & (rows @ found == 0)])
    return found, noise and noise.held(np.vstack(ties))


#: Numbers of weights and of steps of a descent up to which the curvature is estimated.
MOST_WEIGHTS, MOST_PATH = 300, 2000
# A combination of coefficients counts as determined by X if at most this fraction of
# its norm lies in undetermined directions.
_UNDETERMINED = 1e-6

#: Linear function that returns (coef, intercept) of weights (n_rows, n_columns).
Fold = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class CoefficientNoise:
    """The covariance of the noise in the weights of a released linear model.

    The rows and columns of a covariance are those of ``[coef, intercept]``, in the
    units of `coef_` and `intercept_`; its shape is (n_outputs, n_features + 1,
    n_features + 1). If only variances are kept, the last axis is missing.
    """

    covariance: np.ndarray
    #: "first order": to first order in the noise, given the chosen penalty, with the
    #: curvature from public or released numbers. "estimated": for a descent, with the
    #: curvature that `path_noise` or `curve_noise` estimates. "upper bound": the noise
    #: without curvature, an upper bound for every loss of constant curvature; the Notes
    #: of `HeavyBall.noise_left` have the proof.
    kind: str
    independent: bool = False  # whether variances suffice
    #: The unpenalised weights from the same release, (n_outputs, n_features + 1), and
    #: their covariance, from noise and the sampling of the labels; None if unknown.
    estimate: np.ndarray | None = None
    error: np.ndarray | None = None
    #: Unit directions, (n_features, n_directions), in which the coefficients of
    #: `estimate` can move without changing any margin: X does not determine them.
    free: np.ndarray | None = None
    #: For a descent from the margins of another model, the matrices that map an error
    #: of that model's coefficients to the error that remains in the sum of both models.
    #: None: the identity.
    remaining: np.ndarray | None = None
    #: Where the noise is an upper bound, of the shape of `std`, if not everywhere.
    at_most: np.ndarray | bool = False

    @property
    def std(self) -> np.ndarray:
        """Standard deviations, shape (n_outputs, n_features + 1)."""
        found = self.covariance
        if found.ndim == 3:
            found = np.maximum(np.diagonal(found, axis1=1, axis2=2), 0.0)
        return np.sqrt(found)

    def std_of(self, combinations: np.ndarray) -> np.ndarray:
        """Return standard deviations of combinations of `coef_`, one per row.

        The result has the shape (n_outputs, n_combinations). It is NaN if noises are
        dependent and only their variances are kept.
        """
        n_features = combinations.shape[1]
        if self.covariance.ndim == 3:
            own = self.covariance[:, :n_features, :n_features]
            return np.sqrt(_quadratic(combinations, own))
        if not self.independent:
            return np.full((len(self.covariance), len(combinations)), np.nan)
        return np.sqrt(self.covariance[:, :n_features] @ (combinations**2).T)

    def error_of(self, combinations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return combinations of unpenalised coefficients, and their standard errors.

        They are NaN for a combination that X does not determine, such as a single
        weight of one-hot columns, which sum to 1. Shapes are those of `std_of`.
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

    def kinds(self) -> np.ndarray:
        """Return how exact each of `std` is, as `kind`."""
        return np.where(self.at_most, UPPER_BOUND, np.full(self.std.shape, self.kind))

    def held(self, rows: np.ndarray) -> CoefficientNoise:
        """Return the noise if combinations of ``[coef, intercept]`` are held at 0.

        There is a single output. Variances alone stay: these are upper bounds.
        """
        if self.covariance.ndim == 2 or len(rows) == 0:
            return self
        own = self.covariance[0]
        part = own @ rows.T
        left = own - part @ np.linalg.pinv(rows @ part, hermitian=True) @ part.T
        return dataclasses.replace(self, covariance=left[None])

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
        """Return the noise beside coefficients without noise, outside of a mask."""

        def placed(coef: np.ndarray) -> np.ndarray:
            found = np.zeros((len(coef), len(columns)))
            found[:, columns] = coef
            return found

        own = self
        if self.estimate is not None:
            own = dataclasses.replace(self, estimate=None)
        return own.mapped(placed, placed)

    def beside(self, other: CoefficientNoise) -> CoefficientNoise:
        """Return the noise of the sum of two models, from independent releases.

        A descent that started at the margins of `other` has corrected a part of the
        noise of `other`, as given by `remaining`. If only variances are kept, this
        correction is ignored, which is conservative.
        """
        kind = UPPER_BOUND if UPPER_BOUND in (self.kind, other.kind) else ESTIMATED
        if self.covariance.ndim == other.covariance.ndim == 3:
            left, R = other.covariance, self.remaining
            left = left if R is None else R @ left @ R.transpose(0, 2, 1)
            at_most = self.at_most | other.at_most
            return CoefficientNoise(self.covariance + left, kind, at_most=at_most)
        return CoefficientNoise(self.std**2 + other.std**2, kind)

    def mapped(
        self,
        to: Callable[[np.ndarray], np.ndarray],
        of_variances: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> CoefficientNoise:
        """Return the noise of coefficients after a linear map of their rows, `to`.

        The result has covariances if they have few entries, and otherwise only
        variances. `of_variances` returns the variances of mapped coefficients, given
        those of independent coefficients; None: the matrix of the map is used.
        """
        own, n_features = self.covariance, self.covariance.shape[1] - 1
        n_others = to(np.zeros((1, n_features))).shape[1]
        small = len(own) * (n_others + 1) ** 2 <= MOST_ENTRIES
        if own.ndim == 2 and not small and of_variances is not None:
            variances = np.column_stack([of_variances(own[:, :-1]), own[:, -1]])
            return CoefficientNoise(variances, self.kind)
        W = to(np.eye(n_features)).T
        J = np.block([[W, np.zeros((len(W), 1))], [np.zeros((1, n_features)), 1.0]])
        scaled = J * own[:, None] if own.ndim == 2 else J @ own
        if not small:
            variances = np.maximum((scaled * J).sum(axis=2), 0.0)
            return CoefficientNoise(variances, self.kind)
        changed = {"covariance": scaled @ J.T, "independent": False}
        if self.remaining is not None:
            changed["remaining"] = J @ self.remaining @ np.linalg.pinv(J)
        at_most = np.broadcast_to(self.at_most, self.std.shape)
        changed["at_most"] = at_most @ np.abs(J).T > 0
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
        """Return an upper bound of the noise of a descent.

        `std` is that of the independent noise in each weight of the loop, and `of_mean`
        that of the noise in each intercept from earlier releases.
        """
        n_columns = std.shape[1]
        # `pull` is the adjoint of the linear map `fold`. It gives the effect of each
        # weight on the coefficient of the same column, and on the intercept.
        ones, none = np.ones((1, len(coordinates.mean))), np.zeros(1)
        to_coef = coordinates.pull(ones, none)[0, : len(coordinates.mean)]
        to_intercept = coordinates.pull(0 * ones, none + 1)[0]
        coef = (std[:, : len(to_coef)] * to_coef) ** 2
        intercept = std**2 @ to_intercept[:n_columns] ** 2 + of_mean**2
        return cls(np.column_stack([coef, intercept]), UPPER_BOUND, independent=True)

    @classmethod
    def of_weights(
        cls, covariances: np.ndarray, fold: Fold, kind: str, at_most: Any = False
    ) -> CoefficientNoise:
        """Return the noise for known covariances of the weights of each output."""
        J = matrix_of(fold, covariances.shape[1])
        at_most = np.broadcast_to(at_most, covariances.shape[:2]) @ np.abs(J).T > 0
        at_most[:, -1] = False  # the intercept
        if len(covariances) * len(J) ** 2 <= MOST_ENTRIES:
            return cls(J @ covariances @ J.T, kind, at_most=at_most)
        return cls(_quadratic(J, covariances), kind, at_most=at_most)


# Numbers for `path_noise`, whose Notes define h, c and tau. Numbers of candidates of h,
# of candidates of the size of c, of rounds that fit the prior (first, and after each
# rotation), and of estimations with rotated axes. Then the candidates of tau.
_N_CURVATURES, _N_SIGNALS, _N_ROUNDS, _N_TURNS = 40, 8, (30, 10), 3
_CORRELATIONS = np.array([0.0, *np.geomspace(0.01, 1, 15)])
# Number of first steps that are ignored, because the curvature is different there.
_SKIPPED = 2
# Numbers for `curve_noise`: of draws; the steps that show the gradient at the start are
# one in so many; least square of what they show, in units of its noise.
_N_DRAWS, _STEPS_PER_EARLY, _LEAST_SQUARE = 8, 32, 0.6
# Share of the uniform distribution in the prior of the pairs (h, size of c), so that no
# pair is ruled out.
_ALIKE = 0.02


def path_noise(
    path: list[tuple[np.ndarray, np.ndarray]],
    rule: HeavyBall,
    axes: np.ndarray,
    kinds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Estimate the noise that a descent leaves in its weights, from its path.

    `path` has the iterate before each step, and the gradient that was released there.
    `axes` are orthonormal directions in which noises are expected to be nearly
    independent, and weights of the same of `kinds` have a common prior.

    The results are matrices of all weights: the covariance of the noise in them, the
    map from an error of the start to the error that remains, and the posterior mean of
    the curvature H, which the Notes define.

    Notes
    -----
    This is post-processing of released numbers. Near the path the released gradient
    is modelled as linear, :math:`g_t = c + H (\theta_t - \theta_0) + s_t \xi_t`,
    where c is the gradient at :math:`\theta_0` and the noise has the known standard
    deviation :math:`s_t`. The noise moves the iterates, and later gradients reveal the
    curvature. The standardised error :math:`\xi_t` is independent of the path up to
    :math:`\theta_t`. This is therefore an ordinary regression with an exact
    likelihood.

    *Along the axes.* Let h be the curvature along an axis. The pairs (h, size of c)
    have a prior on a grid, which is fitted to all axes of one kind (empirical Bayes).
    Without a prior of c, the curvature of short paths would be biased upward, as in
    autoregressions. The variance along an axis is the posterior mean of the variances
    under each h. The remaining part of an error of the start is the root mean square of
    the parts under each h.

    *Between the axes.* Entry (i, j) of H has a normal prior of standard deviation
    :math:`\tau \sqrt{h_i h_j}`, where :math:`\tau` maximises the likelihood. The axes
    are rotated to the eigenvectors of the posterior mean of H, and the estimation is
    repeated.

    *With a penalty* each weight is an axis. These axes are not rotated, because the
    penalty is diagonal only along them.
    """
    rates, penalty = rule.rates(), rule.curvature
    n_skipped = min(_SKIPPED, len(rates) // 2)
    path = path[n_skipped:]
    weight = 1 / rule.stds[n_skipped:]
    thetas, gradients = map(np.array, zip(*path, strict=True))
    moved = weight[:, None] * (thetas - thetas[0]).reshape(len(path), -1)
    gradients = weight[:, None] * gradients.reshape(len(path), -1)
    flat, n_turns = 0.0, _N_TURNS
    if penalty is not None:
        axes, flat, n_turns = np.eye(len(axes)), penalty.ravel(), 1
    moved, gradients = moved @ axes, gradients @ axes
    far = rates.sum(axis=0).max() / (1 - rule.momentum)
    curvatures = np.geomspace(0.1 / far, 2 / rates.max(), _N_CURVATURES)
    curvatures = np.append(0.0, curvatures)
    least = 1 / float(np.linalg.norm(weight))
    most = max(float(np.abs(gradients / weight[:, None]).max()), 2 * least)
    signals = np.geomspace(least, most, _N_SIGNALS)
    gone, left = rule.moments(curvatures[:, None], flat)
    groups = (kinds[:, None] == np.unique(kinds)).astype(np.float64)
    n_rounds, n_more = _N_ROUNDS
    n_pairs = len(signals) * len(curvatures)
    prior = np.full((n_pairs, groups.shape[1]), 1 / n_pairs)
    while True:
        given = moved, gradients, weight, curvatures, signals, (axes**2).T @ groups
        posterior, prior = _posterior(*given, prior, n_rounds)
        n_rounds = n_more
        of_curvature, of_signal = posterior.sum(axis=0), posterior.sum(axis=1)
        n_turns -= 1
        if n_turns == 0:
            noise = (of_curvature * left).sum(axis=0)
            kept = np.sqrt((of_curvature * (1 - gone) ** 2).sum(axis=0))
            h = curvatures @ of_curvature
            return (axes * noise) @ axes.T, (axes * kept) @ axes.T, (axes * h) @ axes.T
        mean, signal = curvatures @ of_curvature, np.sqrt(signals**2 @ of_signal)
        between = _between(moved, gradients - mean * moved, weight, mean, signal)
        turn = np.linalg.eigh(np.diag(mean) + between)[1]
        axes, moved, gradients = axes @ turn, moved @ turn, gradients @ turn


def curve_noise(
    path: list[tuple[np.ndarray, np.ndarray]],
    rule: HeavyBall,
    blocks: list[tuple[np.ndarray, np.ndarray, int]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Return what `path_noise` returns, for curves and categories of one output.

    `blocks` has the columns of theta that encode one raw column, the centred rows of
    its levels (knots or categories), shape (n_levels, n_columns), and how many of them
    are drawn. The last result is where the covariance is an upper bound.

    The model is that of `path_noise`. The curvature of a block is :math:`\sum_k d_k\,
    x_k x_k^T`, where :math:`x_k` is the row of level k, and :math:`d_k \ge 0` the
    curvature of the loss at its records; between blocks it is left out. Results are
    means over draws of the :math:`d_k`, each a non-negative least-squares fit to the
    released gradients with further noise of the same size. With the best fit alone the
    variance would be too small where records are rare. A level is little known if its
    curvature takes less than half of the standard deviation. If such levels have the
    larger part of a block's variance, its covariance is that without curvature.
    """
    rng, n_skipped = np.random.default_rng(0), min(_SKIPPED, len(path) // 2)
    weight = 1 / rule.stds[n_skipped : len(path)]
    thetas, gradients = (
        np.array([step[part][0] for step in path[n_skipped:]]) for part in (0, 1)
    )
    # The gradient at the start has a normal prior, of the size that the first gradients
    # show. Without it curvatures would be biased upward, and with less of it downward.
    unit = weight / np.linalg.norm(weight)
    moved = (thetas - thetas[0]) * weight[:, None]
    gradients = gradients * weight[:, None]
    mean_moved, mean = unit @ moved, unit @ gradients
    early = slice(max(1, len(weight) // _STEPS_PER_EARLY))
    part = float(unit[early] @ unit[early])
    square = (unit[early] @ gradients[early]) ** 2 / part
    square = np.maximum(square - 1, _LEAST_SQUARE) / part
    known = square / (square + 1)
    size, found, curved = thetas.shape[1], [], []
    for columns, rows, _ in blocks:
        along = moved[:, columns] @ rows.T
        gram = (along.T @ along) * (rows @ rows.T)
        first = mean_moved[columns] @ rows.T
        gram -= np.outer(first, first) * ((rows * known[columns]) @ rows.T)
        jitter = 1e-12 + 1e-9 * np.trace(gram)
        root = np.linalg.cholesky(gram + jitter * np.eye(len(gram)))
        fit = (along * (gradients[:, columns] @ rows.T)).sum(axis=0)
        fit -= first * ((known * mean)[columns] @ rows.T)
        fit = np.linalg.solve(root, fit)
        for _ in range(_N_DRAWS):
            d = nnls(root.T, fit + ndtri(rng.random(len(fit))))[0]
            values, axes = np.linalg.eigh(rows.T @ (d[:, None] * rows))
            found.append((columns, axes))
            curved.append(np.maximum(values, 0.0))
    every = np.concatenate(curved)[:, None]
    # Numbers alone if there was no step.
    gone, left = np.broadcast_arrays(*rule.moments(every, 0.0), every)[:2]
    ends = np.cumsum([len(one) for one in curved])[:-1]
    results = np.zeros((3, size, size))
    parts = left[:, 0], np.abs(1 - gone[:, 0]), every[:, 0]
    for result, part in zip(results, parts, strict=True):
        for (columns, axes), own in zip(found, np.split(part, ends), strict=True):
            result[np.ix_(columns, columns)] += (axes * own) @ axes.T / _N_DRAWS
    at_most, most = np.zeros(size, bool), np.ravel(rule.moments(0.0)[1])[0]
    for columns, rows, n in blocks[:-1]:
        drawn = rows[:n] - (n > 1) * rows[:n].mean(axis=0)
        own = np.ix_(columns, columns)
        mine = ((drawn @ results[0][own]) * drawn).sum(axis=1)
        unknown = mine > most / 4 * (drawn**2).sum(axis=1)
        if mine[unknown].sum() > mine.sum() / 2:
            at_most[columns] = True
            results[0][own] = most * np.eye(len(columns))
    return (*results, at_most)


def _posterior(
    moved, gradients, weight, curvatures, signals, shares, prior, n_rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior of the signal and the curvature along each axis.

    The signal is the size of c in the Notes of `path_noise`. The posterior has the
    shape (n_signals, n_curvatures, n_axes). `n_rounds` rounds fit the priors, one
    column for each group of weights; they are the second result. `shares`, shape
    (n_axes, n_groups), holds the fraction of an axis's squared norm in each group.
    """
    # Squared norms of the residuals, and their inner products with the regressor of c.
    h = curvatures[:, None]
    square = (gradients**2).sum(axis=0) + h**2 * (moved**2).sum(axis=0)
    square = square - 2 * h * (gradients * moved).sum(axis=0)
    constant = weight @ gradients - h * (weight @ moved)
    growth = 1 + signals**2 * float(weight @ weight)
    taken = (signals**2 / growth)[:, None, None] * constant**2
    log = (taken - square - np.log(growth)[:, None, None]) / 2
    # One row for each pair of a signal and a curvature, one column for each axis.
    shape, log = log.shape, log.reshape(-1, log.shape[-1])
    likelihood = np.exp(log - log.max(axis=0))
    # Fit the priors of the groups. The shares of the groups in an axis sum to 1.
    of_groups = (1 - _ALIKE) * shares / shares.sum(axis=0)
    posterior, ones = np.empty_like(likelihood), np.ones(len(log))
    for _ in range(n_rounds):
        np.multiply(likelihood, prior @ shares.T, out=posterior)
        total = ones @ posterior
        prior = posterior @ (of_groups / total[:, None]) + _ALIKE / len(log)
    return (posterior / total).reshape(shape), prior


def _between(moved, residuals, weight, sizes, signal) -> np.ndarray:
    """Return the posterior mean of the entries of H (`path_noise`) between axes."""
    given = moved * np.sqrt(sizes)
    # Orthogonal vectors, one for each step or each axis, whichever are fewer, whose
    # norms are the roots of the eigenvalues of ``given.T @ given``.
    if len(given) < len(sizes):
        values, basis = np.linalg.eigh(given @ given.T)
        least = max(_UNDETERMINED**2 * values.max(initial=0.0), 1e-300)
        values = np.maximum(values, least)
        basis = basis * np.sqrt(values)
        vectors = given.T @ (basis / values)
    else:
        values, vectors = np.linalg.eigh(given.T @ given)
        basis = given @ vectors
    moved, constant = basis.T @ residuals, basis.T @ weight
    # In this basis the covariance of the residuals of an axis is diagonal, except for a
    # rank-one term from c (see the Notes of `path_noise`). The inverse covariance is
    # the identity minus a correction.
    squares, products = (residuals**2).sum(axis=0), weight @ residuals
    moved_squares, crossed = moved**2, constant[:, None] * moved
    values = np.maximum(values, 0.0)[:, None]
    best = -math.inf, 0.0, 0.0
    for correlation in _CORRELATIONS:
        tau = correlation**2 * sizes
        variance = 1 + tau * values
        off = tau / variance
        left = squares - np.einsum("ij,ij->j", off, moved_squares)
        of_constant = weight @ weight - constant**2 @ off
        both = products - np.einsum("ij,ij->j", off, crossed)
        growth = 1 + signal**2 * of_constant
        shared = signal**2 / growth * both
        log = (shared * both - left - np.log(growth)).sum() - np.log(variance).sum()
        if log > best[0]:
            best = log, off, shared
    _, off, shared = best
    solved = (moved - constant[:, None] * shared) * off
    found = np.sqrt(sizes)[:, None] * (vectors @ solved)
    return (found + found.T) / 2


def matrix_of(fold: Fold, n_columns: int) -> np.ndarray:
    """Return the matrix of the linear `fold`, shape (n_features + 1, n_columns)."""
    coef, intercept = fold(np.eye(n_columns))
    return np.column_stack([coef, intercept]).T


def _quadratic(rows: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Return ``r' M r`` for each matrix and row, not below 0."""
    found = np.stack([((rows @ one) * rows).sum(axis=1) for one in matrices])
    return np.maximum(found, 0.0)


#: Largest penalty per record, at which every weight is zero.
STRONGEST = 1e30


class LinearFit(NamedTuple):
    """A linear model on ``input_scaler(X)``, with a public model if there is one."""

    coef: np.ndarray  # (n_outputs, n_features)
    intercept: np.ndarray  # (n_outputs,)
    n_iter: int
    #: A public model whose weights are not included in `coef`.
    public_model: PublicModel | None = None
    target_map: TargetMap | None = None  # of a regressor
    #: Noise of `coef` and `intercept`; None if unknown, or during the fit.
    noise: CoefficientNoise | None = None
    #: The input scaler, if its bounds were released; None: that of the records.
    input_scaler: InputScaler | None = None
    #: Margins of the released or public class frequencies; None if unknown.
    log_odds: np.ndarray | None = None
    one_shot: bool = False  # whether it was computed from one label statistic
    #: The `Interactions`, whose margins are not included in `coef`; None: none.
    interactions: Any = None

    def balanced(self) -> LinearFit:
        """Return the classifier for equal class sizes, as post-processing."""
        noise, intercept = self.noise, self.intercept - self.log_odds
        if noise is not None and noise.estimate is not None:
            last = noise.estimate[:, -1:] - self.log_odds[:, None]
            estimate = np.hstack([noise.estimate[:, :-1], last])
            noise = dataclasses.replace(noise, estimate=estimate)
        return self._replace(intercept=intercept, noise=noise)

    def embedded(self, columns: np.ndarray) -> LinearFit:
        """Return the fit with weights of 0 for columns outside the mask `columns`."""
        coef = np.zeros((len(self.coef), len(columns)))
        coef[:, columns] = self.coef
        noise = None if self.noise is None else self.noise.embedded(columns)
        return self._replace(coef=coef, noise=noise)

    def beside(self, first: LinearFit) -> LinearFit:
        """Return the sum of this model and the model at which its descent started."""
        return self._replace(
            coef=self.coef + first.coef,
            intercept=self.intercept + first.intercept,
            noise=self.noise and self.noise.beside(first.noise),
            log_odds=first.log_odds,
        )
