"""The interface of methods: prepare in public, plan, and run.

A method is a frozen object with its own numbers; it never sees an estimator. To add
one, write a file like `linear_model.label_statistic` and let the `_method` of an
estimator return it; CONTRIBUTING.rst has an example.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from skfdp.data.records import PublicRecords, Records
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event, PrivacyPlan, calibrate, gdp_epsilon, gdp_mu
from skfdp.privacy.assumptions import Assumption
from skfdp.privacy.events import Relation
from skfdp.queries import Query

#: Called with the number of a step and a function that builds the model of that moment;
#: returns whether to stop. What it sees is released. None: nobody wants to see steps.
OnStep = Callable[[int, Callable[[], Any]], bool] | None


def of_weights(
    on_step: OnStep, model: Callable[[np.ndarray, int], Any]
) -> Callable[[int, np.ndarray], bool] | None:
    """Return `on_step` for a loop that has weights, which `model` makes a model of."""
    if on_step is None:
        return None
    return lambda step, theta: on_step(step, lambda: model(theta, step + 1))


@dataclasses.dataclass(frozen=True)
class Budget:
    """The budget of a fit, and what each of its events says of the whole fit.

    Attributes
    ----------
    epsilon, delta : float
    relation : Relation
    facts : mapping
        Fields of `Event`: the relation, names, what is public, seeds.
    before : tuple of Event, default=()
        What another method of the same fit releases before, on full batches. It is part
        of epsilon and of whatever is calibrated here.
    reach : float, default=1.0
        How many times as far as one record the unit of protection moves a sum; see
        `Units.reach`. Methods plan for records, and never multiply by it.
    """

    epsilon: float
    delta: float
    relation: Relation
    facts: Mapping[str, Any]
    before: tuple[Event, ...] = ()
    reach: float = 1.0

    @functools.cached_property
    def mu(self) -> float:
        """Gaussian-DP parameter of the budget, of what `before` leaves of it."""
        whole = gdp_mu(self.epsilon, self.delta)
        if not self.before:
            return whole
        return math.sqrt(whole**2 - sum(float(e.mu or 0) ** 2 for e in self.before))

    def after(self, *events: Event) -> Budget:
        """Return the budget of what comes after these releases."""
        return dataclasses.replace(self, before=(*self.before, *events))

    def share(self, share: float) -> Budget:
        """Return the budget that has this share of ``mu**2``."""
        if share == 1:
            return self
        epsilon = gdp_epsilon(self.delta, math.sqrt(share) * self.mu)
        return dataclasses.replace(self, epsilon=epsilon, before=())

    def event(
        self,
        label: str,
        noise_std: float,
        *,
        clip_norm: float = 1.0,
        sensitivity: float,
        n_steps: int = 1,
    ) -> Event:
        """Return the event of full-batch releases, from what they are for records."""
        return Event(
            label=label,
            noise_std=(noise_std * self.reach,),
            clip_norm=clip_norm * self.reach,
            sensitivity=sensitivity * self.reach,
            n_steps=n_steps,
            **self.facts,
        )

    def calibrate(
        self,
        *,
        clip_norm: float,
        sensitivity: float,
        noise_decay: float = 0.0,
        **schedule: Any,
    ) -> PrivacyPlan:
        """Return the schedule with the least noise within the budget.

        Parameters are those of :func:`skfdp.privacy.calibrate`; a schedule of noise
        over time needs full batches, and is left out without them. Clip norm and
        sensitivity are those of records, and become those of units, as in `event`. What
        is released `before` is among its `other_events`.
        """
        others = (*self.before, *schedule.pop("other_events", ()))
        if schedule.get("sampling_rate", 1.0) < 1:
            noise_decay = 0.0
        return calibrate(
            self.epsilon,
            self.delta,
            clip_norm=clip_norm * self.reach,
            sensitivity=sensitivity * self.reach,
            neighboring_relation=self.relation.name,
            noise_decay=noise_decay,
            other_events=others,
            **schedule,
        )

    def release_once(self, label: str, query: Query, *others: Event) -> dict[str, Any]:
        """Return what a `Plan` says of one release, after other ones."""
        schedule = self.calibrate(
            n_steps=1,
            clip_norm=query.clip_norm,
            sensitivity=query.sensitivity(self.relation),
            other_events=others,
        )
        events = (*others, self.named(schedule, label))
        return {"events": events, "schedule": schedule}

    def named(self, schedule: PrivacyPlan, label: str) -> Event:
        """Return the event of a schedule under its label, with the facts of the fit."""
        return dataclasses.replace(schedule.event, label=label, **self.facts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a method; methods add their own numbers in a subclass.

    Attributes
    ----------
    events : tuple of Event
        Everything that will be released, to be charged before it is.
    schedule : PrivacyPlan
        Of the last releases, with those before it among its `other_events`.
    assumptions : tuple of Assumption
        What the guarantee rests on.
    n_steps : int or None
        Steps that callbacks are told of; None where there is no loop.
    counts_labels : bool
        Whether a release shows that records have none of the declared labels.
    expected_gap : float or None
        See `FitPlan`.
    """

    events: tuple[Event, ...]
    schedule: PrivacyPlan
    assumptions: tuple[Assumption, ...] = ()
    n_steps: int | None = None
    counts_labels: bool = False
    expected_gap: float | None = None

    @property
    def releases(self) -> tuple[Event, ...]:
        """The events whose releases the mechanism of the fit releases."""
        return self.events

    def event(self, label: str) -> Event | None:
        """Return the event of this label, None where it was not planned."""
        found = [event for event in self.events if event.label == label]
        return found[0] if found else None


class Method(Protocol):
    """One way to fit; a frozen object."""

    def prepare(self, public: PublicRecords, budget: Budget) -> Any:
        """Learn from what is public; free, and handed to `plan` and `run`."""

    def plan(self, public: PublicRecords, prepared: Any, budget: Budget) -> Plan:
        """Return what will be released; a function of public facts alone."""

    def run(
        self,
        records: Records,
        prepared: Any,
        plan: Any,
        mechanism: Mechanism,
        on_step: OnStep,
    ) -> Any:
        """Release what was planned, by the mechanism alone, and return the model."""
