"""What tells one value from another: a digest that is equal in every process.

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
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
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
_STANDARD = str(Path(functools.__file__).parent)


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
    two things that a value does not hold: the installed version of packages, and what
    a function reads from outside the process (files, clocks, networks).
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
        self._known: dict[int, tuple[object, bytes]] = {}
        self._open: list[int] = []

    def of(self, value: Any) -> bytes:
        """Return the digest of a value."""
        if value is None or isinstance(value, (bool, int, str, bytes, complex)):
            if type(value).__module__ == "builtins":
                return _digest(type(value).__name__, [repr(value).encode()])
        if type(value) is float:
            return _digest("float", [value.hex().encode()])
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._open:  # a cycle, told by how far back it leads
            return _digest("cycle", [str(self._open[::-1].index(id(value))).encode()])
        self._open.append(id(value))
        kind, parts = self._parts(value)
        found = _digest(kind, parts)
        self._open.pop()
        self._known[id(value)] = value, found  # held, so that its id stays its own
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
        if isinstance(value, (dict, types.MappingProxyType)):
            return f"mapping {type(value).__qualname__}", self._pairs(value)
        if isinstance(value, Set):
            return "set", sorted(self._all(value))
        if isinstance(value, types.ModuleType):
            return "module", [value.__name__.encode()]
        if isinstance(value, types.FunctionType):
            return "function", self._function(value)
        if isinstance(value, types.MethodType):
            return "method", self._all((value.__func__, value.__self__))
        if isinstance(value, types.CodeType):
            return "code", self._code(value)
        if isinstance(value, type):
            return "class", self._class(value)
        inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
        if isinstance(inner, types.FunctionType):  # compiled or cached
            return "wrapped", self._all((type(value), inner))
        if dataclasses.is_dataclass(value):  # without what is cached in them
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return "dataclass", [self.of(type(value)), *self._pairs(fields)]
        if hasattr(value, "get_params") and hasattr(value, "__dict__"):
            # Callbacks watch a fit and do not change it; they may hold locks.
            state = {k: v for k, v in vars(value).items() if "callback" not in k}
            return "estimator", [self.of(type(value)), *self._pairs(state)]
        return "object", self._reduced(value)

    def _array(self, value: np.ndarray) -> list[bytes]:
        about = f"{value.dtype.str} {value.shape}".encode()
        if value.dtype.hasobject:
            return [about, self.of(value.tolist())]
        return [about, hashlib.blake2b(np.ascontiguousarray(value).tobytes()).digest()]

    def _function(self, value: types.FunctionType) -> list[bytes]:
        name = first_name(f"{value.__module__}.{value.__qualname__}").encode()
        if _installed(value.__module__) and not value.__closure__:
            return [name]
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
        if _installed(value.__module__):
            return [name]
        held = {}
        for key, item in vars(value).items():
            if isinstance(item, (staticmethod, classmethod)):
                item = item.__func__
            if isinstance(item, property):
                item = [item.fget, item.fset]
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
        if isinstance(found, str):
            return [f"{getattr(value, '__module__', None)}.{found}".encode()]
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


def _globals(code: types.CodeType) -> Iterator[str]:
    """Yield the global names that code reads, that of functions inside included."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


@functools.cache
def _installed(module: str | None) -> bool:
    """Whether a module belongs to an installed package or to Python itself."""
    top = str(module).split(".")[0]
    if top == "__main__" or module is None:
        return False
    if top == __name__.split(".")[0] or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return False
    return bool(_INSTALLED & set(Path(file).parts)) or file.startswith(_STANDARD)
