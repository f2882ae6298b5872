"""Segmenter: everything that needs word counts only, and no vectors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import cached_property
from os import PathLike
from typing import overload

import numpy as np

from pbos.counts import WordCounts
from pbos.errors import InputError
from pbos.explanation import Explanation
from pbos.kernels import lattice
from pbos.kernels.trie import Nodes
from pbos.lattice import Lattice, Segmentation, as_segmentations, check_k, check_n, letter_keys
from pbos.spelling import Spelling
from pbos.subwords import SubwordIndex, count_subwords, reestimated
from pbos.text import as_words, normalize
from pbos.threads import in_threads, share

CHUNK = 4096  # words handed to a thread at a time, at most
SAMPLED = 256  # words whose samples are drawn together


class Segmenter:
    """Cuts words into subwords, with probabilities, from word counts alone.

    >>> segmenter = Segmenter.from_counts({"high": 60, "higher": 20, "er": 20})
    >>> print(segmenter.segment("higher")[0])
    higher 0.628
    """

    def __init__(self, index: SubwordIndex, spelling: Spelling) -> None:
        self.index = index
        self.spelling = spelling

    @cached_property
    def nodes(self) -> Nodes:
        """The index as the kernels walk it."""
        return self.index.nodes

    @classmethod
    def from_counts(
        cls,
        counts: WordCounts | Mapping[str, float] | str | PathLike[str],
        *,
        normalization: str = "NFC",
        boundaries: bool = False,
        max_len: int | None = None,
        unseen_char_prob: float = 0.01,
        types: bool = False,
        min_count: int = 1,
        em_rounds: int = 0,
    ) -> Segmenter:
        """Count the subwords of words.

        The defaults are the paper's. Cuts nearer to stems and affixes come with `boundaries=True, types=True,
        min_count=2, em_rounds=2`: a frequent word is then no more than one word, and a piece is what words share.

        Args:
            counts: A file, a mapping from words to counts, a language code ("en"), or WordCounts.
            normalization: Unicode form of all words: NFC, NFKC, casefold or none.
            boundaries: Whether words are written with the marks `<` and `>` around them.
            max_len: The longest subword; None for no limit.
            unseen_char_prob: The probability of a single character never seen.
            types: Whether to count every word once instead of by its count.
            min_count: A subword needs at least this many words that hold it to have a probability; single characters
                always keep theirs.
            em_rounds: How often to fit the probabilities to the words by EM (see `subwords.reestimated`).
        """
        if min_count < 1:
            raise InputError(f"min_count must be at least 1, got {min_count}")
        if em_rounds < 0:
            raise InputError(f"em_rounds must not be negative, got {em_rounds}")
        spelling = Spelling(normalization, boundaries, max_len=max_len, unseen_char_prob=unseen_char_prob)
        table = WordCounts.of(counts).normalized(normalization)
        word_counts = (table.counts > 0).astype(np.float64) if types else table.counts
        every = np.ones(len(table), np.bool_)
        words = spelling.codes(table.words)
        index = count_subwords(words, word_counts, every, max_len=max_len, min_holders=min_count, boundaries=boundaries)
        if min_count > 1:
            longer = index.probs[index.alphabet.size + 1 :]
            if longer.size and not longer.any():
                raise InputError(
                    f"min_count {min_count} would leave single characters only; no longer subword is in that many words"
                )
            index = index.pruned(index.probs > 0)
        index = reestimated(index, words, word_counts, rounds=em_rounds, unseen_char_prob=unseen_char_prob)
        return cls(index, spelling)

    def lattice(self, word: str) -> Lattice:
        """Return all segmentations of a word at once, to look at or to draw."""
        if not isinstance(word, str):
            raise InputError(f"expected a word (str), got {type(word).__name__}: {word!r}")
        return Lattice(self.nodes, word, self.spelling)

    def explain(self, word: str, n: int = 5) -> Explanation:
        """Return why a word is cut as it is, to print, to draw or to look at in a notebook.

        Args:
            word: A word.
            n: How many segmentations; a table of it also shows so many weights.
        """
        check_n(n)
        return Explanation(word, self.lattice(word), n)

    @overload
    def segment(self, word: str, n: int = 1, *, threads: int | None = None) -> list[Segmentation]: ...  # type: ignore[overload-overlap]
    @overload
    def segment(self, word: Iterable[str], n: int = 1, *, threads: int | None = None) -> list[list[Segmentation]]: ...
    def segment(
        self, word: str | Iterable[str], n: int = 1, *, threads: int | None = None
    ) -> list[Segmentation] | list[list[Segmentation]]:
        """Return the n most probable segmentations of a word (or of each of many), best first.

        Args:
            word: A word, or many.
            n: How many segmentations of each.
            threads: For many words: how many threads to use; None for one a core.
        """
        check_n(n)
        if isinstance(word, str):
            return self._segmentations([word], 0, n)[0]
        words = as_words(word)
        size = share(len(words), CHUNK, threads)

        def segment_chunk(first: int) -> list[list[Segmentation]]:
            return self._segmentations(words[first : first + size], first, n)

        chunks = in_threads(segment_chunk, range(0, len(words), size), threads)
        return list(itertools.chain.from_iterable(chunks))

    @overload
    def sample(  # type: ignore[overload-overlap]
        self, word: str, k: int = 1, seed: int | None = None, *, threads: int | None = None
    ) -> list[Segmentation]: ...
    @overload
    def sample(
        self, word: Iterable[str], k: int = 1, seed: int | None = None, *, threads: int | None = None
    ) -> list[list[Segmentation]]: ...
    def sample(
        self, word: str | Iterable[str], k: int = 1, seed: int | None = None, *, threads: int | None = None
    ) -> list[Segmentation] | list[list[Segmentation]]:
        """Draw k segmentations of a word (or of each of many) from p(g|w).

        Args:
            word: A word, or many.
            k: How many segmentations of each; the same one may come again.
            seed: Makes them repeatable, on any number of threads.
            threads: For many words: how many threads to use; None for one a core.
        """
        if isinstance(word, str):
            return self.lattice(word).sample(k, seed)
        check_k(k)
        words = as_words(word)
        if k == 0:
            nothing: list[list[Segmentation]] = [[] for _ in words]
            return nothing
        entropy = np.random.SeedSequence(seed).entropy

        def sample_chunk(first: int) -> list[list[Segmentation]]:
            random = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(first,)))
            return self._segmentations(words[first : first + SAMPLED], first, k, random)

        chunks = in_threads(sample_chunk, range(0, len(words), SAMPLED), threads)
        return list(itertools.chain.from_iterable(chunks))

    def _segmentations(
        self, words: list[str], first: int, n: int, random: np.random.Generator | None = None
    ) -> list[list[Segmentation]]:
        """Return the n best segmentations of each word, or n random ones; `first` is the number of the first word."""
        chunk = normalize(words, self.spelling.normalization)
        codes = self.spelling.codes(chunk, first)
        marks = self.spelling.marks(chunk, codes)
        keys = letter_keys(int(np.diff(codes.offsets).max()) + 1)
        uniforms = random.random(n * codes.codes.size) if random else np.empty(0)
        unseen_char_prob, *_ = self.spelling.numbers
        found = lattice.segmentations_of_words(self.nodes, unseen_char_prob, *codes, marks, keys, n, uniforms)
        return as_segmentations(chunk, *found)

    @overload
    def weights(self, word: str) -> list[tuple[str, float]]: ...  # type: ignore[overload-overlap]
    @overload
    def weights(self, word: Iterable[str]) -> list[list[tuple[str, float]]]: ...
    def weights(self, word: str | Iterable[str]) -> list[tuple[str, float]] | list[list[tuple[str, float]]]:
        """Return the weights a(s|w) of a word's subwords (or of each of many words), largest first; they sum to 1.

        They run over the subwords that own a vector; where there are no vectors, over all known ones.
        """
        if isinstance(word, str):
            return self.lattice(word).weights()
        return [self.lattice(one).weights() for one in as_words(word)]

    @overload
    def entropy(self, word: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def entropy(self, word: Iterable[str]) -> list[float]: ...
    def entropy(self, word: str | Iterable[str]) -> float | list[float]:
        """Return how undecided the segmentation of a word (or of each of many) is, in nats."""
        if isinstance(word, str):
            return self.lattice(word).entropy()
        return [self.lattice(one).entropy() for one in as_words(word)]

    @overload
    def coverage(self, word: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def coverage(self, word: Iterable[str]) -> list[float]: ...
    def coverage(self, word: str | Iterable[str]) -> float | list[float]:
        """Return the share of a word's characters (or of each of many) that known subwords cover, 0 to 1."""
        if isinstance(word, str):
            return self.lattice(word).coverage()
        return [self.lattice(one).coverage() for one in as_words(word)]

    def __repr__(self) -> str:
        return f"<Segmenter: {len(self.index):,} subwords>"
