"""Thresholds that follow from private scores."""

import dataclasses
import math
import pickle
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    PrivacyLedger,
    PrivateCenteringTransformer,
    private_score,
    report,
)
from skfdp.metrics import PrivateScore
from skfdp.privacy import read_report

#: So much that the noise of a count is below a thousandth.
HUGE = 2e9
NAMED = ("balanced_accuracy", "f1", "accuracy")
COSTS = {"false_positive": 1.0, "false_negative": 7.0}


class Fixed:
    """A public model, whose probabilities are the first column."""

    def __init__(self, classes=(0, 1)):
        self.classes_ = np.array(classes)

    def fit(self, X, y):
        raise AssertionError("a frozen model is not fitted")

    def predict_proba(self, X):
        p = np.asarray(X, dtype=float)[:, 0]
        order = [0, 1] if self.classes_[0] < self.classes_[1] else [1, 0]
        return np.column_stack([1 - p, p])[:, order]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def law(n=20_000, share=0.15, slope=1.0, shift=0.0, seed=0):
    """Return labels whose chances have these log odds, given the scores'."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(logit(share), 1.2, n)
    y = (rng.random(n) < expit(slope * odds + shift)).astype(int)
    return expit(odds)[:, None], y


def scored(X, y, epsilon=HUGE, model=None, **more):
    model = Fixed() if model is None else model
    more = {"n_bins": 96} | more
    return private_score(model, X, y, epsilon, 1e-6, model_is_public=True, **more)


def table(counts, *, noise_std=3.0, n_bins=12, more=()):
    """Return a score with this release."""
    whole = scored(*law(100), n_bins=n_bins)
    release = np.concatenate([np.ravel(counts), [0.0], more])
    return dataclasses.replace(whole, table=release, noise_std=noise_std)


def with_counts(score, counts, noise_std, rng):
    """Return the score with these counts and more noise."""
    noisy = counts + noise_std * rng.normal(size=counts.shape)
    release = np.append(noisy.ravel(), 0.0)
    return dataclasses.replace(score, table=release, noise_std=noise_std)


# -- thresholds ------------------------------------------------------------------------
@pytest.mark.parametrize("metric", [*NAMED, COSTS], ids=str)
def test_without_noise_no_edge_is_better(metric):
    X, y = law()
    found = scored(X, y)
    chosen = found.best_threshold(metric)

    def value(edge):
        above = X[:, 0] > edge
        if metric is COSTS:
            return -(above & (y == 0)).mean() - 7 * (~above & (y == 1)).mean()
        if metric == "accuracy":
            return (above == y).mean()
        return {"balanced_accuracy": balanced_accuracy_score, "f1": f1_score}[metric](
            y, above
        )

    best = max(found.edges, key=value)
    gain = value(chosen.threshold) - value(0.5)
    assert chosen.gain == pytest.approx(gain, abs=1e-4)
    if chosen.is_default:
        assert chosen.threshold == 0.5 and chosen.interval == (0.0, 0.0)
    else:
        low, high = chosen.interval
        assert low < chosen.gain < high
    if metric != "accuracy":  # whose best one is not far from 1/2
        assert not chosen.is_default
        assert gain > 0.9 * (value(best) - value(0.5)) > 0.02


@pytest.mark.parametrize("clear", [1.95, 2.05])
def test_a_gain_must_exceed_two_standard_errors(clear):
    """The bin above 1/2 has more negatives, by so many errors of noise and sampling."""
    counts, std = np.zeros((2, 12)), 20.0
    counts[0, 0] = counts[1, 11] = 1e6
    counts[:, 6] = 1000 + np.array([0.5, -0.5]) * clear * math.sqrt(2000 + 2 * std**2)
    found = table(counts, noise_std=std).best_threshold("accuracy")
    assert found.is_default == (clear < 2)
    if clear > 2:
        error = (found.interval[1] - found.gain) / NormalDist().inv_cdf(1 - 0.025 / 10)
        assert found.gain == pytest.approx(clear * error, rel=1e-3)


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_intervals_hold_for_whichever_was_chosen(metric):
    """Also where nothing can be gained, and the best of many is chance."""
    rng, empty = np.random.default_rng(0), table(np.zeros((2, 24)), n_bins=24)
    odds = np.concatenate([[-6], logit(np.array(empty.edges)), [6]])
    p = expit((odds[1:] + odds[:-1]) / 2)
    held = changed = 0
    for centre in (0.0, -1.0):
        records = 3000 * np.exp(-(((logit(p) - centre) / 1.5) ** 2) / 2)
        share = np.array([records * (1 - p), records * p]) / records.sum()
        fp, tp = (share.sum(axis=1)[:, None] - np.cumsum(share, axis=1))[:, :-1]
        fn = share[1].sum() - tp
        values = {"accuracy": 1 - fp - fn, "f1": 2 * tp / (2 * tp + fp + fn)}[metric]
        truth = dict(zip(empty.edges, values, strict=True))
        for _ in range(200):
            counts = rng.multinomial(3000, share.ravel()).reshape(2, -1)
            found = with_counts(empty, counts, 5.0, rng).best_threshold(metric)
            low, high = found.interval
            held += low <= truth[found.threshold] - truth[0.5] <= high
            changed += not found.is_default
    assert held >= 0.95 * 400
    if metric == "accuracy":  # the threshold 1/2 is the best one here
        assert changed < 0.15 * 400


def test_noise_that_hides_a_class_changes_nothing():
    X, y = law(300, share=0.05)
    found = scored(X, y, 0.1).best_threshold()
    assert found.is_default and found.gain == 0 and math.isnan(found.interval[0])
    nobody = table(np.zeros((2, 12)))
    for metric in (*NAMED, COSTS):
        assert nobody.best_threshold(metric).is_default


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"], ["yes", "no"]])
@pytest.mark.parametrize("threshold", [0.5, 0.2])
def test_a_model_with_a_threshold(labels, threshold):
    X, y = law()
    model, named = Fixed(labels), np.sort(np.array(labels))[y]
    score = scored(X, named, model=model, threshold=threshold)
    chosen = score.best_threshold(COSTS)
    assert score.threshold == threshold and chosen.threshold in score.edges
    applied = chosen.apply(model)
    assert isinstance(applied, FixedThresholdClassifier)
    above = X[:, 0] > chosen.threshold
    np.testing.assert_array_equal(
        applied.predict(X), np.sort(labels)[above.astype(int)]
    )
    # Scores on the threshold are below it, as in the table.
    on = np.array([[chosen.threshold]])
    assert applied.predict(on)[0] == np.sort(labels)[0]


def test_a_model_with_margins_alone():
    X, y = law()
    model = LinearSVC().fit(X, y)
    score = scored(X, y, model=model)
    chosen = score.best_threshold("balanced_accuracy")
    above = expit(model.decision_function(X)) > chosen.threshold
    np.testing.assert_array_equal(chosen.apply(model).predict(X), above)
    assert not chosen.is_default


# -- what they tell --------------------------------------------------------------------
def test_they_follow_from_what_is_published():
    """The released fields of a score, and nothing else, give the same choice."""
    X, y = law(8000, slope=0.5)
    score = scored(X, y, 1.0, n_bins="auto")
    again = PrivateScore(
        values={},
        intervals={},
        confidence=score.confidence,
        confusion_matrix=None,
        classes=None,
        n_records=score.n_records,
        noise_std=score.noise_std,
        table=score.table,
        edges=score.edges,
        threshold=score.threshold,
        privacy_=score.privacy_,
    )
    assert again.best_threshold("f1") == score.best_threshold("f1")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.random((6000, 3)), columns=["a", "b", "c"])
    odds = 6 * (X["a"] - 0.5) + 2 * (X["b"] - 0.5) - 2
    return X, (rng.random(6000) < expit(odds)).astype(int)


def private_model(ledger=None, **more):
    return DPSGDFClassifier(1.0, bounds=(0, 1), classes=[0, 1], ledger=ledger, **more)


@pytest.mark.parametrize("piped", [False, True])
def test_the_report_is_of_both(people, piped, tmp_path):
    X, y = people
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=5.0, delta=1e-5)
    model = private_model(ledger)
    if piped:
        centre = PrivateCenteringTransformer(0.3, bounds=(0, 1), ledger=ledger)
        model = make_pipeline(centre, model)
    model.fit(X[:3000], y[:3000])
    score = private_score(model, X[3000:], y[3000:], 1.0, ledger=ledger)
    applied = score.best_threshold().apply(model)
    found = report(applied)
    assert found.events == ledger.events and found.n_fits == 2 + piped
    assert found.epsilon == pytest.approx(report(ledger).epsilon)
    assert found.epsilon > max(report(model).epsilon, score.privacy_.epsilon)
    assert not found.leaks and not found.unknown_steps
    assert len(found.receipts) == 2 + piped
    path = tmp_path / "report.json"
    path.write_text(found.to_json())
    assert read_report(path).epsilon == found.epsilon
    assert "scores: 1 Gaussian release(s)" in found.statement(full=True)
    # Copies, and fits that do nothing.
    for same in (
        clone(applied),
        pickle.loads(pickle.dumps(applied)),
        applied.fit(X[:50], y[:50]),
    ):
        assert report(same).events == found.events
        np.testing.assert_array_equal(same.predict(X), applied.predict(X))
    assert len(ledger.events) == len(found.events)


def test_what_has_a_private_fit_in_it_is_counted_whatever_was_declared(people):
    X, y = people
    public = LogisticRegression().fit(X[:3000], y[:3000])
    score = private_score(public, X[3000:], y[3000:], 1.0, model_is_public=True)
    found = report(score.best_threshold().apply(public))
    assert found.events == score.privacy_.events and not found.leaks
    assert any("is public, as was declared" in a.text for a in found.assumptions)
    private = private_model().fit(X[:3000], y[:3000])
    for declared in (True, False):
        given = {"model_is_public": declared}
        score = private_score(private, X[3000:], y[3000:], 1.0, **given)
        others = [
            a for a in score.privacy_.assumptions if "scored records are not" in a.text
        ]
        assert bool(others) != declared
        applied = score.best_threshold().apply(private)
        found = report(applied)
        assert found.events == (*report(private).events, *score.privacy_.events)
        assert not any("scored records are not" in a.text for a in found.assumptions)
    # A fit of the same model without privacy, later.
    private.set_params(epsilon=math.inf).fit(X[:3000], y[:3000])
    with pytest.raises(ValueError, match="is not the result of a private fit"):
        report(applied)


def test_another_model_than_was_scored_is_refused(people):
    X, y = people
    score = private_score(
        LogisticRegression().fit(X, y), X, y, 1.0, model_is_public=True
    )
    private = private_model().fit(X[:500], y[:500])
    chosen = score.best_threshold()
    with pytest.raises(
        ValueError, match="model=DPSGDFClassifier is not the scored model"
    ):
        chosen.apply(private)
    with pytest.raises(ValueError, match="must be a classifier of two classes"):
        chosen.apply(LogisticRegression())


def test_groups_have_choices_of_their_own(people):
    X, y = people
    sector = pd.Series(np.repeat(["x", "y"], 3000), name="sector")
    p = expit(logit(X["a"].clip(0.01, 0.99)) + 2.0 * (sector == "y")).to_numpy()
    y = (np.random.default_rng(0).random(6000) < X["a"]).astype(int)
    score = scored(p[:, None], y, 5.0, by=sector)
    thresholds = {k: s.best_threshold("accuracy") for k, s in score.by_value.items()}
    assert thresholds["x"].is_default and thresholds["y"].threshold > 0.75
    assert thresholds["y"].privacy_ == score.privacy_


def test_in_a_search_nothing_is_fitted(people):
    X, y = people
    model = private_model().fit(X[:3000], y[:3000])
    score = private_score(model, X[3000:], y[3000:], 1.0)
    applied = score.best_threshold().apply(model)
    found = cross_val_predict(applied, X[:500], y[:500], cv=KFold(2))
    np.testing.assert_array_equal(found, applied.predict(X[:500]))
    piped = make_pipeline("passthrough", score.best_threshold().apply(model))
    assert report(piped.fit(X[:50], y[:50])).n_fits == 2
    search = GridSearchCV(applied, {"threshold": [0.2, 0.4]}, cv=KFold(2))
    assert search.fit(X[:500], y[:500]).best_params_["threshold"] in (0.2, 0.4)


# -- refusals --------------------------------------------------------------------------
OTHER_METRICS = [None, "youden", 3, {}, {"false_positive": 1.0}, {**COSTS, "x": 1.0}]
OTHER_COSTS = [0.0, -1.0, math.nan, math.inf, "x", True, 1e40]


@pytest.mark.parametrize(
    "metric, match",
    [(one, "metric=.* must be one of 'balanced_accu") for one in OTHER_METRICS]
    + [({**COSTS, "false_negative": c}, r"metric\['false_neg") for c in OTHER_COSTS],
    ids=repr,
)
def test_other_metrics_are_refused(metric, match):
    with pytest.raises(ValueError, match=match):
        scored(*law(200)).best_threshold(metric)


def test_scores_without_bins_are_refused():
    X, y = law(300)
    for more in (
        {"metrics": "accuracy"},
        {"metrics": "confusion_matrix"},
        {"n_bins": 1},
    ):
        score = scored(X, y, **more)
        with pytest.raises(ValueError, match="best_threshold needs at least four bins"):
            score.best_threshold()


def test_a_scored_model_cannot_be_changed(people):
    X, y = people
    model = private_model().fit(X, y)
    applied = private_score(model, X, y, 1.0).best_threshold().apply(model).estimator
    with pytest.raises(ValueError, match="release cannot be set"):
        applied.set_params(release=None)
    assert clone(applied) is applied and applied.fit(X[:50], y[:50]) is applied
    assert applied.n_features_in_ == 3
    assert list(applied.feature_names_in_) == list("abc")
    assert not hasattr(applied, "coef_")
    assert "PrivacyReport" not in repr(applied)


@pytest.mark.parametrize("named", [True, False])
def test_what_is_public_of_the_fit_stays_public(people, named):
    X, y = people
    X, kept = (X, ("a",)) if named else (X.to_numpy(), (0,))
    more = {"public_features": list(kept), "target": "ill"}
    model = FeatureDPLogisticRegression(1.0, bounds=(0, 1), classes=[0, 1], **more)
    score = private_score(model.fit(X[:3000], y[:3000]), X[3000:], y[3000:], 1.0)
    found = report(score.best_threshold().apply(model))
    assert found.public_features == kept and not found.public_target
    assert found.private_features == report(model).private_features
    assert found.target_name == "ill"


def test_persons_with_several_rows_count_less():
    """What is clear of rows one by one is not, where drawing adds more variance."""
    counts = np.zeros((2, 12))
    counts[0, 0] = counts[1, 11] = 1e6
    counts[:, 6] = 1200, 1000  # 4.7 standard errors by drawing
    found = table(counts, noise_std=0.01)
    spread = dataclasses.replace(found, spread=9.0)
    assert not found.best_threshold("accuracy").is_default
    assert spread.best_threshold("accuracy").is_default
    # As many persons, each in nine rows that are alike.
    once, nine = (
        dataclasses.replace(
            table(times * counts, noise_std=0.01), spread=times
        ).best_threshold("accuracy")
        for times in (1.0, 9.0)
    )
    assert nine.interval == pytest.approx(once.interval, rel=1e-3)
