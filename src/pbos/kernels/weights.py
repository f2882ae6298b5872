"""Weights of subwords: a row of the matrix A of words = A S for each word."""

import numpy as np

from pbos.kernels import grown, kernel, part
from pbos.kernels.machine import float32_of_bits
from pbos.kernels.spans import end_of_run, find_spans
from pbos.kernels.sums import write_posteriors
from pbos.kernels.trie import HALF, LOW_HALF, MAX_ROW, NO_ROW, ONE, ROW

LEFT, RIGHT = ord("<"), ord(">")
POSTERIOR, UNIFORM, BOTH = 0, 1, 2  # how a span is weighted
LONGEST_CUT = 24  # code points; in longer words, what is negligible alone adds up


@part
def write_weights(codes, begin, starts, span_rows, span_lengths, weighing, weights):
    """Turn the posteriors of a word's spans into weights, 0 if a span has no vector; return their sum, to divide by.

    The word starts at `codes[begin]`.

    `weighing` is (unseen_char_prob, kind, start_weight, end_weight). A span weighs its posterior, 1, or the sum of
    both, times start_weight if it starts with the mark `<` and times end_weight if it ends with the mark `>`. Also
    returns the sum of weights times vector lengths.
    """
    _, kind, start_weight, end_weight = weighing
    scale = 0.0 if kind == UNIFORM else 1.0
    plus = 0.0 if kind == POSTERIOR else 1.0
    total, total_length = 0.0, 0.0
    for start in range(np.uint64(starts.size - 1)):
        first, code = np.uint64(starts[start]), np.uint64(begin) + start
        at_start = start_weight if codes[code] == LEFT else 1.0
        for at in range(np.uint64(starts[start + ONE]) - first):
            factor = at_start * end_weight if codes[code + at] == RIGHT else at_start
            weight = (scale * weights[first + at] + plus) * factor if span_rows[first + at] >= 0 else 0.0
            weights[first + at] = weight
            total += weight
            total_length += weight * span_lengths[first + at]
    return total, total_length


@part
def weights_of_run(nodes, weighing, codes, offsets, first, last, negligible, by_length):
    """Return the weights of words first to last (exclusive) as CSR (indptr, indices, data); see `weights_of_words`.

    The arrays of indices and data are longer than needed.
    """
    records = nodes[2]
    starts, span_nodes, weights = find_spans(nodes, weighing[0], codes, offsets, first, last)
    span_rows = span_nodes
    span_lengths = np.empty(weights.size, np.float32)
    for k in range(weights.size):
        fact = records[span_nodes[k], ROW]  # -1 is the last record
        span_lengths[k] = float32_of_bits(fact >> HALF)
        row = np.int64(fact & LOW_HALF)
        span_rows[k] = row if row <= MAX_ROW else NO_ROW
    indptr = np.empty(last - first + 1, np.int64)
    indices = np.empty(weights.size + 1, np.int32)  # one extra, as each entry is written before it is known to count
    data = np.empty(weights.size + 1, np.float32)
    forward, backward = np.empty(starts.size, np.float64), np.empty(starts.size, np.float64)
    indptr[0] = 0
    size = np.uint64(0)
    for word in range(first, last):
        begin, length = offsets[word], offsets[word + 1] - offsets[word]
        slot = begin - offsets[first] + word - first
        word_starts = starts[slot : slot + length + 1]
        if weighing[1] != UNIFORM:
            write_posteriors(word_starts, weights, weights, forward, backward)
        total, total_length = write_weights(codes, begin, word_starts, span_rows, span_lengths, weighing, weights)
        least = negligible * total_length if length <= LONGEST_CUT else 0.0
        inverse = 1.0 / total if total > 0.0 else 0.0
        for k in range(np.uint64(word_starts[0]), np.uint64(word_starts[length])):
            weight = weights[k]
            length_here = weight * span_lengths[k]
            indices[size] = span_rows[k]
            data[size] = inverse * (length_here if by_length else weight)
            size += np.uint64((weight > 0.0) & (length_here >= least))
        indptr[word - first + 1] = size
    return indptr, indices, data


@kernel
def weights_of_words(nodes, weighing, codes, offsets, negligible, by_length):
    """Return the weights of many words as CSR (indptr, indices, data).

    The weights of a word sum to 1; a word without any subword that has a vector has none. A subword that occurs twice
    in a word has two entries. Words of up to LONGEST_CUT code points lose subwords whose weighted vector is shorter
    than `negligible` times the sum of such lengths. With `by_length`, weights are multiplied by the vectors' lengths.
    """
    n_words = offsets.size - 1
    indptr = np.empty(n_words + 1, np.int64)
    indptr[0] = 0
    indices = np.empty(8 * codes.size + 16, np.int32)
    data = np.empty(8 * codes.size + 16, np.float32)
    size = 0
    first = np.int64(0)
    while first < n_words:
        last = end_of_run(offsets, first)
        run_indptr, run_indices, run_data = weights_of_run(
            nodes, weighing, codes, offsets, first, last, negligible, by_length
        )
        more = run_indptr[last - first]
        if size + more > indices.size:
            indices = grown(indices, 2 * (size + more))
            data = grown(data, 2 * (size + more))
        for word in range(first, last):
            indptr[word + 1] = size + run_indptr[word - first + 1]
        for k in range(more):
            indices[size + k], data[size + k] = run_indices[k], run_data[k]
        size += more
        first = last
    return indptr, indices[:size], data[:size]
