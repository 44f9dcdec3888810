"""Compile loops with numba, cached on disk until any kernel file changes; twins."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import config, njit
from numba.core import cgutils, types
from numba.core.caching import FunctionCache, NullCache
from numba.core.runtime import rtsys
from numba.core.typing import signature
from numba.extending import intrinsic, register_jitable

from skfdp import kernels
from skfdp.kernels import NotCompiledError

#: fastmath flags for sums of integers, which are exact in any order.
REORDER = {"reassoc", "contract", "nsz", "arcp"}
_FOLDER = Path(__file__).parent
#: Every source file of compiled code: the files of this folder and of its subfolders.
FILES = tuple(
    sorted(path.relative_to(_FOLDER).as_posix() for path in _FOLDER.rglob("*.py"))
)


_SOURCES = hashlib.blake2b(
    b"".join((_FOLDER / name).read_bytes() for name in FILES), digest_size=8
).hexdigest()


def _checked(found):
    """Return compiled code from the disk, or None if it may be compiled."""
    if found is None and not kernels.compiles:
        raise NotCompiledError
    return found


class _NoCache(NullCache):
    """numba's cache of a function where no folder is writable."""

    def load_overload(self, sig, target_context):
        """Return None: the function must be compiled."""
        return _checked(None)


class _Cache(FunctionCache):
    """numba's cache of a function. Errors in writing are ignored."""

    def load_overload(self, sig, target_context):
        """Return the compiled code from the disk, None if it must be compiled.

        numba's method also registers the functions that numba can compile. This takes
        a fifth of a second in each process, and compilation does it again.
        """
        rtsys.initialize(target_context)  # for arrays that compiled code allocates
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
        return _checked(found)

    def save_overload(self, sig, data):
        """Write compiled code to the disk; do nothing if the disk is full."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def kernel(**options) -> Callable[[Callable], Callable]:
    """Return a decorator: `numba.njit` that releases the GIL and is cached on disk.

    numba ignores changes of other files whose functions are called, so a loop might
    call an outdated version of the clipping. Here the name in the cache changes if any
    kernel file changes. If the cache cannot be written, each process compiles the code.
    ``NUMBA_CACHE_DIR`` may name another folder.
    """

    def compiled(function: Callable) -> Callable:
        function.__qualname__ += f"_{_SOURCES}"
        # Without a wrapper for C callbacks, which no kernel needs: it takes a tenth of
        # the time of compilation.
        found = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
        found._cache = _NoCache()
        with contextlib.suppress(RuntimeError):  # no folder for the cache is writable
            found._cache = _Cache(function)
        return found

    return compiled


def part(function: Callable) -> Callable:
    """Return a function that numba inlines into the kernels that call it.

    The function is compiled as a part of each caller, with the options of the caller.
    """
    return kernel(error_model="numpy", inline="always")(function)


def shared(function: Callable) -> Callable:
    """Return a function that kernels and Python call, Python with arrays for numbers.

    Numbers and arrays are rounded alike, so the results have equal bits.
    """
    return register_jitable(error_model="numpy")(function)


def twin_of(compiled: Callable) -> Callable[[Callable], Callable]:
    """Return a decorator of a NumPy function with the results of a kernel, to the bit.

    The decorated function calls the kernel, but the NumPy function if the kernel is not
    in the cache and the table is small (`kernels.SMALL`), or if ``NUMBA_DISABLE_JIT``
    turns off the compiler. A debugger can step through the NumPy function.
    """

    def decorate(plain: Callable) -> Callable:
        missing = False

        @functools.wraps(plain)
        def call(*given):
            nonlocal missing
            if not config.DISABLE_JIT and (kernels.compiles or not missing):
                try:
                    return compiled(*given)
                except NotCompiledError:
                    missing = True
            with np.errstate(all="ignore"):  # a warning would reveal a private value
                return plain(*given)

        call.compiled = compiled
        return call

    return decorate


# Calls by address: a kernel that other kernels call is compiled only once.
#
# numba compiles a called function again into every caller, at every level of calls. A
# function called by address is compiled, or loaded from the disk, when its address is
# requested. A fit requests only those that it needs. An address is valid within one
# process: never store it in an object that could be pickled.


#: numba types of arguments. The two arrays of integers may be read-only.
INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
SHORTS = types.Array(types.int16, 2, "C", readonly=True)
FLOATS = types.Array(types.float64, 2, "C")


def address(function: Callable, arguments: tuple) -> int:
    """Return the address of the machine code of a kernel.

    The kernel returns nothing; `arguments` are the numba types of its arguments.
    """
    if config.DISABLE_JIT:
        raise NotCompiledError
    found = function.get_compile_result(signature(types.void, *arguments))
    return found.library.get_pointer_to_function(found.fndesc.mangled_name)


def caller(*alternatives: tuple) -> Callable:
    """Return ``call(address, given)``, with which a kernel calls another function.

    `address` is the address of the function, and `given` is the tuple of its arguments.
    Each alternative is a tuple of argument types. numba converts the arguments to the
    first alternative that fits, and refuses to compile if none fits. An argument whose
    type is None is not converted. The function at the address must take arguments of
    these types.
    """

    def kinds_of(given, each):
        pairs = zip(given, each, strict=True)
        return types.Tuple([one if kind is None else kind for one, kind in pairs])

    @intrinsic
    def call(typing, address, given):
        asked = [kinds_of(given, e) for e in alternatives if len(e) == len(given)]
        fitting = [one for one in asked if typing.can_convert(given, one) is not None]
        if not fitting:
            return None

        def build(context, builder, of_call, values):
            kinds = of_call.args[1].types
            function = context.call_conv.get_function_type(types.void, kinds)
            target = builder.inttoptr(values[0], function.as_pointer())
            parts = cgutils.unpack_tuple(builder, values[1], len(kinds))
            status, _ = context.call_conv.call_function(
                builder, target, types.void, kinds, parts
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return context.get_dummy_value()

        return types.void(types.int64, fitting[0]), build

    return call
