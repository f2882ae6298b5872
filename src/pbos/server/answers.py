"""What the page asks besides the methods of a model: about a subword, about two words, about a list of words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pbos.model import Model, Neighbors
from pbos.server.gate import stop_if_abandoned
from pbos.settings import Spelling
from pbos.words.arrays import FloatMatrix, cosines, row_lengths, unit_rows
from pbos.words.text import BOUNDARIES, encode, mark, normalize

SCANNED = 1 << 15  # words searched for a subword at a time


def composed(model: Model, words: list[str]) -> tuple[FloatMatrix, list[float | None]]:
    """Return the vectors of words and their confidence, None for each if the model has none."""
    vectors, confidence = model._embed_with_confidence(words)
    return vectors, [None] * len(words) if confidence is None else confidence.tolist()


def neighbors_of(model: Model, asked: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return the neighbors of words, and how many are asked for, with the confidence of the words."""
    words = [word for word, _ in asked]
    vectors, confidence = composed(model, words)
    found = model._neighbors_of_vectors(words, vectors, max(n for _, n in asked))
    return [
        {"word": word, "confidence": sure, "neighbors": as_neighbors(near[:n])}
        for (word, n), near, sure in zip(asked, found, confidence, strict=True)
    ]


def as_neighbors(found: Neighbors) -> list[dict[str, Any]]:
    """Return neighbors as plain data."""
    return [{"word": word, "cosine": cosine} for word, cosine in found]


def about_subword(model: Model, subword: str, n: int) -> dict[str, Any]:
    """Return which training words contain a subword, and which are nearest to its vector."""
    (subword,) = normalize([subword], model.spelling.normalization)
    sharing = words_with(model, subword)
    vector = vectors_of(model, [subword])[0]
    return {
        "subword": subword,
        "has_vector": bool(vector.any()),
        "n_words": len(sharing),
        "words": sharing[:n],
        "neighbors": as_neighbors(model.neighbors(vector, n)),
    }


def words_with(model: Model, subword: str) -> list[str]:
    """Return the training words that contain a subword, with its marks."""
    letters = max(re.split(f"[{''.join(BOUNDARIES)}]", subword), key=len)  # what all these words contain
    found: list[str] = []
    for first in range(0, len(model), SCANNED):
        stop_if_abandoned()
        some = [word for word in model.words[first : first + SCANNED] if letters in word]
        if not subword.isalnum():  # it may contain marks
            some = [word for word, marked in zip(some, mark(some, model.spelling), strict=True) if subword in marked]
        found += some
    return found


def vectors_of(model: Model, subwords: list[str]) -> FloatMatrix:
    """Return the vectors of subwords, (n, dims); zeros for those that have none."""
    rows = model.subwords.rows_of_whole_words(encode(subwords, Spelling("none")))
    vectors = np.zeros((len(rows), model.dims), np.float32)
    vectors[rows >= 0] = model.subword_vectors.rows(rows[rows >= 0]).to_float32()
    return vectors


def compared(model: Model, words: tuple[str, str]) -> dict[str, Any]:
    """Return the cosine of two words and what each of their subwords contributes to it.

    With u and v the vectors of the words, scaled to length 1, a subword's part of u contributes its product with v, and
    its part of v the product with u. Each of these adds up to the cosine; the contribution is the mean of both.
    """
    vectors, confidence = composed(model, list(words))
    units, lengths = unit_rows(vectors), np.maximum(row_lengths(vectors), np.finfo(np.float32).tiny)
    weights = [dict(model.weights(word)) for word in words]
    subwords = list(dict.fromkeys([*weights[0], *weights[1]]))
    table = np.array([[some.get(subword, 0.0) for some in weights] for subword in subwords]).reshape(-1, 2)
    parts = (table / lengths * (vectors_of(model, subwords) @ units[::-1].T)).mean(axis=1)
    order = np.argsort(-parts, kind="stable").tolist()
    return {
        "words": described(model, list(words), confidence),
        "cosine": float(cosines(vectors[:1], vectors[1:])[0]),
        "subwords": [
            {"subword": subwords[at], "weights": table[at].tolist(), "contribution": float(parts[at])} for at in order
        ],
    }


def described(model: Model, words: list[str], confidence: list[float | None]) -> list[dict[str, Any]]:
    """Return how each word is read and cut, and how far to trust its vector."""
    return [
        {
            "word": word,
            "read_as": lattice.word,
            "known": lattice.word in model.subwords.word_rows,
            "confidence": sure,
            "coverage": lattice.coverage(),
            "pieces": lattice.best(1)[0].pieces,
        }
        for word, lattice, sure in zip(words, model.lattice(words), confidence, strict=True)
    ]


def table_rows(model: Model, words: list[str], n: int) -> list[dict[str, Any]]:
    """Return a row of a table for each word, with its n nearest words."""
    vectors, confidence = composed(model, words)
    near = model._neighbors_of_vectors(words, vectors, n)
    rows = zip(described(model, words, confidence), near, strict=True)
    return [{**row, "neighbors": as_neighbors(found)} for row, found in rows]
