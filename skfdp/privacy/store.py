"""Where a ledger keeps its entries: this process's memory, or one SQLite file.

Both stores only ever append, and run the caller's check and the append as one
indivisible step, so that two fits cannot both pass a check that only one of them may.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import importlib.metadata
import json
import os
import platform
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from skfdp._version import __version__
from skfdp.privacy.events import Event

SCHEMA_VERSION = 1
# Marks a SQLite file as ours ("skfd"), so that another program's is never written to.
_APPLICATION_ID = 0x736B6664
# How long a charge waits for other processes, each of which may be composing curves.
_BUSY_SECONDS = 60.0

_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
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
    seeded INTEGER NOT NULL
);
CREATE INDEX entries_by_dataset ON entries (dataset, id);
CREATE TRIGGER entries_keep BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'charges are never refunded'); END;
CREATE TRIGGER entries_fixed BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'charges are never changed'); END;
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """What holds for a data set: a ceiling and a relation, None while open."""

    epsilon: float | None = None
    delta: float | None = None
    neighboring_relation: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One recorded event; all fields are public facts.

    Attributes
    ----------
    charge : int
        Number of the call that recorded it; the events of one fit share it.
    time : str
        When, in UTC, ISO 8601.
    label : str or None
        What was fitted, for people.
    event : Event or None
        None records a fit without privacy.
    versions : dict
        Package versions at that time.
    """

    charge: int = 0
    time: str
    label: str | None
    event: Event | None
    versions: dict[str, str]

    @property
    def seeded(self) -> bool:
        """Whether the noise came from a user's seed: no guarantee."""
        return self.event is not None and self.event.seeded


Check = Callable[[Terms, tuple[LedgerEntry, ...]], None]


@functools.cache
def _package_versions() -> tuple[tuple[str, str], ...]:
    names = ("dp-accounting", "numpy", "randomgen", "scikit-learn", "scipy")
    found = {"skfdp": __version__, "python": platform.python_version()}
    for name in names:
        # A vendored or frozen package may carry no metadata: not a reason to fail.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return tuple(found.items())


def package_versions() -> dict[str, str]:
    """Return the versions of everything that a guarantee rests on."""
    return dict(_package_versions())


def new_entries(
    events: Sequence[Event | None], label: str | None
) -> tuple[LedgerEntry, ...]:
    """Return entries, stamped now, of the events of one charge."""
    time = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    return tuple(
        LedgerEntry(time=time, label=label, event=event, versions=package_versions())
        for event in events
    )


class MemoryStore:
    """Entries in this process's memory, shared by its threads."""

    path = None

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._terms = Terms()
        self._entries: tuple[LedgerEntry, ...] = ()

    def open(self, terms: Terms) -> None:
        """Keep the terms."""
        self._terms = terms

    def read(self) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return the terms and all entries."""
        return self._terms, self._entries

    def append(self, entries: Sequence[LedgerEntry], check: Check) -> None:
        """Append all entries, unless check(terms, recorded) raises."""
        # A forked child holds a copy: what it charged would be lost, and the lock may
        # be held by a thread that does not exist there.
        if os.getpid() != self._process:
            raise RuntimeError(
                "ledger in memory was made by another process, which would not see "
                "this charge: use PrivacyLedger(path)."
            )
        with self._lock:
            check(self._terms, self._entries)
            charge = 1 + max((entry.charge for entry in self._entries), default=0)
            self._entries += tuple(
                dataclasses.replace(entry, charge=charge) for entry in entries
            )


class FileStore:
    """Entries of one data set in a SQLite file.

    A new connection for each operation makes it safe across threads, forks and
    workers; ``BEGIN IMMEDIATE`` admits one writer at a time; write-ahead logging with
    full synchronisation leaves a truthful file behind a killed process.
    """

    def __init__(self, path: str | os.PathLike[str], dataset: str) -> None:
        self.path = Path(path).absolute()
        self._dataset = dataset

    def open(self, terms: Terms) -> None:
        """Create the file where needed; keep the terms, or compare them."""
        with self._connection("rwc") as connection:
            if _is_empty(connection):
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("BEGIN IMMEDIATE")
                if _is_empty(connection):  # else another process was faster
                    for statement in _statements(_SCHEMA):
                        connection.execute(statement)
                connection.execute("COMMIT")
            self._check_schema(connection)
            stored = self._terms(connection)
            if self._merged(terms, stored) != stored:
                self._write_terms(connection, terms)

    def read(self) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return the terms and all entries of the data set."""
        with self._connection("rw") as connection:
            connection.execute("BEGIN")  # terms and entries of one moment
            self._check_schema(connection)
            return self._terms(connection), self._entries(connection)

    def append(self, entries: Sequence[LedgerEntry], check: Check) -> None:
        """Append all entries, unless check(terms, recorded) raises."""
        with self._connection("rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._check_schema(connection)
            check(self._terms(connection), self._entries(connection))
            (last,) = connection.execute(
                "SELECT coalesce(max(charge), 0) FROM entries"
            ).fetchone()
            connection.executemany(
                "INSERT INTO entries (charge, time, dataset, label, "
                "neighboring_relation, public_features, public_target, event, "
                "versions, seeded) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(last + 1, *_to_row(entry, self._dataset)) for entry in entries],
            )
            connection.execute("COMMIT")

    def _write_terms(self, connection: sqlite3.Connection, terms: Terms) -> None:
        connection.execute("BEGIN IMMEDIATE")
        merged = self._merged(terms, self._terms(connection))
        connection.execute(
            "INSERT INTO datasets VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET epsilon = excluded.epsilon, delta = excluded.delta, "
            "neighboring_relation = excluded.neighboring_relation",
            (self._dataset, *dataclasses.astuple(merged)),
        )
        connection.execute("COMMIT")

    def _merged(self, asked: Terms, stored: Terms) -> Terms:
        """Return the stored terms, completed by those asked for; never changed."""
        values: dict[str, Any] = {}
        for name, kept in dataclasses.asdict(stored).items():
            value = getattr(asked, name)
            if None not in (kept, value) and kept != value:
                raise ValueError(
                    f"{name}={value!r} differs from {name}={kept!r}, which the ledger "
                    f"{str(self.path)!r} keeps for data set {self._dataset!r}: leave "
                    "it out, or use a new data set name."
                )
            values[name] = value if kept is None else kept
        return Terms(**values)

    def _terms(self, connection: sqlite3.Connection) -> Terms:
        epsilon, delta, pinned = connection.execute(
            "SELECT epsilon, delta, neighboring_relation FROM datasets WHERE name = ?",
            (self._dataset,),
        ).fetchone() or (None, None, None)
        recorded = connection.execute(
            "SELECT neighboring_relation FROM entries WHERE dataset = ? "
            "AND neighboring_relation IS NOT NULL LIMIT 1",
            (self._dataset,),
        ).fetchone()
        return Terms(
            epsilon=epsilon,
            delta=delta,
            neighboring_relation=pinned or (recorded[0] if recorded else None),
        )

    def _entries(self, connection: sqlite3.Connection) -> tuple[LedgerEntry, ...]:
        rows = connection.execute(
            "SELECT charge, time, label, event, versions FROM entries "
            "WHERE dataset = ? ORDER BY id",
            (self._dataset,),
        )
        return tuple(_from_row(*row) for row in rows)

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if mark != _APPLICATION_ID:
            raise ValueError(
                f"ledger {str(self.path)!r} is not a skfdp ledger but a database of "
                "another program, or an emptied file: give another path, or restore a "
                "copy."
            )
        (version,) = connection.execute(
            "SELECT value FROM meta WHERE key = 'schema_version'"
        ).fetchone()
        if int(version) > SCHEMA_VERSION:
            raise ValueError(
                f"ledger {str(self.path)!r} has schema version {version}, newer than "
                f"{SCHEMA_VERSION}, which skfdp {__version__} knows: upgrade skfdp."
            )

    def _uri(self, mode: str) -> str:
        # "rw" never creates: a handle whose file is gone must not start from zero.
        return f"{self.path.as_uri()}?mode={mode}"

    @contextlib.contextmanager
    def _connection(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Yield a connection; closing it rolls back what was not committed."""
        try:
            connection = sqlite3.connect(
                self._uri(mode), uri=True, timeout=_BUSY_SECONDS, isolation_level=None
            )
            with contextlib.closing(connection):
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> Exception:
        """Return the exception that says what to do about a SQLite error."""
        name = f"ledger {str(self.path)!r}"
        # Extended result codes keep the primary one in the low byte.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return TimeoutError(
                f"{name} stayed locked by another process for {_BUSY_SECONDS:g} s: end "
                "that process or try again; nothing was charged."
            )
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return PermissionError(
                f"{name} is read-only: make the file and its folder writable; nothing "
                "was charged."
            )
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return ValueError(
                f"{name} is corrupt or not a SQLite database: restore a copy of it, or "
                "give another path."
            )
        if code == sqlite3.SQLITE_CANTOPEN:
            return FileNotFoundError(
                f"{name} cannot be opened: check that the file exists, in a folder "
                "that exists and is writable."
            )
        return OSError(f"{name} failed ({error}): check the disk; nothing was charged.")


def _is_empty(connection: sqlite3.Connection) -> bool:
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return count == 0


def _statements(script: str) -> Iterator[str]:
    """Split a script; executescript would commit the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _to_row(entry: LedgerEntry, dataset: str) -> tuple:
    event, versions = entry.event, json.dumps(entry.versions)
    if event is None:
        return entry.time, dataset, entry.label, None, None, None, None, versions, False
    values = event.to_dict()
    return (
        entry.time,
        dataset,
        entry.label,
        event.neighboring_relation,
        dumps(values["public_features"]),
        event.public_target,
        dumps(values),
        versions,
        entry.seeded,
    )


def _from_row(
    charge: int, time: str, label: str | None, event: str | None, versions: str
) -> LedgerEntry:
    return LedgerEntry(
        charge=charge,
        time=time,
        label=label,
        event=None if event is None else _read_event(event),
        versions=json.loads(versions),
    )


@functools.lru_cache(maxsize=4096)  # a charge reads the whole record again
def _read_event(text: str) -> Event:
    return Event.from_dict(json.loads(text))


def dumps(values: Any, **kwargs: Any) -> str:
    """Return strict JSON; NumPy scalars, such as column positions, become numbers."""
    return json.dumps(
        values,
        allow_nan=False,
        ensure_ascii=False,
        default=lambda scalar: scalar.item(),
        **kwargs,
    )
