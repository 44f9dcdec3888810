"""The record of what was already spent on a data set, and its ceiling."""

from __future__ import annotations

import functools
import math
import os
import pickle
from collections.abc import Iterable
from typing import Any, NoReturn

from skfdp.privacy.composition import PrivacyBudgetError, align, cost
from skfdp.privacy.events import Event, check_budget, check_relation
from skfdp.privacy.store import (
    FileStore,
    LedgerEntry,
    MemoryStore,
    Terms,
    new_entries,
)

# Epsilon is the root of an equation solved in float64: a relative excess of this size
# is rounding.
_ROUNDING = 1e-9


class PrivacyLedger:
    """The events spent on a data set, and a ceiling that they cannot pass.

    Give the same ledger, or the same path, to every estimator and transformer that
    learns from the data set.

    Parameters
    ----------
    path : str or PathLike, default=None
        SQLite file, made where it does not exist, so that a deleted file starts again
        from nothing; a relative path is resolved where it is opened. Shared by threads,
        processes, clones and pickles. Not for network file systems, whose locks are
        unreliable. None keeps the record in memory: threads of one process, clones and
        deep copies share it, pickling is refused.
    epsilon, delta : float, default=None
        The ceiling of everything together; both or neither. A file keeps it: later
        openings may leave it out, and cannot change it.
    neighboring_relation : str, default=None
        The relation of all events; None takes that of the first.
    dataset : str, default="default"
        Name of the data set; data sets in one file are independent.

    Notes
    -----
    **Guarantees**

    * What is charged: every event of a fit, before its mechanism first looks at private
      values, all of them or none. A fit that fails afterwards stays charged; charges
      are never refunded, changed or deleted.
    * A charge is refused with `PrivacyBudgetError`, and nothing is recorded, if the
      exact composition of everything recorded for the data set and of the new events
      exceeds the ceiling. Check and record are one step across threads and, with a
      path, across processes.
    * All events are under one relation. The record protects what the weakest event
      protects: fits that treat nothing as public compose with fits under one public
      set, and the sum then holds for the private part under that set
      (`neighboring_relation`, `public_features` and `public_target` say which it is).
      Other mixtures of public sets are refused.
    * Composition is sequential only: k fits on folds cost k fits, also where the folds
      are disjoint. This version claims no parallel composition.
    * It counts what is charged to it: estimators without this ledger, preprocessing
      that learns from data and scores on training data are outside.
    * Fits with an integer `random_state` are charged and marked as seeded; their
      epsilon is not a guarantee.

    Examples
    --------
    >>> from skfdp import PrivacyLedger, calibrate
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    >>> plan = calibrate(0.6, 1e-5, n_steps=100)
    >>> ledger.charge([plan.event], label="first fit")
    >>> round(ledger.spent(), 3), round(ledger.remaining(), 3)
    (0.6, 0.4)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        neighboring_relation: str | None = None,
        dataset: str = "default",
    ) -> None:
        if (epsilon is None) != (delta is None):
            raise ValueError(
                f"epsilon={epsilon!r} and delta={delta!r} make a ceiling together: "
                "give both, or neither."
            )
        if epsilon is not None and delta is not None:
            check_budget(epsilon, delta)
            epsilon, delta = float(epsilon), float(delta)
        if neighboring_relation is not None:
            check_relation(neighboring_relation)
        if not isinstance(dataset, str) or not dataset:
            raise ValueError(
                f"dataset={dataset!r} must be a non-empty string: name the data set."
            )
        self._dataset = dataset
        self._store: MemoryStore | FileStore = (
            MemoryStore() if path is None else FileStore(path, dataset)
        )
        self._store.open(
            Terms(
                epsilon=epsilon,
                delta=delta,
                neighboring_relation=neighboring_relation,
            )
        )

    @classmethod
    def resolve(cls, value: Any) -> PrivacyLedger | None:
        """Return the ledger that an estimator's `ledger` parameter means.

        Parameters
        ----------
        value : None, str, PathLike or PrivacyLedger
            A path opens data set "default" of that file.
        """
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, str | os.PathLike):
            return cls(value)
        raise TypeError(
            f"ledger={value!r} must be None, a path or a PrivacyLedger, got "
            f"{type(value).__name__}."
        )

    def charge(self, events: Iterable[Event], *, label: str | None = None) -> None:
        """Record all events, or refuse and record none; call it before use.

        Parameters
        ----------
        events : sequence of Event
            Everything that the fit is going to release.
        label : str, default=None
            What is fitted, for people.

        Raises
        ------
        PrivacyBudgetError
            If the ceiling would be passed, or if the events do not compose with those
            recorded.
        OSError, ValueError
            If the file is locked, read-only, missing, corrupt or of a newer schema;
            nothing is charged then.
        """
        events = tuple(events)
        if not events or not all(isinstance(event, Event) for event in events):
            raise TypeError(
                f"events={events!r} must hold at least one Event: pass [plan.event]."
            )
        check = functools.partial(self._check, events=events)
        # Compose outside the lock first: the check inside then finds the answer, unless
        # another charge came between.
        check(*self._store.read())
        self._store.append(new_entries(events, label), check)

    def charge_nonprivate(self, *, label: str | None = None) -> None:
        """Record a fit without privacy (epsilon=inf); a ceiling refuses it.

        Afterwards `spent` is infinite.
        """

        def check(terms: Terms, recorded: tuple[LedgerEntry, ...]) -> None:
            if terms.epsilon is not None:
                raise PrivacyBudgetError(
                    f"epsilon=inf exceeds the ceiling epsilon={terms.epsilon!r} of "
                    f"data set {self._dataset!r}; nothing was charged: train with a "
                    "finite epsilon, or leave this ledger out where nothing needs "
                    "protection."
                )

        self._store.append(new_entries([None], label), check)

    def _check(
        self, terms: Terms, recorded: tuple[LedgerEntry, ...], events: tuple[Event, ...]
    ) -> None:
        """Raise unless events may follow what is recorded."""
        pinned, own = terms.neighboring_relation, events[0].neighboring_relation
        if pinned is not None and own != pinned:
            raise PrivacyBudgetError(
                f"neighboring_relation={own!r} differs from {pinned!r}, the relation "
                f"of data set {self._dataset!r} in this ledger; nothing was charged: "
                f"fit under {pinned!r}, or use another data set name."
            )
        together = _events(recorded) + events
        try:
            align(dict.fromkeys(together))
        except PrivacyBudgetError as error:
            raise PrivacyBudgetError(
                f"data set {self._dataset!r} refuses the charge, nothing was charged: "
                f"{error}"
            ) from None
        if terms.epsilon is None:
            return
        nonprivate = any(entry.event is None for entry in recorded)
        total = math.inf if nonprivate else cost(together, terms.delta).epsilon
        if total > terms.epsilon * (1 + _ROUNDING):
            raise PrivacyBudgetError(
                f"budget exhausted: with these events data set {self._dataset!r} would "
                f"spend epsilon={total:.6g} at delta={terms.delta!r}, above its "
                f"ceiling epsilon={terms.epsilon!r}; nothing was charged: ask for "
                "less, or stop."
            )

    def spent(self, delta: float | None = None) -> float:
        """Return the epsilon spent so far at delta; infinite after a non-private fit.

        Parameters
        ----------
        delta : float, default=None
            None takes the ceiling's.
        """
        terms, entries = self._store.read()
        delta = terms.delta if delta is None else delta
        if delta is None:
            raise ValueError(
                "delta=None needs a ledger with a ceiling: pass delta=1e-5, say."
            )
        check_budget(1.0, delta)
        if any(entry.event is None for entry in entries):
            return math.inf
        return cost(_events(entries), float(delta)).epsilon if entries else 0.0

    def remaining(self, delta: float | None = None) -> float:
        """Return the ceiling's epsilon minus `spent`, infinite without a ceiling.

        A guide, not an allowance: epsilon is not additive. In composition a fit usually
        costs less than its own epsilon, so that more fits than this suggests; only
        `charge` decides.
        """
        ceiling = self.epsilon
        if ceiling is None:
            return math.inf
        return max(0.0, ceiling - self.spent(delta))

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All records of the data set, oldest first."""
        return self._store.read()[1]

    @property
    def events(self) -> tuple[Event, ...]:
        """All events of the data set, oldest first; fits without privacy have none."""
        return _events(self.entries)

    @property
    def path(self) -> str | None:
        """Absolute path of the file, None in memory."""
        return None if self._store.path is None else str(self._store.path)

    @property
    def dataset(self) -> str:
        """Name of the data set."""
        return self._dataset

    @property
    def epsilon(self) -> float | None:
        """Ceiling, None if there is none."""
        return self._store.read()[0].epsilon

    @property
    def delta(self) -> float | None:
        """Delta of the ceiling, None if there is none."""
        return self._store.read()[0].delta

    @property
    def neighboring_relation(self) -> str | None:
        """Relation of the record, None while it is open."""
        terms, entries = self._store.read()
        events = _events(entries)
        return events[0].neighboring_relation if events else terms.neighboring_relation

    @property
    def public_features(self) -> tuple[str | int, ...]:
        """Columns that the record does not protect."""
        events = align(self.events)
        return events[0].public_features if events else ()

    @property
    def public_target(self) -> bool:
        """Whether the record leaves the target unprotected."""
        events = align(self.events)
        return bool(events) and events[0].public_target

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        return True  # an empty ledger is still a ledger

    def __repr__(self) -> str:
        try:
            terms, entries = self._store.read()
        except (OSError, ValueError):  # repr must not fail on a missing file
            state = "unreadable"
        else:
            state = (
                f"epsilon={terms.epsilon!r}, delta={terms.delta!r}, "
                f"{len(entries)} entries"
            )
        return f"<PrivacyLedger path={self.path!r}, dataset={self._dataset!r}, {state}>"

    # A copy would give every clone a fresh budget: all copies are the same ledger.
    def __sklearn_clone__(self) -> PrivacyLedger:
        return self

    def __copy__(self) -> PrivacyLedger:
        return self

    def __deepcopy__(self, memo: dict) -> PrivacyLedger:
        return self

    def __getstate__(self) -> dict[str, str] | NoReturn:
        if self.path is None:
            raise pickle.PicklingError(
                "ledger=PrivacyLedger() lives in memory and cannot be pickled, because "
                "the copy would not see later charges: use PrivacyLedger(path)."
            )
        return {"path": self.path, "dataset": self._dataset}

    def __setstate__(self, state: dict[str, str]) -> None:
        # Without opening: a model must load where the ledger's file is out of reach.
        self._dataset = state["dataset"]
        self._store = FileStore(state["path"], state["dataset"])


def _events(entries: tuple[LedgerEntry, ...]) -> tuple[Event, ...]:
    return tuple(entry.event for entry in entries if entry.event is not None)
