"""The entries of a ledger, and the store in this process's memory.

A store only ever appends, and runs the caller's check and the append as one
indivisible step, so that two fits cannot both pass a check that only one of them may.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import secrets
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from skfdp._version import __version__
from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.accounting import cost
from skfdp.privacy.assumptions import Assumption
from skfdp.privacy.calibration import PrivacyPlan
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.public_sets import Part

# Leases: how far the releases of a fit have come that may be stopped and resumed.
#
# A fit that is resumed from a checkpoint owes nothing for what it has not released yet.
# A copy of that checkpoint would say the same of steps that were released long ago. So
# a ledger holds the position of every such fit, and whoever wants the next release has
# to show the position and the seal of the one before: of several copies one goes on.


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a data set: each is None while it is open.

    Attributes
    ----------
    epsilon, delta : float or None
        The ceiling.
    neighboring_relation : str or None
    public : tuple of str or None
        The declared public set: sorted names, each once.
    """

    epsilon: float | None = None
    delta: float | None = None
    neighboring_relation: str | None = None
    public: tuple[str, ...] | None = None


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Receipt:
    """Receipt of a charge, random even if the fit has an integer seed.

    Attributes
    ----------
    ledger : str
        Random identity that the ledger got when it was created.
    charge : int
        Number of the charge in the ledger. A file numbers the charges of all its data
        sets together.
    head : str
        For a file, the head of its hash chain at this charge, which depends on
        everything recorded until then. In memory a random text. It reveals nothing of
        the record, because every charge adds a random nonce.
    """

    ledger: str
    charge: int
    head: str

    def __post_init__(self) -> None:
        types = [type(self.ledger), type(self.charge), type(self.head)]
        if types != [str, int, str] or self.charge < 1:
            raise ValueError(
                f"receipt of ledger={checks.brief(self.ledger)}, charge="
                f"{checks.brief(self.charge)} and head={checks.brief(self.head)} must "
                "hold a text, a number from 1 on and a text: pass what charge "
                "returned."
            )


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One recorded event; all fields are public facts.

    Attributes
    ----------
    charge : int
        Number of the call that recorded it; the events of one fit share it.
    time : str
        The day, in UTC, ISO 8601 ("2026-01-31"). No finer: between the charge of a
        search and the next one lies the time that its secret number of runs took.
    label : str or None
        What was fitted, for people.
    event : Event or None
        None records a fit without privacy.
    versions : dict
        Package versions at that time.
    part : Part or None
        The records that it concerns; None means the whole data set.
    plan : PrivacyPlan or None
        The plan of the fit, if the charge came with one.
    """

    charge: int = 0
    time: str
    label: str | None
    event: Event | None
    versions: dict[str, str]
    part: Part | None = None
    plan: PrivacyPlan | None = None

    def __post_init__(self) -> None:
        # Here, so that it is coarse wherever it comes from.
        object.__setattr__(self, "time", _day(checks.text("time", self.time)))

    @property
    def seeded(self) -> bool:
        """Whether the noise came from a user's seed: no guarantee."""
        return self.event is not None and self.event.seeded


Check = Callable[[Terms, tuple[LedgerEntry, ...]], None]


@functools.lru_cache(maxsize=4096)
def _day(time: str) -> str:
    """Return the UTC day of an ISO 8601 time."""
    try:
        moment = datetime.datetime.fromisoformat(time)
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"time={time!r} must be a day or a time in ISO 8601, such as '2026-01-31'."
        ) from None
    return moment.date().isoformat()


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
    events: Sequence[Event | None],
    label: str | None,
    part: Part | None = None,
    plan: PrivacyPlan | None = None,
) -> tuple[LedgerEntry, ...]:
    """Return entries, stamped with this day, of the events of one charge."""
    time = datetime.datetime.now(datetime.UTC).date().isoformat()
    return tuple(
        LedgerEntry(
            time=time,
            label=label,
            event=event,
            versions=package_versions(),
            part=part,
            plan=plan,
        )
        for event in events
    )


def numbered(entries: Sequence[LedgerEntry], last: int) -> tuple[LedgerEntry, ...]:
    """Return entries whose charges have the numbers after the last one.

    Entries of one charge stay together: new ones, which have number 0, are one charge.
    """
    charges = dict.fromkeys(entry.charge for entry in entries)
    numbers = {charge: last + 1 + rank for rank, charge in enumerate(charges)}
    return tuple(
        dataclasses.replace(entry, charge=numbers[entry.charge]) for entry in entries
    )


def check_charged(
    entries: Sequence[LedgerEntry], recorded: Sequence[LedgerEntry]
) -> None:
    """Raise PrivacyBudgetError unless entries are what a fit was charged."""
    asked, charged = (
        [(entry.event, entry.part, entry.label) for entry in some]
        for some in (entries, recorded)
    )
    if asked != charged:
        raise PrivacyBudgetError(
            "the fit of this checkpoint was charged something else, or to another data "
            "set or part: give the ledger and the plan that it began with."
        )


def refuse_unknown() -> NoReturn:
    """Raise PrivacyBudgetError for a fit that has begun, and was not charged here."""
    raise PrivacyBudgetError(
        "the ledger does not know the fit of this checkpoint, which has begun: give "
        "the ledger that it was charged to."
    )


class MemoryStore:
    """Entries in this process's memory, shared by its threads."""

    path = None

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.identity = secrets.token_hex(16)
        #: The receipts of all charges, newest last.
        self._receipts: list[Receipt] = []
        self._process = os.getpid()
        self._terms = Terms()
        self._entries: tuple[LedgerEntry, ...] = ()
        #: The charge of each fit that can be resumed, and its lease.
        self._fits: dict[str, tuple[int, MemoryLease]] = {}

    @property
    def receipt(self) -> Receipt | None:
        """The newest receipt, None before there is one."""
        return self._receipts[-1] if self._receipts else None

    def open(
        self,
        terms: Terms,
        check: Check | None = None,
        entries: Sequence[LedgerEntry] | None = None,
    ) -> None:
        """Keep the terms, and entries of elsewhere, unless check(terms, ()) raises."""
        if check is not None:
            check(terms, self._entries)
        self._terms = terms
        self._add(entries or ())

    def read(
        self, receipts: Iterable[Receipt] = ()
    ) -> tuple[Terms, tuple[LedgerEntry, ...]]:
        """Return the terms and all entries.

        Raises ValueError unless this ledger issued each receipt.
        """
        self._check_process()
        with self._lock:
            if not set(receipts) <= set(self._receipts):
                raise ValueError(
                    "ledger in memory is not the one that the report was charged to: "
                    "check the report against that one."
                )
            return self._terms, self._entries

    def append(self, entries: Sequence[LedgerEntry], check: Check) -> Receipt:
        """Append all entries, unless check(terms, recorded) raises."""
        self._check_process()
        with self._lock:
            check(self._terms, self._entries)
            self._add(entries)
            return self._receipts[-1]

    def _add(self, entries: Sequence[LedgerEntry]) -> None:
        """Add entries, and a receipt for each of their charges."""
        added = numbered(entries, len(self._receipts))
        self._entries += added
        for charge in dict.fromkeys(entry.charge for entry in added):
            head = secrets.token_hex(32)
            self._receipts.append(
                Receipt(ledger=self.identity, charge=charge, head=head)
            )

    def lease(
        self,
        fit: str,
        entries: Sequence[LedgerEntry],
        check: Check,
        begun: bool,
    ) -> tuple[Lease, Receipt]:
        """Append the entries of a fit unless they were before; return its lease."""
        self._check_process()
        with self._lock:
            if fit not in self._fits:
                if begun:
                    refuse_unknown()
                self.append(entries, check)
                self._fits[fit] = self._entries[-1].charge, MemoryLease()
            charge, lease = self._fits[fit]
            recorded = [entry for entry in self._entries if entry.charge == charge]
            check_charged(entries, recorded)
            return lease, self._receipts[charge - 1]

    def _check_process(self) -> None:
        # A forked child holds a copy: what it charged would be lost, what the parent
        # charges is not seen, and a thread that is not there may hold the lock.
        if os.getpid() != self._process:
            raise RuntimeError(
                "ledger in memory was made by another process, which would not see "
                "this charge: use PrivacyLedger(path)."
            )


_MOST_SPACES = 100


def dumps(values: Any, **kwargs: Any) -> str:
    """Return strict JSON of what JSON knows, of our facts, and of NumPy's scalars."""
    indent = kwargs.get("indent")
    several = isinstance(indent, int) and indent > _MOST_SPACES
    if several or not isinstance(indent, int | str | None):
        raise TypeError(
            f"indent={checks.brief(indent)} must be a number of spaces, at most "
            f"{_MOST_SPACES}, or None."
        )
    return json.dumps(
        values, allow_nan=False, ensure_ascii=False, default=_plain, **kwargs
    )


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    return value.to_dict() if hasattr(value, "to_dict") else dataclasses.asdict(value)


# The plan of a fit: all that it would release, and what that costs.


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class FitPlan:
    """Releases and cost of one fit in advance; ``estimator.plan(X, y)`` returns it.

    Nothing is released or charged by making a plan. It is a function of public facts
    alone, equal for all values of the private part. `PrivacyLedger.what_if` says what
    it would do to a ledger.

    Attributes
    ----------
    subject : str
        The estimator.
    events : tuple of Event
        Everything that a fit would charge; empty for ``epsilon=inf``.
    delta : float
    target_epsilon : float
        The budget asked for.
    n_records : int
        Number of records, of persons where these are protected; nominal where it is
        private.
    n_rows : int or None
        Number of rows of the table, rows of weight 0 included; None if it is private.
    assumptions : tuple of Assumption
        What the guarantee of this plan rests on, beyond its events.
    schedule : PrivacyPlan or None
        The plan of the last releases (of the loop, where there is one), with those
        before it among its `other_events`. Of a search, that of one run. None for
        ``epsilon=inf``.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import DPSGDFClassifier
    >>> model = DPSGDFClassifier(epsilon=0.5, bounds=(0, 1), classes=["no", "yes"])
    >>> private = np.full((1000, 3), np.nan)  # only its shape is looked at
    >>> plan = model.plan(private)
    >>> plan
    <FitPlan of DPSGDFClassifier: epsilon=0.5, delta=1e-05; class counts x 1, mean x 1,
    temperature x 1, descent x 200>
    >>> [round(event.mu, 3) for event in plan.events], round(plan.mu, 3)
    ([0.02, 0.02, 0.02, 0.138], 0.142)
    """

    subject: str
    events: tuple[Event, ...]
    delta: float
    target_epsilon: float
    n_records: int
    n_rows: int | None = None
    assumptions: tuple[Assumption, ...] = ()
    schedule: PrivacyPlan | None = None

    @property
    def epsilon(self) -> float:
        """What the events cost at `delta`, exactly composed."""
        return cost(self.events, self.delta).epsilon if self.events else math.inf

    @property
    def mu(self) -> float | None:
        """Gaussian-DP parameter of the whole, None where it is not Gaussian."""
        return cost(self.events, self.delta).mu if self.events else None

    def to_dict(self) -> dict[str, Any]:
        """Return strictly JSON-able values; infinite numbers are the string "inf"."""
        values = {
            "subject": self.subject,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "target_epsilon": self.target_epsilon,
            "n_records": self.n_records,
            "n_rows": self.n_rows,
            "mu": self.mu,
            "events": [event.to_dict() for event in self.events],
            "assumptions": [dataclasses.asdict(one) for one in self.assumptions],
            "schedule": None if self.schedule is None else self.schedule.to_dict(),
        }
        infinite = {name for name, value in values.items() if value == math.inf}
        return json.loads(dumps(values | dict.fromkeys(infinite, "inf")))

    def __repr__(self) -> str:
        releases = [f"{event.label} x {event.n_steps}" for event in self.events]
        return (
            f"<FitPlan of {self.subject}: epsilon={self.epsilon:.6g}, "
            f"delta={self.delta:g}; {', '.join(releases) or 'without privacy'}>"
        )
