"""The binary format of word2vec: a header, then word, space, little-endian float32 values, optionally a line end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pbos.errors import FormatError, warn
from pbos.kernels.numbers import split_records
from pbos.tables import stream as streams
from pbos.tables.stream import Layout, RowBuilder


def read_binary(rows: RowBuilder, layout: Layout, blocks: Iterator[bytes], limit: int | None) -> None:
    """Read as many records as the header announces, or `limit`."""
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
        filled, at = split_records(np.frombuffer(data, np.uint8), rows.room(possible).view(np.uint8), spans)
        rows.add(data, spans[:filled])
        data = data[at:]
        if len(data) > width + streams.BLOCK:
            raise FormatError(f"{rows.path}: word {len(rows) + 1} has no end; expected a word, a space and its vector")
    if limit is None and (data or next(blocks, b"")).strip():
        warn(f"{rows.path}: the file continues after the {announced} words its header announces; the rest was not read")
