"""The method of a search: candidates are fitted and scored, the best is published."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from skfdp.estimators.method import Budget, OnStep, Plan
from skfdp.estimators.search import runs
from skfdp.estimators.search.candidates import Candidates
from skfdp.estimators.search.runs import Holdout, Share
from skfdp.privacy import PrivacyPlan
from skfdp.privacy.selection import Selection, calibrate_run, gamma_of
from skfdp.queries import Query
from skfdp.queries.scores import accuracy_sum, log_loss_sum
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams


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
        with runs.global_generators_kept(), runs.utility_warnings_once():
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
                runs.check_candidate(self.estimator, params, public, share)
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
        model = runs.prepared(self.estimator, params, holdout.classes, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plans = runs.planned(model, holdout, budget.epsilon, budget.delta)
        first = plans[0].events[0]
        last = runs.last_step(model)[1]
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
        with runs.global_generators_kept():
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
        model = runs.prepared(self.estimator, params, holdout.classes, seed)
        model = runs.fitted(model, holdout, share)
        query = runs.silently(self._query, model, holdout)
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
