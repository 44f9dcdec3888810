"""The order of a fit: what is declared, told and charged precedes any private value.

Attributes that are no parameters declare nothing.
"""

import io
import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from problems import FITS
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import skfdp
from skfdp.base import PrivateEstimator
from skfdp.data.sources import check_room
from skfdp.data.validation import warn_caller
from skfdp.kernels import sampling
from skfdp.mechanisms import release as mechanism
from skfdp.mechanisms.release import Mechanism, Streams
from skfdp.privacy import PrivacyBudgetError, PrivacyReport
from skfdp.reader import Declaration
from skfdp.schema import Number
from skfdp.solvers import FeatureDPSGD, NoisySGD

ESTIMATORS = FITS | {
    "feature-DP": clone(FITS["logistic"]).set_params(public_features=[0]),
    "label-DP": clone(FITS["logistic"]).set_params(public_features="all"),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((400, 3)), columns=["a", "b", "c"])
    return X, (X["a"] + X["b"] > 1).astype(int).rename("y")


def fitted(name, table, **changes):
    return clone(ESTIMATORS[name]).set_params(**changes).fit(*table)


def charged(error, name, table, match=None, **changes):
    """Return what a fit has charged that ends in an error."""
    ledger = skfdp.PrivacyLedger()
    with pytest.raises(error, match=match):
        fitted(name, table, ledger=ledger, **changes)
    return ledger.entries


@every_estimator
def test_a_fit_is_charged_before_anything_is_released(
    name, table, monkeypatch, tmp_path
):
    ledger, seen = skfdp.PrivacyLedger(tmp_path / "ledger.sqlite"), []
    noisy_sum = mechanism._noisy_sum

    def watched(query, *args, **kwargs):
        seen.append(len(ledger.entries))
        return noisy_sum(query, *args, **kwargs)

    monkeypatch.setattr(mechanism, "_noisy_sum", watched)
    report = fitted(name, table, ledger=ledger).privacy_
    assert seen
    # All events of the fit, at its first release.
    assert set(seen) == {len(report.events)} and ledger.events == report.events
    ledger.check_report(report)


@every_estimator
def test_a_fit_that_is_refused_has_released_nothing(name, table, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("a release without a charge")

    monkeypatch.setattr(mechanism, "_noisy_sum", never)
    ledger = skfdp.PrivacyLedger(epsilon=0.5, delta=1e-5)
    with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
        fitted(name, table, ledger=ledger)
    assert not ledger.entries


@every_estimator
def test_a_fit_that_fails_stays_charged(name, table, monkeypatch):
    def fails(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(mechanism, "_noisy_sum", fails)
    assert charged(ZeroDivisionError, name, table)


# Whatever can fail for public reasons fails before the charge.
PUBLIC_STEPS = {
    "report": (PrivacyReport, "from_events"),
    "streams": (Streams, "__init__"),
    "mechanism": (Mechanism, "__init__"),
    "noise": (sampling, "add_rounded_normals"),
    "callbacks": (PrivateEstimator, "_init_callback_context"),
    "planning": (PrivateEstimator, "_planned"),
    "plan": (PrivateEstimator, "_facts"),
}


class PublicFailureError(Exception):
    """What a public step raises in these tests."""


def failing(*_, **__):
    raise PublicFailureError


@every_estimator
@pytest.mark.parametrize("step", PUBLIC_STEPS)
def test_a_public_step_that_fails_costs_nothing(name, step, table, monkeypatch):
    mechanism.compile_sampler.cache_clear()
    monkeypatch.setattr(*PUBLIC_STEPS[step], failing)
    assert not charged(PublicFailureError, name, table)


def test_a_sampler_that_cannot_be_compiled_costs_nothing(table, monkeypatch):
    mechanism.compile_sampler.cache_clear()
    monkeypatch.setattr(sampling, "poisson_members", failing)
    solver = NoisySGD(batch_size=20, max_iter=2)
    assert not charged(PublicFailureError, "classifier", table, solver=solver)


@pytest.mark.parametrize("step", ["report", "streams", "mechanism", "noise"])
def test_bounds_and_scores_that_fail_cost_nothing(step, table, monkeypatch):
    model, ledger = fitted("classifier", table), skfdp.PrivacyLedger()
    mechanism.compile_sampler.cache_clear()
    monkeypatch.setattr(*PUBLIC_STEPS[step], failing)
    with pytest.raises(PublicFailureError):
        skfdp.private_bounds(table[0], ledger=ledger)
    with pytest.raises(PublicFailureError):
        skfdp.private_score(model, *table, 1.0, ledger=ledger)
    assert not ledger.entries


@every_estimator
@pytest.mark.parametrize("step", ["report", "callbacks"])
def test_a_fit_without_privacy_that_fails_costs_nothing(name, step, table, monkeypatch):
    monkeypatch.setattr(*PUBLIC_STEPS[step], failing)
    assert not charged(PublicFailureError, name, table, epsilon=math.inf)


def test_a_network_without_weights_in_scikit_learn_costs_nothing(table, monkeypatch):
    """Before 1.7 its networks take no sample_weight."""
    monkeypatch.setattr("skfdp.neural_network.has_fit_parameter", lambda *_: False)
    more = {"epsilon": math.inf, "class_weight": "balanced"}
    says = "need scikit-learn 1.7"
    assert not charged(ValueError, "network", table, match=says, **more)


def test_a_folder_of_temporary_files_is_tried_before_the_charge(monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("skfdp.data.sources.tempfile.TemporaryFile", refused)
    check_room(10, 10)  # fits into memory
    with pytest.raises(OSError, match="can be made .Permission denied.: set TMPDIR"):
        check_room(10**9, 100)


COMPILED = """
import numpy as np
from skfdp import PrivacyLedger, PrivateCenteringTransformer
ledger = PrivacyLedger()
try:
    PrivateCenteringTransformer(bounds=(0, 1), ledger=ledger).fit(np.ones((9, 2)))
except Exception as error:
    print(len(ledger.entries), error)
"""


def test_a_setting_of_numba_that_prevents_fits_costs_nothing():
    setting, command = {"NUMBA_NUM_THREADS": "0"}, [sys.executable, "-c", COMPILED]
    out = subprocess.check_output(command, env=os.environ | setting, text=True)
    assert out.startswith("0 Number of threads")


CLOSED = io.StringIO()
CLOSED.close()


class Proxy:
    """A stream as some loggers make it."""

    def write(self, text):
        pass


@pytest.mark.parametrize("stream", [None, CLOSED, Proxy(), object()])
def test_no_stream_of_errors_stops_a_fit(stream, table, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warn_caller("only", skfdp.UtilityWarning)
    assert hasattr(fitted("classifier", table), "coef_")


@pytest.mark.parametrize("name", ["classifier", "feature-DP", "network"])
def test_void_records_are_in_no_release(name, table, releases):
    X, y = table[0].copy(), table[1]
    bounds = {"a": (0, 1), "b": (0, 1)}  # nothing stands in for a number of column c
    X.loc[5, "c"] = np.nan
    fitted(name, (X, y), bounds=bounds)
    assert releases
    for release in releases:
        batch = release["batch"]
        assert batch is not None and 5 not in batch


# -- attributes -----------------------------------------------------------------------
VALUES = {
    **{"public_features": ["a"], "public_target": True, "target": "other"},
    **{"schema": skfdp.TableSchema({"a": Number(0, 1)}), "bounds": (0, 9)},
    **{"classes": [0, 1, 2], "target_bounds": (0, 9), "loss": "poisson"},
    **{"class_weight": {0: 3.0, 1: 1.0}},
    "solver": FeatureDPSGD(public_loss="gaussian"),
}
MISSING = [
    (name, declared)
    for name in sorted({*ESTIMATORS} - {"label-DP"})
    for declared in sorted(VALUES.keys() - ESTIMATORS[name].get_params().keys())
]


def plain(name):
    """Return a model with a seed and nothing public."""
    model = clone(ESTIMATORS[name]).set_params(random_state=0)
    if "public_features" in model.get_params():
        model.set_params(public_features=None)
    return model


def same(one, other):
    assert one.privacy_ == other.privacy_ and one.privacy_.public_features == ()
    for released in other._released:
        np.testing.assert_equal(getattr(one, released), getattr(other, released))


def test_every_shared_declaration_is_tried():
    shared = {*Declaration._fields}
    shown = {name for model in ESTIMATORS.values() for name in model.get_params()}
    assert VALUES.keys() >= shared & shown


@pytest.mark.parametrize(("name", "declared"), MISSING)
def test_attack_2_attribute_without_parameter_has_no_effect(name, declared, table):
    model = plain(name)
    before = dict(vars(model))
    with pytest.warns(skfdp.UtilityWarning, match=f"no parameter '{declared}'"):
        setattr(model, declared, VALUES[declared])
    assert vars(model) == before
    same(model.fit(*table), plain(name).fit(*table))


@pytest.mark.parametrize(("name", "declared"), MISSING)
def test_attack_2_class_attribute_has_no_effect(name, declared, table):
    model = plain(name)
    own = type(type(model).__name__, (type(model),), {declared: VALUES[declared]})
    found = own(**model.get_params(deep=False)).fit(*table)
    same(found, model.fit(*table))


def test_attack_2_subclass_with_fixed_parameters_ignores_other_attributes(table):
    class Fixed(skfdp.FeatureDPLogisticRegression):
        def __init__(self, epsilon=1.0):
            super().__init__(epsilon, bounds=(0, 1), classes=[0, 1])

    model = Fixed(2.0)
    with pytest.warns(skfdp.UtilityWarning, match="no parameter 'public_features'"):
        model.public_features = ["a"]
    with pytest.warns(skfdp.UtilityWarning, match="no parameter 'public_target'"):
        model.public_target = True
    assert model.fit(*table).privacy_.public_features == ()
    assert not model.privacy_.public_target


def test_attack_2_score_takes_no_bound_from_an_attribute(table):
    X, _ = table
    model = LinearRegression().fit(X, X["c"])
    model.target_bounds = (0, 1)
    given = {"metrics": "mean_absolute_error", "model_is_public": True}
    with pytest.raises(ValueError, match="declares no target_bounds"):
        skfdp.private_score(model, X, X["c"], 1.0, **given)
