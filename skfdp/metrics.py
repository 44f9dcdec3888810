"""Private scores of fitted models."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from skfdp.addresses import public
from skfdp.dask_tables import computed
from skfdp.data.arrays import is_dask, numeric_target, readable
from skfdp.data.records import MOST_ROWS
from skfdp.data.target import encode_any
from skfdp.data.units import FULL_WEIGHT, units_as_weighted, without_group_column
from skfdp.data.validation import check_flag, check_number, without_traps
from skfdp.mechanisms import noise
from skfdp.mechanisms.noise import Streams, check_random_state
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy.assumptions import (
    SAME_PARTITIONS,
    SCORES_BOUNDED,
    STORED_TYPES,
    WEIGHTS_ARE_PUBLIC,
    Assumption,
    of_limit,
)
from skfdp.privacy.calibration import PrivacyPlan
from skfdp.privacy.checks import shown
from skfdp.privacy.events import PrivacyBudgetError, Relation, check_budget
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.pipelines import report
from skfdp.privacy.report import PrivacyReport
from skfdp.queries.statistics import ScoreTable
from skfdp.solvers.method import Budget
from skfdp.solvers.parameters import (
    declared_by,
    expected_gap,
    nominal_count,
    public_count,
    warn_of_weakness,
)
from skfdp.solvers.score import (
    DEFAULTS,
    METRICS,
    NUMBERS,
    SMALLER,
    TWO,
    Estimate,
    Layout,
    NoisyTable,
    Scored,
    assumptions_of,
    bin_edges,
    check_metrics,
    declared_range,
    fit_of,
    holds,
    loss_bounds,
    model_of,
    row_spread,
    table_of,
)
from skfdp.solvers.score_result import PrivateScore

__all__ = [
    "PrivateScore",
    "expected_gap",
    "make_private_scorer",
    "private_score",
]

LABEL = "scores"
_ASSUMPTIONS = (
    Assumption(
        "records_predicted_separately",
        "The model predicts each record separately: a prediction does not depend on "
        "other records.",
    ),
    Assumption(
        "score_parameters_chosen",
        "Edges, threshold, loss bounds, metrics and every other parameter of the score "
        "were chosen without looking at private data.",
    ),
    STORED_TYPES,
    SCORES_BOUNDED,
)


@public("skfdp")
@without_traps()
def private_score(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    delta: float | None = None,
    *,
    metrics: Any = None,
    by: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    ledger: Any = None,
    model_is_public: bool = False,
    neighboring_relation: Any = None,
    confidence: float = 0.95,
    threshold: float = 0.5,
    n_bins: int | str = "auto",
    loss_bound: float = 4.0,
    error_bound: float | None = None,
    target: str | None = None,
    random_state: int | None = None,
) -> PrivateScore:
    r"""Score a fitted model on private records, in one release with intervals.

    Parameters
    ----------
    model : fitted classifier, regressor or Pipeline
        A model that contains a private fit, for which `skfdp.report` returns a report.
        Any other model must be declared public.
    X : array-like of shape (n_samples, n_features)
        The records to score, in the form that the model takes: one row for each record,
        unless `groups` are given. A Dask collection is computed, and must fit into
        memory.
    y : array-like of shape (n_samples,)
        Labels or numbers of the records.
    epsilon : float
        The budget of this score.
    delta : float, default=None
        None takes the delta of the model's report, or 1e-5.
    metrics : str or sequence of str, default=None
        For two classes: "accuracy", "confusion_matrix", "roc_auc", "recall",
        "false_positive_rate", "selection_rate", "log_loss", "brier_score"; the first
        three by default. For several classes: "accuracy", "confusion_matrix",
        "log_loss", "brier_score"; the first two by default. For a regressor: "r2" (the
        result of its ``score``, with targets clipped to their declared bounds),
        "mean_absolute_error" and "mean_squared_error"; all by default, but "r2" needs
        `target_bounds`. All metrics come from one release. The log loss, the Brier
        score and each error increase the noise, and "r2" does so as much as two errors.
        All other metrics share one table of counts, so more of them cost nothing.
    by : str, int or Series, default=None
        A **public** column: a column of X, or a named Series with one value for each
        row of X. The result then also has scores for each value of the column. Each
        record has one value, so these scores need no further budget.
    groups : array-like of shape (n_samples,) or str, default=None
        The person of each row. If X is a frame, `groups` may be the name of its column
        of persons. This column is then not a feature. All rows of a person are
        protected together. Without `sample_weight` all persons have equal weight, and
        the rows of a person are averaged. None means that each row is a record.
    sample_weight : array-like of shape (n_samples,), default=None
        Public weights of the rows, as in `fit` of the linear estimators. Scores are
        weighted means. The noise grows with the ratio of the largest to the mean weight
        of a row, or of a person if there are `groups`. With `groups` and equal weights
        of 1, persons with many rows count more, and increase the noise.
    ledger : str, path or PrivacyLedger, default=None
        Counts all fits and scores on the same data. Charged before predictions are
        made. If the model was fitted to the scored records, pass the ledger of that
        fit.
    model_is_public : bool, default=False
        Declares that the model does not depend on the scored records. This is an
        assumption, which is not checked.
    neighboring_relation : str or AddOrRemoveOne, default=None
        Neighbouring relation; see :ref:`protected`. None takes the relation in the
        model's report, or "replace_one".
    confidence : float, default=0.95
        Confidence level of each single interval.
    threshold : float, default=0.5
        A record with a score above the threshold is predicted positive; the positive
        class is the last of two. Scores are probabilities of this class. For a model
        without probabilities they are ``expit(decision_function(X))``, where 0.5 is the
        margin 0.
    n_bins : int or "auto", default="auto"
        Number of bins of scores for the ROC curve, of equal width in log odds between
        -6 and 6. "auto" chooses 24 to 96 bins from epsilon and the number of records.
    loss_bound : float, default=4.0
        Largest log loss of a record; larger ones are clipped.
    error_bound : float, default=None
        Largest absolute error of a record; larger ones are clipped. None takes the
        width of the model's `target_bounds`.
    target : str, default=None
        Name of the target. None takes the name of y, or the name in the model's report.
    random_state : int, default=None
        None uses cryptographic randomness. An int is reproducible and gives **no
        guarantee**.

    Returns
    -------
    score : PrivateScore

    Raises
    ------
    ValueError
        For bad parameters, shapes and public values, or a model that is neither
        private nor declared public. Nothing is charged, and no datum is quoted.
    PrivacyBudgetError
        If the ledger refuses the charge; nothing is charged or predicted.

    Notes
    -----
    **Guarantees.** Given the model, the score is (epsilon, delta)-differentially
    private for the whole record, its label included, if `random_state` is None:

    * *Precondition*: the model predicts each row separately. Rows are predicted
      together in one table of public shape, or one by one if the number of rows is
      private. This cannot be checked on private rows, and is an assumption of the
      report. A model that scales a batch by its own mean, or that learns during
      prediction, violates it.
    * A record is in one cell of the table of counts for its value of `by`, and has
      bounded losses. If a record is replaced, the sensitivity is
      :math:`\sqrt{2 + 5/4 \cdot J}` with J losses (see `skfdp.queries.statistics`, and
      :ref:`private-scores` for the proof).
    * Only the column `by` is treated as public. So every public set of a ledger permits
      scores without `by`, and each set that contains this column permits all scores.
      Under the replace relations the number of records is public.
    * With `groups` or `sample_weight` the sensitivity is multiplied by the largest
      total weight of a person's rows, or of a row (`skfdp.queries.weighted`). The same
      bound holds with `by`, because the weights of a person for the different values
      of `by` add up to at most this total.
    * Exceptions and warnings of the model are suppressed, because they may depend on a
      row. A record counts as wrong if its label is not a class of the model, or if the
      model fails or returns NaN for it. Its losses are then the largest ones, and it is
      in neither class.

    If the model was fitted to the scored records, charge fit and score to one ledger,
    which then counts their total cost. Without a ledger the report assumes that the
    model was fitted to other records.

    Intervals invert normal tests, so their coverage is approximate.
    :ref:`private-scores` has the coverage in simulations, and where it is too low. With
    `groups` the intervals refer to the population of persons. They assume that all rows
    of a person behave alike, and are too wide if rows are independent. They also assume
    that the weight of a person is unrelated to the quality of the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import DPSGDFClassifier, PrivacyLedger, private_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((6000, 3))
    >>> y = (X[:, 0] + 0.2 * rng.normal(size=6000) > 0.5).astype(int)
    >>> ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    >>> model = DPSGDFClassifier(
    ...     bounds=(0, 1), neighboring_relation="replace_special", ledger=ledger
    ... ).fit(X[:3000], y[:3000])
    >>> score = private_score(model, X[3000:], y[3000:], 1.0, ledger=ledger)
    >>> sorted(score.values)
    ['accuracy', 'roc_auc']
    >>> low, high = score.intervals["accuracy"]
    >>> 0.7 < low < score.values["accuracy"] < high < 1
    True
    >>> round(ledger.spent(), 2)  # two releases at epsilon 1
    1.47
    """
    given = {name: value for name, value in locals().items() if name != "model"}
    found = _released(model, **given)
    layout, scored, table = found.layout, found.scored, found.table

    def score_of(entries: np.ndarray, n_own: int, group: int | None, **more: Any):
        noisy = found.noisy(entries, n_own, group)
        return PrivateScore(
            **_intervals(layout.estimates(noisy)),
            confidence=noisy.confidence,
            confusion_matrix=layout.confusion_matrix(noisy),
            classes=found.classes,
            n_records=n_own,
            noise_std=noisy.noise_std,
            table=entries,
            edges=layout.edges if layout.counts == "bins" else (),
            threshold=layout.threshold,
            privacy_=found.privacy,
            **more,
        )

    sizes = scored.sizes
    parts = {
        value: score_of(table[j], sizes[j], j) for j, value in enumerate(scored.groups)
    }
    whole = table.sum(axis=0), found.n_records, None
    return score_of(*whole, by=scored.by, by_value=parts)


def _intervals(estimates: Mapping[str, Estimate]) -> dict[str, dict]:
    return {
        "values": {name: one.value for name, one in estimates.items()},
        "intervals": {name: (one.low, one.high) for name, one in estimates.items()},
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Release:
    """The noisy counts and sums from which scores are computed.

    `table` has one row for each value of `by`, and a single row without `by`.
    """

    layout: Layout
    scored: Scored
    classes: np.ndarray | None
    table: np.ndarray
    noise_std: float
    n_records: int
    confidence: float
    privacy: PrivacyReport

    def noisy(self, entries: np.ndarray, n_own: int, group: int | None) -> NoisyTable:
        """Return `entries` of the released table with the public facts of a score.

        They are those of one group, or their sums over all groups if `group` is None.
        `n_own` is the public number of records of the group, or of all groups.
        """
        n_parts, n_cells = len(self.table) if group is None else 1, self.layout.n_cells
        shares, spread = n_own, 1.0
        if self.scored.units is not None:
            totals = self.scored.totals(group)
            shares, spread = float(totals.sum()), row_spread(totals)
        return NoisyTable(
            cells=entries[:n_cells],
            losses=entries[n_cells:].reshape(-1, 2),
            noise_std=self.noise_std * math.sqrt(n_parts),
            n_records=shares if self.layout.counts_are_public else None,
            confidence=self.confidence,
            spread=spread,
        )


def _released(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    delta: float | None,
    *,
    metrics: Any,
    by: Any,
    groups: Any,
    sample_weight: Any,
    ledger: Any,
    model_is_public: bool,
    neighboring_relation: Any,
    confidence: float,
    threshold: float,
    n_bins: int | str,
    loss_bound: float,
    error_bound: float | None,
    target: str | None,
    random_state: int | None,
) -> _Release:
    """Check, plan, charge and release the counts and sums for scores of a model."""
    check_number("confidence", confidence, high=1)
    check_number("threshold", threshold, high=1)
    check_number("n_bins", n_bins, integral=True, high=513, also=("auto",))
    check_number("loss_bound", loss_bound, high=1e6)
    check_number("error_bound", error_bound, high=1e100, also=(None,))
    check_random_state(random_state)
    check_flag("model_is_public", model_is_public)
    ledger = PrivacyLedger.resolve(ledger)
    parts = X, y, by, groups, sample_weight
    of_dask = any(map(is_dask, parts))
    if of_dask:
        X, y, by, groups, sample_weight = computed(*parts)
    X, y, by, groups = _as_declared(model, X, y, by, groups, target)
    scored_by = model_of(model)
    classes, task = scored_by.classes, scored_by.task
    y = numeric_target(y) if classes is None else y
    fit = fit_of(model, bool(model_is_public))
    if target is None:
        target = getattr(fit, "target_name", None)
    scored = Scored.build(X, y, by, target, model)
    own = getattr(fit, "neighboring_relation", None)
    given = neighboring_relation or own or "replace_one"
    relation, nominal = Relation.of(given), nominal_count(given)
    units = units_as_weighted(sample_weight, groups, scored.n_rows, relation)
    scored = dataclasses.replace(scored, units=units)
    # Refuse text instead of numbers, and numbers instead of text, by the type of y.
    if classes is not None:
        encode_any(scored.y[:0], classes)
    elif scored.y.dtype.kind in "USMmc":
        raise ValueError(
            "y holds values that are not numbers: pass a numeric target for a "
            "regressor."
        )

    delta = getattr(fit, "delta", 1e-5) if delta is None else delta
    check_budget(epsilon, delta)
    seeded = random_state is not None or noise.current() is not None
    facts = {
        "neighboring_relation": relation.name,
        "classes_source": None if classes is None else "declared",
        "seeded": seeded,
        **scored.facts,
    }
    if units is not None:
        facts["unit"] = units.unit
    reach = 1.0 if units is None else units.reach
    budget = Budget(float(epsilon), float(delta), relation, facts, reach=reach)
    n_records = _count(scored, nominal, budget)
    usual, known = DEFAULTS[task], METRICS[task]
    if task == NUMBERS and math.isnan(declared_range(model)[0]):
        usual = usual[1:]  # r2 needs the range of the target
    metrics = usual if metrics is None else metrics
    metrics = check_metrics(metrics, known, f" for a model of {task}")
    losses = sorted({"log_loss", "brier_score"} & set(metrics))
    if losses and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"metrics={losses[0]!r} needs predict_proba, which the model does not "
            "have: choose another metric, such as accuracy."
        )
    if "roc_auc" in metrics and scored_by.by == "predict":
        raise ValueError(
            "metrics='roc_auc' needs predict_proba or decision_function, which the "
            "model does not have: choose another metric, such as accuracy."
        )
    layout = Layout(
        task=task,
        metrics=metrics,
        n_classes=0 if classes is None else len(classes),
        edges=(float(threshold),),
        threshold=float(threshold),
        bounds=loss_bounds(scored_by, metrics, loss_bound, error_bound),
        counts_are_public=relation.counts_are_public,
    )
    layout, query, schedule = _planned(layout, scored, budget, n_records, n_bins)
    event = budget.named(schedule, LABEL)
    of_model = assumptions_of(fit, bool(model_is_public), ledger, event.unit)
    warn_of_weakness(epsilon, random_state)
    subject = f"private_score of {type(model).__name__}"
    released = (*metrics, "the noisy table from which they are computed")
    if scored.by is not None:
        released += (f"all of these for each {scored.by}",)
    assumed = [WEIGHTS_ARE_PUBLIC] * (sample_weight is not None)
    assumed += [SAME_PARTITIONS] * of_dask
    privacy = PrivacyReport.from_events(
        subject=subject,
        events=(event,),
        delta=budget.delta,
        target_epsilon=budget.epsilon,
        n_records=n_records,
        feature_names=scored.columns,
        target_name=scored.facts["target_name"],
        released=released,
        assumptions=(*_ASSUMPTIONS, *of_model, *of_limit(ledger), *assumed),
        seeded=seeded,
    )
    mechanism = Mechanism((event,), Streams(random_state, "private_score"), units=units)
    if ledger is not None:
        receipt = ledger.charge((event,), label=subject)
        privacy = dataclasses.replace(privacy, receipts=(receipt,))

    # Private values are read only here.
    cells, losses = table_of(scored_by, layout, scored.X, scored.y)
    query = dataclasses.replace(query, cells=cells, losses=losses, group=scored.group)
    table = mechanism.release(LABEL, query)

    return _Release(
        layout=layout,
        scored=scored,
        classes=None if classes is None else np.unique(classes),
        table=table,
        noise_std=float(event.noise_std[0]),
        n_records=n_records,
        confidence=float(confidence),
        privacy=privacy,
    )


def _as_declared(
    model: Any, X: Any, y: Any, by: Any, groups: Any, target: str | None
) -> tuple[Any, Any, Any, Any]:
    """Convert rows, targets and groups by the schema of the model, if there is one."""
    X, y, by, groups = map(readable, (X, y, by, groups))
    schema = declared_by(model, "schema")
    if schema is None:
        X, groups = without_group_column(X, groups)
        return X, y, by, groups
    name = schema.outcome(target or declared_by(model, "target"), y)
    if isinstance(by, str) and by in X.columns:
        by = X[by]
    y = schema.read_outcome(name, y)
    return schema.select(X), y, by, schema.groups(X, groups)


def _count(scored: Scored, nominal: int | None, budget: Budget) -> int:
    """Return the public number of records, and check that the relation permits `by`."""
    if budget.relation.counts_are_public:
        if scored.n_rows == 0:
            raise ValueError("X has no rows: check how the rows were selected.")
    elif scored.by is not None:
        raise ValueError(
            f"by={shown(scored.by)} needs a public column, but under "
            f"neighboring_relation={budget.relation.name!r} no part of a record is "
            "public: use 'replace_special', which costs the same."
        )
    own = scored.n_rows if scored.units is None else scored.units.n_units
    return public_count(own, nominal, budget.epsilon, budget.delta)


def _planned(
    layout: Layout, scored: Scored, budget: Budget, n_records: int, n_bins: int | str
) -> tuple[Layout, ScoreTable, PrivacyPlan]:
    """Return layout, query and plan of the released table, from public facts."""
    capacity = n_records if scored.units is None else FULL_WEIGHT * scored.n_rows
    if not layout.counts_are_public:
        capacity *= MOST_ROWS
    query = layout.planned(scored.n_groups, capacity)
    schedule = budget.calibrate(
        sensitivity=query.sensitivity(budget.relation),
        clip_norm=query.clip_norm,
        n_steps=1,
    )
    if "roc_auc" not in layout.metrics:
        return layout, query, schedule
    # The number of bins changes neither the sensitivity nor the noise.
    edges = bin_edges(
        layout.threshold,
        None if n_bins == "auto" else int(n_bins),
        float(schedule.noise_std[0]),
        n_records // scored.n_groups,
    )
    layout = dataclasses.replace(layout, edges=edges)
    return layout, layout.planned(scored.n_groups, capacity), schedule


# Private scorers for scikit-learn's cross-validation and searches.


_SETTINGS = inspect.signature(private_score).parameters.keys() - {
    *("model", "X", "y", "epsilon", "delta", "metrics", "by", "ledger"),
    *("model_is_public", "sample_weight"),
}
_SCALARS = sorted({*METRICS[TWO], *METRICS[NUMBERS]} - {"confusion_matrix"})


@dataclasses.dataclass(frozen=True)
class PrivateScorer:
    """Scorer that charges a ledger for every score; made by `make_private_scorer`.

    `settings` are further parameters of `private_score`.
    """

    metrics: str | tuple[str, ...]
    epsilon: float
    delta: float | None
    ledger: PrivacyLedger
    settings: Mapping[str, Any]

    def __call__(self, estimator: Any, X: Any, y: Any) -> float | dict[str, float]:
        """Return the noisy score (larger is better); NaN if there are too few records.

        Raises
        ------
        PrivacyBudgetError
            If the fit of the estimator was not charged to the ledger, or if the ledger
            refuses the score.
        """
        if not holds(self.ledger, report(estimator)):
            raise PrivacyBudgetError(
                f"the ledger of this scorer does not hold the fit of "
                f"{type(estimator).__name__}: pass the same ledger to the scorer, the "
                "estimator and each private step of a Pipeline."
            )
        found = private_score(
            estimator,
            X,
            y,
            self.epsilon,
            self.delta,
            metrics=self.metrics,
            ledger=self.ledger,
            **self.settings,
        ).values
        signed = {n: -v if n in SMALLER else v for n, v in found.items()}
        return signed[self.metrics] if isinstance(self.metrics, str) else signed


@public("skfdp")
def make_private_scorer(
    metrics: Any = "accuracy",
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Any = None,
    **settings: Any,
) -> PrivateScorer:
    """Make a private scorer for `cross_val_score`, `GridSearchCV` and similar tools.

    Parameters
    ----------
    metrics : str or sequence of str, default="accuracy"
        Metrics of `private_score`, except the confusion matrix. With a sequence of
        metrics, which share one release, the scorer returns a dictionary. Losses,
        errors and the false positive rate are negated, because larger must be better.
    epsilon : float
        Budget of each score, not of all scores together.
    delta : float, default=None
        None takes the delta of the model's report.
    ledger : str, path or PrivacyLedger
        The ledger of the estimator, to which every fit is charged.
    **settings : dict
        Further parameters of `private_score`. `groups` must be the name of a column of
        X, because each fold has other rows.

    Returns
    -------
    scorer : PrivateScorer
        Callable with (estimator, X, y). It can be pickled if its ledger is in a file.

    Raises
    ------
    PrivacyBudgetError
        Without a ledger, which must count fits and scores together.
    ValueError
        For bad parameters.

    Notes
    -----
    **Guarantees.** Every score is charged before it is computed, and is refused unless
    the ledger holds the fit of the estimator. So the ledger counts everything that
    cross-validation or a search discloses, and choosing parameters by these scores
    costs nothing more. Test folds are disjoint, but a scorer does not know which
    records are in a fold, so k scores cost as much as k scores of the same records. Use
    `KFold`, whose folds depend on positions only. Stratified folds, the default of an
    int `cv` for classifiers, depend on labels.

    When the limit of the ledger is reached, the parameter `error_score` of scikit-learn
    decides: "raise" stops at once, the default sets the score to NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from skfdp import DPSGDFClassifier, PrivacyLedger, make_private_scorer, report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1500, 3))
    >>> y = X[:, 0] > 0.5
    >>> ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    >>> scorer = make_private_scorer("accuracy", epsilon=0.5, ledger=ledger)
    >>> model = DPSGDFClassifier(0.8, bounds=(0, 1), classes=[0, 1], ledger=ledger)
    >>> scores = cross_val_score(model, X, y, scoring=scorer, cv=KFold(3))
    >>> bool(scores.min() > 0.5)
    True
    >>> report(ledger).n_fits  # three fits and three scores
    6
    """
    if ledger is None:
        raise PrivacyBudgetError(
            "ledger=None must be a ledger that counts every fit and every score: pass "
            "one PrivacyLedger(epsilon=..., delta=...) to the estimator and to the "
            "scorer."
        )
    check_budget(epsilon, 0.5 if delta is None else delta)
    unknown = sorted(set(settings) - _SETTINGS)
    if unknown:
        raise ValueError(
            f"{unknown[0]}={shown(settings[unknown[0]])} is not a parameter of a "
            f"private scorer: choose one of {', '.join(sorted(_SETTINGS))}."
        )
    if not isinstance(settings.get("groups", ""), str):
        raise ValueError(
            f"groups={shown(settings['groups'])} must be the name of a column of X, "
            "because each fold has other rows: pass the name."
        )
    named = check_metrics(metrics, _SCALARS)
    return PrivateScorer(
        metrics if isinstance(metrics, str) else named,
        float(epsilon),
        None if delta is None else float(delta),
        PrivacyLedger.resolve(ledger),
        dict(settings),
    )
