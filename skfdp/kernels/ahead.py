"""Kernels that are compiled before a fit asks for them, so that processes can share it.

``python -m skfdp.kernels.ahead noise rows`` compiles two of `GROUPS` into the cache.
Which ones there are, and their types, are facts of this version: nothing here sees a
record. What a fit needs besides is compiled when it does.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence

import numpy as np
from numba import typeof, types
from numba.core.sigutils import normalize_signature

from skfdp.kernels import short_tiles
from skfdp.kernels.compiling import kept, known
from skfdp.kernels.contributions import Clip, Column, Task, leaf_address, place
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION

_MATRIX, _SHORTS, _NUMBERS = "float64[:, ::1]", "int16[:, ::1]", "int64[::1]"
_SIGNATURES = {
    "noise": {
        "sampling.add_rounded_normals": (_NUMBERS, "float64", "uint64[::1]", _NUMBERS),
    },
    "coins": {
        "sampling.poisson_members": ("uint64[::1]", "float64, int64, int64", _NUMBERS),
    },
    "rows": {
        "contributions.shorten": (_MATRIX, "float64, boolean, float64", _MATRIX),
        "tiles.weight_bits": (_MATRIX,),
        "tiles.round_weights": (_MATRIX, "int64, int64", _SHORTS),
        "short_tiles.unfold": ("int64[:, ::1]", "int64, int64", "int64[:, ::1]"),
        "contributions.descend": (*3 * ("float64[::1]",), "float64, float64"),
    },
}


def _compile_signatures(group: str) -> None:
    for name, arguments in _SIGNATURES[group].items():
        file, kernel = name.split(".")
        function = getattr(importlib.import_module(f"skfdp.kernels.{file}"), kernel)
        function.compile(normalize_signature(f"void({', '.join(arguments)})")[0])


def _compile_leaf(loss: str, target: type) -> None:
    leaf = importlib.import_module(f"skfdp.kernels.losses.{loss}").LOSS.leaf
    leaf_address(place(leaf), np.dtype(target))


def _compile_loop(target: type) -> None:
    """Compile the loop of a step over dense rows; it is the same for all losses."""
    empty = np.empty(0)
    column = Column(empty.astype(target), 1, 0)
    task = Task(0, 0.0, column, empty, np.empty((0, 0)), False)
    links = short_tiles.Links(0, 0, 0, 0)
    clip = Clip(Column(empty, 1, 0), 1.0, 1.0, 1.0)
    shorts, number = types.Array(types.int16, 2, "C"), types.int64
    numbers, sums = types.Array(number, 1, "C"), types.Array(number, 2, "C")
    rows = shorts, numbers, types.boolean, number, number
    facts = typeof(task), typeof(clip), number, typeof(links)
    signature = *rows, shorts, types.float64, *facts, numbers, sums
    short_tiles.add_clipped.compile(signature)


#: What compiles each group of kernels, by name.
GROUPS: dict[str, Callable[[], None]] = {
    **{group: functools.partial(_compile_signatures, group) for group in _SIGNATURES},
    "tiles": lambda: short_tiles.links(6),  # what any number of outputs needs
    "loop of classes": functools.partial(_compile_loop, np.int16),
    "loop of values": functools.partial(_compile_loop, np.float64),
    **{
        loss: functools.partial(_compile_leaf, loss, target)
        for losses, target in ((CLASSIFICATION, np.int16), (REGRESSION, np.float64))
        for loss in losses
    },
}


def compile_groups(names: Sequence[str]) -> None:
    """Compile some of the groups."""
    for name in names:
        GROUPS[name]()


def can_be_kept() -> bool:
    """Return whether there is a folder for compiled code."""
    return kept(short_tiles.add_clipped)


def cold() -> bool:
    """Return whether the loop of a step was not compiled yet, and can be kept."""
    return can_be_kept() and not known(short_tiles.add_clipped)


if __name__ == "__main__":
    compile_groups(sys.argv[1:])
