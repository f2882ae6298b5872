"""The subword index: a trie in which every node is a subword, every edge a character.

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
from pbos.kernels.machine import bits_of_float32

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
        records[node, CHILD] = np.uint64(child) | (bits_of_float32(prob) << HALF)
        row = np.int64(-1)
        for byte in range(rows.shape[1]):
            row += np.int64(rows[node, byte]) << (8 * byte)
        if row >= lengths.size:
            return False
        records[node, ROW] = NO_VECTOR if row < 0 else np.uint64(row) | (bits_of_float32(lengths[row]) << HALF)
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
