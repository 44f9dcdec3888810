"""The file of a checkpoint: what it says first, and records that are there or not."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skfdp.privacy.events import PrivacyBudgetError
from skfdp.privacy.leases import NO_SEAL, SEAL_BYTES, lock, sync_folder
from skfdp.releases.sealing import DIGEST_BYTES, sealed, unsealed

SCHEMA = "skfdp-checkpoint"
SCHEMA_VERSION = 1
_MAGIC = b'{"schema": "%s", ' % SCHEMA.encode()
# What is written together fills sectors and ends with the seal: a disk that loses a
# sector loses the seal, or too much of the record to guess it.
_SECTOR = 512
# A length, and a digest of it: without one a damaged length would look like a record
# that was cut off.
_LENGTH = 16


@dataclasses.dataclass(frozen=True)
class _Place:
    """The place of a masked record in the file; its seal comes behind it."""

    start: int
    length: int

    @property
    def seal(self) -> int:
        """Where its seal begins."""
        return self.start + self.length

    @property
    def stop(self) -> int:
        """Where the next one begins, with its length."""
        return self.seal + SEAL_BYTES


class CheckpointFile:
    """A file of records, which one process holds at a time.

    Parameters
    ----------
    path : str or PathLike
        Made where it does not exist.

    Raises
    ------
    ValueError
        If it is another file, or damaged.
    OSError
        If another fit holds it, or it cannot be opened.

    Notes
    -----
    **Guarantees.** A record is readable once `append` has written its seal, and what is
    there of it before is as good as random bytes (`sealing`). Whatever a process that
    is killed leaves behind is a whole file, or one whose last record has no seal; any
    other file is refused.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path).expanduser().resolve()
        self._file = _held(self.path)
        try:
            self._facts, self._first = self._head()
            self._places = [] if self._facts is None else self._scan()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Return the number of records, the last one with or without its seal."""
        return len(self._places)

    @property
    def has_seal(self) -> bool:
        """Whether there is a record that can be read."""
        return len(self) > 1 or (len(self) == 1 and len(self._seal(0)) == SEAL_BYTES)

    @property
    def facts(self) -> Mapping[str, Any] | None:
        """What the file says first, None while it says nothing."""
        return self._facts

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Write what the file says first; it is on disk afterwards."""
        about = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **facts}
        head = json.dumps({**about, "digest": _digest(about)}).encode()
        head += b" " * (-(len(head) + 1) % _SECTOR) + b"\n"
        self._cut(0)
        self._write(head, 0)
        self._sync()
        sync_folder(self.path)
        self._facts, self._first = facts, len(head)

    def read(self, number: int) -> bytes:
        """Return a record, zeros behind it; the first one is number 0."""
        found = self._opened(number, self._seal(number))
        if found is None:
            raise self._damaged()
        return found

    def drop_torn(self) -> None:
        """Forget the last record if it has no seal: nobody could read it."""
        if self._places and len(self._seal(-1)) < SEAL_BYTES:
            del self._places[-1]
        self._cut(self._end)

    def agree(self, position: int, seal: bytes) -> None:
        """Forget what a ledger has not counted, and seal what it has.

        Parameters
        ----------
        position : int
            Records that the ledger has counted.
        seal : bytes
            Of the last of them.

        Raises
        ------
        PrivacyBudgetError
            If the file does not hold these: nothing is changed.
        """
        whole = len(self) - bool(len(self) and len(self._seal(-1)) < SEAL_BYTES)
        if position < whole:
            raise PrivacyBudgetError(
                f"checkpoint={str(self.path)!r} holds {whole} releases and the ledger "
                f"has counted {position}: an older copy of the ledger took its place; "
                "restore the newer one."
            )
        behind = position > len(self)
        if behind or (position and self._opened(position - 1, seal) is None):
            raise PrivacyBudgetError(
                f"checkpoint={str(self.path)!r} is a copy that is behind: its fit went "
                f"on, to {position} releases, which the ledger has counted; go on from "
                "the newest checkpoint, or begin a new fit at another path."
            )
        del self._places[position:]
        self._cut(self._end)
        if position:
            self._write(seal, self._places[-1].seal)

    def append(
        self, record: bytes, count: Callable[[int, bytes, bytes], None] | None
    ) -> None:
        """Write a record; it is on disk afterwards.

        Parameters
        ----------
        record : bytes
        count : callable or None
            ``(position, last_seal, seal)``: lets a ledger count the record and keep its
            seal, or raises. In that instant the record becomes readable. None: the file
            alone has the seal.
        """
        room = -(_LENGTH + DIGEST_BYTES + len(record) + SEAL_BYTES) % _SECTOR
        masked, seal = sealed(record + bytes(room))
        text = _length(len(masked)) + masked
        place = _Place(self._end + _LENGTH, len(masked))
        try:
            if count is None:
                self._write(text + seal, self._end)
                self._sync()
            else:
                self._write(text, self._end)
                self._sync()
                count(len(self), self._seal(-1) if self._places else NO_SEAL, seal)
                # On disk, where the ledger is; here it may follow.
                self._write(seal, place.seal)
        except BaseException:
            self.close()  # what is behind the last record must stay the last
            raise
        self._places.append(place)

    def remove(self) -> None:
        """Remove the file."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def _end(self) -> int:
        return self._places[-1].stop if self._places else self._first

    def _head(self) -> tuple[Mapping[str, Any] | None, int]:
        """Return what the file says first, and where records begin."""
        head = bytearray()
        while b"\n" not in head:
            more = os.pread(self._file, 1 << 16, len(head))
            head += more
            if not more:
                break
        line, newline, _ = bytes(head).partition(b"\n")
        if not (line.startswith(_MAGIC) or (not newline and _MAGIC.startswith(line))):
            raise ValueError(
                f"checkpoint={str(self.path)!r} is another file: give the path of a "
                "checkpoint, or one where there is no file."
            )
        if not newline:  # killed while it began: nothing was charged, nothing released
            return None, 0
        try:
            facts = json.loads(line)
        except (ValueError, RecursionError):
            raise self._damaged() from None
        if not isinstance(facts, dict):
            raise self._damaged()
        if facts.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"checkpoint={str(self.path)!r} was written by another version of "
                "skfdp: finish the fit with that one."
            )
        if facts.pop("digest", None) != _digest(facts):
            raise self._damaged()
        return facts, len(line) + 1

    def _scan(self) -> list[_Place]:
        """Return the places of all records that are there, the last seal aside."""
        size, places = os.fstat(self._file).st_size, []
        start = self._first
        while size - start >= _LENGTH:
            text = os.pread(self._file, _LENGTH, start)
            length = int.from_bytes(text[:8], "little")
            if text != _length(length):
                raise self._damaged()
            place = _Place(start + _LENGTH, length)
            if place.seal > size:
                break
            places.append(place)
            start = place.stop
        return places

    def _seal(self, number: int) -> bytes:
        return os.pread(self._file, SEAL_BYTES, self._places[number].seal)

    def _opened(self, number: int, seal: bytes) -> bytes | None:
        place = self._places[number]
        masked = os.pread(self._file, place.length, place.start)
        whole = len(masked) == place.length and len(seal) == SEAL_BYTES
        return unsealed(masked, seal) if whole else None

    def _write(self, text: bytes, start: int) -> None:
        left = memoryview(text)
        while left:
            written = os.pwrite(self._file, left, start)
            left, start = left[written:], start + written

    def _cut(self, size: int) -> None:
        os.ftruncate(self._file, size)

    def _sync(self) -> None:
        os.fsync(self._file)

    def _damaged(self) -> ValueError:
        return ValueError(
            f"checkpoint={str(self.path)!r} is damaged: restore it, or begin a new fit "
            "at another path, which is charged anew."
        )


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _length(length: int) -> bytes:
    text = length.to_bytes(8, "little")
    return text + hashlib.sha256(text).digest()[:8]


def _held(path: Path) -> int:
    """Return the open file of a path, locked."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise FileNotFoundError(
                f"checkpoint={str(path)!r} cannot be written: give the path of a file "
                "in a folder that exists."
            ) from None
        try:
            lock(file, wait=False)
            # A fit that ended just now has removed the file that was opened.
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
