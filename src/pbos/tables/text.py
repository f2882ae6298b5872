"""Rows of words and numbers: word2vec, as text and binary, fastText's .vec, and GloVe, which has no header."""

from __future__ import annotations

import mmap
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, warn
from pbos.files.atomic import errors_about, reserve
from pbos.files.paths import BOM, PathLike, check_text
from pbos.kernels.numbers import parse_lines, split_records
from pbos.settings import MAX_DIMS
from pbos.words.arrays import FloatMatrix

BLOCK = 1 << 21  # bytes read at a time: more than the sample needs, and few enough to stay in the cache
SAMPLE = 100  # lines inspected to detect the format
LONGEST = 64  # bytes of a number in a text, with the space before it

LINE_END = re.compile(rb"\r\n?|\n")
LONE_CR = re.compile(rb"\r(?!\n)")
HEADER = re.compile(rb"[ \t\r\n]*(\d{1,20})[ \t]+(\d{1,20})[ \t]*(?:\r\n?|\n|\Z)")
TOKEN, WHITE = re.compile(rb"[^ \t]+"), b" \t\r"
NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)
OTHER_SEPARATOR = re.compile(rb"\d[ \t\"]*[,;|]")  # after a number, or in it


class Layout(NamedTuple):
    """What the first block of a file says about the rest."""

    start: int  # of the first row, in bytes
    line: int  # of the first row, from 1
    dims: int
    announced: int | None  # number of rows in the header; None without a header
    binary: bool


class RowBuilder:
    """Collects rows in a matrix that grows, since the header may be wrong about their number.

    With a scratch folder, the matrix is in a file there; it has no name, so it is gone when nobody uses it.
    """

    def __init__(self, path: PathLike, dims: int, expected: int, scratch: PathLike | None = None) -> None:
        self.path, self.scratch = path, scratch
        self.words: list[str] = []
        self.matrix = self.new_matrix(expected, dims)

    def new_matrix(self, rows: int, dims: int) -> FloatMatrix:
        """Return a new matrix."""
        if self.scratch is None or not rows:
            return np.empty((rows, dims), np.float32)
        folder = Path(self.scratch)
        with errors_about(folder, folder), tempfile.TemporaryFile(dir=folder) as file:
            reserve(cast(BinaryIO, file), 4 * rows * dims)
            return np.frombuffer(mmap.mmap(file.fileno(), 0), np.float32).reshape(rows, dims)

    def __len__(self) -> int:
        return len(self.words)

    def next_rows(self, rows: int) -> FloatMatrix:
        """Return the next rows of the matrix, to be filled."""
        size, dims = self.matrix.shape
        needed = len(self) + rows
        if needed > size:
            larger = self.new_matrix(max(needed, size * 3 // 2), dims)
            larger[: len(self)] = self.matrix[: len(self)]
            self.matrix = larger
        return self.matrix[len(self) : needed]

    def add_words(self, block: bytes, spans: npt.NDArray[np.int64]) -> None:
        """Add the words of the rows just filled, given their start and end in the block."""
        self.words += [block[start:end].decode(errors="replace") for start, end in spans.tolist()]


def read_text(rows: RowBuilder, layout: Layout, blocks: Iterable[bytes], limit: int | None) -> None:
    """Read all lines, or `limit` rows; rows with NaN or infinity become NaN."""
    line = layout.line
    for block in blocks_of_lines(rows.path, blocks, BLOCK + LONGEST * layout.dims):
        # A number takes at least two bytes. One row more than fits, so that the kernel stops at a line with too few.
        wanted = min(block.count(b"\n"), len(block) // (2 * layout.dims) + 1)
        if limit is not None:
            wanted = min(wanted, limit - len(rows))
        data, spans, at = np.frombuffer(block, np.uint8), np.empty((wanted, 2), np.int64), 0
        while at < len(block):
            filled, passed, read = parse_lines(data[at:], rows.next_rows(wanted), spans)
            rows.add_words(block, spans[:filled] + at)
            wanted, line, at = wanted - filled, line + passed, at + read
            if at < len(block) and len(rows) != limit:
                end = block.index(b"\n", at)
                word = word_before_infinity(block[at:end], layout.dims, f"{rows.path}, line {line}")
                rows.next_rows(1)[:] = np.nan
                rows.words.append(word)
                wanted, line, at = wanted - 1, line + 1, end + 1
            if len(rows) == limit:
                return
    if layout.announced not in (None, len(rows)):
        warn(f"{rows.path}: the header announces {layout.announced} rows, but there are {len(rows)}; all were read")
    if layout.dims == 1 and layout.announced is None:
        warn(f"{rows.path}: there is only one number per word; pass word counts as counts, not as vectors")


def blocks_of_lines(path: PathLike, blocks: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Move the ends of blocks to line ends, which become newlines; a line of over `most` bytes is an error."""
    rest = b""
    for block in blocks:
        block = rest + block
        cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1  # after a carriage return a newline may follow
        if cut:
            yield LONE_CR.sub(b"\n", block[:cut])  # the kernel knows CRLF
        rest = block[cut:]
        if len(rest) > most:
            raise FormatError(f"{path}: a line has over {most} bytes; expected a word and its vector per line")
    if rest:
        yield LONE_CR.sub(b"\n", rest + b"\n")


def word_before_infinity(line: bytes, dims: int, place: str) -> str:
    """Return the word of a line that the kernel did not accept; an error if it has no word and numbers after it."""
    tokens = TOKEN.findall(line.rstrip(WHITE))
    expected = f"{place}: expected a word and {dims} numbers"
    if len(tokens) + line.startswith((b" ", b"\t")) <= dims:  # after a space, the word can be empty
        raise FormatError(f"{expected}, found {len(tokens)} fields; correct the row or delete it")
    for token in tokens[-dims:]:
        if not NUMBER.fullmatch(token):
            bad = token.decode(errors="replace")
            raise FormatError(f"{expected}, but {bad!r} is not a number; correct the row or delete it")
    return b" ".join(tokens[:-dims]).decode(errors="replace")


def read_binary(rows: RowBuilder, layout: Layout, blocks: Iterator[bytes], limit: int | None) -> None:
    """Read as many records as the header announces, or `limit`: word, space, little-endian float32, maybe a newline."""
    announced, width = layout.announced or 0, 4 * layout.dims
    wanted = min(announced, limit or announced)
    data = b""
    while len(rows) < wanted:
        block = next(blocks, b"")
        if not block:
            raise FormatError(
                f"{rows.path}: the file ends in word {len(rows) + 1} of the {announced} its header announces; "
                "copy or download it again"
            )
        data += block
        possible = min(wanted - len(rows), len(data) // width)
        spans = np.empty((possible, 2), np.int64)
        filled, at = split_records(np.frombuffer(data, np.uint8), rows.next_rows(possible).view(np.uint8), spans)
        rows.add_words(data, spans[:filled])
        data = data[at:]
        if len(data) > width + BLOCK:
            raise FormatError(f"{rows.path}: word {len(rows) + 1} has no end; expected a word, a space and its vector")
    if limit is None and (data or next(blocks, b"")).strip():
        warn(f"{rows.path}: the file continues after the {announced} words its header announces; the rest was not read")


def find_layout(path: PathLike, head: bytes) -> Layout:
    """Tell text from binary and a header from a row; the name of the file does not matter."""
    start = len(BOM) if head.startswith(BOM) else 0
    header = HEADER.match(head, start)
    rows = sample_rows(head, header.end() if header else start)
    counts = list(map(count_numbers, rows))
    if header is None:
        return Layout(start, 1, find_dims(path, head, rows, counts), None, binary=False)

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


def find_dims(path: PathLike, head: bytes, rows: list[list[bytes]], counts: list[int]) -> int:
    """Return how many numbers most rows have: some are too short, or have a word such as "route 66"."""
    odd = [row for row, count in zip(rows, counts, strict=True) if not 0 < count == len(row) - 1]
    if 2 * sum(OTHER_SEPARATOR.search(b" ".join(row)) is not None for row in odd) > len(rows):
        raise FormatError(
            f"{path}: numbers have commas, semicolons or bars in or between them; use decimal points and spaces, with "
            "tr , . or tr ',;|\"' ' ' in a shell"
        )
    votes = Counter(counts)
    dims = max(votes, key=lambda dims: (votes[dims], dims), default=0)
    if not dims:
        check_text(path, head)
        raise FormatError(f"{path}: no numbers found in the first lines; expected a word and its vector per line")
    return dims


def sample_rows(head: bytes, start: int) -> list[list[bytes]]:
    """Return the fields of the first lines, without blank ones."""
    lines = LINE_END.split(head[start:], SAMPLE)
    if len(lines) > SAMPLE or (len(head) >= BLOCK and len(lines) > 1):
        lines.pop()  # the rest, or what the end of the block may have cut
    return [TOKEN.findall(line.rstrip(WHITE)) for line in lines if line.strip(b" \t")]


def count_numbers(fields: list[bytes]) -> int:
    """Count the fields that are numbers, except for the first, which is the word or part of it."""
    return sum(NUMBER.fullmatch(field) is not None for field in fields[1:])
