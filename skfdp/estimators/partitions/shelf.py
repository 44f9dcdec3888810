"""Shelves: the rows of one partition, and what is made of them, where they are."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from skfdp.records.guards import without_traps
from skfdp.releases.coins import not_void
from skfdp.releases.partition_coins import Coins

#: Names of what is kept first.
RAW, RECORDS = "raw", "records"
_WITHHELD = (
    "a partition could not be read; the error is withheld because it may quote the "
    "data: fit to a collection of made-up rows to see it."
)


@dataclasses.dataclass(frozen=True)
class Failure:
    """An error of a partition, to be raised by who asked.

    Attributes
    ----------
    kind : type
    text : str
    """

    kind: type
    text: str


def _told(verb: Callable) -> Callable:
    """Decorate a method of a shelf: it returns errors, and never raises one.

    The scheduler and the workers of a cluster log errors, and the arguments of what
    failed with them.
    """

    @functools.wraps(verb)
    def told(self: Shelf, *args: Any) -> Any:
        try:
            with without_traps():
                return verb(self, *args)
        except (ValueError, TypeError) as error:  # which quote no datum, like all here
            return Failure(type(error), str(error))
        except Exception:  # its type, too, may depend on a value
            return Failure(RuntimeError, _WITHHELD)

    return told


class Shelf:
    """The rows of one partition, and what is made of them, where they are.

    Parameters
    ----------
    X, y
        The partition as the user's collection has it. It stays here.

    Notes
    -----
    **Guarantees.** Every answer is a function of the partition and of what was put and
    asked: an answer that is asked for twice, or of a new shelf after the loss of this
    one, is the same to the last bit.
    """

    def __init__(self, X: Any, y: Any = None):
        self._kept: dict[str, Any] = {RAW: (X, y)}

    @_told
    def put(self, name: str, make: Callable, source: str, per_row: dict) -> None:
        """Keep ``make(what is kept as source, **per_row)`` under a name."""
        self._kept[name] = make(self._kept[source], **per_row)

    @_told
    def ask(self, name: str, question: Callable) -> Any:
        """Return ``question(what is kept)``; it leaves this place."""
        return question(self._kept[name])

    @_told
    def total(
        self, name: str, theta: np.ndarray | None, coins: Coins | None, unit: float
    ) -> np.ndarray:
        """Return the exact sum of a query over a batch; no coins: over every row.

        Void records are left out, as a desk leaves them out.
        """
        query, void = self._kept[name], self._kept[RECORDS].void
        batch = None if coins is None else coins.members(query.n_rows)
        return query.exact_sum(theta, not_void(batch, void, query.n_rows), unit)

    @_told
    def drop(self, name: str) -> None:
        """Keep something no longer."""
        self._kept.pop(name, None)
