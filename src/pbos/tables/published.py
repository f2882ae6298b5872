"""Published word vectors by name: published.json says where each table is, `get` brings it into the cache.

An interrupted download goes on where it stopped.

>>> from pbos.tables.published import find
>>> find("fasttext-crawl-de").license
'CC BY-SA 3.0'
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast
from urllib.error import HTTPError

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError, harmless, repeats_secrets
from pbos.files.atomic import check_owner, discard, lock, write_whole_folder
from pbos.files.paths import PathLike, check_expansion, damage_in, open_bytes, user_cache
from pbos.jobs.progress import progress
from pbos.tables.counts import WordCounts
from pbos.tables.pickles import read_polyglot
from pbos.tables.word_vectors import WordVectors

SOURCE = "source.json"
CHUNK = 1 << 20
TIMEOUT = 60  # seconds without an answer
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
    codes: dict[str, str] | None = None  # for ISO3 in the URL: longer codes of languages
    second: dict[str, Any] | None = None  # what differs in the home that is asked if the first does not answer


def tables() -> list[Table]:
    """Return all tables; LANG in a name stands for the code of a language."""
    return [Table(**entry) for entry in json.loads(Path(__file__).with_suffix(".json").read_bytes())]


def find(name: str) -> Table:
    """Return a table by its name; raise InputError if there is none."""
    for table in tables():
        if match := re.fullmatch(table.name.replace("LANG", "([a-z]{2,3})"), name.lower()):
            code = match[match.lastindex or 0]
            url = table.url.replace("LANG", code).replace("ISO3", (table.codes or {}).get(code, code))
            return table._replace(name=name.lower(), url=url, codes=None)
    raise InputError(
        f"unknown vectors {name!r}; `pbos get` lists them (LANG is a language code, as in fasttext-crawl-de)"
    )


def get(name: str, cache: PathLike | None = None) -> Path:
    """Return the path of published word vectors; the first time, they are downloaded and checked.

    Args:
        name: A name such as "glove-6b-100d" or "fasttext-crawl-de"; `pbos get` lists them all.
        cache: A folder to keep them in; None for the user's cache: ~/.cache/pbos, or the folder that PBOS_CACHE names.

    Returns:
        The path for `pbos.train`: a file, or a folder of vectors.

    Raises:
        InputError: There is no such name, or the server cannot be reached.
        FormatError: The download is not the file that pbos knows by this name, or cannot be read.
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
        if table.second:
            say(str(error))
            return make(table._replace(**table.second, second=None), work, folder)
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
            while stream.read(CHUNK):
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


# The web and archives -------------------------------------------------------------------------------------------------


def download(url: str, folder: Path, size: int = 0) -> Path:
    """Copy a file on the web to a folder and return its path; a size of 0 is not known.

    A note of its version is next to it: an interrupted download is continued if the file is still the same.
    """
    part = folder / PurePosixPath(url).name
    note = part.with_name(f"{part.name}.version")
    version, total, done = "", 0, 0
    try:
        with suppress(FileNotFoundError, ValueError):
            done = part.stat().st_size
            version, total = json.loads(note.read_bytes())
        if total and done == total:  # but interrupted before it was used
            return part
        rest = {"Range": f"bytes={done}-", "If-Range": version} if version and done else {}
        with urllib.request.urlopen(urllib.request.Request(url, headers=rest), timeout=TIMEOUT) as answer:
            is_rest, tag = answer.status == 206, answer.headers.get("ETag", "")
            if is_rest:
                sent = answer.headers.get("Content-Range", "")
                if tag != version or not sent.startswith(f"bytes {done}-{total - 1}/"):  # but of another version
                    part.unlink()
                    return download(url, folder, size)
            else:
                length = answer.headers.get("Content-Length", "")
                total = int(length) if length.isdecimal() else 0
                part.unlink(missing_ok=True)
                if size and total not in (0, size):
                    raise ConnectionError(f"it has {total:,} bytes, expected {size:,}: not the file that pbos knows")
                note.write_text(json.dumps(["" if tag.startswith("W/") else tag, total]))  # weak: not unique
            with part.open("ab" if is_rest else "xb") as stream, progress("downloading", total or None) as advance:
                advance(stream.tell())
                while chunk := answer.read(CHUNK):
                    stream.write(chunk)
                    advance(len(chunk), note=f"{stream.tell() / 1e6:,.0f} MB")
        if total and part.stat().st_size != total:
            raise ConnectionError("the connection was lost")
        return part
    except (OSError, HTTPException) as error:  # what urllib raises
        if done and getattr(error, "code", 0) == 416:  # the file is shorter now
            part.unlink()
            return download(url, folder, size)
        why = str(getattr(error, "reason", None) or error or type(error).__name__).partition("\n")[0].rstrip(".")
        why = f"HTTP {error.code}: {why}" if isinstance(error, HTTPError) else why
        again = "; run it again to continue" if part.exists() and part.stat().st_size else ""
        message = f"{url} cannot be downloaded ({'not a valid address' if repeats_secrets(why, url) else why}){again}"
        raise InputError(message) from harmless(error, url)


def check_digest(file: Path, expected: str) -> None:
    """Raise FormatError if the digest of a file is not the one we know, such as "sha256:..."."""
    kind, _, known = expected.partition(":")
    digest = hashlib.new(kind)
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != known:
        raise FormatError(f"its {kind} is {digest.hexdigest()}, expected {known}")


def take_out(archive: Path, file: str, folder: Path) -> Path:
    """Copy one file of a zip or tar archive to a folder, without its path; `*` in its name stands for anything.

    The archive has no say in where the copy is: its name is the one that is asked for, with "file" in place of `*`.
    """
    target = folder / PurePosixPath(file.replace("*", "file")).name
    with damage_in(archive.name, "the archive is damaged"):
        for name, stream in files_in(archive):
            if PurePosixPath(name).match(file):
                with target.open("wb") as copy:
                    while chunk := stream.read(CHUNK):
                        check_expansion(archive.name, archive.stat().st_size, copy.tell() + len(chunk))
                        copy.write(chunk)
                return target
    raise FormatError(f"{archive.name} does not contain {file}")


def files_in(archive: Path) -> Iterator[tuple[str, Any]]:
    """Yield the name of each file in a zip or tar archive, and the file, open for reading."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                with zipped.open(name) as stream:
                    yield name, stream
    else:
        with open_bytes(archive) as raw, tarfile.open(fileobj=raw, mode="r|") as tar:
            yield from ((member.name, tar.extractfile(member)) for member in tar if member.isfile())
