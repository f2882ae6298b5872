"""Writing words and their vectors, batch by batch; every file of vectors that pbos writes is written here."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import write_array_header_1_0 as write_npy_header

from pbos.errors import InputError, warn
from pbos.files.atomic import is_special_file, save_array, write_whole, write_whole_folder
from pbos.files.paths import PathLike, is_remote, names_in, resolve_links, to_local_path
from pbos.jobs.threads import blocks
from pbos.kernels.numbers import WIDEST, write_rows
from pbos.tables.formats import bad_words
from pbos.tables.pickles import write_gensim
from pbos.words.arrays import FloatMatrix

FOLDER = ("words.txt", "vectors.npy")  # the files in a folder of vectors
Batch = tuple[Any, ...]
"""Words, their vectors, and perhaps their confidences."""
DIGITS = "%.9g"  # they restore every float32 exactly
WRITTEN_AT_ONCE = 1000  # rows


def write_batches(path: PathLike, format: str, batches: Iterable[Batch], dims: int, count: int | None = None) -> None:
    """Write words and their vectors to a file, which appears only when it is complete.

    The format is what `choose_format` returns, but no folder or table; `count` is the number of words, if it is known.
    """
    with write_whole(path) as stream:
        if format in WRITERS:
            words, parts = list[str](), [np.empty((0, dims), np.float32)]
            for batch, vectors in batches:
                words += batch
                parts.append(vectors)
            return WRITERS[format](stream, words, parts[1] if len(parts) == 2 else np.concatenate(parts))
        if format == "npy":
            return write_npy(path, stream, batches, dims)
        found = rows(format, batches)
        with ExitStack() as stack:
            if format.startswith("word2vec"):
                if count is None:  # the rows wait next to the output until they are counted
                    is_local = not is_remote(path) and not is_special_file(to_local_path(path))
                    folder = resolve_links(path).parent if is_local else None
                    waiting = stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=1 << 20))
                    count = 0
                    for row in found:
                        waiting.write(row)
                        count += 1
                    waiting.seek(0)
                    found = iter(partial(waiting.read, 1 << 20), b"")
                stream.write(f"{count} {dims}\n".encode())
            for row in found:
                stream.write(row)


def without_bad_words(format: str, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches without the words that a format cannot hold; at the end, warn about these."""
    left_out, first = 0, ""
    for words, *columns in batches:
        if bad := bad_words(words, format):
            left_out, first = left_out + len(bad), first or words[bad[0]]
            words = np.delete(np.array(words, object), bad).tolist()
            columns = [np.delete(column, bad, axis=0) for column in columns]
        yield words, *columns
    if left_out:
        noun = "word" if left_out == 1 else "words"
        warn(f"{left_out:,} {noun} cannot be written as {format}, left out (first: {first!a})")


def rows(format: str, batches: Iterable[Batch]) -> Iterator[bytes]:
    """Yield rows of text, JSON or word2vec's binary format."""
    rows_of_batch = {"word2vec-binary": binary_rows, "jsonl": json_rows}.get(format, text_rows)
    return itertools.chain.from_iterable(itertools.starmap(rows_of_batch, batches))


def text_rows(words: list[str], vectors: FloatMatrix, confidences: Any = None) -> Iterator[bytes]:
    """Yield lines of a word and its numbers."""
    labels = words if confidences is None else [*map("{} {:.3f}".format, words, confidences)]
    line = f"{f' {DIGITS}' * vectors.shape[1]}\n"
    for block in blocks(len(vectors), WRITTEN_AT_ONCE):
        matrix = np.ascontiguousarray(vectors[block], np.float32)
        text, ends = np.empty(matrix.size * WIDEST + len(matrix), np.uint8), np.empty(len(matrix), np.int64)
        write_rows(matrix, text, ends)
        written, start = text.tobytes(), 0
        for label, row, end in zip(labels[block], matrix, ends.tolist(), strict=True):
            yield label.encode() + (written[start:end] if end > start else (line % (*row.tolist(),)).encode())
            start = end


def json_rows(words: list[str], vectors: FloatMatrix, confidences: Any = None) -> Iterator[bytes]:
    """Yield lines of JSON."""
    line = f'{{"word": %s%s, "vector": [{", ".join([DIGITS] * vectors.shape[1])}]}}\n'
    trusts = [""] * len(words) if confidences is None else map(', "confidence": {:.9g}'.format, confidences.tolist())
    for word, trust, row in zip(words, trusts, vectors.tolist(), strict=True):
        yield (line % (json.dumps(word, ensure_ascii=False), trust, *row)).encode()


def binary_rows(words: list[str], vectors: FloatMatrix) -> Iterator[bytes]:
    """Yield word2vec's binary rows."""
    little = vectors.astype("<f4", copy=False)
    return (word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(words, little, strict=True))


def write_npy(path: PathLike, stream: BinaryIO, batches: Iterable[Batch], dims: int) -> None:
    """Write a matrix without words; NumPy leaves room for any number of rows in its header."""
    if not stream.seekable():
        raise InputError(f"{path} is a pipe; .npy needs a file, or leave out the suffix for text")
    header = {"descr": "<f4", "fortran_order": False, "shape": (0, dims)}
    write_npy_header(stream, header)
    count = 0
    for _, vectors in batches:
        stream.write(vectors.astype("<f4", copy=False).tobytes())
        count += len(vectors)
    stream.seek(0)
    write_npy_header(stream, header | {"shape": (count, dims)})


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


def write_folder(path: PathLike, words: list[str], matrix: FloatMatrix) -> None:
    """Write a folder. It may replace a folder of vectors, but nothing else."""
    target = path if is_remote(path) else resolve_links(path)
    if isinstance(target, Path) and target.exists() and not target.is_dir():
        raise InputError(f"{target}: this is a file, so no folder can be written here; choose another name")
    if not names_in(target) <= set(FOLDER):
        raise InputError(f"{target}: the folder contains files other than vectors; choose a new or empty one")
    with write_whole_folder(target, last="words.txt") as fresh:
        with (fresh / "words.txt").open("wb") as stream:
            stream.writelines(f"{word}\n".encode() for word in words)
        with (fresh / "vectors.npy").open("wb") as stream:
            save_array(stream, matrix)


WRITERS: dict[str, Callable[[BinaryIO, list[str], FloatMatrix], None]] = {  # of all vectors at once
    "npz": lambda stream, words, matrix: np.savez(stream, words=np.array(words, np.str_), vectors=matrix),
    "gensim": write_gensim,
    "safetensors": write_safetensors,
}
