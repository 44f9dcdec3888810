"""The tables of a ledger file, and how older files become current ones."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterator

SCHEMA_VERSION = 2
# Marks a SQLite file as ours ("skfd"), so that another program's is never written to.
APPLICATION_ID = 0x736B6664
# How long to try again, in seconds, while others create the same file.
_PATIENCE = 10.0

# Against accidents: whoever may write the file can drop a trigger too.
_TERMS = """
CREATE TRIGGER terms_keep BEFORE DELETE ON datasets
    BEGIN SELECT RAISE(ABORT, 'ceilings are never removed'); END;
CREATE TRIGGER terms_fixed BEFORE UPDATE ON datasets
    WHEN OLD.name IS NOT NEW.name
    OR OLD.epsilon IS NOT NULL AND OLD.epsilon IS NOT NEW.epsilon
    OR OLD.delta IS NOT NULL AND OLD.delta IS NOT NEW.delta
    BEGIN SELECT RAISE(ABORT, 'ceilings are never changed'); END;
"""
_CREATE = f"""
PRAGMA application_id = {APPLICATION_ID};
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES ('schema_version', '{SCHEMA_VERSION}');
CREATE TABLE datasets (
    name TEXT PRIMARY KEY,
    epsilon REAL, delta REAL, neighboring_relation TEXT
);
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
{_TERMS}
"""
#: What brings a file from the version of the key to the next one. A step is never
#: edited once a file of that version exists; it may add, and must not touch entries.
_STEPS = {
    1: f"""
ALTER TABLE entries ADD COLUMN part TEXT;
ALTER TABLE entries ADD COLUMN "plan" TEXT;
{_TERMS}
UPDATE meta SET value = '2' WHERE key = 'schema_version';
""",
}


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether a database has no tables."""
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return count == 0


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether a database was made by `create`."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    return mark == APPLICATION_ID


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema version of a ledger file."""
    (version,) = connection.execute(
        "SELECT value FROM meta WHERE key = 'schema_version'"
    ).fetchone()
    return int(version)


def identity_of(connection: sqlite3.Connection) -> str | None:
    """Return what tells this ledger from another one at the same path."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'ledger'").fetchone()
    return None if row is None else row[0]


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file, unless another process was faster."""
    _log_ahead(connection)
    connection.execute("BEGIN IMMEDIATE")
    if is_empty(connection):
        _run(connection, _CREATE)
        _identify(connection)
    connection.execute("COMMIT")


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging, which the file remembers.

    SQLite does not wait for others here, so that processes which create one file
    together meet a lock.
    """
    last = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > last:
                raise
            time.sleep(0.01)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file of an older version to this one, entirely or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    # Read again under the lock: another process may have done it.
    for version in range(version_of(connection), SCHEMA_VERSION):
        _run(connection, _STEPS[version])
    if identity_of(connection) is None:
        _identify(connection)
    connection.execute("COMMIT")


def _identify(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO meta VALUES ('ledger', ?)", (uuid.uuid4().hex,))


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
