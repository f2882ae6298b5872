"""NumPy archives (.npz) with the arrays `words` and `vectors`."""

from __future__ import annotations

import math
import zipfile
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError
from pbos.files.paths import PathLike, check_expansion, damage_in
from pbos.tables.rows import Rows
from pbos.words.arrays import FloatMatrix

CHUNK = 1 << 24  # bytes
READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(path: PathLike, stream: BinaryIO) -> Rows:
    """Read an archive."""
    with damage_in(path, "the archive is damaged"), zipfile.ZipFile(stream) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if not {"words", "vectors"} <= set(names):
            found = ", ".join(names[:5])
            raise FormatError(f"{path}: expected the arrays `words` and `vectors` in the archive; it contains: {found}")
        words, vectors = (read_member(path, archive, name) for name in ("words", "vectors"))
        if words.dtype.kind != "U" or words.ndim != 1:
            raise FormatError(
                f"{path}: `words` has dtype {words.dtype} and shape {words.shape}; "
                "save it as np.array(words, dtype=str)"
            )
        return Rows(str(path), words.tolist(), vectors)


def read_member(path: PathLike, archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Read an array of an archive, after checking that it has the size it claims."""
    info = archive.getinfo(f"{name}.npy")
    check_expansion(path, info.compress_size, info.file_size)
    with archive.open(info) as stream:
        shape, fortran_order, dtype = READ_HEADER[np.lib.format.read_magic(stream)](stream)
        if dtype.hasobject:
            raise FormatError(
                f"{path}: the archive contains pickled objects; save the words as np.array(words, dtype=str)"
            )
        if math.prod(shape) * dtype.itemsize != info.file_size - stream.tell():
            raise ValueError(f"the array `{name}` has another size than it says")
        data = bytearray(info.file_size - stream.tell())
        for first in range(0, len(data), CHUNK):
            part = stream.read(CHUNK)
            data[first : first + len(part)] = part
        return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran_order else "C")


def write_npz(stream: BinaryIO, words: list[str], matrix: FloatMatrix) -> None:
    """Write an archive."""
    np.savez(stream, words=np.array(words, dtype=np.str_), vectors=matrix)
