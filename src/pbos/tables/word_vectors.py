"""The class WordVectors. docs/files.md lists what files may contain, and what happens then."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError, warn, whole_number
from pbos.files.cache import fetch
from pbos.files.paths import BOM, PathLike, damage_in, is_folder, is_remote, names_in, open_bytes, to_local_path
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import BLOCK, blocks
from pbos.settings import MAX_DIMS
from pbos.tables import text
from pbos.tables.fasttext import read_fasttext
from pbos.tables.formats import check_words, choose_format
from pbos.tables.pickles import read_gensim, read_member
from pbos.tables.writing import FOLDER, WRITERS, write_batches, write_folder
from pbos.words.arrays import FloatMatrix, has_masked
from pbos.words.readonly import ReadOnlyDict, ReadOnlyList, locked
from pbos.words.text import as_words

CHECKED_AT_ONCE = 1 << 16  # rows
Unchecked = tuple[list[str], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class WordVectors:
    """Words and their vectors. Words are unique and not empty, values are finite. All is read-only.

    Attributes:
        words: The words.
        vectors: Their vectors, float32 (n_words, dims). C-ordered float32 is not copied, a mapped file stays mapped.

    >>> import numpy as np
    >>> vectors = WordVectors(["high", "higher"], np.eye(2))
    >>> vectors["higher"]
    array([0., 1.], dtype=float32)
    >>> vectors[["higher", "high"]]
    array([[0., 1.], [1., 0.]], dtype=float32)
    """

    words: list[str]
    vectors: FloatMatrix

    def __init__(self, words: Iterable[str], vectors: npt.ArrayLike) -> None:
        words, matrix = checked(as_words(words), vectors, "word vectors", from_file=False)
        matrix.flags.writeable = False
        self._keep(words, matrix)

    def _keep(self, words: list[str], matrix: FloatMatrix) -> None:
        object.__setattr__(self, "words", ReadOnlyList(words))
        object.__setattr__(self, "vectors", matrix)

    def __reduce__(self) -> tuple[Any, ...]:
        return WordVectors, (self.words, self.vectors)

    @classmethod
    def of(cls, source: Any) -> WordVectors:
        """Convert a path, (words, matrix), a mapping, or gensim's KeyedVectors or models.

        >>> WordVectors.of({"high": [1, 0], "higher": [0, 1]})
        WordVectors(2 words, 2 dims)
        """
        if isinstance(source, WordVectors):
            return source
        if isinstance(source, (str, os.PathLike)):
            return cls.read(source)
        source = getattr(source, "wv", source)  # gensim's Word2Vec and FastText
        if hasattr(source, "index_to_key") and hasattr(source, "vectors"):  # gensim's KeyedVectors
            return cls(source.index_to_key, source.vectors)
        if isinstance(source, Mapping):
            return cls(list(source), list(source.values()))
        if isinstance(source, tuple) and len(source) == 2:
            return cls(*source)
        raise InputError(
            f"word vectors cannot be made from {type(source).__name__}; "
            "pass a path, (words, matrix), gensim KeyedVectors or a mapping from words to vectors"
        )

    @classmethod
    def read(
        cls, path: PathLike, *, limit: int | None = None, scratch: PathLike | None = None, progress: bool | None = None
    ) -> WordVectors:
        """Read a file or folder. The format and the compression are detected from the content.

        Args:
            path: word2vec (text or binary), fastText (.vec or .bin), GloVe, .npz, gensim's .kv or .model (read as data,
                never executed), .safetensors, or a folder with words.txt and vectors.npy; or a URL of one.
            limit: Read only this many rows.
            scratch: A folder in which a hidden file keeps the vectors of a text or word2vec file, so that they need not
                fit in memory; by default they do.
            progress: Show a progress bar: True, False, or None for "only on a terminal".
        """
        limit = None if limit is None else whole_number("limit", limit, 1)
        found = read_folder(path, limit) if is_folder(path) else read_file(path, limit, progress, scratch)
        words, matrix = checked(*found, str(path), from_file=True, limit=limit)
        vectors = cls.__new__(cls)
        vectors._keep(words, locked(matrix))
        if replaced := [word for word in words if "\ufffd" in word]:
            noun = "word contains" if len(replaced) == 1 else "words contain"
            warn(f"{path}: {len(replaced)} {noun} U+FFFD, which replaces invalid UTF-8 (first: {replaced[0]!r})")
        return vectors

    def write(self, path: PathLike, *, format: str | None = None, progress: bool | None = None) -> None:
        """Write a file or folder, completely or not at all.

        Args:
            path: Where to write, also a URL; an additional suffix .gz, .bz2, .xz or .zst compresses (not for npz and
                folder).
            format: word2vec, word2vec-binary, glove, npz, gensim, safetensors or folder. None chooses by the name:
                .vec and .txt are word2vec, .bin is word2vec-binary, .glove is glove, .npz is npz, .kv is gensim (which
                must be installed), .safetensors is safetensors, a name without a suffix is a folder.
            progress: Show a progress bar: True, False, or None for "only on a terminal".
        """
        format = choose_format(path, format)
        check_words(self.words, format)
        if format == "folder":
            return write_folder(path, self.words, self.vectors)
        at_once = max(1, len(self)) if format in WRITERS else BLOCK  # rows
        with progress_bar("writing", len(self), progress) as advance:

            def batches() -> Iterator[tuple[list[str], FloatMatrix]]:
                for rows in blocks(len(self), at_once):
                    yield self.words[rows], self.vectors[rows]
                    advance(rows.stop - rows.start)

            write_batches(path, format, batches(), self.dims, len(self))

    @property
    def dims(self) -> int:
        """The number of values in each vector."""
        return int(self.vectors.shape[1])

    vector_size = dims  # gensim's name for it

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each word."""
        return ReadOnlyDict({word: row for row, word in enumerate(self.words)})

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.row_of

    def __getitem__(self, words: str | Iterable[str]) -> FloatMatrix:
        """Return the vector of a word (dims,), or the vectors of many (n, dims)."""
        rows = self.row_of[words] if isinstance(words, str) else [self.row_of[word] for word in as_words(words)]
        found: FloatMatrix = self.vectors[rows]
        return found

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.dims} dims)"


def read_file(path: PathLike, limit: int | None, progress: bool | None, scratch: PathLike | None) -> Unchecked:
    """Read the words and vectors of a file, not checked yet; what it starts with says in which format it is."""
    with open_bytes(path) as stream:
        head = stream.read(text.BLOCK)
        raw = getattr(stream, "raw", None)  # of a compressed file or a pipe, the size is not known
        size = os.fstat(stream.fileno()).st_size if isinstance(raw, io.FileIO) else getattr(raw, "size", 0)
        if not head:
            raise FormatError(f"{path}: the file is empty; expected word vectors")
        for pattern, read in READERS.items():
            if re.match(pattern, head):
                if isinstance(read, str):
                    raise FormatError(f"{path}: {read}")
                if size:
                    stream.seek(0)
                return read(path, stream if size else io.BytesIO(head + stream.read()), limit)
        layout = text.find_layout(path, head)
        possible = size // (2 * layout.dims)  # a number takes at least two bytes
        rows = text.RowBuilder(path, layout.dims, min(layout.announced or 0, possible, limit or possible), scratch)
        with progress_bar(f"reading {Path(path).name}", size or None, progress) as advance:

            def blocks_of_file() -> Iterator[bytes]:
                block = head[layout.start :]
                while block:
                    yield block
                    advance(len(block))
                    block = stream.read(text.BLOCK)

            (text.read_binary if layout.binary else text.read_text)(rows, layout, blocks_of_file(), limit)
        return rows.words, rows.matrix[: len(rows)]


def read_npz(path: PathLike, stream: BinaryIO, _: int | None = None) -> tuple[list[str], npt.NDArray[Any]]:
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


def read_safetensors(path: PathLike, stream: BinaryIO, _: int | None = None) -> tuple[list[str], npt.NDArray[Any]]:
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


def read_folder(path: PathLike, limit: int | None) -> tuple[list[str], npt.NDArray[Any]]:
    """Read a folder; a remote one is fetched. The vectors stay in their file, mapped into memory."""
    check_no_model(path, names_in(path))
    folder = fetch(path, *FOLDER) if is_remote(path) else to_local_path(path)
    for name in FOLDER:
        if not (folder / name).is_file():
            raise FormatError(f"{folder}: {name} is missing; a folder of vectors contains {' and '.join(FOLDER)}")
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


def checked(
    words: list[str], vectors: Any, source: str, *, from_file: bool, limit: int | None = None
) -> tuple[list[str], FloatMatrix]:
    """Return words and a C-ordered float32 matrix of their vectors, copied only if needed; messages name the source.

    Empty and duplicate words, and words whose vectors have NaN or infinity, are dropped; any other problem is an error:
    a FormatError if they are from a file. Then nobody else has the vectors, and rows may be moved.
    """
    error = FormatError if from_file else InputError
    array = as_matrix(vectors, source, error)
    if len(words) != len(array):
        raise error(f"{source}: {len(words)} words but {len(array)} vectors; each word needs one")
    words = words[:limit]
    with np.errstate(over="ignore"):  # a value too large for float32 becomes infinite
        matrix = np.ascontiguousarray(array[:limit], np.float32)
    bad: list[int] = []
    for rows in blocks(len(matrix), CHECKED_AT_ONCE):  # in parts, to keep the mask small
        bad += (rows.start + np.flatnonzero(~np.isfinite(matrix[rows]).all(axis=1))).tolist()
    finite = np.delete(np.arange(len(words)), bad).tolist() if bad else range(len(words))
    first: dict[str, int] = {}
    for row in finite:
        first.setdefault(words[row], row)
    if len(first) == len(words) and "" not in first:
        return words, matrix
    if bad and not any(first):
        raise error(f"{source}: all vectors of words contain NaN or infinity; expected finite numbers")
    for dropped, one, many in (
        (bad, "word whose vector contains NaN or infinity", "words whose vectors contain NaN or infinity"),
        ([row for row in finite if not words[row]], "empty word", "empty words"),
        ([row for row in finite if words[row] and first[words[row]] != row], "duplicate word", "duplicate words"),
    ):
        if dropped:
            example = f"first: {words[dropped[0]]!r}, row {dropped[0] + 1}"
            warn(f"{source}: dropped {len(dropped)} {one if len(dropped) == 1 else many} ({example})")
    first.pop("", None)
    kept = np.fromiter(first.values(), np.int64, len(first))
    if not (from_file and matrix.flags.writeable):
        return list(first), matrix[kept]
    for rows in blocks(len(kept)):  # they ascend, so that no row is overwritten before it has moved
        matrix[rows] = matrix[kept[rows]]
    return list(first), matrix[: len(kept)]


def as_matrix(vectors: Any, source: str, error: type[FormatError] | type[InputError]) -> npt.NDArray[Any]:
    """Return vectors as a matrix of real numbers."""
    if has_masked(vectors):
        raise error(f"{source}: some values are masked; fill them in, or leave out these words")
    try:
        array = np.asarray(vectors)
        if isinstance(vectors, (list, tuple)):
            array.flags.writeable = False  # nobody else has it, so it need not be copied
    except (ValueError, RuntimeError, TypeError) as problem:  # of other lengths; PyTorch: on a GPU, in bfloat16
        raise error(f"{source}: the vectors cannot become a NumPy array ({problem})") from None
    if array.ndim != 2 or not 1 <= array.shape[1] <= MAX_DIMS:
        raise error(f"{source}: the vectors must have shape (words, dimensions), got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise error(f"{source}: the vectors must be real numbers, got dtype {array.dtype}")
    return array


READERS: dict[bytes, Callable[[PathLike, BinaryIO, int | None], Unchecked] | str] = {  # or errors, by the first bytes
    rb"\xba\x16\x4f\x2f": read_fasttext,
    rb"(?s:....)\0\0\0\0\{": read_safetensors,  # the size of the header, in eight bytes, and JSON
    rb"PK\x03\x04": read_npz,
    rb"\x80": read_gensim,
    rb"\x89HDF\r\n\x1a\n": "this is an HDF5 file; save its words and vectors as .npz or word2vec",
    rb"\x93NUMPY": "this is a matrix without words; put it in a folder as vectors.npy, next to words.txt",
}
