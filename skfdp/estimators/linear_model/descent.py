"""The method of noisy descent: plan it, run it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model import (
    descent_noise,
    frequencies,
    logit_scale,
    shrinkage,
)
from skfdp.estimators.linear_model.centring import Centring
from skfdp.estimators.linear_model.coefficient_noise import CoefficientNoise
from skfdp.estimators.linear_model.descent_plan import (
    DescentPlan,
    DescentStart,
    bounded_by_labels,
)
from skfdp.estimators.linear_model.descent_sums import (
    gradients,
    joins_rows,
    public_gradient,
)
from skfdp.estimators.linear_model.fitted import LinearFit
from skfdp.estimators.linear_model.padding import Padding
from skfdp.estimators.linear_model.public_model import resolve_public_model
from skfdp.estimators.linear_model.public_regression import resolve_public_regression
from skfdp.estimators.linear_model.scales import TargetScales
from skfdp.estimators.method import Budget, OnStep, existing
from skfdp.estimators.parameters import Loop
from skfdp.privacy import Event, PrivacyPlan, assumptions
from skfdp.queries.linear import LinearQuery, gradient_sensitivity
from skfdp.queries.losses import Loss
from skfdp.queries.sensitivity import has_public_signs
from skfdp.records.coordinates import Coordinates
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.descent import descent
from skfdp.releases.desk import Desk
from skfdp.releases.steps import HeavyBall, Walk, warn_of_noise_left

#: What a report says where the bounds hold; the code enforces all of it.
ORTHANT = assumptions.enforced(assumptions.ORTHANT)
LABEL = assumptions.enforced(assumptions.LABEL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Descent:
    """Noisy descent of a linear model: DP-SGD, DPSGD-F, Algorithm 1 of paper 1.

    Attributes
    ----------
    loss : Loss
    loop : Loop
        With a number of rows, or None, as `batch_size`.
    centring : Centring
    penalty : float or None
        s of ``s / 2 |w|**2`` per record; None: none. A regression asks `scales`.
    scales : TargetScales or None
        Of a regression.
    padding : Padding or None
        Of a public loss that pads private columns.
    public_loss : callable or None
        A public loss of the user's own: its gradients in coef and intercept.
    public_batch_size : int or None
    private_weight : float
        Factor of the private gradient.
    public_model : "auto", classifier, regressor or None
        Where to start from.
    n_jobs : int
    """

    loss: Loss
    loop: Loop
    centring: Centring
    penalty: float | None = None
    scales: TargetScales | None = None
    padding: Padding | None = None
    public_loss: Callable | None = None
    public_batch_size: int | None = None
    private_weight: float = 1.0
    public_model: Any = None
    n_jobs: int = 1

    # -- in public -------------------------------------------------------------------
    def prepare(self, public: PublicRecords, budget: Budget) -> DescentStart:
        """Learn what is public: moments, a model of the public part, label rows."""
        if self.padding is not None and joins_rows(public):
            raise ValueError(
                f"public_loss={self.padding.kind!r} pads record by record, and with "
                "groups the rows of a person are clipped together: leave public_loss "
                "out, or keep one row of each person by max_rows_per_person=1."
            )
        found: dict[str, Any] = {"moments": self.centring.prepare(public)}
        if self.padding is not None:
            found["regressors"] = self.padding.prepare(public)
        if self._labels_alone(public):
            coordinates = self.centring.public_coordinates(public, found["moments"])
            found["coordinates"] = coordinates
            if budget.relation.replaces:
                found["rows"] = coordinates.grid(
                    public.X if public.sparse else public.mapped
                )
        model = self._public_model(public, budget)
        if model is not None:
            margins = model.training_margins(public.rows(), public.target, public.units)
            if not np.isfinite(margins).all():
                raise ValueError(
                    f"public_model={self.public_model!r} predicts margins that are not "
                    "finite: fit it on rows like those of row_map_, or scale it down."
                )
            found |= {"public_model": model, "offset": margins}
        return DescentStart(**found)

    def _labels_alone(self, public: PublicRecords) -> bool:
        """Whether this is label-DP of a classifier: the loop's rows are public."""
        return self.scales is None and bool(public.mask.all())

    def _public_model(self, public: PublicRecords, budget: Budget) -> Any:
        """Return the public model to start from; it needs a public target."""
        spec, automatic = self.public_model, isinstance(self.public_model, str)
        if spec is None or public.mask.all():
            return None
        if automatic and (not public.has_target or self.padding is not None):
            return None
        if automatic and not defaults.starts_at_public_model(
            budget.mu, public.n_records, public.n_classes, public.n_private
        ):
            return None
        if self.scales is not None:
            centred = self.scales.fit_intercept or not automatic
            return resolve_public_regression(spec, public) if centred else None
        return resolve_public_model(spec, public)

    def plan(
        self, public: PublicRecords, prepared: DescentStart, budget: Budget
    ) -> DescentPlan:
        """Resolve every "auto" and calibrate the noise."""
        replaced = budget.mu / budget.relation.moves(1.0)
        signed = self._has_signs(public)
        learns = self.centring.can_learn_mean(public, replaced)
        orthant = signed and not learns
        reach = gradient_sensitivity(budget.relation, 1.0, orthant=orthant)
        # The rules of `defaults` are for sensitivity clip_norm.
        mu, n = budget.mu / reach, public.n_records
        s2n = defaults.signal_to_noise(mu, n, public.n_features, public.n_outputs)
        if prepared.public_model is None:
            usual = "the majority class" if self.scales is None else "the mean target"
            descent_noise.warn_of_little(s2n, n, public.n_features, usual)
        others = self._other_events(public, prepared, budget, mu, orthant)
        rate, n_steps = self.loop.schedule(n, defaults.n_steps(s2n), defaults.N_EPOCHS)
        clip = self._clip_norm(s2n)
        # A person's rows are clipped together, and move a sum as one record's row does.
        calibrate = functools.partial(
            dataclasses.replace(budget, reach=1.0).calibrate,
            n_steps=n_steps,
            sampling_rate=rate,
            clip_norm=clip,
            noise_decay=self.loop.noise_decay,
            other_events=others,
        )
        schedule = calibrate(sensitivity=reach * clip)
        automatic = self._learning_rate(public, mu, schedule, prepared.public_model)
        chosen = self.loop.learning_rate
        learning_rate = automatic if chosen == "auto" else chosen
        # A penalty, or a ball, bounds what the noise can do.
        if not self._is_penalised and self.loop.radius is None:
            # Longer steps make larger weights, no worse ones: the loss bends them.
            steps = min(learning_rate, automatic) * self._decay(schedule)
            noise = self._noise_in_gradients(schedule, public)
            warn_of_noise_left(Walk(steps, self.loop.momentum, noise).outcome()[1])
        schedule, bound = bounded_by_labels(
            public, self.loss, prepared.rows, schedule, calibrate
        )
        plan = DescentPlan(
            events=(*others, budget.named(schedule, "descent")),
            schedule=schedule,
            assumptions=(ORTHANT,) * orthant + (LABEL,) * (bound is not None),
            n_steps=schedule.n_steps,
            counts_labels=frequencies.counts_labels(others),
            learning_rate=learning_rate,
            norms=self._norms(public, prepared, s2n),
            orthant=orthant,
            label_bound=bound,
        )
        decides = signed and learns and budget.relation.replaces and rate == 1
        if decides and self.loop.clip_norm == "auto":
            signs = math.sqrt(2) * mu, plan.with_signs.schedule, prepared.public_model
            rate = self._learning_rate(public, *signs) if chosen == "auto" else chosen
            return dataclasses.replace(plan.with_signs, learning_rate=rate)
        return plan

    def _has_signs(self, public: PublicRecords) -> bool:
        """Whether gradients keep public signs, unless a mean is subtracted."""
        return (
            self.centring.kind not in ("gaussian", "adaptive")
            and self.padding is None
            and not joins_rows(public)
            and has_public_signs(public, self.loss)
        )

    def _other_events(
        self,
        public: PublicRecords,
        prepared: DescentStart,
        budget: Budget,
        mu: float,
        orthant: bool,
    ) -> tuple[Event, ...]:
        """Return what is released before the loop, and after it."""
        target, rate, counts, cross, scale = None, None, None, None, None
        if self.scales is not None:
            has_model = prepared.public_model is not None
            target = self.scales.event(public, budget, mu, has_public_model=has_model)
            rate = self.scales.rate_event(public, budget, mu)
        measured = logit_scale.is_measured(self, public)
        if measured and self._starts_at_frequencies(public, prepared):
            counts = frequencies.event(public, budget, mu)
        centring = self.centring.events(public, budget, mu, mean=not orthant)
        if self.padding is not None:
            cross = self.padding.event(public, prepared.regressors, budget)
        if measured:
            scale = logit_scale.event(public, budget, self.loss, mu)
        return existing(target, counts, *centring, cross, scale, rate)

    def _starts_at_frequencies(
        self, public: PublicRecords, prepared: DescentStart
    ) -> bool:
        """Whether the start is at class frequencies that have to be released."""
        known = public.has_target or prepared.public_model is not None
        return self.centring.bias is not None and not known

    @property
    def _is_penalised(self) -> bool:
        if self.scales is not None:
            return self.scales.alpha is not None
        return self.penalty is not None

    def _clip_norm(self, s2n: float) -> float:
        if self.loop.clip_norm != "auto":
            return self.loop.clip_norm
        return defaults.clip_norm(s2n, regression=self.scales is not None)

    def _learning_rate(
        self, public: PublicRecords, mu: float, schedule: PrivacyPlan, model: Any
    ) -> float:
        rate = defaults.learning_rate(
            mu,
            public.n_records,
            schedule.n_steps,
            clip_norm=schedule.clip_norm,
            momentum=self.loop.momentum,
            curvature=self.loss.curvature,
            regression=self.scales is not None,
        )
        if self._is_shrunk:
            blocks = shrinkage.blocks_of(public.mask, model is not None)
            rate *= shrinkage.pull(mu, public.n_records, blocks)
        return rate

    @staticmethod
    def _decay(schedule: PrivacyPlan) -> np.ndarray:
        """Return the step sizes over the first."""
        return 1 - np.arange(schedule.n_steps) / schedule.n_steps

    def _noise_in_gradients(
        self, schedule: PrivacyPlan, public: PublicRecords
    ) -> np.ndarray:
        """Return the standard deviation of the noise in each step's gradient."""
        clipped = schedule.sampling_rate * public.n_records * schedule.clip_norm
        return self.private_weight * schedule.noise_std / clipped

    def needs_whole_table(self) -> str | None:
        """Return what cannot be summed over partitions, None where all can."""
        if self.padding is not None:
            return f"public_loss={self.padding.kind!r}"
        return self.centring.needs_whole_table()

    # -- at the desk -----------------------------------------------------------------
    def run(
        self,
        records: Records,
        prepared: DescentStart,
        plan: DescentPlan,
        desk: Desk,
        on_step: OnStep,
    ) -> LinearFit:
        """Release the scales and means that were planned, then descend."""
        loss, target_map, offset = self.loss, None, prepared.offset
        if self.scales is not None:
            event = plan.event("target scale")
            target_map = self.scales.released(records, event, desk, offset)
            records, loss = self.scales.scaled(records, target_map, loss)
            prepared = dataclasses.replace(prepared, offset=target_map.margins(offset))
        public = records.public
        counts = plan.event(frequencies.LABEL)
        if counts is not None:
            log_odds = frequencies.released_log_odds(records, counts, desk)
        coordinates = self._coordinates(records, prepared, plan, desk)
        if plan.centred is not None and coordinates.mean[~public.mask].any():
            plan = plan.centred
        query = self._query(records, loss, coordinates, prepared, plan, desk)
        start = np.zeros(query.shape)
        if counts is not None:
            start[:, -1] = log_odds / coordinates.bias

        def found(theta: np.ndarray, n_iter: int) -> LinearFit:
            coef, intercept = coordinates.fold(theta)
            return LinearFit(coef, intercept, n_iter, prepared.public_model, target_map)

        rule = self._rule(public, plan, query, coordinates, target_map)
        theta, n_iter = descent(
            desk,
            query,
            rule,
            n_records=public.n_records,
            average=self.loop.average,
            private_weight=self.private_weight,
            public_gradient=public_gradient(
                self, records, loss, prepared.offset, query, coordinates, desk
            ),
            on_step=lambda step, theta: on_step(step, lambda: found(theta, step + 1)),
            start=start,
        )
        path, made = (start, theta), (rule, query, coordinates, n_iter)
        theta, noise = self._told(path, made, records, prepared, plan, desk)
        return dataclasses.replace(found(theta, n_iter), noise=noise)

    def _told(
        self, path, made, records, prepared, plan, desk
    ) -> tuple[np.ndarray, CoefficientNoise]:
        """Return the start plus what is worth taking of the path, and its noise."""
        (start, theta), public = path, records.public
        rule, query, coordinates, n_iter = made
        event = plan.event(logit_scale.LABEL)
        has_model = prepared.public_model is not None
        if event is not None:
            bias = self.centring.bias
            blocks = logit_scale.blocks_of(public, plan.norms, has_model, bias)
            walk = self._walk(public, plan)
            theta = logit_scale.scaled(
                theta,
                start,
                query,
                prepared.offset,
                public,
                blocks,
                walk,
                bias,
                event,
                desk,
            )
        blocks = shrinkage.blocks_of(public.mask, has_model)
        if self._is_shrunk:
            walk, clip = self._walk(public, plan), plan.schedule.clip_norm
            theta = shrinkage.shrunk(theta, blocks, walk, clip)
        event = plan.event("mean rate")
        if self.scales is not None and event is not None:
            theta = self.scales.calibrated(
                theta, records, coordinates, prepared.offset, blocks, event, desk
            )
        stds = self._noise_in_gradients(plan.schedule, public)[:n_iter]
        left = rule.noise_left(stds, self.loop.average)
        counts, path = plan.event(frequencies.LABEL), (*path, theta)
        return theta, descent_noise.noise_of(left, path, coordinates, public, counts)

    def _norms(
        self, public: PublicRecords, prepared: DescentStart, s2n: float
    ) -> tuple[float, float]:
        """Return the typical norms of the two blocks of a row."""
        has_model, n_private = prepared.public_model is not None, public.n_private
        if self.scales is not None or not 0 < n_private < public.n_features:
            return defaults.block_norms(has_model)
        columns = public.n_features - n_private, n_private
        return defaults.block_norms(has_model, s2n, columns)

    def _coordinates(self, records, prepared, plan, desk) -> Coordinates:
        if prepared.coordinates is not None:
            return prepared.coordinates
        least = 0.0 if plan.centred is None else defaults.LEAST_SQUARED_MEAN
        return self.centring.coordinates(
            records, prepared.moments, plan, plan.norms, desk, least
        )

    def _query(
        self, records, loss, coordinates, prepared, plan: DescentPlan, desk
    ) -> LinearQuery:
        public = records.public
        padded, pads = None, self.padding is not None
        if pads and not public.mask.all():
            event = plan.event("cross moments")
            known = prepared.regressors, event, coordinates
            padded = self.padding.rows(records, *known, desk)
        recipe = functools.partial(
            gradients,
            coordinates=coordinates,
            at_random=plan.schedule.sampling_rate < 1,
            pads=pads,
            padded=padded,
            loss=loss,
            clip_norm=plan.schedule.clip_norm,
            orthant=plan.orthant,
            label_bound=plan.label_bound,
            n_jobs=self.n_jobs,
        )
        return records.query(recipe, offset=prepared.offset, rows=prepared.rows)

    def _rule(
        self, public, plan: DescentPlan, query, coordinates, target_map
    ) -> HeavyBall:
        """Return how to step along a released gradient, and on the penalty."""
        loop, rate, n_steps = self.loop, plan.learning_rate, plan.schedule.n_steps
        strength, curvature = self.penalty, None
        if self.scales is not None:
            strength = self.scales.penalty(target_map, public.total_weight)
        if strength is not None:
            curvature = coordinates.penalty_curvature(strength) / query.clip_norm
            curvature = np.ascontiguousarray(np.broadcast_to(curvature, query.shape))
            if loop.average == "last":
                rate = defaults.learning_rate_of_penalised(
                    rate, n_steps, momentum=loop.momentum, curvature=curvature
                )
        return HeavyBall(rate, loop.momentum, n_steps, loop.radius, curvature=curvature)

    @property
    def _is_shrunk(self) -> bool:
        """Whether a regression's released weights are shrunk by their known noise."""
        free = not self._is_penalised and self.loop.radius is None
        return self.scales is not None and free and self.loop.average == "last"

    def _walk(self, public: PublicRecords, plan: DescentPlan) -> Walk:
        """Return the step sizes, the momentum, and the noise in each gradient."""
        rates = plan.learning_rate * self._decay(plan.schedule)
        noise = self._noise_in_gradients(plan.schedule, public)
        return Walk(rates, self.loop.momentum, noise)
