"""Pairs of words that occur close to each other: counting them, adding counts up, and their mutual information."""

import numpy as np

from pbos.kernels import kernel

MOST = np.uint32(0xFFFFFFFF)


@kernel
def mixed(number):
    """Return 64 bits that look random, the same for the same number (the finalizer of SplitMix64)."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@kernel
def thin_out(ids, line_ends, keep, seed):
    """Drop words at random, in place: word w stays with the probability keep[w].

    Returns how many stay; `line_ends` is changed to match. What happens to a word depends on its position and the seed.
    """
    start = kept = 0
    for line in range(line_ends.size):
        for at in range(start, line_ends[line]):
            draw = np.float64(mixed(np.uint64(at) + mixed(seed)) >> np.uint64(11)) / 9007199254740992.0
            if draw < keep[ids[at]]:
                ids[kept] = ids[at]
                kept += 1
        start = line_ends[line]
        line_ends[line] = kept
    return kept


@kernel
def count_pairs(ids, line_ends, n_words, window):
    """Return a symmetric CSR matrix of how often words occur near each other in a line, with sorted columns.

    Two words at distance d count window + 1 - d. The sums are whole numbers, so their order does not matter.
    """
    indptr = np.zeros(n_words + 1, np.int64)
    start = 0
    for line in range(line_ends.size):
        end = line_ends[line]
        for at in range(start, end):
            indptr[ids[at] + 1] += min(at - start, window) + min(end - 1 - at, window)
        start = end
    for word in range(n_words):
        indptr[word + 1] += indptr[word]
    others = np.empty(indptr[n_words], np.int32)
    weights = np.empty(indptr[n_words], np.uint8)
    filled = indptr[:-1].copy()
    start = 0
    for line in range(line_ends.size):
        end = line_ends[line]
        for at in range(start, end):
            for other in range(at + 1, min(at + window + 1, end)):
                for first, second in ((ids[at], ids[other]), (ids[other], ids[at])):
                    others[filled[first]] = second
                    weights[filled[first]] = window + 1 - (other - at)
                    filled[first] += 1
        start = end

    sums = np.zeros(n_words, np.uint32)
    totals = np.empty(others.size, np.uint32)
    sizes = np.zeros(n_words + 1, np.int64)
    size = 0
    for word in range(n_words):
        first = size
        for k in range(indptr[word], indptr[word + 1]):
            other = others[k]
            if sums[other] == 0:
                others[size] = other  # `size` is never ahead of k
                size += 1
            sums[other] += weights[k]
        for k in range(first, size):
            totals[k] = sums[others[k]]
            sums[others[k]] = 0
        sizes[word + 1] = size
    return transposed(sizes, others[:size], totals[:size])


@kernel
def transposed(indptr, indices, data):
    """Return the transpose of a square CSR matrix, with sorted columns; if it is symmetric, this only sorts them."""
    starts = np.zeros(indptr.size, np.int64)
    for k in range(indices.size):
        starts[indices[k] + 1] += 1
    for column in range(indptr.size - 1):
        starts[column + 1] += starts[column]
    filled = starts[:-1].copy()
    new_indices, new_data = np.empty_like(indices), np.empty_like(data)
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            at = filled[indices[k]]
            new_indices[at] = row
            new_data[at] = data[k]
            filled[indices[k]] += 1
    return starts, new_indices, new_data


@kernel
def add_rows(starts, ends, indices, data, n_columns):
    """Add up rows of several CSR matrices: row r of matrix m is indices[starts[m, r] : ends[m, r]], and data likewise.

    Returns a CSR matrix with sorted columns. A sum beyond 32 bits stays at the largest number they can hold.
    """
    n_rows = starts.shape[1]
    sums = np.zeros(n_columns, np.int64)
    indptr = np.zeros(n_rows + 1, np.int64)
    new_indices, new_data = np.empty(indices.size, np.int32), np.empty(indices.size, np.uint32)
    size = 0
    for row in range(n_rows):
        first = size
        for matrix in range(starts.shape[0]):
            for k in range(starts[matrix, row], ends[matrix, row]):
                if sums[indices[k]] == 0:
                    new_indices[size] = indices[k]
                    size += 1
                sums[indices[k]] += data[k]
        new_indices[first:size].sort()
        for k in range(first, size):
            new_data[k] = min(sums[new_indices[k]], MOST)
            sums[new_indices[k]] = 0
        indptr[row + 1] = size
    return indptr, new_indices[:size], new_data[:size]


@kernel
def add_sums(rows, contexts, row_sums, column_sums):
    """Add the entries of CSR rows to the sums of rows and columns, for columns with a number in `contexts`."""
    indptr, indices, data = rows
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            context = contexts[indices[k]]
            if context >= 0:
                row_sums[row] += data[k]
                column_sums[context] += data[k]


@kernel
def mutual_information(rows, contexts, row_logs, column_logs):
    """Return the positive pointwise mutual information of CSR rows: log(count) - row_logs - column_logs where above 0.

    Columns are numbered as in `contexts`, -1 for none.
    """
    indptr, indices, data = rows
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices, values = np.empty(indices.size, np.int32), np.empty(indices.size, np.float32)
    size = 0
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            context = contexts[indices[k]]
            if context >= 0:
                value = np.log(np.float64(data[k])) - row_logs[row] - column_logs[context]
                if value > 0.0:
                    new_indices[size] = context
                    values[size] = value
                    size += 1
        new_indptr[row + 1] = size
    return new_indptr, new_indices[:size], values[:size]
