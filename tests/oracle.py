"""Slow, obvious versions of the definitions, to compare the library with. The definitions use nothing of pbos."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np

from pbos.model import Model
from pbos.settings import Spelling
from pbos.training.counting import count_subwords
from pbos.words.index import SubwordIndex
from pbos.words.text import encode


def segmentations(word: str) -> Iterator[tuple[str, ...]]:
    """All 2^(l-1) ways to cut a word."""
    if not word:
        yield ()
        return
    for end in range(1, len(word) + 1):
        for rest in segmentations(word[end:]):
            yield (word[:end], *rest)


def count(words: dict[str, float], max_len: int | None = None) -> dict[str, float]:
    """p_s: occurrences of every substring, weighted by the counts of the words, normalized."""
    sums: Counter[str] = Counter()
    for word, weight in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + (max_len or len(word))) + 1):
                sums[word[start:end]] += weight
    total = sum(sums.values())
    return {subword: value / total for subword, value in sums.items()}


def probability(subword: str, table: dict[str, float], unseen: float) -> float:
    """p_s, with a floor for single characters."""
    found = table.get(subword, 0.0)
    return unseen if found == 0 and len(subword) == 1 else found


def enumerate_all(word: str, table: dict[str, float], unseen: float) -> dict[tuple[str, ...], float]:
    """p(g|w) of every segmentation that is possible."""
    products = {g: math.prod(probability(s, table, unseen) for s in g) for g in segmentations(word)}
    total = sum(products.values())
    return {g: product / total for g, product in products.items() if product > 0}


def weights(word: str, table: dict[str, float], with_vector: set[str], unseen: float) -> dict[str, float]:
    """a(s|w): the probability of the segmentations that contain s, by position, over the subwords with a vector."""
    sums: Counter[str] = Counter()
    for g, p in enumerate_all(word, table, unseen).items():
        for subword in g:
            if subword in with_vector:
                sums[subword] += p
    total = sum(sums.values())
    return {subword: value / total for subword, value in sums.items()} if total else {}


def uniform_weights(word: str, with_vector: set[str]) -> dict[str, float]:
    """The same weight for each occurrence of a subword that has a vector (BoS)."""
    spans = [word[i:j] for i in range(len(word)) for j in range(i + 1, len(word) + 1)]
    sums = Counter(span for span in spans if span in with_vector)
    return {subword: n / sum(sums.values()) for subword, n in sums.items()}


def written(word: str, boundaries: bool = False, inner: bool = False) -> tuple[str, list[bool]]:
    """A word with its boundary marks, and which of its characters are marks."""
    result = []
    for character in word:
        if inner and unicodedata.category(character)[0] in "PSZ":  # punctuation, symbols, spaces
            result += [(">", True), (character, False), ("<", True)]
        else:
            result.append((character, False))
    if boundaries:
        result = [("<", True), *result, (">", True)]
    return "".join(character for character, _ in result), [mark for _, mark in result]


def enumerate_letters(
    word: str, table: dict[str, float], unseen: float, boundaries: bool, inner: bool
) -> dict[tuple[str, ...], float]:
    """p(g|w) of the segmentations of a word with marks: the sum over all ways to cut it that leave the same pieces."""
    text, is_mark = written(word, boundaries, inner)
    sums: Counter[tuple[str, ...]] = Counter()
    for g, p in enumerate_all(text, table, unseen).items():
        pieces, at = [], 0
        for piece in g:
            pieces.append("".join(c for k, c in enumerate(piece, at) if not is_mark[k]))
            at += len(piece)
        sums[tuple(piece for piece in pieces if piece)] += p
    return dict(sums)


def span_weights(
    text: str,
    table: dict[str, float],
    with_vector: Collection[str],
    unseen: float,
    weighting: str,
    start: float = 1.0,
    end: float = 1.0,
) -> dict[str, float]:
    """The weights of a word (with its marks): span by span, then added up by subword."""
    posteriors: Counter[tuple[int, int]] = Counter()
    for g, p in enumerate_all(text, table, unseen).items():
        at = 0
        for piece in g:
            posteriors[at, at + len(piece)] += p
            at += len(piece)
    sums: Counter[str] = Counter()
    for i in range(len(text)):
        for j in range(i + 1, len(text) + 1):
            if text[i:j] in with_vector:
                value = {"posterior": posteriors[i, j], "uniform": 1.0, "both": 1 + posteriors[i, j]}[weighting]
                factor = (start if text[i] == "<" else 1.0) * (end if text[j - 1] == ">" else 1.0)
                sums[text[i:j]] += factor * value
    return {subword: value / sum(sums.values()) for subword, value in sums.items() if value > 0}


def em(
    words: dict[str, float], table: dict[str, float], rounds: int, unseen: float, marks: bool = False
) -> dict[str, float]:
    """p_s fitted to the words: in each round, how often each subword is expected as a piece, normalized.

    After five rounds, a piece of one letter counts .6, and one of n > 4 letters (n - 4) / 4 of the least word less.
    With marks, then and in the last round a piece also counts as itself without the mark at its start and end, and no
    piece goes on after `>`.

    Rounded to float32 after each round, as in an index. A subword without a probability stays without one; the others
    keep at least the smallest normal float32.
    """
    if marks:
        table = {s: 0.0 if ">" in s[:-1] else p for s, p in table.items()}
    unit = min((weight for weight in words.values() if weight > 0), default=0.0)
    least = float(np.finfo(np.float32).tiny)
    for done in range(rounds):
        sums: Counter[str] = Counter()
        for word, weight in words.items():
            for g, p in enumerate_all(word, table, unseen).items():
                for subword in g:
                    if table.get(subword, 0) > 0:
                        sums[subword] += weight * p
        if marks and (done >= 5 or done == rounds - 1):
            plain = {s: s.removeprefix("<").removesuffix(">") for s in sums}
            sums += Counter({s: sum(sums[m] for m in plain if plain[m] == s != m) for s in plain.values() if s})
        if done >= 5:
            for s in sums:
                letters = sum(character not in "<>" or not marks for character in s)
                sums[s] = sums[s] * (0.6 if letters == 1 else 1) - unit * max(letters - 4, 0) / 4
        sums = Counter({s: max(value, 0.0) for s, value in sums.items()})
        total = sum(sums.values())
        table = {s: float(np.float32(max(sums[s] / total, least))) if p > 0 else 0.0 for s, p in table.items()}
    return table


def log_likelihood(words: dict[str, float], table: dict[str, float], unseen: float) -> float:
    """The logarithm of the probability of all words, each summed over its segmentations."""
    return sum(
        weight * math.log(sum(math.prod(probability(s, table, unseen) for s in g) for g in segmentations(word)))
        for word, weight in words.items()
        if weight > 0
    )


def entropy(word: str, table: dict[str, float], unseen: float) -> float:
    """-sum p log p, in nats."""
    return -sum(p * math.log(p) for p in enumerate_all(word, table, unseen).values())


def vector(model: Model, word: str) -> np.ndarray:
    """The vector of a word, from the weights that all its segmentations give its subwords.

    With the weighting "both", only those into subwords with a vector and single characters count.
    """
    spelling, rows, probs = model.spelling, rows_of(model.index), probs_of(model.index)
    if spelling.weighting == "both":
        probs = {s: p for s, p in probs.items() if s in rows or len(s) == 1}
    text, _ = written(word, spelling.boundaries, spelling.inner_boundaries)
    how = spelling.weighting, spelling.start_weight, spelling.end_weight
    weights = span_weights(text, probs, rows, spelling.unseen_char_prob, *how)
    table = model.subword_vectors.to_float32().astype(np.float64)
    return sum((weight * table[rows[subword]] for subword, weight in weights.items()), np.zeros(model.dims))


def train(
    rows: list[dict[str, float]], targets: np.ndarray, *, epochs: int, lr: float, seed: int, unit_length: bool
) -> dict[str, np.ndarray]:
    """Vanilla SGD as the paper states it, in float64: one word at a time, from zero vectors."""
    vectors = {subword: np.zeros(targets.shape[1]) for row in rows for subword in row}
    random = np.random.default_rng(seed)
    for epoch in range(epochs):
        rate = lr / math.sqrt(1 + epoch)
        for w in random.permutation(len(rows)):
            composed = np.zeros(targets.shape[1])
            for subword, weight in rows[w].items():
                vector = vectors[subword]
                if unit_length:
                    norm = np.linalg.norm(vector)
                    vector = vector / norm if norm > 1e-4 else np.zeros_like(vector)
                composed += weight * vector
            error = composed - targets[w]
            for subword, weight in rows[w].items():
                vectors[subword] -= rate * weight * error
    return vectors


# The index, as dictionaries -------------------------------------------------------------------------------------------


def nodes_of(index: SubwordIndex) -> dict[str, int]:
    """The node of every subword."""
    return {subword: node for node, subword in enumerate(index.strings(), 1)}


def probs_of(index: SubwordIndex) -> dict[str, float]:
    """The probability of every subword; 0 for none."""
    return dict(zip(index.strings(), index.probs[1:].tolist(), strict=True))


def rows_of(index: SubwordIndex) -> dict[str, int]:
    """The row of every subword that has a vector."""
    return {subword: row for subword, row in zip(index.strings(), index.rows[1:].tolist(), strict=True) if row >= 0}


def index_of_table(table: dict[str, float], with_vector: Collection[str]) -> SubwordIndex:
    """An index with arbitrary probabilities (counted ones are special: a longer subword is never more probable)."""
    strings = sorted({*table, *with_vector})
    plain = Spelling(normalization="none")
    index = count_subwords(encode(strings, plain), np.ones(len(strings)), np.ones(len(strings), np.bool_))
    nodes = nodes_of(index)
    probs, rows = np.zeros_like(index.probs), np.full_like(index.rows, -1)
    for row, node in enumerate(sorted(nodes[subword] for subword in with_vector)):
        rows[node] = row
    for subword, p in table.items():
        probs[nodes[subword]] = p
    return index.with_probs(probs).with_rows(rows)
