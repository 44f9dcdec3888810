"""The schema: a TOML file with what is declared of a table.

Its keys are the long options with underscores; ``[columns]`` has one entry for each
column of the table.
"""

from __future__ import annotations

import datetime
import math
import numbers
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from skfdp.cli.output import CommandError
from skfdp.privacy.events import RELATIONS

ROLES = ("public", "private", "ignore")


def read_schema(path: str | Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the settings of a schema, and its columns.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    settings : dict
        What is not empty: an empty list or text is a place to fill in.
    columns : dict of str to dict
        The checked entries of each column; dates as ISO texts.

    Raises
    ------
    CommandError
        If the file cannot be read, or holds what no schema has.
    """
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise CommandError(f"cannot read {str(path)!r}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{str(path)!r} is not a TOML file: {error}.") from None
    columns = found.pop("columns", {})
    if not isinstance(columns, dict):
        raise CommandError(f"[columns] of {str(path)!r} must be a table.")
    settings = {}
    for name, value in found.items():
        checked = _checked(name, value, _SETTINGS, repr(str(path)))
        if checked not in ("", [], ()):
            settings[name] = checked
    return settings, {
        name: _column(name, entry, str(path)) for name, entry in columns.items()
    }


def limits(low: Any, high: Any) -> tuple[Any, Any] | None:
    """Return two numbers, or two dates as ISO texts, in order; None if they are not."""
    if all(map(_is_number, (low, high))):
        return (float(low), float(high)) if -math.inf < low < high < math.inf else None
    dates = _iso(low), _iso(high)
    if None in dates or not dates[0] < dates[1]:
        return None
    return dates


def as_text(value: Any) -> str:
    """Return a label or category as it stands in a CSV file."""
    return str(value).strip()


def _column(name: str, entry: Any, path: str) -> dict[str, Any]:
    place = f"column {name!r} in {path!r}"
    if not isinstance(entry, dict):
        raise CommandError(
            f'{place} must be a table, such as {{role = "private", bounds = [0, 1]}}.'
        )
    found = {
        key: _checked(key, value, _COLUMN, place)
        for key, value in entry.items()
        if value not in ("", [])
    }
    if "bounds" in found and "categories" in found:
        raise CommandError(f"{place} has bounds and categories: numbers or text?")
    return {"role": "private", **found}


def _checked(name: str, value: Any, known: dict, place: str) -> Any:
    if name not in known:
        raise CommandError(
            f"{place} has no meaning for {name!r}: it takes {', '.join(known)}."
        )
    expected, check = known[name]
    if value in ("", []):
        return value
    checked = check(value)
    if checked is None:
        raise CommandError(f"{name} of {place} must be {expected}.")
    return checked


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _iso(value: Any) -> str | None:
    """Return a date as an ISO text of one length, None if it is none."""
    try:
        if isinstance(value, str):
            value = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            day = value.date().isoformat()
            midnight = value.time() == datetime.time()
            return day if midnight else value.isoformat(timespec="seconds")
        return None
    return value.isoformat() if isinstance(value, datetime.date) else None


def _kind(*kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        return value if type(value) in kinds else None

    return check


def _choice(*choices: str) -> Callable[[Any], Any]:
    return lambda value: value if value in choices else None


def _pair(value: Any) -> Any:
    return limits(*value) if isinstance(value, list) and len(value) == 2 else None


def _number_pair(value: Any) -> Any:
    pair = _pair(value)
    return None if pair is None or isinstance(pair[0], str) else pair


def _texts(value: Any) -> Any:
    if not isinstance(value, list):
        return None
    if not all(isinstance(one, str | int | float) for one in value):
        return None
    found = [as_text(one) for one in value]
    return found if len(set(found)) == len(found) else None


def _values(value: Any) -> Any:
    """Return categories with their types: a number is not its text."""
    if _texts(value) is None:
        return None
    return [as_text(one) if isinstance(one, str) else one for one in value]


def _knots(value: Any) -> Any:
    if isinstance(value, list):
        return _increasing(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and value >= 2 else None


def _increasing(values: Sequence[Any]) -> Any:
    pairs = zip(values, values[1:], strict=False)
    right = len(values) >= 2 and all(limits(*pair) is not None for pair in pairs)
    return [*map(float, values)] if right and all(map(_is_number, values)) else None


def _interactions(value: Any) -> Any:
    if not isinstance(value, list):
        return None
    pairs = [tuple(one) for one in value if isinstance(one, list) and len(one) == 2]
    texts = all(isinstance(name, str) for pair in pairs for name in pair)
    return pairs if texts and len(pairs) == len(value) else None


_SETTINGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "target": ("the name of a column", _kind(str)),
    "task": (
        '"classification" or "regression"',
        _choice("classification", "regression"),
    ),
    "public_target": ("true or false", _kind(bool)),
    "classes": ("a list of different labels", _texts),
    "target_bounds": ("two numbers, [LOW, HIGH]", _number_pair),
    "groups": ("the name of a column", _kind(str)),
    "epsilon": ("a number", _kind(int, float)),
    "delta": ("a number", _kind(int, float)),
    "relation": (f"one of {', '.join(RELATIONS)}", _choice(*RELATIONS)),
    "n_records": ("a whole number", _kind(int)),
    "sep": ("one character", _kind(str)),
    "decimal": ("a point or a comma", _kind(str)),
    "encoding": ("the name of an encoding", _kind(str)),
    "interactions": ("a list of pairs of columns", _interactions),
}
_COLUMN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "role": (f"one of {', '.join(ROLES)}", _choice(*ROLES)),
    "bounds": ("two numbers or two dates, [LOW, HIGH]", _pair),
    "categories": ("a list of different values", _values),
    "knots": ("a whole number above 1, or a list of increasing numbers", _knots),
    "basis": ('"hats" or "linear"', _choice("hats", "linear")),
    "spacing": ('"even" or "geometric"', _choice("even", "geometric")),
    "cyclic": ("true or false", _kind(bool)),
}
