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
from skfdp.encoding.values import Column, exact
from skfdp.records.spelling import spelling_of, text_of


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


def read_target(
    column: pd.Series, arguments: argparse.Namespace, numbers: pd.Series
) -> Target:
    """Return the target as the settings declare it.

    Parameters
    ----------
    column : Series
    arguments : Namespace
    numbers : Series
        The same column with points in its numbers.

    Raises
    ------
    CommandError
        If a public target holds what is not declared, or leaves the task open.
    """
    if arguments.task is None:
        _check_open_task(numbers)
    if arguments.task == "regression":
        return _numbers(numbers, arguments)
    return _labels(column, arguments)


def as_labels(classes: Sequence[str]) -> list[Any]:
    """Return labels as the integers or booleans that CSV readers make of them.

    Text stays text, and so do fractions, which scikit-learn takes for a regression, and
    numbers with leading zeros, which are codes.
    """
    spelt = [text_of(label) or "" for label in classes]
    if set(spelt) <= {"True", "False"}:
        return [label == "True" for label in spelt]
    return as_numbers(spelt)


def as_numbers(values: Sequence[str]) -> list[Any]:
    """Return values as integers if all of them are written as integers are."""
    whole = all(re.fullmatch("0|-?[1-9][0-9]{0,14}", value) for value in values)
    return [int(value) for value in values] if whole else list(values)


def are_numbers(labels: Sequence[str]) -> bool:
    """Whether labels are more than two, and all of them numbers."""
    return len(labels) > 2 and not np.isnan(Column(list(labels)).read("number")).any()


def _check_open_task(column: pd.Series) -> None:
    """Refuse to guess what a public target of numbers is."""
    if are_numbers([*({text_of(value) for value in column.tolist()} - {None})]):
        raise CommandError(
            f"the target {column.name!r} holds numbers: say --task regression, or "
            "--task classification if each of them is a label."
        )


def _labels(column: pd.Series, arguments: argparse.Namespace) -> Target:
    declared = arguments.classes
    if arguments.public_target:
        spelt = [text_of(value) for value in column.tolist()]
        if None in spelt:
            raise _missing(column, "a label of their own, such as 'missing'")
        declared = sorted(set(spelt)) if declared is None else declared
    given_as_text = all(isinstance(label, str) for label in declared)
    typed = as_labels(declared) if given_as_text else list(declared)
    try:
        spelling = spelling_of(typed, "--classes", "label")
    except ValueError as error:
        raise CommandError(str(error)) from None
    places = spelling.places(exact(column))
    readable = places >= 0
    if arguments.public_target and not readable.all():
        raise CommandError(
            f"the target {column.name!r} holds labels outside --classes "
            f"{','.join(declared)}: declare every label that can occur."
        )
    # Whatever occurs, the type is that of the declared labels.
    kind = type(typed[0])
    other = {int: -(10**16), bool: None}.get(kind, "")
    values = np.array(
        [typed[place] if place >= 0 else other for place in places],
        dtype=np.int64 if kind is int else object,
    )
    return Target(values, readable, None if arguments.classes is None else typed)


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
