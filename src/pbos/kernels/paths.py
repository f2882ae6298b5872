"""Paths through the lattice of a word: the n best segmentations, and random ones.

Functions about one word take `starts` from its first slot on, `length + 1` of them (see `kernels.spans`).
"""

import numpy as np

from pbos.kernels import grown, kernel
from pbos.kernels.spans import end_of_run, find_spans
from pbos.kernels.sums import PLAIN_LENGTH, PLAIN_TOTAL, backward_values, log_total, plain

RIGHT = ord(">")


@kernel
def empty_ways(length, n):
    """Return space for the n best ways to finish a word from each position.

    Each way has a score (log), its first span, the rank of the way that continues from the end of that span, and a key
    of its cuts. The last array counts the ways found.
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

    Among equals, the longer first span comes first. `ways` comes from `empty_ways`.

    Paths that cut between the same letters differ only in how they treat boundary marks; just the best of them counts.
    `letters` is the number of letters before each position; `letter_keys` has a random 63-bit number for each such
    position. Cuts are compared by the XOR of these numbers.
    """
    length = starts.size - 1
    marked = letters[length] < length  # without marks, no two paths have the same cuts
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
                    break  # the remaining ways from the end of the span are worse
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
                if at == found[i]:  # new cuts; otherwise those at `at` are replaced
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
    """Do what `best_paths` does for n = 1 and a short word without marks, without logarithms; return `log_total`.

    Returns 0 if the products get too small. Otherwise the best path cannot have underflowed: it is at least 2**-255 of
    the total, since there are at most that many paths.
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
    """Return the logarithm of the sum over all paths that cut between letters exactly at `cuts`.

    `cuts` ascend from 0 to the number of letters; how the paths treat marks does not matter.
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
    """Return how many ways to keep per position to find the n best segmentations of a word."""
    n_letters = letters[letters.size - 1]
    if n_letters < letters.size - 1:
        n *= 4  # see best_segmentations
    return min(n, 1 << max(n_letters - 1, 0)) if n_letters < 31 else n  # all there are


@kernel
def best_segmentations(starts, span_probs, letters, letter_keys, n, ways):
    """Return the n most probable segmentations of a word, best first: probabilities, indptr, cuts.

    Segmentation s cuts the letters at `cuts[indptr[s]:indptr[s + 1]]`, from 0 to their number. With marks, a
    segmentation is the sum of all paths that differ only in how they treat the marks; candidates are the 4 n
    segmentations with the most probable single path. `ways` comes from `empty_ways`, with room for `n_ways`.
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
    if not marked:  # then they are sorted already
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
    """Draw a segmentation from p(g|w) for each row of `uniforms`; return the same arrays as `best_segmentations`.

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
def count_letters(codes, boundaries, inner_boundaries):
    """Return how many letters (code points that are not marks) come before each position of a word.

    Marks are where `pbos.text.mark` writes them: at both ends and, with inner boundaries, around each separator, as
    `>c<`. A `>` inside the word always starts such a triple, because `<` and `>` are separators themselves.
    """
    letters = np.zeros(codes.size + 1, np.int64)
    last = codes.size - 1 if boundaries else codes.size
    at = 0
    while at < codes.size:
        if boundaries and (at == 0 or at == last):
            letters[at + 1] = letters[at]
            at += 1
        elif inner_boundaries and codes[at] == RIGHT:
            letters[at + 1] = letters[at]
            letters[at + 2] = letters[at + 3] = letters[at] + 1
            at += 3
        else:
            letters[at + 1] = letters[at] + 1
            at += 1
    return letters


@kernel
def segmentations_of_words(nodes, unseen_char_prob, marks, codes, offsets, letter_keys, n, uniforms):
    """Return the n most probable segmentations of many words: word_indptr, probabilities, indptr, cuts.

    Those of word w are `word_indptr[w]:word_indptr[w + 1]`; see `best_segmentations` for the rest. If `uniforms` has
    n numbers per code point, segmentations are sampled instead (see `sampled_segmentations`). `marks` is the pair
    (boundaries, inner_boundaries).
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
            letters = count_letters(codes[begin:end], marks[0], marks[1])
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
