"""fastText's own models, .bin: words and the vectors that fastText gives them."""

from __future__ import annotations

import io
import mmap
import struct
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError
from pbos.files.paths import PathLike, damage_in
from pbos.jobs.threads import blocks, in_threads
from pbos.kernels.fasttext import mean_rows
from pbos.words.arrays import FloatMatrix

HEAD = struct.Struct("<2i12id")  # magic, version, and the arguments of the training
SIZES = struct.Struct("<3i2q")  # of the dictionary: entries, words, labels; tokens, pruned n-grams
ENTRY = struct.Struct("<qb")  # after a word: its count and whether it is a label
SHAPE = struct.Struct("<2q")
VERSIONS, SUPERVISED = (11, 12), 3
AT_ONCE = 1024  # words


def read_fasttext(path: PathLike, stream: BinaryIO, limit: int | None = None) -> tuple[list[str], npt.NDArray[Any]]:
    """Read the words of a model, and their vectors: the mean of a word's row and of those of its n-grams.

    After the head come the dictionary (words, then labels) and the matrix: a row for each word and each bucket.
    """
    with damage_in(path, "the fastText model is damaged"):
        _, version, dims, *_, kind, n_buckets, least, most, _, _ = HEAD.unpack(stream.read(HEAD.size))
        if version not in VERSIONS:
            raise FormatError(f"{path}: this fastText model has version {version}; use the .vec file next to it")
        n_entries, n_words, _, _, n_pruned = SIZES.unpack(stream.read(SIZES.size))
        words = read_dictionary(stream, n_entries)[:n_words]
        if stream.read(1) != b"\0" or n_pruned >= 0:
            raise FormatError(
                f"{path}: this fastText model is quantized (.ftz), so its vectors are only rough copies; use the .bin "
                "or .vec file that it was made from"
            )
        shape = SHAPE.unpack(stream.read(SHAPE.size))
        if min(n_words, n_buckets) < 0 or len(words) != n_words or shape != (n_words + n_buckets, dims):
            raise ValueError(f"it has {shape[0]} x {shape[1]} numbers, expected {n_words + n_buckets} x {dims}")
        matrix = read_matrix(stream, *shape)
        has_ngrams = n_buckets > 0 and not (version == VERSIONS[0] and kind == SUPERVISED)
        ngrams = (n_buckets, least, most if has_ngrams else 0)
        return [word.decode(errors="replace") for word in words[:limit]], vectors_of(words, ngrams, matrix, limit)


def read_dictionary(stream: BinaryIO, n_entries: int) -> list[bytes]:
    """Return the words and labels, which end in NUL."""
    words, data, at = list[bytes](), b"", 0
    start = stream.tell()
    while len(words) < n_entries:
        end = data.find(b"\0", at)
        if end < 0 or end + 1 + ENTRY.size > len(data):
            start, more = start + at, stream.read(1 << 20)
            if not more:
                raise EOFError("it ends in its words")
            data, at = data[at:] + more, 0
            continue
        words.append(data[at:end])
        at = end + 1 + ENTRY.size
    stream.seek(start + at)
    return words


def read_matrix(stream: BinaryIO, rows: int, columns: int) -> FloatMatrix:
    """Return a matrix, which stays in its file if this can be mapped."""
    try:
        content: Any = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        at = stream.tell()
    except io.UnsupportedOperation:  # a remote file, or one that was compressed
        content, at = stream.read(4 * rows * columns), 0
    return np.frombuffer(content, "<f4", rows * columns, at).reshape(rows, columns)


def vectors_of(words: list[bytes], ngrams: tuple[int, int, int], matrix: FloatMatrix, limit: int | None) -> FloatMatrix:
    """Return the vectors of the first words; n-grams have a number of buckets, a least and a largest length."""
    marked = [b"<%b>" % word for word in words[:limit]]
    content = np.frombuffer(b"".join(marked), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in marked])]).astype(np.int64)
    out = np.empty((len(marked), matrix.shape[1]), np.float32)

    def write(rows: slice) -> None:
        mean_rows(content, offsets, rows.start, len(words), *ngrams, matrix, out[rows])

    in_threads(write, list(blocks(len(marked), AT_ONCE)), None)
    return out
