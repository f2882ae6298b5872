"""How a word is read: in the Unicode form of the model and, if the model does not know it, in a form that it knows."""

from __future__ import annotations

import itertools
import re
import string
import unicodedata
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from pbos.settings import Spelling
from pbos.words.text import Translation, lower, normalize, separates

AnySpelling = TypeVar("AnySpelling", bound=Spelling)
FEW = 0.01  # a table in which fewer words than this share have capitals, or accents, does not use them
PREFIX = re.compile(r"(?:https?://(?:www\.)?|[#@]+)+")  # of web addresses, hashtags and user names
MARGIN = 8.0  # a given case stays unless another is e^8 (about 3,000) times as probable
LONGEST_JOIN = 3  # parts of a word in CamelCase that can be one known word, as You and Tube are
LOOKALIKES = {  # what Unicode does not decompose
    **{"Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o", "Ł": "L", "ł": "l", "Đ": "D", "đ": "d"},
    **{"Ð": "D", "ð": "d", "Þ": "Th", "þ": "th", "ß": "ss", "ı": "i", "’": "'", "‐": "-", "–": "-", " ": "_"},
}


def without_accents(text: str) -> str:
    """Return a text in base letters: without accents, ligatures and invisible characters.

    >>> without_accents("Łódź"), without_accents("ﬁancée")
    ('Lodz', 'fiancee')
    """
    plain = unicodedata.normalize("NFKD", "".join(LOOKALIKES.get(character, character) for character in text))
    return unicodedata.normalize("NFC", "".join(c for c in plain if unicodedata.category(c) not in ("Mn", "Cf")))


def tidy(text: str) -> str:
    """Return a text with single spaces, and without a prefix such as that of a hashtag.

    >>> tidy(" #new  york ")
    'new york'
    """
    text = " ".join(text.split())
    return PREFIX.sub("", text, 1) if PREFIX.match(text) else text


def has_accent(character: str) -> bool:
    """Return whether a character is a combining mark, or a letter with one."""
    return any(unicodedata.category(part) == "Mn" for part in unicodedata.normalize("NFD", character))


def resolved(spelling: AnySpelling, words: Collection[str]) -> AnySpelling:
    """Return a spelling in which "auto" is replaced by what fits the words of a table.

    >>> resolved(Spelling("auto", fallback="auto"), ["berlin", "house"]).normalization
    'lower'
    >>> resolved(Spelling("auto", fallback="auto"), ["Berlin", "house"]).normalization
    'NFC'
    """
    if spelling.normalization == "auto":
        cased = [word for word in words if word.lower() != word.upper()]
        capitals = sum(word != word.lower() for word in cased)
        spelling = replace(spelling, normalization="NFC" if capitals > FEW * len(cased) else "lower")
    if spelling.fallback == "auto":
        accents = set(filter(has_accent, set().union(*words)))
        accented = sum(not accents.isdisjoint(word) for word in words)
        spelling = replace(spelling, fallback="case" if accented > FEW * len(words) else "accents")
    return spelling


class Reader:
    """Reads words as a model knows them.

    A training word is read as it is. With `fallback`, any other word is read as a training word if it differs from one
    only in case, in characters never seen or, where the table has few of them, in accents. Otherwise its parts are
    read so; a part without a known form gets the most probable case.
    """

    def __init__(
        self,
        spelling: Spelling,
        alphabet: Iterable[int],
        find_words: Callable[[], Collection[str]],
        log_probability: Callable[[str], float],
    ) -> None:
        """Keep what is needed.

        Args:
            spelling: The normalization and the fallback.
            alphabet: The code points seen in training.
            find_words: Returns the training words; called only for words that need it.
            log_probability: Returns how probable a spelling is.
        """
        self._form, self._fallback = spelling.normalization, spelling.fallback
        self._code_points, self._find_words, self._log_probability = alphabet, find_words, log_probability

    @cached_property
    def _alphabet(self) -> frozenset[str]:
        return frozenset(chr(code) for code in self._code_points)

    @cached_property
    def _seen(self) -> Translation:
        """Replaces characters never seen: by lower case or base letters that were seen."""
        alphabet = self._alphabet

        def seen_form(character: str) -> str:
            plain = without_accents(character)
            forms = (character, character.lower(), plain, plain.lower())
            return next((form for form in forms if alphabet.issuperset(form)), character)

        return Translation(seen_form)

    @cached_property
    def _find_odd(self) -> Callable[[str], re.Match[str] | None]:
        """Finds characters that may be read otherwise: never seen, capitals, spaces, accents, those of a PREFIX."""
        usual = {*self._alphabet, *string.ascii_letters, *string.digits, *string.punctuation} - set("#@:")
        plain = {c for c in usual if self._seen[ord(c)] == c == c.lower() and not c.isspace()}
        if self._fallback == "accents":
            plain = {c for c in plain if c.isascii() or c == without_accents(c)}
        return re.compile(f"[^{re.escape(''.join(plain))}]" if plain else ".").search

    @cached_property
    def _capitalized(self) -> dict[str, str]:
        """The first training word of each lower-case form that is not a training word itself."""
        if self._form in ("lower", "casefold"):
            return {}
        words = self._find_words()
        capitalized = [(lower(word), word) for word in reversed(list(words)) if word != word.lower()]
        return {form: word for form, word in capitalized if form not in words}

    def read(self, words: list[str]) -> list[str]:
        """Return words as the model knows them; plain words take next to no time."""
        if self._fallback == "none":
            return normalize(words, self._form)
        words = normalize(words, "NFC" if self._form == "lower" else self._form)
        find_odd, capitalized = self._find_odd, self._capitalized
        if find_odd("".join(words)):
            return [self._read_odd(word) if find_odd(word) else capitalized.get(word, word) for word in words]
        return [capitalized.get(word, word) for word in words] if capitalized else words

    def _read_odd(self, word: str) -> str:
        """Return a word as the model knows it, or else with its parts as the model knows them."""
        if word in self._find_words():
            return word
        turkish = "I" in word and "ı" in self._alphabet
        if self._form == "lower" and (word.istitle() or word.isupper()) and not turkish:
            word = lower(word)
            if not self._find_odd(word):
                return word  # it has no other form
        text = tidy(word)
        known = self._known(word) or (self._known(text) if text != word else None)
        if known or not text:
            return known or word
        runs = itertools.groupby(text, separates)
        parts = ["".join(run) if separator else self._part("".join(run)) for separator, run in runs]
        read = tidy("".join(parts).translate(self._seen))
        if self._alphabet.isdisjoint(read):  # nothing in it is known
            return normalize([word], self._form)[0]
        return self._known(read) or read

    def _part(self, part: str) -> str:
        """Return one part of a word: known, known words in CamelCase, or in its most probable case."""
        if part == lower(part):
            return part
        if read := self._known(part) or self._known_camels(part):
            return read
        given, *others = dict.fromkeys(self._forms(part))
        other = max(others, key=self._log_probability, default=given)
        return other if self._log_probability(other) > self._log_probability(given) + MARGIN else given

    def _known(self, word: str) -> str | None:
        """Return the training word that a word stands for."""
        words = self._find_words()
        given = lower(word) if self._form == "lower" else word
        if given in words:
            return given
        forms = self._forms(word)
        if self._fallback == "accents":
            forms.append(without_accents(lower(word)))
        for form in forms:
            if form in words:
                return form
            if form in self._capitalized:
                return self._capitalized[form]
        return None

    def _forms(self, word: str) -> list[str]:
        """Return the forms that a word can have, in characters that were seen."""
        forms = [lower(word)]
        if "I" in word and "ı" in self._alphabet:  # Turkish
            forms.insert(0, lower(word.replace("I", "ı")))
        if self._form != "lower":
            forms = [word, *forms, *([word.capitalize()] if word.isupper() else [])]
        return [form.translate(self._seen) for form in forms]

    def _known_camels(self, word: str) -> str | None:
        """Return the words in CamelCase with spaces between them, if all are known.

        Neighbors that are one known word stay together, so iPhoneCase is iphone case.
        """
        cuts = [at for at in range(1, len(word)) if word[at - 1].islower() and word[at].isupper()]
        if not cuts:
            return None
        pieces = [word[first:last] for first, last in itertools.pairwise([0, *cuts, len(word)])]
        found: list[str] = []
        at = 0
        while at < len(pieces):
            ends = range(min(at + LONGEST_JOIN, len(pieces)), at, -1)
            joins = (("".join(pieces[at:end]), end) for end in ends)
            known, at = next(((known, end) for join, end in joins if (known := self._known(join))), ("", 0))
            if not known:
                return None
            found.append(known)
        return " ".join(found)
