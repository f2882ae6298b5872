"""Segmenter: everything that needs word counts only, and no vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypeVar, overload

import numpy as np

from pbos.errors import InputError, whole_number
from pbos.files.model_folder import save_folder
from pbos.layout import load_model_folder
from pbos.settings import Normalization, Preset, Spelling
from pbos.tables.counts import WordCounts
from pbos.words.explanation import Explanation
from pbos.words.index import SubwordIndex
from pbos.words.lattice import Lattice
from pbos.words.subwords import Segmentation, Subwords
from pbos.words.text import as_words, encode
from pbos.words.variants import resolved

Result = TypeVar("Result")


class Segmenter:
    """Cuts words into subwords, with probabilities, from word counts alone.

    Every method takes one word or many: for a list of words it returns a list of what it returns for one.

    Attributes:
        index: The known subwords.
        spelling: How a word becomes subwords and weights.

    >>> segmenter = Segmenter.from_counts({"high": 60, "higher": 20, "er": 20})
    >>> print(segmenter.segment("higher")[0])
    higher 0.628
    """

    def __init__(self, index: SubwordIndex, spelling: Spelling) -> None:
        self.subwords, self.index, self.spelling = Subwords(index, spelling), index, spelling

    @classmethod
    def from_counts(
        cls,
        counts: WordCounts | Mapping[str, float] | str | PathLike[str],
        *,
        normalization: Normalization = "NFC",
        boundaries: bool = False,
        max_len: int | None = None,
        unseen_char_prob: float = 0.01,
        types: bool = False,
        min_prob_words: int = 1,
        em_rounds: int = 0,
    ) -> Segmenter:
        """Count the subwords of words.

        The defaults are the paper's. `boundaries=True, types=True, min_prob_words=2, em_rounds=10` cuts closer to stems
        and affixes: a frequent word then counts as one word, and pieces are what words have in common.

        Args:
            counts: A file, a mapping from words to counts, a language code ("en"), or WordCounts.
            normalization: Unicode form of all words: NFC, NFKC, lower, casefold, none, or auto for what
                fits the words.
            boundaries: Whether to write words with the marks `<` and `>` around them.
            max_len: The longest subword; None for no limit.
            unseen_char_prob: The probability of a character never seen.
            types: Whether to count every word once instead of by its count.
            min_prob_words: Words that must contain a subword for it to have a probability; single characters always
                have one.
            em_rounds: EM rounds to fit the probabilities to the words.
        """
        from pbos.training.counting import count_subwords, fit_probabilities  # here, as loading needs no counting

        spelling = Preset(
            normalization=normalization,
            boundaries=boundaries,
            max_len=max_len,
            unseen_char_prob=unseen_char_prob,
            types=types,
            min_prob_words=min_prob_words,
            em_rounds=em_rounds,
        ).spelling
        table = WordCounts.of(counts)
        spelling = resolved(spelling, table.words)
        table = table.normalized(spelling.normalization)
        word_counts = np.where(types, table.counts > 0, table.counts)  # a copy: kernels are compiled for such arrays
        words, every = encode(table.words, spelling), np.ones(len(table), np.bool_)
        index = count_subwords(
            words, word_counts, every, max_len=max_len, min_prob_words=min_prob_words, boundaries=boundaries
        )
        if min_prob_words > 1:
            longer = index.probs[index.alphabet.size + 1 :]
            if longer.size and not longer.any():
                raise InputError(
                    f"min_prob_words {min_prob_words} leaves single characters only; use a smaller number or more words"
                )
            index = index.pruned(index.probs > 0)
        return Segmenter(fit_probabilities(Subwords(index, spelling), words, word_counts, em_rounds), spelling)

    @overload
    def read_as(self, words: str) -> str: ...
    @overload
    def read_as(self, words: Iterable[str]) -> list[str]: ...
    def read_as(self, words: str | Iterable[str]) -> str | list[str]:
        """Return a word as it is read before it is cut or embedded: normalized, or in a form that is known.

        >>> import pbos
        >>> pbos.load().read_as(["HOUSE", "Łódź", "iPhoneCase"])
        ['house', 'lodz', 'iphone case']
        """
        return self.subwords.read([words])[0] if isinstance(words, str) else self.subwords.read(as_words(words))

    def _each(self, words: str | Iterable[str], function: Callable[[str], Result]) -> Result | list[Result]:
        """Apply a function to one word, or to each of many."""
        if isinstance(words, str):
            return function(words)
        many = as_words(words)
        encode(many, self.spelling)  # raises with the position of a bad word
        return [function(word) for word in many]

    @overload
    def lattice(self, words: str) -> Lattice: ...
    @overload
    def lattice(self, words: Iterable[str]) -> list[Lattice]: ...
    def lattice(self, words: str | Iterable[str]) -> Lattice | list[Lattice]:
        """Return all segmentations of a word, to inspect or to draw."""
        return self._each(words, lambda word: Lattice(self.subwords, word))

    @overload
    def explain(self, words: str, n: int = 5) -> Explanation: ...
    @overload
    def explain(self, words: Iterable[str], n: int = 5) -> list[Explanation]: ...
    def explain(self, words: str | Iterable[str], n: int = 5) -> Explanation | list[Explanation]:
        """Return why a word is cut the way it is, to print, to draw or to show in a notebook.

        Args:
            words: A word, or many.
            n: The number of segmentations, and of weights in tables.
        """
        n = whole_number("n", n, 1)
        return self._each(words, lambda word: Explanation(word, Lattice(self.subwords, word), n))

    @overload
    def segment(self, words: str, n: int = 1, *, threads: int | None = None) -> list[Segmentation]: ...
    @overload
    def segment(self, words: Iterable[str], n: int = 1, *, threads: int | None = None) -> list[list[Segmentation]]: ...
    def segment(self, words: str | Iterable[str], n: int = 1, *, threads: int | None = None) -> Any:
        """Return the n most probable segmentations of a word, best first.

        Args:
            words: A word, or many.
            n: The number of segmentations per word.
            threads: The number of threads; None for one per core.
        """
        if isinstance(words, str):
            return self.subwords.segment([words], n, threads)[0]
        return self.subwords.segment(as_words(words), n, threads)

    @overload
    def sample(
        self, words: str, k: int = 1, seed: int | None = None, *, threads: int | None = None
    ) -> list[Segmentation]: ...
    @overload
    def sample(
        self, words: Iterable[str], k: int = 1, seed: int | None = None, *, threads: int | None = None
    ) -> list[list[Segmentation]]: ...
    def sample(
        self, words: str | Iterable[str], k: int = 1, seed: int | None = None, *, threads: int | None = None
    ) -> Any:
        """Draw k segmentations of a word from p(g|w).

        Args:
            words: A word, or many.
            k: The number of segmentations per word; the same one may be drawn more than once.
            seed: Makes the draws repeatable, for any number of threads.
            threads: The number of threads; None for one per core.
        """
        if isinstance(words, str):
            return self.subwords.sample([words], k, seed, threads=threads)[0]
        return self.subwords.sample(as_words(words), k, seed, threads=threads)

    @overload
    def weights(self, words: str) -> list[tuple[str, float]]: ...
    @overload
    def weights(self, words: Iterable[str]) -> list[list[tuple[str, float]]]: ...
    def weights(self, words: str | Iterable[str]) -> Any:
        """Return the weights a(s|w) of a word's subwords, largest first; they sum to 1.

        They are over the subwords that have a vector or, without vectors, over all known subwords.
        """
        return self._each(words, lambda word: Lattice(self.subwords, word).weights())

    @overload
    def entropy(self, words: str) -> float: ...
    @overload
    def entropy(self, words: Iterable[str]) -> list[float]: ...
    def entropy(self, words: str | Iterable[str]) -> float | list[float]:
        """Return how uncertain the segmentation of a word is, in nats."""
        return self._each(words, lambda word: Lattice(self.subwords, word).entropy())

    @overload
    def coverage(self, words: str) -> float: ...
    @overload
    def coverage(self, words: Iterable[str]) -> list[float]: ...
    def coverage(self, words: str | Iterable[str]) -> float | list[float]:
        """Return the share of a word's characters that known subwords cover, 0 to 1."""
        return self._each(words, lambda word: Lattice(self.subwords, word).coverage())

    # -- files and copies ----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Save to a folder, completely or not at all; one that is already there is replaced in one step."""
        config = {"subwords": len(self.index), "spelling": self.spelling.to_dict()}
        card = "# A pbos segmenter\n\nCuts words into subwords. Use it with `pbos.Segmenter.load(path)`.\n"
        save_folder(path, self.index.tensors(), config, card)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Segmenter:
        """Load a folder that `save` wrote, by mapping it into memory; a model folder works too.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Segmenter.from_counts({"high": 3, "higher": 1}).save(f"{folder}/segmenter")
        ...     print(Segmenter.load(f"{folder}/segmenter").segment("higher")[0])
        higher 0.672
        """
        tensors, spelling, _ = load_model_folder(path)
        return Segmenter(SubwordIndex.of_tensors(tensors), spelling)

    def __reduce__(self) -> tuple[Any, ...]:
        return Segmenter, (self.index, self.spelling)

    def __repr__(self) -> str:
        return f"<Segmenter: {len(self.index):,} subwords>"
