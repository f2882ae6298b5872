"""scikit-learn: transformers from words and texts to vectors (extra `sklearn`)."""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from pbos.errors import InputError, MissingExtraError, share
from pbos.jobs.threads import blocks
from pbos.model import Model, load
from pbos.settings import MISSING, Missing, check_choice
from pbos.tables.counts import WordCounts
from pbos.words.arrays import FloatMatrix, principal_components
from pbos.words.text import MissingWord, as_words
from pbos.words.texts import mean_vectors, split_text

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise MissingExtraError("pbos.adapters.sklearn", "sklearn") from None

TEXTS = 1 << 14  # averaged at a time, to limit the memory for the vectors of their words


class ModelTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of both transformers: a model that is given, or loaded on first use.

    Copies, pickles and other processes get the path of a model, or None, and load it themselves.
    """

    model: Model | str | os.PathLike[str] | None
    min_confidence: float | None

    def _get_model(self) -> Model:
        if isinstance(self.model, Model):
            return self.model
        loaded: dict[Any, Model] = self.__dict__.setdefault("_loaded", {})
        if self.model not in loaded:
            loaded[self.model] = load(self.model)
        return loaded[self.model]

    def _embed(self, words: Iterable[str], missing: Missing = "error") -> FloatMatrix:
        """Return the vectors of words, zeros for those with too little confidence."""
        model = self._get_model()
        vectors = model.embed(words, missing=missing)
        if self.min_confidence is not None:
            vectors[model.confidence(words, missing=missing) < share("min_confidence", self.min_confidence)] = 0
        return vectors

    @property
    def _n_features_out(self) -> int:
        return self._get_model().dims

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def __sklearn_clone__(self) -> ModelTransformer:
        """Clone all but the model, which is immutable and may be large."""
        shell = copy.copy(self)
        shell.model = None
        clone: ModelTransformer = super(ModelTransformer, shell).__sklearn_clone__()
        clone.model = self.model
        return clone

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False  # except a single column
        tags.transformer_tags.preserves_dtype = []  # strings become float32
        return tags


class WordEmbedder(ModelTransformer):
    """Words to vectors, as `model.embed`: float32, zeros for a word without any known subword. Nothing is learned.

    Args:
        model: A model, the path of one, or None for the English model that comes with pbos.
        missing: What to do with missing words (None, NaN, empty): "error", or "zeros" for zero vectors.
        min_confidence: Give zero vectors to words whose `Model.confidence` is lower; None for no word.

    >>> WordEmbedder().transform(["higher", "unfriendliest"]).dtype
    dtype('float32')
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        missing: Missing = "error",
        min_confidence: float | None = None,
    ) -> None:
        self.model = model
        self.missing = missing
        self.min_confidence = min_confidence

    def fit(self, X: Any, y: Any = None) -> WordEmbedder:
        """Check that there is a model and that X has words."""
        strings_of(X, "word", self.missing)
        self._embed([])
        return self

    def transform(self, X: Any) -> FloatMatrix:
        """Return the vectors of words, float32 (n_words, dims).

        X is a list, an array, a pandas, Polars or Arrow column, or a table with one column.
        """
        return self._embed(strings_of(X, "word", self.missing), self.missing)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class PbosVectorizer(ModelTransformer):
    """Texts to vectors: the average of the vectors of a text's words, float32.

    Words without any known subword are left out. A text without other words gets zeros.

    With `weighting="sif"` (smooth inverse frequency; Arora, Liang and Ma, 2017) a word has the weight a / (a + p(w)),
    where p(w) is its relative frequency: in `counts` or, without them, in the texts given to `fit`, which should then
    be many. Words without a count have weight 1.

    Args:
        model: A model, the path of one, or None for the English model that comes with pbos.
        weighting: "mean" or "sif".
        a: The `a` of the formula above; 1e-4 to 1e-3 in the paper.
        counts: Word counts for SIF: a file, a mapping, or a language such as "en" (extra `wordfreq`); None for those of
            the texts given to `fit`.
        remove_component: Whether to subtract from each vector its projection onto the first principal component of the
            texts given to `fit`, the second step of SIF.
        lowercase: Whether to lowercase texts; use False for a model trained on cased words.
        token_pattern: A regular expression that matches a word, as in `CountVectorizer`. None for runs of letters,
            digits and marks of any script, with apostrophes inside ("don't").
        tokenizer: A function from a text to its words, instead of the pattern.
        missing: What to do with missing texts (None, NaN): "error", or "zeros" for zero vectors. An empty text is not
            missing.
        min_confidence: Leave out words whose `Model.confidence` is lower too; None for no word.

    Attributes:
        word_probs_: The relative frequency p(w) of each word.
        component_: The principal component that is removed, float32 (dims,), or None.

    >>> vectorizer = PbosVectorizer(weighting="sif").fit(["a higher tower", "a lower tower"])
    >>> vectorizer.word_probs_["tower"]
    0.3333333333333333
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        *,
        weighting: str = "mean",
        a: float = 1e-3,
        counts: Any = None,
        remove_component: bool = False,
        lowercase: bool = True,
        token_pattern: str | None = None,
        tokenizer: Callable[[str], Iterable[str]] | None = None,
        missing: Missing = "error",
        min_confidence: float | None = None,
    ) -> None:
        self.model = model
        self.weighting = weighting
        self.a = a
        self.counts = counts
        self.remove_component = remove_component
        self.lowercase = lowercase
        self.token_pattern = token_pattern
        self.tokenizer = tokenizer
        self.missing = missing
        self.min_confidence = min_confidence

    def fit(self, X: Any, y: Any = None) -> PbosVectorizer:
        """Learn the frequencies of words and, if requested, the first principal component.

        X has texts: a list, an array, a pandas, Polars or Arrow column, or a table with one column.
        """
        check_choice("weighting", self.weighting, ("mean", "sif"))
        if not self.a > 0:
            raise InputError(f"a must be greater than 0, got {self.a!r}")
        texts = strings_of(X, "text", self.missing)
        self._embed([])  # checks the model and min_confidence
        if not texts and (self.remove_component or (self.weighting == "sif" and self.counts is None)):
            raise InputError("there are no texts to learn frequencies or the component from; pass texts to fit")
        if self.counts is None:
            counts: Mapping[str, float] = Counter(chain.from_iterable(self._words_of(texts)))
        else:
            given = WordCounts.of(self.counts)
            counts = dict(given.normalized("lower") if self.lowercase else given)
        total = sum(counts.values())
        self.word_probs_ = {word: count / total for word, count in counts.items()}
        self.component_ = principal_components(self._averages(texts), 1)[:, 0] if self.remove_component else None
        return self

    def transform(self, X: Any) -> FloatMatrix:
        """Return the vectors of texts, float32 (n_texts, dims)."""
        check_is_fitted(self, "word_probs_")
        vectors = self._averages(strings_of(X, "text", self.missing))
        if self.component_ is not None:
            vectors -= np.outer(vectors @ self.component_, self.component_)
        return vectors

    def _words_of(self, texts: list[str]) -> Iterator[list[str]]:
        """Yield the words of each text."""
        split: Callable[[str], Iterable[str]] = self.tokenizer or split_text
        if self.tokenizer is None and self.token_pattern is not None:
            split = re.compile(self.token_pattern).findall
        for text in texts:
            yield [word for word in split(text.lower() if self.lowercase else text) if word]

    def _averages(self, texts: list[str]) -> FloatMatrix:
        """Average the weighted vectors of each text's words."""
        vectors = np.empty((len(texts), self._n_features_out), np.float32)
        for part in blocks(len(texts), TEXTS):
            split = list(self._words_of(texts[part]))
            probs = self.word_probs_ if self.weighting == "sif" else None
            vectors[part] = mean_vectors(split, self._embed, probs, self.a)
        return vectors


def strings_of(X: Any, what: str, missing: str) -> list[str]:
    """Return a column of strings, or a table with one column, as a list; "" for missing ones if they are allowed."""
    check_choice("missing", missing, MISSING)
    if len(getattr(X, "shape", ())) == 2:
        if X.shape[1] != 1:
            raise InputError(f"expected one column of {what}s, got {X.shape[1]}; choose one")
        X = np.asarray(X)[:, 0]
    elif isinstance(X, (list, tuple)) and all(isinstance(row, (list, tuple)) and len(row) == 1 for row in X):
        X = [row[0] for row in X]  # a table as lists
    try:
        return as_words(X, blank_missing=missing == "zeros", what=what)
    except MissingWord as error:
        raise InputError(f'{error}, or use missing="zeros"') from None
