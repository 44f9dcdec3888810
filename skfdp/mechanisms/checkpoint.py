"""Checkpoint of a fit: a file of its releases, from which the fit can be resumed.

All computations between two releases depend on releases and public facts only. So
replaying the recorded releases brings any method back to where it stopped, without
reading a private row.

The file starts with one line of public facts. One record for each release is appended
to it. A record is a length, the release masked by a fresh random key, and that key. A
release cannot be read before its key is written. If a process is killed while it writes
a release, this release is therefore never seen. With a ledger the key is first written
to the ledger, in the transaction that counts the release. This transaction commits the
release.
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
from skfdp.privacy.ledger_file import FencingToken

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

#: The checkpoint of this thread, None outside of `checkpoint`. It is a dict: "path" is
#: the path of the file, and "used" is whether a fit has used the file.
OPEN: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar(
    "checkpoint", default=None
)
SCHEMA = "skfdp-checkpoint"
SCHEMA_VERSION = 1
_MAGIC = b'{"schema": "%s", ' % SCHEMA.encode()
KEY_BYTES = 16
_DIGEST_BYTES = 32
# Bytes of a length and its digest. Without the digest a damaged length would look like
# a truncated record.
_LENGTH_BYTES = 16
# Names of the fits that ended in this process. In another process the same call of fit
# returns the model again, in case it was lost. In this process the call is refused.
# Otherwise the model could be mistaken for a model of other rows, such as the next fold
# of a cross-validation.
_ENDED: set[str] = set()


@public("skfdp")
@contextlib.contextmanager
def checkpoint(path: str | os.PathLike[str]) -> Iterator[None]:
    """Record the releases of one fit, so that an interrupted fit can be resumed.

    The same fit within the same `checkpoint` continues where it stopped, and is charged
    once. Remove the file after you have saved the model. See :ref:`resuming`.

    Parameters
    ----------
    path : str or PathLike
        The path of the file. Each fit needs its own file.

    Raises
    ------
    ValueError
        In a worker process, or if a second fit uses the same file.

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
        raise TypeError(f"checkpoint({shown(path)}) takes a path: pass a str or Path.")
    if multiprocessing.parent_process() is not None:
        raise ValueError(
            f"checkpoint({shown(path)}) cannot be entered in a worker process: enter "
            "it in the main process, and call fit there."
        )
    place = {"path": path, "used": False}
    token = OPEN.set(place)
    try:
        yield
    finally:
        OPEN.reset(token)
    if not place["used"]:
        warn_caller(
            f"no fit used checkpoint({shown(path)}): call fit within it, in the same "
            "thread and process.",
            UtilityWarning,
        )


def masked(text: bytes, key: bytes) -> bytes:
    """Mask a text with a key, or unmask it with the same key.

    Notes
    -----
    **Guarantees.** The key has 16 random bytes and is used once. Without it, the result
    is indistinguishable from random bytes if SHAKE-128 is a random function.
    """
    mask = hashlib.shake_128(key).digest(len(text))
    return np.bitwise_xor(*(np.frombuffer(t, np.uint8) for t in (text, mask))).tobytes()


class Journal:
    """The checkpoint file of one fit; a context manager that locks the file.

    Parameters
    ----------
    path : str or PathLike
        The checkpoint file; created if it does not exist.
    fingerprint : mapping of str to JSON values
        Public facts about the fit, which must be equal when the fit is resumed.

    Attributes
    ----------
    fit : str
        Random name of the fit.
    public_key : bytes
        Random key of the public streams (`noise.Streams`), which a resumed fit repeats.
        Not a secret.
    begun : bool
        Whether the file holds a committed release.

    Notes
    -----
    **Guarantees.**

    * The file holds committed releases and public facts. It holds no key of a private
      stream, no sampled batch, no exact sum and no digest of private data.
    * `keep` returns only after its release is on disk. A resumed fit therefore never
      draws a release again that anybody has seen.
    * A release is readable only when it is complete, and then never changes. If a
      process is killed while it writes a release, this release is never readable, and
      the resumed fit draws a new one.
    * With a fencing token the ledger stores the key of a release in the transaction
      that counts the release, before the file has the key. So a readable release was
      counted. If a checkpoint has several copies, only one of them can continue. The
      others cannot write a readable release.
    * Without a fencing token, the lock prevents two fits from using the file at the
      same time. Copies of the file cannot be detected.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: Mapping[str, Any]):
        self.path = Path(path).expanduser().resolve()
        self._process = os.getpid()
        self._token: FencingToken | None = None
        self._next = self._n_new = 0
        self._file = _held(self.path)
        try:
            facts, self._first = self._head()
            self._new = facts is None
            if facts is None:
                facts = self._begin(
                    {
                        "fit": secrets.token_hex(16),
                        "public_key": secrets.token_hex(32),
                        "fingerprint": fingerprint,
                    }
                )
            self.fit = facts["fit"]
            self.public_key = bytes.fromhex(facts["public_key"])
            asked, kept = json.loads(json.dumps(fingerprint)), facts["fingerprint"]
            others = [n for n in asked | kept if asked.get(n) != kept.get(n)]
            if others:
                raise ValueError(
                    f"{self} is of a fit with another {', another '.join(others)}: "
                    "pass the arguments of that fit, or use another path for a new fit."
                )
            if self.fit in _ENDED:
                raise ValueError(
                    f"{self} is of a fit that has ended in this process: give each fit "
                    "its own path, or remove the file to start a new fit."
                )
            #: Positions of the start and end of the masked text of each record.
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
        """Close and unlock the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def settle(self, token: FencingToken | None) -> None:
        """Find the last committed release, and remove later records from the file.

        Call this method before the first release. The ledger of the fit provides the
        token. Without a ledger the token is None, and the last committed release is the
        last release with a key in the file. If the releases that the ledger has counted
        do not match the file, the ledger or the file is an older copy. In this case
        PrivacyBudgetError is raised, and nothing changes.
        """
        self._token, counted = token, self._n_readable
        if token is not None:
            counted, key = token.newest()
            older = "ledger" if counted < self._n_readable else "checkpoint"
            held = self._n_readable <= counted <= len(self._places)
            if not held or (counted and self._opened(counted - 1, key) is None):
                raise PrivacyBudgetError(
                    f"{self} holds {self._n_readable} releases of its fit, but the "
                    f"ledger has counted {counted}, so the {older} is an older copy: "
                    "restore the newest one, or start a new fit, which is charged, at "
                    "another path."
                )
        del self._places[counted:]
        os.ftruncate(self._file, self._end)
        if token is not None and counted:
            self._write(key, self._places[-1][1])
        self.begun = counted > 0

    def given(
        self, label: str, stream: str, shape: tuple[int, ...]
    ) -> np.ndarray | None:
        """Return the next recorded release, or None if there are no more.

        Raise ValueError if the recorded release has another label, stream or shape.
        """
        if self._next == len(self._places):
            return None
        record = self._opened(self._next, self._key(self._next))
        if record is None:
            raise self._damaged()
        about = _about(label, stream, shape)
        if not record.startswith(about):
            raise ValueError(
                f"{self} belongs to a fit whose release number {self._next + 1} "
                "differs: pass the same data and parameters, with the same versions of "
                "packages, or use another path for a new fit."
            )
        self._next += 1
        values = np.frombuffer(record[len(about) :], dtype="<f8")
        return values.reshape(shape).astype(np.float64)

    def keep(self, label: str, stream: str, values: np.ndarray) -> None:
        """Write and commit the next release, before anything else uses the release.

        Raise PrivacyBudgetError if another copy of the checkpoint has continued.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "checkpoint is locked by the process that opened it, and this is a "
                "fork of that process: continue the fit in the process that opened it."
            )
        released = np.ascontiguousarray(values, dtype="<f8").tobytes()
        record = _about(label, stream, values.shape) + released
        key = secrets.token_bytes(KEY_BYTES)
        text = masked(hashlib.sha256(record).digest() + record, key)
        start = self._end + _LENGTH_BYTES
        place = start, start + len(text)
        try:
            self._write(_length(len(text)) + text, self._end)
            os.fsync(self._file)
            if self._token is not None:
                self._token.advance(len(self._places), key)
            self._write(key, place[1])
            if self._token is None:  # a ledger would already have stored the key
                os.fsync(self._file)
        except BaseException:
            self.close()  # because nothing may follow an incomplete record
            raise
        self._places.append(place)
        self._next += 1
        self._n_new += 1

    def forget(self) -> None:
        """Remove the file if this object created it; for fits that were refused."""
        if self._new:
            self.path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Note that the fit has ended, and warn if all releases came from the file.

        The file is not removed.
        """
        _ENDED.add(self.fit)
        if not self._n_new:
            warn_caller(
                f"{self} held every release of this fit, so the model is the earlier "
                "one and has learnt nothing from new rows: remove the file if you want "
                "a new fit.",
                UserWarning,
            )

    def _begin(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Write the public facts to the first line of the file, and return them."""
        about = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **facts}
        head = json.dumps({**about, "digest": _digest(about)}).encode() + b"\n"
        os.ftruncate(self._file, 0)
        self._write(head, 0)
        os.fsync(self._file)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # so that the file's name survives a power failure
        finally:
            os.close(folder)
        self._first = len(head)
        return json.loads(head)

    def _head(self) -> tuple[dict[str, Any] | None, int]:
        """Return the public facts of the first line, and the start of the records.

        The facts are None if the file is new or its first line is incomplete.
        """
        with open(os.dup(self._file), "rb") as file:
            line = file.readline()
        whole = line.endswith(b"\n")
        if not (line.startswith(_MAGIC) or (not whole and _MAGIC.startswith(line))):
            raise ValueError(
                f"{self} is not a checkpoint: give the path of a checkpoint, or of a "
                "file that does not exist."
            )
        if not whole:  # a new file, or a fit that ended before any charge or release
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
                "that version."
            )
        if facts.pop("digest", None) != _digest(facts):
            raise self._damaged()
        return facts, len(line)

    def _scan(self) -> list[tuple[int, int]]:
        """Return the start and the end of the masked text of each complete record.

        A record is complete if the file contains all of its masked text. The key after
        the text may be missing, but only in the last record.
        """
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
            start += length + KEY_BYTES
        return places

    @property
    def _n_readable(self) -> int:
        """Number of records with a key: all records, or all except the last."""
        n = len(self._places)
        return n - bool(n and len(self._key(n - 1)) < KEY_BYTES)

    @property
    def _end(self) -> int:
        return self._places[-1][1] + KEY_BYTES if self._places else self._first

    def _key(self, number: int) -> bytes:
        return os.pread(self._file, KEY_BYTES, self._places[number][1])

    def _opened(self, number: int, key: bytes) -> bytes | None:
        """Return an unmasked record, None if it is damaged or the key is wrong."""
        start, stop = self._places[number]
        found = masked(os.pread(self._file, stop - start, start), key)
        digest, record = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
        return record if hashlib.sha256(record).digest() == digest else None

    def _write(self, text: bytes, start: int) -> None:
        left = memoryview(text)
        while left:
            written = os.pwrite(self._file, left, start)
            left, start = left[written:], start + written

    def _damaged(self) -> ValueError:
        return ValueError(
            f"{self} is damaged: restore it, or start a new fit, which is charged "
            "again, at another path."
        )


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _length(length: int) -> bytes:
    text = length.to_bytes(8, "little")
    return text + hashlib.sha256(text).digest()[: _LENGTH_BYTES - 8]


def _held(path: Path) -> int:
    """Open and lock the file of a path, and return its descriptor."""
    if fcntl is None:
        raise OSError(
            "checkpoint needs POSIX file locks, which this system does not have: fit "
            "without a checkpoint."
        )
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
            # Another fit may have removed the file since it was opened: try again.
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                return file
        except BlockingIOError:
            os.close(file)
            raise BlockingIOError(
                f"checkpoint={str(path)!r} is in use by another fit: give each fit its "
                "own path."
            ) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _about(label: str, stream: str, shape: tuple[int, ...]) -> bytes:
    """Return the line of public facts that identifies a release."""
    return json.dumps([label, stream, shape]).encode() + b"\n"


class ResumingMechanism(Mechanism):
    """The release function of a fit with a checkpoint, the `journal`.

    Notes
    -----
    **Guarantees.** Those of `Mechanism`, and two more. A release that comes from the
    journal is counted, and no private row is read for it. A new release is written to
    the journal, on disk, before this object returns it.
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
