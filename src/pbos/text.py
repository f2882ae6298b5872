"""Words as people hand them over, Unicode normalisation, and code points as arrays."""

from __future__ import annotations

import functools
import itertools
import sys
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError

BOUNDARIES = ("<", ">")
"""The marks put around a word where a model uses boundaries."""

NORMALIZATIONS: dict[str, Callable[[str], str]] = {
    "NFC": lambda word: unicodedata.normalize("NFC", word),
    "NFKC": lambda word: unicodedata.normalize("NFKC", word),
    "casefold": lambda word: unicodedata.normalize("NFC", word.casefold()),
    "none": lambda word: word,
}


PackedStrings = tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]
"""Strings as UTF-8 bytes, and the offsets where each begins and ends."""


class Codes(NamedTuple):
    """Words as one run of code points; word i is ``codes[offsets[i]:offsets[i + 1]]``."""

    codes: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.int64]

    def part(self, first: int, last: int) -> Codes:
        """Return words first to last (exclusive), without copying their code points."""
        offsets = self.offsets[first : last + 1]
        return Codes(self.codes[offsets[0] : offsets[-1]], offsets - offsets[0])


class InnerMarks(dict[int, str]):
    """A table for str.translate that puts boundary marks around punctuation, symbols and spaces.

    Combining marks are parts of letters (all vowels but the first of a Hindi word are), so they stay as they are.
    """

    def __missing__(self, code: int) -> str:
        character, (left, right) = chr(code), BOUNDARIES
        separates = unicodedata.category(character)[0] in "PSZ"
        self[code] = f"{right}{character}{left}" if separates else character
        return self[code]


INNER_MARKS = InnerMarks()


def as_words(words: Any) -> list[str]:
    """Turn what people have into a list of str: any iterable, NumPy arrays, pandas or Arrow columns.

    >>> as_words(("higher", "lower"))
    ['higher', 'lower']
    """
    if isinstance(words, (str, bytes)):
        raise InputError(f'expected many words, got one: {words!r}; pass a list, or use model["word"] for a single one')
    if hasattr(words, "to_pylist"):  # Arrow arrays and chunked arrays
        words = words.to_pylist()
    elif hasattr(words, "tolist"):  # NumPy arrays, pandas series and indexes
        if getattr(words, "ndim", 1) != 1:
            raise InputError(f"expected a one-dimensional array of words, got shape {words.shape}")
        words = words.tolist()
    elif not isinstance(words, Iterable):
        raise InputError(f"expected words (an iterable of str), got {type(words).__name__}")
    result: list[str] = list(words)
    if set(map(type, result)) <= {str}:
        return result
    for position, word in enumerate(result):
        if not isinstance(word, str):
            raise InputError(f"word {position} is not a str but {type(word).__name__}: {word!r}")
    return [str(word) for word in result]  # subclasses of str (NumPy's str_)


def normalize(words: list[str], form: str) -> list[str]:
    """Bring words to one Unicode form; ASCII text is already in NFC and NFKC.

    >>> normalize(["Straße"], "casefold")
    ['strasse']
    """
    check_normalization(form)
    if form == "none" or (form != "casefold" and all(map(str.isascii, words))):
        return words
    function = NORMALIZATIONS[form]
    return [word if word.isascii() and form != "casefold" else function(word) for word in words]


def check_normalization(form: str) -> None:
    """Refuse a normalisation we do not know."""
    if form not in NORMALIZATIONS:
        raise InputError(f"unknown normalization {form!r}; choose one of: {', '.join(NORMALIZATIONS)}")


def encode(words: list[str], boundaries: bool = False, first: int = 0) -> Codes:
    """Lay words out as code points, with the boundary marks around each if asked; messages count words from `first`.

    >>> encode(["ab", "c"]).codes.tolist()
    [97, 98, 99]
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    if not lengths.all():
        position = int(np.flatnonzero(lengths == 0)[0])
        raise InputError(f"word {first + position} is empty; an empty string has no spelling to work with")
    if boundaries:
        left, right = BOUNDARIES
        text = left + (right + left).join(words) + right if words else ""
        lengths += 2
    else:
        text = "".join(words)
    try:
        data = text.encode("utf-32-le")
    except UnicodeEncodeError:
        raise surrogate_error(words, first) from None
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Codes(np.frombuffer(data, "<u4").astype(np.uint32, copy=False), offsets)


def one_word(text: str) -> Codes:
    """Lay out one word that is known to be sound; `encode` has to look at many."""
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4").astype(np.uint32, copy=False)
    return Codes(codes, ends_of_one(len(text)))


@functools.lru_cache(maxsize=256)
def ends_of_one(length: int) -> npt.NDArray[np.int64]:
    """Return the offsets of one word; an array takes longer to make than to find again."""
    return np.array([0, length])


def mark_parts(words: list[str]) -> list[str]:
    """Write boundary marks also inside words, so that their parts begin and end like words.

    >>> mark_parts(["state-of-the-art", "art"])
    ['state>-<of>-<the>-<art', 'art']
    """
    return [word if word.isalnum() else word.translate(INNER_MARKS) for word in words]


def surrogate_error(words: list[str], first: int) -> InputError:
    """Say which word holds a lone surrogate, and where."""
    for position, word in enumerate(words, first):
        for at, character in enumerate(word):
            if "\ud800" <= character <= "\udfff":
                return InputError(
                    f"word {position} ({word!a}) holds a lone surrogate, U+{ord(character):04X} at {at}, "
                    "which is no character; decode the text with its right encoding or drop the word"
                )
    raise AssertionError("no surrogate found")


class CodeTable:
    """What becomes of each code point of a word in one Unicode form, whatever stands beside it.

    With it, words need not become Python strings to be normalised. Entries are found when a code point is first met.
    """

    # An entry is a new code point, with these flags:
    KNOWN = 1 << 31  # the entry has been found
    SEPARATES = 1 << 30  # punctuation, a symbol or a space: `mark_parts` puts marks around it
    CHANGES = 1 << 29  # no such code point: a word that holds this one has to be normalised as a whole

    def __init__(self, form: str) -> None:
        check_normalization(form)
        self.form = form
        self._entries = np.zeros(sys.maxunicode + 1, np.uint32)

    @classmethod
    @functools.cache
    def of(cls, form: str) -> CodeTable:
        """Return the table of a form: the same one each time, so that it fills up."""
        return cls(form)

    def entries(self, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the entries of code points."""
        entries = np.take(self._entries, codes)
        new = np.unique(codes[entries == 0])
        if not new.size:
            return entries
        self._entries[new] = [self.find(code) for code in new.tolist()]
        return np.take(self._entries, codes)

    def find(self, code: int) -> int:
        """Find the entry of a code point.

        >>> chr(CodeTable("casefold").find(ord("Ö")) - CodeTable.KNOWN)
        'ö'
        """
        character = chr(code)
        if self.form != "none":
            character = NORMALIZATIONS[self.form](character)
            if len(character) != 1 or may_join(character):
                return self.KNOWN | self.CHANGES
        separates = len(INNER_MARKS[ord(character)]) > 1
        return self.KNOWN | (self.SEPARATES if separates else 0) | ord(character)


def may_join(character: str) -> bool:
    """Tell whether normalisation may join a character to what stands before it, or change its place.

    >>> may_join("\u0301"), may_join("é")
    (True, False)
    """
    return ord(character) >= 0x300 and (unicodedata.combining(character) > 0 or character in second_characters())


@functools.cache
def second_characters() -> frozenset[str]:
    """Return the characters that are the second of a pair which Unicode writes as one."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(0x20000))  # beyond lie ideographs, no pairs
    found = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    hangul = map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)))  # vowels and finals, joined by a formula
    return frozenset(found).union(hangul)


def pack_strings(words: list[str]) -> PackedStrings:
    """Pack strings as UTF-8 bytes and offsets (uint32 if that is enough), the form in which model files hold them."""
    encoded = [word.encode() for word in words]
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(words)), out=offsets[1:])
    dtype = np.uint32 if offsets[-1] < 2**32 else np.int64
    return np.frombuffer(b"".join(encoded), np.uint8), offsets.astype(dtype)


def unpack_strings(data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> list[str]:
    """Undo `pack_strings`."""
    content, ends = data.tobytes(), offsets.tolist()
    return [content[start:end].decode() for start, end in itertools.pairwise(ends)]
