"""The method of a network: what it starts from, its plan, its loop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.descent import Descent, DescentPlan, DescentStart
from skfdp.estimators.linear_model.fitted import LinearFit
from skfdp.estimators.linear_model.public_loss import padded_gradient
from skfdp.estimators.method import Budget, OnStep, Plan
from skfdp.estimators.neural_network.choice import Choice, Pretraining, Settings
from skfdp.estimators.neural_network.networks import Network
from skfdp.estimators.neural_network.start import (
    StartOfLoop,
    class_means,
    on_bounded_columns,
    start_of_loop,
)
from skfdp.estimators.parameters import Loop
from skfdp.privacy import PrivacyPlan
from skfdp.queries.class_sums import ClassSum
from skfdp.queries.linear import gradient_sensitivity
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.releases.descent import descent
from skfdp.releases.desk import Desk
from skfdp.releases.steps import HeavyBall, Walk, warn_of_noise_left

_LINEAR = "linear model"


@dataclasses.dataclass(frozen=True)
class NetworkFit:
    """A network on ``row_map(X)``."""

    network: Network
    row_map: RowMap
    n_iter: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkStart:
    """The result of preparing a network.

    Attributes
    ----------
    choice : Choice
    linear_public : PublicRecords or None
        The table as the linear model meets it.
    linear : DescentStart or None
        What the linear model prepared.
    """

    choice: Choice
    linear_public: PublicRecords | None = None
    linear: DescentStart | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkPlan(Plan):
    """The plan of a network.

    Attributes
    ----------
    row_map : RowMap
        Of the rows that the network meets.
    linear : DescentPlan or None
        Of the linear model that comes first.
    learning_rate : float
        First step size, on the clipped sum over ``q n clip_norm``; 0: no loop.
    """

    row_map: RowMap
    linear: DescentPlan | None = None
    learning_rate: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkDescent:
    """A network: a start that is learnt before, then a loop of noisy gradients.

    Attributes
    ----------
    settings : Settings
        What the query of the loop is built from.
    loop : Loop
    learning_rate_decay : float
    public_batch_size : int or None
    private_weight : float
    pretraining : Pretraining
    linear : Descent
        The linear model to start from.
    """

    settings: Settings
    loop: Loop
    learning_rate_decay: float
    public_batch_size: int | None
    private_weight: float
    pretraining: Pretraining
    linear: Descent

    # -- in public -------------------------------------------------------------------
    def prepare(self, public: PublicRecords, budget: Budget) -> NetworkStart:
        """Choose what to start from, and prepare the linear model."""
        choice = self.pretraining.choose(public, self.settings)
        if choice.pretraining != "linear":
            return NetworkStart(choice=choice)
        row_map = dataclasses.replace(
            public.row_map,
            feature_bound=private_bound(public),
            public=public.mask if public.mask.any() else None,
        )
        own = dataclasses.replace(public, row_map=row_map)
        found = self.linear.prepare(own, self._linear_budget(budget, choice.share))
        return NetworkStart(choice=choice, linear_public=own, linear=found)

    def plan(
        self, public: PublicRecords, prepared: NetworkStart, budget: Budget
    ) -> NetworkPlan:
        """Resolve every "auto" and calibrate the noise."""
        choice, row_map = prepared.choice, public.row_map
        linear, first, schedule = None, (), None
        if choice.pretraining == "class_sums":
            schedule = self._plan_of_sums(public, budget, choice.share)
            first = (budget.named(schedule, "class sums"),)
        if choice.pretraining == "linear":
            own = prepared.linear_public
            own_budget = self._linear_budget(budget, choice.share)
            linear = self.linear.plan(own, prepared.linear, own_budget)
            schedule = linear.schedule
            first = tuple(
                dataclasses.replace(event, label=f"{_LINEAR}: {event.label}")
                for event in linear.events
            )
            # Rows that the network shortened would meet other weights than were
            # trained.
            longest = math.sqrt(public.n_features)
            row_map = dataclasses.replace(row_map, feature_bound=longest)
            if choice.share == 1:
                row_map = own.row_map
        plan = NetworkPlan(
            events=first,
            schedule=schedule,
            assumptions=() if linear is None else linear.assumptions,
            n_steps=0,
            row_map=row_map,
            counts_labels=linear is not None and linear.counts_labels,
            linear=linear,
        )
        if choice.share == 1:
            return plan
        schedule = self._plan_of_loop(public, choice.trained_layers, first, budget)
        rate = self._learning_rate(public, choice.trained_layers, schedule)
        if choice.pretraining is None and not public.has_target:
            self._warn_of_chance(public, schedule, rate)
        self._warn_of_noise(public, schedule, rate)
        return dataclasses.replace(
            plan,
            events=(*first, budget.named(schedule, "descent")),
            schedule=schedule,
            n_steps=schedule.n_steps,
            learning_rate=rate,
        )

    def _linear_budget(self, budget: Budget, share: float) -> Budget:
        """Return the budget of the linear model."""
        found = budget.share(share)
        if found.epsilon <= 0:
            raise ValueError(
                f"pretraining_share={self.pretraining.share!r} of "
                f"epsilon={budget.epsilon!r} is nothing for the linear model: raise "
                "one of them."
            )
        return found

    @staticmethod
    def _plan_of_sums(
        public: PublicRecords, budget: Budget, share: float
    ) -> PrivacyPlan:
        """Return the plan of the class sums, in units of rows of norm 1."""
        query = ClassSum.planned(nonnegative=public.private_bounded)
        # Rounding may not push the sums alone above the budget.
        std = query.sensitivity(budget.relation) / (math.sqrt(share) * budget.mu)
        return PrivacyPlan(
            target_epsilon=budget.epsilon,
            target_delta=budget.delta,
            n_steps=1,
            sampling_rate=1.0,
            clip_norm=query.clip_norm,
            sensitivity=query.sensitivity(budget.relation),
            neighboring_relation=budget.relation.name,
            noise_multipliers=(std * (1 + 1e-12),),
        )

    def _plan_of_loop(
        self, public: PublicRecords, layers: str, others: tuple, budget: Budget
    ) -> PrivacyPlan:
        n, clip = public.n_records, self.loop.clip_norm
        if clip == "auto":
            clip = {
                "all": defaults.NETWORK_CLIP,
                "last": defaults.LAST_LAYER_CLIP,
            }[layers]
        # Of the last layer alone: activations are not negative, and a public target
        # fixes the signs of the errors.
        signs = layers == "last" and public.has_target
        reach = gradient_sensitivity(budget.relation, 1.0, orthant=signs)
        automatic = defaults.network_batch(n) if layers == "all" else None
        rate, n_steps = self.loop.with_batch(automatic).schedule(
            n, defaults.NETWORK_STEPS, defaults.NETWORK_EPOCHS
        )
        return budget.calibrate(
            n_steps=n_steps,
            sampling_rate=rate,
            clip_norm=clip,
            sensitivity=reach * clip,
            noise_decay=self.loop.noise_decay,
            other_events=others,
        )

    def _learning_rate(
        self, public: PublicRecords, layers: str, schedule: PrivacyPlan
    ) -> float:
        if self.loop.learning_rate != "auto":
            return self.loop.learning_rate
        n, momentum = public.n_records, self.loop.momentum
        first = float(schedule.noise_std[0]) / schedule.clip_norm
        if layers == "last" and schedule.sampling_rate == 1:
            # mu of the loop for sensitivity clip_norm, as the rule wants it
            mu = math.sqrt(float((schedule.clip_norm**2 / schedule.noise_std**2).sum()))
            return defaults.last_layer_learning_rate(
                mu,
                n,
                self.settings.widths[-2] + 1,
                public.n_classes,
                schedule.n_steps,
                momentum,
            )
        return defaults.network_learning_rate(
            first, schedule.sampling_rate * n, schedule.n_steps, momentum
        )

    def _warn_of_noise(
        self, public: PublicRecords, schedule: PrivacyPlan, rate: float
    ) -> None:
        """Warn where the schedule leaves little but noise in the weights."""
        if self.loop.radius is not None:  # a ball bounds what the noise can do
            return
        steps = np.arange(schedule.n_steps) / schedule.n_steps
        expected = schedule.sampling_rate * public.n_records * schedule.clip_norm
        walk = Walk(
            rate * (1 - self.learning_rate_decay * steps),
            self.loop.momentum,
            self.private_weight * schedule.noise_std / expected,
        )
        warn_of_noise_left(walk.outcome()[1])

    def _warn_of_chance(
        self, public: PublicRecords, schedule: PrivacyPlan, rate: float
    ) -> None:
        """Warn where the random start says more than the budget can teach."""
        pace = (1 - self.learning_rate_decay / 2) / (1 - self.loop.momentum)
        hidden, widths = self.settings.hidden, self.settings.widths
        index = defaults.network_index(rate * schedule.n_steps * pace, widths)
        if index < 2:
            warn_caller(
                f"the budget is small for a network of hidden layers {hidden} with "
                f"a private target, {public.n_records} records and {widths[0]} "
                f"features (signal-to-noise index {index:.2g} < 2): unless the classes "
                "lie far apart, expect little more than chance, which its random start "
                "decides. FeatureDPLogisticRegression needs far less.",
                UtilityWarning,
            )

    # -- at the desk -----------------------------------------------------------------
    def run(
        self,
        records: Records,
        prepared: NetworkStart,
        plan: NetworkPlan,
        desk: Desk,
        on_step: OnStep,
    ) -> NetworkFit:
        """Release what comes first, then descend."""
        linear, weights = None, None
        if plan.linear is not None:
            linear = self._linear_model(records, prepared, plan, desk)
        records = records.mapped_by(plan.row_map)
        if linear is not None and plan.n_steps == 0:
            generator = desk.streams.public("network")
            model = linear.coef, linear.intercept
            network = Network.passing_on(*model, self.settings.hidden, generator)
            return NetworkFit(network, plan.row_map, 0)
        if linear is not None:
            row_map = prepared.linear_public.row_map
            weights = on_bounded_columns(linear.coef, linear.intercept, row_map)
        event, means = plan.event("class sums"), None
        if event is not None:
            bound = private_bound(records.public)
            means = class_means(records, bound, event, desk)
        loop = start_of_loop(
            self.settings,
            records,
            prepared.choice,
            means,
            weights,
            1.0 if plan.n_steps == 0 else plan.schedule.clip_norm,
            desk,
        )

        def found(theta: np.ndarray, n_iter: int) -> NetworkFit:
            network = loop.network(theta).on_mapped_rows(plan.row_map)
            return NetworkFit(network, plan.row_map, n_iter)

        if plan.n_steps == 0:
            return found(loop.start, 0)
        return found(*self._descend(records.public, plan, loop, desk, on_step, found))

    def _linear_model(self, records, prepared, plan, desk: Desk) -> LinearFit:
        """Release the linear model, at a desk for its own events."""
        found = self.linear.run(
            dataclasses.replace(records, public=prepared.linear_public),
            prepared.linear,
            plan.linear,
            desk.within(_LINEAR, desk.streams.under(_LINEAR)),
            lambda step, found: False,
        )
        return found.whole(records.public.mask)

    def _descend(
        self,
        public: PublicRecords,
        plan: NetworkPlan,
        loop: StartOfLoop,
        desk: Desk,
        on_step: OnStep,
        found: Callable[[np.ndarray, int], NetworkFit],
    ) -> tuple[np.ndarray, int]:
        own, query, gradient = self.loop, loop.query, None
        if query.padded is not None:
            coins = desk.streams.public("batch")
            gradient = padded_gradient(query, coins, self.public_batch_size)
        return descent(
            desk,
            query,
            HeavyBall(
                plan.learning_rate,
                own.momentum,
                plan.n_steps,
                own.radius,
                self.learning_rate_decay,
            ),
            n_records=public.n_records,
            average=own.average,
            private_weight=self.private_weight,
            public_gradient=gradient,
            on_step=lambda step, theta: on_step(step, lambda: found(theta, step + 1)),
            start=loop.start,
        )


def private_bound(public: PublicRecords) -> float:
    """Return a guess of the norm of the private columns of a row, within [0, 1]."""
    mean_square = None
    if public.row_map.span is not None and public.mask.any():
        n_public = int(public.mask.sum())
        squares = (float((rows**2).sum()) for rows in public.blocks())
        mean_square = sum(squares) / (public.n_rows * n_public)
    return defaults.sums_bound(public.n_private, mean_square)
