"""Text files, one word and its numbers per line: word2vec and fastText .vec with a header, GloVe without."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pbos.errors import FormatError, warn
from pbos.files import PathLike
from pbos.kernels.numbers import parse_lines
from pbos.vectors.stream import BLOCK, LONGEST, NUMBER, Layout, RowBuilder, split_line

LARGEST = float(np.finfo(np.float32).max)


def read_text(rows: RowBuilder, layout: Layout, blocks: Iterator[bytes], limit: int | None) -> None:
    """Read all lines, or `limit` rows."""
    line = layout.line
    for block in end_at_lines(rows.path, blocks, BLOCK + LONGEST * layout.dims):
        # A number takes at least two bytes. One row more than fits, so that the kernel stops at a line with too few.
        wanted = min(block.count(b"\n"), len(block) // (2 * layout.dims) + 1)
        if limit is not None:
            wanted = min(wanted, limit - len(rows))
        spans = np.empty((wanted, 2), np.int64)
        filled, passed, at = parse_lines(np.frombuffer(block, np.uint8), rows.room(wanted), spans)
        rows.add(block, spans[:filled])
        line += passed
        if len(rows) == limit:
            return
        if at < len(block):
            problem = explain(block[at : block.index(b"\n", at)], layout.dims)
            raise FormatError(f"{rows.path}, line {line}: {problem}; correct the row or delete it")
    if layout.announced not in (None, len(rows)):
        warn(f"{rows.path}: the header announces {layout.announced} rows, but there are {len(rows)}; all were read")


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


def explain(line: bytes, dims: int) -> str:
    """Return what is wrong with a line that the kernel did not accept."""
    tokens = split_line(line)
    if len(tokens) <= dims:
        return f"expected a word and {dims} numbers, found {len(tokens)} fields"
    for token in tokens[-dims:]:
        if not NUMBER.fullmatch(token) or not abs(float(token)) <= LARGEST:
            break
    return f"expected a word and {dims} numbers, but {token.decode(errors='replace')!r} is not a finite float32 number"
