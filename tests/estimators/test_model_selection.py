"""A search releases what it was charged for, and nothing of how it went."""

import dataclasses
import io
import json
import math
import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, loguniform, randint
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivateCenteringTransformer,
    PrivateCompletionClassifier,
    UtilityWarning,
    report,
)
from skfdp.experimental import PrivateSearchCV
from skfdp.experimental import search as model_selection
from skfdp.experimental import search as tuning
from skfdp.experimental.search import Candidates, Found, Search, SearchPlan
from skfdp.privacy import Event, Relation, compose, gdp_epsilon
from skfdp.privacy.selection import Selection, gamma_of

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning")
GRID = {"clip_norm": [0.1, 0.5, 1.0]}


def base(**parameters):
    parameters = {"bounds": (0, 1), "max_iter": 5, "classes": [0, 1]} | parameters
    return DPSGDFClassifier(**parameters)


def search(estimator=None, grid=GRID, **parameters):
    parameters = {"random_state": 0, "mean_runs": 4.0} | parameters
    return PrivateSearchCV(
        base() if estimator is None else estimator, grid, **parameters
    )


@pytest.fixture
def n_runs(monkeypatch):
    """Count the runs, which a user cannot."""
    seen = []

    def counted(model, holdout, share):
        seen.append((model, holdout, share))
        return fitted(model, holdout, share)

    fitted = tuning.fitted
    monkeypatch.setattr(tuning, "fitted", counted)
    return seen


class TestBudget:
    """The whole search is within (epsilon, delta)."""

    @pytest.mark.parametrize("runs", model_selection._LAWS)
    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_spends_what_was_asked(self, small, runs, epsilon):
        found = search(epsilon=epsilon, delta=1e-6, runs=runs).fit(*small).privacy_
        assert epsilon * 0.999 < found.epsilon <= epsilon
        (event,) = found.events
        assert isinstance(event, Selection) and event.seeded
        assert compose([event]).epsilon(1e-6) == found.epsilon

    @pytest.mark.parametrize("budget", ["select", "compose"])
    def test_every_release_has_the_noise_that_was_charged(
        self, small, releases, budget
    ):
        found = search(budget=budget).fit(*small)
        mu = found.privacy_.events[0].run_mu
        if budget == "compose":
            mu /= math.sqrt(len(GRID["clip_norm"]))
        spent, n_scores = 0.0, 0
        for one in releases:
            if type(one["query"]).__name__ == "ScoreSum":
                assert (
                    one["query"].sensitivity(Relation.of("replace_one")) / one["std"]
                    <= mu
                )
                assert spent == pytest.approx(mu**2, rel=1e-4) and spent <= mu**2
                spent, n_scores = 0.0, n_scores + 1
            else:  # replace_special: the sensitivity is the clip norm
                spent += (one["query"].clip_norm / one["std"]) ** 2
        assert n_scores >= 1

    def test_compose_is_one_exact_composition(self, small):
        found = search(budget="compose", epsilon=1.0).fit(*small)
        mu = found.privacy_.mu
        assert mu is not None
        fits = Event(
            label="x", noise_std=(math.sqrt(3) / mu,), clip_norm=1.0, sensitivity=1.0
        )
        assert compose([fits] * 3).epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)

    def test_replace_one_and_public_columns(self, small):
        X, y = pd.DataFrame(small[0], columns=list("abcd")), small[1]
        estimator = FeatureDPLogisticRegression(
            bounds=(0, 1), public_features=["a"], max_iter=5
        )
        found = search(estimator).fit(X, y)
        assert found.privacy_.public_features == ("a",)
        assert found.privacy_.private_features == ("b", "c", "d")
        assert found.privacy_.neighboring_relation == "replace_one"
        assert found.privacy_.events[0].classes_source == "data"
        assert list(found.feature_names_in_) == list("abcd")

    def test_label_dp(self, small):
        estimator = FeatureDPLogisticRegression(
            bounds=(0, 1), public_features="all", solver="one-shot"
        )
        grid = {"C": [0.1, 1.0]}
        found = search(estimator, grid, scoring="neg_log_loss").fit(*small)
        assert found.privacy_.epsilon <= 1.0
        # A mean between -4 and 0, and noise of about .5 on a mean of 30 records.
        assert -4.0 - 3 < found.best_score_ < 3


class TestLedger:
    """One charge, up front."""

    def test_one_entry_of_one_charge(self, small):
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
        found = search(ledger=ledger).fit(*small)
        (entry,) = ledger.entries
        assert entry.event == found.privacy_.events[0]
        assert entry.label == "PrivateSearchCV of DPSGDFClassifier"
        assert ledger.spent() == pytest.approx(1.0, rel=1e-6)

    def test_exhausted_ledger_runs_nothing(self, small, n_runs, releases):
        ledger = PrivacyLedger(epsilon=0.9, delta=1e-5)
        model = search(ledger=ledger, epsilon=1.0)
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            model.fit(*small)
        assert not n_runs and not releases and not ledger.entries
        with pytest.raises(NotFittedError):
            model.predict(small[0])

    def test_the_charge_comes_before_the_first_run(self, small, n_runs, monkeypatch):
        seen = []
        charge = PrivacyLedger.charge
        monkeypatch.setattr(
            PrivacyLedger,
            "charge",
            lambda *args, **kw: (seen.append(len(n_runs)), charge(*args, **kw)),
        )
        search(ledger=PrivacyLedger()).fit(*small)
        assert seen == [0] and n_runs

    def test_a_failed_search_stays_charged_and_unfitted(self, small, monkeypatch):
        def fail(*args):
            raise ValueError("label 17 of Ada Lovelace")

        monkeypatch.setattr(Search, "_query", fail)
        ledger = PrivacyLedger()
        model = search(ledger=ledger)
        with pytest.raises(RuntimeError, match="a run of the search failed") as caught:
            model.fit(*small)
        assert len(ledger) == 1 and not hasattr(model, "best_estimator_")
        error = caught.value
        assert error.__cause__ is None and error.__context__ is None
        assert "Ada" not in str(error)


class TestSecrets:
    """Nothing tells how many runs there were."""

    @pytest.fixture(scope="class")
    @staticmethod
    def found():
        """Searches with different numbers of runs: (number, state, warnings)."""
        rng = np.random.default_rng(7)
        X = rng.random((300, 4))
        y = (X[:, 0] > 0.5).astype(int)
        out = []
        fitted, count = tuning.fitted, []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                tuning, "fitted", lambda *args: (count.append(1), fitted(*args))[1]
            )
            for seed in range(12):
                count.clear()
                ledger = PrivacyLedger()
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    model = search(
                        base(bounds=None), random_state=seed, ledger=ledger, mean_runs=6
                    ).fit(X, y)
                texts = sorted(str(one.message) for one in caught)
                out.append((len(count), model, ledger, texts))
        return out

    def test_the_number_of_runs_varies(self, found):
        assert len({n for n, *_ in found}) > 4

    def test_attributes_do_not_tell(self, found):
        states = [vars(model) for _, model, _, _ in found]
        assert len({tuple(sorted(state)) for state in states}) == 1
        assert not any(hasattr(model, "cv_results_") for _, model, _, _ in found)
        for n, model, _, _ in found:
            told, plain = (
                json.loads(one.privacy_.to_json()) for one in (model, found[0][1])
            )
            # A receipt is random, and that of a ledger with this one charge.
            assert [one.pop("charge") for one in told["receipts"]] == [1], n
            del told["receipts"], plain["receipts"]
            assert told == plain, n
            inner = model.best_estimator_.get_params()
            assert inner["random_state"] is None and inner["ledger"] is None
            assert inner["epsilon"] == found[0][1].best_estimator_.epsilon

    def test_size_of_the_pickle_does_not_tell(self, found):
        best = [m for _, m, _, _ in found if m.best_params_ == {"clip_norm": 0.1}]
        sizes = {
            len(pickle.dumps(m.set_params(ledger=None, random_state=1))) for m in best
        }
        assert len(best) > 1 and max(sizes) - min(sizes) < 20

    def test_the_ledger_does_not_tell(self, found):
        assert {len(ledger) for _, _, ledger, _ in found} == {1}
        assert len({ledger.entries[0].event for _, _, ledger, _ in found}) == 1

    def test_warnings_do_not_tell(self, found):
        assert len({tuple(texts) for *_, texts in found}) == 1
        (texts,) = {tuple(texts) for *_, texts in found}
        assert sum("bounds=None" in text for text in texts) == 1

    @pytest.mark.usefixtures("callbacks")
    def test_silence(self, small, capsys):
        loud = Loud()
        pipeline = make_pipeline(
            FunctionTransformer(), base().set_callbacks(loud), verbose=True
        )
        search(pipeline, {"dpsgdfclassifier__clip_norm": [0.1]}).fit(*small)
        alone = base().set_callbacks(loud)
        search(alone).fit(*small)
        captured = capsys.readouterr()
        assert loud.calls == [] and captured.out == captured.err == ""
        assert alone._skl_callbacks == [loud]  # the user's object is as it was

    @pytest.mark.usefixtures("callbacks")
    @pytest.mark.parametrize("seed", range(4))
    def test_callbacks_see_the_search_begin_and_end(self, small, seed):
        loud = Loud()
        search(random_state=seed).set_callbacks(loud).fit(*small)
        assert loud.calls == ["setup", "begin", "end", "teardown"]


class Loud:
    """Follows scikit-learn's callback protocol."""

    def __init__(self):
        self.calls = []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, context, estimator):
        self.calls.append("begin")

    def on_fit_task_end(self, context, estimator):
        self.calls.append("end")


def toy(run, values, event):
    """Return how a search of one parameter finds the best, with runs of our own."""

    class Toy(Search):
        def _run(self, holdout, streams, number, params, share):
            return run(params)

    method = Toy(
        estimator=None,
        distributions={"a": values},
        publishes_all=False,
        law={},
        law_text="",
        n_iter=None,
        scoring="accuracy",
        loss_bound=1.0,
        coins=None,
    )
    share = tuning.Share(mu=0.5, epsilon=1.0, delta=1e-6, promise=event)
    plan = SearchPlan(events=(event,), schedule=None, share=share)
    return lambda draws: method._random(
        None, plan, SimpleNamespace(private=lambda label: draws)
    )


class TestSelection:
    """The best of a random number of runs, as the event says."""

    def laws(self, p, eta=1.0, mean=3.0, n=6_000):
        """Search n times among three outcomes of probabilities p, ranked 0 < 1 < 2."""
        event = Selection(
            label="x",
            noise_std=(1.0,),
            clip_norm=1.0,
            sensitivity=1.0,
            eta=eta,
            gamma=gamma_of(eta, mean),
        )

        def run(params):
            outcome = int(outcomes.choice(3, p=p))
            return Found(outcome, params, float(outcome))

        outcomes = np.random.default_rng(3)
        draws = np.random.default_rng(4)
        best = toy(run, [1, 2], event)
        found = [best(draws).model for _ in range(n)]
        return np.bincount(found, minlength=3) / n, event

    @pytest.mark.parametrize("eta", [0.0, 1.0])
    def test_published_law_is_the_enumerated_one(self, eta):
        p = np.array([0.6, 0.3, 0.1])
        found, event = self.laws(p, eta)
        k, chances = np.arange(1, 1 + len(event.run_probabilities())), None
        chances = event.run_probabilities()
        below = np.cumsum(p)
        due = [(chances * b**k).sum() for b in below]
        np.testing.assert_allclose(found, np.diff([0, *due]), atol=0.02)

    def test_audit_on_a_discrete_toy(self):
        """Randomised response: what is observed is below the claim, and near it."""
        p, q = np.array([0.5, 0.3, 0.2]), np.array([0.55, 0.35, 0.1])
        n = 10_000
        one, event = self.laws(p, n=n)
        two, _ = self.laws(q, n=n)
        # Pure: epsilon_1 = log 2, hence at most (2 + eta) log 2 for the search.
        claim = (2 + event.eta) * math.log(2)
        counts = beta.ppf(0.001, one * n, n - one * n + 1)
        others = beta.ppf(0.999, two * n + 1, n - two * n)
        observed = float(np.log(counts / others).max())
        assert 0.3 < observed <= claim

    def test_ties_go_to_any_run(self):
        """Equal scores: the first run wins, and runs are exchangeable."""
        draws = np.random.default_rng(0)
        event = Selection(
            label="x", noise_std=(1.0,), clip_norm=1.0, sensitivity=1.0, gamma=0.2
        )
        best = toy(lambda params: Found(params["a"], params, 0.0), [0, 1], event)
        found = [best(draws).model for _ in range(4000)]
        assert np.mean(found) == pytest.approx(0.5, abs=0.04)


class TestHoldout:
    """A record is in the fits or in the scores, by its index."""

    def test_parts_do_not_meet(self, small, n_runs):
        search(validation_fraction=0.2).fit(*small)
        for _, holdout, _ in n_runs:
            both = np.sort(np.r_[holdout.fit, holdout.score])
            np.testing.assert_array_equal(both, np.arange(300))
            assert len(holdout.score) == 60

    def test_the_split_does_not_read_the_data(self, small, n_runs):
        X, y = small
        search().fit(X, y)
        search().fit(1 - X, np.roll(y, 7))
        first, last = n_runs[0][1], n_runs[-1][1]
        np.testing.assert_array_equal(first.score, last.score)

    def test_a_scored_record_does_not_change_a_fit(self, small, n_runs, releases):
        X, y = small
        search().fit(X, y)
        record = n_runs[0][1].score[0]
        fits = [r for r in releases if type(r["query"]).__name__ == "RowSum"]
        X_other = X.copy()
        X_other[record] = 1 - X_other[record]
        releases.clear()
        search().fit(X_other, y)
        others = [r for r in releases if type(r["query"]).__name__ == "RowSum"]
        # The first release of a fit is a function of the fit's part alone.
        np.testing.assert_array_equal(fits[0]["exact"], others[0]["exact"])

    def test_neighbours_move_a_score_by_one_record(self, small):
        X, y = small
        model = search().fit(X, y)
        holdout = model._records(X, y)
        method = model._method(holdout)
        query = method._query(model.best_estimator_, holdout)
        unit = query.unit(3.0)
        before = query.exact_sum(None, None, unit)[0]
        for record in holdout.score[:10]:
            X_other, y_other = X.copy(), y.copy()
            X_other[record], y_other[record] = 1 - X_other[record], 1 - y_other[record]
            other = dataclasses.replace(
                holdout, X=X_other, y=y_other, codes=np.asarray(y_other)
            )
            after = method._query(model.best_estimator_, other)
            moved = abs(after.exact_sum(None, None, unit)[0] - before)
            assert moved * unit <= query.sensitivity(Relation.of("replace_one")) == 1.0


class TestRuns:
    """A run releases no more than its share, and is checked before it does."""

    def share(self, mu=0.5, **fields):
        promise = Event(
            label="x",
            noise_std=(1.0,),
            clip_norm=1.0,
            sensitivity=1.0,
            neighboring_relation="replace_special",
        )
        fields = {"promise": promise} | fields
        return tuning.Share(mu=mu, epsilon=1.0, delta=1e-6, **fields)

    def gaussian(self, mu, **fields):
        fields = {"neighboring_relation": "replace_special"} | fields
        return Event(
            label="x", noise_std=(1 / mu,), clip_norm=1.0, sensitivity=1.0, **fields
        )

    def test_share_covers_what_it_should(self):
        share = self.share()
        share.check((self.gaussian(0.5),))
        share.check((self.gaussian(0.3), self.gaussian(0.4)))
        with pytest.raises(PrivacyBudgetError, match="spend more than one run may"):
            share.check((self.gaussian(0.3), self.gaussian(0.401)))
        with pytest.raises(PrivacyBudgetError, match="protects less"):
            share.check((self.gaussian(0.1, neighboring_relation="replace_one"),))
        with pytest.raises(PrivacyBudgetError, match="protects less"):
            share.check((self.gaussian(0.1, public_target=True),))
        with pytest.raises(PrivacyBudgetError, match="other columns as public"):
            share.check((self.gaussian(0.1, public_features=("a",)),))

    def test_share_covers_no_poisson_batches(self):
        steps = dataclasses.replace(self.gaussian(1e-3), sampling_rate=0.1)
        for events in ((steps,), (self.gaussian(0.1), steps)):
            with pytest.raises(PrivacyBudgetError, match="takes Poisson batches"):
                self.share().check(events)

    def test_the_gate_counts_what_a_run_has_released(self):
        released, last = [], base()
        first = tuning.RunGate(self.share(), last, released)
        final = tuning.RunGate(self.share(), None, released)
        first.charge([self.gaussian(0.3)])
        # What is left of mu = 0.5 after 0.3 is 0.4.
        assert last.epsilon == pytest.approx(gdp_epsilon(1e-6, 0.4), rel=1e-6)
        with pytest.raises(PrivacyBudgetError, match="spend more than one run may"):
            final.charge([self.gaussian(0.401)])
        released.clear()
        first.charge([self.gaussian(0.3)])
        final.charge([self.gaussian(0.4)])
        with pytest.raises(PrivacyBudgetError, match="spend more than one run may"):
            final.charge([self.gaussian(0.1)])

    def test_every_run_has_a_seed_of_its_own(self, small, monkeypatch):
        seen, fitted = [], tuning.fitted

        def watched(model, *args):
            seen.append(model.random_state)
            return fitted(model, *args)

        monkeypatch.setattr(tuning, "fitted", watched)
        # Runs of one candidate, which would repeat each other's noise.
        most = 0
        for seed in range(6):
            seen.clear()
            grid = {"clip_norm": [0.5]}
            search(grid=grid, mean_runs=6.0, random_state=seed).fit(*small)
            assert len(seen) == len(set(seen))
            most = max(most, len(seen))
        assert most > 2

    def test_dry_runs_read_nothing_private(self, small, releases):
        X, y = small
        holdout = search()._records(X, y)
        model = tuning.prepared(base(), {}, np.array([0, 1]), None)
        (plan,) = tuning.planned(model, holdout, 1.0, 1e-5)
        assert not releases and not hasattr(model, "coef_")
        labels = [event.label for event in plan.events]
        assert labels == ["class counts", "mean", "temperature", "descent"]

    def test_seed_of_the_estimator_is_ignored(self, small, monkeypatch):
        seen = []
        prepared = tuning.prepared

        def watched(*args):
            model = prepared(*args)
            seen.append(model.random_state)
            return model

        monkeypatch.setattr(tuning, "prepared", watched)
        private = search(base(random_state=5), random_state=None).fit(*small)
        assert set(seen) == {None} and not private.privacy_.seeded
        seen.clear()
        search(base(random_state=5), random_state=1).fit(*small)
        drawn = [seed for seed in seen if seed is not None]
        assert 5 not in drawn and len(set(drawn)) == len(drawn) >= 1

    def test_published_model_reports_the_search(self, small):
        model = search().fit(*small)
        assert model.best_estimator_.privacy_ is model.privacy_
        assert report(model) is model.privacy_
        assert report(model.best_estimator_) is model.privacy_


class TestPipelines:
    """Steps of this package are charged, others are listed with what they learnt."""

    def pipeline(self, epsilon=0.05):
        return make_pipeline(
            FunctionTransformer(),
            PrivateCenteringTransformer(epsilon=epsilon, bounds=(0, 1)),
            base(bounds=False, normalize=False, centering=None),
        )

    grid = {"dpsgdfclassifier__clip_norm": [0.1, 0.5]}

    def test_the_last_step_gets_the_rest(self, small, n_runs, releases):
        model = search(self.pipeline(), self.grid).fit(*small)
        mu = n_runs[0][2].mu
        spent = 0.0
        for one in releases:
            if type(one["query"]).__name__ == "ScoreSum":
                assert spent == pytest.approx(mu**2, rel=1e-4) and spent <= mu**2
                spent = 0.0
            else:
                spent += (one["query"].clip_norm / one["std"]) ** 2
        (lesson,) = model.privacy_.learnt
        assert lesson.step == "functiontransformer (FunctionTransformer)"
        assert lesson.learns == "nothing" and not model.privacy_.unseen
        assert report(model.best_estimator_) is model.privacy_
        steps = model.best_estimator_.named_steps
        assert steps["privatecenteringtransformer"].privacy_ is model.privacy_
        assert model.n_features_in_ == 4

    def test_steps_that_learn_void_the_report(self, small):
        steps = make_pipeline(StandardScaler(), base(bounds=(-3, 3)))
        found = search(steps, self.grid).fit(*small).privacy_
        assert [lesson.learns for lesson in found.leaks] == ["rows"]
        assert "(VOID: " in found.statement().splitlines()[0]

    def test_steps_that_spend_too_much_are_refused(self, small):
        ledger = PrivacyLedger()
        model = search(self.pipeline(epsilon=2.0), self.grid, ledger=ledger)
        with pytest.raises(PrivacyBudgetError, match="give the steps before the last"):
            model.fit(*small)
        assert not ledger.entries

    def test_a_candidate_that_protects_less_is_refused(self, small):
        """Completion has a public target and no parameter that would say so."""
        ledger = PrivacyLedger()
        model = PrivateCompletionClassifier(GaussianNB(), bounds=(0, 1))
        with pytest.raises(PrivacyBudgetError, match="a candidate protects less"):
            search(model, {"n_draws": [1]}, ledger=ledger).fit(*small)
        assert not ledger.entries

    nested = {"pipeline__dpsgdfclassifier__clip_norm": [0.1, 0.5]}

    def test_pipelines_in_pipelines(self, small, releases):
        before, n_before = make_pipeline(Picked(3)), []
        centred = PrivateCenteringTransformer(epsilon=0.05, bounds=(0, 1))
        inner = make_pipeline("passthrough", centred, base(bounds=False))

        class Ledger(PrivacyLedger):
            def charge(self, *args, **more):
                n_before.append(len(releases))
                return super().charge(*args, **more)

        model = Pipeline([("none", None), ("first", before), ("pipeline", inner)])
        ledger = Ledger()
        found = search(model, self.nested, ledger=ledger).fit(*small)
        assert n_before == [0] and len(ledger.entries) == 1
        steps = found.best_estimator_.named_steps
        assert steps["pipeline"][-1].n_features_in_ == 3
        assert steps["pipeline"][1].ledger is None
        assert centred.ledger is None and not hasattr(centred, "mean_")

    @pytest.mark.parametrize("place", range(4))
    def test_private_steps_inside_others_are_refused(self, small, releases, place):
        centred = PrivateCenteringTransformer(epsilon=0.05, bounds=(0, 1))
        columns = ColumnTransformer([("a", centred, [0, 1])], remainder="passthrough")
        steps = [
            (columns,),
            (make_pipeline(FeatureUnion([("a", make_pipeline(centred))])),),
            (PrivateCenteringTransformer(epsilon=0.05, bounds=(0, 1)), columns),
            (SelectFromModel(base()),),
        ][place]
        ledger = PrivacyLedger()
        model = make_pipeline(*steps, base(bounds=False))
        with pytest.raises(PrivacyBudgetError, match="make it a step of its own"):
            search(model, self.grid, ledger=ledger).fit(*small)
        assert not releases and not ledger.entries

    def test_other_processes_are_refused_too(self):
        closed = pickle.loads(pickle.dumps(tuning._Closed()))
        event = TestRuns().gaussian(0.1)
        with pytest.raises(PrivacyBudgetError, match="make it a step of its own"):
            closed.charge([event], label="x", plan=None)

    @pytest.mark.parametrize("place", range(3))
    def test_no_step_is_without_privacy(self, small, place):
        centred = PrivateCenteringTransformer(epsilon=math.inf, bounds=(0, 1))
        steps = [
            (centred,),
            (PrivateCenteringTransformer(epsilon=0.05, bounds=(0, 1)), centred),
            (ColumnTransformer([("a", centred, [0, 1])]),),
        ][place]
        ledger = PrivacyLedger()
        model = make_pipeline(*steps, base(bounds=False))
        with pytest.raises(PrivacyBudgetError, match="epsilon=inf inside a private"):
            search(model, self.grid, ledger=ledger).fit(*small)
        assert not ledger.entries

    def test_a_step_that_cannot_transform_is_refused_before_the_charge(self, small):
        ledger = PrivacyLedger()
        model = Pipeline([("first", base()), ("dpsgdfclassifier", base())])
        with pytest.raises(RuntimeError, match="message is withheld"):
            search(model, self.grid, ledger=ledger).fit(*small)
        assert not ledger.entries

    def test_what_fails_or_warns_without_a_private_step_need_not_with_it(self, small):
        """The look before the charge leaves the private step out."""
        pipeline = self.pipeline()
        pipeline.steps.insert(2, ("centred", Centred()))
        ledger = PrivacyLedger()
        model = search(pipeline, self.grid, ledger=ledger, epsilon=20.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UtilityWarning)
            model.fit(*small)
        assert len(ledger.entries) == 1 and hasattr(model, "best_estimator_")

    @pytest.mark.parametrize("budget", ["select", "compose"])
    def test_poisson_batches_after_a_private_step_are_refused(self, small, budget):
        grid = {"dpsgdfclassifier__batch_size": [None, 64]}
        ledger = PrivacyLedger()
        match = "dpsgdfclassifier__batch_size=64 of a candidate takes Poisson batches"
        with pytest.raises(ValueError, match=match):
            search(self.pipeline(), grid, budget=budget, ledger=ledger).fit(*small)
        assert not ledger.entries

    def test_looking_past_a_private_step_reads_nothing_private(self, small, releases):
        X, y = small
        holdout = search(self.pipeline())._records(X, y)
        share = TestRuns().share()
        tuning.check_candidate(self.pipeline(), {}, holdout, share)
        assert not releases

    def test_text_columns_and_a_step_that_quotes_them(self, small):
        class Quoting(TransformerMixin, BaseEstimator):
            def fit(self, X, y=None):
                return self

            def transform(self, X):
                if len(X) < 100:  # the part that scores
                    raise ValueError(f"found {X.iloc[0, 0]!r}")
                return X[["x"]].to_numpy()

        X = pd.DataFrame({"name": "Ada", "x": small[0][:, 0]})
        model = search(make_pipeline(Quoting(), base()), self.grid)
        with pytest.raises(RuntimeError, match="message is withheld") as caught:
            model.fit(X, small[1])
        assert "Ada" not in str(caught.value)


class Picked(BaseEstimator):
    """The first columns; as much of a transformer as a Pipeline asks for."""

    def __init__(self, n_columns):
        self.n_columns = n_columns

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X[:, : self.n_columns]


class Centred(TransformerMixin, BaseEstimator):
    """Refuses rows that nobody has centred."""

    def fit(self, X, y=None):
        if abs(X.mean()) > 0.4:
            raise ValueError("centre the rows")
        return self

    def transform(self, X):
        return X


class TestCandidates:
    """Uniformly, with replacement; the semantics of ParameterGrid."""

    def test_all_points_of_the_grid_are_as_likely(self):
        candidates = Candidates([{"a": [1, 2], "b": [3, 4]}, {"a": [5]}])
        draws = np.random.default_rng(0)
        found = [tuple(sorted(candidates.draw(draws).items())) for _ in range(5000)]
        counts = {one: found.count(one) for one in set(found)}
        assert len(counts) == 5
        assert all(count == pytest.approx(1000, abs=120) for count in counts.values())

    def test_distributions(self, small):
        grid = {"clip_norm": loguniform(0.1, 1.0), "normalize": [True, False]}
        found = search(grid=grid).fit(*small)
        assert 0.1 <= found.best_params_["clip_norm"] <= 1.0
        again = search(grid=grid).fit(*small)
        assert again.best_params_ == found.best_params_

    @pytest.mark.parametrize("seed", range(4))
    def test_beside_distributions_all_batches_are_looked_at(self, small, seed):
        """Whatever the probe drew: a charged search cannot be taken back."""
        sizes = {"clip_norm": loguniform(0.1, 1), "batch_size": [None, 300, 64, None]}
        solvers = {"C": loguniform(0.1, 1), "solver": ["dp-gd", "dp-sgd"]}
        solvers |= {"batch_size": ["auto", 100]}
        linear = FeatureDPLogisticRegression(bounds=(0, 1), max_iter=3)
        other = {"clip_norm": [0.1], "normalize": [True]}
        ledger = PrivacyLedger()
        for estimator, grid in ((base(), [other, sizes]), (linear, solvers)):
            model = search(estimator, grid, random_state=seed, ledger=ledger)
            with pytest.raises(ValueError, match="batch_size=(64|100)"):
                model.fit(*small)
        assert not ledger.entries

    def test_compose_reports_all(self, small):
        found = search(budget="compose").fit(*small)
        results = found.cv_results_
        assert results["params"] == [{"clip_norm": c} for c in GRID["clip_norm"]]
        best = int(np.argmax(results["mean_test_score"]))
        assert found.best_params_ == results["params"][best]
        assert found.best_score_ == results["mean_test_score"][best]
        assert results["rank_test_score"][best] == 1
        drawn = search(
            grid={"clip_norm": loguniform(0.1, 1.0)}, budget="compose", n_iter=2
        ).fit(*small)
        assert len(drawn.cv_results_["params"]) == 2

    def test_finds_the_only_good_setting(self, small):
        grid = {"learning_rate": [1e-6, 20.0]}
        estimator = base(max_iter=30, clip_norm=0.5)
        # A run draws it with probability 1/2; about a tenth of the searches never do.
        searches = [
            search(estimator, grid, epsilon=30.0, mean_runs=8.0, random_state=seed).fit(
                *small
            )
            for seed in range(7)
        ]
        good = [s for s in searches if s.best_params_ == {"learning_rate": 20.0}]
        assert len(good) >= 4
        assert np.median([found.score(*small) for found in good]) > 0.7


class TestInterface:
    """scikit-learn's."""

    def test_reproducible_with_a_seed_only(self, small):
        one, two = search().fit(*small), search().fit(*small)
        assert one.best_score_ == two.best_score_
        np.testing.assert_array_equal(one.predict(small[0]), two.predict(small[0]))
        np.testing.assert_array_equal(
            one.best_estimator_.coef_, two.best_estimator_.coef_
        )
        other = search(random_state=1).fit(*small)
        assert other.best_score_ != one.best_score_
        a, b = (search(random_state=None).fit(*small) for _ in range(2))
        assert not np.array_equal(a.best_estimator_.coef_, b.best_estimator_.coef_)

    def test_delegates(self, small):
        found = search().fit(*small)
        X = small[0]
        np.testing.assert_array_equal(found.classes_, [0, 1])
        assert found.predict_proba(X).shape == (300, 2)
        logs = found.predict_log_proba(X)
        np.testing.assert_allclose(np.exp(logs), found.predict_proba(X))
        assert found.decision_function(X).shape == (300,)
        assert found.score(*small) == (found.predict(X) == small[1]).mean()
        hinge = search(base(loss="hinge"))
        assert not hasattr(hinge, "predict_proba")
        assert not hasattr(hinge, "predict_log_proba")
        assert hasattr(hinge, "decision_function")

    def test_clone_and_pickle(self, small):
        model = search().fit(*small)
        assert not hasattr(clone(model), "best_estimator_")
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(small[0]), model.predict(small[0]))
        assert again.privacy_ == model.privacy_

    def test_a_failed_fit_leaves_nothing(self, small):
        model = search().fit(*small)
        with pytest.raises(ValueError, match="epsilon=-1"):
            model.set_params(epsilon=-1).fit(*small)
        assert not hasattr(model, "best_estimator_")

    def test_report_reads_and_says(self, small, tmp_path):
        from skfdp import read_report

        found = search().fit(*small).privacy_
        (tmp_path / "report.json").write_text(found.to_json())
        assert read_report(tmp_path / "report.json") == found
        assert "best of a random number of runs" in " ".join(found.statement().split())

    def test_delta_above_one_over_n_warns(self, small):
        with pytest.warns(UserWarning, match="not below 1/n") as caught:
            search(delta=0.01).fit(*small)
        assert {one.filename for one in caught} == {__file__}

    def test_utility_warnings_point_at_the_caller(self, small):
        with pytest.warns(UtilityWarning, match="bounds=None") as caught:
            search(base(bounds=None)).fit(*small)
        assert {one.filename for one in caught} == {__file__}


NOT_OURS = "must be an unfitted classifier of this package"
BAD = [
    ({"epsilon": 0}, ValueError, "epsilon=0 must be a positive number"),
    ({"epsilon": math.inf}, ValueError, "epsilon=inf must be finite"),
    ({"delta": 1.0}, ValueError, "delta=1.0 must lie"),
    ({"budget": "both"}, ValueError, "budget='both' is unknown"),
    ({"runs": "fixed"}, ValueError, "runs='fixed' is unknown"),
    ({"runs": "poisson"}, ValueError, "runs='poisson' is unknown; choose one of"),
    ({"mean_runs": 0.5}, ValueError, "mean_runs=0.5 must be a number >= 1"),
    ({"eta": -0.5}, ValueError, "eta=-0.5 must be a number >= 0"),
    ({"n_iter": 0}, ValueError, "n_iter=0 must be an int > 0"),
    ({"loss_bound": 0}, ValueError, "loss_bound=0 must be"),
    ({"validation_fraction": 1}, ValueError, "validation_fraction=1 must be"),
    ({"random_state": "a"}, ValueError, "random_state='a' must be None"),
    ({"ledger": 3}, TypeError, "ledger=3 must be None"),
    ({"scoring": "roc_auc"}, ValueError, "scoring='roc_auc' has no bound"),
    ({"scoring": len}, ValueError, "has no bound of what one record changes"),
    ({"estimator": LogisticRegression()}, TypeError, NOT_OURS),
    ({"estimator": PrivateCenteringTransformer()}, TypeError, NOT_OURS),
    ({"estimator": DPSGDFClassifier}, TypeError, NOT_OURS),
    ({"estimator": DPSGDFRegressor(target_bounds=(0, 1))}, TypeError, NOT_OURS),
    ({"estimator": 3}, TypeError, NOT_OURS),
    (
        {"estimator": base(loss="hinge"), "scoring": "neg_log_loss"},
        ValueError,
        "needs predict_proba",
    ),
    (
        {"estimator": base(ledger=PrivacyLedger())},
        ValueError,
        "give the ledger to PrivateSearchCV",
    ),
    (
        {"estimator": base(neighboring_relation="add_or_remove_one", n_records=300)},
        ValueError,
        "use 'replace_special', which has the same price",
    ),
    ({"grid": {}}, ValueError, "must be a dict, or a list of dicts"),
    ({"grid": 3}, ValueError, "param_distributions=3 must be a dict"),
    ({"grid": {"clip_norm": 0.5}}, ValueError, "must be a non-empty list"),
    ({"grid": {"clip_norm": []}}, ValueError, "must be a non-empty list"),
    ({"grid": {"epsilon": [1.0]}}, ValueError, "holds 'epsilon', which a candidate"),
    ({"grid": {"a__ledger": [None]}}, ValueError, "holds 'a__ledger'"),
    ({"grid": {"nothing": [1]}}, ValueError, "Invalid parameter 'nothing'"),
    ({"grid": {"clip_norm": [-1.0]}}, ValueError, "clip_norm=-1.0 must be"),
    (
        {"grid": {"batch_size": [None, 64]}},
        ValueError,
        "batch_size=64 of a candidate takes Poisson batches, .* set batch_size=None",
    ),
    (
        {"grid": {"batch_size": [64, None]}, "budget": "compose"},
        ValueError,
        "batch_size=64 of a candidate takes Poisson batches",
    ),
    ({"estimator": base(batch_size=64)}, ValueError, "takes Poisson batches"),
    (
        {"grid": {"batch_size": randint(20, 100)}},
        ValueError,
        "of a candidate takes Poisson batches",
    ),
    (
        {"grid": {"clip_norm": loguniform(0.1, 1)}, "budget": "compose"},
        ValueError,
        "n_iter=None with budget='compose' needs lists",
    ),
]


@pytest.mark.parametrize(("given", "kind", "match"), BAD)
def test_bad_input_is_refused_before_the_charge(small, given, kind, match):
    ledger = PrivacyLedger()
    parameters = {"ledger": ledger} | given
    with pytest.raises(kind, match=match):
        search(**parameters).fit(*small)
    assert not ledger.entries


def test_one_class_and_unknown_labels(small):
    with pytest.raises(ValueError, match="y holds one class only"):
        search(base(classes=None)).fit(small[0], np.zeros(300))
    with pytest.raises(ValueError, match="labels outside `classes`"):
        search(base(on_invalid="raise")).fit(small[0], small[1] + 1)
    # Released counts of a run show that the labels were recoded; the run is secret.
    with pytest.raises(RuntimeError, match="a run of the search failed"):
        search(epsilon=10.0).fit(small[0], small[1] + 1)


def test_a_class_that_only_scores(small):
    """Classes are those of all records, wherever the split puts them."""
    X, y = small
    holdout = search(base(classes=None))._records(X, y)
    y = np.zeros(300, dtype=int)
    y[holdout.score[0]] = 1
    found = search(base(classes=None)).fit(X, y)
    np.testing.assert_array_equal(found.classes_, [0, 1])


def test_nothing_is_printed(small, monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    search().fit(*small)
    import sys

    assert sys.stdout.getvalue() == ""


def test_a_step_that_mixes_columns_cannot_precede_public_ones():
    """`report` refuses this Pipeline, and so does a search over the step."""
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 3)), rng.integers(0, 2, 200)
    pipeline = Pipeline(
        [
            ("centre", "passthrough"),
            ("model", FeatureDPLogisticRegression(public_features=[0], bounds=False)),
        ]
    )
    step = PrivateCenteringTransformer(
        bounds=(0, 1), neighboring_relation="replace_one"
    )
    search = PrivateSearchCV(
        pipeline, {"centre": ["passthrough", step]}, epsilon=3.0, budget="compose"
    )
    with pytest.raises(PrivacyBudgetError, match="other columns as public"):
        search.fit(X, y)


def test_global_generators_do_not_count_the_runs(small):
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    model = make_pipeline(
        GaussianRandomProjection(3), DPSGDFClassifier(bounds=False, max_iter=3)
    )
    PrivateSearchCV(
        model, {"dpsgdfclassifier__clip_norm": [0.1, 0.5]}, epsilon=3.0
    ).fit(*small)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_what_foreign_steps_raise_is_withheld(small):
    def complain(X):
        raise ValueError(f"value {X[0, 0]} too large")

    model = make_pipeline(
        FunctionTransformer(complain), DPSGDFClassifier(bounds=False, max_iter=3)
    )
    search = PrivateSearchCV(model, {"dpsgdfclassifier__clip_norm": [0.1]}, epsilon=3.0)
    with pytest.raises(RuntimeError, match="withheld") as caught:
        search.fit(*small)
    assert caught.value.__context__ is None
