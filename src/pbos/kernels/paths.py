"""Paths through the lattice of a word: the n best segmentations, and random ones.

Functions about one word take `starts` from its first slot on, `length + 1` of them (see `kernels.spans`). `letters` is
the number of letters (code points that are not marks) before each position.
"""

import numpy as np

from pbos.kernels import grown, kernel, part
from pbos.kernels.sums import BIG, PLAIN_LENGTH, PLAIN_TOTAL, log_total, share_of, write_backward

RIGHT = ord(">")
CANDIDATES = 4  # per segmentation that is asked for, in words with marks; see `best_of_words`
NONE, DONE = -1, -2
# A way to finish a word from some position: the way that it goes on with after its first span, the next best way from
# the same position, that position, and a key of its cuts between letters.
REST, NEXT, PLACE, KEY = range(4)


@kernel
def count_letters(codes, offsets, first, last, boundaries, inner_boundaries):
    """Return how many letters come before each position of words first to last (exclusive), by slot.

    Marks are where `pbos.text.mark` writes them: at both ends and, with inner boundaries, around each separator, as
    `>c<`. A `>` inside the word always starts such a triple, because `<` and `>` are separators themselves.
    """
    letters = np.empty(offsets[last] - offsets[first] + last - first, np.int64)
    slot = 0
    for word in range(first, last):
        count, separator = 0, np.int64(-2)
        letters[slot] = 0
        for at in range(offsets[word], offsets[word + 1]):
            is_mark = boundaries and (at == offsets[word] or at + 1 == offsets[word + 1])
            if inner_boundaries and not is_mark and at != separator:
                if at == separator + 1:
                    is_mark = True
                elif codes[at] == RIGHT:
                    is_mark = True
                    separator = at + 1
            if not is_mark:
                count += 1
            slot += 1
            letters[slot] = count
        slot += 1
    return letters


@part
def best_path(starts, span_probs, ways, scores, totals):
    """Find the most probable path of a short word without marks, without logarithms; return `log_total`.

    Among equals, the longer first span comes first. Returns 0 if the products get too small. Otherwise the best path
    cannot have underflowed: it is at least 2**-255 of the total, since there are at most that many paths.
    """
    length = starts.size - 1
    totals[length] = scores[length] = 1.0
    ways[length, PLACE] = length
    for i in range(length - 1, -1, -1):
        first = np.uint64(starts[i])
        total, best, taken = 0.0, 0.0, first
        for at in range(np.uint64(starts[i + 1]) - first):
            end = np.uint64(i + 1) + at
            prob = span_probs[first + at]
            total += prob * totals[end]
            if prob * scores[end] >= best:
                best = prob * scores[end]
                taken = first + at
        totals[i], scores[i] = total, best
        ways[i, REST], ways[i, NEXT], ways[i, PLACE] = i + 1 + np.int64(taken) - starts[i], NONE, i
    if totals[0] < PLAIN_TOTAL:
        return 0.0
    scores[0] = np.log(scores[0])
    return np.log(totals[0])


@part
def find_slot(table, ways, place, key):
    """Return the slot of a hash table that has the way with some cuts, or where it belongs."""
    mask = table.size - 1
    slot = (key ^ 31 * place) & mask
    while table[slot] >= 0 and (ways[table[slot], KEY] != key or ways[table[slot], PLACE] != place):
        slot = (slot + 1) & mask
    return slot


@part
def table_of(ways, size):
    """Return a hash table of the first `size` ways, with room for as many more."""
    room = 64
    while room < 4 * size:
        room *= 2
    table = np.empty(room, np.int64)
    for slot in range(room):
        table[slot] = NONE
    for way in range(size):
        table[find_slot(table, ways, ways[way, PLACE], ways[way, KEY])] = way
    return table


@part
def best_paths(starts, span_probs, letters, letter_keys, n, ways, scores):
    """Find the n most probable paths; return the ways and their scores, which may be larger copies of those given.

    The ways from the start of the word are linked from way 0. Among equals, the longer first span comes first. Paths
    that cut between the same letters differ only in how they treat boundary marks; just the best of them counts. Cuts
    are compared by the XOR of `letter_keys`, which has a random 63-bit number for each letter.

    Every span goes on with the best way from its end, then with the second best, and so on. The next way from a
    position is the best of what its spans go on with. Ways are only found when they are needed: after the pass that
    finds the best way from every position, a path costs about as much as it is long.
    """
    length = starts.size - 1
    marked = letters[length] < length  # without marks, no two paths have the same cuts
    shift = starts[0]
    steps = np.empty(starts[length] - shift, np.float64)
    rests = np.empty(starts[length] - shift, np.int64)  # the way that each span goes on with, or NONE
    taken = np.empty(length + 1, np.int64)  # the span of the last way from each position
    lasts = np.empty(length + 1, np.int64)  # the last way from each position
    stack = np.empty(length + 1, np.int64)  # positions from which one more way is needed
    table = np.empty(1, np.int64)
    for i in range(length):
        taken[i] = NONE
        for k in range(starts[i], starts[i + 1]):
            steps[k - shift] = np.log(span_probs[k]) if span_probs[k] > 0.0 else 0.0
            rests[k - shift] = i + 1 + k - starts[i] if span_probs[k] > 0.0 else NONE
    taken[length] = DONE
    ways[length, NEXT], ways[length, PLACE], ways[length, KEY] = NONE, length, 0
    scores[length] = 0.0
    size = length + 1  # way i is the best one from position i
    for request in range(length + n - 1):
        stack[0] = max(length - 1 - request, 0)
        depth = 1
        while depth > 0:
            i = stack[depth - 1]
            k = taken[i]
            if k >= 0:
                rest, end = ways[rests[k - shift], NEXT], i + 1 + k - starts[i]
                if rest == NONE and taken[end] != DONE:
                    stack[depth] = end
                    depth += 1
                    continue
                rests[k - shift] = rest
            score, chosen = -np.inf, NONE
            for k in range(starts[i + 1] - 1, starts[i] - 1, -1):
                rest = rests[k - shift]
                if rest >= 0 and steps[k - shift] + scores[rest] > score:
                    score, chosen = steps[k - shift] + scores[rest], k
            if chosen == NONE:
                taken[i] = DONE
                depth -= 1
                continue
            taken[i] = chosen
            rest, end = rests[chosen - shift], i + 1 + chosen - starts[i]
            key, way = ways[rest, KEY], i
            if letters[end] > letters[i]:
                key ^= letter_keys[letters[i]]
            if request >= length:
                if marked:
                    if 2 * size >= table.size:
                        table = table_of(ways, size)
                    slot = find_slot(table, ways, i, key)
                    if table[slot] >= 0:
                        continue
                    table[slot] = size
                if size == scores.size:
                    scores = grown(scores, 2 * size)
                    more = np.empty((2 * size, 4), np.int64)
                    for way in range(size):
                        for field in range(4):
                            more[way, field] = ways[way, field]
                    ways = more
                way = size
                size += 1
                ways[lasts[i], NEXT] = way
            lasts[i] = way
            scores[way] = score
            ways[way, REST], ways[way, NEXT], ways[way, PLACE], ways[way, KEY] = rest, NONE, i, key
            depth -= 1
        if taken[0] == DONE:
            break
    return ways, scores


@part
def log_total_of_cuts(starts, span_probs, places, cuts, first, last, values):
    """Return the logarithm of the sum over all paths that cut between letters exactly at `cuts[first:last]`.

    The cuts ascend from 0 to the number of letters; how the paths treat marks does not matter. `places` has the first
    position with each number of letters before it; `values` is space for length + 1 numbers.
    """
    length = starts.size - 1
    for number in range(first, last):
        for i in range(places[cuts[number]], places[cuts[number] + 1]):
            values[i] = 0.0
    values[0] = 1.0
    exponent = 0
    for number in range(first, last):
        begin, end = places[cuts[number]], places[cuts[number] + 1]
        most = 0.0
        for i in range(begin, end):
            most = max(most, values[i])
        if most < PLAIN_TOTAL:
            exponent -= 1
            for i in range(begin, end):
                values[i] *= BIG
        next_begin = next_end = end
        if number + 1 < last:
            next_begin, next_end = places[cuts[number + 1]], places[cuts[number + 1] + 1]
        for i in range(begin, end):
            for j in range(i + 1, next_end):
                k = starts[i] + j - i - 1
                if k < starts[i + 1] and (j < end or j >= next_begin):
                    values[j] += values[i] * span_probs[k]
    return np.log(values[length]) + exponent * np.log(BIG)


@part
def ordered(values, size):
    """Return the order of some values, largest first; equal ones keep their order."""
    order, other = np.empty(size, np.int64), np.empty(size, np.int64)
    for at in range(size):
        order[at] = at
    width = 1
    while width < size:  # merges sorted pieces of this width
        for first in range(0, size, 2 * width):
            left, middle = first, min(first + width, size)
            right, last = middle, min(first + 2 * width, size)
            for at in range(first, last):
                if left < middle and (right == last or values[order[left]] >= values[order[right]]):
                    other[at] = order[left]
                    left += 1
                else:
                    other[at] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order


@part
def write_places(letters, length, places):
    """Write the first position with each number of letters before it, and at the end the length + 1."""
    for position in range(length, -1, -1):
        places[letters[position]] = position
    places[letters[length] + 1] = length + 1


@kernel
def best_of_words(starts, span_probs, all_letters, offsets, first, last, letter_keys, n):
    """Return the n most probable segmentations of words, best first: word_indptr, probabilities, indptr, cuts.

    Those of word w are `word_indptr[w - first]:word_indptr[w - first + 1]`. Segmentation s cuts the letters at
    `cuts[indptr[s]:indptr[s + 1]]`, from 0 to their number.

    With marks, a segmentation is the sum of all paths that differ only in how they treat the marks; candidates are the
    4 n segmentations with the most probable single path.
    """
    word_indptr, indptr = np.empty(last - first + 1, np.int64), np.empty(last - first + 2, np.int64)
    probabilities = np.empty(last - first + 2, np.float64)
    cuts = np.empty(starts.size, np.int32)
    scores, ways = np.empty(starts.size, np.float64), np.empty((starts.size, 4), np.int64)
    places, values = np.empty(starts.size + 1, np.int64), np.empty(starts.size, np.float64)
    word_indptr[0] = indptr[0] = 0
    size = n_cuts = slot = 0
    for word in range(first, last):
        length = offsets[word + 1] - offsets[word]
        word_starts, letters = starts[slot : slot + length + 1], all_letters[slot : slot + length + 1]
        slot += length + 1
        n_letters = letters[length]
        marked = n_letters < length
        wanted = CANDIDATES * n if marked else n
        if n_letters < 31:
            wanted = min(wanted, 1 << max(n_letters - 1, 0))  # all there are
        total = 0.0
        if n == 1 and not marked and length <= PLAIN_LENGTH:
            total = best_path(word_starts, span_probs, ways, scores, values)
        if total == 0.0:
            ways, scores = best_paths(word_starts, span_probs, letters, letter_keys, wanted, ways, scores)
            total = log_total(word_starts, span_probs, values)
        write_places(letters, length, places)

        found, way = 0, 0
        while way != NONE:
            found += 1
            way = ways[way, NEXT]
        some, ends = np.empty(found, np.float64), np.empty(found + 1, np.int64)
        own = np.empty(found * (n_letters + 1), np.int32)
        ends[0] = at = way = 0
        for number in range(found):
            own[at] = 0
            at += 1
            step = way
            while ways[step, PLACE] < length:
                step = ways[step, REST]
                cut = letters[ways[step, PLACE]]
                if cut > own[at - 1]:
                    own[at] = cut
                    at += 1
            ends[number + 1] = at
            score = scores[way]
            if marked:
                score = log_total_of_cuts(word_starts, span_probs, places, own, ends[number], at, values)
            some[number] = np.exp(min(score - total, 0.0))
            way = ways[way, NEXT]

        if size + found >= probabilities.size:
            probabilities = grown(probabilities, 2 * (size + found))
            indptr = grown(indptr, 2 * (size + found))
        if n_cuts + at > cuts.size:
            cuts = grown(cuts, 2 * (n_cuts + at))
        order = ordered(some, found)
        for rank in range(min(found, n)):
            probabilities[size] = some[order[rank]]
            for k in range(ends[order[rank]], ends[order[rank] + 1]):
                cuts[n_cuts] = own[k]
                n_cuts += 1
            size += 1
            indptr[size] = n_cuts
        word_indptr[word - first + 1] = size
    return word_indptr, probabilities[:size], indptr[: size + 1], cuts[:n_cuts]


@kernel
def samples_of_words(starts, span_probs, all_letters, offsets, first, last, uniforms, n):
    """Draw n segmentations of words from p(g|w); return the same arrays as `best_of_words`.

    `uniforms` has n random numbers per code point. From position i the span (i, j) is taken with probability
    p(i, j) * backward[j] / backward[i].
    """
    word_indptr, indptr = np.empty(last - first + 1, np.int64), np.empty(n * (last - first) + 1, np.int64)
    probabilities = np.empty(n * (last - first), np.float64)
    cuts = np.empty(n * starts.size, np.int32)
    places, exponents = np.empty(starts.size + 1, np.int64), np.empty(starts.size, np.int64)
    values, backward = np.empty(starts.size, np.float64), np.empty(starts.size, np.float64)
    word_indptr[0] = indptr[0] = 0
    size = n_cuts = slot = drawn = 0
    for word in range(first, last):
        length = offsets[word + 1] - offsets[word]
        word_starts, letters = starts[slot : slot + length + 1], all_letters[slot : slot + length + 1]
        slot += length + 1
        write_places(letters, length, places)
        write_backward(word_starts, span_probs, backward, exponents)
        total = log_total(word_starts, span_probs, values)
        for _ in range(n):
            cuts[n_cuts] = 0
            n_cuts += 1
            position, score = 0, 0.0
            while position < length:
                remaining, chosen = uniforms[drawn + position], 0
                for k in range(word_starts[position], word_starts[position + 1]):
                    if span_probs[k] > 0.0:
                        chosen = k
                        end = position + 1 + k - word_starts[position]
                        remaining -= share_of(span_probs[k], backward, exponents, position, end)
                        if remaining < 0.0:
                            break
                score += np.log(span_probs[chosen])
                position += 1 + chosen - word_starts[position]
                if letters[position] > cuts[n_cuts - 1]:
                    cuts[n_cuts] = letters[position]
                    n_cuts += 1
            drawn += length
            if letters[length] < length:
                score = log_total_of_cuts(word_starts, span_probs, places, cuts, indptr[size], n_cuts, values)
            probabilities[size] = np.exp(min(score - total, 0.0))
            size += 1
            indptr[size] = n_cuts
        word_indptr[word - first + 1] = size
    return word_indptr, probabilities, indptr, cuts[:n_cuts]
