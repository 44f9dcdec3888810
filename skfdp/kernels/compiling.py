"""The compilation of loops by numba, with a cache on disk that knows all of them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

from numba import njit
from numba.core import cgutils, types
from numba.core.caching import FunctionCache
from numba.core.typing import signature
from numba.extending import intrinsic

_FOLDER = Path(__file__).parent
#: Every file that compiled code comes from: those of this folder and of those in it.
FILES = tuple(
    sorted(path.relative_to(_FOLDER).as_posix() for path in _FOLDER.rglob("*.py"))
)


_SOURCES = hashlib.blake2b(
    b"".join((_FOLDER / name).read_bytes() for name in FILES), digest_size=8
).hexdigest()


class _Cache(FunctionCache):
    """numba's cache of a function; without room for it the process keeps the code."""

    def save_overload(self, sig, data):
        """Write compiled code, if that can be done."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def kernel(**options) -> Callable[[Callable], Callable]:
    """Return a decorator: `numba.njit` that releases the GIL and is cached on disk.

    numba takes a function from the disk as long as its own file is unchanged, even if
    it calls functions of other files that have changed: after an upgrade a loop might
    go on with the clip of yesterday. Here the name in the cache changes with any file.

    Where no cache can be written (a package that is read-only and a user without a home
    folder, a disk that is full), numba would refuse. Here the code is compiled in each
    process and works. ``NUMBA_CACHE_DIR`` may name another folder.
    """

    def compiled(function: Callable) -> Callable:
        function.__qualname__ += f"_{_SOURCES}"
        found = njit(nogil=True, **options)(function)
        with contextlib.suppress(RuntimeError):  # there is no folder for it
            found._cache = _Cache(function)
        return found

    return compiled


def part(function: Callable) -> Callable:
    """Return a function that becomes part of the kernels that call it.

    numba writes it out in each of them before anything is compiled, so that it takes no
    compilation of its own. There their options hold.
    """
    return kernel(error_model="numpy", inline="always")(function)


# Calls by address: a kernel that others call is compiled once, by itself.
#
# numba compiles what a kernel calls into the kernel, once more at every level of calls:
# a loop with all losses and tiles in it took as long as all other kernels together.
# What is called by its address is compiled, or taken from the disk, when somebody asks
# for the address: of the losses that of the fit, of the tiles those that its outputs
# need.
#
# An address is good within one process: ask for it where it is used, and keep it in no
# object that could be pickled.


#: Types of arguments. Arrays that are read take those that may not be written as well.
INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
SHORTS = types.Array(types.int16, 2, "C", readonly=True)
FLOATS = types.Array(types.float64, 2, "C")


def address(function: Callable, arguments: tuple) -> int:
    """Return where the machine code of a kernel that returns nothing is."""
    found = function.get_compile_result(signature(types.void, *arguments))
    return found.library.get_pointer_to_function(found.fndesc.mangled_name)


def caller(*alternatives: tuple) -> Callable:
    """Return ``call(address, given)`` for kernels, given tuples of numba types.

    The address must be that of a function of such arguments, of the first alternative
    that numba can convert the given ones to; it refuses to compile if there is none.
    """

    @intrinsic
    def call(typing, address, given):
        fitting = [
            types.Tuple(each)
            for each in alternatives
            if len(each) == len(given)
            and typing.can_convert(given, types.Tuple(each)) is not None
        ]
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
