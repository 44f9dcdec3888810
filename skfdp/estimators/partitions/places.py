"""Places of partitions: one shelf for each, and the way to ask all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from skfdp.estimators.partitions.shelf import RAW, Failure, Shelf
from skfdp.releases.partition_coins import PartitionBatch

#: What is said instead of an error of the user's graph.
WITHHELD = (
    "a partition of the Dask collection could not be computed; the error is withheld "
    "because it may quote the data: compute the collection of made-up rows to see it."
)


class Places:
    """Partitions in this process, one shelf each.

    Parameters
    ----------
    parts : sequence of (X, y)
        The partitions.
    """

    def __init__(self, parts: Sequence[tuple[Any, Any]]):
        self._shelves: list[Any] = [Shelf(*part) for part in parts]
        self._names = itertools.count(1)

    def __len__(self) -> int:
        return len(self._shelves)

    def put(
        self,
        make: Callable,
        source: str = RAW,
        per_row: Sequence[dict] | None = None,
        name: str | None = None,
    ) -> str:
        """Keep what a function makes of something kept, in every place.

        Parameters
        ----------
        make : callable
            It can be pickled.
        source : str
            Name of what it is made of.
        per_row : sequence of dict, default=None
            Further arguments, those of each partition.
        name : str, default=None
            Of what is made; None: a new one, which is returned.
        """
        name = f"made {next(self._names)}" if name is None else name
        given = [{}] * len(self) if per_row is None else per_row
        self._answers("put", [(name, make, source, one) for one in given])
        return name

    def ask(self, name: str, question: Callable) -> list[Any]:
        """Return what a function says of something kept, in the order of the rows."""
        return self._answers("ask", [(name, question)] * len(self))

    def total(
        self,
        name: str,
        theta: np.ndarray | None,
        batch: PartitionBatch | None,
        unit: float,
    ) -> np.ndarray:
        """Return the exact int64 sum of a query over all partitions."""
        coins = [None if batch is None else batch.of(i) for i in range(len(self))]
        found = self._answers("total", [(name, theta, one, unit) for one in coins])
        total = np.zeros(found[0].shape, dtype=np.int64)
        for one in found:
            total += one  # whatever the order: integers
        return total

    def drop(self, name: str) -> None:
        """Keep something no longer."""
        self._answers("drop", [(name,)] * len(self))

    def close(self) -> None:
        """Let go of everything that is kept."""
        self._shelves = []

    def _answers(self, verb: str, arguments: Sequence[tuple]) -> list[Any]:
        """Return what each partition answers, or raise what went wrong there."""
        found = self._called(verb, arguments)
        failed = next((one for one in found if isinstance(one, Failure)), None)
        if failed is not None:
            raise failed.kind(failed.text)
        return found

    def _called(self, verb: str, arguments: Sequence[tuple]) -> list[Any]:
        shelves = zip(self._shelves, arguments, strict=True)
        return [getattr(shelf, verb)(*given) for shelf, given in shelves]
