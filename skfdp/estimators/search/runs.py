"""One run of a private search: its records, its share, its gate."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skfdp.privacy import (
    Event,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivacyPlan,
    Selection,
    gdp_epsilon,
)
from skfdp.privacy.fit_plan import FitPlan
from skfdp.records.checks import shown
from skfdp.records.guards import UtilityWarning, warn_caller

# Rounding between the noise that is asked for and the event that is planned.
MARGIN = 1e-9
_WITHHELD = (
    "a run of the search failed; its message is withheld because it may quote the "
    "data: fit the estimator on made-up data of the same shape to see it."
)
NOT_OURS = (
    "estimator={} must be an unfitted classifier of this package, or a Pipeline that "
    "ends with one: others cannot say what a fit would disclose."
)
_STEPS_SPEND_IT = (
    "the steps of a candidate spend more than one run may: give the steps before the "
    "last one a smaller epsilon."
)
_BATCHES = (
    "{} takes Poisson batches, which a search does not account for: set "
    "batch_size=None, the full batch."
)
_INFINITE = "epsilon=inf inside a private search: leave epsilon to the search."


@dataclasses.dataclass(frozen=True)
class Holdout:
    """Two parts of the records, fixed by index: one to fit, one to score.

    Attributes
    ----------
    X, y : array-like
        All records.
    codes : ndarray of shape (n_rows,)
        Class of each record, as a position in `classes`; 0 where it has none.
    classes : ndarray
    classes_source : str
        See `Event`.
    fit, score : int ndarray
        Positions of the two parts; drawn by public coins, whatever the records hold.
    columns : tuple or None
        Names of the columns of X, where a report can know them.
    target_name : str or None
        What y was called.
    missing : bool ndarray of shape (n_rows,) or None
        Records without a label of `classes`; None: there are none.
    """

    X: Any
    y: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    classes_source: str
    fit: np.ndarray
    score: np.ndarray
    columns: tuple | None = None
    target_name: str | None = None
    missing: np.ndarray | None = None

    #: Each row is a record of its own.
    units = None
    #: No record is void here: each fit finds its own.
    void = None
    #: Each row is a record, and counts as one.
    units = None

    @property
    def n_records(self) -> int:
        """Number of records, which is public."""
        return len(self.y)

    @property
    def public(self) -> Holdout:
        """Itself: plans of candidates look at what is public alone."""
        return self

    def rows(self, positions: np.ndarray) -> Any:
        """Return some rows of X."""
        if isinstance(self.X, list):
            return [self.X[position] for position in positions]
        return self.X.iloc[positions] if hasattr(self.X, "iloc") else self.X[positions]


def split(n_rows: int, fraction: float, coins: np.random.Generator) -> tuple:
    """Return the positions of the part to fit and of the part to score, sorted."""
    n_score = min(max(1, math.ceil(fraction * n_rows)), n_rows - 1)
    order = coins.permutation(n_rows)
    return np.sort(order[n_score:]), np.sort(order[:n_score])


def private_parts(estimator: Any) -> dict[str, Any]:
    """Return the estimators of this package inside another one, by parameter prefix."""
    parameters = estimator.get_params(deep=True)
    needed = ("delta", "ledger", "neighboring_relation", "random_state")
    found = {}
    for name in parameters:
        prefix = name.removesuffix("epsilon")
        if name == prefix or (prefix and not prefix.endswith("__")):
            continue
        if all(prefix + other in parameters for other in needed):
            found[prefix] = parameters[prefix[:-2]] if prefix else estimator
    return found


def last_step(estimator: Any) -> tuple[str, Any]:
    """Return the parameter prefix and the object of what has the budget."""
    if isinstance(estimator, Pipeline):
        name, step = estimator.steps[-1]
        prefix, found = last_step(step)
        return f"{name}__{prefix}", found
    return "", estimator


class RunGate(PrivacyLedger):
    """A ledger that lets one run release what was charged for it, and no more.

    Parameters
    ----------
    share : Share
        What the run may spend.
    last : estimator or None
        Of the gate of a step before the last: what then gets the rest of the share.
    released : list of Event
        What the run has released so far; the gates of a run share it.
    """

    def __init__(self, share: Share, last: Any, released: list[Event]):
        self._share, self._last, self._released = share, last, released

    def charge(
        self,
        events: Iterable[Event],
        *,
        label: str | None = None,
        plan: PrivacyPlan | None = None,
        n_rows: int | None = None,
    ) -> None:
        """Raise unless everything that the run releases is within its share."""
        self._released += events
        self._share.check(tuple(self._released))
        if self._last is not None:
            self._last.set_params(epsilon=self._share.rest(self._released))

    def charge_nonprivate(self, *, label: str | None = None) -> None:
        """Refuse fits without privacy."""
        raise PrivacyBudgetError(_INFINITE)


@dataclasses.dataclass(frozen=True)
class Share:
    """The releases allowed to one run.

    Attributes
    ----------
    mu : float
        Gaussian-DP parameter of the whole run.
    epsilon, delta : float
        The budget that the estimator is given.
    promise : Event
        Relation and public set that were charged.
    """

    mu: float
    epsilon: float
    delta: float
    promise: Event

    @classmethod
    def of(cls, event: Selection, delta: float, together: int | None = None) -> Share:
        """Return the share of each run.

        Parameters
        ----------
        event : Selection
        delta : float
            That of the whole search.
        together : int, default=None
            Number of candidates that are published together: the event's one run is
            the composition of all fits on one part of the records, and of all scores
            on the other one. None: the best of the event's runs is published.
        """
        mu, delta = event.run_mu, delta / event.mean_runs
        if together is not None:
            mu = mu / math.sqrt(together) * (1 - MARGIN)
        return cls(
            mu=mu,
            epsilon=gdp_epsilon(delta, mu * (1 - MARGIN)),
            delta=delta,
            promise=event,
        )

    def rest(self, events: Iterable[Event]) -> float:
        """Return the epsilon that events leave for the last step."""
        left = self.mu**2 - math.fsum((event.mu or math.inf) ** 2 for event in events)
        if left > 0:
            epsilon = gdp_epsilon(self.delta, math.sqrt(left) * (1 - MARGIN))
            if epsilon > 0:
                return epsilon
        raise PrivacyBudgetError(_STEPS_SPEND_IT)

    def check(self, events: tuple[Event, ...]) -> None:
        """Raise PrivacyBudgetError unless what was charged covers the events."""
        promise, columns = self.promise, frozenset(self.promise.public_features)
        for event in events:
            other = event.neighboring_relation != promise.neighboring_relation
            if other or event.public_target > promise.public_target:
                raise PrivacyBudgetError(
                    "a candidate protects less than what the search was charged for: "
                    "let all steps have one neighboring_relation and public_target."
                )
            if frozenset(event.public_features) != columns:
                # Also a step that treats none so: it mixes private columns into them.
                raise PrivacyBudgetError(
                    "a candidate treats other columns as public than those that the "
                    "search was charged for: transform the columns before the search."
                )
        if any(event.mu is None for event in events):
            raise PrivacyBudgetError(_BATCHES.format("a candidate"))
        if not math.fsum(event.mu**2 for event in events) <= self.mu**2:
            raise PrivacyBudgetError(_STEPS_SPEND_IT)


def prepared(
    estimator: Any, params: Mapping, classes: np.ndarray, seed: int | None
) -> Any:
    """Return an unfitted copy that reports to nobody: no seed, callbacks or output."""
    copies = {name: clone(value, safe=False) for name, value in params.items()}
    model = clone(estimator).set_params(**copies)
    facts: dict[str, Any] = {}
    for prefix in private_parts(model):
        facts |= {f"{prefix}ledger": None, f"{prefix}random_state": seed}
    prefix, last = last_step(model)
    if "classes" in last.get_params() and last.get_params()["classes"] is None:
        facts[f"{prefix}classes"] = classes
    for name, value in model.get_params(deep=True).items():
        leaf = name.rsplit("__", 1)[-1]
        if leaf == "verbose" and value:
            facts[name] = type(value)(0)
        if leaf == "memory" and value is not None:
            facts[name] = None
        if hasattr(value, "set_callbacks"):
            value.set_callbacks()
    if hasattr(model, "set_callbacks"):
        model.set_callbacks()
    if isinstance(model, Pipeline):
        facts |= {"memory": None, "verbose": False}
    return model.set_params(**facts)


def planned(
    model: Any, holdout: Holdout, epsilon: float, delta: float
) -> list[FitPlan]:
    """Return the plan of each private step of a candidate; charges nothing.

    A private step before the last one is planned and left out, because it releases
    nothing yet: where what follows then cannot be planned, its plan is missing. Steps
    of others are fitted, and what they raise is withheld. A private step inside one
    of these is refused, unless that is a Pipeline.

    Parameters
    ----------
    model : estimator
        As `prepared` returns it.
    holdout : Holdout
    epsilon, delta : float
        Budget of the last step.
    """
    prefix, last = last_step(model)
    last.set_params(epsilon=epsilon, delta=delta)
    if "target_name" in last.get_params():
        last.set_params(target_name=holdout.target_name)
    X, y = holdout.rows(holdout.fit), holdout.y[holdout.fit]
    if not isinstance(model, Pipeline):
        return [_plan(model, X, y)]
    # Of a step that is not one of the Pipeline's own, whose fit would release.
    model.set_params(**{f"{part}ledger": _Closed() for part in private_parts(model)})
    try:
        return _plans_of_steps(model, X, y)
    except PrivacyBudgetError:
        raise
    except Exception:
        pass
    # Outside the handler, so that the original is not kept as a context.
    raise RuntimeError(_WITHHELD)


def _plans_of_steps(model: Pipeline, X: Any, y: np.ndarray) -> list[FitPlan]:
    """Return the plans of a Pipeline's private steps, in their order."""
    *before, last = _steps(model)
    if not all(hasattr(step, "transform") for step in before):
        raise TypeError("a step before the last one cannot transform")
    found: list[FitPlan] = []
    for step in (*before, last):
        is_ours = "" in private_parts(step)
        # What fails, or warns, without an earlier private step need not do so with it.
        with _doubtful() if found else contextlib.nullcontext():
            if is_ours:
                found.append(_plan(step, X, y))
            else:
                X = _fit_transform(step, X, y)
            continue
        if not is_ours:  # nobody knows what the next step would see
            break
    return found


def _steps(model: Pipeline) -> Iterator[Any]:
    """Yield the steps of a Pipeline, through Pipelines inside it."""
    for _, step in model.steps:
        if isinstance(step, Pipeline):
            yield from _steps(step)
        elif step is not None and not isinstance(step, str):  # "passthrough"
            yield step


def _fit_transform(step: Any, X: Any, y: np.ndarray) -> Any:
    if hasattr(step, "fit_transform"):
        return step.fit_transform(X, y)
    return step.fit(X, y).transform(X)


@contextlib.contextmanager
def _doubtful() -> Iterator[None]:
    """Pass over what fails, but for what a budget refuses, and over warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except PrivacyBudgetError:
            raise
        except Exception:
            pass


def _plan(step: Any, X: Any, y: np.ndarray) -> FitPlan:
    if math.isinf(step.epsilon):
        raise PrivacyBudgetError(_INFINITE)
    return step.plan(X, y)


class _Closed(PrivacyLedger):
    """A ledger that refuses every charge."""

    def __init__(self) -> None:
        pass  # it records nothing

    def __reduce__(self) -> tuple:
        return type(self), ()  # a step of others may send it to other processes

    def charge(self, events: Iterable[Event], **more: Any) -> None:
        """Refuse it."""
        raise PrivacyBudgetError(
            "a private step is inside another step of the Pipeline: make it a step of "
            "its own, so that its plan can be made."
        )

    def charge_nonprivate(self, **more: Any) -> None:
        """Refuse it."""
        raise PrivacyBudgetError(_INFINITE)


def check_candidate(
    estimator: Any, params: Mapping, holdout: Holdout, share: Share
) -> None:
    """Raise what the plan of a candidate raises, or what a run surely would.

    Raises
    ------
    ValueError
        For Poisson batches.
    PrivacyBudgetError
        If the first private step is not covered by what the search charges.
    """
    model = prepared(estimator, params, holdout.classes, None)
    plans = planned(model, holdout, share.epsilon, share.delta)
    if any(event.mu is None for plan in plans for event in plan.events):
        prefix, last = last_step(model)
        value = shown(last.get_params().get("batch_size"))
        raise ValueError(_BATCHES.format(f"{prefix}batch_size={value} of a candidate"))
    share.check(plans[0].events)  # of later steps only the gate of a run is sure


def fitted(model: Any, holdout: Holdout, share: Share) -> Any:
    """Fit one run's model within its share, silently; the gates are taken off.

    Raises
    ------
    PrivacyBudgetError, ValueError
        For what follows from public facts alone.
    RuntimeError
        If a step fails on the data; says nothing of how.
    """
    parts = private_parts(model)
    prefix, last = last_step(model)
    released: list[Event] = []
    gates = {f"{part}ledger": RunGate(share, last, released) for part in parts}
    gates[f"{prefix}ledger"] = RunGate(share, None, released)
    budget = {f"{prefix}epsilon": share.epsilon, f"{prefix}delta": share.delta}
    model.set_params(**gates, **budget)
    silently(model.fit, holdout.rows(holdout.fit), holdout.y[holdout.fit])
    taken_off = dict.fromkeys([*gates, *(f"{part}random_state" for part in parts)])
    return model.set_params(**taken_off)


@contextlib.contextmanager
def utility_warnings_once():
    """Pass on warnings about utility, which follow from public facts, once each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = dict.fromkeys(
        str(one.message) for one in caught if issubclass(one.category, UtilityWarning)
    )
    for text in texts:
        warn_caller(
            text,
            UtilityWarning,
        )


def silently(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function without its warnings, which would count the runs.

    Raises
    ------
    PrivacyBudgetError
        As the function does: it follows from public facts alone.
    RuntimeError
        Instead of any other exception, whose message may quote the data.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except PrivacyBudgetError:
            raise
        except Exception:
            pass
    # Outside the handler, so that the original is not kept as a context.
    raise RuntimeError(_WITHHELD)


@contextlib.contextmanager
def global_generators_kept() -> Iterator[None]:
    """Leave NumPy's and Python's global generators as they were.

    Steps that draw from them would count the runs.
    """
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
