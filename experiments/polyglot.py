"""Reads Polyglot's word vectors, which come as a Python pickle, without executing the pickle."""

from __future__ import annotations

from os import PathLike

from pbos.errors import FormatError
from pbos.files import open_bytes
from pbos.vectors import WordVectors
from pbos.vectors.pickles import as_array, read_pickle

MARKS = ("<UNK>", "<S>", "</S>", "<PAD>")  # rows that are not words


def read_polyglot(path: str | PathLike[str]) -> WordVectors:
    """Read a Polyglot file, a pickled pair of words and matrix; marks such as <UNK> are left out."""
    with open_bytes(path) as stream:
        content = read_pickle(path, stream)
    try:
        words, matrix = content
        words, vectors = [as_utf8(word) for word in words], as_array(matrix)
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"{path}: not a file of Polyglot vectors ({error}); expected a pickle of words and a matrix"
        ) from None
    table = WordVectors(words, vectors)
    kept = [row for row, word in enumerate(table.words) if word not in MARKS]
    return WordVectors([table.words[row] for row in kept], table.vectors[kept])


def as_utf8(word: str) -> str:
    """Decode a word that Python 2 pickled as UTF-8 bytes, which Python 3 reads as Latin-1; leave others alone."""
    try:
        return word.encode("latin1").decode()
    except UnicodeError:
        return word
    except AttributeError:
        raise ValueError(f"expected words, found {type(word).__name__}") from None
