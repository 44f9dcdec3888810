"""The record of a ledger as a table, and as JSON and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from skfdp.privacy.events import Event, check_budget
from skfdp.privacy.parts import Part
from skfdp.privacy.plan import PrivacyPlan
from skfdp.privacy.schema import SCHEMA_VERSION
from skfdp.privacy.store import LedgerEntry, Terms, dumps

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "skfdp-privacy-ledger"
# What is written of an entry, in this order.
_WRITTEN = ("charge", "time", "label", "event", "part", "plan", "versions")
# What the table shows of events and plans under their own names; all of its columns.
_OF_EVENTS = (
    *("neighboring_relation", "unit"),
    *("public_features", "public_target", "target_name"),
    *("n_steps", "sampling_rate", "clip_norm", "sensitivity", "mu"),
)
_OF_PLANS = ("target_epsilon", "target_delta")
_COLUMNS = (
    *("charge", "time", "dataset", "label", "part", "release"),
    *(*_OF_EVENTS, *_OF_PLANS, "seeded", "event", "plan", "versions"),
)


def to_dataframe(entries: Sequence[LedgerEntry], dataset: str) -> pd.DataFrame:
    """Return one row for each entry."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "to_dataframe() needs pandas: pip install 'skfdp[cli]', or read `entries`."
        ) from None
    rows = [_row(entry, dataset) for entry in entries]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    frame["time"] = pd.to_datetime(frame["time"], utc=True)
    return frame


def _row(entry: LedgerEntry, dataset: str) -> tuple:
    """Return what a row of the table holds, by `_COLUMNS`."""
    part = None if entry.part is None else str(entry.part)
    return (
        *(entry.charge, entry.time, dataset, entry.label, part),
        *(getattr(entry.event, name, None) for name in ("label", *_OF_EVENTS)),
        *(getattr(entry.plan, name, None) for name in _OF_PLANS),
        *(entry.seeded, entry.event, entry.plan, entry.versions),
    )


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
            {name: getattr(entry, name) for name in _WRITTEN} for entry in entries
        ],
    }
    return dumps(values, indent=indent)


def from_json(text: str) -> tuple[Terms, tuple[LedgerEntry, ...], str]:
    """Return terms, entries and data set name; a ValueError says what is wrong."""
    values = _parsed(text)
    version = values.get("schema_version")
    if type(version) is not int or version < 1:
        raise ValueError(
            f"ledger has schema_version={version!r}, which no version of skfdp wrote: "
            "pass what to_json wrote."
        )
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"ledger has schema_version={version!r}, this skfdp reads "
            f"{SCHEMA_VERSION}: read it with the version that wrote it."
        )
    terms = Terms(
        epsilon=_field(values, "epsilon", "ledger", int, float, None),
        delta=_field(values, "delta", "ledger", int, float, None),
        neighboring_relation=_field(
            values, "neighboring_relation", "ledger", str, None
        ),
        public=_names(values),
    )
    if terms.epsilon is not None and terms.delta is not None:
        check_budget(terms.epsilon, terms.delta)
    dataset = _field(values, "dataset", "ledger", str)
    entries: list[LedgerEntry] = []
    for rank, entry in enumerate(_field(values, "entries", "ledger", list)):
        entries.append(_entry(entry, f"entry {rank} of the ledger"))
        if rank and entries[-1].charge < entries[-2].charge:
            raise ValueError(
                f"entry {rank} of the ledger has charge={entries[-1].charge!r} after "
                f"charge={entries[-2].charge!r}: entries must be in the order of their "
                "charges; pass what to_json wrote."
            )
    return terms, tuple(entries), dataset


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        values = json.loads(text, parse_int=_whole, parse_constant=_no_number)
        # Lone surrogates are JSON, and no text that a file could hold.
        dumps(values).encode()
    except (TypeError, ValueError, RecursionError):
        values = None
    if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
        raise ValueError(
            f'text must be strict JSON with "schema": "{SCHEMA}": pass what to_json '
            "wrote."
        )
    return values


def _whole(text: str) -> int:
    if len(text) > 18:  # no count of ours, and too much for a file and a float
        raise ValueError
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError  # NaN and Infinity are not JSON


def _field(values: Any, name: str, where: str, *types: type | None) -> Any:
    """Return a field that has one of some types; None stands for null."""
    if not isinstance(values, Mapping) or name not in values:
        raise ValueError(f"{where} lacks the field {name!r}: pass what to_json wrote.")
    value = values[name]
    if (value is None and None in types) or type(value) in types:
        return value
    raise ValueError(
        f"{where} has {name} of type {type(value).__name__}, which to_json does not "
        "write: pass what it wrote."
    )


def _names(values: Any) -> tuple[str, ...] | None:
    names = _field(values, "public", "ledger", list, None)
    if names is None:
        return None
    if not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"ledger has public={names!r}, which must be a list of names: pass what "
            "to_json wrote."
        )
    return tuple(sorted(set(names)))


def _entry(values: Any, where: str) -> LedgerEntry:
    charge = _field(values, "charge", where, int)
    versions = _field(values, "versions", where, dict)
    if charge < 1 or not all(isinstance(text, str) for text in versions.values()):
        raise ValueError(
            f"{where} has charge={charge!r} and versions={versions!r}, where a number "
            "from 1 on and texts are due: pass what to_json wrote."
        )
    return LedgerEntry(
        charge=charge,
        time=_field(values, "time", where, str),
        label=_field(values, "label", where, str, None),
        event=_rebuilt(values, "event", where, Event.from_dict),
        versions=versions,
        part=_rebuilt(values, "part", where, Part.from_dict),
        plan=_rebuilt(values, "plan", where, _plan),
    )


def _plan(fields: Mapping[str, Any]) -> PrivacyPlan:
    plan = PrivacyPlan.from_dict(fields)
    plan.to_dict()  # fails for numbers that are none
    return plan


def _rebuilt(
    values: Any, name: str, where: str, build: Callable[[Mapping[str, Any]], Any]
) -> Any:
    fields = _field(values, name, where, dict, None)
    if fields is None:
        return None
    try:
        found = build(fields)
        hash(found)  # lists where one value is due
        return found
    except ValueError as error:  # a sentence of ours
        raise ValueError(f"{where} has no valid {name}: {error}") from None
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError):
        raise ValueError(
            f"{where} has no valid {name}: a field is missing or of another type than "
            "to_json writes."
        ) from None
