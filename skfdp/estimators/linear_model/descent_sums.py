"""The sums of a descent: that of clipped gradients, and those of public losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skfdp.estimators.linear_model import public_loss
from skfdp.queries.linear import LinearQuery
from skfdp.queries.losses import Loss
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GridRows, SparseGridRows
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.desk import Desk


def gradients(
    records: Records,
    offset: np.ndarray | None = None,
    rows: GridRows | SparseGridRows | None = None,
    *,
    coordinates: Coordinates,
    at_random: bool,
    pads: bool,
    padded: GridRows | SparseGridRows | None,
    **settings: Any,
) -> LinearQuery:
    """Return the sum of gradients of the loop's rows; a recipe of `Records.query`.

    Parameters
    ----------
    records : Records
    offset : float64 ndarray of shape (n_rows, n_outputs), default=None
        Margins of a public model.
    rows : GridRows or SparseGridRows, default=None
        The loop's rows, where all of them is public; None: they are made here.
    coordinates : Coordinates
    at_random : bool
        Whether batches are rows that lie apart: each gets its target beside it.
    pads : bool
        Whether there is a public loss that pads.
    padded : GridRows, SparseGridRows or None
        Its rows; None: the loop's own, because all columns are public.
    settings
        Further arguments of `LinearQuery`.
    """
    public = records.public
    if rows is None:
        target = records.target if at_random else None
        rows = coordinates.grid(records.mapped, target)
    return LinearQuery(
        rows=rows,
        target=records.target,
        n_outputs=public.n_outputs,
        capacity=public.capacity,
        class_weight=public.class_weight,
        padded=rows if pads and padded is None else padded,
        public_target=public.has_target,
        offset=offset,
        units=public.units,
        **settings,
    )


def public_gradient(
    method: Any,
    records: Records,
    loss: Loss,
    offset: np.ndarray | None,
    query: LinearQuery,
    coordinates: Coordinates,
    desk: Desk,
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return the exact gradient of the public loss, None where there is none.

    Parameters
    ----------
    method : Descent
    records : Records
    loss : Loss
        In the loop's units.
    offset : float64 ndarray of shape (n_rows, n_outputs) or None
        Margins of a public model.
    query : LinearQuery
    coordinates : Coordinates
    desk : Desk
        Gives the coins of public batches.
    """
    terms, public = [], records.public
    if method.padding is not None:
        coins = desk.streams.public("batch")
        size = method.public_batch_size
        terms.append(public_loss.padded_gradient(query, coins, size))
    if method.public_loss is not None:
        terms.append(
            public_loss.users_gradient(method.public_loss, public, coordinates)
        )
    # The mean of rates is released instead: they grow faster than their margins.
    is_cut = method.scales is not None and loss.name != "poisson"
    if is_cut and public.has_target:
        known = records.target, loss, offset
        terms.append(public_loss.clipped_away(query, *known, public, coordinates))
    return (lambda theta: sum(term(theta) for term in terms)) if terms else None


def joins_rows(public: PublicRecords) -> bool:
    """Whether the loop clips rows together, those of a person who has several."""
    return public.units is not None and public.units.joint
