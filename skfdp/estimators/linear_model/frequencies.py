"""The class frequencies, released: where a descent with a private target starts."""

from __future__ import annotations

import math

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries.statistics import LabelSum
from skfdp.queries.weighted import fits_grid
from skfdp.records.grid import GRID, GridRows
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.desk import Desk

LABEL = "class counts"


def event(public: PublicRecords, budget: Budget, mu: float) -> Event | None:
    """Return the event of the counts, None where noise would leave their grid.

    Parameters
    ----------
    public : PublicRecords
    budget : Budget
    mu : float
        Of the whole budget, for releases of sensitivity `clip_norm`.
    """
    query = LabelSum.planned(public.n_outputs, 1.0)
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


def _counts(records: Records) -> LabelSum:
    """Return the class counts; a recipe."""
    ones = np.full((len(records.target), 1), round(1 / GRID), dtype=np.int16)
    rows = GridRows(ones, np.square(ones[:, 0], dtype=np.float64))
    return LabelSum(rows, records.target, records.public.n_outputs, 1.0)


def released_log_odds(records: Records, found: Event, desk: Desk) -> np.ndarray:
    """Return the margins of the released class frequencies, shape (n_outputs,).

    Counts are shrunk toward classes of one size by twice what Stein's lemma asks for:
    half of all noise would pass at once that, and the noise of a margin that every
    record shares spoils more than a start at equal classes does.
    """
    public = records.public
    n, n_classes = public.n_records, public.n_classes
    counts = desk.release(LABEL, records.query(_counts))[:, 0]
    noise_std = float(found.noise_std[0])
    # Apart from classes of one size: labels of two classes count -1/2 and 1/2.
    apart = counts if public.n_outputs == 1 else counts - counts.mean()
    free = max(1, n_classes - 1)
    square = float(apart @ apart)
    kept = max(0.0, 1 - 2 * free * noise_std**2 / square) if square > 0 else 0.0
    if public.n_outputs == 1:
        most = 0.5 - min(0.5, max(1.0, noise_std) / n)
        share = 0.5 + float(np.clip(kept * apart[0] / n, -most, most))
        return np.array([math.log(share / (1 - share))])
    # No share is known to be below the noise, which may be as large as all of them.
    least = min(1 / n_classes, max(1.0, noise_std) / n)
    most = 1 - (n_classes - 1) * least
    share = np.clip(1 / n_classes + kept * apart / n, least, most)
    logs = np.log(share)
    return logs - logs.mean()
