"""One word, inspected: spans, posteriors, best segmentations, samples, and a drawing."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pbos.words.subwords import Segmentation, Subwords

MIN_DRAWN = 0.005  # less probable spans are not drawn, except on the best path
BEST = "#d9480f"  # readable on white and on black
MARGIN = 18
LABEL = 12  # font size
MIN_LABEL = 0.05  # less probable spans get no label, except on the best path
JOINER = "\u200d"
JOINERS = "\u200c", JOINER
# Arabic letters with an initial or final form, which Unicode also encodes as separate characters
_FORMS = [unicodedata.decomposition(chr(code)).split() for code in range(0xFB50, 0xFEFD)]
JOINS_NEXT, JOINS_PREVIOUS = (
    {chr(int(form[1], 16)) for form in _FORMS if len(form) == 2 and form[0] == kind}
    for kind in ("<initial>", "<final>")
)


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
        return "".join(draw(self))

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


# The drawing ----------------------------------------------------------------------------------------------------------


class Arc(NamedTuple):
    """A span and the half ellipse that stands for it, in pixels."""

    span: Span
    is_best: bool
    middle: float
    radius: float
    height: int


def draw(lattice: Lattice) -> Iterator[str]:
    """Yield the parts of the drawing of a lattice, as SVG: one arc per span, in the text color of its surroundings.

    The word runs from right to left if its script does. The drawing has presentation attributes only, so it works under
    any content security policy. Style sheets can change it by the classes `best`, `letter`, `mark`, `label` and `cut`.
    """
    word, best = lattice.spelled, lattice._best_path()
    step = min(36, max(20, 1080 // len(word)))  # long words get narrower characters
    xs = [MARGIN + step * position for position in range(len(word) + 1)]
    width = xs[-1] + MARGIN
    directions = (direction for direction in map(unicodedata.bidirectional, word) if direction in ("L", "R", "AL"))
    if rtl := next(directions, "L") != "L":
        xs.reverse()
    arcs = []
    for span in lattice.spans:
        a, b, is_best = xs[span.start], xs[span.end], (span.start, span.end) in best
        height = round(22 * math.pow(span.end - span.start, 0.6))  # grows slower than the width
        if is_best or span.posterior >= MIN_DRAWN:
            arcs.append(Arc(span, is_best, (a + b) / 2, abs(a - b) / 2, height))
    base = 26 + max((arc.height for arc in arcs), default=0)
    text = escape(printable(f"Segmentations of {lattice.word}: {', '.join(map(str, lattice.best(3)))}"))
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {base + 44}" width="{width}" '
        f'height="{base + 44}" role="img" aria-label="{text}" direction="{"rtl" if rtl else "ltr"}" '
        f'font-family="system-ui, sans-serif" font-size="20" text-anchor="middle" color="currentColor">'
        f"<title>{text}</title>"
    )
    for span, is_best, middle, radius, height in sorted(arcs, key=lambda arc: (arc.is_best, arc.span.posterior)):
        kind = f'class="best" stroke="{BEST}"' if is_best else 'stroke="currentColor"'
        opacity = 1.0 if is_best else 0.2 + 0.6 * span.posterior
        yield (
            f'<path {kind} d="M{middle - radius:g} {base} A{radius:g} {height} 0 0 1 {middle + radius:g} {base}" '
            f'fill="none" stroke-width="{1.25 + 5.75 * span.posterior:.2f}" stroke-opacity="{opacity:.2f}">'
            f"<title>{escape(printable(span.subword))} {span.posterior:.3f}</title></path>"
        )
    on_path = {0, *(end for _, end in best)}
    for position, x in enumerate(xs):
        kind = f'class="cut" r="4" fill="{BEST}"' if position in on_path else 'r="2" fill="currentColor" opacity="0.35"'
        yield f'<circle {kind} cx="{x}" cy="{base}"/>'
    for (x, next_x), mark, letter in zip(pairwise(xs), lattice._spans.is_mark, letters(word), strict=True):
        kind = 'class="mark" opacity="0.35"' if mark else 'class="letter"'
        yield f'<text {kind} x="{(x + next_x) / 2:g}" y="{base + 32}" fill="currentColor">{escape(letter)}</text>'
    yield from _labels(arcs, base)
    yield "</svg>"


def _labels(arcs: list[Arc], base: int) -> Iterator[str]:
    """Yield the labels of the best path, then those of other probable spans where there is room."""
    taken: list[tuple[float, float, float]] = []  # x, y and half the width of what is already there
    for span, is_best, middle, radius, height in sorted(arcs, key=lambda arc: (not arc.is_best, -arc.span.posterior)):
        y = base - height - 10
        text = f"{printable(span.subword)} {span.posterior:.0%}"
        fits = len(span.subword) > 1 and width_of(text) <= 2 * radius
        if is_best and not fits:
            text = f"{span.posterior:.0%}"
        elif not is_best and (not fits or span.posterior < MIN_LABEL):
            continue
        half = width_of(text) / 2
        if any(abs(middle - x) < half + other_half and abs(y - at) < LABEL for x, at, other_half in taken):
            continue
        taken.append((middle, y, half))
        if is_best:  # other labels keep away from its arc too
            angles = [math.pi * k / 32 for k in range(33)]
            taken += [(middle + radius * math.cos(t), base - height * math.sin(t) + LABEL / 2, 4) for t in angles]
        kind = f'class="label best" fill="{BEST}"' if is_best else 'class="label" fill="currentColor" opacity="0.75"'
        yield f'<text {kind} x="{middle:g}" y="{y}" font-size="{LABEL}">{escape(text)}</text>'


def width_of(text: str) -> int:
    """Estimate the width of a label in pixels."""
    return sum(13 if unicodedata.east_asian_width(c) in "WF" else 7 for c in text if not unicodedata.combining(c))


def letters(word: str) -> list[str]:
    """Return the text to show for each character of a word, when there is space between the characters.

    A combining mark or a joiner gets a dotted circle. An Arabic letter keeps the form it has inside the word.
    """
    is_combining = [unicodedata.category(character)[0] == "M" for character in word]
    shown = [printable(character).replace(" ", "␣") for character in word]
    for at, character in enumerate(word):
        if is_combining[at] or character in JOINERS:
            shown[at] = f"◌{character}"
    for at, following in pairwise(at for at in range(len(word)) if not is_combining[at]):
        if word[at] in JOINS_NEXT and word[following] in JOINS_PREVIOUS:
            shown[at] += JOINER
            shown[following] = JOINER + shown[following]
    return shown


def printable(text: str) -> str:
    r"""Replace characters that are invisible or not allowed in XML, such as control characters.

    >>> printable("a\x00b\u200f")
    'a␀b�'
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    category = unicodedata.category(character)[0]
    if category == "Z":
        return " "
    if category != "C" or character in JOINERS:
        return character
    return chr(0x2400 + ord(character)) if character < " " else "�"
