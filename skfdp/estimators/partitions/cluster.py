"""Partitions on the workers of `distributed`.

A shelf is an actor there: after it is made, this process asks the worker that has it,
and no task, no name of one and no log of the scheduler says more than that it exists.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from skfdp.estimators.partitions.places import WITHHELD, Places
from skfdp.estimators.partitions.shelf import Shelf

# A step is asked for so many times before a fit gives up.
_ATTEMPTS = 5
#: Verbs that change what a shelf holds.
_LASTING = ("put", "drop")


class ClusterPlaces(Places):
    """Partitions on workers; those of a lost worker are made anew.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of (Delayed, Delayed or None)
        The partitions of X and y.

    Notes
    -----
    **Guarantees.** What is asked of a partition while its worker is lost is asked again
    of a new shelf, which another worker makes from the graph of the collection and from
    all that was put there, with the same arguments: the answer is the same, and is
    taken once.
    """

    def __init__(self, client: Any, parts: Sequence[tuple[Any, Any]]):
        super().__init__([])
        self._client, self._parts = client, list(parts)
        self._futures: list[Any] = []
        self._done: list[tuple[str, Sequence[tuple]]] = []
        self._shelves = self._made(range(len(parts)))

    def _made(self, numbers: Sequence[int]) -> list[Any]:
        """Return new shelves of some partitions, each where its rows are."""
        names = [f"skfdp-partition-{uuid.uuid4()}" for _ in numbers]
        futures = []
        for number, name in zip(numbers, names, strict=True):
            parts = [part for part in self._parts[number] if part is not None]
            rows = self._client.compute(parts)
            futures.append(
                self._client.submit(Shelf, *rows, key=name, pure=False, actor=True)
            )
        self._futures += futures
        try:
            return [future.result() for future in futures]
        except Exception:  # of the user's graph; it may quote a cell
            pass
        raise RuntimeError(WITHHELD)

    def _called(self, verb: str, arguments: Sequence[tuple]) -> list[Any]:
        if verb in _LASTING:
            self._done.append((verb, arguments))
        found: dict[int, Any] = {}
        for _ in range(_ATTEMPTS):
            left = [i for i in range(len(self)) if i not in found]
            asked = [(i, self._asked(i, verb, arguments[i])) for i in left]
            lost = {}
            for i, future in asked:
                try:
                    found[i] = future.result()
                except Exception as error:  # a shelf raises nothing: it is gone
                    lost[i] = error
            if not lost:
                return [found[i] for i in range(len(self))]
            self._restore(sorted(lost), without_last=verb in _LASTING)
        kind = type(next(iter(lost.values()))).__name__
        raise RuntimeError(
            f"{len(lost)} partition(s) could not be asked on any worker ({kind}), in "
            f"{_ATTEMPTS} attempts: see the logs of the workers; what was charged "
            "for this fit stays."
        )

    def _asked(self, number: int, verb: str, arguments: tuple) -> Any:
        """Return the future of an answer; calls that fail at once are answers too."""
        try:
            return getattr(self._shelves[number], verb)(*arguments)
        except Exception as error:
            return _Lost(error)

    def _restore(self, numbers: Sequence[int], without_last: bool) -> None:
        """Make lost shelves anew, with all that was put on them."""
        made = self._made(numbers)
        for i, shelf in zip(numbers, made, strict=True):
            self._shelves[i] = shelf
        for verb, arguments in self._done[: len(self._done) - without_last]:
            futures = [self._asked(i, verb, arguments[i]) for i in numbers]
            for future in futures:
                try:
                    future.result()
                except Exception:  # lost again: the next attempt finds out
                    return

    def close(self) -> None:
        """Let the workers go of everything."""
        super().close()
        # Not by their references alone: actors are in cycles, and live on.
        self._client.cancel(self._futures)
        self._futures, self._parts, self._done = [], [], []


class _Lost:
    """A call that failed before there was a future."""

    def __init__(self, error: Exception):
        self._error = error

    def result(self) -> Any:
        """Raise what failed."""
        raise self._error
