"""Safetensors files with the tensors `vectors` (float) and `words` (UTF-8, one word per line)."""

from __future__ import annotations

import json
from typing import BinaryIO

import numpy as np

from pbos.errors import FormatError
from pbos.files.paths import PathLike, damage_in
from pbos.tables.folder import check_no_model
from pbos.tables.rows import Rows
from pbos.words.arrays import FloatMatrix


def is_safetensors(head: bytes) -> bool:
    """Return whether a file starts like safetensors: the size of its header in eight bytes, then JSON."""
    return head[4:9] == b"\0\0\0\0{"


def read_tensors(path: PathLike, stream: BinaryIO) -> Rows:
    """Read a file."""
    from safetensors.numpy import load

    with damage_in(path, "the tensors cannot be read"):
        try:
            tensors = load(stream.read())
        except KeyError as error:  # such as BF16
            raise FormatError(f"{path}: NumPy has no numbers of type {error}; save the tensors as F32 or F16") from None
    check_no_model(path, tensors)
    if not {"vectors", "words"} <= tensors.keys():
        names = ", ".join([*tensors][:5])
        raise FormatError(f"{path}: expected the tensors `vectors` and `words` in the file; it contains: {names}")
    words = tensors["words"]
    if words.dtype != np.uint8 or words.ndim != 1:
        raise FormatError(
            f"{path}: `words` has dtype {words.dtype} and shape {words.shape}; expected UTF-8 bytes, one word per line"
        )
    lines = words.tobytes().decode(errors="replace").split("\n")
    return Rows(str(path), lines if words.size else [], tensors["vectors"])


def write_tensors(stream: BinaryIO, words: list[str], matrix: FloatMatrix) -> None:
    """Write a file without a copy of the vectors, which safetensors itself would make."""
    lines = "\n".join(words).encode()
    size = matrix.nbytes
    header = {
        "vectors": {"dtype": "F32", "shape": matrix.shape, "data_offsets": [0, size]},
        "words": {"dtype": "U8", "shape": [len(lines)], "data_offsets": [size, size + len(lines)]},
    }
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % 8)  # so that the vectors are aligned in memory
    stream.write(len(content).to_bytes(8, "little") + content)
    stream.write(matrix.astype("<f4", copy=False).data)
    stream.write(lines)
