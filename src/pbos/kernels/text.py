"""Text to counts: its words, the contexts of words, and sorted lists of words."""

import numpy as np

from pbos.kernels import grown, kernel

# Words of a text ------------------------------------------------------------------------------------------------------

BETWEEN, WORD, INNER, ALONE, LINE_END = range(5)
"""The kinds of characters: between words; of words; of words if between two such; a word by itself; ends of lines."""

MOST_LETTERS = 100  # longer strings are not words but addresses or data
MULTIPLIER, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(20)  # of hashes


@kernel
def same(codes, first, second, length):
    """Return whether two words of the same length are equal."""
    for at in range(length):  # noqa: SIM110  # Numba has no generators in all()
        if codes[first + at] != codes[second + at]:
            return False
    return True


@kernel
def find_words(codes, kinds):
    """Find the words of a text and number the distinct ones in the order in which they first occur.

    Returns the numbers of the words, the ends of the lines as positions among them, and where each distinct word first
    starts and ends.
    """
    ids, n_ids = np.empty(1 << 16, np.int32), 0
    line_ends, n_lines = np.empty(1 << 12, np.int64), 0
    slots = np.full(1 << 16, -1, np.int32)
    starts, ends, hashes = np.empty(1 << 15, np.int64), np.empty(1 << 15, np.int64), np.empty(1 << 15, np.uint64)
    n_words = 0
    at = 0
    while at < codes.size:
        kind = kinds[codes[at]]
        if kind == LINE_END:
            if n_lines == line_ends.size:
                line_ends = grown(line_ends, 2 * n_lines)
            line_ends[n_lines] = n_ids
            n_lines += 1
        if kind != WORD and kind != ALONE:
            at += 1
            continue
        end = at + 1
        while kind == WORD and end < codes.size:  # the other kind is a word by itself
            next_kind = kinds[codes[end]]
            if next_kind == INNER and end + 1 < codes.size:
                next_kind = kinds[codes[end + 1]]
            if next_kind != WORD:
                break
            end += 1
        length = end - at
        if length > MOST_LETTERS:
            at = end
            continue
        hash_ = np.uint64(0)
        for k in range(at, end):
            hash_ = (hash_ ^ np.uint64(codes[k])) * MULTIPLIER
            hash_ ^= hash_ >> np.uint64(32)
        if n_words == starts.size:
            starts, ends, hashes = grown(starts, 2 * n_words), grown(ends, 2 * n_words), grown(hashes, 2 * n_words)
            slots = np.full(4 * n_words, -1, np.int32)
            for known in range(n_words):
                place = np.int64(hashes[known] >> SHIFT) & (slots.size - 1)
                while slots[place] >= 0:
                    place = (place + 1) & (slots.size - 1)
                slots[place] = known
        place = np.int64(hash_ >> SHIFT) & (slots.size - 1)  # the first slot; later ones follow in a circle
        word = slots[place]
        while word >= 0 and not (
            hashes[word] == hash_ and ends[word] - starts[word] == length and same(codes, starts[word], at, length)
        ):
            place = (place + 1) & (slots.size - 1)
            word = slots[place]
        if word < 0:
            word = n_words
            slots[place] = word
            starts[word], ends[word], hashes[word] = at, end, hash_
            n_words += 1
        if n_ids == ids.size:
            ids = grown(ids, 2 * n_ids)
        ids[n_ids] = word
        n_ids += 1
        at = end
    if n_lines == line_ends.size:
        line_ends = grown(line_ends, n_lines + 1)
    line_ends[n_lines] = n_ids
    return ids[:n_ids], line_ends[: n_lines + 1], starts[:n_words], ends[:n_words]


# Words and their contexts: counting, adding counts up, mutual information --------------------------------------------

MOST = np.uint32(0xFFFFFFFF)


@kernel
def count_contexts(sample, sample_ends, ids, line_ends, n_words, window):
    """Return how often each word has each context, as a CSR matrix with sorted columns.

    Of n words, column c < n is the context "near c": a word at distance d in a line of the sample counts
    window + 1 - d. Columns n + c and 2 n + c are the contexts "before c" and "after c": c is the next word, or the one
    before, in the whole text. All are whole numbers, so the order of adding them up does not matter.
    """
    indptr = np.zeros(n_words + 1, np.int64)
    for words, ends, most in ((sample, sample_ends, window), (ids, line_ends, 1)):
        start = 0
        for line in range(ends.size):
            for at in range(start, ends[line]):
                indptr[words[at] + 1] += min(at - start, most) + min(ends[line] - 1 - at, most)
            start = ends[line]
    for word in range(n_words):
        indptr[word + 1] += indptr[word]
    indices = np.empty(indptr[n_words], np.int32)
    weights = np.empty(indptr[n_words], np.uint8)
    filled = indptr[:-1].copy()
    for words, ends, most, before, after in (
        (sample, sample_ends, window, 0, 0),
        (ids, line_ends, 1, n_words, 2 * n_words),
    ):
        start = 0
        for line in range(ends.size):
            for at in range(start, ends[line]):
                for other in range(at + 1, min(at + most + 1, ends[line])):
                    first, second, weight = words[at], words[other], most + 1 - (other - at)
                    indices[filled[first]], weights[filled[first]] = before + second, weight
                    filled[first] += 1
                    indices[filled[second]], weights[filled[second]] = after + first, weight
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
def add_counts(first, second):
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
def mutual_information(rows, contexts, row_logs, column_logs, shares):
    """Return the positive pointwise mutual information of CSR rows, times the share of each kind of context.

    It is log(count) - row_logs[kind, row] - column_logs[kind, context], where that is above 0. `contexts` has the
    numbers of the words that are contexts, -1 for the others.
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


# Sorted lists of words as bytes, each word ended by a newline ---------------------------------------------------------

END = 10  # the newline


@kernel
def order(first, at, second, to):
    """Return a number below, equal to or above 0 as the word at a position comes before, is, or follows another."""
    while first[at] == second[to]:
        if first[at] == END:
            return 0
        at += 1
        to += 1
    if first[at] == END:
        return -1
    return 1 if second[to] == END else np.int64(first[at]) - np.int64(second[to])


@kernel
def next_word(words, at):
    """Return where the next word starts."""
    while words[at] != END:
        at += 1
    return at + 1


@kernel
def join_lists(first, second):
    """Return the words that are in one list or both, sorted."""
    out, size = np.empty(first.size + second.size, np.uint8), 0
    at = to = 0
    while at < first.size or to < second.size:
        which = -1 if to == second.size else 1 if at == first.size else order(first, at, second, to)
        start, to_start = at, to
        if which <= 0:
            at = next_word(first, at)
        if which >= 0:
            to = next_word(second, to)
        for k in range(start, at):
            out[size + k - start] = first[k]
        for k in range(to_start, to):
            out[size + k - to_start] = second[k]
        size += max(at - start, to - to_start)
    return out[:size].copy()


@kernel
def find_places(words, n_words, known):
    """Return the position of each word of a list in another one, which must have all of them."""
    found = np.empty(n_words, np.int32)
    at = to = place = 0
    for word in range(n_words):
        while order(words, at, known, to) != 0:
            to = next_word(known, to)
            place += 1
        found[word] = place
        at = next_word(words, at)
    return found


@kernel
def count_sorted(words):
    """Return how many words a list has; -1 if they are not sorted, or one is there twice."""
    n_words = at = 0
    while at < words.size:
        to = next_word(words, at)
        if to < words.size and order(words, at, words, to) >= 0:
            return -1
        at = to
        n_words += 1
    return n_words
