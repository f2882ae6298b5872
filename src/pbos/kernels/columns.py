"""Operations on the columns of a CSR matrix that training needs before and after solving."""

import numpy as np

from pbos.kernels import kernel


@kernel
def merge_duplicates(indptr, indices, data, n_columns):
    """Add up the entries of a CSR row that have the same column, in the order of their first occurrence."""
    seen_at = np.full(n_columns, -1, np.int64)
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices, new_data = np.empty(indices.size, np.int32), np.empty(data.size, np.float32)
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
def count_rows(indptr, indices, data, rows, n_columns):
    """Return how many of some rows have an entry above 0 in each column."""
    n_rows = np.zeros(n_columns, np.int32)
    for row in rows:
        for k in range(indptr[row], indptr[row + 1]):
            n_rows[indices[k]] += data[k] != 0.0
    return n_rows


@kernel
def private_columns(indptr, indices, data, rows, factors, scale, n_rows):
    """Merge the private columns of each of some rows, those that no other row has, into one.

    Starting from zero, the vectors of a row's private columns stay proportional to their weights: with
    r = sqrt(sum of a**2), they are a / r times one vector that has the weight r. This is true for SGD, and for least
    squares with the same penalty on all vectors. Entries that are 0 do not count.

    Rows are multiplied by `factors`, if there are any, and columns by `scale`. Returns the number of shared entries up
    to each row, the weight of its private column (0 for none), and for each old column its factor and new column
    (first the shared ones, then the private ones in the order of their rows).
    """
    new_column, factor = np.zeros(n_rows.size, np.int32), np.ones(n_rows.size, np.float32)
    size = 0
    for column in range(n_rows.size):
        if n_rows[column] != 1:
            new_column[column] = size
            size += 1
        else:
            factor[column] = 0.0  # stays so if its weight is too small to be multiplied
    new_indptr, private = np.zeros(rows.size + 1, np.int64), np.zeros(rows.size, np.float32)
    for at in range(rows.size):
        row = rows[at]
        shared, squares = 0, 0.0
        by = factors[at] if factors.size else np.float32(1.0)
        for k in range(indptr[row], indptr[row + 1]):
            if data[k] == 0.0:
                continue
            if n_rows[indices[k]] == 1:
                squares += np.float64(data[k] * by * scale[indices[k]]) ** 2
            else:
                shared += 1
        new_indptr[at + 1] = new_indptr[at] + shared
        if squares > 0.0:
            root = np.sqrt(squares)
            private[at] = root
            for k in range(indptr[row], indptr[row + 1]):
                if n_rows[indices[k]] == 1 and data[k] != 0.0:
                    new_column[indices[k]] = size
                    factor[indices[k]] = data[k] * by * scale[indices[k]] / root
            size += 1
    return new_indptr, private, new_column, factor


@kernel
def write_columns(indptr, indices, data, rows, factors, scale, n_rows, new_column, private, new_indices, new_data):
    """Write the shared entries of some rows, and after those of each its private weight, if `private` has these."""
    used = 0
    next_private = np.int64((n_rows != 1).sum())
    for at in range(rows.size):
        row = rows[at]
        by = factors[at] if factors.size else np.float32(1.0)
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            if data[k] != 0.0 and n_rows[column] != 1:
                new_indices[used] = new_column[column]
                new_data[used] = data[k] * by * scale[column]
                used += 1
        if private.size and private[at] > 0.0:
            new_indices[used], new_data[used] = next_private, private[at]
            used += 1
            next_private += 1


@kernel
def own_columns(indptr, indices, data, rows, whole, n_rows, least, factor):
    """Find the column that a word has as a whole and no other word has, if its weight is above `least`.

    Returns for each of some rows that column (-1 for none), its weight, the sum of the row's other private columns'
    weights times `factor`, and whether the shared columns' weights sum up to more than `least`.
    """
    found, shares = np.full(rows.size, -1, np.int32), np.zeros(rows.size, np.bool_)
    weights, others = np.zeros(rows.size, np.float32), np.zeros(rows.size, np.float32)
    for at in range(rows.size):
        row, shared = rows[at], 0.0
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            if n_rows[column] != 1:
                shared += data[k]
            elif column == whole[row] and data[k] > least:
                found[at] = column
                weights[at] = data[k]
            else:
                others[at] += data[k] * factor[column]
        shares[at] = shared > least
    return found, weights, others, shares


@kernel
def split_columns(shared, private, new_column, factor, vectors):
    """Undo merging for vectors: write those of the old columns, from those of the shared and the private ones."""
    n_shared = shared.shape[0]
    for column in range(new_column.size):
        new = new_column[column]
        for dim in range(vectors.shape[1]):
            value = shared[new, dim] if new < n_shared else private[new - n_shared, dim]
            vectors[column, dim] = value * factor[column]
