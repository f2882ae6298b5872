"""The segmentation lattice of one word: spans, forward, backward, posteriors, best paths, samples.

A span is a subword at a place: `ends[k]`, `nodes[k]`, `span_probs[k]`, with the spans that start at position i in
`starts[i]:starts[i + 1]`, by ascending end. Positions lie between code points: 0 to l.

Numbers too small for a float64 come up soon (a product over the pieces of a long word), so forward and backward values
carry an exponent of their own: value = mantissa * BIG ** exponent, with mantissas kept in [1/SMALL_STEP, SMALL_STEP).
With probabilities of at least 2**-126 (float32), two values whose exponents differ by two or more differ by a factor
over 2**130: the smaller one cannot change the sum.
"""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.trie import child, grown, letters_of, prob_of, row_of

BIG = 2.0**256
SMALL_STEP = 2.0**128
LEFT, RIGHT = ord("<"), ord(">")
POSTERIOR, UNIFORM, BOTH = 0, 1, 2  # what a span weighs


@kernel
def find_spans(index, unseen_char_prob, codes):
    """Return starts, ends, nodes, span_probs of all spans with a probability or a node.

    The walk from each position stops at the first string that is no node: no longer one can be. A single code point
    never seen gets unseen_char_prob, so every position can be reached.
    """
    length = codes.size
    labels, children, blocks, probs, levels = index.labels, index.children, index.blocks, index.probs, index.prob_levels
    letters = letters_of(index.alphabet, codes)
    starts = np.empty(length + 1, np.int64)
    capacity = 4 * length + 16
    ends = np.zeros(capacity, np.int32)
    nodes = np.zeros(capacity, np.int32)
    span_probs = np.zeros(capacity, np.float64)
    size = 0
    for start in range(length):
        starts[start] = size
        if size + length - start > capacity:  # here, as a loop that may replace its arrays is slow
            capacity = 2 * capacity + length
            ends = grown(ends, capacity)
            nodes = grown(nodes, capacity)
            span_probs = grown(span_probs, capacity)
        node = np.int64(0)
        for at in range(start, length):
            node = child(labels, children, blocks, node, letters[at])
            prob = prob_of(probs, levels, node) if node >= 0 else 0.0
            if at == start and prob <= 0.0:
                prob = unseen_char_prob
            elif node < 0:
                break
            ends[size] = at + 1
            nodes[size] = node
            span_probs[size] = prob
            size += 1
            if node < 0:
                break
    starts[length] = size
    return starts, ends[:size], nodes[:size], span_probs[:size]


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
def forward_values(starts, ends, span_probs):
    """forward[0] = 1; forward[j] = sum over spans (i, j) of forward[i] * p(i, j)."""
    length = starts.size - 1
    mantissas = np.zeros(length + 1, np.float64)
    exponents = np.zeros(length + 1, np.int64)
    mantissas[0] = 1.0
    for i in range(length):
        settle(mantissas, exponents, i)
        for k in range(starts[i], starts[i + 1]):
            if span_probs[k] > 0.0:
                add(mantissas, exponents, ends[k], mantissas[i] * span_probs[k], exponents[i])
    settle(mantissas, exponents, length)
    return mantissas, exponents


@kernel
def backward_values(starts, ends, span_probs):
    """backward[l] = 1; backward[i] = sum over spans (i, j) of p(i, j) * backward[j]."""
    length = starts.size - 1
    mantissas = np.zeros(length + 1, np.float64)
    exponents = np.zeros(length + 1, np.int64)
    mantissas[length] = 1.0
    for i in range(length - 1, -1, -1):
        for k in range(starts[i], starts[i + 1]):
            if span_probs[k] > 0.0:
                add(mantissas, exponents, i, mantissas[ends[k]] * span_probs[k], exponents[ends[k]])
        settle(mantissas, exponents, i)
    return mantissas, exponents


@kernel
def plain(mantissa, exponent):
    """Return mantissa * BIG ** exponent for a result known to fit a float64."""
    while exponent > 0 and mantissa != 0.0:
        mantissa *= BIG
        exponent -= 1
    while exponent < 0 and mantissa != 0.0:
        mantissa /= BIG
        exponent += 1
    return mantissa


@kernel
def posteriors(starts, ends, span_probs):
    """Return for each span the total probability of the segmentations that contain it.

    a(i, j) = forward[i] * p(i, j) * backward[j] / forward[l]
    """
    length = starts.size - 1
    forward, forward_exp = forward_values(starts, ends, span_probs)
    backward, backward_exp = backward_values(starts, ends, span_probs)
    total, total_exp = forward[length], forward_exp[length]
    result = np.zeros(span_probs.size, np.float64)
    for i in range(length):
        for k in range(starts[i], starts[i + 1]):
            j = ends[k]
            if span_probs[k] > 0.0:
                mantissa = forward[i] * span_probs[k] * backward[j] / total
                result[k] = min(plain(mantissa, forward_exp[i] + backward_exp[j] - total_exp), 1.0)
    return result


@kernel
def log_total(starts, ends, span_probs):
    """Return the logarithm of forward[l], the sum over all segmentations of the product of their probabilities."""
    forward, exponents = forward_values(starts, ends, span_probs)
    last = starts.size - 1
    return np.log(forward[last]) + exponents[last] * np.log(BIG)


@kernel
def best_paths(starts, ends, span_probs, letters, letter_keys, n):
    """Return the n most probable paths, best first: scores (log), and for each path its span at every position.

    For every position, from the last to the first, the n best ways to finish the word from there are kept. Each way is
    a span and the rank of the way that goes on from the span's end. Among equals, the longer first span comes first.

    Of paths that cut between the same letters, and differ in what they do with boundary marks, only the best counts.
    `letters` has the number of letters before each position, `letter_keys` a random number of 63 bits for each such
    number; cuts are compared by these numbers, combined.
    """
    length = starts.size - 1
    scores = np.full((length + 1, n), -np.inf)
    spans = np.zeros((length + 1, n), np.int64)
    ranks = np.zeros((length + 1, n), np.int64)
    keys = np.zeros((length + 1, n), np.int64)
    found = np.zeros(length + 1, np.int64)
    scores[length, 0] = 0.0
    found[length] = 1
    for i in range(length - 1, -1, -1):
        for k in range(starts[i + 1] - 1, starts[i] - 1, -1):
            if span_probs[k] <= 0.0:
                continue
            step = np.log(span_probs[k])
            for rank in range(found[ends[k]]):
                score = step + scores[ends[k], rank]
                if found[i] == n and score <= scores[i, n - 1]:
                    break  # the ways from the span's end only get worse
                key = keys[ends[k], rank]
                if letters[ends[k]] > letters[i]:
                    key ^= letter_keys[letters[i]]
                at = 0
                while at < found[i] and keys[i, at] != key:
                    at += 1
                if at < found[i] and scores[i, at] >= score:
                    continue
                if at == found[i]:  # new cuts; else those at `at` make place
                    at = min(at, n - 1)
                    found[i] = at + 1
                while at > 0 and scores[i, at - 1] < score:
                    scores[i, at] = scores[i, at - 1]
                    spans[i, at] = spans[i, at - 1]
                    ranks[i, at] = ranks[i, at - 1]
                    keys[i, at] = keys[i, at - 1]
                    at -= 1
                scores[i, at] = score
                spans[i, at] = k
                ranks[i, at] = rank
                keys[i, at] = key
    return scores, spans, ranks, found


@kernel
def sample_path(starts, ends, span_probs, backward, exponents, uniforms, path):
    """Draw one path from p(g|w) into `path` (its spans, in order); return its number of spans.

    From position i the span (i, j) is taken with probability p(i, j) * backward[j] / backward[i].
    """
    length = starts.size - 1
    position = 0
    size = 0
    while position < length:
        remaining = uniforms[position]
        chosen = -1
        for k in range(starts[position], starts[position + 1]):
            if span_probs[k] <= 0.0:
                continue
            j = ends[k]
            chosen = k
            remaining -= plain(span_probs[k] * backward[j] / backward[position], exponents[j] - exponents[position])
            if remaining < 0.0:
                break
        path[size] = chosen
        size += 1
        position = ends[chosen]
    return size


@kernel
def span_weights(codes, starts, ends, nodes, span_probs, rows, weighting, start_weight, end_weight):
    """Return the weight of each span, 0 where it owns no vector, and the sum to divide them by.

    A span weighs its posterior, 1, or the sum of both, times start_weight if it begins with the mark `<` and times
    end_weight if it ends with the mark `>`.
    """
    values = np.ones(nodes.size, np.float64) if weighting == UNIFORM else posteriors(starts, ends, span_probs)
    total = 0.0
    for start in range(starts.size - 1):
        for k in range(starts[start], starts[start + 1]):
            if nodes[k] < 0 or row_of(rows, nodes[k]) < 0:
                values[k] = 0.0
                continue
            factor = start_weight if codes[start] == LEFT else 1.0
            if codes[ends[k] - 1] == RIGHT:
                factor *= end_weight
            if weighting == BOTH:
                values[k] += 1.0
            values[k] *= factor
            total += values[k]
    return values, total


@kernel
def weights_of_words(index, unseen_char_prob, weighting, start_weight, end_weight, codes, offsets):
    """Return the weights of many words as CSR (indptr, indices, data); a row that occurs twice in a word stands twice.

    The weights of a word sum to 1; a word none of whose spans owns a vector has none.
    """
    rows = index.rows
    n_words = offsets.size - 1
    indptr = np.zeros(n_words + 1, np.int64)
    capacity = 8 * codes.size + 16
    indices = np.zeros(capacity, np.int32)
    data = np.zeros(capacity, np.float32)
    size = 0
    for word in range(n_words):
        word_codes = codes[offsets[word] : offsets[word + 1]]
        starts, ends, nodes, span_probs = find_spans(index, unseen_char_prob, word_codes)
        values, total = span_weights(
            word_codes, starts, ends, nodes, span_probs, rows, weighting, start_weight, end_weight
        )
        if size + nodes.size > capacity:
            capacity = 2 * capacity + nodes.size
            indices = grown(indices, capacity)
            data = grown(data, capacity)
        for k in range(nodes.size):
            if values[k] > 0.0:
                indices[size] = row_of(rows, nodes[k])
                data[size] = values[k] / total
                size += 1
        indptr[word + 1] = size
    return indptr, indices[:size], data[:size]


@kernel
def expected_counts(index, unseen_char_prob, codes, offsets, counts):
    """Return for each node how often it is expected as a piece of the words.

    e(s) = sum over words w and over the spans (i, j) of w that are s of counts[w] * a(i, j)

    A span without a node adds nothing.
    """
    sums = np.zeros(index.labels.size, np.float64)
    for word in range(offsets.size - 1):
        starts, ends, nodes, span_probs = find_spans(index, unseen_char_prob, codes[offsets[word] : offsets[word + 1]])
        span_posteriors = posteriors(starts, ends, span_probs)
        for k in range(nodes.size):
            if nodes[k] >= 0:
                sums[nodes[k]] += counts[word] * span_posteriors[k]
    return sums
