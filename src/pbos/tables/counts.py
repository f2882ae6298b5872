"""Word counts from files, mappings, languages or the order of words. docs/files.md lists what files may contain."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError, MissingExtraError, warn
from pbos.files.atomic import write_whole
from pbos.files.paths import PathLike, is_remote, plain_suffix, read_lines, to_local_path
from pbos.settings import FORMS, check_choice
from pbos.words.arrays import has_masked
from pbos.words.readonly import ReadOnlyList
from pbos.words.text import as_words, normalize

SAMPLE = 100  # lines inspected to detect the format
MOST = 1e300  # what all counts may sum to, so that sums over the subwords of words are finite too
LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)?")
COLUMNS = (  # names of those with the words and the counts
    ("word", "words", "token", "form", "wordform", "lemma", "term", "type", "ngram"),
    ("count", "counts", "freq", "frequency", "n", "occurrences"),
)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class WordCounts:
    """Words and their counts, in the order given. The counts of equal words are added up. All is read-only.

    Attributes:
        words: The words.
        counts: How often each occurs, float64 (n_words,).

    >>> list(WordCounts(["high", "low", "high"], [3, 2, 1]))
    [('high', 4.0), ('low', 2.0)]
    """

    words: list[str]
    counts: npt.NDArray[np.float64]

    def __init__(self, words: Iterable[str], counts: npt.ArrayLike) -> None:
        if has_masked(counts):
            raise InputError("some counts are masked; fill them in, or leave out these words")
        words, given = as_words(words), np.asarray(counts)
        if given.ndim != 1 or (given.dtype.kind not in "fiu" and given.size):
            raise InputError(f"counts must be a list of numbers, got shape {given.shape} and dtype {given.dtype}")
        numbers = given.astype(np.float64)
        if len(words) != len(numbers):
            raise InputError(f"{len(words)} words but {len(numbers)} counts; each word needs one")
        good = (numbers >= 0) & (numbers < np.inf)
        if not good.all():
            row = int(np.argmin(good))
            raise InputError(f"the count of {words[row]!r} is {numbers[row]}; expected a finite number, zero or more")
        if (numbers / MOST).sum() > 1:
            raise InputError(f"the counts sum to more than {MOST:g}; divide all of them by the same number")
        row_of: dict[str, int] = {}
        rows = [row_of.setdefault(word, len(row_of)) for word in words]
        totals = np.bincount(rows, numbers)
        if "" in row_of:
            warn(f"word counts: dropped the empty word and its count of {totals[row_of['']]:g}")
            totals = np.delete(totals, row_of.pop(""))
        if not totals.any():
            raise InputError("no word has a count above zero; pass the counts of at least one word")
        totals.flags.writeable = False
        object.__setattr__(self, "words", ReadOnlyList(row_of))
        object.__setattr__(self, "counts", totals)

    def __reduce__(self) -> tuple[Any, ...]:
        return WordCounts, (self.words, self.counts)

    @classmethod
    def of(cls, source: Any) -> WordCounts:
        """Convert a path or URL, a mapping, or a language code such as "en".

        >>> WordCounts.of({"high": 3, "low": 2})
        WordCounts(2 words)
        """
        if isinstance(source, WordCounts):
            return source
        if isinstance(source, Mapping):
            return cls.from_mapping(source)
        if isinstance(source, str) and not is_remote(source):
            if LANGUAGE.fullmatch(source) and not to_local_path(source).is_file():
                return cls.from_language(source)
            if not to_local_path(source).exists():
                raise InputError(f"{source!r} is neither a file of counts nor a language code such as 'en'")
        if isinstance(source, (str, os.PathLike)):
            return cls.read(source)
        raise InputError(
            f"word counts cannot be made from {type(source).__name__}; "
            "pass a path, a mapping from words to counts, or a language code such as 'en'"
        )

    @classmethod
    def read(cls, path: PathLike) -> WordCounts:
        """Read a text file of words and counts: comma-, tab- or space-separated; possibly compressed."""
        found = read_counts(path)
        try:
            return cls(*found)
        except InputError as error:
            raise FormatError(f"{path}: {error}") from None

    @classmethod
    def from_mapping(cls, counts: Mapping[str, float]) -> WordCounts:
        """Use the counts of a mapping such as `collections.Counter`."""
        return cls(list(counts), list(counts.values()))

    @classmethod
    def from_language(cls, code: str) -> WordCounts:
        """Use the wordfreq library's frequencies for a language ("en", "pt-br"), from its largest list."""
        try:
            import wordfreq
        except ImportError:
            raise MissingExtraError("counts for a language", "wordfreq") from None
        known = wordfreq.available_languages(wordlist="best")
        language = code.partition("-")[0]  # wordfreq itself would silently use a related language instead
        if language not in known:
            raise InputError(f"no counts for the language {code!r}; choose one of: {', '.join(sorted(known))}")
        return cls.from_mapping(wordfreq.get_frequency_dict(language, wordlist="best"))

    @classmethod
    def from_ranks(cls, words: Iterable[str]) -> WordCounts:
        """Estimate counts from the order, most frequent first, by Zipf's law: 1, 1/2, 1/3, ...

        >>> WordCounts.from_ranks(["the", "of"]).counts
        array([1. , 0.5])
        """
        ranked = as_words(words)
        return cls(ranked, 1 / np.arange(1, len(ranked) + 1))

    def write(self, path: PathLike) -> None:
        """Write a word, a tab and its count per line, or CSV if the suffix is .csv; a second suffix compresses."""
        check_name(path)
        if odd := next(filter(re.compile(r"[\t\r\n]").search, self.words), None):
            raise InputError(f"the word {odd!r} cannot be written to a file of counts; change it")
        is_csv = plain_suffix(path) == ".csv"
        with write_whole(path) as stream:
            stream.write(b"word,count\n" if is_csv else b"word\tcount\n")
            for word, count in self:
                field = '"{}",'.format(word.replace('"', '""')) if is_csv else f"{word}\t"
                stream.write(f"{field}{count:.17g}\n".encode())

    def normalized(self, form: str) -> WordCounts:
        """Normalize the words and add up the counts of words that become the same.

        >>> list(WordCounts(["High", "high"], [1, 2]).normalized("casefold"))
        [('high', 3.0)]
        """
        check_choice("normalization", form, FORMS)
        return WordCounts(normalize(self.words, form), self.counts)

    def of_words(self, words: list[str]) -> npt.NDArray[np.float64]:
        """Return the count of each word; 0 for a word that the table does not have."""
        known = dict(zip(self.words, self.counts.tolist(), strict=True))
        return np.array([known.get(word, 0.0) for word in words])

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(zip(self.words, self.counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"WordCounts({len(self)} words)"


def check_name(path: PathLike) -> None:
    """Raise InputError if the name of a file of counts is that of another format; a pipe has no suffix."""
    suffix = plain_suffix(path)
    if suffix not in (".tsv", ".csv", ".txt", ""):
        raise InputError(f"{path}: counts cannot be written as {suffix}; name the file .tsv or .csv")


def read_counts(path: PathLike) -> tuple[list[str], list[float]]:
    """Read words and counts. The separator is the one that splits most of the first lines into a word and a number."""
    lines = read_lines(path)
    sample = [text for _, text in lines[:SAMPLE]]
    split = max((at_tabs, at_commas, at_spaces), key=lambda split: sum(map(is_row, map(split, sample))))
    rows = list(map(split, sample))
    names = [name.strip(" \t").casefold() for name in rows[0]]
    has_header = len(names) >= 2 and all(map(is_name, names[:2]))
    word_at, count_at = (next((at for at, name in enumerate(names) if name in known), -1) for known in COLUMNS)
    if not has_header or -1 in (word_at, count_at):  # the first two columns, or those of `uniq -c`: more numbers first
        first, second = (sum(len(row) == 2 and is_number(row[at]) for row in rows[has_header:]) for at in (0, 1))
        word_at, count_at = (1, 0) if first > second else (0, 1)
    words, counts = list[str](), list[float]()
    for line, text in lines[has_header:]:
        fields = split(text)
        if len(fields) <= max(word_at, count_at):  # further columns are ignored
            raise FormatError(
                f"{path}, line {line}: expected a word and its count, got: {text[:80]!r}; "
                "separate them with a tab or a comma, the same on every line, and close quotes"
            )
        word, count = fields[word_at].strip(" \t"), fields[count_at]
        if is_name(count) or not 0 <= float(count) < math.inf:
            raise FormatError(
                f"{path}, line {line}: the count of {word!r} is {count!r}; expected a finite number, zero "
                "or more; if the words and counts are in other columns, add a header line: word,count"
            )
        words.append(word)
        counts.append(float(count))
    return words, counts


def at_tabs(line: str) -> list[str]:
    """Split at tabs; quotes have no special meaning."""
    return line.split("\t")


def at_commas(line: str) -> list[str]:
    """Split at commas outside of quotes; a line with an unclosed quote stays one field."""
    if '"' not in line:  # nearly all lines; the reader is slower
        return line.split(",")
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        return [line]


def at_spaces(line: str) -> list[str]:
    """Split at runs of spaces and tabs; a line of more than two fields stays one."""
    fields = re.findall(r"[^ \t]+", line)
    return fields if len(fields) <= 2 else [line]


def is_row(fields: list[str]) -> bool:
    """Return whether fields are a word and a number, in any order; more may follow."""
    return len(fields) >= 2 and all(fields[:2]) and any(map(is_number, fields))


def is_number(field: str) -> bool:
    """Return whether a field is a finite number; "nan" and "inf" are words."""
    return not is_name(field) and math.isfinite(float(field))


def is_name(field: str) -> bool:
    """Return whether a field of a header is a name, and not a number, NaN or infinity."""
    try:
        float(field)
        return False
    except ValueError:
        return True
