"""The public columns of a Pipeline's table, step by step from its end.

Guarantees
----------
* What the last report of a Pipeline calls public fixes what is public before each step.
  A column is public if a public column behind the step comes from it.
* Refused is a public column that comes from all that a private one comes from: either
  it tells of a private column, or that one is not private.
* A column that cannot be followed is not called public.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from skfdp.privacy.events import PrivacyBudgetError
from skfdp.privacy.public_sets import set_text
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.tracing import input_names, sources
from skfdp.privacy.wrappers import members_of

Mask = tuple[bool, ...]


@dataclasses.dataclass
class Part:
    """A step or a member: its report, or what is known of it without one."""

    name: str
    step: Any
    report: PrivacyReport | None
    #: Which columns before it are public; None if that is not known.
    public: Mask | None = None

    @property
    def passes(self) -> bool:
        """Whether it does nothing ("passthrough")."""
        return self.step is None or isinstance(self.step, str)


def follow(parts: list[Part]) -> Mask | None:
    """Find which columns before each part are public, from the last report backwards.

    Returns
    -------
    mask : tuple of bool, or None
        The public columns of the table; None if they cannot be followed.
    """
    last = max(j for j, part in enumerate(parts) if part.report is not None)
    mask = parts[last].public = own_mask(parts[last].step, parts[last].report)
    for j in reversed(range(last)):
        part = parts[j]
        if mask is None:
            return None
        if part.report is not None:
            # What keeps its public columns apart has as many columns behind it.
            own = own_mask(part.step, part.report)
            mask = own if own == mask or not any(mask) else None
        elif not part.passes:
            mask = _before(part, mask, parts[last].name, _output_names(parts, j))
        part.public = mask
    return mask


def _before(
    part: Part, mask: Mask, reader: str, names: list[str] | None
) -> Mask | None:
    """Return which columns before a step are public, or refuse a contradiction."""
    n_features = getattr(part.step, "n_features_in_", 0)
    found = sources(part.step, n_features) if n_features else None
    if found is None or len(found) != len(mask):
        return None
    shown = {one: j for j, one in enumerate(found) if mask[j] and one}
    hidden = {one: j for j, one in enumerate(found) if not mask[j] and one}
    for one, j in shown.items():
        other = next(_inside_of(one, hidden), None)
        if other is None:
            continue
        open_, closed = ((names[i] if names else i) for i in (j, hidden[other]))
        raise PrivacyBudgetError(
            f"step {reader} treats column {open_!r} as public and {closed!r} as "
            f"private, but step {part.name} computed the public one from all that the "
            f"private one comes from ({_columns_text(part.step, other)}): treat both "
            "as public, or neither."
        )
    public = frozenset().union(*shown) if shown else frozenset()
    return tuple(j in public for j in range(n_features))


def _inside_of(
    whole: frozenset[int], others: Mapping[frozenset[int], int]
) -> Iterator[frozenset[int]]:
    """Yield those of many sets that are subsets of one."""
    if 2 ** len(whole) > len(others):
        yield from (other for other in others if other <= whole)
        return
    for size in range(1, len(whole) + 1):
        subsets = map(frozenset, itertools.combinations(sorted(whole), size))
        yield from (one for one in subsets if one in others)


def _columns_text(step: Any, positions: frozenset[int]) -> str:
    names = input_names(step)
    return set_text([names[j] if names else j for j in positions])


def _output_names(parts: list[Part], j: int) -> list[str] | None:
    following = (part for part in parts[j + 1 :] if not part.passes)
    return input_names(next(following).step)


def own_mask(step: Any, found: PrivacyReport | None) -> Mask | None:
    """Return which columns a step with a report treats as public."""
    n_features = getattr(step, "n_features_in_", None)
    if found is None or n_features is None:
        return None
    if not found.public_features:
        return (False,) * n_features
    inner = members_of(step)
    if inner is not None:
        masks = {own_mask(one, getattr(one, "privacy_", None)) for _, one in inner}
        return masks.pop() if len(masks) == 1 else None
    if getattr(step, "names", None) is not None or hasattr(step, "best_estimator_"):
        return None
    keys: list[Any] = input_names(step) or list(range(n_features))
    public = set(found.public_features)
    mask = tuple(key in public for key in keys)
    return mask if sum(mask) == len(public) else None


def named(first: Any, mask: Mask) -> tuple[str | int, ...]:
    """Return the public columns before a step by name, or by position without one."""
    names: list[Any] = input_names(first) or list(range(len(mask)))
    return tuple(name for name, public in zip(names, mask, strict=True) if public)


def check_columns_stay_public(seen: list[Part]) -> None:
    """Refuse public columns that an earlier private fit made out of private ones.

    A step with public columns keeps those, and only those, apart from the private ones;
    one without privacy promises nothing that could break.
    """
    for j, part in enumerate(seen):
        for before in seen[:j]:
            _check_kept_apart(before, part)


def _check_kept_apart(before: Part, part: Part) -> None:
    found, theirs = part.report, before.report
    if found is None or theirs is None:
        return
    if not found.public_features or math.isinf(theirs.epsilon):
        return
    shown = found.public_features[:5]
    if not theirs.public_features:
        raise PrivacyBudgetError(
            f"step {part.name} treats columns {shown!r} as public, "
            f"but step {before.name} scaled every row by a norm of all its columns, so "
            "that they depend on private ones: leave that step out (the estimator "
            "centres by itself), give it the same public_features, or treat no "
            "column as public."
        )
    if set(theirs.public_features) != set(found.public_features):
        raise PrivacyBudgetError(
            f"step {part.name} treats columns {shown!r} as public, but step "
            f"{before.name} kept {theirs.public_features[:5]!r} apart, and together "
            "they protect less than either promises: give both steps the same "
            "public_features; if they differ in names and positions alone, "
            "set_output(transform='pandas') on the Pipeline hands on the names."
        )
