"""Displays of effects; they need the extra ``plot``."""

from skfdp.inspection.effects import EffectsDisplay

__all__ = ["EffectsDisplay"]
