"""Small English data, made from the model that comes with pbos, so that tests need no private data."""

from __future__ import annotations

import numpy as np

import pbos


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


def topical_sentences(table: pbos.WordVectors, n: int) -> list[str]:
    """Sentences of nine words that have vectors near to that of one word, a frequent one more often."""
    generator = np.random.default_rng(0)
    units = table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True)
    nearest = np.argsort(-(units @ units.T), axis=1)[:, :30]
    frequencies = 1 / (np.arange(len(table)) + 20)
    topics = generator.choice(len(table), n, p=frequencies / frequencies.sum())
    return [" ".join(table.words[row] for row in generator.permutation(nearest[at])[:9]) for at in topics]
