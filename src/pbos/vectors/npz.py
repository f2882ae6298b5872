"""NumPy archives (.npz) with the arrays `words` and `vectors`."""

from __future__ import annotations

import zipfile
import zlib
from typing import BinaryIO

import numpy as np

from pbos.arrays import FloatMatrix
from pbos.errors import FormatError
from pbos.files import PathLike
from pbos.vectors.rows import Rows


def read_npz(path: PathLike, stream: BinaryIO) -> Rows:
    """Read an archive."""
    try:
        with np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in ("words", "vectors") if name in archive.files}
            names = ", ".join(archive.files[:5])
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise FormatError(
                f"{path}: the archive contains pickled objects; save the words as np.array(words, dtype=str)"
            ) from None
        raise FormatError(f"{path}: the archive is damaged ({error}); copy or download it again") from error
    if len(arrays) < 2:
        raise FormatError(f"{path}: expected the arrays `words` and `vectors` in the archive; it contains: {names}")
    words = arrays["words"]
    if words.dtype.kind != "U" or words.ndim != 1:
        raise FormatError(
            f"{path}: `words` has dtype {words.dtype} and shape {words.shape}; save it as np.array(words, dtype=str)"
        )
    return Rows(str(path), words.tolist(), arrays["vectors"])


def write_npz(stream: BinaryIO, words: list[str], matrix: FloatMatrix) -> None:
    """Write an archive."""
    np.savez(stream, words=np.array(words, dtype=np.str_), vectors=matrix)
