"""Spelling neighbors: the training words near a word in spelling, what is known about each, and what they add up to.

A few numbers describe each neighbor (`write_facts`); one hidden layer makes of them how much its vector counts, and how
much of what its own spelling does not explain (see `pbos.training.neighbors`).
"""

import numpy as np

from pbos.kernels import kernel, part
from pbos.kernels.lattice import LEFT, RIGHT, find_spans
from pbos.kernels.machine import LINE, as_float32, prefetch, prefetch_row
from pbos.kernels.text import MULTIPLIER
from pbos.kernels.trie import LOW_HALF, MAX_ROW, ROW
from pbos.kernels.vectors import fast_sums

FACTS = 11  # about a neighbor, besides the number of its rule
MOST_EXPONENT = np.float32(5)  # a neighbor counts exp(this) at most, the word's own spelling 1
TINY = np.float32(1e-12)


# Search ---------------------------------------------------------------------------------------------------------------


@part
def rows_and_values(nodes, weighing, codes, starts, span_nodes, rows, values):
    """Write for each span of a word its row, -1 for none, and how much it tells: the square of length times factors."""
    _, _, start_weight, end_weight = weighing
    for begin in range(codes.size):
        for at in range(starts[begin], starts[begin + 1]):
            length = np.float32(at - starts[begin] + 1)
            factor = start_weight if codes[begin] == LEFT else 1.0
            if codes[begin + at - starts[begin]] == RIGHT:
                factor *= end_weight
            row = nodes[2][span_nodes[at], ROW] & LOW_HALF
            rows[at] = np.int64(row) if span_nodes[at] >= 0 and row <= MAX_ROW else -1
            values[at] = np.float32(factor * factor) * length * length


@kernel
def squared_lengths(nodes, weighing, codes, offsets, indptr):
    """Return the squared length of each word's features: of its spans with a posting list of n words, value / n."""
    found = np.zeros(offsets.size - 1, np.float32)
    for word in range(found.size):
        starts, span_nodes, values = find_spans(nodes, 1.0, codes, offsets, word, word + 1)
        rows = np.empty(span_nodes.size, np.int64)
        rows_and_values(nodes, weighing, codes[offsets[word] : offsets[word + 1]], starts, span_nodes, rows, values)
        for at in range(rows.size):
            if rows[at] >= 0 and indptr[rows[at] + 1] > indptr[rows[at]]:
                found[word] += np.float32(values[at] / (indptr[rows[at] + 1] - indptr[rows[at]]))
    return found


@kernel
def find_near(nodes, weighing, codes, offsets, indptr, posted, lengths, found, scores):
    """Write the words nearest to each of many by the cosine of their features, nearest first; -1 for no more.

    `posted[indptr[r]:indptr[r + 1]]` are the training words with a subword of row r, `lengths` the lengths of their
    features. Scores are the cosines times the length of the word's own. Of words that are as near, the first come
    first. Sums are kept in a hash table of their own size.
    """
    most = found.shape[1]
    for word in range(offsets.size - 1):
        starts, span_nodes, values = find_spans(nodes, 1.0, codes, offsets, word, word + 1)
        rows = np.empty(span_nodes.size, np.int64)
        rows_and_values(nodes, weighing, codes[offsets[word] : offsets[word + 1]], starts, span_nodes, rows, values)
        n_sums = 0
        for at in range(rows.size):
            if rows[at] >= 0:
                prefetch(posted, indptr[rows[at]])
                n_sums += indptr[rows[at] + 1] - indptr[rows[at]]
        n_slots = 16
        while 3 * n_slots < 4 * n_sums:
            n_slots *= 2
        keys, sums = np.full(n_slots, -1, np.int32), np.zeros(n_slots, np.float32)
        for at in range(rows.size):
            if rows[at] < 0:
                continue
            first, last = indptr[rows[at]], indptr[rows[at] + 1]
            value = np.float32(values[at] / (last - first))
            for k in range(first, last):
                other = np.int32(posted[k])
                slot = np.int64((np.uint64(other) * MULTIPLIER) >> np.uint64(32)) & (n_slots - 1)
                while keys[slot] != other and keys[slot] >= 0:
                    slot = (slot + 1) & (n_slots - 1)
                keys[slot] = other
                sums[slot] += value
        n_found = 0
        for slot in range(n_slots):
            other = keys[slot]
            if other < 0:
                continue
            score, at = sums[slot] / lengths[other], n_found
            while at > 0 and scores[word, at - 1] <= score:
                if scores[word, at - 1] == score and found[word, at - 1] < other:
                    break
                at -= 1
            if at == most:
                continue
            n_found = min(n_found + 1, most)
            for later in range(n_found - 1, at, -1):
                found[word, later], scores[word, later] = found[word, later - 1], scores[word, later - 1]
            found[word, at], scores[word, at] = other, score
        for at in range(n_found, most):
            found[word, at] = -1


# Facts about neighbors ------------------------------------------------------------------------------------------------


@part
def rule_of(codes, first, last, others, other_first, other_last):
    """Return a hash of what remains of two words after their common prefix."""
    found = np.uint64(last - first)
    for at in range(first, last):
        found = (found ^ np.uint64(codes[at])) * MULTIPLIER
        found ^= found >> np.uint64(32)
    for at in range(other_first, other_last):
        found = (found ^ np.uint64(others[at])) * MULTIPLIER
        found ^= found >> np.uint64(32)
    return np.int64(found >> np.uint64(1))


@part
def write_facts(codes, words, offsets, near, scores, vector, vectors, facts, rules):
    """Write what is known about the neighbors of a word with the given vector, and their rules; return how many.

    Facts are: the score as a share of the best one; the rank; common prefix and suffix as shares of both words; the
    lengths of both; the cosine of the vectors, and their lengths. Words have marks. There is no rule (0) without a
    letter in common.
    """
    dims, line, size = vector.size, LINE // 2, codes.size
    square = np.float32(0)
    for dim in range(dims):
        square += vector[dim] * vector[dim]
    for at in range(near.size):
        if near[at] >= 0:
            prefetch_row(vectors, near[at], 2 * dims, line)
    for at in range(near.size):
        other = np.int64(near[at])
        if other < 0:
            return at
        first, last = offsets[other], offsets[other + 1]
        most, prefix, suffix = min(size, last - first), 0, 0
        while prefix < most and codes[prefix] == words[first + prefix]:
            prefix += 1
        while suffix < most and codes[size - 1 - suffix] == words[last - 1 - suffix]:
            suffix += 1
        rules[at] = rule_of(codes, prefix, size, words, first + prefix, last) if prefix > 1 else 0
        product, length = np.float32(0), np.float32(0)
        for dim in range(dims):
            value = as_float32(vectors[other, dim])
            product += value * vector[dim]
            length += value * value
        facts[at, 0], facts[at, 1] = scores[at] / scores[0], np.log(np.float32(1 + other))
        facts[at, 2], facts[at, 3] = prefix / size, prefix / (last - first)
        facts[at, 4], facts[at, 5] = suffix / size, suffix / (last - first)
        facts[at, 6], facts[at, 7] = np.log(np.float32(size)), np.log(np.float32(last - first))
        facts[at, 8] = product / np.sqrt(max(square * length, TINY))
        facts[at, 9], facts[at, 10] = np.log(max(square, TINY)), np.log(max(length, TINY))
    return near.size


# The layer ------------------------------------------------------------------------------------------------------------


@part
def place_of(rules, rule):
    """Return the place of a rule among ascending ones, -1 if it is not one of them."""
    low, high = 0, rules.size
    while low < high:
        middle = (low + high) // 2
        if rules[middle] < rule:
            low = middle + 1
        else:
            high = middle
    return low if low < rules.size and rules[low] == rule else -1


@part
def apply_layer(facts, number, hidden, output, units):
    """Write the hidden units of one neighbor; return how much its vector counts, and the share of what is its own.

    `hidden` has for each unit the weights of facts and of the rule's number, and a constant; `output` for the logarithm
    of the first result and for the second those of the units, and a constant.
    """
    n_units, n_facts = hidden.shape[0], facts.size
    first, second = output[0, n_units], output[1, n_units]
    for unit in range(n_units):
        total = hidden[unit, n_facts + 1] + hidden[unit, n_facts] * number
        for fact in range(n_facts):
            total += hidden[unit, fact] * facts[fact]
        total = np.tanh(total)
        units[unit] = total
        first += output[0, unit] * total
        second += output[1, unit] * total
    return np.exp(min(first, MOST_EXPONENT)), second


@fast_sums
def add_near(codes, words, near, scores, vectors, rules, numbers, hidden, output, mean, scale, out):
    """Add neighbors to composed vectors, whose lengths around the mean stay the same.

    `codes` and `words` are (codes, offsets) of these words and the training words. Returns the share of each neighbor
    (n_words, n_near), and the facts and the rules.
    """
    (letters, ends), (others, offsets), n_near, dims = codes, words, near.shape[1], out.shape[1]
    facts, found = np.zeros((*near.shape, FACTS), np.float32), np.zeros(near.shape, np.int64)
    units, shares = np.empty(hidden.shape[0], np.float32), np.zeros(near.shape, np.float32)
    vector, owns = np.empty(dims, np.float32), np.empty(n_near, np.float32)
    for word in range(near.shape[0]):
        square = np.float32(0)
        for dim in range(dims):
            vector[dim] = (out[word, dim] - mean[dim]) / scale
            square += vector[dim] * vector[dim]
        own_letters = letters[ends[word] : ends[word + 1]]
        known = near[word], scores[word], vector, vectors
        n = write_facts(own_letters, others, offsets, *known, facts[word], found[word])
        total = np.float32(1)
        for at in range(n):
            place = place_of(rules, found[word, at])
            number = numbers[place] if place >= 0 else np.float32(0)
            shares[word, at], owns[at] = apply_layer(facts[word, at], number, hidden, output, units)
            total += shares[word, at]
        for at in range(n):
            count, own, other = shares[word, at], shares[word, at] * owns[at], near[word, at]
            for dim in range(dims):
                vector[dim] += count * as_float32(vectors[other, dim]) + own * as_float32(vectors[other, dims + dim])
            shares[word, at] /= total
        if n:
            length = np.float32(0)
            for dim in range(dims):
                length += vector[dim] * vector[dim]
            factor = scale * np.sqrt(square / max(length, TINY))
            for dim in range(dims):
                out[word, dim] = mean[dim] + factor * vector[dim]
    return shares, facts, found
