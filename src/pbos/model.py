"""Model: a vector for every word."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property, partial
from os import PathLike
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from pbos.contexts import KINDS, ContextMap, Mixed, Seen
from pbos.errors import InputError, ModelError, warn, whole_number
from pbos.files.card import html_card, model_card
from pbos.files.model_folder import Tensors, resolve_model, save_folder
from pbos.jobs.threads import blocks
from pbos.layout import load_model_folder
from pbos.segmenter import Segmenter
from pbos.settings import Missing, Spelling
from pbos.words.arrays import FloatMatrix, checked_out, cosines, principal_components, unit_rows
from pbos.words.confidence import Confidence
from pbos.words.explanation import Explanation
from pbos.words.index import SubwordIndex
from pbos.words.lattice import Lattice
from pbos.words.neighbors import Near, SpellingNeighbors
from pbos.words.readonly import owned, read_only
from pbos.words.search import Neighbors as Neighbors
from pbos.words.search import SearchedWords, asked_for
from pbos.words.subwords import Subwords
from pbos.words.text import (
    MissingWord,
    PackedStrings,
    as_words,
    encode,
    first_of_equal,
    normalize,
    one_or_many,
    pack_strings,
)
from pbos.words.texts import mean_vectors, split_text
from pbos.words.vectors import SubwordVectors

KEPT = 0.8  # confidence in a training word from which on contexts do not change its vector
Contexts = str | Iterable[str] | Mapping[str, str | Iterable[str]]
MANY_SPACES = 2  # in a word, which then is probably a text
IN_OTHER_LIBRARIES = {  # the names that gensim, fastText and sentence-transformers have for what a model does
    "model.embed(words), or model[word]": ["get_word_vector", "get_vector", "word_vec"],
    "model.neighbors(word, n)": ["most_similar", "similar_by_word", "get_nearest_neighbors"],
    "model.neighbors(positive=..., negative=...)": ["get_analogies", "most_similar_cosmul"],
    "model.embed_text(text)": ["get_sentence_vector", "encode"],
    "model.words, and word in model": ["index_to_key", "key_to_index", "get_words", "vocab"],
    "model.explain(word), or model.weights(word)": ["get_subwords"],
    "pbos.adapters.gensim.keyed_vectors(model)": ["wv", "doesnt_match", "n_similarity"],
}


class Model(Segmenter):
    """Subwords and their vectors: embeds, segments and explains any word.

    Make one with `pbos.train` or `pbos.load`. Models are immutable, so threads can share them: what they hand out is
    read-only or a copy. `len`, `in` and iteration are about the training words, in their given order; every method
    takes one word or many.

    Attributes:
        subword_vectors: The vectors of the subwords.
        dims: The number of dimensions.
        info: How the model was made, as plain data; stored in config.json.
    """

    def __init__(
        self,
        index: SubwordIndex,
        spelling: Spelling,
        subword_vectors: SubwordVectors,
        packed_words: PackedStrings,
        target_vectors: FloatMatrix | None = None,
        info: dict[str, Any] | None = None,
        confidence: Confidence | None = None,
        contexts: ContextMap | None = None,
        near: SpellingNeighbors | None = None,
    ) -> None:
        self.subwords = Subwords(index, spelling, subword_vectors.lengths, packed_words)
        self.index, self.spelling, self.subword_vectors = index, spelling, subword_vectors
        self.dims = subword_vectors.dims
        self.info: dict[str, Any] = read_only(info or {})
        self._packed_words, self._target_vectors = packed_words, target_vectors
        self._confidence, self._contexts, self._near = confidence, contexts, near
        if target_vectors is not None:
            target_vectors.flags.writeable = False

    # -- vectors -------------------------------------------------------------------------------------------------------

    @property
    def vector_size(self) -> int:
        """The number of dimensions, as gensim calls it."""
        return self.dims

    def __getitem__(self, words: str | Iterable[str]) -> npt.NDArray[np.float32]:
        """Return the vector of one word, float32 (dims,), or of many, (n_words, dims)."""
        return self.embed(words)

    def embed(
        self,
        words: str | Iterable[str | None] | None,
        *,
        contexts: Contexts | None = None,
        threads: int | None = None,
        out: FloatMatrix | None = None,
        exact: bool = False,
        missing: Missing = "error",
    ) -> npt.NDArray[np.float32]:
        """Return the vector of one word, float32 (dims,), or of many, (n_words, dims).

        A word without any known subword gets zeros (and `coverage` 0).

        Args:
            words: A word, a list or any iterable of str, a NumPy array of strings, a pandas or Arrow column.
            contexts: Sentences in which the word occurs, one or a list; for many words a mapping from words to these.
                What they tell is mixed with the spelling; training words stay as they are. The model must have been
                trained with a text (see `train`).
            threads: The number of threads; None for one per core. The result does not depend on it.
            out: For many words: a C-contiguous float32 array (n_words, dims) to write into.
            exact: Return a training word's given vector instead of the composed one; the model must have them
                (see `keep_targets` of `train`, and `with_targets`).
            missing: What to do with missing words (None, NaN, empty): "error", or "zeros" for zero vectors.
        """
        try:
            many, one, blank = one_or_many(words, missing)
            if one and many[0].count(" ") >= MANY_SPACES and words not in self:
                warn_of_text()
            shape = len(many), self.dims
            out = np.empty(shape, np.float32) if out is None else checked_out(out, shape)
            if contexts is None or (one and blank):
                self.subwords.embed(many, self.subword_vectors, out, threads)
                if self._near is not None:
                    self._near.add(self.subwords, many, out, threads)
            else:
                out[:] = self._mixed(many, self._seen(words, many, contexts), threads).vectors
        except MissingWord as error:
            raise InputError(f'{error}, or embed them with missing="zeros"') from None
        if exact:
            self._put_given_vectors(many, out)
        if blank:  # for one word, an empty selection takes longer than this question
            out[blank] = 0
        return out[0] if one else out

    def embed_text(
        self, texts: str | Iterable[str], *, counts: Mapping[str, float] | None = None, unit: bool = False
    ) -> npt.NDArray[np.float32]:
        """Return the vector of a text, float32 (dims,), or of many, (n_texts, dims): the mean of its words' vectors.

        Words are runs of letters, digits and marks, with apostrophes inside. Those without any known subword are left
        out, and a text without other words gets zeros. `PbosVectorizer` (extra `sklearn`) can do more.

        Args:
            texts: A text, or many.
            counts: How often words occur, such as a Counter: words then have the weight a / (a + p), where p is their
                relative frequency and a is .001 (smooth inverse frequency, SIF).
            unit: Whether to scale the vectors of words to length 1 first, as fastText does.

        >>> load().embed_text(["the cat sat", "on the mat"]).shape
        (2, 160)
        """
        many, one, _ = one_or_many(texts, "zeros")
        total = sum(counts.values()) if counts else 0
        probs = None if counts is None else {word: count / total for word, count in counts.items()}
        split = [split_text(text) for text in many]
        found = mean_vectors(split, lambda words: unit_rows(self.embed(words)) if unit else self.embed(words), probs)
        return found[0] if one else found

    def __getattr__(self, name: str) -> Any:
        for ours, names in IN_OTHER_LIBRARIES.items():
            if name in names:
                raise AttributeError(f"a pbos model has no {name}; use {ours}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _vectors(self, words: list[str], exact: bool = False) -> FloatMatrix:
        """Return the vectors of words for methods without `missing`, which errors should not advise."""
        out = np.empty((len(words), self.dims), np.float32)
        self.subwords.embed(words, self.subword_vectors, out)
        if self._near is not None:
            self._near.add(self.subwords, words, out)
        if exact:
            self._put_given_vectors(words, out)
        return out

    def _put_given_vectors(self, words: list[str], out: FloatMatrix) -> None:
        if self._target_vectors is None:
            raise InputError(
                "this model does not have the given vectors, so exact cannot be used; "
                "pass them to with_targets (--vectors), or train with keep_targets=True"
            )
        for at, word in enumerate(self.subwords.read(words)):
            if (row := self.subwords.word_rows.get(word)) is not None:
                out[at] = self._target_vectors[row]

    @property
    def has_confidence(self) -> bool:
        """Whether the model has a confidence; `default` models of at least 1,000 words have one."""
        return self._confidence is not None

    @property
    def has_targets(self) -> bool:
        """Whether the model has the given vectors of its training words, for `exact=True`."""
        return self._target_vectors is not None

    @property
    def has_contexts(self) -> bool:
        """Whether the model can use contexts, because it was trained with a text."""
        return self._contexts is not None

    def _seen(self, words: Any, many: list[str], contexts: Contexts) -> dict[str, Seen]:
        """Return the words around some words; the words are given one or many, and as a list."""
        if self._contexts is None:
            raise InputError("this model cannot use contexts; train one with a text: train(vectors, text=...)")
        if isinstance(words, str) and not isinstance(contexts, Mapping):
            contexts = {words: contexts}
        if not isinstance(contexts, Mapping):
            raise InputError("contexts of many words must be a mapping from words to sentences")
        known = set(many)
        if unknown := [word for word in contexts if word not in known]:
            raise InputError(f"there are contexts of {unknown[0]!r}, which is not one of the words")
        return {word: self._contexts.seen(word, sentences) for word, sentences in contexts.items()}

    def _mixed(self, words: list[str], seen: dict[str, Seen], threads: int | None = None) -> Mixed:
        """Return the vectors of words with what the words around some of them tell."""
        assert self._contexts is not None
        around = list(dict.fromkeys(word for one in seen.values() for word in one.words))
        rows, vectors = {word: row for row, word in enumerate(around)}, self.embed(around, threads=threads)
        features, n_times = np.zeros((len(words), KINDS * self.dims), np.float32), np.ones(len(words))
        for at, (word, is_known) in enumerate(zip(words, self._are_known(words), strict=True)):
            if (found := seen.get(word)) and not is_known:
                features[at] = found.features(vectors[[rows[other] for other in found.words]])
                n_times[at] = found.n_times
        composed, trust = self.embed(words, threads=threads), self.confidence(words, threads=threads)
        return self._contexts.mix(composed, trust, features, n_times)

    def _are_known(self, words: list[str]) -> list[bool]:
        """Return which words are training words, and not only read as one, that have not lost their vectors."""
        rows = map(self.subwords.word_rows.get, normalize(words, self.spelling.normalization))
        near = self._confidence.near if self._confidence is not None else lambda row: 1.0
        return [row is not None and near(row) >= KEPT for row in rows]

    @overload
    def confidence(
        self,
        words: str | None,
        *,
        contexts: Contexts | None = None,
        ranks: Any = None,
        threads: int | None = None,
        missing: Missing = "error",
    ) -> float: ...
    @overload
    def confidence(
        self,
        words: Iterable[str | None],
        *,
        contexts: Contexts | None = None,
        ranks: Any = None,
        threads: int | None = None,
        missing: Missing = "error",
    ) -> npt.NDArray[np.float32]: ...
    def confidence(
        self,
        words: Any,
        *,
        contexts: Contexts | None = None,
        ranks: Any = None,
        threads: int | None = None,
        missing: Missing = "error",
    ) -> Any:
        """Return how far to trust the vector of one word, or of many: its expected cosine with the true one, 0 to 1.

        The true vector is the one that the word would have had as a training word. The expectation was fitted to
        held-out words. It is 1 for training words, and 0 for a word without any known subword. A small model
        (`max_vectors`, or `min_vector_words` of `compress`) has lost the vectors of most training words; for these, it
        is the cosine with the given vector. As rare words have noisy vectors, it tells less about very rare words.

        Args:
            words: A word, or many.
            contexts: Sentences in which words occur, as for `embed`.
            ranks: Where words would stand in the table, most frequent first, from 1: a number, or one for each word.
                The rarer a word is, the less can be expected of its vector, also beyond the end of the table.
            threads: The number of threads; None for one per core.
            missing: What to do with missing words (None, NaN, empty): "error", or "zeros" for a confidence of 0.
        """
        if self._confidence is None:
            raise InputError("this model has no confidence; train one with confidence=True and enough words")
        try:
            many, one, blank = one_or_many(words, missing)
            if contexts is not None and not (one and blank):
                found = self._mixed(many, self._seen(words, many, contexts), threads).confidence
            else:
                found = self.subwords.confidence(many, self.subword_vectors, self._confidence, threads)
                if self._near is not None:
                    self._near.correct(self.subwords, self.subword_vectors, many, found, threads)
                if ranks is not None:
                    known = [word in self.subwords.word_rows for word in normalize(many, self.spelling.normalization)]
                    moved = self._confidence.at_ranks(found, checked_ranks(ranks, len(many)))
                    found = np.where(known, found, moved)
        except MissingWord as error:
            raise InputError(f'{error}, or use missing="zeros"') from None
        found[blank] = 0
        return float(found[0]) if one else found

    @overload
    def similarity(self, first: str, second: str) -> float: ...
    @overload
    def similarity(self, first: str | Iterable[str], second: str | Iterable[str]) -> npt.NDArray[np.float32]: ...
    def similarity(self, first: str | Iterable[str], second: str | Iterable[str]) -> float | npt.NDArray[np.float32]:
        """Return the cosine of two words, of one word and each of many, or of many pairs.

        It is 0 where a word has no known subword.

        >>> print(load().similarity("king", ["queen", "banana"]).round(2))
        [0.56 0.21]
        """
        left, right = (self._vectors(one_or_many(words)[0]) for words in (first, second))
        if isinstance(first, str) and isinstance(second, str):
            return float(cosines(left, right)[0])
        if len(left) != len(right) and not isinstance(first, str) and not isinstance(second, str):
            raise InputError(f"similarity needs as many first words as second ones, got {len(left)} and {len(right)}")
        return cosines(*np.broadcast_arrays(left, right))

    @overload
    def neighbors(
        self,
        words: str | None = None,
        n: int = 10,
        *,
        positive: Any = None,
        negative: Any = None,
        among: Iterable[str] | None = None,
        exact: bool = False,
    ) -> Neighbors: ...
    @overload
    def neighbors(
        self, words: list[str], n: int = 10, *, among: Iterable[str] | None = None, exact: bool = False
    ) -> list[Neighbors]: ...
    @overload
    def neighbors(
        self, words: Any, n: int = 10, *, among: Iterable[str] | None = None, exact: bool = False
    ) -> Any: ...  # an array can be one vector or many
    def neighbors(
        self,
        words: Any = None,
        n: int = 10,
        *,
        positive: Any = None,
        negative: Any = None,
        among: Iterable[str] | None = None,
        exact: bool = False,
    ) -> Neighbors | list[Neighbors]:
        """Return the n words nearest to a word by cosine, as (word, cosine), nearest first.

        The words asked about are left out. A word without any known subword has no neighbors.

        Args:
            words: A word or a vector, for one list of neighbors; many words or vectors, for a list each.
            n: The number of neighbors.
            positive: Instead of `words`: words or vectors to add up. As in gensim, words count with length 1, and
                vectors as they are.
            negative: Words or vectors to subtract.
            among: The words to search; None for the training words.
            exact: Use the given vectors of training words (see `embed`).

        >>> load().neighbors(positive=["king", "woman"], negative=["man"], n=1)[0][0]
        'queen'
        """
        n = whole_number("n", n, 0)
        embed = partial(self._vectors, exact=exact)
        queries, asked, is_one = asked_for(words, positive, negative, self.dims, embed)
        if among is None:
            searched = self._given_vectors if exact else self._composed_vectors
        else:
            candidates = as_words(among)
            read_as = self.subwords.read(candidates)
            encode(read_as, self.spelling)  # raises with the position of a bad word
            searched = SearchedWords(candidates, read_as, self.dims, embed)
        found = searched.nearest(queries, [set(self.subwords.read(group)) for group in asked], n)
        return found[0] if is_one else found

    @cached_property
    def _composed_vectors(self) -> SearchedWords:
        return SearchedWords(self.words, self.words, self.dims, self._vectors)

    @cached_property
    def _given_vectors(self) -> SearchedWords:
        return SearchedWords(self.words, self.words, self.dims, partial(self._vectors, exact=True))

    @overload
    def explain(
        self, words: str, n: int = 5, *, contexts: Contexts | None = None, neighbors: int = 10
    ) -> Explanation: ...
    @overload
    def explain(
        self, words: Iterable[str], n: int = 5, *, contexts: Contexts | None = None, neighbors: int = 10
    ) -> list[Explanation]: ...
    def explain(
        self, words: str | Iterable[str], n: int = 5, *, contexts: Contexts | None = None, neighbors: int = 10
    ) -> Any:
        """Return why a word gets its vector, to print, to draw or to show in a notebook.

        Args:
            words: A word, or many.
            n: The number of segmentations, and of weights in tables.
            contexts: Sentences in which words occur, as for `embed`.
            neighbors: The number of nearest training words; computed when asked for.
        """
        n, neighbors = whole_number("n", n, 1), whole_number("neighbors", neighbors, 0)
        words = words if isinstance(words, str) else as_words(words)
        seen = {} if contexts is None else self._seen(words, [words] if isinstance(words, str) else words, contexts)

        def explain_one(word: str) -> Explanation:
            lattice, find = Lattice(self.subwords, word), partial(self.neighbors, word, neighbors)
            known, around = lattice.word in self.subwords.word_rows, seen.get(word)
            if around is None:
                confidence, near = self.confidence(word) if self.has_confidence else None, list[Near]()
                if self._near is not None and not known:
                    near = self._near.explain(self.subwords, lattice.word, self.subword_vectors)
                return Explanation(
                    word,
                    lattice,
                    n,
                    known=known,
                    confidence=confidence,
                    find_neighbors=find,
                    spelling_neighbors=near,
                )
            assert self._contexts is not None
            mixed = self._mixed([word], seen)

            def find_mixed() -> Neighbors:
                found = self.neighbors(mixed.vectors[0], neighbors + 1)
                return [one for one in found if one[0] != lattice.word][:neighbors]

            return Explanation(
                word,
                lattice,
                n,
                known=known,
                confidence=float(mixed.confidence[0]),
                find_neighbors=find_mixed,
                context_share=float(mixed.shares[0]),
                context_words=self._contexts.telling(around, self.embed(around.words)),
            )

        return self._each(words, explain_one)

    # -- training words ------------------------------------------------------------------------------------------------

    @property
    def words(self) -> list[str]:
        """The training words, in their given order; read-only, so change a copy: ``list(model.words)``."""
        return self.subwords.words

    def __len__(self) -> int:
        return self._packed_words[1].size - 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        """Return whether a word is a training word."""
        return isinstance(word, str) and self.subwords.read([word])[0] in self.subwords.word_rows

    def with_targets(self, vectors: Any) -> Model:
        """Return this model with a table of given vectors, for `exact`; composed vectors stay the same.

        The words of the table take the place of the training words. Of words that the model spells alike, the first
        counts. If these are other words, spelling neighbors are left out.

        Args:
            vectors: The vectors that the model was trained on, or others of the same space, as for `train`.

        >>> model = load()
        >>> table = {"king": model["queen"], "covfefe": model["nonsense"]}
        >>> bool((model.with_targets(table).embed("covfefe", exact=True) == model["nonsense"]).all())
        True
        """
        from pbos.tables.word_vectors import WordVectors  # here, so that loading a model does not wait for it

        given = WordVectors.of(vectors)
        if given.dims != self.dims:
            raise InputError(f"the vectors have {given.dims} dimensions, but the model has {self.dims}")
        words, rows = first_of_equal(given.words, self.spelling.normalization)
        matrix = owned(given.vectors) if len(words) == len(given.words) else given.vectors[rows]
        packed = pack_strings(words)
        parts = self.index, self.spelling, self.subword_vectors, packed, matrix
        near = self._near if words == self.words else None
        confidence = self._confidence and replace(self._confidence, nearness=None)
        return Model(*parts, self.info, confidence, self._contexts, near)

    def _with_nearness(self, given: Callable[[slice], FloatMatrix]) -> Model:
        """Return this model with a confidence that knows how near training words are to the vectors in some rows."""
        if self._confidence is None:
            return self
        parts = [cosines(self.embed(self.words[rows]), given(rows)) for rows in blocks(len(self))]
        steps = np.rint(255 * np.concatenate(parts).clip(0, 1)).astype(np.uint8)
        if self._confidence.nearness is not None:
            steps = np.minimum(steps, self._confidence.nearness)
        found = copy.copy(self)
        found._confidence = replace(self._confidence, nearness=steps)
        return found

    def compress(
        self,
        *,
        min_vector_words: int = 1,
        dtype: str | None = None,
        dims: int | None = None,
        keep_targets: bool = False,
    ) -> Model:
        """Return a smaller model, without spelling neighbors.

        Args:
            min_vector_words: Keep the vectors of subwords that at least this many training words contain. Words are
                still cut into the others too.
            dtype: Store the vectors as float32, float16 or int8 (with a scale for each row).
            dims: Project onto this many principal components of the training words' vectors.
            keep_targets: Keep the given vectors, if the model has them; in a small model they are most of its size.
        """
        min_vector_words = whole_number("min_vector_words", min_vector_words, 1)
        index, vectors, targets = self.index, self.subword_vectors, self._target_vectors if keep_targets else None
        confidence, contexts = self._confidence, self._contexts
        if min_vector_words > 1:
            keep = self.subwords.count_words(encode(self.words, self.spelling)) >= min_vector_words
            rows = index.rows[keep]
            kept = np.unique(rows[rows >= 0])
            vectors = vectors.rows(kept)
            confidence = confidence and replace(confidence, evidence=confidence.evidence[kept])
            index = index.with_vectors(keep)
            if not len(vectors):
                raise InputError(f"min_vector_words {min_vector_words} leaves no subword; use a smaller number")
            given = self._target_vectors
            few = Model(index, self.spelling, vectors, self._packed_words, confidence=confidence)
            near = few._with_nearness(lambda rows: self.embed(self.words[rows]) if given is None else given[rows])
            confidence = near._confidence
        if dims is not None:
            components = principal_components(self.embed(self.words), dims)
            vectors = vectors.projected(components)
            confidence = confidence and replace(confidence, mean=confidence.mean @ components)
            contexts = contexts and contexts.projected(components)
            targets = None if targets is None else targets @ components
        if dtype is not None:
            vectors = vectors.astype(dtype)
        steps = {"min_vector_words": min_vector_words, "dtype": vectors.dtype, "dims": vectors.dims}
        info = {**self.info, "compressed": [*self.info.get("compressed", []), steps]}
        return Model(index, self.spelling, vectors, self._packed_words, targets, info, confidence, contexts)

    # -- files and copies ----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str], *, card: str | None = None) -> None:
        """Save to a folder, completely or not at all; a model that is already there is replaced in one step.

        Args:
            path: The folder; or its URL, where a model is replaced in several steps (see docs/files.md).
            card: The text of its README.md; None for one made from `info`.
        """
        tensors = self.index.tensors() | self.subword_vectors.tensors()
        tensors["words.bytes"], tensors["words.offsets"] = self._packed_words
        if self._target_vectors is not None:
            tensors["target_vectors"] = self._target_vectors
        for part in (self._confidence, self._contexts, self._near):
            tensors |= {} if part is None else part.tensors()
        save_folder(path, tensors, self.config(), self.card() if card is None else card)

    def push_to_hub(self, repo: str, *, private: bool | None = None, **metadata: Any) -> None:
        """Save to the Hugging Face Hub (extra `hub`) in one commit, with a card. Log in first: ``hf auth login``.

        Args:
            repo: "owner/name", made if it is not there; or "owner/name@branch".
            private: Whether a new repository is private; None for what is usual for its owner.
            **metadata: What the Hub should know about the model, such as language="en", license="mit" (see `card`).
        """
        from pbos.files import hub

        hub.create(url := f"hf://{repo.removeprefix('hf://')}", private)
        self.save(url, card=self.card(url, **metadata))

    @classmethod
    def load(cls, path: str | PathLike[str], *, verify: bool = False) -> Model:
        """Load a model folder, or the copy of a remote one, by mapping it into memory; see `pbos.load`."""
        tensors, spelling, config = load_model_folder(path, verify)
        if "subword_vectors" not in tensors:
            raise ModelError(f"{path} is a segmenter, which has no vectors; load it with pbos.Segmenter.load")
        return cls.of_tensors(tensors, spelling, config.get("info") or {})

    @classmethod
    def of_tensors(cls, tensors: Tensors, spelling: Spelling, info: dict[str, Any]) -> Model:
        """Make a model of the tensors in a model file."""
        words, targets = (tensors["words.bytes"], tensors["words.offsets"]), tensors.get("target_vectors")
        index, vectors = SubwordIndex.of_tensors(tensors), SubwordVectors.of_tensors(tensors)
        parts = index, spelling, vectors, words, targets, info
        more = Confidence.of_tensors(tensors), ContextMap.of_tensors(tensors), SpellingNeighbors.of_tensors(tensors)
        return Model(*parts, *more)

    def config(self) -> dict[str, Any]:
        """Return the content of config.json: sizes, spelling and how the model was made."""
        return {
            "words": len(self),
            "subwords": len(self.index),
            "vectors": len(self.subword_vectors),
            "dims": self.dims,
            "dtype": self.subword_vectors.dtype,
            "confidence": self.has_confidence,
            **({} if self._contexts is None else {"contexts": True}),
            **({} if self._near is None else {"spelling_neighbors": int(self._near.most[0])}),
            "spelling": self.spelling.to_dict(),
            "info": copy.deepcopy(self.info),
        }

    def card(self, path: str = "path/to/this/folder", **metadata: Any) -> str:
        """Return a short description of the model in Markdown, made from `config`.

        Args:
            path: Where the model can be loaded from.
            **metadata: More for its head: language="en", license="mit", https://huggingface.co/docs/hub/model-cards
        """
        return model_card(self.config(), path, metadata)

    def __reduce__(self) -> tuple[Any, ...]:
        words, targets = self._packed_words, self._target_vectors
        parts = self.index, self.spelling, self.subword_vectors, words, targets, self.info
        return Model, (*parts, self._confidence, self._contexts, self._near)

    def __repr__(self) -> str:
        size = f"{len(self.subword_vectors):,} subword vectors x {self.dims} {self.subword_vectors.dtype}"
        return f"<Model {self.info.get('preset', '')}: {size}, {len(self):,} words>"

    def _repr_html_(self) -> str:
        word = max(self.words[:5000], key=len, default="")  # one of several pieces, probably
        return html_card(self.config(), word, self.segment(word)[0].pieces if word else ())


@cache  # so that it is said once
def warn_of_text() -> None:
    """Warn about a word that is a text."""
    warn("embed reads a text as one word, also with spaces in it; for the vector of a text, use embed_text")


def checked_ranks(ranks: Any, n_words: int) -> npt.NDArray[np.float64]:
    """Return the ranks of words; raise InputError if they are no numbers from 1."""
    try:
        found = np.broadcast_to(np.asarray(ranks, np.float64), n_words)
    except (TypeError, ValueError):
        raise InputError(f"ranks must be one number, or one for each of {n_words} words") from None
    if not (found >= 1).all():
        raise InputError("ranks must be numbers from 1, the most frequent word")
    return found


def load(path: str | PathLike[str] | None = None, *, verify: bool = False) -> Model:
    """Load a model folder by mapping it into memory; without a path, the English model that comes with pbos.

    Args:
        path: The folder; or a URL such as "s3://bucket/model", then the model is copied to a cache, once, as are those
            of the Hugging Face Hub, "hf://owner/name" or "hf://owner/name@revision" (extra `hub`); or "russian",
            another model that comes with pbos.
        verify: Whether to check the checksums of vectors over 256 MiB too, which reads them all.

    >>> model = load()
    >>> model["unfriendliest"].dtype
    dtype('float32')
    """
    return Model.load(resolve_model(path), verify=verify)
