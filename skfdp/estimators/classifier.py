"""The common part of classifiers: labels as codes, and the most likely label."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from skfdp.estimators.arrays import shaped_target
from skfdp.records.guards import UtilityWarning, warn_caller, without_traps
from skfdp.records.labels import (
    RECODED,
    Labels,
    are_codes,
    check_recoded,
    encode_any,
    encode_labels,
    resolve_class_weight,
)


def _has_probabilities(model) -> bool:
    if model.loss == "log_loss":
        return True
    raise AttributeError(
        "predict_proba and predict_log_proba need loss='log_loss', but "
        f"loss={model.loss!r}."
    )


class PrivateClassifier(ClassifierMixin):
    """The classifiers' part of an estimator."""

    classes: Any = None
    _fixed = {"classes": None}

    @property
    def _takes_any_target(self) -> bool:
        return self.classes is not None and super()._takes_any_target

    def _target(
        self, y: np.ndarray | None, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray | None, dict]:
        labels = self._labels(y, n_rows)
        source = labels.source
        if source == "data" and self.public_target:
            source = "public target"
        return (
            labels.codes,
            labels.missing,
            {
                "classes": labels.classes,
                "classes_source": source,
                "class_weight": resolve_class_weight(self.class_weight, labels.classes),
            },
        )

    def _labels(self, y: np.ndarray | None, n_rows: int) -> Labels:
        if y is not None:
            if self.classes is not None:
                check_recoded(y, self.classes)
            encode = encode_any if self._takes_any_target else encode_labels
            return encode(y, self.classes)
        if self.classes is None:
            raise ValueError(
                "classes=None and y=None: a plan needs the labels; declare `classes`, "
                "or pass y."
            )
        return Labels.unseen(self.classes, n_rows)

    def _planned(self, public):
        method, prepared, plan = super()._planned(public)
        declared = public.classes_source == "declared" and not public.has_target
        numbers = declared and public.classes.dtype.kind in "iu"
        if numbers and not (plan.counts_labels or are_codes(public.classes)):
            warn_caller(
                f"classes={public.classes.tolist()!r} are not 0, ..., k-1, and no "
                f"release of this fit would show that y is coded so. {RECODED}",
                UtilityWarning,
            )
        return method, prepared, plan

    @without_traps()
    def score(self, X, y, sample_weight=None):
        """Return the accuracy on X, y; not private.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels in any spelling of the declared ones. Rows with another label, or
            with none, are left out, with a warning that counts them.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float

        Raises
        ------
        ValueError
            If no row has a label of `classes_`.
        """
        guesses = self.predict(X)
        y = shaped_target(y, len(guesses))
        labels = encode_any(y, self.classes_)
        kept = np.ones(len(y), bool) if labels.missing is None else ~labels.missing
        if not kept.any():
            raise ValueError(
                f"y has no label of classes_={self.classes_.tolist()!r}: score needs "
                "rows with one."
            )
        if not kept.all():
            warn_caller(
                f"of {len(y)} rows {(~kept).sum()} have no label of classes_="
                f"{self.classes_.tolist()!r}: they are left out of the score.",
                UtilityWarning,
            )
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)[kept]
        right = guesses[kept] == self.classes_[labels.codes[kept]]
        return float(np.average(right, weights=sample_weight))

    def decision_function(self, X):
        """Return the margins of the model on ``row_map_(X)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._margins(X)

    def predict(self, X):
        """Return the most likely label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return self.classes_[(margins > 0).astype(np.intp)]
        return self.classes_[margins.argmax(axis=1)]

    @available_if(_has_probabilities)
    @without_traps()
    def predict_proba(self, X):
        """Return the probability of each class; only for ``loss="log_loss"``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            positive = expit(margins)
            # The difference is 0 from a margin of 37 on; the probability is not.
            negative = np.where(positive < 1, 1 - positive, expit(-margins))
            return np.column_stack([negative, positive])
        return softmax(margins, axis=1)

    @available_if(_has_probabilities)
    @without_traps()
    def predict_log_proba(self, X):
        """Return the logarithm of each probability; only for ``loss="log_loss"``.

        It is computed from the margins, and stays finite where a probability is too
        small for a float.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        logs : ndarray of shape (n_samples, n_classes)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return np.column_stack([log_expit(-margins), log_expit(margins)])
        return log_softmax(margins, axis=1)
