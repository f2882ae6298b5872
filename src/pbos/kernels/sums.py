"""Sums over all segmentations of a word: forward, backward, posteriors, expected counts.

Functions about one word take `starts` from its first slot on, `length + 1` of them (see `kernels.spans`).

In long words, products of probabilities get too small for a float64. Forward and backward values then carry an exponent
of their own: value = mantissa * BIG ** exponent, with mantissas kept in [1/SMALL_STEP, SMALL_STEP). Probabilities are
at least 2**-126 (float32), so two values whose exponents differ by two or more differ by a factor over 2**130: the
smaller one cannot change the sum.
"""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.spans import end_of_run, find_spans
from pbos.kernels.trie import ONE

BIG = 2.0**256
SMALL_STEP = 2.0**128
PLAIN_LENGTH = 256  # words up to this length do without exponents ...
PLAIN_TOTAL = 2.0**-400  # ... if their total is at least this: then what underflows is below 2**-366 of it


@kernel
def add(mantissas, exponents, at, mantissa, exponent):
    """Add mantissa * BIG ** exponent to the value at `at`."""
    shift = exponent - exponents[at]
    if mantissas[at] == 0.0 or shift >= 2:
        mantissas[at] = mantissa
        exponents[at] = exponent
    elif shift == 0:
        mantissas[at] += mantissa
    elif shift == 1:
        mantissas[at] = mantissas[at] / BIG + mantissa
        exponents[at] = exponent
    elif shift == -1:
        mantissas[at] += mantissa / BIG


@kernel
def settle(mantissas, exponents, at):
    """Bring a finished value's mantissa back into range."""
    while 0.0 < mantissas[at] < 1.0 / SMALL_STEP:
        mantissas[at] *= BIG
        exponents[at] -= 1
    while mantissas[at] >= SMALL_STEP:
        mantissas[at] /= BIG
        exponents[at] += 1


@kernel
def forward_values(starts, span_probs):
    """forward[0] = 1; forward[j] = sum over spans (i, j) of forward[i] * p(i, j)."""
    length = starts.size - 1
    mantissas = np.zeros(length + 1, np.float64)
    exponents = np.zeros(length + 1, np.int64)
    mantissas[0] = 1.0
    for i in range(length):
        settle(mantissas, exponents, i)
        for k in range(starts[i], starts[i + 1]):
            if span_probs[k] > 0.0:
                add(mantissas, exponents, i + 1 + k - starts[i], mantissas[i] * span_probs[k], exponents[i])
    settle(mantissas, exponents, length)
    return mantissas, exponents


@kernel
def backward_values(starts, span_probs):
    """backward[l] = 1; backward[i] = sum over spans (i, j) of p(i, j) * backward[j]."""
    length = starts.size - 1
    mantissas = np.zeros(length + 1, np.float64)
    exponents = np.zeros(length + 1, np.int64)
    mantissas[length] = 1.0
    for i in range(length - 1, -1, -1):
        for k in range(starts[i], starts[i + 1]):
            j = i + 1 + k - starts[i]
            if span_probs[k] > 0.0:
                add(mantissas, exponents, i, mantissas[j] * span_probs[k], exponents[j])
        settle(mantissas, exponents, i)
    return mantissas, exponents


@kernel
def plain(mantissa, exponent):
    """Return mantissa * BIG ** exponent, a result known to fit a float64."""
    while exponent > 0 and mantissa != 0.0:
        mantissa *= BIG
        exponent -= 1
    while exponent < 0 and mantissa != 0.0:
        mantissa /= BIG
        exponent += 1
    return mantissa


@kernel
def long_posteriors(starts, span_probs, posteriors):
    """Do what `write_posteriors` does, for words of any length."""
    length = starts.size - 1
    forward, forward_exp = forward_values(starts, span_probs)
    backward, backward_exp = backward_values(starts, span_probs)
    total, total_exp = forward[length], forward_exp[length]
    for i in range(length):
        for k in range(starts[i], starts[i + 1]):
            j = i + 1 + k - starts[i]
            value = 0.0
            if span_probs[k] > 0.0:
                mantissa = forward[i] * span_probs[k] * backward[j] / total
                value = min(plain(mantissa, forward_exp[i] + backward_exp[j] - total_exp), 1.0)
            posteriors[k] = value


@kernel
def write_forward(starts, span_probs, forward):
    """forward[0] = 1; forward[j] = sum over spans (i, j) of forward[i] * p(i, j), for a short word."""
    length = starts.size - 1
    forward[: length + 1] = 0.0
    forward[0] = 1.0
    for i in range(np.uint64(length)):
        value, first = forward[i], np.uint64(starts[i])
        for at in range(np.uint64(starts[i + ONE]) - first):
            forward[i + ONE + at] += value * span_probs[first + at]


@kernel
def empty_values():
    """Return space for the forward and backward values of a short word."""
    return np.empty((2, PLAIN_LENGTH + 1), np.float64)


@kernel
def write_posteriors(starts, span_probs, posteriors, values):
    """Write for each span of a word the total probability of the segmentations that contain it.

    a(i, j) = forward[i] * p(i, j) * backward[j] / forward[l]

    `posteriors` may be `span_probs` itself. `values` comes from `empty_values`.
    """
    length = starts.size - 1
    if length > PLAIN_LENGTH:
        long_posteriors(starts, span_probs, posteriors)
        return
    forward, backward = values[0], values[1]
    write_forward(starts, span_probs, forward)
    if forward[length] < PLAIN_TOTAL:
        long_posteriors(starts, span_probs, posteriors)
        return
    inverse = 1.0 / forward[length]
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


@kernel
def log_total(starts, span_probs):
    """Return the logarithm of forward[l], the sum over all segmentations of the product of their probabilities."""
    length = starts.size - 1
    if length <= PLAIN_LENGTH:
        forward = np.zeros(length + 1, np.float64)
        write_forward(starts, span_probs, forward)
        if forward[length] >= PLAIN_TOTAL:
            return np.log(forward[length])
    values, exponents = forward_values(starts, span_probs)
    return np.log(values[length]) + exponents[length] * np.log(BIG)


@kernel
def expected_counts(nodes, unseen_char_prob, codes, offsets, counts):
    """Return how often each node is expected as a piece of the words.

    e(s) = sum over words w and over the spans (i, j) of w that are s of counts[w] * a(i, j)

    Spans without a node are ignored.
    """
    _, _, records, _ = nodes
    sums = np.zeros(records.shape[0] - 2, np.float64)
    values = empty_values()
    first = 0
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        starts, span_nodes, span_probs = find_spans(nodes, unseen_char_prob, codes, offsets[first : last + 1])
        for word in range(first, last):
            slot = offsets[word] - offsets[first] + word - first
            word_starts = starts[slot : slot + offsets[word + 1] - offsets[word] + 1]
            write_posteriors(word_starts, span_probs, span_probs, values)
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
    first = 0
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        starts, span_nodes, _ = find_spans(nodes, 1.0, codes, offsets[first : last + 1])
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
    first = 0
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        starts, span_nodes, _ = find_spans(nodes, 1.0, codes, offsets[first : last + 1])
        for word in range(first, last):
            slot = offsets[word] - offsets[first] + word - first
            if starts[slot + 1] - starts[slot] == offsets[word + 1] - offsets[word]:
                found[word] = span_nodes[starts[slot + 1] - 1]
        first = last
    return found
