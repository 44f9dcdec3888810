"""The hash chain that protects the record in a ledger's file.

Every charge has a link: SHA-256 of the head before it, a fresh random nonce, and its
rows as the file stores them. Whoever holds a head can tell whether a file still
contains all that was recorded until then. Without the nonce a file restored from an
older copy could be charged with the same rows again, and end in the same head.

Whoever may write the file can also write a new chain: a chain alone proves nothing, and
a head that was kept elsewhere proves everything before it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import operator
import secrets
import sqlite3
from collections.abc import Iterable, Iterator

#: The columns of an entry in the order in which they are hashed: never changed, since
#: the links of all files rest on it.
COLUMNS = (
    *("charge", "id", "time", "dataset", "label", "neighboring_relation"),
    *("public_features", "public_target", "event", "versions", "seeded", "part"),
    "plan",
)
_NAMES = ", ".join(f'"{name}"' for name in COLUMNS)

Row = tuple[str | int | float | bytes | None, ...]


@dataclasses.dataclass(frozen=True)
class Record:
    """Everything recorded in a file: rows by charge, and (charge, nonce, head)."""

    rows: list[Row]
    links: list[tuple[int, str, str]]

    @property
    def heads(self) -> dict[int, str]:
        """The head after each charge."""
        return {charge: head for charge, _, head in self.links}

    def begins_with(self, other: Record) -> bool:
        """Whether this is the other record, or a continuation of it."""
        return (
            self.rows[: len(other.rows)] == other.rows
            and self.links[: len(other.links)] == other.links
        )


class BrokenChainError(Exception):
    """Error for a charge that is not what its link says; holds its number."""

    def __init__(self, charge: int):
        super().__init__(charge)
        self.charge = charge


def last(connection: sqlite3.Connection, ledger: str) -> tuple[int, str]:
    """Return number and head of the last link, unchecked; number 0 without links."""
    found = connection.execute(
        "SELECT charge, head FROM chain ORDER BY charge DESC LIMIT 1"
    ).fetchone()
    return found or (0, ledger)


def extend(connection: sqlite3.Connection, ledger: str) -> tuple[int, str]:
    """Link all charges after the last link; return the last number and head.

    Parameters
    ----------
    connection : Connection
        In a transaction that holds the write lock.
    ledger : str
        Identity of the ledger, with which its chain begins.
    """
    number, head = last(connection, ledger)
    charges = _charges(_rows(connection, number))
    for number, rows in charges:
        nonce = secrets.token_hex(32)
        head = _head(head, nonce, rows)
        connection.execute("INSERT INTO chain VALUES (?, ?, ?)", (number, nonce, head))
    return number, head


def read(connection: sqlite3.Connection) -> Record:
    """Return all rows and all links."""
    links = connection.execute("SELECT charge, nonce, head FROM chain ORDER BY charge")
    return Record(_rows(connection, 0), links.fetchall())


def check(record: Record, ledger: str, known: Record | None = None) -> None:
    """Raise BrokenChainError unless every charge is what its link says.

    Parameters
    ----------
    record : Record
    ledger : str
        Identity of the ledger.
    known : Record, default=None
        One that was checked before: where the record begins with the same rows and
        links, the rest alone is hashed.
    """
    rows, links, head = record.rows, record.links, ledger
    if known is not None and record.begins_with(known) and known.links:
        rows, links = rows[len(known.rows) :], links[len(known.links) :]
        head = known.links[-1][2]
    for found, link in itertools.zip_longest(_charges(rows), links):
        if found is None or link is None or found[0] != link[0]:
            numbers = (one[0] for one in (found, link) if one is not None)
            ours = [number for number in numbers if isinstance(number, int)]
            raise BrokenChainError(min(ours, default=0))
        number, nonce, claimed = link
        head = _head(head, nonce, found[1])
        if head != claimed:
            raise BrokenChainError(number)


def _rows(connection: sqlite3.Connection, after: int) -> list[Row]:
    """Return the rows of all charges after a number, those of one charge together."""
    return connection.execute(
        f"SELECT {_NAMES} FROM entries WHERE charge > ? ORDER BY charge, id", (after,)
    ).fetchall()


def _charges(rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
    for number, group in itertools.groupby(rows, key=operator.itemgetter(0)):
        yield number, list(group)


def _head(previous: str, nonce: str, rows: list[Row]) -> str:
    # JSON in ASCII is one spelling of the values, whatever the version of Python.
    text = json.dumps([previous, nonce, rows], default=bytes.hex)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
