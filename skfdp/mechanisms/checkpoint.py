"""The checkpoint of a fit that may be stopped: every release that it was given.

What a fit does between two releases follows from releases and public facts. So whoever
runs a fit again, and gets the releases of before from here, comes to where it stopped,
whatever the method: for these, no private row is read.

The file has one line of public facts, to which records are only appended: a length, the
release masked by a fresh random key, and that key. A record can be read once its key is
there, and not before, so a release that was being written when its process was killed
is never seen. With a ledger the key, or *seal*, is first written there, in the
transaction that counts the release: in that instant the release is released.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
import multiprocessing
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from skfdp.addresses import public
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy.checks import shown
from skfdp.privacy.events import PrivacyBudgetError
from skfdp.privacy.ledger_file import Lease

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

#: The path of the next fit of this thread, and whether a fit has taken it.
OPEN: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar(
    "checkpoint", default=None
)
SCHEMA = "skfdp-checkpoint"
SCHEMA_VERSION = 1
_MAGIC = b'{"schema": "%s", ' % SCHEMA.encode()
SEAL_BYTES = 16
_DIGEST_BYTES = 32
# A length, and a digest of it: without one a damaged length would look like a record
# that was cut off.
_LENGTH_BYTES = 16
# Fits that came to their end in this process. In another one the same call gives the
# model again, which may have been lost; here it would pass for one of other rows, such
# as the next fold of a cross-validation.
_ENDED: set[str] = set()


@public("skfdp")
@contextlib.contextmanager
def checkpoint(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep what one fit releases, so that a fit that was stopped goes on.

    The same fit within the same `checkpoint` goes on where it stopped, for the one
    charge. Remove the file when the model is saved. See :ref:`resuming`.

    Parameters
    ----------
    path : str or PathLike
        The file; a new one for each fit.

    Raises
    ------
    ValueError
        In a worker process, and by a second fit within it: a file holds one fit.

    Examples
    --------
    >>> import os, tempfile
    >>> import skfdp
    >>> X, y = [[0.1], [0.4], [0.6], [0.9]] * 50, [0, 0, 1, 1] * 50
    >>> model = skfdp.FeatureDPLogisticRegression(bounds=(0, 1), classes=[0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "fit.checkpoint")
    >>> with skfdp.checkpoint(path):
    ...     model = model.fit(X, y)
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"checkpoint({shown(path)}) takes a path.")
    if multiprocessing.parent_process() is not None:
        raise ValueError(
            f"checkpoint({shown(path)}) is entered in a worker process: enter it where "
            "the fit is called, and fit in that process."
        )
    place = {"path": path, "used": False}
    token = OPEN.set(place)
    try:
        yield
    finally:
        OPEN.reset(token)
    if not place["used"]:
        warn_caller(
            f"no fit used checkpoint({shown(path)}): fits in other threads and "
            "processes keep nothing.",
            UtilityWarning,
        )


def masked(text: bytes, seal: bytes) -> bytes:
    """Return a text that cannot be read without the seal; the same call undoes it.

    Notes
    -----
    **Guarantees.** Without the seal, 16 random bytes that are used once, the text is as
    good as random bytes: SHAKE-128 taken as a random function.
    """
    mask = hashlib.shake_128(seal).digest(len(text))
    return np.bitwise_xor(*(np.frombuffer(t, np.uint8) for t in (text, mask))).tobytes()


class Journal:
    """The releases of one fit, in a file; a context that holds it, and nobody else.

    Parameters
    ----------
    path : str or PathLike
        The checkpoint; made where it does not exist.
    promise : mapping of str to JSON values
        Public facts that the fit has to have in common with the one that began.

    Attributes
    ----------
    fit : str
        Random name of the fit.
    coins : bytes
        Random key of public coins, which have to be the same again. Not a secret.
    begun : bool
        Whether the file holds a release that was released.

    Notes
    -----
    **Guarantees.**

    * The file holds what was released, and public facts: no key of a private stream, no
      coins of a batch, no exact sum, no digest of private data.
    * `keep` returns when its release is on disk: nobody has seen a release that a
      resumed fit would draw again.
    * A release is readable when all of it is there, and is then the one of its
      position, for ever. One that was being written when its process was killed is
      never readable, and the resumed fit draws another one.
    * With a lease the ledger counts a release in the same instant in which it becomes
      readable, since the ledger keeps its seal. Of several copies of a checkpoint one
      goes on; what another one has computed is never readable.
    * Without a lease one file is held by one fit at a time, and goes on from where it
      is. A copy of it cannot be seen.
    """

    def __init__(self, path: str | os.PathLike[str], promise: Mapping[str, Any]):
        self.path = Path(path).expanduser().resolve()
        self._process = os.getpid()
        self._lease: Lease | None = None
        self._next = self._n_new = 0
        self._file = _held(self.path)
        try:
            facts, self._first = self._head()
            self._new = facts is None
            if facts is None:
                names = {"fit": secrets.token_hex(16), "coins": secrets.token_hex(32)}
                facts = self._begin({**names, "promise": promise})
            self.fit, self.coins = facts["fit"], bytes.fromhex(facts["coins"])
            asked, kept = json.loads(json.dumps(promise)), facts["promise"]
            others = [n for n in asked | kept if asked.get(n) != kept.get(n)]
            if others:
                raise ValueError(
                    f"{self} is of a fit with another {', another '.join(others)}: "
                    "give what that fit was given, or another path, where a new fit "
                    "begins."
                )
            if self.fit in _ENDED:
                raise ValueError(
                    f"{self} is of a fit that has ended in this process, and has its "
                    "model: give each fit a path of its own, or remove the file, so "
                    "that a new fit begins."
                )
            #: Where the masked text of each record begins and ends.
            self._places = self._scan()
        except BaseException:
            self.close()
            raise
        self.begun = self._n_readable > 0

    def __str__(self) -> str:
        return f"checkpoint={str(self.path)!r}"

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def settle(self, lease: Lease | None) -> None:
        """Find out which release was the last one, before any is asked for.

        Without a lease the file alone decides. If the ledger has counted others, the
        file, or the ledger, is an older copy: PrivacyBudgetError, and nothing changes.
        """
        self._lease, counted = lease, self._n_readable
        if lease is not None:
            counted, seal = lease.newest()
            older = "ledger" if counted < self._n_readable else "checkpoint"
            held = self._n_readable <= counted <= len(self._places)
            if not held or (counted and self._opened(counted - 1, seal) is None):
                raise PrivacyBudgetError(
                    f"{self} holds {self._n_readable} releases of its fit and the "
                    f"ledger has counted {counted}: the {older} is an older copy; "
                    "restore the newest one, or begin a new fit at another path, which "
                    "is charged."
                )
        del self._places[counted:]
        os.ftruncate(self._file, self._end)
        if lease is not None and counted:
            self._write(seal, self._places[-1][1])
        self.begun = counted > 0

    def given(
        self, label: str, stream: str, shape: tuple[int, ...]
    ) -> np.ndarray | None:
        """Return the next release of before, None if there are no more.

        Raises ValueError if that was another one.
        """
        if self._next == len(self._places):
            return None
        record = self._opened(self._next, self._seal(self._next))
        if record is None:
            raise self._damaged()
        about = _about(label, stream, shape)
        if not record.startswith(about):
            raise ValueError(
                f"{self} is of a fit with another release {self._next + 1}: give what "
                "that fit was given, versions of packages included, or another path, "
                "where a new fit begins."
            )
        self._next += 1
        values = np.frombuffer(record[len(about) :], dtype="<f8")
        return values.reshape(shape).astype(np.float64)

    def keep(self, label: str, stream: str, values: np.ndarray) -> None:
        """Write the next release; when this returns it may be seen.

        Raises PrivacyBudgetError if another copy of the checkpoint went on meanwhile.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "checkpoint is held by the process that opened it, and this is a fork "
                "of it: go on in that one."
            )
        released = np.ascontiguousarray(values, dtype="<f8").tobytes()
        record = _about(label, stream, values.shape) + released
        seal = secrets.token_bytes(SEAL_BYTES)
        text = masked(hashlib.sha256(record).digest() + record, seal)
        start = self._end + _LENGTH_BYTES
        place = start, start + len(text)
        try:
            self._write(_length(len(text)) + text, self._end)
            os.fsync(self._file)
            if self._lease is not None:
                self._lease.advance(len(self._places), seal)
            self._write(seal, place[1])
            if self._lease is None:  # else it is on disk, where the ledger is
                os.fsync(self._file)
        except BaseException:
            self.close()  # what is behind the last record must stay the last
            raise
        self._places.append(place)
        self._next += 1
        self._n_new += 1

    def forget(self) -> None:
        """Remove the file if it was made just now, for a fit that was not charged."""
        if self._new:
            self.path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Warn if the model is one of before; the file stays, and gives it again."""
        _ENDED.add(self.fit)
        if not self._n_new:
            warn_caller(
                f"{self} held every release of this fit: the model is the one that the "
                "file began with, and has learnt nothing from rows that are new; "
                "remove the file where a new fit is wanted.",
                UserWarning,
            )

    def _begin(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Write what the file says first; it is on disk afterwards."""
        about = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **facts}
        head = json.dumps({**about, "digest": _digest(about)}).encode() + b"\n"
        os.ftruncate(self._file, 0)
        self._write(head, 0)
        os.fsync(self._file)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # a name that is not on disk is no file after a power cut
        finally:
            os.close(folder)
        self._first = len(head)
        return json.loads(head)

    def _head(self) -> tuple[dict[str, Any] | None, int]:
        """Return what the file says first, and where records begin."""
        with open(os.dup(self._file), "rb") as file:
            line = file.readline()
        whole = line.endswith(b"\n")
        if not (line.startswith(_MAGIC) or (not whole and _MAGIC.startswith(line))):
            raise ValueError(
                f"{self} is another file: give the path of a checkpoint, or one where "
                "there is no file."
            )
        if not whole:  # killed while it began: nothing was charged, nothing released
            return None, 0
        try:
            facts = json.loads(line)
        except (ValueError, RecursionError):
            raise self._damaged() from None
        if not isinstance(facts, dict):
            raise self._damaged()
        if facts.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"{self} was written by another version of skfdp: finish the fit with "
                "that one."
            )
        if facts.pop("digest", None) != _digest(facts):
            raise self._damaged()
        return facts, len(line)

    def _scan(self) -> list[tuple[int, int]]:
        """Return the places of all records that are there, the last seal aside."""
        size, places = os.fstat(self._file).st_size, []
        start = self._first
        while size - start >= _LENGTH_BYTES:
            text = os.pread(self._file, _LENGTH_BYTES, start)
            length = int.from_bytes(text[:8], "little")
            if text != _length(length):
                raise self._damaged()
            start += _LENGTH_BYTES
            if start + length > size:
                break
            places.append((start, start + length))
            start += length + SEAL_BYTES
        return places

    @property
    def _n_readable(self) -> int:
        """Number of records that have their seal: all, or all but the last."""
        n = len(self._places)
        return n - bool(n and len(self._seal(n - 1)) < SEAL_BYTES)

    @property
    def _end(self) -> int:
        return self._places[-1][1] + SEAL_BYTES if self._places else self._first

    def _seal(self, number: int) -> bytes:
        return os.pread(self._file, SEAL_BYTES, self._places[number][1])

    def _opened(self, number: int, seal: bytes) -> bytes | None:
        """Return a record, None if it is damaged or this is not its seal."""
        start, stop = self._places[number]
        found = masked(os.pread(self._file, stop - start, start), seal)
        digest, record = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
        return record if hashlib.sha256(record).digest() == digest else None

    def _write(self, text: bytes, start: int) -> None:
        left = memoryview(text)
        while left:
            written = os.pwrite(self._file, left, start)
            left, start = left[written:], start + written

    def _damaged(self) -> ValueError:
        return ValueError(
            f"{self} is damaged: restore it, or begin a new fit at another path, which "
            "is charged anew."
        )


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _length(length: int) -> bytes:
    text = length.to_bytes(8, "little")
    return text + hashlib.sha256(text).digest()[: _LENGTH_BYTES - 8]


def _held(path: Path) -> int:
    """Return the open file of a path, locked until it is closed."""
    if fcntl is None:
        raise OSError("checkpoint needs the file locks of POSIX: leave it out here.")
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise FileNotFoundError(
                f"checkpoint={str(path)!r} cannot be written: give the path of a file "
                "in a folder that exists."
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A fit that was refused just now has removed the file that was opened.
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                return file
        except BlockingIOError:
            os.close(file)
            raise BlockingIOError(
                f"checkpoint={str(path)!r} is in use by another fit: give each fit a "
                "path of its own."
            ) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _about(label: str, stream: str, shape: tuple[int, ...]) -> bytes:
    """Return the line that tells a release from others: public facts."""
    return json.dumps([label, stream, shape]).encode() + b"\n"


class ResumingMechanism(Mechanism):
    """The release function of a fit with a checkpoint.

    Parameters
    ----------
    events, streams, is_null, units
        As those of `Mechanism`.
    journal : Journal
        Of the fit.

    Notes
    -----
    **Guarantees.** Those of `Mechanism`, and: a release that the journal holds is
    counted, and no private row is read for it. One that it does not hold yet is in the
    journal, on disk, before this object returns it.
    """

    def __init__(self, *args: Any, journal: Journal):
        super().__init__(*args)
        self._journal = journal

    def _released_now(self, asked, theta, count):
        about = asked.event.label, asked.stream
        found = self._journal.given(*about, asked.query.shape)
        if found is None:
            found = super()._released_now(asked, theta, count)
            self._journal.keep(*about, found)
        return found
