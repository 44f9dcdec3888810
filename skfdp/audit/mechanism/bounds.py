"""Bounds from counted errors and from samples: what two worlds apart show of privacy.

Somebody guesses from outputs whether a table held a record. The share of tables without
it that are taken for tables with it is the false positive rate, the share of tables
with it that are taken for tables without it the false negative rate. Privacy bounds
both from below, so that few errors refute a claim.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from skfdp.privacy import Event
from skfdp.privacy.curves import PrivacyCurve, check_delta, check_epsilon, compose

# Points of a privacy curve that make a trade-off curve.
_POINTS = 80
# The noise of a family of claims is known to this share, rounded so that epsilon errs
# low; it is not looked for beyond these factors.
_TOLERANCE, _FURTHEST = 0.01, 2.0**6


def check_confidence(confidence: float) -> float:
    """Return the confidence as a float; ValueError unless it is within (0, 1)."""
    real = isinstance(confidence, int | float | np.floating)
    if not real or isinstance(confidence, bool) or not 0 < confidence < 1:
        raise ValueError(
            f"confidence={confidence!r} must be a number strictly between 0 and 1: "
            "0.95 is a usual one."
        )
    return float(confidence)


def clopper_pearson(
    count: Any, n_trials: int, confidence: float = 0.95
) -> tuple[Any, Any]:
    """Return the interval of a probability, from how often something happened.

    Parameters
    ----------
    count : int or int ndarray
        How often, of `n_trials` independent trials.
    n_trials : int
    confidence : float, default=0.95

    Returns
    -------
    low, high : float or float64 ndarray
        Each end is passed with a probability of at most ``(1 - confidence) / 2``.

    Notes
    -----
    **Guarantees.** Exact for every probability and every number of trials: the interval
    of Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404.

    Examples
    --------
    >>> from skfdp.audit.mechanism.bounds import clopper_pearson
    >>> low, high = clopper_pearson(0, 100)
    >>> print(f"{low:.3f} {high:.3f}")
    0.000 0.036
    """
    tail, count = (1 - check_confidence(confidence)) / 2, np.asarray(count)
    if n_trials < 1 or (count < 0).any() or (count > n_trials).any():
        raise ValueError(
            f"count must lie within 0 and n_trials={n_trials}, which must be at least "
            "1: count what happened, of all trials."
        )
    # At the ends a shape would be zero: any other one gives a number to replace.
    below = stats.beta.ppf(tail, np.maximum(count, 1), n_trials - count + 1)
    above = stats.beta.isf(tail, count + 1, np.maximum(n_trials - count, 1))
    low = np.where(count == 0, 0.0, below)
    high = np.where(count == n_trials, 1.0, above)
    return (float(low), float(high)) if count.ndim == 0 else (low, high)


def epsilon_lower_bound(
    false_positives: Any,
    false_negatives: Any,
    n_trials: int,
    delta: float,
    confidence: float = 0.95,
) -> Any:
    """Return the epsilon that a test of so few errors shows to be spent at delta.

    Parameters
    ----------
    false_positives, false_negatives : int or int ndarray
        Errors of a test that was fixed before: among `n_trials` tables without the
        record, and among as many with it.
    n_trials : int
    delta : float
    confidence : float, default=0.95

    Returns
    -------
    epsilon : float or float64 ndarray
        At least 0.

    Notes
    -----
    **Guarantees.** An (epsilon, delta)-private mechanism has ``FNR >= 1 - delta -
    exp(epsilon) FPR``, and the same with the two exchanged (Kairouz, Oh and Viswanath
    2017, https://arxiv.org/abs/1311.0776). Both rates are at most their Clopper-Pearson
    bounds with probability `confidence`, and then no smaller epsilon is true. Nothing
    is assumed of the mechanism.

    Examples
    --------
    >>> from skfdp.audit.mechanism.bounds import epsilon_lower_bound
    >>> print(f"{epsilon_lower_bound(10, 10, 1000, 1e-5):.2f}")
    3.98
    """
    delta = check_delta(delta)
    false_positive = clopper_pearson(false_positives, n_trials, confidence)[1]
    false_negative = clopper_pearson(false_negatives, n_trials, confidence)[1]
    bounds = [
        np.log(np.maximum(1 - delta - one, 1e-300)) - np.log(other)
        for one, other in (
            (false_positive, false_negative),
            (false_negative, false_positive),
        )
    ]
    found = np.maximum(0.0, np.maximum(*bounds))
    return float(found) if np.ndim(found) == 0 else found


def mu_lower_bound(
    false_positives: Any,
    false_negatives: Any,
    n_trials: int,
    confidence: float = 0.95,
) -> Any:
    """Return the Gaussian-DP parameter that a test of so few errors shows.

    Parameters
    ----------
    false_positives, false_negatives : int or int ndarray
        As in `epsilon_lower_bound`.
    n_trials : int
    confidence : float, default=0.95

    Returns
    -------
    mu : float or float64 ndarray
        At least 0.

    Notes
    -----
    **Guarantees.** A mu-Gaussian-DP mechanism has ``FNR >= Phi(Phi^-1(1 - FPR) - mu)``
    (Dong, Roth and Su 2022, https://doi.org/10.1111/rssb.12454). Both rates are at most
    their Clopper-Pearson bounds with probability `confidence`, and then it is mu-GDP
    for no smaller mu than this. An epsilon that is computed of it rests on a trade-off
    curve that is Gaussian; that is how Nasr et al. (2023),
    https://arxiv.org/abs/2302.07956, audit tightly with few trials.

    Examples
    --------
    >>> from skfdp.audit.mechanism.bounds import mu_lower_bound
    >>> print(f"{mu_lower_bound(100, 100, 1000):.2f}")
    2.35
    """
    false_positive = clopper_pearson(false_positives, n_trials, confidence)[1]
    false_negative = clopper_pearson(false_negatives, n_trials, confidence)[1]
    found = stats.norm.isf(false_positive) + stats.norm.isf(false_negative)
    found = np.maximum(0.0, np.where(np.isfinite(found), found, 0.0))
    return float(found) if np.ndim(found) == 0 else found


def trade_off(curve: PrivacyCurve, false_positive: float, top: float) -> float:
    r"""Return the least false negative rate that a privacy curve allows.

    Parameters
    ----------
    curve : PrivacyCurve
        Of both directions.
    false_positive : float
    top : float
        Largest epsilon that is looked at.

    Notes
    -----
    **Guarantees.** The largest over epsilon, from 0 to `top`, of
    :math:`1 - \delta(\epsilon) - e^\epsilon \alpha` and
    :math:`e^{-\epsilon} (1 - \delta(\epsilon) - \alpha)`: the dual of the curve (Dong,
    Roth and Su 2022, Proposition 6), or a little less, because not every epsilon is
    tried.
    """
    epsilons = np.linspace(0.0, check_epsilon(top), _POINTS)
    deltas = np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
    grown = np.exp(np.minimum(epsilons, 700.0))
    lines = (1 - deltas - grown * false_positive, (1 - deltas - false_positive) / grown)
    return float(max(0.0, *(line.max() for line in lines)))


def epsilon_of_family(
    events: Sequence[Event],
    false_positive: float,
    false_negative: float,
    delta: float,
) -> float:
    """Return epsilon of the noisiest multiple of a plan that allows such errors.

    Parameters
    ----------
    events : sequence of Event
        The plan.
    false_positive, false_negative : float
        Rates of a test, or upper bounds of them.
    delta : float

    Notes
    -----
    **Guarantees.** It is above the epsilon of the plan itself only if the trade-off
    curve of the plan's own accounting does not allow such errors, and errs low.
    """
    if false_positive + false_negative >= 1:
        return 0.0

    @functools.cache
    def curve(factor: float) -> PrivacyCurve:
        return compose(
            dataclasses.replace(
                event, noise_std=tuple(std * factor for std in event.noise_std)
            )
            for event in events
        )

    def allows(factor: float) -> bool:
        try:
            found = curve(factor)
            top = found.epsilon(max(delta, 1e-9))
        except ValueError:  # so little noise that no distribution holds its losses
            return True
        return trade_off(found, false_positive, top) <= false_negative

    # More noise allows less; the plan itself is the first that is asked.
    low, high = 1.0, 1.0
    while low > 1 / _FURTHEST and not allows(low):
        low, high = low / 2, low
    while high < _FURTHEST and allows(high):
        low, high = high, high * 2
    while high > low * (1 + _TOLERANCE) and low < _FURTHEST:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if allows(middle) else (low, middle)
    return curve(high).epsilon(delta)


def best_threshold(
    without: np.ndarray, with_it: np.ndarray, bound: Callable[[Any, Any, int], Any]
) -> float:
    """Return the threshold whose errors give the largest bound.

    Parameters
    ----------
    without, with_it : float64 ndarray of shape (n_trials,)
        Statistics of tables without the record, and with it: larger with it. They must
        not be counted again at the threshold that they chose.
    bound : callable
        ``bound(false_positives, false_negatives, n_trials)``.
    """
    candidates = np.unique(np.concatenate([without, with_it]))
    found = bound(*errors(without, with_it, candidates), len(without))
    # Of equals that in the middle: where nothing is told apart, any will do.
    best = np.flatnonzero(found == found.max())
    return float(candidates[best[len(best) // 2]])


def errors(
    without: np.ndarray, with_it: np.ndarray, threshold: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the false positives and false negatives of a threshold, or of each."""
    above = len(without) - np.searchsorted(np.sort(without), threshold, side="right")
    return above, np.searchsorted(np.sort(with_it), threshold, side="right")


@dataclasses.dataclass(frozen=True)
class Separation:
    """Distance of two samples in standard deviations: a Gaussian-DP parameter.

    Attributes
    ----------
    value : float
        Difference of the means over the pooled standard deviation.
    low, high : float
        Interval of what it estimates.
    standard_error : float
    """

    value: float
    low: float
    high: float
    standard_error: float


def separation(
    without: np.ndarray,
    with_it: np.ndarray,
    confidence: float = 0.95,
    *,
    gaussian: bool = True,
) -> Separation:
    r"""Return the distance of two samples of one size, with its interval.

    Parameters
    ----------
    without, with_it : float64 ndarray of shape (n_trials,)
        At least three each.
    confidence : float, default=0.95
    gaussian : bool, default=True
        Whether both are normal of one standard deviation; else the interval comes from
        sample moments.

    Notes
    -----
    With n in each sample, :math:`\nu = 2n - 2` and d the difference of the means over
    the pooled standard deviation, :math:`t = d \sqrt{n/2}` is noncentral t of
    :math:`\nu` degrees of freedom around :math:`\mu \sqrt{n/2}`, and the interval is

    .. math:: \Bigl( t \bigl(1 - \tfrac{1}{4\nu}\bigr)
              \pm z \sqrt{1 + \tfrac{t^2}{2\nu}} \Bigr) \sqrt{2/n}

    (Abramowitz and Stegun, 26.7.10), which covers mu as often as it says to about
    1 / n. Where the samples are not normal the standard error is that of the
    influence of each number on d, and the coverage asymptotic.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp.audit.mechanism.bounds import separation
    >>> normal = np.random.default_rng(0).normal(size=(2, 10_000))
    >>> found = separation(normal[0], normal[1] + 1.0)
    >>> found.low < 1 < found.high
    True
    """
    n, z = len(with_it), stats.norm.isf((1 - check_confidence(confidence)) / 2)
    centred = [sample - sample.mean() for sample in (without, with_it)]
    variance = sum(float(one @ one) for one in centred) / (2 * n - 2)
    spread = math.sqrt(variance) or math.ulp(0.0)
    d = float(with_it.mean() - without.mean()) / spread
    if gaussian:
        t, freedom = d * math.sqrt(n / 2), 2 * n - 2
        error = math.sqrt(2 / n) * math.sqrt(1 + t * t / (2 * freedom))
        middle = d * (1 - 1 / (4 * freedom))
    else:
        influences = [
            sign * one / spread - d / 4 * (one**2 / variance - 1)
            for sign, one in zip((-1, 1), centred, strict=True)
        ]
        error = math.sqrt(sum(float(np.var(one)) for one in influences) / n)
        middle = d
    low, high = middle - z * error, middle + z * error
    return Separation(d, float(low), float(high), float(error))
