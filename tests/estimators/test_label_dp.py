"""Estimators on randomised targets: chances, draws, one charge, and what is refused."""

import dataclasses
import json
import math
import pickle
import warnings
from fractions import Fraction
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.optimize import linprog
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import skfdp
from skfdp import LabelDPClassifier, LabelDPRegressor, PrivacyLedger, label_dp, report
from skfdp.audit import audit_mechanism
from skfdp.label_dp import HALF, WHOLE, Windows, of_numbers, randomised
from skfdp.mechanisms.noise import generator_of
from skfdp.privacy import Event, compose
from skfdp.privacy.accounting import cost

RNG = np.random.default_rng(0)
X = RNG.random((900, 3))
Y = np.where(X[:, 0] + X[:, 1] > 1, "yes", "no")
LABEL = pd.Series(Y, name="label")
TABLE = pd.DataFrame(X, columns=["a", "b", "c"])
EPSILONS = st.floats(1e-3, 50)
PLAIN = pytest.mark.filterwarnings("ignore::skfdp.PrivacyWarning")


class Kept(ClassifierMixin, BaseEstimator):
    """An inner estimator that keeps what it is given."""

    def fit(self, X, y, sample_weight=None, more=None):
        self.X_, self.y_, self.told_ = X, y, (sample_weight, more)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


def told(y, epsilon=1.0, **more):
    """Return the labels that the inner estimator gets."""
    model = LabelDPClassifier(Kept(), epsilon, **more)
    return model.fit(np.zeros((len(y), 1)), y).estimator_.y_


# -- chances ---------------------------------------------------------------------------
def rows(chances):
    """Return the integer chances of each window, from where the words change cells."""
    extra, low, n = chances.high - chances.low, chances.low, chances.n_cells
    bound = chances.width * extra
    edges = {*range(0, bound, extra), *range(bound, bound + n * low + 1, low), WHOLE}
    edges = np.array(sorted(edges), dtype=object)
    first, last = edges[:-1].astype(np.uint64), (edges[1:] - 1).astype(np.uint64)
    for start in range(n - chances.width + 1):
        cells = chances.drawn(np.full(len(first), start), first)
        assert (chances.drawn(np.full(len(first), start), last) == cells).all()
        yield [sum((edges[1:] - edges[:-1])[cells == cell]) for cell in range(n)]


def check_private(chances, epsilon):
    """Return the table of chances, checked with another exponential from below."""
    power, term, k = Fraction(0), Fraction(1), 0
    while term * 2**200 > 1 or k < 2 * epsilon:
        power, k = power + term, k + 1
        term = term * Fraction(epsilon) / k
    table = [*rows(chances)]
    assert all(sum(row) == WHOLE for row in table)
    for column in zip(*table, strict=True):
        assert 0 < max(column) <= power * min(column)
    return table


@settings(max_examples=60, deadline=None)
@given(EPSILONS, st.integers(2, 7))
def test_randomised_response_is_private(epsilon, n_classes):
    table = check_private(Windows(epsilon, n_classes, 1), epsilon)
    assert all(table[j][j] == max(row) for j, row in enumerate(table))


@settings(max_examples=60, deadline=None)
@given(EPSILONS, st.integers(1, 20).map(lambda k: 2 * k + 1))
def test_tables_of_numbers_are_private_and_unbiased(epsilon, n):
    chances, cells, sums = of_numbers(epsilon, n)
    table = check_private(chances, epsilon)
    assert (np.diff(cells) > 0).all() and (cells == -cells[::-1]).all()
    excess = chances.high - chances.low
    for row, total in zip(table, sums.tolist(), strict=True):
        mean = sum(c * int(v) for c, v in zip(row, cells, strict=True))
        assert mean == excess * total
    assert sums[-1] == -sums[0] == max(sums) > 0


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 3.0, 8.0, 20.0])
def test_chances_with_less_noise_are_noticed(epsilon, monkeypatch):
    less, bound = Windows(epsilon, 3, 1), label_dp.ratio_bound(epsilon)
    vars(less).update(low=less.low - 1, high=less.high + 2)  # rounded the other way
    with pytest.raises(AssertionError):
        check_private(less, epsilon)
    monkeypatch.setattr(label_dp, "ratio_bound", lambda _: bound + bound // 10**9)
    with pytest.raises(AssertionError):
        check_private(Windows(epsilon, 3, 1), epsilon)
    monkeypatch.setattr(label_dp, "ratio_bound", lambda _: WHOLE - 1)
    with pytest.raises(AssertionError, match="no private chances"):
        Windows(epsilon, 3, 1)


def optimum(epsilon, worst, n=21, m=81):
    """Return the least variance of an unbiased private table, by a linear program."""
    x, e, size = np.linspace(-1, 1, n), math.exp(epsilon), n * m
    o = np.linspace(-1, 1, m) * (e + 1) / (e - 1) * 1.5
    # The variables are the table, the least chance of each column, the worst variance.
    each, least = sparse.eye_array(size), np.tile(np.eye(m), (n, 1))
    sums = sparse.kron(sparse.eye_array(n), [[1.0] * m, o, o**2]).tocsr()
    above = sparse.hstack([each, -e * least, np.zeros((size, 1))])
    below = sparse.hstack([-each, least, np.zeros((size, 1))])
    squares = sparse.hstack([sums[2::3], np.zeros((n, m)), -np.ones((n, 1))])
    exact = sparse.vstack([sums[::3], sums[1::3]])
    found = linprog(
        np.r_[np.tile(o**2, n) / n * (not worst), np.zeros(m), float(worst)],
        sparse.vstack([above, below, squares]),
        np.r_[np.zeros(2 * size), x**2],
        sparse.hstack([exact, np.zeros((2 * n, m + 1))]),
        np.r_[np.ones(n), x],
    )
    return found.fun if worst else found.fun - np.mean(x**2)


@pytest.mark.parametrize("epsilon", [0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0])
def test_variance_is_near_the_optimum(epsilon):
    chances, cells, sums = of_numbers(epsilon)
    scale = WHOLE / ((chances.high - chances.low) * float(sums[-1]))
    squares = np.cumsum(np.r_[0.0, (cells * scale) ** 2])
    inside = squares[chances.width :] - squares[: -chances.width]
    excess = (chances.high - chances.low) / WHOLE
    seconds = excess * inside + chances.low / WHOLE * squares[-1]
    x = np.linspace(-1, 1, 21)  # the mixture of two windows is linear in between
    variance = np.interp(x, sums / sums[-1], seconds) - x**2
    assert 0.95 < variance.mean() / optimum(epsilon, worst=False) < 1.25
    assert 0.95 < variance.max() / optimum(epsilon, worst=True) < 1.25


# -- draws -----------------------------------------------------------------------------
def chi_square(counts, chances):
    """Assert that counts have these chances, at level 1e-6."""
    expected = np.array(chances) * counts.sum() / np.sum(chances)
    assert expected.min() > 5
    assert stats.chisquare(counts, expected, sum_check=False).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_labels_have_their_chances(epsilon):
    table = [*rows(Windows(epsilon, 3, 1))]
    for code, label in enumerate("abc"):
        found = told([label] * 40_000, epsilon, classes=["a", "b", "c"])
        counts = np.array([(found == one).sum() for one in "abc"])
        chi_square(counts, np.array(table[code], dtype=float))


def test_a_label_outside_of_the_classes_is_the_first_class():
    """As for a label that is the first class: same chances, same words, same type."""
    odd = ["?", None, math.nan, 7, "no", "NO", object(), "a" * 99]
    known = {"classes": ["maybe", "no", "yes"], "random_state": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", skfdp.PrivacyWarning)
        found = [told([one] * 300, 0.5, **known).tolist() for one in odd]
        first, no = (
            told([one] * 300, 0.5, **known).tolist() for one in ("maybe", "no")
        )
    assert found == [first] * 4 + [no] + [first] * 3 and first != no


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("value", [-1.0, -0.3, 0.123456, 1.0])
def test_numbers_have_the_mean_and_variance_of_their_table(epsilon, value):
    n, generator = 100_000, generator_of(int(7 * value * 100) % 2**64)
    step = round(value * HALF)
    found = randomised(np.full(n, step), epsilon, generator) / HALF
    assert abs(found.mean() - value) < 5 * found.std() / math.sqrt(n)
    chances, cells, sums = of_numbers(epsilon)
    row = np.full(len(cells), chances.low / WHOLE)
    start = np.searchsorted(sums, value * sums[-1])
    row[start : start + chances.width] = chances.high / WHOLE
    unit = WHOLE / ((chances.high - chances.low) * float(sums[-1]))
    places = np.searchsorted(cells, np.rint(found / unit))
    parts = np.minimum(np.cumsum(row) * 40, 39).astype(int)
    bins = np.flatnonzero(np.diff(parts, prepend=-1))
    counts = np.bincount(places, minlength=len(cells))
    chi_square(np.add.reduceat(counts, bins), np.add.reduceat(row, bins))


#: A change of these numbers changes what seeds mean.
LABELS = [0, 2, 2, 0, 1, 2, 1, 2, 0]
NUMBERS = [20310989.17355394, 14449777.769905375, 23849390.878019437]


def test_a_seed_draws_what_it_drew_in_earlier_versions():
    generator = generator_of(5)
    words = generator.bit_generator.random_raw(9)
    assert Windows(1.0, 3, 1).drawn(np.arange(9) % 3, words).tolist() == LABELS
    numbers = randomised(np.arange(3), 1.0, generator)
    np.testing.assert_allclose(numbers, NUMBERS, rtol=1e-9)


# -- fits ------------------------------------------------------------------------------
def test_a_search_inside_is_one_charge_and_around_it_charges_every_fit():
    ledger = PrivacyLedger(epsilon=7.0, delta=1e-5)
    trees = HistGradientBoostingClassifier(max_iter=5)
    inside = GridSearchCV(trees, {"max_depth": [1, 2]}, cv=3)
    model = LabelDPClassifier(inside, 3.0, classes=["no", "yes"], ledger=ledger)
    plan = model.plan(TABLE, LABEL)
    model.fit(TABLE, LABEL)
    assert len(ledger) == 1 and ledger.events == plan.events == model.privacy_.events
    assert 2.9999 < ledger.spent() <= plan.epsilon == 3.0 and plan.delta == 0
    ledger.check_report(model.privacy_)
    simple = LabelDPClassifier(
        LogisticRegression(), 1.0, classes=["no", "yes"], ledger=ledger
    )
    around = GridSearchCV(simple, {"estimator__C": [1, 2]}, cv=3)
    found = ledger.check_search(around, TABLE, LABEL)
    assert (found.n_fits, found.n_allowed, found.allows_refit) == (7, 4, False)


def test_the_statement():
    model = LabelDPClassifier(LogisticRegression(), 3.0)
    text = model.fit(TABLE, LABEL).privacy_.statement(full=True)
    text = " ".join(text.split())
    for part in (
        "In each of 900 rows: the target (label).",
        "3 columns (a, b, c), the number of rows",
        "epsilon 3 at delta 0",
        "The set of classes is public, though it was read from the private target.",
        "exact integers, before anything is computed from it. [enforced by the code]",
        "targets: 1 pure release(s), epsilon 3, delta 0",
        "Chances are integers",
    ):
        assert part in text
    schema = Path(skfdp.__file__).with_name("privacy") / "report.schema.json"
    jsonschema.validate(model.privacy_.to_dict(), json.loads(schema.read_text()))
    assert "clipped" not in text and "Gaussian" not in text
    whole = make_pipeline(StandardScaler(), model).fit(TABLE, Y)
    assert report(whole).epsilon == 3.0


def test_events_compose_with_all_others():
    facts = {"noise_std": (), "clip_norm": 0.0, "sensitivity": 0.0}
    one = Event(label="x", pure_epsilon=1.0, **facts)
    noisy = Event(label="y", noise_std=(5.0,), clip_norm=1.0, sensitivity=2.0)
    batches = Event(
        label="z",
        noise_std=(9.0,),
        clip_norm=1.0,
        sensitivity=2.0,
        n_steps=20,
        sampling_rate=0.1,
    )
    for epsilon in (0.0, 0.3, 0.9, 1.0):
        exact = max(0, math.e - math.exp(epsilon)) / (1 + math.e)
        assert compose([one]).delta(epsilon) == pytest.approx(exact, abs=1e-7)
    assert cost((one,) * 4, 0.0).epsilon == 4.0 == 4 * cost((one,), 0.0).epsilon
    many = cost((one,) * 100, 1e-5).epsilon
    hundred = dataclasses.replace(one, n_steps=100)
    assert many == cost((hundred,), 1e-5).epsilon < 99
    for other in (noisy, batches):
        both = cost((one, other), 1e-5).epsilon
        assert max(1.0, cost((other,), 1e-5).epsilon) < both
        assert both < 1.0 + cost((other,), 1e-5).epsilon
    assert Event.from_dict(one.to_dict()) == one
    assert "pure_epsilon" not in noisy.to_dict()
    assert Event.from_dict(noisy.to_dict()) == noisy
    twice = dataclasses.replace(one, n_steps=2)
    relation = NeighboringRelation.REPLACE_ONE
    theirs = PLDAccountant(relation).compose(twice.to_dp_accounting(relation))
    assert theirs.get_epsilon(1e-5) == pytest.approx(2.0, abs=1e-3)
    with pytest.raises(ValueError, match="pure releases"):
        audit_mechanism([one])
    for change in ({"noise_std": (1.0,)}, {"clip_norm": 1.0}, {"sampling_rate": 0.5}):
        with pytest.raises(ValueError, match="pure release"):
            Event(label="x", pure_epsilon=1.0, **{**facts, **change})


def test_probabilities_are_corrected():
    given = RNG.dirichlet(np.ones(3), 50)
    chances = Windows(1.0, 3, 1)
    f, high = chances.low / WHOLE, chances.high / WHOLE

    class Knows(Kept):
        def predict_proba(self, X):
            return f + (high - f) * given

    y = np.resize(["a", "b", "c"], 900)
    model = LabelDPClassifier(Knows(), classes=["a", "b", "c"]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:50]), given, atol=1e-12)
    assert (model.predict(X[:50]) == np.array([*"abc"])[given.argmax(axis=1)]).all()
    constant = LabelDPClassifier(DummyClassifier(), 8.0, classes=["a", "b", "c"])
    found = constant.fit(X, ["c"] * 900).predict_proba(X[:1])  # two are never seen
    assert found.sum() == 1 and found[0, 2] > 0.95


@pytest.mark.parametrize(
    "given", [TABLE.assign(d="text"), sparse.csr_array(X), [*"ab"]]
)
def test_columns_are_passed_on_as_they_are(given):
    n = given.shape[0] if hasattr(given, "shape") else len(given)
    model = LabelDPClassifier(Kept(), classes=["no", "yes"]).fit(given, Y[:n])
    assert model.estimator_.X_ is given and not hasattr(model, "predict_proba")
    assert set(model.predict(X)) <= {"no", "yes"}


@PLAIN
def test_several_outputs_share_epsilon(monkeypatch):
    asked = []
    monkeypatch.setattr(label_dp, "Windows", lambda *a: asked.append(a) or Windows(*a))
    both = np.c_[X[:, 0] > 0.5, X[:, 1] > 0.5].astype(int)
    forest = RandomForestClassifier(10, min_samples_leaf=50)
    for y, classes in ((both, None), (both.tolist(), [[0, 1], [0, 1, 2]])):
        model = LabelDPClassifier(forest, 16.0, classes=classes).fit(X, y)
        assert model.privacy_.epsilon == 16.0
        assert (model.predict(X) == both).mean() > 0.9
        sizes = [2, 2] if classes is None else [2, 3]
        assert [one.shape[1] for one in model.predict_proba(X)] == sizes
    assert len(asked) == 12 and all(8 - 1e-12 < one[0] < 8 for one in asked)
    trees = RandomForestRegressor(10, min_samples_leaf=50)
    for bounds in ((0, 1), [(0, 1), (0, 2)]):
        model = LabelDPRegressor(trees, 16.0, target_bounds=bounds)
        assert model.fit(X, pd.DataFrame(X[:, :2] * [1, 2])).score(X, X[:, :2]) < 1
        assert model.predict(X).shape == (900, 2)
    with pytest.raises(ValueError, match="an entry for each of the 2 columns"):
        model.set_params(target_bounds=[(0, 1)] * 3).fit(X, X[:, :2])


@PLAIN
def test_a_regression_is_unbiased_and_clips():
    y = np.where(RNG.random(900) < 0.02, np.nan, 100 * X[:, 0])
    y[:2] = math.inf, -math.inf
    model = LabelDPRegressor(DummyRegressor(), 40.0, target_bounds=(20, 70)).fit(X, y)
    wanted = np.clip(np.where(np.isfinite(y), y, 0), 20, 70).mean()
    assert model.predict(X)[0] == pytest.approx(wanted, abs=1e-3)
    slope = LabelDPRegressor(LinearRegression(), 3.0, target_bounds=(0, 1))
    found = [clone(slope).fit(X, X[:, 0]).estimator_.coef_[0] for _ in range(100)]
    assert abs(np.mean(found) - 1) < 5 * np.std(found) / 10


def test_cloning_pickling_routing_and_a_seed():
    weights, model = np.ones(900), LabelDPClassifier(Kept(), classes=["no", "yes"])
    assert clone(model.set_params(epsilon=2.0)).get_params()["epsilon"] == 2.0
    model.fit(X, Y, sample_weight=weights, more=7)
    assert model.estimator_.told_ == (weights, 7) and model.privacy_.guarantee
    assert "weights_public" in {one.key for one in model.privacy_.assumptions}
    with config_context(enable_metadata_routing=True):
        asks = LabelDPClassifier(Kept().set_fit_request(sample_weight=True, more=False))
        asks.fit(X, Y, sample_weight=weights)
        assert asks.estimator_.told_ == (weights, None)
        with pytest.raises(TypeError, match="more"):
            asks.fit(X, Y, more=7)
    forest = LabelDPClassifier(RandomForestClassifier(5), 2.0).fit(TABLE, Y)
    again = pickle.loads(pickle.dumps(forest))
    assert (again.predict_proba(TABLE) == forest.predict_proba(TABLE)).all()
    with pytest.warns(skfdp.PrivacyWarning, match="NO privacy guarantee"):
        one = told(Y, random_state=1)
    with pytest.warns(skfdp.PrivacyWarning):
        assert (told(Y, random_state=1) == one).all()
    assert (told(Y) != told(Y)).any()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"epsilon": 51.0}, "epsilon=51.0 must be a number from 0.001 to 50, or inf"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"estimator": LinearRegression()}, "must be a classifier of scikit-learn"),
        ({"estimator": LogisticRegression}, "must be a classifier"),
        ({"estimator": LogisticRegression(C=-1)}, "The 'C' parameter of"),
        ({"classes": ["yes"]}, "at least two labels"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_refusals_come_before_the_charge(change, match):
    ledger = PrivacyLedger()
    model = LabelDPClassifier(LinearSVC(), classes=["no", "yes"], ledger=ledger)
    with pytest.raises(ValueError, match=match):
        model.set_params(**change).fit(TABLE, Y)
    model = LabelDPClassifier(LinearSVC(), classes=["no", "yes"], ledger=ledger)
    for of_rows in ({"groups": np.arange(900)}, {"nobody": 1}):
        with pytest.raises(TypeError, match="groups|nobody"):
            model.fit(TABLE, Y, **of_rows)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(TABLE, Y[1:])
    with pytest.raises(ValueError, match="needs declared public bounds"):
        LabelDPRegressor(LinearRegression(), ledger=ledger).fit(TABLE, X[:, 0])
    with pytest.raises(ValueError, match="outside of checkpoint"):
        with skfdp.checkpoint("nowhere"):
            model.fit(TABLE, Y)
    assert not len(ledger)


def test_the_charge_comes_before_the_target_is_drawn(monkeypatch):
    ledger = PrivacyLedger(epsilon=0.5, delta=1e-5)
    model = LabelDPClassifier(Kept(), classes=["no", "yes"], ledger=ledger)
    monkeypatch.setattr(label_dp, "random_words", None)  # nothing can be drawn
    with pytest.raises(skfdp.PrivacyBudgetError, match="budget exhausted"):
        model.fit(TABLE, LABEL)
    with pytest.raises(TypeError):
        model.set_params(epsilon=0.4).fit(TABLE, LABEL)
    assert ledger.spent() == pytest.approx(0.4, rel=1e-4)


def test_without_privacy_the_target_is_exact():
    assert (told(Y, math.inf) == Y).all()
    model = LabelDPRegressor(LinearRegression(), math.inf).fit(X, X[:, 0])
    assert (
        model.estimator_.coef_[0] == pytest.approx(1) and not model.privacy_.guarantee
    )
