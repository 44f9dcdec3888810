"""Plots of effects; they need matplotlib (``pip install 'skfdp[plot]'``)."""

from skfdp.inspection.effects import EffectsDisplay

__all__ = ["EffectsDisplay"]
