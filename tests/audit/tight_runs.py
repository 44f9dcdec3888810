"""Pairs of neighbours as an estimator makes them, given out by the desk.

An estimator is fitted to a table, and what it asks of the desk is recorded: events,
queries, thetas and what was released. On a neighbour it gets the same numbers released
("frozen"), so that it asks the same in the same places, and the two queries of each
release are those of two neighbours. A canary is such a pair, as far apart as can be.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from skfdp.audit import mechanism as bounds
from skfdp.audit.mechanism import Score
from skfdp.data.grid import SparseGridRows
from skfdp.data.units import Units
from skfdp.mechanisms.noise import Streams
from skfdp.mechanisms.release import Desk
from skfdp.privacy import Event
from skfdp.queries.weighted import weighted

#: Gaussian-DP parameter of one release of a canary: the larger, the better it is seen.
MU = 6.0
#: Noise multiplier of sampled batches: with little noise only the coins would show.
SAMPLED_NOISE = 0.5
#: Releases of each table: of full batches, and of sampled ones.
N_FULL, N_SAMPLED = 4_000, 16_000


@dataclasses.dataclass(frozen=True)
class Asked:
    """What was asked of the desk for one release, and what it gave out."""

    event: Event
    label: str
    stream: str | None
    query: Any
    theta: np.ndarray | None
    released: np.ndarray
    units: Units | None


@contextlib.contextmanager
def recorded(frozen: list | None, forced: dict[str, Callable]):
    """Record what desks are asked; give out what is frozen, or forced by label."""
    asked: list[Asked] = []
    honest = Desk.release

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

    with mock.patch.object(Desk, "release", release):
        yield asked


@dataclasses.dataclass(frozen=True)
class Canary:
    """A pair of neighbours that moves a release as far as can be.

    Attributes
    ----------
    name : str
    fit : callable
        ``fit(X, y)`` fits the estimator, with an integer seed.
    X, y : ndarray
        y may be None.
    private : bool ndarray of shape (n_columns,)
        Which columns are private; those of record 0 are replaced.
    one, other : (values, label) or None
        Private parts of record 0, or of each of the first `n_rows`: a number or one for
        each column, and a label, None where it is public. None, of `other` alone: the
        record is null, or gone.
    label, stream : str
        Of the release.
    at : int
        Which of them.
    reach : float
        The supremum of what is attained, over the sensitivity, where the lemma is not
        tight.
    forced : dict
        What is given out in the first place, by label: a function of what would be.
    theta : callable
        ``theta(query)``, where to take the gradients: what is released may be anything,
        and so may be a function of it.
    edit : callable
        ``edit(query, side)`` replaces what only a long search for a table would make.
    alone : bool
        Leave all other records out, whose coins are theirs.
    n_rows : int
        Rows of the person that is replaced, the first ones of the table.
    """

    name: str
    fit: Callable[[Any, Any], Any]
    X: np.ndarray
    y: np.ndarray | None
    private: np.ndarray
    one: tuple
    other: tuple | None
    label: str
    stream: str | None = None
    at: int = 0
    reach: float = 1.0
    forced: dict = dataclasses.field(default_factory=dict)
    theta: Callable | None = None
    edit: Callable | None = None
    alone: bool = False
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
        place = self._place(first)
        asked = first[place]
        queries, void, units = [asked.query] * 2, None, asked.units
        own = np.arange(len(X)) < self.n_rows
        if units is not None and units.persons is not None:
            own = units.persons == 0  # of whom some rows may be left out
        replaced = self.other is not None
        if replaced:
            queries[1] = self._again(first, *self.table(self.other))[place].query
        elif asked.event.relation.counts_are_public:
            void = own
        else:
            gone = X[1:], None if y is None else y[1:]
            queries[1] = self._again(first, *gone)[place].query
        if self.edit is not None:
            queries = [self.edit(query, side) for side, query in enumerate(queries)]
        # Those of two fits are equal, and not the same.
        queries = [without_units(query) for query in queries]
        if self.alone:
            counts, n_rows = (1, int(replaced or void is not None)), int(own.sum())
            queries = [
                rows_of(query, count * n_rows)
                for query, count in zip(queries, counts, strict=True)
            ]
            void = None if void is None else void[:n_rows]
            units = None if units is None else first_units(units, n_rows)
        theta = asked.theta if self.theta is None else self.theta(asked.query)
        return Pair(
            self.name, asked.event, asked.stream, theta, tuple(queries), void, units
        )

    def _place(self, asked) -> int:
        places = [
            place
            for place, one in enumerate(asked)
            if (one.label, one.stream) == (self.label, self.stream)
        ]
        if not places:
            known = sorted({str((one.label, one.stream)) for one in asked})
            raise LookupError(f"{self.name}: no {self.label}, only {', '.join(known)}")
        return places[self.at]

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


def first_units(units, count: int):
    """Return the units of the first rows, which weigh what they do among all."""
    found = units.kept(np.arange(count))
    found.__dict__.update(step=units.step, reach=units.reach)  # cached properties
    return found


def rows_of(query, count: int):
    """Return the query over its first records."""
    kept = {"rows": first_rows(query.rows, count), "target": query.target[:count]}
    if query.padded is not None:
        kept["padded"] = first_rows(query.padded, count)
    return dataclasses.replace(query, **kept)


def first_rows(rows, count: int):
    """Return the first rows, of whatever kind."""
    if not isinstance(rows, SparseGridRows):
        parts = {
            part.name: getattr(rows, part.name)[:count]
            for part in dataclasses.fields(rows)
            if np.ndim(getattr(rows, part.name))
        }
        return dataclasses.replace(rows, **parts)
    end = rows.indptr[count]
    return dataclasses.replace(
        rows,
        data=rows.data[:end],
        indices=rows.indices[:end],
        indptr=rows.indptr[: count + 1],
        squared_norms=rows.squared_norms[:count],
    )


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two queries of one release: of a table, and of its neighbour."""

    name: str
    event: Event
    stream: str | None
    theta: np.ndarray | None
    queries: tuple
    void: np.ndarray | None
    units: Units | None = None

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of a release that the record is in."""
        if self.event.sampling_rate == 1:
            return MU
        return self.event.sensitivity / (SAMPLED_NOISE * self.event.clip_norm)

    def canary_event(self, n_releases: int) -> Event:
        """Return what was charged, with the noise and the number of the canary."""
        return dataclasses.replace(
            self.event,
            noise_std=(self.event.sensitivity / self.mu,),
            noise_decay=0.0,
            n_steps=n_releases,
        )

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the exact sums over every row, in the unit of the canary."""
        std = self.event.sensitivity / self.mu
        queries = [weighted(query, self.units) for query in self.queries]
        unit = queries[0].unit(std)
        rows = [None, None]
        if self.void is not None:
            rows[1] = np.flatnonzero(~self.void)
        return tuple(
            query.exact_sum(self.theta, batch, unit) * unit
            for query, batch in zip(queries, rows, strict=True)
        )

    def moved(self) -> float:
        """Return how far the sums are apart, over the sensitivity."""
        one, other = self.sums()
        return float(np.linalg.norm(one - other)) / self.event.sensitivity

    def seen(self, seed: int | None, n_releases: int | None = None) -> "Seen":
        """Release both tables at the desk, and measure how far they are apart."""
        sampled = self.event.sampling_rate < 1
        if n_releases is None:
            n_releases = N_SAMPLED if sampled else N_FULL
        event = self.canary_event(n_releases)
        one, other = self.sums()
        apart = (one - other).ravel()
        apart = apart / (np.linalg.norm(apart) or 1.0)
        along = []
        voids = None, self.void
        for side, (query, void) in enumerate(zip(self.queries, voids, strict=True)):
            streams = Streams(seed, f"tight/{self.name}/table {side}")
            desk = Desk((event,), streams, void, self.units)
            found = np.empty(n_releases)
            for step in range(n_releases):
                released = desk.release(
                    event.label, query, self.theta, stream=self.stream
                )
                found[step] = released.ravel() @ apart
            along.append(found)
        claimed = MU
        if sampled:  # the ratio of each release, a release being a trial
            score = Score(dataclasses.replace(event, n_steps=1))
            gap, variance = score.moments()
            claimed = gap / math.sqrt(variance)
            along = [score.of_step(one, event.noise_std[0]) for one in along]
        found = bounds.separation(along[1], along[0], gaussian=not sampled)
        return Seen(claimed, found.value, found.standard_error, n_releases)


@dataclasses.dataclass(frozen=True)
class Seen:
    """The parameter claimed of a release of a canary, and the one that was seen."""

    claimed: float
    value: float
    error: float
    n_releases: int

    @property
    def ratio(self) -> float:
        """Seen over claimed."""
        return self.value / self.claimed

    @property
    def ratio_error(self) -> float:
        """Standard error of `ratio`."""
        return self.error / self.claimed
