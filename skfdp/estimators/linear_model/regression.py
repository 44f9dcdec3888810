"""The common part of linear regressors: target bounds, alpha, and predictions."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from skfdp.estimators.arrays import numeric_target, shaped_target
from skfdp.estimators.linear_model.descent import Descent
from skfdp.estimators.linear_model.fitted import LinearFit
from skfdp.estimators.linear_model.linear import LinearModel
from skfdp.estimators.linear_model.scales import (
    TargetScales,
    warn_of_huber_threshold,
)
from skfdp.estimators.optimum import optimum
from skfdp.estimators.parameters import ASSUMPTIONS, linear_loop
from skfdp.privacy.assumptions import TARGET_CLIPPED, Assumption, enforced
from skfdp.queries.losses import REGRESSION_LOSSES, Loss, huber
from skfdp.records.checks import check_choice, check_number, check_size
from skfdp.records.guards import UtilityWarning, warn_caller, without_traps
from skfdp.records.records import PublicRecords, Records
from skfdp.records.target import (
    TargetMap,
    check_target,
    check_target_bounds,
    check_unbounded,
)

# Margins of a log link beyond this overflow float64.
_LARGEST_MARGIN = 700.0


class LinearRegressor(RegressorMixin, LinearModel):
    """The regressors' part: a target in public bounds, scaled by released numbers.

    A few numbers are released before the loop, in one event: the target's mean, its
    mean absolute deviation (not with a log link) and the mean length of the centred
    rows. They give the loop rows and targets of size 1, whatever the declared bounds.
    """

    _released = ("coef_", "intercept_", "n_iter_", "target_map_")
    # Targets are cut at a few standard deviations, and what is cut so far out needs
    # that much more noise.
    _noise_factor = 3.0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        # scikit-learn's R2 of 0.5 on 200 records is out of reach at a small budget.
        tags.regressor_tags.poor_score = math.isfinite(self.epsilon)
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, include_low=True, also=("auto",))
        check_choice("loss", self.loss, tuple(REGRESSION_LOSSES))
        check_size("huber_threshold", self.huber_threshold, also=("auto",))
        check_target_bounds(self.target_bounds, self.loss, self._needs_bounds)
        if self.loss == "huber" and math.isfinite(self.epsilon):
            warn_of_huber_threshold(self.huber_threshold, self.target_bounds)

    @property
    def _needs_bounds(self) -> bool:
        return math.isfinite(self.epsilon) and not self.public_target

    def _checked(self, X, y, planning: bool, **how: bool):
        return super()._checked(X, numeric_target(y), planning, **how)

    def _target(
        self, y: np.ndarray | None, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray | None, dict]:
        bounds = None if math.isinf(self.epsilon) else self.target_bounds
        low, high = check_target_bounds(bounds, self.loss, self._needs_bounds)
        y = np.zeros(n_rows) if y is None else y
        y = check_target(y, self.loss, bounds is not None, not self._takes_any_target)
        missing = ~np.isfinite(y)
        if missing.any():
            y = np.where(missing, np.clip(0.0, low, high), y)
        if math.isinf(high):
            check_unbounded(y)
        target_map = TargetMap(log=self.loss == "poisson", low=low, high=high)
        return y, missing if missing.any() else None, {"target_map": target_map}

    def _loss(self) -> Loss:
        # What the threshold is in the loop is not known before the target's scale is
        # released.
        return huber(math.inf) if self.loss == "huber" else REGRESSION_LOSSES[self.loss]

    def _scales(self, auto: float | None = None) -> TargetScales:
        alpha = auto if self.alpha == "auto" else self.alpha
        return TargetScales(bool(self.fit_intercept), self.huber_threshold, alpha)

    def _descent(self, public: PublicRecords) -> Descent:
        return Descent(
            loss=self._loss(),
            loop=linear_loop(self._given(), public.n_records),
            centring=self._centring(),
            scales=self._scales(),
            public_model=self._given().get("public_model"),
            n_jobs=self._n_threads(),
        )

    def _without_privacy(self, records: Records) -> LinearFit:
        scales = self._scales(auto=1.0)
        found = scales.exactly(records)
        records, loss = scales.scaled(records, found, self._loss())
        fit = optimum(
            records.X,
            records.target,
            loss,
            records.public.n_outputs,
            penalty=scales.penalty(found, records.total_weight),
            shares=records.public.shares,
            fit_intercept=self.fit_intercept,
        )
        return LinearFit(*fit, target_map=found)

    def _attributes(self, public: PublicRecords, found: LinearFit) -> dict[str, Any]:
        units, model, noise = found.target_map, found.public_model, found.noise
        coef, intercept = units.coefficients(found.coef, found.intercept)
        if model is not None:
            intercept = intercept - units.offset()
        if noise is not None and not units.log:
            noise = noise.scaled(units.scale)
        found = dataclasses.replace(found, coef=coef, intercept=intercept, noise=noise)
        whole = self._whole(public, found)
        own = dataclasses.replace(
            whole, coef=whole.coef[0], intercept=whole.intercept[0]
        )
        attributes = {**super()._attributes(public, own), "target_map_": units}
        if model is not None:
            attributes["public_model_"] = model
        return attributes

    def _offset(self, rows: np.ndarray) -> np.ndarray | float:
        model = getattr(self, "public_model_", None)
        if model is None or model.linear is not None:
            return 0.0
        public = self.row_map_.public
        return model.margins(rows if public is None else rows[:, public])

    @property
    def _assumptions(self) -> tuple[Assumption, ...]:
        if self.target_bounds is None or math.isinf(self.epsilon):
            return ASSUMPTIONS
        low, high = self.target_bounds
        return (
            *ASSUMPTIONS,
            Assumption(
                f"target_bounds=({float(low):g}, {float(high):g}) were chosen without "
                "looking at private targets.",
                enforced=False,
            ),
            enforced(TARGET_CLIPPED),
        )

    @without_traps()
    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination on X, y; not private.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers, or text that spells them. Rows without a number are left out, with
            a warning that counts them.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float

        Raises
        ------
        ValueError
            If no row has a number.
        """
        guesses = self.predict(X)
        y = shaped_target(numeric_target(y), len(guesses))
        y = check_target(y, "squared_error", True, finite=False)
        kept = np.isfinite(y)
        if not kept.any():
            raise ValueError("y has no number: score needs rows with one.")
        if not kept.all():
            warn_caller(
                f"of {len(y)} rows {(~kept).sum()} have no number as their target: "
                "they are left out of the score.",
                UtilityWarning,
            )
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)[kept]
        return r2_score(y[kept], guesses[kept], sample_weight=sample_weight)

    @without_traps()
    def predict(self, X):
        """Return the expected target of each row, in the target's units.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
            ``row_map_(X) @ coef_ + intercept_``, or its exponential for the Poisson
            loss, kept within `target_bounds`.
        """
        margins = self._margins(X)
        if self.target_map_.log:
            margins = np.exp(np.minimum(margins, _LARGEST_MARGIN))
        return np.clip(margins, self.target_map_.low, self.target_map_.high)
