"""The method of second moments: least squares from two releases.

What is public of a record, z (a constant among it), is exact and free in every product
with itself. What is private is released in two steps: the products of the private
columns p and a private target y with z, which project both onto z; then the second
moments of what is left of them,

    p~ = p - B z,    y~ = y - C z,    prediction = C z + b p~.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model import least_squares, moment_noise
from skfdp.estimators.linear_model.one_release import OneRelease, PublicMoments
from skfdp.estimators.linear_model.public_side import PublicSide
from skfdp.estimators.linear_model.shares import MomentRules
from skfdp.estimators.method import Budget, Plan, existing
from skfdp.privacy import Event
from skfdp.privacy.relations import Relation
from skfdp.queries import moments
from skfdp.queries.losses import Loss
from skfdp.queries.moments import MomentSum, OuterSum
from skfdp.records.blocks import blocks, squared_norms
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GRID
from skfdp.records.records import PublicRecords, Records
from skfdp.records.target import SPREAD, TargetMap
from skfdp.releases.desk import Desk

_CROSS = "cross moments"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MomentPlan(Plan):
    """A plan with the public numbers of the method.

    Attributes
    ----------
    rules : MomentRules
    """

    rules: MomentRules


@dataclasses.dataclass(frozen=True)
class _Table:
    """A table in the coordinates of the loop, in blocks of rows."""

    records: Records
    coordinates: Coordinates

    def _rows(self, block: slice, columns: np.ndarray) -> np.ndarray:
        found = self.coordinates
        rows = (self.records.mapped[block] - found.mean) * found.scale
        return rows[:, columns]

    def public(self, block: slice) -> np.ndarray:
        """Return the public columns of some records."""
        public, found = self.records.public, self.coordinates
        mask = public.mask
        if not mask.any():
            # The number of records may be private, and is that of the slice here.
            return np.empty((len(range(len(self.records.X))[block]), 0))
        scale = np.broadcast_to(found.scale, mask.shape)[mask]
        return (public.mapped[block] - found.mean[mask]) * scale

    def private(self, block: slice) -> np.ndarray:
        """Return the private columns of some records."""
        return self._rows(block, ~self.records.public.mask)


@dataclasses.dataclass(frozen=True)
class SecondMoments(OneRelease):
    """Cross moments with what is public, then second moments of the rest."""

    label = "second moments"

    def _bounds(self, relation: Relation) -> tuple[float, float]:
        query = MomentSum.planned()
        return query.clip_norm, query.sensitivity(relation)

    def _norms(self, public: PublicRecords) -> tuple[float, float]:
        return 1.0, 1.0  # each block is bounded by itself

    def plan(
        self, public: PublicRecords, prepared: PublicMoments, budget: Budget
    ) -> MomentPlan:
        """Calibrate the two releases, beside the mean and the scales."""
        mu = budget.mu / budget.relation.moves(1.0)
        rules = MomentRules.of(public, mu, self.scales.fit_intercept)
        target = self.scales.event(public, budget, mu, rules.scale_share)
        centring = self.centring
        if centring.mean_fraction == "auto":
            share = rules.hope * defaults.mean_fraction(
                mu, public.n_effective, rules.n_private
            )
            centring = dataclasses.replace(centring, mean_fraction=share)
        others = existing(target, *centring.events(public, budget, mu))
        if rules.n_public:
            query = OuterSum.planned()
            left = 1 - sum(_share(event, budget) for event in others)
            moved = query.sensitivity(budget.relation)
            event = budget.event(
                _CROSS,
                moved / (math.sqrt(left * rules.cross_share) * budget.mu),
                sensitivity=moved,
            )
            others = (*others, event)
        clip_norm, sensitivity = self._bounds(budget.relation)
        schedule = budget.calibrate(
            n_steps=1,
            clip_norm=clip_norm,
            sensitivity=sensitivity,
            other_events=others,
        )
        event = budget.named(schedule, self.label)
        return MomentPlan(events=(*others, event), schedule=schedule, rules=rules)

    def _solve(
        self,
        records: Records,
        loss: Loss,
        coordinates: Coordinates,
        plan: MomentPlan,
        target_map: TargetMap,
        desk: Desk,
    ) -> tuple[np.ndarray, int, np.ndarray]:
        fit = _Fit.start(self, records, coordinates, plan, target_map)
        fit = fit.with_projection(desk)
        gram, cross = fit.release_rest(desk)
        strength = self.scales.penalty(target_map, records.public.total_weight)
        if strength is None:
            b, inverse = least_squares.on_noisy(
                gram, cross, fit.pair_std, fit.cross_std, fit.least
            )
            weights = fit.C - b @ fit.B
            stds = fit.pair_std, fit.cross_std
            noise = moment_noise.of_solved(fit.found, fit.B, b, inverse, *stds)
        else:
            curvature = coordinates.penalty_curvature(strength)
            weights, b, noise = fit.penalised(gram, cross, curvature)
        ends = np.split(np.eye(len(noise)), [len(weights)], axis=1)
        J = np.vstack([fit.theta(*one) for one in zip(*ends, strict=True)])
        return fit.theta(weights, b), 1, J.T @ noise @ J


@dataclasses.dataclass(frozen=True)
class _Fit:
    """One fit on its way; what is in it is released or public, but for the table.

    Attributes
    ----------
    table : _Table
    plan : MomentPlan
    side : PublicSide
    furthest : float
        Bound of a private row, in the loop's coordinates.
    reach : (float, float)
        Bounds of the target, in the loop's units.
    prior : (float, float)
        Variances of the errors of the means of the target and of a private column.
    least : float
        Least variance of the target that its released spread leaves room for.
    S, B : ndarray of shape (n_private, n_columns)
        Released products of p and z, per record, and the projection of p onto z.
    T, C : ndarray of shape (n_columns,)
        The same for y.
    found : Projection
        The noise in S and T.
    """

    table: _Table
    plan: MomentPlan
    side: PublicSide
    furthest: float
    reach: tuple[float, float]
    prior: tuple[float, float]
    least: float
    S: np.ndarray | None = None
    B: np.ndarray | None = None
    T: np.ndarray | None = None
    C: np.ndarray | None = None
    found: moment_noise.Projection | None = None

    @classmethod
    def start(cls, method, records, coordinates, plan, target_map) -> _Fit:
        """Learn what is public and find the reaches; nothing private is read."""
        public, table = records.public, _Table(records, coordinates)
        mask, n = public.mask, public.n_records
        side = PublicSide.learn(
            table.public,
            (len(records.X), int(mask.sum())),
            intercept=method.scales.fit_intercept,
            signal=plan.rules.signal,
            shares=public.shares,
        )
        scale = float(np.broadcast_to(coordinates.scale, mask.shape)[~mask][0])
        longest = public.longest_private
        if public.row_map.normalize and math.isfinite(longest):
            longest = 1.0
        away = float(np.linalg.norm(coordinates.mean[~mask]))
        furthest = scale * (longest + away)
        target = plan.event("target scale")
        low, high = target_map(np.array([target_map.low, target_map.high]))
        least = 1.0
        # The released mean is one of rows that were cut: off by its noise, and by more.
        off = (coordinates.mean_error * scale) ** 2
        known = 0.0, max(off, 0.25 / max(1, public.n_private))
        if target is not None:
            error = target.noise_std[0] / n
            known = ((high - low) / 2 * error) ** 2, known[1]
            # The spread is 1, by a released number whose error is public.
            error *= SPREAD * max(-low, high) / 2
            least = max(0.0, 1 - 1.5 * error) ** 2
        return cls(table, plan, side, furthest, (low, high), known, least)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.table.records.public.n_records

    @property
    def _target(self) -> np.ndarray:
        return self.table.records.target

    @property
    def _rest_scale(self) -> float:
        # In units of `MomentSum`, per record.
        return float(self.plan.schedule.noise_std[0]) / self.n

    @property
    def _reaches(self) -> tuple[float, float]:
        rules = self.plan.rules
        target = 1 + max(map(abs, self.reach))
        return min(rules.square_reach, self.furthest), min(rules.target_reach, target)

    @property
    def pair_std(self) -> float:
        """Noise of the second moments beside the diagonal, per record."""
        return self._rest_scale * self._reaches[0] ** 2 / moments.PAIR

    @property
    def cross_std(self) -> float:
        """Noise of their products with the target, per record."""
        return self._rest_scale * math.prod(self._reaches) / moments.CROSS

    def with_projection(self, desk: Desk) -> _Fit:
        """Release the products with z; project p and y onto z."""
        public, side = self.table.records.public, self.side
        k, event = len(side.moments), self.plan.event(_CROSS)
        if event is None:
            none = np.zeros((public.n_private, k)), np.zeros(k)
            found = moment_noise.Projection.none(k)
            return dataclasses.replace(
                self, S=none[0], B=none[0], T=none[1], C=none[1], found=found
            )
        rules = self.plan.rules
        share = 0.0 if public.has_target else rules.target_share
        row_reach = min(rules.row_reach, self.furthest)
        low = max(self.reach[0], -rules.target_reach)
        high = min(self.reach[1], rules.target_reach)
        middle, half = (high + low) / 2, (high - low) / 2
        units = math.sqrt(1 - share) / row_reach, math.sqrt(share) / half
        query = self._outer(units, row_reach, (middle, half), not public.has_target)
        found = desk.release(_CROSS, query).T / self.n
        noise = event.noise_std[0] / self.n
        S, row_std = found[: public.n_private] / units[0], noise / units[0]
        fixed = self._fixed(row_std, 1)
        B, of_rows = least_squares.on_exact(
            side.moments, S, row_std, fixed, variance=1.0
        )
        if public.has_target:
            T, C = self._exact_projection()
            std, of_target = 0.0, np.zeros((k, k))
        else:
            T, std = found[-1] / units[1] + middle * self._totals(), noise / units[1]
            fixed = self._fixed(std, 0)
            (C,), of_target = least_squares.on_exact(
                side.moments, T[None], std, fixed, variance=self.least
            )
        own = moment_noise.Projection(row_std, std, of_rows, of_target)
        return dataclasses.replace(self, S=S, B=B, T=T, C=C, found=own)

    def _fixed(self, std: float, which: int) -> np.ndarray:
        """Return the penalty of the constant: its mean is known up to an error."""
        fixed = np.full(len(self.side.moments), np.nan)
        for i, constant in enumerate(self.side.constant):
            prior = self.prior[which] / constant**2
            fixed[i] = min(std**2 / max(prior * self.side.moments[i, i], 1e-12), 1e6)
        return fixed

    def _totals(self) -> np.ndarray:
        """Return the mean of the weighted z; exact."""
        side = self.side
        if not side.basis.shape[1]:
            return side.constant
        values, units = side.grid.values, self.table.records.public.units
        if units is None:
            return values.sum(axis=0, dtype=np.int64) * GRID / self.n
        return (units.weights @ values) * (GRID * units.step / self.n)

    def _outer(self, units, row_reach, interval, with_target) -> OuterSum:
        records, table = self.table.records, self.table

        def joined(index: slice | np.ndarray) -> np.ndarray:
            p = table.private(index)
            longer = np.sqrt(squared_norms(p)) / row_reach
            p = p * (units[0] / np.maximum(longer, 1.0))[:, None]
            if not with_target:
                return p
            y = np.clip(self._target[index] - interval[0], -interval[1], interval[1])
            return np.column_stack([p, y * units[1]])

        width = records.public.n_private + with_target
        capacity = records.public.capacity
        return OuterSum(joined, width, self.side.grid.values, capacity)

    def _exact_projection(self) -> tuple[np.ndarray, np.ndarray]:
        """Return T and C of a public target: the free model, no row shortened."""
        side, y = self.side, self._target
        share = self.table.records.public.row_shares
        k = len(side.moments)
        weighted, gram, cross = np.zeros(k), np.zeros((k, k)), np.zeros(k)
        for block in blocks(len(y), max(k, self.table.records.X.shape[1])):
            z, own = side.rows(self.table.public(block)), y[block] * share[block]
            weighted += own @ (side.grid.values[block] * GRID)
            cross = cross + own @ z
            z = z * np.sqrt(share[block, None])
            gram = gram + z.T @ z
        ridge = 1e-9 * np.trace(gram) * np.eye(k)
        return weighted / self.n, np.linalg.solve(gram + ridge, cross)

    def release_rest(self, desk: Desk) -> tuple[np.ndarray, np.ndarray]:
        """Release the second moments of p~, and its products with y~, per record."""
        records, side, table = self.table.records, self.side, self.table
        row_reach, target_reach = self._reaches
        d = records.public.n_private

        def joined(block: slice) -> np.ndarray:
            z = side.rows(table.public(block))
            p = (table.private(block) - z @ self.B.T) / row_reach
            y = (self._target[block] - z @ self.C) / target_reach
            return np.column_stack([p, y]) * np.sqrt(side.weight[block, None])

        capacity = records.public.capacity
        query = MomentSum.build(len(records.X), d + 1, joined, capacity)
        total = desk.release(SecondMoments.label, query) / self.n
        gram, cross = moments.unpacked(total, d)
        return gram * row_reach**2, cross * row_reach * target_reach

    def penalised(
        self, gram: np.ndarray, cross: np.ndarray, curvature: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights on z and p of the user's penalty, and their noise."""
        side, B, C = self.side, self.B, self.C
        D, E = self.S - B @ side.moments, self.T - C @ side.moments
        corner = gram + D @ B.T + B @ D.T + B @ side.moments @ B.T
        G = np.block([[side.moments, self.S.T], [self.S, corner]])
        c = np.r_[self.T, cross + B @ E + D @ C + B @ side.moments @ C]
        mask, k = self.table.records.public.mask, len(side.moments)
        on_u = np.hstack([np.zeros((len(side.basis), len(side.constant))), side.basis])
        d = len(mask)
        penalty = np.zeros(G.shape)
        penalty[:k, :k] = (on_u.T * curvature[:d][mask]) @ on_u
        penalty[k:, k:] = np.diag(curvature[:d][~mask])
        # The noisy matrix may be singular; this keeps every weight finite.
        floor = 1e-3 * least_squares.spectral_norm(d, self.pair_std) + 1e-9
        penalty[np.diag_indices(len(penalty))] += floor
        inverse = least_squares.ridge(G, np.eye(len(G)), penalty)
        weights, b = np.split(inverse @ c, [k])
        noise = moment_noise.of_penalised(
            self.found, B, C, weights, b, inverse, self.pair_std, self.cross_std
        )
        return weights, b, noise

    def theta(self, weights: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return theta of the coordinates, shape (1, n_columns)."""
        mask, bias = self.table.records.public.mask, self.table.coordinates.bias
        on_u, constant = self.side.fold(weights)
        out = np.zeros(len(mask) + (bias is not None))
        out[: len(mask)][mask], out[: len(mask)][~mask] = on_u, b
        if bias is not None:
            out[-1] = constant / bias
        return out[None]


def _share(event: Event, budget: Budget) -> float:
    """Return the share of ``mu**2`` that an event takes."""
    moved = event.sensitivity / event.noise_std[0]
    return event.n_steps * (moved / budget.mu) ** 2
