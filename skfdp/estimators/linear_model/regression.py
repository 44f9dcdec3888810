"""The regressors' part: target bounds, released scales, alpha, and predictions."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import RegressorMixin

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.descent import Problem, Training
from skfdp.estimators.linear_model.linear import STRONGEST, DPLinearModel
from skfdp.estimators.parameters import ASSUMPTIONS
from skfdp.privacy import Event
from skfdp.privacy.assumptions import TARGET_CLIPPED
from skfdp.privacy.report import Assumption, enforced
from skfdp.queries.losses import REGRESSION_LOSSES, huber
from skfdp.queries.statistics import RowSum
from skfdp.records.blocks import row_blocks, squared_norms
from skfdp.records.checks import check_choice, check_number, check_size
from skfdp.records.coordinates import Coordinates
from skfdp.records.guards import without_traps
from skfdp.records.row_map import RowMap
from skfdp.records.target import (
    SPREAD,
    TargetMap,
    check_target,
    check_target_bounds,
    check_unbounded,
    exact_map,
)
from skfdp.releases.desk import Desk

# Margins of a log link beyond this overflow float64.
_LARGEST_MARGIN = 700.0


class DPLinearRegressor(RegressorMixin, DPLinearModel):
    """The regressors' part: a target in public bounds, scaled by released numbers.

    A few numbers are released before the loop, in one event: the target's mean, its
    mean absolute deviation (not with a log link) and the mean length of the centred
    rows. They give the loop rows and targets of size 1, whatever the declared bounds.
    """

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
        check_size("huber_threshold", self.huber_threshold)
        check_target_bounds(self.target_bounds, self.loss, self._needs_bounds)

    @property
    def _needs_bounds(self) -> bool:
        return math.isfinite(self.epsilon) and not self.public_target

    def _resolve_target(self, y: np.ndarray) -> dict:
        bounds = None if math.isinf(self.epsilon) else self.target_bounds
        low, high = check_target_bounds(bounds, self.loss, self._needs_bounds)
        y = check_target(y, self.loss, bounds is not None)
        if math.isinf(high):
            check_unbounded(y)
        loss = REGRESSION_LOSSES[self.loss]
        # The threshold is in the target's units, and what these are in the loop is not
        # known before `_scaled`.
        return {
            "target": y,
            "classes": None,
            "classes_source": None,
            "loss": huber(math.inf) if self.loss == "huber" else loss,
            "class_weight": None,
            "target_map": TargetMap(log=self.loss == "poisson", low=low, high=high),
        }

    def _penalty_strength(self, problem: Problem, auto: float | None) -> float | None:
        alpha = auto if self.alpha == "auto" else self.alpha
        if alpha is None:
            return None
        # |w|**2 and the loss both scale with the square of the unit, but for a log
        # link, where w does not scale and the loss does linearly.
        if problem.target_map.log:
            return min(alpha / problem.target_map.scale, STRONGEST)
        return min(alpha / problem.n_public, STRONGEST)

    def scale_events(self, problem: Problem, mu: float, reach: float, facts: dict):
        """Return the events of the target's scales and of the rows' length."""
        share = defaults.mean_fraction(mu, problem.n_public, 1)

        def event(label: str, n_releases: int) -> Event:
            std = math.sqrt(1 / share) / mu
            return Event(
                label=label,
                noise_std=(std,),
                clip_norm=1.0,
                sensitivity=reach,
                n_steps=n_releases,
                **facts,
            )

        n_target = 1 if problem.target_map.log else 2
        known = problem.public_target or self._fixed_scale(problem)
        return (
            None if known else event("target scale", n_target),
            None if problem.public.all() else event("row length", 1),
        )

    def _fixed_scale(self, problem: Problem) -> bool:
        """Whether the target keeps its unit: a scale of rates is an intercept."""
        return problem.target_map.log and not self.fit_intercept

    def _scaled(self, problem, training: Training | None, desk: Desk | None):
        """Return the problem with the target in the loop's units; releases them."""
        start = problem.target_map
        if self._fixed_scale(problem):
            found = start
        elif training is None or problem.public_target:
            found = exact_map(problem.target, start, self.fit_intercept)
        else:
            found = self._released_map(problem, training, desk)
        loss = problem.loss
        if loss.name == "huber":
            loss = huber(self.huber_threshold / found.scale)
        return dataclasses.replace(
            problem, target=found(problem.target), target_map=found, loss=loss
        )

    def _released_map(self, problem, training, desk) -> TargetMap:
        start = problem.target_map
        y, low, high = problem.target, start.low, start.high
        out = (desk, "target scale", problem)
        mean = self._released_mean(y, low, high, *out, stream="target mean")
        error = self._error(high - low, training.target_event, problem)
        if start.log:
            return dataclasses.replace(start, scale=max(mean, 2 * error))
        centre = mean if self.fit_intercept else 0.0
        furthest = max(high - centre, centre - low)
        deviation = self._released_mean(
            np.abs(np.clip(y, low, high) - centre),
            0.0,
            furthest,
            *out,
            stream="target spread",
        )
        error = self._error(furthest, training.target_event, problem)
        scale = SPREAD * max(deviation, 2 * error)
        return dataclasses.replace(start, centre=centre, scale=scale)

    @staticmethod
    def _error(span: float, event: Event, problem: Problem) -> float:
        """Return the standard deviation of what `_released_mean` returns."""
        return span / 2 * event.noise_std[0] / problem.n_public

    @staticmethod
    def _released_mean(values, low, high, desk, label, problem, stream=None) -> float:
        """Return the noisy mean of numbers within public bounds.

        The sum of ``(value - middle) / half`` moves by at most 1 if a value is nulled
        (counts as the middle), and by at most 2 if it is replaced.
        """
        middle, half = (low + high) / 2, (high - low) / 2
        unit = (np.clip(values, low, high) - middle) / half
        query = RowSum(unit[:, None], RowMap(), problem.capacity)
        total = desk.release(label, query, stream=stream)
        return middle + half * float(np.clip(total[0] / problem.n_public, -1, 1))

    def _coordinates(self, problem, training, desk) -> Coordinates:
        """Centre as every estimator does, then give the rows a mean length of 1.

        A private block is at most 1 long, and at most ``1 + |mean|`` from the mean.
        """
        found = super()._coordinates(problem, training, desk)
        public, X = problem.public, problem.X
        columns = np.ones_like(public) if public.all() else ~public
        mean = found.mean[columns]
        lengths = np.empty(X.shape[0])
        for block in row_blocks(X):
            rows = problem.row_map.unit(X[block])[:, columns]
            lengths[block] = _distances(rows, mean)
        if public.all():
            length = float(lengths.mean()) or 1.0
        else:
            furthest = 1 + float(np.linalg.norm(mean))
            out = (desk, "row length", problem)
            length = self._released_mean(lengths, 0.0, furthest, *out)
            error = self._error(furthest, training.length_event, problem)
            length = max(length, 2 * error)
        scale: float | np.ndarray = 1 / length
        if public.any() and not public.all():
            _, theirs = training.block_norms
            scale = np.where(public, found.scale, theirs / length)
        return Coordinates.centred(
            found.row_map,
            found.mean,
            scale,
            defaults.BIAS_FEATURE if self.fit_intercept else None,
        )

    def _fitted(self, problem, coef, intercept, n_iter) -> dict:
        coef, intercept = problem.target_map.coefficients(coef, intercept)
        fitted = super()._fitted(problem, coef[0], intercept[0], n_iter)
        return {**fitted, "target_map_": problem.target_map}

    _released = ("coef_", "intercept_", "n_iter_", "target_map_")
    baseline = "the mean target"

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


def _distances(rows: np.ndarray | csr_array, mean: np.ndarray) -> np.ndarray:
    """Return the distance of each row from the mean; CSR rows are not filled in."""
    if issparse(rows):
        squares = rows.multiply(rows).sum(axis=1) - 2 * (rows @ mean) + mean @ mean
        return np.sqrt(np.maximum(squares, 0.0))
    return np.sqrt(squared_norms(rows - mean))
