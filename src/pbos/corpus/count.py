"""count(): from text to word counts, and co-occurrences."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pbos.corpus.cooccurrences import Cooccurrences, Counting
from pbos.corpus.counting import count_text, folder_of_runs
from pbos.corpus.sources import source_of
from pbos.errors import InputError, whole_number
from pbos.files.atomic import check_target, remove, sweep
from pbos.files.paths import absolute, is_remote, resolve_links, to_local_path
from pbos.jobs.interrupts import interruptible
from pbos.jobs.pools import check_scheduler, pool_of
from pbos.jobs.threads import memory_size, thread_count
from pbos.tables.counts import WordCounts, check_name

MAX_WINDOW = 100
DEFAULT_MEMORY = 4 << 30


@interruptible
def count(
    text: Any,
    output: str | PathLike[str] | None = None,
    *,
    column: str | None = None,
    min_count: int = 1,
    lowercase: bool = True,
    pretokenized: bool = False,
    cooccurrences: str | PathLike[str] | None = None,
    window: int = 5,
    add: bool = False,
    resume: bool = False,
    memory: int | str = "4G",
    threads: int | None = None,
    scheduler: Any = None,
    progress: bool | None = None,
) -> WordCounts:
    """Count the words of a text.

    Args:
        text: Files, sentences or lists of tokens, as for `learn`.
        output: A file to write the counts to; see `WordCounts.write`.
        column: The text column of Parquet and Arrow files; None for the only column of strings.
        min_count: Leave out words that occur less often.
        lowercase: Change text to lower case.
        pretokenized: Split on spaces only, as in `learn`.
        cooccurrences: A folder to keep co-occurrences in; `learn` takes it instead of text. None to count words only.
        window: Co-occurrences: how many words apart two words may be to count as near.
        add: Add the text to the co-occurrences in the folder.
        resume: Continue an interrupted call with the same arguments; needs `output` or `cooccurrences`.
        memory: Memory limit for counting, in bytes or as "4G"; on a cluster, workers use half a GiB each.
        threads: The number of threads; None for one per core.
        scheduler: Count on a Dask cluster (extra dask): the address of its scheduler, "local", or a client. Workers
            read the text and write next to `output` or `cooccurrences`, so these must be on storage that they share.
        progress: Show a progress bar; None for "if stderr is a terminal".

    Returns:
        The words, the most frequent first. The counts are exact, and the same on any number of threads or workers.

    >>> list(count(["The cat saw the dog.", "The end"]))[:2]
    [('the', 3.0), ('cat', 1.0)]
    """
    min_count, most = whole_number("min_count", min_count, 1), memory_size(memory)
    check_counting(window, threads, scheduler)
    kept = cooccurrences
    if kept is None and output is not None:
        kept = f"{Path(output).name if is_remote(output) else os.fspath(output)}.words"
    check_kept("cooccurrences=FOLDER", cooccurrences, add=add)
    check_kept("output=FILE", kept, resume=resume, scheduler=scheduler not in (None, "local"))
    if output is not None and not is_remote(output) and to_local_path(output).is_dir():
        raise InputError(f"{output} is a folder, not a file to write counts to")
    check_name(output or "")
    check_outputs([output], kept)
    source = source_of(text, column, pretokenized)
    counting = Counting(source.cut, bool(lowercase), window if cooccurrences else 0)
    with folder_for(kept, counting, add, resume) as folder, pool_of(scheduler, threads, most) as pool:
        found = count_text(source, counting, folder, pool, add=add, temporary=kept is None, progress=progress)
        order = np.argsort(-found.counts, kind="stable")
        order = order[found.counts[order] >= min_count]
        if not order.size:
            raise InputError(f"no word of the text occurs {min_count} times")
        counts = WordCounts(found.words_at(order), found.counts[order])
        del found  # before its folder is removed
    if output is not None:
        counts.write(output)
    if kept is not None and cooccurrences is None:
        remove(absolute(kept))
    return counts


@contextmanager
def counted(
    text: Any,
    *,
    lowercase: bool = True,
    window: int = 5,
    seed: int = 0,
    column: str | None = None,
    pretokenized: bool = False,
    kept: str | PathLike[str] | None = None,
    add: bool = False,
    resume: bool = False,
    memory: int | None = None,
    threads: int | None = None,
    scheduler: Any = None,
    progress: bool | None = None,
) -> Iterator[Cooccurrences]:
    """Yield the co-occurrences of a text, which has been counted already or is counted now; see `learn`."""
    if isinstance(text, (str, PathLike)) and not is_remote(text) and to_local_path(text).is_dir():
        text = Cooccurrences.load(text)
    if isinstance(text, Cooccurrences):
        yield text
        return
    remote = scheduler not in (None, "local")
    check_kept("cooccurrences=FOLDER", kept, add=add, resume=resume, scheduler=remote)
    source = source_of(text, column, pretokenized)
    counting = Counting(source.cut, bool(lowercase), window, seed=seed)
    pool_used = pool_of(scheduler, threads, memory or DEFAULT_MEMORY)
    with folder_for(kept, counting, add, resume) as folder, pool_used as pool:
        yield count_text(source, counting, folder, pool, add=add, temporary=kept is None, progress=progress)


@contextmanager
def contexts_of(text: Any, form: str, **how: Any) -> Iterator[Cooccurrences | None]:
    """Yield the co-occurrences of a text, in lower case if a table's words are normalized so; None without a text."""
    if text is None:
        yield None
        return
    with counted(text, lowercase=form in ("lower", "casefold"), **how) as found:
        if not found.data.size:
            raise InputError("the text has no contexts: every word is alone on its line, or only words were counted")
        yield found


@contextmanager
def folder_for(kept: str | PathLike[str] | None, counting: Counting, add: bool, resume: bool) -> Iterator[Path]:
    """Yield the folder to count into: a temporary one, or the one to keep, if what it has is what to go on with."""
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="pbos-") as scratch:
            yield Path(scratch, "counted")
        return
    folder = resolve_links(absolute(kept))
    parts = folder_of_runs(folder)
    sweep(folder.parent, folder.name)
    if parts.exists() and not resume:
        raise InputError(
            f"{parts} is from an interrupted run, or one that is still going; to continue it, use --resume "
            "(resume=True in Python); to start over, delete it"
        )
    if add and not folder.exists():
        raise InputError(f"{folder} does not exist, so there is nothing to add to; count the first text without add")
    if folder.exists():
        known = Cooccurrences.load(folder).counting
        if known != counting:
            raise InputError(f"{folder} was counted with different settings ({known}); use these, or another folder")
        if not (add or resume):
            raise InputError(
                f"{folder} already exists; use --resume or --add (resume=True or add=True in Python), choose another "
                "folder, or delete it"
            )
    yield folder


def check_kept(place: str, folder: str | PathLike[str] | None, **wanted: bool) -> None:
    """Raise InputError if an argument needs a folder that is not there."""
    for name, value in wanted.items():
        if value and folder is None:
            raise InputError(f"{name} needs a place to keep the counts; pass {place}")


def check_outputs(
    files: list[str | PathLike[str] | None],
    counted: str | PathLike[str] | None,
    of_training: tuple[str | PathLike[str] | None, ...] = (),
) -> None:
    """Raise InputError if files or the folder `counted` cannot be written, or one place to write is in another."""
    paths = [path for path in (*files, counted and absolute(counted)) if path is not None]
    for path in paths:
        check_target(path)
    places = [*files, counted, counted and folder_of_runs(absolute(counted)), *of_training]
    given = [(path, resolve_links(path)) for path in places if path is not None and not is_remote(path)]
    for (one, place), (other, outer) in itertools.permutations(given, 2):
        if outer in (place, *place.parents):
            raise InputError(f"{one} and {other} are the same, or one is inside the other; choose separate paths")


def check_counting(window: int, threads: int | None, scheduler: Any) -> None:
    """Raise an error about an argument of `count` and `learn` that cannot be used."""
    if whole_number("window", window, 1) > MAX_WINDOW:
        raise InputError(f"window can be at most {MAX_WINDOW}, got {window}")
    thread_count(threads)
    check_scheduler(scheduler)
