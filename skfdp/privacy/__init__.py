"""Events, privacy curves, calibrated plans, reports and ledgers.

This package imports nothing else of skfdp but the decorator that names a class by the
module that users import it from, and is the only importer of dp_accounting: whoever
reviews the accounting reads these files alone.
"""

from skfdp.privacy.curves import PrivacyCurve, compose, gdp_delta, gdp_epsilon, gdp_mu
from skfdp.privacy.events import (
    RELATIONS,
    Event,
    PrivacyBudgetError,
    PrivacyWarning,
)
from skfdp.privacy.findings import Finding
from skfdp.privacy.fit_plan import FitPlan
from skfdp.privacy.ledger import PrivacyLedger, WhatIf
from skfdp.privacy.plan import PrivacyPlan, calibrate
from skfdp.privacy.public_sets import Promise, promise
from skfdp.privacy.relations import Relation
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.reporting import read_report, report
from skfdp.privacy.selection import Selection
from skfdp.privacy.steps import Lesson
from skfdp.privacy.store import LedgerEntry, Receipt

__all__ = [
    "RELATIONS",
    "Event",
    "Finding",
    "FitPlan",
    "LedgerEntry",
    "Lesson",
    "PrivacyBudgetError",
    "PrivacyCurve",
    "PrivacyLedger",
    "PrivacyPlan",
    "PrivacyReport",
    "PrivacyWarning",
    "Receipt",
    "Promise",
    "Relation",
    "Selection",
    "WhatIf",
    "calibrate",
    "compose",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "promise",
    "read_report",
    "report",
]
