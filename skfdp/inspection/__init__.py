"""Displays of effects, of scores and of budgets; they need the extra ``plot``."""

from skfdp.inspection.effects import EffectsDisplay
from skfdp.inspection.ledger import LedgerDisplay
from skfdp.inspection.utility import PrivacyUtilityDisplay

__all__ = ["EffectsDisplay", "LedgerDisplay", "PrivacyUtilityDisplay"]
