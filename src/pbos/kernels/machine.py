"""Machine instructions that Numba does not expose; each also runs as plain Python."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

LINE = 64  # bytes per cache line, on nearly all processors; a wrong number only costs a little time
LINE_FLOATS = LINE // 4  # float32 numbers per cache line


def float32_of_bits(bits):
    """Return the float32 whose 32 bits are given as an unsigned integer."""
    return np.uint32(bits).view(np.float32)


def bits_of_float32(value):
    """Return the 32 bits of a float32, as a uint64."""
    return np.uint64(np.float32(value).view(np.uint32))


def count_bits(bits):
    """Return how many bits of a uint64 are set."""
    return int(bits).bit_count()


def as_float32(value):
    """Return a number as float32; a uint16 has the bits of a float16, which Numba does not support on the CPU."""
    return np.float32(value.view(np.float16) if isinstance(value, np.uint16) else value)


def prefetch(array, at):
    """Prefetch element `at` (flat index) of a C-contiguous array into the cache.

    It never changes a result and cannot fail, even if `at` is outside of the array.
    """


@intrinsic
def _float32_of_bits(typing_context, bits):
    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), code


@intrinsic
def _bits_of_float32(typing_context, value):
    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), code


@intrinsic
def _count_bits(typing_context, bits):
    def code(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), code


@intrinsic
def _float32_of_half(typing_context, bits):
    def code(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), code


@intrinsic
def _prefetch(typing_context, array, at):
    def code(context, builder, signature, arguments):
        number = ir.IntType(32)
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(held.data, [arguments[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, number(0), number(3), number(1)])  # for reading, into all cache levels, as data
        return context.get_dummy_value()

    return types.void(array, types.int64), code


@overload(float32_of_bits)
def _(bits):
    return lambda bits: _float32_of_bits(np.uint32(bits))


@overload(bits_of_float32)
def _(value):
    return lambda value: np.uint64(_bits_of_float32(np.float32(value)))


@overload(count_bits)
def _(bits):
    return lambda bits: _count_bits(bits)


@overload(as_float32)
def _(value):
    if value == types.uint16:
        return lambda value: _float32_of_half(value)
    return lambda value: np.float32(value)


@overload(prefetch)
def _(array, at):
    return lambda array, at: _prefetch(array, np.int64(at))
