"""The commands count and learn: word counts and a model from text."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import pbos
from pbos.cli import options
from pbos.cli.common import note, output_path, texts_of
from pbos.cli.files import check_output, note_saved
from pbos.errors import InputError
from pbos.files.atomic import remove
from pbos.files.paths import absolute, is_remote


class Counting:
    """Options of count and learn that the library takes as they are."""

    cooccurrences: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Keep the co-occurrences here, for pbos learn FOLDER or --add."),
    ] = None
    column: Annotated[
        str | None, Option(metavar="NAME", help="Tables: the column of text; default: the only column of strings.")
    ] = None
    lowercase: Annotated[bool, Option(help="Lowercase the text.")] = True
    pretokenized: Annotated[bool, Option("--pretokenized", help="Split on spaces only.")] = False
    window: Annotated[
        int, Option(min=1, max=100, metavar="N", help="Words at most N apart in a line count as near each other.")
    ] = 5
    add: Annotated[bool, Option("--add", help="Add the text to existing co-occurrences.")] = False
    resume: Annotated[bool, Option("--resume", help="Resume an interrupted run of the same command.")] = False
    memory: options.Memory = "4G"
    threads: options.Threads = None
    scheduler: options.Scheduler = None


class Learning(Counting):
    """Options of learn that the library takes as they are."""

    dims: Annotated[int, Option(min=1, metavar="N", help="Number of dimensions.")] = 100
    min_count: Annotated[int, Option(min=1, metavar="N", help="Words need to occur N times to get a word vector.")] = 2
    max_words: Annotated[int, Option(min=1, metavar="N", help="Only the N most frequent words get a word vector.")] = (
        500_000
    )
    vectors: Annotated[str | None, Option(metavar="FILE", help="Also write the word vectors: .vec, .npz, ...")] = None
    counts: Annotated[str | None, Option(metavar="FILE", help="Also write the word counts: .tsv or .csv.")] = None
    dtype: options.DType = "float16"
    seed: options.Seed = 0


@options.with_options(Counting)
def count(
    text: Annotated[
        list[str] | None, Argument(metavar="FILE", help="Text or tables, possibly compressed; default: stdin.")
    ] = None,
    *,
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help="Where to write the counts: .tsv or .csv.")],
    min_count: Annotated[int, Option(min=1, metavar="N", help="Leave out words that occur fewer than N times.")] = 1,
    **given: Any,
) -> None:
    """Count the words of a text.

    Splits text into words as pbos learn does; the most frequent come first. On a cluster, workers read the files and
    write next to the output, so both must be on storage that they share.

    \b
    Examples:
      pbos count corpus.txt -o counts.tsv
      pbos count 'texts/*.parquet' --column text --min-count 5 -o counts.tsv.gz
      pbos count 'texts/*.txt.gz' --scheduler tcp://10.0.0.1:8786 -o counts.tsv
      pbos count corpus.txt --cooccurrences counted -o counts.tsv
    """
    output = output_path(output)
    counts = pbos.count(texts_of(text), output, min_count=min_count, **given)
    note(f"wrote {output}: {len(counts):,} words, {int(counts.counts.sum()):,} times in all")


@options.with_options(Learning, "max_vectors")
def learn(
    text: Annotated[
        list[str] | None,
        Argument(metavar="FILE", help="Text, tables, or a folder of co-occurrences; default: stdin."),
    ] = None,
    *,
    output: options.ModelOutput,
    force: options.Force = False,
    verbose: options.Verbose = False,
    **given: Any,
) -> None:
    """Learn a model from text.

    Counts which words occur near each other in a line, factors the counts, and trains on the resulting word vectors.
    Words are runs of letters, digits and marks, with apostrophes and hyphens inside; text in which spaces do not
    separate words must be tokenized first (--pretokenized).

    \b
    Examples:
      pbos learn corpus.txt -o my-model
      pbos learn 'texts/*.txt.gz' --dims 200 --vectors words.vec -o my-model
      pbos learn corpus.txt --cooccurrences counted -o my-model
      pbos learn more.txt --add --cooccurrences counted -o my-model
      pbos learn counted --dims 300 -o my-model
      pbos learn reviews.parquet --column text --memory 8G -o my-model
    """
    cooccurrences, add, resume = given.pop("cooccurrences", None), given["add"], given["resume"]
    if add and cooccurrences is None:
        raise InputError("--add needs the folder to add to; name it with --cooccurrences")
    folder = absolute(Path(output).name if is_remote(output) else output)
    kept = cooccurrences or folder.with_name(f"{folder.name}.counting")
    goes_on = resume and (kept.exists() or kept.with_name(f"{kept.name}.parts").exists())
    check_output(output, replace=force or goes_on or add)
    if absolute(kept) == folder and not is_remote(output):
        raise InputError(f"the model and the co-occurrences cannot both be saved to {output}; choose another folder")
    start = time.perf_counter()
    model = pbos.learn(texts_of(text), output=output, cooccurrences=kept, **given)
    if cooccurrences is None:
        remove(kept)
    facts = model.info["learning"]
    note(f"read {facts['tokens']:,} words, {facts['distinct']:,} of them distinct")
    note_saved(model, output, start, verbose)
