"""Check fields of events, plans and reports, and format values for messages.

Epsilon is computed from these fields, so a value of the wrong type raises ValueError.
It is not converted, because ``int(2.9)`` is 2, ``float("12")`` is 12 and ``bool("no")``
is true. NumPy scalars count as Python scalars.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import numbers
import re
import sys
import typing
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Any

import numpy as np

#: Largest count, such as a number of steps. Squares and sums of counts stay finite.
MOST_INTEGER = 2**53


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the user's line that called the fit, not at a line of a library."""
    level, frame = 2, sys._getframe(1)
    between = ("skfdp", "sklearn", "joblib", "contextlib", "functools")
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] in between
    ):
        level, frame = level + 1, frame.f_back
    with contextlib.suppress(AttributeError, ValueError):  # no or a closed stderr
        warnings.warn(message, category, stacklevel=level)


def shown(value: Any) -> str:
    """Format a value for an error message: one short line without an address.

    The repr of a Series, an array or a frame is long and contains data. The repr of a
    function contains a memory address. Such values are replaced by their type.
    """
    if hasattr(value, "get_params") and not isinstance(value, type):
        text = repr(value)
        short = len(text) <= 80 and "\n" not in text and " at 0x" not in text
        return text if short else f"{type(value).__name__}(...)"
    value = value.item() if isinstance(value, np.generic) else value
    with contextlib.suppress(ValueError):  # Python prints no very large integer
        if _is_plain(value) and len(text := repr(value)) <= 200:
            return text
    name = getattr(value, "__name__", None)
    return f"<{type(value).__name__} {name}>" if name else f"<{type(value).__name__}>"


def _is_plain(value: Any) -> bool:
    """Whether a value is a Python scalar, or a collection of at most 16 such values.

    The collections range, set and frozenset may be longer.
    """
    if isinstance(value, (list, tuple)):
        return len(value) <= 16 and all(map(_is_plain, value))
    if isinstance(value, dict):
        return len(value) <= 16 and all(map(_is_plain, (*value, *value.values())))
    plain = (str, bytes, numbers.Number, slice, range, set, frozenset)
    return value is None or isinstance(value, plain)


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python scalar; return other values unchanged."""
    scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return value.item() if scalar else value


def number(
    name: str,
    value: Any,
    expected: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    closed: str = "both",
) -> float:
    """Return a number between low and high as a Python float, or raise ValueError.

    Bools, strings, None and NaN are refused. `closed` says which of the ends low and
    high, which may be infinite, belong to the interval: "both", "left", "right" or
    "neither". `expected` says in the message what the number must be.
    """
    found = math.nan
    real = isinstance(value, numbers.Real)
    # NumPy registers timedelta64 as an integer type.
    if real and not isinstance(value, bool | np.timedelta64):
        with contextlib.suppress(OverflowError):  # an int above the largest float
            found = float(value)
    inside = low < found < high
    inside |= found == low and closed in ("both", "left")
    inside |= found == high and closed in ("both", "right")
    if not inside:
        raise ValueError(f"{name}={shown(value)} must be {expected}.")
    return found


#: Return the value as a finite positive float, or raise ValueError.
positive = functools.partial(
    number, expected="a finite positive number", low=0, closed="neither"
)


def count(name: str, value: Any, least: int = 1) -> int:
    """Return the value as an int of at least `least`, or raise ValueError."""
    whole = isinstance(value, numbers.Integral)
    whole = whole and not isinstance(value, bool | np.timedelta64)
    if not whole or not least <= int(value) <= MOST_INTEGER:
        raise ValueError(
            f"{name}={shown(value)} must be an int of at least {least}, and at most "
            "2**53."
        )
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Return the value as a bool, or raise ValueError."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={shown(value)} must be True or False.")
    return bool(value)


def text(name: str, value: Any) -> str:
    """Return the value as a str that UTF-8 can store, or raise ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{name}={shown(value)} must be a str.")
    if re.search("[\ud800-\udfff]", value):
        raise ValueError(
            f"{name} holds {shown(value)} with a lone surrogate, which no file can "
            "store: replace it."
        )
    return "".join(value)


def is_among(value: Any, known: Collection) -> bool:
    """Whether a value equals a known one; the comparison of an array is no bool."""
    for one in known:
        if value is one or (value == one) is True:
            return True
    return False


def choice(name: str, value: Any, choices: Collection) -> Any:
    """Return the value if it is one of the choices, or raise ValueError."""
    known = value in choices if isinstance(value, str) else is_among(value, choices)
    if not known:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name}={shown(value)} is unknown; choose one of {listed}.")
    return value


def spelling(name: str) -> str:
    """Return a name in Unicode form NFC, without white space at its ends.

    A ledger compares columns by these names. A member of a str enumeration becomes a
    plain str.
    """
    return unicodedata.normalize("NFC", text("a name", name)).strip()


def items(name: str, values: Any, expected: str) -> tuple[Any, ...]:
    """Return the items of a tuple, list or array as a tuple, or raise ValueError.

    Text, sets and mappings are refused.
    """
    unordered = str | bytes | bytearray | Mapping | Set
    if isinstance(values, Iterable) and not isinstance(values, unordered):
        with contextlib.suppress(TypeError):  # an array without dimensions
            return tuple(values)
    raise ValueError(f"{name}={shown(values)} must be {expected}.")


def columns(name: str, values: Any) -> tuple[str | int, ...]:
    """Return column names or positions as a tuple, or raise ValueError."""
    expected = "a tuple of column names or positions"
    found: list[str | int] = []
    for value in items(name, values, expected):
        if isinstance(value, str):
            found.append(spelling(value))
            continue
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not whole or value < 0:
            raise ValueError(
                f"{name} holds {shown(value)}, but each entry must be a column name "
                "(a str) or a position (an int of at least 0)."
            )
        found.append(int(value))
    return tuple(found)


def fields(kind: type, values: Any) -> dict[str, Any]:
    """Return a mapping as a dict, or raise ValueError unless its keys fit a dataclass.

    The keys must be exactly the names of the fields of `kind`.
    """
    name = kind.__name__
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{name} must be a mapping of its fields, not {shown(values)}: pass what "
            "to_dict returned."
        )
    names = [field.name for field in dataclasses.fields(kind)]
    if unknown := set(values) - set(names):
        raise ValueError(
            f"{name} has unknown fields {sorted(map(str, unknown))}: it was written by "
            "a newer skfdp; upgrade to read it."
        )
    for one in names:
        if one not in values:
            raise ValueError(
                f"{name} lacks the field {one!r}: pass what to_dict returned."
            )
    return dict(values)


def record(kind: Any, values: Any) -> Any:
    """Build a dataclass from a mapping of JSON values, or raise ValueError.

    Each value is read by the annotation of its field: a scalar, a column name or
    position, a dict of texts, a dataclass, a tuple of these, or one of these or None.
    """
    given, kinds = fields(kind, values), _hints(kind)
    return kind(**{name: _read(name, one, kinds[name]) for name, one in given.items()})


# `__module__` of a public class is not the module of its annotations.
_hints = functools.cache(lambda k: typing.get_type_hints(k, k.__init__.__globals__))


def texts(name: str, value: Any) -> dict[str, str]:
    """Return a mapping from text to text as a dict, or raise ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}={shown(value)} must be a mapping.")
    return {text(name, key): text(name, one) for key, one in value.items()}


_READ: dict[Any, Callable[[str, Any], Any]] = {
    str: text,
    bool: flag,
    int: functools.partial(count, least=0),
    # The text "inf", as in JSON, is infinity.
    float: lambda name, value: number(
        name,
        math.inf if value == "inf" else value,
        'a number of at least 0, or "inf"',
        0,
    ),
    tuple[str | int, ...]: columns,
    dict[str, str]: texts,
}


def _read(name: str, value: Any, kind: Any) -> Any:
    if kind in _READ:
        return _READ[kind](name, value)
    inner = typing.get_args(kind)
    if type(None) in inner:
        return None if value is None else _read(name, value, inner[0])
    if not inner:
        return getattr(kind, "from_dict", functools.partial(record, kind))(value)
    found = items(name, value, "a list")
    kinds = inner[:1] * len(found) if ... in inner else inner
    pairs = zip(found, kinds, strict=True)
    return tuple([_read(f"an entry of {name}", *pair) for pair in pairs])


def computed() -> Any:
    """Return a dataclass field that `__post_init__` computes from the other fields."""
    return dataclasses.field(init=False, repr=False, compare=False)
