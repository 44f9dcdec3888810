"""Storage of a ledger: an SQLite file for several processes, or memory for one.

Charges are stored in one table, `chain`, to which rows are only appended. A row is
called a link. It holds the entries of one charge, or no entries if it only records new
terms of a data set (limit, relation and public set). Its head is the SHA-256 of the
previous head, a fresh random nonce, the terms of all data sets and the entries. A head
that is stored elsewhere shows whether a file still contains everything recorded up to
this head. Without the nonce, a file restored from an older copy could be charged with
the same entries again and end in the same head. The first link has only the nonce, and
its head is the identity of the ledger.

The chain has no key. It detects accidents, not attackers: a program that can write the
file can also write a new chain. Only a head that is stored elsewhere, as in a report,
proves that everything recorded up to this head is unchanged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from skfdp._version import __version__
from skfdp.privacy.checks import shown
from skfdp.privacy.entries import LedgerEntry, Receipt, dumps

SCHEMA_VERSION = 1
# Marks an SQLite file as ours ("skfd"), so that files of other programs are refused.
APPLICATION_ID = 0x736B6664

# Triggers prevent accidents only: a program that can write the file can drop them.
_CREATE = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE chain (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    charge INTEGER NOT NULL,
    dataset TEXT,
    entries TEXT NOT NULL,
    terms TEXT NOT NULL,
    nonce TEXT NOT NULL,
    head TEXT NOT NULL
);
CREATE TRIGGER chain_keep BEFORE DELETE ON chain
    BEGIN SELECT RAISE(ABORT, 'charges are never refunded'); END;
CREATE TRIGGER chain_fixed BEFORE UPDATE ON chain
    BEGIN SELECT RAISE(ABORT, 'charges are never changed'); END;
"""


# The fields of a link, as they are stored; `charge` is the number of charges up to it.
_FIELDS = "charge, dataset, entries, terms, nonce, head"


def _head(before: str, *link: Any) -> str:
    """Return the head of a link: a hash of the previous head and the link's fields."""
    # JSON in ASCII has the same text in every version of Python.
    text = json.dumps([before, *link], default=bytes.hex)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _add_link(
    connection: sqlite3.Connection,
    before: str,
    charge: int,
    dataset: str | None = None,
    entries: Sequence[LedgerEntry] = (),
    terms: str = "{}",
    name: str | None = None,
) -> str:
    """Append a link, and return its head."""
    values = [one.to_dict() for one in entries]
    for value in values:
        del value["charge"]  # stored in the link
    nonce = secrets.token_hex(32) if name is None else name
    link = (charge, dataset, dumps(values), terms, nonce)
    head = _head(before, *link)
    connection.execute(
        f"INSERT INTO chain ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?)", (*link, head)
    )
    return head


@functools.lru_cache(maxsize=4096)  # equal fits have equal texts
def _parsed(text: str) -> tuple[LedgerEntry, ...]:
    return tuple(LedgerEntry.from_dict({"charge": 0, **v}) for v in json.loads(text))


def _lay_out(connection: sqlite3.Connection) -> None:
    """Create the tables and the first link."""
    connection.executescript(_CREATE)
    _add_link(connection, "", 0)


def _create(path: Path) -> None:
    """Create the file of a new ledger, unless another process does so first.

    The file is written under a temporary name and then linked to its final name in one
    step. So it is complete as soon as it has its final name. An empty file must have
    been damaged later.
    """
    for suffix in ("-wal", "-shm", "-journal"):
        left = path.with_name(path.name + suffix)
        # If another process has meanwhile created the ledger, these files may belong to
        # the connection of that process.
        if left.exists() and not path.exists():
            raise ValueError(
                f"ledger {str(path)!r} is missing, but a part of it is in "
                f"{str(left)!r}: restore a copy of the ledger, or give another path."
            )
    new = path.with_name(f"{path.name}-{uuid.uuid4().hex}.new")
    try:
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as made:
            made.execute("PRAGMA synchronous = FULL")
            made.execute("PRAGMA journal_mode = WAL")  # stored in the file
            _lay_out(made)
        with contextlib.suppress(FileExistsError):
            os.link(new, path)  # unlike os.replace, it never replaces a file
    finally:
        new.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a data set: budget limit, relation and declared public set.

    A term is None until it is fixed. The names of the public set are sorted and unique.
    """

    epsilon: float | None = None
    delta: float | None = None
    neighboring_relation: str | None = None
    public: tuple[str, ...] | None = None


Check = Callable[[Terms, tuple[LedgerEntry, ...]], None]

# Seconds that a charge waits for other processes, which may be composing curves.
_BUSY_SECONDS = 60.0
_DAMAGED = (
    "is damaged, emptied or not a ledger of skfdp: restore a copy of it, or give "
    "another path."
)
_LOCKED = (
    TimeoutError,
    f"stayed locked by another process for {_BUSY_SECONDS:g} s: end that process or "
    "try again; nothing was charged.",
)
_READ_ONLY = (
    PermissionError,
    "is read-only: make the file and its folder writable; nothing was charged.",
)
_REMEDIES: dict[int, tuple[type[Exception], str]] = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_NOTADB: (ValueError, _DAMAGED),
    sqlite3.SQLITE_CORRUPT: (ValueError, _DAMAGED),
    sqlite3.SQLITE_CANTOPEN: (
        FileNotFoundError,
        "cannot be opened: check that the file exists, in a folder that exists and is "
        "writable.",
    ),
}
# SQLite keeps its locks in process memory. A child forked while another thread has a
# connection open would treat that thread's locks as its own. So this lock allows one
# connection at a time, and no fork while a connection is open.
_CONNECTED = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CONNECTED.acquire,
        after_in_parent=_CONNECTED.release,
        after_in_child=_CONNECTED.release,
    )


class Store:
    """The entries and terms of one data set.

    Entries are only appended. The caller's check and the append are one transaction, so
    that two fits cannot both use the same remaining budget. For a file, each operation
    opens its own connection, which is safe across threads, forks and workers. ``BEGIN
    IMMEDIATE`` admits one writer at a time. Write-ahead logging with full
    synchronisation keeps the file correct if a process is killed.

    Without a `path` the entries are in memory. `identity` is that of the ledger in the
    file; None accepts any. `newest` is the number of the newest charge that the file
    must hold, and the head of the chain at that charge.

    Notes
    -----
    **Guarantees.** A read or a charge is refused if an entry, a limit or a public set
    differs from what was recorded. It is also refused if the file lacks a charge that
    was recorded up to the newest charge that this store saw. An older copy of the file
    lacks such a charge, even if new charges were made since. A charge that no store,
    pickle or report saw can be lost unnoticed. An empty or truncated file is refused;
    it does not become a new ledger.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        dataset: str,
        identity: str | None = None,
        newest: tuple[int, str] | None = None,
    ) -> None:
        self.path = None if path is None else resolved(path)
        self.name = "ledger in memory" if path is None else f"ledger {str(self.path)!r}"
        self.identity = identity
        self.newest = newest
        self._dataset = dataset
        #: Links that were checked before: the next check hashes only newer links.
        self._links: list[tuple] = []
        #: The entries of the data set in these links.
        self._entries: tuple[LedgerEntry, ...] = ()
        self._process = os.getpid()
        if path is None:
            self._memory = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            weakref.finalize(self, self._memory.close)
            _lay_out(self._memory)

    def open(self, terms: Terms, check: Check) -> bool:
        """Store the terms that are new; return whether a file was created for them.

        A term that differs from the stored one raises ValueError. New terms are stored
        only if ``check(terms, recorded)`` does not raise.
        """
        created = False
        if self.path is not None and not self.path.exists():
            created = True
            try:
                with _CONNECTED:
                    _create(self.path)
            except sqlite3.Error as error:
                raise self._explained(error) from error
            except OSError as error:
                raise OSError(
                    f"{self.name} cannot be created ({error.strerror}): choose a "
                    "writable folder on a file system with hard links."
                ) from None
        # Usually no term is new. Then nothing is written, and no lock is needed.
        stored, _ = self.read()
        if self._merged(terms, stored) == stored and self._dataset in self._every():
            return False
        with self._transaction("IMMEDIATE") as connection:
            stored, recorded = self._checked(connection)
            terms = self._merged(terms, stored)
            check(terms, recorded)
            self._write(connection, (), terms)
        return created

    def read(
        self, receipts: Iterable[Receipt] = ()
    ) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return the terms and all entries of the data set.

        Raise ValueError unless the ledger holds the charges of all receipts.
        """
        with self._transaction("DEFERRED") as connection:  # one consistent snapshot
            return self._checked(connection, receipts)

    def datasets(self) -> list[str]:
        """Return the names of the data sets in the file."""
        self.read()
        return sorted(self._every())

    def append(
        self, entries: Sequence[LedgerEntry], check: Check, name: str | None = None
    ) -> tuple[int, str]:
        """Append the entries of a charge if ``check(terms, recorded)`` does not raise.

        Return the number of the charge and the head of the chain.

        `name` is the random nonce of the charge. A charge of this name is made once.
        """
        with self._transaction("IMMEDIATE") as connection:
            terms, recorded = self._checked(connection)
            for number, dataset, *_, nonce, head in self._links:
                if nonce == name and dataset == self._dataset:
                    return number, head
            check(terms, recorded)
            return self._write(connection, entries, terms, name)

    def _write(
        self,
        connection: sqlite3.Connection,
        entries: Sequence[LedgerEntry],
        terms: Terms,
        name: str | None = None,
    ) -> tuple[int, str]:
        """Append a checked charge or new terms, and commit.

        Return the number and the head of the newest charge. All pages of the file are
        checked first, because the chain covers only its own rows.
        """
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise ValueError(f"{self.name} {_DAMAGED}")
        number, *_, head = self._links[-1]
        every = self._every() | {self._dataset: dataclasses.asdict(terms)}
        text = json.dumps(every, sort_keys=True)
        number += bool(entries)
        link = self._dataset, entries, text, name
        head = _add_link(connection, head, number, *link)
        connection.execute("COMMIT")
        self.newest = number, head
        return self.newest

    def _every(self) -> dict[str, Any]:
        """Return a dict from the name of each data set to its newest terms."""
        *_, terms, _, _ = self._links[-1]
        return json.loads(terms)

    def _merged(self, asked: Terms, stored: Terms) -> Terms:
        """Return the stored terms with new ones added, or raise ValueError.

        A term that is stored already cannot be changed.
        """
        values: dict[str, Any] = {}
        for name, kept in dataclasses.asdict(stored).items():
            value = getattr(asked, name)
            if None not in (kept, value) and kept != value:
                raise ValueError(
                    f"{name}={value!r} differs from {name}={kept!r}, which the "
                    f"{self.name} has stored for data set {self._dataset!r} and which "
                    f"cannot be changed: leave {name} out."
                )
            values[name] = value if kept is None else kept
        return Terms(**values)

    def _checked(
        self, connection: sqlite3.Connection, receipts: Iterable[Receipt] = ()
    ) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return terms and entries, after checking the chain and the receipts."""
        query = f"SELECT {_FIELDS} FROM chain ORDER BY id"
        links = connection.execute(query).fetchall()
        if not links:
            raise self._lost(1)
        known = len(self._links) if links[: len(self._links)] == self._links else 0
        number, head = (links[known - 1][0], links[known - 1][-1]) if known else (0, "")
        own = list(self._entries) if known else []
        for charge, dataset, entries, *more, stated in links[known:]:
            number += entries != "[]"
            head = _head(head, number, dataset, entries, *more)
            if (charge, stated) != (number, head):
                raise self._lost(number)
            for entry in _parsed(entries) if dataset == self._dataset else ():
                own.append(dataclasses.replace(entry, charge=charge))
        if self.newest is not None and number < self.newest[0]:
            raise ValueError(
                f"{self.name} ends with charge {number}, but charge {self.newest[0]} "
                "was recorded before, so the ledger was replaced by an older copy: "
                "restore the newer copy."
            )
        receipts = tuple(receipts)
        if any(receipt.ledger != self.identity for receipt in receipts):
            raise ValueError(
                f"{self.name} is not the ledger that the fit of the report was charged "
                "to: check the report against that ledger."
            )
        seen = [] if self.newest is None else [self.newest]
        held = {(link[0], link[-1]) for link in links}
        for one in (*seen, *((receipt.charge, receipt.head) for receipt in receipts)):
            if one not in held:
                raise self._lost(one[0])
        self._entries = tuple(own)
        self._links, self.newest = links, (number, head)
        values = self._every().get(self._dataset, {})
        if values.get("public") is not None:
            values["public"] = tuple(values["public"])
        events = [one.event for one in self._entries if one.event is not None]
        if events and values.get("neighboring_relation") is None:
            values["neighboring_relation"] = events[0].neighboring_relation
        return Terms(**values), self._entries

    def _lost(self, charge: int) -> ValueError:
        return ValueError(
            f"{self.name} does not hold charge {charge} as it was recorded, so the "
            "ledger was edited or replaced by an older copy: restore the newest copy."
        )

    def _check_identity(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not this ledger."""
        mark, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if mark != APPLICATION_ID:
            raise ValueError(f"{self.name} {_DAMAGED}")
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"{self.name} has schema version {version}, but skfdp {__version__} "
                f"reads {SCHEMA_VERSION}: open it with the version of skfdp that wrote "
                "it."
            )
        query = "SELECT head FROM chain ORDER BY id LIMIT 1"
        (found,) = connection.execute(query).fetchone() or (None,)
        if None not in (self.identity, found) and self.identity != found:
            raise ValueError(
                f"{self.name} was replaced by another ledger since it was opened: "
                "restore the file, or open the new ledger, with its own budget, by "
                "PrivacyLedger(path)."
            )
        self.identity = found or self.identity

    @contextlib.contextmanager
    def _transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, and roll back unless it was committed.

        With kind "IMMEDIATE" the transaction holds the lock of the single writer.
        """
        try:
            with _CONNECTED, self._connection() as connection:
                connection.execute("PRAGMA synchronous = FULL")
                self._check_identity(connection)
                connection.execute(f"BEGIN {kind}")
                try:
                    yield connection
                finally:
                    if connection.in_transaction:
                        connection.rollback()
        except UnicodeDecodeError:  # in an error message of SQLite
            raise ValueError(f"{self.name} {_DAMAGED}") from None
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _connection(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        if self.path is not None:
            # A file with several names is refused: each would get its own write-ahead
            # log. A new file has two for a moment. SQLite reports a missing file.
            last = time.monotonic() + 1.0
            while self.path.is_file() and self.path.stat().st_nlink > 1:
                if time.monotonic() > last:
                    raise ValueError(
                        f"{self.name} has several names (hard links), through which "
                        "SQLite would lose charges: remove all names but one; symbolic "
                        "links are fine."
                    )
                time.sleep(0.01)
            # "rw" never creates a file: a handle whose file was deleted must not start
            # from zero.
            name = f"{self.path.as_uri()}?mode=rw"
            more: dict[str, Any] = {"timeout": _BUSY_SECONDS, "isolation_level": None}
            return contextlib.closing(sqlite3.connect(name, uri=True, **more))
        # A forked child has a copy of the ledger in memory. Parent and child do not see
        # each other's charges.
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self.name} was created by another process, which would not see this "
                "charge: use PrivacyLedger(path)."
            )
        return contextlib.nullcontext(self._memory)

    def _explained(self, error: sqlite3.Error) -> Exception:
        """Return an exception with a remedy for an SQLite error."""
        # The low byte of an extended result code is the primary code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # Python itself reports text that is not UTF-8, without an SQLite code.
        if "Could not decode" in str(error):
            code = sqlite3.SQLITE_CORRUPT
        other = OSError, f"failed ({error}): check the disk; nothing was charged."
        kind, text = _REMEDIES.get(code, other)
        return kind(f"{self.name} {text}")


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file, with symbolic links resolved."""
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
    # A symbolic link that is changed later must not give a fresh budget.
    return Path(text).expanduser().resolve()
