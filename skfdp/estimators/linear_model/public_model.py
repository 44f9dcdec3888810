"""A model of the public part: the offset that private descent starts from."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from skfdp.records.checks import shown
from skfdp.records.records import PublicRecords
from skfdp.records.units import Units

#: Log-probabilities below this one are raised to it: a public model may be certain,
#: and wrong.
FLOOR = -12.0
N_FOLDS = 5
NOT_FITTED = (
    "public_model is not fitted, and cannot be fitted on a private target: fit it on "
    "other data, or set public_target=True if the target is public."
)
# Inverse penalty of the default model on standardised columns.
_C = 0.1


@dataclasses.dataclass(frozen=True)
class PublicModel:
    """Margins as a function of the public columns, and nothing else.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Those of the private model.
    estimator : classifier or None
        Fitted on the public columns of ``row_map(X)``; None: the class frequencies.
    linear : (ndarray of shape (n_outputs, n_public), ndarray of shape (n_outputs,))
        The same margins as weights and intercept, None where they are not linear.
    prefitted : bool
        Whether the margins of the training rows need no cross-validation.
    """

    classes: np.ndarray
    estimator: Any
    linear: tuple[np.ndarray, np.ndarray] | None
    prefitted: bool = False

    def margins(self, rows: np.ndarray) -> np.ndarray:
        """Return margins of shape (n_rows, n_outputs), zero on average over classes.

        Parameters
        ----------
        rows : float64 ndarray of shape (n_rows, n_public)
            Public columns of ``row_map(X)``.
        """
        if self.linear is not None:
            coef, intercept = self.linear
            return rows @ coef.T + intercept
        found = self.estimator.predict_proba(named(self.estimator, rows))
        return self._margins_of(found)

    def training_margins(
        self, rows: np.ndarray, labels: np.ndarray | None, units: Units | None = None
    ) -> np.ndarray:
        """Return margins of rows that the estimator was fitted on, out of fold.

        A model is too sure of its own training rows, and would leave nothing to learn
        from the private columns; a linear one too where it has as many weights as
        there are rows. Public data alone: cross-validation is free.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_public)
        labels : int64 ndarray of shape (n_rows,) or None
            None where the target is private; the model was fitted elsewhere then.
        units : Units, default=None
            The weights of the rows, and whose they are: no fold has some of the rows of
            a person, and not the others.
        """
        if self.prefitted or labels is None or np.bincount(labels).max() < N_FOLDS:
            return self.margins(rows)
        folds = folds_of(units, N_FOLDS)
        if folds is None:
            return self.margins(rows)
        # Such imports are a tenth of the first fit of an estimator that needs none.
        from sklearn.model_selection import cross_val_predict

        weights = weights_of(self.estimator, units)
        with warnings.catch_warnings(), passed(weights):
            warnings.simplefilter("ignore", RuntimeWarning)  # of folds without a class
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = cross_val_predict(
                clone(self.estimator),
                rows,
                self.classes[labels],
                cv=folds,
                method="predict_proba",
                params=weights,
            )
        return self._margins_of(found)

    def _margins_of(self, found: np.ndarray) -> np.ndarray:
        probability = np.zeros((len(found), len(self.classes)))
        places = np.searchsorted(self.classes, self.estimator.classes_)
        probability[:, places] = found
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(probability), FLOOR)
        if len(self.classes) == 2:
            return logs[:, 1:] - logs[:, :1]
        return logs - logs.mean(axis=1, keepdims=True)

    def add_to(
        self, coef: np.ndarray, intercept: np.ndarray, public: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (coef, intercept) of both models; unchanged where it is not linear."""
        if self.linear is None:
            return coef, intercept
        coef = coef.copy()
        coef[:, public] += self.linear[0]
        return coef, intercept + self.linear[1]


def weights_of(estimator: Any, units: Units | None) -> dict[str, np.ndarray]:
    """Return the arguments of `fit` that weigh the rows, where an estimator takes them.

    Those of a Pipeline are those of its steps; without a weight for any step, or with
    an estimator that knows none, rows count alike.
    """
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if units is None:
        return {}
    steps = [("", estimator)]
    if isinstance(estimator, Pipeline):
        steps = [(f"{name}__", step) for name, step in estimator.steps]
    name = "sample_weight"
    return {
        prefix + name: units.shares
        for prefix, step in steps
        if hasattr(step, "fit") and has_fit_parameter(step, name)
    }


def passed(arguments: dict) -> contextlib.AbstractContextManager:
    """Return a context in which arguments reach the steps that they name.

    Where users have turned on the routing of metadata, steps would have to ask first.
    """
    if not arguments:
        return contextlib.nullcontext()
    return config_context(enable_metadata_routing=False)


def folds_of(units: Units | None, n_folds: int, splitter: Any = None) -> Any:
    """Return what splits rows into folds, None where there are too few persons.

    Parameters
    ----------
    units : Units or None
        With persons: their rows stay together.
    n_folds : int
    splitter : splitter of scikit-learn, default=None
        Without persons; None: that of scikit-learn for `n_folds`.
    """
    from sklearn.model_selection import KFold

    if units is None or units.persons is None:
        return n_folds if splitter is None else splitter
    if units.n_units < n_folds:
        return None
    folds = KFold(n_folds, shuffle=True, random_state=0)
    persons = np.zeros(units.n_units)
    return [
        tuple(np.flatnonzero(np.isin(units.persons, part)) for part in parts)
        for parts in folds.split(persons)
    ]


def is_fitted(estimator: Any) -> bool:
    """Return whether scikit-learn calls an estimator fitted."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def resolve_public_model(spec: Any, public: PublicRecords) -> PublicModel:
    """Return the fitted public model.

    Parameters
    ----------
    spec : "auto" or classifier
        "auto": logistic regression on standardised columns. A classifier that is not
        fitted yet is cloned and fitted on the public columns and the public target.
    public : PublicRecords
    """
    classes, codes = public.classes, public.target
    if isinstance(spec, str):
        counts = np.bincount(codes, public.shares, minlength=len(classes))
        if not public.mask.any() or (counts == 0).any():
            return _frequencies(classes, counts, int(public.mask.sum()))
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler(with_mean=not public.sparse)
        spec = make_pipeline(scaler, LogisticRegression(C=_C, max_iter=1000))
    prefitted = is_fitted(spec)
    if not prefitted:
        if not public.has_target:
            raise ValueError(NOT_FITTED)
        weights = weights_of(spec, public.units)
        with passed(weights):
            spec = clone(spec).fit(public.rows(), classes[codes], **weights)
    unknown = set(spec.classes_.tolist()) - set(classes.tolist())
    if unknown:
        raise ValueError(
            f"public_model knows the labels {sorted(unknown)!r}, which are not in "
            f"`classes`={classes.tolist()!r}: fit it on the same labels."
        )
    check_width(spec, public)
    return PublicModel(classes, spec, _linear(spec, classes), prefitted)


def check_width(spec: Any, public: PublicRecords) -> None:
    """Refuse a fitted model of other columns than the public ones."""
    n_public = int(public.mask.sum())
    if public.encoding is not None:  # it sees encoded columns as the table has them
        n_public = public.encoding.encoded.shape[1]
    known = getattr(spec, "n_features_in_", n_public)
    if known != n_public:
        raise ValueError(
            f"public_model was fitted on {known} column(s), but {n_public} are public: "
            "fit it on the public columns of row_map_(X) alone, in their order."
        )


def check_public_model(spec: Any, public_target: bool) -> None:
    """Refuse what cannot be a public model."""
    if spec is None or (isinstance(spec, str) and spec == "auto"):
        return
    usable = hasattr(spec, "fit") and is_classifier(spec)
    if not usable or not hasattr(spec, "predict_proba"):
        raise ValueError(
            f"public_model={shown(spec)} must be 'auto', None or a classifier with "
            "predict_proba."
        )
    if not public_target and not is_fitted(spec):
        raise ValueError(NOT_FITTED)


def _frequencies(classes: np.ndarray, counts: np.ndarray, width: int) -> PublicModel:
    logs = np.log((counts + 1) / (counts.sum() + len(counts)))
    intercept = logs[1:] - logs[:1] if len(classes) == 2 else logs - logs.mean()
    linear = np.zeros((len(intercept), width)), intercept
    return PublicModel(classes, None, linear, prefitted=True)


def _linear(
    estimator: Any, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return weights and intercept of a logistic regression, scaled or not."""
    from sklearn.linear_model import LogisticRegression

    found = linear_weights(estimator, (LogisticRegression,))
    if found is None or len(estimator.classes_) != len(classes):
        return None
    return found


def linear_weights(
    estimator: Any, kinds: tuple[type, ...]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return weights and intercept of a fitted linear model, scaled or not.

    Parameters
    ----------
    estimator : estimator
    kinds : tuple of classes
        Whose `coef_` and `intercept_` are the margins.

    Returns
    -------
    found : (ndarray of shape (n_outputs, n_columns), ndarray of shape (n_outputs,))
        None for another model, or a pipeline of anything but a scaler and such a model.
    """
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    steps = [estimator]
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps]
    model, scalers = steps[-1], steps[:-1]
    plain = isinstance(model, kinds) and len(scalers) <= 1
    if not plain or not all(isinstance(step, StandardScaler) for step in scalers):
        return None
    coef = np.atleast_2d(model.coef_)
    intercept = np.broadcast_to(model.intercept_, len(coef))
    for scaler in scalers:
        if scaler.scale_ is not None:
            coef = coef / scaler.scale_
        if scaler.with_mean:
            intercept = intercept - coef @ scaler.mean_
    return coef, np.array(intercept)


def named(estimator: Any, rows: np.ndarray) -> Any:
    """Return rows under the column names that a fitted estimator expects."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas as pd  # the estimator was fitted on a frame

    return pd.DataFrame(rows, columns=names)
