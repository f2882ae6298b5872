"""Files of word pairs and their scores: any benchmark of word similarity, published or your own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from pbos.errors import FormatError
from pbos.files.paths import PathLike, plain_suffix, read_lines
from pbos.tables.counts import at_commas, at_tabs, is_name, is_number
from pbos.tables.formats import FORMATS

Pair = tuple[str, str, float]  # two words and how similar people find them

SAMPLE = 100  # lines inspected to find a file's columns


def read_pairs(path: PathLike, *, encoding: str = "UTF-8") -> list[Pair]:
    """Read word pairs and their scores: three columns, separated by tabs, commas or spaces; a header is optional.

    The score is the first numeric column after the two words. White space around words is dropped.

    Args:
        path: The file, perhaps compressed; any line ending works.
        encoding: What to try if the file is not UTF-8.
    """
    if any(plain_suffix(path) in format.suffixes for name, format in FORMATS.items() if name != "word2vec"):
        raise vectors_given(path)
    lines = read_lines(path, encodings=tuple(dict.fromkeys(("UTF-8", encoding))))
    split = likely_split([text for _, text in lines[:SAMPLE]])
    rows = [(number, [field.strip() for field in split(text)]) for number, text in lines]
    sample = [fields for _, fields in rows[:SAMPLE]]
    if is_common(len(fields) > 3 and all(map(is_number, fields[1:])) for fields in sample):
        raise vectors_given(path)
    column = likely_score_column(sample)
    first = rows[0][1]
    if len(rows) > 1 and len(first) > column and is_name(first[column]):
        rows = rows[1:]
    for number, fields in rows:
        if len(fields) <= column or not all(fields[:2]) or not is_number(fields[column]):
            raise FormatError(
                f"{os.fspath(path)}, line {number}: expected two words and a score, got: {' | '.join(fields)[:80]!r}; "
                "separate them by tabs, commas or spaces, the same in every line"
            )
    return [(fields[0], fields[1], float(fields[column])) for _, fields in rows]


def vectors_given(path: PathLike) -> FormatError:
    """Return the error about vectors in place of pairs."""
    return FormatError(
        f"{os.fspath(path)}: these look like word vectors, not pairs of words and their scores; "
        "to evaluate vectors, give them with --targets"
    )


def likely_split(lines: list[str]) -> Callable[[str], list[str]]:
    """Find the separator: the first of tabs, commas and white space that gives most lines a number after two words."""
    for split in (at_tabs, at_commas):
        if is_common(any(map(is_number, split(line)[2:])) for line in lines):
            return split
    return str.split


def likely_score_column(rows: list[list[str]]) -> int:
    """Find the first column after the two words that is a number in most rows; 2 if there is none."""
    columns = range(2, max(map(len, rows)))
    return next((at for at in columns if is_common(len(row) > at and is_number(row[at]) for row in rows)), 2)


def is_common(found: Iterable[bool]) -> bool:
    """Return whether something holds for at least half of the lines."""
    values = list(found)
    return 2 * sum(values) >= len(values)
