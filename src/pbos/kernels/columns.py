"""Operations on the columns of a CSR matrix that training needs before and after solving."""

import numpy as np

from pbos.kernels import kernel

NEGLIGIBLE_WEIGHT = 3e-6  # SGD drops weights below this share of a word's largest; for PBoS, an eighth of all weights


@kernel
def merge_duplicates(indptr, indices, data, n_columns):
    """Add up the entries of a CSR row that have the same column, in the order of their first occurrence."""
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
    """Return a key for the set of rows of each column of a CSR matrix: the XOR of the rows' random marks.

    Equal sets have equal keys. With 63-bit marks, two different sets collide with a probability of 2**-63.
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


@kernel
def merge_private_columns(indptr, indices, data, n_columns):
    """Merge the private columns of each row, those that no other row has, into one.

    Starting from zero, the vectors of a row's private columns stay proportional to their weights: with
    r = sqrt(sum of a**2), they are a / r times one vector that has the weight r. This is true for SGD, and for least
    squares with the same penalty on all vectors. Returns the smaller CSR matrix, its number of columns, how many of
    them (the first ones) are shared, and for each old column its new column and factor. The private column of a row is
    its last entry. Entries that are 0 are dropped.
    """
    n_rows = np.zeros(n_columns, np.int32)
    for k in range(indices.size):
        if data[k] != 0.0:
            n_rows[indices[k]] += 1
    new_column = np.zeros(n_columns, np.int32)
    factor = np.ones(n_columns, np.float32)
    size = 0
    for column in range(n_columns):
        if n_rows[column] != 1:
            new_column[column] = size
            size += 1
    shared = size

    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices = np.empty(indices.size, np.int32)
    new_data = np.empty(data.size, np.float32)
    used = 0
    for row in range(indptr.size - 1):
        squares = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            if data[k] == 0.0:
                continue
            if n_rows[column] == 1:
                squares += np.float64(data[k]) ** 2
                new_column[column] = size
            else:
                new_indices[used] = new_column[column]
                new_data[used] = data[k]
                used += 1
        if squares > 0.0:
            root = np.sqrt(squares)
            for k in range(indptr[row], indptr[row + 1]):
                if n_rows[indices[k]] == 1 and data[k] != 0.0:
                    factor[indices[k]] = data[k] / root
            new_indices[used] = size
            new_data[used] = root
            used += 1
            size += 1
        new_indptr[row + 1] = used
    return new_indptr, new_indices[:used], new_data[:used], size, shared, new_column, factor


@kernel
def split_columns(merged, new_column, factor, vectors):
    """Undo `merge_private_columns` for vectors: write the vectors of the old columns."""
    for column in range(new_column.size):
        for dim in range(vectors.shape[1]):
            vectors[column, dim] = merged[new_column[column], dim] * factor[column]


@kernel
def without_negligible(indptr, indices, data):
    """Return the CSR matrix without the entries below NEGLIGIBLE_WEIGHT times the largest of their row."""
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices = np.empty(indices.size, np.int32)
    new_data = np.empty(data.size, np.float32)
    used = 0
    for row in range(indptr.size - 1):
        least = np.float32(0.0)
        for k in range(indptr[row], indptr[row + 1]):
            least = max(least, abs(data[k]) * np.float32(NEGLIGIBLE_WEIGHT))
        for k in range(indptr[row], indptr[row + 1]):
            if abs(data[k]) >= least:
                new_indices[used] = indices[k]
                new_data[used] = data[k]
                used += 1
        new_indptr[row + 1] = used
    return new_indptr, new_indices[:used], new_data[:used]
