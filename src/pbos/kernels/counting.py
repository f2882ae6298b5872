"""Counting the substrings of words, level by level: first all single letters, then all of two letters, and so on.

A level is the list of all spans of one length in all words, sorted by their text. A longer span is a letter followed by
a span of the previous level. So going through a level in order, and appending each span that has a letter before it to
the bucket of that letter, yields the next level sorted. Memory is read and written in long runs, one per letter, unlike
with a hash table of all substrings.

Spans of the same subword are adjacent, in the order of their words and positions. So the subwords of a level come in
order, and their statistics are collected while their spans go by.

The words are one text, with a 0 before each word and at the end; letters count from 1. A span is one number: its word,
its position in the text (that of the letter, or the 0, before it) and flags.
"""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.machine import prefetch

LAST = 1  # the span ends its word
TARGET = 2  # its word is a target
NEW = 4  # the first span of its subword
FIRST_CHILD = 8  # the first span of the first subword with its parent (that is all letters but the last)
FLAG_BITS, PLACE_BITS, WORD_BITS = 4, 32, 27
MAX_PLACES, MAX_WORDS = 1 << PLACE_BITS, 1 << WORD_BITS
PLACES = MAX_PLACES - 1
WORD_SHIFT = FLAG_BITS + PLACE_BITS
AHEAD = 24  # spans whose text and counts are prefetched


@kernel
def as_one_text(codes, offsets, numbers):
    """Return the words as one text; `numbers` has the letter of each code point."""
    text = np.zeros(codes.size + offsets.size, numbers.dtype)
    for word in range(offsets.size - 1):
        for at in range(offsets[word], offsets[word + 1]):
            text[at + word + 1] = numbers[codes[at]]
    return text


@kernel
def single_letters(text, n_letters, offsets, is_target):
    """Return where the spans of each letter start and end in the level of single letters, and that level.

    The spans of a letter start at the same position in all levels, since each level has fewer of them.
    """
    starts = np.zeros(n_letters + 2, np.int64)
    for letter in text:
        starts[np.int64(letter) + 1] += letter > 0
    for letter in range(n_letters + 1):
        starts[letter + 1] += starts[letter]
    starts = starts[:-1]
    ends = starts.copy()
    spans = np.empty(text.size - offsets.size, np.int64)
    for word in range(offsets.size - 1):
        for place in range(offsets[word] + word, offsets[word + 1] + word):
            letter = np.int64(text[place + 1])
            to = ends[letter]
            ends[letter] += 1
            flags = TARGET * is_target[word] | LAST * (text[place + 2] == 0) | NEW * (to == starts[letter])
            spans[to] = word << WORD_SHIFT | place << FLAG_BITS | flags
    if spans.size:
        spans[0] |= FIRST_CHILD
    return starts, ends, spans


@kernel
def merge_tries(labels, children, other_labels, other_children):
    """Merge two tries in level order, whose first node is the root.

    Returns for each node of the union: its place in the first and in the second trie, -1 where it is not in it, its
    label and its number of children.
    """
    most = labels.size + other_labels.size
    places = np.empty((2, most), np.int32)
    new_labels = np.empty(most, labels.dtype)
    new_children = np.zeros(most, np.int32)
    places[:, 0] = 0
    new_labels[0] = 0
    size = child = other_child = 1  # in level order, the children of a node follow those of the node before it
    node = 0
    while node < size:
        first, second = places[0, node], places[1, node]
        end = child + (np.int64(children[first]) if first >= 0 else 0)
        other_end = other_child + (np.int64(other_children[second]) if second >= 0 else 0)
        while child < end or other_child < other_end:
            label = labels[child] if child < end else other_labels[other_child]
            if other_child < other_end:
                label = min(label, other_labels[other_child])
            places[0, size] = places[1, size] = -1
            if child < end and labels[child] == label:
                places[0, size] = child
                child += 1
            if other_child < other_end and other_labels[other_child] == label:
                places[1, size] = other_child
                other_child += 1
            new_labels[size] = label
            new_children[node] += 1
            size += 1
        node += 1
    return places[:, :size], new_labels[:size], new_children[:size]


@kernel
def next_level(text, word_counts, length, n_nodes, parent_has_children, starts, ends, spans, longer):
    """Go through the spans of a level, and sort those that are longer by one letter into `longer`.

    Returns for each subword of the level: its last letter, the sum of word_counts over its spans, the number of words
    that contain it, and whether a target does; the number of children of each subword of the previous level; whether
    each subword of this level has children; for the next level, the number of subwords, and where each letter's spans
    end.
    """
    labels = np.empty(n_nodes, text.dtype)
    sums = np.empty(n_nodes, np.float64)
    n_words_with = np.empty(n_nodes, np.int32)
    in_target = np.empty(n_nodes, np.bool_)
    has_children = np.empty(n_nodes, np.bool_)
    children = np.zeros(parent_has_children.size, np.int32)
    longer_ends = starts.copy()
    n_longer = 0
    # Two adjacent longer spans are the same subword if they start with the same letter and continue with the same
    # subword. They have the same parent if they start with the same letter and the continuations have the same parent.
    last_node = np.full(starts.size, -1, np.int64)
    last_parent = np.full(starts.size, -1, np.int64)
    node = parent = -1
    for letter in range(starts.size):
        i, end = starts[letter], ends[letter]
        while i < end:
            node += 1
            labels[node] = text[((spans[i] >> FLAG_BITS) & PLACES) + length] - 1
            if spans[i] & FIRST_CHILD:
                parent += 1
                while not parent_has_children[parent]:
                    parent += 1
            children[parent] += 1
            total, n_words, last_word, some, every = 0.0, 0, -1, 0, -1
            while True:
                ahead = spans[min(i + AHEAD, spans.size - 1)]
                prefetch(text, (ahead >> FLAG_BITS) & PLACES)
                prefetch(word_counts, ahead >> WORD_SHIFT)
                span = spans[i]
                word = span >> WORD_SHIFT
                total += word_counts[word]
                n_words += word != last_word
                last_word = word
                some |= span
                every &= span
                before = np.int64(text[(span >> FLAG_BITS) & PLACES])
                if before > 0:
                    flags = 0
                    if last_node[before] != node:
                        last_node[before] = node
                        n_longer += 1
                        flags = NEW
                        if last_parent[before] != parent:
                            last_parent[before] = parent
                            flags = NEW | FIRST_CHILD
                    longer[longer_ends[before]] = (span & ~(NEW | FIRST_CHILD)) - (1 << FLAG_BITS) | flags
                    longer_ends[before] += 1
                i += 1
                if i == end or spans[i] & NEW:
                    break
            sums[node] = total
            n_words_with[node] = n_words
            in_target[node] = some & TARGET != 0
            has_children[node] = every & LAST == 0
    return labels, sums, n_words_with, in_target, children, has_children, n_longer, longer_ends
