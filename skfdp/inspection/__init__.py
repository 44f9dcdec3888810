"""Displays of effects and of budgets; they need the extra ``plot``."""

from skfdp.inspection.effects import EffectsDisplay, LedgerDisplay

__all__ = ["EffectsDisplay", "LedgerDisplay"]
