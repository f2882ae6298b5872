"""What text and binary files share: finding out which of the two a file is, and reading it block by block."""

from __future__ import annotations

import mmap
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pbos.arrays import MAX_DIMS, FloatMatrix
from pbos.atomic import errors_about, reserve
from pbos.errors import FormatError
from pbos.files import BOM, PathLike
from pbos.progress import Advance
from pbos.vectors.rows import Rows

BLOCK = 1 << 21  # bytes read at a time: more than the sample needs, and few enough to stay in the cache
SAMPLE = 100  # lines inspected to detect the format
LONGEST = 64  # bytes of a number in a text, with the space before it

HEADER = re.compile(rb"[ \t\r\n]*(\d{1,20})[ \t]+(\d{1,20})[ \t\r]*(?:\n|\Z)")
TOKEN = re.compile(rb"[^ \t]+")
NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)


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
    rows = sample_rows(head, header.end() if header else start)
    if header is None and len(head) >= BLOCK and b"\n" not in head:
        raise FormatError(
            f"{path}: the first line has no end within {BLOCK} bytes; expected a word and its vector per line"
        )
    if header and header[2] != b"1" and rows and all(len(row) == 2 and count_numbers(row) == 1 for row in rows):
        header, rows = None, sample_rows(head, start)  # not a header, but the first of many rows with one number each
    counts = [count_numbers(row) for row in rows]
    if not header:
        votes = Counter(counts)  # of most rows: some are too short, or have a word such as "route 66"
        dims = max(votes, key=lambda dims: (votes[dims], dims), default=0)
        if not dims:
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
    return Layout(header.end(), head.count(b"\n", 0, header.end()) + 1, dims, announced, binary)


def sample_rows(head: bytes, start: int) -> list[list[bytes]]:
    """Split the first lines into tokens, without blank lines."""
    end = len(head)
    if end >= BLOCK:  # its end may cut a line or, if there is only one, a token
        end = head.rfind(b"\n", start) if b"\n" in head[start:] else max(head.rfind(b" "), head.rfind(b"\t"))
    lines = head[start : max(start, end)].split(b"\n", SAMPLE)[:SAMPLE]
    return [tokens for line in lines if (tokens := split_line(line))]


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
