"""Extreme numbers: no value of a row shows in a warning or an exception, a degenerate
parameter is refused by name, and where the number of rows is private nothing tells it.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import special
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
)
from skfdp.data.input_scaler import InputScaler
from skfdp.data.validation import guarded_fit, users_state
from skfdp.mechanisms.noise import Streams, add_integer_gaussian
from skfdp.privacy import AddOrRemoveOne
from skfdp.queries.statistics import RowSum
from skfdp.solvers import FeatureDPSGD, Huber, NoisyGradientDescent, NoisySGD

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("error::RuntimeWarning"),
]
RNG = np.random.default_rng(0)
X = RNG.random((60, 4))
Y, T = (X[:, 0] > 0.5).astype(int), RNG.random(60)
FLOAT32 = float(np.finfo(np.float32).max)
# Each is put into a table of its own: the small ones multiply to denormals and zeros,
# the large ones overflow, alone and as squares.
VALUES = {"small": [5e-324, 1e-310, -0.0], "large": [1e308, -1.7e308, FLOAT32]}
LOOP = {"solver": NoisyGradientDescent(max_iter=2)}
BATCHES = {"solver": NoisySGD(batch_size=10, max_iter=2)}
PADDED = {"solver": FeatureDPSGD(public_loss="zero", max_iter=2)}
FIRST, ALL = {"public_features": [0]}, {"public_features": "all"}
KNOWN, HINGE = {"public_target": True}, {"loss": "squared_hinge"}
COUNTED = {"neighboring_relation": AddOrRemoveOne(60)}
BARE = {"solver": NoisySGD(max_iter=2), "pretraining": None, "hidden_layer_sizes": 4}
LOGISTIC, NETWORK = FeatureDPLogisticRegression, FeatureDPMLPClassifier
CLASSIFIERS = {
    "full batch": DPSGDFClassifier(**LOOP),
    "Poisson batches": DPSGDFClassifier(**BATCHES),
    "squared hinge, add or remove": DPSGDFClassifier(**HINGE, **COUNTED, **LOOP),
    "some columns public": LOGISTIC(**FIRST, **LOOP),
    "public target": LOGISTIC(**FIRST, **KNOWN, **LOOP),
    "padded loss": LOGISTIC(**FIRST, **PADDED),
    "label-DP": LOGISTIC(**ALL),
    "label-DP by descent": LOGISTIC(**ALL, **LOOP),
    "network": NETWORK(**BARE),
    "network, public target": NETWORK(**FIRST, **KNOWN, **BARE),
    "transformer": PrivateCenteringTransformer(),
    "conditional transformer": PrivateCenteringTransformer(**FIRST),
}
REGRESSORS = {
    f"{name}, {loss}": kind(loss=loss, **given, **LOOP)
    for name, kind, given in (
        ("all private", DPSGDFRegressor, {}),
        ("some public", FeatureDPRegressor, FIRST),
        ("label-DP", FeatureDPRegressor, ALL),
    )
    for loss in ("squared_error", "huber", "poisson")
    if (name, loss) != ("label-DP", "huber")
}
EVERY = CLASSIFIERS | REGRESSORS


@pytest.fixture(params=["warn", "raise"])
def state(request):
    """What the user set: NumPy's default, or traps everywhere."""
    kept = np.geterr(), special.geterr()
    np.seterr(all=request.param)
    special.seterr(all=request.param)
    yield request.param
    np.seterr(**kept[0])
    special.seterr(**kept[1])


def told(model, rows, y):
    """Return what a fit and all predictions show: warnings, and no exception."""
    names = ("predict", "predict_proba", "predict_log_proba")
    names += ("decision_function", "transform")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, y)
        for name in names:
            if hasattr(model, name):
                getattr(model, name)(rows)
    found = {(w.category.__name__, str(w.message)) for w in caught}
    assert "RuntimeWarning" not in {category for category, _ in found}
    return found


def with_bounds(model, **bounds):
    """Return a model with those of these parameters that it has."""
    known = model.get_params()
    return clone(model).set_params(**{k: v for k, v in bounds.items() if k in known})


@pytest.mark.parametrize("name", EVERY)
def test_extreme_values_of_rows_show_nowhere(name, state):
    bounds = {"bounds": False, "target_bounds": (0, 1)}
    y = Y if name in CLASSIFIERS else T
    usual = told(with_bounds(EVERY[name], **bounds), X, y)
    for values in VALUES.values():
        rows = X.copy()
        rows[3:6, 2] = values
        rows[7, 1:] = values
        assert told(with_bounds(EVERY[name], **bounds), rows, y) == usual, values


@pytest.mark.parametrize("name", ["full batch", "transformer"])
def test_extreme_values_in_float32_show_nowhere(name, state):
    usual = told(with_bounds(CLASSIFIERS[name], bounds=(0, 1)), X.astype("f"), Y)
    rows = X.astype(np.float32)
    rows[3:6, 2] = FLOAT32, -FLOAT32, 1e-45
    assert told(with_bounds(CLASSIFIERS[name], bounds=(0, 1)), rows, Y) == usual


@pytest.mark.parametrize("name", REGRESSORS)
def test_extreme_targets_show_nowhere(name, state):
    bounds = {"bounds": (0, 1), "target_bounds": (0, 1)}
    usual = told(with_bounds(REGRESSORS[name], **bounds), X, T)
    for values in VALUES.values():
        y = T.copy()
        y[3:6] = values  # a negative count too
        assert told(with_bounds(REGRESSORS[name], **bounds), X, y) == usual, values


@pytest.mark.parametrize(
    "solver", [NoisyGradientDescent(max_iter=2), FeatureDPSGD(max_iter=2)]
)
@pytest.mark.parametrize(
    "estimator", [FeatureDPLogisticRegression, FeatureDPMLPClassifier]
)
def test_threads_have_no_traps(estimator, solver, state):
    rows = np.tile(X, (60, 1))
    rows[7] = 1e308
    model = estimator(bounds=False, n_jobs=2, solver=solver, public_features=[0])
    if estimator is FeatureDPMLPClassifier:
        model.set_params(pretraining=None)
    model.fit(rows, np.tile(Y, 60))


def test_a_fit_in_a_thread_has_no_traps():
    rows = X.copy()
    rows[3] = 5e-324

    def fit():
        np.seterr(all="raise")
        return DPSGDFClassifier(bounds=(0, 1), **LOOP).fit(rows, Y)

    with ThreadPoolExecutor(1) as pool:
        assert np.isfinite(pool.submit(fit).result(timeout=240).coef_).all()


def test_a_public_loss_runs_in_the_users_state(state):
    seen = []

    def public_loss(coef, intercept, rows, y):
        seen.append((np.geterr()["over"], special.geterr()["overflow"]))
        return 0 * coef, 0 * intercept

    before = np.geterr(), special.geterr()
    model = FeatureDPLogisticRegression(
        bounds=(0, 1),
        public_features=[0],
        solver=FeatureDPSGD(public_loss=public_loss, max_iter=2),
    )
    model.fit(X, Y)
    assert set(seen) == {(state, state)}
    assert (np.geterr(), special.geterr()) == before


@pytest.mark.usefixtures("callbacks")
def test_callbacks_run_in_the_users_state(state):
    seen = []

    class Watch:
        def setup(self, *args, **kwargs):
            seen.append(np.geterr()["over"])

        teardown = on_fit_task_begin = on_fit_task_end = setup

    model = DPSGDFClassifier(bounds=(0, 1), **LOOP).set_callbacks(Watch())
    model.fit(X, Y)
    assert len(seen) == 8  # before and after, the fit, and two steps
    assert set(seen) == {state}


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
def counted(name):
    """Return a model of 20 declared records that may be any number."""
    return with_bounds(
        EVERY[name],
        bounds=(0, 1),
        target_bounds=(0, 1),
        classes=[0, 1],
        public_features=None,
        neighboring_relation=AddOrRemoveOne(20),
    )


FEW = ("full batch", "all private, squared_error")
WITHOUT_PUBLIC = (
    *(*FEW, "Poisson batches", "some columns public", "network", "transformer"),
    "all private, poisson",
)


@pytest.mark.parametrize(
    ("name", "held"),
    [*((name, np.asarray) for name in WITHOUT_PUBLIC)]
    + [(name, csr_array) for name in FEW],
)
def test_no_count_is_refused_or_shown(name, held):
    shown = set()
    for n_rows in (0, 1, 2, 16 * 20, 16 * 20 + 1, 1000):
        rows = held(np.random.default_rng(0).random((n_rows, 20)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = counted(name).fit(rows, np.arange(n_rows) % 2)
        assert model.privacy_.n_records == 20
        shown.add(tuple(str(w.message) for w in caught))
    assert len(shown) == 1


def test_sums_beyond_int64_wrap_around():
    """They are congruent to the exact sum, which Python's integers hold."""
    X = np.random.default_rng(0).random((500, 3))
    query, unit = RowSum(X, InputScaler(), 1), 2.0**-61
    alone = [
        RowSum(X[i : i + 1], InputScaler(), 1).exact_sum(None, None, unit).tolist()
        for i in range(len(X))
    ]
    exact = [sum(entries) for entries in zip(*alone, strict=True)]
    assert max(exact) > 2**63
    found = query.exact_sum(None, None, unit).tolist()
    assert [(a - b) % 2**64 for a, b in zip(exact, found, strict=True)] == [0, 0, 0]


def test_noise_wraps_around_too():
    """A sum that wrapped before the noise, or in it, is one release."""
    ends, zeros = np.array([2**63 - 1, -(2**63), 0]), np.zeros(3, dtype=np.int64)
    noisy, noise = (
        add_integer_gaussian(total.copy(), 2.0**34, Streams(0, "t").private("x"))
        for total in (ends, zeros)
    )
    for a, b, c in zip(noisy.tolist(), ends.tolist(), noise.tolist(), strict=True):
        assert (a - b - c) % 2**64 == 0
    assert any(noise)


# -- degenerate parameters ------------------------------------------------------------
N = 300
ROWS = np.random.default_rng(0).random((N, 4))
LABELS = (ROWS[:, 0] > 0.5).astype(int)
TARGET = ROWS @ [1.0, 2.0, 3.0, 4.0]
CLASSES = [DPSGDFClassifier, LOGISTIC, NETWORK]
UNDIVIDED = [
    (0, 5e-324),
    (-1e308, 1e308),  # their width is infinite, which meant "no bounds"
    (1e308, 1.5e308),
    (1.0, 1.0 + 4e-16),
    (np.zeros(4), np.array([1.0, 1.0, 5e-324, 1.0])),
    {0: (0, 1e-200)},
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
        for kind in CLASSES:
            for name in ("row_norm", "learning_rate", "max_weight_norm", "clip_norm"):
                solver = NoisyGradientDescent(**{name: value})
                yield size.format(name), kind, {"solver": solver}
        for kind in CLASSES[1:]:
            for name in ("gradient_scale", "padding_scale"):
                solver = FeatureDPSGD(**{name: value})
                yield size.format(name), kind, {"solver": solver}
        for name in ("output_bound", "row_norm"):
            yield size.format(name), PrivateCenteringTransformer, {name: value}
    for value in (5e-324, 1e300):
        given = {"target_bounds": (0, 10), "loss": Huber(threshold=value)}
        yield size.format("threshold"), DPSGDFRegressor, given
    says = r"target_bounds=\(.*\) (is too wide|must be a pair)"
    for bounds in UNDIVIDED_TARGETS:
        yield says, FeatureDPRegressor, {"target_bounds": bounds}
    for kind in (*CLASSES, PrivateCenteringTransformer):
        for bounds in UNDIVIDED:
            says = "bounds=.* is too wide or too narrow for float64"
            yield says, kind, {"bounds": bounds}
    for kind in CLASSES:
        for decay in (10, 1e3, 1e300):
            solver = NoisyGradientDescent(noise_decay=decay)
            yield "^noise_decay=.* < 10", kind, {"solver": solver}
        for says, weights in WEIGHTS.items():
            yield says, kind, {"class_weight": weights}
    for epsilon in (1.0, float("inf")):
        says = "y holds numbers beyond 1e.100, .*declare target_bounds"
        yield says, FeatureDPRegressor, {"epsilon": epsilon, "public_target": True}


@pytest.mark.parametrize(
    ("match", "estimator", "given"), [*refused()], ids=lambda one: str(one)[:70]
)
def test_a_degenerate_number_is_refused_before_the_charge(match, estimator, given):
    ledger = PrivacyLedger()
    model = estimator(ledger=ledger, **{"bounds": (0, 1), **given})
    y = LABELS if is_classifier(model) else TARGET
    if given.get("public_target"):
        y = TARGET * 1e300
    with pytest.raises(ValueError, match=match) as raised:
        model.fit(ROWS, y)
    assert len(str(raised.value).rstrip(".").split(". ")) == 1
    assert len(ledger.entries) == 0


@pytest.mark.parametrize("bounds", [(0, 1e100), (0, 1e-99), (1e9, 1e9 + 1e-2), (-1, 1)])
@pytest.mark.parametrize("estimator", [FeatureDPRegressor, DPSGDFRegressor])
def test_target_bounds_that_are_merely_unusual(bounds, estimator):
    low, high = bounds
    y = low + (high - low) * (TARGET - TARGET.min()) / np.ptp(TARGET)
    model = estimator(1e4, target_bounds=bounds, bounds=(0, 1), random_state=0)
    error = np.abs(model.fit(ROWS, y).predict(ROWS) - y).mean()
    assert error < 0.1 * (high - low)


@pytest.mark.parametrize("estimator", CLASSES[:2])
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
    model.set_params(**parameters)
    model.fit(ROWS, LABELS)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(ROWS)).all()
