"""Reading Polyglot's word vectors, which come as a Python pickle, without running what a pickle may hold."""

from __future__ import annotations

import pickle
from os import PathLike
from typing import Any

import numpy as np

from pbos.errors import FormatError
from pbos.files import open_bytes
from pbos.vectors import WordVectors

# What a pickled NumPy array is made with; nothing else is ever looked up.
ALLOWED = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("_codecs", "encode"),
}
MARKS = ("<UNK>", "<S>", "</S>", "<PAD>")  # rows that stand for no word


class ArraysOnly(pickle.Unpickler):
    """An unpickler that knows NumPy arrays, strings and containers, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the few functions that make arrays."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def read_polyglot(path: str | PathLike[str]) -> WordVectors:
    """Read a Polyglot file (a pickled pair of words and matrix); its marks such as <UNK> are left out."""
    with open_bytes(path) as stream:
        try:
            words, matrix = ArraysOnly(stream, encoding="latin1").load()
        except (pickle.UnpicklingError, ValueError, TypeError, EOFError, AttributeError, IndexError, KeyError) as error:
            raise FormatError(
                f"{path}: no Polyglot vectors ({error}); expected a pickle of words and a matrix"
            ) from None
    texts = [word.encode("latin1").decode() if isinstance(word, str) and is_bytes(word) else word for word in words]
    kept = [row for row, word in enumerate(texts) if word not in MARKS]
    return WordVectors([texts[row] for row in kept], np.asarray(matrix)[kept])


def is_bytes(word: str) -> bool:
    """Tell whether a str is really UTF-8 bytes, as Python 2 pickled them."""
    try:
        word.encode("latin1").decode()
    except UnicodeError:
        return False
    return not word.isascii()
