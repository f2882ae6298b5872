"""count() and learn(): from text to word counts, and to a model."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pbos.corpus.cooccurrences import Cooccurrences, Counting
from pbos.corpus.counting import count_text, folder_of_runs
from pbos.corpus.sources import source_of
from pbos.corpus.vectors import word_vectors
from pbos.errors import InputError, whole_number
from pbos.files.atomic import check_target, remove, sweep
from pbos.files.paths import absolute, is_remote, resolve_links, to_local_path
from pbos.jobs.interrupts import interruptible
from pbos.jobs.pools import check_scheduler, pool_of
from pbos.jobs.threads import thread_count
from pbos.model import Model
from pbos.tables.counts import WordCounts, check_name
from pbos.tables.formats import choose_format
from pbos.tables.word_vectors import WordVectors
from pbos.training.train import check_arguments, check_info, memory_size, train
from pbos.words.readonly import locked

MAX_WINDOW = 100


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
        column: The column of Parquet and Arrow files that has the text; None for the only one of strings.
        min_count: Leave out words that occur less often.
        lowercase: Change text to lower case.
        pretokenized: Take what stands between spaces as words, as in `learn`.
        cooccurrences: Count co-occurrences too, and keep them in this folder, which `learn` takes instead of text.
        window: Co-occurrences: how many words apart two words may be to count as near.
        add: Add the text to the co-occurrences in the folder.
        resume: Go on where an interrupted call with the same arguments stopped; needs a file or folder to write.
        memory: The most memory to use for counting, in bytes or as "4G"; on a cluster, workers use half a GiB each.
        threads: The number of threads; None for one per core.
        scheduler: Count on a Dask cluster (extra dask): the address of its scheduler, "local", or a client. Workers
            read the text and write next to `output` or `cooccurrences`, so these have to be on storage that they share.
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


@interruptible
def learn(
    text: Any,
    *,
    column: str | None = None,
    dims: int = 100,
    window: int = 5,
    min_count: int = 2,
    max_words: int = 500_000,
    lowercase: bool = True,
    pretokenized: bool = False,
    vectors: str | PathLike[str] | None = None,
    counts: str | PathLike[str] | None = None,
    cooccurrences: str | PathLike[str] | None = None,
    add: bool = False,
    resume: bool = False,
    dtype: str = "float16",
    keep_targets: bool = False,
    output: str | PathLike[str] | None = None,
    memory: int | str = "4G",
    threads: int | None = None,
    scheduler: Any = None,
    seed: int = 0,
    progress: bool | None = None,
    **training: Any,
) -> Model:
    """Learn a model from text.

    Counts which words occur near each other, makes word vectors from the counts (see `pbos.corpus.vectors`), and trains
    a model on these.

    Args:
        text: Files (a path, a URL, a pattern such as "texts/*.txt.gz", or a list of Path), sentences (an iterable or
            column of str), or lists of tokens. Words near each other count only within a line, or a sentence. Also
            Cooccurrences or their folder, to learn from these; then arguments about counting have no effect.
        column: The column of Parquet and Arrow files that has the text; None for the only one of strings.
        dims: The number of dimensions.
        window: How many words apart two words may be to count as near.
        min_count: How often a word has to occur to get a word vector. All other words get composed ones.
        max_words: How many words get a word vector at most; the most frequent ones.
        lowercase: Change text to lower case.
        pretokenized: Take what stands between spaces as words. Otherwise words are letters, digits and marks, with
            apostrophes and hyphens between them.
        vectors: A file to write the word vectors to, in any format of `WordVectors.write`.
        counts: A file to write the counts of these words to; see `WordCounts.write`.
        cooccurrences: A folder to keep the co-occurrences in.
        add: Add the text to those in the folder.
        resume: Go on where an interrupted call with the same arguments stopped; needs the folder.
        dtype: How to store the subword vectors: "float32", "float16" or "int8".
        keep_targets: Keep the word vectors in the model, for `embed(..., exact=True)`; see also `vectors`.
        output: A folder to save the model to.
        memory: The most memory to use, in bytes or as "4G"; training keeps to it only if there is an `output`.
        threads: The number of threads; None for one per core. The model is the same byte for byte for any number.
        scheduler: Count and train on a Dask cluster (extra dask): the address of its scheduler, "local", or a client.
            Workers read the text and write next to `cooccurrences` and `output`, so these have to be on storage that
            they share. Without `output`, training is done here.
        seed: Determines how frequent words are subsampled, and random numbers.
        progress: Show progress bars; None for "if stderr is a terminal".
        **training: Other arguments of `train`, such as `max_vectors` or `info`, which cannot have the name "learning":
            there pbos puts how the words were counted.

    >>> sentences = ["the cat sat on the mat", "a dog sat on a log", "the dog saw the cat"] * 50
    >>> model = learn(sentences, dims=4)
    >>> model.embed("catlike").shape
    (4,)
    """
    dims, min_count = whole_number("dims", dims, 1), whole_number("min_count", min_count, 1)
    max_words, most = whole_number("max_words", max_words, 1), memory_size(memory)
    check_counting(window, threads, scheduler)
    options: dict[str, Any] = {"dtype": dtype, "keep_targets": keep_targets, "seed": seed, **training}
    options |= {"threads": threads, "progress": progress}
    if output is not None:
        options |= {"output": output, "memory": most, "scheduler": scheduler}
    checked = check_arguments(**options)
    if (seed := checked.seed) >= 2**63:
        raise InputError(f"seed can be at most 2**63 - 1, got {seed}")
    info = options.pop("info", None) or {}
    check_info(info, "learning")
    if vectors is not None:
        choose_format(vectors)
    check_name(counts or "")
    check_outputs([vectors, counts], cooccurrences, of_training=(output, checked.parts))
    if isinstance(text, (str, PathLike)) and not is_remote(text) and to_local_path(text).is_dir():
        text = Cooccurrences.load(text)
    with ExitStack() as stack:
        if isinstance(text, Cooccurrences):
            pairs = text
        else:
            remote = scheduler not in (None, "local")
            check_kept("cooccurrences=FOLDER", cooccurrences, add=add, resume=resume, scheduler=remote)
            source, temporary = source_of(text, column, pretokenized), cooccurrences is None
            counting = Counting(source.cut, bool(lowercase), window, seed=seed)
            folder = stack.enter_context(folder_for(cooccurrences, counting, add, resume))
            with pool_of(scheduler, threads, most) as pool:
                pairs = count_text(source, counting, folder, pool, add=add, temporary=temporary, progress=progress)
        words, matrix, n_times = word_vectors(
            pairs,
            dims,
            min_count=min_count,
            max_words=max_words,
            seed=seed,
            threads=threads,
            memory=most,
            progress=progress,
        )
        report = {"tokens": int(pairs.counts.sum()), "distinct": len(pairs), **asdict(pairs.counting)}
        del pairs  # before its folder is removed
    table, frequencies = WordVectors(words, locked(matrix)), WordCounts(words, n_times)
    if vectors is not None:
        table.write(vectors, progress=progress)
    if counts is not None:
        frequencies.write(counts)
    report |= {"min_count": min_count, "max_words": max_words}
    return train(table, frequencies, info={**info, "learning": report}, **options)


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
        raise InputError(f"{parts} is left from an interrupted call, or in use by another; wait, resume, or remove it")
    if add and not folder.exists():
        raise InputError(f"{folder} does not exist, so nothing can be added to it; count the first text without add")
    if folder.exists():
        known = Cooccurrences.load(folder).counting
        if known != counting:
            raise InputError(f"{folder} was counted with other settings ({known}); use these, or another folder")
        if not (add or resume):
            raise InputError(f"{folder} exists already; resume, add to it, choose another folder, or remove it")
    yield folder


def check_kept(place: str, folder: str | PathLike[str] | None, **wanted: bool) -> None:
    """Raise InputError if an argument needs a folder that is not there."""
    for name, value in wanted.items():
        if value and folder is None:
            raise InputError(f"{name} needs a place to keep what is counted; pass {place}")


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
            raise InputError(f"{one} and {other} cannot both be written; choose places that are not in each other")


def check_counting(window: int, threads: int | None, scheduler: Any) -> None:
    """Raise an error about an argument of `count` and `learn` that cannot be used."""
    if whole_number("window", window, 1) > MAX_WINDOW:
        raise InputError(f"window can be at most {MAX_WINDOW}, got {window}")
    thread_count(threads)
    check_scheduler(scheduler)
