"""The method of one target statistic: label-DP for squared error and Poisson.

Every column is public and only the target is private, so that the private part of a
weighted canonical GLM is linear in the weights,

    sum of weight_i a(w . x_i) - w . S,        S = sum of weight_i x_i y_i,

and S is released once. The weights are public, ``min(1, reach / |x_i|)``, and bound the
contributions without bending the model. Reaches grow with the signal, more slowly than
the noise falls, so that the limit of a large budget is the unweighted model.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from scipy.optimize import minimize

from skfdp.estimators.linear_model.coefficient_noise import EXACT, FIRST_ORDER
from skfdp.estimators.linear_model.one_release import OneRelease
from skfdp.estimators.method import Plan
from skfdp.privacy.relations import Relation
from skfdp.queries.losses import Loss
from skfdp.queries.statistics import TargetSum
from skfdp.records.blocks import blocks, squared_norms
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GRID, GridRows
from skfdp.records.records import Records
from skfdp.records.target import TargetMap
from skfdp.records.units import FULL_WEIGHT, Units
from skfdp.releases.desk import Desk

#: Penalties to compare, over the noise per record.
PENALTIES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
#: Targets beyond this many spreads, or counts beyond this many means, are clipped, and
#: rows beyond this many mean lengths weigh less, where the signal is small.
TARGET_REACH, COUNT_REACH, ROW_REACH = 2.0, 10.0, 1.0
# Rows have a norm of at most 1 up to rounding; this covers the rounding.
_SHRINK = 1 - 1e-9


@dataclasses.dataclass(frozen=True)
class TargetStatistic(OneRelease):
    """The method of one target statistic."""

    label = "target statistic"

    def needs_whole_table(self) -> str | None:
        """Return what cannot be summed over partitions, None where all can."""
        return self.centring.needs_whole_table()

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
    ) -> tuple[np.ndarray, int, np.ndarray]:
        shares, units = records.public.row_shares, records.public.units
        n = float(shares.sum())
        table = records.public
        rows = coordinates.grid(table.X if table.sparse else table.mapped)
        # The noise is that of a sum of unit vectors, so that this is mu n per column.
        signal = n / float(plan.schedule.noise_std[0]) / rows.n_columns
        low, high = _target_reach(target_map, self.scales.fit_intercept, signal)
        middle, half = (high + low) / 2, (high - low) / 2
        reach = _row_reach(rows, signal)
        short = _shortened(rows, reach)
        recipe = functools.partial(
            _statistic,
            middle=middle,
            half=half,
            capacity=FULL_WEIGHT * rows.n_rows,
        )
        total = desk.release(self.label, records.query(recipe, rows=short))
        public = _sum_of(short, units)
        statistic = (half * total[0] + middle * GRID * public) * reach / n
        model = PublicPart(rows, loss, reach, shares)
        strength = self.scales.penalty(target_map, records.public.total_weight)
        std = reach * half * float(plan.schedule.noise_std[0]) / n
        if strength is None:
            theta, n_iter, penalty = _choose(model, statistic, std, self.max_iter)
        else:
            # A noisy statistic may ask for infinite weights; this keeps them finite.
            penalty = coordinates.penalty_curvature(strength) + 1e-8
            start = np.zeros(len(statistic))
            theta, n_iter = model.minimise(statistic, penalty, start, self.max_iter)
        inverse = np.linalg.inv(model.hessian(theta) + np.diag(penalty))
        return theta[None], n_iter, std**2 * inverse @ inverse

    @property
    def _kind(self) -> str:
        # The weights are linear in the statistic.
        fixed = self.loss.name == "squared_error" and self.scales.alpha is not None
        return EXACT if fixed else FIRST_ORDER


def _statistic(
    records: Records, rows: GridRows, middle: float, half: float, capacity: int
) -> TargetSum:
    """Return the target statistic of public rows; a recipe."""
    return TargetSum(rows, (records.target - middle) / half, capacity)


def _target_reach(
    units: TargetMap, fit_intercept: bool, signal: float
) -> tuple[float, float]:
    """Return the bounds of the target in the loop's units; they are public."""
    low, high = units(np.array([units.low, units.high]))
    grown = math.sqrt(signal / 20)
    if units.log:
        return low, min(high, max(COUNT_REACH, grown)) if fit_intercept else high
    reach = max(TARGET_REACH, grown)
    return max(low, -reach), min(high, reach)


def _row_reach(rows: GridRows, signal: float) -> float:
    """Return the length beyond which rows weigh less; the rows are public."""
    longest = math.sqrt(float(rows.squared_norms.max())) * rows.unit
    return min(max(ROW_REACH, (signal / 100) ** (1 / 3)), max(longest, ROW_REACH))


def _shortened(rows: GridRows, reach: float) -> GridRows:
    """Return the rows times their weights over the reach, at most of norm 1."""

    def short(values: np.ndarray) -> np.ndarray:
        x = values * rows.unit
        length = np.maximum(np.sqrt(squared_norms(x)), reach)
        return x * (_SHRINK / length)[:, None]

    return GridRows.build(rows.values, short)


def _sum_of(rows: GridRows, units: Units | None) -> np.ndarray:
    """Return the exact sum of rows in units of `GRID`, as the desk weighs them."""
    total = np.zeros(rows.values.shape[1], dtype=np.int64)
    for block in blocks(*rows.values.shape):
        weights = np.ones(1, dtype=np.int64) if units is None else units.weights[block]
        total += (rows.values[block] * weights[:, None]).sum(axis=0)
    return total if units is None else total * units.step


class PublicPart:
    """``mean of weight a(w . x)`` over public rows, and its minimisers.

    Parameters
    ----------
    rows : GridRows
    loss : Loss
        Squared error or Poisson: a is its value at target 0.
    reach : float
        Length beyond which rows weigh less.
    shares : float64 ndarray of shape (n_rows,)
        How often each row counts in the mean.
    """

    def __init__(self, rows: GridRows, loss: Loss, reach: float, shares: np.ndarray):
        self._rows, self._loss = rows, loss
        length = np.sqrt(rows.squared_norms) * rows.unit
        self._weight = reach / np.maximum(reach, length) * shares / shares.sum()

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
) -> tuple[np.ndarray, int, np.ndarray]:
    """Choose the penalty by Stein's lemma, for free; returned last.

    For Gaussian noise Z in the statistic S, ``E <w(S), Z> = std**2 E div w(S)`` (Stein
    1981), and the divergence is the trace of the inverse Hessian. So the risk of w on
    the exact statistic has an unbiased estimate, from released numbers. That estimate
    is noisy itself, so penalties below ``std**2`` are left out: they would fit weights
    of size 1, the largest to be expected for a target of spread 1.
    """
    d = len(statistic)
    best, chosen, least = np.zeros(d), np.zeros(d), np.inf
    theta, steps = np.zeros(d), 0
    for factor in sorted(PENALTIES, reverse=True):
        penalty = np.full(d, max(factor * noise_std, noise_std**2))
        theta, n_iter = model.minimise(statistic, penalty, theta, most)
        steps += n_iter
        inverse = np.linalg.inv(model.hessian(theta) + np.diag(penalty))
        risk = model.value_and_gradient(theta)[0] - float(theta @ statistic)
        risk += noise_std**2 * float(np.trace(inverse))
        if risk < least:
            best, chosen, least = theta, penalty, risk
    return best, steps, chosen
