"""The parts of a private search: candidates, the split, one run and its gate."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from skfdp.privacy import (
    Event,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivacyPlan,
    Selection,
    gdp_epsilon,
)
from skfdp.records.checks import shown
from skfdp.records.guards import UtilityWarning, warn_caller

# What a candidate must not change: the search sets it, or the event promises it.
FIXED = (
    "epsilon",
    "delta",
    "neighboring_relation",
    "public_features",
    "public_target",
    "n_records",
    "target_name",
    "names",
    "classes",
    "ledger",
    "random_state",
)
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
# What decides, beside the number of records, whether batches are drawn.
_BATCHING = ("batch_size", "solver", "trained_layers", "pretraining")


class Candidates:
    """The settings that a search draws from, uniformly and with replacement.

    Parameters
    ----------
    distributions : dict or list of dicts
        From parameter names to lists, or to distributions with ``rvs``. If all are
        lists, a candidate is a point of the grid; otherwise a dict of the list is
        drawn, then each of its values.
    """

    def __init__(self, distributions: Mapping | Sequence[Mapping]):
        given = [distributions] if isinstance(distributions, Mapping) else distributions
        self._dicts = list(given) if isinstance(given, list | tuple) else []
        if not self._dicts or not all(
            isinstance(d, Mapping) and d for d in self._dicts
        ):
            raise ValueError(
                f"param_distributions={shown(distributions)} must be a dict, or a list "
                "of dicts, from parameter names to lists or distributions."
            )
        for one in self._dicts:
            for name, values in one.items():
                self._check(name, values)
        self.grid = None
        if not any(hasattr(v, "rvs") for d in self._dicts for v in d.values()):
            self.grid = list(ParameterGrid([dict(d) for d in self._dicts]))

    @staticmethod
    def _check(name: Any, values: Any) -> None:
        if str(name).rsplit("__", 1)[-1] in FIXED:
            raise ValueError(
                f"param_distributions holds {name!r}, which a candidate cannot change: "
                "the search sets the budget, and what is protected must be the same "
                "for all candidates."
            )
        if hasattr(values, "rvs"):
            return
        listed = isinstance(values, Sequence | np.ndarray)
        if not listed or isinstance(values, str) or len(values) == 0:
            raise ValueError(
                f"param_distributions[{name!r}]={shown(values)} must be a non-empty "
                "list of values, or a distribution with rvs."
            )

    def draw(self, generator: np.random.Generator) -> dict[str, Any]:
        """Return one candidate."""
        if self.grid is not None:
            return dict(self.grid[int(generator.integers(len(self.grid)))])
        return self._point(generator.integers(len(self._dicts)), generator)

    def probes(self, generator: np.random.Generator) -> list[dict[str, Any]]:
        """Return the candidates to look at before the charge: all of a grid.

        Without a grid one is drawn of each dict, and repeated with every listed value
        of what decides whether batches are drawn.
        """
        if self.grid is not None:
            return self.grid
        found = []
        for number, one in enumerate(self._dicts):
            point = self._point(number, generator)
            listed = {
                name: values
                for name, values in one.items()
                if name.rsplit("__", 1)[-1] in _BATCHING and not hasattr(values, "rvs")
            }
            found += [point | other for other in ParameterGrid(listed)]
        return found

    def _point(self, number: int, generator: np.random.Generator) -> dict[str, Any]:
        return {
            name: values.rvs(random_state=generator)
            if hasattr(values, "rvs")
            else values[generator.integers(len(values))]
            for name, values in sorted(self._dicts[number].items())
        }


def drawn_from(distributions) -> list[dict[str, Any]]:
    """Return what candidates are drawn from, as it enters the keys of a seed.

    A distribution holds a generator, by default NumPy's global one, which a search
    neither uses nor may be keyed by.
    """
    given = [distributions] if isinstance(distributions, Mapping) else distributions

    def told(values):
        if not hasattr(values, "rvs"):
            return list(values)
        if hasattr(values, "random_state"):
            values = copy.deepcopy(values)
            values.random_state = 0
        return values

    return [{name: told(values) for name, values in one.items()} for one in given]


@dataclasses.dataclass(frozen=True)
class Holdout:
    """Two parts of the records, fixed by index: one to fit, one to score.

    Attributes
    ----------
    X, y : array-like
        All records.
    codes : ndarray of shape (n_rows,)
        Class of each record, as a position in `classes`.
    classes : ndarray
    classes_source : str
        See `Event`.
    fit, score : int ndarray
        Positions of the two parts; drawn by public coins, whatever the records hold.
    target_name : str or None
        What y was called.
    """

    X: Any
    y: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    classes_source: str
    fit: np.ndarray
    score: np.ndarray
    target_name: str | None = None

    def rows(self, positions: np.ndarray) -> Any:
        """Return some rows of X."""
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


class Planned(Exception):  # noqa: N818 -- no error: how a dry run ends
    """A dry run came to its charge; holds the events."""

    def __init__(self, events: tuple[Event, ...]):
        super().__init__()
        self.events = events


class DryGate(PrivacyLedger):
    """A ledger that ends the fit at its first charge: nothing private was read."""

    def __init__(self) -> None:
        pass  # it records nothing

    def charge(
        self,
        events: Iterable[Event],
        *,
        label: str | None = None,
        plan: PrivacyPlan | None = None,
    ) -> None:
        """Raise `Planned`."""
        raise Planned(tuple(events))

    def charge_nonprivate(self, *, label: str | None = None) -> None:
        """Refuse fits without privacy."""
        raise PrivacyBudgetError(
            "epsilon=inf inside a private search: leave epsilon to the search."
        )


class RunGate(DryGate):
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
    ) -> None:
        """Raise unless everything that the run releases is within its share."""
        self._released += events
        self._share.check(tuple(self._released))
        if self._last is not None:
            self._last.set_params(epsilon=self._share.rest(self._released))


@dataclasses.dataclass(frozen=True)
class Share:
    """What one run may release.

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


def dry_events(
    model: Any, holdout: Holdout, epsilon: float, delta: float
) -> tuple[Event, ...]:
    """Return the events that a fit would charge first.

    None of our own steps reads a private value before it charges. Other steps of a
    Pipeline do; what they raise is withheld.
    """
    gates = {f"{prefix}ledger": DryGate() for prefix in private_parts(model)}
    prefix, _ = last_step(model)
    facts = {"epsilon": epsilon, "delta": delta, "target_name": holdout.target_name}
    model.set_params(**gates, **{prefix + name: fact for name, fact in facts.items()})
    try:
        model.fit(holdout.rows(holdout.fit), holdout.y[holdout.fit])
    except Planned as planned:
        return planned.events
    except Exception as error:
        if not isinstance(model, Pipeline) or isinstance(error, PrivacyBudgetError):
            raise
    else:
        raise ValueError(NOT_OURS.format(shown(model)))
    # Outside the handler, so that the original is not kept as a context.
    raise RuntimeError(_WITHHELD)


def check_candidate(
    estimator: Any, params: Mapping, holdout: Holdout, share: Share
) -> None:
    """Raise what a dry run of a candidate raises, or ValueError for Poisson batches."""
    model = prepared(estimator, params, holdout.classes, None)
    earlier = _private_steps(model)
    events = dry_events(model, holdout, share.epsilon, share.delta)
    if earlier:  # the dry run ended at the first of them
        model = prepared(estimator, params, holdout.classes, None)
        model.set_params(**dict.fromkeys(earlier, "passthrough"))
        # What fails in such a Pipeline need not fail in the user's.
        with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
            warnings.simplefilter("ignore")
            events += dry_events(model, holdout, share.epsilon, share.delta)
    if any(event.mu is None for event in events):
        prefix, last = last_step(model)
        value = shown(last.get_params().get("batch_size"))
        raise ValueError(_BATCHES.format(f"{prefix}batch_size={value} of a candidate"))


def _private_steps(model: Any) -> list[str]:
    """Return the names of a Pipeline's own private steps before the last one."""
    if not isinstance(model, Pipeline):
        return []
    parts = private_parts(model)
    return [name for name, _ in model.steps[:-1] if f"{name}__" in parts]


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
