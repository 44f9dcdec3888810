"""A regression on the public part: the offset that a private regression starts from."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning

from skfdp.estimators.linear_model.public_model import (
    FLOOR,
    N_FOLDS,
    NOT_FITTED,
    check_width,
    folds_of,
    is_fitted,
    linear_weights,
    named,
    passed,
    weights_of,
)
from skfdp.records.checks import shown
from skfdp.records.records import PublicRecords
from skfdp.records.target import TargetMap
from skfdp.records.units import Units

# Penalties of the default model on standardised columns, compared by leaving one out.
_ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0)
# That of the default model of counts, a share of one record.
_ALPHA_OF_COUNTS = 10.0


@dataclasses.dataclass(frozen=True)
class PublicRegression:
    """Margins as a function of the public columns, and nothing else.

    Attributes
    ----------
    target_map : TargetMap
        The link and the declared bounds of the target. Margins are predictions, or
        their logarithms, in the units of the target.
    estimator : regressor or None
        Fitted on the public columns of ``row_map(X)``; None: the mean.
    linear : (ndarray of shape (1, n_public), ndarray of shape (1,)) or None
        The same margins as weights and intercept, None where they are not linear.
    prefitted : bool
        Whether the margins of the training rows need no cross-validation.
    """

    target_map: TargetMap
    estimator: Any
    linear: tuple[np.ndarray, np.ndarray] | None
    prefitted: bool = False

    def margins(self, rows: np.ndarray) -> np.ndarray:
        """Return margins of shape (n_rows, 1).

        Parameters
        ----------
        rows : float64 ndarray of shape (n_rows, n_public)
            Public columns of ``row_map(X)``.
        """
        if self.linear is not None:
            coef, intercept = self.linear
            return rows @ coef.T + intercept
        return self._margins_of(self.estimator.predict(named(self.estimator, rows)))

    def training_margins(
        self, rows: np.ndarray, target: np.ndarray | None, units: Units | None = None
    ) -> np.ndarray:
        """Return margins of rows that the estimator was fitted on, out of fold.

        What a model leaves of its own training targets is too little, and the scale of
        the target is taken from it. Public data alone: cross-validation is free.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_public)
        target : float64 ndarray of shape (n_rows,) or None
            None where the target is private; the model was fitted elsewhere then.
        units : Units, default=None
            The weights of the rows, and whose they are: no fold has some of the rows of
            a person, and not the others.
        """
        if self.prefitted or target is None or len(target) < 2 * N_FOLDS:
            return self.margins(rows)
        # Such imports are a tenth of the first fit of an estimator that needs none.
        from sklearn.model_selection import KFold, cross_val_predict

        # Rows may come in the order of their targets.
        folds = folds_of(units, N_FOLDS, KFold(N_FOLDS, shuffle=True, random_state=0))
        if folds is None:
            return self.margins(rows)
        y = np.clip(target, self.target_map.low, self.target_map.high)
        weights = weights_of(self.estimator, units)
        with warnings.catch_warnings(), passed(weights):
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = cross_val_predict(
                clone(self.estimator),
                rows,
                y,
                cv=folds,
                params=weights,
            )
        return self._margins_of(found)

    def _margins_of(self, found: np.ndarray) -> np.ndarray:
        found = np.asarray(found, dtype=np.float64).reshape(-1, 1)
        if self.target_map.log:
            return np.log(np.maximum(found, math.exp(FLOOR)))
        return found

    def add_to(
        self, coef: np.ndarray, intercept: np.ndarray, public: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (coef, intercept) of both models; unchanged where it is not linear."""
        if self.linear is None:
            return coef, intercept
        coef = coef.copy()
        coef[:, public] += self.linear[0]
        return coef, intercept + self.linear[1]


def resolve_public_regression(spec: Any, public: PublicRecords) -> PublicRegression:
    """Return the fitted public model of a regression.

    Parameters
    ----------
    spec : "auto" or regressor
        "auto": ridge regression on standardised columns, its penalty chosen by leaving
        one out, or `PoissonRegressor` for a log link; the mean where no column is
        public. A regressor that is not fitted yet is cloned and fitted on the public
        columns and the public target, within its bounds.
    public : PublicRecords
    """
    units, y = public.target_map, public.target
    if y is not None:
        y = np.clip(y, units.low, units.high)
    automatic = isinstance(spec, str)
    if automatic and (not public.mask.any() or (units.log and not y.any())):
        mean = float(np.average(y, weights=public.shares))
        return _constant(units, mean, int(public.mask.sum()))
    if automatic:
        spec = _default(public)
    prefitted = is_fitted(spec)
    if not prefitted:
        if y is None:
            raise ValueError(NOT_FITTED)
        weights = weights_of(spec, public.units)
        with passed(weights):
            spec = clone(spec).fit(public.rows(), y, **weights)
    check_width(spec, public)
    return PublicRegression(units, spec, _linear(spec, units.log), prefitted)


def check_public_regression(spec: Any, public_target: bool) -> None:
    """Refuse what cannot be a public model of a regression."""
    if spec is None or (isinstance(spec, str) and spec == "auto"):
        return
    if not (hasattr(spec, "fit") and is_regressor(spec)):
        raise ValueError(
            f"public_model={shown(spec)} must be 'auto', None or a regressor."
        )
    if not public_target and not is_fitted(spec):
        raise ValueError(NOT_FITTED)


def _default(public: PublicRecords) -> Any:
    from sklearn.linear_model import PoissonRegressor, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if public.target_map.log:
        strength = _ALPHA_OF_COUNTS / public.n_records
        model = PoissonRegressor(alpha=strength, max_iter=1000)
    else:
        model = RidgeCV(alphas=_ALPHAS)
    return make_pipeline(StandardScaler(with_mean=not public.sparse), model)


def _constant(units: TargetMap, mean: float, width: int) -> PublicRegression:
    if units.log:
        mean = math.log(max(mean, math.exp(FLOOR)))
    linear = np.zeros((1, width)), np.array([mean])
    return PublicRegression(units, None, linear, prefitted=True)


def _linear(estimator: Any, log: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Return weights and intercept of the margins, where they are linear."""
    from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge, RidgeCV

    linear = (PoissonRegressor,) if log else (LinearRegression, Ridge, RidgeCV)
    return linear_weights(estimator, linear)
