"""What the API answers about words, as plain data."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from itertools import compress, islice
from typing import Any

import numpy as np

from pbos.model import Model, Neighbors
from pbos.settings import Spelling
from pbos.words.arrays import FloatMatrix, cosines, row_lengths, unit_rows
from pbos.words.text import BOUNDARIES, encode, mark, normalize

COMMON = 1000  # training words that are not shown as examples: most tables start with words such as "the"


def confidences(model: Model, words: list[str]) -> list[float | None]:
    """Return the confidence of each word, None if the model has none."""
    return model.confidence(words).tolist() if model.has_confidence else [None] * len(words)


def records(**columns: Iterable[Any]) -> list[dict[str, Any]]:
    """Return a dictionary for each row of some columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def segmented(model: Model, words: list[str], n: int) -> list[dict[str, Any]]:
    """Return the n most probable segmentations of each word."""
    return records(word=words, segmentations=[[cut._asdict() for cut in cuts] for cuts in model.segment(words, n)])


def weighted(model: Model, words: list[str]) -> list[dict[str, Any]]:
    """Return the weights of the subwords of each word."""
    weights = [[{"subword": subword, "weight": weight} for subword, weight in one] for one in model.weights(words)]
    return records(word=words, weights=weights)


def trusted(model: Model, words: list[str]) -> list[dict[str, Any]]:
    """Return the confidence of each word; an error if the model has none."""
    return records(word=words, confidence=model.confidence(words).tolist())


def similar(model: Model, pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the cosine of each pair of words."""
    found = model.similarity([first for first, _ in pairs], [second for _, second in pairs])
    return records(words=pairs, cosine=found.tolist())


def with_neighbors(model: Model, asked: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return the neighbors of words, as many as are asked for with each, and the confidence of the words."""
    words = [word for word, _ in asked]
    near = model.neighbors(words, max(n for _, n in asked))
    neighbors = [as_neighbors(found[:n]) for (_, n), found in zip(asked, near, strict=True)]
    return records(word=words, confidence=confidences(model, words), neighbors=neighbors)


def as_neighbors(found: Neighbors) -> list[dict[str, Any]]:
    """Return neighbors as plain data."""
    return [{"word": word, "cosine": cosine} for word, cosine in found]


def table_rows(model: Model, words: list[str], n: int) -> list[dict[str, Any]]:
    """Return a row of a table for each word, with its n nearest words."""
    near = [as_neighbors(found) for found in model.neighbors(words, n)]
    return [{**row, "neighbors": found} for row, found in zip(described(model, words), near, strict=True)]


def described(model: Model, words: list[str]) -> list[dict[str, Any]]:
    """Return how each word is read and cut, and how far to trust its vector."""
    lattices = model.lattice(words)
    return records(
        word=words,
        read_as=[one.word for one in lattices],
        known=[one.word in model.subwords.word_rows for one in lattices],
        confidence=confidences(model, words),
        coverage=[one.coverage() for one in lattices],
        pieces=[one.best(1)[0].pieces for one in lattices],
    )


def about_subword(model: Model, subword: str, n: int) -> dict[str, Any]:
    """Return which training words contain a subword, and which are nearest to its vector."""
    (subword,) = normalize([subword], model.spelling.normalization)
    letters = max(re.split(f"[{''.join(BOUNDARIES)}]", subword), key=len)  # what all these words contain
    words = [word for word in model.words if letters in word]
    if not subword.isalnum():  # it may contain marks
        words = [word for word, marked in zip(words, mark(words, model.spelling), strict=True) if subword in marked]
    vector = vectors_of(model, [subword])[0]
    return {
        "subword": subword,
        "has_vector": bool(vector.any()),
        "n_words": len(words),
        "words": words[:n],
        "neighbors": as_neighbors(model.neighbors(vector, n)),
    }


def vectors_of(model: Model, subwords: list[str]) -> FloatMatrix:
    """Return the vectors of subwords, (n, dims); zeros for those that have none."""
    rows = model.subwords.rows_of_whole_words(encode(subwords, Spelling("none")))
    vectors = np.zeros((len(rows), model.dims), np.float32)
    vectors[rows >= 0] = model.subword_vectors.rows(rows[rows >= 0]).to_float32()
    return vectors


def compared(model: Model, words: list[str]) -> dict[str, Any]:
    """Return the cosine of two words and what each of their subwords contributes to it.

    With u and v the vectors of the words, scaled to length 1, a subword's part of u contributes its product with v, and
    its part of v the product with u. Each of these adds up to the cosine; the contribution is the mean of both.
    """
    vectors = model.embed(words)
    units, lengths = unit_rows(vectors), np.maximum(row_lengths(vectors), np.finfo(np.float32).tiny)
    weights = [dict(model.weights(word)) for word in words]
    subwords = list(dict.fromkeys([*weights[0], *weights[1]]))
    table = np.array([[one.get(subword, 0.0) for one in weights] for subword in subwords]).reshape(-1, 2)
    parts = (table / lengths * (vectors_of(model, subwords) @ units[::-1].T)).mean(axis=1)
    rows = records(subword=subwords, weights=table.tolist(), contribution=parts.tolist())
    return {
        "words": described(model, words),
        "cosine": float(cosines(vectors[:1], vectors[1:])[0]),
        "subwords": sorted(rows, key=lambda row: -row["contribution"]),
    }


def placed(model: Model, words: list[str]) -> dict[str, Any]:
    """Return distinct words on the plane of the first two principal components of their unit vectors."""
    units = unit_rows(model.embed(words))
    known = [bool(unit.any()) for unit in units]
    centered = units[known] - units[known].sum(axis=0) / max(1, sum(known))
    u, s, _ = np.linalg.svd(centered, full_matrices=False)
    x, y = np.pad(u * s, ((0, 0), (0, 2)))[:, :2].T.tolist()  # also for fewer than two words or dimensions
    total = float(np.square(s).sum())
    return {
        "points": records(word=compress(words, known), x=x, y=y),
        "without_vector": [word for word, has_vector in zip(words, known, strict=True) if not has_vector],
        "spread": float(np.square(s[:2]).sum()) / total if total > 0 else 1.0,
    }


def words_to_try(model: Model) -> tuple[list[str], list[str]]:
    """Return words that the model does not have, to explain, and training words for the map.

    The former are training words with their last two letters swapped; the latter some words and those nearest to each.
    """
    words = [word for word in model.words[min(COMMON, len(model) // 4) :] if word.isidentifier()]  # letters
    words = sorted(words, key=len)[len(words) // 2 :]
    random.Random(0).shuffle(words)
    swapped = (word[:-2] + word[:-3:-1] for word in words)
    near = [word for found in model.neighbors(words[:6], 3) for word, _ in found]
    examples = list(islice((word for word in swapped if word not in model), 5))
    return examples, list(dict.fromkeys([*words[:6], *near]))
