"""The target: labels or numbers, as declared.

What is private of it decides nothing: a label that is not declared contributes nothing,
a number that cannot be read counts as the middle of its bounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skfdp.cli.output import CommandError
from skfdp.encoding.values import Column, canonical


@dataclasses.dataclass(frozen=True)
class Target:
    """The target of some rows.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
    readable : bool ndarray of shape (n_rows,)
        False for what contributes nothing, and for numbers that are missing: rows that
        scores leave out.
    classes : list or None
        The labels that are declared.
    """

    values: np.ndarray
    readable: np.ndarray
    classes: list | None = None


def read_target(column: pd.Series, arguments: argparse.Namespace) -> Target:
    """Return the target as the settings declare it.

    Raises
    ------
    CommandError
        If a public target holds what is not declared, or leaves the task open.
    """
    if arguments.task is None:
        _check_open_task(column)
    if arguments.task == "regression":
        return _numbers(column, arguments)
    return _labels(column, arguments)


def as_labels(classes: Sequence[str]) -> list[Any]:
    """Return labels as the integers or booleans that CSV readers make of them.

    Fractions stay text, as scikit-learn takes them for a regression.
    """
    spelt = [canonical(label) or "" for label in classes]
    if set(spelt) <= {"True", "False"}:
        return [label == "True" for label in spelt]
    whole = all(re.fullmatch("-?[0-9]{1,15}", label) for label in spelt)
    return [int(label) for label in spelt] if whole else spelt


def are_numbers(labels: Sequence[str]) -> bool:
    """Whether labels in canonical form are more than two, and all of them numbers."""
    return len(labels) > 2 and not np.isnan(Column(list(labels)).read("number")).any()


def _check_open_task(column: pd.Series) -> None:
    """Refuse to guess what a public target of numbers is."""
    if are_numbers([*({canonical(value) for value in column.tolist()} - {None})]):
        raise CommandError(
            f"the target {column.name!r} holds numbers: say --task regression, or "
            "--task classification if each of them is a label."
        )


def _labels(column: pd.Series, arguments: argparse.Namespace) -> Target:
    spelt = [canonical(value) for value in column.tolist()]
    declared = arguments.classes
    if arguments.public_target:
        if None in spelt:
            raise _missing(column, "a label of their own, such as 'missing'")
        if declared is None:
            declared = sorted(set(spelt))
            labels = dict(zip(declared, as_labels(declared), strict=True))
            return Target(
                np.array([labels[one] for one in spelt]), np.ones(len(spelt), bool)
            )
    typed = as_labels(declared)
    labels = {canonical(one): label for one, label in zip(declared, typed, strict=True)}
    if len(labels) < len(declared):
        raise CommandError(
            f"--classes {','.join(declared)} lists one label in two spellings."
        )
    readable = np.array([one in labels for one in spelt])
    if arguments.public_target and not readable.all():
        raise CommandError(
            f"the target {column.name!r} holds labels outside --classes "
            f"{','.join(declared)}: declare every label that can occur."
        )
    # Whatever occurs, the type is that of the declared labels.
    kind = type(typed[0])
    other = {int: -(10**16), bool: None}.get(kind, "")
    values = np.array(
        [labels.get(one, other) for one in spelt],
        dtype=np.int64 if kind is int else object,
    )
    return Target(values, readable, typed)


def _numbers(column: pd.Series, arguments: argparse.Namespace) -> Target:
    values = Column(column).read("number")
    readable = ~np.isnan(values)
    if arguments.public_target and not readable.all():
        raise _missing(column, "a number")
    if arguments.target_bounds is not None:
        low, high = arguments.target_bounds
        values = np.where(readable, values, (low + high) / 2)
    return Target(values, readable)


def _missing(column: pd.Series, remedy: str) -> CommandError:
    return CommandError(
        f"the public target {column.name!r} has missing or unreadable values: give "
        f"them {remedy}, or remove these rows."
    )
