"""The ledger in one SQLite file, for several processes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import operator
import os
import secrets
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skfdp._version import __version__
from skfdp.privacy.calibration import PrivacyPlan
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Event, check_budget, check_relation
from skfdp.privacy.public_sets import Part
from skfdp.privacy.store import (
    Check,
    FileLease,
    Lease,
    LedgerEntry,
    Receipt,
    Terms,
    check_charged,
    dumps,
    numbered,
    refuse_unknown,
)

# The tables of a ledger file.


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


# The hash chain that protects the record in a ledger's file.
#
# The chain has one link for each charge and for each change of a data set's terms. The
# head of a link is the SHA-256 of the head before it, a fresh random nonce, the terms
# of all data sets, and the rows of the charge as the file stores them. A head that was
# kept shows whether a file still contains everything recorded up to it. Without the
# nonce a file restored from an older copy could be charged with the same rows again,
# and end in the same head.
#
# The chain has no key, so it finds accidents and not attackers: a program that can
# write the file can also write a new chain. Only a head that was kept elsewhere, in a
# report, proves everything before it.


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


# Entries of a ledger as rows of its file, and back.


def to_row(entry: LedgerEntry, dataset: str) -> tuple:
    """Return the values of an entry, in the order in which they are inserted."""
    event, part, plan = entry.event, entry.part, entry.plan
    return (
        entry.charge,
        entry.time,
        dataset,
        entry.label,
        None if event is None else event.neighboring_relation,
        None if event is None else dumps(event.public_features),
        None if event is None else event.public_target,
        None if event is None else dumps(event),
        json.dumps(entry.versions),
        entry.seeded,
        None if part is None else dumps(part),
        None if plan is None else dumps(plan),
    )


def from_row(row: Row) -> LedgerEntry:
    """Return the entry of a row, the values of which are in the order of `chain`."""
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    event, part, plan = values["event"], values["part"], values["plan"]
    return LedgerEntry(
        charge=values["charge"],
        time=values["time"],
        label=values["label"],
        event=None if event is None else _read_event(event),
        versions=dict(_read_versions(values["versions"])),
        part=None if part is None else Part.from_dict(json.loads(part)),
        plan=None if plan is None else _read_plan(plan),
    )


@functools.lru_cache(maxsize=64)
def _read_versions(text: str) -> dict[str, str]:
    return json.loads(text)


@functools.lru_cache(maxsize=4096)  # a charge reads the whole record again
def _read_event(text: str) -> Event:
    return Event.from_dict(json.loads(text))


@functools.lru_cache(maxsize=1024)
def _read_plan(text: str) -> PrivacyPlan:
    return PrivacyPlan.from_dict(json.loads(text))


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
        self._known: Record | None = None

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
            stored = self._terms(read(connection))
            if entries is None and stored == self._merged(terms, stored or Terms()):
                # From now on this store knows the head, and the first read checks it.
                self._remember(*last(connection, str(self.identity)))
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
                    create(self.path)
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
            known = fit_of(connection, fit)
            count = functools.partial(self._count_releases, fit)
            lease = FileLease(self.path, fit, count, 0 if known is None else known[1])
            if known is None:
                if begun:
                    refuse_unknown()
                check(terms, recorded)
                lease.begin()
                add_fit(connection, fit, self.seen + 1)
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
            count_releases(connection, fit, released)

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
        seen, head = extend(connection, str(self.identity), every)
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

    def _terms(self, record: Record) -> Terms | None:
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
        record = read(connection)
        try:
            check(record, str(self.identity), self._known)
        except BrokenChainError as error:
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
        place = COLUMNS.index("dataset")
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
        if not is_ours(connection):
            raise self._damaged()
        version = version_of(connection)
        if not version:
            raise self._damaged()
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"ledger {str(self.path)!r} has schema version {version}, skfdp "
                f"{__version__} reads {SCHEMA_VERSION}: open it with the "
                "version that wrote it."
            )
        found = identity_of(connection)
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
