"""The result of a private score."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.utils import get_tags

from skfdp.addresses import public
from skfdp.data.validation import check_number, check_size
from skfdp.privacy.checks import shown
from skfdp.privacy.pipelines import of_releases
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_text import epsilon_text
from skfdp.solvers.score import (
    FURTHEST,
    MODEL_IS_PUBLIC,
    OTHERS,
    TWO,
    Layout,
    NoisyTable,
    Origin,
    model_of,
)

if TYPE_CHECKING:
    import pandas as pd

    from skfdp.privacy.report import PrivacyReport

# A fitted classifier of two classes whose probabilities a release has adjusted.


#: The subject of the report of a score, before the name of the model's class.
SUBJECT = "private_score of "


class AdjustedClassifier(ClassifierMixin, BaseEstimator):
    """Fitted classifier of two classes with adjusted probabilities.

    `PrivateTemperature.apply` and `PrivateThreshold.apply` make it. It is frozen:
    `fit` and `clone` return it as it is, since what it was made from is released
    already.

    Parameters
    ----------
    estimator : fitted classifier of two classes
        With predict_proba or decision_function.
    temperature : float, default=1.0
        What its log odds are divided by.
    shift : float, default=0.0
        What is added to them then.
    release : PrivacyReport
        Of the private score that temperature, shift or a threshold followed from.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        In increasing order.
    privacy_ : PrivacyReport
        Of the fit of the estimator, if it has a report, and of the score.

    Notes
    -----
    Log odds beyond 6 are cut to 6, as the bins of the score are, unless temperature and
    shift are those of no change; then the probabilities are the estimator's.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        temperature: float = 1.0,
        shift: float = 0.0,
        release: PrivacyReport,
    ):
        self.estimator = estimator
        self.temperature = temperature
        self.shift = shift
        self.release = release

    def _check(self) -> None:
        """Refuse what cannot be adjusted, and what the release is not about."""
        check_number("temperature", self.temperature, high=1e6)
        check_number("shift", self.shift, low=-1e6, high=1e6)
        subject = getattr(self.release, "subject", "")
        is_report = isinstance(self.release, PrivacyReport)
        if not (is_report and subject.startswith(SUBJECT)):
            raise ValueError(
                f"release={shown(self.release)} must be the report of a private_score: "
                "use PrivateScore.best_temperature or best_threshold."
            )
        scored = subject.removeprefix(SUBJECT)
        found = type(self.estimator).__name__
        if found != scored:
            raise ValueError(
                f"model={found} is another one than was scored, which was {scored}: "
                "pass the model of the score."
            )
        model = model_of(self.estimator)
        if model.task != TWO or model.by == "predict":
            raise ValueError(
                f"model={shown(found)} must be of two classes, and have predict_proba "
                "or decision_function."
            )

    @property
    def classes_(self) -> np.ndarray:
        """Labels in increasing order; the last one is the positive one."""
        return np.unique(self.estimator.classes_)

    @property
    def privacy_(self) -> PrivacyReport:
        """The report of the fit and of the score.

        A model that was declared public, and has no report of a private fit, leaves the
        score alone, with that declaration among its assumptions.
        """
        self._check()
        release, is_public = self.release, MODEL_IS_PUBLIC in self.release.assumptions
        fit = Origin.of(self.estimator, is_public, None)
        if not fit.is_private:
            return dataclasses.replace(release, subject=type(self).__name__)
        # The two are composed here, whoever's the records are.
        kept = tuple(a for a in release.assumptions if a not in OTHERS.values())
        release = dataclasses.replace(release, assumptions=kept)
        return of_releases(self, [("estimator", fit.report), ("scores", release)])

    def __getattr__(self, name: str) -> Any:
        """Return what the estimator knows of its columns."""
        if name in ("n_features_in_", "feature_names_in_") and "estimator" in vars(
            self
        ):
            return getattr(self.estimator, name)
        raise AttributeError(f"AdjustedClassifier has no attribute {name!r}.")

    def fit(self, X: Any = None, y: Any = None) -> AdjustedClassifier:
        """Check the parameters, and learn nothing: what was released stays."""
        self._check()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> AdjustedClassifier:
        return self

    def set_params(self, **params: Any) -> AdjustedClassifier:
        """Refuse: another parameter would be one that was not released.

        Raises
        ------
        ValueError
            For any parameter.
        """
        if params:
            raise ValueError(
                f"{min(params)}={shown(params[min(params)])} cannot be set: an "
                "AdjustedClassifier is the result of a release; make another one by "
                "PrivateScore.best_temperature or best_threshold."
            )
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; those of the estimator stay inside."""
        return super().get_params(deep=False)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the adjusted log odds of the last class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            As the estimator takes them.

        Returns
        -------
        log_odds : ndarray of shape (n_samples,)
        """
        odds = self._log_odds(X)
        if self._changes_nothing:
            return odds
        return np.clip(odds, -FURTHEST, FURTHEST) / self.temperature + self.shift

    @property
    def _changes_nothing(self) -> bool:
        return self.temperature == 1 and self.shift == 0

    def _log_odds(self, X: Any) -> np.ndarray:
        """Return the estimator's own log odds of the last class."""
        if hasattr(self.estimator, "predict_proba"):
            first, last = self._own_chances(X).T
            # The smaller of two chances has more digits.
            return np.where(last < 0.5, logit(last), -logit(first))
        margins = np.asarray(self.estimator.decision_function(X), dtype=np.float64)
        margins = margins.reshape(len(margins))
        return margins if self._in_order else -margins

    def _own_chances(self, X: Any) -> np.ndarray:
        """Return the estimator's own probabilities, in the order of `classes_`."""
        found = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        return found if self._in_order else found[:, ::-1]

    @property
    def _in_order(self) -> bool:
        return self.estimator.classes_[1] == self.classes_[1]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the adjusted probabilities of both classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, 2)
        """
        if self._changes_nothing and hasattr(self.estimator, "predict_proba"):
            return self._own_chances(X)
        odds = self.decision_function(X)
        return np.column_stack([expit(-odds), expit(odds)])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of `predict_proba`."""
        odds = self.decision_function(X)
        return np.column_stack([log_expit(-odds), log_expit(odds)])

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of the larger adjusted probability."""
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return (
            f"AdjustedClassifier({type(self.estimator).__name__}(...), "
            f"temperature={self.temperature:.6g}, shift={self.shift:.6g})"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        tags._skip_test = True
        return tags


# Temperatures that are fitted to a released table of labels and bins of scores.


# Standard errors by which the size of a class must differ from nothing.
_CLEAR = 2.0
# By how much a log-likelihood must be better for each parameter. Noise alone does that
# for one parameter in 1 of 200 cases; it would in 1 of 20 for 2, and in three ways.
_BETTER = 4.0
# Log odds of the first and the last bin that are tried; float64 has none beyond 37.
_LARGEST, _N_BEYOND = 37.0, 63


@public("skfdp")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateTemperature:
    """Calibration of two classes; `PrivateScore.best_temperature` returns it.

    It follows from a release and costs nothing more. Calibrated log odds are those of
    the model, divided by `temperature`, plus `shift`.

    Attributes
    ----------
    temperature : float
        Above 1 for a model that is too sure of itself.
    shift : float
        In log odds of the last class.
    is_default : bool
        Whether nothing changes, because the release does not show that it should.
    privacy_ : PrivacyReport
        Of the score.
    """

    temperature: float
    shift: float
    privacy_: PrivacyReport

    @property
    def is_default(self) -> bool:
        """Whether nothing changes: temperature 1 and shift 0."""
        return self.temperature == 1 and self.shift == 0

    def apply(self, model: Any) -> AdjustedClassifier:
        """Return the model with calibrated probabilities, ready to predict.

        Parameters
        ----------
        model : fitted classifier
            The one that was scored.

        Returns
        -------
        classifier : AdjustedClassifier
            `skfdp.report` tells of the fit and of the score.

        Raises
        ------
        ValueError
            If the model is of another class than the scored one, or not fitted.
        """
        return AdjustedClassifier(
            model,
            temperature=self.temperature,
            shift=self.shift,
            release=self.privacy_,
        ).fit()


def fitted_temperature(
    counts: np.ndarray,
    edges: tuple[float, ...],
    noise_std: float,
    spread: float = 1.0,
) -> tuple[float, float]:
    r"""Return the temperature and the shift that the counts speak for.

    Parameters
    ----------
    counts : float64 ndarray of shape (2, n_bins)
        Released counts of the negatives and of the positives, by increasing score.
    edges : tuple of float
        Scores that part the bins.
    noise_std : float
        Standard deviation of the noise of each count.
    spread : float, default=1.0
        How many times the variance by drawing is that of rows one by one.

    Returns
    -------
    temperature, shift : float
        (1, 0) where nothing speaks against the scores as they are.

    Notes
    -----
    A function of released numbers. In a bin whose log odds are z, the chance of a
    positive is :math:`p = \operatorname{expit}(a z + b)`, so that its counts
    :math:`(n_0, n_1)` lie in the direction :math:`(1 - p, p)`, of length d, wherever
    the number of its records is. What lies across,
    :math:`u = ((1 - p) n_1 - p n_0) / d`, has mean zero and variance
    :math:`s^2 + (n_0 + n_1)_+\, p (1 - p) / d^2`: by noise, which has no direction, and
    by sampling. Minimised is the negative logarithm of the normal likelihood of u,
    summed over the bins. A bin of noise alone adds nothing to its expectation,
    wherever it is, while estimating equations would weigh it by :math:`z^2`.

    The first and the last bin have the log odds -6 and 6, at which `AdjustedClassifier`
    cuts. Without a change nothing is cut, and theirs are whichever beyond fit best.

    *Shrinkage.* With slope a and shift b at the log odds c of the released share of
    positives, ``a (z - c) + c + b``, the sum above gets :math:`(\log^2 a + b^2) / 2`, a
    normal prior around no change. A slope, a shift, or both are taken if that is better
    than no change by 4 for each: as likely by noise alone as what is 2.8 standard
    errors away.
    """
    odds = logit(np.array(edges))
    middles = (odds[1:] + odds[:-1]) / 2
    middles = np.concatenate([[-FURTHEST], middles, [FURTHEST]])
    centre = _centre(counts, noise_std)

    def unlikely(log_slope: float, shift: float) -> float:
        margins = math.exp(log_slope) * (middles - centre) + centre + shift
        fit = _unlikely(margins, counts, noise_std, spread).sum()
        return float(fit + (log_slope**2 + shift**2) / 2)

    beyond = np.linspace(FURTHEST, _LARGEST, _N_BEYOND)[:, None]
    ends = _unlikely(beyond * [-1, 1], counts[:, [0, -1]], noise_std, spread).min(
        axis=0
    )
    inner = _unlikely(middles[1:-1], counts[:, 1:-1], noise_std, spread)
    best, least = None, float(ends.sum() + inner.sum())
    for free in ((True, False), (False, True), (True, True)):
        place = np.flatnonzero(free)

        def of_free(values: np.ndarray, place: np.ndarray = place) -> float:
            return unlikely(*np.bincount(place, values, minlength=2))

        found = minimize(of_free, np.zeros(len(place)), method="Nelder-Mead")
        value = float(found.fun) + _BETTER * len(place)
        if value < least:
            best, least = np.bincount(place, found.x, minlength=2), value
    if best is None:
        return 1.0, 0.0
    slope, shift = math.exp(best[0]), float(best[1])
    return 1 / slope, shift + centre * (1 - slope)


def _centre(counts: np.ndarray, noise_std: float) -> float:
    """Return the log odds of the share of positives; 0 where noise hides a class."""
    negatives, positives = counts.sum(axis=1)
    if min(negatives, positives) <= _CLEAR * noise_std * math.sqrt(counts.shape[1]):
        return 0.0
    return math.log(positives / negatives)


def _unlikely(
    margins: np.ndarray, counts: np.ndarray, noise_std: float, spread: float
) -> np.ndarray:
    """Return minus the log-likelihood of each bin that has these log odds."""
    p, rest = expit(margins), expit(-margins)
    length = np.hypot(p, rest) * noise_std
    square = ((rest * counts[1] - p * counts[0]) / length) ** 2
    records = spread * np.maximum(counts.sum(axis=0), 0.0)
    sampling = records * p * rest / length**2
    return (square / (1 + sampling) + np.log1p(sampling)) / 2


# Thresholds that are chosen by a released table of labels and bins of scores.


_NAMED = ("balanced_accuracy", "accuracy", "f1")
_COSTS = ("false_positive", "false_negative")
# Standard errors by which a gain, or the size of a class, must differ from nothing.
# Beyond one alone the best of many edges that gain nothing lies as often as not.
_CLEAR_THRESHOLD = 2.0


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
    clear = _CLEAR_THRESHOLD * noise_std * math.sqrt(n_bins)
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
        least = gain - _CLEAR_THRESHOLD * error
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


@public("skfdp")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """Private scores of a model, with intervals; `private_score` returns it.

    All of it was released: it may be published with the report.

    Attributes
    ----------
    values : dict of str to float
        Each metric but the confusion matrix, cut to its range. NaN where it is
        undetermined: too few records for the noise.
    intervals : dict of str to (float, float)
        Confidence intervals of the metrics on the population of the records: they
        cover the noise and the drawing of the records. NaN where undetermined.
    confidence : float
        Of each interval by itself.
    confusion_matrix : ndarray of shape (n_classes, n_classes) or None
        Counts of actual by predicted class with noise, hence neither whole numbers nor
        all positive; None if not asked for.
    classes : ndarray of shape (n_classes,) or None
        Labels in the order of the matrix; the last one of two is the positive one.
    n_records : int
        Number of records, of persons where these are protected; nominal where it is
        private.
    noise_std : float
        Standard deviation of the noise of each released entry, in records or persons.
    table : ndarray of shape (n_entries,)
        The release itself: counts of cells, then sums of losses and squares.
    edges : tuple of float
        Scores that part the bins of the table, in increasing order; empty where no bins
        were counted. The table begins with the counts of the first class in each bin,
        and goes on with those of the last class.
    threshold : float
        The one of the edges above which a record was predicted positive.
    spread : float
        How many times the variance by drawing is that of rows one by one: above 1 for
        persons with several rows.
    by : str or None
        Name of the column that parts the groups.
    groups : dict of str or number to PrivateScore
        Score of each group, empty without `by`. Their `privacy_` is that of the whole,
        because one charge covers all of them.
    privacy_ : PrivacyReport
    """

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    confidence: float
    confusion_matrix: np.ndarray | None
    classes: np.ndarray | None
    n_records: int
    noise_std: float
    table: np.ndarray
    edges: tuple[float, ...] = ()
    threshold: float = 0.5
    spread: float = 1.0
    by: str | int | None = None
    groups: Mapping[Any, PrivateScore] = dataclasses.field(default_factory=dict)
    privacy_: PrivacyReport

    @classmethod
    def of(
        cls,
        layout: Layout,
        table: np.ndarray,
        *,
        noise_std: float,
        n_records: int,
        confidence: float,
        shares: float | None = None,
        spread: float = 1.0,
        **more: Any,
    ) -> PrivateScore:
        """Return what follows from a released table; post-processing alone.

        Parameters
        ----------
        layout : Layout
        table : float64 ndarray of shape (n_entries,)
        noise_std : float
        n_records : int
        confidence : float
        shares : float, default=None
            Sum of the shares of all rows, where they have weights. None: `n_records`.
        spread : float, default=1.0
            See `NoisyTable`.
        **more : dict
            Further attributes.
        """
        total = n_records if shares is None else shares
        noisy = NoisyTable(
            cells=table[: layout.n_cells],
            losses=table[layout.n_cells :].reshape(-1, 2),
            noise_std=noise_std,
            n_records=total if layout.counts_are_public else None,
            confidence=confidence,
            spread=spread,
        )
        found = layout.estimates(noisy)
        return cls(
            values={name: one.value for name, one in found.items()},
            intervals={name: (one.low, one.high) for name, one in found.items()},
            confidence=confidence,
            confusion_matrix=layout.confusion_matrix(noisy),
            n_records=n_records,
            noise_std=noise_std,
            table=table,
            edges=layout.edges if layout.counts == "bins" else (),
            threshold=layout.threshold,
            spread=spread,
            **more,
        )

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Metrics of which the release says nothing: a noisy count is not positive."""
        return tuple(name for name, value in self.values.items() if math.isnan(value))

    def best_threshold(self, metric: Any = "balanced_accuracy") -> PrivateThreshold:
        """Return the best threshold among the edges of the bins; costs nothing more.

        Parameters
        ----------
        metric : str or dict, default="balanced_accuracy"
            Or "accuracy", "f1", or the costs of one wrong prediction of either kind,
            ``{"false_positive": 1.0, "false_negative": 5.0}``, whose mean is made
            small.

        Returns
        -------
        threshold : PrivateThreshold
            The scored threshold, if no other one is better by more than two standard
            errors, of noise and sampling, or if noise hides a class. ``apply`` makes a
            model that uses it.

        Raises
        ------
        ValueError
            For another metric, or without bins of scores.

        Notes
        -----
        **Guarantees.** A function of released numbers: post-processing.

        What this score says at the chosen threshold is optimistic, since the same noise
        has chosen it. `PrivateThreshold.interval` holds for all edges at once; or make
        another `private_score` with ``threshold=...``, of other records or of another
        part of the budget.
        """
        metric, counts = check_metric(metric), self._bins("best_threshold")
        edge, gain, interval = best_edge(
            counts,
            self.edges.index(self.threshold),
            self.noise_std,
            metric,
            self.confidence,
            self.spread,
        )
        return PrivateThreshold(
            threshold=self.edges[edge],
            metric=metric,
            is_default=self.edges[edge] == self.threshold,
            gain=gain,
            interval=interval,
            privacy_=self.privacy_,
        )

    def best_temperature(self) -> PrivateTemperature:
        """Return the temperature and the shift that calibrate the scores, for free.

        Returns
        -------
        temperature : PrivateTemperature
            1 and 0 where noise and sampling may explain what is seen. ``apply`` makes a
            model with these probabilities.

        Raises
        ------
        ValueError
            Without bins of scores.

        Notes
        -----
        **Guarantees.** A function of released numbers: post-processing.
        """
        counts = self._bins("best_temperature")
        temperature, shift = fitted_temperature(
            counts, self.edges, self.noise_std, self.spread
        )
        return PrivateTemperature(
            temperature=temperature, shift=shift, privacy_=self.privacy_
        )

    def _bins(self, name: str) -> np.ndarray:
        """Return the counts of both classes in each bin, or refuse."""
        n_bins = len(self.edges) + 1
        if n_bins < 4:
            raise ValueError(
                f"{name} needs at least four bins of scores of two classes, and this "
                f"score has {n_bins}: ask private_score for metrics with 'roc_auc'."
            )
        return self.table[: 2 * n_bins].reshape(2, n_bins)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values; what is undetermined is None."""
        matrix, classes = self.confusion_matrix, self.classes
        return {
            "values": {name: _plain(v) for name, v in self.values.items()},
            "intervals": {
                name: None if math.isnan(pair[0]) else list(pair)
                for name, pair in self.intervals.items()
            },
            "confidence": self.confidence,
            "confusion_matrix": None if matrix is None else matrix.tolist(),
            "classes": None if classes is None else classes.tolist(),
            "n_records": self.n_records,
            "noise_std": self.noise_std,
            "table": self.table.tolist(),
            "edges": list(self.edges),
            "threshold": self.threshold,
            "spread": self.spread,
            "by": self.by,
            "groups": [
                {"group": _group(name), "score": _without_report(one)}
                for name, one in self.groups.items()
            ],
            "privacy": self.privacy_.to_dict(),
        }

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each group and metric; needs pandas.

        Returns
        -------
        frame : DataFrame
            Columns ``group`` (None for all records), ``metric``, ``value``, ``low``,
            ``high`` and ``n_records``.
        """
        import pandas as pd

        rows = [
            (group, name, value, *one.intervals[name], one.n_records)
            for group, one in ((None, self), *self.groups.items())
            for name, value in one.values.items()
        ]
        columns = ["group", "metric", "value", "low", "high", "n_records"]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        report = self.privacy_
        lines = [
            f"<PrivateScore: epsilon={epsilon_text(report)}, delta={report.delta:g}, "
            f"{100 * self.confidence:g} % intervals",
            *self._lines(""),
        ]
        for name, one in self.groups.items():
            lines += one._lines(f"{self.by} = {name}: ")
        return "\n".join(lines) + ">"

    def _lines(self, prefix: str) -> list[str]:
        found = []
        for name, value in self.values.items():
            low, high = self.intervals[name]
            text = f"{value:.3f} [{low:.3f}, {high:.3f}]"
            if math.isnan(value):
                text = "undetermined: too few records for this noise"
            found.append(f"  {prefix}{name} {text}")
        if self.confusion_matrix is not None:
            size = len(self.confusion_matrix)
            found.append(f"  {prefix}confusion_matrix of {size} x {size} noisy counts")
        return found


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


def _group(name: Any) -> Any:
    return name if isinstance(name, str | int | float) else str(name)


def _without_report(score: PrivateScore) -> dict[str, Any]:
    """Return the dictionary of a group, without the report of the whole."""
    found = score.to_dict()
    for name in ("privacy", "groups", "by"):
        del found[name]
    return found
