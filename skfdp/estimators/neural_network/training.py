"""The method of a network: what it starts from, its plan, its loop."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.descent import Descent, DescentPlan, DescentStart
from skfdp.estimators.method import Budget, OnStep, Plan, Prepared
from skfdp.estimators.neural_network.networks import Network
from skfdp.estimators.neural_network.start import (
    Settings,
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
from skfdp.releases.coins import uniform_batch
from skfdp.releases.descent import descent
from skfdp.releases.desk import Desk
from skfdp.releases.steps import HeavyBall, noise_left, warn_of_noise_left

_LINEAR = "linear model"


@dataclasses.dataclass(frozen=True)
class NetworkFit:
    """A network on ``row_map(X)``."""

    network: Network
    row_map: RowMap
    n_iter: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkStart(Prepared):
    """What was chosen and learnt in public.

    Attributes
    ----------
    pretraining : {"linear", "class_sums", "public"} or None
    share : float or None
        Of ``mu**2``, for what is released before the loop; 1: there is no loop.
    trained_layers : {"all", "last"}
    linear_public : PublicRecords or None
        The table as the linear model meets it.
    linear : DescentStart or None
        What the linear model prepared.
    """

    pretraining: str | None
    share: float | None
    trained_layers: str
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
    pretraining : {"auto", "linear", "class_sums", "public"} or None
    pretraining_share : float or "auto"
    trained_layers : {"auto", "all", "last"}
    asks_for_loop : bool
        Whether a parameter is set that only the loop has.
    maps_rows : bool
        Whether the user set how rows are mapped, which a linear model does by itself.
    linear : Descent
        The linear model to start from.
    """

    settings: Settings
    loop: Loop
    learning_rate_decay: float
    public_batch_size: int | None
    private_weight: float
    pretraining: str | None
    pretraining_share: float | str
    trained_layers: str
    asks_for_loop: bool
    maps_rows: bool
    linear: Descent

    # -- in public -------------------------------------------------------------------
    def prepare(self, public: PublicRecords, budget: Budget) -> NetworkStart:
        """Choose what to start from, and prepare the linear model."""
        pretraining, share = self._pretraining(public)
        layers = self._trained_layers(pretraining)
        if pretraining != "linear":
            return NetworkStart(
                pretraining=pretraining, share=share, trained_layers=layers
            )
        row_map = dataclasses.replace(
            public.row_map,
            feature_bound=private_bound(public),
            public=public.mask if public.mask.any() else None,
        )
        own = dataclasses.replace(public, row_map=row_map)
        found = self.linear.prepare(own, self._linear_budget(budget, share))
        return NetworkStart(
            keys=found.keys,
            pretraining=pretraining,
            share=share,
            trained_layers=layers,
            linear_public=own,
            linear=found,
        )

    def plan(
        self, public: PublicRecords, prepared: NetworkStart, budget: Budget
    ) -> NetworkPlan:
        """Resolve every "auto" and calibrate the noise."""
        row_map, share = public.row_map, prepared.share
        linear, first, schedule = None, (), None
        if prepared.pretraining == "class_sums":
            schedule = self._plan_of_sums(public, budget, share)
            first = (budget.named(schedule, "class sums"),)
        if prepared.pretraining == "linear":
            linear = self.linear.plan(
                prepared.linear_public,
                prepared.linear,
                self._linear_budget(budget, share),
            )
            schedule = linear.schedule
            first = tuple(
                dataclasses.replace(event, label=f"{_LINEAR}: {event.label}")
                for event in linear.events
            )
            # Rows that the network shortened would meet other weights than were
            # trained.
            longest = math.sqrt(public.n_features)
            row_map = dataclasses.replace(row_map, feature_bound=longest)
            if share == 1:
                row_map = prepared.linear_public.row_map
        assumptions = () if linear is None else linear.assumptions
        if share == 1:
            return NetworkPlan(
                events=first,
                schedule=schedule,
                assumptions=assumptions,
                n_steps=0,
                row_map=row_map,
                linear=linear,
            )
        layers = prepared.trained_layers
        schedule = self._plan_of_loop(public, layers, first, budget)
        rate = self._learning_rate(public, layers, schedule)
        if prepared.pretraining is None and not public.has_target:
            self._warn_of_chance(public, schedule, rate)
        self._warn_of_noise(public, schedule, rate)
        return NetworkPlan(
            events=(*first, budget.named(schedule, "descent")),
            schedule=schedule,
            assumptions=assumptions,
            n_steps=schedule.n_steps,
            row_map=row_map,
            linear=linear,
            learning_rate=rate,
        )

    def _linear_budget(self, budget: Budget, share: float) -> Budget:
        """Return the budget of the linear model."""
        found = budget.share(share)
        if found.epsilon <= 0:
            raise ValueError(
                f"pretraining_share={self.pretraining_share!r} of "
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
        warn_of_noise_left(
            noise_left(
                rate * (1 - self.learning_rate_decay * steps),
                self.loop.momentum,
                self.private_weight * schedule.noise_std / expected,
            )
        )

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

    def _pretraining(self, public: PublicRecords) -> tuple[str | None, float | None]:
        """Return what to learn from before the loop, and its share of mu**2, if any."""
        chosen, plain = self.pretraining, self.settings.public_loss is None
        sums_fit = public.has_target and public.private_bounded
        shows_columns = public.has_target and public.mask.any()
        if chosen == "auto":
            chosen = None
            if plain and self._refusal_of_linear(public) is None:
                chosen = "linear"
            elif sums_fit and public.n_classes >= defaults.MANY_CLASSES:
                chosen = "class_sums"
            elif shows_columns:
                chosen = "public"
        if chosen == "linear":
            refusal = self._refusal_of_linear(public)
            if refusal is not None:
                raise ValueError(f"pretraining='linear' {refusal}")
        if chosen == "class_sums" and not sums_fit:
            raise ValueError(
                "pretraining='class_sums' sums private columns by public class: it "
                "needs public_target=True and bounds for every private column."
            )
        if chosen == "public" and not shows_columns:
            raise ValueError(
                "pretraining='public' learns from public columns: it needs "
                "public_target=True and public_features."
            )
        if self.settings.public_loss == "impute" and chosen != "class_sums":
            raise ValueError(
                "public_loss='impute' draws private columns given the class: it needs "
                "pretraining='class_sums'."
            )
        if chosen not in defaults.PRETRAINING_SHARES:
            return chosen, None
        return chosen, self._share(chosen)

    def _share(self, pretraining: str) -> float:
        """Return the share of mu**2 for what is released before the loop."""
        if self.pretraining_share != "auto":
            return min(1.0, float(self.pretraining_share))
        share = defaults.PRETRAINING_SHARES[pretraining]
        return min(share, 0.5) if self.asks_for_loop else share

    def _refusal_of_linear(self, public: PublicRecords) -> str | None:
        """Return why a network cannot start at a linear model, None if it can."""
        least = 2 * self.settings.widths[-1]
        if not public.has_target or min(self.settings.hidden, default=0) < least:
            return (
                "starts from a linear model, which two neurons for each output pass "
                "on: it needs public_target=True and hidden layers of at least "
                f"{least} neurons."
            )
        if self.maps_rows:
            return (
                "maps the rows as FeatureDPLogisticRegression does: it needs "
                "normalize=False and feature_bound='auto'."
            )
        if self._share("linear") < 1 and not public.bounded.all():
            return (
                "with a loop needs bounds for every column: declare them, or set "
                "pretraining_share=1.0 and no parameter of the loop."
            )
        return None

    def _trained_layers(self, pretraining: str | None) -> str:
        layers, plain = self.trained_layers, self.settings.public_loss is None
        hidden = self.settings.hidden
        if layers == "auto":
            layers = "last" if pretraining in defaults.PRETRAINING_SHARES else "all"
            if not hidden or not plain:
                layers = "all"
        # Inputs may be negative, activations may not: the bound of the sensitivity.
        if layers == "last" and (not hidden or pretraining is None or not plain):
            raise ValueError(
                "trained_layers='last' needs hidden layers that were pretrained and no "
                f"public loss, got pretraining={pretraining!r} and "
                f"public_loss={self.settings.public_loss!r}."
            )
        return layers

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
        linear = None
        if plan.linear is not None:
            own = dataclasses.replace(records, public=prepared.linear_public)
            streams = desk.streams.under(_LINEAR)
            linear = self.linear.run(
                own,
                prepared.linear,
                plan.linear,
                desk.within(_LINEAR, streams),
                lambda step, found: False,
            )
        records = records.mapped_by(plan.row_map)
        if linear is not None and plan.n_steps == 0:
            generator = desk.streams.public("network")
            hidden = self.settings.hidden
            network = Network.passing_on(
                linear.coef, linear.intercept, hidden, generator
            )
            return NetworkFit(network, plan.row_map, 0)
        means = None
        if prepared.pretraining == "class_sums":
            means = class_means(records, private_bound(records.public), plan, desk)
        weights = None
        if linear is not None:
            row_map = prepared.linear_public.row_map
            weights = on_bounded_columns(linear.coef, linear.intercept, row_map)
        clip_norm = 1.0 if plan.n_steps == 0 else plan.schedule.clip_norm
        loop = start_of_loop(
            self.settings,
            records,
            prepared.pretraining,
            prepared.trained_layers,
            means,
            weights,
            clip_norm,
            desk,
        )

        def found(theta: np.ndarray, n_iter: int) -> NetworkFit:
            network = loop.network(theta).on_mapped_rows(plan.row_map)
            return NetworkFit(network, plan.row_map, n_iter)

        if plan.n_steps == 0:
            return found(loop.start, 0)
        query, own = loop.query, self.loop
        theta, n_iter = descent(
            desk,
            query,
            HeavyBall(
                plan.learning_rate,
                own.momentum,
                plan.n_steps,
                own.radius,
                self.learning_rate_decay,
            ),
            n_records=records.public.n_records,
            average=own.average,
            private_weight=self.private_weight,
            public_gradient=self._public_gradient(query, desk),
            on_step=lambda step, theta: on_step(step, lambda: found(theta, step + 1)),
            start=loop.start,
        )
        return found(theta, n_iter)

    def _public_gradient(self, query: Any, desk: Desk):
        """Return the gradient of the public loss, None where there is none."""
        if query.padded is None:
            return None
        coins, size = desk.streams.public("batch"), self.public_batch_size
        return lambda theta: query.public_gradient(
            theta, uniform_batch(coins, query.n_rows, size)
        )


def private_bound(public: PublicRecords) -> float:
    """Return a guess of the norm of the private columns of a row, within [0, 1]."""
    mean_square = None
    if public.row_map.span is not None and public.mask.any():
        n_public = int(public.mask.sum())
        squares = (float((rows**2).sum()) for rows in public.blocks())
        mean_square = sum(squares) / (public.n_rows * n_public)
    return defaults.sums_bound(public.n_private, mean_square)
