"""Thresholds that are chosen by a released table of labels and bins of scores."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import FixedThresholdClassifier

from skfdp.addresses import public
from skfdp.estimators.scoring.adjusted import AdjustedClassifier
from skfdp.records.checks import check_size, shown

if TYPE_CHECKING:
    from skfdp.privacy.report import PrivacyReport

_NAMED = ("balanced_accuracy", "accuracy", "f1")
_COSTS = ("false_positive", "false_negative")
# Standard errors by which a gain, or the size of a class, must differ from nothing.
# Beyond one alone the best of many edges that gain nothing lies as often as not.
_CLEAR = 2.0


@public("skfdp")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateThreshold:
    """Threshold of two classes; `PrivateScore.best_threshold` returns it.

    It follows from a release and costs nothing more.

    Attributes
    ----------
    threshold : float
        A score above it is the last class. One of the edges of the bins, or the
        threshold that was scored.
    metric : str or dict
        What it was chosen by.
    is_default : bool
        Whether it is the threshold that was scored: no other one was better by more
        than two standard errors, or noise hides a class.
    gain : float
        Estimate of how much better it is than the threshold that was scored, in units
        of the metric; 0 for that threshold itself. **Optimistic**: it is the best of
        many.
    interval : (float, float)
        Of the gain on the population, whichever threshold had been chosen: it holds for
        all edges at once with the confidence of the score (Bonferroni), and so the
        choice does not invalidate it. NaN where noise hides a class.
    privacy_ : PrivacyReport
        Of the score.
    """

    threshold: float
    metric: str | Mapping[str, float]
    is_default: bool
    gain: float
    interval: tuple[float, float]
    privacy_: PrivacyReport

    def apply(self, model: Any) -> FixedThresholdClassifier:
        """Return the model with this threshold, ready to predict.

        Parameters
        ----------
        model : fitted classifier
            The one that was scored.

        Returns
        -------
        classifier : FixedThresholdClassifier
            Of scikit-learn. `skfdp.report` tells of the fit and of the score. Fitting
            it changes nothing: the model in it stays as it is.

        Raises
        ------
        ValueError
            If the model is of another class than the scored one, or not fitted.
        """
        adjusted = AdjustedClassifier(model, release=self.privacy_).fit()
        # There a score on the threshold is above it, and in the table it is below.
        return FixedThresholdClassifier(
            adjusted,
            threshold=math.nextafter(self.threshold, 1.0),
            pos_label=adjusted.classes_[1],
            response_method="predict_proba",
        )


@dataclasses.dataclass(frozen=True)
class _Rates:
    """Noisy counts of predictions above each edge; arrays of shape (n_edges,)."""

    tp: np.ndarray
    fn: np.ndarray
    fp: np.ndarray
    tn: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Records of a label and a score."""
        return self.tp + self.fn + self.fp + self.tn


# Each gives the metric, the larger the better, and its derivatives by tp, fn, fp, tn.
def _balanced_accuracy(c: _Rates) -> tuple[np.ndarray, ...]:
    positives, negatives = c.tp + c.fn, c.fp + c.tn
    value = (c.tp / positives + c.tn / negatives) / 2
    slopes = c.fn / positives**2, -c.tp / positives**2
    slopes += -c.tn / negatives**2, c.fp / negatives**2
    return value, *(slope / 2 for slope in slopes)


def _f1(c: _Rates) -> tuple[np.ndarray, ...]:
    whole = 2 * c.tp + c.fp + c.fn
    away = -2 * c.tp / whole**2
    return 2 * c.tp / whole, 2 * (c.fp + c.fn) / whole**2, away, away, 0 * whole


def _cost(c: _Rates, of_positive: float, of_negative: float) -> tuple[np.ndarray, ...]:
    mean = (of_positive * c.fp + of_negative * c.fn) / c.total
    right = mean / c.total
    return (
        -mean,
        right,
        right - of_negative / c.total,
        *((right - of_positive / c.total, right)),
    )


def _measured(c: _Rates, metric: str | Mapping[str, float]) -> tuple[np.ndarray, ...]:
    if metric == "balanced_accuracy":
        return _balanced_accuracy(c)
    if metric == "f1":
        return _f1(c)
    if metric == "accuracy":  # but for a constant, the share of what is not wrong
        return _cost(c, 1.0, 1.0)
    return _cost(c, *(float(metric[name]) for name in _COSTS))


def best_edge(
    counts: np.ndarray,
    start: int,
    noise_std: float,
    metric: str | Mapping[str, float],
    confidence: float,
    spread: float = 1.0,
) -> tuple[int, float, tuple[float, float]]:
    r"""Return the edge to choose, how much better it is, and an interval of that.

    Parameters
    ----------
    counts : float64 ndarray of shape (2, n_bins)
        Released counts of the negatives and of the positives, by increasing score.
    start : int
        The edge that is kept unless another one is clearly better.
    noise_std : float
        Standard deviation of the noise of each count.
    metric : str or mapping
    confidence : float
        Of the interval, for all edges at once.
    spread : float, default=1.0
        How many times the variance by drawing is that of rows one by one.

    Returns
    -------
    edge : int
    gain : float
    interval : (float, float)

    Notes
    -----
    A function of released numbers. The gain of an edge is a smooth function of the
    counts, with derivative :math:`g_c` by count c. So its variance is
    :math:`\sum_c g_c^2 (n_c + s^2)` to first order: the counts :math:`n_c` by sampling
    (the metric is a ratio, so that :math:`\sum_c g_c n_c = 0`), and :math:`s^2` by
    noise. Chosen is the edge whose gain less two standard errors is largest, if that is
    positive, and otherwise the one at the start.
    """
    n_bins = counts.shape[1]
    clear = _CLEAR * noise_std * math.sqrt(n_bins)
    if not (counts.sum(axis=1) > clear).all():
        return start, 0.0, (math.nan, math.nan)
    below = np.cumsum(counts, axis=1)[:, :-1]
    above = counts.sum(axis=1, keepdims=True) - below
    rates = _Rates(tp=above[1], fn=below[1], fp=above[0], tn=below[0])
    with np.errstate(all="ignore"):  # whole of f1 may be zero
        value, of_tp, of_fn, of_fp, of_tn = _measured(rates, metric)
        upper = np.arange(n_bins) > np.arange(n_bins - 1)[:, None]
        slopes = np.stack(
            [
                np.where(upper, of_fp[:, None], of_tn[:, None]),
                np.where(upper, of_tp[:, None], of_fn[:, None]),
            ],
            axis=1,
        )
        squares = (slopes - slopes[start]) ** 2
        sampling = spread * np.maximum((squares * counts).sum(axis=(1, 2)), 0.0)
        error = np.sqrt(sampling + noise_std**2 * squares.sum(axis=(1, 2)))
        gain = value - value[start]
        least = gain - _CLEAR * error
        least[~np.isfinite(least)] = -math.inf
    least[start] = 0.0
    edge = int(np.argmax(least))
    edge = edge if least[edge] > 0 else start
    level = 1 - (1 - confidence) / (2 * max(n_bins - 2, 1))
    half = NormalDist().inv_cdf(level) * float(error[edge])
    found = float(gain[edge])
    return edge, found, (found - half, found + half)


def check_metric(metric: Any) -> str | dict[str, float]:
    """Return what thresholds are compared by, or raise ValueError."""
    if isinstance(metric, str) and metric in _NAMED:
        return metric
    if isinstance(metric, Mapping) and set(metric) == set(_COSTS):
        for name in _COSTS:
            check_size(f"metric[{name!r}]", metric[name])
        return {name: float(metric[name]) for name in _COSTS}
    raise ValueError(
        f"metric={shown(metric)} must be one of {', '.join(map(repr, _NAMED))}, or the "
        "costs {'false_positive': ..., 'false_negative': ...}."
    )
