"""Commands that look at spelling: segment, explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pbos.cli.common import (
    BATCH,
    InputOption,
    JsonOption,
    ModelOption,
    WordsArgument,
    batches,
    load_model,
    prepare,
    words_from,
    write,
    write_json,
)

if TYPE_CHECKING:
    from pbos.segmenter import Segmenter

CountsOption = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--counts",
        metavar="FILE",
        help="Segment by word counts alone (csv, tsv, jsonl, or a language code such as en), without a model.",
    ),
]
NumberOption = Annotated[int, typer.Option("-n", "--number", min=1, help="How many segmentations.")]


def segment(
    words: WordsArgument = None,
    model: ModelOption = None,
    counts: CountsOption = None,
    input: InputOption = None,
    number: NumberOption = 1,
    sample: Annotated[int, typer.Option(min=0, help="Draw so many at random instead of the best.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Makes --sample repeatable.")] = None,
    boundaries: Annotated[
        bool, typer.Option("--boundaries", help="With --counts: write words with < and > around them.")
    ] = False,
    types: Annotated[
        bool, typer.Option("--types", help="With --counts: count every word once instead of by its count.")
    ] = False,
    min_count: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --counts: leave out subwords that fewer words hold, but for single characters; by default 1.",
        ),
    ] = None,
    em_rounds: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="With --counts: fit the subword probabilities to the words so many times (EM); by default 0.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Cut words into subwords, with the probability of each segmentation.

    \b
    Examples:
      pbos segment higher
      pbos segment -n 3 penpineapplepie --counts unigram_freq.csv
      pbos segment -c unigram_freq.csv --boundaries --types --min-count 2 --em-rounds 2 unfriendliness
      pbos segment --sample 5 --seed 1 unfriendliest
      pbos segment --json -i words.txt
    """
    flags = {"boundaries": boundaries or None, "types": types or None}
    settings = {**flags, "min_count": min_count, "em_rounds": em_rounds}
    given = {name: value for name, value in settings.items() if value is not None}
    segmenter = segmenter_of(model, counts, **given)
    for batch in batches(words_from(words, input), BATCH):
        found = segmenter.sample(batch, sample, seed) if sample else segmenter.segment(batch, number)
        for word, segmentations in zip(batch, found, strict=True):
            if json:
                pieces = [{"pieces": list(one.pieces), "probability": one.probability} for one in segmentations]
                write_json({"word": word, "segmentations": pieces})
            else:
                for one in segmentations:
                    write(f"{word}\t{'/'.join(one.pieces)}\t{one.probability:.3f}")


def explain(
    words: WordsArgument = None,
    model: ModelOption = None,
    counts: CountsOption = None,
    input: InputOption = None,
    number: NumberOption = 5,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the lattice of one word.")] = None,
    json: JsonOption = False,
) -> None:
    """Show why a word gets its vector: its segmentations and the weights of its subwords.

    \b
    Examples:
      pbos explain unfriendliest
      pbos explain higher --counts en
      pbos explain higher --svg higher.svg
      pbos explain --json higher
    """
    from pbos.errors import InputError
    from pbos.files import write_whole

    segmenter = segmenter_of(model, counts)
    for at, word in enumerate(words_from(words, input)):
        explanation = segmenter.explain(word, number)
        if svg is not None:
            if at:
                raise InputError("--svg draws one word; give a single one")
            with write_whole(svg) as stream:
                stream.write(explanation.svg().encode())
        if json:
            write_json(explanation.lattice.to_dict(number))
        else:
            write(f"\n{explanation}" if at else str(explanation))


def segmenter_of(model: str | None, counts: str | None, **settings: Any) -> Segmenter:
    """Return what cuts words: a model, or counts alone, for which there are settings (see `Segmenter.from_counts`)."""
    from pbos.errors import InputError

    if counts is None:
        if settings:
            option = f"--{next(iter(settings)).replace('_', '-')}"
            raise InputError(f"{option} is about word counts; give them with -c, or leave it out")
        return load_model(model)
    if model is not None:
        raise InputError("give a model with -m or counts with -c, not both")
    prepare()
    from pbos.segmenter import Segmenter

    return Segmenter.from_counts(counts, **settings)
