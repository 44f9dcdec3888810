"""Entries of a ledger as rows of its file, and back."""

from __future__ import annotations

import functools
import json
from typing import Any

from skfdp.privacy import chain
from skfdp.privacy.events import Event
from skfdp.privacy.parts import Part
from skfdp.privacy.plan import PrivacyPlan
from skfdp.privacy.store import LedgerEntry, dumps


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


def from_row(row: chain.Row) -> LedgerEntry:
    """Return the entry of a row, the values of which are in the order of `chain`."""
    values: dict[str, Any] = dict(zip(chain.COLUMNS, row, strict=True))
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
