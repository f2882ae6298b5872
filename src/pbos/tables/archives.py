"""Readers of published vectors in formats of their own."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError
from pbos.files.paths import open_bytes
from pbos.tables.pickles import as_array, read_pickle
from pbos.tables.rows import checked
from pbos.tables.word_vectors import WordVectors

NAVEC_MARKS = ("<unk>", "<pad>")
POLYGLOT_MARKS = ("<UNK>", "<S>", "</S>", "<PAD>")


class Content(NamedTuple):
    """What a table contains: words, vectors, and counts if it has them."""

    words: list[str]
    vectors: npt.NDArray[Any]
    counts: npt.NDArray[Any] | None = None


def read_known(path: Path) -> Content:
    """Read a file in a format that pbos knows: GloVe or word2vec."""
    table = WordVectors.read(path)
    return Content(table.words, table.vectors)


def read_wink(path: Path) -> Content:
    """Read the JSON of wink: the words in order, and for each its vector, followed by its length and its row."""
    content = json.loads(path.read_bytes())
    dims, vectors = content["dimensions"], content["vectors"]
    matrix = np.empty((len(content["words"]), dims), np.float32)
    for row, word in enumerate(content["words"]):
        matrix[row] = vectors[word][:dims]
    return Content(content["words"], matrix)


def read_navec(path: Path) -> Content:
    """Read a Navec archive: a product-quantized table and its words with counts, which come out most frequent first.

    vocab.bin, gzip: the number of words and their counts (uint32), then the words, one per line. pq.bin: the numbers
    of vectors, dimensions, blocks and centroids (uint32), a centroid per vector and block (uint8), and the centroids.
    """
    with tarfile.open(path) as archive:
        vocabulary, quantized = (cast(IO[bytes], archive.extractfile(name)).read() for name in ("vocab.bin", "pq.bin"))
    vocabulary = gzip.decompress(vocabulary)
    n_words = int(np.frombuffer(vocabulary, "<u4", 1)[0])
    counts = np.frombuffer(vocabulary, "<u4", n_words, offset=4)
    words = vocabulary[4 + 4 * n_words :].decode().split("\n")

    n_vectors, dims, n_blocks, n_centroids = map(int, np.frombuffer(quantized, "<u4", 4))
    chosen = np.frombuffer(quantized, np.uint8, n_vectors * n_blocks, offset=16).reshape(n_vectors, n_blocks)
    centroids = np.frombuffer(quantized, "<f4", offset=16 + chosen.size).reshape(n_blocks, n_centroids, -1)

    order = [row for row in np.argsort(-counts.astype(np.int64), kind="stable") if words[row] not in NAVEC_MARKS]
    blocks = [centroids[block][chosen[order, block]] for block in range(n_blocks)]
    return Content([words[row] for row in order], np.hstack(blocks).reshape(-1, dims), counts[order])


def read_polyglot(path: Path) -> Content:
    """Read a file of Polyglot, a pickled pair of words and matrix, as data; marks such as <UNK> are left out."""
    with open_bytes(path) as stream:
        content = read_pickle(path, stream)
    try:
        words, matrix = content
        words, vectors = [as_utf8(word) for word in words], as_array(matrix)
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"{path}: not a file of Polyglot vectors ({error}); expected a pickle of words and a matrix"
        ) from None
    words, vectors = checked(words, vectors, str(path), from_file=True)
    kept = [row for row, word in enumerate(words) if word not in POLYGLOT_MARKS]
    return Content([words[row] for row in kept], vectors[kept])


def as_utf8(word: str) -> str:
    """Decode a word that Python 2 pickled as UTF-8 bytes, which Python 3 reads as Latin-1; leave others alone."""
    try:
        return word.encode("latin1").decode()
    except UnicodeError:
        return word
    except AttributeError:
        raise ValueError(f"expected words, found {type(word).__name__}") from None
