"""What a fit charges is a function of public facts: it never looks at private values.

Every recorded case is fitted up to its charge, on its own table and on tables with
other private values; a ledger that ends the fit there keeps what it was given, which
must be equal byte for byte. Private columns change their values, zeros and range; a
private target keeps its set of labels, which is an assumption of the report.
"""

import math
import warnings

import pytest
from golden_cases import CASES, estimator, of_rows, rows, target
from golden_private import FINITE, replaced
from problems import Stopped

from skfdp import PrivacyLedger

PRIVATE = {
    case["name"]: case for case in CASES if not math.isinf(case["params"]["epsilon"])
}


class Spy(PrivacyLedger):
    """A ledger that keeps the text of what it is given, and ends the fit."""

    def __init__(self):
        super().__init__()
        self.text = None

    def charge(self, events, *, label=None):
        """Keep the charge."""
        self.text = repr((tuple(events), label))
        raise Stopped


def charge_of(case, X, y):
    """Return the text of the charge of a fit."""
    spy = Spy()
    model = estimator(case).set_params(ledger=spy)
    with warnings.catch_warnings(), pytest.raises(Stopped):
        warnings.simplefilter("ignore")
        model.fit(X, y, **of_rows(case))
    return spy.text


@pytest.mark.parametrize("name", PRIVATE)
def test_the_charge_is_equal_under_replacement(name):
    case = PRIVATE[name]
    wanted = charge_of(case, rows(case), target(case))
    for kind in FINITE:
        assert charge_of(case, *replaced(case, kind)) == wanted, kind
