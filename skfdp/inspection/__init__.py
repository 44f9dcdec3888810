"""Displays: what a budget buys, and where it went. They need the extra ``plot``."""

from skfdp.inspection.ledger import LedgerDisplay
from skfdp.inspection.utility import PrivacyUtilityDisplay

__all__ = ["LedgerDisplay", "PrivacyUtilityDisplay"]
