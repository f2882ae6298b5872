"""The nearest word by Levenshtein distance: insertions, deletions and replacements of code points."""

import numpy as np

from pbos.kernels import kernel


@kernel
def nearest_words(codes, offsets, rows, of_length, query_codes, query_offsets):
    """Return for each query the row of its nearest vocabulary word, of equally near ones the smallest row.

    The vocabulary is sorted by length, then row: words of length n are `of_length[n]:of_length[n + 1]`. Lengths that
    differ by k are at least k edits apart, so the search goes outwards from the query's own length and soon ends.
    """
    longest = of_length.size - 2
    line = np.empty(longest + 1, np.int64)
    nearest = np.full(query_offsets.size - 1, -1, np.int64)
    for at in range(nearest.size):
        query = query_codes[query_offsets[at] : query_offsets[at + 1]]
        best = max(query.size, longest)  # no two words are further apart
        best_row = np.iinfo(np.int64).max
        for difference in range(best + 1):
            if difference > best:
                break
            for sign in (-1, 1):
                length = query.size + sign * difference
                if length < 0 or length > longest or (difference == 0 and sign == 1):
                    continue
                for word in range(of_length[length], of_length[length + 1]):
                    limit = best if rows[word] < best_row else best - 1
                    if limit < difference:
                        continue
                    found = distance_within(query, codes[offsets[word] : offsets[word + 1]], limit, line)
                    if found <= limit:
                        best = found
                        best_row = rows[word]
        nearest[at] = best_row
    return nearest


@kernel
def distance_within(first, second, limit, line):
    """Return the distance of two strings whose lengths differ by `limit` at most, or limit + 1 where it is larger.

    D(i, j) = min(D(i-1, j-1) + (first[i] != second[j]), D(i-1, j) + 1, D(i, j-1) + 1)
    `line` holds one i at a time. Cells with |i - j| > limit are over the limit and are left out.
    """
    far = limit + 1
    for j in range(second.size + 1):
        line[j] = j
    for i in range(1, first.size + 1):
        low = max(1, i - limit)
        high = min(second.size, i + limit)
        diagonal = line[low - 1]
        line[low - 1] = i if low == 1 else far
        least = line[low - 1]
        for j in range(low, high + 1):
            above = line[j] if j < i + limit else far
            cost = min(diagonal + (first[i - 1] != second[j - 1]), above + 1, line[j - 1] + 1)
            diagonal = line[j]
            line[j] = cost
            least = min(least, cost)
        if least > limit:
            return far
    return min(line[second.size], far)
