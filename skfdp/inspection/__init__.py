"""Displays of effects and of budgets; they need the extra ``plot``."""

from skfdp.inspection.effects import EffectsDisplay
from skfdp.inspection.ledger import LedgerDisplay

__all__ = ["EffectsDisplay", "LedgerDisplay"]
