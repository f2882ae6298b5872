"""Text to words: which characters form words, and the words of a text as sorted, numbered ones."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.kernels.text import ALONE, BETWEEN, INNER, LINE_END, WORD, find_words
from pbos.words.text import normalize

CUTS = ("words", "spaces", "tokens")
"""Ways to find the words of a text: by its letters, by the spaces between them, or as the tokens that were given."""

BETWEEN_TOKENS = "\x1f"  # the unit separator of ASCII, which is in no token
INNER_CHARACTERS = "'’-‐‑_·\u00ad\u200c\u200d"  # apostrophes, hyphens, joiners and so on: inside of a word, parts of it
WITHOUT_SPACES = ((0x3040, 0x30A0), (0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x40000))
"""Hiragana and Chinese characters: without spaces between words, each is a word of its own, as in Unicode's rules."""


class Words(NamedTuple):
    """The words of a text."""

    words: list[str]  # the distinct ones, sorted
    ids: npt.NDArray[np.int32]  # the words as they follow each other, as positions in `words`
    line_ends: npt.NDArray[np.int64]  # positions in `ids`


def form_of(lowercase: bool) -> str:
    """Return the form that text is normalized to."""
    return "lower" if lowercase else "NFC"


def words_of(text: str, cut: str, lowercase: bool) -> Words:
    """Return the words of a text.

    >>> words_of("The cat's out; the cat-flap's -- shut.", "words", lowercase=True).words
    ["cat's", "cat-flap's", 'out', 'shut', 'the']
    """
    text = normalize([text], form_of(lowercase))[0]
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")
    size = 1 << 16 if codes.max(initial=0) < 1 << 16 else 0x110000
    ids, line_ends, starts, ends = find_words(codes, kinds_of(cut, size))
    found = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    order = sorted(range(len(found)), key=found.__getitem__)
    places = np.empty(len(found), np.int32)
    places[order] = np.arange(len(found))
    return Words([found[at] for at in order], places[ids], line_ends)


@cache
def kinds_of(cut: str, size: int) -> npt.NDArray[np.uint8]:
    """Return what the first `size` code points are in a text, see `pbos.kernels.text`."""
    if cut == "tokens":
        kinds = np.full(size, WORD, np.uint8)
        kinds[ord(BETWEEN_TOKENS)] = BETWEEN
    elif cut == "spaces":
        kinds = np.array([BETWEEN if chr(code).isspace() else WORD for code in range(size)], np.uint8)
    else:
        letters = [unicodedata.category(chr(code))[0] in "LMN" for code in range(size)]
        kinds = np.where(letters, WORD, BETWEEN).astype(np.uint8)
        kinds[[ord(character) for character in INNER_CHARACTERS]] = INNER
        for first, last in WITHOUT_SPACES:
            part = kinds[first:last]
            part[part == WORD] = ALONE
    kinds[[ord("\n"), ord("\r")]] = LINE_END
    return kinds
