"""A malformed or extreme private value is a value: no refusal, no warning, no larger
move. A degenerate parameter is refused by name. A private number of rows shows nowhere.

The coins of a fit are fixed by replaying what an earlier fit was given, so that what is
left to differ between two tables is the exact sum of each release.
"""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from problems import length
from scipy import special
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier, is_regressor

import skfdp
from skfdp.data.target import encode_any
from skfdp.data.validation import guarded_fit, users_state
from skfdp.mechanisms import release as replay
from skfdp.mechanisms.release import Streams, add_integer_gaussian
from skfdp.privacy import AddOrRemoveOne, Relation
from skfdp.queries.statistics import RowSum
from skfdp.reader import Reader
from skfdp.solvers import FeatureDPSGD, Huber, NoisyGradientDescent, NoisySGD

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")
N = 24
RNG = np.random.default_rng(0)
X = np.round(RNG.random((N, 4)) * 0.8 + 0.1, 3)
LABELS = np.arange(N) % 3
NUMBERS = X.sum(axis=1)
PUBLIC = [0]
SOME, ALL = {"public_features": PUBLIC}, {"public_features": "all"}
KNOWN, TARGET = {"public_target": True}, {"target_bounds": (0, 4)}
LOOP = {"solver": NoisyGradientDescent(max_iter=2)}
SAMPLED = {"solver": NoisySGD(batch_size=12, max_iter=2)}
BATCHES = {"solver": NoisySGD(max_iter=2)}
TWO, THREE = {"classes": [0, 1]}, {"classes": [0, 1, 2]}
CLASSES = THREE | LOOP
LINEAR, REGRESSOR = skfdp.FeatureDPLogisticRegression, skfdp.FeatureDPRegressor
NETWORK, CENTRING = skfdp.FeatureDPMLPClassifier, skfdp.PrivateCenteringTransformer
CASES = {
    "DPSGD-F": skfdp.DPSGDFClassifier(**CLASSES),
    "Poisson batches": skfdp.DPSGDFClassifier(**THREE, **SAMPLED),
    "two classes": LINEAR(**TWO, **LOOP),
    "public columns": LINEAR(**SOME, **CLASSES),
    "public target": LINEAR(**SOME, **KNOWN, **CLASSES),
    "Algorithm 1": LINEAR(**SOME, **THREE, solver=FeatureDPSGD(max_iter=2)),
    "label statistic": LINEAR(**ALL, **THREE),
    "label statistic, two classes": LINEAR(**ALL, **TWO),
    "label descent": LINEAR(**ALL, **CLASSES),
    "network": NETWORK(**THREE, **BATCHES, hidden_layer_sizes=3),
    "network, public target": NETWORK(
        **SOME, **KNOWN, **THREE, **BATCHES, hidden_layer_sizes=8
    ),
    "linear model": NETWORK(**THREE, hidden_layer_sizes=6),
    "regressor": skfdp.DPSGDFRegressor(**TARGET, **LOOP),
    "counts": skfdp.DPSGDFRegressor(**TARGET, **LOOP, loss="poisson"),
    "regressor, public target": REGRESSOR(**SOME, **KNOWN, **LOOP),
    "regressor, label-DP": REGRESSOR(**ALL, **TARGET, **LOOP),
    "transformer": CENTRING(),
    "conditional": CENTRING(**SOME),
}
HINGE, HUBER, COUNTS = ({"loss": one} for one in ("squared_hinge", "huber", "poisson"))
#: All that meet extreme values.
EVERY = CASES | {
    "squared hinge, add or remove": skfdp.DPSGDFClassifier(
        **HINGE, neighboring_relation=AddOrRemoveOne(N), **CLASSES
    ),
    "padded loss": LINEAR(
        **SOME, **THREE, solver=FeatureDPSGD(public_loss="zero", max_iter=2)
    ),
    "huber": skfdp.DPSGDFRegressor(**TARGET, **LOOP, **HUBER),
    "regressor, public columns": REGRESSOR(**SOME, **TARGET, **LOOP),
    "huber, public columns": REGRESSOR(**SOME, **TARGET, **LOOP, **HUBER),
    "counts, public columns": REGRESSOR(**SOME, **TARGET, **LOOP, **COUNTS),
    "counts, label-DP": REGRESSOR(**ALL, **TARGET, **LOOP, **COUNTS),
}
#: They take no CSR.
DENSE = ("Algorithm 1", "statistic", "network", "linear", "transformer", "conditional")


def facts(name):
    """Return the public columns, whether the target is public, and the target."""
    known = EVERY[name].get_params(deep=False)
    listed = known.get("public_features")
    public = range(4) if listed == "all" else listed or ()
    if isinstance(EVERY[name], CENTRING):
        return public, None, None
    y = NUMBERS if is_regressor(EVERY[name]) else LABELS % len(known["classes"])
    return public, known.get("public_target", False), y


def takes_csr(name):
    return not any(word in name for word in DENSE)


every_case = pytest.mark.parametrize("name", CASES)
#: The first is bounded in part.
BOUNDS = [{0: (0, 1), 2: (0, 1)}, (0, 1), False]
VALUES = (np.nan, np.inf, -np.inf, 1e308, -1e308, -7.0)
NO_LABELS = (None, np.nan, "secret", 7, -1, [1], pd.NA)


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
        with np.errstate(all="raise"), warnings.catch_warnings(), replay.opened(self):
            warnings.simplefilter("error")
            warnings.filterwarnings(
                "ignore", message="bounds=None|bounds do not cover|the budget|delta="
            )
            model.fit(rows, target)
        return self.sums


def nulled(monkeypatch):
    """Let every fit take record 0 as null."""
    found = Reader.read

    def records(self, *arguments, **more):
        made = found(self, *arguments, **more)
        object.__setattr__(made, "is_null", np.arange(made.X.shape[0]) == 0)
        return made

    monkeypatch.setattr(Reader, "read", records)


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


@every_case
def test_what_nothing_stands_in_for_adds_nothing(name, monkeypatch):
    """To no sum."""
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
    bounds = {0: (0, 1), 1: (0, 1), 2: (0, 2), 3: (0, 1)}
    holes, middles = X.copy(), X.copy()
    for row, value in enumerate((np.nan, np.inf, -np.inf)):
        holes[row, private] = value
        middles[row, private] = np.array([0.5, 0.5, 1, 0.5])[private]
    one = fitted(name, holes, bounds=bounds)
    other = fitted(name, middles, bounds=bounds)
    np.testing.assert_array_equal(weights(one), weights(other))
    told = "transform" if hasattr(one, "transform") else "predict"
    np.testing.assert_array_equal(
        getattr(one, told)(holes), getattr(one, told)(middles)
    )
    np.testing.assert_array_equal(one.input_scaler_(holes), one.input_scaler_(middles))


def test_a_public_value_is_still_refused():
    holes = X.copy()
    holes[0, 0] = np.nan
    for name in CASES:
        if len(facts(name)[0]):
            convert = csr_array if takes_csr(name) else np.asarray
            with pytest.raises(ValueError, match="Input X contains NaN"):
                fitted(name, convert(holes), bounds=(0, 1))
            model = fitted(name, bounds=(0, 1))
            told = model.transform if hasattr(model, "transform") else model.predict
            with pytest.raises(ValueError, match="Input X contains NaN"):
                told(holes)
    for name, wrong, match in (
        *(("public target", 7, "labels outs"), ("public target", np.nan, "y contains")),
        ("regressor, public target", np.inf, "infinity"),
    ):
        with pytest.raises(ValueError, match=match):
            fitted(name, X, np.r_[wrong, facts(name)[2][1:]], bounds=(0, 1))


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


REST = (np.arange(N) % 2)[1:].tolist()
MISSING = {
    "Int64": pd.array([None, *REST], dtype="Int64"),
    "boolean": pd.array([None, *map(bool, REST)], dtype="boolean"),
    "category": pd.Categorical([None, *REST]),
    "object": np.array([pd.NA, *REST], dtype=object),
    "list": [None, *REST],
    "text in a list": ["secret", *REST],
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_and_targets_of_every_container(kind):
    y = MISSING[kind] if "list" in kind else pd.Series(MISSING[kind])
    both = (np.r_[9, REST], y)
    fits = [fitted("two classes", target=one, bounds=(0, 1)) for one in both]
    np.testing.assert_array_equal(*(one.coef_ for one in fits))
    if kind != "text in a list":
        fitted("regressor", target=y, bounds=(0, 1))


# -- extreme numbers ------------------------------------------------------------------
FLOAT32 = float(np.finfo(np.float32).max)
# Each is put into a table of its own: the small ones multiply to denormals and zeros,
# the large ones overflow, alone and as squares.
EXTREMES = {"small": [5e-324, 1e-310, -0.0], "large": [1e308, -1.7e308, FLOAT32]}
NUMBERS_THAT_ARE_PRIVATE = [
    name for name in EVERY if is_regressor(EVERY[name]) and not facts(name)[1]
]


@pytest.fixture(params=["warn", "raise"])
def state(request):
    """What the user set: NumPy's default, or traps everywhere."""
    kept = np.geterr(), special.geterr()
    np.seterr(all=request.param)
    special.seterr(all=request.param)
    yield request.param
    np.seterr(**kept[0])
    special.seterr(**kept[1])


def told(name, bounds, rows, y):
    """Return what a fit and all predictions show: warnings, and no exception."""
    names = ("predict", "predict_proba", "predict_log_proba")
    names += ("decision_function", "transform")
    model = clone(EVERY[name]).set_params(bounds=bounds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, y)
        for method in names:
            if hasattr(model, method):
                getattr(model, method)(rows)
    found = {(w.category.__name__, str(w.message)) for w in caught}
    assert "RuntimeWarning" not in {category for category, _ in found}
    # The label statistic judges columns that are all public: those may show.
    return {one for one in found if "strongest direction of X" not in one[1]}


EVERYWHERE = [(name, extreme, float) for name in EVERY for extreme in EXTREMES]
EVERYWHERE += [(name, "float32", np.float32) for name in ("DPSGD-F", "transformer")]


@pytest.mark.parametrize(("name", "extreme", "dtype"), EVERYWHERE)
def test_extreme_values_of_rows_show_nowhere(name, extreme, dtype, state):
    usual, y, bounds = X.astype(dtype), facts(name)[2], dtype is np.float32 and (0, 1)
    rows = usual.copy()
    rows[3:6, 2] = rows[7, 1:] = EXTREMES.get(extreme, [FLOAT32, -FLOAT32, 1e-45])
    assert told(name, bounds, rows, y) == told(name, bounds, usual, y)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", NUMBERS_THAT_ARE_PRIVATE)
def test_extreme_targets_show_nowhere(name, extreme, state):
    y = NUMBERS.copy()
    y[3:6] = EXTREMES[extreme]  # a negative count too
    assert told(name, (0, 1), X, y) == told(name, (0, 1), X, NUMBERS)


@pytest.mark.parametrize(
    "solver", [NoisyGradientDescent(max_iter=2), FeatureDPSGD(max_iter=2)]
)
@pytest.mark.parametrize("estimator", [LINEAR, NETWORK])
def test_threads_have_no_traps(estimator, solver, state):
    rows = np.tile(X, (150, 1))
    rows[7] = 1e308
    model = estimator(bounds=False, n_jobs=2, solver=solver, **SOME)
    model.fit(rows, np.tile(LABELS % 2, 150))
    assert np.isfinite(weights(model)).all()


@pytest.mark.usefixtures("callbacks")
def test_callbacks_run_in_the_users_state(state):
    seen, before = [], (np.geterr(), special.geterr())

    def noted(*given, **more):
        seen.append((np.geterr()["over"], special.geterr()["overflow"]))

    class Watch:
        def setup(self, *args, **more):
            noted()

        teardown = on_fit_task_begin = on_fit_task_end = setup

    model = LINEAR(bounds=(0, 1), public_features=[0], **LOOP)
    model.set_callbacks(Watch()).fit(X, LABELS % 2)
    assert len(seen) >= 8 and set(seen) == {(state, state)}
    assert (np.geterr(), special.geterr()) == before


def test_the_state_is_restored_after_an_error(state):
    @guarded_fit
    def fit(self):
        assert np.geterr()["over"] == "ignore"
        with users_state():
            assert np.geterr()["over"] == state
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fit(None)
    assert np.geterr()["over"] == state


# -- a private number of rows ---------------------------------------------------------
def test_sums_beyond_int64_wrap_around():
    """They are congruent to the exact sum, which Python's integers hold."""
    X = np.random.default_rng(0).random((500, 3))

    def sum_of(rows):
        return RowSum(rows, 1).exact_sum(None, None, 2.0**-61).astype(object)

    exact = sum(map(sum_of, X[:, None]))
    assert max(exact) > 2**63 and not ((exact - sum_of(X)) % 2**64).any()


def test_noise_wraps_around_too():
    """A sum that wrapped before the noise, or in it, is one release."""
    ends, zeros = np.array([2**63 - 1, -(2**63), 0]), np.zeros(3, dtype=np.int64)
    noisy, noise = (
        add_integer_gaussian(total.copy(), 2.0**34, Streams(0, "t").private("x"))
        for total in (ends, zeros)
    )
    apart = noisy.astype(object) - ends.astype(object) - noise.astype(object)
    assert noise.any() and not (apart % 2**64).any()


# -- degenerate parameters ------------------------------------------------------------
ROWS = np.random.default_rng(0).random((300, 4))
HALVES, SUMS = (ROWS[:, 0] > 0.5).astype(int), ROWS @ [1.0, 2.0, 3.0, 4.0]
KINDS = [skfdp.DPSGDFClassifier, LINEAR, NETWORK]
UNDIVIDED = [
    (-1e308, 1e308),  # their width is infinite, which meant "no bounds"
    *((0, 5e-324), (1e308, 1.5e308), (1.0, 1.0 + 4e-16), {0: (0, 1e-200)}),
    (np.zeros(4), np.array([1.0, 1.0, 5e-324, 1.0])),
]
UNDIVIDED_TARGETS = [
    *((1e308, 1.5e308), (0, 5e-324), (-1.7e308, 1.7e308), (0, 1e101), (0, 1e-101)),
    *((1.0, 1.0 + 1e-15), (-1e50, -1e50 * (1 - 1e-13))),
]
WEIGHTS = {
    r"class_weight\[0\]=1e-300 must lie between": {0: 1e-300},
    r"class_weight\[1\]=1e\+300 must lie between": {1: 1e300},
    "gives every class the weight 0": {0: 0, 1: 0.0},
}


def refused():
    """Yield a part of a sentence, the estimator that says it, and its parameters."""
    size = "^{}=.* must lie between 1e-30 and"
    for value in (5e-324, 1e-31, 1e31, 1e308):
        for kind in KINDS:
            for name in ("row_norm", "learning_rate", "max_weight_norm", "clip_norm"):
                solver = NoisyGradientDescent(**{name: value})
                yield size.format(name), kind, {"solver": solver}
        for kind in KINDS[1:]:
            for name in ("gradient_scale", "padding_scale"):
                solver = FeatureDPSGD(**{name: value})
                yield size.format(name), kind, {"solver": solver}
        for name in ("output_bound", "row_norm"):
            yield size.format(name), CENTRING, {name: value}
    for value in (5e-324, 1e300):
        given = {"target_bounds": (0, 10), "loss": Huber(threshold=value)}
        yield size.format("threshold"), skfdp.DPSGDFRegressor, given
    says = r"target_bounds=\(.*\) (is too wide|must be a pair)"
    for bounds in UNDIVIDED_TARGETS:
        yield says, REGRESSOR, {"target_bounds": bounds}
    for kind in (*KINDS, CENTRING):
        for bounds in UNDIVIDED:
            says = "bounds=.* is too wide or too narrow for float64"
            yield says, kind, {"bounds": bounds}
    for kind in KINDS:
        for decay in (10, 1e3, 1e300):
            solver = NoisyGradientDescent(noise_decay=decay)
            yield "^noise_decay=.* < 10", kind, {"solver": solver}
        for says, weights in WEIGHTS.items():
            yield says, kind, {"class_weight": weights}
    for epsilon in (1.0, float("inf")):
        says = "y holds numbers beyond 1e.100, .*declare target_bounds"
        yield says, REGRESSOR, {"epsilon": epsilon, "public_target": True}


@pytest.mark.parametrize(
    ("match", "estimator", "given"), [*refused()], ids=lambda one: str(one)[:70]
)
def test_a_degenerate_number_is_refused_before_the_charge(match, estimator, given):
    ledger = skfdp.PrivacyLedger()
    model = estimator(ledger=ledger, **{"bounds": (0, 1), **given})
    y = SUMS * (1e300 if given.get("public_target") else 1)
    y = HALVES if is_classifier(model) else y
    with pytest.raises(ValueError, match=match) as raised:
        model.fit(ROWS, y)
    assert len(str(raised.value).rstrip(".").split(". ")) == 1
    assert len(ledger.entries) == 0


@pytest.mark.parametrize("bounds", [(0, 1e100), (0, 1e-99), (1e9, 1e9 + 1e-2), (-1, 1)])
@pytest.mark.parametrize("estimator", [REGRESSOR, skfdp.DPSGDFRegressor])
def test_target_bounds_that_are_merely_unusual(bounds, estimator):
    low, high = bounds
    y = low + (high - low) * (SUMS - SUMS.min()) / np.ptp(SUMS)
    model = estimator(1e4, target_bounds=bounds, bounds=(0, 1), random_state=0)
    error = np.abs(model.fit(ROWS, y).predict(ROWS) - y).mean()
    assert error < 0.1 * (high - low)


@pytest.mark.parametrize("estimator", KINDS[:2])
@pytest.mark.parametrize(
    "parameters",
    [
        *({"epsilon": 1e-6}, {"class_weight": {0: 1e-30, 1: 1e-30}}, {"C": 1e300}),
        *({"solver__row_norm": 1e-30}, {"solver__clip_norm": 1e-29}),
        *({"solver__max_weight_norm": 1e-30}, {"solver__learning_rate": 1e-30}),
        *({"solver__momentum": 0.99}, {"solver__noise_decay": 9.9}),
    ],
    ids=str,
)
def test_extreme_parameters_that_are_allowed_end_in_finite_models(
    estimator, parameters
):
    model = estimator(bounds=(0, 1), random_state=0, solver=NoisyGradientDescent())
    model.set_params(**parameters).fit(ROWS, HALVES)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(ROWS)).all()
