"""Ordered levels: the example of a new column type in CONTRIBUTING.rst."""

import dataclasses

import numpy as np

from skfdp.data._basis import MISSING, SplineBlock
from skfdp.schema import Category, SchemaError


@dataclasses.dataclass(frozen=True)
class Ordinal(Category, type="ordinal"):
    """Column of levels in ascending order; parameters as for `Category`.

    Undeclared levels count as missing. Effects of neighbouring levels are similar.
    """

    read_as = "ordered levels"

    def check(self, name, is_outcome):
        """Refuse a single level."""
        if len(self.values) == 1:
            raise SchemaError(f"{name!r} has one level: declare at least two levels.")

    def blocks(self, name, place, smooth=False):
        """Return a linear spline of the ranks, with a knot for each level."""
        spelling = self.spelling(name)
        levels, knots = (*spelling.names, MISSING), np.arange(len(self.values))
        return [SplineBlock(name, place, levels, knots=knots, spelling=spelling)]
