"""The assumptions of guarantees, and the one list of those that the code enforces.

`skfdp.privacy.report.enforced` marks these sentences and no others, and a report
that is read may mark no others either.
"""

from __future__ import annotations

#: Of every release.
CLIPPED = "One record's contribution to a release is clipped."
BATCHES = "Records enter batches independently; batches are not published."
#: Of every estimator.
ROWS_CLIPPED = (
    "Every row is clipped to the declared bounds and norm before anything is computed "
    "from it."
)
#: Of regressors.
TARGET_CLIPPED = (
    "Every target is clipped to target_bounds before anything is computed from it."
)
#: Of smaller sensitivities.
ORTHANT = (
    "The target is public and every private column is non-negative within its declared "
    "bounds, so that a replaced record moves a sum by at most sqrt(2) clip_norm."
)
LABEL = (
    "Every column is public, so that a replaced label moves a sum by no more than the "
    "residuals of two labels differ, times the longest row."
)
CLASS_ORTHANT = (
    "Private columns are non-negative after scaling by their declared bounds, so that "
    "replacing a record moves its class's sum by at most sqrt(2) times the norm."
)
CLASS_SIGNED = (
    "Some private columns have no declared bounds and may be negative, so that "
    "replacing a record is taken to move its class's sum by twice the norm."
)
#: Of searches.
RUNS_CHARGED = "No run releases more than the search was charged for."
#: Of the command line; the names of columns follow.
READ_FROM_PUBLIC = (
    "Bounds and categories were read from these rows for public columns of the file "
    "only: "
)

_ENFORCED = frozenset(
    {
        CLIPPED,
        BATCHES,
        ROWS_CLIPPED,
        TARGET_CLIPPED,
        ORTHANT,
        LABEL,
        CLASS_ORTHANT,
        CLASS_SIGNED,
        RUNS_CHARGED,
    }
)


def is_enforced(text: str) -> bool:
    """Whether the code of this version enforces what a sentence says."""
    return text in _ENFORCED or text.startswith(READ_FROM_PUBLIC)
