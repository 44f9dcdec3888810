"""The result of the methods of linear models."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.estimators.linear_model.coefficient_noise import CoefficientNoise
from skfdp.estimators.linear_model.public_model import PublicModel
from skfdp.estimators.linear_model.public_regression import PublicRegression
from skfdp.records.row_map import RowMap
from skfdp.records.target import TargetMap

#: A stronger penalty, per record, changes nothing any more: every weight is zero.
STRONGEST = 1e30


@dataclasses.dataclass(frozen=True)
class LinearFit:
    """A linear model on mapped rows, beside a public model if there is one.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_features)
    intercept : ndarray of shape (n_outputs,)
    n_iter : int
    public_model : PublicModel, PublicRegression or None
        Not within the weights yet.
    target_map : TargetMap or None
        The units of the margins, of regressors.
    noise : CoefficientNoise or None
        Of `coef` and `intercept`; None: nothing is known, or the fit is on its way.
    row_map : RowMap or None
        The map of the rows, where its bounds were released; None: it was known before.
    """

    coef: np.ndarray
    intercept: np.ndarray
    n_iter: int
    public_model: PublicModel | PublicRegression | None = None
    target_map: TargetMap | None = None
    noise: CoefficientNoise | None = None
    row_map: RowMap | None = None

    def whole(self, public: np.ndarray) -> LinearFit:
        """Return the fit with the public model within the weights, if it is linear.

        Parameters
        ----------
        public : bool ndarray of shape (n_features,)
            The public columns of `coef`.
        """
        if self.public_model is None:
            return self
        coef, intercept = self.public_model.add_to(self.coef, self.intercept, public)
        return dataclasses.replace(self, coef=coef, intercept=intercept)
