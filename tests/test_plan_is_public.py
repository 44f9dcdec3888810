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

from skfdp import PrivacyLedger

sys.path.append(str(Path(__file__).parent / "golden"))

from golden_cases import CASES, LOGISTIC, estimator, of_rows, rows, target
from golden_private import FINITE, public_columns, replaced

PRIVATE = {
    case["name"]: case for case in CASES if not math.isinf(case["params"]["epsilon"])
}


class Charged(BaseException):
    """Ends a fit at its charge; no handler of an Exception can hide it."""


class Spy(PrivacyLedger):
    """A ledger that keeps the text of what it is given, and ends the fit."""

    def __init__(self):
        super().__init__()
        self.text = None

    def charge(self, events, *, label=None):
        """Keep the charge."""
        self.text = repr((tuple(events), label))
        raise Charged


def charge_of(case, X, y):
    """Return the text of the charge of a fit."""
    spy = Spy()
    model = estimator(case).set_params(ledger=spy)
    with warnings.catch_warnings(), pytest.raises(Charged):
        warnings.simplefilter("ignore")
        model.fit(X, y, **of_rows(case))
    return spy.text


@pytest.mark.parametrize("name", PRIVATE)
def test_the_charge_is_equal_under_replacement(name):
    case = PRIVATE[name]
    wanted = charge_of(case, rows(case), target(case))
    for kind in FINITE:
        assert charge_of(case, *replaced(case, kind)) == wanted, kind


def test_a_plan_that_counts_private_zeros_is_seen(monkeypatch):
    from skfdp.solvers.descent import Descent

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
