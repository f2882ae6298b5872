"""The subword trie: every node is a subword, every edge a code point.

All prefixes of a known subword are known, so the set is a trie by itself. It is stored in level order with the children
of a node side by side, sorted by code point: `first_child[node]:first_child[node + 1]` are the children of `node`, and
`labels[node]` is the code point on the edge into it. Node 0 is the root, the empty string.
"""

import numpy as np

from pbos.kernels import kernel

CODE_BITS = 21  # a code point is below 2**21, so (parent, code point) packs into one int64
NO_KEY = -1


@kernel
def child(first_child, labels, node, code):
    """Return the child of `node` along `code`, or -1. Never reads outside the arrays, whatever they hold."""
    low = np.int64(first_child[node])
    high = min(np.int64(first_child[node + 1]), labels.size)
    while low < high:
        middle = (low + high) >> 1
        label = labels[middle]
        if label == code:
            return middle
        if label < code:
            low = middle + 1
        else:
            high = middle
    return -1


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
def count_holders(first_child, labels, codes, offsets):
    """Return for each node of a trie the number of words that hold it."""
    holders = np.zeros(labels.size, np.int32)
    last_word = np.full(labels.size, -1, np.int32)
    for word in range(offsets.size - 1):
        end = offsets[word + 1]
        for start in range(offsets[word], end):
            node = 0
            for at in range(start, end):
                node = child(first_child, labels, node, codes[at])
                if node < 0:
                    break
                if last_word[node] != word:
                    last_word[node] = word
                    holders[node] += 1
    return holders
