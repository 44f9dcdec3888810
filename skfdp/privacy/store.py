"""The entries of a ledger, and the store in this process's memory.

A store only ever appends, and runs the caller's check and the append as one
indivisible step, so that two fits cannot both pass a check that only one of them may.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import importlib.metadata
import json
import os
import platform
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from skfdp._version import __version__
from skfdp.addresses import public
from skfdp.privacy import facts
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.leases import Lease, MemoryLease
from skfdp.privacy.parts import Part
from skfdp.privacy.plan import PrivacyPlan


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
                f"receipt of ledger={facts.shown(self.ledger)}, charge="
                f"{facts.shown(self.charge)} and head={facts.shown(self.head)} must "
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
        object.__setattr__(self, "time", _day(facts.text("time", self.time)))

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
            f"indent={facts.shown(indent)} must be a number of spaces, at most "
            f"{_MOST_SPACES}, or None."
        )
    return json.dumps(
        values, allow_nan=False, ensure_ascii=False, default=_plain, **kwargs
    )


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    return value.to_dict() if hasattr(value, "to_dict") else dataclasses.asdict(value)
