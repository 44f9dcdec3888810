"""Calls by address: a kernel that others call is compiled once, by itself.

numba compiles what a kernel calls into the kernel, once more at every level of calls: a
loop with all losses and tiles in it took as long as all other kernels together. What is
called by its address is compiled, or taken from the disk, when somebody asks for the
address: of the losses that of the fit, of the tiles those that its outputs need.

An address is good within one process: ask for it where it is used, and keep it in no
object that could be pickled.
"""

from __future__ import annotations

from collections.abc import Callable

from numba.core import cgutils, types
from numba.core.typing import signature
from numba.extending import intrinsic

#: Types of arguments. Arrays that are read take those that may not be written as well.
INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
SHORTS = types.Array(types.int16, 2, "C", readonly=True)
FLOATS = types.Array(types.float64, 2, "C")


def address(function: Callable, arguments: tuple) -> int:
    """Return where a kernel's machine code for such arguments is.

    Parameters
    ----------
    function : compiled function that returns nothing
    arguments : tuple of numba types
    """
    found = function.get_compile_result(signature(types.void, *arguments))
    return found.library.get_pointer_to_function(found.fndesc.mangled_name)


def caller(*alternatives: tuple) -> Callable:
    """Return ``call(address, given)`` for kernels.

    The address must be that of a function of such arguments, of the first alternative
    that numba can convert the given ones to; it refuses to compile if there is none.

    Parameters
    ----------
    *alternatives : tuples of numba types
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
