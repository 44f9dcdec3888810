"""What a fit charges is a function of public facts: it never looks at private values.

Every recorded case is fitted up to its charge, on its own table and on tables with
other private values; a ledger that ends the fit there keeps what it was given, which
must be equal byte for byte. Private columns change their values, zeros and range; a
private target keeps its set of labels, which is an assumption of the report.
"""

import dataclasses
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from skfdp import PrivacyLedger

sys.path.append(str(Path(__file__).parent / "golden"))

from golden_cases import (
    CASES,
    COMPLETION,
    LOGISTIC,
    estimator,
    rows,
    target,
)

PRIVATE = {
    case["name"]: case for case in CASES if not math.isinf(case["params"]["epsilon"])
}


class Charged(BaseException):
    """Ends a fit at its charge; no handler of an Exception can hide it."""


class Spy(PrivacyLedger):
    """A ledger that keeps the text of what it is given, and ends the fit."""

    def __init__(self):
        self.text = None

    def charge(self, events, *, label=None, plan=None):
        """Keep the charge."""
        self.text = repr((tuple(events), label, plan))
        raise Charged


def charge_of(case, X, y):
    """Return the text of the charge of a fit."""
    spy = Spy()
    model = estimator(case).set_params(ledger=spy)
    with warnings.catch_warnings(), pytest.raises(Charged):
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return spy.text


def public_columns(case):
    """Return the mask of the public columns, told from the parameters alone."""
    spec = case["params"].get("inner", case["params"]).get("public_features")
    if spec is None or isinstance(spec, str):
        return np.full(6, spec == "all")
    if spec == ["pub*"]:
        spec = [0, 1]
    mask = np.zeros(6, dtype=bool)
    mask[spec] = True
    return mask


def with_private_columns(X, private, values):
    """Return X with other values in its private columns, in the same form."""
    if issparse(X):
        dense = X.toarray()
        dense[:, private] = values[:, private]
        return csr_array(dense)
    X = X.copy()
    if hasattr(X, "iloc"):
        X.iloc[:, np.flatnonzero(private)] = values[:, private]
    else:
        X[:, private] = values[:, private].astype(X.dtype)
    return X


def replaced(case, kind):
    """Return the table of a case with every private value replaced."""
    X, y, rng = rows(case), target(case), np.random.default_rng(1)
    integral = case.get("as") == "uint8"
    values = {
        "zeros": np.zeros(X.shape),
        "others": rng.integers(1, 255, X.shape) if integral else rng.random(X.shape),
        "far away": np.full(X.shape, 255) if integral else rng.normal(0, 1e6, X.shape),
    }[kind]
    X = with_private_columns(X, ~public_columns(case), values)
    params = case["params"].get("inner", case["params"])
    if params.get("public_target") or case["estimator"] == COMPLETION:
        return X, y
    if case["data"] in ("real", "counts"):
        return X, np.full(len(y), {"zeros": 0.0, "others": 2.0, "far away": 1e6}[kind])
    labels = np.unique(y)
    other = np.full(len(y), labels[-1])  # all of one class, but for one of each
    other[: len(labels)] = labels
    return X, other if kind in ("zeros", "far away") else y[::-1]


@pytest.mark.parametrize("name", PRIVATE)
def test_the_charge_is_equal_under_replacement(name):
    case = PRIVATE[name]
    wanted = charge_of(case, rows(case), target(case))
    for kind in ("zeros", "others", "far away"):
        assert charge_of(case, *replaced(case, kind)) == wanted, kind


def test_a_plan_that_counts_private_zeros_is_seen(monkeypatch):
    from skfdp.estimators.linear_model.descent import Descent

    plan = Descent.plan

    def peeking(self, public, prepared, budget):
        counted = public.n_records + np.count_nonzero(public._table) % 7
        public = dataclasses.replace(public, n_records=counted)
        return plan(self, public, prepared, budget)

    monkeypatch.setattr(Descent, "plan", peeking)
    case = PRIVATE[f"{LOGISTIC}: columns public"]
    wanted = charge_of(case, rows(case), target(case))
    assert charge_of(case, *replaced(case, "zeros")) != wanted


def test_replacement_leaves_public_parts_and_changes_the_rest():
    case = PRIVATE[f"{LOGISTIC}: both public, csr"]
    X, public = rows(case).toarray(), public_columns(case)
    other, y = replaced(case, "far away")
    other = other.toarray()
    assert (other[:, public] == X[:, public]).all()
    assert (other[:, ~public] != X[:, ~public]).all()
    assert (y == target(case)).all()
