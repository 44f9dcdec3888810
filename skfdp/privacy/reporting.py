"""Reports of fitted objects, Pipelines and ledgers, and of files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from skfdp.privacy.assumptions import Assumption
from skfdp.privacy.composed import report_of
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.store import LedgerEntry
from skfdp.privacy.values import shown


def read_report(path: str | os.PathLike[str]) -> PrivacyReport:
    """Read a report that was written as ``Path(path).write_text(report.to_json())``.

    Raises
    ------
    ValueError
        If the file is not a report, has another schema, or was edited.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path={shown(path)} must be the path of a file.")
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # of JSON, UTF-8, a path; deep, or too long
        raise ValueError(
            f"path={str(path)!r} is not a JSON file: pass what to_json wrote."
        ) from None
    return PrivacyReport.from_dict(values)


def report(obj: Any, *, delta: float | None = None) -> PrivacyReport:
    """Return the privacy report of a fitted estimator, a Pipeline or a ledger.

    Parameters
    ----------
    obj : estimator, Pipeline, tool around estimators, or PrivacyLedger
        The report of a Pipeline composes the releases of all its steps that have a
        report, at the largest of their deltas, and says what it knows of the others:
        what they learnt (`PrivacyReport.learnt`), or that it cannot see them. So do
        those of OneVsRestClassifier, VotingClassifier, VotingRegressor,
        MultiOutputClassifier, MultiOutputRegressor, ClassifierChain, RegressorChain,
        TransformedTargetRegressor and FixedThresholdClassifier, whose members all
        learn from one table.
    delta : float, default=None
        Report at this delta instead; needed for a ledger without a ceiling.

    Raises
    ------
    PrivacyBudgetError
        If steps are under different relations or public sets
        (`skfdp.privacy.promise` states which compose), or if a public column of one
        step was computed from private columns by a step before it.
    ValueError
        If nothing in it has a report, or if it hides private fits that cannot be
        counted.
    """
    if isinstance(obj, PrivacyLedger):
        return _ledger_report(obj, delta)
    found = report_of(obj, type(obj).__name__)
    if found is None:
        raise ValueError(
            f"report() got {type(obj).__name__}, in which nothing has privacy_: fit "
            "it first, or pass an estimator of skfdp, a Pipeline of them or a ledger."
        )
    return found if delta is None else found.at_delta(delta)


def _ledger_report(ledger: PrivacyLedger, delta: float | None) -> PrivacyReport:
    entries = ledger.entries
    delta = ledger.delta if delta is None else delta
    if delta is None:
        raise ValueError(
            "delta=None needs a ledger with a ceiling: pass report(ledger, delta=1e-5)."
        )
    fits = {entry.charge: entry for entry in entries}
    private = [entry for entry in entries if entry.event is not None]
    events = [entry.event for entry in private if entry.event is not None]
    return PrivacyReport.from_events(
        subject=f"data set {ledger.dataset!r} of a PrivacyLedger",
        events=events,
        delta=delta,
        target_epsilon=ledger.epsilon,
        public=ledger.public,
        released=[_fit_text(charge, entry) for charge, entry in fits.items()],
        assumptions=[
            Assumption("Every use of the data set was charged to this ledger.", False)
        ],
        nonprivate=len(private) < len(entries),
        parts=[entry.part for entry in private],
        n_fits=len(fits),
        receipts=[ledger.receipt],
    )


def _fit_text(charge: int, entry: LedgerEntry) -> str:
    where = "" if entry.part is None else f", on {entry.part} only"
    return f"fit {charge}: {entry.label or 'unnamed fit'}{where}"
