"""The noise in released coefficients: what is known of it without the data.

Functions of the plan, of public columns and of released numbers: nothing here costs
privacy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from skfdp.records.coordinates import Coordinates

#: Entries of the covariances that a model keeps, at most: 16 MB.
MOST_ENTRIES = 2_000_000
#: What is known: the law of the noise; the same to first order, given the penalty that
#: was chosen; or a noise that the true one does not exceed.
EXACT, FIRST_ORDER, UPPER_BOUND = "exact", "first order", "upper bound"
# Share of a combination beyond what the columns determine that is rounding.
_UNDETERMINED = 1e-6

#: Returns (coef, intercept) of weights of shape (n_rows, n_columns), linearly.
Fold = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class CoefficientNoise:
    """The covariance of the noise in the weights of a released linear model.

    The rows and columns of a covariance are those of ``[coef, intercept]``, in the
    units of `coef_` and `intercept_`.

    Attributes
    ----------
    covariance : ndarray
        Of shape (n_outputs, n_features + 1, n_features + 1); or, if only variances are
        kept, of shape (n_outputs, n_features + 1).
    kind : {"exact", "first order", "upper bound"}
        "exact": the noise is normal with this covariance, whatever the data. "first
        order": to first order in the noise, for the curvature of public or released
        numbers, given the penalty that was chosen. "upper bound": the noise without
        curvature, which no loss of constant curvature exceeds. The Notes of
        `HeavyBall.noise_left` say what is proved.
    independent : bool
        Whether the noises of two coefficients are independent, so that variances tell
        all of them.
    estimate : ndarray of shape (n_outputs, n_features + 1) or None
        The weights without the pull of the penalty, from the same release. None where
        their error is not known.
    error : ndarray of shape (n_outputs, n_features + 1, n_features + 1) or None
        Covariance of `estimate`: noise and the chance of the labels.
    free : ndarray of shape (n_features, n_directions) or None
        Directions of norm 1 in which the coefficients of `estimate` could move without
        a change of any margin: X does not determine what a combination has of them.
    """

    covariance: np.ndarray
    kind: str
    independent: bool = False
    estimate: np.ndarray | None = None
    error: np.ndarray | None = None
    free: np.ndarray | None = None

    @property
    def std(self) -> np.ndarray:
        """Standard deviations, shape (n_outputs, n_features + 1)."""
        return np.sqrt(_diagonals(self.covariance))

    def std_of(self, combinations: np.ndarray) -> np.ndarray:
        """Return the noise in linear combinations of the coefficients.

        Parameters
        ----------
        combinations : ndarray of shape (n_combinations, n_features)
            Their weights.

        Returns
        -------
        std : ndarray of shape (n_outputs, n_combinations)
            NaN where only the variances of dependent noises are kept.
        """
        n_features = combinations.shape[1]
        if self.covariance.ndim == 3:
            own = self.covariance[:, :n_features, :n_features]
            return np.sqrt(_quadratic(combinations, own))
        if not self.independent:
            return np.full((len(self.covariance), len(combinations)), np.nan)
        return np.sqrt(self.covariance[:, :n_features] @ (combinations**2).T)

    def error_of(self, combinations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the unpenalised combinations, and the error of each.

        Parameters
        ----------
        combinations : ndarray of shape (n_combinations, n_features)

        Returns
        -------
        estimate, std : ndarray of shape (n_outputs, n_combinations)
            NaN where the columns of X do not determine a combination, as they do not
            for one weight of a block whose columns sum to 1.
        """
        shape, n_features = (
            (len(self.covariance), len(combinations)),
            combinations.shape[1],
        )
        if self.estimate is None:
            return np.full(shape, np.nan), np.full(shape, np.nan)
        error = self.error[:, :n_features, :n_features]
        estimate = self.estimate[:, :n_features] @ combinations.T
        std = np.sqrt(_quadratic(combinations, error))
        moved = np.abs(combinations @ self.free).max(axis=1, initial=0.0)
        unknown = moved > _UNDETERMINED * np.linalg.norm(combinations, axis=1)
        estimate[:, unknown] = std[:, unknown] = np.nan
        return estimate, std

    def scaled(self, factor: float) -> CoefficientNoise:
        """Return the noise of a model whose margins are multiplied by a number."""
        changed = {"covariance": self.covariance * factor**2}
        if self.estimate is not None:
            changed |= {
                "estimate": self.estimate * factor,
                "error": self.error * factor**2,
            }
        return dataclasses.replace(self, **changed)

    def mapped(
        self,
        to: Callable[[np.ndarray], np.ndarray],
        of_variances: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> CoefficientNoise:
        """Return the noise of other coefficients, which are linear in these.

        Parameters
        ----------
        to : callable
            Returns coefficients of shape (n_rows, n_others), given some of shape
            (n_rows, n_features).
        of_variances : callable, default=None
            Returns variances of such coefficients, given those of independent ones.
            None: they are computed from the matrix of the map.

        Returns
        -------
        noise : CoefficientNoise
            With covariances where these have few entries, else with variances alone,
            for which no matrix of all coefficients by all coefficients is built.
        """
        own, n_features = self.covariance, self.covariance.shape[1] - 1
        n_others = to(np.zeros((1, n_features))).shape[1]
        small = len(own) * (n_others + 1) ** 2 <= MOST_ENTRIES
        if own.ndim == 2 and not small and of_variances is not None:
            variances = np.column_stack([of_variances(own[:, :-1]), own[:, -1]])
            return CoefficientNoise(variances, self.kind)
        W = to(np.eye(n_features)).T
        J = np.block([[W, np.zeros((len(W), 1))], [np.zeros((1, n_features)), 1.0]])
        if own.ndim == 2:
            own = own[:, None] * np.eye(n_features + 1)
        if not small:
            return CoefficientNoise(_quadratic(J, own), self.kind)
        changed = {"covariance": J @ own @ J.T, "independent": False}
        if self.estimate is not None:
            free = W @ self.free
            size = np.linalg.norm(free, axis=0)
            kept = size > _UNDETERMINED * max(size.max(initial=0.0), 1e-300)
            changed |= {
                "estimate": self.estimate @ J.T,
                "error": J @ self.error @ J.T,
                "free": free[:, kept] / size[kept],
            }
        return dataclasses.replace(self, **changed)

    @classmethod
    def of_independent(
        cls, std: np.ndarray, coordinates: Coordinates, of_mean: np.ndarray
    ) -> CoefficientNoise:
        """Return the noise of a descent, as large as it can be.

        Parameters
        ----------
        std : ndarray of shape (n_outputs, n_columns)
            Of each weight of the loop, independent of one another.
        coordinates : Coordinates
            Of the loop.
        of_mean : ndarray of shape (n_outputs,)
            Standard deviation of what earlier releases add to the intercept.
        """
        n_columns = std.shape[1]
        # fold is linear, and pull its adjoint: what a weight does to each coefficient
        # (one each), and to the intercept.
        ones, none = np.ones((1, len(coordinates.mean))), np.zeros(1)
        to_coef = coordinates.pull(ones, none)[0, : len(coordinates.mean)]
        to_intercept = coordinates.pull(0 * ones, none + 1)[0]
        coef = (std[:, : len(to_coef)] * to_coef) ** 2
        intercept = std**2 @ to_intercept[:n_columns] ** 2 + of_mean**2
        variances = np.column_stack([coef, intercept])
        return cls(variances, UPPER_BOUND, independent=True)

    @classmethod
    def of_weights(
        cls, covariances: np.ndarray, fold: Fold, kind: str
    ) -> CoefficientNoise:
        """Return the noise of weights of known covariance.

        Parameters
        ----------
        covariances : ndarray of shape (n_outputs, n_columns, n_columns)
        fold : callable
            Returns (coef, intercept) of weights of shape (n_rows, n_columns).
        kind : str
        """
        J = matrix_of(fold, covariances.shape[1])
        if len(covariances) * len(J) ** 2 <= MOST_ENTRIES:
            return cls(J @ covariances @ J.T, kind)
        return cls(_quadratic(J, covariances), kind)


def matrix_of(fold: Fold, n_columns: int) -> np.ndarray:
    """Return a fold as a matrix, of shape (n_features + 1, n_columns)."""
    coef, intercept = fold(np.eye(n_columns))
    return np.column_stack([coef, intercept]).T


def _quadratic(rows: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Return ``r' M r`` for each matrix and row, not below 0."""
    found = np.stack([((rows @ one) * rows).sum(axis=1) for one in matrices])
    return np.maximum(found, 0.0)


def _diagonals(covariance: np.ndarray) -> np.ndarray:
    if covariance.ndim == 2:
        return covariance
    return np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0)
