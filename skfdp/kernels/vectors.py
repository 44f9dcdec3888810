"""Operations on vectors of integers for compiled loops, faster than plain numba loops.

A `Shorts` holds 16 int16, and an `Ints` holds 8 int32. In local variables they stay in
registers. `multiply_add` is one instruction on x86 (``vpmaddwd``), which does four
times as many multiply-adds as a float64 instruction. The source has only plain vector
operations, so that it compiles on every machine.

Functions take a contiguous array and the flat index of the first element that they read
or write. The index is not checked. The tests compare every operation with NumPy.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model

#: Elements of a `Shorts`.
WIDTH = 16
# Positions of the elements of a `Shorts`: first those in `low_pairs`, in order, then
# those in `high_pairs`. Each half of a register is interleaved separately, because
# moves between the halves cost more.
_PAIRS = (0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15)
#: Positions of the same elements, in the order in which `add_unsigned_to` adds them.
PAIR_ORDER = (*_PAIRS[:8:2], *_PAIRS[1:8:2], *_PAIRS[8::2], *_PAIRS[9::2])

_INT32 = ir.IntType(32)
_SHORTS = ir.VectorType(ir.IntType(16), 16)
_INTS = ir.VectorType(_INT32, 8)


class _Vector(types.Type):
    """The numba type of an LLVM vector."""

    def __init__(self, name: str, vector: ir.VectorType):
        super().__init__(name=name)
        self.vector = vector


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    """The data model of a vector: the LLVM vector itself."""

    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, fe_type.vector)


Shorts, Ints = _Vector("Shorts", _SHORTS), _Vector("Ints", _INTS)


def _pointer(context, builder, signature, arguments, vector):
    """Return a pointer to the element of an array, given the array and a flat index."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = builder.gep(array.data, [arguments[1]])
    return builder.bitcast(place, vector.as_pointer())


def _load(context, builder, signature, arguments, vector):
    loaded = builder.load(_pointer(context, builder, signature, arguments, vector))
    loaded.align = signature.args[0].dtype.bitwidth // 8
    return loaded


def _shuffled(builder, first, second, order):
    """Return elements of two concatenated vectors, in the given order."""
    mask = ir.Constant(ir.VectorType(_INT32, len(order)), list(order))
    return builder.shuffle_vector(first, second, mask)


@intrinsic
def load_integers(typing, array, place):
    """Return 16 elements of an int16 array."""

    def build(context, builder, signature, arguments):
        return _load(context, builder, signature, arguments, _SHORTS)

    return Shorts(array, types.int64), build


@intrinsic
def load_pair(typing, array, place):
    """Return a vector that repeats 2 elements of an int16 array 8 times."""

    def build(context, builder, signature, arguments):
        vector = ir.VectorType(ir.IntType(16), 2)
        pair = _load(context, builder, signature, arguments, vector)
        return _shuffled(builder, pair, pair, [0, 1] * 8)

    return Shorts(array, types.int64), build


def _asking(cache):
    """Return an intrinsic that prefetches an element, without effect on any result.

    `cache` is 3 for the first-level cache and 2 for the second-level cache.
    """

    @intrinsic
    def ask(typing, array, place):
        def build(context, builder, signature, arguments):
            byte, name = ir.IntType(8), "llvm.prefetch.p0i8"
            kinds = [byte.as_pointer(), _INT32, _INT32, _INT32]
            function = builder.module.globals.get(name) or ir.Function(
                builder.module, ir.FunctionType(ir.VoidType(), kinds), name
            )
            place = _pointer(context, builder, signature, arguments, byte)
            # The flags: the element will be read, the level of the cache, it is data.
            flags = [ir.Constant(_INT32, flag) for flag in (0, cache, 1)]
            builder.call(function, [place, *flags])
            return context.get_dummy_value()

        return types.void(array, types.int64), build

    return ask


#: `prefetch` is for elements that are needed soon, and uses the first-level cache.
#: `prefetch_early` is for elements that are needed later. It uses the second-level
#: cache, which allows more pending requests.
prefetch, prefetch_early = _asking(3), _asking(2)


def _filled(number):
    """Return an intrinsic that returns a vector of 8 equal numbers."""

    @intrinsic
    def fill(typing):
        return Ints(), lambda *given: ir.Constant(_INTS, [number] * 8)

    return fill


#: `zeros` returns zeros, and `half` returns 2**31 (as uint32). Sums that are passed to
#: `add_unsigned_to` must start at `half`.
zeros, half = _filled(0), _filled(-(2**31))


@intrinsic
def multiply_add(typing, total, first, second):
    """Return total[i] + first[2i] second[2i] + first[2i + 1] second[2i + 1].

    The sums are modulo 2**32; a product of two int16 fits into int32.
    """

    def build(context, builder, signature, arguments):
        wide = ir.VectorType(_INT32, 16)
        product = builder.mul(*(builder.sext(x, wide) for x in arguments[1:]))
        even, odd = (
            _shuffled(builder, product, product, range(start, 16, 2))
            for start in (0, 1)
        )
        return builder.add(arguments[0], builder.add(even, odd))

    return Ints(Ints, Shorts, Shorts), build


def _pairing(chosen):
    """Return an intrinsic that interleaves elements of two `Shorts`.

    For each chosen j, in order, it takes first[j] and then second[j].
    """

    @intrinsic
    def pair(typing, first, second):
        def build(context, builder, signature, arguments):
            order = [x for j in chosen for x in (j, WIDTH + j)]
            return _shuffled(builder, *arguments, order)

        return Shorts(Shorts, Shorts), build

    return pair


low_pairs, high_pairs = _pairing(_PAIRS[:8]), _pairing(_PAIRS[8:])


def _read_as(given, kind, vector, dtype):
    """Return a function that reads the 64 bits of a number as another type.

    Python calls it with arrays.
    """

    @intrinsic
    def read(typing, number):
        def build(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], vector)

        return kind(given), build

    def view(numbers):
        return numbers.view(dtype)

    overload(view)(lambda numbers: lambda numbers: read(numbers))
    return view


#: `float_of` reads the bits of a uint64 as a float64, `bits_of` those of a float64.
float_of = _read_as(types.uint64, types.float64, ir.DoubleType(), np.float64)
bits_of = _read_as(types.float64, types.uint64, ir.IntType(64), np.uint64)


@intrinsic
def sum_of(typing, vector):
    """Return the sum of the elements, modulo 2**32."""

    def build(context, builder, signature, arguments):
        rest = arguments[0]
        for size in (4, 2, 1):
            low = _shuffled(builder, rest, rest, range(size))
            high = _shuffled(builder, rest, rest, range(size, 2 * size))
            rest = builder.add(low, high)
        return builder.extract_element(rest, ir.Constant(_INT32, 0))

    return types.int32(Ints), build


@intrinsic
def store_sums(typing, array, place, factor, a, b, c, d):
    """Write four float64: the sum of each vector, modulo 2**32, times a factor."""

    def halved(builder, first, second):
        # Adding neighbours within each half of a register is one instruction.
        order = (0, 2, 8, 10, 4, 6, 12, 14)
        even = _shuffled(builder, first, second, order)
        odd = _shuffled(builder, first, second, [i + 1 for i in order])
        return builder.add(even, odd)

    def build(context, builder, signature, arguments):
        pairs = (halved(builder, *arguments[i : i + 2]) for i in (3, 5))
        rest = halved(builder, *pairs)
        halves = (_shuffled(builder, rest, rest, range(i, i + 4)) for i in (0, 4))
        doubles = ir.VectorType(ir.DoubleType(), 4)
        sums = builder.sitofp(builder.add(*halves), doubles)
        one = builder.insert_element(
            ir.Constant(doubles, ir.Undefined), arguments[2], ir.Constant(_INT32, 0)
        )
        product = builder.fmul(sums, _shuffled(builder, one, one, [0] * 4))
        target = _pointer(context, builder, signature, arguments, doubles)
        builder.store(product, target).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, types.float64, a, b, c, d), build


@intrinsic
def add_unsigned_to(typing, array, place, vector):
    """Add the 8 elements of a vector, read as uint32, to 8 entries of an int64 array.

    The elements at even positions are added to the first 4 entries, the others to the
    last 4. A sum that starts at 2**31 (`half`) does not wrap around as long as it
    changes by less than 2**31. Elements are read as unsigned,
    because signed elements would cost several instructions.
    """

    def build(context, builder, signature, arguments):
        longs = ir.VectorType(ir.IntType(64), 4)
        both = builder.bitcast(arguments[2], longs)
        low = ir.Constant(longs, [2**32 - 1] * 4)
        upper = builder.lshr(both, ir.Constant(longs, [32] * 4))
        place = _pointer(context, builder, signature, arguments, longs)
        for number, part in enumerate((builder.and_(both, low), upper)):
            here = builder.gep(place, [ir.Constant(_INT32, number)])
            total = builder.load(here)
            total.align = 8
            builder.store(builder.add(total, part), here).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, Ints), build
