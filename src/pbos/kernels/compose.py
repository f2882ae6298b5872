"""Words = A S: sparse weights (CSR) times subword vectors, for each way the vectors are stored."""

import numpy as np

from pbos.kernels import kernel


@kernel
def compose_float32(indptr, indices, data, vectors, out):
    for word in range(indptr.size - 1):
        out[word, :] = 0.0
        for k in range(indptr[word], indptr[word + 1]):
            row = indices[k]
            if row < vectors.shape[0]:  # holds for every sound model; keeps a damaged file from reading stray memory
                weight = data[k]
                for dim in range(out.shape[1]):
                    out[word, dim] += weight * vectors[row, dim]


@kernel
def compose_int8(indptr, indices, data, vectors, scales, out):
    for word in range(indptr.size - 1):
        out[word, :] = 0.0
        for k in range(indptr[word], indptr[word + 1]):
            row = indices[k]
            if row < vectors.shape[0]:
                weight = data[k] * scales[row]
                for dim in range(out.shape[1]):
                    out[word, dim] += weight * np.float32(vectors[row, dim])


@kernel
def compose_float16(indptr, indices, data, halves, out):
    """As above for float16 given as uint16 bits, since Numba has no float16 on the CPU.

    Shifting a half's exponent and fraction into place leaves a float32 that is 2**-112 times too small, also for
    subnormals; one product puts that right.
    """
    bits = np.zeros(out.shape[1], np.uint32)
    floats = bits.view(np.float32)
    for word in range(indptr.size - 1):
        out[word, :] = 0.0
        for k in range(indptr[word], indptr[word + 1]):
            row = indices[k]
            if row < halves.shape[0]:
                weight = data[k] * np.float32(2.0**112)
                for dim in range(out.shape[1]):
                    half = np.uint32(halves[row, dim])
                    bits[dim] = ((half & np.uint32(0x8000)) << np.uint32(16)) | (
                        (half & np.uint32(0x7FFF)) << np.uint32(13)
                    )
                for dim in range(out.shape[1]):
                    out[word, dim] += weight * floats[dim]


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
