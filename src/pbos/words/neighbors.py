"""Spelling neighbors: training words near an unseen word in spelling, whose given vectors are added to its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from os.path import commonprefix
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.kernels import neighbors as kernels
from pbos.words.arrays import FloatMatrix, cosines
from pbos.words.confidence import Regression
from pbos.words.subwords import Subwords, map_chunks
from pbos.words.text import encode
from pbos.words.vectors import SubwordVectors

PREFIX = "neighbors."


class Near(NamedTuple):
    """A spelling neighbor of a word.

    Attributes:
        word: The training word.
        share: How much its given vector counts, the word's own spelling and all neighbors being 1.
        rule: How it becomes the word, as "-y → -iest", if that is a frequent rule; else "".
    """

    word: str
    share: float
    rule: str


@dataclass(frozen=True)
class SpellingNeighbors:
    """Finds spelling neighbors and adds them to composed vectors.

    The features of a word are its subwords that few training words have. Vectors are stored around the mean, in units
    of `scale`: first the given ones, then how far they are from the composed ones.
    """

    most: npt.NDArray[np.int64]  # (1,), neighbors of a word
    indptr: npt.NDArray[np.int64]  # (n_vectors + 1,), where the words begin that have the subwords of a row
    posted: npt.NDArray[np.uint32]  # these words
    lengths: npt.NDArray[np.float32]  # (n_words,), of each word's features
    vectors: npt.NDArray[np.float16]  # (n_words, 2 * dims)
    mean: npt.NDArray[np.float32]  # (dims,), of the given vectors
    scale: npt.NDArray[np.float32]  # (1,)
    rules: npt.NDArray[np.int64]  # ascending hashes, see `kernels.neighbors.rule_of`
    numbers: npt.NDArray[np.float32]  # of the rules
    hidden: npt.NDArray[np.float32]  # (n_units, n_facts + 2), see `kernels.neighbors.apply_layer`
    output: npt.NDArray[np.float32]  # (2, n_units + 1)
    center: npt.NDArray[np.float32]  # the last four are the regression of what neighbors add to a confidence
    spread: npt.NDArray[np.float32]
    coefficients: npt.NDArray[np.float32]
    curve: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        for array in self.tensors().values():  # read-only, as mapped ones are, for the same kernel signature
            array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return SpellingNeighbors, tuple(self.tensors().values())

    @classmethod
    def of_tensors(cls, tensors: dict[str, npt.NDArray[Any]]) -> SpellingNeighbors | None:
        """Undo `tensors`; return None if the tensors of a model have no neighbors."""
        if f"{PREFIX}most" not in tensors:
            return None
        return cls(**{one.name: tensors[PREFIX + one.name] for one in fields(cls)})

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by the names that model files use."""
        return {PREFIX + one.name: getattr(self, one.name) for one in fields(self)}

    def find(self, subwords: Subwords, words: list[str]) -> tuple[npt.NDArray[np.int32], FloatMatrix]:
        """Return the rows of the neighbors of words that were read, nearest first, -1 for none; and their scores."""
        near = np.empty((len(words), int(self.most[0])), np.int32)
        scores = np.zeros(near.shape, np.float32)
        codes = encode(words, subwords.spelling)
        kernels.find_near(*subwords._walk, *codes, self.indptr, self.posted, self.lengths, near, scores)
        return near, scores

    def add(self, subwords: Subwords, words: list[str], out: FloatMatrix, threads: int | None = None) -> None:
        """Add neighbors to the composed vectors of words, except those of training words."""

        def add_some(unseen: list[str], rows: list[int]) -> None:
            found = out[rows]
            self.add_to(subwords, unseen, found)
            out[rows] = found

        each_unseen(add_some, subwords, words, threads)

    def correct(
        self, subwords: Subwords, vectors: SubwordVectors, words: list[str], trust: FloatMatrix, threads: int | None
    ) -> None:
        """Make the confidence of the composed vectors of words, except training words, that with neighbors."""

        def correct_some(unseen: list[str], rows: list[int]) -> None:
            composed = np.empty((len(rows), vectors.dims), np.float32)
            subwords.embed(unseen, vectors, composed, 1)
            trust[rows] = self.corrected(self.trust_facts(subwords, unseen, composed, trust[rows]))

        each_unseen(correct_some, subwords, words, threads)

    def trust_facts(self, subwords: Subwords, words: list[str], composed: FloatMatrix, trust: FloatMatrix) -> Any:
        """Return what tells how good vectors with neighbors are; adds them to the composed vectors.

        These are the confidence without neighbors, the share of all neighbors and the largest one, and the cosine
        around the mean of the vectors with and without.
        """
        before = composed - self.mean
        _, shares, *_ = self.add_to(subwords, words, composed)
        alike = cosines(before, composed - self.mean)
        return np.stack([trust, shares.sum(axis=1), shares.max(axis=1), alike], axis=1)

    def corrected(self, facts: FloatMatrix) -> FloatMatrix:
        """Return the confidence with neighbors."""
        regression = Regression(self.center, self.spread, self.coefficients, self.curve)
        found = regression.bend((facts[:, 0] + regression.score(facts)).clip(0, 1))
        found = np.minimum(found, 2 * facts[:, 0])  # what is no word stays so
        return np.where(facts[:, 1] > 0, found, facts[:, 0]).astype(np.float32)

    def add_to(self, subwords: Subwords, words: list[str], out: FloatMatrix) -> tuple[Any, FloatMatrix, Any, Any]:
        """Add neighbors to the composed vectors of words that were read.

        Returns the neighbors, their shares, and the facts and the rules that these come from.
        """
        near, scores = self.find(subwords, words)
        layer = self.rules, self.numbers, self.hidden, self.output, self.mean, self.scale[0]
        spelled = tuple(encode(words, subwords.spelling)), subwords._word_codes
        return near, *kernels.add_near(*spelled, near, scores, self.vectors.view(np.uint16), *layer, out)

    def explain(self, subwords: Subwords, word: str, vectors: SubwordVectors) -> list[Near]:
        """Return the neighbors of a word that was read, largest share first."""
        composed = np.empty((1, vectors.dims), np.float32)
        subwords.embed([word], vectors, composed)
        (near,), (shares,), _, (rules,) = self.add_to(subwords, [word], composed)
        is_known, found = np.isin(rules, self.rules), []
        for at in np.argsort(-shares, kind="stable").tolist():
            if near[at] >= 0:
                other = subwords.words[near[at]]
                same = len(commonprefix([word, other]))  # noqa: RUF071  # of strings, as it should be
                rule = f"-{other[same:]} → -{word[same:]}" if is_known[at] else ""
                found.append(Near(other, float(shares[at]), rule))
        return found


def each_unseen(
    function: Callable[[list[str], list[int]], None], subwords: Subwords, words: list[str], threads: int | None
) -> None:
    """Call a function with words as they are read, and their places, some at a time; without training words."""

    def chosen(chunk: slice) -> None:
        read = subwords.read(words[chunk])
        if places := [at for at, word in enumerate(read) if word not in subwords.word_rows]:
            function([read[at] for at in places], [chunk.start + at for at in places])

    _ = subwords._walk, subwords.word_rows, subwords._word_codes  # unpacked before there are threads
    map_chunks(chosen, len(words), threads)
