"""Budgets under scikit-learn's own tools: every fit counts, limits hold."""

import math
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.data.target import encode_labels
from skfdp.privacy import gdp_epsilon, gdp_mu
from skfdp.solvers import NoisyGradientDescent

SOON = NoisyGradientDescent(max_iter=3)
# Jobs, and whether they are threads or processes. In memory there are threads only.
JOBS = [(n, "threading", in_file) for in_file in (False, True) for n in (1, 2)]
JOBS += [pytest.param(2, "loky", True, marks=pytest.mark.nightly)]


def fits(ledger):
    return len({entry.charge for entry in ledger.entries})


def classifier(ledger, **options):
    options = {"epsilon": 0.5, "delta": 1e-5, "solver": SOON} | options
    return skfdp.DPSGDFClassifier(bounds=(0, 1), ledger=ledger, **options)


@pytest.mark.parametrize(("n_jobs", "backend", "in_file"), JOBS)
def test_a_search_stops_at_the_limit(small, tmp_path, n_jobs, backend, in_file):
    """Peers' accountants are copied by clone: 16 fits at 0.5 left (0, 0) spent of 1."""
    # Every fit is mu-GDP with the mu of (0.5, 1e-5), and k of them sqrt(k) mu-GDP.
    mu, most = gdp_mu(0.5, 1e-5), 0
    while gdp_epsilon(1e-4, mu * math.sqrt(most + 1)) <= 1.0:
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
    wanted = gdp_epsilon(1e-4, mu * math.sqrt(most))
    assert fits(ledger) == most
    assert ledger.spent() == pytest.approx(wanted, rel=1e-6) and ledger.spent() <= 1.0
    assert not ledger.what_if(ledger.events[: len(ledger.entries) // most]).allowed


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
