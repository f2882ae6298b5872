"""Word counts: from files, mappings, languages or the mere order of words.

In reading order: the class people hold, the checks every source goes through, reading files. What is met in files and
what happens then is tabled in docs/files.md.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError, MissingExtraError
from pbos.files import open_bytes, warn
from pbos.text import as_words, normalize

PathLike = str | os.PathLike[str]
Line = tuple[int, str]  # its number, from 1, and its text
Row = tuple[int, str, Any]  # the number of its line, the word, and the count as it was met
Split = Callable[[str], list[str]]

SAMPLE = 100  # lines looked at to find out what a file is
LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)?")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
WORD_NAMES = ("word", "words", "token", "form", "wordform", "lemma", "term", "type", "ngram")
COUNT_NAMES = ("count", "counts", "freq", "frequency", "n", "occurrences")


@dataclass(frozen=True, eq=False, repr=False)
class WordCounts:
    """Words and how often each occurs, in the order given; a word met again adds to its count.

    Attributes:
        words: The words, each once.
        counts: How often each occurs, float64 (n_words,).

    >>> list(WordCounts(["high", "low", "high"], [3, 2, 1]))
    [('high', 4.0), ('low', 2.0)]
    """

    words: list[str]
    counts: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        words, counts = added_up(as_words(self.words), as_counts(self.counts))
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def of(cls, source: Any) -> WordCounts:
        """Take counts as people have them: a path, a mapping, a language code such as "en", or ready ones.

        >>> WordCounts.of({"high": 3, "low": 2})
        WordCounts(2 words)
        """
        if isinstance(source, WordCounts):
            return source
        if isinstance(source, Mapping):
            return cls.from_mapping(source)
        if isinstance(source, str) and (not Path(source).exists() or Path(source).is_dir()):
            if LANGUAGE.fullmatch(source):
                return cls.from_language(source)
            raise InputError(f"no such file of counts: {source!r}; it is no language code such as 'en' either")
        if isinstance(source, (str, os.PathLike)):
            return cls.read(source)
        raise InputError(
            f"word counts cannot be made from {type(source).__name__}; "
            "pass a path, a mapping from words to counts, or a language code such as 'en'"
        )

    @classmethod
    def read(cls, path: PathLike) -> WordCounts:
        """Read a text file of words and counts: comma-, tab- or space-separated, or JSON lines; perhaps compressed."""
        words, counts = read_counts(path)
        return cls(words, np.array(counts))

    @classmethod
    def from_mapping(cls, counts: Mapping[str, float]) -> WordCounts:
        """Take the counts of a mapping such as `collections.Counter`."""
        return cls(list(counts), np.array(list(counts.values())))

    @classmethod
    def from_language(cls, code: str) -> WordCounts:
        """Take the frequencies the wordfreq library has for a language ("en", "pt-br"), from its largest list."""
        try:
            import wordfreq
        except ImportError:
            raise MissingExtraError("counts for a language", "wordfreq") from None
        known = wordfreq.available_languages(wordlist="best")
        language = code.partition("-")[0]  # not left to wordfreq, which takes a neighbouring language without a word
        if language not in known:
            raise InputError(f"no counts for the language {code!r}; choose one of: {', '.join(sorted(known))}")
        return cls.from_mapping(wordfreq.get_frequency_dict(language, wordlist="best"))

    @classmethod
    def from_ranks(cls, words: Iterable[str]) -> WordCounts:
        """Guess counts from the order, most frequent first, by Zipf's law: 1, 1/2, 1/3, ...

        >>> WordCounts.from_ranks(["the", "of"]).counts
        array([1. , 0.5])
        """
        ranked = as_words(words)
        return cls(ranked, 1 / np.arange(1, len(ranked) + 1))

    def normalized(self, form: str) -> WordCounts:
        """Bring the words to one Unicode form and add up those that become equal.

        >>> list(WordCounts(["High", "high"], [1, 2]).normalized("casefold"))
        [('high', 3.0)]
        """
        return WordCounts(normalize(self.words, form), self.counts)

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(zip(self.words, self.counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"WordCounts({len(self)} words)"


# Checks ---------------------------------------------------------------------------------------------------------------


def as_counts(values: Any) -> npt.NDArray[np.float64]:
    """Turn a list or array of real numbers into float64."""
    counts = np.asarray(values)
    if counts.ndim != 1 or (counts.dtype.kind not in "fiu" and counts.size):
        raise InputError(f"counts need to be a list of numbers, got shape {counts.shape} and dtype {counts.dtype}")
    return counts.astype(np.float64)


def added_up(words: list[str], counts: npt.NDArray[np.float64]) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Check counts, drop empty words and add up the counts of equal ones."""
    if len(words) != len(counts):
        raise InputError(f"{len(words)} words but {len(counts)} counts; there has to be one for each")
    good = (counts >= 0) & (counts < np.inf)
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(f"the count of {words[row]!r} is {counts[row]}; expected a finite number, zero or more")
    if not counts.any():
        raise InputError("no word has a count above zero; pass the counts of at least one word")
    unique = set(words)
    if len(unique) == len(words) and "" not in unique:
        return words, counts
    rows: dict[str, int] = {}
    row_of = np.array([rows.setdefault(word, len(rows)) for word in words])
    totals = np.zeros(len(rows))
    np.add.at(totals, row_of, counts)
    if "" in rows:
        warn(f"word counts: the empty word dropped, with its count of {totals[rows['']]:g}")
        totals = np.delete(totals, rows.pop(""))
    return list(rows), totals


# Reading --------------------------------------------------------------------------------------------------------------


def read_counts(path: PathLike) -> tuple[list[str], list[float]]:
    """Read words and counts; lines with an empty word are dropped."""
    lines = read_lines(path)
    words, counts, empty = [], [], []
    for line, word, count in json_rows(path, lines) if is_json(lines) else table_rows(path, lines):
        value = as_float(count)
        if not 0 <= value < math.inf:
            raise FormatError(
                f"{path}, line {line}: the count of {word!r} is {count!r}; expected a finite number, zero or more"
            )
        if word:
            words.append(word)
            counts.append(value)
        else:
            empty.append(line)
    if empty:
        lines_are = "line" if len(empty) == 1 else "lines"
        warn(f"{path}: {len(empty)} {lines_are} with an empty word dropped (first: line {empty[0]})")
    if not any(counts):
        raise FormatError(f"{path}: no word has a count above zero; expected a word and its count in each line")
    return words, counts


def as_float(value: str | float) -> float:
    """Turn a field into a number, NaN where it is none."""
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def read_lines(path: PathLike) -> list[Line]:
    """Read the lines that are not blank; they end in newline, carriage return or both, and in nothing else."""
    with open_bytes(path) as stream:
        data = stream.read().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{path}, line {line}: the byte 0x{data[error.start]:02x} is not UTF-8; convert the file to UTF-8"
        ) from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip(" \t")]
    if not lines:
        raise FormatError(f"{path}: the file is empty; expected a word and its count in each line")
    return lines


def is_json(lines: list[Line]) -> bool:
    """Tell JSON lines by the first one; a word may well be a bracket, so it has to parse."""
    try:
        return isinstance(json.loads(lines[0][1]), (dict, list))
    except ValueError:
        return False


def json_rows(path: PathLike, lines: list[Line]) -> Iterator[Row]:
    """Read lines such as {"word": "the", "count": 5} or ["the", 5]."""
    for line, text in lines:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise FormatError(f"{path}, line {line}: no JSON ({error}), though the first line is") from None
        if isinstance(value, dict):
            names = [next((name for name in names if name in value), None) for names in (WORD_NAMES, COUNT_NAMES)]
            value = [value[name] for name in names if name is not None]
        match value:
            case [str() as word, (int() | float()) as count] if not isinstance(count, bool):
                yield line, word.strip(" \t"), count
            case _:
                raise FormatError(
                    f'{path}, line {line}: expected {{"word": "the", "count": 5}} or ["the", 5], got: {text[:80]}'
                )


def table_rows(path: PathLike, lines: list[Line]) -> Iterator[Row]:
    """Read lines of fields; what separates them and which is the count is found from the first lines."""
    split = find_split(path, lines)
    header = split(lines[0][1])
    if len(header) >= 2 and all(map(is_name, header[:2])):
        lines = lines[1:]
    else:
        header = []
    word_at, count_at = named_columns(header) or likely_columns([split(text) for _, text in lines[:SAMPLE]])
    last = max(word_at, count_at)  # further columns do not matter
    for line, text in lines:
        fields = split(text)
        if len(fields) <= last:
            raise FormatError(f"{path}, line {line}: expected a word and its count, got: {text[:80]!r}; {HINTS[split]}")
        yield line, fields[word_at].strip(" \t"), fields[count_at]


def at_tabs(line: str) -> list[str]:
    """Split at tabs; quotes are words like any other."""
    return line.split("\t")


def at_commas(line: str) -> list[str]:
    """Split at commas outside quotes; where a quote is not closed, the line is one field."""
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        return [line]


def at_spaces(line: str) -> list[str]:
    """Split at runs of spaces and tabs (other white space may be a word); what gives more than two stays one field."""
    fields = [field for field in line.replace("\t", " ").split(" ") if field]
    return fields if len(fields) <= 2 else [line]


HINTS: dict[Split, str] = {  # in this order: the first that fits most lines
    at_tabs: "separate them by a tab",
    at_commas: "separate them by a comma, and close each quote",
    at_spaces: "where words hold spaces, separate them from the count by a tab",
}


def find_split(path: PathLike, lines: list[Line]) -> Split:
    """Find the separator: the one that makes a word and a number of most lines."""

    def fits(fields: list[str]) -> bool:
        return len(fields) >= 2 and all(fields[:2]) and any(map(is_number, fields))

    votes = {split: sum(fits(split(text)) for _, text in lines[:SAMPLE]) for split in HINTS}
    if not any(votes.values()):
        line, text = lines[0]
        raise FormatError(
            f"{path}, line {line}: expected a word and its count, got: {text[:80]!r}; "
            "separate them by a tab, a comma or spaces"
        )
    return max(votes, key=lambda split: votes[split])


def named_columns(header: list[str]) -> tuple[int, int] | None:
    """Find the columns of the words and the counts by name."""
    names = [name.strip(" \t").casefold() for name in header]
    word_at = [at for at, name in enumerate(names) if name in WORD_NAMES]
    count_at = [at for at, name in enumerate(names) if name in COUNT_NAMES]
    return (word_at[0], count_at[0]) if word_at and count_at else None


def likely_columns(rows: list[list[str]]) -> tuple[int, int]:
    """Tell "the 5" from "5 the", as uniq -c writes: the counts are where more numbers are; words may be numbers."""
    first, second = (sum(is_number(field) for row in rows for field in row[at : at + 1]) for at in (0, 1))
    return (1, 0) if first > second else (0, 1)


def is_number(field: str) -> bool:
    """Tell plain finite numbers from words; "nan" and "inf" are words."""
    return NUMBER.fullmatch(field.strip(" \t")) is not None


def is_name(field: str) -> bool:
    """Tell the names in a header from whatever may be meant as a number, NaN and infinity among them."""
    return math.isnan(as_float(field)) and field.strip(" \t").casefold() != "nan"
