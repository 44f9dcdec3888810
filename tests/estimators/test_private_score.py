"""Private scores: what they disclose, what they cost, and what they say."""

import dataclasses
import itertools
import math
import pickle
import warnings
from functools import partial
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from scipy import special
from scipy.sparse import csr_array, issparse
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
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

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
from skfdp.privacy import RELATIONS, AddOrRemoveOne, Relation, gdp_mu, read_report
from skfdp.privacy.events import ASSUMED
from skfdp.solvers.score import (
    NoisyTable,
    auc_kernel,
    bin_edges,
    bounded_interval,
    predicted,
)

#: So much that the noise of a count is below a thousandth.
HUGE = 2e9
ALL = (*("accuracy", "confusion_matrix", "roc_auc", "log_loss", "brier_score"),)


class Fixed:
    """A public model whose probabilities are the columns; of one, of its last class."""

    def __init__(self, classes=(0, 1)):
        self.classes_ = np.array(classes)

    def predict_proba(self, X):
        p = np.asarray(X, dtype=float)
        return p if len(self.classes_) > 2 else np.column_stack([1 - p[:, 0], p[:, 0]])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Mean:
    """A public regressor: the first column."""

    def predict(self, X):
        return np.asarray(X, dtype=float)[:, 0]


class Declared(Mean):
    """A public regressor whose target has declared bounds."""

    def get_params(self, deep=True):
        return {"target_bounds": (-2.0, 6.0)}


def numbers(n, rng):
    X = rng.uniform(-1, 5, (n, 1))
    return X, np.clip(X[:, 0] + rng.normal(size=n), -2, 6)


@pytest.fixture
def scores():
    """Probabilities and labels that have them."""
    rng = np.random.default_rng(3)
    p = rng.beta(2, 2, 2000)
    return p[:, None], (rng.random(2000) < p).astype(int)


def column(values):
    """Return a public column beside the table."""
    return pd.Series(values, name="g")


def public(model, X, y, epsilon=HUGE, **more):
    return private_score(model, X, y, epsilon, 1e-6, model_is_public=True, **more)


# -- values: without noise they are scikit-learn's ----------------------------------
@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.7])
def test_without_noise_it_is_what_scikit_learn_says(scores, threshold):
    X, y = scores
    given = {"loss_bound": 100.0, "threshold": threshold}
    found = public(Fixed(), X, y, metrics=ALL, **given)
    p, above = X[:, 0], X[:, 0] > threshold
    expected = {
        "accuracy": accuracy_score(y, above),
        "log_loss": log_loss(y, p),
        "brier_score": brier_score_loss(y, p),
    }
    assert found.values.pop("roc_auc") == pytest.approx(roc_auc_score(y, p), abs=2e-3)
    assert found.values == pytest.approx(expected, abs=2e-4)
    matrix = confusion_matrix(y, above)
    np.testing.assert_allclose(found.confusion_matrix, matrix, atol=0.05)
    alone = public(Fixed(), X, y, threshold=threshold, metrics="accuracy")
    assert alone.values["accuracy"] == pytest.approx(np.mean(above == y), abs=1e-3)


@pytest.mark.parametrize("labels", [[0, 1, 2], ["c", "a", "b"]])
def test_several_classes(labels):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 900)
    y = np.array(labels)[rng.integers(0, 3, 900)]
    names = ("accuracy", "confusion_matrix", "log_loss", "brier_score")
    found = public(Fixed(labels), p, y, metrics=names, loss_bound=50.0)
    guess, own = Fixed(labels).predict(p), p[np.arange(900), [*map(labels.index, y)]]
    square = (p**2).sum(axis=1) - 2 * own + 1
    expected = {"accuracy": np.mean(guess == y), "log_loss": -np.log(own).mean()}
    expected |= {"brier_score": square.mean()}
    assert found.values == pytest.approx(expected, rel=1e-3)
    matrix = confusion_matrix(y, guess)
    np.testing.assert_allclose(found.confusion_matrix, matrix, atol=0.05)
    assert found.classes.tolist() == sorted(labels)


@pytest.mark.parametrize("labels", [["yes", "no"], [False, True]])
@pytest.mark.parametrize("method", ["predict_proba", "decision_function", "predict"])
def test_two_classes_by_every_method(labels, method, scores):
    """The last label in order is the positive one, however the model holds them."""
    (X, y), whole = scores, Fixed(labels)
    ways = {"predict": whole.predict, "predict_proba": whole.predict_proba}
    ways["decision_function"] = lambda X: X[:, 0] - 0.5
    given = {name: ways[name] for name in ("predict", method)}
    model = SimpleNamespace(classes_=whole.classes_, **given)
    truth = np.array(labels)[y]
    found = public(model, X, truth, metrics="confusion_matrix")
    wanted = confusion_matrix(truth, whole.predict(X))
    np.testing.assert_allclose(found.confusion_matrix, wanted, atol=0.05)
    if method == "predict":
        with pytest.raises(ValueError, match="roc_auc.*needs predict_proba"):
            public(model, X, truth, metrics="roc_auc")
    elif method == "predict_proba":
        area = public(model, X, truth, metrics="roc_auc").values["roc_auc"]
        assert area == pytest.approx(roc_auc_score(y, X[:, 0]), abs=3e-3)


def test_regressors(scores):
    X = scores[0]
    y = X[:, 0] + np.random.default_rng(0).normal(size=2000)
    found = public(Mean(), X, y, error_bound=2.0)
    error = np.minimum(np.abs(y - X[:, 0]), 2.0)
    assert found.values["mean_absolute_error"] == pytest.approx(error.mean(), rel=1e-3)
    square = (error**2).mean()
    assert found.values["mean_squared_error"] == pytest.approx(square, rel=1e-3)
    assert found.confusion_matrix is None and found.classes is None
    assert "r2" not in found.values  # the range of the target is not declared
    odd = np.array([0.0, math.nan, None, "text", 1.0], dtype=object)
    found = public(Mean(), [[0.0]] * 4 + [[math.inf]], odd, error_bound=2.0)
    assert found.values["mean_absolute_error"] == pytest.approx(2.0 * 4 / 5, rel=1e-2)


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


@pytest.mark.parametrize("by", [False, True])
def test_no_record_moves_the_release_further_than_said(releases, by):
    """Replace the first record by any other: the sum moves by the sensitivity."""
    rng = np.random.default_rng(0)
    p, y = rng.random(12), rng.integers(0, 2, 12)
    groups = column(["a", "b"] * 6) if by else None
    sums, values = [], [0.0, 1e-9, 0.3, 0.5, 0.50001, 1.0, math.nan, math.inf, -5]
    for value, label in itertools.product(values[:: 4 if by else 1], (0, 1, None)):
        X, labels = p[:, None].copy(), y.astype(object)
        X[0], labels[0] = value, label
        _, seen = check_release(X, labels, releases, metrics=ALL, by=groups)
        sums.append(seen["exact"].ravel())
    sums = np.array(sums)
    reach = seen["query"].sensitivity(Relation("replace_one"))
    moved = np.sqrt(((sums[:, None] - sums) ** 2).sum(axis=-1))
    assert 0.9 * reach < moved.max() <= reach


class Charged(BaseException):
    """Ends a score at its charge."""


class Spy(PrivacyLedger):
    """A ledger that keeps what it is given, and ends the score."""

    def charge(self, events, *, label=None):
        self.charged = repr((tuple(events), label))
        raise Charged


class Closed(Fixed):
    """A model that nobody may ask."""

    def predict(self, X):
        raise KeyboardInterrupt

    predict_proba = predict


def charge_of(model, X, y, **more):
    """Return what a score gives to the ledger before it asks the model."""
    spy = Spy()
    with pytest.raises(Charged):
        public(model, X, y, 1.0, ledger=spy, **more)
    return spy.charged


def test_the_charge_comes_before_the_first_prediction(monkeypatch):
    """And a look before the charge is noticed."""
    asked, planned = (Closed(), np.zeros((9, 1)), np.zeros(9)), module._planned
    assert "scores" in charge_of(*asked)

    def early(layout, scored, *more):
        return planned(layout, scored, *more), Closed().predict(scored.X)

    monkeypatch.setattr(module, "_planned", early)
    with pytest.raises(KeyboardInterrupt):
        charge_of(*asked)


def test_the_charge_is_a_function_of_public_facts(small):
    (X, y), odd = small, np.array(["?", None] * 150, dtype=object)
    others = (X * math.nan, y * 0), (X * 1e9, odd)
    assert len({charge_of(Fixed(), *one, metrics=ALL) for one in (small, *others)}) == 1


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


def test_rows_that_are_refused_do_not_change_a_bit_of_the_others():
    """Matrix products depend on the shape of a table: it stays."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(301, 57)), rng.normal(size=57)
    shapes, bad = [], np.isin(np.arange(301), [0, 17, 300])

    def call(X):
        shapes.append((X.shape, X.flags.c_contiguous))
        if not np.isfinite(X).all():
            raise ValueError(f"bad rows {X}")
        return X @ weights

    whole = predicted(call, X, 301)
    found = predicted(call, np.where(bad[:, None], math.nan, X), 301)
    assert shapes[-1] == ((301, 57), True) and found[bad].tolist() == [None] * 3
    np.testing.assert_array_equal(found[~bad].astype(float), whole[~bad])


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
    found = public(Watched(), X, y, metrics=ALL, **more).values["accuracy"]
    right = np.mean((X[:, 0] > 0.5) == y) - (y[7] == 0) / 100
    assert shapes == {(1, 1)} and found == pytest.approx(right, abs=1e-3)


class Loud(Fixed):
    """A model that warns of what it sees."""

    def predict_proba(self, X):
        warnings.warn(f"saw {X[0]}", stacklevel=2)
        np.log(np.zeros(1))
        return super().predict_proba(X)


def test_no_warning_and_no_trap_tells_of_a_record(scores):
    """A trap would turn one private score into an exception after the charge."""
    X, y = scores[0] * 1e-310, scores[1]
    traps = np.errstate(all="raise"), special.errstate(all="raise")
    with warnings.catch_warnings(), traps[0], traps[1]:
        warnings.simplefilter("error")
        found = public(Loud(), X, y, 10.0, metrics=ALL)
    assert found.values.keys() == {*ALL} - {"confusion_matrix"}


def test_a_model_that_fails_otherwise_is_withheld(scores):
    model = Fixed()
    model.predict_proba = lambda X: np.zeros((len(X), 5))
    with pytest.raises(RuntimeError, match="message is withheld"):
        public(model, *scores)


# -- whose model ----------------------------------------------------------------------
def test_a_model_without_a_private_fit_must_be_declared_public(small):
    X, y = small
    bare = DPSGDFClassifier(epsilon=math.inf).fit(X, y)
    leaky = make_pipeline(StandardScaler(), DPSGDFClassifier(bounds=(-3, 3))).fit(X, y)
    told = "is not the result of.*declare", "epsilon=inf", "step standardscaler .* from"
    for model, match in zip((Fixed(), bare, leaky), told, strict=True):
        with pytest.raises(ValueError, match=match):
            private_score(model, X, y, 1.0)
        found = private_score(model, X, y, 1.0, model_is_public=True).privacy_
        (one,) = [a for a in found.assumptions if "public, as was" in a.text]
        assert not one.enforced and found.epsilon < 1.1


def texts(score):
    return {a.text: a.enforced for a in score.privacy_.assumptions}


def test_a_shared_ledger_counts_both(small):
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    model = DPSGDFClassifier(1.0, bounds=(0, 1), classes=[0, 1], ledger=ledger)
    model.fit(*small)
    found = private_score(model, *small, 1.0, ledger=ledger)
    said = texts(found)
    (shared,) = [text for text in said if "holds the fit" in text]
    assert said[shared]
    assert not [text for text in said if "scored records are not" in text]
    assert 1.3 < ledger.spent() < 1.6 and report(ledger).n_fits == 2
    assert found.privacy_.receipts == (ledger.receipt,)
    # A fit that was charged elsewhere has the same events, but maybe other records.
    other = clone(model).set_params(ledger=None).fit(*small)
    for elsewhere in (ledger, PrivacyLedger(), None):
        said = texts(private_score(other, *small, 0.1, ledger=elsewhere))
        (others,) = [text for text in said if "scored records are not" in text]
        assert not said[others]
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
    assert len(ledger.entries) == 1 and len(releases) == 2
    sizes = {name: one.n_records for name, one in found.by_value.items()}
    assert sizes == {"f": 1333, "m": 667}
    exact = public(Fixed(), X, y, by=sex)
    for name, one in exact.by_value.items():
        of = (sex == name).to_numpy()
        expected = np.mean((X[of, 0] > 0.5) == y[of])
        assert one.values["accuracy"] == pytest.approx(expected, abs=1e-3)
    whole = np.mean((X[:, 0] > 0.5) == y)
    assert exact.values["accuracy"] == pytest.approx(whole, abs=1e-3)
    assert found.noise_std == pytest.approx(math.sqrt(2) * event.noise_std[0])


class Dense(Fixed):
    """The same model of rows of any kind."""

    def predict_proba(self, X):
        return super().predict_proba(X.toarray() if issparse(X) else X)


def test_groups_by_a_column_of_the_table(scores):
    X = np.column_stack([scores[0][:, 0], np.arange(2000) % 2])
    frame = pd.DataFrame(X, columns=["p", "g"])
    for table, by in ((frame, "g"), (X, 1), (csr_array(X), 1)):
        found = public(Dense(), table, scores[1], by=by)
        assert list(found.by_value) == [0.0, 1.0]
        assert found.privacy_.public_features == (by,) and found.by == by


# -- intervals and what is undetermined -----------------------------------------------
def test_an_area_without_positives_is_undetermined():
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 1)), np.zeros(300, dtype=int)
    seen = [public(Fixed(), X, y, 0.5) for _ in range(20)]
    without = [one for one in seen if math.isnan(one.values["roc_auc"])]
    assert without and all(map(math.isnan, without[0].intervals["roc_auc"]))
    assert "roc_auc undetermined" in repr(without[0])


@pytest.mark.parametrize("n_rows", [0, 1, 1500])
def test_under_add_or_remove_the_number_of_rows_is_private(scores, n_rows, releases):
    X, y = scores
    more = {"neighboring_relation": AddOrRemoveOne(1000)}
    found = public(Fixed(), X[:n_rows], y[:n_rows], metrics=ALL, **more)
    assert found.n_records == found.privacy_.n_records == 1000
    if n_rows == 1500:
        expected = np.mean((X[:1500, 0] > 0.5) == y[:1500])
        assert found.values["accuracy"] == pytest.approx(expected, abs=1e-3)
    assert releases[-1]["query"].capacity == 16 * 1000  # room, whatever comes
    only = public(Fixed(), X[:n_rows], y[:n_rows], metrics="brier_score", **more)
    (event,) = only.privacy_.events
    assert event.clip_norm == pytest.approx(math.sqrt(1 + 5 / 4))


# -- all rows of a person together, and weights ---------------------------------------
@pytest.fixture
def panel():
    """900 rows of 300 persons, one to seven for each."""
    rng = np.random.default_rng(1)
    groups = np.r_[np.arange(300), rng.integers(0, 120, 600)]
    X = rng.random((900, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=900) > 0.5).astype(int)
    return X, y, groups


MODEL = DPSGDFClassifier(bounds=(0, 1), classes=[0, 1])


def named(X, groups):
    """Return the rows as a frame with a column of persons."""
    return pd.DataFrame(X, columns=["a", "b"]).assign(who=groups)


def test_persons_count_alike(panel):
    """The score is the mean over persons of the mean over their rows."""
    X, y, groups = panel
    right = Fixed().predict(X) == y
    truth = pd.Series(right).groupby(groups).mean().mean()
    found = public(Fixed(), X, y, groups=groups)
    assert found.values["accuracy"] == pytest.approx(truth, abs=2e-3)
    assert found.confusion_matrix.sum() == pytest.approx(300, abs=1e-2)
    assert abs(truth - right.mean()) > 1e-3 and found.n_records == 300
    rows = public(Fixed(), X, y, groups=groups, metrics="accuracy", sample_weight=1)
    assert rows.values["accuracy"] == pytest.approx(right.mean(), abs=1e-4)


def test_the_noise_is_that_of_persons(panel):
    X, y, groups = panel
    plain, alike = (public(Fixed(), X, y, 1.0, groups=who) for who in (None, groups))
    assert alike.noise_std == pytest.approx(plain.noise_std, rel=0.01)
    rows = public(Fixed(), X, y, 1.0, groups=groups, sample_weight=np.ones(900))
    largest = np.bincount(groups).max() / 3
    assert rows.noise_std == pytest.approx(largest * plain.noise_std)
    (event,) = rows.privacy_.events
    assert event.unit == "person"
    assert event.sensitivity == pytest.approx(largest * math.sqrt(2))
    assert event.noise_std == (rows.noise_std,)


def test_groups_of_by_share_their_persons(panel):
    X, y, groups = panel
    sites = pd.Series(np.arange(900) % 2, name="site")
    found = public(Fixed(), X, y, groups=groups, by=sites, metrics="accuracy")
    right, share = Fixed().predict(X) == y, 1 / np.bincount(groups)[groups]
    for site, one in found.by_value.items():
        own = sites.to_numpy() == site
        truth = np.average(right[own], weights=share[own])
        assert one.values["accuracy"] == pytest.approx(truth, abs=3e-3)
        assert one.n_records == len(np.unique(groups[own]))
    alone = public(Fixed(), X, y, groups=groups, metrics="accuracy").privacy_
    assert found.privacy_.events[0].sensitivity == alone.events[0].sensitivity


def test_weights_alone(panel):
    X, y, _ = panel
    weights = np.random.default_rng(2).random(900)
    found = public(Fixed(), X, y, sample_weight=weights, metrics="accuracy")
    truth = np.average(Fixed().predict(X) == y, weights=weights)
    assert found.values["accuracy"] == pytest.approx(truth, abs=1e-3)
    assert found.privacy_.unit == "record"
    assert texts(found)[ASSUMED["weights_public"].text] is False
    plain = public(Fixed(), X, y, metrics="accuracy").noise_std
    reach = weights.max() / weights.mean()
    assert found.noise_std == pytest.approx(reach * plain, rel=2e-3)


def test_a_column_tells_the_persons(panel):
    X, y, groups = panel
    frame, model = named(X, groups), clone(MODEL).set_params(random_state=0)
    model.fit(frame, y, groups="who")
    given = {"epsilon": 1.0, "random_state": 0}
    found = private_score(model, frame, y, groups="who", **given)
    again = private_score(model, frame[["a", "b"]], y, groups=groups, **given)
    assert found.values == again.values
    assert "The scored rows are not of the persons" in " ".join(texts(found))


def test_one_ledger_counts_persons_and_refuses_records(panel):
    X, y, groups = panel
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    model = clone(MODEL).set_params(ledger=ledger).fit(X, y, groups=groups)
    private_score(model, X, y, 0.5, groups=groups, ledger=ledger)
    with pytest.raises(PrivacyBudgetError, match="pass groups to every fit"):
        private_score(model, X, y, 0.5, ledger=ledger)
    assert report(ledger).unit == "person"
    assert len(ledger.entries) == len(model.privacy_.events) + 1


def test_scorers_take_the_name_of_a_column(panel):
    X, y, groups = panel
    frame, ledger = named(X, groups), PrivacyLedger(epsilon=9.0, delta=1e-5)
    scorer = make_private_scorer(epsilon=1.0, ledger=ledger, groups="who")
    model = clone(MODEL).set_params(ledger=ledger)
    how = {"cv": GroupKFold(2), "params": {"groups": "who"}, "error_score": "raise"}
    cross_val_score(model, frame, y, scoring=scorer, groups=groups, **how)
    assert report(ledger).unit == "person" and report(ledger).n_fits == 4


def coverage(n_persons, epsilon, weight=None, repeats=400):
    """Return how often determined intervals hold what very many persons would give.

    A person has 1 to 15 rows, with one label and one score. `weight` is None, for
    persons that count alike, or 1.
    """
    rng, given = np.random.default_rng(5), {"model_is_public": True}
    inside = {name: [] for name in ("accuracy", "roc_auc", "brier_score")}
    truth = None
    for repeat in range(repeats + 1):
        n = 200_000 if truth is None else n_persons
        sizes = np.minimum(rng.geometric(0.4, n), 15)
        groups = np.repeat(np.arange(n), sizes)
        draws = rng.normal(size=(2, n))[:, groups]
        y = (draws[0] > 0.3).astype(int)
        X = 1 / (1 + np.exp(-(draws[0] + draws[1])))[:, None]
        given |= {"metrics": list(inside), "random_state": repeat}
        given |= {"groups": groups, "sample_weight": weight}
        budget = 1e7 if truth is None else epsilon
        found = private_score(Fixed(), X, y, budget, **given)
        if truth is None:
            truth = found.values
            continue
        for name, (low, high) in found.intervals.items():
            if not math.isnan(low):
                inside[name].append(low <= truth[name] <= high)
    return {name: float(np.mean(seen)) for name, seen in inside.items()}


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, 1])
@pytest.mark.parametrize(
    "n_persons, epsilon, repeats", [(400, 0.5, 80), (400, 3.0, 400), (3000, 1.0, 400)]
)
def test_intervals_cover_persons_whose_rows_are_alike(
    n_persons, epsilon, repeats, weight
):
    for name, share in coverage(n_persons, epsilon, weight, repeats).items():
        assert share >= 0.91, (name, share)  # no limit above: they are bounds


@pytest.mark.slow
def test_intervals_that_take_rows_for_independent_are_too_short(monkeypatch):
    monkeypatch.setattr("skfdp.solvers.score.row_spread", lambda totals: 0.4)
    assert coverage(3000, 3.0)["accuracy"] < 0.9


# -- results and reports --------------------------------------------------------------
def test_results_are_frozen_and_travel(scores, tmp_path):
    found = public(Fixed(), *scores, 1.0, metrics=ALL, by=column(["a", "b"] * 1000))
    for name, (low, high) in found.intervals.items():
        assert low <= found.values[name] <= high, name
    assert report(found) is found.privacy_
    path = tmp_path / "report.json"
    path.write_text(found.privacy_.to_json(), encoding="utf-8")
    assert read_report(path) == found.privacy_
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.values = {}
    again = pickle.loads(pickle.dumps(found))
    assert type(again).__module__ == "skfdp.metrics"
    assert again.values == found.values and again.privacy_ == found.privacy_
    assert list(found.by_value) == ["a", "b"] and "95 % intervals" in repr(found)


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
    for other, match in ((frame[list("dcba")], "names"), (X[:, :3], "X has 3 ")):
        with pytest.raises(ValueError, match=match):
            private_score(model, other, y, 1.0)
    polars = pytest.importorskip("polars")
    model = DPSGDFClassifier(4.0, bounds=(0, 1), classes=[0, 1]).fit(X, y)
    named = DPSGDFClassifier(4.0, bounds=(0, 1), classes=[0, 1]).fit(frame, y)
    for one, rows in (
        *((model, table) for table in (X, X.tolist(), csr_array(X))),
        (model, frame.set_axis(range(4), axis=1)),
        (named, polars.DataFrame(X, schema=list("abcd"))),
    ):
        found = public(one, rows, y.tolist(), metrics="accuracy")
        expected = one.score(frame if one is named else X, y)
        assert found.values["accuracy"] == pytest.approx(expected, abs=1e-3)


# -- refusals -------------------------------------------------------------------------
ADDED = {"neighboring_relation": AddOrRemoveOne(2000)}
MEAN = {"model": Mean(), "error_bound": 2.0}
SEVERAL_TARGETS = DummyClassifier().fit(np.zeros((4, 1)), [[0, 1], [1, 0]] * 2)


@pytest.mark.parametrize(
    "more, match",
    [
        *(({"metrics": one}, "metrics=.* must be some of 'ac") for one in ("f1", [])),
        ({"metrics": "mean_squared_error"}, "for a model of two classes"),
        ({"threshold": 1.0}, "threshold=1.0 must be a number > 0 and < 1"),
        ({"confidence": 95}, "confidence=95 must be"),
        ({"loss_bound": 0}, "loss_bound=0 must be"),
        ({"model_is_public": "yes"}, "model_is_public='yes' must be True or False"),
        ({"epsilon": math.inf}, "epsilon=inf must be finite here"),
        ({"epsilon": 0}, "epsilon=0 must be a positive number"),
        ({"delta": 1.0}, "delta=1.0 must be a number strictly"),
        ({"neighboring_relation": "add_or_remove_one"}, "pass AddOrRemoveOne"),
        ({"X": np.zeros(5)}, "X=<ndarray> must be a table"),
        ({"X": np.zeros((0, 1)), "y": []}, "X has no rows"),
        ({"y": [0, 1]}, "inconsistent numbers of samples"),
        ({"y": np.zeros((2000, 2))}, "y should be a 1d array"),
        ({"model": object()}, "cannot predict"),
        ({"model": FeatureDPLogisticRegression}, "model=<type Feat.* cannot predict"),
        (MEAN | {"y": np.array(["1"] * 2000)}, "are not numbers"),
        ({"ledger": 3}, "ledger=3 must be None, a path or a PrivacyLedger"),
        *(({"target": name}, "target=.* must be the name") for name in ("", 7)),
        (MEAN | {"metrics": "r2"}, "r2' needs the range of the target"),
        (MEAN | {"error_bound": None}, "error_bound=None: the model decl"),
        ({"model": LinearSVC(), "metrics": ["brier_score"]}, "needs predict_proba"),
        ({"model": SEVERAL_TARGETS}, "several targets"),
        *(({"by": one}, "by=.* must be the name") for one in ("g", 5, np.zeros(2000))),
        ({"by": column([1])}, "by has 1 entries, but X has 2000 rows"),
        ({"by": column([None] * 2000)}, "by holds missing values"),
        ({"by": column([0] * 2000), **ADDED}, "by='g' needs a public column"),
        ({"groups": "who"}, "not the name of a column of X"),
        ({"groups": [1, 2]}, "groups must have one entry for each of the 2000 rows"),
        ({"sample_weight": [1.0]}, "sample_weight has the shape"),
        ({"groups": np.arange(2000), **ADDED}, "groups needs a public number of rows"),
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
        ("accuracy", {"model_is_public": True}, "=True is not a parameter of a priva"),
        ("accuracy", {"by": "sex"}, "by='sex' is not a parameter"),
        ("accuracy", {"groups": np.arange(9)}, "must be the name of a column of X"),
        ("accuracy", {"sample_weight": 1}, "sample_weight=.* is not a parameter"),
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
    own = PrivacyLedger()
    scorer = make_private_scorer("accuracy", epsilon=2.0, ledger=own)
    # The last one charges nothing.
    for epsilon, ledger in ((1.0, None), (1.0, PrivacyLedger()), (math.inf, None)):
        model = DPSGDFClassifier(epsilon, bounds=(0, 1), ledger=ledger).fit(*small)
        with pytest.raises(PrivacyBudgetError, match="does not hold the fit of DPSGDF"):
            scorer(model, *small)
    with pytest.raises(ValueError, match="has no privacy_ inside"):
        scorer(LogisticRegression().fit(*small), *small)
    assert not own.entries


def test_a_grid_search_charges_a_file(small, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite")
    model = DPSGDFClassifier(1.0, bounds=(0, 1), classes=[0, 1], ledger=ledger)
    scorer = make_private_scorer(("accuracy", "log_loss"), epsilon=2.0, ledger=ledger)
    how = {"cv": KFold(2), "refit": "accuracy", "error_score": "raise"}
    search = GridSearchCV(model, {"C": [0.1, 0.5]}, scoring=scorer, **how).fit(*small)
    assert (search.cv_results_["mean_test_log_loss"] <= 0).all()
    # Four fits, four scores, and the refit.
    assert len({entry.charge for entry in ledger.entries}) == 9
    pickle.loads(pickle.dumps(scorer))(search.best_estimator_, *small)
    assert len({entry.charge for entry in ledger.entries}) == 10


# -- R2: the score of regressors ------------------------------------------------------
def test_r2_is_the_score_that_regressors_have():
    """And the width of the declared range bounds the errors."""
    X, y = numbers(3000, np.random.default_rng(0))
    noisy = partial(public, Declared(), X, y, epsilon=1.0, random_state=0)
    found, same = noisy(), noisy(error_bound=8.0)
    assert list(found.values) == ["r2", "mean_absolute_error", "mean_squared_error"]
    assert found.values == same.values
    weight = np.random.default_rng(1).uniform(0.5, 1, 3000)
    for given in (None, weight):
        found = public(Declared(), X, y, metrics="r2", sample_weight=given)
        expected = r2_score(y, X[:, 0], sample_weight=given)
        assert found.values["r2"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "relation"), [(8.0, "replace_one"), (1.0, AddOrRemoveOne(2500))]
)
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


def test_no_target_moves_the_sums_of_r2_further_than_one(releases):
    """Brute force over what one record can be: each sum stays in [0, 1]."""
    values = [-2.0, 6.0, 1e300, -1e300, math.inf, math.nan, None, "text", 2.0]
    y = np.array(values, dtype=object)
    public(Declared(), np.zeros((len(values), 1)), y, metrics="r2")
    query = releases[-1]["query"]
    losses = query.losses
    assert losses.shape == (len(values), 2) and not query.cells.any()
    assert ((losses >= 0) & (losses <= 1)).all()
    for relation in RELATIONS:
        reach = query.sensitivity(Relation.of(relation))
        assert reach >= math.sqrt(2.5) * (1 - 1e-12)
    rows = np.column_stack([losses, losses**2 / 2])
    furthest = np.linalg.norm(rows[:, None] - rows[None], axis=2).max()
    assert furthest <= math.sqrt(2.5)


# -- estimates and intervals ----------------------------------------------------------
#: Feldman and Cousins 1998, Table X: a normal of standard deviation 1 whose mean is at
#: least 0; what was measured, confidence, interval.
PUBLISHED = [
    *((-3.0, 0.90, 0.00, 0.26), (-3.0, 0.95, 0.00, 0.42), (-1.0, 0.90, 0.00, 0.81)),
    *((-1.0, 0.95, 0.00, 1.10), (0.0, 0.95, 0.00, 1.96), (1.0, 0.90, 0.00, 2.64)),
    *((2.0, 0.95, 0.35, 3.96), (3.0, 0.95, 1.14, 4.96)),
]


@pytest.mark.parametrize("measured, confidence, low, high", PUBLISHED)
def test_near_an_end_they_are_those_of_feldman_and_cousins(
    measured, confidence, low, high
):
    ends, unit = np.array([low, high]), 1e-3
    for at, wanted in ((measured * unit, ends), (1 - measured * unit, 1 / unit - ends)):
        found = bounded_interval(at, lambda a: np.full_like(a, unit**2), confidence)
        assert np.sort(found) / unit == pytest.approx(np.sort(wanted), abs=0.0075)


@pytest.mark.parametrize("n, k", [(200, 150), (50000, 49000), (1000, 500)])
def test_without_noise_a_share_has_the_interval_of_wilson(n, k):
    z, share = NormalDist().inv_cdf(0.975), k / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    table = NoisyTable(np.array([k, n - k]), np.empty((0, 2)), 0.0, n, 0.95)
    value, *ends = table.share(np.array([1.0, 0.0]))
    assert value == share
    assert ends == pytest.approx([middle - half, middle + half], abs=1e-6)


@settings(max_examples=60, deadline=None)
@drawn(
    st.floats(-50, 50),
    st.floats(1e-6, 30),
    st.floats(0.5, 0.999),
    st.sampled_from([0.0, 1e-4, 1.0]),
)
def test_no_interval_is_empty(estimate, std, confidence, sampling):
    def variance(a):
        return std**2 + sampling * a * (1 - a)

    low, high = bounded_interval(estimate, variance, confidence)
    assert 0 <= low <= min(max(estimate, 0), 1) <= high <= 1 and high > low


def test_the_order_within_bins_is_better_told_by_neighbours():
    rng = np.random.default_rng(0)
    y = rng.random(200_000) < 0.5
    score = special.expit(1.5 * rng.normal(size=200_000) + np.where(y, 1, -1))
    edges = bin_edges(0.5, 1.0, 90)
    bins = np.searchsorted(edges, score)
    p, q = (np.bincount(bins[y == k], minlength=24) / (y == k).sum() for k in (0, 1))
    exact = roc_auc_score(y, score)
    tied, ordered = p @ auc_kernel(24, ()) @ q, p @ auc_kernel(24) @ q
    assert abs(ordered - exact) < 0.15 * abs(tied - exact)


def test_nothing_is_said_of_nobody():
    table = NoisyTable(np.array([-1.0, 0.5, 0.2]), np.zeros((1, 2)), 1.0, None, 0.95)
    one, area = np.array([1.0, 0.0, 0.0]), table.auc(np.array([0]), np.array([1]))
    for found in (area, table.share(one), table.mean_loss(0)):
        assert all(map(math.isnan, found))
