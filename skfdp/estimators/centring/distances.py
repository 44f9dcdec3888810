"""A quantile of the rows' distances from a centre, from one histogram."""

from __future__ import annotations

import math

import numpy as np

from skfdp.estimators.bounds.release import check_noise
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries.bins import BinCounts
from skfdp.queries.shells import RADII, Shells
from skfdp.records.moved import MovedRows
from skfdp.records.records import PublicRecords
from skfdp.releases.desk import Desk

#: Label of the event.
LABEL = "distances"
#: The quantile where users ask for none: rows beyond it are few, and those within have
#: a norm of about 1 once it is the unit.
LEVEL = 0.9
#: Least and largest shares of ``mu**2`` of one histogram.
SHARES = 0.005, 0.05
# Wanted noise in a count, as a share of the records beyond the quantile, and of all:
# then 32 empty shells are told from an eighth of the records.
_NOISE, _NOISE_OF_ALL = 1 / 8, 1 / 136
# Standard deviations of the noise: of what may be nothing.
_DOUBT = 3.0
# With more doubt than this share of the records, nothing is seen.
_MOST_DOUBT = 1 / 4


def share(mu: float, n_records: int, level: float = LEVEL) -> float:
    """Return the share of ``mu**2`` of one histogram, from public numbers."""
    wanted = min(_NOISE * (1 - level), _NOISE_OF_ALL) * n_records
    return float(np.clip((1 / (mu * wanted)) ** 2, *SHARES))


def event(
    public: PublicRecords, budget: Budget, share: float, *, n_steps: int = 1
) -> Event:
    """Return the event of `n_steps` histograms, each with this share of ``mu**2``."""
    return event_of_counts(LABEL, 1, public, budget, share, n_steps)


def event_of_counts(
    label: str,
    n_columns: int,
    public: PublicRecords,
    budget: Budget,
    share: float,
    n_steps: int,
) -> Event:
    """Return the event of `n_steps` counts of all of some columns in bins."""
    query = BinCounts.planned(n_columns)
    reach = query.sensitivity(budget.relation)
    found = budget.event(
        label,
        reach / (math.sqrt(share) * budget.mu),
        clip_norm=query.clip_norm,
        sensitivity=reach,
        n_steps=n_steps,
    )
    units = public.units
    check_noise(found, budget, 1.0 if units is None else units.step)
    return found


def released_quantile(
    rows: MovedRows,
    level: float,
    event: Event,
    stream: str,
    n_records: int,
    desk: Desk,
) -> float:
    """Return the released quantile of the norms, over ``rows.length``.

    Parameters
    ----------
    rows : MovedRows
        Rows about the centre, over a length that few of them exceed.
    level : float
        In (0, 1).
    event : Event
    stream : str
        Name of the noise.
    n_records : int
        Public number of records.
    desk : Desk

    Returns
    -------
    quantile : float
        One of `RADII`: at most 1, and the larger the less the noise leaves to see.
    """
    query = BinCounts(rows.lengths()[:, None], Shells())
    counts = desk.release(LABEL, query, stream=stream)[0]
    return quantile(counts, level, float(event.noise_std[0]), n_records)


def quantile(counts: np.ndarray, level: float, std: float, n_records: int) -> float:
    """Return the least radius down to which few are seen to be beyond.

    Parameters
    ----------
    counts : ndarray of shape (n_shells + 1,)
        Noisy.
    level : float
    std : float
        Standard deviation of the noise in each.
    n_records : int

    Notes
    -----
    The walk begins at the largest radius and ends where more than ``1 - level`` of the
    records may be beyond, or more than may be noise where that is larger: the doubt is
    three standard deviations of their noisy number, and grows with each shell. So a
    quantile is too large rather than too small, by about a shell where there are enough
    records, and one of a lower level where there are not.
    """
    beyond, found = 0.0, 1.0
    for passed, count in enumerate(counts[:0:-1]):
        beyond += count
        doubt = _DOUBT * std * math.sqrt(passed + 1)
        allowed = max((1 - level) * n_records - doubt, doubt)
        if doubt > _MOST_DOUBT * n_records or beyond > allowed:
            break
        found = float(RADII[len(RADII) - 1 - passed])
    return found
