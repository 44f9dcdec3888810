"""A quantile of the rows' distances from a centre, from one histogram."""

from __future__ import annotations

import math

import numpy as np

from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries.bins import BinCounts
from skfdp.queries.shells import RADII, Shells
from skfdp.records.moved import MovedRows
from skfdp.releases.desk import Desk

#: Label of the event.
LABEL = "distances"
#: The quantile where users ask for none: rows beyond it are few, and those within have
#: a norm of about 1 once it is the unit.
LEVEL = 0.9
#: Least and largest shares of ``mu**2`` of one histogram.
SHARES = 0.005, 0.05
# Wanted noise in a count, as a share of the records.
_NOISE = 1 / 80
# Standard deviations of the noise: of what may be nothing.
_DOUBT = 2.0


def share(mu: float, n_records: int) -> float:
    """Return the share of ``mu**2`` of one histogram, from public numbers."""
    return float(np.clip((1 / (_NOISE * mu * n_records)) ** 2, *SHARES))


def event(budget: Budget, share: float, *, n_steps: int = 1) -> Event:
    """Return the event of `n_steps` histograms, each with this share of ``mu**2``."""
    query = BinCounts.planned(1)
    reach = query.sensitivity(budget.relation)
    return budget.event(
        LABEL,
        reach / (math.sqrt(share) * budget.mu),
        clip_norm=query.clip_norm,
        sensitivity=reach,
        n_steps=n_steps,
    )


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
    records may be beyond: their noisy number, plus two standard deviations of its
    noise, which grows with each shell. So a quantile is too large rather than too
    small, by about a shell where there are enough records.
    """
    beyond, found = 0.0, 1.0
    for passed, count in enumerate(counts[:0:-1]):
        beyond += count
        doubt = _DOUBT * std * math.sqrt(passed + 1)
        if beyond + doubt > (1 - level) * n_records:
            break
        found = float(RADII[len(RADII) - 1 - passed])
    return found
