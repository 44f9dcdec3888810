"""Private scores: what they disclose, what they cost, and what they say."""

import dataclasses
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import skfdp
from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    PrivacyBudgetError,
    PrivacyLedger,
    PrivacyWarning,
    PrivateCenteringTransformer,
    make_private_scorer,
    private_score,
    report,
)
from skfdp import metrics as module
from skfdp.privacy import RELATIONS, AddOrRemoveOne, gdp_mu, read_report
from skfdp.queries.statistics import ScoreTable
from skfdp.solvers.score import Layout, NoisyTable, predicted

#: So much that the noise of a count is below a thousandth.
HUGE = 2e9
ALL = (
    *("accuracy", "confusion_matrix", "roc_auc", "recall", "false_positive_rate"),
    *("selection_rate", "log_loss", "brier_score"),
)


class Fixed:
    """A public model of two classes, whose probabilities are the first column."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        p = np.asarray(X, dtype=float)[:, 0]
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)


class Table:
    """A public model of several classes, whose probabilities are the columns."""

    def __init__(self, classes):
        self.classes_ = np.array(classes)

    def predict_proba(self, X):
        return np.asarray(X, dtype=float)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Mean:
    """A public regressor: the first column."""

    def predict(self, X):
        return np.asarray(X, dtype=float)[:, 0]


@pytest.fixture
def scores():
    """Probabilities and labels that have them."""
    rng = np.random.default_rng(3)
    p = rng.beta(2, 2, 2000)
    return p[:, None], (rng.random(2000) < p).astype(int)


def column(values):
    """Return a public column that is beside the table."""
    return pd.Series(values, name="g")


def public(model, X, y, epsilon=HUGE, **more):
    return private_score(model, X, y, epsilon, 1e-6, model_is_public=True, **more)


@pytest.fixture
def fitted(small):
    return DPSGDFClassifier(epsilon=2.0, bounds=(0, 1), classes=[0, 1]).fit(*small)


# -- values: without noise they are scikit-learn's ----------------------------------
def test_without_noise_it_is_what_scikit_learn_says(scores):
    X, y = scores
    found = public(Fixed(), X, y, metrics=ALL, loss_bound=100.0)
    p, above = X[:, 0], X[:, 0] > 0.5
    expected = {
        "accuracy": accuracy_score(y, above),
        "recall": above[y == 1].mean(),
        "false_positive_rate": above[y == 0].mean(),
        "selection_rate": above.mean(),
        "log_loss": log_loss(y, p),
        "brier_score": brier_score_loss(y, p),
    }
    for name, value in expected.items():
        assert found.values[name] == pytest.approx(value, abs=2e-4), name
    assert found.values["roc_auc"] == pytest.approx(roc_auc_score(y, p), abs=2e-3)
    matrix = confusion_matrix(y, above)
    np.testing.assert_allclose(found.confusion_matrix, matrix, atol=0.05)


@pytest.mark.parametrize("labels", [[0, 1, 2], ["a", "b", "c"], ["c", "a", "b"]])
def test_several_classes(labels):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 900)
    y = np.array(labels)[rng.integers(0, 3, 900)]
    model = Table(labels)
    names = ("accuracy", "confusion_matrix", "log_loss", "brier_score")
    found = public(model, p, y, metrics=names, loss_bound=50.0)
    guess = model.predict(p)
    assert found.values["accuracy"] == pytest.approx(np.mean(guess == y), abs=1e-3)
    np.testing.assert_allclose(
        found.confusion_matrix, confusion_matrix(y, guess), atol=0.05
    )
    assert found.classes.tolist() == sorted(labels)
    own = p[np.arange(900), [labels.index(one) for one in y]]
    assert found.values["log_loss"] == pytest.approx(-np.log(own).mean(), rel=1e-3)
    square = (p**2).sum(axis=1) - 2 * own + 1
    assert found.values["brier_score"] == pytest.approx(square.mean(), rel=1e-3)


@pytest.mark.parametrize("labels", [["no", "yes"], ["yes", "no"], [True, False]])
@pytest.mark.parametrize("method", ["predict_proba", "decision_function", "predict"])
def test_two_classes_by_every_method(labels, method, scores):
    """The last label in order is the positive one, however the model holds them."""
    X, y = scores

    class Model:
        classes_ = np.array(labels)

        def predict(self, X):
            return self.classes_[(X[:, 0] > 0.5).astype(int)]

    if method == "predict_proba":
        Model.predict_proba = Fixed.predict_proba
    if method == "decision_function":
        Model.decision_function = lambda self, X: X[:, 0] - 0.5
    metrics = ["accuracy", "confusion_matrix"]
    metrics += ["roc_auc"] * (method != "predict")
    truth = np.array(labels)[y]
    found = public(Model(), X, truth, metrics=metrics)
    guess = Model().predict(X)
    np.testing.assert_allclose(
        found.confusion_matrix, confusion_matrix(truth, guess), atol=0.05
    )
    if method == "predict_proba":
        area = roc_auc_score(truth == labels[1], X[:, 0])
        assert found.values["roc_auc"] == pytest.approx(area, abs=3e-3)
    if method == "predict":
        with pytest.raises(ValueError, match="roc_auc.*needs predict_proba"):
            public(Model(), X, truth, metrics="roc_auc")


def test_regressors(scores):
    X = scores[0]
    y = X[:, 0] + np.random.default_rng(0).normal(size=2000)
    found = public(Mean(), X, y, error_bound=2.0)
    error = np.minimum(np.abs(y - X[:, 0]), 2.0)
    assert found.values["mean_absolute_error"] == pytest.approx(error.mean(), rel=1e-3)
    square = (error**2).mean()
    assert found.values["mean_squared_error"] == pytest.approx(square, rel=1e-3)
    assert found.confusion_matrix is None and found.classes is None


def test_the_width_of_the_targets_bounds_the_errors(small):
    X, y = small
    model = DPSGDFRegressor(bounds=(0, 1), target_bounds=(-1, 2)).fit(X, y)
    found = private_score(model, X, y, 1.0)
    plan = private_score(model, X, y, 1.0, error_bound=3.0)
    assert found.privacy_.events == plan.privacy_.events


def test_the_threshold_moves_the_sides(scores):
    X, y = scores
    for threshold in (0.2, 0.35, 0.7):
        found = public(Fixed(), X, y, threshold=threshold)
        above = X[:, 0] > threshold
        matrix, accuracy = confusion_matrix(y, above), np.mean(above == y)
        np.testing.assert_allclose(found.confusion_matrix, matrix, atol=0.05)
        alone = public(Fixed(), X, y, threshold=threshold, metrics="accuracy")
        for one in (found, alone):
            assert one.values["accuracy"] == pytest.approx(accuracy, abs=1e-3)


# -- the release ----------------------------------------------------------------------
def check_release(X, y, releases, relation="replace_one", **more):
    """Check noise and bounds of one score against its event."""
    del releases[:]
    if relation == "add_or_remove_one":
        relation = AddOrRemoveOne(len(y))
    found = public(Fixed(), X, y, 1.0, neighboring_relation=relation, **more)
    (event,) = found.privacy_.events
    (seen,) = releases
    assert seen["std"] == event.step_stds[0] == event.noise_std[0]
    assert seen["batch"] is None and event.sampling_rate == 1
    assert seen["query"].sensitivity(event.relation) <= event.sensitivity
    assert event.mu == pytest.approx(gdp_mu(1.0, 1e-6), rel=1e-6)
    assert found.privacy_.epsilon <= 1.0
    return found, seen


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("metrics", ["accuracy", "roc_auc", "log_loss", ALL])
def test_the_event_is_what_ran(scores, releases, relation, metrics):
    check_release(*scores, releases, relation, metrics=metrics)


def test_the_noise_is_that_of_the_event(scores, releases):
    X, y = scores
    ratios = []
    for _ in range(30):
        _, seen = check_release(X[:50], y[:50], releases, metrics=ALL)
        ratios.append(seen["noise"].ravel() / seen["std"])
    ratios = np.concatenate(ratios)
    assert abs(np.mean(ratios**2) - 1) < 5 * math.sqrt(2 / ratios.size)
    assert abs(ratios.mean()) < 5 / math.sqrt(ratios.size)


@pytest.mark.parametrize("by", [False, True])
def test_no_record_moves_the_release_further_than_said(releases, by):
    """Replace the first record by any other: the sum moves by the sensitivity."""
    rng = np.random.default_rng(0)
    p, y = rng.random(12), rng.integers(0, 2, 12)
    groups = column(["a", "b"] * 6) if by else None
    sums, values = [], [0.0, 1e-9, 0.3, 0.5, 0.50001, 1.0, math.nan, math.inf, -5]
    for value in values[:: 4 if by else 1]:
        for label in (0, 1, None):
            X, labels = p[:, None].copy(), y.astype(object)
            X[0], labels[0] = value, label
            _, seen = check_release(X, labels, releases, metrics=ALL, by=groups)
            sums.append(seen["exact"].ravel())
    sums = np.array(sums)
    reach = seen["query"].sensitivity(skfdp.privacy.Relation("replace_one"))
    moved = np.sqrt(((sums[:, None] - sums) ** 2).sum(axis=-1))
    assert 0.9 * reach < moved.max() <= reach


class Charged(BaseException):
    """Ends a score at its charge."""


class Spy(PrivacyLedger):
    """A ledger that keeps what it is given, and ends the score."""

    def __init__(self):
        self.charged = None

    path, events, epsilon = None, (), None

    def charge(self, events, *, label=None):
        self.charged = repr((tuple(events), label))
        raise Charged


class Closed:
    """A model that nobody may ask."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        raise KeyboardInterrupt

    predict_proba = predict


def check_charged_first():
    spy = Spy()
    with pytest.raises(Charged):
        public(Closed(), np.zeros((9, 1)), np.zeros(9), 1.0, ledger=spy)
    return spy.charged


def test_the_charge_comes_before_the_first_prediction():
    assert "scores" in check_charged_first()


def test_a_look_before_the_charge_is_noticed(monkeypatch):
    planned = module._planned

    def early(layout, scored, *more):
        found = planned(layout, scored, *more)
        found[0].table(scored.X, scored.y)
        return found

    monkeypatch.setattr(module, "_planned", early)
    with pytest.raises(KeyboardInterrupt):
        check_charged_first()


def test_the_charge_is_a_function_of_public_facts(small):
    X, y = small
    texts = set()
    for values, labels in (
        (X, y),
        (np.full(X.shape, math.nan), y * 0),
        (X * 1e9, np.array(["?", None] * 150, dtype=object)),
    ):
        spy = Spy()
        with pytest.raises(Charged):
            public(Fixed(), values, labels, 1.0, ledger=spy, metrics=ALL)
        texts.add(spy.charged)
    assert len(texts) == 1


# -- malformed records ----------------------------------------------------------------
def test_a_record_without_label_or_score_counts_as_wrong():
    X = np.array([[0.9], [0.9], [0.1], [math.nan], [0.9]] * 100)
    y = np.array([1, 7, 0, 1, None] * 100, dtype=object)
    found = public(Fixed(), X, y, metrics=ALL, loss_bound=4.0)
    assert found.values["accuracy"] == pytest.approx(0.4, abs=1e-3)
    np.testing.assert_allclose(found.confusion_matrix, [[100, 0], [0, 100]], atol=0.1)
    own = (2 * -math.log(0.9) + 3 * 4.0) / 5
    assert found.values["log_loss"] == pytest.approx(own, rel=1e-3)
    assert found.values["brier_score"] == pytest.approx((2 * 0.01 + 3) / 5, rel=1e-3)
    alone = public(Fixed(), X, y, metrics="accuracy")
    assert alone.values["accuracy"] == pytest.approx(0.4, abs=1e-3)


def test_rows_that_the_model_refuses_have_no_score(scores):
    """scikit-learn's model raises for NaN, and quotes what it found."""
    X, y = scores
    model = LogisticRegression().fit(X, y)
    broken = X.copy()
    broken[[3, 500, 501, 1999]] = math.nan
    found = public(model, broken, y, metrics="accuracy")
    kept = np.isfinite(broken[:, 0])
    right = (model.predict(X[kept]) == y[kept]).sum()
    assert found.values["accuracy"] == pytest.approx(right / 2000, abs=1e-4)
    nothing = public(model, np.full_like(X, math.nan), y, metrics="accuracy")
    assert nothing.values["accuracy"] == pytest.approx(0, abs=1e-3)


def test_rows_that_are_refused_do_not_change_a_bit_of_the_others():
    """Matrix products depend on the shape of a table: it stays."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(301, 57)), rng.normal(size=57)
    shapes = []

    def call(X):
        shapes.append((X.shape, X.flags.c_contiguous))
        if not np.isfinite(X).all():
            raise ValueError(f"bad rows {X}")
        return X @ weights

    whole = predicted(call, X, 301)
    broken = X.copy()
    broken[[0, 17, 300]] = math.nan
    shapes.clear()
    found = predicted(call, broken, 301)
    assert shapes[-1] == ((301, 57), True)
    rest = np.isfinite(broken[:, 0])
    assert [found[i] for i in np.flatnonzero(~rest)] == [None] * 3
    np.testing.assert_array_equal(found[rest].astype(float), whole[rest])


def test_rows_are_alone_where_their_number_is_private(scores):
    shapes = set()

    class Watched(Fixed):
        def predict_proba(self, X):
            shapes.add(X.shape)
            if math.isnan(X[0, 0]):
                raise ValueError("a row")
            return super().predict_proba(X)

    X, y = scores[0][:100].copy(), scores[1][:100]
    X[7] = math.nan
    more = {"neighboring_relation": AddOrRemoveOne(100)}
    found = public(Watched(), X, y, metrics=ALL, **more)
    assert shapes == {(1, 1)}
    right = np.mean((X[:, 0] > 0.5) == y) - (y[7] == 0) / 100
    assert found.values["accuracy"] == pytest.approx(right, abs=1e-3)


class Loud(Fixed):
    """A model that warns of what it sees."""

    def predict_proba(self, X):
        warnings.warn(f"saw {X[0]}", stacklevel=2)
        np.log(np.zeros(1))
        return super().predict_proba(X)


def test_no_warning_and_no_trap_tells_of_a_record(scores):
    X, y = scores[0] * 1e-310, scores[1]
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        public(Loud(), X, y, 10.0, metrics=ALL)


def test_a_model_that_fails_otherwise_is_withheld(scores):
    class Wrong(Fixed):
        def predict_proba(self, X):
            return np.zeros((len(X), 5))

    with pytest.raises(RuntimeError, match="message is withheld"):
        public(Wrong(), *scores)


def test_numbers_of_regressors_that_are_none():
    y = np.array([0.0, math.nan, None, "text", 1.0], dtype=object)
    X = np.array([[0.0], [0.0], [0.0], [0.0], [math.inf]])
    found = public(Mean(), X, y, error_bound=2.0)
    assert found.values["mean_absolute_error"] == pytest.approx(2.0 * 4 / 5, rel=1e-2)


# -- whose model ----------------------------------------------------------------------
def test_a_model_without_a_private_fit_must_be_declared_public(small):
    X, y = small
    bare = DPSGDFClassifier(epsilon=math.inf).fit(X, y)
    leaky = make_pipeline(StandardScaler(), DPSGDFClassifier(bounds=(-3, 3))).fit(X, y)
    for model, match in (
        (Fixed(), "is not the result of a private fit.*declare"),
        (bare, "epsilon=inf"),
        (leaky, "step standardscaler .* from private"),
    ):
        with pytest.raises(ValueError, match=match):
            private_score(model, X, y, 1.0)
        found = private_score(model, X, y, 1.0, model_is_public=True).privacy_
        (told,) = [a for a in found.assumptions if "public, as was" in a.text]
        assert not told.enforced and found.epsilon < 1.1


def texts(score):
    return {a.text: a.enforced for a in score.privacy_.assumptions}


def test_without_a_shared_ledger_the_records_are_others(fitted, small):
    for ledger in (None, PrivacyLedger()):
        found = texts(private_score(fitted, *small, 1.0, ledger=ledger))
        (others,) = [text for text in found if "scored records are not" in text]
        assert not found[others]


@pytest.mark.parametrize("in_file", [False, True])
def test_a_shared_ledger_counts_both(small, in_file, tmp_path):
    path = tmp_path / "ledger.sqlite" if in_file else None
    ledger = PrivacyLedger(path, epsilon=3.0, delta=1e-5)
    model = DPSGDFClassifier(1.0, bounds=(0, 1), classes=[0, 1], ledger=ledger)
    model.fit(*small)
    found = private_score(model, *small, 1.0, ledger=ledger)
    said = texts(found)
    (shared,) = [text for text in said if "holds the fit" in text]
    assert said[shared]
    assert not [text for text in said if "scored records are not" in text]
    assert 1.3 < ledger.spent() < 1.6
    assert report(ledger).n_fits == 2
    assert found.privacy_.receipts == (ledger.receipt,)
    # A fit that was charged elsewhere has the same events.
    other = clone(model).set_params(ledger=None).fit(*small)
    said = texts(private_score(other, *small, 0.1, ledger=ledger))
    assert [text for text in said if "scored records are not" in text]
    for epsilon, relation, match in (
        (3.0, "replace_one", "budget exhausted"),
        (0.1, "replace_special", "neighboring_relation"),
    ):
        more = {"neighboring_relation": relation, "ledger": ledger}
        with pytest.raises(PrivacyBudgetError, match=match):
            public(Closed(), *small, epsilon, **more)


def test_it_is_within_every_public_set(small):
    frame = pd.DataFrame(small[0], columns=["a", "b", "c", "d"])
    y = pd.Series(small[1], name="ill")
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5)
    model = FeatureDPLogisticRegression(
        bounds=(0, 1), public_features=["a", "b"], ledger=ledger
    ).fit(frame, y)
    found = private_score(model, frame, y, 1.0, ledger=ledger)
    (event,) = found.privacy_.events
    assert event.public_features == () and not event.public_target
    assert event.target_name == "ill" and event.neighboring_relation == "replace_one"
    assert found.privacy_.private_features == ("a", "b", "c", "d")
    part = private_score(model, frame, y, 1.0, ledger=ledger, by=frame["a"].round())
    assert part.privacy_.public_features == ("a",)
    with pytest.raises(PrivacyBudgetError, match="discloses 'c', which is outside"):
        private_score(model, frame, y, 1.0, ledger=ledger, by="c")


# -- groups ---------------------------------------------------------------------------
def test_groups_are_disjoint_parts_of_one_charge(scores, releases):
    X, y = scores
    sex = pd.Series(np.where(np.arange(2000) % 3, "f", "m"), name="sex")
    ledger = PrivacyLedger()
    named = pd.DataFrame(X, columns=["score"])
    found = public(Fixed(), named, y, 1.0, by=sex, ledger=ledger, target="y")
    plain = public(Fixed(), named, y, 1.0, target="y")
    (event,) = found.privacy_.events
    assert event.public_features == ("sex",)
    same = dataclasses.replace(event, public_features=())
    assert same == plain.privacy_.events[0]
    assert len(ledger) == 1 and len(releases) == 2
    assert {name: one.n_records for name, one in found.by_value.items()} == {
        "f": 1333,
        "m": 667,
    }
    exact = public(Fixed(), X, y, by=sex)
    for name, one in exact.by_value.items():
        of = (sex == name).to_numpy()
        expected = np.mean((X[of, 0] > 0.5) == y[of])
        assert one.values["accuracy"] == pytest.approx(expected, abs=1e-3)
    whole = np.mean((X[:, 0] > 0.5) == y)
    assert exact.values["accuracy"] == pytest.approx(whole, abs=1e-3)
    assert found.noise_std == pytest.approx(math.sqrt(2) * event.noise_std[0])


@pytest.mark.parametrize("kind", ["frame", "array", "sparse"])
def test_groups_by_a_column_of_the_table(scores, kind):
    p, y = scores
    X = np.column_stack([p[:, 0], np.arange(2000) % 2])
    given = {
        "frame": pd.DataFrame(X, columns=["p", "g"]),
        "array": X,
        "sparse": csr_array(X),
    }[kind]

    class Model(Fixed):
        def predict_proba(self, X):
            return super().predict_proba(X.toarray() if kind == "sparse" else X)

    found = public(Model(), given, y, by="g" if kind == "frame" else 1)
    assert list(found.by_value) == [0.0, 1.0]
    assert found.privacy_.public_features == (("g",) if kind == "frame" else (1,))
    assert found.by == ("g" if kind == "frame" else 1)


# -- intervals and what is undetermined -----------------------------------------------
def test_intervals_hold_the_values(scores):
    found = public(Fixed(), *scores, 1.0, metrics=ALL)
    for name, (low, high) in found.intervals.items():
        assert low <= found.values[name] <= high, name
    wide = public(Fixed(), *scores, 0.05, metrics="accuracy", confidence=0.999)
    low, high = wide.intervals["accuracy"]
    assert high - low > 0.2


def test_an_area_without_positives_is_undetermined():
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 1)), np.zeros(300, dtype=int)
    seen = [public(Fixed(), X, y, 0.5) for _ in range(20)]
    without = [one for one in seen if math.isnan(one.values["roc_auc"])]
    assert without and all(map(math.isnan, without[0].intervals["roc_auc"]))
    assert "roc_auc undetermined" in repr(without[0])


@pytest.mark.slow
@pytest.mark.parametrize("noisy", [True, False])
def test_intervals_cover_noise_and_sampling(scores, noisy, monkeypatch):
    """Of the accuracy of the population; and not where they leave the noise out."""
    if not noisy:
        monkeypatch.setattr(NoisyTable, "noise", property(lambda self: 0.0))
    X, y = scores
    truth = np.mean((X[:, 0] > 0.5) == y)
    rng, held = np.random.default_rng(1), 0
    for seed in range(300):
        rows = rng.integers(0, len(y), 400)
        given = {"metrics": "accuracy", "random_state": seed}
        found = public(Fixed(), X[rows], y[rows], 0.3, **given)
        low, high = found.intervals["accuracy"]
        held += low <= truth <= high
    assert 0.91 < held / 300 < 0.99 if noisy else held / 300 < 0.9


@pytest.mark.parametrize("n_rows", [0, 1, 1500])
def test_under_add_or_remove_the_number_of_rows_is_private(scores, n_rows, releases):
    X, y = scores
    more = {"neighboring_relation": AddOrRemoveOne(1000)}
    found = public(Fixed(), X[:n_rows], y[:n_rows], metrics=ALL, **more)
    assert found.n_records == found.privacy_.n_records == 1000
    if n_rows == 1500:
        expected = np.mean((X[:1500, 0] > 0.5) == y[:1500])
        assert found.values["accuracy"] == pytest.approx(expected, abs=1e-3)
        own = np.where(y == 1, X[:, 0], 1 - X[:, 0])[:1500]
        expected = np.minimum(-np.log(own), 4).mean()
        assert found.values["log_loss"] == pytest.approx(expected, abs=1e-3)
    assert releases[-1]["query"].capacity == 16 * 1000  # room, whatever comes
    only = public(Fixed(), X[:n_rows], y[:n_rows], metrics="brier_score", **more)
    (event,) = only.privacy_.events
    assert event.clip_norm == pytest.approx(math.sqrt(1 + 5 / 4))


# -- results and reports --------------------------------------------------------------
def test_the_report_names_the_mechanism(scores, tmp_path):
    found = public(Fixed(), *scores, 1.0, metrics=ALL, by=column(["a", "b"] * 1000))
    told = found.privacy_.statement(full=True)
    for text in (
        "PRIVACY STATEMENT: private_score of Fixed",
        "- roc_auc",
        "- all of these for each g",
        "scores: 1 Gaussian release(s)",
        "each of its losses is cut",
        "predicts each record separately",
        "NOT checked",
    ):
        assert text in " ".join(told.split()) or text in told, text
    assert report(found) is found.privacy_
    path = tmp_path / "report.json"
    path.write_text(found.privacy_.to_json(), encoding="utf-8")
    assert read_report(path) == found.privacy_


def test_results_are_frozen_and_travel(scores):
    found = public(Fixed(), *scores, 1.0, metrics=ALL, by=column(["a", "b"] * 1000))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.values = {}
    again = pickle.loads(pickle.dumps(found))
    assert type(again).__module__ == "skfdp.metrics"
    assert again.values == found.values and again.privacy_ == found.privacy_
    assert list(found.by_value) == ["a", "b"]
    text = repr(found)
    assert "95 % intervals" in text and "g = a: accuracy" in text
    assert "confusion_matrix of noisy counts" in text


def test_a_seed_warns_and_voids(scores):
    with pytest.warns(PrivacyWarning, match="NO privacy guarantee"):
        found = public(Fixed(), *scores, 1.0, random_state=0)
    again = public(Fixed(), *scores, 1.0, random_state=0)
    assert found.values == again.values
    assert found.privacy_.seeded and "void (integer seed)" in repr(found)
    (event,) = found.privacy_.events
    assert event.seeded  # what a ledger keeps
    fresh = [public(Fixed(), *scores, 1.0).values for _ in range(2)]
    assert fresh[0] != fresh[1]


# -- tables of other kinds ------------------------------------------------------------
def test_frames_lists_sparse_rows_and_pipelines(small):
    X, y = small
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(
        PrivateCenteringTransformer(epsilon=1.0, bounds=(0, 1)),
        DPSGDFClassifier(1.0, bounds=False, centering=None),
    ).fit(frame, y)
    assert private_score(model, frame, y, 1.0).privacy_.epsilon == pytest.approx(1.0)
    with pytest.raises(ValueError, match="feature names should match"):
        private_score(model, frame[list("dcba")], y, 1.0)
    with pytest.raises(ValueError, match="X has 3 features, but .* is expecting 4"):
        private_score(model, X[:, :3], y, 1.0)
    polars = pytest.importorskip("polars")
    model = DPSGDFClassifier(4.0, bounds=(0, 1), classes=[0, 1]).fit(X, y)
    named = DPSGDFClassifier(4.0, bounds=(0, 1), classes=[0, 1]).fit(frame, y)
    for one, rows in (
        (model, X),
        (model, X.tolist()),
        (model, csr_array(X)),
        (model, frame.set_axis(range(4), axis=1)),
        (named, polars.DataFrame(X, schema=list("abcd"))),
    ):
        found = public(one, rows, y.tolist(), metrics="accuracy")
        expected = one.score(frame if one is named else X, y)
        assert found.values["accuracy"] == pytest.approx(expected, abs=1e-3)


# -- refusals -------------------------------------------------------------------------
ADDED = {"neighboring_relation": AddOrRemoveOne(2000)}
SEVERAL_TARGETS = DummyClassifier().fit(np.zeros((4, 1)), [[0, 1], [1, 0]] * 2)


@pytest.mark.parametrize(
    "more, match",
    [
        ({"metrics": "f1"}, "metrics='f1' must be some of 'accuracy'"),
        ({"metrics": []}, r"metrics=\[\] must be some of"),
        ({"metrics": 3}, "metrics=3 must be some of"),
        ({"metrics": "mean_squared_error"}, "for a model of two classes"),
        ({"threshold": 1.0}, "threshold=1.0 must be a number > 0 and < 1"),
        ({"confidence": 95}, "confidence=95 must be"),
        ({"n_bins": 1.5}, "n_bins=1.5 must be an int"),
        ({"loss_bound": 0}, "loss_bound=0 must be"),
        ({"model_is_public": "yes"}, "model_is_public='yes' must be True or False"),
        ({"random_state": 1.5}, "random_state=1.5 must be None"),
        ({"epsilon": math.inf}, "epsilon=inf must be finite here"),
        ({"epsilon": 0}, "epsilon=0 must be a positive number"),
        ({"delta": 1.0}, "delta=1.0 must be a number strictly"),
        ({"neighboring_relation": "other"}, "neighboring_relation='other' is unknown"),
        ({"neighboring_relation": "add_or_remove_one"}, "pass AddOrRemoveOne"),
        ({"X": np.zeros(5)}, "X=<ndarray> must be a table"),
        ({"X": np.zeros((0, 1)), "y": []}, "X has no rows"),
        ({"y": [0, 1]}, "inconsistent numbers of samples"),
        ({"y": np.zeros((2000, 2))}, "y should be a 1d array"),
        ({"model": object()}, "has no predict"),
        (
            {"model": Mean(), "error_bound": 1, "y": np.array(["1"] * 2000)},
            "are not numbers",
        ),
        ({"ledger": 3}, "ledger=3 must be None, a path or a PrivacyLedger"),
        ({"model": Mean(), "error_bound": None}, "error_bound=None: the model decl"),
        ({"model": LinearSVC(), "metrics": ["brier_score"]}, "needs predict_proba"),
        ({"model": SEVERAL_TARGETS}, "several targets"),
        ({"by": "g"}, "by='g' must be the name"),
        ({"by": 5}, "by=5 must be the name"),
        ({"by": np.zeros(2000)}, "by=<ndarray> must be the name"),
        ({"by": column([1])}, "by has 1 entries, but X has 2000 rows"),
        ({"by": column([None] * 2000)}, "by holds missing values"),
        ({"by": column([0] * 2000), **ADDED}, "by='g' needs a public column"),
    ],
)
def test_refusals_are_a_sentence_and_cost_nothing(scores, more, match):
    X, y = scores
    ledger = PrivacyLedger()
    if isinstance(more.get("model"), LinearSVC):
        more["model"].fit(X, y)
    given = {"model": Fixed(), "X": X, "y": y, "epsilon": 1.0, "delta": 1e-6}
    given |= {"ledger": ledger, "model_is_public": True} | more
    with pytest.raises((ValueError, TypeError), match=match):
        private_score(**given)
    assert not ledger.entries


# -- the scorer -----------------------------------------------------------------------
@pytest.mark.parametrize(
    "metrics, more, match",
    [
        ("confusion_matrix", {}, "metrics='confusion_matrix' must be some of"),
        (("accuracy", "r3"), {}, "must be some of"),
        (None, {}, "metrics=None must be some of"),
        ("accuracy", {"bins": 3}, "bins=3 is not a parameter of a private scorer"),
        (
            "accuracy",
            {"model_is_public": True},
            "model_is_public=True is not a parameter",
        ),
        ("accuracy", {"by": "sex"}, "by='sex' is not a parameter"),
        ("accuracy", {"epsilon": -1}, "epsilon=-1 must be a positive"),
        ("accuracy", {"ledger": None}, "ledger=None must be a ledger"),
    ],
)
def test_a_scorer_refuses_in_a_sentence(metrics, more, match):
    given = {"epsilon": 1.0, "ledger": PrivacyLedger()} | more
    with pytest.raises((ValueError, PrivacyBudgetError), match=match):
        make_private_scorer(metrics, **given)


def test_cross_validation_charges_every_fit_and_every_score(small):
    bounds = {"bounds": (0, 1)}
    for model, metric, sign in (
        (DPSGDFClassifier(1.0, classes=[0, 1], **bounds), "accuracy", 1),
        (DPSGDFRegressor(target_bounds=(0, 1), **bounds), "mean_squared_error", -1),
    ):
        ledger = PrivacyLedger(epsilon=5.0, delta=1e-5)
        model.set_params(ledger=ledger)
        scorer = make_private_scorer(metric, epsilon=2.0, ledger=ledger)
        given = {"scoring": scorer, "cv": KFold(2), "error_score": "raise"}
        scores = cross_val_score(model, *small, **given)
        assert len({entry.charge for entry in ledger.entries}) == 4
        assert sum(event.label == "scores" for event in ledger.events) == 2
        assert ((sign * scores >= 0) & (sign * scores <= 1)).all()
        relations = {event.neighboring_relation for event in ledger.events}
        assert relations == {model.neighboring_relation}
        with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
            cross_val_score(model, *small, **given | {"cv": KFold(5)})
        assert ledger.spent() <= 5.0


def test_a_fit_that_is_charged_elsewhere_is_not_scored(small):
    scorer = make_private_scorer("accuracy", epsilon=2.0, ledger=PrivacyLedger())
    for ledger in (None, PrivacyLedger()):
        model = DPSGDFClassifier(1.0, bounds=(0, 1), ledger=ledger).fit(*small)
        with pytest.raises(PrivacyBudgetError, match="does not hold the fit of DPSGDF"):
            scorer(model, *small)
    bare = DPSGDFClassifier(epsilon=math.inf).fit(*small)  # charges nothing
    with pytest.raises(PrivacyBudgetError, match="does not hold the fit"):
        scorer(bare, *small)
    with pytest.raises(ValueError, match="has no privacy_ inside"):
        scorer(LogisticRegression().fit(*small), *small)
    assert not scorer.args[0]["ledger"].entries


def test_a_grid_search_in_processes_charges_a_file(small, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite")
    model = DPSGDFClassifier(1.0, bounds=(0, 1), classes=[0, 1], ledger=ledger)
    scorer = make_private_scorer(("accuracy", "log_loss"), epsilon=2.0, ledger=ledger)
    search = GridSearchCV(
        model,
        {"C": [0.1, 0.5]},
        scoring=scorer,
        cv=KFold(2),
        refit="accuracy",
        n_jobs=2,
        error_score="raise",
    ).fit(*small)
    assert (search.cv_results_["mean_test_log_loss"] <= 0).all()
    # Four fits, four scores, and the refit.
    assert len({entry.charge for entry in ledger.entries}) == 9
    assert pickle.loads(pickle.dumps(scorer)).args[0]["ledger"].path == ledger.path


def test_traps_of_the_user_do_not_enter():
    """A trap would turn one private score into an exception after the charge."""
    from scipy import special

    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    model = DPSGDFClassifier(bounds=(0, 1)).fit(X, y)
    with np.errstate(all="raise"), special.errstate(all="raise"):
        found = private_score(model, X, y, 1.0, metrics=("roc_auc", "log_loss"))
    assert set(found.values) == {"roc_auc", "log_loss"}


def test_the_name_of_a_target_is_a_name():
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    model = DPSGDFClassifier(bounds=(0, 1)).fit(X, y)
    for name in ("", 7, NotImplemented):
        with pytest.raises(ValueError, match="target=.* must be the name"):
            private_score(model, X, y, 1.0, target=name)


# -- R2: the score of regressors ------------------------------------------------------
class Declared(Mean):
    """A public regressor whose target has declared bounds."""

    def get_params(self, deep=True):
        return {"target_bounds": (-2.0, 6.0)}


def numbers(n, rng):
    X = rng.uniform(-1, 5, (n, 1))
    return X, np.clip(X[:, 0] + rng.normal(size=n), -2, 6)


def test_r2_is_the_score_that_regressors_have():
    X, y = numbers(3000, np.random.default_rng(0))
    found = public(Declared(), X, y)
    assert list(found.values) == ["r2", "mean_absolute_error", "mean_squared_error"]
    assert found.values["r2"] == pytest.approx(r2_score(y, X[:, 0]), abs=1e-3)
    weight = np.random.default_rng(1).uniform(0.5, 1, 3000)
    found = public(Declared(), X, y, metrics="r2", sample_weight=weight)
    expected = r2_score(y, X[:, 0], sample_weight=weight)
    assert found.values["r2"] == pytest.approx(expected, abs=1e-3)


def test_r2_costs_the_squared_error_and_one_sum_more():
    X, y = numbers(300, np.random.default_rng(0))
    stds = {
        names: public(Declared(), X, y, 1.0, metrics=names).noise_std
        for names in ("r2", "mean_squared_error", ("r2", "mean_squared_error"))
    }
    one, two = stds["mean_squared_error"], stds["r2"]
    assert two == pytest.approx(one * math.sqrt(2), rel=1e-6)
    assert stds["r2", "mean_squared_error"] == two


@pytest.mark.parametrize("relation", ["replace_one", AddOrRemoveOne(n_records=2500)])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_intervals_of_r2_cover(epsilon, relation):
    rng = np.random.default_rng(0)
    truth = r2_score(*reversed([a.ravel() for a in numbers(10**6, rng)]))
    hits = []
    for _ in range(60):
        X, y = numbers(2500, rng)
        known = {"metrics": "r2", "neighboring_relation": relation}
        found = public(Declared(), X, y, epsilon, **known)
        low, high = found.intervals["r2"]
        assert low <= found.values["r2"] <= high <= 1
        hits.append(low <= truth <= high)
    assert np.mean(hits) > 0.88


def test_r2_of_a_target_that_does_not_vary_is_undetermined():
    X = np.zeros((300, 1))
    found = public(Declared(), X, np.zeros(300), 1.0)
    assert math.isnan(found.values["r2"]) and math.isnan(found.intervals["r2"][0])


def test_r2_needs_the_range_of_the_target():
    X, y = numbers(300, np.random.default_rng(0))
    with pytest.raises(ValueError, match="r2' needs the range of the target"):
        public(Mean(), X, y, metrics="r2", error_bound=2.0)
    assert "r2" not in public(Mean(), X, y, error_bound=2.0).values


def test_no_target_moves_the_sums_of_r2_further_than_one():
    """Brute force over what one record can be: each sum stays in [0, 1]."""
    values = [-2.0, 6.0, 1e300, -1e300, math.inf, math.nan, None, "text", 2.0]
    y = np.array(values, dtype=object)
    X = np.zeros((len(values), 1))
    layout = Layout.of(Declared(), "r2")
    cells, losses = layout.table(X, y)
    assert list(layout.bounds) == ["mean_squared_error", "target"]
    assert losses.shape == (len(values), 2) and not cells.any()
    assert ((losses >= 0) & (losses <= 1)).all()
    query = ScoreTable.planned(layout.n_cells, len(layout.bounds))
    for relation in RELATIONS:
        reach = query.sensitivity(skfdp.privacy.Relation.of(relation))
        assert reach >= math.sqrt(2.5) * (1 - 1e-12)
    rows = np.column_stack([losses, losses**2 / 2])
    furthest = np.linalg.norm(rows[:, None] - rows[None], axis=2).max()
    assert furthest <= math.sqrt(2.5)
