"""gensim: KeyedVectors with vectors for unseen words (extra `gensim`).

The vocabulary (`key_to_index`, `index_to_key`, the results of `most_similar`) is the model's training words. Vectors of
all other words are composed from their spelling on demand, as with gensim's `FastTextKeyedVectors`.

>>> import pbos
>>> kv = keyed_vectors(pbos.load())
>>> "unfriendliest" in kv.key_to_index, "unfriendliest" in kv
(False, True)
>>> [word for word, cosine in kv.most_similar("unfriendliest", topn=2)]
['unfriendly', 'unfriend']
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError
from pbos.model import Model

try:
    from gensim.models import KeyedVectors
    from gensim.utils import open as open_text
except ImportError:
    raise MissingExtraError("pbos.adapters.gensim", "gensim") from None

Vectors = npt.NDArray[Any]


def keyed_vectors(model: Model, *, exact: bool = False) -> PbosKeyedVectors:
    """Return a model as gensim's KeyedVectors.

    Args:
        model: The model.
        exact: Use the given vectors of training words instead of composed ones (see `Model.embed`).
    """
    return PbosKeyedVectors(model, exact=exact)


class PbosKeyedVectors(KeyedVectors):  # type: ignore[misc]
    """KeyedVectors over a model; see `keyed_vectors`.

    `word in kv` is true for training words and for words with a known subword; any other word raises a KeyError. Words
    are normalized as the model does. Vectors added by hand (`add_vectors`, `kv["word"] = vector`) join the vocabulary.
    The vectors of the whole vocabulary are composed on first use; `kv["word"]`, `similarity` and `distance` do not need
    them.
    """

    norms: Vectors | None

    def __init__(self, model: Model, *, exact: bool = False) -> None:
        super().__init__(model.dims)
        del self.vectors  # gensim's empty matrix, which hides the property below
        model.embed([], exact=exact)  # raises InputError if the model does not have the given vectors
        self.model = model
        self.exact = exact
        self.index_to_key = list(model.words)
        self.key_to_index = {word: row for row, word in enumerate(model.words)}
        self.next_index = len(model.words)

    @cached_property
    def vectors(self) -> Vectors:
        """The vectors of the vocabulary, (n_words, dims), composed on first use."""
        return self.model.embed(self.model.words, exact=self.exact)

    def __contains__(self, key: Any) -> bool:
        return self.has_index_for(key) or self._composed(key) is not None

    def get_index(self, key: Any, default: int | None = None) -> int:
        """Return the row of a word in the vocabulary; for other words the default, or a KeyError without one."""
        if isinstance(key, str) and key not in self.key_to_index:
            (key,) = self.model.subwords.read([key])
        index: int = super().get_index(key, default)
        return index

    def get_vector(self, key: Any, norm: bool = False) -> Vectors:
        """Return the vector of a word, seen or unseen, or of a row; scaled to length 1 if `norm`."""
        vector: Vectors | None
        index = self.get_index(key, -1)
        if index < 0:
            vector = self._composed(key)
        elif "vectors" in self.__dict__:
            vector = self.vectors[index]
        else:  # composes this word only, not the vocabulary
            vector = self.model.embed(self.index_to_key[index], exact=self.exact)
        if vector is None:
            raise KeyError(f"Key '{key}' not present, and it has no known subword")
        if norm:
            vector = vector / (np.linalg.norm(vector) or 1)
        vector.setflags(write=False)  # as in KeyedVectors
        return vector

    def __getitem__(self, key_or_keys: Any) -> Vectors:
        """Return the vector of one key, or of many as rows."""
        if isinstance(key_or_keys, (str, int, np.integer)):
            return self.get_vector(key_or_keys)
        keys = list(key_or_keys)
        try:
            rows = self.model.embed(keys, exact=self.exact)
        except InputError:  # some keys are row numbers, or are not words, which get_vector names
            return np.vstack([self.get_vector(key) for key in keys])
        indices = np.array([self.get_index(key, -1) for key in keys], np.intp)
        for at in np.flatnonzero((indices < 0) & ~rows.any(axis=1)):
            self.get_vector(keys[at])  # raises
        if "vectors" in self.__dict__:  # they may have been changed
            rows[indices >= 0] = self.vectors[indices[indices >= 0]]
        return rows

    def _composed(self, key: Any) -> Vectors | None:
        """Return the vector composed from the spelling of a word, or None if it has no known subword."""
        try:
            vector = self.model[key] if isinstance(key, str) else np.zeros(0)
        except InputError:  # empty, or not valid Unicode
            return None
        return vector if vector.any() else None

    def distances(self, word_or_vector: Any, other_words: Iterable[Any] = ()) -> Vectors:
        """Return the cosine distances of a word or vector to other words, or to the whole vocabulary."""
        is_key = isinstance(word_or_vector, (str, int, np.integer))
        vector = self.get_vector(word_or_vector) if is_key else word_or_vector
        others = list(other_words or ())
        with np.errstate(invalid="ignore"):
            distances: Vectors = 1 - self.cosine_similarities(vector, self[others] if others else self.vectors)
        distances[np.isnan(distances)] = 1  # the vector of a training word is zero if no subword of it has a vector
        return distances

    def closer_than(self, key1: Any, key2: Any) -> list[Any]:
        """Return the words of the vocabulary that are closer to `key1` than `key2` is, except `key1` itself."""
        distances, index1, index2 = self.distances(key1), self.get_index(key1, -1), self.get_index(key2, -1)
        limit = distances[index2] if index2 >= 0 else self.distances(key1, [key2])[0]
        return [self.index_to_key[index] for index in np.flatnonzero(distances < limit) if index != index1]

    def fill_norms(self, force: bool = False) -> None:
        """Compute the lengths of the vocabulary's vectors, unless they are known."""
        super().fill_norms(force)
        if self.norms is not None:
            self.norms[self.norms == 0] = 1  # a zero vector then has cosine 0 with all vectors, not NaN

    def add_vectors(self, keys: Any, weights: Any, extras: Any = None, replace: bool = False) -> None:
        """Add words and their vectors to the vocabulary."""
        super().add_vectors(keys, weights, extras, replace)
        self.norms = None  # gensim (4.4) would keep the old ones

    def evaluate_word_pairs(
        self,
        pairs: Any,
        delimiter: str = "\t",
        encoding: str = "utf8",
        restrict_vocab: int | None = 300000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
    ) -> Any:
        """Correlate similarities with human judgments as gensim does, but compose unseen words.

        Words beyond the first `restrict_vocab` are composed too.
        """
        with open_text(pairs, encoding=encoding) as lines:
            words = [word for line in lines for word in line.split(delimiter)[:2]]
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
        """Solve analogies as gensim does, but compose unseen words.

        The answers are among the first `restrict_vocab` words and the unseen words of the file.
        """
        with open_text(analogies, encoding="utf8") as lines:
            rows = [line.split() for line in lines if not line.startswith(": ")]
        words = [word for row in rows if len(row) == 4 for word in row]
        known = self._with_unseen(words, restrict_vocab, case_insensitive)
        return known.evaluate_word_analogies(analogies, len(known), case_insensitive, dummy4unknown)

    def _with_unseen(self, words: list[str], restrict_vocab: int | None, case_insensitive: bool) -> Any:
        """Return plain KeyedVectors of the first words of the vocabulary, followed by the unseen ones of `words`."""
        key = str.upper if case_insensitive else str
        kept = self.index_to_key[:restrict_vocab]
        result = KeyedVectors(self.vector_size)
        result.add_vectors(kept, self.vectors[: len(kept)])
        seen = {key(word) for word in kept}
        unseen = list({key(word): word for word in words if word and key(word) not in seen}.values())
        if case_insensitive:  # as written or in lower case, whichever the model covers better
            unseen = [max(word, word.lower(), key=self.model.coverage) for word in unseen]
        if chosen := [word for word in unseen if word in self]:
            result.add_vectors(chosen, self[chosen])
        return result
