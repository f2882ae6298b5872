"""The commands count and learn: word counts and a model from text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import pbos
from pbos.cli import Interrupted
from pbos.cli.common import SchedulerOption, ThreadsOption, note, one_of, with_settings
from pbos.cli.files import ForceOption, OutputOption, check_output, note_saved
from pbos.errors import InputError, PbosError
from pbos.files.atomic import remove
from pbos.files.paths import absolute, is_remote, to_local_path
from pbos.settings import DTYPES

ColumnOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Tables: the column of text; by default the only one of strings.")
]
WindowOption = Annotated[
    int, typer.Option(min=1, max=100, help="How many words apart two words may be to count as near.")
]
LowercaseOption = Annotated[bool, typer.Option(help="Change text to lower case.")]
PretokenizedOption = Annotated[bool, typer.Option("--pretokenized", help="Words are what stands between spaces.")]
AddOption = Annotated[bool, typer.Option("--add", help="Add the text to the co-occurrences in the folder.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on where the same command was interrupted.")]


def count(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Text, possibly compressed, or tables; without files, stdin is read."),
    ] = None,
    *,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Where to write the counts: .tsv or .csv.")
    ],
    column: ColumnOption = None,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often.")] = 1,
    lowercase: LowercaseOption = True,
    pretokenized: PretokenizedOption = False,
    cooccurrences: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Count co-occurrences too, for pbos learn FOLDER.")
    ] = None,
    window: WindowOption = 5,
    add: AddOption = False,
    resume: ResumeOption = False,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="The most memory to count with.")] = "4G",
    threads: ThreadsOption = None,
    scheduler: SchedulerOption = None,
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
    name = Path(output).name if is_remote(output) else output
    with resumable(cooccurrences or Path(f"{name}.words")):
        counts = pbos.count(
            texts_of(text),
            output,
            column=column,
            min_count=min_count,
            lowercase=lowercase,
            pretokenized=pretokenized,
            cooccurrences=cooccurrences,
            window=window,
            add=add,
            resume=resume,
            memory=memory,
            threads=threads,
            scheduler=scheduler,
        )
    note(f"wrote {output}: {len(counts):,} words, {int(counts.counts.sum()):,} times in all")


@with_settings("max_vectors")
def learn(
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="Text, possibly compressed, tables, or a folder of co-occurrences; by default stdin."
        ),
    ] = None,
    *,
    output: OutputOption,
    force: ForceOption = False,
    column: ColumnOption = None,
    dims: Annotated[int, typer.Option(min=1, help="The number of dimensions.")] = 100,
    window: WindowOption = 5,
    min_count: Annotated[int, typer.Option(min=1, help="How often a word has to occur to get a word vector.")] = 2,
    max_words: Annotated[int, typer.Option(min=1, help="How many words get a word vector at most.")] = 500_000,
    lowercase: LowercaseOption = True,
    pretokenized: PretokenizedOption = False,
    vectors: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the word vectors too: .vec, .bin, .npz, .kv, ...")
    ] = None,
    counts: Annotated[str | None, typer.Option(metavar="FILE", help="Write the word counts too: .tsv or .csv.")] = None,
    cooccurrences: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the co-occurrences, to add text to them later.")
    ] = None,
    add: AddOption = False,
    resume: ResumeOption = False,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="The most memory to use.")] = "4G",
    dtype: Annotated[str, one_of(DTYPES, "How to store the vectors.")] = "float16",
    threads: ThreadsOption = None,
    scheduler: SchedulerOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Determines how frequent words are subsampled.")] = 0,
    **settings: Any,
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
    if add and cooccurrences is None:
        raise InputError("--add needs the folder to add to; give it with --cooccurrences")
    folder = absolute(Path(output).name if is_remote(output) else output)
    kept = cooccurrences or folder.with_name(f"{folder.name}.counting")
    goes_on = resume and (kept.exists() or kept.with_name(f"{kept.name}.parts").exists())
    check_output(output, replace=force or goes_on or add)
    if absolute(kept) == folder and not is_remote(output):
        raise InputError(f"the model and the co-occurrences cannot both be saved to {output}; choose another folder")
    with resumable(kept):
        model = pbos.learn(
            texts_of(text),
            column=column,
            dims=dims,
            window=window,
            min_count=min_count,
            max_words=max_words,
            lowercase=lowercase,
            pretokenized=pretokenized,
            vectors=vectors,
            counts=counts,
            cooccurrences=kept,
            add=add,
            resume=resume,
            dtype=dtype,
            output=output,
            memory=memory,
            threads=threads,
            scheduler=scheduler,
            seed=seed,
            **settings,
        )
    if cooccurrences is None:
        remove(kept)
    facts = model.info["learning"]
    note(f"read {facts['tokens']:,} words, {facts['distinct']:,} of them distinct")
    note_saved(model, output)


def texts_of(names: list[str] | None) -> Path | list[Path]:
    """Return the files to read; without any, stdin."""
    if not names and sys.stdin.isatty():
        note("reading text from the keyboard; end with Ctrl-D")
    paths = [Path(name) if name else to_local_path(name) for name in names or ["-"]]  # Path("") would be this folder
    return paths[0] if len(paths) == 1 else paths


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say how to go on, if counting into a folder is interrupted."""
    before = folder.exists()
    try:
        yield
    except (PbosError, OSError, Interrupted):
        if not before and (folder.exists() or folder.with_name(f"{folder.name}.parts").exists()):
            note(f"what was counted is in {folder}*; to go on, use --resume, or else remove it")
        raise
