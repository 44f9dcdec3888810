"""Events, privacy curves, calibrated plans, reports and ledgers.

This package imports nothing else of skfdp but the decorator that says by which name
saved files find a class, and is the only importer of dp_accounting: whoever reviews the
accounting reads these files alone. Imports "as" themselves are for saved files only.
"""

from skfdp.privacy.assumptions import Assumption as Assumption
from skfdp.privacy.curves import GaussianCurve as GaussianCurve
from skfdp.privacy.curves import PLDCurve as PLDCurve
from skfdp.privacy.curves import PrivacyCurve, compose, gdp_delta, gdp_epsilon, gdp_mu
from skfdp.privacy.events import (
    RELATIONS,
    Event,
    PrivacyBudgetError,
    PrivacyWarning,
)
from skfdp.privacy.events import Nameless as Nameless
from skfdp.privacy.findings import Finding
from skfdp.privacy.fit_plan import FitPlan
from skfdp.privacy.ledger import PrivacyLedger, WhatIf
from skfdp.privacy.parts import Part as Part
from skfdp.privacy.plan import PrivacyPlan, calibrate
from skfdp.privacy.public_sets import Promise, promise
from skfdp.privacy.relations import Relation
from skfdp.privacy.report import Audit as Audit
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.reporting import read_report, report
from skfdp.privacy.selection import Selection
from skfdp.privacy.selection import SelectionCurve as SelectionCurve
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
