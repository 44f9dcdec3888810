"""The centring and scaling of the loop's rows: exact, or from releases."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skfdp.estimators import defaults
from skfdp.estimators.centring import adaptive, distances
from skfdp.estimators.method import Budget, Plan, existing
from skfdp.privacy import Event
from skfdp.queries.statistics import RowSum
from skfdp.records.blocks import row_blocks, row_of_entries, unit_of_squares
from skfdp.records.checks import check_choice, check_flag, check_number
from skfdp.records.coordinates import Coordinates
from skfdp.records.moved import MovedRows
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.releases.desk import Desk

#: The norm to which rows and their constant column are cut, over the released quantile
#: of distances, which is the value of that column.
LONGEST = math.sqrt(2)
# A released length is no shorter than this part of the longest row that bounds allow.
_SHORTEST = 64.0
# Where distances are counted from a mean of rows of a usual norm of 1: few are beyond.
_FURTHEST, _FURTHEST_OF_NORMALIZED = 8.0, 2.0


def check_centring(given: Mapping[str, Any]) -> None:
    """Check the parameters of private centring of whole rows."""
    check_choice("centering", given["centering"], ("gaussian", "adaptive", None))
    check_number("mean_fraction", given["mean_fraction"], high=1, also=("auto",))
    level = given["clip_quantile"]
    check_number("clip_quantile", level, high=1, also=("auto", None))
    check_flag("clip_features", given["clip_features"])
    if given["clip_features"] and level is None:
        raise ValueError(
            "clip_quantile=None leaves clip_features=True no length to cut rows to: "
            "leave clip_quantile out, or clip_features."
        )


@dataclasses.dataclass(frozen=True)
class Moments:
    """The mean of the public columns, and the root mean square of what is left."""

    mean: np.ndarray
    spread: float


@dataclasses.dataclass(frozen=True)
class Centring:
    """The centring and scaling of rows, so that each block has a known typical norm.

    Public columns are centred and scaled exactly, private ones by a released mean and a
    released length. Rows are cut here if `clip_features` says so; else long ones meet
    the clip of a gradient.

    Attributes
    ----------
    kind : {"auto", "gaussian", "adaptive"} or None
        "adaptive" and the last two attributes are for dense tables without public
        columns.
    fit_intercept : bool
        Without an intercept nothing is centred.
    mean_fraction : float or "auto"
        Share of the squared budget for the private mean.
    length : float, "auto" or None
        Typical norm of the private columns of a row after the bounds; "auto": released.
        None: the row map gives rows of norm 1.
    clip_quantile : float, "auto" or None
        Quantile of the distances from the mean, released to be the unit of rows; None:
        it is not. "auto": `distances.LEVEL` where Algorithm 2 needs one.
    clip_features : bool
        Whether rows longer than the quantile are cut to it, with their constant column.
    """

    kind: str | None
    fit_intercept: bool
    mean_fraction: float | str = "auto"
    length: float | str | None = None
    clip_quantile: float | str | None = "auto"
    clip_features: bool = False

    @property
    def _centres(self) -> bool:
        return self.kind is not None and bool(self.fit_intercept)

    @property
    def _adapts(self) -> bool:
        return self.kind == "adaptive" and self._centres

    @property
    def _level(self) -> float | None:
        """Quantile of the distances that is the unit of rows, None where none is."""
        if self.clip_quantile != "auto":
            return self.clip_quantile
        return distances.LEVEL if self._adapts or self.clip_features else None

    def needs_whole_table(self) -> str | None:
        """Return what cannot be summed over partitions, None where all can."""
        if self._adapts:
            return "centering='adaptive'"
        return None if self._level is None else "clip_quantile or clip_features"

    @property
    def bias(self) -> float | None:
        """Value of the constant column that carries the intercept."""
        if not self.fit_intercept:
            return None
        return 1.0 if self.clip_features else defaults.BIAS_FEATURE

    def prepare(self, public: PublicRecords) -> Moments | None:
        """Return the moments of the public columns, None where there are none."""
        if public.sparse and (self._adapts or self._level is not None):
            raise ValueError(
                "centering='adaptive', clip_quantile and clip_features need a dense X: "
                "centred rows have no zeros to leave out. Pass X.toarray(), or leave "
                "them out."
            )
        if not public.mask.any():
            return None
        return public_moments(public, centre=self._centres)

    def can_learn_mean(self, public: PublicRecords, mu: float) -> bool:
        """Whether a private mean is worth its share of the budget.

        Parameters
        ----------
        public : PublicRecords
        mu : float
            Of the whole budget, for releases of sensitivity `clip_norm`.
        """
        if not self._centres:
            return False
        if self.kind in ("gaussian", "adaptive") or self.mean_fraction != "auto":
            return True
        return defaults.can_learn_mean(mu, public.n_effective, public.n_private)

    def events(
        self, public: PublicRecords, budget: Budget, mu: float, *, mean: bool = True
    ) -> tuple[Event, ...]:
        """Return the events of what centres and scales the private columns.

        Parameters
        ----------
        public : PublicRecords
        budget : Budget
        mu : float
            Of the whole budget, for releases of sensitivity `clip_norm`.
        mean : bool, default=True
            Whether private columns are centred.
        """
        if public.mask.all():
            return ()
        n, measures = public.n_effective, self._level is not None
        level = distances.LEVEL if self._level is None else self._level
        share_of_distances = distances.share(mu, n, level)
        if mean and self._adapts:
            share = self.mean_fraction
            if share == "auto":  # as much for the rough centre as for the mean
                share = 2 * defaults.mean_fraction(mu, n, public.n_private)
            return adaptive.events(
                public, budget, share, share_of_distances, int(measures)
            )

        def event(label: str, share: float, query: RowSum) -> Event:
            reach = query.sensitivity(budget.relation)
            most = budget.relation.moves(1.0)  # which `mu` is for
            std = reach / most / (math.sqrt(share) * mu)
            return budget.event(label, std, sensitivity=reach)

        length, centre, distance = None, None, None
        if self.length == "auto":
            share = defaults.number_fraction(mu, n)
            length = event("row length", share, RowSum.planned())
        if mean and self._centres:
            share = self.mean_fraction
            if share == "auto":
                share = defaults.mean_fraction(mu, n, public.n_private)
            centre = event("mean", share, _row_sum(public))
        if measures:
            distance = distances.event(public, budget, share_of_distances)
        return existing(length, centre, distance)

    def public_coordinates(
        self, public: PublicRecords, moments: Moments
    ) -> Coordinates:
        """Return the coordinates where every column is public."""
        scale = 1 / moments.spread if moments.spread > 0 else 1.0
        return Coordinates.centred(public.row_map, moments.mean, scale, self.bias)

    def coordinates(
        self,
        records: Records,
        moments: Moments | None,
        plan: Plan,
        norms: tuple[float, float],
        desk: Desk,
        least_mean: float = 0.0,
    ) -> Coordinates:
        """Return the coordinates of the loop; releases what was planned for them.

        Parameters
        ----------
        records : Records
        moments : Moments or None
            What `prepare` returned.
        plan : Plan
            With the events of `events`.
        norms : (float, float)
            Typical norms of the public and of the private part of a row.
        desk : Desk
        least_mean : float, default=0.0
            Squared norm below which a released mean of rows of norm 1, less its
            noise, is not subtracted.
        """
        public, mask = records.public, records.public.mask
        if mask.all():
            return self.public_coordinates(public, moments)
        if plan.event(adaptive.ROUGH) is not None:
            centre = adaptive.released_centre(records, plan, desk)
            furthest = _FURTHEST_OF_NORMALIZED * centre.radius
            return self._measured(
                records, plan, desk, centre.mean, furthest, centre.error, centre.radius
            )
        unit = self._unit(records, plan.event("row length"), desk)
        mean, scale, error = np.zeros(mask.size), 1 / unit, 0.0
        event = plan.event("mean")
        if event is not None:
            row_map = public.row_map
            if self.length is not None:
                row_map = row_map.within(unit * row_map.feature_bound)
            recipe = functools.partial(_row_sum_of, row_map=row_map)
            noise_std = event.noise_std[0] / public.n_records
            found = desk.release("mean", records.query(recipe)) / public.n_records
            square = float(found @ found) - found.size * noise_std**2
            if square >= least_mean or least_mean == 0:
                found = defaults.shrunk_mean(found, noise_std)
                mean[~mask], error = found * unit, noise_std * unit
                scale = defaults.centred_scale(found, noise_std) / unit
        if self._level is not None:
            cut = self.length is None
            furthest = (_FURTHEST_OF_NORMALIZED if cut else _FURTHEST) * unit
            return self._measured(records, plan, desk, mean, furthest, error)
        if moments is not None:
            mean[mask], spread = moments.mean, moments.spread
            ours, theirs = norms
            scale = np.where(mask, ours / spread if spread > 0 else 1.0, theirs * scale)
        return Coordinates.centred(public.row_map, mean, scale, self.bias, error)

    def _measured(
        self,
        records: Records,
        plan: Plan,
        desk: Desk,
        mean: np.ndarray,
        furthest: float,
        error: float,
        radius: float = 1.0,
    ) -> Coordinates:
        """Return coordinates whose unit is the quantile of the distances from a mean.

        `radius` is the unit where no quantile was planned; see `clip_quantile`.
        """
        if self._level is not None:
            part = distances.released_quantile(
                MovedRows(records.mapped, mean, furthest),
                self._level,
                plan.event(distances.LABEL),
                "distances from the mean",
                records.public.n_records,
                desk,
            )
            radius = part * furthest
        longest = LONGEST if self.clip_features else math.inf
        return Coordinates.moved(
            records.public.row_map, mean, 1 / radius, self.bias, error, longest
        )

    def _unit(self, records: Records, event: Event | None, desk: Desk) -> float:
        """Return the typical norm of the private columns of a mapped row."""
        public = records.public
        divisor = public.row_map.feature_bound
        if event is None:
            return 1.0 if self.length is None else self.length / divisor
        furthest = public.longest_private
        if math.isinf(furthest):
            # Columns without bounds are taken as scaled: most within 2 of zero.
            furthest = 2 * math.sqrt(public.n_private)
        lengths = functools.partial(_lengths, furthest=furthest, divisor=divisor)
        found, error = released_mean(
            records, lengths, 0.0, furthest, event, "row length", desk
        )
        found = max(found, 2 * error, furthest / _SHORTEST)
        return min(found, furthest) / divisor


def _row_sum(
    public: PublicRecords, X: Any = None, row_map: RowMap | None = None
) -> RowSum:
    """Return the sum of the private columns of some rows; of none, for a plan."""
    nonnegative = public.private_bounded
    if X is None:
        return RowSum.planned(nonnegative=nonnegative)
    return RowSum(X, row_map, public.capacity, nonnegative)


def _row_sum_of(records: Records, row_map: RowMap) -> RowSum:
    """Return the sum of the private columns, cut by a row map; a recipe."""
    return _row_sum(records.public, records.X, row_map)


def _lengths(records: Records, furthest: float, divisor: float) -> np.ndarray:
    """Return the norms of the private columns in the units of `furthest`."""
    return divisor * private_lengths(records, furthest / divisor)


def private_lengths(records: Records, furthest: float) -> np.ndarray:
    """Return the norm of the private columns of each mapped row, at most `furthest`.

    The same numbers for dense and CSR rows, to the last bit: squares are rounded up to
    a unit that makes their sums exact.
    """
    public, X = records.public, records.X
    private = ~public.mask
    row_map = public.row_map.part(private)
    unit = unit_of_squares(public.n_private)
    lengths = np.empty(X.shape[0])
    with np.errstate(all="ignore"):  # a warning would tell of a private value
        for block in row_blocks(X):
            rows = row_map.mapped(X[block][:, private])
            entries = rows.data if issparse(rows) else rows
            # An entry beyond `furthest` makes a row that is as long as can be.
            entries = np.clip(entries / furthest, -1, 1)
            squares = np.ceil(entries**2 * unit)
            if issparse(rows):
                row = row_of_entries(rows)
                total = np.bincount(row, squares, minlength=rows.shape[0])
            else:
                total = squares.sum(axis=1)
            lengths[block] = furthest * np.minimum(np.sqrt(total / unit), 1)
    return lengths


def released_mean(
    records: Records,
    values: Callable[..., np.ndarray],
    low: float,
    high: float,
    event: Event,
    stream: str,
    desk: Desk,
    **per_row: Any,
) -> tuple[float, float]:
    """Return the noisy mean of numbers within public bounds, and its noise's std.

    The sum of ``(value - middle) / half`` moves by at most 1 if a value is nulled
    (counts as the middle), and by at most 2 if it is replaced.

    Parameters
    ----------
    records : Records
    values : callable
        ``(records, **per_row) -> ndarray of shape (n_rows,)``, as a recipe of
        `Records.query`.
    low, high : float
    event : Event
    stream : str
    desk : Desk
    per_row
        As for `Records.query`.
    """
    half, n = (high - low) / 2, records.public.n_records
    recipe = functools.partial(_sum_of_numbers, values=values, low=low, high=high)
    query = records.query(recipe, **per_row)
    total = desk.release(event.label, query, stream=stream)
    error = half * event.noise_std[0] / n
    return (low + high) / 2 + half * float(np.clip(total[0] / n, -1, 1)), error


def _sum_of_numbers(records: Records, values, low, high, **per_row: Any) -> RowSum:
    """Return the sum of numbers in a public interval, as parts of its half."""
    middle, half = (low + high) / 2, (high - low) / 2
    unit = (np.clip(values(records, **per_row), low, high) - middle) / half
    return RowSum(unit[:, None], RowMap(), records.public.capacity)


def public_moments(public: PublicRecords, centre: bool) -> Moments:
    """Return the mean of the public columns and the root mean square of the rest.

    Rows count as their weights say. The same numbers for dense and CSR rows, to the
    last bit: terms are rounded to a unit that makes their sums exact, whatever the
    order, and the weights are whole numbers.
    """
    weights = None if public.units is None else public.units.weights
    total = public.n_rows if weights is None else int(weights.sum())
    unit = unit_of_squares(total)
    with np.errstate(all="ignore"):
        low, high = _extremes(public)
        mean = np.zeros(len(low))
        if centre:
            reach = np.maximum(np.abs(low), np.abs(high))
            reach[reach == 0] = 1.0
            mean = _sums(public, weights, lambda x, j: np.rint(x / reach[j] * unit))
            mean *= reach / (unit * total)
        furthest = np.maximum(high - mean, mean - low)
        furthest[furthest == 0] = 1.0
        square = _sums(
            public,
            weights,
            lambda x, j: np.rint(((x - mean[j]) / furthest[j]) ** 2 * unit),
        )
        square = float(np.sum(square / unit * furthest**2))
    spread = math.sqrt(square / total) if square > 0 else 0.0
    if not (np.isfinite(mean).all() and math.isfinite(spread)):
        return Moments(np.zeros(len(mean)), 0.0)  # leave the columns as they are
    return Moments(mean, spread)


def _extremes(public: PublicRecords) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest entry of each public column."""
    low, high = [], []
    for rows in public.blocks():
        ends = rows.min(axis=0), rows.max(axis=0)
        for found, end in zip((low, high), ends, strict=True):
            found.append(end.toarray().ravel() if issparse(end) else end)
    return np.min(low, axis=0), np.max(high, axis=0)


def _sums(
    public: PublicRecords,
    weights: np.ndarray | None,
    term: Callable[[np.ndarray, Any], np.ndarray],
) -> np.ndarray:
    """Return the weighted sums over each column of ``term(entries, their columns)``."""
    every, first = np.arange(int(public.mask.sum())), 0
    total, of_zero = np.zeros(len(every)), term(np.zeros(len(every)), every)
    for rows in public.blocks():
        own = slice(first, first + rows.shape[0])
        first = own.stop
        weight = np.ones(rows.shape[0]) if weights is None else weights[own]
        if not issparse(rows):
            total += (term(rows, slice(None)) * weight[:, None]).sum(axis=0)
            continue
        of_entries = weight[row_of_entries(rows)]
        terms = term(rows.data, rows.indices) * of_entries
        total += np.bincount(rows.indices, terms, len(every))
        stored = np.bincount(rows.indices, of_entries, len(every))
        total += (weight.sum() - stored) * of_zero
    return total
