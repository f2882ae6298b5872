"""The command learn: a model from text."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pbos.cli.common import ThreadsOption, note, one_of, prepare, with_settings
from pbos.cli.files import OutputOption, solver_facts
from pbos.errors import InputError, PbosError
from pbos.files import absolute, is_remote
from pbos.settings import DTYPES


@with_settings("max_vectors")
def learn(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Text, possibly compressed, or tables; without files, stdin is read."),
    ] = None,
    *,
    output: OutputOption,
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tables: the column of text; by default the only one of strings.")
    ] = None,
    dims: Annotated[int, typer.Option(min=1, help="The number of dimensions.")] = 100,
    window: Annotated[
        int, typer.Option(min=1, max=100, help="How many words apart two words may be to count as near.")
    ] = 5,
    min_count: Annotated[int, typer.Option(min=1, help="How often a word has to occur to get a word vector.")] = 2,
    max_words: Annotated[int, typer.Option(min=1, help="How many words get a word vector at most.")] = 500_000,
    lowercase: Annotated[bool, typer.Option(help="Change text to lower case.")] = True,
    pretokenized: Annotated[bool, typer.Option("--pretokenized", help="Words are what stands between spaces.")] = False,
    vectors: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the word vectors too: .vec, .bin, .npz, .kv, ...")
    ] = None,
    counts: Annotated[str | None, typer.Option(metavar="FILE", help="Write the word counts too, as .tsv.")] = None,
    cooccurrences: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the co-occurrences, to add text to them later.")
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add the text to the co-occurrences in the folder.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the same command was interrupted.")] = False,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="The most memory to count and factor with.")] = "4G",
    dtype: Annotated[str, one_of(DTYPES, "How to store the vectors.")] = "float16",
    threads: ThreadsOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Determines how frequent words are thinned out.")] = 0,
    **settings: Any,
) -> None:
    """Learn a model from text: count which words occur near each other, factor the counts, train on the word vectors.

    Words count as near within a line. They are letters, digits and marks, with apostrophes and hyphens between them;
    text in which spaces do not separate words has to be cut before (--pretokenized).

    \b
    Examples:
      pbos learn corpus.txt -o my-model
      pbos learn 'texts/*.txt.gz' --dims 200 --vectors words.vec -o my-model
      pbos learn corpus.txt --cooccurrences counted -o my-model
      pbos learn more.txt --add --cooccurrences counted -o my-model
      pbos learn reviews.parquet --column text --memory 8G -o my-model
    """
    prepare()
    import pbos
    from pbos.storage import check_writable

    check_writable(output)
    if add and cooccurrences is None:
        raise InputError("--add needs the folder to add to; give it with --cooccurrences")
    folder = absolute(Path(output).name if is_remote(output) else output)
    kept = cooccurrences or folder.with_name(f"{folder.name}.cooccurrences")
    if absolute(kept) == folder and not is_remote(output):
        raise InputError(f"the model and the co-occurrences cannot both be saved to {output}; choose another folder")
    before = kept.exists()
    if not text and sys.stdin.isatty():
        note("reading text from the keyboard; end with Ctrl-D")
    try:
        model = pbos.learn(
            [Path(name) for name in text or ["-"]],
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
            memory=memory,
            threads=threads,
            seed=seed,
            **settings,
        )
    except (PbosError, KeyboardInterrupt):
        if not before and (kept.exists() or kept.with_name(f"{kept.name}.parts").exists()):
            note(f"what was counted is in {kept}*; to go on, use --resume, or else remove it")
        raise
    model.save(output)
    if cooccurrences is None:
        shutil.rmtree(kept)
    facts = model.info["learning"]
    note(f"read {facts['tokens']:,} words, {facts['distinct']:,} of them distinct")
    note(f"saved to {output}: {len(model):,} words, {len(model.subword_vectors):,} subword vectors x {model.dims}")
    for name, value in solver_facts(model.info["training"]).items():
        note(f"{name}: {value}")
