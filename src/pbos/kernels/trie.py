"""The subword index: a trie in which every node is a subword, every edge a character.

All prefixes of a known subword are known, and all its characters, so the set is a trie by itself. Node 0 is the root,
the empty string; nodes 1 to n are the n characters of the alphabet, in order; then come longer subwords in level order
(by length, then by parent, then by last character), so that the children of a node are side by side and sorted.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.kernels import kernel

BLOCK = 32  # nodes; larger blocks take fewer bytes and longer sums
CODE_BITS = 21  # a code point is below 2**21, so (parent, code point) packs into one int64
NO_KEY = -1
NO_ROW = -1
MAX_ROW = 2**31 - 2


class IndexArrays(NamedTuple):
    """The arrays of the index, as model files hold them. Each is as narrow as its numbers allow.

    A letter is the number of a character in the alphabet. Numba takes the tuple whole, but a field is slow to reach in
    it, so loops take what they need out of it first.
    """

    alphabet: npt.NDArray[np.uint32]  # (n_letters,) code points, ascending
    labels: npt.NDArray[Any]  # (n_nodes,) unsigned: the letter on the edge into the node
    children: npt.NDArray[Any]  # (n_nodes,) unsigned: how many children the node has; 0 for the root
    blocks: npt.NDArray[np.uint32]  # (n_blocks,) the first child of the nodes 0, BLOCK, 2 BLOCK ...; the root aside
    probs: npt.NDArray[Any]  # (n_nodes,) float32, or uint8: the number of a level
    prob_levels: npt.NDArray[np.float32]  # (256,), or empty where probs are no numbers of levels
    rows: npt.NDArray[np.uint8]  # (n_nodes, 1 to 4) the bytes of the vector's row + 1, lowest first; 0 for no vector


@kernel
def letters_of(alphabet, codes):
    """Return the letters of code points, -1 for those not in the alphabet."""
    letters = np.empty(codes.size, np.int32)
    for at in range(codes.size):
        low, high = 0, alphabet.size
        while low < high:
            middle = (low + high) >> 1
            if alphabet[middle] < codes[at]:
                low = middle + 1
            else:
                high = middle
        letters[at] = low if low < alphabet.size and alphabet[low] == codes[at] else -1
    return letters


@kernel
def child(labels, children, blocks, node, letter):
    """Return the child of `node` along `letter`, or -1. Never reads outside the arrays, whatever they hold."""
    if letter < 0:
        return np.int64(-1)
    if node == 0:
        return np.int64(letter) + 1
    low = np.int64(blocks[node // BLOCK])
    for before in range(node - node % BLOCK, node):
        low += np.int64(children[before])
    high = min(low + np.int64(children[node]), labels.size)
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


@kernel
def prob_of(probs, prob_levels, node):
    """Return the probability of a node; at most 1, also in a damaged file, whose infinities would never end a sum."""
    prob = np.float64(prob_levels[int(probs[node])] if prob_levels.size else probs[node])
    return prob if prob <= 1.0 else 1.0


@kernel
def row_of(rows, node):
    """Return the row of a node's vector, or -1."""
    row = np.int64(-1)
    for byte in range(rows.shape[1]):
        row += np.int64(rows[node, byte]) << (8 * byte)
    return row if row <= MAX_ROW else np.int64(NO_ROW)


@kernel
def grown(array, size):
    larger = np.zeros(size, array.dtype)
    larger[: array.size] = array
    return larger


@kernel
def slot_of(keys, key):
    """Return the slot that holds `key` in an open-addressing table, or the empty slot where it belongs."""
    slot = key % keys.size
    while keys[slot] != key and keys[slot] != NO_KEY:
        slot += 1
        if slot == keys.size:
            slot = 0
    return slot


@kernel
def rehashed(keys, ids, size):
    new_keys = np.full(size, NO_KEY, np.int64)
    new_ids = np.zeros(size, np.int32)
    for old in range(keys.size):
        if keys[old] != NO_KEY:
            slot = slot_of(new_keys, keys[old])
            new_keys[slot] = keys[old]
            new_ids[slot] = ids[old]
    return new_keys, new_ids


@kernel
def count_substrings(codes, offsets, word_counts, is_target, max_len):
    """Insert every substring of every word (up to max_len code points), in order of appearance.

    Returns for each node: parent, label, depth, the sum of word_counts over its occurrences, and the number of target
    words that hold it.
    """
    capacity = 1 << 12
    parents = np.zeros(capacity, np.int32)
    labels = np.zeros(capacity, np.uint32)
    depths = np.zeros(capacity, np.int32)
    counts = np.zeros(capacity, np.float64)
    holders = np.zeros(capacity, np.int32)
    last_word = np.full(capacity, -1, np.int32)
    keys = np.full(2 * capacity + 1, NO_KEY, np.int64)  # an odd size spreads keys that share their low bits
    ids = np.zeros(2 * capacity + 1, np.int32)
    size = 1  # the root

    for word in range(offsets.size - 1):
        end = offsets[word + 1]
        for start in range(offsets[word], end):
            if size + (end - start) >= capacity:
                capacity = 2 * capacity + (end - start)
                parents = grown(parents, capacity)
                labels = grown(labels, capacity)
                depths = grown(depths, capacity)
                counts = grown(counts, capacity)
                holders = grown(holders, capacity)
                last_word = grown(last_word, capacity)
                keys, ids = rehashed(keys, ids, 2 * capacity + 1)
            node = 0
            for at in range(start, min(end, start + max_len)):
                key = (np.int64(node) << CODE_BITS) | np.int64(codes[at])
                slot = slot_of(keys, key)
                if keys[slot] == NO_KEY:
                    keys[slot] = key
                    ids[slot] = size
                    parents[size] = node
                    labels[size] = codes[at]
                    depths[size] = depths[node] + 1
                    last_word[size] = -1
                    size += 1
                node = ids[slot]
                counts[node] += word_counts[word]
                if is_target[word] and last_word[node] != word:
                    last_word[node] = word
                    holders[node] += 1
    return parents[:size], labels[:size], depths[:size], counts[:size], holders[:size]


@kernel
def count_holders(index, codes, offsets):
    """Return for each node the number of words that hold it."""
    labels, children, blocks = index.labels, index.children, index.blocks
    letters = letters_of(index.alphabet, codes)
    holders = np.zeros(labels.size, np.int32)
    last_word = np.full(labels.size, -1, np.int32)
    for word in range(offsets.size - 1):
        end = offsets[word + 1]
        for start in range(offsets[word], end):
            node = np.int64(0)
            for at in range(start, end):
                node = child(labels, children, blocks, node, letters[at])
                if node < 0:
                    break
                if last_word[node] != word:
                    last_word[node] = word
                    holders[node] += 1
    return holders
