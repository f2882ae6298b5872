"""Training beside a textbook version: PBoS as the paper states it, in plain Python, without and with NumPy vectors.

The textbook is run on 2,000 words for one epoch and extrapolated: to all words for the weights, to all words and epochs
for the training; its counting is run in full. pbos is run in full, reading included for both from memory.
"""

from __future__ import annotations

import random
import time

import numpy as np

import pbos

SAMPLE = 2_000


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


def weights(word: str, probs: dict[str, float], owners: set[str]) -> dict[str, float]:
    """a(s|w) by forward and backward, in O(l^2)."""
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
            value = forward[i] * prob(i, j) * backward[j]
            if value > 0 and word[i:j] in owners:
                result[word[i:j]] = result.get(word[i:j], 0.0) + value
    total = sum(result.values())
    return {subword: value / total for subword, value in result.items()}


def epoch_plain(rows: list[dict[str, float]], targets: list[list[float]], vectors: dict[str, list[float]]) -> None:
    """One epoch of SGD on lists of numbers."""
    dims = range(len(targets[0]))
    for row, target in zip(rows, targets, strict=True):
        error = [-x for x in target]
        for subword, weight in row.items():
            vector = vectors[subword]
            for d in dims:
                error[d] += weight * vector[d]
        for subword, weight in row.items():
            vector = vectors[subword]
            for d in dims:
                vector[d] -= weight * error[d]


def epoch_numpy(rows: list[dict[str, float]], targets: np.ndarray, vectors: dict[str, np.ndarray]) -> None:
    """One epoch of SGD with a NumPy vector for each subword."""
    for row, target in zip(rows, targets, strict=True):
        error = -target
        for subword, weight in row.items():
            error += weight * vectors[subword]
        for subword, weight in row.items():
            vectors[subword] -= weight * error


def clock(function, *arguments):
    started = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - started, result


def compare(vectors: pbos.WordVectors, counts: pbos.WordCounts, epochs: int, repeats: int = 3) -> dict[str, float]:
    """Return seconds: ours in full, and the textbook's extrapolated, with lists and with NumPy vectors."""
    ours = min(
        clock(lambda: pbos.train(vectors, counts, preset="pbos", epochs=epochs, progress=False))[0]
        for _ in range(repeats)
    )

    table = dict(zip(counts.words, counts.counts.tolist(), strict=True))
    counting, probs = clock(count, table)
    owners = {w[i:j] for w in vectors.words for i in range(len(w)) for j in range(i + 1, len(w) + 1)}
    chosen = random.Random(0).sample(range(len(vectors)), min(SAMPLE, len(vectors)))
    scale = len(vectors) / len(chosen)
    weighing, rows = clock(lambda: [weights(vectors.words[i], probs, owners) for i in chosen])
    numpy_vectors = {subword: np.zeros(vectors.dims, np.float32) for row in rows for subword in row}
    list_vectors = {subword: [0.0] * vectors.dims for subword in numpy_vectors}
    targets = vectors.vectors[chosen]
    with_numpy = min(clock(epoch_numpy, rows, targets, numpy_vectors)[0] for _ in range(repeats))
    some = max(1, len(rows) // 10)  # lists are slow: a tenth of the sample
    plain = clock(epoch_plain, rows[:some], targets[:some].tolist(), list_vectors)[0] * len(rows) / some
    fixed = counting + scale * weighing
    return {"pbos": ours, "plain": fixed + scale * epochs * plain, "numpy": fixed + scale * epochs * with_numpy}
