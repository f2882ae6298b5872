"""What a model has to beat: the nearest spelling, and fastText trained on the same text.

The target vectors alone are `pbos.evaluation.words.Targets`; KVQ-FH is in `experiments.kvq`. Each is an `Embedder`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from pbos.errors import InputError
from pbos.files.paths import open_bytes
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import FloatMatrix
from pbos.words.text import as_words

CHUNK = 128  # words compared with all others at a time


class NearestSpelling:
    """The vector of the word with the fewest edits (Levenshtein distance); the earlier of equals.

    >>> NearestSpelling(WordVectors(["high", "low"], np.eye(2))).embed(["low", "higher"]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors
        self.dims = vectors.dims

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims); a word that has a vector gets its own."""
        words = as_words(words)
        unseen = [word for word in dict.fromkeys(words) if word not in self.vectors.row_of]
        rows = {**self.vectors.row_of, **dict(zip(unseen, self.nearest(unseen), strict=True))}
        return np.asarray(self.vectors.vectors[[rows[word] for word in words]], np.float32)

    def nearest(self, words: list[str]) -> list[int]:
        """Return the row of the nearest word for each word."""
        found: list[int] = []
        for first in range(0, len(words), CHUNK):
            distances = cdist(
                words[first : first + CHUNK],
                self.vectors.words,
                scorer=Levenshtein.distance,
                dtype=np.int32,
                workers=-1,
            )
            found += distances.argmin(axis=1).tolist()  # the first of equals
        return found


class FastText:
    """fastText (skip-gram with n-grams) trained on a text, not on word vectors. Needs `pip install fasttext-wheel`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.dims = int(model.get_dimension())

    @classmethod
    def train(
        cls,
        corpus: str | PathLike[str],
        *,
        dims: int,
        vocabulary: Iterable[str],
        buckets: int = 2_000_000,
        threads: int = 4,
    ) -> FastText:
        """Train on a text, with fastText's own settings: n-grams of 3 to 6 characters, 5 epochs.

        Args:
            corpus: A file of words separated by spaces, one sentence or paragraph per line; it may be compressed.
            dims: The number of dimensions.
            vocabulary: The words to learn; all others are removed from the text, as fastText does with rare words.
            buckets: How many vectors the n-grams share.
            threads: How many threads to use. Two runs give the same vectors only with 1.
        """
        import fasttext

        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text.txt")
            copy_text(corpus, text, set(as_words(vocabulary)))
            if not text.stat().st_size:
                raise InputError(f"{corpus}: the text contains none of the words to learn")
            model = fasttext.train_unsupervised(
                str(text), model="skipgram", dim=dims, minCount=1, bucket=buckets, thread=threads, verbose=0
            )
        return cls(model)

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims); unseen words get a vector from their n-grams."""
        words = as_words(words)
        vectors = [self.model.get_word_vector(word) for word in words]
        return np.array(vectors, np.float32).reshape(len(words), self.dims)


def copy_text(source: str | PathLike[str], target: Path, vocabulary: set[str]) -> None:
    """Write a text uncompressed, as fastText needs it, with only the words of the vocabulary."""
    kept = {word.encode() for word in vocabulary}
    with open_bytes(source) as lines, target.open("wb") as out:
        for line in lines:
            words = [word for word in line.split() if word in kept]
            if words:
                out.write(b" ".join(words) + b"\n")
