r"""The loss of label-DP, given the released label statistic; all of it public.

.. math:: \frac1n \sum_i w_i a(\theta \phi_i) - \langle \theta, S \rangle / n
          + \theta^\top P \theta / 2
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize

from skfdp.queries.losses import Loss
from skfdp.records.blocks import blocks

#: The scale of the prior that is expected, and the spread of its logarithm.
USUAL, SPREAD = 1 / 3, math.log(10)
#: Fits whose curvature gives the penalty of the next.
ROUNDS = 2
#: Constant terms beyond which the barrier is linear.
FAR = 30.0


@dataclasses.dataclass(frozen=True)
class Barrier:
    r"""A penalty that keeps noisy class frequencies away from zero.

    Let p be the frequency of a class, known up to noise of standard deviation s, and c
    the constant term of its margin. If all frequencies are equally likely before, the
    density of c is highest where ``(p - noisy p) p (1 - p) = s**2 (1 - 2 p)``. So
    without features the penalty is ``s**2 (exp(c) + exp(-c))``: a noisy frequency of
    zero becomes s. It vanishes with the noise.

    Attributes
    ----------
    bias : float
        Value of the constant column.
    strength : float
    """

    bias: float
    strength: float

    @classmethod
    def of(
        cls, bias: float | None, noise_std: float, weight: float, n_outputs: int
    ) -> Barrier | None:
        """Return the barrier of a statistic with this noise per record, if any.

        `weight` is the mean of the records' weights.
        """
        if bias is None:
            return None
        # The statistic tells ``bias * mean weight * p``. With many classes the slope
        # is s**2 / p, and the sum of exp(c) is about their number.
        strength = (noise_std / bias) ** 2 / weight * n_outputs
        return cls(bias, strength)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalty of the weights of the constant column, and its slope."""
        c = self.bias * theta
        c = np.r_[c, -c] if len(c) == 1 else c - c.mean()
        # Linear far out, where exp would overflow.
        power = np.exp(-np.maximum(c, -FAR))
        value = self.strength * float((power * (1 + np.maximum(0.0, -FAR - c))).sum())
        slope = -self.strength * self.bias * power
        return value, slope[:1] - slope[1:] if len(theta) == 1 else slope - slope.mean()


@dataclasses.dataclass(frozen=True)
class Objective:
    """``mean w a(theta phi) - <theta, S> / n + theta' P theta / 2``.

    Attributes
    ----------
    rows : float ndarray of shape (n_rows, n_columns)
        Public rows ``w_i phi_i``.
    weight : ndarray of shape (n_rows,)
        w, times what the row counts in the mean.
    loss : Loss
    penalty : ndarray of shape (n_columns, n_columns)
        P, per record.
    barrier : Barrier or None
        Of the weights of the last column.
    n_records : float or None
        n, what the mean divides by; None: the number of rows.
    """

    rows: np.ndarray
    weight: np.ndarray
    loss: Loss
    penalty: np.ndarray
    barrier: Barrier | None = None
    n_records: float | None = None

    @property
    def n(self) -> float:
        """What the mean divides by."""
        return len(self.rows) if self.n_records is None else self.n_records

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
            gradient += pulled - statistic
            if self.barrier is not None:
                more, slope = self.barrier(theta[:, -1])
                value += more
                gradient[:, -1] += slope
            return value, gradient.ravel()

        found = minimize(
            value_and_gradient,
            np.zeros(shape).ravel() if start is None else start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxfun": 10**7, "ftol": 1e-10, "gtol": 1e-7},
        )
        return found.x.reshape(shape), int(found.nit)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of ``mean w a``: the statistic that theta expects."""
        return self._mean(theta)[1]

    def curvature(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return diagonals: of the Hessian, and of the variance of S / n by chance.

        Without the penalty, and the mean over the outputs.
        """
        hessian, variance = np.zeros((2, self.rows.shape[1]))
        for block, margins in self._margins(theta):
            spread = _label_variance(margins)
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
    """Return a: log-sum-exp less the mean margin; over +-m/2 for one output."""
    if margins.shape[1] == 1:
        return np.logaddexp(margins[:, 0] / 2, -margins[:, 0] / 2)
    largest = margins.max(axis=1)
    total = np.exp(margins - largest[:, None]).sum(axis=1)
    return largest + np.log(total) - margins.mean(axis=1)


def _label_variance(margins: np.ndarray) -> np.ndarray:
    """Return the variance of a centred label, the mean over the outputs."""
    if margins.shape[1] == 1:
        return 0.25 - np.tanh(margins[:, 0] / 2) ** 2 / 4
    odds = np.exp(margins - margins.max(axis=1)[:, None])
    square = (odds**2).sum(axis=1) / odds.sum(axis=1) ** 2
    return (1 - square) / margins.shape[1]


def denoised(statistic: np.ndarray) -> np.ndarray:
    """Project S onto what is known of it: its sum over the classes is zero."""
    if len(statistic) == 1:
        return statistic
    return statistic - statistic.mean(axis=0)


@dataclasses.dataclass(frozen=True)
class Prior:
    """A normal prior of the weights, whose scale the release chooses, for free.

    Attributes
    ----------
    variance : ndarray of shape (n_columns,)
        Of a weight, up to the scale.
    varying : bool ndarray of shape (n_columns,)
        The columns to which the scale applies: not the constant one.
    noise_std : float
        Of the released statistic, per record.

    Notes
    -----
    Near the null model, the one of the constant column alone, what the statistic has
    beyond it is linear in the weights, ``A theta`` per record, up to the noise of the
    release and the chance of the labels: both of known variance, N together. So each
    entry is normal of variance ``A**2 t T + N``, and the scale t is the mode of its
    posterior. Its logarithm has a wide prior, which only matters where the noise drowns
    everything.

    The penalty ``N / (A t T)`` makes the best linear estimate of the weights. A and N
    are then taken at the model that was found: labels that are nearly certain tell
    little more about the weights, but the noise stays what it is. The scale is never
    fitted to the weights that were found: they are the larger the noisier they are, and
    such rounds do not end.
    """

    variance: np.ndarray
    varying: np.ndarray
    noise_std: float

    def minimise(
        self, objective: Objective, statistic: np.ndarray, max_iter: int
    ) -> tuple[np.ndarray, int, Objective]:
        """Return theta, the iterations and what was minimised; statistic is S / n."""
        theta, steps = self._null(objective, statistic), 0
        found = objective.curvature(theta)
        beyond = statistic - objective.gradient(theta)
        variance = self.variance * self._scale(beyond, *found)
        for last in (False,) * ROUNDS + (True,):
            first, chance = found
            penalty = (self.noise_std**2 + chance) / (first * variance)
            penalty = np.where(self.varying, penalty, 0.0)
            tried = dataclasses.replace(objective, penalty=np.diag(penalty))
            theta, n_iter = tried.minimise(statistic, theta, max_iter if last else 100)
            found, steps = objective.curvature(theta), steps + n_iter
        return theta, steps, tried

    def _null(self, objective: Objective, statistic: np.ndarray) -> np.ndarray:
        """Return the model of the constant column alone."""
        theta, constant = np.zeros(statistic.shape), ~self.varying
        if constant.any():
            rows, none = objective.rows[:, constant], np.zeros((1, 1))
            alone = dataclasses.replace(objective, rows=rows, penalty=none)
            theta[:, constant], _ = alone.minimise(statistic[:, constant], None, 100)
        return theta

    def _scale(
        self, statistic: np.ndarray, first: np.ndarray, chance: np.ndarray
    ) -> float:
        """Return t, given what the statistic has beyond the null model."""
        free = self.varying
        scales = np.geomspace(1e-3, 1e3, 61)
        signal = (first**2 * self.variance)[free]
        expected = self.noise_std**2 + chance[free] + scales[:, None] * signal
        # The entries of many classes sum to zero.
        n_outputs = max(1, len(statistic) - 1)
        squares = (statistic[:, free] ** 2).sum(axis=0)
        loss = (n_outputs * np.log(expected) + squares / expected).sum(axis=1)
        loss += (np.log(scales / USUAL) / SPREAD) ** 2
        return float(scales[np.argmin(loss)])
