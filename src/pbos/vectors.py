"""Word vectors: reading, writing and checking them.

In reading order: the class people hold, the checks every source goes through, finding out what a file is, one reader
for each kind of file, writing. What is met in files and what happens then is tabled in docs/files.md.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError
from pbos.files import open_bytes, warn, write_whole, write_whole_folder
from pbos.kernels.numbers import parse_lines, split_records
from pbos.pickles import as_array, read_pickle
from pbos.progress import Advance
from pbos.progress import progress as progress_bar
from pbos.text import as_words

Matrix = npt.NDArray[np.float32]
PathLike = str | os.PathLike[str]

BLOCK = 1 << 21  # bytes read at a time: enough for the sample, and little enough to stay in the cache
SAMPLE = 100  # lines looked at to find out what a file is
MOST_DIMS = 1_000_000
FOLDER_FILES = ("words.txt", "vectors.npy")
BOM = b"\xef\xbb\xbf"
LARGEST = float(np.finfo(np.float32).max)

HEADER = re.compile(rb"[ \t\r\n]*(\d{1,20})[ \t]+(\d{1,20})[ \t\r]*(?:\n|\Z)")
TOKEN = re.compile(rb"[^ \t]+")
NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)


@dataclass(frozen=True, eq=False, repr=False)
class WordVectors:
    """Words and their vectors, row by row: no word is empty or there twice, no value is NaN or infinite.

    Attributes:
        words: The words.
        vectors: Their vectors, float32 (n_words, dims).

    >>> vectors = WordVectors(["high", "higher"], np.eye(2))
    >>> vectors["higher"]
    array([0., 1.], dtype=float32)
    """

    words: list[str]
    vectors: Matrix  # (n_words, dims)

    def __post_init__(self) -> None:
        words, matrix = cleaned(as_words(self.words), as_matrix(self.vectors, InputError), Origin("word vectors"))
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "vectors", matrix)

    @classmethod
    def of(cls, source: Any) -> WordVectors:
        """Take vectors as people have them: a path, (words, matrix), a mapping, gensim's KeyedVectors or models.

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
            return cls(list(source), stacked(source))
        if isinstance(source, tuple) and len(source) == 2:
            return cls(*source)
        raise InputError(
            f"word vectors cannot be made from {type(source).__name__}; "
            "pass a path, (words, matrix), gensim KeyedVectors or a mapping from words to vectors"
        )

    @classmethod
    def read(cls, path: PathLike, *, limit: int | None = None, progress: bool | None = None) -> WordVectors:
        """Read a file or folder of vectors; its kind and compression are found from the content.

        Args:
            path: word2vec (text or binary), fastText .vec, GloVe, .npz, gensim's .kv or .model (read as data, nothing
                in it is run), or a folder with words.txt and vectors.npy.
            limit: Read this many rows and no more.
            progress: Show a bar: True, False, or None for "only on a terminal".
        """
        if limit is not None and limit < 1:
            raise InputError(f"limit is {limit}; it has to be at least 1, or None for all rows")
        words, matrix = read_folder(Path(path), limit) if Path(path).is_dir() else read_file(path, limit, progress)
        return cls(words, matrix)

    def write(self, path: PathLike, *, format: str | None = None, progress: bool | None = None) -> None:
        """Write a file or folder, whole or not at all.

        Args:
            path: Where; a further suffix .gz, .bz2, .xz or .zst compresses (not for npz and folder).
            format: word2vec, word2vec-binary, glove, npz or folder; None goes by the name: .vec and .txt are word2vec,
                .bin is word2vec-binary, .glove is glove, .npz is npz, a name without suffix is a folder.
            progress: Show a bar: True, False, or None for "only on a terminal".
        """
        target = Path(path)
        format = choose_format(target, format)
        check_words(self.words, format)
        if format == "folder":
            write_folder(self, target)
            return
        with write_whole(target) as stream:
            if format == "npz":
                np.savez(stream, words=np.array(self.words, dtype=np.str_), vectors=self.vectors)
            else:
                with progress_bar("writing", len(self), progress) as advance:
                    for record in records(self, format):
                        stream.write(record)
                        advance(1)

    @property
    def dims(self) -> int:
        """The number of values in each vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.row_of

    def __getitem__(self, word: str) -> Matrix:
        vector: Matrix = self.vectors[self.row_of[word]]
        return vector

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.dims} dims)"


# Checks ---------------------------------------------------------------------------------------------------------------


class Origin(NamedTuple):
    """Where rows come from, so that messages can name the place."""

    name: str
    unit: str = "row"
    numbers: npt.NDArray[np.int64] | None = None  # of each row; None: 1, 2, 3, ...
    error: type[FormatError] | type[InputError] = InputError

    def place(self, row: int) -> str:
        """Name the place of a row: line 17."""
        return f"{self.unit} {row + 1 if self.numbers is None else self.numbers[row]}"

    def warn(self, rows: list[int], words: list[str], what: str, then: str) -> None:
        """Give one warning for all rows that share an oddity."""
        if rows:
            what += "s" if len(rows) > 1 else ""
            warn(f"{self.name}: {len(rows)} {what} {then} (first: {words[rows[0]]!r}, {self.place(rows[0])})")


def cleaned(words: list[str], matrix: Matrix, origin: Origin) -> tuple[list[str], Matrix]:
    """Refuse values that are not finite; drop empty words, and words met before."""
    if len(words) != len(matrix):
        raise origin.error(f"{origin.name}: {len(words)} words but {len(matrix)} vectors; there has to be one for each")
    for start in range(0, len(matrix), 1 << 16):  # in parts, so that the mask stays small
        finite = np.isfinite(matrix[start : start + (1 << 16)]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise origin.error(
                f"{origin.name}, {origin.place(row)}: the vector of {words[row]!r} holds NaN, infinity or a value "
                "too large for float32; correct it or leave the word out"
            )
    unique = set(words)
    if len(unique) == len(words) and "" not in unique:
        return words, matrix

    kept: dict[str, int] = {}
    empty: list[int] = []
    repeated: list[int] = []
    for row, word in enumerate(words):
        if not word:
            empty.append(row)
        elif word in kept:
            repeated.append(row)
        else:
            kept[word] = row
    origin.warn(empty, words, "empty word", "dropped")
    origin.warn(repeated, words, "duplicate word", "dropped, the first of each is kept")
    return list(kept), matrix[list(kept.values())]


def as_matrix(values: Any, error: type[FormatError] | type[InputError], name: str = "word vectors") -> Matrix:
    """Turn an array of real numbers, one row a word, into C-ordered float32, copied only where needed."""
    try:
        matrix = np.asarray(values)
    except ValueError:
        raise error(f"{name}: the vectors do not all have the same length") from None
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise error(f"{name}: the vectors need shape (words, dimensions), got {matrix.shape}")
    if matrix.dtype.kind not in "fiu":
        raise error(f"{name}: the vectors need to be real numbers, got dtype {matrix.dtype}")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is named as such
        return np.ascontiguousarray(matrix, np.float32)


def stacked(mapping: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Put the vectors of a mapping into one matrix; all have to be as long as the first."""
    vectors = {word: np.asarray(vector) for word, vector in mapping.items()}
    if not vectors:
        raise InputError("the mapping from words to vectors is empty; it needs at least one word")
    shape = next(iter(vectors.values())).shape
    for word, vector in vectors.items():
        if vector.shape != shape or vector.ndim != 1:
            raise InputError(
                f"the vector of {word!r} has shape {vector.shape}, the first one {shape}; expected (dims,)"
            )
    return np.stack(list(vectors.values()))


def decoded(encoded: Iterable[bytes], odd: list[int], offset: int = 0) -> list[str]:
    """Decode words from UTF-8; where one is not, U+FFFD stands for the bad bytes and its row goes to the odd ones."""
    words = []
    for row, word in enumerate(encoded, offset):
        try:
            words.append(word.decode())
        except UnicodeDecodeError:
            words.append(word.decode(errors="replace"))
            odd.append(row)
    return words


# What a file is -------------------------------------------------------------------------------------------------------

FOREIGN = {
    (793712314).to_bytes(4, "little"): "this is a fastText model (.bin); use the .vec file written next to it",
    b"\x89HDF\r\n\x1a\n": "this is an HDF5 file; write its words and vectors as .npz or as word2vec",
    b"\x93NUMPY": "this is a matrix without words; put it in a folder as vectors.npy, next to words.txt",
}
PICKLE = b"\x80"


class Layout(NamedTuple):
    """What the beginning of a text or word2vec binary file says about the rest."""

    start: int  # of the first row, in bytes
    line: int  # of the first row, from 1
    dims: int
    announced: int | None  # rows the header speaks of; None: no header
    binary: bool


def find_layout(path: PathLike, head: bytes) -> Layout:
    """Tell text from binary and header from row by looking at the first rows; the name does not count."""
    start = len(BOM) if head.startswith(BOM) else 0
    header = HEADER.match(head, start)
    rows = sample_rows(head, header.end() if header else start)
    if header and header[2] != b"1" and rows and all(len(row) == 2 and count_numbers(row) == 1 for row in rows):
        header, rows = None, sample_rows(head, start)  # no header, just the first of many rows with one number each
    if not header:
        dims = likely_dims(rows)
        if not dims:
            raise FormatError(f"{path}: no numbers found in the first lines; expected a word and its vector in each")
        return Layout(start, 1, dims, None, binary=False)

    line = head.count(b"\n", 0, header.end()) + 1
    announced, dims = int(header[1]), int(header[2])
    if not 1 <= dims <= MOST_DIMS:
        raise FormatError(f"{path}: the header announces vectors of {dims} numbers; expected 1 to {MOST_DIMS}")
    if announced and not rows:
        raise FormatError(f"{path}: the header announces {announced} rows, but none follows; copy or fetch it again")
    if rows and not looks_like_text(rows):
        return Layout(header.end(), line, dims, announced, binary=True)
    fewest = min(map(count_numbers, rows), default=0)
    if len(rows) >= 10 and fewest > dims:  # where rows are few, all their words may end in numbers, as in "route 66"
        raise FormatError(f"{path}: the header announces vectors of {dims} numbers, but the rows hold {fewest}")
    return Layout(header.end(), line, dims, announced, binary=False)


def sample_rows(head: bytes, start: int) -> list[list[bytes]]:
    """Split the first lines into tokens; blank lines are left out."""
    end = head.rfind(b"\n") if len(head) >= BLOCK else len(head)  # a line cut by the block's end says nothing
    lines = head[start : max(start, end)].split(b"\n", SAMPLE)[:SAMPLE]
    return [tokens for line in lines if (tokens := tokens_of(line))]


def tokens_of(line: bytes) -> list[bytes]:
    """Split a line at its separators."""
    return TOKEN.findall(line.rstrip(b" \t\r"))


def count_numbers(tokens: list[bytes]) -> int:
    """Count the tokens that are numbers, not counting the first, which is the word or part of it."""
    return sum(NUMBER.fullmatch(token) is not None for token in tokens[1:])


def likely_dims(rows: list[list[bytes]]) -> int:
    """Find how many numbers most rows have: a ragged row or a word with numbers in it ("route 66") is outvoted."""
    votes = Counter(map(count_numbers, rows))
    return max(votes, key=lambda dims: (votes[dims], dims), default=0)


def looks_like_text(rows: list[list[bytes]]) -> bool:
    """Tell text from float32 bytes: in the first line and in most lines, at least half of what follows is numbers."""
    textual = [0 < len(row) - 1 <= 2 * count_numbers(row) for row in rows]
    return textual[0] and 2 * sum(textual) >= len(rows)


# Reading --------------------------------------------------------------------------------------------------------------


def read_file(path: PathLike, limit: int | None, show: bool | None) -> tuple[list[str], Matrix]:
    """Read any single file."""
    with open_bytes(path) as stream:
        head = stream.read(BLOCK)
        if not head:
            raise FormatError(f"{path}: the file is empty; expected word vectors")
        for magic, what in FOREIGN.items():
            if head.startswith(magic):
                raise FormatError(f"{path}: {what}")
        if head.startswith(PICKLE):
            return read_gensim(path, io.BytesIO(head + stream.read()), limit)
        size = plain_size(stream)
        if head.startswith(b"PK\x03\x04"):
            return read_npz(path, Path(path) if size else io.BytesIO(head + stream.read()), limit)
        layout = find_layout(path, head)
        with progress_bar(f"reading {Path(path).name}", size, show) as advance:
            blocks = read_blocks(head[layout.start :], stream, advance)
            read = read_binary if layout.binary else read_text
            return read(path, layout, blocks, size, limit)


def plain_size(stream: BinaryIO) -> int | None:
    """Return the number of bytes a stream will give; None where it is compressed or a pipe."""
    if not isinstance(getattr(stream, "raw", None), io.FileIO):
        return None
    return os.fstat(stream.fileno()).st_size or None


def read_blocks(block: bytes, stream: BinaryIO, advance: Advance) -> Iterator[bytes]:
    """Yield the block already read, then the others."""
    while block:
        yield block
        advance(len(block))
        block = stream.read(BLOCK)


def line_blocks(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Cut blocks anew so that each ends with a line end."""
    rest = b""
    for block in blocks:
        block = rest + block
        cut = block.rfind(b"\n") + 1
        if cut:
            yield block[:cut]
        rest = block[cut:]
    if rest:
        yield rest + b"\n"


class Rows:
    """The rows read so far, in a matrix that grows as they come, since what a header announces may be wrong."""

    def __init__(self, path: PathLike, dims: int, unit: str, expected: int) -> None:
        self.path, self.dims, self.unit = path, dims, unit
        self.words: list[str] = []
        self.odd: list[int] = []  # rows whose word was not UTF-8
        self.numbers: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        self.matrix = np.empty((expected, dims), np.float32)

    def room(self, rows: int) -> Matrix:
        """Return the next rows of the matrix, to be filled."""
        used = len(self.words)
        if used + rows > len(self.matrix):
            self.matrix.resize((max(used + rows, len(self.matrix) * 3 // 2), self.dims), refcheck=False)
        return self.matrix[used : used + rows]

    def add(self, block: bytes, spans: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> None:
        """Take in rows just filled: where their words are in the block, and their line (or word) numbers."""
        encoded = (block[start:end] for start, end in spans.tolist())
        self.words += decoded(encoded, self.odd, len(self.words))
        self.numbers.append(numbers)

    def finish(self) -> tuple[list[str], Matrix]:
        """Give back the room not used, and check."""
        self.matrix.resize((len(self.words), self.dims), refcheck=False)
        origin = Origin(str(self.path), self.unit, np.concatenate(self.numbers), FormatError)
        origin.warn(self.odd, self.words, "word", "not in UTF-8, the bad bytes replaced by U+FFFD")
        return cleaned(self.words, self.matrix, origin)


def read_text(
    path: PathLike, layout: Layout, blocks: Iterator[bytes], size: int | None, limit: int | None
) -> tuple[list[str], Matrix]:
    """Read lines "word number ... number"."""
    line, width = layout.line, 2 * layout.dims  # a number takes two bytes at least
    possible = (size or 0) // width
    rows = Rows(path, layout.dims, "line", min(layout.announced or 0, possible, limit or possible))
    for block in line_blocks(blocks):
        wanted = min(
            block.count(b"\n"), len(block) // width + 1
        )  # one more than fits, to meet a line that is too short
        if limit is not None:
            wanted = min(wanted, limit - len(rows.words))
        spans, lines = np.empty((wanted, 2), np.int64), np.empty(wanted, np.int64)
        filled, passed, at = parse_lines(np.frombuffer(block, np.uint8), rows.room(wanted), spans, lines)
        rows.add(block, spans[:filled], line + lines[:filled])
        line += passed
        if len(rows.words) == limit:
            return rows.finish()
        if at < len(block):
            bad_line = block[at : block.index(b"\n", at)]
            raise FormatError(f"{path}, line {line}: {explain(bad_line, layout.dims)}")
    if layout.announced not in (None, len(rows.words)):
        warn(f"{path}: the header announces {layout.announced} rows, but there are {len(rows.words)}; all were read")
    return rows.finish()


def explain(line: bytes, dims: int) -> str:
    """Say why a line is no row of so many numbers."""
    tokens = tokens_of(line)
    if line[:1] in (b" ", b"\t"):
        tokens.insert(0, b"")  # the word is empty
    if len(tokens) <= dims:
        return f"{len(tokens) - 1} numbers where {dims} are expected; complete the row or delete it"
    word = b" ".join(tokens[:-dims]).decode(errors="replace")
    for token in tokens[-dims:]:
        value = token.decode(errors="replace")
        if not NUMBER.fullmatch(token):
            return f"expected {dims} numbers, but {value!r} is none; correct it or delete the row"
        if not abs(float(token)) <= LARGEST:
            return f"the vector of {word!r} holds {value}, no finite float32; correct it or delete the row"
    return f"expected a word and {dims} numbers; correct the row or delete it"


def read_binary(
    path: PathLike, layout: Layout, blocks: Iterator[bytes], size: int | None, limit: int | None
) -> tuple[list[str], Matrix]:
    """Read the records of word2vec's binary format: word, space, little-endian float32 values, perhaps a line end."""
    announced, width = layout.announced or 0, 4 * layout.dims
    wanted = min(announced, limit or announced)
    rows = Rows(path, layout.dims, "word", min(wanted, (size or 0) // width))
    data = b""
    while len(rows.words) < wanted:
        block = next(blocks, b"")
        if not block:
            raise FormatError(
                f"{path}: the file ends in word {len(rows.words) + 1} of the {announced} its header announces; "
                "copy or fetch it again"
            )
        data += block
        possible = min(wanted - len(rows.words), len(data) // width)
        spans = np.empty((possible, 2), np.int64)
        filled, at = split_records(np.frombuffer(data, np.uint8), rows.room(possible).view(np.uint8), spans)
        rows.add(data, spans[:filled], np.arange(filled) + len(rows.words) + 1)
        data = data[at:]
    if limit is None and (data or next(blocks, b"")).strip():
        warn(f"{path}: the file goes on after the {announced} words its header announces; the rest was not read")
    return rows.finish()


def read_npz(path: PathLike, file: Path | BinaryIO, limit: int | None) -> tuple[list[str], Matrix]:
    """Read the arrays `words` and `vectors` of a NumPy archive."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            if not {"words", "vectors"} <= set(archive.files):
                names = ", ".join(archive.files[:5])
                raise FormatError(f"{path}: expected arrays `words` and `vectors` in the archive; it holds: {names}")
            words, vectors = archive["words"], archive["vectors"]
    except FormatError:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise FormatError(
                f"{path}: the archive holds pickled objects; save the words as np.array(words, dtype=str)"
            ) from None
        raise FormatError(f"{path}: the archive is damaged ({error}); copy or fetch it again") from error
    if words.dtype.kind != "U" or words.ndim != 1:
        raise FormatError(
            f"{path}: `words` has dtype {words.dtype} and shape {words.shape}; save it as np.array(words, dtype=str)"
        )
    matrix = as_matrix(vectors, FormatError, str(path))
    if len(words) == len(matrix):
        words, matrix = words[:limit], matrix[:limit]
    return cleaned(words.tolist(), matrix, Origin(str(path), error=FormatError))


def read_folder(folder: Path, limit: int | None) -> tuple[list[str], Matrix]:
    """Read words.txt and vectors.npy; float32 vectors stay in the file, mapped into memory."""
    for name in FOLDER_FILES:
        if not (folder / name).is_file():
            raise FormatError(f"{folder}: no {name} here; a folder of vectors holds {' and '.join(FOLDER_FILES)}")
    try:
        vectors = np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise FormatError(f"{folder / 'vectors.npy'}: no NumPy array can be read from it ({error})") from error
    matrix = as_matrix(vectors[:limit], FormatError, str(folder / "vectors.npy"))
    lines = (folder / "words.txt").read_bytes().removeprefix(BOM).split(b"\n")
    if not lines[-1]:
        lines.pop()
    if len(lines) != len(vectors):
        raise FormatError(f"{folder}: {len(lines)} words in words.txt, but {len(vectors)} rows in vectors.npy")
    odd: list[int] = []
    words = decoded((line.removesuffix(b"\r") for line in lines[:limit]), odd)
    origin = Origin(str(folder / "words.txt"), "line", error=FormatError)
    origin.warn(odd, words, "word", "not in UTF-8, the bad bytes replaced by U+FFFD")
    return cleaned(words, matrix, origin)


GENSIM_WORDS = ("index_to_key", "index2word", "index2entity")  # since gensim 4, and before
GENSIM_VECTORS = ("vectors", "syn0")


def read_gensim(path: PathLike, stream: BinaryIO, limit: int | None) -> tuple[list[str], Matrix]:
    """Read what gensim saves (KeyedVectors, or a model that holds them as `wv`) as data; nothing in it is run."""
    held, name = attributes(read_pickle(path, stream)), os.fspath(path)
    if wv := attributes(held.get("wv")):
        held, name = wv, f"{name}.wv"
    words = next((held[key] for key in GENSIM_WORDS if held.get(key)), None)
    listed = held.get("__numpys")
    kept_apart = listed if isinstance(listed, list) else []  # large arrays are in files of their own
    key = next((key for key in GENSIM_VECTORS if held.get(key) is not None or key in kept_apart), None)
    if not isinstance(words, list) or key is None:
        raise FormatError(
            f"{path}: this is a pickle without word vectors that could be read as they are; "
            "if it is gensim's, load it there and write them with save_word2vec_format"
        )
    if not all(isinstance(word, str) for word in words):
        raise FormatError(f"{path}: the keys of these vectors are not all words (str), as in a set of documents")
    try:
        vectors = read_side_file(f"{name}.{key}", os.fspath(path)) if key in kept_apart else as_array(held[key])
    except FileNotFoundError as error:
        raise FormatError(f"{path}: its vectors are in {error.filename}, which is not there; copy it too") from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise FormatError(f"{path}: its vectors cannot be read ({error}); copy or fetch it again") from None
    matrix = as_matrix(vectors, FormatError, str(path))
    if len(words) == len(matrix):
        words, matrix = words[:limit], matrix[:limit]
    return cleaned(words, matrix, Origin(str(path), error=FormatError))


def attributes(thing: Any) -> dict[str, Any]:
    """Return the attributes of a pickled object."""
    state = getattr(thing, "state", None)
    return state if isinstance(state, dict) else {}


def read_side_file(name: str, path: str) -> npt.NDArray[Any]:
    """Read an array that gensim keeps beside its file, mapped into memory where it can be."""
    array: npt.NDArray[Any]
    if path.endswith((".gz", ".bz2")):
        with np.load(f"{name}.npz", allow_pickle=False) as archive:
            array = archive["val"]
    else:
        array = np.load(f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array


# Writing --------------------------------------------------------------------------------------------------------------

FORMATS = ("word2vec", "word2vec-binary", "glove", "npz", "folder")
SUFFIXES = {".vec": "word2vec", ".txt": "word2vec", ".bin": "word2vec-binary", ".glove": "glove", ".npz": "npz"}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
EDGES = " \t\r\n\ufeff"  # readers strip these from the ends of words


def choose_format(target: Path, format: str | None) -> str:
    """Return the format asked for, or the one the name stands for."""
    if format not in (None, *FORMATS):
        raise InputError(f"unknown format {format!r}; choose one of: {', '.join(FORMATS)}")
    squeezed = target.suffix in COMPRESSIONS
    if format is None:
        suffix = (target.with_suffix("") if squeezed else target).suffix
        format = "folder" if target.is_dir() or not suffix else SUFFIXES.get(suffix)
    if format is None:
        raise InputError(
            f"{target}: no format goes by the suffix {suffix}; end the name in {', '.join(SUFFIXES)} or nothing "
            f"(a folder), or pass format= one of: {', '.join(FORMATS)}"
        )
    if squeezed and format in ("npz", "folder") and not target.is_dir():
        raise InputError(f"{target}: {format} is not written compressed; leave out {target.suffix}")
    return format


def check_words(words: list[str], format: str) -> None:
    """Refuse a word that would not come back as it is, before anything is written."""
    inner = {"word2vec-binary": " \n", "npz": ""}.get(format, "\n")
    for word in words:
        if format == "npz":
            held = not word.endswith("\0")  # NumPy pads strings with it
        else:
            held = word == word.strip(EDGES) and not any(character in word for character in inner)
        try:
            word.encode()
        except UnicodeEncodeError:
            held = False
        if not held:
            raise InputError(f"the word {word!a} cannot be written as {format}; change it, or use another format")


def records(vectors: WordVectors, format: str) -> Iterator[bytes]:
    """Yield the bytes of a text or word2vec binary file, row by row."""
    if format != "glove":
        yield f"{len(vectors)} {vectors.dims}\n".encode()
    if format == "word2vec-binary":
        for word, row in zip(vectors.words, vectors.vectors.astype("<f4", copy=False), strict=True):
            yield word.encode() + b" " + row.tobytes() + b"\n"
        return
    line = "%s" + " %.9g" * vectors.dims + "\n"  # nine digits bring every float32 back exactly
    for word, row in zip(vectors.words, vectors.vectors, strict=True):
        yield (line % (word, *row.tolist())).encode()


def write_folder(vectors: WordVectors, target: Path) -> None:
    """Write a folder with words.txt and vectors.npy; one that holds anything else is not replaced."""
    target = target.resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: a file of this name is in the way of the folder; choose another name")
    if target.exists() and not {entry.name for entry in target.iterdir()} <= set(FOLDER_FILES):
        raise InputError(f"{target}: the folder holds other things than vectors; choose a new or empty one")
    with write_whole_folder(target) as fresh:
        with (fresh / "words.txt").open("wb") as stream:
            stream.writelines(f"{word}\n".encode() for word in vectors.words)
        np.save(fresh / "vectors.npy", vectors.vectors)
