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
CONTEXT_FACTS, MIXTURE_FACTS = 3, 4  # their numbers, see below
LEAST, MOST = 0.01, 0.95  # expected cosines, so that no weight becomes infinite
ARRAYS = ("matrix", "mean", "kept", "counting")
REGRESSIONS = ("expected", "of_spelling", "of_contexts")
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


@dataclass(frozen=True)
class ContextMap:
    """Turns the contexts of a word into a vector, and mixes that with the one composed from its spelling.

    The two are mixed by how close each is expected to be to the true vector. If unit vectors s and c have the expected
    cosines p and q with the true one, and the cosine r with each other, then of all mixtures (p - r q) s + (q - r p) c
    has the highest expected cosine. For s, p is the confidence; for c, q depends on how often the word was seen and on
    the vector that contexts yield. Both are corrected by what is known about the other.

    Attributes:
        matrix: (3 * dims, dims) From the mean vectors of near, next and previous words to the word's own.
        mean: (dims,) The direction of the mean of all given vectors.
        expected: Gives q, see `context_facts`.
        of_spelling: Gives what to add to p, see `mixture_facts`.
        of_contexts: Gives what to add to q; its curve is for the cosine of the mixture.
        words: The frequent words of the text that the map was fitted to.
        kept: How much each of these counts; other words count 1.
        counting: (3,) The window, whether text is changed to lower case, and the position in CUTS.
    """

    matrix: npt.NDArray[np.float16]
    mean: Vector
    expected: Regression
    of_spelling: Regression
    of_contexts: Regression
    words: PackedStrings
    kept: Vector
    counting: npt.NDArray[np.int64]

    def __reduce__(self) -> tuple[Any, ...]:
        return ContextMap, tuple(getattr(self, one.name) for one in fields(self))

    @classmethod
    def of_tensors(cls, tensors: dict[str, npt.NDArray[Any]]) -> ContextMap | None:
        """Undo `tensors`; return None if the tensors of a model have no such map."""
        if "contexts.matrix" not in tensors:
            return None
        found: dict[str, Any] = {name: tensors[f"contexts.{name}"] for name in ARRAYS}
        found |= {name: Regression.of_tensors(tensors, f"contexts.{name}.") for name in REGRESSIONS}
        return cls(words=(tensors["contexts.words.bytes"], tensors["contexts.words.offsets"]), **found)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by the names that model files use."""
        arrays = {f"contexts.{name}": getattr(self, name) for name in ARRAYS}
        arrays["contexts.words.bytes"], arrays["contexts.words.offsets"] = self.words
        for name in REGRESSIONS:
            arrays |= getattr(self, name).tensors(f"contexts.{name}.")
        return arrays

    def projected(self, components: FloatMatrix) -> ContextMap:
        """Return the map of a model whose vectors are projected on the columns of a matrix."""
        matrix: FloatMatrix = np.concatenate([components.T @ part @ components for part in self._parts])
        return replace(self, matrix=matrix.astype(np.float16), mean=self.mean @ components)

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

    def mix(self, composed: FloatMatrix, trust: Vector, features: FloatMatrix, n_times: npt.NDArray[Any]) -> Mixed:
        """Mix composed vectors, whose confidence is `trust`, with what contexts yield (see `Seen.features`).

        A mixture has the length of the composed vector or, where that is zero, of what contexts yield. Without contexts
        (`features` are zeros) it is the composed vector.
        """
        found = self.applied(features)
        spelling, contexts = unit_rows(composed), unit_rows(found)
        in_common = np.einsum("ij,ij->i", spelling, contexts)
        facts = mixture_facts(trust, self.expectations(found, n_times), in_common, n_times)
        of_spelling, of_contexts = self.corrected(facts)
        lengths = row_lengths(composed)
        one, other, cosines = best_mixture(np.where(lengths > 0, of_spelling, 0), of_contexts, in_common)
        lengths = np.where(lengths > 0, lengths, row_lengths(found))[:, None]
        seen: npt.NDArray[np.bool_] = np.any(contexts, axis=1)
        vectors = unit_rows(one[:, None] * spelling + other[:, None] * contexts) * lengths
        shares = other / np.maximum(one + other, 1e-9)
        return Mixed(
            np.where(seen[:, None], vectors, composed).astype(np.float32),
            np.where(seen, self.of_contexts.bend(cosines), trust).astype(np.float32),
            np.where(seen, shares, 0).astype(np.float32),
        )

    def applied(self, features: FloatMatrix) -> FloatMatrix:
        """Return the vectors that contexts yield."""
        found: FloatMatrix = features @ self.matrix.astype(np.float32)
        return found

    def expectations(self, vectors: FloatMatrix, n_times: npt.NDArray[Any]) -> Vector:
        """Return the expected cosines of vectors that contexts yield, not yet corrected."""
        return self.expected.predict(context_facts(vectors, n_times, self.mean))

    def corrected(self, facts: FloatMatrix) -> tuple[Vector, Vector]:
        """Return the expected cosines of spelling and of contexts, see `mixture_facts`."""
        spelling = facts[:, 0] + self.of_spelling.score(facts)
        contexts = facts[:, 1] + self.of_contexts.score(facts)
        return spelling.clip(LEAST, MOST), contexts.clip(LEAST, MOST)


def context_facts(vectors: FloatMatrix, n_times: npt.NDArray[Any], mean: Vector) -> FloatMatrix:
    """Return what tells how good vectors are that contexts yield, (n, 3).

    How often the word was seen (its logarithm), how long the vector is (likewise), and its cosine with the mean.
    """
    lengths = row_lengths(vectors)
    along = vectors @ mean / np.maximum(lengths, 1e-9)
    return np.stack([np.log(n_times), np.log(lengths + 1e-3), along], axis=1).astype(np.float32)


def mixture_facts(trust: Vector, expected: Vector, in_common: Vector, n_times: npt.NDArray[Any]) -> FloatMatrix:
    """Return what tells how good spelling and contexts are, given both, (n, 4); see `ContextMap`."""
    return np.stack([trust, expected, in_common, np.log(n_times)], axis=1).astype(np.float32)


def best_mixture(spelling: Vector, contexts: Vector, in_common: Vector) -> tuple[Vector, Vector, Vector]:
    """Return the weights of two unit vectors in the best mixture, and its expected cosine; see `ContextMap`.

    >>> [float(found[0].round(3)) for found in best_mixture(*(np.array([x]) for x in (0.6, 0.6, 0.0)))]
    [0.6, 0.6, 0.849]
    """
    r = in_common.clip(-MOST, MOST)
    one, other = np.maximum(spelling - r * contexts, 0), np.maximum(contexts - r * spelling, 0)
    length = np.sqrt(one**2 + other**2 + 2 * r * one * other)
    return one, other, ((one * spelling + other * contexts) / np.maximum(length, 1e-9)).clip(0, 1)
