"""How a word that a model does not know is read: in a form that it knows, or else in characters that it knows."""

from __future__ import annotations

import itertools
import re
import string
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from pbos.settings import Spelling
from pbos.words.text import Translation, lower, normalize, separates

AnySpelling = TypeVar("AnySpelling", bound=Spelling)
FEW = 0.01  # a table in which fewer words than this share have capitals, or accents, does not use them
PREFIX = re.compile(r"^(?:https?://(?:www\.)?|[#@]+)+")  # of web addresses, hashtags and user names
MARGIN = 8.0  # a given case stays unless another is e^8 (about 3,000) times as probable
LONGEST_JOIN = 3  # parts of a word in CamelCase that can be one known word, as You and Tube are
ACCENTS = "Mn", "Cf"  # Unicode's categories of combining marks and of invisible characters
LOOKALIKES = str.maketrans(  # what Unicode does not decompose
    {
        **{"Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o", "Ł": "L", "ł": "l", "Đ": "D", "đ": "d"},
        **{"Ð": "D", "ð": "d", "Þ": "Th", "þ": "th", "ß": "ss", "ı": "i", "’": "'", "‐": "-", "–": "-", " ": "_"},
    }
)


def without_accents(text: str) -> str:
    """Return a text in base letters: without accents, ligatures and invisible characters."""
    plain = unicodedata.normalize("NFKD", text.translate(LOOKALIKES))
    return unicodedata.normalize("NFC", "".join([c for c in plain if unicodedata.category(c) not in ACCENTS]))


def tidy(text: str) -> str:
    """Return a text with single spaces, and without a prefix such as that of a hashtag."""
    return PREFIX.sub("", " ".join(text.split()), 1)


def resolved(spelling: AnySpelling, words: Collection[str]) -> AnySpelling:
    """Return a spelling in which "auto" is replaced by what fits the words of a table."""
    if spelling.normalization == "auto":
        cased = [word for word in words if word.lower() != word.upper()]
        capitals = len([word for word in cased if word != word.lower()])
        spelling = replace(spelling, normalization="NFC" if capitals > FEW * len(cased) else "lower")
    if spelling.fallback == "auto":
        decomposed = ((c, map(unicodedata.category, unicodedata.normalize("NFD", c))) for c in set().union(*words))
        accented = {character for character, categories in decomposed if "Mn" in categories}
        n_accented = len([word for word in words if not accented.isdisjoint(word)])
        spelling = replace(spelling, fallback="case" if n_accented > FEW * len(words) else "accents")
    return spelling


class Alphabet:
    """The characters that were seen in training.

    Attributes:
        seen: All of them.
        to_seen: Replaces others, for `str.translate`: by a lower case or by base letters that were seen.
        find_odd: Finds a character in a text that may be read otherwise: never seen, a capital, a space, an accent if
            there are few of them, one of a PREFIX. Words without any are read as they are.
    """

    def __init__(self, characters: Iterable[str], fallback: str) -> None:
        self.seen = frozenset(characters)
        self.to_seen = Translation(self._seen_form)
        usual = {*self.seen, *string.ascii_lowercase, *string.digits, *string.punctuation} - set("#@:")
        plain = [c for c in usual if c == c.lower() and not c.isspace()]
        if fallback == "accents":
            bare = without_accents("\n".join(plain)).split("\n")  # all at once
            plain = [character for character, base in zip(plain, bare, strict=True) if character == base]
        self.find_odd = re.compile(f"[^{re.escape(''.join(plain))}]").search  # there are always digits

    def _seen_form(self, character: str) -> str:
        plain = without_accents(character)
        forms = (character, character.lower(), plain, plain.lower())
        return next((form for form in forms if self.seen.issuperset(form)), character)


class Reader(NamedTuple):
    """Reads words with odd characters as a model knows them.

    A training word is read as it is; another word as a training word from which it differs only in case, in characters
    never seen or, where the table has few, in accents. Or else its parts are read so, or in their most probable case.
    """

    spelling: Spelling
    alphabet: Alphabet
    words: Collection[str]  # the training words
    capitalized: Mapping[str, str]  # the first word with capitals of a form in lower case that is not known itself
    log_probability: Callable[[str], float]  # how probable a spelling is

    def read(self, word: str) -> str:
        """Return a word, or else its parts, as the model knows them."""
        if word in self.words:
            return word
        form = self.spelling.normalization
        if form == "lower" and (word.istitle() or word.isupper()) and not self._is_turkish(word):
            word = lower(word)
            if not self.alphabet.find_odd(word):
                return word  # it has no other form
        text = tidy(word)
        if known := self._known(word) or self._known(text):
            return known
        if not text:
            return word
        runs = itertools.groupby(text, separates)
        parts = ["".join(run) if separator else self._read_part("".join(run)) for separator, run in runs]
        read = tidy("".join(parts).translate(self.alphabet.to_seen))
        if self.alphabet.seen.isdisjoint(read):  # nothing in it is known
            return normalize([word], form)[0]
        return self._known(read) or read

    def _read_part(self, part: str) -> str:
        """Return one part of a word: known, known words in CamelCase, or in its most probable case."""
        if part == lower(part):
            return part
        if read := self._known(part) or self._known_camels(part):
            return read
        given, *others = dict.fromkeys(self._forms(part))
        other = max(others, key=self.log_probability, default=given)
        return other if self.log_probability(other) > self.log_probability(given) + MARGIN else given

    def _known(self, word: str) -> str | None:
        """Return the training word that a word stands for."""
        given = lower(word) if self.spelling.normalization == "lower" else word
        if given in self.words:
            return given
        forms = self._forms(word)
        if self.spelling.fallback == "accents":
            forms.append(without_accents(lower(word)))
        known = (form if form in self.words else self.capitalized.get(form) for form in forms)
        return next(filter(None, known), None)

    def _forms(self, word: str) -> list[str]:
        """Return the forms that a word can have, in characters that were seen."""
        forms = [lower(word)]
        if self._is_turkish(word):
            forms.insert(0, lower(word.replace("I", "ı")))
        if self.spelling.normalization != "lower":
            forms = [word, *forms, *([word.capitalize()] if word.isupper() else [])]
        return [form.translate(self.alphabet.to_seen) for form in forms]

    def _is_turkish(self, word: str) -> bool:
        return "I" in word and "ı" in self.alphabet.seen  # I may be the capital of ı

    def _known_camels(self, word: str) -> str | None:
        """Return the words in CamelCase with spaces between them, if all are known: iPhoneCase is iphone case."""
        cuts = [at for at in range(1, len(word)) if word[at - 1].islower() and word[at].isupper()]
        if not cuts:
            return None
        pieces = [word[first:last] for first, last in itertools.pairwise([0, *cuts, len(word)])]
        found: list[str] = []
        while pieces:
            for n in range(min(LONGEST_JOIN, len(pieces)), 0, -1):
                if known := self._known("".join(pieces[:n])):
                    break
            else:
                return None
            found.append(known)
            del pieces[:n]
        return " ".join(found)
