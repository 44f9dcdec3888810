"""The tables of a ledger file."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

SCHEMA_VERSION = 4
# Marks a SQLite file as ours ("skfd"), so that another program's is never written to.
APPLICATION_ID = 0x736B6664

# Triggers prevent accidents only: a program that can write the file can drop them.
_CREATE = f"""
PRAGMA application_id = {APPLICATION_ID};
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES ('schema_version', '{SCHEMA_VERSION}');
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    charge INTEGER NOT NULL,
    time TEXT NOT NULL,
    dataset TEXT NOT NULL,
    label TEXT,
    neighboring_relation TEXT,
    public_features TEXT,
    public_target INTEGER,
    event TEXT,
    versions TEXT NOT NULL,
    seeded INTEGER NOT NULL,
    part TEXT,
    "plan" TEXT
);
CREATE INDEX entries_by_dataset ON entries (dataset, id);
CREATE TRIGGER entries_keep BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'charges are never refunded'); END;
CREATE TRIGGER entries_fixed BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'charges are never changed'); END;
CREATE TABLE chain (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    charge INTEGER NOT NULL,
    terms TEXT NOT NULL,
    nonce TEXT NOT NULL,
    head TEXT NOT NULL
);
CREATE TRIGGER chain_keep BEFORE DELETE ON chain
    BEGIN SELECT RAISE(ABORT, 'links are never removed'); END;
CREATE TRIGGER chain_fixed BEFORE UPDATE ON chain
    BEGIN SELECT RAISE(ABORT, 'links are never changed'); END;
CREATE TABLE fits (
    fit TEXT PRIMARY KEY, charge INTEGER NOT NULL, released INTEGER NOT NULL
);
CREATE TRIGGER fits_keep BEFORE DELETE ON fits
    BEGIN SELECT RAISE(ABORT, 'fits are never removed'); END;
CREATE TRIGGER fits_fixed BEFORE UPDATE ON fits
    WHEN OLD.fit IS NOT NEW.fit OR OLD.charge IS NOT NEW.charge
    OR OLD.released > NEW.released
    BEGIN SELECT RAISE(ABORT, 'fits never go back'); END;
"""


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether a database was made by `create`."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    return mark == APPLICATION_ID


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema version of a ledger file, 0 where there is none."""
    row = connection.execute(
        "SELECT value FROM meta WHERE key = 'schema_version'"
    ).fetchone()
    text = "" if row is None else str(row[0])
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def identity_of(connection: sqlite3.Connection) -> str | None:
    """Return what tells this ledger from another one at the same path."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'ledger'").fetchone()
    return None if row is None else row[0]


def create(path: Path) -> None:
    """Make the file of a new ledger, unless another process does so first.

    It is written under a temporary name and then linked to its own in one step. So a
    file of this name is complete from the start, and an empty one was damaged later.

    Raises
    ------
    ValueError
        If SQLite's files beside a ledger of this name exist without the ledger.
    """
    _check_leftovers(path)
    new = path.with_name(f"{path.name}-{uuid.uuid4().hex}.new")
    try:
        connection = sqlite3.connect(new, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_mode = WAL")  # which the file remembers
            connection.execute("BEGIN IMMEDIATE")
            _run(connection, _CREATE)
            connection.execute(
                "INSERT INTO meta VALUES ('ledger', ?)", (uuid.uuid4().hex,)
            )
            connection.execute("COMMIT")
        finally:
            connection.close()  # which writes the log into the file
        try:
            os.link(new, path)  # unlike a renaming it never replaces a file
        except FileExistsError:
            pass
    finally:
        new.unlink(missing_ok=True)


def _check_leftovers(path: Path) -> None:
    """Raise ValueError if SQLite's files of a missing ledger are still there."""
    for suffix in ("-wal", "-shm", "-journal"):
        left = path.with_name(path.name + suffix)
        # They are fine if another process has made the ledger and opened it by now.
        if left.exists() and not path.exists():
            raise ValueError(
                f"ledger {str(path)!r} is missing, but a part of it is in "
                f"{str(left)!r}: restore a copy of it, or give another path."
            )


def fit_of(connection: sqlite3.Connection, fit: str) -> tuple[int, int] | None:
    """Return the charge of a resumable fit, and its number of releases."""
    return connection.execute(
        "SELECT charge, released FROM fits WHERE fit = ?", (fit,)
    ).fetchone()


def add_fit(connection: sqlite3.Connection, fit: str, charge: int) -> None:
    """Store the number of a fit's charge, in the transaction of that charge."""
    connection.execute("INSERT INTO fits VALUES (?, ?, 0)", (fit, charge))


def count_releases(connection: sqlite3.Connection, fit: str, released: int) -> None:
    """Store the number of releases of a fit."""
    connection.execute(
        "UPDATE fits SET released = max(released, ?) WHERE fit = ?", (released, fit)
    )


def _run(connection: sqlite3.Connection, script: str) -> None:
    for statement in _statements(script):
        connection.execute(statement)


def _statements(script: str) -> Iterator[str]:
    """Split a script; executescript would commit the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
