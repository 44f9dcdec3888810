"""The two rehearsals of a replay: one records what is released, one repeats it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from skfdp.audit.replay.tracing import Trace
from skfdp.privacy.events import Event
from skfdp.releases.rehearsal import Asked

# Distances of integers are exact; bounds are products of float64 factors.
_ROUNDING = 1e-9


class Parted(BaseException):
    """End of a replay whose releases are others; no handler of Exception hides it."""


@dataclasses.dataclass(frozen=True)
class Release:
    """One release, as it was recorded.

    Attributes
    ----------
    facts : dict
        What must be equal between neighbours, by name.
    asked : Asked
        Its batch is a copy.
    theta : str
        Digest of where the query was asked.
    total : int64 ndarray
        The exact sum of the batch, in grid units.
    whole : int64 ndarray
        That of every row.
    answer : float64 ndarray
        What the desk gave out.
    """

    facts: dict[str, Any]
    asked: Asked
    theta: str
    total: np.ndarray
    whole: np.ndarray
    answer: np.ndarray


@dataclasses.dataclass(frozen=True)
class Move:
    """Distance by which a neighbour moved one release.

    Attributes
    ----------
    event : Event
    distance : float
        Largest Euclidean distance of the sums, in units of the release.
    sensitivity : float
        What the query says of it.
    noise_std : float
    """

    event: Event
    distance: float
    sensitivity: float
    noise_std: float

    @property
    def is_within(self) -> bool:
        """Whether it is as far as was declared, or less."""
        return self.distance <= self.sensitivity * (1 + _ROUNDING)


class _Fixed:
    """Fixed keys for every stream, by its name and the number of those before it."""

    def __init__(self, trace: Trace | None = None):
        self._opened: Counter[str] = Counter()
        self.trace = trace

    def key(self, stream: str) -> int:
        """Return a key that anybody can compute."""
        name = f"{stream}#{self._opened[stream]}"
        self._opened[stream] += 1
        digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"skfdp audit")
        return int.from_bytes(digest.digest(), "little")

    def _unseen(self) -> Any:
        """Return a context of what an audit does itself."""
        return contextlib.nullcontext() if self.trace is None else self.trace.paused()


class Recording(_Fixed):
    """A rehearsal that keeps each release; its noise has a fixed key."""

    def __init__(self) -> None:
        super().__init__()
        self.releases: list[Release] = []

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what the desk gives out, and keep it."""
        kept = dataclasses.replace(asked, batch=_copy(asked.batch))
        total, whole = _sums(kept)
        answer = noisy_sum()
        self.releases.append(
            Release(
                facts=_facts(kept),
                asked=kept,
                theta=_digest(asked.theta),
                total=total,
                whole=whole,
                answer=answer.copy(),
            )
        )
        return answer


class Repeating(_Fixed):
    """A rehearsal that answers as recorded, and measures how far the sums moved.

    Parameters
    ----------
    recorded : list of Release
    n_records : int
        Number of rows of the table.
    changed : int, tuple of int or None
        Position of the record that differs, or those of all rows of the person; None:
        there is none.
    trace : Trace or None
        Does not follow what is done here.
    """

    def __init__(
        self,
        recorded: list[Release],
        n_records: int,
        changed: int | tuple[int, ...] | None,
        trace: Trace | None = None,
    ):
        super().__init__(trace)
        self._recorded, self._n_records = recorded, n_records
        self._changed = None if changed is None else np.atleast_1d(changed)
        self._drawn: set[str] = set()
        self.moves: list[Move] = []
        #: Kind of the difference, and the label of the release.
        self.differences: list[tuple[str, str]] = []

    @property
    def n_left(self) -> int:
        """Number of recorded releases that were not asked for."""
        return len(self._recorded) - len(self.moves)

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what was given out when this was recorded.

        Raises
        ------
        Parted
            If another release was recorded, or none.
        """
        with self._unseen():
            label = asked.event.label
            if not self.n_left:
                self.differences.append(("release", f"{label!r}, which is one more"))
                raise Parted
            wanted = self._recorded[len(self.moves)]
            self._compare(wanted, asked)
            self.moves.append(self._move(wanted, asked))
            if not self.moves[-1].is_within:
                self.differences.append(("distance", repr(label)))
            return wanted.answer.copy()

    def _compare(self, wanted: Release, asked: Asked) -> None:
        """Note what of a release differs, and end the replay if it is another one."""
        label, found = repr(asked.event.label), _facts(asked)
        names = [name for name, fact in wanted.facts.items() if found[name] != fact]
        if not asked.event.relation.counts_are_public and "n_rows" in names:
            names.remove("n_rows")
        for name in names:
            self.differences.append(("release", f"{label}, its {name}"))
        if {"label", "query", "shape"} & set(names):
            raise Parted
        if _digest(asked.theta) != wanted.theta:
            self.differences.append(("theta", label))
        if not self._same_batch(wanted.asked, asked):
            self.differences.append(("batch", label))

    def _same_batch(self, one: Asked, other: Asked) -> bool:
        """Whether the same rows are summed, but for void ones and for a last one."""
        first = other.event.label not in self._drawn
        self._drawn.add(other.event.label)
        n_rows = min(one.query.n_rows, other.query.n_rows)
        if one.query.n_rows != other.query.n_rows and not first:
            return True  # later gaps begin at other words: see `audit_replay`
        members = np.zeros((2, n_rows), dtype=bool)
        for row, asked in zip(members, (one, other), strict=True):
            row[_members(asked)[_members(asked) < n_rows]] = True
        for asked in (one, other):
            if asked.void is not None:
                members[:, asked.void[:n_rows]] = False
        return bool((members[0] == members[1]).all())

    def _move(self, wanted: Release, asked: Asked) -> Move:
        """Return how far the neighbour moves this release."""
        relation = asked.event.relation
        query, unit = asked.query, asked.query.unit(asked.noise_std)
        total, whole = _sums(asked)
        if relation.name == "replace_special":
            distance = self._nulled(wanted, asked, whole)
        else:
            distance = _distance(wanted.whole, whole)
            if wanted.asked.query.n_rows == query.n_rows:  # else they share no batch
                distance = max(distance, _distance(wanted.total, total))
        return Move(
            event=asked.event,
            distance=distance * unit,
            sensitivity=query.sensitivity(relation),
            noise_std=asked.noise_std,
        )

    def _nulled(self, wanted: Release, asked: Asked, whole: np.ndarray) -> float:
        """Return how far both tables are from the one whose record, or person, is null.

        Its sum lacks what the record adds, in the one table and in the other. What the
        others add is the same in both; a difference is for the record to answer for.
        """
        if self._changed is None:
            return _distance(wanted.whole, whole)
        if asked.query.n_rows == self._n_records:
            added, others = _added(wanted, asked, self._changed)
            if not others:
                return added
        # A part of the table, in a search, or rows in another order.
        places = _places(wanted, asked, len(self._changed))
        return sum(_added(wanted, asked, places)) if len(places) else 0.0


def _facts(asked: Asked) -> dict[str, Any]:
    """Return what is public of a release."""
    query = asked.query
    return {
        "label": asked.event.label,
        "query": type(query).__qualname__,
        "shape": tuple(query.shape),
        "event": asked.event,
        "stream": asked.stream,
        "clip_norm": query.clip_norm,
        "sensitivity": query.sensitivity(asked.event.relation),
        "unit": query.unit(asked.noise_std),
        "noise_std": asked.noise_std,
        "n_rows": query.n_rows,
    }


def _sums(asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact sums over the batch and over every row that is not void."""
    query, unit = asked.query, asked.query.unit(asked.noise_std)
    total = query.exact_sum(asked.theta, asked.batch, unit).copy()
    if asked.event.sampling_rate == 1:
        return total, total
    rows = None if asked.void is None else np.flatnonzero(~asked.void)
    return total, query.exact_sum(asked.theta, rows, unit).copy()


def _added(wanted: Release, asked: Asked, own: np.ndarray) -> tuple[float, float]:
    """Return how much some rows add at most, and how far the sums of others are."""
    both = wanted.asked, asked
    sums = [_partial(one, asked.theta, own) for one in both]
    rows = np.delete(np.arange(asked.query.n_rows), own)
    rest = [_partial(one, asked.theta, rows) for one in both]
    return max(map(_length, sums)), _distance(*rest)


def _places(wanted: Release, asked: Asked, most: int) -> np.ndarray:
    """Return the positions of the rows that add something else, at most so many.

    One after the other, by halves: all others add the same at the same place.
    """
    rows, found = np.arange(asked.query.n_rows), []
    while len(found) < most:
        place = _place(wanted, asked, rows)
        if place is None:
            break
        found.append(place)
        rows = rows[rows != place]
    return np.array(found, dtype=np.int64)


def _place(wanted: Release, asked: Asked, rows: np.ndarray) -> int | None:
    """Return the position of a row that adds something else, None if none does."""

    def differ(rows: np.ndarray) -> bool:
        one, other = (_partial(a, asked.theta, rows) for a in (wanted.asked, asked))
        return bool((one != other).any())

    if not differ(rows):
        return None
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        rows = half if differ(half) else rows[len(half) :]
    return int(rows[0])


def _partial(asked: Asked, theta: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    """Return the exact sum over some rows, without those that are void."""
    if asked.void is not None:
        rows = rows[~asked.void[rows]]
    unit = asked.query.unit(asked.noise_std)
    return asked.query.exact_sum(theta, rows, unit).copy()


def _members(asked: Asked) -> np.ndarray:
    return np.arange(asked.query.n_rows) if asked.batch is None else asked.batch


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    # Sums wrap around where n is private; so does their difference, to the distance.
    return _length(one - other)


def _length(total: np.ndarray) -> float:
    """Return the norm of integers; their squares are exact."""
    return math.sqrt(sum(entry * entry for entry in total[total != 0].tolist()))


def _copy(batch: np.ndarray | None) -> np.ndarray | None:
    return None if batch is None else batch.copy()


def _digest(theta: np.ndarray | None) -> str:
    if theta is None:
        return ""
    theta = np.ascontiguousarray(theta)
    told = f"{theta.dtype}{theta.shape}".encode()
    return hashlib.blake2b(told + theta.tobytes(), digest_size=16).hexdigest()
