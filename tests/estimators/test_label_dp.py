"""Estimators on randomised targets: chances, draws, one charge, and what is refused."""

import dataclasses
import math
import threading
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import skfdp
from skfdp import LabelDPClassifier, LabelDPRegressor, PrivacyLedger, label_dp
from skfdp.audit import audit_mechanism
from skfdp.label_dp import HALF, WHOLE, Windows, of_numbers, randomised
from skfdp.mechanisms.release import generator_of
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


#: By epsilon the least variance that an unbiased private table can have, on average and
#: at worst: the optimum of a linear program whose variables are the chances of 81
#: outcomes, even up to 1.5 (e + 1) / (e - 1) with e = exp(epsilon), of 21 even values.
OPTIMA = {0.3: (44.450, 44.453), 0.5: (16.003, 16.005), 1.0: (3.9059, 3.9909)}
OPTIMA |= {2.0: (0.78700, 0.86523), 3.0: (0.26563, 0.30385)}
OPTIMA |= {5.0: (0.047862, 0.057100), 8.0: (0.0050518, 0.0062171)}


@pytest.mark.parametrize("epsilon", OPTIMA)
def test_variance_is_near_the_optimum(epsilon):
    chances, cells, sums = of_numbers(epsilon)
    low, excess = chances.low / WHOLE, (chances.high - chances.low) / WHOLE
    squares = np.cumsum(np.r_[0.0, (cells / (excess * sums[-1])) ** 2])
    inside = squares[chances.width :] - squares[: -chances.width]
    seconds = excess * inside + low * squares[-1]
    x = np.linspace(-1, 1, 21)  # the mixture of two windows is linear in between
    variance = np.interp(x, sums / sums[-1], seconds) - x**2
    found = np.array([variance.mean(), variance.max()]) / OPTIMA[epsilon]
    assert ((found > 0.95) & (found < 1.25)).all()


# -- draws -----------------------------------------------------------------------------
def chi_square(counts, chances):
    """Assert that counts have these chances, at level 1e-6."""
    chances = np.array(chances, dtype=float)
    expected = chances * counts.sum() / chances.sum()
    assert expected.min() > 5
    assert stats.chisquare(counts, expected, sum_check=False).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_labels_have_their_chances(epsilon):
    for label, chances in zip("abc", rows(Windows(epsilon, 3, 1)), strict=True):
        found = told([label] * 40_000, epsilon, classes=[*"abc"])
        chi_square(np.array([(found == one).sum() for one in "abc"]), chances)


@PLAIN
def test_a_label_outside_of_the_classes_is_the_first_class():
    """As for a label that is the first class: same chances, same words, same type."""
    odd = ["?", None, math.nan, 7, "NO", object(), "a" * 99, "maybe", "no"]
    known = {"classes": ["maybe", "no", "yes"], "random_state": 3}
    *found, no = (told([one] * 300, 0.5, **known).tolist() for one in odd)
    assert found == [found[0]] * 8 and found[0] != no


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("value", [-1.0, -0.3, 0.123456, 1.0])
def test_numbers_have_the_mean_and_variance_of_their_table(epsilon, value):
    n, generator = 100_000, generator_of(int(7 * value * 100) % 2**64)
    found = randomised(np.full(n, round(value * HALF)), epsilon, generator) / HALF
    assert abs(found.mean() - value) < 5 * found.std() / math.sqrt(n)
    chances, cells, sums = of_numbers(epsilon)
    row = np.full(len(cells), chances.low / WHOLE)
    start = np.searchsorted(sums, value * sums[-1])
    row[start : start + chances.width] = chances.high / WHOLE
    excess = (chances.high - chances.low) / WHOLE
    places = np.searchsorted(cells, np.rint(found * excess * sums[-1]))
    parts = np.minimum(np.cumsum(row) * 40, 39).astype(int)
    bins = np.flatnonzero(np.diff(parts, prepend=-1))
    counts = np.bincount(places, minlength=len(cells))
    chi_square(np.add.reduceat(counts, bins), np.add.reduceat(row, bins))


def test_a_seed_draws_what_it_drew_in_earlier_versions():
    generator = generator_of(5)
    words = generator.bit_generator.random_raw(9)
    found = Windows(1.0, 3, 1).drawn(np.arange(9) % 3, words)
    assert found.tolist() == [0, 2, 2, 0, 1, 2, 1, 2, 0]
    numbers = [20310989.17355394, 14449777.769905375, 23849390.878019437]
    found = randomised(np.arange(3), 1.0, generator)
    np.testing.assert_allclose(found, numbers, rtol=1e-9)


# -- fits ------------------------------------------------------------------------------
def test_a_search_inside_is_one_charge_and_around_it_charges_every_fit():
    ledger = PrivacyLedger(epsilon=7.0, delta=1e-5)
    trees = HistGradientBoostingClassifier(max_iter=5)
    inside = GridSearchCV(trees, {"max_depth": [1, 2]}, cv=3)
    model = LabelDPClassifier(inside, 3.0, classes=["no", "yes"], ledger=ledger)
    plan = model.plan(TABLE, LABEL)
    model.fit(TABLE, LABEL)
    assert ledger.events == plan.events == model.privacy_.events
    assert 2.9999 < ledger.spent() <= plan.epsilon == 3.0 and plan.delta == 0
    ledger.check_report(model.privacy_)
    simple = clone(model).set_params(estimator=LogisticRegression(), epsilon=1.0)
    around = GridSearchCV(simple, {"estimator__C": [1, 2]}, cv=3)
    found = ledger.check_search(around, TABLE, LABEL)
    assert (found.n_fits, found.n_allowed, found.allows_refit) == (7, 4, False)


def test_events_compose_with_all_others():
    facts = {"label": "x", "noise_std": (), "clip_norm": 0.0, "sensitivity": 0.0}
    moved = {"label": "y", "noise_std": (5.0,), "clip_norm": 1.0, "sensitivity": 2.0}
    one, noisy = Event(pure_epsilon=1.0, **facts), Event(**moved)
    sampled = {"noise_std": (9.0,), "n_steps": 20, "sampling_rate": 0.1}
    for epsilon in (0.0, 0.3, 0.9, 1.0):
        exact = max(0, math.e - math.exp(epsilon)) / (1 + math.e)
        assert compose([one]).delta(epsilon) == pytest.approx(exact, abs=1e-7)
    assert cost((one,) * 4, 0.0).epsilon == 4.0 == 4 * cost((one,), 0.0).epsilon
    hundred, twice = (dataclasses.replace(one, n_steps=n) for n in (100, 2))
    assert cost((one,) * 100, 1e-5).epsilon == cost((hundred,), 1e-5).epsilon < 99
    for other in (noisy, Event(**moved | sampled)):
        both, alone = (cost(some, 1e-5).epsilon for some in ((one, other), (other,)))
        assert max(1.0, alone) < both < 1.0 + alone
    assert [Event.from_dict(e.to_dict()) for e in (one, noisy)] == [one, noisy]
    assert "pure_epsilon" not in noisy.to_dict()
    relation = NeighboringRelation.REPLACE_ONE
    theirs = PLDAccountant(relation).compose(twice.to_dp_accounting(relation))
    assert theirs.get_epsilon(1e-5) == pytest.approx(2.0, abs=1e-3)
    with pytest.raises(ValueError, match="pure releases"):
        audit_mechanism([one])
    for change in ({"noise_std": (1.0,)}, {"clip_norm": 1.0}, {"sampling_rate": 0.5}):
        with pytest.raises(ValueError, match="pure release"):
            Event(pure_epsilon=1.0, **facts | change)


def test_probabilities_are_corrected():
    given = RNG.dirichlet(np.ones(3), 50)
    chances = Windows(1.0, 3, 1)
    f, high = chances.low / WHOLE, chances.high / WHOLE

    class Knows(Kept):
        def predict_proba(self, X):
            return f + (high - f) * given

    y = np.resize([*"abc"], 900)
    model = LabelDPClassifier(Knows(), classes=[*"abc"]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:50]), given, atol=1e-12)
    assert (model.predict(X[:50]) == y[:3][given.argmax(axis=1)]).all()
    constant = LabelDPClassifier(DummyClassifier(), 8.0, classes=[*"abc"])
    found = constant.fit(X, ["c"] * 900).predict_proba(X[:1])  # two are never seen
    assert found.sum() == pytest.approx(1) and 0 < found[0, 0] and found[0, 2] > 0.95


@PLAIN
def test_several_outputs_share_epsilon(monkeypatch):
    asked = []
    monkeypatch.setattr(label_dp, "Windows", lambda *a: asked.append(a) or Windows(*a))
    both = np.c_[X[:, 0] > 0.5, X[:, 1] > 0.5].astype(int)
    tree = DecisionTreeClassifier(min_samples_leaf=50)
    for y, classes, last in ((both, None, 2), (both.tolist(), [[0, 1], [0, 1, 2]], 3)):
        model = LabelDPClassifier(tree, 16.0, classes=classes).fit(X, y)
        assert model.privacy_.epsilon == 16.0
        assert (model.predict(X) == both).mean() > 0.9
        assert [one.shape[1] for one in model.predict_proba(X)] == [2, last]
    assert len(asked) == 12 and all(8 - 1e-12 < one[0] < 8 for one in asked)
    tree = DecisionTreeRegressor(min_samples_leaf=50)
    for bounds in ((0, 1), [(0, 1), (0, 2)]):
        model = LabelDPRegressor(tree, 16.0, target_bounds=bounds)
        assert model.fit(X, pd.DataFrame(X[:, :2] * [1, 2])).score(X, X[:, :2]) < 1
        assert model.predict(X).shape == (900, 2)
    with pytest.raises(ValueError, match="an entry for each of the 2 columns"):
        model.set_params(target_bounds=[(0, 1)] * 3).fit(X, X[:, :2])


def test_a_score_quotes_no_target():
    X, y = np.zeros((30, 1)), np.r_[np.arange(28), 27, 27] % 2.0
    text = [*y[:-2].astype(str), "s3cr3t", "s3cr3t"]
    kinds = {
        LabelDPRegressor(DummyRegressor(), target_bounds=(0, 1)): "no number",
        LabelDPClassifier(DummyClassifier(), classes=[0, 1]): "no label",
    }
    for model, told in kinds.items():
        model.fit(X, y)
        expected = model.score(X[:-2], y[:-2])
        with pytest.warns(skfdp.UtilityWarning, match=f"2 of 30 rows have {told}"):
            assert model.score(X, text) == expected
        with pytest.raises(ValueError, match="y has 2 outputs, and the model 1"):
            model.score(X, np.c_[y, y])


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


def test_routing_and_a_seed():
    """Columns and arguments are passed on as they are."""
    weights, model = np.ones(900), LabelDPClassifier(Kept(), classes=["no", "yes"])
    for held in (TABLE.assign(d="text"), sparse.csr_array(X), ["a"] * 900):
        model.fit(held, Y, sample_weight=weights, more=7)
        assert model.estimator_.X_ is held and not hasattr(model, "predict_proba")
        assert model.estimator_.told_ == (weights, 7) and model.privacy_.guarantee
    assert {*model.predict(X)} <= {"no", "yes"}
    assert "weights_public" in {one.key for one in model.privacy_.assumptions}
    with config_context(enable_metadata_routing=True):
        asks = LabelDPClassifier(Kept().set_fit_request(sample_weight=True, more=False))
        asks.fit(X, Y, sample_weight=weights)
        assert asks.estimator_.told_ == (weights, None)
        with pytest.raises(TypeError, match="more"):
            asks.fit(X, Y, more=7)
    with pytest.warns(skfdp.PrivacyWarning, match="NO privacy guarantee"):
        assert (told(Y, random_state=1) == told(Y, random_state=1)).all()
    assert (told(Y) != told(Y)).any()


#: What is changed of an estimator, what its fit is given, and the refusal.
REFUSED = [
    ({"epsilon": 51.0}, {}, "epsilon=51.0 must be a number from 0.001 to 50, or inf"),
    *(({"epsilon": one}, {}, "epsilon") for one in (0.0, pd.Series([1.0, 2.0]))),
    ({"estimator": LinearRegression()}, {}, "must be a classifier of scikit-learn"),
    ({"estimator": LogisticRegression}, {}, "must be a classifier"),
    ({"estimator": LogisticRegression(C=-1)}, {}, "The 'C' parameter of"),
    ({"classes": ["yes"]}, {}, "at least two labels"),
    ({"classes": [0.5, 1.5]}, {}, "Unknown label type: continuous"),
    ({"random_state": "x"}, {}, "random_state"),
    *(({}, one, [*one][0]) for one in ({"groups": np.arange(900)}, {"nobody": 1})),
    ({}, {"y": Y[1:]}, "inconsistent"),
    ({}, {"sample_weight": [np.nan] * 900}, "sample_weight must be one finite"),
]


def test_attributes_of_a_frame_of_targets_are_not_copied():
    both = pd.DataFrame({"a": Y, "b": Y})
    both.attrs["connection"] = threading.Lock()
    model = LabelDPClassifier(DecisionTreeClassifier(), 8.0, classes=["no", "yes"])
    assert model.fit(TABLE, both).predict(TABLE).shape == both.shape


def test_a_budget_that_leaves_few_exact_labels_warns():
    model = LabelDPClassifier(LogisticRegression(), 0.1, classes=["no", "yes"])
    with pytest.warns(
        skfdp.UtilityWarning, match="900 random targets .* about 2 exact"
    ):
        model.plan(TABLE, Y)
    with warnings.catch_warnings(action="error"):
        model.set_params(epsilon=2.0).plan(TABLE, Y)
    numbers = LabelDPRegressor(LinearRegression(), 0.1, target_bounds=(0, 1))
    with pytest.warns(
        skfdp.UtilityWarning, match="900 random targets .* about 1 exact"
    ):
        numbers.plan(TABLE, X[:, 0])


def test_refusals_come_before_the_charge():
    ledger = PrivacyLedger()
    for change, more, match in REFUSED:
        model = LabelDPClassifier(LinearSVC(), classes=["no", "yes"], ledger=ledger)
        with pytest.raises((ValueError, TypeError), match=match):
            model.set_params(**change).fit(TABLE, **{"y": Y} | more)
    with pytest.raises(ValueError, match="needs declared public bounds"):
        LabelDPRegressor(LinearRegression(), ledger=ledger).fit(TABLE, X[:, 0])
    counts = make_pipeline(PoissonRegressor())
    with pytest.raises(ValueError, match="takes no negative target, but random num"):
        LabelDPRegressor(counts, target_bounds=(0, 1), ledger=ledger).fit(
            TABLE, X[:, 0]
        )
    with pytest.raises(ValueError, match="a fit needs at least 2 records"):
        model.fit(TABLE[:1], Y[:1])
    with pytest.raises(ValueError, match="X has two columns 'a': rename one"):
        model.fit(pd.DataFrame(X[:, :2], columns=["a", "a"]), Y)
    with pytest.raises(ValueError, match="outside of checkpoint"):
        with skfdp.checkpoint("nowhere"):
            model.fit(TABLE, Y)
    assert not len(ledger.entries)


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
    assert model.estimator_.coef_[0] == pytest.approx(1)
    assert not model.privacy_.guarantee
