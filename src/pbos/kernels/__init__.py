"""The hot loops, compiled by Numba: arrays in, arrays out; no strings, no Python objects, no I/O.

Each kernel also runs as plain Python with NUMBA_DISABLE_JIT=1. All of them release the GIL, so threads run in parallel.

Compiling takes seconds, once per machine, so kernels are written to compile fast: loops instead of NumPy's functions
and of assignments to slices (which compile their error messages, too), few types of arrays, and no literal arguments
(each one is another signature).
"""

import numpy as np
from numba import njit

from pbos.errors import warn

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

part = njit(**OPTIONS, no_cpython_wrapper=True)  # a function that only kernels call
_warned = False


def kernel(function, **options):
    """Compile a function that Python calls; what was compiled is kept in Numba's cache, if that can be written."""
    global _warned
    try:
        return njit(**OPTIONS, **options, cache=True)(function)
    except RuntimeError:  # Numba's "no locator available"
        if not _warned:
            _warned = True
            warn(
                "compiled code cannot be kept, as neither pbos's folder nor the home folder can be written, so every "
                "process compiles for some seconds; set NUMBA_CACHE_DIR to a folder that can be written"
            )
        return njit(**OPTIONS, **options)(function)


@part
def grown(array, size):
    """Return a larger copy of an array; the rest is not filled."""
    larger = np.empty(size, array.dtype)
    for at in range(array.size):
        larger[at] = array[at]
    return larger
