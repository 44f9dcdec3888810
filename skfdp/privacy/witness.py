"""The check of a report against the file of its ledger."""

from __future__ import annotations

import collections

from skfdp.privacy.ledger_file import FileStore
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.store import MemoryStore


def check_report(
    report: PrivacyReport, store: MemoryStore | FileStore, dataset: str
) -> None:
    """Do what `PrivacyLedger.check_report` says."""
    if not isinstance(report, PrivacyReport):
        raise TypeError(
            f"report must be a PrivacyReport, got {type(report).__name__}: pass "
            "model.privacy_, or what read_report returns."
        )
    path = None if store.path is None else str(store.path)
    if not isinstance(store, FileStore) or not report.receipts:
        raise ValueError(
            f"report of {report.subject!r} and ledger {path!r} cannot be compared: "
            "only a fit that was charged to a ledger's file has a receipt; "
            "PrivacyLedger(path) makes one."
        )
    _, entries = store.read(report.receipts)
    last = max(receipt.charge for receipt in report.receipts)
    missing = collections.Counter(report.events)
    missing.subtract(
        entry.event for entry in entries if entry.event and entry.charge <= last
    )
    if any(count > 0 for count in missing.values()):
        raise ValueError(
            f"data set {dataset!r} of ledger {path!r} does not hold all events of the "
            f"report of {report.subject!r}: check it against the data set that all of "
            "it was charged to."
        )
