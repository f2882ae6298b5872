"""The picture of a lattice: an arc for every span, as SVG that takes its colours from what is around it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pbos.lattice import Span

BEST = "#d9480f"  # can be read on white and on black
STEPS = (20, 36)  # pixels a character: in long words, in short ones
LONG = 1080  # pixels from which on the characters of a word move together
MARGIN = 18
LETTER, LABEL = 20, 12  # font sizes
LEAST_LABEL = 0.05  # less probable spans get no label, unless they are on the best path
JOINER, NON_JOINER = "\u200d", "\u200c"


def draw(
    word: str, is_mark: list[bool], spans: list[Span], best: set[tuple[int, int]], alternative: str
) -> Iterator[str]:
    """Yield the parts of the picture; the word runs from right to left if its script does.

    Only presentation attributes are used, no style sheet: the picture can be shown under any content security policy,
    and style sheets can still change it by the classes `best`, `letter`, `mark`, `label` and `cut`.

    Args:
        word: The word, with its marks.
        is_mark: Which of its characters are marks.
        spans: What to draw.
        best: The places of the spans of the best path.
        alternative: The picture in words.
    """
    step = min(STEPS[1], max(STEPS[0], LONG // len(word)))
    width = 2 * MARGIN + step * len(word)
    rtl = runs_right_to_left(word)

    def place(position: int) -> int:
        return width - MARGIN - step * position if rtl else MARGIN + step * position

    base = 26 + max((height_of(span) for span in spans), default=0)
    height = base + 44
    # The picture is as large as it says, or smaller where there is less room.
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(printable(alternative))}" direction="{"rtl" if rtl else "ltr"}" '
        f'font-family="system-ui, sans-serif" font-size="{LETTER}" text-anchor="middle" color="currentColor">'
    )
    yield f"<title>{escape(printable(alternative))}</title>"
    for span in sorted(spans, key=lambda span: ((span.start, span.end) in best, span.posterior)):
        yield _arc(span, (span.start, span.end) in best, place, base)
    on_path = {0, *(end for _, end in best)}
    for position in range(len(word) + 1):
        kind = f'class="cut" r="4" fill="{BEST}"' if position in on_path else 'r="2" fill="currentColor" opacity="0.35"'
        yield f'<circle {kind} cx="{place(position)}" cy="{base}"/>'
    for at, character in enumerate(letters(word)):
        look = 'class="mark" opacity="0.35"' if is_mark[at] else 'class="letter"'
        middle = (place(at) + place(at + 1)) / 2
        yield f'<text {look} x="{middle:g}" y="{base + 32}" fill="currentColor">{escape(character)}</text>'
    yield from _labels(spans, best, place, base)
    yield "</svg>"


def _arc(span: Span, is_best: bool, place: Callable[[int], int], base: int) -> str:
    left, right = sorted((place(span.start), place(span.end)))
    look = f'class="best" stroke="{BEST}"' if is_best else 'stroke="currentColor"'
    opacity = 1.0 if is_best else 0.2 + 0.6 * span.posterior
    return (
        f'<path {look} d="M{left} {base} A{(right - left) / 2:g} {height_of(span)} 0 0 1 {right} {base}" fill="none" '
        f'stroke-width="{1.25 + 5.75 * span.posterior:.2f}" stroke-opacity="{opacity:.2f}">'
        f"<title>{escape(printable(span.subword))} {span.posterior:.3f}</title></path>"
    )


def _labels(spans: list[Span], best: set[tuple[int, int]], place: Callable[[int], int], base: int) -> Iterator[str]:
    """Yield the labels of the best path, then those of other strong spans where there is room."""
    taken: list[tuple[float, float, float]] = []  # the middle, the height and half the width of what is there already
    strong = [span for span in spans if (span.start, span.end) in best or span.posterior >= LEAST_LABEL]
    for span in sorted(strong, key=lambda span: ((span.start, span.end) not in best, -span.posterior)):
        is_best = (span.start, span.end) in best
        left, right = sorted((place(span.start), place(span.end)))
        middle, y = (left + right) / 2, base - height_of(span) - 10
        share = f"{span.posterior:.0%}"
        text = f"{printable(span.subword)} {share}"
        if span.end - span.start == 1 or width_of(text) > right - left:
            if not is_best:
                continue
            text = share
        half = width_of(text) / 2
        if any(abs(middle - x) < half + other and abs(y - at) < LABEL for x, at, other in taken):
            continue
        taken.append((middle, y, half))
        if is_best:  # other labels keep away from its arc too
            turns = [math.pi * k / 32 for k in range(33)]
            radius, height = (right - left) / 2, height_of(span)
            taken += [(middle + radius * math.cos(t), base - height * math.sin(t) + LABEL / 2, 4) for t in turns]
        look = f'class="label best" fill="{BEST}"' if is_best else 'class="label" fill="currentColor" opacity="0.75"'
        yield f'<text {look} x="{middle:g}" y="{y}" font-size="{LABEL}">{escape(text)}</text>'


def height_of(span: Span) -> int:
    """Return how high the arc over a span is: long ones rise more slowly, so that long words stay in sight."""
    return round(22 * math.pow(span.end - span.start, 0.6))


def width_of(text: str) -> int:
    """Return about how wide a label is, in pixels.

    >>> width_of("ab"), width_of("日本")
    (14, 26)
    """
    return sum(13 if unicodedata.east_asian_width(c) in "WF" else 7 for c in text if not unicodedata.combining(c))


def runs_right_to_left(word: str) -> bool:
    """Tell whether the first character that has a direction runs from right to left.

    >>> runs_right_to_left("<שלום>"), runs_right_to_left("peace")
    (True, False)
    """
    directions = (unicodedata.bidirectional(character) for character in word)
    return next((direction for direction in directions if direction in ("L", "R", "AL")), "L") != "L"


def letters(word: str) -> list[str]:
    """Return what to write for each character of a word that is written with room between its characters.

    A combining mark sits on a dotted circle. An Arabic letter keeps the form it has inside the word.

    >>> letters("e\u0301 ")
    ['e', '◌\u0301', '␣']
    """
    is_combining = [unicodedata.category(character)[0] == "M" for character in word]
    shown = [f"◌{c}" if combining else _visible(c, "␣", "◌") for c, combining in zip(word, is_combining, strict=True)]
    solid = [at for at, combining in enumerate(is_combining) if not combining]
    for at, following in pairwise(solid):
        if word[at] in JOINS_NEXT and word[following] in JOINS_PREVIOUS:
            shown[at] += JOINER
            shown[following] = JOINER + shown[following]
    return shown


def _with_form(form: str) -> frozenset[str]:
    """Return the Arabic letters that have an initial or a final form: Unicode has these as characters of their own."""
    parts = (unicodedata.decomposition(chr(code)).split() for code in range(0xFB50, 0xFEFD))
    return frozenset(chr(int(part[1], 16)) for part in parts if len(part) == 2 and part[0] == form)


JOINS_NEXT = _with_form("<initial>")
JOINS_PREVIOUS = _with_form("<final>")


def printable(text: str) -> str:
    r"""Replace what XML cannot hold or nobody can see: control characters, odd spaces, non-characters.

    >>> printable("a\x00b\u200f")
    'a␀b�'
    """
    return "".join(_visible(character, " ") for character in text)


def _visible(character: str, space: str, joiner: str | None = None) -> str:
    """Return what to show for a character, a space and a joiner, which in running text gives letters their form."""
    category = unicodedata.category(character)
    if category[0] == "Z":
        return space
    if character in (JOINER, NON_JOINER):
        return joiner or character
    if category[0] != "C":
        return character
    return chr(0x2400 + ord(character)) if character < " " else "�"
