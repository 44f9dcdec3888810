"""Private scores of fitted models."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skfdp.addresses import public
from skfdp.dask_tables import materialised
from skfdp.data.arrays import is_dask
from skfdp.data.records import MOST_ROWS
from skfdp.data.units import FULL_WEIGHT
from skfdp.data.validation import check_choice, check_flag, check_number, without_traps
from skfdp.mechanisms import release
from skfdp.mechanisms.release import Mechanism, check_random_state
from skfdp.privacy.accounting import gdp_mu
from skfdp.privacy.checks import shown
from skfdp.privacy.events import (
    ASSUMED,
    Assumption,
    Event,
    PrivacyBudgetError,
    Relation,
    check_budget,
    nominal_count,
    public_count,
    warn_of_weakness,
)
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.pipelines import report
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_text import epsilon_text
from skfdp.queries.statistics import ScoreSum
from skfdp.solvers.method import Budget
from skfdp.solvers.parameters import (
    GAPS,
    gap_of,
)
from skfdp.solvers.score import (
    METRICS,
    NUMBERS,
    SMALLER,
    TWO,
    Layout,
    NoisyTable,
    Scored,
    bin_edges,
    check_metrics,
)

__all__ = ["PrivateScore", "expected_gap", "make_private_scorer", "private_score"]

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
    ASSUMED["stored_types_public"],
    ASSUMED["scores_bounded"],
)
# How the model may depend on the scored records: it is public, or the ledger of the
# score holds its fit, or without this ledger by privacy unit.
_OF_MODEL = {
    "public": (
        Assumption(
            "model_public",
            "The model is public, as was declared: it does not depend on the scored "
            "records.",
        ),
    ),
    "ledger": (
        ASSUMED["fit_in_ledger"],
        Assumption(
            "model_as_reported",
            "The model depends on its records through what its own report counts, and "
            "through nothing else.",
        ),
    ),
    "record": (
        Assumption(
            "scored_records_new",
            "The scored records are not those that the model was fitted to. For a "
            "record in both tables, the fit and the score together may cost more than "
            "this report states, because they share no ledger.",
        ),
    ),
    "person": (
        Assumption(
            "scored_persons_new",
            "The scored rows are not of the persons whose rows the model was fitted "
            "to. For a person in both tables, the fit and the score together may cost "
            "more than this report states, because they share no ledger.",
        ),
    ),
}


@public("skfdp.metrics")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """Private scores of a model, with intervals; `private_score` returns it.

    All attributes are released or public. They may be published with the report.

    Attributes
    ----------
    values : dict of str to float
        Each metric except the confusion matrix, clipped to its range. NaN if there are
        too few records for the noise.
    intervals : dict of str to (float, float)
        Confidence intervals of the metrics on the population. They cover the noise and
        the sampling of the records. NaN if undetermined.
    confidence : float
        Confidence of each single interval.
    confusion_matrix : ndarray of shape (n_classes, n_classes) or None
        Noisy counts by true class (rows) and predicted class (columns). They may be
        negative and are not integers. None if not requested.
    classes : ndarray of shape (n_classes,) or None
        Labels in the order of the matrix; the last of two classes is the positive one.
    n_records : int
        Number of records, or of persons if persons are protected. If this number is
        private, the nominal number.
    noise_std : float
        Standard deviation of the noise of each released entry, in records or persons.
    table : ndarray of shape (n_entries,)
        The release itself: counts of cells, then sums of losses and squares.
    edges : tuple of float
        Scores that separate the 24 to 96 bins of the table, in increasing order, of
        equal width in log odds between -6 and 6 (beside the threshold); empty without
        bins. The table begins with the counts of the first class in each bin, followed
        by those of the last class.
    threshold : float
        The edge above which a record was predicted positive.
    by : str or None
        Name of the column whose values are scored separately.
    by_value : dict of str or number to PrivateScore
        Score of the records with each value, empty without `by`. These scores have the
        same `privacy_`, because one charge covers all of them.
    privacy_ : PrivacyReport
    """

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    confidence: float
    confusion_matrix: np.ndarray | None
    classes: np.ndarray | None
    n_records: int
    noise_std: float
    table: np.ndarray
    edges: tuple[float, ...] = ()
    threshold: float = 0.5
    by: str | int | None = None
    by_value: Mapping[Any, PrivateScore] = dataclasses.field(default_factory=dict)
    privacy_: PrivacyReport

    def __repr__(self) -> str:
        report = self.privacy_
        lines = [
            f"<PrivateScore: epsilon={epsilon_text(report)}, "
            f"delta={report.delta:g}, {100 * self.confidence:g} % intervals"
        ]
        parts = {f"{self.by} = {name}: ": one for name, one in self.by_value.items()}
        for prefix, score in {"": self, **parts}.items():
            for name, (low, high) in score.intervals.items():
                text = f"{score.values[name]:.3f} [{low:.3f}, {high:.3f}]"
                if math.isnan(low):
                    text = "undetermined: too few records for this noise"
                lines.append(f"  {prefix}{name} {text}")
        if self.confusion_matrix is not None:
            lines.append("  confusion_matrix of noisy counts")
        return "\n".join(lines) + ">"


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
        For two classes: "accuracy", "confusion_matrix", "roc_auc", "log_loss",
        "brier_score"; the first three by default. For several classes: "accuracy",
        "confusion_matrix", "log_loss", "brier_score"; the first two by default. For a
        regressor: "r2" (the result of its ``score``, with targets clipped to their
        declared bounds), "mean_absolute_error" and "mean_squared_error"; all by
        default, but "r2" needs `target_bounds`. All metrics come from one release. The
        log loss, the Brier score and each error increase the noise, and "r2" does so as
        much as two errors. All other metrics share one table of counts, so more of them
        cost nothing.
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
        fit. Without it the report assumes that the model was fitted to other records.
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
    check_number("confidence", confidence, high=1)
    check_number("threshold", threshold, high=1)
    check_number("loss_bound", loss_bound, high=1e6)
    check_number("error_bound", error_bound, high=1e100, also=(None,))
    check_random_state(random_state)
    check_flag("model_is_public", model_is_public)
    is_public, ledger = bool(model_is_public), PrivacyLedger.resolve(ledger)
    fit = _fit_of(model, is_public)
    own = getattr(fit, "neighboring_relation", None) or "replace_one"
    given = neighboring_relation or own
    relation = Relation.of(given)
    layout = Layout.of(
        model,
        metrics,
        counts_are_public=relation.counts_are_public,
        threshold=threshold,
        loss_bound=loss_bound,
        error_bound=error_bound,
    )
    parts = X, y, by, groups, sample_weight
    of_dask = any(map(is_dask, parts))
    scored = Scored.of(
        layout,
        *(materialised(*parts) if of_dask else parts),
        target=target,
        fitted_target=getattr(fit, "target_name", None),
        relation=relation,
    )
    units = scored.units
    delta = getattr(fit, "delta", 1e-5) if delta is None else delta
    check_budget(epsilon, delta)
    seeded = random_state is not None or release.current() is not None
    facts = {
        "neighboring_relation": relation.name,
        "classes_source": None if layout.classes is None else "declared",
        "seeded": seeded,
        **scored.facts,
        **({} if units is None else {"unit": units.unit}),
    }
    reach = 1.0 if units is None else units.reach
    budget = Budget(float(epsilon), float(delta), relation, facts, reach=reach)
    layout, query, event, n_records = _planned(
        layout, scored, budget, nominal_count(given)
    )
    warn_of_weakness(epsilon, random_state)
    subject = f"private_score of {type(model).__name__}"
    how = "public" if is_public else "ledger"
    if not is_public and not _was_charged(ledger, fit):
        how = "person" if "person" in (event.unit, fit.unit) else "record"
    released = (*layout.metrics, "the noisy table from which they are computed")
    if scored.by is not None:
        released += (f"all of these for each {scored.by}",)
    privacy = PrivacyReport.from_events(
        subject=subject,
        events=(event,),
        delta=budget.delta,
        target_epsilon=budget.epsilon,
        n_records=n_records,
        feature_names=scored.columns,
        target_name=scored.facts["target_name"],
        released=released,
        assumptions=(
            *_ASSUMPTIONS,
            *_OF_MODEL[how],
            *[ASSUMED["no_limit"]] * (getattr(ledger, "epsilon", 0) is None),
            *[ASSUMED["weights_public"]] * (sample_weight is not None),
            *[ASSUMED["collection_deterministic"]] * of_dask,
        ),
        seeded=seeded,
    )
    mechanism = Mechanism((event,), random_state, "private_score", units=units)
    if ledger is not None:
        receipt = ledger.charge((event,), label=subject)
        privacy = dataclasses.replace(privacy, receipts=(receipt,))

    # Private values are read only here.
    cells, losses = layout.table(scored.X, scored.y)
    query = dataclasses.replace(query, cells=cells, losses=losses, group=scored.group)
    table = mechanism.release("scores", query)

    def score_of(entries: np.ndarray, group: int | None, **more: Any) -> PrivateScore:
        n_own, shares, spread = scored.part(group)
        summed = len(table) if group is None else 1
        noisy = NoisyTable(
            cells=entries[: layout.n_cells],
            losses=entries[layout.n_cells :].reshape(-1, 2),
            noise_std=float(event.noise_std[0]) * math.sqrt(summed),
            n_records=shares if relation.counts_are_public else None,
            confidence=float(confidence),
            spread=spread,
        )
        found = layout.estimates(noisy)
        return PrivateScore(
            values={name: value for name, (value, _, _) in found.items()},
            intervals={name: (low, high) for name, (_, low, high) in found.items()},
            confidence=noisy.confidence,
            confusion_matrix=layout.confusion_matrix(noisy),
            classes=None if layout.classes is None else np.unique(layout.classes),
            n_records=n_records if group is None else n_own,
            noise_std=noisy.noise_std,
            table=entries,
            edges=layout.edges if layout.counts == "bins" else (),
            threshold=layout.threshold,
            privacy_=privacy,
            **more,
        )

    parts = {value: score_of(table[j], j) for j, value in enumerate(scored.groups)}
    return score_of(table.sum(axis=0), None, by=scored.by, by_value=parts)


def _fit_of(model: Any, is_public: bool) -> PrivacyReport | None:
    """Return the report of a model's private fit, or raise ValueError without one.

    A model that is declared public may have no report, or the report of a fit without
    privacy. Without a report, the result is None.
    """
    try:
        found, why = report(model), ""
    except ValueError as error:
        found, why = None, str(error)
    if found is not None and math.isinf(found.epsilon):
        why = "its fit was without privacy (epsilon=inf)"
    elif found is not None and found.leaks:
        leak = found.leaks[0]
        why = f"step {leak.step} learnt from private {leak.learns} without privacy"
    if why and not is_public:
        raise ValueError(
            f"model ({type(model).__name__}) is not the result of a private fit: "
            f"{why.rstrip('.')}; if it does not depend on the scored records, "
            "declare model_is_public=True."
        )
    return found


def _was_charged(ledger: PrivacyLedger | None, fit: PrivacyReport) -> bool:
    """Whether the receipts and events of a fit show that the ledger was charged."""
    if ledger is None or not fit.events:
        return False
    try:
        ledger.check_report(fit)
    except ValueError:
        return False
    return True


def _planned(
    layout: Layout,
    scored: Scored,
    budget: Budget,
    nominal: int | None,
) -> tuple[Layout, ScoreSum, Event, int]:
    counts_are_public, units = layout.counts_are_public, scored.units
    n_rows, n_groups = len(scored.y), max(1, len(scored.groups))
    if counts_are_public and n_rows == 0:
        raise ValueError("X has no rows: check how the rows were selected.")
    if not counts_are_public and scored.by is not None:
        raise ValueError(
            f"by={shown(scored.by)} needs a public column, but under "
            f"neighboring_relation={budget.relation.name!r} no part of a record is "
            "public: use 'replace_special', which costs the same."
        )
    own = n_rows if units is None else units.n_units
    n_records = public_count(own, nominal, budget.epsilon, budget.delta)
    capacity = n_records if units is None else FULL_WEIGHT * n_rows
    capacity *= 1 if counts_are_public else MOST_ROWS
    shape = len(layout.bounds), n_groups, capacity
    query = ScoreSum.planned(layout.n_cells, *shape)
    event = budget.release_once("scores", query)
    if "roc_auc" in layout.metrics:
        # The number of bins changes neither the sensitivity nor the noise.
        edges = bin_edges(
            layout.threshold,
            event.noise_std[0],
            n_records // n_groups,
        )
        layout = dataclasses.replace(layout, edges=edges)
        query = ScoreSum.planned(layout.n_cells, *shape)
    return layout, query, event, n_records


def _score(
    given: Mapping[str, Any], estimator: Any, X: Any, y: Any
) -> float | dict[str, float]:
    """Return a noisy score (larger is better); NaN if there are too few records.

    `given` has parameters of `private_score`. Raise PrivacyBudgetError if the ledger
    does not hold the fit of the estimator, or if it refuses the score.
    """
    if not _was_charged(given["ledger"], report(estimator)):
        raise PrivacyBudgetError(
            f"the ledger of this scorer does not hold the fit of "
            f"{type(estimator).__name__}: pass the same ledger to the scorer, the "
            "estimator and each private step of a Pipeline."
        )
    found, asked = private_score(estimator, X, y, **given).values, given["metrics"]
    signed = {n: -v if n in SMALLER else v for n, v in found.items()}
    return signed[asked] if isinstance(asked, str) else signed


@public("skfdp")
def make_private_scorer(
    metrics: Any = "accuracy",
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Any = None,
    **settings: Any,
) -> Callable[[Any, Any, Any], float | dict[str, float]]:
    """Make a private scorer for `cross_val_score`, `GridSearchCV` and similar tools.

    Parameters
    ----------
    metrics : str or sequence of str, default="accuracy"
        Metrics of `private_score`, except the confusion matrix. With a sequence of
        metrics, which share one release, the scorer returns a dictionary. Losses and
        errors are negated, because larger must be better.
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
    scorer : callable
        Function of (estimator, X, y). It can be pickled if its ledger is in a file.

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
    known = inspect.signature(private_score).parameters.keys() - {
        *("model", "X", "y", "epsilon", "delta", "metrics", "by", "ledger"),
        *("model_is_public", "sample_weight"),
    }
    for name in sorted(settings.keys() - known):
        raise ValueError(
            f"{name}={shown(settings[name])} is not a parameter of a private scorer: "
            f"choose one of {', '.join(sorted(known))}."
        )
    if not isinstance(settings.get("groups", ""), str):
        raise ValueError(
            f"groups={shown(settings['groups'])} must be the name of a column of X, "
            "because each fold has other rows: pass the name."
        )
    scalars = sorted({*METRICS[TWO], *METRICS[NUMBERS]} - {"confusion_matrix"})
    named = check_metrics(metrics, scalars)
    given = settings | {
        "metrics": metrics if isinstance(metrics, str) else named,
        "epsilon": float(epsilon),
        "delta": None if delta is None else float(delta),
        "ledger": PrivacyLedger.resolve(ledger),
    }
    return functools.partial(_score, given)


def expected_gap(
    epsilon: float,
    n_records: int,
    *,
    n_columns: int = 100,
    n_classes: int = 2,
    public: str = "nothing",
    delta: float = 1e-5,
    neighboring_relation: str = "replace_one",
) -> tuple[float, float, float]:
    """Return quartiles of the expected cost of privacy, without reading data.

    The gap of a fit is 0 for the log loss of a model without privacy, and 1 for that of
    what is known without the fit: a constant prediction, or with a public target a
    model of the public columns. Above 1 a fit was worse than that.

    Parameters
    ----------
    epsilon : float
    n_records : int
        Number of records of the training table, or of persons if all rows of a person
        are protected.
    n_columns : int, default=100
        Number of columns of the model, ``coef_.shape[1]``.
    n_classes : int, default=2
    public : {"nothing", "columns", "some columns", "some columns and target"}
        What is public; "columns" are all columns, but not the target.
    delta : float, default=1e-5
    neighboring_relation : str, default="replace_one"

    Returns
    -------
    low, median, high : floats
        A quarter of similar fits was below `low`, a half below `median`, and a quarter
        above `high`.

    Raises
    ------
    ValueError
        If a number or a name is invalid.

    Notes
    -----
    **Guarantees.** The result depends on the arguments alone and costs no privacy.

    It interpolates the output of ``benchmarks/reproduce/known_without_data.py``:
    default fits of 20 tables with two classes and 52 to 396 columns. Of such tables
    that were put aside, 44 % had a loss between the quartiles. Regressions with
    nothing public are taken to lose as much.

    Examples
    --------
    >>> from skfdp.metrics import expected_gap
    >>> [round(expected_gap(1.0, n)[1], 2) for n in (300, 1000, 3000, 10_000)]
    [0.72, 0.27, 0.12, 0.05]
    """
    counts = {"n_records": n_records, "n_columns": n_columns, "n_classes": n_classes}
    for one in counts.items():
        check_number(*one, integral=True)
    check_choice("public", public, tuple(GAPS))
    moved = Relation.of(neighboring_relation).sensitivity(1.0)
    signal = 2 * gdp_mu(epsilon, delta) * n_records / moved
    n_private = {"nothing": n_columns, "columns": 0}.get(public, n_columns / 2)
    return gap_of(signal, n_columns, n_private, n_classes, "target" in public)
