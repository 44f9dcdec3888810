"""The order of a fit: what is told and charged comes before any private value."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    PrivacyLedger,
    PrivacyWarning,
    PrivateCenteringTransformer,
)
from skfdp.mechanisms import release as mechanism
from skfdp.privacy import PrivacyBudgetError
from skfdp.solvers import NoisyGradientDescent, NoisySGD

COMMON = {"epsilon": 1.0, "delta": 1e-5, "bounds": (0, 1)}
LABELS = {"classes": [0, 1], "target": "y"}
TARGET = {"target_bounds": (0, 1), "target": "y"}
ESTIMATORS = {
    "classifier": DPSGDFClassifier(
        solver=NoisyGradientDescent(max_iter=3), **COMMON, **LABELS
    ),
    "regressor": DPSGDFRegressor(
        solver=NoisyGradientDescent(max_iter=3), **COMMON, **TARGET
    ),
    "feature-DP": FeatureDPLogisticRegression(
        public_features=[0], solver=NoisyGradientDescent(max_iter=3), **COMMON, **LABELS
    ),
    "label-DP": FeatureDPLogisticRegression(**COMMON, **LABELS, public_features="all"),
    "network": FeatureDPMLPClassifier(
        public_features=[0],
        hidden_layer_sizes=(3,),
        solver=NoisySGD(max_iter=2),
        **COMMON,
        **LABELS,
    ),
    "centring": PrivateCenteringTransformer(**COMMON),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((400, 3)), columns=["a", "b", "c"])
    return X, (X["a"] + X["b"] > 1).astype(int)


def fitted(name, table, **changes):
    model = clone(ESTIMATORS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.set_params(**changes).fit(*table)


@every_estimator
def test_a_fit_is_charged_before_anything_is_released(
    name, table, monkeypatch, tmp_path
):
    ledger, seen = PrivacyLedger(tmp_path / "ledger.sqlite"), []
    noisy_sum = mechanism._noisy_sum

    def watched(query, *args, **kwargs):
        seen.append(len(ledger))
        return noisy_sum(query, *args, **kwargs)

    monkeypatch.setattr(mechanism, "_noisy_sum", watched)
    report = fitted(name, table, ledger=ledger).privacy_
    assert seen
    # All events of the fit, at its first release.
    assert set(seen) == {len(report.events)}
    assert ledger.events == report.events
    ledger.check_report(report)


@every_estimator
def test_a_fit_that_is_refused_has_released_nothing(name, table, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("a release without a charge")

    monkeypatch.setattr(mechanism, "_noisy_sum", never)
    ledger = PrivacyLedger(epsilon=0.5, delta=1e-5)
    with pytest.raises(PrivacyBudgetError, match="budget exhausted"):
        fitted(name, table, ledger=ledger)
    assert not ledger.entries


@every_estimator
def test_a_fit_that_fails_stays_charged(name, table, monkeypatch):
    def fails(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(mechanism, "_noisy_sum", fails)
    ledger = PrivacyLedger()
    with pytest.raises(ZeroDivisionError):
        fitted(name, table, ledger=ledger)
    assert ledger.entries


@every_estimator
def test_a_seed_is_told_and_recorded(name, table):
    ledger = PrivacyLedger()
    model = clone(ESTIMATORS[name])
    with pytest.warns(PrivacyWarning, match="NO privacy guarantee"):
        model.set_params(random_state=0, ledger=ledger).fit(*table)
    assert model.privacy_.seeded
    assert all(event.seeded for event in ledger.events)
    assert not fitted(name, table).privacy_.seeded


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
