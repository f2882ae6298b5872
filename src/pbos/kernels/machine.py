"""Machine instructions that Numba does not have. All of them also run as plain Python."""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from pbos.kernels import part

LINE = 64  # bytes per cache line, on nearly all processors; a wrong number only costs a little time
LINE_FLOATS = LINE // 4  # float32 numbers per cache line


def instruction(plain: Any) -> Any:
    """Return a decorator for the typed machine code of a plain Python function, which is used where Numba is off."""
    return lambda code: plain if config.DISABLE_JIT else intrinsic(code)


@instruction(lambda bits: int(bits).bit_count())
def count_bits(typing_context, bits):
    """Return how many bits of a uint64 are set."""

    def code(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), code


@instruction(lambda value: np.float32(value.view(np.float16) if isinstance(value, np.uint16) else value))
def as_float32(typing_context, value):
    """Return a number as float32; a uint16 has the bits of a float16, which Numba does not support on the CPU."""

    def code(context, builder, signature, arguments):
        if value == types.uint16:
            return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())
        return context.cast(builder, arguments[0], value, types.float32)

    return types.float32(value), code


@instruction(lambda array, at: None)
def prefetch(typing_context, array, at):
    """Prefetch element `at` (flat index) of a C-contiguous array into the cache, also outside of the array.

    Without it, composing vectors that do not fit the cache takes about half as long again, ridge regression a fifth.
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


@part
def prefetch_row(array, row, size, line):
    """Prefetch a row of `size` numbers, `line` of them per cache line; the row may start inside a line."""
    start = np.int64(row) * size
    for at in range(start, start + size, line):
        prefetch(array, at)
    prefetch(array, start + size - 1)


def line_aligned(n_rows: int, dims: int) -> npt.NDArray[np.float32]:
    """Return rows of zeros with at least `dims` columns, each starting at a cache line."""
    width = LINE_FLOATS * -(-dims // LINE_FLOATS)
    zeros = np.zeros(n_rows * width + LINE_FLOATS, np.float32)
    skip = -zeros.ctypes.data % LINE // zeros.itemsize
    return zeros[skip : skip + n_rows * width].reshape(n_rows, width)
