"""The interface of methods: prepare from public data, plan, and run.

A method is the algorithm of a fit: a frozen object with its parameters, independent of
estimators. To add a method, write a file like `solvers.label_statistic` and let the
`_method` of an estimator return an object of it; CONTRIBUTING.rst has an example.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from skfdp.data.records import PublicRecords, Records
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event, calibrate, gdp_epsilon, gdp_mu
from skfdp.privacy.events import Assumption, Relation
from skfdp.queries import Query

#: Callback after each step, ``(step, model) -> stop``. ``model()`` returns the current
#: model. The callback receives only released values. None: no callback.
OnStep = Callable[[int, Callable[[], Any]], bool] | None


def of_model(on_step: OnStep, change: Callable[[Any], Any]) -> OnStep:
    """Convert `on_step` to a callback that gets models before this change."""
    if on_step is None:
        return None
    return lambda step, model: on_step(step, lambda: change(model()))


#: Parameters that act before or beside any method: the declaration of the table, the
#: budget, the charge, the noise, and where and how fast it is computed.
BESIDE = frozenset(
    "epsilon delta neighboring_relation schema target public_features public_target "
    "bounds classes target_bounds ledger random_state n_jobs backend device "
    "solver".split()
)


class Needs(NamedTuple):
    """What a method needs of a table, and the parameters that it honours.

    `name` is the method in messages. `honours` has, by the name of a parameter, the
    texts of what it needs, or a function that returns them: facts of the table such as
    `DENSE`, or anything else that this fit lacks. An entry such as
    ``"public_model=None"`` is for this value alone. `table` is what the method needs of
    every table; by default a plain one.
    """

    PRIVATE_COLUMNS, PUBLIC_COLUMNS = "private columns", "public columns"
    NO_PRIVATE_COLUMN = "public columns only (public_features='all')"
    NO_PUBLIC_COLUMN = "a table without public columns (public_features=None)"
    PRIVATE_TARGET = "a private target (public_target=False)"
    PUBLIC_TARGET = "a public target (public_target=True)"
    DENSE, EQUAL_RECORDS = "a dense X (X.toarray())", "no weights and no groups"
    IN_MEMORY = "a table in memory (X.compute(), not a Dask collection)"
    OWN_ROW = "persons with one row each (max_rows_per_group=1)"
    NO_SCHEMA = "a table without a schema (encode it before, in a Pipeline)"
    PLAIN = DENSE, IN_MEMORY, EQUAL_RECORDS

    name: str
    honours: Mapping[str, Any]
    table: tuple[str, ...] = PLAIN

    def refusal(self, public: PublicRecords, asked: Mapping[str, str]) -> str | None:
        """Return why the method cannot fit as asked, or None if it can.

        `asked` are the parameters that differ from their defaults, as texts by name.
        The result depends on public facts alone.
        """
        facts = {
            self.PRIVATE_COLUMNS: public.n_private > 0,
            self.PUBLIC_COLUMNS: public.mask.any(),
            self.NO_PRIVATE_COLUMN: public.n_private == 0,
            self.NO_PUBLIC_COLUMN: not public.mask.any(),
            self.PRIVATE_TARGET: not public.has_target,
            self.PUBLIC_TARGET: public.has_target,
            self.DENSE: not public.sparse,
            self.IN_MEMORY: not public.in_partitions,
            self.EQUAL_RECORDS: public.units is None,
            self.OWN_ROW: public.units is None or not public.units.joint,
            self.NO_SCHEMA: public.encoding is None,
        }
        honours = {"": self.table, **self.honours}
        for name, text in (("", self.name), *asked.items()):
            needed = honours.get(text, honours.get(name))
            if needed is None:
                return (
                    f"{text} has no effect with {self.name}: leave {name} out, or "
                    "choose another method."
                )
            for need in needed() if callable(needed) else needed:
                if not facts.get(need, False):
                    remedy = f"leave {name} out" if name else "choose another method"
                    return f"{text} needs {need}: change this, or {remedy}."
        return None


@dataclasses.dataclass(frozen=True)
class Budget:
    """The budget of a fit, and the fields that all of its events share.

    A privacy unit changes a sum at most `reach` times as much as one record; see
    `Units.reach`. Methods plan for records; `event` and `release_once` multiply by
    it.
    """

    epsilon: float
    delta: float
    relation: Relation
    #: Fields of all events, such as the relation and the names of the public columns.
    facts: Mapping[str, Any]
    #: Events of an earlier method of the same fit, on full batches. They count towards
    #: epsilon in every calibration.
    before: tuple[Event, ...] = ()
    reach: float = 1.0

    @functools.cached_property
    def mu(self) -> float:
        """Gaussian-DP parameter of the budget that remains after `before`."""
        whole = gdp_mu(self.epsilon, self.delta)
        if not self.before:
            return whole
        return math.sqrt(whole**2 - sum(float(e.mu or 0) ** 2 for e in self.before))

    def after(self, *events: Event) -> Budget:
        """Return the budget for the releases after these events."""
        return dataclasses.replace(self, before=(*self.before, *events))

    def counted(self) -> tuple[str, ...]:
        """Return the requirement of a public number of rows, if it is not met."""
        needed = "a neighboring_relation that keeps the number of rows public"
        return () if self.relation.counts_are_public else (needed,)

    def share(self, share: float) -> Budget:
        """Return the budget with this share of ``mu**2``."""
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
        """Return the event of full-batch releases.

        `noise_std`, `clip_norm` and `sensitivity` are given for records. They are
        multiplied by `reach`, to hold for privacy units.
        """
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
        label: str,
        *,
        noise_decay: float = 0.0,
        other_events: tuple[Event, ...] = (),
        **schedule: Any,
    ) -> Event:
        """Return the event with the least noise within the budget.

        Other parameters are those of :func:`skfdp.privacy.calibrate`. `noise_decay` is
        ignored for sampled batches. `clip_norm` and `sensitivity` are given for privacy
        units. The events `before` are added to `other_events`.
        """
        if schedule.get("sampling_rate", 1.0) < 1:
            noise_decay = 0.0
        found = calibrate(
            self.epsilon,
            self.delta,
            neighboring_relation=self.relation.name,
            noise_decay=noise_decay,
            other_events=(*self.before, *other_events),
            **schedule,
        )
        return dataclasses.replace(found.event, label=label, **self.facts)

    def release_once(self, label: str, query: Query, *others: Event) -> Event:
        """Return the event of one release of `query`, which follows `others`."""
        return self.calibrate(
            label,
            n_steps=1,
            clip_norm=query.clip_norm * self.reach,
            sensitivity=query.sensitivity(self.relation) * self.reach,
            other_events=others,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a method; methods add their own fields in a subclass."""

    #: All planned releases, which are charged before any of them.
    events: tuple[Event, ...]
    assumptions: tuple[Assumption, ...] = ()  # of the guarantee
    n_steps: int | None = None  # of the training loop, for callbacks
    #: Whether a release reveals how many records have no declared label.
    counts_labels: bool = False
    #: Predictive power that the noise is expected to cost; see `FitPlan`.
    expected_gap: tuple[float, float, float] | None = None
    #: Released attributes that only some fits of the estimator have.
    also_released: tuple[str, ...] = ()
    #: The plans of the methods of which this one consists; empty if it is one.
    parts: tuple[Plan, ...] = ()

    def event(self, label: str) -> Event | None:
        """Return the event of this label, or None if it was not planned."""
        labels = [*map(operator.attrgetter("label"), self.events)]
        return self.events[labels.index(label)] if label in labels else None


class Method(Protocol):
    """Interface of a fitting method; an implementation is a frozen object.

    Arguments of `plan` and `run` without a type in an implementation have these.
    """

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs of the method; a fit refuses what they do not allow."""

    def prepare(self, public: PublicRecords, budget: Budget) -> Any:
        """Compute from public data what `plan` and `run` need, without a charge."""

    def plan(self, public: PublicRecords, prepared: Any, budget: Budget) -> Plan:
        """Plan the releases from public facts alone."""

    def run(
        self,
        records: Records,
        prepared: Any,
        plan: Any,
        mechanism: Mechanism,
        on_step: OnStep,
    ) -> Any:
        """Release the planned sums through the mechanism, and return the model."""
