"""gensim: KeyedVectors that have a vector for unseen words too.

Code written for gensim's `KeyedVectors` runs on what `keyed_vectors` returns. Its vocabulary (`key_to_index`,
`index_to_key`, what `most_similar` finds) are the model's training words. Every other word is composed from its
spelling when it is asked for, as with gensim's `FastTextKeyedVectors`, but from any word vectors, without a corpus.

>>> import pbos
>>> kv = keyed_vectors(pbos.load())
>>> "unfriendliest" in kv.key_to_index, "unfriendliest" in kv
(False, True)
>>> [word for word, cosine in kv.most_similar("unfriendliest", topn=2)]
['unfriendly', 'unfriend']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError
from pbos.model import Model
from pbos.text import normalize

try:
    from gensim.models import KeyedVectors
    from gensim.utils import open as open_text
except ImportError:
    raise MissingExtraError("pbos.adapters.gensim", "gensim") from None

Vectors = npt.NDArray[Any]


def keyed_vectors(model: Model, *, exact: bool = False) -> PBoSKeyedVectors:
    """Return a model as gensim's KeyedVectors.

    Args:
        model: The model.
        exact: Take the given vectors of the training words instead of composed ones; the model must hold them
            (`train(..., keep_targets=True)`).
    """
    return PBoSKeyedVectors(model, exact=exact)


class PBoSKeyedVectors(KeyedVectors):  # type: ignore[misc]
    """KeyedVectors over a model; see `keyed_vectors`.

    A word is `in` them if it is a training word or has a known subword; any other raises a KeyError. A word counts as
    the training word that has the same normal form. Vectors added by hand (`add_vectors`, `kv["word"] = vector`) join
    the vocabulary. The vectors of the whole vocabulary are composed when first needed: `kv["word"]`, `similarity` and
    `distance` do without.
    """

    vectors: Vectors  # (n_words, dims)
    norms: Vectors | None

    def __init__(self, model: Model, *, exact: bool = False) -> None:
        super().__init__(model.dims)
        del self.vectors  # see __getattr__
        if exact:
            model.embed(model.words[:1], exact=True)  # which says so where the model does not hold them
        self.model = model
        self.exact = exact
        self.index_to_key = list(model.words)
        self.key_to_index = {word: row for row, word in enumerate(model.words)}
        self.next_index = len(model.words)

    def __getattr__(self, name: str) -> Any:
        """Compose the vectors of the vocabulary when they are first asked for."""
        if name != "vectors" or "model" not in self.__dict__:
            return super().__getattribute__(name)  # which says what is wrong
        self.vectors = self.model.embed(self.model.words, exact=self.exact)
        return self.vectors

    # -- one key, many keys --------------------------------------------------------------------------------------------

    def __contains__(self, key: Any) -> bool:
        return self.has_index_for(key) or self._composed(key) is not None

    def get_index(self, key: Any, default: int | None = None) -> int:
        """Return the row of a word in the vocabulary; without a default, a KeyError for all others."""
        if isinstance(key, str) and key not in self.key_to_index:
            (key,) = normalize([key], self.model.spelling.normalization)
        index: int = super().get_index(key, default)
        return index

    def get_vector(self, key: Any, norm: bool = False) -> Vectors:
        """Return the vector of a word, seen or unseen, or of a row; of length 1 if `norm`."""
        vector: Vectors | None
        index = self.get_index(key, -1)
        if index < 0:
            vector = self._composed(key)
        elif "vectors" in self.__dict__:
            vector = self.vectors[index]
        else:  # no more of the vocabulary is composed than asked for
            (vector,) = self.model.embed([self.index_to_key[index]], exact=self.exact)
        if vector is None:
            raise KeyError(f"Key '{key}' not present, and no subword in it is known")
        if norm:
            vector = vector / (np.linalg.norm(vector) or 1)
        vector.setflags(write=False)  # as KeyedVectors do
        return vector

    def __getitem__(self, key_or_keys: Any) -> Vectors:
        """Return the vector of one key, or of many as rows."""
        if isinstance(key_or_keys, (str, int, np.integer)):
            return self.get_vector(key_or_keys)
        keys = list(key_or_keys)
        try:
            rows = self.model.embed(keys, exact=self.exact)
        except InputError:  # some are numbers of rows; or one has no vector, and is named
            return np.vstack([self.get_vector(key) for key in keys])
        indices = np.array([self.get_index(key, -1) for key in keys], np.intp)
        for at in np.flatnonzero((indices < 0) & ~rows.any(axis=1)):
            self.get_vector(keys[at])  # raises
        if "vectors" in self.__dict__:  # which may have been changed
            rows[indices >= 0] = self.vectors[indices[indices >= 0]]
        return rows

    def _composed(self, key: Any) -> Vectors | None:
        """Return the vector composed from a spelling, or None where there is nothing to compose it from."""
        try:
            vector = self.model[key]
        except InputError:  # no str, empty, or no Unicode
            return None
        return vector if vector.any() else None

    # -- where gensim looks for rows only ------------------------------------------------------------------------------

    def distances(self, word_or_vector: Any, other_words: Iterable[Any] = ()) -> Vectors:
        """Return the cosine distances of a word or vector to other words, or to the whole vocabulary."""
        is_key = isinstance(word_or_vector, (str, int, np.integer))
        vector = self.get_vector(word_or_vector) if is_key else word_or_vector
        others = list(other_words or ())
        with np.errstate(invalid="ignore"):
            distances: Vectors = 1 - self.cosine_similarities(vector, self[others] if others else self.vectors)
        distances[np.isnan(distances)] = 1  # a training word may have zeros, where none of its subwords kept a vector
        return distances

    def closer_than(self, key1: Any, key2: Any) -> list[Any]:
        """Return the words of the vocabulary that are closer to `key1` than `key2` is, without `key1` itself."""
        distances, index1, index2 = self.distances(key1), self.get_index(key1, -1), self.get_index(key2, -1)
        limit = distances[index2] if index2 >= 0 else self.distances(key1, [key2])[0]
        return [self.index_to_key[index] for index in np.flatnonzero(distances < limit) if index != index1]

    def fill_norms(self, force: bool = False) -> None:
        """Compute the lengths of the vocabulary's vectors, if they are not there yet."""
        super().fill_norms(force)
        if self.norms is not None:  # as it now is
            self.norms[self.norms == 0] = 1  # so that zeros have cosine 0 with all vectors, and not NaN

    def add_vectors(self, keys: Any, weights: Any, extras: Any = None, replace: bool = False) -> None:
        """Add words with vectors of their own to the vocabulary."""
        super().add_vectors(keys, weights, extras, replace)
        self.norms = None  # gensim (4.4) would go on with the old ones

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def evaluate_word_pairs(
        self,
        pairs: Any,
        delimiter: str = "\t",
        encoding: str = "utf8",
        restrict_vocab: int | None = 300000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
    ) -> Any:
        """Correlate similarities with people's judgments, as gensim does; unseen words take part.

        Args:
            pairs: A file of word, word and score in each line.
            delimiter: What separates them.
            encoding: The file's encoding.
            restrict_vocab: How many of the vocabulary's words to look among; all other words are composed.
            case_insensitive: Whether case does not matter; an unseen word is then composed as it is written or in lower
                case, whichever the model knows more of.
            dummy4unknown: Whether pairs with a word that has no vector count as 0; otherwise they are skipped.
        """
        with open_text(pairs, encoding=encoding) as lines:
            rows = [line.split(delimiter) for line in lines if not line.startswith("#")]
        words = [word for row in rows if len(row) == 3 for word in row[:2]]
        known = self._with_unseen(words, restrict_vocab, case_insensitive)
        return known.evaluate_word_pairs(pairs, delimiter, encoding, len(known), case_insensitive, dummy4unknown)

    def evaluate_word_analogies(
        self,
        analogies: Any,
        restrict_vocab: int | None = 300000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
        similarity_function: str = "most_similar",
    ) -> Any:
        """Solve analogies, as gensim does; unseen words take part, also as answers.

        Args:
            analogies: A file of four words in each line, in sections with a line ": name" before each.
            restrict_vocab: As answers, consider the first so many words of the vocabulary, and the unseen words of the
                file.
            case_insensitive: Whether case does not matter, as in `evaluate_word_pairs`.
            dummy4unknown: Whether lines with a word that has no vector count as wrong; otherwise they are skipped.
            similarity_function: Not used by gensim either.
        """
        with open_text(analogies, encoding="utf8") as lines:
            rows = [line.split() for line in lines if not line.startswith(": ")]
        words = [word for row in rows if len(row) == 4 for word in row]
        known = self._with_unseen(words, restrict_vocab, case_insensitive)
        return known.evaluate_word_analogies(
            analogies, len(known), case_insensitive, dummy4unknown, similarity_function
        )

    def _with_unseen(self, words: Iterable[str], restrict_vocab: int | None, case_insensitive: bool) -> Any:
        """Return gensim's own KeyedVectors of the vocabulary's first words and, after them, the unseen among words."""
        key = str.upper if case_insensitive else str
        result = KeyedVectors(self.vector_size)
        kept = self.index_to_key[:restrict_vocab]
        result.add_vectors(kept, self.vectors[: len(kept)])
        known, unseen = {key(word) for word in kept}, {}
        for word in words:
            spellings = {word, word.lower()} if case_insensitive else {word}
            spellings = {spelling for spelling in spellings if spelling in self}
            if spellings and key(word) not in known:
                known.add(key(word))
                unseen[word] = max(sorted(spellings), key=self.model.coverage)
        if unseen:
            result.add_vectors(list(unseen), self[unseen.values()])
        return result
