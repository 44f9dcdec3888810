"""Pairs of neighbours as an estimator makes them, released by the mechanism.

An estimator is fitted to a table, and what it asks of the mechanism is recorded:
events, queries, thetas and what was released. On a neighbour it gets the same numbers
released ("frozen"), so that it asks the same in the same places, and the two queries of
each release are those of two neighbours. A canary is such a pair, as far apart as can
be.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from skfdp.data.units import Units
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.queries import weighted

#: Gaussian-DP parameter of one release of a canary: the larger, the better it is seen.
MU = 6.0
#: Noise multiplier of sampled batches: with little noise only the coins would show.
SAMPLED_NOISE = 0.5


class Asked(NamedTuple):
    """What was asked of the mechanism for one release, and what it gave out."""

    event: Event
    label: str
    stream: str | None
    query: Any
    theta: np.ndarray | None
    released: np.ndarray
    units: Units | None


@contextlib.contextmanager
def recorded(frozen: list | None, forced: dict[str, Callable]):
    """Record what mechanisms are asked; release what is frozen, or forced by label."""
    asked: list[Asked] = []
    honest = Mechanism.release

    def release(self, label, query, theta=None, *, stream=None):
        event = self.event(label)
        theta = None if theta is None else theta.copy()
        found = honest(self, label, query, theta, stream=stream)
        if frozen is not None:
            found = frozen[len(asked)].released.copy()
        elif label in forced:
            found = forced[label](found)
        own = found.copy()
        asked.append(Asked(event, label, stream, query, theta, own, self._units))
        return found

    with mock.patch.object(Mechanism, "release", release):
        yield asked


@dataclasses.dataclass(frozen=True)
class Canary:
    """A pair of neighbours that moves a release as far as can be."""

    name: str
    fit: Callable[[Any, Any], Any]  # with an integer seed
    X: np.ndarray
    y: np.ndarray | None
    private: np.ndarray  # a mask of columns; those of record 0 are replaced
    #: Private parts of record 0, or of each of the first `n_rows`, those of a person:
    #: a number or one for each column, and a label, None where it is public. None, of
    #: `other` alone: the record is null, or gone.
    one: tuple
    other: tuple | None
    label: str
    stream: str | None = None
    #: The supremum of what is attained, over the sensitivity, where the lemma is not
    #: tight.
    reach: float = 1.0
    #: What is released in the first place, by label: a function of what would be.
    forced: dict = dataclasses.field(default_factory=dict)
    #: ``theta(query)``, where to take the gradients: what is released may be anything,
    #: and so may be a function of it.
    theta: Callable | None = None
    #: ``edit(query, side)`` replaces what only a long search for a table would make.
    edit: Callable | None = None
    alone: bool = False  # all other records are null, whose coins are theirs
    n_rows: int = 1

    def table(self, part):
        """Return X and y with this private part of record 0, or of the person."""
        X, y = self.X.copy(), None if self.y is None else self.y.copy()
        values, label = part
        if values is not None:
            own = np.broadcast_to(values, X.shape[1])[self.private]
            X[: self.n_rows, self.private] = own
        if label is not None:
            y[: self.n_rows] = label
        return X, y

    def pair(self) -> "Pair":
        """Fit twice, the second time with the outputs of the first."""
        X, y = self.table(self.one)
        with recorded(None, self.forced) as first:
            self.fit(X, y)
        place = [one[1:3] for one in first].index((self.label, self.stream))
        asked = first[place]
        queries, voids, units = [asked.query] * 2, [None, None], asked.units
        own = np.arange(len(X)) < self.n_rows
        if units is not None and units.persons is not None:
            own = units.persons == 0  # of whom some rows may be left out
        gone = self.other is None and not asked.event.relation.counts_are_public
        if self.other is not None:
            queries[1] = self._again(first, *self.table(self.other))[place].query
        elif gone:
            rest = X[1:], None if y is None else y[1:]
            queries[1] = self._again(first, *rest)[place].query
        else:
            voids[1] = own
        if self.edit is not None:
            queries = [
                query if gone and side else self.edit(query, side)
                for side, query in enumerate(queries)
            ]
        if self.alone:
            voids = [~own, ~own[gone:] | (self.other is None)]
        # Those of two fits are equal, and not the same.
        queries = [without_units(query) for query in queries]
        theta = asked.theta if self.theta is None else self.theta(asked.query)
        return Pair(self.name, asked, theta, queries, voids)

    def _again(self, first, X, y):
        with recorded(first, {}) as asked:
            self.fit(X, y)
        assert [one.label for one in asked] == [one.label for one in first]
        for one, other in zip(first, asked, strict=True):
            np.testing.assert_array_equal(one.theta, other.theta)
        return asked


def without_units(query):
    """Return a query that sums over rows, each a record."""
    if getattr(query, "units", None) is None:
        return query
    return dataclasses.replace(query, units=None)


class Pair(NamedTuple):
    """Two queries of one release: of a table, and of its neighbour."""

    name: str
    asked: Asked
    theta: np.ndarray | None
    queries: list
    voids: list

    @property
    def event(self) -> Event:
        """What was charged."""
        return self.asked.event

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of a release that the record is in."""
        if self.event.sampling_rate == 1:
            return MU
        return self.event.sensitivity / (SAMPLED_NOISE * self.event.clip_norm)

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the exact sums over every row, in the unit of the canary."""
        queries = [weighted(query, self.asked.units) for query in self.queries]
        unit = queries[0].unit(self.event.sensitivity / self.mu)
        rows = [
            None if is_null is None else np.flatnonzero(~is_null)
            for is_null in self.voids
        ]
        return tuple(
            query.exact_sum(self.theta, batch, unit) * unit
            for query, batch in zip(queries, rows, strict=True)
        )

    def moved(self) -> float:
        """Return how far the sums are apart, over the sensitivity."""
        one, other = self.sums()
        return float(np.linalg.norm(one - other)) / self.event.sensitivity
