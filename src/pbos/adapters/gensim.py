"""gensim: KeyedVectors with vectors for unseen words (extra `gensim`).

The vocabulary (`key_to_index`, `index_to_key`, the results of `most_similar`) is the model's training words. Vectors of
all other words are composed from their spelling on demand, as with gensim's `FastTextKeyedVectors`.

>>> import pbos
>>> kv = keyed_vectors(pbos.load())
>>> "unfriendliest" in kv.key_to_index, "unfriendliest" in kv
(False, True)
>>> [word for word, cosine in kv.most_similar("unfriendliest", topn=2)]
['unfriendly', 'friendliest']
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError
from pbos.model import Model

try:
    from gensim.models import KeyedVectors
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
        try:
            return self.has_index_for(key) or self.get_vector(key) is not None
        except KeyError:
            return False

    def get_index(self, key: Any, default: int | None = None) -> int:
        """Return the row of a word in the vocabulary; for other words the default, or a KeyError without one."""
        if isinstance(key, str) and key not in self.key_to_index:
            (key,) = self.model.subwords.read([key])
        index: int = super().get_index(key, default)
        return index

    def get_vector(self, key: Any, norm: bool = False) -> Vectors:
        """Return the vector of a word, seen or unseen, or of a row; scaled to length 1 if `norm`."""
        index, vector = self.get_index(key, -1), np.zeros(self.vector_size, np.float32)
        word = self.index_to_key[index] if index >= 0 else key
        if index >= 0 and "vectors" in self.__dict__:
            vector = self.vectors[index]
        elif isinstance(word, str):  # composes this word only, not the vocabulary
            with suppress(InputError):  # empty, or not valid Unicode
                vector = self.model.embed(word, exact=self.exact)
        if index < 0 and not vector.any():
            raise KeyError(f"Key '{key}' not present, and it has no known subword")
        if norm:
            vector = vector / (np.linalg.norm(vector) or 1)
        vector.setflags(write=False)  # as in KeyedVectors
        return vector

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
