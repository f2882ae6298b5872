"""PBoS as the paper states it, in plain Python: dictionaries for tables, lists for vectors, float64 throughout.

The slowest peer, and the exact answer that ours are compared with.
"""

from __future__ import annotations


def count(counts: dict[str, float]) -> dict[str, float]:
    """p_s of every substring."""
    sums: dict[str, float] = {}
    for word, n in counts.items():
        for i in range(len(word)):
            for j in range(i + 1, len(word) + 1):
                subword = word[i:j]
                sums[subword] = sums.get(subword, 0.0) + n
    total = sum(sums.values())
    return {subword: n / total for subword, n in sums.items()}


def weights(
    word: str, probs: dict[str, float], owners, *, both: bool = False, start: float = 1.0, end: float = 1.0
) -> dict[str, float]:
    """a(s|w) by forward and backward, in O(l^2); with the options, as the preset "default" weighs.

    Args:
        word: With its marks, if it is to have any.
        probs: p_s.
        owners: The subwords that own a vector.
        both: Whether each occurrence weighs 1 more.
        start: How much more a subword weighs that begins with the mark `<`.
        end: How much more a subword weighs that ends with the mark `>`.
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
            if word[i:j] in owners:
                value = forward[i] * prob(i, j) * backward[j] / forward[length] + both
                value *= (start if word[i] == "<" else 1.0) * (end if word[j - 1] == ">" else 1.0)
                result[word[i:j]] = result.get(word[i:j], 0.0) + value
    total = sum(result.values())
    return {subword: value / total for subword, value in result.items() if value > 0}


def compose(row: dict[str, float], vectors: dict[str, list[float]], dims: int) -> list[float]:
    """A word's vector: the weighted sum of its subwords' vectors."""
    composed = [0.0] * dims
    for subword, weight in row.items():
        vector = vectors[subword]
        for d in range(dims):
            composed[d] += weight * vector[d]
    return composed


def epoch(rows: list[dict[str, float]], targets: list[list[float]], vectors: dict[str, list[float]]) -> None:
    """One epoch of SGD."""
    dims = range(len(targets[0]))
    for row, target in zip(rows, targets, strict=True):
        composed = compose(row, vectors, len(target))
        error = [x - y for x, y in zip(composed, target, strict=True)]
        for subword, weight in row.items():
            vector = vectors[subword]
            for d in dims:
                vector[d] -= weight * error[d]
