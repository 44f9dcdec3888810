"""The method of second moments: regression from one release."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.estimators.linear_model import least_squares
from skfdp.estimators.linear_model.one_release import OneRelease
from skfdp.estimators.method import Plan
from skfdp.privacy.relations import Relation
from skfdp.queries import moments
from skfdp.queries.losses import Loss
from skfdp.queries.moments import MomentSum
from skfdp.records.coordinates import Coordinates
from skfdp.records.records import Records
from skfdp.records.target import TargetMap
from skfdp.releases.desk import Desk

#: Targets beyond this many spreads are clipped; rows longer than this many mean
#: lengths are shortened, their target with them.
TARGET_REACH, ROW_REACH = 2.0, 1.0


@dataclasses.dataclass(frozen=True)
class SecondMoments(OneRelease):
    """One release of second moments, then least squares in public."""

    label = "second moments"

    def _bounds(self, relation: Relation) -> tuple[float, float]:
        query = MomentSum.planned()
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
        bias = [] if coordinates.bias is None else [coordinates.bias]
        X, mapped, target = records.X, records.mapped, records.target

        def joined(block: slice) -> np.ndarray:
            rows = mapped[block] - coordinates.mean
            rows *= coordinates.scale / ROW_REACH
            last = np.tile(bias, (len(rows), 1)) if bias else np.empty((len(rows), 0))
            return np.column_stack([rows, last, target[block] / TARGET_REACH])

        n_columns = X.shape[1] + len(bias)
        query = MomentSum.build(len(X), n_columns + 1, joined, records.public.capacity)
        total = desk.release(self.label, query)
        gram, cross = moments.unpacked(total, n_columns)
        noise_std = float(plan.schedule.noise_std[0])
        penalty = self._penalty(coordinates, n_columns, noise_std)
        theta = least_squares.ridge(gram, cross, penalty)
        theta[: X.shape[1]] /= ROW_REACH
        return theta[None] * TARGET_REACH, 1

    def _penalty(
        self, coordinates: Coordinates, n_columns: int, noise_std: float
    ) -> np.ndarray:
        """Return the penalty of each column; a number for alpha is the user's."""
        if self.scales.alpha is None:
            size = least_squares.noise_penalty(n_columns, noise_std / moments.PAIR)
            return np.full(n_columns, size)
        # The noisy matrix may be singular; this keeps every weight finite.
        penalty = np.full(n_columns, 1e-3)
        n_features = len(coordinates.mean)
        factor = coordinates.scale / ROW_REACH / coordinates.row_map.divisor
        penalty[:n_features] += self.scales.alpha * factor**2
        return penalty
