"""One word, looked at: its spans, their posteriors, the best segmentations, samples, entropy, a picture."""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.drawing import draw
from pbos.errors import InputError
from pbos.kernels import lattice as kernels
from pbos.kernels.trie import ROW, Nodes
from pbos.spelling import Spelling


class Segmentation(NamedTuple):
    """One way to cut a word.

    Attributes:
        pieces: Its pieces, without boundary marks: together they are the word.
        probability: p(g|w), among all ways to cut that word.
    """

    pieces: tuple[str, ...]
    probability: float

    def __str__(self) -> str:
        return f"{'/'.join(self.pieces)} {self.probability:.3f}"


class Span(NamedTuple):
    """A subword at a place of a word.

    Attributes:
        start: Where it begins, in code points of `Lattice.word`.
        end: Where it ends: it is `word[start:end]`.
        subword: The subword.
        prob: p_s, the subword's probability in the language.
        posterior: The total probability of the segmentations that contain this span.
        weight: Its share in the word's vector; 0 if it owns none.
    """

    start: int
    end: int
    subword: str
    prob: float
    posterior: float
    weight: float


def check_n(n: int) -> None:
    """Refuse a number of segmentations that makes no sense."""
    if n < 1:
        raise InputError(f"n must be at least 1, got {n}")


def check_k(k: int) -> None:
    """Refuse a number of samples that makes no sense."""
    if k < 0:
        raise InputError(f"the number of samples must not be negative, got {k}")


def letter_keys(n: int) -> npt.NDArray[np.int64]:
    """Return at least n random numbers by which the kernels compare cuts, always the same ones."""
    return _random_keys(int(n).bit_length())


@functools.lru_cache(maxsize=16)
def _random_keys(n_bits: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(0).integers(1 << 63, size=1 << n_bits, dtype=np.int64)


def as_segmentations(
    words: list[str],
    word_indptr: npt.NDArray[np.int64],
    probabilities: npt.NDArray[np.float64],
    indptr: npt.NDArray[np.int64],
    cuts: npt.NDArray[np.int32],
) -> list[list[Segmentation]]:
    """Turn what `kernels.segmentations_of_words` found of words, given without marks, into segmentations.

    All pieces, then all tuples of them, and so on: many small objects are made fastest in a few long runs, and without
    the garbage collector, which would look through them again and again.
    """
    if len(words) == 1:  # for which arrays would take longer
        (word,), bounds, places = words, indptr.tolist(), cuts.tolist()
        found = zip(itertools.pairwise(bounds), probabilities.tolist(), strict=True)
        return [[Segmentation(_pieces(word, places[first:last]), probability) for (first, last), probability in found]]
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _as_segmentations(words, word_indptr, probabilities, indptr, cuts)
    finally:
        if collecting:
            gc.enable()


def _pieces(word: str, cuts: list[int]) -> tuple[str, ...]:
    return tuple([word[begin:end] for begin, end in itertools.pairwise(cuts)])


def _as_segmentations(
    words: list[str],
    word_indptr: npt.NDArray[np.int64],
    probabilities: npt.NDArray[np.float64],
    indptr: npt.NDArray[np.int64],
    cuts: npt.NDArray[np.int32],
) -> list[list[Segmentation]]:
    is_first, is_last = np.zeros((2, cuts.size), np.bool_)
    is_first[indptr[:-1]] = is_last[indptr[1:] - 1] = True
    sizes = np.diff(indptr) - 1  # pieces of each segmentation
    of_word = np.repeat(np.arange(len(words)), np.diff(word_indptr))
    begins, ends = cuts[~is_last].tolist(), cuts[~is_first].tolist()
    spelled = map(words.__getitem__, np.repeat(of_word, sizes).tolist())
    pieces = [word[begin:end] for word, begin, end in zip(spelled, begins, ends, strict=True)]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    tuples = [tuple(pieces[first:last]) for first, last in itertools.pairwise(bounds)]
    # What Segmentation(pieces, probability) does, without a call of Python's for each.
    pairs = zip(tuples, probabilities.tolist(), strict=True)
    found = list(map(tuple.__new__, itertools.repeat(Segmentation), pairs))
    return [found[first:last] for first, last in itertools.pairwise(word_indptr.tolist())]


class Lattice:
    """All segmentations of one word at once.

    Attributes:
        word: The word as it is cut: normalised, with boundary marks if the model uses them.
    """

    def __init__(self, nodes: Nodes, word: str, spelling: Spelling) -> None:
        self.word, self._is_mark = spelling.write(word)
        unseen_char_prob, *weighting = spelling.numbers
        codes = spelling.codes([word])
        starts, span_nodes, probs = kernels.find_spans(nodes, unseen_char_prob, *codes)
        self._starts: npt.NDArray[np.int64] = starts[
            :-1
        ]  # (length + 1,) spans of position i: _starts[i]:_starts[i + 1]
        self._probs: npt.NDArray[np.float64] = probs  # (n_spans,)
        self._weights: npt.NDArray[np.float64] = np.zeros(probs.size)  # (n_spans,)
        _, _, records, _ = nodes
        rows = records[span_nodes, ROW].astype(np.int32)
        lengths = np.zeros(probs.size, np.float32)
        total, _ = kernels.write_weights(
            codes.codes, self._starts, rows, lengths, probs, *weighting, self._weights, kernels.empty_values()
        )
        if total > 0:
            self._weights /= total

    @cached_property
    def _begins(self) -> npt.NDArray[np.int64]:  # (n_spans,)
        return np.repeat(np.arange(len(self.word)), np.diff(self._starts))

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:  # (n_spans,)
        return self._begins + 1 + np.arange(self._probs.size) - self._starts[self._begins]

    @cached_property
    def _letters(self) -> npt.NDArray[np.int64]:  # (length + 1,) how many come before each position
        return np.concatenate([[0], np.cumsum(~self._is_mark)])

    @cached_property
    def _posteriors(self) -> npt.NDArray[np.float64]:  # (n_spans,)
        posteriors = np.zeros(self._probs.size)
        kernels.write_posteriors(self._starts, self._probs, posteriors, kernels.empty_values())
        return posteriors

    @cached_property
    def _log_total(self) -> float:
        return float(kernels.log_total(self._starts, self._probs))

    @property
    def spans(self) -> list[Span]:
        """Every span with a probability or a weight, by start and end."""
        return [self._span(k) for k in np.flatnonzero((self._probs > 0) | (self._weights > 0)).tolist()]

    def _span(self, k: int) -> Span:
        start, end = int(self._begins[k]), int(self._ends[k])
        values = float(self._probs[k]), float(self._posteriors[k]), float(self._weights[k])
        return Span(start, end, self.word[start:end], *values)

    def best(self, n: int = 1) -> list[Segmentation]:
        """Return the n most probable segmentations, best first (fewer if the word has fewer).

        Where words have boundary marks, a mark can be a piece by itself or go with its neighbour: these are the same
        segmentation of the word. They are looked for among the 4 n that have the most probable single way.
        """
        check_n(n)
        ways = kernels.empty_ways(len(self.word), kernels.n_ways(n, self._letters))
        keys = letter_keys(self._letters[-1] + 1)
        found = kernels.best_segmentations(self._starts, self._probs, self._letters, keys, n, ways)
        return as_segmentations([self._plain_word], np.array([0, found[0].size]), *found)[0]

    @cached_property
    def _plain_word(self) -> str:
        return "".join(character for character, mark in zip(self.word, self._is_mark, strict=True) if not mark)

    def _best_path(self) -> Iterator[tuple[int, int]]:
        """Yield the places of the spans of the most probable way through the lattice."""
        keys = letter_keys(self._letters[-1] + 1)
        ways = _, spans, *_ = kernels.empty_ways(len(self.word), 1)
        kernels.best_paths(self._starts, self._probs, self._letters, keys, 1, ways)
        position = 0
        while position < len(self.word):
            begin, position = position, int(self._ends[spans[position, 0]])
            yield begin, position

    def sample(self, k: int = 1, seed: int | None = None) -> list[Segmentation]:
        """Draw k independent segmentations from p(g|w)."""
        check_k(k)
        uniforms = np.random.default_rng(seed).random((k, len(self.word)))
        found = kernels.sampled_segmentations(self._starts, self._probs, self._letters, uniforms)
        return as_segmentations([self._plain_word], np.array([0, k]), *found)[0]

    def entropy(self) -> float:
        """Return the entropy of p(g|w) in nats: 0 when only one segmentation is possible.

        The log-probability of g is a sum over its spans, so its mean is a sum over the posteriors.
        """
        seen = self._posteriors > 0
        return max(0.0, self._log_total - float(self._posteriors[seen] @ np.log(self._probs[seen])))

    def weights(self) -> list[tuple[str, float]]:
        """Return the weights a(s|w) of the subwords that own a vector, largest first; they sum to 1."""
        sums: dict[str, float] = {}
        for k in np.flatnonzero(self._weights > 0).tolist():
            subword = self.word[self._begins[k] : self._ends[k]]
            sums[subword] = sums.get(subword, 0.0) + float(self._weights[k])
        return sorted(sums.items(), key=lambda item: -item[1])

    def coverage(self) -> float:
        """Return the share of the word's characters that lie in a subword with a weight, 0 to 1."""
        used = self._weights > 0
        depth = np.zeros(len(self.word) + 1, np.int64)
        np.add.at(depth, self._begins[used], 1)
        np.add.at(depth, self._ends[used], -1)
        return float((np.cumsum(depth[:-1]) > 0)[~self._is_mark].mean())

    def to_dict(self, n: int = 5) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON."""
        return {
            "word": self.word,
            "segmentations": [{"pieces": list(s.pieces), "probability": s.probability} for s in self.best(n)],
            "weights": [{"subword": subword, "weight": weight} for subword, weight in self.weights()],
            "spans": [span._asdict() for span in self.spans],
            "entropy": self.entropy(),
            "coverage": self.coverage(),
        }

    def svg(self, least: float = 0.005) -> str:
        """Draw the spans as arcs over the word, as wide as they are probable; the best segmentation is coloured.

        Args:
            least: Spans less probable than this are left out, but for those of the best segmentation.
        """
        best = set(self._best_path())
        spans = [self._span(k) for k in np.flatnonzero(self._probs > 0).tolist()]
        spans = [span for span in spans if span.posterior >= least or (span.start, span.end) in best]
        found = ", ".join(str(segmentation) for segmentation in self.best(3))
        alternative = f"Segmentations of {self._plain_word}: {found}"
        return "".join(draw(self.word, self._is_mark.tolist(), spans, best, alternative))

    def _repr_html_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"<Lattice {self.word!r}: {self._ends.size} spans, best {self.best(1)[0]}>"
