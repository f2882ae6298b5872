"""The hot loops, compiled by Numba: arrays in, arrays out; no strings, no Python objects, no I/O.

Each kernel also runs as plain Python with NUMBA_DISABLE_JIT=1. All of them release the GIL, so threads run in parallel.
"""

import numpy as np
from numba import njit

kernel = njit(nogil=True, cache=True)


@kernel
def grown(array, size):
    """Return a larger copy of an array, padded with zeros."""
    larger = np.zeros(size, array.dtype)
    larger[: array.size] = array
    return larger
