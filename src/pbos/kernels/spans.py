"""Spans: every known subword at every position of every word.

Spans of many words are stored together, in slots: each code point of a word has a slot, and one more slot ends the
word, so word w of a run starts at slot `offsets[w] + w`. The spans that start at slot i are `starts[i]:starts[i + 1]`,
with lengths 1, 2, 3 ... without a gap, because every prefix of a known subword is known. So span k ends at slot
`i + 1 + k - starts[i]`.

In the hottest loops, indices are unsigned, which spares Numba the check for negative ones.
"""

import numpy as np

from pbos.kernels import grown, kernel, part
from pbos.kernels.machine import count_bits, float32_of_bits, prefetch
from pbos.kernels.trie import ALL, BEFORE, CHILD, HALF, HIGH, LOW, LOW_HALF, ONE, ZERO, searched

RUN = 512  # slots whose spans are found together: enough to keep many memory reads in flight


@part
def end_of_run(offsets, first):
    """Return the end of the run of words that starts at `first`: at most RUN slots, but at least one word."""
    last = first + 1
    while last < offsets.size - 1 and offsets[last + 1] - offsets[first] + last + 1 - first <= RUN:
        last += 1
    return last


@kernel
def find_spans(nodes, unseen_char_prob, codes, offsets, first_word, last_word):
    """Return starts, span_nodes and span_probs of all spans of words first to last (exclusive).

    Word w is `codes[offsets[w]:offsets[w + 1]]`. All slots walk down the index in parallel, one letter per step, so
    that the memory reads of a step overlap. A walk ends at the first string that is not in the index: no longer one can
    be. A single code point without a probability gets unseen_char_prob, so that every position can be reached. If it is
    not in the index at all, its node is -1.
    """
    letters_of, bits_of, records, labels = nodes
    no_letter = bits_of.shape[0] - 1
    unseen = records.shape[0] - 2
    n_slots = offsets[last_word] - offsets[first_word] + last_word - first_word
    letters = np.empty(n_slots, np.int32)
    starts = np.empty(n_slots + 1, np.int64)
    capacity = 8 * n_slots + 16
    slots = np.empty(capacity, np.int32)  # of each walk, step by step
    found = np.empty(capacity, np.int32)

    size = slot = longest = 0
    for word in range(first_word, last_word):
        longest = max(longest, offsets[word + 1] - offsets[word])
        for at in range(offsets[word], offsets[word + 1]):
            code = codes[at]
            letter = letters_of[code] if code < letters_of.size else no_letter
            letters[slot] = letter
            slots[size] = slot
            found[size] = letter + 1 if letter != no_letter else unseen
            starts[slot] = 0
            size += 1
            slot += 1
        letters[slot] = no_letter
        starts[slot] = 0
        slot += 1
    starts[slot] = 0

    level_ends = np.empty(longest + 1, np.int64)
    first, last = 0, size
    depth = 0
    while first < last:
        if 2 * last - first >= capacity:
            capacity = 2 * capacity + last - first
            slots = grown(slots, capacity)
            found = grown(found, capacity)
        level_ends[depth] = last
        depth += 1
        end = np.uint64(last)
        step = np.uint64(depth)
        for k in range(np.uint64(first), np.uint64(last)):
            place = np.uint64(slots[k])
            node = np.uint64(found[k])
            starts[place + ONE] = depth
            letter = np.uint64(letters[place + step])
            low, high, has_low, has_high = (
                bits_of[letter, 0],
                bits_of[letter, 1],
                records[node, LOW],
                records[node, HIGH],
            )
            child = np.int64(records[node, CHILD] & LOW_HALF)
            slots[end] = slots[k]
            if low | high == 0 or has_high & BEFORE:  # the letter, or one before it, is outside the window
                child = searched(labels, np.int64(letter), child, np.int64(records[node + ONE, CHILD] & LOW_HALF))
                is_known = child >= 0
            else:
                in_low = low - ONE if low != 0 else ALL
                in_high = high - ONE if high != 0 else ZERO
                child += count_bits(has_low & in_low) + count_bits(has_high & in_high)
                prefetch(records, 4 * child)
                is_known = (has_low & low | has_high & high) != 0
            found[end] = child
            end += np.uint64(is_known)
        first, last = last, np.int64(end)

    for slot in range(n_slots):
        starts[slot + 1] += starts[slot]
    span_nodes = np.empty(last, np.int32)
    span_probs = np.empty(last, np.float64)
    first = 0
    for level in range(depth):
        for k in range(np.uint64(first), np.uint64(level_ends[level])):
            at = np.uint64(starts[np.uint64(slots[k])] + level)
            node = np.uint64(found[k])
            prob = np.float64(float32_of_bits(records[node, CHILD] >> HALF))
            span_nodes[at] = found[k] if found[k] != unseen else -1
            span_probs[at] = prob if level > 0 or prob > 0.0 else unseen_char_prob
        first = level_ends[level]
    return starts, span_nodes, span_probs
