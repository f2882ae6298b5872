"""The segmentation lattice: spans, forward, backward, posteriors, weights, best paths, samples.

A span is a subword at a place. Spans are held for many words at once, in slots: each code point of a word has one, and
one more ends the word, so word w of a run begins at slot `offsets[w] + w`. The spans that start at slot i are
`starts[i]:starts[i + 1]`, by length: 1, 2, 3 ... without a gap, as every prefix of a known subword is known. So span k
ends at slot `i + 1 + k - starts[i]`.

Functions about one word take `starts` from its first slot on, `length + 1` of them.

Numbers too small for a float64 come up in long words (a product over their pieces). Then forward and backward values
carry an exponent of their own: value = mantissa * BIG ** exponent, with mantissas kept in [1/SMALL_STEP, SMALL_STEP).
With probabilities of at least 2**-126 (float32), two values whose exponents differ by two or more differ by a factor
over 2**130: the smaller one cannot change the sum.

In the hottest loops indices are unsigned, so that no time goes into looking for negative ones.
"""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.machine import count_bits, prefetch
from pbos.kernels.trie import (
    ALL,
    BEFORE,
    HIGH,
    LOW,
    ONE,
    first_child,
    grown,
    length_of,
    prob_of,
    row_of,
    searched_child,
)

BIG = 2.0**256
SMALL_STEP = 2.0**128
PLAIN_LENGTH = 256  # of words that may do without exponents ...
PLAIN_TOTAL = 2.0**-400  # ... if their total is no less: then what underflows is less than 2**-366 of it
RUN = 512  # slots whose spans are found together: enough to have many reads from memory under way at a time
LEFT, RIGHT = ord("<"), ord(">")
POSTERIOR, UNIFORM, BOTH = 0, 1, 2  # what a span weighs


@kernel
def end_of_run(offsets, first):
    """Return the end of a run of words that begins with `first`: of RUN slots at most, but of one word at least."""
    last = first + 1
    while last < offsets.size - 1 and offsets[last + 1] - offsets[first] + last + 1 - first <= RUN:
        last += 1
    return last


@kernel
def find_spans(nodes, unseen_char_prob, codes, offsets):
    """Return starts, span_nodes and span_probs of all spans of some words.

    Word w is `codes[offsets[w]:offsets[w + 1]]`. All slots walk down the index side by side, a letter at a time: so the
    reads of one step do not wait for each other. A walk ends at the first string that is no node: no longer one can be.
    A single code point that has no probability gets unseen_char_prob, so that every position can be reached; if it has
    no node either, its node is -1.
    """
    letters_of, bits_of, records, labels = nodes
    no_letter = bits_of.shape[0] - 1
    unseen = records.shape[0] - 2
    n_words = offsets.size - 1
    n_codes = offsets[n_words] - offsets[0]
    n_slots = n_codes + n_words
    letters = np.empty(n_slots, np.int32)
    starts = np.zeros(n_slots + 1, np.int64)
    capacity = 8 * n_slots + 16
    slots = np.empty(capacity, np.int32)  # where walks are, step after step; the spans in the order they are found
    found = np.empty(capacity, np.int32)

    size = 0
    slot = 0
    longest = np.int64(0)
    for word in range(n_words):
        longest = max(longest, offsets[word + 1] - offsets[word])
        for at in range(offsets[word], offsets[word + 1]):
            code = codes[at]
            letter = letters_of[code] if code < letters_of.size else no_letter
            letters[slot] = letter
            slots[size] = slot
            found[size] = letter + 1 if letter != no_letter else unseen
            size += 1
            slot += 1
        letters[slot] = no_letter
        slot += 1

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
        size = np.uint64(last)
        step = np.uint64(depth)
        for k in range(np.uint64(first), np.uint64(last)):
            slot = np.uint64(slots[k])
            node = np.uint64(found[k])
            starts[slot + ONE] = depth
            letter = np.uint64(letters[slot + step])
            low, high = bits_of[letter, 0], bits_of[letter, 1]
            slots[size] = slots[k]
            if low | high == 0 or records[node, HIGH] & BEFORE:  # a letter outside the window, or others before it
                child = searched_child(records, labels, node, letter)
                found[size] = child
                size += np.uint64(child >= 0)
            else:
                in_low = low - ONE if low != 0 else ALL
                in_high = high - ONE if high != 0 else np.uint64(0)
                below = count_bits(records[node, LOW] & in_low) + count_bits(records[node, HIGH] & in_high)
                child = first_child(records, node) + below
                found[size] = child
                prefetch(records, 4 * child)
                size += np.uint64((records[node, LOW] & low | records[node, HIGH] & high) != 0)
        first, last = last, np.int64(size)

    for slot in range(n_slots):
        starts[slot + 1] += starts[slot]
    span_nodes = np.empty(last, np.int32)
    span_probs = np.empty(last, np.float64)
    first = 0
    for level in range(depth):
        for k in range(np.uint64(first), np.uint64(level_ends[level])):
            at = np.uint64(starts[np.uint64(slots[k])] + level)
            node = found[k]
            prob = np.float64(prob_of(records, np.uint64(node)))
            span_nodes[at] = node if node != unseen else -1
            span_probs[at] = prob if level > 0 or prob > 0.0 else unseen_char_prob
        first = level_ends[level]
    return starts, span_nodes, span_probs


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
    """Return mantissa * BIG ** exponent for a result known to fit a float64."""
    while exponent > 0 and mantissa != 0.0:
        mantissa *= BIG
        exponent -= 1
    while exponent < 0 and mantissa != 0.0:
        mantissa /= BIG
        exponent += 1
    return mantissa


@kernel
def long_posteriors(starts, span_probs, posteriors):
    """As `write_posteriors`, for words of any length."""
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
    """Write for each span of a word the total probability of the segmentations that contain it; perhaps in its place.

    a(i, j) = forward[i] * p(i, j) * backward[j] / forward[l]

    For `values` see `empty_values`.
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
def empty_ways(length, n):
    """Return space for the n best ways to finish a word of some length from each position.

    Each way has a score (log), the span it begins with, the rank of the way that goes on from the span's end, and a key
    of its cuts. The last array is the number of ways found.
    """
    shape = length + 1, n
    return (
        np.empty(shape, np.float64),
        np.empty(shape, np.int64),
        np.empty(shape, np.int64),
        np.empty(shape, np.int64),
        np.empty(length + 1, np.int64),
    )


@kernel
def best_paths(starts, span_probs, letters, letter_keys, n, ways):
    """Find the n most probable paths: write the best ways to finish the word from each position, best first.

    Among equals, the longer first span comes first. For `ways` see `empty_ways`.

    Of paths that cut between the same letters, and differ in what they do with boundary marks, only the best counts.
    `letters` has the number of letters before each position, `letter_keys` a random number of 63 bits for each such
    number; cuts are compared by these numbers, combined.
    """
    length = starts.size - 1
    marked = letters[length] < length  # without marks, no two paths cut alike
    scores, spans, ranks, keys, found = ways
    found[:length] = 0
    found[length] = 1
    scores[length, 0] = 0.0
    keys[length, 0] = 0
    for i in range(length - 1, -1, -1):
        for k in range(starts[i + 1] - 1, starts[i] - 1, -1):
            if span_probs[k] <= 0.0:
                continue
            end = i + 1 + k - starts[i]
            step = np.log(span_probs[k])
            for rank in range(found[end]):
                score = step + scores[end, rank]
                if found[i] == n and score <= scores[i, n - 1]:
                    break  # the ways from the span's end only get worse
                key = keys[end, rank]
                at = found[i]
                if marked:
                    if letters[end] > letters[i]:
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


@kernel
def best_path(starts, span_probs, ways):
    """As `best_paths` for n = 1 and a short word without marks, by products instead of logarithms; return `log_total`.

    0 says that the products are too small for that. If they are not, no way that counts has vanished: the best is at
    least 2**-255 of the total, as there are no more ways than that.
    """
    length = starts.size - 1
    scores, spans, ranks, _, found = ways
    totals = np.empty(length + 1, np.float64)
    totals[length] = scores[length, 0] = 1.0
    for i in range(length - 1, -1, -1):
        first = np.uint64(starts[i])
        total, best, taken = 0.0, 0.0, first
        for at in range(np.uint64(starts[i + 1]) - first):
            end = np.uint64(i + 1) + at
            prob = span_probs[first + at]
            total += prob * totals[end]
            if prob * scores[end, 0] >= best:
                best = prob * scores[end, 0]
                taken = first + at
        totals[i] = total
        scores[i, 0], spans[i, 0], ranks[i, 0] = best, taken, 0
    if totals[0] < PLAIN_TOTAL:
        return 0.0
    scores[0, 0] = np.log(scores[0, 0])
    found[0] = 1
    return np.log(totals[0])


@kernel
def log_total_of_cuts(starts, span_probs, letters, cuts):
    """Return the logarithm of the sum over all paths that cut between letters just at `cuts`, and marks as they like.

    `cuts` ascend from 0 to the number of letters.
    """
    length = starts.size - 1
    piece = np.full(letters[length] + 1, -1, np.int64)  # the number of the piece that begins at a cut
    for number in range(cuts.size):
        piece[cuts[number]] = number
    fitting = span_probs[starts[0] : starts[length]].copy()
    starts = starts - starts[0]
    for i in range(length):
        for k in range(starts[i], starts[i + 1]):
            begin, end = letters[i], letters[i + 1 + k - starts[i]]
            if begin < end and (piece[begin] < 0 or piece[end] != piece[begin] + 1):
                fitting[k] = 0.0
    return log_total(starts, fitting)


@kernel
def n_ways(n, letters):
    """Return how many ways to keep at each position in order to find the n best segmentations of a word."""
    n_letters = letters[letters.size - 1]
    if n_letters < letters.size - 1:
        n *= 4  # see best_segmentations
    return min(n, 1 << max(n_letters - 1, 0)) if n_letters < 31 else n  # there are no more


@kernel
def best_segmentations(starts, span_probs, letters, letter_keys, n, ways):
    """Return the n most probable segmentations of a word, best first: probabilities, indptr, cuts.

    Segmentation s cuts the letters at `cuts[indptr[s]:indptr[s + 1]]`, from 0 to their number. Where there are marks,
    it is all the paths that differ only in what they do with them; these are looked for among the 4 n segmentations
    that have the most probable single path. For `ways` see `empty_ways`; they are for `n_ways` at least.
    """
    length = starts.size - 1
    n_letters = letters[length]
    marked = n_letters < length
    total = best_path(starts, span_probs, ways) if n == 1 and not marked and length <= PLAIN_LENGTH else 0.0
    if total == 0.0:
        best_paths(starts, span_probs, letters, letter_keys, n_ways(n, letters), ways)
        total = log_total(starts, span_probs)
    scores, spans, ranks, _, found = ways
    probabilities = np.empty(found[0], np.float64)
    indptr = np.zeros(found[0] + 1, np.int64)
    cuts = np.empty(found[0] * (n_letters + 1), np.int32)
    size = 0
    for path in range(found[0]):
        cuts[size] = 0
        size += 1
        position, rank = 0, path
        while position < length:
            span = spans[position, rank]
            rank = ranks[position, rank]
            position += 1 + span - starts[position]
            if letters[position] > cuts[size - 1]:
                cuts[size] = letters[position]
                size += 1
        indptr[path + 1] = size
        score = scores[0, path]
        if marked:
            score = log_total_of_cuts(starts, span_probs, letters, cuts[indptr[path] : size])
        probabilities[path] = np.exp(min(score - total, 0.0))
    if not marked:  # then they are in order
        return probabilities, indptr, cuts[:size]
    order = np.argsort(-probabilities, kind="mergesort")[:n]
    new_indptr = np.zeros(order.size + 1, np.int64)
    new_cuts = np.empty(size, np.int32)
    size = 0
    for at in range(order.size):
        for cut in cuts[indptr[order[at]] : indptr[order[at] + 1]]:
            new_cuts[size] = cut
            size += 1
        new_indptr[at + 1] = size
    return probabilities[order], new_indptr, new_cuts[:size]


@kernel
def sampled_segmentations(starts, span_probs, letters, uniforms):
    """Draw a segmentation from p(g|w) for each row of `uniforms`: return what `best_segmentations` does.

    From position i the span (i, j) is taken with probability p(i, j) * backward[j] / backward[i].
    """
    length = starts.size - 1
    marked = letters[length] < length
    backward, exponents = backward_values(starts, span_probs)
    total = log_total(starts, span_probs)
    n = uniforms.shape[0]
    probabilities = np.empty(n, np.float64)
    indptr = np.zeros(n + 1, np.int64)
    cuts = np.empty(n * (letters[length] + 1), np.int32)
    size = 0
    for draw in range(n):
        cuts[size] = 0
        size += 1
        position, score = 0, 0.0
        while position < length:
            remaining = uniforms[draw, position]
            chosen = -1
            for k in range(starts[position], starts[position + 1]):
                if span_probs[k] <= 0.0:
                    continue
                j = position + 1 + k - starts[position]
                chosen = k
                share = span_probs[k] * backward[j] / backward[position]
                remaining -= plain(share, exponents[j] - exponents[position])
                if remaining < 0.0:
                    break
            score += np.log(span_probs[chosen])
            position += 1 + chosen - starts[position]
            if letters[position] > cuts[size - 1]:
                cuts[size] = letters[position]
                size += 1
        indptr[draw + 1] = size
        if marked:
            score = log_total_of_cuts(starts, span_probs, letters, cuts[indptr[draw] : size])
        probabilities[draw] = np.exp(min(score - total, 0.0))
    return probabilities, indptr, cuts[:size]


@kernel
def segmentations_of_words(nodes, unseen_char_prob, codes, offsets, is_mark, letter_keys, n, uniforms):
    """Return the n most probable segmentations of many words: word_indptr, probabilities, indptr, cuts.

    Those of word w are `word_indptr[w]:word_indptr[w + 1]`; for the rest see `best_segmentations`. With `uniforms`, n
    for each code, they are drawn instead: see `sampled_segmentations`.
    """
    n_words = offsets.size - 1
    word_indptr = np.zeros(n_words + 1, np.int64)
    probabilities = np.empty(n_words * n, np.float64)
    indptr = np.zeros(n_words * n + 1, np.int64)
    capacity = 4 * n * n_words + 16
    cuts = np.empty(capacity, np.int32)
    size, n_cuts = 0, np.int64(0)
    first = 0
    while first < n_words:
        last = end_of_run(offsets, first)
        starts, _, span_probs = find_spans(nodes, unseen_char_prob, codes, offsets[first : last + 1])
        longest = np.max(offsets[first + 1 : last + 1] - offsets[first:last])
        ways = empty_ways(longest, 4 * n)
        for word in range(first, last):
            begin, end = offsets[word], offsets[word + 1]
            slot = begin - offsets[first] + word - first
            letters = np.zeros(end - begin + 1, np.int64)
            for at in range(begin, end):
                letters[at - begin + 1] = letters[at - begin] + (0 if is_mark[at] else 1)
            word_starts = starts[slot : slot + letters.size]
            if uniforms.size > 0:
                draws = uniforms[n * begin : n * end].reshape(n, end - begin)
                some, ends, places = sampled_segmentations(word_starts, span_probs, letters, draws)
            else:
                some, ends, places = best_segmentations(word_starts, span_probs, letters, letter_keys, n, ways)
            if n_cuts + places.size > capacity:
                capacity = 2 * capacity + places.size
                cuts = grown(cuts, capacity)
            probabilities[size : size + some.size] = some
            indptr[size + 1 : size + 1 + some.size] = n_cuts + ends[1:]
            cuts[n_cuts : n_cuts + places.size] = places
            n_cuts += places.size
            size += some.size
            word_indptr[word + 1] = size
        first = last
    return word_indptr, probabilities[:size], indptr[: size + 1], cuts[:n_cuts]


@kernel
def write_weights(
    codes, starts, span_rows, span_lengths, span_probs, weighting, start_weight, end_weight, weights, values
):
    """Write the weight of each span of a word, 0 where it owns no vector; return their sum, to divide them by.

    A span weighs its posterior, 1, or the sum of both, times start_weight if it begins with the mark `<` and times
    end_weight if it ends with the mark `>`. Also returns the sum of the weights times the lengths of the vectors.
    For `values` see `empty_values`.
    """
    length = starts.size - 1
    if weighting == UNIFORM:
        weights[starts[0] : starts[length]] = 1.0
    else:
        write_posteriors(starts, span_probs, weights, values)
    plus = 1.0 if weighting == BOTH else 0.0
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
def weights_of_run(nodes, unseen_char_prob, weighting, start_weight, end_weight, codes, offsets, dust, by_length):
    """Return the weights of some words as CSR (indptr, indices, data); see `weights_of_words`.

    Left out are weights whose vector, weighted, is shorter than `dust` of the sum of these lengths over the word; with
    `by_length`, weights are multiplied by the lengths.
    """
    _, _, records, _ = nodes
    starts, span_nodes, span_probs = find_spans(nodes, unseen_char_prob, codes, offsets)
    n_spans = span_nodes.size
    span_rows = span_nodes
    span_lengths = np.empty(n_spans, np.float32)
    for k in range(n_spans):
        node = span_nodes[k]  # -1 is the last record
        span_lengths[k] = length_of(records, node)
        span_rows[k] = row_of(records, node)
    indptr = np.zeros(offsets.size, np.int64)
    indices = np.empty(n_spans + 1, np.int32)  # one more, as each is written before it is known to count
    data = np.empty(n_spans + 1, np.float32)
    weights = np.empty(n_spans, np.float64)
    values = empty_values()
    size = np.uint64(0)
    for word in range(offsets.size - 1):
        word_codes = codes[offsets[word] : offsets[word + 1]]
        slot = offsets[word] - offsets[0] + word
        word_starts = starts[slot : slot + word_codes.size + 1]
        total, total_length = write_weights(
            word_codes,
            word_starts,
            span_rows,
            span_lengths,
            span_probs,
            weighting,
            start_weight,
            end_weight,
            weights,
            values,
        )
        least = dust * total_length
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
def weights_of_words(nodes, unseen_char_prob, weighting, start_weight, end_weight, codes, offsets):
    """Return the weights of many words as CSR (indptr, indices, data); a row that occurs twice in a word stands twice.

    The weights of a word sum to 1; a word none of whose spans owns a vector has none.
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
            nodes, unseen_char_prob, weighting, start_weight, end_weight, codes, offsets[first : last + 1], 0.0, False
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
def expected_counts(nodes, unseen_char_prob, codes, offsets, counts):
    """Return for each node how often it is expected as a piece of the words.

    e(s) = sum over words w and over the spans (i, j) of w that are s of counts[w] * a(i, j)

    A span without a node adds nothing.
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
def count_holders(nodes, codes, offsets):
    """Return for each node the number of words that hold it."""
    _, _, records, _ = nodes
    holders = np.zeros(records.shape[0] - 2, np.int32)
    last_word = np.full(holders.size, -1, np.int32)
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
                    holders[node] += 1
        first = last
    return holders
