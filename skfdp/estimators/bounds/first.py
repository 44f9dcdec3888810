"""The method of fits that do not know their bounds: release them, then fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.estimators.bounds import decoding
from skfdp.estimators.bounds.release import BINADES, BINS, events, released
from skfdp.estimators.method import Budget, Method, OnStep, Plan
from skfdp.privacy import assumptions as sentences
from skfdp.privacy.assumptions import Assumption, enforced
from skfdp.queries.bins import BinCounts
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.releases.desk import Desk

#: Stands for bounds that are not released yet: all that a plan may know of them is that
#: every column will have some.
UNKNOWN = (0.0, 1.0)
#: Least and largest shares of ``mu**2`` of the binades, and of the bins.
BINADES_SHARES, BINS_SHARES = (0.01, 0.2), (0.01, 0.02)
# Wanted noise in a count, as a share of the records: a quarter of them in one binade
# stand out, and a twentieth in eight bins is told from none.
_BINADES_NOISE, _BINS_NOISE = 0.058, 0.009
# The sentences on declared bounds, and what is said of released ones instead.
_INSTEAD = {
    sentences.VALUES_CLIPPED: sentences.VALUES_CLIPPED_RELEASED,
    sentences.ORTHANT: sentences.ORTHANT_RELEASED,
}


def is_private(bounds: Any) -> bool:
    """Whether bounds are to be released; asks no array, which would answer by entry."""
    return isinstance(bounds, str) and bounds == "private"


def with_public_bounds(
    row_map: RowMap, X: np.ndarray | csr_array, public: np.ndarray
) -> RowMap:
    """Return a map that has the exact bounds of the public columns.

    Parameters
    ----------
    row_map : RowMap
        Of bounds `UNKNOWN`.
    X : ndarray or csr_array of shape (n_rows, n_features)
        Only its public columns are read, which are finite.
    public : bool ndarray of shape (n_features,)
    """
    low, span = row_map.low.copy(), row_map.span.copy()
    for place in np.flatnonzero(public):
        column = X[:, [place]]
        values = column.data if issparse(column) else np.asarray(column)
        values = values.ravel().astype(np.float64)
        low[place], high = decoding.public_bounds(values, sparse=issparse(X))
        span[place] = high - low[place]
    return dataclasses.replace(row_map, low=low, span=span)


def told_of_released(found: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """Return assumptions that speak of released bounds in place of declared ones."""
    told = (
        enforced(_INSTEAD[one.text]) if one.text in _INSTEAD else one for one in found
    )
    return (*told, enforced(sentences.BOUNDS_RELEASED))


def shares(public: PublicRecords, budget: Budget) -> tuple[float, float]:
    """Return the shares of ``mu**2`` of the two releases, from public numbers."""
    reach = BinCounts.planned(public.n_private).sensitivity(budget.relation)
    # The noise of all of the budget, as a share of the records or persons.
    alone = reach * budget.reach / (budget.mu * public.n_records)
    wanted = (alone / _BINADES_NOISE) ** 2, (alone / _BINS_NOISE) ** 2
    binades, bins = np.clip(wanted, *zip(BINADES_SHARES, BINS_SHARES, strict=True))
    return float(binades), float(bins)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundsPrepared:
    """The preparations of the method that comes after."""

    after: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoundsPlan(Plan):
    """The plan of both: the last releases are those of the method that comes after."""

    after: Plan


@dataclasses.dataclass(frozen=True)
class BoundsFirst:
    """The release of bounds, and a linear method after it.

    Attributes
    ----------
    method : Method
        Whose plan is one for any bounds.

    Notes
    -----
    **Guarantees.** Given what the bounds releases told, the row map is a fixed function
    of each record, and the same for neighbours. What the method claims of its releases
    it claims for every row map with bounds, so that it holds given any outcome, and
    adaptive composition adds both up: the method's plan is calibrated beside the events
    of the bounds. Its plan sees `UNKNOWN` bounds of private columns and the exact
    ones of public columns, and is a function of public facts.
    """

    method: Method

    def _rest(self, public: PublicRecords, budget: Budget) -> Budget:
        return budget.after(*events(public, budget, shares(public, budget)))

    def prepare(self, public: PublicRecords, budget: Budget) -> BoundsPrepared:
        """Let the method learn what is public."""
        found = self.method.prepare(public, self._rest(public, budget))
        return BoundsPrepared(after=found)

    def plan(
        self, public: PublicRecords, prepared: BoundsPrepared, budget: Budget
    ) -> BoundsPlan:
        """Plan the release of bounds, and the method on what that leaves."""
        rest = self._rest(public, budget)
        after = self.method.plan(public, prepared.after, rest)
        return BoundsPlan(
            events=(*rest.before, *after.events),
            schedule=after.schedule,
            assumptions=after.assumptions,
            n_steps=after.n_steps,
            counts_labels=after.counts_labels,
            after=after,
        )

    def run(
        self,
        records: Records,
        prepared: BoundsPrepared,
        plan: BoundsPlan,
        desk: Desk,
        on_step: OnStep,
    ) -> Any:
        """Release the bounds, map the rows by them, and run the method."""
        found = released(records, plan.event(BINADES), plan.event(BINS), desk)
        row_map = dataclasses.replace(
            records.row_map, low=found.low, span=found.high - found.low
        )

        def told(step: int, model: Callable[[], Any]) -> bool:
            return on_step(step, lambda: with_map(model()))

        def with_map(model: Any) -> Any:
            return dataclasses.replace(model, row_map=row_map)

        mapped = records.bounded_by(row_map)
        return with_map(self.method.run(mapped, prepared.after, plan.after, desk, told))
