"""The method of private bounds: binades first, then even bins within what they told."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.sparse import issparse

from skfdp.estimators.bounds import decoding
from skfdp.estimators.bounds.decoding import Told
from skfdp.estimators.method import Budget, OnStep, Plan
from skfdp.privacy import Event
from skfdp.queries import MAX_STD
from skfdp.queries.bins import Binades, BinCounts, EvenBins
from skfdp.records.records import PublicRecords, Records
from skfdp.releases.desk import Desk

#: Labels of the two events.
BINADES, BINS = "binades", "bins"
#: Even bins of a column.
N_EVEN = 32
#: Share of the squared budget of both that the binades take: without them there are no
#: bounds, and what the bins add is a factor of 2 or so.
BINADES_SHARE = 0.7
#: More counts than that are not held: some 50,000 columns.
MOST_COUNTS = 2**26


@dataclasses.dataclass(frozen=True)
class FoundBounds:
    """Released bounds, exact ones of public columns.

    Attributes
    ----------
    low, high : float64 ndarray of shape (n_features,)
        Finite, low < high.
    knots : tuple of tuple of float
        Of each column; empty where none were asked for.
    seen : bool ndarray of shape (n_features,)
        False where nothing stood out of the noise, and the bounds are the fallback.
    """

    low: np.ndarray
    high: np.ndarray
    knots: tuple[tuple[float, ...], ...]
    seen: np.ndarray


@dataclasses.dataclass(frozen=True)
class BoundsRelease:
    """The release of bounds, and of knots between them.

    Attributes
    ----------
    n_knots : int or None
        Of each column; None: no knots are asked for.
    """

    n_knots: int | None = None

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Learn nothing: bounds of public columns are exact, and needed at the end."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Calibrate the two releases; all of the budget is theirs."""
        first, _ = events(public, budget, (BINADES_SHARE, 1 - BINADES_SHARE))
        query = BinCounts.planned(public.n_private)
        schedule = budget.calibrate(
            n_steps=1,
            clip_norm=query.clip_norm,
            sensitivity=query.sensitivity(budget.relation),
            other_events=(first,),
        )
        second = budget.named(schedule, BINS)
        check_noise(second, budget, _step(public))
        return Plan(events=(first, second), schedule=schedule)

    def run(
        self,
        records: Records,
        prepared: None,
        plan: Plan,
        desk: Desk,
        on_step: OnStep,
    ) -> FoundBounds:
        """Release the counts of binades, then those of even bins."""
        first, second = plan.event(BINADES), plan.event(BINS)
        return released(records, first, second, desk, self.n_knots)

    def exactly(self, records: Records) -> FoundBounds:
        """Return the bounds of all columns as if they were public."""
        n_features = records.public.n_features
        found = _Found.start(records.public, self.n_knots)
        for place in range(n_features):
            found.add_exact(place, records.X[:, [place]])
        return found.whole()


def events(
    public: PublicRecords, budget: Budget, shares: tuple[float, float]
) -> tuple[Event, Event]:
    """Return the events of the two releases, which take these shares of ``mu**2``."""
    query = BinCounts.planned(public.n_private)
    if math.prod(query.shape) > MOST_COUNTS:
        raise ValueError(
            f"bounds of {public.n_private} private columns are more than can be "
            f"counted: name at most {MOST_COUNTS // query.rule.n_bins} of them, and "
            "declare the bounds of the others."
        )
    reach = query.sensitivity(budget.relation)

    def event(label: str, share: float) -> Event:
        found = budget.event(
            label,
            reach / (math.sqrt(share) * budget.mu),
            clip_norm=query.clip_norm,
            sensitivity=reach,
        )
        check_noise(found, budget, _step(public))
        return found

    return event(BINADES, shares[0]), event(BINS, shares[1])


def _step(public: PublicRecords) -> float:
    """Return what one count adds to a sum; see `Units.step`."""
    return 1.0 if public.units is None else public.units.step


def check_noise(event: Event, budget: Budget, step: float = 1.0) -> None:
    """Raise ValueError where integers cannot carry the noise of the counts."""
    if event.noise_std[0] > MAX_STD * step:
        raise ValueError(
            f"epsilon={budget.epsilon!r} and delta={budget.delta!r} need more noise "
            "than the grid of the released counts can carry: raise the budget."
        )


def released(
    records: Records,
    first: Event,
    second: Event,
    desk: Desk,
    n_knots: int | None = None,
) -> FoundBounds:
    """Return the bounds of all columns: released, and exact where they are public.

    Parameters
    ----------
    records : Records
        Their private columns may hold any number; nothing was filled in.
    first, second : Event
        Of the binades and of the even bins.
    desk : Desk
    n_knots : int, default=None
    """
    public = records.public
    private = np.flatnonzero(~public.mask)
    X, sparse, n = records.X[:, private], issparse(records.X), public.n_records
    counts = desk.release(first.label, BinCounts(X, Binades()))
    std = float(first.noise_std[0])
    rough = [decoding.rough_bounds(Told(row, std, n), sparse=sparse) for row in counts]
    usual = decoding.FALLBACK_OF_SPARSE if sparse else decoding.FALLBACK
    rule = decoding.even_bins([usual if r is None else r for r in rough], N_EVEN)
    counts = desk.release(second.label, BinCounts(X, rule))
    std = float(second.noise_std[0])
    found = _Found.start(public, n_knots)
    for j, place in enumerate(private):
        found.add(place, Told(counts[j], std, n), rule.edges(j), rough[j] is not None)
    shown = public.X
    for j, place in enumerate(np.flatnonzero(public.mask)):
        found.add_exact(place, shown[:, [j]])
    return found.whole()


@dataclasses.dataclass
class _Found:
    """Bounds and knots of the columns so far."""

    n_knots: int | None
    sparse: bool
    low: np.ndarray
    high: np.ndarray
    seen: np.ndarray
    knots: dict[int, tuple[float, ...]]

    @classmethod
    def start(cls, public: PublicRecords, n_knots: int | None) -> _Found:
        n = public.n_features
        low, high = np.empty((2, n))
        return cls(n_knots, public.sparse, low, high, np.ones(n, dtype=bool), {})

    def add(self, place: int, told: Told, edges: np.ndarray, seen: bool) -> None:
        """Take in a column that was counted."""
        low, high = float(edges[0]), float(edges[-1])
        if seen:
            low, high = decoding.fine_bounds(told, edges)
        if self.sparse:
            low = 0.0
        self._put(place, told, edges, (low, high))
        self.seen[place] = seen

    def add_exact(self, place: int, column) -> None:
        """Take in a column that may be looked at, shape (n_rows, 1)."""
        values = (column.data if issparse(column) else np.asarray(column)).ravel()
        values = values.astype(np.float64)
        finite = values[np.isfinite(values)]
        bounds = decoding.public_bounds(finite, sparse=self.sparse)
        rule = EvenBins(*(np.array([side]) for side in bounds), N_EVEN)
        counts = BinCounts(column, rule).exact_sum(None, None, 1.0)[0]
        told = Told(counts.astype(np.float64), 0.0, column.shape[0])
        self._put(place, told, rule.edges(0), bounds)

    def _put(self, place, told, edges, bounds) -> None:
        self.low[place], self.high[place] = bounds
        if self.n_knots is not None:
            own = decoding.knots_between(told, edges, bounds, self.n_knots)
            self.knots[place] = own

    def whole(self) -> FoundBounds:
        """Return what was found of all columns."""
        knots = tuple(self.knots.get(j, ()) for j in range(len(self.low)))
        return FoundBounds(self.low, self.high, knots, self.seen)
