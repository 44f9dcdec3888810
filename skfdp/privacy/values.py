"""Refused values in the words of a message."""

from __future__ import annotations

import numbers
from typing import Any


def shown(value: Any) -> str:
    """Return what an error says of a parameter: one short line without an address.

    The text of a Series, an array or a frame goes on for lines and holds values, that
    of a function holds an address: of such values only the type is told.
    """
    if hasattr(value, "get_params") and not isinstance(value, type):
        text = repr(value)
        short = len(text) <= 80 and "\n" not in text and " at 0x" not in text
        return text if short else f"{type(value).__name__}(...)"
    if _is_plain(value) and len(text := repr(value)) <= 200:
        return text
    name = getattr(value, "__name__", None)
    return f"<{type(value).__name__} {name}>" if name else f"<{type(value).__name__}>"


def _is_plain(value: Any) -> bool:
    """Whether the text of a value is short and means the same everywhere."""
    if isinstance(value, (list, tuple)):
        return len(value) <= 16 and all(map(_is_plain, value))
    if isinstance(value, dict):
        return len(value) <= 16 and all(map(_is_plain, (*value, *value.values())))
    plain = (str, bytes, numbers.Number, slice, range, set, frozenset)
    return value is None or isinstance(value, plain)
