"""The ledger in one SQLite file, for several processes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sqlite3
import threading
import time
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
    numbered,
    refuse_unknown,
)
from skfdp.privacy.values import shown

# How long a charge waits for other processes, each of which may be composing curves.
_BUSY_SECONDS = 60.0
# How long a new file may still have its temporary name as well.
_LINK_SECONDS = 1.0
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
    **Guarantees.** A read or a charge is refused if an entry, a ceiling or a public set
    differs from what was recorded. It is also refused if the file lacks a charge up to
    the newest one that this store saw, as an older copy does, even if new charges were
    made since. A charge that no store, pickle or report saw can be lost unnoticed. A
    file that is empty or cut off never becomes a new one.
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
        if self.identity is None or self.head is None or self.seen < 1:
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
        self._create()
        with self._connection() as connection:
            self._check_schema(connection)
            stored = self._terms(chain.read(connection))
            if entries is None and stored == self._merged(terms, stored or Terms()):
                # From now on this store knows the head, and the first read checks it.
                self._remember(*chain.last(connection, str(self.identity)))
                return
            connection.execute("BEGIN IMMEDIATE")
            stored, recorded = self._checked(connection)
            terms = self._merged(terms, stored)
            if check is not None:
                check(terms, recorded)
            self._write(connection, entries or (), terms)

    def _create(self) -> None:
        """Create the file if it does not exist."""
        if not self.path.exists():
            try:
                with _CONNECTED:
                    schema.create(self.path)
            except sqlite3.Error as error:
                raise self._explained(error) from error
            except OSError as error:
                raise OSError(
                    f"ledger {str(self.path)!r} cannot be made ({error.strerror}): "
                    "choose a folder on a file system with hard links that is "
                    "writable."
                ) from None

    def read(
        self, receipts: Iterable[Receipt] = ()
    ) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return the terms and all entries of the data set.

        Raises ValueError unless the file holds what every receipt stands for.
        """
        with self._connection() as connection:
            self._check_schema(connection)
            connection.execute("BEGIN")  # terms and entries of one moment
            return self._checked(connection, receipts)

    def append(self, entries: Sequence[LedgerEntry], check: Check) -> Receipt:
        """Append all entries, unless check(terms, recorded) raises."""
        with self._connection() as connection:
            self._check_schema(connection)
            connection.execute("BEGIN IMMEDIATE")
            terms, recorded = self._checked(connection)
            check(terms, recorded)
            return self._write(connection, entries, terms)

    def lease(
        self,
        fit: str,
        entries: Sequence[LedgerEntry],
        check: Check,
        begun: bool,
    ) -> tuple[Lease, Receipt]:
        """Append the entries of a fit unless they were before; return its lease."""
        with self._connection() as connection:
            self._check_schema(connection)
            connection.execute("BEGIN IMMEDIATE")
            terms, recorded = self._checked(connection)
            known = schema.fit_of(connection, fit)
            count = functools.partial(self._count_releases, fit)
            lease = FileLease(self.path, fit, count, 0 if known is None else known[1])
            if known is None:
                if begun:
                    refuse_unknown()
                check(terms, recorded)
                lease.begin()
                schema.add_fit(connection, fit, self.seen + 1)
                return lease, self._write(connection, entries, terms)
            charge = known[0]
            check_charged(entries, [one for one in recorded if one.charge == charge])
            head = None if self._known is None else self._known.head_of(charge)
            return lease, Receipt(
                ledger=str(self.identity), charge=charge, head=str(head)
            )

    def _count_releases(self, fit: str, released: int) -> None:
        """Store the number of releases of a fit."""
        with self._connection() as connection:
            self._check_schema(connection)
            schema.count_releases(connection, fit, released)

    def _write(
        self,
        connection: sqlite3.Connection,
        entries: Sequence[LedgerEntry],
        terms: Terms,
    ) -> Receipt:
        """Add checked entries, terms and their links, commit, and return a receipt.

        First check all pages: the chain does not cover indices and fits.
        """
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise self._damaged()
        connection.executemany(
            "INSERT INTO entries (charge, time, dataset, label, "
            "neighboring_relation, public_features, public_target, event, "
            'versions, seeded, part, "plan") '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [to_row(entry, self._dataset) for entry in numbered(entries, self.seen)],
        )
        known = {} if self._known is None else self._known.terms
        every = known | {self._dataset: dataclasses.asdict(terms)}
        seen, head = chain.extend(connection, str(self.identity), every)
        connection.execute("COMMIT")
        self._remember(seen, head)
        return Receipt(ledger=str(self.identity), charge=max(seen, 1), head=head)

    def _remember(self, seen: int, head: str | None) -> None:
        self.seen, self.head = seen, head

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

    def _terms(self, record: chain.Record) -> Terms | None:
        """Return the terms of the data set, None where it has none yet."""
        try:
            found = record.terms.get(self._dataset)
            return None if found is None else _stored_terms(**found)
        except (TypeError, ValueError, AttributeError, RecursionError):
            raise self._damaged() from None

    def _checked(
        self, connection: sqlite3.Connection, receipts: Iterable[Receipt] = ()
    ) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return terms and entries, after checking the file against what is known.

        In a transaction; `seen` is the file's last charge afterwards.
        """
        record = chain.read(connection)
        try:
            chain.check(record, str(self.identity), self._known)
        except chain.BrokenChainError as error:
            raise self._lost(error.charge) from None
        except (TypeError, ValueError, AttributeError, RecursionError):
            raise self._damaged() from None
        last, head = 0, None
        if record.links:
            _, last, _, _, head = record.links[-1]
        if last < self.seen:
            raise ValueError(
                f"ledger {str(self.path)!r} ends with charge {last}, but charge "
                f"{self.seen} was recorded before: an older copy took its place; "
                "restore the newer one."
            )
        if self.head is not None and not record.holds(self.seen, self.head):
            raise self._lost(self.seen)
        for receipt in receipts:
            if receipt.ledger != self.identity:
                raise ValueError(
                    f"ledger {str(self.path)!r} is not the one that the report was "
                    "charged to: check the report against that one."
                )
            if not record.holds(receipt.charge, receipt.head):
                raise self._lost(receipt.charge)
        self._remember(last, head)
        self._known = record
        place = chain.COLUMNS.index("dataset")
        entries = tuple(
            from_row(row) for row in record.rows if row[place] == self._dataset
        )
        terms = self._terms(record) or Terms()
        if terms.neighboring_relation is None:
            events = (one.event for one in entries if one.event is not None)
            found = next((event.neighboring_relation for event in events), None)
            terms = dataclasses.replace(terms, neighboring_relation=found)
        return terms, entries

    def _damaged(self) -> ValueError:
        return ValueError(
            f"ledger {str(self.path)!r} is damaged, emptied or not a ledger of skfdp: "
            "restore a copy of it, or give another path."
        )

    def _lost(self, charge: int) -> ValueError:
        return ValueError(
            f"ledger {str(self.path)!r} does not hold charge {charge} as it was "
            "recorded: an older copy took its place, or it was edited; restore the "
            "newest one."
        )

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Refuse what is not this ledger."""
        if not schema.is_ours(connection):
            raise self._damaged()
        version = schema.version_of(connection)
        if not version:
            raise self._damaged()
        if version != schema.SCHEMA_VERSION:
            raise ValueError(
                f"ledger {str(self.path)!r} has schema version {version}, skfdp "
                f"{__version__} reads {schema.SCHEMA_VERSION}: open it with the "
                "version that wrote it."
            )
        found = schema.identity_of(connection)
        if self.identity not in (None, found):
            raise ValueError(
                f"ledger {str(self.path)!r} was replaced by another ledger since it "
                "was opened: restore the file, or open the new one by "
                "PrivacyLedger(path), whose budget is another."
            )
        self.identity = found

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection; closing it rolls back what was not committed."""
        self._check_links()
        try:
            with _CONNECTED:
                connection = sqlite3.connect(
                    # "rw" never creates: a handle whose file is gone must not start
                    # from zero.
                    f"{self.path.as_uri()}?mode=rw",
                    uri=True,
                    timeout=_BUSY_SECONDS,
                    isolation_level=None,
                )
                # Damaged text must not raise here: its wrong hash is reported later.
                connection.text_factory = _decoded
                with contextlib.closing(connection):
                    connection.execute("PRAGMA synchronous = FULL")
                    yield connection
        except UnicodeDecodeError:  # in an error message of SQLite
            raise self._damaged() from None
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _check_links(self) -> None:
        """Refuse a file with two names: each would get a write-ahead log of its own."""
        last = time.monotonic() + _LINK_SECONDS
        while self._has_several_names():
            if time.monotonic() > last:
                raise ValueError(
                    f"ledger {str(self.path)!r} has several names (hard links), "
                    "through which SQLite would lose charges: remove the others; "
                    "symbolic links are fine."
                )
            time.sleep(0.01)  # its creator is about to remove the temporary name

    def _has_several_names(self) -> bool:
        try:
            return self.path.is_file() and self.path.stat().st_nlink > 1
        except OSError:  # a missing file is SQLite's to report
            return False

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
            return self._damaged()
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


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _stored_terms(
    epsilon: Any, delta: Any, neighboring_relation: Any, public: Any
) -> Terms:
    """Return stored terms, or raise TypeError or ValueError if they are invalid."""
    if epsilon is not None or delta is not None:
        check_budget(epsilon, delta)
    if neighboring_relation is not None:
        check_relation(neighboring_relation)
    if public is not None and not all(isinstance(name, str) for name in public):
        raise TypeError
    return Terms(
        epsilon=epsilon,
        delta=delta,
        neighboring_relation=neighboring_relation,
        public=None if public is None else tuple(public),
    )
