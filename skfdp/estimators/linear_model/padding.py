"""Paddings of private columns for the public loss of Algorithm 1."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.centring import conditional
from skfdp.estimators.centring.conditional import Regressors
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries.statistics import CrossSum
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GridRows, SparseGridRows
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.desk import Desk

PADDINGS = ("zero", "gaussian", "impute")
#: Share of mu**2 for the cross moments of "impute".
IMPUTE_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class Padding:
    """Rows with something public in place of private columns.

    Attributes
    ----------
    kind : {"zero", "gaussian", "impute"}
        "impute": what a released regression predicts from all that is public.
    scale : float
        Standard deviation of the "gaussian" padding.
    """

    kind: str
    scale: float

    def prepare(self, public: PublicRecords) -> Regressors | None:
        """Return the regressors of "impute": public columns, and labels if public."""
        if self.kind != "impute" or public.mask.all():
            return None
        U = public.row_map.of_public(public.mask).scale(public.X)
        if public.has_target:
            labels = public.target[:, None] == np.arange(public.n_classes)
            U = np.hstack([U, labels.astype(np.float64)])
        return Regressors.learn(U, weighted=True)

    def event(
        self, public: PublicRecords, regressors: Regressors | None, budget: Budget
    ) -> Event | None:
        """Return the event of the release that "impute" needs."""
        if regressors is None:
            return None
        query = CrossSum.planned(nonnegative=public.private_bounded)
        sensitivity = query.sensitivity(budget.relation)
        return budget.event(
            "cross moments",
            sensitivity / (math.sqrt(IMPUTE_SHARE) * budget.mu),
            sensitivity=sensitivity,
        )

    def rows(
        self,
        records: Records,
        regressors: Regressors | None,
        event: Event | None,
        coordinates: Coordinates,
        desk: Desk,
    ) -> GridRows | SparseGridRows:
        """Return the rows of the loop with the padding in place of private columns.

        "zero" and "gaussian" draw in public; "impute" releases the cross moments once.
        """
        public = records.public
        if event is None:
            scale = self.scale if self.kind == "gaussian" else 0.0
            return drawn_rows(
                public, coordinates, scale, desk.streams.public("padding")
            )
        private = ~public.mask
        # For the cross moments alone: rows of the loop are not cut.
        most = defaults.block_bound(public.n_private) * public.row_map.feature_bound
        bound = min(most, public.longest_private)
        query = conditional.cross_sum(
            records.X[:, private],
            public.row_map.part(private).within(bound),
            regressors,
            nonnegative=public.private_bounded,
        )
        found = desk.release("cross moments", query)
        centre = conditional.centre(regressors, found, event.noise_std[0])

        def fill(rows: np.ndarray) -> np.ndarray:
            predicted = centre.intercept + (rows - centre.mean) @ centre.coef
            return predicted * bound  # not yet divided out

        known = public.X
        if public.has_target:
            labels = public.target[:, None] == np.arange(public.n_classes)
            known = np.hstack([known, labels.astype(known.dtype)])
        return coordinates.padded_grid(known, public.mask, fill)


def drawn_rows(
    public: PublicRecords,
    coordinates: Coordinates,
    scale: float,
    generator: np.random.Generator,
) -> GridRows | SparseGridRows:
    """Return the rows of the loop whose private columns hold N(0, scale**2)."""

    def fill(rows: np.ndarray) -> np.ndarray:
        # drawn even at scale 0, so that both paddings share later public draws
        return scale * generator.standard_normal((len(rows), public.n_private))

    return coordinates.padded_grid(public.X, public.mask, fill)
