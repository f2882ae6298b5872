"""Commands about spelling: segment, explain."""

from __future__ import annotations

import secrets
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

import pbos
from pbos.cli.common import (
    ColumnOption,
    CountsOption,
    InputOption,
    JsonOption,
    ModelOption,
    WordsArgument,
    batches,
    check_column,
    with_settings,
    words_from,
    write,
    write_json,
    write_row,
)
from pbos.errors import InputError, one_line
from pbos.files.atomic import write_whole

NumberOption = Annotated[int, typer.Option("-n", "--number", min=1, help="The number of segmentations.")]


@with_settings("boundaries", "types", "min_prob_words", "em_rounds")
def segment(
    words: WordsArgument = None,
    model: ModelOption = None,
    counts: CountsOption = None,
    input: InputOption = None,
    column: ColumnOption = None,
    number: NumberOption = 1,
    sample: Annotated[int, typer.Option(min=0, help="Draw this many segmentations at random instead.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Make --sample repeatable.")] = None,
    json: JsonOption = False,
    **settings: Any,
) -> None:
    """Cut words into subwords, with the probability of each cut.

    With --counts, no model is needed; the options from --boundaries on are for counts. Those of the third example cut
    words closer to their stems and affixes. The model can also be a saved segmenter.

    \b
    Examples:
      pbos segment higher
      pbos segment -n 3 penpineapplepie --counts unigram_freq.csv
      pbos segment -c unigram_freq.csv --boundaries --types --min-prob-words 2 --em-rounds 10 unfriendliness
      pbos segment --sample 5 --seed 1 unfriendliest
      pbos segment --json -i words.txt
    """
    check_column(column, input)
    segmenter = segmenter_of(model, counts, **settings)
    seed = secrets.randbits(64) if seed is None else seed
    done = 0
    for batch in batches(words_from(words, input, column)):
        if sample:  # by the position of the words, so that the draws do not depend on the size of batches
            found = segmenter.subwords.sample(batch, sample, seed, first=done)
        else:
            found = segmenter.segment(batch, number)
        done += len(batch)
        for word, segmentations in zip(batch, found, strict=True):
            if json:
                write_json({"word": word, "segmentations": [one._asdict() for one in segmentations]})
            else:
                for one in segmentations:
                    write_row(word, "/".join(one.pieces), f"{one.probability:.3f}")


def explain(
    words: WordsArgument = None,
    model: ModelOption = None,
    counts: CountsOption = None,
    input: InputOption = None,
    column: ColumnOption = None,
    number: NumberOption = 5,
    neighbors: Annotated[
        int | None, typer.Option(min=1, help="Show the N nearest training words; by default 10 in JSON, none in text.")
    ] = None,
    svg: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the lattice of one word.")] = None,
    json: JsonOption = False,
) -> None:
    """Show why a word gets its vector: segmentations and weights.

    \b
    Examples:
      pbos explain unfriendliest
      pbos explain --neighbors 5 unfriendliest
      pbos explain higher --counts en
      pbos explain higher --svg higher.svg
      pbos explain --json higher
    """
    check_column(column, input)
    segmenter = segmenter_of(model, counts)
    options = {} if neighbors is None else {"neighbors": neighbors}
    if options and not hasattr(segmenter, "neighbors"):
        raise InputError("--neighbors needs a model, which has vectors; leave it out")
    given = words_from(words, input, column)
    if svg is not None:
        if Path(svg).suffix not in (".svg", ""):
            raise InputError(f"{svg}: --svg writes SVG; choose a name that ends in .svg")
        some = list(islice(given, 2))
        if len(some) != 1:
            raise InputError("--svg draws one word; give a single one")
        given = iter(some)
    for at, word in enumerate(given):
        explanation = segmenter.explain(word, number, **options)
        if svg is not None:
            with write_whole(svg) as stream:
                stream.write(explanation.svg().encode())
        if json:
            write_json(explanation.to_dict())
            continue
        write(f"\n{explanation}" if at else str(explanation))
        if options:
            write("  nearest words")
            for near, cosine in explanation.neighbors:
                write(f"    {one_line(near)}  {cosine:.3f}")


def segmenter_of(model: str | None, counts: str | None, **settings: Any) -> pbos.Segmenter:
    """Return a model, or a segmenter from a folder or from counts.

    Args:
        model: The folder; None for the English model.
        counts: Word counts to use instead.
        **settings: Settings for the counts (see `Segmenter.from_counts`).
    """
    if counts is None and settings:
        option = f"--{next(iter(settings)).replace('_', '-')}"
        raise InputError(f"{option} needs word counts; give them with --counts, or leave it out")
    if counts is not None and model is not None:
        raise InputError("give a model with --model or counts with --counts, not both")
    if counts is not None:
        return pbos.Segmenter.from_counts(counts, **settings)
    from pbos.files.model_folder import folder_of, load_folder, resolve_model

    place = resolve_model(model)
    return pbos.load(model) if "vectors" in load_folder(folder_of(place), layout={})[1] else pbos.Segmenter.load(place)
