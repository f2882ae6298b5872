"""Files of gensim (.kv, .model): pickles, read as data without running anything in them, and written by gensim."""

from __future__ import annotations

import os
import zipfile
from typing import Any, BinaryIO

import numpy as np

from pbos.errors import FormatError
from pbos.files.paths import PathLike, damage_in, on_disk
from pbos.tables.npz import read_member
from pbos.tables.pickles import as_array, read_pickle
from pbos.tables.rows import Rows
from pbos.words.arrays import FloatMatrix

WORDS = ("index_to_key", "index2word", "index2entity")  # the names in gensim 4, and before
VECTORS = ("vectors", "syn0")


def read_gensim(path: PathLike, stream: BinaryIO) -> Rows:
    """Read KeyedVectors, or a model whose `wv` they are."""
    saved, name = attributes(read_pickle(path, stream)), os.fspath(path)
    if wv := attributes(saved.get("wv")):
        saved, name = wv, f"{name}.wv"
    words = next((saved[key] for key in WORDS if saved.get(key)), None)
    listed = saved.get("__numpys")
    side_files = listed if isinstance(listed, list) else []  # gensim saves large arrays in files of their own
    key = next((key for key in VECTORS if saved.get(key) is not None or key in side_files), None)
    if not isinstance(words, list) or key is None:
        raise FormatError(
            f"{path}: this is a pickle without word vectors that pbos can read; "
            "if gensim saved it, load it there and write the vectors with save_word2vec_format"
        )
    if not all(isinstance(word, str) for word in words):
        raise FormatError(f"{path}: not all keys of these vectors are words (str), as in a set of documents")
    try:
        with damage_in(path, "its vectors cannot be read"):
            compressed = os.fspath(path).endswith((".gz", ".bz2"))
            vectors = read_side_file(f"{name}.{key}", compressed) if key in side_files else as_array(saved[key])
    except FileNotFoundError as error:
        raise FormatError(f"{path}: its vectors are in {error.filename}, which is missing; copy it too") from None
    return Rows(str(path), words, vectors)


def attributes(thing: Any) -> dict[str, Any]:
    """Return the attributes of a pickled object."""
    state = getattr(thing, "state", None)
    return state if isinstance(state, dict) else {}


def read_side_file(name: str, compressed: bool) -> Any:
    """Read an array from a file of its own, mapped into memory if possible."""
    if not compressed:
        return np.lib.format.open_memmap(on_disk(f"{name}.npy"), mode="r")
    with zipfile.ZipFile(on_disk(f"{name}.npz")) as archive:
        return read_member(f"{name}.npz", archive, "val")


def write_gensim(stream: BinaryIO, words: list[str], matrix: FloatMatrix) -> None:
    """Write KeyedVectors, in one file, with gensim itself."""
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(matrix.shape[1])
    keyed.add_vectors(words, matrix)
    keyed.save(stream)
