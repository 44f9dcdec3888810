"""The hash chain that protects the record in a ledger's file.

The chain has one link for each charge and for each change of a data set's terms. The
head of a link is the SHA-256 of the head before it, a fresh random nonce, the terms of
all data sets, and the rows of the charge as the file stores them. A head that was kept
shows whether a file still contains everything recorded up to it. Without the nonce a
file restored from an older copy could be charged with the same rows again, and end in
the same head.

The chain has no key, so it finds accidents and not attackers: a program that can write
the file can also write a new chain. Only a head that was kept elsewhere, in a report,
proves everything before it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import operator
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: The columns of an entry in the order in which they are hashed.
COLUMNS = (
    *("charge", "id", "time", "dataset", "label", "neighboring_relation"),
    *("public_features", "public_target", "event", "versions", "seeded", "part"),
    "plan",
)
_NAMES = ", ".join(f'"{name}"' for name in COLUMNS)

Row = tuple[str | int | float | bytes | None, ...]


#: A link: its number, the newest charge by then, terms as JSON, nonce, and head.
Link = tuple[int, int, str, str, str]


@dataclasses.dataclass(frozen=True)
class Record:
    """Everything recorded in a file: rows by charge, and links."""

    rows: list[Row]
    links: list[Link]

    def holds(self, charge: int, head: str) -> bool:
        """Whether the chain had this head after this charge."""
        return any((link[1], link[4]) == (charge, head) for link in self.links)

    def head_of(self, charge: int) -> str | None:
        """Return the head of the link of a charge, None where there is none."""
        return next((link[4] for link in self.links if link[1] == charge), None)

    @property
    def terms(self) -> dict[str, Any]:
        """The newest terms of each data set."""
        return json.loads(self.links[-1][2]) if self.links else {}

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
    """Return charge and head of the last link, unchecked; charge 0 without links."""
    found = connection.execute(
        "SELECT charge, head FROM chain ORDER BY id DESC LIMIT 1"
    ).fetchone()
    return found or (0, ledger)


def extend(
    connection: sqlite3.Connection, ledger: str, terms: Mapping[str, Any]
) -> tuple[int, str]:
    """Link all new charges, or new terms; return the last charge and head.

    Parameters
    ----------
    connection : Connection
        In a transaction that holds the write lock.
    ledger : str
        Identity of the ledger, with which its chain begins.
    terms : mapping
        The terms of each data set, by its name.
    """
    number, head = last(connection, ledger)
    text = json.dumps(terms, sort_keys=True)
    charges = [*_charges(_rows(connection, number))] or [(number, [])]
    for number, rows in charges:
        nonce = secrets.token_hex(32)
        head = _head(head, nonce, text, rows)
        connection.execute(
            "INSERT INTO chain (charge, terms, nonce, head) VALUES (?, ?, ?, ?)",
            (number, text, nonce, head),
        )
    return number, head


def read(connection: sqlite3.Connection) -> Record:
    """Return all rows and all links."""
    links = connection.execute(
        "SELECT id, charge, terms, nonce, head FROM chain ORDER BY id"
    )
    return Record(_rows(connection, 0), links.fetchall())


def check(record: Record, ledger: str, known: Record | None = None) -> None:
    """Raise BrokenChainError unless every link has the hash of its charge.

    The link of a charge must contain the terms of its data set.

    Parameters
    ----------
    record : Record
    ledger : str
        Identity of the ledger.
    known : Record, default=None
        One that was checked before: where the record begins with the same rows and
        links, the rest alone is hashed.
    """
    rows, links, number, head = record.rows, record.links, 0, ledger
    if known is not None and record.begins_with(known) and known.links:
        rows, links = rows[len(known.rows) :], links[len(known.links) :]
        number, head = known.links[-1][1], known.links[-1][4]
    charges = _charges(rows)
    place = COLUMNS.index("dataset")
    for _, charge, terms, nonce, claimed in links:
        found: list[Row] = []
        if charge != number:  # else the terms alone are new
            number, found = next(charges, (0, []))
        head = _head(head, nonce, terms, found)
        if (charge, claimed) != (number, head):
            raise BrokenChainError(charge if isinstance(charge, int) else 0)
        if not {row[place] for row in found} <= json.loads(terms).keys():
            raise BrokenChainError(number)
    for number, _ in charges:
        raise BrokenChainError(number if isinstance(number, int) else 0)


def _rows(connection: sqlite3.Connection, after: int) -> list[Row]:
    """Return the rows of all charges after a number, those of one charge together."""
    return connection.execute(
        f"SELECT {_NAMES} FROM entries WHERE charge > ? ORDER BY charge, id", (after,)
    ).fetchall()


def _charges(rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
    for number, group in itertools.groupby(rows, key=operator.itemgetter(0)):
        yield number, list(group)


def _head(previous: str, nonce: str, terms: str, rows: list[Row]) -> str:
    # JSON in ASCII is one spelling of the values, whatever the version of Python.
    text = json.dumps([previous, nonce, terms, rows], default=bytes.hex)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
