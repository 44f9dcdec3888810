"""No value of a row shows in a warning or an exception, whatever traps are set."""

import threading
import warnings

import numpy as np
import pytest
from scipy import special

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
)
from skfdp.data.validation import guarded_fit, users_state
from skfdp.privacy import AddOrRemoveOne
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD

RNG = np.random.default_rng(0)
X = RNG.random((60, 4))
Y, T = (X[:, 0] > 0.5).astype(int), RNG.random(60)
FLOAT32 = float(np.finfo(np.float32).max)
# Each is put into a table of its own: the small ones multiply to denormals and zeros,
# the large ones overflow, alone and as squares.
VALUES = {"small": [5e-324, 1e-310, -0.0], "large": [1e308, -1.7e308, FLOAT32]}
LOOP = {"solver": NoisyGradientDescent(max_iter=2)}
SOME = {"public_features": [0], **LOOP}
BARE = {"solver": NoisySGD(max_iter=2), "pretraining": None}
CLASSIFIERS = {
    "full batch": lambda: DPSGDFClassifier(**LOOP),
    "Poisson batches": lambda: DPSGDFClassifier(
        solver=NoisySGD(batch_size=10, max_iter=2)
    ),
    "squared hinge, add or remove": lambda: DPSGDFClassifier(
        loss="squared_hinge", neighboring_relation=AddOrRemoveOne(60), **LOOP
    ),
    "some columns public": lambda: FeatureDPLogisticRegression(**SOME),
    "public target": lambda: FeatureDPLogisticRegression(public_target=True, **SOME),
    "padded loss": lambda: FeatureDPLogisticRegression(
        public_features=[0], solver=FeatureDPSGD(public_loss="zero", max_iter=2)
    ),
    "label-DP": lambda: FeatureDPLogisticRegression(public_features="all"),
    "label-DP by descent": lambda: FeatureDPLogisticRegression(
        public_features="all", **LOOP
    ),
    "network": lambda: FeatureDPMLPClassifier(hidden_layer_sizes=4, **BARE),
    "network, public target": lambda: FeatureDPMLPClassifier(
        hidden_layer_sizes=4, public_target=True, public_features=[0], **BARE
    ),
    "transformer": lambda: PrivateCenteringTransformer(),
    "conditional transformer": lambda: PrivateCenteringTransformer(public_features=[0]),
}
REGRESSORS = {
    f"{name}, {loss}": (lambda cls=cls, loss=loss, kw=kw: cls(loss=loss, **kw))
    for name, cls, kw in (
        ("all private", DPSGDFRegressor, LOOP),
        ("some public", FeatureDPRegressor, SOME),
    )
    for loss in ("squared_error", "huber", "poisson")
} | {
    f"label-DP, {loss}": lambda loss=loss: FeatureDPRegressor(
        loss=loss, public_features="all", **LOOP
    )
    for loss in ("squared_error", "poisson")
}


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


def with_bounds(make, **bounds):
    model = make()
    return model.set_params(
        **{k: v for k, v in bounds.items() if k in model.get_params()}
    )


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_extreme_values_of_rows_show_nowhere(name, state):
    make = {**CLASSIFIERS, **REGRESSORS}[name]
    bounds = {"bounds": False, "target_bounds": (0, 1)}
    y = Y if name in CLASSIFIERS else T
    usual = told(with_bounds(make, **bounds), X, y)
    for values in VALUES.values():
        rows = X.copy()
        rows[3:6, 2] = values
        rows[7, 1:] = values
        assert told(with_bounds(make, **bounds), rows, y) == usual, values


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
        y[3:6] = np.abs(values) if "poisson" in name else values
        assert told(with_bounds(REGRESSORS[name], **bounds), X, y) == usual, values


def test_a_trapped_fit_is_charged_and_ends(state):
    """The Poisson regressor with a denormal target."""
    y, ledger = T.copy(), PrivacyLedger()
    y[3] = 5e-324
    model = DPSGDFRegressor(
        loss="poisson", bounds=(0, 1), target_bounds=(0, 1), ledger=ledger, **LOOP
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    assert len(ledger) > 0
    assert np.isfinite(model.coef_).all()


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(rows, np.tile(Y, 60))


def test_a_fit_in_a_thread_has_no_traps():
    failed = []

    def fit():
        np.seterr(all="raise")
        rows = X.copy()
        rows[3] = 5e-324
        try:
            DPSGDFClassifier(bounds=(0, 1), **LOOP).fit(rows, Y)
        except FloatingPointError as error:
            failed.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=fit, daemon=True)
        thread.start()
        thread.join(timeout=240)
    assert not thread.is_alive() and not failed


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    assert set(seen) == {(state, state)}
    assert (np.geterr(), special.geterr()) == before


@pytest.mark.usefixtures("callbacks")
def test_callbacks_run_in_the_users_state(state):
    seen = []

    class Watch:
        def on_fit_task_begin(self, *args, **kwargs):
            seen.append(np.geterr()["over"])

        def on_fit_task_end(self, *args, **kwargs):
            seen.append(np.geterr()["over"])

        def setup(self, *args, **kwargs):
            pass

        def teardown(self, *args, **kwargs):
            pass

    model = DPSGDFClassifier(bounds=(0, 1), **LOOP).set_callbacks(Watch())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    assert len(seen) == 6  # the fit and two steps
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


@pytest.mark.parametrize("public", [None, "all"])
def test_a_negative_count_is_clipped_and_not_told(public):
    counts = np.arange(60) % 5
    told = []
    for first in (0, -3):
        model = FeatureDPRegressor(
            loss="poisson",
            bounds=(0, 1),
            target_bounds=(0, 4),
            public_features=public,
            random_state=0,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, np.r_[first, counts[1:]])
        told.append([str(w.message) for w in caught])
        assert np.isfinite(model.coef_).all()
    assert told[0] == told[1]
