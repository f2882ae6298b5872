"""Commands about spelling: segment, explain."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import pbos
from pbos.cli import options
from pbos.cli.common import batches, check_column, words_from, write, write_result
from pbos.errors import InputError, one_line
from pbos.files.atomic import write_whole

NumberOption = Annotated[int, Option("-n", "--number", min=1, help="The number of segmentations.")]


@options.with_options(object, "boundaries", "types", "min_prob_words", "em_rounds")
def segment(
    words: options.Words = None,
    model: options.Model = None,
    counts: options.Counts = None,
    input: options.Input = None,
    column: options.Column = None,
    number: NumberOption = 1,
    sample: Annotated[int, Option(min=0, help="Draw this many segmentations at random instead.")] = 0,
    seed: Annotated[int | None, Option(min=0, help="Make --sample repeatable.")] = None,
    json: options.Json = False,
    **given: Any,
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
    segmenter = segmenter_of(model, counts, **given)
    seed = secrets.randbits(64) if seed is None else seed
    done = 0
    for batch in batches(words_from(words, input, column)):
        if sample:  # by the position of the words, so that the draws do not depend on the size of batches
            found = segmenter.subwords.sample(batch, sample, seed, first=done)
        else:
            found = segmenter.segment(batch, number)
        done += len(batch)
        for word, segmentations in zip(batch, found, strict=True):
            rows = [(word, "/".join(one.pieces), f"{one.probability:.3f}") for one in segmentations]
            write_result(json, {"word": word, "segmentations": [one._asdict() for one in segmentations]}, rows)


def explain(
    words: options.Words = None,
    model: options.Model = None,
    counts: options.Counts = None,
    input: options.Input = None,
    column: options.Column = None,
    number: NumberOption = 5,
    neighbors: Annotated[
        int | None, Option(min=1, help="Show the N nearest training words; by default 10 in JSON, none in text.")
    ] = None,
    svg: Annotated[str | None, Option(metavar="FILE", help="Draw the lattice of one word.")] = None,
    json: options.Json = False,
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
    nearest = {} if neighbors is None else {"neighbors": neighbors}
    if nearest and not hasattr(segmenter, "neighbors"):
        raise InputError("--neighbors needs a model, which has vectors; leave it out")
    if svg is not None:
        if Path(svg).suffix not in (".svg", ""):
            raise InputError(f"{svg}: --svg writes SVG; choose a name that ends in .svg")
        if words is None or len(words) != 1:
            raise InputError("--svg draws one word; give a single one")
    for at, word in enumerate(words_from(words, input, column)):
        explanation = segmenter.explain(word, number, **nearest)
        if svg is not None:
            with write_whole(svg) as stream:
                stream.write(explanation.svg().encode())
        if json:
            write_result(json, explanation.to_dict(), ())
            continue
        write(f"\n{explanation}" if at else str(explanation))
        if nearest:
            write("  nearest words")
            for near, cosine in explanation.neighbors:
                write(f"    {one_line(near)}  {cosine:.3f}")


def segmenter_of(model: str | None, counts: str | None, **given: Any) -> pbos.Segmenter:
    """Return a model or a saved segmenter, or a segmenter made from counts with some settings."""
    if counts is not None:
        if model is not None:
            raise InputError("give a model with --model or counts with --counts, not both")
        return pbos.Segmenter.from_counts(counts, **given)
    if given:
        option = f"--{next(iter(given)).replace('_', '-')}"
        raise InputError(f"{option} needs word counts; give them with --counts, or leave it out")
    from pbos.files.model_folder import folder_of, load_folder, resolve_model

    folder = resolve_model(model)
    has_vectors = "vectors" in load_folder(folder_of(folder), layout={})[1]
    return pbos.load(model) if has_vectors else pbos.Segmenter.load(folder)
