"""A fitted classifier of two classes whose probabilities a release has adjusted."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags

from skfdp.estimators.scoring.layout import FURTHEST, TWO
from skfdp.estimators.scoring.origin import (
    MODEL_IS_PUBLIC,
    OTHERS,
    Origin,
)
from skfdp.estimators.scoring.predictions import model_of
from skfdp.privacy.composed import of_releases
from skfdp.privacy.report import PrivacyReport
from skfdp.records.checks import check_number, shown

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
