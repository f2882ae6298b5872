"""Text to words: cutting code points into words, and numbering the distinct ones."""

import numpy as np

from pbos.kernels import grown, kernel

BETWEEN, WORD, INNER, ALONE, LINE_END = range(5)
"""The kinds of characters: between words; of words; of words if between two such; a word by itself; ends of lines."""

MOST_LETTERS = 100  # longer strings are not words but addresses or data
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@kernel
def end_of_word(codes, kinds, start):
    """Return where the word that starts at `start` ends."""
    at = start + 1
    if kinds[codes[start]] == ALONE:
        return at
    while at < codes.size:
        kind = kinds[codes[at]]
        if kind == INNER:
            if at + 1 == codes.size or kinds[codes[at + 1]] != WORD:
                break
        elif kind != WORD:
            break
        at += 1
    return at


@kernel
def same(codes, first, second, length):
    """Return whether two words of the same length are equal."""
    for at in range(length):  # noqa: SIM110  # Numba has no generators in all()
        if codes[first + at] != codes[second + at]:
            return False
    return True


@kernel
def place_of(slots, hash_):
    """Return the first slot for a hash; later ones follow in a circle."""
    return np.int64(hash_ >> np.uint64(20)) & (slots.size - 1)


@kernel
def free_place(slots, hash_):
    """Return the first free slot for a hash."""
    place = place_of(slots, hash_)
    while slots[place] >= 0:
        place = (place + 1) & (slots.size - 1)
    return place


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
        end = end_of_word(codes, kinds, at)
        length = end - at
        if length > MOST_LETTERS:
            at = end
            continue
        hash_ = np.uint64(0)
        for k in range(at, end):
            hash_ = (hash_ ^ np.uint64(codes[k])) * MULTIPLIER
            hash_ ^= hash_ >> np.uint64(32)
        place = place_of(slots, hash_)
        while True:
            word = slots[place]
            if word < 0 or (
                hashes[word] == hash_ and ends[word] - starts[word] == length and same(codes, starts[word], at, length)
            ):
                break
            place = (place + 1) & (slots.size - 1)
        if word < 0:
            if n_words == starts.size:
                starts, ends, hashes = grown(starts, 2 * n_words), grown(ends, 2 * n_words), grown(hashes, 2 * n_words)
                slots = np.full(4 * n_words, -1, np.int32)
                for known in range(n_words):
                    slots[free_place(slots, hashes[known])] = known
                place = free_place(slots, hash_)
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
