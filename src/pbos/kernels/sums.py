"""Sums over all segmentations of a word: forward, backward, posteriors, expected counts.

Functions about one word take `starts` from its first slot on, `length + 1` of them (see `kernels.spans`).

In long or improbable words, products of probabilities get too small for a float64. Backward values then carry an
exponent of their own: value * BIG ** exponent, with values kept in [1 / STEP, STEP). Probabilities are at least 2**-126
(float32), so two values whose exponents differ by two or more differ by a factor over 2**130: the smaller one cannot
change the sum.
"""

import numpy as np

from pbos.kernels import kernel, part
from pbos.kernels.spans import end_of_run, find_spans
from pbos.kernels.trie import ONE

BIG, STEP = 2.0**256, 2.0**128
PLAIN_LENGTH = 256  # words up to this length do without exponents ...
PLAIN_TOTAL = 2.0**-400  # ... if their total is at least this: then what underflows is below 2**-366 of it


@part
def write_forward(starts, span_probs, forward):
    """forward[0] = 1; forward[j] = sum over spans (i, j) of forward[i] * p(i, j), for a short word."""
    length = starts.size - 1
    for i in range(np.uint64(length + 1)):
        forward[i] = 0.0
    forward[0] = 1.0
    for i in range(np.uint64(length)):
        value, first = forward[i], np.uint64(starts[i])
        for at in range(np.uint64(starts[i + ONE]) - first):
            forward[i + ONE + at] += value * span_probs[first + at]


@part
def write_backward(starts, span_probs, backward, exponents):
    """backward[l] = 1; backward[i] = sum over spans (i, j) of p(i, j) * backward[j], for any word."""
    length = starts.size - 1
    backward[length], exponents[length] = 1.0, 0
    for i in range(length - 1, -1, -1):
        total, exponent = 0.0, exponents[i + 1]
        for k in range(starts[i], starts[i + 1]):
            j = i + 1 + k - starts[i]
            value, shift = span_probs[k] * backward[j], exponents[j] - exponent
            if shift == 0:
                total += value
            elif shift == -1:
                total += value / BIG
            elif shift > 0 and value > 0.0:
                total = value + (total / BIG if shift == 1 else 0.0)
                exponent = exponents[j]
        if total < 1.0 / STEP:
            total *= BIG
            exponent -= 1
        elif total >= STEP:
            total /= BIG
            exponent += 1
        backward[i], exponents[i] = total, exponent


@part
def share_of(prob, backward, exponents, i, j):
    """Return the probability that a segmentation with a cut at i goes on with the span (i, j)."""
    share, shift = prob * backward[j] / backward[i], exponents[j] - exponents[i]
    if shift == 0:
        return share
    return share * BIG if shift == 1 else share / BIG if shift == -1 else 0.0


@part
def write_posteriors(starts, span_probs, posteriors, forward, backward):
    """Write for each span of a word the total probability of the segmentations that contain it.

    a(i, j) = forward[i] * p(i, j) * backward[j] / forward[l]

    `posteriors` may be `span_probs` itself. `forward` and `backward` are space for length + 1 values each.
    """
    length = starts.size - 1
    total = 0.0
    if length <= PLAIN_LENGTH:
        write_forward(starts, span_probs, forward)
        total = forward[length]
    if total >= PLAIN_TOTAL:
        inverse = 1.0 / total
        backward[length] = 1.0
        for back in range(np.uint64(length)):
            i = np.uint64(length) - ONE - back
            before, first = forward[i] * inverse, np.uint64(starts[i])
            total = 0.0
            for at in range(np.uint64(starts[i + ONE]) - first):
                value = span_probs[first + at] * backward[i + ONE + at]
                total += value
                posteriors[first + at] = before * value
            backward[i] = total
    else:
        exponents = np.empty(length + 1, np.int64)
        write_backward(starts, span_probs, backward, exponents)
        cut = forward  # the probability of a cut at each position
        for i in range(length + 1):
            cut[i] = 0.0
        cut[0] = 1.0
        for i in range(length):
            for k in range(starts[i], starts[i + 1]):
                j = i + 1 + k - starts[i]
                posteriors[k] = cut[i] * share_of(span_probs[k], backward, exponents, i, j)
                cut[j] += posteriors[k]


@part
def log_total(starts, span_probs, values):
    """Return the logarithm of forward[l], the sum over all segmentations of the product of their probabilities.

    `values` is space for length + 1 numbers.
    """
    length = starts.size - 1
    total, exponent = 0.0, 0
    if length <= PLAIN_LENGTH:
        write_forward(starts, span_probs, values)
        total = values[length]
    if total < PLAIN_TOTAL:
        exponents = np.empty(length + 1, np.int64)
        write_backward(starts, span_probs, values, exponents)
        total, exponent = values[0], exponents[0]
    return np.log(total) + exponent * np.log(BIG)


@kernel
def inspected(starts, span_probs):
    """Return the posteriors of a word's spans, and the log total."""
    forward, backward = np.empty(starts.size, np.float64), np.empty(starts.size, np.float64)
    posteriors = np.empty(span_probs.size, np.float64)
    write_posteriors(starts, span_probs, posteriors, forward, backward)
    return posteriors, log_total(starts, span_probs, forward)


@kernel
def expected_counts(nodes, unseen_char_prob, codes, offsets, counts):
    """Return how often each node is expected as a piece of the words.

    e(s) = sum over words w and over the spans (i, j) of w that are s of counts[w] * a(i, j)

    Spans without a node are ignored.
    """
    _, _, records, _ = nodes
    sums = np.zeros(records.shape[0] - 2, np.float64)
    first = np.int64(0)
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        starts, span_nodes, span_probs = find_spans(nodes, unseen_char_prob, codes, offsets, first, last)
        forward, backward = np.empty(starts.size, np.float64), np.empty(starts.size, np.float64)
        for word in range(first, last):
            slot = offsets[word] - offsets[first] + word - first
            word_starts = starts[slot : slot + offsets[word + 1] - offsets[word] + 1]
            write_posteriors(word_starts, span_probs, span_probs, forward, backward)
            for k in range(word_starts[0], word_starts[word_starts.size - 1]):
                if span_nodes[k] >= 0:
                    sums[span_nodes[k]] += counts[word] * span_probs[k]
        first = last
    return sums


@kernel
def count_words(nodes, codes, offsets):
    """Return for each node how many of the words contain it."""
    _, _, records, _ = nodes
    n_words = np.zeros(records.shape[0] - 2, np.int32)
    last_word = np.full(n_words.size, -1, np.int32)
    first = np.int64(0)
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        starts, span_nodes, _ = find_spans(nodes, 1.0, codes, offsets, first, last)
        for word in range(first, last):
            slot = offsets[word] - offsets[first] + word - first
            for k in range(starts[slot], starts[slot + offsets[word + 1] - offsets[word]]):
                node = span_nodes[k]
                if node >= 0 and last_word[node] != word:
                    last_word[node] = word
                    n_words[node] += 1
        first = last
    return n_words


@kernel
def whole_words(nodes, codes, offsets):
    """Return the node of each word as a whole, -1 if there is none."""
    found = np.full(offsets.size - 1, -1, np.int64)
    first = np.int64(0)
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        starts, span_nodes, _ = find_spans(nodes, 1.0, codes, offsets, first, last)
        for word in range(first, last):
            slot = offsets[word] - offsets[first] + word - first
            if starts[slot + 1] - starts[slot] == offsets[word + 1] - offsets[word]:
                found[word] = span_nodes[starts[slot + 1] - 1]
        first = last
    return found
