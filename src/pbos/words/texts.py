"""Texts to vectors: the mean of the vectors of their words."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from pbos.kernels.vectors import compose
from pbos.words.arrays import FloatMatrix
from pbos.words.text import Translation, separates

APOSTROPHES = "'’"
WORD_CHARACTERS = Translation(  # spaces for all but letters, digits, marks and joiners of any script, and apostrophes
    lambda character: (
        " "
        if character not in APOSTROPHES and (separates(character) or unicodedata.category(character) == "Cc")
        else character
    )
)


def split_text(text: str) -> list[str]:
    """Split a text into words.

    >>> split_text("Don't say 'naïve' -- say हिन्दी!")
    ["Don't", 'say', 'naïve', 'say', 'हिन्दी']
    """
    return [word for part in text.translate(WORD_CHARACTERS).split() if (word := part.strip(APOSTROPHES))]


def mean_vectors(
    texts: Sequence[list[str]],
    embed: Callable[[list[str]], FloatMatrix],
    probs: Mapping[str, float] | None = None,
    a: float = 1e-3,
) -> FloatMatrix:
    """Return the mean of the vectors of each text's words; words whose vectors are zeros are left out.

    With the probabilities of words, each has the weight a / (a + p) (smooth inverse frequency).
    """
    rows = {word: row for row, word in enumerate(dict.fromkeys(chain.from_iterable(texts)))}
    vectors = embed(list(rows))
    used: Any = np.array([rows[word] for words in texts for word in words], np.int32)
    lengths = np.array([len(words) for words in texts], np.int64)
    weights = np.ones(len(rows), np.float32)
    if probs is not None:
        weights = (a / (a + np.array([probs.get(word, 0.0) for word in rows]))).astype(np.float32)
    out = np.empty((len(texts), vectors.shape[1]), np.float32)
    compose(np.concatenate([[0], np.cumsum(lengths)]), used, weights[used], vectors, out)
    counted = np.bincount(np.repeat(np.arange(len(texts)), lengths), np.any(vectors, axis=1)[used], len(texts))
    out /= np.maximum(counted, 1)[:, None].astype(np.float32)
    return out
