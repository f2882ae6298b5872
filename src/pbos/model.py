"""Model: a vector for every word."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, ModelError, whole_number
from pbos.files.model_folder import Tensors, save_folder
from pbos.files.paths import exists
from pbos.jobs.threads import BLOCK, blocks
from pbos.segmenter import Segmenter
from pbos.settings import INCLUDED, MISSING, Missing, Spelling, check_choice
from pbos.words.arrays import FloatMatrix, cosines, has_masked, principal_components, unit_rows
from pbos.words.confidence import Confidence
from pbos.words.explanation import Explanation
from pbos.words.index import SubwordIndex
from pbos.words.lattice import Lattice
from pbos.words.layout import load_model_folder
from pbos.words.nearest import ROUNDING, nearest, products, rounded
from pbos.words.readonly import owned, read_only
from pbos.words.subwords import Subwords
from pbos.words.text import (
    BYTES,
    MissingWord,
    PackedStrings,
    as_words,
    encode,
    first_of_equal,
    is_missing,
    pack_strings,
)
from pbos.words.vectors import SubwordVectors

DATA = Path(__file__).parent / "data"
QUERIES, COSINES = 64, 1 << 24  # compared with all words at a time; cosines that this may take, 4 bytes each
Neighbors = list[tuple[str, float]]


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
    ) -> None:
        self.subwords = Subwords(index, spelling, subword_vectors.lengths, packed_words)
        self.subword_vectors = subword_vectors
        self.dims = subword_vectors.dims
        self.info: dict[str, Any] = read_only(info or {})
        self._packed_words = packed_words
        self._target_vectors = target_vectors
        if target_vectors is not None:
            target_vectors.flags.writeable = False
        self._confidence = confidence

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
        threads: int | None = None,
        out: FloatMatrix | None = None,
        exact: bool = False,
        missing: Missing = "error",
    ) -> npt.NDArray[np.float32]:
        """Return the vector of one word, float32 (dims,), or of many, (n_words, dims).

        A word without any known subword gets zeros (and `coverage` 0).

        Args:
            words: A word, a list or any iterable of str, a NumPy array of strings, a pandas or Arrow column.
            threads: The number of threads; None for one per core. The result does not depend on it.
            out: For many words: a C-contiguous float32 array (n_words, dims) to write into.
            exact: Return a training word's given vector instead of the composed one; the model must have them
                (see `keep_targets` of `train`, and `with_targets`).
            missing: What to do with missing words (None, NaN, empty): "error", or "zeros" for zero vectors.
        """
        try:
            many, one, blank = one_or_many(words, missing)
            out = np.empty((len(many), self.dims), np.float32) if out is None else self._checked(out, len(many))
            self.subwords.embed(many, self.subword_vectors, out, threads)
        except MissingWord as error:
            raise InputError(f'{error}, or embed them with missing="zeros"') from None
        if exact:
            self._put_given_vectors(many, out)
        if blank:
            out[blank] = 0
        return out[0] if one else out

    def _vectors(self, words: str | Iterable[str], exact: bool = False) -> FloatMatrix:
        """Do what `embed` does, for methods that have no `missing`; one word has one row."""
        many = [words] if isinstance(words, str) else as_words(words)
        out = np.empty((len(many), self.dims), np.float32)
        self.subwords.embed(many, self.subword_vectors, out)
        if exact:
            self._put_given_vectors(many, out)
        return out

    def _checked(self, out: FloatMatrix, n_words: int) -> FloatMatrix:
        expected = f"a C-contiguous float32 array of shape {(n_words, self.dims)}"
        if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
            raise InputError(f"out must be {expected}, got {type(out).__name__}")
        if out.shape != (n_words, self.dims) or out.dtype != np.float32 or not out.flags.c_contiguous:
            other = "" if out.flags.c_contiguous else ", not C-contiguous"
            raise InputError(f"out must be {expected}, got {out.dtype} {out.shape}{other}")
        if not out.flags.writeable:
            raise InputError("out is read-only; pass an array that can be written")
        return out

    def _put_given_vectors(self, words: list[str], out: FloatMatrix) -> None:
        if self._target_vectors is None:
            raise InputError(
                "this model does not have the given vectors, so exact cannot be used; "
                "pass them to with_targets (--vectors), or train with keep_targets=True"
            )
        for at, word in enumerate(self.subwords.read(words)):
            row = self.subwords.word_rows.get(word)
            if row is not None:
                out[at] = self._target_vectors[row]

    @property
    def has_confidence(self) -> bool:
        """Whether the model has a confidence; `default` models of at least 1,000 words have one."""
        return self._confidence is not None

    @overload
    def confidence(  # type: ignore[overload-overlap]
        self, words: str | None, *, threads: int | None = None, missing: Missing = "error"
    ) -> float: ...
    @overload
    def confidence(
        self, words: Iterable[str | None], *, threads: int | None = None, missing: Missing = "error"
    ) -> npt.NDArray[np.float32]: ...
    def confidence(
        self, words: str | Iterable[str | None] | None, *, threads: int | None = None, missing: Missing = "error"
    ) -> float | npt.NDArray[np.float32]:
        """Return how far to trust the vector of one word, or of many: its expected cosine with the true one, 0 to 1.

        The true vector is the one that the word would have had if it had been among the training words. The
        expectation was fitted at training, to words that were held out. It is 1 for training words, and 0 for a word
        without any known subword. As rare words have noisy vectors, it tells less about very rare words.

        Args:
            words: A word, or many.
            threads: The number of threads; None for one per core.
            missing: What to do with missing words (None, NaN, empty): "error", or "zeros" for a confidence of 0.
        """
        if self._confidence is None:
            raise InputError("this model has no confidence; train one with confidence=True and enough words")
        try:
            many, one, blank = one_or_many(words, missing)
            found = self.subwords.confidence(many, self.subword_vectors, self._confidence, threads)
        except MissingWord as error:
            raise InputError(f'{error}, or use missing="zeros"') from None
        found[blank] = 0
        return float(found[0]) if one else found

    def _embed_with_confidence(
        self, words: list[str], threads: int | None = None
    ) -> tuple[FloatMatrix, npt.NDArray[np.float32] | None]:
        """Return the vectors of words, which are read once, and their confidences; None if the model has none."""
        if self._confidence is None:
            return self.embed(words, threads=threads), None
        out = np.empty((len(words), self.dims), np.float32)
        return out, self.subwords.confidence(words, self.subword_vectors, self._confidence, threads, out)

    @overload
    def similarity(self, first: str, second: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def similarity(self, first: str | Iterable[str], second: str | Iterable[str]) -> npt.NDArray[np.float32]: ...
    def similarity(self, first: str | Iterable[str], second: str | Iterable[str]) -> float | npt.NDArray[np.float32]:
        """Return the cosine of two words, of one word and each of many, or of many pairs.

        It is 0 where a word has no known subword.

        >>> print(load().similarity("king", ["queen", "banana"]).round(2))
        [0.56 0.21]
        """
        left, right = self._vectors(first), self._vectors(second)
        if isinstance(first, str) and isinstance(second, str):
            return float(cosines(left, right)[0])
        if len(left) != len(right) and not isinstance(first, str) and not isinstance(second, str):
            raise InputError(f"similarity needs as many first words as second ones, got {len(left)} and {len(right)}")
        return cosines(*np.broadcast_arrays(left, right))

    @overload
    def neighbors(
        self, words: str, n: int = 10, *, among: Iterable[str] | None = None, exact: bool = False
    ) -> Neighbors: ...
    @overload
    def neighbors(
        self,
        words: list[str] | tuple[str, ...],
        n: int = 10,
        *,
        among: Iterable[str] | None = None,
        exact: bool = False,
    ) -> list[Neighbors]: ...
    @overload
    def neighbors(
        self,
        words: None = None,
        n: int = 10,
        *,
        positive: Any = None,
        negative: Any = None,
        among: Iterable[str] | None = None,
        exact: bool = False,
    ) -> Neighbors: ...
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
        combined = positive is not None or negative is not None
        if combined == (words is not None):
            raise InputError("neighbors needs words or vectors, or positive and negative ones, not both")
        one = combined or is_item(words)
        groups = [(as_items(positive), as_items(negative))] if combined else [([item], []) for item in as_items(words)]
        if combined or any(is_vector(item) for items, _ in groups for item in items):
            queries = unit_rows(np.array([self._query(*group, exact) for group in groups], np.float32))
        else:
            queries = unit_rows(self._vectors([item for items, _ in groups for item in items], exact))
        if among is None:
            candidates = names = self.words
            rows = self._rounded_targets if exact else self._rounded_words
        else:
            candidates = as_words(among)
            names = self.subwords.read(candidates)
            encode(names, self.spelling)  # raises with the position of a bad word
            rows = self._rounded(candidates, exact)
        repeated = len(names) - len(set(names)) if among is not None else 0

        def units(at: npt.NDArray[np.intp]) -> FloatMatrix:
            return unit_rows(self._vectors([candidates[row] for row in at.tolist()], exact))

        found: list[Neighbors] = []
        step = max(1, min(QUERIES, COSINES // max(1, len(names))))
        for first in range(0, len(groups), step):
            some, asking = groups[first : first + step], queries[first : first + step]
            for group, query, rough in zip(some, asking, products(rounded(asking), rows), strict=True):
                asked = {word for items in group for word in items if isinstance(word, str)}
                own = set(self.subwords.read(list(asked)))
                best = nearest(rough, query, units, n + len(own) + repeated) if query.any() else []
                found.append([(candidates[at], cosine) for at, cosine in best if names[at] not in own][:n])
        return found[0] if one else found

    def _neighbors_of_vectors(self, words: str | list[str], vectors: FloatMatrix, n: int) -> Any:
        """Return the neighbors of one word or of many, whose vectors are there already."""
        own = self.subwords.read([words] if isinstance(words, str) else words)
        near = zip(own, self.neighbors(vectors, n + 1), strict=True)
        found = [[(word, cosine) for word, cosine in some if word != itself][:n] for itself, some in near]
        return found[0] if isinstance(words, str) else found

    def _query(self, positive: list[Any], negative: list[Any], exact: bool) -> npt.NDArray[np.float64]:
        """Return the sum of the positive items minus the negative ones, at any scale; words count with length 1."""
        total, largest = np.zeros(self.dims), 0.0
        for sign, items in ((1, positive), (-1, negative)):
            strings = [item if isinstance(item, str) else "-" for item in items]
            encode(strings, self.spelling)  # raises with the position of a bad word
            for item in items:
                is_word = isinstance(item, str)
                vector = unit_rows(self._vectors([item], exact))[0] if is_word else self._vector(item)
                total, largest = total + sign * vector, max(largest, float(np.abs(vector).max()))
        scale = 0.5 ** math.frexp(largest)[1]  # changes no digit; then lengths fit a float32
        return np.where(np.abs(total).max() > ROUNDING * largest, scale * total, 0)  # what is left of a - a is nothing

    def _vector(self, item: Any) -> npt.NDArray[np.float32]:
        """Return a given vector as an array, or raise InputError if it is not one of this model's size."""
        expected = f"expected a word or a vector of {self.dims} numbers"
        try:
            vector = np.asarray(item, np.float32)
        except (TypeError, ValueError):
            raise InputError(f"{expected}, got {type(item).__name__}") from None
        if vector.shape != (self.dims,):
            raise InputError(f"{expected}, got shape {vector.shape}" if vector.ndim else f"{expected}, got {item!r}")
        if has_masked(item):
            raise InputError("a vector contains masked numbers, so it has no neighbors; fill them in or leave it out")
        if not np.isfinite(vector).all():
            raise InputError("a vector contains NaN or infinity, so it has no neighbors; correct it or leave it out")
        return vector

    @cached_property
    def _rounded_words(self) -> npt.NDArray[np.int16]:
        return self._rounded(self.words, exact=False)

    @cached_property
    def _rounded_targets(self) -> npt.NDArray[np.int16]:
        return self._rounded(self.words, exact=True)

    def _rounded(self, words: list[str], exact: bool) -> npt.NDArray[np.int16]:
        rows = np.empty((len(words), self.dims), np.int16)
        for some in blocks(len(words), 4 * BLOCK):
            rows[some] = rounded(unit_rows(self.embed(words[some], exact=exact)))
        return rows

    @overload
    def explain(self, words: str, n: int = 5, *, neighbors: int = 10) -> Explanation: ...  # type: ignore[overload-overlap]
    @overload
    def explain(self, words: Iterable[str], n: int = 5, *, neighbors: int = 10) -> list[Explanation]: ...
    def explain(
        self, words: str | Iterable[str], n: int = 5, *, neighbors: int = 10
    ) -> Explanation | list[Explanation]:
        """Return why a word gets its vector, to print, to draw or to show in a notebook.

        Args:
            words: A word, or many.
            n: The number of segmentations, and of weights in tables.
            neighbors: The number of nearest training words; computed when asked for.
        """
        n, neighbors = whole_number("n", n, 1), whole_number("neighbors", neighbors, 0)

        def explain_one(word: str) -> Explanation:
            vectors, trust = self._embed_with_confidence([word])
            confidence, lattice = None if trust is None else float(trust[0]), Lattice(self.subwords, word)
            known = lattice.word in self.subwords.word_rows
            find = partial(self._neighbors_of_vectors, word, vectors, neighbors)
            return Explanation(word, lattice, n, known=known, confidence=confidence, find_neighbors=find)

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

        The words of the table take the place of the training words: in `len`, `in`, iteration, `neighbors`. Of words
        that the model spells alike, the first counts.

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
        return Model(self.index, self.spelling, self.subword_vectors, packed, matrix, self.info, self._confidence)

    # -- smaller models ------------------------------------------------------------------------------------------------

    def compress(
        self,
        *,
        min_vector_words: int = 1,
        dtype: str | None = None,
        dims: int | None = None,
        keep_targets: bool = False,
    ) -> Model:
        """Return a smaller model.

        Args:
            min_vector_words: Keep the vectors of subwords that at least this many training words contain. Words are
                still cut into the others too.
            dtype: Store the vectors as float32, float16 or int8 (with a scale for each row).
            dims: Project onto this many principal components of the training words' vectors.
            keep_targets: Keep the given vectors, if the model has them; in a small model they are most of its size.
        """
        min_vector_words = whole_number("min_vector_words", min_vector_words, 1)
        index, vectors, targets = self.index, self.subword_vectors, self._target_vectors if keep_targets else None
        confidence = self._confidence
        if min_vector_words > 1:
            keep = self.subwords.count_words(encode(self.words, self.spelling)) >= min_vector_words
            rows = index.rows[keep]
            kept = np.unique(rows[rows >= 0])
            vectors = vectors.rows(kept)
            confidence = None if confidence is None else confidence.rows(kept)
            index = index.with_vectors(keep)
            if not len(vectors):
                raise InputError(f"min_vector_words {min_vector_words} leaves no subword; use a smaller number")
        if dims is not None:
            components = principal_components(self.embed(self.words), dims)
            vectors = vectors.projected(components)
            confidence = None if confidence is None else confidence.projected(components)
            targets = None if targets is None else targets @ components
        if dtype is not None:
            vectors = vectors.astype(dtype)
        steps = {"min_vector_words": min_vector_words, "dtype": vectors.dtype, "dims": vectors.dims}
        info = {**self.info, "compressed": [*self.info.get("compressed", []), steps]}
        return Model(index, self.spelling, vectors, self._packed_words, targets, info, confidence)

    # -- files and copies ----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str], *, card: str | None = None) -> None:
        """Save to a folder, completely or not at all; a model that is already there is replaced in one step.

        Args:
            path: The folder; or its URL, where a model is replaced in several steps (see docs/files.md), except on the
                Hugging Face Hub.
            card: The text of its README.md; None for one made from `info`.
        """
        content, offsets = self._packed_words
        tensors = {
            **self.index.tensors(),
            "subword_vectors": self.subword_vectors.values,
            "subword_scales": self.subword_vectors.scales,
            "subword_norms": self.subword_vectors.norms,
            "words.bytes": content,
            "words.offsets": offsets,
            "target_vectors": self._target_vectors,
            **({} if self._confidence is None else self._confidence.tensors()),
        }
        present = {name: array for name, array in tensors.items() if array is not None}
        save_folder(path, present, self.config(), self.card() if card is None else card)

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
        scales, norms = tensors.get("subword_scales"), tensors.get("subword_norms")
        return Model(
            SubwordIndex.of_tensors(tensors),
            spelling,
            SubwordVectors(tensors["subword_vectors"], scales, norms),
            (tensors["words.bytes"], tensors["words.offsets"]),
            tensors.get("target_vectors"),
            info,
            Confidence.of_tensors(tensors),
        )

    def config(self) -> dict[str, Any]:
        """Return the content of config.json: sizes, spelling and how the model was made."""
        return {
            "words": len(self),
            "subwords": len(self.index),
            "vectors": len(self.subword_vectors),
            "dims": self.dims,
            "dtype": self.subword_vectors.dtype,
            "confidence": self.has_confidence,
            "spelling": self.spelling.to_dict(),
            "info": copy.deepcopy(self.info),
        }

    def card(self, path: str = "path/to/this/folder", **metadata: Any) -> str:
        """Return a short description of the model in Markdown, made from `config`.

        Args:
            path: Where the model can be loaded from.
            **metadata: For the head of the card, in addition to what is there: language="en", license="mit" and
                [others](https://huggingface.co/docs/hub/model-cards).
        """
        config = self.config()
        facts = {**config, **config.pop("spelling"), **config.pop("info"), "confidence": config["confidence"]}
        facts |= facts.pop("training", {})
        figures = {
            "words it was trained on": f"{len(self):,}",
            "subwords": f"{len(self.index):,}",
            "vectors": f"{len(self.subword_vectors):,} x {self.dims}, {self.subword_vectors.dtype}",
        }
        if tried := facts.pop("tried", None):
            figures["cosine of held-out words with their true vectors"] = f"{max(tried.values()):.3f}"
            scores = [f"{what}: {score}" for what, score in tried.items()]
            facts["cosine of held-out words by lam, reliability"] = "; ".join(scores)
        figures["tells how far to trust a vector"] = "yes" if self.has_confidence else "no"
        head = {"library_name": "pbos", "pipeline_tag": "feature-extraction", "tags": CARD_TAGS, **metadata}
        return CARD_TEXT.format(
            head="\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()),
            path=path,
            figures="\n".join(f"| {name} | {value} |" for name, value in figures.items()),
            facts="\n".join(f"- {name}: {facts[name]}" for name in facts if not isinstance(facts[name], (dict, list))),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        words, targets = self._packed_words, self._target_vectors
        return Model, (self.index, self.spelling, self.subword_vectors, words, targets, self.info, self._confidence)

    def __repr__(self) -> str:
        size = f"{len(self.subword_vectors):,} subword vectors x {self.dims} {self.subword_vectors.dtype}"
        return f"<Model {self.info.get('preset', '')}: {size}, {len(self):,} words>"


CARD_TAGS = ["word-embeddings", "subwords", "out-of-vocabulary"]
CARD_TEXT = """---
{head}
---

# A pbos model

A vector for every word, from its spelling. Use it with

```python
import pbos

model = pbos.load("{path}")
model["unfriendliest"]
```

| | |
|---|---|
{figures}

## Settings

{facts}
"""


def load(path: str | PathLike[str] | None = None, *, verify: bool = False) -> Model:
    """Load a model folder by mapping it into memory; without a path, the English model that comes with pbos.

    Args:
        path: The folder; or a URL such as "s3://bucket/model", then the model is copied to a cache, once, as are those
            of the Hugging Face Hub, "hf://owner/name" or "hf://owner/name@revision" (extra `hub`); or "russian",
            another model that comes with pbos.
        verify: Whether to check the checksums of vectors over 256 MiB too, which reads them all; everything else is
            always checked. Models that pbos saved before it had checksums have none.

    >>> model = load()
    >>> model["unfriendliest"].dtype
    dtype('float32')
    """
    return Model.load(resolve_model(path), verify=verify)


def resolve_model(path: str | PathLike[str] | None) -> str | PathLike[str]:
    """Return where a model is: None, and the names of models that come with pbos, stand for their folders.

    >>> place_of("russian").name
    'russian'
    """
    name = "english" if path is None else path
    included = isinstance(name, str) and name in INCLUDED
    return DATA / name if included and (path is None or not exists(name)) else name


def one_or_many(words: Any, missing: Missing) -> tuple[list[str], bool, list[int]]:
    """Return one word or many as a list, whether it is one, and which are missing; in place of these are spaces."""
    if not isinstance(missing, str) or missing != "error":
        check_choice("missing", missing, MISSING)
    if one := isinstance(words, str):
        many = [words]
    else:
        one = not isinstance(words, list) and is_missing(words)
        many = as_words([words] if one else words, blank_missing=missing != "error")
    blank = [] if missing == "error" else [at for at, word in enumerate(many) if not word]
    return [word or " " for word in many] if blank else many, one, blank


def is_item(item: Any) -> bool:
    """Return whether something is one word, or one vector as an array."""
    kind = getattr(getattr(item, "dtype", None), "kind", "none")
    return isinstance(item, str) or (getattr(item, "ndim", 0) == 1 and kind in "fiu")


def is_vector(item: Any) -> bool:
    """Return whether one of many items is meant as a vector and not as a word."""
    return getattr(item, "ndim", 0) == 1 or isinstance(item, (list, tuple))


def as_items(items: Any) -> list[Any]:
    """Return one word or vector, or many, as a list."""
    if items is None or is_item(items):
        return [] if items is None else [items]
    if getattr(items, "ndim", 1) == 2:  # a matrix or a pandas DataFrame
        return list(np.asanyarray(items))  # which keeps a mask
    if hasattr(items, "to_pylist"):  # Arrow
        return list(items.to_pylist())
    if isinstance(items, BYTES) or getattr(items, "ndim", 1) == 0 or not isinstance(items, Iterable):
        raise InputError(f"expected words or vectors, got {type(items).__name__}")
    return list(items)
