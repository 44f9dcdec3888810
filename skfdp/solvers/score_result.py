"""The result of a private score, and the choice of a threshold from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import FixedThresholdClassifier

from skfdp.addresses import Versioned, public
from skfdp.data.validation import check_size, without_traps
from skfdp.privacy.checks import shown
from skfdp.privacy.pipelines import of_releases
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_text import epsilon_text
from skfdp.solvers.score import (
    MODEL_IS_PUBLIC,
    OTHERS,
    TWO,
    fit_of,
    model_of,
)

#: The subject of the report of a score, before the name of the model's class.
SUBJECT = "private_score of "
#: The subject of the report of a comparison.
COMPARISON = "compare_private of "
# The gain of a threshold, and the noisy number of records of a class, must exceed this
# many of their standard errors. With one standard error, the best of many useless
# thresholds would often be chosen.
_CLEAR = 2.0


class ScoredClassifier(Versioned, ClassifierMixin, BaseEstimator):
    """Fitted classifier of two classes, with the report of its fit and of its score.

    `PrivateThreshold.apply` returns it. It is frozen: `fit` and `clone` return it
    unchanged, because it was built from releases.

    Parameters
    ----------
    estimator : fitted classifier of two classes
        With predict_proba or decision_function.
    release : PrivacyReport
        The report of the private score behind the threshold.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        In increasing order.
    """

    def __init__(self, estimator: Any, release: PrivacyReport):
        self.estimator = estimator
        self.release = release
        found, scored = type(estimator).__name__, release.subject
        if scored != SUBJECT + found:
            raise ValueError(
                f"model={found} is not the scored model, which is a "
                f"{scored.removeprefix(SUBJECT)}: pass the scored model."
            )
        model = model_of(estimator)
        if model.task != TWO or model.by == "predict":
            raise ValueError(
                f"model={shown(found)} must be a classifier of two classes with "
                "predict_proba or decision_function."
            )
        self.classes_ = np.unique(model.classes)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))

    @property
    def privacy_(self) -> PrivacyReport:
        """The report of the fit and of the score.

        For a model that was declared public without a report of a private fit, it is
        the report of the score, which includes that declaration as an assumption.
        """
        release, is_public = self.release, MODEL_IS_PUBLIC in self.release.assumptions
        fit = fit_of(self.estimator, is_public)
        if fit is None or math.isinf(fit.epsilon) or fit.leaks:
            return dataclasses.replace(release, subject=type(self).__name__)
        # The composition counts the fit and the score, so it needs no assumption that
        # their records differ.
        kept = tuple(a for a in release.assumptions if a not in OTHERS.values())
        release = dataclasses.replace(release, assumptions=kept)
        return of_releases(self, [("estimator", fit), ("scores", release)])

    def fit(self, X: Any = None, y: Any = None) -> ScoredClassifier:
        """Return the unchanged classifier."""
        return self

    def __sklearn_clone__(self) -> ScoredClassifier:
        return self

    def set_params(self, **params: Any) -> ScoredClassifier:
        """Raise ValueError, because the parameters come from a release.

        Raises
        ------
        ValueError
        """
        raise ValueError(
            f"{min(params, default='a parameter')} cannot be set: a ScoredClassifier "
            "is the result of a release; get another one from "
            "PrivateScore.best_threshold."
        )

    @without_traps()
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of both classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in the form that the estimator accepts.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, 2)
        """
        if hasattr(self.estimator, "predict_proba"):
            found = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        else:
            margins = np.ravel(self.estimator.decision_function(X))
            found = expit(margins[:, None] * [-1.0, 1.0])
        turned = self.estimator.classes_[1] != self.classes_[1]
        return found[:, ::-1] if turned else found

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of the larger probability."""
        first, last = self.predict_proba(X).T
        return self.classes_[(last > first).astype(np.int64)]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"ScoredClassifier({type(self.estimator).__name__}(...))"


# Thresholds that are chosen from a released table of labels and bins of scores.


#: Metrics of thresholds, as functions of the numbers of true positives, false
#: negatives, false positives and true negatives. Larger values are better.
_NAMED: dict[str, Callable[..., np.ndarray]] = {
    "balanced_accuracy": lambda tp, fn, fp, tn: (tp / (tp + fn) + tn / (fp + tn)) / 2,
    "accuracy": lambda tp, fn, fp, tn: (tp + tn) / (tp + fn + fp + tn),
    "f1": lambda tp, fn, fp, tn: 2 * tp / (2 * tp + fp + fn),
}
_COSTS = ("false_positive", "false_negative")


def _measure(metric: Any) -> Callable[..., np.ndarray]:
    """Return the function of counts that computes a metric, or raise ValueError."""
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

    It is post-processing of a release, without an additional charge.

    Attributes
    ----------
    threshold : float
        Records with a higher score get the last class. The threshold is an edge of the
        bins, or the scored threshold, which is `PrivateScore.threshold`.
    is_default : bool
        Whether `threshold` is the scored threshold. This is so if no edge was better by
        more than two standard errors, or if a class is too small for the noise.
    gain : float
        Estimated improvement over the scored threshold, in units of the metric; 0 for
        the scored threshold. The gain is **optimistic**, because it is the best of many
        estimates.
    interval : (float, float)
        Confidence interval of the gain on the population. It holds for all edges at
        once with the confidence of the score (Bonferroni), so that the choice does not
        invalidate it. NaN if a class is too small for the noise.
    privacy_ : PrivacyReport
        The report of the score.
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
            The scored model.

        Returns
        -------
        classifier : FixedThresholdClassifier
            A scikit-learn classifier. `skfdp.report` reports the fit and the score.
            If this classifier is fitted, the model does not change.

        Raises
        ------
        ValueError
            If the model is not fitted, or if its type is not that of the scored model.
        """
        scored = ScoredClassifier(model, self.privacy_)
        # For a score that equals the threshold, scikit-learn predicts the last class,
        # and the table counts the first class.
        return FixedThresholdClassifier(
            scored,
            threshold=math.nextafter(self.threshold, 1.0),
            pos_label=scored.classes_[1],
            response_method="predict_proba",
        )


@public("skfdp.metrics")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """Private scores of a model, with intervals; `private_score` returns it.

    All attributes are released or public. They may be published with the report.

    Attributes
    ----------
    values : dict of str to float
        Each metric except the confusion matrix, clipped to its range. NaN if there are
        too few records for the noise.
    intervals : dict of str to (float, float)
        Confidence intervals of the metrics on the population. They cover the noise and
        the sampling of the records. NaN if undetermined.
    confidence : float
        Confidence of each single interval.
    confusion_matrix : ndarray of shape (n_classes, n_classes) or None
        Noisy counts by true class (rows) and predicted class (columns). They may be
        negative and are not integers. None if not requested.
    classes : ndarray of shape (n_classes,) or None
        Labels in the order of the matrix; the last of two classes is the positive one.
    n_records : int
        Number of records, or of persons if persons are protected. If this number is
        private, the nominal number.
    noise_std : float
        Standard deviation of the noise of each released entry, in records or persons.
    table : ndarray of shape (n_entries,)
        The release itself: counts of cells, then sums of losses and squares.
    edges : tuple of float
        Scores that separate the bins of the table, in increasing order; empty without
        bins. The table begins with the counts of the first class in each bin, followed
        by those of the last class.
    threshold : float
        The edge above which a record was predicted positive.
    spread : float
        Factor of the sampling variance relative to independent rows; above 1 for
        persons with several rows.
    by : str or None
        Name of the column whose values are scored separately.
    by_value : dict of str or number to PrivateScore
        Score of the records with each value, empty without `by`. These scores have the
        same `privacy_`, because one charge covers all of them.
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
    by_value: Mapping[Any, PrivateScore] = dataclasses.field(default_factory=dict)
    privacy_: PrivacyReport

    def best_threshold(self, metric: Any = "balanced_accuracy") -> PrivateThreshold:
        r"""Return the best threshold among the edges of the bins, without a charge.

        Parameters
        ----------
        metric : str or dict, default="balanced_accuracy"
            "balanced_accuracy", "accuracy", "f1", or the costs of wrong predictions,
            such as ``{"false_positive": 1.0, "false_negative": 5.0}``, whose mean is
            minimised.

        Returns
        -------
        threshold : PrivateThreshold
            The scored threshold, unless another edge is better by more than two
            standard errors of noise and sampling. ``threshold.apply(model)`` returns a
            model with this threshold.

        Raises
        ------
        ValueError
            For another metric, or without bins of scores.

        Notes
        -----
        **Guarantees.** The result is post-processing of released numbers.

        This score is optimistic at the chosen threshold, because the same noise was
        used to choose it. `PrivateThreshold.interval` holds for all edges at once.
        Alternatively, call `private_score` again with ``threshold=...``, on other
        records or with another part of the budget.

        The gain of an edge is a smooth function of the counts :math:`n_c` of the table.
        Let :math:`g_c` be its derivative by count c. To first order the variance of the
        gain is :math:`\sum_c g_c^2 (n_c + s^2)`: a count has the sampling variance
        :math:`n_c` and the noise variance :math:`s^2`. (The metric is a ratio, so
        :math:`\sum_c g_c n_c = 0`.) The chosen edge has the largest gain minus two
        standard errors, if this difference is positive. Otherwise the scored threshold
        is returned.
        """
        n_bins = len(self.edges) + 1
        if n_bins < 4:
            raise ValueError(
                "best_threshold needs at least four bins of the scores of a classifier "
                f"of two classes, got {n_bins}: call private_score with 'roc_auc' in "
                "metrics."
            )
        measure = _measure(metric)
        counts = self.table[: 2 * n_bins].reshape(2, n_bins)
        start, std = self.edges.index(self.threshold), self.noise_std

        def chosen(edge: int, gain: float, half: float) -> PrivateThreshold:
            return PrivateThreshold(
                threshold=self.edges[edge],
                is_default=edge == start,
                gain=gain,
                interval=(gain - half, gain + half),
                privacy_=self.privacy_,
            )

        # Keep the scored threshold if a class is not clearly larger than the noise.
        if not (counts.sum(axis=1) > _CLEAR * std * math.sqrt(n_bins)).all():
            return chosen(start, 0.0, math.nan)
        below = np.cumsum(counts, axis=1)[:, :-1]
        above = counts.sum(axis=1, keepdims=True) - below
        rates = np.array([above[1], below[1], above[0], below[0]])
        with np.errstate(all="ignore"):  # the denominator of f1 may be zero
            value = measure(*rates)
            # Derivatives with respect to each of the four numbers, by complex steps.
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

    def __repr__(self) -> str:
        lines = [_title(self)]
        parts = {f"{self.by} = {name}: ": one for name, one in self.by_value.items()}
        for prefix, one in {"": self, **parts}.items():
            lines += [_line(f"{prefix}{name}", one, name) for name in one.intervals]
        if self.confusion_matrix is not None:
            lines.append("  confusion_matrix of noisy counts")
        return "\n".join(lines) + ">"


@public("skfdp.metrics")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateComparison:
    """Differences between models, with intervals; `compare_private` returns it.

    All attributes are released or public. They may be published with the report.

    Attributes
    ----------
    values : dict of (str, str) to float
        By pair of models and metric: ``("b - a", "accuracy")`` is the accuracy of b
        minus that of a. NaN if there are too few records for the noise.
    intervals : dict of (str, str) to (float, float)
        Confidence intervals of the differences on the population of the records.
    confidence : float
        Confidence of each single interval.
    n_records : int
        Number of records, or of persons if persons are protected. If this number is
        private, the nominal number.
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
