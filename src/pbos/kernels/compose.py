"""Words = A S: sparse weights (CSR) times subword vectors, for each way the vectors are stored."""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.lattice import end_of_run, weights_of_run
from pbos.kernels.machine import LINE, as_float32, prefetch

AHEAD = 16  # entries whose vectors are on their way from memory


@kernel
def prefetch_row(array, row, size, line):
    """Ask for all of a row of so many numbers, some to a line of memory; it need not begin where a line does."""
    start = np.int64(row) * size
    for at in range(start, start + size, line):
        prefetch(array, at)
    prefetch(array, start + size - 1)


@kernel
def compose(indptr, indices, data, vectors, out):
    """Words = A S, four entries at a time, to save trips to the sum; what comes next is on its way meanwhile.

    `vectors` are float32, int8, or the bits of float16 as uint16.
    """
    dims, line = out.shape[1], LINE // vectors.itemsize
    size = indptr[indptr.size - 1]
    for soon in range(min(AHEAD, size)):
        prefetch_row(vectors, indices[soon], dims, line)
    for word in range(indptr.size - 1):
        total = out[word]
        total[:] = 0.0
        k, end = indptr[word], indptr[word + 1]
        while k + 3 < end:
            for later in range(k + AHEAD, min(k + AHEAD + 4, size)):
                prefetch_row(vectors, indices[later], dims, line)
            a, b, c, d = data[k], data[k + 1], data[k + 2], data[k + 3]
            # Not as views of rows, whose owner all threads would keep count of.
            first, second, third, fourth = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
            for dim in range(dims):
                total[dim] += (
                    a * as_float32(vectors[first, dim])
                    + b * as_float32(vectors[second, dim])
                    + c * as_float32(vectors[third, dim])
                    + d * as_float32(vectors[fourth, dim])
                )
            k += 4
        while k < end:
            a, first = data[k], indices[k]
            for dim in range(dims):
                total[dim] += a * as_float32(vectors[first, dim])
            k += 1


@kernel
def embed_words(
    nodes, unseen_char_prob, weighting, start_weight, end_weight, codes, offsets, vectors, dust, by_length, out
):
    """Write the vectors of many words into out; see `weights_of_run` and `compose`."""
    first = 0
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        indptr, indices, data = weights_of_run(
            nodes,
            unseen_char_prob,
            weighting,
            start_weight,
            end_weight,
            codes,
            offsets[first : last + 1],
            dust,
            by_length,
        )
        compose(indptr, indices, data, vectors, out[first:last])
        first = last


@kernel
def merge_duplicates(indptr, indices, data, n_columns):
    """Add up the entries of a CSR row that share a column; the first occurrence gives the order."""
    seen_at = np.full(n_columns, -1, np.int64)
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices = np.empty(indices.size, np.int32)
    new_data = np.empty(data.size, np.float32)
    size = 0
    for row in range(indptr.size - 1):
        row_start = size
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            if seen_at[column] >= row_start:
                new_data[seen_at[column]] += data[k]
            else:
                seen_at[column] = size
                new_indices[size] = column
                new_data[size] = data[k]
                size += 1
        new_indptr[row + 1] = size
    return new_indptr, new_indices[:size], new_data[:size]


@kernel
def column_keys(indptr, indices, marks, n_columns):
    """Return for each column of a CSR matrix a key of its set of rows: their random marks, combined.

    Equal sets have equal keys; with marks of 63 bits, others have different ones but for one chance in 2**63 a pair.
    """
    keys = np.zeros(n_columns, np.int64)
    last = np.full(n_columns, -1, np.int64)
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            if last[column] != row:
                last[column] = row
                keys[column] ^= marks[row]
    return keys
