"""Words = A S: sparse weights (CSR) times subword vectors, for each way the vectors are stored."""

import numpy as np

from pbos.kernels import kernel, part
from pbos.kernels.machine import LINE, as_float32, prefetch

AHEAD = 16  # entries whose vectors are prefetched


@part
def prefetch_row(array, row, size, line):
    """Prefetch a row of `size` numbers, `line` of them per cache line; the row may start inside a line."""
    start = np.int64(row) * size
    for at in range(start, start + size, line):
        prefetch(array, at)
    prefetch(array, start + size - 1)


@part
def compose_rows(indptr, indices, data, vectors, out, first, last):
    """Write A S into rows first to last (exclusive) of out; row w of A is `indptr[w - first]:indptr[w - first + 1]`.

    Four entries are added at a time, to save passes over the sum, with the next vectors being prefetched. `vectors` are
    float32, int8, or the bits of float16 as uint16.
    """
    dims, line = out.shape[1], LINE // vectors.itemsize
    size = indptr[last - first]
    for word in range(first, last):
        total = out[word]
        for dim in range(dims):
            total[dim] = 0.0
        k, end = indptr[word - first], indptr[word - first + 1]
        soon = k + AHEAD if word > first else k
        while k + 3 < end:
            while soon < min(k + AHEAD + 4, size):
                prefetch_row(vectors, indices[soon], dims, line)
                soon += 1
            a, b, c, d = data[k], data[k + 1], data[k + 2], data[k + 3]
            # No views of rows: all threads would update the reference count of their owner.
            first_row, second, third, fourth = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
            for dim in range(dims):
                total[dim] += (
                    a * as_float32(vectors[first_row, dim])
                    + b * as_float32(vectors[second, dim])
                    + c * as_float32(vectors[third, dim])
                    + d * as_float32(vectors[fourth, dim])
                )
            k += 4
        while k < end:
            a, first_row = data[k], indices[k]
            for dim in range(dims):
                total[dim] += a * as_float32(vectors[first_row, dim])
            k += 1


@kernel
def compose(indptr, indices, data, vectors, out):
    """Write A S into out; see `compose_rows`."""
    compose_rows(indptr, indices, data, vectors, out, np.int64(0), out.shape[0])
