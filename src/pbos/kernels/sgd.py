"""Stochastic gradient descent on words = A S, one word at a time, in place.

Without fast-math each dimension's numbers do not depend on which other dimensions are trained beside it, so column
slices can go to separate threads and the result is the same to the bit.
"""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.machine import LINE, prefetch

NO_NORM = 1e-4  # a subword vector no longer than this has no direction
DUST = 3e-6  # weights below this share of a word's largest are not trained; an eighth of those of PBoS are
LINE_SIZE = LINE // 4  # numbers of four bytes


@kernel
def sgd_epoch(indptr, indices, data, targets, vectors, order, rate, unit_length):
    """Go once over the words; return for each dimension the sum of squared errors met on the way.

    error = sum of a(s|w) vector(s) - target(w);  vector(s) -= rate * a(s|w) * error
    With unit_length (PBoS-n), vectors are scaled to length 1 before they are summed; the step stays the same.

    Words come in random order and vectors lie far apart, so time goes by waiting for memory. It is asked for ahead of
    time: the vectors of the next word, and the weights of the one after it, which tell the vectors then.
    """
    dims = vectors.shape[1]
    error = np.empty(dims, np.float32)
    loss = np.zeros(dims, np.float64)
    last = order.size - 1
    for at in range(order.size):
        word, following, later = order[at], order[min(at + 1, last)], order[min(at + 2, last)]
        prefetch(indptr, order[min(at + 3, last)])
        for k in range(indptr[later], indptr[later + 1], LINE_SIZE):
            prefetch(indices, k)
            prefetch(data, k)
        for dim in range(0, dims, LINE_SIZE):
            prefetch(targets, following * dims + dim)
        for k in range(indptr[following], indptr[following + 1]):
            for dim in range(0, dims, LINE_SIZE):
                prefetch(vectors, np.int64(indices[k]) * dims + dim)

        target = targets[word]
        for dim in range(dims):
            error[dim] = -target[dim]
        for k in range(indptr[word], indptr[word + 1]):
            weight = data[k]
            vector = vectors[indices[k]]
            if unit_length:
                norm = 0.0
                for dim in range(dims):
                    norm += vector[dim] * vector[dim]
                norm = np.sqrt(norm)
                weight = np.float32(weight / norm) if norm > NO_NORM else np.float32(0.0)
            for dim in range(dims):
                error[dim] += weight * vector[dim]
        for dim in range(dims):
            loss[dim] += error[dim] * error[dim]
        for k in range(indptr[word], indptr[word + 1]):
            step = rate * data[k]
            vector = vectors[indices[k]]
            for dim in range(dims):
                vector[dim] -= step * error[dim]
    return loss


@kernel
def without_dust(indptr, indices, data):
    """Return the matrix (CSR) without the entries that are next to nothing beside the largest of their row."""
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices = np.empty(indices.size, np.int32)
    new_data = np.empty(data.size, np.float32)
    used = 0
    for row in range(indptr.size - 1):
        least = np.float32(0.0)
        for k in range(indptr[row], indptr[row + 1]):
            least = max(least, abs(data[k]) * np.float32(DUST))
        for k in range(indptr[row], indptr[row + 1]):
            if abs(data[k]) >= least:
                new_indices[used] = indices[k]
                new_data[used] = data[k]
                used += 1
        new_indptr[row + 1] = used
    return new_indptr, new_indices[:used], new_data[:used]


@kernel
def merge_private_columns(indptr, indices, data, n_columns):
    """Merge, for each row, the columns that no other row has into one.

    From zero, the vectors of such subwords only ever move together, in proportion to their weights: with
    r = sqrt(sum of a**2), they are a / r times one vector that has the weight r. The same holds for the least squares
    with a penalty on all vectors alike. Returns the smaller matrix (CSR), its number of columns, how many of them,
    the first, are not private, and for each old column the new one and the factor. A row's private column comes last.
    A weight of 0 (one too small for float32) is none.
    """
    holders = np.zeros(n_columns, np.int32)
    for k in range(indices.size):
        if data[k] != 0.0:
            holders[indices[k]] += 1
    new_column = np.zeros(n_columns, np.int32)
    factor = np.ones(n_columns, np.float32)
    size = 0
    for column in range(n_columns):
        if holders[column] != 1:
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
            if holders[column] == 1:
                squares += np.float64(data[k]) ** 2
                new_column[column] = size
            else:
                new_indices[used] = new_column[column]
                new_data[used] = data[k]
                used += 1
        if squares > 0.0:
            root = np.sqrt(squares)
            for k in range(indptr[row], indptr[row + 1]):
                if holders[indices[k]] == 1 and data[k] != 0.0:
                    factor[indices[k]] = data[k] / root
            new_indices[used] = size
            new_data[used] = root
            used += 1
            size += 1
        new_indptr[row + 1] = used
    return new_indptr, new_indices[:used], new_data[:used], size, shared, new_column, factor


@kernel
def split_columns(merged, new_column, factor, vectors):
    """Undo `merge_private_columns` for vectors: write those of the old columns."""
    for column in range(new_column.size):
        for dim in range(vectors.shape[1]):
            vectors[column, dim] = merged[new_column[column], dim] * factor[column]
