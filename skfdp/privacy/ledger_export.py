"""A ledger's record as a table, and as JSON and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skfdp.privacy.events import Event, check_budget
from skfdp.privacy.parts import Part
from skfdp.privacy.plan import PrivacyPlan
from skfdp.privacy.schema import SCHEMA_VERSION
from skfdp.privacy.store import LedgerEntry, Terms, dumps

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "skfdp-privacy-ledger"


def to_dataframe(entries: Sequence[LedgerEntry], dataset: str) -> pd.DataFrame:
    """Return one row for each entry."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "to_dataframe() needs pandas: pip install 'skfdp[cli]', or read `entries`."
        ) from None
    columns = _row(None, dataset)
    rows = [_row(entry, dataset) for entry in entries]
    frame = pd.DataFrame(rows, columns=list(columns))
    frame["time"] = pd.to_datetime(frame["time"], utc=True)
    return frame


def _row(entry: LedgerEntry | None, dataset: str) -> dict[str, Any]:
    """Return what a row of the table holds; None gives the names alone."""
    event = None if entry is None else entry.event
    plan = None if entry is None else entry.plan
    return {
        "charge": entry and entry.charge,
        "time": entry and entry.time,
        "dataset": dataset,
        "label": entry and entry.label,
        "part": None if entry is None or entry.part is None else str(entry.part),
        "release": event and event.label,
        "neighboring_relation": event and event.neighboring_relation,
        "public_features": event and event.public_features,
        "public_target": event and event.public_target,
        "n_steps": event and event.n_steps,
        "sampling_rate": event and event.sampling_rate,
        "clip_norm": event and event.clip_norm,
        "sensitivity": event and event.sensitivity,
        "mu": event and event.mu,
        "target_epsilon": plan and plan.target_epsilon,
        "target_delta": plan and plan.target_delta,
        "seeded": entry is not None and entry.seeded,
        "event": event,
        "plan": plan,
        "versions": entry and entry.versions,
    }


def to_json(
    terms: Terms, entries: Sequence[LedgerEntry], dataset: str, indent: int | None
) -> str:
    """Return a data set's terms and entries as strict JSON."""
    values = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "dataset": dataset,
        **dataclasses.asdict(terms),
        "entries": [
            {
                "charge": entry.charge,
                "time": entry.time,
                "label": entry.label,
                "event": None if entry.event is None else entry.event.to_dict(),
                "part": None if entry.part is None else dataclasses.asdict(entry.part),
                "plan": None if entry.plan is None else entry.plan.to_dict(),
                "versions": entry.versions,
            }
            for entry in entries
        ],
    }
    return dumps(values, indent=indent)


def from_json(text: str) -> tuple[Terms, tuple[LedgerEntry, ...], str]:
    """Return terms, entries and data set name; a ValueError says what is wrong."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError:
        values = None
    if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
        raise ValueError(
            f'text must hold "schema": "{SCHEMA}": pass what to_json wrote.'
        )
    if values["schema_version"] > SCHEMA_VERSION:
        raise ValueError(
            f"ledger has schema_version={values['schema_version']!r}, newer than "
            f"{SCHEMA_VERSION}: upgrade skfdp."
        )
    try:
        terms = Terms(**{f.name: values[f.name] for f in dataclasses.fields(Terms)})
        entries = tuple(map(_entry, values["entries"]))
        dataset = values["dataset"]
    except KeyError as error:
        raise ValueError(
            f"ledger lacks the field {error.args[0]!r}: pass what to_json wrote."
        ) from None
    if terms.epsilon is not None and terms.delta is not None:
        check_budget(terms.epsilon, terms.delta)
    return terms, entries, dataset


def _entry(values: Mapping[str, Any]) -> LedgerEntry:
    event, part, plan = values["event"], values["part"], values["plan"]
    return LedgerEntry(
        charge=values["charge"],
        time=values["time"],
        label=values["label"],
        event=None if event is None else Event.from_dict(event),
        versions=dict(values["versions"]),
        part=None if part is None else Part.from_dict(part),
        plan=None if plan is None else PrivacyPlan.from_dict(plan),
    )
