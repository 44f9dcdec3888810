"""Reports of what consists of several steps or fits: Pipelines, and tools around them.

Guarantees
----------
* All events of all parts are composed; one record enters every part.
* A part without a report is listed: as what `steps` knows of it, or as unseen. What it
  learnt from public columns alone is free; what it learnt from others voids the report.
* A column behind a Pipeline that is public, and another one that is private, never come
  from the same columns of its table as far as they can be followed (`tracing`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skfdp.privacy.assumptions import (
    CLASSES_READ,
    COLUMNS_ASSUMED,
    COLUMNS_FOLLOWED,
    implied_assumptions,
    unseen_assumption,
)
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.following import Part, check_columns_stay_public, follow, named
from skfdp.privacy.judging import Learnt, judge, judge_target
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.report_facts import plain_names
from skfdp.privacy.steps import is_class
from skfdp.privacy.tracing import sources
from skfdp.privacy.wrappers import Members, members_of, reads_classes, refusal


def report_of(obj: Any, name: str) -> PrivacyReport | None:
    """Return the report of a fitted object, None if it has none; refuse hidden ones."""
    own = getattr(obj, "privacy_", None)
    if isinstance(own, PrivacyReport):
        return own
    steps = getattr(obj, "steps", None)
    if isinstance(steps, list):  # a Pipeline; sklearn is not imported for this
        return _of_pipeline(obj)
    if not _hides_private_fit(obj, set()):
        return None
    if (why := refusal(obj)) is not None:
        raise ValueError(
            f"report() cannot vouch for {name} ({type(obj).__name__}): {why}, which no "
            "private fit inside it makes up for; see the guide on budgets for what to "
            "do instead."
        )
    inner = members_of(obj)
    if inner is not None:
        return _of_wrapper(obj, inner)
    raise ValueError(
        f"report() cannot count the private fits inside {name} "
        f"({type(obj).__name__}): give them one ledger and report that."
    )


def of_releases(
    obj: Any, reports: Iterable[tuple[str, PrivacyReport]]
) -> PrivacyReport:
    """Return the report of what was made from several releases, and nothing else.

    Parameters
    ----------
    obj : object
        The subject.
    reports : iterable of (str, PrivacyReport)
        Names and reports of the releases, in their order.
    """
    parts = [Part(name, None, found) for name, found in reports]
    return _joined(obj, parts, Learnt(), None)


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


def with_steps(found: PrivacyReport, pipeline: Any) -> PrivacyReport:
    """Return the report of a search, with what the steps beside its fits learnt.

    Parameters
    ----------
    found : PrivacyReport
    pipeline : Pipeline
        Fitted. What `report` would refuse stays an assumption, or unseen: the fit is
        charged already.
    """
    parts = _parts(pipeline, refuse=False)
    learnt, public_sources = _learnt(parts, refuse=False)
    return dataclasses.replace(
        found,
        unseen=tuple(learnt.unseen),
        learnt=tuple(learnt.lessons),
        public_sources=public_sources,
        assumptions=(
            *found.assumptions,
            *learnt.assumptions,
            *map(unseen_assumption, learnt.unseen),
        ),
    )


def _parts(pipeline: Any, refuse: bool = True) -> list[Part]:
    """Return the steps of a Pipeline, and the Pipeline itself if it is a user's."""
    return [*_opaque("pipeline", pipeline), *_flat(pipeline.steps, "", refuse)]


def _opaque(name: str, pipeline: Any) -> Iterator[Part]:
    """Yield a Pipeline as a step of its own, unless its class is scikit-learn's."""
    while is_class(pipeline, "FrozenEstimator"):
        pipeline = pipeline.estimator
    if not is_class(pipeline, "Pipeline"):
        yield Part(name, pipeline, None)


def _is_own_pipeline(part: Part) -> bool:
    """Whether a part stands for a user's Pipeline (`_opaque`)."""
    steps = getattr(part.step, "steps", None)
    frozen = is_class(part.step, "FrozenEstimator")
    return part.report is None and not frozen and isinstance(steps, list)


def _of_pipeline(pipeline: Any) -> PrivacyReport | None:
    parts = _parts(pipeline)
    seen = [part for part in parts if part.report is not None]
    if not seen:
        return None
    check_columns_stay_public(seen)
    return _joined(pipeline, seen, *_learnt(parts))


def _learnt(
    parts: list[Part], refuse: bool = True
) -> tuple[Learnt, tuple[str | int, ...] | None]:
    """Return what steps without a report learnt, and the table's public columns."""
    try:
        table = follow(parts)
    except PrivacyBudgetError:
        if refuse:
            raise
        table = None
    if any(_is_own_pipeline(part) for part in parts):
        table = None  # it may hand any columns to its steps
        for part in parts:
            part.public = None
    reports = [part.report for part in parts if part.report is not None]
    public_target = any(found.public_target for found in reports)
    learnt = Learnt()
    for part in parts:
        if part.report is None and not part.passes:
            n_features = getattr(part.step, "n_features_in_", None)
            came = None if n_features is None else sources(None, n_features)
            judge(learnt, part.name, part.step, came, part.public, public_target)
    if len(parts) == 1 or not any(found.public_features for found in reports):
        return learnt, None
    followed = table is not None and not learnt.private and not learnt.unseen
    learnt.assumes.insert(0, COLUMNS_FOLLOWED if followed else COLUMNS_ASSUMED)
    head = next(part for part in parts if not part.passes)
    return learnt, None if table is None else named(head.step, table)


def _flat(steps: Iterable[Any], prefix: str, refuse: bool = True) -> Iterator[Part]:
    """Yield the steps of a Pipeline, those of a Pipeline inside it among them."""
    for name, step in steps:
        own = isinstance(getattr(step, "privacy_", None), PrivacyReport)
        # A FrozenEstimator was fitted before: its steps did not learn in this fit.
        frozen = is_class(step, "FrozenEstimator") and not _hides_private_fit(
            step, set()
        )
        steps_inside = isinstance(getattr(step, "steps", None), list)
        if steps_inside and not own and not frozen:
            yield from _opaque(prefix + name, step)
            yield from _flat(step.steps, f"{prefix}{name}__", refuse)
        elif step is None or isinstance(step, str):
            yield Part(prefix + name, step, None)
        else:
            try:
                found = report_of(step, name)
            except (ValueError, PrivacyBudgetError):
                if refuse:
                    raise
                found = None
            yield Part(prefix + name, step, found)


def _of_wrapper(obj: Any, inner: Members) -> PrivacyReport:
    """Return the report of what only fits its members, all of them to one table."""
    learnt, seen = Learnt(), []
    for name, one in inner:
        part = Part(name, one, report_of(one, name))
        if part.report is None:
            judge(learnt, name, one, None, None, False)
        else:
            seen.append(part)
    if not seen:
        raise ValueError(
            f"report() finds no report in the members of {type(obj).__name__}: fit it."
        )
    _check_positions(obj, seen)
    public_target = all(part.report.public_target for part in seen if part.report)
    if is_class(obj, "TransformedTargetRegressor"):
        if report_of(obj.transformer_, "transformer_") is not None:
            raise ValueError(
                "report() cannot count the private fit of transformer_, whose columns "
                "are a target: give a fixed function."
            )
        judge_target(learnt, obj.transformer_, public_target)
    if reads_classes(obj) and not public_target:
        learnt.assumes.append(CLASSES_READ)
    return _joined(obj, seen, learnt, None)


def _private_features(
    found: PrivacyReport, namer: PrivacyReport
) -> tuple[str | int, ...] | None:
    """Return the private columns as one part knows them, but for the public ones."""
    if namer.private_features is None or found.neighboring_relation is None:
        return None
    public = set(found.public_features)
    return tuple(name for name in namer.private_features if name not in public)


def _check_positions(obj: Any, seen: list[Part]) -> None:
    """Refuse members that count columns each in its own way."""
    reports = [part.report for part in seen if part.report is not None]
    ways = {(found.public_features, found.public_sources) for found in reports}
    for part, found in zip(seen, reports, strict=True):
        counted = any(isinstance(name, int) for name in found.public_features)
        alike = len(ways) == 1 and found.public_sources is not None
        if found.steps and counted and not alike and len(seen) > 1:
            raise PrivacyBudgetError(
                f"member {part.name} of {type(obj).__name__} names its public columns "
                "by positions behind a step of its own, which other members may count "
                "otherwise: name them, by set_output(transform='pandas') on it."
            )


def _joined(
    obj: Any,
    parts: list[Part],
    learnt: Learnt,
    public_sources: tuple[str | int, ...] | None,
) -> PrivacyReport:
    """Return the composition of all events, with all that is known beside them."""
    seen = [(part.name, part.report) for part in parts if part.report is not None]
    reports = [found for _, found in seen]
    events = tuple(event for found in reports for event in found.events)
    weakest = max(events, key=lambda event: len(event.disclosed), default=None)
    _check_targets_stay_public(seen)
    # Columns have the names that the step with the public set knows them by.
    namer = next(
        (r for r in reports if weakest and _leaves_public(r, weakest)), reports[0]
    )
    given = [a for found in reports for a in found.shared_assumptions]
    given += learnt.assumptions
    hidden = [*learnt.unseen, *(f"{n}__{u}" for n, r in seen for u in r.unseen)]
    given += map(unseen_assumption, hidden)
    inner = [(name, lesson) for name, r in seen for lesson in r.learnt]
    lessons = [
        *learnt.lessons,
        *(dataclasses.replace(one, step=f"{name}__{one.step}") for name, one in inner),
    ]
    n_fits = sum(found.n_fits for found in reports)
    seeded = any(found.seeded for found in reports)
    implied = {a.text for a in implied_assumptions(events, seeded, n_fits)}
    found = PrivacyReport.from_events(
        subject=type(obj).__name__,
        events=events,
        delta=max(found.delta for found in reports),
        n_records=next((r.n_records for r in reports if r.n_records is not None), None),
        released=[f"{name}: {what}" for name, found in seen for what in found.released],
        assumptions=[a for a in dict.fromkeys(given) if a.text not in implied],
        seeded=seeded,
        nonprivate=any(math.isinf(found.epsilon) for found in reports),
        n_fits=n_fits,
        unseen=hidden,
        steps=seen,
        receipts=(receipt for one in reports for receipt in one.receipts),
    )
    return dataclasses.replace(
        found,
        learnt=tuple(lessons),
        public_sources=public_sources,
        private_features=_private_features(found, namer),
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
