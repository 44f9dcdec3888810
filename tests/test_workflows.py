"""Budgets under scikit-learn's own tools: every fit counts, limits hold."""

import math
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.data.target import encode_labels
from skfdp.solvers import NoisyGradientDescent

SOON = NoisyGradientDescent(max_iter=3)
# Jobs, and whether they are threads or processes. In memory there are threads only.
JOBS = [(n, "threading", in_file) for in_file in (False, True) for n in (1, 2)]
JOBS += [pytest.param(2, "loky", True, marks=pytest.mark.nightly)]


def epsilon_of(mu, delta):
    """Epsilon of mu-GDP, written down anew: Balle and Wang 2018, Theorem 8."""

    def excess(eps):
        tail = norm.logcdf(-mu / 2 - eps / mu)
        return norm.cdf(mu / 2 - eps / mu) - np.exp(eps + tail) - delta

    return brentq(excess, 0, 100) if excess(0) > 0 else 0.0


def mu_of(epsilon, delta):
    return brentq(lambda mu: epsilon_of(mu, delta) - epsilon, 1e-3, 10)


def fits(ledger):
    return len({entry.charge for entry in ledger.entries})


def classifier(ledger, **options):
    options = {"epsilon": 0.5, "delta": 1e-5, "solver": SOON} | options
    return skfdp.DPSGDFClassifier(bounds=(0, 1), ledger=ledger, **options)


@pytest.mark.parametrize(("n_jobs", "backend", "in_file"), JOBS)
def test_a_search_stops_at_the_limit(small, tmp_path, n_jobs, backend, in_file):
    """Peers' accountants are copied by clone: 16 fits at 0.5 left (0, 0) spent of 1."""
    # Every fit is mu-GDP with the mu of (0.5, 1e-5), and k of them sqrt(k) mu-GDP.
    mu = mu_of(0.5, 1e-5)
    most = 0
    while epsilon_of(mu * math.sqrt(most + 1), 1e-4) <= 1.0:
        most += 1
    assert 2 < most < 16
    path = tmp_path / "l.db" if in_file else None
    ledger = skfdp.PrivacyLedger(path, epsilon=1.0, delta=1e-4)
    grid = {"solver__clip_norm": [0.2, 0.4, 0.6, 0.8], "solver__momentum": [0.1, 0.5]}
    how = {"cv": KFold(2), "n_jobs": n_jobs, "error_score": "raise"}
    search = GridSearchCV(classifier(ledger), grid, **how)
    exhausted = pytest.raises(skfdp.PrivacyBudgetError, match="budget exhaust")
    with parallel_config(backend), exhausted:
        search.fit(*small)
    wanted = epsilon_of(mu * math.sqrt(most), 1e-4)
    assert fits(ledger) == most
    assert ledger.spent() == pytest.approx(wanted, rel=1e-6) and ledger.spent() <= 1.0
    assert not ledger.what_if(ledger.events[: len(ledger) // most]).allowed


def test_pipelines_and_column_transformers(small):
    X, y = small
    frame = pd.DataFrame(X, columns=list("abcd"))
    ledger = skfdp.PrivacyLedger()
    centre = skfdp.PrivateCenteringTransformer(bounds=(0, 1), ledger=ledger)
    columns = ColumnTransformer([("centred", centre, ["a"])], remainder="passthrough")
    model = make_pipeline(columns, classifier(ledger, epsilon=0.3))
    with parallel_config("threading"):
        scores = cross_val_score(model, frame, y, cv=KFold(3), n_jobs=2)
    assert np.isfinite(scores).all() and fits(ledger) == 2 * 3
    labels = {"PrivateCenteringTransformer", "DPSGDFClassifier"}
    assert {entry.label for entry in ledger.entries} == labels
    model.fit(frame, y)
    with pytest.raises(ValueError, match="cannot count the private fits inside"):
        skfdp.report(model)  # the ledger can
    assert skfdp.report(ledger, delta=1e-5).n_fits == 8


def test_fits_in_threads_leave_the_warnings_of_the_process_alone():
    """What one thread restores was changed by another: nothing may be silenced."""
    before, interval = list(warnings.filters), sys.getswitchinterval()
    y = np.arange(300) % 2
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda _: encode_labels(y, None), range(100)))
    finally:
        sys.setswitchinterval(interval)
    assert not [f for f in warnings.filters if f[0] == "ignore" and f not in before]


def test_without_raising_the_later_fits_score_nan(small):
    ledger = skfdp.PrivacyLedger(epsilon=1.0, delta=1e-5)
    with pytest.warns(FitFailedWarning, match="budget exhausted"):
        scores = cross_val_score(classifier(ledger), *small, cv=KFold(6))
    paid = fits(ledger)
    assert 1 < paid < 6 and ledger.spent() <= 1.0
    np.testing.assert_array_equal(np.isfinite(scores), np.arange(6) < paid)


@pytest.mark.nightly
def test_processes_refuse_a_ledger_in_memory(small):
    ledger, how = skfdp.PrivacyLedger(), {"cv": 3, "n_jobs": 2, "error_score": "raise"}
    refused = pytest.raises((pickle.PicklingError, RuntimeError, ValueError))
    with parallel_config("loky"), refused as caught:
        cross_val_score(classifier(ledger), *small, **how)
    chain, error = "", caught.value
    while error is not None:
        chain, error = chain + str(error), error.__cause__ or error.__context__
    assert "use PrivacyLedger(path)" in chain and len(ledger) == 0


def test_a_ledger_among_the_candidates_is_one_ledger(small, tmp_path):
    """set_params of cloned candidates hands out the handle, not a copy."""
    ledger = skfdp.PrivacyLedger(tmp_path / "l.db")
    search = GridSearchCV(
        classifier(None), {"ledger": [ledger]}, cv=KFold(2), refit=True
    ).fit(*small)
    assert fits(ledger) == 3 and search.best_params_["ledger"] is not None
    assert clone(search.best_estimator_).ledger.path == ledger.path


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda model: CalibratedClassifierCV(model, cv=2), "calibrator"),
        (lambda model: StackingClassifier([("a", model)], cv=2), "final estimator"),
        (lambda model: BaggingClassifier(model, n_estimators=2), "repeats records"),
    ],
)
def test_reports_refuse_and_say_why(small, make, why):
    """scikit-learn uses the private target beside our fits."""
    ledger = skfdp.PrivacyLedger()
    model = skfdp.FeatureDPLogisticRegression(
        epsilon=0.5, bounds=(0, 1), ledger=ledger, solver=SOON
    )
    fitted = make(model).fit(*small)
    assert fits(ledger) >= 2  # what can be charged is
    for one in (fitted, make_pipeline(fitted)):
        with pytest.raises(ValueError, match=why):
            skfdp.report(one)
