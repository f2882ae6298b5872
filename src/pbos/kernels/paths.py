"""Paths through the lattice of a word: the n best segmentations, and random ones.

Functions about one word take `starts` from its first slot on, `length + 1` of them (see `lattice.py`). `letters` is
the number of letters (code points that are not marks) before each position.
"""

import numpy as np

from pbos.kernels import grown, kernel, part
from pbos.kernels.lattice import (
    BIG,
    PLAIN_TOTAL,
    end_of_run,
    find_spans,
    log_total,
    share_of,
    slots_of_word,
    write_backward,
)

RIGHT = ord(">")
NONE, DONE = -1, -2
LOWEST = -np.finfo(np.float64).max
# A way to finish a word from some position: the way that it goes on with after its first span, the next best way from
# the same position, that position, a key of its cuts between letters, and another way with a similar key.
REST, NEXT, PLACE, KEY, SAME = range(5)
MANY_WAYS = 1 << 20  # room for more is only made when it is needed


@kernel
def count_letters(codes, offsets, first, last, marks):
    """Return how many letters come before each position of words first to last (exclusive), by slot.

    `marks` tells whether words have boundaries, and inner ones. Marks are where `words.text.mark` writes them: at both
    ends and, with inner boundaries, around each separator, as `>c<`. A `>` inside the word always starts such a triple,
    because `<` and `>` are separators themselves.
    """
    boundaries, inner_boundaries = marks
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
def best_paths(starts, span_probs, letters, letter_keys, n, ways, scores, rests, steps):
    """Find the n most probable paths; return whether there was room for all ways that this takes.

    `rests` and `steps` are space for the spans: the way that each goes on with, and the logarithm of its probability,
    -inf if it has no more ways. Way 0 is the end of the word, way `length - i` the best one from position i.
    Among equals, the longer first span comes first. Paths that cut between the same letters differ only in how they
    treat boundary marks; just the best of them counts. Cuts are compared by the XOR of `letter_keys`, which has a
    random 63-bit number for each letter.

    Every span goes on with the best way from its end, then with the second best, and so on. The next way from a
    position is the best of what its spans go on with. Ways are only found when they are needed: after the pass that
    finds the best way from every position, a path costs about as much as it is long.
    """
    length = starts.size - 1
    lasts, taken = np.empty(length + 1, np.int64), np.empty(length + 1, np.int64)  # the last way from i and its span
    stack = np.empty(length + 1, np.int64)  # positions from which one more way is needed
    room = 16
    while room < length + n:
        room *= 2
    table = np.empty(room, np.int64)  # by key, the last of the ways that are linked by SAME
    for slot in range(room):
        table[slot] = NONE
    for i in range(length):
        lasts[i], taken[i] = length - i, NONE
        for k in range(starts[i], starts[i + 1]):
            rests[k] = length - (i + 1 + k - starts[i])
            steps[k] = np.log(span_probs[k]) if span_probs[k] > 0.0 else -np.inf
    taken[length] = DONE
    scores[0] = 0.0
    ways[0, NEXT], ways[0, PLACE], ways[0, KEY] = NONE, length, 0
    size = 1
    for request in range(1 - length, n):
        depth = 0
        stack[0] = max(-request, 0)
        while depth >= 0:
            i = stack[depth]
            k = taken[i]
            if k >= 0:
                end = i + 1 + k - starts[i]
                rest = ways[rests[k], NEXT]
                if rest != NONE:
                    rests[k] = rest
                elif taken[end] != DONE:
                    depth += 1
                    stack[depth] = end
                    continue
                else:
                    steps[k] = -np.inf
            score, chosen = LOWEST, NONE
            for k in range(starts[i], starts[i + 1]):
                value = steps[k] + scores[rests[k]]
                if value >= score:
                    score, chosen = value, k
            taken[i] = chosen
            if chosen == NONE:
                taken[i] = DONE
                depth -= 1
                continue
            rest, end = rests[chosen], i + 1 + chosen - starts[i]
            key = ways[rest, KEY]
            if letters[end] > letters[i]:
                key ^= letter_keys[letters[i]]
            slot = (key ^ i) & (room - 1)
            same = table[slot]
            while same != NONE and (ways[same, KEY] != key or ways[same, PLACE] != i):
                same = ways[same, SAME]
            if same != NONE:
                continue
            if size == scores.size:
                return False
            ways[lasts[i], NEXT] = size
            lasts[i] = size
            scores[size] = score
            ways[size, REST], ways[size, NEXT], ways[size, PLACE] = rest, NONE, i
            ways[size, KEY], ways[size, SAME] = key, table[slot]
            table[slot] = size
            size += 1
            depth -= 1
        if taken[0] == DONE:
            break
    return True


@part
def log_total_of_cuts(starts, span_probs, letters, cuts, first, values):
    """Return the logarithm of the sum over all paths that cut between letters exactly at the cuts from `first` on.

    The cuts ascend from 0 to the number of letters; how the paths treat marks does not matter. `values` is space for
    length + 1 numbers.
    """
    length = starts.size - 1
    for i in range(length + 1):
        values[i] = 0.0
    values[0] = 1.0
    exponent, at = 0, first
    for i in range(length):
        if values[i] > 0.0:
            if letters[i] > cuts[at]:
                at += 1
                if values[i] < PLAIN_TOTAL:
                    exponent -= 1
                    j = i
                    while j <= length and letters[j] == cuts[at]:
                        values[j] *= BIG
                        j += 1
            for k in range(starts[i], starts[i + 1]):
                j = i + 1 + k - starts[i]
                if letters[j] == cuts[at] or letters[j] == cuts[at + 1]:
                    values[j] += values[i] * span_probs[k]
    return np.log(values[length]) + exponent * np.log(BIG)


@part
def write_sample(starts, span_probs, backward, exponents, uniforms, cuts, letters):
    """Draw a path, with a random number per position, and write its cuts between letters; return their number.

    From position i the span (i, j) is taken with probability p(i, j) * backward[j] / backward[i]. Also returns the
    logarithm of the path's probability.
    """
    position, n_cuts, score = 0, 0, 0.0
    cuts[0] = 0
    while position < starts.size - 1:
        remaining, chosen = uniforms[position], 0
        for k in range(starts[position], starts[position + 1]):
            if span_probs[k] > 0.0:
                chosen = k
                end = position + 1 + k - starts[position]
                remaining -= share_of(span_probs[k], backward, exponents, position, end)
                if remaining < 0.0:
                    break
        score += np.log(span_probs[chosen])
        position += 1 + chosen - starts[position]
        if letters[position] > cuts[n_cuts]:
            n_cuts += 1
            cuts[n_cuts] = letters[position]
    return n_cuts + 1, score


@kernel
def segmentations(nodes, unseen_char_prob, codes, offsets, marks, letter_keys, n, uniforms):
    """Return n segmentations of each word: word_indptr, probabilities, cuts.

    Those of word w are `word_indptr[w]:word_indptr[w + 1]`. The cuts of each ascend from 0 to the number of letters.
    They are those with the n most probable paths; fewer if there are fewer. With marks, a segmentation is the sum of
    all paths that differ only in how they treat the marks, so the best one of a word is not always the first. With
    `uniforms`, n random numbers per code point, they are drawn from p(g|w).
    """
    word_indptr = np.zeros(offsets.size, np.int64)
    probabilities, cuts = np.empty(offsets.size, np.float64), np.empty(codes.size + offsets.size, np.int32)
    n_cuts, first = np.int64(0), np.int64(0)
    size = drawn = 0
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        starts, _, span_probs = find_spans(nodes, unseen_char_prob, codes, offsets, first, last)
        all_letters = count_letters(codes, offsets, first, last, marks)
        room = min((2 + n // 2) * starts.size, MANY_WAYS)
        ways, scores = np.empty((room, 5), np.int64), np.empty(room, np.float64)
        rests, steps = np.empty(span_probs.size, np.int64), np.empty(span_probs.size, np.float64)
        values, backward = np.empty(starts.size, np.float64), np.empty(starts.size, np.float64)
        exponents = np.empty(starts.size, np.int64)
        for word in range(first, last):
            word_starts = slots_of_word(starts, offsets, first, word)
            letters = slots_of_word(all_letters, offsets, first, word)
            length = word_starts.size - 1
            wanted = n
            if uniforms.size:
                write_backward(word_starts, span_probs, backward, exponents)
            else:
                wanted = min(n, 1 << min(letters[length] - 1, 32))  # all there are
                while not best_paths(word_starts, span_probs, letters, letter_keys, wanted, ways, scores, rests, steps):
                    room *= 4
                    ways, scores = np.empty((room, 5), np.int64), np.empty(room, np.float64)
            total = log_total(word_starts, span_probs, values)
            way, done = length, 0
            while done < wanted and way != NONE:
                if n_cuts + length >= cuts.size:
                    cuts = grown(cuts, 2 * (n_cuts + length))
                if size == probabilities.size:
                    probabilities = grown(probabilities, 2 * size)
                if uniforms.size:
                    added, score = write_sample(
                        word_starts, span_probs, backward, exponents, uniforms[drawn:], cuts[n_cuts:], letters
                    )
                    drawn += length
                else:
                    added, score, step = 1, scores[way], way
                    cuts[n_cuts] = 0
                    while step > 0:
                        step = ways[step, REST]
                        cut = letters[ways[step, PLACE]]
                        if cut > cuts[n_cuts + added - 1]:
                            cuts[n_cuts + added] = cut
                            added += 1
                    way = ways[way, NEXT]
                if letters[length] < length:
                    score = log_total_of_cuts(word_starts, span_probs, letters, cuts, n_cuts, values)
                probabilities[size] = np.exp(min(score - total, 0.0))
                n_cuts += added
                size += 1
                done += 1
            word_indptr[word + 1] = size
        first = last
    return word_indptr, probabilities[:size], cuts[:n_cuts]
