"""The scale of released logits: expected from the noise, then measured.

A descent of logits leaves noise in its weights. How much of the result is noise depends
on the data, and a scale that is too large makes probabilities worse than those of the
start. So the weights are first multiplied by what a prior and the known noise tell
(empirical Bayes, free), and then by a number that one cheap release measures: the slope
of the loss along the step at two points. A number needs d times less budget than d
weights, so what is measured is known where the weights are mostly noise still.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries import derived
from skfdp.queries.linear import LinearQuery
from skfdp.queries.losses import Loss
from skfdp.queries.temperature import TemperatureSum
from skfdp.records.records import PublicRecords
from skfdp.releases.desk import Desk
from skfdp.releases.steps import Walk

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


@dataclasses.dataclass(frozen=True)
class Block:
    """Columns of the loop whose weights are expected to be of one size.

    Attributes
    ----------
    columns : int ndarray
    square : float
        Mean square of an entry.
    spread : float
        Prior standard deviation of a weight.
    """

    columns: np.ndarray
    square: float
    spread: float


def label_variance(margins: np.ndarray, shares: np.ndarray | None = None) -> float:
    """Return the variance of a label, a mean over classes, that margins tell.

    Parameters
    ----------
    margins : ndarray of shape (n_rows, n_outputs)
        Where the descent starts: of a public model, or released log odds.
    shares : float64 ndarray of shape (n_rows,), default=None
        How often each row counts in the mean; None: once.
    """
    several = margins.shape[1] > 1
    odds = margins - margins.max(axis=1, keepdims=True) if several else margins
    odds = np.exp(np.minimum(odds, 700.0))
    share = odds / (odds.sum(axis=1, keepdims=True) if several else 1 + odds)
    if shares is not None:
        shares = np.broadcast_to(shares[:, None], share.shape)
    return max(float(np.average(share * (1 - share), weights=shares)), 1e-9)


def blocks_of(
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
        square = norm**2 / columns.sum()
        found.append(Block(np.flatnonzero(columns), square, several * spread))
    if bias is not None:
        spread = several * _INTERCEPT_SPREAD / bias
        found.append(Block(np.array([mask.size]), bias**2, spread))
    return found


def expected(
    step: np.ndarray, blocks: list[Block], walk: Walk, variance: float, clip_norm: float
) -> np.ndarray:
    """Return the released step, each block times the part that is not noise.

    Parameters
    ----------
    step : ndarray of shape (n_outputs, n_columns)
        What the descent added to its start.
    blocks : list of Block
    walk : Walk
    variance : float
        Of a label at the start, over the records: the curvature of the loss.
    clip_norm : float
        What the gradients of `walk` are divided by.
    """
    found = step - step.mean(axis=0) if len(step) > 1 else step.copy()
    cut = min(1.0, clip_norm / math.sqrt(variance))
    for block in blocks:
        weights = found[:, block.columns]
        free = weights.size * (1 - 1 / len(step) if len(step) > 1 else 1.0)
        gain, noise = walk.outcome(variance * block.square * cut / clip_norm)
        gain = max(gain, 1e-9)
        found[:, block.columns] = weights * _kept(
            float(np.vdot(weights, weights)) / free, free, gain, noise, block.spread
        )
    return found


def _kept(
    square: float, free: float, gain: float, noise: float, spread: float
) -> float:
    """Return E[weight] over the released one; the prior's variance is learnt too.

    A released weight is ``gain * weight + noise``. The variance of the weights has a
    prior guess, ``spread**2`` with an error as large, and an estimate from the released
    ones; they are averaged by their variances.
    """
    prior, error = spread**2, (noise / gain) ** 2
    estimate = square / gain**2 - error
    of_estimate = 2 / free * (prior + error) ** 2
    of_prior = prior**2
    variance = (estimate / of_estimate + prior / of_prior) / (
        1 / of_estimate + 1 / of_prior
    )
    variance = max(variance, 0.0)
    if variance == 0:
        return 0.0
    return min(1.0, gain * variance / (gain**2 * variance + noise**2))


def is_measured(method: Any, public: PublicRecords) -> bool:
    """Whether the scale is measured: of the log loss, unless users shaped it.

    Parameters
    ----------
    method : Descent
    public : PublicRecords
    """
    weight = public.class_weight
    return (
        method.scales is None
        and method.loss.name == "log_loss"
        and (weight is None or bool((weight == 1).all()))
        and (method.penalty, method.padding, method.public_loss) == (None, None, None)
        and (method.private_weight, method.loop.radius) == (1.0, None)
        and method.loop.average == "last"
    )


def event(public: PublicRecords, budget: Budget, loss: Loss, mu: float) -> Event:
    """Return the event of the measurement.

    Parameters
    ----------
    public : PublicRecords
    budget : Budget
    loss : Loss
    mu : float
        Of the whole budget, for releases of sensitivity `clip_norm`.
    """
    query = TemperatureSum.planned(loss, public.n_classes, len(POINTS))
    sensitivity = query.sensitivity(budget.relation)
    share = defaults.mean_fraction(mu, public.n_effective, 4)
    return budget.event(
        LABEL,
        sensitivity / (math.sqrt(share) * budget.mu),
        clip_norm=query.clip_norm,
        sensitivity=sensitivity,
    )


def expected_reach(step: np.ndarray, blocks: list[Block]) -> float:
    """Return where to cut the margins of a step: `REACH` of their expected size."""
    square = sum(
        float((step[:, block.columns] ** 2).sum()) * block.square for block in blocks
    )
    return REACH * math.sqrt(square) if square > 0 else 1.0


def temperature(
    slopes: np.ndarray,
    noise_std: float,
    n_records: int,
    reach: float,
    variance: float,
) -> float:
    """Return the mean of the posterior of the factor of a step.

    The slope of the loss along the step is taken to be linear in the factor a, ``H (a -
    a_0)``. The factor a_0 has a half-normal prior around 0, where the start is, the
    narrower the less the noise leaves to see; the curvature H one that is flat in its
    logarithm.

    Parameters
    ----------
    slopes : ndarray of shape (2,)
        Released, at `POINTS`.
    noise_std : float
        Of each.
    n_records : int
    reach : float
        Of the query.
    variance : float
        Of a label at the start: what the curvature is about.
    """
    usual = variance * n_records * reach / REACH
    # Where the slopes tell nothing, nothing is taken: the prior would be a bet.
    width = 1 / math.hypot(1, noise_std / (_HOPELESS * usual))
    best, curvature = _TEMPERATURES[:, None], usual * _CURVATURES[None]
    log = -((best / width) ** 2) / 2 + 0 * curvature
    for point, slope in zip(POINTS, slopes, strict=True):
        log = log - ((curvature * (point - best) - slope) / noise_std) ** 2 / 2
    weight = np.exp(log - log.max()).sum(axis=1)
    return float(weight @ _TEMPERATURES / weight.sum())


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
    desk: Desk,
) -> np.ndarray:
    """Return the start plus as much of the descent's step as is worth taking.

    Parameters
    ----------
    theta : ndarray of shape (n_outputs, n_columns)
        Where the descent ended.
    start : ndarray of shape (n_outputs, n_columns)
    query : LinearQuery
        Of the descent.
    offset : float64 ndarray of shape (n_rows, n_outputs) or None
        Margins of a public model.
    public : PublicRecords
    blocks : list of Block
    walk : Walk
    bias : float or None
        Value of the constant column; None: no intercept.
    event : Event
        Of the measurement.
    desk : Desk
    """
    margins = offset
    if margins is None:  # an intercept or zero, the same for every record
        margins = start[None, :, -1] * (bias or 0.0)
    of_rows = offset is not None
    variance = label_variance(margins, public.shares if of_rows else None)
    step = expected(theta - start, blocks, walk, variance, query.clip_norm)
    reach = expected_reach(step, blocks)
    recipe = functools.partial(
        _slopes, n_classes=public.n_classes, start=start, step=step, reach=reach
    )
    slopes = desk.release(LABEL, derived(query, recipe))
    noise_std = float(event.noise_std[0])
    factor = temperature(slopes, noise_std, public.n_records, reach, variance)
    return start + factor * step


def _slopes(query: LinearQuery, n_classes, start, step, reach) -> TemperatureSum:
    """Return the slopes along a step, over the rows of the descent; a recipe."""
    return TemperatureSum(
        rows=query.rows,
        target=query.target,
        loss=query.loss,
        n_classes=n_classes,
        start=start,
        step=step,
        points=POINTS,
        reach=reach,
        capacity=query.capacity,
        offset=query.offset,
    )
