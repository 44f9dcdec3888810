"""The tables of a ledger file, and the migration of older files."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterator

from skfdp.privacy import chain

SCHEMA_VERSION = 3
# Marks a SQLite file as ours ("skfd"), so that another program's is never written to.
APPLICATION_ID = 0x736B6664
# How long to try again, in seconds, while others create the same file.
_PATIENCE = 10.0

# Against accidents: whoever may write the file can drop a trigger too.
_TERMS_2 = """
CREATE TRIGGER terms_keep BEFORE DELETE ON datasets
    BEGIN SELECT RAISE(ABORT, 'ceilings are never removed'); END;
CREATE TRIGGER terms_fixed BEFORE UPDATE ON datasets
    WHEN OLD.name IS NOT NEW.name
    OR OLD.epsilon IS NOT NULL AND OLD.epsilon IS NOT NEW.epsilon
    OR OLD.delta IS NOT NULL AND OLD.delta IS NOT NEW.delta
    BEGIN SELECT RAISE(ABORT, 'ceilings are never changed'); END;
"""
_FIXED_ENTRIES = """
CREATE TRIGGER entries_fixed BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'charges are never changed'); END;
"""
_VERSION_3 = """
CREATE TABLE chain (
    charge INTEGER PRIMARY KEY, nonce TEXT NOT NULL, head TEXT NOT NULL
);
CREATE TRIGGER chain_keep BEFORE DELETE ON chain
    BEGIN SELECT RAISE(ABORT, 'links are never removed'); END;
CREATE TRIGGER chain_fixed BEFORE UPDATE ON chain
    BEGIN SELECT RAISE(ABORT, 'links are never changed'); END;
ALTER TABLE datasets ADD COLUMN public TEXT;
CREATE TRIGGER public_fixed BEFORE UPDATE ON datasets
    WHEN OLD.public IS NOT NULL AND OLD.public IS NOT NEW.public
    BEGIN SELECT RAISE(ABORT, 'public sets are never changed'); END;
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
{_FIXED_ENTRIES}
{_TERMS_2}
{_VERSION_3}
"""
#: What brings a file from the version of the key to the next one. A step is never
#: edited once a file of that version exists; it may add, and must not touch entries,
#: but for the times of version 2, which told too much.
_STEPS = {
    1: f"""
ALTER TABLE entries ADD COLUMN part TEXT;
ALTER TABLE entries ADD COLUMN "plan" TEXT;
{_TERMS_2}
UPDATE meta SET value = '2' WHERE key = 'schema_version';
""",
    2: f"""
DROP TRIGGER entries_fixed;
UPDATE entries SET time = substr(time, 1, 10);
{_FIXED_ENTRIES}
{_VERSION_3}
UPDATE meta SET value = '3' WHERE key = 'schema_version';
""",
}


# Of fits that can be resumed; made with the first of them, and nothing to versions
# that know no such fits.
_FITS = """
CREATE TABLE IF NOT EXISTS fits (fit TEXT PRIMARY KEY, charge INTEGER NOT NULL);
CREATE TRIGGER IF NOT EXISTS fits_keep BEFORE DELETE ON fits
    BEGIN SELECT RAISE(ABORT, 'fits are never removed'); END;
CREATE TRIGGER IF NOT EXISTS fits_fixed BEFORE UPDATE ON fits
    BEGIN SELECT RAISE(ABORT, 'fits are never changed'); END;
"""


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether a database has no tables."""
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return count == 0


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


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file, in the transaction of the caller."""
    _run(connection, _CREATE)
    _identify(connection)


def log_ahead(connection: sqlite3.Connection) -> None:
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
    connection.execute("PRAGMA secure_delete = ON")  # the times that are cut off
    connection.execute("BEGIN IMMEDIATE")
    # Read again under the lock: another process may have done it.
    old = version_of(connection)
    for version in range(old, SCHEMA_VERSION):
        _run(connection, _STEPS[version])
    identity = identity_of(connection) or _identify(connection)
    if old < 3:
        chain.extend(connection, identity)
    connection.execute("COMMIT")


def charge_of(connection: sqlite3.Connection, fit: str) -> int | None:
    """Return the number of the charge of a fit that can be resumed, None without."""
    _run(connection, _FITS)
    row = connection.execute("SELECT charge FROM fits WHERE fit = ?", (fit,)).fetchone()
    return None if row is None else int(row[0])


def add_fit(connection: sqlite3.Connection, fit: str, charge: int) -> None:
    """Keep the number of the charge of a fit, in the transaction of that charge."""
    connection.execute("INSERT INTO fits VALUES (?, ?)", (fit, charge))


def _identify(connection: sqlite3.Connection) -> str:
    identity = uuid.uuid4().hex
    connection.execute("INSERT INTO meta VALUES ('ledger', ?)", (identity,))
    return identity


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
