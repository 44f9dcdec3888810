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

from __future__ import annotations

import functools
import importlib

import numpy as np
from numba.core import types

from skfdp.kernels.linking import FLOATS, address, caller
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION


def _leaf_of(name):
    return importlib.import_module(f"skfdp.kernels.losses.{name}").LOSS.leaf


#: Others know a residual by the place of its leaf; two losses may share one.
_LEAVES = tuple(dict.fromkeys(map(_leaf_of, (*CLASSIFICATION, *REGRESSION))))
_ARGUMENTS = {
    np.dtype(np.int16): (FLOATS, types.Array(types.int16, 1, "C"), types.float64),
    np.dtype(np.float64): (FLOATS, types.Array(types.float64, 1, "C"), types.float64),
}

#: ``call_leaf(address, (margins, target, parameter))``, inside of kernels.
call_leaf = caller(*_ARGUMENTS.values())


def place(leaf) -> int:
    """Return what others know a leaf by, the same in every process."""
    return _LEAVES.index(leaf)


@functools.cache
def leaf_address(kind: int, target: np.dtype) -> int:
    """Return the address of the leaf at a place, for targets of int16 or float64."""
    return address(_LEAVES[kind], _ARGUMENTS[target])
