"""PBoS as defined in the paper, in plain Python: dictionaries for tables, lists for vectors, float64 throughout.

It is the slowest peer and the exact reference for our results.
"""

from __future__ import annotations


def count(counts: dict[str, float]) -> dict[str, float]:
    """Return p_s of every substring."""
    sums: dict[str, float] = {}
    for word, n in counts.items():
        for i in range(len(word)):
            for j in range(i + 1, len(word) + 1):
                subword = word[i:j]
                sums[subword] = sums.get(subword, 0.0) + n
    total = sum(sums.values())
    return {subword: n / total for subword, n in sums.items()}


def weights(
    word: str, probs: dict[str, float], with_vector, *, both: bool = False, start: float = 1.0, end: float = 1.0
) -> dict[str, float]:
    """Return the weights a(s|w), by the forward-backward algorithm in O(l^2).

    The options give the weights of the preset "default".

    Args:
        word: The word, with boundary marks if the model uses them.
        probs: p_s of each known subword.
        with_vector: The subwords that have a vector.
        both: Whether to add 1 to the weight of each occurrence.
        start: The factor for subwords that start with the mark `<`.
        end: The factor for subwords that end with the mark `>`.
    """
    length = len(word)

    def prob(i: int, j: int) -> float:
        return probs.get(word[i:j], 0.01 if j == i + 1 else 0.0)

    forward, backward = [1.0] + [0.0] * length, [0.0] * length + [1.0]
    for j in range(1, length + 1):
        forward[j] = sum(forward[i] * prob(i, j) for i in range(j))
    for i in range(length - 1, -1, -1):
        backward[i] = sum(prob(i, j) * backward[j] for j in range(i + 1, length + 1))
    result: dict[str, float] = {}
    for i in range(length):
        for j in range(i + 1, length + 1):
            if word[i:j] in with_vector:
                value = forward[i] * prob(i, j) * backward[j] / forward[length] + both
                value *= (start if word[i] == "<" else 1.0) * (end if word[j - 1] == ">" else 1.0)
                result[word[i:j]] = result.get(word[i:j], 0.0) + value
    total = sum(result.values())
    return {subword: value / total for subword, value in result.items() if value > 0}


def compose(row: dict[str, float], vectors: dict[str, list[float]], dims: int) -> list[float]:
    """Return a word's vector: the weighted sum of its subword vectors."""
    composed = [0.0] * dims
    for subword, weight in row.items():
        vector = vectors[subword]
        for d in range(dims):
            composed[d] += weight * vector[d]
    return composed


def epoch(rows: list[dict[str, float]], targets: list[list[float]], vectors: dict[str, list[float]]) -> None:
    """Run one epoch of SGD, in place."""
    dims = range(len(targets[0]))
    for row, target in zip(rows, targets, strict=True):
        composed = compose(row, vectors, len(target))
        error = [x - y for x, y in zip(composed, target, strict=True)]
        for subword, weight in row.items():
            vector = vectors[subword]
            for d in dims:
                vector[d] -= weight * error[d]
