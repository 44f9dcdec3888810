"""The check of a report against its ledger."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from skfdp.privacy.ledger_file import FileStore
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.store import LedgerEntry, MemoryStore


def check_report(
    report: PrivacyReport, store: MemoryStore | FileStore, dataset: str
) -> None:
    """Do what `PrivacyLedger.check_report` says."""
    if not isinstance(report, PrivacyReport):
        raise TypeError(
            f"report must be a PrivacyReport, got {type(report).__name__}: pass "
            "model.privacy_, or what read_report returns."
        )
    name = "in memory" if store.path is None else repr(str(store.path))
    parts = [*_charged(report)]
    if not report.receipts or not all(part.receipts for part in parts):
        raise ValueError(
            f"report of {report.subject!r} and ledger {name} cannot be compared: a fit "
            "has a receipt only if it was charged to a ledger; pass ledger=... to it."
        )
    receipts = {one for part in parts for one in part.receipts}
    _, entries = store.read({*report.receipts, *receipts})
    if not all(_holds(entries, part) for part in parts):
        raise ValueError(
            f"data set {dataset!r} of ledger {name} does not hold all events of the "
            f"report of {report.subject!r}: check it against the data set that all of "
            "it was charged to."
        )


def _charged(report: PrivacyReport) -> Iterator[PrivacyReport]:
    """Yield the innermost reports of a report, each with its own charges."""
    if not report.steps:
        yield report
    for _, step in report.steps:
        yield from _charged(step)


def _holds(entries: Sequence[LedgerEntry], report: PrivacyReport) -> bool:
    """Whether the charges of a report hold its events.

    The report of a ledger has the newest receipt only, which covers all before it.
    """
    charges = {receipt.charge for receipt in report.receipts}
    if report.n_fits > len(charges):
        charges = set(range(1, max(charges) + 1))
    missing = collections.Counter(report.events)
    missing.subtract(
        one.event for one in entries if one.event and one.charge in charges
    )
    return all(count <= 0 for count in missing.values())
