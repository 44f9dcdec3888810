"""The common part of linear estimators: margins of mapped rows, and the optimum."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skfdp.encoding.encoded import EncodedTable
from skfdp.estimators.base import PrivateEstimator
from skfdp.estimators.callbacks import with_callbacks
from skfdp.estimators.classifier import PrivateClassifier
from skfdp.estimators.linear_model import coefficients
from skfdp.estimators.linear_model.centring import Centring
from skfdp.estimators.linear_model.fitted import STRONGEST, LinearFit
from skfdp.estimators.optimum import optimum
from skfdp.estimators.parameters import Loop
from skfdp.estimators.units import RowsOfUnits, noise_of_sums
from skfdp.privacy import gdp_mu
from skfdp.privacy.fit_plan import FitPlan
from skfdp.privacy.relations import Relation
from skfdp.queries.losses import LOSSES
from skfdp.records.blocks import row_blocks
from skfdp.records.checks import check_choice, check_flag, check_number, is_auto
from skfdp.records.guards import guarded_fit, without_traps
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.records.units import Units


class LinearModel(PrivateEstimator):
    """The linear estimators' part: parameters, margins, attributes."""

    _released: tuple[str, ...] = ("coef_", "intercept_", "n_iter_")
    _weights = ("coef_", "intercept_")
    _accepts_sparse = True
    _has_loop = True
    _shortens_rows = False
    _may_release_bounds = True
    _takes_partitions = True
    #: Of what smooth coordinates expect of the noise, for residuals of standard
    #: deviation 1: labels' residuals are cut at about that.
    _noise_factor = 1.0
    _normalize_may_be_auto = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = getattr(self, "solver", None) != "one-shot"
        return tags

    @with_callbacks
    @guarded_fit
    def fit(self, X, y=None, sample_weight=None, groups=None, *, checkpoint=None):
        """Fit to X and y within the budget, charging the ledger first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Values outside `bounds` are clipped, silently; malformed private ones do
            what `on_invalid` says. Sparse rows are held as CSR and never filled in;
            `bounds` then need low 0. Tables larger than memory are read in blocks
            (:ref:`large-tables`), and those of Dask where their rows are (:ref:`dask`).
        y : array-like of shape (n_samples,)
            Labels of any type; for regressors numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Public weights of the rows, in any unit: averages are weighted by them.
            Whole numbers up to 1024 are exact, others are rounded to 1/1024 of the
            largest, and rows of weight 0 are left out. Weights are disclosed, so none
            may derive from a private column or a private target, by however many steps:
            the report assumes that, and nothing checks it.
        groups : array-like of shape (n_samples,) or str, default=None
            The person of each row, or the name of the column of a frame X that tells;
            that column is no feature. The private parts of *all rows of one person*
            are then protected together. Which rows belong together is not protected,
            nor how many there are. None: each row is a record of its own.
        checkpoint : str or PathLike, default=None
            File that keeps what is released, so that a fit that was stopped goes on: by
            the same call, for the one charge. Remove it when the model is saved. See
            :ref:`resuming`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters, malformed public values, wrong types and shapes, or the
            checkpoint of another fit; nothing is charged, no datum is quoted.
        PrivacyBudgetError
            If the ledger's ceiling would be passed, or its fit has gone on from a copy
            of the checkpoint; nothing is charged or trained.
        """
        return self._fit(X, y, checkpoint, sample_weight=sample_weight, groups=groups)

    @guarded_fit
    def plan(self, X, y=None, sample_weight=None, groups=None) -> FitPlan:
        """Return what a fit on X, y would release and cost; nothing is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its shape, its column names and its public columns are looked at:
            private values may be missing.
        y : array-like of shape (n_samples,), default=None
            Only looked at if the target is public, or `classes` are not declared. None
            where the target is private; `classes` are required then.
        sample_weight, groups : array-like of shape (n_samples,), default=None
            As for `fit`; both are public.

        Returns
        -------
        plan : FitPlan
            `PrivacyLedger.what_if` takes it.

        Notes
        -----
        **Guarantees.** The plan is a function of what is public: equal, byte for byte,
        for all values of the private columns, of a private target whose `classes` are
        declared, and for any pattern of zeros in the private columns of a sparse X.
        """
        return self._plan(X, y, sample_weight=sample_weight, groups=groups)

    def _rows_of_units(self, sample_weight, groups, n_rows) -> RowsOfUnits | None:
        relation = Relation.of(self.neighboring_relation)
        most = self.max_rows_per_person
        return RowsOfUnits.checked(sample_weight, groups, n_rows, relation, most)

    def _units(
        self, given: RowsOfUnits, n_columns: int, facts: Mapping[str, Any]
    ) -> Units | None:
        relation, n_classes = Relation.of(self.neighboring_relation), 0
        if facts.get("classes") is not None:
            n_classes = len(facts["classes"])
        noise = noise_of_sums(
            self.epsilon,
            self.delta,
            relation,
            n_columns * (1 if n_classes <= 2 else n_classes),
        )
        return given.units(noise)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(
            "max_rows_per_person", self.max_rows_per_person, integral=True, also=(None,)
        )
        Loop.of(self._given()).check()
        check_flag("fit_intercept", self.fit_intercept)
        if not (self._normalize_may_be_auto and is_auto(self.normalize)):
            check_flag("normalize", self.normalize)
        if self.encoder is not None and self._normalizes:
            raise ValueError(
                "normalize=True is not for encoded rows, whose length is bounded "
                "already: leave it out."
            )

    @property
    def _smooths(self) -> bool:
        return math.isfinite(self.epsilon)

    def _in_coordinates(
        self,
        table: EncodedTable,
        n_records: int,
        facts: Mapping[str, Any],
        units: Units | None,
    ) -> EncodedTable:
        """Return an encoded table in smooth coordinates, which public numbers tell."""
        if not self._smooths:
            return table
        relation = Relation.of(self.neighboring_relation)
        mu = gdp_mu(self.epsilon, self.delta) / relation.moves(1.0)
        if units is not None:
            mu = mu / units.reach
        classes = facts.get("classes", ())
        n_outputs = 1 if len(classes) <= 2 else len(classes)
        signal = mu * n_records / self._noise_factor
        return table.smooth(signal, n_records, n_outputs)

    def _centring(self) -> Centring:
        given = self._given()
        return Centring(
            self.centering,
            bool(self.fit_intercept),
            given.get("mean_fraction", "auto"),
            None if self._normalizes else self.feature_bound,
            given.get("clip_quantile"),
            given.get("clip_features", False),
        )

    def _attributes(self, public: PublicRecords, found: LinearFit) -> dict[str, Any]:
        attributes = {
            "coef_": found.coef,
            "intercept_": found.intercept,
            "n_iter_": found.n_iter,
            "row_map_": found.row_map or self._published_map(public),
        }
        noise = found.noise
        if noise is not None and public.encoding is not None:
            encoding = public.encoding
            noise = noise.mapped(encoding.weights, encoding.variances)
        if noise is not None:
            attributes["coef_noise_"] = noise
        return attributes

    def coefficients_table(self) -> dict[str, np.ndarray]:
        """Return the coefficients and what is known of their errors; free.

        A function of what is released and public. ``pandas.DataFrame(table)`` shows it.

        Returns
        -------
        table : dict of str to ndarray of shape (n_rows,)
            One row for each coefficient, the last one "intercept"; of several classes,
            those of one class after the other. Columns:

            * "class": only if there are several outputs;
            * "feature": the name of the column of X;
            * "coef": as in `coef_` and `intercept_`;
            * "noise_std": standard deviation of the noise of the release in "coef", in
              its units: exact, to first order, or an upper bound, as
              ``coef_noise_.kind`` says. 0 without privacy.

            And only where the error from noise *and* from the chance of the labels is
            known, which is for classifiers with every column public that release one
            label statistic, and with enough budget for it:

            * "estimate": the coefficient without the pull of the penalty, from the same
              release. Not with `groups`: labels of one person may depend on each other;
            * "std_error": its standard error, noise and chance together;
            * "z", "p": for the hypothesis that the coefficient is 0, two-sided;
            * "low", "high": the 95 % interval of the coefficient of the linear model
              for all such records. NaN, like the four before, where the columns do not
              determine the coefficient, as in a block of columns that sum to 1.

        Notes
        -----
        "coef" plus or minus two "noise_std" is *not* a confidence interval: it says
        where the coefficient would be without noise, for these records and the same
        penalty, shrinkage and number of steps. These pull coefficients toward 0; and
        other records would have given another one.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from skfdp import FeatureDPLogisticRegression
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> bounds = {"mean radius": (5, 30), "mean texture": (5, 40)}
        >>> model = FeatureDPLogisticRegression(
        ...     epsilon=3.0, public_features="all", bounds=bounds, classes=[0, 1],
        ...     random_state=0,
        ... )
        >>> table = model.fit(X[list(bounds)], y).coefficients_table()
        >>> [str(name) for name in table["feature"]]
        ['mean radius', 'mean texture', 'intercept']
        >>> list(table)[1:3]
        ['coef', 'noise_std']
        """
        check_is_fitted(self)
        coef = np.atleast_2d(self.coef_)
        weights = np.column_stack([coef, np.atleast_1d(self.intercept_)])
        return coefficients.table(
            weights,
            coefficients.names(self, coef.shape[1]),
            getattr(self, "coef_noise_", None),
            getattr(self, "classes_", None),
            is_private=math.isfinite(self.epsilon),
        )

    @staticmethod
    def _whole(public: PublicRecords, found: LinearFit) -> LinearFit:
        """Return a fit on the columns of X, or on encoded ones, with the public model.

        Parameters
        ----------
        public : PublicRecords
        found : LinearFit
            On the columns of the loop, in the units of the public model's margins.
        """
        if public.encoding is None:
            return found.whole(public.mask)
        coef = public.encoding.weights(found.coef)
        found = dataclasses.replace(found, coef=coef)
        return found.whole(public.encoding.public_encoded)

    @staticmethod
    def _published_map(public: PublicRecords) -> RowMap:
        """Return the map of rows of X, or of encoded rows, which are as they should."""
        if public.encoding is None:
            return public.row_map
        shown = public.encoding.public_encoded
        return RowMap(feature_bound=math.inf, public=shown if shown.any() else None)

    def _offset(self, rows: np.ndarray) -> np.ndarray | float:
        """Return margins of ``row_map_(X)`` that `coef_` does not describe."""
        return 0.0

    @without_traps()
    def _margins(self, X) -> np.ndarray:
        """Return ``row_map_(X) @ coef_.T + intercept_`` and what is not linear."""
        X = self._rows_to_predict(X)
        coef = np.atleast_2d(self.coef_)  # regressors publish a vector
        margins = np.empty((X.shape[0], len(coef)))
        for block in row_blocks(X):
            rows = self.row_map_(X[block])
            margins[block] = rows @ coef.T + self.intercept_
            margins[block] += self._offset(rows)
        return margins[:, 0] if margins.shape[1] == 1 else margins


class LinearClassifier(PrivateClassifier, LinearModel):
    """The linear classifiers' part: C, and the attributes of labels."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("C", self.C, also=("auto",))
        check_choice("loss", self.loss, tuple(LOSSES))

    def _penalty(self, total: float, auto: float | None = None) -> float | None:
        """Return s of the penalty ``s / 2 |w|**2`` of a mean loss; None: none.

        Parameters
        ----------
        total : float
            What the losses are multiplied by in a sum: the rows, or their weights.
        auto : float, default=None
            C, where it is "auto".
        """
        C = auto if self.C == "auto" else self.C
        return None if C is None else min(1 / (C * total), STRONGEST)

    def _without_privacy(self, records: Records) -> LinearFit:
        public = records.public
        return LinearFit(
            *optimum(
                records.X,
                records.target,
                LOSSES[self.loss],
                public.n_outputs,
                penalty=self._penalty(records.total_weight, auto=1.0),
                shares=public.shares,
                class_weight=public.class_weight,
                fit_intercept=self.fit_intercept,
            )
        )

    def _attributes(self, public: PublicRecords, found: LinearFit) -> dict[str, Any]:
        whole = self._whole(public, found)
        return {"classes_": public.classes, **super()._attributes(public, whole)}
