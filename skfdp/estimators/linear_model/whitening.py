r"""One release for label-DP: the label statistic, then a public optimiser.

With every column public and only the target private, the private part of a canonical
GLM's loss is linear in the weights,

.. math:: \sum_i a(w^\top \phi_i) - \langle w, S \rangle, \qquad
          S = \sum_i \phi_i \otimes (e_{y_i} - \bar e),

so S is released once and everything after it is post-processing: the basis of phi and
the penalty come from public rows and the level of the noise, for free.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from sklearn.utils.extmath import randomized_svd

from skfdp.queries.losses import Loss
from skfdp.records.blocks import blocks
from skfdp.records.grid import GRID, GridRows, on_grid
from skfdp.records.mapped import PublicRows
from skfdp.records.row_map import RowMap

MOST_DIRECTIONS = 512
#: More columns than this: a randomised PCA, not the covariance of all of them.
MOST_COLUMNS = 4096
#: Share of the target's variance that `water_filling` expects a model to explain.
EXPLAINED = 0.5
#: How many times its own variance the chance of the labels counts there, and the rows
#: beyond which it counts no less: what a linear model misses does not vanish with n.
CHANCE, CHANCE_ROWS = 10.0, 5000
#: Rows longer than this quantile of the public norms are shortened before the sum.
NORM_QUANTILE = 0.25
#: Constant last column of phi, whose rows have norm at most 1 without it.
BIAS_FEATURE = 0.2
LONGEST_ROW = math.hypot(1.0, on_grid(BIAS_FEATURE))
#: Prior variance of the target's mean, in units of the target's variance.
MEAN_PRIOR = 0.1
#: Factors of the prior's penalty that `choose_factor` compares, and the usual one.
FACTORS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
USUAL_FACTOR = 3.0
#: Standard errors by which another factor has to be better than the usual one.
CAUTION = 0.5
#: Public rows that estimate the mean of a, and simulated data sets.
BOOTSTRAP_ROWS, BOOTSTRAP_DRAWS = 4000, 8
#: How the noise is split between fitting and judging: variances 1.25 and 5.
SPLIT = 0.5


@dataclasses.dataclass(frozen=True)
class Whitening:
    """Public map from mapped rows to phi: centred, rotated, weighted, shortened.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
    basis : ndarray of shape (n_features, n_directions)
        Principal directions, weighted by `water_filling`, over the radius.
    bias : float or None
        Value of the constant last column, on the grid; None: no intercept.
    precision : ndarray of shape (n_columns,)
        Penalty per record of the prior that `water_filling` holds, for a loss whose
        curvature is 1.
    """

    mean: np.ndarray
    basis: np.ndarray
    bias: float | None
    precision: np.ndarray

    @classmethod
    def learn(cls, rows: PublicRows, fit_intercept: bool, noise: float) -> Whitening:
        """Learn the map from public rows.

        Parameters
        ----------
        rows : PublicRows
            Of shape (n_rows, n_features).
        fit_intercept : bool
            Centre the rows, and add the bias.
        noise : float
            See `water_filling`.
        """
        n_rows, n_features = rows.shape
        mean = np.zeros(n_features)
        if fit_intercept:
            for block in blocks(*rows.shape):
                mean += rows[block].sum(axis=0) / n_rows
        variance, directions = _principal(rows, mean)
        kept = variance > 1e-12 * variance[0]
        bias = on_grid(BIAS_FEATURE) if fit_intercept else None
        of_bias = np.full(int(fit_intercept), noise**2 / MEAN_PRIOR)
        if not kept.any():  # constant rows
            return cls(mean, np.zeros((n_features, 1)), bias, np.r_[1.0, of_bias])
        variance, directions = variance[kept], directions[:, kept]
        share, prior = water_filling(variance, noise, n_rows)
        kept = share > 0
        precision = (noise**2 + share[kept] / n_rows) / prior[kept]
        basis = directions[:, kept] * np.sqrt(share[kept] / variance[kept])
        norms = np.concatenate(
            [
                np.linalg.norm((rows[block] - mean) @ basis, axis=1)
                for block in blocks(*rows.shape)
            ]
        )
        radius = np.quantile(norms, NORM_QUANTILE) or norms.max() or 1.0
        return cls(mean, basis / radius, bias, np.r_[precision, of_bias])

    def grid(self, rows: PublicRows) -> GridRows:
        """Quantise phi of the rows, those longer than 1 shortened."""

        def phi(block: np.ndarray) -> np.ndarray:
            found = (block - self.mean) @ self.basis
            return found / np.maximum(1.0, np.linalg.norm(found, axis=1))[:, None]

        return GridRows.build(rows, phi, bias=self.bias, n_features=self.basis.shape[1])

    def weights(self, theta: np.ndarray) -> np.ndarray:
        """Return the weights on mapped rows."""
        return theta[:, : self.basis.shape[1]] @ self.basis.T

    def fold(self, theta: np.ndarray, row_map: RowMap) -> tuple[np.ndarray, np.ndarray]:
        """Return (coef, intercept) on ``row_map(X)``."""
        weights = self.weights(theta)
        coef, offset = row_map.coefficients(weights)
        intercept = offset - weights @ self.mean
        if self.bias is not None:
            intercept = intercept + self.bias * theta[:, -1]
        return coef, intercept


def _principal(rows: PublicRows, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return variances, largest first, and the directions as columns."""
    n_rows, n_features = rows.shape
    if n_features > MOST_COLUMNS:
        centred = np.empty(rows.shape, dtype=np.float32)
        for block in blocks(*rows.shape):
            centred[block] = rows[block] - mean
        _, scale, directions = randomized_svd(
            centred, min(MOST_DIRECTIONS, n_rows), random_state=0
        )
        return scale.astype(np.float64) ** 2 / n_rows, directions.T.astype(np.float64)
    covariance = np.zeros((n_features, n_features))
    for block in blocks(*rows.shape):
        centred = rows[block] - mean
        covariance += centred.T @ centred / n_rows
    first = max(0, n_features - MOST_DIRECTIONS)
    variance, directions = eigh(covariance, subset_by_index=(first, n_features - 1))
    return variance[::-1], directions[:, ::-1]


def water_filling(
    variance: np.ndarray, noise: float, n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""Share out the squared norm of the rows among the directions.

    Let direction j have the share a_j of the squared norm. The release then tells the
    correlation of its coordinate with the target up to noise of variance
    ``noise**2 / a_j``, beside the chance of the labels, c. Where a correlation has the
    prior variance v_j, proportional to the variance of the direction, the best linear
    estimates explain ``sum v_j**2 / (v_j + c + noise**2 / a_j)`` of the target's
    variance, which is largest at

    .. math:: a_j = \max(0, \theta v_j - noise^2) / (v_j + c), \qquad \sum_j a_j = 1.

    So weak directions are left out, the more of them the louder the noise, and the
    others are nearly whitened: reverse water-filling (Cover and Thomas, *Elements of
    Information Theory*, section 10.3.3), with a prior in place of the known variance.

    Parameters
    ----------
    variance : ndarray of shape (n_directions,)
        Positive, largest first.
    noise : float
        Standard deviation of the noise of the released statistic over the number of
        records, for rows of norm 1 and a target of standard deviation 1.
    n_rows : int

    Returns
    -------
    share : ndarray of shape (n_directions,)
        Zero beyond the last direction that is kept.
    prior : ndarray of shape (n_directions,)
        v, the variances of the correlations.
    """
    prior = EXPLAINED * variance / variance.sum()
    total = prior + CHANCE / min(n_rows, CHANCE_ROWS)
    # The level if the first k directions are kept, for every k.
    level = (1 + noise**2 * np.cumsum(1 / total)) / np.cumsum(prior / total)
    last = np.nonzero(level * prior > noise**2)[0].max(initial=0)
    share = np.maximum(0, level[last] * prior - noise**2) / total
    share[0] = share[0] or 1.0  # where the noise drowns even the rounding
    return share, prior


@dataclasses.dataclass(frozen=True)
class Objective:
    """``mean a(theta phi) - <theta, S> / n + theta' P theta / 2``, all public but S.

    Attributes
    ----------
    phi : float ndarray of shape (n_rows, n_columns)
        Public rows.
    loss : Loss
    penalty : ndarray of shape (n_columns, n_columns)
        P, per record.
    """

    phi: np.ndarray
    loss: Loss
    penalty: np.ndarray

    def minimise(
        self, statistic: np.ndarray, start: np.ndarray | None, max_iter: int
    ) -> tuple[np.ndarray, int]:
        """Return theta and the iterations; statistic is S / n, shaped like theta."""
        shape = statistic.shape

        def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = flat.reshape(shape)
            pulled = theta @ self.penalty
            value, gradient = self._mean(theta)
            value += np.vdot(theta, pulled) / 2 - np.vdot(theta, statistic)
            return value, (gradient + pulled - statistic).ravel()

        found = minimize(
            value_and_gradient,
            np.zeros(shape).ravel() if start is None else start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxfun": 10**7, "ftol": 1e-10, "gtol": 1e-7},
        )
        return found.x.reshape(shape), int(found.nit)

    def moment(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of the mean of a: the statistic that theta expects."""
        return self._mean(theta)[1]

    def loss_of(self, theta: np.ndarray, statistic: np.ndarray) -> float:
        """Return the loss of theta without the penalty."""
        return self._mean(theta)[0] - float(np.vdot(theta, statistic))

    def _mean(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.0, np.zeros(theta.shape)
        weights = theta.T.astype(self.phi.dtype)
        for block in blocks(*self.phi.shape):
            margins = (self.phi[block] @ weights).astype(np.float64)
            value += _log_partition(margins).sum()
            residual = self.loss.target_free_residual(margins)
            gradient += residual.astype(self.phi.dtype).T @ self.phi[block]
        return value / len(self.phi), gradient / len(self.phi)


def _log_partition(margins: np.ndarray) -> np.ndarray:
    """Return a: log-sum-exp less the mean margin; over +-m/2 for one output."""
    if margins.shape[1] == 1:
        return np.logaddexp(margins[:, 0] / 2, -margins[:, 0] / 2)
    largest = margins.max(axis=1)
    total = np.exp(margins - largest[:, None]).sum(axis=1)
    return largest + np.log(total) - margins.mean(axis=1)


def denoised(statistic: np.ndarray) -> np.ndarray:
    """Project S onto what is known of it: its sum over the classes is zero."""
    if len(statistic) == 1:
        return statistic
    return statistic - statistic.mean(axis=0)


def choose_factor(
    rows: GridRows,
    statistic: np.ndarray,
    loss: Loss,
    penalty: np.ndarray,
    noise_std: float,
    generator: np.random.Generator,
) -> tuple[float, np.ndarray]:
    """Choose a factor of the prior's penalty, for free.

    The statistic differs from its expectation by the noise of the release, Gaussian of
    known size, and by the chance of the labels, nearly Gaussian, whose covariance a
    pilot model tells. Fresh noise Z of both kinds splits it: ``S + gamma Z`` and
    ``S - Z / gamma`` have independent noise around the same expectation. Models are
    fitted to the one and judged by the other (coupled bootstrap: Oliveira, Lei and
    Tibshirani 2021, https://arxiv.org/abs/2111.09447); all of it post-processing.

    The noise of S itself does not average out over the draws of Z; its standard error
    is gamma times the standard deviation over the draws. Another factor than the usual
    one has to be better by a share of that, so that noise alone decides nothing.

    Parameters
    ----------
    rows : GridRows
        Public.
    statistic : ndarray of shape (n_outputs, n_columns)
        The released one, denoised.
    loss : Loss
    penalty : ndarray of shape (n_columns, n_columns)
        Of the prior, per record.
    noise_std : float
        Of the release.
    generator : Generator
        A stream of its own: repeating the noise of the release would undo it.

    Returns
    -------
    factor : float
    pilot : ndarray of shape (n_outputs, n_columns)
        The model of the usual factor, to start from.
    """
    n_rows = len(rows.values)
    everyone = Objective(float_rows(rows), loss, penalty)
    usual = dataclasses.replace(everyone, penalty=USUAL_FACTOR * penalty)
    pilot, _ = usual.minimise(statistic / n_rows, None, 100)
    # A sample of the rows stands in for all, its gradient corrected at the pilot.
    some = np.sort(generator.permutation(n_rows)[:BOOTSTRAP_ROWS])
    sample = dataclasses.replace(everyone, phi=everyone.phi[some].astype(np.float64))
    expected = everyone.moment(pilot)
    shift = expected - sample.moment(pilot)
    losses = np.zeros((BOOTSTRAP_DRAWS, len(FACTORS)))
    for draw in losses:
        fresh = denoised(noise_std * generator.standard_normal(statistic.shape))
        fresh += _label_noise(everyone.phi, pilot, generator) - n_rows * expected
        fitted = (statistic + SPLIT * fresh) / n_rows - shift
        judged = (statistic - fresh / SPLIT) / n_rows - shift
        theta = pilot
        for index, factor in enumerate(FACTORS):
            objective = dataclasses.replace(sample, penalty=factor * penalty)
            theta, _ = objective.minimise(fitted, theta, 100)
            draw[index] = objective.loss_of(theta, judged)
    worse = losses - losses[:, [FACTORS.index(USUAL_FACTOR)]]
    error = SPLIT * worse.std(axis=0)
    best = np.argmin(worse.mean(axis=0) + CAUTION * error)
    return FACTORS[best], pilot


def _label_noise(
    phi: np.ndarray, pilot: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return the statistic of labels drawn from the pilot model."""
    total = np.zeros(pilot.shape)
    for block in blocks(*phi.shape):
        labels = _drawn_labels(phi[block] @ pilot.T, generator)
        total += labels.T @ phi[block]
    return total


def _drawn_labels(margins: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return centred one-hot labels drawn from the margins' probabilities."""
    uniform = generator.random(len(margins))
    if margins.shape[1] == 1:
        positive = uniform < 0.5 * (1 + np.tanh(margins[:, 0] / 2))
        return np.where(positive, 0.5, -0.5)[:, None]
    weights = np.exp(margins - margins.max(axis=1)[:, None])
    cumulated = np.cumsum(weights, axis=1)
    label = (cumulated < uniform[:, None] * cumulated[:, -1:]).sum(axis=1)
    label = np.minimum(label, margins.shape[1] - 1)
    return np.eye(margins.shape[1])[label] - 1 / margins.shape[1]


def float_rows(rows: GridRows) -> np.ndarray:
    """Return phi in float32, block by block; exact, because the grid has 15 bits."""
    phi = np.empty(rows.values.shape, dtype=np.float32)
    for block in blocks(*phi.shape):
        phi[block] = rows.values[block] * np.float32(GRID)
    return phi


def user_penalty(whitening: Whitening, strength: float, feature_bound: float):
    """Return P of ``strength / 2 |w|**2``, w the weights of the bounded columns."""
    directions = whitening.basis / feature_bound
    n_columns = directions.shape[1] + (whitening.bias is not None)
    penalty = np.zeros((n_columns, n_columns))
    size = directions.shape[1]
    penalty[:size, :size] = strength * directions.T @ directions
    # The noisy statistic may ask for an infinite intercept; this keeps it finite.
    penalty += 1e-8 * np.eye(n_columns)
    return penalty


def largest_norm(rows: GridRows) -> float:
    """Return the exact bound of the public norms, rounded up."""
    return math.sqrt(rows.squared_norms.max()) * GRID * (1 + 1e-12)
