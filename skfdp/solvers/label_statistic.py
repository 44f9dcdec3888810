"""Label-DP models from one released label statistic, and the errors of their weights.

The rows are public. The curvature of the loss and the label variance are functions of
the rows and of the released model. Everything after the release is post-processing.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.utils.extmath import randomized_svd

from skfdp.data._basis import EXPLAINED, shares_of_norm
from skfdp.data.grid import GRID, GridRows, InputScaler, blocks, lazy_rows
from skfdp.data.records import PublicRecords
from skfdp.data.target import log_odds
from skfdp.kernels.losses import Loss
from skfdp.mechanisms.descent import warn_of_divergence
from skfdp.queries.statistics import LabelSum
from skfdp.solvers import descent, parameters
from skfdp.solvers.method import Budget, Needs, Plan
from skfdp.solvers.postprocessing import (
    FIRST_ORDER,
    MOST_ENTRIES,
    CoefficientNoise,
    Fold,
    LinearFit,
    label_variances,
    matrix_of,
)

#: Expected scale of the prior of the weights, and spread of this scale's logarithm.
USUAL, DECADE = 1 / 3, math.log(10)
#: Number of preliminary fits, of so many iterations. Each fit determines the penalty of
#: the next fit, and with more iterations the last fit was the same.
ROUNDS, ITERATIONS = 4, 10
#: The barrier is linear where the constant term of a margin is below minus this number.
FAR = 30.0


@dataclasses.dataclass(frozen=True)
class Objective:
    """The objective ``mean w a(theta phi) - <theta, S> / n + theta' P theta / 2``.

    For w, a, phi and S see `Whitening`. The public `rows` are ``w_i
    phi_i``. The mean is a sum over rows divided by n, and `weight` is w times the
    weight of each row in the user's table. The penalty P, per record, is an argument.

    Notes
    -----
    A barrier, another penalty, keeps noisy class frequencies away from zero. Let p be
    the frequency of a class, known up to noise of standard deviation s, and c the
    constant term of the class's margin. With a uniform prior of p, the density of c is
    highest where ``(p - noisy p) p (1 - p) = s**2 (1 - 2 p)``. Without features the
    penalty is therefore ``s**2 (exp(c) + exp(-c))``. It changes a noisy frequency of
    zero to s, and it vanishes if there is no noise. `bias` is the value of the constant
    last column (None: there is none), and `strength` the factor of
    ``exp(c) + exp(-c)``.
    """

    rows: np.ndarray
    weight: np.ndarray
    loss: Loss
    n: float
    bias: float | None = None
    strength: float = 0.0

    def minimise(
        self,
        statistic: np.ndarray,
        penalty: np.ndarray,
        start: np.ndarray | None,
        max_iter: int,
    ) -> tuple[np.ndarray, int]:
        """Return theta and the number of iterations; `statistic` is S / n."""
        shape = statistic.shape
        start = np.zeros(shape) if start is None else start
        # Rescale so that the curvature is about 1 in every direction.
        curvature = self.curvature(start)[0] + np.diagonal(penalty)
        unit = 1 / np.sqrt(np.maximum(curvature, 1e-9 * curvature.max()))

        def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = flat.reshape(shape) * unit
            pulled = theta @ penalty
            value, gradient = self._mean(theta)
            value += np.vdot(theta, pulled) / 2 - np.vdot(theta, statistic)
            gradient += pulled - statistic
            if self.bias is not None:
                more, slope = self.barrier(theta[:, -1])
                value += more
                gradient[:, -1] += slope
            return value, (gradient * unit).ravel()

        found = minimize(
            value_and_gradient,
            (start / unit).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxfun": 10**7, "ftol": 1e-10, "gtol": 1e-5},
        )
        return found.x.reshape(shape) * unit, int(found.nit)

    def barrier(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalty of the constant column's weights, and its gradient."""
        c = self.bias * theta
        c = np.r_[c, -c] if len(c) == 1 else c - c.mean()
        # The penalty is linear where c is below -FAR, because exp could overflow.
        power = np.exp(-np.maximum(c, -FAR))
        value = self.strength * float((power * (1 + np.maximum(0.0, -FAR - c))).sum())
        slope = -self.strength * self.bias * power
        return value, slope[:1] - slope[1:] if len(theta) == 1 else slope - slope.mean()

    def bend(self, theta: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the barrier, by finite differences."""
        out = np.zeros(len(theta))
        if self.bias is None:
            return out
        step = 1e-4 / self.bias
        for k, moved in enumerate(step * np.eye(len(theta))):
            ahead = self.barrier(theta + moved)[1][k]
            behind = self.barrier(theta - moved)[1][k]
            out[k] = max(0.0, (ahead - behind) / (2 * step))
        return out

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of ``mean w a``: the S / n that the model expects."""
        return self._mean(theta)[1]

    def class_shares(self, theta: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return the class frequencies that theta predicts, at least 1 / n.

        `shares` are the weights of the rows in the user's table.
        """
        mean = np.zeros(len(theta))
        for block, margins in self._margins(theta):
            mean += shares[block] @ self.loss.target_free_residual(margins) / self.n
        mean = np.r_[-mean, mean] if len(mean) == 1 else mean
        # A residual is a probability minus 1 / n_classes.
        return np.maximum(mean + 1 / len(mean), 1 / self.n)

    def curvature(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the diagonals of the Hessian and of the sampling variance of S / n."""
        hessian, variance = np.zeros((2, self.rows.shape[1]))
        for block, margins in self._margins(theta):
            spread = label_variances(margins)
            squares = self.rows[block].astype(np.float64) ** 2
            hessian += (spread / self.weight[block]) @ squares
            variance += spread @ squares
        return hessian / self.n, variance / self.n**2

    def _margins(self, theta: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        weights = theta.T.astype(self.rows.dtype)
        for block in blocks(*self.rows.shape):
            margins = (self.rows[block] @ weights).astype(np.float64)
            yield block, margins / self.weight[block][:, None]

    def _mean(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.0, np.zeros(theta.shape)
        for block, margins in self._margins(theta):
            value += self.weight[block] @ _log_partition(margins)
            residual = self.loss.target_free_residual(margins)
            gradient += residual.astype(self.rows.dtype).T @ self.rows[block]
        return value / self.n, gradient / self.n


def _log_partition(margins: np.ndarray) -> np.ndarray:
    """Return the log-partition function: log-sum-exp minus the mean of the margins.

    With one output m, the margins of the two classes are m/2 and -m/2.
    """
    if margins.shape[1] == 1:  # several times as fast as np.logaddexp
        size = np.abs(margins[:, 0])
        return size / 2 + np.log(1 + np.exp(-size))
    largest = margins.max(axis=1)
    total = np.exp(margins - largest[:, None]).sum(axis=1)
    return largest + np.log(total) - margins.mean(axis=1)


@dataclasses.dataclass(frozen=True)
class Prior:
    """A normal prior of the weights, whose scale is estimated from the release.

    The prior variance of a weight is `variance` times the scale, for `varying` columns:
    all but the constant column. `noise_std` is the deviation of the noise in S / n.

    Notes
    -----
    The null model has weights of the constant column alone. Consider S / n minus its
    expectation under the null model. Near the null model this difference is linear in
    the other weights theta. An entry is ``A theta``, where A is the curvature of the
    loss, plus noise and sampling error with a known total variance N. Let T be
    `variance` and t the scale. Then an entry is normal with variance ``A**2 t T + N``,
    from which t is estimated. The logarithm of t has a wide prior, which only matters
    if the noise dominates.

    Given t, the best linear estimate multiplies an entry by
    ``A**2 t T / (A**2 t T + N)``. The posterior mean of this factor determines a value
    of t for each column. The penalty ``N / (A t T)`` shrinks an entry by this factor. A
    and N are then computed again at the fitted model. The scale is never estimated from
    fitted weights, because they grow with the noise. Large weights reduce A, and t is
    then too small, since by Stein's lemma an entry is ``A theta`` with the smaller A.
    The part of the penalty for the sampling error therefore keeps the null model's A.

    With more than two classes the weights of the constant column are also penalised by
    their prior variance, because frequencies of small classes are noisy.
    """

    variance: np.ndarray
    varying: np.ndarray
    noise_std: float

    def minimise(
        self, objective: Objective, statistic: np.ndarray, max_iter: int
    ) -> tuple[np.ndarray, int, np.ndarray]:
        """Return theta, the number of iterations, and the penalty, given S / n."""
        theta, steps = self._null(objective, statistic), 0
        found = objective.curvature(theta)
        null, beyond = found[0], statistic - objective.gradient(theta)
        variance = self.variance * self._scale(beyond, *found)
        shrunk, penalty = self.varying | (len(statistic) > 1), None
        for last in (False,) * ROUNDS + (True,):
            first, chance = found
            own = (self.noise_std**2 / first + chance / null) / variance
            # A large weight makes the curvature small, and then the penalty large. With
            # a mean over rounds the weights do not alternate.
            penalty = own if penalty is None else penalty**0.4 * own**0.6
            penalty = np.where(shrunk, penalty, 0.0)
            most = max_iter if last else ITERATIONS
            theta, n_iter = objective.minimise(statistic, np.diag(penalty), theta, most)
            found, steps = objective.curvature(theta), steps + n_iter
        return theta, steps, np.diag(penalty)

    def _null(self, objective: Objective, statistic: np.ndarray) -> np.ndarray:
        theta, constant = np.zeros(statistic.shape), ~self.varying
        if constant.any():
            rows, penalty = objective.rows[:, constant], np.zeros((1, 1))
            if len(statistic) > 1:
                first, chance = objective.curvature(theta)
                penalty += ((self.noise_std**2 + chance) / (first * self.variance))[-1]
            alone = dataclasses.replace(objective, rows=rows)
            asked = statistic[:, constant], penalty, None, 100
            theta[:, constant], _ = alone.minimise(*asked)
        return theta

    def _scale(self, statistic, first, chance) -> np.ndarray:
        """Return the scale t of the prior for each column; see `Prior`.

        `statistic` is S / n minus its expectation under the null model.
        """
        free = self.varying
        scales = np.geomspace(1e-3, 1e3, 61)
        signal = (first**2 * self.variance)[free]
        noise = self.noise_std**2 + chance[free]
        expected = noise + scales[:, None] * signal
        # With several classes the entries of a column sum to zero.
        n_outputs = max(1, len(statistic) - 1)
        squares = (statistic[:, free] ** 2).sum(axis=0)
        loss = (n_outputs * np.log(expected) + squares / expected).sum(axis=1)
        loss += (np.log(scales / USUAL) / DECADE) ** 2
        posterior = np.exp((loss.min() - loss) / 2)
        lost = posterior @ (noise / expected) / posterior.sum()
        own = noise * (1 - lost) / np.maximum(lost * signal, 1e-300)
        found = np.ones(len(free))
        found[free] = np.clip(own, scales[0], scales[-1])
        return found


#: Largest number of weights for the full curvature. With more, only its diagonal is
#: used, and sampling errors are not estimated.
MOST_COEF = 600
#: Largest number of products for the curvature. If all rows need more, only evenly
#: spaced rows are used.
MOST_PRODUCTS = 3e8
#: Largest number of Newton steps for the unpenalised weights. The steps end when they
#: move every weight by less than this fraction of its standard error.
NEWTON_STEPS, NEGLIGIBLE = 25, 1e-3
# Newton steps longer than this mean that the unpenalised weights diverge.
_FARTHEST = 1e6
#: The normal approximation fails if the mean variance of errors of log odds is above
#: this limit. Intervals at this limit covered the true weights in 98 % of cases.
MOST_SPREAD = 0.1


def noise_of_estimate(
    objective: Objective,
    statistic: np.ndarray,
    penalty: np.ndarray,
    theta: np.ndarray,
    noise_std: float,
    fold: Fold,
    is_complete: Callable[[], bool],
) -> CoefficientNoise:
    """Return the noise in the minimiser, and the unpenalised estimate if it exists.

    `theta` minimises `objective` with this `penalty`. `statistic` is S / n, with noise
    of standard deviation `noise_std` in each entry. `fold` returns (coef, intercept) of
    weights. `is_complete` returns whether the columns of the objective span those of X;
    it is called only if there are few columns.

    Notes
    -----
    The minimiser changes by the inverse Hessian times the change of S / n. Let H be the
    curvature of the loss, P that of the penalty, s the `noise_std` and V the sampling
    variance of S / n. The noise then has the covariance
    ``(H + P)**-1 s**2 (H + P)**-1``. The weights without the penalty have the
    covariance ``H**-1 (s**2 + V) H**-1`` if the probabilities are those of a linear
    model. Otherwise this is the covariance around the best linear model, with V
    computed under the fitted model.
    """
    J = matrix_of(fold, theta.shape[1])
    if not np.isfinite(theta).all():  # a later check of the coefficients raises
        return CoefficientNoise(np.full((len(theta), len(J)), np.nan), FIRST_ORDER)
    if theta.size > MOST_COEF:
        variances = _of_diagonal(objective, penalty, theta, noise_std)
        return CoefficientNoise(variances @ (J**2).T, FIRST_ORDER)
    curvature = Curvature(objective, len(theta))
    hessian = curvature.hessian(theta)
    # The curvature of penalty and barrier, laid out as the Hessian.
    n, p = theta.shape
    bent = np.zeros((n, p, n, p))
    for k in range(n):
        bent[k, :, k] = penalty
    each = np.arange(n)
    bent[each, -1, each, -1] += objective.bend(theta[:, -1])
    solver = _inverse(hessian + bent.reshape(n * p, n * p))
    covariance = noise_std**2 * solver @ curvature.noise @ solver
    noise = CoefficientNoise.of_weights(
        _by_output(covariance, theta.shape), fold, FIRST_ORDER
    )
    if len(theta) * len(J) ** 2 > MOST_ENTRIES or not is_complete():
        return noise
    found = _unpenalised(objective, curvature, statistic, theta, noise_std)
    if found is None:
        return noise
    free, error = found
    coef, intercept = fold(free)
    axes, sizes, _ = np.linalg.svd(J[:-1])
    rank = int((sizes > 1e-9 * sizes.max(initial=0.0)).sum())
    return dataclasses.replace(
        noise,
        estimate=np.column_stack([coef, intercept]),
        error=J @ _by_output(error, theta.shape) @ J.T,
        free=axes[:, rank:],
    )


def _of_diagonal(objective, penalty, theta, noise_std: float) -> np.ndarray:
    """Return the variances of many weights, as if their errors were independent.

    The columns are principal directions, so that the curvature is nearly diagonal.
    """
    n_outputs = len(theta)
    every = max(1, round(len(objective.rows) * theta.size / MOST_PRODUCTS))
    weight = objective.weight[::every]
    rows = objective.rows[::every] / weight[:, None]
    margins = rows @ theta.T.astype(rows.dtype)
    if n_outputs == 1:
        spread = label_variances(margins)[None]
    else:
        share = softmax(margins, axis=1)
        spread = (share * (1 - share)).T
    n_looked_at = objective.n * len(rows) / len(objective.rows)
    hessian = (spread * weight) @ rows**2 / n_looked_at
    hessian += np.diagonal(penalty)
    hessian[:, -1] += objective.bend(theta[:, -1])
    free = 1 - 1 / n_outputs if n_outputs > 1 else 1.0
    return free * noise_std**2 / np.maximum(hessian, 1e-300) ** 2


class Curvature:
    """The Hessian of the mean loss, and the sampling variance of S / n.

    With many rows, only evenly spaced rows are used. `rows` are phi, not multiplied by
    the weights.
    """

    def __init__(self, objective: Objective, n_outputs: int):
        n_rows, n_columns = objective.rows.shape
        most = MOST_PRODUCTS / (n_columns * n_outputs) ** 2
        part = slice(None, None, max(1, round(n_rows / max(most, 1.0))))
        self.weight = objective.weight[part]
        self.rows = objective.rows[part].astype(np.float64) / self.weight[:, None]
        # Divisors of sums: n for all rows, proportionally less for the selected rows.
        self._every, self._own = objective.n, objective.n * len(self.rows) / n_rows
        several = n_outputs > 1
        #: Covariance of the noise in S / n, centred over classes, for noise_std 1.
        self.noise = np.kron(np.eye(n_outputs) - several / n_outputs, np.eye(n_columns))

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Return the Hessian, in the layout of `noise`."""
        found, (n, p) = self._sums(theta, self.weight) / self._own, theta.shape
        if n > 1:
            # Predictions do not change if all classes get the same additional weights.
            # Add a curvature in these directions, so that the Hessian can be inverted.
            size = np.trace(found[:p, :p]) / p
            found += np.kron(np.full((n, n), 1 / n), size * np.eye(p))
        return found

    def sampling_variance(self, theta: np.ndarray) -> np.ndarray:
        """Return the sampling variance of S / n, in the layout of `noise`."""
        return self._sums(theta, self.weight**2) / (self._own * self._every)

    def _sums(self, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the variances of labels times squared rows."""
        margins, (n, p) = self.rows @ theta.T, theta.shape

        def product(spread: np.ndarray) -> np.ndarray:
            return (self.rows * (spread * weight)[:, None]).T @ self.rows

        if n == 1:
            return product(label_variances(margins))
        share, found = softmax(margins, axis=1), np.zeros((n, p, n, p))
        for k in range(n):
            for m in range(k, n):
                one = product(share[:, k] * ((k == m) - share[:, m]))
                found[k, :, m] = found[m, :, k] = one
        return found.reshape(n * p, n * p)


def _unpenalised(objective, curvature, statistic, theta, noise_std: float):
    """Return the unpenalised weights and their covariance, or None if unreliable.

    Newton's method starts at the penalised weights. The result is None if the Hessian
    is singular or the steps do not converge: with much noise the unpenalised weights
    may be infinite. It is also None if the errors are too large for the normal
    approximation.
    """
    theta = theta.copy()
    for _ in range(NEWTON_STEPS):
        hessian = curvature.hessian(theta)
        values = np.linalg.eigvalsh(hessian)
        if not values[0] > 1e-10 * values[-1]:
            return None
        inverse = _inverse(hessian)
        variance = noise_std**2 * curvature.noise + curvature.sampling_variance(theta)
        error = inverse @ variance @ inverse
        step = inverse @ (statistic - objective.gradient(theta)).ravel()
        size = np.abs(step / np.sqrt(np.diagonal(error))).max()
        if not np.abs(step).max() < _FARTHEST:
            return None
        theta = theta + step.reshape(theta.shape)
        if size < NEGLIGIBLE:
            moments = curvature.rows.T @ curvature.rows / len(curvature.rows)
            each = _by_output(error, theta.shape)
            # Variance of a margin, averaged over rows and outputs.
            spread = float(np.einsum("kij,ij->", each, moments)) / len(theta)
            return (theta, error) if spread <= MOST_SPREAD else None
    return None


# Without a penalty a matrix is singular along directions in which no row varies.
_inverse = functools.partial(np.linalg.pinv, hermitian=True)


def _by_output(covariance: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return a covariance matrix of weights for each output, shape (n, p, p)."""
    n, p = shape
    joint = covariance.reshape(n, p, n, p)
    return np.stack([joint[k, :, k] for k in range(n)])


# The public basis of rows and the public weights of records.
#
# The loss ``sum_i w_i a(<theta, phi_i>) - <theta, S>`` depends on the labels only
# through the released ``S = sum_i w_i phi_i (x) label_i`` (:ref:`label-statistic`).
# Here phi_i is the public row of record i in some basis, w_i its weight, and a the
# log-partition function. The basis and the weights are computed from public rows and
# the level of the noise, so they cost no privacy.


#: Largest number of principal directions in the basis.
MOST_DIRECTIONS = 1024
#: With more columns a randomised PCA replaces the covariance of all columns.
MOST_COLUMNS = 4096
#: Factor of the sampling variance in `shares_of_norm`. Above `CHANCE_ROWS` rows this
#: variance does not decrease further, because a linear model has an error that does not
#: vanish for large n.
CHANCE, CHANCE_ROWS = 10.0, 5000
#: Least share of the squared norm of a row for the constant column.
LEAST_BIAS = 0.04
#: The bound of the rows is a quantile of the public norms, at one of these levels.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 1.0)
#: Number of public rows from which the bound is chosen, and number of rounds that fit
#: the shares of the directions to a bound.
SAMPLE_ROWS, BOUNDINGS = 4096, 3
#: Largest norm of a row on the grid.
LONGEST_ROW = 1.0


@dataclasses.dataclass(frozen=True)
class Whitening:
    """Public map from scaled rows to phi, ``[(row - mean) @ basis, bias]``.

    The columns of `basis` are principal directions, scaled by `shares_of_norm` and
    divided by the bound of the rows. `bias` is the value of the constant last column;
    None: no intercept. `prior` is the variance of each weight that `shares_of_norm`
    expects, for a loss of curvature 1.
    """

    mean: np.ndarray
    basis: np.ndarray
    bias: float | None
    prior: np.ndarray

    @classmethod
    def learn(
        cls,
        rows: np.ndarray,
        mean_prior: float | None,
        noise: float,
        shares: np.ndarray | None = None,
    ):
        """Compute the map from public rows with weights `shares`.

        `mean_prior` is the prior variance of the target's mean, divided by the target's
        variance; None: no intercept, and the rows are not centred. For `noise` see
        `data._basis.shares_of_norm`.
        """
        fit_intercept = mean_prior is not None
        # A power of two, so that no square over- or underflows.
        peaks = [np.abs(rows[block]).max(initial=0) for block in blocks(*rows.shape)]
        unit = math.ldexp(1.0, -math.frexp(max(peaks))[1])
        rows = lazy_rows(rows, lambda block: block * unit, rows.shape[1])
        n_rows, n_features = rows.shape
        shares = np.ones(n_rows) if shares is None else shares
        n_records = float(shares.sum())
        mean = np.zeros(n_features)
        if fit_intercept:
            for block in blocks(*rows.shape):
                mean += (rows[block] * shares[block, None]).sum(axis=0) / n_records
        variance, directions = _principal(rows, mean, shares)
        kept = variance > 1e-12 * variance[0]
        variance, directions = variance[kept], directions[:, kept]
        prior = EXPLAINED * variance / (variance.sum() or 1.0)
        directions = directions / np.sqrt(variance)
        if fit_intercept:  # the constant column is one more direction
            prior = np.r_[prior, mean_prior]
        elif not kept.any():  # no column varies: keep one direction of zeros
            prior, directions = np.ones(1), np.zeros((n_features, 1))
        part = slice(None, None, -(-n_rows // SAMPLE_ROWS))
        squares = ((rows[part] - mean) @ directions) ** 2
        if fit_intercept:
            squares = np.c_[squares, np.ones(len(squares))]
        least = LEAST_BIAS if fit_intercept else 0.0
        counts = shares[part], n_records
        level, share = _shares(squares, prior, noise, counts, least)
        scale = np.sqrt(share)
        kept = share[: directions.shape[1]] > 0
        basis = directions[:, kept] * scale[: len(kept)][kept]
        bias = scale[-1] if fit_intercept else 0.0
        phi = ((rows[block] - mean) @ basis for block in blocks(*rows.shape))
        norms = np.concatenate([_norms(block, bias) for block in phi])
        radius = np.quantile(norms, level) or norms.max() or 1.0
        return cls(
            mean / unit,
            basis / radius * unit,
            bias / radius if fit_intercept else None,
            (prior / np.where(share > 0, share, 1.0))[share > 0] * radius**2,
        )

    def grid(self, rows: np.ndarray) -> tuple[GridRows, np.ndarray]:
        """Return phi of the rows times w on the grid, and w, ``min(1, 1 / |phi|)``."""
        bias, weights = 0.0 if self.bias is None else self.bias, []

        def weighted(block: np.ndarray) -> np.ndarray:
            phi = (block - self.mean) @ self.basis
            weight = 1 / np.maximum(1.0, _norms(phi, bias))
            weights.append(weight)
            if self.bias is not None:
                phi = np.c_[phi, np.full(len(phi), bias)]
            return phi * weight[:, None]

        n_columns = self.basis.shape[1] + (self.bias is not None)
        grid = GridRows.build(rows, weighted, n_features=n_columns)
        return grid, np.concatenate(weights)

    def spans(self, rows: np.ndarray) -> bool:
        """Whether the basis has every direction in which public rows vary."""
        axes, _ = np.linalg.qr(self.basis)
        total = left = 0.0
        for block in blocks(*rows.shape):
            centred = rows[block] - self.mean
            total += float((centred**2).sum())
            left += float(((centred - centred @ axes @ axes.T) ** 2).sum())
        return left <= 1e-9 * total

    @property
    def varying(self) -> np.ndarray:
        """Mask of the columns of phi that are not the constant column."""
        return np.arange(len(self.prior)) < self.basis.shape[1]

    def fold(
        self, theta: np.ndarray, input_scaler: InputScaler
    ) -> tuple[np.ndarray, np.ndarray]:
        """Convert weights on phi to (coef, intercept) on ``input_scaler(X)``."""
        weights = theta[:, : self.basis.shape[1]] @ self.basis.T
        coef, offset = input_scaler.coefficients(weights)
        intercept = offset - weights @ self.mean
        if self.bias is not None:
            intercept = intercept + self.bias * theta[:, -1]
        return coef, intercept


def _norms(phi: np.ndarray, bias: float) -> np.ndarray:
    return np.sqrt(np.einsum("ij,ij->i", phi, phi) + bias**2)


def _principal(rows: np.ndarray, mean, shares) -> tuple[np.ndarray, np.ndarray]:
    """Return the variances along principal directions, largest first, and these."""
    n_rows, n_features = rows.shape
    n_records, root = float(shares.sum()), np.sqrt(shares)[:, None]
    few = n_features > MOST_DIRECTIONS and n_rows <= min(n_features, MOST_COLUMNS)
    if few or n_features > MOST_COLUMNS:
        centred = np.empty(rows.shape, dtype=np.float64 if few else np.float32)
        for block in blocks(*rows.shape):
            centred[block] = (rows[block] - mean) * root[block]
        if few:
            return _principal_of_few(centred, n_records)
        found = randomized_svd(centred, min(MOST_DIRECTIONS, n_rows), random_state=0)
        scale, directions = (one.astype(np.float64) for one in found[1:])
        return scale**2 / n_records, directions.T
    covariance = np.zeros((n_features, n_features))
    for block in blocks(*rows.shape):
        centred = rows[block] - mean
        centred *= root[block]
        covariance += centred.T @ centred / n_records
    first = max(0, n_features - MOST_DIRECTIONS)
    variance, directions = eigh(covariance, subset_by_index=(first, n_features - 1))
    return variance[::-1], directions[:, ::-1]


def _principal_of_few(centred, n_records: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of `_principal`, from products of rows with rows.

    These are fewer than products of columns if there are thousands of categories.
    """
    n_rows, n_features = centred.shape
    first = max(0, n_rows - MOST_DIRECTIONS)
    squares, sides = eigh(centred @ centred.T, subset_by_index=(first, n_rows - 1))
    kept = squares > 1e-10 * squares[-1]
    if not kept.any():  # all rows are equal
        return np.zeros(1), np.zeros((n_features, 1))
    squares, sides = squares[kept][::-1], sides[:, kept][:, ::-1]
    return squares / n_records, centred.T @ (sides / np.sqrt(squares))


def _shares(squares, prior, noise: float, counts: tuple, least: float):
    r"""Choose the bound of the rows, and the shares of directions for this bound.

    With a bound R the records have the weights ``w = min(1, R / |phi|)``, and the
    release has the noise ``R noise``. Let x_j be the coordinate of a row in direction
    j, with mean square 1, a_j the share of this direction and v_j its `prior`. In this
    direction the statistic estimates the correlation with the target times
    ``A_j = mean w x_j**2``. The noise variance is ``R**2 noise**2 / a_j``. The sampling
    variance is ``B_j / n``, where ``B_j = mean w**2 x_j**2``. The best linear estimates
    explain

    .. math:: \sum_j v_j^2 / (v_j + (B_j / n + R^2 noise^2 / a_j) / A_j^2)

    of the target's variance. Without noise, weights w of 1 are best, because
    ``A_j**2 <= B_j``. So the bound grows with the signal, up to the longest row.

    `squares` are ``x_j**2`` of some public rows. `counts` are the weights of these
    rows, and n. The last direction gets a share of at least `least`. Return (level,
    shares). The bound is the quantile of the norms at this level.
    """
    best, (own, n_records) = -np.inf, counts
    chance = CHANCE / min(n_records, CHANCE_ROWS)
    for level in LEVELS:
        effective = noise
        for _ in range(BOUNDINGS):
            share = shares_of_norm(prior, effective, chance)
            share[-1] = max(least, share[-1])
            share /= share.sum()
            norms = np.sqrt(squares @ share)
            radius = np.quantile(norms, level) or norms.max() or 1.0
            weight = 1 / np.maximum(1.0, norms / radius)
            first = (own * weight) @ squares / own.sum()
            # Weights that reduce the signal act like more noise.
            effective = noise * radius / max(first @ share, 1e-300)
        second = (own * weight**2) @ squares / own.sum()
        kept = share > 0
        a, v, A, B = share[kept], prior[kept], first[kept], second[kept]
        A = np.maximum(A, 1e-300)
        spoilt = (B / n_records + (radius * noise) ** 2 / a) / A**2
        explained = (v**2 / (v + spoilt)).sum()
        if explained > best:
            best, found = explained, (level, share)
    return found


#: Largest number of entries of rows that are held in float64.
MOST_DOUBLES = 2**22


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicGeometry:
    """The public rows of the label statistic, and the basis of these rows.

    `rows` are ``w_i phi_i`` on the grid, including the constant column, and `weight` is
    w, in (0, 1]. `shares` are the weights of the rows in the user's table (None: 1).
    `n_labels` is the number of sums in the statistic. Under "replace_one" it is one sum
    for each class, and their total counts the records with a declared label. Other
    relations centre the labels, because this reduces the sensitivity to a null record.
    With two classes they have only the difference of the two sums.
    """

    whitening: Whitening
    rows: GridRows
    weight: np.ndarray
    shares: np.ndarray | None
    n_labels: int

    @property
    def bound(self) -> float:
        """The largest norm of the rows, rounded up."""
        return math.sqrt(self.rows.squared_norms.max()) * GRID * (1 + 1e-12)

    def floats(self) -> np.ndarray:
        """Return the rows times the shares, in float32 for large tables.

        Without shares float32 is exact, because the grid has 15 bits. Small tables get
        float64, for more accurate sums.
        """
        values = self.rows.values
        kind = np.float32 if values.size > MOST_DOUBLES else np.float64
        rows = np.empty(values.shape, kind)
        for block in blocks(*rows.shape):
            rows[block] = values[block] * kind(GRID)
            if self.shares is not None:
                rows[block] *= self.shares[block, None].astype(kind)
        return rows


@dataclasses.dataclass(frozen=True)
class LabelStatistic:
    """One release of the label statistic, then a public optimiser.

    `C` is the inverse strength of the penalty; "auto": the penalty is estimated from
    the release. `max_iter` is the maximum number of iterations of the public optimiser.
    `estimates` is whether a fit also returns the unpenalised estimate, for intervals.
    """

    loss: Loss
    C: float | str
    max_iter: int
    fit_intercept: bool
    estimates: bool = True

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs: dense public columns, and a private target."""
        query = LabelSum.planned(
            public.n_outputs, LONGEST_ROW, not budget.relation.replaces
        )
        free = "C fit_intercept max_iter public_model=None"
        honours = {
            **dict.fromkeys(free.split(), ()),
            "class_weight='balanced'": ("fit_intercept=True",)
            * (not self.fit_intercept),
        }
        table = Needs.NO_PRIVATE_COLUMN, Needs.PRIVATE_TARGET, Needs.DENSE
        noise_std = query.sensitivity(budget.relation) / budget.mu
        if not query.fits_grid(noise_std, public.units):
            table += ("a larger budget, whose noise the grid can carry",)
        return Needs("solver='one-shot' (label-DP)", honours, table)

    def prepare(self, public: PublicRecords, budget: Budget) -> PublicGeometry:
        """Compute the basis of the statistic from public rows, without any label."""
        centred = not budget.relation.replaces
        n_labels = public.n_outputs if centred else public.n_classes
        query = LabelSum.planned(public.n_outputs, LONGEST_ROW, centred)
        std = public.reach * query.sensitivity(budget.relation) / budget.mu
        noise = std / public.row_shares.sum() / math.sqrt(_curvature(public.n_classes))
        # All class frequencies are equally likely before the release.
        mean_prior = 1 / (public.n_classes + 1) if self.fit_intercept else None
        found = Whitening.learn(public.mapped, mean_prior, noise, public.shares)
        rows, weight = found.grid(public.mapped)
        known = {"rows": rows, "weight": weight, "shares": public.shares}
        return PublicGeometry(whitening=found, **known, n_labels=n_labels)

    def plan(self, public, prepared, budget: Budget) -> Plan:
        """Calibrate the noise of the only release."""
        one_hot = budget.relation.replaces
        query = LabelSum.planned(prepared.n_labels, prepared.bound, not one_hot)
        signal = 2 * budget.mu * public.n_effective / budget.relation.sensitivity(1.0)
        return Plan(
            events=(budget.release_once("label statistic", query),),
            expected_gap=parameters.gap_of(
                signal, public.n_features, 0, public.n_classes, False
            ),
            counts_labels=one_hot and prepared.whitening.bias is not None,
        )

    def run(self, records, prepared, plan, mechanism, on_step) -> LinearFit:
        """Release the statistic once, then optimise as post-processing."""
        public, rows, relation = records.public, prepared.rows, plan.events[0].relation
        recipe = functools.partial(
            LabelSum.of,
            n_outputs=prepared.n_labels,
            row_bound=prepared.bound,
            centred=not relation.replaces,
        )
        query = records.query(recipe, rows=rows)
        released = mechanism.release("label statistic", query)
        shares, found = public.row_shares, prepared.whitening
        n, weight = float(shares.sum()), prepared.weight * shares
        noise_std = plan.events[-1].noise_std[0] / n
        if plan.counts_labels:
            # The last column is constant, up to the weights of the rows.
            counted = n / float(shares @ rows.values[:, -1] * GRID)
            descent.check_counts(
                released[:, -1] * counted, noise_std * n * counted, public, relation
            )
        if len(released) == 2:
            statistic = (released[1:] - released[:1]) / 2
            noise_std = noise_std / math.sqrt(2)
        else:  # the mean of S over the classes is zero without noise
            statistic = released - (len(released) > 1) * released.mean(axis=0)
        strength = 0.0 if self.C == "auto" else 1 / (self.C * public.total_weight)
        # `penalty` is that of `Objective`, for the sum ``strength / 2 |w|**2`` over the
        # weights w of the bounded columns.
        directions = found.basis / public.input_scaler.feature_bound
        size = directions.shape[1]
        # This small penalty keeps the intercept finite, which noise could make
        # infinite.
        penalty = 1e-8 * np.eye(len(found.prior))
        penalty[:size, :size] += strength * directions.T @ directions
        strength = 0.0
        if found.bias is not None:
            # The statistic contains ``bias * weight * p`` for the mean weight of a row,
            # so s is noise_std / (bias * weight). The loss has the factor weight. With
            # many classes the slope of the penalty is s**2 / p, and the sum of exp(c)
            # is about the number of classes.
            strength = (noise_std / found.bias) ** 2 / (weight.sum() / n)
            strength *= public.n_outputs
        given = prepared.floats(), weight, self.loss, n, found.bias, strength
        objective = Objective(*given)
        if self.C == "auto":
            variance = found.prior / _curvature(public.n_classes)
            prior = Prior(variance, found.varying, noise_std)
            asked = objective, statistic / n, self.max_iter
            theta, n_iter, penalty = prior.minimise(*asked)
        else:
            asked = statistic / n, penalty, None, self.max_iter
            theta, n_iter = objective.minimise(*asked)
        warn_of_divergence(theta)
        fold = functools.partial(found.fold, input_scaler=public.input_scaler)

        def is_complete() -> bool:
            # Sampling errors assume independent labels, which the rows of a person
            # need not have.
            own = self.estimates and public.unit == "record"
            return own and found.spans(public.mapped)

        coef, intercept = fold(theta)
        known = objective, statistic / n, penalty, theta, noise_std
        noise = noise_of_estimate(*known, fold, is_complete)
        odds = log_odds(objective.class_shares(theta, shares))
        own = {"noise": noise, "log_odds": odds, "one_shot": True}
        return LinearFit(coef, intercept, n_iter, **own)


def _curvature(n_classes: int) -> float:
    """Return the variance of a label at zero weights: the curvature of the loss."""
    return (1 - 1 / n_classes) / n_classes
