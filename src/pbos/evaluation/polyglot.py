"""Reading Polyglot's word vectors, which come as a Python pickle, without running what a pickle may hold."""

from __future__ import annotations

from os import PathLike

from pbos.errors import FormatError
from pbos.files import open_bytes
from pbos.vectors import WordVectors
from pbos.vectors.pickles import as_array, read_pickle

MARKS = ("<UNK>", "<S>", "</S>", "<PAD>")  # rows that stand for no word


def read_polyglot(path: str | PathLike[str]) -> WordVectors:
    """Read a Polyglot file (a pickled pair of words and matrix); its marks such as <UNK> are left out."""
    with open_bytes(path) as stream:
        content = read_pickle(path, stream)
    try:
        words, matrix = content
        words, vectors = list(words), as_array(matrix)
    except (TypeError, ValueError) as error:
        raise FormatError(f"{path}: no Polyglot vectors ({error}); expected a pickle of words and a matrix") from None
    texts = [word.encode("latin1").decode() if isinstance(word, str) and is_bytes(word) else word for word in words]
    kept = [row for row, word in enumerate(texts) if word not in MARKS]
    return WordVectors([texts[row] for row in kept], vectors[kept])


def is_bytes(word: str) -> bool:
    """Tell whether a str is really UTF-8 bytes, as Python 2 pickled them."""
    try:
        word.encode("latin1").decode()
    except UnicodeError:
        return False
    return not word.isascii()
