"""The lattice of a word: its spans, sums over all its segmentations, and the weights of its subwords.

A span is a known subword at a position of a word. Spans of many words are stored together, in slots: each code point of
a word has a slot, and one more slot ends the word, so word w of a run starts at slot `offsets[w] + w`. The spans that
start at slot i are `starts[i]:starts[i + 1]`, with lengths 1, 2, 3 ... without a gap, because every prefix of a known
subword is known. So span k ends at slot `i + 1 + k - starts[i]`. Functions about one word take `starts` from its first
slot on, `length + 1` of them.

In the hottest loops, indices are unsigned, which spares Numba the check for negative ones.
"""

import numpy as np

from pbos.kernels import grown, kernel, part
from pbos.kernels.machine import count_bits, prefetch
from pbos.kernels.trie import ALL, BEFORE, CHILD, HALF, HIGH, LOW, LOW_HALF, MAX_ROW, NO_ROW, ONE, ROW, ZERO, searched

RUN = 512  # slots whose spans are found together: enough to keep many memory reads in flight


@part
def end_of_run(offsets, first):
    """Return the end of the run of words that starts at `first`: at most RUN slots, but at least one word."""
    last = first + 1
    while last < offsets.size - 1 and offsets[last + 1] - offsets[first] + last + 1 - first <= RUN:
        last += 1
    return last


@part
def slots_of_word(values, offsets, first, word):
    """Return the values of the slots of a word, from those of a run that begins with word `first`."""
    slot = offsets[word] - offsets[first] + word - first
    return values[slot : slot + offsets[word + 1] - offsets[word] + 1]


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
    starts = np.zeros(n_slots + 1, np.int64)
    capacity = 8 * n_slots + 16
    slots = np.empty(capacity, np.int32)  # of each walk, step by step
    found = np.empty(capacity, np.int32)

    last = slot = longest = 0
    for word in range(first_word, last_word):
        longest = max(longest, offsets[word + 1] - offsets[word])
        for at in range(offsets[word], offsets[word + 1]):
            code = codes[at]
            letter = letters_of[code] if code < letters_of.size else no_letter
            letters[slot] = letter
            slots[last] = slot
            found[last] = letter + 1 if letter != no_letter else unseen
            last += 1
            slot += 1
        letters[slot] = no_letter
        slot += 1

    level_ends = np.empty(longest + 1, np.int64)
    first = depth = 0
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
            low, high = bits_of[letter, 0], bits_of[letter, 1]
            has_low, has_high = records[node, LOW], records[node, HIGH]
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
            prob = np.float64(np.uint32(records[node, CHILD] >> HALF).view(np.float32))
            span_nodes[at] = found[k] if found[k] != unseen else -1
            span_probs[at] = prob if level > 0 or prob > 0.0 else unseen_char_prob
        first = level_ends[level]
    return starts, span_nodes, span_probs


# Sums over all segmentations ------------------------------------------------------------------------------------------

# In long or improbable words, products of probabilities get too small for a float64. Backward values then carry an
# exponent of their own: value * BIG ** exponent, with values kept in [1 / STEP, STEP). Probabilities are at least
# 2**-126 (float32), so two values whose exponents differ by two or more differ by a factor over 2**130: the smaller one
# cannot change the sum.
BIG, STEP = 2.0**256, 2.0**128
PLAIN_LENGTH = 256  # words up to this length do without exponents ...
PLAIN_TOTAL = 2.0**-400  # ... if their total is at least this: then what underflows is below 2**-366 of it


@part
def write_forward(starts, span_probs, forward):
    """forward[0] = 1; forward[j] = sum over spans (i, j) of forward[i] * p(i, j). Return the last, 0 if too long."""
    length = starts.size - 1
    if length > PLAIN_LENGTH:
        return 0.0
    for i in range(np.uint64(length + 1)):
        forward[i] = 0.0
    forward[0] = 1.0
    for i in range(np.uint64(length)):
        value, first = forward[i], np.uint64(starts[i])
        for at in range(np.uint64(starts[i + ONE]) - first):
            forward[i + ONE + at] += value * span_probs[first + at]
    return forward[length]


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
    """Write for each span of a word the total probability of the segmentations that contain it; return the log total.

    a(i, j) = forward[i] * p(i, j) * backward[j] / forward[l]; the log total is the logarithm of forward[l].

    `posteriors` may be `span_probs` itself. `forward` and `backward` are space for length + 1 values each.
    """
    length = starts.size - 1
    total = write_forward(starts, span_probs, forward)
    found = np.log(total)
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
        found = np.log(backward[0]) + exponents[0] * np.log(BIG)
    return found


@part
def log_total(starts, span_probs, values):
    """Return the logarithm of the sum over all segmentations; `values` is space for length + 1 numbers."""
    total, exponent = write_forward(starts, span_probs, values), 0
    if total < PLAIN_TOTAL:
        exponents = np.empty(starts.size, np.int64)
        write_backward(starts, span_probs, values, exponents)
        total, exponent = values[0], exponents[0]
    return np.log(total) + exponent * np.log(BIG)


@kernel
def span_posteriors(starts, span_probs):
    """Return the posteriors of a word's spans, and the log total."""
    forward, backward = np.empty(starts.size, np.float64), np.empty(starts.size, np.float64)
    posteriors = np.empty(span_probs.size, np.float64)
    return posteriors, write_posteriors(starts, span_probs, posteriors, forward, backward)


@kernel
def expected_counts(nodes, unseen_char_prob, codes, offsets, counts):
    """Return how often each node is expected as a piece of the words.

    e(s) = sum over words w and over the spans (i, j) of w that are s of counts[w] * a(i, j)
    """
    _, _, records, _ = nodes
    sums = np.zeros(records.shape[0] - 2, np.float64)
    first = np.int64(0)
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        starts, span_nodes, span_probs = find_spans(nodes, unseen_char_prob, codes, offsets, first, last)
        forward, backward = np.empty(starts.size, np.float64), np.empty(starts.size, np.float64)
        for word in range(first, last):
            word_starts = slots_of_word(starts, offsets, first, word)
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
    for word in range(np.int64(offsets.size - 1)):
        _, span_nodes, _ = find_spans(nodes, 1.0, codes, offsets, word, word + 1)
        for node in span_nodes:
            if node >= 0 and last_word[node] != word:
                last_word[node] = word
                n_words[node] += 1
    return n_words


# Weights --------------------------------------------------------------------------------------------------------------

LEFT, RIGHT = ord("<"), ord(">")
POSTERIOR, UNIFORM, BOTH = 0, 1, 2  # how a span is weighted
LONGEST_CUT = 24  # code points; in longer words, what is negligible alone adds up


@part
def weights_of_run(nodes, weighing, codes, offsets, first, last, negligible, by_length):
    """Return the weights of words first to last (exclusive) as CSR (indptr, indices, data), and their log totals.

    `weighing` is (unseen_char_prob, kind, start_weight, end_weight). A span weighs its posterior, 1, or the sum of
    both, times start_weight if it starts with the mark `<` and times end_weight if it ends with the mark `>`. With
    `by_length`, weights are multiplied by the vectors' lengths. Indices and data are longer than needed. See
    `weights_of_words`.
    """
    records = nodes[2]
    unseen_char_prob, kind, start_weight, end_weight = weighing
    scale = 0.0 if kind == UNIFORM else 1.0
    plus = 0.0 if kind == POSTERIOR else 1.0
    starts, span_nodes, weights = find_spans(nodes, unseen_char_prob, codes, offsets, first, last)
    span_rows = span_nodes
    span_lengths = np.empty(weights.size, np.float32)
    for k in range(weights.size):
        fact = records[span_nodes[k], ROW]  # -1 is the last record
        span_lengths[k] = np.uint32(fact >> HALF).view(np.float32)
        row = np.int64(fact & LOW_HALF)
        span_rows[k] = row if row <= MAX_ROW else NO_ROW
    indptr = np.empty(last - first + 1, np.int64)
    indices = np.empty(weights.size + 1, np.int32)  # one extra, as each entry is written before it is known to count
    data = np.empty(weights.size + 1, np.float32)
    forward, backward = np.empty(starts.size, np.float64), np.empty(starts.size, np.float64)
    log_totals = np.zeros(last - first, np.float32)
    indptr[0] = 0
    size = np.uint64(0)
    for word in range(first, last):
        begin, length = offsets[word], offsets[word + 1] - offsets[word]
        slot = begin - offsets[first] + word - first
        word_starts = starts[slot : slot + length + 1]  # without a call, which would count references
        if kind != UNIFORM:
            log_totals[word - first] = write_posteriors(word_starts, weights, weights, forward, backward)
        total, total_length = 0.0, 0.0
        for start in range(np.uint64(length)):
            span, code = np.uint64(word_starts[start]), np.uint64(begin) + start
            at_start = start_weight if codes[code] == LEFT else 1.0
            for at in range(np.uint64(word_starts[start + ONE]) - span):
                factor = at_start * end_weight if codes[code + at] == RIGHT else at_start
                weight = (scale * weights[span + at] + plus) * factor if span_rows[span + at] >= 0 else 0.0
                weights[span + at] = weight
                total += weight
                total_length += weight * span_lengths[span + at]
        least = negligible * total_length if length <= LONGEST_CUT else 0.0
        inverse = 1.0 / total if total > 0.0 else 0.0
        for k in range(np.uint64(word_starts[0]), np.uint64(word_starts[length])):
            weight = weights[k]
            length_here = weight * span_lengths[k]
            indices[size] = span_rows[k]
            data[size] = inverse * (length_here if by_length else weight)
            size += np.uint64((weight > 0.0) & (length_here >= least))
        indptr[word - first + 1] = size
    return indptr, indices, data, log_totals


@kernel
def weights_of_words(nodes, weighing, codes, offsets, negligible):
    """Return the weights of many words as CSR (indptr, indices, data), and the words' log totals (0 for UNIFORM).

    The weights of a word sum to 1; a word without any subword that has a vector has none. A subword that occurs twice
    in a word has two entries. Words of up to LONGEST_CUT code points lose subwords whose weighted vector is shorter
    than `negligible` times the sum of such lengths.
    """
    indptr = np.zeros(offsets.size, np.int64)
    indices = np.empty(8 * codes.size + 16, np.int32)
    data = np.empty(8 * codes.size + 16, np.float32)
    log_totals = np.empty(offsets.size - 1, np.float32)
    size = 0
    first = np.int64(0)
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        found = weights_of_run(nodes, weighing, codes, offsets, first, last, negligible, False)
        run_indptr, run_indices, run_data, run_totals = found
        more = run_indptr[last - first]
        if size + more > indices.size:
            indices = grown(indices, 2 * (size + more))
            data = grown(data, 2 * (size + more))
        for word in range(first, last):
            indptr[word + 1] = size + run_indptr[word - first + 1]
            log_totals[word] = run_totals[word - first]
        for k in range(more):
            indices[size + k], data[size + k] = run_indices[k], run_data[k]
        size += more
        first = last
    return indptr, indices[:size], data[:size], log_totals
