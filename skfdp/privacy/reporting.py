"""Reports of fitted objects, Pipelines and ledgers, and of files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from skfdp.privacy.assumptions import Assumption, implied_assumptions
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_facts import plain_names
from skfdp.privacy.store import LedgerEntry

# Tools of scikit-learn that use private values beside the private fits inside them; by
# name, since this package does not import scikit-learn.
_RESAMPLED = "its bootstrap repeats records, and each must appear once"
_OUTSIDE = {
    "CalibratedClassifierCV": "its calibrator is fitted to the target without noise",
    "StackingClassifier": "its final estimator is fitted to the target without noise",
    "StackingRegressor": "its final estimator is fitted to the target without noise",
    "TunedThresholdClassifierCV": "its threshold is tuned on the target without noise",
    "BaggingClassifier": _RESAMPLED,
    "BaggingRegressor": _RESAMPLED,
    "AdaBoostClassifier": "its weights depend on which records are misclassified",
}


def read_report(path: str | os.PathLike[str]) -> PrivacyReport:
    """Read a report that was written as ``Path(path).write_text(report.to_json())``.

    Raises
    ------
    ValueError
        If the file is not a report, has a newer schema, or was edited.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError(
            f"path={str(path)!r} is not a JSON file: pass what to_json wrote."
        ) from None
    return PrivacyReport.from_dict(values)


def report(obj: Any, *, delta: float | None = None) -> PrivacyReport:
    """Return the privacy report of a fitted estimator, a Pipeline or a ledger.

    Parameters
    ----------
    obj : estimator, Pipeline or PrivacyLedger
        A Pipeline's report composes the releases of all its steps that have a report,
        at the largest of their deltas, and names the steps that it cannot see.
    delta : float, default=None
        Report at this delta instead; needed for a ledger without a ceiling.

    Raises
    ------
    PrivacyBudgetError
        If steps are under different relations or public sets
        (`skfdp.privacy.promise` states which compose).
    ValueError
        If nothing in it has a report, or if it hides private fits that cannot be
        counted.
    """
    if isinstance(obj, PrivacyLedger):
        return _ledger_report(obj, delta)
    found = _found(obj, type(obj).__name__)
    if found is None:
        raise ValueError(
            f"report() got {type(obj).__name__}, in which nothing has privacy_: fit "
            "it first, or pass an estimator of skfdp, a Pipeline of them or a ledger."
        )
    return found if delta is None else found.at_delta(delta)


def _found(obj: Any, name: str) -> PrivacyReport | None:
    """Return the report of an object, None if it has none; refuse hidden ones."""
    own = getattr(obj, "privacy_", None)
    if isinstance(own, PrivacyReport):
        return own
    steps = getattr(obj, "steps", None)
    if isinstance(steps, list):  # a Pipeline; sklearn is not imported for this
        return _pipeline_report(obj, steps)
    if _hides_private_fit(obj, set()):
        for kind in type(obj).__mro__:
            if kind.__name__ in _OUTSIDE:
                raise ValueError(
                    f"report() cannot vouch for {name} ({type(obj).__name__}): "
                    f"{_OUTSIDE[kind.__name__]}, which no private fit inside it makes "
                    "up for; see the guide on budgets for what to do instead."
                )
        raise ValueError(
            f"report() cannot count the private fits inside {name} "
            f"({type(obj).__name__}): give them one ledger and report that."
        )
    return None


def _hides_private_fit(obj: Any, visited: set[int]) -> bool:
    """Whether an estimator holds another one with a report, at any depth."""
    if id(obj) in visited:
        return False
    visited.add(id(obj))
    if isinstance(getattr(obj, "privacy_", None), PrivacyReport):
        return True
    if isinstance(obj, Mapping):
        items: Iterable[Any] = obj.values()
    elif isinstance(obj, list | tuple):
        items = obj
    elif any(hasattr(obj, name) for name in ("fit", "predict", "predict_proba")):
        items = vars(obj).values() if hasattr(obj, "__dict__") else ()
    else:
        return False
    return any(_hides_private_fit(item, visited) for item in items)


def _pipeline_report(pipeline: Any, steps: list) -> PrivacyReport | None:
    seen: list[tuple[str, PrivacyReport]] = []
    unseen: list[str] = []
    for name, step in steps:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        found = _found(step, name)
        if found is None:
            unseen.append(f"{name} ({type(step).__name__})")
        else:
            _check_columns_stay_public(seen, name, found)
            seen.append((name, found))
    if not seen:
        return None
    reports = [found for _, found in seen]
    events = tuple(event for found in reports for event in found.events)
    weakest = max(events, key=lambda event: len(event.disclosed), default=None)
    _check_targets_stay_public(seen)
    # Columns have the names that the step with the public set knows them by.
    namer = next(
        (r for r in reports if weakest and _leaves_public(r, weakest)), reports[0]
    )
    given = [a for found in reports for a in found.assumptions]
    if weakest and weakest.public_features and len(seen) + len(unseen) > 1:
        given.append(
            Assumption(
                "What a step treats as a public column was computed from public "
                "columns and released numbers only; steps may name or count columns "
                "differently.",
                False,
            )
        )
    implied = set(implied_assumptions(events, any(r.seeded for r in reports)))
    return PrivacyReport.from_events(
        subject=type(pipeline).__name__,
        events=events,
        delta=max(found.delta for found in reports),
        n_records=next((r.n_records for r in reports if r.n_records is not None), None),
        feature_names=_all_features(namer),
        released=[f"{name}: {what}" for name, found in seen for what in found.released],
        assumptions=[a for a in dict.fromkeys(given) if a not in implied],
        seeded=any(found.seeded for found in reports),
        nonprivate=any(math.isinf(found.epsilon) for found in reports),
        n_fits=sum(found.n_fits for found in reports),
        unseen=unseen,
        steps=seen,
        receipts=(receipt for found in reports for receipt in found.receipts),
    )


def _check_columns_stay_public(
    before: list[tuple[str, PrivacyReport]], name: str, found: PrivacyReport
) -> None:
    """Refuse public columns that an earlier step made out of private ones.

    A step with public columns keeps those, and only those, apart from the private ones;
    one without privacy promises nothing that could break.
    """
    for earlier, theirs in before:
        if not found.public_features or math.isinf(theirs.epsilon):
            continue
        shown = found.public_features[:5]
        if not theirs.public_features:
            raise PrivacyBudgetError(
                f"step {name} treats columns {shown!r} as public, "
                f"but step {earlier} scaled every row by a norm of all its columns, so "
                "that they depend on private ones: leave that step out (the estimator "
                "centres by itself), give it the same public_features, or treat no "
                "column as public."
            )
        if set(theirs.public_features) != set(found.public_features):
            raise PrivacyBudgetError(
                f"step {name} treats columns {shown!r} as public, but step {earlier} "
                f"kept {theirs.public_features[:5]!r} apart, and together they protect "
                "less than either promises: give both steps the same public_features; "
                "if they differ in names and positions alone, "
                "set_output(transform='pandas') on the Pipeline hands on the names."
            )


def _check_targets_stay_public(steps: list[tuple[str, PrivacyReport]]) -> None:
    """Refuse a target that one step discloses and another one says to protect."""
    for name, found in steps:
        for other, theirs in steps:
            if found.public_target and found.target_name in (
                theirs.private_features or ()
            ):
                raise PrivacyBudgetError(
                    f"step {name} discloses its target {found.target_name!r}, which "
                    f"step {other} has among its private columns: leave that column "
                    "out of X."
                )


def _leaves_public(found: PrivacyReport, weakest: Event) -> bool:
    own = found.public_features, found.public_target
    return own == (plain_names(weakest.public_features), weakest.public_target)


def _all_features(found: PrivacyReport) -> tuple[str | int, ...] | None:
    if found.private_features is None:
        return None
    return found.public_features + found.private_features


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
