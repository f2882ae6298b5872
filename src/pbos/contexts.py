"""Contexts: what the words around a word tell about its vector, mixed with what its spelling tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.words.arrays import FloatMatrix, row_lengths, unit_rows
from pbos.words.confidence import Regression
from pbos.words.text import PackedStrings, as_words, normalize, unpack_strings
from pbos.words.tokens import CUTS, form_of, words_of

KINDS = 3  # of contexts: words near a word, the next word and the one before, as in `pbos.corpus.cooccurrences`
NEAR, NEXT, BEFORE = range(KINDS)
N_FACTS = 4  # see `facts_of`
LEAST, MOST = 0.01, 0.95  # expected cosines, so that no weight becomes infinite
ARRAYS = ("matrix", "kept", "counting")
AMOUNTS = (1, 2, 4, 8, 16, 32, 64)  # of sentences, for which expectations were fitted
PREFIX = "from_contexts."  # of the names of tensors
Vector = npt.NDArray[np.float32]


class Seen(NamedTuple):
    """The words around a word in some sentences; how much each weighs as a near, a next and a previous word."""

    words: list[str]
    weights: npt.NDArray[np.float32]  # (n_words, 3)
    n_times: int  # how often the word itself occurs

    def features(self, vectors: FloatMatrix) -> Vector:
        """Return the mean vectors of near, next and previous words, one after the other, given those of all."""
        return (self.shares @ vectors).ravel()

    @property
    def shares(self) -> npt.NDArray[np.float32]:
        """The weights of each kind, which sum to 1, (3, n_words)."""
        totals: Vector = np.maximum(self.weights.sum(axis=0), 1e-9)[:, None]
        return self.weights.T / totals


class Mixed(NamedTuple):
    """Vectors from spelling and contexts, their confidence, and the share of the contexts in each, 0 to 1."""

    vectors: FloatMatrix
    confidence: Vector
    shares: Vector


class Expected(NamedTuple):
    """What is expected of a word, given what `facts_of` says about it."""

    of_spelling: Regression  # the cosine of its composed vector and the true one
    of_contexts: Regression  # that of what its contexts yield; the curve is for the cosine of the mixture

    def cosines(self, facts: FloatMatrix) -> tuple[Vector, Vector]:
        """Return the cosines that are expected of what spelling and contexts yield."""
        spelling, contexts = (one.score(facts).clip(LEAST, MOST) for one in self)
        return spelling, contexts


@dataclass(frozen=True)
class ContextMap:
    """Turns the contexts of a word into a vector, and mixes that with the one composed from its spelling.

    The two are mixed by how close each is expected to be to the true vector. If unit vectors s and c have the expected
    cosines p and q with the true one, and the cosine r with each other, then of all mixtures (p - r q) s + (q - r p) c
    has the highest expected cosine.

    Attributes:
        matrix: (3 * dims, dims) From the mean vectors of near, next and previous words to the word's own.
        expected: What is expected if contexts are as many sentences as one of AMOUNTS; the last, if they are a text.
        words: The frequent words of the text that the map was fitted to.
        kept: How much each of these counts; other words count 1.
        counting: (3,) The window, whether text is changed to lower case, and the position in CUTS.
    """

    matrix: npt.NDArray[np.float16]
    expected: tuple[Expected, ...]
    words: PackedStrings
    kept: Vector
    counting: npt.NDArray[np.int64]

    def __reduce__(self) -> tuple[Any, ...]:
        return ContextMap, tuple(getattr(self, one.name) for one in fields(self))

    @classmethod
    def of_tensors(cls, tensors: dict[str, npt.NDArray[Any]]) -> ContextMap | None:
        """Undo `tensors`; return None if the tensors of a model have no such map."""
        if f"{PREFIX}matrix" not in tensors:
            return None
        found: dict[str, Any] = {name: tensors[PREFIX + name] for name in ARRAYS}
        parts = ([tensors[f"{PREFIX}{name}.{part.name}"] for part in fields(Regression)] for name in Expected._fields)
        each = [[Regression(*one) for one in zip(*part, strict=True)] for part in parts]
        found["expected"] = tuple(Expected(*two) for two in zip(*each, strict=True))
        return cls(words=(tensors[f"{PREFIX}words.bytes"], tensors[f"{PREFIX}words.offsets"]), **found)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by the names that model files use."""
        arrays = {PREFIX + name: getattr(self, name) for name in ARRAYS}
        arrays[f"{PREFIX}words.bytes"], arrays[f"{PREFIX}words.offsets"] = self.words
        for name in Expected._fields:
            each = [getattr(one, name).tensors(f"{PREFIX}{name}.") for one in self.expected]
            arrays |= {key: np.stack([one[key] for one in each]) for key in each[0]}
        return arrays

    def projected(self, components: FloatMatrix) -> ContextMap:
        """Return the map of a model whose vectors are projected on the columns of a matrix."""
        matrix: FloatMatrix = np.concatenate([components.T @ part @ components for part in self._parts])
        return replace(self, matrix=matrix.astype(np.float16))

    @property
    def _parts(self) -> npt.NDArray[np.float32]:
        return self.matrix.astype(np.float32).reshape(KINDS, -1, self.matrix.shape[1])

    @cached_property
    def _kept(self) -> dict[str, float]:
        return dict(zip(unpack_strings(*self.words), self.kept.tolist(), strict=True))

    # -- sentences -----------------------------------------------------------------------------------------------------

    def seen(self, word: str, sentences: str | Iterable[str]) -> Seen:
        """Return the words around a word; InputError if a sentence does not have it.

        In a text, frequent words are left out by chance before near words are counted. Here, a word counts by the
        chance that it stays, and the distance of a word is one more than the sum of these for the words between.
        """
        try:
            sentences = as_words([sentences] if isinstance(sentences, str) else sentences, what="sentence")
        except InputError as error:
            raise InputError(f"contexts of {word!r}: {error}") from None
        if not sentences:
            raise InputError(f"there are no contexts of {word!r}; pass at least one sentence, or leave contexts out")
        own = normalize([word], form_of(bool(self.counting[1])))[0]
        if self._words_of(word).words != [own]:
            raise InputError(f"{word!r} is not a single word of a text, so it cannot have contexts")
        weights, n_times = dict[str, Vector](), 0
        for sentence in sentences:
            words, ids, line_ends = self._words_of(sentence)
            if own not in words:
                raise InputError(f"{word!r} does not occur in its context {sentence!r}; leave such sentences out")
            for line in np.split(ids, line_ends[:-1]):
                text = [words[at] for at in line.tolist()]
                for at in np.flatnonzero(line == words.index(own)).tolist():
                    self._add(weights, map(text.__getitem__, range(at + 1, len(text))), NEXT)
                    self._add(weights, map(text.__getitem__, range(at - 1, -1, -1)), BEFORE)
                    n_times += 1
        return Seen(list(weights), np.array(list(weights.values()), np.float32).reshape(-1, KINDS), n_times)

    def _add(self, weights: dict[str, Vector], others: Iterable[str], kind: int) -> None:
        """Add the words on one side of a word, the closest first."""
        distance, window = 1.0, float(self.counting[0])
        for at, other in enumerate(others):
            if distance > window:
                break
            stays = self._kept.get(other, 1.0)
            row = weights.setdefault(other, np.zeros(KINDS, np.float32))
            row[NEAR] += stays * (window + 1 - distance)
            row[kind] += at == 0
            distance += stays

    def _words_of(self, text: str) -> Any:
        return words_of(text, CUTS[self.counting[2]], bool(self.counting[1]))

    def telling(self, seen: Seen, vectors: FloatMatrix) -> list[tuple[str, float]]:
        """Return how much each word around adds to the vector that contexts yield, most first; they sum to 1."""
        parts = np.einsum("ki,id,kde->ie", seen.shares, vectors, self._parts, optimize=True)
        whole = parts.sum(axis=0)
        shares = parts @ whole / max(float(whole @ whole), 1e-12)
        return [(seen.words[at], float(shares[at])) for at in np.argsort(-shares, kind="stable").tolist()]

    # -- mixtures ------------------------------------------------------------------------------------------------------

    def mix(
        self,
        composed: FloatMatrix,
        trust: Vector,
        features: FloatMatrix,
        n_times: npt.NDArray[Any],
        *,
        in_text: bool = False,
    ) -> Mixed:
        """Mix composed vectors, whose confidence is `trust`, with what contexts yield (see `Seen.features`).

        A mixture has the length of the composed vector or, where that is zero, of what contexts yield. Without contexts
        (`features` are zeros) it is the composed vector. Contexts are sentences or, with `in_text`, those of a text.
        """
        kinds = np.log2(n_times).round().clip(0, len(AMOUNTS) - 1).astype(np.int64)
        n_times = n_times if in_text else np.array(AMOUNTS)[kinds]
        kinds[:] = len(AMOUNTS) if in_text else kinds
        mixed = Mixed(np.array(composed, np.float32), np.array(trust, np.float32), np.zeros(len(trust), np.float32))
        for kind in np.unique(kinds).tolist():
            some = np.flatnonzero((kinds == kind) & np.any(features, axis=1))
            found = self._mixed(self.expected[kind], composed[some], trust[some], features[some], n_times[some])
            for whole, part in zip(mixed, found, strict=True):
                whole[some] = part
        return mixed

    def _mixed(
        self,
        expected: Expected,
        composed: FloatMatrix,
        trust: Vector,
        features: FloatMatrix,
        n_times: npt.NDArray[Any],
    ) -> Mixed:
        """Return mixtures of which the same is expected."""
        found, lengths = self.applied(features), row_lengths(composed)
        spelling, contexts = unit_rows(composed), unit_rows(found)
        in_common = np.einsum("ij,ij->i", spelling, contexts)
        of_spelling, of_contexts = expected.cosines(facts_of(trust, in_common, found, n_times))
        one, other, cosines = best_mixture(np.where(lengths > 0, of_spelling, 0), of_contexts, in_common)
        lengths = np.where(lengths > 0, lengths, row_lengths(found))[:, None]
        vectors = unit_rows(one[:, None] * spelling + other[:, None] * contexts) * lengths
        confidence = expected.of_contexts.bend(cosines).astype(np.float32)
        return Mixed(vectors, confidence, other / np.maximum(one + other, 1e-9))

    def applied(self, features: FloatMatrix) -> FloatMatrix:
        """Return the vectors that contexts yield."""
        found: FloatMatrix = features @ self.matrix.astype(np.float32)
        return found


def facts_of(trust: Vector, in_common: Vector, vectors: FloatMatrix, n_times: npt.NDArray[Any]) -> FloatMatrix:
    """Return what tells how good spelling and contexts are, (n, 4).

    The confidence of the spelling, the cosine of what spelling and contexts yield, how often the word was seen (its
    logarithm; with sentences, that of the nearest of AMOUNTS), and how long the vector of its contexts is (likewise).
    """
    columns = [trust, in_common, np.log(n_times), np.log(row_lengths(vectors) + 1e-3)]
    return np.stack(columns, axis=1).astype(np.float32)


def best_mixture(spelling: Vector, contexts: Vector, in_common: Vector) -> tuple[Vector, Vector, Vector]:
    """Return the weights of two unit vectors in the best mixture, and its expected cosine; see `ContextMap`.

    >>> [float(found[0].round(3)) for found in best_mixture(*(np.array([x]) for x in (0.6, 0.6, 0.0)))]
    [0.6, 0.6, 0.849]
    """
    r = in_common.clip(-MOST, MOST)
    one, other = np.maximum(spelling - r * contexts, 0), np.maximum(contexts - r * spelling, 0)
    length = np.sqrt(one**2 + other**2 + 2 * r * one * other)
    return one, other, ((one * spelling + other * contexts) / np.maximum(length, 1e-9)).clip(0, 1)
