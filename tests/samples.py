"""Small English data, made from the model that comes with pbos, so that tests need no private data."""

from __future__ import annotations

import numpy as np

import pbos
from pbos.words.arrays import FloatMatrix


def english_vectors(n_words: int, dims: int) -> pbos.WordVectors:
    """Vectors of the most frequent English words: those of the included model, and noise that spelling cannot explain.

    Numbers have a standard deviation of about 0.25.
    """
    model = pbos.load()
    words = model.words[:n_words]
    vectors = model.embed(words)[:, :dims]
    noise = np.random.default_rng(0).normal(size=vectors.shape) / 2
    return pbos.WordVectors(words, (0.25 * (vectors / vectors.std() + noise)).astype(np.float32))


def english_counts(n_words: int) -> pbos.WordCounts:
    """Counts of the most frequent English words, by Zipf's law."""
    return pbos.WordCounts.from_ranks(pbos.load().words[:n_words])


def topical_sentences(words: list[str], vectors: FloatMatrix, n: int) -> list[str]:
    """Sentences of twelve words whose vectors are close to each other, so that contexts tell something."""
    rng = np.random.default_rng(0)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near = np.argsort(-(rng.normal(size=(n, units.shape[1])) @ units.T), axis=1)[:, :60]
    return [" ".join(words[at] for at in rng.choice(some, 12)) for some in near]
