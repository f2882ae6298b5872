"""learn(): from text to a model."""

from __future__ import annotations

import inspect
import re
import shutil
import tempfile
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from pbos.corpus.cooccurrences import Cooccurrences, Counting
from pbos.corpus.counting import count_text, digest_of
from pbos.corpus.sources import Source, source_of
from pbos.corpus.vectors import n_steps, word_vectors
from pbos.counts import WordCounts
from pbos.errors import InputError, whole_number
from pbos.files import absolute, check_target
from pbos.model import Model
from pbos.progress import progress as progress_bar
from pbos.settings import DTYPES, Preset, check_choice
from pbos.training import train
from pbos.vectors import WordVectors
from pbos.vectors.formats import choose_format

MIN_CONTEXT_COUNT = 5
MAX_CONTEXTS = 50_000
MAX_WINDOW = 100
LEAST_MEMORY = 512 << 20
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


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
    memory: int | str = "4G",
    threads: int | None = None,
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
            Cooccurrences, to learn from these again; then arguments about counting have no effect.
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
        memory: The most memory that counting and factoring may use, in bytes or as "4G".
        threads: The number of threads; None for one per core. The model is the same byte for byte for any number.
        seed: Determines how frequent words are thinned out, and random numbers.
        progress: Show progress bars; None for "if stderr is a terminal".
        **training: Other arguments of `train`, such as `max_vectors`.

    >>> sentences = ["the cat sat on the mat", "a dog sat on a log", "the dog saw the cat"] * 50
    >>> model = learn(sentences, dims=4)
    >>> model.embed("catlike").shape
    (4,)
    """
    dims, window, min_count = (
        whole_number(name, value, 1) for name, value in (("dims", dims), ("window", window), ("min_count", min_count))
    )
    max_words, seed = whole_number("max_words", max_words, 1), whole_number("seed", seed, 0)
    if window > MAX_WINDOW or seed >= 2**63:
        raise InputError(f"window can be at most {MAX_WINDOW}, and seed at most 2**63 - 1; got {window} and {seed}")
    most = memory_size(memory)
    check_options(vectors, counts, cooccurrences, add, resume, dtype, training)
    with tempfile.TemporaryDirectory(prefix="pbos-") as scratch:
        if isinstance(text, Cooccurrences):
            pairs = text
        else:
            source = source_of(text, column)
            cut = "tokens" if source.tokens else "spaces" if pretokenized else "words"
            counting = Counting(cut, bool(lowercase), window, seed=seed)
            folder = absolute(cooccurrences or Path(scratch, "cooccurrences"))
            pairs = counted(source, counting, folder, add, resume, threads=threads, memory=most, progress=progress)
        with progress_bar("factoring", n_steps(dims), progress) as advance:
            words, matrix, n_times = word_vectors(
                pairs,
                dims,
                min_count=min_count,
                max_words=max_words,
                min_context_count=MIN_CONTEXT_COUNT,
                max_contexts=MAX_CONTEXTS,
                seed=seed,
                threads=threads,
                memory=most,
                on_step=advance,
            )
        report = {"tokens": int(pairs.counts.sum()), "distinct": len(pairs), **asdict(pairs.counting)}
        del pairs  # before its folder is removed
    table, frequencies = WordVectors(words, matrix), WordCounts(words, n_times)
    if vectors is not None:
        table.write(vectors, progress=progress)
    if counts is not None:
        frequencies.write(counts)
    options = {"keep_targets": keep_targets, "threads": threads, "seed": seed, "progress": progress, **training}
    model = train(table, frequencies, **options)
    model.info["learning"] = {**report, "min_count": min_count, "max_words": max_words}
    return model.compress(dtype=dtype, keep_targets=keep_targets)


def check_options(
    vectors: str | PathLike[str] | None,
    counts: str | PathLike[str] | None,
    cooccurrences: str | PathLike[str] | None,
    add: bool,
    resume: bool,
    dtype: str,
    training: dict[str, Any],
) -> None:
    """Raise InputError about what would be found only after counting."""
    if (add or resume) and cooccurrences is None:
        raise InputError(f"{'add' if add else 'resume'} needs the folder of co-occurrences; pass cooccurrences=FOLDER")
    if vectors is not None:
        choose_format(vectors, None)
    for path in (vectors, counts, cooccurrences and absolute(cooccurrences)):
        if path is not None:
            check_target(path)
    check_choice("dtype", dtype, DTYPES)
    others = inspect.signature(train).parameters
    settings = {name: value for name, value in training.items() if name not in others}
    Preset.named(training.get("preset", "default"), settings, others=others)


def counted(
    source: Source,
    counting: Counting,
    folder: Path,
    add: bool,
    resume: bool,
    *,
    threads: int | None,
    memory: int,
    progress: bool | None,
) -> Cooccurrences:
    """Return the co-occurrences of a text, from the folder where they are kept."""
    parts = folder.with_name(f"{folder.name}.parts")
    if parts.exists() and not resume:
        raise InputError(f"{parts} is left from an interrupted call; resume it, or remove the folder")
    known = Cooccurrences.load(folder) if folder.exists() else None
    if add and known is None:
        raise InputError(f"{folder} does not exist, so nothing can be added to it; count the first text without add")
    if known is not None and known.counting != counting:
        raise InputError(f"{folder} was counted with other settings ({known.counting}); use these, or another folder")
    if known is not None and not (add or resume):
        raise InputError(f"{folder} exists already; add to it, choose another folder, or remove it")
    with progress_bar("counting", source.size, progress) as advance:
        if known is not None and not add:  # the interrupted call was done with counting
            if list(map(digest_of, source.blocks())) != known.blocks:
                raise InputError(f"{folder} has counts of another text; use the same again, or another folder")
            shutil.rmtree(parts, ignore_errors=True)
            return known
        return count_text(
            source, counting, parts, known=known, target=folder, threads=threads, memory=memory, on_block=advance
        )


def memory_size(memory: int | str) -> int:
    """Return an amount of memory in bytes.

    >>> memory_size("1.5G")
    1610612736
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(memory).strip(), re.IGNORECASE)
    if not match or not float(match[1]):
        raise InputError(f"memory must be a number of bytes or such as '4G', got {memory!r}")
    size = int(float(match[1]) * UNITS[match[2].upper()])
    if size < LEAST_MEMORY:
        raise InputError(f"memory must be at least {LEAST_MEMORY >> 20}M, got {memory!r}")
    return size
