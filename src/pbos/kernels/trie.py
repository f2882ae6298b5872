"""The subword index: a trie in which every node is a subword, every edge a character; and the counts it is built from.

All prefixes and characters of a known subword are known, so the set is a trie. Node 0 is the root, the empty string;
nodes 1 to n are the n characters of the alphabet, in order; then come longer subwords in level order (by length, then
by parent, then by last character), so that the children of a node are adjacent and sorted.

It has two forms. `IndexArrays` is compact, for model files. `Nodes` is fast to walk: everything about a node is in one
cache line, and the position of a child follows from one bit per letter. It is unpacked when the first word is looked
up, in a pass that also checks the arrays.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.kernels import kernel, part
from pbos.kernels.machine import prefetch

NO_ROW = -1
MAX_ROW = 2**31 - 2

# A record: bits of the first 64 letters of the window; bits of its other 61 letters and the three below; the first
# child (low half) and the bits of the probability (high half); the row of the vector, or -1 (low half), and the bits of
# the vector's length (high half).
LOW, HIGH, CHILD, ROW = range(4)
WINDOW = 64 + 61  # adjacent letters of the alphabet that a record has a bit for
NOTHING = np.uint64(1 << 61)  # the bit of characters outside the alphabet; never set
BEFORE = np.uint64(1 << 62)  # set if the node has children whose letters come before the window
HALF, LOW_HALF = np.uint64(32), np.uint64(2**32 - 1)
NO_VECTOR = LOW_HALF
ZERO, ONE, ALL = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)


class IndexArrays(NamedTuple):
    """The arrays of the index as stored in model files, each in the smallest type that fits.

    A letter is the position of a character in the alphabet.
    """

    alphabet: npt.NDArray[np.uint32]  # (n_letters,) code points, ascending
    labels: npt.NDArray[Any]  # (n_nodes,) unsigned: the letter on the edge into the node
    children: npt.NDArray[Any]  # (n_nodes,) unsigned: how many children the node has; 0 for the root
    probs: npt.NDArray[Any]  # (n_nodes,) float32, or uint8: the number of a level
    prob_levels: npt.NDArray[np.float32]  # (256,), or empty if probs are float32
    rows: npt.NDArray[np.uint8]  # (n_nodes, 1 to 4) the bytes of the vector's row + 1, lowest first; 0 for no vector


Nodes = tuple[
    npt.NDArray[np.int32],  # letters, (largest code point + 1,): its letter, or n_letters if it has none
    npt.NDArray[np.uint64],  # letter_bits, (n_letters + 1, 2): its bit in LOW or HIGH; the last one is NOTHING
    npt.NDArray[np.uint64],  # records, (n_nodes + 2, 4)
    npt.NDArray[Any],  # labels, as in IndexArrays
]
"""The index as the kernels walk it. Two records without children follow the nodes: one for unseen characters, and one
at the end. (Passing a plain tuple to a kernel takes half the time of passing a named tuple.)"""


@kernel
def unpack(letter_bits, window, labels, children, probs, prob_levels, rows, lengths, records):
    """Fill the records; return whether the arrays are consistent. If not, the records must not be walked."""
    n_nodes = labels.size
    n_letters = letter_bits.shape[0] - 1
    child = np.int64(1 + n_letters)
    for node in range(1, n_nodes):
        last = child + np.int64(children[node])
        if last > n_nodes:
            return False
        before = np.int64(-1)
        low = high = np.uint64(0)
        # Clipped to [0, 1], so that a damaged file cannot bring infinity or NaN into the sums.
        prob = prob_levels[int(probs[node])] if prob_levels.size else np.float32(probs[node])
        prob = min(prob, np.float32(1.0)) if prob > 0.0 else np.float32(0.0)
        records[node, CHILD] = np.uint64(child) | np.uint64(np.float32(prob).view(np.uint32)) << HALF
        row = np.int64(-1)
        for byte in range(rows.shape[1]):
            row += np.int64(rows[node, byte]) << (8 * byte)
        if row >= lengths.size:
            return False
        records[node, ROW] = NO_VECTOR
        if row >= 0:
            records[node, ROW] = np.uint64(row) | np.uint64(np.float32(lengths[row]).view(np.uint32)) << HALF
        while child < last:
            letter = np.int64(labels[child])
            if letter <= before or letter >= n_letters:
                return False
            before = letter
            low |= letter_bits[letter, 0]
            high |= letter_bits[letter, 1]
            if letter < window:
                high |= BEFORE
            child += 1
        records[node, LOW], records[node, HIGH] = low, high
    for node in range(n_nodes, records.shape[0]):
        records[node, CHILD], records[node, ROW] = np.uint64(child), NO_VECTOR
    return child == n_nodes


@part
def searched(labels, letter, low, high):
    """Return the one of the children `low` to `high` (exclusive) along a letter, or -1."""
    while low < high:
        middle = (low + high) >> 1
        label = np.int64(labels[middle])
        if label == letter:
            return middle
        if label < letter:
            low = middle + 1
        else:
            high = middle
    return np.int64(-1)


# Counting the substrings of words -------------------------------------------------------------------------------------

# This goes level by level: first all single letters, then all of two letters, and so on. A level is the list of all
# spans of one length in all words, sorted by their text. A longer span is a letter followed by a span of the previous
# level. So going through a level in order, and appending each span that has a letter before it to the bucket of that
# letter, yields the next level sorted. Memory is read and written in long runs, one per letter, unlike with a hash
# table of all substrings.
#
# Spans of the same subword are adjacent, in the order of their words and positions. So the subwords of a level come in
# order, and their statistics are collected while their spans go by.
#
# The words are one text, with a 0 before each word and at the end; letters count from 1. A span is one number: its
# word, its position in the text (that of the letter, or the 0, before it) and flags.

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
def single_letters(text, n_letters, offsets, is_target):
    """Return where each letter's spans start, the same in all levels, and end in the first level, and that level."""
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
