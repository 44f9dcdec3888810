"""Fits that may be stopped and go on: their checkpoint, and how they are charged."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from skfdp.privacy.assumptions import NOT_COPIED, SAME_ROWS, Assumption
from skfdp.privacy.events import PrivacyBudgetError
from skfdp.privacy.fit_plan import FitPlan
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.store import Receipt
from skfdp.records.checks import shown
from skfdp.records.records import PublicRecords
from skfdp.releases import rehearsal
from skfdp.releases.journal import Journal

#: They may change while a fit is stopped.
_MAY_CHANGE = frozenset({"backend", "device", "ledger", "n_jobs", "random_state"})


def check_checkpoint(
    checkpoint: Any, epsilon: float, random_state: int | None, can_resume: bool
) -> None:
    """Raise ValueError where a fit cannot have this checkpoint."""
    if checkpoint is None:
        return
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint={shown(checkpoint)} must be a path or None.")
    if not can_resume:
        raise ValueError(
            f"checkpoint={shown(checkpoint)} would tell what a search keeps secret, "
            "its other runs and how many there were: leave it out."
        )
    if math.isinf(epsilon):
        raise ValueError(
            f"checkpoint={shown(checkpoint)} is for releases, and epsilon=inf makes "
            "none: leave it out."
        )
    if random_state is not None:
        raise ValueError(
            f"checkpoint={shown(checkpoint)} needs random_state=None: a fit that goes "
            "on has to draw fresh noise, and a seed would repeat the noise of before."
        )


def promise_of(
    estimator: Any,
    parameters: Mapping[str, Any],
    public: PublicRecords,
    told: FitPlan,
    ledger: PrivacyLedger | None,
) -> dict[str, Any]:
    """Return the public facts that a fit keeps when it goes on, as JSON values.

    Private values do not enter, by digests either: what a parameter holds that is
    neither number nor text, such as a function that may see the table, is told by its
    type alone.
    """
    kind = type(estimator)
    return {
        "estimator": f"{kind.__module__}.{kind.__qualname__}",
        "ledger": None if ledger is None else ledger.dataset,
        "number of records": told.n_records,
        **{n: _told(v) for n, v in parameters.items() if n not in _MAY_CHANGE},
        "plan": [event.to_dict() for event in told.events],
        "public part": _digest(public),
    }


@contextlib.contextmanager
def journal_of(checkpoint: Any, promise: Mapping[str, Any]) -> Iterator[Journal]:
    """Hold the journal of a fit; that of an audit is a file of its own, and goes."""
    if rehearsal.current() is None:
        with Journal(checkpoint, promise) as journal:
            yield journal
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(os.path.join(folder, "checkpoint"), promise) as journal,
    ):
        yield journal


def charged(
    ledger: PrivacyLedger | None, told: FitPlan, journal: Journal | None
) -> tuple[FitPlan, Receipt | None]:
    """Charge a fit, or find what it was charged; return what to tell of it."""
    facts = {"label": told.subject, "plan": told.schedule, "n_rows": told.n_rows}
    if journal is None:
        if ledger is None:
            return told, None
        return told, ledger.charge(told.events, **facts)
    lease, receipt = None, None
    if ledger is not None and rehearsal.current() is not None:
        receipt = ledger.charge(told.events, **facts)
    elif ledger is not None:
        try:
            lease, receipt = ledger.lease(
                journal.fit, told.events, begun=journal.begun, **facts
            )
        except PrivacyBudgetError:
            journal.forget()  # a new one would stand in the way of a smaller fit
            raise
    journal.settle(lease)
    texts = [NOT_COPIED] * (lease is None) + [SAME_ROWS] * journal.begun
    more = tuple(Assumption(text, enforced=False) for text in texts)
    return dataclasses.replace(told, assumptions=told.assumptions + more), receipt


def _digest(public: PublicRecords) -> str:
    """Return a digest of public columns, a public target, weights and persons."""
    found = hashlib.blake2b(digest_size=16)

    def add(array: np.ndarray | None) -> None:
        if array is not None:
            found.update(f"{array.dtype.str} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)

    if public.mask.any():
        for block in public.blocks():
            parts = (
                (block,)
                if isinstance(block, np.ndarray)
                else (block.data, block.indices, block.indptr)
            )
            for part in parts:
                add(part)
    add(public.target)
    if public.units is not None:
        add(public.units.weights)
        add(public.units.persons)
    return found.hexdigest()


def _told(value: Any) -> Any:
    """Return a parameter as JSON: plain values as they are, others by their type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return "nan"  # which equals itself
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_told(one) for one in value]
    if isinstance(value, Mapping):
        return sorted([str(name), _told(one)] for name, one in value.items())
    if isinstance(value, np.ndarray):
        return [value.dtype.str, _told(value.tolist())]
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        return [kind, _told(value.get_params(deep=False))]
    return kind
