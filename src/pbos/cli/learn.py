"""The commands count and learn: word counts and a model from text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import pbos
from pbos.cli import options
from pbos.cli.common import note, texts_of
from pbos.cli.files import check_output, note_saved
from pbos.errors import InputError
from pbos.files.atomic import remove
from pbos.files.paths import absolute, is_remote


class Counting:
    """Options of count and learn that the library takes as they are."""

    cooccurrences: Annotated[
        Path | None, Option(metavar="FOLDER", help="Keep the co-occurrences, for pbos learn FOLDER or to add text.")
    ] = None
    column: Annotated[
        str | None, Option(metavar="NAME", help="Tables: the column of text; by default the only one of strings.")
    ] = None
    lowercase: Annotated[bool, Option(help="Change text to lower case.")] = True
    pretokenized: Annotated[bool, Option("--pretokenized", help="Words are what stands between spaces.")] = False
    window: Annotated[int, Option(min=1, max=100, help="How many words apart two words may be to count as near.")] = 5
    add: Annotated[bool, Option("--add", help="Add the text to the co-occurrences in the folder.")] = False
    resume: Annotated[bool, Option("--resume", help="Go on where the same command was interrupted.")] = False
    memory: Annotated[str, Option(metavar="SIZE", help="The most memory to use.")] = "4G"
    threads: options.Threads = None
    scheduler: options.Scheduler = None


class Learning(Counting):
    """Options of learn that the library takes as they are."""

    dims: Annotated[int, Option(min=1, help="The number of dimensions.")] = 100
    min_count: Annotated[int, Option(min=1, help="How often a word has to occur to get a word vector.")] = 2
    max_words: Annotated[int, Option(min=1, help="How many words get a word vector at most.")] = 500_000
    vectors: Annotated[str | None, Option(metavar="FILE", help="Write the word vectors too: .vec, .npz, ...")] = None
    counts: Annotated[str | None, Option(metavar="FILE", help="Write the word counts too: .tsv or .csv.")] = None
    dtype: options.DType = "float16"
    seed: Annotated[int, Option(min=0, help="Determines how frequent words are subsampled.")] = 0


@options.with_options(Counting)
def count(
    text: Annotated[
        list[str] | None, Argument(metavar="FILE", help="Text or tables, possibly compressed; by default stdin.")
    ] = None,
    *,
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help="Where to write the counts: .tsv or .csv.")],
    min_count: Annotated[int, Option(min=1, help="Leave out words that occur less often.")] = 1,
    **given: Any,
) -> None:
    """Count the words of a text.

    Words are those of pbos learn; the most frequent come first. On a cluster, workers read the files and write next to
    the output, so both have to be on storage that they share.

    \b
    Examples:
      pbos count corpus.txt -o counts.tsv
      pbos count 'texts/*.parquet' --column text --min-count 5 -o counts.tsv.gz
      pbos count 'texts/*.txt.gz' --scheduler tcp://10.0.0.1:8786 -o counts.tsv
      pbos count corpus.txt --cooccurrences counted -o counts.tsv
    """
    counts = pbos.count(texts_of(text), output, min_count=min_count, **given)
    note(f"wrote {output}: {len(counts):,} words, {int(counts.counts.sum()):,} times in all")


@options.with_options(Learning, "max_vectors")
def learn(
    text: Annotated[
        list[str] | None,
        Argument(metavar="FILE", help="Text, tables, or a folder of co-occurrences; by default stdin."),
    ] = None,
    *,
    output: options.ModelOutput,
    force: options.Force = False,
    **given: Any,
) -> None:
    """Learn a model from text.

    Counts which words occur near each other, factors the counts, and trains on the word vectors. Words count as near
    within a line. They are letters, digits and marks, with apostrophes and hyphens between them; text in which spaces
    do not separate words has to be cut before (--pretokenized).

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
        raise InputError("--add needs the folder to add to; give it with --cooccurrences")
    folder = absolute(Path(output).name if is_remote(output) else output)
    kept = cooccurrences or folder.with_name(f"{folder.name}.counting")
    goes_on = resume and (kept.exists() or kept.with_name(f"{kept.name}.parts").exists())
    check_output(output, replace=force or goes_on or add)
    if absolute(kept) == folder and not is_remote(output):
        raise InputError(f"the model and the co-occurrences cannot both be saved to {output}; choose another folder")
    model = pbos.learn(texts_of(text), output=output, cooccurrences=kept, **given)
    if cooccurrences is None:
        remove(kept)
    facts = model.info["learning"]
    note(f"read {facts['tokens']:,} words, {facts['distinct']:,} of them distinct")
    note_saved(model, output)
