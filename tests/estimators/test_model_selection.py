"""A search releases what it was charged for, and nothing of how it went."""

import dataclasses
import json
import math
import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivateCenteringTransformer,
    UtilityWarning,
    report,
)
from skfdp.experimental import PrivateSearchCV
from skfdp.experimental.search import Found, RunLedger, Search, candidates_of
from skfdp.privacy import (
    AddOrRemoveOne,
    Event,
    Relation,
    Selection,
    compose,
    gdp_epsilon,
    read_report,
)
from skfdp.solvers import NoisyGradientDescent, NoisySGD

pytestmark = pytest.mark.filterwarnings("ignore::skfdp.data.validation.UtilityWarning")
GRID = {"solver__clip_norm": [0.1, 0.5, 1.0]}
#: Of each run of a `Watched` classifier: its seed and its rows.
RUNS = []


class Watched(DPSGDFClassifier):
    """Tells of the runs, which no user sees, and draws from a global generator."""

    def fit(self, X, y):
        RUNS.append((self.random_state, X))
        np.random.random()  # noqa: NPY002
        return super().fit(X, y)


@pytest.fixture(autouse=True)
def forget_the_runs():
    RUNS.clear()


def base(kind=DPSGDFClassifier, **parameters):
    parameters = {
        "bounds": (0, 1),
        "classes": [0, 1],
        "solver": NoisyGradientDescent(max_iter=5),
    } | parameters
    return kind(**parameters)


def search(estimator=None, grid=GRID, **parameters):
    parameters = {"random_state": 0, "mean_runs": 4.0} | parameters
    return PrivateSearchCV(
        base() if estimator is None else estimator, grid, **parameters
    )


def selection(**law):
    return Selection(label="x", noise_std=(1.0,), clip_norm=1.0, sensitivity=1.0, **law)


def records(model, X, y):
    """Return the two parts of a table, as a fit does."""
    model._declared = model._declare(y)
    return model._records(X, y)


class TestBudget:
    """The whole search is within (epsilon, delta)."""

    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_spends_what_was_asked(self, small, epsilon):
        found = search(epsilon=epsilon, delta=1e-6).fit(*small).privacy_
        assert epsilon * 0.999 < found.epsilon <= epsilon
        (event,) = found.events
        assert isinstance(event, Selection) and event.seeded
        assert compose([event]).epsilon(1e-6) == found.epsilon

    def test_every_release_has_the_noise_that_was_charged(self, small, releases):
        mu = search().fit(*small).privacy_.events[0].run_mu
        spent, n_scores = 0.0, 0
        for one in releases:
            query = one["query"]
            if type(query).__name__ == "AccuracySum":
                assert query.sensitivity(Relation.of("replace_one")) / one["std"] <= mu
                assert spent == pytest.approx(mu**2, rel=1e-4) and spent <= mu**2
                spent, n_scores = 0.0, n_scores + 1
            else:
                moved = query.sensitivity(Relation.of("replace_one"))
                spent += (moved / one["std"]) ** 2
        assert n_scores >= 1

    def test_replace_one_and_public_columns(self, small):
        X, y = pd.DataFrame(small[0], columns=list("abcd")), small[1]
        estimator = FeatureDPLogisticRegression(
            bounds=(0, 1),
            public_features=["a"],
            solver=NoisyGradientDescent(max_iter=5),
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
        found = search(estimator, grid).fit(*small)
        assert found.privacy_.epsilon <= 1.0


class TestLedger:
    """One charge, up front."""

    def test_one_entry_of_one_charge(self, small):
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
        found = search(ledger=ledger).fit(*small)
        (entry,) = ledger.entries
        assert entry.event == found.privacy_.events[0]
        assert entry.label == "PrivateSearchCV of DPSGDFClassifier"
        assert ledger.spent() == pytest.approx(1.0, rel=1e-6)

    def test_exhausted_ledger_runs_nothing(self, small, releases):
        ledger = PrivacyLedger(epsilon=0.9, delta=1e-5)
        model = search(base(Watched), ledger=ledger, epsilon=1.0)
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            model.fit(*small)
        assert not RUNS and not releases and not ledger.entries
        with pytest.raises(NotFittedError):
            model.predict(small[0])

    def test_the_charge_comes_before_the_first_run(self, small):
        seen = []

        class Ledger(PrivacyLedger):
            def charge(self, *args, **more):
                seen.append(len(RUNS))
                return super().charge(*args, **more)

        search(base(Watched), ledger=Ledger()).fit(*small)
        assert seen == [0] and RUNS

    @pytest.mark.parametrize("method", ["fit", "predict"])
    def test_a_failed_search_stays_charged_and_unfitted(self, small, method):
        def fail(*args):
            raise ValueError("label 17 of Ada Lovelace")

        kind = type("Failing", (DPSGDFClassifier,), {method: fail})
        ledger = PrivacyLedger()
        model = search(base(kind), ledger=ledger)
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
        for seed in range(12):
            RUNS.clear()
            model = base(Watched, bounds=None)
            ledger = PrivacyLedger()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = search(model, random_state=seed, ledger=ledger, mean_runs=6)
                model.fit(X, y)
            texts = sorted(str(one.message) for one in caught)
            out.append((len(RUNS), model, ledger, texts))
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
        best = [
            m for _, m, _, _ in found if m.best_params_ == {"solver__clip_norm": 0.1}
        ]
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
        assert any("bounds=None" in text for text in texts)

    def test_global_generators_do_not_tell(self, small):
        before = np.random.get_state()[1].tolist()  # noqa: NPY002
        search(base(Watched)).fit(*small)
        assert RUNS and np.random.get_state()[1].tolist() == before  # noqa: NPY002

    @pytest.mark.usefixtures("callbacks")
    def test_silence(self, small, capsys):
        loud = Loud()
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


def toy(run, grid, event):
    """Return how a search of one parameter finds the best, with runs of our own."""

    class Toy(Search):
        def _run(self, records, streams, number, params, event):
            return run(params)

    method = Toy(
        estimator=None,
        candidates=candidates_of(grid),
        mean_runs=1.0,
        delta=1e-6,
    )
    plan = SimpleNamespace(events=(event,))

    def best(draws):
        streams = SimpleNamespace(private=lambda label: draws)
        return method.run(None, None, plan, SimpleNamespace(streams=streams), None)

    return best


class TestSelection:
    """The best of a random number of runs, as the event says."""

    def laws(self, p, mean=3.0, n=3_000):
        """Search n times among three outcomes of probabilities p, ranked 0 < 1 < 2."""
        event = selection(gamma=1 / mean)

        def run(params):
            outcome = int(outcomes.choice(3, p=p))
            return Found(outcome, params, float(outcome))

        outcomes = np.random.default_rng(3)
        draws = np.random.default_rng(4)
        best = toy(run, {"a": [1, 2]}, event)
        found = [best(draws).model for _ in range(n)]
        return np.bincount(found, minlength=3) / n, event

    @pytest.mark.parametrize("mean", [1.5, 3.0])
    def test_published_law_is_the_enumerated_one(self, mean):
        p = np.array([0.6, 0.3, 0.1])
        found, event = self.laws(p, mean)
        chances = event.run_probabilities()
        k = np.arange(1, 1 + len(chances))
        below = np.cumsum(p)
        due = [(chances * b**k).sum() for b in below]
        np.testing.assert_allclose(found, np.diff([0, *due]), atol=0.02)

    def test_audit_on_a_discrete_toy(self):
        """Randomised response: what is observed is below the claim, and near it."""
        p, q = np.array([0.5, 0.3, 0.2]), np.array([0.55, 0.35, 0.1])
        n = 2_000
        one, event = self.laws(p, n=n)
        two, _ = self.laws(q, n=n)
        # Pure: epsilon_1 = log 2, hence at most 3 log 2 for the search.
        claim = 3 * math.log(2)
        counts = beta.ppf(0.001, one * n, n - one * n + 1)
        others = beta.ppf(0.999, two * n + 1, n - two * n)
        observed = float(np.log(counts / others).max())
        assert 0.3 < observed <= claim

    def test_ties_go_to_any_run(self):
        """Equal scores: the first run wins, and runs are exchangeable."""
        draws, grid = np.random.default_rng(0), {"a": [0, 1]}
        best = toy(
            lambda params: Found(params["a"], params, 0.0), grid, selection(gamma=0.2)
        )
        found = [best(draws).model for _ in range(4000)]
        assert np.mean(found) == pytest.approx(0.5, abs=0.04)

    def test_all_points_of_the_grid_are_as_likely(self):
        draws, grid = np.random.default_rng(0), [{"a": [1, 2], "b": [3, 4]}, {"a": [5]}]
        best = toy(lambda params: Found(None, params, 0.0), grid, selection())
        found = [tuple(sorted(best(draws).params.items())) for _ in range(5000)]
        counts = {one: found.count(one) for one in set(found)}
        assert len(counts) == 5
        assert all(count == pytest.approx(1000, abs=120) for count in counts.values())

    def test_finds_the_only_good_setting(self, small):
        grid = {"solver__learning_rate": [1e-6, 20.0]}
        given = {"epsilon": 30.0, "mean_runs": 8.0}
        estimator = base(solver=NoisyGradientDescent(max_iter=30, clip_norm=0.5))
        # A run draws it with probability 1/2; about a tenth of the searches never do.
        searches = [
            search(estimator, grid, random_state=seed, **given).fit(*small)
            for seed in range(7)
        ]
        good = [
            s for s in searches if s.best_params_ == {"solver__learning_rate": 20.0}
        ]
        assert len(good) >= 4
        assert np.median([found.score(*small) for found in good]) > 0.7


class TestHoldout:
    """A record is in the fits or in the scores, by its index."""

    def test_parts_do_not_meet_and_are_no_function_of_the_data(self, small):
        X, y = small
        model = search(base(Watched), validation_fraction=0.2)
        holdout = records(model, X, y)
        both = np.sort(np.r_[holdout.fit, holdout.score])
        np.testing.assert_array_equal(both, np.arange(300))
        assert len(holdout.score) == 60
        other = records(model, 1 - X, np.roll(y, 7))
        np.testing.assert_array_equal(holdout.score, other.score)
        model.fit(X, y)
        for _, rows in RUNS:
            np.testing.assert_array_equal(rows, X[holdout.fit])

    def test_a_scored_record_does_not_change_a_fit(self, small, releases):
        X, y = small
        found = []
        record = records(search(), X, y).score[0]
        for value in (X[record], 1 - X[record]):
            other = X.copy()
            other[record] = value
            releases.clear()
            search().fit(other, y)
            fits = [one for one in releases if type(one["query"]).__name__ == "RowSum"]
            # The first release of a fit is a function of the fit's part alone.
            found.append(fits[0]["exact"])
        np.testing.assert_array_equal(*found)

    def test_neighbours_move_a_score_by_one_record(self, small):
        X, y = small
        model = search().fit(X, y)
        holdout = records(model, X, y)
        method = model._method(holdout)
        query = method._query(model.best_estimator_, holdout)
        unit = query.unit(3.0)
        before = query.exact_sum(None, None, unit)[0]
        for record in holdout.score[:10]:
            X_other, y_other = X.copy(), y.copy()
            X_other[record], y_other[record] = 1 - X_other[record], 1 - y_other[record]
            labels = dataclasses.replace(holdout.labels, codes=np.asarray(y_other))
            other = dataclasses.replace(holdout, X=X_other, y=y_other, labels=labels)
            after = method._query(model.best_estimator_, other)
            moved = abs(after.exact_sum(None, None, unit)[0] - before)
            assert moved * unit <= query.sensitivity(Relation.of("replace_one"))
        assert query.sensitivity(Relation.of("replace_one")) == 1.0


class TestRuns:
    """A run releases no more than its share, and is checked before it does."""

    def ledger(self):
        facts = {"neighboring_relation": "replace_special"}
        promise = dataclasses.replace(selection(**facts), noise_std=(2.0,))
        return RunLedger(promise, 1e-6)

    def gaussian(self, mu, **fields):
        fields = {"neighboring_relation": "replace_special"} | fields
        return Event(
            label="x", noise_std=(1 / mu,), clip_norm=1.0, sensitivity=1.0, **fields
        )

    def test_ledger_covers_what_it_should(self):
        budget = self.ledger().budget
        assert budget["delta"] == 1e-6
        assert budget["epsilon"] == pytest.approx(gdp_epsilon(1e-6, 0.5), rel=1e-6)
        self.ledger().charge([self.gaussian(0.5)])
        run = self.ledger()
        run.charge([self.gaussian(0.3)])
        run.charge([self.gaussian(0.4)])
        with pytest.raises(PrivacyBudgetError, match="a candidate spends mu=0.50"):
            run.charge([self.gaussian(0.01)])
        with pytest.raises(PrivacyBudgetError, match="a candidate spends mu=0.50"):
            self.ledger().charge([self.gaussian(0.3), self.gaussian(0.401)])

    @pytest.mark.parametrize(
        "fields",
        [
            {"neighboring_relation": "replace_one"},
            {"public_target": True},
            {"public_features": ("a",)},
        ],
    )
    def test_ledger_covers_nothing_that_protects_less(self, fields):
        with pytest.raises(PrivacyBudgetError, match="changes the guarantee"):
            self.ledger().charge([self.gaussian(0.1, **fields)])

    def test_ledger_covers_no_poisson_batches(self):
        steps = dataclasses.replace(self.gaussian(1e-3), sampling_rate=0.1)
        for events in ((steps,), (self.gaussian(0.1), steps)):
            with pytest.raises(PrivacyBudgetError, match="uses Poisson batches"):
                self.ledger().charge(events)

    def test_every_run_has_a_seed_of_its_own(self, small):
        # Runs of one candidate, which would repeat each other's noise.
        most, grid = 0, {"solver__clip_norm": [0.5]}
        for seed in range(6):
            RUNS.clear()
            model = base(Watched, random_state=5)  # which is ignored
            search(model, grid, mean_runs=6.0, random_state=seed).fit(*small)
            seeds = [one for one, _ in RUNS]
            assert len(seeds) == len({*seeds, None, 5}) - 2
            most = max(most, len(seeds))
        assert most > 2
        RUNS.clear()
        private = search(base(Watched, random_state=5), random_state=None).fit(*small)
        assert {one for one, _ in RUNS} == {None} and not private.privacy_.seeded

    def test_plans_read_nothing_private(self, small, releases):
        assert search().plan(*small).events == search().fit(*small).privacy_.events
        releases.clear()
        search().plan(*small)
        assert not releases

    def test_published_model_reports_the_search(self, small):
        # A budget of the estimator is ignored, also one without privacy.
        model = search(base(epsilon=math.inf)).fit(*small)
        assert report(model) is model.privacy_
        assert report(model.best_estimator_) is model.privacy_
        run = RunLedger(model.privacy_.events[0], 1e-5).budget
        inner = model.best_estimator_.get_params()
        assert {name: inner[name] for name in run} == run
        assert inner["ledger"] is None and run["epsilon"] < 1


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
        assert found.decision_function(X).shape == (300,)
        assert found.score(*small) == (found.predict(X) == small[1]).mean()
        assert found.n_features_in_ == 4
        hinge = search(base(loss="hinge"))
        assert not hasattr(hinge, "predict_proba")
        assert hasattr(hinge, "decision_function")

    def test_clones_pickles_and_failed_fits(self, small):
        model = search().fit(*small)
        assert not hasattr(clone(model), "best_estimator_")
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(small[0]), model.predict(small[0]))
        assert again.privacy_ == model.privacy_
        with pytest.raises(ValueError, match="epsilon=-1"):
            model.set_params(epsilon=-1).fit(*small)
        assert not hasattr(model, "best_estimator_")

    def test_report_reads_and_says(self, small, tmp_path):
        found = search().fit(*small).privacy_
        (tmp_path / "report.json").write_text(found.to_json())
        assert read_report(tmp_path / "report.json") == found
        assert "best of a random number of runs" in " ".join(
            found.statement(full=True).split()
        )

    @pytest.mark.parametrize(
        ("kind", "match", "given"),
        [
            (UserWarning, "not below 1/n", {"delta": 0.01}),
            (UtilityWarning, "bounds=None", {"estimator": base(bounds=None)}),
        ],
    )
    def test_warnings_point_at_the_caller(self, small, kind, match, given):
        with pytest.warns(kind, match=match) as caught:
            search(**given).fit(*small)
        assert {one.filename for one in caught} == {__file__}


NOT_OURS = "estimator=.* must be a DPSGDFClassifier, a FeatureDPLogisticRegression or"
BAD = [
    ({"epsilon": 0}, ValueError, "epsilon=0 must be a positive number"),
    ({"epsilon": math.inf}, ValueError, "epsilon=inf must be finite"),
    ({"delta": 1.0}, ValueError, "delta=1.0 must be a number strictly"),
    ({"mean_runs": 0.5}, ValueError, "mean_runs=0.5 must be a number >= 1"),
    ({"validation_fraction": 1}, ValueError, "validation_fraction=1 must be"),
    ({"random_state": "a"}, ValueError, "random_state='a' must be None"),
    ({"ledger": 3}, TypeError, "ledger=3 must be None"),
    ({"estimator": LogisticRegression()}, TypeError, NOT_OURS),
    ({"estimator": PrivateCenteringTransformer()}, TypeError, NOT_OURS),
    ({"estimator": DPSGDFClassifier}, TypeError, NOT_OURS),
    ({"estimator": DPSGDFRegressor(target_bounds=(0, 1))}, TypeError, NOT_OURS),
    ({"estimator": make_pipeline(base())}, TypeError, NOT_OURS),
    ({"estimator": search()}, TypeError, NOT_OURS),
    ({"estimator": 3}, TypeError, NOT_OURS),
    (
        {"estimator": base(ledger=PrivacyLedger())},
        ValueError,
        "pass the ledger to PrivateSearchCV",
    ),
    (
        {"estimator": base(neighboring_relation=AddOrRemoveOne(300))},
        ValueError,
        "use 'replace_special', which costs the same",
    ),
    ({"grid": {}}, ValueError, "must be a dict, or a list of dicts"),
    ({"grid": []}, ValueError, "must be a dict, or a list of dicts"),
    ({"grid": 3}, ValueError, "param_grid=3 must be a dict"),
    ({"grid": {"solver__clip_norm": 0.5}}, ValueError, "must be a non-empty list"),
    ({"grid": {"solver__clip_norm": []}}, ValueError, "must be a non-empty list"),
    ({"grid": {"solver__clip_norm": "ab"}}, ValueError, "must be a non-empty list"),
    (
        {"estimator": DPSGDFClassifier(bounds=(0, 1))},
        ValueError,
        "solver='auto' has no parameters to set",
    ),
    ({"grid": {"epsilon": [1.0]}}, ValueError, "has 'epsilon', which must be the same"),
    ({"grid": {"a__ledger": [None]}}, ValueError, "has 'a__ledger'"),
    ({"grid": {"nothing": [1]}}, ValueError, "Invalid parameter 'nothing'"),
    ({"grid": {"solver__clip_norm": [-1.0]}}, ValueError, "clip_norm=-1.0 must be"),
    (
        {"grid": [GRID, {"solver": ["noisy-gd", NoisySGD(batch_size=64)]}]},
        ValueError,
        "uses Poisson batches .sampling_rate=0.237.*use NoisyGradientDes",
    ),
    (
        {"estimator": base(solver=NoisySGD(batch_size=64))},
        ValueError,
        "uses Poisson batches",
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
    # Released counts of a run show that the labels were recoded; the run is secret.
    with pytest.raises(RuntimeError, match="a run of the search failed"):
        search(epsilon=10.0).fit(small[0], small[1] + 1)


def test_a_class_that_only_scores(small):
    """Classes are those of all records, wherever the split puts them."""
    X, y = small
    holdout = records(search(base(classes=None)), X, y)
    y = np.zeros(300, dtype=int)
    y[holdout.score[0]] = 1
    found = search(base(classes=None)).fit(X, y)
    np.testing.assert_array_equal(found.classes_, [0, 1])
