"""Hyper-parameter search inside one privacy budget."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from skfdp.addresses import public
from skfdp.base import PrivateEstimator
from skfdp.data._values import as_array, is_frame, raw_column
from skfdp.data.arrays import check_arrays, shaped_target
from skfdp.data.columns import target_name
from skfdp.data.sources import whole_table
from skfdp.data.target import Labels, check_recoded, encode_any, encode_labels
from skfdp.data.validation import (
    UtilityWarning,
    check_choice,
    check_number,
    unmasked,
    warn_caller,
)
from skfdp.mechanisms.noise import Streams, check_random_state
from skfdp.mechanisms.release import Desk
from skfdp.privacy import (
    Event,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivacyPlan,
    Selection,
    gdp_epsilon,
)
from skfdp.privacy.assumptions import (
    CATEGORIES_OF_TYPES,
    ONE_STEP,
    RUNS_CHARGED,
    Assumption,
    enforced,
)
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Relation, check_budget
from skfdp.privacy.pipelines import with_steps
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.selection import calibrate_run, gamma_of
from skfdp.privacy.store import FitPlan, Receipt
from skfdp.queries import Query, chosen, sum_unit
from skfdp.solvers.method import Budget, OnStep, Plan
from skfdp.solvers.parameters import ASSUMPTIONS, REFUSES, public_count, store

# One run of a private search: its records, its share, its gate.


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


# The candidates of a private search: what is drawn, and what may not change.


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


# Validation scores as sums of bounded contributions.


@dataclasses.dataclass(frozen=True)
class ScoreSum:
    """The sum of one number in [-clip_norm, clip_norm] of one sign a record.

    Parameters
    ----------
    values : float ndarray of shape (n_rows,)
        What each record contributes: private.
    clip_norm : float
        Bound of the absolute values.
    sign : {-1, 1}
        The contributions are in ``[0, clip_norm]`` or ``[-clip_norm, 0]``.
    finest : float
        Smallest grid unit, a power of two.

    Notes
    -----
    **Guarantees.** Values are clipped to the interval, what is not finite counts as its
    worst end, and truncated toward zero to the grid. All contributions are in one
    interval of length `clip_norm` that contains 0, hence the sum moves by at most
    `clip_norm` under every relation, whether a record is replaced or nulled.
    """

    values: np.ndarray
    clip_norm: float
    sign: int
    finest: float

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum."""
        return (1,)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        return relation.moves(self.clip_norm, self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        return sum_unit(noise_std, self.clip_norm, len(self.values), self.finest)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch, in `unit`."""
        (values,) = chosen(batch, self.values)
        low, high = sorted((0.0, self.sign * self.clip_norm))
        bounded = np.clip(np.where(np.isfinite(values), values, low), low, high)
        # The unit is a power of two: the division is exact, truncation never lengthens.
        return np.trunc(bounded / unit).astype(np.int64).sum(keepdims=True)


def accuracy_sum(
    predicted: np.ndarray, target: np.ndarray, known: np.ndarray | None = None
) -> ScoreSum:
    """Return the number of records that were predicted right.

    `known` is False where a record has no target: no prediction is right there.
    """
    right = np.asarray(predicted == target, dtype=np.float64)
    if known is not None:
        right = np.where(known, right, 0.0)
    return ScoreSum(right, 1.0, 1, 2.0**-10)


def log_loss_sum(
    probabilities: np.ndarray, codes: np.ndarray, bound: float
) -> ScoreSum:
    """Return the sum of ``-min(log-loss, bound)``.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
    codes : int ndarray of shape (n_rows,)
        Column of each record's class, -1 where there is none.
    bound : float
    """
    own = np.where(codes >= 0, probabilities[np.arange(len(codes)), codes], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(own)
    return ScoreSum(values, float(bound), -1, 2.0**-20)


# The method of a search: candidates are fitted and scored, the best is published.


@dataclasses.dataclass(frozen=True)
class Found:
    """The best run.

    Attributes
    ----------
    model : estimator
    params : dict
    score : float
        Noisy.
    cv_results : dict or None
        Of all candidates, where all of them are published.
    """

    model: Any
    params: dict[str, Any]
    score: float
    cv_results: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The candidates to plan for: all that can be listed, or some."""

    settings: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchPlan(Plan):
    """The plan of a search.

    Attributes
    ----------
    share : Share
        What one run may release.
    """

    share: Share

    @property
    def releases(self) -> tuple:
        """Nothing: a desk is opened for the score of each run."""
        return ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """A search: candidates are fitted on one part of the records, scored on the other.

    Attributes
    ----------
    estimator : estimator
        Cloned for each run.
    distributions : dict or list of dicts
        What candidates are drawn from.
    publishes_all : bool
        All candidates are charged and published; else the best of a random number.
    law : dict
        Of the number of runs, as fields of `Selection`.
    law_text : str
    n_iter : int or None
    scoring : {"accuracy", "neg_log_loss"}
    loss_bound : float
    coins : Streams
        Public ones.
    """

    estimator: Any
    distributions: Any
    publishes_all: bool
    law: dict[str, float]
    law_text: str
    n_iter: int | None
    scoring: str
    loss_bound: float
    coins: Streams

    @property
    def candidates(self) -> Candidates:
        """What is drawn from."""
        return Candidates(self.distributions)

    def prepare(self, public: Holdout, budget: Budget) -> Settings:
        """List the candidates, or draw some of them."""
        return Settings(settings=self._settings())

    def _settings(self) -> list[dict[str, Any]]:
        candidates = self.candidates
        if self.publishes_all and self.n_iter is not None:
            coins = self.coins.public("candidates")
            return [candidates.draw(coins) for _ in range(self.n_iter)]
        if candidates.grid is not None:
            return candidates.grid
        if self.publishes_all:
            raise ValueError(
                "n_iter=None with budget='compose' needs lists of values: give n_iter, "
                "the number of candidates to draw from the distributions."
            )
        return candidates.probes(self.coins.public("probe"))

    def plan(self, public: Holdout, prepared: Settings, budget: Budget) -> SearchPlan:
        """Solve for what one run may release."""
        settings, together = prepared.settings, None
        label = f"search: best of a random number of runs ({self.law_text}), each at"
        if self.publishes_all:
            together = len(settings)
            label = f"search: {together} candidates together, fits and scores each at"
        with global_generators_kept(), utility_warnings_once():
            blank = Selection(
                label=f"{label} most",
                noise_std=(1.0,),
                clip_norm=1.0,
                sensitivity=1.0,
                **self._promise(public, settings[0], budget),
                **self.law,
            )
            event = calibrate_run(blank, budget.epsilon, budget.delta)
            share = Share.of(event, budget.delta, together)
            for params in settings:
                check_candidate(self.estimator, params, public, share)
        one_run = PrivacyPlan(
            target_epsilon=budget.epsilon,
            target_delta=budget.delta,
            n_steps=1,
            sampling_rate=1.0,
            clip_norm=event.clip_norm,
            sensitivity=event.sensitivity,
            neighboring_relation=event.neighboring_relation,
            noise_multipliers=event.noise_std,
        )
        return SearchPlan(events=(event,), schedule=one_run, share=share)

    def _promise(
        self, holdout: Holdout, params: dict[str, Any], budget: Budget
    ) -> dict[str, Any]:
        """Return the relation and the public set, as the first event states them."""
        model = prepared(self.estimator, params, holdout.classes, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plans = planned(model, holdout, budget.epsilon, budget.delta)
        first = plans[0].events[0]
        last = last_step(model)[1]
        unnamed = ["columns"] * ("columns" in first.unnamed)
        unnamed += ["target"] * (holdout.target_name is None)
        return {
            "neighboring_relation": first.neighboring_relation,
            "public_features": first.public_features,
            "public_target": bool(last.get_params().get("public_target")),
            "target_name": holdout.target_name,
            "unnamed": tuple(unnamed),
            "classes_source": holdout.classes_source,
            **budget.facts,
        }

    def run(
        self,
        records: Holdout,
        prepared: Settings,
        plan: SearchPlan,
        desk: Desk,
        on_step: OnStep,
    ) -> Found:
        """Fit and score every run, silently."""
        with global_generators_kept():
            if self.publishes_all:
                return self._all(records, prepared.settings, plan, desk.streams)
            return self._random(records, plan, desk.streams)

    def _random(self, holdout: Holdout, plan: SearchPlan, streams: Streams) -> Found:
        """Return the best of a random number of runs."""
        draws, candidates = streams.private("candidates"), self.candidates
        chances = np.cumsum(plan.share.promise.run_probabilities())
        n_runs = 1 + int(np.searchsorted(chances, draws.random() * chances[-1]))
        best = None
        for number in range(n_runs):
            params = candidates.draw(draws)
            found = self._run(holdout, streams, number, params, plan.share)
            # The first of equal scores: runs are exchangeable.
            if best is None or found.score > best.score:
                best = found
        return best

    def _all(
        self, holdout: Holdout, settings: list, plan: SearchPlan, streams: Streams
    ) -> Found:
        """Return the best of all candidates, and what all of them have scored."""
        found = [
            self._run(holdout, streams, number, params, plan.share)
            for number, params in enumerate(settings)
        ]
        scores = np.array([one.score for one in found])
        order = np.argsort(np.argsort(-scores, kind="stable"))
        results = {
            "params": settings,
            "mean_test_score": scores,
            "rank_test_score": order.astype(np.int32) + 1,
        }
        return dataclasses.replace(found[int(np.argmax(scores))], cv_results=results)

    def _run(
        self,
        holdout: Holdout,
        streams: Streams,
        number: int,
        params: dict[str, Any],
        share: Share,
    ) -> Found:
        """Fit one candidate and release its score."""
        seed = None
        if streams.seeded:
            seed = int(streams.private("fit", number).integers(2**31))
        model = prepared(self.estimator, params, holdout.classes, seed)
        model = fitted(model, holdout, share)
        query = silently(self._query, model, holdout)
        event = share.promise.run_event("score", query.clip_norm, share.mu)
        noisy = Desk((event,), streams.under(f"run {number}")).release("score", query)
        return Found(model, params, float(noisy[0]) / len(holdout.score))

    def _query(self, model: Any, holdout: Holdout) -> Query:
        """Return the scores of the records that take no part in fits."""
        rows, codes = holdout.rows(holdout.score), holdout.codes[holdout.score]
        place = {label: code for code, label in enumerate(model.classes_.tolist())}
        columns = np.array([place.get(v, -1) for v in holdout.classes.tolist()])[codes]
        if holdout.missing is not None:
            columns[holdout.missing[holdout.score]] = -1
        if self.scoring == "accuracy":
            predicted = model.predict(rows)
            if len(predicted) != len(codes):
                raise ValueError("a step drops rows")
            return accuracy_sum(predicted, model.classes_[columns], columns >= 0)
        return log_loss_sum(model.predict_proba(rows), columns, self.loss_bound)


def law_of(runs_law: str, mean: float, eta: float) -> tuple[dict[str, float], str]:
    """Return the law of the number of runs, as an event holds it, and its name."""
    eta = {"geometric": 1.0, "logarithmic": 0.0}.get(runs_law, eta)
    law = {"eta": eta, "gamma": gamma_of(eta, mean)}
    return law, f"truncated negative binomial, eta {eta:g}, mean {mean:g}"


_LAWS = ("geometric", "logarithmic", "negative_binomial")
_SCORERS = ("accuracy", "neg_log_loss")
_ASSUMPTIONS = (
    Assumption(
        "How many candidates were fitted is not published, nor how long it took.", False
    ),
    enforced(RUNS_CHARGED),
)


def _delegates(name: str):
    """Return a check that the estimator has a method; the fitted one decides."""

    def check(search) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


@public("skfdp.experimental")
class PrivateSearchCV(MetaEstimatorMixin, ClassifierMixin, PrivateEstimator):
    r"""Search over hyper-parameters inside one privacy budget.

    A random number of candidates are fitted on one part of the records and scored, with
    noise, on the other part. Only the best one is published: its own model, its
    parameters and its noisy score. How many there were stays secret, and that is what
    makes the search cheap: ten candidates cost far less than ten fits.

    Parameters
    ----------
    estimator : classifier of this package, or Pipeline that ends with one
        Its `epsilon`, `delta` and `random_state` are ignored, its `ledger` must be
        None. It takes full batches: for the network, `batch_size` None.
    param_distributions : dict or list of dicts
        From parameter names to lists or to distributions with ``rvs``. Candidates are
        drawn uniformly and with replacement. They cannot change the budget, the
        relation or what is public.
    epsilon, delta : float, default=1.0, 1e-5
        The budget of the whole search; that of one run follows from it.
    budget : {"select", "compose"}, default="select"
        "select": publish the best of a random number of runs. "compose": fit all points
        of the grid, or `n_iter` drawn candidates, each of them charged, and publish all
        noisy scores; for two or three candidates.
    runs : {"geometric", "logarithmic", "negative_binomial"}
        Law of the number of runs, for "select"; geometric by default. All have at
        least one.
    mean_runs : float, default=10.0
        Expected number of runs.
    eta : float, default=1.0
        Shape of "negative_binomial": 0 is logarithmic, 1 geometric; the larger it is,
        the less the number of runs varies, and the more the search costs.
    n_iter : int, default=None
        Number of candidates of "compose"; None: all points of the grid.
    scoring : {"accuracy", "neg_log_loss"}, default="accuracy"
        What is the best. The log-loss of a record is clipped to `loss_bound`.
    loss_bound : float, default=4.0
        Public bound of one record's log-loss.
    validation_fraction : float, default=0.1
        Share of the records that score; drawn by index, never stratified.
    ledger : str, path or PrivacyLedger, default=None
        Charged once, for the whole search, before anything private is read.
    random_state : int, default=None
        None: cryptographic randomness. An int: reproducible, **no guarantee**.

    Attributes
    ----------
    best_estimator_ : estimator
        The model of the best run, fitted on its part of the records, not refitted.
    best_params_ : dict
    best_score_ : float
        Its noisy score.
    cv_results_ : dict
        For "compose" only: `params`, `mean_test_score` (noisy), `rank_test_score`.
    privacy_ : PrivacyReport
        Of the search; that of `best_estimator_` is the same.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record under the estimator's `neighboring_relation`, if
    `random_state` is None:

    * a record is either in the fit of every run or in the score of every run, by its
      index; a run costs the larger one of the two, not the sum;
    * fits take full batches; a candidate that takes Poisson batches is refused;
    * a record's contribution to a score is in an interval of length 1 (`loss_bound` for
      the log-loss) that contains 0; sums and noise are integers;
    * the best of a random number of runs costs what the theorem of
      `skfdp.privacy.selection` says; a run's noise is calibrated to it, and each run's
      events are checked against what was charged before the run reads private values;
    * the runs are silent: no callback, warning, progress, count or ledger entry tells
      how many there were. Callbacks of the search see it begin and end. If a run fails,
      the search fails, without saying how.

    Not covered: how long the search took, which reveals the number of runs; steps of a
    Pipeline that are not of this package and learn from the data (the report lists
    them); the choice of `param_distributions`.

    "add_or_remove_one" is refused: the split by index makes the number of records
    public. "replace_special" has the same price.

    References
    ----------
    Papernot and Steinke (2022), https://arxiv.org/abs/2110.03620; Koskela, Redberg and
    Wang (2024), https://arxiv.org/abs/2402.06701.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skfdp import DPSGDFClassifier
    >>> from skfdp.experimental import PrivateSearchCV
    >>> X, y = load_digits(return_X_y=True)
    >>> search = PrivateSearchCV(
    ...     DPSGDFClassifier(bounds=(0, 16), classes=range(10)),
    ...     {"clip_norm": [0.1, 0.3, 1.0]},
    ...     epsilon=3.0,
    ...     random_state=0,
    ... ).fit(X, y)
    >>> search.best_params_["clip_norm"] in (0.1, 0.3, 1.0)
    True
    >>> round(search.privacy_.epsilon, 3)
    3.0
    """

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        epsilon=1.0,
        delta=1e-5,
        budget="select",
        runs="geometric",
        mean_runs=10.0,
        eta=1.0,
        n_iter=None,
        scoring="accuracy",
        loss_bound=4.0,
        validation_fraction=0.1,
        ledger=None,
        random_state=None,
    ):
        store(self, locals())

    _released = ("best_estimator_", "best_params_", "best_score_")
    _can_resume = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.allow_nan = inner.allow_nan
        return tags

    def _check_parameters(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_choice("budget", self.budget, ("select", "compose"))
        check_choice("runs", self.runs, _LAWS)
        check_number("mean_runs", self.mean_runs, low=1, include_low=True)
        check_number("eta", self.eta, include_low=True)
        check_number("n_iter", self.n_iter, integral=True, also=(None,))
        check_number("loss_bound", self.loss_bound)
        check_number("validation_fraction", self.validation_fraction, high=1)
        check_random_state(self.random_state)
        Candidates(self.param_distributions)
        if not isinstance(self.scoring, str) or self.scoring not in _SCORERS:
            raise ValueError(
                f"scoring={shown(self.scoring)} has no bound of what one record "
                "changes: choose 'accuracy' or 'neg_log_loss'."
            )
        parts = self._parts()
        for prefix, part in parts.items():
            if part.ledger is not None:
                raise ValueError(
                    f"estimator has {prefix}ledger={shown(part.ledger)}: give the "
                    "ledger to PrivateSearchCV, which charges the whole search at once."
                )
        relations = {part.neighboring_relation for part in parts.values()}
        if not all(Relation.of(name).counts_are_public for name in relations):
            raise ValueError(
                "neighboring_relation='add_or_remove_one' makes the number of records "
                "private, but the search splits by index: use 'replace_special', which "
                "has the same price."
            )
        if self.scoring == "neg_log_loss" and not hasattr(
            self.estimator, "predict_proba"
        ):
            raise ValueError(
                "scoring='neg_log_loss' needs predict_proba, which estimator="
                f"{shown(self.estimator)} has not: choose 'accuracy'."
            )

    def _parts(self) -> dict[str, Any]:
        """Return the private estimators inside; the last step must be one."""
        unmade = isinstance(self.estimator, type)
        if unmade or not hasattr(self.estimator, "get_params"):
            raise TypeError(NOT_OURS.format(shown(self.estimator)))
        parts = private_parts(self.estimator)
        prefix, last = last_step(self.estimator)
        if prefix not in parts or not is_classifier(last):
            raise TypeError(NOT_OURS.format(shown(self.estimator)))
        return parts

    def _records(self, X, y, planning: bool = False) -> Holdout:
        """Validate and split; draws no private coin."""
        last = last_step(self.estimator)[1].get_params()
        named = target_name(last.get("target_name"), y)
        steps = self._takes_any_columns
        declared = last.get("classes") is not None and not last.get("public_target")
        any_target = declared and not self._refuses
        # Steps of others may need y; nothing else does if the labels are declared.
        if planning and (y is None or (declared and not steps)):
            y = self._placeholder(X, last)
        if steps:  # columns of any type
            if not hasattr(X, "columns"):
                # An array of a list would have one type, which one cell may decide.
                X = unmasked(X)
                as_given = list if isinstance(X, (list, tuple)) else np.asarray
                X = X.tocsr() if hasattr(X, "tocsr") else as_given(X)
            if any_target:
                y = shaped_target(y, X.shape[0] if hasattr(X, "shape") else len(X))
            else:
                check_consistent_length(X, y)
                y = column_or_1d(np.asarray(unmasked(y, as_objects=True)))
        else:
            names = X
            finite = self._refuses and not planning
            X, y = check_arrays(self, X, y, finite=finite, any_target=any_target)
            # Names and dtypes are kept.
            X = names if hasattr(names, "iloc") else whole_table(X)
        if last.get("classes") is not None:
            check_recoded(y, last["classes"])
        labels = (encode_any if any_target else encode_labels)(y, last.get("classes"))
        n_rows = public_count(len(y), None, self.epsilon, self.delta)
        if isinstance(self.ledger, PrivacyLedger) and not planning:
            self._check_column_of_part(X)
        coins = Streams(self.random_state, type(self)).public("split")
        parts = split(n_rows, self.validation_fraction, coins)
        source = labels.source
        if source == "data" and last.get("public_target"):
            source = "public target"
        return Holdout(
            X,
            y,
            labels.codes,
            labels.classes,
            source,
            *parts,
            columns=self._columns(),
            target_name=named,
            missing=labels.missing,
        )

    def _check_column_of_part(self, X) -> None:
        """Refuse rows that are not in the part that the ledger charges."""
        if is_frame(X):
            names = list(getattr(X, "column_names", X.columns))
            self.ledger.check_column(
                names, None, lambda place: as_array(raw_column(X, place)).tolist()
            )

    @staticmethod
    def _placeholder(X, last: dict[str, Any]) -> np.ndarray:
        """Return labels for a plan that is made without y."""
        if last.get("classes") is None or last.get("public_target"):
            raise ValueError(
                "y=None: a plan needs y, or an estimator with a private target and "
                "declared `classes`."
            )
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        labels = Labels.unseen(last["classes"], n_rows)
        return labels.classes[labels.codes]

    @property
    def _takes_any_columns(self) -> bool:
        """Whether X may hold what are no numbers yet."""
        encodes = getattr(self.estimator, "encoder", None) is not None
        return encodes or isinstance(self.estimator, Pipeline)

    def _columns(self) -> tuple | None:
        if self._takes_any_columns:
            return None
        return tuple(getattr(self, "feature_names_in_", range(self.n_features_in_)))

    def _budget(self, public: Holdout) -> Budget:
        last = last_step(self.estimator)[1]
        relation = Relation.of(last.neighboring_relation)
        facts = {"seeded": self._seeded}
        return Budget(float(self.epsilon), float(self.delta), relation, facts)

    def _method(self, public: Holdout) -> Search:
        law, text = {"gamma": 1.0}, ""
        if self.budget == "select":
            law, text = law_of(self.runs, float(self.mean_runs), float(self.eta))
        return Search(
            estimator=self.estimator,
            distributions=self.param_distributions,
            publishes_all=self.budget == "compose",
            law=law,
            law_text=text,
            n_iter=self.n_iter,
            scoring=self.scoring,
            loss_bound=self.loss_bound,
            coins=Streams(self.random_state, type(self)),
        )

    def _attributes(self, public: Holdout, found: Found) -> dict[str, Any]:
        model = found.model
        attributes = {
            "best_score_": found.score,
            "best_params_": found.params,
            "classes_": model.classes_,
            "best_estimator_": model,
        }
        if found.cv_results is not None:
            attributes["cv_results_"] = found.cv_results
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name) and not hasattr(self, name):
                attributes[name] = getattr(model, name)
        return attributes

    def _finish(self, context, attributes: dict[str, Any], report: PrivacyReport):
        # What the run released alone is not a measure of what the search did.
        model = attributes["best_estimator_"]
        if isinstance(model, Pipeline):
            report = with_steps(report, model)
        elif hasattr(model, "encoder_") and model.encoder_.categories_from_types():
            told = (*report.assumptions, Assumption(CATEGORIES_OF_TYPES, False))
            report = dataclasses.replace(report, assumptions=told)
        for part in (*private_parts(model).values(), model):
            part.privacy_ = report
        return super()._finish(context, attributes, report)

    def _subject(self) -> str:
        name = type(last_step(self.estimator)[1]).__name__
        return f"{type(self).__name__} of {name}"

    def _public_rows(self, public: Holdout) -> int:
        return len(public.y)

    @property
    def _refuses(self) -> bool:
        """Whether a candidate may refuse malformed private values."""
        if any(str(name).endswith("on_invalid") for name in self.param_distributions):
            return True
        parts = private_parts(self.estimator).values()
        return any(part.on_invalid == "raise" for part in parts)

    @property
    def _assumptions(self) -> tuple[Assumption, ...]:
        return (*ASSUMPTIONS, *_ASSUMPTIONS, *(REFUSES,) * self._refuses)

    def _report(
        self, public: Holdout, told: FitPlan, receipt: Receipt | None, has_loop: bool
    ) -> PrivacyReport:
        released = [
            "best_estimator_ (fitted attributes)",
            "best_params_",
            "best_score_",
        ]
        if self.budget == "compose":
            released.append("the noisy score of every candidate")
        return PrivacyReport.from_events(
            subject=told.subject,
            events=told.events,
            delta=told.delta,
            target_epsilon=told.target_epsilon,
            n_records=told.n_records,
            feature_names=public.columns,
            released=released,
            assumptions=(*told.assumptions, Assumption(ONE_STEP, enforced=False)),
            seeded=self._seeded,
            receipts=[receipt],
        )

    def predict(self, X):
        """Return the labels that the best run's model predicts.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X):
        """Return the probabilities of the best run's model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_delegates("predict_log_proba"))
    def predict_log_proba(self, X):
        """Return the logarithms of the probabilities of the best run's model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)

    @available_if(_delegates("decision_function"))
    def decision_function(self, X):
        """Return the margins of the best run's model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)
