"""How far a replaced record moves a sum of clipped gradients: facts, never data.

Twice the clip norm always holds. The two lemmas here hold under conditions that the
code checks from what is public and declared; :ref:`sensitivities` has the proofs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skfdp.privacy import assumptions
from skfdp.privacy.report import enforced
from skfdp.queries.linear import gradient_unit
from skfdp.records.grid import GridRows, SparseGridRows

if TYPE_CHECKING:
    from skfdp.estimators.linear_model.descent import Problem
    from skfdp.privacy import PrivacyPlan

#: What a report says where the bounds hold; the code enforces all of it.
ORTHANT = enforced(assumptions.ORTHANT)
LABEL = enforced(assumptions.LABEL)


def has_public_signs(problem: Problem) -> bool:
    """Whether the signs of a gradient's entries are public (the orthant lemma).

    **Guarantees.** If the target is public and fixes the signs of the residuals, and
    each private column is bounded, hence scaled to [0, 1] by the row map, then the
    gradients of one record under two private parts have entries of equal signs, so
    that ``<v, v'> >= 0`` and ``|v - v'|**2 <= 2 clip_norm**2`` after the clip. Void if
    private columns are centred, or anything is subtracted before the clip.
    """
    span = problem.row_map.span
    return (
        problem.public_target
        and problem.loss.sign_fixed
        and span is not None
        and bool(np.isfinite(span[~problem.public]).all())
    )


def label_sensitivity(
    problem: Problem, rows: GridRows | SparseGridRows, plan: PrivacyPlan
) -> float:
    """Return Delta of label-DP, all columns public, under "replace_one".

    **Guarantees.** The clip projects onto a ball, which brings no two points further
    apart: contributions of two labels differ by at most
    ``|residual - residual'| |x|`` before they are quantised. Rounding moves each entry
    of a residual by at most half of its unit, and 1e-8 covers the rounding of the
    clip's factor.

    Parameters
    ----------
    problem : Problem
    rows : GridRows or SparseGridRows
        Public, as the query will see them.
    plan : PrivacyPlan
        Of sensitivity ``2 clip_norm``: its noise is the largest that may be chosen,
        hence its grid the coarsest.
    """
    weights = problem.class_weight
    if problem.loss.label_reach is None or not (weights == 1).all():
        return plan.sensitivity
    apart = problem.loss.label_reach(problem.n_classes)
    unit = gradient_unit(rows, plan.noise_std.max(), plan.clip_norm, problem.capacity)
    longest = math.sqrt(rows.squared_norms.max(initial=0.0)) * rows.unit
    slack = math.sqrt(problem.n_outputs) * unit / rows.unit * longest
    bound = apart * longest * (1 + 1e-12) + slack + 1e-8 * plan.clip_norm
    return min(plan.sensitivity, bound)
