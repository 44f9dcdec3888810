"""Digests of values, equal in every process.

Seeded streams are keyed by it. Text would not do: ``repr`` elides long arrays, prints
addresses, and says nothing of a function's defaults or of an object's attributes. What
cannot be told apart is refused.
"""

from __future__ import annotations

import copyreg
import dataclasses
import dis
import functools
import hashlib
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from skfdp.addresses import first_name

_REFUSED = (
    "{name} holds a value of type {kind} that cannot be told from others, and an int "
    "random_state keys the noise by every parameter: pass random_state=None, or a "
    "value made of functions, numbers, text, arrays and plain objects."
)
# What installed code looks like on disk; it is told by its name, other code in full.
_INSTALLED = {"site-packages", "dist-packages", "lib-dynload"}
_STANDARD = str(Path(functools.__file__).parent) + os.sep
_READS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
# Ufuncs do not know their module.
_OF_UFUNCS = "numpy", "scipy.special"


class _Unknown(Exception):  # noqa: N818 -- becomes a ValueError
    """Holds the type of a value that has no identity."""


def identity(name: str, value: Any) -> bytes:
    """Return a digest of the value, or raise ValueError naming the parameter.

    Parameters
    ----------
    name : str
        What the value is called in an error.
    value : object
        Plain values and containers; arrays, frames and whatever else can be copied by
        its state; functions, with their code, defaults, attributes, closures and the
        globals that they name; partial objects, methods, and instances with the code of
        their class.

    Notes
    -----
    **Guarantees.** Equal digests mean equal values, up to collisions of BLAKE2b and to
    what a value does not show: the installed version of packages; what a function reads
    from outside the process (files, clocks, networks), or looks up by a name that it
    computes (``importlib``, ``globals()``); and what its own ``__getstate__`` or
    ``__reduce__`` leaves out. Equal numbers of different types (``1``, ``1.0``,
    ``np.int64(1)``) are equal values, except inside code and user-made objects, which
    may treat them differently. A module of the user's own is refused: what a function
    reads from it is not known.
    """
    try:
        return _Digests().of(value)
    except _Unknown as error:
        kind = str(error)
    except RecursionError:
        kind = type(value).__name__
    # Outside the handler: the original may quote what the value holds.
    raise ValueError(_REFUSED.format(name=name, kind=kind))


class _Digests:
    """Digests of one traversal; objects that were seen are not traversed again."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool], tuple[object, bytes]] = {}
        self._open: list[int] = []
        # Inside code and foreign objects 1 and 1.0 may do different things.
        self._strict = False

    def of(self, value: Any) -> bytes:
        """Return the digest of a value."""
        if not self._strict:
            value = _number(value)
        if value is None or type(value) in (bool, int, str, bytes, complex):
            return _digest(type(value).__name__, [repr(value).encode()])
        if type(value) is float:
            return _digest("float", [value.hex().encode()])
        strict = self._strict
        key = id(value), strict
        if key in self._known:
            return self._known[key][1]
        if id(value) in self._open:  # a cycle, told by how far back it leads
            return _digest("cycle", [str(self._open[::-1].index(id(value))).encode()])
        self._open.append(id(value))
        self._strict = strict or not _reads_numbers_alike(value)
        kind, parts = self._parts(value)
        self._strict = strict
        found = _digest(kind, parts)
        self._open.pop()
        self._known[key] = value, found  # held, so that its id stays its own
        return found

    def _all(self, values: Iterable) -> list[bytes]:
        return [self.of(value) for value in values]

    def _pairs(self, mapping: Mapping) -> list[bytes]:
        return sorted(self.of(key) + self.of(value) for key, value in mapping.items())

    def _parts(self, value: Any) -> tuple[str, list[bytes]]:
        """Return the kind of a value and the digests of what it is made of."""
        if isinstance(value, np.ndarray) and type(value) is np.ndarray:
            return "array", self._array(value)
        if type(value) in (list, tuple):
            return "sequence", self._all(value)
        if type(value) in (dict, types.MappingProxyType):
            return f"mapping {type(value).__qualname__}", self._pairs(value)
        if type(value) in (set, frozenset):
            return "set", sorted(self._all(value))
        if isinstance(value, types.ModuleType):
            return "module", [_installed_module(value.__name__)]
        name = _installed_name(value)
        if name is not None:
            return "installed", [name]
        if isinstance(value, types.FunctionType):
            return "function", self._function(value)
        if isinstance(value, types.MethodType):
            return "method", self._all((value.__func__, value.__self__))
        if isinstance(value, types.CodeType):
            return "code", self._code(value)
        if isinstance(value, type):
            return "class", self._class(value)
        if _compiled_or_cached(value):
            own = {k: v for k, v in vars(value).items() if k == "targetoptions"}
            if type(value).__module__ == "functools":
                own = {k: v for k, v in vars(value).items() if k != "__wrapped__"}
            inner = getattr(value, "py_func", None) or value.__wrapped__
            return "wrapped", self._all((type(value), inner, own))
        if dataclasses.is_dataclass(value):
            return "dataclass", [self.of(type(value)), *self._pairs(_state(value))]
        if hasattr(value, "get_params") and hasattr(value, "__dict__"):
            # Callbacks watch a fit and do not change it; they may hold locks.
            state = {k: v for k, v in vars(value).items() if "callback" not in k}
            return "estimator", [self.of(type(value)), *self._pairs(state)]
        return "object", self._reduced(value)

    def _array(self, value: np.ndarray) -> list[bytes]:
        kind = repr(value.dtype) if value.dtype.names else value.dtype.str
        about = f"{kind} {value.shape}".encode()
        if value.dtype.hasobject:
            return [about, self.of(value.tolist())]
        return [about, hashlib.blake2b(np.ascontiguousarray(value).tobytes()).digest()]

    def _function(self, value: types.FunctionType) -> list[bytes]:
        cells = [_content(cell) for cell in value.__closure__ or ()]
        known = {
            name: value.__globals__[name]
            for name in sorted(set(_globals(value.__code__)))
            if name in value.__globals__
        }
        parts = (value.__defaults__, value.__kwdefaults__, cells, vars(value), known)
        # Not its name: a copy of a function does the same.
        return self._all((value.__code__, *parts))

    def _code(self, code: types.CodeType) -> list[bytes]:
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        constants = [
            sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
            for constant in code.co_consts
        ]
        jumps = getattr(code, "co_exceptiontable", b"")
        flags = code.co_flags
        return self._all((code.co_code, jumps, flags, counts, names, constants))

    def _class(self, value: type) -> list[bytes]:
        name = first_name(f"{value.__module__}.{value.__qualname__}").encode()
        held = {}
        for key, item in vars(value).items():
            if isinstance(item, (staticmethod, classmethod)):
                item = item.__func__
            if isinstance(item, property):
                item = [item.fget, item.fset]
            if isinstance(item, functools.cached_property):  # it may hold a lock
                item = item.func
            system = key.startswith("__") and not inspect.isfunction(item)
            if not (system or key == "_abc_impl" or inspect.isdatadescriptor(item)):
                held[key] = item
        return [name, *self._all(value.__bases__), *self._pairs(held)]

    def _reduced(self, value: Any) -> list[bytes]:
        """Return the digests of what copies a value: see `object.__reduce__`."""
        try:
            reduce: Callable | None = copyreg.dispatch_table.get(type(value))
            found = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:
            found = None
        if isinstance(found, str):  # a name, which must lead back to the value
            for module in (getattr(value, "__module__", None), *_OF_UFUNCS):
                if _leads_to(value, module, found):
                    return [f"{module}.{found}".encode()]
            raise _Unknown(type(value).__name__)
        if not isinstance(found, tuple):
            raise _Unknown(type(value).__name__)
        make, arguments, *rest = found
        parts = [list(r) if isinstance(r, Iterator) else r for r in rest]
        return self._all((type(value), make, arguments, parts))


def _digest(kind: str, parts: Iterable[bytes]) -> bytes:
    found = hashlib.blake2b(digest_size=32)
    for part in (kind.encode(), *parts):
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a variable that is not bound yet
        return ("empty cell",)


def _number(value: Any) -> Any:
    """Return a number as its equals of other types are told; others as they are."""
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
        value = int(value)
    if isinstance(value, np.float64):
        value = float(value)
    if type(value) is float and value.is_integer() and (value or not np.signbit(value)):
        return int(value)
    return value


def _reads_numbers_alike(value: Any) -> bool:
    """Whether 1, 1.0 and np.int64(1) mean the same inside a value."""
    if type(value) in (list, tuple, dict, set, frozenset, types.MappingProxyType):
        return True
    known = dataclasses.is_dataclass(value) or hasattr(value, "get_params")
    return known and _installed_name(type(value)) is not None


def _state(value: Any) -> dict[str, Any]:
    """Return the attributes of a dataclass, without what is cached in them."""
    cached = {
        name
        for one in type(value).__mro__
        for name, item in vars(one).items()
        if isinstance(item, functools.cached_property)
    }
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    attributes = fields | getattr(value, "__dict__", {})
    return {name: v for name, v in attributes.items() if name not in cached}


def _compiled_or_cached(value: Any) -> bool:
    """Whether a value does what a function does: by numba, or by `functools.cache`."""
    kind = type(value)
    if kind.__module__ == "functools" and hasattr(value, "__wrapped__"):
        return kind is type(_installed)
    numba = str(kind.__module__).split(".")[0] == "numba"
    return numba and isinstance(getattr(value, "py_func", None), types.FunctionType)


def _globals(code: types.CodeType) -> Iterator[str]:
    """Yield the global names that code reads, that of functions inside included.

    Raises `_Unknown` where code imports what is not installed.
    """
    steps = [s for s in dis.get_instructions(code) if s.opname != "EXTENDED_ARG"]
    for position, step in enumerate(steps):
        if step.opname in _READS:
            yield step.argval
        if step.opname == "IMPORT_NAME":
            relative = steps[position - 2].argval != 0
            _installed_module("." * relative + step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def _installed_module(name: str) -> bytes:
    """Return the name of an installed module; of others nobody knows what is read."""
    if not _installed(name):
        raise _Unknown(f"module ({name})")
    return name.encode()


def _installed_name(value: Any) -> bytes | None:
    """Return the name under which an installed module holds this very object."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    # A name alone would not do: `functools.wraps` copies it to other functions.
    if _leads_to(value, module, name):
        return first_name(f"{module}.{name}").encode()
    return None


def _leads_to(value: Any, module: Any, name: Any) -> bool:
    """Whether a name in an installed module leads to this very object."""
    if not isinstance(module, str) or not isinstance(name, str):
        return False
    found = sys.modules.get(module)
    if found is None or not _installed(module):
        return False
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


@functools.cache
def _installed(module: str | None) -> bool:
    """Whether a module belongs to an installed package or to Python itself."""
    top = str(module).split(".")[0]
    if top == "__main__" or module is None:
        return False
    if top == __name__.split(".")[0]:
        return True
    if top in sys.modules:
        found = sys.modules.get(module) or sys.modules[top]
        file = getattr(found, "__file__", None)
    else:
        try:
            file = getattr(importlib.util.find_spec(top), "origin", None)
        except ValueError:  # the name of a relative import
            return False
    if file in (None, "built-in", "frozen"):
        return top in sys.stdlib_module_names
    return bool(_INSTALLED & set(Path(file).parts)) or file.startswith(_STANDARD)
