"""One word, inspected: spans, posteriors, best segmentations, samples, and a drawing."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pbos.words.drawing import draw
from pbos.words.subwords import Segmentation, Subwords

MIN_DRAWN = 0.005  # less probable spans are not drawn, except on the best path


class Span(NamedTuple):
    """A subword at a position of a word: it is ``spelled[start:end]``, see `Lattice`.

    Attributes:
        prob: p_s, the probability of the subword in the language.
        posterior: The total probability of the segmentations that contain this span.
        weight: Its share in the word's vector; 0 if it has no vector.
    """

    start: int
    end: int
    subword: str
    prob: float
    posterior: float
    weight: float


class Lattice:
    """All segmentations of one word.

    Attributes:
        word: The word as the model reads it.
        spelled: The word with boundary marks, if the model uses them; spans are positions in it.
    """

    def __init__(self, subwords: Subwords, word: str) -> None:
        self._subwords = subwords
        self._spans = subwords.spans(word)
        self.word, self.spelled = self._spans.word, self._spans.spelled

    @property
    def spans(self) -> list[Span]:
        """Every span with a probability or a weight, by start and end."""
        rows = zip(*(array.tolist() for array in self._spans[3:8]), strict=True)
        spans = (Span(start, end, self.spelled[start:end], *values) for start, end, *values in rows)
        return [span for span in spans if span.prob > 0 or span.weight > 0]

    def best(self, n: int = 1) -> list[Segmentation]:
        """Return the n most probable segmentations, best first (fewer if the word has fewer).

        Those that differ only in whether a boundary mark is a piece by itself or part of one count as the same.
        """
        return self._subwords.segment([self.word], n)[0]

    def sample(self, k: int = 1, seed: int | None = None) -> list[Segmentation]:
        """Draw k independent segmentations from p(g|w)."""
        return self._subwords.sample([self.word], k, seed)[0]

    def entropy(self) -> float:
        """Return the entropy of p(g|w) in nats: 0 if only one segmentation is possible."""
        probs, posteriors = self._spans.probs, self._spans.posteriors
        seen = posteriors > 0  # log p(g) is a sum over the spans of g, so its expectation is one over the posteriors
        return max(0.0, self._spans.log_total - float(posteriors[seen] @ np.log(probs[seen])))

    def weights(self) -> list[tuple[str, float]]:
        """Return the weights a(s|w) of the subwords that have a vector, largest first; they sum to 1."""
        sums: dict[str, float] = {}
        for span in self.spans:
            if span.weight > 0:
                sums[span.subword] = sums.get(span.subword, 0.0) + span.weight
        return sorted(sums.items(), key=lambda item: -item[1])

    def coverage(self) -> float:
        """Return the share of the word's characters that are in a subword with a weight, 0 to 1."""
        used = self._spans.weights > 0
        depth = np.zeros(len(self.spelled) + 1, np.int64)
        np.add.at(depth, self._spans.begins[used], 1)
        np.add.at(depth, self._spans.ends[used], -1)
        return float((np.cumsum(depth[:-1]) > 0)[~self._spans.is_mark].mean())

    def svg(self) -> str:
        """Draw the probable spans as arcs over the word, as wide as they are probable; the best path is colored."""
        best = self._best_path()
        spans = [span for span in self.spans if span.posterior >= MIN_DRAWN or (span.start, span.end) in best]
        description = f"Segmentations of {self.word}: {', '.join(map(str, self.best(3)))}"
        return "".join(draw(self.spelled, self._spans.is_mark.tolist(), spans, best, description))

    def _best_path(self) -> set[tuple[int, int]]:
        """Return the (start, end) of the spans on the most probable path, by the Viterbi algorithm."""
        scores, ends = [-math.inf] * len(self.spelled) + [0.0], [0] * len(self.spelled)
        for span in reversed(self.spans):
            if span.prob > 0 and (score := math.log(span.prob) + scores[span.end]) > scores[span.start]:
                scores[span.start], ends[span.start] = score, span.end
        path, start = set(), 0
        while start < len(self.spelled):
            path.add((start, ends[start]))
            start = ends[start]
        return path

    def _repr_html_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"<Lattice {self.word!r}: {self._spans.ends.size} spans, best {self.best(1)[0]}>"
