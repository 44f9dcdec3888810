"""Hyper-parameter search within one privacy budget."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from skfdp.addresses import public
from skfdp.base import Declared, PrivateClassifier, PrivateEstimator, delegates
from skfdp.data.arrays import check_arrays, shaped_target
from skfdp.data.grid import sum_unit
from skfdp.data.sources import whole_table
from skfdp.data.target import Labels, check_recoded, encode_any, encode_labels
from skfdp.data.validation import check_number, unmasked
from skfdp.mechanisms.noise import Streams, check_random_state
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import (
    Event,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivacyPlan,
    Selection,
    gdp_epsilon,
)
from skfdp.privacy.assumptions import RUNS_CHARGED, Assumption
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Relation, check_budget
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.selection import calibrate_run
from skfdp.queries import Query, chosen
from skfdp.solvers.method import Budget, OnStep, Plan
from skfdp.solvers.parameters import ASSUMPTIONS, public_count
from skfdp.solvers.score import column_of, rows_of, table_with_rows

# The smallest grid step of a score, a power of two.
_FINEST = 2.0**-10
# Relative margin between the budget of a run and the sum of its events, for rounding.
MARGIN = 1e-9
# Parameters that a candidate must not change, because the search sets them, or because
# the guarantee of the search depends on them.
FIXED = (
    *("epsilon", "delta", "ledger", "random_state"),
    *("neighboring_relation", "public_features", "public_target"),
    *("schema", "target", "classes"),
)
_ASSUMPTIONS = (
    Assumption(
        "runs_not_published",
        "The number of candidates that were fitted, and the running time, are not "
        "published.",
    ),
    RUNS_CHARGED,
)


def candidates_of(grid: Any) -> list[dict[str, Any]]:
    """Return the candidates, one for each point of a parameter grid.

    Raises
    ------
    ValueError
        If the grid is malformed, or has a parameter of `FIXED`.
    """
    dicts = [grid] if isinstance(grid, Mapping) else grid
    if (
        not isinstance(dicts, list | tuple)
        or not dicts
        or not all(isinstance(one, Mapping) and one for one in dicts)
    ):
        raise ValueError(
            f"param_grid={shown(grid)} must be a dict, or a list of dicts, from "
            "parameter names to lists of values."
        )
    for name, values in [item for one in dicts for item in one.items()]:
        if str(name).rsplit("__", 1)[-1] in FIXED:
            raise ValueError(
                f"param_grid has {name!r}, which must be the same for all candidates: "
                "leave it out."
            )
        listed = isinstance(values, Sequence | np.ndarray)
        if not listed or isinstance(values, str) or len(values) == 0:
            raise ValueError(
                f"param_grid[{name!r}]={shown(values)} must be a non-empty list of "
                "values."
            )
    return list(ParameterGrid([dict(one) for one in dicts]))


@dataclasses.dataclass(frozen=True)
class Holdout:
    """The records of a search, split into those for fits and those for scores.

    `fit` and `score` are positions of rows. They are drawn with public randomness,
    independently of the data. Each row is a record. Each fit determines its own null
    records.
    """

    X: Any
    y: np.ndarray
    labels: Labels
    fit: np.ndarray
    score: np.ndarray
    columns: tuple | None  # names or positions; None if the estimator encodes X
    target_name: str | None

    units = None
    is_null = None

    @property
    def n_records(self) -> int:
        """Number of records, which is public."""
        return len(self.y)

    n_given = n_records

    @property
    def public(self) -> Holdout:
        """The object itself, because plans of candidates read public facts only."""
        return self

    def rows(self, positions: np.ndarray) -> Any:
        """Return some rows of X."""
        return rows_of(self.X, positions)


class RunLedger(PrivacyLedger):
    """Ledger of one run, which refuses releases beyond the budget of a single run.

    `charged` is the event of the search, and `delta` the delta of the whole search. The
    attribute `budget` has epsilon and delta of the run's estimator.
    """

    def __init__(self, charged: Selection, delta: float):
        self._charged, self._released = charged, []
        delta /= charged.mean_runs
        epsilon = gdp_epsilon(delta, charged.run_mu * (1 - MARGIN))
        self.budget = {"epsilon": epsilon, "delta": delta}

    def charge(self, events: Iterable[Event], **facts: Any) -> None:
        """Raise PrivacyBudgetError if the search was not charged for a release.

        Nothing is charged here. The releases of the run must have the relation and the
        public parts of the charge, use full batches, and stay within the run's budget.
        """
        self._released += events
        charged = self._charged
        for event in self._released:
            if (
                event.neighboring_relation != charged.neighboring_relation
                or event.public_target != charged.public_target
                or set(event.public_features) != set(charged.public_features)
            ):
                raise PrivacyBudgetError(
                    "a candidate changes the guarantee that was charged: use the same "
                    "neighboring_relation, public_features and public_target for all "
                    "candidates."
                )
            if event.mu is None:
                raise PrivacyBudgetError(
                    "a candidate uses Poisson batches (sampling_rate="
                    f"{event.sampling_rate:.3g}), which a search does not account for: "
                    "use NoisyGradientDescent of skfdp.solvers."
                )
        spent = math.fsum(event.mu**2 for event in self._released)
        if not spent <= charged.run_mu**2:  # this form also refuses NaN
            raise PrivacyBudgetError(
                f"a candidate spends mu={spent**0.5!r}, but a run may spend "
                f"{charged.run_mu!r}: do not set epsilon in the candidate."
            )


def prepared(
    estimator: Any, params: Mapping, classes: np.ndarray, seed: int | None
) -> Any:
    """Return an unfitted estimator with the parameters of a candidate.

    It has no ledger and no callbacks.
    """
    copies = {name: clone(value, safe=False) for name, value in params.items()}
    model = clone(estimator).set_params(**copies)
    model.set_params(ledger=None, random_state=seed)
    if model.classes is None and model.schema is None:
        model.set_params(classes=classes)
    if hasattr(model, "set_callbacks"):
        model.set_callbacks()
    return model


def silently(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function without its warnings, which would reveal the number of runs.

    Raises
    ------
    PrivacyBudgetError
        If the function raises this error, which depends on public facts only.
    RuntimeError
        Instead of any other exception, because its message may quote the data.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except PrivacyBudgetError:
            raise
        except Exception:
            pass
    # Raised outside the handler, so that the original exception is not its __context__.
    raise RuntimeError(
        "a run of the search failed; its message is withheld because it may quote the "
        "data: fit the estimator on synthetic data of the same shape to see it."
    )


@contextlib.contextmanager
def global_generators_kept() -> Iterator[None]:
    """Restore the global generators of NumPy and Python at the end.

    A user's function may draw from these generators in each run. Their state would then
    reveal the number of runs.
    """
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])


@dataclasses.dataclass(frozen=True)
class AccuracySum:
    """Query of the number of correct predictions.

    `right` marks the records with a correct prediction; it is private.

    Notes
    -----
    **Guarantees.** All contributions are in an interval of length 1 that contains 0.
    Hence the sum changes by at most 1 under every relation, whether a record is
    replaced by another record or by a null record.
    """

    right: np.ndarray

    shape = (1,)
    clip_norm = 1.0

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.right)

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum; see the guarantees."""
        return relation.sensitivity(self.clip_norm, self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid step of the sum, which is at most 1."""
        return sum_unit(noise_std, self.clip_norm, len(self.right), _FINEST)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch, in `unit`."""
        (right,) = chosen(batch, self.right)
        return np.trunc(right / unit).astype(np.int64).sum(keepdims=True)


class Found(NamedTuple):
    """The best run: its model, its candidate, and its noisy score."""

    model: Any
    params: dict[str, Any]
    score: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchPlan(Plan):
    """The plan of a search: one event for the whole search."""

    @property
    def releases(self) -> tuple:
        """Empty, because each run makes its releases by its own mechanism."""
        return ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """Search method: fit random candidates, score them, and return the best.

    A candidate is fitted on one part of the records, and scored on the other part.
    `delta` is the delta of the whole search.
    """

    estimator: Any
    candidates: list[dict[str, Any]]
    mean_runs: float
    delta: float

    def prepare(self, public: Holdout, budget: Budget) -> None:
        """Do nothing: the search needs no preparation."""

    def plan(self, public: Holdout, prepared: None, budget: Budget) -> SearchPlan:
        """Calibrate the budget of one run, and check the plan of every candidate."""
        runs = f"geometric, mean {self.mean_runs:g}"
        blank = Selection(
            label=f"search: best of a random number of runs ({runs}), each at most",
            noise_std=(1.0,),
            clip_norm=1.0,
            sensitivity=1.0,
            neighboring_relation=budget.relation.name,
            gamma=1 / self.mean_runs,
            **budget.facts,
        )
        event = calibrate_run(blank, budget.epsilon, budget.delta)
        run = RunLedger(event, budget.delta).budget
        with global_generators_kept():
            planned = [self._events(public, one, run) for one in self.candidates]
        first = planned[0][0]
        unnamed = ["columns"] * ("columns" in first.unnamed)
        unnamed += ["target"] * (public.target_name is None)
        event = dataclasses.replace(
            event,
            public_features=first.public_features,
            public_target=public.labels.source == "public target",
            target_name=public.target_name,
            unnamed=tuple(unnamed),
            classes_source=public.labels.source,
        )
        for events in planned:
            RunLedger(event, budget.delta).charge(events)
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
        return SearchPlan(events=(event,), schedule=one_run)

    def _events(
        self, public: Holdout, params: Mapping, budget: Mapping[str, float]
    ) -> tuple[Event, ...]:
        """Return the events of a candidate, without charging them."""
        model = prepared(self.estimator, params, public.labels.classes, None)
        model.set_params(target=public.target_name, **budget)
        return model.plan(public.rows(public.fit), public.y[public.fit]).events

    def run(
        self,
        records: Holdout,
        prepared: None,
        plan: SearchPlan,
        mechanism: Mechanism,
        on_step: OnStep,
    ) -> Found:
        """Return the best of a random number of runs."""
        event, streams = plan.events[0], mechanism.streams
        draws, best = streams.private("candidates"), None
        chances = np.cumsum(event.run_probabilities())
        n_runs = 1 + int(np.searchsorted(chances, draws.random() * chances[-1]))
        with global_generators_kept():
            for number in range(n_runs):
                params = self.candidates[int(draws.integers(len(self.candidates)))]
                found = self._run(records, streams, number, params, event)
                # It does not matter which of several equal scores is kept, because runs
                # are exchangeable.
                if best is None or found.score > best.score:
                    best = found
        return best

    def _run(
        self,
        records: Holdout,
        streams: Streams,
        number: int,
        params: dict[str, Any],
        event: Selection,
    ) -> Found:
        """Fit one candidate within the budget of a run, and release its score."""
        seed = None
        if streams.seeded:
            seed = int(streams.private("fit", number).integers(2**31))
        model = prepared(self.estimator, params, records.labels.classes, seed)
        run = RunLedger(event, self.delta)
        model.set_params(ledger=run, **run.budget)
        silently(model.fit, records.rows(records.fit), records.y[records.fit])
        model.set_params(ledger=None, random_state=None)
        query = silently(self._query, model, records)
        score = event.run_event("score", query.clip_norm)
        noisy = Mechanism((score,), streams.under(f"run {number}")).release(
            "score", query
        )
        return Found(model, dict(params), float(noisy[0]) / len(records.score))

    def _query(self, model: Any, records: Holdout) -> Query:
        """Return the query of the number of correct predictions on held-out records."""
        labels, codes = records.labels, records.labels.codes[records.score]
        right = model.predict(records.rows(records.score)) == labels.classes[codes]
        if labels.missing is not None:
            right &= ~labels.missing[records.score]
        return AccuracySum(right)


@public("skfdp.experimental")
class PrivateSearchCV(MetaEstimatorMixin, ClassifierMixin, PrivateEstimator):
    r"""Search over hyper-parameters within one privacy budget.

    A random number of candidates is fitted on one part of the records, and scored with
    noise on the other part. A run is the fit and the score of one candidate. Only the
    model, the parameters and the noisy score of the best run are published. The number
    of runs stays secret. Therefore ten runs cost far less than ten fits.

    Parameters
    ----------
    estimator : DPSGDFClassifier, FeatureDPLogisticRegression or FeatureDPMLPClassifier
        Its `epsilon`, `delta` and `random_state` are ignored, and its `ledger` must be
        None. It must use full batches: for the network pass a solver
        `NoisyGradientDescent`.
    param_grid : dict or list of dicts
        Maps parameter names to lists of values, as in `GridSearchCV`. Candidates are
        drawn from the points of the grid, uniformly and with replacement. They cannot
        change the budget, the relation or the public parts.
    epsilon, delta : float, default=1.0, 1e-5
        The budget of the whole search; the budget of one run follows from it.
    mean_runs : float, default=10.0
        Expected number of runs. The number of runs has a geometric distribution and is
        at least 1.
    validation_fraction : float, default=0.1
        Share of the records that are used for scores. They are drawn by index, never
        stratified.
    ledger : str, path or PrivacyLedger, default=None
        Charged once, for the whole search, before private data are read.
    random_state : int, default=None
        None uses cryptographic randomness. An int is reproducible and gives **no
        guarantee**.

    Attributes
    ----------
    best_estimator_ : estimator
        The model of the best run. It was fitted on the part of the records for fits,
        and is not refitted on all records.
    best_params_ : dict
        Parameters of the best run.
    best_score_ : float
        Noisy accuracy of the best run.
    privacy_ : PrivacyReport
        Report of the search, which is also the report of `best_estimator_`.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record under the estimator's `neighboring_relation`, if
    `random_state` is None:

    * The index of a record decides whether the record is in the fit of every run or in
      the score of every run. So a run costs the larger of the costs of its fit and its
      score, not their sum.
    * Fits use full batches; a candidate with Poisson batches is refused.
    * A record's contribution to a score is in an interval of length 1 that contains 0.
      Sums and noise are integers.
    * The cost of the best of a random number of runs follows from the theorem of
      `skfdp.privacy.selection`. The noise of a run is calibrated to this theorem. The
      events of a run are compared with the charge before the run reads private values.
    * No callback, warning, progress, count or ledger entry reveals the number of runs.
      Callbacks are called only at the start and end of the search. If a run fails, the
      search fails without the message of the run.

    Not covered are the choice of `param_grid`, and the running time, which reveals the
    number of runs.

    "add_or_remove_one" is refused, because the split by index makes the number of
    records public. "replace_special" costs the same.

    References
    ----------
    Papernot and Steinke (2022), https://arxiv.org/abs/2110.03620; Koskela, Redberg and
    Wang (2024), https://arxiv.org/abs/2402.06701.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skfdp import DPSGDFClassifier
    >>> from skfdp.experimental import PrivateSearchCV
    >>> from skfdp.solvers import NoisyGradientDescent
    >>> X, y = load_digits(return_X_y=True)
    >>> search = PrivateSearchCV(
    ...     DPSGDFClassifier(
    ...         bounds=(0, 16), classes=range(10), solver=NoisyGradientDescent()
    ...     ),
    ...     {"solver__clip_norm": [0.1, 0.3, 1.0]},
    ...     epsilon=3.0,
    ...     random_state=0,
    ... ).fit(X, y)
    >>> search.best_params_["solver__clip_norm"] in (0.1, 0.3, 1.0)
    True
    >>> round(search.privacy_.epsilon, 3)
    3.0
    """

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        epsilon=1.0,
        delta=1e-5,
        mean_runs=10.0,
        validation_fraction=0.1,
        ledger=None,
        random_state=None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.mean_runs = mean_runs
        self.validation_fraction = validation_fraction
        self.ledger = ledger
        self.random_state = random_state

    _released = ("best_estimator_", "best_params_", "best_score_")
    _can_resume = False
    _assumptions = (*ASSUMPTIONS, *_ASSUMPTIONS)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.allow_nan = inner.allow_nan
        return tags

    def _check_parameters(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_number("mean_runs", self.mean_runs, low=1, include_low=True)
        check_number("validation_fraction", self.validation_fraction, high=1)
        check_random_state(self.random_state)
        candidates_of(self.param_grid)
        inner = self.estimator
        ours = isinstance(inner, PrivateClassifier)
        if not ours or isinstance(inner, MetaEstimatorMixin):
            raise TypeError(
                f"estimator={shown(inner)} must be a DPSGDFClassifier, a "
                "FeatureDPLogisticRegression or a FeatureDPMLPClassifier: put "
                "preprocessing steps before the search, or into the schema."
            )
        if inner.ledger is not None:
            raise ValueError(
                f"estimator has ledger={shown(inner.ledger)}: pass the ledger to "
                "PrivateSearchCV, which charges the whole search at once."
            )
        if not Relation.of(inner.neighboring_relation).counts_are_public:
            raise ValueError(
                "neighboring_relation='add_or_remove_one' makes the number of records "
                "private, but the search splits by index: use 'replace_special', which "
                "costs the same."
            )

    def _declare(self, y: Any) -> Declared:
        inner = self.estimator
        if not isinstance(inner, PrivateClassifier):
            return Declared()
        found = inner._declare(y)
        if found.schema is not None and found.schema.group is not None:
            raise ValueError(
                f"PrivateSearchCV protects single rows, but the schema has "
                f"group={found.schema.group!r}: fit a linear estimator without a "
                "search. It protects all rows of a person together."
            )
        # Each run releases bounds; the search itself does not.
        return dataclasses.replace(found, releases_bounds=False)

    def _records(self, X, y, planning: bool = False) -> Holdout:
        """Validate the records, and split them by public randomness."""
        inner, columns = self._declared, None
        named = inner.target_name
        any_target = inner.any_target
        if planning and (y is None or any_target):
            if not any_target:
                raise ValueError(
                    "y=None is not enough for a plan: pass y, or an estimator with a "
                    "private target and declared `classes`."
                )
            n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
            labels = Labels.unseen(inner.classes, n_rows)
            y = labels.classes[labels.codes]
        if inner.encoder is not None:  # columns of any type
            X = table_with_rows(X)
            if any_target:
                y = shaped_target(y, X.shape[0])
            else:
                check_consistent_length(X, y)
                y = column_or_1d(np.asarray(unmasked(y, as_objects=True)))
        else:
            given = X
            X, y = check_arrays(self, X, y, any_target=any_target)
            # Fits get the original frame, with its names and dtypes.
            X = given if hasattr(given, "iloc") else whole_table(X)
            named_columns = getattr(self, "feature_names_in_", range(X.shape[1]))
            columns = tuple(named_columns)
        if inner.classes is not None:
            check_recoded(y, inner.classes)
        labels = (encode_any if any_target else encode_labels)(y, inner.classes)
        if labels.source == "data" and inner.public_target:
            labels = dataclasses.replace(labels, source="public target")
        n_rows = public_count(len(y), None, self.epsilon, self.delta)
        if (
            isinstance(self.ledger, PrivacyLedger)
            and not planning
            and hasattr(X, "columns")
        ):
            names = list(getattr(X, "column_names", X.columns))
            read = functools.partial(column_of, X)
            self.ledger.check_column(names, None, read)
        n_score = min(max(1, math.ceil(self.validation_fraction * n_rows)), n_rows - 1)
        order = Streams(self.random_state, type(self)).public("split")
        order = order.permutation(n_rows)
        parts = np.sort(order[n_score:]), np.sort(order[:n_score])
        return Holdout(X, y, labels, *parts, columns=columns, target_name=named)

    def _budget(self, public: Holdout) -> Budget:
        relation = Relation.of(self.estimator.neighboring_relation)
        facts = {"seeded": self._seeded}
        return Budget(float(self.epsilon), float(self.delta), relation, facts)

    def _method(self, public: Holdout) -> Search:
        return Search(
            estimator=self.estimator,
            candidates=candidates_of(self.param_grid),
            mean_runs=float(self.mean_runs),
            delta=float(self.delta),
        )

    def _attributes(self, public: Holdout, found: Found) -> dict[str, Any]:
        model, names = found.model, ("classes_", "n_features_in_", "feature_names_in_")
        return {
            "best_estimator_": model,
            "best_params_": found.params,
            "best_score_": found.score,
            **{name: getattr(model, name) for name in names if hasattr(model, name)},
        }

    def _finish(self, context, attributes: dict[str, Any], report: PrivacyReport):
        # The report of the best run alone would not cover the search.
        attributes["best_estimator_"].privacy_ = report
        return super()._finish(context, attributes, report)

    def _subject(self) -> str:
        return f"{type(self).__name__} of {type(self.estimator).__name__}"

    def predict(self, X) -> np.ndarray:
        """Return the labels predicted by `best_estimator_`."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(delegates("best_estimator_", "predict_proba"))
    def predict_proba(self, X) -> np.ndarray:
        """Return the class probabilities of `best_estimator_`."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(delegates("best_estimator_", "decision_function"))
    def decision_function(self, X) -> np.ndarray:
        """Return the margins of `best_estimator_`."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)
