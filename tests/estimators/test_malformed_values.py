"""A malformed private value is a value: no refusal, no warning, no larger move.

The coins of a fit are fixed by replaying what an earlier fit was given, so that what is
left to differ between two tables is the exact sum of each release.
"""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone, is_regressor

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
)
from skfdp.base import PrivateEstimator
from skfdp.data.input_scaler import InputScaler
from skfdp.data.target import encode_any
from skfdp.mechanisms import noise as replay
from skfdp.mechanisms import release as mechanism
from skfdp.privacy import Relation
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 24
RNG = np.random.default_rng(0)
X = np.round(RNG.random((N, 4)) * 0.8 + 0.1, 3)
LABELS = np.arange(N) % 3
NUMBERS = X.sum(axis=1)
PUBLIC = [2, 3]
SOME, ALL = {"public_features": PUBLIC}, {"public_features": "all"}
KNOWN, TARGET = {"public_target": True}, {"target_bounds": (0, 4)}
LOOP = {"solver": NoisyGradientDescent(max_iter=2)}
SAMPLED = {"solver": NoisySGD(batch_size=12, max_iter=2)}
BATCHES = {"solver": NoisySGD(max_iter=2)}
TWO, THREE = {"classes": [0, 1]}, {"classes": [0, 1, 2]}
CLASSES = THREE | LOOP
LINEAR, REGRESSOR = FeatureDPLogisticRegression, FeatureDPRegressor
NETWORK, CENTRING = FeatureDPMLPClassifier, PrivateCenteringTransformer


CASES = {
    "DPSGD-F": DPSGDFClassifier(**CLASSES),
    "Poisson batches": DPSGDFClassifier(**THREE, **SAMPLED),
    "two classes": LINEAR(**TWO, **LOOP),
    "public columns": LINEAR(**SOME, **CLASSES),
    "public target": LINEAR(**SOME, **KNOWN, **CLASSES),
    "Algorithm 1": LINEAR(**SOME, **THREE, solver=FeatureDPSGD(max_iter=2)),
    "label statistic": LINEAR(**ALL, **THREE),
    "label statistic, two classes": LINEAR(**ALL, **TWO),
    "label descent": LINEAR(**ALL, **CLASSES),
    "network": NETWORK(**THREE, **BATCHES, hidden_layer_sizes=3, pretraining=None),
    "network, public target": NETWORK(
        **SOME, **KNOWN, **THREE, **BATCHES, hidden_layer_sizes=8
    ),
    "linear model": NETWORK(**THREE, hidden_layer_sizes=3),
    "regressor": DPSGDFRegressor(**TARGET, **LOOP),
    "counts": DPSGDFRegressor(**TARGET, **LOOP, loss="poisson"),
    "regressor, public target": REGRESSOR(**SOME, **KNOWN, **LOOP),
    "regressor, label-DP": REGRESSOR(**ALL, **TARGET, **LOOP),
    "transformer": CENTRING(),
    "conditional": CENTRING(**SOME),
}
#: They take no CSR.
DENSE = ("Algorithm 1", "statistic", "network", "linear", "transformer", "conditional")


def facts(name):
    """Return the public columns, whether the target is public, and the target."""
    known = CASES[name].get_params(deep=False)
    listed = known.get("public_features")
    public = range(4) if listed == "all" else listed or ()
    if isinstance(CASES[name], CENTRING):
        return public, None, None
    y = NUMBERS if is_regressor(CASES[name]) else LABELS % len(known["classes"])
    return public, known.get("public_target", False), y


def takes_csr(name):
    return not any(word in name for word in DENSE)


every_case = pytest.mark.parametrize("name", CASES)
#: The first is bounded in part.
BOUNDS = [{0: (0, 1), 2: (0, 1)}, (0, 1), False]
VALUES = (np.nan, np.inf, -np.inf, 1e308, -1e308, -7.0)
NO_LABELS = (None, np.nan, "secret", 7, -1, [1], pd.NA)


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    """Let a start that was learnt in public be a poor one: no release knows it."""
    monkeypatch.setattr("skfdp.solvers.parameters.pretraining_epochs", lambda n: 3)


def made(name, bounds, relation, **more):
    more |= {"bounds": bounds, "neighboring_relation": relation}
    return clone(CASES[name]).set_params(**more)


def tables(name):
    """Yield tables that differ in the private part of record 0; the first is sound."""
    public, shows_target, y = facts(name)
    private = np.setdiff1d(np.arange(4), public)
    yield X, y
    has_labels = y is not None and y.dtype.kind == "i"
    for number, value in enumerate(VALUES):
        rows, target = X.copy(), y
        rows[0, private] = value
        if shows_target is False:
            target = y.astype(object if has_labels else float)
            # A bad label alone, a bad row alone, and both.
            target[0] = (NO_LABELS if has_labels else VALUES)[number]
            if len(private):
                yield rows, y
            yield X, target
        yield rows, target
    if shows_target is False and has_labels:
        target = y.astype(object)
        target[0] = NO_LABELS[-1]
        yield X, target


class Replay:
    """A replay: the first fit is given noise, the others are given the same."""

    def __init__(self):
        self.given, self.sums = [], []

    def key(self, stream):
        return 0

    def release(self, asked, noisy_sum):
        unit = asked.query.unit(asked.noise_std)
        # Over every row: a batch need not hold record 0.
        rows = None if asked.is_null is None else np.flatnonzero(~asked.is_null)
        total = asked.query.exact_sum(asked.theta, rows, unit)
        self.sums.append((asked.query, total.copy(), unit))
        if len(self.sums) > len(self.given):
            self.given.append(noisy_sum())
        return self.given[len(self.sums) - 1].copy()

    def of(self, model, rows, target):
        """Return the sums of a fit."""
        self.sums = []
        with (
            np.errstate(all="raise"),
            warnings.catch_warnings(),
            replay.opened(self),
        ):
            warnings.simplefilter("error")
            warnings.filterwarnings(
                "ignore", message="bounds=None|bounds do not cover|the budget|delta="
            )
            model.fit(rows, target)
        return self.sums


def nulled(monkeypatch):
    """Let every fit take record 0 as null."""
    found = PrivateEstimator._records

    def records(self, *arguments, **more):
        made = found(self, *arguments, **more)
        object.__setattr__(made, "is_null", np.arange(made.X.shape[0]) == 0)
        return made

    monkeypatch.setattr(PrivateEstimator, "_records", records)


def length(total):
    return math.sqrt(sum(int(entry) ** 2 for entry in total.ravel().tolist()))


def check_moves(name, bounds, relation, sparse, monkeypatch):
    """Check that no table moves a release further than what was charged.

    Under "replace_one" from any other table, else from the one whose record is null.
    """
    convert, replay = csr_array if sparse else np.asarray, Replay()

    def sums(rows, target):
        return replay.of(made(name, bounds, relation), convert(rows), target)

    found = [sums(*table) for table in tables(name)]
    pairs = itertools.combinations(found, 2)
    if relation != "replace_one":
        with monkeypatch.context() as context:
            nulled(context)
            origin = sums(X, facts(name)[2])
        pairs = ((one, origin) for one in found)
    moved, of = 0.0, Relation.of(relation)
    for one, other in pairs:
        for (query, a, unit), (_, b, other_unit) in zip(one, other, strict=True):
            assert unit == other_unit
            reach = query.sensitivity(of) * (1 + 1e-9)
            distance = length(a - b) * unit
            assert distance <= reach
            moved = max(moved, distance / reach)
    assert moved > 0.1


@every_case
def test_no_malformed_value_moves_a_release_further(name, monkeypatch):
    check_moves(name, BOUNDS[0], "replace_one", False, monkeypatch)


@every_case
@pytest.mark.slow
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
def test_nor_under_other_bounds_and_relations(name, bounds, relation, monkeypatch):
    check_moves(name, bounds, relation, False, monkeypatch)


@pytest.mark.parametrize("name", [name for name in CASES if takes_csr(name)])
@pytest.mark.parametrize(
    "bounds", [False, pytest.param((0, 1), marks=pytest.mark.slow)]
)
def test_nor_in_sparse_rows(name, bounds, monkeypatch):
    check_moves(name, bounds, "replace_one", True, monkeypatch)


def check_null(name, monkeypatch):
    """Check that record 0 adds nothing to any sum where nothing can stand in."""
    public, shows_target, y = facts(name)
    replay, rows, target = Replay(), X.copy(), y
    private = np.setdiff1d(np.arange(4), public)
    if len(private):
        rows[0, private[0]] = np.inf
    else:
        target = y.astype(object if y.dtype.kind == "i" else float)
        target[0] = np.nan
    model = made(name, False, "replace_special")
    found = replay.of(model, rows, target)
    with monkeypatch.context() as context:
        nulled(context)
        null = replay.of(model, X, y)
    sound = replay.of(model, X, y)
    for (_, a, _), (_, b, _) in zip(found, null, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any((a != b).any() for (_, a, _), (_, b, _) in zip(sound, null, strict=True))


@every_case
def test_what_nothing_stands_in_for_adds_nothing(name, monkeypatch):
    check_null(name, monkeypatch)


def test_a_mechanism_that_forgets_void_records_is_noticed(monkeypatch):
    found = mechanism.Mechanism.__init__

    def forgetful(self, events, streams, is_null=None, units=None):
        found(self, events, streams, None, units)

    monkeypatch.setattr(mechanism.Mechanism, "__init__", forgetful)
    for name in ("DPSGD-F", "label statistic"):
        with pytest.raises(AssertionError):
            check_null(name, monkeypatch)


def test_a_record_that_does_not_become_null_is_noticed(monkeypatch):
    monkeypatch.setattr(InputScaler, "nulls", lambda self, rows: None)
    with pytest.raises((AssertionError, FloatingPointError)):
        check_null("DPSGD-F", monkeypatch)


def fitted(name, rows=X, target=None, **more):
    target = facts(name)[2] if target is None else target
    return clone(CASES[name]).set_params(random_state=0, **more).fit(rows, target)


def weights(model):
    names = ("coef_", "intercept_", "coefs_", "mean_", "scale_", "class_means_")
    found = [getattr(model, name) for name in names if hasattr(model, name)]
    parts = [part for one in found for part in (one if type(one) is list else [one])]
    return np.concatenate([np.ravel(part) for part in parts])


@every_case
def test_a_malformed_number_is_the_middle_of_its_bounds(name):
    """In `fit` and in `predict`, to the last bit."""
    private = np.setdiff1d(np.arange(4), facts(name)[0])
    bounds = {0: (0, 2), 1: (0, 1), 2: (0, 1), 3: (0, 1)}
    holes, middles = X.copy(), X.copy()
    for row, value in enumerate((np.nan, np.inf, -np.inf)):
        holes[row, private] = value
        middles[row, private] = np.array([1, 0.5, 0.5, 0.5])[private]
    one = fitted(name, holes, bounds=bounds)
    other = fitted(name, middles, bounds=bounds)
    np.testing.assert_array_equal(weights(one), weights(other))
    told = "transform" if hasattr(one, "transform") else "predict"
    np.testing.assert_array_equal(
        getattr(one, told)(holes), getattr(one, told)(middles)
    )
    np.testing.assert_array_equal(one.input_scaler_(holes), one.input_scaler_(middles))


def test_margins_are_those_of_the_input_scaler_for_any_table():
    model, holes = fitted("two classes", bounds=BOUNDS[0]), X.copy()
    holes[:3, :2] = np.nan  # the second column has no bounds: 0
    margins = model.input_scaler_(holes) @ model.coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(holes), margins)
    np.testing.assert_array_equal(model.input_scaler_(holes)[:3, :2], [[0.5, 0.0]] * 3)
    sparse = model.decision_function(csr_array(holes))
    np.testing.assert_allclose(sparse, margins)


def test_a_public_value_is_still_refused():
    holes = X.copy()
    holes[0, 2] = np.nan
    for name in CASES:
        if len(facts(name)[0]):
            convert = csr_array if takes_csr(name) else np.asarray
            with pytest.raises(ValueError, match="Input X contains NaN"):
                fitted(name, convert(holes), bounds=(0, 1))
            model = fitted(name, bounds=(0, 1))
            told = model.transform if hasattr(model, "transform") else model.predict
            with pytest.raises(ValueError, match="Input X contains NaN"):
                told(holes)
    for wrong, match in ((7, "labels outside"), (np.nan, "y contains NaN")):
        with pytest.raises(ValueError, match=match):
            fitted("public target", X, np.r_[wrong, LABELS[1:]], bounds=(0, 1))
    with pytest.raises(ValueError, match="infinity"):
        fitted("regressor, public target", X, np.r_[np.inf, NUMBERS[1:]], bounds=(0, 1))


@pytest.mark.parametrize("name", ["DPSGD-F", "network", "regressor", "counts"])
def test_without_privacy_null_records_are_left_out(name):
    target, rows = facts(name)[2].astype(float), X.copy()
    rows[0, 1] = target[1] = np.nan
    found = fitted(name, rows, target, epsilon=math.inf)
    wanted = fitted(name, X[2:], facts(name)[2][2:], epsilon=math.inf)
    np.testing.assert_allclose(weights(found), weights(wanted))
    assert np.isfinite(found.predict(rows)).all()


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize("name", ["DPSGD-F", "label statistic", "network"])
def test_one_class_or_none_at_all_is_a_table_too(name, epsilon):
    fitted(name, X, np.ones(N, dtype=int), bounds=(0, 1), epsilon=epsilon)
    nobody = np.full(N, None) if epsilon == 1 else np.ones(N)
    assert fitted(name, X, nobody, bounds=(0, 1), epsilon=epsilon).privacy_


def test_labels_of_any_kind_have_a_code_or_none():
    class Loud:
        def __eq__(self, other):
            raise RuntimeError("secret")

        __hash__ = object.__hash__

    seen = np.array(["a", "b", *NO_LABELS, Loud(), np.str_("b")], dtype=object)
    labels = encode_any(seen, ["b", "a"])
    assert labels.codes[[0, 1, -1]].tolist() == [0, 1, 1]
    assert labels.missing.tolist() == [False] * 2 + [True] * 8 + [False]


MISSING = {
    "Int64": pd.array([None, *([0, 1] * 12)[1:]], dtype="Int64"),
    "boolean": pd.array([None, *([False, True] * 12)[1:]], dtype="boolean"),
    "category": pd.Categorical([None, *([0, 1] * 12)[1:]]),
    "object": np.array([pd.NA, *([0, 1] * 12)[1:]], dtype=object),
    "list": [None, *([0, 1] * 12)[1:]],
    "text in a list": ["secret", *([0, 1] * 12)[1:]],
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_and_targets_of_every_container(kind):
    y = MISSING[kind]
    y = pd.Series(y) if not isinstance(y, list) else y
    sound = fitted("two classes", target=np.r_[9, ([0, 1] * 12)[1:]], bounds=(0, 1))
    found = fitted("two classes", target=y, bounds=(0, 1))
    np.testing.assert_array_equal(found.coef_, sound.coef_)
    if kind != "text in a list":
        fitted("regressor", target=y, bounds=(0, 1))


def test_a_plan_does_not_look_for_malformed_values():
    for name in ("DPSGD-F", "regressor", "label statistic"):
        public, _, y = facts(name)
        holes, other = X.copy(), y.astype(object)
        holes[0, np.setdiff1d(np.arange(4), public)], other[0] = np.nan, None
        model = clone(CASES[name]).set_params(bounds=(0, 1))
        assert model.plan(holes, other) == model.plan(X, y)
