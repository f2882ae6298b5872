"""Text files, one word and its numbers per line: word2vec and fastText .vec with a header, GloVe without."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pbos.errors import FormatError, warn
from pbos.files.paths import PathLike
from pbos.kernels.numbers import parse_lines
from pbos.tables.stream import BLOCK, LONGEST, NUMBER, Layout, RowBuilder, split_line

LONE_CR = re.compile(rb"\r(?!\n)")


def read_text(rows: RowBuilder, layout: Layout, blocks: Iterator[bytes], limit: int | None) -> None:
    """Read all lines, or `limit` rows; rows with NaN or infinity become NaN."""
    line = layout.line
    for block in end_at_lines(rows.path, with_newlines(blocks), BLOCK + LONGEST * layout.dims):
        # A number takes at least two bytes. One row more than fits, so that the kernel stops at a line with too few.
        wanted = min(block.count(b"\n"), len(block) // (2 * layout.dims) + 1)
        if limit is not None:
            wanted = min(wanted, limit - len(rows))
        data, spans, at = np.frombuffer(block, np.uint8), np.empty((wanted, 2), np.int64), 0
        while at < len(block):
            filled, passed, read = parse_lines(data[at:], rows.room(wanted), spans)
            rows.add(block, spans[:filled] + at)
            wanted, line, at = wanted - filled, line + passed, at + read
            if at < len(block) and len(rows) != limit:
                end = block.index(b"\n", at)
                word = word_before_infinity(block[at:end], layout.dims, f"{rows.path}, line {line}")
                rows.room(1)[:] = np.nan
                rows.words.append(word)
                wanted, line, at = wanted - 1, line + 1, end + 1
            if len(rows) == limit:
                return
    if layout.announced not in (None, len(rows)):
        warn(f"{rows.path}: the header announces {layout.announced} rows, but there are {len(rows)}; all were read")
    if layout.dims == 1 and layout.announced is None:
        warn(f"{rows.path}: there is only one number per word; pass word counts as counts, not as vectors")


def with_newlines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Make newlines of carriage returns that are line ends by themselves; the kernel knows those of CRLF."""
    rest = b""
    for block in blocks:
        block = rest + block
        rest = b"\r" if block.endswith(b"\r") else b""  # a newline may follow
        block = block.removesuffix(rest)
        yield LONE_CR.sub(b"\n", block) if b"\r" in block and LONE_CR.search(block) else block
    yield rest


def end_at_lines(path: PathLike, blocks: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Move the ends of blocks to line ends; a line of over `most` bytes is an error."""
    rest = b""
    for block in blocks:
        block = rest + block
        cut = block.rfind(b"\n") + 1
        if cut:
            yield block[:cut]
        rest = block[cut:]
        if len(rest) > most:
            raise FormatError(f"{path}: a line has over {most} bytes; expected a word and its vector per line")
    if rest:
        yield rest + b"\n"


def word_before_infinity(line: bytes, dims: int, place: str) -> str:
    """Return the word of a line that the kernel did not accept; an error if it has no word and numbers after it."""
    tokens = split_line(line)
    if len(tokens) + line.startswith((b" ", b"\t")) <= dims:  # after a space, the word can be empty
        raise FormatError(
            f"{place}: expected a word and {dims} numbers, found {len(tokens)} fields; correct the row or delete it"
        )
    for token in tokens[-dims:]:
        if not NUMBER.fullmatch(token):
            raise FormatError(
                f"{place}: expected a word and {dims} numbers, but {token.decode(errors='replace')!r} is not a number; "
                "correct the row or delete it"
            )
    return b" ".join(tokens[:-dims]).decode(errors="replace")
