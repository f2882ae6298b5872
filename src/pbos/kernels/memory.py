"""Asking for memory before it is needed, where a kernel knows what it will read but the processor cannot guess it."""

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

LINE = 64  # bytes that memory hands over at a time, on nearly all processors


@intrinsic
def compiled_prefetch(typing_context, array, at):
    """Have the memory of array[at] brought near in the background; for arrays of one dimension.

    It changes no result and cannot fail, even where `at` lies outside of the array.
    """

    def generate(context, builder, signature, arguments):
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(held.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", (place.type,), ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        )
        to_read, keep_near, data = number(0), number(3), number(1)
        builder.call(function, [place, to_read, keep_near, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def plain_prefetch(array, at):
    """Do nothing, as plain Python would gain nothing."""


prefetch = plain_prefetch if config.DISABLE_JIT else compiled_prefetch
