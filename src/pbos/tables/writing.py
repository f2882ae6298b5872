"""Writing words and their vectors, some rows at a time; every file of vectors that pbos writes is written here."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import write_array_header_1_0 as write_npy_header

from pbos.errors import InputError, warn
from pbos.files.atomic import write_whole
from pbos.files.paths import COMPRESSIONS, PathLike, is_remote, real, suffix_of
from pbos.tables.formats import bad_words
from pbos.tables.gensim import write_gensim
from pbos.tables.npz import write_npz
from pbos.tables.tensors import write_tensors
from pbos.words.arrays import FloatMatrix

Write = Callable[..., None]
"""Called with words, their vectors, and perhaps their confidences."""

AT_ONCE = {"npz": write_npz, "gensim": write_gensim, "safetensors": write_tensors}  # formats without rows


@contextmanager
def writer(path: PathLike, format: str, dims: int, rows: int | None = None) -> Iterator[Write]:
    """Yield a function that writes words and their vectors to a file, which appears only when it is complete.

    Args:
        path: The file. An additional suffix such as .gz compresses it.
        format: What `choose_format` returns, except for folders and tables.
        dims: The number of dimensions.
        rows: How many rows there will be; None if that is not known.
    """
    with write_whole(path) as stream:
        opened: AbstractContextManager[Write]
        if format in AT_ONCE:
            opened = all_at_once(stream, format, dims)
        elif format == "npy":
            opened = npy_rows(stream, path, dims)
        elif format.startswith("word2vec") and rows is None:
            opened = counted_rows(stream, path, format, dims)
        else:
            if format.startswith("word2vec"):
                stream.write(f"{rows} {dims}\n".encode())
            opened = nullcontext(row_writer(stream, format))
        with opened as write:
            yield write


@contextmanager
def leaving_out(write: Write, format: str) -> Iterator[Write]:
    """Yield a function that writes words that a format can hold; at the end, warn about the others."""
    counts, firsts = Counter[str](), dict[str, str]()

    def note(what: str, some: list[str]) -> None:
        counts[what] += len(some)
        firsts.setdefault(what, some[0])

    def checked(words: list[str], *columns: Any) -> None:
        if bad := bad_words(words, format):
            note(f"cannot be written as {format}, left out", [words[row] for row in bad])
            words = np.delete(np.array(words, object), bad).tolist()
            columns = tuple(np.delete(column, bad, axis=0) for column in columns)
        if format == "word2vec" and (spaced := [word for word in words if " " in word]):
            note("with a space, which gensim does not read in this format", spaced)
        write(words, *columns)

    yield checked
    for what, count in counts.items():
        warn(f"{count:,} {'word' if count == 1 else 'words'} {what} (first: {firsts[what]!a})")


# Rows -----------------------------------------------------------------------------------------------------------------


def row_writer(stream: Any, format: str) -> Write:
    """Return a function that writes rows as text, JSON or word2vec's binary format."""
    to_bytes = {"word2vec-binary": binary_rows, "jsonl": json_rows}.get(format, text_rows)

    def write(*columns: Any) -> None:
        for row in to_bytes(*columns):
            stream.write(row)

    return write


def text_rows(words: list[str], vectors: FloatMatrix, confidences: Any = None) -> Iterable[bytes]:
    """Yield lines of a word and its numbers."""
    labels = words if confidences is None else map("{} {:.3f}".format, words, confidences)
    line = f"%s {numbers(vectors.shape[1], ' ')}\n"
    return ((line % (label, *row)).encode() for label, row in zip(labels, vectors.tolist(), strict=True))


def json_rows(words: list[str], vectors: FloatMatrix, confidences: Any = None) -> Iterable[bytes]:
    """Yield lines of JSON."""
    line = f'{{"word": %s%s, "vector": [{numbers(vectors.shape[1], ", ")}]}}\n'
    trusts = [""] * len(words) if confidences is None else map(', "confidence": {:.9g}'.format, confidences.tolist())
    for word, trust, row in zip(words, trusts, vectors.tolist(), strict=True):
        yield (line % (json.dumps(word, ensure_ascii=False), trust, *row)).encode()


def binary_rows(words: list[str], vectors: FloatMatrix) -> Iterable[bytes]:
    """Yield word2vec's binary rows."""
    little = vectors.astype("<f4", copy=False)
    return (word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(words, little, strict=True))


@cache
def numbers(dims: int, separator: str) -> str:
    """Return the format of numbers: nine digits restore every float32 exactly."""
    return separator.join(["%.9g"] * dims)


# Formats that need to know all rows -----------------------------------------------------------------------------------


@contextmanager
def counted_rows(stream: BinaryIO, path: PathLike, format: str, dims: int) -> Iterator[Write]:
    """Write rows after a header with their number, which is known in the end only.

    A plain file has room for it, with spaces before the number. Anything else waits for the rows in a temporary file,
    next to a compressed one.
    """
    packed = suffix_of(path) in COMPRESSIONS
    in_place = stream.seekable() and not packed
    folder = real(path).parent if packed and not is_remote(path) else None
    with nullcontext(stream) if in_place else tempfile.TemporaryFile(dir=folder) as rows:
        count, write_rows = 0, row_writer(rows, format)
        if in_place:
            stream.write(f"{0:20} {dims}\n".encode())

        def write(words: list[str], vectors: FloatMatrix) -> None:
            nonlocal count
            write_rows(words, vectors)
            count += len(words)

        yield write
        if in_place:
            stream.seek(0)
        stream.write(f"{count:20} {dims}\n".encode())
        if not in_place:
            rows.seek(0)
            shutil.copyfileobj(rows, stream)


@contextmanager
def npy_rows(stream: BinaryIO, path: PathLike, dims: int) -> Iterator[Write]:
    """Write a matrix without words; NumPy leaves room for any number of rows in its header."""
    if not stream.seekable():
        raise InputError(f"{path} is a pipe; .npy needs a file, or leave out the suffix for text")
    count = 0

    def write_header() -> None:
        stream.seek(0)
        write_npy_header(stream, {"descr": "<f4", "fortran_order": False, "shape": (count, dims)})

    def write(words: list[str], vectors: FloatMatrix) -> None:
        nonlocal count
        stream.write(vectors.astype("<f4", copy=False).tobytes())
        count += len(words)

    write_header()
    yield write
    write_header()


@contextmanager
def all_at_once(stream: BinaryIO, format: str, dims: int) -> Iterator[Write]:
    """Collect all rows in memory, then write them."""
    words: list[str] = []
    parts: list[FloatMatrix] = []

    def write(some: list[str], vectors: FloatMatrix) -> None:
        words.extend(some)
        parts.append(vectors)

    yield write
    none = np.empty((0, dims), np.float32)
    AT_ONCE[format](stream, words, parts[0] if len(parts) == 1 else np.concatenate([none, *parts]))
