"""Hyper-parameter search inside one privacy budget."""

from __future__ import annotations

import warnings
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from skfdp.addresses import public
from skfdp.estimators.arrays import check_arrays
from skfdp.estimators.parameters import (
    ASSUMPTIONS,
    begin_callbacks,
    complete_parameters,
    end_callbacks,
    forget,
)
from skfdp.estimators.search import candidates as tuning
from skfdp.privacy import PrivacyLedger, Relation
from skfdp.privacy.assumptions import RUNS_CHARGED
from skfdp.privacy.events import check_budget
from skfdp.privacy.report import Assumption, PrivacyReport, enforced
from skfdp.privacy.selection import Selection, calibrate_run, gamma_of
from skfdp.queries.scores import accuracy_sum, log_loss_sum
from skfdp.records.checks import check_choice, check_number, shown
from skfdp.records.guards import guarded_fit, warn_caller
from skfdp.records.labels import encode_labels
from skfdp.records.names import target_name
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams, check_random_state, warn_of_seed

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
class PrivateSearchCV(
    CallbackSupportMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator
):
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
        The budget of the whole search. What one run may spend is solved for.
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

    Not covered: how long the search took, which tells the number of runs; steps of a
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
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.runs = runs
        self.mean_runs = mean_runs
        self.eta = eta
        self.n_iter = n_iter
        self.scoring = scoring
        self.loss_bound = loss_bound
        self.validation_fraction = validation_fraction
        self.ledger = ledger
        self.random_state = random_state

    def __setstate__(self, state):
        super().__setstate__(state)
        complete_parameters(self)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, "best_estimator_")

    @with_callbacks
    @guarded_fit
    def fit(self, X, y):
        """Search on X, y within the budget, charging the ledger first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            What the estimator takes. Each record once.
        y : array-like of shape (n_samples,)
            Labels of any type.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters or malformed input; nothing is charged.
        PrivacyBudgetError
            If the ledger's ceiling would be passed; nothing is charged or fitted. Also
            if a Pipeline's candidate would spend more than was charged for a run.
        RuntimeError
            If a run fails on the data; the charge is kept.
        """
        forget(self)
        self._check_parameters()
        candidates = tuning.Candidates(self.param_distributions)
        ledger = PrivacyLedger.resolve(self.ledger)
        streams, holdout = self._resolve(X, y)
        warn_of_seed(self.random_state)
        if streams.seeded:
            streams.add(
                "param_distributions", tuning.drawn_from(self.param_distributions)
            )
        draws = streams.private("candidates")
        settings = self._settings(candidates, draws, streams)
        with tuning.global_generators_kept():
            event, share = self._plan(holdout, settings)
        receipt = None
        if ledger is not None:
            receipt = ledger.charge((event,), label=self._subject())
        # A leaf: callbacks see the search begin and end, and no run of it.
        context = begin_callbacks(self)
        with tuning.global_generators_kept():
            if self.budget == "compose":
                found = self._all(holdout, streams, settings, share)
            else:
                found = self._random(holdout, streams, candidates, draws, event, share)
        self._publish(self._report(event, holdout, receipt), *found)
        end_callbacks(context, self)
        return self

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
        if not hasattr(self.estimator, "get_params"):
            raise TypeError(tuning.NOT_OURS.format(shown(self.estimator)))
        parts = tuning.private_parts(self.estimator)
        prefix, last = tuning.last_step(self.estimator)
        if prefix not in parts or not hasattr(last, "predict"):
            raise TypeError(tuning.NOT_OURS.format(shown(self.estimator)))
        return parts

    def _resolve(self, X, y) -> tuple[Streams, tuning.Holdout]:
        """Validate and split; draw no private coin."""
        last = tuning.last_step(self.estimator)[1]
        named = target_name(last.get_params().get("target_name"), y)
        if isinstance(self.estimator, Pipeline):  # columns of any type
            if not hasattr(X, "iloc"):
                X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
            check_consistent_length(X, y)
            y = column_or_1d(np.asarray(y))
        else:
            names = X
            X, y = check_arrays(self, X, y)
            X = names if hasattr(names, "iloc") else X  # keep names and dtypes
        labels = encode_labels(y, last.get_params().get("classes"))
        seeded = self.random_state is not None
        digest = joblib.hash((X, y)).encode() if seeded else b""
        streams = Streams(
            self.random_state,
            type(self),
            (np.frombuffer(digest, dtype=np.uint8),),
            {**self.get_params(deep=False), "param_distributions": None},
        )
        n_rows = len(y)
        if self.delta >= 1 / n_rows:
            warn_caller(
                f"delta={self.delta!r} is not below 1/n = {1 / n_rows:.3g}: such a "
                "delta would allow to publish a record at random.",
                UserWarning,
            )
        parts = tuning.split(n_rows, self.validation_fraction, streams.public("split"))
        source = labels.source
        if source == "data" and last.get_params().get("public_target"):
            source = "public target"
        holdout = tuning.Holdout(
            X, y, labels.codes, labels.classes, source, *parts, target_name=named
        )
        return streams, holdout

    def _settings(self, candidates, draws, streams) -> list[dict]:
        """Return the candidates to plan for: all that can be listed, or some."""
        if self.budget == "compose" and self.n_iter is not None:
            coins = streams.public("candidates")
            return [candidates.draw(coins) for _ in range(self.n_iter)]
        if candidates.grid is not None:
            return candidates.grid
        if self.budget == "compose":
            raise ValueError(
                "n_iter=None with budget='compose' needs lists of values: give n_iter, "
                "the number of candidates to draw from the distributions."
            )
        return candidates.probes(streams.public("probe"))

    def _plan(self, holdout, settings) -> tuple[Selection, tuning.Share]:
        """Solve for the budget of one run; sees public facts alone."""
        law, together = {"gamma": 1.0}, None
        if self.budget == "select":
            law, name = self._law()
            label = f"search: best of a random number of runs ({name}), each at"
        else:
            together = len(settings)
            label = f"search: {together} candidates together, fits and scores each at"
        blank = Selection(
            label=f"{label} most",
            noise_std=(1.0,),
            clip_norm=1.0,
            sensitivity=1.0,
            **self._promise(holdout, settings[0]),
            **law,
        )
        with tuning.utility_warnings_once():
            event = calibrate_run(blank, float(self.epsilon), float(self.delta))
            share = tuning.Share.of(event, float(self.delta), together)
            for params in settings:
                tuning.check_candidate(self.estimator, params, holdout, share)
        return event, share

    def _law(self) -> tuple[dict[str, float], str]:
        """Return the law of the number of runs, as an event holds it, and its name."""
        mean = float(self.mean_runs)
        shapes = {"geometric": 1.0, "logarithmic": 0.0}
        eta = shapes.get(self.runs, float(self.eta))
        law = {"eta": eta, "gamma": gamma_of(eta, mean)}
        return law, f"truncated negative binomial, eta {eta:g}, mean {mean:g}"

    def _promise(self, holdout, params) -> dict[str, Any]:
        """Return the relation and the public set, as the first event states them."""
        model = tuning.prepared(self.estimator, params, holdout.classes, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first = tuning.dry_events(model, holdout, self.epsilon, self.delta)[0]
        last = tuning.last_step(model)[1]
        unnamed = ["columns"] * ("columns" in first.unnamed)
        unnamed += ["target"] * (holdout.target_name is None)
        return {
            "neighboring_relation": first.neighboring_relation,
            "public_features": first.public_features,
            "public_target": bool(last.get_params().get("public_target")),
            "target_name": holdout.target_name,
            "unnamed": tuple(unnamed),
            "classes_source": holdout.classes_source,
            "seeded": self.random_state is not None,
        }

    def _random(self, holdout, streams, candidates, draws, event, share):
        """Return the best of a random number of runs."""
        chances = np.cumsum(event.run_probabilities())
        n_runs = 1 + int(np.searchsorted(chances, draws.random() * chances[-1]))
        best = None
        for number in range(n_runs):
            params = candidates.draw(draws)
            score, model = self._run(holdout, streams, number, params, share)
            # The first of equal scores: runs are exchangeable.
            if best is None or score > best[0]:
                best = score, params, model
        return best

    def _all(self, holdout, streams, settings, share):
        """Return the best of all candidates, and set `cv_results_`."""
        scores, models = [], []
        for number, params in enumerate(settings):
            score, model = self._run(holdout, streams, number, params, share)
            scores.append(score)
            models.append(model)
        best = int(np.argmax(scores))
        order = np.argsort(np.argsort(-np.array(scores), kind="stable"))
        self.cv_results_ = {
            "params": settings,
            "mean_test_score": np.array(scores),
            "rank_test_score": order.astype(np.int32) + 1,
        }
        return scores[best], settings[best], models[best]

    def _run(self, holdout, streams, number, params, share) -> tuple[float, Any]:
        """Fit one candidate and return its noisy score and its model."""
        seed = None
        if streams.seeded:
            seed = int(streams.private("fit", number).integers(2**31))
        model = tuning.prepared(self.estimator, params, holdout.classes, seed)
        model = tuning.fitted(model, holdout, share)
        query = tuning.silently(self._query, model, holdout)
        if streams.seeded:  # two runs may not share noise
            streams.add("run", (number, params, share.mu))
        event = share.promise.run_event("score", query.clip_norm, share.mu)
        noisy = Desk((event,), streams).release("score", query)
        return float(noisy[0]) / len(holdout.score), model

    def _query(self, model, holdout):
        """Return the scores of the records that take no part in fits."""
        rows, codes = holdout.rows(holdout.score), holdout.codes[holdout.score]
        place = {label: code for code, label in enumerate(model.classes_.tolist())}
        columns = np.array([place.get(v, -1) for v in holdout.classes.tolist()])[codes]
        if self.scoring == "accuracy":
            predicted = model.predict(rows)
            if len(predicted) != len(codes):
                raise ValueError("a step drops rows")
            return accuracy_sum(predicted, holdout.y[holdout.score])
        return log_loss_sum(model.predict_proba(rows), columns, self.loss_bound)

    def _publish(self, privacy, score, params, model) -> None:
        self.best_score_, self.best_params_ = score, params
        self.privacy_ = privacy
        # What the run released alone is no measure of what the search did.
        for part in {id(p): p for p in (*self._inside(model), model)}.values():
            part.privacy_ = self.privacy_
        self.classes_ = model.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name) and not hasattr(self, name):
                setattr(self, name, getattr(model, name))
        self.best_estimator_ = model

    @staticmethod
    def _inside(model) -> list:
        return list(tuning.private_parts(model).values())

    def _subject(self) -> str:
        name = type(tuning.last_step(self.estimator)[1]).__name__
        return f"{type(self).__name__} of {name}"

    def _report(self, event, holdout, receipt) -> PrivacyReport:
        steps = self.estimator.steps if isinstance(self.estimator, Pipeline) else []
        seen = {id(part) for part in self._inside(self.estimator)}
        names = None if steps else getattr(self, "feature_names_in_", None)
        if names is None and not steps:
            names = range(self.n_features_in_)
        released = [
            "best_estimator_ (fitted attributes)",
            "best_params_",
            "best_score_",
        ]
        if self.budget == "compose":
            released.append("the noisy score of every candidate")
        return PrivacyReport.from_events(
            subject=self._subject(),
            events=(event,),
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=len(holdout.y),
            feature_names=None if names is None else [*names],
            released=released,
            assumptions=(*ASSUMPTIONS, *_ASSUMPTIONS),
            seeded=self.random_state is not None,
            unseen=[
                f"{name} ({type(step).__name__})"
                for name, step in steps
                if step not in (None, "passthrough") and id(step) not in seen
            ],
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

    @available_if(_delegates("decision_function"))
    def decision_function(self, X):
        """Return the margins of the best run's model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)
