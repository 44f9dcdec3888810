"""The class frequencies, released: where a descent with a private target starts."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.privacy.relations import Relation
from skfdp.queries.statistics import LabelSum
from skfdp.queries.weighted import fits_grid
from skfdp.records.grid import GRID, GridRows
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.labels import RECODED
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.desk import Desk

LABEL = "class counts"
#: Share of records without a declared label beyond which a fit warns.
MOST_UNDECLARED = 0.05


def event(public: PublicRecords, budget: Budget, mu: float) -> Event | None:
    """Return the event of the counts, None where noise would leave their grid.

    Parameters
    ----------
    public : PublicRecords
    budget : Budget
    mu : float
        Of the whole budget, for releases of sensitivity `clip_norm`.
    """
    query = LabelSum.planned(public.n_classes, 1.0)
    sensitivity = query.sensitivity(budget.relation)
    share = defaults.mean_fraction(mu, public.n_effective, public.n_outputs)
    noise_std = sensitivity / (math.sqrt(share) * budget.mu)
    if not fits_grid(query, noise_std, public.units):
        return None
    return budget.event(
        LABEL,
        noise_std,
        clip_norm=query.clip_norm,
        sensitivity=sensitivity,
    )


def counts_labels(events: Iterable[Event]) -> bool:
    """Whether releases show that records have none of the declared labels."""
    return any(e.label == LABEL and e.relation.counts_are_public for e in events)


def _counts(records: Records) -> LabelSum:
    """Return the class counts; a recipe."""
    ones = np.full((len(records.target), 1), round(1 / GRID), dtype=np.int16)
    rows = GridRows(ones, np.square(ones[:, 0], dtype=np.float64))
    return LabelSum(rows, records.target, records.public.n_classes, 1.0)


def released_log_odds(records: Records, found: Event, desk: Desk) -> np.ndarray:
    """Return the margins of the released class frequencies, shape (n_outputs,).

    Counts are shrunk toward classes of one size by twice what Stein's lemma asks for:
    half of all noise would pass at once that, and the noise of a margin that every
    record shares spoils more than a start at equal classes does.

    Raises
    ------
    ValueError
        If the released counts show that y holds other labels than the declared ones;
        see `check_counts`.
    """
    public = records.public
    n, n_classes = public.n_records, public.n_classes
    counts = desk.release(LABEL, records.query(_counts))[:, 0]
    noise_std = float(found.noise_std[0])
    check_counts(counts, noise_std, public, found.relation)
    apart = counts - counts.mean()
    square = float(apart @ apart)
    free = n_classes - 1
    kept = max(0.0, 1 - 2 * free * noise_std**2 / square) if square > 0 else 0.0
    # No share is known to be below the noise, which may be as large as all of them.
    least = min(1 / n_classes, max(1.0, noise_std) / n)
    most = 1 - (n_classes - 1) * least
    logs = np.log(np.clip(1 / n_classes + kept * apart / n, least, most))
    return logs[1:] - logs[:1] if n_classes == 2 else logs - logs.mean()


def check_counts(
    counts: np.ndarray, noise_std: float, public: PublicRecords, relation: Relation
) -> None:
    """Judge the declared labels by released class counts; free.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Released, in records, with noise of standard deviation `noise_std` in each.
    noise_std : float
    public : PublicRecords
    relation : Relation

    Raises
    ------
    ValueError
        If a declared class has no more records than three standard deviations of the
        noise, and more than four standard deviations of records have no declared label.
        So it is if scikit-learn has coded the labels as 0, ..., k - 1.

    Notes
    -----
    **Guarantees.** A function of released and of public numbers. Where the number of
    records is private, or the labels were read from y, nothing is judged. Noise alone
    passes four standard deviations in 1 of 30,000 fits; it would pass three in 1 of
    740, and where there are few records any class may look empty.
    """
    if not relation.counts_are_public or public.classes_source != "declared":
        return
    missing, doubt = public.n_records - counts.sum(), math.sqrt(len(counts)) * noise_std
    if missing <= 4 * doubt:
        return
    without = (
        f"of {public.n_records} {public.unit}s about {missing:.0f} (a released count, "
        f"with noise of standard deviation {doubt:.0f}) have no label of classes="
        f"{public.classes.tolist()!r}"
    )
    if not public.private_bounded:
        without += ", or a missing value in a column without bounds"
    empty = int(counts.argmin())
    if counts[empty] <= 3 * noise_std:
        raise ValueError(
            f"{without}, and class {public.classes.tolist()[empty]!r} has about "
            f"{counts[empty]:.0f} (noise {noise_std:.0f}). {RECODED}"
        )
    if missing > MOST_UNDECLARED * public.n_records:
        warn_caller(
            f"{without}; they count for nothing: declare every label that can occur.",
            UtilityWarning,
        )
