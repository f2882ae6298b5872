"""The hot loops, compiled by Numba: arrays in, arrays out; no strings, no Python objects, no I/O.

Each kernel also runs as plain Python with NUMBA_DISABLE_JIT=1. All release the GIL, so threads run them side by side.
"""

from numba import njit

kernel = njit(nogil=True, cache=True)
