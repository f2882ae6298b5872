"""Vectors as one array: a NumPy archive (.npz), safetensors, or a folder with words.txt and vectors.npy."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError
from pbos.files.atomic import save_array, write_whole_folder
from pbos.files.paths import (
    BOM,
    PathLike,
    check_expansion,
    damage_in,
    fetch,
    is_remote,
    names_in,
    resolve_links,
    to_local_path,
)
from pbos.words.arrays import FloatMatrix

READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
FILES = ("words.txt", "vectors.npy")


def read_npz(path: PathLike, stream: BinaryIO) -> tuple[list[str], npt.NDArray[Any]]:
    """Read an archive with the arrays `words` and `vectors`."""
    with damage_in(path, "the archive is damaged"), zipfile.ZipFile(stream) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if not {"words", "vectors"} <= set(names):
            found = ", ".join(names[:5])
            raise FormatError(f"{path}: expected the arrays `words` and `vectors` in the archive; it contains: {found}")
        words, vectors = (read_member(path, archive, name) for name in ("words", "vectors"))
    if words.dtype.kind != "U" or words.ndim != 1:
        raise FormatError(
            f"{path}: `words` has dtype {words.dtype} and shape {words.shape}; save it as np.array(words, dtype=str)"
        )
    return words.tolist(), vectors


def read_member(path: PathLike, archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Read an array of an archive. Unlike NumPy, this takes no more memory than the archive has bytes for."""
    info = archive.getinfo(f"{name}.npy")
    check_expansion(path, info.compress_size, info.file_size)
    content = archive.read(info)
    stream = io.BytesIO(content)
    shape, fortran_order, dtype = READ_HEADER[np.lib.format.read_magic(stream)](stream)
    if dtype.hasobject:
        raise FormatError(f"{path}: the archive contains pickled objects; save the words as np.array(words, dtype=str)")
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran_order else "C")


def read_safetensors(path: PathLike, stream: BinaryIO) -> tuple[list[str], npt.NDArray[Any]]:
    """Read the tensors `vectors` (float) and `words` (UTF-8, one word per line)."""
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
    return lines if words.size else [], tensors["vectors"]


def write_safetensors(stream: BinaryIO, words: list[str], matrix: FloatMatrix) -> None:
    """Write a file without a copy of the vectors, which the library of safetensors would make."""
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


def read_folder(path: PathLike, limit: int | None) -> tuple[list[str], npt.NDArray[Any]]:
    """Read a folder; a remote one is fetched. The vectors stay in their file, mapped into memory."""
    check_no_model(path, names_in(path))
    folder = fetch(path, *FILES) if is_remote(path) else to_local_path(path)
    for name in FILES:
        if not (folder / name).is_file():
            raise FormatError(f"{folder}: {name} is missing; a folder of vectors contains {' and '.join(FILES)}")
    with damage_in(folder / "vectors.npy", "not a NumPy array of numbers"):
        vectors = np.lib.format.open_memmap(folder / "vectors.npy", mode="r")
    lines = (folder / "words.txt").read_bytes().removeprefix(BOM).splitlines()
    if vectors.ndim and len(lines) != len(vectors):
        raise FormatError(f"{folder}: {len(lines)} words in words.txt, but {len(vectors)} rows in vectors.npy")
    words = [line.decode(errors="replace") for line in lines[:limit]]
    return words, vectors[:limit] if vectors.ndim else vectors


def check_no_model(path: PathLike, names: Iterable[str]) -> None:
    """Raise FormatError if the names in a folder or of tensors are those of a model."""
    if {"model.safetensors", "index.labels"}.intersection(names):
        raise FormatError(
            f"{path} is a pbos model, not word vectors (see pbos info -m); pass the vectors that it was trained on"
        )


def write_folder(path: PathLike, words: list[str], matrix: FloatMatrix) -> None:
    """Write a folder. It may replace a folder of vectors, but nothing else."""
    target = path if is_remote(path) else resolve_links(path)
    if isinstance(target, Path) and target.exists() and not target.is_dir():
        raise InputError(f"{target}: this is a file, so no folder can be written here; choose another name")
    if not names_in(target) <= set(FILES):
        raise InputError(f"{target}: the folder contains other files than vectors; choose a new or empty one")
    with write_whole_folder(target, last="words.txt") as fresh:
        with (fresh / "words.txt").open("wb") as stream:
            stream.writelines(f"{word}\n".encode() for word in words)
        with (fresh / "vectors.npy").open("wb") as stream:
            save_array(stream, matrix)
