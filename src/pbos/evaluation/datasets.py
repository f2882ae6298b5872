"""Files of word pairs and their scores: any benchmark of word similarity, published or your own."""

from __future__ import annotations

import os

from pbos.errors import FormatError
from pbos.files.paths import PathLike, read_lines
from pbos.tables.counts import at_commas, at_tabs, is_name, is_number

Pair = tuple[str, str, float]  # two words and how similar people find them

SAMPLE = 100  # lines inspected to find a file's columns


def read_pairs(path: PathLike, *, encoding: str = "UTF-8") -> list[Pair]:
    """Read word pairs and their scores: three columns, separated by tabs, commas or spaces; a header is optional.

    The score is the first numeric column after the two words. White space around words is dropped.

    Args:
        path: The file, perhaps compressed; any line ending works.
        encoding: What to try if the file is not UTF-8.
    """
    lines = read_lines(path, encodings=tuple(dict.fromkeys(("UTF-8", encoding))))
    for split in (at_tabs, at_commas, str.split):
        rows = [(number, [field.strip() for field in split(text)]) for number, text in lines]
        numbers = [at for _, fields in rows[:SAMPLE] for at in range(2, len(fields)) if is_number(fields[at])]
        if numbers:
            break
    first, last, column = rows[0][1], rows[:SAMPLE][-1][1], min(numbers, default=2)
    if len(last) > 3 and all(map(is_number, last[1:])):
        raise FormatError(
            f"{os.fspath(path)}: these look like word vectors, not pairs of words and their scores; "
            "to evaluate vectors, pass them with --targets"
        )
    if len(rows) > 1 and len(first) > column and is_name(first[column]):
        rows = rows[1:]
    for number, fields in rows:
        if len(fields) <= column or not all(fields[:2]) or not is_number(fields[column]):
            raise FormatError(
                f"{os.fspath(path)}, line {number}: expected two words and a score, got: {' | '.join(fields)[:80]!r}; "
                "separate them with tabs, commas or spaces, the same on every line"
            )
    return [(fields[0], fields[1], float(fields[column])) for _, fields in rows]
