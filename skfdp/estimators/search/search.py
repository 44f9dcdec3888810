"""Hyper-parameter search inside one privacy budget."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from skfdp.addresses import public
from skfdp.encoding.tables import is_frame, raw_column
from skfdp.encoding.values import as_array
from skfdp.estimators.arrays import check_arrays, shaped_target
from skfdp.estimators.base import PrivateEstimator
from skfdp.estimators.method import Budget
from skfdp.estimators.parameters import ASSUMPTIONS, REFUSES, public_count, store
from skfdp.estimators.search import runs
from skfdp.estimators.search.candidates import Candidates
from skfdp.estimators.search.method import Found, Search, law_of
from skfdp.estimators.search.runs import Holdout
from skfdp.privacy.assumptions import (
    CATEGORIES_OF_TYPES,
    ONE_STEP,
    RUNS_CHARGED,
    Assumption,
    enforced,
)
from skfdp.privacy.composed import with_steps
from skfdp.privacy.events import check_budget
from skfdp.privacy.fit_plan import FitPlan
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.relations import Relation
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.store import Receipt
from skfdp.records.checks import check_choice, check_number, shown, unmasked
from skfdp.records.labels import Labels, check_recoded, encode_any, encode_labels
from skfdp.records.large import whole_table
from skfdp.records.names import target_name
from skfdp.releases.noise import Streams, check_random_state

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


@public("skfdp")
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
    >>> from skfdp import DPSGDFClassifier, PrivateSearchCV
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
            raise TypeError(runs.NOT_OURS.format(shown(self.estimator)))
        parts = runs.private_parts(self.estimator)
        prefix, last = runs.last_step(self.estimator)
        if prefix not in parts or not is_classifier(last):
            raise TypeError(runs.NOT_OURS.format(shown(self.estimator)))
        return parts

    def _records(self, X, y, planning: bool = False) -> Holdout:
        """Validate and split; draws no private coin."""
        last = runs.last_step(self.estimator)[1].get_params()
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
        parts = runs.split(n_rows, self.validation_fraction, coins)
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
        last = runs.last_step(self.estimator)[1]
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
        for part in (*runs.private_parts(model).values(), model):
            part.privacy_ = report
        return super()._finish(context, attributes, report)

    def _subject(self) -> str:
        name = type(runs.last_step(self.estimator)[1]).__name__
        return f"{type(self).__name__} of {name}"

    def _public_rows(self, public: Holdout) -> int:
        return len(public.y)

    @property
    def _refuses(self) -> bool:
        """Whether a candidate may refuse malformed private values."""
        if any(str(name).endswith("on_invalid") for name in self.param_distributions):
            return True
        parts = runs.private_parts(self.estimator).values()
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
