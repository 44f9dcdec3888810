"""The common part of classifiers: labels as codes, and the most likely label."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from skfdp.records.guards import without_traps
from skfdp.records.labels import (
    Labels,
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
            encode = encode_any if self._takes_any_target else encode_labels
            return encode(y, self.classes)
        if self.classes is None:
            raise ValueError(
                "classes=None and y=None: a plan needs the labels; declare `classes`, "
                "or pass y."
            )
        return Labels.unseen(self.classes, n_rows)

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
