"""Words: as people pass them in, and as the index reads them, normalized, with marks, as code points."""

from __future__ import annotations

import functools
import itertools
import re
import reprlib
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.settings import MISSING, Missing, Spelling, check_choice

LEFT, RIGHT = BOUNDARIES = ("<", ">")
"""The marks around a word in models that use boundaries."""

SURROGATE = re.compile("[\ud800-\udfff]")
MOST_CHARACTERS = 2**31 - 2  # of a word, whose places kernels number with 32 bits

BYTES = bytes, bytearray, memoryview
DECODE = "decode it: str(data, 'utf-8')"

PackedStrings = tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]
"""Strings as UTF-8 bytes, and the offsets where each starts and ends."""


class MissingWord(InputError):
    """A missing or empty word; a method that has something to offer for these says so too."""


class Codes(NamedTuple):
    """Words as one array of code points; word i is ``codes[offsets[i]:offsets[i + 1]]``."""

    codes: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.int64]

    def part(self, first: int, last: int) -> Codes:
        """Return words first to last (exclusive), without copying their code points."""
        offsets = self.offsets[first : last + 1]
        return Codes(self.codes[offsets[0] : offsets[-1]], offsets - offsets[0])


# Words as people have them --------------------------------------------------------------------------------------------


def as_words(words: Any, *, blank_missing: bool = False, what: str = "word") -> list[str]:
    """Return words as a list of str: from any iterable, NumPy array, pandas or Arrow column.

    Missing words (None, NaN, pandas.NA) are an error, or "" with `blank_missing`. Errors call a word `what`.
    """
    if isinstance(words, str):
        raise InputError(f"expected a list of {what}s, got one string: {reprlib.repr(words)}; put it in a list")
    if isinstance(words, BYTES):
        raise InputError(f"expected {what}s (str), got {type(words).__name__}; {DECODE}")
    if getattr(words, "ndim", 1) != 1:  # as for a pandas DataFrame, which would be its columns' names
        raise InputError(f"expected a one-dimensional array of {what}s, got shape {words.shape}")
    if hasattr(words, "to_pylist"):  # Arrow arrays and chunked arrays
        words = words.to_pylist()
    elif hasattr(words, "tolist"):  # NumPy arrays, pandas series and indexes
        words = words.tolist()
    elif not isinstance(words, Iterable):
        raise InputError(f"expected {what}s (a list or column of str), got {type(words).__name__}")
    result: list[str] = list(words)
    if set(map(type, result)) <= {str}:
        return result
    for position, word in enumerate(result):
        if is_missing(word):
            if not blank_missing:
                raise MissingWord(f"{what} {position} is missing ({word!r}); drop such {what}s")
            result[position] = ""
        elif not isinstance(word, str):
            shown = " ".join(reprlib.repr(word).split())  # in one line, even for arrays
            advice = f"; {DECODE}" if isinstance(word, BYTES) else ""
            raise InputError(f"{what} {position} is not a str but {type(word).__name__}: {shown}{advice}")
    return [str(word) for word in result]  # subclasses of str (NumPy's str_)


def one_or_many(words: Any, missing: Missing = "error") -> tuple[list[str], bool, list[int]]:
    """Return one word or many as a list, whether it is one, and which are missing; in place of these are spaces."""
    if not isinstance(missing, str) or missing != "error":
        check_choice("missing", missing, MISSING)
    if one := isinstance(words, str):
        many = [words]
    else:
        one = not isinstance(words, list) and is_missing(words)
        many = as_words([words] if one else words, blank_missing=missing != "error")
    blank = [] if missing == "error" else [at for at, word in enumerate(many) if not word]
    return [word or " " for word in many] if blank else many, one, blank


def is_missing(word: Any) -> bool:
    """Return whether a value stands for a missing word: None, NaN, pandas.NA or NaT, numpy.ma.masked."""
    kinds = "NAType", "NaTType", "MaskedConstant"
    return word is None or type(word).__name__ in kinds or (isinstance(word, float) and word != word)


# Words as the index reads them ----------------------------------------------------------------------------------------


def normalize(words: list[str], form: str) -> list[str]:
    """Bring words to one Unicode form: NFC or NFKC, in lower case or case-folded for "lower" and "casefold".

    Python lowers İ to two characters, an i and a dot above; here it becomes a plain i.

    >>> normalize(["Straße", "İstanbul"], "lower"), normalize(["Straße"], "casefold")
    (['straße', 'istanbul'], ['strasse'])
    """
    if form == "lower":
        words = [word.replace("İ", "i").lower() for word in words]
    elif form == "casefold":
        words = [word.casefold() for word in words]
    if form == "none" or "".join(words).isascii():  # ASCII is in all forms already
        return words
    return [unicodedata.normalize("NFKC" if form == "NFKC" else "NFC", word) for word in words]


def lower(word: str) -> str:
    """Return one word as `normalize` lowers it."""
    return normalize([word], "lower")[0]


def first_of_equal(words: list[str], form: str) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return words in one Unicode form, of equal ones only the first, and their positions.

    >>> first_of_equal(["low", "High", "LOW"], "lower")
    (['low', 'high'], array([0, 1]))
    """
    first: dict[str, int] = {}
    for position, word in enumerate(normalize(words, form)):
        first.setdefault(word, position)
    return list(first), np.fromiter(first.values(), np.int64, len(first))


class Translation(dict[int, str]):
    """A table for str.translate: what a function makes of each character, computed when it is first needed."""

    def __init__(self, function: Callable[[str], str]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, code: int) -> str:
        self[code] = self._function(chr(code))
        return self[code]


def separates(character: str) -> bool:
    """Return whether a character separates the parts of a word: punctuation, a symbol or a space."""
    return unicodedata.category(character)[0] in "PSZ"


INNER_MARKS = Translation(lambda character: f"{RIGHT}{character}{LEFT}" if separates(character) else character)


def mark_inside(words: list[str], spelling: Spelling) -> list[str]:
    """Write the marks of words around the separators inside them."""
    if not spelling.inner_boundaries or "".join(words).isalnum():
        return words
    return [word if word.isalnum() else word.translate(INNER_MARKS) for word in words]


def mark(words: list[str], spelling: Spelling) -> list[str]:
    """Write the boundary marks of words; `kernels.paths.count_letters` finds them again.

    >>> mark(["x-ray", "art"], Spelling(boundaries=True, inner_boundaries=True))
    ['<x>-<ray>', '<art>']
    """
    return [f"{LEFT}{word}{RIGHT}" for word in mark_inside(words, spelling)] if spelling.boundaries else words


def encode(words: list[str], spelling: Spelling, first: int = 0) -> Codes:
    """Return normalized words as code points, with their marks; errors count words from `first`."""
    if "" in words:
        raise MissingWord(f"word {first + words.index('')} is an empty string; drop such words")
    inner, n_marks = mark_inside(words, spelling), 2 if spelling.boundaries else 0
    text = f"{LEFT}{f'{RIGHT}{LEFT}'.join(inner)}{RIGHT}" if n_marks and inner else "".join(inner)
    try:
        codes = np.frombuffer(text.encode("utf-32-le"), "<u4").astype(np.uint32, copy=False)
    except UnicodeEncodeError:
        odd, word, found = next((at, word, s) for at, word in enumerate(words, first) if (s := SURROGATE.search(word)))
        raise InputError(
            f"word {odd} ({word!a}) has a lone surrogate, U+{ord(found[0]):04X}, at {found.start()}, which is not a "
            "character; decode the text with its right encoding, or drop the word"
        ) from None
    if codes.size > MOST_CHARACTERS and (longest := n_marks + max(map(len, inner))) > MOST_CHARACTERS:
        raise InputError(f"a word of {longest:,} characters is too long; the limit is {MOST_CHARACTERS:,}")
    return Codes(codes, offsets_of_one(codes.size) if len(words) == 1 else offsets_of(inner, n_marks))


def offsets_of(strings: list[Any], more: int = 0) -> npt.NDArray[np.int64]:
    """Return where each of many strings, each longer by `more`, starts and ends when they are joined."""
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    return np.concatenate([[0], np.cumsum(lengths + more)])


@functools.lru_cache(maxsize=256)
def offsets_of_one(length: int) -> npt.NDArray[np.int64]:
    """Return the offsets of a single word; cached, because this is half the time of encoding one."""
    return np.array([0, length])


# Strings in model files -----------------------------------------------------------------------------------------------


def pack_strings(words: list[str]) -> PackedStrings:
    """Pack strings as UTF-8 bytes and offsets (uint32 if they fit), as model files store them."""
    encoded = [word.encode() for word in words]
    offsets = offsets_of(encoded)
    dtype = np.uint32 if offsets[-1] < 2**32 else np.int64
    return np.frombuffer(b"".join(encoded), np.uint8), offsets.astype(dtype)


def unpack_strings(data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> list[str]:
    """Undo `pack_strings`."""
    content = data.tobytes()
    return [content[start:end].decode() for start, end in itertools.pairwise(offsets.tolist())]
