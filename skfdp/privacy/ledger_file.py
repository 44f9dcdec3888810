"""The ledger in one SQLite file, for several processes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from skfdp._version import __version__
from skfdp.privacy import schema
from skfdp.privacy.events import Event
from skfdp.privacy.parts import Part
from skfdp.privacy.plan import PrivacyPlan
from skfdp.privacy.store import Check, LedgerEntry, Terms, dumps, numbered

# How long a charge waits for other processes, each of which may be composing curves.
_BUSY_SECONDS = 60.0
# SQLite keeps its locks in the memory of the process: a child forked while a connection
# of another thread is open would take that thread's locks for its own, for ever. So no
# fork happens while a connection is open, and one is open at a time.
_CONNECTED = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CONNECTED.acquire,
        after_in_parent=_CONNECTED.release,
        after_in_child=_CONNECTED.release,
    )


class FileStore:
    """Entries of one data set in a SQLite file.

    A new connection for each operation makes it safe across threads, forks and
    workers; ``BEGIN IMMEDIATE`` admits one writer at a time; write-ahead logging with
    full synchronisation leaves a truthful file behind a killed process.

    Parameters
    ----------
    path : str or PathLike
        "~" is expanded, symbolic links are followed once, here.
    dataset : str
    identity : str, default=None
        The ledger that the file must be; None takes the one that is there.
    seen : int, default=0
        The file must hold at least this many charges.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dataset: str,
        identity: str | None = None,
        seen: int = 0,
    ) -> None:
        self.path = _resolved(path)
        self.identity = identity
        self.seen = seen
        self._dataset = dataset

    def open(self, terms: Terms) -> None:
        """Create the file where needed; keep the terms, or compare them."""
        with self._connection("rwc") as connection:
            if schema.is_empty(connection):
                schema.create(connection)
            self._check_schema(connection)
            stored = self._terms(connection)
            if self._merged(terms, stored) != stored:
                self._write_terms(connection, terms)

    def read(self) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return the terms and all entries of the data set."""
        with self._connection("rw") as connection:
            self._check_schema(connection)
            seen = self.seen
            connection.execute("BEGIN")  # terms and entries of one moment
            self._check_age(connection, seen)
            return self._terms(connection), self._entries(connection)

    def append(self, entries: Sequence[LedgerEntry], check: Check) -> None:
        """Append all entries, unless check(terms, recorded) raises."""
        with self._connection("rw") as connection:
            self._check_schema(connection)
            connection.execute("BEGIN IMMEDIATE")
            last = self._check_age(connection, self.seen)
            check(self._terms(connection), self._entries(connection))
            added = numbered(entries, last)
            connection.executemany(
                "INSERT INTO entries (charge, time, dataset, label, "
                "neighboring_relation, public_features, public_target, event, "
                'versions, seeded, part, "plan") '
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [_to_row(entry, self._dataset) for entry in added],
            )
            connection.execute("COMMIT")
            self.seen = max(self.seen, added[-1].charge)

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
            'SELECT charge, time, label, event, versions, part, "plan" FROM entries '
            "WHERE dataset = ? ORDER BY id",
            (self._dataset,),
        )
        return tuple(_from_row(*row) for row in rows)

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Refuse what is not this ledger; bring an older file up to date."""
        if not schema.is_ours(connection):
            raise ValueError(
                f"ledger {str(self.path)!r} is not a skfdp ledger but a database of "
                "another program, or an emptied file: give another path, or restore a "
                "copy."
            )
        version = schema.version_of(connection)
        if version > schema.SCHEMA_VERSION:
            raise ValueError(
                f"ledger {str(self.path)!r} has schema version {version}, newer than "
                f"{schema.SCHEMA_VERSION}, which skfdp {__version__} knows: upgrade "
                "skfdp."
            )
        if version < schema.SCHEMA_VERSION:
            schema.migrate(connection)
        found = schema.identity_of(connection)
        if self.identity not in (None, found):
            raise ValueError(
                f"ledger {str(self.path)!r} was replaced by another ledger since it "
                "was opened: restore the file, or open the new one by "
                "PrivacyLedger(path), whose budget is another."
            )
        self.identity = found

    def _check_age(self, connection: sqlite3.Connection, seen: int) -> int:
        """Return the number of the last charge; refuse a file that lost some."""
        (last,) = connection.execute(
            "SELECT coalesce(max(charge), 0) FROM entries"
        ).fetchone()
        if last < seen:
            raise ValueError(
                f"ledger {str(self.path)!r} ends with charge {last}, but charge {seen} "
                "was recorded before: an older copy took its place; restore the newer "
                "one."
            )
        self.seen = max(self.seen, last)
        return last

    def _uri(self, mode: str) -> str:
        # "rw" never creates: a handle whose file is gone must not start from zero.
        return f"{self.path.as_uri()}?mode={mode}"

    @contextlib.contextmanager
    def _connection(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Yield a connection; closing it rolls back what was not committed."""
        self._check_links()
        try:
            with _CONNECTED:
                connection = sqlite3.connect(
                    self._uri(mode),
                    uri=True,
                    timeout=_BUSY_SECONDS,
                    isolation_level=None,
                )
                with contextlib.closing(connection):
                    connection.execute("PRAGMA synchronous = FULL")
                    yield connection
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _check_links(self) -> None:
        """Refuse a file with two names: each would get a write-ahead log of its own."""
        with contextlib.suppress(OSError):  # a missing file is SQLite's to report
            if self.path.is_file() and self.path.stat().st_nlink > 1:
                raise ValueError(
                    f"ledger {str(self.path)!r} has several names (hard links), "
                    "through which SQLite would lose charges: remove the others; "
                    "symbolic links are fine."
                )

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


def _resolved(path: str | os.PathLike[str]) -> Path:
    text = os.fspath(path)
    if not isinstance(text, str) or not text or text == ":memory:":
        raise ValueError(
            f"path={path!r} must be the path of a file; leave it out for a ledger in "
            "memory."
        )
    if text.startswith("file:"):
        raise ValueError(
            f"path={path!r} is a URI: give the plain path of a file instead."
        )
    # A link that is changed later must not bring a fresh budget.
    return Path(text).expanduser().resolve()


def _to_row(entry: LedgerEntry, dataset: str) -> tuple:
    event, part, plan = entry.event, entry.part, entry.plan
    values = None if event is None else event.to_dict()
    return (
        entry.charge,
        entry.time,
        dataset,
        entry.label,
        None if event is None else event.neighboring_relation,
        None if values is None else dumps(values["public_features"]),
        None if event is None else event.public_target,
        None if values is None else dumps(values),
        json.dumps(entry.versions),
        entry.seeded,
        None if part is None else dumps(dataclasses.asdict(part)),
        None if plan is None else dumps(plan.to_dict()),
    )


def _from_row(
    charge: int,
    time: str,
    label: str | None,
    event: str | None,
    versions: str,
    part: str | None,
    plan: str | None,
) -> LedgerEntry:
    return LedgerEntry(
        charge=charge,
        time=time,
        label=label,
        event=None if event is None else _read_event(event),
        versions=json.loads(versions),
        part=None if part is None else Part.from_dict(json.loads(part)),
        plan=None if plan is None else _read_plan(plan),
    )


@functools.lru_cache(maxsize=4096)  # a charge reads the whole record again
def _read_event(text: str) -> Event:
    return Event.from_dict(json.loads(text))


@functools.lru_cache(maxsize=1024)
def _read_plan(text: str) -> PrivacyPlan:
    return PrivacyPlan.from_dict(json.loads(text))
