"""Lessons of steps without a report, and whether they were public.

Guarantees
----------
* A step is listed as what `steps` knows of it, or else as unseen; so are its parts.
* What was learnt from public columns alone, and from a public target, is a function of
  what neighbours agree in, and is free. All else that was learnt voids a report.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from skfdp.privacy.assumptions import Assumption, enforced, is_enforced
from skfdp.privacy.following import Mask
from skfdp.privacy.steps import (
    Learns,
    Lesson,
    is_class,
    is_container,
    members,
    verdict,
)
from skfdp.privacy.tracing import Sources, chosen_positions, input_names, sources, then


@dataclasses.dataclass
class Learnt:
    """Lessons of parts without a report, and parts of which nothing is known."""

    lessons: list[Lesson] = dataclasses.field(default_factory=list)
    unseen: list[str] = dataclasses.field(default_factory=list)
    assumes: list[str] = dataclasses.field(default_factory=list)

    @property
    def assumptions(self) -> list[Assumption]:
        """What was taken for granted, each once."""
        return [
            enforced(text) if is_enforced(text) else Assumption(text, False)
            for text in dict.fromkeys(self.assumes)
        ]

    @property
    def private(self) -> bool:
        """Whether any of it is private."""
        return any(lesson.private for lesson in self.lessons)


def judge(
    learnt: Learnt,
    name: str,
    step: Any,
    came: Sources | None,
    public: Mask | None,
    public_target: bool,
) -> None:
    """Add what a step and its parts learnt.

    Parameters
    ----------
    learnt : Learnt
    name : str
    step : transformer or estimator
    came : tuple of frozenset or None
        For each column before it the columns that it comes from, of which
    public : tuple of bool or None
        says whether they are public.
    public_target : bool
    """
    if step is None or isinstance(step, str):
        return
    title = f"{name} ({type(step).__name__})"
    found = verdict(step)
    if found is None:
        learnt.unseen.append(title)
    else:
        learns, reason = found.learns, found.reason
        if learns in ("rows", "target") and _is_free(
            came, public, learns != "target" or public_target
        ):
            learns = "public columns"
        learnt.lessons.append(Lesson(title, learns, reason))
        if found.assumes is not None:
            learnt.assumes.append(found.assumes)
    if is_container(step):
        for label, part, before in _inside(step, came):
            judge(learnt, f"{name}__{label}", part, before, public, public_target)


def _is_free(came: Sources | None, public: Mask | None, target_is_free: bool) -> bool:
    if came is None or public is None or not target_is_free:
        return False
    return all(public[j] for one in came for j in one)


def _inside(
    step: Any, came: Sources | None
) -> Iterator[tuple[str, Any, Sources | None]]:
    """Yield name, part and sources of the columns before each part of a container."""
    for name, part, chosen in members(step):
        before = came
        if is_class(step, "ColumnTransformer"):
            before = _chosen(step, chosen, came)
        yield name, part, before
        if is_class(step, "Pipeline") and came is not None:
            came = then(came, sources(part, len(came)))


def _chosen(step: Any, chosen: Any, came: Sources | None) -> Sources | None:
    if came is None:
        return None
    try:
        positions = chosen_positions(chosen, input_names(step), len(came))
    except (TypeError, ValueError, IndexError):
        return None
    return tuple(came[j] for j in positions)


def judge_target(learnt: Learnt, transformer: Any, public_target: bool) -> None:
    """Add what the transformer of a target learnt from it."""
    own = Learnt()
    judge(own, "transformer_", transformer, None, None, False)
    learnt.unseen += own.unseen
    learnt.assumes += own.assumes
    for lesson in own.lessons:
        learns: Learns = "public columns" if public_target else "target"
        if lesson.learns != "nothing":
            reason = f"{lesson.reason}, of the target"
            lesson = Lesson(lesson.step, learns, reason)
        learnt.lessons.append(lesson)
