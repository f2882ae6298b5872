"""What text and binary files share: finding out which of the two a file is, and reading it block by block."""

from __future__ import annotations

import mmap
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError
from pbos.files.atomic import errors_about, reserve
from pbos.files.paths import BOM, PathLike, check_text
from pbos.jobs.progress import Advance
from pbos.settings import MAX_DIMS
from pbos.tables.rows import Rows
from pbos.words.arrays import FloatMatrix

BLOCK = 1 << 21  # bytes read at a time: more than the sample needs, and few enough to stay in the cache
SAMPLE = 100  # lines inspected to detect the format
MANY = 10  # numbers in a line, which no text has after each first word
LONGEST = 64  # bytes of a number in a text, with the space before it

LINE_END = re.compile(rb"\r\n?|\n")
HEADER = re.compile(rb"[ \t\r\n]*(\d{1,20})[ \t]+(\d{1,20})[ \t]*(?:\r\n?|\n|\Z)")
TOKEN = re.compile(rb"[^ \t]+")
NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)
SEPARATORS = {b",": "commas", b";": "semicolons", b"|": "bars"}  # that others use


class Layout(NamedTuple):
    """What the first block of a file says about the rest."""

    start: int  # of the first row, in bytes
    line: int  # of the first row, from 1
    dims: int
    announced: int | None  # number of rows in the header; None without a header
    binary: bool


def find_layout(path: PathLike, head: bytes) -> Layout:
    """Tell text from binary and a header from a row; the name of the file does not matter."""
    start = len(BOM) if head.startswith(BOM) else 0
    header = HEADER.match(head, start)
    lines = sample_lines(head, header.end() if header else start)
    rows = list(map(split_line, lines))
    if header is None and len(head) >= BLOCK and not LINE_END.search(head):
        raise FormatError(
            f"{path}: the first line has no end within {BLOCK} bytes; expected a word and its vector per line"
        )
    if header and header[2] != b"1" and rows and all(len(row) == 2 and count_numbers(row) == 1 for row in rows):
        header, lines = None, sample_lines(head, start)  # not a header, but the first of many rows with one number each
        rows = list(map(split_line, lines))
    counts = [count_numbers(row) for row in rows]
    if not header:
        check_commas(path, lines)
        votes = Counter(counts)  # of most rows: some are too short, or have a word such as "route 66"
        dims = max(votes, key=lambda dims: (votes[dims], dims), default=0)
        if not dims:
            check_text(path, head)
            raise FormatError(f"{path}: no numbers found in the first lines; expected a word and its vector per line")
        return Layout(start, 1, dims, None, binary=False)

    announced, dims = int(header[1]), int(header[2])
    if not 1 <= dims <= MAX_DIMS:
        raise FormatError(f"{path}: the header announces vectors of {dims} numbers; expected 1 to {MAX_DIMS}")
    if announced and not rows:
        raise FormatError(f"{path}: the header announces {announced} rows, but none follow; copy or download it again")
    textual = [0 < len(row) - 1 <= 2 * count for row, count in zip(rows, counts, strict=True)]
    binary = bool(rows) and not (textual[0] and 2 * sum(textual) >= len(rows))
    if not binary and len(rows) >= 10 and min(counts) > dims:  # the words of a few rows may all end in numbers
        raise FormatError(f"{path}: the header announces vectors of {dims} numbers, but the rows have {min(counts)}")
    return Layout(header.end(), len(LINE_END.findall(head, 0, header.end())) + 1, dims, announced, binary)


def sample_lines(head: bytes, start: int) -> list[bytes]:
    """Return the first lines, without blank ones."""
    lines = LINE_END.split(head[start:], SAMPLE)
    if len(lines) > SAMPLE or (len(head) >= BLOCK and len(lines) > 1):
        lines.pop()  # the rest, or what the end of the block may have cut
    elif len(head) >= BLOCK:  # a token may be cut
        lines = [lines[0][: max(lines[0].rfind(b" "), lines[0].rfind(b"\t"), 0)]]
    return [line for line in lines if line.strip(b" \t")]


def check_commas(path: PathLike, lines: list[bytes]) -> None:
    """Raise FormatError if most lines are no rows, but would be with another separator, or with points for commas."""
    odd = [line for line in lines if not is_row(split_line(line))]

    def fit(split: Callable[[bytes], list[bytes]]) -> bool:
        return 2 * sum(is_row(split(line)) for line in odd) > len(lines)

    for mark, name in SEPARATORS.items():
        if fit(lambda line: [field.strip(b' \t"') for field in line.split(mark)]):  # noqa: B023
            makes = f"tr '{mark.decode()}\"' ' '"
            raise FormatError(f"{path}: {name} separate the numbers; make spaces of them, as {makes} does in a shell")
    if fit(lambda line: split_line(line.replace(b",", b"."))):
        raise FormatError(f"{path}: the numbers have commas; make points of them, as tr , . does in a shell")


def are_vectors(head: bytes) -> bool:
    """Return whether most of the first lines are a word and many numbers."""
    rows = list(map(split_line, sample_lines(head, 0)))
    return bool(rows) and 2 * sum(is_row(row) and len(row) > MANY for row in rows) >= len(rows)


def is_row(tokens: list[bytes]) -> bool:
    """Return whether tokens are a word and one or more numbers."""
    return len(tokens) > 1 and count_numbers(tokens) == len(tokens) - 1


def split_line(line: bytes) -> list[bytes]:
    """Split a line at spaces and tabs."""
    return TOKEN.findall(line.rstrip(b" \t\r"))


def count_numbers(tokens: list[bytes]) -> int:
    """Count the tokens that are numbers, except for the first, which is the word or part of it."""
    return sum(NUMBER.fullmatch(token) is not None for token in tokens[1:])


def read_blocks(block: bytes, stream: BinaryIO, advance: Advance) -> Iterator[bytes]:
    """Yield the block already read, then the others."""
    while block:
        yield block
        advance(len(block))
        block = stream.read(BLOCK)


class RowBuilder:
    """Collects rows in a matrix that grows, since the header may be wrong about their number."""

    def __init__(self, path: PathLike, dims: int, expected: int, scratch: PathLike | None = None) -> None:
        self.path, self.scratch = path, scratch
        self.words: list[str] = []
        self.matrix = self.empty(expected, dims)

    def empty(self, rows: int, dims: int) -> FloatMatrix:
        """Return a new matrix; in a file without a name, which is gone when nobody uses it, if there is a folder."""
        if self.scratch is None or not rows:
            return np.empty((rows, dims), np.float32)
        folder = Path(self.scratch)
        with errors_about(folder, folder), tempfile.TemporaryFile(dir=folder) as file:
            reserve(cast(BinaryIO, file), 4 * rows * dims)
            return np.frombuffer(mmap.mmap(file.fileno(), 0), np.float32).reshape(rows, dims)

    def __len__(self) -> int:
        return len(self.words)

    def room(self, rows: int) -> FloatMatrix:
        """Return the next rows of the matrix, to be filled."""
        size, dims = self.matrix.shape
        needed = len(self) + rows
        if needed > size:
            larger = self.empty(max(needed, size * 3 // 2), dims)
            larger[: len(self)] = self.matrix[: len(self)]
            self.matrix = larger
        return self.matrix[len(self) : needed]

    def add(self, block: bytes, spans: npt.NDArray[np.int64]) -> None:
        """Add the words of the rows just filled, given their start and end in the block."""
        self.words += [block[start:end].decode(errors="replace") for start, end in spans.tolist()]

    def finish(self) -> Rows:
        """Return the rows."""
        return Rows(str(self.path), self.words, self.matrix[: len(self)], ours=True)
