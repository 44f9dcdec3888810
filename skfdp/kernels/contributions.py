"""The contribution of a record to a step: residual, norm, clip, rounding.

A contribution is the outer product of a record's residual and row, a matrix of rank
one. `weighted_residuals` computes residuals, and `clip_residuals` clips and rounds
them. With a public loss a contribution is a difference of two such matrices, which
`clip_differences` clips and rounds.

Shapes, for B records and K outputs: margins and residuals are float64 (K, B); rows are
int64, the numbers of at least B records. Loops run over the records, and use only
operations that round alike in vectorised and in scalar code.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numba import typeof
from numba.core import types

from skfdp.kernels import NotCompiledError
from skfdp.kernels.compiling import (
    FLOATS,
    INTEGERS,
    address,
    caller,
    kernel,
    part,
    shared,
    twin_of,
)
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION, loss_named

# Every loss has a compiled function, its leaf (see `kernels.losses`), which replaces
# the margins of some rows by their residuals. The arguments of a leaf are
#
# * margins : float64 (n_outputs, n_rows), changed in place; one output for two classes;
# * target : (n_rows,), the class of each row as an integer, 0-based, or for the
#   regression losses the value of each row as float64;
# * parameter : float64, which most losses ignore.
#
# Inner loops run over the rows, so that LLVM vectorises them. A row's contribution must
# not depend on the position of the row. The outputs of a row are therefore handled in a
# fixed order. Leaves use only additions, multiplications, divisions, square roots and
# comparisons, which round alike in vectorised and in scalar code. They call
# `exponential`, not `math.exp`. They use no fastmath, because the clip must recognise
# NaN.


#: A `Task` has the index of its leaf in this tuple, the same in every process. Losses
#: may share a leaf.
LOSS_LEAVES = tuple(
    dict.fromkeys(loss_named(name).leaf for name in (*CLASSIFICATION, *REGRESSION))
)
_ARGUMENTS = {
    np.dtype(np.int16): (FLOATS, types.Array(types.int16, 1, "C"), types.float64),
    np.dtype(np.float64): (FLOATS, types.Array(types.float64, 1, "C"), types.float64),
}

#: Kernels call a leaf by ``call_leaf(address, (margins, target, parameter))``.
call_leaf = caller(*_ARGUMENTS.values())


@functools.cache
def leaf_address(kind: int, target: np.dtype) -> int:
    """Return the address of a leaf of `LOSS_LEAVES`, for targets int16 or float64."""
    return address(LOSS_LEAVES[kind].compiled, _ARGUMENTS[target])


class PerRow(NamedTuple):
    """One number for each row: ``memory[step * row + first]`` for row number `row`."""

    memory: np.ndarray
    step: int
    first: int

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of some rows."""
        return self.memory[self.step * rows + self.first]


class Task(NamedTuple):
    """The loss, targets and weights that turn margins into residuals."""

    kind: int  # index of the loss's leaf in `LOSS_LEAVES`
    parameter: float  # the parameter of the loss
    target: PerRow  # int16 or float64; empty if the residual needs no target
    class_weight: np.ndarray  # float64 (n_classes,), or (0,) for no weights
    offset: np.ndarray  # added to the margins: float64 (n, K), or (0, 0) for nothing
    orthant: bool  # set residuals to 0 if the target fixes the opposite sign
    share: np.ndarray = np.empty(0)  # weights of rows (n,), or (0,) for none


_NONE = PerRow(np.empty(0), 1, 0)


class Clip(NamedTuple):
    """Bounds of a contribution, which is a residual times a row of integers.

    Residuals are rounded to integer multiples of `unit`. The integers saturate at
    `largest`. `limits` holds the results of `limits_of`, or nothing: then they are
    computed where they are used.
    """

    squared_norms: PerRow
    clip_norm: float
    unit: float
    largest: float
    limits: PerRow = _NONE


@part
def entry(column, row):
    """Return the number that a `PerRow` holds for a row."""
    return column.memory[column.step * row + column.first]


@part
def entries(column, rows, out):
    """Write the numbers that a `PerRow` holds for some rows, faster if consecutive."""
    n_rows, apart = len(out), 0
    for i in range(n_rows):
        apart |= rows[i] - rows[0] - i
    if apart == 0 and column.step == 1 and n_rows > 0:
        start = np.uint64(column.first + rows[0])  # unsigned: no test for negatives
        for i in range(np.uint64(n_rows)):
            out[i] = column.memory[start + i]
    else:
        for i in range(n_rows):
            out[i] = column.memory[column.step * rows[i] + column.first]


@part
def _weigh(margins, rows, leaf, task):
    n_outputs, n_rows = margins.shape
    if task.offset.size > 0:
        for i in range(n_rows):
            for k in range(n_outputs):
                margins[k, i] += task.offset[rows[i], k]
    target = np.empty(n_rows, task.target.memory.dtype)
    if task.target.memory.size > 0:
        entries(task.target, rows, target)
    call_leaf(leaf, (margins, target, task.parameter))
    if task.class_weight.size > 0:
        for i in range(n_rows):
            for k in range(n_outputs):
                margins[k, i] *= task.class_weight[np.int64(target[i])]
    if task.share.size > 0:
        for i in range(n_rows):
            share = task.share[rows[i]]
            for k in range(n_outputs):
                margins[k, i] *= share
    if task.orthant:
        # In exact arithmetic no sign is wrong, but a rounded softmax may exceed 1.
        for k in range(n_outputs):
            toward = k + (n_outputs == 1)
            for i in range(n_rows):
                r = margins[k, i]
                wrong = r > 0.0 if target[i] == toward else r < 0.0
                margins[k, i] = 0.0 if wrong else r


def _weighted(margins, rows, task):
    _weigh(margins, rows, leaf_address(task.kind, task.target.memory.dtype), task)


@twin_of(_weighted)
def weighted_residuals(margins: np.ndarray, rows: np.ndarray, task: Task) -> None:
    """Add the offset of the task to margins, and replace them by weighted residuals."""
    if task.offset.size > 0:
        margins += task.offset[rows].T
    target = task.target.of(rows) if task.target.memory.size > 0 else np.empty(0)
    LOSS_LEAVES[task.kind](margins, target, task.parameter)
    if task.class_weight.size > 0:
        margins *= task.class_weight[target.astype(np.intp)]
    if task.share.size > 0:
        margins *= task.share[rows]
    if task.orthant:
        outputs = np.arange(len(margins))[:, None] + (len(margins) == 1)
        wrong = np.where(outputs == target, margins > 0.0, margins < 0.0)
        margins[wrong] = 0.0


@part
def _clip_residuals(residuals, rows, clip):
    limits = _limits(residuals, rows, clip)
    if residuals.shape[0] == 1:
        _clip_one(residuals, limits, clip)
    else:
        _clip_many(residuals, limits, clip)


@twin_of(_clip_residuals)
def clip_residuals(residuals, rows, clip):
    """Clip each contribution of rank one to the clip norm and quantise, in place.

    Record i contributes the outer product of residuals[:, i] and x, where x is row
    rows[i]. Only the residuals change. They are rounded to the nearest multiple of the
    unit. Rounding can lengthen a contribution by at most unit sqrt(K) |x| / 2. This
    length is subtracted from the clip norm first.
    """
    if clip.limits.memory.size > 0:
        limits = clip.limits.of(rows)
    else:
        limits = _limits_of_norms(clip.squared_norms.of(rows), clip, len(residuals))
    factor = np.full(len(rows), 1.0 / max(clip.unit, 1e-300))
    if len(residuals) == 1:
        factor[~np.isfinite(residuals[0])] = 0.0
        np.clip(residuals, -limits, limits, out=residuals)
    else:
        squares = np.zeros(len(rows))
        for one in residuals:  # one after the other, as in the kernel
            squares += one * one
        factor *= _clip_factors(np.sqrt(squares), limits)
    residuals *= factor
    residuals[:, factor == 0.0] = 0.0  # NaN, too
    np.rint(np.clip(residuals, -clip.largest, clip.largest), out=residuals)


@part
def _clip_one(residuals, limits, clip):
    per_unit = 1.0 / (clip.unit if clip.unit > 1e-300 else 1e-300)  # finite
    for i in range(residuals.shape[1]):
        r, limit = residuals[0, i], limits[i]
        factor = per_unit if abs(r) < np.inf else 0.0
        r = limit if r > limit else r
        r = -limit if r < -limit else r
        residuals[0, i] = _rounded(r, factor, clip.largest)


@part
def _clip_many(residuals, limits, clip):
    """Do what `clip_residuals` does, given the limits of rows."""
    per_unit = 1.0 / (clip.unit if clip.unit > 1e-300 else 1e-300)  # finite
    n_outputs, n_rows = residuals.shape
    factors = np.empty(n_rows)
    for i in range(n_rows):
        factors[i] = 0.0
    for k in range(n_outputs):
        for i in range(n_rows):
            factors[i] += residuals[k, i] * residuals[k, i]
    for i in range(n_rows):
        factors[i] = _clip_factor(math.sqrt(factors[i]), limits[i]) * per_unit
    for k in range(n_outputs):
        for i in range(n_rows):
            residuals[k, i] = _rounded(residuals[k, i], factors[i], clip.largest)


@part
def _limits(residuals, rows, clip):
    """Return the largest norm of the residuals of each row."""
    limits, known = np.empty(residuals.shape[1]), clip.limits.memory.size > 0
    entries(clip.limits if known else clip.squared_norms, rows, limits)
    if not known:
        half = 0.5 * clip.unit * math.sqrt(residuals.shape[0])
        for i in range(limits.shape[0]):
            # `limits_of` computes the same bits.
            size = math.sqrt(limits[i]) * (1 + 1e-9)
            room = clip.clip_norm - half * size
            limits[i] = room / size if room > 0.0 else 0.0
    return limits


def limits_of(clip: Clip, n_outputs: int) -> np.ndarray:
    """Return the largest norm of the residuals of each row, after which they are cut.

    Half a unit for each residual, times the length of the row, is the largest effect of
    rounding. 1e-9 outweighs other rounding errors.
    """
    norms = clip.squared_norms
    limits = norms.memory[norms.first :: norms.step].copy()
    for start in range(0, len(limits), 2**14):  # little memory
        own = limits[start : start + 2**14]
        own[:] = _limits_of_norms(own, clip, n_outputs)
    return limits


def _limits_of_norms(squared_norms, clip, n_outputs):
    size = np.sqrt(squared_norms) * (1 + 1e-9)
    room = clip.clip_norm - 0.5 * clip.unit * math.sqrt(n_outputs) * size
    with np.errstate(all="ignore"):  # a warning would reveal a private value
        return np.where(room > 0.0, room / size, 0.0)


@part
def _rounded(residual, factor, largest):
    """Return the residual times its factor, rounded to an integer up to `largest`."""
    # A factor of 0 gives 0 even for NaN. Saturate before rounding.
    scaled = residual * factor if factor > 0.0 else 0.0
    scaled = largest if scaled > largest else scaled
    return np.rint(-largest if scaled < -largest else scaled)


# Loops over blocks call this function by address. It is compiled once for all kinds of
# rows.


@kernel(error_model="numpy")
def _contribute_to_block(margins, rows, given):
    leaf, task, clip = named(given)
    _weigh(margins, rows, leaf, task)
    _clip_residuals(margins, rows, clip)


def flat(task: Task, clip: Clip) -> tuple:
    """Return the arguments of `contribute` for a task and a clip, as one plain tuple.

    It begins with the address of the function that contributes, and that of the leaf,
    or with None for both if one is not compiled. numba needs ten times as long to find
    the types of named tuples, in each call.
    """
    of_task = *task[:2], *task.target, *task[3:]
    of_clip = *clip.squared_norms, *clip[1:4], *clip.limits
    given = *of_task, *of_clip
    try:
        arguments = FLOATS, INTEGERS, typeof((0, 0, *given))
        leaf = leaf_address(task.kind, task.target.memory.dtype)
        return address(_contribute_to_block, arguments), leaf, *given
    except NotCompiledError:
        return None, None, *given


@shared
def named(given):
    """Return the address of the leaf, the task and the clip of a `flat` tuple."""
    leaf, kind, parameter, memory, step, first, class_weight, offset = given[1:9]
    target = PerRow(memory, step, first)
    task = Task(kind, parameter, target, class_weight, offset, given[9], given[10])
    memory, step, first, clip_norm, unit, largest = given[11:17]
    norms, limits = PerRow(memory, step, first), PerRow(given[17], given[18], given[19])
    return leaf, task, Clip(norms, clip_norm, unit, largest, limits)


_call = caller((FLOATS, INTEGERS, None))


@part
def call_contribution(margins, rows, given):
    """Do what `contribute` does, by address."""
    _call(given[0], (margins, rows, given))


def _contribute(margins, rows, given):
    if given[0] is None:
        raise NotCompiledError
    call_contribution(margins, rows, given)


@twin_of(_contribute)
def contribute(margins, rows, given):
    """Replace margins of some rows by clipped and rounded residuals; see `flat`."""
    _, task, clip = named(given)
    weighted_residuals(margins, rows, task)
    clip_residuals(margins, rows, clip)


@np.errstate(all="ignore")  # a warning would reveal a private value
def clip_differences(full, public, rows, clip, squared_public, inner):
    """Clip and quantise the differences ``f (x) x - p (x) z``, in place.

    (x) is the outer product. For record i, f is full[:, i], p is public[:, i], x is row
    rows[i], and z is this row with public numbers in place of the private columns.
    `squared_public` holds |z|^2 and `inner` holds x.z (:ref:`exact-release`).
    """
    xx, zz, xz = clip.squared_norms.of(rows), squared_public.of(rows), inner[rows]
    ff, pp, fp = np.zeros((3, len(rows)))
    for f, p in zip(full, public, strict=True):
        ff += f * f
        pp += p * p
        fp += f * p
    # The subtraction may cancel, so its error is relative to the terms, not to the
    # result.
    terms = ff * xx + pp * zz
    square = np.fmax(terms - 2 * fp * xz, 0.0) + 1e-9 * terms
    slack = clip.unit * math.sqrt(len(full)) * (np.sqrt(xx) + np.sqrt(zz))
    room = clip.clip_norm * (1 - 1e-9) - slack
    factor = np.where(room > 0, _clip_factors(np.sqrt(square), room), 0.0)
    # Both residuals get the same factor. If only one of them saturated, the difference
    # could become longer.
    limit = clip.largest * clip.unit * 0.999
    for f, p in zip(full, public, strict=True):
        bound = np.fmax(np.abs(f), np.abs(p)) * factor
        factor = np.where(bound > limit, factor * (limit / bound), factor)
    for side in (full, public):
        scaled = side * factor / clip.unit
        scaled[:, factor == 0.0] = 0.0  # NaN, too
        # Saturate before truncating: the result must fit into int64.
        np.trunc(np.clip(scaled, -clip.largest, clip.largest), out=side)


@part
def _clip_factor(norm, clip_norm):
    """Return min(1, clip_norm / norm), or 0 where the norm is infinite or NaN."""
    factor = clip_norm / norm
    factor = factor if norm > clip_norm else 1.0
    return factor if norm < np.inf else 0.0


def _clip_factors(norms, limits):
    """Return what `_clip_factor` returns, for arrays."""
    factors = np.where(norms > limits, limits / norms, 1.0)
    return np.where(norms < np.inf, factors, 0.0)
