"""Sensitivities of sums of clipped gradients to a replaced record.

Twice the clip norm always holds. The two lemmas here hold under conditions that the
code checks from what is public and declared; :ref:`sensitivities` has the proofs.
"""

from __future__ import annotations

import math

import numpy as np

from skfdp.privacy import PrivacyPlan
from skfdp.queries.linear import gradient_unit, person_unit
from skfdp.queries.losses import Loss
from skfdp.records.grid import GridRows, SparseGridRows
from skfdp.records.records import PublicRecords


def has_public_signs(public: PublicRecords, loss: Loss) -> bool:
    """Whether the signs of a gradient's entries are public (the orthant lemma).

    **Guarantees.** If the target is public and fixes the signs of the residuals, and
    each private column is bounded, hence scaled to [0, 1] by the row map, then the
    gradients of one record under two private parts have entries of equal signs, so
    that ``<v, v'> >= 0`` and ``|v - v'|**2 <= 2 clip_norm**2`` after the clip. Void if
    private columns are centred, or anything is subtracted before the clip.
    """
    return public.has_target and loss.sign_fixed and public.private_bounded


def label_bound(
    public: PublicRecords,
    loss: Loss,
    rows: GridRows | SparseGridRows,
    schedule: PrivacyPlan,
) -> float:
    """Return how far replaced labels move the sum, where every column is public.

    **Guarantees.** The clip projects onto a ball, which brings no two points further
    apart: contributions of two labels differ by at most
    ``|residual - residual'| share |x|`` before they are quantised, and those of the
    labels of a person by at most the sum of that over the person's rows. Rounding moves
    each entry of a residual by at most half of its unit, and 1e-8 covers the rounding
    of the clip's factor. What else the compiled clip of a person rounds is in
    `_rounding_of_persons` (:ref:`persons-and-weights`).

    Parameters
    ----------
    public : PublicRecords
    loss : Loss
    rows : GridRows or SparseGridRows
        Public, as the query will see them.
    schedule : PrivacyPlan
        Of sensitivity ``2 clip_norm``: its noise is the largest that may be chosen,
        hence its grid the coarsest.
    """
    if loss.label_reach is None or not (public.class_weight == 1).all():
        return schedule.sensitivity
    units, clip_norm = public.units, schedule.clip_norm
    # A label, or none: then the contribution is zero.
    largest = loss.max_residual(public.n_classes)
    apart = max(loss.label_reach(public.n_classes), largest)
    lengths = np.sqrt(rows.squared_norms) * rows.unit
    shared = lengths if units is None else lengths * units.shares
    noise_std = schedule.noise_std.max()
    if units is not None and units.joint:
        shared = np.bincount(units.persons, shared)
        unit = person_unit(noise_std, clip_norm, public.capacity)
        slack = _rounding_of_persons(public, rows, lengths, unit, largest)
    else:
        unit = gradient_unit(rows, noise_std, clip_norm, public.capacity)
        longest = lengths.max(initial=0.0)
        slack = math.sqrt(public.n_outputs) * unit / rows.unit * longest
    bound = apart * shared.max(initial=0.0) * (1 + 1e-12) + slack + 1e-8 * clip_norm
    return min(schedule.sensitivity, bound)


def _rounding_of_persons(
    public: PublicRecords,
    rows: GridRows | SparseGridRows,
    lengths: np.ndarray,
    unit: float,
    largest: float,
) -> float:
    """Return how far apart the steps of `kernels.persons` move two contributions.

    They take residuals as integers of a unit below ``2**-49 top``, where top is the
    number of a person's rows times the longest times the largest residual; they round
    the norm of the sum up by less than ``2**-23 sqrt(K) sqrt(K D) top``; and they
    truncate each entry.
    """
    units, n_outputs = public.units, public.n_outputs
    root = math.sqrt(n_outputs * rows.n_columns)
    counts, longest = np.bincount(units.persons), np.zeros((2, units.n_units))
    np.maximum.at(longest[0], units.persons, lengths + rows.unit)
    np.maximum.at(longest[1], units.persons, units.shares * largest)
    top = float((counts * longest[0] * longest[1]).max())
    total = float(np.bincount(units.persons, lengths).max()) / rows.unit
    of_residuals = 2.0**-49 * math.sqrt(n_outputs) * total
    of_norm = 2.0**-23 * math.sqrt(n_outputs) * root
    return 2 * (top * (of_residuals + of_norm) + root * unit)
