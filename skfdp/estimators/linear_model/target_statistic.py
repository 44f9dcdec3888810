"""The method of one target statistic: label-DP for squared error and Poisson.

Every column is public and only the target is private, so that the private part of a
weighted canonical GLM is linear in the weights,

    sum of weight_i a(w . x_i) - w . S,        S = sum of weight_i x_i y_i,

and S is released once. The weights are public, ``min(1, 1 / |x_i|)``, and bound the
contributions without bending the model.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.optimize import minimize

from skfdp.estimators.linear_model.one_release import OneRelease
from skfdp.estimators.method import Plan
from skfdp.privacy.relations import Relation
from skfdp.queries.losses import Loss
from skfdp.queries.statistics import TargetSum
from skfdp.records.blocks import blocks
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GRID, GridRows
from skfdp.records.records import Records
from skfdp.records.row_map import RowMap
from skfdp.records.target import TargetMap
from skfdp.releases.desk import Desk

#: Penalties to compare, over the noise per record.
PENALTIES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
#: Targets beyond this many spreads, or counts beyond this many means, are clipped.
TARGET_REACH, COUNT_REACH = 2.0, 10.0


@dataclasses.dataclass(frozen=True)
class TargetStatistic(OneRelease):
    """The method of one target statistic."""

    label = "target statistic"

    def _bounds(self, relation: Relation) -> tuple[float, float]:
        query = TargetSum.planned()
        return query.clip_norm, query.sensitivity(relation)

    def _solve(
        self,
        records: Records,
        loss: Loss,
        coordinates: Coordinates,
        plan: Plan,
        target_map: TargetMap,
        desk: Desk,
    ) -> tuple[np.ndarray, int]:
        low, high = _reach(target_map, self.scales.fit_intercept)
        middle, half = (high + low) / 2, (high - low) / 2
        rows = coordinates.grid(records.mapped)
        short = _shortened(rows)
        query = TargetSum(short, (records.target - middle) / half)
        total = desk.release(self.label, query)
        n = len(records.X)
        public = sum(
            short.values[block].sum(axis=0, dtype=np.int64)
            for block in blocks(*short.values.shape)
        )
        statistic = (half * total[0] + middle * GRID * public) / n
        model = PublicPart(rows, loss)
        strength = self.scales.penalty(target_map, records.public.n_records)
        if strength is None:
            std = half * float(plan.schedule.noise_std[0]) / n
            theta, n_iter = _choose(model, statistic, std, self.max_iter)
        else:
            penalty = coordinates.penalty_curvature(strength)
            # A noisy statistic may ask for infinite weights; this keeps them finite.
            start = np.zeros(len(statistic))
            theta, n_iter = model.minimise(
                statistic, penalty + 1e-8, start, self.max_iter
            )
        return theta[None], n_iter


def _reach(units: TargetMap, fit_intercept: bool) -> tuple[float, float]:
    """Return the bounds of the target in the loop's units; they are public."""
    low, high = units(np.array([units.low, units.high]))
    if units.log:
        return low, min(high, COUNT_REACH) if fit_intercept else high
    return max(low, -TARGET_REACH), min(high, TARGET_REACH)


def _shortened(rows: GridRows) -> GridRows:
    """Return the rows times their weights, at most of norm 1."""
    row_map = RowMap()  # cuts to norm 1
    return GridRows.build(rows.values, lambda block: row_map.mapped(block * rows.unit))


class PublicPart:
    """``mean of weight a(w . x)`` over public rows, and its minimisers.

    Parameters
    ----------
    rows : GridRows
    loss : Loss
        Squared error or Poisson: a is its value at target 0.
    """

    def __init__(self, rows: GridRows, loss: Loss):
        self._rows, self._loss = rows, loss
        length = np.sqrt(rows.squared_norms) * rows.unit
        self._weight = 1 / np.maximum(1.0, length) / len(length)

    def _blocks(self, theta: np.ndarray):
        for block in blocks(*self._rows.values.shape):
            x = self._rows.values[block] * self._rows.unit
            yield x, (x @ theta)[:, None], self._weight[block], np.zeros(len(x))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean and its gradient."""
        value, gradient = 0.0, np.zeros(len(theta))
        for x, margins, weight, zeros in self._blocks(theta):
            value += float(weight @ self._loss.value(margins, zeros))
            gradient += (weight * self._loss.residual(margins, zeros)[:, 0]) @ x
        return value, gradient

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Return the mean of weight a'' x x'; a'' is 1, or the rate of a Poisson."""
        total = np.zeros((len(theta), len(theta)))
        for x, margins, weight, zeros in self._blocks(theta):
            if self._loss.name == "poisson":
                weight = weight * self._loss.residual(margins, zeros)[:, 0]
            total += (x * weight[:, None]).T @ x
        return total

    def minimise(
        self, statistic: np.ndarray, penalty: np.ndarray, start: np.ndarray, most: int
    ) -> tuple[np.ndarray, int]:
        """Minimise ``mean - w . statistic + sum of penalty w**2 / 2``."""

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value_and_gradient(theta)
            value += float(penalty @ theta**2) / 2 - float(theta @ statistic)
            return value, gradient + penalty * theta - statistic

        options = {"maxiter": most, "maxfun": 10**7, "ftol": 1e-12, "gtol": 1e-8}
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        return found.x, int(found.nit)


def _choose(
    model: PublicPart, statistic: np.ndarray, noise_std: float, most: int
) -> tuple[np.ndarray, int]:
    """Choose the penalty by Stein's lemma, for free.

    For Gaussian noise Z in the statistic S, ``E <w(S), Z> = std**2 E div w(S)`` (Stein
    1981), and the divergence is the trace of the inverse Hessian. So the risk of w on
    the exact statistic has an unbiased estimate, from released numbers. That estimate
    is noisy itself, so penalties below ``std**2`` are left out: they would fit weights
    of size 1, the largest to be expected for a target of spread 1.
    """
    d = len(statistic)
    best, least, theta, steps = np.zeros(d), np.inf, np.zeros(d), 0
    for factor in sorted(PENALTIES, reverse=True):
        penalty = np.full(d, max(factor * noise_std, noise_std**2))
        theta, n_iter = model.minimise(statistic, penalty, theta, most)
        steps += n_iter
        inverse = np.linalg.inv(model.hessian(theta) + np.diag(penalty))
        risk = model.value_and_gradient(theta)[0] - float(theta @ statistic)
        risk += noise_std**2 * float(np.trace(inverse))
        if risk < least:
            best, least = theta, risk
    return best, steps
