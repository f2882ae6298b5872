"""Draws a lattice as SVG: one arc per span, in the text color of its surroundings."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pbos.words.lattice import Span

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


class Arc(NamedTuple):
    """A span and the half ellipse that stands for it, in pixels."""

    span: Span
    is_best: bool
    middle: float
    radius: float
    height: int


def draw(
    word: str, is_mark: list[bool], spans: list[Span], best: set[tuple[int, int]], alternative: str
) -> Iterator[str]:
    """Yield the parts of the drawing of a word (with marks); `best` has the positions of the spans on the best path.

    The word runs from right to left if its script does. The drawing has presentation attributes only, so it works under
    any content security policy. Style sheets can change it by the classes `best`, `letter`, `mark`, `label` and `cut`.
    """
    step = min(36, max(20, 1080 // len(word)))  # long words get narrower characters
    xs = [MARGIN + step * position for position in range(len(word) + 1)]
    width = xs[-1] + MARGIN
    directions = (direction for direction in map(unicodedata.bidirectional, word) if direction in ("L", "R", "AL"))
    if rtl := next(directions, "L") != "L":
        xs.reverse()
    arcs = []
    for span in spans:
        a, b = xs[span.start], xs[span.end]
        height = round(22 * math.pow(span.end - span.start, 0.6))  # grows slower than the width
        arcs.append(Arc(span, (span.start, span.end) in best, (a + b) / 2, abs(a - b) / 2, height))
    base = 26 + max((arc.height for arc in arcs), default=0)
    text = escape(printable(alternative))
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
    for (x, next_x), mark, letter in zip(pairwise(xs), is_mark, letters(word), strict=True):
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
