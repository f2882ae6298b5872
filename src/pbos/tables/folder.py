"""Folders with words.txt, one word per line, and vectors.npy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pbos.errors import FormatError, InputError
from pbos.files.atomic import save_array, write_whole_folder
from pbos.files.paths import BOM, PathLike, damage_in, fetch, is_folder, is_remote, local, names_in, real
from pbos.tables.rows import Rows
from pbos.words.arrays import FloatMatrix

FILES = ("words.txt", "vectors.npy")


def find_folder(path: PathLike) -> Path | None:
    """Return the path of a folder, None if it is something else; a remote folder is fetched."""
    if not is_folder(path):
        return None
    check_no_model(path, names_in(path))
    return fetch(path, *FILES) if is_remote(path) else local(path)


def read_folder(folder: Path, limit: int | None) -> Rows:
    """Read a folder. The vectors stay in the file, mapped into memory."""
    for name in FILES:
        if not (folder / name).is_file():
            raise FormatError(f"{folder}: {name} is missing; a folder of vectors contains {' and '.join(FILES)}")
    with damage_in(folder / "vectors.npy", "not a NumPy array of numbers"):
        vectors = np.lib.format.open_memmap(folder / "vectors.npy", mode="r")
    lines = (folder / "words.txt").read_bytes().removeprefix(BOM).splitlines()
    if vectors.ndim and len(lines) != len(vectors):
        raise FormatError(f"{folder}: {len(lines)} words in words.txt, but {len(vectors)} rows in vectors.npy")
    words = [line.decode(errors="replace") for line in lines[:limit]]
    return Rows(str(folder), words, vectors[:limit] if vectors.ndim else vectors)


def check_no_model(path: PathLike, names: Iterable[str]) -> None:
    """Raise FormatError if the names in a folder or of tensors are those of a model."""
    if {"model.safetensors", "index.labels"}.intersection(names):
        raise FormatError(
            f"{path} is a pbos model, not word vectors (see pbos info -m); pass the vectors that it was trained on"
        )


def write_folder(path: PathLike, words: list[str], matrix: FloatMatrix) -> None:
    """Write a folder. It may replace a folder of vectors, but nothing else."""
    target = path if is_remote(path) else real(path)
    if isinstance(target, Path) and target.exists() and not target.is_dir():
        raise InputError(f"{target}: this is a file, so no folder can be written here; choose another name")
    if not names_in(target) <= set(FILES):
        raise InputError(f"{target}: the folder contains other files than vectors; choose a new or empty one")
    with write_whole_folder(target, last="words.txt") as fresh:
        with (fresh / "words.txt").open("wb") as stream:
            stream.writelines(f"{word}\n".encode() for word in words)
        with (fresh / "vectors.npy").open("wb") as stream:
            save_array(stream, matrix)
