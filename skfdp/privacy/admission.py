"""The rules by which a ledger takes events, and the public set that they fix."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from skfdp.privacy import facts
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.fit_plan import FitPlan
from skfdp.privacy.parts import Part, check_part, check_parts
from skfdp.privacy.plan import PrivacyPlan
from skfdp.privacy.public_sets import Disclosed, promise, set_text
from skfdp.privacy.store import LedgerEntry, Terms
from skfdp.privacy.values import shown


def events_of(entries: Sequence[LedgerEntry]) -> tuple[Event, ...]:
    """Return the events of entries; fits without privacy have none."""
    return tuple(entry.event for entry in entries if entry.event is not None)


def public_set(
    terms: Terms, recorded: tuple[Event, ...]
) -> frozenset[Disclosed] | None:
    """Return the public set: declared, or that of what is recorded; None if open.

    Every later event lies inside that of the first charge, which so fixes the set.
    """
    if terms.public is not None:
        return frozenset(terms.public)
    return _disclosed(recorded) if recorded else None


def check_charge(
    terms: Terms,
    recorded: tuple[LedgerEntry, ...],
    events: tuple[Event, ...],
    part: Part | None,
    n_rows: int | None = None,
) -> None:
    """Raise PrivacyBudgetError unless the events may follow what is recorded."""
    before = events_of(recorded)
    _check_relation(terms, events)
    public = public_set(terms, before)
    if public or _disclosed(events):
        _check_columns_have_names(events)
    promised = promise(dict.fromkeys(before + events), public)
    check_part(part, events, promised.public, n_rows)
    check_parts([*(entry.part for entry in recorded), part])


def check_import(terms: Terms, entries: Sequence[LedgerEntry]) -> None:
    """Raise PrivacyBudgetError unless a ledger could have recorded the entries."""
    check_parts(entry.part for entry in entries)
    events = events_of(entries)
    _check_relation(terms, events)
    if events:
        promise(dict.fromkeys(events), terms.public)


def check_declaration(terms: Terms, recorded: tuple[LedgerEntry, ...]) -> None:
    """Raise ValueError unless the declared set is what the record promised."""
    events = events_of(recorded)
    if terms.public is None or not events:
        return
    found = _disclosed(events)
    if found != set(terms.public):
        raise ValueError(
            f"public={list(terms.public)!r} is declared too late: the first charge "
            f"promised that {set_text(found)} is public, and nothing else."
        )


def checked_names(public: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return a declared public set as it is stored: sorted, each name once."""
    if public is None:
        return None
    names: list[Any] = [None]
    if isinstance(public, Iterable) and not isinstance(public, str):
        with contextlib.suppress(TypeError):  # an array without dimensions
            names = list(public)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"public={shown(public)} must be a list of names of columns and targets, "
            "such as ['age', 'sex'], or None."
        )
    names = [facts.spelling(name) for name in names]
    if "" in names:
        raise ValueError(f"public={public!r} holds an empty name: leave it out.")
    return tuple(sorted(set(names)))


def _disclosed(events: Sequence[Event]) -> frozenset[Disclosed]:
    return frozenset(name for event in events for name in event.disclosed)


def _check_relation(terms: Terms, events: tuple[Event, ...]) -> None:
    pinned = terms.neighboring_relation
    for own in {event.neighboring_relation for event in events}:
        if pinned not in (None, own):
            raise PrivacyBudgetError(
                f"neighboring_relation={own!r} differs from {pinned!r}, the relation "
                f"of this ledger: fit under {pinned!r}."
            )


def _check_columns_have_names(events: tuple[Event, ...]) -> None:
    if any("columns" in event.unnamed for event in events):
        raise PrivacyBudgetError(
            "the columns of X have no names, so that nobody can tell which of them are "
            "public here: pass a DataFrame (after other steps of a Pipeline: "
            "set_output(transform='pandas')), or name them by names=[...], or all of "
            "them by one name, names='pixels'."
        )


def planned_events(
    plan: FitPlan | PrivacyPlan | Event | Iterable[Event],
) -> tuple[Event, ...]:
    """Return the events of a plan."""
    if isinstance(plan, PrivacyPlan):
        return (*plan.other_events, plan.event)
    if isinstance(plan, FitPlan):
        plan = plan.events
    return checked_events((plan,) if isinstance(plan, Event) else plan)


def checked_events(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return events as a tuple, or raise TypeError."""
    found: tuple[Any, ...] = ()
    if isinstance(events, Iterable):
        with contextlib.suppress(TypeError):  # an array without dimensions
            found = tuple(events)
    if not found or not all(isinstance(event, Event) for event in found):
        raise TypeError(
            f"events={shown(events)} must hold at least one Event: pass [plan.event]."
        )
    return found
