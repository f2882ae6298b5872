"""Words and their contexts: counting them, adding counts up, and their mutual information."""

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
    salt = mixed(seed)
    for line in range(line_ends.size):
        for at in range(start, line_ends[line]):
            draw = np.float64(mixed(np.uint64(at) + salt) >> np.uint64(11)) / 9007199254740992.0
            if draw < keep[ids[at]]:
                ids[kept] = ids[at]
                kept += 1
        start = line_ends[line]
        line_ends[line] = kept
    return kept


@kernel
def n_contexts(at, start, end, window):
    """Return how many words are near the one at a position in a line."""
    return min(at - start, window) + min(end - 1 - at, window)


@kernel
def count_contexts(thinned, thinned_ends, ids, line_ends, n_words, window):
    """Return how often each word has each context, as a CSR matrix with sorted columns.

    Of n words, column c < n is the context "near c": a word at distance d in a line of the thinned text counts
    window + 1 - d. Columns n + c and 2 n + c are the contexts "before c" and "after c": c is the next word, or the one
    before, in the whole text. All are whole numbers, so the order of adding them up does not matter.
    """
    indptr = np.zeros(n_words + 1, np.int64)
    for words, ends, most in ((thinned, thinned_ends, window), (ids, line_ends, 1)):
        start = 0
        for line in range(ends.size):
            for at in range(start, ends[line]):
                indptr[words[at] + 1] += n_contexts(at, start, ends[line], most)
            start = ends[line]
    for word in range(n_words):
        indptr[word + 1] += indptr[word]
    indices = np.empty(indptr[n_words], np.int32)
    weights = np.empty(indptr[n_words], np.uint8)
    filled = indptr[:-1].copy()
    for words, ends, most, before, after in (
        (thinned, thinned_ends, window, 0, 0),
        (ids, line_ends, 1, n_words, 2 * n_words),
    ):
        start = 0
        for line in range(ends.size):
            for at in range(start, ends[line]):
                for other in range(at + 1, min(at + most + 1, ends[line])):
                    first, second = words[at], words[other]
                    indices[filled[first]] = before + second
                    weights[filled[first]] = most + 1 - (other - at)
                    filled[first] += 1
                    indices[filled[second]] = after + first
                    weights[filled[second]] = most + 1 - (other - at)
                    filled[second] += 1
            start = ends[line]
    return sum_up(indptr, indices, weights, 3 * n_words)


@kernel
def sum_up(indptr, indices, data, n_columns):
    """Add up the entries of a CSR matrix in the same row and column; return one with sorted columns."""
    sums = np.zeros(n_columns, np.int64)
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices, new_data = np.empty(indices.size, np.int32), np.empty(indices.size, np.uint32)
    size = 0
    for row in range(indptr.size - 1):
        first = size
        for k in range(indptr[row], indptr[row + 1]):
            if sums[indices[k]] == 0:
                new_indices[size] = indices[k]
                size += 1
            sums[indices[k]] += data[k]
        new_indices[first:size].sort()
        for k in range(first, size):
            new_data[k] = min(sums[new_indices[k]], MOST)
            sums[new_indices[k]] = 0
        new_indptr[row + 1] = size
    return new_indptr, new_indices[:size], new_data[:size]


@kernel
def add(first, second):
    """Add two CSR matrices with sorted columns; a sum beyond 32 bits stays at the largest number they can hold."""
    indptr, indices, data = first
    other_indptr, other_indices, other_data = second
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices = np.empty(indices.size + other_indices.size, np.int32)
    new_data = np.empty(new_indices.size, np.uint32)
    size = 0
    for row in range(indptr.size - 1):
        at, end, to, stop = indptr[row], indptr[row + 1], other_indptr[row], other_indptr[row + 1]
        while at < end and to < stop:
            column, other = indices[at], other_indices[to]
            here, there = column <= other, other <= column  # as numbers: branches would be hard to predict
            new_indices[size] = min(column, other)
            new_data[size] = min(np.int64(data[at]) * here + np.int64(other_data[to]) * there, np.int64(MOST))
            at += here
            to += there
            size += 1
        for k in range(at, end):
            new_indices[size], new_data[size] = indices[k], data[k]
            size += 1
        for k in range(to, stop):
            new_indices[size], new_data[size] = other_indices[k], other_data[k]
            size += 1
        new_indptr[row + 1] = size
    return new_indptr, new_indices[:size], new_data[:size]


@kernel
def renumbered(columns, numbers, n_words):
    """Return columns, as of `count_contexts`, after words got other numbers: of `n_words` words."""
    new = np.empty(columns.size, np.int32)
    for k in range(columns.size):
        kind = columns[k] // numbers.size
        new[k] = kind * n_words + numbers[columns[k] - kind * numbers.size]
    return new


@kernel
def add_sums(rows, contexts, row_sums, column_sums):
    """Add the entries of CSR rows to row_sums[kind, row] and column_sums[kind, context].

    Contexts are of three kinds, as in `count_contexts`. `contexts` has the numbers of the words that are contexts, -1
    for the others.
    """
    indptr, indices, data = rows
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            kind, word = indices[k] // contexts.size, indices[k] % contexts.size
            if contexts[word] >= 0:
                row_sums[kind, row] += data[k]
                column_sums[kind, contexts[word]] += data[k]


@kernel
def mutual_information(rows, contexts, row_logs, column_logs, shares):
    """Return the positive pointwise mutual information of CSR rows, times the share of each kind of context.

    It is log(count) - row_logs[kind, row] - column_logs[kind, context], where that is above 0.
    """
    indptr, indices, data = rows
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indices, values = np.empty(indices.size, np.int32), np.empty(indices.size, np.float32)
    size = 0
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            kind, context = indices[k] // contexts.size, contexts[indices[k] % contexts.size]
            if context >= 0:
                value = np.log(np.float64(data[k])) - row_logs[kind, row] - column_logs[kind, context]
                if value > 0.0:
                    new_indices[size] = kind * column_logs.shape[1] + context
                    values[size] = value * shares[kind]
                    size += 1
        new_indptr[row + 1] = size
    return new_indptr, new_indices[:size], values[:size]
