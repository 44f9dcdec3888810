"""Differences of two objects, down to the last bit of their arrays."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.store import Receipt

#: Compared as they are: a difference inside of them has no place of its own.
_PLAIN = (int, str, bytes, complex, type(None), type(...), range, slice)
_BY_NAME = (type, types.ModuleType, types.BuiltinFunctionType)


class Comparison:
    """Comparison of what two fits left, as places in it that differ.

    Objects are compared by type and by what they would be pickled as. A place is a path
    of attributes and positions, such as ``steps[0].mean_``; a key or a value is never
    part of it, and neither is a name that only one of the two has. What has no state
    that Python can see (a lock, say) is compared by type alone. Ledgers
    and receipts are left out: charges are compared for themselves, and receipts are
    random.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self._kept: list[Any] = []  # states are made on the way: an id must not return

    def places(self, one: Any, other: Any, place: str = "") -> Iterator[str]:
        """Yield the places where the objects differ."""
        if one is other or isinstance(one, PrivacyLedger | Receipt):
            return
        if type(one) is not type(other):
            yield place
            return
        if (id(one), id(other)) in self._seen:
            return
        self._seen.add((id(one), id(other)))
        self._kept += [one, other]
        if isinstance(one, (float, np.generic)):
            if not same_bits(one, other):
                yield place
        elif isinstance(one, (*_PLAIN, *_BY_NAME)):
            if one != other:
                yield place
        elif isinstance(one, np.ndarray):
            yield from self._arrays(one, other, place)
        elif isinstance(one, (list, tuple)):
            yield from self._sequences(one, other, place)
        elif isinstance(one, dict):
            yield from self._mappings(one, other, place)
        elif isinstance(one, (set, frozenset)):
            if one != other:
                yield place
        else:
            yield from self._objects(one, other, place)

    def _arrays(self, one: np.ndarray, other: np.ndarray, place: str) -> Iterator[str]:
        if one.dtype != other.dtype or one.shape != other.shape:
            yield place
        elif one.dtype.hasobject:
            yield from self._sequences(
                one.ravel().tolist(), other.ravel().tolist(), place
            )
        elif one.tobytes() != other.tobytes():
            yield place

    def _sequences(self, one: Any, other: Any, place: str) -> Iterator[str]:
        if len(one) != len(other):
            yield place
            return
        for number, (here, there) in enumerate(zip(one, other, strict=True)):
            yield from self.places(here, there, f"{place}[{number}]")

    def _mappings(self, one: dict, other: dict, place: str) -> Iterator[str]:
        """Compare mappings, whose order is something that one can see."""
        if next(self.places(list(one), list(other)), None) is not None:
            yield place
            return
        for number, (here, there) in enumerate(
            zip(one.values(), other.values(), strict=True)
        ):
            yield from self.places(here, there, f"{place}[{number}]")

    def _objects(self, one: Any, other: Any, place: str) -> Iterator[str]:
        if isinstance(one, types.FunctionType):
            states = [_of_function(one), _of_function(other)]
        elif isinstance(one, types.MethodType):
            states = [(f.__func__, f.__self__) for f in (one, other)]
        elif isinstance(one, functools.partial):
            states = [(f.func, f.args, f.keywords) for f in (one, other)]
        else:
            states = [_state(one), _state(other)]
        here, there = states
        attributes = isinstance(here, dict) and isinstance(there, dict)
        if not attributes:
            yield from self.places(here, there, place)
            return
        if list(here) != list(there):
            yield f"{place}: the names of its attributes"
            return
        for name, value in here.items():
            inner = f"{place}.{name}" if place else str(name)
            yield from self.places(value, there[name], inner)


def differ(one: Any, other: Any) -> bool:
    """Whether two objects differ anywhere."""
    return next(Comparison().places(one, other), None) is not None


def same_bits(one: Any, other: Any) -> bool:
    """Whether two scalars of one type are the same number, NaN being NaN."""
    if isinstance(one, np.generic):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one.hex() == other.hex()


def _of_function(function: types.FunctionType) -> tuple:
    """Return what a function is, with what it holds."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return function.__code__, function.__defaults__, function.__kwdefaults__, cells


def _state(value: Any) -> Any:
    """Return the state of an object: its attributes, or what pickle would keep."""
    reduced: Any = None
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # it cannot be pickled
        return dict(getattr(value, "__dict__", {}))
    if isinstance(reduced, str):
        return reduced
    function, arguments, *rest = reduced
    rest = [list(part) if hasattr(part, "__next__") else part for part in rest]
    state = rest[0] if rest else None
    plain = getattr(function, "__name__", "") in ("__newobj__", "_reconstructor")
    if plain and isinstance(state, dict) and not any(rest[1:]) and len(arguments) == 1:
        return state
    return function, arguments, rest
