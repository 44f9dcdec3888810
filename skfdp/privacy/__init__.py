"""Events, privacy curves, calibrated plans, reports and ledgers.

These files are enough to review the accounting. They import nothing else from skfdp
except its version and `skfdp.addresses`, and only they import dp_accounting.
"""

from skfdp.privacy.accounting import (
    Guarantee,
    PrivacyCurve,
    PrivacyPlan,
    calibrate,
    compose,
    composed_guarantee,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
)
from skfdp.privacy.entries import FitPlan, LedgerEntry, Receipt, SearchCheck
from skfdp.privacy.events import (
    RELATIONS,
    AddOrRemoveOne,
    Event,
    PrivacyBudgetError,
    PrivacyWarning,
    Relation,
)
from skfdp.privacy.ledger import PrivacyLedger, WhatIf
from skfdp.privacy.pipelines import find_reports, report
from skfdp.privacy.preprocessing_steps import StepDependence
from skfdp.privacy.report import PrivacyReport, read_report

__all__ = [
    "AddOrRemoveOne",
    "Event",
    "FitPlan",
    "Guarantee",
    "LedgerEntry",
    "PrivacyBudgetError",
    "PrivacyCurve",
    "PrivacyLedger",
    "PrivacyPlan",
    "PrivacyReport",
    "PrivacyWarning",
    "RELATIONS",
    "Receipt",
    "Relation",
    "SearchCheck",
    "StepDependence",
    "WhatIf",
    "calibrate",
    "compose",
    "composed_guarantee",
    "find_reports",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "read_report",
    "report",
]
