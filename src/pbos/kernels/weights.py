"""Weights of subwords: a row of the matrix A of words = A S for each word."""

import numpy as np

from pbos.kernels import grown, kernel
from pbos.kernels.spans import end_of_run, find_spans
from pbos.kernels.sums import empty_values, log_total, write_posteriors
from pbos.kernels.trie import ONE, length_of, row_of

LEFT, RIGHT = ord("<"), ord(">")
POSTERIOR, UNIFORM, BOTH = 0, 1, 2  # how a span is weighted


@kernel
def write_weights(codes, starts, span_rows, span_lengths, span_probs, weighing, weights, values):
    """Write the weight of each span of a word, 0 if it has no vector; return the sum of weights, to divide them by.

    `weighing` is (unseen_char_prob, kind, start_weight, end_weight). A span weighs its posterior, 1, or the sum of
    both, times start_weight if it starts with the mark `<` and times end_weight if it ends with the mark `>`. Also
    returns the sum of weights times vector lengths. `values` comes from `empty_values`.
    """
    _, kind, start_weight, end_weight = weighing
    length = starts.size - 1
    if kind == UNIFORM:
        weights[starts[0] : starts[length]] = 1.0
    else:
        write_posteriors(starts, span_probs, weights, values)
    plus = 1.0 if kind == BOTH else 0.0
    total, total_length = 0.0, 0.0
    for start in range(np.uint64(length)):
        first = np.uint64(starts[start])
        at_start = start_weight if codes[start] == LEFT else 1.0
        for at in range(np.uint64(starts[start + ONE]) - first):
            factor = at_start * end_weight if codes[start + at] == RIGHT else at_start
            weight = (weights[first + at] + plus) * factor if span_rows[first + at] >= 0 else 0.0
            weights[first + at] = weight
            total += weight
            total_length += weight * span_lengths[first + at]
    return total, total_length


@kernel
def weights_of_run(nodes, weighing, codes, offsets, negligible, by_length):
    """Return the weights of some words as CSR (indptr, indices, data); see `weights_of_words`.

    Drops subwords whose weighted vector is shorter than `negligible` times the sum of such lengths in the word. With
    `by_length`, weights are multiplied by the lengths.
    """
    _, _, records, _ = nodes
    starts, span_nodes, span_probs = find_spans(nodes, weighing[0], codes, offsets)
    n_spans = span_nodes.size
    span_rows = span_nodes
    span_lengths = np.empty(n_spans, np.float32)
    for k in range(n_spans):
        node = span_nodes[k]  # -1 is the last record
        span_lengths[k] = length_of(records, node)
        span_rows[k] = row_of(records, node)
    indptr = np.zeros(offsets.size, np.int64)
    indices = np.empty(n_spans + 1, np.int32)  # one extra, as each entry is written before it is known to count
    data = np.empty(n_spans + 1, np.float32)
    weights = np.empty(n_spans, np.float64)
    values = empty_values()
    size = np.uint64(0)
    for word in range(offsets.size - 1):
        word_codes = codes[offsets[word] : offsets[word + 1]]
        slot = offsets[word] - offsets[0] + word
        word_starts = starts[slot : slot + word_codes.size + 1]
        total, total_length = write_weights(
            word_codes, word_starts, span_rows, span_lengths, span_probs, weighing, weights, values
        )
        least = negligible * total_length
        inverse = 1.0 / total if total > 0.0 else 0.0
        for k in range(np.uint64(word_starts[0]), np.uint64(word_starts[word_codes.size])):
            weight = weights[k]
            length = weight * span_lengths[k]
            indices[size] = span_rows[k]
            data[size] = inverse * (length if by_length else weight)
            size += np.uint64((weight > 0.0) & (length >= least))
        indptr[word + 1] = size
    return indptr, indices[:size], data[:size]


@kernel
def weights_of_words(nodes, weighing, codes, offsets):
    """Return the weights of many words as CSR (indptr, indices, data).

    The weights of a word sum to 1; a word without any subword that has a vector has none. A subword that occurs twice
    in a word has two entries.
    """
    n_words = offsets.size - 1
    indptr = np.zeros(n_words + 1, np.int64)
    capacity = 8 * codes.size + 16
    indices = np.empty(capacity, np.int32)
    data = np.empty(capacity, np.float32)
    size = 0
    first = 0
    while first < n_words:
        last = end_of_run(offsets, first)
        run_indptr, run_indices, run_data = weights_of_run(
            nodes, weighing, codes, offsets[first : last + 1], 0.0, False
        )
        if size + run_indices.size > capacity:
            capacity = 2 * capacity + run_indices.size
            indices = grown(indices, capacity)
            data = grown(data, capacity)
        indptr[first + 1 : last + 1] = size + run_indptr[1:]
        indices[size : size + run_indices.size] = run_indices
        data[size : size + run_indices.size] = run_data
        size += run_indices.size
        first = last
    return indptr, indices[:size], data[:size]


@kernel
def inspect_word(nodes, weighing, codes):
    """Return everything about the spans of one word: starts, probabilities, posteriors, weights, and the log total."""
    _, _, records, _ = nodes
    starts, span_nodes, probs = find_spans(nodes, weighing[0], codes, np.array([0, codes.size]))
    starts = starts[:-1]
    values = empty_values()
    posteriors = np.zeros(probs.size, np.float64)
    write_posteriors(starts, probs, posteriors, values)
    rows = np.empty(probs.size, np.int32)
    for k in range(probs.size):
        rows[k] = row_of(records, span_nodes[k])
    weights = np.zeros(probs.size, np.float64)
    total, _ = write_weights(codes, starts, rows, np.zeros(probs.size, np.float32), probs, weighing, weights, values)
    if total > 0.0:
        weights /= total
    return starts, probs, posteriors, weights, log_total(starts, probs)
