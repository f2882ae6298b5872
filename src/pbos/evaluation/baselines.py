"""What a model has to beat: the given vectors alone, the nearest spelling, fastText on the same text.

KVQ-FH, the attention baseline, is in `pbos.evaluation.kvq`. Each is an `Embedder`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError
from pbos.evaluation.results import Embedder
from pbos.files import open_bytes
from pbos.kernels.edit_distance import nearest_words
from pbos.model import unit_rows
from pbos.subword_vectors import FloatMatrix
from pbos.text import as_words, encode
from pbos.threads import in_threads, thread_count
from pbos.vectors import WordVectors

CHUNK = 128  # words handed to a thread at a time
UNKNOWN = -1


class Targets:
    """The given vectors alone; any other word gets zeros.

    >>> Targets(WordVectors(["high", "low"], np.eye(2))).embed(["low", "higher"]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return self.vectors.dims

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims); a word without a given vector gets zeros."""
        return take(self.vectors, known_rows(self.vectors, as_words(words)))


class NearestSpelling:
    """A floor for words never seen: the vector of the word with the fewest edits (Levenshtein), the earlier of equals.

    >>> NearestSpelling(WordVectors(["high", "low"], np.eye(2))).embed(["low", "higher"]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, vectors: WordVectors) -> None:
        if not len(vectors):
            raise InputError("there are no words among which to look for the nearest spelling")
        self.vectors = vectors

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return self.vectors.dims

    @cached_property
    def vocabulary(self) -> ByLength:
        """The given words by length."""
        return ByLength.of(self.vectors.words)

    def embed(self, words: Iterable[str], *, threads: int | None = None) -> FloatMatrix:
        """Return float32 (n_words, dims); a word with a given vector gets that one."""
        words = as_words(words)
        rows = known_rows(self.vectors, words)
        unseen = np.flatnonzero(rows == UNKNOWN)
        rows[unseen] = self.nearest([words[i] for i in unseen], threads=threads)
        return take(self.vectors, rows)

    def nearest(self, words: list[str], *, threads: int | None = None) -> npt.NDArray[np.int64]:
        """Return the row of the given word nearest to each word."""
        distinct = dict.fromkeys(words)
        codes = encode(list(distinct))

        def search(first: int) -> npt.NDArray[np.int64]:
            found: npt.NDArray[np.int64] = nearest_words(*self.vocabulary, *codes.part(first, first + CHUNK))
            return found

        found = np.concatenate([np.zeros(0, np.int64), *in_threads(search, range(0, len(distinct), CHUNK), threads)])
        row_of = dict(zip(distinct, found.tolist(), strict=True))
        return np.array([row_of[word] for word in words], np.int64)


class ByLength(NamedTuple):
    """Words as code points, sorted by length; words of length n are `of_length[n]:of_length[n + 1]`."""

    codes: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.int64]  # (n_words + 1,)
    rows: npt.NDArray[np.int64]  # (n_words,): where each word was before
    of_length: npt.NDArray[np.int64]  # (longest + 2,)

    @classmethod
    def of(cls, words: list[str]) -> ByLength:
        """Sort words by length; those of one length keep their order."""
        rows = np.argsort([len(word) for word in words], kind="stable")
        codes, offsets = encode([words[row] for row in rows])
        lengths = np.diff(offsets)
        return cls(codes, offsets, rows, np.searchsorted(lengths, np.arange(lengths[-1] + 2)))


class FastText:
    """fastText (skip-gram with n-grams) trained on a text, not on word vectors. Extra `fasttext`."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @classmethod
    def train(
        cls,
        corpus: str | PathLike[str],
        *,
        dims: int = 64,
        vocabulary: Iterable[str] | None = None,
        min_count: int = 5,
        min_len: int = 3,
        max_len: int = 6,
        epochs: int = 5,
        buckets: int = 2_000_000,
        threads: int | None = None,
    ) -> FastText:
        """Train on a text.

        Args:
            corpus: A file of words between spaces, a sentence or paragraph a line; it may be compressed.
            dims: The number of dimensions.
            vocabulary: The words to learn; all others are taken out of the text, which is what fastText itself does
                with rare words. None for all words that are frequent enough.
            min_count: How often a word has to occur; not used with a vocabulary.
            min_len: The length of the shortest n-grams.
            max_len: The length of the longest.
            epochs: How often to go over the text.
            buckets: How many vectors the n-grams share.
            threads: How many threads to use; None for one a core. Only with 1 two runs give the same vectors: fastText
                lets threads overwrite each other. Its seed is fixed.
        """
        try:
            import fasttext
        except ImportError:
            raise MissingExtraError("fastText", "fasttext") from None
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text.txt")
            copy_text(corpus, text, None if vocabulary is None else as_words(vocabulary))
            if not text.stat().st_size:
                raise InputError(f"{corpus}: the text holds none of the words to learn")
            model = fasttext.train_unsupervised(
                str(text),
                model="skipgram",
                dim=dims,
                minCount=min_count if vocabulary is None else 1,
                minn=min_len,
                maxn=max_len,
                epoch=epochs,
                bucket=buckets,
                thread=thread_count(threads),
                verbose=0,
            )
        return cls(model)

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return int(self.model.get_dimension())

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims); every word gets a vector, from its n-grams if need be."""
        words = as_words(words)
        vectors = [self.model.get_word_vector(word) for word in words]
        return np.array(vectors, np.float32).reshape(len(words), self.dims)


def known_rows(vectors: WordVectors, words: list[str]) -> npt.NDArray[np.int64]:
    """Return the row of each word, UNKNOWN for a word that has none."""
    return np.array([vectors.row_of.get(word, UNKNOWN) for word in words], np.int64)


def take(vectors: WordVectors, rows: npt.NDArray[np.int64]) -> FloatMatrix:
    """Return the vectors of rows, zeros for UNKNOWN."""
    out = np.zeros((rows.size, vectors.dims), np.float32)
    known = rows != UNKNOWN
    out[known] = vectors.vectors[rows[known]]
    return out


def copy_text(source: str | PathLike[str], target: Path, vocabulary: list[str] | None) -> None:
    """Write a text uncompressed, as fastText wants it, with the words of the vocabulary only."""
    kept = None if vocabulary is None else {word.encode() for word in vocabulary}
    with open_bytes(source) as lines, target.open("wb") as out:
        for line in lines:
            words = line.split() if kept is None else [word for word in line.split() if word in kept]
            if words:
                out.write(b" ".join(words) + b"\n")


class Directions:
    """Another embedder's vectors scaled to length 1, for models whose lengths mean nothing (KVQ-FH)."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return self.embedder.dims

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims); a word without a vector gets zeros."""
        return unit_rows(self.embedder.embed(words))
