"""Published word vectors by name: published.json says where each table is, `get` brings it into the cache.

>>> from pbos.tables.published import find
>>> find("fasttext-crawl-de").license
'CC BY-SA 3.0'
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError
from pbos.files.atomic import check_owner, discard, lock, write_whole_folder
from pbos.files.paths import PathLike, damage_in, open_bytes, user_cache
from pbos.tables.counts import WordCounts
from pbos.tables.fetching import check_digest, download, take_out
from pbos.tables.pickles import read_polyglot
from pbos.tables.word_vectors import WordVectors

SOURCE = "source.json"
NAVEC_MARKS = ("<unk>", "<pad>")


class Table(NamedTuple):
    """Published word vectors."""

    name: str  # such as "glove-6b-100d"
    about: str  # what they are, in a few words
    license: str  # as far as it is stated
    page: str  # where they are described
    url: str  # of their file
    digest: str = ""  # of the file: "sha256:...", "md5:..."; "" if we do not know it
    size: int = 0  # of the file in bytes; 0 if we do not know it
    file: str = ""  # what to take out of the file, if it is an archive; `*` stands for anything
    reader: str = ""  # "polyglot" or "navec", if the file is in none of the formats of `WordVectors.read`


def tables() -> list[Table]:
    """Return all tables; LANG in a name stands for the code of a language."""
    return [Table(**entry) for entry in json.loads(Path(__file__).with_suffix(".json").read_bytes())]


def find(name: str) -> Table:
    """Return a table by its name; raise InputError if there is none."""
    for table in tables():
        if match := re.fullmatch(table.name.replace("LANG", "([a-z]{2,3})"), name.lower()):
            return table._replace(name=name.lower(), url=table.url.replace("LANG", match[match.lastindex or 0]))
    raise InputError(
        f"unknown vectors {name!r}; `pbos get` lists them, where LANG stands for a language, as in fasttext-crawl-de"
    )


def get(name: str, cache: PathLike | None = None) -> Path:
    """Return the path of published word vectors; the first time, they are downloaded and checked.

    Args:
        name: Such as "glove-6b-100d" or "fasttext-crawl-de"; `pbos get` lists all.
        cache: A folder to keep them in; None for the user's cache: ~/.cache/pbos, or the folder that PBOS_CACHE names.

    Returns:
        The path for `pbos.train`: a file, or a folder of vectors.

    Raises:
        InputError: There is no such name, or its home cannot be reached.
        FormatError: What was fetched is not what is known under this name, or cannot be read.
    """
    table = find(name)
    folder = Path(cache or user_cache("vectors"), table.name)
    note = folder / SOURCE
    if not note.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = folder.with_name(f".{table.name}")  # it keeps what an interrupted download has got
        with lock(work) as handle:
            check_owner(work, handle)
            if not note.exists():  # another process may just have made it
                make(table, work, folder)
            discard(work, handle)
    return folder / str(json.loads(note.read_bytes())["file"])


def make(table: Table, work: Path, folder: Path) -> None:
    """Download a table and put it into a new folder."""
    say(f"{table.name}: fetching {table.url}")
    try:
        archive = download(table.url, work, table.size)
    except InputError as error:
        raise InputError(f"{error}; see {table.page}") from error
    try:
        with write_whole_folder(folder) as fresh:
            note = table._asdict() | unpack(table, archive, fresh)
            (fresh / SOURCE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
    except (FormatError, InputError) as error:
        archive.unlink(missing_ok=True)  # the next attempt downloads it again
        why = str(error).removeprefix(f"{archive}: ")
        raise FormatError(f"{table.url} cannot be used: {why}; see {table.page}") from error


def unpack(table: Table, archive: Path, folder: Path) -> dict[str, object]:
    """Check a downloaded file and put its vectors into a folder; return what to note about them."""
    if table.digest:
        check_digest(archive, table.digest)
    if table.reader:
        file = take_out(archive, table.file, archive.parent) if table.file else archive
        with damage_in(archive.name, "the vectors are damaged"):
            return save(folder, *(read_polyglot if table.reader == "polyglot" else read_navec)(file))
    if table.file:
        return {"file": take_out(archive, table.file, folder).name}
    if not table.digest:  # can it be read?
        WordVectors.read(archive, limit=1)
        with open_bytes(archive) as stream:
            while stream.read(1 << 20):
                pass
    return {"file": archive.rename(folder / archive.name).name}


def save(folder: Path, words: list[str], vectors: Any, counts: Any = None) -> dict[str, object]:
    """Write a folder of vectors, with their counts if there are any; return what to note about it."""
    table = WordVectors(words, vectors)
    table.write(folder, format="folder")
    if counts is not None:
        WordCounts(words, counts).write(folder / "counts.tsv.gz")
    return {"file": "", "words": len(table), "dims": table.dims}


def say(line: str) -> None:
    """Write a line of progress to stderr."""
    sys.stderr.write(f"{line}\n")


def read_navec(path: Path) -> tuple[list[str], npt.NDArray[Any], npt.NDArray[Any]]:
    """Read a Navec archive: words, their product-quantized vectors, and counts, the most frequent word first.

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
    return [words[row] for row in order], np.hstack(blocks).reshape(-1, dims), counts[order]
