"""Machine instructions that Numba does not expose; each also runs as plain Python."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

LINE = 64  # bytes per cache line, on nearly all processors; a wrong number only costs a little time
LINE_FLOATS = LINE // 4  # float32 numbers per cache line


def instruction(plain: Any) -> Any:
    """Return a decorator for the typed machine code of a plain Python function, which is used where Numba is off."""

    def decorate(code: Any) -> Any:
        return plain if config.DISABLE_JIT else intrinsic(code)

    return decorate


def plain_float32_of_bits(bits):
    return np.uint32(bits).view(np.float32)


@instruction(plain_float32_of_bits)
def float32_of_bits(typing_context, bits):
    """Return the float32 whose 32 bits are given as an unsigned integer."""

    def code(context, builder, signature, arguments):
        number = context.cast(builder, arguments[0], signature.args[0], types.uint32)
        return builder.bitcast(number, ir.FloatType())

    return types.float32(bits), code


def plain_bits_of_float32(value):
    return np.uint64(np.float32(value).view(np.uint32))


@instruction(plain_bits_of_float32)
def bits_of_float32(typing_context, value):
    """Return the 32 bits of a float32, as a uint64."""

    def code(context, builder, signature, arguments):
        number = context.cast(builder, arguments[0], signature.args[0], types.float32)
        return builder.zext(builder.bitcast(number, ir.IntType(32)), ir.IntType(64))

    return types.uint64(value), code


def plain_count_bits(bits):
    return int(bits).bit_count()


@instruction(plain_count_bits)
def count_bits(typing_context, bits):
    """Return how many bits of a uint64 are set."""

    def code(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), code


def plain_as_float32(value):
    return np.float32(value.view(np.float16) if isinstance(value, np.uint16) else value)


@instruction(plain_as_float32)
def as_float32(typing_context, value):
    """Return a number as float32; a uint16 has the bits of a float16, which Numba does not support on the CPU."""

    def code(context, builder, signature, arguments):
        if value == types.uint16:
            return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())
        return context.cast(builder, arguments[0], value, types.float32)

    return types.float32(value), code


def plain_prefetch(array, at):
    pass


@instruction(plain_prefetch)
def prefetch(typing_context, array, at):
    """Prefetch element `at` (flat index) of a C-contiguous array into the cache.

    It never changes a result and cannot fail, even if `at` is outside of the array.
    """

    def code(context, builder, signature, arguments):
        number = ir.IntType(32)
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        index = context.cast(builder, arguments[1], signature.args[1], types.int64)
        place = builder.bitcast(builder.gep(held.data, [index]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, number(0), number(3), number(1)])  # for reading, into all cache levels, as data
        return context.get_dummy_value()

    return types.void(array, at), code
