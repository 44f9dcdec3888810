"""The interface of methods: prepare from public data, plan, and run.

A method is the algorithm of a fit: a frozen object with its parameters, independent of
estimators. To add a method, write a file like `solvers.label_statistic` and let the
`_method` of an estimator return an object of it; CONTRIBUTING.rst has an example.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from skfdp.data.records import PublicRecords, Records
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.privacy.accounting import Budget
from skfdp.privacy.events import Assumption

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
