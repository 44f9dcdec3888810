"""Sensitivities of sums of clipped gradients to a replaced record.

Twice the clip norm always holds. The two lemmas here hold under conditions that the
code checks from what is public and declared; :ref:`sensitivities` has the proofs.
"""

from __future__ import annotations

import math

from skfdp.privacy import PrivacyPlan
from skfdp.queries.linear import gradient_unit
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
    """Return how far a replaced label moves the sum, where every column is public.

    **Guarantees.** The clip projects onto a ball, which brings no two points further
    apart: contributions of two labels differ by at most
    ``|residual - residual'| |x|`` before they are quantised. Rounding moves each entry
    of a residual by at most half of its unit, and 1e-8 covers the rounding of the
    clip's factor.

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
    # A label, or none: then the contribution is zero.
    apart = max(loss.label_reach(public.n_classes), loss.max_residual(public.n_classes))
    unit = gradient_unit(
        rows, schedule.noise_std.max(), schedule.clip_norm, public.capacity
    )
    longest = math.sqrt(rows.squared_norms.max(initial=0.0)) * rows.unit
    slack = math.sqrt(public.n_outputs) * unit / rows.unit * longest
    bound = apart * longest * (1 + 1e-12) + slack + 1e-8 * schedule.clip_norm
    return min(schedule.sensitivity, bound)
