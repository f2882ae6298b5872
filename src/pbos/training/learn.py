"""learn(): from text to a model."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from typing import Any

from pbos.corpus.count import check_counting, check_outputs, counted
from pbos.corpus.vectors import word_vectors
from pbos.errors import InputError, whole_number
from pbos.jobs.interrupts import interruptible
from pbos.jobs.threads import memory_size
from pbos.model import Model
from pbos.tables.counts import WordCounts, check_name
from pbos.tables.formats import choose_format
from pbos.tables.word_vectors import WordVectors
from pbos.training.train import check_arguments, check_info, train
from pbos.words.readonly import locked


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
    with counted(
        text,
        lowercase=lowercase,
        window=window,
        seed=seed,
        column=column,
        pretokenized=pretokenized,
        kept=cooccurrences,
        add=add,
        resume=resume,
        memory=most,
        threads=threads,
        scheduler=scheduler,
        progress=progress,
    ) as pairs:
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
    table, frequencies = WordVectors(words, locked(matrix)), WordCounts(words, n_times)
    if vectors is not None:
        table.write(vectors, progress=progress)
    if counts is not None:
        frequencies.write(counts)
    report |= {"min_count": min_count, "max_words": max_words}
    return train(table, frequencies, info={**info, "learning": report}, **options)
