"""The result of a private score, and what may be chosen by it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import FixedThresholdClassifier

from skfdp.addresses import public
from skfdp.data.validation import check_size, without_traps
from skfdp.privacy.checks import shown
from skfdp.privacy.pipelines import of_releases
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_text import epsilon_text
from skfdp.solvers.score import (
    FURTHEST,
    MODEL_IS_PUBLIC,
    OTHERS,
    TWO,
    fit_of,
    model_of,
)

#: The subject of the report of a score, before the name of the model's class.
SUBJECT = "private_score of "
#: That of a comparison.
COMPARISON = "compare_private of "
# Standard errors by which a gain, or the size of a class, must differ from nothing.
# Beyond one alone the best of many edges that gain nothing lies as often as not.
_CLEAR = 2.0


class AdjustedClassifier(ClassifierMixin, BaseEstimator):
    """Fitted classifier of two classes with adjusted probabilities.

    `PrivateTemperature.apply` and `PrivateThreshold.apply` make it. It is frozen:
    `fit` and `clone` return it as it is, since what it was made from is released
    already.

    Parameters
    ----------
    estimator : fitted classifier of two classes
        With predict_proba or decision_function.
    release : PrivacyReport
        Of the private score that temperature, shift or a threshold followed from.
    temperature : float, default=1.0
        What its log odds are divided by.
    shift : float, default=0.0
        What is added to them then.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        In increasing order.

    Notes
    -----
    Log odds beyond 6 are cut to 6, as the bins of the score are, unless temperature and
    shift are those of no change; then the probabilities are the estimator's.
    """

    def __init__(
        self,
        estimator: Any,
        release: PrivacyReport,
        temperature: float = 1.0,
        shift: float = 0.0,
    ):
        self.estimator = estimator
        self.release = release
        self.temperature = temperature
        self.shift = shift
        found, scored = type(estimator).__name__, release.subject
        if scored != SUBJECT + found:
            raise ValueError(
                f"model={found} is another one than was scored, which was "
                f"{scored.removeprefix(SUBJECT)}: pass the model of the score."
            )
        model = model_of(estimator)
        if model.task != TWO or model.by == "predict":
            raise ValueError(
                f"model={shown(found)} must be of two classes, and have predict_proba "
                "or decision_function."
            )
        self.classes_ = np.unique(model.classes)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))

    @property
    def privacy_(self) -> PrivacyReport:
        """The report of the fit and of the score.

        A model that was declared public, and has no report of a private fit, leaves the
        score alone, with that declaration among its assumptions.
        """
        release, is_public = self.release, MODEL_IS_PUBLIC in self.release.assumptions
        fit = fit_of(self.estimator, is_public)
        if fit is None or math.isinf(fit.epsilon) or fit.leaks:
            return dataclasses.replace(release, subject=type(self).__name__)
        # The two are composed here, whoever's the records are.
        kept = tuple(a for a in release.assumptions if a not in OTHERS.values())
        release = dataclasses.replace(release, assumptions=kept)
        return of_releases(self, [("estimator", fit), ("scores", release)])

    def fit(self, X: Any = None, y: Any = None) -> AdjustedClassifier:
        """Learn nothing: what was released stays."""
        return self

    def __sklearn_clone__(self) -> AdjustedClassifier:
        return self

    def set_params(self, **params: Any) -> AdjustedClassifier:
        """Refuse: another parameter would be one that was not released.

        Raises
        ------
        ValueError
        """
        raise ValueError(
            f"{min(params, default='a parameter')} cannot be set: an "
            "AdjustedClassifier is the result of a release; make another one by "
            "PrivateScore.best_temperature or best_threshold."
        )

    @without_traps()
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the adjusted probabilities of both classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            As the estimator takes them.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, 2)
        """
        if hasattr(self.estimator, "predict_proba"):
            found = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        else:
            margins = np.ravel(self.estimator.decision_function(X))
            found = expit(margins[:, None] * [-1.0, 1.0])
        if self.estimator.classes_[1] != self.classes_[1]:
            found = found[:, ::-1]
        if (self.temperature, self.shift) == (1, 0):
            return found
        with np.errstate(divide="ignore"):
            odds = np.log(found[:, [1]]) - np.log(found[:, [0]])
        odds = np.clip(odds, -FURTHEST, FURTHEST) / self.temperature + self.shift
        return expit(odds * [-1.0, 1.0])

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of the larger adjusted probability."""
        first, last = self.predict_proba(X).T
        return self.classes_[(last > first).astype(np.int64)]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return (
            f"AdjustedClassifier({type(self.estimator).__name__}(...), "
            f"temperature={self.temperature:.6g}, shift={self.shift:.6g})"
        )


# Temperatures that are fitted to a released table of labels and bins of scores.


# By how much a log-likelihood must be better for each parameter. Noise alone does that
# for one parameter in 1 of 200 cases; it would in 1 of 20 for 2, and in three ways.
_BETTER = 4.0
# Log odds of the first and the last bin that are tried; float64 has none beyond 37.
_LARGEST, _N_BEYOND = 37.0, 63


@public("skfdp.metrics")
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
        return AdjustedClassifier(model, self.privacy_, self.temperature, self.shift)


def _hides_a_class(counts: np.ndarray, noise_std: float) -> bool:
    """Whether the size of a class is not clear of noise."""
    clear = _CLEAR * noise_std * math.sqrt(counts.shape[1])
    return not (counts.sum(axis=1) > clear).all()


# Thresholds that are chosen by a released table of labels and bins of scores.


#: What thresholds are compared by, the larger the better, from the counts of true
#: positives, false negatives, false positives and true negatives.
_NAMED: dict[str, Callable[..., np.ndarray]] = {
    "balanced_accuracy": lambda tp, fn, fp, tn: (tp / (tp + fn) + tn / (fp + tn)) / 2,
    "accuracy": lambda tp, fn, fp, tn: (tp + tn) / (tp + fn + fp + tn),
    "f1": lambda tp, fn, fp, tn: 2 * tp / (2 * tp + fp + fn),
}
_COSTS = ("false_positive", "false_negative")


def _measure(metric: Any) -> Callable[..., np.ndarray]:
    """Return what a metric makes of counts, or raise ValueError."""
    if isinstance(metric, str) and metric in _NAMED:
        return _NAMED[metric]
    if isinstance(metric, Mapping) and set(metric) == set(_COSTS):
        for name in _COSTS:
            check_size(f"metric[{name!r}]", metric[name])
        per_fp, per_fn = (float(metric[name]) for name in _COSTS)
        return lambda tp, fn, fp, tn: -(per_fp * fp + per_fn * fn) / (tp + fn + fp + tn)
    raise ValueError(
        f"metric={shown(metric)} must be one of {', '.join(map(repr, _NAMED))}, or the "
        "costs {'false_positive': ..., 'false_negative': ...}."
    )


@public("skfdp.metrics")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateThreshold:
    """Threshold of two classes; `PrivateScore.best_threshold` returns it.

    It follows from a release and costs nothing more.

    Attributes
    ----------
    threshold : float
        A score above it is the last class. One of the edges of the bins, or the
        threshold that was scored.
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
        adjusted = AdjustedClassifier(model, self.privacy_)
        # There a score on the threshold is above it, and in the table it is below.
        return FixedThresholdClassifier(
            adjusted,
            threshold=math.nextafter(self.threshold, 1.0),
            pos_label=adjusted.classes_[1],
            response_method="predict_proba",
        )


@public("skfdp.metrics")
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

    def best_threshold(self, metric: Any = "balanced_accuracy") -> PrivateThreshold:
        r"""Return the best threshold among the edges of the bins; costs nothing more.

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

        The gain of an edge is a smooth function of the counts, with derivative
        :math:`g_c` by count c. So its variance is :math:`\sum_c g_c^2 (n_c + s^2)` to
        first order: the counts :math:`n_c` by sampling (the metric is a ratio, so that
        :math:`\sum_c g_c n_c = 0`), and :math:`s^2` by noise. Chosen is the edge whose
        gain less two standard errors is largest, if that is positive, and otherwise the
        one at the start.
        """
        measure, counts = _measure(metric), self._bins("best_threshold")
        start, std = self.edges.index(self.threshold), self.noise_std

        def chosen(edge: int, gain: float, half: float) -> PrivateThreshold:
            return PrivateThreshold(
                threshold=self.edges[edge],
                is_default=edge == start,
                gain=gain,
                interval=(gain - half, gain + half),
                privacy_=self.privacy_,
            )

        if _hides_a_class(counts, std):
            return chosen(start, 0.0, math.nan)
        n_bins = counts.shape[1]
        below = np.cumsum(counts, axis=1)[:, :-1]
        above = counts.sum(axis=1, keepdims=True) - below
        rates = np.array([above[1], below[1], above[0], below[0]])
        with np.errstate(all="ignore"):  # what f1 divides by may be zero
            value = measure(*rates)
            # Derivatives by each of the four, exactly: of complex steps.
            steps = 1e-100j * np.eye(4)[:, :, None]
            tp, fn, fp, tn = (measure(*(rates + step)).imag / 1e-100 for step in steps)
            upper = np.arange(n_bins) > np.arange(n_bins - 1)[:, None]
            negative = np.where(upper, fp[:, None], tn[:, None])
            positive = np.where(upper, tp[:, None], fn[:, None])
            slopes = np.stack([negative, positive], axis=1)
            squares = (slopes - slopes[start]) ** 2
            sampling = np.maximum((squares * counts).sum(axis=(1, 2)), 0.0)
            drawn = self.spread * sampling
            error = np.sqrt(drawn + std**2 * squares.sum(axis=(1, 2)))
            gain = value - value[start]
            least = gain - _CLEAR * error
            least[~np.isfinite(least)] = -math.inf
        least[start] = 0.0
        edge = int(np.argmax(least))
        edge = edge if least[edge] > 0 else start
        level = 1 - (1 - self.confidence) / (2 * max(n_bins - 2, 1))
        half = NormalDist().inv_cdf(level) * float(error[edge])
        return chosen(edge, float(gain[edge]), half)

    @without_traps()
    def best_temperature(self) -> PrivateTemperature:
        r"""Return the temperature and the shift that calibrate the scores, for free.

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

        In a bin whose log odds are z, the chance of a positive is
        :math:`p = \operatorname{expit}(a z + b)`, so that its counts :math:`(n_0, n_1)`
        lie in the direction :math:`(1 - p, p)`, of length d, wherever the number of its
        records is. What lies across, :math:`u = ((1 - p) n_1 - p n_0) / d`, has mean
        zero and variance :math:`s^2 + (n_0 + n_1)_+\, p (1 - p) / d^2`: by noise, which
        has no direction, and by sampling. Minimised is the negative logarithm of the
        normal likelihood of u, summed over the bins. A bin of noise alone adds nothing
        to its expectation, wherever it is, while estimating equations would weigh it by
        :math:`z^2`.

        The first and the last bin have the log odds -6 and 6, at which
        `AdjustedClassifier` cuts. Without a change nothing is cut, and theirs are
        whichever beyond fit best.

        *Shrinkage.* With slope a and shift b at the log odds c of the released share of
        positives, ``a (z - c) + c + b``, the sum above gets
        :math:`(\log^2 a + b^2) / 2`, a normal prior around no change. A slope, a shift,
        or both are taken if that is better than no change by 4 for each: as likely by
        noise alone as what is 2.8 standard errors away.
        """
        counts, std = self._bins("best_temperature"), self.noise_std
        odds = logit(np.array(self.edges))
        middles = (odds[1:] + odds[:-1]) / 2
        middles = np.concatenate([[-FURTHEST], middles, [FURTHEST]])
        centre = 0.0
        if not _hides_a_class(counts, std):
            negatives, positives = counts.sum(axis=1)
            centre = math.log(positives / negatives)

        def unlikely(margins: np.ndarray) -> np.ndarray:
            """Return minus the log-likelihood of each bin that has these log odds."""
            p, rest = expit(margins), expit(-margins)
            length = np.hypot(p, rest) * std
            square = ((rest * counts[1] - p * counts[0]) / length) ** 2
            records = self.spread * np.maximum(counts.sum(axis=0), 0.0)
            sampling = records * p * rest / length**2
            return (square / (1 + sampling) + np.log1p(sampling)) / 2

        def penalised(change: np.ndarray) -> float:
            margins = math.exp(change[0]) * (middles - centre) + centre + change[1]
            return float(unlikely(margins).sum() + change @ change / 2)

        beyond = np.tile(middles, (_N_BEYOND, 1))
        ends = np.linspace(FURTHEST, _LARGEST, _N_BEYOND)
        beyond[:, 0], beyond[:, -1] = -ends, ends
        best, least = np.zeros(2), float(unlikely(beyond).min(axis=0).sum())
        both = np.eye(2)
        for free in (both[:1], both[1:], both):
            found = minimize(
                lambda values, free=free: penalised(values @ free),
                np.zeros(len(free)),
                method="Nelder-Mead",
            )
            value = float(found.fun) + _BETTER * len(free)
            if value < least:
                best, least = found.x @ free, value
        slope, shift = math.exp(best[0]), float(best[1])
        return PrivateTemperature(
            temperature=1 / slope,
            shift=shift + centre * (1 - slope),
            privacy_=self.privacy_,
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
        found = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        found["privacy"] = found.pop("privacy_").to_dict()
        found["groups"] = []
        for name, one in self.groups.items():
            score = one.to_dict()
            for of_the_whole in ("privacy", "groups", "by"):
                del score[of_the_whole]
            name = name if isinstance(name, str | int | float) else str(name)
            found["groups"].append({"group": name, "score": score})
        return _plain(found)

    def __repr__(self) -> str:
        lines = [_title(self)]
        parts = {f"{self.by} = {name}: ": one for name, one in self.groups.items()}
        for prefix, one in {"": self, **parts}.items():
            lines += [_line(f"{prefix}{name}", one, name) for name in one.intervals]
        if self.confusion_matrix is not None:
            lines.append("  confusion_matrix of noisy counts")
        return "\n".join(lines) + ">"


@public("skfdp.metrics")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateComparison:
    """Differences between models, with intervals; `compare_private` returns it.

    All of it was released: it may be published with the report.

    Attributes
    ----------
    values : dict of (str, str) to float
        By pair of models and metric: ``("b - a", "accuracy")`` is the accuracy of b
        less that of a. NaN where undetermined: too few records for the noise.
    intervals : dict of (str, str) to (float, float)
        Confidence intervals of the differences on the population of the records.
    confidence : float
        Of each interval by itself.
    n_records : int
        Number of records, of persons where these are protected; nominal where it is
        private.
    noise_std : float
        Standard deviation of the noise of each released entry.
    table : ndarray of shape (n_entries,)
        The release itself: counts of cells, then sums of losses and squares.
    privacy_ : PrivacyReport
    """

    values: Mapping[tuple[str, str], float]
    intervals: Mapping[tuple[str, str], tuple[float, float]]
    confidence: float
    n_records: int
    noise_std: float
    table: np.ndarray
    privacy_: PrivacyReport

    def __repr__(self) -> str:
        lines = [_title(self)]
        lines += [_line(f"{a}: {b}", self, (a, b)) for a, b in self.values]
        return "\n".join(lines) + ">"


def _title(score: PrivateScore | PrivateComparison) -> str:
    report = score.privacy_
    return (
        f"<{type(score).__name__}: epsilon={epsilon_text(report)}, "
        f"delta={report.delta:g}, {100 * score.confidence:g} % intervals"
    )


def _line(label: str, score: PrivateScore | PrivateComparison, name: Any) -> str:
    low, high = score.intervals[name]
    text = f"{score.values[name]:.3f} [{low:.3f}, {high:.3f}]"
    if math.isnan(low):
        text = "undetermined: too few records for this noise"
    return f"  {label} {text}"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, None for NaN."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
