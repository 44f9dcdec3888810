"""A check of a search says what the search then charges, and does nothing itself."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, PrivacyBudgetError
from skfdp.privacy import PrivacyLedger

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
X = pd.DataFrame(np.random.default_rng(0).random((90, 2)), columns=["a", "b"])
Y = pd.Series((X["a"] > 0.5).astype(int), name="y")
GRID = {"C": [0.1, 1.0, 10.0]}
FACTS = {"bounds": (0, 1), "classes": [0, 1]}


def a_ledger(epsilon=3.0, path=None):
    return PrivacyLedger(path, epsilon=epsilon, delta=1e-5)


def model(ledger, kind=DPSGDFClassifier, **parameters):
    return kind(ledger=ledger, **FACTS, **parameters)


TWO, RANDOM = {"cv": KFold(2)}, {"cv": ShuffleSplit(2), "refit": False, "n_iter": 2}
SCORED = {"scoring": ["accuracy", "neg_log_loss"], "refit": "accuracy"}
FEATURE_DP = {"kind": FeatureDPLogisticRegression, "public_features": ["a"]}
SEARCHES = {
    "grid": lambda ledger: GridSearchCV(model(ledger), GRID, cv=KFold(3)),
    "stratified, other costs": lambda ledger: GridSearchCV(
        model(ledger), {"epsilon": [0.3, 2.0, 0.5]}, cv=2
    ),
    "no refit": lambda ledger: RandomizedSearchCV(
        model(ledger), GRID, random_state=0, **RANDOM
    ),
    "halving": lambda ledger: HalvingGridSearchCV(
        model(ledger, epsilon=0.5), GRID, random_state=0, **TWO
    ),
    "pipeline": lambda ledger: GridSearchCV(
        make_pipeline(FunctionTransformer(), "passthrough", model(ledger)),
        {"dpsgdfclassifier__C": [0.1, 1.0]},
        **TWO,
    ),
    "public column": lambda ledger: GridSearchCV(
        model(ledger, **FEATURE_DP), {"C": [0.1, 1.0]}, error_score=0, **TWO, **SCORED
    ),
}


@pytest.mark.parametrize(
    "limit", [2.5, *(pytest.param(e, marks=pytest.mark.slow) for e in (1.2, 9.0))]
)
@pytest.mark.parametrize("name", SEARCHES)
def test_it_says_what_the_search_charges(name, limit):
    search = SEARCHES[name](ledger := a_ledger(limit))
    found = ledger.check_search(search, X, Y)
    assert not ledger.entries and not hasattr(search, "cv_results_")
    assert f"{found.n_fits} fits" in repr(found)
    assert (" + 1 refit), " in repr(found)) == bool(search.refit)
    try:
        search.fit(X, Y)
        refused = False
    except (PrivacyBudgetError, ValueError):
        refused = True
    charged = len({entry.charge for entry in ledger.entries})
    if name == "stratified, other costs":  # the refit may be of a cheaper candidate
        assert charged >= found.n_allowed
        return
    assert charged == found.n_allowed
    assert refused == bool(search.refit and not found.allows_refit)
    assert (found.reason is None) == (found.n_allowed == found.n_fits)


def test_nothing_is_released_or_drawn(releases):
    ledger, source = a_ledger(), np.random.RandomState(0)
    search = RandomizedSearchCV(model(ledger), GRID, n_iter=2, random_state=source)
    before = source.get_state()[1].copy()
    hidden = pd.DataFrame(np.full(X.shape, np.nan), columns=X.columns)
    found = ledger.check_search(search, hidden, Y)
    assert not releases and not ledger.entries
    assert repr(found) == repr(ledger.check_search(search, X, Y))
    np.testing.assert_array_equal(source.get_state()[1], before)


def test_a_file_may_be_given_by_its_path(tmp_path):
    path = tmp_path / "l.db"
    ledger = a_ledger(path=path)
    search = GridSearchCV(model(str(path)), GRID, cv=KFold(2))
    assert ledger.check_search(search, X, Y).n_allowed == 7
    with pytest.raises(ValueError, match="has another ledger"):
        ledger.check_search(search.set_params(estimator=model(tmp_path / "o")), X, Y)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("search", "match"),
    [
        (GridSearchCV(model(None), {}), "has no ledger"),
        (GridSearchCV(LogisticRegression(), {}), "has no ledger"),
        (GridSearchCV(model(PrivacyLedger()), {}), "another ledger or data set"),
        (DPSGDFClassifier(), r"DPSGDFClassifier\(\) must be a search of scikit-learn"),
        (None, "must be a search of scikit-learn"),
    ],
)
def test_other_ledgers_and_what_is_no_search_are_refused(search, match):
    with pytest.raises((TypeError, ValueError), match=match):
        a_ledger().check_search(search, X, Y)


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (
            lambda inner: make_pipeline(StandardScaler(), inner),
            "step 'standardscaler' (StandardScaler) learns from X",
        ),
        (OneVsRestClassifier, "OneVsRestClassifier has no plan method"),
    ],
)
def test_what_cannot_be_planned_is_counted(around, why):
    ledger = a_ledger()
    search = GridSearchCV(around(model(ledger)), {}, cv=3)
    found = ledger.check_search(search, X, Y)
    assert (found.n_fits, found.n_allowed, found.allows_refit) == (4, None, False)
    assert f"how many the ledger allows is unknown: {why}" in repr(found)


def test_groups_reach_the_folds_and_the_plans():
    ledger, groups = a_ledger(1.0), np.arange(90) // 3
    with sklearn.config_context(enable_metadata_routing=True):
        one = model(ledger).set_fit_request(groups=True)
        search = GridSearchCV(one, {}, cv=GroupKFold(3), refit=False)
        found = ledger.check_search(search, X, Y, groups=groups)
        assert (found.n_fits, found.n_allowed) == (3, 1)
        search.fit(X, Y, groups=groups)
    assert {event.unit for event in ledger.events} == {"person"}
    assert len({entry.charge for entry in ledger.entries}) == 1
