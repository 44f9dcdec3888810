"""Leases: how far the releases of a fit have come that may be stopped and resumed.

A fit that is resumed from a checkpoint owes nothing for what it has not released yet.
A copy of that checkpoint would say the same of steps that were released long ago. So a
ledger holds the position of every such fit, and whoever wants the next release has to
show the position and the seal of the one before: of several copies one goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from skfdp.privacy.events import PrivacyBudgetError

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

SEAL_BYTES = 16
#: The seal of a fit that has released nothing.
NO_SEAL = bytes(SEAL_BYTES)
# A position, a seal, and the digest of both.
_SLOT = struct.Struct(f"<Q{SEAL_BYTES}s32s")
# Each slot in a sector of its own: a write that is torn leaves the other one.
_SECTOR = 512
_BEHIND = (
    "the checkpoint is at release {seen} of its fit, and the ledger has given out "
    "release {found}: another copy of the checkpoint went on, or this is an older one; "
    "nothing was released: go on from the newest checkpoint, or fit anew."
)
#: The ledger's file stores the number of releases at every multiple of this.
COUNTED = 50
_OLDER = (
    "the lease of this checkpoint, the file {name!r} beside the ledger, is at release "
    "{found} of its fit, but the ledger has counted {counted}: it was replaced by an "
    "older copy; restore the newer one, or fit anew at another path, which is charged."
)
_MISSING = (
    "the lease of this checkpoint, the file {name!r} beside the ledger, is missing or "
    "damaged: restore it, or fit anew at another path, which is charged anew."
)


class Lease(Protocol):
    """The right to the next release of a fit.

    Notes
    -----
    **Guarantees.** `advance` succeeds once for each position, across threads and, with
    a ledger's file, across processes, whoever holds copies of a checkpoint.
    """

    def newest(self) -> tuple[int, bytes]:
        """Return the number of releases given out, and the seal of the last one."""

    def advance(self, position: int, before: bytes, seal: bytes) -> None:
        """Give out one release more, or raise PrivacyBudgetError.

        Parameters
        ----------
        position : int
            Releases given out so far, as the caller has it.
        before : bytes
            Seal of the last of them.
        seal : bytes
            Of the new one.
        """

    def end(self, position: int) -> None:
        """Count the releases of a fit that has ended, or was stopped."""


class MemoryLease:
    """A lease in this process's memory; see `Lease`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest = 0, NO_SEAL

    def newest(self) -> tuple[int, bytes]:
        """Return the number of releases given out, and the seal of the last one."""
        return self._newest

    def advance(self, position: int, before: bytes, seal: bytes) -> None:
        """Give out one release more, or raise PrivacyBudgetError."""
        with self._lock:
            _check(self.newest(), position, before)
            self._newest = position + 1, seal

    def end(self, position: int) -> None:
        """Do nothing: memory is never an older copy."""


class FileLease:
    """A lease in a file beside that of the ledger; see `Lease`.

    Not in the ledger's own tables: each step would pay for opening and closing a
    database, which is seven times what one write costs that reaches the disk. The
    ledger counts every fiftieth release, and the end of the fit, so that an older lease
    is seen if it lost more than that.

    Parameters
    ----------
    ledger : Path
        The ledger's file.
    fit : str
        Name of the fit, as `checked_fit` has it.
    count : callable
        Keeps a number of releases in the ledger.
    least : int
        The number that the ledger has.
    """

    def __init__(
        self, ledger: Path, fit: str, count: Callable[[int], None], least: int
    ) -> None:
        self._path = ledger.with_name(f"{ledger.name}-{fit}")
        self._count = count
        self._least = least

    def begin(self) -> None:
        """Write position 0, on disk, unless there is a position.

        Called under the lock of the ledger, before the fit is charged there: one that
        was charged and has no file has lost it, and must not begin again.
        """
        with self._locked(os.O_CREAT) as file:
            if _newest(file) is None:
                _write(file, 0, NO_SEAL)
        sync_folder(self._path)

    def newest(self) -> tuple[int, bytes]:
        """Return the number of releases given out, and the seal of the last one."""
        with self._locked() as file:
            return self._known(file)

    def advance(self, position: int, before: bytes, seal: bytes) -> None:
        """Give out one release more, or raise PrivacyBudgetError."""
        with self._locked() as file:
            _check(self._known(file), position, before)
            _write(file, position + 1, seal)
        if (position + 1) % COUNTED == 0:
            self._count(position + 1)

    def end(self, position: int) -> None:
        """Count the releases of a fit that has ended, or was stopped."""
        self._count(position)

    def _known(self, file: int) -> tuple[int, bytes]:
        found = _newest(file)
        if found is None:
            raise PrivacyBudgetError(_MISSING.format(name=self._path.name))
        if found[0] < self._least:
            raise PrivacyBudgetError(
                _OLDER.format(name=self._path.name, found=found[0], counted=self._least)
            )
        return found

    @contextlib.contextmanager
    def _locked(self, flags: int = 0) -> Iterator[int]:
        """Yield the open file, which nobody else looks at meanwhile."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        except FileNotFoundError:
            raise PrivacyBudgetError(_MISSING.format(name=self._path.name)) from None
        try:
            lock(file, wait=True)
            yield file
        finally:
            os.close(file)


def checked_fit(fit: object) -> str:
    """Return the name of a fit, which becomes part of a path, or raise ValueError."""
    if not isinstance(fit, str) or not re.fullmatch("[0-9a-f]{32}", fit):
        raise ValueError("the name of a fit must be 32 hexadecimal digits.")
    return fit


def lock(file: int, *, wait: bool) -> None:
    """Lock an open file until it is closed; BlockingIOError if others have it."""
    if fcntl is None:
        raise OSError("checkpoint needs the file locks of POSIX: leave it out here.")
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def sync_folder(path: Path) -> None:
    """Return when the name of a file is on disk."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _check(newest: tuple[int, bytes], position: int, before: bytes) -> None:
    if newest != (position, before):
        raise PrivacyBudgetError(_BEHIND.format(seen=position, found=newest[0]))


def _newest(file: int) -> tuple[int, bytes] | None:
    """Return position and seal of the newest slot that is whole."""
    found = []
    for slot in range(2):
        raw = os.pread(file, _SLOT.size, slot * _SECTOR)
        if len(raw) == _SLOT.size:
            position, seal, digest = _SLOT.unpack(raw)
            if digest == _digest(position, seal):
                found.append((position, seal))
    return max(found, default=None)


def _write(file: int, position: int, seal: bytes) -> None:
    """Write the slot that does not hold the position before, on disk."""
    slot = _SLOT.pack(position, seal, _digest(position, seal))
    os.pwrite(file, slot, position % 2 * _SECTOR)
    os.fsync(file)


def _digest(position: int, seal: bytes) -> bytes:
    return hashlib.sha256(position.to_bytes(8, "little") + seal).digest()
