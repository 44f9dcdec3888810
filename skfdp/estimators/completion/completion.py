"""Any classifier on public records completed by draws from a private statistic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.utils.metaestimators import available_if

from skfdp.addresses import public
from skfdp.estimators import defaults
from skfdp.estimators.base import PrivateEstimator
from skfdp.estimators.classifier import PrivateClassifier
from skfdp.estimators.completion.method import Completed, Completion
from skfdp.estimators.parameters import store, warn_of_no_bounds, warn_of_unscaled
from skfdp.privacy.relations import Relation
from skfdp.records.checks import check_choice, check_number, check_size, shown
from skfdp.records.guards import without_traps
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap, resolve_bounds


def _delegated(name: str):
    """Return whether the inner estimator has a method."""

    def has(self) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return has


@public("skfdp")
class PrivateCompletionClassifier(
    MetaEstimatorMixin, PrivateClassifier, PrivateEstimator
):
    r"""Classifier trained on public records completed by private statistics.

    The sums of the private columns over each class are released once, with noise. They
    say how the private columns are distributed given the class. Each record's public
    columns and target are then completed by *drawn* private columns, and any
    scikit-learn classifier is trained on the completed records, as long as it likes:
    it never sees a private value.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier or Pipeline; cloned. It is given an array with the
        columns of X in their order, those with `bounds` scaled to [0, 1].
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: no privacy; the estimator is
        trained on the records themselves.
    public_features : None, "all", names, indices, mask, slice or callable, default=None
        The public columns, as in `FeatureDPLogisticRegression`; at least one must stay
        private. The target is always public here.
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns: ``(low, high)`` of scalars or arrays, or
        a mapping by column. Columns are clipped and scaled to [0, 1]. Only private
        columns with bounds are known to be non-negative, which lowers the noise by a
        factor of sqrt(2) under "replace_one", and can be drawn within their range.
        False: none. None: the same, with a warning.
    feature_bound : float or "auto", default="auto"
        L2 bound of the private columns of a record, after `bounds`, in the released
        sums; longer rows are shortened there. Set it to the norm of a typical record,
        such as the root of the number of one-hot groups. "auto": half the root of the
        number of private columns; the root itself if some have no bounds.
    covariance : {"auto", True, False}, default="auto"
        Whether half of the budget (of its square, in Gaussian terms) releases the
        second moments too, so that drawn columns are correlated within a class, and
        continuous columns have their variance. False: bounded columns are drawn as
        independent zeros and ones. "auto": fewer than 10 classes, or unbounded private
        columns, and at most 512 of them.
    n_draws : int or "auto", default="auto"
        Completions of each record; they are free, and the training set grows
        accordingly.
        "auto": about 10,000 rows, at most 5 draws.
    neighboring_relation : {"replace_one", "replace_special"}, default="replace_one"
        What changes between neighbouring data sets; see :ref:`protected`.
    target_name : str, default=None
        Name of the column that y is, or is computed from, if y is not a Series with
        this name: reports say it, and ledgers compare it.
    names : str, list or dict, default=None
        Names of the columns of X in the table that they come from, if X does not say
        so: one name for all, one for each, or a mapping from column names, patterns or
        positions. What is computed from one column (its categories, a spline) shares
        its name. For reports and ledgers, like `target_name`.
    on_invalid : {"replace", "raise"}, default="replace"
        Malformed private values; see :ref:`malformed`. "replace": a missing or infinite
        number counts as the middle of its declared bounds; a record that has one in a
        column without bounds adds nothing to any release. "raise": the fit is refused,
        which tells of that record.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        Of noise and draws. None: cryptographic. An int: reproducible, **no
        guarantee**. The estimator's own `random_state` is left as it is.

    Attributes
    ----------
    estimator_ : classifier
        Trained on completed records.
    classes_ : ndarray of shape (n_classes,)
    class_means_ : ndarray of shape (n_classes, n_private)
        Released means of the scaled private columns, denoised; absent at
        ``epsilon=inf``.
    row_map_ : RowMap
        The bounds; the same function in `fit` and `predict`.
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private columns of a record under `neighboring_relation`, if `random_state`
    is None:

    * neighbours share the target and the public columns, hence the number of records
      of each class;
    * a scaled private row p is shortened to norm 1 (in units of `feature_bound`). A
      replaced one moves its class's sum by ``|p - p'|``: at most sqrt(2) where declared
      bounds make p non-negative, else at most 2; a nulled one by at most 1;
    * it moves the sum of ``p p'`` by at most sqrt(2), whatever the signs;
    * both sums are released at most once, in exact integers, as one composition;
    * everything after that is computed from the releases, the public columns and the
      target, with coins of its own.

    `predict` reads the private columns of the record that it is asked about. A
    prediction reveals about *that* record what follows from its columns; the records
    of `fit` are protected.

    The model of the private columns is crude: they depend on the public ones through
    the class alone. Where that is wrong, more budget does not help.

    References
    ----------
    The draws are a Gaussian copula with clipped margins (a Tobit model, Tobin 1958),
    its parameters shrunk by the known noise.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skfdp import PrivateCompletionClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PrivateCompletionClassifier(
    ...     RandomForestClassifier(random_state=0),
    ...     epsilon=1.0,
    ...     public_features=slice(0, 32),
    ...     bounds=(0, 16),
    ...     random_state=0,
    ... )
    >>> bool(model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.8)
    True
    """

    public_target = True
    _fixed = {"classes": None, "public_target": True}

    def __init__(
        self,
        estimator,
        epsilon=1.0,
        delta=1e-5,
        *,
        public_features=None,
        bounds=None,
        feature_bound="auto",
        covariance="auto",
        n_draws="auto",
        neighboring_relation="replace_one",
        target_name=None,
        names=None,
        on_invalid="replace",
        ledger=None,
        random_state=None,
    ):
        store(self, locals())

    @property
    def _released(self) -> tuple[str, ...]:
        return ("estimator_",) + ("class_means_",) * math.isfinite(self.epsilon)

    def _check_parameters(self) -> None:
        relation = Relation.of(self.neighboring_relation)
        if not relation.counts_are_public:
            raise ValueError(
                f"neighboring_relation={relation.name!r} adds whole records, but the "
                "target is public here: use 'replace_one' or 'replace_special'."
            )
        super()._check_parameters()
        check_size("feature_bound", self.feature_bound, also=("auto",))
        check_choice("covariance", self.covariance, ("auto", True, False))
        check_number("n_draws", self.n_draws, integral=True, also=("auto",))
        instance = hasattr(self.estimator, "fit") and not isinstance(
            self.estimator, type
        )
        if not instance or not is_classifier(self.estimator):
            raise TypeError(
                f"estimator={shown(self.estimator)} must be a scikit-learn classifier: "
                "pass an instance, not a class, a name or a regressor."
            )

    def _check_split(self, mask: np.ndarray) -> None:
        if mask.all() and math.isfinite(self.epsilon):
            raise ValueError(
                f"public_features={shown(self.public_features)} names every column, "
                "and the target is public: there is nothing to protect; fit the "
                "estimator itself. For a private target use "
                "FeatureDPLogisticRegression."
            )

    @property
    def _needs_whole_table(self) -> bool:
        return True  # `estimator` takes all rows at once

    def _row_map(
        self, n_features: int, names, mask: np.ndarray, sparse: bool, table
    ) -> RowMap:
        low, span = resolve_bounds(self.bounds, n_features, names)
        if self.bounds is None:
            warn_of_no_bounds(mask)
        warn_of_unscaled(span, mask, names)
        return RowMap(low, span, feature_bound=math.inf)

    def _bound(self, public: PublicRecords) -> float:
        """Return the L2 bound of the private columns of a row."""
        if self.feature_bound != "auto":
            return float(self.feature_bound)
        bounded = bool(public.bounded[~public.mask].all())
        return float(defaults.completion_bound(max(1, public.n_private), bounded))

    def _method(self, public: PublicRecords) -> Completion:
        n = public.n_records
        return Completion(
            estimator=self.estimator,
            feature_bound=self._bound(public),
            covariance=self.covariance,
            n_draws=defaults.n_draws(n) if self.n_draws == "auto" else self.n_draws,
        )

    def _without_privacy(self, records: Records) -> Completed:
        rows = records.row_map.scale(records.X)
        return Completed(clone(self.estimator).fit(rows, records.public.labels))

    def _attributes(self, public: PublicRecords, found: Completed) -> dict[str, Any]:
        attributes = {"classes_": public.classes, "row_map_": public.row_map}
        if found.class_means is not None:
            attributes["class_means_"] = found.class_means
        return attributes | {"estimator_": found.estimator}

    def _rows(self, X) -> np.ndarray:
        X = self._rows_to_predict(X)  # before row_map_, which an unfitted one lacks
        return self.row_map_.scale(X)

    @without_traps()
    def predict(self, X):
        """Return the inner estimator's label of each row, private columns included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        rows = self._rows(X)  # before estimator_, which an unfitted one lacks
        return self.estimator_.predict(rows)

    @available_if(_delegated("predict_proba"))
    @without_traps()
    def predict_proba(self, X):
        """Return the inner estimator's probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        rows = self._rows(X)  # before estimator_, which an unfitted one lacks
        return self.estimator_.predict_proba(rows)

    @available_if(_delegated("predict_proba"))
    @without_traps()
    def predict_log_proba(self, X):
        """Return the inner estimator's logarithm of each probability.

        Its own `predict_log_proba` if it has one, else the logarithm of its
        `predict_proba`, which is ``-inf`` where that is 0.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        logs : ndarray of shape (n_samples, n_classes)
        """
        rows = self._rows(X)  # before estimator_, which an unfitted one lacks
        if hasattr(self.estimator_, "predict_log_proba"):
            return self.estimator_.predict_log_proba(rows)
        return np.log(self.estimator_.predict_proba(rows))

    @available_if(_delegated("decision_function"))
    @without_traps()
    def decision_function(self, X):
        """Return the inner estimator's decision function.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        rows = self._rows(X)  # before estimator_, which an unfitted one lacks
        return self.estimator_.decision_function(rows)
