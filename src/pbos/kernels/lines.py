"""Sorted lists of words as bytes, each word ended by a newline: joining lists, and finding words in them."""

import numpy as np

from pbos.kernels import kernel

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
def copy_word(words, at, out, size):
    """Append a word to others; return where the next one starts, and the new size."""
    while True:
        out[size] = words[at]
        size += 1
        at += 1
        if words[at - 1] == END:
            return at, size


@kernel
def union(first, second):
    """Return the words that are in one list or both, sorted."""
    out, size = np.empty(first.size + second.size, np.uint8), 0
    at = to = 0
    while at < first.size or to < second.size:
        which = -1 if to == second.size else 1 if at == first.size else order(first, at, second, to)
        start = size
        if which <= 0:
            at, size = copy_word(first, at, out, size)
        if which >= 0:
            to, size = copy_word(second, to, out, start)
    return out[:size].copy()


@kernel
def places(words, n_words, known):
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


@kernel
def next_word(words, at):
    """Return where the next word starts."""
    while words[at] != END:
        at += 1
    return at + 1
