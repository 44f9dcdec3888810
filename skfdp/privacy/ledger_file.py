"""The ledger in one SQLite file, for several processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from skfdp._version import __version__
from skfdp.privacy import chain, schema
from skfdp.privacy.events import check_budget, check_relation
from skfdp.privacy.leases import FileLease, Lease
from skfdp.privacy.ledger_rows import from_row, to_row
from skfdp.privacy.store import (
    Check,
    LedgerEntry,
    Receipt,
    Terms,
    check_charged,
    dumps,
    numbered,
    refuse_unknown,
)
from skfdp.privacy.values import shown

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
    head : str, default=None
        Head of the file's hash chain at the last of them, None where it is not known.

    Notes
    -----
    **Guarantees.** A read or a charge is refused where an entry is not what was
    recorded, and where the file does not hold everything until the newest charge that
    this store saw: a restored older copy, even if new charges fill the gap. What no
    store, pickle or report saw can be lost unnoticed; so can terms.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dataset: str,
        identity: str | None = None,
        seen: int = 0,
        head: str | None = None,
    ) -> None:
        self.path = _resolved(path)
        self.identity = identity
        self.seen = seen
        self.head = head
        self._dataset = dataset
        #: What was checked before: the next check compares it and hashes the rest.
        self._known: chain.Record | None = None

    @property
    def receipt(self) -> Receipt | None:
        """The newest charge that this store saw, None before there is one."""
        if self.identity is None or self.head is None:
            return None
        return Receipt(ledger=self.identity, charge=self.seen, head=self.head)

    def open(
        self,
        terms: Terms,
        check: Check | None = None,
        entries: Sequence[LedgerEntry] | None = None,
    ) -> None:
        """Create the file where needed; keep the terms, or compare them.

        Terms and entries of elsewhere are added in one step, all or nothing, unless
        check(terms, recorded) raises.
        """
        with self._connection("rwc") as connection:
            if schema.is_empty(connection):
                schema.log_ahead(connection)
            else:
                self._check_schema(connection)
                stored = self._terms(connection)
                if entries is None and self._merged(terms, stored) == stored:
                    # A witness from now on; the first reading checks this head too.
                    self._remember(*chain.last(connection, str(self.identity)))
                    return
            connection.execute("BEGIN IMMEDIATE")
            if schema.is_empty(connection):  # or another process was faster
                schema.create(connection)
            self._check_schema(connection)
            terms = self._merged(terms, self._terms(connection))
            recorded = self._entries(connection)
            if check is not None:
                check(terms, recorded)
            self._write_terms(connection, terms)
            self._write(connection, entries or ())

    def read(
        self, receipts: Iterable[Receipt] = ()
    ) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return the terms and all entries of the data set.

        Raises ValueError unless the file holds what every receipt stands for.
        """
        with self._connection("rw") as connection:
            self._check_schema(connection)
            connection.execute("BEGIN")  # terms and entries of one moment
            return self._terms(connection), self._entries(connection, receipts)

    def append(self, entries: Sequence[LedgerEntry], check: Check) -> Receipt | None:
        """Append all entries, unless check(terms, recorded) raises."""
        with self._connection("rw") as connection:
            self._check_schema(connection)
            connection.execute("BEGIN IMMEDIATE")
            check(self._terms(connection), self._entries(connection))
            self._write(connection, entries)
            return self.receipt

    def lease(
        self,
        fit: str,
        entries: Sequence[LedgerEntry],
        check: Check,
        begun: bool,
    ) -> tuple[Lease, Receipt | None]:
        """Append the entries of a fit unless they were before; return its lease."""
        lease = FileLease(self.path, fit)
        with self._connection("rw") as connection:
            self._check_schema(connection)
            connection.execute("BEGIN IMMEDIATE")
            terms, recorded = self._terms(connection), self._entries(connection)
            charge = schema.charge_of(connection, fit)
            if charge is None:
                if begun:
                    refuse_unknown()
                check(terms, recorded)
                lease.begin()
                schema.add_fit(connection, fit, self.seen + 1)
                self._write(connection, entries)
                return lease, self.receipt
            check_charged(entries, [one for one in recorded if one.charge == charge])
            head = "" if self._known is None else self._known.heads[charge]
            found = Receipt(ledger=str(self.identity), charge=charge, head=head)
        return lease, found

    def _write(
        self, connection: sqlite3.Connection, entries: Sequence[LedgerEntry]
    ) -> None:
        """Add checked entries and their links, and commit."""
        connection.executemany(
            "INSERT INTO entries (charge, time, dataset, label, "
            "neighboring_relation, public_features, public_target, event, "
            'versions, seeded, part, "plan") '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [to_row(entry, self._dataset) for entry in numbered(entries, self.seen)],
        )
        seen, head = chain.extend(connection, str(self.identity))
        connection.execute("COMMIT")
        self._remember(seen, head)

    def _remember(self, seen: int, head: str | None) -> None:
        self.seen, self.head = seen, head if seen else None

    def _write_terms(self, connection: sqlite3.Connection, terms: Terms) -> None:
        public = None if terms.public is None else dumps(terms.public)
        connection.execute(
            "INSERT INTO datasets (name, epsilon, delta, neighboring_relation, public) "
            "VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET epsilon = excluded.epsilon, delta = excluded.delta, "
            "neighboring_relation = excluded.neighboring_relation, "
            "public = excluded.public",
            (
                self._dataset,
                terms.epsilon,
                terms.delta,
                terms.neighboring_relation,
                public,
            ),
        )

    def _merged(self, asked: Terms, stored: Terms) -> Terms:
        """Return the stored terms, completed by those asked for; never changed."""
        values: dict[str, Any] = {}
        for name, kept in dataclasses.asdict(stored).items():
            value = getattr(asked, name)
            if None not in (kept, value) and kept != value:
                raise ValueError(
                    f"{name}={value!r} differs from {name}={kept!r}, which the ledger "
                    f"{str(self.path)!r} keeps for data set {self._dataset!r}: leave "
                    "it out: what was promised for these people stays promised."
                )
            values[name] = value if kept is None else kept
        return Terms(**values)

    def _terms(self, connection: sqlite3.Connection) -> Terms:
        epsilon, delta, pinned, public = connection.execute(
            "SELECT epsilon, delta, neighboring_relation, public FROM datasets "
            "WHERE name = ?",
            (self._dataset,),
        ).fetchone() or (None, None, None, None)
        recorded = connection.execute(
            "SELECT neighboring_relation FROM entries WHERE dataset = ? "
            "AND neighboring_relation IS NOT NULL LIMIT 1",
            (self._dataset,),
        ).fetchone()
        try:
            return _stored_terms(
                epsilon, delta, pinned or (recorded[0] if recorded else None), public
            )
        except (TypeError, ValueError, RecursionError):
            raise self._edited("holds terms that no version wrote") from None

    def _entries(
        self, connection: sqlite3.Connection, receipts: Iterable[Receipt] = ()
    ) -> tuple[LedgerEntry, ...]:
        """Return the data set's entries, after checking the file against what is known.

        In a transaction; `seen` is the file's last charge afterwards.
        """
        self._refuse_newer(connection)  # it may have been brought up to date just now
        record = chain.read(connection)
        try:
            chain.check(record, str(self.identity), self._known)
        except chain.BrokenChainError as error:
            raise self._lost(error.charge) from None
        heads = record.heads
        last = max(heads, default=0)
        if last < self.seen:
            raise ValueError(
                f"ledger {str(self.path)!r} ends with charge {last}, but charge "
                f"{self.seen} was recorded before: an older copy took its place; "
                "restore the newer one."
            )
        if self.head not in (None, heads.get(self.seen)):
            raise self._lost(self.seen)
        for receipt in receipts:
            if receipt.ledger != self.identity:
                raise ValueError(
                    f"ledger {str(self.path)!r} is not the one that the report was "
                    "charged to: check the report against that one."
                )
            if receipt.head != heads.get(receipt.charge):
                raise self._lost(receipt.charge)
        self._remember(last, heads.get(last))
        self._known = record
        place = chain.COLUMNS.index("dataset")
        return tuple(
            from_row(row) for row in record.rows if row[place] == self._dataset
        )

    def _edited(self, how: str) -> ValueError:
        return ValueError(
            f"ledger {str(self.path)!r} {how}: it was edited; restore a copy."
        )

    def _lost(self, charge: int) -> ValueError:
        return ValueError(
            f"ledger {str(self.path)!r} does not hold charge {charge} as it was "
            "recorded: an older copy took its place, or it was edited; restore the "
            "newest one."
        )

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Refuse what is not this ledger; bring an older file up to date."""
        if not schema.is_ours(connection):
            raise ValueError(
                f"ledger {str(self.path)!r} is not a skfdp ledger but a database of "
                "another program, or an emptied file: give another path, or restore a "
                "copy."
            )
        self._refuse_newer(connection)
        if schema.version_of(connection) < schema.SCHEMA_VERSION:
            schema.migrate(connection)
        found = schema.identity_of(connection)
        if self.identity not in (None, found):
            raise ValueError(
                f"ledger {str(self.path)!r} was replaced by another ledger since it "
                "was opened: restore the file, or open the new one by "
                "PrivacyLedger(path), whose budget is another."
            )
        self.identity = found

    def _refuse_newer(self, connection: sqlite3.Connection) -> None:
        version = schema.version_of(connection)
        if version < 1:
            raise self._edited("has no schema version")
        if version > schema.SCHEMA_VERSION:
            raise ValueError(
                f"ledger {str(self.path)!r} has schema version {version}, newer than "
                f"{schema.SCHEMA_VERSION}, which skfdp {__version__} knows: upgrade "
                "skfdp."
            )

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
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or text in ("", ":memory:") or "\0" in text:
        raise ValueError(
            f"path={shown(path)} must be the path of a file; leave it out for a ledger "
            "in memory."
        )
    if text.startswith("file:"):
        raise ValueError(
            f"path={path!r} is a URI: give the plain path of a file instead."
        )
    # A link that is changed later must not bring a fresh budget.
    return Path(text).expanduser().resolve()


def _stored_terms(
    epsilon: Any, delta: Any, neighboring_relation: Any, public: Any
) -> Terms:
    """Return the terms of a row; TypeError or ValueError if they are none."""
    if epsilon is not None or delta is not None:
        check_budget(epsilon, delta)
    if neighboring_relation is not None:
        check_relation(neighboring_relation)
    names = None if public is None else json.loads(public)
    if names is not None and not all(isinstance(name, str) for name in names):
        raise TypeError
    return Terms(
        epsilon=epsilon,
        delta=delta,
        neighboring_relation=neighboring_relation,
        public=None if names is None else tuple(names),
    )
