"""`embed_files()`: the vectors of very many words, part by part, in this process or on a cluster."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pbos import __version__
from pbos.corpus.sources import files_of, grouped, plain_size
from pbos.errors import InputError
from pbos.files import paths
from pbos.files.atomic import check_target, discard, staging_path, write_whole
from pbos.files.model_folder import CONFIG, TENSORS, folder_of, resolve_model
from pbos.jobs.interrupts import interruptible
from pbos.jobs.pools import pool_of
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import in_threads
from pbos.model import Model

if TYPE_CHECKING:
    from pbos.adapters.arrow import Embedded, Embedder, MissingInColumn
    from pbos.tables.columns import Table

ROWS = 1 << 20  # of Parquet in a part, except that row groups are not cut
BYTES = 8 << 20  # of text in a part
JOB, SUCCESS = "_job.json", "_SUCCESS"  # Spark, Dask and Arrow do not read files whose names start so
AT_ONCE = 16  # requests to a remote store


class Part(NamedTuple):
    """A part of the words: row groups of a Parquet file, the lines that start in a range of bytes, or a whole file."""

    path: str
    first: int = 0
    end: int | None = None


@interruptible
def embed_files(
    model: Model | str | PathLike[str] | None,
    sources: str | PathLike[str] | Iterable[str | PathLike[str]],
    target: str | PathLike[str],
    *,
    column: str | None = None,
    vector_column: str = "vector",
    confidence_column: str | None = None,
    missing: MissingInColumn = "error",
    exact: bool = False,
    threads: int | None = None,
    scheduler: str | Any = None,
    progress: bool | None = None,
) -> Embedded:
    """Embed the words of many files into a folder of Parquet files, in this process or on a Dask cluster.

    The words are divided into parts of about a million, and each part becomes a file: `part-00000.parquet` and so on,
    with the columns that `embed_table` writes. The file `_SUCCESS` says that the folder is complete. If the work was
    interrupted, call this again: parts that are there are kept. The files do not depend on where they were made.

    Args:
        model: The folder of the model, or its URL, which all workers can read; None for the English model of pbos; or a
            model, which is saved next to the target temporarily.
        sources: Files, URLs, or patterns such as "words/*.parquet": Parquet, Arrow, CSV, TSV, or text with one word per
            line, possibly compressed. Parquet files are divided at their row groups and text files at their lines; any
            other file is one part.
        target: The folder, or its URL, which all workers can write to.
        column: Tables: the column of words; None for the only column of strings, or "word" in CSV. Text: the name of
            the column.
        vector_column: The name of the column of vectors.
        confidence_column: The name of another column, of the confidence of each word; None for no such column.
        missing: What to do with missing words (null or empty): "error", "zeros" for zero vectors, or "null".
        exact: Return the given vectors of training words, as in `model.embed`.
        threads: The number of threads of this process; None for one per core.
        scheduler: Where to work: None for this process; the address of a Dask scheduler, such as
            "tcp://10.0.0.1:8786"; "local" for processes on this machine; or Dask's client.
        progress: Whether to show a progress bar; None for "if stderr is a terminal".
    """
    from pbos.adapters.arrow import EXAMPLES, Embedded, Embedder

    named = [sources] if isinstance(sources, (str, PathLike)) else sources
    folder, files = paths.everywhere(target), [paths.everywhere(path) for path in files_of(named)]
    check_target(folder)
    options: dict[str, Any] = {"column": column, "missing": missing, "exact": exact}
    options |= {"vector_column": vector_column, "confidence_column": confidence_column}
    with ExitStack() as stack:
        if isinstance(model, Model):  # all workers read it from here
            if paths.is_remote(folder):
                raise InputError(f"a model in memory cannot be used for {folder}; save it, and pass its path")
            saved = stack.enter_context(staging_path(Path(folder)))
            model.save(saved)
            model = saved
        embedder = Embedder(model, **options)
        embedder.embed([])  # raises an error if the model lacks what is asked of it
        job = {
            "pbos": __version__,
            "model": digest_of(folder_of(resolve_model(model))),
            "inputs": in_threads(lambda file: [paths.public_name(file), *paths.state_of(file)], files, AT_ONCE),
            "options": options,
        }
        check_folder(folder, job)
        with pool_of(scheduler, threads) as pool:
            found = pool.map("list-parts", partial(parts_of, embedder, rows=ROWS, size=BYTES), files)
            parts = list(enumerate(itertools.chain.from_iterable(found)))
            there = paths.names_in(folder)
            left = [(number, part) for number, part in parts if name_of(number) not in there]
            if not paths.is_remote(folder):
                Path(folder).mkdir(exist_ok=True)
            if left:  # readers must not take it for complete
                paths.remove_file(f"{folder}/{SUCCESS}")
            with write_whole(f"{folder}/{JOB}") as stream:
                stream.write(json.dumps(job, indent=1).encode() + b"\n")
            if scheduler is None:
                embedder = replace(embedder, threads=max(1, pool.size // max(1, len(left))))
            with progress_bar("embedding", len(parts), progress) as advance:
                advance(len(parts) - len(left))
                embed = partial(embed_part, embedder, folder)
                results = pool.map("embed-words", embed, left, lambda part: advance(1))
        finish(folder)
    n_words, uncovered, n_missing = (sum(map(attrgetter(name), results)) for name in ("words", "uncovered", "missing"))
    examples = [word for part in results for word in part.examples][:EXAMPLES]
    return Embedded(len(left), len(parts) - len(left), n_words, uncovered, examples, n_missing)


def digest_of(folder: Path) -> str:
    """Return a digest of the content of a model folder."""
    digest = hashlib.sha256((folder / CONFIG).read_bytes())
    digest.update(np.memmap(folder / TENSORS, np.uint8, "r").data)
    return digest.hexdigest()


def check_folder(folder: str, job: dict[str, Any]) -> None:
    """Raise InputError if a folder is none, or has anything else than the vectors of a job."""
    if paths.exists(folder) and not paths.is_folder(folder):
        raise InputError(f"{folder} is a file; choose a folder")
    there = paths.names_in(folder)
    if there and JOB not in there:
        raise InputError(f"{folder} contains other files; choose another folder, or delete this one")
    if any(name.startswith("part-") for name in there):
        with paths.open_bytes(f"{folder}/{JOB}") as stream:
            try:
                before = dict(json.loads(stream.read()))
            except (ValueError, TypeError, RecursionError):
                raise InputError(f"{folder}/{JOB} is damaged; choose another folder, or delete this one") from None
        if others := [name for name in job if job[name] != before.get(name)]:
            raise InputError(
                f"{folder} has vectors from another job (with different {', '.join(others)}); "
                "choose another folder, or delete this one"
            )


def finish(folder: str) -> None:
    """Mark a folder as complete, and remove what lost workers have left, or still write."""
    if not paths.is_remote(folder):
        for rest in Path(folder).glob(".part-*.tmp"):
            discard(rest)
    with write_whole(f"{folder}/{SUCCESS}"):
        pass


def name_of(number: int) -> str:
    """Return the name of the file of a part."""
    return f"part-{number:05}.parquet"


def parts_of(embedder: Embedder, path: str, rows: int, size: int) -> list[Part]:
    """Return the parts of a file, with at most `rows` rows of Parquet or `size` bytes of text each.

    Raises an error if the file has no column of words, or has one of those to add.
    """
    with open_part(Part(path), embedder.column) as table:
        embedder.schema(table.schema)
        if table.groups is not None:
            groups = grouped(range(len(table.groups)), table.groups.__getitem__, rows)
            return [Part(path, group[0], group[-1] + 1) for group in groups] or [Part(path, 0, 0)]
    if paths.is_table(path) or (length := plain_size(path)) is None:
        return [Part(path)]
    return [Part(path, first, first + size) for first in range(0, max(length, 1), size)]


@contextmanager
def open_part(part: Part, column: str | None) -> Iterator[Table]:
    """Open a part as a table."""
    from pbos.tables.columns import open_table, table_of_words

    if paths.is_table(part.path):
        groups = None if part.end is None else range(part.first, part.end)
        with open_table(part.path, column, groups) as table:
            yield table
        return
    place = f"{part.path}, {f'after byte {part.first}, ' if part.first else ''}line"
    with paths.open_bytes(part.path) as stream:
        words = paths.words_of_lines(paths.lines_between(stream, part.first, part.end), place)
        yield table_of_words(words, column or "word", place)


def embed_part(embedder: Embedder, folder: str, numbered: tuple[int, Part]) -> Embedded:
    """Write the file of a part."""
    number, part = numbered
    with open_part(part, embedder.column) as table:
        return embedder.copy(table, f"{folder}/{name_of(number)}")
