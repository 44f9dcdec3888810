"""The centring of the loop: exact means, private means, scales."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.sparse import issparse

from skfdp.estimators import defaults
from skfdp.estimators.method import Budget
from skfdp.privacy import Event
from skfdp.queries.statistics import RowSum
from skfdp.records.coordinates import Coordinates
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.desk import Desk


@dataclasses.dataclass(frozen=True)
class Moments:
    """The mean of the public columns, and the root mean square of what is left."""

    mean: np.ndarray
    spread: float


@dataclasses.dataclass(frozen=True)
class Centring:
    """The centring of rows: exact for public columns, by a released mean for others.

    Attributes
    ----------
    kind : {"auto", "gaussian"} or None
    fit_intercept : bool
        Without an intercept nothing is centred.
    mean_fraction : float or "auto"
        Share of the squared budget for the private mean.
    """

    kind: str | None
    fit_intercept: bool
    mean_fraction: float | str = "auto"

    @property
    def _centres(self) -> bool:
        return self.kind is not None and bool(self.fit_intercept)

    @property
    def bias(self) -> float | None:
        """Value of the constant column that carries the intercept."""
        return defaults.BIAS_FEATURE if self.fit_intercept else None

    def prepare(self, public: PublicRecords) -> Moments | None:
        """Return the moments of the public columns, None where they are not needed."""
        if not public.mask.any() or (public.mask.all() and not self._centres):
            return None
        return public_moments(public, centre=self._centres)

    def event(self, public: PublicRecords, budget: Budget, mu: float) -> Event | None:
        """Return the event of the mean of the private columns, None for no centring.

        Parameters
        ----------
        public : PublicRecords
        budget : Budget
        mu : float
            Of the whole budget, for releases of sensitivity `clip_norm`.
        """
        if not self._centres or public.mask.all():
            return None
        share = self.mean_fraction
        if share == "auto":
            share = defaults.mean_fraction(mu, public.n_records, public.n_private)
        return budget.event(
            "mean",
            1 / (math.sqrt(share) * mu),
            sensitivity=budget.relation.moves(1.0),
        )

    def public_coordinates(
        self, public: PublicRecords, moments: Moments | None
    ) -> Coordinates:
        """Return the coordinates where every column is public."""
        mean, scale = np.zeros(public.n_features), 1.0
        if moments is not None:
            mean, scale = moments.mean, defaults.centred_scale(moments.mean)
        return Coordinates.centred(public.row_map, mean, scale, self.bias)

    def coordinates(
        self,
        records: Records,
        moments: Moments | None,
        event: Event | None,
        norms: tuple[float, float],
        desk: Desk,
    ) -> Coordinates:
        """Return the coordinates of the loop; releases the mean if it was planned.

        Parameters
        ----------
        records : Records
        moments : Moments or None
            What `prepare` returned.
        event : Event or None
            What `event` returned.
        norms : (float, float)
            Typical norms of the public and of the private part of a row.
        desk : Desk
        """
        public, mask = records.public, records.public.mask
        if mask.all():
            return self.public_coordinates(public, moments)
        mean, scale = np.zeros(mask.size), 1.0
        if event is not None:
            query = RowSum(records.X, public.row_map, public.capacity)
            noise_std = event.noise_std[0] / public.n_records
            found = desk.release("mean", query) / public.n_records
            mean[~mask] = defaults.shrunk_mean(found, noise_std)
            scale = defaults.centred_scale(mean[~mask], noise_std)
        if moments is not None:
            mean[mask], spread = moments.mean, moments.spread
            ours, theirs = norms
            scale = np.where(mask, ours / spread if spread > 0 else 1.0, theirs * scale)
        return Coordinates.centred(public.row_map, mean, scale, self.bias)


def public_moments(public: PublicRecords, centre: bool) -> Moments:
    """Return the mean of the public columns and the root mean square of the rest."""
    mean, square, n_rows = np.zeros(int(public.mask.sum())), 0.0, public.n_rows
    with np.errstate(all="ignore"):
        if centre:
            mean = sum(rows.sum(axis=0) for rows in public.blocks()) / n_rows
        for rows in public.blocks():
            if issparse(rows):  # a difference would fill them in
                filled = rows.shape[0] * (mean @ mean)
                square += np.vdot(rows.data, rows.data) - filled
            else:
                square += np.sum((rows - mean) ** 2)
    spread = math.sqrt(square / n_rows) if square > 0 else 0.0
    if not (np.isfinite(mean).all() and math.isfinite(spread)):
        return Moments(np.zeros(len(mean)), 0.0)  # leave the columns as they are
    return Moments(mean, spread)
