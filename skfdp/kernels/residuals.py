"""Compiled residuals: derivative of a loss with respect to the margins.

Every loss has a leaf (see `kernels.losses`), which replaces the margins of some rows by
their residuals:

* margins : float64 (n_outputs, n_rows), changed in place; one output for two classes;
* target : integers (n_rows,), the class of each row, 0-based; for the regression losses
  float64, its value;
* parameter : float64, which most ignore.

Loops run over the rows, so that they become vectors; those over the outputs of a row go
in one order. What a row contributes cannot depend on where it stands: additions,
multiplications, divisions, square roots and comparisons round alike in vectors and in
scalars, and nothing else is used. No fastmath: the NaN guard of the clip needs NaN. For
the same reasons leaves call `exponentials` and not `math.exp`.
"""

import importlib

from skfdp.kernels.compiling import kernel, part
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION


def _leaf_of(name):
    return importlib.import_module(f"skfdp.kernels.losses.{name}").LOSS.leaf


#: Compiled loops know a residual by the place of its leaf; two losses may share one.
_LEAVES = tuple(dict.fromkeys(map(_leaf_of, (*CLASSIFICATION, *REGRESSION))))


def place(leaf) -> int:
    """Return what compiled loops know a leaf by."""
    return _LEAVES.index(leaf)


def _choice(kind_of_leaf, leaf, others):
    """Return what calls a leaf if it is asked for, and the others otherwise."""

    @part
    def chosen(kind, parameter, margins, target):
        if kind == kind_of_leaf:
            leaf(margins, target, parameter)
        else:
            others(kind, parameter, margins, target)

    return chosen


@part
def _any_leaf(kind, parameter, margins, target):
    """Leave the margins as they are: no leaf has this place."""


for _place, _leaf in enumerate(_LEAVES):
    _any_leaf = _choice(_place, _leaf, _any_leaf)


@kernel(error_model="numpy")
def residuals(kind, parameter, margins, target):
    """Call the leaf of a kind, which `place` returned."""
    _any_leaf(kind, parameter, margins, target)
